"""Fine-tuning: trains low-rank adapters (LoRA, arXiv:2106.09685) beside the weights of a model."""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from ..._errors import named
from ..._io.files import check_outputs
from ...training import _require_picture
from ..generate.images import Images, has_images
from ..generate.prompts import Prompts
from ..run.runner import Runner
from .adapter import Adapter
from .data import PairRow, Row, chat_example, divide, examples_of, pair_rows, pairs_of, rows, sizes_of
from .graph import Trainer
from .report import FinetuneResult, FinetuneStep, draw, progress_report
from .run import Options, Path, Run
from .unsaved import NotSaved

KINDS = ("attn_*", "cross_attn_*", "ffn_*", "ssm_*", "shortconv.*", "time_mix_*", "channel_mix_*")
TARGETS = tuple(f"{side}blk.*.{kind}" for side in ("", "enc.", "dec.") for kind in KINDS)
VALIDATION_ROWS = 8  # most rows of the data that measure the loss


@named("finetune")
def check_files(inputs: Iterable[Path], lora: Path, state: Path | None, resume: bool, plot: Path | None) -> None:
    """Raises before the training for files that could not be written after it, or that would replace an input."""
    if plot is not None:
        _require_picture("finetune", plot)
    check_outputs((lora, state, plot), inputs)
    if resume and state is None:
        raise ValueError("finetune: resume needs the state file")


def share(value: float) -> None:
    """Refuses a share of the data that is out of range."""
    if not 0 <= value < 1:
        raise ValueError(f"finetune: validation is {value!r}: need a share from 0 to below 1, or data")


