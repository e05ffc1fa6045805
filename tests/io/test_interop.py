"""Tensors as buffers, arrays and DLPack: values, lifetimes, and what cannot be shared."""

import array
import ctypes
import gc
import sys
import types

import numpy as np
import pytest
from cases.harness import not_sanitized, ramp

import ggml
from ggml import utils

DTYPES = [np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64]
MIB = 1 << 20


def context(size=MIB, **options):
    return ggml.ggml_init(ggml.ggml_init_params(mem_size=size, **options))


@pytest.fixture
def ctx():
    handle = context()
    yield handle
    ggml.ggml_free(handle)


def transposed(t):
    """Exchanges the two inner dimensions in place, as ggml_transpose does in a view."""
    x = t.contents
    x.ne[0], x.ne[1], x.nb[0], x.nb[1] = x.ne[1], x.ne[0], x.nb[1], x.nb[0]
    return t


# ---- the buffer protocol ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", DTYPES)
def test_asarray_shares_values(ctx, dtype):
    x = ramp(2, 3, 4, 5, dtype=dtype)
    t = utils.from_numpy(x, ctx)
    y = np.asarray(t)
    assert y.dtype.type is dtype
    assert y.tolist() == x.tolist()
    y[1, 2, 3, 4] = 7
    assert ggml.ggml_get_f32_nd(t, 4, 3, 2, 1) == 7
    assert y.ctypes.data == ggml.ggml_get_data(t)


def test_trailing_ones_are_dropped(ctx):
    assert np.asarray(ggml.ggml_new_tensor_4d(ctx, ggml.GGML_TYPE_F32, 3, 2, 1, 1)).shape == (2, 3)
    assert np.asarray(ggml.ggml_new_tensor_4d(ctx, ggml.GGML_TYPE_F32, 3, 1, 2, 1)).shape == (2, 1, 3)
    assert np.asarray(ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 1)).shape == (1,)


def test_strided_tensor(ctx):
    x = ramp(2, 3, 4)
    t = transposed(utils.from_numpy(x, ctx))
    assert np.asarray(t).tolist() == x.transpose(0, 2, 1).tolist()
    assert memoryview(t).tolist() == x.transpose(0, 2, 1).tolist()
    assert bytes(t) == x.transpose(0, 2, 1).tobytes()
    assert not memoryview(t).c_contiguous


FLAGS = {"SIMPLE": 0, "WRITABLE": 1, "ND": 8, "STRIDES": 0x18, "C": 0x38, "F": 0x58, "ANY": 0x98, "FULL_RO": 0x11C}


@pytest.mark.parametrize("layout, refused", [
    ("rows", {"F"}),
    ("transposed", {"SIMPLE", "WRITABLE", "ND", "C"}),
    ("gaps", {"SIMPLE", "WRITABLE", "ND", "C", "F", "ANY"}),
    ("vector", set()),
])  # fmt: skip
def test_requests(ctx, layout, refused):
    t = utils.from_numpy(ramp(3, 4), ctx)
    if layout == "transposed":
        transposed(t)
    elif layout == "gaps":
        t.contents.ne[0] = 3
    elif layout == "vector":
        t.contents.ne[1] = 1
    view = (ctypes.c_ssize_t * 10)()  # a Py_buffer: buf, obj, len, itemsize, ...
    granted = set()
    for name, flags in FLAGS.items():
        try:
            ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(t), ctypes.byref(view), flags)
        except BufferError as error:
            assert str(error).startswith("ggml_tensor_p: ")
        else:
            granted.add(name)
            assert view[0] == ggml.ggml_get_data(t)
            assert view[2] == 4 * ggml.ggml_nelements(t)
            ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    assert granted == set(FLAGS) - refused


def test_bf16_is_its_bits(ctx):
    t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_BF16, 3)
    ggml.ggml_set_f32(t, 1.5)
    y = np.asarray(t)
    assert y.dtype == np.uint16
    assert y.tolist() == [0x3FC0] * 3


def test_quantised_is_rows_of_bytes(ctx):
    t = ggml.ggml_new_tensor_3d(ctx, ggml.GGML_TYPE_Q4_0, 64, 3, 2)
    y = np.asarray(t)
    assert (y.dtype, y.shape) == (np.uint8, (2, 3, 36))
    y[:] = np.arange(216).reshape(2, 3, 36)
    assert bytes(t) == bytes(range(216))


