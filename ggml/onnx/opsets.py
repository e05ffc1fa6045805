"""Older operator sets: what their nodes say in the form that later ones have.

Until version 7, binary operators broadcast only where an attribute says so, from a given axis on. Attributes of other
operators have other names or types, or came to be operands.
"""

from __future__ import annotations

from onnx import AttributeProto, TensorProto, helper

BINARY = set("Add And Div Equal Gemm Greater Less Mul Or Pow Sub Xor".split())
COPIES = {
    "com.microsoft.DequantizeLinear": 21,
    "com.microsoft.GatherND": 12,
    "com.microsoft.Pad": 11,
    "com.microsoft.QuantizeLinear": 21,
    "com.microsoft.Range": 11,
    "com.microsoft.Trilu": 14,
}  # of operators of these versions
ALIGN = "ggml.axis"  # attribute: the axis of the first operand at which the dimensions of the second begin


def modernise(node):
    """Changes a Node of an older operator set, or a copy in another domain, in place, its message included."""
    if node.op in COPIES:
        node.proto.domain, node.version, node.op = "", COPIES[node.op], node.proto.op_type
    elif node.op in BINARY and node.version < 7:
        axis, broadcast = node.attrs.get("axis"), node.attrs.get("broadcast", 0)
        replace(node, 7, axis=None, broadcast=None)
        if broadcast and axis is not None and node.op != "Gemm":
            node.attrs[ALIGN] = axis
    elif node.op == "Cast" and isinstance(node.attrs.get("to"), str):
        name = node.attrs["to"].upper()
        if name in TensorProto.DataType.keys():
            replace(node, 6, to=TensorProto.DataType.Value(name))
    elif node.op == "Dropout" and node.version < 7:
        replace(node, 7, is_test=None, ratio=None)
    elif node.op == "Pad" and "paddings" in node.attrs:
        replace(node, 2, pads=node.attrs["paddings"], paddings=None)
    elif node.op == "Upsample" and node.version < 7:
        scales = [1.0, 1.0, node.attrs.get("height_scale", 1.0), node.attrs.get("width_scale", 1.0)]
        replace(node, 7, scales=scales, height_scale=None, width_scale=None)
    elif node.op in ("LpPool", "GlobalLpPool") and isinstance(node.attrs.get("p"), float):
        replace(node, 2, p=int(node.attrs["p"]))
    if "consumed_inputs" in node.attrs:  # a hint of version 1
        replace(node, node.version, consumed_inputs=None)


def replace(node, version, **attrs):
    """Sets attributes of a node and of its message, and the version of its operator; None removes one."""
    node.version = max(node.version, version)
    kept = [a for a in node.proto.attribute if a.name not in attrs]
    new = [helper.make_attribute(k, v) for k, v in attrs.items() if v is not None]
    copies = [AttributeProto.FromString(a.SerializeToString()) for a in kept]  # a message owns its parts
    del node.proto.attribute[:]
    node.proto.attribute.extend(copies + new)
    for name, value in attrs.items():
        node.attrs.pop(name, None)
        if value is not None:
            node.attrs[name] = value


def aligned(node, x, y):
    """The shape of the second operand of a binary operator, followed by dimensions of 1 as its axis demands.

    Args:
        node: the Node.
        x: shape of the first operand.
        y: shape of the second one.
    """
    if ALIGN not in node.attrs:
        return y
    after = len(x) - node.attrs[ALIGN] % max(len(x), 1) - len(y)
    if after < 0:
        raise ValueError(
            f"axis is {node.attrs[ALIGN]}: the {len(y)} dimensions of the second operand exceed the "
            f"{len(x)} of the first"
        )
    return (*y, *(1,) * after)
