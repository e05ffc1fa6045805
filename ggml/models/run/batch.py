"""A batch: the tokens that are computed together, of one sequence or of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np


class ImageToken(int):
    """An embedding of a picture in place of a token. As a number it is negative; equal pictures have equal ones.

    Attributes:
        vector: f32 [inputs], see Config.n_input: the embedding, and what some layers add to it.
        after: the tokens of the picture that follow and that it sees; 0 if it sees those before it alone.
        place: where it lies in a picture whose tokens have positions in three dimensions: time, row, column.
        taken: by how much the position of the next token is larger, or that of the picture's first one.
    """

    vector: Any
    after: int = 0
    place: tuple[int, int, int] = (0, 0, 0)
    taken: int = 1


def image_tokens(rows: Any, whole: bool, places: Any = None) -> list[ImageToken]:
    """The tokens of a picture.

    Args:
        rows: f32 [tokens, inputs].
        whole: whether they see each other.
        places: [tokens, 3], time, row and column of each in a model whose positions have these dimensions: what follows
            the picture has a position beyond the largest of them. None where positions are those in the sequence.
    """
    digest = blake2b(rows.tobytes(), digest_size=8)
    if places is not None:
        digest.update(repr(np.asarray(places).tolist()).encode())
    first = int.from_bytes(digest.digest(), "little") << 24
    tokens = []
    for i, row in enumerate(rows):
        token = ImageToken(-1 - first - i)
        token.vector, token.after = row, len(rows) - 1 - i if whole else 0
        if places is not None:
            time, row_number, column = map(int, places[i])
            token.place, token.taken = (time, row_number, column), 0
        tokens.append(token)
    if tokens and places is not None:
        tokens[-1].taken = 1 + int(np.max(places))
    return tokens


def taken(tokens: Sequence[int]) -> int:
    """By how much the position after some tokens is larger than that of the first one."""
    return len(tokens) + sum(token.taken - 1 for token in tokens if isinstance(token, ImageToken))


def positions(tokens: Sequence[int], start: int) -> np.ndarray:
    """The positions of tokens in four dimensions, i32 [4, tokens], of which those of texts are equal.

    Args:
        tokens: what is appended to a sequence.
        start: the position of a text that is appended.
    """
    steps = np.ones(1 + len(tokens), np.int32)
    steps[0] = start
    offsets = np.zeros((4, len(tokens)), np.int32)
    for i, token in enumerate(tokens):
        if isinstance(token, ImageToken):
            steps[1 + i] = token.taken
            offsets[1:3, i] = token.place[1:]
            offsets[::3, i] = token.place[0]
    return np.cumsum(steps[:-1], dtype=np.int32) + offsets


def whole_length(tokens: Sequence[int], n: int, most: int) -> int:
    """The first `n` tokens or fewer, so that no picture is divided whose tokens see each other.

    A picture at the beginning is taken as a whole, if it has at most `most` tokens.
    """
    last = tokens[n - 1] if 0 < n < len(tokens) else 0
    if not isinstance(last, ImageToken) or not last.after:
        return n
    end = n + last.after
    start = next((i for i in range(n - 1, 0, -1) if not is_before(tokens[i - 1], tokens[i])), 0)
    if start or end > most:
        return start
    return end


def is_before(token: int, following: int) -> bool:
    """Whether two tokens follow one another in a picture whose tokens see each other."""
    return isinstance(token, ImageToken) and token.after > 0 and token - 1 == following


class Run(NamedTuple):
    """Tokens that follow one another and see `after` tokens that follow them."""

    first: int
    length: int
    after: int


def runs(tokens: Sequence[int]) -> list[Run]:
    """The tokens of a piece: those that see what precedes them, and one by one those that see more."""
    found: list[Run] = []
    start = 0
    for i, token in enumerate(tokens):
        after = min(token.after, len(tokens) - 1 - i) if isinstance(token, ImageToken) else 0
        if after:
            if start < i:
                found.append(Run(start, i - start, 0))
            found.append(Run(i, 1, after))
            start = i + 1
    return [*found, Run(start, len(tokens) - start, 0)] if start < len(tokens) else found


class Piece(NamedTuple):
    """Tokens that are appended to a sequence."""

    sequence: int
    tokens: Sequence[int]
    wanted: int  # logits of so many of them are wanted, the last ones
    first: int  # row of the result that has the first of these logits

    def after(self, tokens: Sequence[int]) -> Piece:
        """The piece with tokens before its own."""
        return Piece(self.sequence, [*tokens, *self.tokens], self.wanted, self.first) if tokens else self


class Row(NamedTuple):
    """A token of a batch: `position` is its distance from the first token that is appended."""

    sequence: int
    token: int
    position: int
    wanted: bool


class Batch:
    """Tokens to append to sequences, in any mixture: a part of a prompt beside the next token of other texts.

    Example:
        batch = Batch()
        prompt, text = batch.add(0, [5, 6, 7]), batch.add(1, [8])
        logits = runner.decode(batch)
        logits[prompt], logits[text]
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.wanted = 0  # rows of the result

    def __len__(self) -> int:
        """The number of tokens."""
        return sum(len(piece.tokens) for piece in self.pieces)

    def add(self, sequence: int, tokens: Sequence[int], wanted: int = 1) -> slice:
        """Appends tokens to a sequence.

        Args:
            sequence: its number; a batch has a sequence once.
            tokens: token ids.
            wanted: logits are wanted of so many of these tokens, the last ones.
        Returns:
            The rows of the result that have them.
        Raises:
            ValueError: the sequence is in the batch already, there are no tokens, or fewer than `wanted`.
        """
        if self.pieces and any(piece.sequence == sequence for piece in self.pieces):
            raise ValueError(f"Batch.add: sequence {sequence} is in the batch already")
        if not len(tokens) or not 0 <= wanted <= len(tokens):
            raise ValueError(f"Batch.add: {len(tokens)} tokens, of {wanted} of which logits are wanted")
        rows = slice(self.wanted, self.wanted + wanted)
        self.pieces.append(Piece(sequence, tokens, wanted, self.wanted))
        self.wanted += wanted
        return rows

    def rows(self) -> Iterator[Row]:
        """The tokens one by one."""
        for piece in self.pieces:
            for i, token in enumerate(piece.tokens):
                yield Row(piece.sequence, token, i, i >= len(piece.tokens) - piece.wanted)


