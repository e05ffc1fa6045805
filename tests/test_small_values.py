"""Quantised products with tiny activations: a block rounds to 8-bit integers or, below a documented limit, to zero."""

import numpy as np
import pytest
from cases.harness import ISAS, compute, context, graph_of, isa, load, tensor, values_of

import ggml

K = 512
# The limit of products with one or two rows: the scales of their blocks are f16, or f32 for blocks of 256.
LIMITS = {"Q4_0": 4e-6, "Q8_0": 4e-6, "Q4_K": 2.0**-120, "IQ4_XS": 2.0**-120, "TQ2_0": 2.0**-120}


def error(name, kind, rows, size):
    """The error of a product relative to its largest element."""
    rng = np.random.default_rng(0)
    with isa(name), context() as ctx:
        a = tensor(ctx, rng.standard_normal((16, K)), kind)
        x = rng.uniform(-size, size, (rows, K)).astype(np.float32)
        product = ggml.ggml_mul_mat(ctx, a, tensor(ctx, x.astype(np.float64), "F32"))
        want = x.astype(np.float64) @ values_of(ctx, a)[0, 0].T
        compute(ctx, graph_of(ctx, product))
        got = load(product)[0, 0]
        assert np.isfinite(got).all()
        return np.abs(got - want).max() / np.abs(want).max() if got.any() else "zero"


@pytest.mark.parametrize("name", ISAS)
@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("rows", [1, 2, 8])
def test_tiny_activations(rows, kind, name):
    limit = LIMITS[kind] if rows <= 2 else 2.0**-120
    for size in (1e-2, 1e-5, 1e-20, 1e-35, 1e-42):
        got = error(name, kind, rows, size)
        if size > limit:
            assert got != "zero" and got < (0.5 if size == 1e-5 and limit == 4e-6 else 0.03), size
        else:  # instruction sets that do not multiply bytes compute with a copy in f32, which is accurate
            assert got == "zero" or got < 0.03, size


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_subnormal_activations_of_float_products(kind):
    for name in ISAS:
        assert error(name, kind, 8, 1e-39) < 1e-4
