"""The linear allocator, the allocator of a context and the graph allocator. A model computes which tensors of a
graph must survive; the plans of the graph allocator are compared with it.
"""

import ctypes
import itertools
import os

import ggml._backend.device
import numpy as np
import pytest
from cases.harness import graph_of
from placed import context, get, put

import ggml

F32, F16, I32 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_F16, ggml.GGML_TYPE_I32
NO_ALLOC = True  # the fixture ctx makes contexts without memory
BUFT = ggml.ggml_backend_cpu_buffer_type()
RED_ZONE = 64 if "asan" in os.environ.get("LD_PRELOAD", "") else 0  # after each tensor, for the address sanitizer


@pytest.fixture
def alloc():
    a = ggml.ggml_gallocr_new(BUFT)
    yield a
    ggml.ggml_gallocr_free(a)


def vector(ctx, n=64, kind=F32):
    return ggml.ggml_new_tensor_1d(ctx, kind, n)


# ---- linear ----------------------------------------------------------------------------------------------------------


def test_tallocr_places_tensors_consecutively(ctx):
    buf = ggml.ggml_backend_buft_alloc_buffer(BUFT, 256)
    talloc = ggml.ggml_tallocr_new(buf)
    assert talloc.buffer == buf and talloc.offset == 0 and talloc.alignment == 32
    a, b, c = vector(ctx, 9), vector(ctx, 32), vector(ctx, 17)
    assert ggml.ggml_tallocr_alloc(ctypes.byref(talloc), a) == 0
    assert ggml.ggml_tallocr_alloc(ctypes.pointer(talloc), b) == 0
    assert talloc.offset == 64 + 128
    assert a.contents.data == talloc.base and b.contents.data == talloc.base + 64 and b.contents.buffer == buf
    with pytest.raises(MemoryError, match="takes 96 bytes: 64 of the buffer's 256 are left"):
        ggml.ggml_tallocr_alloc(ctypes.byref(talloc), c)
    with pytest.raises(ValueError, match="has data already"):
        ggml.ggml_tallocr_alloc(ctypes.byref(talloc), a)
    with pytest.raises(TypeError, match="need a ggml_tallocr"):
        ggml.ggml_tallocr_alloc(None, c)
    ggml.ggml_backend_buffer_free(buf)
    with pytest.raises(RuntimeError, match="is not a live buffer"):
        ggml.ggml_tallocr_alloc(ctypes.byref(talloc), c)


def test_tensor_alloc_keeps_to_the_buffer(ctx):
    buf = ggml.ggml_backend_buft_alloc_buffer(BUFT, 128)
    base = ggml.ggml_backend_buffer_get_base(buf)
    t = vector(ctx, 32)
    for addr in (base + 4, base - 4, base + 128, None, base + (1 << 40)):
        with pytest.raises(ValueError, match="takes 128 bytes, the buffer has 128 from"):
            ggml.ggml_backend_tensor_alloc(buf, t, addr)
    assert ggml.ggml_backend_tensor_alloc(buf, t, base) == 0
    ggml.ggml_backend_buffer_free(buf)


def test_all_tensors_of_a_context(ctx, cpu):
    a, b = vector(ctx, 9), vector(ctx, 32)
    v = ggml.ggml_view_1d(ctx, b, 4, 64)
    size = 192 + 2 * RED_ZONE
    assert ggml.ggml_backend_alloc_ctx_tensors_from_buft_size(ctx, BUFT) == size
    buf = ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu)
    assert ggml.ggml_backend_buffer_get_size(buf) == size
    assert v.contents.data == b.contents.data + 64 and v.contents.buffer == buf
    assert ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu) is None
    ggml.ggml_backend_buffer_free(buf)
    again = ggml.ggml_backend_alloc_ctx_tensors_from_buft(ctx, BUFT)  # their memory was freed
    assert ggml.ggml_backend_buffer_get_size(again) == size and a.contents.buffer == again
    ggml.ggml_backend_buffer_free(again)
    with_data = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 16, mem_buffer=None, no_alloc=False))
    vector(with_data)
    with pytest.raises(ValueError, match="without no_alloc"):
        ggml.ggml_backend_alloc_ctx_tensors(with_data, cpu)
    ggml.ggml_free(with_data)


# ---- graphs: which tensors must survive ------------------------------------------------------------------------------


def root(t):
    return t.contents.view_src if t.contents.view_src else t


def span(t):
    return t.contents.data, t.contents.data + ggml.ggml_nbytes(t)


