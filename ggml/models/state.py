"""What the sequences of a model hold: appending to it, shortening it, saving and loading it."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

import ggml

from .._errors import named
from .generate.prompts import Prompts
from .run.batch import Batch
from .run.decodings import Decodings
from .run.encoder_decoder import Decoding
from .run.lora import Lora
from .run.runner import Runner

MAGIC = b"GGST\x01\0\0\0"
DIGEST = 16  # bytes that identify a model, and its adapters and edits
SAMPLED = 16  # tensors of a model that identify it, each by its first bytes
SAMPLE = 4096
PROCESS = os.urandom(DIGEST)  # edits are functions of a process: no other one has them


class States:
    """What sequences hold; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.runner, self.prompts = runner, prompts
        self._model: bytes | None = None
        self._edits: dict[int, Any] = {}  # functions by the numbers in states, which no other function must get

    def feed(
        self, ids: Sequence[int], sequence: int = 0, *, encoder: str | bytes | Sequence[int] | None = None
    ) -> np.ndarray:
        """Appends tokens to what a sequence holds.

        Texts that are generated use the sequences too: with n_seq 1, a text that goes on replaces what was fed.

        Args:
            ids: token ids; of a model with an encoder and a decoder, those of the decoder.
            sequence: which of the n_seq sequences.
            encoder: of such a model, the text that the encoder reads: the decoder begins anew. None if it goes on.
        Returns:
            f32 [n_vocab]: the logits of the token that follows.
        Raises:
            TypeError, ValueError: the tokens are of the wrong kind, out of range, or do not fit into the context.
            RuntimeError: the model is closed.
        """
        with self.runner.lock:
            if self.runner.decodings is not None:
                return self._feed(ids, sequence, encoder, self.runner.decodings)
            sequences = self.runner.causal("feed")
            if encoder is not None:
                raise ValueError("feed: encoder is given: the model has none beside its decoder")
            tokens = self.prompts.ids("feed", ids)
            held = sequences.claim(self._sequence("feed", sequence), None)
            self.runner.check_room("feed", len(held.ids), len(tokens))
            batch = Batch()
            batch.add(sequence, tokens)
            return self.runner.decode(batch)[0].copy()

    def _feed(
        self, ids: Sequence[int], sequence: int, encoder: str | bytes | Sequence[int] | None, sequences: Decodings
    ) -> np.ndarray:
        """The same of a model with an encoder and a decoder."""
        self.runner.check("feed")
        number, tokens = self._sequence("feed", sequence), self.prompts.ids("feed", ids)
        if encoder is not None:
            read = self.prompts.ids("feed", encoder)
            for part in (read, tokens):
                self.runner.check_room("feed", 0, len(part))
            held: Decoding | None = sequences.begun(number, read)
        else:
            self.runner.check_room("feed", len(sequences.ids(number)), len(tokens))
            sequences.claim(number, None)
            held = sequences.items[number]
        if held is None:
            raise ValueError("feed: encoder is missing: need the text that the encoder reads")
        return held.append(tokens)[-1].copy()

    def fed(self, ids: Sequence[int]) -> Iterator[np.ndarray]:
        """Appends tokens to what the first sequence holds, and gives the logits of all of them.

        Other threads may call the model between the items, and close the iterator.

        Args:
            ids: token ids.
        Returns:
            Iterator over arrays f32 [some tokens, n_vocab]; each item appends its tokens.
        Raises:
            TypeError, ValueError, RuntimeError: as feed. From the iterator also RuntimeError: another call changed what
                the sequence holds between two items.
        """
        self.runner.causal("fed")
        tokens = self.prompts.ids("fed", ids)
        expected: list[int] | None = None
        decoder = self.runner.decoder
        assert decoder is not None
        size = decoder.most_results
        for begin in range(0, len(tokens), size):
            part = tokens[begin : begin + size]
            with self.runner.lock:
                held = self.runner.causal("fed").claim(0, None)
                if expected is None:
                    self.runner.check_room("fed", len(held.ids), len(tokens))
                elif held.ids != expected:
                    raise RuntimeError("fed: another call changed what the sequence holds between two items")
                batch = Batch()
                batch.add(0, part, len(part))
                rows = self.runner.decode(batch).copy()
                expected = list(held.ids)
            yield rows

    def reset(self, length: int = 0, sequence: int = 0) -> int:
        """Shortens what a sequence holds to its first tokens.

        Args:
            length: number of tokens to keep.
            sequence: which of the n_seq sequences.
        Returns:
            Number of tokens that remain: 0 if a layer with a sliding window no longer has what it needs. What an
            encoder has read stays.
        """
        with self.runner.lock:
            if (decodings := self.runner.decodings) is not None:
                self.runner.check("reset")
                return decodings.shorten(self._sequence("reset", sequence), max(0, length))
            sequences = self.runner.causal("reset")
            held = sequences.claim(self._sequence("reset", sequence), None)
            return sequences.memory.shorten(held, max(0, length))

    def held(self, sequence: int = 0) -> list[int]:
        """The token ids that a sequence holds; of a model with an encoder and a decoder those of the decoder."""
        with self.runner.lock:
            if (decodings := self.runner.decodings) is not None:
                self.runner.check("held")
                return decodings.ids(self._sequence("held", sequence))
            return list(self.runner.causal("held").items[self._sequence("held", sequence)].ids)

    def _sequence(self, caller: str, sequence: int) -> int:
        if isinstance(sequence, bool) or not isinstance(sequence, int) or not 0 <= sequence < self.runner.n_seq:
            raise ValueError(f"{caller}: sequence is {sequence!r}: need an integer from 0 to {self.runner.n_seq - 1}")
        return sequence

    def save_state(self, sequence: int = 0) -> bytes:
        """Copies the tokens of a sequence with their keys and values.

        Args:
            sequence: which of the n_seq sequences.
        Returns:
            bytes for load_state, of this model or of another one of the same file and kv_type, with the same adapters.
            Where edits were in use, only of this process, with the same edits.
        Raises:
            ValueError: the sequence has an adapter of its own, or nothing yet for its encoder.
            RuntimeError: the model is closed.
        """
        with self.runner.lock:
            if (decodings := self.runner.decodings) is not None:
                self.runner.check("save_state")
                with named("save_state"):
                    return self._sealed(decodings.save(self._sequence("save_state", sequence)))
            sequences = self.runner.causal("save_state")
            held = sequences.items[self._sequence("save_state", sequence)]
            if held.adapter is not None:
                raise ValueError(f"save_state: the sequence has the adapter {held.adapter!r}: need one without")
            return self._sealed(sequences.memory.save(held))

    def load_state(self, state: bytes, sequence: int = 0) -> None:
        """Restores what save_state returned: prompts that begin with these tokens continue from there.

        Args:
            state: bytes of save_state.
            sequence: which of the n_seq sequences.
        Raises:
            TypeError: state is not bytes.
            ValueError: the bytes are not a state, or one of another model, or one that was saved with other adapters or
                edits; nothing is changed.
            RuntimeError: the model is closed.
        """
        with self.runner.lock:
            if (decodings := self.runner.decodings) is not None:
                self.runner.check("load_state")
                number, kept = self._sequence("load_state", sequence), self._opened(state)
                with named("load_state"):
                    decodings.load(number, kept)
                return
            sequences = self.runner.causal("load_state")
            number, kept = self._sequence("load_state", sequence), self._opened(state)
            loaded = sequences.memory.load(kept, "load_state")
            sequences.claim(number, None)
            sequences.items[number] = loaded

    def digest(self, adapter: str | None = None) -> bytes:
        """Identifies the model, its kv_type, its adapters and edits, and the adapter of a name.

        What sequences hold of models with equal digests can be exchanged.
        """
        with self.runner.lock:
            found = blake2b(self._identity() + self._changes(), digest_size=DIGEST)
            found.update(repr(sorted(self.runner.causal("digest").memory.format.items())).encode())
            if adapter is not None:
                self._add_adapter(found, self.runner.named_loras[adapter])
            return found.digest()

    def _sealed(self, kept: bytes) -> bytes:
        """What a sequence holds as a state, which says what it belongs to."""
        return b"".join((MAGIC, self._identity(), self._changes(), kept))

    def _opened(self, state: bytes) -> memoryview:
        """The reverse; raises unless the state belongs to this model with its adapters and edits."""
        try:
            view = memoryview(state).cast("B")
        except TypeError:
            raise TypeError(f"load_state: state is a {type(state).__name__}: need bytes") from None
        start = len(MAGIC)
        model, changes = (bytes(view[at : at + DIGEST]) for at in (start, start + DIGEST))
        if bytes(view[:start]) != MAGIC:
            raise ValueError("load_state: the first bytes are not those of a state")
        if model != self._identity():
            raise ValueError("load_state: the state is of another model")
        if changes != self._changes():
            raise ValueError("load_state: the state was saved with other adapters or edits than are in use now")
        return view[start + 2 * DIGEST :]

    def _identity(self) -> bytes:
        """A digest of the model's file: its name, the keys that were replaced, and the first bytes of some tensors."""
        if self._model is None:
            found, weights = blake2b(digest_size=DIGEST), self.runner.weights
            found.update(repr(self.runner.metadata.get("general.name")).encode(errors="replace"))
            if self.runner.overrides:
                found.update(repr(sorted(self.runner.overrides.items())).encode(errors="replace"))
            _add_samples(found, weights, sorted(weights)[:: -(-len(weights) // SAMPLED)])
            self._model = found.digest()
        return self._model

    def _changes(self) -> bytes:
        """A digest of the adapters and edits in use."""
        found = blake2b(digest_size=DIGEST)
        for lora in self.runner.loras:
            self._add_adapter(found, lora)
        for point, functions in sorted(self.runner.edits.items()):
            if functions:
                self._edits |= {id(function): function for function in functions}
                found.update(PROCESS + point.encode() + repr([id(function) for function in functions]).encode())
        return found.digest()

    @staticmethod
    def _add_adapter(digest: Any, lora: Lora) -> None:
        digest.update(struct.pack("<d", lora.scale))
        _add_samples(digest, lora.file.tensors, sorted(lora.file.tensors))


def _add_samples(digest: Any, tensors: Mapping[str, Any], names: Sequence[str]) -> None:
    """Adds names, types, shapes and first bytes of tensors to a digest."""
    for name in names:
        t = tensors[name].contents
        digest.update(f"{name} {t.type} {t.ne[:4]}".encode(errors="surrogateescape"))
        digest.update(ctypes.string_at(t.data, min(ggml.ggml_nbytes(tensors[name]), SAMPLE)))
