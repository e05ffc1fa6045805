"""Interrupts calls at random moments. Each call raises KeyboardInterrupt or gives its result, and never loses one.

    python fuzz/interrupts.py --seconds 600

A timer raises KeyboardInterrupt as Ctrl-C does, between two instructions of Python code in the main thread. The calls
run Python code on behalf of C: custom operations, callbacks of schedulers, readers and messages, backends in Python,
edits of a language model; others run none, such as a graph. A call that returns although its interrupt was raised has
lost it, unless it came in a finaliser (`__del__`, or that of a weak reference), whose exceptions Python ignores. After
each interrupt the same call is made once more, undisturbed, and must give the right result.

The module `gguf` is needed for the language model, `onnx` for the ONNX model; without them these calls are left out.
"""

import argparse
import ctypes
import faulthandler
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import ggml
from ggml.utils import from_numpy, to_numpy

sys.path[0] = str(Path(__file__).resolve().parent.parent / "tests")  # not the folder of gguf.py, which is no package
import gguf_files  # noqa: E402

LONGEST = 0.02  # seconds until the interrupt comes, at most: longer than most of the calls


def plus_one(dst, src, ith, nth, userdata):
    out, values = to_numpy(dst), to_numpy(src)
    rows = slice(out.shape[-1] * ith // nth, out.shape[-1] * (ith + 1) // nth)
    out[..., rows] = values[..., rows] + 1


# As the programs of other bindings declare callbacks: ctypes alone knows them.
PLAIN = ctypes.CFUNCTYPE(None, ctypes.POINTER(ggml.ggml_tensor), ctypes.POINTER(ggml.ggml_tensor), ctypes.c_int,
                         ctypes.c_int, ctypes.c_void_p)  # fmt: skip


def chain(ctx, n_tasks, kind):
    """60 custom operations one after the other, with other operations between them: the graph and its result."""
    x = from_numpy(np.zeros(1 << 10, np.float32), ctx)
    plus = kind(plus_one)
    for _ in range(60):
        x = ggml.ggml_sqrt(ctx, ggml.ggml_sqr(ctx, ggml.ggml_map_custom1(ctx, x, plus, n_tasks, None)))
    graph = ggml.ggml_new_graph_custom(ctx, 512, False)
    ggml.ggml_build_forward_expand(graph, x)
    return graph, x


class Chain:
    """Custom operations in a graph."""

    def __init__(self, threads, kind=ggml.ggml_custom1_op_t):
        self.ctx, self.threads = ggml.ggml_init(ggml.ggml_init_params(mem_size=0)), threads
        self.graph, self.result = chain(self.ctx, threads, kind)

    def __call__(self):
        to_numpy(self.result)[:] = 0
        assert ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, self.threads) == ggml.GGML_STATUS_SUCCESS
        return to_numpy(self.result).copy()


class Rows:
    """The older form of custom operations, with a call for each row."""

    def __init__(self):
        self.ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        x = from_numpy(np.zeros((100, 8), np.float32), self.ctx)
        self.result, self.graph = ggml.ggml_map_unary_f32(self.ctx, x, self.row), ggml.ggml_new_graph(self.ctx)
        ggml.ggml_build_forward_expand(self.graph, self.result)

    def row(self, n, out, values):
        for i in range(n):
            out[i] = values[i] + i

    def __call__(self):
        to_numpy(self.result)[:] = 0
        assert ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, 1) == ggml.GGML_STATUS_SUCCESS
        return to_numpy(self.result).copy()


