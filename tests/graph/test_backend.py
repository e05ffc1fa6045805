"""Buffers and the tensors in them, backends, devices, registries, events and plans; a backend written in Python."""

import ctypes
import itertools
import weakref

import ggml._backend.device
import numpy as np
import pytest
from cases.harness import graph_of
from placed import F32, context, example, get, put

import ggml
from ggml.utils import to_numpy

NO_ALLOC = True  # the fixture ctx makes contexts without memory


@pytest.fixture
def other():
    b = ggml.ggml_backend_dev_init(ggml._backend.device._new_cpu_device(b"CPU1"), None)
    yield b
    ggml.ggml_backend_free(b)


@pytest.fixture(scope="module")
def numpy_device():
    return example("python_backend").NumpyDevice()


def vectors(ctx, backend, *rows):
    """Vectors with these values in a buffer of the backend."""
    made = [ggml.ggml_new_tensor_1d(ctx, F32, len(r)) for r in rows]
    buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, backend)
    for t, r in zip(made, rows):
        put(t, r)
    return buffer, made


# ---- buffers ---------------------------------------------------------------------------------------------------------


def test_a_buffer_knows_its_size_type_and_usage(cpu):
    buft = ggml.ggml_backend_cpu_buffer_type()
    assert ggml.ggml_backend_get_default_buffer_type(cpu) == buft
    buf = ggml.ggml_backend_buft_alloc_buffer(buft, 1000)
    assert ggml.ggml_backend_buffer_get_size(buf) == 1000
    assert ggml.ggml_backend_buffer_get_type(buf) == buft
    assert ggml.ggml_backend_buffer_name(buf) == ggml.ggml_backend_buft_name(buft) == b"CPU"
    assert ggml.ggml_backend_buffer_get_base(buf) % 64 == 0
    assert ggml.ggml_backend_buffer_is_host(buf) is True
    assert ggml.ggml_backend_buffer_get_alignment(buf) == 32
    assert ggml.ggml_backend_buffer_get_usage(buf) == ggml.GGML_BACKEND_BUFFER_USAGE_ANY
    ggml.ggml_backend_buffer_set_usage(buf, ggml.GGML_BACKEND_BUFFER_USAGE_COMPUTE)
    assert ggml.ggml_backend_buffer_get_usage(buf) == 2
    with pytest.raises(ValueError, match="^ggml_backend_buffer_set_usage: usage is 3"):
        ggml.ggml_backend_buffer_set_usage(buf, 3)
    ggml.ggml_backend_buffer_free(buf)


def test_an_empty_buffer_has_no_base(cpu):
    buf = ggml.ggml_backend_alloc_buffer(cpu, 0)
    assert buf and ggml.ggml_backend_buffer_get_base(buf) is None
    ggml.ggml_backend_buffer_free(buf)


def test_a_buffer_that_is_too_large_is_none(cpu):
    assert ggml.ggml_backend_alloc_buffer(cpu, 1 << 62) is None


def test_clear_fills_a_buffer(cpu):
    buf = ggml.ggml_backend_alloc_buffer(cpu, 64)
    ggml.ggml_backend_buffer_clear(buf, 7)
    assert ctypes.string_at(ggml.ggml_backend_buffer_get_base(buf), 64) == b"\7" * 64
    ggml.ggml_backend_buffer_free(buf)


def test_a_buffer_over_memory_of_the_caller(ctx, cpu):
    memory = np.zeros(64, np.float32)
    buf = ggml.ggml_backend_cpu_buffer_from_ptr(memory.ctypes.data, memory.nbytes)
    buft = ggml.ggml_backend_buffer_get_type(buf)
    assert ggml.ggml_backend_buffer_name(buf) == b"CPU_Mapped" and buft != ggml.ggml_backend_cpu_buffer_type()
    assert ggml.ggml_backend_buft_is_host(buft) and ggml.ggml_backend_supports_buft(cpu, buft)
    t = ggml.ggml_new_tensor_1d(ctx, F32, 16)
    ggml.ggml_backend_tensor_alloc(buf, t, ggml.ggml_backend_buffer_get_base(buf) + 64)
    put(t, np.arange(16))
    assert (memory[16:32] == np.arange(16)).all() and not memory[:16].any() and not memory[32:].any()
    ggml.ggml_backend_buffer_free(buf)
    with pytest.raises(ValueError, match="has 256 bytes: need 257"):
        ggml.ggml_backend_cpu_buffer_from_ptr(memory, 257)
    with pytest.raises(ValueError, match="is not memory"):
        ggml.ggml_backend_cpu_buffer_from_ptr(4096, 64)


