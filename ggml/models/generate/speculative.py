"""Guessing ahead: several tokens are computed together, and those that the sampler draws as well are kept.

A model computes a few tokens in hardly more time than one. So what a text may go on with is guessed, and the guess is
computed together with the next token. The sampler then draws token by token from the logits after each: as long as it
draws what was guessed, the next logits are those of the text. What is drawn follows the same distribution, whatever was
guessed, and takes the same random numbers.

A ledger bounds what wrong guesses cost: it counts in steps, the time that one token takes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

import ggml

from ..arch.further import tensor_names
from ..run.batch import Batch
from ..run.exact import ROWS_QUANTISED
from ..run.runner import Runner
from ..run.sequences import lacks_one

NGRAMS = (6, 4, 3, 2, 1)  # lengths of the ends of a text that are looked up, the longest first
SHORTEST, FIRST, LONGEST = 3, 4, 24  # tokens of a guess, as far as the ledger allows them
CREDIT, SHARE, MOST_CREDIT = 1.0, 0.02, 8.0  # steps that guesses may cost: at first, for each token, at most
SEVERAL, EACH = 0.25, 0.06  # steps that computing several tokens takes more than one token, and each further token
CONFIDENT = 0.5  # least probability of a token in the eyes of a second model
PADDING = 128  # tokens that one of two vocabularies may have more

Guess = tuple[list[int], float]


class Source(Protocol):
    """What guesses.

    Attributes:
        cost: steps that finding a token takes.
    """

    cost: float

    def guess(self, text: Any, most: int) -> Guess:
        """At most so many tokens that a Generation may go on with, and the steps that it took to find them."""


class Ngrams:
    """Guesses that a text goes on as it did where its last tokens occurred before, in the prompt or in the text."""

    cost = 0.0

    def __init__(self) -> None:
        self._known = 0  # tokens whose ends are in the table
        self._places: dict[tuple[int, ...], int] = {}  # what follows the latest occurrence

    def guess(self, text: Any, most: int) -> Guess:
        ids = text.sampler.ids
        for end in range(self._known + 1, len(ids)):  # the end of the text itself is not among the places
            for size in NGRAMS:
                if size <= end:
                    self._places[tuple(ids[end - size : end])] = end
        self._known = max(self._known, len(ids) - 1)
        for size in NGRAMS:
            place = self._places.get(tuple(ids[-size:])) if size <= len(ids) else None
            if place is not None:
                found = ids[place : place + most]
                period = len(found)  # a repetition that reaches the end of the text goes on
                return [found[i % period] for i in range(most)] if period < most else found, 0.0
        return [], 0.0


class Function:
    """Guesses what a function returns: a sequence of token ids after an array intc [n]."""

    cost = 0.0

    def __init__(self, function: Callable[[np.ndarray], Sequence[int]], n_vocab: int) -> None:
        self._function, self._n_vocab = function, n_vocab

    def guess(self, text: Any, most: int) -> Guess:
        found = np.asarray(self._function(np.array(text.sampler.ids, np.intc)))
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise TypeError(f"generate: draft returned {str(found)[:60]}: need a list of token ids")
        ids = found[:most].tolist()
        bad = [token for token in ids if not 0 <= token < self._n_vocab]
        if bad:
            raise ValueError(f"generate: draft returned the token {bad[0]}: need ids from 0 to {self._n_vocab - 1}")
        return ids, 0.0


class SecondModel:
    """Guesses what another model finds most likely, as long as it is rather certain; see guess_together.

    Args:
        runner: of the other model.
        n_vocab: the number of tokens of the model that writes.
        cost: steps of the model that writes which a step of the other one takes.
        wait: whether it waits for the other model in any case.
    """

    def __init__(self, runner: Runner, n_vocab: int, cost: float, wait: bool) -> None:
        self.runner, self.n_vocab, self.cost, self.wait = runner, n_vocab, cost, wait
        self._sequence: int | None = None
        self._text: Callable[[], Any] = lambda: None
        self._reads = True  # the other model has not read the text yet

    @property
    def finish_reason(self) -> str | None:
        """None as long as the text goes on: the sequence of the other model belongs to it."""
        text = self._text()
        return "stop" if text is None else text.finish_reason

    def guess(self, text: Any, most: int) -> Guess:
        return guess_together([(self, text, most)], self.runner.n_ctx)[0]

    def number(self, text: Any) -> int:
        """The sequence of the other model for the text, whose owner may be another one."""
        if self._sequence is None:
            self._text = weakref.ref(text)
            self._sequence = self.runner.causal("generate: draft").free(text.context)
        return self._sequence

    def begin(self, text: Any, most: int) -> Drafted | None:
        """Takes the sequence; None where the other model cannot guess."""
        runner, ids, number = self.runner, text.context, self.number(text)
        sequences = runner.causal("generate: draft")
        if len(ids) + most > runner.n_ctx:
            return None
        sequences.claim(number, self)
        tokens = sequences.lacking(number, ids, goes_on=True)
        if max(tokens) >= runner.config.n_vocab or min(tokens) < 0:  # or a picture
            return None
        return Drafted(number, tokens, most, 0.0 if self._reads else EACH * (len(tokens) - 1))

    def end(self, draft: Drafted) -> Guess:
        """What was guessed, and the steps that it took."""
        self._reads = self._reads and bool(draft.tokens)
        return draft.found, draft.steps * self.cost


@dataclass
class Drafted:
    """A guess of a second model while it is computed.

    Attributes:
        number: its sequence there.
        tokens: what it is to read next.
        most: most tokens of the guess.
        steps: of the second model, so far.
        found: the guess so far.
    """

    number: int
    tokens: list[int]
    most: int
    steps: float
    found: list[int] = field(default_factory=list)

    def take(self, logits: np.ndarray, n_vocab: int) -> bool:
        """Guesses a token from logits [n_vocab of the second model]; false if the guess ends here."""
        self.steps, self.tokens = self.steps + 1, []
        token = int(logits.argmax())
        if token >= n_vocab or not np.exp(logits - logits[token]).sum() * CONFIDENT <= 1:
            return False
        self.found.append(token)
        self.tokens = [token] if len(self.found) < self.most else []
        return bool(self.tokens)


def guess_together(asked: Sequence[tuple[SecondModel, Any, int]], reads: int) -> list[Guess]:
    """Guesses of a second model for several texts: it computes them in one batch, as far as it has sequences.

    It does not wait for a model that another thread uses, but guesses nothing then; and nothing for a text of which it
    has yet to read more than there is room for.

    Args:
        asked: what guesses for a text, all of the same model; the text, and the most tokens of its guess.
        reads: most tokens that it reads before it guesses.
    """
    runner, wait = asked[0][0].runner, any(source.wait for source, *_ in asked)
    if not runner.lock.acquire(blocking=wait):
        return [([], 0.0)] * len(asked)
    try:
        drafts: list[Drafted | None] = []
        group: dict[int, tuple[Drafted, int]] = {}
        for source, text, most in asked:
            if source.number(text) in group:  # there are fewer sequences than texts
                reads -= _compute(runner, group, reads)
                group = {}
            drafts.append(draft := source.begin(text, most))
            if draft is not None:
                group[draft.number] = draft, source.n_vocab
        _compute(runner, group, reads)
        return [([], 0.0) if d is None else a[0].end(d) for a, d in zip(asked, drafts, strict=True)]
    finally:
        runner.lock.release()


def _compute(runner: Runner, group: dict[int, tuple[Drafted, int]], reads: int) -> int:
    """Computes guesses in different sequences; returns how many tokens of the texts were read."""
    left = reads
    active = sorted(group.values(), key=lambda item: len(item[0].tokens))
    while active:
        batch, wanted = Batch(), []
        for draft, n_vocab in active:
            some = draft.tokens if draft.found else draft.tokens[: max(0, left)]
            left -= 0 if draft.found else len(some)
            whole = len(some) == len(draft.tokens)
            if some:
                place = batch.add(draft.number, some, int(whole))
            if whole:
                wanted.append((draft, n_vocab, place))
        if not batch.pieces:
            break
        try:
            logits = runner.decode(batch)
        except MemoryError:  # what there is will do
            break
        active = [(draft, n_vocab) for draft, n_vocab, place in wanted if draft.take(logits[place][0], n_vocab)]
    return reads - left


class Prediction:
    """Guesses what a layer of the model itself predicts, which a file may have for that (arch/further.py).

    Args:
        runner: of the model.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        own, all_of_them = (sum(map(ggml.ggml_nbytes, weights)) for weights in further_weights(runner))
        self.cost = own / all_of_them

    def guess(self, text: Any, most: int) -> Guess:
        runner, number = self._runner, text.sequence
        items = runner.causal("generate: draft").items
        if number is None or not lacks_one(items[number].ids, text.context):
            return [], 0.0
        assert runner.decoder is not None
        found = runner.decoder.predicted(number, items, text.context[-1], most, CONFIDENT)
        return found, (len(found) + (len(found) < most)) * self.cost


