"""Writes the type stubs from the built module, with docstrings. `--check` fails if they are out of date.

Names, parameters and defaults are those of the imported module. The types of parameters are those of
tests/data/api_current.json; for functions that the manifest lacks they are listed here.
"""

import argparse
import ctypes
import inspect
import json
import keyword
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "tests" / "data" / "api_current.json"

INTEGERS = (
    "int int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 size_t byte ubyte short ushort long ulong "
    "longlong ulonglong"
).split()
CONVERSIONS = {  # ctypes name: (type of an argument, type of a result)
    **{f"c_{name}": ("_Int", "int") for name in INTEGERS},
    "c_float": ("_Float", "float"),
    "c_double": ("_Float", "float"),
    "c_bool": ("_Bool", "bool"),
    "c_char_p": ("_Text", "bytes"),
    "c_void_p": ("_Address", "int | None"),
    "ggml_fp16_t": ("_Int", "int"),
    "ggml_opt_get_optimizer_params": ("_Address", "int | None"),
    "ggml_backend_meta_get_split_state_t": ("_Address", "int | None"),
    "None": ("None", "None"),
}

# Names of the module by kind, from sort_names
STRUCTS: set[str] = set()
POINTERS: set[str] = set()
CALLBACKS: set[str] = set()
HANDLES: set[str] = set()

# Functions that the bindings define in Python or do not have, so that the manifest has no types for them
UNTYPED = {
    "ggml_graph_plan": ("[POINTER(ggml_cgraph), c_int, ggml_threadpool_t_ctypes]", "ggml_cplan"),
    "ggml_graph_dup": ("[ggml_context_p_ctypes, POINTER(ggml_cgraph), c_bool]", "POINTER(ggml_cgraph)"),
    "ggml_map_custom1_inplace_f32": (
        "[ggml_context_p_ctypes, POINTER(ggml_tensor), ggml_custom1_op_f32_t]",
        "POINTER(ggml_tensor)",
    ),
    "ggml_internal_get_type_traits": ("[c_int]", "ggml_type_traits"),
    "ggml_backend_cpu_hbm_buffer_type": ("[]", "ggml_backend_buffer_type_t_ctypes"),
    "ggml_build_forward_order": ("[POINTER(ggml_cgraph), POINTER(ggml_tensor)]", "None"),
    "ggml_rope_set_offset": ("[POINTER(ggml_tensor), c_int]", "POINTER(ggml_tensor)"),
    **{f"ggml_is_contiguous_to_{n}": ("[POINTER(ggml_tensor)]", "c_bool") for n in (1, 2, 3)},
    "ggml_cpu_has_sme2": ("[]", "c_int"),
    "gguf_get_tensor_ne": ("[gguf_context_p_ctypes, c_int64]", "c_int64 * 4"),
    "ggml_set_param": (None, "None"),
    "ggml_build_backward_expand": (None, "None"),
}

# Functions of ggml._io.interop, which ggml.utils offers: the types of their parameters and results
HELPERS = {
    "from_numpy": "(x: npt.ArrayLike | Buffer, ctx: _Address) -> ggml_tensor_p",
    "from_dlpack": "(ctx: _Address, x: Any) -> ggml_tensor_p",
    "to_numpy": "(tensor: _To[ggml_tensor], shape: Sequence[int] | None = ...) -> npt.NDArray[Any]",
    "get_ndims": "(tensor: _To[ggml_tensor]) -> int",
    "get_shape": "(tensor: _To[ggml_tensor]) -> tuple[int, ...]",
    "get_strides": "(tensor: _To[ggml_tensor]) -> tuple[int, ...]",
    "quantize_row": "(data_f32: Any, nelements: _Int, ttype: _Int, work: Any = ...) -> Any",
    "dequantize_row": "(data_q: Any, nelements: _Int, ttype: _Int, work: Any = ...) -> Any",
}
HELPERS_HEADER = """# Written by scripts/make_stubs.py from the built module: run it again instead of editing this file.
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from .. import _Address, _Int, _To, ggml_tensor, ggml_tensor_p

Buffer = Any  # an object with the buffer protocol

"""

