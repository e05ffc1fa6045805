"""Models with a classifier behind them: names of classes, and rerankers that answer yes or no."""

from __future__ import annotations

import fnmatch
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .checkpoint import Checkpoint, optional
from .fields import Fields
from .parts import Keys, Part, Row
from .vocabulary import vocabulary

RANK = 4  # value of pooling_type
RERANKERS = ("Qwen3-Reranker",)  # what names of models contain that were trained to answer yes or no
ANSWERS = ("yes", "no")
# The prompt with which these were trained
PROMPT = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web '
    "search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>"
    "\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)


def labels(c: Fields) -> Keys:
    """The names of the classes, by id; none for a single class without a name of its own."""
    given = c.inside("id2label").values
    count = len(given) or c.integer("num_labels", default=2, high=1 << 16)
    names = [given.get(str(i), f"LABEL_{i}") for i in range(count)]
    if not all(isinstance(name, str) for name in names):
        raise c.wrong("id2label", given, "names")
    return {"pooling_type": RANK} | ({} if names == ["LABEL_0"] else {"classifier.output_labels": names})


def with_classes(row: Row, classes: str, names: dict[str, Any]) -> Row:
    """The row of models of the same architecture with a classifier, whose tensors have other `names`."""
    kept = tuple(old for old in row.dropped if not any(drops(old, name) for name in names))
    return replace(
        row,
        classes=classes,
        names=lambda c: {**row.names_of(c), **names},
        keys=lambda c: row.keys(c) | labels(c),
        dropped=kept,
    )


def drops(old: str, name: str) -> bool:
    """Whether a pattern leaves out the weight or the bias of a name."""
    return any(fnmatch.fnmatchcase(f"{name}.{kind}", old) for kind in ("weight", "bias"))


@dataclass
class Answers:
    """Rows of the output matrix: those of the tokens of the answers."""

    tokens: list[int]

    def __call__(self, c: Fields, rows: int) -> np.ndarray:
        if max(self.tokens) >= rows:
            raise ValueError(f"{rows} rows: the answers are tokens {self.tokens}")
        return np.array(self.tokens)


def reranker(checkpoint: Checkpoint, row: Row) -> Row:
    """The row of a model that answers yes or no: the rows of the output matrix for these words are its classifier."""
    if not is_reranker(checkpoint):
        return row
    tokens = vocabulary(checkpoint, 0).get("tokenizer.ggml.tokens", [])
    missing = [word for word in ANSWERS if word not in tokens]
    if missing:
        raise ValueError(f"convert: {checkpoint.folder}: a reranker whose vocabulary has no token {missing[0]!r}")
    names = row.names_of(checkpoint.config)
    part = Part("cls.output", Answers([tokens.index(word) for word in ANSWERS]))
    last = "lm_head" if any(name.endswith("lm_head.weight") for name in checkpoint.stored) else "embed_tokens"
    if checkpoint.config.flag("tie_word_embeddings", False):
        last = "embed_tokens"
    keys = {"pooling_type": RANK, "classifier.output_labels": list(ANSWERS)}
    return replace(
        row,
        names={**names, last: [names[last], part]},
        keys=lambda c: row.keys(c) | keys | {"tokenizer.chat_template.rerank": PROMPT},
    )


def is_reranker(checkpoint: Checkpoint) -> bool:
    """Whether the model is called one: by the name of the folder or the setting, or by the first lines about it."""
    about = (optional(checkpoint.folder, "README.md") or b"").decode(errors="replace")
    title = next((line for line in about.splitlines() if line.startswith("# ")), "")
    path = checkpoint.config.values.get("_name_or_path")
    return any(name in text for name in RERANKERS for text in
               (title, str(path or ""), os.path.basename(os.path.abspath(checkpoint.folder))))  # fmt: skip
