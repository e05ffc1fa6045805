"""Programs in which an allocation, a mapping or the creation of a thread fails: the first, the second, and so on.

    python fuzz/faults.py --seconds 600 --seed 1
    python fuzz/faults.py --phase quantize           # only this phase
    python fuzz/faults.py --callers libgomp          # failures within the OpenMP run-time

A phase is a small program that returns numbers. Linux with glibc, and a C compiler: faults.c is built and preloaded.
For each N, a forked child that has not run the phase yet runs it with its N-th allocation failing, and another one with
all from the N-th on. Then the phase must raise an exception whose message begins with a function's name, or return the
right numbers; run once more with enough memory, it must return the right numbers; and when the failure is repeated,
what the extension modules have allocated must not grow. The exit status is 1 if a child died, hung, or broke one of
these rules.

--callers selects whose allocations fail: those of the extension modules ("modules"), of Python's objects ("python"), or
of the OpenMP run-time ("libgomp"), which ends the process when it has no memory.
"""

import argparse
import contextlib
import ctypes
import gc
import math
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import ggml
import ggml.legacy
from ggml._io.tensor_types import TYPES
from ggml.utils import from_dlpack, from_numpy, to_numpy

try:
    import _testcapi
except ImportError:  # a Python without its test modules
    _testcapi = None

TIME_LIMIT = 60  # seconds for a child
PYTHON_CALLS = 3000  # of a phase: which of Python's allocations fail
# "All later" allocations of Python that fail. CPython 3.11 tries to unwind without end while an int fails.
PYTHON_LATER = 200
FOREVER = 1 << 40  # a number of a call that is never reached
REPEATS = 5  # a leak grows with each repetition
NAMED = re.compile(r"(ggml|gguf|legacy|quantize|dequantize|__dlpack__)[\w.]*[:( ]")
EXPECTED = (MemoryError, OSError, RuntimeError, BufferError)
FOLDER = tempfile.gettempdir()  # found here, because it is searched for without end where there is no memory
LIBRARY = "GGML_FAULTS_LIBRARY"  # environment variable: the path of the preloaded library

F32, I32 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32
PHASES = {}


def phase(function):
    PHASES[function.__name__] = function
    return function


class Refused(Exception):
    """A function reported a failure by its result, as its documentation says."""


def checked(result):
    """The result of a function that reports a failure by None, False or a negative number."""
    if result is None or result is False or (type(result) is int and result < 0):
        raise Refused
    return result


# ---- phases ----------------------------------------------------------------------------------------------------------
# Each takes a contextlib.ExitStack, on which it puts what frees its objects.
def context(stack, mem_size=0, no_alloc=False):
    ctx = checked(ggml.ggml_init(ggml.ggml_init_params(mem_size=mem_size, no_alloc=no_alloc)))
    stack.callback(ggml.ggml_free, ctx)
    return ctx


def values(*shape):
    """Numbers of a shape in NumPy's order, always the same."""
    count = math.prod(shape)  # NumPy's reductions without memory may raise SystemError, here and below
    return (np.arange(count, dtype=np.float32) * 37 % 101 / 50 - 1).reshape(shape)


def graph_of(ctx, *outputs, grads=False):
    graph = ggml.ggml_new_graph_custom(ctx, 1024, grads)
    for output in outputs:
        ggml.ggml_build_forward_expand(graph, output)
    return graph


def compute(ctx, graph, threads=1):
    if ggml.ggml_graph_compute_with_ctx(ctx, graph, threads):
        raise Refused


@phase
def contexts(stack):
    fixed, grows = context(stack, 1 << 20), context(stack)
    for ctx, count in ((fixed, 50), (grows, 300)):
        for i in range(count):
            t = ggml.ggml_new_tensor_2d(ctx, F32, 16, 64 if ctx is grows else 8)
            ggml.ggml_set_name(t, b"t%d" % i)
            ggml.ggml_set_f32(t, i)
    t = ggml.ggml_get_tensor(grows, b"t299")
    copy = ggml.ggml_dup_tensor(grows, t)
    ctypes.memmove(ggml.ggml_get_data(copy), ggml.ggml_get_data(t), ggml.ggml_nbytes(t))
    ggml.ggml_reset(fixed)
    return ggml.ggml_get_f32_1d(copy, 5), ggml.ggml_used_mem(fixed)


