"""Nothing ends the process: computing where threads, their stacks or memory are limited, and in forked children."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig

import pytest
from cases.harness import not_sanitized
from forks import FORK

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and forks as on Linux")

# Functions for the child processes. The graph is large enough for several threads: check() computes it and compares.
START = (
    FORK
    + """
    import ctypes, resource, time
    import numpy.testing        # another user may not be able to read it
    import ggml
    from ggml.utils import from_numpy, to_numpy

    class Product:
        def __init__(self, n=256):
            self.ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
            x = np.random.default_rng(1).standard_normal((n, n)).astype(np.float32)
            self.out = ggml.ggml_mul_mat(self.ctx, from_numpy(x, self.ctx), from_numpy(x, self.ctx))
            self.graph = ggml.ggml_new_graph(self.ctx)
            ggml.ggml_build_forward_expand(self.graph, self.out)
            self.expected = x.astype(float) @ x.T.astype(float)

        def check(self, threads=2):
            ggml.ggml_set_f32(self.out, 0)
            assert ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, threads) == 0
            np.testing.assert_allclose(to_numpy(self.out), self.expected, atol=1e-3)

    def quantize():
        # Large enough for gg_parallel_for to use several threads.
        x = np.ones(1 << 20, np.float32)
        y = np.zeros(len(x) // 32 * 34, np.uint8)
        size = ggml.ggml_quantize_chunk(
            ggml.GGML_TYPE_Q8_0, x.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), y.ctypes.data, 0, 1024, 1024, None
        )
        assert size == len(y) and y.reshape(-1, 34)[:, 2:].min() == 127

    def threads_of_process():
        return len(os.listdir("/proc/self/task"))

    def unprivileged():
        # Limits of threads do not apply to root.
        if os.getuid() == 0:
            os.setresgid(65534, 65534, 65534)
            os.setresuid(54321, 54321, 54321)

    def no_more_threads():
        # Whether from now on no thread can be created.
        unprivileged()
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        try:
            threading.Thread(target=int).start()
        except RuntimeError:
            return
        raise AssertionError("RLIMIT_NPROC has no effect")

    def leave_address_space(size):
        # From now on the process can map this many bytes.
        with open("/proc/self/statm") as f:
            used = int(f.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + size, resource.getrlimit(resource.RLIMIT_AS)[1]))

    product = Product()
