"""Memory that runs out: limits of the address space, failing allocations, no memory for Python's objects."""

import itertools
import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy as np
import pytest
from cases.harness import not_sanitized

import ggml
from ggml.utils import to_numpy

if sys.platform != "win32":
    import resource

FAULTS = Path(__file__).resolve().parents[2] / "fuzz" / "faults.py"

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
    if "limit(" in code:
        not_sanitized()
    done = subprocess.run([sys.executable, "-c", LIMITED + code], capture_output=True, text=True, timeout=600,
                          env=os.environ | environment)  # fmt: skip
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


def test_freed_contexts_are_found_by_address():
    """Tensors of many contexts, freed in any order, are refused; memory of the caller computes as before."""
    rng, x = np.random.default_rng(1), np.ones(64, np.float32)
    made = [ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 14)) for _ in range(1500)]
    tensors = [ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 8) for ctx in made]
    views = {i: to_numpy(tensors[i]) for i in range(0, 1500, 100)}
    for i, view in views.items():
        view[:] = i
    for i in rng.permutation(1500):
        ggml.ggml_free(made[i])
    for i in rng.permutation(1500):
        with pytest.raises(RuntimeError, match="freed"):
            ggml.ggml_nbytes(tensors[i])
    assert all((view == i).all() for i, view in views.items())
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20))
    mine = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 64)
    mine.contents.data = x.ctypes.data
    graph = ggml.ggml_new_graph(ctx)
    total = ggml.ggml_sum(ctx, mine)
    ggml.ggml_build_forward_expand(graph, total)
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
    assert to_numpy(total) == 64
    ggml.ggml_free(ctx)


@linux
def test_small_contexts_keep_little_memory():
    """What thousands of freed contexts keep has a limit, whatever they used and in whatever order they were freed; a
    pointer into one of the last thousand is refused, and new tensors are zero.
    """
    not_sanitized("it keeps freed memory")
    child("""
import ctypes, random
from ggml.utils import to_numpy
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
rng, live, stale, views = random.Random(1), [], [], []
before = resident()
for i in range(4000):
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=rng.choice([1 << 14, 1 << 20, 5 << 20, 16 << 20])))
    n = rng.choice([4, 1000, 3000]) if i % 50 else ggml.ggml_get_mem_size(ctx) // 5
    x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, n)
    if i % 7 == 0:
        assert not to_numpy(x).any(), i
    ctypes.memset(ggml.ggml_get_data(x), 1, 4 * n)
    if i % 500 == 0:
        views.append(to_numpy(x))
    live.append((ctx, x))
    while len(live) > (i // 700) % 4 * 3:
        ctx, x = live.pop(rng.randrange(len(live)))
        ggml.ggml_free(ctx)
        stale.append(x)
assert all((v.view(np.uint8) == 1).all() for v in views)
views.clear()
for x in stale[-900:]:
    try:
        ggml.ggml_nbytes(x)
    except RuntimeError as error:
        assert "freed" in str(error)
    else:
        sys.exit("accepted")
for ctx, x in live:
    ggml.ggml_free(ctx)
assert resident() - before < 128 << 20, resident() - before
""")


@linux
def test_contexts_take_over_pages():
    """Contexts that grow use the pages of freed ones, also after many of other sizes; what is kept has a limit."""
    not_sanitized("it keeps freed memory")
    child("""
import ctypes
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def fill(ctx, size):
    ctypes.memset(ggml.ggml_get_data(ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I8, size)), 1, size)
def grown():
    made = [ggml.ggml_init(ggml.ggml_init_params(mem_size=0)) for _ in range(3)]
    for ctx in made * 8:
        fill(ctx, 600_000)
    for ctx in made:
        ggml.ggml_free(ctx)
grown()
before = resident()
for size in range(2 << 20, 16 << 20, 1 << 19):
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=size + 4096))
    fill(ctx, size)
    ggml.ggml_free(ctx)
assert resident() - before < 70 << 20, resident() - before
grown(), grown()
before = faults()
grown()
libc, size = ctypes.CDLL(None), ctypes.c_size_t(4096)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
page = ctypes.c_void_p(libc.mmap(None, size, 3, 0x22, -1, None))
libc.mremap(page, size, size, 5, None)    # MREMAP_MAYMOVE | MREMAP_DONTUNMAP: an emulator unmaps it, msync then fails
assert faults() - before < 600 or libc.msync(page, size, 1), faults() - before    # of 3,500 pages
""")


