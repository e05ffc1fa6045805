"""Outputs keep their values: graphs whose tensors share memory give the results of graphs whose tensors do not.

Outputs are marked on results, on views of every kind, and after the graph was built. The reference is the same graph
in a context in which every tensor has memory of its own.
"""

import ctypes

import ggml._backend.device
import numpy as np
import pytest
from placed import context, put

import ggml

F32 = ggml.GGML_TYPE_F32
N = 16  # tensors are N x N
VIEWS = {
    "view_tensor": lambda ctx, a: ggml.ggml_view_tensor(ctx, a),
    "view_1d": lambda ctx, a: ggml.ggml_view_1d(ctx, a, N * N, 0),
    "view_2d": lambda ctx, a: ggml.ggml_view_2d(ctx, a, N, N, 4 * N, 0),
    "reshape": lambda ctx, a: ggml.ggml_reshape_2d(ctx, a, N, N) if ggml.ggml_is_contiguous(a) else a,
    "permute": lambda ctx, a: ggml.ggml_permute(ctx, a, 1, 0, 2, 3),
    "transpose": lambda ctx, a: ggml.ggml_transpose(ctx, a),
    "view_tensor of a view": lambda ctx, a: ggml.ggml_view_tensor(ctx, ggml.ggml_transpose(ctx, a)),
    "view of a view_tensor": lambda ctx, a: ggml.ggml_view_1d(ctx, ggml.ggml_view_tensor(ctx, a), N, 4 * N),
    "view_tensor of a view_tensor": lambda ctx, a: ggml.ggml_view_tensor(ctx, ggml.ggml_view_tensor(ctx, a)),
}


class Memory:
    """A way to give the tensors of a graph their memory and to compute it."""

    def __init__(self, kind):
        other = ggml._backend.device._new_cpu_device(b"CPU1")  # a CPU that does not read the memory of the first
        self.cpus = [ggml.ggml_backend_dev_init(other, None), ggml.ggml_backend_cpu_init()]
        self.kind, self.buffer = kind, None
        if kind == "gallocr":
            self.galloc = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())
        if kind == "sched":
            array = (ctypes.c_void_p * 2)(*self.cpus)
            self.sched = ggml.ggml_backend_sched_new(array, None, 2, 512, False)

    def alloc(self, ctx, graph):
        if self.kind == "gallocr":
            assert ggml.ggml_gallocr_alloc_graph(self.galloc, graph)
        elif self.kind == "sched":
            for i in range(0, ggml.ggml_graph_n_nodes(graph), 3):
                node = ggml.ggml_graph_node(graph, i)
                if not node.contents.view_src:
                    ggml.ggml_backend_sched_set_tensor_backend(self.sched, node, self.cpus[i % 2])
            assert ggml.ggml_backend_sched_alloc_graph(self.sched, graph)
        else:
            self.buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, self.cpus[1])

    def compute(self, graph):
        if self.kind == "sched":
            assert ggml.ggml_backend_sched_graph_compute(self.sched, graph) == ggml.GGML_STATUS_SUCCESS
        else:
            assert ggml.ggml_backend_graph_compute(self.cpus[1], graph) == ggml.GGML_STATUS_SUCCESS

    def close(self):
        if self.kind == "gallocr":
            ggml.ggml_gallocr_free(self.galloc)
        elif self.kind == "sched":
            ggml.ggml_backend_sched_free(self.sched)
        elif self.buffer:
            ggml.ggml_backend_buffer_free(self.buffer)
        for cpu in self.cpus:
            ggml.ggml_backend_free(cpu)


def read(t):
    """A copy of the elements of a matrix with any strides."""
    (n0, n1), (s0, s1) = t.contents.ne[:2], t.contents.nb[:2]
    raw = np.frombuffer(ctypes.string_at(t.contents.data, (n0 - 1) * s0 + (n1 - 1) * s1 + 4), np.float32)
    return np.lib.stride_tricks.as_strided(raw, (n1, n0), (s1, s0)).copy()


