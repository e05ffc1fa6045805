"""Rotary positions and attention."""

import ctypes

import numpy as np

from . import As, Op
from .reduce import slopes, soft_max_ext, tiled

NORMAL, NEOX, MROPE, VISION, IMROPE = 0, 2, 8, 24, 40


# ---- rotary positions ------------------------------------------------------------------------------------------------
def section_of(pair, sections, mode):
    """Which position turns a pair, and the pair that its angle counts from."""
    ends = np.cumsum(sections)
    at = pair % ends[3]
    if mode == IMROPE:
        return (at % 3 if at < 3 * sections[at % 3] else 3), 0
    section = int(np.searchsorted(ends, at, side="right"))
    return section, (pair - at + ends[section] - sections[section] if mode == VISION else 0)


def angles(pos, n_dims, mode, factors, sections, n_ctx, base, scale, ext, beta_fast, beta_slow):
    """[tokens, pairs]"""
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


def turned(x, b, c, n_dims, sections, mode, n_ctx, base, scale, ext, size, fast, slow, sign=1):
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
    return turned(x, b, None, n_dims, None, mode, 0, 10000.0, 1.0, 0.0, 1.0, 0.0, 0.0)


def rope_ext(x, b, c, n_dims, mode, *rest, sign=1):
    return turned(x, b, c, n_dims, None, mode, *rest, sign=sign)


def rope_ext_back(*args):
    return rope_ext(*args, sign=-1)


def rope_multi_back(*args):
    return turned(*args, sign=-1)


def rope_back(x, b, c, n_dims, mode, n_ctx, n_orig_ctx, *rest):
    return rope_ext_back(x, b, c, n_dims, mode, n_orig_ctx, *rest[:6])


def four(*sections):
    return (ctypes.c_int * 4)(*sections)


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
    lambda r: [r(16, 2, 3), r.ints(9, 12), r(8, low=0.5, high=2), 16, four(3, 2, 2, 1), MROPE, *PLAIN],
    lambda r: [r(12, 2, 3), r.ints(9, 12), r(6, low=0.5, high=2), 6, four(3, 3, 0, 0), VISION, *PLAIN],
    lambda r: [r(16, 2, 3), r.ints(9, 12), r(8, low=0.5, high=2), 14, four(3, 3, 1, 1), IMROPE, *YARN],
    lambda r: [r(128, 5, 19, 2), r.ints(3000, 76), None, 128, four(16, 24, 24, 0), MROPE, *YARN],
    lambda r: [r(80, 4, 25), r.ints(70, 100), None, 40, four(20, 20, 20, 20), VISION, *PLAIN],
    lambda r: [r(128, 4, 7), r.ints(3000, 28), None, 128, four(24, 20, 20, 0), IMROPE, *PLAIN],
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
    (lambda r: [r(16, 2, 3), r.ints(9, 3), None, 16, four(3, 2, 2, 1), 8, *PLAIN], ValueError, "need four i32"),
    (lambda r: [r(16, 2, 3), r.ints(9, 12), None, 16, four(3, -2, 2, 1), 8, *PLAIN], ValueError, "sections[1] is -2"),
    (lambda r: [r(16, 2, 3), r.ints(9, 12), None, 16, four(8, 8, 0, 0), 24, *PLAIN], ValueError, "half of ne[0]"),
    (lambda r: [r(16, 2, 3), r.ints(9, 12), None, 16, (ctypes.c_int * 3)(1, 1, 1), 8, *PLAIN], ValueError, "sections"),
)


def without_factors(samples):
    return tuple(lambda r, s=s: [*(a := s(r))[:2], None, *a[3:]] for s in samples)


