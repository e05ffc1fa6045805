"""T5: what its tensors and settings become."""

from __future__ import annotations

from dataclasses import replace

from ..arch.t5 import FAR
from .checkpoint import Checkpoint
from .fields import Fields
from .parts import Keys, Row, sizes

PARTS = {
    "encoder.block.{}.layer_0.SelfAttention": "enc.blk.{}.attn",
    "encoder.block.{}.layer_0": "enc.blk.{}.attn",
    "encoder.block.{}.layer_1": "enc.blk.{}.ffn",
    "decoder.block.{}.layer_0.SelfAttention": "dec.blk.{}.attn",
    "decoder.block.{}.layer_0": "dec.blk.{}.attn",
    "decoder.block.{}.layer_1.EncDecAttention": "dec.blk.{}.cross_attn",
    "decoder.block.{}.layer_1": "dec.blk.{}.cross_attn",
    "decoder.block.{}.layer_2": "dec.blk.{}.ffn",
}
ENDS = {
    ".q": "_q", ".k": "_k", ".v": "_v", ".o": "_o", ".relative_attention_bias": "_rel_b", ".layer_norm": "_norm",
    ".DenseReluDense.wi": "_up", ".DenseReluDense.wi_0": "_gate", ".DenseReluDense.wi_1": "_up",
    ".DenseReluDense.wo": "_down",
}  # fmt: skip
NAMES = {
    "shared": "token_embd",
    "lm_head": "output",
    "encoder.final_layer_norm": "enc.output_norm",
    "decoder.final_layer_norm": "dec.output_norm",
    **{part + end: new + ending for part, new in PARTS.items() for end, ending in ENDS.items()},
}
UNUSED = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
          "decoder.block.{}.layer_1.EncDecAttention.relative_attention_bias.weight")  # fmt: skip


def encoder(c: Fields) -> Keys:
    c.require("feed_forward_proj", "relu", "gated-gelu", default="relu")
    gated = c.values.get("feed_forward_proj") == "gated-gelu"
    c.require("is_gated_act", gated, default=gated)
    usual = "gelu_new" if gated else "relu"
    c.require("dense_act_fn", usual, default=usual)
    c.require("relative_attention_max_distance", FAR, default=FAR)
    outer = {"hidden_size": "d_model", "num_attention_heads": "num_heads", "num_hidden_layers": "num_layers",
             "intermediate_size": "d_ff", "head_dim": "d_kv", "max_position_embeddings": "n_positions"}  # fmt: skip
    values = {"n_positions": 512, **c.values}
    c = Fields({**values, **{name: values[old] for name, old in outer.items() if old in values}}, c.where)
    eps = c.number("layer_norm_epsilon", default=1e-6, high=1.0)
    return sizes(c) | {
        "attention.layer_norm_epsilon": eps,
        "attention.layer_norm_rms_epsilon": eps,
        "attention.relative_buckets_count": c.integer("relative_attention_num_buckets", default=32, high=65536),
    }


def encoder_decoder(c: Fields) -> Keys:
    keys = encoder(c)
    return keys | {
        "decoder_block_count": c.integer("num_decoder_layers", default=keys["block_count"], high=4096),
        "decoder_start_token_id": c.integer("decoder_start_token_id", default=0, low=0),
    }


def with_output(checkpoint: Checkpoint, row: Row) -> Row:
    """The row of a model whose output matrix is not the embedding divided by a root: it has one, or gets a copy.

    Which it is, the setting `tie_word_embeddings` says, or in newer folders `scale_decoder_outputs`.
    """
    values = checkpoint.config.values
    scaled = values.get("scale_decoder_outputs", values.get("tie_word_embeddings") is not False)
    if row.keys is not encoder_decoder or scaled:
        return row
    values["tie_word_embeddings"] = False  # type: ignore[index]
    own = any(name.endswith("lm_head.weight") for name in checkpoint.stored)
    names = row.names_of(checkpoint.config)
    return row if own else replace(row, names={**names, "shared": ["token_embd", "output"]})
