"""The annotations of functions, as the stubs have them, for `inspect.signature` and `typing.get_type_hints`.

An annotation is the text that the stub has. Python looks its names up among the globals of the function's module, where
`annotate` puts them.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Sequence  # noqa: F401 - annotations name them
from typing import Any, SupportsFloat, SupportsIndex

try:
    from ._signatures import signatures
except ModuleNotFoundError:  # the build imports the package once before it has written them
    signatures = {}


class _To:
    """_To[struct]: a pointer to the struct, ctypes.byref of one, or None."""

    def __class_getitem__(cls, struct):
        return ctypes.POINTER(struct) | _Ref | None


class _LazyNumpyTyping:
    """The module numpy.typing, which is imported when a name of it is asked for."""

    def __getattr__(self, name):
        import numpy.typing

        return getattr(numpy.typing, name)


# The names of the stub for what arguments may be. The classes of ctypes take no parameters at run time.
_Int = SupportsIndex | ctypes._SimpleCData
_Float = SupportsFloat | ctypes._SimpleCData
_Bool = bool | SupportsIndex | ctypes.c_bool
_Text = bytes | str | ctypes.c_char_p | ctypes.Array | None
_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Ref = type(ctypes.byref(ctypes.c_int()))
_Address = int | bytes | ctypes.c_void_p | ctypes.c_char_p | ctypes._Pointer | ctypes.Array | _Ref | None
_Pointer = int | ctypes._Pointer | ctypes.Array | ctypes.c_void_p | _Ref | None
npt = _LazyNumpyTyping()
_Buffer = Any

_NAMES = {name: value for name, value in globals().items() if not name.startswith("__")}


def annotate(package):
    """Sets the annotations of all functions.

    Args:
        package: namespace of the package, with all its types.
    """
    for space, (names, functions) in signatures.items():
        module, spaces = vars(sys.modules[space]), {}
        for name in functions.keys() & module.keys():  # the table may be older than the functions during development
            function, types = module[name], functions[name]
            inner = getattr(function, "__wrapped__", function)
            hints = dict(zip(inner.__code__.co_varnames, types[:-1]))
            hints["return"] = types[-1]
            function.__annotations__ = inner.__annotations__ = hints
            spaces[id(inner.__globals__)] = inner.__globals__
        for globals_ in spaces.values():  # one, except for ggml.ext
            for name in names:
                globals_.setdefault(name, _NAMES.get(name) or package[name])
