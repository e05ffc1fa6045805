"""A linear support vector machine, trained on the hinge loss with weight decay: benign and malignant tumours."""

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from tqdm import trange

import ggml
from ggml.training import Session, adamw, picture

BATCH = 25


def load(seed):
    """Standardised features with a column of ones, and the side, -1 or 1; four fifths to train, one fifth held out."""
    x, y = load_breast_cancer(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(x, 2.0 * y - 1, test_size=0.2, stratify=y, random_state=seed)
    mean, deviation = train_x.mean(0), train_x.std(0)
    parts = [np.c_[(part - mean) / deviation, np.ones(len(part))].astype(np.float32) for part in (train_x, test_x)]
    return (*parts, train_y, test_y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="svm.png")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    epochs = 10 if args.quick else args.epochs
    train_x, test_x, train_y, test_y = load(args.seed)
    with Session() as s:
        weight = s.parameter("weight", np.zeros((1, train_x.shape[1])))

        def hinge(ctx, inputs):
            # inputs are y x, so that the product is the margin y f(x); the loss is max(0, 1 - margin)
            return ggml.ggml_relu(ctx, ggml.ggml_scale_bias(ctx, ggml.ggml_mul_mat(ctx, weight, inputs), -1, 1))

        rates = adamw(0.1, 0.01, epochs * len(train_x) // BATCH)
        s.start(hinge, train_x.shape[1], BATCH, ggml.GGML_OPT_LOSS_TYPE_MEAN, rates, ggml.GGML_OPT_OPTIMIZER_TYPE_SGD)
        losses, accuracies = [], []
        for _ in (bar := trange(epochs, unit="epoch")):
            losses.append(s.epoch(train_x * train_y[:, None])[0])
            # the hinge is below 1 where the margin is above 0
            accuracies.append(np.mean(s.predict(test_x * test_y[:, None]) < 1))
            bar.set_postfix(loss=f"{losses[-1]:.4f}", held_out=f"{accuracies[-1]:.1%}")
    print(f"loss {losses[-1]:.4f}; held-out accuracy {accuracies[-1]:.2%}")
    picture(args.plot, "Support vector machine", hinge_loss=losses, held_out_accuracy=accuracies)


if __name__ == "__main__":
    main()
