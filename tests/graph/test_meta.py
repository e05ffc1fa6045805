"""The meta device: tensors that are split over several devices."""

import ctypes

import ggml._backend.device
import numpy as np
import pytest
from placed import context, example, get

import ggml

F32, Q8_0 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_Q8_0
NO_ALLOC = True  # the fixture ctx makes contexts without memory
MIRRORED = ggml.GGML_BACKEND_SPLIT_AXIS_MIRRORED


def state(axis, *counts, repeats=(1,)):
    """How a tensor is split: the number of elements on each device, segment by segment."""
    s = ggml.ggml_backend_meta_split_state(axis=axis, n_segments=len(repeats))
    s.ne[: len(counts)] = counts
    s.nr[: len(repeats)] = repeats
    return s


def device(split, n=2):
    members = [ggml.ggml_backend_dev_by_name(b"CPU"), *[ggml._backend.device._new_cpu_device() for _ in range(n - 1)]]
    return ggml.ggml_backend_meta_device((ctypes.c_void_p * n)(*members), n, split, 3)


@pytest.mark.parametrize(
    "how",
    [
        state(0, 32, 64),
        state(1, 3, 4),
        state(1, 0, 7),
        state(2, 2, 1),
        state(3, 1, 1),
        state(MIRRORED),
        state(1, 1, 2, 1, 0, repeats=(2, 1)),
        state(ggml.GGML_BACKEND_SPLIT_AXIS_PARTIAL),
        state(ggml.GGML_BACKEND_SPLIT_AXIS_NONE),
    ],
    ids=lambda s: f"{s.axis}-{list(s.ne[:4])}",
)
@pytest.mark.parametrize("kind", [F32, Q8_0])
def test_data_that_was_written_is_read(how, kind, ctx):
    backend = ggml.ggml_backend_dev_init(device(lambda t, data: how if data == 3 else None), None)
    t = ggml.ggml_new_tensor_4d(ctx, kind, 96, 7, 3, 2)
    buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, backend)
    n = ggml.ggml_nbytes(t)
    data = np.random.default_rng(0).integers(0, 255, n, np.uint8)
    ggml.ggml_backend_tensor_set(t, data.ctypes.data, 0, n)
    ggml.ggml_backend_tensor_set(t, b"\7" * 50, 123, 50)
    data[123:173] = 7
    out = np.zeros(n, np.uint8)
    ggml.ggml_backend_tensor_get(t, out.ctypes.data, 0, n)
    assert (out == data).all()
    view = ggml.ggml_view_1d(ctx, t, 96, ggml.ggml_row_size(kind, 96))
    ggml.ggml_backend_view_init(view)
    row = ggml.ggml_nbytes(view)
    ggml.ggml_backend_tensor_get(view, out.ctypes.data, 0, row)
    assert (out[:row] == data[row : 2 * row]).all()
    ggml.ggml_backend_buffer_free(buffer)
    ggml.ggml_backend_free(backend)


@pytest.mark.parametrize(
    "how", [state(1, 3, 3), state(1, 8, -1), state(0, 16, 80), state(50), None, state(1, 1 << 62, 7)]
)
def test_a_split_that_does_not_fit_raises(how, ctx):
    backend = ggml.ggml_backend_dev_init(device(lambda t, data: how), None)
    ggml.ggml_new_tensor_2d(ctx, Q8_0, 96, 7)
    with pytest.raises(ValueError, match="get_split_state"):
        ggml.ggml_backend_alloc_ctx_tensors(ctx, backend)
    ggml.ggml_backend_free(backend)


