"""Overwrites fields and data of nodes before they are used. The result is an error or values, never a crash.

The nodes are computed, or given to what else reads them: the backward pass, allocators, the scheduler, copies, files.

    python fuzz/fields.py --seconds 600 --seed 1

The nodes are the samples of tests/cases. Each tensor's data ends at inaccessible memory, so that an access beyond the
end crashes. Each case is printed before it is computed: after a crash, it is the last line. Only for Linux.
"""

import argparse
import ctypes
import faulthandler
import os
import random
import sys
import time
from pathlib import Path

import ggml
from ggml import _core

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from cases import families  # noqa: E402
from cases.harness import ISAS, Call, context, graph_of  # noqa: E402

GAP = 1 << 28  # inaccessible bytes on both sides of each tensor
SPECIAL_FLOATS = (0x7F800000, 0x7FC00000, 0x3F800000)  # the bits of infinity, NaN and 1
PARAMETERS = (0, 1, 2, 3, -1, 5, 7, 8, 16, 24, 40, 255, 256, 512, 1 << 20, 2**31 - 1, -(2**31), *SPECIAL_FLOATS)


def numbers(prefix, *apart):
    """The numbers of the constants that begin with a prefix, without some of them."""
    names = {name.removeprefix(prefix): v for name, v in _core.enums().items() if name.startswith(prefix)}
    return [v for name, v in names.items() if name not in apart]


