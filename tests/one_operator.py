"""Models of one operator of the domain com.microsoft, for tests that compare them with NumPy and with onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

import ggml.onnx


def floats(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def codes(*shape, kind=np.uint8, seed=0):
    limits = np.iinfo(kind)
    return np.random.default_rng([seed, *shape]).integers(limits.min, limits.max + 1, shape).astype(kind)


def model_of(op, operands, outputs, fed=range(99), domain="com.microsoft", **attrs):
    """A model of one operator, and its inputs by name: the operands of the given numbers; others are constants."""
    names = [f"i{k}" if v is not None else "" for k, v in enumerate(operands)]
    feeds = {n: np.asarray(v) for k, (n, v) in enumerate(zip(names, operands)) if n and k in fed}
    node = helper.make_node(op, names, [f"o{k}" for k in range(outputs)], domain=domain, **attrs)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feeds.items()],
        [ValueInfoProto(name=n, type=TypeProto()) for n in node.output],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in zip(names, operands) if n and n not in feeds],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


def outcome(model, arrays):
    """What a model gives for arrays, or None if it raises an exception."""
    try:
        return model.run(*arrays)
    except (RuntimeError, ValueError, TypeError):
        return None


def other_sizes(model, arrays):
    """Checks that a model gives the same for sizes that follow others as for sizes that come first.

    Returns how many results were compared.
    """
    compared = 0
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.ClearField("shape")
    for size in {n for a in arrays for n in a.shape if 1 < n < 20}:
        used = ggml.onnx.load(model, threads=1)
        for new in (size, size + 1, size - 1, 2 * size):
            operands = [np.resize(a, [new if n == size else n for n in a.shape]) for a in arrays]
            wanted, found = outcome(ggml.onnx.load(model, threads=1), operands), outcome(used, operands)
            assert (wanted is None) == (found is None), (size, new)
            for a, want in zip(found or (), wanted or ()):
                assert a.dtype == want.dtype and a.shape == want.shape, (size, new)
                assert a.tobytes() == want.tobytes(), (size, new)
                compared += 1
    return compared


def near(got, wanted, tolerance):
    """Floats within a tolerance of the largest; integers within one step, and nearly all equal."""
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        assert a.shape == b.shape
        apart = np.abs(a.astype(np.float64) - b)
        if a.dtype.kind in "iu":
            assert apart.max() <= 1 and apart.mean() < 0.01
        else:
            assert apart.max() <= tolerance * max(np.abs(b).max(), 1)


def halved(model, feeds):
    """The same with numbers of type int8 that fit into 7 bits, which onnxruntime multiplies exactly on every CPU."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.INT8:
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(numpy_helper.to_array(tensor) // 2), tensor.name))
    return model, {n: np.asarray(v // 2) if v.dtype == np.int8 else v for n, v in feeds.items()}


def through_onnxruntime(model, feeds):
    """The outputs that onnxruntime computes; without it, the test is skipped. 1.15 crashes in some of them.

    On CPUs with AVX2 alone it adds pairs of products of bytes in 16 bits, which weights of 8 bits saturate: see halved.
    """
    runtime = pytest.importorskip("onnxruntime", minversion="1.32")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, feeds)
