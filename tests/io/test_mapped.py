"""Files that other programs shorten, write to or replace while they are mapped: an error, never a bus error.

Each case runs in a process of its own: where it goes wrong, the process ends by a signal.
"""

import signal
import subprocess
import sys

import numpy as np
import pytest
from python_command import PYTHON

import ggml

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the system lets nobody shorten a mapped file")
ROWS, COLUMNS = 512, 4096

BEGIN = f"""
import ctypes, faulthandler, mmap, os, signal, sys, threading, time
import numpy as np
import ggml
from ggml.utils import to_numpy

path, n = sys.argv[1], os.path.getsize(sys.argv[1])
context = ctypes.c_void_p()
file = ggml.ext.gguf_init_from_file_mmap(path, ggml.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(context)))
w = ggml.ggml_get_tensor(context.value, b"w")
ctx = ggml.ggml_init(ggml.ggml_init_params(1 << 24))
x = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, {COLUMNS}, 2)
to_numpy(x)[...] = 1
graph = ggml.ggml_new_graph(ctx)
y = ggml.ggml_mul_mat(ctx, w, x)
ggml.ggml_build_forward_expand(graph, y)

def compute():
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 2)
    return to_numpy(y).copy()

def fails(call, *args):
    try:
        call(*args)
    except RuntimeError as error:
        text = str(error)
        assert "a file was written to or shortened by another program while it was mapped" in text, text
        return text.partition(":")[0]
    raise AssertionError("no error")

def write(at, data):
    time.sleep(0.05)  # times of files have steps of some milliseconds
    with open(path, "r+b") as other:
        other.seek(at)
        other.write(data)
"""

CASES = {
    "shortened": """
        before = compute()
        os.truncate(path, 8192)
        for _ in range(5):
            assert fails(compute) == "ggml_graph_compute_with_ctx"
        """,
    "shortened before the first access": """
        os.truncate(path, 0)
        assert fails(compute) == "ggml_graph_compute_with_ctx"
        """,
    "shortened after the graph was prepared": """
        for _ in range(6):
            compute()
        os.truncate(path, n - 5000)
        assert fails(compute) == "ggml_graph_compute_with_ctx"
        """,
    "shortened while it is computed with": """
        threading.Thread(target=lambda: (time.sleep(0.05), os.truncate(path, 4096))).start()
        def many():
            for _ in range(100_000):
                compute()
        assert fails(many) == "ggml_graph_compute_with_ctx"
        """,
    "shortened in a callback of the compute": """
        def cut(t, a, ith, nth, userdata):
            os.truncate(path, 4096)
        z = ggml.ggml_map_custom1(ctx, x, cut, 1, None)
        graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(graph, z)
        y = ggml.ggml_mul_mat(ctx, w, z)
        ggml.ggml_build_forward_expand(graph, y)
        assert fails(ggml.ggml_graph_compute_with_ctx, ctx, graph, 2) == "ggml_graph_compute_with_ctx"
        """,
    "written to": """
        compute()
        write(n - 100, b"abcd")
        assert fails(compute) == "ggml_graph_compute_with_ctx"
        """,
    "made longer": """
        compute()
        write(n, b"abcd")
        assert fails(compute) == "ggml_graph_compute_with_ctx"
        """,
    "replaced by another file": """
        before = compute()
        with open(path + ".new", "wb") as other:
            other.write(bytes(100))
        os.replace(path + ".new", path)
        assert (compute() == before).all()  # the mapping is that of the old file
        """,
    "deleted": """
        before = compute()
        os.unlink(path)
        assert (compute() == before).all()
        """,
    "read": """
        assert to_numpy(w)[5, 5] == 5.5
        os.stat(path), open(path, "rb").read()
        assert compute()[0, 7] == compute()[1, 7]
        """,
    "views of NumPy": """
        view = to_numpy(w)
        os.truncate(path, 4096)
        assert view[-1].sum() == 0 and view.sum() >= 0  # zeros, not the end of the process
        fails(to_numpy, w)
        fails(np.asarray, w)
        """,
    "copies out of tensors": """
        os.truncate(path, 4096)
        out = np.empty((ROWS, COLUMNS), np.float32)
        assert fails(ggml.ggml_backend_tensor_get, w, out, 0, out.nbytes) == "ggml_backend_tensor_get"
        """,
    "opened again": """
        data = open(path, "rb").read()
        os.truncate(path, 4096)
        fails(compute)
        write(0, data)
        fails(compute)
        for _ in range(3):
            ggml.gguf_free(file), ggml.ggml_free(context.value)
            file = ggml.ext.gguf_init_from_file_mmap(path, ggml.gguf_init_params(False, ctypes.pointer(context)))
            w = ggml.ggml_get_tensor(context.value, b"w")
            assert to_numpy(w)[5, 5] == 5.5
        """,
    "a handler of another module": """
        faulthandler.enable()
        compute()
        os.truncate(path, 4096)
        fails(compute)
        """,
    "in a forked child": """
        compute()
        child = os.fork()
        if not child:
            os.truncate(path, 4096)
            try:
                fails(compute)
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        fails(compute)
        """,
}

# What has nothing to do with files that the library has mapped ends the process as ever.
OTHER = """
with open(path + ".other", "wb") as other:
    other.write(bytes(8192))
with open(path + ".other", "r+b") as other:
    memory = mmap.mmap(other.fileno(), 8192)
compute()
"""
FATAL = {
    "another mapping": "os.truncate(path + '.other', 0); memory[5000]",
    "another mapping, reported": "faulthandler.enable(); compute(); os.truncate(path + '.other', 0); memory[5000]",
    "another mapping, reported before": "os.truncate(path + '.other', 0); memory[5000]",
    "a signal": "os.kill(os.getpid(), signal.SIGBUS); time.sleep(5)",
    "a signal, reported": "faulthandler.enable(); compute(); os.kill(os.getpid(), signal.SIGBUS); time.sleep(5)",
}


@pytest.fixture
def path(tmp_path):
    """A GGUF file with a tensor of 8 MiB."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(1 << 24))
    w = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, COLUMNS, ROWS)
    ggml.ggml_set_name(w, b"w")
    np.asarray(w)[...] = np.arange(ROWS)[:, None] + np.float32(0.5)
    file = ggml.gguf_init_empty()
    ggml.gguf_add_tensor(file, w)
    assert ggml.gguf_write_to_file(file, tmp_path / "w.gguf", False)
    ggml.gguf_free(file), ggml.ggml_free(ctx)
    return tmp_path / "w.gguf"


def run(code, path, *options):
    code = f"ROWS, COLUMNS = {ROWS}, {COLUMNS}\n{BEGIN}\n{code}\nprint('done')"
    return subprocess.run([*PYTHON, *options, "-c", code, path], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("case", CASES)
def test_mapped_files_that_others_change(case, path):
    lines = [line.removeprefix("        ") for line in CASES[case].splitlines()]
    done = run("\n".join(lines), path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("case", FATAL)
def test_bus_errors_elsewhere_end_the_process(case, path):
    options = ["-X", "faulthandler"] if case.endswith("before") else []
    done = run(OTHER + FATAL[case], path, *options)
    assert done.returncode == -signal.SIGBUS and done.stdout == ""
    assert ("Bus error" in done.stderr) == ("reported" in case)
