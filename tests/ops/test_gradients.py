"""The backward pass as a whole: gradients of gradients, shared parameters, several losses, checkpoints, invalid input.

The gradients of single operations are tested by the table of operations (test_ops.py).
"""

import ctypes
import re

import numpy as np
import pytest
from cases.harness import ISAS, close, compute, context, difference, graph_of, isa, load, shape, store, tensor
from cases.norm import rms_norm
from cases.softmax import log_soft_max, soft_max
from cases.unary import gelu, gelu_erf, gelu_quick, sigmoid, silu, softplus

import ggml
from ggml._graph import grad as _grad

pytestmark = pytest.mark.core


def rand(*numpy_shape, seed=0, scale=1.0):
    x = np.random.default_rng(seed).standard_normal((1,) * (4 - len(numpy_shape)) + numpy_shape) * scale
    return x.astype(np.float32).astype(np.float64)


def parameter(ctx, values, type="F32", name=None):
    t = tensor(ctx, values, type)
    ggml.ggml_set_param(t)
    if name:
        ggml.ggml_set_name(t, name)
    return t


def weighted(ctx, t, w):
    """The loss sum(t * w)."""
    loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, t, tensor(ctx, w, "F32")))
    ggml.ggml_set_loss(loss)
    return loss


def backward(ctx, *losses, accs=None, size=4096):
    graph = ggml.ggml_new_graph_custom(ctx, size, True)
    for loss in losses:
        ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_backward_expand(ctx, graph, accs)
    return graph


def run(ctx, graph, threads=1):
    ggml.ggml_graph_reset(graph)
    compute(ctx, graph, threads)


def grad(graph, t):
    g = ggml.ggml_graph_get_grad(graph, t)
    assert g, "no gradient"
    return load(g)


def operations(graph):
    nodes = [ggml.ggml_graph_node(graph, i).contents for i in range(ggml.ggml_graph_n_nodes(graph))]
    return [ggml.ggml_op_name(n.op).decode() for n in nodes]


# ---- elements at the ends of the range -------------------------------------------------------------------------------
@pytest.mark.parametrize("call, values, want", [
    (lambda ctx, x: ggml.ggml_hardswish(ctx, x), [np.inf, -np.inf, 1e38, -3, 3], [1, 0, 1, -0.5, 1.5]),
    (lambda ctx, x: ggml.ggml_xielu(ctx, x, 1.0, 1.0, 0.5, -1e-6), [-np.inf, -1e38, 1e38],
     [-softplus(1.0), -softplus(1.0), 2e38 * softplus(1.0)]),
    (lambda ctx, x: ggml.ggml_leaky_relu(ctx, x, 1e8, False), [2, 1e-45, 0, -1], [1, 1, 1e8, 1e8]),
    (lambda ctx, x: ggml.ggml_l2_norm(ctx, x, 1e-40), [3, 4, 0, 0], [4 / 125, -3 / 125, 1 / 5, 1 / 5]),
    (lambda ctx, x: ggml.ggml_l2_norm(ctx, x, 1e-30), [0, 0, 0, 0], [1e30] * 4),
    (lambda ctx, x: ggml.ggml_l2_norm(ctx, x, 1e-40), [1e-42, 0, 0, 0], [np.inf] * 4),
    (lambda ctx, x: ggml.ggml_l2_norm(ctx, x, 1e-30), [3e-26, 4e-26, 0, 0], [3.2e24, -2.4e24, 2e25, 2e25]),
    (lambda ctx, x: ggml.ggml_l2_norm(ctx, x, 1.0), [1e-42, 0, 0, 0], [1] * 4),
])  # fmt: skip
def test_elements_at_the_ends_of_the_range(ctx, call, values, want):
    """No term of a gradient overflows where another one selects against it: 0 times infinity is NaN."""
    x = parameter(ctx, np.array(values, np.float32))
    graph = backward(ctx, weighted(ctx, call(ctx, x), np.ones(len(values))))
    run(ctx, graph)
    np.testing.assert_allclose(grad(graph, x).ravel(), want, rtol=1e-5)


# ---- gradients of gradients ------------------------------------------------------------------------------------------
SMOOTH = {
    "sqr": np.square,
    "sqrt": np.sqrt,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "expm1": np.expm1,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "silu": silu,
    "gelu": gelu,
    "gelu_erf": gelu_erf,
    "gelu_quick": gelu_quick,
    "soft_max": soft_max,
    "rms_norm": lambda x: rms_norm(x, 1e-3),
}


