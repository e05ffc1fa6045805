"""The functions `llama_sampler_*` of llama.h: chains of steps that choose a token.

A sampler is a Python object. `llama_sampler_apply` changes a `llama_token_data_array`; `llama_sampler_sample` reads the
logits of a context. The steps are those of `ggml.models.Sampler`.
"""

from __future__ import annotations

import copy
import ctypes
import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._errors import named
from ..sample import chain, constraint
from ..sample.steps import Candidates, Generator, drawn
from .contexts import (
    context_of,
    llama_get_logits_ith,
    llama_token,
    llama_token_data,
    llama_token_data_array,
    structure_of,
    tokenizer_of,
)

DEFAULT_SEED = chain.RANDOM_SEED
RECORD = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])  # llama_token_data
MOST_CANDIDATES = 1 << 28


# ---- structures ------------------------------------------------------------------------------------------------------
class llama_sampler_chain_params(ctypes.Structure):  # noqa: N801 - the names of llama.h
    """How a chain is made."""

    _fields_ = [("no_perf", ctypes.c_bool)]


class llama_logit_bias(ctypes.Structure):  # noqa: N801
    """A number that is added to the logit of a token."""

    _fields_ = [("token", llama_token), ("bias", ctypes.c_float)]


class llama_perf_sampler_data(ctypes.Structure):  # noqa: N801
    """Milliseconds and number of the tokens that a chain chose."""

    _fields_ = [("t_sample_ms", ctypes.c_double), ("n_sample", ctypes.c_int32)]


class llama_sampler(ctypes.Structure):  # noqa: N801
    """What functions of a sampler of a program's own are called with."""

    _fields_ = [("iface", ctypes.c_void_p), ("ctx", ctypes.c_void_p)]


llama_token_data_p, llama_token_data_array_p = ctypes.POINTER(llama_token_data), ctypes.POINTER(llama_token_data_array)
llama_logit_bias_p, llama_sampler_context_t = ctypes.POINTER(llama_logit_bias), ctypes.c_void_p
llama_sampler_p_ctypes = ctypes.POINTER(llama_sampler)
llama_sampler_i_name = ctypes.CFUNCTYPE(ctypes.c_char_p, llama_sampler_p_ctypes)
llama_sampler_i_accept = ctypes.CFUNCTYPE(None, llama_sampler_p_ctypes, llama_token)
llama_sampler_i_apply = ctypes.CFUNCTYPE(None, llama_sampler_p_ctypes, llama_token_data_array_p)
llama_sampler_i_reset = llama_sampler_i_free = ctypes.CFUNCTYPE(None, llama_sampler_p_ctypes)
llama_sampler_i_clone = ctypes.CFUNCTYPE(llama_sampler_p_ctypes, llama_sampler_p_ctypes)


class llama_sampler_i(ctypes.Structure):  # noqa: N801
    """Functions of a sampler of a program's own."""

    _fields_ = [
        ("name", llama_sampler_i_name),
        ("accept", llama_sampler_i_accept),
        ("apply", llama_sampler_i_apply),
        ("reset", llama_sampler_i_reset),
        ("clone", llama_sampler_i_clone),
        ("free", llama_sampler_i_free),
        *((name, ctypes.c_void_p) for name in ("backend_init", "backend_accept", "backend_apply", "backend_set_input",
                                               "backend_reset", "copy_state")),
    ]  # fmt: skip


# ---- kinds of samplers -----------------------------------------------------------------------------------------------
class LowSampler:
    """What the functions llama_sampler_init_* return.

    Attributes:
        name: as llama.cpp calls it.
        seed: of the random numbers, DEFAULT_SEED if it draws none.
        freed: whether it must not be used any more.
    """

    name, seed, freed = "", DEFAULT_SEED, False

    def apply(self, c: Candidates) -> int | None:
        """Changes the candidates; returns the index of the token if it chooses one."""
        raise NotImplementedError

    def accept(self, token: int) -> None:
        """Takes note of the token that was chosen."""

    def reset(self) -> None:
        """Forgets the tokens so far."""

    def clone(self) -> LowSampler:
        """The same with a state of its own."""
        return copy.copy(self)

    def free(self) -> None:
        """Nothing may be done with it after this."""
        self.freed = True


