"""What the layers of a model keep of the tokens before, one object for each.

A layer has what its architecture chose (arch/keeps.py): keys and values in pages, a state that each token changes,
the last inputs of a convolution, or what another layer has. Each object has the memory of all sequences, adds the nodes
that use it to a graph, and copies, saves and loads the part of one sequence. memory.py knows who is where in it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import ggml

from ..._owners import keep
from ..arch import keeps
from .pages import PAGE

Tensor = Any
F32 = ggml.GGML_TYPE_F32
PARTS = 16  # in which a state is copied


class Tensors:
    """Tensors in memory of their own, which is freed with the object.

    Args:
        kinds: GGML_TYPE_* of all of them, or of each.
        shapes: their ne.
    """

    def __init__(self, kinds: int | Sequence[int], *shapes: tuple[int, int, int]) -> None:
        self.buffer: Any = None
        self.ctx: Any = None
        keep(self, "ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
        each = [kinds] * len(shapes) if isinstance(kinds, int) else kinds
        self.items = [ggml.ggml_new_tensor_3d(self.ctx, kind, *ne) for kind, ne in zip(each, shapes, strict=True)]
        kind = ggml.ggml_backend_cpu_buffer_type()
        keep(self, "buffer", ggml.ggml_backend_alloc_ctx_tensors_from_buft, self.ctx, kind)
        if not self.buffer:
            sizes = " and ".join(" x ".join(map(str, ne)) for ne in shapes)
            raise MemoryError(f"load: no memory for what a layer keeps of the tokens: {sizes} elements")

    def __del__(self) -> None:
        if self.buffer:
            keep(self, "buffer", ggml.ggml_backend_buffer_free, self.buffer)
        if self.ctx:
            keep(self, "ctx", ggml.ggml_free, self.ctx)


def raw(tensor: Tensor) -> np.ndarray:
    """The bytes of a contiguous tensor: u8 [ne2, ne1, bytes of a row]."""
    t = tensor.contents
    memory = (ctypes.c_uint8 * (t.nb[2] * t.ne[2])).from_address(t.data)
    return np.frombuffer(memory, np.uint8).reshape(t.ne[2], t.ne[1], t.nb[1])


class PagedCache:
    """The keys and values of a layer, in cells: two tensors [D, cells, G], G the number of heads, D their size.

    Values that are a part of the keys have no tensor.

    Args:
        spec: Paged, Window, Chunk or Latent.
        kinds: types of the keys and of the values.
    """

    def __init__(self, spec: keeps.InPages, kinds: tuple[int, int]) -> None:
        self.spec, self.kinds, self.chunked = spec, kinds, isinstance(spec, keeps.Chunk)
        self.window: int = getattr(spec, "window", 0)
        self._tensors: Tensors | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """k and v, or k alone."""
        assert self._tensors is not None
        return self._tensors.items

    def close(self) -> None:
        self._tensors = None

    def resize(self, cells: int) -> None:
        """Makes room for so many cells; those that there are keep what they hold."""
        s, former = self.spec, self._tensors
        if former is not None and former.items[0].contents.ne[1] >= cells:
            return
        dims = [s.key_dim] if isinstance(s, keeps.Latent) else [s.key_dim, s.value_dim]
        new = Tensors(self.kinds[: len(dims)], *((dim, cells, s.heads) for dim in dims))
        for old, grown in zip(former.items if former else [], new.items):
            held = raw(old)
            raw(grown)[:, : held.shape[1]] = held
        self._tensors = new

    def copy_cells(self, source: int, target: int, count: int) -> None:
        for tensor in self.tensors:
            cells = raw(tensor)
            cells[:, target : target + count] = cells[:, source : source + count]

    def save(self, cells: np.ndarray) -> list[bytes]:
        """The contents of cells."""
        return [raw(tensor)[:, cells].tobytes() for tensor in self.tensors]

    def sizes(self, cells: int) -> list[int]:
        """The number of bytes of each item that `save` returns."""
        return [t.contents.nb[1] * t.contents.ne[2] * cells for t in self.tensors]

    def load(self, cells: np.ndarray, items: Sequence[np.ndarray]) -> None:
        """Fills cells with what `save` returned, u8 arrays."""
        for tensor, item in zip(self.tensors, items, strict=True):
            target = raw(tensor)
            target[:, cells] = item.reshape(target.shape[0], len(cells), target.shape[2])

    # ---- nodes -------------------------------------------------------------------------------------------------------
    def attention(self, g: Any, q: Tensor, k: Tensor, v: Tensor, scale: float, sinks: Tensor | None) -> Tensor:
        """Stores k and v [D, G, N]; the attention of q [D, H, N] to those of its sequence: [D, H, N]."""
        places = g.inputs.pages[self.window]
        stored = [
            ggml.ggml_set_rows(g.ctx, tensor, ggml.ggml_permute(g.ctx, new, 0, 2, 1, 3), places.cells)
            for tensor, new in zip(self.tensors, (k, v))
        ]
        if len(stored) == 1:
            (_, cells, heads, _), (_, row, head, _) = stored[0].contents.ne, stored[0].contents.nb
            stored.append(ggml.ggml_view_3d(g.ctx, stored[0], self.spec.value_dim, cells, heads, row, head, 0))
        g.stored[self] = stored
        return self.read(g, stored, q, scale, sinks)

    def read(self, g: Any, stored: Sequence[Tensor], q: Tensor, scale: float, sinks: Tensor | None) -> Tensor:
        """The attention of q to what was stored."""
        k, v = stored
        table, cap = g.inputs.pages[self.window].table, g.config.attn_softcap
        options = self.window, cap, sinks, g.inputs.exact, self.chunked
        return ggml.ext.paged_attention(g.ctx, q, k, v, table, scale, PAGE, *options)


class SharedCache:
    """A layer that reads the keys and values of another one.

    Args:
        source: the memory of that layer.
    """

    def __init__(self, source: PagedCache) -> None:
        self.source = source

    def close(self) -> None:
        """Nothing: the memory is the other layer's."""

    def attention(self, g: Any, q: Tensor, k: Tensor, v: Tensor, scale: float, sinks: Tensor | None) -> Tensor:
        """The attention of q to what the other layer stored; k and v are not used."""
        return self.source.read(g, g.stored[self.source], q, scale, sinks)