def slope(loss, x, h=1e-3):
    """The gradient of loss(x), by differences of fourth order with a step that suits a second difference."""
    return difference(lambda: loss(x), x, at=h)


def directional(loss, x, v, h=1e-2):
    """The gradient of sum(v * d loss / dx) by x, which is the Hessian times v."""
    total = 0.0
    for k, weight in ((1, 8.0), (-1, -8.0), (2, -1.0), (-2, 1.0)):
        total = total + weight * slope(loss, x + k * h * v)
    return total / (12 * h)


@pytest.mark.parametrize("fn", SMOOTH)
def test_gradient_of_the_gradient(ctx, fn):
    x, w, v = np.abs(rand(2, 5, seed=1)) + 0.3, rand(2, 5, seed=2), rand(2, 5, seed=3)
    if fn not in ("sqrt", "log"):
        x[..., ::2] *= -1
    a = parameter(ctx, x)
    numbers = (1e-3,) if fn == "rms_norm" else ()
    first = backward(ctx, weighted(ctx, getattr(ggml, "ggml_" + fn)(ctx, a, *numbers), w))
    second = backward(ctx, weighted(ctx, ggml.ggml_graph_get_grad(first, a), v))
    x = load(a)
    want = directional(lambda x: float((SMOOTH[fn](x) * w).sum()), x, v)
    for name in ISAS:
        with isa(name):
            ggml.ggml_graph_reset(first)
            run(ctx, second)
            close(grad(second, a), want, 3e-4, name)


def test_gradient_of_the_gradient_of_products(ctx):
    """Through mul_mat twice: the Hessian of sum(tanh(b a^T)^2 w) times a vector, for both operands."""
    xa, xb, w, v = rand(3, 4, seed=1), rand(5, 4, seed=2), rand(5, 3, seed=3), rand(3, 4, seed=4)
    a, b = parameter(ctx, xa), parameter(ctx, xb)
    first = backward(ctx, weighted(ctx, ggml.ggml_sqr(ctx, ggml.ggml_tanh(ctx, ggml.ggml_mul_mat(ctx, a, b))), w))
    second = backward(ctx, weighted(ctx, ggml.ggml_graph_get_grad(first, a), v))

    def gradient_along_v(xa, xb):
        y = np.tanh(xb @ xa.swapaxes(-1, -2))
        return float((((2 * y * (1 - y * y) * w).swapaxes(-1, -2) @ xb) * v).sum())

    by_a = difference(lambda: gradient_along_v(xa, xb), xa)
    by_b = difference(lambda: gradient_along_v(xa, xb), xb)
    for name in ISAS:
        with isa(name):
            ggml.ggml_graph_reset(first)
            run(ctx, second, 2)
            close(grad(second, a), by_a, 1e-4, name)
            close(grad(second, b), by_b, 1e-4, name)


@pytest.mark.parametrize("fn", ["silu", "gelu", "gelu_erf", "gelu_quick"])
def test_second_gradient_far_from_zero(ctx, fn):
    """The curvature of a gate far from 0 is 0, not inf - inf."""
    a = parameter(ctx, np.array([[-1e30, -300.0, -40.0, 40.0, 300.0, 1e30]]))
    first = backward(ctx, weighted(ctx, getattr(ggml, "ggml_" + fn)(ctx, a), np.ones((1, 6))))
    second = backward(ctx, weighted(ctx, ggml.ggml_graph_get_grad(first, a), np.ones((1, 6))))
    ggml.ggml_graph_reset(first)
    run(ctx, second)
    np.testing.assert_allclose(grad(second, a), 0, atol=1e-15)


def test_cross_entropy_by_labels_of_masked_logits(ctx):
    """The labels are the soft-max of a teacher whose same columns are masked. Their gradient is finite."""
    logits, teacher = rand(3, 6, seed=1), rand(3, 6, seed=2)
    logits[..., 2] = teacher[..., 2] = -np.inf
    t = parameter(ctx, teacher)
    loss = ggml.ggml_cross_entropy_loss(ctx, tensor(ctx, logits, "F32"), ggml.ggml_soft_max(ctx, t))
    ggml.ggml_set_loss(loss)
    graph = backward(ctx, loss)
    free = [0, 1, 3, 4, 5]
    x, y = logits[..., free], teacher[..., free].copy()
    want = np.zeros_like(teacher)
    want[..., free] = difference(lambda: float(-(soft_max(y) * log_soft_max(x)).sum() / 3), y)
    for name in ISAS:
        with isa(name):
            run(ctx, graph)
            close(grad(graph, t), want, 1e-5, name)


