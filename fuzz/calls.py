"""Random calls of all public functions with invalid arguments. None may crash, hang or exhaust memory.

    python fuzz/calls.py --seconds 600 --seed 1
    python fuzz/calls.py --only ggml_backend        # functions with this prefix; those of ggml.legacy: legacy.ggml_...
    python fuzz/calls.py --rounds 1 --calls 40      # 40 calls of every function

A child process calls some functions and prints each call before it makes it. If it dies, its last line and the seed are
printed. The exit status is 1 if a child died, hung or used more than MEMORY_LIMIT, or if a call raised an exception
that is not in EXPECTED or whose message does not begin with the function's name. Arguments are freed handles, small
numbers, unmapped addresses, structs of random bytes and the like, but not wrong addresses within live memory, which
functions cannot detect. The methods of some arguments (`__index__`, `__del__`, ...) wait for a call of another thread,
which frees a context: no call may keep it waiting.
"""

import argparse
import ctypes
import faulthandler
import inspect
import operator
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time

import ggml
import ggml.legacy
from ggml import _absent

try:
    import resource
except ImportError:  # Windows
    resource = None

TIME_LIMIT = 300  # seconds for a child
WAIT_LIMIT = 60  # seconds for a call of another thread
WAITED = 3  # exit status of a child in which such a call has kept waiting
MEMORY_LIMIT = 2 << 30  # bytes for a child
EXPECTED = (TypeError, ValueError, MemoryError, RuntimeError, OSError, IndexError, OverflowError, KeyError)
# These end the process by design, print a back-trace, keep a callback for later, declare a function, or load code.
EXCLUDED = {"ggml_abort", "ggml_print_backtrace", "ggml_set_abort_callback", "ggml_log_set", "ggml_function",
         "ggml_backend_load", "ggml_backend_load_all_from_path"}  # fmt: skip
# Parameters that are memory to write to. They get no address of live memory: the function would overwrite it.
MEMORY = {
    "x", "y", "data", "fp16", "fp32", "bf16", "i0", "i1", "i2", "i3", "dims", "free", "total", "labels_batch",
    "data_batch", "buf", "description", "ctx_data", "ctx_eval", "log_callback", "user_data", "ndata", "loss", "unc",
    "pred", "accuracy", "hist", "sizes", "ptr", "addr",
}  # fmt: skip
# Parameters that are functions. They get no address of live memory either: it would be called.
FUNCTIONS = {"fun", "callback", "callback_train", "callback_eval", "abort_callback", "get_opt_pars", "get_split_state"}
NUMBERS = (0, 1, 2, 3, -1, 16, 1 << 33, 0.5)
STRUCTS = [ggml.ggml_tensor, ggml.ggml_cgraph, ggml.ggml_cplan, ggml.ggml_init_params, ggml.gguf_init_params,
           ggml.ggml_tallocr, ggml.ggml_opt_params, ggml.ggml_threadpool_params, ggml.ggml_backend_graph_copy,
           ggml.ggml_backend, ggml.ggml_backend_device, ggml.ggml_object]  # fmt: skip
LEGACY_STRUCTS = [getattr(ggml.legacy, f"ggml_{name}") for name in (
    "tensor", "cgraph", "init_params", "opt_params", "scratch", "object")]  # fmt: skip
CALLBACKS = [
    ggml.ggml_custom1_op_t, ggml.ggml_custom_op_t, ggml.ggml_unary_op_f32_t, ggml.ggml_abort_callback,
    ggml.ggml_backend_sched_eval_callback, ggml.ggml_backend_eval_callback, ggml.ggml_opt_epoch_callback,
]  # fmt: skip


def boom(*args):
    """A callback that raises an exception."""
    raise ValueError("boom")


def resolve(name):
    """The function of a name, which begins with "legacy." for ggml.legacy and with "ext." for ggml.ext."""
    return operator.attrgetter(name)(ggml)


