"""What this machine can do at most, measured: arithmetic and memory."""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

import ggml

EDGE, BYTES, RUNS = 768, 192 << 20, 6


class Machine(NamedTuple):
    """The most that a number of threads reach on this machine.

    Attributes:
        threads: the threads.
        gflops: 10^9 operations per second of a product of two matrices in f32.
        gbytes: 10^9 bytes per second that are read and written when a large block of memory is added to.
    """

    threads: int
    gflops: float
    gbytes: float


@cache
def measured(threads: int) -> Machine:
    """Measures the machine in about a second, once for a number of threads."""
    products, memory = 2 * EDGE**3 / best(product, threads), 2 * BYTES / best(addition, threads)
    return Machine(threads, products, memory)


def best(build, threads: int) -> float:
    """The ns of the fastest of some runs of a graph."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    try:
        graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(graph, build(ctx))
        times = []
        for _ in range(RUNS):
            start = time.perf_counter_ns()
            ggml.ggml_graph_compute_with_ctx(ctx, graph, threads)
            times.append(time.perf_counter_ns() - start)
        return min(times[1:])
    finally:
        ggml.ggml_free(ctx)


def product(ctx):
    a, b = (ggml.ggml_set_f32(ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, EDGE, EDGE), x) for x in (0.5, 2.0))
    return ggml.ggml_mul_mat(ctx, a, b)


def addition(ctx):
    a = ggml.ggml_set_f32(ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, BYTES // 4), 1.0)
    return ggml.ggml_scale_inplace(ctx, a, 0.5)
