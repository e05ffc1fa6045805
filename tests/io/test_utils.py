"""ggml.utils: the helpers of the bindings, with their errors corrected."""

import ctypes
import gc
import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases.harness import QUANTISED, gradients_graph, ramp

import ggml
from ggml import utils
from ggml.utils import GGML_TYPE

gguf = pytest.importorskip("gguf")  # part of the [test] extra; not installed on emulated CPUs

MIB = 1 << 20
DTYPES = [np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64]
# those that need no importance weights, and that the package gguf can decode
QUANTISED = [
    name
    for name in QUANTISED
    if not ggml.ggml_quantize_requires_imatrix(GGML_TYPE[name]) and name in gguf.GGMLQuantizationType.__members__
    and gguf.GGMLQuantizationType[name] in gguf.quants._type_traits
]  # fmt: skip


@pytest.fixture
def ctx():
    handle = ggml.ggml_init(ggml.ggml_init_params(mem_size=MIB))
    yield handle
    ggml.ggml_free(handle)


def noise(*shape):
    return np.random.default_rng(7).standard_normal(shape, np.float32)


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[1])


# ---- the surface -----------------------------------------------------------------------------------------------------
PARAMETERS = {
    "to_numpy": "tensor, shape=None",
    "from_numpy": "x, ctx",
    "copy_to_cpu": "ctx, tensor",
    "quantize_0": "data_f32, nelements, ne0, ttype, work=None, imatrix=None",
    "quantize_row": "data_f32, nelements, ttype, work=None",
    "dequantize_row": "data_q, nelements, ttype, work=None",
    "get_ndims": "tensor",
    "get_shape": "tensor",
    "get_strides": "tensor",
    "slice_tensor": "ctx, tensor, indices",
    "setup_sigabrt_handler": "",
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_signatures(name):
    function = getattr(utils, name)
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert str(signature.replace(parameters=bare, return_annotation=signature.empty)) == f"({PARAMETERS[name]})"
    assert function.__doc__


def test_tables():
    assert GGML_TYPE.Q4_K == ggml.GGML_TYPE_Q4_K == 12
    assert GGML_TYPE(0) is GGML_TYPE.F32
    assert not hasattr(GGML_TYPE, "COUNT")
    assert {GGML_TYPE.BF16, GGML_TYPE.Q8_K, GGML_TYPE.I64, GGML_TYPE.F64} <= set(GGML_TYPE)
    assert [utils.NUMPY_DTYPE_TO_GGML_TYPE[d].name for d in DTYPES] == ["F32", "F16", "F64", "I8", "I16", "I32", "I64"]
    assert all(utils.GGML_TYPE_TO_NUMPY_DTYPE[t] is d for d, t in utils.NUMPY_DTYPE_TO_GGML_TYPE.items())
    with pytest.raises(AttributeError, match="nonsense"):
        _ = utils.nonsense


def test_numpy_is_imported_when_needed():
    code = """
import sys, ggml, ggml.utils as u
ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=10000))
t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)
u.get_shape(t), memoryview(t), u.from_dlpack(ctx, t), u.from_numpy(memoryview(t), ctx)
before = "numpy" in sys.modules
u.to_numpy(t)
print([before, "numpy" in sys.modules, u.NUMPY_DTYPE_TO_GGML_TYPE is u.NUMPY_DTYPE_TO_GGML_TYPE])
"""
    out = python(code)
    assert not out.stderr
    assert json.loads(out.stdout.lower()) == [False, True, True]


# ---- from_numpy and to_numpy -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(ctx, dtype):
    for shape in [(5,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (3, 1), (1, 3), (0,), (0, 3), (3, 0)]:
        x = ramp(*shape, dtype=dtype)
        t = utils.from_numpy(x, ctx)
        assert t.contents.type == utils.NUMPY_DTYPE_TO_GGML_TYPE[dtype]
        assert t.contents.ne[: len(shape)] == list(reversed(shape))
        y = utils.to_numpy(t)
        assert y.dtype.type is dtype
        assert y.tolist() == x.reshape(y.shape).tolist()
        assert y.ndim == utils.get_ndims(t)


@pytest.mark.parametrize("order", "<>=")
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_strides_and_byte_order(ctx, dtype, order):
    x = ramp(6, 4, 5, dtype=dtype).astype(np.dtype(dtype).newbyteorder(order))
    for y in [x, x[::2], x[::-1], x[:, ::3, ::2], x.T, x.transpose(1, 0, 2), np.asfortranarray(x), x[2, 1], x[:, 1:2]]:
        t = utils.from_numpy(y, ctx)
        assert ggml.ggml_is_contiguous(t)
        assert utils.to_numpy(t, y.shape).tolist() == y.tolist()
    for y in [np.broadcast_to(x[0, 0], (3, 5)), np.array(dtype(3)), x[0, 0, 0]]:
        assert utils.to_numpy(utils.from_numpy(y, ctx)).tolist() == np.atleast_1d(y).tolist()


def test_unaligned_array(ctx):
    x = np.frombuffer(bytes(1) + ramp(5).tobytes(), np.uint8)[1:].view(np.float32)
    assert utils.to_numpy(utils.from_numpy(x, ctx)).tolist() == [0, 1, 2, 3, 4]
    fields = np.zeros(3, np.dtype([("a", "i1"), ("b", "f4")]))
    fields["b"] = [1, 2, 3]
    assert utils.to_numpy(utils.from_numpy(fields["b"], ctx)).tolist() == [1, 2, 3]


def test_longlong_is_int64(ctx):
    for dtype in "qlp":
        x = np.array([1, -2], dtype)
        t = utils.from_numpy(x, ctx)
        assert utils.to_numpy(t).dtype == x.dtype
        assert utils.to_numpy(t).tolist() == [1, -2]


def test_to_numpy_is_a_view(ctx):
    t = utils.from_numpy(ramp(2, 3), ctx)
    y = utils.to_numpy(t)
    y[1, 2] = 8
    assert ggml.ggml_get_f32_nd(t, 2, 1, 0, 0) == 8
    assert y.flags.writeable


def test_to_numpy_shapes(ctx):
    t = utils.from_numpy(ramp(4, 6), ctx)
    assert utils.to_numpy(t, (2, 3)).tolist() == ramp(4, 6)[:2, :3].tolist()
    assert utils.to_numpy(t, shape=(24,)).tolist() == ramp(24).tolist()
    assert utils.to_numpy(t, [6, 4]).tolist() == ramp(6, 4).tolist()
    assert utils.to_numpy(t, (1, 4, 6)).shape == (1, 4, 6)
    for bad in [(5, 6), (25,), (4, 7)]:
        with pytest.raises(ValueError, match=r"to_numpy: shape is .*the tensor has \(4, 6\)"):
            utils.to_numpy(t, bad)


def test_bf16_is_decoded(ctx):
    t = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_BF16, 37, 3)
    bits = np.asarray(t)
    bits[:] = np.random.default_rng(1).integers(0, 0x7F00, bits.shape)
    want = (bits.astype(np.uint32) << 16).view(np.float32)
    got = utils.to_numpy(t)
    assert got.dtype == np.float32
    assert got.tolist() == want.tolist()
    x = t.contents
    x.ne[0], x.ne[1], x.nb[0], x.nb[1] = x.ne[1], x.ne[0], x.nb[1], x.nb[0]
    assert utils.to_numpy(t).tolist() == want.T.tolist()


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_is_decoded(ctx, name):
    x = noise(2, 3, 512)
    t = ggml.ggml_new_tensor_3d(ctx, GGML_TYPE[name], 512, 3, 2)
    packed = np.asarray(t)
    for i, j in np.ndindex(2, 3):
        row = np.ascontiguousarray(x[i, j])
        utils.quantize_row(row.ctypes.data_as(ctypes.c_void_p), 512, GGML_TYPE[name], packed[i, j].ctypes.data)
    want = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType[name])
    got = utils.to_numpy(t)
    assert (got.dtype, got.shape) == (np.float32, (2, 3, 512))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    assert np.linalg.norm(got - x) < 0.95 * np.linalg.norm(x)
    x = t.contents
    x.ne[1], x.ne[2], x.nb[1], x.nb[2] = x.ne[2], x.ne[1], x.nb[2], x.nb[1]
    assert utils.to_numpy(t).tolist() == got.transpose(1, 0, 2).tolist()