class Greedy(LowSampler):
    """Chooses the best token."""

    name = "greedy"

    def apply(self, c: Candidates) -> int:
        return int(c.logits.argmax())


class Dist(LowSampler):
    """Draws a token."""

    name = "dist"

    def __init__(self, seed: int) -> None:
        self._given = seed
        self.reset()

    def reset(self) -> None:
        self.seed = chain.Sampler(seed=self._given, samplers=[]).seed_used
        self._random = Generator(self.seed)

    def apply(self, c: Candidates) -> int:
        index = drawn(c, self._random)
        c.softmax()
        return index

    def clone(self) -> LowSampler:
        return copy.deepcopy(self)


class OneStep(LowSampler):
    """A step of ggml.models.Sampler.

    Args:
        caller: name of the function called.
        name: as llama.cpp calls it.
        step: name of the step, None for Mirostat.
        settings: of the Sampler.
    """

    def __init__(self, caller: str, name: str, step: str | None, n_vocab: int = 0, **settings: Any) -> None:
        self._settings = {**settings, "samplers": [] if step is None else [step]}
        self._n_vocab, self._draws = n_vocab, "seed" in settings and step != "xtc" and step != "adaptive_p"
        with named(caller):
            self.reset()
        self.name = name if self._sampler.steps else "?" + name

    def reset(self) -> None:
        self._sampler = chain.Sampler(**self._settings)
        self._sampler.n_vocab = self._n_vocab
        self.seed = self._sampler.seed_used if self._draws else DEFAULT_SEED

    def apply(self, c: Candidates) -> int | None:
        return self._sampler.steps[0].apply(c) if self._sampler.steps else None

    def accept(self, token: int) -> None:
        self._sampler.accept(token)

    def clone(self) -> LowSampler:
        tokenizer = self._settings.get("tokenizer")
        return copy.deepcopy(self, {id(tokenizer): tokenizer})


class Bias(LowSampler):
    """Adds numbers to the logits of tokens."""

    def __init__(self, biases: dict[int, float]) -> None:
        self._biases, self.name = biases, "logit-bias" if biases else "?logit-bias"

    def apply(self, c: Candidates) -> None:
        known = [token for token in self._biases if c.ids is not None or 0 <= token < len(c)]
        for token, i in c.places(known):
            c.writable()[i] += np.float32(self._biases[token])
            c.sorted = False


class Grammar(LowSampler):
    """Excludes tokens that a grammar does not allow.

    Args:
        caller: name of the function called.
        tokenizer: Tokenizer.
        grammar: text in GBNF.
        root: name of its first rule.
        patterns: regular expressions of which one must match a text before the grammar counts, from what the first
            group matched on; none, and no tokens, for a grammar that counts from the beginning.
        tokens: ids that have the same effect.
    """

    name = "grammar"

    def __init__(self, caller: str, tokenizer: Any, grammar: str, root: str, patterns: Sequence[str] = (),
                 tokens: Sequence[int] = ()) -> None:  # fmt: skip
        if root != "root":
            if re.search(r"^\s*root\s*::=", grammar, re.MULTILINE):
                raise NotImplementedError(f"{caller}: grammar_root is {root!r}, and there is a rule 'root': need that")
            grammar += f"\nroot ::= {root}\n"
        self._caller, self._tokenizer, self._text = caller, tokenizer, grammar
        self._patterns, self._triggers = [re.compile(pattern, re.DOTALL) for pattern in patterns], frozenset(tokens)
        self._lazy = bool(self._patterns or self._triggers)
        self.reset()

    def reset(self) -> None:
        limited = constraint.constrained(self._caller, self._tokenizer, {"grammar": self._text})
        assert limited is not None
        self._language, self._waiting, self._before = limited, self._lazy, b""
        self._accepted: list[int] = []

    def apply(self, c: Candidates) -> None:
        if self._waiting:
            return
        ids = np.arange(len(c)) if c.ids is None else c.ids
        values = np.full(self._tokenizer.n_vocab, -np.inf, np.float32)
        values[ids] = c.logits
        if self._language.done():
            ends = sorted(self._tokenizer.eog)
            kept = values[ends]
            values[:] = -np.inf
            values[ends] = kept
        else:
            self._language.mask(values)
        c.writable()[:] = values[ids]
        c.sorted = False

    def accept(self, token: int) -> None:
        self._accepted.append(token)
        if not self._waiting:
            self._language.accept(token)
            return
        piece = self._tokenizer.piece(token, True)
        if token in self._triggers:
            self._begin([token])
            return
        self._before += piece
        text = self._before.decode(errors="replace")
        for pattern in self._patterns:
            found = pattern.search(text)
            if found is not None:
                place = next((i for i in range(1, pattern.groups + 1) if found.start(i) >= 0), 0)
                self._begin(self._tokenizer.encode(text[found.start(place) :], add_bos=False, special=True))
                return

    def _begin(self, tokens: Sequence[int]) -> None:
        self._waiting = False
        for token in tokens:
            self._language.accept(token)

    def clone(self) -> LowSampler:
        other = copy.copy(self)
        other.reset()
        for token in self._accepted:
            other.accept(token)
        return other