def test_ctypes_still_works(ctx):
    t = utils.from_numpy(ramp(4), ctx)
    assert ctypes.cast(t, ctypes.c_void_p).value == ctypes.addressof(t.contents)
    assert t.contents.ne[:2] == [4, 1]
    pair = (ctypes.POINTER(ggml.ggml_tensor) * 2)(t, t)
    assert pair[1] == t
    copy = ggml.ggml_tensor()
    ctypes.memmove(ctypes.byref(copy), t, ctypes.sizeof(copy))
    assert copy.data == t.contents.data


@pytest.mark.parametrize("ne", [(0, 1), (0, 3), (3, 0)])
def test_empty(ctx, ne):
    t = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, *ne)
    assert np.asarray(t).size == 0
    assert utils.to_numpy(t).shape == np.asarray(t).shape == tuple(reversed(ne))[ne[1] == 1 :]
    assert np.from_dlpack(t).size == 0
    assert bytes(t) == b""


# ---- lifetimes -------------------------------------------------------------------------------------------------------
def as_array(t):
    return np.asarray(t)


def as_bytes_view(t):
    return memoryview(t)


def as_interface(t):
    return np.asarray(types.SimpleNamespace(__array_interface__=t.__array_interface__))


def as_dlpack(t):
    return np.from_dlpack(t)


VIEWS = [as_array, as_bytes_view, as_interface, as_dlpack, utils.to_numpy]


@pytest.mark.parametrize("view", VIEWS)
def test_views_outlive_free(view):
    x = ramp(50, 100)
    ctx = context()
    t = transposed(utils.from_numpy(x, ctx))
    v = view(t)
    ggml.ggml_free(ctx)
    gc.collect()
    others = [context() for _ in range(20)]
    for other in others:
        utils.to_numpy(utils.from_numpy(np.full(100_000, 9, np.float32), other))
    assert v.tolist() == x.T.tolist()
    part = np.asarray(v)[3:5]
    del v
    gc.collect()
    assert part.tolist() == x.T[3:5].tolist()
    with pytest.raises(RuntimeError, match="ggml_tensor_p: .*freed"):
        memoryview(t)
    for other in others:
        ggml.ggml_free(other)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("view", VIEWS)
def test_memory_is_released_with_the_last_view(view):
    not_sanitized("the memory that it keeps of each page counts as resident")

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    before = resident()
    ctx = context(65 * MIB)
    t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I8, 64 * MIB)
    ggml.ggml_set_i32(t, 3)
    views = [view(t), view(t)]
    ggml.ggml_free(ctx)
    assert resident() > before + 60 * MIB
    views.pop()
    gc.collect()
    assert resident() > before + 60 * MIB
    assert views[0][64 * MIB - 1] == 3
    views.pop()
    gc.collect()
    assert resident() < before + 10 * MIB


@pytest.mark.parametrize("view", VIEWS)
def test_views_hold_the_callers_memory(view):
    alive = []

    class Witness(ctypes.Array):
        _type_, _length_ = ctypes.c_uint8, 10_000

        def __del__(self):
            alive.clear()

    memory = Witness()
    alive.append(1)
    ctx = context(10_000, mem_buffer=ctypes.cast(memory, ctypes.c_void_p))
    v = view(utils.from_numpy(ramp(4), ctx))
    ggml.ggml_free(ctx)
    del memory
    gc.collect()
    assert alive
    assert np.asarray(v).tolist() == [0, 1, 2, 3]
    del v
    gc.collect()
    assert not alive


def test_reset_refuses_while_views_live(ctx):
    v = np.asarray(utils.from_numpy(ramp(4), ctx))
    with pytest.raises(RuntimeError, match="ggml_reset: .*views"):
        ggml.ggml_reset(ctx)
    del v
    ggml.ggml_reset(ctx)


