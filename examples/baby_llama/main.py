"""Trains a small LLaMA from scratch to continue sine waves, then lets it continue one by itself."""

import argparse
import math

import numpy as np

import ggml
from ggml.training import Session, adamw, check_packages, check_picture, picture
from ggml.utils import from_numpy

LEVELS = 32  # vocabulary: the values of a wave
LENGTH = 24  # tokens of a sequence
WIDTH, HEADS, LAYERS, HIDDEN = 64, 4, 2, 128
SIZE = WIDTH // HEADS  # elements of a head
BATCH, WAVES = 16, 512  # sequences of a training step, and of an epoch


def levels(phase, steps, period):
    """Sine waves as tokens: the level, 0 to LEVELS - 1, that is nearest to each value. One row for each phase."""
    wave = np.sin(np.asarray(phase)[:, None] + 2 * np.pi * np.arange(steps) / np.asarray(period)[:, None])
    return np.rint((wave + 1) / 2 * (LEVELS - 1)).astype(int)


def one_hot(tokens):
    """Tokens [n, LENGTH] as one-hot rows [n, LENGTH * LEVELS]."""
    return np.eye(LEVELS, dtype=np.float32)[tokens].reshape(len(tokens), -1)


def llama(session, rng):
    """Creates the parameters. Returns the function that builds the network: layers of attention and SwiGLU.

    Shapes are in ggml order, innermost dimension first, with T = LENGTH, B the number of sequences and N = T B tokens.
    """

    def matrix(name, n_out, n_in):
        return session.parameter(name, rng.normal(0, n_in**-0.5, (n_out, n_in)))

    shapes = dict.fromkeys("qkvo", (WIDTH, WIDTH))
    shapes |= {"gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}
    embedding, head = matrix("embedding", WIDTH, LEVELS), matrix("head", LEVELS, WIDTH)
    layers = [{k: matrix(f"{k} {i}", *shape) for k, shape in shapes.items()} for i in range(LAYERS)]
    gains = [session.parameter(f"gain {i}", np.ones(WIDTH)) for i in range(2 * LAYERS + 1)]
    positions = from_numpy(np.arange(LENGTH, dtype=np.int32), session.weights)

    def norm(ctx, x, gain):
        # x / sqrt(mean(x^2) + eps) * gain, by rows of x [WIDTH, N]
        return ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, x, 1e-5), gain)

    def attention(ctx, layer, x, batch):
        def heads(name):
            # W x [WIDTH, N] -> [SIZE, HEADS, T, B]
            return ggml.ggml_reshape_4d(ctx, ggml.ggml_mul_mat(ctx, layer[name], x), SIZE, HEADS, LENGTH, batch)

        # q, k = rope(W x): [SIZE, HEADS, T, B] -> [SIZE, T, HEADS, B]
        q, k = (ggml.ggml_rope(ctx, heads(name), positions, SIZE, 0) for name in "qk")
        q, k = (ggml.ggml_permute(ctx, t, 0, 2, 1, 3) for t in (q, k))
        # weights = soft_max(k q / sqrt(SIZE)) over the keys up to the query: [T keys, T queries, HEADS, B]
        scores = ggml.ggml_scale(ctx, ggml.ggml_mul_mat(ctx, k, q), 1 / math.sqrt(SIZE))
        weights = ggml.ggml_soft_max(ctx, ggml.ggml_diag_mask_inf(ctx, scores, 0))
        # y = v weights: [SIZE, T, HEADS, B] from v [T, SIZE, HEADS, B]
        v = ggml.ggml_cont(ctx, ggml.ggml_permute(ctx, heads("v"), 1, 2, 0, 3))
        y = ggml.ggml_mul_mat(ctx, v, weights)
        # o y, with the heads of a token side by side: [SIZE, T, HEADS, B] -> [WIDTH, N]
        y = ggml.ggml_cont(ctx, ggml.ggml_permute(ctx, y, 0, 2, 1, 3))
        return ggml.ggml_mul_mat(ctx, layer["o"], ggml.ggml_reshape_2d(ctx, y, WIDTH, LENGTH * batch))

    def swiglu(ctx, layer, x):
        # down (silu(gate x) * up x): [WIDTH, N] through [HIDDEN, N]
        gate = ggml.ggml_silu(ctx, ggml.ggml_mul_mat(ctx, layer["gate"], x))
        hidden = ggml.ggml_mul(ctx, gate, ggml.ggml_mul_mat(ctx, layer["up"], x))
        return ggml.ggml_mul_mat(ctx, layer["down"], hidden)

    def forward(ctx, inputs):
        batch = inputs.contents.ne[1]
        # x = embedding of the one-hot tokens: [LEVELS * T, B] -> [LEVELS, N] -> [WIDTH, N]
        x = ggml.ggml_mul_mat(ctx, embedding, ggml.ggml_reshape_2d(ctx, inputs, LEVELS, LENGTH * batch))
        for i, layer in enumerate(layers):
            # x = x + attention(norm(x)), then x = x + swiglu(norm(x))
            x = ggml.ggml_add(ctx, x, attention(ctx, layer, norm(ctx, x, gains[2 * i]), batch))
            x = ggml.ggml_add(ctx, x, swiglu(ctx, layer, norm(ctx, x, gains[2 * i + 1])))
        # logits = head norm(x): [LEVELS, N]
        return ggml.ggml_mul_mat(ctx, head, norm(ctx, x, gains[-1]))

    return forward