def further_weights(runner: Runner) -> tuple[list[Any], list[Any]]:
    """The tensors that a step of the layer reads that predicts further tokens, and those that the model reads."""
    layer, beside = tensor_names(runner.config)
    own = [t for name, t in runner.weights.items() if name.startswith(layer)]
    others = [t for name, t in runner.weights.items() if not name.startswith(layer) and name != "token_embd.weight"]
    head = runner.weights.get("output.weight") or runner.weights["token_embd.weight"]
    if "output.weight" not in runner.weights:
        others.append(head)
    return own + ([] if beside + "shared_head_head.weight" in runner.weights else [head]), others


class Speculation:
    """The guesses for one text, and what came of them.

    Args:
        source: what guesses.
        free: so many tokens are computed together with the next one in the same time, and never more; 0 for a ledger.

    Attributes:
        guessed: the number of tokens that were guessed.
        accepted: the number of those that became part of the text.
        further: whether a layer of the model itself guesses, which must see all tokens of the text.
    """

    def __init__(self, source: Source, free: int = 0) -> None:
        self.source, self._free, self.further = source, free, isinstance(source, Prediction)
        self.guessed = self.accepted = 0
        self._credit, self._length = CREDIT, free or FIRST

    def guess(self, text: Any, most: int) -> list[int]:
        """At most `most` tokens that a text may go on with; none where wrong ones would cost too much."""
        length = self.length(most)
        return self.taken(self.source.guess(text, length)) if length else []

    def length(self, most: int) -> int:
        """How many tokens may be guessed now, at most `most`: fewer where wrong ones would cost too much."""
        self._credit = min(MOST_CREDIT, self._credit + SHARE)
        several, each = self._costs
        each_found = each + self.source.cost
        length = min(most, self._length)
        if each_found:
            length = min(length, int((self._credit - several) / each_found))
        return max(0, length)

    def taken(self, guess: Guess) -> list[int]:
        """Takes note of what was guessed, and what that cost; returns the tokens."""
        found, cost = guess
        several, each = self._costs
        self._credit -= cost + (several + each * len(found) if found else 0.0)
        self.guessed += len(found)
        return found

    @property
    def _costs(self) -> tuple[float, float]:
        return (0.0, 0.0) if self._free else (SEVERAL, EACH)

    def judge(self, guessed: int, accepted: int) -> None:
        """Takes note of how many tokens of a guess became part of the text."""
        self.accepted += accepted
        self._credit = min(MOST_CREDIT, self._credit + accepted)
        if not self._free:
            self._length = min(LONGEST, 2 * self._length) if accepted == guessed else max(SHORTEST, accepted + 1)


