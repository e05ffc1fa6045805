"""Shows what is in an ONNX model and what of it would run where; or runs it."""

import argparse
from collections import Counter

import numpy as np

from .._io.files import check_outputs


def shape(text):
    """An argument NAME=2,3,4."""
    name, _, numbers = text.partition("=")
    try:
        return name, [int(n) for n in numbers.split(",") if n]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=2,3,4") from None


def add_arguments(parser):
    parser.add_argument("file", metavar="MODEL")
    parser.add_argument("--run", dest="data", metavar="INPUTS.npz", help="run the model on the arrays of a file")
    parser.add_argument("-o", "--out", metavar="OUTPUTS.npz", help="write the outputs (with --run)")
    parser.add_argument("--shape", metavar="NAME=2,3,4", type=shape, action="append", default=[],
                        help="shape of an input for the overview (default: 1 for open dimensions)")
    parser.add_argument("--threads", type=int, metavar="N", help="number of threads (default: one per usable CPU)")
    parser.add_argument("--weights", choices=["f16", "q8_0", "q4_0"], help="type to store matrices in")
    parser.add_argument("--strict", action="store_true", help="fail if an operator would run on the host")


def describe(info):
    """One line about an input or output."""
    dims = "?" if info.shape is None else ", ".join(str("?" if d is None else d) for d in info.shape)
    return f"  {info.name:<30} {info.dtype or info.kind} [{dims}]"


def blank(info, shapes):
    """Zeros for an input."""
    if info.kind != "tensor" or info.dtype is None:
        raise ValueError(f"input {info.name!r} is a {info.kind}: use --run")
    dims = shapes.get(info.name) or [d if isinstance(d, int) and d >= 0 else 1 for d in info.shape or ()]
    return np.zeros(dims, info.dtype)


def read_arrays(path):
    """The arrays of an .npz file by their names. What NumPy raises for a damaged file depends on the damage."""
    try:
        with np.load(path) as arrays:
            return dict(arrays)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(f"{path}: need an .npz file of arrays: {error}") from error


def run(options):
    import ggml.onnx

    check_outputs([options.out], [options.file, options.data])
    model = ggml.onnx.load(options.file, threads=options.threads, weights=options.weights, strict=options.strict)
    if options.data:
        outputs = model.run(read_arrays(options.data))
        for info, array in zip(model.outputs, outputs):
            print(f"{info.name}: {array.dtype} {list(array.shape)}")
            print(np.array2string(array, threshold=20, edgeitems=3))
        if options.out:
            np.savez(options.out, **{i.name: a for i, a in zip(model.outputs, outputs)})
        return
    print("inputs", *map(describe, model.inputs), "outputs", *map(describe, model.outputs), sep="\n")
    entries = model.report({i.name: blank(i, dict(options.shape)) for i in model.inputs})
    print("operators")
    for (where, op), n in sorted(Counter((e.where, e.op) for e in entries).items()):
        print(f"  {where:<10} {op:<30} {n}")
    for entry in entries:
        if entry.where == "host":
            print(f"on the host: {entry.name} ({entry.op}): {entry.why}")
