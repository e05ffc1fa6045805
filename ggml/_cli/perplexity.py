"""Measures how well a language model predicts a text."""

import time

from .models import add_model_arguments, open_model, progress
from .paths import read_text


def add_arguments(parser):
    add_model_arguments(parser)
    parser.add_argument("file", metavar="FILE", help="text file; - for standard input")


def run(options):
    text = read_text(options.file)
    with open_model(options) as model:
        ids = model.tokenize(text)
        start = time.perf_counter()
        with progress(len(ids), "token", "perplexity") as advance:
            value = model.perplexity(ids, progress=lambda done, total: advance(done))
        seconds = time.perf_counter() - start
    window = min(model.n_ctx, len(ids))
    print(f"perplexity {value:.4f}  ({len(ids):,} tokens in windows of {window:,}, {seconds:.1f} s)")
