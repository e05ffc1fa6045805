"""Products of quantised matrices with activations of any magnitude, on every ISA.

An activation is rounded to eight bits with a scale of its own. The error of a product is therefore relative to the
activation, whether there are few columns (dot products) or many (tiles), over the range of f32.
"""

import re

import numpy as np
import pytest
from cases.harness import ISAS, QUANTISED, compute, context, graph_of, isa, load, memory, tensor, values_of

import ggml

K, M = 512, 19
COLUMNS = (1, 2, 3, 4, 5, 8, 33, 53)  # all ways of a product: one row at a time, four at a time, tiles, folded scales


def mul_mat(ctx, a, x):
    return ggml.ggml_mul_mat(ctx, a, tensor(ctx, x, "F32"))


def mul_mat_id(ctx, a, x):
    """Each row of x times the one matrix of a: a group of as many rows."""
    ids = tensor(ctx, np.zeros((len(x), 1), np.int32), "I32")
    return ggml.ggml_mul_mat_id(ctx, a, tensor(ctx, x[:, None], "F32"), ids)


def out_prod(ctx, a, x):
    """The sum over the rows of a: x has one column for each of them."""
    return ggml.ggml_out_prod(ctx, a, tensor(ctx, np.resize(x.T, (M, len(x))), "F32"))


def activations(columns, scale):
    return (np.random.default_rng(columns).standard_normal((columns, K)) * scale).astype(np.float32).astype(float)


@pytest.mark.parametrize("kind", QUANTISED)
@pytest.mark.parametrize("columns", COLUMNS)
def test_products_of_any_magnitude(kind, columns):
    """The errors are those of eight bits, compared with float64."""
    weights = np.random.default_rng(0).standard_normal((M, K))
    for scale in (1e-30, 1e-20, 1e-7, 1e-5, 1.0, 1e7, 1e20, 1e30):
        with context() as ctx:
            a = tensor(ctx, weights, kind)
            x = activations(columns, scale)
            want = x @ values_of(ctx, a)[0, 0].T
            out = mul_mat(ctx, a, x)
            graph = graph_of(ctx, out)
            size = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(values_of(ctx, a)[0, 0], axis=1)
            for name in ISAS:
                with isa(name):
                    compute(ctx, graph)
                error = np.abs(load(out)[0, 0] - want) / size
                assert error.max() < 0.008, f"{name}, {columns} columns of {scale}: {error.max()}"


@pytest.mark.parametrize("kind", QUANTISED)
@pytest.mark.parametrize("product", [mul_mat, mul_mat_id, out_prod])
def test_products_scale_exactly(kind, product):
    """A power of two that multiplies the activations multiplies the results, bit for bit."""
    weights = np.random.default_rng(0).standard_normal((M, K))
    for columns in COLUMNS:
        x = activations(columns, 1)
        with context() as ctx:
            a = tensor(ctx, weights, kind)
            powers = (0, -96, -40, -17, 16, 40, 96)
            outs = [product(ctx, a, np.ldexp(x, power)) for power in powers]
            graph = graph_of(ctx, *outs)
            for name in ISAS:
                with isa(name):
                    compute(ctx, graph)
                plain, *others = (load(out) for out in outs)
                assert plain.any(), name
                for power, got in zip(powers[1:], others):
                    note = f"{name}, {columns} columns times 2^{power}"
                    np.testing.assert_array_equal(got, np.ldexp(plain, power), note)


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0", "Q5_1", "Q4_K", "IQ4_XS", "TQ2_0", "NVFP4", "Q1_0"])
@pytest.mark.parametrize("columns", [1, 2, 3, 8, 45])
def test_activations_near_the_least_number(kind, columns):
    """Below 2^-120, activations are rounded to multiples of 2^-120 / 127 instead of to fractions of the largest."""
    weights = np.random.default_rng(0).standard_normal((M, K))
    for scale in (1e-35, 2.0**-119, 2.0**-122, 1e-38, 1e-42, 0):
        with context() as ctx:
            a = tensor(ctx, weights, kind)
            x = activations(columns, scale)
            w = values_of(ctx, a)[0, 0]
            out = mul_mat(ctx, a, x)
            graph = graph_of(ctx, out)
            step = np.maximum(np.abs(x).max(1), 2.0**-120)[:, None] / 127
            limit = 0.55 * step * np.abs(w).sum(1) + K * 2.0**-149
            for name in ISAS:
                with isa(name):
                    memory(out)[:] = 0xFF
                    compute(ctx, graph)
                assert (np.abs(load(out)[0, 0] - x @ w.T) <= limit).all(), f"{name}, {scale}"


