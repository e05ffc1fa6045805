"""Prepared graphs: from the third compute on a graph is not checked again. Whatever changes must be noticed."""

import ctypes
import threading

import numpy as np
import pytest
from cases.harness import ISAS, context, graph_of, isa

import ggml
import ggml.utils

F32 = ggml.GGML_TYPE_F32
BEFORE = 3  # computes: the second keeps a plan, the third uses it


def vector(ctx, values):
    t = ggml.ggml_new_tensor_1d(ctx, F32, len(values))
    ggml.utils.to_numpy(t)[:] = values
    return t


def compute(ctx, graph, n_threads=1, times=1):
    for _ in range(times):
        assert ggml.ggml_graph_compute_with_ctx(ctx, graph, n_threads) == ggml.GGML_STATUS_SUCCESS


@pytest.fixture
def sum_of_squares(ctx):
    """A prepared graph of x * x + y: (context, graph, x, y, the product, the result)."""
    x, y = vector(ctx, [1, 2, 3]), vector(ctx, [10, 20, 30])
    product = ggml.ggml_mul(ctx, x, x)
    result = ggml.ggml_add(ctx, product, y)
    graph = graph_of(ctx, result)
    compute(ctx, graph, times=BEFORE)
    assert ggml.utils.to_numpy(result).tolist() == [11, 24, 39]
    return ctx, graph, x, y, product, result


def test_new_values_are_used(sum_of_squares):
    ctx, graph, x, _, _, result = sum_of_squares
    ggml.utils.to_numpy(x)[:] = [4, 5, 6]
    compute(ctx, graph)
    assert ggml.utils.to_numpy(result).tolist() == [26, 45, 66]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_source_that_is_replaced(sum_of_squares, n_threads):
    ctx, graph, _, _, product, result = sum_of_squares
    product.contents.src[1] = vector(ctx, [2, 2, 2])
    compute(ctx, graph, n_threads, BEFORE)
    assert ggml.utils.to_numpy(result).tolist() == [12, 24, 36]


def test_an_operation_that_is_replaced(sum_of_squares):
    ctx, graph, _, _, product, result = sum_of_squares
    product.contents.op = ggml.GGML_OP_SUB
    compute(ctx, graph, times=BEFORE)
    assert ggml.utils.to_numpy(result).tolist() == [10, 20, 30]


def test_parameters_that_are_replaced(ctx):
    x = vector(ctx, [1, 2, 3])
    scaled = ggml.ggml_scale(ctx, x, 2.0)
    graph = graph_of(ctx, scaled)
    compute(ctx, graph, times=BEFORE)
    for factor in 3.0, 4.0:
        ctypes.memmove(scaled.contents.op_params, ctypes.byref(ctypes.c_float(factor)), 4)
        compute(ctx, graph, times=BEFORE)
        assert ggml.utils.to_numpy(scaled).tolist() == [factor, 2 * factor, 3 * factor]


def test_data_that_is_moved(sum_of_squares):
    ctx, graph, x, _, _, result = sum_of_squares
    x.contents.data = vector(ctx, [0, 1, 0]).contents.data
    compute(ctx, graph, times=BEFORE)
    assert ggml.utils.to_numpy(result).tolist() == [10, 21, 30]