def check(graph):
    """Asserts that no node overwrites what a later node or the caller still reads."""
    nodes = [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]
    end = len(nodes)
    reads = {}  # maps a root tensor to the last node that reads it
    born = {}
    used = set()
    for i, n in enumerate(nodes):
        born.setdefault(root(n), i)
        reads[root(n)] = max(reads.get(root(n), 0), i)
        for s in n.contents.src:
            if s:
                born.setdefault(root(s), -1)
                reads[root(s)] = i
                used.add(s)
    for n in nodes:
        if n not in used or n.contents.flags & ggml.GGML_TENSOR_FLAG_OUTPUT:
            reads[root(n)] = end
    for i, n in enumerate(nodes):
        if n.contents.op in (ggml.GGML_OP_VIEW, ggml.GGML_OP_RESHAPE, ggml.GGML_OP_PERMUTE, ggml.GGML_OP_TRANSPOSE):
            continue
        a, b = span(n)
        for other, last in reads.items():
            if other == root(n) or not born[other] < i:
                continue
            c, d = span(other)
            if a < d and c < b:
                assert last <= i, f"node {i} writes over what node {last} reads"
                if last == i:  # computed in place of an operand: the only one there, of the same layout
                    same = [s for s in n.contents.src if s and root(s) == other]
                    assert (
                        len(same) == 1 and list(same[0].contents.nb) == list(n.contents.nb) and (a, b) == span(same[0])
                    )


def random_graph(ctx, rng, n):
    """Nodes of many kinds that use each other: operations that may run in place, views, products, several results."""
    pool = [ggml.ggml_new_tensor_2d(ctx, F32, 16, 16) for _ in range(3)]
    leafs = list(pool)
    ggml.ggml_set_input(pool[0])
    for _ in range(n):
        a, b = (pool[i] for i in rng.integers(max(0, len(pool) - 6), len(pool), 2))
        made = [
            lambda: ggml.ggml_add(ctx, a, b),
            lambda: ggml.ggml_mul(ctx, b, a),
            lambda: ggml.ggml_mul_mat(ctx, a, b),
            lambda: ggml.ggml_relu(ctx, a),
            lambda: ggml.ggml_soft_max(ctx, a),
            lambda: ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, a)),
            lambda: ggml.ggml_add(ctx, a, ggml.ggml_view_2d(ctx, a, 16, 1, 64, 64 * 3)),
            lambda: ggml.ggml_scale(ctx, ggml.ggml_reshape_2d(ctx, ggml.ggml_reshape_1d(ctx, a, 256), 16, 16), 0.5),
            lambda: ggml.ggml_concat(
                ctx, ggml.ggml_view_2d(ctx, a, 16, 8, 64, 0), ggml.ggml_view_2d(ctx, b, 16, 8, 64, 512), 1
            ),
        ][rng.integers(9)]()
        if rng.random() < 0.05:
            ggml.ggml_set_output(made)
        pool.append(made)
    return leafs, pool


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_compute_the_same_as_with_memory_for_all(seed, alloc, cpu, ctx):
    rng = np.random.default_rng(seed)
    leafs, pool = random_graph(ctx, rng, 60)
    graph = graph_of(ctx, pool[-1], pool[-2])
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    check(graph)
    peak = ggml.ggml_gallocr_get_buffer_size(alloc, 0)

    plain = context()
    leafs2, pool2 = random_graph(plain, np.random.default_rng(seed), 60)
    buf = ggml.ggml_backend_alloc_ctx_tensors(plain, cpu)
    graph2 = graph_of(plain, pool2[-1], pool2[-2])
    for a, b in zip(leafs, leafs2):
        values = rng.standard_normal(256)
        put(b, values)
        if a.contents.data:
            put(a, values)
    assert ggml.ggml_backend_graph_compute(cpu, graph) == ggml.ggml_backend_graph_compute(cpu, graph2) == 0
    for a, b in ((pool[-1], pool2[-1]), (pool[-2], pool2[-2])):
        assert np.array_equal(get(a), get(b), equal_nan=True)
    assert peak < ggml.ggml_backend_buffer_get_size(buf) / 2
    ggml.ggml_backend_buffer_free(buf)
    ggml.ggml_free(plain)


def test_a_chain_needs_the_memory_of_one(ctx, alloc):
    x = vector(ctx)
    y = ggml.ggml_mul_mat(ctx, x, x)
    y = z = ggml.ggml_repeat(ctx, y, x)
    for _ in range(10):
        y = ggml.ggml_sqr(ctx, y)
    graph = graph_of(ctx, y)
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    assert y.contents.data == z.contents.data
    check(graph)


def test_operands_are_overwritten_only_where_nothing_else_needs_them(ctx, alloc):
    x = vector(ctx)
    ggml.ggml_set_input(x)
    a = ggml.ggml_sqr(ctx, x)  # an input is not overwritten
    b = ggml.ggml_sqr(ctx, a)  # overwrites a
    out = ggml.ggml_sqr(ctx, b)  # b is read again and is not overwritten
    c = ggml.ggml_add(ctx, out, b)  # out is an output and is not overwritten; b is
    ggml.ggml_set_output(out)
    d = ggml.ggml_mul(ctx, c, ggml.ggml_view_1d(ctx, c, 1, 4))  # c is also read at other positions
    graph = graph_of(ctx, d)
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    at = [t.contents.data for t in (x, a, b, out, c, d)]
    assert at[1] != at[0] and at[2] == at[1] and at[3] != at[2] and at[4] == at[2] and at[5] != at[4] and at[5] != at[3]
    check(graph)


