"""The course of a fine-tuning: its options and its steps."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .adapter import Adapter
from .graph import AnyRow, Trainer
from .report import FinetuneResult, FinetuneStep
from .state import load_state, save_adapter, save_state, sizes
from .unsaved import NotSaved, check_space

CHECKPOINT_FROM = 1024  # tokens of a row from which on activations are computed again by default
Path = str | os.PathLike[str]


@dataclass
class Options:
    """The numbers among the arguments of Model.finetune. They are checked, and None gives way to the defaults."""

    n_ctx: int
    rank: int
    alpha: Any
    steps: int
    rate: float
    decay: float
    clip: float
    accumulate: int
    tokens: Any
    validate_every: Any
    seed: int
    checkpoint: Any
    batch: Any = None
    temperature: Any = None

    def __post_init__(self) -> None:
        self.tokens = min(512, self.n_ctx) if self.tokens is None else self.tokens
        high = {"rank": 1024, "steps": 1 << 30, "accumulate": 1 << 20, "tokens": self.n_ctx, "validate_every": 1 << 30}
        self.validate_every = self._every() if self.validate_every is None else self.validate_every
        for name, top in high.items():
            self._integer(name, 2 if name == "tokens" else 1, top)
        self._integer("seed", 0, (1 << 64) - 1)
        self.alpha = 2.0 * self.rank if self.alpha is None else self.alpha
        for name, ends in {"alpha": (1e-6, 1e6), "rate": (1e-12, 10), "decay": (0, 1), "clip": (0, 1e9)}.items():
            self._number(name, *ends)
        if self.batch is not None:
            self._integer("batch", 1, 1 << 16)
        if self.temperature is not None:
            self._number("temperature", 1e-4, 1e4)

    def checkpoints(self, places: int) -> bool:
        """Whether activations of rows of so many places are computed again."""
        return places >= CHECKPOINT_FROM if self.checkpoint is None else bool(self.checkpoint)

    def _every(self) -> int:
        return max(10, self.steps // 10) if isinstance(self.steps, int) else 10

    def _integer(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"finetune: {name} is {value!r}: need an integer from {low} to {high}")

    def _number(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise ValueError(f"finetune: {name} is {value!r}: need a number from {low:g} to {high:g}")
        setattr(self, name, float(value))


def only(items: Sequence[Any]) -> Any:
    """The row of one item, which is that item."""
    (item,) = items
    return item


@dataclass
class Material:
    """What is trained on.

    Attributes:
        items: what an epoch takes in an order of its own; each has a method `checksum`.
        held_out: rows that measure the loss.
        group: items of a row.
        row: function that makes a row of items.
        settings: what a resumed training must have in common with the one before, beside options.
    """

    items: Sequence[Any]
    held_out: Sequence[AnyRow]
    group: int = 1
    row: Callable[[Sequence[Any]], AnyRow] = only
    settings: Mapping[str, Any] = field(default_factory=dict)


class Run:
    """The steps of a training."""

    def __init__(
        self, trainer: Trainer, adapter: Adapter, arch: str, options: Options, material: Material, lora: Path,
        state: Path | None,
    ) -> None:  # fmt: skip
        self.trainer, self.adapter, self.arch, self.options = trainer, adapter, arch, options
        self.material, self.lora, self.state = material, lora, state
        self.result = FinetuneResult(parameters=sum(a.size for n, a in adapter.arrays().items() if n[0:2] == "va"))

    def fingerprint(self) -> dict[str, Any]:
        """What a resumed training must have in common with the one before."""
        same = ("rank", "alpha", "accumulate", "tokens", "seed")
        crc = 0
        for item in self.material.items:
            crc = item.checksum(crc)
        settings = {name: getattr(self.options, name) for name in same} | dict(self.material.settings)
        return {"arch": self.arch, **settings, "checksum of the data": crc}

    def check_space(self) -> None:
        """Raises OSError unless the disk has room for the files, beside those of the last time that it replaces."""
        copies = 2 if self.options.validate_every < self.options.steps else 1
        lora, state = sizes(self.adapter, self.options.steps)
        files = [(self.lora, copies * lora)]
        if self.state is not None:
            files.append((self.state, copies * state))
        check_space(files)

    def write(self, lora: Path, state: Path | None) -> None:
        """Writes the adapter, and the state if it has a file. One that cannot be written does not keep the other."""
        try:
            save_adapter(lora, self.arch, self.adapter)
        finally:
            if state is not None:
                save_state(state, self.adapter, self.fingerprint(), vars(self.result))

    def save(self) -> None:
        """Writes the files after a validation: the training goes on where that fails, as the end is what counts."""
        try:
            self.write(self.lora, self.state)
        except OSError as error:
            text = f"finetune: {error.filename} cannot be written after step {self.result.steps}: "
            warnings.warn(text + str(error.strerror).removeprefix("finetune: "), stacklevel=2)

    def save_result(self) -> None:
        """Writes the files at the end.

        Raises:
            NotSaved: that failed. It holds the adapter.
        """
        try:
            self.write(self.lora, self.state)
        except OSError as error:
            raise NotSaved(error, self.result, self.write, self.adapter.close) from None

    def resume(self) -> None:
        """Reads the state."""
        assert self.state is not None
        done = load_state(self.state, self.adapter, self.fingerprint())
        self.result.steps, self.result.tokens = done["steps"], done["tokens"]
        self.result.losses = done["losses"]
        self.result.validation = [(step, loss) for step, loss in done["validation"]]
        if self.result.steps > self.options.steps:
            raise ValueError(
                f"finetune: {self.state} is after step {self.result.steps}: need more steps than {self.options.steps}"
            )

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return self.options.rate * (1 + math.cos(math.pi * step / self.options.steps)) / 2

    def step_rows(self, step: int) -> list[AnyRow]:
        """The rows of a step: an epoch takes each item once, in an order of its own."""
        material = self.material
        size, count = self.options.accumulate * material.group, len(material.items)
        numbers = [divmod(i, count) for i in range(step * size, (step + 1) * size)]
        orders = {
            epoch: np.random.default_rng([self.options.seed, 1, epoch]).permutation(count)
            for epoch in {epoch for epoch, _ in numbers}
        }
        items = [material.items[orders[epoch][place]] for epoch, place in numbers]
        return [material.row(items[i : i + material.group]) for i in range(0, size, material.group)]

    def validate(self) -> float | None:
        """The mean loss of the validation data; None if there is none."""
        held_out = self.material.held_out
        total = sum(row.n_targets for row in held_out)
        if not total:
            return None
        return sum(self.trainer.loss(row, total, gradients=False) for row in held_out)

    def train(self, callbacks: Sequence[Callable[[FinetuneStep], Any]]) -> None:
        """Does the steps that are left."""
        o, result = self.options, self.result
        if result.steps == 0 and (loss := self.validate()) is not None:
            result.validation.append((0, loss))
        stopped = False
        while result.steps < o.steps and not stopped:
            rate = self.rate(result.steps)
            loss, norm = self.step(rate)
            last = result.steps == o.steps
            validation = None
            if last or result.steps % o.validate_every == 0:
                validation = self.validate()
                if validation is not None:
                    result.validation.append((result.steps, validation))
                if not last:
                    self.save()
            report = FinetuneStep(result.steps, o.steps, loss, rate, norm, result.tokens, validation)
            answers = [callback(report) for callback in callbacks]
            stopped = True in answers
        self.save_result()

    def step(self, rate: float) -> tuple[float, float]:
        """One step; returns its loss and the norm of its gradients."""
        batch = self.step_rows(self.result.steps)
        total = sum(row.n_targets for row in batch)
        self.adapter.zero_gradients()
        loss = sum(self.trainer.loss(row, total) for row in batch)
        if not math.isfinite(loss):
            raise ValueError(f"finetune: the loss of step {self.result.steps + 1} is {loss}: "
                             "the matrices were not changed; try a lower rate")  # fmt: skip
        norm = self.adapter.step(rate, self.options.decay, self.options.clip)
        self.result.steps += 1
        self.result.tokens += sum(row.n_tokens for row in batch)
        self.result.losses.append(loss)
        return loss, norm
