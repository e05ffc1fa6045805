"""What a layer keeps of the tokens before: descriptions, of which run/cache.py makes memory.

An architecture's `caches(c)` returns one for each layer: None, one of these, or several in a tuple.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..files.config import Config


class Paged(NamedTuple):
    """The keys and values of all tokens, in pages.

    Attributes:
        heads: number of heads of keys and of values.
        key_dim, value_dim: elements of a head.
    """

    heads: int
    key_dim: int
    value_dim: int


class Window(NamedTuple):
    """The keys and values of the last tokens, in pages: a token attends to itself and the `window` - 1 before it."""

    heads: int
    key_dim: int
    value_dim: int
    window: int


class Chunk(NamedTuple):
    """The same of texts that are divided into chunks of `window` tokens: a token attends to those of its own one."""

    heads: int
    key_dim: int
    value_dim: int
    window: int


class Latent(NamedTuple):
    """One vector of each token, in pages: a key of `key_dim` elements, of which the first `value_dim` are the value."""

    key_dim: int
    value_dim: int

    @property
    def heads(self) -> int:
        """All heads of queries read the same one."""
        return 1


class Shared(NamedTuple):
    """Nothing: attention reads the keys and values of another layer, which precedes this one."""

    layer: int


class Recurrent(NamedTuple):
    """A state that each token changes, of `size` floats for a sequence; zeros at its beginning."""

    size: int


class ShortConv(NamedTuple):
    """The last `taps` - 1 inputs, of `channels` floats, of a convolution over tokens."""

    channels: int
    taps: int


InPages = Paged | Window | Chunk | Latent
States = (Recurrent, ShortConv)


def parts_of(spec: Any) -> tuple[Any, ...]:
    """What a layer keeps, one after the other."""
    return spec if type(spec) is tuple else () if spec is None else (spec,)


def usual(c: Config, others: Any = None) -> list[Any]:
    """Of an architecture that does not say: keys and values, in layers with a sliding window of the last tokens.

    Args:
        others: what layers without attention keep.
    """
    sizes, window = (c.n_head_kv, c.key_dim, c.value_dim), Chunk if c.chunked else Window
    return [
        others if not attends else window(*sizes, c.window) if local else Paged(*sizes)
        for local, attends in zip(c.local, c.attends, strict=True)
    ]
