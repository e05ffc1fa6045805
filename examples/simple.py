"""Multiplies two matrices in the two ways that ggml offers: within a context, and with the memory of a backend.

A context can hold the data of its tensors, and the graph is computed in place. With a backend, the context holds only
the descriptions of tensors: weights and inputs are copied to the backend's memory, and a graph allocator assigns memory
to the results, which it reuses after a result was read for the last time.
"""

import numpy as np

import ggml
from ggml.utils import from_numpy, to_numpy

A = np.array([[2, 8], [5, 1], [4, 2], [8, 6]], np.float32)  # ne = [2, 4]: ggml lists the innermost dimension first
B = np.array([[10, 5], [9, 9], [5, 4]], np.float32)  # ne = [2, 3]: ggml_mul_mat needs rows of the same length


def in_a_context():
    """B @ A.T, with all tensors and their data in a context of 1 MiB."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 20, mem_buffer=None, no_alloc=False))
    # product[i, j] = sum over k of A[i, k] B[j, k]: [4, 3]
    product = ggml.ggml_mul_mat(ctx, from_numpy(A, ctx), from_numpy(B, ctx))
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, product)
    ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
    result = to_numpy(product).copy()
    ggml.ggml_free(ctx)
    return result


def with_a_backend():
    """The same with the CPU backend. The backend of another device is used in the same way."""
    backend = ggml.ggml_backend_cpu_init()

    # the matrices: descriptions in a context without data, then memory of the backend, then the values
    size = 2 * ggml.ggml_tensor_overhead()
    weights = ggml.ggml_init(ggml.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=True))
    a = ggml.ggml_new_tensor_2d(weights, ggml.GGML_TYPE_F32, 2, 4)
    b = ggml.ggml_new_tensor_2d(weights, ggml.GGML_TYPE_F32, 2, 3)
    buffer = ggml.ggml_backend_alloc_ctx_tensors(weights, backend)
    ggml.ggml_backend_tensor_set(a, A.ctypes.data, 0, A.nbytes)
    ggml.ggml_backend_tensor_set(b, B.ctypes.data, 0, B.nbytes)

    # the graph, with memory for its result
    size = ggml.ggml_tensor_overhead() + ggml.ggml_graph_overhead()
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=True))
    product = ggml.ggml_mul_mat(ctx, a, b)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, product)
    allocator = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(backend))
    ggml.ggml_gallocr_alloc_graph(allocator, graph)

    # computing, and copying the result from the backend's memory
    ggml.ggml_backend_graph_compute(backend, graph)
    result = np.empty((len(B), len(A)), np.float32)
    ggml.ggml_backend_tensor_get(product, result.ctypes.data, 0, result.nbytes)

    ggml.ggml_gallocr_free(allocator)
    ggml.ggml_free(ctx)
    ggml.ggml_backend_buffer_free(buffer)
    ggml.ggml_free(weights)
    ggml.ggml_backend_free(backend)
    return result


def main():
    for way in (in_a_context, with_a_backend):
        result = way()
        assert (result == B @ A.T).all()
        print(f"{way.__name__}:\n{result}")


if __name__ == "__main__":
    main()
