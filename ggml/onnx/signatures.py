"""What types the operands of ONNX's own operators may have."""

from __future__ import annotations

import functools

import numpy as np
import onnx
from onnx import TensorProto, helper


@functools.cache
def type_names():
    """NumPy's types by the names that the specification gives to tensors of them."""
    found = {}
    for name, number in TensorProto.DataType.items():
        if name not in ("UNDEFINED", "STRING"):
            found[f"tensor({name.lower().replace('_', '')})"] = np.dtype(helper.tensor_dtype_to_np_dtype(number))
    return found


@functools.lru_cache(4096)
def signature(op, version, domain):
    """For each input of an operator the name of its type, None if it may differ, and the types it may have."""
    try:
        schema = onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:  # newer than the operator set of the model
        return ()
    known = type_names()
    return tuple(
        (i.type_str if i.is_homogeneous else None, frozenset(known[t] for t in i.types if t in known))
        for i in schema.inputs
    )


def require_types(node, values):
    """Raises ValueError for an operand of a type that its operator does not take, or for two that should have one.

    Operators of other domains, and nodes that stand for others, take what their rules do.
    """
    proto = node.proto
    if proto is None or node.parts or proto.op_type != node.op or proto.domain not in ("", "ai.onnx"):
        return
    seen: dict = {}
    expected = signature(node.op, node.version, "")
    for name, value, (kind, allowed) in zip(node.inputs, values, (*expected, *expected[-1:] * len(values))):
        dtype = getattr(value, "dtype", None)
        if dtype is None or not allowed:
            continue
        if dtype not in allowed:
            raise ValueError(f"{name!r} is {dtype}, which the operator does not take")
        first, other = seen.setdefault(kind, (dtype, name))
        if kind and first != dtype:
            raise ValueError(f"{other!r} is {first}, and {name!r} is {dtype}: both must have one type")
