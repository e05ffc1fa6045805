"""Several Python threads at a time, and results that do not depend on the number of threads."""

import contextlib
import ctypes
import gc
import itertools
import os
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from cases.harness import ISAS, compute, context, elements, graph_of, isa, load, store, tensor

import ggml
from ggml import _core
from ggml.utils import from_numpy, to_numpy

F32 = ggml.GGML_TYPE_F32
# By ThreadSanitizer: results that two computes write are a race, of the program.
RACES_ARE_REPORTED = "tsan" in os.environ.get("LD_PRELOAD", "")


def network(ctx, seed, n=96):
    """A graph of products, sums and functions, and its result."""
    rng = np.random.default_rng(seed)
    w, x = (ggml.ggml_new_tensor_2d(ctx, F32, n, n) for _ in range(2))
    store(w, rng.standard_normal((n, n)) / 8)
    store(x, rng.standard_normal((n, n)))
    for _ in range(6):
        x = ggml.ggml_tanh(ctx, ggml.ggml_mul_mat(ctx, w, x))
        x = ggml.ggml_add(ctx, x, ggml.ggml_soft_max(ctx, x))
    return graph_of(ctx, x), x


def expected(seed, n=96):
    rng = np.random.default_rng(seed)
    w = (rng.standard_normal((n, n)) / 8).astype(np.float32).astype(float)
    x = rng.standard_normal((n, n)).astype(np.float32).astype(float)
    for _ in range(6):
        x = np.tanh(x @ w.T)
        e = np.exp(x - x.max(-1, keepdims=True))
        x = x + e / e.sum(-1, keepdims=True)
    return x


