"""The table of conversions: a row for each architecture, found by the class of transformers in config.json."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from ..arch.gemma import LARGE
from ..arch.llama4 import WITHOUT_NORMS
from . import clip, recurrent, rwkv, t5
from .classes import with_classes
from .fields import Fields
from .parts import (
    ATTENTION,
    DECODER,
    DROPPED,
    EXPERTS,
    FURTHER,
    GATED,
    GRANITE_MODULES,
    GRANITE_MOE,
    HEAD_NORMS,
    MIXTRAL,
    NORMS,
    PERMUTED,
    SHARED_EXPERTS,
    TOP,
    Keys,
    Part,
    Row,
    Share,
    by_head,
    every,
    falcon_heads,
    granite_factors,
    head_dim,
    heads,
    layer_norms,
    local_base,
    n_experts,
    plus_one,
    rms,
    rope_of,
    rotation,
    sizes,
    slices,
    window,
)


# ---- LLaMA and relatives ---------------------------------------------------------------------------------------------
def llama(c: Fields) -> Keys:
    c.require("hidden_act", "silu", "swish", default="silu")
    keys = sizes(c) | rms(c) | rotation(c)
    if c.has("num_local_experts"):
        keys["expert_count"] = c.integer("num_local_experts", low=0, high=65536)
        keys["expert_used_count"] = c.integer("num_experts_per_tok", high=65536)
    return keys


def qwen(c: Fields) -> Keys:
    if c.flag("use_sliding_window", False):
        raise c.wrong("use_sliding_window", True, "false: this architecture has no sliding window")
    return llama(c)


def qwen_moe(c: Fields) -> Keys:
    """Experts in every layer, of a width of their own."""
    c.require("decoder_sparse_step", 1, default=1)
    c.require("mlp_only_layers", [], default=[])
    experts = {name: value for name, value in c.values.items() if name not in ("num_local_experts", "num_experts")}
    keys = qwen(Fields(experts, c.where)) | {
        "expert_count": c.integer("num_experts", "num_local_experts", high=65536),
        "expert_used_count": c.integer("num_experts_per_tok", high=65536),
        "expert_feed_forward_length": c.integer("moe_intermediate_size"),
        "expert_weights_norm": c.flag("norm_topk_prob", False),
    }
    if c.has("shared_expert_intermediate_size"):
        keys["expert_shared_feed_forward_length"] = c.integer("shared_expert_intermediate_size")
    return keys


def width(c: Fields) -> int:
    return c.integer("hidden_size")


def expert_width(c: Fields) -> int:
    return c.integer("moe_intermediate_size")


QWEN_MOE = {
    **TOP, **ATTENTION, **NORMS, **HEAD_NORMS, **EXPERTS,
    "layers.{}.mlp.shared_expert.gate_proj": "blk.{}.ffn_gate_shexp",
    "layers.{}.mlp.shared_expert.up_proj": "blk.{}.ffn_up_shexp",
    "layers.{}.mlp.shared_expert.down_proj": "blk.{}.ffn_down_shexp",
    "layers.{}.mlp.shared_expert_gate": "blk.{}.ffn_gate_inp_shexp",
}  # fmt: skip
QWEN_MOE_FUSED = {
    **TOP, **ATTENTION, **NORMS, **HEAD_NORMS,
    "layers.{}.mlp.gate": "blk.{}.ffn_gate_inp",
    "layers.{}.mlp.experts.gate_up_proj": [Part("blk.{}.ffn_gate_exps", slices(2, 0), n_in=width),
                                           Part("blk.{}.ffn_up_exps", slices(2, 1), n_in=width)],
    "layers.{}.mlp.experts.down_proj": Part("blk.{}.ffn_down_exps", n_in=expert_width),
}  # fmt: skip


def sections(c: Fields) -> Keys:
    """Which elements of a head are rotated by which of the positions of an image's parts; a text's are all equal."""
    found = rope_of(c).array("mrope_section", int)
    return {"rope.dimension_sections": [*found, 0, 0, 0, 0][:4]}


def qwen_images(c: Fields) -> Keys:
    """The model of texts of one of texts and images."""
    return qwen(c) | sections(c)


def qwen3_images(c: Fields) -> Keys:
    """The same, whose first layers also add features of images."""
    keys = qwen_moe(c) if c.has("moe_intermediate_size") else qwen(c)
    layers = c.inside("vision_config").array("deepstack_visual_indexes", int, default=[])
    return keys | sections(c) | {"n_deepstack_layers": len(layers)}


def qwen3_moe_images(c: Fields) -> Keys:
    return qwen3_images(c) | {"expert_weights_norm": True}


HUNYUAN = {
    **DECODER,
    "layers.{}.self_attn.query_layernorm": "blk.{}.attn_q_norm",
    "layers.{}.self_attn.key_layernorm": "blk.{}.attn_k_norm",
}


def dense_first(c: Fields) -> Keys:
    """GLM-4.5 and ERNIE 4.5: experts after some dense layers."""
    c.require("n_group", 1, default=1)
    c.require("moe_layer_interval", 1, default=1)
    n = c.integer("num_hidden_layers", high=4096)
    c.require("moe_layer_end_index", -1, n - 1, default=-1)
    experts = c.integer("n_shared_experts", "moe_num_shared_experts", default=0, low=0, high=4096)
    width = c.integer("moe_intermediate_size")
    keys = llama(c) | {
        "expert_count": c.integer("n_routed_experts", "moe_num_experts", high=65536),
        "expert_used_count": c.integer("num_experts_per_tok", "moe_k", high=65536),
        "expert_feed_forward_length": width,
        "expert_shared_count": experts,
        "expert_shared_feed_forward_length": experts * width,
        "leading_dense_block_count": c.integer("first_k_dense_replace", "moe_layer_start_index", default=0, low=0,
                                               high=n),
        "expert_weights_scale": c.number("routed_scaling_factor", default=1.0, low=1e-6),
        "expert_weights_norm": c.flag("norm_topk_prob", True),
        "interleave_moe_layer_step": 1,
    }  # fmt: skip
    return keys | {"expert_gating_func": 2 if c.has("n_routed_experts") else 1}


def latent(c: Fields) -> Keys:
    """The sizes of latent attention."""
    rotated, rank = c.integer("qk_rope_head_dim", high=65536), c.integer("kv_lora_rank")
    keys: Keys = {
        "attention.kv_lora_rank": rank,
        "rope.dimension_count": rotated,
        "attention.key_length": c.integer("qk_nope_head_dim", high=65536) + rotated,
        "attention.value_length": c.integer("v_head_dim", high=65536),
    }
    query_rank = c.integer("q_lora_rank", default=None)
    return keys if query_rank is None else keys | {"attention.q_lora_rank": query_rank}


def deepseek(c: Fields) -> Keys:
    """Attention to latent vectors, as that of many heads of queries to one of keys."""
    groups, sizes_ = c.integer("n_group", default=1, high=65536), latent(c)
    return {
        **sizes_,
        "attention.head_count_kv": 1,
        "attention.key_length": sizes_["attention.kv_lora_rank"] + sizes_["rope.dimension_count"],
        "attention.value_length": sizes_["attention.kv_lora_rank"],
        "attention.key_length_mla": sizes_["attention.key_length"],
        "attention.value_length_mla": sizes_["attention.value_length"],
        "expert_group_count": groups,
        "expert_group_used_count": c.integer("topk_group", default=groups, high=groups),
    }


def deepseek_keys(c: Fields, gating: int, normalized: bool) -> Keys:
    """Keys of both versions. YaRN's factor is one of the scores, not one of q and k."""
    rope = rope_of(c)
    keys = dense_first(Fields({**c.values, "n_group": None}, c.where)) | deepseek(c)
    keys |= {"expert_gating_func": gating, "expert_weights_norm": c.flag("norm_topk_prob", normalized)}
    if rope.text("rope_type") == "yarn":
        strength = rope.number("mscale_all_dim", default=0.0)
        if strength:
            rope.require("mscale", strength, default=1.0)
            keys["rope.scaling.yarn_log_multiplier"] = 0.1 * strength
            keys.pop("rope.scaling.attn_factor", None)
    return keys


