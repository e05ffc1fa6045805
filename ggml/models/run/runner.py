"""The runner of a model: its file, its prepared graphs, the sequences of its cache, and the lock that makes calls take
turns."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._errors import named, naming
from ..._owners import LockOwner
from ..arch import FAMILIES
from ..files.config import Config, read_config
from ..files.model_file import ModelFile
from .cache import Cache, round_up
from .graphs import Parts, Shape, Step
from .lora import Lora

if TYPE_CHECKING:
    from ...distributed import Communicator
    from ..trace import Trace
    from .split import Split

STEP = 512  # most tokens that one graph takes
DEFAULT_CTX = 4096
KEYS = 256  # attention reads a multiple of this many cells
KEPT_STEPS = 12  # most prepared graphs that are kept
KEPT_BYTES = 64 << 20  # most memory of theirs
REPEATED = 8  # tokens at the end of a prompt that are computed together, as in a prompt of which nothing is kept
RESULT_FLOATS = 1 << 24  # most logits that one graph keeps


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
        warnings.warn(f"load: n_ctx is {n_ctx}: {path} was trained with {limit} tokens", stacklevel=7)


def positive(name: str, value: Any, high: int) -> int:
    """An argument of load that must be an integer from 1 to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
        raise ValueError(f"load: {name} is {value!r}: need an integer from 1 to {high}")
    return value


