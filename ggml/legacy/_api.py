"""`api` makes a public function: it reads the arguments by their annotations, and errors begin with its name."""

import ctypes
import functools
import inspect
import re
from ctypes import c_void_p
from typing import Any

from . import _memory
from ._arena import Context, Tensor, address_of, contexts, tensor_at
from ._structs import MAX_NODES, ggml_cgraph


def plain(value):
    """The value of a ctypes scalar; other objects unchanged."""
    return getattr(value, "value", value) if isinstance(value, ctypes._SimpleCData) else value


def struct_address(value):
    """The address of a struct given as itself, by byref() or by a pointer; None for other objects."""
    if isinstance(value, ctypes.Structure):
        return ctypes.addressof(value)
    if isinstance(getattr(value, "_obj", None), ctypes.Structure):
        return ctypes.addressof(value._obj)
    if isinstance(value, (ctypes._Pointer, c_void_p)):
        return address_of(value)
    return None


def arg_context(value, name):
    handle = plain(value)
    if not isinstance(handle, int):
        raise TypeError(f"{name} is {value!r:.60}: need a context")
    if handle not in contexts:
        raise RuntimeError(f"{name} ({handle}) is not a live context: freed, or never made")
    return contexts[handle]


def arg_tensor(value, name):
    address = struct_address(value)
    if not address:
        raise TypeError(f"{name} is {value!r:.60}: need a tensor")
    return tensor_at(address, name).refresh()


def arg_graph(value, name):
    address = struct_address(value)
    kind = getattr(value, "_type_", type(getattr(value, "_obj", value)))
    if not address or kind is not ggml_cgraph:
        raise TypeError(f"{name} is {value!r:.60}: need a ggml_cgraph or a pointer to one")
    _memory.address(address, name, ctypes.sizeof(ggml_cgraph))
    graph = ggml_cgraph.from_address(address)
    if not (0 <= graph.n_nodes <= MAX_NODES and 0 <= graph.n_leafs <= MAX_NODES):
        raise ValueError(f"{name}.n_nodes is {graph.n_nodes}, n_leafs is {graph.n_leafs}: need 0 to {MAX_NODES}")
    return graph


def arg_int(value, name):
    value = plain(value)
    try:
        number = value.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"{name} is {value!r:.60}: need an integer") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{name} is {number!r:.60}: need a 64-bit integer")
    return number


def arg_float(value, name):
    try:
        return float(plain(value))
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {value!r:.60}: need a number") from None


def arg_bool(value, name):
    return bool(plain(value))


def arg_bytes(value, name):
    value = plain(value)
    if not isinstance(value, (bytes, str)):
        raise TypeError(f"{name} is {value!r:.60}: need bytes or str")
    try:
        return value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError:
        raise ValueError(f"{name} is {value!r:.60}: it cannot be encoded as UTF-8") from None


READERS: dict[Any, Any] = {
    Context: arg_context, Tensor: arg_tensor, ggml_cgraph: arg_graph,
    int: arg_int, float: arg_float, bool: arg_bool, bytes: arg_bytes,
}  # fmt: skip
ERRORS = (TypeError, ValueError, IndexError, OverflowError, RuntimeError, MemoryError, OSError)
functions: dict[str, Any] = {}  # the public functions by name
ENGINE_NAME = re.compile(r"(ggml|gguf)\w*: ")  # with which an engine function's message begins


def api(function):
    """Makes a public function. Arguments without an annotation are passed as they are; a Tensor returns as a pointer.

    Errors begin with the function's name in place of that of the engine function that raised them.
    """
    signature = inspect.signature(function)
    readers = [(READERS.get(p.annotation), p.name) for p in signature.parameters.values()]
    name = function.__name__

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            if kwargs or len(args) != len(readers):
                args = signature.bind(*args, **kwargs).args
            result = function(*[read(x, n) if read else x for x, (read, n) in zip(args, readers)])
        except ERRORS as error:
            text = error.args[0] if len(error.args) == 1 else None
            if isinstance(error, MemoryError) and text is None:  # NumPy's, which has other arguments
                raise MemoryError(f"{name}: {error}") from error
            if isinstance(text, str) and not text.startswith(name + ":"):
                error.args = (f"{name}: {ENGINE_NAME.sub('', text, count=1)}",)
            raise
        return result.pointer() if isinstance(result, Tensor) else result

    if name.startswith("ggml_"):
        functions[name] = call
    return call
