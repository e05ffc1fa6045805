"""Compares the time and the memory of a training step (forward, backward, AdamW) with PyTorch.

    python benchmarks/train.py [--torch PYTHON] [--threads N] [--rounds N] [WORKLOAD ...]

PYTHON is the interpreter of an environment with `torch`. The libraries run alternately, each in a new process. The best
of all rounds is reported; a ratio above 1 is in favour of this library. The time is processor time on one thread and
wall-clock time on several. Memory is the peak of the resident set minus its size after the imports.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

BATCH = {"mlp": 500, "cnn": 64, "gpt": 8}
VOCAB, LENGTH, WIDTH, HEADS, LAYERS = 65, 128, 256, 4, 4  # sizes of the GPT


# ---- this library ----------------------------------------------------------------------------------------------------
def ggml_step(name, threads):
    """A function that makes a training step of the model `name`."""
    import ggml
    from ggml.training import Session, adamw

    sys.path.append(str(Path(__file__).resolve().parent.parent / "examples" / "gpt2_char"))
    from model import gpt2

    s, batch = Session(threads), BATCH[name]

    def dense(n_in, n_out):
        weight = s.parameter(f"w{n_in}", np.random.randn(n_out, n_in) * n_in**-0.5)
        return weight, s.parameter(f"b{n_in}", np.zeros(n_out))

    def linear(ctx, layer, x):
        return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, layer[0], x), layer[1])

    def mlp():
        first, second = dense(784, 500), dense(500, 10)
        return lambda ctx, x: linear(ctx, second, ggml.ggml_relu(ctx, linear(ctx, first, x)))

    def cnn():
        channels = [(1, 6), (6, 16)]
        kernels = [s.parameter(f"k{i}", np.random.randn(o, c, 5, 5) * 0.1) for i, (c, o) in enumerate(channels)]
        offsets = [s.parameter(f"o{i}", np.zeros((o, 1, 1))) for i, (_, o) in enumerate(channels)]
        layers = [dense(400, 120), dense(120, 84), dense(84, 10)]

        def forward(ctx, x):
            x = ggml.ggml_reshape_4d(ctx, x, 28, 28, 1, batch)
            for kernel, offset, pad in zip(kernels, offsets, (2, 0)):
                x = ggml.ggml_add(ctx, ggml.ggml_conv_2d(ctx, kernel, x, 1, 1, pad, pad, 1, 1), offset)
                x = ggml.ggml_relu(ctx, x)
                x = ggml.ggml_pool_2d(ctx, x, ggml.GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0)
            x = ggml.ggml_reshape_2d(ctx, x, 400, batch)
            for layer in layers[:2]:
                x = ggml.ggml_relu(ctx, linear(ctx, layer, x))
            return linear(ctx, layers[2], x)

        return forward

    if name == "gpt":
        forward = gpt2(s, np.random.default_rng(0), VOCAB, LENGTH, WIDTH, HEADS, LAYERS)
        width, kind = LENGTH, ggml.GGML_TYPE_I32
        x = np.random.randint(0, VOCAB, (batch, LENGTH), np.int32)
        y = np.eye(VOCAB, dtype=np.float32)[np.arange(batch * LENGTH) % VOCAB]
    else:
        forward, width, kind = {"mlp": mlp, "cnn": cnn}[name](), 784, ggml.GGML_TYPE_F32
        x = np.random.rand(batch, 784).astype(np.float32)
        y = np.eye(10, dtype=np.float32)[np.arange(batch) % 10]
    s.start(forward, width, batch, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, adamw(1e-3), kind=kind)

    def run():
        ggml.ggml_opt_alloc(s.opt, True)
        ggml.ggml_backend_tensor_set(ggml.ggml_opt_inputs(s.opt), x, 0, x.nbytes)
        ggml.ggml_backend_tensor_set(ggml.ggml_opt_labels(s.opt), y, 0, y.nbytes)
        ggml.ggml_opt_eval(s.opt, None)

    return run


# ---- PyTorch ---------------------------------------------------------------------------------------------------------
def torch_gpt(batch):
    """The GPT-2 of examples/gpt2_char in PyTorch."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            qkv = self.qkv(self.first(x)).split(WIDTH, 2)
            q, k, v = (t.view(batch, LENGTH, HEADS, -1).transpose(1, 2) for t in qkv)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, LENGTH, WIDTH))
            return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCAB, WIDTH)
            self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
            self.blocks, self.last = nn.Sequential(*[Block() for _ in range(LAYERS)]), nn.LayerNorm(WIDTH)

        def forward(self, tokens):
            x = self.last(self.blocks(self.embedding(tokens) + self.positions))
            return F.linear(x, self.embedding.weight).view(batch * LENGTH, VOCAB)

    return Gpt()


def torch_step(name, threads):
    """A function that makes a training step of the model `name`."""
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    batch = BATCH[name]
    y = torch.arange(batch) % 10
    if name == "gpt":
        model, x = torch_gpt(batch), torch.randint(0, VOCAB, (batch, LENGTH))
        y = torch.arange(batch * LENGTH) % VOCAB
    elif name == "mlp":
        model, x = nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 10)), torch.rand(batch, 784)
    else:
        first = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        dense = [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
        model, x = nn.Sequential(*first, *second, *dense), torch.rand(batch, 1, 28, 28)
    optimizer, loss = torch.optim.AdamW(model.parameters(), 1e-3), nn.CrossEntropyLoss()

    def run():
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return run


# ---- measuring -------------------------------------------------------------------------------------------------------
def resident(key):
    """A value of /proc/self/status in MB: VmRSS is the size of the resident set, VmHWM its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1e3
    raise KeyError(key)


def measure(library, name, threads, seconds=4):
    """Runs in a new process: prints the least time of a step in milliseconds, and the memory in MB."""
    __import__({"ggml": "ggml.training", "torch": "torch"}[library])
    before = resident("VmRSS")
    run = {"ggml": ggml_step, "torch": torch_step}[library](name, threads)
    clock, times = time.process_time if threads == 1 else time.perf_counter, []
    while len(times) < 10 or sum(times) < seconds:
        start = clock()
        run()
        times.append(clock() - start)
    print(1e3 * min(times), resident("VmHWM") - before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = list(BATCH)
    parser.add_argument("workloads", nargs="*", default=names, metavar="WORKLOAD", help="mlp, cnn, gpt (default: all)")
    parser.add_argument("--torch", help="interpreter with torch", default=sys.executable)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, args.workloads[0], args.threads)
        return
    for name in args.workloads:
        best = {}
        for _ in range(args.rounds):
            for library, python in (("ggml", sys.executable), ("torch", args.torch)):
                command = [python, __file__, "--measure", library, "--threads", str(args.threads), name]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                measured = map(float, done.stdout.split())
                best[library] = [min(pair) for pair in zip(measured, best.get(library, (1e9, 1e9)))]
        (ours, our_mb), (theirs, their_mb) = best["ggml"], best["torch"]
        print(f"{name}: {ours:.2f} ms, PyTorch {theirs:.2f} ms, ratio {theirs / ours:.2f}")
        print(f"  memory {our_mb:.1f} MB, PyTorch {their_mb:.1f} MB, ratio {their_mb / our_mb:.2f}", flush=True)


if __name__ == "__main__":
    main()
