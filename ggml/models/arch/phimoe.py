"""Phi-3.5-MoE: layer norms, and two experts for each token, which SparseMixer (arXiv:2409.12136) chooses one by one."""

import ggml

from .llama import embed

__all__ = ["embed", "head", "layer"]
NEAR = 0.02  # experts whose scores are relatively further from the best one have no part in its soft-max
FAR = -1e30  # added to a score, it leaves nothing of it


def layer(g, i, x):
    """x += attention(norm(x)), then x += experts(norm(x))."""
    b, name = f"blk.{i}.", f"blk.{i}.ffn"
    h = g.point(b + "attn_norm", g.layer_norm(x, b + "attn_norm"))
    q, k, v = g.queries_keys_values(i, h)
    q, k = g.rotated(i, q, k)
    x, h = g.keep_last(i, x, g.attended(i, q, k, v))
    x = g.point(b + "ffn_in", g.add(x, h))
    h = g.point(b + "ffn_norm", g.layer_norm(x, b + "ffn_norm"))
    y = g.mixed(h, name, ggml.ggml_swiglu_split, *routed(g, h, name))
    return g.point(b + "out", g.add(x, g.point(b + "ffn_out", y)))


def routed(g, x, name):
    """The experts of each token, i32 [2, N], and their weights, [1, 2, N]: the best one, and the best of the others."""
    c, ctx, n = g.config, g.ctx, x.contents.ne[1]
    scores = g.linear(x, name + "_gate_inp", c.n_expert)  # [experts, N]
    first, weight = best(g, scores, scores)
    zeros = ggml.ggml_fill(ctx, ggml.ggml_reshape_3d(ctx, scores, 1, c.n_expert, n), 0.0)
    taken = ggml.ggml_set_rows(ctx, zeros, ggml.ggml_fill(ctx, weight, FAR), first)
    others = g.add(scores, ggml.ggml_reshape_2d(ctx, taken, c.n_expert, n))
    second, other = best(g, others, scores)
    return ggml.ggml_concat(ctx, first, second, 0), ggml.ggml_concat(ctx, weight, other, 1)


def best(g, scores, all_scores):
    """The best expert of each token, i32 [1, N], and its part of the soft-max over those near it, [1, 1, N]."""
    ctx, (experts, n) = g.ctx, scores.contents.ne[:2]
    chosen = ggml.ggml_cont(ctx, ggml.ggml_argsort_top_k(ctx, scores, 1))
    most = ggml.ggml_get_rows(ctx, ggml.ggml_reshape_3d(ctx, scores, 1, experts, n), chosen)
    most = ggml.ggml_reshape_2d(ctx, most, 1, n)
    # divided by max(|score|, best): (score - best) / that < -NEAR is far
    size = ggml.ggml_abs(ctx, all_scores)
    size = g.add(ggml.ggml_relu(ctx, ggml.ggml_sub(ctx, size, most)), most)
    below = ggml.ggml_div(ctx, ggml.ggml_sub(ctx, scores, most), size)
    far = ggml.ggml_step(ctx, ggml.ggml_scale_bias(ctx, below, -1.0, -NEAR))
    parts = ggml.ggml_soft_max(ctx, g.add(scores, g.scale(far, FAR)))
    return chosen, ggml.ggml_get_rows(ctx, ggml.ggml_reshape_3d(ctx, parts, 1, experts, n), chosen)


def head(g, x):
    """norm(x)."""
    return g.layer_norm(x, "output_norm")
