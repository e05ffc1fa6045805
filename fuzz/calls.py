"""Random calls of every public function with hostile arguments, in child processes: none may die or hang.

    python fuzz/calls.py --seconds 600 --seed 1
    python fuzz/calls.py --only ggml_backend        # functions whose names begin so

A child makes `CALLS` calls of some functions; the last line that it has written is the call that ended it, which is printed with the seed.
Exit status 1: a child died, hung, or a call raised something other than an error of a proper kind. Addresses that a function must take on
trust (what C calls undefined: a made-up address within live memory) are not tried; freed handles, small numbers and unmapped addresses are.
"""

import argparse
import ctypes
import faulthandler
import inspect
import os
import random
import subprocess
import sys
import tempfile
import time

import ggml
from ggml import _absent

CALLS = 150
HANG = 60  # seconds for a child
PROPER = (TypeError, ValueError, MemoryError, RuntimeError, OSError, IndexError, OverflowError, KeyError)
# They end the process by design, wait, write files where they like, or load code.
APART = {"ggml_abort", "ggml_print_backtrace", "ggml_set_abort_callback", "ggml_log_set", "ggml_function",
         "ggml_backend_load", "ggml_backend_load_all_from_path"}  # fmt: skip
# Parameters that are memory to write to: these get no address of live memory, which C would overwrite as well.
MEMORY = {"x", "y", "data", "fp16", "fp32", "bf16", "i0", "i1", "i2", "i3", "dims", "free", "total", "labels_batch", "data_batch",
          "buf", "description", "ctx_data", "ctx_eval", "log_callback", "user_data", "ndata", "loss", "unc", "pred",
          "accuracy"}  # fmt: skip


def functions(prefix):
    """Every function of the surface that this build has, with the names of its positional arguments."""
    found = {}
    for name, f in sorted(vars(ggml).items()):
        if not name.startswith(("ggml_", "gguf_")) or isinstance(f, type) or not callable(f):
            continue
        if name in APART or name in _absent.functions or not name.startswith(prefix):
            continue
        try:
            params = inspect.signature(f).parameters.values()
        except (TypeError, ValueError):
            continue
        found[name] = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return found


