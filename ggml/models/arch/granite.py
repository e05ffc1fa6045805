"""Granite (arXiv:2405.04324), Granite MoE and MiniCPM (arXiv:2404.06395): LLaMA with factors of the embedding, of what
layers add, of the scores and of the logits."""

import math

import ggml

from . import llama


def keys(k):
    """The factors; of MiniCPM those of its first models, where a file has none."""
    embedding = residual = logits = 1.0
    if k.arch in ("minicpm", "minicpm3"):
        embedding = 12.0
        residual = 1.4 / math.sqrt(k.integer("block_count", high=4096))
        logits = k.integer("embedding_length") / 256
    return {
        "embedding_scale": k.number("embedding_scale", embedding),
        "residual_scale": k.number("residual_scale", residual),
        "logit_scale": k.divisor("logit_scale", logits),  # the logits are divided by it
        "attention_scale": k.number("attention.scale", 0.0),  # 0 for the usual one
        "shared_ff": k.integer("expert_shared_feed_forward_length", 0, low=0),
    }


def embed(g):
    """x = scale * token_embd[id]."""
    x = g.embedding(g.inputs.ids, "token_embd", g.config.n_vocab)
    return g.point("token_embd", g.scale(x, g.config.own["embedding_scale"]))


def attention(g, i, x, rotates=True):
    """attention(norm(x)) with the scale of the file."""
    return g.self_attention(i, x, rotates=rotates, scale=g.config.own["attention_scale"])


def layer(g, i, x, attention=attention):
    """x += scale * attention(norm(x)), then x += scale * ffn(norm(x))."""
    return feed_forward(g, i, x, attention(g, i, x))


def feed_forward(g, i, x, h):
    """x += scale * h, then x += scale * ffn(norm(x))."""
    c, b = g.config, f"blk.{i}."
    x, h = g.keep_last(i, x, h)
    x = g.point(b + "ffn_in", g.add(x, g.scale(h, c.own["residual_scale"])))

    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    y = (g.experts if c.n_expert else g.gated)(h, b + "ffn", ggml.ggml_swiglu_split)
    if c.own["shared_ff"]:
        y = g.add(y, g.gated(h, b + "ffn", ggml.ggml_swiglu_split, "_shexp", c.own["shared_ff"]))
    y = g.point(b + "ffn_out", y)
    return g.point(b + "out", g.add(x, g.scale(y, c.own["residual_scale"])))


def head(g, x):
    """norm(x) / scale, which divides the logits."""
    return g.scale(llama.head(g, x), 1 / g.config.own["logit_scale"])
