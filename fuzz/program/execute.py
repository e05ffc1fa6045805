"""Executes programs in a process of its own: reads one program a line from stdin, writes one answer a line.

Runs with any Python whose `ggml` is this package or the ctypes bindings, and needs NumPy alone. A program is a list of
items: a leaf (type, sizes, two sets of bytes) or a call (function, arguments). An argument is a number, a bool, None,
{"t": item}, {"i64": [...]}, {"i32": [...]} or {"callback": name}. The items are expanded into the graph one by one, so
that the nodes lie in the order of the program. Lines that begin with "#" say what comes next: the last of them tells
where a process died.
"""

import base64
import contextlib
import ctypes
import faulthandler
import json
import operator
import os
import random
import sys

import numpy as np

import ggml

PEER = not hasattr(ggml, "_core")  # the ctypes bindings
DTYPES = {"f32": "f4", "f16": "f2", "bf16": "u2", "f64": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}
SIZE = 1 << 29 if PEER else 0  # bytes of a context; those of the bindings cannot grow
NODES, THREADS, NOISY_RUNS = 4096, (1, 2, 3), 3
out = None  # the stream of answers


class Fault(Exception):
    """Two results that must be equal are not."""


def say(text):
    out.write(f"# {text}\n")
    out.flush()


# ---- tensors ---------------------------------------------------------------------------------------------------------
def type_name(t):
    return ggml.ggml_type_name(t.contents.type).decode().lower()


def unpack(text):
    return base64.b64decode(text)


def array_over(t):
    """The elements of a tensor of a type with one element a block, as a strided array over its memory."""
    dtype, c = np.dtype(DTYPES[type_name(t)]), t.contents
    ne, nb = tuple(c.ne[:4]), tuple(c.nb[:4])
    if 0 in ne:
        return np.empty(ne[::-1], dtype)
    size = sum((n - 1) * b for n, b in zip(ne, nb)) + dtype.itemsize
    flat = np.frombuffer((ctypes.c_uint8 * size).from_address(c.data), np.uint8)
    return np.ndarray(ne[::-1], dtype, flat.data, 0, nb[::-1])


def read(t):
    """The bytes of a tensor's elements, without gaps."""
    if type_name(t) in DTYPES:
        return array_over(t).tobytes()
    return ctypes.string_at(t.contents.data, ggml.ggml_nbytes(t))


def put(t, data):
    """Writes the bytes of a leaf."""
    if data and PEER:  # its function ends the process for a tensor without a buffer
        ctypes.memmove(t.contents.data, data, len(data))
    elif data:
        ggml.ggml_backend_tensor_set(t, (ctypes.c_char * len(data)).from_buffer_copy(data), 0, len(data))


def is_view(t):
    return bool(t.contents.view_src)


# ---- callbacks of custom operations ----------------------------------------------------------------------------------
def product_part(dst, *args):
    """Task ith of nth computes a * a, a * b or a * b + c for every nth element along the innermost dimension."""
    *operands, ith, nth, _ = args
    operands = operands or [t for t in dst.contents.src if t]
    x = [array_over(t)[..., ith::nth] for t in operands]
    array_over(dst)[..., ith::nth] = x[0] * x[min(1, len(x) - 1)] + (x[2] if len(x) > 2 else 0)


def count_part(dst, ith, nth, userdata):
    """The numbers from `userdata` on."""
    shape = tuple(dst.contents.ne[:4])[::-1]
    counted = (userdata or 0) + np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    array_over(dst)[..., ith::nth] = counted[..., ith::nth]


def callback_type(fn):
    """The name of the ctypes type of the callback of a constructor."""
    return f"ggml_{fn.removeprefix('map_').removesuffix('_inplace').removesuffix('_4d')}_op_t"


def numbers(kind, values):
    """A ctypes array; kind is i32 or i64."""
    return ((ctypes.c_int64 if kind == "i64" else ctypes.c_int) * len(values))(*values)


CALLBACKS = {"compute_part": product_part, "count_part": count_part}


