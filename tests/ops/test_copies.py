"""Copies between all plain types, between shapes whose rows differ, and into views that overlap."""

import itertools

import numpy as np
import pytest
from cases import Random
from cases.harness import (
    DTYPES,
    ISAS,
    close,
    compute,
    context,
    elements,
    from_bf16,
    graph_of,
    isa,
    load,
    quantized,
    store,
    tensor,
    to_bf16,
    type_id,
)

import ggml

pytestmark = pytest.mark.core
BOUNDS = {t: (-(2 ** (8 * int(d[1]) - 1)), 2 ** (8 * int(d[1]) - 1) - 1) for t, d in DTYPES.items() if d[0] == "i"}


def converted(x, source, target):
    """Values of one type, converted to another. Floats to integers truncate and saturate, NaN gives 0; integers to
    integers wrap around.
    """
    x = from_bf16(x) if source == "BF16" else x
    if target in BOUNDS and x.dtype.kind == "f":
        low, high = BOUNDS[target]
        whole = [0 if v != v else low if v <= low else high if v >= high else int(v) for v in x.ravel().tolist()]
        return np.array(whole, DTYPES[target]).reshape(x.shape)
    if target in ("F16", "BF16") and x.dtype != np.float16:
        with np.errstate(over="ignore"):
            x = x.astype(np.float32)
            return to_bf16(x) if target == "BF16" else x.astype(np.float16)
    if target == "BF16":
        return to_bf16(x.astype(np.float32))
    with np.errstate(over="ignore"):
        return x.astype(DTYPES[target])


def odd_values(type, n):
    """Values around the limits of all types, and random ones."""
    rng = np.random.default_rng(4)
    if type in BOUNDS:
        low, high = BOUNDS[type]
        x = rng.integers(low, high, n, dtype=np.int64, endpoint=True).astype(DTYPES[type])
        x[:5] = low, high, 0, 1, -1
        return x
    edges = [
        s * v for s in (1, -1) for v in (0.0, 0.5, 1.5, 127.5, 128, 129, 32767.5, 32768, 2.0**31, 2.0**63, 1e30, np.inf)
    ]
    x = np.concatenate([edges, [np.nan], rng.standard_normal(n) * 10.0 ** rng.integers(-3, 12, n)])[:n]
    with np.errstate(over="ignore"):
        return to_bf16(x.astype(np.float32)) if type == "BF16" else x.astype(DTYPES[type])


@pytest.mark.parametrize("source, target", list(itertools.product(DTYPES, DTYPES)))
def test_between_plain_types(source, target):
    ne = (37, 5, 2, 3)
    x = odd_values(source, np.prod(ne)).reshape(ne[::-1])
    want = converted(x, source, target) if source != target else x
    for layouts in (("plain", "plain"), ("permuted", "plain"), ("plain", "padded"), ("transposed", "permuted")):
        with context() as ctx:
            a, b = (tensor(ctx, np.zeros(ne[::-1]), t, layout) for t, layout in zip((source, target), layouts))
            elements(a)[...] = x
            graph = graph_of(ctx, ggml.ggml_cpy(ctx, a, b))
            for name in ISAS:
                with isa(name):
                    elements(b)[...] = 0
                    compute(ctx, graph, 2)
                got = elements(b)
                same = (got == want) | ((got != got) & (want != want))
                if target == "BF16":
                    same |= np.isnan(from_bf16(got.copy())) & np.isnan(from_bf16(want.copy()))
                assert same.all(), f"{layouts}, {name}: {x[~same][:4]} became {got[~same][:4]}, not {want[~same][:4]}"


