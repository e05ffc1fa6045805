"""Attention and embeddings of the domain com.microsoft, against NumPy in float64 and against onnxruntime."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")  # part of the [test] extra; not installed on emulated CPUs

from one_operator import codes, floats, halved, model_of, near, other_sizes, through_onnxruntime  # noqa: E402

import ggml.onnx  # noqa: E402

BATCH, TOKENS, PAST, HEADS, WIDTH, INPUT = 2, 5, 3, 4, 16, 24
HIDDEN, TOTAL = HEADS * WIDTH, PAST + TOKENS
LOW = -10000.0


def ints(*values):
    return np.array(values, np.int32)


def heads_of(x, heads=HEADS):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attend(q, k, v, mask=0.0, scale=None, softcap=0.0, sinks=None):
    """Attention of (batch, heads, tokens, width), as (batch, tokens, heads * width), in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(0, 1, 3, 2) * (scale or q.shape[3] ** -0.5)
    s = softcap * np.tanh(s / softcap) if softcap else s
    s = s + mask
    top = s.max(-1, keepdims=True)
    e = np.exp(s - top)
    total = e.sum(-1, keepdims=True)
    total = total if sinks is None else total + np.exp(sinks[:, None, None] - top)
    return (e / total @ v).transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def causal(tokens, total, before=None):
    """What hides the keys that follow a token; before: keys of earlier tokens, by default all but as many as tokens."""
    before = total - tokens if before is None else before
    return np.where(np.arange(total) > np.arange(before, before + tokens)[:, None], -np.inf, 0)


# Attention and QAttention: one tensor of queries, keys and values

PADDED = {  # the forms of masks: the operand, and what is added to the scores (batch, 1, tokens or 1, total)
    "none": lambda total: (None, 0),
    "ends": lambda total: (ints(total, total - 2), place_mask(total, [total, total - 2], [0, 0])),
    "ends and starts": lambda total: (ints(total, total - 2, 1, 0), place_mask(total, [total, total - 2], [1, 0])),
    "keys": lambda total: element_mask((BATCH, total), (BATCH, 1, 1, total)),
    "tokens and keys": lambda total: element_mask((BATCH, TOKENS, total), (BATCH, 1, TOKENS, total)),
    "most keys": lambda total: square_mask(total, 12),
}


def place_mask(total, ends, starts):
    place = np.arange(total)
    seen = [(place >= s) & (place < e) for s, e in zip(starts, ends)]
    return np.where(np.array(seen)[:, None, None], 0, LOW)


def element_mask(shape, full):
    mask = np.random.default_rng(9).integers(0, 2, shape).astype(np.int32)
    mask[..., 0] = 1
    return mask, np.where(mask.reshape(full) > 0, 0, LOW)


def square_mask(total, most):
    mask = np.tril(np.ones((BATCH, 1, most, most), np.int32))
    mask[1, :, :, 1] = 0
    return mask, np.where(mask[:, :, total - TOKENS : total, :total] > 0, 0, LOW)


def merged(form="none", past=False, bias=True, scores=False, sizes=None, **attrs):
    """Attention: the operator, its operands, its attributes, and its outputs."""
    widths = sizes or [HIDDEN] * 3
    x, w = floats(BATCH, TOKENS, INPUT), floats(INPUT, sum(widths)) / 4
    c, total = floats(sum(widths), seed=1) if bias else None, TOTAL if past else TOKENS
    mask, added = PADDED[form](total)
    state = floats(2, BATCH, HEADS, PAST, WIDTH, seed=2) if past else None
    extra = floats(1, HEADS, TOKENS, total, seed=3) if scores else None
    wanted = merged_reference(x @ w + (c if bias else 0), widths, state, added + (extra if scores else 0), attrs)
    attrs = {"num_heads": HEADS, **attrs, **({"qkv_hidden_sizes": sizes} if sizes else {})}
    return "Attention", [x, w, c, mask, state, extra], attrs, wanted if past else wanted[:1]


