"""What an answer consists of: reasoning, content, calls of tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from .syntaxes import Call, NoCallError, Schemas, control_names
from .tools import Format

# Texts around a model's reasoning, by what its chat template has; of several, the first.
TAGS = {
    "<|END_THINKING|>": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "</seed:think>": ("<seed:think>", "</seed:think>"),
    "</mm:think>": ("<mm:think>", "</mm:think>"),
    "</think{}>": ("<think:opensource>", "</think:opensource>"),
    "<channel|>": ("<|channel>thought\n", "<channel|>"),
    "<|inner_suffix|>": ("<|inner_prefix|>", "<|inner_suffix|>"),
    "[/THINK]": ("[THINK]", "[/THINK]"),
    "\u25c1/think\u25b7": ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    "</think>": ("<think>", "</think>"),
}

HEAD = 200  # characters of a prompt's end that may be a head


class Part(NamedTuple):
    """A part of an answer: `kind` is "reasoning", "content" or "call"."""

    kind: str
    text: str
    call: Call | None = None


class Reader(Protocol):
    """Reads the parts of an answer out of its text, which comes in pieces."""

    @property
    def thinks(self) -> bool:
        """Whether the text goes on with reasoning."""

    def push(self, text: str) -> list[Part]:
        """The parts that are certain after another piece."""

    def finish(self) -> list[Part]:
        """The parts that are left at the end."""


def tags_of(source: str) -> tuple[str, str] | None:
    """The texts around the reasoning of the models that a chat template is for, None if they show none."""
    return next((tags for mark, tags in TAGS.items() if mark in source), None)


def overlap(text: str, marks: list[str]) -> int:
    """The length of the longest end of a text that may be the beginning of a mark."""
    return max((n for mark in marks for n in range(1, min(len(mark), len(text) + 1)) if mark.startswith(text[-n:])),
               default=0)  # fmt: skip


class Plain:
    """The reader of answers with tags around reasoning, and calls of one form.

    Args:
        form: of the calls, or None if there are no tools.
        tags: around reasoning, or None.
        thinking: whether the prompt ends within reasoning.
        schemas: of the tools' arguments.
    """

    def __init__(self, form: Format | None, tags: tuple[str, str] | None, thinking: bool, schemas: Schemas) -> None:
        self._form, self._tags, self._schemas = form, tags, schemas
        self._mode = "reasoning" if thinking and tags else "content"
        self._rest, self._held = "", ""  # what is not read yet; what becomes content if it is no call
        self._empty, self._called = True, False  # whether there was no content, whether there was a call
        self._thought = False  # whether there was reasoning

    @property
    def thinks(self) -> bool:
        return self._mode == "reasoning"

    def push(self, text: str) -> list[Part]:
        self._rest += text
        if self._mode == "calls" and not any(c in text for c in "})]>`"):
            return []
        return list(self._parts(False))

    def finish(self) -> list[Part]:
        return list(self._parts(True))

    def _parts(self, last: bool) -> Iterator[Part]:
        while self._rest or last:
            before = self._mode, len(self._rest)
            yield from getattr(self, "_" + self._mode)(last)
            if before == (self._mode, len(self._rest)):
                return

    def _reasoning(self, last: bool) -> Iterator[Part]:
        assert self._tags is not None
        text, mark, rest = self._rest.partition(self._tags[1])
        if mark:
            self._mode, self._rest = "content", rest.lstrip()
            text = text.rstrip()
        elif last:
            self._rest = ""
        else:
            cut = len(text.rstrip()) if not text.endswith(tuple(self._tags[1])) else len(text)
            cut = min(cut, len(text) - overlap(text, [self._tags[1]]))
            cut = len(text[:cut].rstrip())
            text, self._rest = text[:cut], text[cut:]
        if not self._thought and text:
            text = text.lstrip()
        if text:
            self._thought = True
            yield Part("reasoning", text)

    def _content(self, last: bool) -> Iterator[Part]:
        begins = list(self._form.begin) if self._form else []
        opens = [self._tags[0]] if self._tags and self._empty else []
        if self._empty and self._tags:
            self._rest = self._rest.lstrip()
            if self._tags[1].startswith(self._rest) and not last:
                return
            if not self._thought and not self._called and self._rest.startswith(self._tags[1]):  # of no reasoning
                self._rest, self._thought = self._rest.removeprefix(self._tags[1]).lstrip(), True
                return
        if self._form and self._form.bare and self._empty and self._rest.lstrip().startswith(self._form.bare):
            self._mode, self._held = "calls", self._rest
            self._rest = self._rest.lstrip()
            return
        places = [(place, mark) for mark in (*opens, *begins) if (place := self._rest.find(mark)) >= 0]
        if places:
            place, mark = min(places, key=lambda found: (found[0], -len(found[1])))
            skipped = len(mark) if mark in opens or self._form is None else self._form.skipped(mark)
            text, self._rest = self._rest[:place].rstrip(), self._rest[place + skipped :]
            self._mode = "reasoning" if mark in opens else "calls"
            self._held = mark
        else:
            cut = len(self._rest)
            if not last:
                cut -= overlap(self._rest, [*opens, *begins])
                cut = len(self._rest[:cut].rstrip()) if begins else cut
            text, self._rest = self._rest[:cut], self._rest[cut:]
        if text and not (self._called and text.isspace()):
            self._empty = False
            yield Part("content", text)

    def _calls(self, last: bool) -> Iterator[Part]:
        """One call, or the end of the calls."""
        form = self._form
        assert form is not None
        found = re.match(form.end, self._rest) if not self._held else None
        if found and found[0].strip():
            close, rest = form.last.strip().removeprefix("]"), self._rest[found.end() :].strip()
            if not last and close not in found[0] and close.startswith(rest):
                return  # the text that ends the calls is not complete
            self._mode, self._rest = "content", self._rest[found.end() :].lstrip()
            return
        begin = re.match(form.before, self._rest)
        at = begin.end() if begin else 0
        for mark in form.begin if not self._held else ():
            if self._rest.startswith(mark, at):
                at += form.skipped(mark)
        begin = re.compile(form.before).match(self._rest, at)
        at = begin.end() if begin else at
        try:
            call = form.syntax.take(self._rest[at:], self._schemas)
        except NoCallError:
            call = None
        if call is not None:
            self._rest, self._held, self._empty, self._called = self._rest[at + call.end :], "", False, True
            yield Part("call", "", call)
        elif last:
            text = ("" if self._rest.startswith(self._held.lstrip()) else self._held) + self._rest
            self._mode, self._rest, self._held = "content", "", ""
            if text.strip():
                yield Part("content", text)


class Addressed:
    """The reader of answers that consist of messages with heads, such as those of gpt-oss.

    Args:
        form: of the answers, with heads.
        schemas: of the tools' arguments.
        prompt: the text before, which may end with a head.
    """

    def __init__(self, form: Format, schemas: Schemas, prompt: str = "") -> None:
        assert form.heads is not None
        self._heads, self._syntax, self._schemas = form.heads, form.syntax, schemas
        known = [*self._heads.reasoning, *self._heads.content, *schemas]
        head = self._heads.head.replace("{names}", "|".join(map(re.escape, known)))
        self._head, self._found = re.compile(head, re.S), re.compile(self._heads.name, re.S)
        self._ends = [end.replace("{names}", name) for end in self._heads.ends
                      for name in (known if "{names}" in end else [""])]  # fmt: skip
        self._rest, self._kind, self._name, self._text = "", "", "", ""  # kind of the message; "": its head
        if last := re.search(rf"(?s:{head})\s*\Z", prompt[-HEAD:]):
            self._open(last[0])

    @property
    def thinks(self) -> bool:
        return self._kind == "reasoning"

    def push(self, text: str) -> list[Part]:
        self._rest += text
        return list(self._parts(False))

    def finish(self) -> list[Part]:
        return list(self._parts(True))

    def _parts(self, last: bool) -> Iterator[Part]:
        while self._rest:
            if not self._kind:
                found = self._head.search(self._rest)
                if found is None:
                    if last and not self._marked(self._rest):  # an answer without heads
                        yield Part("content", self._rest)
                        self._rest = ""
                    return
                self._open(found[0])
                self._rest = self._rest[found.end() :]
                continue
            ends = [end.replace("{}", self._name) for end in self._ends]
            places = [(place, end) for end in ends if (place := self._rest.find(end)) >= 0]
            if places:
                place, end = min(places)
                text, self._rest = self._rest[:place], self._rest[place:]
                yield from self._message(text, end)
                self._kind = ""
            elif self._kind == "call":
                if last:
                    yield from self._message(self._rest)
                    self._rest = ""
                return
            else:
                cut = len(self._rest) - (0 if last else overlap(self._rest, ends))
                text, self._rest = self._rest[:cut], self._rest[cut:]
                yield from self._message(text)
                return

    def _marked(self, text: str) -> bool:
        """Whether a text has marks of messages, which no content has."""
        return any(mark in text for mark in control_names(self._heads.texts))

    def _open(self, head: str) -> None:
        """Reads the head of a message."""
        found = self._found.match(head)
        self._name = next(filter(None, found.groups()), "") if found else ""
        self._kind = "reasoning" if self._name in self._heads.reasoning else "call"
        if not self._name or self._name in self._heads.content:
            self._kind = "content"
        self._text = head

    def _message(self, text: str, end: str = "") -> Iterator[Part]:
        if self._kind != "call":
            if text:
                yield Part(self._kind, text)
            return
        try:
            call = self._syntax.take(self._text + text + end, self._schemas)
        except NoCallError:
            call = None
        if call is not None:
            yield Part("call", "", call)
        elif text:
            yield Part("content", text)


def reasoning_tokens(reader: Reader, pieces: Iterable[str]) -> int:
    """How many tokens of an answer are reasoning, with those of the mark that ends it.

    Args:
        reader: at the beginning of the answer.
        pieces: the text of each token.
    """
    count = 0
    for piece in pieces:
        count += reader.thinks
        reader.push(piece)
    return count
