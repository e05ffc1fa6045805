"""An answer as numbered blocks, for forms that announce each: reasoning, content, calls of tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass
class Block:
    """A block: `kind` is "reasoning", "content" or "call"."""

    kind: str
    text: str = ""
    call: Mapping[str, Any] | None = None  # of a call: its form in chats


class Change(NamedTuple):
    """What happens to a block: it begins, a text comes, it ends."""

    what: str  # "begin", "text" or "end"
    number: int
    block: Block
    text: str = ""


class Blocks:
    """Makes blocks of the parts of an answer.

    Attributes:
        items: the blocks so far.
    """

    def __init__(self) -> None:
        self.items: list[Block] = []
        self._open = False

    def push(self, delta: Mapping[str, Any]) -> Iterator[Change]:
        """What another part changes."""
        for call in delta.get("tool_calls", ()):
            yield from self._begin(Block("call", call=call))
            yield from self._add(call["function"]["arguments"])
            yield from self.finish()
        for kind, name in (("reasoning", "reasoning_content"), ("content", "content")):
            if text := delta.get(name):
                if not self._open or self.items[-1].kind != kind:
                    yield from self._begin(Block(kind))
                yield from self._add(text)

    def finish(self) -> Iterator[Change]:
        """What the end changes."""
        if self._open:
            self._open = False
            yield Change("end", len(self.items) - 1, self.items[-1])

    def _begin(self, block: Block) -> Iterator[Change]:
        yield from self.finish()
        self.items.append(block)
        self._open = True
        yield Change("begin", len(self.items) - 1, block)

    def _add(self, text: str) -> Iterator[Change]:
        self.items[-1].text += text
        yield Change("text", len(self.items) - 1, self.items[-1], text)
