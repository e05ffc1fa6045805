"""Trains a small Gemma to write sequences backwards: `python examples/gemma/train.py`, a minute on two cores.

Writes gemma.png (--plot), the bits for each token and the share of sequences that are right (with matplotlib; without it, only prints)."""

import argparse
import sys

import numpy as np
from model import Config, bits, logits, parameters

import ggml
from ggml.utils import to_numpy

DIGITS, LENGTH = 10, 5
SEPARATOR = DIGITS


def samples(rng, batch):
    """Digits, a separator, the digits backwards: tokens [batch, 2 * LENGTH] and what follows each."""
    digits = rng.integers(0, DIGITS, (batch, LENGTH))
    text = np.concatenate([digits, np.full((batch, 1), SEPARATOR), digits[:, ::-1]], 1)
    return text[:, :-1], text[:, 1:]


class Trainer:
    """One graph: forward, backward and an AdamW step for each parameter."""

    def __init__(self, config, batch, threads, rate=3e-3):
        self.config, self.batch, self.threads, self.rate, self.steps = config, batch, threads, rate, 0
        self.ctx = ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False))
        n = 2 * LENGTH
        self.weights = parameters(ctx, config)
        self.tokens = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, n * batch)
        self.labels = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, config.vocab, n * batch)
        self.settings = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 7)
        positions = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, n)
        to_numpy(positions)[:] = np.arange(n)
        self.out, _ = logits(ctx, self.weights, self.tokens, positions, config, batch)
        self.loss = bits(ctx, self.out, self.labels, LENGTH * batch)
        ggml.ggml_set_loss(self.loss)
        self.graph = ggml.ggml_new_graph_custom(ctx, 4096, True)
        ggml.ggml_build_forward_expand(self.graph, self.loss)
        self.forward = ggml.ggml_graph_dup(ctx, self.graph, False)
        ggml.ggml_build_backward_expand(ctx, self.graph, None)
        for w in self.weights.values():
            moments = [ggml.ggml_set_zero(ggml.ggml_dup_tensor(ctx, w)) for _ in range(2)]
            gradient = ggml.ggml_graph_get_grad(self.graph, w)
            ggml.ggml_build_forward_expand(self.graph, ggml.ggml_opt_step_adamw(ctx, w, gradient, *moments, self.settings))
        ggml.ggml_graph_reset(self.graph)

    def load(self, tokens, following):
        to_numpy(self.tokens)[:] = tokens.ravel()
        hot = np.eye(self.config.vocab, dtype=np.float32)[following]
        hot[:, :LENGTH] = 0  # the digits themselves can't be foretold
        to_numpy(self.labels)[...] = hot.reshape(-1, self.config.vocab)

    def step(self, tokens, following):
        """One step of training; the loss before it."""
        self.load(tokens, following)
        self.steps += 1
        beta1, beta2 = 0.9, 0.99
        rate = self.rate * min(1, self.steps / 50)
        to_numpy(self.settings)[:] = rate, beta1, beta2, 1e-8, 0.01, 1 / (1 - beta1**self.steps), 1 / (1 - beta2**self.steps)
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, self.threads)
        return float(to_numpy(self.loss)[0])

    def right(self, tokens, following):
        """The share of sequences that are written backwards without an error."""
        self.load(tokens, following)
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.forward, self.threads)
        best = to_numpy(self.out).argmax(-1).reshape(tokens.shape)
        return float((best[:, LENGTH:] == following[:, LENGTH:]).all(1).mean())

    def close(self):
        ggml.ggml_free(self.ctx)


def bar(step, steps, loss, right):
    width = 30
    done = "#" * (width * step // steps)
    end = "\n" if step == steps or right == 1 else ""
    print(f"\r[{done:<{width}}] {step:5d}  {loss:6.3f} bits a token  {right:6.1%} right", end=end, flush=True)


def train(steps=2000, batch=64, threads=2, seed=1, show=bar):
    """Trains until every sequence of a fresh batch is right; returns (step, loss, share right) from time to time."""
    rng, history = np.random.default_rng(seed), []
    trainer = Trainer(Config(vocab=DIGITS + 1), batch, threads)
    try:
        for step in range(1, steps + 1):
            loss = trainer.step(*samples(rng, batch))
            if step % 25 == 0 or step == 1:
                history.append((step, loss, trainer.right(*samples(rng, batch))))
                show(step, steps, *history[-1][1:])
                if history[-1][2] == 1:
                    break
    finally:
        trainer.close()
    return history


def plot(history, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    step, loss, right = zip(*history, strict=True)
    figure, left = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    left.plot(step, loss, color="tab:blue")
    left.set_xlabel("step")
    left.set_ylabel("bits a token", color="tab:blue")
    left.set_ylim(0)
    other = left.twinx()
    other.plot(step, right, color="tab:orange")
    other.set_ylabel("sequences right", color="tab:orange")
    other.set_ylim(0, 1.03)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plot", default="gemma.png")
    args = parser.parse_args()
    history = train(args.steps, args.batch, args.threads)
    try:
        plot(history, args.plot)
    except ImportError:
        print("no plot: matplotlib is not installed")
    sys.exit(0 if history[-1][2] == 1 else "not converged")
