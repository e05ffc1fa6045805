"""Adapters for tasks in the folder of their model, as the authors of jina-embeddings-v3 save them.

Beside each matrix W, whose name ends in `parametrizations.weight.original`, lie the pairs of all tasks, lora_A and
lora_B [tasks, ...]. Of a product the matrix is W + alpha / rank B A, of a table of embeddings W + alpha / rank A B.
"""

from __future__ import annotations

import fnmatch
import os

import numpy as np

from .checkpoint import Checkpoint
from .peft import TABLE, write_adapter
from .plan import ADAPTED, NUMBER, bare, row_of, targets_of

HALVES = tuple(f"{ADAPTED}.0.lora_{half}" for half in "AB")
TABLES = (TABLE, "token_types.weight")


def from_task(folder: str | os.PathLike[str], out: str, task: str) -> None:
    """Writes the adapter of a task; see convert."""
    checkpoint = Checkpoint(folder)
    try:
        row, c = row_of(checkpoint), checkpoint.config
        tasks = c.array("lora_adaptations", str, default=[])
        if task not in tasks:
            known = ", ".join(map(repr, tasks)) or "a folder with adapters for tasks (lora_adaptations)"
            raise ValueError(f"convert: {checkpoint.folder}: task is {task!r}: need {known}")
        tensors: dict[str, np.ndarray] = {}
        for name in checkpoint.stored:
            if not name.endswith(HALVES[0]):
                continue
            inner = bare(name.removesuffix(HALVES[0]) + ".weight")
            if any(fnmatch.fnmatchcase(NUMBER.sub("{}", inner), old) for old in row.dropped):
                continue
            targets = targets_of(row.names_of(c), inner)
            if len(targets) != 1 or targets[0][0].rows is not None:
                raise ValueError(f"convert: {checkpoint.folder}: {inner!r} is no matrix that can have an adapter")
            new = targets[0][1]
            a, b = (half_of(checkpoint, name.removesuffix(HALVES[0]) + half, tasks, task) for half in HALVES)
            rank = len(b) if new in TABLES else len(a)
            if rank != c.integer("lora_rank", high=65536) or rank != (a if new in TABLES else b).shape[1]:
                raise ValueError(f"convert: {checkpoint.folder}: {inner!r} has pairs {a.shape} and {b.shape}: "
                                 f"need those of lora_rank {c.values['lora_rank']}")  # fmt: skip
            if new == TABLE:  # whose adapters are transposed in files
                b = b.T
            elif new in TABLES:
                a, b = b, a
            tensors[f"{new}.lora_a"], tensors[f"{new}.lora_b"] = a, b
        if not tensors:
            raise ValueError(f"convert: {checkpoint.folder}: no tensor is the adapter of a task")
        write_adapter(out, row.arch, c.number("lora_alpha", low=1e-9), tensors)
    finally:
        checkpoint.close()


def half_of(checkpoint: Checkpoint, name: str, tasks: list[str], task: str) -> np.ndarray:
    """One matrix of the pair of a task, f32."""
    stored = checkpoint.stored.get(name)
    if stored is None or len(stored.shape) != 3 or stored.shape[0] != len(tasks):
        given = "is missing" if stored is None else f"is {list(stored.shape)}"
        raise ValueError(f"convert: {checkpoint.folder}: tensor {name!r} {given}: need one of {len(tasks)} matrices")
    return checkpoint.floats(stored)[tasks.index(task)]
