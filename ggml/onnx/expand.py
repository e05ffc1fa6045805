"""Expansion: nodes that are replaced by the nodes of a function body."""

from __future__ import annotations

import onnx
from onnx import FunctionProto, TypeProto, helper

from .graph import Graph, Node, Reader, Scope, ValueInfo, check_body, copied
from .prepare import prepared_graph
from .values import Known, OnHost, Sequence

DEPTH = 32  # functions that call functions


def function(lowering, node, values):
    """The nodes of the body of the function that a node without a rule calls; raises OnHost if it is none."""
    body = node.function()
    return inline(lowering, node, standard_body(node, values) if body is None else body)


def standard_body(node, values):
    """The FunctionProto that ONNX defines an operator by."""
    try:
        schema = onnx.defs.get_schema(node.proto.op_type, node.version, node.proto.domain)
    except onnx.defs.SchemaError:
        raise OnHost("there is no rule for the operator") from None
    text = None
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= node.version]
        text = schema.get_function_with_opset_version(versions[-1]) if versions else schema.function_body
    elif schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.version]
        types = [type_of(v).SerializeToString() for v in values]
        text = schema.get_context_dependent_function_with_opset_version(
            versions[-1] if versions else node.version, node.proto.SerializeToString(), types
        )
    if not text:
        raise OnHost("there is no rule for the operator")
    body = text if isinstance(text, FunctionProto) else FunctionProto.FromString(text)
    outputs = [name for name, given in zip(body.output, node.outputs) if given]
    check_body(body, outputs)  # onnx makes incomplete ones for attributes that it does not know
    return body


def type_of(value):
    """The TypeProto of a value, with its shape."""
    if isinstance(value, Sequence) and value.items:
        element = type_of(value.items[0])
        element.tensor_type.ClearField("shape")  # which others may not have
        return helper.make_sequence_type_proto(element)
    if value is None or isinstance(value, Sequence):
        return TypeProto()
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def inline(lowering, node, body):
    """The nodes of a FunctionProto with the names and attributes of the node that calls it."""
    opsets = dict(node.scope.opsets)
    opsets.update({"" if o.domain == "ai.onnx" else o.domain: o.version for o in body.opset_import})
    reader = Reader(Scope(opsets, node.scope.functions), None)
    given = {a.name: a for a in node.proto.attribute}
    defaults = {a.name: a for a in body.attribute_proto}
    if onnx.defs.has(node.proto.op_type, node.proto.domain):
        schema = onnx.defs.get_schema(node.proto.op_type, node.version, node.proto.domain)
        defaults.update((n, a.default_value) for n, a in schema.attributes.items() if a.default_value.type)
    given = {**defaults, **given}
    nodes = [reader.node(resolved(p, given), i) for i, p in enumerate(body.node)]
    inputs, outputs = ([ValueInfo(name, None, None) for name in names] for names in (body.input, body.output))
    known = {inner: lowering.env.get(n) for inner, n in zip(body.input, node.inputs)}
    known = {n: v for n, v in known.items() if isinstance(v, Known)}
    computed = [i for i in inputs if i.name not in known]
    graph = prepared_graph(Graph(nodes, computed, outputs, {}), known, lowering.model, lowering.builder.trains)
    graph.inputs = inputs
    depth = node.attr("ggml.depth", 0) + 1
    if depth > DEPTH:
        raise ValueError(f"functions are nested more than {DEPTH} deep")
    nodes = subgraph(lowering, node, graph, [*node.inputs, *[""] * len(inputs)], node.outputs)
    for n in nodes:
        n.attrs["ggml.depth"] = depth
    return nodes


def resolved(proto, given):
    """A node of a body with the attributes that refer to those of the calling node filled in."""
    copy = copied(proto)
    del copy.attribute[:]
    for a in proto.attribute:
        source = given.get(a.ref_attr_name) if a.ref_attr_name else a
        if source is None:
            continue
        new = copy.attribute.add()
        new.CopyFrom(source)
        new.name = a.name
        for k, inner in enumerate(a.g.node):
            new.g.node[k].CopyFrom(resolved(inner, given))
    return copy


def private(node, op, inputs, outputs, **attrs):
    """A node of an operator that no model contains, or of Identity, in place of another node."""
    return Node(op, inputs, outputs, attrs, node.scope.opsets.get("", 1), f"{node.name}/{op}", node.proto, node.scope)


def subgraph(lowering, node, graph: Graph, inputs, outputs):
    """The nodes of a subgraph, with names for its inputs and outputs, in place of a node of control flow."""
    prefix = lowering.unique(node)
    nodes, constants, copies = graph.inlined(prefix, inputs, outputs)
    for name, value in constants.items():
        lowering.env[name] = value if isinstance(value, Known) else Known(value, lowering.model.arena)
    for n in nodes:
        n.name = f"{node.name}/{n.name}"
    return nodes + [private(node, "Identity", [a], [b]) for a, b in copies]
