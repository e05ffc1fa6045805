"""Fits a line to points twice: by gradient descent written by hand, and by AdamW of the training API.

By hand, a backward graph computes the gradients and Python updates the parameters. The training API builds the loss,
the backward pass and the update itself. It needs the input and the output of a graph, the points as a dataset, and a
backend scheduler.
"""

import ctypes

import numpy as np

import ggml

SLOPE, OFFSET = 3.0, 4.0
N = 256
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, N).astype(np.float32)
Y = (SLOPE * X + OFFSET + 0.1 * RNG.standard_normal(N)).astype(np.float32)


def context(no_alloc=False):
    return ggml.ggml_init(ggml.ggml_init_params(mem_size=16 << 20, mem_buffer=None, no_alloc=no_alloc))


def by_hand(steps=60, rate=0.1):
    """Gradient descent on all points. Returns slope and offset, and the loss before each step."""
    ctx = context()
    x, y = (ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 1, N) for _ in range(2))
    line = [ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 1) for _ in range(2)]
    for tensor, values in ((x, X), (y, Y)):
        ctypes.memmove(ggml.ggml_get_data(tensor), values.ctypes.data, values.nbytes)
    for tensor in line:
        ggml.ggml_set_param(tensor)
        ggml.ggml_set_f32(tensor, 0)
    # guess = slope x + offset: [1, N]; loss = sum((guess - y)^2) / N: [1]
    guess = ggml.ggml_add(ctx, ggml.ggml_mul(ctx, x, line[0]), line[1])
    error = ggml.ggml_sqr(ctx, ggml.ggml_sub(ctx, guess, y))
    loss = ggml.ggml_scale(ctx, ggml.ggml_sum(ctx, error), 1 / N)
    ggml.ggml_set_loss(loss)
    # one graph for the loss and its gradients with respect to slope and offset
    graph = ggml.ggml_new_graph_custom(ctx, ggml.GGML_DEFAULT_GRAPH_SIZE, True)
    ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_backward_expand(ctx, graph, None)

    losses = []
    for _ in range(steps):
        ggml.ggml_graph_reset(graph)  # the gradient of the loss with respect to itself is 1, the others start at 0
        ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
        losses.append(ggml.ggml_get_f32_1d(loss, 0))
        # parameter = parameter - rate * gradient
        for tensor in line:
            gradient = ggml.ggml_get_f32_1d(ggml.ggml_graph_get_grad(graph, tensor), 0)
            ggml.ggml_set_f32(tensor, ggml.ggml_get_f32_1d(tensor, 0) - rate * gradient)
    found = [ggml.ggml_get_f32_1d(tensor, 0) for tensor in line]
    ggml.ggml_free(ctx)
    return found, losses


def with_the_api(epochs=40, batch=16):
    """AdamW on batches. Returns slope and offset."""
    backend = ggml.ggml_backend_cpu_init()
    backends = (ctypes.c_void_p * 1)(backend)
    sched = ggml.ggml_backend_sched_new(backends, None, 1, ggml.GGML_DEFAULT_GRAPH_SIZE, False, True)

    # the dataset: N points x [1] with labels y [1]
    dataset = ggml.ggml_opt_dataset_init(ggml.GGML_TYPE_F32, ggml.GGML_TYPE_F32, 1, 1, N, batch)
    for tensor, values in ((ggml.ggml_opt_dataset_data(dataset), X), (ggml.ggml_opt_dataset_labels(dataset), Y)):
        ctypes.memmove(ggml.ggml_get_data(tensor), values.ctypes.data, values.nbytes)

    # tensors that persist, and tensors that are computed in each step
    static, compute = context(no_alloc=True), context(no_alloc=True)
    x = ggml.ggml_new_tensor_2d(static, ggml.GGML_TYPE_F32, 1, batch)
    ggml.ggml_set_input(x)
    line = [ggml.ggml_new_tensor_1d(static, ggml.GGML_TYPE_F32, 1) for _ in range(2)]
    buffer = ggml.ggml_backend_alloc_ctx_tensors(static, backend)
    for tensor in line:
        ggml.ggml_set_param(tensor)
        ggml.ggml_backend_tensor_set(tensor, (ctypes.c_float * 1)(0), 0, 4)
    # guess = slope x + offset: [1, batch]
    guess = ggml.ggml_add(compute, ggml.ggml_mul(compute, x, line[0]), line[1])
    ggml.ggml_set_output(guess)

    @ggml.ggml_opt_get_optimizer_params
    def faster(userdata):
        params = ggml.ggml_opt_get_default_optimizer_params(None)
        params.adamw.alpha = 0.05
        return params

    # loss = mean((guess - y)^2); all points are for training (a validation split of 0)
    ggml.ggml_opt_fit(sched, compute, x, guess, dataset, ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR,
                      ggml.GGML_OPT_OPTIMIZER_TYPE_ADAMW, faster, epochs, batch, 0.0, True)  # fmt: skip
    found = []
    for tensor in line:
        value = ctypes.c_float()
        ggml.ggml_backend_tensor_get(tensor, ctypes.byref(value), 0, 4)
        found.append(value.value)

    ggml.ggml_free(compute)
    ggml.ggml_free(static)
    ggml.ggml_backend_buffer_free(buffer)
    ggml.ggml_opt_dataset_free(dataset)
    ggml.ggml_backend_sched_free(sched)
    ggml.ggml_backend_free(backend)
    return found


def main():
    (slope, offset), losses = by_hand()
    print(f"by hand: {slope:.3f} x + {offset:.3f}, loss {losses[0]:.3f} at first and {losses[-1]:.4f} at last")
    slope, offset = with_the_api()
    print(f"by the API: {slope:.3f} x + {offset:.3f}")


if __name__ == "__main__":
    main()
