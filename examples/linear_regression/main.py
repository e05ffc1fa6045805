"""Fits a line through noisy points in ten dimensions by gradient descent, and compares it with the exact solution."""

import argparse

import numpy as np
from tqdm import trange

import ggml
from ggml.training import Session, adamw, picture

WIDTH, POINTS, BATCH = 10, 1000, 50


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="linear_regression.png")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    epochs = 15 if args.quick else args.epochs
    rng = np.random.default_rng(args.seed)
    x = rng.normal(size=(POINTS, WIDTH)).astype(np.float32)
    y = (x @ rng.normal(size=(WIDTH, 1)) + 0.5 + 0.1 * rng.normal(size=(POINTS, 1))).astype(np.float32)

    with Session() as s:
        weight, bias = s.parameter("weight", np.zeros((1, WIDTH))), s.parameter("bias", np.zeros(1))

        def forward(ctx, inputs):
            return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, weight, inputs), bias)

        rates = adamw(0.1, steps=epochs * POINTS // BATCH)
        s.start(forward, WIDTH, BATCH, ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR, rates, ggml.GGML_OPT_OPTIMIZER_TYPE_SGD)
        losses = []
        for _ in (bar := trange(epochs, unit="epoch")):
            losses.append(s.epoch(x, y)[0])
            bar.set_postfix(loss=f"{losses[-1]:.5f}")
        found = np.append(s.predict(np.eye(WIDTH)) - (b := s.predict(np.zeros((1, WIDTH)))), b)
    exact = np.linalg.lstsq(np.c_[x, np.ones(POINTS)], y, rcond=None)[0].ravel()
    print(f"loss {losses[-1]:.5f}; largest difference to the exact solution {np.abs(found - exact).max():.5f}")
    picture(args.plot, "Linear regression", mean_squared_error=losses)


if __name__ == "__main__":
    main()
