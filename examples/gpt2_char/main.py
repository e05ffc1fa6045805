"""Trains a small GPT-2 on the characters of Alice's Adventures in Wonderland, then generates text with it."""

import argparse
from pathlib import Path

import numpy as np
from model import gpt2

import ggml
from ggml.training import Session, adamw, check_packages, check_picture, picture

LENGTH, WIDTH, HEADS, LAYERS = 128, 128, 4, 4
BATCH, WINDOWS = 16, 512  # windows of the text in a training step, and in an epoch
BOOK = Path(__file__).with_name("alice.txt")


def windows(tokens, starts):
    """Windows [n, LENGTH] of the text that begin at `starts`, and for each token the one that follows it."""
    rows = tokens[np.asarray(starts)[:, None] + np.arange(LENGTH + 1)]
    return rows[:, :-1], rows[:, 1:]


def held_out_loss(session, tokens):
    """The mean of -log p(next character) over text that the network was not trained on, in nats."""
    x, y = windows(tokens, np.arange(0, len(tokens) - LENGTH, LENGTH))
    logits = session.predict(x).reshape(*y.shape, -1).astype(float)  # [n, LENGTH, vocab]
    # log p = log(soft_max(logits)) = logits - max - log(sum(exp(logits - max)))
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -np.take_along_axis(log_p, y[..., None], -1).mean()


def generated(session, rng, start, steps, temperature):
    """Continues the tokens `start` BATCH times. Each token is drawn from soft_max(logits / temperature)."""
    from tqdm import trange

    texts = np.tile(start, (BATCH, 1))
    for _ in trange(steps, unit="character", desc="generating"):
        seen = texts[:, -LENGTH:]
        padded = np.pad(seen, ((0, 0), (0, LENGTH - seen.shape[1])))  # the causal mask hides the padding
        logits = session.predict(padded).reshape(BATCH, LENGTH, -1)[:, seen.shape[1] - 1] / temperature
        # Gumbel-max: argmax(logits + g) with g from the Gumbel distribution is a draw from soft_max(logits)
        drawn = (logits + rng.gumbel(size=logits.shape)).argmax(1)
        texts = np.c_[texts, drawn]
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=50, help=f"{WINDOWS} random windows of {LENGTH} characters each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="0: the default number of the CPU backend")
    parser.add_argument("--prompt", default="Alice ", help="text to continue")
    parser.add_argument("--characters", type=int, default=400, help="number of characters to generate")
    parser.add_argument("--temperature", type=float, default=0.7, help="less than 1 prefers likely characters")
    parser.add_argument("--plot", default="gpt2_char.png", help="file for the curves of the losses")
    parser.add_argument("--quick", action="store_true", help="a short run for CI")
    args = parser.parse_args()
    check_packages("tqdm")  # now rather than during the training
    check_picture(args.plot)
    from tqdm import trange

    epochs, characters = (3, 20) if args.quick else (args.epochs, args.characters)
    text, rng = BOOK.read_text(), np.random.default_rng(args.seed)
    alphabet = sorted(set(text))
    if unknown := set(args.prompt) - set(alphabet):
        parser.error(f"--prompt has characters that are not in the book: {''.join(sorted(unknown))!r}")
    if not args.prompt or args.temperature <= 0:
        parser.error("--prompt must not be empty, and --temperature must be more than 0")
    tokens = np.array([alphabet.index(c) for c in text], np.int32)
    train, held_out = np.split(tokens, [len(tokens) * 9 // 10])
    with Session(args.threads) as s:
        forward = gpt2(s, rng, len(alphabet), LENGTH, WIDTH, HEADS, LAYERS)
        # loss = mean of -log p(next character) over all tokens, minimised by AdamW
        rates = adamw(2e-3, 0.1, epochs * WINDOWS // BATCH)
        s.start(forward, LENGTH, BATCH, ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, rates, kind=ggml.GGML_TYPE_I32)
        losses, unseen = [], []
        for _ in (bar := trange(epochs, unit="epoch")):
            x, y = windows(train, rng.integers(len(train) - LENGTH, size=WINDOWS))
            losses.append(s.epoch(x, np.eye(len(alphabet), dtype=np.float32)[y].reshape(len(y), -1))[0])
            unseen.append(held_out_loss(s, held_out))
            bar.set_postfix(loss=f"{losses[-1]:.3f}", held_out=f"{unseen[-1]:.3f}")
        start = [alphabet.index(c) for c in args.prompt]
        texts = generated(s, rng, start, characters, args.temperature)
    print(f"loss {losses[-1]:.3f}, held out {unseen[-1]:.3f} nats per character; generated text:\n")
    print("".join(alphabet[i] for i in texts[0]))
    picture(args.plot, "GPT-2 of characters", nats_per_character={"training": losses, "held out": unseen})


if __name__ == "__main__":
    main()