# ---- one parameter, several uses -------------------------------------------------------------------------------------
def test_parameter_shared_by_branches(ctx):
    """The gradients of all uses of a matrix are summed up: views, rows, the transposed and the plain matrix. They
    have various layouts.
    """
    x, w = rand(4, 4, seed=1), rand(4, 4, seed=2)
    a = parameter(ctx, x)
    nb1 = a.contents.nb[1]
    rows = ggml.ggml_get_rows(ctx, a, tensor(ctx, np.array([3, 0, 3, 1], np.int32), "I32"))
    half = ggml.ggml_view_2d(ctx, a, 2, 4, nb1, 4)
    products = ggml.ggml_mul_mat(ctx, half, half)
    out = ggml.ggml_add(ctx, ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, a)), ggml.ggml_mul(ctx, rows, a))
    out = ggml.ggml_add(ctx, out, ggml.ggml_add(ctx, products, ggml.ggml_transpose(ctx, ggml.ggml_sqr(ctx, a))))
    graph = backward(ctx, weighted(ctx, out, w))

    def f():
        h = x[..., 1:3]
        y = x.swapaxes(-1, -2) + x[..., [3, 0, 3, 1], :] * x + h @ h.swapaxes(-1, -2) + (x * x).swapaxes(-1, -2)
        return float((y * w).sum())

    for name in ISAS:
        with isa(name):
            run(ctx, graph, 2)
            close(grad(graph, a), difference(f, x), 1e-5, name)


def test_slopes_get_no_gradient_from_positive_infinity(ctx):
    x = tensor(ctx, np.array([np.inf, -2, 3, 1e38]), "F32")
    slopes = parameter(ctx, np.array([0.5]))
    graph = backward(ctx, weighted(ctx, ggml.ext.prelu(ctx, x, slopes), np.array([0, 3, 1, 1])))
    run(ctx, graph)
    np.testing.assert_array_equal(grad(graph, slopes).ravel(), [-6])


def test_parameters_and_gradients_in_several_contexts():
    with context() as weights, context() as ctx:
        x, y = rand(3, 4, seed=1), rand(2, 4, seed=2)
        a, b = parameter(weights, x), tensor(ctx, y, "F32")
        before = ggml.ggml_used_mem(weights)
        graph = backward(ctx, weighted(ctx, ggml.ggml_mul_mat(ctx, a, b), np.ones((2, 3))))
        assert ggml.ggml_used_mem(weights) == before
        run(ctx, graph)
        close(grad(graph, a), np.broadcast_to(y.sum(-2, keepdims=True), x.shape), 1e-6)


def test_several_losses(ctx):
    """The gradients of all losses add up, even if one loss depends on another. Computing again gives the same."""
    x = rand(5, seed=1)
    a = parameter(ctx, x)
    first = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, a))
    second = ggml.ggml_sqr(ctx, first)
    apart = ggml.ggml_sum(ctx, ggml.ggml_scale(ctx, a, 3.0))
    for loss in (first, second, apart):
        ggml.ggml_set_loss(loss)
    graph = backward(ctx, second, apart)
    ggml.ggml_graph_reset(graph)
    for _ in range(2):
        compute(ctx, graph)
        close(grad(graph, a), 2 * x + 4 * (x * x).sum() * x + 3, 1e-5)


@pytest.mark.parametrize("given", [True, False])
def test_accumulated_gradients(ctx, given):
    """With an accumulator each compute adds to the gradient, until the graph is reset."""
    x = rand(5, seed=1)
    a, b = parameter(ctx, x), parameter(ctx, 2 * x)
    loss = weighted(ctx, ggml.ggml_mul(ctx, a, b), np.ones(5))
    graph = ggml.ggml_new_graph_custom(ctx, 64, True)
    ggml.ggml_build_forward_expand(graph, loss)
    if given:
        n = ggml.ggml_graph_n_nodes(graph)
        accs = (ctypes.POINTER(ggml.ggml_tensor) * n)()
        at = next(i for i in range(n) if ggml.ggml_graph_node(graph, i) == a)
        accs[at] = mine = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 5)
        ggml.ggml_build_backward_expand(ctx, graph, accs)
        assert ggml.ggml_graph_get_grad_acc(graph, a) == mine and not ggml.ggml_graph_get_grad_acc(graph, b)
    else:
        ggml.ggml_build_backward_expand(ctx, ctx, graph, True)
    for _ in range(2):
        ggml.ggml_graph_reset(graph)
        for k in (1, 2, 3):
            compute(ctx, graph, 2)
            close(load(ggml.ggml_graph_get_grad_acc(graph, a)), 2 * k * x, 1e-6)
            close(grad(graph, b), x * (1 if given else k), 1e-6)


