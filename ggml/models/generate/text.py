"""Generating text: one iterator for each text, which several can share one model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._owners import Owner
from ..run.sequences import common_length
from ..sample.chain import Sampler, log_softmax
from ..sample.choice import largest
from .speculative import Speculation

if TYPE_CHECKING:
    from .scheduler import Generating
    from .translation import Translating


OVERFLOWS = ("stop", "shift", "error")  # what to do when the context is full


class TokenProbability(NamedTuple):
    """A generated token and what else was likely: `top` is a list of (id, log-probability), the best first."""

    id: int
    text: str
    logprob: float
    top: list[tuple[int, float]]


def without_pictures(ids: Sequence[int]) -> list[int]:
    """The tokens that have an id."""
    return [token for token in ids if token >= 0]


def probability(logits: np.ndarray, token: int, text: str, count: int) -> TokenProbability:
    """The log-probability of a token, and those of the `count` most likely ones, from logits f32 [n_vocab]."""
    values = log_softmax(logits)
    best = largest(logits, min(count, logits.size))[0] if count else []
    return TokenProbability(token, text, float(values[token]), [(i, float(values[i])) for i in best])


class Generation(Owner, Iterator[str]):
    """Yields the pieces of a generated text. Other calls of the model may come between the pieces.

    Of a model whose file has no vocabulary, the pieces are empty: one for each of `ids`.

    Attributes:
        prompt_ids: token ids of the prompt.
        ids: token ids that were generated so far, without the one that ended the text.
        finish_reason: None while it goes on, then "stop" (the model ended the text, or a stop string occurred) or
            "length" (max_tokens, or the context is full and overflow is "stop").
        speculation: with `draft`, what guesses; it has the numbers of tokens `guessed` and `accepted`.
        logprobs: a TokenProbability for each id, if log-probabilities were asked for.
        cached: tokens of the prompt that were not computed, as they were known; None before the first are computed.
        adapter: name of the adapter of this text, see Model.add_adapter; None for none of its own.
    """

    def __init__(
        self,
        writer: Generating | Translating,
        prompt_ids: Sequence[int],
        sampler: Sampler,
        max_tokens: int | None,
        stop: Sequence[str],
        overflow: str,
        logprobs: int | None,
        exact: bool = False,
        shown: Collection[int] = (),
        speculation: Speculation | None = None,
    ) -> None:
        self._writer, self.sampler, self.overflow, self.exact = writer, sampler, overflow, exact
        self.prompt_ids = list(prompt_ids)
        self.ids: list[int] = []
        self.finish_reason: str | None = None
        self.logprobs: list[TokenProbability] = []
        self.context = list(prompt_ids)  # what the model's cache must hold; shorter than all ids after a shift
        self._max = max_tokens
        self.top = logprobs
        self._shown = shown
        self._eog, self._decoder = writer.prompts.decoding(shown)
        self._text = StopFilter(stop)
        self.pending: list[str] = []
        self.sequence: int | None = None  # of the cache
        self.speculation = speculation
        self.cached: int | None = None
        self.adapter: str | None = None
        self.until: Callable[[Sequence[int], np.ndarray], bool] | None = None  # ends the text where it returns true
        self._choosing = False
        sampler.prime(without_pictures(prompt_ids))
        if max_tokens == 0:
            self.finish_reason = "length"

    def __next__(self) -> str:
        with self._writer.runner.lock:
            while not (pending := self.pending):  # another thread may close the text between two lines
                if self.finish_reason is not None:
                    raise StopIteration
                if self._choosing:
                    raise RuntimeError("generate: a filter can't continue the text for which it is called")
                for error in self._writer.advance([self]).values():
                    raise error
            return pending.pop(0)

    @property
    def stopped_by(self) -> str | None:
        """The stop string that ended the text, None if it ended otherwise or goes on."""
        return self._text.found

    def texts(self) -> Iterator[str]:
        """The text that each of `ids` completes, also of what a stop string cut off."""
        decoder = self._writer.prompts.decoding(self._shown)[1]
        for token in list(self.ids):
            yield decoder.push(token) if decoder else ""

    def close(self) -> None:
        """Ends the text here and releases its memory."""
        self.finish_reason = self.finish_reason or "stop"
        self.pending = []
        self._writer.runner.forget_text(self)

    def most_guessed(self, room: int) -> int:
        """How many tokens after the next one may be guessed, of at most `room`."""
        if self.speculation is None or not self.ids or self._choosing:
            return 0
        room = min(room, self._writer.runner.n_ctx - len(self.context))
        if self._max is not None:
            room = min(room, self._max - len(self.ids) - 1)
        return max(0, room)

    def accept_rows(self, rows: np.ndarray, guess: list[int]) -> None:
        """Chooses tokens from logits [1 + len(guess), n_vocab] as long as those of the guess are chosen."""
        begin = len(self.context)
        self.accept(rows[0])
        while self.finish_reason is None and 0 < (n := len(self.context) - begin) <= len(guess):
            if self.context[begin:] != guess[:n]:
                break
            self.accept(rows[n])
        if guess and self.speculation is not None:
            self.speculation.judge(len(guess), common_length(self.context[begin:], guess))

    def accept(self, logits: np.ndarray) -> None:
        """Chooses the next token from logits [n_vocab] and takes note of its text, and of tokens that must follow."""
        self._choosing = True
        try:
            token = self.sampler(logits)
            ends = token in self._eog or (self.until is not None and self.until(without_pictures(self.context), logits))
        finally:
            self._choosing = False
        if self.finish_reason is not None:  # the text was closed, by the filter or by another thread
            return
        if ends:
            self._finish("stop")
            return
        self._append(token, logits)
        if self.top is None and self.until is None:  # these need the logits of each token
            for forced in self.sampler.forced():
                if self.finish_reason is None:
                    self._append(forced, logits)

    def _append(self, token: int, logits: np.ndarray) -> None:
        """Appends a token, which may be the last one."""
        self.ids.append(token)
        self.context.append(token)
        self.sampler.accept(token)
        text = self._decoder.push(token) if self._decoder else ""
        if self.top is not None:
            self.logprobs.append(probability(logits, token, text, self.top))
        if self._decoder:
            self._put(self._text.push(text))
        else:
            self.pending.append("")
        if self._text.found:
            self._finish("stop", flush=False)
        elif self.sampler.done():
            self._finish("stop")
        elif self._max is not None and len(self.ids) >= self._max:
            self._finish("length")
        elif self.overflow == "stop" and len(self.context) > self._writer.runner.n_ctx:
            self._finish("length")

    def _put(self, text: str) -> None:
        if text:
            self.pending.append(text)

    def _finish(self, reason: str, flush: bool = True) -> None:
        """Ends the text; what was held back comes out unless a stop string cut it off."""
        if flush and self._decoder:
            self._put(self._text.push(self._decoder.flush()))
            if not self._text.found:
                self._put(self._text.flush())
        self.finish_reason = reason


class Generations(Iterator[tuple[int, str]]):
    """Yields pairs of a text's number and a piece of it; see Model.generate_many.

    Attributes:
        texts: the Generation of each prompt, with its ids, log-probabilities and finish_reason.
    """

    def __init__(self, texts: Sequence[Generation], pieces: Generator[tuple[int, str], None, None]) -> None:
        self.texts, self._pieces = texts, pieces

    def __next__(self) -> tuple[int, str]:
        return next(self._pieces)

    def close(self) -> None:
        """Ends all texts here and releases their memory."""
        self._pieces.close()
        for text in self.texts:
            text.close()


class StopFilter:
    """Passes text on until one of the stop strings occurs; holds back what may be the beginning of one."""

    def __init__(self, stop: Iterable[str]) -> None:
        self.stop = [s for s in stop if s]
        self.held = ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        """The text that is certain to precede any stop string."""
        if self.found is not None:
            return ""
        if not self.stop:
            return text
        self.held += text
        places = [(place, s) for s in self.stop if (place := self.held.find(s)) >= 0]
        if places:
            place, self.found = min(places)
            out, self.held = self.held[:place], ""
            return out
        keep = max((_overlap(self.held, s) for s in self.stop), default=0)
        cut = len(self.held) - keep
        out, self.held = self.held[:cut], self.held[cut:]
        return out

    def flush(self) -> str:
        """What was held back, at the end of the text."""
        out, self.held = self.held, ""
        return out


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of text that is a beginning of stop, but not all of it."""
    for n in range(min(len(text), len(stop) - 1), 0, -1):
        if stop.startswith(text[-n:]):
            return n
    return 0


def stop_strings(stop: str | Sequence[str] | None) -> list[str]:
    """The stop strings of a call as a list."""
    if stop is None:
        return []
    strings: list[Any] = list(stop) if isinstance(stop, Iterable) and not isinstance(stop, str) else [stop]
    if any(not isinstance(s, str) for s in strings):
        raise TypeError(f"generate: stop is {stop!r}: need a string or a list of strings")
    return strings


def check_options(max_tokens: Any, overflow: Any, logprobs: Any) -> None:
    """Refuses options of generate that are out of range."""
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 0):
        raise ValueError(f"generate: max_tokens is {max_tokens!r}: need an integer from 0, or None for no limit")
    if overflow not in OVERFLOWS:
        raise ValueError(f"generate: overflow is {overflow!r}: need one of {', '.join(map(repr, OVERFLOWS))}")
    if logprobs is not None and (isinstance(logprobs, bool) or not isinstance(logprobs, int) or logprobs < 0):
        raise ValueError(f"generate: logprobs is {logprobs!r}: need an integer from 0, or None")
