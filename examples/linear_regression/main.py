"""Linear regression in ten dimensions by gradient descent, compared with the exact least-squares solution."""

import argparse

import numpy as np

import ggml
from ggml.training import Session, adamw, check_packages, check_picture, picture

WIDTH, POINTS, BATCH = 10, 1000, 50


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="linear_regression.png", help="file for the curve of the loss")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    check_packages("tqdm")  # now rather than during the training
    check_picture(args.plot)
    from tqdm import trange

    epochs = 15 if args.quick else args.epochs

    # y = X w + 0.5 + noise, with X [POINTS, WIDTH], w [WIDTH, 1] and noise of standard deviation 0.1
    rng = np.random.default_rng(args.seed)
    x = rng.normal(size=(POINTS, WIDTH)).astype(np.float32)
    y = (x @ rng.normal(size=(WIDTH, 1)) + 0.5 + 0.1 * rng.normal(size=(POINTS, 1))).astype(np.float32)

    with Session() as s:
        weight, bias = s.parameter("weight", np.zeros((1, WIDTH))), s.parameter("bias", np.zeros(1))

        def forward(ctx, inputs):
            # prediction = w x + b: [1, BATCH] from w [WIDTH, 1] and inputs [WIDTH, BATCH] (ggml order)
            return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, weight, inputs), bias)

        # loss = mean((prediction - y)^2), minimised by SGD with a rate that falls from 0.1 to 0
        loss, sgd = ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR, ggml.GGML_OPT_OPTIMIZER_TYPE_SGD
        s.start(forward, WIDTH, BATCH, loss, adamw(0.1, steps=epochs * POINTS // BATCH), sgd)
        losses = []
        for _ in (bar := trange(epochs, unit="epoch")):
            losses.append(s.epoch(x, y)[0])
            bar.set_postfix(loss=f"{losses[-1]:.5f}")

        # the prediction for 0 is b; that for the unit vector e_i is w_i + b
        b = s.predict(np.zeros((1, WIDTH)))
        w = s.predict(np.eye(WIDTH)) - b
    found = np.append(w, b)
    exact = np.linalg.lstsq(np.c_[x, np.ones(POINTS)], y, rcond=None)[0].ravel()
    print(f"loss {losses[-1]:.5f}; largest difference to the exact solution {np.abs(found - exact).max():.5f}")
    picture(args.plot, "Linear regression", mean_squared_error=losses)


if __name__ == "__main__":
    main()
