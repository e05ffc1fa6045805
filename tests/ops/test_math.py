"""The accuracy of the mathematical functions on every ISA: at most 4 units in the last place for a sample of
all floats, one rounding for all values of the 16-bit types, and norms of tiny and huge rows.
"""

import numpy as np
import pytest
from cases import unary as e
from cases.harness import ISAS, compute, elements, from_bf16, graph_of, isa

import ggml
import ggml.utils

REFERENCES = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": e.sigmoid,
    "softplus": e.softplus,
    "elu": e.elu,
    "silu": e.silu,
    "gelu": e.gelu,
    "gelu_quick": e.gelu_quick,
    "gelu_erf": e.gelu_erf,
}


def hardsigmoid(x):
    """In single precision, with a division."""
    return np.clip((x.astype(np.float32) + np.float32(3)) / np.float32(6), 0, 1)


EXACT = {
    "abs": np.abs,
    "neg": np.negative,
    "sgn": np.sign,
    "step": lambda x: np.where(np.isnan(x), x, x > 0),  # every function keeps NaN
    "relu": lambda x: np.maximum(x, 0),
    "sqr": np.square,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "hardsigmoid": hardsigmoid,
    "hardswish": lambda x: np.maximum(x, -4).astype(np.float32) * hardsigmoid(x),
    "round": lambda x: np.trunc(x + np.copysign(np.where(np.abs(x) < 2.0**52, 0.5, 0), x)),
}


def all_floats(step):
    """Every `step`-th float of either sign, dense samples around the zeros and extrema of functions, and limits."""
    bits = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = np.concatenate([np.linspace(-s, s, 20011) for s in (1e-3, 1, 10, 110)]).astype(np.float32)
    turns = (
        (np.arange(-400, 400)[:, None] * np.float32(np.pi / 4) + np.linspace(-1e-5, 1e-5, 9)).astype(np.float32).ravel()
    )
    tiny = np.float32(2.0**-149)
    edges = [
        0,
        tiny,
        3 * tiny,
        1e-40,
        2.0**-126,
        2.0**-24,
        0.5,
        1,
        1.5,
        2.5,
        2.0**23,
        2.0**24,
        88.72283,
        103.97208,
        3.4028235e38,
        np.inf,
    ]
    edges = np.array(edges, np.float32)
    return np.concatenate([bits, near, turns, edges, -edges, [np.float32(np.nan)]]).astype(np.float32)


SAMPLE = all_floats(20021)


@pytest.fixture(scope="module")
def results():
    """name -> ISA -> the results for SAMPLE, computed once for all functions."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False))
    a = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, SAMPLE.size)
    elements(a)[0, 0, 0] = SAMPLE
    tensors = {name: getattr(ggml, "ggml_" + name)(ctx, a) for name in [*REFERENCES, *EXACT]}
    graph, found = graph_of(ctx, *tensors.values()), {name: {} for name in tensors}
    for name in ISAS:
        with isa(name):
            compute(ctx, graph, 2)
            for function, t in tensors.items():
                found[function][name] = elements(t)[0, 0, 0].copy()
    ggml.ggml_free(ctx)
    return found


def ulps(got, want):
    """The distance in units in the last place of the nearest float; 0 if both are the same infinity or NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = want.astype(np.float32)
        unit = np.spacing(np.minimum(np.abs(rounded), np.float32(3.4028235e38))).astype(np.float64)
        distance = np.abs(got.astype(np.float64) - want) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(want))
    overflow = np.isinf(rounded) & (np.abs(got) >= 3.4028e38) & (np.sign(got) == np.sign(want)) & np.isfinite(want)
    return np.where(same | overflow, 0, np.nan_to_num(distance, nan=np.inf))


