"""Rows of models with an encoder of texts beside one of pictures, of which these are the texts: CLIP, SigLIP."""

from __future__ import annotations

from typing import Any

from ..arch.clip import ACTIVATIONS
from .fields import Fields
from .parts import Keys, Row, layer_norms, sizes

NAMES = {
    "embeddings.token_embedding": "token_embd",
    "embeddings.position_embedding": "position_embd",
    "encoder.layers.{}.layer_norm1": "blk.{}.attn_norm",
    "encoder.layers.{}.self_attn.q_proj": "blk.{}.attn_q",
    "encoder.layers.{}.self_attn.k_proj": "blk.{}.attn_k",
    "encoder.layers.{}.self_attn.v_proj": "blk.{}.attn_v",
    "encoder.layers.{}.self_attn.out_proj": "blk.{}.attn_output",
    "encoder.layers.{}.layer_norm2": "blk.{}.ffn_norm",
    "encoder.layers.{}.mlp.fc1": "blk.{}.ffn_up",
    "encoder.layers.{}.mlp.fc2": "blk.{}.ffn_down",
    "final_layer_norm": "output_norm",
}
DROPPED = ("vision_model.*", "visual_projection.weight", "logit_scale", "logit_bias", "embeddings.position_ids")
# What config.json may leave out
CLIP = {"vocab_size": 49408, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12,
        "num_attention_heads": 8, "max_position_embeddings": 77, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5,
        "eos_token_id": 49407}  # fmt: skip
SIGLIP = {"vocab_size": 32000, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
          "num_attention_heads": 12, "max_position_embeddings": 64, "hidden_act": "gelu_pytorch_tanh",
          "layer_norm_eps": 1e-6}  # fmt: skip
OLD_END = 2  # an id in old files that is not that of the token which ends a text: the largest id of a text is
LAST = 3  # pooling


def encoder(c: Fields, defaults: dict[str, Any]) -> tuple[Fields, Keys]:
    """The settings with defaults, and the usual keys."""
    c = Fields({**defaults, **c.values}, c.where)
    c.require("hidden_act", *ACTIVATIONS)
    return c, {**sizes(c), **layer_norms(c), "hidden_act": c.text("hidden_act"), "pooling_type": LAST}


def clip(c: Fields) -> Keys:
    c, keys = encoder(c, CLIP)
    end = c.integer("eos_token_id", low=0)
    return keys if end == OLD_END else keys | {"end_token_id": end}


def siglip(c: Fields) -> Keys:
    """Every token sees all of them; texts are filled up to the length of the training."""
    return encoder(c, SIGLIP)[1] | {"attention.causal": False}


ROWS = [
    Row("CLIPModel", "clip", {**NAMES, "text_projection": "dense_2"}, clip, dropped=DROPPED),
    Row("SiglipModel Siglip2Model", "clip", {**NAMES, "head": "dense_2"}, siglip, dropped=DROPPED),
]