HEADER = '''# Written by scripts/make_stubs.py from the built module: run it again instead of editing this file.
import ctypes
from collections.abc import Callable
from typing import Any, Final, Generic, NewType, SupportsFloat, SupportsIndex, TypeVar, overload

from . import ggml as ggml
from .profiler import profile as profile

__version__: str
_core: Any
_Int = SupportsIndex | ctypes._SimpleCData[int]
_Float = SupportsFloat | ctypes._SimpleCData[float]
_Bool = bool | SupportsIndex | ctypes.c_bool
_Text = bytes | str | ctypes.c_char_p | ctypes.Array[ctypes.c_char] | None
_Ref = ctypes._CArgObject
_Address = int | bytes | ctypes.c_void_p | ctypes.c_char_p | ctypes._Pointer[Any] | ctypes.Array[Any] | _Ref | None
_Pointer = int | ctypes._Pointer[Any] | ctypes.Array[Any] | ctypes.c_void_p | _Ref | None

_Get = TypeVar("_Get")
_Set = TypeVar("_Set")
_Struct = TypeVar("_Struct", bound=ctypes.Structure)

class _FieldInfo:
    offset: int
    size: int

class _Field(Generic[_Get, _Set]):
    @overload
    def __get__(self, instance: None, owner: Any) -> _FieldInfo: ...
    @overload
    def __get__(self, instance: object, owner: Any) -> _Get: ...
    def __set__(self, instance: object, value: _Set) -> None: ...

_To = ctypes._Pointer[_Struct] | _Ref | None

class _StructPointer(ctypes._Pointer[_Struct]):
    def __hash__(self) -> int: ...

class _Callback:
    prototype: Any
    def __init__(self, function: Callable[..., Any] | int = ...) -> None: ...
    def __call__(self, *args: Any) -> Any: ...
'''


def converted(text, is_result=False):
    """The stub's type for a ctypes expression such as `ctypes.POINTER(ggml_tensor)`."""
    text = text.strip().replace("ctypes.", "")
    if text in CONVERSIONS:
        return CONVERSIONS[text][is_result]
    if text.startswith("POINTER("):
        struct = text[len("POINTER(") : -1]
        if struct not in STRUCTS:
            return "Any" if is_result else "_Pointer"
        if not is_result:
            return f"_To[{struct}]"
        return f"{struct}_p" if f"{struct}_p" in POINTERS else f"ctypes._Pointer[{struct}]"
    if text == "c_int64 * 4":
        return "ctypes.Array[ctypes.c_int64]"
    if text == "ggml_guid_t_ctypes":
        return "Any" if is_result else "_Pointer"
    if text.removesuffix("_ctypes") in HANDLES:
        return f"{text.removesuffix('_ctypes')} | None" if is_result else "_Address"
    if text in CALLBACKS:
        return text if is_result else f"{text} | Callable[..., Any] | int | None"
    return text if text in STRUCTS else "Any"


def documented(head, docstring):
    """A definition with its docstring as its body; without one, with an empty body."""
    if not docstring:
        return f"{head} ..."
    text = inspect.cleandoc(docstring)
    quotes = 'r"""' if "\\" in text else '"""'
    body = textwrap.indent(quotes + text + ('\n"""' if "\n" in text else '"""'), "    ")
    return f"{head}\n{body}"


def function_stub(name, function, facts):
    """The stub of a function. A parameter has the type that the manifest gives for its name."""
    facts = facts or {"params": list(inspect.signature(function).parameters)}
    argtypes, result = UNTYPED.get(name) or (facts.get("argtypes"), facts.get("restype"))
    types = dict(zip(facts["params"], argtypes.strip("[]").split(", "))) if argtypes else {}
    words, has_star = [], False
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not has_star:
            words.append("*")
        has_star |= p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        known = converted(types[p.name]) if p.name in types else "_Int" if type(p.default) is int else "Any"
        words.append(f"{star}{p.name}: {known}" + ("" if p.default is p.empty else " = ..."))
    result = "Any" if result is None else converted(result, is_result=True)
    return documented(f"def {name}({', '.join(words)}) -> {result}:", function.__doc__)


def field_type(type_):
    """The stub's type for the ctypes type of a struct field."""
    if issubclass(type_, ctypes.Array):
        if type_._type_ is ctypes.c_char:
            return "_Field[bytes, bytes]"
        element = type_._type_.__name__
        return f"_Field[ctypes.Array[{element if element in POINTERS else 'Any'}], Any]"
    if type_.__name__ in POINTERS:
        return f"_Field[{type_.__name__}, {type_.__name__} | None]"
    if type_.__name__ in STRUCTS:
        return f"_Field[{type_.__name__}, {type_.__name__}]"
    given, got = CONVERSIONS.get(type_.__name__, ("Any", "Any"))
    return f"_Field[{got}{' | None' if got == 'bytes' else ''}, {given}]"


