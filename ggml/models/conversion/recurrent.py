"""Rows of the table for architectures with a state of each sequence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .fields import Fields
from .parts import (
    ATTENTION,
    DROPPED,
    EXPERTS,
    FURTHER,
    GATED,
    GRANITE_MODULES,
    GRANITE_MOE,
    HEAD_NORMS,
    TOP,
    Keys,
    Part,
    Row,
    column,
    flat,
    granite_factors,
    plus_one,
    rms,
    rope_of,
    rotation,
    sizes,
    slices,
)


# ---- LFM2 ------------------------------------------------------------------------------------------------------------
def attention_layers(c: Fields, other: str) -> list[bool]:
    """For each layer whether it has attention, not what `other` names."""
    kinds = c.array("layer_types", str, c.integer("num_hidden_layers", high=4096))
    for kind in kinds:
        if kind not in (other, "full_attention"):
            raise c.wrong("layer_types", kind, f"{other!r} or 'full_attention'")
    return [kind == "full_attention" for kind in kinds]


def lfm2(c: Fields) -> Keys:
    c.require("conv_bias", False, default=False)
    keys = sizes(c) | rotation(c)
    heads = keys["attention.head_count_kv"]
    width = keys["feed_forward_length"]
    if c.flag("block_auto_adjust_ff_dim", not c.has("num_experts")):
        width = int(2 * width / 3)
        if c.values.get("block_ffn_dim_multiplier", 1.0) is not None:
            multiple = c.integer("block_multiple_of", default=256)
            width = -(-int(c.number("block_ffn_dim_multiplier", default=1.0) * width) // multiple) * multiple
    return keys | {
        "feed_forward_length": width,
        "attention.head_count_kv": [heads * attends for attends in attention_layers(c, "conv")],
        "attention.layer_norm_rms_epsilon": c.number("norm_eps", high=1.0),
        "shortconv.l_cache": c.integer("conv_L_cache", low=2, high=64),
    }


def lfm2_moe(c: Fields) -> Keys:
    c.require("norm_topk_prob", True, default=True)
    return lfm2(c) | {
        "expert_count": c.integer("num_experts", high=65536),
        "expert_used_count": c.integer("num_experts_per_tok", high=65536),
        "expert_feed_forward_length": c.integer("moe_intermediate_size"),
        "leading_dense_block_count": c.integer("num_dense_layers", default=0, low=0, high=4096),
        "expert_weights_scale": c.number("routed_scaling_factor", default=1.0, low=1e-6),
        "expert_gating_func": 2,
    }


LFM2: dict[str, Any] = {
    **ATTENTION,
    "embed_tokens": "token_embd",
    "embedding_norm": "token_embd_norm",
    "lm_head": "output",
    "layers.{}.operator_norm": "blk.{}.attn_norm",
    "layers.{}.self_attn.out_proj": "blk.{}.attn_output",
    "layers.{}.self_attn.q_layernorm": "blk.{}.attn_q_norm",
    "layers.{}.self_attn.k_layernorm": "blk.{}.attn_k_norm",
    "layers.{}.conv.conv": Part("blk.{}.shortconv.conv", shape=flat),
    "layers.{}.conv.in_proj": "blk.{}.shortconv.in_proj",
    "layers.{}.conv.out_proj": "blk.{}.shortconv.out_proj",
    "layers.{}.ffn_norm": "blk.{}.ffn_norm",
    "layers.{}.feed_forward.w1": "blk.{}.ffn_gate",
    "layers.{}.feed_forward.w3": "blk.{}.ffn_up",
    "layers.{}.feed_forward.w2": "blk.{}.ffn_down",
}
LFM2_MOE: dict[str, Any] = {
    **LFM2,
    "layers.{}.feed_forward.gate": "blk.{}.ffn_gate_inp",
    "layers.{}.feed_forward.expert_bias": "blk.{}.exp_probs_b.bias",
    "layers.{}.feed_forward.experts.{}.w1": "blk.{}.ffn_gate_exps",
    "layers.{}.feed_forward.experts.{}.w3": "blk.{}.ffn_up_exps",
    "layers.{}.feed_forward.experts.{}.w2": "blk.{}.ffn_down_exps",
}


# ---- Qwen ------------------------------------------------------------------------------------------------------------
def qwen_next(c: Fields) -> Keys:
    """Gated delta nets, and attention in every n-th layer."""
    c.require("hidden_act", "silu", default="silu")
    widths = {"intermediate_size": c.values.get("moe_intermediate_size")}
    c = Fields({"partial_rotary_factor": 0.25, **widths, **c.values}, c.where)
    n, size = c.integer("num_hidden_layers", high=4096), c.integer("linear_key_head_dim", high=4096)
    c.require("linear_value_head_dim", size)
    every = c.integer("full_attention_interval", default=4, high=4096)
    kinds = c.array("layer_types", str, n, default=None)
    if kinds is not None:
        every = kinds.index("full_attention") + 1 if "full_attention" in kinds else n + 1
        if kinds != ["linear_attention" if (i + 1) % every else "full_attention" for i in range(n)]:
            raise c.wrong("layer_types", kinds, "'full_attention' in every n-th layer, else 'linear_attention'")
    values = c.integer("linear_num_value_heads", high=4096)
    return sizes(c) | rms(c) | rotation(c) | {
        "full_attention_interval": every,
        "ssm.conv_kernel": c.integer("linear_conv_kernel_dim", low=2, high=64),
        "ssm.state_size": size,
        "ssm.group_count": c.integer("linear_num_key_heads", high=4096),
        "ssm.time_step_rank": values,
        "ssm.inner_size": size * values,
    }  # fmt: skip


def qwen_next_moe(c: Fields) -> Keys:
    c.require("decoder_sparse_step", 1, default=1)
    c.require("mlp_only_layers", [], default=[])
    c.require("norm_topk_prob", True, default=True)
    return qwen_next(c) | {
        "expert_count": c.integer("num_experts", high=65536),
        "expert_used_count": c.integer("num_experts_per_tok", high=65536),
        "expert_feed_forward_length": c.integer("moe_intermediate_size"),
        "expert_shared_feed_forward_length": c.integer("shared_expert_intermediate_size"),
    }


def sections(c: Fields) -> Keys:
    """The parts of the rotated elements that belong to time, height and width."""
    parts = rope_of(c).array("mrope_section", int, default=[11, 11, 10])
    return {"rope.dimension_sections": [*parts, 0, 0, 0, 0][:4]}


def qwen35(c: Fields) -> Keys:
    return qwen_next(c) | sections(c)


def qwen35_moe(c: Fields) -> Keys:
    return qwen_next_moe(c) | sections(c)


def qkvz(first: int, last: int) -> Callable[[Fields, int], np.ndarray]:
    """Rows of some of q, k, v and z, from a matrix in which those of each group of heads follow one another."""

    def rows(c: Fields, n: int) -> np.ndarray:
        groups, size = c.integer("linear_num_key_heads"), c.integer("linear_key_head_dim")
        values = size * (c.integer("linear_num_value_heads") // groups)
        if n != groups * 2 * (size + values):
            raise ValueError(f"{n} rows: need {groups * 2 * (size + values)}")
        parts = np.split(np.arange(n).reshape(groups, -1), [size, 2 * size, 2 * size + values], axis=1)
        return np.concatenate([part.reshape(-1) for part in parts[first:last]])

    return rows


def turned(c: Fields, n: int) -> np.ndarray:
    """Heads of values, of which groups use the same keys, so that head h uses keys h mod groups.

    Of n rows, those of q and k precede; a head may have one row or as many as it has elements.
    """
    groups, heads = c.integer("linear_num_key_heads"), c.integer("linear_num_value_heads")
    size = c.integer("linear_key_head_dim")
    before = 2 * size * groups if n == size * (2 * groups + heads) else 0
    if heads % groups or (n - before) % heads:
        raise ValueError(f"{n} rows: need some of {heads} heads, in {groups} groups")
    order = np.arange(n - before).reshape(groups, heads // groups, -1).swapaxes(0, 1).reshape(-1)
    return np.concatenate([np.arange(before), before + order])


def negative_exp(c: Fields, values: np.ndarray) -> np.ndarray:
    """-exp(x): A of the logarithm that is stored."""
    return -np.exp(values)


QWEN_NEXT: dict[str, Any] = {
    **plus_one({
        **TOP, **ATTENTION, **HEAD_NORMS, **GATED, **FURTHER,
        "layers.{}.input_layernorm": "blk.{}.attn_norm",
        "layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    }),
    "layers.{}.linear_attn.norm": "blk.{}.ssm_norm",
}  # fmt: skip
QWEN_EXPERTS: dict[str, Any] = {
    **EXPERTS,
    "layers.{}.mlp.experts.gate_up_proj": [Part("blk.{}.ffn_gate_exps", slices(2, 0)),
                                           Part("blk.{}.ffn_up_exps", slices(2, 1))],
    "layers.{}.mlp.experts.down_proj": "blk.{}.ffn_down_exps",
    "layers.{}.mlp.shared_expert.gate_proj": "blk.{}.ffn_gate_shexp",
    "layers.{}.mlp.shared_expert.up_proj": "blk.{}.ffn_up_shexp",
    "layers.{}.mlp.shared_expert.down_proj": "blk.{}.ffn_down_shexp",
    "layers.{}.mlp.shared_expert_gate": "blk.{}.ffn_gate_inp_shexp",
}  # fmt: skip
QWEN3_NEXT: dict[str, Any] = {
    **QWEN_NEXT, **QWEN_EXPERTS,
    "layers.{}.linear_attn.in_proj_qkvz": [Part("blk.{}.attn_qkv", qkvz(0, 3)), Part("blk.{}.attn_gate", qkvz(3, 4))],
    "layers.{}.linear_attn.in_proj_ba": "blk.{}.ssm_ba",
    "layers.{}.linear_attn.A_log": Part("blk.{}.ssm_a.", function=negative_exp),
    "layers.{}.linear_attn.dt_bias": "blk.{}.ssm_dt.bias",
    "layers.{}.linear_attn.conv1d": Part("blk.{}.ssm_conv1d", shape=flat),
    "layers.{}.linear_attn.out_proj": "blk.{}.ssm_out",
}  # fmt: skip
QWEN35: dict[str, Any] = {
    **QWEN_NEXT,
    "layers.{}.linear_attn.in_proj_qkv": Part("blk.{}.attn_qkv", turned),
    "layers.{}.linear_attn.in_proj_z": Part("blk.{}.attn_gate", turned),
    "layers.{}.linear_attn.in_proj_b": Part("blk.{}.ssm_beta", turned),
    "layers.{}.linear_attn.in_proj_a": Part("blk.{}.ssm_alpha", turned),
    "layers.{}.linear_attn.A_log": Part("blk.{}.ssm_a.", turned, function=negative_exp),
    "layers.{}.linear_attn.dt_bias": Part("blk.{}.ssm_dt.bias", turned),
    "layers.{}.linear_attn.conv1d": Part("blk.{}.ssm_conv1d", turned, shape=flat),
    "layers.{}.linear_attn.out_proj": Part("blk.{}.ssm_out", columns=turned),
}


LATER = ("mtp.*", *DROPPED)  # layers that predict further tokens


# ---- Mamba -----------------------------------------------------------------------------------------------------------
def state_space(c: Fields, *, heads: int, inner: int) -> Keys:
    """The keys of Mamba 2."""
    if inner % heads:
        raise c.wrong("num_heads", heads, f"a divisor of the {inner} elements inside")
    c.require("use_bias", False, default=False)
    c.require("mamba_proj_bias", False, default=False)
    c.require("time_step_limit", None, [0.0, math.inf], [0.0, {"__float__": "Infinity"}])
    return {
        "ssm.conv_kernel": c.integer("conv_kernel", "mamba_d_conv", default=4, low=2, high=64),
        "ssm.inner_size": inner,
        "ssm.state_size": c.integer("state_size", "mamba_d_state", "ssm_state_size", high=4096),
        "ssm.time_step_rank": heads,
        "ssm.group_count": groups(c),
    }


def state_space_only(c: Fields) -> Keys:
    """The keys of a model without attention; those of other models are 0."""
    c.require("hidden_act", "silu", default="silu")
    return {
        "context_length": 1 << 20,  # there is no limit
        "embedding_length": c.integer("hidden_size"),
        "block_count": c.integer("num_hidden_layers", high=4096),
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "attention.layer_norm_rms_epsilon": c.number("layer_norm_epsilon", high=1.0),
        "vocab_size": c.integer("vocab_size"),
    }


def mamba(c: Fields) -> Keys:
    c.require("use_bias", False, default=False)
    width = c.integer("hidden_size")
    normed = c.values.get("model_type") == "falcon_mamba"
    if normed:  # by the same epsilon as the others
        c.require("mixer_rms_eps", c.number("layer_norm_epsilon"), default=1e-6)
    return state_space_only(c) | {
        "ssm.conv_kernel": c.integer("conv_kernel", default=4, low=2, high=64),
        "ssm.inner_size": c.integer("intermediate_size", default=2 * width),
        "ssm.state_size": c.integer("state_size", high=4096),
        "ssm.time_step_rank": c.integer("time_step_rank"),
        "ssm.dt_b_c_rms": normed,
    }


def mamba2(c: Fields) -> Keys:
    inner = int(c.number("expand", default=2.0) * c.integer("hidden_size"))
    return state_space_only(c) | state_space(c, heads=c.integer("num_heads"), inner=inner)


def groups(c: Fields) -> int:
    """The groups of B, C and the norm."""
    return c.integer("n_groups", "mamba_n_groups", default=1, high=65536)


def by_groups(c: Fields, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The weights of a norm as a matrix, with a row for each group."""
    n = groups(c)
    if shape[0] % n:
        raise c.wrong("n_groups", n, f"a divisor of {shape[0]}")
    return n, shape[0] // n


