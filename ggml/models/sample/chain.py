"""Choosing the next token from logits."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from .choice import choose
from .steps import DEFAULT, OTHER_NAMES, QUICK, STEPS, Candidates, Generator, Step

Filter = Callable[[Sequence[int], np.ndarray], "np.ndarray | None"]
RANDOM_SEED = 0xFFFFFFFF  # llama.cpp's name for "a new seed each time"
NEW_SEEDS = (None, -1, RANDOM_SEED)  # which mean that
FILE_KEYS = {  # what follows "general.sampling." in a file, and the setting that it is the default of
    "sequence": "samplers", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold", "temp": "temperature", "penalty_last_n": "repeat_last_n",
    "penalty_repeat": "repeat_penalty", "mirostat": "mirostat", "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}  # fmt: skip
ANY, INTEGERS = (-1e6, 1e6), (-1, (1 << 31) - 1)
NUMBERS = {  # the least and the largest value of each setting; integers where both are
    "temperature": ANY, "top_k": INTEGERS, "top_p": (0.0, 1.0), "min_p": (0.0, 1.0), "repeat_penalty": (1e-6, 1e6),
    "repeat_last_n": INTEGERS, "frequency_penalty": ANY, "presence_penalty": ANY, "dry_multiplier": ANY,
    "dry_base": (0.0, 1e6), "dry_allowed_length": (0, 1 << 30), "dry_penalty_last_n": INTEGERS, "top_n_sigma": ANY,
    "typical_p": (0.0, 1e6), "xtc_probability": (0.0, 1.0), "xtc_threshold": (0.0, 1.0), "dynatemp_range": (0.0, 1e6),
    "dynatemp_exponent": (-1e3, 1e3), "mirostat": (0, 2), "mirostat_tau": (0.0, 1e3), "mirostat_eta": (0.0, 1e3),
    "adaptive_target": (-1.0, 1.0), "adaptive_decay": (0.0, 0.99), "min_keep": (0, (1 << 31) - 1),
}  # fmt: skip


class Constraint(Protocol):
    """What limits a text to a language; see constraint.py."""

    def prepare(self) -> None:
        """May begin to compute the next mask, beside other work; no token is accepted before `mask` is called."""

    def mask(self, logits: np.ndarray) -> None:
        """Excludes the tokens that cannot come next: writes -inf."""

    def accept(self, token: int) -> None:
        """Takes note of the token that comes next."""

    def forced(self) -> list[int]:
        """The tokens that must come next, in any case."""

    def done(self) -> bool:
        """Whether nothing can come next."""


@dataclass
class Sampler:
    """Draws token ids: a chain of named steps, with the names, defaults and results of llama.cpp's.

    A text is written by `token = sampler(logits)` and `sampler.accept(token)`, over and over. Before the steps, `mask`
    adds logit_bias, calls logits_filter and excludes what the constraint does not allow.

    Args:
        temperature: divides the logits before drawing: below 1 favours likely tokens. 0 and below: always the best.
        top_k: keep the k best tokens; 0 and below for all.
        top_p: keep the best tokens whose probabilities add up to at least this; 1 for all (arXiv:1904.09751).
        min_p: keep tokens with at least this share of the best one's probability; 0 for all (arXiv:2407.01082).
        repeat_penalty: logits of recent tokens are divided by it if positive, else multiplied; 1 for none.
        repeat_last_n: number of recent tokens to which the penalties apply; -1 for all, 0 for none.
        seed: seed of the random numbers; None, -1 or 4294967295 for a new one.
        logits_filter: called with the ids so far and the logits [n_vocab], a copy; it changes them in place or
            returns others. -inf excludes a token.
        frequency_penalty: is subtracted from a token's logit for each time that it occurs among the recent ones.
        presence_penalty: is subtracted from the logits of recent tokens.
        dry_multiplier: penalty of a token that continues a repetition; 0 for none.
        dry_base: by which the penalty grows with each token of the repetition.
        dry_allowed_length: longest repetition without a penalty.
        dry_penalty_last_n: number of recent tokens in which repetitions are looked for; -1 for all, 0 for none.
        dry_sequence_breakers: texts beyond which no repetition goes.
        top_n_sigma: keep tokens whose logit is at most this many standard deviations below the best; 0 and below for
            all (arXiv:2411.07641).
        typical_p: keep the tokens whose surprise is nearest to the expected one, whose probabilities add up to more
            than this; 1 for all (arXiv:2202.00666).
        xtc_probability: with this probability, of the tokens from xtc_threshold on all but the least likely are
            excluded; 0 for never.
        xtc_threshold: a probability; above 0.5 for never.
        dynatemp_range: the temperature lies within this range around `temperature`, and grows with the entropy.
        dynatemp_exponent: of the entropy, as a share of the largest possible one.
        mirostat: 1 or 2: draw so that the surprise of the text stays near mirostat_tau; of the other steps only
            `temperature` is left unless `samplers` names some (arXiv:2007.14966).
        mirostat_tau: bits of surprise.
        mirostat_eta: learning rate.
        adaptive_target: probability near which the step `adaptive_p` draws; below 0 for none.
        adaptive_decay: of what the tokens before count for.
        min_keep: tokens that typical_p, top_p, min_p and xtc keep at least.
        samplers: names of steps in their order, or one string with these between semicolons: penalties, dry,
            top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature, which is the default; adaptive_p, infill.
        logit_bias: numbers that are added to the logits of tokens, by their ids; -inf excludes a token.
        penalize_prompt: whether repetitions of the prompt count.
        tokenizer: of the model; needed for sequence breakers and infill.
        constraint: Constraint, or None.

    Attributes:
        ids: the tokens so far.
        history: those of them whose repetitions count.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    seed: int | None = None
    logits_filter: Filter | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: Sequence[str] = ("\n", ":", '"', "*")
    top_n_sigma: float = -1.0
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    min_keep: int = 0
    samplers: str | Sequence[str] | None = None
    logit_bias: Mapping[int, float] | None = None
    penalize_prompt: bool = True
    tokenizer: Any = field(default=None, repr=False)
    constraint: Constraint | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, (low, high) in NUMBERS.items():
            value = getattr(self, name)
            kinds = (int, np.integer) if isinstance(high, int) else (int, float, np.number)
            if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
                kind = "an integer" if isinstance(high, int) else "a number"
                raise ValueError(f"generate: {name} is {value!r}: need {kind} from {low} to {high}")
        seed = self.seed
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < -1):
            raise ValueError(f"generate: seed is {str(seed)[:60]}: need an integer from -1, or None")
        if self.logits_filter is not None and not callable(self.logits_filter):
            raise TypeError(f"generate: logits_filter is {self.logits_filter!r}: need a function")
        breakers = self.dry_sequence_breakers
        if not isinstance(breakers, (list, tuple)) or not all(isinstance(text, str) for text in breakers):
            raise TypeError(f"generate: dry_sequence_breakers is {breakers!r}: need a list of strings")
        self.seed_used = secrets.randbits(32) if seed in NEW_SEEDS else int(seed)
        self._random = Generator(self.seed_used)
        self._bias = biases(self.logit_bias)
        self.ids: list[int] = []
        self.history: list[int] = self.ids
        self.n_vocab = 0
        self.steps: list[Step] = [STEPS[name](self) for name in self._names() if STEPS[name].on(self)]
        names = [step.name for step in self.steps]
        begin = next(i for i in range(len(names) + 1) if set(names[i:]) <= set(QUICK))
        in_order = names[begin:] == [name for name in QUICK if name in names[begin:]]
        if not in_order or self.dynatemp_range or self.min_keep > 1:
            begin = len(names)
        self._slow, quick = self.steps[:begin], names[begin:]
        neutral = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}
        self._quick = [max(0, getattr(self, name)) if name in quick else neutral[name] for name in QUICK]

    def _names(self) -> list[str]:
        """The steps' names in their order."""
        given = self.samplers
        if given is None:
            names = ["temperature"] if self.mirostat else list(DEFAULT)
        else:
            if not isinstance(given, (str, list, tuple)):
                raise TypeError(f"generate: samplers is {given!r}: need a list of names, or a string")
            names = given.split(";") if isinstance(given, str) else list(given)
            names = [OTHER_NAMES.get(name, name) for name in names if name]
        wrong = [name for name in names if name not in STEPS or name == "mirostat"]
        if wrong:
            known = ", ".join(name for name in STEPS if name != "mirostat")
            raise ValueError(f"generate: samplers has {wrong[0]!r}: need some of {known}")
        if "adaptive_p" in names:  # it draws: it comes last
            names = [name for name in names if name != "adaptive_p"] + ["adaptive_p"]
        return [*names, "mirostat"] if self.mirostat else names

    def __call__(self, logits: np.ndarray) -> int:
        """The id of the next token.

        Args:
            logits: f32 [n_vocab]; not changed.
        Returns:
            A token id; `accept` takes note of it.
        Raises:
            ValueError: all tokens are excluded, or logits_filter returned an array of another size.
        """
        logits = self.mask(logits)
        if self._slow:
            self.n_vocab = logits.size
            c = Candidates(logits)
            if not self._best(logits) > -np.inf:
                raise ValueError("generate: logits_filter excluded all tokens")
            for step in self._slow:
                index = step.apply(c)
                if index is not None:
                    return c.token(index)
            logits = np.ascontiguousarray(c.logits)
        else:
            c = None
        top_k, top_p, min_p, temperature = self._quick
        random = self._random.double() if temperature else 0.0
        index = choose(logits, temperature, top_k, top_p, min_p, random)
        return index if c is None else c.token(index)

    @staticmethod
    def _best(logits: np.ndarray) -> float:
        """The largest logit."""
        best = float(logits.max()) if logits.size else -math.inf
        if math.isnan(best) or best == math.inf:
            raise ValueError(
                f"generate: the largest logit is {best}: need finite weights, and a filter that keeps them so"
            )
        return best

    def mask(self, logits: np.ndarray) -> np.ndarray:
        """The logits that the steps begin with: after logit_bias, logits_filter and the constraint.

        Args:
            logits: f32 [n_vocab]; not changed.
        Returns:
            f32 [n_vocab], contiguous; the same array if there is nothing to change.
        """
        values = np.ascontiguousarray(logits, np.float32)
        if self.logits_filter is not None:
            own = values.copy()
            changed = self.logits_filter(list(self.ids), own)
            values = np.ascontiguousarray(own if changed is None else changed, np.float32)
            if values.shape != logits.shape:
                raise ValueError(f"generate: logits_filter returned an array {values.shape}: need {logits.shape}")
        if self._bias is not None or self.constraint is not None:
            values = values.copy()
        if self._bias is not None:
            index, amounts = self._bias
            if index.size and index.max() >= values.size:
                raise ValueError(
                    f"generate: logit_bias: token {index.max()} does not exist: need 0 to {values.size - 1}"
                )
            values[index] += amounts
        if self.constraint is not None:
            self.constraint.mask(values)
        return values

    def prepare(self) -> None:
        """Lets the constraint compute its next mask while the logits are computed."""
        if self.constraint is not None:
            self.constraint.prepare()

    def prime(self, ids: Sequence[int]) -> None:
        """Sets the tokens so far: those of a prompt."""
        self.ids = list(ids)
        self.history = self.ids if self.penalize_prompt else []

    def accept(self, token: int) -> None:
        """Takes note of the token that comes next."""
        self.ids.append(token)
        if self.history is not self.ids:
            self.history.append(token)
        for step in self.steps:
            step.accept(token)
        if self.constraint is not None:
            self.constraint.accept(token)

    def forced(self) -> list[int]:
        """The tokens that the constraint allows alone, one after the other; they are not accepted yet."""
        return self.constraint.forced() if self.constraint is not None else []

    def done(self) -> bool:
        """Whether the constraint ends the text here."""
        return self.constraint is not None and self.constraint.done()


def biases(given: Mapping[int, float] | None) -> tuple[np.ndarray, np.ndarray] | None:
    """The tokens of logit_bias and what is added to their logits, None for none."""
    if not given:
        return None
    try:
        found = {int(token): float(value) for token, value in given.items()}
    except (TypeError, ValueError, AttributeError):
        raise TypeError(f"generate: logit_bias is {str(given)[:60]}: need a dict of numbers by token ids") from None
    if min(found) < 0 or any(math.isnan(value) or value == math.inf for value in found.values()):
        raise ValueError(f"generate: logit_bias is {str(given)[:60]}: need ids from 0, and numbers or -inf")
    return np.array(list(found)), np.array(list(found.values()), np.float32)


SETTINGS = tuple(f.name for f in fields(Sampler))


def file_settings(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a sampler that a file recommends (`general.sampling.*`)."""
    found = {setting: metadata.get("general.sampling." + key) for key, setting in FILE_KEYS.items()}
    return {setting: value for setting, value in found.items() if value is not None}


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """The logarithms of the probabilities, by rows, in float64."""
    values = logits.astype(np.float64)
    values -= values.max(-1, keepdims=True)
    return values - np.log(np.exp(values).sum(-1, keepdims=True))
