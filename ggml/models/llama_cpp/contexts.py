"""The functions of llama.h for models, contexts, batches, logits, embeddings, tokens and the memory of sequences.

Models, vocabularies, contexts and memories are Python objects here instead of addresses: where a vocabulary is needed a
Model does as well, and a Context is also its own memory. `Llama.model` and `Llama.ctx` are such objects. Structures and
buffers are those of ctypes. What C reports by value is a value here, too: `llama_decode` returns -1 for a batch that
cannot be computed.

QUERIES, RENAMED and NOTHING are tables of the functions that need one line.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import time
import weakref
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import ggml

from ..._owners import Owner
from ..model import Model, load
from ..run.batch import Batch, Piece
from ..run.encoder_decoder import has_decoder
from ..run.memory import TYPES
from ..run.sequences import Sequences
from ..text.keys import special_id
from .constants import constants as _constants

llama_token = llama_pos = llama_seq_id = ctypes.c_int32
llama_token_p = ctypes.POINTER(ctypes.c_int32)
llama_progress_callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_float, ctypes.c_void_p)
llama_log_callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
ggml_log_callback = llama_log_callback
MOST_PLACES = 1 << 29  # tokens of a batch times their sequences
FLOATS = ctypes.POINTER(ctypes.c_float)
KV_TYPES = {kind: name for name, kind in TYPES.items()}
POOLING = {-1: None, 0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}
# What functions of C take for the address of something: arrays, pointers, references
REFERENCE = type(ctypes.byref(ctypes.c_int()))
BUFFERS: Any = (ctypes.Array, FLOATS.__mro__[1], REFERENCE, ctypes.c_void_p, ctypes.c_char_p)
# llama.h's kinds of vocabularies and attributes of tokens, by the names and the types of a GGUF file.
VOCAB_TYPES = {"llama": 1, "gpt2": 2, "gemma4": 2, "bert": 3, "t5": 4}
ATTRIBUTES = {1: 4, 2: 1, 3: 8, 4: 16, 5: 2, 6: 32}


# ---- structures ------------------------------------------------------------------------------------------------------
class llama_batch(ctypes.Structure):  # noqa: N801 - the names of llama.h
    """Tokens to append to sequences, with their positions, and the logits that are wanted of them."""

    _fields_ = [
        ("n_tokens", ctypes.c_int32),
        ("token", llama_token_p),
        ("embd", FLOATS),
        ("pos", llama_token_p),
        ("n_seq_id", llama_token_p),
        ("seq_id", ctypes.POINTER(llama_token_p)),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


class llama_token_data(ctypes.Structure):  # noqa: N801
    """A token with its logit and its probability."""

    _fields_ = [("id", llama_token), ("logit", ctypes.c_float), ("p", ctypes.c_float)]


class llama_token_data_array(ctypes.Structure):  # noqa: N801
    """Candidates for the next token."""

    _fields_ = [
        ("data", ctypes.POINTER(llama_token_data)),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    ]


class _OverrideValue(ctypes.Union):
    _fields_ = [
        ("val_i64", ctypes.c_int64),
        ("val_f64", ctypes.c_double),
        ("val_bool", ctypes.c_bool),
        ("val_str", ctypes.c_char * 128),
    ]


class llama_model_kv_override(ctypes.Structure):  # noqa: N801
    """A key of a file with another value."""

    _fields_ = [("tag", ctypes.c_int), ("key", ctypes.c_char * 128), ("value", _OverrideValue)]


class llama_model_params(ctypes.Structure):  # noqa: N801
    """How a model is opened; nothing of it has an effect here."""

    _fields_ = [
        ("devices", ctypes.c_void_p),
        ("tensor_buft_overrides", ctypes.c_void_p),
        ("n_gpu_layers", ctypes.c_int32),
        ("split_mode", ctypes.c_int),
        ("load_mode", ctypes.c_int),
        ("lazy_mode", ctypes.c_int),
        ("main_gpu", ctypes.c_int32),
        ("tensor_split", FLOATS),
        ("progress_callback", llama_progress_callback),
        ("progress_callback_user_data", ctypes.c_void_p),
        ("kv_overrides", ctypes.POINTER(llama_model_kv_override)),
        ("vocab_only", ctypes.c_bool),
        ("check_tensors", ctypes.c_bool),
        ("use_extra_bufts", ctypes.c_bool),
        ("no_host", ctypes.c_bool),
        ("no_alloc", ctypes.c_bool),
        ("load_mtp", ctypes.c_bool),
    ]


class llama_context_params(ctypes.Structure):  # noqa: N801
    """What a context has room for. Of effect are n_ctx, n_seq_max, n_threads, type_k and type_v."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq",
                                               "n_outputs_max", "n_outputs_max_per_seq")),
        ("n_threads", ctypes.c_int32),
        ("n_threads_batch", ctypes.c_int32),
        *((name, ctypes.c_int) for name in ("ctx_type", "rope_scaling_type", "pooling_type", "attention_type",
                                            "flash_attn_type")),
        *((name, ctypes.c_float) for name in ("rope_freq_base", "rope_freq_scale", "yarn_ext_factor",
                                              "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow")),
        ("yarn_orig_ctx", ctypes.c_uint32),
        ("defrag_thold", ctypes.c_float),
        ("cb_eval", ctypes.c_void_p),
        ("cb_eval_user_data", ctypes.c_void_p),
        ("type_k", ctypes.c_int),
        ("type_v", ctypes.c_int),
        ("abort_callback", ctypes.c_void_p),
        ("abort_callback_data", ctypes.c_void_p),
        *((name, ctypes.c_bool) for name in ("embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full",
                                             "kv_unified")),
        ("samplers", ctypes.c_void_p),
        ("n_samplers", ctypes.c_size_t),
        ("ctx_other", ctypes.c_void_p),
    ]  # fmt: skip


