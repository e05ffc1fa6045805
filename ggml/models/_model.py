"""`Model`: a language model from a GGUF file."""

from __future__ import annotations

import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import ggml

from ._arch import FAMILIES
from ._cache import Cache, round_up
from ._config import Config, read_config
from ._file import ModelFile
from ._generate import Generation, check_options, stop_strings
from ._lora import Lora
from ._sampling import Filter, Sampler
from ._step import Parts, Shape, Step

STEP = 512  # most tokens that one graph takes
KEYS = 256  # the number of cells that attention reads is a multiple
KEPT_STEPS = 12  # prepared graphs
KEPT_BYTES = 64 << 20  # and their memory
DEFAULT_CTX = 4096
RESULT_FLOATS = 1 << 25  # most logits that one graph keeps


class Model:
    """A language model from a GGUF file. Made by `load`; use it in a `with` statement or call `close`.

    All methods may be called from several Python threads: calls on one model take turns, calls on different models run
    at the same time.

    Attributes:
        config: sizes and settings.
        metadata: the keys of the file as a mapping.
        n_ctx: most tokens of a sequence.
        n_seq: sequences that are decoded together.
        tokenizer: built from the file on first use.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_ctx: int | None = None,
        n_seq: int = 1,
        threads: int | None = None,
        kv_type: str = "f16",
        lora: Iterable[str | os.PathLike[str]] = (),
        mmap: bool = True,
    ) -> None:
        self._lock = threading.RLock()
        self._computing = self._closed = False
        self._steps: OrderedDict[Shape, Step] = OrderedDict()
        self._loras: list[Lora] = []
        self._edits: dict[str, list[Callable]] = {}
        self._trace: Trace | None = None
        self._cache: Cache | None = None
        self._tokenizer: Any = None
        self._threads = -1 if threads is None else threads
        self._file = ModelFile(path, mmap)
        try:
            self._open(n_ctx, n_seq, kv_type, lora)
        except BaseException:
            self.close()
            raise

    def _open(self, n_ctx: int | None, n_seq: int, kv_type: str, lora: Iterable[str | os.PathLike[str]]) -> None:
        path, self.metadata, self._weights = self._file.path, self._file.metadata, self._file.tensors
        arch = self.metadata.get("general.architecture")
        if arch not in FAMILIES:
            raise ValueError(f"load: {path}: architecture {arch!r}: need one of {', '.join(FAMILIES)}")
        self._family = FAMILIES[arch]
        if "token_embd.weight" not in self._weights:
            raise ValueError(f"load: {path}: tensor 'token_embd.weight' is missing")
        n_vocab = self._weights["token_embd.weight"].contents.ne[1]
        self.config: Config = read_config(self.metadata, arch, n_vocab, path, self._family)
        limit = self.config.n_ctx_train
        self.n_ctx = self._positive("n_ctx", min(limit, DEFAULT_CTX) if n_ctx is None else n_ctx, 1 << 24)
        self.n_seq = self._positive("n_seq", n_seq, 1 << 16)
        if self._threads != -1:
            self._positive("threads", self._threads, 512)
        if self.n_ctx > limit and self.config.rope_mode is None:
            raise ValueError(f"load: n_ctx is {self.n_ctx}: {path} has positions for {limit} tokens")
        if self.n_ctx > limit:
            warnings.warn(f"load: n_ctx is {self.n_ctx}: {path} was trained with {limit} tokens", stacklevel=4)
        if isinstance(lora, (str, os.PathLike)):
            raise TypeError(f"load: lora is {lora!r}: need a list of paths")
        self._loras = [Lora(item, self._weights, arch) for item in lora]
        if self._family.logits and self.config.causal:
            self._cache = Cache(self.config, self.n_ctx, self.n_seq, kv_type, min(STEP, self.n_ctx))
        self._owners: list[Generation | None] = [None] * self.n_seq
        # the first graph shows whether all tensors are there and fit, and which points there are
        first = self._step(1, "last") if self._cache else self._step_without_cache(1, 1)
        self._points = first.points

    @staticmethod
    def _positive(name: str, value: Any, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
            raise ValueError(f"load: {name} is {value!r}: need an integer from 1 to {high}")
        return value

    # ---- life --------------------------------------------------------------------------------------------------------
    def __enter__(self) -> Model:
        self._check("__enter__")
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def __repr__(self) -> str:
        if self._closed:
            return "<Model, closed>"
        name = self.metadata.get("general.name", os.path.basename(self._file.path))
        return f"<Model {name!r}: {self.config.arch}, {self.config.n_layer} layers, n_ctx {self.n_ctx}>"

    def close(self) -> None:
        """Frees the model's memory. Waits for a call that runs in another thread."""
        with self._lock:
            if self._computing:
                raise RuntimeError("close: the model is computing: a function given to edit can't close it")
            self._closed = True
            self._forget_steps()
            if self._cache is not None:
                self._cache.close()
                self._cache = None
            for lora in self._loras:
                lora.close()
            self._loras = []
            if hasattr(self, "_file"):
                self._file.close()

    def _check(self, caller: str) -> None:
        """Refuses calls that cannot be served."""
        if self._closed:
            raise RuntimeError(f"{caller}: the model is closed")
        if self._computing:
            raise RuntimeError(f"{caller}: the model is computing: a function given to edit can't call it")

    def _causal_cache(self, caller: str) -> Cache:
        self._check(caller)
        if self._cache is None:
            raise ValueError(f"{caller}: a model of architecture {self.config.arch!r} gives embeddings only")
        return self._cache

    # ---- prepared graphs ---------------------------------------------------------------------------------------------
    def _parts(self) -> Parts:
        adapters: dict[str, list] = {}
        for lora in self._loras:
            for name, pair in lora.pairs.items():
                adapters.setdefault(name, []).append(pair)
        traced = self._trace.names if self._trace else frozenset()
        return Parts(self.config, self._weights, adapters, self._edits, traced)

    def _prepared(self, shape: Shape, cache: Cache | None) -> Step:
        """The graph of a shape: one that was kept, or a new one."""
        step = self._steps.get(shape)
        if step is None:
            step = self._steps[shape] = Step(shape, self._parts(), cache, self._threads)
            while len(self._steps) > 1 and (
                len(self._steps) > KEPT_STEPS or sum(s.bytes for s in self._steps.values()) > KEPT_BYTES
            ):
                self._steps.popitem(last=False)[1].close()
        else:
            self._steps.move_to_end(shape)
        return step

    def _step(self, tokens: int, result: str, first: int = 0, count: int = 1) -> Step:
        """A graph that appends `tokens` tokens to each of `count` sequences from `first` on."""
        cache = self._cache
        assert cache is not None
        end = max(len(cache.ids[s]) for s in range(first, first + count)) + tokens
        keys = {local: min(size, round_up(end, KEYS)) for local, size in cache.sizes.items()}
        local = keys[True] if any(self.config.local) else 0
        return self._prepared(Shape(tokens, first, count, keys[False], local, result), cache)

    def _step_without_cache(self, tokens: int, count: int) -> Step:
        return self._prepared(Shape(tokens, 0, count, 0, 0, "hidden"), None)

    def _forget_steps(self) -> None:
        while self._steps:
            self._steps.popitem()[1].close()

    def _changed(self) -> None:
        """After a change of what graphs are built of: neither graphs nor stored keys and values are valid any more."""
        self._forget_steps()
        if self._cache is not None:
            self._cache.forget()
        for owner in self._owners:
            if owner is not None:
                owner._state = None
        self._owners = [None] * self.n_seq

    # ---- computing ---------------------------------------------------------------------------------------------------
    def _run(self, step: Step) -> None:
        self._computing = True
        try:
            step.run()
        finally:
            self._computing = False
        if self._trace is not None:
            self._trace._collect(step)

    def _feed(self, caller: str, sequence: int, ids: Sequence[int], result: str, size: int = STEP) -> Iterator[Step]:
        """Appends ids to a sequence, in steps of at most `size` tokens; yields the graph after each.

        Only the last step computes logits if result is "last".
        """
        cache = self._causal_cache(caller)
        have = cache.ids[sequence]
        if len(have) + len(ids) > self.n_ctx:
            raise ValueError(f"{caller}: {len(have)} + {len(ids)} tokens exceed the context of {self.n_ctx} (n_ctx)")
        for begin in range(0, len(ids), size):
            part = ids[begin : begin + size]
            final = begin + size >= len(ids)
            step = self._step(len(part), result if final or result != "last" else "none", sequence)
            start = len(have)
            step.ids[:] = part
            step.positions[:] = np.arange(start, start + len(part))
            self._place(step, 0, start, len(part))
            self._run(step)
            have.extend(part)
            yield step

    def _place(self, step: Step, row: int, start: int, count: int) -> None:
        """Fills in the cells and masks of one sequence of a step."""
        cache = self._cache
        assert cache is not None
        for local, mask in step.masks.items():
            cache.mask(mask[row, 0], local, start, count)
            step.cells[local][row, 0] = np.arange(start, start + count) % cache.sizes[local]

    def _feed_many(self, tokens: Mapping[int, int]) -> dict[int, np.ndarray]:
        """Appends one token to each of several sequences; returns the logits [n_vocab] of each, views of the graph."""
        cache = self._causal_cache("generate_many")
        first, last = min(tokens), max(tokens)
        step = self._step(1, "last", first, last - first + 1)
        limit = self.config.n_ctx_train - 1
        for row in range(last - first + 1):
            start = len(cache.ids[first + row])
            step.ids[row] = tokens.get(first + row, 0)
            step.positions[row] = min(start, limit)
            self._place(step, row, start, 1)
        self._run(step)
        for sequence, token in tokens.items():
            cache.ids[sequence].append(token)
        return {sequence: step.out[sequence - first] for sequence in tokens}

    def _claim(self, sequence: int, owner: Generation | None) -> None:
        """Gives a sequence to another owner; the former one gets its keys and values back when it goes on."""
        former = self._owners[sequence]
        if former is owner:
            return
        cache = self._cache
        assert cache is not None
        if former is not None and former.finish_reason is None:
            former._state = cache.save(sequence)
        self._owners[sequence] = owner
        if owner is not None and owner._state is not None:
            cache.load(sequence, owner._state)
            owner._state = None

    def _extend(self, caller: str, sequence: int, ids: Sequence[int]) -> np.ndarray:
        """Makes a sequence hold exactly `ids`, of which it keeps the beginning it has; returns the last logits."""
        cache = self._causal_cache(caller)
        have = cache.ids[sequence]
        if len(ids) - len(have) == 1 and ids[:-1] == have:
            kept = len(have)
        else:
            kept = cache.rewind(sequence, min(_common(have, ids), len(ids) - 1))
        step = None
        for step in self._feed(caller, sequence, ids[kept:], "last"):
            pass
        assert step is not None
        return step.out[-1]

    # ---- tokens ------------------------------------------------------------------------------------------------------
    @property
    def tokenizer(self) -> Any:
        with self._lock:
            if self._tokenizer is None:
                self._check("tokenizer")
                from ._tokenizer import Tokenizer

                self._tokenizer = Tokenizer(self.metadata)
            return self._tokenizer

    def tokenize(self, text: str | bytes, add_bos: bool | None = None, special: bool = False) -> list[int]:
        """Splits a text into tokens.

        Args:
            text: str, or bytes that need not be valid UTF-8.
            add_bos: True to begin with the token for the beginning of a text; None for what the file says.
            special: True to recognise the names of control tokens in the text.
        Returns:
            List of token ids.
        """
        return self.tokenizer.encode(text, add_bos, special)

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of token ids; invalid UTF-8 is replaced by U+FFFD."""
        return self.tokenizer.decode(ids)

    def _ids(self, caller: str, prompt: str | bytes | Sequence[int], special: bool = False) -> list[int]:
        """The token ids of a prompt, checked."""
        if isinstance(prompt, (str, bytes)):
            ids = self.tokenize(prompt, special=special)
        else:
            ids = np.asarray(prompt)
            if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
                raise TypeError(f"{caller}: the tokens are {str(prompt)[:60]}: need a text or a list of integers")
            ids = ids.tolist()
        if not ids:
            raise ValueError(f"{caller}: need at least one token")
        bad = [i for i in ids if not 0 <= i < self.config.n_vocab]
        if bad:
            raise ValueError(f"{caller}: token {bad[0]}: need ids from 0 to {self.config.n_vocab - 1}")
        return ids

    # ---- generating --------------------------------------------------------------------------------------------------
    def generate(
        self,
        prompt: str | bytes | Sequence[int],
        *,
        max_tokens: int | None = 256,
        temperature: float = 0.8,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        repeat_penalty: float = 1.0,
        stop: str | Sequence[str] | None = None,
        seed: int | None = None,
        logits_filter: Filter | None = None,
        overflow: str = "error",
        logprobs: int | None = None,
    ) -> Generation:
        """Continues a text.

        A prompt that begins like what was computed last is evaluated from where they differ.

        Args:
            prompt: text or token ids.
            max_tokens: most tokens to generate; None for no limit.
            temperature, top_k, top_p, min_p, repeat_penalty, seed, logits_filter: see Sampler. Temperature 0 takes
                the most likely token.
            stop: strings before which the text ends.
            overflow: what to do when the context is full: "error" raises, "shift" drops the older half of the tokens
                (except the first) and goes on.
            logprobs: number of alternatives whose log-probabilities are kept for each token, see Generation.
        Returns:
            Generation: an iterator over pieces of text, without the prompt.
        Raises:
            TypeError: an argument is of the wrong kind.
            ValueError: an option is out of range, or the prompt is empty or longer than the context.
            RuntimeError: the model is closed; from the iterator also: the context is full and overflow is "error".
        """
        sampler = Sampler(temperature, top_k, top_p, min_p, repeat_penalty, seed=seed, logits_filter=logits_filter)
        return self._generation("generate", prompt, sampler, max_tokens, stop, overflow, logprobs)

    def _generation(
        self,
        caller: str,
        prompt: str | bytes | Sequence[int],
        sampler: Sampler,
        max_tokens: int | None,
        stop: str | Sequence[str] | None,
        overflow: str,
        logprobs: int | None,
        special: bool = False,
    ) -> Generation:
        self._causal_cache(caller)
        check_options(max_tokens, overflow, logprobs)
        ids = self._ids(caller, prompt, special)
        if len(ids) > self.n_ctx:
            raise ValueError(f"{caller}: the prompt has {len(ids)} tokens, the context {self.n_ctx} (n_ctx)")
        return Generation(self, ids, sampler, max_tokens, stop_strings(stop), overflow, logprobs)

    def chat(self, messages: Sequence[Mapping[str, str]], **options: Any) -> Generation:
        """Answers a conversation, which the file's template turns into a prompt.

        Args:
            messages: dicts with "role" ("system", "user" or "assistant") and "content", the oldest first.
            options: those of generate.
        Returns:
            Generation: an iterator over pieces of the answer.
        Raises:
            ValueError: the file has no template, or the template refuses the messages.
            TypeError, RuntimeError: as generate.
        """
        self._causal_cache("chat")
        from ._chat import ChatTemplate

        text = ChatTemplate(self.metadata, self.tokenizer).render(messages, add_generation_prompt=True)
        return self.generate(self.tokenize(text, add_bos=False, special=True), **options)

    def generate_many(
        self, prompts: Sequence[str | bytes | Sequence[int]], *, seed: int | None = None, **options: Any
    ) -> Iterator[tuple[int, str]]:
        """Continues several texts at the same time, up to n_seq of them together.

        Args:
            prompts: texts or lists of token ids.
            seed: seed of the first text; the next ones get the numbers that follow.
            options: those of generate.
        Returns:
            Iterator over pairs of a prompt's index and a piece of its text.
        Raises:
            TypeError, ValueError, RuntimeError: as generate.
        """
        texts = [
            self.generate(prompt, seed=None if seed is None else seed + i, **options) for i, prompt in enumerate(prompts)
        ]
        return self._decode_together(texts)

    def _decode_together(self, texts: list[Generation]) -> Iterator[tuple[int, str]]:
        waiting = list(range(len(texts)))[::-1]
        active: dict[int, int] = {}  # sequence: index of the text
        try:
            while waiting or active:
                with self._lock:
                    for sequence in range(self.n_seq):
                        while waiting and sequence not in active:
                            index = waiting.pop()
                            texts[index]._sequence = sequence
                            self._advance_alone(texts[index])
                            if texts[index].finish_reason is None:
                                active[sequence] = index
                            yield from self._pieces(index, texts[index])
                    self._advance_together(active, texts)
                for sequence, index in list(active.items()):
                    yield from self._pieces(index, texts[index])
                    if texts[index].finish_reason is not None:
                        del active[sequence]
        finally:
            for text in texts:
                text.close()

    @staticmethod
    def _pieces(index: int, text: Generation) -> Iterator[tuple[int, str]]:
        while text._pending:
            yield index, text._pending.pop(0)

    def _advance_alone(self, text: Generation) -> None:
        if text.finish_reason is None:
            text._accept(self._next_logits(text))

    def _advance_together(self, active: Mapping[int, int], texts: Sequence[Generation]) -> None:
        """One more token for each active text: those that only lack their last token share one step."""
        cache = self._causal_cache("generate_many")
        ready = {}
        for sequence, index in active.items():
            text = texts[index]
            self._claim(sequence, text)
            have = cache.ids[sequence]
            if len(text._context) <= self.n_ctx and len(text._context) == len(have) + 1 and text._context[:-1] == have:
                ready[sequence] = text
            else:
                self._advance_alone(text)
        if ready:
            for sequence, logits in self._feed_many({s: t._context[-1] for s, t in ready.items()}).items():
                ready[sequence]._accept(logits)

    def _next_logits(self, text: Generation) -> np.ndarray:
        """The logits of the token that follows a text."""
        with self._lock:
            cache = self._causal_cache("generate")
            if len(text._context) > self.n_ctx:
                if text.overflow == "error":
                    text.close()
                    raise RuntimeError(
                        f"generate: the context of {self.n_ctx} tokens is full: load the model with a larger n_ctx, "
                        "or generate with overflow='shift'"
                    )
                text._context[:] = text._context[:1] + text._context[-(self.n_ctx // 2) :]
            sequence = text._sequence if text._sequence is not None else self._free_sequence(text._context)
            text._sequence = sequence
            self._claim(sequence, text)
            assert cache is self._cache
            return self._extend("generate", sequence, text._context)

    def _free_sequence(self, ids: Sequence[int]) -> int:
        """The sequence that no live text has, with the longest common beginning; the first if there is none."""
        assert self._cache is not None
        free = [s for s, owner in enumerate(self._owners) if owner is None or owner.finish_reason is not None]
        return max(free, key=lambda s: _common(self._cache.ids[s], ids), default=0)  # type: ignore[union-attr]

    # ---- numbers -----------------------------------------------------------------------------------------------------
    def logits(self, ids: str | bytes | Sequence[int]) -> np.ndarray:
        """Evaluates tokens from the beginning.

        Args:
            ids: token ids or text, at most n_ctx tokens.
        Returns:
            f32 [n_tokens, n_vocab]: row i scores the token that follows token i.
        Raises:
            TypeError, ValueError: the tokens are of the wrong kind, out of range, or too many.
            RuntimeError: the model is closed.
        """
        with self._lock:
            self._causal_cache("logits")
            tokens = self._ids("logits", ids)
            out = np.empty((len(tokens), self.config.n_vocab), np.float32)
            row = 0
            for step in self._from_start("logits", tokens, "all"):
                out[row : row + len(step.out)] = step.out
                row += len(step.out)
            return out

    def _from_start(self, caller: str, ids: Sequence[int], result: str) -> Iterator[Step]:
        """Evaluates ids in the first sequence, from its beginning."""
        cache = self._causal_cache(caller)
        self._claim(0, None)
        cache.rewind(0, 0)
        return self._feed(caller, 0, ids, result, max(1, min(STEP, RESULT_FLOATS // self.config.n_vocab)))

    def log_probabilities(self, ids: str | bytes | Sequence[int]) -> np.ndarray:
        """How likely each token is after those before it.

        Args:
            ids: token ids or text, at most n_ctx tokens.
        Returns:
            f64 [n_tokens - 1]: natural logarithms of the probabilities of the second and all further tokens.
        Raises:
            TypeError, ValueError, RuntimeError: as logits.
        """
        with self._lock:
            self._causal_cache("log_probabilities")
            tokens = self._ids("log_probabilities", ids)
            out, row = np.empty(len(tokens)), 0
            targets = np.array([*tokens[1:], 0])
            for step in self._from_start("log_probabilities", tokens, "scores"):
                probabilities, best = step.extra
                rows = np.arange(len(step.out))
                best = best.reshape(-1)
                wanted = targets[row : row + len(rows)]
                # log p[wanted] = logit[wanted] - logit[best] + log p[best], where p[best] is never 0
                difference = step.out[rows, wanted].astype(np.float64) - step.out[rows, best]
                out[row : row + len(rows)] = difference + np.log(probabilities.reshape(step.out.shape)[rows, best])
                row += len(rows)
            return out[:-1]

    def perplexity(self, text: str | bytes | Sequence[int], *, progress: Callable[[int, int], None] | None = None) -> float:
        """The perplexity of a text: exp of the mean negative log-probability of its tokens.

        A text longer than the context is evaluated in windows of n_ctx tokens that overlap by half: each token is
        scored once, with at least n_ctx / 2 tokens before it (except in the first window).

        Args:
            text: text or token ids, at least two tokens.
            progress: called with the numbers of tokens that are scored and that there are.
        Returns:
            The perplexity.
        Raises:
            TypeError, ValueError, RuntimeError: as logits.
        """
        self._causal_cache("perplexity")
        ids = self._ids("perplexity", text)
        if len(ids) < 2:
            raise ValueError("perplexity: need at least two tokens")
        total, scored, start = 0.0, 1, 0
        while scored < len(ids):
            window = ids[start : start + self.n_ctx]
            new = start + len(window) - scored
            total -= float(self.log_probabilities(window)[-new:].sum())
            scored += new
            start += max(1, self.n_ctx // 2)
            if progress is not None:
                progress(scored, len(ids))
        return float(np.exp(total / (len(ids) - 1)))

    def embed(
        self, texts: str | Sequence[str | bytes | Sequence[int]], *, pooling: str | None = None, normalize: bool = False
    ) -> np.ndarray:
        """Embeds texts: the state after the last norm, pooled over the tokens of each text.

        Args:
            texts: texts or lists of token ids; several are computed together.
            pooling: "mean", "cls" (first token) or "last"; None for what the file says, and the mean if it does not.
            normalize: True to scale each embedding to Euclidean length 1.
        Returns:
            f32 [n_texts, n_embd].
        Raises:
            TypeError, ValueError: a text is empty or too long, or an argument is of the wrong kind.
            RuntimeError: the model is closed.
        """
        self._check("embed")
        if isinstance(texts, (str, bytes)):
            raise TypeError("embed: need a list of texts, a single text was given")
        kind = pooling or ("mean" if self.config.pooling == "none" else self.config.pooling)
        if kind not in ("mean", "cls", "last"):
            raise ValueError(f"embed: pooling is {pooling!r}: need 'mean', 'cls' or 'last'")
        tokens = [self._ids("embed", text) for text in texts]
        longest = max(map(len, tokens), default=0)
        if longest > self.n_ctx:
            raise ValueError(f"embed: a text has {longest} tokens, the context {self.n_ctx} (n_ctx)")
        out = np.empty((len(tokens), self.config.n_embd), np.float32)
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        while order:
            # texts of similar length, padded to the longest, in one graph of about STEP tokens
            length = round_up(len(tokens[order[-1]]), 8)
            group = [order.pop() for _ in range(min(len(order), max(1, STEP // length)))]
            with self._lock:
                self._check("embed")
                states = self._states([tokens[i] for i in group], min(length, self.n_ctx))
                for i, rows in zip(group, states, strict=True):
                    rows = rows[: len(tokens[i])]
                    out[i] = rows.mean(0) if kind == "mean" else rows[0 if kind == "cls" else -1]
        if normalize:
            out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
        return out

    def _states(self, texts: Sequence[Sequence[int]], length: int) -> np.ndarray:
        """The states [texts, length, C] after the last norm, without a cache; a view of the graph."""
        step = self._step_without_cache(length, len(texts))
        step.ids[:] = 0
        step.positions[:] = np.tile(np.arange(length), len(texts))
        position = np.arange(length)
        for local, mask in step.masks.items():
            seen = np.ones((length, length), bool)
            if self.config.causal:
                seen = position <= position[:, None]
            if local:
                seen &= position > position[:, None] - self.config.window
            for i, text in enumerate(texts):
                mask[i, 0] = np.where(seen & (position < len(text)), np.float16(0), np.float16(-np.inf))
        for i, text in enumerate(texts):
            step.ids[i * length : i * length + len(text)] = text
        self._run(step)
        return step.out.reshape(len(texts), length, -1)

    # ---- states ------------------------------------------------------------------------------------------------------
    def feed(self, ids: Sequence[int], sequence: int = 0) -> np.ndarray:
        """Appends tokens to what a sequence holds.

        Args:
            ids: token ids.
            sequence: which of the n_seq sequences.
        Returns:
            f32 [n_vocab]: the logits of the token that follows.
        Raises:
            TypeError, ValueError: the tokens are of the wrong kind, out of range, or do not fit into the context.
            RuntimeError: the model is closed.
        """
        with self._lock:
            self._causal_cache("feed")
            tokens = self._ids("feed", ids)
            self._claim(self._sequence("feed", sequence), None)
            step = None
            for step in self._feed("feed", sequence, tokens, "last"):
                pass
            assert step is not None
            return step.out[-1].copy()

    def reset(self, length: int = 0, sequence: int = 0) -> int:
        """Shortens what a sequence holds to its first tokens.

        Args:
            length: number of tokens to keep.
            sequence: which of the n_seq sequences.
        Returns:
            Number of tokens that remain: 0 if a layer with a sliding window no longer has what it needs.
        """
        with self._lock:
            cache = self._causal_cache("reset")
            self._claim(self._sequence("reset", sequence), None)
            return cache.rewind(sequence, max(0, length))

    def held(self, sequence: int = 0) -> list[int]:
        """The token ids that a sequence holds."""
        with self._lock:
            return list(self._causal_cache("held").ids[self._sequence("held", sequence)])

    def _sequence(self, caller: str, sequence: int) -> int:
        if isinstance(sequence, bool) or not isinstance(sequence, int) or not 0 <= sequence < self.n_seq:
            raise ValueError(f"{caller}: sequence is {sequence!r}: need an integer from 0 to {self.n_seq - 1}")
        return sequence

    def save_state(self, sequence: int = 0) -> bytes:
        """Copies the tokens of a sequence with their keys and values.

        Args:
            sequence: which of the n_seq sequences.
        Returns:
            bytes for load_state, of this model or of another one of the same file and kv_type.
        Raises:
            RuntimeError: the model is closed.
        """
        with self._lock:
            return self._causal_cache("save_state").save(self._sequence("save_state", sequence))

    def load_state(self, state: bytes, sequence: int = 0) -> None:
        """Restores what save_state returned: prompts that begin with these tokens continue from there.

        Args:
            state: bytes of save_state.
            sequence: which of the n_seq sequences.
        Raises:
            ValueError: the bytes are no state, or one of another model; nothing is changed.
            RuntimeError: the model is closed.
        """
        with self._lock:
            cache = self._causal_cache("load_state")
            self._claim(self._sequence("load_state", sequence), None)
            cache.load(sequence, state)

    # ---- looking inside ----------------------------------------------------------------------------------------------
    def points(self) -> list[str]:
        """The names of the values that trace and edit accept, in the order in which they are computed."""
        return list(self._points)

    def trace(self, *names: str) -> Trace:
        """Keeps values that are computed in a `with` statement.

        Args:
            names: points (see `points`), or patterns such as "blk.*.out".
        Returns:
            Trace: inside and after the statement, trace[name] is an array f32 [tokens, dim] of all tokens computed.
        Raises:
            ValueError: there is no such point.

        Example:
            with model.trace("blk.3.attn_out") as t:
                model.logits(ids)
            t["blk.3.attn_out"]
        """
        return Trace(self, names)

    def edit(self, name: str, function: Callable[[np.ndarray], np.ndarray | None]) -> Edit:
        """Changes a value on the way, for example to steer what the model writes.

        Args:
            name: point (see `points`).
            function: called with an array f32 [tokens, dim] each time the value was computed; it changes the array
                in place, or returns one of the same shape. It must not call the model.
        Returns:
            Edit: call its `remove`, or use it in a `with` statement.
        Raises:
            ValueError: there is no such point.
        """
        if not callable(function):
            raise TypeError(f"edit: function is {function!r}: need a function")
        with self._lock:
            self._check("edit")
            (point,) = self._match("edit", [name], exact=True)
            self._edits.setdefault(point, []).append(function)
            self._changed()
        return Edit(self, name, function)

    def _match(self, caller: str, names: Sequence[str], exact: bool = False) -> list[str]:
        """The points that names or patterns mean."""
        from fnmatch import fnmatchcase

        found = []
        for name in names:
            matching = [p for p in self._points if p == name or (not exact and fnmatchcase(p, name))]
            if not matching:
                known = ", ".join(self._points[:8])
                raise ValueError(f"{caller}: there is no point {name!r}: need one of points(): {known}, ...")
            found += matching
        return found

    # ---- adapters ----------------------------------------------------------------------------------------------------
    def set_lora(self, *adapters: str | os.PathLike[str] | tuple[str | os.PathLike[str], float]) -> None:
        """Replaces the adapters that are in use; without arguments there are none.

        Args:
            adapters: paths of GGUF files, or pairs of a path and a factor.
        Raises:
            ValueError: a file is no adapter, or does not fit the model; the adapters in use stay.
            OSError: a file cannot be read.
        """
        with self._lock:
            self._check("set_lora")
            loaded: list[Lora] = []
            try:
                for item in adapters:
                    path, scale = item if isinstance(item, tuple) else (item, 1.0)
                    loaded.append(Lora(path, self._weights, self.config.arch, scale))
            except BaseException:
                for lora in loaded:
                    lora.close()
                raise
            self._changed()
            for lora in self._loras:
                lora.close()
            self._loras = loaded


class Trace:
    """Values that were computed in a `with` statement; see Model.trace."""

    def __init__(self, model: Model, names: Sequence[str]) -> None:
        self._model = model
        self.names = frozenset(model._match("trace", names))
        self._values: dict[str, list[np.ndarray]] = {name: [] for name in self.names}

    def __enter__(self) -> Trace:
        model = self._model
        with model._lock:
            model._check("trace")
            if model._trace is not None:
                raise RuntimeError("trace: the model is traced already: give all names to one trace")
            model._trace = self
            model._changed()  # so that all tokens are computed, none taken from the cache
        return self

    def __exit__(self, *exception: object) -> None:
        with self._model._lock:
            self._model._trace = None
            self._model._forget_steps()

    def _collect(self, step: Step) -> None:
        for name, values in step.traced.items():
            self._values[name].append(values.copy())

    def __getitem__(self, name: str) -> np.ndarray:
        """The values of a point: f32 [tokens, dim], a row for each token that was computed."""
        values = self._values[name]
        if not values:
            raise KeyError(f"trace: point {name!r} was not computed")
        if len(values) > 1:
            values[:] = [np.concatenate(values)]
        return values[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def keys(self) -> list[str]:
        """The names of the points."""
        return list(self._values)


class Edit:
    """A function that changes a value on the way; see Model.edit."""

    def __init__(self, model: Model, name: str, function: Callable) -> None:
        self._model, self.name, self._function = model, name, function

    def remove(self) -> None:
        """Ends the change. Does nothing the second time."""
        model = self._model
        with model._lock:
            functions = model._edits.get(self.name, [])
            if self._function in functions and not model._closed:
                functions.remove(self._function)
                model._changed()

    def __enter__(self) -> Edit:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the common beginning of two lists."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    return next(i for i in range(n) if a[i] != b[i])


def load(
    path: str | os.PathLike[str],
    *,
    n_ctx: int | None = None,
    n_seq: int = 1,
    threads: int | None = None,
    kv_type: str = "f16",
    lora: Iterable[str | os.PathLike[str]] = (),
    mmap: bool = True,
) -> Model:
    """Opens a language model.

    Args:
        path: GGUF file; of a split file, any part.
        n_ctx: most tokens of a sequence; None for what the file allows, at most 4,096.
        n_seq: sequences that can be decoded together.
        threads: threads to compute with; None for one on each available CPU.
        kv_type: type of the stored keys and values: "f16", "q8_0" or "f32".
        lora: paths of adapters.
        mmap: True to map the file, so that its pages are read on first use and shared with other processes; False to
            copy it into memory.
    Returns:
        Model.
    Raises:
        OSError: a file cannot be read.
        ValueError: the file is not a valid GGUF file or no model of a known architecture, a tensor or key is missing
            or has a wrong shape or value, or an argument is out of range. The message names what is wrong.
        MemoryError: there is not enough memory.
    """
    return Model(path, n_ctx=n_ctx, n_seq=n_seq, threads=threads, kv_type=kv_type, lora=lora, mmap=mmap)