def test_views_outlive_the_context():
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=MIB))
    y = utils.to_numpy(utils.from_numpy(ramp(100), ctx))[10:20]
    ggml.ggml_free(ctx)
    gc.collect()
    assert y.tolist() == ramp(100)[10:20].tolist()


def test_from_numpy_without_data():
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=MIB, no_alloc=True))
    t = utils.from_numpy(ramp(2, 3), ctx)
    assert utils.get_shape(t) == (3, 2)
    assert ggml.ggml_get_data(t) is None
    with pytest.raises(ValueError, match="to_numpy: .*no data"):
        utils.to_numpy(t)
    ggml.ggml_free(ctx)


@pytest.mark.parametrize("bad, text", [
    (np.array([1, 2], np.uint8), r"uint8: .*x\.astype\(numpy\.float32\)"),
    (np.array([True]), "bool"),
    (np.array([1j]), "complex128"),
    (np.array([None, 1]), "object"),
    (np.array(["a"]), "<U1"),
    (np.array([1], "datetime64[s]"), "datetime64"),
    (np.zeros(2, [("a", "f4")]), "a"),
    (b"bytes", "dtype B"),
    (None, "NoneType"),
    ([1.0, 2.0], "list"),
    (3.0, "float"),
])  # fmt: skip
def test_from_numpy_of_no_array(ctx, bad, text):
    with pytest.raises(TypeError, match=f"from_numpy: .*{text}"):
        utils.from_numpy(bad, ctx)


