"""The workloads. Each is a function that returns (what to time, amount of work, unit of the rate).

The `ggml` workloads use only the public functions, so that they run unchanged with this library and with the ctypes
bindings. `numpy` and `torch` have those of the same workloads that these libraries can compute.
"""

import ctypes

import numpy as np

GEMM = {  # name: k, m, n
    "2048x4096 by 512": (4096, 2048, 512),
    "1023x777 by 65": (777, 1023, 65),
    "64x64 by 64": (64, 64, 64),
    "4096x11 by 300": (11, 4096, 300),
}
WEIGHTS = ("F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K", "IQ4_XS")
ELEMENTWISE = ("add", "exp", "tanh", "silu", "gelu")
WIDTH, HEIGHT = 4096, 2048  # of the operands of elementwise operations
MLP = (784, 500, 10, 500)  # inputs, hidden units, classes, batch
CONV = (56, 64)  # width and height of a picture; channels before and after
CONV_NAME = "conv2d 3x3, 64 channels, 56x56"
ATTENTION = (64, 256, 1024, 8)  # size of a head, queries, keys, heads
ATTENTION_NAME = "attention, 256 queries, 1024 keys, 8 heads of 64"
ROTATING = 192  # megabytes: several times the last cache
MLP_NAME = "MLP 784-500-10, batch 500, forward and backward"
RNG = np.random.default_rng


def random(*shape):
    return RNG(0).standard_normal(shape).astype(np.float32)


def gemm_flops(k, m, n):
    """The work of a matrix product in 10^9 operations: a multiplication and an addition for each of k m n terms."""
    return 2e-9 * k * m * n


def conv_flops():
    size, channels = CONV
    return gemm_flops(9 * channels, channels, size * size)


def attention_flops():
    width, queries, keys, heads = ATTENTION
    return 2 * heads * gemm_flops(width, keys, queries)


def traffic(n_tensors):
    """10^9 bytes in that many tensors [WIDTH, HEIGHT] of f32."""
    return 4e-9 * WIDTH * HEIGHT * n_tensors


# ---- ggml: this library and the bindings -----------------------------------------------------------------------------
def ggml_workloads(threads):
    g = Ggml(threads)
    layers = {CONV_NAME: lambda: conv(g), ATTENTION_NAME: lambda: attention(g), MLP_NAME: lambda: mlp(g)}
    return {**graphs(g), **products(g), **streams(g), **layers}


class Ggml:
    """The package, and what the workloads share."""

    def __init__(self, threads):
        import ggml

        self.ggml, self.threads = ggml, threads

    def context(self, megabytes, no_alloc=False):
        params = self.ggml.ggml_init_params(mem_size=megabytes << 20, mem_buffer=None, no_alloc=no_alloc)
        return self.ggml.ggml_init(params)

    def tensor(self, ctx, values):
        t = self.ggml.ggml_new_tensor_2d(ctx, self.ggml.GGML_TYPE_F32, values.shape[1], values.shape[0])
        ctypes.memmove(self.ggml.ggml_get_data(t), values.ctypes.data, values.nbytes)
        return t

    def quantized(self, ctx, name, values):
        kind, (n_rows, width) = getattr(self.ggml, "GGML_TYPE_" + name), values.shape
        w = self.ggml.ggml_new_tensor_2d(ctx, kind, width, n_rows)
        source = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        target = ctypes.c_void_p(self.ggml.ggml_get_data(w))
        self.ggml.ggml_quantize_chunk(kind, source, target, 0, n_rows, width, None)
        return w

    def runner(self, ctx, out, n_threads=0, graph=None):
        """A function that computes the graph of `out`, with a plan that is made once."""
        ggml = self.ggml
        if graph is None:
            graph = ggml.ggml_new_graph_custom(ctx, 8192, False)
            ggml.ggml_build_forward_expand(graph, out)
        plan = ggml.ggml_graph_plan(graph, n_threads or self.threads, None)
        work = (ctypes.c_uint8 * max(1, plan.work_size))()
        plan.work_data = ctypes.cast(work, ctypes.POINTER(ctypes.c_uint8))
        pointer = ctypes.pointer(plan)
        return lambda keep=(ctx, work): ggml.ggml_graph_compute(graph, pointer)


def graphs(g):
    """Building, allocating and scheduling graphs, and computing small nodes."""
    return {
        "ggml_add, a call": lambda: calls(g),
        "22-layer LLaMA graph, building": lambda: building(g),
        "LLaMA graph, allocating again": lambda: allocating(g, False, 1),
        "LLaMA graphs, allocating two alternately": lambda: allocating(g, False, 2),
        "LLaMA graph, scheduling again": lambda: allocating(g, True, 1),
        "LLaMA graphs, scheduling two alternately": lambda: allocating(g, True, 2),
        "small node, 1 thread": lambda: nodes(g, 1),
        f"small node, {g.threads} threads": lambda: nodes(g, g.threads),
    }


