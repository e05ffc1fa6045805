"""`Model`: a loaded ONNX model, and `load`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import ggml

from .._errors import KINDS, named, rename
from .._owners import LockOwner, Owner, keep
from ..utils import to_numpy
from . import host, rules
from .arrays import available
from .graph import Graph, ModelError, read_model
from .layout import Arena
from .prepare import fold, prepared
from .program import NodeError, Program
from .repeating import Repeat, as_declared, fits
from .values import Known, Parameter, extents, is_float

WEIGHTS = {None: None, "f32": None, "f16": ggml.GGML_TYPE_F16, "q8_0": ggml.GGML_TYPE_Q8_0, "q4_0": ggml.GGML_TYPE_Q4_0}


class UnknownOperatorError(ModelError):
    """A model with operators that nothing defines; `nodes` are those nodes."""

    def __init__(self, nodes):
        self.nodes = nodes
        found: dict = {}
        for node in nodes:
            found.setdefault(node.op, []).append(node.name)
        words = [
            f"{op} (node {names[0]!r}{f' and {len(names) - 1} more' if names[1:] else ''})"
            for op, names in found.items()
        ]
        advice = "a newer version of ggml or onnx, or functions in the model, may have them"
        if any(op.startswith("com.microsoft.nchwc.") for op in found):
            advice = "onnxruntime optimised the model for one kind of CPU; save it with ORT_ENABLE_EXTENDED instead"
        super().__init__(f"ggml.onnx.load: there is no implementation of {', '.join(words)}: {advice}")


class Engine(Owner):
    """What the programs of a model share."""

    def __init__(self, threads, weights, strict):
        self.rules, self.weights, self.strict = rules.load(), weights, strict
        self.arena, self.expansions, self.threads, self.workers = Arena(), 0, threads, available(threads)
        self.backend: Any = None
        keep(self, "backend", ggml.ggml_backend_cpu_init)
        if threads is not None:
            ggml.ggml_backend_cpu_set_n_threads(self.backend, threads)

    def __del__(self):
        if getattr(self, "backend", None):
            keep(self, "backend", ggml.ggml_backend_free, self.backend)


class Model(LockOwner):
    """An ONNX model that computes with ggml. Made by ggml.onnx.load.

    Attributes:
        inputs: list of ValueInfo (name, shape with symbolic dimensions, dtype, kind).
        outputs: list of ValueInfo.
    """

    def __init__(self, graph, engine):
        super().__init__()
        self.engine = engine
        self.inputs, self.outputs = graph.inputs, graph.outputs
        if unknown := list(unknown_operators(graph.nodes, engine)):
            raise UnknownOperatorError(unknown)
        require_operands(graph.nodes)
        self.constants = {n: Known(a, engine.arena) for n, a in graph.constants.items()}
        self.initialisers = list(graph.constants)
        graph.constants.clear()  # whose arrays are replaced by those of the tensors
        self.nodes = fold([n for n in graph.nodes if not n.uses()], self.constants, engine)
        self.nodes += [n for n in graph.nodes if n.uses()]
        self.trained: dict[str, Parameter] = {}
        self.prepare()

    def prepare(self):
        """Folds constants, of which parameters are none, and applies the patterns."""
        known = {n: v for n, v in self.constants.items() if n not in self.trained}
        nodes = prepared(self.nodes, known, [o.name for o in self.outputs], self.engine, bool(self.trained))
        inputs, outputs = ([v.name for v in values] for values in (self.inputs, self.outputs))
        self.program = Program(self.engine, nodes, {**known, **self.trained}, inputs, outputs)
        self.parts: dict[tuple, Program] = {}  # programs by the names of their outputs
        self.repeat = Repeat()

    def run(self, *arrays, outputs=None, **named):
        """Computes the outputs.

        Args:
            arrays: one array per input in the model's order, or one dict of arrays by name. Other threads must not
                change them during the call.
            outputs: names of the outputs to compute, None for all. Nodes that only others need do not run, and inputs
                that only they read may be left out. An input of this name goes into the dict.
            named: arrays by name.
        Returns:
            List of arrays in the order of the outputs, or of the names.
        Raises:
            ValueError: an input is missing, unknown, or has the wrong shape; an output is unknown.
            TypeError: an input has the wrong type.
            RuntimeError: an operator cannot be computed, or would run on the host of a strict model.
        """
        if outputs is None and not named:
            try:
                with self._lock:
                    found = self.repeat(arrays)
            except KINDS as error:
                rename(error, "Model.run")
                raise
            if found is not None:
                return found
        program = self.program if outputs is None else self.part(outputs)
        values = self.operands(arrays, named, program.inputs)
        return self.locked("run", self.kept if outputs is None else program.run, program, values)

    def kept(self, values):
        """The outputs of the program, whose plan is kept for the next run."""
        results = self.program.run(values)
        self.repeat.keep(self.program)
        return results

    def part(self, outputs):
        """The program that computes some of the outputs."""
        names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        with self._lock:
            if names not in self.parts:
                unknown = [n for n in names if all(n != o.name for o in self.outputs)]
                if unknown:
                    there = ", ".join(repr(o.name) for o in self.outputs)
                    raise ValueError(f"Model.run: output {unknown[0]!r} is not one of {there}")
                self.parts[names] = self.program.part(names)
            return self.parts[names]

    def locked(self, name, function, program, values, *more):
        """The result of function(values, ...) for a program, in a method of a name, with which errors begin.

        They say which symbolic dimension has two sizes.
        """
        with self._lock:
            try:
                return function(values, *more)
            except KINDS as error:
                explained = rename(self.explained(error, program, values), f"Model.{name}")
                if explained is error:
                    raise
                raise explained from error

    def explained(self, error, program, values):
        """The error of a program, or another one that says which symbolic dimension has two sizes."""
        words = None
        if isinstance(error, (NodeError, host.HostError)):
            words = disagreement([i for i in self.inputs if i.name in program.inputs], values)
        return error if words is None else type(error)(f"{error} ({words})")

    def report(self, *arrays, **named):
        """Where the nodes run for given inputs; the arguments are those of run.

        Returns:
            List of Entry (name, op, where, why) in the order of execution.
        """
        entries: list = []
        values = self.operands(arrays, named)
        self.locked("report", self.program.run, self.program, values, entries)
        return entries

    def graph(self, *arrays, **named):
        """The ggml graph for given inputs, to profile or draw; the arguments are those of run.

        Returns:
            ggml_cgraph, valid as long as the model lives and keeps the plan; None if the plan begins on the host.
        """
        values = self.operands(arrays, named)
        plan = self.locked("graph", self.program.plan, self.program, values)
        plan.transfer.settle()
        return plan.graph

    def parameters(self, names=None):
        """Makes constants of the model trainable, and returns them; see Training.

        The first call decides which they are; then the model computes with the arrays that it returns.

        Args:
            names: names of the model's initialisers, or None for all of type float with at least one dimension,
                except the statistics of BatchNormalization and the factors of Resize and of quantisation.
        Returns:
            dict of float32 arrays by name: views, so that writing into one changes the model.
        Raises:
            ValueError: a name is unknown or no float, or an earlier call chose others.
        """
        constants = {n: self.constants[n] for n in self.initialisers}
        with self._lock:
            if not self.trained:
                chosen = trainable(self.nodes, constants) if names is None else list(names)
                wrong = [n for n in chosen if n not in constants or not is_float(constants[n].dtype)]
                if wrong or not chosen:
                    raise ValueError(
                        f"Model.parameters: {', '.join(map(repr, wrong)) or 'the model'}: no initialiser of type float"
                    )
                for name in chosen:
                    array, shape = constants[name].array, constants[name].shape
                    t = self.engine.arena.upload(array.astype(np.float32).reshape(extents(shape)[::-1]))
                    ggml.ggml_set_param(t)
                    self.trained[name] = Parameter(t, shape, array.dtype)
                self.prepare()
            elif names is not None and set(names) != set(self.trained):
                raise ValueError("Model.parameters: an earlier call chose other parameters")
            return {n: to_numpy(p.t).reshape(p.shape) for n, p in self.trained.items()}

    def update(self, proto):
        """Writes the values of the parameters into the initialisers of a ModelProto, to save what was trained.

        Args:
            proto: onnx.ModelProto that the model was loaded from, or a copy; changed in place.
        Returns:
            proto.
        Raises:
            ValueError: it has no initialiser of the name and shape of a parameter.
        """
        found = {t.name: t for t in proto.graph.initializer}
        for name, array in self.parameters().items():
            if name not in found or tuple(found[name].dims) != array.shape:
                raise ValueError(f"Model.update: the ModelProto has no initialiser {name!r} {list(array.shape)}")
            found[name].CopyFrom(numpy_helper.from_array(array.astype(self.trained[name].dtype), name))
        return proto

    def operands(self, arrays, named, needed=None):
        """The checked operands in the model's order: of all inputs, or of those that are needed."""
        if len(arrays) == 1 and isinstance(arrays[0], dict) and not named:
            arrays, named = (), arrays[0]
        if not (arrays and named) and needed in (None, self.program.inputs):
            found = as_declared(self.inputs, arrays or named)
            if found is not None:
                return found
        wanted = self.inputs if needed is None else [i for i in self.inputs if i.name in needed]
        if len(arrays) > len(self.inputs):
            raise ValueError(f"Model.run: {len(arrays)} arrays were given, the model has {len(self.inputs)} inputs")
        given = dict(zip((i.name for i in self.inputs), arrays))
        for name, value in named.items():
            if name in given or all(i.name != name for i in self.inputs):
                names = ", ".join(repr(i.name) for i in self.inputs)
                raise ValueError(f"Model.run: input {name!r} is not one of {names}, or was given twice")
            given[name] = value
        missing = [i.name for i in wanted if i.name not in given]
        if missing:
            raise ValueError(f"Model.run: inputs are missing: {', '.join(map(repr, missing))}")
        return [checked(i, given[i.name]) for i in wanted]


