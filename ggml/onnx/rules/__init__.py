"""The table of rules: operator -> function that builds its ggml nodes.

A rule is called with the Builder, the Node and one value per input (None for an omitted one), and returns a value, or a
tuple of values for several outputs. It declines by raising OnHost with the reason. See docs/onnx.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..values import floats

RULES: dict[str, Callable[..., Any]] = {}
FAMILIES = [
    "elementwise",
    "shape",
    "index",
    "matmul",
    "conv",
    "pool",
    "norm",
    "control",
    "recurrent",
    "resize",
    "quantized",
    "signal",
    "attention",
    "microsoft",
    "ml",
]


def rule(*ops, on_floats=False, **marks):
    """Decorator: registers a function as the rule of operators; on_floats: the host computes those of other types.

    Marks become attributes of the function. expands: it returns nodes; sequences: it takes or makes sequences, which
    are never folded.
    """

    def register(build):
        function = checked(build) if on_floats else build
        vars(function).update(marks)
        for op in ops:
            if op in RULES:
                raise ValueError(f"ggml.onnx.rules.rule: {op} has two rules")
            RULES[op] = function
        return function

    return register


def checked(build):
    """A rule that declines a first operand of another type than floats."""

    def function(b, node, x, *rest):
        return build(b, node, *floats(x), *rest)

    return function


def load():
    """Imports the families, once."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return RULES
