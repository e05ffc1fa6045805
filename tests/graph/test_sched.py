"""The scheduler with a CPU, a second CPU with memory of its own, and a backend written in Python gives the results
of one CPU.
"""

import ctypes

import ggml._backend.device
import numpy as np
import pytest
from cases.harness import graph_of
from placed import F32, context, example, get, put

import ggml

NO_ALLOC = True  # the fixture ctx makes contexts without memory
N = 16


class Three:
    """The three backends, and the objects that tests make with them."""

    def __init__(self):
        self.device = example("python_backend").NumpyDevice()
        self.numpy = ggml.ggml_backend_dev_init(self.device.device, None)  # registers the device
        self.other = ggml.ggml_backend_dev_init(ggml._backend.device._new_cpu_device(b"CPU1"), None)
        self.cpu = ggml.ggml_backend_cpu_init()
        self.free = []

    def weights(self, backend, values):
        c = context()
        t = ggml.ggml_new_tensor_2d(c, F32, *values.shape[::-1])
        buf = ggml.ggml_backend_alloc_ctx_tensors(c, backend)
        ggml.ggml_backend_buffer_set_usage(buf, ggml.GGML_BACKEND_BUFFER_USAGE_WEIGHTS)
        put(t, values)
        self.free += [lambda: ggml.ggml_backend_buffer_free(buf), lambda: ggml.ggml_free(c)]
        return t

    def sched(self, *backends, bufts=None, parallel=False, **options):
        array = (ctypes.c_void_p * len(backends))(*backends)
        s = ggml.ggml_backend_sched_new(array, bufts, len(backends), 2048, parallel, **options)
        self.free.append(lambda: ggml.ggml_backend_sched_free(s))
        return s

    def close(self):
        for f in reversed(self.free):
            f()
        for b in (self.other, self.cpu):
            ggml.ggml_backend_free(b)


@pytest.fixture
def three():
    t = Three()
    yield t
    t.close()


def sources(graph):
    nodes = [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]
    return [[ctypes.addressof(s.contents) if s else 0 for s in n.contents.src] for n in nodes]


WEIGHTS = [np.random.default_rng(i).standard_normal((N, N), np.float32) / 4 for i in range(6)]


def network(three, ctx, places, ws=None):
    """A network with a residual, views, an in-place operation and a broadcast. Returns its input, result and graph."""
    ws = ws or [three.weights(b, v) for b, v in zip(places, WEIGHTS)]
    x = ggml.ggml_new_tensor_2d(ctx, F32, N, 4)
    ggml.ggml_set_input(x)
    h = x
    for i, w in enumerate(ws):
        m = ggml.ggml_mul_mat(ctx, w, h)
        if i % 3 == 0:
            m = ggml.ggml_tanh(ctx, m)
        if i % 3 == 1:
            m = ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, m))))
        if i % 3 == 2:
            m = ggml.ggml_scale_inplace(ctx, m, 0.5)
        h = ggml.ggml_add(ctx, m, ggml.ggml_view_2d(ctx, h, N, 1, N * 4, N * 4 * 2))
    out = ggml.ggml_mul(ctx, h, x)
    return x, out, graph_of(ctx, out)


def compute(sched, x, out, graph, given):
    ggml.ggml_backend_sched_reset(sched)
    assert ggml.ggml_backend_sched_alloc_graph(sched, graph)
    put(x, given)
    assert ggml.ggml_backend_sched_graph_compute(sched, graph) == ggml.GGML_STATUS_SUCCESS
    return get(out)


GIVEN = [np.random.default_rng(100 + i).standard_normal((4, N), np.float32) for i in range(3)]