class StateCache:
    """A state of each sequence: a tensor [size, slots].

    Args:
        spec: Recurrent.
    """

    def __init__(self, spec: keeps.Recurrent) -> None:
        self.size = spec.size
        self._tensors: Tensors | None = None

    @property
    def tensor(self) -> Tensor:
        assert self._tensors is not None
        return self._tensors.items[0]

    def close(self) -> None:
        self._tensors = None

    def resize(self, slots: int) -> None:
        """Makes room for the states of so many sequences."""
        former = self._tensors
        if former is not None and former.items[0].contents.ne[1] >= slots:
            return
        new = Tensors(F32, (self.size, slots, 1))
        if former is not None:
            held = raw(former.items[0])
            raw(new.items[0])[:, : held.shape[1]] = held
        self._tensors = new

    def save(self, slot: int) -> bytes:
        return raw(self.tensor)[0, slot].tobytes()

    def load(self, slot: int, state: bytes | None) -> None:
        """Fills in a state, or zeros."""
        raw(self.tensor)[0, slot] = np.frombuffer(state, np.uint8) if state is not None else 0

    # ---- nodes: S sequences in the batch, with T tokens each ---------------------------------------------------------
    def state(self, g: Any) -> Tensor:
        """The states of the sequences of the batch: [size, S]."""
        return ggml.ggml_get_rows(g.ctx, self.tensor, g.inputs.slots)

    def keep(self, g: Any, state: Tensor) -> None:
        """Stores the states after the batch, [size, S]. A single one is in parts, which threads copy side by side."""
        tensor = self.tensor
        if state.contents.ne[1] == 1 and self.size % PARTS == 0:
            part, row = self.size // PARTS, tensor.contents.nb[1]
            tensor = ggml.ggml_view_3d(g.ctx, tensor, part, tensor.contents.ne[1], PARTS, row, 4 * part, 0)
            state = ggml.ggml_view_3d(g.ctx, state, part, 1, PARTS, state.contents.nb[1], 4 * part, 0)
        g.effects.append(ggml.ggml_set_rows(g.ctx, tensor, state, g.inputs.slots))