def test_bad_arguments(ctx):
    with pytest.raises(ValueError, match="from_numpy: x has 5 dimensions"):
        utils.from_numpy(np.zeros((1, 1, 1, 1, 1), np.float32), ctx)
    with pytest.raises(MemoryError, match="from_numpy: the context is full"):
        utils.from_numpy(np.zeros(MIB, np.float32), ctx)
    for function in (utils.to_numpy, utils.get_shape, utils.get_strides, utils.get_ndims):
        with pytest.raises(TypeError, match=f"{function.__name__}: tensor is None"):
            function(None)
        with pytest.raises(ValueError, match=f"{function.__name__}: .*NULL"):
            function(ggml.ggml_tensor_p())
    other = ggml.ggml_init(ggml.ggml_init_params(mem_size=MIB))
    t = utils.from_numpy(ramp(3), other)
    ggml.ggml_free(other)
    with pytest.raises(RuntimeError, match="to_numpy: .*freed"):
        utils.to_numpy(t)
    with pytest.raises(RuntimeError, match="from_numpy: .*not a live context"):
        utils.from_numpy(ramp(3), other)
    with pytest.raises(TypeError, match="from_numpy: ctx is None"):
        utils.from_numpy(ramp(3), None)


# ---- shapes ----------------------------------------------------------------------------------------------------------
def test_shape_and_strides(ctx):
    t = ggml.ggml_new_tensor_4d(ctx, ggml.GGML_TYPE_F16, 5, 4, 3, 1)
    assert utils.get_ndims(t) == 3
    assert utils.get_shape(t) == (5, 4, 3)
    assert utils.get_strides(t) == (2, 10, 40)


SLICES = [
    slice(None), slice(1, 3), slice(0, 4, 2), slice(1, None, 3), slice(-3, -1), slice(None, 100), slice(2, 3),
    slice(-100, None, 2), slice(3, 3), slice(0, 0),
]  # fmt: skip


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_slices(ctx, ndim):
    x = ramp(4, 5, 6, 7)[(0,) * (4 - ndim)]
    t = utils.from_numpy(x, ctx)
    rng = np.random.default_rng(ndim)
    picks = [[s] * ndim for s in SLICES] + [[SLICES[i] for i in rng.integers(0, 8, ndim)] for _ in range(20)]
    for indices in picks:
        view = utils.slice_tensor(ctx, t, indices)
        want = x[tuple(reversed(indices))]
        assert view.contents.ne[:ndim] == list(reversed(want.shape))
        assert utils.to_numpy(view, want.shape).tolist() == want.tolist()
        if want.size:
            assert np.shares_memory(utils.to_numpy(view), utils.to_numpy(t))