@pytest.mark.parametrize("how", ["buffer", "allocator"])
def test_gradient_of_the_loss_is_1_where_allocators_place_it(how):
    cpu = ggml.ggml_backend_cpu_init()
    with context(no_alloc=True) as ctx:
        a = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)
        ggml.ggml_set_param(a)
        ggml.ggml_set_output(a)
        loss = ggml.ggml_sum(ctx, ggml.ggml_scale(ctx, ggml.ggml_silu(ctx, ggml.ggml_sqr(ctx, a)), 3))
        ggml.ggml_set_loss(loss)
        graph = backward(ctx, loss)
        if how == "buffer":
            memory, free = ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu), ggml.ggml_backend_buffer_free
        else:
            memory, free = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type()), ggml.ggml_gallocr_free
            assert ggml.ggml_gallocr_alloc_graph(memory, graph)
        store(a, np.ones(4))
        for _ in range(3):
            assert ggml.ggml_backend_graph_compute(cpu, graph) == ggml.GGML_STATUS_SUCCESS
            close(grad(graph, a).ravel(), np.full(4, 6 * 0.9276705), 1e-6, how)
        free(memory)
    ggml.ggml_backend_free(cpu)


@pytest.mark.parametrize("type", ["F16", "BF16"])
def test_half_precision_weights(ctx, type):
    """The gradients of F16 and BF16 weights, and through them, are F32 and exact for the rounded values of the
    weights.
    """
    a, b = parameter(ctx, rand(6, 8, seed=1), type), parameter(ctx, rand(3, 8, seed=2))
    w = rand(3, 6, seed=3)
    graph = backward(ctx, weighted(ctx, ggml.ggml_mul_mat(ctx, a, b), w))
    for name in ISAS:
        with isa(name):
            run(ctx, graph)
            assert ggml.ggml_graph_get_grad(graph, a).contents.type == ggml.GGML_TYPE_F32
            close(grad(graph, a), w.swapaxes(-1, -2) @ load(b), 1e-5, name)
            close(grad(graph, b), w @ load(a), 1e-5, name)


@pytest.mark.parametrize("type", ["F16", "Q4_0", "Q8_0"])
def test_frozen_quantised_weights(ctx, type):
    """LoRA: the gradient passes through a frozen matrix to its input, but the matrix itself has none."""
    frozen = tensor(ctx, rand(6, 32, seed=1), type)
    known = ggml.ggml_cast(ctx, frozen, ggml.GGML_TYPE_F32)
    compute(ctx, graph_of(ctx, known))
    x, w = parameter(ctx, rand(3, 32, seed=2)), rand(3, 6, seed=3)
    graph = backward(ctx, weighted(ctx, ggml.ggml_mul_mat(ctx, frozen, x), w))
    assert operations(graph).count("OUT_PROD") + operations(graph).count("MUL_MAT") == 2
    for name in ISAS:
        with isa(name):
            run(ctx, graph)
            close(grad(graph, x), w @ load(known), 2e-5, name)
    assert not ggml.ggml_graph_get_grad(graph, frozen)


# ---- no more nodes than needed ---------------------------------------------------------------------------------------
def layer(ctx, h, w, b):
    return ggml.ggml_relu(ctx, ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, w, h), b))


def network(ctx, frozen, n=3, dim=4):
    """Layers of which the first `frozen` have no parameters. Returns the loss and (w, b) of each layer."""
    h, weights = tensor(ctx, rand(2, dim, seed=99), "F32"), []
    for i in range(n):
        w, b = tensor(ctx, rand(dim, dim, seed=i, scale=0.5), "F32"), tensor(ctx, rand(1, dim, seed=50 + i), "F32")
        if i >= frozen:
            ggml.ggml_set_param(w), ggml.ggml_set_param(b)
        weights.append((w, b))
        h = layer(ctx, h, w, b)
    loss = ggml.ggml_sum(ctx, h)
    ggml.ggml_set_loss(loss)
    return loss, weights


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_frozen_layers_cost_nothing(ctx, frozen):
    """A layer takes 3 nodes forward. A trained layer takes 2 parameters and 4 nodes backward, and 2 more to pass a
    gradient on.
    """
    loss, weights = network(ctx, frozen)
    graph = backward(ctx, loss)
    trained = 3 - frozen
    ops = operations(graph)
    assert ops.count("OUT_PROD") == 2 * trained - 1 and ops.count("REPEAT_BACK") == trained
    assert ops.count("TRANSPOSE") == trained - 1
    assert len(ops) == 3 * 3 + 1 + 2 * trained + 1 + 4 * trained + 2 * (trained - 1)
    run(ctx, graph)
    for i, (w, b) in enumerate(weights):
        assert bool(ggml.ggml_graph_get_grad(graph, w)) == (i >= frozen) == bool(ggml.ggml_graph_get_grad(graph, b))


