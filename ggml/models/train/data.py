"""Texts and conversations as rows of tokens to train on."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ..files.config import Config
from ..run.batch import ImageToken, positions

Chat = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Tokens(ABC):
    """Tokens that are computed together, and those that should follow."""

    ids: np.ndarray  # i32 [N]
    targets: np.ndarray  # i32: for each token the one that follows, or -1 where it does not count
    # by their places, the embeddings of pictures; `ids` has 0 there
    pictures: dict[int, ImageToken] = field(default_factory=dict, kw_only=True)

    @property
    def n_targets(self) -> int:
        """The number of targets."""
        return int((self.targets >= 0).sum())

    @abstractmethod
    def seen(self, window: int, chunked: bool = False, whole: bool = True) -> np.ndarray:
        """Which tokens (columns) each token (row) sees: bool [N, N].

        `window` limits how far back, to the chunk of so many tokens with `chunked`; 0 for no limit. With `whole`, the
        tokens of a picture see each other where they do in some layers.
        """

    def mask(self, config: Config, local: bool) -> np.ndarray:
        """What is added to the scores of attention, f16 [N, N], in layers with a sliding window or in the others."""
        whole = local or not config.whole_pictures_in_windows
        seen = self.seen(config.window if local else 0, config.chunked, whole)
        return np.where(seen, np.float16(0), np.float16(-np.inf))

    def checksum(self, crc: int) -> int:
        """The CRC-32 of this data behind that of other data."""
        crc = crc32(self.targets.tobytes(), crc32(self.ids.tobytes(), crc))
        for token in self.pictures.values():
            crc = crc32(token.vector, crc)
        return crc


@dataclass(frozen=True, eq=False)
class Row(Tokens):
    """A row of N tokens: one text or several, of which no token sees another's. `targets` are of all N."""

    positions: np.ndarray  # i32 [4, N], in four dimensions, which are equal for tokens of texts; from 0 in each text
    texts: np.ndarray  # i32 [N]: where the token's text begins in the row, which identifies it; -1 for unused places

    @property
    def n_tokens(self) -> int:
        """The number of tokens."""
        return int((self.texts >= 0).sum())

    def seen(self, window: int, chunked: bool = False, whole: bool = True) -> np.ndarray:
        """See Tokens."""
        place = np.arange(len(self.ids))
        age = place[:, None] - place
        seen = (age >= 0) & (self.texts[:, None] == self.texts)
        if window:
            chunk = self.positions[0] // window
            seen &= chunk[:, None] == chunk if chunked else age < window
        for at, token in self.pictures.items():
            seen[at, at : at + token.after * whole + 1] = True
        return seen


@dataclass(frozen=True, eq=False)
class PairRow(Tokens):
    """A text of N places that an encoder reads, and one of M places that a decoder writes, of which `targets` are."""

    n_read: int  # so many of ids are tokens, the first ones
    written: np.ndarray  # i32 [M]: what the decoder sees

    @property
    def positions(self) -> np.ndarray:
        """i32 [4, N], which no layer of an encoder with distances reads."""
        return np.zeros((4, len(self.ids)), np.int32)

    @property
    def n_tokens(self) -> int:
        """The number of tokens that are read and written."""
        return self.n_read + self.n_targets

    def seen(self, window: int, chunked: bool = False, whole: bool = True) -> np.ndarray:
        """See Tokens; these are those that the encoder reads."""
        return np.tile(np.arange(len(self.ids)) < self.n_read, (len(self.ids), 1))


class Example(NamedTuple):
    """A text to train on: its tokens, and for each whether the model should learn to write it."""

    ids: list[int]
    learned: list[bool]


def whole(ids: Sequence[int]) -> Example:
    """An example of which all tokens are learned, except embeddings of pictures."""
    return Example(list(ids), [type(token) is not ImageToken for token in ids])