def continued(session, start, steps):
    """The tokens `start` and the `steps` tokens with which the model continues them."""
    tokens = list(start)
    for _ in range(steps):
        logits = session.predict(one_hot(np.array([tokens[-LENGTH:]]))).reshape(LENGTH, LEVELS)
        tokens.append(int(logits[-1].argmax()))
    return np.array(tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="0: the default number of the CPU backend")
    parser.add_argument("--plot", default="baby_llama.png", help="file for loss, accuracy and the wave")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    check_packages("tqdm")  # now rather than during the training
    check_picture(args.plot)
    from tqdm import trange

    epochs = 4 if args.quick else args.epochs
    rng = np.random.default_rng(args.seed)
    with Session(args.threads) as s:
        # loss = mean of -log p(next level) over all tokens, minimised by AdamW
        rates = adamw(3e-3, 0.01, epochs * WAVES // BATCH)
        s.start(llama(s, rng), LEVELS * LENGTH, BATCH, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, rates)
        losses, accuracies = [], []
        for _ in (bar := trange(epochs, unit="epoch")):
            # inputs are tokens 0 to T - 1, labels tokens 1 to T, of waves with random phases and periods
            tokens = levels(rng.uniform(0, 2 * np.pi, WAVES), LENGTH + 1, rng.uniform(12, 20, WAVES))
            loss, accuracy = s.epoch(one_hot(tokens[:, :-1]), one_hot(tokens[:, 1:]))
            losses.append(loss)
            accuracies.append(accuracy)
            bar.set_postfix(loss=f"{loss:.4f}", accuracy=f"{accuracy:.1%}")
        wave = levels([1.0], 2 * LENGTH, [16.0])[0]
        drawn = continued(s, wave[:LENGTH], LENGTH)
    error = np.sqrt(np.mean((drawn - wave)[LENGTH:] ** 2)) / (LEVELS - 1) * 2  # in units of the wave's amplitude
    print(f"loss {losses[-1]:.4f}, next level right {accuracies[-1]:.2%}; "
          f"root mean square error of the continued wave {error:.3f}")  # fmt: skip

    def draw_wave(axes):
        axes.plot(wave, color="lightgray", linewidth=5, label="wave")
        axes.plot(range(LENGTH), drawn[:LENGTH], label="given")
        axes.plot(range(LENGTH, 2 * LENGTH), drawn[LENGTH:], ".-", label="continued by the model")
        axes.set(title="wave", xlabel="step", ylabel="level", ylim=(-2, 1.5 * LEVELS))  # with room for the legend
        axes.legend(loc="upper right")

    picture(args.plot, "Baby LLaMA", draw_wave, loss=losses, accuracy=accuracies)


if __name__ == "__main__":
    main()
