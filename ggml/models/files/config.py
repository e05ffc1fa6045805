"""The sizes and settings of a model, read from the keys of its GGUF file and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

LARGEST_NUMBER, SMALLEST_DIVISOR = 1e12, 1e-6  # no factor is near them; their quotients are finite in 32 bits
LARGEST = 1 << 24  # of a dimension: no model is near it, and products of two stay far from overflow


class Keys:
    """Reads the keys `ARCH.name` of a file. Errors name the file and the key."""

    def __init__(self, metadata: Mapping[str, Any], arch: str, path: str) -> None:
        self.metadata, self.arch, self.path = metadata, arch, path

    def value(self, name: str, default: Any = None) -> Any:
        key = f"{self.arch}.{name}"
        if key not in self.metadata:
            if default is None:
                raise ValueError(f"load: {self.path}: key {key!r} is missing")
            return default
        return self.metadata[key]

    def has(self, name: str) -> bool:
        """Whether the file has a key."""
        key = f"{self.arch}.{name}"
        return key in self.metadata

    def integer(self, name: str, default: int | None = None, low: int = 1, high: int = LARGEST) -> int:
        """An integer in a range; of an array with equal values (one for each layer), that value."""
        value = self.value(name, default)
        if isinstance(value, list) and value and all(v == value[0] for v in value):
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(
                f"load: {self.path}: key '{self.arch}.{name}' is {str(value)[:60]}: "
                f"need an integer from {low} to {high}"
            )
        return value

    def integers(
        self, name: str, count: int, default: int | None = None, low: int = 1, high: int = LARGEST
    ) -> tuple[int, ...]:
        """Integers in a range, one for each of `count` layers: an array, or one value for all."""
        value = self.value(name, default)
        if not isinstance(value, list):
            return (self.integer(name, default, high=high),) * count
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in value)
        if len(value) != count or not whole or not low <= min(value) <= max(value) <= high:
            raise ValueError(
                f"load: {self.path}: key '{self.arch}.{name}' is {str(value)[:60]}: "
                f"need {count} integers from {low} to {high}, or one"
            )
        return tuple(value)

    def number(self, name: str, default: float | None = None, low: float = 0.0, high: float = LARGEST_NUMBER) -> float:
        """A number in a range, which excludes NaN and infinities."""
        value = self.value(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise ValueError(
                f"load: {self.path}: key '{self.arch}.{name}' is {str(value)[:60]}: "
                f"need a number from {low:g} to {high:g}"
            )
        return float(value)

    def numbers(self, name: str, count: int, default: float) -> tuple[float, ...]:
        """Numbers, one for each of `count` layers: an array, or a default for all."""
        value = self.value(name, default)
        if value is default:
            return (default,) * count
        plain = isinstance(value, list) and all(isinstance(v, float) and not math.isnan(v) for v in value)
        if not plain or len(value) != count:
            raise ValueError(f"load: {self.path}: key '{self.arch}.{name}' is {str(value)[:60]}: need {count} numbers")
        return tuple(value)

    def divisor(self, name: str, default: float = 0.0) -> float:
        """A positive number by which something is divided, or 0 for none."""
        return self.number(name, default, 0.0 if self.value(name, default) == 0 else SMALLEST_DIVISOR)

    def flag(self, name: str, default: bool) -> bool:
        value = self.value(name, default)
        if not isinstance(value, bool):
            raise ValueError(f"load: {self.path}: key '{self.arch}.{name}' is {str(value)[:60]}: need a bool")
        return value

    def text(self, name: str, default: str) -> str:
        value = self.value(name, default)
        if not isinstance(value, str):
            raise ValueError(f"load: {self.path}: key '{self.arch}.{name}' is {str(value)[:60]}: need a string")
        return value


@dataclass(frozen=True)
class Rope:
    """The parameters of ggml_rope_ext after n_dims and mode, in its order."""

    n_ctx_orig: int
    freq_base: float
    freq_scale: float
    ext_factor: float
    attn_factor: float
    beta_fast: float
    beta_slow: float

    def arguments(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())


@dataclass(frozen=True)
class Config:
    """Sizes and settings of a model; names as in llama.cpp where it has one."""

    arch: str
    n_layer: int
    n_ctx_train: int
    n_embd: int
    n_vocab: int
    n_ff: int
    n_head: int
    n_head_kv: int
    key_dim: int  # elements of a head of queries and keys
    value_dim: int  # elements of a head of values
    n_rot: int  # elements of a head that are rotated
    rope_mode: int | None  # GGML_ROPE_TYPE_*, or None without rotary positions
    eps: float  # of the norms
    rope: Rope
    rope_local: Rope  # in layers with a sliding window
    scaled_local: bool  # the scaling of positions counts in these layers too
    window: int  # tokens that a query sees in layers with a sliding window; 0 if there are none
    local: tuple[bool, ...]  # for each layer whether it has the sliding window
    attn_softcap: float  # limit of the attention scores, 0 for none
    final_softcap: float  # limit of the logits, 0 for none
    n_expert: int
    n_expert_used: int
    expert_scale: float  # factor of the experts' weights
    yarn_truncate: bool  # YaRN's first and last dimension that are interpolated are whole numbers
    pooling: str  # "mean", "cls", "last", "rank" of a classifier, or "none" if the file does not say
    causal: bool  # tokens see those before them; else the whole text
    logits: bool  # the model predicts tokens; else it gives embeddings only
    labels: tuple[str, ...] = ()  # of the classes that the model tells apart
    n_streams: int = 1  # the residual stream has so many times C elements
    n_ctx: int = 0  # most tokens of a sequence, as `load` was told
    sections: tuple[int, ...] = ()  # pairs of a head that each of four positions rotates; () if tokens have one
    n_deepstack: int = 0  # so many layers add further vectors of a picture's tokens
    attends: tuple[bool, ...] = ()  # for each layer whether it has attention
    feeds: tuple[bool, ...] = ()  # for each layer whether it has a feed-forward part
    chunked: bool = False  # in place of a sliding window, texts are divided into chunks of `window` tokens
    n_further: int = 0  # layers behind the n_layer that predict further tokens
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)  # what the architecture's `keys` read beside these

    @property
    def n_input(self) -> int:
        """Elements of what stands for a token of a picture: its embedding, and what layers add."""
        return self.n_embd * (1 + self.n_deepstack)

    @property
    def whole_pictures_in_windows(self) -> bool:
        """Whether tokens of a picture that see each other do so in layers with a sliding window alone."""
        return "whole_pictures" in self.own


POOLING = {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}


def read_config(metadata: Mapping[str, Any], arch: str, n_vocab: int, path: str, family: Any) -> Config:
    """The settings of the model in a file.

    Args:
        metadata: the file's keys.
        arch: value of general.architecture.
        n_vocab: rows of the embedding.
        path: name of the file, for messages.
        family: row of the table of architectures; it says what differs where a file has no key.
    Returns:
        Config.
    Raises:
        ValueError: a key is missing or its value is not allowed; the message names it.
    """
    k = Keys(metadata, arch, path)
    n_all, n_embd = k.integer("block_count", high=4096), k.integer("embedding_length")
    n_further = k.integer("nextn_predict_layers", 0, low=0, high=n_all - 1)
    n_layer = n_all - n_further
    n_head, n_head_kv, attends, n_ff, feeds = 1, 1, (False,) * n_layer, n_embd, (False,) * n_layer
    if family.attention:
        n_head = k.integer("attention.head_count", high=65536)
        all_heads = k.integers("attention.head_count_kv", n_all, n_head, low=0, high=65536)
        n_head_kv, attends = max(1, *all_heads), tuple(n > 0 for n in all_heads[:n_layer])  # layers may have fewer
        all_ff = k.integers("feed_forward_length", n_all, 4 * n_embd, low=0)
        n_ff, feeds = max(1, *all_ff), tuple(n > 0 for n in all_ff[:n_layer])
    if n_head % n_head_kv:
        raise ValueError(
            f"load: {path}: key '{arch}.attention.head_count_kv' is {n_head_kv}: need a divisor of the {n_head} heads"
        )
    key_dim = k.integer("attention.key_length", n_embd // n_head or 1, high=65536)
    n_rot = k.integer("rope.dimension_count", key_dim, low=2, high=key_dim) if family.rope is not None else 0
    if n_rot % 2:
        raise ValueError(f"load: {path}: key '{arch}.rope.dimension_count' is {n_rot}: need an even number")
    rope, rope_local = _ropes(k, family)
    causal = k.flag("attention.causal", family.causal)
    n_expert = k.integer("expert_count", 0, low=0, high=65536)
    pooling = k.integer("pooling_type", 0, low=0, high=4)
    if pooling not in POOLING:
        raise ValueError(f"load: {path}: key '{arch}.pooling_type' is {pooling}: need one of {sorted(POOLING)}")
    window = k.integer("attention.sliding_window", family.window, low=0, high=1 << 30) if family.window_pattern else 0
    config = Config(
        arch=arch,
        n_layer=n_layer,
        n_ctx_train=k.integer("context_length", high=1 << 30),
        n_embd=n_embd,
        n_vocab=n_vocab,
        n_ff=n_ff,
        n_head=n_head,
        n_head_kv=n_head_kv,
        key_dim=key_dim,
        value_dim=k.integer("attention.value_length", key_dim, high=65536),
        n_rot=n_rot,
        rope_mode=family.rope,
        eps=k.number(_epsilon(k, family.rms), high=1.0),
        rope=rope,
        rope_local=rope_local,
        scaled_local=_scaled_local(family),
        window=window,
        local=_local_layers(k, n_layer, family.window_pattern) if window else (False,) * n_layer,
        attn_softcap=k.divisor("attn_logit_softcapping", family.attn_softcap),
        final_softcap=k.divisor("final_logit_softcapping", family.final_softcap),
        n_expert=n_expert,
        n_expert_used=k.integer("expert_used_count", high=n_expert) if n_expert else 0,
        expert_scale=k.number("expert_weights_scale", 1.0) or 1.0,
        yarn_truncate=k.flag("rope.scaling.yarn_truncate", True),
        pooling=POOLING[pooling],
        causal=causal,
        logits=causal and family.logits,
        attends=attends,
        feeds=feeds,
        n_further=n_further,
        labels=_labels(k),
    )
    return with_own_keys(config, dict(family.module.keys(k))) if hasattr(family.module, "keys") else config


def _labels(k: Keys) -> tuple[str, ...]:
    """The names of the classes; none where the file has no key."""
    labels = k.value("classifier.output_labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError(
            f"load: {k.path}: key '{k.arch}.classifier.output_labels' is {str(labels)[:60]}: need an array of strings"
        )
    return tuple(labels)


def with_own_keys(config: Config, own: dict[str, Any]) -> Config:
    """A config with what an architecture read: values of fields replace those, others are in `own`."""
    known = {name: own.pop(name) for name in {f.name for f in fields(Config)} & own.keys()}
    return replace(config, **known, own=own)


def _epsilon(k: Keys, rms: bool) -> str:
    """The key of the norms' epsilon; some files have only that of the other kind of norm."""
    names = ["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"][:: 1 if rms else -1]
    return next(filter(k.has, names), names[0])