# ---- one program in one context --------------------------------------------------------------------------------------
class Built:
    """The tensors and the graph of a program, in one context. `freeing` holds (what, function that frees it)."""

    def __init__(self, items, grads=None, place=None, outputs=(), size=SIZE):
        """grads: (the items that are parameters, the item that is the loss). place: None for tensors in the context,
        "buffer" for leaves in a buffer of their own, "inputs" for leaves that the allocator places. size: bytes of the
        context, 0 for one that grows.
        """
        self.items, self.place, self.freeing, self.kept, self.tensors, self.ends = items, place, [], [], [], []
        self.ctx = self.context(size, bool(place))
        self.leaf_ctx = self.context(0, True) if place == "buffer" else self.ctx
        self.graph = ggml.ggml_new_graph_custom(self.ctx, NODES, bool(grads))
        self.at = 0
        for i, item in enumerate(items):
            self.at = i
            t = self.leaf(item) if "type" in item else self.call(item)
            if grads and i in grads[0] or item.get("param"):
                ggml.ggml_set_param(t)
            if i in outputs:
                ggml.ggml_set_output(t)
            self.tensors.append(t)
            if "fn" in item:
                ggml.ggml_build_forward_expand(self.graph, t)
            self.ends.append(ggml.ggml_graph_n_nodes(self.graph))
        self.gradients = {}
        if grads:
            ggml.ggml_set_loss(self.tensors[grads[1]])
            ggml.ggml_build_backward_expand(self.ctx, self.graph, None)
            found = {i: ggml.ggml_graph_get_grad(self.graph, self.tensors[i]) for i in grads[0]}
            self.gradients = {i: t for i, t in found.items() if t}
            for t in self.gradients.values() if place else ():
                ggml.ggml_set_output(t)

    def context(self, size, no_alloc):
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=no_alloc))
        self.freeing.append(("context", lambda: ggml.ggml_free(ctx)))
        return ctx

    def leaf(self, item):
        kind = getattr(ggml, "GGML_TYPE_" + item["type"])
        t = ggml.ggml_new_tensor_4d(self.leaf_ctx, kind, *item["ne"])
        if self.place == "inputs":
            ggml.ggml_set_input(t)
        return t

    def call(self, item):
        fn = item["fn"]
        if PEER:
            say(f"call {self.at} {fn}")
        function = operator.attrgetter(fn if fn.startswith("ext.") else "ggml_" + fn)(ggml)
        return function(self.ctx, *(self.argument(fn, a) for a in item["args"]))

    def argument(self, fn, a):
        if not isinstance(a, dict):
            return a
        ((kind, value),) = a.items()
        if kind == "t":
            return self.tensors[value]
        if kind == "callback":
            made = getattr(ggml, callback_type(fn))(CALLBACKS[value])
        else:
            made = numbers(kind, value)
        self.kept.append(made)
        return made

    def nodes(self):
        return [ggml.ggml_graph_node(self.graph, i) for i in range(ggml.ggml_graph_n_nodes(self.graph))]

    def restore(self, which):
        """Writes the data of the leaves, and bytes that are NaN over the results."""
        for item, t in zip(self.items, self.tensors):
            if "type" in item:
                if self.place != "inputs" or t.contents.data:  # the allocator places what the graph reads
                    put(t, unpack(item[which]))
            elif not self.place and not is_view(t) and not PEER:
                ctypes.memset(t.contents.data, 0xFF, ggml.ggml_nbytes(t))
        if self.gradients:
            ggml.ggml_graph_reset(self.graph)

    def compute(self, which, threads):
        self.restore(which)
        if ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, threads) != ggml.GGML_STATUS_SUCCESS:
            raise Fault("the compute returned another status than success")
        return self.final()

    def final(self):
        found = {str(i): read(t) for i, t in enumerate(self.tensors)}
        return found | {f"grad {i}": read(t) for i, t in self.gradients.items()}

    def step(self, which="a", after=None):
        """Computes node by node. Returns the values of the items just after they were computed, and the operands
        that a later item overwrote before another one read them.
        """
        self.restore(which)
        values, stale, done, nodes = {}, {}, 0, ggml.ggml_graph_n_nodes(self.graph)
        for i, (item, t) in enumerate(zip(self.items, self.tensors)):
            for k, a in enumerate(item.get("args", ())):
                if isinstance(a, dict) and "t" in a and (now := read(self.tensors[a["t"]])) != values[a["t"]]:
                    stale[f"{i} {k}"] = now
            done = self.range(done, self.ends[i], after, i)
            values[i] = read(t)
        self.range(done, nodes, after, -1)
        return values, stale

    def range(self, first, end, after, i):
        for n in range(first, end):
            if PEER:
                say(f"node {i} {self.items[i].get('fn')}")
            view = ggml.ggml_graph_view(self.graph, n, n + 1)
            graph = ctypes.pointer(view) if PEER else view
            if ggml.ggml_graph_compute_with_ctx(self.ctx, graph, 1) != ggml.GGML_STATUS_SUCCESS:
                raise Fault("the compute returned another status than success")
            if after:
                after(i, ggml.ggml_graph_node(self.graph, n))
        return end

    def free(self, rng):
        """Frees everything in random order. What is left is used in between: it raises or computes."""
        rng.shuffle(self.freeing)
        for what, function in self.freeing:
            say(f"frees {what}")
            function()
            if not PEER:
                with contextlib.suppress(ValueError, RuntimeError):
                    self.use()

    def use(self):
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, 2)


