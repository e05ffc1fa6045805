"""Types: conversions against recorded bytes, and dot products and operations against float64, on every ISA.

tests/data/quants.npz holds rows of 1024 values (x/<rows>), importance weights (im), and for each type the quantised
bytes (q/<type>/<rows>/<plain or im>) and their decoded values (d/...).
"""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from blocks import BLOCKS, dtype, scales
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
    memory,
    quantized,
    tensor,
    to_bf16,
    type_id,
)

import ggml
from ggml import _core, utils

with np.load(Path(__file__).parents[1] / "data" / "quants.npz") as z:
    RECORDED = {key: z[key] for key in z.files}
WEIGHTS = RECORDED["im"]


def q2_0(x):
    """Rows in Q2_0 and their decoded values, from the description of the type: the library of the recordings lacks it.

    A block is f16 d, the largest absolute value of 64, and 16 bytes of four codes each, the first in the lowest bits.
    The codes 0 to 3 are -d, 0, d and 2 d; rounding gives the first three.
    """
    groups = x.astype(np.float32).reshape(-1, 64)
    d = np.abs(groups).max(1, keepdims=True)
    inverse = np.divide(np.float32(1), d, out=np.zeros_like(d), where=d > 0)
    scaled = groups * inverse
    codes = (np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))).astype(int) + 1
    packed = (codes.reshape(-1, 16, 4) << np.array([0, 2, 4, 6])).sum(2).astype(np.uint8)
    half = d.astype(np.float16)
    raw = np.concatenate([half.view(np.uint8), packed], 1)
    return raw.ravel(), ((codes - 1) * half.astype(np.float32)).ravel()


for _rows in [key[2:] for key in RECORDED if key.startswith("x/")]:
    for _kind in ("plain", "im"):
        if f"q/Q1_0/{_rows}/{_kind}" in RECORDED:
            _key = f"/Q2_0/{_rows}/{_kind}"
            RECORDED["q" + _key], RECORDED["d" + _key] = q2_0(RECORDED["x/" + _rows])
TYPES = list(dict.fromkeys(key.split("/")[1] for key in RECORDED if key.startswith("q/")))
NEED_WEIGHTS = ("IQ2_XXS", "IQ2_XS", "IQ1_S")
QUANTISED = [*(t for t in TYPES if t not in DTYPES), "Q8_1", "Q8_K"]
FP = ctypes.POINTER(ctypes.c_float)


def each(types):
    return pytest.mark.parametrize("type", types)


def samples(type):
    """(key, values, weights or None, bytes, decoded values) of each recording."""
    for key, raw in RECORDED.items():
        if key.startswith(f"q/{type}/"):
            _, _, rows, kind = key.split("/")
            yield key, RECORDED["x/" + rows], WEIGHTS if kind == "im" else None, raw, RECORDED["d" + key[1:]]


