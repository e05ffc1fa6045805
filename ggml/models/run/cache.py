"""The keys and values of the tokens that a model has seen.

Each layer has two tensors [D, cells, G, sequences] (ggml order; D the size of a head, G the number of heads). The token
at position p of a sequence lies in cell p mod cells. Layers that attend to everything have a cell for each token of
the context. Layers with a sliding window have cells for the window and for the tokens of one step, and use them again.
"""

from __future__ import annotations

import ctypes
import json
import struct
from typing import Any, NamedTuple

import numpy as np

import ggml

from ..._owners import Owner
from ..files.config import Config

Tensor = Any
TYPES = {"f32": ggml.GGML_TYPE_F32, "f16": ggml.GGML_TYPE_F16, "q8_0": ggml.GGML_TYPE_Q8_0}
SEEN, HIDDEN = np.float16(0), np.float16(-np.inf)
MAGIC = b"GGKV\x01\0\0\0"


def round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


class CacheView(NamedTuple):
    """The part of a cache that one graph uses: some consecutive sequences, and the first cells of each."""

    cache: Cells
    first: int  # sequence
    sequences: int
    keys: dict[bool, int]  # cells that attention reads, by "has a sliding window"
    cells: dict[bool, Tensor]  # i64 [T, 1, S]: the cells in which the tokens of the step are stored

    def store(self, ctx: Any, layer: int, local: bool, k: Tensor, v: Tensor) -> list[Tensor]:
        """Stores k and v [D, T, G, S]; returns what attention reads: [D, keys, G, S]."""
        results = []
        for tensor, new in zip(self.cache.tensors[layer], (k, v), strict=True):
            d, cells, g, _ = tensor.contents.ne[:4]
            _, nb1, nb2, nb3 = tensor.contents.nb[:4]
            part = tensor
            if self.sequences != self.cache.n_seq:
                part = ggml.ggml_view_4d(ctx, tensor, d, cells, g, self.sequences, nb1, nb2, nb3, self.first * nb3)
            part = ggml.ggml_set_rows(ctx, part, new, self.cells[local])
            results.append(ggml.ggml_view_4d(ctx, part, d, self.keys[local], g, self.sequences, nb1, nb2, nb3, 0))
        return results


class Cells(Owner):
    """The memory of a cache, and who is where in it; see Cache."""

    def __init__(self, config: Config, n_ctx: int, n_seq: int, kv_type: str, step: int) -> None:
        if kv_type not in TYPES:
            raise ValueError(f"load: kv_type is {kv_type!r}: need one of {', '.join(TYPES)}")
        kind = TYPES[kv_type]
        block = ggml.ggml_blck_size(kind)
        if config.key_dim % block or config.value_dim % block:
            raise ValueError(
                f"load: kv_type is {kv_type!r}, heads have {config.key_dim} and {config.value_dim} elements: "
                f"need multiples of {block}"
            )
        self.config, self.n_ctx, self.n_seq, self.kv_type = config, n_ctx, n_seq, kv_type
        full = round_up(n_ctx + 1, 32)  # one spare cell: a sequence that pauses in a batch writes behind its tokens
        self.sizes = {False: full, True: min(full, round_up(config.window + step, 32))}
        self.ids: list[list[int]] = [[] for _ in range(n_seq)]
        # positions that have been written: after shortening, or where a compute was interrupted, more than the ids
        self.written = [0] * n_seq
        self.ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=True))
        self.buffer = None
        self.tensors: list[tuple[Tensor, Tensor]] = []
        for local in config.local:
            k, v = (
                ggml.ggml_new_tensor_4d(self.ctx, kind, dim, self.sizes[local], config.n_head_kv, n_seq)
                for dim in (config.key_dim, config.value_dim)
            )
            self.tensors.append((k, v))
        self.buffer = ggml.ggml_backend_alloc_ctx_tensors_from_buft(self.ctx, ggml.ggml_backend_cpu_buffer_type())
        if not self.buffer:
            ggml.ggml_free(self.ctx)
            raise MemoryError(f"load: no memory for the keys and values of {n_seq} * {n_ctx} tokens (n_seq, n_ctx)")

    def close(self) -> None:
        if self.buffer is not None:
            ggml.ggml_backend_buffer_free(self.buffer)
            self.buffer = None
            ggml.ggml_free(self.ctx)

    def forget(self) -> None:
        """Empties all sequences."""
        for sequence in range(self.n_seq):
            self._empty(sequence)

    def _empty(self, sequence: int) -> None:
        self.ids[sequence].clear()
        self.written[sequence] = 0

    def will_write(self, sequence: int, length: int) -> None:
        """Notes, before a compute, that it writes the cells of a sequence up to that of token `length` - 1."""
        self.written[sequence] = max(self.written[sequence], length)

    def rewind(self, sequence: int, length: int) -> int:
        """Shortens a sequence to its first `length` tokens; returns how many remain.

        That is 0 if a layer with a sliding window no longer has the tokens that it would need.
        """
        ids = self.ids[sequence]
        if length < len(ids):
            if any(self.config.local):
                # the cells hold the last `sizes` positions; the next token needs the window before it
                oldest = self.written[sequence] - self.sizes[True]
                if oldest > max(0, length - self.config.window):
                    length = 0
            del ids[length:]
            if not ids:
                self.written[sequence] = 0
        return len(ids)

    def mask(self, out: np.ndarray, local: bool, start: int) -> None:
        """Fills in the mask of one sequence: 0 where the query sees the key, -inf elsewhere.

        Args:
            out: f16 [T, keys].
            local: True for layers with a sliding window.
            start: position of the first of the T queries.
        """
        count, keys = out.shape
        newest = start + count - 1
        # the position that each cell holds: the largest p <= newest with p mod size = cell; negative if there is none
        held = newest - (newest - np.arange(keys)) % self.sizes[local]
        queries = np.arange(start, start + count)[:, None]
        seen = (held >= 0) & (held <= queries)
        if local:
            seen &= held > queries - self.config.window
        out[...] = np.where(seen, SEEN, HIDDEN)