def llama_model_default_params() -> llama_model_params:
    """How a model is opened by default."""
    return llama_model_params(n_gpu_layers=-1, use_extra_bufts=True)


def llama_context_default_params() -> llama_context_params:
    """The parameters of a context by default."""
    return llama_context_params(
        n_ctx=512, n_batch=2048, n_ubatch=512, n_seq_max=1, n_threads=4, n_threads_batch=4, rope_scaling_type=-1,
        pooling_type=-1, attention_type=-1, flash_attn_type=-1, yarn_ext_factor=-1.0, yarn_attn_factor=-1.0,
        yarn_beta_fast=-1.0, yarn_beta_slow=-1.0, defrag_thold=-1.0, type_k=ggml.GGML_TYPE_F16,
        type_v=ggml.GGML_TYPE_F16, offload_kqv=True, no_perf=True, op_offload=True, swa_full=True,
    )  # fmt: skip


# ---- models and contexts ---------------------------------------------------------------------------------------------
class Context(Owner):
    """The sequences of a model, and what was computed of the last batch.

    Args:
        model: Model whose sequences these are.
        n_batch: what `llama_n_batch` returns; a batch may have more tokens.
        owned: whether the model is closed with the context.
        embeddings: whether the states of tokens after the last norm are kept.
        pooling: how they become one of a sequence: a name of POOLING, None for what the file says.
    """

    def __init__(
        self, model: Model, n_batch: int, owned: bool = False, embeddings: bool = False, pooling: str | None = None
    ) -> None:
        self.model, self.n_batch, self.owned, self.embeddings = model, n_batch, owned, embeddings
        self.pooling = pooling or model.config.pooling or "none"
        self.clear()

    def clear(self) -> None:
        """Forgets what was computed of the last batch."""
        self.rows: dict[int, int] = {}  # rows of the logits by tokens of the batch
        self._logits: np.ndarray | None = None
        self._later: Callable[[], np.ndarray | None] | None = None  # computes the logits
        self.states: np.ndarray | None = None  # f32 [tokens, C] with `embeddings`
        self.sequence_places: dict[int, list[int]] = {}  # of each sequence, its rows of the states
        self.state_rows: dict[int, int] = {}  # rows of the states by tokens of the batch whose results are wanted

    @property
    def logits(self) -> np.ndarray | None:
        """The logits that were wanted of the last batch."""
        if self._later is not None:
            self._logits, self._later = self._later(), None
        return self._logits

    def keep(self, order: Sequence[int], logits: Any) -> None:
        """Keeps the logits of some tokens of a batch, or the function that computes them."""
        self.rows = {i: row for row, i in enumerate(order)}
        self._logits, self._later = (None, logits) if callable(logits) else (logits, None)

    def sequences(self, caller: str) -> Sequences:
        """The sequences; those that unfinished texts have are theirs again when these go on."""
        return self.model.runner.causal(caller)

    def held(self, caller: str, number: int) -> Any:
        """What a sequence holds, or None if there is no such sequence."""
        sequences = self.sequences(caller)
        return sequences.claim(number, None) if 0 <= number < self.model.n_seq else None

    def numbers(self, sequence: int) -> Sequence[int]:
        """The numbers of one sequence, or of all for a negative one."""
        return range(self.model.n_seq) if sequence < 0 else [sequence]


class Vocab(Owner):
    """What `llama_model_get_vocab` returns. As an integer it is a number that `library.llama_tokenize` knows."""

    def __init__(self, model: Model, number: int) -> None:
        self.model, self._number = model, number

    def __index__(self) -> int:
        return self._number


_numbers = itertools.count(1)
_models: weakref.WeakValueDictionary[int, Model] = weakref.WeakValueDictionary()


def llama_model_get_vocab(model: Model) -> Vocab:
    """The vocabulary of a model."""
    own = model_of(model, "llama_model_get_vocab")
    number = next(_numbers)
    _models[number] = own
    return Vocab(own, number)


def path_of(path: Any) -> str:
    given: Any = path.value if isinstance(path, ctypes.c_char_p) else path
    return os.fsdecode(given)


def model_of(model: Any, caller: str) -> Model:
    """The Model of an argument: a Model, a Llama, a vocabulary, or a context."""
    found = getattr(model, "model", model)
    if not isinstance(found, Model):
        raise TypeError(f"{caller}: the model is a {type(model).__name__}: need what llama_model_load_from_file gave")
    return found


def context_of(context: Any, caller: str) -> Context:
    found = getattr(context, "ctx", context)
    if not isinstance(found, Context):
        raise TypeError(f"{caller}: the context is a {type(context).__name__}: need what llama_init_from_model gave")
    return found


def llama_model_load_from_file(path_model: bytes, params: llama_model_params | None = None) -> Model:
    """Opens a file; errors are those of `ggml.models.load`. The model's contexts compute."""
    return load(path_of(path_model), mmap="shared")