def rows_of_bytes(ctx, kind, m, k):
    """A matrix whose blocks are any bytes: the rows without an infinity or NaN, which are some of many."""
    rng, many = np.random.default_rng(5), ggml.ggml_new_tensor_2d(ctx, getattr(ggml, f"GGML_TYPE_{kind}"), k, 60 * m)
    memory(many)[:] = rng.integers(0, 256, memory(many).size)
    rows = memory(many).reshape(60 * m, -1)
    finite = np.isfinite(values_of(ctx, many)[0, 0]).all(1)
    assert finite.sum() >= m
    a = ggml.ggml_new_tensor_2d(ctx, getattr(ggml, f"GGML_TYPE_{kind}"), k, m)
    memory(a)[:] = rows[finite][:m].ravel()
    return a


@pytest.mark.parametrize("kind", [kind for kind in QUANTISED if re.search("_K|^TQ|^IQ|Q8_0", kind)])
def test_products_of_any_blocks(kind):
    """Codes and scales of any bits, also those that no encoder writes, by few and by many columns."""
    with context() as ctx:
        a = rows_of_bytes(ctx, kind, 37, K)
        w = values_of(ctx, a)[0, 0]
        for columns in (9, 53):
            x = activations(columns, 1)
            out = mul_mat(ctx, a, x)
            size = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(w, axis=1)
            for name in ISAS:
                with isa(name):
                    compute(ctx, graph_of(ctx, out))
                assert (np.abs(load(out)[0, 0] - x @ w.T) <= 0.008 * size).all(), f"{name}, {columns} columns"


@pytest.mark.skipif("amx" not in ISAS, reason="the CPU has no AMX")
@pytest.mark.parametrize("kind", ["Q2_K", "Q3_K", "Q6_K", "IQ2_XS", "IQ2_S", "IQ1_M", "TQ1_0", "TQ2_0"])
def test_folded_scales_leave_sixteen_bits(kind):
    """Where scales are part of the codes, vectors are rounded to 16 bits, and to the same ones by any thread."""
    rng = np.random.default_rng(1)
    for m, n in ((19, 53), (70, 97), (130, 60)):
        with context() as ctx:
            a = tensor(ctx, rng.standard_normal((m, K)), kind)
            x = rng.standard_normal((n, K)).astype(np.float32).astype(float)
            out = mul_mat(ctx, a, x)
            w = values_of(ctx, a)[0, 0]
            size = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(w, axis=1)
            with isa("amx"):
                compute(ctx, graph_of(ctx, out))
            assert (np.abs(load(out)[0, 0] - x @ w.T) <= 5e-5 * size).all()