def test_inputs_do_not_overlap_and_unread_results_stay(ctx, alloc):
    ins = [vector(ctx) for _ in range(4)]
    for t in ins:
        ggml.ggml_set_input(t)
    sums = [ggml.ggml_add(ctx, a, b) for a, b in zip(ins, ins[1:])]
    graph = graph_of(ctx, *sums)
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    spans = sorted(span(t) for t in ins)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:]))
    spans = sorted(span(t) for t in sums)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:]))


def test_reserve_covers_smaller_graphs(alloc):
    sizes = set()
    for n in (512, 100, 511, 7):
        c = context()
        x = vector(c, n)
        y = ggml.ggml_add(c, ggml.ggml_mul_mat(c, x, x), ggml.ggml_sum(c, ggml.ggml_exp(c, x)))
        assert (ggml.ggml_gallocr_reserve if n == 512 else ggml.ggml_gallocr_alloc_graph)(alloc, graph_of(c, y))
        sizes.add(ggml.ggml_gallocr_get_buffer_size(alloc, 0))
        ggml.ggml_free(c)
    assert len(sizes) == 1 and sizes.pop() > 0


def test_the_same_graph_again_keeps_its_places(ctx, alloc, cpu):
    x = vector(ctx, 8)
    y = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, x))
    graph = graph_of(ctx, y)
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    places = x.contents.data, y.contents.data
    put(x, np.arange(8))
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    assert (x.contents.data, y.contents.data) == places and get(x).tolist() == list(range(8))
    ggml.ggml_backend_graph_compute(cpu, graph)
    assert get(y).tolist() == [140]


def test_a_larger_graph_with_the_same_leaf_does_not_move_it(ctx, cpu):
    alloc = ggml.ggml_gallocr_new(BUFT)
    big = vector(ctx, 100000)
    assert ggml.ggml_gallocr_reserve(alloc, graph_of(ctx, ggml.ggml_sqr(ctx, ggml.ggml_cont(ctx, big))))
    x = vector(ctx, 8)
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph_of(ctx, ggml.ggml_sqr(ctx, x)))
    put(x, np.arange(8))
    y = x
    for _ in range(3):
        y = ggml.ggml_concat(ctx, y, x, 0)
    graph = graph_of(ctx, y)
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    check(graph)
    ggml.ggml_backend_graph_compute(cpu, graph)
    assert get(y).tolist() == list(range(8)) * 4
    ggml.ggml_gallocr_free(alloc)


def test_nodes_of_a_freed_buffer_are_placed_again_but_leafs_raise(ctx, cpu):
    weights = context()
    w = vector(weights, 8)
    buf = ggml.ggml_backend_alloc_ctx_tensors(weights, cpu)
    put(w, np.arange(8))
    y = ggml.ggml_sqr(ctx, ggml.ggml_reshape_2d(ctx, ggml.ggml_sqr(ctx, w), 4, 2))
    graph = graph_of(ctx, y)
    for _ in range(3):
        alloc = ggml.ggml_gallocr_new(BUFT)
        assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
        ggml.ggml_backend_graph_compute(cpu, graph)
        assert get(y).tolist() == [float(k**4) for k in range(8)]
        ggml.ggml_gallocr_free(alloc)
    ggml.ggml_backend_buffer_free(buf)
    alloc = ggml.ggml_gallocr_new(BUFT)
    with pytest.raises(RuntimeError, match="^ggml_gallocr_alloc_graph: leaf .* lies in a buffer that was freed"):
        ggml.ggml_gallocr_alloc_graph(alloc, graph)
    ggml.ggml_gallocr_free(alloc)
    ggml.ggml_free(weights)


# ---- the same graph again, after the caller changed something --------------------------------------------------------


def chain(ctx, n=64):
    """x, a = x^2, b = 2a, c = a + b, out = c^2."""
    x = vector(ctx, n)
    ggml.ggml_set_input(x)
    a = ggml.ggml_sqr(ctx, x)
    b = ggml.ggml_scale(ctx, a, 2.0)
    c = ggml.ggml_add(ctx, a, b)
    out = ggml.ggml_sqr(ctx, c)
    return x, a, b, c, out, graph_of(ctx, out)


def made_larger(x, a, b, c, out, graph):
    for t in (x, a, b, c, out):
        t.contents.ne[0] = 4096
        for d in (1, 2, 3):
            t.contents.nb[d] = 4 * 4096


def made_smaller(x, a, b, c, out, graph):
    for t in (x, a, b, c, out):
        t.contents.ne[0] = 5


def other_operand(x, a, b, c, out, graph):
    out.contents.op, out.contents.src[1] = ggml.GGML_OP_ADD, a


def an_output(x, a, b, c, out, graph):
    ggml.ggml_set_output(a)


def no_data(x, a, b, c, out, graph):
    for t in (x, a, b, c, out):
        t.contents.data = t.contents.buffer = None


def input_without_data(x, a, b, c, out, graph):
    x.contents.data = None