def test_several_buffers_as_one(cpu):
    parts = (ctypes.c_void_p * 2)(*[ggml.ggml_backend_alloc_buffer(cpu, n) for n in (64, 128)])
    whole = ggml.ggml_backend_multi_buffer_alloc_buffer(parts, 2)
    assert ggml.ggml_backend_buffer_get_size(whole) == 192
    ggml.ggml_backend_buffer_clear(whole, 3)
    assert ctypes.string_at(ggml.ggml_backend_buffer_get_base(parts[1]), 128) == b"\3" * 128
    ggml.ggml_backend_buffer_set_usage(whole, 1)
    assert ggml.ggml_backend_buffer_get_usage(parts[0]) == 1
    ggml.ggml_backend_buffer_free(whole)
    with pytest.raises(RuntimeError, match="is not a live buffer"):
        ggml.ggml_backend_buffer_get_size(parts[0])


def test_a_combined_buffer_has_each_part_once(cpu):
    one, two, three = (ggml.ggml_backend_alloc_buffer(cpu, 64) for _ in range(3))
    combine = ggml.ggml_backend_multi_buffer_alloc_buffer
    with pytest.raises(ValueError, match=r"^ggml_backend_multi_buffer_alloc_buffer: buffers\[2\] repeats an earlier"):
        combine([one, two, one], 3)
    pair = combine([one, two], 2)
    for parts in ([pair, two], [two, pair], [pair, pair]):
        with pytest.raises(ValueError, match=r"buffers\[1\] repeats"):
            combine(parts, 2)
    whole = combine([pair, three], 2)
    assert ggml.ggml_backend_buffer_get_size(whole) == 192
    ggml.ggml_backend_buffer_set_usage(whole, ggml.GGML_BACKEND_BUFFER_USAGE_WEIGHTS)
    assert [ggml.ggml_backend_buffer_get_usage(part) for part in (one, two, three, pair)] == [1] * 4
    ggml.ggml_backend_buffer_free(whole)
    for part in (one, two, three, pair):
        with pytest.raises(RuntimeError, match="is not a live buffer"):
            ggml.ggml_backend_buffer_get_size(part)


def test_a_combined_buffer_holds_no_tensors_itself(ctx, cpu):
    part = ggml.ggml_backend_alloc_buffer(cpu, 64)
    whole = ggml.ggml_backend_multi_buffer_alloc_buffer([part], 1)
    with pytest.raises(ValueError, match="^ggml_backend_tensor_alloc: buffer combines several buffers"):
        ggml.ggml_backend_tensor_alloc(whole, ggml.ggml_new_tensor_1d(ctx, F32, 4), None)
    ggml.ggml_backend_buffer_free(whole)


# ---- tensors ---------------------------------------------------------------------------------------------------------


def test_set_get_and_memset_keep_to_the_tensor(ctx, cpu):
    buffer, (a, b) = vectors(ctx, cpu, [1, 2, 3, 4], [5, 6, 7, 8])
    ggml.ggml_backend_tensor_memset(a, 0, 4, 8)
    assert get(a).tolist() == [1, 0, 0, 4] and get(b).tolist() == [5, 6, 7, 8]
    data = np.zeros(8, np.float32)
    for call in (ggml.ggml_backend_tensor_set, ggml.ggml_backend_tensor_get):
        for offset, size in ((0, 17), (16, 1), (17, 0), (1 << 62, 1 << 62), (4, (1 << 63) - 1)):
            with pytest.raises(ValueError):
                call(a, data.ctypes.data, offset, size)
        with pytest.raises(TypeError, match="data is None"):
            call(a, None, 0, 4)
        call(a, None, 16, 0)
    for offset, size in ((0, 17), (17, 0), (8, (1 << 63) - 1)):
        with pytest.raises(ValueError):
            ggml.ggml_backend_tensor_memset(a, 1, offset, size)
    with pytest.raises(ValueError, match="has 4 bytes: need 8"):
        ggml.ggml_backend_tensor_set(a, b"abcd", 0, 8)
    assert get(b).tolist() == [5, 6, 7, 8]
    ggml.ggml_backend_buffer_free(buffer)


