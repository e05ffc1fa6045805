"""The steps of a sampler: each changes the tokens that may be drawn, or their logits.

Names, defaults and results are those of llama.cpp. A step is made of the sampler's settings; where these turn it off,
it is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from .choice import largest

if TYPE_CHECKING:
    from .chain import Sampler

FEW = 256  # tokens that are sorted first; most often they have enough of the probability
LONGEST_BREAKER, LONGEST_TAIL = 40, 20  # bytes of a sequence breaker, tokens after its first one
LOG_MAX_FLOAT = 88.7228391  # log(FLT_MAX), rounded down


class Generator:
    """Random numbers of the C++ standard library's Mersenne Twister, as llama.cpp draws them.

    Args:
        seed: the state: below 2^32 that of `std::mt19937(seed)`.
    """

    def __init__(self, seed: int) -> None:
        words = [seed >> shift & 0xFFFFFFFF for shift in range(0, max(seed.bit_length(), 1), 32)]
        self._random = np.random.RandomState(words[0] if len(words) == 1 else words)

    def double(self) -> float:
        """A number from 0 to 1, of 64 bits: `std::uniform_real_distribution<double>`."""
        return min(int.from_bytes(self._random.bytes(8), "little") / 2.0**64, 1 - 2.0**-53)

    def single(self) -> float:
        """A number from 0 to 1, of 32 bits: `std::uniform_real_distribution<float>`."""
        return min(float(np.float32(int.from_bytes(self._random.bytes(4), "little")) / 2.0**32), 1 - 2.0**-24)


class Candidates:
    """Tokens that may be drawn.

    Attributes:
        logits: f32 [n].
        ids: i64 [n], or None for all tokens in the order of their ids.
        sorted: whether the largest logit comes first.
        p: f64 [n], their probabilities, or None where the logits have changed since.
    """

    def __init__(self, logits: np.ndarray) -> None:
        self.logits = logits
        self.ids: np.ndarray | None = None
        self.sorted = False
        self.p: np.ndarray | None = None
        self._own = False

    def __len__(self) -> int:
        return self.logits.size

    def keep(self, index: np.ndarray | slice, sorted: bool) -> None:
        """Keeps the tokens at some indices, in this order."""
        self.ids = np.arange(self.logits.size)[index] if self.ids is None else self.ids[index]
        self.logits, self._own = self.logits[index].copy(), True
        self.p = None if self.p is None else self.p[index]
        self.sorted = sorted

    def writable(self) -> np.ndarray:
        """The logits, to be changed in place."""
        if not self._own:
            self.logits, self._own = self.logits.copy(), True
        self.p = None
        return self.logits

    def places(self, tokens: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs of a token and its index, of those among `tokens` that may be drawn."""
        if self.ids is None:
            bad = [token for token in tokens if not 0 <= token < self.logits.size]
            if bad:
                raise IndexError(f"Sampler: token {bad[0]} does not exist: need 0 to {self.logits.size - 1}")
            return [(token, token) for token in tokens]
        wanted = set(tokens)
        return [(token, i) for i, token in enumerate(self.ids.tolist()) if token in wanted]

    def sort(self, k: int | None = None) -> None:
        """Keeps the k tokens of the largest logits, all by default; of equal ones the first come first."""
        if self.sorted:
            if k is not None and k < len(self):
                self.keep(slice(k), True)
            return
        self.keep(self.best(len(self) if k is None else k), True)

    def best(self, k: int) -> np.ndarray:
        """The indices of the k largest logits."""
        if k < self.logits.size // 2:
            index = largest(np.ascontiguousarray(self.logits), k)[0]
            if len(index) == k:
                return np.array(index)
        return np.argsort(-self.logits, kind="stable")[:k]

    def softmax(self) -> np.ndarray:
        """Computes the probabilities."""
        p = np.exp(self.logits.astype(np.float64) - self.logits.max())
        self.p = p / p.sum()
        return self.p

    def entropy(self) -> float:
        """The entropy of the probabilities, in nats."""
        p = self.softmax()
        p = p[p > 0]
        return float(-(p * np.log(p)).sum())

    def draw(self, random: float) -> int:
        """The index of a token, drawn by a random number from 0 to 1."""
        p = np.exp(self.logits.astype(np.float64) - self.logits.max()).cumsum()
        return min(int(np.searchsorted(p, random * p[-1])), int(np.searchsorted(p, p[-1])))

    def token(self, index: int) -> int:
        """The token at an index."""
        return index if self.ids is None else int(self.ids[index])


