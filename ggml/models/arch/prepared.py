"""The memory of a prepared graph, which is built once and computed many times."""

from __future__ import annotations

from typing import Any

import ggml

from ..._owners import Owner


class Prepared(Owner):
    """Base of prepared graphs.

    Attributes:
        inputs_ctx: context of the inputs, whose tensors have memory of their own.
        ctx: context of the nodes.
        allocator: what gives the nodes memory.
    """

    def __init__(self) -> None:
        self.inputs_ctx: Any = None
        self.ctx: Any = None
        self.allocator: Any = None

    def free(self) -> None:
        """Frees the graph and its memory."""
        if self.allocator is not None:
            ggml.ggml_gallocr_free(self.allocator)
        for ctx in (self.ctx, self.inputs_ctx):
            if ctx is not None:
                ggml.ggml_free(ctx)
        self.allocator = self.ctx = self.inputs_ctx = None