def test_strided_parts(ctx, cpu):
    buffer, (t,) = vectors(ctx, cpu, np.zeros(12))
    data = np.arange(12, dtype=np.float32)
    ggml.ggml_backend_tensor_set_2d(t, data.ctypes.data, 4, 8, 3, 16, 12)
    assert get(t).tolist() == [0, 0, 1, 0, 0, 3, 4, 0, 0, 6, 7, 0]
    out = np.zeros(12, np.float32)
    ggml.ggml_backend_tensor_get_2d_async(cpu, t, out.ctypes.data, 4, 8, 3, 16, 8)
    ggml.ggml_backend_synchronize(cpu)
    assert out.tolist() == [0, 1, 3, 4, 6, 7, 0, 0, 0, 0, 0, 0]
    for bad in ((12, 8, 3, 16, 12), (4, 8, 4, 16, 12), (0, 8, 2, 1 << 62, 12), (0, 8, 1 << 40, 1, 1)):
        with pytest.raises(ValueError):
            ggml.ggml_backend_tensor_set_2d(t, data.ctypes.data, *bad)
    assert get(t).tolist() == [0, 0, 1, 0, 0, 3, 4, 0, 0, 6, 7, 0]
    ggml.ggml_backend_buffer_free(buffer)


def test_copies_between_backends(ctx, cpu, other):
    buffer, (a,) = vectors(ctx, cpu, [1, 2, 3])
    ctx2 = context()
    buffer2, (b,) = vectors(ctx2, other, [0, 0, 0])
    ggml.ggml_backend_tensor_copy(a, b)
    assert get(b).tolist() == [1, 2, 3]
    put(a, [4, 5, 6])
    ggml.ggml_backend_tensor_copy_async(cpu, other, a, b)
    assert get(b).tolist() == [4, 5, 6]
    assert ggml.ggml_backend_buffer_copy_tensor(a, b) is True
    wrong = ggml.ggml_new_tensor_1d(ctx2, F32, 4)
    with pytest.raises(ValueError, match="differ in type, shape or strides"):
        ggml.ggml_backend_tensor_copy(a, wrong)
    for c, buf in ((ctx2, buffer2), (None, buffer)):
        ggml.ggml_backend_buffer_free(buf)
        ggml.ggml_free(c)


def test_a_freed_buffer_is_noticed(ctx, cpu):
    buffer, (a, b) = vectors(ctx, cpu, [1, 2], [3, 4])
    s = ggml.ggml_add(ctx, a, b)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, s)
    alloc = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(cpu))
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    ggml.ggml_backend_buffer_free(buffer)
    with pytest.raises(RuntimeError, match="lies in a buffer that was freed"):
        get(a)
    with pytest.raises(RuntimeError, match="freed"):
        ggml.ggml_backend_graph_compute(cpu, graph)
    with pytest.raises(RuntimeError, match="is not a live buffer"):
        ggml.ggml_backend_buffer_free(buffer)
    ggml.ggml_gallocr_free(alloc)


def test_a_numpy_view_outlives_its_buffer(ctx, cpu):
    buffer, (a,) = vectors(ctx, cpu, np.arange(1000))
    view = to_numpy(a)
    ggml.ggml_backend_buffer_free(buffer)
    assert view[999] == 999 and view.sum() == 499500


