"""Every public function with invalid arguments must raise an exception that names the function, and never end the
process.

Calls that might crash run in child processes, so that a crash is a failed test.
"""

import ctypes
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ggml
from ggml import _absent, _errors

FUZZER = Path(__file__).resolve().parents[2] / "fuzz" / "calls.py"
LANGUAGE = ("gguf", "tokenizers", "jinja2")
LIBRARIES = {  # that fuzzers need
    "models": LANGUAGE,
    "onnx_models": ("onnx",),
    "templates": ("jinja2",),
    "threads": LANGUAGE,
}
NEEDED_TO_START = LIBRARIES | dict.fromkeys(("connections", "pictures", "serve"), ("gguf",))
NEEDED_TO_START |= dict.fromkeys(("onnx_graphs", "onnx_operators"), ("onnx",))
API = json.loads((Path(__file__).parents[1] / "data" / "api_current.json").read_text())["functions"]


def takes_memory(f):
    """Whether an argument is an address that the function may read or write. Such a function cannot recognise every
    invalid address.
    """
    known = re.sub(r"POINTER\(ggml_(tensor|cgraph|cplan)\)|LP_ggml_\w+", "", f["argtypes"] or "")
    return re.search(r"POINTER|c_void_p|_op_t\b|callback", known) is not None


FUNCTIONS = sorted(
    f["name"]
    for f in API
    if hasattr(ggml, f["name"])
    and not takes_memory(f)
    and f["name"] not in _absent.functions
    and "_backend_" not in f["name"]
)

PRELUDE = '''
import ctypes, faulthandler, os, sys, tempfile
faulthandler.enable()
import numpy as np
import ggml

os.chdir(tempfile.mkdtemp())
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)   # what the functions print is of no interest here
LIVE = []

def say(text):
    os.write(out, (text + "\\n").encode())

def context(**how):
    how = {"mem_size": 1 << 20, "mem_buffer": None, "no_alloc": False, **how}
    ctx = ggml.ggml_init(ggml.ggml_init_params(**how))
    LIVE.append(ctx)
    return ctx

def tensors(ctx):
    new = ggml.ggml_new_tensor_4d
    t = new(ctx, 0, 4, 3, 1, 1)
    return [t, new(ctx, 0, 3, 4, 2, 1), new(ctx, 1, 8, 2, 2, 2), new(ctx, 26, 5, 1, 1, 1),
            new(ctx, 2, 64, 2, 1, 1), new(ctx, 0, 0, 3, 1, 1),
            new(ctx, 0, 7, 1, 1, 1), ggml.ggml_sqr(ctx, t)]

def graph(ctx, grads=False):
    g = ggml.ggml_new_graph_custom(ctx, 8, grads)
    ggml.ggml_build_forward_expand(g, ggml.ggml_sqr(ctx, ggml.ggml_new_tensor_1d(ctx, 0, 4)))
    return g

def kinds(ctx):
    gone = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False))
    stale = tensors(gone)[0], graph(gone)
    ggml.ggml_free(gone)
    bare = context(no_alloc=True)
    callback = ggml.ggml_custom1_op_t(lambda *args: None)
    return [None, 5, -1, 0, 1, 2, 1 << 31, -(1 << 31), 1 << 40, 1 << 62, -(1 << 63), 1 << 64,
            1.5, float("nan"), "text", b"bytes", [], [1, 2], {},
            object(), True, ctx, gone, bare, *stale, *tensors(ctx), tensors(bare)[0], graph(ctx), graph(ctx, True),
            ctypes.c_int(3), ctypes.c_void_p(), ctypes.c_void_p(8), ggml.ggml_tensor_p(), ggml.ggml_cgraph_p(),
            ctypes.cast(0x1000, ggml.ggml_tensor_p), (ctypes.c_int64 * 4)(2, 2, 2, 2), ctypes.byref(ctypes.c_int(3)),
            np.zeros(3), np.float32(2), ggml.ggml_cplan(), ggml.ggml_init_params(), callback, print]

def call(name, args):
    """Calls; what comes must be a value, or an exception of a proper kind that starts with the function's name."""
    try:
        getattr(ggml, name)(*args)
    except (TypeError, ValueError, MemoryError, RuntimeError, OSError, IndexError, OverflowError) as e:
        text = str(e)
        if isinstance(e, OSError) and e.errno:
            return
        named = text.startswith(name + ":") or (isinstance(e, TypeError) and name in text)
        assert named, f"{name}: {type(e).__name__} does not begin with the function's name: {text}"

def usable():
    """The library still works."""
    ctx = context()
    t = ggml.ggml_new_tensor_1d(ctx, 0, 3)
    ggml.ggml_set_f32(t, 3)
    y = ggml.ggml_sqr(ctx, t)
    g = ggml.ggml_new_graph_custom(ctx, 8, False)
    ggml.ggml_build_forward_expand(g, y)
    assert ggml.ggml_graph_compute_with_ctx(ctx, g, 2) == 0 and ggml.ggml_get_f32_1d(y, 2) == 9
    ggml.ggml_free(ctx)
'''


