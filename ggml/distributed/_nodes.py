"""Collectives as nodes of a graph, each with its gradient.

A gradient is that of the sum of all ranks' losses. So the gradient of a collective is a collective too: that of a sum
over ranks is a sum, that of all_gather is reduce_scatter, that of send is recv.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import ggml

from ._messages import Messages
from ._node_maker import F32, Tensor, check_type, extents
from ._progress import Steps
from ._reduce import OPERATIONS

ORDERS = ("rank", "mpi")


class Nodes(Messages):
    """The nodes of collectives; see Communicator."""

    def all_reduce(self, ctx: int, x: Tensor, op: str = "sum", order: str | None = None) -> Tensor:
        """Adds a node that reduces a tensor over all ranks; every rank gets the result.

        The gradient of a sum is the sum of all ranks' gradients; that of a maximum or minimum goes to the ranks that
        have it, in equal shares.

        Args:
            ctx: context that receives the node.
            x: f32, f16, bf16 or i32, any shape, the same on all ranks.
            op: "sum", "mean" (not of i32), "max" or "min".
            order: "rank" reduces in the order of the ranks, so that the result is the same on every network; "mpi"
                leaves the order of f32 and i32 to the MPI library. None: that of the communicator.
        Returns:
            Contiguous tensor of x's type and shape.
        Raises:
            TypeError: x is not a tensor of one of these types.
            ValueError: op or order is unknown.
            MemoryError: the context is full.
        """
        if op == "mean":
            check_type("all_reduce", x, integers=False)
            return ggml.ggml_scale(ctx, self.all_reduce(ctx, x, "sum", order), 1 / self.size)
        order = self.order if order is None else order
        if op not in OPERATIONS or order not in ORDERS:
            raise ValueError(
                f"all_reduce: op is {op!r}, order is {order!r}: need one of sum, mean, max, min and of rank, mpi"
            )

        def compute(label: str, values: np.ndarray) -> Steps:
            return self._reduce_all(label, values, op, kind, order)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            g = self.all_reduce(ctx, g, "sum", order)
            if op == "sum":
                return g
            below = ggml.ggml_sub(ctx, y, x) if op == "max" else ggml.ggml_sub(ctx, x, y)  # 0 where x is the result
            chosen = ggml.ggml_scale_bias(ctx, ggml.ggml_step(ctx, ggml.ggml_cast(ctx, below, F32)), -1, 1)
            return ggml.ggml_mul(ctx, g, ggml.ggml_div(ctx, chosen, self.all_reduce(ctx, chosen, "sum", order)))

        kind = check_type("all_reduce", x)
        return self._node(ctx, f"all_reduce({op}, {order})", x, extents(x), compute, backward)

    def all_gather(self, ctx: int, x: Tensor, dim: int = 0, sizes: Sequence[int] | None = None) -> Tensor:
        """Adds a node that concatenates the tensors of all ranks along a dimension; every rank gets the result.

        The gradient is the reduce_scatter of the ranks' gradients.

        Args:
            ctx: context that receives the node.
            x: f32, f16, bf16 or i32, any shape; dimensions other than dim are equal on all ranks.
            dim: dimension to concatenate along, 0 to 3. If all dimensions after it have size 1, a copy is saved.
            sizes: for each rank, its size of dim; None if all are equal.
        Returns:
            Contiguous tensor of x's type.
        Raises:
            TypeError: x is not a tensor of one of these types.
            ValueError: dim or sizes does not fit.
            MemoryError: the context is full.
        """
        kind, ne = check_type("all_gather", x), extents(x)
        sizes = self._sizes("all_gather", dim, sizes) or [ne[dim]] * self.size
        if sizes[self.rank] != ne[dim]:
            raise ValueError(f"all_gather: ne[{dim}] of x is {ne[dim]}: sizes has {sizes[self.rank]} for this rank")
        ne[dim] = sum(sizes)
        inner, outer = _around(ne, dim)

        def compute(label: str, values: np.ndarray) -> Steps:
            counts = [outer * size * inner for size in sizes]
            return _joined((yield from self._gather_all(label, values, counts)), outer, sizes, inner)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self.reduce_scatter(ctx, g, dim, sizes)

        return self._node(ctx, f"all_gather(dim {dim}, sizes {sizes})", x, ne, compute, backward, kind, dim)

    def reduce_scatter(self, ctx: int, x: Tensor, dim: int = 0, sizes: Sequence[int] | None = None) -> Tensor:
        """Adds a node that sums a tensor over all ranks, of which each rank gets its part along a dimension.

        The sum is in the order of the ranks. The gradient is the all_gather of the ranks' gradients.

        Args:
            ctx: context that receives the node.
            x: f32, f16, bf16 or i32, any shape, the same on all ranks.
            dim: dimension to divide, 0 to 3.
            sizes: for each rank, the size of its part; None for equal ones.
        Returns:
            Contiguous tensor of x's type.
        Raises:
            TypeError: x is not a tensor of one of these types.
            ValueError: dim or sizes does not fit.
            MemoryError: the context is full.
        """
        kind, ne = check_type("reduce_scatter", x), extents(x)
        sizes = self._sizes("reduce_scatter", dim, sizes, ne)
        if sum(sizes) != ne[dim]:
            raise ValueError(f"reduce_scatter: ne[{dim}] of x is {ne[dim]}: sizes has {sum(sizes)} in all")
        inner, outer = _around(ne, dim)
        ne[dim] = sizes[self.rank]

        def compute(label: str, values: np.ndarray) -> Steps:
            counts = [outer * size * inner for size in sizes]
            return self._reduce_shares(label, _divided(values, outer, sizes, inner), counts, "sum", kind)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self.all_gather(ctx, g, dim, sizes)

        return self._node(ctx, f"reduce_scatter(dim {dim}, sizes {sizes})", x, ne, compute, backward, kind)

    def all_to_all(self, ctx: int, x: Tensor, dim: int = 0) -> Tensor:
        """Adds a node that sends part r of a tensor to rank r, and concatenates what arrives in the order of the ranks.

        The gradient is the all_to_all of the ranks' gradients.

        Args:
            ctx: context that receives the node.
            x: f32, f16, bf16 or i32, any shape, the same on all ranks.
            dim: dimension to divide and to concatenate along, 0 to 3; its size is a multiple of the number of ranks.
        Returns:
            Contiguous tensor of x's type and shape.
        Raises:
            TypeError: x is not a tensor of one of these types.
            ValueError: dim does not fit.
            MemoryError: the context is full.
        """
        check_type("all_to_all", x)
        ne = extents(x)
        sizes = self._sizes("all_to_all", dim, None, ne)
        inner, outer = _around(ne, dim)

        def compute(label: str, values: np.ndarray) -> Steps:
            arrived = yield from self._exchange_all(label, _divided(values, outer, sizes, inner))
            return _joined(arrived, outer, sizes, inner)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self.all_to_all(ctx, g, dim)

        return self._node(ctx, f"all_to_all(dim {dim})", x, ne, compute, backward)

    def broadcast(self, ctx: int, x: Tensor, root: int = 0) -> Tensor:
        """Adds a node that gives all ranks the root's tensor.

        The gradient at the root is the sum of all ranks' gradients; at other ranks it is 0.

        Args:
            ctx: context that receives the node.
            x: f32, f16, bf16 or i32, any shape, the same on all ranks; only the root's values count.
            root: rank whose values all get.
        Returns:
            Contiguous tensor of x's type and shape.
        Raises:
            TypeError: x is not a tensor of one of these types.
            ValueError: root is not a rank.
            MemoryError: the context is full.
        """
        check_type("broadcast", x)
        self._check_rank("broadcast", "root", root)

        def compute(label: str, values: np.ndarray) -> Steps:
            return self._broadcast(label, values, root)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self._reduce(ctx, g, root)

        return self._node(ctx, f"broadcast(root {root})", x, extents(x), compute, backward)

    def _reduce(self, ctx: int, x: Tensor, root: int) -> Tensor:
        """Adds the gradient of broadcast: at the root the sum over all ranks, elsewhere 0."""
        kind = check_type("broadcast", x)

        def compute(label: str, values: np.ndarray) -> Steps:
            return self._reduce_to(label, values, root, kind)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self.broadcast(ctx, g, root)

        return self._node(ctx, f"reduce(root {root})", x, extents(x), compute, backward)


def _around(ne: Sequence[int], dim: int) -> tuple[int, int]:
    """The numbers of elements in the dimensions below and above dim."""
    return math.prod(ne[:dim]), math.prod(ne[dim + 1 :])


def _divided(values: np.ndarray, outer: int, sizes: Sequence[int], inner: int) -> np.ndarray:
    """The parts of [outer, sum(sizes), inner] along the middle dimension, one after the other."""
    if outer == 1:
        return values
    bounds = np.cumsum(sizes)[:-1].tolist()
    parts = np.split(values.reshape(outer, sum(sizes), inner), bounds, 1)
    return np.concatenate([part.reshape(-1) for part in parts])


def _joined(parts: np.ndarray, outer: int, sizes: Sequence[int], inner: int) -> np.ndarray:
    """The reverse of _divided."""
    if outer == 1:
        return parts
    bounds = (np.cumsum(sizes)[:-1] * outer * inner).tolist()
    return np.concatenate([part.reshape(outer, -1, inner) for part in np.split(parts, bounds)], 1).reshape(-1)
