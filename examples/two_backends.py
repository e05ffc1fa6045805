"""Two backends and the scheduler: a small network with the weights of its layers on different devices.

Both devices are CPUs here. The second one has memory that the first cannot read, like a graphics card. The scheduler
computes each layer on the device that holds its weights, and copies activations between the devices.
"""

import ctypes

import numpy as np
from ggml._backend.device import _new_cpu_device  # private: it stands in for a second device

import ggml

SIZES = [64, 128, 128, 10]
BATCH = 4


def load_layer(backend, values):
    """Copies the weights of a layer to a backend. Returns the context, the buffer and the tensor."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))
    w = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, values.shape[1], values.shape[0])
    buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, backend)
    ggml.ggml_backend_buffer_set_usage(buffer, ggml.GGML_BACKEND_BUFFER_USAGE_WEIGHTS)
    ggml.ggml_backend_tensor_set(w, values.ctypes.data, 0, values.nbytes)
    return ctx, buffer, w


def build(ctx, weights):
    """Builds the graph of the network. Returns the input, the output and the graph."""
    x = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, SIZES[0], BATCH)
    ggml.ggml_set_input(x)
    y = x
    for w in weights:
        # y = max(W y, 0): [n_out, BATCH] from W [n_in, n_out] and y [n_in, BATCH] (ggml order)
        y = ggml.ggml_relu(ctx, ggml.ggml_mul_mat(ctx, w, y))
    ggml.ggml_set_output(y)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, y)
    return x, y, graph


def main():
    cpu = ggml.ggml_backend_cpu_init()
    other = ggml.ggml_backend_dev_init(_new_cpu_device(b"CPU1"), None)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((m, n), np.float32) / n**0.5 for n, m in zip(SIZES, SIZES[1:])]
    layers = [load_layer(backend, v) for backend, v in zip((other, cpu, other), values)]

    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))
    x, y, graph = build(ctx, [w for _, _, w in layers])
    backends = (ctypes.c_void_p * 2)(other, cpu)
    sched = ggml.ggml_backend_sched_new(backends, None, 2, ggml.GGML_DEFAULT_GRAPH_SIZE, False, True)
    ggml.ggml_backend_sched_reserve(sched, graph)

    # each step: assign memory, copy the input in, compute, copy the output out
    for step in range(3):
        given = rng.standard_normal((BATCH, SIZES[0]), np.float32)
        ggml.ggml_backend_sched_reset(sched)
        ggml.ggml_backend_sched_alloc_graph(sched, graph)
        ggml.ggml_backend_tensor_set(x, given.ctypes.data, 0, given.nbytes)
        ggml.ggml_backend_sched_graph_compute(sched, graph)
        result = np.empty((BATCH, SIZES[-1]), np.float32)
        ggml.ggml_backend_tensor_get(y, result.ctypes.data, 0, result.nbytes)
        expected = given
        for v in values:
            expected = np.maximum(expected @ v.T, 0)
        assert np.allclose(result, expected, atol=1e-5)
        print(f"step {step}: largest difference to NumPy {np.abs(result - expected).max():.1e}")

    for i in range(ggml.ggml_graph_n_nodes(graph)):
        node = ggml.ggml_graph_node(graph, i)
        backend = ggml.ggml_backend_sched_get_tensor_backend(sched, node)
        print(f"{ggml.ggml_op_desc(node).decode():8s} on {ggml.ggml_backend_name(backend).decode()}")
    print("splits:", ggml.ggml_backend_sched_get_n_splits(sched))

    ggml.ggml_backend_sched_free(sched)
    ggml.ggml_free(ctx)
    for weights, buffer, _ in layers:
        ggml.ggml_backend_buffer_free(buffer)
        ggml.ggml_free(weights)
    ggml.ggml_backend_free(other)
    ggml.ggml_backend_free(cpu)


if __name__ == "__main__":
    main()