@phase
def graphs(stack):
    ctx = context(stack)
    x = y = ggml.ggml_new_tensor_1d(ctx, F32, 4)
    ggml.ggml_set_f32(x, 1)
    for _ in range(600):  # deeper than the first stack of the expansion
        y = ggml.ggml_add(ctx, y, x)
    graph = graph_of(ctx, y)
    copy = ggml.ggml_graph_dup(ctx, graph, False)
    ggml.ggml_graph_clear(graph)
    alternatives = (ggml.ggml_tensor_p * 2)(ggml.ggml_sqr(ctx, x), ggml.ggml_neg(ctx, x))
    ggml.ggml_build_forward_select(graph, alternatives, 2, 1)
    compute(ctx, copy)
    compute(ctx, graph)
    return ggml.ggml_get_f32_1d(y, 3), ggml.ggml_get_f32_1d(alternatives[1], 0)


def network(stack, threads):
    """Kernels that take work memory, in one graph."""
    ctx = context(stack)
    x = from_numpy(values(96, 256), ctx)
    w = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_Q4_K, 256, 64)
    quantised = [ggml.ggml_cpy(ctx, x, ggml.ggml_new_tensor_2d(ctx, kind, 256, 96))
                 for kind in (ggml.GGML_TYPE_IQ3_XXS, ggml.GGML_TYPE_IQ2_S, ggml.GGML_TYPE_Q8_0)]  # fmt: skip
    y = ggml.ggml_mul_mat(ctx, ggml.ggml_cpy(ctx, ggml.ggml_view_2d(ctx, x, 256, 64, 1024, 0), w), x)
    image = ggml.ggml_reshape_4d(ctx, x, 32, 32, 24, 1)
    kernel = from_numpy(values(8, 24, 3, 3), ctx)
    positions = ggml.ggml_cast(ctx, ggml.ggml_arange(ctx, 0, 96, 1), I32)
    outputs = [
        *quantised, ggml.ggml_soft_max(ctx, y), ggml.ggml_argsort(ctx, x, 0),
        ggml.ggml_norm(ctx, ggml.ggml_permute(ctx, x, 1, 0, 2, 3), 1e-5),
        ggml.ggml_conv_2d(ctx, kernel, image, 1, 1, 1, 1, 1, 1),
        ggml.ggml_group_norm(ctx, image, 4, 1e-5),
        ggml.ggml_flash_attn_ext(ctx, *(ggml.ggml_reshape_3d(ctx, x, 64, 96, 4) for _ in range(3)), None, 0.1, 0, 0),
        ggml.ggml_rope(ctx, ggml.ggml_reshape_3d(ctx, x, 64, 4, 96), positions, 64, 0),
        ggml.ggml_upscale(ctx, image, 2, 1),
        ggml.ggml_out_prod(ctx, x, x),
    ]  # fmt: skip
    compute(ctx, graph_of(ctx, *outputs), threads)
    return [ctypes.string_at(ggml.ggml_get_data(t), ggml.ggml_nbytes(t)) for t in outputs]


@phase
def compute_1_thread(stack):
    return network(stack, 1)


@phase
def compute_2_threads(stack):
    return network(stack, 2)


@phase
def backward(stack):
    ctx = context(stack)
    x, w = from_numpy(values(8, 16), ctx), from_numpy(values(4, 16), ctx)
    ggml.ggml_set_param(w)
    y = ggml.ggml_mul_mat(ctx, w, x)
    for _ in range(3):
        y = ggml.ggml_soft_max(ctx, ggml.ggml_sqr(ctx, y))
    loss = ggml.ggml_sum(ctx, y)
    ggml.ggml_set_loss(loss)
    graph = graph_of(ctx, loss, grads=True)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    ggml.ggml_graph_reset(graph)
    compute(ctx, graph)
    return to_numpy(ggml.ggml_graph_get_grad(graph, w)).tobytes()


@phase
def recomputing(stack):
    ctx = context(stack)
    x = from_numpy(values(8, 16), ctx)
    ggml.ggml_set_param(x)
    y = x
    chain = [y := ggml.ggml_sqr(ctx, y) for _ in range(6)]
    loss = ggml.ggml_sum(ctx, y)
    ggml.ggml_set_loss(loss)
    forward, backward, spare = (ggml.ggml_new_graph_custom(ctx, 256, True) for _ in range(3))
    ggml.ggml_build_forward_expand(forward, loss)
    points = (ggml.ggml_tensor_p * 1)(chain[2])
    ggml.ggml_build_backward_gradient_checkpointing(ctx, forward, backward, spare, points, 1)
    ggml.ggml_graph_reset(backward)
    compute(ctx, backward)
    return [ggml.ggml_get_f32_1d(loss, 0)]


