"""What a fine-tuning reports: its steps, its result, progress, a picture."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..._extras import require
from ...training import picture


class FinetuneStep(NamedTuple):
    """What callbacks get after each step."""

    step: int  # number of the step, from 1
    steps: int  # number of all steps
    loss: float  # mean negative log-probability of the step's targets, before the step
    rate: float  # learning rate
    norm: float  # of the gradients, before they were limited
    tokens: int  # tokens that were trained on so far
    validation: float | None  # loss on the validation data, where it was computed after this step


@dataclass
class FinetuneResult:
    """What a fine-tuning did.

    Attributes:
        steps: steps that were done, also those before the training was resumed.
        tokens: tokens that were trained on.
        losses: loss of each step, before it.
        validation: (step, loss) pairs of the validation data; step 0 is before the training.
        parameters: trained numbers.
    """

    steps: int = 0
    tokens: int = 0
    losses: list[float] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)
    parameters: int = 0


@contextmanager
def progress_report(result: FinetuneResult, steps: int) -> Iterator[Callable[[FinetuneStep], None]]:
    """Yields a callback that reports on standard error: a bar on a terminal, elsewhere progress_lines.

    Args:
        result: what was done before.
        steps: number of all steps.
    """
    if not sys.stderr.isatty():
        yield progress_lines(steps)
        return
    require("finetune: ", ["tqdm"], "'ggml-cython[llm]'")
    from tqdm import tqdm

    shown: dict[str, str] = {}
    with tqdm(total=steps, initial=result.steps, unit="step", desc="finetune") as bar:

        def update(report: FinetuneStep) -> None:
            shown["loss"] = f"{report.loss:.4f}"
            if report.validation is not None:
                shown["validation"] = f"{report.validation:.4f}"
            bar.set_postfix(shown, refresh=False)
            bar.update(report.step - bar.n)

        yield update


def progress_lines(steps: int) -> Callable[[FinetuneStep], None]:
    """A callback that prints a line after each tenth of the steps and after each validation."""
    start, every = time.perf_counter(), max(1, steps // 10)
    losses: list[float] = []  # since the last line

    def update(report: FinetuneStep) -> None:
        losses.append(report.loss)
        if report.validation is None and report.step % every and report.step != steps:
            return
        line = f"finetune: step {report.step}/{steps}, loss {sum(losses) / len(losses):.4f}"
        if report.validation is not None:
            line += f", validation {report.validation:.4f}"
        print(f"{line}, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        losses.clear()

    return update


def draw(path: str | os.PathLike[str], result: FinetuneResult) -> None:
    """Draws the losses of a training over its steps."""

    def losses(axes: Any) -> None:
        axes.plot(range(1, len(result.losses) + 1), result.losses, label="training", alpha=0.6)
        if result.validation:
            axes.plot(*zip(*result.validation, strict=True), label="validation", marker=".")
        axes.set(xlabel="step", ylabel="loss (nats per token)")
        axes.legend()

    picture(path, "Fine-tuning", losses)
