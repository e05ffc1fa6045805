"""Writes the type stubs from the built module, with docstrings, and ggml/_signatures.py, which holds the annotations of
functions at run time. The build runs it (setup.py); git does not hold what it writes. `--check` fails if they are out
of date.

Names, parameters and defaults are those of the imported module. The types of parameters are those of
tests/data/api_current.json; for functions that the manifest lacks they are listed here.
"""

import argparse
import ast
import builtins
import ctypes
import inspect
import json
import keyword
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

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
    "ggml_backend_graph_copy_t": ("ggml_backend_graph_copy", "ggml_backend_graph_copy"),
    "None": ("None", "None"),
}

# Names of the module by kind, from sort_names
STRUCTS: set[str] = set()
POINTERS: set[str] = set()
CALLBACKS: set[str] = set()
HANDLES: set[str] = set()

# Functions that the bindings define in Python or do not have, so that the manifest has no types for them: types in
# ctypes, as in the manifest
_BACK = "[ggml_context_p_ctypes, POINTER(ggml_tensor), POINTER(ggml_tensor)]"
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
    **{f"ggml_{name}_back": (_BACK, "POINTER(ggml_tensor)") for name in ("elu", "gelu", "gelu_erf", "gelu_quick")},
    "ggml_clamp_back": (_BACK[:-1] + ", c_float, c_float]", "POINTER(ggml_tensor)"),
    "ggml_clamp_inplace": (
        "[ggml_context_p_ctypes, POINTER(ggml_tensor), c_float, c_float]",
        "POINTER(ggml_tensor)",
    ),
    "ggml_set_param": (None, "None"),
    "ggml_build_backward_expand": (None, "None"),
}

# Functions whose types ctypes has no names for
SPECIAL = {
    "ggml_backend_graph_copy_free": "(copy: ggml_backend_graph_copy | _To[ggml_backend_graph_copy]) -> None",
    "ggml_tallocr_alloc": "(talloc: ggml_tallocr | _To[ggml_tallocr], tensor: _To[ggml_tensor]) -> int",
}

# Functions of ggml.ext
_CONV = "ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], "
_TAIL = "bias: _To[ggml_tensor], function: _Int | None"
EXT = {
    **dict.fromkeys(
        ("equal", "fmod", "less", "maximum", "minimum", "mul_mat_whole", "pow", "prelu"),
        "(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p",
    ),
    "argmax": "(ctx: _Address, a: _To[ggml_tensor], last: _Bool) -> ggml_tensor_p",
    "argsort": "(ctx: _Address, a: _To[ggml_tensor], order: _Int, k: _Int | None) -> ggml_tensor_p",
    "channel_norm": "(ctx: _Address, a: _To[ggml_tensor], factor: _To[ggml_tensor], bias: _To[ggml_tensor], "
    "eps: _Float) -> ggml_tensor_p",
    "compare": "(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], relation: str) -> ggml_tensor_p",
    "compiled": "(ctx: _Address, type_: _Int, ne0: _Int, ne1: _Int, ne2: _Int, ne3: _Int, "
    "args: Sequence[_To[ggml_tensor]] | None, n_args: _Int, fun: Callable[..., Any] | int, n_tasks: _Int, "
    "userdata: Any) -> ggml_tensor_p",
    "conv_2d": f"({_CONV}s0: _Int, s1: _Int, p0: _Int, p1: _Int, d0: _Int, d1: _Int, {_TAIL}, offset: _Int, "
    "winograd: _Int, groups: _Int) -> ggml_tensor_p",
    "conv_2d_dw": f"({_CONV}stride0: _Int, stride1: _Int, pad0: _Int, pad1: _Int, dilation0: _Int, dilation1: _Int, "
    f"{_TAIL}) -> ggml_tensor_p",
    "conv_algorithm": "(tensor: _To[ggml_tensor]) -> str | None",
    "custom_set_backward": "(tensor: _To[ggml_tensor], backward: Callable[..., Any]) -> ggml_tensor_p",
    "erf": "(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p",
    "gguf_get_tensor_shape": "(ctx: _Address, tensor_id: _Int) -> tuple[int, ...]",
    "gguf_init_from_file_mmap": "(fname: _Path, params: gguf_init_params) -> gguf_context_p",
    "gguf_use_large_pages": "(ctx: _Address, start: _Int, size: _Int) -> int",
    "log_soft_max": "(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p",
    "max_pool_2d": "(ctx: _Address, a: _To[ggml_tensor], k0: _Int, k1: _Int, s0: _Int, s1: _Int, p0: _Float, "
    "p1: _Float) -> ggml_tensor_p",
    "min_max": "(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p",
    "mul_mat_i8": "(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], offset: _Int) -> ggml_tensor_p",
    "opt_init": "(params: ggml_opt_params, comm: Any) -> ggml_opt_context_t",
    "opt_load": "(opt_ctx: _Address, fname: _Path, dataset: _Address) -> None",
    "opt_save": "(opt_ctx: _Address, fname: _Path, dataset: _Address) -> None",
    "pad": "(ctx: _Address, a: _To[ggml_tensor], sides: Sequence[_Int], mode: str | float) -> ggml_tensor_p",
    "paged_attention": "(ctx: _Address, q: _To[ggml_tensor], k: _To[ggml_tensor], v: _To[ggml_tensor], "
    "table: _To[ggml_tensor], factor: _Float, page_size: _Int, window: _Int, logit_softcap: _Float, "
    "sinks: _To[ggml_tensor], exact: _Bool, chunked: _Bool) -> ggml_tensor_p",
    "quantize_linear": "(ctx: _Address, a: _To[ggml_tensor], scale: _To[ggml_tensor], zero: _To[ggml_tensor], "
    "min: _Float, max: _Float, centred: _Bool) -> ggml_tensor_p",
    "select": "(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor]) -> ggml_tensor_p",
}
EXT_HEADER = """# Written by scripts/make_stubs.py from the built module: run it again instead of editing this file.
from collections.abc import Callable, Sequence
from typing import Any

from . import (
    _Address, _Bool, _Float, _Int, _Path, _To, ggml_opt_context_t, ggml_opt_params, ggml_tensor, ggml_tensor_p,
    gguf_context_p, gguf_init_params,
)

__all__: list[str]
_MOVED: dict[str, str]

"""

