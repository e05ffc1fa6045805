"""Rows of the table for RWKV-6, as its authors and as `fla` save it, and RWKV-7, as `fla` does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arch import rwkv6 as arch6
from ..arch import rwkv7 as arch7
from .fields import Fields
from .parts import Keys, Part, Row, flat


def mixed(old: str, parts: tuple[str, ...]) -> dict[str, Part]:
    """The vectors that say how much of the token before is mixed into each of some parts: one tensor."""
    return {
        old.format("{}", part): Part("blk.{}.time_mix_lerp_fused", shape=flat, place=place)
        for place, part in enumerate(parts)
    }


def usual(c: Fields) -> Keys:
    """The keys of both; a context has no limit."""
    return {
        "context_length": 1 << 20,
        "embedding_length": c.integer("hidden_size"),
        "block_count": c.integer("num_hidden_layers", high=4096),
        "attention.head_count": 0,
        "attention.layer_norm_epsilon": c.number("layer_norm_epsilon", "norm_eps", high=1.0),
        "wkv.head_size": c.integer("head_size", "head_dim", default=64, high=4096),
        "vocab_size": c.integer("vocab_size"),
    }


# What `fla` saves of both under the same names
FLA: dict[str, Any] = {
    "embeddings": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "layers.{}.pre_norm": "token_embd_norm",
    "layers.{}.attn_norm": "blk.{}.attn_norm",
    "layers.{}.ffn_norm": "blk.{}.attn_norm_2",
    "layers.{}.attn.g_norm": "blk.{}.time_mix_ln",
    "layers.{}.attn.o_proj": "blk.{}.time_mix_output",
    "layers.{}.ffn.value": "blk.{}.channel_mix_value",
}


def fla(c: Fields) -> None:
    """Refuses settings of `fla` with which a layer is another one."""
    c.require("hidden_act", "sqrelu", default="sqrelu")
    c.require("attn", None)
    c.require("norm_bias", True, default=True)
    c.require("norm_first", True, default=True)


def inner(c: Fields, ratio: float) -> int:
    """The width between the matrices of a channel mix, which `fla` rounds up."""
    width = int(c.integer("hidden_size") * c.number("hidden_ratio", default=ratio))
    return c.integer("intermediate_size", default=(width + 31) // 32 * 32)


# ---- RWKV-6 ----------------------------------------------------------------------------------------------------------
def rwkv6(c: Fields) -> Keys:
    """Layers are not halved here, which only prevents numbers beyond the range of f16."""
    keys = usual(c)
    width, eps, divisor = keys["embedding_length"], keys["attention.layer_norm_epsilon"], 8
    c.require("attention_hidden_size", None, width)
    c.require("head_size_divisor", divisor, default=divisor)
    if not np.isclose(eps * divisor**2, arch7.GROUP_EPSILON):
        raise c.wrong("layer_norm_epsilon", eps, f"{arch7.GROUP_EPSILON / divisor**2:g}")
    large = width >= 4096
    return keys | {
        "feed_forward_length": c.integer("intermediate_size", default=int(3.5 * width) // 32 * 32 or 1),
        "time_mix_extra_dim": c.integer("lora_rank_tokenshift", default=64 if large else 32),
        "time_decay_extra_dim": c.integer("lora_rank_decay", default=128 if large else 64),
    }


RWKV6: dict[str, Any] = {
    "embeddings": "token_embd",
    "blocks.{}.pre_ln": "token_embd_norm",
    "ln_out": "output_norm",
    "head": "output",
    "blocks.{}.ln1": "blk.{}.attn_norm",
    "blocks.{}.ln2": "blk.{}.attn_norm_2",
    **mixed("blocks.{}.attention.time_maa_{}", arch6.MIXED),
    "blocks.{}.attention.time_maa_x": Part("blk.{}.time_mix_lerp_x", shape=flat),
    "blocks.{}.attention.time_maa_w1": Part("blk.{}.time_mix_w1", transposed=True),
    "blocks.{}.attention.time_maa_w2": Part("blk.{}.time_mix_w2", transposed=True),
    "blocks.{}.attention.time_decay": Part("blk.{}.time_mix_decay", shape=flat),
    "blocks.{}.attention.time_decay_w1": Part("blk.{}.time_mix_decay_w1", transposed=True),
    "blocks.{}.attention.time_decay_w2": Part("blk.{}.time_mix_decay_w2", transposed=True),
    "blocks.{}.attention.time_faaaa": "blk.{}.time_mix_first",
    **{f"blocks.{{}}.attention.{name}": f"blk.{{}}.time_mix_{name}"
       for name in ("receptance", "key", "value", "gate", "output")},
    "blocks.{}.attention.ln_x": "blk.{}.time_mix_ln",
    "blocks.{}.feed_forward.time_maa_k": Part("blk.{}.channel_mix_lerp_k", shape=flat),
    "blocks.{}.feed_forward.time_maa_r": Part("blk.{}.channel_mix_lerp_r", shape=flat),
    **{f"blocks.{{}}.feed_forward.{name}": f"blk.{{}}.channel_mix_{name}" for name in ("receptance", "key", "value")},
}  # fmt: skip


# ---- RWKV-6 of fla ---------------------------------------------------------------------------------------------------
MIXED_BY_FLA = ("r", "w", "k", "v", "g")
OWN_ORDER = [MIXED_BY_FLA.index(part) for part in arch6.MIXED]
SMALLEST = 1 / 16  # share of the heads that keys have


def fla6(c: Fields) -> Keys:
    """Keys may be shorter than values, which the file has not: they get zeros."""
    fla(c)
    keys = {**usual(c), "wkv.head_size": head_sizes(c)[1]}
    return keys | {
        "feed_forward_length": inner(c, 3.5),
        "time_mix_extra_dim": c.integer("proj_low_rank_dim", default=32),
        "time_decay_extra_dim": c.integer("gate_low_rank_dim", default=64),
    }


def head_sizes(c: Fields) -> tuple[int, int]:
    """The elements of a head of keys and of one of values."""
    width, n = c.integer("hidden_size"), c.integer("num_heads", default=4, high=65536)
    c.require("expand_v", 1.0, default=1.0)
    expand = c.number("expand_k", default=0.5, low=SMALLEST, high=1.0)
    if width % n or int(width * expand) % n:
        raise c.wrong("num_heads", n, f"a divisor of {width} and of {int(width * expand)}")
    return int(width * expand) // n, width // n


def whole_heads(c: Fields, shape: tuple[int, ...]) -> np.ndarray:
    """The places of the rows of all heads, with the rows added that those of keys lack."""
    size, whole = head_sizes(c)
    places = np.arange(math.prod(shape)).reshape(c.integer("num_heads", default=4), size, *shape[1:])
    missing = np.full((len(places), whole - size, *shape[1:]), -1)
    return np.concatenate([places, missing], 1).reshape(-1, *shape[1:])


def whole_rows(c: Fields, shape: tuple[int, ...]) -> np.ndarray:
    """The same of a matrix with a row for each head."""
    return whole_heads(c, (math.prod(shape),)).reshape(shape[0], -1)


def by_part(c: Fields, shape: tuple[int, ...]) -> np.ndarray:
    """The places of the rows of each part, [5, rows / 5, columns], in the order of the file."""
    return np.arange(math.prod(shape)).reshape(len(OWN_ORDER), -1, shape[-1])[OWN_ORDER]


def rows_by_part(c: Fields, shape: tuple[int, ...]) -> np.ndarray:
    return by_part(c, shape).reshape(shape)


def vectors_by_part(c: Fields, shape: tuple[int, ...]) -> np.ndarray:
    return by_part(c, shape).reshape(len(OWN_ORDER), 1, 1, shape[-1])


def columns_by_part(c: Fields, shape: tuple[int, ...]) -> np.ndarray:
    """Of a matrix [C, 5 rank] whose columns are those of all parts: [5, C, rank]."""
    return np.arange(math.prod(shape)).reshape(shape[0], len(OWN_ORDER), -1).swapaxes(0, 1)[OWN_ORDER]


def scaled(c: Fields, values: np.ndarray) -> np.ndarray:
    """Values that are so large that the epsilon of the norm of heads is the file's, which is a constant."""
    return values * np.float32(np.sqrt(arch7.GROUP_EPSILON / c.number("norm_eps", default=1e-5, low=1e-12)))


