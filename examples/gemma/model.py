"""The Gemma transformer (arXiv:2403.08295) as ggml operations, ready to be trained.

Each function adds the nodes of one part to a context; `logits` composes them. Shapes are in ggml order, innermost
dimension first, with C = dim, D = head_dim, H = heads, T tokens in a sequence, B sequences and N = T B tokens. x [C, N]
holds the sequences of a batch one after the other.
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
    """The shapes of the parameters by their names."""
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
    """Creates the parameters: matrices with variance 1 / n_in, norms of zero (which scale by 1 + 0)."""
    rng, weights = np.random.default_rng(seed), {}
    for name, ne in sizes(c).items():
        w = weights[name] = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, *(*ne, 1)[:2])
        ggml.ggml_set_name(w, name)
        ggml.ggml_set_param(w)
        ggml.utils.to_numpy(w)[...] = rng.standard_normal(ne[::-1]) / math.sqrt(ne[0]) if len(ne) > 1 else 0
    return weights


# ---- parts -----------------------------------------------------------------------------------------------------------
def embed(ctx, embedding, tokens):
    """x = embedding[token] * sqrt(C): [C, N] from embedding [C, vocab] and tokens [N]."""
    return ggml.ggml_scale(ctx, ggml.ggml_get_rows(ctx, embedding, tokens), math.sqrt(embedding.contents.ne[0]))


def rms_norm(ctx, x, w):
    """x / sqrt(mean(x^2) + eps) * (1 + w) by rows of x [C, N], with w [C]."""
    return ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, x, EPS), ggml.ggml_scale_bias(ctx, w, 1.0, 1.0))


def split_heads(ctx, qkv, heads, batch):
    """Views of qkv [(H + 2) D, N] as queries [D, H, T, B], keys [D, 1, T, B] and values [D, 1, T, B]."""
    d, n, row = qkv.contents.ne[0] // (heads + 2), qkv.contents.ne[1] // batch, qkv.contents.nb[1]

    def view(count, first):
        # heads first to first + count - 1 of each token; nb1 is a head of 4 D bytes, nb2 a token, nb3 a sequence
        return ggml.ggml_view_4d(ctx, qkv, d, count, n, batch, 4 * d, row, n * row, 4 * d * first)

    return view(heads, 0), view(1, heads), view(1, heads + 1)


def attention_weights(ctx, q, k, positions):
    """soft_max(rope(k) rope(q) / sqrt(D)) over the keys up to the query: [T keys, T queries, H, B]."""
    d = q.contents.ne[0]
    # rotary positions: [D, heads, T, B] -> [D, T, heads, B]
    q, k = (ggml.ggml_rope(ctx, t, positions, d, ggml.GGML_ROPE_TYPE_NEOX) for t in (q, k))
    q, k = (ggml.ggml_permute(ctx, t, 0, 2, 1, 3) for t in (q, k))
    # scores[key, query] = k . q / sqrt(D), -inf for keys after the query; the single head of k serves all H of q
    scores = ggml.ggml_mul_mat(ctx, k, ggml.ggml_scale(ctx, q, 1 / math.sqrt(d)))
    return ggml.ggml_soft_max(ctx, ggml.ggml_diag_mask_inf(ctx, scores, 0))


def mix(ctx, weights, v):
    """v weights, with the heads of a token side by side: [H D, N] from weights [T, T, H, B] and v [D, 1, T, B]."""
    d, _, n, batch = v.contents.ne[:4]
    # y = v weights: [D, T, H, B] from v [T, D, 1, B]
    y = ggml.ggml_mul_mat(ctx, ggml.ggml_permute(ctx, v, 1, 2, 0, 3), weights)
    heads = y.contents.ne[2]
    # [D, T, H, B] -> [D, H, T, B] -> [H D, N]
    return ggml.ggml_cont_2d(ctx, ggml.ggml_permute(ctx, y, 0, 2, 1, 3), d * heads, n * batch)


def attention(ctx, x, qkv, out, heads, batch, positions):
    """Multi-query attention (arXiv:1911.02150): all heads share the keys and values. [C, N] -> [C, N]."""
    q, k, v = split_heads(ctx, ggml.ggml_mul_mat(ctx, qkv, x), heads, batch)
    return ggml.ggml_mul_mat(ctx, out, mix(ctx, attention_weights(ctx, q, k, positions), v))


def gated_gelu(ctx, h):
    """gelu(first half) * second half of each row (arXiv:2002.05202): [hidden, N] from h [2 hidden, N]."""
    n, tokens = h.contents.ne[0] // 2, h.contents.ne[1]
    gate, up = (ggml.ggml_view_2d(ctx, h, n, tokens, h.contents.nb[1], offset) for offset in (0, 4 * n))
    return ggml.ggml_mul(ctx, ggml.ggml_gelu(ctx, gate), up)


def soft_cap(ctx, logits):
    """30 tanh(logits / 30): limits the logits to the range from -30 to 30 smoothly."""
    return ggml.ggml_scale(ctx, ggml.ggml_tanh(ctx, ggml.ggml_scale(ctx, logits, 1 / SOFT_CAP)), SOFT_CAP)


def bits(ctx, logits, labels, scored):
    """Cross entropy in bits per token: the sum of -labels * log2(soft_max(logits)), divided by `scored`.

    labels [vocab, N] are one-hot; tokens with a row of zeros are not scored, so that `scored` of the N are.
    """
    # ggml_cross_entropy_loss is in nats and divides by N
    loss = ggml.ggml_cross_entropy_loss(ctx, logits, labels)
    return ggml.ggml_scale(ctx, loss, logits.contents.ne[1] / (scored * math.log(2)))


# ---- the whole model -------------------------------------------------------------------------------------------------
def layer(ctx, w, i, x, c: Config, batch, positions):
    """Layer i: x = x + attention(norm(x)), then x = x + hidden_out gated_gelu(gating norm(x)). [C, N] -> [C, N]."""
    h = rms_norm(ctx, x, w[f"{i}.attention_norm"])
    x = ggml.ggml_add(ctx, x, attention(ctx, h, w[f"{i}.qkv"], w[f"{i}.attention_out"], c.heads, batch, positions))
    h = ggml.ggml_mul_mat(ctx, w[f"{i}.gating"], rms_norm(ctx, x, w[f"{i}.hidden_norm"]))
    return ggml.ggml_add(ctx, x, ggml.ggml_mul_mat(ctx, w[f"{i}.hidden_out"], gated_gelu(ctx, h)))


def logits(ctx, w, tokens, positions, c: Config, batch=1):
    """The logits [vocab, N] of tokens [N], and a list of the results of the embedding and of each layer.

    positions: i32 [T], 0 to T - 1.
    """
    x = embed(ctx, w["embedding"], tokens)
    states = [x]
    for i in range(c.layers):
        x = layer(ctx, w, i, x, c, batch, positions)
        states.append(x)
    # logits = soft_cap(embedding norm(x)): the matrix of the embedding is used again
    out = ggml.ggml_mul_mat(ctx, w["embedding"], rms_norm(ctx, x, w["final_norm"]))
    return soft_cap(ctx, out), states
