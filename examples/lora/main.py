"""Fine-tunes a frozen, quantised network through low-rank factors: from dark digits on white to white digits on black.

A dense network learns scikit-learn's digits; its weights are quantised and frozen, and then only the factors B and A of a
correction B A to each weight matrix are trained, on the inverted images that the network can't read.
"""

import argparse

import numpy as np
from tqdm import tqdm

import ggml
from ggml.demo import load
from ggml.training import Session, adamw, picture
from ggml.utils import to_numpy

BATCH, SIZES, KIND = 64, [(64, 256), (256, 256), (256, 10)], ggml.GGML_TYPE_Q8_0


def dense(layers, product):
    """The network, given how a layer multiplies."""

    def forward(ctx, x):
        for i, layer in enumerate(layers):
            x = ggml.ggml_add(ctx, product(ctx, layer, x), layer["bias"])
            x = ggml.ggml_relu(ctx, x) if i + 1 < len(layers) else x
        return x

    return forward


def fit(session, forward, train, test, epochs, rate, progress):
    """Losses and held-out accuracies, one an epoch and one before the first."""
    (x, y), (test_x, test_y) = train, test
    session.start(forward, 64, BATCH, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, adamw(rate, 0.01, epochs * (len(x) // BATCH)))
    losses, accuracies = [], [np.mean(session.predict(test_x).argmax(1) == test_y)]
    for _ in range(epochs):
        losses.append(session.epoch(x, np.eye(10)[y])[0])
        accuracies.append(np.mean(session.predict(test_x).argmax(1) == test_y))
        progress(losses[-1], accuracies[-1])
    return losses, accuracies


def pretrain(rng, train, test, threads, epochs, progress):
    """Weights and biases of a network that reads the digits, and its accuracy."""
    with Session(threads) as s:
        layers = [
            {"weight": s.parameter(f"weight {i}", rng.normal(0, np.sqrt(2 / n_in), (n_out, n_in))),
             "bias": s.parameter(f"bias {i}", np.zeros(n_out))}
            for i, (n_in, n_out) in enumerate(SIZES)
        ]  # fmt: skip
        forward = dense(layers, lambda ctx, layer, x: ggml.ggml_mul_mat(ctx, layer["weight"], x))
        _, accuracies = fit(s, forward, train, test, epochs, 3e-3, progress)
        return [{k: to_numpy(t).copy() for k, t in layer.items()} for layer in layers], accuracies[-1]


def adapt(rng, weights, rank, train, test, threads, epochs, progress):
    """Trains the factors; accuracies before and after, losses, and the number of trained values."""
    with Session(threads) as s:
        layers = [
            {"weight": s.frozen(f"weight {i}", w["weight"], KIND), "bias": s.frozen(f"bias {i}", w["bias"]),
             "a": s.parameter(f"A {i}", rng.normal(0, 0.1, (rank, w["weight"].shape[1]))),
             "b": s.parameter(f"B {i}", np.zeros((w["weight"].shape[0], rank)))}
            for i, w in enumerate(weights)
        ]  # fmt: skip

        def product(ctx, layer, x):
            low = ggml.ggml_mul_mat(ctx, layer["b"], ggml.ggml_mul_mat(ctx, layer["a"], x))
            return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, layer["weight"], x), low)

        losses, accuracies = fit(s, dense(layers, product), train, test, epochs, 1e-2, progress)
        return losses, accuracies, sum(ggml.ggml_nelements(layer[k]) for layer in layers for k in "ab")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as the CPU gives")
    parser.add_argument("--plot", default="lora.png")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    epochs = 6 if args.quick else args.epochs
    rng = np.random.default_rng(args.seed)
    train_set, test_set = load(args.seed)
    train, test = (train_set.images, train_set.labels), (test_set.images, test_set.labels)
    with tqdm(total=2 * epochs, unit="epoch") as bar:

        def progress(loss, accuracy):
            bar.set_postfix(loss=f"{loss:.4f}", held_out=f"{accuracy:.1%}", refresh=False)
            bar.update()

        weights, first = pretrain(rng, train, test, args.threads, epochs, progress)
        inverted = [(1 - x, y) for x, y in (train, test)]
        losses, accuracies, n = adapt(rng, weights, args.rank, *inverted, args.threads, epochs, progress)
    whole = sum(w["weight"].size for w in weights)
    print(f"dark on white {first:.2%}; white on black {accuracies[0]:.2%} before, {accuracies[-1]:.2%} after "
          f"training {n:,} values beside {whole:,} frozen ones")  # fmt: skip
    picture(args.plot, "Low-rank adaptation", loss=losses, held_out_accuracy=accuracies[1:])


if __name__ == "__main__":
    main()