compared = 0  # results of the current program that were compared bit by bit


def equal(got, want, what):
    global compared
    compared += len(got)
    for k in got:
        if got[k] != want[k]:
            raise Fault(f"{what}: item {k} has other bits")


# ---- what this package must keep -------------------------------------------------------------------------------------
class Placed(Built):
    """A program whose tensors a graph allocator or a scheduler with two CPUs places."""

    def __init__(self, program, how, grads=None):
        self.how, rng = how, random.Random(program["seed"])
        super().__init__(program["items"], grads, rng.choice(("buffer", "inputs")), program["outputs"])
        self.outputs, self.cpu = program["outputs"], ggml.ggml_backend_cpu_init()
        self.freeing.append(("backend", lambda: ggml.ggml_backend_free(self.cpu)))
        if self.leaf_ctx is not self.ctx and any("type" in item for item in self.items):
            buffer = ggml.ggml_backend_alloc_ctx_tensors(self.leaf_ctx, self.cpu)
            if buffer:
                self.freeing.append(("buffer", lambda: ggml.ggml_backend_buffer_free(buffer)))
        if how == "gallocr":
            self.allocator = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())
            own = self.allocator
            self.freeing.append(("allocator", lambda: ggml.ggml_gallocr_free(own)))
        else:
            from ggml._backend import device

            second = ggml.ggml_backend_dev_init(device._new_cpu_device(b"CPU1"), None)
            backends = (ctypes.c_void_p * 2)(second, self.cpu)
            self.allocator = ggml.ggml_backend_sched_new(backends, None, 2, NODES, rng.random() < 0.2)
            self.freeing += [("scheduler", lambda: ggml.ggml_backend_sched_free(self.allocator)),
                             ("second backend", lambda: ggml.ggml_backend_free(second))]  # fmt: skip
            for t in rng.sample(self.nodes(), rng.randint(0, len(self.nodes()))):
                ggml.ggml_backend_sched_set_tensor_backend(self.allocator, t, rng.choice((second, self.cpu)))

    def allocate(self):
        place = ggml.ggml_gallocr_alloc_graph if self.how == "gallocr" else ggml.ggml_backend_sched_alloc_graph
        if not place(self.allocator, self.graph):
            raise Fault("the allocator could not place the graph")

    def run(self):
        if self.how == "gallocr":
            return ggml.ggml_backend_graph_compute(self.cpu, self.graph)
        return ggml.ggml_backend_sched_graph_compute(self.allocator, self.graph)

    def use(self):
        self.allocate()
        self.run()

    def compute(self, which, threads):
        ggml.ggml_backend_cpu_set_n_threads(self.cpu, threads)
        self.allocate()
        self.restore(which)
        if self.run() != ggml.GGML_STATUS_SUCCESS:
            raise Fault("the compute returned another status than success")
        found = {str(i): read(self.tensors[i]) for i in self.outputs}
        found |= {f"grad {i}": read(t) for i, t in self.gradients.items()}
        if self.how != "gallocr":
            ggml.ggml_backend_sched_reset(self.allocator)
        return found


