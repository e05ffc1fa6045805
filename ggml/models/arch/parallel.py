"""Architectures with layer norms whose attention and feed-forward part can read the same x: Phi-2, GPT-NeoX
(arXiv:2204.06745), StableLM 2 (arXiv:2402.17834), Falcon (arXiv:2311.16867), StarCoder 2 (arXiv:2402.19173), Nemotron
(arXiv:2402.16819), Command R and Command R7B."""

import ggml

from .llama import embed

__all__ = ["embed", "head", "keys", "layer"]


def relu_squared(ctx, x):
    """max(x, 0)^2."""
    return ggml.ggml_sqr(ctx, ggml.ggml_relu(ctx, x))


# What is between the two matrices of the feed-forward part; the others have a gate
ACTIVATIONS = {
    "phi2": ggml.ggml_gelu,
    "gptneox": ggml.ggml_gelu_erf,
    "falcon": ggml.ggml_gelu_erf,
    "starcoder2": ggml.ggml_gelu,
    "nemotron": relu_squared,
}
PARALLEL = {"phi2": True, "gptneox": True, "stablelm": False, "falcon": True, "starcoder2": False, "nemotron": False,
            "command-r": True, "cohere2": True}  # fmt: skip
SCALED = ("command-r", "cohere2")


def keys(k):
    """Whether both parts read the same x, and the factor of the logits."""
    scale = k.number("logit_scale", 0.0625) if k.arch in SCALED else 1.0
    return {"parallel": k.flag("use_parallel_residual", PARALLEL[k.arch]), "logit_scale": scale}


def layer(g, i, x):
    """x += attention(norm(x)) + ffn(norm(x)), or one after the other."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.layer_norm(x, b + "attn_norm"))
    same = h  # what the feed-forward part reads where it has no norm of its own
    if g.has(b + "attn_norm_2.weight"):  # Falcon's attention
        h = g.layer_norm(x, b + "attn_norm_2")
    q, k, v = g.queries_keys_values(i, h)
    if c.arch != "cohere2" or c.local[i] or not c.window:  # layers that attend to everything have no positions
        q, k = g.rotated(i, q, k)
    h = g.attended(i, q, k, v)
    x, h, same = g.keep_last(i, x, h, same)
    y = g.point(b + "ffn_in", g.add(x, h))
    if g.has(b + "ffn_norm.weight"):
        same = g.point(b + "ffn_norm", g.layer_norm(x if c.own["parallel"] else y, b + "ffn_norm"))
    if c.arch in ACTIVATIONS:
        f = g.between(same, b + "ffn", ACTIVATIONS[c.arch])
    else:
        f = g.gated(same, b + "ffn", ggml.ggml_swiglu_split)
    return g.point(b + "out", g.add(y, g.point(b + "ffn_out", f)))


def head(g, x):
    """scale * norm(x); the scale is that of the logits."""
    x = g.layer_norm(x, "output_norm")
    return g.scale(x, g.config.own["logit_scale"]) if g.config.arch in SCALED else x