def merged_reference(qkv, widths, state, added, attrs):
    q, k, v = (heads_of(x) for x in np.split(qkv, np.cumsum(widths)[:2], -1))
    if state is not None:
        k, v = (np.concatenate([p, x], 2) for p, x in zip(state, (k, v)))
    added = added + causal(TOKENS, k.shape[2]) if attrs.get("unidirectional") else added
    y = attend(q, k, v, added, attrs.get("scale"))
    return [y] if k.shape != v.shape else [y, np.stack([k, v])]


def quantised(form="none", past=False, per_column=False, kind=np.int8, **attrs):
    """QAttention: the same."""
    random = np.random.default_rng(4)
    x, w = codes(BATCH, TOKENS, INPUT), codes(INPUT, 3 * HIDDEN, kind=kind)
    n = (3 * HIDDEN,) if per_column else ()
    scales = np.float32(0.02), random.uniform(0.001, 0.004, n).astype(np.float32)
    zeros = np.uint8(120), random.integers(100, 140, n).astype(kind) if kind == np.uint8 else np.zeros(n, kind)
    bias = floats(3 * HIDDEN, seed=1)
    mask, added = PADDED[form](TOTAL if past else TOKENS)
    state = floats(2, BATCH, HEADS, PAST, WIDTH, seed=2) if past else None
    products = (x - np.float64(zeros[0])) @ (w - np.asarray(zeros[1], np.float64)) * scales[0] * scales[1]
    wanted = merged_reference(products + bias, [HIDDEN] * 3, state, added, attrs)
    operands = [x, w, bias, scales[0], scales[1], mask, *zeros, state]
    return (
        "QAttention",
        [v if v is None else np.asarray(v) for v in operands],
        {"num_heads": HEADS, **attrs},
        wanted if past else wanted[:1],
    )


# MultiHeadAttention


def separate(form="none", past=False, layout="separate", bias=False, scores=False, tokens=TOKENS, **attrs):
    """MultiHeadAttention: the same. Keys may be those of another sequence; a layout may pack several operands."""
    keys = TOKENS
    q, k, v = floats(BATCH, tokens, HIDDEN), floats(BATCH, keys, HIDDEN, seed=1), floats(BATCH, keys, HIDDEN, seed=2)
    c = floats(3 * HIDDEN, seed=3) if bias else np.zeros(3 * HIDDEN)
    total = PAST + keys if past else keys
    mask, added = PADDED[form](total)
    extra = floats(BATCH, 1, tokens, total, seed=4) if scores else None
    state = [floats(BATCH, HEADS, PAST, WIDTH, seed=s) for s in (5, 6)] if past else [None, None]
    parts = [x.reshape(BATCH, -1, HEADS, WIDTH) for x in (q, k, v)]
    operands = {
        "separate": lambda: [q, k, v],
        "qkv": lambda: [np.stack(parts, 3), None, None],
        "kv": lambda: [q, np.stack(parts[1:], 3), None],
        "heads": lambda: [q, *(p.transpose(0, 2, 1, 3).copy() for p in parts[1:])],
    }[layout]()
    biases = np.split(c, 3)
    if layout == "heads":
        biases[1:] = [0, 0]
    q, k, v = (heads_of(x + y) for x, y in zip((q, k, v), biases))
    if past:
        k, v = np.concatenate([state[0], k], 2), np.concatenate([state[1], v], 2)
    added = added + (extra if scores else 0)
    added = added + (causal(tokens, total, total - keys) if attrs.get("unidirectional") else 0)
    wanted = [attend(q, k, v, added, attrs.get("scale")), k, v]
    operands += [c if bias else None, mask, extra, *state]
    operands = [o.astype(np.float32) if o is not None and o.dtype == np.float64 else o for o in operands]
    return "MultiHeadAttention", operands, {"num_heads": HEADS, **attrs}, wanted if past else wanted[:1]


# Rotary positions and GroupQueryAttention


def rotate(x, positions, angles, interleaved):
    """Heads with pairs of elements rotated: by angles (positions, pairs), at positions (batch, tokens)."""
    angle = angles[positions][:, None]
    half, y = angle.shape[-1], x.astype(np.float64).copy()
    one = (Ellipsis, slice(0, 2 * half, 2)) if interleaved else (Ellipsis, slice(0, half))
    two = (Ellipsis, slice(1, 2 * half, 2)) if interleaved else (Ellipsis, slice(half, 2 * half))
    y[one] = x[one] * np.cos(angle) - x[two] * np.sin(angle)
    y[two] = x[one] * np.sin(angle) + x[two] * np.cos(angle)
    return y