# Functions of ggml._io.interop: those that ggml.utils offers, and one for ggml.view
HELPERS = {
    "from_numpy": "(x: npt.ArrayLike | _Buffer, ctx: _Address) -> ggml_tensor_p",
    "from_dlpack": "(ctx: _Address, x: Any) -> ggml_tensor_p",
    "to_numpy": "(tensor: _To[ggml_tensor], shape: Sequence[int] | None) -> npt.NDArray[Any]",
    "get_ndims": "(tensor: _To[ggml_tensor]) -> int",
    "get_shape": "(tensor: _To[ggml_tensor]) -> tuple[int, ...]",
    "get_strides": "(tensor: _To[ggml_tensor]) -> tuple[int, ...]",
    "quantize_row": "(data_f32: Any, nelements: _Int, ttype: _Int, work: Any) -> Any",
    "dequantize_row": "(data_q: Any, nelements: _Int, ttype: _Int, work: Any) -> Any",
    "reverse_bytes": "(data: Any, nelements: _Int, ttype: _Int) -> None",
}
LISTED = SPECIAL | EXT | HELPERS
HELPERS_HEADER = """# Written by scripts/make_stubs.py from the built module: run it again instead of editing this file.
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from .. import _Address, _Int, _To, ggml_tensor, ggml_tensor_p

_Buffer = Any  # an object with the buffer protocol

"""

SIGNATURES_HEADER = '''"""The annotations of functions, by the name of the module whose globals they use.

Each module has the names that its annotations use, and for each function the types of its parameters and of its
result. Written by scripts/make_stubs.py: run it again instead of editing this file.
"""

signatures: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {
'''

HEADER = """# Written by scripts/make_stubs.py from the built module: run it again instead of editing this file.
import ctypes
import os
from collections.abc import Callable
from typing import Any, Final, Generic, NewType, SupportsFloat, SupportsIndex, TypeVar, overload

from . import ext as ext
from . import ggml as ggml
from .profiler import profile as profile

__version__: str
_core: Any
_Int = SupportsIndex | ctypes._SimpleCData[int]
_Float = SupportsFloat | ctypes._SimpleCData[float]
_Bool = bool | SupportsIndex | ctypes.c_bool
_Text = bytes | str | ctypes.c_char_p | ctypes.Array[ctypes.c_char] | None
_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
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
"""


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


def listed_types(text):
    """The types in a text such as "(tensor: _To[ggml_tensor]) -> int", as those of parameter_types."""
    function: Any = ast.parse(f"def f{text}: ...").body[0]
    hints = {p.arg: p.annotation for p in function.args.args} | {"return": function.returns}
    return {name: ast.unparse(hint) for name, hint in hints.items()}