def parameters(name):
    """The number of positional arguments that the function takes."""
    params = inspect.signature(getattr(ggml, name)).parameters.values()
    named = [p for p in params if p.kind is p.POSITIONAL_OR_KEYWORD]
    return len(named) + (3 if any(p.kind is p.VAR_POSITIONAL for p in params) else 0)


def run(code, *args):
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=300)
    last = done.stdout.strip().splitlines()[-1:] or [""]
    assert done.returncode == 0 and last == ["usable"], (
        f"exit status {done.returncode} at {last[0]}\n{done.stderr[-3000:]}"
    )


@pytest.mark.parametrize("prefix, calls", [("ggml_", 25), ("gguf_", 40), ("ext.", 60), ("legacy.", 25)])
def test_random_arguments(prefix, calls):
    """A short run of the fuzzer: every function with arguments of all kinds neither crashes nor hangs nor raises
    unexpectedly.
    """
    command = [sys.executable, FUZZER, "--only", prefix, "--rounds", "1", "--calls", str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    assert int(done.stdout.split()[0]) > 0, done.stdout  # child processes


@pytest.mark.skipif(sys.platform != "linux", reason="the guards around memory are Linux's")
def test_fields_written_before_computing():
    """Nodes of every operation with random values in their fields are refused or computed; no memory outside is
    accessed.
    """
    command = [sys.executable, FUZZER.parent / "fields.py", "--seconds", "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    last = done.stdout.splitlines()[-1:] or [""]
    assert done.returncode == 0, last[0] + done.stderr[-3000:]
    cases, computed, refused = (int(n) for n in re.findall(r"\d+", last[0]))
    assert cases == computed + refused and computed and refused


@pytest.mark.parametrize("size", [5000, 10**5])
def test_integers_too_long_to_print(size, ctx):
    """Python refuses to print them; the message still begins with the function's name."""
    huge = 10**size
    t = ggml.ggml_new_f32(ctx, 1.0)
    for name, call in {
        "ggml_new_tensor_1d": lambda: ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, huge),
        "ggml_nbytes": lambda: ggml.ggml_nbytes(huge),
        "ggml_free": lambda: ggml.ggml_free(huge),
        "ggml_gallocr_free": lambda: ggml.ggml_gallocr_free(huge),
        "ggml_set_name": lambda: ggml.ggml_set_name(t, huge),
        "ggml_backend_tensor_set": lambda: ggml.ggml_backend_tensor_set(t, huge, 0, 4),
        "ggml_tallocr_alloc": lambda: ggml.ggml_tallocr_alloc(huge, t),
    }.items():
        with pytest.raises((ValueError, TypeError, RuntimeError), match=f"^{name}: ") as raised:
            call()
        assert len(str(raised.value)) < 200


def test_an_element_that_is_no_integer(ctx):
    for value, error in ((float("inf"), OverflowError), (float("nan"), ValueError)):
        t = ggml.ggml_new_f32(ctx, value)
        with pytest.raises(error, match="^ggml_get_i32_1d: the element is"):
            ggml.ggml_get_i32_1d(t, 0)
        with pytest.raises(error, match="^ggml_get_i32_nd: the element is"):
            ggml.ggml_get_i32_nd(t, 0, 0, 0, 0)


@pytest.mark.parametrize("new", ["ggml_new_i32", "ggml_new_f32"])
def test_a_constant_without_memory_leaves_nothing_behind(new):
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))
    before = ggml.ggml_used_mem(ctx)
    with pytest.raises(ValueError, match=f"^{new}: ctx was made with no_alloc"):
        getattr(ggml, new)(ctx, 1)
    assert ggml.ggml_used_mem(ctx) == before and not ggml.ggml_get_first_tensor(ctx)
    ggml.ggml_free(ctx)


