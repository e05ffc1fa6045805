"""Rows of the table for architectures with a state of each sequence."""

from __future__ import annotations

from typing import Any

from .fields import Fields
from .parts import ATTENTION, DROPPED, Keys, Part, Row, rotation, sizes


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
    "layers.{}.conv.conv": Part("blk.{}.shortconv.conv", flat=True),
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

ROWS = [
    Row("Lfm2ForCausalLM", "lfm2", LFM2, lfm2, dropped=DROPPED),
    Row("Lfm2MoeForCausalLM", "lfm2moe", LFM2_MOE, lfm2_moe, dropped=DROPPED),
]
