"""What the rows of the table are made of: settings as keys, and how tensors become tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .fields import Fields

Keys = dict[str, Any]


class Share(NamedTuple):
    """What a module of transformers is of a tensor: slice i of n equal ones of its rows."""

    name: str  # of the tensor in the GGUF file, as in a Part
    i: int
    n: int


class Part(NamedTuple):
    """What a tensor becomes.

    Attributes:
        name: in the GGUF file, without ".weight" or ".bias" if these are as in the folder, and with a dot at its end if
            it has neither; "{}" stands for the number of the layer.
        rows: function of the settings and the number of rows that gives the rows to take, in their new order; None for
            all of them. A bias and each matrix of a stack are treated alike.
        columns: the same for the columns of a matrix.
        transposed: whether the matrix is stored as [n_in, n_out].
        n_in: function of the settings that gives the number of columns, where matrices may be stored either way.
        plus: what is added to a weight, for norms that multiply by 1 + w.
        shape: function of the settings and the shape that gives another one; or None.
        function: function of the settings and the values as f32 that gives other ones.
        place: of a vector that is one of several of a tensor [n, 1, 1, vectors], which one; else -1.
        order: function of the settings and the shape that gives the place of each element of the new tensor in the old
            one, -1 for zero, in the shape of the new one; for small tensors.
    """

    name: str
    rows: Callable[[Fields, int], np.ndarray] | None = None
    transposed: bool = False
    plus: float = 0.0
    shape: Callable[[Fields, tuple[int, ...]], tuple[int, ...]] | None = None
    function: Callable[[Fields, np.ndarray], np.ndarray] | None = None
    columns: Callable[[Fields, int], np.ndarray] | None = None
    n_in: Callable[[Fields], int] | None = None
    place: int = -1
    order: Callable[[Fields, tuple[int, ...]], np.ndarray] | None = None

    @property
    def unchanged(self) -> bool:
        """Whether the values stay as they are."""
        return self == Part(self.name, shape=self.shape)

    def reshaped(self, c: Fields, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in which the tensor is changed."""
        return self.shape(c, shape) if self.shape is not None else shape


@dataclass(frozen=True)
class Row:
    """An architecture, for models of some classes of transformers.

    Attributes:
        classes: names of the classes, as in the setting `architectures`.
        arch: value of general.architecture.
        names: for the names of tensors (without a prefix such as "model.", with "{}" for each number) the name or the
            Part that they become, or a list of Parts; or a function of the settings that gives these.
        keys: function of the settings that gives the keys, without the architecture before them, except those of the
            tokenizer. Floats become F32, integers U32.
        tensors: function of the settings and the keys that gives tensors to add; by default divisors of frequencies.
        dropped: names of tensors that are not needed.
        when: function of the settings that says whether they are of this row, for classes that have several.
        modules: as `names`, or a Share, for modules of transformers whose names, which adapters of PEFT have, are other
            ones than those of tensors.
        outer: the beginning of the names of tensors, and what those of modules have in its place.
        later: whether layers behind those of the settings predict further tokens.
    """

    classes: str
    arch: str
    names: Mapping[str, Any] | Callable[[Fields], Mapping[str, Any]]
    keys: Callable[[Fields], Keys]
    tensors: Callable[[Fields, Keys], dict[str, np.ndarray]] = lambda c, keys: frequency_factors(c, keys)
    dropped: tuple[str, ...] = ()
    later: bool = False
    when: Callable[[Fields], bool] = lambda c: True
    modules: Mapping[str, Any] = field(default_factory=dict)
    outer: tuple[str, str] = ("", "")

    def names_of(self, c: Fields) -> Mapping[str, Any]:
        """`names` for the settings of a model."""
        return self.names(c) if callable(self.names) else self.names


