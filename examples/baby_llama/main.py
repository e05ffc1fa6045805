"""Trains a small LLaMA from scratch to continue sine waves, then lets it draw one by itself."""

import argparse
import math

import numpy as np
from tqdm import trange

import ggml
from ggml.training import Session, adamw, picture
from ggml.utils import from_numpy

LEVELS, LENGTH, WIDTH, HEADS, LAYERS, HIDDEN, BATCH, WAVES = 32, 24, 64, 4, 2, 128, 16, 512


def levels(phase, steps, period):
    """A sine wave as tokens: which of the levels each value is nearest to."""
    wave = np.sin(np.asarray(phase)[:, None] + 2 * np.pi * np.arange(steps) / np.asarray(period)[:, None])
    return np.rint((wave + 1) / 2 * (LEVELS - 1)).astype(int)


def one_hot(tokens):
    """Rows of LENGTH tokens as rows of inputs."""
    return np.eye(LEVELS, dtype=np.float32)[tokens].reshape(len(tokens), -1)


def llama(session, rng):
    """RMS norm, rotary attention and a SwiGLU in each layer; gives the function that builds it."""

    def matrix(name, n_out, n_in):
        return session.parameter(name, rng.normal(0, n_in**-0.5, (n_out, n_in)))

    shapes = dict.fromkeys("qkvo", (WIDTH, WIDTH)) | {"gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}
    embedding, head = matrix("embedding", WIDTH, LEVELS), matrix("head", LEVELS, WIDTH)
    layers = [{k: matrix(f"{k} {i}", *shape) for k, shape in shapes.items()} for i in range(LAYERS)]
    gains = [session.parameter(f"gain {i}", np.ones(WIDTH)) for i in range(2 * LAYERS + 1)]
    positions = from_numpy(np.arange(LENGTH, dtype=np.int32), session.weights)

    def norm(ctx, x, gain):
        return ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, x, 1e-5), gain)

    def attention(ctx, layer, x, batch):
        size = WIDTH // HEADS

        def heads(name):
            return ggml.ggml_reshape_4d(ctx, ggml.ggml_mul_mat(ctx, layer[name], x), size, HEADS, LENGTH, batch)

        q, k = (ggml.ggml_permute(ctx, ggml.ggml_rope(ctx, heads(name), positions, size, 0), 0, 2, 1, 3) for name in "qk")
        scores = ggml.ggml_scale(ctx, ggml.ggml_mul_mat(ctx, k, q), 1 / math.sqrt(size))
        weights = ggml.ggml_soft_max(ctx, ggml.ggml_diag_mask_inf(ctx, scores, 0))
        v = ggml.ggml_cont(ctx, ggml.ggml_permute(ctx, heads("v"), 1, 2, 0, 3))
        found = ggml.ggml_cont(ctx, ggml.ggml_permute(ctx, ggml.ggml_mul_mat(ctx, v, weights), 0, 2, 1, 3))
        return ggml.ggml_mul_mat(ctx, layer["o"], ggml.ggml_reshape_2d(ctx, found, WIDTH, LENGTH * batch))

    def forward(ctx, inputs):
        batch = inputs.contents.ne[1]
        x = ggml.ggml_mul_mat(ctx, embedding, ggml.ggml_reshape_2d(ctx, inputs, LEVELS, LENGTH * batch))
        for i, layer in enumerate(layers):
            x = ggml.ggml_add(ctx, x, attention(ctx, layer, norm(ctx, x, gains[2 * i]), batch))
            y = norm(ctx, x, gains[2 * i + 1])
            gate = ggml.ggml_silu(ctx, ggml.ggml_mul_mat(ctx, layer["gate"], y))
            y = ggml.ggml_mul(ctx, gate, ggml.ggml_mul_mat(ctx, layer["up"], y))
            x = ggml.ggml_add(ctx, x, ggml.ggml_mul_mat(ctx, layer["down"], y))
        return ggml.ggml_mul_mat(ctx, head, norm(ctx, x, gains[-1]))

    return forward


def continued(session, start, steps):
    """The wave that the model draws after the tokens `start`."""
    tokens = list(start)
    for _ in range(steps):
        logits = session.predict(one_hot(np.array([tokens[-LENGTH:]]))).reshape(LENGTH, LEVELS)
        tokens.append(int(logits[-1].argmax()))
    return np.array(tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as the CPU gives")
    parser.add_argument("--plot", default="baby_llama.png")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    epochs = 4 if args.quick else args.epochs
    rng = np.random.default_rng(args.seed)
    with Session(args.threads) as s:
        rates = adamw(3e-3, 0.01, epochs * WAVES // BATCH)
        s.start(llama(s, rng), LEVELS * LENGTH, BATCH, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, rates)
        losses, accuracies = [], []
        for _ in (bar := trange(epochs, unit="epoch")):
            tokens = levels(rng.uniform(0, 2 * np.pi, WAVES), LENGTH + 1, rng.uniform(12, 20, WAVES))
            loss, accuracy = s.epoch(one_hot(tokens[:, :-1]), one_hot(tokens[:, 1:]))
            losses.append(loss)
            accuracies.append(accuracy)
            bar.set_postfix(loss=f"{loss:.4f}", accuracy=f"{accuracy:.1%}")
        wave = levels([1.0], 2 * LENGTH, [16.0])[0]
        drawn = continued(s, wave[:LENGTH], LENGTH)
    error = np.sqrt(np.mean((drawn - wave)[LENGTH:] ** 2)) / (LEVELS - 1) * 2
    print(f"loss {losses[-1]:.4f}, next level right {accuracies[-1]:.2%}; drawn wave is off by {error:.3f} (root mean square)")
    picture(args.plot, "Baby LLaMA", loss=losses, accuracy=accuracies)


if __name__ == "__main__":
    main()