def drawn(c: Candidates, random: Generator) -> int:
    """The index of a token, drawn as by `std::discrete_distribution`: without a number if there is one token only."""
    return c.draw(random.double()) if len(c) > 1 else 0


class Step:
    """One step of a sampler, whose settings it reads."""

    name = ""

    def __init__(self, s: Sampler) -> None:
        self.s = s

    @staticmethod
    def on(s: Sampler) -> bool:
        """Whether these settings change anything."""
        raise NotImplementedError

    def apply(self, c: Candidates) -> int | None:
        """Changes the candidates; a step that draws returns the index of the token."""
        raise NotImplementedError

    def accept(self, token: int) -> None:
        """Takes note of the token that was chosen."""


def recent(ids: Sequence[int], count: int) -> Sequence[int]:
    """The last tokens; -1 for all."""
    return ids if count < 0 else ids[-count:] if count else ()


class Penalties(Step):
    """Makes recent tokens less likely: logits divided or multiplied by a factor, less an amount for each occurrence."""

    name = "penalties"

    @staticmethod
    def on(s: Sampler) -> bool:
        return s.repeat_last_n != 0 and (s.repeat_penalty != 1 or s.frequency_penalty != 0 or s.presence_penalty != 0)

    def apply(self, c: Candidates) -> None:
        s = self.s
        counts = Counter(recent(s.history, s.repeat_last_n))
        places = c.places(list(counts))
        if places:
            logits, index = c.writable(), [i for _, i in places]
            values = logits[index]
            values = np.where(values <= 0, values * np.float32(s.repeat_penalty), values / np.float32(s.repeat_penalty))
            found = np.array([counts[token] for token, _ in places], np.float32)
            logits[index] = values - (found * np.float32(s.frequency_penalty) + np.float32(s.presence_penalty))
            c.sorted = False


_breakers: WeakKeyDictionary[Any, dict[tuple[str, ...], dict[int, list[list[int]]]]] = WeakKeyDictionary()


def breaker_tokens(tokenizer: Any, breakers: Sequence[str]) -> Mapping[int, list[list[int]]]:
    """The tokens with which a sequence breaker can begin, each with the tokens that complete it; none if it has all."""
    known = _breakers.setdefault(tokenizer, {})
    key = tuple(breakers)
    if key in known:
        return known[key]
    found: dict[int, list[list[int]]] = {}
    texts = [text for text in (breaker.encode()[:LONGEST_BREAKER] for breaker in breakers) if text]
    pieces = [tokenizer.piece(token, True) for token in range(tokenizer.n_vocab)]
    for text in texts:
        for token, piece in enumerate(pieces):
            if text in piece:
                found.setdefault(token, []).append([])
                continue
            for size in range(1, min(len(piece) + 1, len(text))):
                if piece.endswith(text[:size]):
                    tail = tokenizer.encode(text[size:], add_bos=False)[:LONGEST_TAIL]
                    if tail not in found.setdefault(token, []):
                        found[token].append(tail)
    known[key] = found
    return found


