"""Continues a text with a language model."""

import time

from .models import (
    add_model_arguments,
    add_profile,
    add_sampling_arguments,
    check_model_outputs,
    open_model,
    profiled,
    read_text,
    report_speed,
    sampling,
)


def add_arguments(parser):
    add_model_arguments(parser)
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("-p", "--prompt", metavar="TEXT", help="the text")
    prompt.add_argument("-f", "--file", metavar="FILE", help="file with the text; - for standard input")
    parser.add_argument("--special", action="store_true", help="names such as <|im_end|> are special tokens")
    add_sampling_arguments(parser)
    add_profile(parser)


def run(options):
    check_model_outputs(options, options.profile, inputs=[options.file, *options.lora])
    text = options.prompt if options.file is None else read_text(options.file)
    with open_model(options) as model, profiled(options.profile):
        ids = model.tokenize(text, special=options.special)
        start = time.perf_counter()
        first, answer = 0.0, model.generate(ids, **sampling(options))
        try:
            for piece in answer:
                first = first or time.perf_counter() - start
                print(piece, end="", flush=True)
        finally:
            print(flush=True)
        report_speed(len(ids), first, len(answer.ids), time.perf_counter() - start)