def test_views_of_placed_tensors(ctx, cpu):
    base = ggml.ggml_new_tensor_1d(ctx, F32, 8)
    view = ggml.ggml_view_1d(ctx, base, 4, 16)
    assert view.contents.data is None
    buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu)
    assert view.contents.data == base.contents.data + 16 and view.contents.buffer == buffer
    put(base, np.arange(8))
    assert get(view).tolist() == [4, 5, 6, 7]
    late = ggml.ggml_view_1d(ctx, base, 2, 0)
    assert ggml.ggml_backend_view_init(late) == 0 and get(late).tolist() == [0, 1]
    with pytest.raises(ValueError, match="tensor is not a view"):
        ggml.ggml_backend_view_init(base)
    ggml.ggml_backend_buffer_free(buffer)


def test_a_changed_data_pointer_is_noticed(ctx, cpu):
    buffer, (a,) = vectors(ctx, cpu, [1, 2, 3, 4])
    a.contents.data += 1 << 20
    with pytest.raises(ValueError, match="its data pointer was changed"):
        put(a, [0, 0, 0, 0])
    a.contents.data -= 1 << 20
    assert get(a).tolist() == [1, 2, 3, 4]
    ggml.ggml_backend_buffer_free(buffer)


# ---- backends --------------------------------------------------------------------------------------------------------


def test_plans_compute_repeatedly(ctx, cpu):
    x = ggml.ggml_new_tensor_1d(ctx, F32, 4)
    y = ggml.ggml_sqr(ctx, x)
    graph = graph_of(ctx, y)
    buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu)
    plan = ggml.ggml_backend_graph_plan_create(cpu, graph)
    for k in range(3):
        put(x, [k, 1, 2, 3])
        assert ggml.ggml_backend_graph_plan_compute(cpu, plan) == ggml.GGML_STATUS_SUCCESS
        assert get(y).tolist() == [k * k, 1, 4, 9]
    ggml.ggml_backend_graph_plan_free(cpu, plan)
    with pytest.raises(RuntimeError, match="is not a live graph plan"):
        ggml.ggml_backend_graph_plan_compute(cpu, plan)
    ggml.ggml_backend_buffer_free(buffer)


def test_threads_reference_kernels_and_pools(ctx, cpu):
    x = ggml.ggml_new_tensor_1d(ctx, F32, 50000)
    y = ggml.ggml_sqr(ctx, x)
    graph = graph_of(ctx, y)
    buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu)
    values = np.linspace(-3, 3, 50000, dtype=np.float32)
    pool = ggml.ggml_threadpool_new(ctypes.byref(ggml.ggml_threadpool_params_default(2)))
    for change in (
        lambda: ggml.ggml_backend_cpu_set_n_threads(cpu, 1),
        lambda: ggml.ggml_backend_cpu_set_n_threads(cpu, 3),
        lambda: ggml.ggml_backend_cpu_set_threadpool(cpu, pool),
        lambda: ggml.ggml_backend_cpu_set_use_ref(cpu, True),
    ):
        change()
        put(x, values)
        ggml.ggml_backend_tensor_memset(y, 0, 0, ggml.ggml_nbytes(y))
        assert ggml.ggml_backend_graph_compute(cpu, graph) == 0
        assert (get(y) == values * values).all()
    with pytest.raises(ValueError, match="n_threads is 0"):
        ggml.ggml_backend_cpu_set_n_threads(cpu, 0)
    ggml.ggml_threadpool_free(pool)
    with pytest.raises(RuntimeError, match="thread pool"):
        ggml.ggml_backend_cpu_set_threadpool(cpu, pool)
    ggml.ggml_backend_buffer_free(buffer)


def test_the_abort_callback_stops_a_compute(ctx, cpu):
    y = x = ggml.ggml_new_tensor_1d(ctx, F32, 4)
    for _ in range(5):
        y = ggml.ggml_sqr(ctx, y)
    graph = graph_of(ctx, y)
    buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu)
    put(x, [1, 1, 1, 1])
    asked = []
    ggml.ggml_backend_cpu_set_abort_callback(cpu, lambda data: asked.append(data) or len(asked) == 3, 77)
    assert ggml.ggml_backend_graph_compute(cpu, graph) == ggml.GGML_STATUS_ABORTED
    assert asked == [77] * 3

    def broken(data):
        raise KeyError("of the callback")

    ggml.ggml_backend_cpu_set_abort_callback(cpu, ggml.ggml_abort_callback(broken), None)
    with pytest.raises(KeyError, match="of the callback"):
        ggml.ggml_backend_graph_compute(cpu, graph)
    ggml.ggml_backend_cpu_set_abort_callback(cpu, None, None)
    assert ggml.ggml_backend_graph_compute(cpu, graph) == 0
    ggml.ggml_backend_buffer_free(buffer)


