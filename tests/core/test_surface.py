"""The public surface against the manifest of the ctypes bindings: names, parameters, constants, structs, callback
types.
"""

import ast
import ctypes
import inspect
import json
import subprocess
import sys
import types
import typing
from pathlib import Path

import pytest

import ggml
from ggml import _absent, _annotations, _core, _structs
from ggml._io import interop

DATA = Path(__file__).parents[1] / "data"
API = json.loads((DATA / "api_current.json").read_text())
SEED = json.loads((DATA / "api_ggml_backend_h_2024_09.json").read_text())
FUNCTIONS = {f["name"]: f for f in API["functions"]}


def ctype(name):
    """The ctypes type of a name in the manifest: X_Array_4 is an array of X, LP_X a pointer to X."""
    element, _, length = name.rpartition("_Array_")
    if name == "LP_c_ubyte_Array_16":  # a GUID: the only pointer to an array; it is spelled like an array of pointers
        return ggml.ggml_guid_t_ctypes
    if element:
        return ctype(element) * int(length)
    if name.startswith("LP_"):
        return ctypes.POINTER(ctype(name[3:]))
    known = {"void": None, "c_long": ctypes.c_int64, "c_ulong": ctypes.c_uint64}
    if name in known:
        return known[name]
    return getattr(ctypes, name, None) or getattr(ggml, name)


def test_no_name_is_missing():
    names = {*FUNCTIONS, *API["constants"], *API["structs"], *API["callbacks"], *API["other_names"]}
    names |= {f["name"] for f in SEED["functions"]}
    assert sorted(name for name in names if not hasattr(ggml, name)) == []


LATER_PARAMETERS = {"ggml_ssm_scan": {"K": 1}}  # of later releases of the C library, with their defaults


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters(name):
    """The names are equal and in the same order, by position or keyword. `*args` stands where
    the bindings have it. One function has a parameter that a later release of the C library added.
    """
    facts = FUNCTIONS[name]
    params = inspect.signature(getattr(ggml, name)).parameters.values()
    named = [p for p in params if p.kind is p.POSITIONAL_OR_KEYWORD]
    rest = [p for p in params if p.kind is not p.POSITIONAL_OR_KEYWORD]
    assert [(p.kind, p.name) for p in rest] == [(p.VAR_POSITIONAL, facts["varargs"]) for p in rest]
    assert bool(rest) == ("varargs" in facts)
    later = LATER_PARAMETERS.get(name, {})
    assert [p.name for p in named] == [*facts["params"], *later]
    assert {p.name for p in named if p.default is not p.empty} >= {*facts["defaults"], *later}
    assert {p.name: p.default for p in named if p.name in later} == later


@pytest.mark.parametrize("name", API["constants"])
def test_constant(name):
    value, expected = getattr(ggml, name), API["constants"][name]
    assert value == expected and type(value) is type(expected)


@pytest.mark.parametrize("name", API["structs"])
def test_struct(name):
    struct, facts = getattr(ggml, name), API["structs"][name]
    assert ctypes.sizeof(struct) == facts["size"]
    assert [field for field, *_ in struct._fields_] == [field for field, *_ in facts["fields"]]
    for (field, type_), (_, expected, offset, size) in zip(struct._fields_, facts["fields"]):
        assert (getattr(struct, field).offset, getattr(struct, field).size) == (offset, size), field
        if expected == "CFunctionType":
            assert issubclass(type_, _structs._CFuncPtr), field
        else:
            assert type_ is ctype(expected), field


@pytest.mark.parametrize("name", API["callbacks"])
def test_callback_type(name):
    type_, facts = getattr(ggml, name), API["callbacks"][name]
    assert issubclass(type_, type_.prototype) and type_.__name__ == name and type_.__doc__
    assert type_.prototype is ctypes.CFUNCTYPE(ctype(facts["restype"]), *map(ctype, facts["argtypes"]))


HANDLES = [  # those of GUIDs and of ggml_tallocr are no void pointers
    name
    for name in API["other_names"]
    if name.endswith("_ctypes") and not name.startswith(("ggml_guid", "ggml_tallocr"))
]


@pytest.mark.parametrize("name", HANDLES)
def test_handle(name):
    assert getattr(ggml, name) is ctypes.c_void_p
    assert getattr(ggml, name.removesuffix("_ctypes"))(5) == 5


