"""The text encoders of CLIP (arXiv:2103.00020) and SigLIP (arXiv:2303.15343): learned positions, norms first.

The tokens of CLIP see those before them, those of SigLIP all. The encoder of pictures in the same file is in vision/.
"""

import ggml

from .gpt2 import embed, head

__all__ = ["embed", "head", "keys", "layer", "text"]

ACTIVATIONS = {"quick_gelu": ggml.ggml_gelu_quick, "gelu": ggml.ggml_gelu_erf, "gelu_pytorch_tanh": ggml.ggml_gelu}


def keys(k):
    """The activation, what makes a score of a cosine, and the token that ends a text."""
    name = k.text("hidden_act", "quick_gelu")
    if name not in ACTIVATIONS:
        raise ValueError(
            f"load: {k.path}: key 'clip.hidden_act' is {name[:60]!r}: need one of {', '.join(ACTIVATIONS)}"
        )
    return {
        "activation": ACTIVATIONS[name],
        "logit_scale": k.number("logit_scale", 0.0, -100.0, 100.0),
        "logit_bias": k.number("logit_bias", 0.0, -1e4, 1e4),
        "end": k.integer("end_token_id", -1, low=-1),
    }


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    c, b = g.config, f"blk.{i}."
    q, k, v = g.queries_keys_values(i, g.layer_norm(x, b + "attn_norm"))
    h = g.attention(i, q, k, v, g.default_scale())
    x = g.add(x, g.point(b + "attn_out", g.linear(h, b + "attn_output", c.n_embd)))
    h = g.between(g.point(b + "ffn_norm", g.layer_norm(x, b + "ffn_norm")), b + "ffn", c.own["activation"])
    return g.point(b + "out", g.add(x, g.point(b + "ffn_out", h)))


def text(c, ids):
    """The tokens up to the first one that ends a text; where the file names none, the largest id is that one."""
    end = max(ids) if c.own["end"] < 0 else c.own["end"]
    return ids[: ids.index(end) + 1] if c.causal and end in ids else ids