def guesses(asked: Sequence[tuple[Any, int]], room: int, reads: int) -> list[list[int]]:
    """Guesses for several texts, those of one second model in one batch.

    Args:
        asked: each Generation, and the most tokens that may be guessed for it.
        room: most tokens of all guesses.
        reads: most tokens of the texts that a second model reads.
    """
    found: list[list[int]] = [[] for _ in asked]
    together: dict[Runner, list[tuple[int, int]]] = {}
    for i, (text, most) in enumerate(asked):
        guessing, most = text.speculation, min(most, room // (len(asked) - i))  # what others leave is for the next ones
        if not isinstance(guessing.source, SecondModel):
            found[i] = guessing.guess(text, most)
            room -= len(found[i])
        elif length := guessing.length(most):
            together.setdefault(guessing.source.runner, []).append((i, length))
            room -= length
    for items in together.values():
        texts = [asked[i][0] for i, _ in items]
        wishes = [(text.speculation.source, text, length) for text, (_, length) in zip(texts, items, strict=True)]
        for text, (i, _), guess in zip(texts, items, guess_together(wishes, reads), strict=True):
            found[i] = text.speculation.taken(guess)
    return found


def speculation(caller: str, runner: Runner, draft: Any, exact: bool) -> Speculation | None:
    """What guesses for a text, from the argument `draft` of generate; None for None.

    Raises:
        TypeError: draft is of the wrong kind.
        ValueError: draft is another text, a model with another vocabulary, or asks for what the file does not have.
    """
    if draft is None:
        return None
    source: Source
    other = getattr(draft, "runner", None)
    if isinstance(draft, str):
        if draft not in ("ngram", "mtp"):
            raise ValueError(f"{caller}: draft is {draft!r}: need 'ngram', 'mtp', a Model or a function")
        if draft == "mtp":
            runner.use_further(f"{caller}: draft is 'mtp'")
        source = Ngrams() if draft == "ngram" else Prediction(runner)
    elif isinstance(other, Runner):
        check_vocabularies(caller, runner, other)
        own, its = (sum(map(ggml.ggml_nbytes, r.weights.values())) for r in (runner, other))
        source = SecondModel(other, runner.config.n_vocab, its / own, wait=runner.comm is not None)
    elif callable(draft):
        source = Function(draft, runner.config.n_vocab)
    else:
        raise TypeError(f"{caller}: draft is a {type(draft).__name__}: need 'ngram', 'mtp', a Model or a function")
    states = runner.memory is not None and bool(runner.memory.states)  # tokens before a wrong one are computed again
    return Speculation(source, ROWS_QUANTISED - 1 if exact and not states else 0)


def check_vocabularies(caller: str, runner: Runner, other: Runner) -> None:
    """Refuses a second model whose tokens are others. One of them may have a few more at the end, as padding."""
    if other is runner:
        raise ValueError(f"{caller}: draft is the model itself: need another, smaller one")
    other.causal(f"{caller}: draft")
    sizes = runner.config.n_vocab, other.config.n_vocab
    need = f"need the {sizes[0]} tokens of {runner.file.path}"
    if abs(sizes[0] - sizes[1]) > PADDING:
        raise ValueError(f"{caller}: draft has {sizes[1]} tokens: {need}")
    for key in ("model", "bos_token_id", "eos_token_id"):
        own, its = (r.metadata.get(f"tokenizer.ggml.{key}") for r in (runner, other))
        if own != its:
            raise ValueError(f"{caller}: draft has {its!r} for tokenizer.ggml.{key}: need {own!r}, the model's")
    texts = [r.metadata.get("tokenizer.ggml.tokens") or [] for r in (runner, other)]
    count = min(map(len, texts))
    if texts[0][:count] != texts[1][:count]:
        index = next(i for i in range(count) if texts[0][i] != texts[1][i])
        raise ValueError(f"{caller}: token {index} of draft is {texts[1][index]!r}: need {texts[0][index]!r}")