def functions(prefix):
    """All functions of all surfaces that this build has, with the names of their positional parameters."""
    found = {}
    names = [(name, name) for name in vars(ggml)] + [(f"legacy.{name}", name) for name in vars(ggml.legacy)]
    names = [(full, name) for full, name in names if name.startswith(("ggml_", "gguf_"))]
    names += [(f"ext.{name}", name) for name in ggml.ext.__all__]
    for full, name in sorted(names):
        f = resolve(full)
        if isinstance(f, type) or not callable(f):
            continue
        if name in EXCLUDED or name in _absent.functions or full in ggml.ext._MOVED or not full.startswith(prefix):
            continue
        try:
            params = inspect.signature(f).parameters.values()
        except (TypeError, ValueError):
            continue
        found[full] = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if any(p.kind is p.VAR_POSITIONAL for p in params):
            found[full] += ["more"] * 3
    return found


# ---- objects with code of a program ----
class Other(threading.Thread):
    """Another thread. Calls of the library that it makes must end, whatever runs the code that waits for them."""

    def __init__(self):
        super().__init__(daemon=True)
        self.asked, self.done = queue.SimpleQueue(), queue.SimpleQueue()
        self.start()

    def run(self):
        params = ggml.ggml_init_params(mem_size=4096, mem_buffer=None, no_alloc=False)
        while True:
            self.asked.get()
            ggml.ggml_free(ggml.ggml_init(params))
            ggml.ggml_threadpool_params_default(1)
            self.done.put(None)

    def wait(self):
        if threading.current_thread() is self:  # which lets go of an object
            return
        self.asked.put(None)
        try:
            self.done.get(timeout=WAIT_LIMIT)
        except queue.Empty:
            faulthandler.dump_traceback(all_threads=True)
            os._exit(WAITED)


def waiting(other):
    """Objects whose methods wait for a call of another thread."""

    def after(value):
        return lambda *args: other.wait() or value

    def made(base, **methods):
        return type("Waiting", (base,), {name: after(value) for name, value in methods.items()})

    number = {"__index__": 2, "__float__": 2.0, "__bool__": True}
    parts = [
        made(object, **number)(), made(object, __index__=-1)(), made(object, __repr__="waiting")(),
        made(object, __fspath__="file")(), made(object, __call__=True, __del__=None)(),
        made(object, __getattr__=None)(), made(object, __len__=1, __getitem__=1, __iter__=iter((1, 2)))(),
        made(object, __buffer__=memoryview(bytes(64)))(), made(int, __index__=2, __eq__=True, __hash__=1)(2),
        made(list, __getitem__=1, __len__=4)([1, 2, 3, 4]), made(bytearray, __del__=None)(64),
        made(str, encode=b"text")("text"), made(bytes, __len__=4, __contains__=False)(b"text"),
    ]  # fmt: skip
    for name in ("_as_parameter_", "_obj", "__class__", "value"):
        parts.append(type("Waiting", (object,), {name: property(after(ctypes.c_int(3)))})())
    return [*parts, type("Waiting", (ctypes.c_int,), {"value": property(after(3))})(3)]


# ---- arguments -------------------------------------------------------------------------------------------------------
class Factory:
    """Creates objects of one of the two surfaces."""

    def __init__(self, rng, api):
        self.rng, self.api = rng, api

    def garbage(self, struct):
        """A struct of random bytes, in which special numbers are frequent."""
        n = ctypes.sizeof(struct) // 8 + 1
        words = [self.rng.choice((0, 1, 5, 64, (1 << 64) - 1, 1 << 40, self.rng.getrandbits(64))) for _ in range(n)]
        return struct.from_buffer(bytearray(b"".join(w.to_bytes(8, "little") for w in words)))

    def context(self, **how):
        params = {"mem_size": 1 << 20, "mem_buffer": None, "no_alloc": False, **how}
        return self.api.ggml_init(self.api.ggml_init_params(**params))

    def tensors(self, ctx):
        f32, f16 = self.api.GGML_TYPE_F32, self.api.GGML_TYPE_F16
        i32, q8 = self.api.GGML_TYPE_I32, self.api.GGML_TYPE_Q8_0
        made = [self.api.ggml_new_tensor_4d(ctx, *row) for row in (
            (f32, 4, 3, 1, 1), (f32, 3, 4, 2, 1), (f16, 8, 2, 2, 2), (i32, 5, 1, 1, 1), (q8, 64, 2, 1, 1),
            (f32, 0, 3, 1, 1), (f32, 7, 1, 1, 1))]  # fmt: skip
        return [*made, self.api.ggml_sqr(ctx, made[0])]

    def graph(self, ctx):
        y = self.api.ggml_sqr(ctx, self.api.ggml_new_tensor_1d(ctx, 0, 4))
        if self.api is not ggml:
            return ctypes.pointer(self.api.ggml_build_forward(y))
        g = ggml.ggml_new_graph_custom(ctx, 8, self.rng.random() < 0.5)
        ggml.ggml_build_forward_expand(g, y)
        return g

    def training(self, backend, sched):
        """An optimisation context with one parameter."""
        static = self.context(no_alloc=True)
        x, w = ggml.ggml_new_tensor_2d(static, 0, 4, 2), ggml.ggml_new_tensor_2d(static, 0, 4, 1)
        ggml.ggml_set_param(w)
        ggml.ggml_backend_alloc_ctx_tensors(static, backend)
        params = ggml.ggml_opt_default_params(sched, 3)
        params.ctx_compute, params.inputs, params.outputs = self.context(no_alloc=True), x, None
        params.outputs = ggml.ggml_mul_mat(params.ctx_compute, w, x)
        return ggml.ggml_opt_init(params)