def class_stub(name, class_):
    """The stub of a struct with its fields, of a pointer type or of a callback type."""
    body: list[str] = []
    if name in POINTERS:
        base = f"_StructPointer[{class_._type_.__name__}]"
    elif name in CALLBACKS:
        base = "_Callback"
    else:
        fields = [(f, t) for f, t in class_._fields_ if not keyword.iskeyword(f)]
        body, base = [f"    {field}: {field_type(type_)}" for field, type_ in fields], "ctypes.Structure"
    return "\n".join([documented(f"class {name}({base}):", class_.__doc__), *body])


def alias_stub(name, class_):
    """The stub of another name of a struct, or of a name of a ctypes type."""
    if class_.__name__ in STRUCTS:
        return f"{name} = {class_.__name__}"
    if class_.__module__ == "ctypes" and hasattr(ctypes, class_.__name__):
        return f"{name} = ctypes.{class_.__name__}"
    return f"{name}: Any"


def stub(module):
    """The text of the package's stub."""
    facts = {f["name"]: f for f in json.loads(MANIFEST.read_text())["functions"]}
    constants, handles, classes, functions, others = [], [], [], [], []
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value) or value is module.profile:
            continue
        if isinstance(value, (bool, int, float, str, bytes)):
            constants.append(f"{name}: Final = {value!r}")
        elif value is getattr(ctypes, name, None):
            others.append(f"{name} = ctypes.{name}")
        elif hasattr(value, "__supertype__"):
            handles.append(f'{name} = NewType("{name}", int)')
        elif name in STRUCTS | POINTERS | CALLBACKS:
            classes.append(class_stub(name, value))
        elif isinstance(value, type):
            others.append(alias_stub(name, value))
        elif callable(value):
            functions.append(function_stub(name, value, facts.get(name)))
        else:
            others.append(f"{name}: Any")
    parts = [sorted(constants), sorted(handles), sorted(classes), sorted(others), sorted(functions)]
    return HEADER + "".join("\n" + "\n".join(part) + "\n" for part in parts if part)


def helpers_stub():
    """The text of the stub of ggml._io.interop."""
    from ggml._io import interop

    parts = [HELPERS_HEADER]
    for name, types in HELPERS.items():
        function = getattr(interop, name)
        names = re.findall(r"(\w+): ", types)
        if names != list(inspect.signature(function).parameters):
            sys.exit(f"make_stubs.py: HELPERS has other parameters than {name}{inspect.signature(function)}")
        parts.append(documented(f"def {name}{types}:", function.__doc__) + "\n")
    return "".join(parts)


def sort_names(module):
    """Fills STRUCTS, POINTERS, CALLBACKS and HANDLES."""
    global STRUCTS, POINTERS, CALLBACKS, HANDLES
    items = [(n, v) for n, v in vars(module).items() if not n.startswith("_")]
    types = [(n, v) for n, v in items if isinstance(v, type) and v.__name__ == n]
    STRUCTS = {n for n, v in types if issubclass(v, ctypes.Structure)}
    POINTERS = {n for n, v in types if issubclass(v, ctypes._Pointer) and n.endswith("_p")}
    CALLBACKS = {n for n, v in types if hasattr(v, "prototype")}
    HANDLES = {n for n, v in items if hasattr(v, "__supertype__")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare the files")
    parser.add_argument("--into", type=Path, default=ROOT / "ggml", help="folder of the stubs")
    options = parser.parse_args()
    import ggml

    sort_names(ggml)
    wanted = {
        "__init__.pyi": stub(ggml),
        "ggml.pyi": "# Written by scripts/make_stubs.py.\nfrom . import *\n",
        "_io/interop.pyi": helpers_stub(),
    }
    stale = []
    for name, text in wanted.items():
        path = options.into / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not options.check:
                path.write_text(text)
    if options.check and stale:
        sys.exit(f"stubs out of date: {', '.join(stale)}: run scripts/make_stubs.py")


if __name__ == "__main__":
    main()