def test_the_old_graph_writer_names_itself_once():
    import ggml.legacy as legacy

    for gf, message in ((5, "gf is 5"), (legacy.ggml_cgraph(n_nodes=5000), "gf.n_nodes is 5000")):
        with pytest.raises((TypeError, ValueError), match=f"^ggml_graph_dump_dot: {message}"):
            legacy.ggml_graph_dump_dot(legacy.ggml_cgraph(), gf, b"file")


ONE_WRONG = (
    PRELUDE
    + """
for row in sys.argv[1].split(","):
    name, n, at = row.split("/")
    ctx = context()
    values = kinds(ctx)
    for bad in values[:5] + values[6:13] + values[14:20]:
        for good in tensors(ctx)[:3]:
            args = [ctx, good, good, *[1] * 20][:int(n)]
            args[int(at)] = bad
            say(f"{name}({', '.join(repr(a)[:60] for a in args)})")
            if isinstance(bad, (type(None), str, bytes, list, dict)) or type(bad) is object:
                if at in "01":
                    try:
                        getattr(ggml, name)(*args)
                    except (TypeError, ValueError) as e:
                        assert str(e).startswith(name + ":"), e
                    else:
                        raise AssertionError(f"{name}: argument {at} is {bad!r}, and no exception")
                    continue
            call(name, args)
usable()
say("usable")
"""
)


def test_one_wrong_argument():
    """Constructors of the form (ctx, a, ...) raise for a context or an operand of the wrong kind."""
    rows = []
    for f in API:
        if f["name"] in FUNCTIONS and f["params"][:2] == ["ctx", "a"]:
            rows += [f"{f['name']}/{len(f['params'])}/{at}" for at in range(len(f["params"]))]
    assert len(rows) > 100
    run(ONE_WRONG, ",".join(rows))


def test_wrong_number_of_arguments():
    for name in FUNCTIONS:
        function = getattr(ggml, name)
        if parameters(name) == len(inspect.signature(function).parameters):
            with pytest.raises(TypeError):
                function(*[None] * (parameters(name) + 1))
            with pytest.raises(TypeError):
                function(no_such_parameter=1)


def test_context_stays_usable_after_errors():
    run(
        PRELUDE
        + """
ctx = context(mem_size=4096)
for k in range(200):
    call("ggml_new_tensor_1d", [ctx, 0, 1 << 20])
    call("ggml_new_graph", [ctx])
    call("ggml_mul_mat", [ctx, *2 * [tensors(context())[3]]])
assert ggml.ggml_used_mem(ctx) == 0 and ggml.ggml_nelements(ggml.ggml_new_tensor_1d(ctx, 0, 4)) == 4
usable()
say("usable")
"""
    )


@pytest.mark.skipif(sys.platform == "win32", reason="fuzzers limit memory and time as on POSIX systems")
@pytest.mark.parametrize("name", LIBRARIES)
def test_models_templates_and_threads(name, tmp_path):
    """A short run of fuzz/models.py, onnx_models.py, templates.py and threads.py."""
    for library in LIBRARIES[name]:
        pytest.importorskip(library)
    script = FUZZER.with_name(f"{name}.py")
    command = [sys.executable, script, "--seconds", "4", "--seed", "1"]
    if name != "threads":
        command += ["--last", tmp_path / "last"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(done.stdout.split()[0]) > 0, done.stdout  # mutants, templates or rounds


@pytest.mark.skipif(sys.platform == "win32", reason="fuzzers limit memory and time as on POSIX systems")
@pytest.mark.parametrize(
    "script",
    sorted(path for path in FUZZER.parent.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")),
    ids=lambda path: path.stem,
)
def test_fuzzers_start(script):
    """A script whose name is that of a library would be imported in its place."""
    for library in NEEDED_TO_START.get(script.stem, ()):
        pytest.importorskip(library)
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "--seconds" in done.stdout, done.stderr


class Odd:
    """An object that isinstance raises an exception for."""

    @property
    def __class__(self):
        raise LookupError("no class")


@pytest.mark.parametrize(
    "call",
    [
        lambda odd: ggml.gguf_init_from_file(odd, ggml.gguf_init_params()),
        lambda odd: ggml.gguf_set_arr_str(ggml.gguf_init_empty(), b"key", odd, 2),
        lambda odd: ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(ggml.ggml_backend_cpu_init()), odd, 1, 64, False),
        lambda odd: ggml.ggml_backend_buffer_init(
            ggml.ggml_backend_cpu_buffer_type(), ggml.ggml_backend_buffer_i(), odd, 4
        ),
        lambda odd: ggml.ggml_log_set(odd, None),
    ],
    ids=["file name", "array of strings", "buffer types", "context of a buffer", "callback"],
)
def test_objects_whose_class_cannot_be_read(call):
    """The object's own exception arrives, or a message about the object where its class is not asked for."""
    with pytest.raises((LookupError, TypeError), match=r"^no class$|^\w+: \w+ is <.*\.Odd object at \w+>: need "):
        call(Odd())


def test_more_elements_than_memory(ctx):
    t = ggml.ggml_new_tensor_2d(ctx, 0, 4, 3)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_sum(ctx, t))
    for ne in (1 << 32, 1 << 61):
        t.contents.nb[1], t.contents.ne[1] = 0, ne
        for call in (
            lambda: ggml.ggml_set_zero(t),
            lambda: ggml.ggml_set_f32(t, 1),
            lambda: ggml.ggml_graph_compute_with_ctx(ctx, graph, 1),
        ):
            with pytest.raises(ValueError, match="share it"):
                call()


