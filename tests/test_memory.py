"""Memory that runs out: limits of the address space, failing allocations, tables that cannot be built."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

FAULTS = Path(__file__).resolve().parent.parent / "fuzz" / "faults.py"

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
LIMITED = """
import resource, sys
import numpy as np
import ggml
def mapped():
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
def limit(spare):
    resource.setrlimit(resource.RLIMIT_AS, (mapped() + spare, resource.RLIM_INFINITY))
def cycle(size):
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=size))
    x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4)
    ggml.ggml_free(ctx)
    return x
"""


def child(code, **environment):
    done = subprocess.run([sys.executable, "-c", LIMITED + code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@linux
@pytest.mark.parametrize("size", [300 << 20, 50 << 20, 8 << 20, 1 << 20])
def test_freed_arenas_leave_room(size):
    """Contexts that are made and freed one after the other never use up a limited address space, nor take it from
    other allocations.
    """
    child(f"""
limit(1 << 30)
for i in range((6 << 30) // {size}):
    cycle({size})
assert len(np.empty(700 << 20, np.uint8)) == 700 << 20
""")


@linux
def test_limit_set_while_arenas_are_kept():
    """What was kept reserved before the limit was set is released when an allocation fails."""
    child("""
for i in range(8):
    cycle(200 << 20)
before = mapped()
assert before > 1500 << 20
limit(100 << 20)
ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=300 << 20))
assert mapped() < before - (1 << 30)
ggml.ggml_free(ctx)
for i in range(8):
    buffer = ggml.ggml_backend_buft_alloc_buffer(ggml.ggml_backend_cpu_buffer_type(), 300 << 20)
    ggml.ggml_backend_buffer_free(buffer)
""")


@linux
def test_views_outlive_a_limited_quarantine():
    """A view keeps the memory of a freed context, however small the share of addresses is; the pages go with it."""
    child("""
from ggml.utils import to_numpy
limit(1 << 30)
views = []
for i in range(3):
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=200 << 20))
    x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 1 << 20)
    ggml.ggml_set_f32(x, i + 1)
    views.append(to_numpy(x))
    ggml.ggml_free(ctx)
assert [v[-1] for v in views] == [1, 2, 3]
before = mapped()
del views
assert mapped() <= before - (600 << 20)
""")


@linux
def test_stale_tensors_are_refused():
    """A tensor of a freed context is refused, whether its addresses are still reserved or not."""
    child("""
limit(1 << 30)
for size in (1 << 20, 300 << 20):
    x = cycle(size)
    try:
        ggml.ggml_nbytes(x)
    except RuntimeError as error:
        assert "freed" in str(error)
    else:
        sys.exit("accepted")
""")


@pytest.mark.skipif(sys.platform != "linux", reason="fuzz/faults.py needs Linux and a C compiler")
def test_failing_allocations():
    """A short run of fuzz/faults.py: programs in which an allocation fails raise an exception and work afterwards."""
    seed = str(time.time_ns() % 10**6)
    command = [sys.executable, FAULTS, "--seconds", "8", "--seed", seed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    assert int(re.search(r"^(\d+) of \d+ runs", done.stdout, re.M)[1]) > 0