FIXED = {
    "BatchNormalization": (3, 4),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (0, 1, 2),
}  # operands that are not weights, by operator


def trainable(nodes, constants):
    """The names of the constants that are weights."""
    fixed = {n for node in nodes for i in FIXED.get(node.op, ()) for n in node.inputs[i : i + 1]}
    read = {n for node in nodes for n in node.inputs} - fixed
    return [n for n, v in constants.items() if is_float(v.dtype) and v.shape and n in read]


def checked(info, value):
    """One operand as an array of the type and shape that the model declares."""
    if info.kind != "tensor" or isinstance(value, (list, type(None))) and info.dtype is None:
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"Model.run: input {info.name!r} is no array: {error}") from None
    if info.dtype is not None and array.dtype != info.dtype:
        strings = info.dtype.kind == "O" and array.dtype.kind in "US"
        python = not hasattr(value, "dtype") and np.can_cast(array.dtype, info.dtype, "same_kind")
        if not (strings or python):
            raise TypeError(f"Model.run: input {info.name!r} is {array.dtype}: need {info.dtype}")
        array = array.astype(info.dtype)
    if not fits(info.shape, array.shape):
        raise ValueError(f"Model.run: input {info.name!r} is {list(array.shape)}: need {list(info.shape)}")
    return array