class Dry(Step):
    """Makes tokens less likely that would continue a repetition: the longer it is, the less.

    A penalty of multiplier * base^(length - allowed length) for a repetition of that length. No repetition goes beyond
    a sequence breaker.
    """

    name = "dry"

    def __init__(self, s: Sampler) -> None:
        super().__init__(s)
        if s.dry_sequence_breakers and s.tokenizer is None:
            raise ValueError("generate: dry_sequence_breakers: need a vocabulary: a file that has one, or tokenizer=")
        self._breakers = breaker_tokens(s.tokenizer, s.dry_sequence_breakers) if s.dry_sequence_breakers else {}

    @staticmethod
    def on(s: Sampler) -> bool:
        return s.dry_multiplier != 0 and s.dry_base >= 1 and s.dry_penalty_last_n != 0

    def apply(self, c: Candidates) -> None:
        s = self.s
        back = list(recent(s.history, s.dry_penalty_last_n))[::-1]  # the last token first
        if len(back) <= s.dry_allowed_length:
            return
        limit = self._limit(back)
        if limit < s.dry_allowed_length:
            return
        longest: dict[int, int] = {}
        for k, length in enumerate(common_beginnings(back)):
            length = min(length, limit)
            if k and length >= s.dry_allowed_length:
                longest[back[k - 1]] = max(length, longest.get(back[k - 1], 0))
        most = int(LOG_MAX_FLOAT / math.log(s.dry_base)) if s.dry_base > 1.000001 else 0
        for token, i in c.places(list(longest)):
            if [] not in self._breakers.get(token, ()):
                power = longest[token] - s.dry_allowed_length
                c.writable()[i] -= np.float32(s.dry_multiplier * s.dry_base ** (min(power, most) if most else power))
                c.sorted = False

    def _limit(self, back: list[int]) -> int:
        """How many of the last tokens follow the last sequence breaker."""
        for i, token in enumerate(back):
            tails = [tail for tail in self._breakers.get(token, ()) if len(tail) <= i]
            found = [len(tail) for tail in tails if tail == back[i - len(tail) : i][::-1]]
            if found:
                return i - max(found)
        return len(back)


def common_beginnings(items: Sequence[int]) -> list[int]:
    """For each place of a sequence, how many items from there on equal its first ones: the Z-algorithm."""
    n = len(items)
    found, left, right = [0] * n, 0, 0
    for k in range(1, n):
        length = min(right - k, found[k - left]) if k < right else 0
        while k + length < n and items[length] == items[k + length]:
            length += 1
        found[k] = length
        if k + length > right:
            left, right = k, k + length
    return found


class TopNSigma(Step):
    """Keeps tokens whose logits are at most n standard deviations below the largest (arXiv:2411.07641)."""

    name = "top_n_sigma"

    @staticmethod
    def on(s: Sampler) -> bool:
        return s.top_n_sigma > 0

    def apply(self, c: Candidates) -> None:
        if len(c) > 1:
            finite = c.logits[c.logits > -np.inf].astype(np.float64)
            least = finite.max() - self.s.top_n_sigma * finite.std()
            logits = c.writable()
            logits[logits < least] = -np.inf


class TopK(Step):
    """Keeps the k best tokens."""

    name = "top_k"

    @staticmethod
    def on(s: Sampler) -> bool:
        return s.top_k > 0

    def apply(self, c: Candidates) -> None:
        c.sort(self.s.top_k)


class Typical(Step):
    """Keeps the tokens of the most usual surprise, with a probability of p in sum (arXiv:2202.00666)."""

    name = "typ_p"

    @staticmethod
    def on(s: Sampler) -> bool:
        return s.typical_p < 1

    def apply(self, c: Candidates) -> None:
        c.sort()
        entropy = c.entropy()
        p = c.softmax()
        with np.errstate(divide="ignore"):
            order = np.argsort(abs(-np.log(p) - entropy), kind="stable")
        found = int(np.searchsorted(p[order].cumsum(), self.s.typical_p, "right")) + 1
        c.keep(order[: max(found, self.s.min_keep)], False)


class TopP(Step):
    """Keeps the best tokens with a probability of p in sum (arXiv:1904.09751)."""

    name = "top_p"

    @staticmethod
    def on(s: Sampler) -> bool:
        return s.top_p < 1

    def apply(self, c: Candidates) -> None:
        p, least = c.softmax(), self.s.min_keep
        if not c.sorted and len(c) > 4 * max(FEW, least):
            few = c.best(FEW)
            if p[few].sum() >= self.s.top_p:
                c.keep(few, True)
        c.sort()
        assert c.p is not None
        found = int(np.searchsorted(c.p.cumsum(), self.s.top_p)) + 1
        c.keep(slice(max(found, least)), True)