class Scheduled:
    """A graph that a scheduler computes, with a callback for each node."""

    def __init__(self):
        self.ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20, no_alloc=True))
        self.backend = ggml.ggml_backend_cpu_init()
        self.x = x = ggml.ggml_new_tensor_1d(self.ctx, ggml.GGML_TYPE_F32, 64)
        ggml.ggml_set_input(x)
        for _ in range(40):
            x = ggml.ggml_scale_bias(self.ctx, x, 0.5, 1.0)
        self.result = x
        ggml.ggml_set_output(x)
        self.graph = ggml.ggml_new_graph(self.ctx)
        ggml.ggml_build_forward_expand(self.graph, x)
        self.sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(self.backend), None, 1, 512, False, True)
        self.seen = 0
        self.callback = ggml.ggml_backend_sched_eval_callback(self.observe)
        ggml.ggml_backend_sched_set_eval_callback(self.sched, self.callback, None)

    def observe(self, tensor, asks, userdata):
        self.seen += not asks
        return True

    def __call__(self):
        self.seen = 0
        ggml.ggml_backend_sched_reset(self.sched)
        assert ggml.ggml_backend_sched_alloc_graph(self.sched, self.graph)
        ggml.ggml_backend_tensor_set(self.x, np.ones(64, np.float32).ctypes.data, 0, 256)
        assert ggml.ggml_backend_sched_graph_compute(self.sched, self.graph) == ggml.GGML_STATUS_SUCCESS
        out = np.zeros(64, np.float32)
        ggml.ggml_backend_tensor_get(self.result, out.ctypes.data, 0, 256)
        return np.append(out, self.seen)


class Reading:
    """A GGUF file whose bytes a function delivers."""

    def __init__(self):
        self.data = gguf_files.all_kinds()
        self.read = ggml.gguf_reader_callback_t(self.deliver)

    def deliver(self, userdata, output, offset, size):
        part = self.data[offset : offset + size]
        ctypes.memmove(output, part, len(part))
        return len(part)

    def __call__(self):
        params = ggml.gguf_init_params(no_alloc=True)
        file = ggml.gguf_init_from_callback(self.read, None, 7, len(self.data), params)
        try:
            return [ggml.gguf_get_key(file, i) for i in range(ggml.gguf_get_n_kv(file))]
        finally:
            ggml.gguf_free(file)


class Messages:
    """Messages that a callback receives."""

    def __init__(self):
        self.ctx, self.lines = ggml.ggml_init(ggml.ggml_init_params(mem_size=0)), []
        for _ in range(30):
            ggml.ggml_new_tensor_1d(self.ctx, ggml.GGML_TYPE_F32, 4)

    def __call__(self):
        self.lines.clear()
        ggml.ggml_log_set(lambda level, text, userdata: self.lines.append(text), None)
        try:
            ggml.ggml_print_objects(self.ctx)
        finally:
            ggml.ggml_log_set(None, None)
        return list(self.lines)


class Aborting:
    """A graph with a function that is asked before each node whether to stop."""

    def __init__(self, kind):
        self.ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        x = from_numpy(np.ones(64, np.float32), self.ctx)
        for _ in range(100):
            x = ggml.ggml_scale_bias(self.ctx, x, 0.5, 1.0)
        self.result, self.graph = x, ggml.ggml_new_graph(self.ctx)
        ggml.ggml_build_forward_expand(self.graph, x)
        self.callback = kind(lambda data: len(str(data)) == 0)

    def __call__(self):
        to_numpy(self.result)[:] = 0
        plan = ggml.ggml_graph_plan(self.graph, 1, None)
        plan.abort_callback = self.callback
        assert ggml.ggml_graph_compute(self.graph, plan) == ggml.GGML_STATUS_SUCCESS
        return to_numpy(self.result).copy()


class Compared:
    """Two backends whose results a function sees, node by node."""

    def __init__(self):
        self.ctx, self.seen = ggml.ggml_init(ggml.ggml_init_params(mem_size=0)), 0
        self.backends = [ggml.ggml_backend_cpu_init() for _ in range(2)]
        x = from_numpy(np.ones(64, np.float32), self.ctx)
        for _ in range(40):
            x = ggml.ggml_scale_bias(self.ctx, x, 0.5, 1.0)
        self.graph = ggml.ggml_new_graph(self.ctx)
        ggml.ggml_build_forward_expand(self.graph, x)

    def see(self, index, a, b, userdata):
        self.seen += 1
        return True

    def __call__(self):
        self.seen = 0
        assert ggml.ggml_backend_compare_graph_backend(*self.backends, self.graph, self.see, None)
        return self.seen