def buffer_freed(x, a, b, c, out, graph):
    x.contents.data = x.contents.buffer = None
    ggml.ggml_backend_buffer_free(out.contents.buffer)


def other_order(x, a, b, c, out, graph):
    """Exchanges nodes that do not depend on each other: b is now computed from x."""
    nodes, at = graph.contents.nodes, {ggml.ggml_graph_node(graph, i): i for i in range(4)}
    b.contents.src[0] = x
    nodes[at[a]], nodes[at[b]] = b, a


@pytest.mark.parametrize("by", ["allocator", "scheduler"])
@pytest.mark.parametrize(
    "change",
    [made_larger, made_smaller, other_operand, an_output, no_data, input_without_data, buffer_freed, other_order],
)
def test_a_changed_graph_is_planned_again(change, by, ctx, cpu, alloc):
    """The changed graph gives the same results as with an allocator that has never seen the graph."""
    sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 64, False)

    def place(graph):
        if by == "allocator":
            return ggml.ggml_gallocr_alloc_graph(alloc, graph)
        ggml.ggml_backend_sched_reset(sched)
        return ggml.ggml_backend_sched_alloc_graph(sched, graph)

    made = chain(ctx)
    for _ in range(3):
        assert place(made[-1])
    change(*made)
    assert place(made[-1])
    check(made[-1])
    for t in made[:-1]:
        base = ggml.ggml_backend_buffer_get_base(t.contents.buffer)
        assert base <= span(t)[0] and span(t)[1] <= base + ggml.ggml_backend_buffer_get_size(t.contents.buffer)
    fresh = chain(ctx)
    if change is not buffer_freed:
        change(*fresh)
    other = ggml.ggml_gallocr_new(BUFT)
    assert ggml.ggml_gallocr_alloc_graph(other, fresh[-1])
    results = []
    for x, *_, out, graph in (made, fresh):
        put(x, np.arange(ggml.ggml_nelements(x)) / 7)
        assert ggml.ggml_backend_graph_compute(cpu, graph) == 0
        results.append(get(out))
    assert results[0].any()
    np.testing.assert_array_equal(*results)
    ggml.ggml_gallocr_free(other)
    ggml.ggml_backend_sched_free(sched)


@pytest.mark.parametrize("by", ["allocator", "scheduler"])
def test_graphs_rebuilt_in_the_same_memory(by, cpu, alloc):
    """Programs often build one graph per step. Here the next graph is equal, has other shapes, or has the same
    number of nodes in another structure.
    """
    memory = np.zeros(1 << 17, np.uint8)
    sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 64, False)
    for step, n in enumerate((64, 64, 64, 4096, 64, 7, 64, 64)):
        c = ggml.ggml_init(ggml.ggml_init_params(mem_size=memory.nbytes, mem_buffer=memory.ctypes.data, no_alloc=True))
        x, a, b, s, out, graph = chain(c, n)
        if step == 6:  # b is read again at the end, and so is its memory
            out.contents.op, out.contents.src[1] = ggml.GGML_OP_ADD, b
        ggml.ggml_free(c)
        ggml.ggml_backend_sched_reset(sched)
        if by == "allocator":
            assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
        else:
            assert ggml.ggml_backend_sched_alloc_graph(sched, graph)
        check(graph)
        values = np.arange(n, dtype=np.float32) / n + step
        put(x, values)
        compute = ggml.ggml_backend_graph_compute if by == "allocator" else ggml.ggml_backend_sched_graph_compute
        assert compute(cpu if by == "allocator" else sched, graph) == 0
        sq = values * values
        np.testing.assert_allclose(get(out), 3 * sq + 2 * sq if step == 6 else 9 * sq * sq, rtol=1e-6)
    ggml.ggml_backend_sched_free(sched)


def test_graphs_of_equal_structure_alternate(ctx, cpu, alloc):
    """The plan for one graph also serves the other, and the values of inputs are kept."""
    made = [chain(ctx) for _ in range(2)]
    sizes = set()
    for turn in range(6):
        x, *_, out, graph = made[turn % 2]
        assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
        check(graph)
        put(x, np.arange(64) + turn)
        assert ggml.ggml_backend_graph_compute(cpu, graph) == 0
        np.testing.assert_allclose(get(out), 9 * (np.arange(64.0) + turn) ** 4, rtol=1e-6)
        sizes.add(ggml.ggml_gallocr_get_buffer_size(alloc, 0))
    assert len(sizes) == 1


def test_known_graphs_keep_their_places(ctx, alloc):
    """Graphs of different structures alternate. The places of each one stay until the buffer is replaced."""
    made = [chain(ctx, 64), chain(ctx, 300), chain(ctx, 64)]
    other_operand(*made[2])

    def places():
        return [[span(t) for t in tensors[:-1]] for tensors in made]

    for *_, graph in made:
        assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    for *_, graph in made:  # their buffer may have been replaced in the first round
        assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    before, size = places(), ggml.ggml_gallocr_get_buffer_size(alloc, 0)
    for turn in (0, 1, 2, 2, 0, 1):
        assert ggml.ggml_gallocr_alloc_graph(alloc, made[turn][-1])
        assert places() == before
    large = chain(ctx, 5000)
    assert ggml.ggml_gallocr_alloc_graph(alloc, large[-1])
    assert ggml.ggml_gallocr_get_buffer_size(alloc, 0) > size
    for *_, graph in made:
        assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
        check(graph)
    buffer = large[0].contents.buffer
    base = ggml.ggml_backend_buffer_get_base(buffer)
    assert all(t.contents.buffer == buffer and span(t)[0] >= base for tensors in made for t in tensors[:-1])