def in_threads(n, work):
    """Calls work(0) to work(n - 1), each in a thread of its own, and raises the first exception."""
    errors = []

    def guarded(k):
        try:
            work(k)
        except BaseException as e:
            errors.append(e)

    workers = [threading.Thread(target=guarded, args=(k,)) for k in range(n)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    if errors:
        raise errors[0]


@pytest.fixture
def switching():
    """Python changes the thread as often as it can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("threads", [1, 2])
def test_separate_graphs_in_several_python_threads(threads):
    barrier = threading.Barrier(4)

    def work(seed):
        with context() as ctx:
            graph, out = network(ctx, seed)
            barrier.wait()
            for _ in range(20):
                compute(ctx, graph, threads)
                np.testing.assert_allclose(load(out)[0, 0], expected(seed), atol=2e-5)

    in_threads(4, work)


def test_one_backend_in_several_python_threads():
    """Each thread computes a graph of its own; another changes the settings and frees backends meanwhile."""
    cpu, done, counts = ggml.ggml_backend_cpu_init(), threading.Event(), itertools.cycle([1, 2])

    def work(seed):
        if not seed:
            while not done.is_set():
                ggml.ggml_backend_cpu_set_n_threads(cpu, next(counts))
                other = ggml.ggml_backend_cpu_init()
                ggml.ggml_backend_free(other)
                with context() as ctx, pytest.raises(RuntimeError, match="^ggml_backend_graph_compute: "):
                    ggml.ggml_backend_graph_compute(other, ggml.ggml_new_graph(ctx))
            return
        try:
            with context() as ctx:
                graph, out = network(ctx, seed)
                for _ in range(40):
                    assert ggml.ggml_backend_graph_compute(cpu, graph) == ggml.GGML_STATUS_SUCCESS
                np.testing.assert_allclose(load(out)[0, 0], expected(seed), atol=2e-5)
        finally:
            done.set()

    in_threads(4, work)
    ggml.ggml_backend_free(cpu)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("take_turns", [True, False])
def test_one_graph_in_several_python_threads(threads, take_turns, switching):
    """Threads that take turns compute a graph as one thread does. Without turns they race for the same tensors: a
    program must not do that, and what it gets is undefined, but it does not crash, and the next compute is right.
    """
    if not take_turns and RACES_ARE_REPORTED:
        pytest.skip("ThreadSanitizer reports the races of this program")
    turn = threading.Lock() if take_turns else contextlib.nullcontext()
    with context() as ctx:
        graph, out = network(ctx, 5)

        def work(k):
            for _ in range(30):
                with turn:
                    compute(ctx, graph, threads)

        in_threads(4, work)
        if not take_turns:
            compute(ctx, graph, threads)
        np.testing.assert_allclose(load(out)[0, 0], expected(5), atol=2e-5)


def test_exceptions_arrive_in_the_thread_that_computes():
    caught, barrier = {}, threading.Barrier(3)

    def work(k):
        with context() as ctx:

            def fun(dst, a, ith, nth, userdata):
                raise KeyError(k)

            made = ggml.ggml_custom1_op_t(fun)
            graph = graph_of(ctx, ggml.ggml_map_custom1(ctx, ggml.ggml_new_tensor_1d(ctx, F32, 4), made, 2, None))
            barrier.wait()
            for _ in range(10):
                try:
                    ggml.ggml_graph_compute_with_ctx(ctx, graph, 2)
                except KeyError as e:
                    caught.setdefault(k, []).append(e.args[0])

    in_threads(3, work)
    assert caught == {k: [k] * 10 for k in range(3)}


def test_exceptions_outside_of_computes_stay_in_their_thread():
    """An exception of a callback waits for the function that called it, not for one of another thread."""
    _core.defer_error(KeyError("here"))
    in_threads(1, lambda k: _core.raise_deferred())
    with pytest.raises(KeyError, match="here"):
        _core.raise_deferred()
    _core.raise_deferred()


def test_messages_name_the_function_of_their_thread():
    """Converting an argument may run Python code, during which other threads call other functions."""

    class Busy:
        def __index__(self):
            in_threads(1, lambda k: ggml.ggml_threadpool_params_default(1))
            return -1

    with context() as ctx, pytest.raises(ValueError, match="^ggml_new_tensor_1d: "):
        ggml.ggml_new_tensor_1d(ctx, F32, Busy())


def waits(base=object, init=(), **results):
    """An object of which each of the methods waits for calls of another thread, one of which frees a context."""

    def after(result):
        def method(*args):
            in_threads(1, lambda k: ggml.ggml_free(ggml.ggml_init(ggml.ggml_init_params(64, None, False))))
            return result

        return method

    return type("Waits", (base,), {name: after(result) for name, result in results.items()})(*init)


@pytest.mark.parametrize(
    "call",
    [
        lambda ctx, t: ggml.ggml_new_tensor_1d(ctx, F32, waits(__index__=4)),
        lambda ctx, t: ggml.ggml_new_tensor(ctx, F32, 2, waits(list, ([3, 4],), __len__=2, __iter__=iter((3, 4)))),
        lambda ctx, t: ggml.ggml_scale(ctx, t, waits(__float__=2.0)),
        lambda ctx, t: ggml.ggml_set_no_alloc(ctx, waits(__bool__=False)),
        lambda ctx, t: ggml.ggml_format_name(t, b"%s", waits(__bytes__=b"name")),
        lambda ctx, t: ggml.ggml_threadpool_params_default(waits(__index__=1)),
        lambda ctx, t: ggml.ggml_get_f32_1d(t, waits(__index__=0)),
        lambda ctx, t: ggml.gguf_set_val_f32(ggml.gguf_init_empty(), b"key", waits(__float__=1.0)),
        lambda ctx, t: ggml.ggml_backend_cpu_buffer_from_ptr(waits(__index__=ggml.ggml_get_data(t)), 16),
        lambda ctx, t: ggml.gguf_init_from_file(waits(__fspath__="none"), ggml.gguf_init_params(True, None)),
        lambda ctx, t: ggml.ggml_sqr(ctx, waits(__repr__="text")),
        lambda ctx, t: ggml.ggml_backend_name(waits(__repr__="text", __hash__=1, __eq__=True)),
        lambda ctx, t: ggml.ggml_map_custom1(ctx, t, lambda *a: None, 1, waits(bytearray, (8,), __del__=None)),
    ],
)
def test_code_of_a_program_within_a_call_may_wait_for_calls_of_another_thread(call):
    with context() as ctx:
        t = ggml.ggml_set_f32(ggml.ggml_new_tensor_1d(ctx, F32, 4), 1.0)
        with contextlib.suppress(TypeError, OSError):  # of those that are of no use
            call(ctx, t)


def test_what_was_looked_up_may_be_freed_while_an_argument_is_converted():
    class Frees:
        def __index__(self):
            in_threads(1, lambda k: ggml.ggml_free(ctx))
            return 4

    ctx = ggml.ggml_init(ggml.ggml_init_params(1 << 16, None, False))
    if not _core.has_gil():
        with pytest.raises(RuntimeError, match="^ggml_new_tensor_2d: ctx .* is not a live context"):
            ggml.ggml_new_tensor_2d(ctx, F32, 4, Frees())


def test_a_callback_for_messages_lives_until_it_returns(capfd):
    """It may set another one, and so may another thread."""
    alive = []

    def replace(level, text, data):
        ggml.ggml_log_set(None, None)
        gc.collect()
        alive.append(callback() is not None)

    made = ggml.ggml_log_callback(replace)
    callback = weakref.ref(made)
    ggml.ggml_log_set(made, None)
    del made
    with context() as ctx:
        ggml.ggml_print_objects(ctx)
    gc.collect()
    assert alive == [True] and callback() is None
    assert capfd.readouterr().err.endswith("--- end ---\n")


def test_threads_that_make_and_free_everything(switching, tmp_path):
    """Contexts, views that outlive them, gradients, backends, schedulers, files, and messages of mistakes: what threads
    share unknowingly are the registries and caches of the library.
    """

    def gradient(x):
        with context() as ctx:
            t = from_numpy(x, ctx)
            ggml.ggml_set_param(t)
            loss = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, t))
            ggml.ggml_set_loss(loss)
            graph = ggml.ggml_new_graph_custom(ctx, 32, True)
            ggml.ggml_build_forward_expand(graph, loss)
            ggml.ggml_build_backward_expand(ctx, graph, None)
            for _ in range(3):  # the third compute uses the plan of a prepared graph
                ggml.ggml_graph_reset(graph)
                compute(ctx, graph, 1)
            return to_numpy(ggml.ggml_graph_get_grad(graph, t))  # a view that outlives its context

    def scheduled(x):
        cpu = ggml.ggml_backend_cpu_init()
        sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 32, False)
        with context(no_alloc=True) as ctx:
            t = ggml.ggml_new_tensor_1d(ctx, F32, len(x))
            ggml.ggml_set_input(t)
            doubled = ggml.ggml_add(ctx, t, t)
            graph = graph_of(ctx, doubled)
            assert ggml.ggml_backend_sched_alloc_graph(sched, graph)
            ggml.ggml_backend_tensor_set(t, x, 0, x.nbytes)
            assert ggml.ggml_backend_sched_graph_compute(sched, graph) == ggml.GGML_STATUS_SUCCESS
            out = np.empty_like(x)
            ggml.ggml_backend_tensor_get(doubled, out, 0, out.nbytes)
            ggml.ggml_backend_sched_free(sched)
            ggml.ggml_backend_free(cpu)
        return out

    def in_file(path, n):
        file = ggml.gguf_init_empty()
        ggml.gguf_set_val_u32(file, "n", n)
        assert ggml.gguf_write_to_file(file, path, True)
        ggml.gguf_free(file)
        file = ggml.gguf_init_from_file(path, ggml.gguf_init_params(no_alloc=True, ctx=None))
        found = ggml.gguf_get_val_u32(file, ggml.gguf_find_key(file, "n"))
        ggml.gguf_free(file)
        return found

    def work(k):
        x = np.random.default_rng(k).standard_normal(50).astype(np.float32)
        for i in range(100):
            np.testing.assert_array_equal(gradient(x), 2 * x)
            np.testing.assert_array_equal(scheduled(x), 2 * x)
            assert in_file(tmp_path / f"{k}.gguf", i) == i
            with context() as ctx, pytest.raises(ValueError, match="^ggml_mul_mat: "):
                ggml.ggml_mul_mat(ctx, ggml.ggml_new_tensor_1d(ctx, F32, k + 1), ggml.ggml_new_tensor_1d(ctx, F32, 99))
            with pytest.raises(RuntimeError, match="^ggml_new_graph: .* is not a live context"):
                ggml.ggml_new_graph(ctx)

    in_threads(6, work)


def test_python_runs_while_a_graph_computes():
    """The GIL is released: a counter in another thread advances during one compute."""
    with context() as ctx:
        t = ggml.ggml_new_tensor_2d(ctx, F32, 4096, 256)
        ggml.ggml_set_f32(t, 0.5)
        for _ in range(60):
            t = ggml.ggml_sin_inplace(ctx, t)
        graph = graph_of(ctx, t)
        ticks, done = [0], threading.Event()

        def count():
            while not done.is_set():
                ticks[0] += 1

        counter = threading.Thread(target=count)
        counter.start()
        before = ticks[0]
        compute(ctx, graph, 1)
        moved = ticks[0] - before
        done.set()
        counter.join()
        assert moved > 1000


@pytest.mark.parametrize("threads", [2, 3, 5, 16])
def test_results_do_not_depend_on_threads(threads):
    """Bit by bit, also for products and soft-max, on every ISA, and when computed repeatedly."""
    with context() as ctx:
        graph, out = network(ctx, 5, n=130)
        for name in ISAS:
            with isa(name):
                compute(ctx, graph, 1)
                first = load(out)
                for _ in range(5):
                    compute(ctx, graph, threads)
                    np.testing.assert_array_equal(load(out), first, name)


@pytest.mark.parametrize("layout", ["plain", "permuted"])
def test_products_of_one_operand(layout):
    """Threads pack such an operand once for all products with weights of one type, unless it has changed since.

    An ISA may pack it in another way for matrices with other numbers of rows.
    """
    rng = np.random.default_rng(2)
    k, rows = 1024, (200, 900)  # enough for 3 threads on every ISA
    with context() as ctx:
        weights = {
            name: [tensor(ctx, rng.standard_normal((m, k)).astype(np.float32), name) for m in rows]
            for name in ("F32", "F16", "Q4_0", "Q5_0", "Q8_0", "Q6_K")
        }
        # enough columns to pack together: several panels; another tensor makes the threads change the slot
        x, y, other = (tensor(ctx, np.ones((n, k), np.float32), "F32", layout) for n in (70, 130, 90))
        parts = [x, y, other]
        results = []
        for a, b in weights.values():
            results += [ggml.ggml_mul_mat(ctx, w, part) for part in parts for w in (a, b, a)]
            results += [ggml.ggml_mul_mat(ctx, w, part) for w in (a, b) for part in parts]
        exact = ggml.ggml_mul_mat(ctx, weights["Q4_0"][0], y)
        ggml.ggml_mul_mat_set_prec(exact, ggml.GGML_PREC_F32)
        turned = [ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, t)) for t in (weights["F32"][0], y)]
        results += [exact, ggml.ggml_out_prod(ctx, *turned)]
        for factor in (0.5, -3):  # the operand itself changes in between
            results.append(ggml.ggml_scale_inplace(ctx, y, factor))
            results += [ggml.ggml_mul_mat(ctx, w, y) for w in weights["Q8_0"]]
        graph = graph_of(ctx, *results)
        values = [rng.standard_normal(load(part).shape) for part in parts]

        def outcome(threads):
            for part, given in zip(parts, values):
                store(part, given)
            compute(ctx, graph, threads)
            return [load(t) for t in results]

        for name in ISAS:
            with isa(name):
                expected = outcome(1)
                for threads in (2, 3, 2):
                    for got, wanted in zip(outcome(threads), expected):
                        np.testing.assert_array_equal(got, wanted, name)


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0"])
def test_long_products(kind):
    """Threads pack an operand together in rounds, if they would need much memory for all of it at a time."""
    m, n, k = 200, 130, 24_000
    rng = np.random.default_rng(3)
    with context() as ctx:
        weights = [tensor(ctx, rng.standard_normal((m, k)).astype(np.float32), kind) for _ in range(2)]
        x = tensor(ctx, rng.standard_normal((n, k)).astype(np.float32), "F32")
        results = [ggml.ggml_mul_mat(ctx, w, x) for w in weights]
        graph = graph_of(ctx, *results)
        for name in ISAS:
            with isa(name):
                compute(ctx, graph, 1)
                expected = [load(t) for t in results]
                for threads in (2, 3, 2):
                    compute(ctx, graph, threads)
                    for got, wanted in zip(results, expected):
                        np.testing.assert_array_equal(load(got), wanted, name)


def test_chains_of_small_and_large_nodes():
    """Nodes that run on one thread and on several alternate, and each reads the result of the one before: a missing
    barrier gives wrong results.
    """
    with context() as ctx:
        small = ggml.ggml_new_tensor_1d(ctx, F32, 3)
        large = ggml.ggml_new_tensor_2d(ctx, F32, 1000, 64)
        ggml.ggml_set_f32(large, 1)
        ggml.ggml_set_f32(small, 1)
        s = small
        for _ in range(40):
            total = ggml.ggml_scale(ctx, ggml.ggml_sum(ctx, large), 1 / 64000)
            s = ggml.ggml_add(ctx, s, total)
            large = ggml.ggml_add1(ctx, large, total)
            large = ggml.ggml_scale_inplace(ctx, large, 0.5)
        graph = graph_of(ctx, s, large)
        for _ in range(10):
            compute(ctx, graph, 2)
            assert load(s).ravel().tolist() == [41] * 3 and (load(large) == 1).all()


LONG = 70_001  # the length of a row that threads share; its last tile is incomplete
LONG_ROWS = {
    "soft_max": lambda ctx, x, y: ggml.ggml_soft_max_ext(ctx, x, y, 0.5, 0.0),
    "soft_max_back": lambda ctx, x, y: ggml.ggml_soft_max_ext_back(ctx, x, y, 1.0, 0.0),
    "norm": lambda ctx, x, y: ggml.ggml_norm(ctx, x, 1e-5),
    "rms_norm": lambda ctx, x, y: ggml.ggml_rms_norm(ctx, x, 1e-5),
    "rms_norm_back": lambda ctx, x, y: ggml.ggml_rms_norm_back(ctx, x, y, 1e-5),
    "l2_norm": lambda ctx, x, y: ggml.ggml_l2_norm(ctx, x, 1e-5),
    "cumsum": lambda ctx, x, y: ggml.ggml_cumsum(ctx, x),
    "argmax": lambda ctx, x, y: ggml.ggml_argmax(ctx, x),
    "cross_entropy_loss": lambda ctx, x, y: ggml.ggml_cross_entropy_loss(ctx, x, y),
    "cross_entropy_loss_back": lambda ctx, x, y: ggml.ggml_cross_entropy_loss_back(ctx, ggml.ggml_sum(ctx, y), x, y),
    "sum": lambda ctx, x, y: ggml.ggml_sum(ctx, x),
    "group_norm": lambda ctx, x, y: ggml.ggml_group_norm(ctx, ggml.ggml_cont(ctx, x), 1, 1e-5),
    "argsort": lambda ctx, x, y: ggml.ggml_argsort(ctx, x, ggml.GGML_SORT_ORDER_ASC),
    "argsort_falling": lambda ctx, x, y: ggml.ggml_argsort(ctx, x, ggml.GGML_SORT_ORDER_DESC),
    "argsort_equals": lambda ctx, x, y: ggml.ggml_argsort(ctx, ggml.ggml_round(ctx, y), ggml.GGML_SORT_ORDER_ASC),
    "top_k": lambda ctx, x, y: ggml.ggml_top_k(ctx, x, 40),
    "top_k_most": lambda ctx, x, y: ggml.ggml_top_k(ctx, x, 30_000),
}


@pytest.mark.parametrize("name", LONG_ROWS)
@pytest.mark.parametrize("layout", ["plain", "transposed"])
def test_one_long_row_that_threads_share(name, layout):
    """Bit by bit the result of one thread, on every ISA."""
    rng = np.random.default_rng(3)
    with context() as ctx:
        x = tensor(ctx, rng.standard_normal((1, LONG)).astype(np.float32), "F32", layout)
        y = tensor(ctx, rng.random((1, LONG)).astype(np.float32), "F32", "plain")
        out = LONG_ROWS[name](ctx, x, y)
        graph = graph_of(ctx, out)
        for kind in ISAS:
            with isa(kind):
                compute(ctx, graph, 1)
                alone = load(out)
                assert np.isfinite(alone).all()
                for threads in (2, 3):
                    compute(ctx, graph, threads)
                    np.testing.assert_array_equal(load(out), alone, kind)


def test_a_long_row_is_sorted():
    """Several threads sort it together, in the stable order of NumPy, with equal values among them."""
    values = np.random.default_rng(4).integers(-500, 500, LONG).astype(np.float32)
    with context() as ctx:
        x = tensor(ctx, values[None], "F32")
        rising, falling = (
            ggml.ggml_argsort(ctx, x, order) for order in (ggml.GGML_SORT_ORDER_ASC, ggml.GGML_SORT_ORDER_DESC)
        )
        best = ggml.ggml_top_k(ctx, x, 50)
        compute(ctx, graph_of(ctx, rising, falling, best), 2)
        np.testing.assert_array_equal(elements(rising).ravel(), np.argsort(values, kind="stable"))
        np.testing.assert_array_equal(elements(falling).ravel(), np.argsort(-values, kind="stable"))
        np.testing.assert_array_equal(elements(best).ravel(), np.argsort(-values, kind="stable")[:50])


def recurrent(name, *shapes, **options):
    """A call with operands of these shapes, whose values are below 1."""

    def call(ctx, make):
        return getattr(ggml, "ggml_" + name)(ctx, *(make(*shape) for shape in shapes), *options.values())

    return call


def solve(ctx, make, n, columns):
    """A triangular system of small numbers, with 1 on the diagonal."""
    one = tensor(ctx, np.ones((1, n), np.float32), "F32")
    a = ggml.ggml_add(ctx, ggml.ggml_tri(ctx, make(n, n), ggml.GGML_TRI_TYPE_LOWER), ggml.ggml_diag(ctx, one))
    return ggml.ggml_solve_tri(ctx, a, make(columns, n), True, True, False)


S, T = 100, 5  # the rows and columns of a state, the number of tokens
FEW = {
    "rwkv_wkv6": recurrent("rwkv_wkv6", (S, 1, T), (S, 1, T), (S, 1, T), (S, 1), (S, 1, T), (S * S, 1)),
    "rwkv_wkv7": recurrent("rwkv_wkv7", *[(S, 1, T)] * 6, (S * S, 1)),
    "gated_linear_attn": recurrent("gated_linear_attn", *[(S, 1, T)] * 4, (S * S, 1), scale=0.5),
    "gated_delta_net": recurrent("gated_delta_net", *[(S, 1, T)] * 3, (1, 1, T), (1, 1, T), (S, S, 1, 1), k=2),
    "conv_2d_dw": lambda ctx, make: ggml.ggml_conv_2d_dw_direct(
        ctx, make(5, 5, 1, 1), make(300, 200), 1, 1, 2, 2, 1, 1
    ),
    "conv_transpose_1d": lambda ctx, make: ggml.ggml_conv_transpose_1d(ctx, make(6, 5, 40), make(333, 40), 4, 0, 1),
    "conv_transpose_2d": lambda ctx, make: ggml.ggml_conv_transpose_2d_p0(ctx, make(3, 3, 5, 9), make(31, 33, 9), 2),
    "pool_1d": lambda ctx, make: ggml.ggml_pool_1d(ctx, make(301, 77), ggml.GGML_OP_POOL_AVG, 3, 2, 1),
    "pool_2d": lambda ctx, make: ggml.ggml_pool_2d(ctx, make(301, 207), ggml.GGML_OP_POOL_MAX, 3, 3, 2, 2, 1.0, 1.0),
    "conv_transpose_1d_narrow": lambda ctx, make: ggml.ggml_conv_transpose_1d(
        ctx, make(8, 1, 40), make(3333, 40), 4, 0, 1
    ),
    "pool_1d_row": lambda ctx, make: ggml.ggml_pool_1d(ctx, make(70_001), ggml.GGML_OP_POOL_AVG, 3, 2, 1),
    "col2im_1d": lambda ctx, make: ggml.ggml_col2im_1d(ctx, make(9, 8001), 4, 1, 2),
    "solve_tri": lambda ctx, make: solve(ctx, make, 300, 1),
    "solve_tri_columns": lambda ctx, make: solve(ctx, make, 133, 11),
    "outer_product": lambda ctx, make: ggml.ggml_out_prod(ctx, make(301, 2), make(103, 2)),
    "flash_attn_ext": lambda ctx, make: ggml.ggml_flash_attn_ext(
        ctx, make(64, 1, 4, 1), make(64, 700, 1, 1), make(64, 700, 1, 1), None, 1.0, 0.0, 0.0
    ),
    "repeat_back": lambda ctx, make: ggml.ggml_repeat_back(ctx, make(3001, 45), make(3001)),
}


@pytest.mark.parametrize("name", FEW)
def test_few_items_that_threads_share(name):
    """One head, channel or row of results: bit by bit the result of one thread, on every ISA."""
    rng = np.random.default_rng(6)
    with context() as ctx:

        def make(*ne):
            return tensor(ctx, rng.uniform(-0.2, 0.2, ne[::-1]).astype(np.float32), "F32")

        out = FEW[name](ctx, make)
        graph = graph_of(ctx, out)
        for kind in ISAS:
            with isa(kind):
                compute(ctx, graph, 1)
                alone = load(out)
                assert np.isfinite(alone).all() and alone.any()
                compute(ctx, graph, 2)
                np.testing.assert_array_equal(load(out), alone, kind)


def test_a_sum_that_overflows_changes_no_other():
    """A column whose sum overflows does not change the sums of other columns, however threads divide the columns:
    bit by bit, with and without threads.
    """
    values = np.random.default_rng(8).standard_normal((45, 2001)).astype(np.float32)
    values[:, 1203] = np.where(np.arange(45) < 20, 3e38, -3e38)
    with context() as ctx:
        x, shape = tensor(ctx, values, "F32"), ggml.ggml_new_tensor_1d(ctx, F32, 2001)
        out = ggml.ggml_repeat_back(ctx, x, shape)
        graph = graph_of(ctx, out)
        for kind in ISAS:
            with isa(kind):
                compute(ctx, graph, 1)
                alone = load(out)
                compute(ctx, graph, 2)
                np.testing.assert_array_equal(load(out), alone, kind)


def test_intermediate_sums_that_overflow():
    """The sums of the columns are small, but intermediate sums exceed the range of f32."""
    values = np.concatenate([np.full((20, 9), 1e38), np.full((20, 9), -1e38), np.arange(27.0).reshape(3, 9)])
    with context() as ctx:
        x, shape = tensor(ctx, values.astype(np.float32), "F32"), ggml.ggml_new_tensor_1d(ctx, F32, 9)
        out = ggml.ggml_repeat_back(ctx, x, shape)
        graph = graph_of(ctx, out)
        for kind in ISAS:
            with isa(kind):
                compute(ctx, graph, 2)
                np.testing.assert_array_equal(elements(out).ravel(), values[40:].sum(0), kind)


@pytest.mark.parametrize("n", [3_000_001, 3_000_064])
def test_results_larger_than_the_caches(n):
    """Such results are written with non-temporal stores: from any address on, up to the last element."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, n)).astype(np.float32)
    with context() as ctx:
        x, z = (tensor(ctx, values[None], "F32") for values in (a, b))
        outs = [
            ggml.ggml_add(ctx, x, z),
            ggml.ggml_mul(ctx, x, z),
            ggml.ggml_add_inplace(ctx, ggml.ggml_dup(ctx, x), z),
        ]
        graph = graph_of(ctx, *outs)
        for kind in ISAS:
            with isa(kind):
                for threads in (1, 2):
                    for out in outs[:2]:
                        store(out, np.nan)
                    compute(ctx, graph, threads)
                    for out, expected in zip(outs, (a + b, a * b, a + b)):
                        np.testing.assert_array_equal(elements(out).ravel(), expected, kind)


PAUSED = """if 1:
    import ctypes, gc, sys, threading
    import numpy as np
    import ggml
    how, threads = sys.argv[1], int(sys.argv[2])
    paused, freed, said = threading.Event(), threading.Event(), []

    def context(**given):
        defaults = {"mem_size": 1 << 20, "mem_buffer": None, "no_alloc": False}
        return ggml.ggml_init(ggml.ggml_init_params(**(defaults | given)))

    memory = (ctypes.c_char * (1 << 20))()
    array = np.ones(1 << 18, np.float32)
    mem_buffer = ctypes.cast(memory, ctypes.c_void_p) if how == "memory" else None
    ctx = context(no_alloc=how in ("buffer", "array"), mem_buffer=mem_buffer)
    x = ggml.ggml_new_tensor_2d(ctx, 0, 64, 64)
    for _ in range(40):
        x = ggml.ggml_sin_inplace(ctx, x)
    graph = ggml.ggml_new_graph_custom(ctx, 64, False)
    ggml.ggml_build_forward_expand(graph, x)
    if how == "buffer":
        buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, ggml.ggml_backend_cpu_init())
    if how == "array":
        buffer = ggml.ggml_backend_cpu_buffer_from_ptr(array, array.nbytes)
        place = ggml.ggml_tallocr_new(buffer)
        ggml.ggml_tallocr_alloc(ctypes.byref(place), x.contents.view_src)
        for i in range(40):
            ggml.ggml_backend_view_init(ggml.ggml_graph_node(graph, i))

    def abort(data):
        said.append(data)
        if len(said) == 3:
            paused.set()
            freed.wait()
        return False

    plan = ggml.ggml_graph_plan(graph, threads, None)
    plan.abort_callback = ggml.ggml_abort_callback(abort)
    thread = threading.Thread(target=lambda: print(ggml.ggml_graph_compute(graph, plan), len(said)))
    thread.start()
    paused.wait()
    ggml.ggml_backend_buffer_free(buffer) if how in ("buffer", "array") else ggml.ggml_free(ctx)
    plan.abort_callback = ggml.ggml_abort_callback(lambda data: True)     # drops the other one
    del memory, array
    gc.collect()
    for _ in range(1100):    # and what has been freed before is given back to the system
        ggml.ggml_free(context())
    freed.set()
    thread.join()
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("how", ["context", "memory", "buffer", "array"])
def test_freeing_what_another_thread_computes_with(child, how, threads):
    """The memory is released when the compute has ended."""
    assert child(PAUSED, how, str(threads)).split() == ["0", "40"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one processor")
@pytest.mark.skipif(RACES_ARE_REPORTED, reason="threads do not outlive a call")
def test_threads_on_one_processor_part_and_keep_their_masks(child):
    """A thread that finds another one of its team on its processor moves, and may use those that it could before."""
    child(
        """
import os, time, ggml
def threads():
    return [int(t) for t in os.listdir("/proc/self/task")]
def last_processor(thread):
    return int(open(f"/proc/self/task/{thread}/stat").read().rsplit(")", 1)[1].split()[36])
ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 22))
w, x = (ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 256, 256) for _ in range(2))
ggml.ggml_set_f32(w, 0.01), ggml.ggml_set_f32(x, 1)
for _ in range(8):
    x = ggml.ggml_mul_mat(ctx, w, x)
