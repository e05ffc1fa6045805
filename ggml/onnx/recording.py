"""Recording how a graph is built, to build it again for operands of other sizes without asking any rule.

Rules call the functions of ggml through `ggml` of this module. While a graph is recorded, what they take for its
context is a `Recorder`: it keeps each call, with the places of the sizes and of earlier results among its arguments. A
`Recipe` repeats the calls for other sizes, if all conditions hold under which rules have decided: those on sizes
(sizes.Terms), and those on tensors, which `ask` records.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

import ggml as _ggml

from .replaying import filled, name_tensors, repeat, symbols_of
from .sizes import Size, UnrecordedError, int_of
from .values import Known, rough_bounds

CTX, ARENA = 0, 1  # results that are there before the first step: the context, and the arena of constants
ANY = object()  # the expectation of a step that may give anything


class Trace:
    """Where a Known value comes from that depends on sizes: its numbers, or the step that makes its array."""

    __slots__ = ("recorder", "sizes", "step")

    def __init__(self, recorder, sizes=None, step=None):
        self.recorder, self.sizes, self.step = recorder, sizes, step

    def read(self):
        """Makes the value a condition, because somebody reads it."""
        if self.sizes is None:
            raise UnrecordedError("values that depend on sizes decide the graph")
        for size in self.sizes:
            int(size)


def vector(shape, dtype, *numbers):
    """An array of numbers."""
    return np.array(numbers, dtype).reshape(shape)


class Recorder:
    """What stands for the context of a graph that is recorded.

    ctx: the context; terms: the arithmetic of sizes.
    """

    def __init__(self, ctx, arena, terms):
        self.ctx, self.arena, self.terms = ctx, arena, terms
        self.steps: list[tuple] = []  # (function, arguments, [(argument, size)], [(argument, result)], expectation)
        self.results = [ctx, arena]
        self.places: dict[int, int] = {}  # of the results that are tensors, by their addresses
        self.own: set[int] = set()  # the addresses of all tensors in the context
        self.last = None  # the last one of them

    def step(self, function, *args, refs=(), expected=ANY):
        """The place of the result of function(*args), of which refs are (argument, result)."""
        values, sizes, refs = list(args), [], list(refs)
        for i, a in enumerate(args):
            if type(a) is Size:
                sizes.append((i, a.place))
                values[i] = a.value
            elif isinstance(a, ctypes._Pointer):
                address = ctypes.addressof(a.contents)
                if (place := self.places.get(address)) is not None:
                    refs.append((i, place))
                elif address in self.own:
                    raise UnrecordedError("a tensor that is no result of a function")
        given = list(values)
        for i, place in refs:
            given[i] = self.results[place]
            values[i] = None
        result = function(*given)
        self.see()
        self.steps.append((function, values, sizes, refs, result if expected is not ANY else ANY))
        self.results.append(result)
        if isinstance(result, ctypes._Pointer):
            self.places[ctypes.addressof(result.contents)] = len(self.results) - 1
        return len(self.results) - 1

    def see(self):
        """Notes the tensors that a step has made."""
        while (
            t := _ggml.ggml_get_next_tensor(self.ctx, self.last) if self.last else _ggml.ggml_get_first_tensor(self.ctx)
        ):
            self.last = t
            self.own.add(ctypes.addressof(t.contents))

    def call(self, function, *args):
        """The tensor that a function of ggml makes in the context."""
        return self.results[self.step(RECORDABLE.get(function, function), None, *args, refs=[(0, CTX)])]

    def ask(self, function, t):
        """What a function says about a tensor: a condition."""
        return self.results[self.step(RECORDABLE.get(function, function), t, expected=True)]

    # Known values that depend on sizes

    def numbers(self, numbers, shape, dtype):
        """The Known value of a list of sizes and numbers, in a shape."""
        known = Known(vector(shape, dtype, *map(int_of, numbers)))
        known.trace = Trace(self, numbers)
        return known

    def source(self, known):
        """The place of the array of a Known value."""
        trace = known.trace
        if trace is None:
            return self.step(lambda array: array, known.array)
        if trace.step is None:
            trace.step = self.step(vector, known.shape, known.dtype, *trace.sizes)
        return trace.step

    def array(self, function, values, shape):
        """The Known value function(*arrays) of the arrays of values, in a shape."""
        refs = [(i, self.source(v)) for i, v in enumerate(values) if v is not None]
        place = self.step(function, *[None] * len(values), refs=refs)
        known = Known(self.results[place])
        if known.shape != tuple(map(int_of, shape)):
            raise UnrecordedError(f"{known.shape} is not the shape {shape}")
        known.shape, known.trace = tuple(shape), Trace(self, step=place)
        return known

    def tensor(self, function, known):
        """The tensor function(arena, array) of a Known value, made once."""
        if function not in known.tensors:
            place = self.step(function, None, None, refs=[(0, ARENA), (1, self.source(known))])
            known.tensors[function] = self.results[place]
        return known.tensors[function]

    def bounds(self, known):
        """Bounds of a Known value."""
        return self.results[self.step(rough_bounds, None, refs=[(0, self.source(known))], expected=True)]


class Steps:
    """The steps of a Recorder, to be repeated: each takes its arguments out of one list of all values.

    The list has the values of the terms, the constants, and the results; `first` is the place of the first result.
    """

    def __init__(self, recorder):
        holes = [dict((*sizes, *((i, ~place) for i, place in refs))) for _, _, sizes, refs, _ in recorder.steps]
        given = [step[1] for step in recorder.steps]
        self.constants = [v for values, hole in zip(given, holes) for i, v in enumerate(values) if i not in hole]
        own = itertools.count(len(recorder.terms.values))
        self.first = len(recorder.terms.values) + len(self.constants)
        self.steps = []
        for (function, values, _, _, expected), hole in zip(recorder.steps, holes):
            places = [hole[i] if i in hole else next(own) for i in range(len(values))]
            places = [self.first + ~p if p < 0 else p for p in places]
            self.steps.append((function, tuple(places), expected))

    def repeated(self, found, ctx, arena):
        """All values for other values of the terms; None if a question about a tensor has another answer."""
        cells = [*found, *self.constants, ctx, arena]
        return cells if repeat(self.steps, cells, ANY) else None


class Recipe:
    """How a graph is built for operands of a pattern: symbols and fixed numbers in place of their dimensions.

    kinds: what the operands are besides; shapes: for each operand a number or (symbol,) for each dimension, None for
    what has no shape; feeds, results: (position or name, shape, type, tensor) as a Plan takes them; known: the values
    by name that the graph gives without computing them; names: of its tensors; ending: what all plans share.
    """

    def __init__(self, recorder, kinds, shapes, feeds, results, known, names, ending):
        self.kinds, self.shapes, self.ending = kinds, shapes, ending
        self.arena = recorder.arena  # some constants of the first graph are those of all
        self.names = names
        sources = {name: recorder.source(v) for name, v in known.items() if v is not None and v.trace}
        self.steps = Steps(recorder)
        self.symbols, self.arithmetic = recorder.terms.symbols, recorder.terms.arithmetic()
        self.traced = {name: self.steps.first + place for name, place in sources.items()}
        self.fixed = {name: v and v.array for name, v in known.items() if name not in sources}
        self.feeds, self.results = ([self.places(recorder, *v) for v in values] for values in (feeds, results))

    def places(self, recorder, key, shape, dtype, t):
        """What stands for an operand or a result: (key, shape, type, place), with (place,) for sizes in the shape."""
        shape = tuple((n.place,) if type(n) is Size else n for n in shape)
        return key, shape, dtype, self.steps.first + recorder.places[ctypes.addressof(t.contents)]

    def values(self, key):
        """All values of the terms for the operands of a signature, or None if this is not the recipe."""
        symbols = symbols_of(self.kinds, self.shapes, key, self.symbols)
        return symbols and self.arithmetic(symbols)

    def built(self, home, values):
        """The operands and results of the graph for values of the terms, as a Plan takes them, and the known arrays.

        None if this is not the recipe; home: the layout.Home in whose context the graph is built.
        """
        cells = self.steps.repeated(values, home.context, home.arena)
        if cells is None:
            return None
        name_tensors(home.context, self.names)
        fixed = self.fixed
        if self.traced:
            fixed = fixed | {name: cells[place] for name, place in self.traced.items()}
        return filled(self.feeds, cells), filled(self.results, cells), fixed


def pattern_of(before, shapes):
    """The shapes with symbols for what differs from the shapes before, and the numbers of the symbols.

    None if there is no such pattern. Dimensions that were equal and are equal have one symbol.
    """
    pairs: dict[tuple, int] = {}
    pattern: list[tuple | None] = []
    for old, new in zip(before, shapes):
        if (old is None) != (new is None) or old is not None and (len(old) != len(new) or 0 in (*old, *new)):
            return None
        pattern.append(
            new and tuple(n if m == n else (pairs.setdefault((m, n), len(pairs)),) for m, n in zip(old, new))
        )
    return (pattern, [n for _, n in pairs]) if pairs else None


def sized(pattern, terms):
    """The shapes of a pattern with sizes."""
    sizes = [Size(terms, i, n) for i, n in enumerate(terms.values[: terms.symbols])]
    return [p and tuple(sizes[n[0]] if type(n) is tuple else n for n in p) for p in pattern]


RECORDABLE: dict[Any, Any] = {}  # what recordable has given -> the function


def recordable(function):
    """The function of ggml; with a Recorder for its context, the call is recorded."""

    @functools.wraps(function)
    def call(*args):
        if args and type(args[0]) is Recorder:
            return args[0].call(function, *args[1:])
        return function(*args)

    RECORDABLE[call] = function
    return call


class Functions:
    """The names of a module, whose functions can be recorded."""

    def __init__(self, module, **more):
        self.module = module
        vars(self).update(more)

    def __getattr__(self, name):
        value = getattr(self.module, name)
        value = recordable(value) if callable(value) and not isinstance(value, type) else value
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    ggml = _ggml
else:
    ggml = Functions(_ggml, ext=Functions(_ggml.ext))
