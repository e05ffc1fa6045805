"""A linear support vector machine that tells benign from malignant tumours, trained on the hinge loss."""

import argparse

import numpy as np

import ggml
from ggml.training import Session, adamw, check_packages, check_picture, picture

BATCH = 25


def load(seed):
    """Features [points, 31] and labels y of -1 or 1 for training (four fifths) and held out (one fifth).

    The 30 features have mean 0 and variance 1 in the training part. A column of ones takes the place of a bias.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    x, y = load_breast_cancer(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(x, 2.0 * y - 1, test_size=0.2, stratify=y, random_state=seed)
    mean, deviation = train_x.mean(0), train_x.std(0)
    train_x, test_x = (
        np.c_[(part - mean) / deviation, np.ones(len(part))].astype(np.float32) for part in (train_x, test_x)
    )
    return train_x, test_x, train_y, test_y


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="svm.png", help="file for the curves of loss and accuracy")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    check_packages("sklearn", "tqdm")  # now rather than during the training
    check_picture(args.plot)
    from tqdm import trange

    epochs = 10 if args.quick else args.epochs
    train_x, test_x, train_y, test_y = load(args.seed)
    width = train_x.shape[1]
    with Session() as s:
        weight = s.parameter("weight", np.zeros((1, width)))

        def hinge(ctx, inputs):
            # margin = y f(x) = w (y x): [1, BATCH] from w [width, 1] and inputs y x [width, BATCH] (ggml order)
            margin = ggml.ggml_mul_mat(ctx, weight, inputs)
            # hinge = max(0, 1 - margin)
            return ggml.ggml_relu(ctx, ggml.ggml_scale_bias(ctx, margin, -1, 1))

        # loss = mean(hinge), minimised by SGD with weight decay: the decay maximises the margin
        loss, sgd = ggml.GGML_OPT_LOSS_TYPE_MEAN, ggml.GGML_OPT_OPTIMIZER_TYPE_SGD
        s.start(hinge, width, BATCH, loss, adamw(0.1, 0.01, epochs * len(train_x) // BATCH), sgd)
        losses, accuracies = [], []
        for _ in (bar := trange(epochs, unit="epoch")):
            losses.append(s.epoch(train_x * train_y[:, None])[0])
            # a point is on the right side if its margin is above 0, that is if its hinge is below 1
            accuracies.append(np.mean(s.predict(test_x * test_y[:, None]) < 1))
            bar.set_postfix(loss=f"{losses[-1]:.4f}", held_out=f"{accuracies[-1]:.1%}")
    print(f"loss {losses[-1]:.4f}; held-out accuracy {accuracies[-1]:.2%}")
    picture(args.plot, "Support vector machine", hinge_loss=losses, held_out_accuracy=accuracies)


if __name__ == "__main__":
    main()
