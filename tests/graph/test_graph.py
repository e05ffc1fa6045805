"""Graphs: order, capacity, copies, computing, printing, and what ends a compute."""

import ctypes
import os
import re
import threading

import numpy as np
import pytest
from cases.harness import compute, context, graph_of, load, store

import ggml
from ggml.utils import to_numpy

F32 = ggml.GGML_TYPE_F32


def vector(ctx, n=4, value=None, name=None):
    t = ggml.ggml_new_tensor_1d(ctx, F32, n)
    if name:
        ggml.ggml_set_name(t, name)
    if value is not None:
        ggml.ggml_set_f32(t, value)
    return t


def order(graph):
    """The names and operations of the nodes, and the names of the leafs."""
    g = graph.contents
    nodes = [
        (g.nodes[i].contents.name.decode(), ggml.ggml_op_name(g.nodes[i].contents.op).decode())
        for i in range(g.n_nodes)
    ]
    return nodes, [g.leafs[i].contents.name.decode() for i in range(g.n_leafs)]


# ---- order, as recorded from the C library ---------------------------------------------------------------------------
def test_order_of_a_polynomial(ctx):
    x, a, b = (vector(ctx, 1, name=name) for name in (b"x", b"a", b"b"))
    ggml.ggml_set_param(x)
    x2 = ggml.ggml_mul(ctx, x, x)
    graph = graph_of(ctx, ggml.ggml_add(ctx, ggml.ggml_mul(ctx, a, x2), b))
    assert order(graph) == ([("x", "NONE"), ("node_1", "MUL"), ("node_2", "MUL"), ("node_3", "ADD")], ["a", "b"])


def test_order_of_a_diamond(ctx):
    p, q = vector(ctx), vector(ctx)
    s = ggml.ggml_sub(ctx, p, q)
    u, v = ggml.ggml_exp(ctx, s), ggml.ggml_tanh(ctx, s)
    z = ggml.ggml_sum(ctx, ggml.ggml_view_1d(ctx, ggml.ggml_div(ctx, v, u), 2, 4))
    graph = graph_of(ctx, z)
    names = "node_0 SUB, node_1 UNARY, node_2 UNARY, node_3 DIV,  (view) VIEW, node_5 SUM"
    nodes = [tuple(row.rsplit(" ", 1)) for row in names.split(", ")]
    assert order(graph) == (nodes, ["leaf_0", "leaf_1"])
    assert graph.contents.nodes[1] == v and graph.contents.nodes[2] == u  # sources in their order
    ggml.ggml_build_forward_expand(graph, ggml.ggml_sqr(ctx, u))
    ggml.ggml_build_forward_expand(graph, z)  # no tensor twice
    assert order(graph) == ([*nodes, ("node_6", "SQR")], ["leaf_0", "leaf_1"])


def test_order_of_a_copy(ctx):
    s = ggml.ggml_exp(ctx, ggml.ggml_sub(ctx, vector(ctx), vector(ctx)))
    graph = graph_of(ctx, ggml.ggml_cpy(ctx, s, vector(ctx, name=b"d")))
    assert [op for _, op in order(graph)[0]] == ["SUB", "UNARY", "CPY"] and order(graph)[1] == ["leaf_0", "leaf_1", "d"]


def test_order_of_the_backward_pass(ctx):
    x, a = vector(ctx, 3, name=b"x"), vector(ctx, 3, name=b"a")
    ggml.ggml_set_param(x)
    loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, a, x))
    ggml.ggml_set_loss(loss)
    graph = graph_of(ctx, loss, grads=True)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    nodes, leafs = order(graph)
    assert ", ".join(f"{name} {op}" for name, op in nodes) == (
        "x NONE, node_1 MUL, node_2 SUM, grad for node_1 REPEAT, grad for x MUL"
    )
    assert leafs[0] == "a" and len(leafs) == 2
    grads = [ggml.ggml_get_name(ggml.ggml_graph_get_grad(graph, t)) for t in (x, loss.contents.src[0])]
    assert grads == [b"grad for x", b"grad for node_1"]
    forward = graph_of(ctx, loss, grads=True)
    older = ggml.ggml_graph_dup(ctx, forward, True)
    ggml.ggml_build_backward_expand(ctx, forward, older, False)  # the form of older releases, in which the copy grows
    assert order(older)[0][-1] == ("grad for x", "MUL") and ggml.ggml_graph_n_nodes(forward) == 3


# ---- capacity --------------------------------------------------------------------------------------------------------
def test_full_graph_stays_usable(ctx):
    graph = ggml.ggml_new_graph_custom(ctx, 4, False)
    first = ggml.ggml_sqr(ctx, vector(ctx, value=3))
    ggml.ggml_build_forward_expand(graph, first)
    chain = first
    for _ in range(5):
        chain = ggml.ggml_neg(ctx, chain)
    before = order(graph)
    for _ in range(3):
        with pytest.raises(MemoryError, match="^ggml_build_forward_expand: .*4 nodes"):
            ggml.ggml_build_forward_expand(graph, chain)
    assert order(graph) == before and ggml.ggml_graph_n_nodes(graph) == 1
    second = ggml.ggml_add(ctx, first, first)
    ggml.ggml_build_forward_expand(graph, second)
    compute(ctx, graph)
    assert load(second).ravel().tolist() == [18] * 4 and ggml.ggml_graph_n_nodes(graph) == 2
    many = vector(ctx)
    for _ in range(9):
        many = ggml.ggml_add(ctx, many, vector(ctx))
    with pytest.raises(MemoryError):
        ggml.ggml_build_forward_expand(ggml.ggml_new_graph_custom(ctx, 3, False), many)