def llama_model_free(model: Model) -> None:
    """Closes a model. A context of it stays open."""
    model_of(model, "llama_model_free").close()


def llama_init_from_model(model: Model, params: llama_context_params | None = None) -> Context:
    """A context with sequences of its own. It maps the file of the model once more."""
    own = model_of(model, "llama_init_from_model")
    own.runner.check("llama_init_from_model")
    p = params if params is not None else llama_context_default_params()
    if p.type_k not in KV_TYPES or p.type_v not in KV_TYPES:
        known = ", ".join(name.upper() for name in TYPES)
        raise NotImplementedError(f"llama_init_from_model: type_k={p.type_k}, type_v={p.type_v}: need {known}")
    if p.pooling_type not in POOLING:
        raise ValueError(f"llama_init_from_model: pooling_type={p.pooling_type}: need -1 to 4")
    threads = p.n_threads if 0 < p.n_threads <= 512 else None
    opened = load(own.runner.file.path, n_ctx=p.n_ctx or own.config.n_ctx_train, n_seq=max(1, p.n_seq_max),
                  threads=threads, kv_type=(KV_TYPES[p.type_k], KV_TYPES[p.type_v]))  # fmt: skip
    return Context(opened, p.n_batch, True, p.embeddings, POOLING[p.pooling_type])


def llama_free(ctx: Context) -> None:
    """Frees a context, and its memory of sequences."""
    own = context_of(ctx, "llama_free")
    own.clear()
    if own.owned:
        own.model.close()


# ---- batches ---------------------------------------------------------------------------------------------------------
def llama_batch_init(n_tokens: int, embd: int = 0, n_seq_max: int = 1) -> llama_batch:
    """A batch with room for tokens, each of which may belong to some sequences; all zeros."""
    if n_tokens < 0 or n_seq_max < 0 or n_tokens * max(1, n_seq_max) > MOST_PLACES or embd:
        raise ValueError(f"llama_batch_init: n_tokens={n_tokens}, embd={embd}, n_seq_max={n_seq_max}: need no "
                         f"embeddings, and 0 to {MOST_PLACES} tokens times sequences")  # fmt: skip
    batch = llama_batch()
    rows = (llama_token_p * (n_tokens + 1))()
    items = (llama_seq_id * (n_tokens * n_seq_max or 1))()
    for i in range(n_tokens):
        address = ctypes.byref(items, 4 * i * n_seq_max)
        rows[i] = ctypes.cast(address, llama_token_p)
    batch.token, batch.pos = (llama_token * n_tokens)(), (llama_pos * n_tokens)()
    batch.n_seq_id, batch.logits = (ctypes.c_int32 * n_tokens)(), (ctypes.c_int8 * n_tokens)()
    batch.seq_id = ctypes.cast(rows, ctypes.POINTER(llama_token_p))
    batch.room, batch.sequences, batch.kept = n_tokens, n_seq_max, (rows, items)
    return batch


def llama_batch_get_one(tokens: Any, n_tokens: int) -> llama_batch:
    """A batch of tokens of the first sequence, after those that it holds; logits of the last one are wanted."""
    if isinstance(tokens, ctypes.Array) and n_tokens > len(tokens):
        raise ValueError(f"llama_batch_get_one: n_tokens is {n_tokens}: the array has {len(tokens)}")
    if not isinstance(tokens, BUFFERS):
        raise TypeError(f"llama_batch_get_one: the tokens are a {type(tokens).__name__}: need an array of ctypes")
    batch = llama_batch(n_tokens=n_tokens, token=ctypes.cast(tokens, llama_token_p))
    batch.kept = tokens
    return batch


def llama_batch_free(batch: llama_batch) -> None:
    """Frees what llama_batch_init made; the batch has no tokens then."""
    batch.n_tokens = batch.room = 0
    for name in ("token", "pos", "n_seq_id", "seq_id", "logits"):
        setattr(batch, name, None)
    batch.kept = None


class Placed(NamedTuple):
    """The tokens of a batch, whether results are wanted of each, and the places of those of each sequence."""

    tokens: list[int]
    wanted: list[int]
    places: dict[int, list[int]]


def _placed(caller: str, batch: llama_batch, n_vocab: int) -> Placed | None:
    """What a batch has; None if it has no token, or one that does not exist."""
    count = batch.n_tokens
    room = getattr(batch, "room", count)
    if count > room:
        raise ValueError(f"{caller}: n_tokens is {count}: the batch has room for {room}")
    if count <= 0 or not batch.token:
        return None
    tokens = batch.token[:count]
    wanted = batch.logits[:count] if batch.logits else [0] * (count - 1) + [1]
    sizes = batch.n_seq_id[:count] if batch.n_seq_id else [1] * count
    if max(sizes) > getattr(batch, "sequences", max(sizes)):
        raise ValueError(f"{caller}: a token has {max(sizes)} sequences: the batch has room for fewer")
    if min(tokens) < 0 or max(tokens) >= n_vocab or min(sizes) < 1:
        return None
    places: dict[int, list[int]] = {}
    for i in range(count):
        for number in batch.seq_id[i][: sizes[i]] if batch.seq_id else [0]:
            places.setdefault(number, []).append(i)
    return Placed(tokens, wanted, places)


