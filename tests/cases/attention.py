"""Attention: soft-max of scaled products of queries and keys, times values."""

import numpy as np

from . import As, Op
from .samples import tiled
from .softmax import slopes


def repeat_heads(x, q):
    """Keys or values, repeated for the query heads and batches that share them."""
    return np.repeat(np.repeat(x, q.shape[0] // x.shape[0], 0), q.shape[1] // x.shape[1], 1)


def scores(q, k, mask, scale, max_bias, softcap):
    """The scores of all queries and keys, with softcap, mask and ALiBi."""
    x = q @ repeat_heads(k, q).swapaxes(-1, -2) * scale
    if softcap:
        x = softcap * np.tanh(x / softcap)
    if mask is not None:
        mask = tiled(mask[:, :, : q.shape[2], : k.shape[2]], x)
        x = x + slopes(q.shape[1], max_bias)[:, None, None] * mask
    return x


def attention_weights(x, sinks=None):
    """Soft-max over the keys and an optional sink per head. A row whose scores are all -inf is zero."""
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
    return (attention_weights(scores(q, k, mask, scale, max_bias, softcap), sinks) @ repeat_heads(v, q)).swapaxes(1, 2)


def causal_mask(n_kv, n_q):
    """A mask that hides later keys. The last query sees all keys."""
    return np.where(np.arange(n_kv) > np.arange(n_q)[:, None] + n_kv - n_q, -np.inf, 0.0)


def sum_shared_heads(x, like):
    """The adjoint of repeat_heads: the sum over the heads and batches that share one of `like`."""
    b, h = like.shape[:2]
    return x.reshape(b, x.shape[0] // b, h, x.shape[1] // h, *x.shape[2:]).sum((1, 3))


def paged_attention(q, k, v, table, factor, page, window, softcap, sinks, exact, chunked):
    """Attention of each sequence of the table to the cells of its pages, one sequence at a time."""
    result = np.zeros((1, *q.shape[1:3], v.shape[3]))
    for first, n, keys, *pages in table[0, 0].astype(int).tolist():
        cells = [pages[key // page] * page + key % page for key in range(keys)]
        row, key = np.arange(keys - n, keys)[:, None], np.arange(keys)
        hidden = (row < key) | (row // window > key // window if chunked else row - key >= window if window else False)
        rows, mask = q[:, first : first + n].swapaxes(1, 2), np.where(hidden, -np.inf, 0)[None, None]
        result[:, first : first + n] = attention(rows, k[:, :, cells], v[:, :, cells], mask, factor, 0, softcap, sinks)
    return result


def padded_to_16_bytes(x):
    """The elements of x, followed by zeros to a multiple of 16 bytes of f32."""
    return np.concatenate([x.ravel(), np.zeros(-x.size % 4)])


def flash_attn_back(q, k, v, d, masked):
    """The gradients of q, k and v, one after the other, by the chain rule."""
    scale, values = max(1, q.shape[-1]) ** -0.5, repeat_heads(v, q)
    w = attention_weights(
        q @ repeat_heads(k, q).swapaxes(-1, -2) * scale + (causal_mask(k.shape[2], q.shape[2]) if masked else 0)
    )
    dw = d @ values
    dx = w * (dw - (w * dw).sum(-1, keepdims=True)) * scale
    dk, dv = dx.swapaxes(-1, -2) @ q, d.swapaxes(-1, -2) @ w
    return np.concatenate(
        [padded_to_16_bytes(g) for g in (dx @ repeat_heads(k, q), sum_shared_heads(dk, k), sum_shared_heads(dv, v))]
    )


def qkv(r, d, dv, n_q, n_kv, heads=(1, 1), batch=(1, 1)):
    """Queries, keys and values; `heads` and `batch` are those of the queries and of the keys."""
    return [r(d, n_q, heads[0], batch[0]), r(d, n_kv, heads[1], batch[1]), r(dv, n_kv, heads[1], batch[1])]


def mask_with_hidden_rows(r, *ne):
    """A mask that hides a third of the keys, all keys of the second query, and a long range of keys."""
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
    lambda r: [*qkv(r, 64, 64, 7, 33, (4, 2)), mask_with_hidden_rows(r, 33, 64), 0.125, 8.0, 0.0],
    lambda r: [*qkv(r, 128, 128, 1, 700, (8, 2), (2, 2)), mask_with_hidden_rows(r, 700, 1), 0.09, 0.0, 0.0],
    lambda r: [*qkv(r, 80, 80, 200, 900, (2, 1)), mask_with_hidden_rows(r, 900, 200), 0.11, 0.0, 30.0],
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


def back_args(r, d, dv, n_q, n_kv, heads, batch, masked):
    """The arguments of flash_attn_back, which takes the values transposed."""
    q, k, v = qkv(r, d, dv, n_q, n_kv, heads, batch)
    return [q, k, np.ascontiguousarray(v.swapaxes(-1, -2)), r(dv, n_q, heads[0], batch[0]), masked]


def pages(*columns):
    """The table of a batch: (first row, rows, keys, pages) of each sequence."""
    most = max(map(len, columns))
    return np.array([[(*column, *[-1] * (most - len(column))) for column in columns]], np.int32)[None]


def paged_args(r, table, types=("F32", "F32"), d=8, dv=8, heads=(4, 2), rows=11, page=16, cells=96, **options):
    q, k, v = r(d, heads[0], rows), As(types[0], r(d, cells, heads[1])), As(types[1], r(dv, cells, heads[1]))
    sinks = As("F32", r(heads[0])) if options.get("sinks") else None
    return [q, k, v, pages(*table), 0.3, page, options.get("window", 0), options.get("softcap", 0.0), sinks,
            options.get("exact", False), options.get("chunked", False)]  # fmt: skip


PROMPT_AND_TOKENS = ((0, 1, 20, 4, 2), (1, 6, 6, 0), (7, 0, 0), (7, 2, 33, 1, 5, 3))
PAGED = (
    lambda r: paged_args(r, PROMPT_AND_TOKENS),
    lambda r: paged_args(r, PROMPT_AND_TOKENS, ("F16", "BF16"), d=33, dv=20, window=7, softcap=2.0),
    lambda r: paged_args(r, PROMPT_AND_TOKENS, ("Q8_0", "Q4_0"), d=64, dv=32, heads=(6, 1), sinks=True),
    lambda r: paged_args(r, PROMPT_AND_TOKENS, exact=True, window=19, sinks=True),
    lambda r: paged_args(r, PROMPT_AND_TOKENS, window=9, chunked=True),
    lambda r: paged_args(
        r, ((0, 5, 702, *range(40, 84)), (5, 6, 65, 3, 4, 5, 6, 7)), d=80, cells=1600, window=64, chunked=True
    ),
    lambda r: paged_args(r, ((0, 1, 700, *range(40, 84)), (2, 9, 12, 3)), d=80, dv=80, cells=1600),
    lambda r: paged_args(r, ((0, 0, 0, 1),)),
)
PAGED_BAD = (
    (lambda r: paged_args(r, PROMPT_AND_TOKENS, page=7), ValueError, "page_size is 7"),
    (lambda r: paged_args(r, PROMPT_AND_TOKENS, heads=(3, 2)), ValueError, "must be a multiple of k's"),
    (lambda r: paged_args(r, PROMPT_AND_TOKENS, window=-1), ValueError, "window is -1"),
    (lambda r: paged_args(r, PROMPT_AND_TOKENS, chunked=True), ValueError, "window is 0: need 1 or more keys of a chu"),
)

OPS = [
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
            lambda r: back_args(r, 5, 3, 4, 6, (1, 1), (1, 1), False),
            lambda r: back_args(r, 4, 6, 3, 5, (4, 2), (2, 1), True),
            lambda r: back_args(r, 64, 64, 130, 300, (2, 1), (1, 1), True),
            *(
                lambda r, z=z: back_args(r, *z, (2, 1), (1, 1), False)
                for z in ((5, 3, 0, 6), (5, 3, 4, 0), (0, 3, 4, 6), (5, 0, 4, 6))
            ),
        ),
        tol=2e-5,
        bad=(
            (lambda r: [r(8, 3), r(8, 5), r(8, 5), r(8, 3), False], ValueError, "as many values as keys"),
            (lambda r: [r(8, 3), r(8, 5), r(5, 8), r(8, 4), False], ValueError, "d is f32 [8, 4]"),
            (lambda r: [r(8, 6), r(8, 5), r(5, 8), r(8, 6), True], ValueError, "no more queries than keys"),
        ),
    ),
    Op(
        "ext.paged_attention",
        paged_attention,
        PAGED,
        types=("F32", "F16", "BF16"),
        tol=1e-5,
        strided=(0,),
        bad=PAGED_BAD,
    ),
]
