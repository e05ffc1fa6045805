"""Looking inside a model: tracing values, changing them on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

import numpy as np

from .._owners import Owner
from .generate.images import Images
from .run.graphs import Step
from .run.runner import Runner
from .vision.tower import Graph, Tower

INPUT = ".in"  # ends the names of points that are operands of matrices


class Inspecting:
    """The values inside; see Model."""

    def __init__(self, runner: Runner, images: Images) -> None:
        self.runner, self.images = runner, images

    def _points(self) -> list[str]:
        """The points of the encoder of pictures, if there is one, and of the rest."""
        return [*(self.images.tower.points if self.images.tower is not None else ()), *self.runner.points]

    def points(self, inputs: bool = False) -> list[str]:
        """The names of the values that trace and edit accept, in the order in which they are computed.

        Those of the encoder of pictures begin with "v." and "mm.": "v.embd", "v.blk.0.out", ..., "v.result".

        Args:
            inputs: True to list also what each matrix is multiplied with: "blk.0.attn_q.in" for the matrix
                "blk.0.attn_q.weight". Patterns match these only if they end in ".in".
        """
        return [p for p in self._points() if inputs or not p.endswith(INPUT)]

    def trace(self, *names: str) -> Trace:
        """Keeps values that are computed in a `with` statement.

        Args:
            names: points (see `points`), or patterns such as "blk.*.out".
        Returns:
            Trace: inside and after the statement, trace[name] is an array f32 [tokens, dim] of all tokens computed;
            in the encoder of pictures, of all patches of the tiles that were encoded (and of the class tokens).
        Raises:
            ValueError: there is no such point.

        Example:
            with model.trace("blk.3.attn_out") as t:
                model.logits(ids)
            t["blk.3.attn_out"]
        """
        return Trace(self.runner, self.images, self.matching("trace", names))

    def edit(self, name: str, function: Callable[[np.ndarray], np.ndarray | None]) -> Edit:
        """Changes a value on the way, for example to steer what the model writes.

        Args:
            name: point (see `points`).
            function: called with an array f32 [tokens, dim], of a tile in the encoder [patches, dim], each time the
                value was computed; it changes the array in place, or returns one of the same shape. It must not call
                the model.
        Returns:
            Edit: call its `remove`, or use it in a `with` statement.
        Raises:
            TypeError: function is not a function.
            ValueError: there is no such point.
        """
        if not callable(function):
            raise TypeError(f"edit: function is {function!r}: need a function")
        with self.runner.lock:
            (point,) = self.matching("edit", [name], exact=True)
            tower = self.images.tower
            of_images = tower is not None and point in tower.points
            changed("edit", self.runner, tower)
            edits = tower.edits if tower is not None and of_images else self.runner.edits
            edits.setdefault(point, []).append(function)
        return Edit(self.runner, tower if of_images else None, name, function)

    def weight_shape(self, name: str) -> tuple[int, int, int, int]:
        """The sizes of a weight, ne0 first.

        Args:
            name: its name in the file.
        Raises:
            ValueError: there is no such weight.
            RuntimeError: the model is closed.
        """
        self.runner.check("weight_shape")
        if name not in self.runner.weights:
            raise ValueError(f"weight_shape: there is no weight {name!r}")
        return tuple(self.runner.weights[name].contents.ne[:4])

    def matching(self, caller: str, names: Sequence[str], exact: bool = False) -> list[str]:
        """The points that names or patterns mean."""
        found = []
        for name in names:
            inputs = name.endswith(INPUT)
            usual = [p for p in self._points() if p.endswith(INPUT) == inputs]
            matching = [p for p in usual if p == name or (not exact and fnmatchcase(p, name))]
            if not matching:
                known = ", ".join(self.runner.points[:8])
                raise ValueError(f"{caller}: there is no point {name!r}: need one of points(): {known}, ...")
            found += matching
        return found


def changed(caller: str, runner: Runner, tower: Tower | None) -> None:
    """Before a change of what graphs are built of: neither graphs nor what was computed will be valid after it."""
    runner.changed(caller)
    if tower is not None:
        tower.forget()


class Trace(Owner):
    """Values that were computed in a `with` statement; see Model.trace."""

    def __init__(self, runner: Runner, images: Images, names: Sequence[str]) -> None:
        self._runner, self._images = runner, images
        self._tower: Tower | None = None
        self.names = frozenset(names)
        self._values: dict[str, list[np.ndarray]] = {name: [] for name in self.names}

    def __enter__(self) -> Trace:
        runner = self._runner
        with runner.lock:
            if runner.tracer is not None:
                raise RuntimeError("trace: the model is traced already: give all names to one trace")
            self._tower = self._images.tower
            changed("trace", runner, self._tower)  # so that all tokens are computed, none taken from the cache
            runner.tracer = self
            if self._tower is not None:
                self._tower.tracer = self
        return self

    def __exit__(self, *exception: object) -> None:
        runner = self._runner
        with runner.lock:
            if not runner.closed:
                runner.check("trace")
                runner.graphs.forget()
                if self._tower is not None:
                    self._tower.forget()
            runner.tracer = None
            if self._tower is not None:
                self._tower.tracer = None

    def collect(self, step: Step | Graph) -> None:
        """Keeps the values of a graph that was computed."""
        for name, values in step.traced.items():
            self._values[name].append(values.copy())

    def __getitem__(self, name: str) -> np.ndarray:
        """The values of a point: f32 [tokens, dim], a row for each token that was computed."""
        values = self._values[name]
        if not values:
            raise KeyError(f"trace: point {name!r} was not computed")
        if len(values) > 1:
            values[:] = [np.concatenate(values)]
        return values[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def keys(self) -> list[str]:
        """The names of the points."""
        return list(self._values)


class Edit(Owner):
    """A function that changes a value on the way; see Model.edit."""

    def __init__(self, runner: Runner, tower: Tower | None, name: str, function: Callable) -> None:
        self._runner, self._tower, self.name, self._function = runner, tower, name, function

    def remove(self) -> None:
        """Ends the change. Does nothing the second time."""
        runner = self._runner
        with runner.lock:
            functions = (runner if self._tower is None else self._tower).edits.get(self.name, [])
            if self._function in functions and not runner.closed:
                changed("remove", runner, self._tower)
                functions.remove(self._function)

    def __enter__(self) -> Edit:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()