def llama_decode(ctx: Context, batch: llama_batch) -> int:
    """Appends the tokens of a batch to their sequences; of a model with an encoder alone, as llama_encode.

    Returns:
        0; 1 if a sequence would have more tokens than the context; -1 if a token or a sequence does not exist or a
        position does not follow those before it, or there is no token. Nothing is changed then.
    """
    own = context_of(ctx, "llama_decode")
    runner = own.model.runner
    with runner.lock:
        runner.check("llama_decode")
        if runner.sequences is None:
            return llama_encode(own, batch)
        placed = _placed("llama_decode", batch, own.model.config.n_vocab)
        if placed is None:
            return -1
        for number, some in placed.places.items():
            held = own.held("llama_decode", number)
            if held is None:
                return -1
            begin = len(held.ids)
            if batch.pos and any(batch.pos[i] != begin + n for n, i in enumerate(some)):
                return -1
            if begin + len(some) > own.model.n_ctx:
                return 1
        own.clear()
        if own.embeddings:
            _append_for_states(own, placed)
        else:
            todo, order, rows = _batch_of(placed)
            found = runner.decode(todo)
            own.keep(order, found[rows] if order else None)
    return 0


def _batch_of(placed: Placed) -> tuple[Batch, list[int], list[int]]:
    """What is appended, the tokens whose logits are wanted in their order, and the rows of the result with these."""
    todo = Batch()
    rows: dict[int, int] = {}
    for number, some in placed.places.items():
        first = next((n for n, i in enumerate(some) if placed.wanted[i]), len(some))
        place = todo.add(number, [placed.tokens[i] for i in some], len(some) - first)
        rows |= {i: place.start + n for n, i in enumerate(some[first:]) if placed.wanted[i]}
    order = sorted(rows)
    return todo, order, [rows[i] for i in order]


def _append_for_states(own: Context, placed: Placed) -> None:
    """Appends tokens and keeps their states. Their logits are computed where they are asked for."""
    runner, decoder = own.model.runner, own.model.runner.decoder
    assert runner.sequences is not None and decoder is not None
    items, memory = runner.sequences.items, runner.sequences.memory
    todo, order, rows = _batch_of(placed)
    before = {n: memory.copy(items[n], len(items[n].ids)) for n in placed.places} if order else {}
    lengths = {n: len(held.ids) for n, held in before.items()}
    pieces, total = [], 0
    for number, some in placed.places.items():
        pieces.append(Piece(number, [placed.tokens[i] for i in some], len(some), total))
        total += len(some)
    own_rows = _keep_states(own, placed, decoder.results(pieces, items, "hidden").copy())

    def logits() -> np.ndarray | None:
        with runner.lock:
            runner.check("llama_get_logits")
            if any(len(held.ids) != lengths[n] for n, held in before.items()):
                return None  # adapters were exchanged since
            some = [before.get(n, items[n]) for n in range(len(items))]
            return decoder.results(todo.pieces, some)[rows]

    own.keep(order, logits if order else None)
    own.state_rows = own_rows


def _keep_states(own: Context, placed: Placed, states: np.ndarray) -> dict[int, int]:
    """Keeps the states of the tokens of a batch, by sequences; returns the rows by the places of the tokens."""
    own.states, start = states, 0
    rows: dict[int, int] = {}
    for number, some in placed.places.items():
        own.sequence_places[number] = list(range(start, start + len(some)))
        rows |= {i: start + n for n, i in enumerate(some) if placed.wanted[i]}
        start += len(some)
    return rows


def llama_encode(ctx: Context, batch: llama_batch) -> int:
    """Computes the states of texts, one for each sequence of a batch, for a model whose tokens see those after them.

    Returns:
        0; 1 if a text is longer than the context; -1 for another model, or as llama_decode.
    """
    own = context_of(ctx, "llama_encode")
    runner = own.model.runner
    with runner.lock:
        runner.check("llama_encode")
        placed = _placed("llama_encode", batch, own.model.config.n_vocab)
        if placed is None or runner.sequences is not None or has_decoder(own.model.config):
            return -1
        if max(map(len, placed.places.values())) > own.model.n_ctx:
            return 1
        own.clear()
        texts = [[placed.tokens[i] for i in some] for some in placed.places.values()]
        own.state_rows = _keep_states(own, placed, np.concatenate(own.model.embedding.states(texts)))
    return 0


def floats_of(array: np.ndarray | None) -> Any:
    return FLOATS() if array is None else array.ctypes.data_as(FLOATS)


def llama_get_logits(ctx: Context) -> Any:
    """The logits that were wanted of the last batch: pointer to f32 [rows, n_vocab], or NULL."""
    return floats_of(context_of(ctx, "llama_get_logits").logits)


def llama_get_logits_ith(ctx: Context, i: int) -> Any:
    """The logits after token i of the last batch, or the i-th last ones that were wanted: f32 [n_vocab], or NULL."""
    own = context_of(ctx, "llama_get_logits_ith")
    row = len(own.rows) + i if i < 0 else own.rows.get(i, -1)
    return floats_of(own.logits[row] if own.logits is not None and 0 <= row < len(own.logits) else None)


def llama_set_embeddings(ctx: Context, embeddings: bool) -> None:
    """Sets whether the next batches give states."""
    context_of(ctx, "llama_set_embeddings").embeddings = bool(embeddings)


def llama_get_embeddings(ctx: Context) -> Any:
    """The states of the tokens that were wanted of the last batch: pointer to f32 [rows, C]; NULL if there are none."""
    own = context_of(ctx, "llama_get_embeddings")
    if own.states is None or own.pooling != "none" or not own.state_rows:
        return FLOATS()
    return floats_of(own.states[[own.state_rows[i] for i in sorted(own.state_rows)]])