@pytest.mark.parametrize("name", REFERENCES)
def test_four_ulp(name, results):
    with np.errstate(all="ignore"):
        want = REFERENCES[name](SAMPLE.astype(np.float64))
    for chosen, got in results[name].items():
        far = ulps(got, want)
        worst = np.argmax(far)
        assert far[worst] <= 4, (
            f"{name} on {chosen}: {far[worst]:.3g} ulp at {SAMPLE[worst]!r}: {got[worst]!r}, expected {want[worst]!r}; "
            f"{np.sum(far > 4)} of {far.size} are further than 4"
        )


@pytest.mark.parametrize("name", EXACT)
def test_exact(name, results):
    with np.errstate(all="ignore"):
        want = EXACT[name](SAMPLE.astype(np.float64)).astype(np.float32)
    for chosen, got in results[name].items():
        np.testing.assert_array_equal(got, want, f"{name} on {chosen}")


@pytest.mark.parametrize("name", ["sin", "tanh", "expm1", "sqrt", "gelu", "gelu_erf", "gelu_quick", "silu", "elu"])
def test_sign_of_zero(name, results):
    zeros = SAMPLE == 0
    for got in results[name].values():
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(SAMPLE[zeros]))


def test_powers(ctx):
    """Within 1 ulp for bases and exponents of all sizes; whole powers of whole numbers that are floats are exact."""
    dice, n = np.random.default_rng(5), 40001
    near, huge = dice.uniform(-1, 1, n) * 2.0 ** -dice.uniform(1, 23, n), 2.0 ** dice.uniform(0, 27, n)
    whole, exponents = (v.ravel() for v in np.meshgrid(np.arange(-40, 41), np.arange(-3, 16)))
    pairs = (
        (dice.uniform(0.01, 10, n), dice.uniform(-4, 4, n)),
        (2.0 ** dice.uniform(-149, 127, n), dice.uniform(-1.5, 1.5, n)),
        (1 + near, dice.uniform(-1, 1, n) * huge),
        (dice.uniform(0.5, 2, n), dice.uniform(-150, 150, n)),
        (-dice.uniform(0.5, 2, n), np.round(dice.uniform(-150, 150, n))),
        (whole, exponents),
    )
    x, y = (np.concatenate(v).astype(np.float32) for v in zip(*pairs))
    with np.errstate(all="ignore"):
        want = x.astype(np.float64) ** y.astype(np.float64)
    exact = (want == np.round(want)) & (np.abs(want) < 2**24) & (x == np.round(x)) & (y == np.round(y))
    assert exact.sum() > 500
    out = ggml.ext.pow(ctx, *(ggml.utils.from_numpy(v, ctx) for v in (x, y)))
    graph = graph_of(ctx, out)
    for chosen in ISAS:
        with isa(chosen):
            compute(ctx, graph, 2)
        got = elements(out)[0, 0, 0]
        far = ulps(got, want)
        worst = np.argmax(far)
        assert far[worst] <= 1, f"{chosen}: {x[worst]!r}^{y[worst]!r} is {got[worst]!r}, expected {want[worst]!r}"
        np.testing.assert_array_equal(got[exact], want[exact], chosen)


@pytest.mark.parametrize("scale", [0.1, 0.0038751268, 1.0000001, 3e-30, 2e20, -0.7, 1e-39, np.inf])
@pytest.mark.parametrize("low, high", [(0, 255), (-128, 127), (-32768, 32767)])
def test_quotients_are_rounded_as_divisions(scale, low, high, ctx):
    """ggml.ext.quantize_linear with one scale may multiply, but its results are those of a division."""
    dice = np.random.default_rng(3)
    scale = np.float32(scale)
    with np.errstate(all="ignore"):
        halves = (np.arange(-300, 300, dtype=np.float32) + np.float32(0.5)) * scale
        steps = np.arange(-4, 5)[:, None] * np.spacing(np.where(np.isfinite(halves), halves, 1))
        others = dice.uniform(-300, 300, 4001).astype(np.float32) * scale
        edges = np.array([0, -0.0, np.inf, -np.inf, 1e-44, 1e38, -1e38], np.float32)
        x = np.concatenate([(halves + steps).astype(np.float32).ravel(), others, edges, others * np.float32(1e6)])
        for zero in (np.float32(3), None):
            z = np.float32(zero or 0)
            want = z + np.clip(np.round(x / scale), np.float32(low) - z, np.float32(high) - z)
            operands = [v if v is None else ggml.utils.from_numpy(np.atleast_1d(v), ctx) for v in (x, scale, zero)]
            out = ggml.ext.quantize_linear(ctx, *operands, low, high)
            graph = graph_of(ctx, out)
            for chosen in ISAS:
                with isa(chosen):
                    compute(ctx, graph)
                np.testing.assert_array_equal(elements(out)[0, 0, 0], want, f"{scale} on {chosen}")