def program(ctx, seed):
    """A random graph: (leafs, outputs, graph). Views of computed tensors are expanded where they are made."""
    rng = np.random.default_rng(seed)
    graph = ggml.ggml_new_graph(ctx)
    leafs = [ggml.ggml_new_tensor_2d(ctx, F32, N, N) for _ in range(3)]
    for t in leafs[: rng.integers(4)]:
        ggml.ggml_set_input(t)
    pool, outputs = list(leafs), []
    for _ in range(25):
        a, b = (pool[i] for i in rng.integers(max(0, len(pool) - 5), len(pool), 2))
        kind = rng.integers(10)
        if kind < 3:
            made = list(VIEWS.values())[rng.integers(len(VIEWS))](ctx, a)
        elif kind < 5:
            in_place = (ggml.ggml_sqr_inplace, ggml.ggml_neg_inplace, ggml.ggml_sigmoid_inplace)[rng.integers(3)]
            made = in_place(ctx, a)
        else:
            made = (
                lambda: ggml.ggml_add(ctx, a, b) if ggml.ggml_are_same_shape(a, b) else ggml.ggml_tanh(ctx, a),
                lambda: ggml.ggml_sigmoid(ctx, b),
                lambda: ggml.ggml_soft_max(ctx, a),
                lambda: ggml.ggml_cont_2d(ctx, b, N, N) if ggml.ggml_nelements(b) == N * N else ggml.ggml_neg(ctx, b),
            )[rng.integers(4)]()
        if ggml.ggml_nelements(made) == N * N:
            pool.append(made)
        ggml.ggml_build_forward_expand(graph, made)
        if rng.random() < 0.3:
            outputs.append(made)
    for t in outputs:  # only now: an allocator looks at the flags when it places the tensors
        ggml.ggml_set_output(t)
    return leafs, outputs, graph


def results(kind, seed):
    ctx, memory = context(), Memory(kind)
    try:
        leafs, outputs, graph = program(ctx, seed)
        memory.alloc(ctx, graph)
        for i, t in enumerate(leafs):
            if t.contents.data:  # None: nothing reads the leaf
                put(t, np.random.default_rng(i).standard_normal(N * N))
        memory.compute(graph)
        return [read(t) for t in outputs]
    finally:
        memory.close()
        ggml.ggml_free(ctx)


@pytest.mark.parametrize("kind", ["gallocr", "sched"])
@pytest.mark.parametrize("seed", range(40))
def test_outputs_of_random_graphs(seed, kind):
    for i, (got, want) in enumerate(zip(results(kind, seed), results("apart", seed), strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"output {i}")


@pytest.mark.parametrize("kind", ["gallocr", "sched"])
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_an_output_view_keeps_the_tensor_that_it_views(view, is_read, kind):
    ctx, memory = context(), Memory(kind)
    x = ggml.ggml_new_tensor_2d(ctx, F32, N, N)
    y = ggml.ggml_sqr(ctx, x)
    v = VIEWS[view](ctx, y)
    graph = ggml.ggml_new_graph(ctx)
    for t in (y, v):
        ggml.ggml_build_forward_expand(graph, t)
    h = ggml.ggml_cont(ctx, v) if is_read else y
    for _ in range(4):
        h = ggml.ggml_add(ctx, ggml.ggml_sqrt(ctx, h), ggml.ggml_sqr(ctx, h))
    ggml.ggml_build_forward_expand(graph, h)
    memory.alloc(ctx, graph)
    for _ in range(2):  # the second time, the flag has changed after the graph was placed
        given = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32)
        memory.alloc(ctx, graph)
        put(x, given)
        memory.compute(graph)
        ggml.ggml_set_output(v)
    got = read(v)
    want = (given**2).T if got.shape == (N, N) and ggml.ggml_is_transposed(v) else given**2
    np.testing.assert_array_equal(got.ravel(), want.ravel()[: got.size] if got.size == N * N else want[1])
    memory.close()
    ggml.ggml_free(ctx)