class Chain(LowSampler):
    """Samplers one after the other; they are freed with it."""

    name = "chain"

    def __init__(self) -> None:
        self.parts: list[LowSampler] = []
        self.seconds, self.count = 0.0, 0

    def apply(self, c: Candidates) -> int | None:
        index = None
        for part in self.parts:
            found = part.apply(c)
            index = found if found is not None else index
        return index

    def accept(self, token: int) -> None:
        for part in self.parts:
            part.accept(token)

    def reset(self) -> None:
        for part in self.parts:
            part.reset()

    def clone(self) -> LowSampler:
        other = Chain()
        other.parts = [part.clone() for part in self.parts]
        return other

    def free(self) -> None:
        super().free()
        for part in self.parts:
            part.free()

    def has(self, other: LowSampler) -> bool:
        """Whether a sampler is this chain or a part of it."""
        return self is other or any(part is other or isinstance(part, Chain) and part.has(other) for part in self.parts)


class Own(LowSampler):
    """A sampler of a program: functions with the signatures of llama_sampler_i."""

    def __init__(self, iface: llama_sampler_i, context: Any) -> None:
        self._iface, self._kept = iface, llama_sampler(ctypes.addressof(iface), context)
        name = iface.name(ctypes.pointer(self._kept)) if iface.name else b"(null)"
        self.name = (name or b"(null)").decode(errors="replace")

    def apply(self, c: Candidates) -> int | None:
        records = np.zeros(len(c), RECORD)
        records["id"], records["logit"] = np.arange(len(c)) if c.ids is None else c.ids, c.logits
        if c.p is not None:
            records["p"] = c.p
        array = llama_token_data_array(records.ctypes.data_as(llama_token_data_p), len(c), -1, c.sorted)
        self._iface.apply(ctypes.pointer(self._kept), ctypes.pointer(array))
        if not 0 < array.size <= len(records):
            raise ValueError(f"llama_sampler_apply: {self.name} left {array.size} candidates of {len(records)}")
        left = records[: array.size]
        c.ids, c.logits, c.p, c.sorted = left["id"].astype(np.int64), left["logit"].copy(), None, bool(array.sorted)
        return array.selected if 0 <= array.selected < array.size else None

    def accept(self, token: int) -> None:
        if self._iface.accept:
            self._iface.accept(ctypes.pointer(self._kept), token)

    def reset(self) -> None:
        if self._iface.reset:
            self._iface.reset(ctypes.pointer(self._kept))

    def clone(self) -> LowSampler:
        if self._iface.clone:
            raise NotImplementedError("llama_sampler_clone: of a sampler with a function `clone` of its own")
        return Own(self._iface, self._kept.ctx)

    def free(self) -> None:
        super().free()
        if self._iface.free:
            self._iface.free(ctypes.pointer(self._kept))


