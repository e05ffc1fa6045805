"""Compares single operations in ggml.onnx with onnxruntime and OpenVINO.

    pip install '.[onnx]' onnxruntime openvino
    python benchmarks/onnx_operations.py

Each library has a process of its own, and they run alternately. The figures are the best times in microseconds.
"""

import argparse
import functools
import importlib
import importlib.util
import math
import sys
import tempfile
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_models import REST, Server, runner, timed

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
PLANES = np.random.default_rng(0).standard_normal((1, 32, 64, 64)).astype(np.float32)
MATRIX = np.random.default_rng(1).standard_normal((256, 1024)).astype(np.float32)
ROWS = np.random.default_rng(2).standard_normal((1000, 64)).astype(np.float32)
SOUND = np.random.default_rng(3).standard_normal((1, 64, 4200)).astype(np.float32)
SPEECH = np.random.default_rng(3).standard_normal((1, 64, 5000)).astype(np.float32)


def one(op, *operands, kind=F32, constants=(), **attrs):
    """The nodes, inputs, constants and outputs of one operation; constants: the numbers of operands that are some."""
    names = [f"i{k}" for k in range(len(operands))]
    given = {n: np.asarray(v) for k, (n, v) in enumerate(zip(names, operands)) if k not in constants}
    kept = {n: np.asarray(v) for k, (n, v) in enumerate(zip(names, operands)) if k in constants}
    return [helper.make_node(op, names, ["y"], **attrs)], given, kept, {"y": kind}


def padded(mode, value=0.0):
    pads = np.array([0, 0, 2, 2, 0, 0, 2, 2])
    more = [np.float32(value)] if mode == "constant" else []
    return one("Pad", PLANES, pads, *more, constants=(1, 2), mode=mode)


def resized(factor):
    scales = np.array([1, 1, factor, factor], np.float32)
    nodes, given, kept, outputs = one("Resize", PLANES, scales, constants=(1,), mode="linear")
    nodes[0].input[:] = ["i0", "", "i1"]
    return nodes, given, kept, outputs


def grouped(groups):
    """GroupNormalization, as exporters of opsets before 18 write it."""
    shapes = {"apart": np.array([1, groups, -1]), "whole": np.array(PLANES.shape)}
    line = {"ones": np.ones(groups, np.float32), "zeros": np.zeros(groups, np.float32)}
    nodes = [
        helper.make_node("Reshape", ["x", "apart"], ["a"]),
        helper.make_node("InstanceNormalization", ["a", "ones", "zeros"], ["n"]),
        helper.make_node("Reshape", ["n", "whole"], ["y"]),
    ]
    return nodes, {"x": PLANES}, {**shapes, **line}, {"y": F32}


def scattered(op, reduction, width=32):
    """5,000 rows that are combined with 1,000 others, as in networks of graphs."""
    random = np.random.default_rng(4)
    updates = random.standard_normal((5000, width)).astype(np.float32)
    index = np.repeat(random.integers(0, 1000, (5000, 1)), width, 1)
    zeros = np.zeros((1000, width), np.float32)
    return one(op, zeros, index, updates, axis=0, reduction=reduction)


def scattered_rows(**attrs):
    random = np.random.default_rng(5)
    index = random.permutation(1000)[:500, None]
    return one("ScatterND", ROWS, index, random.standard_normal((500, 64)).astype(np.float32), **attrs)


def chain(n):
    """n nodes, one after the other, of 16 elements."""
    names = ["x", *(f"n{i}" for i in range(n - 1)), "y"]
    ops = ["Sin", "Neg", "Abs", "Tanh", "Cos"]
    nodes = [helper.make_node(ops[i % len(ops)], [names[i]], [names[i + 1]]) for i in range(n)]
    return nodes, {"x": np.linspace(-2, 2, 16, dtype=np.float32)}, {}, {"y": F32}


def loop(n):
    """A Loop of n turns, each of which adds to and multiplies a vector."""
    vector, scalar = [helper.make_tensor_value_info(name, F32, shape) for name, shape in (("v", [64]), ("w", [64]))]
    turn, go = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("turn", I64), ("go", BOOL))]
    on = helper.make_tensor_value_info("on", BOOL, [])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Add", ["v", "step"], ["sum"]),
            helper.make_node("Mul", ["sum", "factor"], ["w"]),
        ],
        "turn",
        [turn, go, vector],
        [on, scalar],
    )
    kept = {
        "n": np.array(n),
        "yes": np.array(True),
        "step": np.full(64, 0.01, np.float32),
        "factor": np.full(64, 0.99, np.float32),
    }
    node = helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)
    return [node], {"x": np.ones(64, np.float32)}, kept, {"y": F32}


