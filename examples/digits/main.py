"""Trains a dense or a convolutional network on scikit-learn's handwritten digits; the mean accuracy over some seeds."""

import argparse

import numpy as np
from tqdm import tqdm

import ggml
from ggml.demo import load, shifted
from ggml.training import Session, adamw, picture

BATCH, CLASSES = 64, 10


def he(rng, *shape):
    """First weights of a layer: as many inputs as a row has elements."""
    return rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)


def mlp(session, rng):
    """64 pixels, 256 and 128 hidden units, 10 classes."""
    sizes = [(64, 256), (256, 128), (128, CLASSES)]
    layers = [
        (session.parameter(f"weight {i}", he(rng, n_out, n_in)), session.parameter(f"bias {i}", np.zeros(n_out)))
        for i, (n_in, n_out) in enumerate(sizes)
    ]

    def forward(ctx, x):
        for i, (weight, bias) in enumerate(layers):
            x = ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, weight, x), bias)
            x = ggml.ggml_relu(ctx, x) if i + 1 < len(layers) else x
        return x

    return forward


def cnn(session, rng):
    """Two 3x3 convolutions of 16 and 32 channels, pooling, and a dense layer."""
    kernels = [
        (session.parameter(f"kernel {i}", he(rng, c_out, c_in, 3, 3)), session.parameter(f"bias {i}", np.zeros((c_out, 1, 1))))
        for i, (c_in, c_out) in enumerate([(1, 16), (16, 32)])
    ]
    weight, bias = session.parameter("weight", he(rng, CLASSES, 512)), session.parameter("bias", np.zeros(CLASSES))

    def forward(ctx, x):
        batch = x.contents.ne[1]
        x = ggml.ggml_reshape_4d(ctx, x, 8, 8, 1, batch)
        for kernel, offset in kernels:
            x = ggml.ggml_relu(ctx, ggml.ggml_add(ctx, ggml.ggml_conv_2d(ctx, kernel, x, 1, 1, 1, 1, 1, 1), offset))
        x = ggml.ggml_pool_2d(ctx, x, ggml.GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0)
        x = ggml.ggml_reshape_2d(ctx, x, 512, batch)
        return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, weight, x), bias)

    return forward


def train(model, seed, epochs, threads, progress):
    """Held-out accuracy after each epoch, and the losses."""
    rng = np.random.default_rng(seed)
    train_set, test_set = load(seed)
    labels, losses, accuracies = np.eye(CLASSES)[train_set.labels], [], []
    with Session(threads) as s:
        rates = adamw(4e-3, 0.05, epochs * (len(train_set) // BATCH))
        s.start(model(s, rng), 64, BATCH, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, rates)
        for _ in range(epochs):
            losses.append(s.epoch(shifted(train_set.images, rng), labels)[0])
            accuracies.append(np.mean(s.predict(test_set.images).argmax(1) == test_set.labels))
            progress(losses[-1], accuracies[-1])
    return losses, accuracies


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5, help="runs, each with a split of its own")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as the CPU gives")
    parser.add_argument("--plot", default="digits.png")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    epochs, seeds = (8, 1) if args.quick else (args.epochs, args.seeds)
    model = {"mlp": mlp, "cnn": cnn}[args.model]
    runs = []
    with tqdm(total=epochs * seeds, unit="epoch") as bar:

        def progress(loss, accuracy):
            bar.set_postfix(loss=f"{loss:.4f}", held_out=f"{accuracy:.1%}", refresh=False)
            bar.update()

        for seed in range(seeds):
            runs.append(train(model, seed, epochs, args.threads, progress))
    last = [accuracies[-1] for _, accuracies in runs]
    print(f"{args.model}: held-out accuracy {np.mean(last):.2%}, mean of {seeds}:", *(f"{a:.2%}" for a in last))
    picture(args.plot, f"Digits, {args.model}, seed 0", loss=runs[0][0], held_out_accuracy=runs[0][1])


if __name__ == "__main__":
    main()
