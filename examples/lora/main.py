"""Low-rank adaptation (LoRA, arXiv:2106.09685): fine-tunes a frozen, quantised network.

A dense network learns scikit-learn's digits. Its weights W are then quantised to Q8_0 and frozen. It cannot read the
inverted images (white on black) until the factors B and A of a correction B A to each W are trained on them.
"""

import argparse

import numpy as np

import ggml
from ggml.demo import load
from ggml.training import Session, adamw, check_packages, check_picture, picture
from ggml.utils import to_numpy

BATCH, SIZES, KIND = 64, [(64, 256), (256, 256), (256, 10)], ggml.GGML_TYPE_Q8_0


def dense(layers, product):
    """A dense network. product(ctx, layer, x) multiplies x by a layer's weights."""

    def forward(ctx, x):
        for i, layer in enumerate(layers):
            # x = W x + b: [n_out, BATCH] from x [n_in, BATCH] (ggml order)
            x = ggml.ggml_add(ctx, product(ctx, layer, x), layer["bias"])
            # x = max(x, 0), except after the last layer
            x = ggml.ggml_relu(ctx, x) if i + 1 < len(layers) else x
        return x

    return forward


def fit(session, forward, train, test, epochs, rate, progress):
    """Trains the network. Returns the loss of each epoch, and the held-out accuracies before and after each."""
    (x, y), (test_x, test_y) = train, test
    rates = adamw(rate, 0.01, epochs * (len(x) // BATCH))
    session.start(forward, 64, BATCH, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, rates)
    losses, accuracies = [], [np.mean(session.predict(test_x).argmax(1) == test_y)]
    for _ in range(epochs):
        losses.append(session.epoch(x, np.eye(10)[y])[0])
        accuracies.append(np.mean(session.predict(test_x).argmax(1) == test_y))
        progress(losses[-1], accuracies[-1])
    return losses, accuracies


def pretrain(rng, train, test, threads, epochs, progress):
    """Trains the whole network. Returns its weights and biases as arrays, and its held-out accuracy."""
    with Session(threads) as s:
        layers = []
        for i, (n_in, n_out) in enumerate(SIZES):
            weight = s.parameter(f"weight {i}", rng.normal(0, np.sqrt(2 / n_in), (n_out, n_in)))
            layers.append({"weight": weight, "bias": s.parameter(f"bias {i}", np.zeros(n_out))})

        def product(ctx, layer, x):
            # W x: [n_out, BATCH] from W [n_in, n_out]
            return ggml.ggml_mul_mat(ctx, layer["weight"], x)

        _, accuracies = fit(s, dense(layers, product), train, test, epochs, 3e-3, progress)
        return [{k: to_numpy(t).copy() for k, t in layer.items()} for layer in layers], accuracies[-1]


def adapt(rng, weights, rank, train, test, threads, epochs, progress):
    """Trains the factors beside the frozen weights. Returns losses, accuracies and the number of trained values."""
    with Session(threads) as s:
        layers = []
        for i, w in enumerate(weights):
            n_out, n_in = w["weight"].shape
            layers.append({
                "weight": s.frozen(f"weight {i}", w["weight"], KIND),
                "bias": s.frozen(f"bias {i}", w["bias"]),
                "a": s.parameter(f"A {i}", rng.normal(0, 0.1, (rank, n_in))),
                "b": s.parameter(f"B {i}", np.zeros((n_out, rank))),  # 0: the first correction is 0
            })  # fmt: skip

        def product(ctx, layer, x):
            # (W + B A) x = W x + B (A x), with A x [rank, BATCH] from A [n_in, rank], B [rank, n_out], W [n_in, n_out]
            correction = ggml.ggml_mul_mat(ctx, layer["b"], ggml.ggml_mul_mat(ctx, layer["a"], x))
            return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, layer["weight"], x), correction)

        losses, accuracies = fit(s, dense(layers, product), train, test, epochs, 1e-2, progress)
        return losses, accuracies, sum(ggml.ggml_nelements(layer[k]) for layer in layers for k in "ab")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40, help="of each of the two trainings")
    parser.add_argument("--rank", type=int, default=4, help="rank of the corrections")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="0: the default number of the CPU backend")
    parser.add_argument("--plot", default="lora.png", help="file for the curves of the second training")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    check_packages("sklearn", "tqdm")  # now rather than during the training
    check_picture(args.plot)
    from tqdm import tqdm

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
    frozen = sum(w["weight"].size for w in weights)
    print(f"dark on white {first:.2%}; white on black {accuracies[0]:.2%} before, {accuracies[-1]:.2%} after "
          f"training {n:,} values beside {frozen:,} frozen ones")  # fmt: skip
    picture(args.plot, "Low-rank adaptation", loss=losses, held_out_accuracy=accuracies[1:])


if __name__ == "__main__":
    main()
