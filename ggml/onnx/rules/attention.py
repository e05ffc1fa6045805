"""Attention over heads, by one operator or by several, and rotary positions."""

import functools
import math

import numpy as np

from ..recording import ggml
from ..values import BOOL, F32, InPieces, OnHost, Tensor, count, floats, is_float
from . import rule
from .matmul import matmul
from .quantized import dequantized
from .shape import continued


def attend(b, scale, q, k, v, masks, softcap=0.0, sinks=None):
    """softmax(scale * q k^T + masks) v as (batch, tokens, heads, width); q, k, v are (batch, heads, tokens, width).

    Consecutive heads of q share one of k and v. masks: values (batch or 1, heads or 1, tokens or 1, keys or 1), or
    None; softcap: limit of the scores, or 0; sinks: one further score per head, or None.
    """
    masks = [m for m in masks if m is not None]
    mask = functools.reduce(b.add, masks) if masks else None
    if mask is not None:
        mask = b.dense(b.expand(mask, (*mask.shape[:2], q.shape[2], k.shape[2]))).t
    t = ggml.ggml_flash_attn_ext(b.ctx, b.dense(q).t, b.dense(k).t, b.dense(v).t, mask, scale, 0.0, softcap)
    if sinks is not None:
        t = b.call(with_sinks, t, b.contiguous(sinks).t)
    return Tensor(t, (q.shape[0], q.shape[2], q.shape[1], v.shape[3]), q.dtype)


def attend_to(b, node, q, *others):
    """The same as (batch, tokens, heads * width), with the scale that a node has."""
    y = attend(b, node.attr("scale") or 1 / math.sqrt(q.shape[3]), q, *others)
    return b.reshape(y, (*y.shape[:2], y.shape[2] * y.shape[3]))


def with_sinks(_, t, sinks):
    """Attention with further scores."""
    ggml.ggml_flash_attn_ext_add_sinks(t, sinks)
    return t


def heads_of(b, x, heads):
    """(batch, tokens, heads * width) as (batch, heads, tokens, width)."""
    return b.transpose(b.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads)), (0, 2, 1, 3))


def hidden(b, where):
    """The mask that hides keys from tokens: -inf where an array (..., tokens, keys) is true; None if it hides none."""
    where = where.reshape((1,) * (4 - where.ndim) + where.shape)
    return b.constant(np.where(where, -np.inf, 0), F32) if where.any() else None


def future(b, node, q, k, new):
    """The mask that hides those keys from a token that follow it, if the node is unidirectional.

    new: the number of keys that are not those of earlier tokens, which come first.
    """
    tokens, keys = q.shape[2], k.shape[2]
    if not node.attr("unidirectional") or tokens == new == 1:
        return None
    return b.made(later, (tokens, keys, keys - new), (1, 1, tokens, keys))


def later(tokens, keys, before):
    """-inf (1, 1, tokens, keys) for keys that follow a token, whose first one has the next key after those before."""
    where = np.arange(keys) > np.arange(before, before + tokens)[:, None]
    return np.where(where, -np.inf, 0).astype(F32)[None, None]


def padding(b, node, mask, q, k):
    """What an operand adds to the scores: mask_filter_value for keys that it excludes; None if there is none.

    Its forms are (batch,): the number of keys of each sequence; (2 * batch,): where the keys end, and then where they
    start; (batch, keys), (batch, tokens, keys) and (batch, 1, most keys, most keys): 0 for keys that are excluded.
    """
    if mask is None:
        return None
    (batch, _, tokens, _), keys, rank = q.shape, k.shape[2], len(mask.shape)
    if rank == 1:
        if mask.shape[0] not in (batch, 2 * batch):
            raise OnHost("sequences that are stored one after the other")
        place = b.made(np.arange, (keys,), (keys,))
        seen = b.less(place, b.reshape(b.slice(mask, 0, 0, batch), (batch, 1, 1, 1)))
        if mask.shape[0] > batch:
            start = b.reshape(b.slice(mask, 0, batch, batch), (batch, 1, 1, 1))
            seen = b.logical_and(seen, b.logical_not(b.less(place, start)))
    else:
        if rank == 4:
            mask = b.slice(b.slice(mask, 2, keys - tokens, tokens), 3, 0, keys)
        seen = b.less(b.full((), 0, mask.dtype), b.reshape(mask, (batch, 1, tokens if rank > 2 else 1, keys)))
    low = node.attr("mask_filter_value", -10000.0)
    return b.affine(seen, -low, low, dtype=F32)


