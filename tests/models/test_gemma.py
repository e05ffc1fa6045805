"""The Gemma block of examples/gemma against a NumPy reference: values, and gradients by complex steps, of each part
and of the whole model.
"""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from cases.harness import ISAS, close, compute, isa, load, tensor

import ggml

pytestmark = pytest.mark.core
EXAMPLE = Path(__file__).parents[2] / "examples" / "gemma"


def module(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


model = module("model")
train = module("train")


# ---- the reference: functions of arrays, real or complex; x is [batch, tokens, dim] ----------------------------------
def rms_norm(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * (1 + w)


def rope(x):
    """x [batch, heads, tokens, d]: the pairs (i, i + d/2) are rotated by the position times 10000^(-2i/d)."""
    d, n = x.shape[-1], x.shape[-2]
    angle = np.arange(n)[:, None] * 10000.0 ** (-2 * np.arange(d // 2) / d)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


def soft_max(x):
    e = np.exp(x - x.real.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention_weights(q, k):
    """q [batch, tokens, heads, d], k [batch, tokens, 1, d]: [batch, heads, queries, keys]."""
    q, k = rope(q.swapaxes(1, 2)), rope(k.swapaxes(1, 2))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    later = np.triu(np.ones(scores.shape[-2:], bool), 1)
    return soft_max(np.where(later, -1e9, scores))


def mix(weights, v):
    """The attention's output: [batch, tokens, heads * d]."""
    mixed = (weights @ v.swapaxes(1, 2)).swapaxes(1, 2)
    return mixed.reshape(*mixed.shape[:2], -1)


def attention(x, qkv, out, heads):
    y = x @ qkv.T
    y = y.reshape(*y.shape[:2], heads + 2, -1)
    return mix(attention_weights(y[:, :, :heads], y[:, :, heads : heads + 1]), y[:, :, heads + 1 :]) @ out.T


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gated_gelu(h):
    n = h.shape[-1] // 2
    return gelu(h[..., :n]) * h[..., n:]


def soft_cap(x):
    return 30 * np.tanh(x / 30)


def bits(logits, labels, scored):
    m = logits.real.max(-1, keepdims=True)
    logs = logits - m - np.log(np.exp(logits - m).sum(-1, keepdims=True))
    return -(labels * logs).sum() / (scored * math.log(2))


def whole(w, tokens, c):
    """The logits, and the results of the embedding and of each layer."""
    x = w["embedding"][tokens] * math.sqrt(c.dim)
    states = [x]
    for i in range(c.layers):
        x = x + attention(rms_norm(x, w[f"{i}.attention_norm"]), w[f"{i}.qkv"], w[f"{i}.attention_out"], c.heads)
        x = x + gated_gelu(rms_norm(x, w[f"{i}.hidden_norm"]) @ w[f"{i}.gating"].T) @ w[f"{i}.hidden_out"].T
        states.append(x)
    return soft_cap(rms_norm(x, w["final_norm"]) @ w["embedding"].T), states


def complex_step(f, x):
    """The gradient of a real function f of a real array, to full precision: the imaginary part of f(x + ih) / h."""
    z, gradient = x.astype(complex), np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        z[i] += 1e-30j
        gradient[i] = f(z).imag / 1e-30
        z[i] = x[i]
    return gradient


# ---- parts -----------------------------------------------------------------------------------------------------------
BATCH, N, HEADS, D = 2, 5, 2, 4


def positions(ctx):
    return tensor(ctx, np.arange(N, dtype=np.int32), "I32")


def attend(ctx, q, k):
    return model.attention_weights(ctx, q, k, positions(ctx))


def attend_whole(ctx, x, qkv, out):
    return model.attention(ctx, x, qkv, out, HEADS, BATCH, positions(ctx))


TOKENS = np.array([3, 0, 6, 3, 1])
PIECES = {  # the ggml function, its reference, and the shapes of the operands in NumPy's order
    "matmul": (ggml.ggml_mul_mat, lambda w, x: x @ w.swapaxes(-1, -2), (6, 8), (5, 8)),
    "multi-head matmul": (
        lambda ctx, w, x: ggml.ggml_mul_mat(ctx, w, x),
        lambda w, x: x @ w.swapaxes(-1, -2),
        (HEADS, 6, 8),
        (HEADS, 5, 8),
    ),
    "rms norm": (model.rms_norm, rms_norm, (5, 8), (8,)),
    "soft-max": (ggml.ggml_soft_max, soft_max, (3, 5, 7)),
    "masked attention": (attend, attention_weights, (BATCH, N, HEADS, D), (BATCH, N, 1, D)),
    "mixing by attention": (model.mix, mix, (BATCH, HEADS, N, N), (BATCH, N, 1, D)),
    "attention": (
        attend_whole,
        lambda x, qkv, out: attention(x.reshape(BATCH, N, 8), qkv[0, 0], out[0, 0], HEADS),
        (BATCH * N, 8),
        ((HEADS + 2) * D, 8),
        (8, HEADS * D),
    ),
    "gated gelu": (model.gated_gelu, gated_gelu, (5, 16)),
    "input embedding": (
        lambda ctx, w: model.embed(ctx, w, tensor(ctx, TOKENS.astype(np.int32), "I32")),
        lambda w: w[..., TOKENS, :] * math.sqrt(8),
        (7, 8),
    ),
    "soft-cap": (lambda ctx, x: model.soft_cap(ctx, ggml.ggml_scale(ctx, x, 20.0)), lambda x: soft_cap(20 * x), (5, 8)),
    "loss": (
        lambda ctx, x: model.bits(ctx, x, tensor(ctx, np.eye(8)[TOKENS], "F32"), 5),
        lambda x: bits(x, np.eye(8)[TOKENS], 5).reshape(1),
        (5, 8),
    ),
}


def four(x):
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


@pytest.mark.parametrize("piece", PIECES)
def test_part(ctx, piece):
    """The values and the gradients by all operands, for a random cotangent."""
    build, ref, *shapes = PIECES[piece]
    rng = np.random.default_rng(3)
    values = [rng.standard_normal(s).astype(np.float32).astype(np.float64) for s in shapes]
    values = [four(v) for v in values]
    operands = []
    for v in values:
        t = tensor(ctx, v, "F32")
        ggml.ggml_set_param(t)
        operands.append(t)
    out = build(ctx, *operands)
    want = np.asarray(ref(*values))
    w = np.random.default_rng(4).standard_normal(want.shape).astype(np.float32).astype(np.float64)
    loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, out, tensor(ctx, w.reshape(load_shape(out)), "F32")))
    ggml.ggml_set_loss(loss)
    graph = ggml.ggml_new_graph_custom(ctx, 512, True)
    ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    exact = [
        complex_step(lambda z, i=i: (ref(*values[:i], z, *values[i + 1 :]) * w).sum(), v) for i, v in enumerate(values)
    ]
    for name in ISAS:
        with isa(name):
            ggml.ggml_graph_reset(graph)
            compute(ctx, graph, 2)
            close(load(out), want.reshape(load_shape(out)), 1e-5, f"{name}, value")
            for t, gradient in zip(operands, exact, strict=True):
                close(load(ggml.ggml_graph_get_grad(graph, t)), four(gradient), 1e-5, f"{name}, gradient")


def load_shape(t):
    return tuple(t.contents.ne[:4])[::-1]


# ---- the whole model -------------------------------------------------------------------------------------------------
def test_whole_model(ctx):
    """The result of each layer, the loss and the gradient by each parameter, for a batch of two sequences."""
    c = model.Config(vocab=7, dim=8, heads=HEADS, head_dim=D, hidden=12, layers=2)
    rng = np.random.default_rng(5)
    text = rng.integers(0, c.vocab, (BATCH, N + 1))
    labels = np.eye(c.vocab)[text[:, 1:]]
    labels[:, :2] = 0  # the prompt
    scored = BATCH * (N - 2)
    weights = model.parameters(ctx, c, seed=6)
    for name in weights:
        if name.endswith("norm"):
            ggml.utils.to_numpy(weights[name])[...] = rng.standard_normal(c.dim) * 0.3
    w = {name: load(t).reshape(model.sizes(c)[name][::-1]) for name, t in weights.items()}

    tokens = tensor(ctx, text[:, :-1].ravel().astype(np.int32), "I32")
    out, states = model.logits(ctx, weights, tokens, positions(ctx), c, BATCH)
    loss = model.bits(ctx, out, tensor(ctx, labels.reshape(1, 1, -1, c.vocab), "F32"), scored)
    ggml.ggml_set_loss(loss)
    graph = ggml.ggml_new_graph_custom(ctx, 2048, True)
    ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_backward_expand(ctx, graph, None)

    want, layers = whole(w, text[:, :-1], c)
    exact = {
        k: complex_step(lambda z, k=k: bits(whole({**w, k: z}, text[:, :-1], c)[0], labels, scored), w[k]) for k in w
    }
    for name in ISAS:
        with isa(name):
            ggml.ggml_graph_reset(graph)
            compute(ctx, graph, 2)
            for i, (state, value) in enumerate(zip([*states, out], [*layers, want], strict=True)):
                close(load(state), value.reshape(load_shape(state)), 1e-5, f"{name}, state {i}")
            close(load(loss), np.full((1, 1, 1, 1), bits(want, labels, scored)), 1e-6, f"{name}, loss")
            for k, gradient in exact.items():
                got = load(ggml.ggml_graph_get_grad(graph, weights[k]))
                error = np.linalg.norm(got - four(gradient)) / np.linalg.norm(gradient)
                assert error < 1e-5, f"{name}, gradient by {k}: {error}"


def test_training_learns():
    """A hundred steps of the example reduce the loss by at least a third."""
    history = train.train(steps=100, batch=32, show=lambda *_: None)
    assert history[0][1] > 3
    assert history[-1][1] < history[0][1] * 2 / 3
