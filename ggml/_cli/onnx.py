"""Shows what is in an ONNX model and what of it would run where; or runs it."""

import argparse
import io
import zipfile
from collections import Counter

import numpy as np

from .._io.files import check_outputs, save
from .arguments import add_model, between


def shape(text):
    """An argument NAME=2,3,4."""
    name, _, numbers = text.rpartition("=")
    try:
        dims = [int(n) for n in numbers.split(",") if n]
    except ValueError:
        dims = [-1]
    if not name or min(dims, default=0) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=2,3,4")
    return name, dims


def add_arguments(parser):
    add_model(parser, "file", ".onnx", metavar="MODEL", help="ONNX file, or an installed package with one")
    parser.add_argument("--run", dest="data", metavar="INPUTS.npz", help="run the model on the arrays of a file")
    parser.add_argument("-o", "--out", metavar="OUTPUTS.npz", help="write the outputs (with --run)")
    parser.add_argument(
        "--shape",
        metavar="NAME=2,3,4",
        type=shape,
        action="append",
        default=[],
        help="shape of an input for the overview (default: 1 for open dimensions)",
    )
    parser.add_argument("--threads", type=between(1, 512), metavar="N", help="threads (default: all CPUs)")
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
    found = {}
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
        with np.load(path) as arrays:
            for name in names:
                found[name] = arrays[name]
    except (OSError, MemoryError):
        raise
    except zipfile.BadZipFile:
        raise ValueError(f"{path}: need an .npz file: arrays by their names, as numpy.savez writes them") from None
    except Exception as error:
        why = "it has Python objects" if "pickle" in str(error) else error
        raise ValueError(f"{path}: need an .npz file: array {names[len(found)]!r} cannot be read: {why}") from None
    if other := [name for name, array in found.items() if not isinstance(array, np.ndarray)]:
        raise ValueError(f"{path}: need an .npz file of arrays: {other[0]!r} is none")
    return found


def packed(arrays):
    """The bytes of an .npz file; unlike with numpy.savez, names may be any."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as out:
        for name, array in arrays.items():
            with out.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return data.getvalue()


def show(name, value):
    """Prints an output: an array, or a sequence, map or None."""
    if isinstance(value, np.ndarray):
        print(f"{name}: {value.dtype} {list(value.shape)}")
        print(np.array2string(value, threshold=20, edgeitems=3))
    else:
        print(f"{name}: {type(value).__name__}", value, sep="\n")


def run(options):
    import ggml.onnx

    from ..onnx.model import UnknownOperatorError

    if options.out and not options.data:
        raise ValueError("--out needs --run: without it there are no outputs to write")
    if options.shape and options.data:
        raise ValueError("--shape is for the overview: with --run the arrays have their own shapes")
    check_outputs([options.out], [options.file, options.data])
    data = read_arrays(options.data) if options.data else None
    try:
        model = ggml.onnx.load(options.file, threads=options.threads, weights=options.weights, strict=options.strict)
    except UnknownOperatorError as error:
        if data is not None:
            raise
        print("operators without an implementation", *(f"  {n.op:<30} {n.name}" for n in error.nodes), sep="\n")
        raise
    if data is not None:
        outputs = dict(zip((info.name for info in model.outputs), model.run(data)))
        for name, value in outputs.items():
            show(name, value)
        if options.out:
            other = [name for name, value in outputs.items() if not isinstance(value, np.ndarray) or value.dtype == "O"]
            if other:
                raise ValueError(f"output {other[0]!r} is not an array of numbers: an .npz file cannot have it")
            save(options.out, packed(outputs), "--out")
        return
    names = [info.name for info in model.inputs]
    unknown = [name for name, _ in options.shape if name not in names]
    if unknown:
        raise ValueError(f"--shape names {unknown[0]!r}: need an input of the model: {', '.join(names)}")
    print("inputs", *map(describe, model.inputs), "outputs", *map(describe, model.outputs), sep="\n")
    entries = model.report({i.name: blank(i, dict(options.shape)) for i in model.inputs})
    print("operators")
    for (where, op), n in sorted(Counter((e.where, e.op) for e in entries).items()):
        print(f"  {where:<10} {op:<30} {n}")
    for entry in entries:
        if entry.where == "host":
            print(f"on the host: {entry.name} ({entry.op}): {entry.why}")
