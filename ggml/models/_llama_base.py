"""What `Llama` is built of: opening a model with llama-cpp-python's arguments, tokens, computing step by step."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import ggml

from ._chat import ChatTemplate
from ._model import load
from ._sampling import Sampler

RANDOM_SEED = 0xFFFFFFFF  # llama.cpp's name for "a new seed each time"
KV_TYPES = {None: "f16", ggml.GGML_TYPE_F16: "f16", ggml.GGML_TYPE_F32: "f32", ggml.GGML_TYPE_Q8_0: "q8_0"}
POOLING = {-1: None, 1: "mean", 2: "cls", 3: "last"}
FORMATS = {"chatml": "<|im_start|>", "gemma": "<start_of_turn>"}
# Arguments of the constructor that change nothing here: they are about GPUs, batches and messages.
IGNORED = frozenset(
    "n_gpu_layers split_mode main_gpu tensor_split use_mlock n_batch n_ubatch n_threads_batch offload_kqv flash_attn"
    " op_offload swa_full no_perf numa verbose logits_all embedding spm_infill".split()
)
# Arguments with the only value that is supported.
CONSTRUCTOR_DEFAULTS = {
    "vocab_only": False, "kv_overrides": None, "rope_scaling_type": -1, "attention_type": -1, "rope_freq_base": 0.0,
    "rope_freq_scale": 0.0, "yarn_ext_factor": -1.0, "yarn_attn_factor": 1.0, "yarn_beta_fast": 32.0,
    "yarn_beta_slow": 1.0, "yarn_orig_ctx": 0, "lora_base": None, "lora_scale": 1.0, "chat_handler": None,
    "draft_model": None, "tokenizer": None,
}  # fmt: skip
CALL_DEFAULTS = {
    "suffix": None, "typical_p": 1.0, "tfs_z": 1.0, "mirostat_mode": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1,
    "stopping_criteria": None, "grammar": None, "penalize_nl": True, "functions": None, "function_call": None,
    "tool_choice": None, "response_format": None,
}  # fmt: skip


def refuse_others(caller: str, given: Mapping[str, Any], supported: Mapping[str, Any]) -> None:
    """Raises for arguments that are unknown, or that ask for something that is not there."""
    for name, value in given.items():
        if name not in supported:
            raise TypeError(f"{caller}: there is no argument {name!r}")
        if value != supported[name]:
            raise NotImplementedError(f"{caller}: {name}={value!r} is not supported: need {supported[name]!r}")


class Opened:
    """A model that was opened with llama-cpp-python's arguments; see Llama."""

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        *,
        n_ctx: int = 512,
        n_threads: int | None = None,
        seed: int = RANDOM_SEED,
        use_mmap: bool = True,
        lora_path: str | None = None,
        chat_format: str | None = None,
        type_k: int | None = None,
        type_v: int | None = None,
        pooling_type: int = -1,
        last_n_tokens_size: int = 64,
        **others: Any,
    ) -> None:
        refuse_others("Llama", {k: v for k, v in others.items() if k not in IGNORED}, CONSTRUCTOR_DEFAULTS)
        kinds = {KV_TYPES.get(type_k), KV_TYPES.get(type_v)}
        if len(kinds) > 1 or None in kinds:
            raise NotImplementedError(f"Llama: type_k={type_k}, type_v={type_v}: need F16, F32 or Q8_0 for both")
        if pooling_type not in POOLING:
            raise NotImplementedError(f"Llama: pooling_type={pooling_type} is not supported: need -1, 1, 2 or 3")
        if chat_format is not None and chat_format not in FORMATS:
            known = ", ".join(map(repr, FORMATS))
            raise NotImplementedError(f"Llama: chat_format={chat_format!r} is not supported: need {known} or None")
        self.model_path = os.fspath(model_path)
        self.chat_format = chat_format
        lora = [] if lora_path is None else [lora_path]
        options = {"threads": n_threads, "kv_type": kinds.pop(), "lora": lora, "mmap": use_mmap}
        self.model = load(model_path, n_ctx=n_ctx or None, **options)  # type: ignore[arg-type]
        if n_ctx == 0 and self.model.config.n_ctx_train > self.model.n_ctx:
            trained = self.model.config.n_ctx_train
            self.model.close()
            self.model = load(model_path, n_ctx=trained, **options)  # type: ignore[arg-type]
        self.metadata = {key: str(value) for key, value in self._scalars()}
        self._pooling = POOLING[pooling_type]
        self._last_n = last_n_tokens_size
        self._template: ChatTemplate | None = None
        self._logits: np.ndarray | None = None
        self.eval_logits: list[np.ndarray] = []
        self.set_seed(seed)

    def _scalars(self) -> Iterator[tuple[str, Any]]:
        return ((k, v) for k in self.model.metadata if not isinstance(v := self.model.metadata[k], list))

    def set_seed(self, seed: int) -> None:
        """Sets the seed of the calls that follow."""
        self._seed = None if seed == RANDOM_SEED else seed

    def close(self) -> None:
        """Frees the model's memory."""
        self.model.close()