def angles_of(pairs, places=16):
    return np.arange(places)[:, None] * 10.0 ** (-2 * np.arange(pairs) / pairs)


def rotary(rank=3, first=False, interleaved=0, pairs=WIDTH // 2):
    """RotaryEmbedding: the same."""
    x = floats(BATCH, TOKENS, HIDDEN)
    angles = angles_of(pairs)
    places = np.array([[0, 1, 2, 3, 4], [7, 5, 9, 10, 15]])
    positions = np.array([6]) if first else places
    wanted = rotate(heads_of(x), 6 + np.arange(TOKENS)[None] if first else places, angles, interleaved)
    wanted = wanted if rank == 4 else wanted.transpose(0, 2, 1, 3).reshape(x.shape)
    attrs = {"interleaved": interleaved}
    if pairs < WIDTH // 2:
        attrs.update(num_heads=HEADS, rotary_embedding_dim=2 * pairs)
    tables = [f(angles).astype(np.float32) for f in (np.cos, np.sin)]
    x = heads_of(x).copy() if rank == 4 else x
    return "RotaryEmbedding", [x, positions.astype(np.int64), *tables], attrs, [wanted]


def grouped(
    before=(0, 0),
    tokens=TOKENS,
    have=0,
    packed=False,
    rope=None,
    window=-1,
    sinks=False,
    scores=False,
    positions=False,
    **attrs,
):
    """GroupQueryAttention: the same. before: the tokens that each sequence has already; have: the room for them."""
    groups, batch = 2, len(before)
    total = max(before) + tokens
    q, k, v = (floats(batch, tokens, n * WIDTH, seed=n + i) for i, n in enumerate((HEADS, groups, groups)))
    state = [floats(batch, groups, have, WIDTH, seed=s) for s in (5, 6)] if have else [None, None]
    operands = [np.concatenate([q, k, v], -1), None, None] if packed else [q, k, v]
    q, k, v = heads_of(q), heads_of(k, groups), heads_of(v, groups)
    place = np.array(before)[:, None] + np.arange(tokens)
    angles = angles_of(rope or 1, 32)
    tables = [f(angles).astype(np.float32) for f in (np.cos, np.sin)] if rope else [None, None]
    if rope:
        q, k = (rotate(x, place, angles, attrs.get("rotary_interleaved", 0)) for x in (q, k))
    size = max(have, total)
    mask, caches = np.full((batch, 1, tokens, size), -np.inf), []
    for past, new in zip(state, (k, v)):
        cache = np.zeros((batch, groups, size, WIDTH))
        for i, n in enumerate(before):
            if have:
                cache[i, :, :n] = past[i, :, :n]
            cache[i, :, n : n + tokens] = new[i]
        caches.append(cache)
    for i, n in enumerate(before):
        for t in range(tokens):
            last = n + t if attrs.get("causal", 1) else n + tokens - 1
            mask[i, 0, t, max(0, n + t - window + 1) if window > 0 else 0 : last + 1] = 0
    extra = floats(1, HEADS, tokens, total, seed=8) if scores else None
    if scores:
        mask = mask + np.pad(extra, [(0, 0)] * 3 + [(0, size - total)])
    sink = floats(HEADS, seed=9) if sinks else np.zeros(HEADS) if attrs.get("smooth_softmax") else None
    y = attend(q, *caches, mask, attrs.get("scale"), attrs.get("softcap", 0.0), sink)
    operands += [*state, np.array(before, np.int32) + tokens - 1, np.array(total, np.int32), *tables]
    operands += [place.astype(np.int64) if positions else None, extra, sink.astype(np.float32) if sinks else None]
    attrs = {"num_heads": HEADS, "kv_num_heads": groups, "do_rotary": int(bool(rope)), **attrs}
    attrs.update({"local_window_size": window} if window > 0 else {})
    return "GroupQueryAttention", operands, attrs, [y, *caches]


# Embeddings


def embedding(segments=True, mask=True, positions=False):
    """EmbedLayerNormalization: the same."""
    random = np.random.default_rng(7)
    tables = [floats(n, HIDDEN, seed=n) for n in (50, 10, 3)]
    word = random.integers(0, 50, (BATCH, TOKENS)).astype(np.int32)
    segment = random.integers(0, 3, (BATCH, TOKENS)).astype(np.int32)
    place = random.integers(0, 10, (BATCH, TOKENS)).astype(np.int32)
    gamma, beta = floats(HIDDEN, seed=1), floats(HIDDEN, seed=2)
    seen = np.array([[1] * 5, [1] * 3 + [0] * 2], np.int32)
    total = tables[0][word].astype(np.float64) + tables[1][place if positions else np.arange(TOKENS)]
    total += tables[2][segment] if segments else 0
    mean, deviation = total.mean(-1, keepdims=True), np.sqrt(total.var(-1, keepdims=True) + 1e-12)
    wanted = [(total - mean) / deviation * gamma + beta, seen.sum(1) if mask else np.zeros(BATCH)]
    operands = [
        word,
        segment if segments else None,
        *tables[:2],
        tables[2] if segments else None,
        gamma,
        beta,
        seen if mask else None,
        place if positions else None,
    ]
    return "EmbedLayerNormalization", operands, {"epsilon": 1e-12}, wanted


CASES = {
    **{f"Attention, mask: {f}": (merged, {"form": f}) for f in PADDED},
    **{f"Attention with a past, mask: {f}": (merged, {"form": f, "past": True}) for f in PADDED},
    "Attention, no bias": (merged, {"bias": False}),
    "Attention, unidirectional": (merged, {"unidirectional": 1}),
    "Attention, unidirectional, with a past": (merged, {"unidirectional": 1, "past": True}),
    "Attention, unidirectional, starts": (merged, {"unidirectional": 1, "form": "ends and starts"}),
    "Attention, scores": (merged, {"scores": True, "form": "keys"}),
    "Attention, scale": (merged, {"scale": 0.5}),
    "Attention, sizes": (merged, {"sizes": [HIDDEN, HIDDEN, HIDDEN // 2]}),
    "QAttention": (quantised, {}),
    "QAttention, unsigned weights": (quantised, {"kind": np.uint8}),
    "QAttention, a scale per column": (quantised, {"per_column": True, "form": "ends"}),
    "QAttention, with a past": (quantised, {"past": True, "form": "keys", "unidirectional": 1}),
    **{f"MultiHeadAttention, mask: {f}": (separate, {"form": f}) for f in ("none", "ends", "keys", "tokens and keys")},
    "MultiHeadAttention, qkv": (separate, {"layout": "qkv", "form": "keys"}),
    "MultiHeadAttention, kv": (separate, {"layout": "kv", "tokens": 3}),
    "MultiHeadAttention, keys with heads": (separate, {"layout": "heads", "bias": True, "tokens": 3}),
    "MultiHeadAttention, bias and scores": (separate, {"bias": True, "scores": True, "form": "keys"}),
    "MultiHeadAttention, past": (separate, {"past": True, "bias": True, "form": "keys", "tokens": TOKENS}),
    "MultiHeadAttention, unidirectional": (separate, {"unidirectional": 1, "past": True}),
    "MultiHeadAttention, unidirectional, fewer tokens": (separate, {"unidirectional": 1, "past": True, "tokens": 3}),
    "MultiHeadAttention, unidirectional, one token": (separate, {"unidirectional": 1, "tokens": 1}),
    "MultiHeadAttention, scale": (separate, {"scale": 0.3}),
    "RotaryEmbedding": (rotary, {}),
    "RotaryEmbedding, interleaved": (rotary, {"interleaved": 1, "rank": 4}),
    "RotaryEmbedding, first position": (rotary, {"first": True}),
    "RotaryEmbedding, some elements": (rotary, {"pairs": 2, "interleaved": 1}),
    "RotaryEmbedding, four dimensions": (rotary, {"rank": 4}),
    "GroupQueryAttention": (grouped, {}),
    "GroupQueryAttention, packed": (grouped, {"packed": True, "rope": 8}),
    "GroupQueryAttention, next token": (grouped, {"before": (6, 6), "have": 6, "tokens": 1, "rope": 8}),
    "GroupQueryAttention, sequences of different length": (grouped, {"before": (6, 3), "have": 6, "tokens": 1}),
    "GroupQueryAttention, room": (grouped, {"before": (6, 3), "have": 12, "tokens": 1, "rope": 8}),
    "GroupQueryAttention, several next tokens": (grouped, {"before": (6,), "have": 6, "tokens": 3, "rope": 8}),
    "GroupQueryAttention, interleaved": (grouped, {"rope": 8, "rotary_interleaved": 1}),
    "GroupQueryAttention, positions": (grouped, {"rope": 8, "positions": True}),
    "GroupQueryAttention, window": (grouped, {"window": 3}),
    "GroupQueryAttention, window of a next token": (grouped, {"before": (6, 4), "have": 6, "tokens": 1, "window": 3}),
    "GroupQueryAttention, softcap and scale": (grouped, {"softcap": 1.5, "scale": 0.7}),
    "GroupQueryAttention, sinks": (grouped, {"sinks": True, "smooth_softmax": 1}),
    "GroupQueryAttention, smooth": (grouped, {"smooth_softmax": 1}),
    "GroupQueryAttention, scores": (grouped, {"scores": True, "softcap": 1.5}),
    "GroupQueryAttention, scores and room": (grouped, {"scores": True, "before": (4, 2), "have": 9, "tokens": 1}),
    "GroupQueryAttention, not causal": (grouped, {"causal": 0}),
    "EmbedLayerNormalization": (embedding, {}),
    "EmbedLayerNormalization, words and positions": (embedding, {"segments": False, "mask": False, "positions": True}),
}


def case_of(name, fed):
    """A model, its inputs, and its outputs."""
    make, arguments = CASES[name]
    op, operands, attrs, wanted = make(**arguments)
    return *model_of(op, operands, len(wanted), fed, **attrs), wanted


def inputs(name):
    """The operand that is not a constant in models of constants; fuzz/onnx_models.py asks for it too."""
    return [0]


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_operators(case, constants):
    model, feeds, wanted = case_of(case, inputs(case) if constants else range(99))
    near(ggml.onnx.load(model, strict=True).run(feeds), wanted, 1e-5)


@pytest.mark.parametrize("case", CASES)
def test_other_sizes(case):
    model, feeds, _ = case_of(case, inputs(case))
    assert other_sizes(model, list(feeds.values())) > 0


def test_prompts_of_different_length():
    """The keys and the result of a shorter sequence, which others pad, are those of its own tokens."""
    op, operands, attrs, wanted = grouped(rope=8)
    operands[5] = ints(4, 2)  # the last place of each sequence
    model, feeds = model_of(op, operands, 3, **attrs)
    y, *caches = ggml.onnx.load(model, strict=True).run(feeds)
    np.testing.assert_allclose(y[0], wanted[0][0], atol=1e-5)
    np.testing.assert_allclose(y[1, :3], wanted[0][1, :3], atol=1e-5)
    for cache, whole in zip(caches, wanted[1:]):
        np.testing.assert_allclose(cache[1, :, :3], whole[1, :, :3], atol=1e-5)


@pytest.mark.parametrize(
    "make, places, shape",
    [
        (merged, [4], (2, BATCH, HEADS, 0, WIDTH)),
        (separate, [6, 7], (BATCH, HEADS, 0, WIDTH)),
        (grouped, [3, 4], (BATCH, 2, 0, WIDTH)),
    ],
)
def test_a_past_without_tokens(make, places, shape):
    """Exported models begin with such a past."""
    op, operands, attrs, wanted = make()
    for place in places:
        operands[place] = np.zeros(shape, np.float32)
    model, feeds = model_of(op, operands, len(wanted), **attrs)
    near(ggml.onnx.load(model, strict=True).run(feeds), wanted, 1e-5)


def test_more_earlier_tokens_than_there_are():
    op, operands, attrs, _ = grouped(before=(6,), have=6, tokens=1)
    operands[5], operands[6] = ints(9), np.array(10, np.int32)
    model, feeds = model_of(op, operands, 3, **attrs)
    with pytest.raises(ValueError, match="9 earlier tokens"):
        ggml.onnx.load(model, strict=True).run(feeds)


@pytest.mark.parametrize("form", ["none", "keys"])
def test_gradients(form):
    """Those of the weights of Attention, against differences of the outputs."""
    op, operands, attrs, (wanted,) = merged(form, unidirectional=1)
    model, feeds = model_of(op, operands, 1, [0, 3], **attrs)
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("o0", onnx.TensorProto.FLOAT, wanted.shape))
    model, target = ggml.onnx.load(model), floats(*wanted.shape, seed=5)
    training = ggml.onnx.Training(model, "mean_squared_error", feeds, target)
    training.evaluate(feeds, target)
    weights, gradient = model.parameters()["i1"], training.gradients["i1"].copy()
    assert np.abs(gradient).max() > 1e-4
    for place in [(0, 0), (5, HIDDEN + 3), (INPUT - 1, 3 * HIDDEN - 1), (7, 2 * HIDDEN)]:
        losses, old = [], weights[place]
        for step in (0.01, -0.01):
            weights[place] = old + step
            losses.append(training.evaluate(feeds, target))
        weights[place] = old
        assert abs((losses[0] - losses[1]) / 0.02 - gradient[place]) < 1e-4


DECLINED = [
    "Attention, mask: most keys",
    "Attention with a past, mask: most keys",
    "MultiHeadAttention, qkv",
    "MultiHeadAttention, kv",
]


@pytest.mark.parametrize("case", [c for c in CASES if c not in DECLINED])
def test_operators_as_onnxruntime(case):
    """The cases that onnxruntime's CPU kernels compute."""
    model, feeds, _ = case_of(case, range(99))
    model, feeds = halved(model, feeds)
    near(ggml.onnx.load(model, strict=True).run(feeds), through_onnxruntime(model, feeds), 1e-4)


# ONNX's own operator


STANDARD = {  # attributes, with "flat": 3-D operands, "shared": heads of k and v, "mask": its shape and kind
    "plain": {},
    "flat, causal": {"flat": True, "is_causal": 1},
    "shared heads, scale, softcap": {"shared": 2, "scale": 0.4, "softcap": 3.0},
    "past, causal, flat": {"past": PAST, "is_causal": 1, "flat": True, "shared": 1},
    "booleans": {"mask": ("tokens", "keys", bool)},
    "booleans of heads, causal": {"mask": (HEADS, "tokens", "keys", bool), "is_causal": 1},
    "booleans of fewer keys": {"mask": (BATCH, HEADS, "tokens", "fewer", bool)},
    "numbers of fewer keys, past": {"mask": (1, 1, "tokens", "fewer", np.float32), "past": PAST},
    "numbers, past": {"mask": (BATCH, 1, 1, "keys", np.float32), "past": PAST},
    "lengths": {"lengths": True},
    "lengths, causal, numbers": {"lengths": True, "is_causal": 1, "mask": ("tokens", "keys", np.float32), "shared": 2},
}


def standard_case(spec, tokens, keys, rng):
    """Feeds of the inputs of Attention, and its results in float64."""
    shared, past = spec.get("shared", HEADS), spec.get("past", 0)
    q, k, v = (rng.standard_normal((BATCH, h, n, 8)).astype(np.float32) for h, n in
               ((HEADS, tokens), (shared, keys), (shared, keys)))  # fmt: skip
    feeds = {n: x.transpose(0, 2, 1, 3).reshape(BATCH, x.shape[2], -1) if spec.get("flat") else x
             for n, x in {"q": q, "k": k, "v": v}.items()}  # fmt: skip
    if past:
        old = [rng.standard_normal((BATCH, shared, past, 8)).astype(np.float32) for _ in range(2)]
        feeds |= dict(zip(("past_k", "past_v"), old))
        k, v = (np.concatenate([o, x], 2) for o, x in zip(old, (k, v)))
    total, added, offset = keys + past, np.zeros((BATCH, 1, tokens, keys + past)), np.full(BATCH, past)
    if "mask" in spec:
        *shape, kind = spec["mask"]
        size = [{"tokens": tokens, "keys": total, "fewer": total - 2}.get(n, n) for n in shape]
        feeds["mask"] = rng.random(size) < 0.7 if kind is bool else rng.standard_normal(size).astype(kind)
        seen = np.where(feeds["mask"], 0, -np.inf) if kind is bool else feeds["mask"]
        added = added + (np.pad(seen, [(0, 0)] * 3 + [(0, 2)], constant_values=-np.inf) if "fewer" in shape else seen)
    if "lengths" in spec:
        feeds["lengths"] = np.array([keys, max(keys - 3, 1)])
        added = added + np.where(np.arange(keys) < feeds["lengths"][:, None, None, None], 0, -np.inf)
        offset = feeds["lengths"] - tokens
    if spec.get("is_causal"):
        last = np.arange(tokens)[:, None] + offset[:, None, None, None]
        added = added + np.where(np.arange(total) <= last, 0, -np.inf)
    with np.errstate(invalid="ignore"):
        y = np.nan_to_num(attend(q, k, v, added, spec.get("scale"), spec.get("softcap", 0.0)))
    return feeds, y if spec.get("flat") else y.reshape(BATCH, tokens, HEADS, -1).transpose(0, 2, 1, 3), k, v


@pytest.mark.parametrize("case", STANDARD)
def test_standard_attention(case):
    """For several numbers of tokens, one after the other; a query that sees no key gives zeros."""
    spec, model, rng = STANDARD[case], None, np.random.default_rng(3)
    attributes = {k: v for k, v in spec.items() if k in ("is_causal", "scale", "softcap")}
    if spec.get("flat"):
        attributes |= {"q_num_heads": HEADS, "kv_num_heads": spec.get("shared", HEADS)}
    places = ["q", "k", "v", "mask", "past_k", "past_v", "lengths"]
    for tokens, keys in ((5, 5), (1, 9), (4, 30), (5, 5)):
        feeds, *wanted = standard_case(spec, tokens, keys, rng)
        if model is None:
            outputs = ["y", "new_k", "new_v"][: 3 if "past" in spec else 1]
            node = onnx.helper.make_node("Attention", [n if n in feeds else "" for n in places], outputs, **attributes)
            kinds = {n: onnx.helper.np_dtype_to_tensor_dtype(x.dtype) for n, x in feeds.items()}
            graph = onnx.helper.make_graph(
                [node],
                "standard",
                [onnx.helper.make_tensor_value_info(n, kinds[n], [None] * x.ndim) for n, x in feeds.items()],
                [onnx.helper.make_tensor_value_info(n, kinds["q"], None) for n in outputs],
            )
            proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)], ir_version=10)
            model = ggml.onnx.load(proto, strict=True, threads=2)
        found = model.run(feeds)
        np.testing.assert_allclose(found[0], wanted[0], 2e-5, 2e-6)
        for x, y in zip(found[1:], wanted[1:]):
            np.testing.assert_array_equal(x, y)
        assert {e.op for e in model.report(feeds)} == {"Attention"}


