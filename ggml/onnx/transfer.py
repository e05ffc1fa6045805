"""Operands and results of a plan: what is copied between arrays and the tensors of its graph, and what is not.

Copying a large array takes longer than computing most nodes. A large operand is read where the caller has it, if it
lies there as a tensor would. In a graph of few nodes, a large result is computed in the array that the caller gets. The
memory of results is used again when nobody refers to it any more: fresh pages would take longer than most nodes.
"""

from __future__ import annotations

import sys

import numpy as np

import ggml

from ..utils import to_numpy
from .layout import room
from .repeating import address_of
from .values import BOOL, F32, F64, count, extents

LARGE = 1 << 16  # bytes from which an array is not copied, or its memory is used again
MOVED = 1 << 17  # bytes from which copying an operand takes longer than changing the steps of a plan that read it
# A graph whose results move is checked and planned again, which takes as long for each node as copying so many bytes.
NODE = 40_000
TYPES = {
    F32: ggml.GGML_TYPE_F32,
    F64: ggml.GGML_TYPE_F64,
    BOOL: ggml.GGML_TYPE_I8,
}  # of tensors whose memory has the form of an array


def references(kept, i):
    """The references to an entry of a list, counted in the same way each time."""
    return sys.getrefcount(kept[i])


UNUSED = references([np.empty(0)], 0)  # of an array that only a list has
COUNTS = getattr(sys, "_is_gil_enabled", lambda: True)()  # without a GIL, counts may lag behind


class Pool:
    """Arrays of one shape that are given to callers, and again when nothing refers to them any more."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype
        self.large = count(shape) * dtype.itemsize >= LARGE and COUNTS
        self.kept = []  # memory that callers have, and what was given last

    def take(self):
        """An array without values."""
        if not self.large:
            return np.empty(self.shape, self.dtype)
        unused = [i for i in range(len(self.kept)) if references(self.kept, i) == UNUSED]
        if len(unused) != 1 or unused[0] != len(self.kept) - 1:
            memory = self.kept[unused[-1]] if unused else room(self.shape, self.dtype).base
            self.kept = [m for i, m in enumerate(self.kept) if i not in unused]
            self.kept.append(memory)
        memory = self.kept[-1]
        return np.ndarray(self.shape, self.dtype, memory, -address_of(memory) % 64)


class Place:
    """The memory of a tensor of a graph; moves: it may lie elsewhere in each call, with what the graph keeps in it."""

    def __init__(self, t, shape, moves, nodes):
        self.view, self.moves = to_numpy(t).reshape(shape), moves
        if self.view.dtype.itemsize == 1:  # booleans
            self.view = self.view.view(BOOL)
        self.home = self.address = t.contents.data or 0  # of tensors without elements
        self.tensors = []  # (fields, offset)
        end = self.home + ggml.ggml_nbytes(t) if moves else 0
        for fields in (t.contents, *(n.contents for n in nodes)) if moves else ():
            begin = fields.data or 0
            if self.home <= begin < end:
                self.tensors.append((fields, begin - self.home))
                self.moves &= begin + ggml.ggml_nbytes(fields) <= end
            elif begin < self.home < begin + ggml.ggml_nbytes(fields):
                self.moves = False

    def move(self, address):
        """Puts the tensors at an address."""
        if address != self.address:
            for fields, offset in self.tensors:
                fields.data = address + offset
            self.address = address

    def settle(self):
        """Puts the tensors into memory of the graph, where they stay."""
        if self.moves:
            self.move(self.home)
            self.moves = False


class Operand(Place):
    """An operand of a plan, by its position among the inputs."""

    def __init__(self, feed, position, moves, nodes):
        self.shape, self.position = extents(feed.shape)[::-1], position
        super().__init__(feed.tensor.t, self.shape, moves, nodes)

    def give(self, value):
        """Makes the tensor have the values of an array."""
        if self.moves:
            if value.dtype == self.view.dtype and (address := address_of(value)):
                self.move(address)
                return
            self.move(self.home)
        self.view[...] = value if value.shape == self.shape else value.reshape(self.shape)


class Result(Place):
    """A result of a plan, by its name."""

    def __init__(self, name, value, t, moves, nodes):
        super().__init__(t, value.shape, moves, nodes)
        self.name, self.dtype = name, value.dtype
        self.pool, self.array = Pool(value.shape, value.dtype), None

    def begin(self):
        """Before the graph is computed: decides where its values go."""
        if self.moves:
            self.array = self.pool.take()
            self.move(address_of(self.array))

    def end(self):
        """The values, in an array that is the caller's."""
        if self.moves:
            array, self.array = self.array, None
            return array
        if not self.pool.large:
            return self.view.astype(self.dtype)
        array = self.pool.take()
        if self.dtype == BOOL and self.view.dtype == F32:
            np.not_equal(self.view, 0, out=array)
        else:
            np.copyto(array, self.view, casting="unsafe")
        return array


def transfers(graph, feeds, outputs):
    """The operands and results of a graph that has its memory.

    feeds: pairs of a Feed and its position; outputs: (name, value, tensor).
    """
    n, tensors = ggml.ggml_graph_n_nodes(graph), [t for _, _, t in outputs]

    def large(value, t):
        """The bytes of a value that need not be copied, if they are many."""
        size = count(value.shape) * value.dtype.itemsize
        return size if size >= LARGE and TYPES.get(value.dtype) == t.contents.type else 0

    given = [large(f, f.tensor.t) for f, _ in feeds]
    taken = [size if (size := large(v, t)) and tensors.count(t) == 1 else 0 for _, v, t in outputs]
    if sum(given + taken) < NODE * n:  # moving results of so many nodes takes longer than copying all that is large
        given, taken = [size if size >= MOVED else 0 for size in given], [0] * len(taken)
    nodes = [ggml.ggml_graph_node(graph, i) for i in range(n)] if any(given + taken) else []
    operands = [Operand(feed, position, bool(moves), nodes) for (feed, position), moves in zip(feeds, given)]
    return operands, [Result(name, value, t, bool(moves), nodes) for (name, value, t), moves in zip(outputs, taken)]
