"""Fine-tuning: trains low-rank adapters (LoRA, arXiv:2106.09685) beside the weights of a model, which stay as they are."""

from __future__ import annotations

import fnmatch
import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ._compute import Computing
from ._step import Parts
from ._train_data import Row, chat_example, divide, examples_of, rows
from ._train_graph import Adapter, Trainer
from ._train_state import load_state, save_adapter, save_state

CHECKPOINT_FROM = 1024  # tokens of a row from which on activations are computed again by default
Path = str | os.PathLike[str]


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


class Options(NamedTuple):
    """The numbers of a fine-tuning, checked."""

    rank: int
    alpha: float
    steps: int
    rate: float
    decay: float
    clip: float
    accumulate: int
    tokens: int
    validate_every: int
    seed: int


class Finetuning(Computing):
    """The method of Model that trains adapters."""

    def finetune(
        self,
        data: Any,
        lora: Path,
        *,
        rank: int = 8,
        alpha: float | None = None,
        targets: str | Sequence[str] = ("blk.*.attn_*", "blk.*.ffn_*"),
        steps: int = 100,
        rate: float = 1e-3,
        decay: float = 0.0,
        clip: float = 1.0,
        accumulate: int = 1,
        tokens: int = 512,
        validation: Any = 0.1,
        validate_every: int | None = None,
        seed: int = 0,
        checkpoint: bool | None = None,
        state: Path | None = None,
        resume: bool = False,
        callbacks: Callable[[FinetuneStep], Any] | Iterable[Callable[[FinetuneStep], Any]] = (),
        progress: bool = False,
        plot: Path | None = None,
    ) -> FinetuneResult:
        """Trains an adapter and writes it to a file, which `load(..., lora=)`, `set_lora` and llama.cpp read.

        The weights stay as they are, quantised or not; beside each chosen matrix W an f32 pair is trained, so that
        W x + alpha / rank B (A x) takes the place of W x. Adapters that the model has already are used and kept.

        Args:
            data: a text (str, bytes or token ids), or a list of texts, or a list of conversations, each a list of
                {"role", "content"} messages, of which the answers are learned.
            lora: the GGUF file to write; it is written at each validation and at the end.
            rank: columns of the pairs, 1 to 1,024.
            alpha: scale of the pairs; None for 2 rank.
            targets: patterns (fnmatch) of the names of the matrices beside which pairs are trained.
            steps: steps of AdamW.
            rate: learning rate of the first step, from which it falls to 0 by half a cosine.
            decay: weight decay, 0 to 1.
            clip: the gradients are scaled down to this norm if theirs is larger; 0 for no limit.
            accumulate: rows of tokens in a step, whose gradients are summed.
            tokens: tokens of a row, at most n_ctx; short texts share a row without seeing each other.
            validation: share of the data, at its end, that is not trained on and measures the loss; or data of its
                own, of the same kinds; 0 for none.
            validate_every: steps between two validations; None for a tenth of all steps.
            seed: seed of the pairs' first values and of the order of the rows.
            checkpoint: True to keep the activations of one layer at a time and compute the others again, which takes
                less memory and more time; None to do so from 1,024 tokens a row on.
            state: file for the state of the training (NumPy's npz), written when the adapter is.
            resume: True to go on from the state file, with the same data and settings; steps and rate may differ.
            callbacks: a function or several, called with a FinetuneStep after each step; training ends after the step
                for which one returns True. They can't call the model's methods.
            progress: True for a progress bar on standard error (tqdm, extra `[llm]`).
            plot: picture of the losses to write at the end (matplotlib, extra `[demo]`).
        Returns:
            FinetuneResult.
        Raises:
            TypeError: data or another argument is of the wrong kind.
            ValueError: an argument is out of range, there are too few tokens, no matrix fits targets, the state file
                belongs to another training, or the loss is not finite.
            OSError: a file cannot be read or written.
            RuntimeError: the model is closed.
            ImportError: a package for progress or plot is missing.
        """
        if plot is not None:
            from ..training import check_picture

            check_picture(plot)
        with self._lock:
            self._causal_cache("finetune")
            options = self._finetune_options(
                rank, alpha, steps, rate, decay, clip, accumulate, tokens, validate_every, seed
            )  # fmt: skip
            if resume and state is None:
                raise ValueError("finetune: resume needs the state file")
            train, held_out = self._finetune_rows(data, validation, options.tokens)
            calls = (callbacks,) if callable(callbacks) else tuple(callbacks)
            shapes = self._finetune_shapes(targets)
            with ExitStack() as stack:
                adapter = Adapter(shapes, options.rank, options.alpha, options.seed, self._threads)
                stack.callback(adapter.close)
                parts = Parts(self.config, self._weights, self._parts().adapters, {}, frozenset())
                length = options.tokens
                again = length >= CHECKPOINT_FROM if checkpoint is None else checkpoint
                trainer = Trainer(parts, adapter, length, again, self._threads)
                stack.callback(trainer.close)
                run = Run(trainer, adapter, self.config.arch, options, train, held_out, lora, state)
                if resume:
                    run.resume()
                if progress:
                    calls += (stack.enter_context(progress_bar(run)),)
                self._computing = threading.get_ident()
                try:
                    run.train(calls)
                finally:
                    self._computing = None
        if plot is not None:
            draw(plot, run.result)
        return run.result

    def _finetune_options(self, rank, alpha, steps, rate, decay, clip, accumulate, tokens, validate_every, seed):
        """The arguments of finetune as Options, after a check of each."""
        integers = {"rank": (rank, 1024), "steps": (steps, 1 << 30), "accumulate": (accumulate, 1 << 20),
                    "tokens": (tokens, self.n_ctx)}  # fmt: skip
        if validate_every is not None:
            integers["validate_every"] = validate_every, 1 << 30
        for name, (value, high) in integers.items():
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
                raise ValueError(f"finetune: {name} is {value!r}: need an integer from 1 to {high}")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 64:
            raise ValueError(f"finetune: seed is {seed!r}: need an integer from 0 to 2^64 - 1")
        alpha = 2 * rank if alpha is None else alpha
        numbers = {"alpha": (alpha, 1e-6, 1e6), "rate": (rate, 1e-12, 10), "decay": (decay, 0, 1),
                   "clip": (clip, 0, 1e9)}  # fmt: skip
        for name, (value, low, top) in numbers.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= top:
                raise ValueError(f"finetune: {name} is {value!r}: need a number from {low:g} to {top:g}")
        every = validate_every or max(1, steps // 10)
        return Options(rank, float(alpha), steps, rate, decay, clip, accumulate, tokens, every, seed)

    def _finetune_rows(self, data: Any, validation: Any, tokens: int) -> tuple[list[Row], list[Row]]:
        """The rows to train on, and those of the validation."""
        templates: list[Any] = []

        def chat(messages: Any) -> Any:
            if not templates:
                from ._chat import ChatTemplate

                templates.append(ChatTemplate(self.metadata, self.tokenizer))
            return chat_example(messages, templates[0], self.tokenizer)

        def examples(source: Any) -> Any:
            found = examples_of(source, lambda text: self._ids("finetune", text), chat)
            for example in found:
                self._ids("finetune", example.ids)
            return found

        train = examples(data)
        if isinstance(validation, (int, float)):
            if not 0 <= validation < 1:
                raise ValueError(f"finetune: validation is {validation!r}: need a share from 0 to below 1, or data")
            train, held_out = divide(train, validation)
        else:
            held_out = examples(validation)
        made = rows(train, tokens), rows(held_out, tokens)
        if not made[0]:
            raise ValueError("finetune: there is nothing to train on")
        return made

    def _finetune_shapes(self, targets: str | Sequence[str]) -> dict[str, tuple[int, int, int]]:
        """The shapes (n_in, n_out, experts) of the matrices that get a pair."""
        patterns = (targets,) if isinstance(targets, str) else tuple(targets)
        names = [point.removesuffix(".in") for point in self._points if point.endswith(".in")]
        names = [n for n in names if n.startswith("blk.") and not n.endswith("ffn_gate_inp")]  # not routers of experts
        chosen = [n for n in names if any(fnmatch.fnmatchcase(n, pattern) for pattern in patterns)]
        if not chosen:
            raise ValueError(f"finetune: targets are {patterns}: they fit no matrix, such as {', '.join(names[:7])}")
        return {f"{n}.weight": tuple(self._weights[f"{n}.weight"].contents.ne[:3]) for n in chosen}


class Run:
    """The steps of a training."""

    def __init__(
        self, trainer: Trainer, adapter: Adapter, arch: str, options: Options, train: list[Row], held_out: list[Row],
        lora: Path, state: Path | None,
    ) -> None:  # fmt: skip
        self.trainer, self.adapter, self.arch, self.options = trainer, adapter, arch, options
        self.rows, self.held_out, self.lora, self.state = train, held_out, lora, state
        self.result = FinetuneResult(parameters=sum(a.size for n, a in adapter.arrays().items() if n[0:2] == "va"))

    def fingerprint(self) -> dict[str, Any]:
        """What a resumed training must have in common with the one before."""
        same = ("rank", "alpha", "accumulate", "tokens", "seed")
        crc = 0
        for row in self.rows:
            crc = crc32(row.targets.tobytes(), crc32(row.ids.tobytes(), crc))
        return {"arch": self.arch} | {name: getattr(self.options, name) for name in same} | {"checksum of the data": crc}

    def save(self) -> None:
        """Writes the adapter, and the state if it has a file."""
        save_adapter(self.lora, self.arch, self.adapter)
        if self.state is not None:
            save_state(self.state, self.adapter, self.fingerprint(), vars(self.result))

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

    def step_rows(self, step: int) -> list[Row]:
        """The rows of a step: an epoch takes each once, in an order of its own."""
        first, count = step * self.options.accumulate, len(self.rows)
        numbers = [divmod(i, count) for i in range(first, first + self.options.accumulate)]
        orders = {epoch: np.random.default_rng([self.options.seed, 1, epoch]).permutation(count) for epoch, _ in numbers}
        return [self.rows[orders[epoch][place]] for epoch, place in numbers]

    def validate(self) -> float | None:
        """The mean loss of the validation data; None if there is none."""
        total = sum(row.count for row in self.held_out)
        if not total:
            return None
        return sum(self.trainer.loss(row, total, gradients=False) for row in self.held_out)

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
            stopped = any([callback(report) is True for callback in callbacks])
        self.save()

    def step(self, rate: float) -> tuple[float, float]:
        """One step; returns its loss and the norm of its gradients."""
        batch = self.step_rows(self.result.steps)
        total = sum(row.count for row in batch)
        self.adapter.zero_gradients()
        loss = sum(self.trainer.loss(row, total) for row in batch)
        if not math.isfinite(loss):
            raise ValueError(f"finetune: the loss of step {self.result.steps + 1} is {loss}: try a lower rate")
        norm = self.adapter.step(rate, self.options.decay, self.options.clip)
        self.result.steps += 1
        self.result.tokens += sum(int((row.texts >= 0).sum()) for row in batch)
        self.result.losses.append(loss)
        return loss, norm


class progress_bar:
    """A context manager with a callback that drives a progress bar."""

    def __init__(self, run: Run) -> None:
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            raise ImportError("finetune: progress needs tqdm: pip install 'ggml-cython[llm]'") from None
        self._bar = tqdm(total=run.options.steps, initial=run.result.steps, unit=" steps", desc="finetune", disable=None)
        self._validation: dict[str, str] = {}

    def __enter__(self) -> Callable[[FinetuneStep], None]:
        return self.update

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def update(self, report: FinetuneStep) -> None:
        if report.validation is not None:
            self._validation = {"validation": f"{report.validation:.4f}"}
        self._bar.set_postfix(loss=f"{report.loss:.4f}", **self._validation, refresh=False)
        self._bar.update(report.step - self._bar.n)


def draw(path: Path, result: FinetuneResult) -> None:
    """Draws the losses of a training over its steps."""
    from ..training import picture

    def losses(axes: Any) -> None:
        axes.plot(range(1, len(result.losses) + 1), result.losses, label="training", alpha=0.6)
        if result.validation:
            axes.plot(*zip(*result.validation, strict=True), label="validation", marker=".")
        axes.set(xlabel="step", ylabel="loss (nats per token)")
        axes.legend()

    picture(path, "Fine-tuning", losses)