class ConvCache(StateCache):
    """The last inputs of a convolution: a state [taps - 1, channels] of each sequence.

    Args:
        spec: ShortConv.
    """

    def __init__(self, spec: keeps.ShortConv) -> None:
        super().__init__(keeps.Recurrent((spec.taps - 1) * spec.channels))
        self.channels, self.taps = spec.channels, spec.taps

    def conv(self, g: Any, x: Tensor, weight: Tensor) -> Tensor:
        """y[t] = sum over the taps j of w[j] * x[t - taps + 1 + j], by channels: [channels, N] from x [channels, N]."""
        ctx, sequences, before = g.ctx, g.inputs.n_sequences, self.taps - 1
        tokens = g.n_tokens // sequences
        nb = x.contents.nb
        x = ggml.ggml_view_3d(ctx, x, self.channels, tokens, sequences, nb[1], tokens * nb[1], 0)
        held = ggml.ggml_reshape_3d(ctx, self.state(g), before, self.channels, sequences)
        x = ggml.ggml_concat(ctx, ggml.ggml_transpose(ctx, held), x, 1)  # [channels, before + T, S]
        nb = x.contents.nb
        last = ggml.ggml_view_3d(ctx, x, self.channels, before, sequences, nb[1], nb[2], tokens * nb[1])
        last = ggml.ggml_transpose(ctx, last)
        self.keep(g, ggml.ggml_reshape_2d(ctx, ggml.ggml_cont(ctx, last), self.size, sequences))
        y = ggml.ggml_ssm_conv(ctx, ggml.ggml_transpose(ctx, x), weight)  # [channels, T, S]
        return ggml.ggml_reshape_2d(ctx, y, self.channels, g.n_tokens)


Cache = PagedCache | SharedCache | StateCache
Layers = Sequence[Mapping[str, Any]]


def layer_caches(specs: Sequence[Any], kinds: tuple[int, int]) -> list[dict[str, Any]]:
    """The caches of all layers: for each by what they do, "attention", "state", "conv".

    Args:
        specs: what an architecture's `caches` returned.
        kinds: types of keys and of values.
    """
    layers: list[dict[str, Any]] = []
    for spec in specs:
        layer: dict[str, Any] = {}
        for part in keeps.parts_of(spec):
            if isinstance(part, keeps.InPages):
                layer["attention"] = PagedCache(part, kinds)
            elif isinstance(part, keeps.Shared):
                layer["attention"] = SharedCache(_source(layers, part.layer))
            elif isinstance(part, keeps.ShortConv):
                layer["conv"] = ConvCache(part)
            elif isinstance(part, keeps.Recurrent):
                layer["state"] = StateCache(part)
            else:
                raise TypeError(f"load: a layer keeps {part!r}: need one of those in ggml.models.arch.keeps")
        layers.append(layer)
    return layers


def _source(layers: Sequence[Mapping[str, Any]], number: int) -> PagedCache:
    """The cache whose keys and values a later layer shares."""
    source = layers[number].get("attention") if 0 <= number < len(layers) else None
    if isinstance(source, SharedCache):
        source = source.source
    if source is None:
        raise ValueError(f"load: a layer shares the keys of layer {number}: need a layer before it that has some")
    return source
