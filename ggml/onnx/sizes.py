"""Extents that differ between calls, while a graph is recorded that serves all of them.

A `Size` is an integer whose arithmetic is kept, so that it can be repeated with other numbers. Whatever else depends on
its value leaves a condition: a comparison its outcome, and reading a result of arithmetic the result. What was built
with some numbers is what others give too, if all conditions have the same outcome for them.
"""

from __future__ import annotations

import operator

from .replaying import Arithmetic


class UnrecordedError(Exception):
    """A graph that cannot be recorded."""


class Terms:
    """What was computed from some symbols: rows of arithmetic, and conditions.

    Each number, symbol or intermediate result has a place in one list, the symbols first.
    """

    def __init__(self, values):
        self.values, self.symbols = list(values), len(values)
        self.rows: list[tuple] = []  # (function, place, place), or (None, number, None)
        self.places: dict[tuple, int] = {}  # of the rows
        self.conditions: dict[tuple, bool] = {}  # (function, place, place) -> outcome

    def row(self, function, a, b, value):
        """The place of a row, which is new or has been there."""
        place = self.places.get((function, a, b))
        if place is None:
            place = self.places[function, a, b] = len(self.values)
            self.rows.append((function, a, b))
            self.values.append(value)
        return place

    def place(self, x):
        """The place of a size or an integer."""
        return x.place if type(x) is Size else self.row(None, x, None, x)

    def computed(self, function, a, b):
        """The size function(a, b)."""
        value = function(int_of(a), int_of(b))
        return Size(self, self.row(function, self.place(a), self.place(b), value), value)

    def compared(self, function, a, b):
        """Whether function(a, b), which becomes a condition."""
        outcome = function(int_of(a), int_of(b))
        self.conditions[function, self.place(a), self.place(b)] = outcome
        return outcome

    def arithmetic(self):
        """The function of other numbers of the symbols that gives all values, or None if a condition does not hold."""
        return Arithmetic(self.symbols, self.rows, self.conditions)


def int_of(x):
    """The value of a size or an integer, without a condition."""
    return x.value if type(x) is Size else x


def integer(x):
    """A size as it is, anything else as a Python integer."""
    return x if type(x) is Size else int(x)


def arithmetic(function, unit=None, other=None):
    """The methods of an operator and of its reflection; x op unit is x, and x op x is other."""

    def forward(self, y):
        if type(y) is not Size:
            if isinstance(y, float):
                return function(self.read(), y)
            y = operator.index(y)
        if y is unit or type(y) is int and y == unit:
            return self
        if other is not None and type(y) is Size and y.place == self.place:
            return other
        return self.terms.computed(function, self, y)

    def reflected(self, x):
        if isinstance(x, float):
            return function(x, self.read())
        x = operator.index(x)
        commutes = function in (operator.add, operator.mul)
        return self if commutes and x == unit else self.terms.computed(function, x, self)

    return forward, reflected


def comparison(function, same):
    """The method of a comparison; same: what it gives for a size and itself."""

    def compare(self, y):
        if type(y) is not Size:
            try:
                y = operator.index(y)
            except TypeError:
                return function(self.read(), y) if isinstance(y, float) else NotImplemented
        elif y.place == self.place:
            return same
        return self.terms.compared(function, self, y)

    return compare


class Size:
    """An integer of Terms. It is not hashable, so that no cache mixes it up with a number."""

    __slots__ = ("terms", "place", "value")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # numbers of NumPy leave their operators to a size

    def __init__(self, terms, place, value):
        self.terms, self.place, self.value = terms, place, value

    def read(self):
        """The value, which becomes a condition; raises UnrecordedError for a symbol, whose value is to be any."""
        if self.place < self.terms.symbols:
            raise UnrecordedError("the value of a size decides the graph")
        self.terms.compared(operator.eq, self, self.value)
        return self.value

    __int__ = __index__ = read
    __add__, __radd__ = arithmetic(operator.add, 0)
    __sub__, __rsub__ = arithmetic(operator.sub, 0, 0)
    __mul__, __rmul__ = arithmetic(operator.mul, 1)
    __floordiv__, __rfloordiv__ = arithmetic(operator.floordiv, 1)
    __mod__, __rmod__ = arithmetic(operator.mod, None, 0)
    __eq__, __ne__ = comparison(operator.eq, True), comparison(operator.ne, False)
    __lt__, __le__ = comparison(operator.lt, False), comparison(operator.le, True)
    __gt__, __ge__ = comparison(operator.gt, False), comparison(operator.ge, True)

    def __neg__(self):
        return self.terms.computed(operator.sub, 0, self)

    def __bool__(self):
        return self != 0

    def __float__(self):
        return float(self.read())

    def __truediv__(self, y):
        return self.read() / y

    def __rtruediv__(self, x):
        return x / self.read()

    def __repr__(self):
        return str(self.value)