def test_vtables_take_their_own_callbacks():
    tables = [s for n, s in vars(_structs).items() if n.startswith("ggml_backend") and n.endswith("_i")]
    assert len(tables) == 5
    for table in tables:
        for field, type_ in table._fields_:
            own = getattr(ggml, f"{table.__name__}_{field}", None) or getattr(ggml, f"ggml_backend_buffer_i_{field}")
            assert own.prototype is type_


# ---- ggml.ext --------------------------------------------------------------------------------------------------------
# Later releases of the C library have these; the others are documented in reference texts of operations it lacked.
LATER = {"ggml_build_forward_order", "ggml_cpu_has_sme2", "ggml_rope_set_offset", "gguf_get_tensor_ne",
         *(f"ggml_is_contiguous_to_{n}" for n in (1, 2, 3))}  # fmt: skip
DOCUMENTED = {"ggml_clamp_back", "ggml_clamp_inplace", "ggml_elu_back", "ggml_gelu_back", "ggml_gelu_erf_back",
              "ggml_gelu_quick_back"}  # fmt: skip


def test_additions_are_in_ext_alone():
    known = {*FUNCTIONS, *API["structs"], *API["callbacks"], *API["other_names"]}
    known |= {f["name"] for f in SEED["functions"]}
    public = {n for n, f in vars(ggml).items() if n.startswith(("ggml_", "gguf_")) and inspect.isroutine(f)}
    assert public - known == LATER | DOCUMENTED
    for name in ggml.ext.__all__:
        function = getattr(ggml.ext, name)
        assert (function.__module__, function.__qualname__) == ("ggml.ext", name)
        assert list(function.__annotations__.values()).count("Any") <= 1, name


def test_old_names_of_additions_say_the_new_one():
    for old, new in ggml.ext._MOVED.items():
        assert new in ggml.ext.__all__ and not hasattr(ggml.lib, old)
        with pytest.raises(AttributeError, match=rf"^ggml\.{old} is ggml\.ext\.{new}: "):
            getattr(ggml, old)(None, 1, a=2)
        assert f"ggml.ext.{new}" in repr(getattr(ggml, old))
    with pytest.raises(AttributeError, match="^module 'ggml' has no attribute 'ggml_nothing'$"):
        ggml.ggml_nothing  # noqa: B018


def test_names_are_found_without_code():
    """Python specializes the look-up of a module's attribute only if the module has no function __getattr__."""
    assert type(ggml) is types.ModuleType and "__getattr__" not in vars(ggml)


POINTERS = "tensor cgraph cplan object type_traits type_traits_cpu compute_params".split()


@pytest.mark.parametrize("name", POINTERS)
def test_pointer_class(name):
    struct, pointer = getattr(ggml, f"ggml_{name}"), getattr(ggml, f"ggml_{name}_p")
    assert ctypes.POINTER(struct) is pointer and pointer._type_ is struct
    one, other = struct(), struct()
    assert type(ctypes.pointer(one)) is pointer
    assert ctypes.pointer(one) == ctypes.pointer(one) and hash(ctypes.pointer(one)) == hash(ctypes.pointer(one))
    assert ctypes.pointer(one) != ctypes.pointer(other)
    assert not pointer() and pointer() == pointer() and pointer() != ctypes.pointer(one)
    assert pointer().__eq__(None) is NotImplemented
    assert repr(pointer()) == f"<ggml_{name} NULL>"


def test_pointers_in_fields_and_arrays():
    a, b = ggml.ggml_tensor(), ggml.ggml_tensor()
    a.src[1] = ctypes.pointer(b)
    assert type(a.src[1]) is ggml.ggml_tensor_p and a.src[1] == ctypes.pointer(b) and a.src[0] == ggml.ggml_tensor_p()
    both = (ctypes.POINTER(ggml.ggml_tensor) * 2)(ctypes.pointer(a), ctypes.pointer(b))
    assert both[1] == a.src[1] and both[0] != a.src[1]
    seen = []
    ggml.ggml_custom1_op_t(lambda *args: seen.extend(args))(both[0], both[1], 1, 2, None)
    assert seen == [both[0], both[1], 1, 2, None]