def readers(ctx, image, matrix):
    """Results that read two operands in many ways: convolutions, products, chains, views."""
    dice = np.random.default_rng(5)

    def constant(*ne):
        t = ggml.ggml_new_tensor(ctx, F32, len(ne), (ctypes.c_int64 * len(ne))(*ne))
        values = ggml.utils.to_numpy(t)
        values[...] = 0.1 * dice.standard_normal(values.shape)
        return t

    flat = ggml.ggml_reshape_2d(ctx, image, 18 * 17, 8)
    half = ggml.ggml_view_2d(ctx, matrix, 64, 20, matrix.contents.nb[1], 20 * matrix.contents.nb[1])
    bias = ggml.ggml_reshape_3d(ctx, constant(16), 1, 1, 16)
    taps, points, planes = constant(3, 3, 8, 16), constant(1, 1, 8, 16), constant(3, 3, 1, 8)
    sums = ggml.ggml_add_inplace(ctx, ggml.ggml_conv_2d_direct(ctx, taps, image, 1, 1, 1, 1, 1, 1), bias)
    return [
        ggml.ggml_relu_inplace(ctx, sums),
        ggml.ggml_conv_2d_direct(ctx, points, image, 1, 1, 0, 0, 1, 1),
        ggml.ggml_conv_2d_dw_direct(ctx, planes, image, 1, 1, 1, 1, 1, 1),
        ggml.ggml_add(ctx, ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, flat, 1e-5), constant(18 * 17)), flat),
        ggml.ggml_soft_max(ctx, ggml.ggml_scale(ctx, half, 2)),
        ggml.ggml_mul_mat(ctx, matrix, constant(64)),
        ggml.ggml_mul_mat(ctx, matrix, constant(64, 30)),
        ggml.ggml_mul_mat(ctx, constant(64, 50), half),
        ggml.ggml_mul_mat(ctx, constant(64, 9), half),
        ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, half)),
        ggml.ggml_pool_2d(ctx, image, ggml.GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0),
    ]


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("name", ISAS)
def test_operands_that_lie_elsewhere_in_each_compute(name, n_threads, ctx):
    """Views move with them. The results are those for the same values in the memory of the graph."""
    dice = np.random.default_rng(9)
    image, matrix = ggml.ggml_new_tensor_3d(ctx, F32, 18, 17, 8), ggml.ggml_new_tensor_2d(ctx, F32, 64, 40)
    results = readers(ctx, image, matrix)
    graph = graph_of(ctx, *results)
    nodes = [ggml.ggml_graph_node(graph, i).contents for i in range(ggml.ggml_graph_n_nodes(graph))]
    views = {
        id(t): [n for n in nodes if n.view_src and ggml.ggml_get_data(n.view_src) == t.contents.data]
        for t in (image, matrix)
    }
    assert len(views[id(image)]) == 1 and len(views[id(matrix)]) == 2
    homes = {id(t): t.contents.data for t in (image, matrix)}
    shapes = {id(image): (8, 17, 18), id(matrix): (40, 64)}

    def place(t, address):
        for fields in views[id(t)]:
            fields.data += address - t.contents.data
        t.contents.data = address

    def given(values, at_home):
        for t, v in zip((image, matrix), values):
            if at_home:
                place(t, homes[id(t)])
                ggml.utils.to_numpy(t)[...] = v.reshape(shapes[id(t)])
            else:
                place(t, v.ctypes.data)
        compute(ctx, graph, n_threads)
        return [ggml.utils.to_numpy(t).copy() for t in results]

    with isa(name):
        first = [dice.standard_normal(shapes[id(t)]).astype(np.float32) for t in (image, matrix)]
        for _ in range(BEFORE):
            given(first, True)
        for step in range(6):
            # an element further each time: not aligned to vectors
            arrays = [np.empty(np.prod(shapes[id(t)]) + step, np.float32)[step:] for t in (image, matrix)]
            for a in arrays:
                a[:] = dice.standard_normal(a.size)
            found = given(arrays, False)
            wanted = given(arrays, True) if step % 2 else expected(arrays, n_threads)
            for k, (got, want) in enumerate(zip(found, wanted)):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=f"result {k}, step {step}")


def expected(arrays, n_threads):
    """What a new graph gives, whose operands have these values."""
    with context() as ctx:
        image, matrix = ggml.ggml_new_tensor_3d(ctx, F32, 18, 17, 8), ggml.ggml_new_tensor_2d(ctx, F32, 64, 40)
        for t, a in zip((image, matrix), arrays):
            values = ggml.utils.to_numpy(t)
            values[...] = a.reshape(values.shape)
        results = readers(ctx, image, matrix)
        compute(ctx, graph_of(ctx, *results), n_threads)
        return [ggml.utils.to_numpy(t).copy() for t in results]


def test_an_operand_that_moves_to_where_a_node_writes(sum_of_squares):
    ctx, graph, x, y, product, result = sum_of_squares
    ggml.utils.to_numpy(product)[:] = [4, 5, 6]
    y.contents.data = product.contents.data  # x * x is there when it is read
    compute(ctx, graph)
    assert ggml.utils.to_numpy(result).tolist() == [2, 8, 18]


