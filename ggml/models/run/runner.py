"""The runner of a model: its file, its memory, its prepared graphs, and the lock that makes calls take turns."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._errors import named, naming
from ..._owners import LockOwner
from ..arch import caches_of
from ..arch.further import config_of_further, has_further
from ..conversion.folder import open_model
from ..files.config import Config
from ..files.model_file import Metadata
from .batch import Batch, ImageToken
from .decoder import STEP, Decoder
from .decodings import Decodings
from .encoder_decoder import has_decoder, points_of_decoder
from .graphs import GraphPool, Parts, Shape, Step
from .lora import Lora
from .memory import Memory
from .opening import check_context, config_of, positive
from .sequences import Sequences

if TYPE_CHECKING:
    from ...distributed import Communicator
    from ..trace import Trace
    from .following import Voice
    from .split import Split

DEFAULT_CTX = 4096


class Runner(LockOwner):
    """Computes: knows sequences of tokens, not texts. See `load` for the arguments.

    Attributes:
        lock: held while a call runs; re-entrant.
        file, config, metadata, weights: the model file, and what was read from it.
        n_ctx, n_seq: most tokens of a sequence, and the number of sequences.
        split: of a model that is divided among ranks, this rank's part; else None.
        memory, sequences, decoder: what the layers keep of the sequences, who these are, and what appends tokens to
            them; None of a model that gives embeddings only, or has an encoder beside its decoder.
        decodings: of a model with an encoder and a decoder, the sequences; else None.
        graphs: the graphs that are prepared.
        points: the names of the values that can be traced and changed.
        loras, edits, tracer: what graphs are built of beside the weights.
        named_loras: adapters that sequences may have, by name.
        overrides: values of keys that replace those of the file.
        has_further: whether the layer that predicts further tokens is in use.
        leader: of a divided model whose other ranks follow this one, what tells them; see following.py.
    """

    @property
    def lock(self) -> Any:
        return self._lock

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_ctx: int | None = None,
        n_seq: int = 1,
        threads: int | None = None,
        kv_type: str | Sequence[str] = "f16",
        lora: Iterable[str | os.PathLike[str]] = (),
        mmap: bool | str = True,
        comm: Communicator | None = None,
        split: str = "tensor",
        kv_overrides: Mapping[str, Any] | None = None,
        snapshots: int = 4,
    ) -> None:
        super().__init__()
        self.comm = comm if comm is not None and comm.size > 1 else None
        self.split: Split | None = None
        self.closed = self.has_further = False
        self.leader: Voice | None = None
        self.computing: int | None = None  # the thread that computes
        self.loras: list[Lora] = []
        self.named_loras: dict[str, Lora] = {}
        self.edits: dict[str, list[Callable]] = {}
        self.tracer: Trace | None = None
        self.memory: Memory | None = None
        self.sequences: Sequences | None = None
        self.decoder: Decoder | None = None
        self.decodings: Decodings | None = None
        self.threads = -1 if threads is None else threads
        self.mmap = bool(mmap)
        if split != "tensor":
            raise ValueError(f"load: split is {split!r}: need 'tensor'")
        if self.comm is not None and lora:
            raise ValueError("load: lora and comm are given: adapters can't be divided among ranks")
        if self.comm is not None and threads is None:
            self.threads = self.comm.threads
        self.graphs = GraphPool(self.parts, self.threads)
        self.file = open_model(path, self.mmap or self.comm is not None)  # a rank copies its part only
        try:
            self.overrides = dict(kv_overrides or {})
            if self.overrides:
                self._override(self.overrides)
            self._open(n_ctx, n_seq, kv_type, lora, snapshots)
            if self.config.logits and self.comm is None and mmap != "shared":
                if self.file.use_large_pages():
                    self.graphs.forget()  # they have the former tensors
        except BaseException:
            self.close()
            raise

    def _override(self, values: Mapping[str, Any]) -> None:
        """Replaces keys of the file."""
        metadata = self.file.metadata
        if not isinstance(metadata, Metadata):
            raise ValueError(f"load: kv_overrides: {self.file.path} is no GGUF file, of which keys can be replaced")
        metadata.override(values)

    def _open(
        self,
        n_ctx: int | None,
        n_seq: int,
        kv_type: str | Sequence[str],
        lora: Iterable[str | os.PathLike[str]],
        snapshots: int,
    ) -> None:
        self.metadata, self.weights = self.file.metadata, self.file.tensors
        self.config: Config = config_of(self.file)
        limit = min(self.config.n_ctx_train, DEFAULT_CTX)
        self.n_ctx = positive("n_ctx", limit if n_ctx is None else n_ctx, 1 << 24)
        self.config = replace(self.config, n_ctx=self.n_ctx)
        self.n_seq = positive("n_seq", n_seq, 1 << 16)
        positive("snapshots", snapshots, 1 << 16, 0)
        if self.threads != -1:
            positive("threads", self.threads, 512)
        check_context(self.n_ctx, self.config, self.file.path)
        if isinstance(lora, (str, os.PathLike)):
            raise TypeError(f"load: lora is {lora!r}: need a list of paths")
        for item in lora:
            self.loras.append(Lora(item, self.weights, self.config.arch, mmap=self.mmap))
        config = self.config
        if self.comm is not None:
            from .split import Split

            self.split = Split(self.comm, config, self.file, copy=not self.mmap)
            config = self.split.cache_config
        if config.logits:
            self.memory = Memory(
                caches_of(config), {"arch": config.arch}, self.n_ctx, self.n_seq, kv_type,
                min(STEP, self.n_ctx), config.n_vocab, config.n_input, self.graphs.forget, snapshots,
            )  # fmt: skip
            self.sequences = Sequences(self.memory, self.n_seq)
            self.decoder = Decoder(self.config, self.parts, self.memory, self.graphs, self.n_seq, self.run)
        # the first graph shows whether all tensors are there and fit, and which points there are
        with naming(self.file.path), named("load"):
            first = self.graph_of_a_token()
            self.points = first.points
            if has_decoder(self.config):
                self.points += points_of_decoder(self.parts())
                self.decodings = Decodings(self)

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<Model, closed>"
        name = self.metadata.get("general.name", os.path.basename(self.file.path))
        return f"<Model {name!r}: {self.config.arch}, {self.config.n_layer} layers, n_ctx {self.n_ctx}>"

    def close(self) -> None:
        """Frees the model's memory. Waits for a call that runs in another thread."""
        with self._lock:
            if self.computing is not None:
                raise RuntimeError("close: the model is computing: a callback can't close it")
            self.closed = True
            if hasattr(self, "graphs"):
                self.graphs.forget()
            if self.memory is not None:
                self.memory.close()
                self.memory = self.sequences = self.decoder = None
            if self.decodings is not None:
                self.decodings.forget()
                self.decodings = None
            for lora in (*self.loras, *self.named_loras.values()):
                lora.close()
            self.loras, self.named_loras = [], {}
            if self.split is not None:
                self.split.close()
            if hasattr(self, "file"):
                self.file.close()

    # ---- what may be done --------------------------------------------------------------------------------------------
    def check(self, caller: str) -> None:
        """Refuses calls that cannot be served."""
        if self.closed:
            raise RuntimeError(f"{caller}: the model is closed")
        if self.computing == threading.get_ident():
            raise RuntimeError(f"{caller}: the model is computing: a callback can't call it")

    def check_undivided(self, caller: str) -> None:
        """Refuses calls that need the whole model."""
        self.check(caller)
        if self.split is not None:
            raise ValueError(f"{caller}: the model is divided among {self.split.comm.size} ranks")

    def check_adapter(self, caller: str, name: str | None) -> None:
        """Refuses names of adapters that were not added."""
        if name is not None and name not in self.named_loras:
            known = ", ".join(map(repr, self.named_loras)) or "one that add_adapter added"
            raise ValueError(f"{caller}: there is no adapter {name!r}: need {known}")

    def check_room(self, caller: str, held: int, more: int) -> None:
        """Refuses tokens that do not fit into the context."""
        if held + more > self.n_ctx:
            raise ValueError(f"{caller}: {held} + {more} tokens exceed the context of {self.n_ctx} (n_ctx)")

    def causal(self, caller: str) -> Sequences:
        """The sequences of a model that predicts tokens."""
        self.check(caller)
        if self.sequences is None:
            gives = "gives embeddings only" if self.decodings is None else "has an encoder beside its decoder"
            raise ValueError(f"{caller}: a model of architecture {self.config.arch!r} {gives}")
        return self.sequences

    # ---- what graphs are built of ------------------------------------------------------------------------------------
    def parts(self, plain: bool = False) -> Parts:
        """What graphs are built of; `plain` leaves out what looks at values and changes them."""
        adapters: dict[str, list] = {}
        for lora in self.loras:
            for name, pair in lora.pairs.items():
                adapters.setdefault(name, []).append(pair)
        traced = self.tracer.names if self.tracer and not plain else frozenset()
        edits = {} if plain else self.edits
        if self.split is not None:
            return Parts(self.split.config, self.split.weights, adapters, edits, traced, self.split.builder)
        named = {name: lora.pairs for name, lora in self.named_loras.items()}
        return Parts(self.config, self.weights, adapters, edits, traced, named=named)

    def changed(self, caller: str) -> None:
        """Before a change of what graphs are built of: neither graphs nor keys and values will be valid after it."""
        self.check(caller)
        self.graphs.forget()
        self.forget_sequences()

    def forget_sequences(self) -> None:
        """Empties all sequences; the texts that go on compute their keys and values again."""
        if self.sequences is not None:
            self.sequences.forget()
        if self.decodings is not None:
            self.decodings.forget()

    def forget_text(self, owner: Any) -> None:
        """Frees what a text held that gave its sequence away."""
        if self.sequences is not None:
            self.sequences.parked.pop(owner, None)
        if self.decodings is not None:
            self.decodings.parked.pop(owner, None)

    def _after_lost_call(self) -> None:
        """See LockOwner: nobody knows how far the call came. Its graphs stay in memory, as they are."""
        self.computing = None
        self.graphs.abandon()
        self.forget_sequences()

    def computed(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function that computes: callbacks can't call the model meanwhile."""
        try:  # not a context manager: an interrupt may come between its entry and the `with`
            self.computing = threading.get_ident()
            return function(*arguments)
        finally:
            self.computing = None

    # ---- computing ---------------------------------------------------------------------------------------------------
    def run(self, step: Step) -> None:
        """Computes a graph."""
        if self.leader is not None:
            self.leader.run(step)
        self.computed(step.run)
        if self.tracer is not None:
            self.tracer.collect(step)

    def texts_graph(self, tokens: int, count: int, adapter: str | None = None) -> Step:
        """A graph of `count` texts of `tokens` tokens, of which nothing is kept; it gives hidden states.

        All of them have the adapter of a name.
        """
        names = () if adapter is None else (adapter,)
        step = self.graphs.get(Shape(tokens * count, tokens * count, count, "hidden", adapters=names), None)
        for values in step.adapters.values():
            values[...] = 1
        return step

    def graph_of_a_token(self) -> Step:
        """The graph that computes one token."""
        if self.memory is None:
            return self.texts_graph(1, 1)
        return self.graphs.get(Shape(1, 1, 1, "logits", even=bool(self.memory.states)), self.memory)

    def decode(self, batch: Batch, exact: bool = False, further: bool = False) -> np.ndarray:
        """Appends the tokens of a batch to its sequences.

        Args:
            batch: tokens for sequences, in any mixture.
            exact: True for results whose bits depend on nothing but the sequence: not on what else is in the batch, nor
                on how the sequence was divided. This holds for sequences all of whose tokens were computed so.
            further: True to let the layer that predicts further tokens see the tokens, see `use_further`.
        Returns:
            f32 [batch.wanted, n_vocab]: the logits that are wanted. They are valid until the next call.
        Raises:
            ValueError: a sequence or a token does not exist, or there are more tokens than the context has room for.
            RuntimeError: the model is closed.
        """
        with self._lock:
            items = self.causal("decode").items
            for number, tokens, *_ in batch.pieces:
                if not 0 <= number < self.n_seq:
                    raise ValueError(f"decode: sequence {number}: need one from 0 to {self.n_seq - 1}")
                if max(tokens) >= self.config.n_vocab or (min(tokens) < 0 and not self._are_tokens(tokens)):
                    raise ValueError(
                        f"decode: tokens {min(tokens)} to {max(tokens)}: need 0 to {self.config.n_vocab - 1}"
                    )
                self.check_room("decode", len(items[number].ids), len(tokens))
            assert self.decoder is not None
            return self.decoder.results(batch.pieces, items, "logits", exact, further)

    def use_further(self, caller: str) -> None:
        """Makes room for the layer that predicts further tokens, when it is used for the first time.

        Raises:
            ValueError: the file has no such layer, a tensor of it is missing or wrong, or the model is divided.
        """
        with self._lock:
            self.check_undivided(caller)
            if self.has_further:
                return
            if not has_further(self.config, self.weights):
                key = f"{self.config.arch}.nextn_predict_layers"
                without = "no tensors of them" if self.metadata.get(key) else f"no key {key}"
                raise ValueError(f"{caller}: {self.file.path} has no prediction layers ({without})")
            assert self.memory is not None
            with naming(self.file.path), named("load"):
                self.memory.add_further(caches_of(config_of_further(self.config))[-1])
                try:  # the first graph shows whether all tensors are there and fit
                    self.graphs.get(Shape(1, 1, 1, "logits", further=True), self.memory)
                except BaseException:
                    self.memory.remove_further()
                    raise
            self.has_further = True

    def _are_tokens(self, tokens: Sequence[int]) -> bool:
        """Whether those of some tokens that are no ids are embeddings of this model's size."""
        width = self.config.n_input
        return all(i >= 0 or (isinstance(i, ImageToken) and i.vector.shape == (width,)) for i in tokens)