@pytest.fixture
def expected(three):
    c = context()
    x, out, graph = network(three, c, [three.cpu] * 6)
    s = three.sched(three.cpu)
    results = [compute(s, x, out, graph, g) for g in GIVEN]
    assert ggml.ggml_backend_sched_get_n_splits(s) == 1
    three.free.append(lambda: ggml.ggml_free(c))
    return results


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("places", ["cccccc", "oooooo", "occoco", "nnnnnn", "nocnoc", "cnoocn", "ccnncc"])
def test_results_equal_those_of_one_cpu(places, parallel, three, ctx, expected):
    at = {"c": three.cpu, "o": three.other, "n": three.numpy}
    x, out, graph = network(three, ctx, [at[p] for p in places])
    before = sources(graph)
    s = three.sched(three.numpy, three.other, three.cpu, parallel=parallel)
    for given, want in zip(GIVEN, expected):
        np.testing.assert_allclose(compute(s, x, out, graph, given), want, rtol=2e-5, atol=2e-6)
        assert sources(graph) == before  # the user's graph is unchanged
    assert ggml.ggml_backend_sched_get_n_copies(s) == (4 if parallel else 1)
    if len(set(places)) > 1:
        assert ggml.ggml_backend_sched_get_n_splits(s) > 1
    if "n" in places:
        # except products that are scaled in place, which the NumPy backend does not support
        assert three.device.computed.count("MUL_MAT") == 3 * sum(p == "n" and i % 3 != 2 for i, p in enumerate(places))
    if "o" not in places and "n" not in places:
        assert ggml.ggml_backend_sched_get_buffer_size(s, three.cpu) > 0


def test_nodes_run_where_their_weights_are(three, ctx):
    x, out, graph = network(three, ctx, [three.numpy, three.other, three.cpu] * 2)
    s = three.sched(three.numpy, three.other, three.cpu)
    ggml.ggml_backend_sched_split_graph(s, graph)
    products = [
        n
        for n in (ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph)))
        if n.contents.op == ggml.GGML_OP_MUL_MAT
    ]
    where = [ggml.ggml_backend_sched_get_tensor_backend(s, p) for p in products]
    assert where == [three.numpy, three.other, three.cpu] * 2
    assert ggml.ggml_backend_sched_get_tensor_backend(s, x) == three.cpu
    ggml.ggml_backend_sched_reset(s)
    assert ggml.ggml_backend_sched_get_tensor_backend(s, products[0]) is None


def test_assignment_by_hand(three, ctx):
    a = ggml.ggml_new_tensor_1d(ctx, F32, 8)
    ggml.ggml_set_input(a)
    b = ggml.ggml_sqr(ctx, a)
    c = ggml.ggml_sqr(ctx, b)
    graph = graph_of(ctx, c)
    s = three.sched(three.other, three.numpy, three.cpu)
    ggml.ggml_backend_sched_set_tensor_backend(s, b, three.numpy)
    ggml.ggml_backend_sched_set_tensor_backend(s, c, three.other)
    assert ggml.ggml_backend_sched_get_tensor_backend(s, b) == three.numpy
    assert ggml.ggml_backend_sched_alloc_graph(s, graph)
    put(a, np.arange(8))
    assert ggml.ggml_backend_sched_graph_compute(s, graph) == 0
    assert get(c).tolist() == [float(k**4) for k in range(8)]
    assert three.device.computed == ["SQR"] and ggml.ggml_backend_sched_get_n_splits(s) == 2
    stranger = ggml.ggml_backend_cpu_init()
    with pytest.raises(ValueError, match="backend is none of the scheduler's"):
        ggml.ggml_backend_sched_set_tensor_backend(s, b, stranger)
    ggml.ggml_backend_free(stranger)


def test_unsupported_operations_run_on_another_backend(three, ctx):
    w = three.weights(three.numpy, WEIGHTS[0])
    x = ggml.ggml_new_tensor_2d(ctx, F32, N, 4)
    ggml.ggml_set_input(x)
    t = ggml.ggml_tanh(ctx, w)  # the weights belong to the NumPy backend, which does not support tanh
    out = ggml.ggml_mul_mat(ctx, t, x)
    graph = graph_of(ctx, out)
    s = three.sched(three.numpy, three.cpu)
    result = compute(s, x, out, graph, GIVEN[0])
    assert ggml.ggml_backend_sched_get_tensor_backend(s, t) == three.cpu
    np.testing.assert_allclose(result.reshape(4, N), GIVEN[0] @ np.tanh(WEIGHTS[0]).T, rtol=1e-4, atol=1e-5)
    lonely = three.sched(three.numpy)
    with pytest.raises(RuntimeError, match="^ggml_backend_sched_alloc_graph: no backend can compute UNARY"):
        ggml.ggml_backend_sched_alloc_graph(lonely, graph)