def deepseek2(c: Fields) -> Keys:
    c.require("norm_topk_prob", False, default=False)
    c.require("topk_method", "greedy", "group_limited_greedy", default="greedy")
    if c.values.get("topk_method", "greedy") == "greedy":
        c = Fields({**c.values, "n_group": None, "topk_group": None}, c.where)
    return deepseek_keys(c, 1, False)


def deepseek3(c: Fields) -> Keys:
    c.require("rope_interleave", True, default=True)
    return deepseek_keys(c, 2, True)


def by_heads(c: Fields, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A matrix for each head."""
    return (heads(c), shape[0] // heads(c), *shape[1:])


def by_experts(c: Fields, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A matrix for each expert."""
    return (n_experts(c), shape[0] // n_experts(c), *shape[1:])


def half_of_head(values: bool) -> Callable[[Fields, int], np.ndarray]:
    """Rows of the keys or of the values, which follow one another in each head."""

    def rows(c: Fields, count: int) -> np.ndarray:
        keys = c.integer("qk_nope_head_dim", high=65536)
        if count <= keys:
            raise ValueError(f"a head has {count} rows: need more than the {keys} of the keys")
        return np.arange(keys, count) if values else np.arange(keys)

    return rows


LATENT = {
    **DECODER,
    "layers.{}.self_attn.q_a_proj": "blk.{}.attn_q_a",
    "layers.{}.self_attn.q_a_layernorm": "blk.{}.attn_q_a_norm",
    "layers.{}.self_attn.q_b_proj": "blk.{}.attn_q_b",
    "layers.{}.self_attn.kv_a_proj_with_mqa": "blk.{}.attn_kv_a_mqa",
    "layers.{}.self_attn.kv_a_layernorm": "blk.{}.attn_kv_a_norm",
    "layers.{}.self_attn.kv_b_proj": "blk.{}.attn_kv_b",
}
DEEPSEEK = {
    **LATENT, **EXPERTS, **SHARED_EXPERTS, **FURTHER,
    "layers.{}.self_attn.kv_b_proj": [
        Part("blk.{}.attn_k_b", transposed=True, shape=by_heads, columns=half_of_head(False)),
        Part("blk.{}.attn_v_b", shape=by_heads, rows=half_of_head(True)),
    ],
}  # fmt: skip


def minicpm3(c: Fields) -> Keys:
    c = Fields({**c.values, "head_dim": None}, c.where)
    return minicpm(c) | latent(Fields({"v_head_dim": c.integer("hidden_size") // heads(c), **c.values}, c.where))


GLM4_MOE = {
    **DECODER, **HEAD_NORMS, **EXPERTS, **SHARED_EXPERTS, **FURTHER,
    "layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
}  # fmt: skip


def smollm3(c: Fields) -> Keys:
    n = c.integer("num_hidden_layers", high=4096)
    usual = [int((i + 1) % 4 != 0) for i in range(n)]
    if c.array("no_rope_layers", int, n, default=usual) != usual:
        raise c.wrong("no_rope_layers", c.values["no_rope_layers"], "every fourth layer without positions")
    return qwen(c)


def mistral3(c: Fields) -> Keys:
    rope, keys = rope_of(c), llama(c)
    if rope.has("llama_4_scaling_beta"):
        keys["attention.temperature_scale"] = rope.number("llama_4_scaling_beta")
    return keys


LLAMA4 = {
    **TOP, **ATTENTION, **NORMS,
    "layers.{}.feed_forward.gate_proj": "blk.{}.ffn_gate",
    "layers.{}.feed_forward.up_proj": "blk.{}.ffn_up",
    "layers.{}.feed_forward.down_proj": "blk.{}.ffn_down",
    "layers.{}.feed_forward.router": "blk.{}.ffn_gate_inp",
    "layers.{}.feed_forward.experts.gate_up_proj": [Part("blk.{}.ffn_gate_exps", slices(2, 0), transposed=True),
                                                    Part("blk.{}.ffn_up_exps", slices(2, 1), transposed=True)],
    "layers.{}.feed_forward.experts.down_proj": Part("blk.{}.ffn_down_exps", transposed=True),
    "layers.{}.feed_forward.shared_expert.gate_proj": "blk.{}.ffn_gate_shexp",
    "layers.{}.feed_forward.shared_expert.up_proj": "blk.{}.ffn_up_shexp",
    "layers.{}.feed_forward.shared_expert.down_proj": "blk.{}.ffn_down_shexp",
}  # fmt: skip


def llama4(c: Fields) -> Keys:
    """What differs from the published models has keys of its own."""
    n, experts = c.integer("num_hidden_layers", high=4096), c.integer("num_local_experts", high=65536)
    step, chunk = c.integer("interleave_moe_layer_step", high=4096), c.integer("attention_chunk_size", high=1 << 30)
    c.require("moe_layers", None, list(range(step - 1, n, step)))
    c.require("no_rope_layers", None, [], [int((i + 1) % 4 != 0) for i in range(n)])
    c.require("use_qk_norm", experts != WITHOUT_NORMS, default=True)
    c.require("attn_temperature_tuning", True, 4, default=True)
    keys = llama(c) | {
        "feed_forward_length": c.integer("intermediate_size_mlp"),
        "expert_feed_forward_length": c.integer("intermediate_size"),
        "interleave_moe_layer_step": step,
        "attention.temperature_scale": c.number("attn_scale", default=0.1),
        "attention.temperature_length": c.integer("floor_scale", default=8192, high=1 << 30),
    }
    return keys if chunk == 8192 else keys | {"attention.chunk_size": chunk}


def hunyuan(c: Fields) -> Keys:
    """The scaling `alpha` changes the base of the rotation."""
    keys, rope = llama(c), rope_of(c)
    if rope.text("rope_type") == "dynamic" and rope.has("alpha"):
        size = head_dim(c)
        keys["rope.freq_base"] *= rope.number("alpha", low=1e-6) ** (size / max(1, size - 2))
    return keys


def granite(c: Fields) -> Keys:
    keys = llama(c) | granite_factors(c)
    shared = c.integer("shared_intermediate_size", default=0, low=0)
    return keys | ({"expert_shared_feed_forward_length": shared} if shared else {})


def minicpm(c: Fields) -> Keys:
    keys, n = llama(c), c.integer("num_hidden_layers", high=4096)
    return keys | {
        "embedding_scale": c.number("scale_emb", default=12.0),
        "residual_scale": c.number("scale_depth", default=1.4) / n**0.5,
        "logit_scale": c.integer("hidden_size") / c.integer("dim_model_base", default=256),
    }


def gpt_oss(c: Fields) -> Keys:
    width = c.integer("intermediate_size")
    keys = llama(c) | window(c, 2) | {"expert_feed_forward_length": width}
    usual = {"swiglu_alpha": 1.702, "swiglu_limit": 7.0}  # which no file needs
    found = {name: c.number(name, default=value) for name, value in usual.items()}
    return keys | {name: value for name, value in found.items() if value != usual[name]}


GPT_OSS = {
    **TOP, **ATTENTION,
    "layers.{}.input_layernorm": "blk.{}.attn_norm",
    "layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "layers.{}.self_attn.sinks": "blk.{}.attn_sinks",
    "layers.{}.mlp.router": "blk.{}.ffn_gate_inp",
    "layers.{}.mlp.experts.gate_up_proj": [Part("blk.{}.ffn_gate_exps", every(2, 0), transposed=True),
                                           Part("blk.{}.ffn_up_exps", every(2, 1), transposed=True)],
    "layers.{}.mlp.experts.gate_up_proj_bias": [Part("blk.{}.ffn_gate_exps.bias", every(2, 0)),
                                                Part("blk.{}.ffn_up_exps.bias", every(2, 1))],
    "layers.{}.mlp.experts.down_proj": Part("blk.{}.ffn_down_exps", transposed=True),
    "layers.{}.mlp.experts.down_proj_bias": "blk.{}.ffn_down_exps.bias",
}  # fmt: skip


BITNET = {
    **DECODER,
    "layers.{}.self_attn.attn_sub_norm": "blk.{}.attn_sub_norm",
    "layers.{}.mlp.ffn_sub_norm": "blk.{}.ffn_sub_norm",
}


def bitnet(c: Fields) -> Keys:
    c.require("hidden_act", "relu2", "silu", default="relu2")
    keys = sizes(c) | rms(c) | rotation(c)
    return keys if c.values.get("hidden_act") == "silu" else keys | {"hidden_activation": "relu2"}


# ---- norms elsewhere, fused matrices ---------------------------------------------------------------------------------
AFTER = {
    **TOP, **ATTENTION, **HEAD_NORMS, **GATED,
    "layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm",
}  # fmt: skip
GLM4 = {
    **TOP, **ATTENTION,
    "layers.{}.input_layernorm": "blk.{}.attn_norm",
    "layers.{}.post_self_attn_layernorm": "blk.{}.post_attention_norm",
    "layers.{}.post_attention_layernorm": "blk.{}.ffn_norm",
    "layers.{}.post_mlp_layernorm": "blk.{}.post_ffw_norm",
    "layers.{}.mlp.gate_up_proj": "blk.{}.ffn_up",
    "layers.{}.mlp.down_proj": "blk.{}.ffn_down",
}  # fmt: skip
PHI3 = {
    **TOP, **NORMS,
    "layers.{}.self_attn.qkv_proj": "blk.{}.attn_qkv",
    "layers.{}.self_attn.o_proj": "blk.{}.attn_output",
    "layers.{}.mlp.gate_up_proj": "blk.{}.ffn_up",
    "layers.{}.mlp.down_proj": "blk.{}.ffn_down",
}  # fmt: skip


def windows(c: Fields, keys: Keys, every: int) -> Keys:
    """Keys with those of a sliding window, if the model has one."""
    return keys | (window(c, every) if c.has("sliding_window") else {})


def olmo2(c: Fields) -> Keys:
    keys = windows(c, llama(c), 4)
    base = local_base(c, keys["rope.freq_base"])
    return keys | ({"rope.freq_base_swa": base} if base != keys["rope.freq_base"] else {})


def exaone4(c: Fields) -> Keys:
    pattern = c.values.get("sliding_window_pattern")
    every = {"LLLG": 4, None: 4}.get(pattern, pattern) if not isinstance(pattern, (list, dict)) else pattern
    c = Fields({**c.values, "sliding_window_pattern": every}, c.where)
    return windows(c, llama(c), 4)


def phi3(c: Fields) -> Keys:
    """All layers have the sliding window, if any has one and it is shorter than the context."""
    keys, n = llama(c), c.integer("num_hidden_layers", high=4096)
    size = c.integer("sliding_window", default=0, low=0, high=1 << 30)
    if 0 < size < keys["context_length"]:
        keys |= {"attention.sliding_window": size, "attention.sliding_window_pattern": [True] * n}
    return keys


def phimoe(c: Fields) -> Keys:
    """Scaled positions have a factor of their own for short and for long contexts; both are the same."""
    c.require("router_jitter_noise", 0.01, default=0.01)
    c.require("num_experts_per_tok", 2)
    keys, rope = llama(c), rope_of(c)
    if c.integer("sliding_window", default=1 << 30) < keys["context_length"]:
        raise c.wrong("sliding_window", c.values["sliding_window"], "none, or all of the context")
    if rope.text("rope_type") == "longrope":
        factor = rope.number("long_mscale")
        rope.require("short_mscale", factor)
        keys["rope.scaling.attn_factor"] = factor
    return keys


# ---- layer norms -----------------------------------------------------------------------------------------------------
PHI2 = {
    **TOP, **ATTENTION,
    "final_layernorm": "output_norm",
    "layers.{}.input_layernorm": "blk.{}.attn_norm",
    "layers.{}.self_attn.dense": "blk.{}.attn_output",
    "layers.{}.mlp.fc1": "blk.{}.ffn_up",
    "layers.{}.mlp.fc2": "blk.{}.ffn_down",
}  # fmt: skip
NEOX = {
    "embed_in": "token_embd",
    "embed_out": "output",
    "final_layer_norm": "output_norm",
    **NORMS,
    "layers.{}.attention.query_key_value": Part("blk.{}.attn_qkv", by_head),
    "layers.{}.attention.dense": "blk.{}.attn_output",
    "layers.{}.mlp.dense_h_to_4h": "blk.{}.ffn_up",
    "layers.{}.mlp.dense_4h_to_h": "blk.{}.ffn_down",
}
FALCON = {
    "word_embeddings": "token_embd",
    "ln_f": "output_norm",
    "lm_head": "output",
    "h.{}.input_layernorm": "blk.{}.attn_norm",
    "h.{}.ln_mlp": "blk.{}.attn_norm",
    "h.{}.ln_attn": "blk.{}.attn_norm_2",
    "h.{}.self_attention.query_key_value": Part("blk.{}.attn_qkv", falcon_heads),
    "h.{}.self_attention.dense": "blk.{}.attn_output",
    "h.{}.mlp.dense_h_to_4h": "blk.{}.ffn_up",
    "h.{}.mlp.dense_4h_to_h": "blk.{}.ffn_down",
}
STARCODER2 = {
    **TOP, **ATTENTION, **NORMS,
    "layers.{}.mlp.c_fc": "blk.{}.ffn_up",
    "layers.{}.mlp.c_proj": "blk.{}.ffn_down",
}  # fmt: skip


def with_layer_norms(c: Fields, act: str, *more: str) -> Keys:
    """Keys of a model with layer norms, and a check of its activation."""
    c.require("hidden_act", act, *more, default=act)
    return sizes(c) | layer_norms(c) | rotation(c)


def phi2(c: Fields) -> Keys:
    c.require("qk_layernorm", False, default=False)
    return with_layer_norms(c, "gelu_new", "gelu_pytorch_tanh")


def neox(c: Fields) -> Keys:
    c = Fields({"rotary_pct": 0.25, **c.values}, c.where)
    old = {"partial_rotary_factor": "rotary_pct", "rope_theta": "rotary_emb_base"}
    c = Fields({**{name: c.values[was] for name, was in old.items() if c.has(was)}, **c.values}, c.where)
    return with_layer_norms(c, "gelu") | {"use_parallel_residual": c.flag("use_parallel_residual", True)}


def stablelm(c: Fields) -> Keys:
    c.require("qk_layernorm", False, default=False)
    parallel = c.flag("use_parallel_residual", False)
    return with_layer_norms(c, "silu") | {"use_parallel_residual": parallel}


def starcoder2(c: Fields) -> Keys:
    return with_layer_norms(c, "gelu_pytorch_tanh", "gelu_new")


def nemotron(c: Fields) -> Keys:
    c = Fields({"partial_rotary_factor": 0.5, **c.values}, c.where)
    return with_layer_norms(c, "relu2")


def falcon(c: Fields) -> Keys:
    c.require("alibi", False, default=False)
    c.require("parallel_attn", True, default=True)
    c.require("activation", "gelu", default="gelu")
    new = c.flag("new_decoder_architecture", False)
    if new:
        c.require("num_ln_in_parallel_attn", None, 2)
        groups = c.integer("num_kv_heads", "n_head_kv", default=None)
    else:
        groups = 1 if c.flag("multi_query", True) else heads(c)
        if groups > 1:
            raise c.wrong("multi_query", False, "true, or the new decoder architecture")
    width = c.integer("hidden_size")
    usual = {"max_position_embeddings": 2048, "intermediate_size": c.values.get("ffn_hidden_size") or 4 * width}
    c = Fields({**usual, **c.values, "num_key_value_heads": groups}, c.where)
    return sizes(c) | layer_norms(c) | rotation(c)


def cohere(c: Fields) -> Keys:
    c.require("use_qk_norm", False, default=False)
    return with_layer_norms(c, "silu") | {"logit_scale": c.number("logit_scale", default=0.0625)}


def cohere2(c: Fields) -> Keys:
    return windows(c, cohere(c), 4)


# ---- Gemma -----------------------------------------------------------------------------------------------------------
GEMMA = plus_one({
    **TOP, **ATTENTION, **GATED, **HEAD_NORMS,
    "layers.{}.input_layernorm": "blk.{}.attn_norm",
    "layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "layers.{}.pre_feedforward_layernorm": "blk.{}.ffn_norm",
    "layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm",
})  # fmt: skip


def gemma(c: Fields) -> Keys:
    c.require("hidden_activation", "gelu_pytorch_tanh", default="gelu_pytorch_tanh")
    c.require("hidden_act", "gelu", "gelu_pytorch_tanh", default="gelu")  # the first means the second in old folders
    return sizes(c) | rms(c) | rotation(c)


def check_scale(c: Fields, name: str) -> None:
    """Scores are divided by the root of the head's size, in the largest models by that of C / H."""
    is_large = (name, c.integer("num_hidden_layers")) in LARGE
    c.require("query_pre_attn_scalar", c.integer("hidden_size") // heads(c) if is_large else head_dim(c), default=256)


def gemma2(c: Fields) -> Keys:
    check_scale(c, "gemma2")
    c.require("hidden_activation", "gelu_pytorch_tanh", default="gelu_pytorch_tanh")
    return {
        **sizes(c), **rms(c), **rotation(c), **window(c, 2),
        "attn_logit_softcapping": c.number("attn_logit_softcapping", default=0.0),
        "final_logit_softcapping": c.number("final_logit_softcapping", default=0.0),
    }  # fmt: skip


def gemma3(c: Fields, causal: bool = True) -> Keys:
    check_scale(c, "gemma3")
    c.require("hidden_activation", "gelu_pytorch_tanh", default="gelu_pytorch_tanh")
    c.require("use_bidirectional_attention", not causal, default=False)
    return {
        **sizes(c), **rms(c), **rotation(c), **window(c, 6),
        "rope.freq_base_swa": local_base(c, c.number("rope_local_base_freq", default=None) or 10000.0),
        "attn_logit_softcapping": c.number("attn_logit_softcapping", default=0.0),
        "final_logit_softcapping": c.number("final_logit_softcapping", default=0.0),
    }  # fmt: skip


def gemma_embedding(c: Fields) -> Keys:
    keys = gemma3(c, causal=False)
    if keys.pop("attn_logit_softcapping"):
        raise c.wrong("attn_logit_softcapping", c.values["attn_logit_softcapping"], "none")
    keys.pop("final_logit_softcapping")
    return keys | {"attention.causal": False}


def padded_vocabulary(c: Fields, rows: int) -> np.ndarray:
    """All rows, and the first one in place of those of tokens that have none: images and sounds."""
    return np.r_[np.arange(rows), np.zeros(max(0, c.integer("vocab_size") - rows), np.int64)]


PER_LAYER = {
    "embed_tokens_per_layer": "per_layer_token_embd",
    "per_layer_model_projection": "per_layer_model_proj",
    "per_layer_projection_norm": "per_layer_proj_norm",
    "layers.{}.per_layer_input_gate": "blk.{}.inp_gate",
    "layers.{}.per_layer_projection": "blk.{}.proj",
    "layers.{}.post_per_layer_input_norm": "blk.{}.post_norm",
}
GEMMA_PLAIN = {old: part.name if isinstance(part, Part) else part for old, part in GEMMA.items()}
GEMMA3N = {
    **GEMMA_PLAIN, **PER_LAYER,
    "embed_tokens_per_layer": Part("per_layer_token_embd", padded_vocabulary),
    "altup_projections.{}": "altup_proj",
    "altup_unembed_projections.{}": "altup_unembd_proj",
    "layers.{}.altup.correct_output_scale": "blk.{}.altup_correct_scale",
    "layers.{}.altup.correction_coefs": "blk.{}.altup_correct_coef",
    "layers.{}.altup.prediction_coefs": "blk.{}.altup_predict_coef",
    "layers.{}.altup.modality_router": "blk.{}.altup_router",
    "layers.{}.altup.router_norm": "blk.{}.altup_router_norm",
    "layers.{}.laurel.linear_left": "blk.{}.laurel_l",
    "layers.{}.laurel.linear_right": "blk.{}.laurel_r",
    "layers.{}.laurel.post_laurel_norm": "blk.{}.laurel_post_norm",
}  # fmt: skip
GEMMA4 = {
    **GEMMA_PLAIN, **PER_LAYER,
    "layers.{}.layer_scalar": "blk.{}.layer_output_scale",
    "layers.{}.router.proj": "blk.{}.ffn_gate_inp",
    "layers.{}.router.scale": "blk.{}.ffn_gate_inp.scale",
    "layers.{}.router.per_expert_scale": "blk.{}.ffn_down_exps.scale",
    "layers.{}.experts.gate_up_proj": "blk.{}.ffn_gate_up_exps",
    "layers.{}.experts.down_proj": "blk.{}.ffn_down_exps",
    "layers.{}.pre_feedforward_layernorm_2": "blk.{}.pre_ffw_norm_2",
    "layers.{}.post_feedforward_layernorm_1": "blk.{}.post_ffw_norm_1",
    "layers.{}.post_feedforward_layernorm_2": "blk.{}.post_ffw_norm_2",
}  # fmt: skip


def gemma3n(c: Fields) -> Keys:
    c.require("hidden_activation", "gelu_pytorch_tanh", default="gelu_pytorch_tanh")
    c.require("altup_correct_scale", True, default=True)
    n = c.integer("num_hidden_layers", high=4096)
    widths = c.values.get("intermediate_size")
    if isinstance(widths, list):
        found = c.array("intermediate_size", int, n)
        if len(set(found)) != 1:
            raise c.wrong("intermediate_size", found, "the same width in all layers")
        c = Fields({**c.values, "intermediate_size": found[0]}, c.where)
    sparse = c.array("activation_sparsity_pattern", (int, float), n, default=None) or [0.0] * n
    for share in sparse:
        if not 0 <= share < 1:
            raise c.wrong("activation_sparsity_pattern", share, "shares from 0 to less than 1")
    return {
        **sizes(c), **rms(c), **rotation(c), **window(c, 5),
        "rope.freq_base_swa": local_base(c, 10000.0),
        "attention.shared_kv_layers": c.integer("num_kv_shared_layers", default=15, low=0, high=n - 1),
        "embedding_length_per_layer_input": c.integer("hidden_size_per_layer_input"),
        "altup.num_inputs": c.integer("altup_num_inputs", default=4, low=2, high=64),
        "altup.active_idx": c.integer("altup_active_idx", default=0, low=0, high=63),
        "activation_sparsity_scale": [NormalDist().inv_cdf(share) if share else -math.inf for share in sparse],
        "final_logit_softcapping": c.number("final_logit_softcapping", default=30.0),
    }  # fmt: skip


def gemma4_layers(c: Fields) -> dict[int, Fields]:
    """The settings of the layers that attend to everything, where they differ: by the number of the layer."""
    n = c.integer("num_hidden_layers", high=4096)
    kinds = c.array("layer_types", str, n, default=["sliding_attention"] * 5 + ["full_attention"])
    full = [i for i in range(n) if kinds[i % len(kinds)] == "full_attention"]
    if c.has("per_layer_config"):
        inside = c.inside("per_layer_config")
        return {i: inside.inside(str(i)) for i in full}
    values = {"head_dim": c.integer("global_head_dim", default=512, high=65536)}
    if c.flag("attention_k_eq_v", False) and c.has("num_global_key_value_heads"):
        values["num_key_value_heads"] = c.integer("num_global_key_value_heads", high=65536)
    return {i: Fields(values, c.where) for i in full}


def gemma4_full(c: Fields) -> Fields:
    """The settings of a layer that attends to everything."""
    found = next(iter(gemma4_layers(c).values()))
    return Fields({**c.values, **found.values}, c.where)


def gemma4(c: Fields) -> Keys:
    c.require("hidden_activation", "gelu_pytorch_tanh", default="gelu_pytorch_tanh")
    c.require("use_bidirectional_attention", None, "vision")
    layers, n = gemma4_layers(c), c.integer("num_hidden_layers", high=4096)
    full = gemma4_full(c)
    size, size_local = head_dim(full), head_dim(c)
    shared = c.integer("num_kv_shared_layers", default=0, low=0, high=n - 1)
    width = c.integer("intermediate_size")
    widths = [width * (1 + (i >= n - shared and c.flag("use_double_wide_mlp", False))) for i in range(n)]
    keys = {
        **sizes(c), **rms(c), **rotation(full), **window(c, 6),
        "attention.key_length": size, "attention.value_length": size, "rope.dimension_count": size,
        "attention.key_length_swa": size_local, "attention.value_length_swa": size_local,
        "rope.dimension_count_swa": size_local,
        "rope.freq_base_swa": local_base(c, 10000.0),
        "attention.head_count_kv": [
            layers.get(i, c).integer("num_key_value_heads", default=c.values["num_key_value_heads"], high=65536)
            for i in range(n)
        ],
        "attention.shared_kv_layers": shared,
        "feed_forward_length": widths,
        "embedding_length_per_layer_input": c.integer("hidden_size_per_layer_input", default=0, low=0),
        "final_logit_softcapping": c.number("final_logit_softcapping", default=0.0),
    }  # fmt: skip
    whole = c.values.get("use_bidirectional_attention") == "vision"
    if whole == (keys["embedding_length_per_layer_input"] > 0):  # not as models are that have no such key
        keys["attention.bidirectional_images"] = whole
    if c.flag("enable_moe_block", False):
        keys |= {
            "expert_count": c.integer("num_experts", high=65536),
            "expert_used_count": c.integer("top_k_experts", high=65536),
            "expert_feed_forward_length": c.integer("moe_intermediate_size"),
        }
    return keys


def gemma4_factors(c: Fields, keys: Keys) -> dict[str, np.ndarray]:
    """Divisors of the frequencies of layers that attend to everything: most of their elements do not rotate."""
    full = gemma4_full(c)
    rope, size = rope_of(full), head_dim(full)
    rope.require("rope_type", "proportional", "default")
    turning = int(rope.number("partial_rotary_factor", default=1.0, high=1.0) * size // 2)
    factors = np.full(size // 2, 1e30, np.float32)
    factors[:turning] = rope.number("factor", default=1.0, low=1e-6)
    return {"rope_freqs.weight": factors}


# ---- GPT-2 -----------------------------------------------------------------------------------------------------------
GPT2: dict[str, Any] = {
    "wte": "token_embd",
    "wpe": "position_embd",
    "ln_f": "output_norm",
    "lm_head": "output",
    "h.{}.ln_1": "blk.{}.attn_norm",
    "h.{}.attn.c_attn": Part("blk.{}.attn_qkv", transposed=True),
    "h.{}.attn.c_proj": Part("blk.{}.attn_output", transposed=True),
    "h.{}.ln_2": "blk.{}.ffn_norm",
    "h.{}.mlp.c_fc": Part("blk.{}.ffn_up", transposed=True),
    "h.{}.mlp.c_proj": Part("blk.{}.ffn_down", transposed=True),
}


def gpt2(c: Fields) -> Keys:
    c.require("activation_function", "gelu_new", "gelu_pytorch_tanh", default="gelu_new")
    c.require("scale_attn_by_inverse_layer_idx", False, default=False)
    c.require("scale_attn_weights", True, default=True)
    width = c.integer("n_embd", "hidden_size")
    return {
        "context_length": c.integer("n_positions", "n_ctx", "max_position_embeddings", high=1 << 30),
        "embedding_length": width,
        "block_count": c.integer("n_layer", "num_hidden_layers", high=4096),
        "feed_forward_length": c.integer("n_inner", default=4 * width),
        "attention.head_count": c.integer("n_head", "num_attention_heads", high=65536),
        **layer_norms(c),
    }


# ---- encoders --------------------------------------------------------------------------------------------------------
BERT = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "encoder.layer.{}.attention.self.query": "blk.{}.attn_q",
    "encoder.layer.{}.attention.self.key": "blk.{}.attn_k",
    "encoder.layer.{}.attention.self.value": "blk.{}.attn_v",
    "encoder.layer.{}.attention.output.dense": "blk.{}.attn_output",
    "encoder.layer.{}.attention.output.LayerNorm": "blk.{}.attn_output_norm",
    "encoder.layer.{}.intermediate.dense": "blk.{}.ffn_up",
    "encoder.layer.{}.output.dense": "blk.{}.ffn_down",
    "encoder.layer.{}.output.LayerNorm": "blk.{}.layer_output_norm",
}
NOMIC = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.token_type_embeddings": "token_types",
    "emb_ln": "token_embd_norm",
    "encoder.layers.{}.attn.Wqkv": "blk.{}.attn_qkv",
    "encoder.layers.{}.attn.out_proj": "blk.{}.attn_output",
    "encoder.layers.{}.norm1": "blk.{}.attn_output_norm",
    "encoder.layers.{}.mlp.fc11": "blk.{}.ffn_up",
    "encoder.layers.{}.mlp.fc12": "blk.{}.ffn_gate",
    "encoder.layers.{}.mlp.fc2": "blk.{}.ffn_down",
    "encoder.layers.{}.norm2": "blk.{}.layer_output_norm",
}
HEADS = ("pooler.dense.weight", "pooler.dense.bias", "cls.*", "lm_head.*", "embeddings.position_ids")


def bert(c: Fields) -> Keys:
    c.require("hidden_act", "gelu", "gelu_new", "gelu_pytorch_tanh", default="gelu")
    c.require("position_embedding_type", "absolute", default="absolute")
    keys = {**sizes(c), **layer_norms(c), "attention.causal": False, **token_types(c)}
    return keys | ({} if c.values.get("hidden_act", "gelu") == "gelu" else {"hidden_activation": "gelu_tanh"})


def token_types(c: Fields) -> Keys:
    """How many kinds of tokens have an embedding."""
    return {"tokenizer.ggml.token_type_count": c.integer("type_vocab_size")} if c.has("type_vocab_size") else {}


def roberta(c: Fields) -> Keys:
    """BERT whose positions begin after that of padding."""
    keys = bert(c)
    keys["context_length"] -= first_position(c)
    return keys


def first_position(c: Fields) -> int:
    return c.integer("pad_token_id", low=0, high=c.integer("max_position_embeddings") - 2) + 1


ROBERTA: dict[str, Any] = {
    **BERT,
    "embeddings.position_embeddings": Part("position_embd", lambda c, rows: np.arange(first_position(c), rows)),
}


def nomic_bert(c: Fields) -> Keys:
    c.require("hidden_act", "silu", default="silu")
    c.require("activation_function", "swiglu", default="swiglu")
    return nomic_keys(c)


def nomic_keys(c: Fields) -> Keys:
    """Keys of both kinds of nomic-bert."""
    outer = {"hidden_size": "n_embd", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer",
             "intermediate_size": "n_inner", "max_position_embeddings": "n_positions",
             "layer_norm_eps": "layer_norm_epsilon", "rope_theta": "rotary_emb_base"}  # fmt: skip
    values: dict[str, Any] = {name: c.values[old] for name, old in outer.items() if c.has(old)}
    c = Fields({**values, **c.values}, c.where)
    return {**sizes(c), **layer_norms(c), **rotation(c), "attention.causal": False, **token_types(c)}


NOMIC_MODULES: dict[str, Any] = {
    **{f"layers.{{}}.self_attn.{name}_proj": Share("blk.{}.attn_qkv", i, 3) for i, name in enumerate("qkv")},
    "layers.{}.self_attn.o_proj": "blk.{}.attn_output",
    "layers.{}.mlp.up_proj": "blk.{}.ffn_up",
    "layers.{}.mlp.gate_proj": "blk.{}.ffn_gate",
    "layers.{}.mlp.down_proj": "blk.{}.ffn_down",
}
MODERN_BERT = {
    "embeddings.tok_embeddings": "token_embd",
    "embeddings.norm": "token_embd_norm",
    "layers.{}.attn_norm": "blk.{}.attn_norm",
    "layers.{}.attn.Wqkv": "blk.{}.attn_qkv",
    "layers.{}.attn.Wo": "blk.{}.attn_output",
    "layers.{}.mlp_norm": "blk.{}.ffn_norm",
    "layers.{}.mlp.Wi": "blk.{}.ffn_up",
    "layers.{}.mlp.Wo": "blk.{}.ffn_down",
    "final_norm": "output_norm",
}
JINA2 = {
    **{name: new for name, new in BERT.items() if not name.endswith(("position_embeddings", "intermediate.dense"))},
    "encoder.layer.{}.attention.self.layer_norm_q": "blk.{}.attn_q_norm",
    "encoder.layer.{}.attention.self.layer_norm_k": "blk.{}.attn_k_norm",
    "encoder.layer.{}.layer_norm_1": "blk.{}.attn_norm_2",
    "encoder.layer.{}.mlp.gated_layers": "blk.{}.ffn_up",
    "encoder.layer.{}.mlp.wo": "blk.{}.ffn_down",
    "encoder.layer.{}.mlp.layernorm": "blk.{}.layer_output_norm",
    "encoder.layer.{}.layer_norm_2": "blk.{}.layer_output_norm",
}
JINA3 = {
    **NOMIC,
    "encoder.layers.{}.mixer.Wqkv": "blk.{}.attn_qkv",
    "encoder.layers.{}.mixer.out_proj": "blk.{}.attn_output",
    "encoder.layers.{}.mlp.fc1": "blk.{}.ffn_up",
}
JINA3_MODULES = {
    **{name: new for name, new in NOMIC_MODULES.items() if ".mlp." not in name},
    "layers.{}.mlp.fc1": "blk.{}.ffn_up",
    "layers.{}.mlp.fc2": "blk.{}.ffn_down",
}
NOMIC_MOE: dict[str, Any] = {
    **NOMIC,
    "encoder.layers.{}.mlp.fc1": "blk.{}.ffn_up",
    "encoder.layers.{}.mlp.router.layer": "blk.{}.ffn_gate_inp",
    "encoder.layers.{}.mlp.experts.mlp.w1": Part("blk.{}.ffn_up_exps", shape=by_experts),
    "encoder.layers.{}.mlp.experts.mlp.w2": Part("blk.{}.ffn_down_exps", shape=by_experts, transposed=True),
}


def nomic_bert_moe(c: Fields) -> Keys:
    """Experts in every other layer."""
    c.require("activation_function", "gelu")
    c.require("moe_normalize_expert_weights", False, default=False)
    c.require("moe_every_n_layers", 2)
    return nomic_keys(c) | {
        "expert_count": n_experts(c),
        "expert_used_count": c.integer("moe_top_k", high=65536),
        "moe_every_n_layers": 2,
    }


def modern_bert(c: Fields) -> Keys:
    """Every n-th layer sees all tokens, the others those at most half a window away."""
    for name in ("hidden_activation", "classifier_activation"):
        c.require(name, "gelu", default="gelu")
    if any("Classification" in str(name) for name in c.array("architectures", str, default=[])):
        c.require("classifier_pooling", "mean", default="cls")
    n = c.integer("num_hidden_layers", high=4096)
    every = c.integer("global_attn_every_n_layers", default=3, high=4096)
    kinds = c.array("layer_types", str, n, default=None)
    if kinds is not None:
        every = next((i for i in range(1, n) if kinds[i] == "full_attention"), n)
        if kinds != ["sliding_attention" if i % every else "full_attention" for i in range(n)]:
            raise c.wrong("layer_types", kinds, "every n-th layer with full attention, from the first on")
    base = c.number("global_rope_theta", default=160000.0, low=1e-6)
    return {
        **sizes(c), "attention.layer_norm_epsilon": c.number("norm_eps", default=1e-5, high=1.0),
        **rotation(Fields({"rope_theta": base, **c.values}, c.where)),
        "attention.sliding_window": c.integer("local_attention", default=128, high=1 << 30),
        "attention.sliding_window_pattern": every, "attention.causal": False,
        "rope.freq_base_swa": local_base(c, c.number("local_rope_theta", default=10000.0, low=1e-6)),
    }  # fmt: skip


def jina_bert2(c: Fields) -> Keys:
    c.require("position_embedding_type", "alibi", default="alibi")
    c.require("feed_forward_type", "geglu", default="geglu")
    return {**sizes(c), **layer_norms(c), "attention.causal": False, **token_types(c)}


def jina_bert3(c: Fields) -> Keys:
    c.require("hidden_act", "gelu", default="gelu")
    c = Fields({"rope_theta": 20000.0, **c.values}, c.where)
    return {**sizes(c), **layer_norms(c), **rotation(c), "attention.causal": False, **token_types(c)}


def jina_bert3_tasks(c: Fields) -> Keys:
    """As its authors save it: with an adapter for each task, see tasks.py."""
    c = Fields({"rope_theta": c.number("rotary_emb_base", default=20000.0, low=1e-6), **c.values}, c.where)
    keys = jina_bert3(c)
    keys["context_length"] -= first_position(c)
    return keys


NOMIC_MOE_ROW = Row("NomicBertModel", "nomic-bert-moe", NOMIC_MOE, nomic_bert_moe,
                    dropped=(*HEADS, "encoder.layers.{}.mlp.experts.bias"),
                    when=lambda c: bool(c.values.get("num_experts")))  # fmt: skip
MODERN_BERT_ROW = Row("ModernBertModel ModernBertForMaskedLM", "modern-bert", MODERN_BERT, modern_bert,
                      dropped=("head.*", "decoder.*"))  # fmt: skip
BERT_ROW = Row("BertModel BertForMaskedLM", "bert", BERT, bert, dropped=HEADS)
ROBERTA_ROW = Row("RobertaModel RobertaForMaskedLM XLMRobertaModel XLMRobertaForMaskedLM", "bert", ROBERTA, roberta,
                  dropped=HEADS)  # fmt: skip
JINA3_ROW = Row("XLMRobertaModel XLMRobertaLoRA", "jina-bert-v3", JINA3, jina_bert3_tasks,
                dropped=(*HEADS, "pooler.dense.*", "*.lora_A", "*.lora_B"),
                when=lambda c: c.values.get("position_embedding_type") == "rotary")  # fmt: skip
QWEN2_ROW = Row("Qwen2ForCausalLM Qwen2Model", "qwen2", DECODER, qwen, dropped=DROPPED)
QWEN3_ROW = Row("Qwen3ForCausalLM Qwen3Model", "qwen3", {**DECODER, **HEAD_NORMS}, qwen, dropped=DROPPED)
ROWS = [
    Row("LlamaForCausalLM MistralForCausalLM MixtralForCausalLM MobileLlamaForCausalLM", "llama",
        {**DECODER, **PERMUTED, **MIXTRAL}, llama, dropped=DROPPED,
        modules={"layers.{}.mlp.gate": "blk.{}.ffn_gate_inp"}),
    QWEN2_ROW,
    QWEN3_ROW,
    Row("Qwen2MoeForCausalLM", "qwen2moe", QWEN_MOE, qwen_moe, dropped=DROPPED),
    Row("Qwen3MoeForCausalLM", "qwen3moe", QWEN_MOE, qwen_moe, dropped=DROPPED),
    Row("Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration", "qwen2vl", DECODER, qwen_images,
        dropped=DROPPED, outer=("model.", "model.language_model.")),
    Row("Qwen3VLForConditionalGeneration", "qwen3vl", {**DECODER, **HEAD_NORMS}, qwen3_images, dropped=DROPPED),
    Row("Qwen3VLMoeForConditionalGeneration", "qwen3vlmoe", QWEN_MOE_FUSED, qwen3_moe_images, dropped=DROPPED),
    Row("Ernie4_5ForCausalLM", "ernie4_5", DECODER, llama, dropped=DROPPED),
    Row("Ernie4_5_MoeForCausalLM", "ernie4_5-moe", {**DECODER, **EXPERTS, **SHARED_EXPERTS}, dense_first,
        dropped=(*DROPPED, "mtp_*")),
    Row("Glm4MoeForCausalLM", "glm4moe", GLM4_MOE, dense_first, dropped=DROPPED, later=True),
    Row("GptOssForCausalLM", "gpt-oss", GPT_OSS, gpt_oss, dropped=DROPPED),
    Row("BitNetForCausalLM", "bitnet", BITNET, bitnet, dropped=DROPPED),
    Row("SmolLM3ForCausalLM", "smollm3", {**DECODER, **PERMUTED}, smollm3, dropped=DROPPED),
    Row("Ministral3ForCausalLM Mistral3ForConditionalGeneration", "mistral3", {**DECODER, **PERMUTED}, mistral3,
        dropped=DROPPED),
    Row("Llama4ForCausalLM Llama4ForConditionalGeneration", "llama4", LLAMA4, llama4, dropped=DROPPED),
    Row("HunYuanDenseV1ForCausalLM", "hunyuan-dense", HUNYUAN, hunyuan, dropped=DROPPED),
    Row("GraniteForCausalLM", "granite", {**DECODER, **PERMUTED}, granite, dropped=DROPPED),
    Row("GraniteMoeForCausalLM GraniteMoeSharedForCausalLM", "granitemoe", GRANITE_MOE, granite, dropped=DROPPED,
        modules=GRANITE_MODULES),
    Row("MiniCPMForCausalLM", "minicpm", {**DECODER, **PERMUTED}, minicpm, dropped=DROPPED),
    Row("PhimoeForCausalLM PhiMoEForCausalLM", "phimoe", {**DECODER, **MIXTRAL}, phimoe, dropped=DROPPED),
    Row("MiniCPM3ForCausalLM", "minicpm3", LATENT, minicpm3, dropped=DROPPED),
    Row("DeepseekV2ForCausalLM", "deepseek2", DEEPSEEK, deepseek2, dropped=DROPPED, later=True),
    Row("DeepseekV3ForCausalLM", "deepseek2", DEEPSEEK, deepseek3, dropped=DROPPED, later=True),
    Row("Phi3ForCausalLM", "phi3", PHI3, phi3, dropped=DROPPED),
    Row("Glm4ForCausalLM", "glm4", GLM4, llama, dropped=DROPPED),
    Row("Olmo2ForCausalLM Olmo3ForCausalLM", "olmo2", AFTER, olmo2, dropped=DROPPED),
    Row("Exaone4ForCausalLM", "exaone4", AFTER, exaone4, dropped=DROPPED),
    *recurrent.ROWS,
    *rwkv.ROWS,
    Row("PhiForCausalLM", "phi2", PHI2, phi2, dropped=DROPPED),
    Row("GPTNeoXForCausalLM", "gptneox", NEOX, neox,
        dropped=("layers.{}.attention.bias", "layers.{}.attention.masked_bias",
                 "layers.{}.attention.rotary_emb.inv_freq"),
        modules={"lm_head": "output"}),
    Row("StableLmForCausalLM", "stablelm", DECODER, stablelm, dropped=DROPPED),
    Row("Starcoder2ForCausalLM", "starcoder2", STARCODER2, starcoder2, dropped=DROPPED),
    Row("NemotronForCausalLM", "nemotron", plus_one(DECODER), nemotron, dropped=DROPPED),
    Row("FalconForCausalLM", "falcon", FALCON, falcon),
    Row("CohereForCausalLM", "command-r", DECODER, cohere, dropped=DROPPED),
    Row("Cohere2ForCausalLM", "cohere2", DECODER, cohere2, dropped=DROPPED),
    Row("GemmaForCausalLM", "gemma", plus_one(DECODER), gemma, dropped=DROPPED),
    Row("Gemma2ForCausalLM", "gemma2", GEMMA, gemma2, dropped=DROPPED),
    Row("Gemma3ForCausalLM Gemma3ForConditionalGeneration", "gemma3", GEMMA, gemma3, dropped=DROPPED),
    Row("Gemma3TextModel", "gemma-embedding", GEMMA, gemma_embedding, dropped=DROPPED),
    Row("Gemma3nForCausalLM Gemma3nForConditionalGeneration", "gemma3n", GEMMA3N, gemma3n, dropped=DROPPED),
    Row("Gemma4ForCausalLM Gemma4ForConditionalGeneration", "gemma4", GEMMA4, gemma4, gemma4_factors, DROPPED),
    Row("GPT2LMHeadModel GPT2Model", "gpt2", GPT2, gpt2, dropped=("h.{}.attn.bias", "h.{}.attn.masked_bias")),
    *clip.ROWS,
    BERT_ROW,
    JINA3_ROW,  # before another one of its class
    ROBERTA_ROW,
    Row("T5ForConditionalGeneration UMT5ForConditionalGeneration", "t5", t5.NAMES, t5.encoder_decoder,
        dropped=t5.UNUSED),
    Row("T5EncoderModel UMT5EncoderModel", "t5encoder", t5.NAMES, t5.encoder, dropped=t5.UNUSED),
    NOMIC_MOE_ROW,
    Row("NomicBertModel", "nomic-bert", NOMIC, nomic_bert, dropped=HEADS, modules=NOMIC_MODULES),
    MODERN_BERT_ROW,
    Row("JinaBertModel JinaBertForMaskedLM", "jina-bert-v2", JINA2, jina_bert2, dropped=HEADS),
    Row("JinaEmbeddingsV3Model", "jina-bert-v3", JINA3, jina_bert3, dropped=HEADS, modules=JINA3_MODULES),
]  # fmt: skip
ROWS += [
    with_classes(row_of_class, classes, names)
    for row_of_class, classes, names in [
        (BERT_ROW, "BertForSequenceClassification", {"pooler.dense": "cls", "classifier": "cls.output"}),
        (ROBERTA_ROW, "RobertaForSequenceClassification XLMRobertaForSequenceClassification",
         {"classifier.dense": "cls", "classifier.out_proj": "cls.output"}),
        (MODERN_BERT_ROW, "ModernBertForSequenceClassification",
         {"head.dense": "cls", "head.norm": "cls.norm", "classifier": "cls.output"}),
        (QWEN2_ROW, "Qwen2ForSequenceClassification", {"score": "cls.output"}),
        (QWEN3_ROW, "Qwen3ForSequenceClassification", {"score": "cls.output"}),
    ]
]  # fmt: skip
BY_CLASS: dict[str, list[Row]] = {}
for _row in ROWS:
    for _name in _row.classes.split():
        BY_CLASS.setdefault(_name, []).append(_row)