class Finetuning:
    """Trains adapters; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts, images: Images) -> None:
        self.runner, self.prompts, self.images = runner, prompts, images

    def pairs(self, data: Any, validation: Any, tokens: int) -> tuple[list[PairRow], list[PairRow]]:
        """The rows to train on, and those of the validation, of a model with an encoder and a decoder."""

        def pairs(source: Any) -> list[tuple[list[int], list[int]]]:
            return pairs_of(source, lambda text: self.prompts.ids("finetune", text))

        train, held_out = pairs(data), []
        if isinstance(validation, (int, float)):
            share(validation)
            cut = max(1, round(len(train) * (1 - validation)))
            train, held_out = train[:cut], train[cut:]
        else:
            held_out = pairs(validation)
        if not train:
            raise ValueError("finetune: there is nothing to train on")
        sizes, start = sizes_of([*train, *held_out], tokens), self.runner.config.own["decoder_start"]
        made, measured = (pair_rows(some, sizes, start) for some in (train, held_out))
        if isinstance(validation, (int, float)):
            measured = measured[:: -(-len(measured) // VALIDATION_ROWS) or 1]
        return made, measured

    def rows(self, data: Any, validation: Any, tokens: int) -> tuple[list[Row], list[Row]]:
        """The rows to train on, and those of the validation."""
        templates: list[Any] = []

        def chat(messages: Any) -> Any:
            if not templates:
                from ..chat.template import ChatTemplate

                templates.append(ChatTemplate(self.runner.metadata, self.prompts.tokenizer))
            if has_images(messages):
                given = self.images.marked("finetune", messages, templates[0].render)
                return chat_example(messages, given, given)
            return chat_example(messages, templates[0], self.prompts.tokenizer)

        def examples(source: Any) -> Any:
            found = examples_of(source, lambda text: self.prompts.ids("finetune", text), chat)
            for example in found:
                self.prompts.ids("finetune", example.ids)
            return found

        train = examples(data)
        bos = self.runner.metadata.get("tokenizer.ggml.bos_token_id")
        if isinstance(validation, (int, float)):
            share(validation)
            train, held_out = divide(train, validation, bos)
        else:
            held_out = examples(validation)
        together = not (self.runner.memory and self.runner.memory.states)
        made, measured = (rows(examples, tokens, bos, together) for examples in (train, held_out))
        if not made:
            raise ValueError("finetune: there is nothing to train on")
        if isinstance(validation, (int, float)):
            measured = measured[:: -(-len(measured) // VALIDATION_ROWS) or 1]
        return made, measured

    def shapes(self, targets: str | Sequence[str]) -> dict[str, tuple[int, int, int]]:
        """The shapes (n_in, n_out, experts) of the matrices that get a pair."""
        patterns = (targets,) if isinstance(targets, str) else tuple(targets)
        names = [point.removesuffix(".in") for point in self.runner.points if point.endswith(".in")]
        # neither routers of experts nor the embedding, which models without an output matrix multiply with
        names = [n for n in names if not n.endswith("ffn_gate_inp") and n != "token_embd"]
        chosen = [n for n in names if any(fnmatch.fnmatchcase(n, pattern) for pattern in patterns)]
        if not chosen:
            raise ValueError(f"finetune: targets are {patterns}: they fit no matrix, such as {', '.join(names[:7])}")
        return {f"{n}.weight": tuple(self.runner.weights[f"{n}.weight"].contents.ne[:3]) for n in chosen}

    def finetune(
        self,
        data: Any,
        lora: Path,
        *,
        rank: int = 8,
        alpha: float | None = None,
        targets: str | Sequence[str] = TARGETS,
        steps: int = 100,
        rate: float = 1e-3,
        decay: float = 0.0,
        clip: float = 1.0,
        accumulate: int = 1,
        tokens: int | None = None,
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
        W x + alpha / rank B (A x) takes the place of W x. Adapters that the model has already are used and kept. Calls
        of the model in other threads wait for the end.

        Args:
            data: a text (str, bytes or token ids), or a list of texts, or a list of conversations, each a list of
                {"role", "content"} messages, of which the answers are learned. Messages may have pictures, as in
                `chat`, and ids those of image_tokens: the encoder stays as it is, and its embeddings are not learned.
                For a model with an encoder and a decoder a list of pairs of texts, what is read and what is written,
                or of conversations of one message and its answer.
            lora: the GGUF file to write; it is written at each validation and at the end.
            rank: columns of the pairs, 1 to 1,024.
            alpha: scale of the pairs; None for twice the rank.
            targets: patterns (fnmatch) of the names of the matrices beside which pairs are trained: those of layers,
                and "output" where the model has that matrix.
            steps: steps of AdamW.
            rate: learning rate of the first step, from which it falls to 0 by half a cosine.
            decay: weight decay, 0 to 1.
            clip: the gradients are scaled down to this norm if theirs is larger; 0 for no limit.
            accumulate: rows of tokens in a step, whose gradients are summed.
            tokens: tokens of a row, from 2 to n_ctx; None for 512 or n_ctx. Short texts share a row without seeing each
                other. Of pairs the most tokens of a text; each is a row.
            validation: share of the data, at its end, that is not trained on and measures the loss (at most 8 rows of
                it); or data of its own, of the same kinds, of which all is measured; 0 for none.
            validate_every: steps between two validations; None for a tenth of all steps, and 10 at least.
            seed: seed of the pairs' first values and of the order of the rows.
            checkpoint: True to keep the activations of one layer at a time and compute the others again, which takes
                less memory and more time; None to do so from 1,024 tokens a row on.
            state: file for the state of the training (NumPy's npz), written when the adapter is.
            resume: True to go on from the state file, with the same data and settings; steps and rate may differ.
            callbacks: a function or several, called with a FinetuneStep after each step; training ends after the step
                for which one returns True. They can't call the model's methods.
            progress: True to report on standard error: a progress bar on a terminal (tqdm, extra `[llm]`), elsewhere
                a line after each tenth of the steps.
            plot: picture of the losses to write at the end (matplotlib, extra `[profile]`).
        Returns:
            FinetuneResult.
        Raises:
            TypeError: data or another argument is of the wrong kind.
            ValueError: an argument is out of range, there are too few tokens, no matrix fits targets, the state file
                belongs to another training, or the loss is not finite.
            OSError: a file cannot be read or written, or the disk has no room for the files, before the training.
            NotSaved: an OSError after the training; its method save writes the files somewhere else.
            RuntimeError: the model is closed.
            ImportError: a package for progress or plot is missing.
        """
        parts_of_the_file = {path for path, _ in self.runner.file.places.values()}
        check_files([self.runner.file.path, *parts_of_the_file], lora, state, resume, plot)
        calls = (callbacks,) if callable(callbacks) else tuple(callbacks)
        with self.runner.lock:
            self.runner.check_undivided("finetune")
            translates = self.runner.decodings is not None
            if not translates:
                self.runner.causal("finetune")
            options = Options(
                self.runner.n_ctx,
                rank,
                alpha,
                steps,
                rate,
                decay,
                clip,
                accumulate,
                tokens,
                validate_every,
                seed,
                checkpoint,
            )
            train, held_out = (self.pairs if translates else self.rows)(data, validation, options.tokens)
            size, written = (len(train[0].ids), len(train[0].targets)) if translates else (options.tokens, 0)
            shapes = self.shapes(targets)
            with ExitStack() as stack:
                adapter = Adapter(shapes, options.rank, options.alpha, options.seed, self.runner.threads)
                closing = stack.enter_context(ExitStack())
                closing.callback(adapter.close)
                parts = self.runner.parts(plain=True)
                pictures = any(row.pictures for row in (*train, *held_out))
                trainer = Trainer(parts, adapter, size, options.checkpoint, self.runner.threads, pictures, written)
                stack.callback(trainer.close)
                run = Run(trainer, adapter, self.runner.config.arch, options, train, held_out, lora, state)
                run.check_space()
                if resume:
                    run.resume()
                if progress:
                    calls += (stack.enter_context(progress_report(run.result, options.steps)),)
                self.runner.computing = threading.get_ident()
                try:
                    run.train(calls)
                except NotSaved:
                    closing.pop_all()  # the exception holds the adapter
                    raise
                finally:
                    self.runner.computing = None
        if plot is not None:
            draw(plot, run.result)
        return run.result