"""
)
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}


@pytest.fixture
def limited(child):
    """Runs START and then Python code in a process of its own, with environment variables, and returns its output."""

    def run(code, timeout=60, **variables):
        if "leave_address_space" in code:
            not_sanitized()
        return child(START + code, timeout=timeout, env=ENVIRONMENT | variables)

    return run


@pytest.fixture(scope="session")
def other_user(tmp_path_factory):
    """A shared object whose function `region` runs a parallel region of the OpenMP run-time that ggml uses."""
    folder = tmp_path_factory.mktemp("other_user")
    (folder / "other.c").write_text(
        "int region(int n) {\n    int sum = 0;\n"
        "#pragma omp parallel num_threads(n) reduction(+ : sum)\n    sum += 1;\n    return sum;\n}\n"
    )
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    compiler = compiler if shutil.which(compiler[0]) else ["cc"]
    if not shutil.which(compiler[0]):
        pytest.skip("no C compiler")
    command = [*compiler, "-fopenmp", "-shared", "-fPIC", "-O1", "other.c", "-o", "other.so"]
    subprocess.run(command, cwd=folder, check=True)
    return str(folder / "other.so")


@pytest.mark.parametrize("order", ["region, ggml", "ggml, region", "region in the child"])
def test_fork_after_a_region_of_another_library(limited, other_user, order):
    """The threads of a region do not exist in a forked child, whoever ran the region."""
    out = limited(
        """
    other = ctypes.CDLL(os.environ["OTHER"])
    if os.environ["ORDER"] == "ggml, region":
        product.check()
    if os.environ["ORDER"] != "region in the child":
        assert other.region(2) == 2

    def compute():
        for generation in range(3):
            product.check()
            quantize()

    def first():    # a run-time of the other library's own would lose its threads in a second fork
        if os.environ["ORDER"] == "region in the child":
            assert other.region(2) == 2
        compute()
        in_child(compute)

    in_child(first)
    compute()
    in_child(compute)
    thread = threading.Thread(target=lambda: (compute(), in_child(compute), compute(), print("thread")))
    thread.start()
    thread.join()
    """,
        OTHER=other_user,
        ORDER=order,
    )
    assert out.split() == ["thread"]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("size", ["", "16k", "64M", "100g"])
@pytest.mark.parametrize("order", ["torch, ggml", "ggml, torch", "ggml, fork, torch, ggml"])
def test_fork_after_regions_of_pytorch(limited, order, size):
    """PyTorch brings an OpenMP run-time, which ggml shares unless its wheel brings another."""
    out = limited(
        """
    def train():
        import torch
        torch.set_num_threads(1 if os.environ.get("OMP_STACKSIZE") == "100g" else 2)    # two would end the process
        x = torch.ones(500, 500)
        assert (x @ x)[3, 3] == 500 and float((torch.ones(3000, 1000) * 2).sum()) == 6e6

    def compute():
        for _ in range(2):
            product.check()
            quantize()

    def compute_alone():
        no_more_threads()
        compute()

    for step in os.environ["ORDER"].split(", "):
        {"torch": train, "ggml": compute, "fork": lambda: in_child(compute)}[step]()
    in_child(lambda: (compute(), in_child(compute)))
    in_child(compute_alone)
    compute()
    print("computed")
    """,
        ORDER=order,
        timeout=300,
        **({"OMP_STACKSIZE": size} if size else {}),
    )
    assert out.split()[-1] == "computed"


@pytest.mark.parametrize("other_thread", [False, True])
def test_fork_during_training(limited, other_thread):
    """A child that is forked between two steps, or while another thread trains, computes, also with the session; the
    parent trains on.
    """
    code = f"""
    from ggml.training import Session, adamw
    x = np.random.default_rng(2).standard_normal((512, 32)).astype(np.float32)
    y = x @ np.ones((32, 4), np.float32)
    fork = lambda step: in_child(product.check) if step.batch == 2 and not {other_thread} else None
    with Session(threads=2, callbacks=fork) as s:
        w = s.parameter("w", np.zeros((4, 32)))
        loss = ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR
        s.start(lambda ctx, x: ggml.ggml_mul_mat(ctx, w, x), 32, 64, loss, adamw(1e-2))
        first = s.epoch(x, y)[0]
        trainer = threading.Thread(target=lambda: [s.epoch(x, y) for _ in range(20)])
        trainer.start()
        if {other_thread}:
            in_child(lambda: (product.check(), s.predict(x), s.epoch(x, y)))
        trainer.join()
        assert s.epoch(x, y)[0] < first / 2
    print("trained")
    """
    assert limited(code).split()[-1] == "trained"


def test_importing_ggml_in_a_forked_child(child, other_user):
    """The child cannot know that its OpenMP threads are lost, because ggml was imported after the fork."""
    started = START.replace("    import ggml\n    from ggml.utils", "    from ggml.utils")
    assert started != START
    code = """if 1:
    import ctypes, os, signal
    other = ctypes.CDLL(os.environ["OTHER"])
    assert other.region(2) == 2
    pid = os.fork()
    signal.alarm(50)
    if pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        print("child", flush=True)
        os._exit(0)
    """
    end = """
    for _ in range(3):
        product.check()
    quantize()
    threading.Thread(target=product.check).start()
    """
    code = code.rstrip() + START.replace("if 1:", "", 1) + end
    assert child(code, env=ENVIRONMENT | {"OTHER": other_user}).split() == ["child"]


@pytest.mark.parametrize("before", ["", "product.check()"])
def test_no_thread_can_be_created(limited, before):
    """One thread computes. Threads that exist are used until an attempt to fork ends them."""
    out = limited(f"""
    {before}
    before = threads_of_process()
    no_more_threads()
    for _ in range(3):
        product.check()
        quantize()
    assert threads_of_process() == before
    try:
        os.fork()
    except BlockingIOError:
        product.check()
        print("computed")
    """)
    assert out.split() == ["computed"]


def test_no_thread_can_be_created_in_the_child(limited):
    out = limited("""
    product.check()
    in_child(lambda: (no_more_threads(), product.check(), quantize()))
    print("computed")
    """)
    assert out.split() == ["computed"]


def test_threads_are_used_once_they_can_be_created(limited):
    """A limit that is lifted: the team is tried again."""
    out = limited("""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = threads_of_process()
    leave_address_space(4 << 20)
    product.check()
    assert threads_of_process() == before
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    time.sleep(1.2)
    product.check()
    print(threads_of_process() - before)
    """)
    assert int(out) == (1 if ggml_threads() > 1 else 0)


def ggml_threads():
    import ggml

    return ggml._core.build_info()["threads"]


@pytest.mark.parametrize("mebibytes", [0, 1, 4, 8, 9, 12, 16, 24, 40])
def test_little_address_space(limited, mebibytes):
    """A thread, its stack or libgomp's memory cannot be had: fewer threads compute."""
    out = limited(
        f"""
    other = Product(320)
    ggml.ggml_graph_compute_with_ctx(product.ctx, product.graph, 1)     # has what one thread needs
    leave_address_space({mebibytes} << 20)
    for work in product.check, other.check, quantize:
        try:
            work()
        except MemoryError:
            pass
    print("survived")
    """,
        timeout=60,
    )
    assert out.split() == ["survived"]


