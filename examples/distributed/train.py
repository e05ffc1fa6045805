"""Trains the networks of examples/digits and examples/gpt2_char on several ranks, by mpiexec -n 4 python train.py.

With the same number of batches a step, the losses do not depend on the number of ranks: 1 or as many as batches.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import ggml
from ggml.distributed import mpi
from ggml.training import Session, adamw, check_packages

EXAMPLES = Path(__file__).parent.parent


def digits(session, epochs):
    """The dense network of examples/digits: 64 pixels, 10 classes. Returns what an epoch trains on."""
    sys.path.insert(0, str(EXAMPLES / "digits"))
    from main import mlp

    from ggml.demo import load, shifted

    rng, batch = np.random.default_rng(0), 16
    data, _ = load(0)
    labels = np.eye(10, dtype=np.float32)[data.labels]
    rates = adamw(4e-3, 0.05, epochs * (len(data) // (batch * session.accumulate)))
    session.start(mlp(session, rng), 64, batch, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, rates)
    return lambda: (shifted(data.images, rng), labels)


def gpt2_char(session, epochs):
    """The GPT-2 of characters of examples/gpt2_char, with half its width."""
    sys.path.insert(0, str(EXAMPLES / "gpt2_char"))
    from model import gpt2

    rng, batch, length, count = np.random.default_rng(0), 4, 64, 128
    text = (EXAMPLES / "gpt2_char" / "alice.txt").read_text()
    alphabet = sorted(set(text))
    tokens = np.array([alphabet.index(c) for c in text], np.int32)
    forward = gpt2(session, rng, len(alphabet), length, 64, 4, 2)
    rates = adamw(2e-3, 0.1, epochs * count // (batch * session.accumulate))
    session.start(forward, length, batch, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, rates, kind=ggml.GGML_TYPE_I32)

    def windows():
        starts = rng.integers(len(tokens) - length, size=count)
        rows = tokens[starts[:, None] + np.arange(length + 1)]
        following = np.eye(len(alphabet), dtype=np.float32)[rows[:, 1:]]
        return rows[:, :-1], following.reshape(count, -1)

    return windows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("digits", "gpt2_char"), default="digits")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batches", type=int, default=4, help="batches of a step, on all ranks together")
    parser.add_argument("--threads", type=int, default=0, help="of each rank; 0: its share of the CPUs")
    parser.add_argument("--state", help="checkpoint to write after each epoch, and to resume from if it exists")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    check_packages("sklearn", "tqdm")
    from tqdm import tqdm

    epochs = 2 if args.quick else args.epochs
    comm = mpi()
    losses = []
    with Session(args.threads, lambda step: losses.append(step.loss), comm, args.batches) as session:
        data = {"digits": digits, "gpt2_char": gpt2_char}[args.model](session, epochs)
        if args.state and Path(args.state).exists():
            session.load(args.state)
        for _ in tqdm(range(session.epochs, epochs), unit="epoch", disable=comm.rank > 0):
            loss, accuracy = session.epoch(*data())
            if args.state:
                session.save(args.state)
    if comm.rank == 0 and not losses:
        print(f"{args.state} has all {epochs} epochs: nothing is left to do")
    elif comm.rank == 0:
        print(f"{comm.size} ranks, {len(losses)} steps: first loss {losses[0]!r}, last loss {losses[-1]!r}")
        print(f"last epoch: mean loss {loss:.4f}, accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