class MinP(Step):
    """Keeps tokens with a share of the best one's probability (arXiv:2407.01082)."""

    name = "min_p"

    @staticmethod
    def on(s: Sampler) -> bool:
        return s.min_p > 0

    def apply(self, c: Candidates) -> None:
        kept = np.flatnonzero(c.logits >= c.logits.max() + np.float32(math.log(self.s.min_p)))
        if kept.size < self.s.min_keep:
            c.sort()
            kept = np.arange(min(self.s.min_keep, len(c)))
        c.keep(kept, c.sorted)


class Xtc(Step):
    """Excludes, with some probability, the best tokens except the least likely of those above a threshold."""

    name = "xtc"

    def __init__(self, s: Sampler) -> None:
        super().__init__(s)
        self._random = Generator(s.seed_used)

    @staticmethod
    def on(s: Sampler) -> bool:
        return s.xtc_probability > 0 and s.xtc_threshold <= 0.5

    def apply(self, c: Candidates) -> None:
        if len(c) < 2 or self._random.single() > self.s.xtc_probability:
            return
        c.sort()
        first = int((c.softmax() >= self.s.xtc_threshold).sum()) - 1
        if first > 0 and len(c) - first >= self.s.min_keep:
            c.keep(slice(first, None), True)


class Temperature(Step):
    """Divides the logits: by less where the distribution has little entropy, if there is a range."""

    name = "temperature"

    @staticmethod
    def on(s: Sampler) -> bool:
        return s.temperature != 1 or s.dynatemp_range > 0

    def apply(self, c: Candidates) -> None:
        s, value = self.s, self.s.temperature
        if s.dynatemp_range > 0:
            if len(c) < 2:
                return
            low, high = max(0.0, value - s.dynatemp_range), value + s.dynatemp_range
            value = low + (high - low) * (c.entropy() / math.log(len(c))) ** s.dynatemp_exponent
        logits = c.writable()
        if value <= 0:
            best = int(logits.argmax())
            kept = logits[best]
            logits[:] = -np.inf
            logits[best] = kept
        else:
            logits /= np.float32(value)


class Infill(Step):
    """For a text between two others: prefers to end it, and joins tokens that begin with one another."""

    name = "infill"
    least = 0.2  # probability

    def __init__(self, s: Sampler) -> None:
        super().__init__(s)
        if s.tokenizer is None:
            raise ValueError("generate: samplers has 'infill': need a vocabulary: a file that has one, or tokenizer=")

    @staticmethod
    def on(s: Sampler) -> bool:
        return True

    def apply(self, c: Candidates) -> None:
        tokenizer = self.s.tokenizer
        c.sort()
        p = c.softmax().copy()
        ids = c.ids.tolist()  # type: ignore[union-attr]
        ends = np.array([token in tokenizer.eog for token in ids])
        if 3 * p[ends].sum() * len(c) > p[~ends].sum():
            c.keep(np.flatnonzero(ends), True)
            return
        self._join([tokenizer.piece(token) for token in ids], p, c.writable())
        kept = (p >= self.least) | ends
        if not (kept & ~ends).any():
            end = tokenizer.eos if tokenizer.eot is None else tokenizer.eot
            if end is None:
                raise ValueError("generate: samplers has 'infill': need a vocabulary with a token that ends a text")
            c.ids, c.logits, c.p, c.sorted = np.array([end]), np.ones(1, np.float32), None, True
            return
        p /= p[kept].sum()
        kept &= (p >= 1 / (int((kept & ~ends).sum()) + 1)) | ends
        c.keep(np.flatnonzero(kept), False)

    @staticmethod
    def _join(pieces: list[bytes], p: np.ndarray, logits: np.ndarray) -> None:
        """Gives the more likely of two tokens, of which one begins with the other, the probability of both."""
        begins: dict[bytes, list[int]] = {}
        for i, piece in enumerate(pieces):
            for size in range(1, len(piece) + 1):
                begins.setdefault(piece[:size], []).append(i)
        for i, piece in enumerate(pieces):
            for j in begins.get(piece, ()) if piece else ():
                if logits[i] == -np.inf:
                    break
                if i != j and logits[j] != -np.inf:
                    into, out = (j, i) if p[j] > p[i] else (i, j)
                    p[into] += p[out]
                    p[out], logits[out] = 0, -np.inf


