"""The functions `llama_state_*` of llama.h: what sequences hold as bytes, in memory and in files.

The bytes of a sequence are those of `Model.save_state`; another runtime cannot read them, nor these its. Files begin as
llama.cpp's do: a magic number, a version, the number of tokens, the tokens.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._errors import named
from .contexts import BUFFERS, Context, characters, context_of, integers, path_of, write_items

MAGIC = b"GGLS\x01\0\0\0"
SESSION = struct.pack("<II", 0x6767736E, 10)  # LLAMA_SESSION_MAGIC and its version
SEQUENCE = struct.pack("<II", 0x67677371, 3)  # LLAMA_STATE_SEQ_MAGIC and its version


def _whole(ctx: Any, caller: str) -> bytes:
    """All sequences and the logits of the last batch."""
    own = context_of(ctx, caller)
    with named(caller):
        states = [own.model.save_state(number) for number in range(own.model.n_seq)]
    logits = own.logits
    kept = b"" if logits is None else logits.tobytes()
    order = sorted(own.rows)
    counts = struct.pack(f"<QQQ{len(states)}Q", len(states), len(order), len(kept), *map(len, states))
    return b"".join((MAGIC, counts, np.array(order, "<i4").tobytes(), kept, *states))


def _set_whole(own: Context, data: bytes, caller: str) -> int:
    """Restores them; returns the number of bytes that were read."""
    n_seq, n_vocab = own.model.n_seq, own.model.config.n_vocab
    head = len(MAGIC) + 24 + 8 * n_seq
    if len(data) < head or data[: len(MAGIC)] != MAGIC:
        raise ValueError(f"{caller}: the first bytes are not those of a state")
    count, rows, size, *lengths = struct.unpack_from(f"<QQQ{n_seq}Q", data, len(MAGIC))
    end = head + 4 * rows + size + sum(lengths)
    if count != n_seq or size != 4 * n_vocab * rows or len(data) < end:
        raise ValueError(f"{caller}: the state is incomplete, or has {count} sequences: need {n_seq}")
    order = np.frombuffer(data, "<i4", rows, head).tolist()
    logits = np.frombuffer(data, "<f4", size // 4, head + 4 * rows).reshape(rows, -1).copy() if rows else None
    place = head + 4 * rows + size
    states = []
    for length in lengths:
        states.append(data[place : place + length])
        place += length
    before = [own.model.save_state(number) for number in range(n_seq)]
    try:
        with named(caller):
            for number, state in enumerate(states):
                own.model.load_state(state, number)
    except BaseException:
        for number, state in enumerate(before):
            own.model.load_state(state, number)
        raise
    own.clear()
    own.keep(order, logits)
    return end


def _bytes(source: Any, size: int, caller: str) -> bytes:
    """The first bytes of an argument: bytes, an array or a pointer of ctypes."""
    if isinstance(source, (bytes, bytearray)) or isinstance(source, ctypes.Array):
        held = bytes(source)
        if size > len(held):
            raise ValueError(f"{caller}: the size is {size}: the buffer has {len(held)}")
        return held[:size]
    if not isinstance(source, BUFFERS) or not source or size < 0:
        raise ValueError(f"{caller}: there is no buffer")
    return ctypes.string_at(source, size)


def _read(path: Any, caller: str, begin: bytes) -> tuple[list[int], bytes]:
    """The tokens and the state of a file."""
    data = Path(path_of(path)).read_bytes()
    if data[:8] != begin or len(data) < 12:
        raise ValueError(f"{caller}: {path_of(path)}: the first bytes are not those of such a file")
    (count,) = struct.unpack_from("<I", data, 8)
    if len(data) < 12 + 4 * count:
        raise ValueError(f"{caller}: {path_of(path)}: the file is incomplete")
    return np.frombuffer(data, "<i4", count, 12).tolist(), data[12 + 4 * count :]


def _file(begin: bytes, tokens: Any, count: int, state: bytes) -> bytes:
    ids: Sequence[int] = [tokens[i] for i in range(count)] if count else []
    return begin + struct.pack("<I", len(ids)) + np.array(ids, "<i4").tobytes() + state


def _give_tokens(caller: str, ids: Sequence[int], out: Any, room: int, count_out: Any) -> None:
    """Writes tokens and their number where a caller wants them."""
    if write_items(caller, out, room, ids, integers) < 0:
        raise ValueError(f"{caller}: the file has {len(ids)} tokens: there is room for {room}")
    if isinstance(count_out, BUFFERS) and count_out:
        ctypes.cast(count_out, ctypes.POINTER(ctypes.c_size_t))[0] = len(ids)


# ---- all sequences ---------------------------------------------------------------------------------------------------
def llama_state_get_size(ctx: Context) -> int:
    """The bytes that llama_state_get_data needs."""
    return len(_whole(ctx, "llama_state_get_size"))


def llama_state_get_data(ctx: Context, dst: Any, size: int) -> int:
    """Writes all sequences and the last logits; returns the number of bytes, 0 if there is no room."""
    return max(0, write_items("llama_state_get_data", dst, size, _whole(ctx, "llama_state_get_data"), characters))


def llama_state_set_data(ctx: Context, src: Any, size: int) -> int:
    """Restores them; returns the number of bytes.

    Raises:
        ValueError: the bytes are no state, or one of another model; nothing is changed.
    """
    own = context_of(ctx, "llama_state_set_data")
    return _set_whole(own, _bytes(src, size, "llama_state_set_data"), "llama_state_set_data")


def llama_copy_state_data(ctx: Context, dst: Any) -> int:
    """The same as llama_state_get_data; the buffer must have llama_state_get_size bytes."""
    return llama_state_get_data(ctx, dst, llama_state_get_size(ctx))


def llama_set_state_data(ctx: Context, src: Any) -> int:
    """The same as llama_state_set_data, of bytes or an array of ctypes."""
    if not isinstance(src, (bytes, bytearray, ctypes.Array)):
        raise TypeError(f"llama_set_state_data: the data is a {type(src).__name__}: need bytes, or an array of ctypes")
    return llama_state_set_data(ctx, src, len(bytes(src)))


def llama_state_save_file(ctx: Context, path_session: bytes, tokens: Any, n_token_count: int) -> bool:
    """Writes a file with tokens and all sequences."""
    state = _whole(ctx, "llama_state_save_file")
    Path(path_of(path_session)).write_bytes(_file(SESSION, tokens, n_token_count, state))
    return True


def llama_state_load_file(
    ctx: Context, path_session: bytes, tokens_out: Any, n_token_capacity: int, n_token_count_out: Any
) -> bool:
    """Restores what llama_state_save_file wrote.

    Raises:
        OSError, ValueError: there is no such file, or it is of another model; nothing is changed.
    """
    own = context_of(ctx, "llama_state_load_file")
    ids, state = _read(path_session, "llama_state_load_file", SESSION)
    _give_tokens("llama_state_load_file", ids, tokens_out, n_token_capacity, n_token_count_out)
    _set_whole(own, state, "llama_state_load_file")
    return True


# ---- one sequence ----------------------------------------------------------------------------------------------------
def _one(ctx: Any, seq_id: int, caller: str) -> bytes:
    with named(caller):
        return context_of(ctx, caller).model.save_state(seq_id)


def _set_one(ctx: Any, state: bytes, seq_id: int, caller: str) -> int:
    with named(caller):
        context_of(ctx, caller).model.load_state(state, seq_id)
    return len(state)


def llama_state_seq_get_size(ctx: Context, seq_id: int) -> int:
    """The bytes that llama_state_seq_get_data needs."""
    return len(_one(ctx, seq_id, "llama_state_seq_get_size"))


def llama_state_seq_get_data(ctx: Context, dst: Any, size: int, seq_id: int) -> int:
    """Writes a sequence; returns the number of bytes, 0 if there is no room."""
    caller = "llama_state_seq_get_data"
    return max(0, write_items(caller, dst, size, _one(ctx, seq_id, caller), characters))


def llama_state_seq_set_data(ctx: Context, src: Any, size: int, dest_seq_id: int) -> int:
    """Restores a sequence, which may have another number; returns the number of bytes.

    Raises:
        ValueError: the bytes are no state, or one of another model; nothing is changed.
    """
    caller = "llama_state_seq_set_data"
    return _set_one(ctx, _bytes(src, size, caller), dest_seq_id, caller)


def llama_state_seq_get_size_ext(ctx: Context, seq_id: int, flags: int) -> int:
    """The same as llama_state_seq_get_size."""
    return llama_state_seq_get_size(ctx, seq_id)


def llama_state_seq_get_data_ext(ctx: Context, dst: Any, size: int, seq_id: int, flags: int) -> int:
    """The same as llama_state_seq_get_data."""
    return llama_state_seq_get_data(ctx, dst, size, seq_id)


def llama_state_seq_set_data_ext(ctx: Context, src: Any, size: int, dest_seq_id: int, flags: int) -> int:
    """The same as llama_state_seq_set_data."""
    return llama_state_seq_set_data(ctx, src, size, dest_seq_id)


def llama_state_seq_save_file(ctx: Context, filepath: bytes, seq_id: int, tokens: Any, n_token_count: int) -> int:
    """Writes a file with tokens and a sequence; returns its bytes."""
    data = _file(SEQUENCE, tokens, n_token_count, _one(ctx, seq_id, "llama_state_seq_save_file"))
    return Path(path_of(filepath)).write_bytes(data)


def llama_state_seq_load_file(
    ctx: Context, filepath: bytes, dest_seq_id: int, tokens_out: Any, n_token_capacity: int, n_token_count_out: Any
) -> int:
    """Restores what llama_state_seq_save_file wrote; returns the bytes of the file.

    Raises:
        OSError, ValueError: there is no such file, or it is of another model; nothing is changed.
    """
    caller = "llama_state_seq_load_file"
    ids, state = _read(filepath, caller, SEQUENCE)
    _give_tokens(caller, ids, tokens_out, n_token_capacity, n_token_count_out)
    return _set_one(ctx, state, dest_seq_id, caller) + 12 + 4 * len(ids)


llama_get_state_size, llama_load_session_file = llama_state_get_size, llama_state_load_file
llama_save_session_file, llama_state_seq_flags = llama_state_save_file, ctypes.c_uint32
