"""Collectives as nodes of a graph, each with its gradient.

A gradient is that of the sum of all ranks' losses. So the gradient of a collective is a collective too: that of a sum
over ranks is a sum, that of all_gather is reduce_scatter, that of send is recv.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ggml

from ._collectives import Collectives, elements
from ._reduce import DTYPES, OPERATIONS

Tensor = Any  # POINTER(ggml_tensor)
ORDERS = ("rank", "mpi")
F32 = ggml.GGML_TYPE_F32


class Nodes(Collectives):
    """The nodes; see Communicator."""

    def all_reduce(self, ctx: int, x: Tensor, op: str = "sum", order: str | None = None) -> Tensor:
        """Adds a node that reduces a tensor over all ranks; every rank gets the result.

        The gradient of a sum is the sum of all ranks' gradients; that of a maximum goes to the ranks that have it, in
        equal shares.

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
            _check_type("all_reduce", x, integers=False)
            return ggml.ggml_scale(ctx, self.all_reduce(ctx, x, "sum", order), 1 / self.size)
        order = self.order if order is None else order
        if op not in OPERATIONS or order not in ORDERS:
            raise ValueError(
                f"all_reduce: op is {op!r}, order is {order!r}: need one of sum, mean, max, min and of rank, mpi"
            )

        def compute(label: str, out: np.ndarray, values: np.ndarray) -> None:
            self._reduce_all(label, values, out, op, kind, order)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            g = self.all_reduce(ctx, g, "sum", order)
            if op == "sum":
                return g
            below = ggml.ggml_sub(ctx, y, x) if op == "max" else ggml.ggml_sub(ctx, x, y)  # 0 where x is the result
            chosen = ggml.ggml_scale_bias(ctx, ggml.ggml_step(ctx, ggml.ggml_cast(ctx, below, F32)), -1, 1)
            return ggml.ggml_mul(ctx, g, ggml.ggml_div(ctx, chosen, self.all_reduce(ctx, chosen, "sum", order)))

        kind = _check_type("all_reduce", x)
        return self._node(ctx, f"all_reduce({op}, {order})", x, _extents(x), compute, backward)

    def all_gather(self, ctx: int, x: Tensor, dim: int = 0, sizes: Sequence[int] | None = None) -> Tensor:
        """Adds a node that concatenates the tensors of all ranks along a dimension; every rank gets the result.

        The gradient is the reduce_scatter of the ranks' gradients.

        Args:
            ctx: context that receives the node.
            x: f32, f16, bf16 or i32, any shape; dimensions other than dim are equal on all ranks.
            dim: dimension to concatenate along, 0 to 3; that with the fewest copies is the last one.
            sizes: for each rank, its size of dim; None if all are equal.
        Returns:
            Contiguous tensor of x's type.
        Raises:
            TypeError: x is not a tensor of one of these types.
            ValueError: dim or sizes does not fit.
            MemoryError: the context is full.
        """
        kind, ne = _check_type("all_gather", x), _extents(x)
        sizes = self._sizes("all_gather", dim, sizes) or [ne[dim]] * self.size
        if sizes[self.rank] != ne[dim]:
            raise ValueError(f"all_gather: ne[{dim}] of x is {ne[dim]}: sizes has {sizes[self.rank]} for this rank")
        ne[dim] = sum(sizes)
        inner, outer = _around(ne, dim)

        def compute(label: str, out: np.ndarray, values: np.ndarray) -> None:
            direct = outer == 1
            parts = out if direct else np.empty(out.size, out.dtype)
            counts = [outer * size * inner for size in sizes]
            self._gather_all(label, values, parts, counts)
            if not direct:
                _join(parts, out, outer, sizes, inner)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self.reduce_scatter(ctx, g, dim, sizes)

        return self._node(ctx, f"all_gather(dim {dim}, sizes {sizes})", x, ne, compute, backward, kind)

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
        kind, ne = _check_type("reduce_scatter", x), _extents(x)
        sizes = self._sizes("reduce_scatter", dim, sizes, ne)
        if sum(sizes) != ne[dim]:
            raise ValueError(f"reduce_scatter: ne[{dim}] of x is {ne[dim]}: sizes has {sum(sizes)} in all")
        inner, outer = _around(ne, dim)
        ne[dim] = sizes[self.rank]

        def compute(label: str, out: np.ndarray, values: np.ndarray) -> None:
            parts = values if outer == 1 else _divide(values, outer, sizes, inner)
            counts = [outer * size * inner for size in sizes]
            self._reduce_shares(label, parts, out, counts, "sum", kind)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self.all_gather(ctx, g, dim, sizes)

        return self._node(ctx, f"reduce_scatter(dim {dim}, sizes {sizes})", x, ne, compute, backward, kind)

    def all_to_all(self, ctx: int, x: Tensor, dim: int = 0) -> Tensor:
        """Adds a node that sends part r of a tensor to rank r, and concatenates what arrives in the order of the ranks.

        The gradient is the all_to_all of the ranks' gradients.

        Args:
            ctx: context that receives the node.
            x: f32, f16, bf16 or i32, any shape, the same on all ranks.
            dim: dimension to divide and to concatenate along, 0 to 3; a multiple of the number of ranks.
        Returns:
            Contiguous tensor of x's type and shape.
        Raises:
            TypeError: x is not a tensor of one of these types.
            ValueError: dim does not fit.
            MemoryError: the context is full.
        """
        _check_type("all_to_all", x)
        ne = _extents(x)
        sizes = self._sizes("all_to_all", dim, None, ne)
        inner, outer = _around(ne, dim)

        def compute(label: str, out: np.ndarray, values: np.ndarray) -> None:
            direct = outer == 1
            parts = values if direct else _divide(values, outer, sizes, inner)
            arrived = out if direct else np.empty(out.size, out.dtype)
            self._exchange_all(label, parts, arrived)
            if not direct:
                _join(arrived, out, outer, sizes, inner)

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
        _check_type("broadcast", x)
        self._check_rank("broadcast", "root", root)

        def compute(label: str, out: np.ndarray, values: np.ndarray) -> None:
            if self.rank == root:
                out[...] = values
            self._broadcast(label, out, root)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self._reduce(ctx, g, root)

        return self._node(ctx, f"broadcast(root {root})", x, _extents(x), compute, backward)

    def _reduce(self, ctx: int, x: Tensor, root: int) -> Tensor:
        """Adds the gradient of broadcast: at the root the sum over all ranks, elsewhere 0."""
        kind = _check_type("broadcast", x)

        def compute(label: str, out: np.ndarray, values: np.ndarray) -> None:
            self._reduce_to(label, values, out, root, kind)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self.broadcast(ctx, g, root)

        return self._node(ctx, f"reduce(root {root})", x, _extents(x), compute, backward)

    def send(self, ctx: int, x: Tensor, dest: int, tag: int = 0) -> Tensor:
        """Adds a node that sends a tensor to another rank, which has a node recv of its type and shape.

        The result is an f32 zero, which stands for what the other rank computes from x: add it to the loss, or mark it
        as the loss where there is none. Then the gradient with respect to x is what the other rank's backward pass
        sends back. Expand the result in the graph, because no other node may need it.

        Args:
            ctx: context that receives the node.
            x: f32, f16, bf16 or i32, any shape.
            dest: rank that receives it.
            tag: number that tells messages between the same two ranks apart, 0 to 16,383.
        Returns:
            f32 [1], 0.
        Raises:
            TypeError: x is not a tensor of one of these types.
            ValueError: dest is not another rank, or tag is out of range.
            MemoryError: the context is full.
        """
        kind, ne = _check_type("send", x), _extents(x)
        self._check_peer("send", "dest", dest, tag)
        message = f"send {_type_name(kind)} {ne} tag {tag}"

        def compute(label: str, out: np.ndarray, values: np.ndarray) -> None:
            self._send(message, values, dest, tag)
            out[...] = 0

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            # computed after g, although it does not read it: the other rank has received x by then
            return self._receiver(ctx, F32, ne, dest, tag, [g])

        return self._node(ctx, f"send(to {dest})", x, [1, 1, 1, 1], compute, backward, F32)

    def recv(self, ctx: int, type_: int, ne: Sequence[int], source: int, tag: int = 0, grad: bool = True) -> Tensor:
        """Adds a node that receives a tensor from another rank, which sends it by a node send.

        With grad, the backward pass sends the gradient back. For that purpose the node has a parameter of one element,
        0, whose gradient is 0.

        Args:
            ctx: context that receives the node.
            type_: GGML_TYPE_F32, F16, BF16 or I32.
            ne: sizes of the dimensions, 1 to 4 of them.
            source: rank that sends.
            tag: number that tells messages between the same two ranks apart, 0 to 16,383.
            grad: whether the sender needs a gradient.
        Returns:
            Contiguous tensor of that type and shape.
        Raises:
            TypeError: type_ is another type.
            ValueError: source is not another rank, or ne or tag is out of range.
            MemoryError: the context is full.
        """
        self._check_peer("recv", "source", source, tag)
        ne = [int(n) for n in ne]
        if not 1 <= len(ne) <= 4:
            raise ValueError(f"recv: ne is {ne}: need 1 to 4 sizes")
        ne += [1] * (4 - len(ne))
        anchor = ggml.ggml_new_tensor_1d(ctx, F32, 1)
        if anchor.contents.data:
            ggml.ggml_set_zero(anchor)
        grad = grad and type_ != ggml.GGML_TYPE_I32
        if grad:
            ggml.ggml_set_param(anchor)
        y = self._receiver(ctx, type_, ne, source, tag, [anchor])

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self.send(ctx, g, source, tag)  # 0, the gradient with respect to the parameter

        return ggml.ggml_custom_set_backward(y, backward)

    def _receiver(
        self, ctx: int, type_: int, ne: list[int], source: int, tag: int, operands: Sequence[Tensor]
    ) -> Tensor:
        """A node that receives a tensor after its operands are computed."""
        if type_ not in DTYPES:
            raise TypeError(f"recv: type_ is {_type_name(type_)}: need f32, f16, bf16 or i32")
        message = f"send {_type_name(type_)} {ne} tag {tag}"

        def run(y: Tensor, ith: int, nth: int, userdata: Any) -> None:
            self._finish_jobs()
            self._receive(message, elements(y), source, tag)

        y = custom_node(ctx, type_, ne, list(operands), run)
        return ggml.ggml_set_name(y, f"recv(from {source})".encode())

    # ---- helpers -----------------------------------------------------------------------------------------------------
    def _node(
        self,
        ctx: int,
        title: str,
        x: Tensor,
        ne: Sequence[int],
        compute: Callable[[str, np.ndarray, np.ndarray], None],
        backward: Callable[[int, Tensor, Tensor], Tensor],
        kind: int | None = None,
    ) -> Tensor:
        """A node whose elements compute(label, out, values) writes, where values are those of x."""
        source = x if ggml.ggml_is_contiguous(x) else ggml.ggml_cont(ctx, x)
        kind = x.contents.type if kind is None else kind
        label = f"{title} of {_type_name(x.contents.type)} {self._common(title, x)}"

        def run(y: Tensor, ith: int, nth: int, userdata: Any) -> None:
            self._finish_jobs()
            compute(label, elements(y), elements(y.contents.src[0]))

        y = custom_node(ctx, kind, ne, [source], run)
        ggml.ggml_set_name(y, f"{title} {x.contents.name.decode(errors='replace')}".encode()[:63])
        return ggml.ggml_custom_set_backward(y, backward)

    @staticmethod
    def _common(title: str, x: Tensor) -> str:
        """The shape of x, as far as it must be equal on all ranks, and its name."""
        ne = [str(n) for n in _extents(x)]
        if title.startswith("all_gather"):
            ne[int(title[len("all_gather(dim ")])] = "*"
        name = x.contents.name.decode(errors="replace")
        return f"[{', '.join(ne)}]" + (f" '{name}'" if name else "")

    def _sizes(
        self, caller: str, dim: int, sizes: Sequence[int] | None, whole: Sequence[int] | None = None
    ) -> list[int]:
        """Checks dim and sizes. Without sizes: equal parts of the extents `whole`, or [] if there are none."""
        if isinstance(dim, bool) or not isinstance(dim, int) or not 0 <= dim <= 3:
            raise ValueError(f"{caller}: dim is {dim!r}: need 0 to 3")
        if sizes is None:
            if whole is None:
                return []
            if whole[dim] % self.size:
                raise ValueError(
                    f"{caller}: ne[{dim}] of x is {whole[dim]}: need a multiple of {self.size}, the number of ranks"
                )
            return [whole[dim] // self.size] * self.size
        found = [int(size) for size in sizes]
        if len(found) != self.size or min(found) < 1:
            raise ValueError(f"{caller}: sizes is {found}: need {self.size} positive numbers, one for each rank")
        return found

    def _check_rank(self, caller: str, name: str, rank: int) -> None:
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < self.size:
            raise ValueError(f"{caller}: {name} is {rank!r}: need a rank from 0 to {self.size - 1}")

    def _check_peer(self, caller: str, name: str, rank: int, tag: int) -> None:
        self._check_rank(caller, name, rank)
        if rank == self.rank:
            raise ValueError(f"{caller}: {name} is {rank}, this rank itself: need another one")
        if isinstance(tag, bool) or not isinstance(tag, int) or not 0 <= tag <= 16383:
            raise ValueError(f"{caller}: tag is {tag!r}: need 0 to 16383")


def custom_node(ctx: int, kind: int, ne: Sequence[int], operands: Any, run: Callable) -> Tensor:
    """A node of type kind and of four extents that run(result, ith, nth, userdata) computes from a list of operands."""
    n0, n1, n2, n3 = ne
    return ggml.ggml_custom_4d(ctx, kind, n0, n1, n2, n3, operands, len(operands), run, 1, None)


def _check_type(caller: str, x: Tensor, integers: bool = True) -> int:
    """The type of a tensor, which must be one that collectives take."""
    kind = x.contents.type if isinstance(x, ggml.ggml_tensor_p) else None
    if kind not in DTYPES or (kind == ggml.GGML_TYPE_I32 and not integers):
        given = repr(x)[:60] if kind is None else _type_name(kind)
        raise TypeError(f"{caller}: x is {given}: need a tensor of type f32, f16, bf16{' or i32' if integers else ''}")
    return kind


def _type_name(kind: int) -> str:
    return ggml.ggml_type_name(kind).decode()


def _extents(x: Tensor) -> list[int]:
    return list(x.contents.ne[:4])


def _around(ne: Sequence[int], dim: int) -> tuple[int, int]:
    """The numbers of elements in the dimensions below and above dim."""
    return math.prod(ne[:dim]), math.prod(ne[dim + 1 :])


def _divide(values: np.ndarray, outer: int, sizes: Sequence[int], inner: int) -> np.ndarray:
    """The parts of [outer, sum(sizes), inner] along the middle dimension, one after the other."""
    bounds = np.cumsum(sizes)[:-1].tolist()
    parts = np.split(values.reshape(outer, sum(sizes), inner), bounds, 1)
    return np.concatenate([part.reshape(-1) for part in parts])


def _join(parts: np.ndarray, out: np.ndarray, outer: int, sizes: Sequence[int], inner: int) -> None:
    """The reverse of _divide."""
    target, first, row = out.reshape(outer, sum(sizes), inner), 0, 0
    for size in sizes:
        count = outer * size * inner
        target[:, row : row + size] = parts[first : first + count].reshape(outer, size, inner)
        first, row = first + count, row + size
