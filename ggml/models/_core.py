"""What every model has: its file, its sizes, its memory, and the lock that makes calls take turns."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import without_function
from .._owners import LockOwner
from ._arch import FAMILIES
from ._cache import Cache
from ._config import Config, read_config
from ._file import ModelFile
from ._keys import PREFIX, special_id
from ._lora import Lora
from ._step import Parts, Shape, Step

if TYPE_CHECKING:
    from ..distributed import Communicator
    from ._generate import Generation
    from ._inspect import Trace
    from ._split import Split

STEP = 512  # most tokens that one graph takes
DEFAULT_CTX = 4096
MODEL = PREFIX + "model"
NO_VOCABULARY = (None, "no_vocab", "none")  # values of MODEL; None: the file does not have the key


def config_of(file: ModelFile) -> Config:
    """The sizes and settings of a model."""
    path, arch = file.path, file.metadata.get("general.architecture")
    if arch is None:
        raise ValueError(f"load: {path}: the file is not a model: it has no key 'general.architecture'")
    if not isinstance(arch, str) or arch not in FAMILIES:
        raise ValueError(f"load: {path}: architecture {str(arch)[:60]!r}: need one of {', '.join(FAMILIES)}")
    if file.metadata.get("general.type") == "adapter":
        raise ValueError(f"load: {path}: the file is an adapter: need a model; load(..., lora=) takes adapters")
    if "token_embd.weight" not in file.tensors:
        raise ValueError(f"load: {path}: tensor 'token_embd.weight' is missing")
    n_vocab = file.tensors["token_embd.weight"].contents.ne[1]
    return read_config(file.metadata, arch, n_vocab, path, FAMILIES[arch])


def check_context(n_ctx: int, config: Config, path: str) -> None:
    """Warns of, or refuses, more tokens than a model was trained with."""
    limit = config.n_ctx_train
    if n_ctx > limit and config.rope_mode is None:
        raise ValueError(f"load: n_ctx is {n_ctx}: {path} has positions for {limit} tokens")
    if n_ctx > limit:
        warnings.warn(f"load: n_ctx is {n_ctx}: {path} was trained with {limit} tokens", stacklevel=6)


def integers(values: Any) -> list[int] | None:
    """A list of integers from a list or an array of them, None for anything else."""
    try:
        found = np.asarray(values)
    except ValueError:  # lists of different lengths
        return None
    return found.tolist() if found.ndim == 1 and (not found.size or found.dtype.kind in "iu") else None


def positive(name: str, value: Any, high: int) -> int:
    """An argument of load that must be an integer from 1 to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
        raise ValueError(f"load: {name} is {value!r}: need an integer from 1 to {high}")
    return value


class Core(LockOwner):
    """The state of a model; see Model."""

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
        comm: Communicator | None = None,
        split: str = "tensor",
    ) -> None:
        super().__init__()
        self._comm = comm if comm is not None and comm.size > 1 else None
        self.split: Split | None = None
        self._closed = False
        self._computing: int | None = None  # the thread that computes
        self._steps: OrderedDict[Shape, Step] = OrderedDict()
        self._loras: list[Lora] = []
        self._edits: dict[str, list[Callable]] = {}
        self._trace: Trace | None = None
        self._cache: Cache | None = None
        self._tokenizer: Any = None
        # the texts whose tokens the sequences hold, and the keys and values of unfinished ones that gave theirs away
        self._owners: weakref.WeakValueDictionary[int, Generation] = weakref.WeakValueDictionary()
        self._parked: weakref.WeakKeyDictionary[Generation, bytes] = weakref.WeakKeyDictionary()
        self._threads = -1 if threads is None else threads
        self._mmap = mmap
        if split != "tensor":
            raise ValueError(f"load: split is {split!r}: need 'tensor'")
        if self._comm is not None and lora:
            raise ValueError("load: lora and comm are given: adapters can't be divided among ranks")
        if self._comm is not None and threads is None:
            self._threads = self._comm.threads
        self._file = ModelFile(path, mmap or self._comm is not None)  # a rank copies its part only
        try:
            self._open(n_ctx, n_seq, kv_type, lora, mmap)
        except BaseException:
            self.close()
            raise

    def _open(
        self, n_ctx: int | None, n_seq: int, kv_type: str, lora: Iterable[str | os.PathLike[str]], mmap: bool
    ) -> None:
        self.metadata, self._weights = self._file.metadata, self._file.tensors
        self.config: Config = config_of(self._file)
        limit = min(self.config.n_ctx_train, DEFAULT_CTX)
        self.n_ctx = positive("n_ctx", limit if n_ctx is None else n_ctx, 1 << 24)
        self.n_seq = positive("n_seq", n_seq, 1 << 16)
        if self._threads != -1:
            positive("threads", self._threads, 512)
        check_context(self.n_ctx, self.config, self._file.path)
        if isinstance(lora, (str, os.PathLike)):
            raise TypeError(f"load: lora is {lora!r}: need a list of paths")
        for item in lora:
            self._loras.append(Lora(item, self._weights, self.config.arch, mmap=self._mmap))
        config = self.config
        if self._comm is not None:
            from ._split import Split

            self.split = Split(self._comm, config, self._file, copy=not mmap)
            config = self.split.cache_config
        if config.logits:
            self._cache = Cache(config, self.n_ctx, self.n_seq, kv_type, min(STEP, self.n_ctx))

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
            if self._computing is not None:
                raise RuntimeError("close: the model is computing: a callback can't close it")
            self._closed = True
            self._forget_steps()
            if self._cache is not None:
                self._cache.close()
                self._cache = None
            for lora in self._loras:
                lora.close()
            self._loras = []
            if self.split is not None:
                self.split.close()
            if hasattr(self, "_file"):
                self._file.close()

    def _forget_steps(self) -> None:
        while self._steps:
            self._steps.popitem()[1].close()

    def _check(self, caller: str) -> None:
        """Refuses calls that cannot be served."""
        if self._closed:
            raise RuntimeError(f"{caller}: the model is closed")
        if self._computing == threading.get_ident():
            raise RuntimeError(f"{caller}: the model is computing: a callback can't call it")

    def _check_undivided(self, caller: str) -> None:
        """Refuses calls that need the whole model."""
        self._check(caller)
        if self.split is not None:
            raise ValueError(f"{caller}: the model is divided among {self.split.comm.size} ranks")

    def _causal_cache(self, caller: str) -> Cache:
        self._check(caller)
        if self._cache is None:
            raise ValueError(f"{caller}: a model of architecture {self.config.arch!r} gives embeddings only")
        return self._cache


