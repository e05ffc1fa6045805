"""The Gemma transformer, built of ggml operations, ready to be trained.

Each piece is a function that adds nodes to a context; `logits` puts them together. Shapes are in ggml's order, innermost first:
x [dim, tokens] holds all sequences of a batch one after the other.
"""

import math
from dataclasses import dataclass

import numpy as np

import ggml

EPS = 1e-6
SOFT_CAP = 30.0


@dataclass
class Config:
    vocab: int = 12
    dim: int = 32
    heads: int = 4
    head_dim: int = 8
    hidden: int = 64
    layers: int = 2


def sizes(c: Config) -> dict[str, tuple[int, ...]]:
    """The parameters, by name, with their sizes."""
    out = {"embedding": (c.dim, c.vocab), "final_norm": (c.dim,)}
    for i in range(c.layers):
        out |= {
            f"{i}.attention_norm": (c.dim,),
            f"{i}.qkv": (c.dim, (c.heads + 2) * c.head_dim),  # the queries of all heads, then one key and one value
            f"{i}.attention_out": (c.heads * c.head_dim, c.dim),
            f"{i}.hidden_norm": (c.dim,),
            f"{i}.gating": (c.dim, 2 * c.hidden),
            f"{i}.hidden_out": (c.hidden, c.dim),
        }
    return out


def parameters(ctx, c: Config, seed=0) -> dict:
    """New parameters: matrices of variance 1 / inputs, norms of zero (which scale by one)."""
    rng, weights = np.random.default_rng(seed), {}
    for name, ne in sizes(c).items():
        w = weights[name] = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, *(*ne, 1)[:2])
        ggml.ggml_set_name(w, name)
        ggml.ggml_set_param(w)
        ggml.utils.to_numpy(w)[...] = rng.standard_normal(ne[::-1]) / math.sqrt(ne[0]) if len(ne) > 1 else 0
    return weights


# ---- pieces ----------------------------------------------------------------------------------------------------------
def embed(ctx, embedding, tokens):
    """Rows of the embedding, times sqrt(dim)."""
    return ggml.ggml_scale(ctx, ggml.ggml_get_rows(ctx, embedding, tokens), math.sqrt(embedding.contents.ne[0]))


def rms_norm(ctx, x, w):
    """x / rms(x) * (1 + w)"""
    return ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, x, EPS), ggml.ggml_scale_bias(ctx, w, 1.0, 1.0))


def split_heads(ctx, qkv, heads, batch):
    """Views of qkv [(heads + 2) * d, tokens] as queries [d, heads, n, batch], keys and values [d, 1, n, batch]."""
    d, n, step = qkv.contents.ne[0] // (heads + 2), qkv.contents.ne[1] // batch, qkv.contents.nb[1]

    def view(count, first):
        return ggml.ggml_view_4d(ctx, qkv, d, count, n, batch, 4 * d, step, n * step, 4 * d * first)

    return view(heads, 0), view(1, heads), view(1, heads + 1)


def attention_weights(ctx, q, k, positions):
    """Soft-max of the scores of keys that are not later: [keys, queries, heads, batch]."""
    d = q.contents.ne[0]
    q, k = (ggml.ggml_permute(ctx, ggml.ggml_rope(ctx, t, positions, d, ggml.GGML_ROPE_TYPE_NEOX), 0, 2, 1, 3) for t in (q, k))
    scores = ggml.ggml_mul_mat(ctx, k, ggml.ggml_scale(ctx, q, 1 / math.sqrt(d)))
    return ggml.ggml_soft_max(ctx, ggml.ggml_diag_mask_inf(ctx, scores, 0))


def mix(ctx, weights, v):
    """Values mixed by attention, all heads of a token in one row: [heads * d, tokens]."""
    d, _, n, batch = v.contents.ne[:4]
    mixed = ggml.ggml_mul_mat(ctx, ggml.ggml_permute(ctx, v, 1, 2, 0, 3), weights)
    heads = mixed.contents.ne[2]
    return ggml.ggml_cont_2d(ctx, ggml.ggml_permute(ctx, mixed, 0, 2, 1, 3), d * heads, n * batch)


def attention(ctx, x, qkv, out, heads, batch, positions):
    """Multi-query attention: heads have their own queries and share keys and values."""
    q, k, v = split_heads(ctx, ggml.ggml_mul_mat(ctx, qkv, x), heads, batch)
    return ggml.ggml_mul_mat(ctx, out, mix(ctx, attention_weights(ctx, q, k, positions), v))


def gated_gelu(ctx, h):
    """gelu(first half) * second half of each row."""
    n, tokens = h.contents.ne[0] // 2, h.contents.ne[1]
    gate, up = (ggml.ggml_view_2d(ctx, h, n, tokens, h.contents.nb[1], at) for at in (0, 4 * n))
    return ggml.ggml_mul(ctx, ggml.ggml_gelu(ctx, gate), up)


def soft_cap(ctx, logits):
    """logits, bent to stay within -30 and 30."""
    return ggml.ggml_scale(ctx, ggml.ggml_tanh(ctx, ggml.ggml_scale(ctx, logits, 1 / SOFT_CAP)), SOFT_CAP)


def bits(ctx, logits, labels, scored):
    """Cross entropy in bits for each of `scored` tokens; labels [vocab, tokens]: one-hot, rows of zeros do not count."""
    loss = ggml.ggml_cross_entropy_loss(ctx, logits, labels)
    return ggml.ggml_scale(ctx, loss, logits.contents.ne[1] / (scored * math.log(2)))


# ---- the whole -------------------------------------------------------------------------------------------------------
def layer(ctx, w, i, x, c: Config, batch, positions):
    h = rms_norm(ctx, x, w[f"{i}.attention_norm"])
    x = ggml.ggml_add(ctx, x, attention(ctx, h, w[f"{i}.qkv"], w[f"{i}.attention_out"], c.heads, batch, positions))
    h = ggml.ggml_mul_mat(ctx, w[f"{i}.gating"], rms_norm(ctx, x, w[f"{i}.hidden_norm"]))
    return ggml.ggml_add(ctx, x, ggml.ggml_mul_mat(ctx, w[f"{i}.hidden_out"], gated_gelu(ctx, h)))


def logits(ctx, w, tokens, positions, c: Config, batch=1):
    """[vocab, tokens], and the results of the embedding and of each layer."""
    x = embed(ctx, w["embedding"], tokens)
    states = [x]
    for i in range(c.layers):
        x = layer(ctx, w, i, x, c, batch, positions)
        states.append(x)
    out = ggml.ggml_mul_mat(ctx, w["embedding"], rms_norm(ctx, x, w["final_norm"]))
    return soft_cap(ctx, out), states