def test_deep_graph(ctx):
    """Deeper than recursion could go."""
    t = first = vector(ctx, 1, value=1)
    for _ in range(100_000):
        t = ggml.ggml_scale_bias(ctx, t, 1.0, 1.0)
    graph = ggml.ggml_new_graph_custom(ctx, 100_001, False)
    ggml.ggml_build_forward_expand(graph, t)
    for threads in (1, 2):
        compute(ctx, graph, threads)
        assert ggml.ggml_get_f32_1d(t, 0) == 100_001 and ggml.ggml_graph_n_nodes(graph) == 100_000
    assert graph.contents.leafs[0] == first


def test_graph_without_nodes(ctx):
    graph = ggml.ggml_new_graph_custom(ctx, 0, False)
    compute(ctx, graph, 2)
    with pytest.raises(MemoryError):
        ggml.ggml_build_forward_expand(graph, vector(ctx))


def test_copies_and_memory_of_a_graph_without_arrays(ctx):
    """A graph of size 0 has no arrays of nodes and leafs: nothing is copied from or to a null pointer."""
    graph, other = (ggml.ggml_new_graph_custom(ctx, 0, False) for _ in range(2))
    ggml.ggml_graph_cpy(graph, other)
    galloc = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())
    for g in (graph, graph, other, ggml.ggml_graph_dup(ctx, graph, False)):
        assert ggml.ggml_gallocr_alloc_graph(galloc, g) and ggml.ggml_graph_n_nodes(g) == 0
    ggml.ggml_gallocr_free(galloc)
    cpu = ggml.ggml_backend_cpu_init()
    sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 64, False)
    for g in (graph, other):
        assert ggml.ggml_backend_sched_graph_compute(sched, g) == ggml.GGML_STATUS_SUCCESS
    ggml.ggml_backend_sched_free(sched)
    ggml.ggml_backend_free(cpu)


def test_bad_sizes(ctx):
    for size in (-1, 1 << 31, 1 << 62):
        with pytest.raises((ValueError, MemoryError), match="^ggml_new_graph_custom: "):
            ggml.ggml_new_graph_custom(ctx, size, False)
        with pytest.raises(ValueError, match="^ggml_graph_overhead_custom: "):
            ggml.ggml_graph_overhead_custom(size, False)


# ---- properties and copies -------------------------------------------------------------------------------------------
def test_nodes_of_a_graph(ctx):
    a = vector(ctx, name=b"a")
    b = ggml.ggml_set_name(ggml.ggml_sqr(ctx, a), b"b")
    c = ggml.ggml_neg(ctx, b)
    graph = graph_of(ctx, c)
    assert [ggml.ggml_graph_node(graph, i) for i in (0, 1, -1, -2)] == [b, c, c, b]
    for i in (2, -3, 1 << 30):
        with pytest.raises(IndexError, match="^ggml_graph_node: "):
            ggml.ggml_graph_node(graph, i)
    assert ggml.ggml_graph_nodes(graph)[1] == c
    assert ggml.ggml_graph_get_tensor(graph, b"a") == a and ggml.ggml_graph_get_tensor(graph, b"b") == b
    assert not ggml.ggml_graph_get_tensor(graph, b"none")
    assert not ggml.ggml_graph_get_grad(graph, b) and not ggml.ggml_graph_get_grad_acc(graph, b)


def test_view_dup_copy_clear(ctx):
    a = vector(ctx, value=2)
    b = ggml.ggml_sqr(ctx, a)
    c = ggml.ggml_neg(ctx, b)
    graph = graph_of(ctx, c)
    half = ggml.ggml_graph_view(graph, 0, 1)
    assert isinstance(half, ggml.ggml_cgraph) and half.n_nodes == 1
    ggml.ggml_set_f32(c, 7)
    assert ggml.ggml_graph_compute_with_ctx(ctx, ctypes.byref(half), 1) == 0
    assert ggml.ggml_get_f32_1d(b, 0) == 4 and ggml.ggml_get_f32_1d(c, 0) == 7
    assert ggml.ggml_graph_node(ctypes.pointer(half), 0) == b
    for i0, i1 in ((-1, 1), (0, 3), (2, 1)):
        with pytest.raises(ValueError, match="^ggml_graph_view: "):
            ggml.ggml_graph_view(graph, i0, i1)
    with context() as other:
        twin = ggml.ggml_graph_dup(other, graph, True)
        assert order(twin) == order(graph) and ggml.ggml_graph_size(twin) == ggml.ggml_graph_size(graph)
        compute(ctx, twin)
        assert ggml.ggml_get_f32_1d(c, 0) == -4
        small = ggml.ggml_new_graph_custom(other, 1, False)
        with pytest.raises(ValueError, match="^ggml_graph_cpy: "):
            ggml.ggml_graph_cpy(graph, small)
        large = ggml.ggml_new_graph_custom(other, 2000, False)
        ggml.ggml_graph_cpy(graph, large)
        assert order(large) == order(graph)
        d = ggml.ggml_neg(ctx, c)
        ggml.ggml_build_forward_expand(large, d)
        assert ggml.ggml_graph_n_nodes(large) == 3  # the copy knows its nodes and adds none twice
    ggml.ggml_graph_clear(graph)
    assert ggml.ggml_graph_n_nodes(graph) == 0
    ggml.ggml_build_forward_expand(graph, b)
    assert ggml.ggml_graph_n_nodes(graph) == 1