def llama_get_embeddings_ith(ctx: Context, i: int) -> Any:
    """The state of token i of the last batch, or of the i-th last one that was wanted: pointer to f32 [C], or NULL."""
    own = context_of(ctx, "llama_get_embeddings_ith")
    order = sorted(own.state_rows) if own.states is not None else []
    place = order[i] if -len(order) <= i < 0 else i
    return floats_of(own.states[own.state_rows[place]].copy() if own.states is not None and place in order else None)


def llama_get_embeddings_seq(ctx: Context, seq_id: int) -> Any:
    """The pooled states of the tokens of a sequence in the last batch: pointer to f32 [C], or NULL without pooling."""
    own = context_of(ctx, "llama_get_embeddings_seq")
    places = own.sequence_places.get(seq_id)
    if own.pooling == "rank":
        raise NotImplementedError("llama_get_embeddings_seq: the model classifies texts: use ggml.models.Model.rank")
    if own.states is None or places is None or own.pooling not in ("mean", "cls", "last"):
        return FLOATS()
    return floats_of(own.model.embedding.finished("llama_get_embeddings_seq", own.states[places], own.pooling))


# ---- what sequences hold ---------------------------------------------------------------------------------------------
def llama_memory_clear(mem: Context, data: bool = True) -> None:
    """Empties all sequences."""
    llama_memory_seq_rm(mem, -1, -1, -1)


def llama_memory_seq_rm(mem: Context, seq_id: int, p0: int, p1: int) -> bool:
    """Removes the tokens from position p0 on of a sequence, or of all for -1.

    Returns:
        False, and nothing is removed, if p1 is before the end, there is no such sequence, or a layer no longer has what
        the tokens that remain need.
    """
    own = context_of(mem, "llama_memory_seq_rm")
    with own.model.runner.lock:
        memory = own.sequences("llama_memory_seq_rm").memory
        some = [own.held("llama_memory_seq_rm", number) for number in own.numbers(seq_id)]
        for held in some:
            if held is None or 0 <= p1 < len(held.ids) and max(0, p0) < p1:
                return False
            if p0 > 0 and memory.reachable(held, p0) != min(p0, len(held.ids)):
                return False
        for held in some:
            if not 0 <= p1 <= max(0, p0):
                memory.shorten(held, max(0, p0))
    return True


def llama_memory_seq_cp(mem: Context, seq_id_src: int, seq_id_dst: int, p0: int, p1: int) -> None:
    """Makes a sequence hold the same tokens as another one, the first p1 or all for -1; p0 is 0 or -1."""
    own = context_of(mem, "llama_memory_seq_cp")
    with own.model.runner.lock:
        sequences = own.sequences("llama_memory_seq_cp")
        source, target = (own.held("llama_memory_seq_cp", number) for number in (seq_id_src, seq_id_dst))
        if source is None or target is None or p0 > 0:
            raise ValueError(f"llama_memory_seq_cp: {seq_id_src} to {seq_id_dst} from {p0}: need sequences from 0 to "
                             f"{own.model.n_seq - 1}, and p0 0 or -1")  # fmt: skip
        if seq_id_src != seq_id_dst:
            length = len(source.ids) if p1 < 0 else p1
            sequences.items[seq_id_dst] = sequences.memory.copy(source, length)


def llama_memory_seq_keep(mem: Context, seq_id: int) -> None:
    """Empties all sequences but one."""
    own = context_of(mem, "llama_memory_seq_keep")
    for number in range(own.model.n_seq):
        if number != seq_id:
            llama_memory_seq_rm(mem, number, -1, -1)


def llama_memory_seq_pos_max(mem: Context, seq_id: int) -> int:
    """The last position of a sequence, -1 if it is empty."""
    held = context_of(mem, "llama_memory_seq_pos_max").held("llama_memory_seq_pos_max", seq_id)
    return -1 if held is None else len(held.ids) - 1


def llama_memory_seq_pos_min(mem: Context, seq_id: int) -> int:
    """The first position of a sequence, -1 if it is empty."""
    return min(0, llama_memory_seq_pos_max(mem, seq_id))


# ---- tokens ----------------------------------------------------------------------------------------------------------
def tokenizer_of(vocab: Any, caller: str) -> Any:
    return model_of(vocab, caller).tokenizer


def structure_of(caller: str, given: Any, kind: Any) -> Any:
    """The structure of an argument: one of a kind, a pointer or a reference to one."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, (ctypes.POINTER(kind), REFERENCE)) or not given:
        raise TypeError(f"{caller}: the argument is {str(given)[:60]}: need a {kind.__name__}, or a pointer to one")
    return ctypes.cast(given, ctypes.POINTER(kind)).contents


def write_items(caller: str, buffer: Any, room: int, items: Any, array: Any) -> int:
    """Writes items into a caller's buffer; returns their number, negative if there is no room."""
    if isinstance(buffer, ctypes.Array) and room > len(buffer):
        raise ValueError(f"{caller}: the length is {room}: the buffer has {len(buffer)}")
    if len(items) > room:
        return -len(items)
    if len(items):
        if not isinstance(buffer, BUFFERS) or not isinstance(buffer, ctypes.Array) and not buffer:
            raise TypeError(f"{caller}: the buffer is {str(buffer)[:60]}: need an array of ctypes")
        source = array(items)
        ctypes.memmove(buffer, source, ctypes.sizeof(source))
    return len(items)


