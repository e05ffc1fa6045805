"""The table of conversions: a row for each architecture, found by the class of transformers in config.json."""

from __future__ import annotations

from typing import Any

from .fields import Fields
from .parts import (
    ATTENTION,
    DECODER,
    DROPPED,
    GATED,
    HEAD_NORMS,
    MIXTRAL,
    PERMUTED,
    TOP,
    Keys,
    Part,
    Row,
    frequency_factors,
    layer_norms,
    plus_one,
    rms,
    rope_of,
    rotation,
    sizes,
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


# ---- Gemma -----------------------------------------------------------------------------------------------------------
GEMMA = plus_one({
    **TOP, **ATTENTION, **GATED, **HEAD_NORMS,
    "layers.{}.input_layernorm": "blk.{}.attn_norm",
    "layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "layers.{}.pre_feedforward_layernorm": "blk.{}.ffn_norm",
    "layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm",
})  # fmt: skip


def gemma2(c: Fields) -> Keys:
    c.require("hidden_activation", "gelu_pytorch_tanh", default="gelu_pytorch_tanh")
    return {
        **sizes(c), **rms(c), **rotation(c), **window(c, 2),
        "attn_logit_softcapping": c.number("attn_logit_softcapping", default=0.0),
        "final_logit_softcapping": c.number("final_logit_softcapping", default=0.0),
    }  # fmt: skip


def gemma3(c: Fields) -> Keys:
    c.require("hidden_activation", "gelu_pytorch_tanh", default="gelu_pytorch_tanh")
    c.require("use_bidirectional_attention", False, default=False)
    local = rope_of(c, "sliding_attention")
    base = c.number("rope_local_base_freq", default=None) or 10000.0
    if c.has("rope_parameters"):
        base = local.number("rope_theta", default=base, low=1e-6)
    return {
        **sizes(c), **rms(c), **rotation(c), **window(c, 6),
        "rope.freq_base_swa": base,
        "attn_logit_softcapping": c.number("attn_logit_softcapping", default=0.0),
        "final_logit_softcapping": c.number("final_logit_softcapping", default=0.0),
    }  # fmt: skip


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
HEADS = ("pooler.dense.weight", "pooler.dense.bias", "cls.*", "embeddings.position_ids")


def bert(c: Fields) -> Keys:
    c.require("hidden_act", "gelu", "gelu_new", "gelu_pytorch_tanh", default="gelu")
    c.require("position_embedding_type", "absolute", default="absolute")
    return {**sizes(c), **layer_norms(c), "attention.causal": False}


def nomic_bert(c: Fields) -> Keys:
    c.require("hidden_act", "silu", default="silu")
    c.require("activation_function", "swiglu", default="swiglu")
    outer = {"hidden_size": "n_embd", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer",
             "intermediate_size": "n_inner", "max_position_embeddings": "n_positions",
             "layer_norm_eps": "layer_norm_epsilon", "rope_theta": "rotary_emb_base"}  # fmt: skip
    values: dict[str, Any] = {name: c.values[old] for name, old in outer.items() if c.has(old)}
    c = Fields({**values, **c.values}, c.where)
    return {**sizes(c), **layer_norms(c), **rotation(c), "attention.causal": False}


ROWS = [
    Row("LlamaForCausalLM MistralForCausalLM MixtralForCausalLM", "llama",
        {**DECODER, **PERMUTED, **MIXTRAL}, llama, frequency_factors, DROPPED),
    Row("Qwen2ForCausalLM", "qwen2", DECODER, qwen, dropped=DROPPED),
    Row("Qwen3ForCausalLM", "qwen3", {**DECODER, **HEAD_NORMS}, qwen, dropped=DROPPED),
    Row("Gemma2ForCausalLM", "gemma2", GEMMA, gemma2, dropped=DROPPED),
    Row("Gemma3ForCausalLM Gemma3ForConditionalGeneration", "gemma3", GEMMA, gemma3, dropped=DROPPED),
    Row("GPT2LMHeadModel GPT2Model", "gpt2", GPT2, gpt2, dropped=("h.{}.attn.bias", "h.{}.attn.masked_bias")),
    Row("BertModel BertForMaskedLM", "bert", BERT, bert, dropped=HEADS),
    Row("NomicBertModel", "nomic-bert", NOMIC, nomic_bert, dropped=HEADS),
]  # fmt: skip
BY_CLASS = {name: row for row in ROWS for name in row.classes.split()}