@phase
def gallocr(stack):
    ctx = context(stack, no_alloc=True)
    x = ggml.ggml_new_tensor_2d(ctx, F32, 16, 8)
    ggml.ggml_set_input(x)
    y = x
    for _ in range(20):
        y = ggml.ggml_add(ctx, ggml.ggml_sqr(ctx, y), x)
    ggml.ggml_set_output(y)
    graph = graph_of(ctx, y)
    galloc = checked(ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type()))
    stack.callback(ggml.ggml_gallocr_free, galloc)
    checked(ggml.ggml_gallocr_reserve(galloc, graph))
    checked(ggml.ggml_gallocr_alloc_graph(galloc, graph))
    data = values(8, 16)
    ggml.ggml_backend_tensor_set(x, data.ctypes.data, 0, data.nbytes)
    plan = ggml.ggml_graph_plan(graph, 1)
    if ggml.ggml_graph_compute(graph, ctypes.byref(plan)):
        raise Refused
    return to_numpy(y).tobytes()


def placed(stack, backend, ctx):
    buffer = checked(ggml.ggml_backend_alloc_ctx_tensors(ctx, backend))
    stack.callback(ggml.ggml_backend_buffer_free, buffer)
    return buffer


def backends(stack):
    made = []
    for _ in range(2):
        made.append(checked(ggml.ggml_backend_cpu_init()))
        stack.callback(ggml.ggml_backend_free, made[-1])
    return made


@phase
def scheduler(stack):
    first, second = backends(stack)
    static, ctx = context(stack, no_alloc=True), context(stack, no_alloc=True)
    w = ggml.ggml_new_tensor_2d(static, F32, 16, 16)
    placed(stack, first, static)
    data = values(16, 16)
    ggml.ggml_backend_tensor_set(w, data.ctypes.data, 0, data.nbytes)
    x = ggml.ggml_new_tensor_2d(ctx, F32, 16, 4)
    ggml.ggml_set_input(x)
    y = ggml.ggml_mul_mat(ctx, w, x)
    z = ggml.ggml_soft_max(ctx, ggml.ggml_mul_mat(ctx, w, ggml.ggml_sqr(ctx, y)))
    ggml.ggml_set_output(z)
    graph = graph_of(ctx, z)
    array = (ctypes.c_void_p * 2)(first, second)
    sched = checked(ggml.ggml_backend_sched_new(array, None, 2, 256, False, True))
    stack.callback(ggml.ggml_backend_sched_free, sched)
    ggml.ggml_backend_sched_set_tensor_backend(sched, y, second)
    checked(ggml.ggml_backend_sched_alloc_graph(sched, graph))
    ggml.ggml_backend_tensor_set(x, data.ctypes.data, 0, data[:4].nbytes)
    if ggml.ggml_backend_sched_graph_compute(sched, graph):
        raise Refused
    return to_numpy(z).tobytes()


@phase
def buffers(stack):
    backend, other = backends(stack)
    ctx = context(stack, no_alloc=True)
    x, y = (ggml.ggml_new_tensor_2d(ctx, F32, 32, 8) for _ in range(2))
    z = ggml.ggml_sqr(ctx, x)
    placed(stack, backend, ctx)
    data = values(8, 32)
    ggml.ggml_backend_tensor_set(x, data.ctypes.data, 0, data.nbytes)
    ggml.ggml_backend_tensor_copy(x, y)
    graph = graph_of(ctx, z)
    copy = ggml.ggml_backend_graph_copy_(other, graph)
    if not copy.buffer:
        raise Refused
    stack.callback(ggml.ggml_backend_graph_copy_free, copy)
    for backend_, graph_ in ((backend, graph), (other, copy.graph)):
        if ggml.ggml_backend_graph_compute(backend_, graph_):
            raise Refused
    own = np.zeros(1024, np.float32)
    over = checked(ggml.ggml_backend_cpu_buffer_from_ptr(own.ctypes.data, own.nbytes))
    stack.callback(ggml.ggml_backend_buffer_free, over)
    ggml.ggml_backend_buffer_clear(over, 1)
    return to_numpy(y).tobytes(), to_numpy(z).tobytes(), own[0]