class Arguments(Factory):
    """Live objects of all kinds, freed ones, and values that are neither."""

    def __init__(self, rng, api, other):
        super().__init__(rng, api)
        self.waiting = waiting(other)
        ctx, gone = self.context(), self.context()
        stale = [self.tensors(gone)[0], self.graph(gone)]
        api.ggml_free(gone)
        self.live = self.tensors(ctx)
        self.graphs = [self.graph(ctx), self.graph(ctx)]
        # valid arguments by the name of the parameter
        self.valid = {"ctx": [ctx], "cgraph": self.graphs, "graph": self.graphs, "gf": self.graphs, "gb": self.graphs}
        self.callbacks = [kind(boom) for kind in CALLBACKS]
        self.values = [
            None, 5, -1, 0, 1, 2, 1 << 31, -(1 << 31), 1 << 40, 1 << 62, -(1 << 63), 1 << 64, 1.5, float("nan"), "text",
            b"bytes", [], [1, 2], {}, object(), True, gone, 8, 0x1000, *stale, ctypes.c_int(3), ctypes.c_void_p(),
            ctypes.c_void_p(8), ctypes.c_void_p(1 << 31), ggml.ggml_tensor_p(), ggml.ggml_cgraph_p(),
            ctypes.cast(0x1000, ggml.ggml_tensor_p), (ctypes.c_int64 * 4)(2, 2, 2, 2), ctypes.byref(ctypes.c_int(3)),
            bytearray(64), boom, *self.callbacks, self.live,
            (ggml.ggml_tensor_p * 2)(), (ctypes.c_void_p * 2)(5, 8), b"\xff\xfe", "\udcff", b"x" * 300,
        ]  # fmt: skip
        for struct in STRUCTS if api is ggml else LEGACY_STRUCTS:
            made = self.garbage(struct)
            self.values += [made, ctypes.byref(made), ctypes.pointer(self.garbage(struct)), struct()]
        # values without an address of live memory that a function could overwrite or call
        self.unmapped = [
            None, 5, -1, 0, 1, 8, 0x1000, 1 << 40, 1 << 62, 1 << 64, 1.5, "text", [], {}, object(), bytearray(64),
            ctypes.c_int(3), ctypes.c_void_p(), ctypes.c_void_p(8), (ctypes.c_int64 * 4)(2, 2, 2, 2),
        ]  # fmt: skip
        if api is ggml:
            self.add_current()
        self.values += [self.corrupted(t) for t in self.tensors(ctx) for _ in range(3)]
        self.handles = [handle for handles in self.valid.values() for handle in handles]

    def add_current(self):
        """Adds objects that ggml.legacy does not have: backends, buffers, allocators, schedulers, training, GGUF."""
        bare = self.context(no_alloc=True)
        backend, dead_backend = ggml.ggml_backend_cpu_init(), ggml.ggml_backend_cpu_init()
        buft = ggml.ggml_backend_cpu_buffer_type()
        buffer, dead_buffer = (ggml.ggml_backend_buft_alloc_buffer(buft, 4096) for _ in range(2))
        self.live += self.tensors(bare)[:2]
        placed = ggml.ggml_backend_alloc_ctx_tensors(bare, backend)
        array = (ctypes.c_void_p * 1)(backend)
        sched, dead_sched = (ggml.ggml_backend_sched_new(array, None, 1, 64, False) for _ in range(2))
        galloc, dead_galloc = ggml.ggml_gallocr_new(buft), ggml.ggml_gallocr_new(buft)
        gguf, dead_gguf = ggml.gguf_init_empty(), ggml.gguf_init_empty()
        dataset, dead_dataset = (ggml.ggml_opt_dataset_init(0, 0, 4, 1, 8, 2) for _ in range(2))
        result, dead_result = ggml.ggml_opt_result_init(), ggml.ggml_opt_result_init()
        pools = [ggml.ggml_threadpool_new(ctypes.byref(ggml.ggml_threadpool_params_default(2))) for _ in range(2)]
        plan, dead_plan = (ggml.ggml_backend_graph_plan_create(backend, self.graphs[0]) for _ in range(2))
        device, reg = ggml.ggml_backend_dev_get(0), ggml.ggml_backend_reg_get(0)
        opt, dead_opt = self.training(backend, sched), self.training(backend, sched)
        ggml.gguf_set_val_u32(gguf, b"key", 7)
        ggml.gguf_set_arr_str(gguf, b"strings", [b"a", b"b"], 2)
        ggml.gguf_add_tensor(gguf, ggml.ggml_set_name(self.live[0], b"t"))
        for free, dead in (
            (ggml.ggml_opt_free, dead_opt), (ggml.gguf_free, dead_gguf), (ggml.ggml_backend_buffer_free, dead_buffer),
            (ggml.ggml_backend_sched_free, dead_sched), (ggml.ggml_gallocr_free, dead_galloc),
            (ggml.ggml_opt_dataset_free, dead_dataset), (ggml.ggml_opt_result_free, dead_result),
            (ggml.ggml_threadpool_free, pools[1]), (ggml.ggml_backend_free, dead_backend),
        ):  # fmt: skip
            free(dead)
            self.values.append(dead)
        ggml.ggml_backend_graph_plan_free(backend, dead_plan)
        self.values.append(dead_plan)
        backend_names = ("backend", "backend1", "backend2", "backend_cpu", "backend_src", "backend_dst")
        self.valid |= dict.fromkeys(backend_names, [backend])
        self.valid |= dict.fromkeys(("result", "result_train", "result_eval"), [result])
        self.valid |= {
            "ctx": [self.valid["ctx"][0], bare], "gguf": [gguf], "backends": [array], "buffer": [buffer, placed],
            "buffers": [(ctypes.c_void_p * 1)(buffer)], "buft": [buft], "bufts": [(ctypes.c_void_p * 1)(buft)],
            "device": [device], "devs": [(ctypes.c_void_p * 1)(device)], "reg": [reg], "sched": [sched],
            "backend_sched": [sched], "galloc": [galloc], "dataset": [dataset], "threadpool": [pools[0]],
            "plan": [plan], "opt_ctx": [opt], "measure_graph": self.graphs,
            "copy": [ggml.ggml_backend_graph_copy_(backend, self.graphs[0])],
            "params": [ggml.ggml_opt_default_params(sched, 3), ggml.ggml_init_params()],
            "talloc": [ggml.ggml_tallocr_new(buffer)], "key": [b"key", b"strings", b"none"], "name": [b"t", b"CPU"],
            "fname": [b"file"], "filename": [b"file"],
        }  # fmt: skip

    def corrupted(self, t):
        """The tensor t or a new node, with one field overwritten by random bytes."""
        t = self.api.ggml_sqr(self.valid["ctx"][0], self.live[0]) if self.rng.random() < 0.5 else t
        fields = [f for f in type(t.contents)._fields_ if f[0] not in ("data", "extra", "padding")]
        field, kind = self.rng.choice(fields)
        made = self.garbage(type("Field", (ctypes.Structure,), {"_fields_": [(field, kind)]}))
        setattr(t.contents, field, getattr(made, field))
        return t

    def argument(self, function, name):
        """A random argument for a parameter: often a valid one, so that the call passes the first checks."""
        rng = self.rng
        kind = "gguf" if name == "ctx" and function.startswith("gguf_") else name
        if rng.random() < 0.1:
            return rng.choice(self.waiting)
        if name in MEMORY:
            return rng.choice(self.unmapped)
        if name in FUNCTIONS:
            return rng.choice([*self.unmapped, boom, *self.callbacks])
        if kind in self.valid and rng.random() < 0.8:
            return rng.choice(self.valid[kind])
        if rng.random() < 0.5:
            return rng.choice(self.values + self.handles + self.live)
        return rng.choice(self.live) if rng.random() < 0.6 else rng.choice(NUMBERS)

    def arguments(self, function, names):
        memory = {"src", "dst"} if "type" in names or "hist" in names else ()  # not tensors in such a function
        return [self.rng.choice(self.unmapped) if name in memory else self.argument(function, name) for name in names]