class Cache(Cells):
    """The memory of all sequences, and the token ids that each of them holds.

    Args:
        config: sizes of the model.
        n_ctx: most tokens of a sequence.
        n_seq: number of sequences.
        kv_type: "f16", "f32" or "q8_0".
        step: most tokens that one compute stores.
    """

    def _raw(self, tensor: Tensor, sequence: int, tokens: int, local: bool) -> np.ndarray:
        """The bytes of the first cells of a sequence, as many as it uses: u8 [G, cells, bytes of D]."""
        t = tensor.contents
        _, cells, heads, _ = t.ne[:4]
        row = t.nb[1]
        memory = (ctypes.c_uint8 * t.nb[3]).from_address(t.data + sequence * t.nb[3])
        return np.frombuffer(memory, np.uint8).reshape(heads, cells, row)[:, : min(tokens, self.sizes[local])]

    def _format(self) -> dict[str, Any]:
        """What must be equal for a state to be loaded."""
        c = self.config
        return {"arch": c.arch, "layers": c.n_layer, "heads": c.n_head_kv, "dims": [c.key_dim, c.value_dim],
                "type": self.kv_type, "local": self.sizes[True] if any(c.local) else 0}  # fmt: skip

    def save(self, sequence: int) -> bytes:
        """The token ids of a sequence with their keys and values."""
        ids = self.ids[sequence]
        header = json.dumps({**self._format(), "tokens": len(ids), "written": self.written[sequence]}).encode()
        parts = [MAGIC, struct.pack("<I", len(header)), header, np.array(ids, "<i4").tobytes()]
        for pair, local in zip(self.tensors, self.config.local, strict=True):
            parts += [self._raw(tensor, sequence, len(ids), local).tobytes() for tensor in pair]
        return b"".join(parts)

    def load(self, sequence: int, state: bytes | memoryview, caller: str = "load_state") -> None:
        """Restores what save returned. A state of another model or cache is refused before anything is changed."""
        try:
            view = memoryview(state).cast("B")
        except TypeError:
            raise TypeError(f"{caller}: state is a {type(state).__name__}: need bytes") from None
        try:
            if bytes(view[:8]) != MAGIC:
                raise ValueError("the first bytes are not those of a state")
            (length,) = struct.unpack("<I", view[8:12])
            if len(view) < 12 + length:
                raise ValueError("the state is incomplete")
            header = json.loads(bytes(view[12 : 12 + length]))
            tokens = header.pop("tokens")
            written = header.pop("written", tokens)
            if header != self._format():
                raise ValueError(f"the state is of {header}, the model has {self._format()}")
            if not isinstance(tokens, int) or not 0 <= tokens <= self.n_ctx:
                raise ValueError(f"the state has {tokens} tokens, the context {self.n_ctx}")
            if not isinstance(written, int) or not tokens <= written <= self.sizes[False]:
                raise ValueError(f"the state has {tokens} tokens of {written} that were written")
            offset = 12 + length
            ids = np.frombuffer(view[offset : offset + 4 * tokens], "<i4").tolist()
            targets = [
                self._raw(tensor, sequence, tokens, local)
                for pair, local in zip(self.tensors, self.config.local, strict=True)
                for tensor in pair
            ]
            offset += 4 * tokens
            if len(view) != offset + sum(t.size for t in targets) or len(ids) != tokens:
                raise ValueError("the state is incomplete")
            if any(not 0 <= token < self.config.n_vocab for token in ids):
                raise ValueError("the state has ids beyond the vocabulary")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
            raise ValueError(f"{caller}: {error}") from None
        self._empty(sequence)  # nothing is valid if the copy is interrupted
        for target in targets:
            target[...] = np.frombuffer(view[offset : offset + target.size], np.uint8).reshape(target.shape)
            offset += target.size
        self.will_write(sequence, written)
        self.ids[sequence][:] = ids