class AdaptiveP(Step):
    """Draws tokens whose probabilities are near a target, on average over the last ones."""

    name = "adaptive_p"
    width, peak, sharpness = 0.3, 5.0, 10.0

    def __init__(self, s: Sampler) -> None:
        super().__init__(s)
        self._random = Generator(s.seed_used)
        rest = 1 - s.adaptive_decay
        self._sum, self._weight = s.adaptive_target / rest, 1 / rest
        self._drawn: tuple[int, float] | None = None

    @staticmethod
    def on(s: Sampler) -> bool:
        return True

    def apply(self, c: Candidates) -> int:
        target, p = self.s.adaptive_target, c.softmax()
        if target < 0:
            return drawn(c, self._random)
        target = min(max(2 * min(target, 1) - self._sum / self._weight, 0), 1)
        distance = abs(p - target) / self.width
        logits = c.writable()
        logits[:] = np.where(logits == -np.inf, logits, self.peak - self.sharpness * distance**2 / (1 + distance))
        index = drawn(c, self._random)
        self._drawn = c.token(index), float(p[index])
        c.sorted = False
        return index

    def accept(self, token: int) -> None:
        if self._drawn is not None and self._drawn[0] == token:
            self._sum = self._drawn[1] + self.s.adaptive_decay * self._sum
            self._weight = 1 + self.s.adaptive_decay * self._weight
        self._drawn = None


class Mirostat(Step):
    """Draws a token so that the surprise of the text stays near tau (arXiv:2007.14966)."""

    name = "mirostat"
    count = 100  # of tokens of which version 1 estimates the exponent of Zipf's law

    def __init__(self, s: Sampler) -> None:
        super().__init__(s)
        self._random = Generator(s.seed_used)
        self._most = 2 * s.mirostat_tau

    @staticmethod
    def on(s: Sampler) -> bool:
        return s.mirostat != 0

    def apply(self, c: Candidates) -> int:
        n_vocab = self.s.n_vocab
        c.sort()
        p = c.softmax()
        if self.s.mirostat == 1:
            c.keep(slice(self._kept(p, n_vocab)), True)
        else:
            kept = int((p >= 2.0**-self._most).sum())
            c.keep(slice(max(kept, 1)), True)
        index = drawn(c, self._random)
        surprise = -math.log2(float(c.softmax()[index]))
        self._most -= self.s.mirostat_eta * (surprise - self.s.mirostat_tau)
        return index

    def _kept(self, p: np.ndarray, n_vocab: int) -> int:
        """How many tokens version 1 keeps."""
        best = p[: self.count]
        best = best[best > 0]
        if best.size < 2:
            return 1
        t = np.log(np.arange(2, best.size + 1) / np.arange(1, best.size))
        exponent = float((t * np.log(best[:-1] / best[1:])).sum() / (t * t).sum())
        excess = exponent - 1
        try:
            k = (excess * 2**self._most / (1 - n_vocab**-excess)) ** (1 / exponent)
        except (ZeroDivisionError, OverflowError):
            return p.size
        return 1 if isinstance(k, complex) or math.isnan(k) else int(min(max(k, 1), p.size))


STEPS: dict[str, type[Step]] = {
    step.name: step
    for step in (Penalties, Dry, TopNSigma, TopK, Typical, TopP, MinP, Xtc, Temperature, Infill, AdaptiveP, Mirostat)
}
# In this order, except where `samplers` says otherwise.
DEFAULT = "penalties dry top_n_sigma top_k typ_p top_p min_p xtc temperature".split()
OTHER_NAMES = {"typical_p": "typ_p", "typical": "typ_p", "typ": "typ_p", "temp": "temperature", "nucleus": "top_p",
               "top-k": "top_k", "top-p": "top_p", "min-p": "min_p", "top-n-sigma": "top_n_sigma", "typ-p": "typ_p",
               "typical-p": "typ_p", "adaptive-p": "adaptive_p"}  # fmt: skip
QUICK = "top_k top_p min_p temperature".split()  # which `choose` does in one pass, where they come in this order