def test_a_copy_is_made_again_after_its_source_was_overwritten(three, ctx):
    """b reads x before x is overwritten in place, and c afterwards. Both run on a device that has to copy x."""
    w = three.weights(three.cpu, np.ones((1, N), np.float32))
    x = ggml.ggml_cont(ctx, w)
    b = ggml.ggml_sqr(ctx, x)
    y = ggml.ggml_scale_inplace(ctx, x, 3.0)
    c = ggml.ggml_sqr(ctx, ggml.ggml_add(ctx, y, b))
    d = ggml.ggml_sqr(ctx, x)
    graph = ggml.ggml_new_graph(ctx)
    for t in (x, b, y, c, d):
        ggml.ggml_build_forward_expand(graph, t)
    s = three.sched(three.other, three.cpu)
    for t in (b, d):
        ggml.ggml_backend_sched_set_tensor_backend(s, t, three.other)
    for t in (x, y, c):
        ggml.ggml_backend_sched_set_tensor_backend(s, t, three.cpu)
    for t in (b, c, d):
        ggml.ggml_set_output(t)
    assert ggml.ggml_backend_sched_graph_compute(s, graph) == 0
    assert get(b).tolist() == [1.0] * N and get(c).tolist() == [16.0] * N and get(d).tolist() == [9.0] * N


def test_the_eval_callback_asks_observes_and_cancels(three, ctx):
    x, out, graph = network(three, ctx, [three.numpy, three.cpu, three.other] * 2)
    s = three.sched(three.numpy, three.other, three.cpu)
    want = compute(s, x, out, graph, GIVEN[0])
    asked, seen = [], []

    def observe(t, ask, data):
        assert data == 5
        if ask:
            asked.append(t)
            return t.contents.op == ggml.GGML_OP_MUL_MAT
        seen.append(get(t))
        return True

    ggml.ggml_backend_sched_set_eval_callback(s, ggml.ggml_backend_sched_eval_callback(observe), 5)
    np.testing.assert_array_equal(compute(s, x, out, graph, GIVEN[0]), want)
    assert len(seen) == 6 and len(asked) == ggml.ggml_graph_n_nodes(graph)
    np.testing.assert_allclose(seen[0].reshape(4, N), GIVEN[0] @ WEIGHTS[0].T, rtol=1e-5, atol=1e-5)

    shown = []
    ggml.ggml_backend_sched_set_eval_callback(s, lambda t, ask, data: ask or (shown.append(t), False)[1], None)
    put(out, np.zeros((4, N)))
    assert ggml.ggml_backend_sched_graph_compute(s, graph) == ggml.GGML_STATUS_SUCCESS
    assert len(shown) == 1 and not get(out).any()  # cancelled after the first node

    def broken(t, ask, data):
        raise LookupError("in the callback")

    ggml.ggml_backend_sched_set_eval_callback(s, broken, None)
    with pytest.raises(LookupError, match="in the callback"):
        ggml.ggml_backend_sched_graph_compute(s, graph)
    ggml.ggml_backend_sched_set_eval_callback(s, None, None)
    np.testing.assert_array_equal(compute(s, x, out, graph, GIVEN[0]), want)


def test_reserve_and_sizes(three, ctx):
    x, out, graph = network(three, ctx, [three.other, three.cpu] * 3)
    s = three.sched(three.other, three.cpu)
    sizes = (ctypes.c_size_t * 2)()
    ggml.ggml_backend_sched_reserve_size(s, graph, sizes)
    assert ggml.ggml_backend_sched_get_buffer_size(s, three.other) == 0 and min(sizes) > 0
    assert ggml.ggml_backend_sched_reserve(s, graph) is True
    assert [ggml.ggml_backend_sched_get_buffer_size(s, b) for b in (three.other, three.cpu)] == list(sizes)
    assert x.contents.data is None  # reserving gives no tensor an address
    base = compute(s, x, out, graph, GIVEN[0])
    assert [ggml.ggml_backend_sched_get_buffer_size(s, b) for b in (three.other, three.cpu)] == list(sizes)
    assert base.any()
    with pytest.raises(ValueError, match="sizes has 8 bytes: need 16"):
        ggml.ggml_backend_sched_reserve_size(s, graph, (ctypes.c_size_t * 1)())


