"""What `Llama` is built of: opening a model with llama-cpp-python's arguments, sizes, tokens."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..._owners import Owner
from ..model import load
from ..run.memory import TYPES
from ..run.sequences import common_length
from ..sample.chain import RANDOM_SEED, log_softmax
from .vocabulary_file import VocabularyFile

KV_TYPES = {None: "f16"} | {kind: name for name, kind in TYPES.items()}
POOLING = {-1: None, 1: "mean", 2: "cls", 3: "last"}
# Arguments about the rotary embedding, which a file has keys for: these count. With the values that mean those.
ROPE = {
    "rope_freq_base": ("rope.freq_base", 10000.0), "rope_freq_scale": (None, 1.0), "yarn_ext_factor": (None, -1.0),
    "yarn_attn_factor": (None, 1.0), "yarn_beta_fast": (None, 32.0), "yarn_beta_slow": (None, 1.0),
    "yarn_orig_ctx": ("rope.scaling.original_context_length", 0), "rope_scaling_type": (None, -1),
}  # fmt: skip
IGNORED_IN_CALLS = frozenset(("tfs_z", "penalize_nl", "idx"))  # of no effect there either


def refuse_others(caller: str, given: Mapping[str, Any]) -> None:
    """Raises for arguments of calls that are unknown."""
    for name in given:
        if name not in IGNORED_IN_CALLS:
            raise TypeError(f"{caller}: there is no argument {name!r}")


def positional(names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a method whose arguments may also be given by position, in the order of `names`."""
    order = names.split()

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Any, *args: Any, **options: Any) -> Any:
            if len(args) > len(order):
                raise TypeError(f"{method.__name__}: {len(args)} arguments by position: need at most {len(order)}")
            placed = dict(zip(order, args))
            if twice := placed.keys() & options.keys():
                raise TypeError(f"{method.__name__}: {min(twice)!r} is given by position and by name")
            return method(self, **placed, **options)

        return call

    return decorate