FLA6: dict[str, Any] = {
    **FLA,
    "layers.{}.attn.x_proj_0.mu": "blk.{}.time_mix_lerp_x",
    "layers.{}.attn.x_proj_0.linear": Part("blk.{}.time_mix_w1", order=rows_by_part),
    "layers.{}.attn.x_proj_2": Part("blk.{}.time_mix_w2", order=columns_by_part),
    "layers.{}.attn.x_bias": Part("blk.{}.time_mix_lerp_fused", order=vectors_by_part),
    "layers.{}.attn.r_proj.linear": "blk.{}.time_mix_receptance",
    "layers.{}.attn.k_proj.linear": "blk.{}.time_mix_key",
    "layers.{}.attn.v_proj.linear": Part("blk.{}.time_mix_value", function=scaled),
    "layers.{}.attn.g_proj.linear": "blk.{}.time_mix_gate",
    "layers.{}.attn.w_proj.linear.lora_0": "blk.{}.time_mix_decay_w1",
    "layers.{}.attn.w_proj.linear.lora_2": "blk.{}.time_mix_decay_w2",
    "layers.{}.attn.w_proj.linear.lora_2.bias": "blk.{}.time_mix_decay.weight",
    "layers.{}.attn.bonus": "blk.{}.time_mix_first",
    "layers.{}.ffn.key.mu": "blk.{}.channel_mix_lerp_k",
    "layers.{}.ffn.key.linear": "blk.{}.channel_mix_key",
    "layers.{}.ffn.receptance.mu": "blk.{}.channel_mix_lerp_r",
    "layers.{}.ffn.receptance.linear": "blk.{}.channel_mix_receptance",
}
OF_KEYS = {"r_proj.linear": whole_heads, "k_proj.linear": whole_heads, "w_proj.linear.lora_2": whole_heads,
           "w_proj.linear.lora_2.bias": whole_heads, "bonus": whole_rows}  # fmt: skip