# ---- functions -------------------------------------------------------------------------------------------------------
def _sampler(sampler: Any, caller: str) -> LowSampler:
    if not isinstance(sampler, LowSampler):
        raise TypeError(f"{caller}: the sampler is a {type(sampler).__name__}: need what llama_sampler_init_... gave")
    if sampler.freed:
        raise ValueError(f"{caller}: the sampler {sampler.name!r} was freed")
    return sampler


def _chain(sampler: Any, caller: str) -> Chain:
    found = _sampler(sampler, caller)
    if not isinstance(found, Chain):
        raise TypeError(f"{caller}: the sampler is {found.name!r}: need what llama_sampler_chain_init gave")
    return found


def llama_sampler_chain_default_params() -> llama_sampler_chain_params:
    """How a chain is made by default."""
    return llama_sampler_chain_params(no_perf=True)


def llama_sampler_chain_init(params: llama_sampler_chain_params | None = None) -> Chain:
    """A chain without samplers."""
    return Chain()


def llama_sampler_chain_add(chain: Chain, smpl: LowSampler) -> None:
    """Appends a sampler to a chain, which frees it."""
    own, part = _chain(chain, "llama_sampler_chain_add"), _sampler(smpl, "llama_sampler_chain_add")
    if isinstance(part, Chain) and part.has(own) or own.has(part):
        raise ValueError("llama_sampler_chain_add: the sampler is a part of the chain, or the chain of it")
    own.parts.append(part)


def llama_sampler_chain_n(chain: Chain) -> int:
    """The number of samplers of a chain."""
    return len(_chain(chain, "llama_sampler_chain_n").parts)


def llama_sampler_chain_get(chain: Chain, i: int) -> LowSampler | None:
    """A sampler of a chain, the chain itself for -1; None if there is none."""
    own = _chain(chain, "llama_sampler_chain_get")
    return own if i == -1 else own.parts[i] if 0 <= i < len(own.parts) else None


def llama_sampler_chain_remove(chain: Chain, i: int) -> LowSampler | None:
    """Takes a sampler out of a chain, which no longer frees it; None if there is none."""
    own = _chain(chain, "llama_sampler_chain_remove")
    return own.parts.pop(i) if 0 <= i < len(own.parts) else None


def llama_sampler_name(smpl: LowSampler) -> bytes:
    """The name of a sampler; it begins with "?" where its settings change nothing."""
    return _sampler(smpl, "llama_sampler_name").name.encode()


def llama_sampler_accept(smpl: LowSampler, token: int) -> None:
    """Tells a sampler which token was chosen."""
    _sampler(smpl, "llama_sampler_accept").accept(int(getattr(token, "value", token)))


def llama_sampler_reset(smpl: LowSampler) -> None:
    """Lets a sampler forget the tokens so far."""
    _sampler(smpl, "llama_sampler_reset").reset()


def llama_sampler_clone(smpl: LowSampler) -> LowSampler:
    """The same sampler with a state of its own."""
    return _sampler(smpl, "llama_sampler_clone").clone()


def llama_sampler_copy(src: LowSampler, dst: LowSampler) -> None:
    """Gives a sampler the state of another one of the same kind."""
    source, target = _sampler(src, "llama_sampler_copy"), _sampler(dst, "llama_sampler_copy")
    if type(source) is not type(target):
        raise TypeError(f"llama_sampler_copy: {source.name!r} to {target.name!r}: need samplers of one kind")
    vars(target).update(vars(source.clone()))


def llama_sampler_free(smpl: LowSampler | None) -> None:
    """Frees a sampler, and those of a chain."""
    if isinstance(smpl, LowSampler) and not smpl.freed:
        smpl.free()


def llama_sampler_get_seed(smpl: LowSampler) -> int:
    """The seed in use of a sampler, or of the last one of a chain that has one; else LLAMA_DEFAULT_SEED."""
    own = _sampler(smpl, "llama_sampler_get_seed")
    seeds = map(llama_sampler_get_seed, reversed(own.parts)) if isinstance(own, Chain) else [own.seed]
    return next((seed for seed in seeds if seed != DEFAULT_SEED), DEFAULT_SEED)