@phase
def quantize(stack):
    rows, found = values(4, 256), []
    weights = np.ones(256, np.float32)
    for number in filter(ggml.ggml_is_quantized, TYPES):
        out = np.zeros(4 * ggml.ggml_row_size(number, 256), np.uint8)
        ggml.ggml_quantize_chunk(number, rows, out, 0, 4, 256, weights)
        found.append(out.tobytes())
    return found


@phase
def gguf(stack):
    path = os.path.join(FOLDER, f"faults-{os.getpid()}.gguf")
    stack.callback(lambda: Path(path).unlink(missing_ok=True))
    ctx = context(stack)
    made = checked(ggml.gguf_init_empty())
    stack.callback(ggml.gguf_free, made)
    ggml.gguf_set_val_u32(made, b"number", 7)
    ggml.gguf_set_arr_str(made, b"strings", [b"a", b"bc", b"def"], 3)
    for i in range(5):
        ggml.gguf_add_tensor(made, ggml.ggml_set_name(from_numpy(values(4, 8) + i, ctx), b"t%d" % i))
    checked(ggml.gguf_write_to_file(made, path.encode(), False))
    found = []
    for read in (ggml.gguf_init_from_file, ggml.ext.gguf_init_from_file_mmap):
        data = ctypes.c_void_p()
        file = checked(read(path.encode(), ggml.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(data))))
        stack.callback(ggml.gguf_free, file)
        stack.callback(ggml.ggml_free, data.value)
        found.append(to_numpy(ggml.ggml_get_tensor(data.value, b"t3")).tobytes())
        found.append(ggml.gguf_get_arr_str(file, ggml.gguf_find_key(file, b"strings"), 2))
    return found


class Training:
    """y = w x + b with a dataset."""

    def __init__(self, stack):
        self.backend = backends(stack)[0]
        self.sched = checked(ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(self.backend), None, 1, 1024, False))
        stack.callback(ggml.ggml_backend_sched_free, self.sched)
        static, self.ctx = context(stack, no_alloc=True), context(stack, no_alloc=True)
        self.x = ggml.ggml_new_tensor_2d(static, F32, 4, 4)
        self.w = ggml.ggml_new_tensor_2d(static, F32, 4, 2)
        ggml.ggml_set_name(self.w, b"w")
        ggml.ggml_set_param(self.w)
        ggml.ggml_set_input(self.x)
        placed(stack, self.backend, static)
        to_numpy(self.w)[:] = values(2, 4)
        self.y = ggml.ggml_mul_mat(self.ctx, self.w, self.x)
        ggml.ggml_set_output(self.y)
        self.dataset = checked(ggml.ggml_opt_dataset_init(F32, F32, 4, 2, 16, 4))
        stack.callback(ggml.ggml_opt_dataset_free, self.dataset)
        to_numpy(ggml.ggml_opt_dataset_data(self.dataset))[:] = values(16, 4)
        to_numpy(ggml.ggml_opt_dataset_labels(self.dataset))[:] = values(16, 2)


@phase
def fit(stack):
    t = Training(stack)
    ggml.ggml_opt_fit(t.sched, t.ctx, t.x, t.y, t.dataset, ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR,
                      ggml.GGML_OPT_OPTIMIZER_TYPE_ADAMW, ggml.ggml_opt_get_default_optimizer_params, 2, 4, 0.25,
                      True)  # fmt: skip
    return to_numpy(t.w).tobytes()


@phase
def checkpoint(stack):
    t = Training(stack)
    params = ggml.ggml_opt_default_params(t.sched, ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR)
    params.ctx_compute, params.inputs, params.outputs = t.ctx, t.x, t.y
    opt = checked(ggml.ggml_opt_init(params))
    stack.callback(ggml.ggml_opt_free, opt)
    result = checked(ggml.ggml_opt_result_init())
    stack.callback(ggml.ggml_opt_result_free, result)
    ggml.ggml_opt_epoch(opt, t.dataset, result, None, 16, None, None)
    path = os.path.join(FOLDER, f"faults-{os.getpid()}.checkpoint")
    stack.callback(lambda: Path(path).unlink(missing_ok=True))
    ggml.ext.opt_save(opt, path, t.dataset)
    after = to_numpy(t.w).copy()
    to_numpy(t.w)[:] = 0
    ggml.ext.opt_load(opt, path, t.dataset)
    assert to_numpy(t.w).tobytes() == after.tobytes()
    return after.tobytes()