def chat_example(messages: Chat, template: Any, tokenizer: Any) -> Example:
    """A conversation as an example of which the answers are learned, up to the token that ends each.

    What precedes an answer is tokenised apart from it, as it is when the model answers.

    Args:
        messages: mappings with role and content.
        template: ChatTemplate, or another object with its method render.
        tokenizer: Tokenizer, or another object with its method encode.
    Raises:
        TypeError: messages is not a list of messages.
        ValueError: there is no answer, or the template changes earlier messages when later ones follow.
    """
    example, done = Example([], []), ""

    def add(text: str, learned: bool) -> None:
        ids = tokenizer.encode(text, add_bos=False, special=True)
        ends = [i for i, token in enumerate(ids) if token in tokenizer.eog]
        last = ends[-1] if ends else len(ids) - 1
        example.ids.extend(ids)
        example.learned.extend(learned and i <= last and ids[i] >= 0 for i in range(len(ids)))

    full = template.render(messages, add_generation_prompt=False)  # checks the messages
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        for text, learned in (
            (template.render(messages[:i], add_generation_prompt=True), False),
            (template.render(messages[: i + 1], add_generation_prompt=False), True),
        ):
            if not text.startswith(done) or (learned and not full.startswith(text)):
                raise ValueError(
                    "finetune: the chat template changes earlier messages when later ones follow: "
                    "give conversations with one answer each"
                )
            add(text[len(done) :], learned)
            done = text
    if not any(example.learned):
        raise ValueError("finetune: a conversation has no message of the role 'assistant'")
    if tokenizer.add_bos and tokenizer.bos is not None and example.ids[:1] != [tokenizer.bos]:
        example = Example([tokenizer.bos, *example.ids], [False, *example.learned])
    return example


def read_chats(lines: Iterable[str | bytes], name: str = "the data") -> list[Chat]:
    """Conversations from JSON lines: in each line a list of messages, or an object with such a list as "messages".

    Args:
        lines: lines of a file; empty ones are ignored.
        name: name of the file, for messages.
    Returns:
        A list of messages for each line: mappings with "role" and "content", a string or a list of parts.
    Raises:
        ValueError: a line is not of that form; the message names it.
    """
    chats: list[Chat] = []
    for number, value in _values(lines, name, "read_chats"):
        messages = value.get("messages") if isinstance(value, dict) else value
        if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
            raise ValueError(
                f'read_chats: {name}, line {number}: need {{"messages": [{{"role": "user", "content": "..."}}, ...]}}'
            )
        chats.append(messages)
    return chats


def read_examples(lines: Iterable[str | bytes], name: str = "the data") -> list[Any]:
    """What a model can be trained on, from JSON lines: conversations, labelled texts, or texts that belong together.

    A line is an object with "messages", or a list of messages, as for read_chats; or an object with "text" (a string,
    or a list of two) and "label"; or one with "query" or "anchor", "positive", and perhaps "negative" (a string or a
    list of them).

    Args:
        lines: lines of a file; empty ones are ignored.
        name: name of the file, for messages.
    Returns:
        For each line what `finetune` takes: a conversation, a (text, label), or a tuple of texts.
    Raises:
        ValueError: a line is not of these forms; the message names it.
    """
    found: list[Any] = []
    for number, value in _values(lines, name, "read_examples"):
        example = _example_of(value)
        if example is None:
            forms = '"messages", or "text" and "label", or "query", "positive" and perhaps "negative"'
            raise ValueError(f"read_examples: {name}, line {number}: need an object with {forms}")
        found.append(example)
    return found