@pytest.mark.parametrize("kind", ["Q8_0", "IQ4_NL"])
@pytest.mark.parametrize("k", [32, 96, 192, 384, 512, 800])
def test_products_of_scales_of_any_size(kind, k):
    """Where codes are multiplied by their scales first: of both signs, zero or far apart, with codes of -128."""
    rng = np.random.default_rng(k)
    with context() as ctx:
        a = ggml.ggml_new_tensor_2d(ctx, getattr(ggml, f"GGML_TYPE_{kind}"), k, M)
        blocks = memory(a).reshape(M, k // 32, -1)
        blocks[:] = rng.integers(0, 256, blocks.shape)
        blocks[:, ::2, 2:20] = 128
        scales = rng.choice([0, 2.0**-24, -1e-3, 0.25, -1, 300], (M, k // 32)).astype(np.float16)
        scales[0] = 0
        blocks[:, :, :2] = scales.view(np.uint8).reshape(M, k // 32, 2)
        x, w = rng.standard_normal((53, k)).astype(np.float32).astype(float), values_of(ctx, a)[0, 0]
        out, want = mul_mat(ctx, a, x), x @ w.T
        size = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(w, axis=1)
        for name in ISAS:
            with isa(name):
                compute(ctx, graph_of(ctx, out))
            assert (np.abs(load(out)[0, 0] - want) <= 0.004 * size).all(), name


@pytest.mark.parametrize("kind", ["Q8_0", "IQ4_NL"])
@pytest.mark.parametrize("scale", [np.inf, -np.inf, np.nan])
def test_products_with_scales_that_are_no_numbers(kind, scale):
    """They make the products of their rows infinite or NaN, and leave others as they are."""
    with context() as ctx:
        a = tensor(ctx, np.random.default_rng(2).standard_normal((M, K)), kind)
        memory(a).reshape(M, K // 32, -1)[3, 5, :2] = np.array([scale], np.float16).view(np.uint8)
        out = mul_mat(ctx, a, activations(53, 1))
        for name in ISAS:
            with isa(name):
                compute(ctx, graph_of(ctx, out))
            finite = np.isfinite(load(out)[0, 0])
            assert not finite[:, 3].any() and finite.sum() == 53 * (M - 1), name


# Rows, columns and elements of k: dot products, and tiles of all shapes, some of them filled in part.
SMALL = [(M, 8, K), (40, 45, 70), (64, 43, 96), (33, 60, 32), (18, 50, 1100)]
FLOAT_SHAPES = [*(pytest.param(*shape, marks=pytest.mark.core) for shape in SMALL),
                (257, 203, 70), (240, 215, 32), (227, 229, 1100)]  # fmt: skip


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("m, n, k", FLOAT_SHAPES)
def test_float_products_of_any_magnitude(kind, m, n, k):
    """The errors are those of sums of f32, whatever the magnitude of a row is, down to the least numbers."""
    rng = np.random.default_rng(k)
    for scales in ([1.0], [1e-39], [1e-30], [1e-24], [1e-42, 1.0], [1e-39, 1e-25, 1e-12, 1.0, 1e20]):
        x = (rng.standard_normal((n, k)) * np.resize(scales, n)[:, None]).astype(np.float32)
        with context() as ctx:
            a = tensor(ctx, rng.standard_normal((m, k)), kind)
            w = values_of(ctx, a)[0, 0]
            want, out = x.astype(float) @ w.T, mul_mat(ctx, a, x)
            size = np.linalg.norm(x.astype(float), axis=1)[:, None] * np.linalg.norm(w, axis=1)
            for name in ISAS:
                with isa(name):
                    compute(ctx, graph_of(ctx, out))
                error = np.abs(load(out)[0, 0] - want)
                assert (error <= 2e-6 * size + k * 2.0**-149).all(), f"{name}, {scales}"


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("m, n, k", FLOAT_SHAPES)
def test_float_products_with_infinities_and_nan(kind, m, n, k):
    """An infinity stays one, unless it meets a zero or its opposite, as in NumPy."""
    rng = np.random.default_rng(k)
    w, x = np.abs(rng.standard_normal((m, k))) + 0.1, (np.abs(rng.standard_normal((n, k))) + 0.1).astype(np.float32)
    w[3, 5], w[m - 1, k - 1], w[7, 0] = np.inf, -np.inf, np.nan
    x[2, 9], x[n - 1, 3], x[4, k - 1] = -np.inf, np.nan, 0
    with context() as ctx:
        a = tensor(ctx, w, kind)
        with np.errstate(invalid="ignore"):
            want = (x.astype(float)[:, None] * values_of(ctx, a)[0, 0]).sum(-1)
        out = mul_mat(ctx, a, x)
        for name in ISAS:
            with isa(name):
                compute(ctx, graph_of(ctx, out))
            got = load(out)[0, 0]
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want), name)
            special = np.isinf(want)
            assert special.any()
            np.testing.assert_array_equal(got[special], want[special], name)
            rest = np.isfinite(want)
            np.testing.assert_allclose(got[rest], want[rest], rtol=1e-5, err_msg=name)