@pytest.mark.parametrize("seed", range(6))
def test_many_graphs_in_random_order(seed, ctx, cpu, alloc):
    """More graphs than an allocator has plans for: known ones, rebuilt ones, and ones that changed since."""
    rng = np.random.default_rng(seed)
    made = {}
    for step in range(60):
        key = int(rng.integers(7))
        if key not in made or rng.random() < 0.2:
            n = int(rng.choice([7, 64, 64, 300 + 100 * step]))
            made[key] = [*chain(ctx, n), ggml.GGML_OP_SQR]
        *tensors, graph, op = made[key]
        x, *_, out = tensors
        if op == ggml.GGML_OP_SQR and rng.random() < 0.1:
            other_operand(*tensors, graph)
            made[key][-1] = op = ggml.GGML_OP_ADD
        if rng.random() < 0.1:
            no_data(*tensors, graph)
        if rng.random() < 0.05:
            assert ggml.ggml_gallocr_reserve(alloc, made[int(rng.choice(list(made)))][-2])
        assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
        check(graph)
        base = ggml.ggml_backend_buffer_get_base(out.contents.buffer)
        end = base + ggml.ggml_gallocr_get_buffer_size(alloc, 0)
        assert all(base <= span(t)[0] and span(t)[1] <= end for t in tensors)
        values = rng.random(ggml.ggml_nelements(x), np.float32)
        put(x, values)
        assert ggml.ggml_backend_graph_compute(cpu, graph) == 0
        sq = values**2
        np.testing.assert_allclose(get(out), 3 * sq + sq if op == ggml.GGML_OP_ADD else 9 * sq * sq, rtol=1e-5)


def test_a_buffer_field_that_is_not_a_buffer(ctx, alloc):
    *_, graph = made = chain(ctx)
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    made[1].contents.buffer = ggml.ggml_backend_cpu_reg()
    place = span(made[1])
    for _ in range(2):
        assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
        assert span(made[1]) == place  # the memory belongs to somebody else, so the tensor stays there
        check(graph)


def test_a_node_that_replaces_two(ctx, cpu, alloc):
    """The second graph has the same number of nodes, each like one of the first, but one of them occurs twice."""
    results = []
    for twice in (False, False, True):
        x = vector(ctx)
        ggml.ggml_set_input(x)
        a = ggml.ggml_sqr(ctx, x)
        b = a if twice else ggml.ggml_sqr(ctx, x)
        out = ggml.ggml_sqr(ctx, ggml.ggml_add(ctx, ggml.ggml_scale(ctx, a, 2.0), b))
        graph = graph_of(ctx, out)
        if twice:
            nodes, n = graph.contents.nodes, graph.contents.n_nodes
            for i in range(n, 2, -1):
                nodes[i] = nodes[i - 1]
            nodes[2] = a
            graph.contents.n_nodes = n + 1
        assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
        check(graph)
        put(x, np.arange(64) / 8)
        assert ggml.ggml_backend_graph_compute(cpu, graph) == 0
        results.append(get(out))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("by", ["allocator", "scheduler"])
def test_a_known_graph_whose_buffer_was_freed(by, ctx, cpu, alloc):
    sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 64, False)
    inner, weights = context(), context()
    x, w = vector(inner), vector(weights)
    buf = ggml.ggml_backend_alloc_ctx_tensors(weights, cpu)
    graph = graph_of(ctx, ggml.ggml_add(ctx, ggml.ggml_mul(ctx, w, w), x))

    named = "ggml_gallocr_alloc_graph" if by == "allocator" else "ggml_backend_sched_alloc_graph"

    def place():
        if by == "allocator":
            return ggml.ggml_gallocr_alloc_graph(alloc, graph)
        ggml.ggml_backend_sched_reset(sched)
        return ggml.ggml_backend_sched_alloc_graph(sched, graph)

    for _ in range(2):
        assert place()
    ggml.ggml_backend_buffer_free(buf)
    with pytest.raises(RuntimeError, match=f"^{named}: leaf .* lies in a buffer that was freed"):
        place()
    w.contents.data = w.contents.buffer = None
    buf = ggml.ggml_backend_alloc_ctx_tensors(weights, cpu)
    for _ in range(2):
        assert place()
    if by == "allocator":  # the allocator's own buffer: the values of the leaf are lost
        ggml.ggml_backend_buffer_free(x.contents.buffer)
        with pytest.raises(RuntimeError, match=f"^{named}: leaf .* lies in a buffer that was freed"):
            place()
    ggml.ggml_free(inner)
    with pytest.raises(RuntimeError, match=f"^{named}: .*freed"):
        place()
    ggml.ggml_backend_sched_free(sched)
    ggml.ggml_backend_buffer_free(buf)
    ggml.ggml_free(weights)


