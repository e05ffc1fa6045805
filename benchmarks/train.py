"""Time of a training step (forward, backward, AdamW) here and in PyTorch, in one run, in turns.

    python benchmarks/train.py [--torch PYTHON] [--threads N] [--rounds N]

PYTHON: the interpreter of an environment with `torch`. The best of the rounds counts; a ratio above 1 means that this library is faster.
"""

import argparse
import subprocess
import sys
import time

import numpy as np

MLP_BATCH, CNN_BATCH = 500, 64


def ggml_steps(threads):
    import ggml
    from ggml.training import Session, adamw

    def dense(s, n_in, n_out):
        return s.parameter(f"w{n_in}", np.random.randn(n_out, n_in) * n_in**-0.5), s.parameter(f"b{n_in}", np.zeros(n_out))

    def linear(ctx, layer, x):
        return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, layer[0], x), layer[1])

    def mlp(s):
        first, second = dense(s, 784, 500), dense(s, 500, 10)
        return lambda ctx, x: linear(ctx, second, ggml.ggml_relu(ctx, linear(ctx, first, x)))

    def cnn(s):
        kernels = [s.parameter(f"k{i}", np.random.randn(o, c, 5, 5) * 0.1) for i, (c, o) in enumerate([(1, 6), (6, 16)])]
        offsets = [s.parameter(f"o{i}", np.zeros((n, 1, 1))) for i, n in enumerate((6, 16))]
        layers = [dense(s, 400, 120), dense(s, 120, 84), dense(s, 84, 10)]

        def forward(ctx, x):
            batch = x.contents.ne[1]
            x = ggml.ggml_reshape_4d(ctx, x, 28, 28, 1, batch)
            for kernel, offset, pad in zip(kernels, offsets, (2, 0)):
                x = ggml.ggml_relu(ctx, ggml.ggml_add(ctx, ggml.ggml_conv_2d(ctx, kernel, x, 1, 1, pad, pad, 1, 1), offset))
                x = ggml.ggml_pool_2d(ctx, x, ggml.GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0)
            x = ggml.ggml_reshape_2d(ctx, x, 400, batch)
            for layer in layers[:2]:
                x = ggml.ggml_relu(ctx, linear(ctx, layer, x))
            return linear(ctx, layers[2], x)

        return forward

    def step(model, batch):
        s = Session(threads)
        s.start(model(s), 784, batch, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, adamw(1e-3))
        x, y = np.random.rand(batch, 784).astype(np.float32), np.eye(10, dtype=np.float32)[np.arange(batch) % 10]

        def run():
            ggml.ggml_opt_alloc(s.opt, True)
            ggml.ggml_backend_tensor_set(ggml.ggml_opt_inputs(s.opt), x, 0, x.nbytes)
            ggml.ggml_backend_tensor_set(ggml.ggml_opt_labels(s.opt), y, 0, y.nbytes)
            ggml.ggml_opt_eval(s.opt, None)

        return run

    return {"mlp": step(mlp, MLP_BATCH), "cnn": step(cnn, CNN_BATCH)}


def torch_steps(threads):
    import torch
    from torch import nn

    torch.set_num_threads(threads)

    def step(model, shape):
        x, y = torch.rand(*shape), torch.arange(shape[0]) % 10
        optimizer, loss = torch.optim.AdamW(model.parameters(), 1e-3), nn.CrossEntropyLoss()

        def run():
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()

        return run

    mlp = nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 10))
    convolutions = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
    dense = [nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    return {"mlp": step(mlp, (MLP_BATCH, 784)), "cnn": step(nn.Sequential(*convolutions, *dense), (CNN_BATCH, 1, 28, 28))}


def measure(library, threads, steps=60):
    """Prints the shortest time of each model's step in milliseconds."""
    for name, run in {"ggml": ggml_steps, "torch": torch_steps}[library](threads).items():
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        print(name, 1e3 * min(times), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", help="interpreter with torch", default=sys.executable)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, args.threads)
        return
    best = {}
    for _ in range(args.rounds):
        for library, python in (("ggml", sys.executable), ("torch", args.torch)):
            command = [python, __file__, "--measure", library, "--threads", str(args.threads)]
            for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
                name, ms = line.split()
                best[library, name] = min(best.get((library, name), 1e9), float(ms))
    for name in ("mlp", "cnn"):
        ours, theirs = best["ggml", name], best["torch", name]
        print(f"{name}: {ours:.2f} ms, PyTorch {theirs:.2f} ms, ratio {theirs / ours:.2f}")


if __name__ == "__main__":
    main()