def mixer(old: str) -> dict[str, Any]:
    """The names of Mamba 2 for those of a mixer."""
    return {
        f"{old}.in_proj": "blk.{}.ssm_in",
        f"{old}.conv1d": Part("blk.{}.ssm_conv1d", shape=flat),
        f"{old}.dt_bias": "blk.{}.ssm_dt.bias",
        f"{old}.A_log": Part("blk.{}.ssm_a.", shape=column, function=negative_exp),
        f"{old}.D": Part("blk.{}.ssm_d.", shape=column),
        f"{old}.norm": Part("blk.{}.ssm_norm", shape=by_groups),
        f"{old}.out_proj": "blk.{}.ssm_out",
    }


BACKBONE = {
    "embeddings": "token_embd",
    "norm_f": "output_norm",
    "lm_head": "output",
    "layers.{}.norm": "blk.{}.attn_norm",
}
MAMBA: dict[str, Any] = {
    **BACKBONE, **mixer("layers.{}.mixer"),
    "layers.{}.mixer.x_proj": "blk.{}.ssm_x",
    "layers.{}.mixer.dt_proj": "blk.{}.ssm_dt",
    "layers.{}.mixer.A_log": Part("blk.{}.ssm_a.", function=negative_exp),
    "layers.{}.mixer.D": "blk.{}.ssm_d.",
}  # fmt: skip
MAMBA2: dict[str, Any] = {**BACKBONE, **mixer("layers.{}.mixer")}


