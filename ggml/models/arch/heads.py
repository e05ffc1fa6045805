"""What follows the pooling of a text: a classifier, or the dense layers of sentence-transformers.

Shapes are in ggml order: x [C, M] has the pooled states of M texts. A classifier has the tensors cls and cls.output,
either of which may be missing, and perhaps cls.norm; the dense layers are dense_2 and dense_3.
"""

from __future__ import annotations

from typing import Any

import ggml

from ..files.config import Config

DENSE = ("dense_2", "dense_3")
YES_NO = ("yes", "no")


def rows_of(weights: Any, name: str) -> int:
    """The number of rows of a matrix."""
    return weights[name + ".weight"].contents.ne[1]


def has_classes(weights: Any) -> bool:
    return "cls.weight" in weights or "cls.output.weight" in weights


def has_dense(weights: Any) -> bool:
    return any(name + ".weight" in weights for name in DENSE)


def pooled_by(config: Config) -> str:
    """Which token's state a classifier reads, or "mean" of all."""
    return "mean" if config.arch == "modern-bert" else "last" if config.causal else "cls"


def classes(g: Any, x: Any) -> Any:
    """The scores of the classes, [classes, M]; of the classes "yes" and "no" their probabilities."""
    c, n = g.config, len(g.config.labels)
    last = "cls.output" if g.has("cls.output.weight") else "cls"
    if last == "cls.output" and g.has("cls.weight"):
        x = g.linear(x, "cls", rows_of(g.weights, "cls"))
        x = ggml.ggml_gelu_erf(g.ctx, x) if c.arch == "modern-bert" else ggml.ggml_tanh(g.ctx, x)
        if g.has("cls.norm.weight"):
            x = g.layer_norm(x, "cls.norm")
    y = g.linear(x, last, n or rows_of(g.weights, last))
    return ggml.ggml_soft_max(g.ctx, y) if c.labels == YES_NO else y


def dense(g: Any, x: Any) -> Any:
    """The dense layers that the file has, one after the other: [width of the last, M]."""
    for name in DENSE:
        if g.has(name + ".weight"):
            x = g.linear(x, name, rows_of(g.weights, name))
    return x


def build(g: Any, x: Any) -> list[Any]:
    """Every head that the file has, to check it."""
    heads = [(has_classes, classes), (has_dense, dense)]
    return [make(g, x) for has, make in heads if has(g.weights)]
