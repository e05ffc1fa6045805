"""Messages between two ranks as nodes of a graph, with the gradient that comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ggml

from ._collectives import elements
from ._node_maker import F32, NodeMaker, Tensor, check_type, custom_node, extents, type_name
from ._progress import Steps
from ._reduce import DTYPES


class Messages(NodeMaker):
    """The nodes send and recv; see Communicator."""

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
        kind, ne = check_type("send", x), extents(x)
        self._check_peer("send", "dest", dest, tag)
        message = f"send {type_name(kind)} {ne} tag {tag}"

        def compute(label: str, values: np.ndarray) -> Steps:
            return self._send(message, values, dest, tag)

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            # computed after g, although it does not read it: the other rank has received x by then
            return self._receiver(ctx, F32, ne, dest, tag, [g])

        return self._node(ctx, f"send(to {dest})", x, [1, 1, 1, 1], compute, backward, F32,
                          lane=("send", dest, tag))  # fmt: skip

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
        if type_ not in DTYPES:
            raise TypeError(f"recv: type_ is {type_name(type_)}: need f32, f16, bf16 or i32")
        anchor = ggml.ggml_new_tensor_1d(ctx, F32, 1)
        if anchor.contents.data:
            ggml.ggml_set_zero(anchor)
        grad = grad and type_ != ggml.GGML_TYPE_I32
        if grad:
            ggml.ggml_set_param(anchor)
        y = self._receiver(ctx, type_, ne, source, tag, [anchor])

        def backward(ctx: int, y: Tensor, g: Tensor) -> Tensor:
            return self.send(ctx, g, source, tag)  # 0, the gradient with respect to the parameter

        return ggml.ext.custom_set_backward(y, backward)

    def _receiver(
        self, ctx: int, type_: int, ne: list[int], source: int, tag: int, operands: Sequence[Tensor]
    ) -> Tensor:
        """A node that receives a tensor after its operands are computed."""
        message = f"send {type_name(type_)} {ne} tag {tag}"

        def run(y: Tensor, ith: int, nth: int, userdata: Any) -> None:
            steps = self._receive(message, DTYPES[type_], source, tag)
            elements(y)[...] = self._run(message, steps, ("recv", source, tag))

        y = custom_node(ctx, type_, ne, list(operands), run)
        return ggml.ggml_set_name(y, f"recv(from {source})".encode())

    def _check_peer(self, caller: str, name: str, rank: int, tag: int) -> None:
        self._check_rank(caller, name, rank)
        if rank == self.rank:
            raise ValueError(f"{caller}: {name} is {rank}, this rank itself: need another one")
        if isinstance(tag, bool) or not isinstance(tag, int) or not 0 <= tag <= 16383:
            raise ValueError(f"{caller}: tag is {tag!r}: need 0 to 16383")