# ---- attention beside Mamba 2 ----------------------------------------------------------------------------------------
KINDS = {"attention": "full_attention", "mamba": "linear_attention", "*": "full_attention", "M": "linear_attention",
         "-": "mlp", "E": "moe"}  # fmt: skip


def kinds_of(c: Fields, *allowed: str) -> list[str]:
    """What each layer is: of a list, or a string with a letter for each layer."""
    kinds = c.find(("layer_types", "layers_block_type", "hybrid_override_pattern"), None)[1]
    if kinds is None:
        raise ValueError(f"convert: {c.where}: 'layer_types' is missing")
    kinds = [KINDS.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]
    n = c.integer("num_hidden_layers", default=len(kinds), high=4096)
    if len(kinds) != n or not set(kinds) <= set(allowed):
        raise c.wrong("layer_types", kinds, f"{n} of {', '.join(allowed)}")
    return kinds


def granite_hybrid(c: Fields) -> Keys:
    """The factors of Granite; without experts, the shared one is the feed-forward part."""
    c.require("hidden_act", "silu", default="silu")
    keys = sizes(c) | rms(c) | rotation(c) | granite_factors(c)
    kinds, shared = kinds_of(c, "linear_attention", "full_attention"), c.integer("shared_intermediate_size")
    if has_experts(c):
        keys["expert_count"] = c.integer("num_local_experts", high=65536)
        keys["expert_used_count"] = c.integer("num_experts_per_tok", high=65536)
        keys["expert_shared_feed_forward_length"] = shared
    else:
        keys["feed_forward_length"] = shared
    inner = int(c.number("mamba_expand", default=2.0) * c.integer("hidden_size"))
    return keys | state_space(c, heads=c.integer("mamba_n_heads"), inner=inner) | {
        "attention.head_count_kv": [keys["attention.head_count_kv"] * (kind == "full_attention") for kind in kinds],
        "rope.scaling.finetuned": c.values.get("position_embedding_type") == "rope",
    }  # fmt: skip


