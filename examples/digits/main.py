"""Trains a dense or a convolutional network on scikit-learn's handwritten digits.

Prints the held-out accuracy of each run and their mean. Each run has a seed and a split of its own.
"""

import argparse

import numpy as np

import ggml
from ggml.demo import load, shifted
from ggml.training import Session, adamw, check_packages, check_picture, picture

BATCH, CLASSES = 64, 10


def he(rng, *shape):
    """Initial weights (He et al., arXiv:1502.01852): variance 2 / n_in, where n_in is the size of shape[1:]."""
    return rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)


def mlp(session, rng):
    """A dense network: 64 pixels, 256 and 128 hidden units, 10 classes."""
    sizes = [(64, 256), (256, 128), (128, CLASSES)]
    layers = [
        (session.parameter(f"weight {i}", he(rng, n_out, n_in)), session.parameter(f"bias {i}", np.zeros(n_out)))
        for i, (n_in, n_out) in enumerate(sizes)
    ]

    def forward(ctx, x):
        for i, (weight, bias) in enumerate(layers):
            # x = W x + b: [n_out, BATCH] from W [n_in, n_out] and x [n_in, BATCH] (ggml order)
            x = ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, weight, x), bias)
            # x = max(x, 0), except after the last layer
            x = ggml.ggml_relu(ctx, x) if i + 1 < len(layers) else x
        return x

    return forward


def cnn(session, rng):
    """Two 3x3 convolutions of 16 and 32 channels, 2x2 max-pooling, and a dense layer."""
    kernels = []
    for i, (c_in, c_out) in enumerate([(1, 16), (16, 32)]):
        kernel = session.parameter(f"kernel {i}", he(rng, c_out, c_in, 3, 3))
        kernels.append((kernel, session.parameter(f"bias {i}", np.zeros((c_out, 1, 1)))))
    weight, bias = session.parameter("weight", he(rng, CLASSES, 512)), session.parameter("bias", np.zeros(CLASSES))

    def forward(ctx, x):
        batch = x.contents.ne[1]
        # images [64, batch] -> [8, 8, 1 channel, batch]
        x = ggml.ggml_reshape_4d(ctx, x, 8, 8, 1, batch)
        for kernel, offset in kernels:
            # x = max(kernel * x + b, 0), padded by 1 at stride 1: [8, 8, c_in, batch] -> [8, 8, c_out, batch]
            x = ggml.ggml_add(ctx, ggml.ggml_conv_2d(ctx, kernel, x, 1, 1, 1, 1, 1, 1), offset)
            x = ggml.ggml_relu(ctx, x)
        # maximum of 2x2 pixels: [8, 8, 32, batch] -> [4, 4, 32, batch]
        x = ggml.ggml_pool_2d(ctx, x, ggml.GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0)
        # logits = W x + b: [CLASSES, batch] from W [512, CLASSES] and x [512, batch]
        x = ggml.ggml_reshape_2d(ctx, x, 512, batch)
        return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, weight, x), bias)

    return forward


def train(model, seed, epochs, threads, progress):
    """Trains one network. Returns the loss of each epoch, and the accuracies in training and held out."""
    rng = np.random.default_rng(seed)
    train_set, test_set = load(seed)
    labels, losses, seen, held_out = np.eye(CLASSES)[train_set.labels], [], [], []
    with Session(threads) as s:
        rates = adamw(4e-3, 0.05, epochs * (len(train_set) // BATCH))
        s.start(model(s, rng), 64, BATCH, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, rates)
        for _ in range(epochs):
            loss, accuracy = s.epoch(shifted(train_set.images, rng), labels)
            losses.append(loss)
            seen.append(accuracy)
            held_out.append(np.mean(s.predict(test_set.images).argmax(1) == test_set.labels))
            progress(losses[-1], held_out[-1])
    return losses, seen, held_out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5, help="number of runs")
    parser.add_argument("--threads", type=int, default=0, help="0: the default number of the CPU backend")
    parser.add_argument("--plot", default="digits.png", help="file for the curves of the first run")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    check_packages("sklearn", "tqdm")  # now rather than during the training
    check_picture(args.plot)
    from tqdm import tqdm

    epochs, seeds = (8, 1) if args.quick else (args.epochs, args.seeds)
    model = {"mlp": mlp, "cnn": cnn}[args.model]
    runs = []
    with tqdm(total=epochs * seeds, unit="epoch") as bar:

        def progress(loss, accuracy):
            bar.set_postfix(loss=f"{loss:.4f}", held_out=f"{accuracy:.1%}", refresh=False)
            bar.update()

        for seed in range(seeds):
            runs.append(train(model, seed, epochs, args.threads, progress))
    last = [held_out[-1] for *_, held_out in runs]
    print(f"{args.model}: held-out accuracy {np.mean(last):.2%}, mean of {seeds}:", *(f"{a:.2%}" for a in last))
    losses, seen, held_out = runs[0]
    picture(args.plot, f"Digits, {args.model}, seed 0", loss=losses, accuracy={"training": seen, "held out": held_out})


if __name__ == "__main__":
    main()