# ---- rows ------------------------------------------------------------------------------------------------------------
def head_dim(c: Fields) -> int:
    """Elements of a head."""
    return c.integer("head_dim", default=None) or max(1, c.integer("hidden_size") // heads(c))


def n_experts(c: Fields) -> int:
    """The number of experts, by any of its names."""
    return c.integer("num_experts", "num_local_experts", high=65536)


def heads(c: Fields) -> int:
    return c.integer("num_attention_heads", high=65536)


def pairs_side_by_side(size: int, rows: int) -> np.ndarray:
    """Rows of heads of `size` elements in which the pairs (i, i + size / 2) lie side by side.

    transformers rotates the former pairs, GGML_ROPE_TYPE_NORMAL the latter.
    """
    if size % 2 or rows % size:
        raise ValueError(f"{rows} rows are no whole number of heads of {size}")
    return np.arange(rows).reshape(-1, 2, size // 2).swapaxes(1, 2).reshape(-1)


def rotated(c: Fields, rows: int) -> np.ndarray:
    """Rows of q or k for GGML_ROPE_TYPE_NORMAL."""
    return pairs_side_by_side(head_dim(c), rows)


def slices(n: int, i: int) -> Callable[[Fields, int], np.ndarray]:
    """Rows of slice i of n equal ones."""
    return lambda c, rows: np.arange(rows // n * i, rows // n * (i + 1))


def every(n: int, i: int) -> Callable[[Fields, int], np.ndarray]:
    """Rows i, i + n, i + 2 n, ..."""
    return lambda c, rows: np.arange(i, rows, n)


def falcon_heads(c: Fields, rows: int) -> np.ndarray:
    """Rows of [q of all heads, k, v] of Falcon's matrix: each head of keys follows the queries that use it."""
    if not c.flag("new_decoder_architecture", False):
        return np.arange(rows)
    groups = c.integer("num_kv_heads", default=heads(c), high=65536)
    size = max(1, c.integer("hidden_size") // heads(c))
    if rows % (groups * size) or rows // size <= 2 * groups:
        raise ValueError(f"{rows} rows are no whole number of heads of {size} in {groups} groups")
    index = np.arange(rows).reshape(groups, -1, size)
    return np.concatenate([part.reshape(-1) for part in (index[:, :-2], index[:, -2], index[:, -1])])


def flat(c: Fields, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without dimensions of 1, of a matrix of one row or of the weights of a convolution."""
    return (*(n for n in shape[:-1] if n != 1), shape[-1])


def column(c: Fields, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A vector as a matrix of one column."""
    return (*shape, 1)


def by_head(c: Fields, rows: int) -> np.ndarray:
    """Rows of [q of all heads, k, v] from a matrix in which q, k and v of a head follow one another."""
    n = heads(c)
    if rows % (3 * n):
        raise ValueError(f"{rows} rows are no three parts of {n} heads")
    return np.arange(rows).reshape(n, 3, -1).swapaxes(0, 1).reshape(-1)


# ---- names -----------------------------------------------------------------------------------------------------------
TOP = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
ATTENTION = {
    "layers.{}.self_attn.q_proj": "blk.{}.attn_q",
    "layers.{}.self_attn.k_proj": "blk.{}.attn_k",
    "layers.{}.self_attn.v_proj": "blk.{}.attn_v",
    "layers.{}.self_attn.o_proj": "blk.{}.attn_output",
}
PERMUTED: dict[str, Any] = {
    **ATTENTION,
    "layers.{}.self_attn.q_proj": Part("blk.{}.attn_q", rotated),
    "layers.{}.self_attn.k_proj": Part("blk.{}.attn_k", rotated),
}
HEAD_NORMS = {
    "layers.{}.self_attn.q_norm": "blk.{}.attn_q_norm",
    "layers.{}.self_attn.k_norm": "blk.{}.attn_k_norm",
}
NORMS = {
    "layers.{}.input_layernorm": "blk.{}.attn_norm",
    "layers.{}.post_attention_layernorm": "blk.{}.ffn_norm",
}
GATED = {
    "layers.{}.mlp.gate_proj": "blk.{}.ffn_gate",
    "layers.{}.mlp.up_proj": "blk.{}.ffn_up",
    "layers.{}.mlp.down_proj": "blk.{}.ffn_down",
}
SHARED_EXPERTS: dict[str, Any] = {
    "layers.{}.mlp.gate.e_score_correction_bias": "blk.{}.exp_probs_b.bias",
    "layers.{}.mlp.moe_statics.e_score_correction_bias": Part("blk.{}.exp_probs_b.bias", shape=flat),
    "layers.{}.mlp.shared_experts.gate_proj": "blk.{}.ffn_gate_shexp",
    "layers.{}.mlp.shared_experts.up_proj": "blk.{}.ffn_up_shexp",
    "layers.{}.mlp.shared_experts.down_proj": "blk.{}.ffn_down_shexp",
}
EXPERTS = {
    "layers.{}.mlp.gate": "blk.{}.ffn_gate_inp",
    "layers.{}.mlp.experts.{}.gate_proj": "blk.{}.ffn_gate_exps",
    "layers.{}.mlp.experts.{}.up_proj": "blk.{}.ffn_up_exps",
    "layers.{}.mlp.experts.{}.down_proj": "blk.{}.ffn_down_exps",
}
MIXTRAL = {
    "layers.{}.block_sparse_moe.gate": "blk.{}.ffn_gate_inp",
    "layers.{}.block_sparse_moe.experts.{}.w1": "blk.{}.ffn_gate_exps",
    "layers.{}.block_sparse_moe.experts.{}.w3": "blk.{}.ffn_up_exps",
    "layers.{}.block_sparse_moe.experts.{}.w2": "blk.{}.ffn_down_exps",
}
DECODER = {**TOP, **ATTENTION, **NORMS, **GATED}
GRANITE_MOE: dict[str, Any] = {
    **DECODER, **PERMUTED,
    "layers.{}.block_sparse_moe.router.layer": "blk.{}.ffn_gate_inp",
    "layers.{}.block_sparse_moe.input_linear": [Part("blk.{}.ffn_gate_exps", slices(2, 0)),
                                                Part("blk.{}.ffn_up_exps", slices(2, 1))],
    "layers.{}.block_sparse_moe.output_linear": "blk.{}.ffn_down_exps",
    "layers.{}.shared_mlp.input_linear": [Part("blk.{}.ffn_gate_shexp", slices(2, 0)),
                                          Part("blk.{}.ffn_up_shexp", slices(2, 1))],
    "layers.{}.shared_mlp.output_linear": "blk.{}.ffn_down_shexp",
}  # fmt: skip
GRANITE_MODULES = {
    "layers.{}.block_sparse_moe.router": "blk.{}.ffn_gate_inp",
    "layers.{}.block_sparse_moe.experts.gate_up_proj": GRANITE_MOE["layers.{}.block_sparse_moe.input_linear"],
    "layers.{}.block_sparse_moe.experts.down_proj": "blk.{}.ffn_down_exps",
}
DROPPED = ("layers.{}.self_attn.rotary_emb.inv_freq",)


FURTHER = {  # of layers that predict further tokens
    "layers.{}.eh_proj": "blk.{}.nextn.eh_proj",
    "layers.{}.enorm": "blk.{}.nextn.enorm",
    "layers.{}.hnorm": "blk.{}.nextn.hnorm",
    "layers.{}.embed_tokens": "blk.{}.nextn.embed_tokens",
    "layers.{}.shared_head.norm": "blk.{}.nextn.shared_head_norm",
    "layers.{}.shared_head.head": "blk.{}.nextn.shared_head_head",
}


def plus_one(names: Mapping[str, Any]) -> dict[str, Any]:
    """Names whose norms multiply by 1 + w."""
    norm = ("norm", "layernorm")
    return {k: Part(v, plus=1.0) if k.endswith(norm) and isinstance(v, str) else v for k, v in names.items()}


# ---- keys ------------------------------------------------------------------------------------------------------------
def sizes(c: Fields) -> Keys:
    """Layers, widths and heads."""
    n_head, width = heads(c), c.integer("hidden_size")
    keys: Keys = {
        "context_length": c.integer("max_position_embeddings", high=1 << 30),
        "embedding_length": width,
        "block_count": c.integer("num_hidden_layers", high=4096),
        "feed_forward_length": c.integer("intermediate_size"),
        "attention.head_count": n_head,
        "attention.head_count_kv": c.integer("num_key_value_heads", default=n_head, high=65536),
        "vocab_size": c.integer("vocab_size"),
    }
    if c.has("head_dim"):
        keys["attention.key_length"] = keys["attention.value_length"] = head_dim(c)
    return keys


def rms(c: Fields) -> Keys:
    return {"attention.layer_norm_rms_epsilon": c.number("rms_norm_eps", high=1.0)}


def granite_factors(c: Fields) -> Keys:
    """The factors of the embedding, of what layers add, of the scores and of the logits."""
    return {
        "attention.scale": c.number("attention_multiplier", default=1.0),
        "embedding_scale": c.number("embedding_multiplier", default=1.0),
        "residual_scale": c.number("residual_multiplier", default=1.0),
        "logit_scale": c.number("logits_scaling", default=1.0, low=1e-6),
    }


def layer_norms(c: Fields) -> Keys:
    names = ("layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon")
    return {"attention.layer_norm_epsilon": c.number(*names, high=1.0)}


def rope_of(c: Fields, kind: str = "full_attention") -> Fields:
    """The settings of rotary positions: of layers of one kind, where they differ.

    transformers reads `truncate` beside the kinds and ignores it among the settings of one.
    """
    rope = c.inside("rope_parameters") if c.has("rope_parameters") else c.inside("rope_scaling")
    if isinstance(rope.values.get(kind), dict):
        whole = {"truncate": rope.values.get("truncate")}
        rope = rope.inside(kind)
        rope = Fields({**rope.values, **whole}, rope.where)
    outer = {name: c.values[name] for name in ("rope_theta", "partial_rotary_factor") if c.has(name)}
    values = {**outer, **{name: value for name, value in rope.values.items() if value is not None}}
    values.setdefault("rope_type", values.get("type", "default"))
    return Fields(values, rope.where)


def local_base(c: Fields, default: float) -> float:
    """The base of the positions of layers with a sliding window, which have no scaling."""
    if not isinstance(c.inside("rope_parameters").values.get("sliding_attention"), dict):
        return default
    local = rope_of(c, "sliding_attention")
    local.require("rope_type", "default")
    return local.number("rope_theta", default=default, low=1e-6)


def original_context(c: Fields, rope: Fields) -> int:
    """Tokens that a model was trained with before its positions were scaled."""
    name = "original_max_position_embeddings"
    default = c.integer(name, "max_position_embeddings", high=1 << 30)
    return rope.integer(name, default=default, high=1 << 30)


def rotation(c: Fields, kind: str = "full_attention") -> Keys:
    """Rotary positions: base, rotated elements, scaling."""
    rope = rope_of(c, kind)
    rope_type = rope.text("rope_type")
    keys: Keys = {"rope.freq_base": rope.number("rope_theta", default=10000.0, low=1e-6)}
    keys["rope.dimension_count"] = rotated_elements(c, rope)
    if rope_type == "linear":
        keys |= {"rope.scaling.type": "linear", "rope.scaling.factor": rope.number("factor", low=1e-6)}
    elif rope_type == "yarn":
        factor = rope.number("factor", low=1e-6)
        keys |= {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": factor,
            "rope.scaling.original_context_length": original_context(c, rope),
            "rope.scaling.yarn_beta_fast": rope.number("beta_fast", default=32.0),
            "rope.scaling.yarn_beta_slow": rope.number("beta_slow", default=1.0),
        }
        if not rope.flag("truncate", True):
            keys["rope.scaling.yarn_truncate"] = False
        magnitude = rope.number("attention_factor", default=None)
        if magnitude is None:
            scale, divisor = rope.number("mscale", default=0.0), rope.number("mscale_all_dim", default=0.0)
            both = scale and divisor
            magnitude = yarn_factor(factor, scale) / yarn_factor(factor, divisor) if both else yarn_factor(factor)
        if not math.isclose(magnitude, yarn_factor(factor)):  # which ggml_rope_ext multiplies by itself
            keys["rope.scaling.attn_factor"] = magnitude / yarn_factor(factor)
    elif rope_type == "longrope":
        original = original_context(c, rope)
        factor = rope.number("factor", default=None) or c.integer("max_position_embeddings", high=1 << 30) / original
        magnitude = 1.0 if factor <= 1 or original < 2 else math.sqrt(1 + math.log(factor) / math.log(original))
        keys["rope.scaling.original_context_length"] = original
        keys["rope.scaling.attn_factor"] = rope.number("attention_factor", default=magnitude)
    elif rope_type not in UNSCALED:
        raise rope.wrong("rope_type", rope_type, "default, linear, dynamic, yarn, llama3 or longrope")
    return keys


# Dynamic: as usual within the context. The factors of the frequencies are a tensor, and the sections of M-RoPE a key.
UNSCALED = ("default", "dynamic", "llama3", "mrope", "proportional")


def rotated_elements(c: Fields, rope: Fields) -> int:
    """How many elements of a head are rotated."""
    return int(head_dim(c) * rope.number("partial_rotary_factor", default=1.0, high=1.0))


def yarn_factor(scale: float, strength: float = 1.0) -> float:
    """What YaRN (arXiv:2309.00071) multiplies q and k by."""
    return 1.0 if scale <= 1 else 0.1 * strength * math.log(scale) + 1.0


def frequency_factors(c: Fields, keys: Keys) -> dict[str, np.ndarray]:
    """Divisors of the frequencies, for Llama 3's scaling and for LongRoPE (arXiv:2402.13753)."""
    if "rope.dimension_count" not in keys:
        return {}
    rope, count = rope_of(c), keys["rope.dimension_count"] // 2
    kind = rope.text("rope_type")
    if kind == "longrope":
        return {
            f"rope_factors_{name}.weight": np.array(rope.array(f"{name}_factor", (int, float), count), np.float32)
            for name in ("long", "short")
        }
    if kind != "llama3":
        return {}
    base, factor = keys["rope.freq_base"], rope.number("factor", low=1e-6)
    low, high = rope.number("low_freq_factor", low=1e-6), rope.number("high_freq_factor", low=1e-6)
    if high <= low:
        raise rope.wrong("high_freq_factor", high, f"more than 'low_freq_factor', {low:g}")
    wavelengths = 2 * np.pi * base ** (np.arange(count) / count)
    smooth = np.clip((original_context(c, rope) / wavelengths - low) / (high - low), 0, 1)
    return {"rope_freqs.weight": (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)}


def window(c: Fields, every: int) -> Keys:
    """A sliding window in all layers but every n-th, or in those that the settings list."""
    n = c.integer("num_hidden_layers", high=4096)
    keys: Keys = {"attention.sliding_window": c.integer("sliding_window", high=1 << 30)}
    kinds = c.array("layer_types", str, n, default=None)
    if kinds is None:
        every = c.integer("sliding_window_pattern", "_sliding_window_pattern", default=every, high=4096)
        return keys | {"attention.sliding_window_pattern": [(i + 1) % every != 0 for i in range(n)]}
    for kind in kinds:
        if kind not in ("sliding_attention", "full_attention"):
            raise c.wrong("layer_types", kind, "'sliding_attention' or 'full_attention'")
    return keys | {"attention.sliding_window_pattern": [kind == "sliding_attention" for kind in kinds]}
