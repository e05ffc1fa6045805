"""What a Tensor was made from: the records by which a rule that continues a value finds the whole that it is part of.

Where a rule can compute an operator together with those before it, it asks for the `origin` of its operand by type, and
builds the whole anew; the nodes of the part are then used by nothing, and are not in the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Polynomial:
    """A polynomial of another value."""

    base: Any
    p: np.poly1d


@dataclass(frozen=True)
class GeluGate:
    """Tanh or Erf of what one of GELU's two forms takes it of: function(base) is the GELU."""

    base: Any
    function: Callable


@dataclass(frozen=True)
class Gate:
    """A value whose product with x is a function of x by this name (GGML_UNARY_OP_*), times a factor.

    readers: the number of nodes that read it.
    """

    x: Any
    name: str
    factor: float
    readers: int | None


@dataclass(frozen=True)
class Convolution:
    """A convolution with constants: again(node, scale, shift, function) computes function(scale * it + shift).

    readers: the number of nodes that read it.
    """

    again: Callable
    readers: int | None


@dataclass(frozen=True)
class WholeSums:
    """Sums of products of integers: again(bias) computes them with a bias per channel."""

    again: Callable


@dataclass(frozen=True)
class Spread:
    """A value that was repeated along its last axis."""

    x: Any


@dataclass(frozen=True)
class OneHot:
    """Rows with a 1 at an index, 0 elsewhere; the index has a last axis of one element."""

    index: Any


@dataclass(frozen=True)
class Dequantized:
    """Whole numbers, less their zero point, times a scale."""

    codes: Any
    scale: Any


@dataclass(frozen=True)
class Quantized:
    """Whole numbers with a zero point: less() computes them without it."""

    zero: Any
    less: Callable