def halves(bits, type):
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        return (bits.view(np.float16) if type == "F16" else from_bf16(bits)).astype(np.float64)


@pytest.mark.parametrize("type", ["F16", "BF16"])
@pytest.mark.parametrize("name", REFERENCES)
def test_every_half(name, type, ctx):
    """All 65,536 values of the 16-bit types, computed in F32 and rounded once."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = halves(bits, type)
    a = ggml.ggml_new_tensor_1d(ctx, getattr(ggml, "GGML_TYPE_" + type), bits.size)
    elements(a)[0, 0, 0] = bits.view(elements(a).dtype)
    out = getattr(ggml, "ggml_" + name)(ctx, a)
    graph = graph_of(ctx, out)
    with np.errstate(all="ignore"):
        want = REFERENCES[name](x)
    unit, least, most = (2.0**-10, 2.0**-24, 65504.0) if type == "F16" else (2.0**-7, 2.0**-133, 3.3895314e38)
    for chosen in ISAS:
        with isa(chosen):
            compute(ctx, graph)
        got = halves(elements(out)[0, 0, 0].copy().view(np.uint16), type)
        beyond = np.abs(want) > most * (1 + unit / 4)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want), f"{name} on {chosen}")
        fine = ~np.isnan(want) & ~beyond
        allowed = np.maximum(0.51 * unit * np.abs(want[fine]), 0.51 * least)
        with np.errstate(invalid="ignore"):
            wrong = ~((np.abs(got[fine] - want[fine]) <= allowed) | (np.abs(want[fine]) > most))
        assert not wrong.any(), (
            f"{name} on {chosen}: f({x[fine][wrong][0]!r}) = {got[fine][wrong][0]!r}, expected {want[fine][wrong][0]!r}"
        )
        np.testing.assert_array_equal(np.abs(got[beyond]) >= most, True, f"{name} on {chosen}")


@pytest.mark.parametrize("size", [1e-38, 1e-25, 1e-12, 1e12, 3e19, 1e37])
@pytest.mark.parametrize("n", [7, 515])
def test_norms_of_tiny_and_huge_rows(size, n, ctx):
    """The squares of their elements overflow or underflow."""
    x = (np.random.default_rng(n).standard_normal((3, n)) * size).astype(np.float32)
    a = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, n, 3)
    elements(a)[0, 0] = x
    x = x.astype(np.float64)
    eps = 1e-30 if size > 1e-10 else 0
    near = x - x.mean(-1, keepdims=True)
    wants = {
        ggml.ggml_rms_norm(ctx, a, eps): x / np.sqrt(np.mean(x**2, -1, keepdims=True) + eps),
        ggml.ggml_norm(ctx, a, eps): near / np.sqrt(np.mean(near**2, -1, keepdims=True) + eps),
        ggml.ggml_l2_norm(ctx, a, eps): x / np.maximum(np.sqrt(np.sum(x**2, -1, keepdims=True)), eps),
    }
    graph = graph_of(ctx, *wants)
    for chosen in ISAS:
        with isa(chosen):
            compute(ctx, graph, 2)
        for out, want in wants.items():
            name = ggml.ggml_op_name(out.contents.op).decode()
            np.testing.assert_allclose(elements(out)[0, 0], want, rtol=2e-5, atol=2e-6, err_msg=f"{name} on {chosen}")


def rows_of(n):
    """Rows of equal, alternating, random and almost equal values and with one outlier, of all magnitudes."""
    rng = np.random.default_rng(n)
    for size in (1e-45, 1e-42, 1e-38, 1e-30, 1e-20, 1e-10, 1, 1e10, 1e19, 3e36, 3e38):
        yield np.full(n, size)
        yield np.where(np.arange(n) % 2, size, -size)
        yield np.clip(rng.standard_normal(n) * size, -3.4e38, 3.4e38)
        yield size * (1 - 1e-5 * rng.random(n))
        yield np.where(np.arange(n) == n // 3, size, 1e-5 * size * rng.standard_normal(n))


@pytest.mark.core
@pytest.mark.parametrize("n", [1, 7, 64, 1500])
@pytest.mark.parametrize("eps", [0, 1e-40, 1e-12, 1e-5, 1, 1e30])
def test_norms_of_any_magnitude(n, eps, ctx):
    """As float64 gives them, whose range holds all squares. A constant row has a norm of 0 whatever eps is."""
    x = np.stack(list(rows_of(n))).astype(np.float32)
    a, channels = (ggml.ggml_new_tensor(ctx, ggml.GGML_TYPE_F32, 4, shape) for shape in
                   ((n, len(x), 1, 1), (1, 1, n, len(x))))  # fmt: skip
    elements(a)[0, 0], elements(channels)[:, :, 0, 0] = x, x
    x, eps = x.astype(np.float64), float(np.float32(eps))
    outs = ggml.ggml_norm, ggml.ggml_rms_norm, ggml.ggml_l2_norm
    outs = [*(out(ctx, a, eps) for out in outs), ggml.ggml_group_norm(ctx, channels, 1, eps)]
    near = x - x.mean(-1, keepdims=True)
    near[(x == x[:, :1]).all(-1)] = 0
    centred = divided(near, np.sqrt(np.mean(near**2, -1, keepdims=True) + eps))
    wants = (
        centred,
        divided(x, np.sqrt(np.mean(x**2, -1, keepdims=True) + eps)),
        divided(x, np.maximum(np.sqrt(np.sum(x**2, -1, keepdims=True)), eps)),
        centred,
    )
    graph = graph_of(ctx, *outs)
    for chosen in ISAS:
        with isa(chosen):
            compute(ctx, graph, 2)
        for out, want in zip(outs, wants):
            got = elements(out).reshape(want.shape)
            allowed = 2e-5 * np.abs(want).max(-1, keepdims=True) + 2.0**-148
            wrong = ~(np.abs(got - want) <= allowed)
            assert not wrong.any(), f"{ggml.ggml_op_desc(out)} on {chosen}: rows {np.unique(np.nonzero(wrong)[0])}"


def divided(x, y):
    return np.divide(x, y, out=np.zeros_like(x), where=y > 0)


def gradient_of_rms_norm(x, dy, eps):
    root = np.sqrt(np.mean(x**2, -1, keepdims=True) + eps)
    unit = divided(x, root)
    return divided(dy - unit * np.mean(dy * unit, -1, keepdims=True), root), root


def gradient_of_norm(x, dy, eps):
    near = x - x.mean(-1, keepdims=True)
    near[(x == x[:, :1]).all(-1)] = 0
    dy = dy - dy.mean(-1, keepdims=True)
    return gradient_of_rms_norm(near, dy, eps)


@pytest.mark.core
@pytest.mark.parametrize("n", [1, 7, 64, 1500])
@pytest.mark.parametrize("eps", [0, 1e-12, 1e-5, 1])
@pytest.mark.parametrize("norm, reference", [(ggml.ggml_rms_norm, gradient_of_rms_norm),
                                             (ggml.ggml_norm, gradient_of_norm)])  # fmt: skip
def test_gradients_of_norms_of_any_magnitude(norm, reference, n, eps, ctx):
    """Incoming gradients and arguments of all magnitudes, against float64."""
    x = np.stack(list(rows_of(n))).astype(np.float32)
    dy = (np.random.default_rng(n + 1).standard_normal(x.shape)).astype(np.float32)
    sizes = (1e-42, 1e-30, 1e-12, 1, 1e12, 1e30, 5e37)
    a, b = (ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, n, len(x) * len(sizes)) for _ in range(2))
    elements(a)[0, 0], elements(b)[0, 0] = np.tile(x, (7, 1)), np.concatenate([dy * np.float32(s) for s in sizes])
    ggml.ggml_set_param(a)
    loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, norm(ctx, a, eps), b))
    ggml.ggml_set_loss(loss)
    graph = graph_of(ctx, loss, grads=True)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    x, dy = elements(a)[0, 0].astype(np.float64), elements(b)[0, 0].astype(np.float64)
    want, root = reference(x, dy, float(np.float32(eps)))
    # an error of the values relative to the largest; almost equal values lose digits in their differences
    close_by = np.abs(x).max(-1, keepdims=True) * 1e-7 / np.where(root > 0, root, 1) if norm is ggml.ggml_norm else 0
    allowed = (4e-6 + 4 * close_by) * divided(np.abs(dy).max(-1, keepdims=True), root) + 2.0**-148
    for chosen in ISAS:
        with isa(chosen):
            ggml.ggml_graph_reset(graph)
            compute(ctx, graph, 2)
        got = elements(ggml.ggml_graph_get_grad(graph, a))[0, 0].astype(np.float64)
        with np.errstate(invalid="ignore"):
            right = (np.abs(got - want) <= allowed) | ((np.abs(want) + allowed > 3.4e38) & ~np.isnan(got))
        at = np.nonzero(~right.all(-1))[0]
        assert not at.size, f"{chosen}: row {at[0]}: {got[at[0]][:3]}, expected {want[at[0]][:3]}"


@pytest.mark.parametrize("isa_name", ISAS)
def test_elements_do_not_depend_on_their_neighbours(isa_name, ctx):
    """Functions and gates have one value for an element, whatever else lies in its vector."""
    x = np.linspace(-9, 9, 1000, dtype=np.float32)
    functions = {
        f"unary {i}": lambda t, i=i: ggml.ggml_unary(ctx, t, i)
        for i in range(ggml.GGML_UNARY_OP_COUNT)
        if i != ggml.GGML_UNARY_OP_XIELU
    }
    for name in "log", "sqrt", "sin", "cos":
        functions[name] = lambda t, name=name: getattr(ggml, "ggml_" + name)(ctx, t)
    functions["xielu"] = lambda t: ggml.ggml_xielu(ctx, t, 0.8, 0.7, 0.5, -1e-6)
    gates = [getattr(ggml, f"ggml_{name}_split") for name in ("reglu", "geglu", "swiglu", "geglu_erf", "geglu_quick")]
    functions |= {f"gate {i}": lambda t, gate=gate: gate(ctx, t, t) for i, gate in enumerate(gates)}
    with isa(isa_name):
        for name, build in functions.items():
            found = []
            for other in None, np.nan, np.inf, -np.inf, 1e30, -100:
                values = x.copy()
                if other is not None:
                    values[1::2] = other
                y = build(ggml.utils.from_numpy(values, ctx))
                ggml.ggml_graph_compute_with_ctx(ctx, graph_of(ctx, y), 1)
                found.append(ggml.utils.to_numpy(y)[::2].view(np.uint32).copy())
            assert all(np.array_equal(found[0], f) for f in found), name