def test_add_node_and_select(ctx):
    a = vector(ctx, value=3)
    b = ggml.ggml_sqr(ctx, a)
    graph = ggml.ggml_new_graph_custom(ctx, 1, False)
    ggml.ggml_graph_add_node(graph, b)
    compute(ctx, graph)
    assert ggml.ggml_get_f32_1d(b, 0) == 9
    with pytest.raises(MemoryError, match="^ggml_graph_add_node: "):
        ggml.ggml_graph_add_node(graph, b)
    graph = ggml.ggml_new_graph(ctx)
    roads = [ggml.ggml_neg(ctx, a), ggml.ggml_scale(ctx, a, 2.0)]
    for t in roads:
        ggml.ggml_set_f32(t, 0)
    array = (ctypes.POINTER(ggml.ggml_tensor) * 2)(*roads)
    assert ggml.ggml_build_forward_select(graph, array, 2, 1) == roads[1]
    compute(ctx, graph)
    assert [ggml.ggml_get_f32_1d(t, 0) for t in roads] == [0, 6] and ggml.ggml_graph_n_nodes(graph) == 2
    for n, i in ((2, 2), (2, -1), (0, 0), (3, 0)):
        with pytest.raises((ValueError, IndexError)):
            ggml.ggml_build_forward_select(graph, array, n, i)


def test_gradients_accumulate_until_reset(ctx):
    x = vector(ctx, 3, value=2)
    ggml.ggml_set_param(x)
    loss = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, x))
    ggml.ggml_set_loss(loss)
    graph = graph_of(ctx, loss, grads=True)
    acc = vector(ctx, 3, value=0)
    nodes = ggml.ggml_graph_n_nodes(graph)
    accs = (ctypes.POINTER(ggml.ggml_tensor) * nodes)()
    accs[0] = acc
    ggml.ggml_build_backward_expand(ctx, graph, accs)
    assert ggml.ggml_graph_get_grad_acc(graph, x) == acc
    gradient = ggml.ggml_graph_get_grad(graph, x)
    ggml.ggml_graph_reset(graph)
    for step in (1, 2, 3):
        compute(ctx, graph, 2)
        assert load(gradient).ravel().tolist() == [4.0 * step] * 3
    ggml.ggml_graph_reset(graph)
    compute(ctx, graph)
    assert load(gradient).ravel().tolist() == [4.0] * 3


def test_backward_of_nothing(ctx):
    x = vector(ctx, 3)
    y = ggml.ggml_sum(ctx, x)
    for grads, marks, part in ((False, (), "without room"), (True, (), "loss"), (True, ("loss",), "parameter")):
        graph = graph_of(ctx, y, grads=grads)
        if "loss" in marks:
            ggml.ggml_set_loss(y)
        with pytest.raises(ValueError, match=f"^ggml_build_backward_expand: .*{part}"):
            ggml.ggml_build_backward_expand(ctx, graph, None)
    with pytest.raises(ValueError, match="^ggml_graph_reset: "):
        ggml.ggml_graph_reset(graph_of(ctx, y))


def test_gradient_that_needs_an_overwritten_value(ctx):
    x = vector(ctx, 3, value=2)
    ggml.ggml_set_param(x)
    y = ggml.ggml_neg(ctx, x)
    loss = ggml.ggml_sum(ctx, ggml.ggml_add(ctx, ggml.ggml_sqr(ctx, y), ggml.ggml_scale_inplace(ctx, y, 3.0)))
    ggml.ggml_set_loss(loss)
    with pytest.raises(ValueError, match="^ggml_build_backward_expand: .*overwrites"):
        ggml.ggml_build_backward_expand(ctx, graph_of(ctx, loss, grads=True), None)


# ---- plans and computing ---------------------------------------------------------------------------------------------
def test_plan(ctx):
    a = ggml.ggml_new_tensor_2d(ctx, F32, 300, 300)
    store(a, np.random.default_rng(1).standard_normal((300, 300)))
    out = ggml.ggml_mul_mat(ctx, a, a)
    graph = graph_of(ctx, out)
    plan = ggml.ggml_graph_plan(graph, 2, None)
    assert isinstance(plan, ggml.ggml_cplan) and plan.n_threads == 2 and not plan.work_data
    assert ggml.ggml_graph_compute(graph, plan) == 0
    first = load(out)
    work = (ctypes.c_uint8 * max(plan.work_size, 1))()
    plan.work_data = ctypes.cast(work, ctypes.POINTER(ctypes.c_uint8))
    for given in (plan, ctypes.byref(plan), ctypes.pointer(plan)):
        ggml.ggml_set_zero(out)
        assert ggml.ggml_graph_compute(graph, given) == 0
        np.testing.assert_array_equal(load(out), first)
    plan.work_data = ctypes.cast(5, ctypes.POINTER(ctypes.c_uint8))
    plan.work_size = max(plan.work_size, 1)
    ggml.ggml_set_zero(out)
    assert ggml.ggml_graph_compute(graph, plan) == 0  # an invalid address: work_data is never read
    np.testing.assert_array_equal(load(out), first)
    plan.abort_callback = ctypes.cast(5, ggml.ggml_abort_callback.prototype)
    with pytest.raises(ValueError, match="^ggml_graph_compute: cplan.abort_callback"):
        ggml.ggml_graph_compute(graph, plan)
    for bad in (None, 5, graph):
        with pytest.raises(TypeError, match="^ggml_graph_compute: cplan"):
            ggml.ggml_graph_compute(graph, bad)
    assert ggml.ggml_graph_plan(graph).n_threads == ggml.GGML_DEFAULT_N_THREADS