def has_experts(c: Fields) -> bool:
    return c.integer("num_local_experts", default=0, low=0, high=65536) > 0


def granite_hybrid_names(c: Fields) -> dict[str, Any]:
    end = "_shexp" if has_experts(c) else ""
    return {
        **GRANITE_MOE, **mixer("layers.{}.mamba"),
        "layers.{}.shared_mlp.input_linear": [Part("blk.{}.ffn_gate" + end, slices(2, 0)),
                                              Part("blk.{}.ffn_up" + end, slices(2, 1))],
        "layers.{}.shared_mlp.output_linear": "blk.{}.ffn_down" + end,
    }  # fmt: skip


def falcon_h1(c: Fields) -> Keys:
    """The keys; factors are multiplied into the weights."""
    c.require("hidden_act", "silu", default="silu")
    for name in ("attention_bias", "mlp_bias", "projectors_bias"):
        c.require(name, False, default=False)
    if c.flag("mamba_rms_norm", False):
        c.require("mamba_norm_before_gate", False, default=True)
    if c.flag("tie_word_embeddings", False):
        c.require("lm_head_multiplier", c.number("embedding_multiplier", default=1.0), default=1.0)
    inner = c.integer("mamba_d_ssm", default=None)
    if inner is None:
        inner = int(c.number("mamba_expand", default=2.0) * c.integer("hidden_size"))
    return sizes(c) | rms(c) | rotation(c) | state_space(c, heads=c.integer("mamba_n_heads"), inner=inner)