def test_properties_of_the_cpu(cpu):
    assert ggml.ggml_backend_is_cpu(cpu) and not ggml.ggml_backend_is_cpu(None)
    assert len(ggml.ggml_backend_guid(cpu).contents) == 16
    device = ggml.ggml_backend_get_device(cpu)
    assert device == ggml.ggml_backend_dev_by_type(ggml.GGML_BACKEND_DEVICE_TYPE_CPU)
    assert device == ggml.ggml_backend_dev_by_name(b"CPU") == ggml.ggml_backend_dev_by_name("cpu")
    props = ggml.ggml_backend_dev_props()
    ggml.ggml_backend_dev_get_props(device, ctypes.byref(props))
    assert props.name == b"CPU" and props.description == ggml.ggml_backend_dev_description(device)
    assert 0 < props.memory_free <= props.memory_total and props.type == 0 and props.device_id is None
    assert props.caps.buffer_from_host_ptr and props.caps.events
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
    assert 0 < free.value <= total.value == props.memory_total
    reg = ggml.ggml_backend_dev_backend_reg(device)
    assert reg == ggml.ggml_backend_cpu_reg() == ggml.ggml_backend_reg_by_name(b"CPU") == ggml.ggml_backend_reg_get(0)
    assert ggml.ggml_backend_reg_name(reg) == b"CPU" and ggml.ggml_backend_reg_dev_get(reg, 0) == device
    set_threads = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(
        ggml.ggml_backend_reg_get_proc_address(reg, b"ggml_backend_set_n_threads")
    )
    set_threads(cpu, 1)
    assert ggml.ggml_backend_reg_get_proc_address(reg, b"nothing") is None


def test_functions_found_by_name():
    reg = ggml.ggml_backend_cpu_reg()

    def found(name, restype, *argtypes):
        return ctypes.CFUNCTYPE(restype, *argtypes)(ggml.ggml_backend_reg_get_proc_address(reg, name))

    class Feature(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]

    feature = found(b"ggml_backend_get_features", ctypes.POINTER(Feature), ctypes.c_void_p)(reg)
    features = {}
    for i in itertools.takewhile(lambda i: feature[i].name, itertools.count()):
        features[feature[i].name] = feature[i].value
    assert features[b"OPENMP"] == b"1"
    for name in ("AVX2", "FMA", "NEON", "DOTPROD"):
        has = getattr(ggml, "ggml_cpu_has_" + name.lower())()
        assert features.get(name.encode()) == (b"1" if has else None)
    params = ggml.ggml_threadpool_params_default(2)
    pool = found(b"ggml_threadpool_new", ctypes.c_void_p, ctypes.c_void_p)(ctypes.addressof(params))
    assert ggml.ggml_threadpool_get_n_threads(pool) == 2
    found(b"ggml_threadpool_free", None, ctypes.c_void_p)(pool)
    with pytest.raises(RuntimeError, match="no live thread pool"):
        ggml.ggml_threadpool_get_n_threads(pool)
    assert found(b"ggml_backend_cpu_is_numa", ctypes.c_bool)() == ggml.ggml_is_numa()
    with pytest.raises(ValueError, match="part of this library"):
        ggml.ggml_backend_unload(reg)


def test_supported_operations(ctx, cpu, other):
    a = ggml.ggml_new_tensor_2d(ctx, F32, 4, 4)
    assert ggml.ggml_backend_supports_op(cpu, ggml.ggml_mul_mat(ctx, a, a)) is True
    assert ggml.ggml_backend_supports_op(cpu, ggml.ggml_transpose(ctx, a)) is True
    s = ggml.ggml_add(ctx, a, a)
    s.contents.ne[0] = 5
    assert ggml.ggml_backend_supports_op(cpu, s) is False
    host, apart = (ggml.ggml_backend_get_default_buffer_type(b) for b in (cpu, other))
    assert ggml.ggml_backend_supports_buft(cpu, host) and not ggml.ggml_backend_supports_buft(cpu, apart)
    assert ggml.ggml_backend_supports_buft(other, apart) and not ggml.ggml_backend_supports_buft(other, host)