def recurrent(op, gates, steps=100, width=64):
    """One direction of a recurrent network."""
    random = np.random.default_rng(6)
    x = random.standard_normal((steps, 1, width)).astype(np.float32)
    w, r = (0.1 * random.standard_normal((1, gates * width, width)).astype(np.float32) for _ in range(2))
    return one(op, x, w, r, constants=(1, 2), hidden_size=width)


def convolved(x, dilation, taps=3):
    w = 0.1 * np.random.default_rng(7).standard_normal((64, 64, taps)).astype(np.float32)
    return one("Conv", x, w, constants=(1,), dilations=[dilation])


def transposed(taps, **attrs):
    """A transposed convolution of 64 channels to 32 with a stride of 2."""
    w = 0.1 * np.random.default_rng(8).standard_normal((64, 32, taps, taps)).astype(np.float32)
    x = np.random.default_rng(9).standard_normal((1, 64, 32, 32)).astype(np.float32)
    return one("ConvTranspose", x, w, constants=(1,), strides=[2, 2], pads=[1] * 4, **attrs)


def sampled(**attrs):
    """Planes at as many random places as they have elements."""
    places = np.random.default_rng(10).uniform(-1, 1, (1, 64, 64, 2)).astype(np.float32)
    return one("GridSample", PLANES, places, **attrs)


def suppressed(boxes, classes, least):
    """Boxes of random sizes and scores, of which at most 100 of each class stay."""
    random = np.random.default_rng(11)
    corner = random.random((1, boxes, 2)).astype(np.float32)
    size = (0.2 * random.random((1, boxes, 2))).astype(np.float32)
    places, scores = np.concatenate([corner, corner + size], 2), random.random((1, classes, boxes)).astype(np.float32)
    numbers = np.array([100]), np.array([0.5], np.float32), np.array([least], np.float32)
    return one("NonMaxSuppression", places, scores, *numbers, kind=I64, constants=(2, 3, 4))


def normalised(width):
    """LayerNormalization of 1,000 rows."""
    w, b = np.random.default_rng(12).standard_normal((2, width)).astype(np.float32)
    return one("LayerNormalization", rows(width), w, b, constants=(1, 2))


def rows(width):
    return np.random.default_rng(13).standard_normal((1000, width)).astype(np.float32)


def picked():
    """Elements of each column at random places."""
    x = MATRIX.reshape(16, -1)
    return one("GatherElements", x, np.random.default_rng(14).integers(0, 16, x.shape), axis=0)


def copied():
    """Sums with a constant and with three of its copies."""
    nodes = [helper.make_node("Identity", ["c"], [f"c{i}"]) for i in range(3)]
    nodes += [helper.make_node("Sum", ["x", "c", "c0", "c1", "c2"], ["y"])]
    return nodes, {"x": MATRIX}, {"c": MATRIX}, {"y": F32}