def _values(lines: Iterable[str | bytes], name: str, caller: str) -> Iterator[tuple[int, Any]]:
    """The values of JSON lines with their numbers; empty lines are ignored."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{caller}: {name}, line {number} is not JSON: {error}") from None
        yield number, value


def _example_of(value: Any) -> Any:
    """What a line of JSON stands for, or None."""
    messages = value.get("messages") if isinstance(value, dict) else value
    if isinstance(messages, list) and messages and all(map(_is_message, messages)):
        return messages
    if not isinstance(value, dict):
        return None
    if "text" in value and "label" in value:
        text = value["text"]
        if isinstance(text, list) and len(text) == 2 and _are_strings(text):
            text = tuple(text)
        return (text, value["label"]) if isinstance(text, (str, tuple)) else None
    wrong = value.get("negative", [])
    wrong = wrong if isinstance(wrong, list) else [wrong]
    texts = (value.get("query", value.get("anchor")), value.get("positive"), *wrong)
    return texts if _are_strings(texts) else None


def _are_strings(texts: Sequence[Any]) -> bool:
    return all(isinstance(text, str) for text in texts)


def _is_message(value: Any) -> bool:
    content = value.get("content") if isinstance(value, dict) else None
    parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
    return isinstance(value, dict) and isinstance(value.get("role"), str) and (isinstance(content, str) or parts)


def part(example: Example, begin: int, end: int, bos: int | None) -> Example:
    """The tokens from `begin` to before `end`, behind the token `bos` if the whole example begins with it.

    Some models, such as Gemma, predict badly without that token.
    """
    ids, learned = example.ids[begin:end], example.learned[begin:end]
    if begin == 0 or bos is None or example.ids[0] != bos:
        return Example(ids, learned)
    return Example([bos, *ids], [False, False, *learned[1:]])  # no text begins here: its first token is not learned


def pieces(example: Example, length: int, bos: int | None) -> Iterator[Example]:
    """Parts of at most `length` tokens and the target of the last; each begins with the target of the one before."""
    begin, added = 0, bos is not None and example.ids[0] == bos
    while begin < len(example.ids) - 1:
        end = begin + length + 1 - (added and begin > 0)
        yield part(example, begin, end, bos)
        begin = end - 1


def rows(examples: Iterable[Example], length: int, bos: int | None = None, together: bool = True) -> list[Row]:
    """Puts examples into rows of `length` tokens, in their order; longer ones are divided.

    Args:
        examples: texts with at least two tokens.
        length: N, at least 2 if there is bos.
        bos: token for the beginning of a text, which then also begins each part of a text that has it; None for none.
        together: False for one example in each row, for models whose states go on from one to the next.
    Returns:
        The rows that have at least one target.
    """
    parts = []
    for piece in (piece for example in examples for piece in pieces(example, length, bos)):
        ids, learned = np.array([max(token, 0) for token in piece.ids], np.int32), np.array(piece.learned)
        places = positions(piece.ids[:-1], 0)
        parts.append((ids[:-1], np.where(learned[1:], ids[1:], -1), places, pictures_of(piece.ids, length)))
    made: list[Row] = []
    used = length
    for ids, targets, places, pictures in parts:
        if used + len(ids) > length or not together:
            # unused places at the end are a text of their own, number -1
            empty, none = np.zeros(length, np.int32), np.full(length, -1, np.int32)
            made.append(Row(empty, none, np.zeros((4, length), np.int32), none.copy()))
            used = 0
        row, place = made[-1], slice(used, used + len(ids))
        row.ids[place], row.targets[place], row.positions[:, place] = ids, targets, places
        row.texts[place] = used
        row.pictures.update({used + at: token for at, token in pictures.items() if at < len(ids)})
        used += len(ids)
    return [row for row in made if row.n_targets]


def pictures_of(ids: Sequence[int], length: int) -> dict[int, ImageToken]:
    """The embeddings of pictures among tokens, by their places."""
    found = {i: token for i, token in enumerate(ids) if isinstance(token, ImageToken)}
    for i, token in found.items():
        if i + token.after >= len(ids):
            raise ValueError(
                f"finetune: a row of {length} tokens ends within a picture whose tokens see each other: "
                "need rows (tokens) that have room for each text with a picture"
            )
    return found


def examples_of(data: Any, ids_of: Callable[[Any], list[int]], chat: Callable[[Chat], Example]) -> list[Example]:
    """The examples in what a caller gives.

    Args:
        data: a text (str, bytes or token ids), or a sequence of texts or conversations.
        ids_of: function that gives the token ids of a text.
        chat: function that gives the example of a conversation.
    Raises:
        TypeError: data is of another kind.
        ValueError: there is no text with at least two tokens.
    """
    if isinstance(data, (str, bytes)) or is_ids(data):
        found = [whole(ids_of(data))]
    elif isinstance(data, Mapping) or not isinstance(data, (Sequence, np.ndarray)):
        raise TypeError(f"finetune: data is {type(data).__name__}: need a text, or a list of texts or conversations")
    else:
        found = [chat(item) if _is_chat(item) else whole(ids_of(item)) for item in data]
    found = [example for example in found if len(example.ids) > 1]
    if not found:
        raise ValueError("finetune: the data has no text with at least two tokens")
    return found


def pairs_of(data: Any, ids_of: Callable[[Any], list[int]]) -> list[tuple[list[int], list[int]]]:
    """The pairs of a text that is read and one that is written, in what a caller gives.

    A conversation of one message and its answer is a pair too.

    Raises:
        TypeError: data is of another kind.
    """
    need = "need a list of pairs of texts, which the encoder reads and the decoder writes"
    if isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Sequence):
        raise TypeError(f"finetune: data is a {type(data).__name__}: {need}")
    found = []
    for i, item in enumerate(data):
        texts = item if isinstance(item, (list, tuple)) and len(item) == 2 else ()
        messages = [text for text in texts if isinstance(text, Mapping)]
        if [message.get("role") for message in messages] == ["user", "assistant"]:
            texts = [message.get("content") for message in messages]
        if not texts or not all(isinstance(text, (str, bytes)) or is_ids(text) for text in texts):
            raise TypeError(f"finetune: item {i} of the data is {str(item)[:60]!r}: {need}")
        found.append((ids_of(texts[0]), ids_of(texts[1])))
    return found


def pair_rows(pairs: Sequence[tuple[list[int], list[int]]], sizes: tuple[int, int], start: int) -> list[PairRow]:
    """Pairs of at most `sizes` tokens as rows; `start` is the token with which the decoder's texts begin."""

    def padded(ids: Sequence[int], size: int, rest: int) -> np.ndarray:
        return np.array([*ids, *[rest] * (size - len(ids))], np.int32)

    return [
        PairRow(padded(read, sizes[0], 0), padded(written, sizes[1], -1), len(read),
                padded([start, *written[:-1]], sizes[1], 0))
        for read, written in pairs
    ]  # fmt: skip