def test_several_buffer_types(ctx):
    other = ggml.ggml_backend_dev_buffer_type(ggml._backend.device._new_cpu_device())
    a = ggml.ggml_gallocr_new_n((ctypes.c_void_p * 3)(BUFT, other, BUFT), 3)
    x = vector(ctx, 64)
    y = ggml.ggml_sqr(ctx, x)
    z = ggml.ggml_sum(ctx, y)
    graph = graph_of(ctx, z)
    assert not ggml.ggml_gallocr_alloc_graph(a, graph)  # the buffer type of each tensor is unknown
    nodes, leafs = (ctypes.c_int * 2)(1, 2), (ctypes.c_int * 1)(0)
    sizes = (ctypes.c_size_t * 3)()
    ggml.ggml_gallocr_reserve_n_size(a, graph, nodes, leafs, sizes)
    assert list(sizes) == [256 + 32, 256, 0] or list(sizes) == [256, 256, 0]
    assert ggml.ggml_gallocr_get_buffer_size(a, 0) == 0
    assert ggml.ggml_gallocr_reserve_n(a, graph, nodes, leafs)
    assert [ggml.ggml_gallocr_get_buffer_size(a, i) for i in range(3)] == list(sizes)
    assert ggml.ggml_gallocr_alloc_graph(a, graph)
    types = [ggml.ggml_backend_buffer_get_type(t.contents.buffer) for t in (x, y, z)]
    assert types == [BUFT, other, BUFT]
    with pytest.raises(ValueError, match="node_buffer_ids has 3"):
        ggml.ggml_gallocr_reserve_n(a, graph, (ctypes.c_int * 2)(1, 3), leafs)
    with pytest.raises(ValueError, match="has 4 bytes: need 8"):
        ggml.ggml_gallocr_reserve_n(a, graph, (ctypes.c_int * 1)(1), leafs)
    with pytest.raises(ValueError, match="buffer_id is 3"):
        ggml.ggml_gallocr_get_buffer_size(a, 3)
    ggml.ggml_gallocr_free(a)


def test_a_largest_buffer_size_gives_several_buffers(ctx):
    """A buffer type written in Python that makes no buffer above 1,024 bytes."""
    made = []

    def make(buft, size):
        assert size <= 1024
        made.append(np.zeros(size, np.uint8))
        return ggml.ggml_backend_cpu_buffer_from_ptr(made[-1].ctypes.data, size)

    small = ggml.ggml_backend_buffer_type(
        iface=ggml.ggml_backend_buffer_type_i(
            get_name=ggml.ggml_backend_buffer_type_i_get_name(lambda buft: b"small"),
            alloc_buffer=ggml.ggml_backend_buffer_i_alloc_buffer(make),
            get_alignment=ggml.ggml_backend_buffer_i_get_alignment(lambda buft: 32),
            get_max_size=ggml.ggml_backend_buffer_i_get_max_size(lambda buft: 1024),
            is_host=ggml.ggml_backend_buffer_i_is_host(lambda buft: True),
        )
    )
    tensors = [vector(ctx, 100) for _ in range(6)]
    graph = graph_of(ctx, *[ggml.ggml_sqr(ctx, t) for t in tensors])
    a = ggml.ggml_gallocr_new(small)
    assert ggml.ggml_gallocr_alloc_graph(a, graph)
    check(graph)
    assert len(made) >= 3 and ggml.ggml_gallocr_get_buffer_size(a, 0) == sum(len(m) for m in made)
    ggml.ggml_gallocr_free(a)
    made.clear()
    buffer = ggml.ggml_backend_alloc_ctx_tensors_from_buft(ctx, small)
    assert len(made) == 6  # 12 tensors of 416 bytes, two in each buffer
    ggml.ggml_backend_buffer_free(buffer)


# ---- a LLaMA-7B-shaped graph -----------------------------------------------------------------------------------------