class Limits(NamedTuple):
    """What one graph can compute: at most so many tokens, of so many sequences, with so many logits."""

    tokens: int
    sequences: int
    wanted: int
    even: bool = False  # the same number of tokens of each sequence;
    whole: bool = False  # and that is a divisor of `tokens`


def divided(pieces: Sequence[Piece], limits: Limits) -> Iterator[Sequence[Piece]]:
    """Divides what a batch appends into parts that one graph can compute; those of a sequence keep their order."""
    if len(pieces) == 1 and len(pieces[0].tokens) <= min(limits.tokens, limits.wanted) and not limits.whole:
        yield pieces  # nothing to divide, as for each token of a text
        return
    rest = list(pieces)
    while rest:
        part: list[Piece] = []
        later: list[Piece] = []
        tokens, wanted = 0, 0
        for piece in rest:
            before = len(piece.tokens) - piece.wanted  # tokens whose logits are not wanted
            room = limits.tokens - tokens
            n = min(len(piece.tokens), room, before + limits.wanted - wanted)
            if n > 0 and piece.tokens[n - 1] < 0:
                n = whole_length(piece.tokens, n, room)
                if n == 0 and not part:
                    raise ValueError(f"decode: a picture has more than {limits.tokens} tokens that see each other")
            if limits.even and part:
                n = len(part[0].tokens) if n >= len(part[0].tokens) else 0
            elif limits.even and limits.whole and n > 0:
                n = next(m for m in range(n, 0, -1) if limits.tokens % m == 0)
            if n <= 0 or len(part) == limits.sequences:
                later.append(piece)
                continue
            now = max(0, n - before)
            part.append(Piece(piece.sequence, piece.tokens[:n], now, piece.first))
            if n < len(piece.tokens):
                later.append(Piece(piece.sequence, piece.tokens[n:], piece.wanted - now, piece.first + now))
            tokens, wanted = tokens + n, wanted + now
        yield part
        rest = later
