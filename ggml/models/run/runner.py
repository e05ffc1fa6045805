"""The runner of a model: its file, its memory, its prepared graphs, and the lock that makes calls take turns."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._errors import without_function
from ..._owners import LockOwner
from ..arch import caches_of
from ..files.config import Config
from ..files.model_file import ModelFile
from .batch import Batch, Limits, Piece, divided
from .exact import Rows, rows_of
from .graphs import GraphPool, Part, Parts, Shape, Step
from .lora import Lora
from .memory import Memory
from .opening import check_context, config_of, positive
from .sequences import Sequences

if TYPE_CHECKING:
    from ...distributed import Communicator
    from ..trace import Trace
    from .split import Split

STEP = 512  # most tokens that one graph takes
DEFAULT_CTX = 4096
RESULT_FLOATS = 1 << 24  # most logits that one graph keeps


class Runner(LockOwner):
    """Computes: knows sequences of tokens, not texts. See `load` for the arguments.

    Attributes:
        lock: held while a call runs; re-entrant.
        file, config, metadata, weights: the model file, and what was read from it.
        n_ctx, n_seq: most tokens of a sequence, and the number of sequences.
        split: of a model that is divided among ranks, this rank's part; else None.
        memory, sequences: what the layers keep of the sequences, and who they are; None of a model that gives
            embeddings only.
        graphs: the graphs that are prepared.
        points: the names of the values that can be traced and changed.
        loras, edits, tracer: what graphs are built of beside the weights.
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
        kv_type: str = "f16",
        lora: Iterable[str | os.PathLike[str]] = (),
        mmap: bool = True,
        comm: Communicator | None = None,
        split: str = "tensor",
    ) -> None:
        super().__init__()
        self.comm = comm if comm is not None and comm.size > 1 else None
        self.split: Split | None = None
        self.closed = False
        self.computing: int | None = None  # the thread that computes
        self.loras: list[Lora] = []
        self.edits: dict[str, list[Callable]] = {}
        self.tracer: Trace | None = None
        self.memory: Memory | None = None
        self.sequences: Sequences | None = None
        self.threads = -1 if threads is None else threads
        self.mmap = mmap
        if split != "tensor":
            raise ValueError(f"load: split is {split!r}: need 'tensor'")
        if self.comm is not None and lora:
            raise ValueError("load: lora and comm are given: adapters can't be divided among ranks")
        if self.comm is not None and threads is None:
            self.threads = self.comm.threads
        self.graphs = GraphPool(self.parts, self.threads)
        self.file = ModelFile(path, mmap or self.comm is not None)  # a rank copies its part only
        try:
            self._open(n_ctx, n_seq, kv_type, lora)
        except BaseException:
            self.close()
            raise

    def _open(self, n_ctx: int | None, n_seq: int, kv_type: str, lora: Iterable[str | os.PathLike[str]]) -> None:
        self.metadata, self.weights = self.file.metadata, self.file.tensors
        self.config: Config = config_of(self.file)
        limit = min(self.config.n_ctx_train, DEFAULT_CTX)
        self.n_ctx = positive("n_ctx", limit if n_ctx is None else n_ctx, 1 << 24)
        self.n_seq = positive("n_seq", n_seq, 1 << 16)
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
                min(STEP, self.n_ctx), config.n_vocab, self.graphs.forget,
            )  # fmt: skip
            self.sequences = Sequences(self.memory, self.n_seq)
        # the first graph shows whether all tensors are there and fit, and which points there are
        try:
            first = self.graph_of_a_token()
        except ValueError as error:
            raise ValueError(f"load: {self.file.path}: {without_function(str(error))}") from None
        self.points = first.points

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
                self.memory = self.sequences = None
            for lora in self.loras:
                lora.close()
            self.loras = []
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

    def check_room(self, caller: str, held: int, more: int) -> None:
        """Refuses tokens that do not fit into the context."""
        if held + more > self.n_ctx:
            raise ValueError(f"{caller}: {held} + {more} tokens exceed the context of {self.n_ctx} (n_ctx)")

    def causal(self, caller: str) -> Sequences:
        """The sequences of a model that predicts tokens."""
        self.check(caller)
        if self.sequences is None:
            raise ValueError(f"{caller}: a model of architecture {self.config.arch!r} gives embeddings only")
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
        return Parts(self.config, self.weights, adapters, edits, traced)

    def changed(self, caller: str) -> None:
        """Before a change of what graphs are built of: neither graphs nor keys and values will be valid after it."""
        self.check(caller)
        self.graphs.forget()
        self.forget_sequences()

    def forget_sequences(self) -> None:
        """Empties all sequences; the texts that go on compute their keys and values again."""
        if self.sequences is not None:
            self.sequences.forget()

    def forget_text(self, owner: Any) -> None:
        """Frees what a text held that gave its sequence away."""
        if self.sequences is not None:
            self.sequences.parked.pop(owner, None)

    def _after_lost_call(self) -> None:
        """See LockOwner: nobody knows how far the call came. Its graphs stay in memory, as they are."""
        self.computing = None
        self.graphs.abandon()
        self.forget_sequences()

    # ---- computing ---------------------------------------------------------------------------------------------------
    def run(self, step: Step) -> None:
        """Computes a graph."""
        try:
            self.computing = threading.get_ident()
            step.run()
        finally:
            self.computing = None
        if self.tracer is not None:
            self.tracer.collect(step)

    def texts_graph(self, tokens: int, count: int) -> Step:
        """A graph of `count` texts of `tokens` tokens, of which nothing is kept; it gives hidden states."""
        return self.graphs.get(Shape(tokens * count, tokens * count, count, "hidden"), None)

    def graph_of_a_token(self) -> Step:
        """The graph that computes one token."""
        if self.memory is None:
            return self.texts_graph(1, 1)
        return self.graphs.get(Shape(1, 1, 1, "logits", even=bool(self.memory.states)), self.memory)

    def decode(self, batch: Batch, exact: bool = False) -> np.ndarray:
        """Appends the tokens of a batch to its sequences.

        Args:
            batch: tokens for sequences, in any mixture.
            exact: True for results whose bits depend on nothing but the sequence: not on what else is in the batch, nor
                on how the sequence was divided. This holds for sequences all of whose tokens were computed so.
        Returns:
            f32 [batch.wanted, n_vocab]: the logits that are wanted. They are valid until the next call.
        Raises:
            ValueError: a sequence or a token does not exist, or there are more tokens than the context has room for.
            RuntimeError: the model is closed.
        """
        with self._lock:
            self.check_batch(batch)
            out = np.empty((0, self.config.n_vocab), np.float32)
            for step, pieces in self.steps(batch.pieces, exact=exact):
                rows, row = step.out[step.rows], 0
                if not len(rows):
                    continue
                if len(rows) == batch.wanted:  # one step has all of them
                    out = rows
                    continue
                if not len(out):
                    out = np.empty((batch.wanted, rows.shape[1]), np.float32)
                for piece in pieces:
                    out[piece.first : piece.first + piece.wanted] = rows[row : row + piece.wanted]
                    row += piece.wanted
            return out

    def check_batch(self, batch: Batch) -> None:
        """Refuses a batch that can't be computed, before anything is changed."""
        sequences = self.causal("decode")
        for number, tokens, *_ in batch.pieces:
            if not 0 <= number < self.n_seq:
                raise ValueError(f"decode: sequence {number}: need one from 0 to {self.n_seq - 1}")
            if min(tokens) < 0 or max(tokens) >= self.config.n_vocab:
                raise ValueError(f"decode: tokens {min(tokens)} to {max(tokens)}: need 0 to {self.config.n_vocab - 1}")
            self.check_room("decode", len(sequences.items[number].ids), len(tokens))

    def steps(
        self, pieces: Sequence[Piece], result: str = "logits", exact: bool = False
    ) -> Iterator[tuple[Step, list[Piece]]]:
        """Appends the tokens of pieces to sequences, in as many graphs as it takes.

        Yields:
            Each graph after it was computed, and the parts of the pieces that it appended.
        """
        assert self.memory is not None and self.sequences is not None
        even = bool(self.memory.states)
        rows = rows_of(self.weights, bool(self.loras), even, STEP) if exact else Rows(1, STEP)
        wanted = max(rows.least, self.most_results())
        limits = Limits(rows.most, self.n_seq, wanted, even, exact)
        with self.memory.caught_up([self.sequences.items[piece.sequence] for piece in pieces]) as again:
            pieces = [piece.after(tokens) for piece, tokens in zip(pieces, again, strict=True)]
            for some in divided(pieces, limits):
                parts = [Part(self.sequences.items[p.sequence], p.tokens, p.wanted) for p in some]
                for part in parts:
                    self.memory.reserve(part.held, len(part.tokens))
                step = self.graphs.get(self._shape(parts, result, rows.least if exact else 0), self.memory)
                step.fill(parts)
                for part in parts:
                    self.memory.begin(part.held, len(part.tokens))
                self.run(step)
                for part in parts:
                    self.memory.end(part.held, part.tokens, exact)
                yield step, some

    def most_results(self) -> int:
        """The most tokens of a graph that keeps the logits of all of them."""
        return max(1, min(STEP, RESULT_FLOATS // self.config.n_vocab))

    def _shape(self, parts: Sequence[Part], result: str, least: int) -> Shape:
        """The shape of a graph for some parts of a batch; with at least so many rows, if results are exact, else 0."""
        assert self.memory is not None
        tokens, outputs = sum(len(part.tokens) for part in parts), sum(part.wanted for part in parts)
        even = bool(self.memory.states)
        sequences = len(parts) if even else min(tokens, self.n_seq)
        result = result if outputs else "none"
        if least:
            outputs = outputs and max(outputs if outputs != tokens else tokens, least)
            tokens = max(tokens, least)
            sequences = tokens // len(parts[0].tokens) if even else self.n_seq
        return Shape(tokens, outputs, sequences, result, bool(least), even)
