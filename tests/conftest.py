"""Fixtures that several test files use."""

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
if not any((ROOT / "ggml" / f"_core{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
    # `python -m pytest` puts the clone on the path. Its folder ggml/ is not built and would hide the installed package.
    sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != ROOT]


@pytest.fixture(scope="session", autouse=True)
def _away_from_the_clone(tmp_path_factory):
    """Child processes that run `python -c` must find the installed package, not the folder ggml/ of the clone."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    yield
    os.chdir(before)


@pytest.fixture
def ctx(request):
    """A context that grows. If the test module defines NO_ALLOC, its tensors get no memory."""
    from cases.harness import context

    with context(no_alloc=getattr(request.module, "NO_ALLOC", False)) as c:
        yield c


@pytest.fixture
def cpu():
    """The CPU backend."""
    import ggml

    b = ggml.ggml_backend_cpu_init()
    yield b
    ggml.ggml_backend_free(b)


@pytest.fixture
def child():
    """Runs Python code in a process of its own and returns its output. Fails if the process crashes or takes too
    long.
    """

    def run(code, *args, timeout=60, env=None):
        done = subprocess.run(
            [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=timeout, env=env
        )
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    return run