def llama_sampler_apply(smpl: LowSampler, cur_p: Any) -> None:
    """Changes candidates: an array, a pointer to one or a reference; `selected` is the place of the chosen one."""
    own = _sampler(smpl, "llama_sampler_apply")
    array = structure_of("llama_sampler_apply", cur_p, llama_token_data_array)
    if not array.data or not 0 < array.size <= MOST_CANDIDATES:
        raise ValueError(f"llama_sampler_apply: {array.size} candidates: need 1 to {MOST_CANDIDATES}")
    records = np.ctypeslib.as_array(array.data, (array.size,)).view(RECORD)
    c = Candidates(records["logit"].copy())
    c.ids, c.sorted = records["id"].astype(np.int64), bool(array.sorted)
    index = own.apply(c)
    assert c.ids is not None
    left = records[: len(c)]
    left["id"], left["logit"], left["p"] = c.ids, c.logits, 0 if c.p is None else c.p
    array.size, array.sorted = len(c), c.sorted
    if index is not None:
        array.selected = index


def llama_sampler_sample(smpl: LowSampler, ctx: Any, idx: int) -> int:
    """Chooses a token after token `idx` of the last batch (-1 for the last one), and lets the sampler accept it.

    Raises:
        ValueError: there are no such logits, or no sampler chooses.
    """
    own, context = _sampler(smpl, "llama_sampler_sample"), context_of(ctx, "llama_sampler_sample")
    pointer = llama_get_logits_ith(context, idx)
    if not pointer:
        raise ValueError(f"llama_sampler_sample: the last batch has no logits of token {idx}")
    begin = time.perf_counter()
    c = Candidates(np.ctypeslib.as_array(pointer, (context.model.config.n_vocab,)))
    index = own.apply(c)
    if index is None:
        raise ValueError(f"llama_sampler_sample: {own.name!r} chooses no token: need one such as greedy or dist")
    token = c.token(index)
    own.accept(token)
    if isinstance(own, Chain):
        own.seconds, own.count = own.seconds + time.perf_counter() - begin, own.count + 1
    return token


def llama_perf_sampler(chain: Chain) -> llama_perf_sampler_data:
    """Milliseconds and number of the tokens that llama_sampler_sample chose by a chain."""
    own = _chain(chain, "llama_perf_sampler")
    return llama_perf_sampler_data(own.seconds * 1e3, own.count)


def llama_perf_sampler_reset(chain: Chain) -> None:
    """Sets them to 0."""
    own = _chain(chain, "llama_perf_sampler_reset")
    own.seconds, own.count = 0.0, 0


def llama_sampler_init(iface: Any, ctx: Any = None) -> LowSampler:
    """A sampler of functions of the program: a llama_sampler_i, or a pointer to one."""
    own = structure_of("llama_sampler_init", iface, llama_sampler_i)
    if not own.apply:
        raise ValueError("llama_sampler_init: there is no function `apply`")
    return Own(own, ctx)


def llama_sampler_init_greedy() -> LowSampler:
    """Chooses the best token."""
    return Greedy()


def llama_sampler_init_dist(seed: int) -> LowSampler:
    """Draws a token."""
    with named("llama_sampler_init_dist"):
        return Dist(seed)


def _float(value: Any) -> float:
    """A number with the digits that a float of C has."""
    return float(np.float32(getattr(value, "value", value)))


def _share(value: Any) -> float:
    """A probability; what is outside of 0 to 1 means the nearer one."""
    return min(max(_float(value), 0.0), 1.0)


def llama_sampler_init_top_k(k: int) -> LowSampler:
    """Keeps the k best tokens."""
    return OneStep("llama_sampler_init_top_k", "top-k", "top_k", top_k=max(k, -1))


def llama_sampler_init_top_p(p: float, min_keep: int) -> LowSampler:
    """Keeps the best tokens with a probability of p in sum."""
    return OneStep("llama_sampler_init_top_p", "top-p", "top_p", top_p=_share(p), min_keep=min_keep)


def llama_sampler_init_min_p(p: float, min_keep: int) -> LowSampler:
    """Keeps tokens with a share of the best one's probability."""
    return OneStep("llama_sampler_init_min_p", "min-p", "min_p", min_p=_share(p), min_keep=min_keep)