def times(*names: str) -> Callable[[Fields, np.ndarray], np.ndarray]:
    """Values times settings."""
    return lambda c, values: values * np.float32(math.prod(c.number(name, default=1.0) for name in names))


def times_item(name: str, i: int) -> Callable[[Fields, np.ndarray], np.ndarray]:
    """Values times an item of a setting."""
    return lambda c, values: values * np.float32(c.array(name, (int, float), 2, default=[1.0, 1.0])[i])


def times_parts(c: Fields, values: np.ndarray) -> np.ndarray:
    """The rows of z, x, B, C and dt, each times its factor and that of the input."""
    keys, items = falcon_h1(c), c.array("ssm_multipliers", (int, float), 5, default=[1.0] * 5)
    inner, state = keys["ssm.inner_size"], keys["ssm.state_size"] * keys["ssm.group_count"]
    rows = np.repeat(np.array(items, np.float32), [inner, inner, state, state, keys["ssm.time_step_rank"]])
    return values * (rows * np.float32(c.number("ssm_in_multiplier", default=1.0)))[:, None]


FALCON_H1: dict[str, Any] = {
    **TOP, **mixer("layers.{}.mamba"),
    "embed_tokens": Part("token_embd", function=times("embedding_multiplier")),
    "final_layernorm": "output_norm",
    "lm_head": Part("output", function=times("lm_head_multiplier")),
    "layers.{}.input_layernorm": "blk.{}.attn_norm",
    "layers.{}.pre_ff_layernorm": "blk.{}.ffn_norm.",
    "layers.{}.self_attn.q_proj": Part("blk.{}.attn_q", function=times("attention_in_multiplier")),
    "layers.{}.self_attn.k_proj": Part("blk.{}.attn_k", function=times("attention_in_multiplier", "key_multiplier")),
    "layers.{}.self_attn.v_proj": Part("blk.{}.attn_v", function=times("attention_in_multiplier")),
    "layers.{}.self_attn.o_proj": Part("blk.{}.attn_output", function=times("attention_out_multiplier")),
    "layers.{}.mamba.in_proj": Part("blk.{}.ssm_in", function=times_parts),
    "layers.{}.mamba.out_proj": Part("blk.{}.ssm_out", function=times("ssm_out_multiplier")),
    "layers.{}.feed_forward.gate_proj": Part("blk.{}.ffn_gate", function=times_item("mlp_multipliers", 0)),
    "layers.{}.feed_forward.up_proj": "blk.{}.ffn_up",
    "layers.{}.feed_forward.down_proj": Part("blk.{}.ffn_down", function=times_item("mlp_multipliers", 1)),
}  # fmt: skip


