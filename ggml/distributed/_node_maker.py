"""What the nodes of several ranks share: creating a node that computes in Python, and checking arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ggml

from ._collectives import Collectives, elements
from ._progress import COLLECTIVE, Lane, Steps
from ._reduce import DTYPES

Tensor = Any  # POINTER(ggml_tensor)
F32 = ggml.GGML_TYPE_F32


class NodeMaker(Collectives):
    """Creates nodes and checks arguments; see Communicator."""

    def _node(
        self,
        ctx: int,
        title: str,
        x: Tensor,
        ne: Sequence[int],
        compute: Callable[[str, np.ndarray], Steps],
        backward: Callable[[int, Tensor, Tensor], Tensor],
        kind: int | None = None,
        differs: int | None = None,
        lane: Lane = COLLECTIVE,
    ) -> Tensor:
        """A node whose elements are the result of compute(label, values), where values are a copy of those of x.

        The ranks compare their labels before they compute. A label has the extents of x, except that of the dimension
        `differs`, which need not be equal on all ranks.
        """
        source = x if ggml.ggml_is_contiguous(x) else ggml.ggml_cont(ctx, x)
        kind = x.contents.type if kind is None else kind
        shape = ["*" if dim == differs else str(n) for dim, n in enumerate(extents(x))]
        name = x.contents.name.decode(errors="replace")
        label = f"{title} of {type_name(x.contents.type)} [{', '.join(shape)}]" + (f" '{name}'" if name else "")

        def run(y: Tensor, ith: int, nth: int, userdata: Any) -> None:
            elements(y)[...] = self._run(label, compute(label, elements(y.contents.src[0]).copy()), lane)

        y = custom_node(ctx, kind, ne, [source], run)
        ggml.ggml_set_name(y, f"{title} {name}".encode()[:63])
        return ggml.ext.custom_set_backward(y, backward)

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


def custom_node(ctx: int, kind: int, ne: Sequence[int], operands: Any, run: Callable) -> Tensor:
    """A node of type kind and of four extents that run(result, ith, nth, userdata) computes from a list of operands."""
    n0, n1, n2, n3 = ne
    return ggml.ggml_custom_4d(ctx, kind, n0, n1, n2, n3, operands, len(operands), run, 1, None)


def check_type(caller: str, x: Tensor, integers: bool = True) -> int:
    """The type of a tensor, which must be one that collectives take."""
    kind = x.contents.type if isinstance(x, ggml.ggml_tensor_p) else None
    if kind not in DTYPES or (kind == ggml.GGML_TYPE_I32 and not integers):
        given = repr(x)[:60] if kind is None else type_name(kind)
        raise TypeError(f"{caller}: x is {given}: need a tensor of type f32, f16, bf16{' or i32' if integers else ''}")
    return kind


def type_name(kind: int) -> str:
    name = ggml.ggml_type_name(kind)
    return name.decode() if name else str(kind)


def extents(x: Tensor) -> list[int]:
    return list(x.contents.ne[:4])