def test_reset_refuses_while_a_view_of_the_first_part_lives():
    """A reset keeps the first part of a growing context; the other parts are freed with their last views."""
    ctx = context(0)
    first = utils.to_numpy(ggml.ggml_set_f32(ggml.ggml_new_tensor_1d(ctx, 0, 4), 7))
    later = utils.to_numpy(ggml.ggml_set_f32(ggml.ggml_new_tensor_1d(ctx, 0, 1 << 20), 8))
    with pytest.raises(RuntimeError, match="ggml_reset: .*views"):
        ggml.ggml_reset(ctx)
    del first
    ggml.ggml_reset(ctx)
    ggml.ggml_set_f32(ggml.ggml_new_tensor_1d(ctx, 0, 1 << 20), 9)
    assert (later == 8).all()
    ggml.ggml_free(ctx)


def test_dlpack_capsules_that_nobody_consumes():
    ctx = context()
    t = utils.from_numpy(ramp(4), ctx)
    capsules = [t.__dlpack__(), t.__dlpack__(max_version=(1, 0)), t.__dlpack__(copy=True)]
    with pytest.raises(RuntimeError, match="views"):
        ggml.ggml_reset(ctx)
    capsules.clear()
    ggml.ggml_reset(ctx)
    ggml.ggml_free(ctx)


# ---- DLPack ----------------------------------------------------------------------------------------------------------
class OldDLPack:
    """A producer from before DLPack 1.0, or one that knows version 1.0."""

    def __init__(self, x, versioned):
        self.x, self.versioned = x, versioned

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __dlpack__(self, **kw):
        if not self.versioned and kw:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.x.__dlpack__(**kw)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_out(ctx, dtype):
    x = ramp(3, 4, dtype=dtype)
    t = transposed(utils.from_numpy(x, ctx))
    assert t.__dlpack_device__() == (1, 0)
    y = np.from_dlpack(t)
    assert y.dtype == dtype
    assert y.tolist() == x.T.tolist()
    ggml.ggml_set_f32_nd(t, 0, 0, 0, 0, 9)
    assert y[0, 0] == 9


def test_dlpack_copy(ctx):
    x = ramp(3, 4)
    t = transposed(utils.from_numpy(x, ctx))
    shared = utils.from_dlpack(ctx, OldDLPack(t, True))
    assert ggml.ggml_get_data(shared) == ggml.ggml_get_data(t)

    class Copying(OldDLPack):
        def __dlpack__(self, **kw):
            return self.x.__dlpack__(copy=True, **kw)

    copied = utils.from_dlpack(ctx, Copying(t, True))
    assert ggml.ggml_get_data(copied) != ggml.ggml_get_data(t)
    assert np.asarray(copied).tolist() == np.asarray(shared).tolist() == x.T.tolist()


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_in(ctx, dtype, versioned):
    x = ramp(2, 3, 4, dtype=dtype)
    source = utils.from_numpy(x, ctx)
    t = utils.from_dlpack(ctx, OldDLPack(source, versioned))
    assert t.contents.type == source.contents.type
    assert utils.get_shape(t) == (4, 3, 2)
    assert ggml.ggml_get_data(t) == ggml.ggml_get_data(source)
    assert np.asarray(t).tolist() == x.tolist()


def test_dlpack_bf16_both_ways(ctx):
    t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_BF16, 3)
    ggml.ggml_set_f32(t, 1.5)
    for x in (t, OldDLPack(t, True), OldDLPack(t, False)):
        u = utils.from_dlpack(ctx, x)
        assert u.contents.type == ggml.GGML_TYPE_BF16
        assert utils.to_numpy(u).tolist() == [1.5] * 3


def test_dlpack_refusals(ctx):
    q = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_Q4_0, 32)
    t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)
    for call, text in [
        (q.__dlpack__, "q4_0"),
        (lambda: t.__dlpack__(stream=1), "stream"),
        (lambda: t.__dlpack__(dl_device=(2, 0)), "dl_device"),
        (lambda: utils.from_dlpack(ctx, q), "q4_0"),
    ]:
        with pytest.raises(BufferError, match=f"__dlpack__: .*{text}"):
            call()

    class Gpu(OldDLPack):
        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(BufferError, match=r"from_dlpack: .*\(2, 0\)"):
        utils.from_dlpack(ctx, Gpu(t, True))
    for bad in (None, 3, [1.0, 2.0], "text"):
        with pytest.raises(TypeError, match="from_dlpack: "):
            utils.from_dlpack(ctx, bad)