def test_repr_of_a_dangling_pointer():
    pointer = ctypes.cast(0x1000, ggml.ggml_tensor_p)
    assert repr(pointer) == "<ggml_tensor at 0x1000>"


def deferred():
    """The type of the exception that waits for the function that runs the callback; None if there is none."""
    try:
        _core.raise_deferred()
    except Exception as error:
        return type(error)


def fail(*args):
    raise LookupError(args)


@pytest.mark.parametrize(
    "name, args, result",
    [
        ("ggml_abort_callback", (None,), True),
        ("ggml_backend_sched_eval_callback", (None, True, None), False),
        ("ggml_backend_eval_callback", (0, None, None, None), False),
        ("gguf_reader_callback_t", (1, 2, 3, 4), 0),
        ("ggml_backend_i_get_name", (1,), None),
        ("ggml_backend_buffer_i_get_base", (1,), None),
        ("ggml_log_callback", (1, b"x", None), None),
    ],
)
def test_exception_in_a_callback_is_parked(name, args, result):
    assert getattr(ggml, name)(fail)(*args) == result
    assert deferred() is LookupError


def test_result_of_the_wrong_kind_is_parked():
    assert ggml.gguf_reader_callback_t(lambda *args: "many")(1, 2, 3, 4) == 0
    assert deferred() is TypeError
    assert ggml.ggml_backend_i_get_name(lambda backend: 1.5)(1) is None
    assert deferred() is TypeError


def test_callbacks_from_callables_addresses_and_functions():
    plan = ggml.ggml_cplan()
    plan.abort_callback = ggml.ggml_abort_callback(lambda data: data == 7)
    address = ctypes.cast(plan.abort_callback, ctypes.c_void_p).value
    for made in (
        plan.abort_callback,
        ggml.ggml_abort_callback(plan.abort_callback),
        ggml.ggml_abort_callback(address),
        ggml.ggml_abort_callback(ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(lambda data: data == 7)),
    ):
        assert made(7) is True and made(8) is False
    assert ctypes.cast(ggml.ggml_abort_callback(plan.abort_callback), ctypes.c_void_p).value == address
    assert not ggml.ggml_abort_callback() and deferred() is None


@pytest.mark.filterwarnings("error")
def test_text_of_a_callback_lives_as_long_as_the_callback():
    name = ggml.ggml_backend_i_get_name(lambda backend: bytes([65 + backend]) * 40)
    raw = ctypes.cast(name, ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p))
    first = raw(1)
    assert [name(i) for i in range(2, 6)] == [bytes([65 + i]) * 40 for i in range(2, 6)]
    assert raw(1) == first and ctypes.string_at(first) == b"B" * 40


def test_graph_copy_is_a_struct_and_a_function(monkeypatch):
    made = ggml.ggml_backend_graph_copy(1, 2, graph=ctypes.pointer(ggml.ggml_cgraph(n_nodes=3)))
    assert (made.buffer, made.ctx_allocated, made.ctx_unallocated) == (1, 2, None) and made.graph.contents.n_nodes == 3
    monkeypatch.setattr(ggml.ggml_backend_graph_copy, "_copy", lambda backend, graph: made)
    for copy in (
        ggml.ggml_backend_graph_copy(5, ggml.ggml_cgraph_p()),
        ggml.ggml_backend_graph_copy(backend=5, graph=ggml.ggml_cgraph_p()),
    ):
        assert isinstance(copy, ggml.ggml_backend_graph_copy_t) and bytes(copy) == bytes(made)
        assert copy.graph == made.graph


ABSENT = [f for f in API["functions"] if f.get("condition", "").startswith("GGML_USE_") and not f["in_cpu_build"]]


@pytest.mark.parametrize("facts", ABSENT, ids=lambda facts: facts["name"])
def test_function_of_a_backend_that_is_not_built(facts):
    function = getattr(ggml, facts["name"])
    assert inspect.isfunction(function) and function.__name__ == facts["name"] and function.__doc__
    with pytest.raises(RuntimeError, match=rf"^{facts['name']}: the \w+ backend is not part of this build$"):
        function(**dict.fromkeys(facts["params"]))
    with pytest.raises(RuntimeError, match=rf"^{facts['name']}: "):  # programs probe for backends in many ways
        function(*facts["params"], "one too many", extra=1)
    assert not hasattr(ggml.lib, facts["name"])