# Custom operations would call a random address.
OPS = numbers("GGML_OP_", "COUNT", "MAP_CUSTOM1", "MAP_CUSTOM2", "MAP_CUSTOM3", "CUSTOM")
TYPES = numbers("GGML_TYPE_", "COUNT")
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Guarded:
    """Moves the data of tensors to the end of mapped memory. `sizes`: bytes of each tensor's data by its address."""

    def __init__(self, tensors):
        self.maps, self.sizes = [], {}
        for t in tensors:
            n = self.sizes[ctypes.addressof(t.contents)] = ggml.ggml_nbytes(t)
            if t.contents.data and not t.contents.view_src:
                pages = max(-(-n // 4096), 1) * 4096  # an empty tensor too: its fields may be made larger
                base = libc.mmap(None, pages + 2 * GAP, 0, 0x4022, -1, 0)  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
                libc.mprotect(base + GAP, pages, 3)
                self.maps.append((base, pages + 2 * GAP))
                ctypes.memmove(base + GAP + pages - n, t.contents.data, n)
                t.contents.data = base + GAP + pages - n
        for t in tensors:
            if t.contents.view_src:
                t.contents.data = t.contents.view_src.contents.data + t.contents.view_offs

    def close(self):
        for base, size in self.maps:
            libc.munmap(base, size)


def spoil(rng, t, others, size):
    """Overwrites a field, a parameter or the data of a tensor. Returns a description of what it overwrote."""
    c, d = t.contents, rng.randrange(4)
    how = rng.choice(("param", "param", "ne", "swap", "nb", "type", "src", "op", "bytes", "data"))
    if how == "param":
        d = rng.randrange(16)
        c.op_params[d] = rng.choice((*PARAMETERS, rng.getrandbits(31)))
    elif how == "ne":
        c.ne[d] = rng.choice((0, 1, 2, 3, 8, c.ne[d] - 1, c.ne[d] + 1, c.ne[d] * 2, c.ne[d] // 2, 1 << 31, 1 << 40))
    elif how == "swap":
        c.ne[d], c.ne[d - 1] = c.ne[d - 1], c.ne[d]
    elif how == "nb":
        near = (c.nb[d] // 2, c.nb[d] * 2, c.nb[d - 1], abs(c.nb[d] - 4))
        c.nb[d] = rng.choice((0, 1, 2, 4, 8, *near, 1 << 40, (1 << 64) - 4))
    elif how == "type":
        c.type = rng.choice(TYPES)
    elif how == "src":
        c.src[rng.randrange(10)] = rng.choice([*others, ggml.ggml_tensor_p()])
    elif how == "op":
        c.op = rng.choice(OPS)
        c.flags |= ggml.GGML_TENSOR_FLAG_COMPUTE
    elif how == "data" and c.data and not c.view_src:  # no longer aligned
        c.data -= rng.choice((1, 2, 3, 5))
    elif how == "bytes" and c.data and size < 1 << 20 and (c.view_src or (c.data + size) % 4096 == 0):
        ctypes.memmove(c.data, rng.choice((os.urandom(size), b"\xff" * size, b"\x7f" * size, b"\0" * size)), size)
    return f"{how} {d} of {t!r}"


def backward(ctx, graph):
    ggml.ggml_build_backward_expand(ctx, graph, None)
    ggml.ggml_graph_reset(graph)
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)


def checkpointed(ctx, graph):
    both = [ggml.ggml_new_graph_custom(ctx, 4096, True) for _ in range(2)]
    checkpoint = (ggml.ggml_tensor_p * 1)(ggml.ggml_graph_node(graph, 0))
    ggml.ggml_build_backward_gradient_checkpointing(ctx, graph, *both, checkpoint, 1)


def allocated(ctx, graph):
    galloc = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())
    try:
        ggml.ggml_gallocr_reserve(galloc, graph)
        ggml.ggml_gallocr_alloc_graph(galloc, graph)
    finally:
        ggml.ggml_gallocr_free(galloc)


def scheduled(ctx, graph):
    cpu = ggml.ggml_backend_cpu_init()
    sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 64, False)
    try:
        ggml.ggml_backend_sched_graph_compute(sched, graph)
    finally:
        ggml.ggml_backend_sched_free(sched)
        ggml.ggml_backend_free(cpu)


def copied(ctx, graph):
    target = ggml.ggml_graph_dup(ctx, graph, True)
    ggml.ggml_graph_cpy(graph, target)
    ggml.ggml_graph_view(graph, 0, 1)


def copied_to_backend(ctx, graph):
    cpu = ggml.ggml_backend_cpu_init()
    try:
        ggml.ggml_backend_graph_copy_free(ggml.ggml_backend_graph_copy(cpu, graph))
    finally:
        ggml.ggml_backend_free(cpu)


def printed(ctx, graph):
    ggml.ggml_graph_plan(graph, 2, None)
    ggml.ggml_graph_dump_dot(graph, None, os.devnull)
    ggml.ggml_graph_export(graph, os.devnull)


def described(ctx, graph):
    """The functions of one tensor."""
    for i in range(ggml.ggml_graph_n_nodes(graph)):
        t = ggml.ggml_graph_node(graph, i)
        repr(t)
        for f in (
            ggml.ggml_nbytes,
            ggml.ggml_nelements,
            ggml.ggml_nrows,
            ggml.ggml_op_desc,
            ggml.ggml_is_contiguous,
            ggml.ggml_n_dims,
            ggml.ggml_nbytes_pad,
            ggml.ggml_are_same_shape,
            ggml.ggml_get_f32_1d,
            ggml.ggml_set_zero,
        ):
            f(*[t, t][: 2 if f is ggml.ggml_are_same_shape else 1], *([0] if f is ggml.ggml_get_f32_1d else []))
        for f in (ggml.ggml_dup, ggml.ggml_cont, ggml.ggml_sqr, ggml.ggml_transpose, ggml.ggml_dup_tensor):
            f(ctx, t)


USES = (backward, checkpointed, allocated, scheduled, copied, copied_to_backend, printed, described)


def attempt(rng, name, op):
    """Tries one case. Returns whether it was computed."""
    _core.isa_select(rng.choice(ISAS))
    with context() as ctx:
        args = op.args(rng.randrange(len(op.samples)))
        call = Call(ctx, op, args, param=(0,) if op.fn.startswith("opt_step") else ())
        out = call.out
        use = rng.choice((None, *USES))
        if use in (backward, checkpointed) and not ggml.ggml_is_empty(out) and out.contents.type == 0:
            for t in call.roots.values():
                if t.contents.type == ggml.GGML_TYPE_F32 and t.contents.op == ggml.GGML_OP_NONE:
                    ggml.ggml_set_param(t)
            loss = ggml.ggml_sum(ctx, ggml.ggml_sqr(ctx, call.build(ctx, *call.passed)))
            ggml.ggml_set_loss(loss)
            graph = graph_of(ctx, loss, grads=True)
        else:
            graph = graph_of(ctx, out, grads=True)
        nodes = [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]
        found = {ctypes.addressof(t.contents) for n in nodes for t in (n, *n.contents.src) if t}
        tensors = [ctypes.cast(address, ggml.ggml_tensor_p) for address in sorted(found)]
        guarded = Guarded(tensors)
        done = []
        for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3))):
            t = rng.choice(rng.choice((tensors, nodes)))
            done.append(spoil(rng, t, tensors, guarded.sizes[ctypes.addressof(t.contents)]))
        print(name, use.__name__ if use else "computed", "; ".join(done), flush=True)
        try:
            if use is None:
                ggml.ggml_graph_compute_with_ctx(ctx, graph, rng.choice((1, 2)))
            else:
                use(ctx, graph)
            return True
        except (ValueError, RuntimeError, MemoryError, IndexError) as error:
            assert str(error).startswith("ggml_graph_compute_with_ctx: " if use is None else "ggml_"), error
            return False
        finally:
            guarded.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faulthandler.enable()
    rng, end, results = random.Random(options.seed), time.monotonic() + options.seconds, []
    # A custom operation holds the address of its callback: an overwritten one may crash, as it does in C.
    cases = {op.name: op for stem, family in families().items() if stem != "custom" for op in family}
    while time.monotonic() < end:
        name = rng.choice(list(cases))
        results.append(attempt(rng, name, cases[name]))
    print(f"{len(results)} cases, {sum(results)} computed, {len(results) - sum(results)} refused")


if __name__ == "__main__":
    main()
