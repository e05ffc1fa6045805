"""Trains a small network on scikit-learn's handwritten digits: `ggml demo` runs it, and it shows how to train.

One graph contains a whole training step: the network, its loss, the gradients and the optimiser's updates. It is built
once; a step fills the input tensors and computes the graph.
"""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import ggml
from ggml._view.dot import drawn
from ggml.utils import to_numpy

WIDTHS = (64, 256, 128, 10)  # pixels, two hidden layers, classes
BATCH = 64
RATE, BETA1, BETA2, EPS, DECAY = 4e-3, 0.9, 0.999, 1e-8, 0.05
GRAPH_SIZE = 512


@dataclass
class Digits:
    """Images as rows of 64 grey values between 0 and 1, and the digit of each."""

    images: np.ndarray
    labels: np.ndarray

    def __len__(self):
        return len(self.labels)


@dataclass
class Training:
    """What a run measured: loss and two accuracies per epoch, the seconds of its steps, the answers at its end."""

    loss: list = field(default_factory=list)
    accuracy: list = field(default_factory=list)
    held_out: list = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    answers: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))


def load(seed):
    """Loads the digits: four fifths for training, one fifth held out; each class has the same share in both."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    parts = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=seed)
    return Digits(parts[0], parts[2]), Digits(parts[1], parts[3])


def shifted(images, rng):
    """Moves each image by up to half a pixel in both directions (data augmentation)."""
    moved = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    for axis in (1, 2):
        by = rng.uniform(-0.5, 0.5, (len(images), 1, 1)).astype(np.float32)
        neighbour = np.where(by > 0, np.roll(moved, 1, axis), np.roll(moved, -1, axis))
        moved += np.abs(by) * (neighbour - moved)
    return moved[:, 1:9, 1:9].reshape(len(images), 64)


class Network:
    """Dense layers; the context of their weights is separate, because several graphs use them."""

    def __init__(self, rng):
        self.ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))  # 0: the arena grows as needed
        self.layers = []
        for i, (n_in, n_out) in enumerate(zip(WIDTHS, WIDTHS[1:]), 1):
            weight = ggml.ggml_new_tensor_2d(self.ctx, ggml.GGML_TYPE_F32, n_in, n_out)
            bias = ggml.ggml_new_tensor_1d(self.ctx, ggml.GGML_TYPE_F32, n_out)
            to_numpy(weight)[:] = rng.normal(0, np.sqrt(2 / n_in), (n_out, n_in))
            to_numpy(bias)[:] = 0
            for name, tensor in (("weight", weight), ("bias", bias)):
                ggml.ggml_set_name(tensor, f"layer {i} {name}".encode())
                ggml.ggml_set_param(tensor)
            self.layers.append((weight, bias))

    def parameters(self):
        return [tensor for layer in self.layers for tensor in layer]

    def logits(self, ctx, images):
        x = images
        for i, (weight, bias) in enumerate(self.layers):
            x = ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, weight, x), bias)
            if i < len(self.layers) - 1:
                x = ggml.ggml_relu(ctx, x)
        return x


class Trainer:
    """The graph of a training step. `step` computes it on one batch; it returns the loss and the predicted digits."""

    def __init__(self, network, threads):
        self.threads, self.count = threads, 0
        self.ctx = ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        images = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, WIDTHS[0], BATCH)
        wanted = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, WIDTHS[-1], BATCH)
        logits = network.logits(ctx, images)
        loss = ggml.ggml_cross_entropy_loss(ctx, logits, wanted)
        answers = ggml.ggml_argmax(ctx, logits)
        for name, tensor in (("images", images), ("wanted", wanted), ("logits", logits), ("loss", loss)):
            ggml.ggml_set_name(tensor, name.encode())
        ggml.ggml_set_loss(loss)

        self.graph = ggml.ggml_new_graph_custom(ctx, GRAPH_SIZE, True)
        ggml.ggml_build_forward_expand(self.graph, loss)
        ggml.ggml_build_backward_expand(ctx, self.graph, None)
        ggml.ggml_build_forward_expand(self.graph, answers)
        rates = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 7)
        for parameter in network.parameters():
            gradient = ggml.ggml_graph_get_grad(self.graph, parameter)
            m, v = (ggml.ggml_dup_tensor(ctx, parameter) for _ in range(2))
            update = ggml.ggml_opt_step_adamw(ctx, parameter, gradient, m, v, rates)
            ggml.ggml_build_forward_expand(self.graph, update)
        ggml.ggml_graph_reset(self.graph)  # sets the moments to 0 and the gradient of the loss to 1

        tensors = (images, wanted, loss, answers, rates)
        self.images, self.wanted, self.loss, self.answers, self.rates = map(to_numpy, tensors)

    def step(self, images, labels, rate):
        self.count += 1
        self.images[:] = images
        self.wanted[:] = np.eye(WIDTHS[-1])[labels]
        unbias1, unbias2 = 1 / (1 - BETA1**self.count), 1 / (1 - BETA2**self.count)
        self.rates[:] = rate, BETA1, BETA2, EPS, DECAY, unbias1, unbias2
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, self.threads)
        return float(self.loss.item()), self.answers


class Reader:
    """The graph that predicts the digits of a fixed set of images with the current weights."""

    def __init__(self, network, images, threads):
        self.threads = threads
        self.ctx = ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        inputs = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, WIDTHS[0], len(images))
        to_numpy(inputs)[:] = images
        answers = ggml.ggml_argmax(ctx, network.logits(ctx, inputs))
        self.graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(self.graph, answers)
        self.answers = to_numpy(answers)

    def read(self):
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, self.threads)
        return self.answers.copy()


def train(train_set, test_set, trainer, reader, epochs, rng, progress):
    """Trains with a learning rate that falls along a cosine; calls `progress(result)` after each epoch."""
    result, batches = Training(), len(train_set) // BATCH
    for epoch in range(epochs):
        order = rng.permutation(len(train_set))[: batches * BATCH].reshape(batches, BATCH)
        losses, right = [], 0
        for i, rows in enumerate(order):
            rate = RATE * (1 + np.cos(np.pi * (epoch + i / batches) / epochs)) / 2
            images, labels = shifted(train_set.images[rows], rng), train_set.labels[rows]
            start = time.perf_counter()
            loss, answers = trainer.step(images, labels, rate)
            result.seconds += time.perf_counter() - start
            losses.append(loss)
            right += np.count_nonzero(answers == labels)
        result.steps += batches
        result.answers = reader.read()
        result.loss.append(np.mean(losses))
        result.accuracy.append(right / (batches * BATCH))
        result.held_out.append(np.mean(result.answers == test_set.labels))
        progress(result)
    return result


def picture(result, test_set, path):
    """Draws the curves, the confusion matrix and the first misread digits."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(12, 7), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subfigures(2, height_ratios=(3, 1), squeeze=False)[:, 0]
    curves, accuracy, confusion = upper.subplots(1, 3)
    epochs = range(1, len(result.loss) + 1)
    curves.semilogy(epochs, result.loss)
    curves.set(title="Loss", xlabel="epoch")
    for axes in (curves, accuracy):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    accuracy.plot(epochs, result.accuracy, label="training, shifted")
    accuracy.plot(epochs, result.held_out, label="held out")
    accuracy.set(title="Accuracy", xlabel="epoch", ylim=(max(0.0, min(result.held_out) - 0.02), 1.005))
    accuracy.legend(loc="lower right")

    counts = np.zeros((10, 10), int)
    np.add.at(counts, (test_set.labels, result.answers), 1)
    confusion.imshow(counts, cmap="Blues")
    confusion.set(title="Held-out digits", xlabel="read as", ylabel="is", xticks=range(10), yticks=range(10))
    for (row, column), count in np.ndenumerate(counts):
        if count:
            shade = "white" if count > counts.max() / 2 else "black"
            confusion.text(column, row, str(count), ha="center", va="center", fontsize=7, color=shade)

    misread = np.flatnonzero(result.answers != test_set.labels)
    lower.suptitle(f"Misread: {len(misread)} of {len(test_set)}" + (", the first 10" if len(misread) > 10 else ""))
    for i, axes in enumerate(lower.subplots(1, 10)):
        axes.axis("off")
        if i < len(misread):
            axes.imshow(test_set.images[misread[i]].reshape(8, 8), cmap="gray_r")
            axes.set_title(f"{test_set.labels[misread[i]]} as {result.answers[misread[i]]}", fontsize=9)
    figure.savefig(path, dpi=110)


