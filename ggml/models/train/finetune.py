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
from ..arch import heads, text_of
from ..generate.images import Images, has_images
from ..generate.prompts import Prompts
from ..run.graphs import Parts
from ..run.runner import Runner
from .adapter import Adapter
from .data import PairRow, Row, chat_example, divide, examples_of, pair_rows, pairs_of, rows, sizes_of
from .graph import Trainer
from .pooled import Pooled
from .report import FinetuneResult, FinetuneStep, draw, progress_report
from .run import Material, Options, Path, Run
from .texts import Item, Text, Texts, are_texts, compared, labelled
from .unsaved import NotSaved

KINDS = ("attn_*", "cross_attn_*", "ffn_*", "ssm_*", "shortconv.*", "time_mix_*", "channel_mix_*")
TARGETS = (*(f"{side}blk.*.{kind}" for side in ("", "enc.", "dec.") for kind in KINDS), *heads.CLASSES)
VALIDATION_ROWS = 8  # most rows of the data that measure the loss
BATCH, TEMPERATURE = 16, 0.05  # of texts that are pooled


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


def some_of(rows: list[Any], validation: Any) -> list[Any]:
    """The rows that measure the loss: of a share of the data few, of data of its own all."""
    return rows[:: -(-len(rows) // VALIDATION_ROWS) or 1] if isinstance(validation, (int, float)) else rows


class Finetuning:
    """Trains adapters; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts, images: Images) -> None:
        self.runner, self.prompts, self.images = runner, prompts, images

    def divided(self, data: Any, validation: Any, read: Callable[[Any], list]) -> tuple[list, list]:
        """What is trained on and what is not, of what `read` makes of the data."""
        train, held_out = read(data), []
        if isinstance(validation, (int, float)):
            share(validation)
            cut = max(1, round(len(train) * (1 - validation)))
            train, held_out = train[:cut], train[cut:]
        else:
            held_out = read(validation)
        if not train:
            raise ValueError("finetune: there is nothing to train on")
        return train, held_out

    def pairs(self, data: Any, validation: Any, tokens: int) -> tuple[list[PairRow], list[PairRow]]:
        """The rows to train on, and those of the validation, of a model with an encoder and a decoder."""

        def pairs(source: Any) -> list[tuple[list[int], list[int]]]:
            return pairs_of(source, lambda text: self.prompts.ids("finetune", text))

        train, held_out = self.divided(data, validation, pairs)
        sizes, start = sizes_of([*train, *held_out], tokens), self.runner.config.own["decoder_start"]
        made, measured = (pair_rows(some, sizes, start) for some in (train, held_out))
        return made, some_of(measured, validation)

    def pools(self, data: Any) -> bool:
        """Whether the model is trained on whole texts, whose states are pooled: it has classes, or gives embeddings.

        Of a model that does both, that gives embeddings and writes, the data says which.
        """
        config = self.runner.config
        embeds = config.pooling in ("mean", "cls", "last") and isinstance(data, Sequence) and any(map(are_texts, data))
        return heads.has_classes(self.runner.weights) or not config.logits or embeds

    def items(self, source: Any) -> list[Item]:
        """The labelled texts, or the texts that belong together, in what a caller gives."""
        config, weights, prompts = self.runner.config, self.runner.weights, self.prompts

        def labelled_text(text: Any) -> Text:
            is_pair = isinstance(text, (tuple, list)) and len(text) == 2 and all(
                isinstance(part, (str, bytes)) for part in text
            )  # fmt: skip
            ids = self._plain_ids(prompts.answering(*text) if is_pair else text)
            return Text(ids, prompts.types(ids))

        def embedded_text(text: Any) -> Text:
            ids = text_of(config, self._plain_ids(text))
            return Text(ids, [0] * len(ids))

        if heads.has_classes(weights):
            return labelled(source, labelled_text, heads.n_classes(weights), config.labels)
        return compared(source, embedded_text)

    def _plain_ids(self, text: Any) -> list[int]:
        """The tokens of a text without pictures."""
        ids = self.prompts.ids("finetune", text)
        if min(ids) < 0:
            raise ValueError("finetune: the tokens have embeddings of pictures: need texts, or token ids")
        return ids

    def texts(self, data: Any, validation: Any, options: Options) -> tuple[Texts, Material]:
        """The whole texts that are trained on."""
        train, held_out = self.divided(data, validation, self.items)
        texts = Texts(train, held_out, options.tokens, options.batch or BATCH, self.runner.n_ctx)
        measured = some_of(texts.rows(held_out), validation)
        if not texts.compares and options.temperature is not None:
            raise ValueError("finetune: temperature is given: it is of texts that are compared, not of classes")
        settings = {"batch": texts.group, "temperature": options.temperature}
        return texts, Material(train, measured, texts.group, texts.row, settings)

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
        return made, some_of(measured, validation)

    def shapes(self, targets: str | Sequence[str], pools: bool = False) -> dict[str, tuple[int, int, int]]:
        """The shapes (n_in, n_out, experts) of the matrices that get a pair; `pools`: see there."""
        patterns = (targets,) if isinstance(targets, str) else tuple(targets)
        names = [point.removesuffix(".in") for point in self.runner.points if point.endswith(".in")]
        if pools:  # the output matrix takes no part in the loss, the heads do
            names = [n for n in names if n != "output"] + self._heads()
        # neither routers of experts nor the embedding, which models without an output matrix multiply with
        names = [n for n in names if not n.endswith("ffn_gate_inp") and n != "token_embd"]
        chosen = [n for n in names if any(fnmatch.fnmatchcase(n, pattern) for pattern in patterns)]
        if not chosen:
            raise ValueError(f"finetune: targets are {patterns}: they fit no matrix, such as {', '.join(names[:7])}")
        return {f"{n}.weight": tuple(self.runner.weights[f"{n}.weight"].contents.ne[:3]) for n in chosen}

    def _heads(self) -> list[str]:
        """The matrices behind the pooling that are trained on whole texts."""
        weights = self.runner.weights
        return [name for name in heads.matrices(weights) if (name in heads.CLASSES) == heads.has_classes(weights)]

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
        batch: int | None = None,
        temperature: float | None = None,
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
                or of conversations of one message and its answer. For a model with classes (`classify`, `rank`) a list
                of (text, label), where the text may be a tuple of two texts, query and document; the label is the
                number or the name of a class, or where the model has one score, a number from 0 to 1. For a model of
                embeddings a list of texts that belong together, (query, document), or (query, document, wrong document,
                ...): the documents of a batch also count as wrong for its other queries.
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
                other. Of pairs and of whole texts the most tokens of a text.
            batch: for a model with classes or of embeddings: items of the data that are computed together, which are a
                row; None for 16.
            temperature: for a model of embeddings: number by which cosines are divided before their soft-max; None for
                0.05.
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
            pools = not translates and self.pools(data)
            if not pools and (batch is not None or temperature is not None):
                name = "temperature" if batch is None else "batch"
                raise ValueError(f"finetune: {name} is given: it is for models with classes or of embeddings")
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
                batch,
                temperature,
            )
            material, make = self._prepared(data, validation, options, translates, pools)
            shapes = self.shapes(targets, pools)
            with ExitStack() as stack:
                adapter = Adapter(shapes, options.rank, options.alpha, options.seed, self.runner.threads)
                closing = stack.enter_context(ExitStack())
                closing.callback(adapter.close)
                trainer = make(adapter)
                stack.callback(trainer.close)
                run = Run(trainer, adapter, self.runner.config.arch, options, material, lora, state)
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

    def _prepared(
        self, data: Any, validation: Any, options: Options, translates: bool, pools: bool
    ) -> tuple[Material, Callable[[Adapter], Trainer]]:
        """What is trained on, and what makes a Trainer for it."""
        parts, threads = self.runner.parts(plain=True), self.runner.threads
        if pools:
            texts, material = self.texts(data, validation, options)
            temperature = options.temperature or TEMPERATURE
            places = texts.places * texts.count

            def head(ctx: Any, parts: Parts, adapter: Adapter, threads: int) -> Pooled:
                return Pooled(ctx, parts, texts, temperature, adapter, threads)

            return material, lambda adapter: Trainer(
                parts, adapter, places, options.checkpoints(places), threads, texts=texts.count, head=head
            )
        train, held_out = (self.pairs if translates else self.rows)(data, validation, options.tokens)
        size, written = (len(train[0].ids), len(train[0].targets)) if translates else (options.tokens, 0)
        pictures = any(row.pictures for row in (*train, *held_out))
        checkpoint = options.checkpoints(options.tokens)
        return Material(train, held_out), lambda adapter: Trainer(
            parts, adapter, size, checkpoint, threads, pictures, written
        )