# ---- checkpoints -----------------------------------------------------------------------------------------------------
def deep(ctx, layers, dim, rows, inplace=False):
    """Residual layers h + w2 gelu(w1 norm(h)). Returns the input, the loss, the weights and the results of the
    layers.
    """
    x = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, dim, rows)
    ggml.ggml_set_input(x)
    h, weights, results = x, [], []
    for _ in range(layers):
        w1, w2 = (ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, dim, dim) for _ in range(2))
        weights += [w1, w2]
        ggml.ggml_set_param(w1), ggml.ggml_set_param(w2)
        y = ggml.ggml_mul_mat(ctx, w1, ggml.ggml_rms_norm(ctx, h, 1e-5))
        y = ggml.ggml_scale_inplace(ctx, y, 0.5) if inplace else ggml.ggml_scale(ctx, y, 0.5)
        y = ggml.ggml_reshape_2d(ctx, ggml.ggml_gelu(ctx, y), dim, rows)
        h = ggml.ggml_add(ctx, h, ggml.ggml_mul_mat(ctx, w2, y))
        results.append(h)
    loss = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, h))
    ggml.ggml_set_loss(loss)
    ggml.ggml_set_output(loss)
    return x, loss, weights, results


def checkpointed(ctx, loss, checkpoints, size=4096):
    gf, gb, scratch = (ggml.ggml_new_graph_custom(ctx, size, True) for _ in range(3))
    ggml.ggml_build_forward_expand(gf, loss)
    array = (ctypes.POINTER(ggml.ggml_tensor) * max(1, len(checkpoints)))(*checkpoints)
    ggml.ggml_build_backward_gradient_checkpointing(ctx, gf, gb, scratch, array, len(checkpoints))
    return gb


def trained(layers, dim, rows, every, inplace=False):
    """The gradients of a deep network, and the bytes that an allocator takes for the graph besides the weights and
    their gradients.
    """
    with context(no_alloc=True) as ctx, context() as memory:
        x, loss, weights, results = deep(ctx, layers, dim, rows, inplace)
        store(place(memory, x), rand(rows, dim, seed=7))
        for i, w in enumerate(weights):
            store(place(memory, w), rand(dim, dim, seed=i, scale=0.2))
        gb = checkpointed(ctx, loss, results[every - 1 : -1 : every] if every else [])
        for t in weights:
            place(memory, ggml.ggml_graph_get_grad(gb, t))
        place(memory, ggml.ggml_graph_get_grad_acc(gb, loss))
        galloc = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())
        assert ggml.ggml_gallocr_alloc_graph(galloc, gb)
        size = ggml.ggml_gallocr_get_buffer_size(galloc, 0)
        ggml.ggml_graph_reset(gb)
        with context() as work:
            compute(work, gb, 2)
        gradients = [grad(gb, w) for w in weights]
        n = ggml.ggml_graph_n_nodes(gb)
        ggml.ggml_gallocr_free(galloc)
        return gradients, size, n


def place(ctx, t):
    """Gives a tensor memory from another context."""
    t.contents.data = ggml.ggml_new_tensor_4d(ctx, t.contents.type, *shape(t)).contents.data
    return t


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("every", [1, 2, 5])
def test_checkpoints_change_no_gradient(every, inplace):
    plain, _, n = trained(6, 8, 3, 0, False)
    again, _, more = trained(6, 8, 3, every, inplace)
    assert more > n
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_checkpoints_save_memory():
    """36 layers with a checkpoint every 6: less than a third of the memory, for at most one more forward pass."""
    plain, size, n = trained(36, 16, 64, 0)
    again, less, more = trained(36, 16, 64, 6)
    assert less < size / 3, f"{less} of {size} bytes"
    assert more - n <= 36 * 7
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_bad_checkpoints(ctx):
    loss, _ = network(ctx, 0)
    graphs = [ggml.ggml_new_graph_custom(ctx, 256, True) for _ in range(3)]
    ggml.ggml_build_forward_expand(graphs[0], loss)
    stranger = tensor(ctx, rand(3), "F32")
    ggml.ggml_set_name(stranger, b"stranger")
    array = (ctypes.POINTER(ggml.ggml_tensor) * 1)(stranger)
    build = ggml.ggml_build_backward_gradient_checkpointing
    with pytest.raises(
        ValueError,
        match="^ggml_build_backward_gradient_checkpointing: checkpoint 'stranger' .* is not a tensor of the graph",
    ):
        build(ctx, *graphs, array, 1)
    with pytest.raises(ValueError, match="must be three graphs"):
        build(ctx, graphs[0], graphs[0], graphs[1], array, 0)
    with pytest.raises(ValueError, match="checkpoints has 8 bytes: need 16"):
        build(ctx, *graphs, array, 2)
    with pytest.raises(ValueError, match="gb was made without room for gradients"):
        build(ctx, graphs[0], ggml.ggml_new_graph(ctx), graphs[2], array, 0)