def another_graph_between(placed, program, final):
    """The allocator of a program serves its first half, which another plan fits, and then the whole again."""
    half = len(program["items"]) // 2
    part = {**program, "items": program["items"][:half], "outputs": [k for k in program["outputs"] if k < half]}
    plain, other = Built(part["items"]), Placed(part, "gallocr")
    own, other.allocator = other.allocator, placed.allocator
    equal(other.compute("a", 2), plain.compute("a", 1), "the first half by the allocator of the whole")
    equal(placed.compute("a", 2), final, "the whole after its first half")
    other.allocator = own
    plain.free(random.Random(6)), other.free(random.Random(7))


def keep_views(built):
    """NumPy views of results, and copies of what they show."""
    from ggml.utils import to_numpy

    views = [to_numpy(t) for t in built.tensors if type_name(t) in ("f32", "i32")]
    return [(view, view.copy()) for view in views]


def after_freeing(built, views):
    """Views of freed memory show what they showed, also after new contexts were filled; tensors raise."""
    other = Built([])
    t = ggml.ggml_new_tensor_1d(other.ctx, ggml.GGML_TYPE_F32, 1 << 16)
    ctypes.memset(t.contents.data, 0x7F, 1 << 18)
    for view, copy in views:
        if view.tobytes() != copy.tobytes():
            raise Fault("a NumPy view changed after its context was freed")
    for t in built.tensors[:3]:
        try:
            ggml.ggml_sqr(other.ctx, t)
        except RuntimeError:
            continue
        raise Fault("a tensor of a freed context was accepted")
    other.free(random.Random(0))


def with_numbers_of(built, program, want):
    """Writes the parameters of a variant of the program into its nodes: the results must be the variant's."""
    variant = Built(program["variant"])
    expected = variant.compute("a", 1)
    before = [bytes(t.contents.op_params) for t in built.nodes()]
    for t, source in zip(built.nodes(), variant.nodes()):
        ctypes.memmove(t.contents.op_params, source.contents.op_params, ctypes.sizeof(t.contents.op_params))
    equal(built.compute("a", 2), expected, "parameters rewritten between computes")
    for t, kept in zip(built.nodes(), before):
        ctypes.memmove(t.contents.op_params, kept, len(kept))
    equal(built.compute("a", 2), want, "parameters restored between computes")
    variant.free(random.Random(1))


def check_all(program, rng):
    """Computes a program in every way. Returns the values of its items when they were computed and at the end, the
    operands that were overwritten before a later item read them, what the reference kernels give, and the names of the
    nodes.
    """
    built = Built(program["items"], size=rng.choice((SIZE, 1 << 25)))
    say("node by node")
    values, stale = built.step()
    final = built.final()
    for threads in THREADS:
        say(f"{threads} threads")
        equal(built.compute("a", threads), final, f"{threads} threads against node by node")
    say("other inputs")
    other = built.compute("b", 2)
    made = [built]
    for how in ("gallocr", "scheduler"):
        say(how)
        placed = Placed(program, how)
        made.append(placed)
        for which, threads, want in (("a", 1, final), ("b", 2, other), ("a", 3, final)):
            equal(placed.compute(which, threads), want, f"{how}, inputs {which}, {threads} threads")
    say("another graph between")
    another_graph_between(made[1], program, final)
    say("reference kernels")
    ggml.ggml_backend_cpu_set_use_ref(made[1].cpu, True)
    scalar = made[1].compute("a", 2)
    if program.get("variant"):
        say("other parameters")
        with_numbers_of(built, program, final)
    names = [ggml.ggml_op_desc(t).decode() for t in built.nodes()]
    views = keep_views(built)
    for one in rng.sample(made, len(made)):
        one.free(rng)
    after_freeing(built, views)
    return {"values": values, "stale": stale, "final": final, "scalar": scalar, "names": names}