def test_making_backends_by_name_type_and_index():
    made = [
        ggml.ggml_backend_init_by_name(b"CPU", None),
        ggml.ggml_backend_init_by_type(ggml.GGML_BACKEND_DEVICE_TYPE_CPU, None),
        ggml.ggml_backend_init_best(),
        ggml.ggml_backend_reg_init_backend_from_str(b"CPU:anything"),
        ggml.ggml_backend_reg_init_backend(ggml.ggml_backend_reg_find_by_name(b"CPU"), None),
    ]
    assert all(ggml.ggml_backend_is_cpu(b) for b in made) and len(set(made)) == 5
    for b in made:
        ggml.ggml_backend_free(b)
    assert ggml.ggml_backend_init_by_name(b"GPU", None) is None
    assert ggml.ggml_backend_reg_find_by_name(b"GPU") == 2**64 - 1
    assert ggml.ggml_backend_reg_get_name(0) == b"CPU"
    assert ggml.ggml_backend_reg_get_default_buffer_type(0) == ggml.ggml_backend_cpu_buffer_type()
    ggml.ggml_backend_buffer_free(ggml.ggml_backend_reg_alloc_buffer(0, 10))
    for call in (ggml.ggml_backend_reg_get_name, ggml.ggml_backend_dev_get, ggml.ggml_backend_reg_get):
        with pytest.raises(IndexError):
            call(1 << 40)


def test_events_of_the_cpu(cpu):
    for maker in (cpu, ggml.ggml_backend_get_device(cpu)):
        event = ggml.ggml_backend_event_new(maker)
        ggml.ggml_backend_event_record(event)
        ggml.ggml_backend_event_record(event, cpu)
        ggml.ggml_backend_event_wait(cpu, event)
        ggml.ggml_backend_event_synchronize(event)
        ggml.ggml_backend_event_free(event)
        with pytest.raises(RuntimeError, match="is not a live event"):
            ggml.ggml_backend_event_synchronize(event)
    assert ggml.ggml_backend_event_new(None) is None


@pytest.mark.parametrize("bad", [None, 0, 5, -1, 1 << 70, "text", b"bytes", 1.5, object(), [], ctypes.c_void_p(16)])
def test_foreign_handles_raise(bad, ctx):
    t = ggml.ggml_new_tensor_1d(ctx, F32, 4)
    for call in (
        ggml.ggml_backend_name,
        ggml.ggml_backend_buft_name,
        ggml.ggml_backend_buffer_get_base,
        ggml.ggml_backend_dev_name,
        ggml.ggml_backend_reg_name,
        ggml.ggml_backend_synchronize,
        ggml.ggml_backend_event_synchronize,
        ggml.ggml_backend_sched_reset,
        lambda b: ggml.ggml_backend_supports_op(b, t),
        lambda b: ggml.ggml_gallocr_get_buffer_size(b, 0),
        lambda b: ggml.ggml_backend_alloc_ctx_tensors(ctx, b),
        lambda b: ggml.ggml_backend_sched_new(b, None, 1, 100, False),
    ):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            call(bad)


def test_handles_of_the_wrong_kind_are_named(cpu):
    with pytest.raises(TypeError, match="^ggml_backend_buft_name: buft is a backend: need a buffer type"):
        ggml.ggml_backend_buft_name(cpu)


# ---- a backend written in Python -------------------------------------------------------------------------------------