# ---- bad input: the message names the tensor -------------------------------------------------------------------------
def named(t, name):
    ggml.ggml_set_name(t, name)
    return t


def refuses(ctx, loss, message):
    graph = ggml.ggml_new_graph_custom(ctx, 256, True)
    ggml.ggml_build_forward_expand(graph, loss)
    with pytest.raises(ValueError, match=f"^ggml_build_backward_expand: {message}"):
        ggml.ggml_build_backward_expand(ctx, graph, None)


def test_no_loss(ctx):
    refuses(ctx, named(ggml.ggml_sum(ctx, parameter(ctx, rand(3))), "energy"), "no node is a loss: .*'energy'")


def test_loss_that_is_not_a_scalar(ctx):
    a = parameter(ctx, rand(3))
    with pytest.raises(ValueError, match=r"^ggml_set_loss: tensor 'many' \(f32 .*\) has 3 elements: need one element"):
        ggml.ggml_set_loss(named(ggml.ggml_sqr(ctx, a), "many"))
    loss = named(ggml.ggml_sqr(ctx, a), "many")
    loss.contents.flags |= 8
    refuses(ctx, loss, "the loss 'many' .* is not a scalar")


def test_no_parameter_reached(ctx):
    loss = named(ggml.ggml_sum(ctx, tensor(ctx, rand(3), "F32")), "energy")
    ggml.ggml_set_loss(loss)
    refuses(ctx, loss, "no parameter is reached from the loss 'energy'")


def test_parameter_that_does_not_reach_the_loss(ctx):
    """A parameter of the graph that does not reach the loss, and one that reaches it only through integers."""
    loss = named(ggml.ggml_sum(ctx, tensor(ctx, rand(3), "F32")), "energy")
    ggml.ggml_set_loss(loss)
    graph = ggml.ggml_new_graph_custom(ctx, 256, True)
    ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_sqr(ctx, parameter(ctx, rand(3))))
    with pytest.raises(ValueError, match="no parameter is reached from the loss 'energy'"):
        ggml.ggml_build_backward_expand(ctx, graph, None)
    best = ggml.ggml_argmax(ctx, parameter(ctx, rand(3, 4)))
    rows = ggml.ggml_get_rows(ctx, tensor(ctx, rand(4, 2), "F32"), best)
    loss = named(ggml.ggml_sum(ctx, rows), "choice")
    ggml.ggml_set_loss(loss)
    refuses(ctx, loss, "no parameter is reached from the loss 'choice'")


def test_integer_parameter(ctx):
    a = named(tensor(ctx, np.arange(3, dtype=np.int32), "I32"), "index")
    ggml.ggml_set_param(a)
    loss = ggml.ggml_sum(ctx, ggml.ggml_get_rows(ctx, parameter(ctx, rand(4, 2)), a))
    ggml.ggml_set_loss(loss)
    refuses(ctx, loss, "parameter 'index' .*only floating-point tensors have gradients")


@pytest.mark.parametrize(
    "spoil",
    ["scale_inplace", "sqr_inplace", "silu_inplace", "soft_max_inplace", "diag_mask_zero_inplace", "relu_inplace"],
)
def test_value_that_an_in_place_node_overwrites(ctx, spoil):
    """The gradient of x y needs the value of y, which a later in-place node overwrites. The message names both
    nodes.
    """
    a = parameter(ctx, rand(3, 3))
    y = named(ggml.ggml_exp(ctx, a), "kept")
    product = ggml.ggml_mul(ctx, ggml.ggml_sin(ctx, a), y)
    number = {"scale_inplace": (2.0,), "diag_mask_zero_inplace": (0,)}.get(spoil, ())
    late = named(getattr(ggml, "ggml_" + spoil)(ctx, y, *number), "late")
    loss = ggml.ggml_sum(ctx, ggml.ggml_add(ctx, product, late))
    ggml.ggml_set_loss(loss)
    refuses(ctx, loss, ".*needs 'kept' .*which the in-place node 'late' .* overwrites")