@pytest.mark.parametrize("threads", [0, 513, 1 << 31, 1 << 40, "2", None, 1.5])
def test_absurd_threads(ctx, threads):
    graph = graph_of(ctx, ggml.ggml_sqr(ctx, vector(ctx)))
    for call in (
        lambda: ggml.ggml_graph_compute_with_ctx(ctx, graph, threads),
        lambda: ggml.ggml_graph_plan(graph, threads, None),
    ):
        with pytest.raises((ValueError, TypeError), match="^ggml_graph_"):
            call()


@pytest.mark.parametrize("threads", [-1, 1, 2, 3, 8, 64])
def test_thread_counts(ctx, threads):
    a = ggml.ggml_new_tensor_2d(ctx, F32, 1000, 200)
    store(a, np.arange(200_000).reshape(200, 1000) % 17)
    out = ggml.ggml_sum_rows(ctx, ggml.ggml_sqr(ctx, a))
    compute(ctx, graph_of(ctx, out), threads)
    np.testing.assert_array_equal(load(out), (load(a) ** 2).sum(-1, keepdims=True))


def test_tensors_of_several_contexts(ctx):
    with context() as one, context() as two:
        a, b = vector(one, value=2), vector(two, value=5)
        out = ggml.ggml_mul(ctx, a, b)
        graph = graph_of(two, out)
        compute(one, graph, 2)
        assert load(out).ravel().tolist() == [10] * 4
        keep = graph_of(ctx, out)
    with pytest.raises(
        RuntimeError, match="^ggml_graph_compute_with_ctx: source 0 of node 0 .* is not a tensor of a live context"
    ):
        ggml.ggml_graph_compute_with_ctx(ctx, keep, 1)
    with pytest.raises(RuntimeError, match="^ggml_build_forward_expand: "):
        ggml.ggml_build_forward_expand(ggml.ggml_new_graph(ctx), ggml.ggml_sqr(ctx, out))


def test_default_threads():
    from ggml import _core

    assert (
        1
        <= _core.build_info()["threads"]
        <= len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(512))
    )


# ---- structs with values that callers wrote --------------------------------------------------------------------------
BROKEN = {
    "ne": lambda t: t.ne.__setitem__(0, 1 << 40),
    "negative ne": lambda t: t.ne.__setitem__(1, -1),
    "nb": lambda t: t.nb.__setitem__(0, 1 << 50),
    "data": lambda t: setattr(t, "data", 5),
    "data at the end": lambda t: setattr(t, "data", t.data + (1 << 45)),
    "no data": lambda t: setattr(t, "data", None),
    "type": lambda t: setattr(t, "type", 999),
    "quantised": lambda t: setattr(t, "type", 2),
    "op": lambda t: setattr(t, "op", 12345),
    "src": lambda t: t.src.__setitem__(0, ctypes.cast(0x1234560, ctypes.POINTER(ggml.ggml_tensor))),
    "no src": lambda t: t.src.__setitem__(0, ctypes.POINTER(ggml.ggml_tensor)()),
    "src1 shape": lambda t: t.src[1].contents.ne.__setitem__(0, 3),
    "src1 type": lambda t: setattr(t.src[1].contents, "type", -7),
}


@pytest.mark.parametrize("how", BROKEN)
def test_broken_node(ctx, how):
    a, b = vector(ctx, value=1), vector(ctx, value=2)
    out = ggml.ggml_add(ctx, a, b)
    graph = graph_of(ctx, out)
    keep = ctypes.string_at(out, ctypes.sizeof(ggml.ggml_tensor)), ctypes.string_at(b, ctypes.sizeof(ggml.ggml_tensor))
    BROKEN[how](out.contents)
    for threads in (1, 2):
        with pytest.raises((ValueError, RuntimeError), match="^ggml_graph_compute_with_ctx: "):
            ggml.ggml_graph_compute_with_ctx(ctx, graph, threads)
    with pytest.raises((ValueError, RuntimeError), match="^ggml_graph_plan: "):
        ggml.ggml_graph_plan(graph, 1, None)
    ctypes.memmove(out, keep[0], len(keep[0]))
    ctypes.memmove(b, keep[1], len(keep[1]))
    compute(ctx, graph)
    assert load(out).ravel().tolist() == [3] * 4


@pytest.mark.parametrize("field, value", [("n_nodes", 1 << 30), ("n_nodes", -1), ("nodes", 5), ("n_leafs", 1 << 30)])
def test_broken_graph(child, field, value):
    child(f"""if 1:
        import ctypes, ggml
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False))
        graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(graph, ggml.ggml_sqr(ctx, ggml.ggml_new_tensor_1d(ctx, 0, 4)))
        value = {value}
        if {field!r} == "nodes":
            value = ctypes.cast(value, type(graph.contents.nodes))
        graph.contents.{field} = value
        for call in (lambda: ggml.ggml_graph_compute_with_ctx(ctx, graph, 1), lambda: ggml.ggml_graph_print(graph),
                     lambda: ggml.ggml_graph_get_tensor(graph, b"x"), lambda: ggml.ggml_graph_node(graph, 7)):
            try:
                call()
            except ValueError as e:
                assert str(e).startswith("ggml_graph") and "written over" in str(e), e
            else:
                raise AssertionError("no exception")
    """)