# ---- calls -----------------------------------------------------------------------------------------------------------
def fault(name, error):
    """What is wrong with an exception, or None."""
    text, bare = str(error), name.removeprefix("legacy.").rstrip("_")
    bare = f"ggml.{bare}" if name.startswith("ext.") else bare
    if not isinstance(error, EXPECTED):
        return f"raised {error!r}"
    if text == "boom" or isinstance(error, OSError) and error.errno:
        return None
    if not text.startswith(bare) and not (isinstance(error, TypeError) and bare in text):
        return f"raised {error!r}, which does not begin with its name"
    return None


def child(seed, names, calls):
    """Calls each function `calls` times and prints each call before it."""
    faulthandler.enable()
    rng = random.Random(seed)
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.chdir(tempfile.mkdtemp())
    parameters, other = functions(""), Other()
    for name in names:
        api = ggml.legacy if name.startswith("legacy.") else ggml
        made = Arguments(rng, api, other)
        invalidates = "free" in name or "reset" in name  # the next call needs new objects, which are never freed
        for _ in range(min(calls, 25) if invalidates else calls):
            args = made.arguments(name, parameters[name])
            os.write(out, f"{name}({', '.join(repr(a)[:60] for a in args)})\n".encode(errors="replace"))
            try:
                resolve(name)(*args)
            except BaseException as error:
                wrong = fault(name, error)
                if wrong:
                    sys.exit(wrong)
            if invalidates:
                made = Arguments(rng, api, other)
        if resource and peak_memory() > MEMORY_LIMIT:
            sys.exit("used too much memory")
    os.write(out, b"done\n")
    os._exit(0)  # without destructors: objects may refer to freed ones