def quantise(type, x, weights=None):
    x, out = np.ascontiguousarray(x, np.float32), np.zeros(ggml.ggml_row_size(type_id(type), x.size), np.uint8)
    weights = None if weights is None else np.ascontiguousarray(weights, np.float32)
    im = None if weights is None else weights.ctypes.data_as(FP)
    where = x.ctypes.data_as(FP), out.ctypes.data_as(ctypes.c_void_p)
    assert ggml.ggml_quantize_chunk(type_id(type), *where, 0, x.size // x.shape[-1], x.shape[-1], im) == out.size
    return out


def convert(type, x):
    """Like quantise without weights, but IQ4_NL without its search."""
    x, out = np.ascontiguousarray(x, np.float32), np.zeros(ggml.ggml_row_size(type_id(type), x.size), np.uint8)
    utils.quantize_row(x.ctypes.data_as(FP), x.size, type_id(type), out.ctypes.data_as(ctypes.c_void_p))
    return out


def decode(type, raw, n):
    raw, out = np.ascontiguousarray(raw), np.zeros(n, np.float32)
    utils.dequantize_row(raw.ctypes.data_as(ctypes.c_void_p), n, type_id(type), out.ctypes.data_as(ctypes.c_void_p))
    return out


# ---- conversions -----------------------------------------------------------------------------------------------------
def test_every_type_is_recorded():
    quantised = {name for name, t in utils.GGML_TYPE.__members__.items() if ggml.ggml_is_quantized(t)}
    assert set(QUANTISED) == quantised


@pytest.mark.core
@each(TYPES)
def test_decoding_is_exact(type):
    for key, x, _, raw, want in samples(type):
        for name in ISAS:
            with isa(name):
                np.testing.assert_array_equal(decode(type, raw, x.size), want.ravel(), f"{key} on {name}")


@each(TYPES)
def test_quantising(type):
    """Every ISA gives the recorded bytes. Where a search finds equally good candidates (IQ3_S), other bytes may have
    no larger error.
    """
    for key, x, weights, raw, want in samples(type):
        first = quantise(type, x, weights)
        for name in ISAS:
            with isa(name):
                np.testing.assert_array_equal(quantise(type, x, weights), first, f"{key} on {name}")
        if type != "IQ3_S":
            np.testing.assert_array_equal(first, raw, key)
        w = np.ones(x.shape[1]) if weights is None else weights.astype(float)
        error, least = (
            np.sum(w * (y.reshape(x.shape) - x.astype(float)) ** 2) for y in (decode(type, first, x.size), want)
        )
        assert error <= least, f"{key}: error {error}, recorded {least}"


@each([t for t in QUANTISED if t not in NEED_WEIGHTS])
def test_blocks_are_converted_independently(type):
    """A block gives the same bytes in a conversion of any length."""
    n = ggml.ggml_blck_size(type_id(type))
    rng = np.random.default_rng(5)
    x = rng.standard_normal((67, n)) * np.exp(rng.standard_normal((67, 1)))
    for name in ISAS:
        with isa(name):
            alone = [convert(type, block) for block in x]
            np.testing.assert_array_equal(convert(type, x), np.concatenate(alone), name)


@each([*QUANTISED, "F16", "BF16"])
def test_traits_convert_as_the_functions_do(type):
    if type in TYPES:
        _, x, weights, raw, _ = next(samples(type))
    else:
        x, weights = RECORDED["x/normal"], None
        raw = quantise(type, x)
    traits = ggml.ggml_get_type_traits(type_id(type)).contents
    out = np.zeros(x.size, np.float32)
    traits.to_float(raw.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(FP), x.size)
    np.testing.assert_array_equal(out, decode(type, raw, x.size))
    made = np.zeros_like(raw)
    if weights is None:
        traits.from_float_ref(x.ctypes.data_as(FP), made.ctypes.data_as(ctypes.c_void_p), x.size)
        np.testing.assert_array_equal(made, convert(type, x))
        if type != "IQ4_NL":
            np.testing.assert_array_equal(made, raw)
    else:  # types that require weights
        assert not traits.from_float_ref


@each(["Q8_1", "Q8_K"])
def test_activation_types_of_dot_products(type):
    """The types that activations are converted to: errors of at most half a step of the largest value, and the sums
    of the levels.
    """
    x = np.concatenate([RECORDED["x/normal"], RECORDED["x/zero"], RECORDED["x/positive"]])
    block, size = (32, 36) if type == "Q8_1" else (256, 292)
    for name in ISAS:
        with isa(name):
            raw = quantise(type, x)
            got = decode(type, raw, x.size).reshape(-1, block)
        blocks = raw.reshape(-1, size)
        far = np.abs(x.reshape(-1, block)).max(1, keepdims=True)
        assert (np.abs(got - x.reshape(-1, block)) <= far / 127 * (0.501 if type == "Q8_K" else 0.55)).all(), name
        if type == "Q8_1":
            d, s = (blocks[:, i : i + 2].copy().view(np.float16)[:, 0] for i in (0, 2))
            levels = blocks[:, 4:].view(np.int8).sum(1, dtype=int)
            np.testing.assert_allclose(s, d.astype(float) * levels, rtol=2e-3, atol=1e-6)
        else:
            sums = blocks[:, 260:].copy().view(np.int16)
            np.testing.assert_array_equal(sums, blocks[:, 4:260].view(np.int8).reshape(-1, 16, 16).sum(2, dtype=int))


def quantise_beyond(type, x, weighted=False):
    """The bytes of rows that are quantised, by weights of 1 or without, and the exception, if one is raised."""
    x, out = np.ascontiguousarray(x, np.float32), np.zeros(ggml.ggml_row_size(type_id(type), x.size), np.uint8)
    where = x.ctypes.data_as(FP), out.ctypes.data_as(ctypes.c_void_p)
    weights = np.ones(x.shape[-1], np.float32).ctypes.data_as(FP) if weighted or type in NEED_WEIGHTS else None
    try:
        ggml.ggml_quantize_chunk(type_id(type), *where, 0, *x.shape, weights)
    except ValueError as error:
        return out, str(error)
    return out, None


@each(QUANTISED)
def test_values_that_are_not_finite(type):
    """NaN and infinities are refused; they give bytes that decode, and change the bytes of no other row."""
    n = ggml.ggml_blck_size(type_id(type))
    rng = np.random.default_rng(3)
    for odd in (np.nan, np.inf, -np.inf):
        x = rng.standard_normal((3, 2 * n)).astype(np.float32)
        x[1, n // 2] = odd
        x[2] = odd
        for name in ISAS:
            with isa(name):
                raw, error = quantise_beyond(type, x)
                assert error.startswith(f"ggml_quantize_chunk: row 1 of src holds {odd:g}, beyond the range of"), name
                alone = quantise_beyond(type, x[:1])[0]
                np.testing.assert_array_equal(raw[: alone.size], alone, f"{name}: a row changes with its neighbours")
                decode(type, raw, x.size)


# types whose scales have the range of f32
WIDE = ("MXFP4", "Q8_K")


@each(QUANTISED)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_beyond_the_range(type, weighted):
    """A row is refused where its scales would be infinite, and only there. Then its scales are the largest ones."""
    width = 2 * max(32, ggml.ggml_blck_size(type_id(type)))
    x = np.random.default_rng(16).standard_normal((3, width)).astype(np.float32)
    usual = np.abs(decode(type, quantise_beyond(type, x, weighted)[0], x.size).reshape(x.shape) - x).max()
    for name in ISAS:
        refused = False
        for power in range(0, 120, 3):
            row = np.ldexp(x[1], power)
            with isa(name):
                raw, error = quantise_beyond(type, np.stack([x[0], row, x[2]]), weighted)
            got = decode(type, raw, x.size).reshape(x.shape)[1].astype(float)
            note = f"{name}, times 2^{power}"
            assert np.isfinite(got).all() and valid(type, raw), note
            if error is None:
                assert not refused, note
                assert np.abs(np.ldexp(got, -power) - x[1]).max() <= 1.5 * usual, note
            else:
                refused = True
                largest = row[np.abs(row).argmax()]
                assert f"row 1 of src holds {largest:g}, beyond the range of {type.lower()}" in error.lower(), note
                assert (got * row).sum() > 0, note
        assert refused is (type not in WIDE), name


@each(["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"])
def test_the_largest_scale_is_used(type):
    """The scale f16 holds, 65504, is not refused; a scale that rounds to infinity is, by whichever sign."""
    codes = {"Q4_0": 8, "Q4_1": 15, "Q5_0": 16, "Q5_1": 31, "Q8_0": 127}.get(type, 1)  # of the largest magnitude
    width = ggml.ggml_blck_size(type_id(type))
    for scale, fits in ((65504, True), (65519, True), (65521, False), (1e30, False)):
        for sign in (1, -1) if type not in ("Q4_1", "Q5_1") else (1,):
            row = np.zeros(width) if type != "Q1_0" else np.full(width, scale)
            row[::2] = sign * codes * scale
            raw, error = quantise_beyond(type, row[None])
            assert (error is None) is fits, f"{scale}, {sign}: {error}"
            got = decode(type, raw, width)
            assert np.abs(got).max() == codes * 65504, f"{scale}, {sign}"
            np.testing.assert_array_equal(got[::2], np.full(width // 2, sign * codes * 65504))


@pytest.mark.parametrize("type, largest, beyond", [
    ("F16", 65519, 65520), ("BF16", 3.3895e38, 3.3961776e38), ("F32", 3.4e38, None)])  # fmt: skip
def test_floats_beyond_the_range(type, largest, beyond):
    """Finite numbers that would round to infinity are refused; infinities and NaN are numbers of the type."""
    assert quantise_beyond(type, np.array([[1, -largest], [np.inf, np.nan]]))[1] is None
    if beyond:
        error = quantise_beyond(type, np.array([[1, largest], [np.inf, 1], [-beyond, 2]]))[1]
        assert f"row 2 of src holds -{beyond:g}, beyond the range of {type.lower()}" in error


def test_the_first_row_beyond_the_range_is_named():
    """Its number counts from the start of src and does not depend on threads; the other rows are converted, too."""
    x = np.random.default_rng(17).standard_normal((400, 512)).astype(np.float32)
    x[[111, 320]] *= 1e6
    good = quantise("Q4_0", np.delete(x, [111, 320], 0)).reshape(398, -1)
    raw, error = quantise_beyond("Q4_0", x)
    assert "row 111 of src" in error
    np.testing.assert_array_equal(np.delete(raw.reshape(400, -1), [111, 320], 0), good)
    where = x.ctypes.data_as(FP), raw.ctypes.data_as(ctypes.c_void_p)
    with pytest.raises(ValueError, match="row 320 of src"):
        ggml.ggml_quantize_chunk(ggml.GGML_TYPE_Q4_0, *where, 112 * 512, 288, 512, None)
    with pytest.raises(ValueError, match="^quantize_row: data_f32 holds .*beyond the range of q4_0"):
        utils.quantize_row(x[320].ctypes.data_as(FP), 512, ggml.GGML_TYPE_Q4_0)
    with pytest.raises(ValueError, match="row 0 of src"):
        utils.quantize_0(x[320].ctypes.data_as(FP), 512, 512, ggml.GGML_TYPE_Q4_0)


@each([t for t in QUANTISED if t not in (*NEED_WEIGHTS, "Q8_1", "Q8_K")])
def test_nodes_limit_what_is_beyond_the_range(type):
    """A node that stores a quantised type has nobody to tell: its scales are limited, so that all decodes."""
    n = 2 * max(32, ggml.ggml_blck_size(type_id(type)))
    x = np.random.default_rng(18).standard_normal((6, n))
    for i, power in enumerate((0, 20, 30, 60, 100, 124)):
        x[i] = np.ldexp(x[i], power)
    with context() as ctx:
        a = tensor(ctx, x, "F32")
        out = ggml.ggml_cast(ctx, a, type_id(type))

        def check(note):
            raw = memory(out)
            got = decode(type, raw, x.size).reshape(x.shape).astype(float)
            assert valid(type, raw) and np.isfinite(got).all(), note
            assert (np.sum(got / np.abs(x).max(1, keepdims=True) * x, 1) > 0).all(), note

        on_each(ctx, out, check)


@pytest.mark.core
@each(QUANTISED)
def test_any_bytes_decode(type):
    """Blocks of random bytes: no code reads outside a table, and every ISA gives the same numbers."""
    n = 64 * ggml.ggml_blck_size(type_id(type))
    raw = np.random.default_rng(5).integers(0, 256, ggml.ggml_row_size(type_id(type), n)).astype(np.uint8)
    want = None
    for name in ISAS:
        with isa(name):
            got = decode(type, raw, n)
        want = got if want is None else want
        np.testing.assert_array_equal(got, want, name)


# where a block's scales lie, with the bytes of an infinity
SCALES = {type: scales(type) for type in BLOCKS if scales(type)}


def valid(type, raw):
    return ggml.ggml_validate_row_data(type_id(type), raw.ctypes.data_as(ctypes.c_void_p), raw.size)


@pytest.mark.core
@each([*SCALES, "NVFP4", "I32"])
def test_rows_are_checked(type):
    ty = type_id(type)
    size = ggml.ggml_type_size(ty)
    raw = np.tile(next(samples(type))[3][:size], 5) if type in TYPES else np.zeros(5 * size, np.uint8)
    assert valid(type, raw) is True
    for key, *_, recorded, _ in samples(type):
        assert valid(type, recorded) is True, key
    for block in (0, 3, 4):
        for offset, bad in SCALES.get(type, ()):
            broken = raw.copy()
            broken[block * size + offset : block * size + offset + len(bad)] = np.frombuffer(bad, np.uint8)
            assert valid(type, broken) is False, f"block {block}, offset {offset}"
    if size > 1:
        assert valid(type, raw[:-1]) is False


@pytest.mark.core
def test_every_type_has_a_block():
    assert set(BLOCKS) == set(utils.GGML_TYPE.__members__)
    for type in BLOCKS:
        assert dtype(type).itemsize == ggml.ggml_type_size(type_id(type)), type


@pytest.mark.core
@each(BLOCKS)
def test_every_scale_must_be_finite(type):
    """One exponent with all bits set makes a row invalid; no other bits do."""
    size, rng = dtype(type).itemsize, np.random.default_rng(14)
    for raw in (np.full((5, size), 0xFF, np.uint8), np.zeros((5, size), np.uint8), rng.bytes(5 * size)):
        raw = np.frombuffer(raw, np.uint8).reshape(5, size).copy()
        for offset, exponent in scales(type):  # the lowest bit that is set in an exponent is cleared
            for at, byte in enumerate(exponent):
                raw[:, offset + at] &= 0xFF ^ (byte & -byte)
        assert valid(type, raw) is True
        for offset, exponent in scales(type):
            for block in range(5):
                broken = raw.copy()
                broken[block, offset : offset + len(exponent)] |= np.frombuffer(exponent, np.uint8)
                assert valid(type, broken) is False, f"block {block}, offset {offset}"


def test_weights_that_are_required(ctx):
    x, out = RECORDED["x/normal"], ctypes.create_string_buffer(1 << 14)
    for type in QUANTISED:
        assert ggml.ggml_quantize_requires_imatrix(type_id(type)) is (type in NEED_WEIGHTS)
    for type in NEED_WEIGHTS:
        with pytest.raises(ValueError, match="^ggml_quantize_chunk: .* needs importance weights"):
            ggml.ggml_quantize_chunk(type_id(type), x.ctypes.data_as(FP), out, 0, *x.shape, None)
        a, rows = (tensor(ctx, x.astype(float), t) for t in (type, "F32"))
        with pytest.raises(ValueError, match="^ggml_add: .* there is no conversion from f32"):
            ggml.ggml_add(ctx, a, rows)
        with pytest.raises(ValueError, match="^ggml_set_rows: .* there is no conversion from f32"):
            ggml.ggml_set_rows(ctx, a, rows, ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I64, len(x)))


def test_part_of_the_rows_and_threads():
    """Rows quantised in parts, by `start`, equal the rows of one call. There are enough rows for several threads."""
    x = np.tile(RECORDED["x/normal"], (40, 1))
    whole = quantise("Q4_K", x)
    np.testing.assert_array_equal(whole.reshape(40, -1), whole[: whole.size // 40][None].repeat(40, 0))
    out = np.zeros_like(whole)
    for start, count in ((0, 7), (7, 100), (107, 53)):
        written = ggml.ggml_quantize_chunk(
            type_id("Q4_K"), x.ctypes.data_as(FP), out.ctypes.data_as(ctypes.c_void_p), start * 1024, count, 1024, None
        )
        assert written == whole.size // 160 * count
    np.testing.assert_array_equal(out, whole)


@pytest.mark.parametrize("type", ["F32", "F16", "Q8_0", "Q4_K"])
@pytest.mark.parametrize(
    "start, rows, width",
    [
        (0, 1, 1 << 57),
        (0, 1 << 57, 256),
        (0, 1 << 49, 256),
        (1 << 62, 1, 256),
        (0, 1 << 30, 1 << 30),
        (0, 1 << 55, 256),
        (0, 1, 2048),
        (0, 2, 1024),
        (1024, 1, 1024),
    ],
)
def test_more_rows_than_the_memory_holds(type, start, rows, width):
    """Sizes up to those whose products overflow are refused, and nothing is written."""
    x, out = np.ones(1024, np.float32), np.full(4096, 7, np.uint8)
    pointer = ctypes.cast((ctypes.c_float * 1024).from_buffer(x), FP)
    with pytest.raises(ValueError, match="^ggml_quantize_chunk: (src .* need|.* larger than any memory)"):
        ggml.ggml_quantize_chunk(type_id(type), pointer, out.ctypes.data, start, rows, width, None)
    assert (out == 7).all()


def test_another_reader():
    """The package gguf of PyPI gives the same decoded values and, for the types that it can quantise, the same
    bytes.
    """
    peer = pytest.importorskip("gguf")
    compared = {"decoded": 0, "quantised": 0}
    for type in TYPES:
        kind = getattr(peer.GGMLQuantizationType, type, None)
        for key, x, weights, raw, want in samples(type):
            try:
                theirs = peer.quants.dequantize(raw.reshape(x.shape[0], -1), kind)
            except (NotImplementedError, AttributeError, KeyError):
                continue
            compared["decoded"] += 1
            np.testing.assert_array_equal(theirs.reshape(want.shape), want, key)
            if weights is None:
                try:
                    theirs = peer.quants.quantize(x, kind)
                except NotImplementedError:
                    continue
                compared["quantised"] += 1
                theirs = peer.quants.dequantize(theirs, kind)  # a scale of 0 may be stored as -0
                np.testing.assert_array_equal(theirs.ravel(), decode(type, quantise(type, x), x.size), key)
    assert compared["decoded"] > 200 and compared["quantised"] > 50


@pytest.mark.core
def test_removed_types_have_no_blocks():
    """Programs iterate over all numbers up to GGML_TYPE_COUNT and skip those whose block or size is 0."""
    empty = [t for t in range(ggml.GGML_TYPE_COUNT) if not ggml.ggml_type_size(t)]
    assert (
        empty
        == [4, 5, 31, 32, 33, 36, 37, 38]
        == [t for t in range(ggml.GGML_TYPE_COUNT) if not ggml.ggml_blck_size(t)]
    )
    for t in empty:
        traits = ggml.ggml_get_type_traits(t).contents
        assert (
            ggml.ggml_type_name(t)
            == traits.type_name
            == ggml.ggml_internal_get_type_traits(t).type_name
            == b"DEPRECATED"
        )
        assert not (
            traits.blck_size or traits.type_size or traits.is_quantized or traits.to_float or traits.from_float_ref
        )
        traits = ggml.ggml_get_type_traits_cpu(t).contents
        assert not (traits.from_float or traits.vec_dot)
        assert ggml.ggml_is_quantized(t) is False and ggml.ggml_quantize_requires_imatrix(t) is False
        for call in (ggml.ggml_type_sizef, lambda t: ggml.ggml_row_size(t, 32)):
            with pytest.raises(ValueError, match=f"type is {t}: no tensor type"):
                call(t)
    assert ggml.ggml_type_name(43) is None and ggml.ggml_type_name(-1) is None
    with pytest.raises(ValueError, match="ggml_blck_size: type is 43: no tensor type"):
        ggml.ggml_blck_size(43)


# ---- dot products ----------------------------------------------------------------------------------------------------
def dots_agree(traits, x, y, a, b, note):
    """On each ISA the dot product of the rows x and y equals that of their decoded values a and b."""
    for name in ISAS:
        with isa(name):
            s = ctypes.c_float(np.nan)
            where = (v.ctypes.data_as(ctypes.c_void_p) for v in (x, y))
            traits.vec_dot(a.size, ctypes.byref(s), 0, next(where), 0, next(where), 0, 1)
        assert abs(s.value - a @ b) <= 1e-5 * (np.abs(a) @ np.abs(b)), f"{note} on {name}"


@pytest.mark.core
@each([*QUANTISED[:-2], "F32", "F16", "BF16"])
def test_dot_product(type):
    """The dot product of a type with its activation type equals that of the decoded values, for any number of blocks
    (floats: of 37 elements).
    """
    traits = ggml.ggml_get_type_traits_cpu(type_id(type)).contents
    activation = ggml.ggml_type_name(traits.vec_dot_type).decode().upper()
    block = 37 if type in DTYPES else max(ggml.ggml_blck_size(type_id(t)) for t in (type, activation))
    rng = np.random.default_rng(11)
    for blocks in (1, 2, 3, 5):
        n = blocks * block
        x = quantise(type, rng.standard_normal((1, n)), np.ones(n))
        y = quantise(activation, rng.standard_normal((1, n)))
        a, b = decode(type, x, n).astype(float), decode(activation, y, n).astype(float)
        dots_agree(traits, x, y, a, b, f"{blocks} blocks")


@each(QUANTISED[:-2])
def test_dot_product_of_any_bytes(type):
    """Blocks of random bytes, whose codes and scales no search would choose. All values have one sign, so the sums
    are large.
    """
    traits = ggml.ggml_get_type_traits_cpu(type_id(type)).contents
    activation = ggml.ggml_type_name(traits.vec_dot_type).decode().upper()
    rng = np.random.default_rng(12)
    for blocks in (1, 2, 4, 9, 67):
        n = blocks * max(ggml.ggml_blck_size(type_id(t)) for t in (type, activation))
        a = np.array(np.nan)
        while not np.isfinite(a).all():
            x = rng.integers(0, 256, ggml.ggml_row_size(type_id(type), n)).astype(np.uint8)
            if type == "MXFP4":  # only the exponents can overflow
                x[::17] = 64 + x[::17] % 128
            a = decode(type, x, n).astype(float)
        y = quantise(activation, 1 + rng.random((1, n)))
        b = decode(activation, y, n).astype(float)
        dots_agree(traits, x, y, a, b, f"{blocks} blocks")


@each(["Q4_0", "Q5_0", "Q3_K", "Q6_K", "TQ2_0"])
def test_dot_product_of_zeros(type):
    """Codes are biased. Weights of 0 must add exactly nothing, whatever they are multiplied by."""
    traits = ggml.ggml_get_type_traits_cpu(type_id(type)).contents
    activation = ggml.ggml_type_name(traits.vec_dot_type).decode().upper()
    a, b = np.zeros((1, 5 * 256), np.float32), np.random.default_rng(13).standard_normal((1, 5 * 256))
    a[0, ::256], b[0, ::256] = -1, 0
    x, y = quantise(type, a), quantise(activation, b)
    for name in ISAS:
        with isa(name):
            s = ctypes.c_float(np.nan)
            where = (v.ctypes.data_as(ctypes.c_void_p) for v in (x, y))
            traits.vec_dot(a.size, ctypes.byref(s), 0, next(where), 0, next(where), 0, 1)
        assert s.value == 0, name


# ---- operations ------------------------------------------------------------------------------------------------------
def on_each(ctx, out, check, threads=(1, 2)):
    """Computes on every ISA. The results of all thread counts must be equal bit by bit."""
    graph = graph_of(ctx, out)
    for name in ISAS:
        with isa(name):
            first = None
            for n in threads:
                memory(out)[:] = 0xFF
                compute(ctx, graph, n)
                check(f"{name}, {n} threads")
                first = memory(out).copy() if first is None else first
                np.testing.assert_array_equal(memory(out), first, f"{name}: threads")


def operand(ctx, type, x):
    """A tensor of a type with gaps behind its rows and matrices, and its decoded values."""
    ty, ne = type_id(type), x.shape[::-1]
    raw = memory(quantized(ctx, x, type)).reshape(*x.shape[:-1], -1)
    base = ggml.ggml_new_tensor_4d(ctx, ty, ne[0] + ggml.ggml_blck_size(ty), ne[1] + 1, *ne[2:])
    memory(base)[:] = 0xFF
    nb = base.contents.nb[:4]
    np.lib.stride_tricks.as_strided(memory(base)[nb[0] :], raw.shape, (*nb[:0:-1], 1))[...] = raw
    t = ggml.ggml_view_4d(ctx, base, *ne, *nb[1:], nb[0])
    return t, decode(type, raw, x.size).reshape(x.shape).astype(float)


def width(type, blocks=1):
    return blocks * max(32, ggml.ggml_blck_size(type_id(type)))


def spread(a, b):
    """a with its matrices repeated to as many as b has: neighbouring matrices of b share one."""
    return np.repeat(np.repeat(a, b.shape[0] // a.shape[0], 0), b.shape[1] // a.shape[1], 1)


def largest(blocks, most=127):
    """The magnitude of each block that gets the largest code: that of its values, or 2^-120 / 127 for each code."""
    return np.maximum(np.abs(blocks).max(1, keepdims=True), np.float32(2.0**-120 * most / 127))


def rounded_to_activation(type, b):
    """Vectors as a product with few of them rounds them: to the codes of the activation type, with scales in f32."""
    activation = ggml.ggml_get_type_traits_cpu(type_id(type)).contents.vec_dot_type
    name = ggml.ggml_type_name(activation).decode().upper()
    if name == "F32" or b.shape[-1] % ggml.ggml_blck_size(activation):
        return b
    blocks = b.astype(np.float32).reshape(-1, ggml.ggml_blck_size(activation))
    if name == "Q8_K":  # half to even
        inverse = np.float32(127) / largest(blocks)
        codes, scale = np.rint(blocks * inverse), np.float32(1) / inverse
    else:  # half away from zero
        scale = largest(blocks) / np.float32(127)
        scaled = blocks * (np.float32(1) / scale)
        codes = np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))
    return (codes.astype(float) * scale).reshape(b.shape)


GROUPS = dict.fromkeys(("Q2_K", "Q3_K", "Q6_K", "IQ2_XS", "IQ2_S", "IQ1_M", "NVFP4"), 16)


# The bytes of a block that hold its floating-point scales: by default the first two.
SCALE_BYTES = dict.fromkeys(("Q4_1", "Q5_1", "Q8_1", "NVFP4", "Q4_K", "Q5_K", "Q8_K"), slice(4)) | {"MXFP4": slice(1)}
SCALE_BYTES |= dict.fromkeys(("Q3_K", "Q6_K", "TQ1_0", "TQ2_0"), slice(-2, None)) | {
    "Q2_K": slice(-4, None),
    "IQ1_M": slice(-8, None),
}


def rounded_in_groups(b, size, most):
    """Vectors as a tile of integers rounds them: to -most..most, with one scale per group of values."""
    groups = b.astype(np.float32).reshape(-1, size)
    top = largest(groups, most)
    scale, inverse = top * np.float32(1 / most), np.float32(most) / top
    return (np.rint(groups * inverse).astype(float) * scale).reshape(b.shape)


SCALED = ("Q8_0", "IQ4_NL", "IQ4_XS")  # without VNNI, tiles multiply their codes by their scales first


def codes_of(type, x):
    """The codes and scales of blocks of 32 that the encoders of Q8_0 and IQ4_NL wrote."""
    blocks = x.reshape(-1, 32)
    top = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
    codes = np.array([127])
    if type == "IQ4_NL":  # the values of a block whose scale is 1
        raw = np.concatenate([np.array([1], np.float16).view(np.uint8), np.arange(16, dtype=np.uint8)])
        codes = decode(type, raw, 32)[:16].astype(int)
    scales = (top / codes).astype(np.float16).astype(float)  # one of these is that of the block
    near = blocks[:, None] / np.where(scales == 0, 1, scales)[..., None]
    found = np.rint(near) if type == "Q8_0" else codes[np.abs(near[..., None] - codes).argmin(-1)]
    best = np.abs(near - found).max(-1).argmin(1)
    each = np.arange(len(blocks))
    return found[each, best], scales[each, best]


def steps(k):
    """The elements of the scale groups of such tiles: as many as divide k, at most 256."""
    return next(size for size in (256, 128, 64, 32) if k % size == 0)


def scaled_first(type, x):
    """A matrix as such tiles round it: scales are parts of the largest one of their group, products have 13 bits."""
    if type == "IQ4_XS":
        return x  # has scales of integers
    codes, scales = codes_of(type, x)
    scales = scales.reshape(-1, steps(x.shape[-1]) // 32)
    most = np.maximum(np.abs(scales).max(1, keepdims=True), 1e-30)
    parts = np.minimum(np.rint(scales * (32768 / most)), 32767).reshape(-1, 1)
    words = np.floor((32 * codes * parts + 16384) / 32768)
    return (words.reshape(scales.shape[0], -1) * (most / 32)).reshape(x.shape)


def roundings(type, b, x):
    """Vectors and matrices of the type in all the ways in which products round them."""
    vectors = [b, rounded_to_activation(type, b), rounded_in_groups(b, GROUPS.get(type, 32), 127)]
    pairs = [(v, x) for v in vectors]
    if type in SCALED:
        pairs.append((rounded_in_groups(b, steps(b.shape[-1]), 2032), scaled_first(type, x)))
        pairs.append((rounded_in_groups(b, 16, 32767), x))  # few columns without VNNI
    return pairs


def near_any(got, wants, scale, note, limit=1e-6):
    """Asserts that each result is close to one of several expected ones: a tile of floats, a tile of integers or a
    dot product computes it, depending on the ISA and the sizes (of an indexed product: the sizes of each group of
    rows). `scale` is the product of the absolute values.
    """
    errors = [(np.abs(got - want) / scale).max(-1) for want in wants]
    worst = np.minimum.reduce(errors).max()
    assert worst <= limit, f"{note}: off by {worst} of the size of the terms"


@each(QUANTISED)
@pytest.mark.parametrize("n", [1, 2, 4, 5, 12, 19])
@pytest.mark.parametrize("layout", ["plain", "permuted", "padded"])
def test_mul_mat(type, n, layout):
    r = Random(n)
    for blocks, m, a2, b2, b3 in ((1, 1, 1, 1, 1), (2, 7, 2, 4, 3), (3, 37, 1, 1, 1)):
        with context() as ctx:
            a, x = operand(ctx, type, r(width(type, blocks), m, a2))
            y = r(width(type, blocks), n, b2, b3)
            b = tensor(ctx, y, "F16" if layout == "padded" else "F32", layout)
            y = load(b)
            out = ggml.ggml_mul_mat(ctx, a, b)
            matrices = spread(x, y).swapaxes(-1, -2)
            wants = [v @ spread(w, y).swapaxes(-1, -2) for v, w in roundings(type, y, x)]
            scale = np.abs(y) @ np.abs(matrices)
            on_each(ctx, out, lambda note: near_any(load(out), wants, scale, note))


@each(QUANTISED)
@pytest.mark.parametrize("n", [1, 2, 3, 19])
def test_mul_mat_of_precision_f32(type, n):
    """The product equals that of the decoded values; 8-bit codes of y would make errors a thousand times larger."""
    r = Random(n)
    with context() as ctx:
        a, x = operand(ctx, type, r(width(type, 2), 37))
        y = r(width(type, 2), n)
        x = x.reshape(-1, width(type, 2))
        out = ggml.ggml_mul_mat(ctx, a, tensor(ctx, y, "F32"))
        ggml.ggml_mul_mat_set_prec(out, ggml.GGML_PREC_F32)
        scale = np.abs(y) @ np.abs(x).T
        on_each(ctx, out, lambda note: near_any(load(out), [y @ x.T], scale, note, 1e-6))


@each(["Q4_0", "Q4_1", "Q5_0", "Q8_0", "IQ4_NL", "IQ4_XS", "Q4_K", "Q5_K", "Q6_K", "Q2_K"])
def test_columns_alike(type):
    """A column has the same bits beside any number of others, from 5 on, up to the number that the kernels name.

    That holds unless operands are swapped, as they are where few rows leave most lanes of a vector empty.
    """
    with context() as ctx:
        a, _ = operand(ctx, type, Random(1)(512, 160))
        y = Random(2)(512, 70)
        outs = {n: ggml.ggml_mul_mat(ctx, a, tensor(ctx, y[..., :n, :], "F32")) for n in (5, 8, 23, 24, 25, 33, 70)}
        graph = ggml.ggml_new_graph(ctx)
        for out in outs.values():
            ggml.ggml_build_forward_expand(graph, out)
        for name in ISAS:
            with isa(name):
                ggml.ggml_graph_compute_with_ctx(ctx, graph, 2)
                most = _core.columns_alike() or 70
                assert most >= 24
                for n, out in outs.items():
                    if n <= most:
                        assert np.array_equal(load(out)[0, 0, :5], load(outs[5])[0, 0]), (name, n)


@each(["Q8_0", "Q4_K"])
@pytest.mark.parametrize("n", [2, 8])
def test_mul_mat_of_extreme_columns(type, n):
    """Columns of zeros, of very small and of very large values; values that are not finite affect only their column."""
    with context() as ctx:
        a, x = operand(ctx, type, Random(8)(512, 37))
        y = Random(9)(512, n, 4)[0].astype(np.float32)
        y[:, 1, 3], y[:, 1, 200:232] = 0, 0
        y[0, 1], y[1, 1], y[2, 1] = 0, y[1, 1] * np.float32(1e-42), y[2, 1] * np.float32(1e6)
        y[3, 1, 7] = np.nan
        out = ggml.ggml_mul_mat(ctx, a, tensor(ctx, y.astype(float)[None], "F32"))
        finite = np.isfinite(y).all(-1)
        y = np.where(finite[..., None], y, 0).astype(float)
        wants = [v @ w[0, 0].T for v, w in roundings(type, y, x)]
        scale = np.abs(y) @ np.abs(x[0, 0].T) + 1e-30

        def check(note):
            got = load(out)[0]
            assert not np.isfinite(got[~finite]).any(), note
            near_any(got[finite], [want[finite] for want in wants], scale[finite], note)

        on_each(ctx, out, check)


@each(QUANTISED)
@pytest.mark.parametrize("n", [1, 4, 5, 30])
def test_mul_mat_propagates_values_that_are_not_finite(type, n):
    """A NaN or infinity affects all products with its column, whatever the rounding, and no other."""
    k = width(type, 2)
    with context() as ctx:
        b = tensor(ctx, Random(n)(k, n), "F32")
        out = ggml.ggml_mul_mat(ctx, operand(ctx, type, Random(11)(k, 19))[0], b)
        for at, odd in ((0, np.nan), (k - 1, np.inf), (k // 3, -np.inf), (k // 2 + 5, np.nan)):
            column = at % n
            kept = elements(b)[0, 0, column, at]
            elements(b)[0, 0, column, at] = odd
            spoilt = np.arange(n)[:, None] == column
            on_each(
                ctx,
                out,
                lambda note: np.testing.assert_array_equal(
                    ~np.isfinite(load(out)[0, 0]), spoilt + np.zeros(19, bool), note
                ),
            )
            elements(b)[0, 0, column, at] = kept


@each(QUANTISED)
@pytest.mark.parametrize("m, n", [(6, 20), (18, 8)])
def test_mul_mat_of_extreme_codes(type, m, n):
    """Sums are largest if all codes and all values are: sums in 16 bits must not overflow."""
    k, codes = width(type, 2), (0x00, 0xFF, 0x80, 0x7F, 0x55, 0xAA)
    with context() as ctx:
        a = quantized(ctx, Random(10)(k, m), type)
        rows = memory(a).reshape(m, -1, ggml.ggml_type_size(type_id(type)))
        for row, code in zip(rows, codes * (m // len(codes)), strict=True):
            kept = row[:, SCALE_BYTES.get(type, slice(2))].copy()
            row[:], row[:, SCALE_BYTES.get(type, slice(2))] = code, kept
        x = decode(type, memory(a), m * k).reshape(m, k).astype(float)
        y = np.ones((1, 1, n, k))
        y[..., ::2, :], y[..., n // 2 :, 1::2] = -1, -y[..., n // 2 :, 1::2]
        scale = np.abs(y) @ np.abs(x.T) + 1e-30
        out = ggml.ggml_mul_mat(ctx, a, tensor(ctx, y, "F32"))
        # All terms have one sign, so the rounding errors add up. Of 18 rows some have scales of different sizes, as
        # whose parts a code of 1 is rounded to a few bits.
        limit = (1.3e-4 if m == 6 else 0.02) if type in SCALED else 4e-6 if m == 6 else 4e-5
        on_each(ctx, out, lambda note: near_any(load(out), [y @ x.T], scale, note, limit))


@each(QUANTISED)
def test_mul_mat_id(type):
    r = Random(5)
    for blocks, m, matrices, used, tokens, rows in ((1, 5, 3, 2, 1, 2), (2, 19, 4, 3, 7, 1), (1, 33, 2, 2, 9, 2)):
        with context() as ctx:
            a, x = operand(ctx, type, r(width(type, blocks), m, matrices))
            y, ids = r(width(type, blocks), rows, tokens), r.ints(matrices, used, tokens)
            out = ggml.ggml_mul_mat_id(ctx, a, tensor(ctx, y, "F32", "permuted"), tensor(ctx, ids, "I32"))
            wants = [
                np.einsum("tumk,tuk->tum", w[0, ids[0, 0]], np.tile(v[0], (1, used // rows, 1)))[None]
                for v, w in roundings(type, y, x)
            ]
            scale = np.linalg.norm(x[0], axis=-1).max() * np.linalg.norm(y, axis=-1).max()
            on_each(ctx, out, lambda note: near_any(load(out), wants, scale, note))


@each(QUANTISED)
def test_out_prod(type):
    r = Random(6)
    for blocks, k, n, a2, b2, b3 in ((1, 1, 1, 1, 1, 1), (2, 7, 5, 2, 4, 3), (1, 40, 33, 1, 1, 2)):
        with context() as ctx:
            a, x = operand(ctx, type, r(width(type, blocks), k, a2))
            y = r(n, k, b2, b3)
            out = ggml.ggml_out_prod(ctx, a, tensor(ctx, y, "F32", "transposed"))
            want = y.swapaxes(-1, -2) @ spread(x, y)
            on_each(ctx, out, lambda note: close(load(out), want, 1e-5, note))


@each(QUANTISED)
@pytest.mark.parametrize("index", ["I32", "I64"])
def test_get_rows(type, index):
    r = Random(7)
    with context() as ctx:
        a, x = operand(ctx, type, r(width(type, 3), 9, 3, 2))
        ids = r.ints(9, 5, 3, 2)
        out = ggml.ggml_get_rows(ctx, a, tensor(ctx, ids, index, "padded"))
        want = np.stack([[x[i, j, ids[0, i, j]] for j in range(3)] for i in range(2)])
        on_each(ctx, out, lambda note: np.testing.assert_array_equal(load(out), want, note))


def converts_to(type):
    return bool(ggml.ggml_get_type_traits_cpu(type_id(type)).contents.from_float)


@each(QUANTISED)
@pytest.mark.parametrize("plain", ["F32", "F16", "BF16"])
def test_copies(type, plain):
    """Copies to and from plain types, in every layout of the plain tensor."""
    r, code = (
        Random(8),
        {"F32": lambda v: v, "F16": lambda v: v.astype(np.float16), "BF16": lambda v: from_bf16(to_bf16(v))},
    )
    for layout in ("plain", "permuted", "padded"):
        with context() as ctx:
            a, x = operand(ctx, type, r(width(type, 3), 5, 2, 3))
            out = ggml.ggml_cpy(ctx, a, tensor(ctx, np.zeros(x.shape), plain, layout))
            want = code[plain](x.astype(np.float32)).astype(float)
            graph = graph_of(ctx, out)
            for name in ISAS:
                with isa(name):
                    elements(out)[...] = 0
                    compute(ctx, graph, 2)
                    np.testing.assert_array_equal(load(out), want, f"{layout}, {name}")
            source = tensor(ctx, r(width(type, 3), 5, 2, 3), plain, layout)
            if not converts_to(type):
                with pytest.raises(ValueError, match="^ggml_cast: .* there is no conversion"):
                    ggml.ggml_cast(ctx, source, type_id(type))
                continue
            cast = ggml.ggml_cast(ctx, source, type_id(type))
            raw = convert(type, load(source))
            on_each(ctx, cast, lambda note: np.testing.assert_array_equal(memory(cast), raw, f"{layout}, {note}"))


@each([t for t in QUANTISED if t not in NEED_WEIGHTS])
@pytest.mark.parametrize("layout", ["plain", "permuted", "padded"])
def test_set_rows(type, layout):
    r = Random(9)
    with context() as ctx:
        a, _ = operand(ctx, type, r(width(type, 2), 9, 3, 2))
        rows, ids = r(width(type, 2), 5, 3, 2), r.order(9, 5, 3, 1, dtype=np.int64)
        out = ggml.ggml_set_rows(ctx, a, tensor(ctx, rows, "F32", layout), tensor(ctx, ids, "I64"))
        graph, before = graph_of(ctx, out), memory(a).copy()
        want = decode(type, convert(type, rows), rows.size).reshape(rows.shape)
        for name in ISAS:
            for threads in (1, 2):
                with isa(name):
                    memory(a)[:] = before
                    whole = ggml.ggml_cast(ctx, out, ggml.GGML_TYPE_F32)
                    compute(ctx, graph, threads)
                    compute(ctx, graph_of(ctx, whole), 1)
                got = load(whole)
                for i in range(2):
                    for j in range(3):
                        np.testing.assert_array_equal(got[i, j, ids[0, 0, j]], want[i, j], f"{name}, {threads} threads")


@each([t for t in QUANTISED if t not in NEED_WEIGHTS])
def test_add(type):
    """A quantised tensor plus an F32 tensor that is repeated: the sum is of the quantised type, or F32."""
    r = Random(10)
    for shape_b in ((1, 5, 2, 3), (1, 1, 1, 3), (1, 1, 1, 1)):
        with context() as ctx:
            ne0 = width(type, 2)
            a, x = operand(ctx, type, r(ne0, 5, 2, 3))
            y = r(ne0, *shape_b[1:])
            b = tensor(ctx, y, "F32", "permuted")
            total = (x.astype(np.float32) + y.astype(np.float32)).astype(np.float32)
            out, wide = ggml.ggml_add(ctx, a, b), ggml.ggml_add_cast(ctx, a, b, ggml.GGML_TYPE_F32)
            raw = convert(type, total)
            on_each(ctx, out, lambda note: np.testing.assert_array_equal(memory(out), raw, note))
            on_each(ctx, wide, lambda note: np.testing.assert_array_equal(load(wide), total, note))


@each(QUANTISED)
def test_attention(type):
    """Keys and values of the type, with gaps, for one query and for many."""
    r = Random(11)
    d = width(type)
    for n_q, n_kv, heads in ((1, 5, 1), (1, 37, 2), (9, 33, 2)):
        with context() as ctx:
            q = r(d, n_q, 2 * heads)
            (k, keys), (v, values) = (operand(ctx, type, r(d, n_kv, heads)) for _ in range(2))
            out = ggml.ggml_flash_attn_ext(ctx, tensor(ctx, q, "F32", "permuted"), k, v, None, d**-0.5, 0.0, 0.0)
            e = q @ np.repeat(keys, 2, 1).swapaxes(-1, -2) * d**-0.5
            e = np.exp(e - e.max(-1, keepdims=True))
            want = (e / e.sum(-1, keepdims=True) @ np.repeat(values, 2, 1)).swapaxes(1, 2)
            on_each(ctx, out, lambda note: close(load(out), want, 5e-3, note))