# ---- printing --------------------------------------------------------------------------------------------------------
def labelled(ctx):
    a = vector(ctx, name=b'a "quoted" \\ name')
    ggml.ggml_set_param(a)
    loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, a, vector(ctx, name=b"b")))
    ggml.ggml_set_loss(loss)
    graph = graph_of(ctx, loss, grads=True)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    return graph


def test_print(ctx, capfd):
    ggml.ggml_graph_print(labelled(ctx))
    text = capfd.readouterr().err
    assert re.search(r"n_nodes = 5\b", text) and re.search(r"n_leafs = 2\b", text)
    assert len(re.findall(r"^ - +\d+: \[", text, re.M)) == 7 and "MUL" in text and "quoted" in text


def test_print_logs_one_message_per_line(ctx):
    messages = []
    keep = ggml.ggml_log_callback(lambda level, text, data: messages.append((level, text)))
    ggml.ggml_log_set(keep, None)
    try:
        ggml.ggml_graph_print(labelled(ctx))
        in_graph = len(messages)
        ggml.ggml_print_objects(ctx)
    finally:
        ggml.ggml_log_set(None, None)
    assert all(level == ggml.GGML_LOG_LEVEL_INFO and text.count(b"\n") == 1 for level, text in messages)
    assert in_graph == 7 + 4 and messages[1][1] == b"n_nodes = 5\n"
    objects = [text for _, text in messages[in_graph + 1 : -1]]
    assert re.match(rb" - ggml_object: type = 0, offset = 32, size = \d+, next = 0x", objects[0]) and len(objects) > 7


def test_dot(ctx, tmp_path):
    path = tmp_path / "graph.dot"
    graph = labelled(ctx)
    for forward in (None, graph_of(ctx, ggml.ggml_graph_node(graph, 2))):
        ggml.ggml_graph_dump_dot(graph, forward, str(path).encode())
        text = path.read_text(encoding="utf-8")
        assert text.startswith("digraph") and text.rstrip().endswith("}") and text.count("{") == text.count("}")
        plain = re.sub(r'"(?:[^"\\]|\\.)*"', "S", text)
        statements = [s.strip() for s in plain[plain.index("{") + 1 : plain.rindex("}")].split(";") if s.strip()]
        forms = [re.fullmatch(r"\w+ ?= ?\w+|S \[[^]]*\]|S -> S( \[[^]]*\])?", s) for s in statements]
        assert all(forms), [s for s, form in zip(statements, forms) if not form]
        assert sum(s.startswith("S [") for s in statements) == 7
        assert sum("->" in s for s in statements) == 6  # SUM and REPEAT have one source, MUL has two
    with pytest.raises(OSError):
        ggml.ggml_graph_dump_dot(graph, None, str(tmp_path / "none" / "graph.dot").encode())
    with pytest.raises(TypeError, match="^ggml_graph_dump_dot: filename"):
        ggml.ggml_graph_dump_dot(graph, None, 5)


# ---- what ends a compute ---------------------------------------------------------------------------------------------
def long_graph(ctx, nodes=400, n=4096):
    t = ggml.ggml_new_tensor_2d(ctx, F32, n, 16)
    ggml.ggml_set_f32(t, 1)
    for _ in range(nodes):
        t = ggml.ggml_scale_inplace(ctx, t, 1.0)
    return graph_of(ctx, t)


@pytest.mark.parametrize("threads", [1, 2])
def test_abort_callback(ctx, threads):
    graph, calls = long_graph(ctx), []
    plan = ggml.ggml_graph_plan(graph, threads, None)

    def abort(data):
        calls.append(data)
        return len(calls) == 7

    plan.abort_callback = ggml.ggml_abort_callback(abort)
    plan.abort_callback_data = 1234
    assert ggml.ggml_graph_compute(graph, plan) == ggml.GGML_STATUS_ABORTED
    assert calls == [1234] * 7
    calls.clear()
    plan.abort_callback = ggml.ggml_abort_callback(lambda data: False)
    assert ggml.ggml_graph_compute(graph, plan) == ggml.GGML_STATUS_SUCCESS