def fla6_names(c: Fields) -> Mapping[str, Any]:
    size, whole = head_sizes(c)
    changed = {f"layers.{{}}.attn.{name}": order for name, order in OF_KEYS.items()} if size < whole else {}
    return FLA6 | {name: Part(FLA6[name], order=order) for name, order in changed.items()}


# ---- RWKV-7 ----------------------------------------------------------------------------------------------------------
RANKS = {"decay": ("decay_low_rank_dim", 2.5), "iclr": ("a_low_rank_dim", 2.5),
         "value_residual_mix": ("v_low_rank_dim", 1.7), "gate": ("gate_low_rank_dim", 5.0)}  # fmt: skip


def rank(c: Fields, name: str, factor: float) -> int:
    """The rank of a low-rank part; without a setting what `fla` takes."""
    width, size = c.integer("hidden_size"), c.integer("head_dim", default=64, high=4096)
    scale = 1.0 if name == "gate_low_rank_dim" else size / 64
    return c.integer(name, default=max(32, round(factor * width**0.5 * scale / 32) * 32))


def rwkv7(c: Fields) -> Keys:
    fla(c)
    keys = usual(c)
    width, size, eps = keys["embedding_length"], keys["wkv.head_size"], keys["attention.layer_norm_epsilon"]
    c.require("value_dim", None, width, [width] * keys["block_count"])
    if not np.isclose(size * eps, arch7.GROUP_EPSILON):
        raise c.wrong("norm_eps", eps, f"{arch7.GROUP_EPSILON / size:g} for heads of {size}")
    keys["feed_forward_length"] = inner(c, 4.0)
    return keys | {f"attention.{name}_lora_rank": rank(c, *setting) for name, setting in RANKS.items()}


def unused(c: Fields, keys: Keys) -> dict[str, np.ndarray]:
    """The first layer's share of its own values, which nothing reads, but llama.cpp asks for."""
    width, low = c.integer("hidden_size"), rank(c, *RANKS["iclr"])
    shapes: list[tuple[int, ...]] = [(width,), (low, width), (width, low)]
    return {name: np.zeros(shape, np.float32) for name, shape in zip(arch7.UNUSED, shapes, strict=True)}


def low_rank(part: str) -> Mapping[str, str]:
    """The names of a low-rank part."""
    old, new = f"layers.{{}}.attn.{part}_lora.lora", f"blk.{{}}.time_mix_{part}"
    # the bias of the second matrix is a vector of its own
    return {f"{old}_0": f"{new}1", f"{old}_2": f"{new}2", f"{old}_2.bias": f"{new}0.weight"}


RWKV7: dict[str, Any] = {
    **FLA,
    **mixed("layers.{}.attn.x_{}", arch7.MIXED),
    "layers.{}.attn.x_x": Part("blk.{}.time_mix_lerp_fused", shape=lambda c, shape: (shape[0], 1, 1, shape[-1])),
    **low_rank("w"), **low_rank("a"), **low_rank("v"), **low_rank("g"),
    "layers.{}.attn.k_k": Part("blk.{}.time_mix_k_k", shape=flat),
    "layers.{}.attn.k_a": Part("blk.{}.time_mix_k_a", shape=flat),
    "layers.{}.attn.r_k": Part("blk.{}.time_mix_r_k", shape=lambda c, shape: (shape[0] * shape[1],)),
    "layers.{}.attn.r_proj": "blk.{}.time_mix_receptance",
    "layers.{}.attn.k_proj": "blk.{}.time_mix_key",
    "layers.{}.attn.v_proj": "blk.{}.time_mix_value",
    "layers.{}.ffn.x_k": Part("blk.{}.channel_mix_lerp_k", shape=flat),
    "layers.{}.ffn.key": "blk.{}.channel_mix_key",
}  # fmt: skip

ROWS = [
    Row("Rwkv6ForCausalLM", "rwkv6", RWKV6, rwkv6),
    Row("RWKV6ForCausalLM", "rwkv6", fla6_names, fla6),
    Row("RWKV7ForCausalLM Rwkv7ForCausalLM", "rwkv7", RWKV7, rwkv7, unused),
]
