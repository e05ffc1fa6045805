"""The methods of `Llama` that compute and choose tokens step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..sample.chain import Filter, Sampler
from .base import Tokens, positional, refuse_others
from .llama_grammar import language_of

Criterion = Callable[[Sequence[int], np.ndarray], bool]
LogitsProcessor = Callable[[np.ndarray, np.ndarray], np.ndarray]
StoppingCriteria = Callable[[np.ndarray, np.ndarray], bool]


class LlamaState(NamedTuple):
    """What `Llama.save_state` returns: tokens, their logits as far as they are kept, keys and values."""

    input_ids: np.ndarray
    scores: np.ndarray
    n_tokens: int
    llama_state: bytes
    llama_state_size: int
    seed: int = 0


class LogitsProcessorList(list[LogitsProcessor]):
    """Functions of the ids so far and their logits, which return logits, as one function."""

    def __call__(self, input_ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        for processor in self:
            scores = processor(input_ids, scores)
        return scores


class StoppingCriteriaList(list[StoppingCriteria]):
    """Functions of the ids so far and their logits, of which one that is true ends a text, as one function."""

    def __call__(self, input_ids: np.ndarray, logits: np.ndarray) -> bool:
        return any(criterion(input_ids, logits) for criterion in self)


class MinTokensLogitsProcessor:
    """Excludes the end of a text until it has some tokens.

    Args:
        min_tokens: least number of tokens after the prompt.
        token_eos: the token that ends a text.
    """

    def __init__(self, min_tokens: int, token_eos: int) -> None:
        self.min_tokens, self.token_eos = min_tokens, token_eos
        self.prompt_tokens: int | None = None

    def __call__(self, input_ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        if self.prompt_tokens is None:
            self.prompt_tokens = len(input_ids)
        if len(input_ids) - self.prompt_tokens < self.min_tokens:
            scores[self.token_eos] = -np.inf
        return scores


def stopping(criteria: Any) -> Criterion | None:
    """One function of the ids so far and their logits for stopping_criteria: a function or a list of these."""
    functions = [criteria] if callable(criteria) and not isinstance(criteria, list) else list(criteria or ())
    if not functions:
        return None

    def stop(ids: Sequence[int], logits: np.ndarray) -> bool:
        array = np.asarray(ids, np.intc)
        return any(function(array, logits) for function in functions)

    return stop


class Stepping(Tokens):
    """Methods of Llama for computing step by step."""

    _rows: np.ndarray | None = None  # f32 [n_ctx, n_vocab] with logits_all

    @property
    def n_tokens(self) -> int:
        """The number of tokens that `eval` has taken since the last `reset`."""
        return len(self.model.held())

    @property
    def eval_tokens(self) -> list[int]:
        """The tokens that `eval` has taken."""
        return self.model.held()

    @property
    def eval_logits(self) -> list[np.ndarray]:
        """f32 [n_vocab] for each token that `eval` has taken; without logits_all of the last one only."""
        if self._logits_all:
            return list(self._scores)
        return [] if self._logits is None else [self._logits]

    @property
    def input_ids(self) -> np.ndarray:
        """The tokens that `eval` has taken, -1 for those of pictures, then zeros: intc [n_ctx]."""
        return np.pad(self._input_ids, (0, self.n_ctx() - self.n_tokens))

    @property
    def _input_ids(self) -> np.ndarray:
        return np.array([max(token, -1) for token in self.model.held()], np.intc)

    @property
    def scores(self) -> np.ndarray:
        """The logits of the tokens that `eval` has taken: f32 [n_ctx, n_vocab], of which n_tokens rows are filled in.

        Raises:
            RuntimeError: the model was opened without logits_all=True.
        """
        if not self._logits_all:
            raise RuntimeError("scores: need a model that was opened with logits_all=True; eval_logits has the last")
        if self._rows is None:
            self._rows = np.zeros((self.n_ctx(), self.n_vocab()), np.float32)
        return self._rows

    @property
    def _scores(self) -> np.ndarray:
        return self.scores[: self.n_tokens]

    def reset(self) -> None:
        """Forgets the tokens that `eval` has taken."""
        self.model.reset()
        self._logits = None

    def eval(self, tokens: Sequence[int]) -> None:
        """Appends tokens to those evaluated so far; `sample` chooses the next one."""
        if not len(tokens):
            return
        if not self._logits_all:
            self._logits = self.model.feed(tokens)
            return
        begin = self.n_tokens
        for rows in self.model.fed(tokens):
            self.scores[begin : begin + len(rows)] = rows
            begin += len(rows)
        self._logits = self.scores[begin - 1]

    @positional("top_k top_p min_p typical_p temp repeat_penalty frequency_penalty presence_penalty tfs_z mirostat_mode"
                " mirostat_eta mirostat_tau penalize_nl logits_processor grammar idx")  # fmt: skip
    def sample(self, **options: Any) -> int:
        """Chooses the token that follows those of `eval`.

        Args:
            options: top_k=40, top_p=0.95, min_p=0.05, temp=0.8, repeat_penalty=1, frequency_penalty=0,
                presence_penalty=0, typical_p=1, mirostat_mode=0, mirostat_tau=5, mirostat_eta=0.1,
                logits_processor=None, grammar=None (LlamaGrammar). They may be given by position too, in
                llama-cpp-python's order.

        Returns:
            int, the token.

        Raises:
            RuntimeError: no token was evaluated.
            NotImplementedError: an option is not supported.
        """
        sampler = self.sampler("sample", options)
        sampler.prime(self.model.held())
        return self._chosen(sampler)

    def _chosen(self, sampler: Sampler) -> int:
        """The token that a sampler chooses after those of `eval`."""
        if self._logits is None:
            raise RuntimeError("sample: no token was evaluated: call eval first")
        return sampler(self._logits)

    def sampler(self, caller: str, options: Mapping[str, Any]) -> Sampler:
        """The sampler of the options of `sample`."""
        others = dict(options)
        temperature = others.pop("temp", 0.8)
        return self.model.writer.sampler(caller, **self.settings(caller, temperature=temperature, **others))

    def settings(
        self,
        caller: str,
        *,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        temperature: float = 0.8,
        repeat_penalty: float = 1.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        logits_processor: Any = None,
        logit_bias: Mapping[Any, float] | None = None,
        seed: int | None = None,
        grammar: Any = None,
        response_format: Any = None,
        **others: Any,
    ) -> dict[str, Any]:
        """The settings of a Sampler for llama-cpp-python's options: penalties are first, of the text alone."""
        refuse_others(caller, others)
        mirostat = mirostat_mode if temperature > 0 and mirostat_mode in (1, 2) else 0
        names = [] if mirostat or temperature < 0 else ["top_k", "typ_p", "top_p", "min_p", "temperature"]
        return {
            "samplers": ["penalties", *names],
            "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "typical_p": typical_p,
            "min_keep": 1, "repeat_penalty": repeat_penalty, "repeat_last_n": max(0, self.last_n_tokens_size),
            "frequency_penalty": frequency_penalty, "presence_penalty": presence_penalty,
            "mirostat": mirostat, "mirostat_tau": mirostat_tau, "mirostat_eta": mirostat_eta, "penalize_prompt": False,
            "logits_filter": self._processors(logits_processor), "logit_bias": self._biases(logit_bias),
            "seed": self._seed(seed), **language_of(caller, grammar, response_format),
        }  # fmt: skip

    @positional("tokens top_k top_p min_p typical_p temp repeat_penalty reset frequency_penalty presence_penalty tfs_z"
                " mirostat_mode mirostat_tau mirostat_eta penalize_nl logits_processor stopping_criteria"
                " grammar")  # fmt: skip
    def generate(
        self, tokens: Sequence[int], *, reset: bool = True, stopping_criteria: Any = None, **options: Any
    ) -> Iterator[int]:
        """Yields the tokens that follow some tokens until the caller stops, or the context is full.

        Args:
            tokens: sequence of int.
            reset: bool; whether the tokens of earlier calls of `eval` are forgotten.
            stopping_criteria: function, or list of functions, of the ids so far (intc [n]) and their last logits
                (f32 [n_vocab]): the iteration ends where one returns true.
            options: those of `sample`. All may be given by position too, in llama-cpp-python's order.

        Returns:
            generator of int; tokens that are sent to it are appended after the one that it yielded.
        """
        sampler = self.sampler("generate", options)
        return self._tokens_after(list(tokens), reset, stopping(stopping_criteria), sampler)

    def _tokens_after(self, tokens: list[int], reset: bool, stop: Criterion | None, sampler: Sampler) -> Iterator[int]:
        if reset:
            same = self.longest_token_prefix(self.model.held(), tokens)
            tokens = tokens[self.model.reset(min(same, len(tokens) - 1)) :]
        sampler.prime([*self.model.held(), *tokens])
        while True:
            self.eval(tokens)
            token = self._chosen(sampler)
            if stop is not None and self._logits is not None and stop(self.model.held(), self._logits):
                return
            sampler.accept(token)
            sent: Sequence[int] = (yield token) or ()
            for other in sent:
                sampler.accept(other)
            if not sent and self.n_tokens == self.n_ctx():
                return
            tokens = [token, *sent]

    def save_state(self) -> LlamaState:
        """Copies the tokens that `eval` has taken, with their logits as far as they are kept, keys and values."""
        data = self.model.save_state()
        scores = self._scores if self._logits_all else np.array(self.eval_logits, np.float32)
        return LlamaState(self._input_ids, scores.copy(), self.n_tokens, data, len(data))

    def load_state(self, state: LlamaState) -> None:
        """Restores what `save_state` returned.

        Raises:
            TypeError, ValueError: `state` is not one, or that of another model; nothing is changed.
        """
        if not isinstance(state, LlamaState):
            raise TypeError(f"load_state: state is a {type(state).__name__}: need what save_state returned")
        self.model.load_state(state.llama_state)
        if self._logits_all and len(state.scores) == state.n_tokens:
            self.scores[: state.n_tokens] = state.scores
        self._logits = state.scores[-1].copy() if len(state.scores) else None

    def set_cache(self, cache: Any) -> None:
        """Sets what keeps the states after texts, so that later prompts which begin like one continue from there.

        Args:
            cache: LlamaRAMCache, LlamaDiskCache or another object with their methods; None for none.
        """
        if cache is not None and not (hasattr(cache, "__getitem__") and hasattr(cache, "__setitem__")):
            raise TypeError(f"set_cache: cache is a {type(cache).__name__}: need a LlamaRAMCache or None")
        self.cache = cache

    def _recall(self, ids: list[int]) -> None:
        """Loads the state of the cache that has more of a prompt than what the model holds."""
        if self.cache is None or min(ids) < 0:  # the keys of caches have no pictures
            return
        try:
            state = self.cache[ids]
        except KeyError:
            return
        known = self.longest_token_prefix(state.input_ids.tolist(), ids)
        if known > self.longest_token_prefix(self.model.held(), ids):
            self.load_state(state)

    def _keep(self, text: Any) -> None:
        """Keeps the state after a text in the cache."""
        if self.cache is not None and min(self.model.held(), default=-1) >= 0:
            self._logits = None if not self._logits_all else self._logits
            self.cache[self.model.held()] = self.save_state()

    def _processors(self, processors: Any) -> Filter | None:
        """One function of the ids so far and their logits for logits_processor: a function or a list of these."""
        functions = [processors] if callable(processors) and not isinstance(processors, list) else processors
        if not functions:
            return None

        def change(ids: Sequence[int], logits: np.ndarray) -> np.ndarray:
            for function in functions:
                logits = function(np.asarray(ids, np.intc), logits)
            return logits

        return change

    def _biases(self, bias: Mapping[Any, float] | None) -> dict[int, float] | None:
        """logit_bias with integers for tokens, checked."""
        biased = {int(token): float(value) for token, value in (bias or {}).items()}
        bad = [token for token in biased if not 0 <= token < self.n_vocab()]
        if bad:
            raise ValueError(f"logit_bias: token {bad[0]} does not exist: need 0 to {self.n_vocab() - 1}")
        return biased or None
