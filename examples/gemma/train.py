"""Trains a small Gemma to write sequences of digits backwards.

It takes less than a minute on two cores, and draws the loss in bits per token and the share of
sequences that are right.
"""

import argparse
import sys

import numpy as np
from model import Config, bits, logits, parameters

import ggml
from ggml.training import check_picture
from ggml.utils import to_numpy

DIGITS, LENGTH = 10, 5
SEPARATOR = DIGITS  # its token


def samples(rng, batch):
    """Tokens [batch, 2 LENGTH] of digits, a separator and the digits backwards; and the token that follows each."""
    digits = rng.integers(0, DIGITS, (batch, LENGTH))
    text = np.concatenate([digits, np.full((batch, 1), SEPARATOR), digits[:, ::-1]], 1)
    return text[:, :-1], text[:, 1:]


class Trainer:
    """A training step as one graph: the loss, the gradients, and an AdamW step for each parameter."""

    def __init__(self, config, batch, threads, rate=3e-3):
        self.config, self.batch, self.threads, self.rate, self.steps = config, batch, threads, rate, 0
        self.ctx = ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False))
        n = 2 * LENGTH  # tokens of a sequence
        self.weights = parameters(ctx, config)
        # inputs: the tokens, one-hot labels, the settings of AdamW, and the positions in a sequence
        self.tokens = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, n * batch)
        self.labels = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, config.vocab, n * batch)
        self.settings = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 7)
        positions = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, n)
        to_numpy(positions)[:] = np.arange(n)
        # forward pass: logits [vocab, n * batch] and the loss [1]
        self.out, _ = logits(ctx, self.weights, self.tokens, positions, config, batch)
        self.loss = bits(ctx, self.out, self.labels, LENGTH * batch)
        ggml.ggml_set_loss(self.loss)
        self.graph = ggml.ggml_new_graph_custom(ctx, 4096, True)
        ggml.ggml_build_forward_expand(self.graph, self.loss)
        self.forward = ggml.ggml_graph_dup(ctx, self.graph, False)  # the forward pass alone
        # backward pass: the gradient of the loss with respect to each parameter
        ggml.ggml_build_backward_expand(ctx, self.graph, None)
        for w in self.weights.values():
            # w = AdamW(w, gradient, m, v), in place, with the moments m and v, which start at 0
            moments = [ggml.ggml_set_zero(ggml.ggml_dup_tensor(ctx, w)) for _ in range(2)]
            gradient = ggml.ggml_graph_get_grad(self.graph, w)
            update = ggml.ggml_opt_step_adamw(ctx, w, gradient, *moments, self.settings)
            ggml.ggml_build_forward_expand(self.graph, update)
        ggml.ggml_graph_reset(self.graph)  # the gradient of the loss becomes 1

    def load(self, tokens, following):
        """Writes a batch to the inputs of the graph. The given digits are not scored: they are random."""
        to_numpy(self.tokens)[:] = tokens.ravel()
        hot = np.eye(self.config.vocab, dtype=np.float32)[following]
        hot[:, :LENGTH] = 0
        to_numpy(self.labels)[...] = hot.reshape(-1, self.config.vocab)

    def step(self, tokens, following):
        """Trains on a batch. Returns the loss before the update."""
        self.load(tokens, following)
        self.steps += 1
        beta1, beta2 = 0.9, 0.99
        rate = self.rate * min(1, self.steps / 50)  # linear warm-up
        correction1, correction2 = 1 / (1 - beta1**self.steps), 1 / (1 - beta2**self.steps)
        to_numpy(self.settings)[:] = rate, beta1, beta2, 1e-8, 0.01, correction1, correction2
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
    """Prints a progress bar over the line before."""
    width = 30
    done = "#" * (width * step // steps)
    end = "\n" if step == steps or right == 1 else ""
    print(f"\r[{done:<{width}}] {step:5d}  {loss:6.3f} bits per token  {right:6.1%} right", end=end, flush=True)


def train(steps=2000, batch=64, threads=2, seed=1, show=bar):
    """Trains until all sequences of a new batch are right. Returns (step, loss, share right) every 25 steps."""
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
    """Draws the loss and the share of right sequences over the steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    step, *quantities = zip(*history, strict=True)
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, title, values in zip(figure.subplots(1, 2), ("bits per token", "sequences right"), quantities):
        axes.plot(step, values)
        axes.set(title=title, xlabel="step", ylim=(0, 1.03 * max(values)))
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="largest number of steps")
    parser.add_argument("--batch", type=int, default=64, help="sequences in a step")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plot", default="gemma.png", help="file for the curves")
    args = parser.parse_args()
    check_picture(args.plot)  # now rather than after the training
    history = train(args.steps, args.batch, args.threads)
    plot(history, args.plot)
    sys.exit(0 if history[-1][2] == 1 else "not converged")