def test_computing_another_graph_without_a_reset(three, ctx):
    s = three.sched(three.other, three.cpu)
    w = three.weights(three.cpu, np.full((1, 8), 2, np.float32))
    a, b = ggml.ggml_sqr(ctx, w), ggml.ggml_sqrt(ctx, w)
    for t, want in ((a, 4), (b, 2**0.5), (a, 4)):
        assert ggml.ggml_backend_sched_graph_compute(s, graph_of(ctx, t)) == 0
        np.testing.assert_allclose(get(t), want, rtol=1e-6)


def test_async_and_synchronize(three, ctx, expected):
    x, out, graph = network(three, ctx, [three.numpy, three.cpu, three.other] * 2)
    s = three.sched(three.numpy, three.other, three.cpu, parallel=True)
    for given, want in zip(GIVEN, expected):
        ggml.ggml_backend_sched_reset(s)
        ggml.ggml_backend_sched_alloc_graph(s, graph)
        put(x, given)
        assert ggml.ggml_backend_sched_graph_compute_async(s, graph) == 0
        ggml.ggml_backend_sched_synchronize(s)
        np.testing.assert_allclose(get(out), want, rtol=2e-5, atol=2e-6)


def test_a_known_graph_is_assigned_again_after_changes(three, ctx):
    """With two CPU backends: after an assignment by hand, after a reset, and after a change of the usage of an
    operand's buffer. A freed backend raises.
    """
    c = context()
    w = ggml.ggml_new_tensor_2d(c, F32, N, N)
    buf = ggml.ggml_backend_alloc_ctx_tensors(c, three.other)
    put(w, WEIGHTS[0])
    x = ggml.ggml_new_tensor_2d(ctx, F32, N, 4)
    ggml.ggml_set_input(x)
    a = ggml.ggml_sqr(ctx, x)
    h = ggml.ggml_mul_mat(ctx, w, a)
    out = ggml.ggml_sqr(ctx, h)
    graph = graph_of(ctx, out)
    last = ggml.ggml_backend_cpu_init()
    s = three.sched(three.other, last)
    want = (GIVEN[0] ** 2 @ WEIGHTS[0].T) ** 2

    def places(*by_hand):
        for _ in range(2):  # the second time the scheduler knows the graph
            ggml.ggml_backend_sched_reset(s)
            assert ggml.ggml_backend_sched_get_tensor_backend(s, h) is None
            for t, b in (*by_hand, (a, last)):
                ggml.ggml_backend_sched_set_tensor_backend(s, t, b)
            assert ggml.ggml_backend_sched_alloc_graph(s, graph)
            put(x, GIVEN[0])
            assert ggml.ggml_backend_sched_graph_compute(s, graph) == 0
            np.testing.assert_allclose(get(out).reshape(4, N), want, rtol=1e-4, atol=1e-5)
        return [ggml.ggml_backend_sched_get_tensor_backend(s, t) for t in (h, out)]

    assert places() == [last, last]
    assert places((h, three.other), (out, last)) == [three.other, last]
    assert places((h, last), (out, three.other)) == [last, three.other]
    assert places() == [last, last]
    ggml.ggml_backend_buffer_set_usage(buf, ggml.GGML_BACKEND_BUFFER_USAGE_WEIGHTS)
    assert places()[0] == three.other
    ggml.ggml_backend_free(last)
    with pytest.raises(RuntimeError, match="a backend of the scheduler was freed"):
        ggml.ggml_backend_sched_alloc_graph(s, graph)
    ggml.ggml_backend_buffer_free(buf)
    ggml.ggml_free(c)


@pytest.mark.parametrize("parallel", [False, True])
def test_graphs_of_equal_structure_alternate(parallel, three, expected):
    """With the same weights, on two CPU backends with copies between them: the plan for one graph also serves the
    others.
    """
    places = [three.other, three.cpu, three.other, three.other, three.cpu, three.other]
    s = three.sched(three.other, three.cpu, parallel=parallel)
    ws = [three.weights(b, v) for b, v in zip(places, WEIGHTS)]
    contexts = [context() for _ in range(3)]
    made = [network(three, c, places, ws) for c in contexts]
    for turn, k in enumerate((0, 1, 2, 1, 1, 0, 2, 2, 0)):
        x, out, graph = made[k]
        before = sources(graph)
        np.testing.assert_allclose(compute(s, x, out, graph, GIVEN[turn % 3]), expected[turn % 3], rtol=2e-5, atol=2e-6)
        assert sources(graph) == before
        assert ggml.ggml_backend_sched_get_tensor_backend(s, out) is not None
        assert ggml.ggml_backend_sched_get_tensor_backend(s, made[(k + 1) % 3][1]) is None
    for c in contexts:
        ggml.ggml_free(c)
    ggml.ggml_backend_sched_reset(s)
    c = context()
    x, out, graph = network(three, c, places, ws)
    np.testing.assert_allclose(compute(s, x, out, graph, GIVEN[0]), expected[0], rtol=2e-5, atol=2e-6)
    ggml.ggml_free(c)


