"""Nemotron-H (arXiv:2504.03624): each layer is a state space as in Mamba 2, attention without positions, or a
feed-forward part with squared ReLU, in Nemotron 3 a mixture of experts."""

from . import keeps, mamba
from .base import Routing
from .llama import embed, head
from .parallel import relu_squared

__all__ = ["caches", "embed", "head", "keys", "layer"]


def keys(k):
    """The sizes of the state spaces, and the routing of the experts."""
    own = mamba.sizes(k)
    if k.arch == "nemotron_h_moe":
        groups = k.integer("expert_group_count", 1, high=65536)
        own |= {
            "shared_ff": k.integer("expert_shared_feed_forward_length"),
            "groups_of_experts": groups if groups > 1 else 0,
            "groups_used": k.integer("expert_group_used_count", groups, high=groups),
            "normalized": k.flag("expert_weights_norm", True),
        }
    return own


def caches(c):
    """Keys and values, nothing, or the states."""
    return [None if feeds else kept for feeds, kept in zip(c.feeds, keeps.usual(c, mamba.states(c)), strict=True)]


def layer(g, i, x):
    """x += f(norm(x))."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    if c.attends[i]:
        h = g.attended(i, *g.queries_keys_values(i, h))
    elif c.feeds[i]:
        h = g.point(b + "ffn_out", experts(g, i, h) if c.n_expert else g.between(h, b + "ffn", relu_squared))
    else:
        h = mamba.mamba2(g, i, h)
    x, h = g.keep_last(i, x, h)
    return g.point(b + "out", g.add(x, h))


def experts(g, i, h):
    """The chosen experts and the shared one, none of which has a gate."""
    c, own, name = g.config, g.config.own, f"blk.{i}.ffn"
    routing = Routing("sigmoid", False, f"blk.{i}.exp_probs_b.bias", own["groups_of_experts"], own["groups_used"],
                      normalized=own["normalized"])  # fmt: skip
    shared = relu_squared(g.ctx, g.linear(h, name + "_up_shexp", own["shared_ff"]))
    shared = g.linear(shared, name + "_down_shexp", c.n_embd)
    return g.add(g.experts(h, name, relu_squared, routing, ungated=True), shared)
