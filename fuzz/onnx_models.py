"""Loads and runs mutants of ONNX models. Each gives outputs or an exception: no crash, no hang. For operands of further
sizes, a model gives what one gives that sees these first.

    python fuzz/onnx_models.py --seconds 600

The models are those of onnx's own tests, those of the tests of the domain com.microsoft, models of scikit-learn, and
some with functions, overloads, sparse and external tensors. A mutant has bytes, attributes, names, shapes, types or
nodes changed. The memory is limited, and so is the time of a mutant; the last one
is in the file --last, for a crash to be looked into. A mutant that loops, or that asks for a million of anything, may
take its time: it is interrupted and counted as "long".
"""

import argparse
import itertools
import math
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

import ggml.onnx

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path += [str(TESTS), str(TESTS / "onnx_models")]
import sklearn_models  # noqa: E402
import test_onnx_attention  # noqa: E402
import test_onnx_microsoft  # noqa: E402
from cases.harness import SANITIZED  # noqa: E402
from small_onnx import model as model_of  # noqa: E402

ALLOWED = (ValueError, TypeError, RuntimeError, MemoryError, OSError)
# Sizes of gigabytes take long; larger ones do not fit into the memory.
LARGE = [(1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63)]
NUMBERS = [0, 1, -1, 2, 3, 5, 7, 64, *LARGE]
MUCH = 1 << 20  # a size or number from which on a model may take long
LIMIT = 20  # seconds for a mutant
COUNTING = ("Loop", "SequenceMap", "Range", "AffineGrid", "TfIdfVectorizer")  # as far as a value of the model says


class SlowError(BaseException):  # no handler of other errors catches it
    """A mutant took too long."""


def mutate(proto, dice):
    """Changes a model in place."""
    nodes = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    names = [n for node in nodes for n in [*node.input, *node.output]] + [""]
    kind = dice.randrange(11)
    node = dice.choice(nodes)
    if kind == 0 and node.attribute:
        a = dice.choice(list(node.attribute))
        if a.ints:
            a.ints[dice.randrange(len(a.ints))] = dice.choice(NUMBERS)
        elif a.type == onnx.AttributeProto.INT:
            a.i = dice.choice(NUMBERS)
        elif a.floats:
            a.floats[dice.randrange(len(a.floats))] = dice.choice([0.0, 1e30, float("inf"), float("nan")])
        elif a.strings:
            a.strings[dice.randrange(len(a.strings))] = dice.choice([b"", b"LEAF", b"BRANCH_GT", b"\xff"])
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
    elif kind == 8:
        stored = [entry for t in proto.graph.initializer for entry in t.external_data]
        if stored:
            dice.choice(stored).value = dice.choice(["0", "1", "-1", "12", "1e3", "", "..", "/", "data", str(1 << 62)])
    elif kind == 9 and proto.functions:
        function = dice.choice(list(proto.functions))
        function.overload = dice.choice(["", "up", "down"])
        if function.input:
            function.input[dice.randrange(len(function.input))] = dice.choice(names)
    else:
        for i in proto.graph.input:
            i.type.tensor_type.ClearField("shape")


def messages(message):
    """A protobuf message and all that it contains."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if isinstance(value, Iterable) else [value]:
                yield from messages(item)


def counts(model):
    """Whether a model runs as long as a value of it says, which may be forever."""
    return any(m.op_type in COUNTING for m in messages(model) if isinstance(m, onnx.NodeProto))


def integers(message):
    """The integers of a message: its fields, and the elements of a tensor."""
    for _, value in message.ListFields():
        yield from (n for n in (value if isinstance(value, Iterable) else [value]) if isinstance(n, int))
    if isinstance(message, TensorProto) and message.data_type in (TensorProto.INT32, TensorProto.INT64):
        dtype = np.dtype("<i4" if message.data_type == TensorProto.INT32 else "<i8")
        size = len(message.raw_data) // dtype.itemsize
        yield from np.frombuffer(message.raw_data, dtype, size).tolist()


def may_take_long(data, inputs):
    """Whether a mutant loops, or has a large integer: a number of elements, steps or samples."""
    arrays = [a.astype(float) for a in inputs if isinstance(a, np.ndarray) and a.dtype.kind in "iu"]
    if any((np.abs(a) >= MUCH).any() for a in arrays):
        return True
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        return False
    return counts(model) or any(abs(n) >= MUCH for m in messages(model) for n in integers(m))


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


def microsoft():
    """The models of the tests of com.microsoft, as cases of onnx.backend.test."""
    for module, constants in itertools.product((test_onnx_attention, test_onnx_microsoft), (False, True)):
        for name in module.CASES:
            model, feeds, _ = module.case_of(name, module.inputs(name) if constants else range(99))
            yield SimpleNamespace(name=name, model=model, data_sets=[(list(feeds.values()), [])])


def scikit_learn():
    """The recorded models of scikit-learn."""
    with np.load(sklearn_models.DATA) as file:
        for name in sorted({key.rpartition("/")[0] for key in file.files}):
            x = file[name + "/x"][:4]
            x = x.astype(object) if x.dtype.kind == "U" else x
            model = onnx.ModelProto.FromString(file[name + "/model"].tobytes())
            yield SimpleNamespace(name=name, model=model, data_sets=[([x], [])])


def own():
    """Models with functions, overloads, sparse constants, and tensors that are stored in the file "data"."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    node, opsets = helper.make_node, [helper.make_opsetid("", 21)]
    bodies = {"up": [node("Add", ["a", "a"], ["b"])], "down": [node("Neg", ["a"], ["b"])]}
    functions = [helper.make_function("own", "f", ["a"], ["b"], body, opsets, overload=k) for k, body in bodies.items()]
    nodes = [node("f", [a], [b], domain="own", overload=k) for a, b, k in (("x", "u", "up"), ("u", "y", "down"))]
    yield SimpleNamespace(
        name="functions",
        data_sets=[([x], [])],
        model=model_of(nodes, {"x": x}, domains=[("own", 1)], functions=functions),
    )
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "s")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1, 5]), "i"), [2, 3])
    nodes = [node("Constant", [], ["c"], sparse_value=sparse), node("Add", ["x", "c"], ["y"])]
    made = model_of(nodes, {"x": x})
    made.graph.sparse_initializer.append(sparse)
    yield SimpleNamespace(name="sparse", model=made, data_sets=[([x], [])])
    for kind in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT4, TensorProto.BFLOAT16):
        made = model_of([node("Cast", ["w"], ["v"], to=TensorProto.FLOAT), node("Add", ["x", "v"], ["y"])], {"x": x})
        stored = made.graph.initializer.add(name="w", data_type=kind, dims=[2, 3], data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "data"), ("offset", "4"), ("length", "48")):
            stored.external_data.add(key=key, value=value)
        yield SimpleNamespace(name="external", model=made, data_sets=[([x], [])])