def test_an_operand_that_moves_to_freed_memory(sum_of_squares):
    ctx, graph, x, _, _, _ = sum_of_squares
    with context() as other:
        x.contents.data = vector(other, [3, 2, 1]).contents.data
        compute(ctx, graph, times=BEFORE)
    with pytest.raises(RuntimeError, match="freed"):
        compute(ctx, graph)


def test_invalid_fields_are_refused(sum_of_squares):
    ctx, graph, x, y, product, result = sum_of_squares
    for tensor, field, value in (
        (x, "type", 77),
        (product, "op", 12345),
        (y, "data", None),
        (y, "data", 8),
    ):
        old = getattr(tensor.contents, field)
        setattr(tensor.contents, field, value)
        with pytest.raises((ValueError, RuntimeError), match="^ggml_graph_compute_with_ctx: "):
            compute(ctx, graph)
        setattr(tensor.contents, field, old)
    x.contents.ne[0] = 1 << 40
    with pytest.raises(ValueError, match="^ggml_graph_compute_with_ctx: "):
        compute(ctx, graph)
    x.contents.ne[0] = 3
    compute(ctx, graph, times=BEFORE)
    assert ggml.utils.to_numpy(result).tolist() == [11, 24, 39]


def test_nodes_that_are_added(sum_of_squares):
    ctx, graph, _, _, _, result = sum_of_squares
    more = ggml.ggml_sqr(ctx, result)
    ggml.ggml_build_forward_expand(graph, more)
    compute(ctx, graph, times=BEFORE)
    assert ggml.utils.to_numpy(more).tolist() == [121, 576, 1521]


def test_flags_that_are_cleared(sum_of_squares):
    ctx, graph, x, _, product, result = sum_of_squares
    ggml.utils.to_numpy(x)[:] = 0
    product.contents.flags &= ~ggml.GGML_TENSOR_FLAG_COMPUTE
    compute(ctx, graph)
    assert ggml.utils.to_numpy(result).tolist() == [11, 24, 39]  # the old product


def test_memory_that_is_freed():
    with context() as ctx:
        other = ggml.ggml_init(ggml.ggml_init_params())
        x = vector(other, [1, 2])
        graph = graph_of(ctx, ggml.ggml_sqr(ctx, x))
        compute(ctx, graph, times=BEFORE)
        ggml.ggml_free(other)
        with pytest.raises(RuntimeError, match="^ggml_graph_compute_with_ctx: "):
            compute(ctx, graph)


def test_a_buffer_that_is_freed(cpu):
    with context(no_alloc=True) as ctx:
        x = ggml.ggml_new_tensor_1d(ctx, F32, 4)
        y = ggml.ggml_sqr(ctx, x)
        buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu)
        graph = graph_of(ctx, y)
        ggml.ggml_set_f32(x, 3.0)
        for _ in range(BEFORE):
            ggml.ggml_backend_graph_compute(cpu, graph)
        assert ggml.utils.to_numpy(y).tolist() == [9] * 4
        ggml.ggml_backend_buffer_free(buffer)
        with pytest.raises(RuntimeError, match="^ggml_backend_graph_compute: "):
            ggml.ggml_backend_graph_compute(cpu, graph)


def test_a_context_that_is_reset_and_filled_again(ctx):
    for factor in range(1, 8):
        x = vector(ctx, [1, 2])
        result = ggml.ggml_scale(ctx, x, float(factor)) if factor % 2 else ggml.ggml_sqr(ctx, x)
        graph = graph_of(ctx, result)
        compute(ctx, graph, times=BEFORE)
        assert ggml.utils.to_numpy(result).tolist() == ([factor, 2 * factor] if factor % 2 else [1, 4])
        ggml.ggml_reset(ctx)
        with pytest.raises(RuntimeError, match="^ggml_graph_compute_with_ctx: "):
            compute(ctx, graph)