@linux
def test_contexts_that_use_little_lie_side_by_side():
    """Also after one of their size used much, whose pages the next one gets."""
    not_sanitized("it keeps freed memory")
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        pytest.skip("no contexts lie side by side where addresses are limited")

    def address(n):
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20))
        data = ggml.ggml_get_data(ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, n))
        ggml.ggml_free(ctx)
        return data

    for _ in range(5):
        address(200_000)
    places = [address(4) for _ in range(200)][100:]
    assert sum(0 < b - a < 1 << 16 for a, b in itertools.pairwise(places)) > 50


@linux
def test_freed_contexts_in_limited_address_space():
    """Freed contexts keep a small part of the addresses that the process may have."""
    not_sanitized("it limits the address space")
    child("""
import resource
def addresses():
    return int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (addresses() + (6 << 30),) * 2)
before = most = addresses()
for _ in range(700):
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=4 << 20))
    ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 420_000)
    ggml.ggml_free(ctx)
    most = max(most, addresses())
assert most - before < 400 << 20, most - before
""")


@pytest.mark.skipif(sys.platform != "linux", reason="fuzz/faults.py needs Linux and a C compiler")
def test_failing_allocations():
    """A short run of fuzz/faults.py: programs in which an allocation fails raise an exception and work afterwards."""
    not_sanitized("it replaces the functions that fuzz/faults.py replaces")
    seed = str(time.time_ns() % 10**6)
    command = [sys.executable, FAULTS, "--seconds", "8", "--seed", seed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    assert int(re.search(r"^(\d+) of \d+ runs", done.stdout, re.M)[1]) > 0


@linux
def test_no_memory_for_python_objects(tmp_path):
    """Calls without memory for Python's objects, tracebacks included, end nothing, and work afterwards."""
    if sysconfig.get_config_var("Py_GIL_DISABLED") and sys.version_info < (3, 14):
        pytest.skip("CPython 3.13t: a list that gets no memory releases the items of an earlier list (PyList_New)")
    pytest.importorskip("_testcapi", reason="a Python without its test modules")
    child(
        """
import _testcapi, ctypes, itertools, os
path = os.environ["MADE"]
cpu, second = ggml.ggml_backend_cpu_init(), ggml.ggml_backend_cpu_init()
sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 64, False)
ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=True))
x = ggml.ggml_set_name(ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 4), b"x")
graph = ggml.ggml_new_graph(ctx)
ggml.ggml_build_forward_expand(graph, ggml.ggml_sqr(ctx, x))
file = ggml.gguf_init_empty()
ggml.gguf_set_arr_str(file, b"strings", [b"a", b"bc"], 2)
ggml.gguf_write_to_file(file, path.encode(), False)
data = ctypes.c_void_p()
params = ggml.gguf_init_params(no_alloc=True, ctx=ctypes.pointer(data))
def without_memory(first, function, *args):
    # Whether the call succeeds when 1,000 allocations from the first on fail. Without an end, an interpreter that needs
    # memory to enter an exception handler (CPython 3.13) would try forever.
    _testcapi.set_nomemory(first, first + 1000)
    try:
        function(*args)
    except Exception:
        return False
    finally:
        _testcapi.remove_mem_hooks()
    return True
for call in (
    (ggml.gguf_init_from_file, path, params), (ggml.ext.gguf_init_from_file_mmap, path, params),
    (ggml.ggml_backend_sched_new, (ctypes.c_void_p * 1)(second), None, 1, 64, False),
    (ggml.ggml_backend_sched_alloc_graph, sched, graph), (ggml.ggml_backend_sched_graph_compute, sched, graph),
    (ggml.ggml_backend_sched_reserve, sched, graph), (ggml.ggml_backend_sched_reset, sched),
):
    for n in itertools.count(1):
        pid = os.fork()
        if not pid:
            done = without_memory(n, *call)
            others = [AttributeError() for _ in range(1000)]  # take the place of what was freed too early
            call[0](*call[1:])
            ggml.ggml_backend_free(second)
            os._exit(77 if done else 0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status == 77:
            break
        if status:
            sys.exit(f"{call[0]} without memory from allocation {n} on: status {status}")
""",
        MADE=str(tmp_path / "made.gguf"),
    )