def nemotron_h(c: Fields) -> Keys:
    c.require("mlp_hidden_act", "relu2", default="relu2")
    c.require("mamba_hidden_act", "silu", default="silu")
    c.require("tie_word_embeddings", False, default=False)  # which transformers does not know here
    feeds = "moe" if is_moe(c) else "mlp"
    kinds = kinds_of(c, "linear_attention", "full_attention", feeds)
    c = Fields({**c.values, "num_hidden_layers": len(kinds)}, c.where)
    heads, keys, eps = c.integer("mamba_num_heads"), sizes(c), c.number("layer_norm_epsilon", "rms_norm_eps", high=1.0)
    inner = heads * c.integer("mamba_head_dim")
    return keys | state_space(c, heads=heads, inner=inner) | {
        "attention.head_count_kv": [keys["attention.head_count_kv"] * (kind == "full_attention") for kind in kinds],
        "feed_forward_length": [keys["feed_forward_length"] * (kind == feeds) for kind in kinds],
        "attention.layer_norm_rms_epsilon": eps,
        "attention.layer_norm_epsilon": eps,  # which llama.cpp asks for
    }  # fmt: skip


def is_moe(c: Fields) -> bool:
    """Whether layers have experts: the letter E in a string, or a word in a list."""
    kinds = c.find(("layer_types", "layers_block_type", "hybrid_override_pattern"), ())[1]
    return isinstance(kinds, (list, str)) and any(
        KINDS.get(kind, kind) == "moe" for kind in kinds if isinstance(kind, str)
    )