def test_threads_and_reference_kernels_change(ctx):
    rng = np.random.default_rng(0)
    a, b = (ggml.utils.from_numpy(rng.standard_normal((96, 64), dtype=np.float32), ctx) for _ in range(2))
    product = ggml.ggml_mul_mat(ctx, a, b)
    graph = graph_of(ctx, product)
    compute(ctx, graph)
    want = ggml.utils.to_numpy(product).copy()
    for n_threads in 1, 2, 3, 1, 2, 3, 1, 2, 3:
        ggml.utils.to_numpy(product)[:] = 0
        compute(ctx, graph, n_threads)
        assert np.array_equal(ggml.utils.to_numpy(product), want)
    plan = ggml.ggml_graph_plan(graph, 2)
    plan.use_ref = True
    ggml.ggml_graph_compute(graph, plan)
    reference = ggml.utils.to_numpy(product).copy()
    assert np.allclose(reference, want, atol=1e-4)
    compute(ctx, graph, 2)
    assert np.array_equal(ggml.utils.to_numpy(product), want)


def test_an_abort_callback_is_still_asked(sum_of_squares):
    _, graph, x, _, product, result = sum_of_squares
    asked = []
    callback = ggml.ggml_abort_callback(lambda _: bool(asked.append(1)) or len(asked) > 1)
    plan = ggml.ggml_graph_plan(graph, 1)
    plan.abort_callback = callback
    ggml.utils.to_numpy(x)[:] = 0
    assert ggml.ggml_graph_compute(graph, plan) == ggml.GGML_STATUS_ABORTED
    assert len(asked) == 2
    assert ggml.utils.to_numpy(product).tolist() == [0, 0, 0]
    assert ggml.utils.to_numpy(result).tolist() == [11, 24, 39]


def test_memory_of_the_caller_is_checked_every_time(ctx):
    values = np.arange(4, dtype=np.float32)
    x = ggml.ggml_new_tensor_1d(ctx, F32, 4)
    result = ggml.ggml_sqr(ctx, x)
    graph = graph_of(ctx, result)
    x.contents.data = values.ctypes.data
    for step in range(BEFORE + 2):
        values[:] = step
        compute(ctx, graph)
        assert ggml.utils.to_numpy(result).tolist() == [step * step] * 4
    x.contents.data = 1 << 20  # never mapped
    with pytest.raises(ValueError, match="no readable memory"):
        compute(ctx, graph)


def test_many_graphs(ctx):
    x = vector(ctx, [2, 3])
    results = [ggml.ggml_scale(ctx, x, float(i)) for i in range(600)]
    graphs = [graph_of(ctx, r) for r in results]
    for _ in range(BEFORE):
        for graph in graphs:
            compute(ctx, graph)
    for i, r in enumerate(results):
        assert ggml.utils.to_numpy(r).tolist() == [2 * i, 3 * i]


def test_one_graph_from_several_threads(ctx):
    """The second of two simultaneous computations does not use what the first one does."""
    rng = np.random.default_rng(1)
    a = ggml.utils.from_numpy(rng.standard_normal((128, 256), dtype=np.float32), ctx)
    product = ggml.ggml_mul_mat(ctx, a, a)
    graph = graph_of(ctx, product)
    compute(ctx, graph, times=BEFORE)
    want = ggml.utils.to_numpy(product).copy()
    ggml.utils.to_numpy(product)[:] = 0
    errors = []

    def work(n_threads):
        try:
            compute(ctx, graph, n_threads, times=50)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(1 + i % 2,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == [] and np.array_equal(ggml.utils.to_numpy(product), want)


def test_a_context_freed_while_its_graph_is_computed(ctx):
    """The abort callback frees the context of the graph: the computation ends in memory that is kept for it."""
    other = ggml.ggml_init(ggml.ggml_init_params())
    graph = graph_of(other, ggml.ggml_sqr(other, ggml.ggml_sqr(other, vector(other, [1, 2, 3]))))
    compute(ctx, graph, times=BEFORE)
    freed = []

    def free(_):
        if not freed:
            freed.append(ggml.ggml_free(other))
        return False

    plan = ggml.ggml_graph_plan(graph, 1)
    plan.abort_callback = ggml.ggml_abort_callback(free)
    assert ggml.ggml_graph_compute(graph, plan) == ggml.GGML_STATUS_SUCCESS
    assert freed == [None]
    with pytest.raises(RuntimeError, match="^ggml_graph_compute_with_ctx: "):
        compute(ctx, graph)