def gradients(program):
    """The gradients of a program, computed in every way, or why there are none; and the names of the nodes."""
    say("backward graph")
    try:
        built = Built(program["items"], program["grads"])
    except ValueError as error:
        return {"refused": str(error)}, []
    final = built.compute("a", 1)
    for threads in THREADS[1:]:
        say(f"gradients, {threads} threads")
        equal(built.compute("a", threads), final, f"gradients, {threads} threads")
    say("gradients, gallocr")
    placed = Placed(program, "gallocr", program["grads"])
    for threads in (1, 2):
        equal(placed.compute("a", threads), final, f"gradients, gallocr, {threads} threads")
    names = [ggml.ggml_op_desc(t).decode() for t in built.nodes()]
    noisy = perturbed(built, program) if program["noise"] else []
    found = {i: final[f"grad {i}"] for i in built.gradients}
    placed.free(random.Random(2)), built.free(random.Random(3))
    return {"grads": found, "noisy": noisy}, names


def perturbed(built, program):
    """The end values of runs in which every result gets a random error of the size that its operation may have.

    Errors of equal sizes could cancel in all runs, where few elements are summed.
    """
    runs = []
    for seed in range(NOISY_RUNS):
        rng = np.random.default_rng(seed)

        def disturb(i, t, rng=rng):
            name = type_name(t)
            if t.contents.op in VIEWS or name not in ("f32", "f16", "bf16") or not ggml.ggml_nelements(t):
                return
            bits = array_over(t)
            x = (bits.astype(np.uint32) << 16).view(np.float32) if name == "bf16" else bits
            tol = program["items"][i].get("tol", program["grad_tol"]) if i >= 0 else program["grad_tol"]
            with np.errstate(all="ignore"):
                size = np.abs(x.astype(np.float64))
                mean = np.mean(size[np.isfinite(size)]) if np.isfinite(size).any() else 0.0
                noise = np.maximum(size, mean) * tol * rng.choice((-1.0, 1.0), x.shape) * rng.uniform(0.5, 1.5, x.shape)
                x = x + np.where(np.isfinite(noise) & (size > 0), noise, 0)
                bits[...] = x.astype(np.float32).view(np.uint32) >> 16 if name == "bf16" else x.astype(bits.dtype)

        say(f"perturbed run {seed}")
        values, _ = built.step(after=disturb)
        runs.append({str(i): v for i, v in values.items()} | {f"grad {i}": read(t) for i, t in built.gradients.items()})
    return runs


VIEWS = [getattr(ggml, "GGML_OP_" + name) for name in ("NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE")]


def answer(program):
    """All that is wanted of one program."""
    global compared
    compared = 0
    if PEER:
        return peer_answer(program)
    try:
        found = check_all(program, random.Random(program["seed"]))
        if program["noise"]:
            built = Built(program["items"])
            found["noisy"] = perturbed(built, program)
            built.free(random.Random(4))
        if program.get("grads"):
            found["gradients"], more = gradients(program)
            found["names"] += more
        return found | {"compared": compared}
    except Fault as fault:
        return {"fault": str(fault)}
    except BaseException as error:
        return {"fault": f"raised {error!r}"}


def peer_answer(program):
    """The values of the bindings, and their gradients if these are wanted."""
    try:
        built = Built(program["items"], program.get("grads"))
        values, stale = built.step()
        found = {"values": values, "stale": stale, "grads": {i: read(t) for i, t in built.gradients.items()},
                 "ne": [list(t.contents.ne[:4]) for t in built.tensors]}  # fmt: skip
        built.free(random.Random(5))
        return found
    except BaseException as error:
        return {"fault": f"raised {error!r}"}


def encoded(x):
    if isinstance(x, bytes):
        return base64.b64encode(x).decode()
    if isinstance(x, dict):
        return {str(k): encoded(v) for k, v in x.items()}
    return [encoded(v) for v in x] if isinstance(x, list) else x


def main():
    global out
    faulthandler.enable()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        reply = json.dumps(encoded(answer(json.loads(line))))
        with contextlib.suppress(BrokenPipeError):
            out.write(reply + "\n")
            out.flush()


if __name__ == "__main__":
    main()