def llama(ctx, weights, n_tokens, n_kv, layers=32, width=4096, heads=32, hidden=11008, vocabulary=32000):
    head = width // heads
    elsewhere = itertools.count(1 << 40, 1 << 30)

    def w(*ne, kind=F16):
        t = ggml.ggml_new_tensor(weights, kind, len(ne), (ctypes.c_int64 * 4)(*ne, *[1] * (4 - len(ne))))
        t.contents.data = next(elsewhere)  # nothing is computed here
        return t

    def mm(x, n):
        return ggml.ggml_mul_mat(ctx, w(x.contents.ne[0], n), x)

    def norm(x):
        return ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, x, 1e-5), w(width, kind=F32))

    def shift(x):
        return ggml.ggml_scale(ctx, ggml.ggml_reshape_3d(ctx, x, head, heads, n_tokens), 2.0)

    tokens, mask = vector(ctx, n_tokens, I32), ggml.ggml_new_tensor_2d(ctx, F32, n_kv, n_tokens)
    ggml.ggml_set_input(tokens)
    ggml.ggml_set_input(mask)
    graph = ggml.ggml_new_graph_custom(ctx, 8192, False)
    x = ggml.ggml_get_rows(ctx, w(width, vocabulary), tokens)
    for _ in range(layers):
        n = norm(x)
        q, k, v = shift(mm(n, width)), shift(mm(n, width)), mm(n, width)
        kc, vc = w(width * n_kv), w(width * n_kv)
        ggml.ggml_build_forward_expand(graph, q)
        ggml.ggml_build_forward_expand(graph, ggml.ggml_cpy(ctx, k, ggml.ggml_view_1d(ctx, kc, width * n_tokens, 0)))
        into = ggml.ggml_view_2d(ctx, vc, n_tokens, width, n_kv * 2, 0)
        ggml.ggml_build_forward_expand(graph, ggml.ggml_cpy(ctx, ggml.ggml_transpose(ctx, v), into))
        keys = ggml.ggml_view_3d(ctx, kc, head, n_kv, heads, width * 2, head * 2, 0)
        scores = ggml.ggml_mul_mat(ctx, keys, ggml.ggml_permute(ctx, q, 0, 2, 1, 3))
        scores = ggml.ggml_soft_max_ext(ctx, scores, mask, 0.1, 0.0)
        values = ggml.ggml_view_3d(ctx, vc, n_kv, head, heads, n_kv * 2, n_kv * head * 2, 0)
        y = ggml.ggml_permute(ctx, ggml.ggml_mul_mat(ctx, values, scores), 0, 2, 1, 3)
        x = ggml.ggml_add(ctx, mm(ggml.ggml_cont_2d(ctx, y, width, n_tokens), width), x)
        n = norm(x)
        x = ggml.ggml_add(ctx, mm(ggml.ggml_mul(ctx, ggml.ggml_silu(ctx, mm(n, hidden)), mm(n, hidden)), width), x)
    logits = mm(norm(x), vocabulary)
    ggml.ggml_set_output(logits)
    ggml.ggml_build_forward_expand(graph, logits)
    return graph


# ggml_gallocr_get_buffer_size of the C library 0.15.3 for the same graphs (ctypes bindings 0.0.45)
PEAKS = {
    (512, 512): 73924608,
    (512, 2048): 171968512,
    (512, 4096): 310380544,
    (1, 512): 144384,
    (1, 4096): 606240,
    (64, 1024): 12845312,
    (33, 4096): 20005024,
}


@pytest.mark.parametrize("shape", PEAKS)
def test_peak_of_a_7b_graph_is_no_larger_than_the_c_librarys(shape, ctx, alloc):
    weights = context()
    graph = llama(ctx, weights, *shape)
    assert ggml.ggml_gallocr_reserve(alloc, graph)
    assert 0 < ggml.ggml_gallocr_get_buffer_size(alloc, 0) <= PEAKS[shape]
    assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
    if shape == (64, 1024):
        check(llama_part(graph))
    ggml.ggml_free(weights)


def llama_part(graph):
    """The graph, cut to its first 200 nodes: the time of `check` is quadratic in the number of nodes."""
    ctypes.cast(ctypes.pointer(graph.contents), ctypes.POINTER(ggml.ggml_cgraph)).contents.n_nodes = 200
    return graph


# ---- operations computed in place of an operand (test_overwrites.py tests all of the table) --------------------------