def chain(g, ctx, x, n):
    """n nodes, each of which adds x to the one before."""
    ggml, y = g.ggml, x
    for _ in range(n):
        y = ggml.ggml_add(ctx, y, x)
    return y


def calls(g, n=2000):
    def run():
        ctx = g.context(8, True)
        chain(g, ctx, g.ggml.ggml_new_tensor_1d(ctx, g.ggml.GGML_TYPE_F32, 16), n)
        g.ggml.ggml_free(ctx)

    return run, n, "calls/s"


def nodes(g, n_threads, n=2000):
    ctx = g.context(64)
    x = g.ggml.ggml_new_tensor_1d(ctx, g.ggml.GGML_TYPE_F32, 16)
    g.ggml.ggml_set_f32(x, 1.0)
    return g.runner(ctx, chain(g, ctx, x, n), n_threads), n, "nodes/s"


def building(g):
    def run():
        ctx, _ = llama_graph(g.ggml, g.context)
        g.ggml.ggml_free(ctx)

    return run, 1, "graphs/s"


def allocating(g, by_scheduler, n):
    """Allocates n graphs alternately, by the scheduler or by a graph allocator. All were allocated before."""
    ggml = g.ggml
    cpu, weights = ggml.ggml_backend_cpu_init(), g.context(16, True)
    made = [llama_graph(ggml, g.context, weights)[1] for _ in range(n)]
    ggml.ggml_backend_alloc_ctx_tensors(weights, cpu)
    if by_scheduler:
        sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(cpu), None, 1, 4096, False, True)
    else:
        alloc = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(cpu))

    def run():
        for graph in made:
            if by_scheduler:
                ggml.ggml_backend_sched_reset(sched)
                ggml.ggml_backend_sched_alloc_graph(sched, graph)
            else:
                ggml.ggml_gallocr_alloc_graph(alloc, graph)

    return run, n, "graphs/s"


def products(g):
    """Matrix products."""
    work = {f"GEMM F32 {name}": (lambda s=shape: gemm(g, *s)) for name, shape in GEMM.items()}
    work |= {f"GEMM {kind} 2048x4096 by 512": (lambda t=kind: gemm(g, 4096, 2048, 512, t)) for kind in WEIGHTS}
    for kind in ("F32", *WEIGHTS):
        work[f"GEMV {kind} 4096x4096"] = lambda t=kind: gemm(g, 4096, 4096, 1, t)
        work[f"GEMV {kind} 4096x4096, {ROTATING} MB"] = lambda t=kind: rotating(g, t)
    return work


def gemm(g, k, m, n, kind="F32"):
    """The product [m, n] of a [k, m] of a type and b [k, n] of f32."""
    ctx = g.context(200)
    a = g.tensor(ctx, random(m, k)) if kind == "F32" else g.quantized(ctx, kind, random(m, k))
    out = g.ggml.ggml_mul_mat(ctx, a, g.tensor(ctx, random(n, k)))
    return g.runner(ctx, out), gemm_flops(k, m, n), "GFLOP/s"


