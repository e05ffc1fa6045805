"""Imports: an incomplete or hidden package, subinterpreters, Python without the GIL, ctypes of unknown layout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ggml

PACKAGE = Path(ggml.__file__).parent


def imported(folder):
    program = "import ggml; print(ggml.__file__)"
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.fixture
def copy(tmp_path):
    """A copy of the package. Programs that start in its folder import it instead of the installed one."""
    shutil.copytree(
        PACKAGE, tmp_path / "ggml", ignore=shutil.ignore_patterns("_simd", "__pycache__", "*.c", "*.pyx", "*.pxd")
    )
    libraries = PACKAGE.with_name("ggml_cython.libs")  # of a repaired wheel
    if libraries.exists():
        shutil.copytree(libraries, tmp_path / libraries.name)
    return tmp_path


def test_leftover_of_the_bindings(copy):
    clean = imported(copy)
    assert clean.returncode == 0 and str(copy) in clean.stdout and not clean.stderr
    (copy / "ggml" / "lib").mkdir()
    mixed = imported(copy)
    assert (
        mixed.returncode == 0
        and "RuntimeWarning: ggml: files of ggml-python lie in this package's folder" in mixed.stderr
    )


def test_source_folder_that_is_not_built(copy):
    for module in (copy / "ggml").glob("_core.*"):
        module.unlink()
    run = imported(copy)
    assert run.returncode == 1 and "is a source folder that is not built, and hides the installed package" in run.stderr


def test_a_subinterpreter_cannot_import_and_the_main_one_still_can(child):
    code = """
import sys
try:
    import _interpreters as interpreters
except ImportError:  # before Python 3.13
    import _xxsubinterpreters as interpreters
# Those that may load every extension module, as programs that embed Python make them, and those that share nothing.
if sys.version_info >= (3, 13):
    subs = [interpreters.create("legacy"), interpreters.create("isolated")]
elif sys.version_info >= (3, 12):
    subs = [interpreters.create(isolated=False), interpreters.create(isolated=True)]
else:
    subs = [interpreters.create()]
for sub in subs:
    try:
        error = interpreters.run_string(sub, "import ggml")
    except Exception as raised:
        error = raised
    assert "this is a subinterpreter" in str(error), error
import ggml
print(ggml.ggml_type_size(ggml.GGML_TYPE_F32))
"""
    assert child(code).split() == ["4"]


def test_modules_leave_the_gil_as_it_is(child):
    """In a free-threaded Python it stays off, whichever of the extension modules is imported."""
    code = """
import contextlib, importlib, sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import ctypes, numpy
enabled = getattr(sys, "_is_gil_enabled", lambda: True)
before = enabled()
import ggml
suffix, root = EXTENSION_SUFFIXES[0], Path(ggml.__file__).parent
files = [p.relative_to(root.parent) for p in root.rglob(f"*{suffix}")]
imported = 0
for file in files:
    with contextlib.suppress(ImportError):  # of packages that need others
        importlib.import_module(".".join(file.parts).removesuffix(suffix))
        imported += 1
print(imported > 50, enabled() == before)
"""
    assert child(code, env={k: v for k, v in os.environ.items() if k != "PYTHON_GIL"}).split() == ["True", "True"]


def test_a_python_with_unknown_ctypes_objects_uses_the_public_functions(child):
    """The same program as with the known layout: pointers of every kind, a full free list, gradients, a callback."""
    code = """
import os
os.environ["GGML_PUBLIC_CTYPES"] = "1"
import ctypes
import numpy as np
import ggml
from ggml.utils import from_numpy, to_numpy

ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
x = from_numpy(np.arange(6, dtype=np.float32), ctx)
pointers = [ggml.ggml_view_tensor(ctx, x) for _ in range(200)]
del pointers
array = (ctypes.POINTER(ggml.ggml_tensor) * 1)(x)
assert ggml.ggml_nelements(array[0]) == ggml.ggml_nelements(ctypes.cast(x, ggml.ggml_tensor_p)) == 6
assert ggml.ggml_nelements(ctypes.byref(x.contents)) == 6

floats, halves = (ctypes.c_float * 32)(*range(32)), (ctypes.c_uint16 * 32)()
for source in (floats, ctypes.byref(floats), ctypes.cast(floats, ctypes.c_void_p), ctypes.addressof(floats)):
    for target in (halves, ctypes.byref(halves), ctypes.pointer(halves)):
        halves[31] = 0
        ggml.ggml_quantize_chunk(ggml.GGML_TYPE_F16, source, target, 0, 1, 32, None)
        assert np.frombuffer(halves, np.float16)[31] == 31
        try:
            ggml.ggml_quantize_chunk(ggml.GGML_TYPE_F16, source, target, 0, 2, 32, None)
        except ValueError as error:
            assert "need" in str(error) or "is not memory of" in str(error)     # the latter at the end of a mapping
        else:
            raise AssertionError("a row too many")

@ggml.ggml_custom1_op_t
def double(dst, a, ith, nth, userdata):
    to_numpy(dst)[:] = 2 * to_numpy(a)

y = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, x, x))
z = ggml.ggml_map_custom1(ctx, x, double, 1, None)
ggml.ggml_set_param(x)
ggml.ggml_set_loss(y)
graph = ggml.ggml_new_graph_custom(ctx, 64, True)
ggml.ggml_build_forward_expand(graph, y)
ggml.ggml_build_backward_expand(ctx, graph, None)
ggml.ggml_build_forward_expand(graph, z)
ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
print(to_numpy(y)[0], *to_numpy(ggml.ggml_graph_get_grad(graph, x)), *to_numpy(z))
ggml.ggml_free(ctx)
try:
    ggml.ggml_nelements(x)
except (ValueError, RuntimeError):
    print("freed")
"""
    assert child(code).split() == [*"55.0 0.0 2.0 4.0 6.0 8.0 10.0 0.0 2.0 4.0 6.0 8.0 10.0".split(), "freed"]