def test_a_filter_wider_than_an_int(ctx):
    t = ggml.ggml_new_tensor_1d(ctx, 0, 4)
    t.contents.nb[0], t.contents.ne[0] = 0, 2**31 - 1
    with pytest.raises(ValueError, match=r"^ggml_interpolate: a is f32 \[2147483647\], result is f32 \[1\]: too small"):
        ggml.ggml_interpolate(ctx, t, 1, 1, 1, 1, ggml.GGML_SCALE_MODE_BILINEAR | ggml.GGML_SCALE_FLAG_ANTIALIAS)


def test_number_of_elements_that_overflows(ctx):
    """A shape written by the caller whose product is 1 modulo 2^64 does not count as one element."""
    a, b = ggml.ggml_new_tensor_1d(ctx, 0, 4), ggml.ggml_new_tensor_1d(ctx, 0, 1)
    b.contents.ne[:2] = 7, pow(7, -1, 1 << 64)
    with pytest.raises(ValueError, match="^ggml_add1: b is .*need one element"):
        ggml.ggml_add1(ctx, a, b)


@pytest.mark.parametrize("a, ids", [((5, 3, 4, 2), (3, 4, 2)), ((5, 3, 1, 2), (3, 2)), ((5, 3, 4), (3, 2, 2))])
def test_add_id_of_four_dimensions(ctx, a, ids):
    """ids has two dimensions, so it cannot hold the indices of a batch."""
    x = ggml.ggml_new_tensor(ctx, ggml.GGML_TYPE_F32, len(a), (ctypes.c_int64 * len(a))(*a))
    index = ggml.ggml_new_tensor(ctx, ggml.GGML_TYPE_I32, len(ids), (ctypes.c_int64 * len(ids))(*ids))
    with pytest.raises(ValueError, match="^ggml_add_id: a is f32 .*, ids is i32 .*: need a 3-d a and 2-d ids"):
        ggml.ggml_add_id(ctx, x, ggml.ggml_new_tensor_2d(ctx, 0, 5, 6), index)


@pytest.mark.parametrize(
    "type, shape, text",
    [(ggml.GGML_TYPE_F16, (4,), r"f16 \[4, 1"), (0, (3,), r"f32 \[3, 1"), (0, (4, 2), r"f32 \[4, 2")],
)
def test_sinks_that_do_not_fit(ctx, type, shape, text):
    out = ggml.ggml_soft_max(ctx, ggml.ggml_new_tensor_3d(ctx, 0, 5, 3, 4))
    sinks = ggml.ggml_new_tensor(ctx, type, len(shape), (ctypes.c_int64 * len(shape))(*shape))
    with pytest.raises(ValueError, match=f"^ggml_soft_max_add_sinks: sinks is {text}.*: need f32 .4., one for each "):
        ggml.ggml_soft_max_add_sinks(out, sinks)
    assert not out.contents.src[2]


@pytest.mark.parametrize("low, high", [(1.0, -1.0), (float("nan"), 1.0), (0.0, float("nan"))])
def test_bounds_in_the_wrong_order(ctx, low, high):
    x = ggml.ggml_new_tensor_1d(ctx, 0, 4)
    for fn, operands in (("ggml_clamp", (x,)), ("ggml_clamp_inplace", (x,)), ("ggml_clamp_back", (x, x))):
        with pytest.raises(ValueError, match=f"^{fn}: min is .*, max is .*: min must not be above max"):
            getattr(ggml, fn)(ctx, *operands, low, high)