# Attention in pieces: products and a softmax

PIECES = {  # nodes from q, transposed keys t (of k) and constants to p, the probabilities; low is -inf, least finite
    "plain": "MatMul q t a, Softmax a p",
    "scaled": "MatMul q t a, Mul c a s, Softmax s p",
    "scaled before": "Mul q c r, Mul t c u, MatMul r u a, Div a c s, Softmax s p",
    "masks": "MatMul q t a, Add m a b, Add b h s, Softmax s p",
    "hidden": "MatMul q t a, Where w low a s, Softmax s o, IsNaN o n, Where n zero o p",
    "seen": "MatMul q t a, Mul a c b, Where w b low s, Softmax s o, IsNaN o n, Where n zero o p",
    "lowered": "MatMul q t a, Where w a least s, Softmax s p",
    "lowered sums": "MatMul q t a, Add m a b, Where w b least s, Softmax s p",
}
CONSTANTS = {k: np.float32(v) for k, v in {"c": 0.3, "low": -np.inf, "least": -3e38, "zero": 0}.items()}


def pieces(form, rank, feeds, strict=True):
    """The model of a form, whose q, k and v have a rank."""
    perm = [*range(rank - 2), rank - 1, rank - 2]
    nodes = [onnx.helper.make_node("Transpose", ["k"], ["t"], perm=perm)]
    for op, *operands, result in (line.split() for line in (PIECES[form] + ", MatMul p v y").split(", ")):
        nodes.append(onnx.helper.make_node(op, operands, [result]))
    kinds = {k: onnx.helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in feeds.items()}
    graph = onnx.helper.make_graph(
        nodes,
        "pieces",
        [onnx.helper.make_tensor_value_info(k, kinds[k], [None] * v.ndim) for k, v in feeds.items()],
        [onnx.helper.make_tensor_value_info("y", kinds["q"], None)],
        [onnx.numpy_helper.from_array(v, k) for k, v in CONSTANTS.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 20)]
    return ggml.onnx.load(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), strict=strict, threads=2)