@pytest.mark.parametrize("threads", [1, 2])
def test_exception_in_the_abort_callback(ctx, threads):
    graph = long_graph(ctx)
    plan = ggml.ggml_graph_plan(graph, threads, None)
    plan.abort_callback = ggml.ggml_abort_callback(lambda data: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        ggml.ggml_graph_compute(graph, plan)
    plan.abort_callback = ggml.ggml_abort_callback()
    assert ggml.ggml_graph_compute(graph, plan) == ggml.GGML_STATUS_SUCCESS


CUSTOM = {
    "ggml_map_custom1": (ggml.ggml_custom1_op_t, 1),
    "ggml_map_custom2": (ggml.ggml_custom2_op_t, 2),
    "ggml_map_custom3": (ggml.ggml_custom3_op_t, 3),
}


@pytest.mark.parametrize("name", CUSTOM)
@pytest.mark.parametrize("form", ["", "_inplace"])
def test_custom_operation(ctx, name, form):
    callback, n = CUSTOM[name]
    seen = []

    def fun(dst, *rest):
        *sources, ith, nth, userdata = rest
        seen.append((ith, nth, userdata, threading.get_ident()))
        if ith == 0:
            store(dst, sum(load(s) for s in sources))

    made = callback(fun)
    sources = [vector(ctx, value=i + 1.0) for i in range(n)]
    out = getattr(ggml, name + form)(ctx, *sources, made, 2, 77)
    assert (out.contents.data == sources[0].contents.data) == bool(form)
    compute(ctx, graph_of(ctx, out), 2)
    assert load(out).ravel().tolist() == [n * (n + 1) / 2] * 4
    assert sorted(row[:3] for row in seen) == [(0, 2, 77), (1, 2, 77)]


def test_work_memory_after_a_callback(child):
    """Nodes before and after a callback need work memory, those after it less. They do not use the memory that the
    nodes before it had, which is free by then.
    """
    out = child("""
import ctypes, ggml
ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
matrices = ggml.ggml_set_f32(ggml.ggml_new_tensor_3d(ctx, ggml.GGML_TYPE_F32, 5, 4, 3), 1.0)
b = ggml.ggml_set_f32(ggml.ggml_new_tensor_3d(ctx, ggml.GGML_TYPE_F32, 5, 1, 100), 2.0)
ids = ggml.ggml_set_i32(ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_I32, 2, 100), 1)
product = ggml.ggml_mul_mat_id(ctx, matrices, b, ids)
kept = []
def fun(dst, a, ith, nth, userdata):
    ggml.ggml_set_f32(dst, 3.0)
    kept[:] = [ctypes.create_string_buffer(b"x" * size, size) for size in range(2048, 4096, 64)]  # takes what was freed
made = ggml.ggml_custom1_op_t(fun)
custom = ggml.ggml_map_custom1(ctx, product, made, 1, None)
logits = ggml.ggml_set_f32(ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 7, 5), 0.5)
loss = ggml.ggml_cross_entropy_loss(ctx, logits, ggml.ggml_set_f32(ggml.ggml_dup_tensor(ctx, logits), 1.0))
graph = ggml.ggml_new_graph(ctx)
for t in (product, custom, loss):
    ggml.ggml_build_forward_expand(graph, t)
for i in range(300):
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1 + i % 3)
    assert all(set(x.raw) == {ord("x")} for x in kept)
print(ggml.ggml_get_f32_1d(product, 0), ggml.ggml_get_f32_1d(custom, 0), round(ggml.ggml_get_f32_1d(loss, 0), 4))
""")
    assert out.split() == ["10.0", "3.0", "13.6214"]


@pytest.mark.parametrize("form", ["ggml_custom_4d", "ggml_custom_inplace"])
def test_custom_of_any_sources(ctx, form):
    def fun(dst, ith, nth, userdata):
        if ith == 0:
            t = dst.contents
            store(dst, sum(load(t.src[i]).sum() for i in range(10) if t.src[i]))

    made = ggml.ggml_custom_op_t(fun)
    a, b = vector(ctx, value=2), vector(ctx, 3, value=5)
    args = (ctypes.POINTER(ggml.ggml_tensor) * 2)(a, b)
    if form == "ggml_custom_4d":
        out, total = (
            ggml.ggml_custom_4d(ctx, F32, 3, 2, 1, 1, args, 2, made, ggml.GGML_N_TASKS_MAX, None),
            2 * 4 + 5 * 3,
        )
    else:
        out, total = (
            ggml.ggml_custom_inplace(ctx, a, (ctypes.POINTER(ggml.ggml_tensor) * 1)(b), 1, made, 1, None),
            2 * 4 + 5 * 3,
        )
    compute(ctx, graph_of(ctx, out), 2)
    assert (load(out) == total).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_exception_in_a_custom_operation(ctx, threads):
    def fun(dst, a, ith, nth, userdata):
        raise LookupError("from the callback")

    made = ggml.ggml_custom1_op_t(fun)
    out = ggml.ggml_map_custom1(ctx, vector(ctx, value=1), made, threads, None)
    later = ggml.ggml_sqr(ctx, out)
    ggml.ggml_set_f32(later, -1)
    graph = graph_of(ctx, later)
    for _ in range(2):
        with pytest.raises(LookupError, match="from the callback"):
            ggml.ggml_graph_compute_with_ctx(ctx, graph, threads)
    assert load(later).ravel().tolist() == [-1] * 4  # no later node was computed
    assert ggml.ggml_graph_compute_with_ctx(ctx, graph_of(ctx, ggml.ggml_sqr(ctx, vector(ctx))), threads) == 0


def test_compute_inside_a_callback(ctx):
    def fun(dst, a, ith, nth, userdata):
        with context() as inner:
            t = ggml.ggml_sqr(inner, a)
            compute(inner, graph_of(inner, t), 2)
            store(dst, load(t))

    made = ggml.ggml_custom1_op_t(fun)
    out = ggml.ggml_neg(ctx, ggml.ggml_map_custom1(ctx, vector(ctx, value=3), made, 1, None))
    for threads in (1, 2):
        compute(ctx, graph_of(ctx, out), threads)
        assert load(out).ravel().tolist() == [-9] * 4


def test_ctrl_c(child):
    out = child("""if 1:
        import signal, threading, ggml
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        seen = []

        @ggml.ggml_custom1_op_t
        def note(dst, a, ith, nth, userdata):
            seen.append(ith)
            running.set()

        def press():
            running.wait()
            signal.raise_signal(signal.SIGINT)

        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False))
        x = ggml.ggml_set_f32(ggml.ggml_new_tensor_2d(ctx, 0, 4096, 64), 1)
        t = ggml.ggml_map_custom1(ctx, x, note, 1, None)
        for _ in range(250000):
            t = ggml.ggml_tanh_inplace(ctx, t)
        t = ggml.ggml_map_custom1(ctx, t, note, 1, None)
        graph = ggml.ggml_new_graph_custom(ctx, 300000, False)
        ggml.ggml_build_forward_expand(graph, t)
        for threads in (1, 2):
            seen.clear()
            running = threading.Event()
            thread = threading.Thread(target=press)
            thread.start()
            try:
                ggml.ggml_graph_compute_with_ctx(ctx, graph, threads)
            except KeyboardInterrupt:
                print(len(seen))
            thread.join()
    """)
    assert out.split() == ["1", "1"]  # only the first node was computed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_compute_after_fork(child):
    out = child("""if 1:
        import os, sys, warnings, ggml
        warnings.simplefilter("ignore")
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False))
        a = ggml.ggml_new_tensor_2d(ctx, 0, 1024, 1024)
        out = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, a))
        graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(graph, out)

        def check(value):
            ggml.ggml_set_f32(a, value)
            assert ggml.ggml_graph_compute_with_ctx(ctx, graph, 2) == 0
            assert ggml.ggml_get_f32_1d(out, 0) == value * value * 1024 * 1024

        check(1.0)
        for generation in range(3):
            pid = os.fork()
            if pid:
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
                check(3.0)
                if generation == 0:
                    print("parent")
                break
            check(2.0)
            check(4.0)
        sys.stdout.flush()
        os._exit(0)
    """, timeout=60)  # fmt: skip
    assert out.split() == ["parent"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "change, error",
    [
        ("nxt.contents.ne[0] = 1 << 34", "ValueError: ggml_graph_compute_with_ctx: node 1 (SQR 'node_1')"),
        (
            "a.contents.ne[0] = nxt.contents.ne[0] = 1 << 34",
            "ValueError: ggml_graph_compute_with_ctx: node 1 (SQR 'node_1')",
        ),
        ("nxt.contents.nb[0] = 1 << 40", "ValueError: ggml_graph_compute_with_ctx: node 1 (SQR 'node_1')"),
        ("nxt.contents.data = 8", "has data at 0x8"),
        ("nxt.contents.type = 999", "type is 999"),
        ("nxt.contents.op = 12345", "op is 12345"),
        (
            "nxt.contents.src[0] = ctypes.cast(8, ggml.ggml_tensor_p)",
            "source 0 of node 1 (SQR 'node_1') is not a tensor",
        ),
        ("nxt.contents.src[0] = ggml.ggml_tensor_p()", "source a is missing"),
        ("ggml.ggml_free(ctx)", "RuntimeError: ggml_graph_compute_with_ctx: node 1 is not a tensor of a live context"),
        (
            "ggml.ggml_free(ctx); [ggml.ggml_free(arena()) for _ in range(1100)]",
            "node 1 is not a tensor of a live context",
        ),
        (
            "ggml.ggml_reset(ctx)",
            "RuntimeError: ggml_reset: NumPy or DLPack views of the context's tensors are alive, or a compute uses",
        ),
        # changes of the node itself or of the graph do not affect this compute
        ("dst.contents.op = 12345; dst.contents.op_params[0] = 8", "0"),
        ("dst.contents.src[0] = ctypes.cast(8, ggml.ggml_tensor_p)", "0"),
        ("ggml.ggml_graph_clear(graph)", "0"),
        ("ggml.ggml_graph_nodes(graph)[1] = ctypes.cast(8, ggml.ggml_tensor_p)", "0"),
        ("graph.contents.n_nodes = 1 << 30", "0"),
    ],
)
def test_a_callback_that_changes_what_is_computed(child, threads, change, error):
    out = child("""if 1:
        import ctypes, sys, ggml
        change, threads = sys.argv[1], int(sys.argv[2])

        def arena():
            return ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False))

        def fun(dst, src, ith, nth, userdata):
            if ith == nth - 1:
                exec(change)

        ctx = arena()
        a = ggml.ggml_set_f32(ggml.ggml_new_tensor_1d(ctx, 0, 1024), 1)
        nxt = ggml.ggml_sqr(ctx, ggml.ggml_map_custom1(ctx, a, fun, ggml.GGML_N_TASKS_MAX, None))
        graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(graph, ggml.ggml_mul(ctx, nxt, a))
        try:
            print(ggml.ggml_graph_compute_with_ctx(ctx, graph, threads))
        except Exception as e:
            print(f"{type(e).__name__}: {e}")
    """, change, str(threads))  # fmt: skip
    assert error in out


@pytest.mark.parametrize("free, error", [
    ("free(new)", "ctx"), ("free(graphs)", "cgraph"), ("free(nodes)", "node 0"), ("reset(new)", "the gradient of"),
    ("clear(graph)", "cgraph was changed"),
])  # fmt: skip
def test_a_gradient_callback_that_frees_what_the_backward_pass_reads(child, free, error):
    assert f"RuntimeError: ggml_build_backward_expand: {error}" in child("""if 1:
        import sys, ggml
        from ggml import ggml_free as free, ggml_graph_clear as clear, ggml_reset as reset

        def context():
            return ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False))

        def backward(ctx, tensor, grad):
            made = ggml.ggml_dup(nodes, grad)
            exec(sys.argv[1])
            return made

        new, graphs, nodes = context(), context(), context()
        x = ggml.ggml_new_tensor_1d(nodes, 0, 4)
        ggml.ggml_set_param(x)
        y = ggml.ggml_map_custom1(nodes, x, lambda *args: None, 1, None)
        ggml.ext.custom_set_backward(y, backward)
        loss = ggml.ggml_sum(nodes, ggml.ggml_sqr(nodes, y))
        ggml.ggml_set_loss(loss)
        graph = ggml.ggml_new_graph_custom(graphs, 64, True)
        ggml.ggml_build_forward_expand(graph, loss)
        try:
            ggml.ggml_build_backward_expand(new, graph, None)
        except Exception as e:
            print(f"{type(e).__name__}: {e}")
    """, free)  # fmt: skip


@pytest.mark.parametrize("free, error", [
    ("free(first)", "gf ("), ("free(second)", "gb ("), ("clear(gf)", "gf was changed"), ("free(third)", "cgraph ("),
])  # fmt: skip
def test_a_gradient_callback_that_frees_a_graph_of_checkpoints(child, free, error):
    assert f"RuntimeError: ggml_build_backward_gradient_checkpointing: {error}" in child("""if 1:
        import sys, ggml
        from ggml import ggml_free as free, ggml_graph_clear as clear

        def context():
            return ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False))

        def backward(ctx, tensor, grad):
            exec(sys.argv[1])
            return ggml.ggml_dup(nodes, grad)

        first, second, third, nodes = (context() for _ in range(4))
        gf, gb, scratch = (ggml.ggml_new_graph_custom(c, 64, True) for c in (first, second, third))
        x = ggml.ggml_new_tensor_1d(nodes, 0, 4)
        ggml.ggml_set_param(x)
        y = ggml.ggml_map_custom1(nodes, x, lambda *args: None, 1, None)
        ggml.ext.custom_set_backward(y, backward)
        loss = ggml.ggml_sum(nodes, ggml.ggml_sqr(nodes, y))
        ggml.ggml_set_loss(loss)
        ggml.ggml_build_forward_expand(gf, loss)
        try:
            ggml.ggml_build_backward_gradient_checkpointing(nodes, gf, gb, scratch, [y], 1)
        except Exception as e:
            print(f"{type(e).__name__}: {e}")
    """, free)  # fmt: skip


@pytest.mark.parametrize("field, value", [
    ("visited_hash_set.size", 1 << 40), ("visited_hash_set.size", (1 << 62) + 37), ("visited_hash_set.size", 0),
    ("visited_hash_set.used", None), ("visited_hash_set.keys", None), ("grads", None), ("grad_accs", None),
    ("use_counts", None), ("nodes", None), ("leafs", None), ("size", 1 << 20), ("n_nodes", 17), ("n_leafs", -1),
])  # fmt: skip
def test_a_graph_with_invalid_fields(ctx, field, value):
    graph = ggml.ggml_new_graph_custom(ctx, 16, True)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_sqr(ctx, vector(ctx)))
    struct, _, name = field.rpartition(".")
    setattr(getattr(graph.contents, struct) if struct else graph.contents, name, value)
    for call in (
        lambda: ggml.ggml_build_forward_expand(graph, vector(ctx)),
        lambda: ggml.ggml_graph_get_grad(graph, vector(ctx)),
        lambda: ggml.ggml_graph_dup(ctx, graph),
        lambda: ggml.ggml_graph_compute_with_ctx(ctx, graph, 1),
    ):
        with pytest.raises(ValueError, match=r"graph: .*(written over)"):
            call()