def rotating(g, kind):
    """A product of a vector with each of several matrices of a type, which no cache holds together."""
    ggml, width = g.ggml, 4096
    size = ggml.ggml_row_size(getattr(ggml, "GGML_TYPE_" + kind), width) * width
    count = -(-(ROTATING << 20) // size)
    ctx = g.context(ROTATING + 2 * (size >> 20) + 16)
    matrix = random(width, width)
    weights = [g.tensor(ctx, matrix) if kind == "F32" else g.quantized(ctx, kind, matrix)]
    for _ in range(count - 1):
        weights.append(ggml.ggml_dup_tensor(ctx, weights[0]))
        ctypes.memmove(ggml.ggml_get_data(weights[-1]), ggml.ggml_get_data(weights[0]), size)
    vector = g.tensor(ctx, random(1, width))
    graph = ggml.ggml_new_graph(ctx)
    for w in weights:
        ggml.ggml_build_forward_expand(graph, ggml.ggml_mul_mat(ctx, w, vector))
    return g.runner(ctx, None, graph=graph), count * gemm_flops(width, width, 1), "GFLOP/s"


def streams(g):
    """Operations whose speed the memory limits."""
    ggml = g.ggml
    work = {name: (lambda f=name: stream(g, getattr(ggml, "ggml_" + f), 1 + (f == "add"))) for name in ELEMENTWISE}
    return work | {
        "soft_max": lambda: stream(g, ggml.ggml_soft_max),
        "norm": lambda: stream(g, lambda c, a: ggml.ggml_norm(c, a, 1e-5)),
        "sum_rows": lambda: stream(g, ggml.ggml_sum_rows, results=0),
        "transpose": lambda: stream(g, lambda c, a: ggml.ggml_cont(c, ggml.ggml_transpose(c, a))),
    }


def stream(g, build, operands=1, results=1):
    """An operation on tensors [WIDTH, HEIGHT]. The rate counts each operand and result once."""
    ctx = g.context(64 + 40 * (operands + 1))
    out = build(ctx, *[g.tensor(ctx, random(HEIGHT, WIDTH)) for _ in range(operands)])
    return g.runner(ctx, out), traffic(operands + results), "GB/s"


def conv(g):
    """A convolution of a picture whose size it keeps."""
    (size, channels), ctx = CONV, g.context(64)
    kernel, picture = g.tensor(ctx, random(channels * channels * 3, 3)), g.tensor(ctx, random(channels * size, size))
    kernel = g.ggml.ggml_reshape_4d(ctx, kernel, 3, 3, channels, channels)
    picture = g.ggml.ggml_reshape_3d(ctx, picture, size, size, channels)
    return g.runner(ctx, g.ggml.ggml_conv_2d(ctx, kernel, picture, 1, 1, 1, 1, 1, 1)), conv_flops(), "GFLOP/s"


def attention(g):
    """Attention without a mask; keys and values are f16."""
    (width, queries, keys, heads), ggml, ctx = ATTENTION, g.ggml, g.context(64)

    def cached():
        halves = ggml.ggml_new_tensor_3d(ctx, ggml.GGML_TYPE_F16, width, keys, heads)
        values = random(keys * heads, width).astype(np.float16)
        ctypes.memmove(ggml.ggml_get_data(halves), values.ctypes.data, values.nbytes)
        return halves

    q = ggml.ggml_reshape_3d(ctx, g.tensor(ctx, random(queries * heads, width)), width, queries, heads)
    out = ggml.ggml_flash_attn_ext(ctx, q, cached(), cached(), None, width**-0.5, 0.0, 0.0)
    return g.runner(ctx, out), attention_flops(), "GFLOP/s"


def mlp(g):
    """Loss and gradients of a dense network, without an optimiser step."""
    ggml, (inputs, hidden, classes, batch), ctx = g.ggml, MLP, g.context(200)
    x = g.tensor(ctx, random(batch, inputs))
    labels = g.tensor(ctx, np.eye(classes, dtype=np.float32)[RNG(1).integers(0, classes, batch)])
    shapes = ((hidden, inputs), (1, hidden), (classes, hidden), (1, classes))
    w1, b1, w2, b2 = (g.tensor(ctx, 0.05 * random(*shape)) for shape in shapes)
    for parameter in (w1, b1, w2, b2):
        ggml.ggml_set_param(parameter)
    h = ggml.ggml_relu(ctx, ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, w1, x), b1))
    logits = ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, w2, h), b2)
    loss = ggml.ggml_cross_entropy_loss(ctx, logits, labels)
    ggml.ggml_set_loss(loss)
    graph = ggml.ggml_new_graph_custom(ctx, 256, True)
    ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    ggml.ggml_graph_reset(graph)
    return g.runner(ctx, None, graph=graph), 1, "steps/s"


def llama_graph(ggml, context, weights=None, width=2048, heads=32, inner=5632, past=512):
    """The graph of one decoding step of a 22-layer LLaMA, which is not computed. Returns its context and the graph.

    weights: a context for the weights, by default that of the graph.
    """
    ctx = context(16, True)
    weights = weights or ctx
    f32, f16, q4 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_F16, ggml.GGML_TYPE_Q4_0
    x, position = ggml.ggml_new_tensor_2d(ctx, f32, width, 1), ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, 1)
    keys, values = (ggml.ggml_new_tensor_2d(weights, f16, width, past) for _ in range(2))
    wq, wk, wv, wo = (ggml.ggml_new_tensor_2d(weights, q4, width, width) for _ in range(4))
    gate, up = (ggml.ggml_new_tensor_2d(weights, q4, width, inner) for _ in range(2))
    down, scale = ggml.ggml_new_tensor_2d(weights, q4, inner, width), ggml.ggml_new_tensor_1d(weights, f32, width)
    size = width // heads

    def product(w, v):
        return ggml.ggml_mul_mat(ctx, w, v)

    def norm(v):
        return ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, v, 1e-5), scale)

    def rope(v):
        return ggml.ggml_rope(ctx, ggml.ggml_reshape_3d(ctx, v, size, heads, 1), position, size, 0)

    def cached(cache, *axes):
        return ggml.ggml_permute(ctx, ggml.ggml_reshape_3d(ctx, cache, size, heads, past), *axes)

    graph = ggml.ggml_new_graph_custom(ctx, 4096, False)

    def store(v, cache):
        row = ggml.ggml_view_2d(ctx, cache, width, 1, 2 * width, 0)
        ggml.ggml_build_forward_expand(graph, ggml.ggml_cpy(ctx, v, row))

    for _ in range(22):
        h = norm(x)
        q, k, v = rope(product(wq, h)), rope(product(wk, h)), product(wv, h)
        store(ggml.ggml_reshape_2d(ctx, k, width, 1), keys)
        store(v, values)
        past_keys = cached(keys, 0, 2, 1, 3)
        past_values = ggml.ggml_cont(ctx, cached(values, 1, 2, 0, 3))
        scores = ggml.ggml_scale(ctx, product(past_keys, ggml.ggml_permute(ctx, q, 0, 2, 1, 3)), 0.1)
        mixed = ggml.ggml_permute(ctx, product(past_values, ggml.ggml_soft_max(ctx, scores)), 0, 2, 1, 3)
        x = ggml.ggml_add(ctx, x, product(wo, ggml.ggml_cont_2d(ctx, mixed, width, 1)))
        h = norm(x)
        hidden = ggml.ggml_mul(ctx, ggml.ggml_silu(ctx, product(gate, h)), product(up, h))
        x = ggml.ggml_add(ctx, x, product(down, hidden))
    ggml.ggml_build_forward_expand(graph, x)
    return ctx, graph