def _local_layers(k: Keys, n_layer: int, default: int) -> tuple[bool, ...]:
    """Which layers have the sliding window: all but every n-th, or as an array of the file says."""
    pattern = k.value("attention.sliding_window_pattern", default)
    if isinstance(pattern, list):
        if len(pattern) < n_layer:
            raise ValueError(
                f"load: {k.path}: key '{k.arch}.attention.sliding_window_pattern' has {len(pattern)} values: "
                f"need one for each of {n_layer} layers"
            )
        return tuple(bool(value) for value in pattern[:n_layer])
    every = k.integer("attention.sliding_window_pattern", default, high=4096)
    return tuple((i + 1) % every != 0 for i in range(n_layer))


def _ropes(k: Keys, family: Any) -> tuple[Rope, Rope]:
    """The rotary positions of global layers, and of layers with a sliding window."""
    base = k.number("rope.freq_base", 10000.0, SMALLEST_DIVISOR)
    kind = k.text("rope.scaling.type", "linear")
    factor = k.divisor("rope.scaling.factor") or k.divisor("rope.scale_linear") or 1.0
    if kind not in ("none", "linear", "yarn"):
        raise ValueError(f"load: {k.path}: key '{k.arch}.rope.scaling.type' is {kind!r}: need none, linear or yarn")
    yarn = kind == "yarn"
    n_ctx_orig = k.integer(
        "rope.scaling.original_context_length", k.integer("context_length", high=1 << 30), high=1 << 30
    )
    rope = Rope(
        n_ctx_orig=n_ctx_orig,
        freq_base=base,
        freq_scale=1.0 if kind == "none" else 1.0 / factor,
        ext_factor=1.0 if yarn else 0.0,
        attn_factor=k.number("rope.scaling.attn_factor", 1.0),
        beta_fast=k.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=k.number("rope.scaling.yarn_beta_slow", 1.0),
    )
    local_base = k.number("rope.freq_base_swa", family.rope_base_local or base, SMALLEST_DIVISOR)
    return rope, rope if _scaled_local(family) else Rope(n_ctx_orig, local_base, 1.0, 0.0, 1.0, 32.0, 1.0)


def _scaled_local(family: Any) -> bool:
    """Whether layers with a sliding window scale their positions as the others do."""
    return family.scaled_local and not family.rope_base_local
