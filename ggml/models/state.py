"""What the sequences of a model hold: appending to it, shortening it, saving and loading it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .generate.prompts import Prompts
from .run.batch import Batch
from .run.runner import Runner


class States:
    """What sequences hold; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.runner, self.prompts = runner, prompts

    def feed(self, ids: Sequence[int], sequence: int = 0) -> np.ndarray:
        """Appends tokens to what a sequence holds.

        Texts that are generated use the sequences too: with n_seq 1, a text that goes on replaces what was fed.

        Args:
            ids: token ids.
            sequence: which of the n_seq sequences.
        Returns:
            f32 [n_vocab]: the logits of the token that follows.
        Raises:
            TypeError, ValueError: the tokens are of the wrong kind, out of range, or do not fit into the context.
            RuntimeError: the model is closed.
        """
        with self.runner.lock:
            sequences = self.runner.causal("feed")
            tokens = self.prompts.ids("feed", ids)
            held = sequences.claim(self._sequence("feed", sequence), None)
            self.runner.check_room("feed", len(held.ids), len(tokens))
            batch = Batch()
            batch.add(sequence, tokens)
            return self.runner.decode(batch)[0].copy()

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
            Number of tokens that remain: 0 if a layer with a sliding window no longer has what it needs.
        """
        with self.runner.lock:
            sequences = self.runner.causal("reset")
            held = sequences.claim(self._sequence("reset", sequence), None)
            return sequences.memory.shorten(held, max(0, length))

    def held(self, sequence: int = 0) -> list[int]:
        """The token ids that a sequence holds."""
        with self.runner.lock:
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
            bytes for load_state, of this model or of another one of the same file and kv_type.
        Raises:
            RuntimeError: the model is closed.
        """
        with self.runner.lock:
            sequences = self.runner.causal("save_state")
            return sequences.memory.save(sequences.items[self._sequence("save_state", sequence)])

    def load_state(self, state: bytes, sequence: int = 0) -> None:
        """Restores what save_state returned: prompts that begin with these tokens continue from there.

        Args:
            state: bytes of save_state.
            sequence: which of the n_seq sequences.
        Raises:
            TypeError: state is not bytes.
            ValueError: the bytes are not a state, or one of another model; nothing is changed.
            RuntimeError: the model is closed.
        """
        with self.runner.lock:
            sequences = self.runner.causal("load_state")
            number = self._sequence("load_state", sequence)
            loaded = sequences.memory.load(state, "load_state")
            sequences.claim(number, None)
            sequences.items[number] = loaded
