"""Graphs in files, scratch buffers, and buffers in the memory of a context."""

import ctypes
import random

import numpy as np
import pytest

import ggml
import ggml.utils as utils


@pytest.fixture
def ctx():
    handle = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 21, mem_buffer=None, no_alloc=False))
    yield handle
    ggml.ggml_free(handle)


def import_graph(path):
    data, evaluated = ctypes.c_void_p(), ctypes.c_void_p()
    graph = ggml.ggml_graph_import(str(path).encode(), ctypes.byref(data), ctypes.pointer(evaluated))
    return data, evaluated, graph


@pytest.fixture
def exported(ctx, tmp_path):
    """A file with a graph that has views, an in-place operation and gradients; also its result and the gradient by
    w.
    """
    rng = np.random.default_rng(1)
    x = utils.from_numpy(rng.standard_normal((3, 8)).astype(np.float32), ctx)
    w = utils.from_numpy(rng.standard_normal((5, 8)).astype(np.float32), ctx)
    ggml.ggml_set_param(w)
    ggml.ggml_set_name(w, b"w")
    y = ggml.ggml_relu_inplace(ctx, ggml.ggml_mul_mat(ctx, w, x))
    loss = ggml.ggml_sum(ctx, ggml.ggml_view_1d(ctx, y, 9, 8))
    ggml.ggml_set_loss(loss)
    ggml.ggml_set_name(loss, b"loss")
    graph = ggml.ggml_new_graph_custom(ctx, 64, True)
    ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    ggml.ggml_graph_reset(graph)
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
    path = tmp_path / "graph"
    ggml.ggml_graph_export(graph, str(path).encode())
    return path, ggml.ggml_get_f32_1d(loss, 0), utils.to_numpy(ggml.ggml_graph_get_grad(graph, w)).copy()


def test_round_trip(exported):
    path, loss, grad = exported
    data, evaluated, graph = import_graph(path)
    ggml.ggml_graph_reset(graph)
    assert ggml.ggml_graph_compute_with_ctx(evaluated, graph, 2) == ggml.GGML_STATUS_SUCCESS
    assert ggml.ggml_get_f32_1d(ggml.ggml_graph_get_tensor(graph, b"loss"), 0) == loss != 0
    w = ggml.ggml_graph_get_tensor(graph, b"w")
    assert np.array_equal(utils.to_numpy(ggml.ggml_graph_get_grad(graph, w)), grad)
    assert ggml.ggml_get_tensor(data, b"w") == w
    ggml.ggml_free(data)
    ggml.ggml_free(evaluated)


def test_broken_files(exported, tmp_path):
    """A changed file raises an error that names the function, or gives a graph that is computed or refused."""
    good, rng, refused = exported[0].read_bytes(), random.Random(1), 0
    path = tmp_path / "mutant"
    for _ in range(1500):
        mutant = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(mutant)) & ~3
            mutant[at : at + 4] = rng.choice([0, 1, 64, rng.getrandbits(32), 2**31 - 1, 2**31, 2**32 - 1]).to_bytes(
                4, "little"
            )
        path.write_bytes(mutant[: rng.randrange(len(mutant))] if rng.random() < 0.1 else mutant)
        try:
            data, evaluated, graph = import_graph(path)
        except (ValueError, MemoryError, RuntimeError) as error:
            assert str(error).startswith("ggml_graph_import: ")
            refused += 1
            continue
        try:
            ggml.ggml_graph_compute_with_ctx(evaluated, graph, 1)
        except (ValueError, MemoryError, RuntimeError):
            pass
        ggml.ggml_free(data)
        ggml.ggml_free(evaluated)
    assert 100 < refused < 1500


def test_graphs_and_files_that_are_refused(ctx, tmp_path):
    a = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_map_custom1(ctx, a, lambda *args: None, 1, None))
    with pytest.raises(ValueError, match="callback"):
        ggml.ggml_graph_export(graph, str(tmp_path / "graph").encode())
    with pytest.raises(OSError):
        import_graph(tmp_path / "none")
    with pytest.raises(TypeError, match="ctx_data"):
        ggml.ggml_graph_import(b"none", None, None)


def test_scratch(ctx):
    memory = (ctypes.c_uint8 * 1024)()
    start = ctypes.addressof(memory)
    scratch = ggml.ggml_scratch(offs=0, size=1024, data=ctypes.cast(memory, ctypes.c_void_p))
    assert ggml.ggml_set_scratch(ctx, scratch) == 0
    used = ggml.ggml_used_mem(ctx)
    a = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 64)
    assert start <= a.contents.data < start + 16
    assert ggml.ggml_used_mem(ctx) == used + ggml.ggml_tensor_overhead()
    ggml.ggml_set_f32(a, 2)
    b = ggml.ggml_sqr(ctx, a)
    assert not start <= ggml.ggml_new_f32(ctx, 3).contents.data < start + 1024
    with pytest.raises(MemoryError, match="scratch"):
        ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 640)
    assert ggml.ggml_set_scratch(ctx, ggml.ggml_scratch(0, 0, None)) == 512
    assert not start <= ggml.ggml_new_tensor_1d(ctx, 0, 4).contents.data < start + 1024
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, b)
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 2)
    assert ggml.ggml_get_f32_1d(b, 63) == 4
    with pytest.raises(ValueError, match="scratch"):
        ggml.ggml_set_scratch(ctx, ggml.ggml_scratch(0, 2048, ctypes.cast(memory, ctypes.c_void_p)))
    with pytest.raises(ValueError, match="scratch"):
        ggml.ggml_set_scratch(ctx, ggml.ggml_scratch(0, 64, 5))


def test_new_buffer(ctx):
    used = ggml.ggml_used_mem(ctx)
    address = ggml.ggml_new_buffer(ctx, 100)
    ctypes.memset(address, 7, 100)
    assert used + 100 <= ggml.ggml_used_mem(ctx) <= used + 160
    assert not ggml.ggml_get_first_tensor(ctx)
    with pytest.raises(MemoryError):
        ggml.ggml_new_buffer(ctx, 1 << 22)
