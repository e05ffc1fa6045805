"""Continues a text with a language model."""

import sys
import time

from .models import (
    add_image_arguments,
    add_language_arguments,
    add_model_arguments,
    add_profile,
    add_sampling_arguments,
    language,
    open_model,
    profiled,
    report_speed,
    sampling,
)
from .paths import check_model_outputs, read_text


def add_arguments(parser):
    add_model_arguments(parser)
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("-p", "--prompt", metavar="TEXT", help="the text")
    prompt.add_argument("-f", "--file", metavar="FILE", help="file with the text; - for standard input")
    parser.add_argument("--special", action="store_true", help="names such as <|im_end|> are special tokens")
    parser.add_argument("--overflow", choices=("stop", "shift", "error"), default="stop", help="what to do when the"
                        " context is full: end the text, drop its older half, or fail (%(default)s)")  # fmt: skip
    add_image_arguments(parser, "before the text")
    add_sampling_arguments(parser)
    add_language_arguments(parser)
    add_profile(parser)


def run(options):
    check_model_outputs(options, options.profile, inputs=[options.file, *options.lora, options.mmproj, *options.image])
    text = options.prompt if options.file is None else read_text(options.file)
    with open_model(options) as model, profiled(options.profile):
        ids = model.tokenize(text, special=options.special)
        if options.image:
            place = int(model.tokenizer.add_bos and ids[:1] == [model.tokenizer.bos])
            ids[place:place] = [token for path in options.image for token in model.image_tokens(path)]
        start = time.perf_counter()
        first, answer = 0.0, model.generate(ids, overflow=options.overflow, **sampling(options), **language(options))
        try:
            for piece in answer:
                first = first or time.perf_counter() - start
                print(piece, end="", flush=True)
        finally:
            print(flush=True)
        if answer.finish_reason == "length" and len(answer.ids) < options.max_tokens:
            print(f"ggml run: the context of {model.n_ctx} tokens is full (see --ctx, --overflow)", file=sys.stderr)
        report_speed(len(ids), first, len(answer.ids), time.perf_counter() - start)
