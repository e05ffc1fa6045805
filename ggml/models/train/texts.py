"""Whole texts to train encoders on: texts with labels, and texts that belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ..files.config import Config
from ..run.batch import ImageToken
from ..run.whole_texts import mask_of
from .data import is_ids, places_for

HIDDEN = -1e9  # is added to the scores of documents that do not count: their shares are 0
ABSENT = [0]  # tokens of a text that only fills a row


class Text(NamedTuple):
    """A text that an encoder reads."""

    ids: list[int]
    types: list[int]  # for each token, which text of a pair it is of


class Item(NamedTuple):
    """A text with the share of each class (one score y is two classes, 1 - y and y); or a query with its documents."""

    texts: tuple[Text, ...]  # one; or the query, the document that answers it, and perhaps others that do not
    shares: tuple[float, ...] = ()

    def checksum(self, crc: int) -> int:
        """The CRC-32 of this data behind that of other data."""
        for text in self.texts:
            crc = crc32(np.array([len(text.ids), *text.ids, *text.types], np.int32).tobytes(), crc)
        return crc32(np.array(self.shares).tobytes(), crc)


@dataclass(frozen=True, eq=False)
class TextsRow:
    """S texts of at most T tokens that are computed together; of the first M the loss is computed."""

    ids: np.ndarray  # i32 [S T], as `types` and `positions`
    types: np.ndarray
    lengths: np.ndarray  # i64 [S]
    shares: np.ndarray  # f32 [M, K]: of each class or document; zeros for a text that only fills the row
    hidden: np.ndarray  # f32 [M, K]: HIDDEN for documents that do not count for a query, else 0

    @property
    def n_targets(self) -> int:
        """The number of texts with a loss."""
        return int(self.shares.any(1).sum())

    @property
    def n_tokens(self) -> int:
        """The number of tokens."""
        return int(self.lengths.sum())

    @property
    def positions(self) -> np.ndarray:
        """i32 [4, S T]: from 0 in each text."""
        count = len(self.lengths)
        return np.tile(np.arange(len(self.ids) // count, dtype=np.int32), (4, count))

    @property
    def pictures(self) -> dict[int, ImageToken]:
        """None."""
        return {}

    def mask(self, config: Config, local: bool) -> np.ndarray:
        """What is added to the scores of attention, f16 [S, T, T]."""
        return mask_of(config, local, self.lengths, len(self.ids) // len(self.lengths), True)


class Texts:
    """Makes rows of items.

    Args:
        items: what is trained on.
        held_out: what measures the loss.
        most: tokens of the longest text that is allowed.
        batch: most items of a row.
        limit: places that a text can have.

    Attributes:
        places: T, the places of a text.
        group: items of a row.
        width: texts of an item.
    """

    def __init__(self, items: Sequence[Item], held_out: Sequence[Item], most: int, batch: int, limit: int) -> None:
        widths = {len(item.texts) for item in (*items, *held_out)}
        if len(widths) > 1:
            counts = " and ".join(map(str, sorted(widths)))
            raise ValueError(f"finetune: items of the data and of the validation have {counts} texts: need as many")
        longest = max(len(text.ids) for item in (*items, *held_out) for text in item.texts)
        self.places = min(places_for(longest, most), limit)
        self.group, self.width = min(batch, len(items)), len(items[0].texts)
        self.compares = self.width > 1
        self.n_classes = (self.width - 1) * self.group if self.compares else len(items[0].shares)
        if self.compares and self.n_classes < 2:
            raise ValueError(
                "finetune: a pair of texts alone: need several, whose documents count as wrong for the queries of the "
                "others, or wrong documents behind each"
            )

    @property
    def count(self) -> int:
        """S, the texts of a row."""
        return self.group * self.width

    def row(self, items: Sequence[Item]) -> TextsRow:
        """A row of at most `group` items: first all queries, then the documents that answer them, then the others."""
        columns = list(zip(*(item.texts for item in items), strict=True))
        texts = [column[i].ids if i < len(items) else ABSENT for column in columns for i in range(self.group)]
        ids, types = np.zeros((2, self.count, self.places), np.int32)
        for i, text in enumerate(texts):
            ids[i, : len(text)] = text
        shares, hidden = np.zeros((2, self.group, self.n_classes), np.float32)
        for i, item in enumerate(items):
            types[i, : len(item.texts[0].types)] = item.texts[0].types
            if self.compares:
                self._compare(shares[i], hidden[i], texts[self.group :], i, len(items))
            else:
                shares[i] = item.shares
        return TextsRow(ids.reshape(-1), types.reshape(-1), np.array(list(map(len, texts))), shares, hidden)

    def _compare(
        self, shares: np.ndarray, hidden: np.ndarray, documents: Sequence[list[int]], i: int, used: int
    ) -> None:
        """Fills in which of the documents answers query i, and which do not count: absent ones, and the same again."""
        shares[i] = 1
        for j, document in enumerate(documents):
            if j % self.group >= used or (j != i and document == documents[i]):
                hidden[j] = HIDDEN

    def rows(self, items: Sequence[Item]) -> list[TextsRow]:
        """Rows of about as many items each."""
        parts = -(-len(items) // self.group)
        return [
            self.row([items[i] for i in part])
            for part in np.array_split(np.arange(len(items)), parts or 1)
            if len(part)
        ]


def labelled(data: Any, text_of: Callable[[Any], Text], n_classes: int, labels: Sequence[str]) -> list[Item]:
    """Items of what a caller gives: texts, or pairs of texts, each with its label.

    Raises:
        TypeError: data is of another kind.
        ValueError: a label is out of range.
    """
    need = "need a list of (text, label), where the text may be a pair of texts"
    found = []
    for i, item in enumerate(_items(data, need)):
        if not isinstance(item, (list, tuple)) or len(item) != 2:
            raise TypeError(f"finetune: item {i} of the data is {str(item)[:60]!r}: {need}")
        found.append(Item((text_of(item[0]),), shares_of(item[1], i, n_classes, labels)))
    return found


def shares_of(label: Any, i: int, n_classes: int, labels: Sequence[str]) -> tuple[float, ...]:
    """The share of each class that a label says."""
    given = f"finetune: the label of item {i} is {str(label)[:60]!r}"
    number = isinstance(label, (int, float, np.integer, np.floating))
    if n_classes == 1:
        if not number or not 0 <= label <= 1:
            raise ValueError(f"{given}: need a number from 0 to 1, as the model has one score")
        return 1 - float(label), float(label)
    if isinstance(label, str) and label in labels:
        label = labels.index(label)
    elif not number or isinstance(label, bool) or not 0 <= label < n_classes or label != int(label):
        names = f", or one of {', '.join(map(repr, labels[:8]))}" if labels else ""
        raise ValueError(f"{given}: need the number of a class, 0 to {n_classes - 1}{names}")
    return tuple(float(k == label) for k in range(n_classes))


def compared(data: Any, text_of: Callable[[Any], Text]) -> list[Item]:
    """Items of what a caller gives: queries, each with a document that answers it and perhaps others that do not.

    Raises:
        TypeError: data is of another kind.
        ValueError: the items have different numbers of texts.
    """
    need = "need a list of pairs of texts that belong together, or of such pairs with texts that do not"
    found = []
    for i, item in enumerate(_items(data, need)):
        if not are_texts(item):
            raise TypeError(f"finetune: item {i} of the data is {str(item)[:60]!r}: {need}")
        found.append(Item(tuple(map(text_of, item))))
        if len(item) != len(data[0]):
            raise ValueError(f"finetune: item {i} of the data has {len(item)} texts, the first has {len(data[0])}")
    return found


def are_texts(item: Any) -> bool:
    """Whether an item of the data consists of several texts."""
    return isinstance(item, (list, tuple)) and len(item) > 1 and all(
        isinstance(text, (str, bytes)) or is_ids(text) for text in item
    )  # fmt: skip


def _items(data: Any, need: str) -> Sequence[Any]:
    if isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Sequence):
        raise TypeError(f"finetune: data is a {type(data).__name__}: {need}")
    return data