def test_in_place_node_whose_gradient_needs_its_argument(ctx):
    a = parameter(ctx, rand(3))
    x = named(ggml.ggml_sin(ctx, a), "before")
    loss = ggml.ggml_sum(ctx, ggml.ggml_sqr_inplace(ctx, x))
    ggml.ggml_set_loss(loss)
    refuses(ctx, loss, ".*needs 'before'")


def test_in_place_node_whose_gradient_needs_its_result(ctx):
    """The gradients of relu, tanh and exp take their results, so these functions may work in place."""
    x = rand(5, seed=1)
    a = parameter(ctx, x)
    y = ggml.ggml_exp_inplace(ctx, ggml.ggml_tanh_inplace(ctx, ggml.ggml_scale(ctx, a, 2.0)))
    refuses(ctx, loss_of(ctx, y), ".*'.*' .*overwrites")  # the gradient needs the result of tanh, which exp overwrites
    y = ggml.ggml_tanh_inplace(ctx, ggml.ggml_scale(ctx, a, 2.0))
    graph = backward(ctx, loss_of(ctx, y))
    run(ctx, graph)
    close(grad(graph, a), 2 * (1 - np.tanh(2 * x) ** 2), 1e-5)


def loss_of(ctx, t):
    loss = ggml.ggml_sum(ctx, t)
    ggml.ggml_set_loss(loss)
    return loss


def test_gradient_that_does_not_exist(ctx):
    q = parameter(ctx, rand(4, 8))
    out = named(
        ggml.ggml_flash_attn_back(ctx, q, q, tensor(ctx, rand(8, 4), "F32"), tensor(ctx, rand(4, 8), "F32"), True),
        "twice",
    )
    refuses(ctx, loss_of(ctx, out), "'twice' .* has no gradient, and parameters reach the loss through it")


@pytest.mark.parametrize("pad", ["ggml_pad_ext", "ggml_pad_ext_circular"])
def test_padding_of_an_operand_without_elements(ctx, pad):
    """The gradient has no elements either, also where the padding comes before the operand."""
    x = parameter(ctx, np.zeros((1, 1, 0, 3)))
    padded = getattr(ggml, pad)(ctx, x, 2, 1, *((1, 1) if pad == "ggml_pad_ext" else (0, 0)), 0, 0, 0, 0)
    graph = backward(ctx, loss_of(ctx, padded))
    run(ctx, graph)
    assert grad(graph, x).shape == (1, 1, 0, 3)


# ---- what has a gradient ---------------------------------------------------------------------------------------------
NO_DERIVATIVE = {"NONE", "ARGMAX", "COUNT_EQUAL", "ARANGE", "ARGSORT", "TOP_K", "OPT_STEP_ADAMW", "OPT_STEP_SGD"}
ONCE_ONLY = {"FLASH_ATTN_BACK", "POOL_2D_BACK"}


def test_every_operation_has_a_gradient():
    """All public operations have one, except those whose results are integers, constants or parameters. Two
    gradients have no gradient of their own.
    """
    lacking = {ggml.ggml_op_name(op).decode() for op in range(ggml.GGML_OP_COUNT) if not _grad.has_gradient(op)}
    assert lacking == NO_DERIVATIVE | ONCE_ONLY


@pytest.mark.parametrize("largest", [1, np.inf])
def test_rows_written_over_get_no_gradient(ctx, largest):
    """Where an index of SET_ROWS repeats, only the last row reaches the result, whatever its gradient is."""
    rng = np.random.default_rng(0)
    index = np.array([[[0, 3, 3, 5, 3], [1, 1, 1, 2, 4]]])  # [1, c1 = 2, n = 5]
    x, rows, weights = (rng.standard_normal((3, 4, n, 2)) for n in (6, 5, 6))
    weights[:, :, 3, 1] *= largest
    x, rows, weights = (tensor(ctx, values, "F32") for values in (x, rows, weights))
    ggml.ggml_set_param(rows)
    out = ggml.ggml_set_rows(ctx, x, rows, tensor(ctx, index, "I32"))
    loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, out, weights))
    ggml.ggml_set_loss(loss)
    graph = graph_of(ctx, loss, grads=True)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    ggml.ggml_graph_reset(graph)
    compute(ctx, graph)
    want = np.zeros((3, 4, 5, 2))
    for j in range(4):
        last = {place: i for i, place in enumerate(index[0, j % 2])}
        for place, i in last.items():
            want[:, j, i] = load(weights)[:, j, place]
    np.testing.assert_array_equal(load(ggml.ggml_graph_get_grad(graph, rows)), want)