@phase
def numpy_views(stack):
    ctx = context(stack)
    t = from_numpy(values(6, 8), ctx)
    view, other = to_numpy(t), np.asarray(memoryview(t))
    shared = np.from_dlpack(t)
    foreign = to_numpy(from_dlpack(ctx, values(4, 8)))
    return view.tobytes(), other.tobytes(), shared.tobytes(), foreign.tobytes()


@phase
def custom(stack):
    ctx = context(stack)

    @ggml.ggml_custom1_op_t
    def double(dst, a, ith, nth, userdata):
        if ith == 0:
            to_numpy(dst)[:] = 2 * to_numpy(a)

    x = from_numpy(values(6, 8), ctx)
    y = ggml.ggml_sqr(ctx, ggml.ggml_map_custom1(ctx, x, double, 1, None))
    compute(ctx, graph_of(ctx, y))
    return to_numpy(y).tobytes()


@phase
def legacy(stack):
    api = ggml.legacy
    ctx = checked(api.ggml_init(api.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False)))
    stack.callback(api.ggml_free, ctx)
    a, b = (api.ggml_new_tensor_2d(ctx, F32, 16, 4) for _ in range(2))
    api.ggml_set_f32(a, 2)
    api.ggml_set_f32(b, 3)
    y = api.ggml_mul_mat(ctx, a, b)
    graph = api.ggml_build_forward(y)
    graph.n_threads = 1
    api.ggml_graph_compute(ctx, ctypes.byref(graph))
    return [api.ggml_get_f32_1d(y, 0)]


# ---- making allocations fail -----------------------------------------------------------------------------------------
def memory_map():
    """(begin, end, path) of what is mapped into this process."""
    rows = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    return [(*(int(end, 16) for end in row[0].split("-")), row[5] if len(row) > 5 else "") for row in rows]


class Faults:
    """Counts and fails the allocations of some callers."""

    def __init__(self, callers):
        self.python = callers == "python"
        self.library = ctypes.CDLL(os.environ[LIBRARY])
        self.library.faults_add_range.argtypes = [ctypes.c_size_t] * 2
        self.library.faults_arm.argtypes = [ctypes.c_long] * 2
        self.library.faults_last.restype = ctypes.c_char_p
        for name in ("calls", "blocks", "mappings"):
            getattr(self.library, f"faults_{name}").restype = ctypes.c_long
        modules = str(Path(ggml.__file__).parent)
        wanted = (lambda path: "libgomp" in path) if callers == "libgomp" else (
            lambda path: path.startswith(modules) and path.endswith(".so"))  # fmt: skip
        for begin, end, path in memory_map():
            if wanted(path):
                self.library.faults_add_range(begin, end)

    def arm(self, first, last):
        if self.python and first:
            _testcapi.set_nomemory(first, min(last, first + PYTHON_LATER) + 1)
        else:
            self.library.faults_arm(first, last)

    def disarm(self):
        if self.python:
            _testcapi.remove_mem_hooks()
        self.library.faults_disarm()

    def used(self):
        """Blocks and mappings that were made by the callers and not released, without what freed arenas keep."""
        gc.collect()
        self.library.faults_arm(1, FOREVER)
        with contextlib.suppress(MemoryError):  # an allocation that fails releases it
            ggml.ggml_init(ggml.ggml_init_params())
        self.library.faults_disarm()
        return self.library.faults_blocks(), self.library.faults_mappings()


def fill_rings():
    """Frees enough objects that none of an earlier program is among the freed ones that are kept for a while."""
    buft = ggml.ggml_backend_cpu_buffer_type()
    for _ in range(4200):
        ggml.ggml_free(ggml.ggml_init(ggml.ggml_init_params(mem_size=1024)))
        ggml.ggml_backend_buffer_free(ggml.ggml_backend_buft_alloc_buffer(buft, 64))


def attempt(run, faults, first=0, last=0):
    """Runs a phase. Returns its numbers, or the exception that it raised."""
    stack = contextlib.ExitStack()
    try:
        faults.arm(first, last)
        try:
            return run(stack)
        finally:
            if faults.python:  # nothing works in Python without memory, so objects are freed with it
                faults.disarm()
            stack.close()
    except Exception as error:
        return error
    finally:
        faults.disarm()