def integers(items: Sequence[int]) -> Any:
    return (llama_token * len(items))(*items)


def characters(data: bytes) -> Any:
    return (ctypes.c_char * len(data)).from_buffer_copy(data)


def llama_tokenize(
    vocab: Model, text: bytes, text_len: int, tokens: Any, n_tokens_max: int, add_special: bool, parse_special: bool
) -> int:
    """Splits a text into tokens, which are written into an array; returns their number, negative if it is too short."""
    data = text[: text_len if text_len >= 0 else len(text)]
    ids = tokenizer_of(vocab, "llama_tokenize").encode(data, None if add_special else False, bool(parse_special))
    return write_items("llama_tokenize", tokens, n_tokens_max, ids, integers)


def _tokenize_c(number: int, text: int, text_len: int, tokens: int, room: int, add: bool, parse: bool) -> int:
    """llama_tokenize for callers in C."""
    model = _models.get(number)
    if model is None:
        return -(1 << 31)
    buffer = ctypes.cast(tokens, llama_token_p) if tokens else None
    return llama_tokenize(model, ctypes.string_at(text, max(0, text_len)), -1, buffer, room, add, parse)


# The functions that programs take the address of, as they do with the shared library.
library = SimpleNamespace(
    llama_tokenize=ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int32, ctypes.c_size_t, ctypes.c_int32,
        ctypes.c_bool, ctypes.c_bool,
    )(_tokenize_c)
)  # fmt: skip


def llama_token_to_piece(vocab: Model, token: int, buf: Any, length: int, lstrip: int, special: bool) -> int:
    """Writes the bytes of a token, without some spaces before them; returns their number, negative if too many."""
    tokenizer = tokenizer_of(vocab, "llama_token_to_piece")
    piece = tokenizer.piece(token, bool(special)) if 0 <= token < tokenizer.n_vocab else b""
    spaces = len(piece) - len(piece.lstrip(b" "))
    return write_items("llama_token_to_piece", buf, length, piece[min(lstrip, spaces) :], characters)


def llama_detokenize(
    vocab: Model, tokens: Any, n_tokens: int, text: Any, text_len_max: int, remove_special: bool, unparse_special: bool
) -> int:
    """Writes the text of tokens; returns the number of bytes, negative if there are too many."""
    tokenizer = tokenizer_of(vocab, "llama_detokenize")
    ids = list(tokens[:n_tokens])
    if remove_special and tokenizer.add_bos and ids[:1] == [tokenizer.bos]:
        ids = ids[1:]
    if remove_special and tokenizer.add_eos and ids[-1:] == [tokenizer.eos]:
        ids = ids[:-1]
    data = tokenizer.decode_bytes(ids, bool(unparse_special))
    return write_items("llama_detokenize", text, text_len_max, data, characters)


def llama_vocab_get_text(vocab: Model, token: int) -> bytes:
    """The name of a token in the file."""
    return tokenizer_of(vocab, "llama_vocab_get_text").text(token).encode(errors="surrogateescape")


def _of_token(key: str, vocab: Model, token: int, caller: str, default: Any) -> Any:
    """The item of a key of the file that has one for each token."""
    tokenizer_of(vocab, caller).text(token)  # raises where there is no such token
    items = model_of(vocab, caller).metadata.get(f"tokenizer.ggml.{key}")
    return items[token] if items else default


def llama_vocab_get_score(vocab: Model, token: int) -> float:
    """The score of a token in the file."""
    return float(_of_token("scores", vocab, token, "llama_vocab_get_score", 0.0))


def llama_vocab_get_attr(vocab: Model, token: int) -> int:
    """What a token is: a value of LLAMA_TOKEN_ATTR."""
    kind = _of_token("token_type", vocab, token, "llama_vocab_get_attr", 1)
    return ATTRIBUTES[3] if llama_vocab_is_eog(vocab, token) else ATTRIBUTES.get(kind, 0)


def llama_vocab_is_eog(vocab: Model, token: int) -> bool:
    """Whether a token ends a text."""
    return token in tokenizer_of(vocab, "llama_vocab_is_eog").eog


def llama_vocab_is_control(vocab: Model, token: int) -> bool:
    """Whether a token is a control token, which has no text."""
    return llama_vocab_get_attr(vocab, token) == ATTRIBUTES[3]


# ---- keys of the file ------------------------------------------------------------------------------------------------
def shown(value: Any) -> bytes:
    """A value as llama.cpp prints it."""
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return (f"{value:f}" if isinstance(value, float) else str(value)).encode(errors="surrogateescape")


def write_text(caller: str, buffer: Any, size: int, data: bytes | None) -> int:
    """Writes a text and a zero, cut off where there is no room; returns its whole length, -1 for None."""
    if size > 0:
        write_items(caller, buffer, size, (data or b"")[: size - 1] + b"\0", characters)
    return -1 if data is None else len(data)


def _keys(model: Model, caller: str) -> list[str]:
    return [key for key, value in model_of(model, caller).metadata.items() if not isinstance(value, list)]


def llama_model_meta_count(model: Model) -> int:
    """The number of keys of the file that are no arrays."""
    return len(_keys(model, "llama_model_meta_count"))


