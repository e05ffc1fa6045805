"""Custom operations in a graph: with NumPy, on several threads, and as a ctypes callback on raw memory.

A custom operation is a function that fills its first argument, the result. Each of the threads calls it with its number
`ith` and the number of threads `nth`; with n_tasks = 1, a single thread calls it. If it raises an exception, the
computation stops and raises the same exception.
"""

import ctypes
import math

import numpy as np

import ggml
from ggml.utils import from_numpy, to_numpy


@ggml.ggml_custom1_op_t
def median(dst, a, ith, nth, userdata):
    """dst[:, row] = median(a[:, row]), with NumPy on one thread."""
    to_numpy(dst)[:] = np.median(to_numpy(a), axis=-1, keepdims=True)


@ggml.ggml_custom2_op_t
def hypot(dst, a, b, ith, nth, userdata):
    """dst = sqrt(a^2 + b^2), with NumPy on all threads: thread ith computes the rows ith, ith + nth ..."""
    rows = slice(ith, None, nth)
    np.hypot(to_numpy(a)[rows], to_numpy(b)[rows], out=to_numpy(dst)[rows])


class Wave(ctypes.Structure):
    """The parameters of `wave`, which receives their address as userdata."""

    _fields_ = [("amplitude", ctypes.c_float), ("frequency", ctypes.c_float)]


@ggml.ggml_custom1_op_t
def wave(dst, a, ith, nth, userdata):
    """dst = amplitude * sin(frequency * a), without NumPy: it reads and writes memory by its address."""
    parameters = Wave.from_address(userdata)
    n = ggml.ggml_nelements(a)
    source = (ctypes.c_float * n).from_address(ggml.ggml_get_data(a))
    target = (ctypes.c_float * n).from_address(ggml.ggml_get_data(dst))
    for i in range(ith, n, nth):
        target[i] = parameters.amplitude * math.sin(parameters.frequency * source[i])


def main():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((6, 5), dtype=np.float32)
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False))
    a = from_numpy(values, ctx)
    parameters = Wave(2, 3)  # keep it alive until the graph has been computed

    # result = 2 sin(3 (a^2 + median^2)), all of shape [5, 6] (ggml order)
    centre = ggml.ggml_map_custom1(ctx, a, median, 1, None)
    length = ggml.ggml_map_custom2(ctx, a, centre, hypot, ggml.GGML_N_TASKS_MAX, None)
    result = ggml.ggml_map_custom1(ctx, ggml.ggml_sqr(ctx, length), wave, 2, ctypes.addressof(parameters))
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, result)
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 2)

    expected = 2 * np.sin(3 * (values**2 + np.median(values, axis=-1, keepdims=True) ** 2))
    difference = np.abs(to_numpy(result) - expected).max()
    print(f"largest difference to NumPy {difference:.1e}")

    @ggml.ggml_custom1_op_t
    def broken(dst, a, ith, nth, userdata):
        raise ValueError("this operation does not work")

    failing = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(failing, ggml.ggml_map_custom1(ctx, a, broken, 1, None))
    try:
        ggml.ggml_graph_compute_with_ctx(ctx, failing, 1)
    except ValueError as error:
        print(f"the exception arrives: {error}")
    ggml.ggml_free(ctx)


if __name__ == "__main__":
    main()