graph = ggml.ggml_new_graph(ctx)
ggml.ggml_build_forward_expand(graph, x)
before = set(threads())
ggml.ggml_graph_compute_with_ctx(ctx, graph, 2)
(worker,) = set(threads()) - before
allowed, here = os.sched_getaffinity(0), {min(os.sched_getaffinity(0))}
for _ in range(10):
    for mask in here, allowed:
        os.sched_setaffinity(0, mask)
        os.sched_setaffinity(worker, mask)
    end = time.monotonic() + 5      # beside other programs a thread computes alone for a while
    while last_processor(worker) == last_processor(os.getpid()):
        assert time.monotonic() < end
        ggml.ggml_graph_compute_with_ctx(ctx, graph, 2)
    assert os.sched_getaffinity(worker) == os.sched_getaffinity(0) == allowed
""",
        timeout=60,
    )


def test_work_memory_is_freed_with_its_thread(child):
    out = child(
        """if 1:
        import os, threading, ggml
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 24, mem_buffer=None, no_alloc=False))
        a, b = (ggml.ggml_set_f32(ggml.ggml_new_tensor_2d(ctx, 0, 256, 512), 1) for _ in range(2))
        graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(graph, ggml.ggml_mul_mat(ctx, a, b))

        def rounds(n):
            for _ in range(n):
                t = threading.Thread(target=ggml.ggml_graph_compute_with_ctx, args=(ctx, graph, 2))
                t.start()
                t.join()
            try:
                with open("/proc/self/statm") as f:
                    return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            except OSError:
                return 0     # not Linux: the calls are what is tested

        before = rounds(10)
        print((rounds(60) - before) >> 20)
    """,
        env=os.environ | {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4"},
    )
    assert int(out) < 20  # MiB; the memory of 60 threads would be twice as much


def test_threads_that_share_contexts_handles_and_views(child):
    """In a process of its own, because a fault would end it. `fuzz/programs.py --threads` does the same for longer."""
    folder = Path(__file__).resolve().parents[2] / "fuzz" / "program"
    code = "import sys; sys.path.insert(0, sys.argv[1]); import stress; stress.stress(3, 8, 0, bool(sys.argv[2]))"
    assert "8 threads" in child(code, str(folder), "turns" if RACES_ARE_REPORTED else "", timeout=120)