def nemotron_h_moe(c: Fields) -> Keys:
    c.require("moe_latent_size", None)
    c = Fields({**c.values, "intermediate_size": c.integer("moe_intermediate_size")}, c.where)
    return nemotron_h(c) | {
        "expert_count": c.integer("n_routed_experts", high=65536),
        "expert_used_count": c.integer("num_experts_per_tok", high=65536),
        "expert_feed_forward_length": c.integer("moe_intermediate_size"),
        "expert_shared_feed_forward_length": c.integer("moe_shared_expert_intermediate_size"),
        "expert_shared_count": c.integer("n_shared_experts", default=1, high=1),
        "expert_weights_norm": c.flag("norm_topk_prob", True),
        "expert_weights_scale": c.number("routed_scaling_factor", default=1.0, low=1e-6),
        "expert_group_count": c.integer("n_group", default=1, high=65536),
        "expert_group_used_count": c.integer("topk_group", default=1, high=65536),
        "expert_gating_func": 2,
    }


NEMOTRON_H: dict[str, Any] = {
    **BACKBONE, **mixer("layers.{}.mixer"),
    "layers.{}.mixer.q_proj": "blk.{}.attn_q",
    "layers.{}.mixer.k_proj": "blk.{}.attn_k",
    "layers.{}.mixer.v_proj": "blk.{}.attn_v",
    "layers.{}.mixer.o_proj": "blk.{}.attn_output",
    "layers.{}.mixer.up_proj": "blk.{}.ffn_up",
    "layers.{}.mixer.down_proj": "blk.{}.ffn_down",
}  # fmt: skip
NEMOTRON_OUTER = ("backbone.", "model.")
NEMOTRON_MODULES = {f"layers.{{}}.mixer.experts.{name}_proj": f"blk.{{}}.ffn_{name}_exps" for name in ("up", "down")}
NEMOTRON_H_MOE: dict[str, Any] = {
    **NEMOTRON_H,
    "layers.{}.mixer.gate": "blk.{}.ffn_gate_inp",
    "layers.{}.mixer.gate.e_score_correction_bias": "blk.{}.exp_probs_b.bias",
    "layers.{}.mixer.experts.{}.up_proj": "blk.{}.ffn_up_exps",
    "layers.{}.mixer.experts.{}.down_proj": "blk.{}.ffn_down_exps",
    **NEMOTRON_MODULES,
    "layers.{}.mixer.shared_experts.up_proj": "blk.{}.ffn_up_shexp",
    "layers.{}.mixer.shared_experts.down_proj": "blk.{}.ffn_down_shexp",
}


ROWS = [
    Row("GraniteMoeHybridForCausalLM", "granitehybrid", granite_hybrid_names, granite_hybrid, dropped=DROPPED,
        modules=GRANITE_MODULES),
    Row("FalconH1ForCausalLM", "falcon-h1", FALCON_H1, falcon_h1, dropped=DROPPED),
    Row("NemotronHForCausalLM", "nemotron_h", NEMOTRON_H, nemotron_h, dropped=LATER, when=lambda c: not is_moe(c),
        outer=NEMOTRON_OUTER),
    Row("NemotronHForCausalLM", "nemotron_h_moe", NEMOTRON_H_MOE, nemotron_h_moe, dropped=LATER, when=is_moe,
        modules=NEMOTRON_MODULES, outer=NEMOTRON_OUTER),
    Row("MambaForCausalLM FalconMambaForCausalLM", "mamba", MAMBA, mamba),
    Row("Mamba2ForCausalLM", "mamba2", MAMBA2, mamba2),
    Row("Qwen3NextForCausalLM", "qwen3next", QWEN3_NEXT, qwen_next_moe, dropped=DROPPED, later=True),
    Row("Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration MiniCPMV4_6ForConditionalGeneration", "qwen35", QWEN35,
        qwen35, dropped=DROPPED, later=True),
    Row("Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration", "qwen35moe", {**QWEN35, **QWEN_EXPERTS},
        qwen35_moe, dropped=DROPPED, later=True),
    Row("Lfm2ForCausalLM", "lfm2", LFM2, lfm2, dropped=DROPPED),
    Row("Lfm2MoeForCausalLM", "lfm2moe", LFM2_MOE, lfm2_moe, dropped=DROPPED),
]  # fmt: skip
