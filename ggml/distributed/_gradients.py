"""The sums of all ranks' gradients, in buckets that travel while the backward pass goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import ggml

from ._collectives import elements
from ._node_maker import F32, Tensor, custom_node
from ._nodes import Nodes
from ._progress import Operation

BUCKET_BYTES = 4 << 20  # a bucket is closed when it has as much
BUCKET_TENSORS = 10  # GGML_MAX_SRC: a node has no more operands


class Bucket(NamedTuple):
    """Some gradients that are reduced together."""

    gradients: list[Tensor]
    start: Tensor  # the node after which the sum travels
    sums: list[Tensor]  # the gradients' sums over all ranks, which depend on start


class Gradients(Nodes):
    """The reduction of gradients; see Communicator."""

    def _reduce_gradients(self, ctx: int, gradients: Iterable[Tensor]) -> list[Bucket]:
        """Adds nodes that sum gradients over all ranks. ggml_opt_init calls it.

        Args:
            ctx: context that receives the nodes.
            gradients: contiguous f32 tensors, in the order in which the backward pass computes them.
        Returns:
            List of Bucket.
        """
        buckets: list[Bucket] = []
        group: list[Tensor] = []
        size = 0
        for gradient in gradients:
            group.append(gradient)
            size += ggml.ggml_nbytes(gradient)
            if size >= BUCKET_BYTES or len(group) == BUCKET_TENSORS:
                buckets.append(self._bucket(ctx, group, len(buckets)))
                group, size = [], 0
        if group:
            buckets.append(self._bucket(ctx, group, len(buckets)))
        return buckets

    def _bucket(self, ctx: int, gradients: Sequence[Tensor], number: int) -> Bucket:
        """The nodes of one bucket: one starts the sum, one waits for it."""
        sizes = [ggml.ggml_nelements(g) for g in gradients]
        label = f"gradients of bucket {number}: {sizes}"
        sums_under_way: list[Operation] = []

        def begin(token: Tensor, ith: int, nth: int, userdata: Any) -> None:
            values = np.concatenate([elements(token.contents.src[k]) for k in range(len(sizes))])
            elements(token)[...] = 0
            # one that a failed compute call left is not waited for
            sums_under_way[:] = [self._start(label, self._reduce_all(label, values, "sum", F32, self.order))]

        def finish(sums: Tensor, ith: int, nth: int, userdata: Any) -> None:
            elements(sums)[...] = self._wait(sums_under_way.pop())

        start = custom_node(ctx, F32, [1, 1, 1, 1], list(gradients), begin)
        ggml.ggml_set_name(start, b"start of gradients %d" % number)
        total = custom_node(ctx, F32, [sum(sizes), 1, 1, 1], [start], finish)
        ggml.ggml_set_name(total, b"sum of gradients %d" % number)
        sums, offset = [], 0
        for gradient, size in zip(gradients, sizes, strict=True):
            (n0, n1, n2, n3), (_, nb1, nb2, nb3) = gradient.contents.ne[:4], gradient.contents.nb[:4]
            sums.append(ggml.ggml_view_4d(ctx, total, n0, n1, n2, n3, nb1, nb2, nb3, offset))
            offset += 4 * size
        return Bucket(list(gradients), start, sums)