def appended(b, past, new):
    """The keys or values of earlier tokens, which may be None, and new ones."""
    return new if past is None else b.concat([past, new], 2)


def self_attention(b, node, qkv, mask, past, *scores):
    """Attention of queries, keys and values that are one tensor, and the keys and values for the next tokens."""
    if node.attr("do_rotary", 0) or node.attr("past_present_share_buffer", 0):
        raise OnHost("rotary positions, or a shared buffer of keys and values")
    parts = b.split(qkv, 2, node.attr("qkv_hidden_sizes") or [qkv.shape[2] // 3] * 3)
    q, k, v = (heads_of(b, x, node.attr("num_heads")) for x in parts)
    if past is not None:
        k, v = (appended(b, b.entry(past, 0, i), x) for i, x in enumerate((k, v)))
    y = attend_to(b, node, q, k, v, [padding(b, node, mask, q, k), future(b, node, q, k, q.shape[2]), *scores])
    if len(node.outputs) < 2:
        return y
    return y, b.stack([k, v], 0)


@rule("com.microsoft.Attention")
def attention(b, node, x, w, bias=None, mask=None, past=None, scores=None, length=None):
    qkv = matmul(b, x, w)
    return self_attention(b, node, qkv if bias is None else b.add(qkv, bias), mask, past, scores)


@rule("com.microsoft.QAttention")
def quantized_attention(b, node, x, w, bias, x_scale, w_scale, mask=None, x_zero=None, w_zero=None, past=None):
    qkv = matmul(b, dequantized(b, x, x_scale, x_zero), dequantized(b, w, w_scale, w_zero))
    return self_attention(b, node, b.add(qkv, bias), mask, past)


@rule("com.microsoft.MultiHeadAttention")
def multi_head_attention(
    b, node, q, k=None, v=None, bias=None, mask=None, scores=None, past_k=None, past_v=None, *shared
):
    if any(s is not None for s in shared) or any(node.outputs[3:]):
        raise OnHost("a shared buffer of keys and values, or scores as an output")
    packed = q if k is None else k if v is None else None  # (batch, tokens, heads, 2 or 3, width)
    if packed is not None:
        parts = [b.entry(packed, 3, i) for i in range(packed.shape[3])]
        parts = [b.reshape(x, (*x.shape[:2], x.shape[2] * x.shape[3])) for x in parts]
        q, k, v = parts if k is None else (q, *parts)
    if bias is not None:  # keys and values that have four dimensions have theirs already
        biases = b.split(bias, 0, [q.shape[2]] * 2 + [bias.shape[0] - 2 * q.shape[2]])
        q, k, v = (b.add(x, c) if len(x.shape) == 3 else x for x, c in zip((q, k, v), biases))
    heads = node.attr("num_heads")
    q, k, v = (x if len(x.shape) == 4 else heads_of(b, x, heads) for x in (q, k, v))
    new, k, v = k.shape[2], appended(b, past_k, k), appended(b, past_v, v)
    return attend_to(b, node, q, k, v, [padding(b, node, mask, q, k), future(b, node, q, k, new), scores]), k, v


def rotated(b, x, positions, cos, sin, interleaved):
    """Heads (batch, heads, tokens, width) with pairs of elements rotated by angles from tables of their cos and sin."""
    cos, sin = (b.reshape(t, (t.shape[0], 1, *t.shape[1:])) for t in (b.gather(t, 0, positions) for t in (cos, sin)))
    half, step = cos.shape[3], 2 if interleaved else 1
    one, two = b.slice(x, 3, 0, half, step), b.slice(x, 3, 1 if interleaved else half, half, step)
    parts = [b.sub(b.mul(one, cos), b.mul(two, sin)), b.add(b.mul(one, sin), b.mul(two, cos))]
    if interleaved:
        parts = [b.reshape(b.stack(parts, 4), (*x.shape[:3], 2 * half))]
    return b.concat([*parts, b.slice(x, 3, 2 * half, x.shape[3] - 2 * half)], 3)


@rule("com.microsoft.RotaryEmbedding")
def rotary_embedding(b, node, x, positions, cos, sin):
    flat = len(x.shape) == 3
    heads = heads_of(b, x, node.attr("num_heads", 0) or x.shape[2] // (2 * cos.shape[1])) if flat else x
    if len(positions.shape) == 1:  # that of the first token
        positions = b.add(b.reshape(positions, (1, 1)), b.made(np.arange, heads.shape[2:3], heads.shape[2:3]))
    y = rotated(b, heads, positions, cos, sin, node.attr("interleaved", 0))
    return b.reshape(b.transpose(y, (0, 2, 1, 3)), x.shape) if flat else y


@rule("com.microsoft.GroupQueryAttention")
def group_query_attention(
    b, node, q, k, v, past_k, past_v, lengths, total, cos=None, sin=None, positions=None, scores=None, sinks=None, *more
):
    if any(m is not None for m in more) or node.attr("sliding_window_cache", 0) or any(node.outputs[3:]):
        raise OnHost("a cache that is quantised or a window, normalised queries, or scores as an output")
    heads, groups, window = node.attr("num_heads"), node.attr("kv_num_heads"), node.attr("local_window_size", -1)
    if k is None:
        width = q.shape[2] // (heads + 2 * groups)
        q, k, v = b.split(q, 2, [heads * width, groups * width, groups * width])
    q, k, v = heads_of(b, q, heads), heads_of(b, k, groups), heads_of(b, v, groups)
    (batch, _, tokens, _), (total,) = q.shape, b.ints(total)
    ends = np.array([total] if batch == 1 else b.ints(lengths))[:, None] + (batch > 1)
    before = np.maximum(ends - tokens, 0) if total > tokens else 0 * ends  # tokens that each sequence has already
    place = before + np.arange(tokens)
    if node.attr("do_rotary", 0):
        positions = b.constant(place) if positions is None else positions
        q, k = (rotated(b, x, positions, cos, sin, node.attr("rotary_interleaved", 0)) for x in (q, k))
    k, v = (cached(b, past, x, before, total) for past, x in ((past_k, k), (past_v, v)))
    keys = np.arange(total)
    where = keys > place[..., None] if node.attr("causal", 1) else keys >= ends[..., None]
    where = where | (keys <= place[..., None] - window) if window > 0 else where
    if sinks is None and node.attr("smooth_softmax", 0):
        sinks = b.full((heads,), 0.0)
    seen, masks = [b.slice(x, 2, 0, total) for x in (k, v)], [hidden(b, where[:, None]), scores]
    return attend_to(b, node, q, seen[0], seen[1], masks, node.attr("softcap", 0.0), sinks), k, v


def cached(b, past, new, before, total):
    """The keys or values of earlier tokens, of which each sequence has a number, with new ones after them."""
    have, tokens = 0 if past is None else past.shape[2], new.shape[2]
    if before.max() > have:
        raise ValueError(f"keys of {before.max()} earlier tokens are needed, there are {have}")
    size = max(have, total)
    new = appended(b, past, new)
    place = np.arange(size) - before
    source = np.where(place < 0, np.arange(size), np.where(place < tokens, have + place, -1))
    if new.shape[2] == size and (source == np.arange(size)).all():
        return new
    rows = np.arange(new.shape[0] * new.shape[1]).reshape(*new.shape[:2], 1) * new.shape[2]
    rows = np.where(source[:, None] < 0, -1, rows + source[:, None])[..., None] * new.shape[3]
    return b.take(new, np.where(rows < 0, -1, rows + np.arange(new.shape[3])))


@rule("Attention")
def dot_product_attention(b, node, q, k, v, mask=None, past_k=None, past_v=None, lengths=None):
    """ONNX's own operator: (batch, heads, tokens, width), or (batch, tokens, heads * width)."""
    windows = any(node.attr(f"{side}_window_size", -1) >= 0 for side in ("left", "right"))
    if windows or any(node.outputs[3:]) or (past_k is None) != (past_v is None):
        raise InPieces
    parts, ranks = [x for x in (q, k, v, past_k, past_v) if x is not None], {len(x.shape) for x in (q, k, v)}
    if not (ranks in ({3}, {4}) and all(is_float(x.dtype) and count(x.shape) for x in parts)):
        raise InPieces
    flat = ranks == {3}
    if flat:
        heads, shared = node.attr("q_num_heads"), node.attr("kv_num_heads")
        q, k, v = heads_of(b, q, heads), heads_of(b, k, shared), heads_of(b, v, shared)
    offset = 0 if past_k is None else past_k.shape[2]
    k, v = appended(b, past_k, k), appended(b, past_v, v)
    tokens, keys = q.shape[2], k.shape[2]
    masks = []
    if mask is not None:
        mask = with_keys(b, mask, keys)
        masks.append(added(b, mask, mask.dtype == BOOL and (-math.inf, True), (*q.shape[:3], keys)))
    if lengths is not None:
        ends = b.reshape(b.as_float(lengths), (q.shape[0], 1, 1, 1))
        if node.attr("is_causal", 0):
            ends = b.add(ends, b.made(up_to, (tokens,), (1, 1, tokens, 1)))
        seen = b.less(b.as_float(b.made(np.arange, (keys,), (keys,))), ends)
        masks.append(b.select(seen, b.full((), 0.0), b.full((), -math.inf)))
    elif node.attr("is_causal", 0):
        masks.append(b.made(later, (tokens, keys, offset), (1, 1, tokens, keys)))
    scale = node.attr("scale", 1 / math.sqrt(q.shape[3]))
    y = attend(b, scale, q, k, v, masks, node.attr("softcap", 0.0))
    if flat:
        return b.reshape(y, (*y.shape[:2], y.shape[2] * y.shape[3])), k, v
    return b.transpose(y, (0, 2, 1, 3)), k, v


def with_keys(b, mask, keys):
    """A mask that hides the keys behind those that it has."""
    n = mask.shape[-1] if mask.shape else 1
    if n == 1 or n >= keys:
        return mask
    if mask.dtype not in (BOOL, F32, np.float16):
        raise OnHost("a mask of bfloat16 for fewer keys")  # as onnx's tests, whose results are rounded at each step
    fill = 0.0 if mask.dtype == BOOL else -math.inf
    return continued(b, mask, [(0, 0)] * (len(mask.shape) - 1) + [(0, keys - n)], fill)


def up_to(tokens):
    """What is added to the number of keys for each token, (1, 1, tokens, 1): the last one sees all of them."""
    return np.arange(1 - tokens, 1, dtype=F32).reshape(1, 1, -1, 1)


@rule("ggml.Attention")
def in_pieces(b, node, q, k, v, *masks):
    """Attention of products and a softmax (patterns.attention) over the last two axes.

    keys: the order of axes that makes the transposed keys of k, or None if k has it; hides: for each mask None if it is
    added to the scores, else (low, whether it is true for the keys that are seen).
    """
    floats(q, k, v)
    rank, perm = len(q.shape), node.attr("keys") or range(len(k.shape))
    k = b.transpose(k, (*perm[:-2], perm[-1], perm[-2]))
    lead, (n, width), keys = q.shape[:-2], q.shape[-2:], k.shape[-2]
    fits = k.shape == (*lead, keys, width) and v.shape[:-1] == k.shape[:-1] and node.attr("axis") in (-1, rank - 1)
    if rank < 2 or node.attr("rank") > rank or not fits or not all(count(x.shape) for x in (q, k, v)):
        raise OnHost("other products")
    more = [added(b, mask, hides, (*lead, n, keys)) for mask, hides in zip(masks, node.attr("hides"))]
    four = lead if rank == 4 else (1, count(lead))
    q, k, v = (b.reshape(x, (*four, *x.shape[-2:])) for x in (q, k, v))
    y = attend(b, node.attr("scale"), q, k, v, more)
    return b.reshape(b.transpose(y, (0, 2, 1, 3)), (*lead, n, v.shape[-1]))


def added(b, mask, hides, shape):
    """What a mask adds to scores of a shape, with four axes; hides: None, or how a condition hides keys."""
    own = (1,) * (len(shape) - len(mask.shape)) + tuple(mask.shape)
    if len(own) > len(shape) or any(m not in (1, n) for m, n in zip(own, shape)):
        raise OnHost("scores that a mask repeats")
    if hides:
        low, seen = (b.full((), x) for x in (hides[0], 0.0))
        mask = b.select(mask, seen, low) if hides[1] else b.select(mask, low, seen)
    if len(shape) != 4:
        alone = all(m == 1 for m in own[:-2])
        mask = mask if alone else b.expand(b.reshape(mask, own), (*shape[:-2], *own[-2:]))
        own = (1, 1 if alone else count(shape[:-2]), *own[-2:])
    return b.reshape(*floats(mask), own)