# ---- tensors over memory that others own -----------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", DTYPES)
def test_sharing_numpy_memory(ctx, dtype):
    x = ramp(4, 6, dtype=dtype)
    for y in (x, x.T, x[::2], x[1:, 2:4], x[:, ::3], x[:1], x[2, 3:4]):
        t = utils.from_dlpack(ctx, y)
        assert ggml.ggml_get_data(t) == y.ctypes.data
        assert utils.to_numpy(t, y.shape).tolist() == y.tolist()
    t = utils.from_dlpack(ctx, x)
    x[1, 2] = 99
    assert ggml.ggml_get_f32_nd(t, 2, 1, 0, 0) == 99
    ggml.ggml_set_f32_nd(t, 2, 1, 0, 0, 77)
    assert x[1, 2] == 77


def test_other_buffers(ctx):
    a = array.array("f", [1, 2, 3])
    t = utils.from_dlpack(ctx, a)
    a[1] = 9
    assert np.asarray(t).tolist() == [1, 9, 3]
    assert np.asarray(utils.from_numpy(array.array("d", [4, 5]), ctx)).tolist() == [4, 5]


def test_what_cannot_be_shared_is_copied(ctx):
    x = ramp(4, 6)
    fixed = x.copy()
    fixed.flags.writeable = False
    odd = np.frombuffer(bytearray(x.nbytes + 1), np.uint8)[1:].view(np.float32).reshape(4, 6)
    odd[:] = x
    for y in (fixed, x[::-1], x[:, ::-1], np.broadcast_to(x[0], (4, 6)), x.astype(">f4"), odd):
        t = utils.from_dlpack(ctx, y)
        assert ggml.ggml_get_data(t) != y.ctypes.data
        assert np.asarray(t).tolist() == y.tolist()


@pytest.mark.parametrize("used", [False, True])
def test_context_keeps_shared_memory_and_views_do(used):
    """used: the memory has been that of a freed context, whose caller gave its address only."""
    dead = []

    class Array(np.ndarray):
        def __del__(self):
            dead.append(1)

    memory = np.ones(1 << 10, np.float32)
    if used:
        ggml.ggml_free(context(memory.nbytes, mem_buffer=memory.ctypes.data))
    ctx = context()
    x = memory[16:21].view(Array)
    t = utils.from_dlpack(ctx, x)
    del x
    gc.collect()
    assert not dead
    assert np.asarray(t).tolist() == [1] * 5
    v = np.asarray(t)
    ggml.ggml_free(ctx)
    gc.collect()
    assert not dead
    assert v.tolist() == [1] * 5
    del v
    gc.collect()
    assert dead


def test_shared_in_a_context_without_data():
    ctx = context(no_alloc=True)
    x = ramp(3)
    assert np.asarray(utils.from_dlpack(ctx, x)).tolist() == [0, 1, 2]
    assert ggml.ggml_get_no_alloc(ctx)
    ggml.ggml_free(ctx)


# ---- bad input -------------------------------------------------------------------------------------------------------
def test_without_data():
    ctx = context(no_alloc=True)
    t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 3)
    for view in (memoryview, np.asarray, np.array, np.from_dlpack, bytes):
        with pytest.raises(ValueError, match="no data"):
            view(t)
    ggml.ggml_free(ctx)


def test_freed_and_null():
    ctx = context()
    t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 3)
    ggml.ggml_free(ctx)
    for view in (memoryview, np.asarray, np.array, np.from_dlpack, bytes):
        with pytest.raises(RuntimeError, match="freed"):
            view(t)
        with pytest.raises(ValueError, match="NULL"):
            view(ggml.ggml_tensor_p())


def test_written_fields_are_checked(ctx):
    t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 3)
    t.contents.ne[0] = 1 << 40
    with pytest.raises(ValueError, match="reaches beyond"):
        memoryview(t)
    t.contents.ne[0] = -1
    with pytest.raises(ValueError, match="negative"):
        memoryview(t)
    t.contents.ne[0] = 3
    t.contents.data = 5
    with pytest.raises(ValueError, match="no readable memory"):
        memoryview(t)


def test_pickling_is_refused(ctx):
    import pickle

    with pytest.raises((TypeError, ValueError)):
        pickle.dumps(ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 3))