def llama_model_meta_val_str(model: Model, key: bytes, buf: Any, buf_size: int) -> int:
    """Writes the value of a key; returns the length of the text, -1 if there is no such key."""
    value = model_of(model, "llama_model_meta_val_str").metadata.get(key.decode(errors="surrogateescape"))
    known = value is not None and not isinstance(value, list)
    return write_text("llama_model_meta_val_str", buf, buf_size, shown(value) if known else None)


def llama_model_meta_key_by_index(model: Model, i: int, buf: Any, buf_size: int) -> int:
    """Writes the name of a key; returns its length, -1 if there is no such key."""
    keys = _keys(model, "llama_model_meta_key_by_index")
    known = 0 <= i < len(keys)
    return write_text("llama_model_meta_key_by_index", buf, buf_size, keys[i].encode() if known else None)


def llama_model_meta_val_str_by_index(model: Model, i: int, buf: Any, buf_size: int) -> int:
    """Writes the value of a key; returns the length of the text, -1 if there is no such key."""
    keys = _keys(model, "llama_model_meta_val_str_by_index")
    return llama_model_meta_val_str(model, keys[i].encode() if 0 <= i < len(keys) else b"", buf, buf_size)


def llama_model_desc(model: Model, buf: Any, buf_size: int) -> int:
    """Writes the architecture; returns the length of the text."""
    return write_text("llama_model_desc", buf, buf_size, model_of(model, "llama_model_desc").config.arch.encode())


def llama_model_chat_template(model: Model, name: bytes | None = None) -> bytes | None:
    """The chat template of the file, or one of its further ones by name; None if there is none."""
    key = "tokenizer.chat_template" + (f".{name.decode()}" if name else "")
    found = model_of(model, "llama_model_chat_template").metadata.get(key)
    return None if found is None else found.encode(errors="surrogateescape")


# ---- functions that need one line ------------------------------------------------------------------------------------
def _id(token: int | None) -> int:
    return -1 if token is None else token


def _named(model: Model, *names: str) -> int:
    """The token that the file names under one of some keys, or -1."""
    found = (special_id(model.metadata, name, None, model.config.n_vocab) for name in names)
    return next((token for token in found if token is not None), -1)


def _number(model: Model, key: str, default: Any) -> Any:
    return model.metadata.get(f"{model.config.arch}.{key}", default)


def _states(model: Model) -> bool:
    """Whether layers have a state that each token changes."""
    memory = model.runner.memory
    return memory is not None and bool(memory.states)


def _pages(model: Model) -> bool:
    """Whether layers keep keys and values."""
    memory = model.runner.memory
    return memory is not None and bool(memory.paged)


def _count(model: Model, measure: Callable[[Any], int]) -> int:
    return sum(map(measure, model.runner.weights.values()))