def llama_sampler_init_typical(p: float, min_keep: int) -> LowSampler:
    """Keeps the tokens of the most usual surprise, with a probability of p in sum."""
    return OneStep("llama_sampler_init_typical", "typical", "typ_p", typical_p=_share(p), min_keep=min_keep)


def llama_sampler_init_temp(t: float) -> LowSampler:
    """Divides the logits; 0 and below leave the best one alone."""
    return OneStep("llama_sampler_init_temp", "temp", "temperature", temperature=_float(t))


def llama_sampler_init_temp_ext(t: float, delta: float, exponent: float) -> LowSampler:
    """The same with a range around t, in which the entropy chooses."""
    return OneStep("llama_sampler_init_temp_ext", "temp-ext", "temperature", temperature=_float(t),
                   dynatemp_range=max(_float(delta), 0.0), dynatemp_exponent=_float(exponent))  # fmt: skip


def llama_sampler_init_xtc(p: float, t: float, min_keep: int, seed: int) -> LowSampler:
    """Excludes, with probability p, the best tokens except the least likely of those above t."""
    return OneStep("llama_sampler_init_xtc", "xtc", "xtc", xtc_probability=_share(p), xtc_threshold=_share(t),
                   min_keep=min_keep, seed=seed)  # fmt: skip


def llama_sampler_init_top_n_sigma(n: float) -> LowSampler:
    """Keeps tokens whose logits are at most n standard deviations below the largest."""
    return OneStep("llama_sampler_init_top_n_sigma", "top-n-sigma", "top_n_sigma", top_n_sigma=_float(n))


def llama_sampler_init_mirostat(n_vocab: int, seed: int, tau: float, eta: float, m: int) -> LowSampler:
    """Draws a token so that the surprise of the text stays near tau; m is 100."""
    if m != 100:
        raise NotImplementedError(f"llama_sampler_init_mirostat: m is {m}: need 100")
    return OneStep("llama_sampler_init_mirostat", "mirostat", None, n_vocab, mirostat=1, seed=seed,
                   mirostat_tau=_float(tau), mirostat_eta=_float(eta))  # fmt: skip


def llama_sampler_init_mirostat_v2(seed: int, tau: float, eta: float) -> LowSampler:
    """Draws a token so that the surprise of the text stays near tau."""
    return OneStep("llama_sampler_init_mirostat_v2", "mirostat-v2", None, mirostat=2, seed=seed,
                   mirostat_tau=_float(tau), mirostat_eta=_float(eta))  # fmt: skip


def llama_sampler_init_penalties(
    n_vocab: int, penalty_last_n: int, penalty_repeat: float, penalty_freq: float, penalty_present: float
) -> LowSampler:
    """Makes recent tokens less likely; -1 tokens for all."""
    return OneStep("llama_sampler_init_penalties", "penalties", "penalties", repeat_last_n=max(penalty_last_n, -1),
                   repeat_penalty=_float(penalty_repeat), frequency_penalty=_float(penalty_freq),
                   presence_penalty=_float(penalty_present))  # fmt: skip


def llama_sampler_init_dry(
    vocab: Any, dry_multiplier: float, dry_base: float, dry_allowed_length: int, dry_penalty_last_n: int,
    seq_breakers: Any, num_breakers: int,
) -> LowSampler:  # fmt: skip
    """Makes tokens less likely that would continue a repetition; `seq_breakers` is an array of texts, or None."""
    caller = "llama_sampler_init_dry"
    breakers = [text.decode(errors="replace") for text in _texts(caller, seq_breakers, num_breakers)]
    return OneStep(caller, "dry", "dry", dry_multiplier=_float(dry_multiplier), dry_base=_float(dry_base),
                   dry_allowed_length=max(0, dry_allowed_length), dry_penalty_last_n=max(dry_penalty_last_n, -1),
                   dry_sequence_breakers=breakers, tokenizer=tokenizer_of(vocab, caller))  # fmt: skip