# ---- attention -------------------------------------------------------------------------------------------------------
def shared(x, q):
    """Keys or values repeated for the heads and batches that share them."""
    return np.repeat(np.repeat(x, q.shape[0] // x.shape[0], 0), q.shape[1] // x.shape[1], 1)


def scores(q, k, mask, scale, max_bias, softcap):
    x = q @ shared(k, q).swapaxes(-1, -2) * scale
    if softcap:
        x = softcap * np.tanh(x / softcap)
    if mask is not None:
        mask = tiled(mask[:, :, : q.shape[2], : k.shape[2]], x)
        x = x + slopes(q.shape[1], max_bias)[:, None, None] * mask
    return x


def weights(x, sinks=None):
    """Soft-max; a row without any weight is zero."""
    extra = (
        np.full((*x.shape[:3], 1), -np.inf)
        if sinks is None
        else np.broadcast_to(sinks.reshape(-1, 1, 1), (*x.shape[:3], 1))
    )
    x = np.concatenate([x, extra], -1)
    top = x.max(-1, keepdims=True)
    e = np.exp(x - np.where(np.isneginf(top), 0, top))
    return (e / np.maximum(e.sum(-1, keepdims=True), 1e-300))[..., :-1]


def attention(q, k, v, mask, scale, max_bias, softcap, sinks=None):
    return (weights(scores(q, k, mask, scale, max_bias, softcap), sinks) @ shared(v, q)).swapaxes(1, 2)


def causal(n_kv, n_q):
    return np.where(np.arange(n_kv) > np.arange(n_q)[:, None] + n_kv - n_q, -np.inf, 0.0)


def folded(x, like):
    """Summed over the heads and batches that share one of `like`."""
    b, h = like.shape[:2]
    return x.reshape(b, x.shape[0] // b, h, x.shape[1] // h, *x.shape[2:]).sum((1, 3))


def padded16(x):
    return np.concatenate([x.ravel(), np.zeros(-x.size % 4)])


def flash_attn_back(q, k, v, d, masked):
    """The gradients of q, k and v one after the other, by the chain rule."""
    scale, values = max(1, q.shape[-1]) ** -0.5, shared(v, q)
    w = weights(q @ shared(k, q).swapaxes(-1, -2) * scale + (causal(k.shape[2], q.shape[2]) if masked else 0))
    dw = d @ values
    dx = w * (dw - (w * dw).sum(-1, keepdims=True)) * scale
    dk, dv = dx.swapaxes(-1, -2) @ q, d.swapaxes(-1, -2) @ w
    return np.concatenate([padded16(g) for g in (dx @ shared(k, q), folded(dk, k), folded(dv, v))])


def qkv(r, d, dv, n_q, n_kv, heads=(1, 1), batch=(1, 1)):
    return [r(d, n_q, heads[0], batch[0]), r(d, n_kv, heads[1], batch[1]), r(dv, n_kv, heads[1], batch[1])]


def hidden(r, *ne):
    """A mask that hides a third of the keys, all of the second query's, and long stretches."""
    x = r(*ne)
    x = np.where(r(*ne) < -0.5, -np.inf, x)
    if ne[1] > 1:
        x[..., 1, :] = -np.inf
    x[..., 256:600] = -np.inf
    return x


FLASH = (
    lambda r: [*qkv(r, 5, 3, 4, 6), None, 0.5, 0.0, 0.0],
    lambda r: [*qkv(r, 4, 3, 3, 5, (4, 2)), r(5, 3), 0.5, 0.0, 0.0],
    lambda r: [*qkv(r, 4, 2, 2, 5, (6, 3), (2, 1)), r(7, 4, 1, 2), 0.7, 8.0, 3.0],
    lambda r: [*qkv(r, 5, 7, 11, 4, (2, 1)), r(4, 11, 2), 0.7, 4.0, 0.0],
    lambda r: [*qkv(r, 64, 64, 7, 33, (4, 2)), hidden(r, 33, 64), 0.125, 8.0, 0.0],
    lambda r: [*qkv(r, 128, 128, 1, 700, (8, 2), (2, 2)), hidden(r, 700, 1), 0.09, 0.0, 0.0],
    lambda r: [*qkv(r, 80, 80, 200, 900, (2, 1)), hidden(r, 900, 200), 0.11, 0.0, 30.0],
    lambda r: [*qkv(r, 96, 40, 3, 2100, (2, 2), (2, 1)), None, 0.1, 0.0, 0.0],
    lambda r: [*qkv(r, 576, 512, 2, 300, (4, 1)), None, 0.04, 0.0, 0.0],
    lambda r: [*qkv(r, 7, 1100, 3, 30, (2, 1)), None, 0.3, 0.0, 0.0],
    lambda r: [*qkv(r, 8, 8, 3, 0), None, 0.3, 0.0, 0.0],
    lambda r: [*qkv(r, 8, 8, 0, 5), None, 0.3, 0.0, 0.0],
)
QUANTISED = tuple(
    lambda r, t=t, n_q=n_q: [
        *(As(t, x) if i else x for i, x in enumerate(qkv(r, 256, 256, n_q, 70, (4, 2)))),
        None,
        0.06,
        0.0,
        0.0,
    ]
    for t in ("Q8_0", "Q4_0", "Q4_K", "IQ4_NL")
    for n_q in (1, 40)
)
FLASH_BAD = (
    (lambda r: [r(8, 3), r(7, 5), r(8, 5), None, 1.0, 0.0, 0.0], ValueError, "q is f32 [8, 3], k is f32 [7, 5]"),
    (lambda r: [r(8, 3), r(8, 5), r(8, 6), None, 1.0, 0.0, 0.0], ValueError, "as many values as keys"),
    (lambda r: [r(8, 3, 3), r(8, 5, 2), r(8, 5, 2), None, 1.0, 0.0, 0.0], ValueError, "must be multiples of k's"),
    (lambda r: [r(8, 3, 2), r(8, 5, 2), r(8, 5, 1), None, 1.0, 0.0, 0.0], ValueError, "in as many heads"),
    (lambda r: [r(8, 3), r(8, 5), r(8, 5), r(4, 3), 1.0, 0.0, 0.0], ValueError, "mask is f32 [4, 3]"),
    (lambda r: [r(8, 3), r(8, 5), r(8, 5), r(5, 2), 1.0, 0.0, 0.0], ValueError, "mask is f32 [5, 2]"),
    (lambda r: [r(8, 3), r(8, 5), r(8, 5), None, 1.0, 8.0, 0.0], ValueError, "ALiBi needs a mask"),
    (lambda r: [r.ints(3, 8, 3), r(8, 5), r(8, 5), None, 1.0, 0.0, 0.0], ValueError, "q is i32"),
    (lambda r: [r(8, 3), r.ints(3, 8, 5), r(8, 5), None, 1.0, 0.0, 0.0], ValueError, "k is i32"),
)


def back(r, d, dv, n_q, n_kv, heads, batch, masked):
    q, k, v = qkv(r, d, dv, n_q, n_kv, heads, batch)
    return [q, k, np.ascontiguousarray(v.swapaxes(-1, -2)), r(dv, n_q, heads[0], batch[0]), masked]


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
        turned,
        MULTI[:3],
        diff=(0, 2),
        inplace="rope_multi_inplace",
        types=HALVES,
        tol=4e-6,
        grad_tol=5e-4,
        bad=MULTI_BAD,
        strided=(0,),
    ),
    Op("rope_multi", turned, MULTI[3:], inplace="rope_multi_inplace", tol=4e-6, name="rope_multi_without_factors"),
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
    Op(
        "flash_attn_ext",
        attention,
        FLASH,
        diff=(0, 1, 2),
        types=("F32", "F16", "BF16", ("F32", "F16", "F16", "F16"), ("F32", "F16", "BF16", "F32")),
        tol=1e-5,
        bad=FLASH_BAD,
    ),
    Op(
        "flash_attn_ext",
        attention,
        FLASH[1:4],
        diff=(0, 1, 2, 3),
        tol=1e-5,
        types=("F32",),
        name="flash_attn_ext_by_mask",
    ),
    Op("flash_attn_ext", attention, QUANTISED, types=("F32",), tol=1e-5, strided=(), name="flash_attn_ext_quantised"),
    Op(
        "flash_attn_back",
        flash_attn_back,
        (
            lambda r: back(r, 5, 3, 4, 6, (1, 1), (1, 1), False),
            lambda r: back(r, 4, 6, 3, 5, (4, 2), (2, 1), True),
            lambda r: back(r, 64, 64, 130, 300, (2, 1), (1, 1), True),
            *(lambda r, z=z: back(r, *z, (2, 1), (1, 1), False) for z in ((5, 3, 0, 6), (5, 3, 4, 0), (0, 3, 4, 6), (5, 0, 4, 6))),
        ),
        tol=2e-5,
        bad=(
            (lambda r: [r(8, 3), r(8, 5), r(8, 5), r(8, 3), False], ValueError, "as many values as keys"),
            (lambda r: [r(8, 3), r(8, 5), r(5, 8), r(8, 4), False], ValueError, "d is f32 [8, 4]"),
            (lambda r: [r(8, 6), r(8, 5), r(5, 8), r(8, 6), True], ValueError, "no more queries than keys"),
        ),
    ),
    Op(
        "soft_max_ext",
        soft_max_ext,
        (lambda r: [r(7, 5, 6, 2), r(7, 8, 2, 1), 0.5, 8.0], lambda r: [r(7, 5, 3, 2), r(7, 5, 1, 2), 0.5, 4.0]),
        diff=(0, 1),
        types=("F32",),
        tol=5e-6,
        name="soft_max_ext_by_mask_with_alibi",
    ),
]