def sizes_of(pairs: Sequence[tuple[list[int], list[int]]], most: int) -> tuple[int, int]:
    """Places for the longest texts that are read and written."""
    read, written = (places_for(max(map(len, texts)), most) for texts in zip(*pairs, strict=True))
    return read, written


def places_for(length: int, most: int) -> int:
    """Places for texts of up to `length` tokens, of which there may be `most`."""
    if length > most:
        raise ValueError(f"finetune: a text has {length} tokens: need at most {most} (tokens)")
    return -(-length // 8) * 8


def is_ids(data: Any) -> bool:
    """Whether something is a list or an array of token ids."""
    return isinstance(data, (Sequence, np.ndarray)) and len(data) > 0 and isinstance(data[0], (int, np.integer))


def _is_chat(item: Any) -> bool:
    return not isinstance(item, (str, bytes)) and isinstance(item, Sequence) and bool(item) and isinstance(
        item[0], Mapping
    )  # fmt: skip


def divide(examples: list[Example], share: float, bos: int | None = None) -> tuple[list[Example], list[Example]]:
    """Keeps the end of the data apart: the last ones of several examples, the last tokens of one. bos: see rows."""
    if share == 0:
        return examples, []
    if len(examples) > 1:
        cut = min(max(1, round(len(examples) * (1 - share))), len(examples) - 1)
        return examples[:cut], examples[cut:]
    ids, learned = examples[0]
    cut = round(len(ids) * (1 - share))
    if cut < 2 or len(ids) - cut < 2:
        raise ValueError(f"finetune: {len(ids)} tokens are too few to keep a share of {share:g} for validation")
    return [Example(ids[:cut], learned[:cut])], [part(examples[0], cut, len(ids), bos)]