def test_properties_of_the_scheduler(three):
    other_type = ggml.ggml_backend_get_default_buffer_type(three.other)
    cpu_type = ggml.ggml_backend_cpu_buffer_type()
    s = three.sched(three.other, three.cpu, bufts=(ctypes.c_void_p * 2)(other_type, cpu_type), op_offload=False)
    assert ggml.ggml_backend_sched_get_n_backends(s) == 2
    assert [ggml.ggml_backend_sched_get_backend(s, i) for i in range(2)] == [three.other, three.cpu]
    assert ggml.ggml_backend_sched_get_buffer_type(s, three.other) == other_type
    with pytest.raises(IndexError, match="the scheduler has 2 backends"):
        ggml.ggml_backend_sched_get_backend(s, 2)
    with pytest.raises(ValueError, match="CPU can't use such buffers"):
        three.sched(three.cpu, bufts=(ctypes.c_void_p * 1)(other_type))
    with pytest.raises(ValueError, match="backends has 1 elements: need 2"):
        ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(three.cpu), None, 2, 100, False)


def test_a_freed_backend_is_detected(three, ctx):
    b = ggml.ggml_backend_cpu_init()
    s = three.sched(b)
    ggml.ggml_backend_free(b)
    t = ggml.ggml_sqr(ctx, ggml.ggml_new_tensor_1d(ctx, F32, 4))
    with pytest.raises(RuntimeError, match="a backend of the scheduler was freed"):
        ggml.ggml_backend_sched_alloc_graph(s, graph_of(ctx, t))


def test_operations_are_offloaded_to_a_backend_that_accepts_them(three, ctx):
    device = three.device
    device.backend.iface.offload_op = ggml.ggml_backend_i_offload_op(
        lambda backend, op: op.contents.op == ggml.GGML_OP_MUL_MAT
    )
    for offload, computed in ((True, ["MUL_MAT"]), (False, [])):
        device.computed.clear()
        c = context()
        w = three.weights(three.cpu, WEIGHTS[0])
        x = ggml.ggml_new_tensor_2d(c, F32, N, 4)
        ggml.ggml_set_input(x)
        out = ggml.ggml_mul_mat(c, w, x)
        s = three.sched(three.numpy, three.cpu, op_offload=offload)
        result = compute(s, x, out, graph_of(c, out), GIVEN[0])
        np.testing.assert_allclose(result.reshape(4, N), GIVEN[0] @ WEIGHTS[0].T, rtol=1e-4, atol=1e-5)
        assert device.computed == computed
        ggml.ggml_backend_sched_reset(s)
        ggml.ggml_free(c)


# ---- copies of graphs ------------------------------------------------------------------------------------------------


def test_a_graph_copied_to_another_backend(three, ctx):
    a = ggml.ggml_new_tensor_2d(ctx, F32, N, 4)
    b = ggml.ggml_scale_inplace(ctx, ggml.ggml_add(ctx, a, ggml.ggml_view_2d(ctx, a, N, 1, N * 4, 0)), 2.0)
    graph = graph_of(ctx, b)
    buf = ggml.ggml_backend_alloc_ctx_tensors(ctx, three.cpu)
    put(a, GIVEN[0])
    for make in (ggml.ggml_backend_graph_copy, ggml.ggml_backend_graph_copy_):
        copied = make(three.other, graph)
        assert isinstance(copied, ggml.ggml_backend_graph_copy)
        assert ggml.ggml_graph_n_nodes(copied.graph) == ggml.ggml_graph_n_nodes(graph)
        assert ggml.ggml_backend_graph_compute(three.other, copied.graph) == 0
        np.testing.assert_array_equal(
            get(ggml.ggml_graph_node(copied.graph, -1)).reshape(4, N), (GIVEN[0] + GIVEN[0][0]) * 2
        )
        ggml.ggml_backend_graph_copy_free(copied)
        assert copied.buffer is None and not copied.graph
    np.testing.assert_array_equal(get(a).reshape(4, N), GIVEN[0])
    ggml.ggml_backend_buffer_free(buf)