CASES = {
    "Erf, 256x1024": lambda: one("Erf", MATRIX),
    "InstanceNormalization, 32x64x64": lambda: one(
        "InstanceNormalization", PLANES, np.ones(32, np.float32), np.zeros(32, np.float32), constants=(1, 2)
    ),
    "GroupNormalization of 8 groups, 32x64x64": lambda: grouped(8),
    "Pad with zeros, 32x64x64": lambda: padded("constant"),
    "Pad with another number, 32x64x64": lambda: padded("constant", 1.5),
    "Pad by reflection, 32x64x64": lambda: padded("reflect"),
    "Pad by edges, 32x64x64": lambda: padded("edge"),
    "Resize, linear, twice 32x64x64": lambda: resized(2),
    "Resize, linear, half of 32x64x64": lambda: resized(0.5),
    "Max with a number, 256x1024": lambda: one("Max", MATRIX, np.float32(0.5), constants=(1,)),
    "Min with a number, 256x1024": lambda: one("Min", MATRIX, np.float32(0.5), constants=(1,)),
    "Max of two, 256x1024": lambda: one("Max", MATRIX, MATRIX[::-1].copy()),
    "Equal, 256x1024": lambda: one("Equal", MATRIX, MATRIX[::-1].copy(), kind=BOOL),
    "Greater, 256x1024": lambda: one("Greater", MATRIX, MATRIX[::-1].copy(), kind=BOOL),
    "Where, 256x1024": lambda: one("Where", MATRIX > 0, MATRIX, MATRIX[::-1].copy()),
    "ScatterElements, sum of 5,000 rows": lambda: scattered("ScatterElements", "add"),
    "ScatterElements, maximum of 5,000 rows": lambda: scattered("ScatterElements", "max"),
    "ScatterND, sum": lambda: scattered_rows(reduction="add"),
    "ScatterND": scattered_rows,
    "GRU, 100 steps of 64": lambda: recurrent("GRU", 3),
    "LSTM, 100 steps of 64": lambda: recurrent("LSTM", 4),
    "Conv, dilation of 2,048, 104 positions": lambda: convolved(SOUND, 2048),
    "Conv, dilation of 4, 4,192 positions": lambda: convolved(SOUND, 4),
    "Conv, dilation of 16, 8 positions": lambda: convolved(SOUND[:, :, :40].copy(), 16),
    "ConvTranspose, 3x3, 64 channels of 32x32": lambda: transposed(3, output_padding=[1, 1]),
    "ConvTranspose, 4x4, 64 channels of 32x32": lambda: transposed(4),
    "GridSample, 32x64x64": sampled,
    "GridSample, nearest, 32x64x64": lambda: sampled(mode="nearest"),
    "NonMaxSuppression of 500 boxes, 3 classes": lambda: suppressed(500, 3, 0.5),
    "NonMaxSuppression of 8,400 boxes, 80 classes": lambda: suppressed(8400, 80, 0.99),
    "GatherElements, 16x16384": picked,
    "LayerNormalization of 1,000 rows of 30": lambda: normalised(30),
    "LayerNormalization of 1,000 rows of 64": lambda: normalised(64),
    "Softmax of 1,000 rows of 30": lambda: one("Softmax", rows(30)),
    "LogSoftmax of 1,000 rows of 64": lambda: one("LogSoftmax", rows(64)),
    "ReduceMin of 1,000 rows of 64, down": lambda: one("ReduceMin", rows(64), np.array([0]), constants=(1,)),
    "ReduceMax of integers, 1,000 rows of 64": lambda: one(
        "ReduceMax", (1000 * rows(64)).astype(np.int64), np.array([1]), kind=I64, constants=(1,)
    ),
    "Sum with copies of a constant": copied,
    "10 nodes of 16 elements": lambda: chain(10),
    "50 nodes of 16 elements": lambda: chain(50),
    "Loop of 647 iterations": lambda: loop(647),
}


def model_of(nodes, given, kept, outputs):
    """A ModelProto."""
    kinds = {n: helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in given.items()}
    graph = helper.make_graph(
        nodes,
        "operation",
        [helper.make_tensor_value_info(n, kinds[n], v.shape) for n, v in given.items()],
        [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()],
        [numpy_helper.from_array(v, n) for n, v in kept.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def serve(library, name, threads):
    """Answers the lines of the standard input, seconds to run, with the best time."""
    importlib.import_module({"ours": "ggml.onnx", "before": "ggml.onnx"}.get(library, library))
    nodes, given, kept, outputs = CASES[name]()
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model_of(nodes, given, kept, outputs).SerializeToString())
        file.flush()
        run = functools.partial(runner(library, file.name, threads), *given.values())
    for _ in range(3):
        run()
    print(0, flush=True)
    for text in sys.stdin:
        print(timed(run, float(text)), flush=True)


def measured(name, args):
    """The best times of all libraries in seconds; NaN where one cannot run the model."""
    servers = {library: Server(library, name, args, args.threads, __file__) for library in args.libraries}
    for _ in range(args.rounds):
        for server in servers.values():
            time.sleep(REST)
            server.run(args.seconds)
    for server in servers.values():
        server.close()
    return {library: server.best if math.isfinite(server.best) else math.nan for library, server in servers.items()}


def line(name, found):
    """A row of the table: times in microseconds, the others' divided by ours."""
    others = [times for library, times in found.items() if library != "ours"]
    cells = [f"{1e6 * t:.3g}" for t in found.values()] + [f"{t / found['ours']:.2f}" for t in others]
    return f"| {name} | {' | '.join('–' if c == 'nan' else c for c in cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1, help="number of threads")
    parser.add_argument("--only", default="", help="part of the names of the cases to measure")
    parser.add_argument("--seconds", type=float, default=0.05, help="time of each turn of a library")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each library")
    parser.add_argument("--before", metavar="DIR", help="the folder of another copy of this library")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(*args.serve, args.threads)
        return
    there = [k for k in ("onnxruntime", "openvino") if importlib.util.find_spec(k)]
    args.libraries = ["ours", *(["before"] if args.before else []), *there]
    others = [k for k in args.libraries if k != "ours"]
    cells = ["case", *args.libraries, *(f"speed to {k}" for k in others)]
    print(f"| {' | '.join(cells)} |\n| --- |{' ---: |' * (len(cells) - 1)}")
    for name in CASES:
        if args.only in name:
            print(line(name, measured(name, args)), flush=True)


if __name__ == "__main__":
    main()