def llama_sampler_init_adaptive_p(target: float, decay: float, seed: int) -> LowSampler:
    """Draws tokens whose probabilities are near a target, on average."""
    return OneStep("llama_sampler_init_adaptive_p", "adaptive-p", "adaptive_p", seed=seed,
                   adaptive_target=min(max(_float(target), -1.0), 1.0),
                   adaptive_decay=min(max(_float(decay), 0.0), 0.99))  # fmt: skip


def llama_sampler_init_logit_bias(n_vocab: int, n_logit_bias: int, logit_bias: Any) -> LowSampler:
    """Adds numbers to the logits of tokens: an array of llama_logit_bias."""
    _require_room("llama_sampler_init_logit_bias", logit_bias, n_logit_bias)
    return Bias({logit_bias[i].token: logit_bias[i].bias for i in range(n_logit_bias)})


def llama_sampler_init_infill(vocab: Any) -> LowSampler:
    """For a text between two others: prefers to end it, and joins tokens that begin with one another."""
    tokenizer = tokenizer_of(vocab, "llama_sampler_init_infill")
    return OneStep("llama_sampler_init_infill", "infill", "infill", tokenizer=tokenizer)


def llama_sampler_init_grammar(vocab: Any, grammar_str: bytes, grammar_root: bytes) -> LowSampler:
    """Excludes tokens that a grammar (GBNF) does not allow; needs `llguidance`.

    Raises:
        ValueError: the grammar cannot be parsed.
    """
    return _grammar("llama_sampler_init_grammar", vocab, grammar_str, grammar_root)


def llama_sampler_init_grammar_lazy(
    vocab: Any, grammar_str: bytes, grammar_root: bytes, trigger_words: Any, num_trigger_words: int,
    trigger_tokens: Any, num_trigger_tokens: int,
) -> LowSampler:  # fmt: skip
    """The same from where one of some words or tokens occurs on."""
    caller = "llama_sampler_init_grammar_lazy"
    words = [re.escape(text.decode(errors="replace")) for text in _texts(caller, trigger_words, num_trigger_words)]
    tokens = _tokens(caller, trigger_tokens, num_trigger_tokens)
    return _grammar(caller, vocab, grammar_str, grammar_root, [f"({word})" for word in words], tokens)


def llama_sampler_init_grammar_lazy_patterns(
    vocab: Any, grammar_str: bytes, grammar_root: bytes, trigger_patterns: Any, num_trigger_patterns: int,
    trigger_tokens: Any, num_trigger_tokens: int,
) -> LowSampler:  # fmt: skip
    """The same from where one of some regular expressions matches, or one of some tokens occurs, on."""
    caller = "llama_sampler_init_grammar_lazy_patterns"
    patterns = [text.decode(errors="replace") for text in _texts(caller, trigger_patterns, num_trigger_patterns)]
    tokens = _tokens(caller, trigger_tokens, num_trigger_tokens)
    return _grammar(caller, vocab, grammar_str, grammar_root, patterns, tokens)


def _grammar(
    caller: str, vocab: Any, grammar: bytes, root: bytes, patterns: Sequence[str] = (), tokens: Sequence[int] = ()
) -> LowSampler:
    tokenizer = tokenizer_of(vocab, caller)
    text = grammar.decode() if isinstance(grammar, bytes) else grammar
    try:
        return Grammar(caller, tokenizer, text, (root or b"root").decode(), patterns, tokens)
    except re.error as error:
        raise ValueError(f"{caller}: a pattern cannot be compiled: {error}") from None


def _require_room(caller: str, array: Any, count: int) -> None:
    if count < 0 or count and not array or isinstance(array, ctypes.Array) and count > len(array):
        raise ValueError(f"{caller}: {count} items: the array has fewer")


def _texts(caller: str, array: Any, count: int) -> list[bytes]:
    """The items of an array of strings."""
    _require_room(caller, array, count)
    return [bytes(array[i] or b"") for i in range(count)]


def _tokens(caller: str, array: Any, count: int) -> list[int]:
    """The items of an array of tokens."""
    _require_room(caller, array, count)
    return [int(array[i]) for i in range(count)]