def test_comparing_backends(three, ctx):
    a = ggml.ggml_new_tensor_2d(ctx, F32, N, 4)
    b = ggml.ggml_sqr(ctx, a)
    c = ggml.ggml_mul_mat(ctx, a, ggml.ggml_add(ctx, b, a))
    graph = graph_of(ctx, c)
    buf = ggml.ggml_backend_alloc_ctx_tensors(ctx, three.cpu)
    put(a, GIVEN[0])
    seen = []

    def show(i, x, y, data):
        np.testing.assert_allclose(get(x), get(y), rtol=1e-5, atol=1e-5)
        seen.append((i, data))
        return len(seen) != stop

    stop = None
    assert ggml.ggml_backend_compare_graph_backend(three.cpu, three.numpy, graph, show, 7) is True
    assert seen == [(0, 7), (1, 7), (2, 7)] and three.device.computed == ["SQR", "ADD", "MUL_MAT"]
    seen.clear()
    callback = ggml.ggml_backend_eval_callback(show)
    nodes = (ggml.ggml_tensor_p * 1)(c)
    assert ggml.ggml_backend_compare_graph_backend(three.cpu, three.other, graph, callback, None, nodes, 1)
    assert seen == [(2, None)]
    seen.clear()
    stop = 1
    assert ggml.ggml_backend_compare_graph_backend(three.cpu, three.other, graph, show, None)
    assert len(seen) == 1
    with pytest.raises(TypeError, match="callback is None"):
        ggml.ggml_backend_compare_graph_backend(three.cpu, three.other, graph, None, None)
    with pytest.raises(ValueError, match="num_test_nodes is -1: need 0 or more"):
        ggml.ggml_backend_compare_graph_backend(three.cpu, three.other, graph, show, None, nodes, -1)
    ggml.ggml_backend_buffer_free(buf)


def test_a_callback_of_another_type(three):
    """Such a callback would be called with other arguments than it takes."""
    sched = three.sched(three.cpu)
    wrong = ggml.ggml_abort_callback(lambda data: False)
    with pytest.raises(TypeError, match="need a ggml_backend_sched_eval_callback"):
        ggml.ggml_backend_sched_set_eval_callback(sched, wrong, None)
    with pytest.raises(ValueError, match="is the address of no function"):
        ggml.ggml_backend_sched_set_eval_callback(sched, 0x10, None)


@pytest.mark.parametrize("call", [
    lambda s, graph: ggml.ggml_backend_sched_free(s), lambda s, graph: ggml.ggml_backend_sched_reset(s),
    ggml.ggml_backend_sched_alloc_graph, ggml.ggml_backend_sched_reserve, ggml.ggml_backend_sched_split_graph,
    ggml.ggml_backend_sched_graph_compute, ggml.ggml_backend_sched_graph_compute_async,
    lambda s, graph: ggml.ggml_backend_sched_reserve_size(s, graph, (ctypes.c_size_t * 3)()),
])  # fmt: skip
def test_a_callback_cannot_change_the_scheduler_that_called_it(three, ctx, call):
    x, out, graph = network(three, ctx, [three.numpy, three.cpu, three.other] * 2)
    s = three.sched(three.numpy, three.other, three.cpu)
    want = compute(s, x, out, graph, GIVEN[0])
    errors = []

    def meddle(t, ask, data):
        with pytest.raises(RuntimeError, match=r"^ggml_backend_sched_\w+: sched is at work with a graph") as caught:
            call(s, graph)
        errors.append(caught.value)
        return True

    ggml.ggml_backend_sched_set_eval_callback(s, meddle, None)
    np.testing.assert_array_equal(compute(s, x, out, graph, GIVEN[0]), want)
    assert len(errors) > 10
    ggml.ggml_backend_sched_set_eval_callback(s, None, None)
    np.testing.assert_array_equal(compute(s, x, out, graph, GIVEN[0]), want)