def written_over(ctx, build, parameters, message):
    """Gradients of a node are refused while its parameters are others, and built once it has its own again."""
    x = tensor(ctx, np.ones((1, 4, 3, 2)), "F32")
    ggml.ggml_set_param(x)
    t = build(x)
    loss = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, t))
    ggml.ggml_set_loss(loss)
    graph, own = graph_of(ctx, loss, grads=True), t.contents.op_params[:]
    for values in parameters:
        t.contents.op_params[: len(values)] = values
        text = re.escape(message.format(*values))
        with pytest.raises(ValueError, match=f"^ggml_build_backward_expand: .*written over: {text}"):
            ggml.ggml_build_backward_expand(ctx, graph, None)
    t.contents.op_params[:] = own
    ggml.ggml_build_backward_expand(ctx, graph, None)


def test_number_of_groups_that_was_written_over_is_refused(ctx):
    """The gradient of GROUP_NORM divides by it."""
    groups = [[0], [-1], [-(2**31)]]
    written_over(ctx, lambda x: ggml.ggml_group_norm(ctx, x, 2, 1e-5), groups, "n_groups is {}")


def test_axes_that_were_written_over_are_refused(ctx):
    """The gradient of PERMUTE inverts them."""
    axes = [[0, 1, 2, 4], [0, 1, 2, 2], [-1, 1, 2, 3], [2**31 - 1, -(2**31), 0, 1]]
    written_over(ctx, lambda x: ggml.ggml_permute(ctx, x, 2, 0, 1, 3), axes, "axes are {}, {}, {}, {}")


def test_a_pooling_of_images_that_is_told_to_leave_out_the_padding_is_refused(ctx):
    """Only the windows of POOL_1D, of height 1, count their elements."""
    pooling = [ggml.GGML_OP_POOL_AVG, 2, 2, 1, 1, 0, 0]
    message = "averages leave out the padding: need windows of height 1, not {2}"
    written_over(ctx, lambda x: ggml.ggml_pool_2d(ctx, x, *pooling), [[*pooling, 1]], message)


@pytest.mark.parametrize("n", [1 << 24, (1 << 24) + 1])
@pytest.mark.parametrize("op", ["pad_reflect_1d", "set_rows"])
def test_indices_that_floats_do_not_hold_are_refused(op, n):
    with context(no_alloc=True) as ctx:
        x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, n)
        ggml.ggml_set_param(x)
        if op == "pad_reflect_1d":
            y = ggml.ggml_pad_reflect_1d(ctx, x, 1, 1)
        else:
            index = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, n - 1)
            rows = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 1, n)
            y = ggml.ggml_set_rows(ctx, rows, ggml.ggml_view_2d(ctx, x, 1, n - 1, 4, 0), index)
        loss = ggml.ggml_sum(ctx, y)
        ggml.ggml_set_loss(loss)
        if n == 1 << 24:
            backward(ctx, loss)
            return
        with pytest.raises(ValueError, match=r"^ggml_build_backward_expand: a gradient needs indices up to 16777217, "):
            backward(ctx, loss)


# ---- the gradient of the loss without a reset ------------------------------------------------------------------------
@pytest.mark.parametrize("accumulate", [False, True])
def test_gradients_need_no_reset(accumulate):
    with context() as ctx:
        x = parameter(ctx, np.array([1.0, 2.0, 3.0]).reshape(1, 1, 1, 3))
        loss = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, x))
        ggml.ggml_set_loss(loss)
        graph = ggml.ggml_new_graph_custom(ctx, 64, True)
        ggml.ggml_build_forward_expand(graph, loss)
        ggml.ggml_build_backward_expand(*((ctx, ctx, graph, True) if accumulate else (ctx, graph, None)))
        for times in (1, 2 if accumulate else 1):
            compute(ctx, graph, 1)
            assert grad(graph, x).ravel().tolist() == [2 * times, 4 * times, 6 * times]
        run(ctx, graph)
        assert grad(graph, x).ravel().tolist() == [2, 4, 6]