def peak_memory():
    """The peak of the resident set in bytes."""
    unit = 1024 if sys.platform == "linux" else 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def run(seed, names, calls):
    """Calls functions in a child process. Returns why it ended early, or None."""
    command = [sys.executable, __file__, "--child", ",".join(names), "--seed", str(seed), "--calls", str(calls)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired as e:
        return f"hung at {(e.stdout or b'').decode(errors='replace').splitlines()[-1:]}"
    lines = done.stdout.decode(errors="replace").splitlines() or [""]
    if done.returncode == 0 and lines[-1] == "done":
        return None
    return f"exit status {done.returncode} at {lines[-1]}\n{done.stderr.decode(errors='replace')[-1500:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=0, help="call all functions this often, without a time limit")
    parser.add_argument("--calls", type=int, default=150, help="calls of each function in a child")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only functions with this prefix")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.seed, args.child.split(","), args.calls)
    names, end, bad, done = list(functions(args.only)), time.monotonic() + args.seconds, [], 0
    for seed in range(args.seed, args.seed + (args.rounds or sys.maxsize)):
        random.Random(seed).shuffle(names)
        for i in range(0, len(names), 25):
            part = names[i : i + 25]
            problem = run(seed, part, args.calls)
            while problem:  # continues with the functions after the one that failed
                bad.append(problem)
                print(f"seed {seed}: {problem}\n", flush=True)
                culprit = problem.partition(" at ")[2].strip("['\"").partition("(")[0]
                part = part[part.index(culprit) + 1 :] if culprit in part else []
                problem = run(seed, part, args.calls) if part else None
            done += 1
            if not args.rounds and time.monotonic() > end:
                break
        else:
            continue
        break
    print(f"{done} children with {args.calls} calls of each function, {len(bad)} faults")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