def parameter_types(name, function, facts):
    """The types of a function's parameters by name, and that of its result under "return"."""
    if is_annotated(function):
        return function.__annotations__
    if name in LISTED:
        return listed_types(LISTED[name])
    params = inspect.signature(function).parameters.values()
    facts = facts.get(name) or {"params": [p.name for p in params]}
    argtypes, result = UNTYPED.get(name) or (facts.get("argtypes"), facts.get("restype"))
    types = dict(zip(facts["params"], argtypes.strip("[]").split(", "))) if argtypes else {}
    found = {
        p.name: converted(types[p.name]) if p.name in types else "_Int" if type(p.default) is int else "Any"
        for p in params
    }
    return {**found, "return": "Any" if result is None else converted(result, is_result=True)}


def is_annotated(function):
    """Whether a function has its annotations in its source, or none, instead of those that this script writes."""
    return function.__module__ in ("ggml._absent", "ggml.profiler", "_ctypes")


def function_stub(name, function, types):
    """The stub of a function, whose parameters have these types."""
    words, has_star = [], False
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not has_star:
            words.append("*")
        has_star |= p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        words.append(f"{star}{p.name}: {types[p.name]}" + ("" if p.default is p.empty else " = ..."))
    return documented(f"def {name}({', '.join(words)}) -> {types['return']}:", function.__doc__)


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
    facts = manifest()
    constants, handles, classes, functions, others = [], [], [], [], []
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value) or value is module.profile or name in module.ext._MOVED:
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
            functions.append(function_stub(name, value, parameter_types(name, value, facts)))
        else:
            others.append(f"{name}: Any")
    parts = [sorted(constants), sorted(handles), sorted(classes), sorted(others), sorted(functions)]
    return HEADER + "".join("\n" + "\n".join(part) + "\n" for part in parts if part)


def manifest():
    """The facts of the manifest about each function."""
    return {f["name"]: f for f in json.loads(MANIFEST.read_text())["functions"]}


def helpers():
    """The functions of HELPERS by name."""
    from ggml._io import interop

    return {name: getattr(interop, name) for name in HELPERS}


def additions():
    """The functions of ggml.ext by name."""
    from ggml import ext

    return {name: getattr(ext, name) for name in sorted(ext.__all__)}


def functions_stub(header, functions):
    """The text of the stub of a module that has only these functions."""
    stubs = [function_stub(name, f, parameter_types(name, f, {})) + "\n" for name, f in functions.items()]
    return header + "".join(stubs)


def entry(head, words, indent):
    """A line `head(words),` of a Python file as lines of at most 120 columns, which end between the words."""
    quoted = [f'"{word}",'.replace(" ", "\0") for word in words]
    text = " ".join(quoted) if len(quoted) == 1 else " ".join(quoted)[:-1]
    for first, rest in [(f"{indent}{head}(", ""), (f"{indent}{head}(\n", indent + "    ")]:
        lines = textwrap.wrap(text, 118 - len(rest or first), break_long_words=False, break_on_hyphens=False)
        margin = rest or " " * len(first)
        found = first + rest + ("\n" + margin).join(lines) + "),\n"
        if max(map(len, found.splitlines())) <= 120:
            break
    return found.replace("\0", " ")


def signatures(module):
    """The text of ggml/_signatures.py."""
    facts = manifest()
    spaces: dict[str, dict[str, list[str]]] = {}
    for name, value in [*vars(module).items(), *helpers().items(), *additions().items()]:
        if not name.startswith("_") and inspect.isroutine(value) and not is_annotated(value):
            types = parameter_types(name, value, facts)
            order = [p for p in inspect.unwrap(value).__code__.co_varnames if p in types]
            spaces.setdefault(value.__module__, {})[name] = [types[p] for p in [*order, "return"]]
    lines = [SIGNATURES_HEADER]
    for space, functions in sorted(spaces.items()):
        texts = " ".join(text for types in functions.values() for text in types)
        names = sorted(set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", texts)) - set(dir(builtins)))
        lines += [f'    "{space}": (\n', entry("", names, " " * 8), "        {\n"]
        lines += [entry(f'"{name}": ', types, " " * 12) for name, types in sorted(functions.items())]
        lines.append("        },\n    ),\n")
    return "".join([*lines, "}\n"])


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
        "ext.pyi": functions_stub(EXT_HEADER, additions()),
        "_io/interop.pyi": functions_stub(HELPERS_HEADER, helpers()),
        "_signatures.py": signatures(ggml),
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
