"""The tokens of a sequence as bytes: ids, and for each embedding of a picture what it consists of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .batch import ImageToken

NUMBER = 12  # bytes of an embedding's number
LARGEST = 1 << 24  # of places and lengths
EMBEDDING = np.dtype([("number", f"V{NUMBER}"), ("after", "<i4"), ("taken", "<i4"), ("place", "<i4", 3)])


def packed(tokens: Sequence[int]) -> bytes:
    """Tokens as bytes: i4 for each, -1 for an embedding, of which follow the records and then the vectors."""
    embeddings = [token for token in tokens if isinstance(token, ImageToken)]
    records = np.zeros(len(embeddings), EMBEDDING)
    for record, token in zip(records, embeddings):
        record["number"] = int(token).to_bytes(NUMBER, "little", signed=True)
        record["after"], record["taken"], record["place"] = token.after, token.taken, token.place
    ids = np.array([-1 if isinstance(token, ImageToken) else token for token in tokens], "<i4")
    return b"".join([ids.tobytes(), records.tobytes(), *(token.vector.astype("<f4").tobytes() for token in embeddings)])


def unpacked(view: memoryview, count: int, n_vocab: int, width: int) -> tuple[list[int], int]:
    """The reverse.

    Args:
        view: bytes that begin with the tokens.
        count: number of tokens.
        n_vocab: ids are less.
        width: elements of a vector.
    Returns:
        The tokens, and how many bytes they took.
    Raises:
        ValueError: the bytes are no tokens of this kind.
    """
    if len(view) < 4 * count:
        raise ValueError("the state is incomplete")
    ids: list[int] = np.frombuffer(view, "<i4", count).tolist()
    if any(not -1 <= token < n_vocab for token in ids):
        raise ValueError("the state has ids beyond the vocabulary")
    pictures, offset = ids.count(-1), 4 * count
    end = offset + pictures * EMBEDDING.itemsize
    if len(view) < end + 4 * width * pictures:
        raise ValueError("the state is incomplete")
    records = np.frombuffer(view, EMBEDDING, pictures, offset)
    vectors = np.frombuffer(view, "<f4", pictures * width, end).reshape(pictures, width).astype(np.float32)
    vectors.flags.writeable = False
    found = iter([embedding(record, vector) for record, vector in zip(records, vectors, strict=True)])
    return [next(found) if token < 0 else token for token in ids], end + 4 * width * pictures


def embedding(record: np.void, vector: np.ndarray) -> ImageToken:
    """The embedding of a record."""
    token = ImageToken(int.from_bytes(record["number"].tobytes(), "little", signed=True))
    token.vector, token.after, token.taken = vector, int(record["after"]), int(record["taken"])
    token.place = (int(record["place"][0]), int(record["place"][1]), int(record["place"][2]))
    if token >= 0 or not 0 <= min(token.after, token.taken, *token.place) or max(
        token.after, token.taken, *token.place
    ) > LARGEST:  # fmt: skip
        raise ValueError("the state has embeddings that are none")
    return token