def attempt(data, inputs, folder, others):
    """Loads and runs a mutant, from a file if it has external tensors; the kind of exception, or "".

    Operands of other sizes follow, for which a model that has seen none gives the same.
    """
    try:
        path = Path(folder, "model.onnx")
        path.write_bytes(data)
        source = path if b"location" in data else data
        model = ggml.onnx.load(source, threads=1)
        model.run(*inputs)
    except ALLOWED as error:
        return type(error).__name__
    for k, operands in enumerate(others):
        found = outcome(model, operands)
        fresh = [outcome(ggml.onnx.load(source, threads=1), operands) for _ in range(2)]
        if found != fresh[0] == fresh[1]:  # those of random operators in functions differ
            shapes = [[np.shape(a) for a in v] for v in (inputs, *others[: k + 1])]
            raise AssertionError(f"with shapes {shapes}: {found!r:.200} instead of {fresh[0]!r:.200}")
    return ""


def outcome(model, operands):
    """What a model gives for operands, in a form that can be compared: NaN are equal, and so are exceptions."""
    try:
        return [(a.shape, a.tobytes()) if hasattr(a, "tobytes") else repr(a) for a in model.run(*operands)]
    except ALLOWED:
        return "an exception"


def other_sizes(inputs, dice):
    """Operands some of whose dimensions have another size, unless they would be large."""
    sizes = sorted({n for a in inputs if isinstance(a, np.ndarray) for n in a.shape if 1 < n < 100})
    if not sizes:
        return inputs
    old = dice.choice(sizes)
    new = old + dice.choice((-1, 1, 2, 7, old))

    def resized(a):
        return np.resize(a, shape_of(a)) if isinstance(a, np.ndarray) else a

    def shape_of(a):
        return [new if n == old else n for n in a.shape]

    if any(math.prod(shape_of(a)) > 5000 for a in inputs if isinstance(a, np.ndarray)):
        return inputs
    return [resized(a) for a in inputs]


def late(signum, frame):
    raise SlowError


OPERATORS: list[str] = []
# Operators that go on with their numbers when a model runs again, also with a seed.
DRAWN = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
LENIENT = {"CenterCropPad"}  # onnx's reference takes more sizes than there are axes, its function does not


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--last", default="/tmp/onnx-fuzz-last.onnx", help="file for the mutant that is tried")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    signal.signal(signal.SIGALRM, late)
    dice, found = random.Random(options.seed), Counter()
    np.random.seed(options.seed)
    cases = [c for c in load_model_tests(kind="node") if c.model is not None and c.model.ByteSize() < 20000]
    cases += [c for c in microsoft() for _ in range(4)]  # a quarter of all mutants
    cases += [c for c in scikit_learn() for _ in range(8)] + [c for c in own() for _ in range(50)]
    folder = tempfile.TemporaryDirectory()
    Path(folder.name, "data").write_bytes(bytes(range(64)))
    OPERATORS.extend(sorted({n.op_type for c in cases for n in c.model.graph.node}))
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        case = dice.choice(cases)
        proto = onnx.ModelProto()
        proto.CopyFrom(case.model)
        for _ in range(dice.randrange(3)):
            mutate(proto, dice)
        others = dice.random() < 0.3 and not any(n.op_type in DRAWN | LENIENT for n in proto.graph.node)
        for info in proto.graph.input if others else ():
            if info.type.WhichOneof("value") == "tensor_type":
                info.type.tensor_type.ClearField("shape")
        data = bytearray(proto.SerializeToString())
        if dice.random() < 0.2:
            for _ in range(dice.randrange(1, 4)):
                data[dice.randrange(len(data))] = dice.randrange(256)
        inputs = [numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for v in case.data_sets[0][0]]
        Path(options.last).write_bytes(data)
        data, inputs = bytes(data), operands(proto, inputs, dice)
        further = [other_sizes(inputs, dice) for _ in range(4)] if others else []
        signal.setitimer(signal.ITIMER_REAL, LIMIT, 1)  # again each second: an exception in a finaliser is lost
        try:
            found[attempt(data, inputs, folder.name, further) or "outputs"] += 1
        except SlowError:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if may_take_long(data, inputs):
                found["long"] += 1
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
