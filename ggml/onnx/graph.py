"""Import: from protobuf to a small typed graph.

A `Graph` holds nodes whose attributes are Python objects, constants as arrays, and the descriptions of inputs and
outputs. Everything after this module works on these classes; protobuf messages stay for the host fallback alone.
"""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from .._io.file_kinds import kind_of
from .._io.files import open_regular
from .opsets import modernise


class ModelError(ValueError):
    """A model that cannot be loaded: broken, cyclic, or with a name that nothing defines."""


@dataclass(frozen=True)
class ValueInfo:
    """What a model says about an input or output.

    Args:
        name: its name.
        shape: one entry per dimension, an int, a symbolic name or None if unknown; None if the rank is unknown.
        dtype: NumPy type of the elements, or None for sequences, optionals and maps.
        kind: "tensor", "sequence", "optional" or "map".
    """

    name: str
    shape: tuple | None
    dtype: Any
    kind: str = "tensor"


@dataclass
class Node:
    """One operator of a graph.

    Args:
        op: operator, with the domain in front unless it is ONNX's own: "Add", "com.microsoft.FusedConv".
        inputs: names; "" is an omitted one.
        outputs: names; "" is an omitted one.
        attrs: attributes as Python objects: numbers, lists, str, arrays, Graph.
        version: version of the operator set that the graph imports for this domain.
        name: the node's name, or one made of the operator and its position.
        proto: the protobuf message, None for a constant tensor.
        scope: the ModelProto's operator sets and functions, which expansion needs.
        parts: the nodes of the model in whose place a pattern has put it (patterns.py).
    """

    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any]
    version: int
    name: str
    proto: Any
    scope: Scope
    parts: list[Node] = field(default_factory=list)
    kept: Any = field(default=None, init=False, repr=False, compare=False)  # what reads() has given

    def attr(self, name, default=None):
        """An attribute, or the default if the node does not have it."""
        return self.attrs.get(name, default)

    def renamed(self, names):
        """The node with inputs, outputs and names that its subgraphs capture replaced by a mapping."""
        attrs = {k: v.renamed(names) if isinstance(v, Graph) else v for k, v in self.attrs.items()}
        pick = [names.get(n, n) for n in self.inputs], [names.get(n, n) for n in self.outputs]
        return replace(self, inputs=pick[0], outputs=pick[1], attrs=attrs, parts=[p.renamed(names) for p in self.parts])

    def uses(self):
        """The names that the node and its parts read, with those that its subgraphs capture."""
        found = set(self.inputs) - {""}
        for value in self.attrs.values():
            if isinstance(value, Graph):
                found |= value.captures()
        if self.parts:
            found |= set().union(*(p.uses() for p in self.parts)) - self.writes()
        return found.union(*self.attrs.get("ggml.scans", ()))

    def reads(self):
        """The same, found once: for nodes of a program, which do not change any more."""
        if self.kept is None:
            self.kept = self.uses()
        return self.kept

    def writes(self):
        """The names that the node or its parts write."""
        return set(self.outputs).union(*(p.outputs for p in self.parts)) - {""}

    def function(self):
        """The FunctionProto of the model that the node calls, None for an operator."""
        return None if self.proto is None else self.scope.functions.get(called(self.proto, self.proto.op_type))

    def __str__(self):
        return f"node {self.name!r} ({self.op})"


@dataclass(frozen=True)
class Scope:
    """What a model knows beside its graph: versions of operator sets, and functions by (domain, name, overload)."""

    opsets: dict[str, int]
    functions: dict[tuple[str, str, str], Any] = field(default_factory=dict)


@dataclass
class Graph:
    """Nodes in an order in which every input is defined before its use."""

    nodes: list[Node]
    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    constants: dict[str, Any]  # arrays, or values.Known
    name: str = ""

    def own(self):
        """The names that constants and nodes of the graph have."""
        return set(self.constants).union(*(n.writes() for n in self.nodes))

    def renamed(self, names):
        """The graph with captured names replaced by a mapping.

        A name that the graph defines itself stays, or is another if a captured one is to have it.
        """
        own = {i.name for i in self.inputs} | self.own()
        names = {k: v for k, v in names.items() if k not in own}
        taken = own.union(names.values())
        for name in own.intersection(names.values()):
            names[name] = next(n for k in itertools.count(1) if (n := f"{name}#{k}") not in taken)
        ends = self.inputs, self.outputs
        inputs, outputs = ([replace(v, name=names.get(v.name, v.name)) for v in infos] for infos in ends)
        constants = {names.get(k, k): v for k, v in self.constants.items()}
        nodes = [n.renamed(names) for n in self.nodes]
        return replace(self, nodes=nodes, inputs=inputs, outputs=outputs, constants=constants)

    def captures(self):
        """The names that the graph reads and does not define."""
        own = {i.name for i in self.inputs} | set(self.constants)
        found = set()
        for node in self.nodes:
            found |= node.uses() - own
            own |= node.writes()
        return found | ({o.name for o in self.outputs} - own)

    def inlined(self, prefix, inputs, outputs):
        """What to put in place of a node with these inputs and outputs, some of which may be "".

        Nodes and constants with names that begin with the prefix, and pairs (name in the graph, output of the node).
        """
        names = {i.name: given for i, given in zip(self.inputs, inputs)}
        names.update((n, prefix + n) for n in self.own())
        copies = [(names.get(o.name, o.name), given) for o, given in zip(self.outputs, outputs) if given]
        constants = {names[k]: v for k, v in self.constants.items()}
        return [n.renamed(names) for n in self.nodes], constants, copies