@pytest.mark.parametrize("field, value", [("op", 9999), ("op", -1), ("type", 99), ("ne", -4)])
@pytest.mark.parametrize("which", ["node 0", "leaf 0"])
def test_a_graph_with_an_invalid_tensor(ctx, tmp_path, which, field, value):
    """Functions that describe or extend a graph check its tensors, which callers may have written into."""
    graph = ggml.ggml_new_graph_custom(ctx, 16, True)
    x = vector(ctx)
    y = ggml.ggml_sqr(ctx, x)
    ggml.ggml_build_forward_expand(graph, y)
    tensor = (y if which == "node 0" else x).contents
    if field == "ne":
        tensor.ne[1] = value
    else:
        setattr(tensor, field, value)
    for call in (
        lambda: ggml.ggml_graph_print(graph),
        lambda: ggml.ggml_graph_dump_dot(graph, None, bytes(tmp_path / "graph.dot")),
        lambda: ggml.ggml_build_backward_expand(ctx, graph, None),
    ):
        with pytest.raises(ValueError, match=f"^ggml_.*: {which} has an invalid type, operation, shape or view_src"):
            call()


def test_work_memory_is_not_used_after_a_callback():
    """An operation after a callback gets work memory of its own: that of the operation before it was freed."""
    n = 1_100_000  # more than 32 MiB of work memory, which the system takes back at once: using it then is a fault
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    matrices = ggml.ggml_new_tensor_3d(ctx, F32, 1, 1, 2)
    x = ggml.ggml_new_tensor_3d(ctx, F32, 1, 1, n)
    ids = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_I32, 1, n)
    for tensor, value in ((matrices, 2), (x, 3), (ids, 1)):
        to_numpy(tensor)[...] = value

    def copy(dst, a, ith, nth, userdata):
        to_numpy(dst)[...] = to_numpy(a)

    y = ggml.ggml_map_custom1(ctx, ggml.ggml_mul_mat_id(ctx, matrices, x, ids), copy, 1, None)
    y = ggml.ggml_mul_mat_id(ctx, matrices, y, ids)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, y)
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
    assert (to_numpy(y) == 12).all()
    ggml.ggml_free(ctx)
