"""Measures how fast a language model reads a prompt and writes tokens."""

import json
import time

import numpy as np

from .arguments import between
from .models import add_model_arguments, add_profile, open_model, profiled, progress
from .paths import check_model_outputs

CHUNK = 512  # tokens of a prompt between two reports of progress: what a model computes together


def add_arguments(parser):
    add_model_arguments(parser)
    rows = [
        ("--prompt", between(1, 1 << 20), 256, "tokens to read"),
        ("--gen", between(1, 1 << 20), 48, "tokens to write"),
        ("--repeat", between(1, 1000), 3, "runs; the best one counts"),
    ]
    for name, kind, default, text in rows:
        parser.add_argument(name, type=kind, default=default, metavar="N", help=f"{text} (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one line of JSON, last")
    add_profile(parser)


def peak_memory():
    """The largest resident memory of this process in MB, None where the system does not tell."""
    try:
        import resource
        import sys
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e6 / 1024), 1)


def measure(model, ids, count, advance):
    """Reads a prompt, then writes the most likely tokens.

    Args:
        model: Model.
        ids: list of int; the prompt.
        count: int; tokens to write.
        advance: called with the number of tokens that are done.

    Returns:
        (seconds of reading, seconds of writing, the tokens).
    """
    model.reset()
    start = time.perf_counter()
    for first in range(0, len(ids), CHUNK):
        logits = model.feed(ids[first : first + CHUNK])
        advance(min(first + CHUNK, len(ids)))
    read, tokens = time.perf_counter(), []
    for _ in range(count):
        tokens.append(int(logits.argmax()))
        logits = model.feed(tokens[-1:])
        advance(len(ids) + len(tokens))
    return read - start, time.perf_counter() - read, tokens


def run(options):
    check_model_outputs(options, options.profile, inputs=options.lora)
    start = time.perf_counter()
    need = options.prompt + options.gen
    with open_model(options, n_ctx=options.ctx or need) as model:
        load = time.perf_counter() - start
        if model.n_ctx < need:
            raise ValueError(f"--ctx is {model.n_ctx}: need {need} for --prompt and --gen")
        high = min(32000, model.config.n_vocab)
        ids = np.random.default_rng(0).integers(min(3, high - 1), high, options.prompt).tolist()
        with profiled(options.profile), progress(options.repeat * need, "token", "bench") as advance:
            runs = [
                measure(model, ids, options.gen, lambda done, before=i * need: advance(before + done))
                for i in range(options.repeat)
            ]
    result = {
        "prefill_tok_s": round(options.prompt / min(r[0] for r in runs), 2),
        "decode_tok_s": round(options.gen / min(r[1] for r in runs), 2),
        "load_s": round(load, 4),
        "rss_mb": peak_memory(),
        "tokens": runs[0][2],
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"load     {result['load_s']:9.3f} s")
    print(f"prefill  {result['prefill_tok_s']:9.1f} tokens/s  ({options.prompt} tokens)")
    print(f"decode   {result['decode_tok_s']:9.1f} tokens/s  ({options.gen} tokens)")
    if result["rss_mb"] is not None:
        print(f"memory   {result['rss_mb']:9.1f} MB at most")
