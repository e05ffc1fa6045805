"""Trains a small GPT-2 on the characters of Alice's Adventures in Wonderland, then lets it write."""

import argparse
from pathlib import Path

import numpy as np
from model import gpt2
from tqdm import trange

import ggml
from ggml.training import Session, adamw, picture

LENGTH, WIDTH, HEADS, LAYERS, BATCH, WINDOWS = 128, 128, 4, 4, 16, 512
BOOK = Path(__file__).with_name("alice.txt")


def windows(tokens, starts):
    """Pieces of the text, and the character that follows each of theirs."""
    pieces = tokens[np.asarray(starts)[:, None] + np.arange(LENGTH + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def held_out_loss(session, tokens):
    """Mean of -log p of a character that the network has not seen, in nats."""
    x, y = windows(tokens, np.arange(0, len(tokens) - LENGTH, LENGTH))
    logits = session.predict(x).reshape(*y.shape, -1).astype(float)
    top = logits.max(-1, keepdims=True)
    log_p = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    return -np.take_along_axis(log_p, y[..., None], -1).mean()


def written(session, rng, start, steps, temperature):
    """BATCH continuations of the tokens `start`, each character drawn from what the network expects."""
    texts = np.tile(start, (BATCH, 1))
    for _ in trange(steps, unit="character", desc="writing"):
        seen = texts[:, -LENGTH:]
        padded = np.pad(seen, ((0, 0), (0, LENGTH - seen.shape[1])))  # what comes after can't be seen
        logits = session.predict(padded).reshape(BATCH, LENGTH, -1)[:, seen.shape[1] - 1] / temperature
        drawn = (logits + rng.gumbel(size=logits.shape)).argmax(1)
        texts = np.c_[texts, drawn]
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=50, help=f"of {WINDOWS} random windows of {LENGTH} characters")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as the CPU gives")
    parser.add_argument("--prompt", default="Alice ", help="what it goes on from")
    parser.add_argument("--characters", type=int, default=400, help="how many it writes")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--plot", default="gpt2_char.png")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    epochs, characters = (3, 20) if args.quick else (args.epochs, args.characters)
    text, rng = BOOK.read_text(), np.random.default_rng(args.seed)
    alphabet = sorted(set(text))
    if unknown := set(args.prompt) - set(alphabet):
        parser.error(f"--prompt has characters that the book has not: {''.join(sorted(unknown))!r}")
    if not args.prompt or args.temperature <= 0:
        parser.error("--prompt needs a character or more, --temperature more than 0")
    tokens = np.array([alphabet.index(c) for c in text], np.int32)
    train, held_out = np.split(tokens, [len(tokens) * 9 // 10])
    with Session(args.threads) as s:
        forward = gpt2(s, rng, len(alphabet), LENGTH, WIDTH, HEADS, LAYERS)
        rates = adamw(2e-3, 0.1, epochs * WINDOWS // BATCH)
        s.start(forward, LENGTH, BATCH, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, rates, kind=ggml.GGML_TYPE_I32)
        losses, unseen = [], []
        for _ in (bar := trange(epochs, unit="epoch")):
            x, y = windows(train, rng.integers(len(train) - LENGTH, size=WINDOWS))
            losses.append(s.epoch(x, np.eye(len(alphabet), dtype=np.float32)[y].reshape(len(y), -1))[0])
            unseen.append(held_out_loss(s, held_out))
            bar.set_postfix(loss=f"{losses[-1]:.3f}", held_out=f"{unseen[-1]:.3f}")
        start = [alphabet.index(c) for c in args.prompt]
        texts = written(s, rng, start, characters, args.temperature)
    print(f"loss {losses[-1]:.3f}, held out {unseen[-1]:.3f} nats a character; it writes:\n")
    print("".join(alphabet[i] for i in texts[0]))
    picture(args.plot, "GPT-2 of characters", loss=losses, held_out=unseen)


if __name__ == "__main__":
    main()
