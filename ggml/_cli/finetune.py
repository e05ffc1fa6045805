"""Trains a low-rank adapter (LoRA) of a language model: on a text, conversations, labelled texts or pairs of texts."""

import os
import signal
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from .arguments import between, number
from .models import add_model_and_threads, add_profile, profiled
from .output import error_text
from .paths import check_model_outputs, read_text

LARGEST = 1 << 30


def add_arguments(parser):
    add_model_and_threads(parser)
    parser.add_argument("text", metavar="TEXT", help="text file, or JSON lines (*.jsonl): conversations; for models"
                        " with classes {\"text\": ..., \"label\": ...}, for those of embeddings {\"query\": ...,"
                        " \"positive\": ..., \"negative\": ...}; - for standard input")  # fmt: skip
    parser.add_argument("--lora", required=True, metavar="OUT", help="adapter to write (GGUF)")
    parser.add_argument("--chat", action="store_true", default=None, help="TEXT is JSON lines whatever its name is; of"
                        " conversations, in each line {\"messages\": [{\"role\": ..., \"content\": ...}, ...]}, the"
                        " answers are learned")  # fmt: skip
    parser.add_argument("--mmproj", metavar="FILE", help="GGUF file with the model's encoder of pictures, for"
                        " conversations with pictures (data URLs)")  # fmt: skip
    parser.add_argument("--validation", metavar="FILE", help="file like TEXT that measures the loss (default: the last"
                        " tenth of TEXT, which is not trained on)")  # fmt: skip
    rows = [
        ("--rank", between(1, 1024), 8, "rank of the matrices"),
        ("--steps", between(1, LARGEST), 100, "steps"),
        ("--accumulate", between(1, 1 << 20), 1, "computations whose gradients make a step"),
        ("--rate", number(1e-12, 10), 1e-3, "learning rate at the beginning"),
        ("--decay", number(0, 1), 0.0, "weight decay"),
        ("--clip", number(0, 1e9), 1.0, "largest norm of the gradients; 0: any"),
        ("--seed", between(0, 2**64 - 1), 0, "seed of random numbers"),
    ]
    for name, kind, default, text in rows:
        parser.add_argument(name, type=kind, default=default, metavar="N", help=f"{text} (%(default)s)")
    parser.add_argument("--tokens", type=between(2, 1 << 24), metavar="N", help="tokens that are computed together"
                        " (default: up to 512)")  # fmt: skip
    parser.add_argument("--batch", type=between(1, 1 << 16), metavar="N", help="for models with classes or of"
                        " embeddings: lines of TEXT that are computed together (default: 16)")  # fmt: skip
    parser.add_argument("--temperature", type=number(1e-4, 1e4), metavar="X", help="for models of embeddings: number by"
                        " which cosines are divided (default: 0.05)")  # fmt: skip
    parser.add_argument("--alpha", type=number(1e-6, 1e6), metavar="X", help="scale of the matrices (default: twice the"
                        " rank)")  # fmt: skip
    parser.add_argument("--every", type=between(1, LARGEST), metavar="N", help="steps between two measurements of the"
                        " loss, after which the files are written (default: a tenth of the steps, and 10 at"
                        " least)")  # fmt: skip
    parser.add_argument("--targets", action="append", metavar="PATTERN", help="names of the adapted matrices, such as"
                        " 'blk.*.attn_q'; can be repeated (default: all in layers)")  # fmt: skip
    parser.add_argument("--checkpoint", action="store_true", default=None, help="compute activations again rather than"
                        " keep them: less memory, more time (default: from 1,024 tokens on)")  # fmt: skip
    parser.add_argument("--state", metavar="FILE", help="file for the state of the training, from which --resume goes"
                        " on")  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="go on from the file of --state")
    parser.add_argument("--plot", metavar="FILE", help="picture of the losses to write, such as loss.png")
    add_profile(parser)


def read_data(path, chat):
    """A text, or what a file of JSON lines has.

    Args:
        path: the file; "-" for standard input.
        chat: True if it is of JSON lines whatever its name is.
    """
    data = read_text(path)
    if chat or Path(path).suffix in (".jsonl", ".ndjson"):
        from ggml.models import read_examples

        return read_examples(data.splitlines(), path)
    return data


@contextmanager
def stop_on_interrupt():
    """Yields a callback of a training that ends it after the step in which Ctrl-C is pressed; a second one raises."""
    stopped: list[int] = []

    def interrupt(number, frame):
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)
        # print() would raise if the signal came while a step is reported
        os.write(sys.stderr.fileno(), b"\nfinetune: stops after this step; Ctrl-C again stops immediately\n")

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda report: bool(stopped)
    finally:
        signal.signal(signal.SIGINT, before)


def save_elsewhere(error, lora):
    """Writes an adapter somewhere else than to `lora`, where the end of a training failed to.

    On a terminal the user is asked; without one, or without an answer, the folder for temporary files is tried.

    Args:
        error: ggml.models.NotSaved.
        lora: path of the adapter as it was given.
    Returns:
        The path.
    Raises:
        OSError: it could not be written there either.
    """
    print(f"ggml finetune: {error_text(error, 'finetune')}", file=sys.stderr)
    asked = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    while asked:
        print("another file for the adapter (Enter: try again): ", end="", file=sys.stderr, flush=True)
        try:
            path = input().strip() or lora
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            break
        try:
            error.save(path)
            return path
        except (OSError, ValueError) as again:
            print(f"ggml finetune: {error_text(again, 'finetune')}", file=sys.stderr)
    file, path = tempfile.mkstemp(".gguf", f"{Path(lora).stem}-")
    os.close(file)
    error.save(path)
    return path


def run(options):
    from ggml.models import NotSaved, load

    outputs = (options.lora, options.state, options.plot, options.profile)
    check_model_outputs(options, *outputs, inputs=[options.text, options.validation])
    data = read_data(options.text, options.chat)
    validation = 0.1 if options.validation is None else read_data(options.validation, options.chat)
    names = ("rank", "alpha", "steps", "rate", "decay", "clip", "accumulate", "tokens", "seed", "checkpoint", "state",
             "resume", "plot", "batch", "temperature")  # fmt: skip
    settings = {name: getattr(options, name) for name in names}
    if options.targets:
        settings["targets"] = options.targets
    lora, moved = options.lora, False
    try:
        with (
            load(options.model, n_ctx=options.tokens, threads=options.threads, mmproj=options.mmproj) as model,
            profiled(options.profile),
            stop_on_interrupt() as stop,
        ):
            result = model.finetune(data, lora, validation=validation, validate_every=options.every, progress=True,
                                    callbacks=stop, **settings)  # fmt: skip
    except NotSaved as error:
        result = error.result
        lora, moved = save_elsewhere(error, lora), True
    line = f"{lora}: {result.parameters:,} trained numbers, {result.steps} steps, {result.tokens:,} tokens"
    if len(result.validation) > 1:
        (_, first), (_, last) = result.validation[0], result.validation[-1]
        line += f", loss on unseen text {first:.4f} before, {last:.4f} after"
    print(line)
    if result.steps < options.steps:
        print(f"stopped before step {options.steps}" + ("; --resume goes on" if options.state else ""), file=sys.stderr)
        return 130
    return int(moved)
