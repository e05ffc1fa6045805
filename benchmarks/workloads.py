"""The workloads, each a function that returns (what to time, amount of work, unit of work per second or 's').

`ggml` runs in this project's environment and in that of the ctypes bindings, unchanged: it uses the public surface only.
`numpy` and `torch` are the same workloads in those libraries. A workload that a library lacks is left out of its table.
"""

import ctypes

import numpy as np

GEMM = {"2048x4096 by 512": (4096, 2048, 512), "1023x777 by 65": (777, 1023, 65), "64x64 by 64": (64, 64, 64),
        "4096x11 by 300": (11, 4096, 300)}
WEIGHTS = ("F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K", "IQ4_XS")
ELEMENTWISE = ("add", "exp", "tanh", "silu", "gelu")
ROWS = ("soft_max", "norm", "sum_rows")
WIDTH, HEIGHT = 4096, 2048
MLP = (784, 500, 10, 500)
RNG = np.random.default_rng


def random(*shape):
    return RNG(0).standard_normal(shape).astype(np.float32)


# ---- ggml: ours and the bindings' --------------------------------------------------------------------------------------
def ggml_workloads(threads):
    import ggml

    def context(megabytes, no_alloc=False):
        return ggml.ggml_init(ggml.ggml_init_params(mem_size=megabytes << 20, mem_buffer=None, no_alloc=no_alloc))

    def tensor(ctx, values):
        t = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, values.shape[1], values.shape[0])
        ctypes.memmove(ggml.ggml_get_data(t), values.ctypes.data, values.nbytes)
        return t

    def runner(ctx, out, n_threads=threads, graph=None):
        if graph is None:
            graph = ggml.ggml_new_graph_custom(ctx, 8192, False)
            ggml.ggml_build_forward_expand(graph, out)
        plan = ggml.ggml_graph_plan(graph, n_threads, None)
        work = (ctypes.c_uint8 * max(1, plan.work_size))()
        plan.work_data = ctypes.cast(work, ctypes.POINTER(ctypes.c_uint8))

        pointer = ctypes.pointer(plan)
        return lambda keep=(ctx, work): ggml.ggml_graph_compute(graph, pointer)

    def calls():
        n = 2000

        def run():
            ctx = context(8, True)
            x = y = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 16)
            for _ in range(n):
                y = ggml.ggml_add(ctx, y, x)
            ggml.ggml_free(ctx)

        return run, n, "calls/s"

    def llama():
        def run():
            ctx, _ = llama_graph(ggml, context)
            ggml.ggml_free(ctx)

        return run, 1, "graphs/s"

    def placing(by_scheduler, n):
        """The graph is given memory that it has already: always the same one, or one of several that take turns."""
        cpu, held = ggml.ggml_backend_cpu_init(), context(16, True)
        turns = [llama_graph(ggml, context, held)[1] for _ in range(n)]
        ggml.ggml_backend_alloc_ctx_tensors(held, cpu)
        if by_scheduler:
            sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 4096, False, True)
        else:
            alloc = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(cpu))

        def run():
            for graph in turns:
                if by_scheduler:
                    ggml.ggml_backend_sched_reset(sched)
                    ggml.ggml_backend_sched_alloc_graph(sched, graph)
                else:
                    ggml.ggml_gallocr_alloc_graph(alloc, graph)

        return run, n, "graphs/s"

    def nodes(n_threads):
        n = 2000
        ctx = context(64)
        x = y = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 16)
        ggml.ggml_set_f32(x, 1.0)
        for _ in range(n):
            y = ggml.ggml_add(ctx, y, x)
        return runner(ctx, y, n_threads), n, "nodes/s"

    def weights(ctx, name, values):
        kind = getattr(ggml, "GGML_TYPE_" + name)
        w = ggml.ggml_new_tensor_2d(ctx, kind, values.shape[1], values.shape[0])
        ggml.ggml_quantize_chunk(kind, values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), ctypes.c_void_p(ggml.ggml_get_data(w)), 0,
                                 values.shape[0], values.shape[1], None)
        return w

    def gemm(k, m, n, kind="F32"):
        ctx = context(200)
        a = tensor(ctx, random(m, k)) if kind == "F32" else weights(ctx, kind, random(m, k))
        out = ggml.ggml_mul_mat(ctx, a, tensor(ctx, random(n, k)))
        return runner(ctx, out), 2e-9 * k * m * n, "GFLOP/s"

    def elementwise(name, make, operands):
        ctx = context(64 + 40 * (operands + 1))
        out = make(ctx, *[tensor(ctx, random(HEIGHT, WIDTH)) for _ in range(operands)])
        return runner(ctx, out), 4e-9 * WIDTH * HEIGHT * (operands + (1 if name != "sum_rows" else 0)), "GB/s"

    def mlp():
        inputs, hidden, classes, batch = MLP
        ctx = context(200)
        x, labels = tensor(ctx, random(batch, inputs)), tensor(ctx, np.eye(classes, dtype=np.float32)[RNG(1).integers(0, classes, batch)])
        w1, b1, w2, b2 = (tensor(ctx, 0.05 * random(*s)) for s in ((hidden, inputs), (1, hidden), (classes, hidden), (1, classes)))
        for parameter in (w1, b1, w2, b2):
            ggml.ggml_set_param(parameter)
        h = ggml.ggml_relu(ctx, ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, w1, x), b1))
        loss = ggml.ggml_cross_entropy_loss(ctx, ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, w2, h), b2), labels)
        ggml.ggml_set_loss(loss)
        graph = ggml.ggml_new_graph_custom(ctx, 256, True)
        ggml.ggml_build_forward_expand(graph, loss)
        ggml.ggml_build_backward_expand(ctx, graph, None)
        ggml.ggml_graph_reset(graph)
        return runner(ctx, None, graph=graph), 1, "steps/s"

    work = {"ggml_add, a call": calls, "22-layer LLaMA graph, building": llama,
            "LLaMA graph, allocating again": lambda: placing(False, 1), "LLaMA graphs, allocating two in turns": lambda: placing(False, 2),
            "LLaMA graph, scheduling again": lambda: placing(True, 1), "LLaMA graphs, scheduling two in turns": lambda: placing(True, 2),
            "small node, 1 thread": lambda: nodes(1),
            f"small node, {threads} threads": lambda: nodes(threads)}
    work |= {f"GEMM F32 {name}": (lambda s=shape: gemm(*s)) for name, shape in GEMM.items()}
    work |= {f"GEMM {kind} 2048x4096 by 512": (lambda t=kind: gemm(4096, 2048, 512, t)) for kind in WEIGHTS}
    work |= {f"GEMV {kind} 4096x4096": (lambda t=kind: gemm(4096, 4096, 1, t)) for kind in ("F32", *WEIGHTS)}
    work |= {f"{name}": (lambda f=name: elementwise(f, getattr(ggml, "ggml_" + f), 2 if f == "add" else 1)) for name in ELEMENTWISE}
    work |= {"soft_max": lambda: elementwise("soft_max", ggml.ggml_soft_max, 1),
             "norm": lambda: elementwise("norm", lambda c, a: ggml.ggml_norm(c, a, 1e-5), 1),
             "sum_rows": lambda: elementwise("sum_rows", ggml.ggml_sum_rows, 1),
             "transpose": lambda: elementwise("transpose", lambda c, a: ggml.ggml_cont(c, ggml.ggml_transpose(c, a)), 1)}
    work["MLP 784-500-10, batch 500, forward and backward"] = mlp
    return work


