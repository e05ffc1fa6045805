"""Mixtures of experts whose first layers have none, and an expert that all tokens share: GLM-4.5 (arXiv:2508.06471) and
ERNIE 4.5. A bias of the router chooses, but does not weigh."""

import ggml

from .base import Routing
from .llama import embed, head

__all__ = ["embed", "head", "keys", "layer"]
SCORES = {1: "softmax", 2: "sigmoid"}  # expert_gating_func
DEFAULT_SCORES = {"glm4moe": 2, "ernie4_5-moe": 1, "deepseek2": 1}


def keys(k):
    """The widths of experts and dense layers, which layers have experts, and the routing."""
    n_ff = k.integer("expert_feed_forward_length")
    shared = k.integer("expert_shared_count", 1, low=0, high=4096)
    return {
        "n_ff": n_ff,
        "dense_ff": k.integer("feed_forward_length"),
        "shared_ff": k.integer("expert_shared_feed_forward_length", n_ff * shared, low=0),
        "dense_layers": k.integer("leading_dense_block_count", 0, low=0, high=4096),
        "score": SCORES[k.integer("expert_gating_func", DEFAULT_SCORES[k.arch], high=2)],
        "normalized": k.flag("expert_weights_norm", k.arch != "deepseek2"),
        **groups(k),
    }


def groups(k):
    """The groups of the experts, and how many of them count; none for one group."""
    experts = k.integer("expert_count", high=65536)
    count = k.integer("expert_group_count", 1, high=experts)
    used = k.integer("expert_group_used_count", count, high=count)
    if experts % count or used * (experts // count) < k.integer("expert_used_count", high=experts):
        raise ValueError(f"load: {k.path}: {experts} experts, {used} of {count} groups of which count: need equal "
                         "groups, and enough experts in those that count")  # fmt: skip
    return {"groups": count, "groups_used": used} if used < count else {"groups": 0, "groups_used": 0}


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    c, b = g.config, f"blk.{i}."
    normed = "before" if g.has(b + "attn_q_norm.weight") else ""  # the larger GLM-4.5
    x, h = g.keep_last(i, x, g.self_attention(i, x, normed=normed))
    x = g.point(b + "ffn_in", g.add(x, h))

    h = g.point(b + "ffn_norm", g.rms_norm(x, b + ("post_attention_norm" if c.arch == "glm4moe" else "ffn_norm")))
    return g.point(b + "out", g.add(x, g.point(b + "ffn_out", feed_forward(g, i, h))))


def feed_forward(g, i, h):
    """The dense part of the first layers, else the chosen experts and the shared one."""
    own, name, bias = g.config.own, f"blk.{i}.ffn", f"blk.{i}.exp_probs_b.bias"
    if i < own["dense_layers"]:
        return g.gated(h, name, ggml.ggml_swiglu_split, n_ff=own["dense_ff"])
    routing = Routing(own["score"], False, bias if g.has(bias) else "", own["groups"], own["groups_used"],
                      2 if own["score"] == "sigmoid" else 1, own["normalized"])  # fmt: skip
    y = g.experts(h, name, ggml.ggml_swiglu_split, routing)
    return g.add(y, g.gated(h, name, ggml.ggml_swiglu_split, "_shexp", own["shared_ff"])) if own["shared_ff"] else y