def test_tables_of_types_without_memory(limited):
    """Types whose encoders make tables at their first use."""
    out = limited("""
    import ctypes
    malloc = ctypes.CDLL(None).malloc
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    rows, weights, data = np.ones((8, 256), np.float32), np.ones(256, np.float32), np.zeros(1 << 14, np.uint8)
    leave_address_space(0)
    for size in 1 << 18, 1 << 14:
        while malloc(size):     # what the C library has in reserve
            pass
    for kind in ggml.GGML_TYPE_IQ2_XXS, ggml.GGML_TYPE_IQ1_S, ggml.GGML_TYPE_IQ3_S:
        try:
            print(ggml.ggml_quantize_chunk(kind, rows, data, 0, 8, 256, weights))
        except MemoryError as error:
            print(str(error).split(":")[0])
    """)
    assert out.split() == ["ggml_quantize_chunk"] * 3


@pytest.mark.parametrize("size", ["16k", "20000B", "48k", "100k", "300k", "64M", "1g", "100g", "9999999g", "nonsense"])
def test_stacks_of_threads(limited, size):
    """Kernels run only where the stack suffices; a stack that is too large is not tried."""
    out = limited(
        """
    for _ in range(3):
        product.check()
        quantize()
    thread = threading.Thread(target=product.check)
    thread.start()
    thread.join()
    in_child(product.check)
    print("computed")
    """,
        OMP_STACKSIZE=size,
    )
    assert out.split()[-1] == "computed"


SMALLEST_STACK = (52 if sys.version_info >= (3, 14) else 32) << 10  # that Python allows for a thread


@pytest.mark.parametrize("size", [SMALLEST_STACK, 64 << 10, 200 << 10])
def test_python_threads_with_small_stacks(limited, size):
    out = limited(f"""
    done = []
    threading.stack_size({size})
    compute = ggml.ggml_graph_compute_with_ctx
    thread = threading.Thread(target=lambda: done.append(compute(product.ctx, product.graph, 2)))
    thread.start()
    thread.join()
    print(done)
    """)
    assert out.split() == ["[0]"]


@pytest.mark.parametrize(
    "variables",
    [
        {"OMP_NUM_THREADS": "1"},
        {"OMP_THREAD_LIMIT": "1"},
        {"OMP_THREAD_LIMIT": "2"},
        {"OMP_DYNAMIC": "true"},
        {"OMP_MAX_ACTIVE_LEVELS": "3", "OMP_NESTED": "true"},
        {"OMP_WAIT_POLICY": "passive"},
        {"OMP_PROC_BIND": "true"},
    ],
    ids=lambda v: ",".join(map("=".join, v.items())),
)
def test_variables_of_openmp(limited, variables):
    """Custom operations are called n_tasks times, however many threads there are, and may compute themselves."""
    out = limited(
        """
    inner = Product(192)
    calls, lock = [], threading.Lock()

    @ggml.ggml_custom1_op_t
    def op(dst, a, ith, nth, userdata):
        with lock:
            calls.append((ith, nth))
            inner.check()

    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    x = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 1024, 1024)
    ggml.ggml_set_f32(x, 1)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_map_custom1(ctx, ggml.ggml_sqr(ctx, x), op, 3, None))
    assert ggml.ggml_graph_compute_with_ctx(ctx, graph, 3) == 0
    assert sorted(calls) == [(0, 3), (1, 3), (2, 3)], calls
    product.check()
    quantize()
    print("computed")
    """,
        **variables,
    )
    assert out.split() == ["computed"]


def test_many_python_threads_at_once_with_little_address_space(limited):
    """Each Python thread has OpenMP threads of its own."""
    out = limited("""
    products, failures = [Product(160) for _ in range(12)], []
    start = threading.Barrier(len(products))

    def work(p):
        start.wait()
        for _ in range(10):
            try:
                p.check()
            except MemoryError:
                pass
            except BaseException as e:
                failures.append(e)

    threads = [threading.Thread(target=work, args=(p,)) for p in products]
    for thread in threads[:-1]:
        thread.start()
    leave_address_space(80 << 20)
    threads[-1].start()
    for thread in threads:
        thread.join()
    print(failures)
    """)
    assert out.split() == ["[]"]