def scores_of(form, products, rng):
    """What the softmax of a form is taken of, and its masks; the first query of some forms sees no key."""
    if form == "masks":
        m, h = (rng.standard_normal(s).astype(np.float32) for s in (products.shape[-1:], (*products.shape[-3:-1], 1)))
        return products + m + h, {"m": m, "h": h}
    if form in ("plain", "scaled", "scaled before"):
        return products * {"plain": 1, "scaled": 0.3, "scaled before": 0.3}[form], {}
    w = rng.random(products.shape[-2:]) < 0.5
    w[0] = form == "hidden"
    low = CONSTANTS["least" if form == "lowered" else "low"]
    return np.where(w != (form == "hidden"), products * (0.3 if form == "seen" else 1), low), {"w": w}


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
@pytest.mark.parametrize("form", [form for form in PIECES if form != "lowered sums"])
def test_products_with_a_softmax_between(form, rank):
    """For several numbers of queries and keys, one after the other."""
    rng, lead, model = np.random.default_rng(rank), {2: (), 3: (3,), 4: (2, 3), 5: (2, 1, 3)}[rank], None
    for tokens, keys in ((5, 7), (1, 9), (33, 4), (5, 7)):
        sizes = {"q": (tokens, 8), "k": (keys, 8), "v": (keys, 6)}
        feeds = {name: rng.standard_normal((*lead, *size)).astype(np.float32) for name, size in sizes.items()}
        s, masks = scores_of(form, feeds["q"].astype(float) @ np.swapaxes(feeds["k"], -1, -2), rng)
        with np.errstate(invalid="ignore"):
            e = np.exp(s - s.max(-1, keepdims=True))
        wanted = np.nan_to_num(e / e.sum(-1, keepdims=True)) @ feeds["v"].astype(float)
        model = model or pieces(form, rank, feeds | masks)
        assert [n.op for n in model.program.nodes] == ["ggml.Attention"]
        np.testing.assert_allclose(model.run(feeds | masks)[0], wanted, 2e-5, 2e-6)