@pytest.mark.parametrize("eps", [-1e-5, float("nan")])
def test_negative_eps(ctx, eps):
    x = ggml.ggml_new_tensor_1d(ctx, 0, 4)
    for fn, operands in (("ggml_norm", (x,)), ("ggml_rms_norm", (x,)), ("ggml_rms_norm_back", (x, x))):
        with pytest.raises(ValueError, match=f"^{fn}: eps is .*: need 0 or more"):
            getattr(ggml, fn)(ctx, *operands, eps)


def test_unknown_precision_and_hint(ctx):
    x = ggml.ggml_new_tensor_2d(ctx, 0, 4, 4)
    product, attention = ggml.ggml_mul_mat(ctx, x, x), ggml.ggml_flash_attn_ext(ctx, x, x, x, None, 1.0, 0.0, 0.0)
    for set_prec, node in ((ggml.ggml_mul_mat_set_prec, product), (ggml.ggml_flash_attn_ext_set_prec, attention)):
        for prec in (ggml.GGML_PREC_DEFAULT, ggml.GGML_PREC_F32):
            set_prec(node, prec)
        with pytest.raises(ValueError, match=f"^{set_prec.__name__}: prec is 7: need GGML_PREC_DEFAULT"):
            set_prec(node, 7)
    for hint in (ggml.GGML_HINT_NONE, ggml.GGML_HINT_SRC0_IS_HADAMARD):
        ggml.ggml_mul_mat_set_hint(product, hint)
    with pytest.raises(ValueError, match="^ggml_mul_mat_set_hint: hint is -1: need GGML_HINT_NONE"):
        ggml.ggml_mul_mat_set_hint(product, -1)


# ---- names in messages -----------------------------------------------------------------------------------------------
class OwnError(ValueError):
    """An exception of a program, with arguments of its own."""

    def __init__(self, code, detail):
        super().__init__(code, detail)
        self.code = code


def test_an_error_keeps_the_name_of_the_function_that_was_called():
    def fails():
        ggml.ggml_type_size("f32")

    with pytest.raises(TypeError, match="^ggml_type_size: ") as raised:
        fails()
    problem = _errors.bare(raised.value)
    assert not problem.startswith("ggml") and str(raised.value) == f"ggml_type_size: {problem}"
    with pytest.raises(TypeError, match=f"^outer: {re.escape(problem)}$") as raised, _errors.named("outer"):
        with _errors.named("inner"):
            fails()
    assert raised.value.function == "outer"


def test_names_are_added_once_and_replaced():
    @_errors.named("inner")
    def inner(error):
        raise error

    @_errors.named("outer", "a.gguf")
    def outer(error):
        inner(error)

    def text(call, error):
        with pytest.raises(type(error)) as raised:
            call(error)
        return str(raised.value)

    assert text(inner, ValueError("x is 3")) == "inner: x is 3"
    assert text(inner, ValueError("inner: x is 3")) == "inner: x is 3"
    assert text(outer, RuntimeError("x is 3")) == "outer: 'a.gguf': x is 3"
    assert text(outer, MemoryError("a.gguf is large")) == "outer: a.gguf is large"
    assert text(outer, TypeError("ggml_abs: by others")) == "outer: 'a.gguf': ggml_abs: by others"
    assert text(inner, FileNotFoundError(2, "No such file", "b")) == "[Errno 2] inner: No such file: 'b'"
    assert text(outer, FileNotFoundError(2, "No such file", "b")) == "[Errno 2] outer: No such file: 'a.gguf'"
    assert text(inner, KeyError("x")) == "'x'" and text(outer, KeyboardInterrupt()) == ""
    with pytest.raises(ValueError, match="^inner: .*codec can't decode byte 0xff"):
        inner(pytest.raises(UnicodeDecodeError, b"\xff".decode).value)
    assert inner.__name__ == "inner" and str(inspect.signature(inner)) == "(error)"


def test_names_of_files_take_the_place_of_names_of_functions():
    with pytest.raises(ValueError, match="^outer: f.gguf: broken$"), _errors.named("outer"), _errors.naming("f.gguf"):
        with _errors.named("ggml_inner"):
            raise ValueError("broken")


def test_errors_of_callbacks_are_left_alone():
    with pytest.raises(OwnError) as raised, _errors.named("outer", callbacks=True):
        raise OwnError(7, "mine")
    assert raised.value.args == (7, "mine") and raised.value.code == 7
    with pytest.raises(ValueError, match="^outer: need a tensor$"), _errors.named("outer", callbacks=True):
        with _errors.named("inner"):
            raise ValueError("need a tensor")
