"""The parameters of a node by name, from the tensor's words `op_params`."""

from __future__ import annotations

import ctypes
from typing import Any

from ._param_fields import FIELDS, OPERATIONS

_C_TYPES: dict[str, Any] = {"i": ctypes.c_int32, "f": ctypes.c_float, "q": ctypes.c_int64, "P": ctypes.c_void_p}


def _struct(name: str) -> type[ctypes.Structure]:
    fields = [(field, _C_TYPES[code] * n if n else _C_TYPES[code]) for field, code, n in FIELDS[name]]
    return type(name, (ctypes.Structure,), {"_pack_": 4, "_layout_": "ms", "_fields_": fields})


_STRUCTS = {name: _struct(name) for name in FIELDS}


def params_of(tensor: Any) -> Any:
    """The parameters of a node as a ctypes struct that shares the node's memory; None if its operation has none.

    Args:
        tensor: a `ggml_tensor` struct, `t.contents` of a tensor pointer t.
    """
    name = OPERATIONS.get(tensor.op)
    return None if name is None else _STRUCTS[name].from_buffer(tensor.op_params)


def function_of(tensor: Any) -> int:
    """The function of a node of UNARY or GLU; 0 of others."""
    return params_of(tensor).function if OPERATIONS.get(tensor.op) in ("unary", "glu") else 0