def opened_again(kind: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """What pickle makes of a Llama."""
    return kind(**arguments)


def _printed(value: Any) -> str:
    """A value of the file's keys as llama.cpp prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:f}" if isinstance(value, float) else str(value)


class Opened(Owner):
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
        lora_scale: float = 1.0,
        chat_format: str | None = None,
        type_k: int | None = None,
        type_v: int | None = None,
        pooling_type: int = -1,
        last_n_tokens_size: int = 64,
        logits_all: bool = False,
        chat_handler: Callable[..., Any] | None = None,
        tokenizer: Any = None,
        draft_model: Any = None,
        vocab_only: bool = False,
        kv_overrides: Mapping[str, bool | int | float | str] | None = None,
        **others: Any,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "others")}
        self._given = {**given, **others}  # for copies by pickle
        for name, kind in (("type_k", type_k), ("type_v", type_v)):
            if kind not in KV_TYPES:
                known = ", ".join(name.upper() for name in TYPES)
                raise NotImplementedError(f"Llama: {name}={kind} is not supported: need GGML_TYPE_... of {known}")
        if pooling_type not in POOLING:
            raise NotImplementedError(f"Llama: pooling_type={pooling_type} is not supported: need -1, 1, 2 or 3")
        self.model_path = os.fspath(model_path)
        self.chat_format, self.chat_handler, self.draft_model = chat_format, chat_handler, draft_model
        self.tokenizer_ = tokenizer if tokenizer is not None else LlamaTokenizer(self)
        kinds = KV_TYPES[type_k], KV_TYPES[type_v]
        options: dict[str, Any] = {
            "threads": n_threads, "kv_type": kinds, "mmap": use_mmap, "kv_overrides": kv_overrides,
        }  # fmt: skip
        self.model: Any
        if vocab_only:
            self.model = VocabularyFile(model_path, kv_overrides)
        else:
            if n_ctx == 0:
                with load(model_path, **options | {"mmap": "shared"}) as first:
                    n_ctx = first.config.n_ctx_train
            self.model = load(model_path, n_ctx=n_ctx, **options)
        if lora_path is not None and not vocab_only:
            self._use_adapter(lora_path, lora_scale)
        self._warn_of_rope(others)
        values = ((key, self.model.metadata[key]) for key in self.model.metadata)
        self.metadata = {key: _printed(value) for key, value in values if not isinstance(value, list)}
        self.verbose = bool(others.get("verbose", True))
        self.lora_path, self.lora_scale, self.kv_overrides = lora_path, lora_scale, kv_overrides
        self.n_threads = self.n_threads_batch = n_threads or len(os.sched_getaffinity(0))
        self.last_n_tokens_size = last_n_tokens_size
        self._pooling_type, self._logits_all = pooling_type, bool(logits_all)
        self.spm_infill = bool(others.get("spm_infill", False))
        self.lora_base, self.numa, self.tensor_split = (
            others.get(name) for name in ("lora_base", "numa", "tensor_split")
        )
        self.context_params = SimpleNamespace(n_ctx=self.model.n_ctx, n_batch=others.get("n_batch", 512), seed=seed)
        self.model_params = SimpleNamespace(n_gpu_layers=0, use_mmap=use_mmap, vocab_only=vocab_only)
        self.n_batch = self.context_params.n_batch
        self.cache: Any = None
        self._logits: np.ndarray | None = None
        self.set_seed(seed)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy by pickle opens the file again, with the same arguments."""
        return opened_again, (type(self), self._given)

    def _use_adapter(self, path: str, scale: float) -> None:
        """Uses an adapter; closes the model if it does not fit."""
        try:
            self.model.set_lora((path, scale))
        except BaseException:
            self.model.close()
            raise

    def _warn_of_rope(self, given: Mapping[str, Any]) -> None:
        """Warns of options of the rotary embedding that the file says otherwise."""
        for name, (key, usual) in ROPE.items():
            value = given.get(name)
            own = self.model.metadata.get(f"{self.model.config.arch}.{key}", usual) if key else usual
            if value not in (None, 0, own):
                warnings.warn(f"Llama: {name}={value} is ignored: the file says {own}", stacklevel=4)

    def set_seed(self, seed: int) -> None:
        """Sets the seed of the generator that gives a seed to each later call without one of its own."""
        self._seeds = random.Random(None if seed < 0 or seed == RANDOM_SEED else seed)

    def _seed(self, given: int | None) -> int:
        """The seed of a call, which also determines those of the following calls."""
        if given is not None:
            self.set_seed(given)
            if 0 <= given != RANDOM_SEED:
                return given
        return self._seeds.getrandbits(32)

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

    def pooling_type(self) -> int:
        """How embeddings of tokens become one of a text: the argument of the constructor."""
        return self._pooling_type

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
        if not isinstance(self.tokenizer_, LlamaTokenizer):
            return self.tokenizer_.tokenize(text, add_bos, special)
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
        if not isinstance(self.tokenizer_, LlamaTokenizer):
            return self.tokenizer_.detokenize(tokens, prev_tokens, special)
        tokenizer = self.model.tokenizer
        data = b"".join(tokenizer.piece(int(token), special) for token in tokens)
        begins = prev_tokens is None and len(tokens) > 0 and tokens[0] == tokenizer.bos
        return data[1:] if begins and data[:1] == b" " else data

    def tokenizer(self) -> LlamaTokenizer:
        """The methods for texts and tokens alone."""
        return LlamaTokenizer(self)

    @staticmethod
    def longest_token_prefix(a: Sequence[int], b: Sequence[int]) -> int:
        """The number of tokens with which both sequences begin."""
        return common_length(list(a), list(b))

    @staticmethod
    def logits_to_logprobs(logits: Any, axis: int = -1) -> np.ndarray:
        """The natural logarithms of probabilities (f32) from logits along an axis."""
        return np.moveaxis(log_softmax(np.moveaxis(np.asarray(logits), axis, -1)), -1, axis).astype(np.float32)


class LlamaTokenizer:
    """The methods of Llama for texts and tokens; here names of special tokens in a text become these tokens."""

    def __init__(self, llama: Any) -> None:
        self._llama = llama

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = True) -> list[int]:
        """See Llama.tokenize."""
        return self._llama.tokenize(text, add_bos, special)

    def detokenize(
        self, tokens: Sequence[int], prev_tokens: Sequence[int] | None = None, special: bool = False
    ) -> bytes:
        """See Llama.detokenize."""
        return self._llama.detokenize(tokens, prev_tokens, special)

    def encode(self, text: str, add_bos: bool = True, special: bool = True) -> list[int]:
        """The tokens of a str."""
        return self.tokenize(text.encode(errors="ignore"), add_bos, special)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens as a str, without what is not UTF-8."""
        return self.detokenize(tokens).decode(errors="ignore")

    @classmethod
    def from_ggml_file(cls, path: str) -> LlamaTokenizer:
        """The tokenizer of a file, of which only the vocabulary is read."""
        return cls(Tokens(path, vocab_only=True))
