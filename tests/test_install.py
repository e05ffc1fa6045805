"""The messages of an import whose package is incomplete or hidden."""

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
# One that may load every extension module, as programs that embed Python make them.
if sys.version_info >= (3, 13):
    sub = interpreters.create("legacy")
elif sys.version_info >= (3, 12):
    sub = interpreters.create(isolated=False)
else:
    sub = interpreters.create()
try:
    error = interpreters.run_string(sub, "import ggml")
except Exception as raised:
    error = raised
print("this is a subinterpreter" in str(error))
import ggml
print(ggml.ggml_type_size(ggml.GGML_TYPE_F32))
"""
    assert child(code).split() == ["True", "4"]
