"""The console script `ggml`: one module per command; `python -m ggml` is the same."""

import argparse
import os
import sys
import warnings

import ggml

from .._errors import without_function
from . import (
    bench,
    chat,
    demo,
    dot,
    embed,
    finetune,
    imatrix,
    info,
    inspect,
    onnx,
    perplexity,
    quantize,
    replace_bindings,
    run,
    view,
)  # fmt: skip

# Each module has add_arguments(parser) and run(options). The first line of its docstring is the help text.
COMMANDS = {
    "info": info, "demo": demo, "run": run, "chat": chat, "embed": embed, "bench": bench, "perplexity": perplexity,
    "finetune": finetune, "inspect": inspect, "view": view, "quantize": quantize, "imatrix": imatrix, "dot": dot,
    "onnx": onnx, "replace-bindings": replace_bindings,
}  # fmt: skip


def parser():
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(prog="ggml", description="The ggml tensor library for Python.", allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"ggml-cython {ggml.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        text = (module.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        command.set_defaults(name=name, run=module.run)
        module.add_arguments(command)
    return top


def main(arguments=None):
    """Runs a command and returns its exit status; errors in or with files are reported in one line."""
    options = parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda text, *_: print(f"ggml {options.name}: warning: {text}", file=sys.stderr)
            return options.run(options) or 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `ggml info | head -1`: the reader has closed the pipe
        sys.stderr.close()
        return 1
    except (ValueError, TypeError, OSError, MemoryError, RuntimeError, ImportError) as error:
        text = message(error).removeprefix(f"{options.name}: ")  # some functions have a command's name
        print(f"ggml {options.name}: {text}", file=sys.stderr)
        return 1


def message(error):
    """The text of an error: for one of the system, the file and the problem, without the number."""
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, (str, bytes)):
        return f"{os.fsdecode(error.filename)}: {without_function(error.strerror)}"
    return str(error)
