"""Rotary position embeddings."""

import ctypes

import numpy as np

from . import Op

NORMAL, NEOX, MROPE, VISION, IMROPE = 0, 2, 8, 24, 40


def section_of(pair, sections, mode):
    """Which of the four positions rotates a pair, and the pair from which its exponent counts."""
    ends = np.cumsum(sections)
    at = pair % ends[3]
    if mode == IMROPE:
        return (at % 3 if at < 3 * sections[at % 3] else 3), 0
    section = int(np.searchsorted(ends, at, side="right"))
    return section, (pair - at + ends[section] - sections[section] if mode == VISION else 0)


def angles(pos, n_dims, mode, factors, sections, n_ctx, base, scale, ext, beta_fast, beta_slow):
    """The angles [tokens, pairs]; with YaRN (arXiv:2309.00071) where ext is not 0."""
    pairs = n_dims if mode == VISION else n_dims // 2
    which = [section_of(i, sections, mode) if mode & 8 else (0, 0) for i in range(pairs)]
    pos = pos.reshape(4 if mode & 8 else 1, -1).astype(np.float64)
    i = np.arange(pairs)
    theta = pos[[s for s, _ in which]].T * base ** (-2.0 * (i - np.array([f for _, f in which])) / n_dims)
    theta = theta / (1 if factors is None else factors.ravel()[:pairs])
    if ext == 0:
        return theta * scale
    low, high = (n_dims * np.log(n_ctx / (beta * 2 * np.pi)) / (2 * np.log(base)) for beta in (beta_fast, beta_slow))
    low, high = max(0, np.floor(low)), min(n_dims - 1, np.ceil(high))
    keep = (1 - np.clip((i - low) / max(0.001, high - low), 0, 1)) * ext
    return theta * (scale * (1 - keep) + keep)


def rotate(x, b, c, n_dims, sections, mode, n_ctx, base, scale, ext, size, fast, slow, sign=1):
    """Rotates pairs of elements of x: neighbours in mode NORMAL, else elements as far apart as there are pairs."""
    theta = sign * angles(b, n_dims, mode, c, list(sections or []), n_ctx, base, scale, ext, fast, slow)[:, None, :]
    theta = theta.reshape(1, x.shape[1], 1, -1)
    size *= 1 - 0.1 * np.log(scale) if ext else 1
    pairs = theta.shape[-1]
    first = np.arange(pairs) * 2 if mode == NORMAL else np.arange(pairs)
    second = first + (1 if mode == NORMAL else pairs)
    y = x.copy()
    y[..., first] = (x[..., first] * np.cos(theta) - x[..., second] * np.sin(theta)) * size
    y[..., second] = (x[..., first] * np.sin(theta) + x[..., second] * np.cos(theta)) * size
    return y


def rope(x, b, n_dims, mode):
    return rotate(x, b, None, n_dims, None, mode, 0, 10000.0, 1.0, 0.0, 1.0, 0.0, 0.0)


def rope_ext(x, b, c, n_dims, mode, *rest, sign=1):
    return rotate(x, b, c, n_dims, None, mode, *rest, sign=sign)


def rope_ext_back(*args):
    return rope_ext(*args, sign=-1)


def rope_multi_back(*args):
    return rotate(*args, sign=-1)


def rope_back(x, b, c, n_dims, mode, n_ctx, n_orig_ctx, *rest):
    return rope_ext_back(x, b, c, n_dims, mode, n_orig_ctx, *rest[:6])


def sections_array(*sections):
    """Four sections as a ctypes array."""
    return (ctypes.c_int * 4)(*sections)