# ---- NumPy -----------------------------------------------------------------------------------------------------------
def numpy_workloads(threads):
    def gemm(k, m, n):
        a, b = random(m, k), random(n, k)
        out = np.empty((n, m), np.float32)
        return lambda: np.matmul(b, a.T, out=out), gemm_flops(k, m, n), "GFLOP/s"

    def elementwise(function, operands=1):
        xs = [random(HEIGHT, WIDTH) for _ in range(operands)]
        out = np.empty_like(xs[0])
        return lambda: function(*xs, out=out), traffic(operands + 1), "GB/s"

    work = {f"GEMM F32 {name}": (lambda s=shape: gemm(*s)) for name, shape in GEMM.items()}
    return work | {
        "add": lambda: elementwise(np.add, 2),
        "exp": lambda: elementwise(np.exp),
        "tanh": lambda: elementwise(np.tanh),
    }


# ---- PyTorch ---------------------------------------------------------------------------------------------------------
def torch_workloads(threads):
    import torch
    from torch.nn import functional

    torch.set_num_threads(threads)

    def gemm(k, m, n):
        a, b = torch.from_numpy(random(m, k)), torch.from_numpy(random(n, k))
        return lambda: functional.linear(b, a), gemm_flops(k, m, n), "GFLOP/s"

    def elementwise(function, operands=1, results=1):
        xs = [torch.from_numpy(random(HEIGHT, WIDTH)) for _ in range(operands)]
        return lambda: function(*xs), traffic(operands + results), "GB/s"

    def into(function, operands=1):
        """A function that writes its result to a given tensor."""
        out = torch.empty(HEIGHT, WIDTH)
        return elementwise(lambda *xs: function(*xs, out=out), operands)

    def mlp():
        inputs, hidden, classes, batch = MLP
        net = torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, classes))
        x, labels = torch.from_numpy(random(batch, inputs)), torch.from_numpy(RNG(1).integers(0, classes, batch))

        def step():
            net.zero_grad(set_to_none=False)
            functional.cross_entropy(net(x), labels).backward()

        return step, 1, "steps/s"

    def conv():
        size, channels = CONV
        kernel = torch.from_numpy(random(channels, channels, 3, 3))
        picture = torch.from_numpy(random(1, channels, size, size))
        return lambda: functional.conv2d(picture, kernel, padding=1), conv_flops(), "GFLOP/s"

    def attention():
        width, queries, keys, heads = ATTENTION
        q, k, v = (torch.from_numpy(random(1, heads, n, width)) for n in (queries, keys, keys))
        return lambda: functional.scaled_dot_product_attention(q, k, v), attention_flops(), "GFLOP/s"

    work = {f"GEMM F32 {name}": (lambda s=shape: gemm(*s)) for name, shape in GEMM.items()}
    return work | {
        CONV_NAME: conv,
        ATTENTION_NAME: attention,
        "add": lambda: into(torch.add, 2),
        "exp": lambda: into(torch.exp),
        "tanh": lambda: into(torch.tanh),
        "silu": lambda: elementwise(functional.silu),
        "gelu": lambda: elementwise(lambda x: functional.gelu(x, approximate="tanh")),
        "soft_max": lambda: elementwise(lambda x: torch.softmax(x, 1)),
        "norm": lambda: elementwise(lambda x: functional.layer_norm(x, (WIDTH,))),
        "sum_rows": lambda: elementwise(lambda x: x.sum(1), results=0),
        "transpose": lambda: elementwise(lambda x: x.T.contiguous()),
        MLP_NAME: mlp,
    }
