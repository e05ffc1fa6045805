"""Products of quantised matrices with activations of any magnitude, on every ISA.

An activation is rounded to eight bits with a scale of its own. The error of a product is therefore relative to the
activation, whether there are few columns (dot products) or many (tiles), over the range of f32.
"""

import numpy as np
import pytest
from cases.harness import ISAS, QUANTISED, compute, context, graph_of, isa, load, memory, tensor, values_of

import ggml

K, M = 512, 19
COLUMNS = (1, 2, 3, 4, 5, 8, 33)  # all ways of a product: one row at a time, four at a time, tiles


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
@pytest.mark.parametrize("columns", [1, 2, 3, 8])
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


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_subnormal_activations_of_float_products(kind):
    with context() as ctx:
        a = tensor(ctx, np.random.default_rng(0).standard_normal((M, K)), kind)
        x = activations(8, 1e-39)
        want, out = x @ values_of(ctx, a)[0, 0].T, mul_mat(ctx, a, x)
        for name in ISAS:
            with isa(name):
                compute(ctx, graph_of(ctx, out))
            assert np.abs(load(out)[0, 0] - want).max() < 1e-4 * np.abs(want).max(), name
