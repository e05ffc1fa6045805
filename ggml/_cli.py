"""The console script `ggml`: one function a subcommand; `python -m ggml` is the same."""

import argparse
import platform
import sys
from importlib import import_module

DEMO_NEEDS = {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "tqdm": "tqdm", "graphviz": "graphviz"}


def between(low, high):
    """An argparse type: a whole number from low to high."""

    def number(text):
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low:,} to {high:,}")
        return value

    return number


def info(options):
    """Version, compiler, threads and instruction sets of this build on this machine."""
    from importlib.metadata import PackageNotFoundError, version

    from ggml import _core

    try:
        number = version("ggml-cython")
    except PackageNotFoundError:
        number = "(not installed)"
    build = _core.build_info()
    print(f"ggml-cython {number}, CPython {platform.python_version()}, {platform.system()} {platform.machine()}")
    print(f"compiler  {build['compiler']}")
    print(f"threads   {build['threads']} by default")
    print("instruction sets built:")
    for isa in _core.isa_info():
        state = "chosen" if isa["chosen"] else "supported" if isa["supported"] else "not supported"
        print(f"  {isa['name']:<12}{state:<15}{isa['needs']}")
    return 0


def demo(options):
    """Trains a small network on handwritten digits; writes a picture of the training and the graph."""
    from ggml import _core

    for module, package in DEMO_NEEDS.items():
        try:
            import_module(module)
        except ModuleNotFoundError:
            print(f"ggml demo: {package} is missing: pip install 'ggml-cython[demo]'", file=sys.stderr)
            return 1
    from ggml import demo as training

    try:
        training.run(options.seed, options.epochs, options.threads or _core.build_info()["threads"], options.out)
    except OSError as error:
        print(f"ggml demo: {error}", file=sys.stderr)
        return 1
    return 0


def inspect(options):
    """What is in a GGUF file: keys, tensors, and how much of which type."""
    from ggml import _inspect

    return _reported("inspect", lambda: _inspect.run(options.file, options.json))


def quantize(options):
    """Writes a GGUF file with its weights in another type; 1-d tensors stay as they are."""
    from ggml import _quantize

    def run():
        options.type = options.type.upper()
        if options.type not in _quantize.MIXES:
            raise _quantize.Unfit(f"{options.type!r} is no type to quantise to: need one of {', '.join(_quantize.MIXES)}")
        for name in ("output_tensor_type", "token_embedding_type"):
            if getattr(options, name):
                setattr(options, name, _quantize.type_name(getattr(options, name)))
        options.tensor_type = [(p, _quantize.type_name(kind)) for p, kind in options.tensor_type]
        print(*_quantize.run(options), sep="\n")

    return _reported("quantize", run)


def dot(options):
    """Draws a graph that ggml_graph_export wrote: as SVG, or in Graphviz's language."""
    from ggml import _dot

    return _reported("dot", lambda: _dot.run(options.file, options.out))


def _reported(command, run):
    """Errors in the file or with it, as one line."""
    try:
        run()
    except BrokenPipeError:
        raise
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        print(f"ggml {command}: {error}", file=sys.stderr)
        return 1
    return 0


def equation(text):
    """An argparse type: PATTERN=TYPE."""
    pattern, _, kind = text.rpartition("=")
    if not pattern or not kind:
        raise argparse.ArgumentTypeError(f"{text!r} is not PATTERN=TYPE")
    return pattern, kind


def parser():
    top = argparse.ArgumentParser(prog="ggml", description="The ggml tensor library for Python.", allow_abbrev=False)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(function):
        text = function.__doc__
        command = commands.add_parser(function.__name__, help=text, description=text, allow_abbrev=False)
        command.set_defaults(run=function)
        return command

    add(info)
    command = add(demo)
    command.add_argument("--seed", type=between(0, 2**32 - 1), default=0, help="of all that is random (%(default)s)")
    command.add_argument("--epochs", type=between(1, 100_000), default=120, help="passes over the digits (%(default)s)")
    command.add_argument("--threads", type=between(1, 512), help="to compute with (all the process may use)")
    command.add_argument("--out", default="ggml-demo", metavar="DIR", help="folder to write into (%(default)s)")
    command = add(inspect)
    command.add_argument("file", metavar="FILE")
    command.add_argument("--json", action="store_true", help="everything, as JSON")
    command = add(quantize)
    command.add_argument("input", metavar="IN")
    command.add_argument("output", metavar="OUT")
    command.add_argument("type", metavar="TYPE", help="such as Q4_K_M, Q8_0, IQ4_XS, F16; Q4_K is Q4_K_M")
    command.add_argument("--imatrix", metavar="FILE", help="importance matrix of llama.cpp, as GGUF or .dat")
    command.add_argument("--pure", action="store_true", help="one type for all weights, no mixture")
    command.add_argument("--allow-requantize", action="store_true", help="convert weights that are quantised already")
    command.add_argument("--leave-output-tensor", action="store_true", help="leave output.weight as it is")
    command.add_argument("--output-tensor-type", metavar="TYPE", help="of output.weight")
    command.add_argument("--token-embedding-type", metavar="TYPE", help="of token_embd.weight")
    command.add_argument("--tensor-type", metavar="PATTERN=TYPE", type=equation, action="append", default=[],
                         help="of weights whose name fits, as in 'blk.*.ffn_down.weight=q6_k'; may be repeated")  # fmt: skip
    command.add_argument("--dry-run", action="store_true", help="only list what would be done")
    command.add_argument("--verbose", action="store_true", help="list every tensor")
    command = add(dot)
    command.add_argument("file", metavar="FILE")
    command.add_argument("-o", "--out", metavar="OUT", help="file to write: SVG if it ends in .svg, else DOT (DOT on standard output)")
    return top


def main(arguments=None):
    options = parser().parse_args(arguments)
    try:
        return options.run(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `ggml info | head -1`: the reader has gone
        sys.stderr.close()
        return 1