def test_a_python_device_is_found_and_used(numpy_device, ctx):
    before = ggml.ggml_backend_dev_count()
    ggml.ggml_backend_device_register(numpy_device.handle)
    ggml.ggml_backend_device_register(numpy_device.handle)
    assert ggml.ggml_backend_dev_count() == before + 1
    device = ggml.ggml_backend_dev_by_name(b"NumPy")
    assert device == numpy_device.handle
    props = ggml.ggml_backend_dev_props()
    ggml.ggml_backend_dev_get_props(device, ctypes.pointer(props))
    assert (
        props.name == b"NumPy" and props.type == ggml.GGML_BACKEND_DEVICE_TYPE_ACCEL and props.memory_total == 1 << 30
    )
    b = ggml.ggml_backend_dev_init(device, None)
    assert ggml.ggml_backend_get_device(b) == device and not ggml.ggml_backend_is_cpu(b)
    buffer, (x, y) = vectors(ctx, b, [1, 2, 3], [4, 5, 6])
    assert not ggml.ggml_backend_buffer_is_host(buffer)
    assert get(y).tolist() == [4, 5, 6]
    ggml.ggml_backend_buffer_clear(buffer, 0)
    assert get(y).tolist() == [0, 0, 0]
    put(x, [1, 2, 3])
    s = ggml.ggml_add(ctx, x, x)
    graph = graph_of(ctx, s)
    alloc = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(b))
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    assert ggml.ggml_backend_graph_compute(b, graph) == 0
    assert get(s).tolist() == [2, 4, 6]
    ggml.ggml_gallocr_free(alloc)
    ggml.ggml_backend_buffer_free(buffer)
    assert not numpy_device.memory


def test_an_exception_of_a_python_backend_reaches_the_caller(ctx):
    device = example("python_backend").NumpyDevice(b"Broken")

    def compute(backend, graph):
        raise ZeroDivisionError("in the backend")

    device.backend.iface.graph_compute = ggml.ggml_backend_i_graph_compute(compute)
    buffer, (x,) = vectors(ctx, device.backend, [1, 2])  # the struct may be passed instead of the handle
    graph = graph_of(ctx, ggml.ggml_sqr(ctx, x))
    with pytest.raises(ZeroDivisionError, match="in the backend"):
        ggml.ggml_backend_graph_compute(ctypes.pointer(device.backend), graph)
    with pytest.raises(ValueError, match="is not in the device's memory"):
        x.contents.data = 1 << 45
        get(x)
    ggml.ggml_backend_buffer_free(buffer)


def test_an_incomplete_vtable_is_refused():
    table = ggml.ggml_backend()
    with pytest.raises(ValueError, match="callback get_name is NULL"):
        ggml.ggml_backend_name(table)


def test_cpu_nodes_in_a_python_device_raise(numpy_device, ctx, cpu):
    """The addresses of that device are invented; the CPU must not read them."""
    b = ggml.ggml_backend_dev_init(numpy_device.handle, None)
    buffer, (x,) = vectors(ctx, b, [1, 2])
    s = ggml.ggml_sqr(ctx, x)
    s.contents.data, s.contents.buffer = x.contents.data, x.contents.buffer
    with pytest.raises(ValueError, match="no readable memory"):
        ggml.ggml_backend_graph_compute(cpu, graph_of(ctx, s))
    ggml.ggml_backend_buffer_free(buffer)


def test_a_view_keeps_memory_of_a_caller_after_its_buffer_was_freed(ctx):
    array = np.full(1 << 20, 3, np.float32)
    owner = weakref.ref(array)
    buffer = ggml.ggml_backend_cpu_buffer_from_ptr(array, array.nbytes)
    t = ggml.ggml_new_tensor_1d(ctx, F32, 1 << 19)
    place = ggml.ggml_tallocr_new(buffer)
    ggml.ggml_tallocr_alloc(ctypes.byref(place), t)
    view = to_numpy(t)
    ggml.ggml_backend_buffer_free(buffer)
    del array
    assert owner() is not None and view.sum() == 3 << 19
    del view
    assert owner() is None


def test_the_handle_of_another_object_is_not_a_struct(cpu):
    buft = ggml.ggml_backend_cpu_buffer_type()
    with pytest.raises(TypeError, match="^ggml_backend_buffer_init: iface is"):
        ggml.ggml_backend_buffer_init(buft, cpu, None, 16)
    with pytest.raises(TypeError, match="^ggml_backend_dev_get_props: props is"):
        ggml.ggml_backend_dev_get_props(ggml.ggml_backend_dev_get(0), cpu)