@pytest.mark.parametrize("n", [2, 3])
def test_a_network_computes_as_on_one_device(n, ctx):
    """The weights are split by rows, so the products run on all devices. Everything else is mirrored."""
    asked = []

    def split(t, data):
        asked.append(ggml.ggml_get_name(t))
        if not ggml.ggml_get_name(t).startswith(b"w"):
            return state(MIRRORED)
        rows = t.contents.ne[1]
        counts = [rows // n] * (n - 1)
        return state(1, *counts, rows - sum(counts))

    meta = device(split, n)
    assert ggml.ggml_backend_dev_type(meta) == ggml.GGML_BACKEND_DEVICE_TYPE_META
    backend = ggml.ggml_backend_dev_init(meta, None)
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(s, np.float32) / 8 for s in ((40, 64), (64, 40), (5, 64))]
    weights = context()
    ws = [ggml.ggml_set_name(ggml.ggml_new_tensor_2d(weights, F32, *v.shape[::-1]), b"w") for v in values[:2]]
    buffer = ggml.ggml_backend_alloc_ctx_tensors(weights, backend)
    for w, v in zip(ws, values):
        ggml.ggml_backend_tensor_set(w, v.ctypes.data, 0, v.nbytes)

    x = ggml.ggml_new_tensor_2d(ctx, F32, 64, 5)
    h = ggml.ggml_relu(ctx, ggml.ggml_mul_mat(ctx, ws[0], x))
    y = ggml.ggml_scale_inplace(ctx, ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, ws[1], h), x), 0.5)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, y)
    alloc = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(backend))
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    ggml.ggml_backend_tensor_set(x, values[2].ctypes.data, 0, values[2].nbytes)
    assert ggml.ggml_backend_graph_compute(backend, graph) == 0
    want = (np.maximum(values[2] @ values[0].T, 0) @ values[1].T + values[2]) * 0.5
    np.testing.assert_allclose(get(y).reshape(5, 64), want, rtol=1e-5, atol=1e-5)
    assert asked.count(b"w") == 2
    ggml.ggml_gallocr_free(alloc)
    ggml.ggml_backend_buffer_free(buffer)
    ggml.ggml_free(weights)
    ggml.ggml_backend_free(backend)


def test_the_scheduler_uses_it(ctx):
    meta = ggml.ggml_backend_dev_init(device(lambda t, data: state(1, t.contents.ne[1], 0)), None)
    cpu = ggml.ggml_backend_cpu_init()
    weights = context()
    w = ggml.ggml_new_tensor_2d(weights, F32, 8, 4)
    buffer = ggml.ggml_backend_alloc_ctx_tensors(weights, meta)
    ggml.ggml_backend_buffer_set_usage(buffer, ggml.GGML_BACKEND_BUFFER_USAGE_WEIGHTS)
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    ggml.ggml_backend_tensor_set(w, values.ctypes.data, 0, values.nbytes)
    x = ggml.ggml_new_tensor_1d(ctx, F32, 8)
    ggml.ggml_set_input(x)
    y = ggml.ggml_mul_mat(ctx, w, x)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, y)
    sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 2)(meta, cpu), None, 2, 100, False)
    assert ggml.ggml_backend_sched_alloc_graph(sched, graph)
    ggml.ggml_backend_tensor_set(x, np.ones(8, np.float32), 0, 32)
    assert ggml.ggml_backend_sched_graph_compute(sched, graph) == 0
    assert ggml.ggml_backend_sched_get_tensor_backend(sched, y) == meta
    assert get(y).tolist() == values.sum(1).tolist()
    ggml.ggml_backend_sched_free(sched)
    ggml.ggml_backend_buffer_free(buffer)
    ggml.ggml_free(weights)
    for b in (meta, cpu):
        ggml.ggml_backend_free(b)


def test_segments_and_repeats_are_bounded(ctx):
    """Neither more segments than the struct has, nor billions of repetitions of nothing."""
    many = state(1, 3, 4)
    many.n_segments = 17
    empty = state(1, 0, 0, 3, 4, repeats=(0xFFFFFFFF, 1))
    for how, message in ((many, "returned 17 segments: need at most 16"), (empty, None)):
        backend = ggml.ggml_backend_dev_init(device(lambda t, data, how=how: how), None)
        ggml.ggml_new_tensor_2d(ctx, F32, 4, 7)
        if message:
            with pytest.raises(ValueError, match=message):
                ggml.ggml_backend_alloc_ctx_tensors(ctx, backend)
        else:
            ggml.ggml_backend_buffer_free(ggml.ggml_backend_alloc_ctx_tensors(ctx, backend))
        ggml.ggml_backend_free(backend)