# n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow
PLAIN = (0, 10000.0, 1.0, 0.0, 1.0, 0.0, 0.0)
YARN = (4096, 10000.0, 0.25, 1.0, 1.2, 32.0, 1.0)
EXT = (
    lambda r: [r(10, 2, 3), r.ints(9, 3), r(5, low=0.5, high=2), 10, NORMAL, *PLAIN],
    lambda r: [r(10, 2, 3, 2), r.ints(9, 3), r(4, low=0.5, high=2), 6, NEOX, *YARN],
    lambda r: [r(64, 4, 9), r.ints(4000, 9), r(32, low=0.5, high=2), 64, NEOX, *YARN],
    lambda r: [
        r(130, 3, 37, 2),
        r.ints(100000, 37),
        r(64, low=1, high=4),
        128,
        NORMAL,
        8192,
        5e5,
        0.5,
        0.5,
        1.0,
        32.0,
        1.0,
    ],
    lambda r: [r(128, 32, 64), r.ints(1 << 30, 64), r(64, low=1, high=4), 128, NEOX, *PLAIN],
)
MULTI = (
    lambda r: [r(16, 2, 3), r.ints(9, 12), r(8, low=0.5, high=2), 16, sections_array(3, 2, 2, 1), MROPE, *PLAIN],
    lambda r: [r(12, 2, 3), r.ints(9, 12), r(6, low=0.5, high=2), 6, sections_array(3, 3, 0, 0), VISION, *PLAIN],
    lambda r: [r(16, 2, 3), r.ints(9, 12), r(8, low=0.5, high=2), 14, sections_array(3, 3, 1, 1), IMROPE, *YARN],
    lambda r: [r(128, 5, 19, 2), r.ints(3000, 76), None, 128, sections_array(16, 24, 24, 0), MROPE, *YARN],
    lambda r: [r(80, 4, 25), r.ints(70, 100), None, 40, sections_array(20, 20, 20, 20), VISION, *PLAIN],
    lambda r: [r(128, 4, 7), r.ints(3000, 28), None, 128, sections_array(24, 20, 20, 0), IMROPE, *PLAIN],
)
HALVES = ("F32", ("F16", "F32"), ("BF16", "F32"))
ROPE_BAD = (
    (lambda r: [r(8, 2, 3), r.ints(9, 4), None, 8, 0, *PLAIN], ValueError, "need one i32 for each"),
    (lambda r: [r(8, 2, 3), r(3), None, 8, 0, *PLAIN], ValueError, "b is f32 [3]"),
    (lambda r: [r(8, 2, 3), r.ints(9, 3), None, 7, 0, *PLAIN], ValueError, "n_dims is 7"),
    (lambda r: [r(8, 2, 3), r.ints(9, 3), None, 10, 2, *PLAIN], ValueError, "n_dims is 10"),
    (lambda r: [r(8, 2, 3), r.ints(9, 3), None, 8, 1, *PLAIN], ValueError, "mode is 1"),
    (lambda r: [r(8, 2, 3), r.ints(9, 12), None, 8, 8, *PLAIN], ValueError, "sections are all 0"),
    (lambda r: [r(8, 2, 3), r.ints(9, 3), r(3), 8, 0, *PLAIN], ValueError, "c is f32 [3]"),
    (lambda r: [r(8, 2, 3), r.ints(9, 3), None, 8, 0, 0, 0.0, *PLAIN[2:]], ValueError, "freq_base is 0"),
    (lambda r: [r.ints(3, 8, 2, 3), r.ints(9, 3), None, 8, 0, *PLAIN], ValueError, "a is i32"),
)
MULTI_BAD = (
    (
        lambda r: [r(16, 2, 3), r.ints(9, 3), None, 16, sections_array(3, 2, 2, 1), 8, *PLAIN],
        ValueError,
        "need four i32",
    ),
    (
        lambda r: [r(16, 2, 3), r.ints(9, 12), None, 16, sections_array(3, -2, 2, 1), 8, *PLAIN],
        ValueError,
        "sections[1] is -2",
    ),
    (
        lambda r: [r(16, 2, 3), r.ints(9, 12), None, 16, sections_array(8, 8, 0, 0), 24, *PLAIN],
        ValueError,
        "half of ne[0]",
    ),
    (lambda r: [r(16, 2, 3), r.ints(9, 12), None, 16, (ctypes.c_int * 3)(1, 1, 1), 8, *PLAIN], ValueError, "sections"),
)


def without_factors(samples):
    """The samples with None for the frequency factors."""
    return tuple(lambda r, s=s: [*(a := s(r))[:2], None, *a[3:]] for s in samples)


OPS = [
    Op(
        "rope",
        rope,
        (
            lambda r: [r(10, 2, 3), r.ints(9, 3), 8, NORMAL],
            lambda r: [r(64, 4, 9, 2), r.ints(5000, 9), 64, NEOX],
            lambda r: [r(8, 0, 3), r.ints(9, 3), 8, 0],
        ),
        diff=(0,),
        inplace="rope_inplace",
        tol=4e-6,
    ),
    Op(
        "rope_ext",
        rope_ext,
        EXT,
        diff=(0, 2),
        inplace="rope_ext_inplace",
        types=HALVES,
        tol=4e-6,
        grad_tol=5e-4,
        bad=ROPE_BAD,
        strided=(0,),
    ),
    Op(
        "rope_custom",
        lambda x, b, *rest: rope_ext(x, b, None, *rest),
        tuple(lambda r, s=s: [*(a := s(r))[:2], *a[3:]] for s in EXT),
        diff=(0,),
        inplace="rope_custom_inplace",
        tol=4e-6,
    ),
    Op(
        "rope_multi",
        rotate,
        MULTI[:3],
        diff=(0, 2),
        inplace="rope_multi_inplace",
        types=HALVES,
        tol=4e-6,
        grad_tol=5e-4,
        bad=MULTI_BAD,
        strided=(0,),
    ),
    Op("rope_multi", rotate, MULTI[3:], inplace="rope_multi_inplace", tol=4e-6, name="rope_multi_without_factors"),
    Op("rope_ext_back", rope_ext_back, EXT, diff=(0, 2), types=HALVES, tol=4e-6, grad_tol=5e-4, strided=(0,)),
    Op("rope_ext_back", rope_ext_back, without_factors(EXT), diff=(0,), tol=4e-6, name="rope_ext_back_without_factors"),
    Op("rope_multi_back", rope_multi_back, MULTI[:3], diff=(0, 2), types=HALVES, tol=4e-6, grad_tol=5e-4, strided=(0,)),
    Op(
        "rope_back",
        rope_back,
        (lambda r: [r(10, 2, 3), r.ints(9, 3), None, 8, 0, 0, 4096, *YARN[1:], 0.0, False],),
        diff=(0,),
        tol=4e-6,
        bad=((lambda r: [r(10, 2, 3), r.ints(9, 3), None, 8, 0, 0, *PLAIN, 0.5, False], ValueError, "xpos_base"),),
    ),
]