@pytest.mark.parametrize("indices", [
    [slice(1, 6, 2)], [slice(None, None, 3), slice(1, 3)], [slice(2, 5), slice(0, 4, 2)],
])  # fmt: skip
def test_gradients_of_slices(ctx, indices):
    x = ramp(3, 4, 7)[(0,) * (3 - len(indices))]
    t = utils.from_numpy(x, ctx)
    ggml.ggml_set_param(t)
    graph = gradients_graph(ctx, ggml.ggml_sqr(ctx, utils.slice_tensor(ctx, t, indices)))
    ggml.ggml_graph_reset(graph)
    assert ggml.ggml_graph_compute_with_ctx(ctx, graph, 1) == 0
    want = np.zeros_like(x)
    want[tuple(reversed(indices))] = 2 * x[tuple(reversed(indices))]
    assert utils.to_numpy(ggml.ggml_graph_get_grad(graph, t)).tolist() == want.tolist()


def test_gradient_of_a_view_with_gaps_in_its_rows(ctx):
    t = utils.from_numpy(ramp(2, 2, 2, 6), ctx)
    ggml.ggml_set_param(t)
    loss = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, utils.slice_tensor(ctx, t, [slice(0, 6, 2)] + [slice(None)] * 3)))
    ggml.ggml_set_loss(loss)
    graph = ggml.ggml_new_graph_custom(ctx, 100, True)
    ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    ggml.ggml_graph_reset(graph)
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
    want = 2 * ramp(2, 2, 2, 6)
    want[..., 1::2] = 0
    np.testing.assert_array_equal(utils.to_numpy(ggml.ggml_graph_get_grad(graph, t)), want)


def test_slices_of_quantised_tensors(ctx):
    t = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_Q4_0, 128, 4)
    np.asarray(t)[:] = ramp(4, 72, dtype=np.uint8)
    view = utils.slice_tensor(ctx, t, [slice(32, 96), slice(1, 4, 2)])
    assert np.asarray(view).tolist() == np.asarray(t)[1:4:2, 18:54].tolist()
    for bad in (slice(1, 33), slice(0, 16), slice(0, 128, 2)):
        with pytest.raises(ValueError, match="slice_tensor: .*blocks of 32"):
            utils.slice_tensor(ctx, t, [bad, slice(None)])


def test_bad_slices(ctx):
    t = utils.from_numpy(ramp(4, 6), ctx)
    for error, indices in [
        (ValueError, [slice(None)]),
        (ValueError, [slice(None)] * 3),
        (ValueError, [slice(None, None, -1), slice(None)]),
        (ValueError, [slice(None), slice(0, 4, 0)]),
        (TypeError, [1, slice(None)]),
        (TypeError, [slice(0.5, 2), slice(None)]),
    ]:
        with pytest.raises(error):
            utils.slice_tensor(ctx, t, indices)


def test_copy_to_cpu(ctx):
    for x in (ramp(3, 4), ramp(3, 4, dtype=np.int32)):
        t = utils.from_numpy(x, ctx)
        copy = utils.copy_to_cpu(ctx, t)
        graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(graph, copy)
        assert ggml.ggml_graph_compute_with_ctx(ctx, graph, 1) == 0
        assert utils.to_numpy(copy).tolist() == x.tolist()
        assert not np.shares_memory(utils.to_numpy(copy), utils.to_numpy(t))


def decoded(data, name):
    """The values that an independent implementation decodes from quantised bytes."""
    return gguf.quants.dequantize(np.frombuffer(data, np.uint8), gguf.GGMLQuantizationType[name])


# ---- quantising ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", QUANTISED)
def test_rows(name):
    x = noise(512)
    data = (ctypes.c_float * 512)(*x)
    kind = GGML_TYPE[name]
    packed = utils.quantize_row(data, 512, kind)
    size = ggml.ggml_row_size(kind, 512)
    want = decoded(ctypes.string_at(packed, size), name)
    out = (ctypes.c_float * 512)()
    assert utils.dequantize_row(packed, 512, kind, out) is out
    np.testing.assert_allclose(out[:], want, rtol=1e-6, atol=1e-6)
    array = np.zeros(512, np.float32)
    assert utils.dequantize_row(packed, 512, kind, array) is array
    assert np.array_equal(array, np.frombuffer(out, np.float32, 512))
    fresh = utils.dequantize_row(packed, 512, kind)
    assert isinstance(fresh, ctypes.c_void_p)
    assert ctypes.string_at(fresh, 2048) == bytes(out)