IN_PLACE = {
    "add": lambda c, a, b: ggml.ggml_add(c, a, b),
    "add over b": lambda c, a, b: ggml.ggml_add(c, b, a),
    "sub over b": lambda c, a, b: ggml.ggml_sub(c, b, a),
    "mul over b": lambda c, a, b: ggml.ggml_mul(c, b, a),
    "div over b": lambda c, a, b: ggml.ggml_div(c, b, a),
    "add1": lambda c, a, b: ggml.ggml_add1(c, a, ggml.ggml_sum(c, b)),
    "sqr": lambda c, a, b: ggml.ggml_sqr(c, a),
    "sqrt": lambda c, a, b: ggml.ggml_sqrt(c, a),
    "log": lambda c, a, b: ggml.ggml_log(c, a),
    "sin": lambda c, a, b: ggml.ggml_sin(c, a),
    "cos": lambda c, a, b: ggml.ggml_cos(c, a),
    "norm": lambda c, a, b: ggml.ggml_norm(c, a, 1e-5),
    "rms_norm": lambda c, a, b: ggml.ggml_rms_norm(c, a, 1e-5),
    "group_norm": lambda c, a, b: ggml.ggml_group_norm(c, a, 2, 1e-5),
    "l2_norm": lambda c, a, b: ggml.ggml_l2_norm(c, a, 1e-5),
    "scale": lambda c, a, b: ggml.ggml_scale(c, a, 3.0),
    "diag_mask_inf": lambda c, a, b: ggml.ggml_diag_mask_inf(c, a, 3),
    "diag_mask_zero": lambda c, a, b: ggml.ggml_diag_mask_zero(c, a, 3),
    "soft_max": lambda c, a, b: ggml.ggml_soft_max(c, a),
    "clamp": lambda c, a, b: ggml.ggml_clamp(c, a, 0.9, 1.1),
    "leaky_relu": lambda c, a, b: ggml.ggml_leaky_relu(c, a, 0.1, False),
    "gelu": lambda c, a, b: ggml.ggml_gelu(c, a),
    "rope": lambda c, a, b: ggml.ggml_rope(c, a, ggml.ggml_cast(c, ggml.ggml_arange(c, 0, 4, 1), I32), 64, 0),
    "rope neox": lambda c, a, b: ggml.ggml_rope(c, a, ggml.ggml_cast(c, ggml.ggml_arange(c, 0, 4, 1), I32), 32, 2),
    "rope_back": lambda c, a, b: ggml.ggml_rope_ext_back(
        c, a, ggml.ggml_cast(c, ggml.ggml_arange(c, 0, 4, 1), I32), None, 64, 0, 0, 1e4, 1, 0, 1, 32, 1
    ),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_operations_in_place_of_an_operand(name, ctx, cpu, alloc):
    values = np.random.default_rng(3).random(64 * 60 * 4).astype(np.float32) + 0.5
    results, places = [], []
    for reuse in (True, False):
        x, y = (ggml.ggml_new_tensor_3d(ctx, F32, 64, 60, 4) for _ in "xy")
        for t in (x, y):
            ggml.ggml_set_input(t)
        a = ggml.ggml_scale(ctx, x, 1.5)
        out = IN_PLACE[name](ctx, a, y)
        graph = graph_of(ctx, out)
        if reuse:
            assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
        else:
            buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu)
        put(x, values)
        if y.contents.data:
            put(y, values[::-1])
        assert ggml.ggml_backend_graph_compute(cpu, graph) == 0
        results.append(get(out))
        places.append(out.contents.data == a.contents.data)
    assert places == [True, False]
    np.testing.assert_array_equal(*results)
    ggml.ggml_backend_buffer_free(buffer)


def test_a_view_of_a_view_written_by_hand(ctx, alloc, cpu):
    """view_src must be the tensor that owns the memory. A chain of views is not followed, as it may be a cycle."""
    x = vector(ctx)
    view = ggml.ggml_view_1d(ctx, x, 8, 0)
    inner = ggml.ggml_view_1d(ctx, view, 4, 0)
    out = ggml.ggml_sqr(ctx, inner)
    graph = graph_of(ctx, out)
    inner.contents.view_src = view
    sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 64, False)
    for loop in (view, inner):
        view.contents.view_src = loop
        with pytest.raises(ValueError, match="is a view itself"):
            ggml.ggml_gallocr_alloc_graph(alloc, graph)
        with pytest.raises(ValueError, match="is a view itself"):
            ggml.ggml_backend_sched_alloc_graph(sched, graph)
        with pytest.raises(ValueError, match="is a view itself"):
            ggml.ggml_backend_graph_copy(cpu, graph)
    ggml.ggml_backend_sched_free(sched)


@pytest.mark.parametrize("by", ["allocator", "scheduler"])
def test_a_known_graph_with_entries_that_are_not_tensors(by, ctx, alloc, cpu):
    sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 64, False)
    for where in ("nodes", "leafs", "src"):
        for wild in (0, 8, 1 << 40):
            *_, c, out, graph = chain(ctx)
            place = ggml.ggml_gallocr_alloc_graph if by == "allocator" else ggml.ggml_backend_sched_alloc_graph
            for _ in range(2):
                assert place(alloc if by == "allocator" else sched, graph)
            pointers = out.contents.src if where == "src" else getattr(graph.contents, where)
            ctypes.cast(pointers, ctypes.POINTER(ctypes.c_size_t))[0] = wild
            if where == "src" and wild == 0:
                continue  # a missing operand is found when the graph is computed
            with pytest.raises(RuntimeError, match="freed"):
                place(alloc if by == "allocator" else sched, graph)
    ggml.ggml_backend_sched_free(sched)


def test_a_long_chain_is_copied(ctx, cpu):
    """The copy begins at the end of the chain and must not recurse once per node."""
    x = vector(ctx, 1)
    y = x
    for _ in range(50000):
        y = ggml.ggml_neg(ctx, y)
    graph = ggml.ggml_new_graph_custom(ctx, 50001, False)
    ggml.ggml_build_forward_expand(graph, y)
    buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu)
    put(x, [3])
    nodes = ctypes.cast(graph.contents.nodes, ctypes.POINTER(ctypes.c_size_t))
    nodes[0] = ctypes.addressof(y.contents)  # the copy begins here
    copied = ggml.ggml_backend_graph_copy(cpu, graph)
    assert ggml.ggml_graph_n_nodes(copied.graph) == 50000
    ggml.ggml_backend_graph_copy_free(copied)
    ggml.ggml_backend_buffer_free(buffer)