@pytest.mark.parametrize("type", ["F32", "I32", "F16", "I8", "F64"])
@pytest.mark.parametrize("gap", [0, 2])
@pytest.mark.parametrize(
    "n0, n1", [(16, 16), (14, 33), (8, 31), (7, 40), (40, 3), (3, 300), (47, 12), (15, 9), (64, 130)]
)
def test_transposes_keep_all_bits(type, n0, n1, gap):
    """Also those of NaNs, and what lies beside the matrix; the rows of a matrix follow each other, or have gaps."""
    size = np.dtype(DTYPES[type]).itemsize
    words = np.random.default_rng(n0).integers(0, 256, (3, n1, n0, size), dtype=np.uint8)
    with context() as ctx:
        a = tensor(ctx, np.zeros((3, n1, n0)), type)
        whole = tensor(ctx, np.zeros((3, n0, n1 + gap)), type)
        nb = list(whole.contents.nb)
        b = ggml.ggml_view_3d(ctx, whole, n1, n0, 3, nb[1], nb[2], size * (gap // 2))
        graph = graph_of(ctx, ggml.ggml_cpy(ctx, ggml.ggml_permute(ctx, a, 1, 0, 2, 3), b))
        elements(a).view(np.uint8).reshape(words.shape)[...] = words
        for name, threads in itertools.product(ISAS, (1, 2)):
            found = elements(whole).view(np.uint8).reshape(3, n0, n1 + gap, size)
            found[...] = 99
            with isa(name):
                compute(ctx, graph, threads)
            np.testing.assert_array_equal(found[:, :, gap // 2 :][:, :, :n1], words.swapaxes(1, 2), name)
            assert (found[:, :, : gap // 2] == 99).all() and (found[:, :, gap // 2 + n1 :] == 99).all()


@pytest.mark.parametrize(
    "source, target", [("F32", "F32"), ("F16", "F32"), ("F32", "I32"), ("I8", "F64"), ("Q8_0", "F32")]
)
def test_between_shapes_of_different_row_lengths(source, target):
    """Elements are copied in the order of their indices, although the row length of one tensor is not a multiple of the
    other's.
    """
    first, second = ((32, 6, 4), (32, 4, 6)) if source == "Q8_0" else ((6, 10, 4), (4, 15, 4))
    r = Random(1)
    x = np.round(r(*first) * 50)
    with context() as ctx:
        b = tensor(ctx, np.zeros((1, *second[::-1])), target, "padded")
        if source == "Q8_0":
            base = quantized(ctx, np.ascontiguousarray(x.swapaxes(1, 2)), source)
            a = ggml.ggml_permute(ctx, base, 0, 2, 1, 3)
        else:
            a = tensor(ctx, x, source, "transposed")
            x = load(a)
        graph = graph_of(ctx, ggml.ggml_cpy(ctx, a, b))
        for name in ISAS:
            for threads in (1, 2):
                with isa(name):
                    store(b, np.full(second[::-1], 7))
                    compute(ctx, graph, threads)
                close(
                    load(b).astype(float),
                    x.reshape(1, *second[::-1]).astype(float),
                    0.02 if source == "Q8_0" else 0,
                    name,
                )


@pytest.mark.parametrize("fn", ["acc", "set"])
def test_into_a_view_that_overlaps_itself(fn):
    """Rows of b overlap in a. They are added one after the other, with any number of threads."""
    r = Random(2)
    a, b = r(64), r(8, 20, 3)
    nb1, nb2, offset = 8, 16, 4  # a row is 32 bytes
    want = a.astype(np.float32).ravel()
    for k in range(3):
        for j in range(20):
            at = (offset + j * nb1 + k * nb2) // 4
            row = b[0, k, j].astype(np.float32)
            want[at : at + 8] = want[at : at + 8] + row if fn == "acc" else row
    with context() as ctx:
        out = getattr(ggml, "ggml_" + fn)(ctx, tensor(ctx, a, "F32"), tensor(ctx, b, "F32"), nb1, nb2, 1 << 10, offset)
        graph = graph_of(ctx, out)
        for name in ISAS:
            for threads in (1, 2):
                with isa(name):
                    compute(ctx, graph, threads)
                np.testing.assert_array_equal(load(out).ravel(), want, name)


def test_unsupported_conversions_are_refused():
    with context() as ctx:
        q, i = (ggml.ggml_new_tensor_2d(ctx, type_id(t), 32, 3) for t in ("Q4_0", "I32"))
        for a, b in ((q, i), (i, q)):
            with pytest.raises(ValueError, match="^ggml_cpy: .* there is no conversion"):
                ggml.ggml_cpy(ctx, a, b)
