"""The console script `ggml`: one module per command; `python -m ggml` is the same."""

import argparse
import contextlib
import sys
import warnings

import ggml

from . import (
    bench,
    chat,
    convert,
    demo,
    dot,
    embed,
    finetune,
    imatrix,
    info,
    inspect,
    merge,
    onnx,
    perplexity,
    quantize,
    rank,
    replace_bindings,
    run,
    serve,
    view,
)  # fmt: skip
from .output import discard_output, error_text, flush, show_any_character
from .paths import model_path

# Each module has add_arguments(parser) and run(options). The first line of its docstring is the help text.
COMMANDS = {
    "info": info, "demo": demo, "run": run, "chat": chat, "serve": serve, "embed": embed, "rank": rank, "bench": bench,
    "perplexity": perplexity, "finetune": finetune, "inspect": inspect, "view": view, "convert": convert,
    "quantize": quantize, "imatrix": imatrix, "merge": merge, "dot": dot, "onnx": onnx,
    "replace-bindings": replace_bindings,
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
    show_any_character()
    options = parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda text, *_: print(
                f"ggml {options.name}: warning: {str(text).removeprefix(options.name + ': ')}", file=sys.stderr
            )
            find_models(options)
            code = options.run(options) or 0
        flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `ggml info | head -1`: the reader has closed the pipe
        discard_output()
        return 1
    except (ValueError, TypeError, OSError, MemoryError, RuntimeError, ImportError) as error:
        with contextlib.suppress(OSError):
            flush()
        print(f"ggml {options.name}: {error_text(error, options.name)}", file=sys.stderr)
        return 1


def find_models(options):
    """Replaces the models that options name by the paths of their files (see add_model)."""
    for name, suffix in getattr(options, "models", ()):
        given = getattr(options, name)
        found = [model_path(path, suffix) for path in given] if isinstance(given, list) else model_path(given, suffix)
        setattr(options, name, found)