def disagreement(infos, values):
    """Words about a symbolic dimension that has two sizes, None if there is none. Models may allow that."""
    sizes: dict = {}
    for info, value in zip(infos, values):
        for name, size in zip(info.shape or (), getattr(value, "shape", ())):
            if isinstance(name, str) and sizes.setdefault(name, (size, info.name))[0] != size:
                known, other = sizes[name]
                return f"dimension {name!r} is {known} in input {other!r} and {size} in input {info.name!r}"
    return None


def unknown_operators(nodes, engine):
    """The nodes whose operators neither this package, nor a function of the model, nor onnx defines."""
    for node in nodes:
        for value in node.attrs.values():
            if isinstance(value, Graph):
                yield from unknown_operators(value.nodes, engine)
        if node.proto is None or node.op in engine.rules or node.op in host.OPERATORS or node.op == "Identity":
            continue
        if node.function() is None and not onnx.defs.has(node.proto.op_type, node.proto.domain):
            yield node


def needed(schema):
    """The number of inputs up to the last one that an operator requires."""
    single, several = onnx.defs.OpSchema.FormalParameterOption.Single, onnx.defs.OpSchema.FormalParameterOption.Variadic
    required = [v.option == single or v.option == several and v.min_arity > 0 for v in schema.inputs]
    return max((i + 1 for i, wanted in enumerate(required) if wanted), default=0)


def require_operands(nodes):
    """Raises ModelError for a node that lacks an attribute or an input which its operator requires."""
    for node in nodes:
        for value in node.attrs.values():
            if isinstance(value, Graph):
                require_operands(value.nodes)
        if node.proto is None or not onnx.defs.has(node.proto.op_type, node.proto.domain):
            continue
        try:
            schema = onnx.defs.get_schema(node.proto.op_type, node.version, node.proto.domain)
        except onnx.defs.SchemaError:  # newer than the operator set of the model
            continue
        if node.function() is not None:
            continue
        given = {a.name for a in node.proto.attribute}
        lacking = [name for name, a in schema.attributes.items() if a.required and name not in given]
        if lacking:
            raise ModelError(
                f"ggml.onnx.load: {node} lacks the attribute {lacking[0]!r}, which version "
                f"{schema.since_version} of the operator requires"
            )
        least, most, n = needed(schema), schema.max_input, len(node.inputs)
        if not least <= n <= most:
            raise ModelError(
                f"ggml.onnx.load: {node} has {n} inputs: version {schema.since_version} of the operator needs "
                f"{least if least == most else f'{least} or more' if most > 1000 else f'{least} to {most}'}"
            )


@named("ggml.onnx.load")
def load(model, *, threads=None, weights=None, strict=False):
    """Loads an ONNX model.

    Args:
        model: path (external data is mapped), bytes, or onnx.ModelProto.
        threads: number of threads, None for one per usable CPU.
        weights: None keeps matrices in F32; "f16", "q8_0" and "q4_0" convert them on load.
        strict: refuse to run operators on the host; constants, shapes and control flow stay there.
    Returns:
        Model.
    Raises:
        ModelError: the model is broken (a ValueError).
        OSError: the file cannot be read.
        ValueError, TypeError: an argument is not allowed.
    """
    if weights not in list(WEIGHTS):
        raise ValueError(f"ggml.onnx.load: weights is {weights!r}: need one of {', '.join(map(repr, WEIGHTS))}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ValueError(f"ggml.onnx.load: threads is {threads!r}: need a positive number, or None")
    return Model(read_model(model), Engine(threads, WEIGHTS[weights], strict))