def llama_graph(ggml, context, held=None, width=2048, heads=32, inner=5632, past=512):
    """One decoding step of a 22-layer LLaMA: its context, and its graph, which is not computed. `held`: a context for the weights."""
    ctx = context(16, True)
    held = held or ctx
    f32, f16, q4 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_F16, ggml.GGML_TYPE_Q4_0
    x, position = ggml.ggml_new_tensor_2d(ctx, f32, width, 1), ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, 1)
    keys, values = (ggml.ggml_new_tensor_2d(held, f16, width, past) for _ in range(2))
    wq, wk, wv, wo = (ggml.ggml_new_tensor_2d(held, q4, width, width) for _ in range(4))
    gate, up = (ggml.ggml_new_tensor_2d(held, q4, width, inner) for _ in range(2))
    down, scale = ggml.ggml_new_tensor_2d(held, q4, inner, width), ggml.ggml_new_tensor_1d(held, f32, width)
    size = width // heads

    def product(w, v):
        return ggml.ggml_mul_mat(ctx, w, v)

    def normed(v):
        return ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, v, 1e-5), scale)

    def rotated(v):
        return ggml.ggml_rope(ctx, ggml.ggml_reshape_3d(ctx, v, size, heads, 1), position, size, 0)

    for _ in range(22):
        h = normed(x)
        q, k, v = rotated(product(wq, h)), rotated(product(wk, h)), product(wv, h)
        ggml.ggml_cpy(ctx, ggml.ggml_reshape_2d(ctx, k, width, 1), ggml.ggml_view_2d(ctx, keys, width, 1, 2 * width, 0))
        ggml.ggml_cpy(ctx, v, ggml.ggml_view_2d(ctx, values, width, 1, 2 * width, 0))
        past_keys = ggml.ggml_permute(ctx, ggml.ggml_reshape_3d(ctx, keys, size, heads, past), 0, 2, 1, 3)
        past_values = ggml.ggml_cont(ctx, ggml.ggml_permute(ctx, ggml.ggml_reshape_3d(ctx, values, size, heads, past), 1, 2, 0, 3))
        scores = ggml.ggml_scale(ctx, product(past_keys, ggml.ggml_permute(ctx, q, 0, 2, 1, 3)), 0.1)
        mixed = ggml.ggml_permute(ctx, product(past_values, ggml.ggml_soft_max(ctx, scores)), 0, 2, 1, 3)
        x = ggml.ggml_add(ctx, x, product(wo, ggml.ggml_cont_2d(ctx, mixed, width, 1)))
        h = normed(x)
        x = ggml.ggml_add(ctx, x, product(down, ggml.ggml_mul(ctx, ggml.ggml_silu(ctx, product(gate, h)), product(up, h))))
    graph = ggml.ggml_new_graph_custom(ctx, 4096, False)
    ggml.ggml_build_forward_expand(graph, x)
    return ctx, graph