def test_rows_are_checked():
    data = (ctypes.c_float * 64)()
    with pytest.raises(ValueError, match="quantize_row: data_f32 has 256 bytes: need 512"):
        utils.quantize_row(data, 128, GGML_TYPE.Q4_0)
    with pytest.raises(ValueError, match="quantize_row: work has 4 bytes: need 36"):
        utils.quantize_row(data, 64, GGML_TYPE.Q4_0, (ctypes.c_uint8 * 4)())
    with pytest.raises(ValueError, match="quantize_row: nelements is 33: need a multiple of q4_0's block of 32"):
        utils.quantize_row(data, 33, GGML_TYPE.Q4_0)
    with pytest.raises(ValueError, match="dequantize_row: work has 256 bytes: need 512"):
        utils.dequantize_row((ctypes.c_uint8 * 100)(), 128, GGML_TYPE.Q4_0, data)
    with pytest.raises(ValueError, match="dequantize_row: data_q is NULL"):
        utils.dequantize_row(None, 32, GGML_TYPE.Q4_0)
    with pytest.raises(ValueError, match="dequantize_row: i32 can't be decoded"):
        utils.dequantize_row(data, 32, GGML_TYPE.I32)
    with pytest.raises(ValueError, match="quantize_row: ttype is 999"):
        utils.quantize_row(data, 32, 999)


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q6_K"])
def test_quantize_0(name):
    x = noise(4, 256)
    data = (ctypes.c_float * x.size)(*x.ravel())
    kind = GGML_TYPE[name]
    size = 4 * ggml.ggml_row_size(kind, 256)
    results = []
    for nelements in (x.size, 4):  # a number of elements or, as the bindings take it, of rows
        out, written = utils.quantize_0(data, nelements, 256, kind)
        assert written == size
        results.append(ctypes.string_at(out, size))
    assert results[0] == results[1]
    want = decoded(results[0], name)
    assert np.abs(want.reshape(x.shape) - x).max() < 0.5
    work = (ctypes.c_float * x.size)()
    out, _ = utils.quantize_0(data, x.size, 256, kind, work, (ctypes.c_float * 256)(*([1.0] * 256)))
    assert out.value == ctypes.addressof(work)
    with pytest.raises(ValueError, match="quantize_0: nelements is 300"):
        utils.quantize_0(data, 300, 256, kind)


def test_sigabrt_handler_prints_the_stack():
    code = "import os, ggml.utils as u\nu.setup_sigabrt_handler()\ndef named_here(): os.abort()\nnamed_here()"
    out = python(code)
    assert out.returncode != 0
    assert "named_here" in out.stderr


# ---- what does not reach the tensor ----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["BF16", "Q8_0", "Q4_K", "Q2_0"])
def test_decoded_arrays_are_read_only(ctx, kind):
    t = ggml.ggml_new_tensor_2d(ctx, GGML_TYPE[kind], 256, 2)
    np.asarray(t)[...] = 0
    for array in (utils.to_numpy(t), utils.to_numpy(t, (1, 7)), utils.to_numpy(t, (512,))):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1
    assert utils.to_numpy(ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F16, 4)).flags.writeable


def test_leading_dimensions_of_size_1(ctx):
    x = ramp(1, 3)
    t = utils.from_numpy(x, ctx)
    assert utils.to_numpy(t).shape == (3,)
    np.testing.assert_array_equal(utils.to_numpy(t, x.shape), x)


@pytest.mark.parametrize("array", [np.ones((2, 3)), np.ones((2, 3), np.int64)], ids=["float64", "int64"])
def test_the_first_operation_says_how_to_convert(ctx, array):
    t = utils.from_numpy(array, ctx)
    message = r": .*convert the array with \.astype\(numpy\.float32\) first\)$"
    for name, operands in (("ggml_add", (t, t)), ("ggml_mul_mat", (t, t)), ("ggml_relu", (t,))):
        with pytest.raises(ValueError, match="^" + name + message):
            getattr(ggml, name)(ctx, *operands)


def test_an_array_in_place_of_a_tensor(ctx):
    t = utils.from_numpy(ramp(2, 3), ctx)
    message = r"^ggml_add: b is a NumPy array of shape \(2, 3\): need a tensor, which ggml.utils.from_numpy makes"
    with pytest.raises(TypeError, match=message):
        ggml.ggml_add(ctx, t, ramp(2, 3))