def test_only_those_are_absent():
    assert set(_absent.functions) == {facts["name"] for facts in ABSENT}


def test_lib_has_what_the_build_has():
    built = {name for name in FUNCTIONS if name not in _absent.functions}
    assert built - set(dir(ggml.lib)) == set()
    assert all(getattr(ggml.lib, name) is getattr(ggml, name) is ggml.lib[name] for name in built)
    with pytest.raises(AttributeError):
        ggml.lib.ggml_nothing_of_the_kind


def test_the_library_explains_itself():
    assert ggml.lib._name == ggml._core.__file__ and ggml.lib._name in repr(ggml.lib)
    assert ggml.load_shared_library("ggml", "ggml") is ggml.lib
    assert ggml.ctypes_function_for_shared_library(ggml.lib)("ggml_add", [], None)(None) is ggml.ggml_add
    assert ggml.byref is ctypes.byref and ggml.module_name == ggml.lib_base_name == "ggml"
    with pytest.raises(FileNotFoundError, match="use ctypes.CDLL"):
        ggml.load_shared_library("llama_cpp", "llama")
    with pytest.raises(TypeError, match="need ggml.lib"):
        ggml.ctypes_function_for_shared_library(None)
    with pytest.raises(AttributeError, match="no shared library"):
        ggml.lib._handle
    with pytest.raises(AttributeError, match="no function 'ggml_nothing'"):
        ggml.lib.ggml_nothing


def test_the_address_of_a_function_is_refused_with_the_way_out():
    with pytest.raises(ctypes.ArgumentError, match=r"no C address: pass ctypes.CFUNCTYPE"):
        ctypes.cast(ggml.ggml_add, ctypes.c_void_p)
    assert ctypes.cast(ggml.ggml_custom1_op_t(ggml.ggml_add), ctypes.c_void_p).value


@pytest.mark.parametrize("name", [*API["structs"], "legacy"])
def test_unknown_keywords_of_structs_are_refused(name):
    from ggml.legacy import ggml_opt_params_adam

    struct = ggml_opt_params_adam if name == "legacy" else getattr(ggml, name)
    field = struct._fields_[0][0]
    with pytest.raises(TypeError, match=rf"^{struct.__name__}: '{field}x' is not a field: did you mean '{field}'\?$"):
        struct(**{field + "x": 0})
    with pytest.raises(TypeError, match=rf"^{struct.__name__}: 'zzz_unlike_all' is not a field: need one of "):
        struct(zzz_unlike_all=0)
    with pytest.raises(TypeError):
        struct(*[0] * (len(struct._fields_) + 1))


def test_values_that_no_field_holds_are_named():
    with pytest.raises(TypeError, match=r"^ggml_init_params: mem_size is 16000000.0: 'float' object"):
        ggml.ggml_init_params(mem_size=16e6)
    with pytest.raises(TypeError, match=r"^ggml_init_params: mem_size is 'x': "):
        ggml.ggml_init_params("x", None)
    with pytest.raises(TypeError, match="too many initializers"):
        ggml.ggml_init_params(1, None, False, 4)


def test_structs_otherwise_behave_as_ctypes_structs():
    params = ggml.ggml_init_params(1, mem_buffer=None, no_alloc=True)
    assert (params.mem_size, params.mem_buffer, params.no_alloc) == (1, None, True)
    params.note = "attributes of one's own, as programs for the bindings set them to keep objects alive"
    assert isinstance(params, ctypes.Structure) and bytes(ggml.ggml_init_params()) == bytes(24)

    class Extended(ggml.ggml_init_params):
        _fields_ = [("more", ctypes.c_int)]

    assert Extended(mem_size=2, more=3).more == 3
    with pytest.raises(TypeError, match="did you mean 'more'"):
        Extended(mor=3)


def test_ggml_function_finds_functions_of_the_build():
    declare = ggml.ggml_function("ggml_type_name", [ctypes.c_int], ctypes.c_char_p)
    assert declare(lambda type: ...) is ggml.ggml_type_name
    with pytest.raises(RuntimeError, match="ggml_nothing"):
        ggml.ggml_function("ggml_nothing", [], None, enabled=False)(lambda: ...)()


def test_flat_namespace_has_the_same_objects():
    flat = sys.modules["ggml.ggml"]
    assert flat is ggml.ggml
    for name in [*FUNCTIONS, *API["constants"], *API["structs"], *API["callbacks"]]:
        assert getattr(flat, name) is getattr(ggml, name), name