def test_a_callback_that_removes_itself(three, ctx):
    x, out, graph = network(three, ctx, [three.numpy, three.cpu, three.other] * 2)
    s = three.sched(three.numpy, three.other, three.cpu)
    want = compute(s, x, out, graph, GIVEN[0])
    ggml.ggml_backend_sched_set_eval_callback(
        s, lambda t, ask, data: (ggml.ggml_backend_sched_set_eval_callback(s, None, None), True)[1], None)  # fmt: skip
    np.testing.assert_array_equal(compute(s, x, out, graph, GIVEN[0]), want)


def test_messages_name_the_outer_call(three, ctx):
    x, out, graph = network(three, ctx, [three.cpu])
    s = three.sched(three.cpu)
    compute(s, x, out, graph, GIVEN[0])

    def spoil(t, ask, data):
        out.contents.ne[0] = 1 << 40 if ggml.ggml_nelements(t) else 0
        return True

    ggml.ggml_backend_sched_set_eval_callback(s, spoil, None)
    with pytest.raises(ValueError, match=r"^ggml_backend_sched_graph_compute: node"):
        ggml.ggml_backend_sched_graph_compute(s, graph)


def test_a_comparison_whose_callback_frees_the_graph(cpu):
    c = context()
    x = ggml.ggml_new_tensor_1d(c, F32, 4)
    graph = graph_of(c, ggml.ggml_sqr(c, ggml.ggml_sqr(c, x)))
    ggml.ggml_backend_alloc_ctx_tensors(c, cpu)

    def show(i, a, b, data):
        ggml.ggml_free(c)
        return True

    with pytest.raises(
        RuntimeError, match="^ggml_backend_compare_graph_backend: graph .* is not a graph of a live context"
    ):
        ggml.ggml_backend_compare_graph_backend(cpu, cpu, graph, show, None)


def test_a_copy_of_a_deep_graph(child):
    """The copy works with a small stack, however deeply sources are nested."""
    assert child("""if 1:
        import threading, ggml

        def work():
            ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))
            x = ggml.ggml_new_tensor_1d(ctx, 0, 4)
            for _ in range(10000):
                x = ggml.ggml_reshape_2d(ctx, ggml.ggml_sqr(ctx, x), 2, 2)
            graph = ggml.ggml_new_graph_custom(ctx, 1, False)
            ggml.ggml_graph_add_node(graph, x)
            copy = ggml.ggml_backend_graph_copy_(ggml.ggml_backend_cpu_init(), graph)
            print(ggml.ggml_graph_n_nodes(copy.graph))

        threading.stack_size(1 << 18)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    """).split() == ["20000"]  # fmt: skip


@pytest.mark.parametrize("call", [
    ggml.ggml_backend_sched_alloc_graph, ggml.ggml_backend_sched_reserve, ggml.ggml_backend_sched_split_graph,
    ggml.ggml_backend_sched_graph_compute,
    lambda s, graph: ggml.ggml_backend_sched_reserve_size(s, graph, (ctypes.c_size_t * 2)()),
])  # fmt: skip
@pytest.mark.parametrize("apart", [False, True])
def test_a_backend_that_frees_the_graph_it_is_asked_about(three, call, apart):
    """The memory of the graph stays valid during the call and is freed afterwards."""
    c, lists = context(), context()
    t = ggml.ggml_new_tensor_2d(c, F32, 8, 4)
    for _ in range(40):
        t = ggml.ggml_add(c, ggml.ggml_sqr(c, t), t)
    graph = graph_of(lists if apart else c, t)
    s, left = three.sched(three.numpy, three.cpu), [c, lists]

    def supports(op):
        for old in left:
            ggml.ggml_free(old)
        left.clear()
        return True

    three.device.supports = supports
    try:
        call(s, graph)
    except (RuntimeError, ValueError) as error:
        assert str(error).startswith("ggml_backend_sched_")
    assert not left
    with pytest.raises(RuntimeError, match="^ggml_backend_sched_alloc_graph: graph .* is not a graph of a live"):
        ggml.ggml_backend_sched_alloc_graph(s, graph)
    ggml.ggml_backend_sched_reset(s)