class Training:
    """A few batches of training, from the same weights each time."""

    def __call__(self):
        from ggml.training import Session, adamw

        r = np.random.default_rng(1)
        data, labels = r.standard_normal((8, 4)).astype(np.float32), r.standard_normal((8, 2)).astype(np.float32)
        with Session(1, lambda step: self.losses.append(step.loss)) as session:
            self.losses = []
            w = session.parameter("w", np.ones((2, 4), np.float32))
            kind = ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR
            session.start(lambda ctx, x: ggml.ggml_mul_mat(ctx, w, x), 4, 4, kind, adamw(0.1))
            session.epoch(data, labels)
            return np.append(to_numpy(w), self.losses)


class Language:
    """A text of a language model, one of whose values a function changes."""

    def __init__(self, folder):
        import tiny_models

        from ggml.models import load

        self.model = load(tiny_models.write(folder / "model.gguf", "llama"), threads=1, kv_type="f32")
        self.model.edit("blk.1.out", lambda values: values + 0.5)

    def __call__(self):
        self.model.reset()
        return self.model.logits([3, 4, 5, 6])[-1].copy()


class Network:
    """An ONNX model with a loop."""

    def __init__(self):
        from onnx import TensorProto, helper

        import ggml.onnx

        nodes = [helper.make_node("Add", ["x" if i == 0 else f"v{i}", "x"], [f"v{i + 1}"]) for i in range(20)]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
        y = helper.make_tensor_value_info("v20", TensorProto.FLOAT, None)
        self.bytes = helper.make_model(helper.make_graph(nodes, "sums", [x], [y])).SerializeToString()
        self.load = ggml.onnx.load

    def __call__(self):
        return self.load(self.bytes).run(np.arange(5, dtype=np.float32))[0]


def calls(folder):
    """The calls by name; those that lack a module are left out."""
    found = {"custom, 1 thread": Chain(1), "custom, 2 threads": Chain(2), "scheduler": Scheduled(),
             "custom, plain": Chain(1, PLAIN), "rows": Rows(), "reader": Reading(), "messages": Messages(),
             "abort callback": Aborting(ggml.ggml_abort_callback), "comparison": Compared(),
             "abort callback, plain": Aborting(ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p))}  # fmt: skip
    for name, make in (("training", Training), ("language model", lambda: Language(folder)), ("onnx", Network)):
        try:
            found[name] = make()
            found[name]()
        except ImportError:
            found.pop(name, None)
    return found


class Timer:
    """Raises KeyboardInterrupt after a time, and notes that it has."""

    def __init__(self):
        self.fired = False
        signal.signal(signal.SIGALRM, self.fire)

    def fire(self, number, frame):
        self.fired = True
        raise KeyboardInterrupt

    def run(self, function, seconds):
        """What the function returns, and whether it was interrupted."""
        self.fired, result, raised = False, None, False
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            result = function()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            raised = True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return result, raised


def equal(a, b):
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faulthandler.enable()
    rng, timer, counts, faults = random.Random(options.seed), Timer(), Counter(), []
    ignored: list = []
    sys.unraisablehook = ignored.append
    with tempfile.TemporaryDirectory() as folder:
        functions = calls(Path(folder))
        expected = {name: function() for name, function in functions.items()}
        long = {}
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            long[name] = min(max(time.perf_counter() - start, 2e-5), LONGEST)
        end = time.monotonic() + options.seconds
        while time.monotonic() < end and len(faults) < 10:
            name = rng.choice(list(functions))
            ignored.clear()
            result, raised = timer.run(functions[name], rng.uniform(1e-6, 1.3 * long[name]))
            if any("callback" in str(event.err_msg) for event in ignored):
                faults.append(f"{name}: {ignored[0].err_msg} {ignored[0].object!r}: {ignored[0].exc_value!r}")
            elif ignored:
                counts["in finalisers"] += 1
            elif raised:
                counts["interrupted"] += 1
                result = functions[name]()
            elif timer.fired:
                faults.append(f"{name}: the interrupt was lost")
            else:
                counts["completed"] += 1
            if (raised or not timer.fired) and not equal(result, expected[name]):
                faults.append(f"{name}: {'the call after an interrupt' if raised else 'a call'} gave a wrong result")
    for fault in faults:
        print(fault)
    print(
        f"{sum(counts.values())} calls: {counts['interrupted']} interrupted, {counts['completed']} completed, "
        f"{counts['in finalisers']} in finalisers, {len(faults)} faults in {', '.join(functions)}"
    )
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
