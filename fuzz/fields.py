"""Writes into the fields and the data of nodes before they are computed: an error or a result, never a crash.

    python fuzz/fields.py --seconds 600 --seed 1

The nodes are the samples of tests/cases. The data of each tensor ends at the end of mapped memory, so that a read or
write behind it is a crash. Every case is printed before it is computed, so the last line names the one that crashed.
Needs mmap, as Linux has it.
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

GAP = 1 << 28  # bytes around each tensor that can't be touched
WORDS = (0, 1, 2, 3, -1, 5, 7, 8, 16, 24, 40, 255, 256, 512, 1 << 20, 2**31 - 1, -(2**31), 0x7F800000, 0x7FC00000, 0x3F800000)
CUSTOM = range(88, 92)  # would call an address that is made up
OPS = [v for name, v in _core.enums().items() if name.startswith("GGML_OP_") and name != "GGML_OP_COUNT" and v not in CUSTOM]
TYPES = [v for name, v in _core.enums().items() if name.startswith("GGML_TYPE_") and name != "GGML_TYPE_COUNT"]
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Guarded:
    """Moves the data of tensors to where nothing lies behind it; `sizes`: of each, by its address."""

    def __init__(self, tensors):
        self.maps, self.sizes = [], {}
        for t in tensors:
            n = self.sizes[ctypes.addressof(t.contents)] = ggml.ggml_nbytes(t)
            if n and not t.contents.view_src:
                pages = -(-n // 4096) * 4096
                base = libc.mmap(None, pages + 2 * GAP, 0, 0x4022, -1, 0)  # private, anonymous, no memory set aside
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
    """Writes over something of a tensor; says what."""
    c, d = t.contents, rng.randrange(4)
    how = rng.choice(("param", "param", "ne", "swap", "nb", "type", "src", "op", "bytes"))
    if how == "param":
        d = rng.randrange(16)
        c.op_params[d] = rng.choice((*WORDS, rng.getrandbits(31)))
    elif how == "ne":
        c.ne[d] = rng.choice((0, 1, 2, 3, 8, c.ne[d] - 1, c.ne[d] + 1, c.ne[d] * 2, c.ne[d] // 2, 1 << 31, 1 << 40))
    elif how == "swap":
        c.ne[d], c.ne[d - 1] = c.ne[d - 1], c.ne[d]
    elif how == "nb":
        c.nb[d] = rng.choice((0, 1, 2, 4, 8, c.nb[d] // 2, c.nb[d] * 2, c.nb[d - 1], abs(c.nb[d] - 4), 1 << 40, (1 << 64) - 4))
    elif how == "type":
        c.type = rng.choice(TYPES)
    elif how == "src":
        c.src[rng.randrange(10)] = rng.choice([*others, ggml.ggml_tensor_p()])
    elif how == "op":
        c.op = rng.choice(OPS)
        c.flags |= ggml.GGML_TENSOR_FLAG_COMPUTE
    elif c.data and size < 1 << 20:
        ctypes.memmove(c.data, rng.choice((os.urandom(size), b"\xff" * size, b"\x7f" * size, b"\0" * size)), size)
    return f"{how} {d} of {t!r}"


def attempt(rng, name, op):
    """One case; whether it was computed."""
    _core.isa_select(rng.choice(ISAS))
    with context() as ctx:
        args = op.args(rng.randrange(len(op.samples)))
        out = Call(ctx, op, args, param=(0,) if op.fn.startswith("opt_step") else ()).out
        graph = graph_of(ctx, out)
        nodes = [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]
        found = {ctypes.addressof(t.contents) for n in nodes for t in (n, *n.contents.src) if t}
        tensors = [ctypes.cast(address, ggml.ggml_tensor_p) for address in sorted(found)]
        guarded = Guarded(tensors)
        done = []
        for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3))):
            t = rng.choice(rng.choice((tensors, nodes)))
            done.append(spoil(rng, t, tensors, guarded.sizes[ctypes.addressof(t.contents)]))
        print(name, "; ".join(done), flush=True)
        try:
            ggml.ggml_graph_compute_with_ctx(ctx, graph, rng.choice((1, 2)))
            return True
        except (ValueError, RuntimeError, MemoryError) as error:
            assert str(error).startswith("ggml_graph_compute_with_ctx: "), error
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
    # The callback of a custom operation is an address in the node: a changed one may crash, as it does in C.
    cases = {op.name: op for stem, family in families().items() if stem != "custom" for op in family}
    while time.monotonic() < end:
        name = rng.choice(list(cases))
        results.append(attempt(rng, name, cases[name]))
    print(f"{len(results)} cases, {sum(results)} computed, {len(results) - sum(results)} refused")


if __name__ == "__main__":
    main()