def test_no_memory_on_a_device_frees_the_other_parts(ctx):
    full, rest = (example("python_backend").NumpyDevice(name) for name in (b"Full", b"Rest"))
    full.buffer_type.iface.alloc_buffer = ggml.ggml_backend_buffer_i_alloc_buffer(lambda buft, size: None)
    for d in (full, rest):
        ggml.ggml_backend_dev_name(d.device)  # registers the device
    members = (ctypes.c_void_p * 2)(rest.handle, full.handle)
    meta = ggml.ggml_backend_meta_device(members, 2, lambda t, data: state(MIRRORED), None)
    backend = ggml.ggml_backend_dev_init(meta, None)
    ggml.ggml_new_tensor_1d(ctx, F32, 4)
    with pytest.raises(MemoryError, match="no memory on Full for its part of the tensor"):
        ggml.ggml_backend_alloc_ctx_tensors(ctx, backend)
    assert not rest.memory
    ggml.ggml_backend_free(backend)


@pytest.mark.parametrize(
    "function, error, message",
    [
        (5, ValueError, r"get_split_state \(0x5\) is the address of no function"),
        (ctypes.c_void_p(1 << 20), ValueError, "is the address of no function"),
        (None, TypeError, "get_split_state is NULL: need a function"),
        (0, TypeError, "get_split_state is NULL: need a function"),
        ("split", TypeError, "get_split_state is 'split': need a callback"),
        (ggml.ggml_abort_callback(lambda data: True), TypeError, "need a ggml_backend_meta_get_split_state_t"),
    ],
    ids=["address", "c_void_p", "None", "NULL", "text", "another signature"],
)
def test_a_split_function_that_is_none(function, error, message):
    with pytest.raises(error, match="^ggml_backend_meta_device: .*" + message):
        device(function)


def test_names():
    names = [ggml.ggml_backend_meta_split_axis_name(i) for i in (0, 3, 10, 11, 98, 99)]
    assert names == [b"0", b"3", b"MIRRORED", b"PARTIAL", b"NONE", b"UNKNOWN"]
    with pytest.raises(ValueError, match="split_axis is 4"):
        ggml.ggml_backend_meta_split_axis_name(4)
    assert ggml.ggml_backend_dev_name(device(lambda t, data: None)) == b"Meta(CPU+CPU1)"


def test_products_run_on_every_device(ctx):
    """One of the devices is the example written in Python, which records what it computed."""
    recorder = example("python_backend").NumpyDevice()
    ggml.ggml_backend_dev_name(recorder.device)  # registers the device
    members = (ctypes.c_void_p * 2)(ggml.ggml_backend_dev_by_name(b"CPU"), recorder.handle)
    split = lambda t, data: state(1, 3, 2) if ggml.ggml_get_name(t) == b"w" else state(MIRRORED)  # noqa: E731
    backend = ggml.ggml_backend_dev_init(ggml.ggml_backend_meta_device(members, 2, split, None), None)
    w = ggml.ggml_set_name(ggml.ggml_new_tensor_2d(ctx, F32, 4, 5), b"w")
    x = ggml.ggml_new_tensor_2d(ctx, F32, 4, 2)
    y = ggml.ggml_mul_mat(ctx, w, x)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, y)
    buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, backend)
    a, b = np.arange(20, dtype=np.float32).reshape(5, 4), np.arange(8, dtype=np.float32).reshape(2, 4)
    ggml.ggml_backend_tensor_set(w, a, 0, a.nbytes)
    ggml.ggml_backend_tensor_set(x, b, 0, b.nbytes)
    assert ggml.ggml_backend_graph_compute(backend, graph) == 0
    assert (get(y).reshape(2, 5) == b @ a.T).all() and recorder.computed == ["MUL_MAT"]
    ggml.ggml_backend_buffer_free(buffer)
    ggml.ggml_backend_free(backend)
    assert not recorder.memory