class Runner(LockOwner):
    """Computes: knows sequences of tokens, not texts. See `load` for the arguments.

    Attributes:
        lock: held while a call runs; re-entrant.
        file, config, metadata, weights: the model file, and what was read from it.
        n_ctx, n_seq: most tokens of a sequence, and the number of sequences.
        split: of a model that is divided among ranks, this rank's part; else None.
        cache: the keys and values of the sequences; None of a model that gives embeddings only.
        points: the names of the values that can be traced and changed.
        loras, edits, tracer: what graphs are built of beside the weights.
        owners: the texts whose tokens the sequences hold.
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
        self.steps: OrderedDict[Shape, Step] = OrderedDict()
        self.loras: list[Lora] = []
        self.edits: dict[str, list[Callable]] = {}
        self.tracer: Trace | None = None
        self.cache: Cache | None = None
        # the texts whose tokens the sequences hold, and the keys and values of unfinished ones that gave theirs away
        self.owners: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.parked: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()
        self.threads = -1 if threads is None else threads
        self.mmap = mmap
        if split != "tensor":
            raise ValueError(f"load: split is {split!r}: need 'tensor'")
        if self.comm is not None and lora:
            raise ValueError("load: lora and comm are given: adapters can't be divided among ranks")
        if self.comm is not None and threads is None:
            self.threads = self.comm.threads
        self.file = ModelFile(path, mmap or self.comm is not None)  # a rank copies its part only
        try:
            self._open(n_ctx, n_seq, kv_type, lora, mmap)
        except BaseException:
            self.close()
            raise

    def _open(
        self, n_ctx: int | None, n_seq: int, kv_type: str, lora: Iterable[str | os.PathLike[str]], mmap: bool
    ) -> None:
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

            self.split = Split(self.comm, config, self.file, copy=not mmap)
            config = self.split.cache_config
        if config.logits:
            self.cache = Cache(config, self.n_ctx, self.n_seq, kv_type, min(STEP, self.n_ctx))
        # the first graph shows whether all tensors are there and fit, and which points there are
        with naming(self.file.path), named("load"):
            first = self.step(1, "last") if self.cache else self.step_without_cache(1, 1)
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
            self.forget_steps()
            if self.cache is not None:
                self.cache.close()
                self.cache = None
            for lora in self.loras:
                lora.close()
            self.loras = []
            if self.split is not None:
                self.split.close()
            if hasattr(self, "_file"):
                self.file.close()

    def forget_steps(self) -> None:
        while self.steps:
            self.steps.popitem()[1].close()

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

    def causal_cache(self, caller: str) -> Cache:
        self.check(caller)
        if self.cache is None:
            raise ValueError(f"{caller}: a model of architecture {self.config.arch!r} gives embeddings only")
        return self.cache

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
        self.forget_steps()
        self.forget_sequences()

    def forget_sequences(self) -> None:
        """Empties all sequences; the texts that go on compute their keys and values again."""
        if self.cache is not None:
            self.cache.forget()
        self.owners.clear()
        self.parked.clear()

    def _after_lost_call(self) -> None:
        """See LockOwner: nobody knows how far the call came. Its graphs stay in memory, as they are."""
        self.computing = None
        self.steps = OrderedDict()
        self.forget_sequences()

    def prepared(self, shape: Shape, cache: Cache | None) -> Step:
        """The graph of a shape: one that was kept, or a new one."""
        step = self.steps.get(shape)
        if step is None:
            step = self.steps[shape] = Step(shape, self.parts(), cache, self.threads)
            while len(self.steps) > 1 and (
                len(self.steps) > KEPT_STEPS or sum(s.bytes for s in self.steps.values()) > KEPT_BYTES
            ):
                self.steps.popitem(last=False)[1].close()
        else:
            self.steps.move_to_end(shape)
        return step

    def step(self, tokens: int, result: str, first: int = 0, count: int = 1) -> Step:
        """A graph that appends `tokens` tokens to each of `count` sequences from `first` on."""
        cache = self.cache
        assert cache is not None
        held = len(cache.ids[first]) if count == 1 else max(map(len, cache.ids[first : first + count]))
        cells = round_up(held + tokens, KEYS)
        local = min(cache.sizes[True], cells) if self.config.window else 0
        return self.prepared(Shape(tokens, first, count, min(cache.sizes[False], cells), local, result), cache)

    def step_without_cache(self, tokens: int, count: int) -> Step:
        return self.prepared(Shape(tokens, 0, count, 0, 0, "hidden"), None)

    def run(self, step: Step) -> None:
        try:
            self.computing = threading.get_ident()
            step.run()
        finally:
            self.computing = None
        if self.tracer is not None:
            self.tracer.collect(step)

    def feed(self, caller: str, sequence: int, ids: Sequence[int], result: str, size: int = STEP) -> Iterator[Step]:
        """Appends ids to a sequence, in steps of at most `size` tokens; yields the graph after each.

        Only the last step computes logits if result is "last".
        """
        cache = self.causal_cache(caller)
        have = cache.ids[sequence]
        self.check_room(caller, len(have), len(ids))
        for begin in range(0, len(ids), size):
            part = ids[begin : begin + size]
            final = begin + size >= len(ids)
            yield self.append(have, sequence, part, result if final or result != "last" else "none")

    def check_room(self, caller: str, held: int, more: int) -> None:
        if held + more > self.n_ctx:
            raise ValueError(f"{caller}: {held} + {more} tokens exceed the context of {self.n_ctx} (n_ctx)")

    def rows_of_a_step(self) -> int:
        """The most tokens of a graph that keeps the logits of all of them."""
        return max(1, min(STEP, RESULT_FLOATS // self.config.n_vocab))

    def append(self, have: list[int], sequence: int, part: Sequence[int], result: str) -> Step:
        """Appends tokens that fit into one step to a sequence, which has the ids `have`; returns the graph."""
        cache = self.cache
        assert cache is not None
        start, count = len(have), len(part)
        step = self.step(count, result, sequence)
        if step.tokens is not None:
            step.tokens.fill(0, part[0], start, start)
        else:
            step.ids[:] = part
            step.positions[:] = np.arange(start, start + count)
            for local, mask in step.masks.items():
                cache.mask(mask[0, 0], local, start)
                step.cells[local][0, 0] = np.arange(start, start + count) % cache.sizes[local]
        cache.will_write(sequence, start + count)
        self.run(step)
        have.extend(part)
        return step

    def feed_many(self, tokens: Mapping[int, int]) -> dict[int, np.ndarray]:
        """Appends one token to each of several sequences; returns the logits [n_vocab] of each."""
        cache = self.causal_cache("generate_many")
        first, last = min(tokens), max(tokens)
        step = self.step(1, "last", first, last - first + 1)
        assert step.tokens is not None
        limit = self.config.n_ctx_train - 1
        for sequence in range(first, last + 1):  # one that pauses gets token 0 behind its own
            start = len(cache.ids[sequence])
            step.tokens.fill(sequence - first, tokens.get(sequence, 0), start, min(start, limit))
            cache.will_write(sequence, start + 1)
        self.run(step)
        for sequence, token in tokens.items():
            cache.ids[sequence].append(token)
        return {sequence: step.out[sequence - first].copy() for sequence in tokens}

    def claim(self, sequence: int, owner: Any) -> None:
        """Gives a sequence to another owner; the former one gets its keys and values back when it goes on.

        An owner has an attribute `finish_reason`, None as long as it goes on.
        """
        former = self.owners.get(sequence)
        if former is owner:
            return
        cache = self.cache
        assert cache is not None
        if former is not None and former.finish_reason is None:
            self.parked[former] = cache.save(sequence)
        if owner is None:
            del self.owners[sequence]
            return
        self.owners[sequence] = owner
        state = self.parked.pop(owner, None)
        if state is not None:
            cache.load(sequence, state)

    def extend(self, caller: str, sequence: int, ids: list[int]) -> np.ndarray:
        """Makes a sequence hold exactly these tokens, of which it keeps the beginning that it has.

        Quantised matrices times few columns are rounded otherwise than times many: the end of what is new is never
        computed alone, so that a prompt gives the same text again.

        Returns:
            f32 [n_vocab]: the logits of the last token.
        """
        cache = self.cache
        assert cache is not None
        have = cache.ids[sequence]
        if lacks_one(have, ids):
            step = self.append(have, sequence, ids[-1:], "last")
        else:
            kept = cache.rewind(sequence, min(common_length(have, ids), max(0, len(ids) - REPEATED)))
            *_, step = self.feed(caller, sequence, ids[kept:], "last")
        return step.out[-1].copy()


def lacks_one(have: list[int], ids: list[int]) -> bool:
    """Whether a sequence that holds `have` lacks only the last of some ids."""
    return len(ids) - 1 == len(have) and ids[:-1] == have


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the common beginning of two lists."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    return next(i for i in range(n) if a[i] != b[i])