def test_low_scores_in_place_of_sums():
    """Where all other scores are -inf, the softmax is that of the low ones: no sum of masks gives them."""
    rng = np.random.default_rng(2)
    feeds = {n: rng.standard_normal((1, 2, 4, 8)).astype(np.float32) for n in "qkv"}
    feeds |= {"m": np.full(4, -np.inf, np.float32), "w": np.array([True, False, True, False])}
    found = pieces("lowered sums", 4, feeds).run(feeds)[0]
    np.testing.assert_allclose(found, np.broadcast_to(feeds["v"][:, :, 1::2].mean(2, keepdims=True), found.shape), 1e-6)


@pytest.mark.parametrize("kind, tolerance", [(np.float16, 2e-3), (np.float64, 1e-12)])
def test_pieces_of_other_types(kind, tolerance):
    rng = np.random.default_rng(1)
    feeds = {name: rng.standard_normal((2, 3, 5, 8)).astype(kind) for name in "qkv"}
    q, k, v = (x.astype(float) for x in feeds.values())
    e = np.exp(q @ np.swapaxes(k, -1, -2))
    found = pieces("plain", 4, feeds, strict=kind != np.float64).run(feeds)[0]
    assert found.dtype == kind
    np.testing.assert_allclose(found, e / e.sum(-1, keepdims=True) @ v, tolerance, tolerance)