# Functions of a model or a vocabulary: what each returns of a Model.
QUERIES: dict[str, Callable[[Model], Any]] = {
    "llama_model_n_ctx_train": lambda m: m.config.n_ctx_train,
    "llama_model_n_embd": lambda m: m.config.n_embd,
    "llama_model_n_embd_inp": lambda m: m.config.n_embd,
    "llama_model_n_embd_out": lambda m: m.config.n_embd,
    "llama_model_n_layer": lambda m: m.config.n_layer,
    "llama_model_n_layer_nextn": lambda m: int(_number(m, "nextn_predict_layers", 0)),
    "llama_model_n_head": lambda m: m.config.n_head,
    "llama_model_n_head_kv": lambda m: m.config.n_head_kv,
    "llama_model_n_swa": lambda m: int(_number(m, "attention.sliding_window", 0)),
    "llama_model_n_cls_out": lambda m: 1,
    "llama_model_rope_freq_scale_train": lambda m: 1.0 / (float(_number(m, "rope.scaling.factor", 1.0)) or 1.0),
    "llama_model_size": lambda m: _count(m, ggml.ggml_nbytes),
    "llama_model_n_params": lambda m: _count(m, ggml.ggml_nelements),
    "llama_model_ftype": lambda m: int(m.metadata.get("general.file_type", 0)),
    "llama_model_has_encoder": lambda m: False,
    "llama_model_has_decoder": lambda m: True,
    "llama_model_decoder_start_token": lambda m: -1,
    "llama_model_is_recurrent": lambda m: _states(m) and not _pages(m),
    "llama_model_is_hybrid": lambda m: _states(m) and _pages(m),
    "llama_model_is_diffusion": lambda m: False,
    "llama_vocab_type": lambda m: VOCAB_TYPES.get(m.metadata.get("tokenizer.ggml.model"), 0),
    "llama_vocab_n_tokens": lambda m: m.config.n_vocab,
    "llama_vocab_bos": lambda m: _id(m.tokenizer.bos),
    "llama_vocab_eos": lambda m: _id(m.tokenizer.eos),
    "llama_vocab_eot": lambda m: _id(m.tokenizer.eot),
    "llama_vocab_sep": lambda m: _id(m.tokenizer.separator),
    "llama_vocab_pad": lambda m: _id(m.tokenizer.padding),
    "llama_vocab_nl": lambda m: _id(next(iter(m.tokenizer.encode("\n", False)[-1:]), None)),
    "llama_vocab_mask": lambda m: _named(m, "mask"),
    "llama_vocab_get_add_bos": lambda m: m.tokenizer.add_bos,
    "llama_vocab_get_add_eos": lambda m: m.tokenizer.add_eos,
    "llama_vocab_get_add_sep": lambda m: m.tokenizer.model == "bert",
    "llama_vocab_fim_pre": lambda m: _named(m, "fim_pre", "prefix"),
    "llama_vocab_fim_suf": lambda m: _named(m, "fim_suf", "suffix"),
    "llama_vocab_fim_mid": lambda m: _named(m, "fim_mid", "middle"),
    "llama_vocab_fim_pad": lambda m: _named(m, "fim_pad"),
    "llama_vocab_fim_rep": lambda m: _named(m, "fim_rep"),
    "llama_vocab_fim_sep": lambda m: _named(m, "fim_sep"),
}  # fmt: skip
# Functions of a context: what each returns of a Context.
CONTEXT_QUERIES: dict[str, Callable[[Context], Any]] = {
    "llama_get_model": lambda c: c.model,
    "llama_get_memory": lambda c: c,
    "llama_n_ctx": lambda c: c.model.n_ctx,
    "llama_n_ctx_seq": lambda c: c.model.n_ctx,
    "llama_n_batch": lambda c: c.n_batch,
    "llama_n_ubatch": lambda c: c.n_batch,
    "llama_n_seq_max": lambda c: c.model.n_seq,
    "llama_n_threads": lambda c: max(1, c.model.runner.threads),
    "llama_n_threads_batch": lambda c: max(1, c.model.runner.threads),
    "llama_pooling_type": lambda c: next(kind for kind, name in POOLING.items() if name == c.pooling),
    "llama_get_causal_attn": lambda c: c.model.config.logits,
    "llama_memory_can_shift": lambda c: False,
    "llama_n_rs_seq": lambda c: 0,
    "llama_synchronize": lambda c: None,
}
# Further names of functions, most of earlier releases.
RENAMED = {
    "llama_load_model_from_file": "llama_model_load_from_file", "llama_free_model": "llama_model_free",
    "llama_new_context_with_model": "llama_init_from_model", "llama_n_ctx_train": "llama_model_n_ctx_train",
    "llama_n_embd": "llama_model_n_embd", "llama_n_layer": "llama_model_n_layer", "llama_n_head": "llama_model_n_head",
    "llama_n_vocab": "llama_vocab_n_tokens", "llama_token_get_text": "llama_vocab_get_text",
    "llama_token_get_score": "llama_vocab_get_score", "llama_token_get_attr": "llama_vocab_get_attr",
    "llama_token_is_eog": "llama_vocab_is_eog", "llama_token_is_control": "llama_vocab_is_control",
    "llama_token_bos": "llama_vocab_bos", "llama_token_cls": "llama_vocab_bos", "llama_vocab_cls": "llama_vocab_bos",
    "llama_token_eos": "llama_vocab_eos", "llama_token_eot": "llama_vocab_eot", "llama_token_sep": "llama_vocab_sep",
    "llama_token_nl": "llama_vocab_nl", "llama_token_pad": "llama_vocab_pad",
    "llama_add_bos_token": "llama_vocab_get_add_bos", "llama_add_eos_token": "llama_vocab_get_add_eos",
    **{f"llama_token_fim_{part}": f"llama_vocab_fim_{part}" for part in "pre suf mid pad rep sep".split()},
    **{f"llama_{old}_{name}": f"llama_memory_{name}" for old in ("kv_cache", "kv_self")
       for name in "clear seq_rm seq_cp seq_keep seq_pos_min seq_pos_max can_shift".split()},
}  # fmt: skip
# Functions that have nothing to do here, and what they return.
NOTHING = {
    "llama_backend_init": None, "llama_backend_free": None, "llama_numa_init": None, "llama_log_set": None,
    "llama_set_n_threads": None, "llama_set_warmup": None, "llama_perf_context_print": None,
    "llama_perf_context_reset": None, "llama_max_devices": 1, "llama_max_parallel_sequences": 1 << 16,
    "llama_supports_mmap": True, "llama_supports_mlock": False, "llama_supports_gpu_offload": False,
    "llama_supports_rpc": False, "llama_log_get": None, "llama_max_tensor_buft_overrides": 0,
}  # fmt: skip


def llama_time_us() -> int:
    """Microseconds of a clock."""
    return math.floor(time.perf_counter() * 1e6)


def _query(name: str, get: Callable[[Any], Any], of: Callable[[Any, str], Any]) -> Callable[[Any], Any]:
    def query(handle: Any) -> Any:
        return get(of(handle, name))

    query.__name__ = query.__qualname__ = name
    query.__doc__ = "See llama.h."
    return query


def _nothing(name: str, value: Any) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        return value

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Always {value}."
    return function


llama_vocab_p, llama_model_p, llama_context_p, llama_memory_t, llama_kv_cache_p = (
    Vocab,
    Model,
    Context,
    Context,
    Context,
)
llama_vocab_p_ctypes = llama_model_p_ctypes = llama_context_p_ctypes = ctypes.c_void_p
llama_memory_t_ctypes = llama_kv_cache_p_ctypes = ctypes.c_void_p
globals().update(_constants())
globals().update({name: _query(name, get, model_of) for name, get in QUERIES.items()})
globals().update({name: _query(name, get, context_of) for name, get in CONTEXT_QUERIES.items()})
globals().update({name: _nothing(name, value) for name, value in NOTHING.items()})
globals().update({name: globals()[known] for name, known in RENAMED.items()})
