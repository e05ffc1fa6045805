"""The memory of a prepared graph, which is built once and computed many times."""

from __future__ import annotations

from typing import Any

import ggml

from ..._owners import Owner, keep

FREE = {"allocator": ggml.ggml_gallocr_free, "ctx": ggml.ggml_free, "inputs_ctx": ggml.ggml_free}  # in this order


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
        for name, free in FREE.items():
            if (held := vars(self).get(name)) is not None:
                keep(self, name, free, held)

    def abandon(self) -> None:
        """Leaves the graph in memory, as it is."""
        vars(self).update(dict.fromkeys(FREE))

    def __del__(self) -> None:
        self.free()
