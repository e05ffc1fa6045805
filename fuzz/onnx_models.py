"""Loads and runs mutants of ONNX models. Each gives outputs or an exception: no crash, no hang.

    python fuzz/onnx_models.py --seconds 600

The models are those of onnx's own tests. A mutant has bytes, attributes, names, shapes, types or nodes changed. The
memory is limited, and so is the time of a mutant; the last one is in the file --last, for a crash to be looked into.
"""

import argparse
import random
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

import ggml.onnx

ALLOWED = (ValueError, TypeError, RuntimeError, MemoryError, OSError)
# Sizes of gigabytes take long; larger ones do not fit into the memory.
LARGE = [(1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63)]
NUMBERS = [0, 1, -1, 2, 3, 5, 7, 64, *LARGE]


COUNTING = ("Loop", "SequenceMap", "Range", "AffineGrid", "TfIdfVectorizer")  # as far as a value of the model says


class SlowError(BaseException):  # no handler of other errors catches it
    """A mutant took too long."""


def mutate(proto, dice):
    """Changes a model in place."""
    nodes = list(proto.graph.node)
    names = [n for node in nodes for n in [*node.input, *node.output]] + [""]
    kind = dice.randrange(9)
    node = dice.choice(nodes)
    if kind == 0 and node.attribute:
        a = dice.choice(list(node.attribute))
        if a.ints:
            a.ints[dice.randrange(len(a.ints))] = dice.choice(NUMBERS)
        elif a.type == onnx.AttributeProto.INT:
            a.i = dice.choice(NUMBERS)
        elif a.type == onnx.AttributeProto.FLOAT:
            a.f = dice.choice([0.0, -1.0, 1e30, float("inf"), float("nan")])
        else:
            a.s = dice.choice([b"", b"SAME_UPPER", b"linear", b"\xff", b"x" * 100])
    elif kind == 1 and node.attribute:
        del node.attribute[dice.randrange(len(node.attribute))]
    elif kind == 2 and node.input:
        node.input[dice.randrange(len(node.input))] = dice.choice(names)
    elif kind == 3 and node.input:
        del node.input[dice.randrange(len(node.input))]
    elif kind == 4 and node.input:
        node.input.append(dice.choice(names))
    elif kind == 5:
        node.op_type = dice.choice(OPERATORS)
    elif kind == 6 and proto.graph.initializer:
        t = dice.choice(list(proto.graph.initializer))
        t.dims[:] = [dice.choice(NUMBERS) for _ in range(dice.randrange(4))]
    elif kind == 7:
        proto.opset_import[0].version = dice.choice([1, 6, 7, 9, 10, 11, 13, 18, 22, 28, 1000, -1])
    else:
        for i in proto.graph.input:
            i.type.tensor_type.ClearField("shape")


def counts(model):
    """Whether a model runs as long as a value of it says, which may be forever."""
    return any(n.op_type in COUNTING for n in model.graph.node)


def operands(proto, inputs, dice):
    """Inputs, some with another shape or other values: not large ones for what counts up to a value."""
    changed = list(inputs)
    loops = counts(proto)
    for _ in range(dice.randrange(3)):
        if not changed:
            break
        i = dice.randrange(len(changed))
        a = changed[i]
        if not isinstance(a, np.ndarray) or a.dtype.kind not in "fiub":
            continue
        if dice.random() < 0.5 and a.dtype.kind in "iu":
            info = np.iinfo(a.dtype)
            value = min(max(dice.choice([0, 1, 2, 5] if loops else NUMBERS), info.min), info.max)
            changed[i] = np.where(np.random.random(a.shape) < 0.5, a, np.array(value, a.dtype)).astype(a.dtype)
        else:
            shape = [dice.choice([0, 1, 2, 3, d]) for d in a.shape]
            changed[i] = np.resize(a, shape) if a.size else np.zeros(shape, a.dtype)
    return changed


def attempt(data, inputs):
    """Loads and runs a mutant; the kind of exception, or ""."""
    try:
        ggml.onnx.load(data, threads=1).run(*inputs)
    except ALLOWED as error:
        return type(error).__name__
    return ""


def late(signum, frame):
    raise SlowError


OPERATORS: list[str] = []


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--last", default="/tmp/onnx-fuzz-last.onnx", help="file for the mutant that is tried")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    signal.signal(signal.SIGALRM, late)
    dice, found, start = random.Random(options.seed), Counter(), time.time()
    np.random.seed(options.seed)
    cases = [c for c in load_model_tests(kind="node") if c.model is not None and c.model.ByteSize() < 20000]
    OPERATORS.extend(sorted({n.op_type for c in cases for n in c.model.graph.node}))
    while time.time() - start < options.seconds:
        case = dice.choice(cases)
        proto = onnx.ModelProto()
        proto.CopyFrom(case.model)
        for _ in range(dice.randrange(3)):
            mutate(proto, dice)
        data = bytearray(proto.SerializeToString())
        if dice.random() < 0.2:
            for _ in range(dice.randrange(1, 4)):
                data[dice.randrange(len(data))] = dice.randrange(256)
        inputs = [numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for v in case.data_sets[0][0]]
        Path(options.last).write_bytes(data)
        signal.setitimer(signal.ITIMER_REAL, 20, 1)  # again each second: an exception in a finaliser is lost
        try:
            found[attempt(bytes(data), operands(proto, inputs, dice)) or "outputs"] += 1
        except SlowError:
            if counts(proto):
                found["endless"] += 1
                continue
            print(f"slow: a mutant of {case.name}, {options.last}")
            return 1
        except Exception as error:
            print(f"a mutant of {case.name}: {type(error).__name__}: {error}; {options.last}")
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    print(sum(found.values()), "mutants:", dict(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