def draw_graph(graph, path):
    """Writes the graph as DOT and as SVG; returns the paths of both files."""
    ggml.ggml_graph_dump_dot(graph, None, os.fsencode(path))
    svg = path.with_suffix(".svg")
    svg.write_text(drawn(path.read_text(encoding="utf-8")), encoding="utf-8")
    return path, svg


def run(seed, epochs, threads, out):
    """Runs the whole demo: trains, prints the measurements, writes a picture and the graph to the folder `out`."""
    from tqdm import tqdm

    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    train_set, test_set = load(seed)
    network = Network(rng)
    trainer, reader = Trainer(network, threads), Reader(network, test_set.images, threads)
    weights = sum(ggml.ggml_nelements(tensor) for tensor in network.parameters())
    print(f"{len(train_set):,} digits to train on, {len(test_set)} held out; {weights:,} weights; threads: {threads}")

    with tqdm(total=epochs, unit="epoch", desc="training") as bar:

        def progress(result):
            bar.set_postfix(loss=f"{result.loss[-1]:.4f}", held_out=f"{result.held_out[-1]:.1%}", refresh=False)
            bar.update()

        result = train(train_set, test_set, trainer, reader, epochs, rng, progress)

    print(f"held-out accuracy {result.held_out[-1]:.2%} ({np.sum(result.answers != test_set.labels)} misread)")
    rate = result.steps * BATCH / result.seconds
    print(f"{result.steps:,} steps of {1e3 * result.seconds / result.steps:.3f} ms, {rate:,.0f} images/s")
    picture(result, test_set, out / "digits.png")
    print("wrote", *[out / "digits.png", *draw_graph(trainer.graph, out / "digits.dot")])
    for ctx in (reader.ctx, trainer.ctx, network.ctx):
        ggml.ggml_free(ctx)
    return result