# ---- NumPy -------------------------------------------------------------------------------------------------------------
def numpy_workloads(threads):
    def gemm(k, m, n):
        a, b = random(m, k), random(n, k)
        out = np.empty((n, m), np.float32)
        return lambda: np.matmul(b, a.T, out=out), 2e-9 * k * m * n, "GFLOP/s"

    def elementwise(fn, operands):
        xs = [random(HEIGHT, WIDTH) for _ in range(operands)]
        out = np.empty_like(xs[0])
        return lambda: fn(*xs, out=out), 4e-9 * WIDTH * HEIGHT * (operands + 1), "GB/s"

    work = {f"GEMM F32 {name}": (lambda s=shape: gemm(*s)) for name, shape in GEMM.items()}
    return work | {"add": lambda: elementwise(np.add, 2), "exp": lambda: elementwise(np.exp, 1), "tanh": lambda: elementwise(np.tanh, 1)}


# ---- PyTorch -----------------------------------------------------------------------------------------------------------
def torch_workloads(threads):
    import torch
    from torch.nn import functional

    torch.set_num_threads(threads)

    def gemm(k, m, n):
        a, b = torch.from_numpy(random(m, k)), torch.from_numpy(random(n, k))
        return lambda: functional.linear(b, a), 2e-9 * k * m * n, "GFLOP/s"

    def elementwise(fn, operands, results=1):
        xs = [torch.from_numpy(random(HEIGHT, WIDTH)) for _ in range(operands)]
        return lambda: fn(*xs), 4e-9 * WIDTH * HEIGHT * (operands + results), "GB/s"

    def into(fn, operands=1):
        out = torch.empty(HEIGHT, WIDTH)
        return elementwise(lambda *xs: fn(*xs, out=out), operands)

    def mlp():
        inputs, hidden, classes, batch = MLP
        net = torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, classes))
        x, labels = torch.from_numpy(random(batch, inputs)), torch.from_numpy(RNG(1).integers(0, classes, batch))

        def step():
            net.zero_grad(set_to_none=False)
            functional.cross_entropy(net(x), labels).backward()

        return step, 1, "steps/s"

    work = {f"GEMM F32 {name}": (lambda s=shape: gemm(*s)) for name, shape in GEMM.items()}
    return work | {
        "add": lambda: into(torch.add, 2), "exp": lambda: into(torch.exp), "tanh": lambda: into(torch.tanh),
        "silu": lambda: elementwise(functional.silu, 1), "gelu": lambda: elementwise(lambda x: functional.gelu(x, approximate="tanh"), 1),
        "soft_max": lambda: elementwise(lambda x: torch.softmax(x, 1), 1),
        "norm": lambda: elementwise(lambda x: functional.layer_norm(x, (WIDTH,)), 1),
        "sum_rows": lambda: elementwise(lambda x: x.sum(1), 1, 0), "transpose": lambda: elementwise(lambda x: x.T.contiguous(), 1),
        "MLP 784-500-10, batch 500, forward and backward": mlp,
    }