PACKED = {"int4": 2, "uint4": 2, "float4_e2m1fn": 2, "int2": 4, "uint2": 4}  # elements of a byte in a file, by type


def numpy_type(number, what):
    """The NumPy type of a TensorProto data type."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, TypeError, ValueError):
        raise ModelError(f"{what} has element type {number}, which does not exist") from None


def value_info(info):
    """A ValueInfo of a ValueInfoProto."""
    kind = info.type.WhichOneof("value") or "tensor_type"
    if kind != "tensor_type":
        return ValueInfo(info.name, None, None, kind.removesuffix("_type"))
    tensor = info.type.tensor_type
    if not tensor.elem_type:
        return ValueInfo(info.name, None, None)
    dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)
    shape = dims if tensor.HasField("shape") else None
    return ValueInfo(info.name, shape, numpy_type(tensor.elem_type, f"{info.name!r}"))


def array_of(tensor, folder):
    """The array of a TensorProto; external data is mapped, and must lie inside the model's folder."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return external_array(tensor, folder)
    try:
        array = numpy_helper.to_array(tensor)
    except Exception as error:
        raise ModelError(f"tensor {tensor.name!r} is broken: {error}") from None
    if array.shape != tuple(tensor.dims):
        raise ModelError(f"tensor {tensor.name!r} says {tuple(tensor.dims)} and holds {array.shape}")
    return array


def external_array(tensor, folder):
    """Maps an array that is stored in a file beside the model."""
    where = {e.key: e.value for e in tensor.external_data}
    if folder is None:
        raise ModelError(f"tensor {tensor.name!r} is stored in a file: load the model from its path")
    root = Path(folder).resolve()
    path = (root / where.get("location", "")).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        raise ModelError(
            f"tensor {tensor.name!r} is stored in {where.get('location')!r}: need a file in the model's folder"
        )
    dtype, shape = numpy_type(tensor.data_type, f"tensor {tensor.name!r}"), tuple(tensor.dims)
    try:
        offset, length = int(where.get("offset", 0)), int(where.get("length", 0))
    except ValueError:
        raise ModelError(f"tensor {tensor.name!r} has an offset or length that is not a number") from None
    count, size, packed = math.prod(shape), os.path.getsize(path), PACKED.get(dtype.name, 1)
    n_bytes = -(-count // packed) * dtype.itemsize
    end = offset + max(n_bytes, length)
    if offset < 0 or count < 0 or end > size or dtype.hasobject:
        raise ModelError(f"tensor {tensor.name!r} needs bytes {offset} to {end} of {path.name}, which has {size}")
    if not count:
        return np.empty(shape, dtype)
    if packed == 1:
        return np.memmap(path, dtype, "r", offset, shape)
    raw = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=shape)
    raw.raw_data = np.memmap(path, np.uint8, "r", offset, n_bytes).tobytes()
    return array_of(raw, folder)


class Reader:
    """Reads the graphs of one model."""

    def __init__(self, scope, folder):
        self.scope, self.folder = scope, folder

    def attribute(self, a):
        """The Python object of an AttributeProto."""
        if a.type == AttributeProto.GRAPH:
            return self.graph(a.g)
        if a.type == AttributeProto.TENSOR:
            return array_of(a.t, self.folder)
        if a.type == AttributeProto.SPARSE_TENSOR:
            return dense(a.sparse_tensor, self.folder)
        if a.type == AttributeProto.STRING:
            return a.s.decode("utf-8", "replace")
        if a.type == AttributeProto.STRINGS:
            return [s.decode("utf-8", "replace") for s in a.strings]
        value = helper.get_attribute_value(a)
        return list(value) if a.type in (AttributeProto.FLOATS, AttributeProto.INTS) else value

    def node(self, proto, index):
        """The Node of a NodeProto; index names nodes that have no name."""
        domain = "" if proto.domain in ("", "ai.onnx") else proto.domain
        op = f"{domain}.{proto.op_type}" if domain else proto.op_type
        attrs = {a.name: self.attribute(a) for a in proto.attribute if not a.ref_attr_name}
        if op == "Constant" and "sparse_value" in attrs:
            attrs["value"] = attrs.pop("sparse_value")
        name = proto.name or f"{proto.op_type}_{index}"
        version = self.scope.opsets.get(domain, 1)
        inputs, outputs = list(proto.input), list(proto.output)
        # A message keeps the whole model alive that it is part of; constants are many, and large.
        proto = None if op == "Constant" and "value" in attrs else copied(proto)
        node = Node(op, inputs, outputs, attrs, version, name, proto, self.scope)
        if proto is not None:
            modernise(node)
        return node

    def graph(self, proto):
        """The Graph of a GraphProto, its nodes sorted."""
        constants = {t.name: array_of(t, self.folder) for t in proto.initializer}
        for sparse in proto.sparse_initializer:
            constants[sparse.values.name] = dense(sparse, self.folder)
        inputs = [value_info(i) for i in proto.input if i.name not in constants]
        nodes = [self.node(n, i) for i, n in enumerate(proto.node)]
        return Graph(ordered(nodes, proto.name), inputs, [value_info(o) for o in proto.output], constants, proto.name)