class Tokens(Opened):
    """Methods of Llama for sizes and tokens."""

    def n_ctx(self) -> int:
        """Most tokens of a sequence."""
        return self.model.n_ctx

    def n_embd(self) -> int:
        """The size of an embedding."""
        return self.model.config.n_embd

    def n_vocab(self) -> int:
        """The number of tokens."""
        return self.model.config.n_vocab

    def token_bos(self) -> int:
        """The token that begins a text, -1 if there is none."""
        return -1 if self.model.tokenizer.bos is None else self.model.tokenizer.bos

    def token_eos(self) -> int:
        """The token that ends a text, -1 if there is none."""
        return -1 if self.model.tokenizer.eos is None else self.model.tokenizer.eos

    def token_nl(self) -> int:
        """The token of a line break."""
        return self.model.tokenizer.encode("\n", add_bos=False)[-1]

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        """The tokens of a text.

        Args:
            text: bytes.
            add_bos: bool; whether the tokens that the file asks for at the beginning and end are added.
            special: bool; whether names of special tokens become these tokens.
        """
        if not isinstance(text, bytes):
            raise TypeError(f"tokenize: text is a {type(text).__name__}: need bytes")
        return self.model.tokenizer.encode(text, add_bos=None if add_bos else False, special=special)

    def detokenize(
        self, tokens: Sequence[int], prev_tokens: Sequence[int] | None = None, special: bool = False
    ) -> bytes:
        """The bytes of tokens.

        Args:
            tokens: sequence of int.
            prev_tokens: tokens before them, or None for the beginning of a text.
            special: bool; whether special tokens are shown.
        """
        tokenizer = self.model.tokenizer
        data = b"".join(tokenizer.piece(int(token), special) for token in tokens)
        begins = prev_tokens is None and len(tokens) > 0 and tokens[0] == tokenizer.bos
        return data[1:] if begins and data[:1] == b" " else data


class Stepping(Tokens):
    """Methods of Llama for computing step by step."""

    @property
    def n_tokens(self) -> int:
        """The number of tokens that `eval` has taken since the last `reset`."""
        return len(self.model.held())

    @property
    def eval_tokens(self) -> list[int]:
        """The tokens that `eval` has taken."""
        return self.model.held()

    def reset(self) -> None:
        """Forgets the tokens that `eval` has taken."""
        self.model.reset()
        self._logits = None
        self.eval_logits = []

    def eval(self, tokens: Sequence[int]) -> None:
        """Appends tokens to those evaluated so far; `sample` chooses the next one."""
        self._logits = self.model.feed(tokens)
        self.eval_logits = [self._logits]

    def sample(
        self,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        temp: float = 0.80,
        repeat_penalty: float = 1.0,
        logits_processor: Any = None,
        **others: Any,
    ) -> int:
        """Chooses the token that follows those of `eval`."""
        if self._logits is None:
            raise RuntimeError("sample: no token was evaluated: call eval first")
        frequency, presence = (others.pop(f"{name}_penalty", 0.0) for name in ("frequency", "presence"))
        refuse_others("sample", others, CALL_DEFAULTS)
        change = self._filter(logits_processor, None, frequency, presence)
        sampler = Sampler(temp, top_k, top_p, min_p, repeat_penalty, self._last_n, self._next_seed(), change)
        return sampler(self._logits, self.model.held())

    def generate(self, tokens: Sequence[int], reset: bool = True, **options: Any) -> Iterator[int]:
        """Yields the tokens that follow some tokens, without end: the caller stops.

        Args:
            tokens: sequence of int.
            reset: bool; whether the tokens of earlier calls of `eval` are forgotten.
            options: those of `sample`.
        """
        if reset:
            held = self.model.held()
            same = next((i for i, (a, b) in enumerate(zip(held, tokens)) if a != b), min(len(held), len(tokens)))
            tokens = tokens[self.model.reset(min(same, len(tokens) - 1)) :]
        while True:
            self.eval(tokens)
            token = self.sample(**options)
            yield token
            tokens = [token]

    def _next_seed(self) -> int | None:
        """The seed of the next random number when tokens are drawn one by one."""
        if self._seed is not None:
            self._seed += 1
        return self._seed

    def _filter(
        self, processors: Any, bias: Mapping[Any, float] | None, frequency: float, presence: float
    ) -> Callable[[Sequence[int], np.ndarray], np.ndarray] | None:
        """The change of the logits that options ask for, None if they ask for none."""
        functions = [processors] if callable(processors) and not isinstance(processors, list) else processors or []
        if not functions and not bias and not frequency and not presence:
            return None
        biased = {int(token): float(value) for token, value in (bias or {}).items()}

        def change(ids: Sequence[int], logits: np.ndarray) -> np.ndarray:
            for token, count in Counter(ids[-self._last_n :]).items() if frequency or presence else ():
                logits[token] -= count * frequency + presence
            for token, value in biased.items():
                logits[token] += value
            for function in functions:
                logits = function(np.asarray(ids, np.intc), logits)
            return logits

        return change