class Parted(Core):
    """What graphs are built of, and tokens."""

    def _parts(self) -> Parts:
        adapters: dict[str, list] = {}
        for lora in self._loras:
            for name, pair in lora.pairs.items():
                adapters.setdefault(name, []).append(pair)
        traced = self._trace.names if self._trace else frozenset()
        if self.split is not None:
            return Parts(self.split.config, self.split.weights, adapters, self._edits, traced, self.split.builder)
        return Parts(self.config, self._weights, adapters, self._edits, traced)

    def _changed(self, caller: str) -> None:
        """Before a change of what graphs are built of: neither graphs nor keys and values will be valid after it."""
        self._check(caller)
        self._forget_steps()
        self._forget_sequences()

    def _forget_sequences(self) -> None:
        """Empties all sequences; the texts that go on compute their keys and values again."""
        if self._cache is not None:
            self._cache.forget()
        self._owners.clear()
        self._parked.clear()

    def _after_lost_call(self) -> None:
        """See LockOwner: nobody knows how far the call came. Its graphs stay in memory, as they are."""
        self._computing = None
        self._steps = OrderedDict()
        self._forget_sequences()

    @property
    def tokenizer(self) -> Any:
        with self._lock:
            if self._tokenizer is None:
                self._check("tokenizer")
                self._tokenizer = self._read_tokenizer()
            return self._tokenizer

    def _decoding(self) -> tuple[Collection[int], Any]:
        """The tokens that end a text, and what makes a text of tokens: None for a file without a vocabulary."""
        if self.metadata.get(MODEL) not in NO_VOCABULARY:
            return self.tokenizer.eog, self.tokenizer.decoder()
        end = special_id(self.metadata, "eos", None, self.config.n_vocab)
        return () if end is None else (end,), None

    def _read_tokenizer(self) -> Any:
        """The tokenizer of the file, whose name errors have."""
        path, rows, kind = self._file.path, self.config.n_vocab, self.metadata.get(MODEL)
        if kind in NO_VOCABULARY:
            raise ValueError(f"Tokenizer: {path} has no vocabulary ({MODEL} is {kind!r}): need token ids, not texts")
        from ._tokenizer import Tokenizer

        try:
            tokenizer = Tokenizer(self.metadata)
        except ValueError as error:
            raise ValueError(f"Tokenizer: {path}: {without_function(str(error))}") from None
        if tokenizer.n_vocab != rows:
            raise ValueError(
                f"Tokenizer: {path}: tokenizer.ggml.tokens has {tokenizer.n_vocab} items: need {rows}, as many as "
                "token_embd.weight has rows"
            )
        return tokenizer

    def _ids(self, caller: str, prompt: str | bytes | Sequence[int], special: bool = False) -> list[int]:
        """The token ids of a prompt, checked."""
        if isinstance(prompt, (str, bytes)):
            ids = self.tokenizer.encode(prompt, None, special)
        else:
            ids = integers(prompt)
            if ids is None:
                raise TypeError(f"{caller}: the tokens are {str(prompt)[:60]}: need a text or a list of integers")
        if not ids:
            raise ValueError(f"{caller}: need at least one token")
        bad = [i for i in ids if not 0 <= i < self.config.n_vocab]
        if bad:
            raise ValueError(f"{caller}: token {bad[0]}: need ids from 0 to {self.config.n_vocab - 1}")
        return ids