def problem_of(outcome, right, faults):
    """What is wrong with the outcome of a run in which something failed, or None."""
    if isinstance(outcome, Refused):
        return None
    if not isinstance(outcome, Exception):
        return None if repr(outcome) == right else "returned wrong numbers"
    if faults.python and isinstance(outcome, ctypes.ArgumentError) and "MemoryError" in str(outcome):
        return None  # what ctypes makes of it while it converts an argument
    if not isinstance(outcome, EXPECTED):
        return f"raised {outcome!r}"
    if faults.python and isinstance(outcome, MemoryError) or isinstance(outcome, OSError) and outcome.errno:
        return None
    return None if NAMED.match(str(outcome)) else f"raised {outcome!r}, which does not begin with a function's name"


def probe(run, faults, right, first, last):
    """Runs a phase with failures. Returns what is wrong, or None."""
    outcome = attempt(run, faults, first, last)
    wrong = problem_of(outcome, right, faults)
    if wrong:
        where = faults.library.faults_last()
        return f"{wrong} ({where.decode() if where else ''})"
    del outcome
    again = attempt(run, faults)
    if repr(again) != right:
        return f"the next run, without failures, gave {again!r:.300}"
    if faults.python:
        return None
    grown, before = [], None
    for _ in range(REPEATS):
        attempt(run, faults, first, last)
        used = faults.used()
        if before:
            grown.append([now - then for now, then in zip(used, before)])
        before = used
    for what, counts in zip(("blocks", "mappings"), zip(*grown)):
        if min(counts) > 0:
            return f"leaks {what}: {counts}"
    return None


def measure(run, faults):
    """The numbers that a phase returns, and how many calls may fail in it, as text."""
    return f"{attempt(run, faults)!r}\n{faults.library.faults_calls()}"


def forked(work, *args):
    """Calls a function in a child process. Returns (its result as text, None) or (None, how the child ended)."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        try:
            with open(into, "w") as file:
                file.write(str(work(*args)))
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(99)
    os.close(into)
    text, end, hung = b"", time.monotonic() + TIME_LIMIT, False
    while True:
        if not select.select([out], [], [], max(end - time.monotonic(), 0))[0]:
            hung = True
            os.kill(child, signal.SIGKILL)
            break
        part = os.read(out, 65536)
        if not part:
            break
        text += part
    os.close(out)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if hung:
        return None, "hung"
    return (text.decode(), None) if status == 0 else (None, f"died with status {status}")


def fuzz(args):
    """Runs the phases. Prints what went wrong; returns the number of faults."""
    faults, rng = Faults(args.callers), random.Random(args.seed)
    fill_rings()
    values(2) * values(2)  # NumPy finds its loops at the first use, and half of that does not survive a MemoryError
    todo, right = [], {}
    for name in args.phase or PHASES:
        text, ended = forked(measure, PHASES[name], faults)
        if ended or not text.startswith(("(", "[", "b")):
            sys.exit(f"{name} without failures: {ended or text}")
        right[name], _, calls = text.rpartition("\n")
        print(f"{name}: {calls} calls", flush=True)
        most = PYTHON_CALLS if faults.python else int(calls)
        todo += [(name, n, last) for n in range(1, most + 1) for last in (n, FOREVER)]
    rng.shuffle(todo)
    end, done, bad = time.monotonic() + args.seconds, 0, 0
    for name, n, last in todo:
        if time.monotonic() > end:
            break
        text, ended = forked(probe, PHASES[name], faults, right[name], n, last)
        done += 1
        if ended or text != "None":
            bad += 1
            print(f"{name}, call {n}{' and all later ones' if last > n else ''}: {ended or text}", flush=True)
    print(f"{done} of {len(todo)} runs with failing {args.callers}, {bad} faults")
    return bad


def build(folder):
    """Builds the library that is preloaded."""
    library = os.path.join(folder, "faults.so")
    source = Path(__file__).with_name("faults.c")
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--phase", action="append", choices=sorted(PHASES), help="only this phase; may be repeated")
    parser.add_argument("--callers", choices=("modules", "python", "libgomp"), default="modules")
    args = parser.parse_args()
    if args.callers == "python" and _testcapi is None:
        parser.error("--callers python needs the module _testcapi, which this Python does not have")
    if LIBRARY in os.environ:
        sys.exit(1 if fuzz(args) else 0)
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder)
        settings = {LIBRARY: library, "LD_PRELOAD": library, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "2"}
        sys.exit(subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=os.environ | settings).returncode)


if __name__ == "__main__":
    main()
