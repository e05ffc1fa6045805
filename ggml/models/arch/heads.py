"""What follows the pooling of a text: a classifier, or the dense layers of sentence-transformers.

Shapes are in ggml order: x [C, M] has the pooled states of M texts. A classifier has the tensors cls and cls.output,
either of which may be missing, and perhaps cls.norm; the dense layers are dense_2 and dense_3.
"""

from __future__ import annotations

from typing import Any

import ggml

from ..files.config import Config

DENSE = ("dense_2", "dense_3")
CLASSES = ("cls", "cls.output")  # a hidden layer and the classes; a file with one of them has the classes in it
YES_NO = ("yes", "no")


def rows_of(weights: Any, name: str) -> int:
    """The number of rows of a matrix."""
    return weights[name + ".weight"].contents.ne[1]


def has_classes(weights: Any) -> bool:
    return any(name + ".weight" in weights for name in CLASSES)


def has_dense(weights: Any) -> bool:
    return any(name + ".weight" in weights for name in DENSE)


def pooled_by(config: Config) -> str:
    """Which token's state a classifier reads, or "mean" of all."""
    return "mean" if config.arch == "modern-bert" else "last" if config.causal else "cls"


def pooling_of(config: Config) -> str:
    """What makes an embedding of the tokens' states where nobody says otherwise: "mean", "cls" or "last"."""
    return {"none": "mean", "rank": pooled_by(config)}.get(config.pooling, config.pooling)


def matrices(weights: Any) -> list[str]:
    """The names of the matrices of heads that the file has."""
    return [name for name in (*CLASSES, *DENSE) if name + ".weight" in weights]


def n_classes(weights: Any) -> int:
    """The number of classes."""
    return rows_of(weights, next(name for name in reversed(CLASSES) if name + ".weight" in weights))


def classes(g: Any, x: Any) -> Any:
    """The scores of the classes, [classes, M]; of the classes "yes" and "no" their probabilities."""
    y = scores(g, x)
    return ggml.ggml_soft_max(g.ctx, y) if g.config.labels == YES_NO else y


def scores(g: Any, x: Any) -> Any:
    """The scores of the classes, [classes, M]."""
    c, n = g.config, len(g.config.labels)
    *before, last = (name for name in CLASSES if g.has(name + ".weight"))
    for name in before:
        x = g.linear(x, name, rows_of(g.weights, name))
        x = ggml.ggml_gelu_erf(g.ctx, x) if c.arch == "modern-bert" else ggml.ggml_tanh(g.ctx, x)
        if g.has("cls.norm.weight"):
            x = g.layer_norm(x, "cls.norm")
    return g.linear(x, last, n or rows_of(g.weights, last))


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