class World:
    """Live objects of all kinds, freed ones, and things that are neither."""

    def __init__(self, rng):
        self.rng = rng
        self.keep = []
        ctx, gone = self.context(), self.context()
        stale = [self.tensors(gone)[0], self.graph(gone)]
        ggml.ggml_free(gone)
        bare = self.context(no_alloc=True)
        backend, dead_backend = ggml.ggml_backend_cpu_init(), ggml.ggml_backend_cpu_init()
        buft = ggml.ggml_backend_cpu_buffer_type()
        buffer, dead_buffer = (ggml.ggml_backend_buft_alloc_buffer(buft, 4096) for _ in range(2))
        placed = self.tensors(bare)[:2]
        self.live_buffer = ggml.ggml_backend_alloc_ctx_tensors(bare, backend)
        galloc, gguf = ggml.ggml_gallocr_new(buft), ggml.gguf_init_empty()
        dead_gguf = ggml.gguf_init_empty()
        ggml.gguf_free(dead_gguf)
        ggml.ggml_backend_buffer_free(dead_buffer)
        ggml.ggml_backend_free(dead_backend)
        device, reg = ggml.ggml_backend_dev_get(0), ggml.ggml_backend_reg_get(0)
        self.good = self.tensors(ctx)
        self.handles = [ctx, ctx, bare, backend, buft, buffer, galloc, gguf, device, reg, self.live_buffer]
        self.graphs = [self.graph(ctx), self.graph(ctx, True)]
        callback = ggml.ggml_custom1_op_t(lambda *args: None)
        self.unmapped = [None, 5, -1, 0, 1, 8, 0x1000, 1 << 40, 1 << 62, 1 << 64, 1.5, "text", [], {}, object(), bytearray(64),
                         ctypes.c_int(3), ctypes.c_void_p(), ctypes.c_void_p(8), (ctypes.c_int64 * 4)(2, 2, 2, 2)]  # fmt: skip
        self.values = [
            None, 5, -1, 0, 1, 2, 1 << 31, -(1 << 31), 1 << 40, 1 << 62, -(1 << 63), 1 << 64, 1.5, float("nan"), "text", b"bytes",
            [], [1, 2], {}, object(), True, gone, dead_backend, dead_buffer, dead_gguf, 8, 0x1000, *stale, *placed,
            ctypes.c_int(3), ctypes.c_void_p(), ctypes.c_void_p(8), ctypes.c_void_p(1 << 31), ggml.ggml_tensor_p(), ggml.ggml_cgraph_p(),
            ctypes.cast(0x1000, ggml.ggml_tensor_p), (ctypes.c_int64 * 4)(2, 2, 2, 2), ctypes.byref(ctypes.c_int(3)), bytearray(64),
            ggml.ggml_cplan(), ggml.ggml_init_params(), callback,
        ]  # fmt: skip

    def context(self, **how):
        ctx = ggml.ggml_init(ggml.ggml_init_params(**{"mem_size": 1 << 20, "mem_buffer": None, "no_alloc": False, **how}))
        self.keep.append(ctx)
        return ctx

    def tensors(self, ctx):
        new = ggml.ggml_new_tensor_4d
        made = [new(ctx, *row) for row in (
            (0, 4, 3, 1, 1), (0, 3, 4, 2, 1), (1, 8, 2, 2, 2), (26, 5, 1, 1, 1), (2, 64, 2, 1, 1), (0, 0, 3, 1, 1),
             (0, 7, 1, 1, 1))]  # fmt: skip
        return [*made, ggml.ggml_sqr(ctx, made[0])]

    def graph(self, ctx, grads=False):
        g = ggml.ggml_new_graph_custom(ctx, 8, grads)
        ggml.ggml_build_forward_expand(g, ggml.ggml_sqr(ctx, ggml.ggml_new_tensor_1d(ctx, 0, 4)))
        return g

    def arguments(self, names):
        """Anything, or something that looks right at first and so gets further."""
        rng, n = self.rng, len(names)
        args = [rng.choice(self.values + self.handles + self.good + self.graphs) for _ in range(n)]
        for i in range(n):
            kind = rng.random()
            if i == 0 and kind < 0.6:
                args[i] = rng.choice(self.handles + self.graphs)
            elif i == 0 and kind < 0.8 or i in (1, 2) and kind < 0.5:
                args[i] = rng.choice(self.good)
            elif i and kind < 0.7:
                args[i] = rng.choice((0, 1, 2, 3, -1, 16, 1 << 33, 0.5))
        for i in range(n):
            if names[i] in MEMORY or "type" in names and names[i] in ("src", "dst"):
                args[i] = rng.choice(self.unmapped)
        return args


def child(seed, names):
    """Calls; says each before it makes it."""
    faulthandler.enable()
    rng = random.Random(seed)
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.chdir(tempfile.mkdtemp())
    parameters = functions("")
    for name in names:
        world = World(rng)
        for _ in range(CALLS):
            args = world.arguments(parameters[name])
            os.write(out, f"{name}({', '.join(repr(a)[:60] for a in args)})\n".encode())
            try:
                getattr(ggml, name)(*args)
            except PROPER:
                pass
            if "free" in name or "reset" in name:
                world = World(rng)
    os.write(out, b"done\n")
    os._exit(0)  # objects that hold each other's freed memory are not this program's matter


def run(seed, names):
    """What ended a child that called these functions, or None."""
    command = [sys.executable, __file__, "--child", ",".join(names), "--seed", str(seed)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=HANG)
    except subprocess.TimeoutExpired as e:
        return f"hung at {(e.stdout or b'').decode(errors='replace').splitlines()[-1:]}"
    lines = done.stdout.decode(errors="replace").splitlines() or [""]
    if done.returncode == 0 and lines[-1] == "done":
        return None
    return f"exit status {done.returncode} at {lines[-1]}\n{done.stderr.decode(errors='replace')[-1500:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="functions whose names begin so")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.seed, args.child.split(","))
    names, end, seed, bad = list(functions(args.only)), time.monotonic() + args.seconds, args.seed, []
    done = 0
    while time.monotonic() < end:
        random.Random(seed).shuffle(names)
        for i in range(0, len(names), 25):
            part = names[i : i + 25]
            problem = run(seed, part)
            while problem:  # one function's crash hides the rest: note it, go on behind it
                bad.append(problem)
                print(f"seed {seed}: {problem}\n", flush=True)
                culprit = problem.partition(" at ")[2].strip("['\"").partition("(")[0]
                part = part[part.index(culprit) + 1 :] if culprit in part else []
                problem = run(seed, part) if part else None
            done += 1
            if time.monotonic() > end:
                break
        seed += 1
    print(f"{done} children of {CALLS} calls a function, {len(bad)} died, hung or raised what they must not")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