def called(message, name):
    """By what a FunctionProto, or a NodeProto that calls one, names the function. Overloads came with IR version 10."""
    return message.domain, name, getattr(message, "overload", "")


def copied(message):
    """A copy of a protobuf message."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def dense(sparse, folder):
    """The array of a SparseTensorProto."""
    values, indices = array_of(sparse.values, folder), array_of(sparse.indices, folder)
    array = np.zeros(tuple(sparse.dims), values.dtype)
    try:
        array[tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, array.shape)] = values
    except (IndexError, ValueError) as error:
        raise ModelError(f"sparse tensor {sparse.values.name!r}: {error}") from None
    return array


def ordered(nodes, graph_name):
    """The nodes in an order in which producers come before consumers."""
    producer: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.outputs:
            if name and producer.setdefault(name, i) != i:
                raise ModelError(f"{node} writes {name!r}, which {nodes[producer[name]]} writes too")
    sources = {i: {producer[u] for u in node.uses() if u in producer} for i, node in enumerate(nodes)}
    if all(max(before, default=-1) < i for i, before in sources.items()):
        return nodes
    try:
        return [nodes[i] for i in TopologicalSorter(sources).static_order()]
    except CycleError as error:
        cycle = nodes[error.args[1][0]]
        raise ModelError(f"graph {graph_name!r} has a cycle through {cycle}") from None


def other_kind(start):
    """What a file that is no model is, by its first bytes; None if they do not tell."""
    text = all(32 <= c < 127 or c in b"\t\n\r" for c in start)
    return kind_of(start) or ("a GGUF file" if start.startswith(b"GGUF") else "a file of text" if text else None)


def read_proto(model):
    """The ModelProto of a path, bytes, or an onnx.ModelProto, and the folder of its external data.

    Raises ModelError if it is not a model, OSError if the file cannot be read, and TypeError for another kind.
    """
    folder, place, start = None, "ggml.onnx.load", b""
    if isinstance(model, (str, os.PathLike)):
        folder, place = Path(model).resolve().parent, f"ggml.onnx.load: {os.fspath(model)}"
        with open_regular(os.fspath(model), "ggml.onnx.load") as file:
            model = file.read()
    if isinstance(model, (bytes, bytearray, memoryview)):
        proto, start = onnx.ModelProto(), bytes(model[:64])
        try:
            proto.ParseFromString(bytes(model))
        except Exception as error:
            raise ModelError(f"{place}: not an ONNX model: {other_kind(start) or error}") from None
        model = proto
    if not isinstance(model, onnx.ModelProto):
        raise TypeError(f"ggml.onnx.load: model is {type(model).__name__}: need a path, bytes or onnx.ModelProto")
    if not model.HasField("graph"):
        raise ModelError(f"{place}: not an ONNX model: {start and other_kind(start) or 'it has no graph'}")
    return model, folder


def read_model(model):
    """The Graph of a model; raises ModelError if it is not valid, and what read_proto raises."""
    model, folder = read_proto(model)
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    functions = {called(f, f.name): copied(f) for f in model.functions}
    graph = Reader(Scope(opsets, functions), folder).graph(model.graph)
    check_names(graph, set())
    for function in functions.values():
        check_body(function, function.output)
    return graph


def check_body(function, outputs):
    """Raises ModelError if a FunctionProto reads a name, or gives one of some outputs, that nothing in it defines."""
    check_nodes(function.node, outputs, set(function.input), function.name)


def check_nodes(nodes, outputs, known, function):
    """The same of nodes, or those of a subgraph, that may read the names in known."""
    for node in nodes:
        for graph in (a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH):
            sparse = [s.values for s in graph.sparse_initializer]
            own = known.union(v.name for v in (*graph.input, *graph.initializer, *sparse))
            check_nodes(graph.node, [o.name for o in graph.output], own, function)
        for name in node.input:
            if name and name not in known:
                where = f"node {node.name!r} ({node.op_type}) of function {function!r}"
                raise ModelError(f"{where} reads {name!r}, which nothing defines")
        known = known.union(node.output)
    for name in outputs:
        if name not in known:
            raise ModelError(f"output {name!r} of function {function!r} is defined by nothing")


def check_names(graph, outer):
    """Raises ModelError if a node reads a name that nothing defines."""
    known = outer | {i.name for i in graph.inputs} | set(graph.constants)
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in known:
                raise ModelError(f"{node} reads {name!r}, which nothing defines")
        for value in node.attrs.values():
            if isinstance(value, Graph):
                check_names(value, known)
        known |= set(node.outputs)
    for output in graph.outputs:
        if output.name not in known:
            raise ModelError(f"output {output.name!r} is defined by nothing")