def test_stubs_are_up_to_date():
    script = Path(__file__).parents[2] / "scripts" / "make_stubs.py"
    command = [sys.executable, script, "--check", "--into", Path(ggml.__file__).parent]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_stubs_have_docstrings_and_types():
    folder = Path(ggml.__file__).parent
    text = (folder / "__init__.pyi").read_text()
    assert '    """Adds two tensors element by element' in text
    for line in (
        "def ggml_rope_set_offset(a: _To[ggml_tensor], n_offs: _Int) -> ggml_tensor_p:",
        "def ggml_ssm_scan(",
        "K: _Int = ...) -> ggml_tensor_p:",
    ):
        assert line in text, line
    helpers = (folder / "_io" / "interop.pyi").read_text()
    assert "def from_numpy(x: npt.ArrayLike | _Buffer, ctx: _Address) -> ggml_tensor_p:" in helpers
    assert "def to_numpy(tensor: _To[ggml_tensor], shape: Sequence[int] | None = ...) -> npt.NDArray[Any]:" in helpers
    for part in (text, helpers):
        compile(part, "stub", "exec")


def stub_functions(path):
    """The functions of a stub by name, as syntax trees."""
    folder = Path(ggml.__file__).parent
    nodes = ast.parse((folder / path).read_text()).body
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("path, module", [("__init__.pyi", ggml), ("ext.pyi", ggml.ext), ("_io/interop.pyi", interop)])
def test_signatures_and_annotations_are_those_of_the_stubs(path, module):
    found = {}
    for name, node in stub_functions(path).items():
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        given = [*node.args.posonlyargs, *node.args.args, node.args.vararg, *node.args.kwonlyargs, node.args.kwarg]
        given = [(arg.arg, ast.unparse(arg.annotation)) for arg in given if arg]
        assert [(p.name, p.annotation) for p in parameters] == given, name
        result = inspect.signature(getattr(module, name)).return_annotation
        assert result == ast.unparse(node.returns), name
        n_defaults = len(node.args.defaults) + sum(default is not None for default in node.args.kw_defaults)
        assert sum(p.default is not p.empty for p in parameters) == n_defaults, name
        found[name] = dict(given) | {"return": result}
    functions = {name for name in FUNCTIONS if inspect.isroutine(getattr(ggml, name))}
    assert len(found) > 5 and (module is not ggml or functions <= found.keys())
    for name, texts in found.items():  # every name in a text is found from the function, and is the package's
        hints = typing.get_type_hints(getattr(module, name))
        names = {**vars(_annotations), **vars(ggml)}
        expected = {key: eval(text, names) or type(None) for key, text in texts.items()}
        if sys.version_info < (3, 11):  # get_type_hints makes them optional
            parameters = inspect.signature(getattr(module, name)).parameters.values()
            expected |= {p.name: expected[p.name] | None for p in parameters if p.default is None}
        assert hints == expected, name
        assert {type(hint) for hint in hints.values()} & {str, typing.ForwardRef} == set(), name


def test_annotations_say_what_is_accepted():
    hints = typing.get_type_hints(ggml.ggml_scale)
    tensor = ctypes.pointer(ggml.ggml_tensor())
    assert hints["return"] is ggml.ggml_tensor_p and isinstance(tensor, hints["a"])
    assert isinstance(ctypes.byref(tensor.contents), hints["a"]) and not isinstance(1, hints["a"])
    assert isinstance(ctypes.c_float(1), hints["s"]) and isinstance(1, hints["s"]) and not isinstance("1", hints["s"])
    hints = typing.get_type_hints(ggml.ggml_backend_cuda_init)
    assert isinstance(0, hints["device"]) and ggml.ggml_backend_t in typing.get_args(hints["return"])


def test_structs_need_neither_numpy_nor_the_core():
    code = (
        "import sys, types; package = types.ModuleType('ggml'); package.__path__ = [sys.argv[1]];"
        "sys.modules['ggml'] = package; import ggml._structs, ggml._constants, ggml._absent;"
        "bad = [n for n in sys.modules if n.startswith('numpy') or n == 'ggml._core']; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code, str(Path(_structs.__file__).parent)], check=True)
