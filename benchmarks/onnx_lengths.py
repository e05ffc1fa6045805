"""Compares ggml.onnx with onnxruntime on lengths that a model has not seen: the first run of each, and further ones.

    pip install '.[onnx]' onnxruntime
    pip install --no-deps ddddocr piper-tts pythainlp rapidocr rapidocr-onnxruntime silero-vad
    python benchmarks/onnx_lengths.py

Each library has a process of its own on one thread. They run the lengths of a model in the same order, alternately,
each length three times, as many sets of them as the option --rounds says. The figures are medians over all lengths of
the processor's time in milliseconds: of the first run, and of the faster of the other two. --before DIR also measures
another copy of this library, --bert FILE an encoder of texts whose inputs are ids, mask and kinds of tokens:

    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(model, (ids, mask, kinds), "bert.onnx", input_names=inputs, dynamo=False, opset_version=17,
                      dynamic_axes=dict.fromkeys(inputs, {0: "batch", 1: "tokens"}))
"""

import argparse
import importlib.util
import statistics
import sys
import time

import numpy as np
from onnx_models import Server, noise, path_of, picture, runner, speech, whole, zeros

LENGTHS = 20  # of each model


def text(n):
    """Token ids, mask and kinds of tokens for a BERT."""
    return whole(30000, 1, n), np.ones((1, n), np.int64), np.zeros((1, n), np.int64)


CASES = {  # name: path of the package's file, the shortest length, its inputs
    "silero, a window (batches)": (
        "silero_vad/data/silero_vad.onnx",
        3,
        lambda n: (speech(n), zeros(2, n, 128), np.array(16000, np.int64)),
    ),
    "silero, sequence": (
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        152,
        lambda n: (speech(n), zeros(1, 1, 128), zeros(1, 1, 128)),
    ),
    "silero, short sequence": (
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        7,
        lambda n: (speech(n), zeros(1, 1, 128), zeros(1, 1, 128)),
    ),
    "rapidocr, detector": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        0,
        lambda n: (picture(1, 3, 128 + 32 * (n % 5), 160 + 32 * (n // 5)),),
    ),
    "rapidocr, recogniser": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        22,
        lambda n: (picture(1, 3, 48, 8 * n),),
    ),
    "rapidocr 3, recogniser": (
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
        22,
        lambda n: (noise(1, 3, 48, 8 * n),),
    ),
    "ddddocr, letters": ("ddddocr/common.onnx", 14, lambda n: (picture(1, 1, 64, 8 * n),)),
    "piper, Arabic (GRU)": (
        "piper/tashkeel/model.onnx",
        42,
        lambda n: (whole(30, 1, n), whole(10, 1, n), np.array([n])),
    ),
    "piper, Hebrew (Loop)": ("piper/hebrew/nakdimon.onnx", 60, lambda n: (whole(30, 1, n, dtype=np.float32),)),
    "pythainlp, romanisation (LSTM)": (
        "pythainlp/corpus/thai2rom_encoder.onnx",
        10,
        lambda n: (whole(60, 1, n), np.array([n], np.int32)),
    ),
}


def case(name):
    """The path of a model, the shortest length, and its inputs."""
    if name in CASES:
        file, *more = CASES[name]
        return path_of(file), *more
    path, _, first = name.partition(" from ")
    return path, int(first), text


def serve(library, name):
    """For each length in the standard input, writes the times of a first run and of the faster of two others."""
    importlib.import_module({"ours": "ggml.onnx", "before": "ggml.onnx"}.get(library, library))
    path, _, inputs = case(name)
    run = runner(library, path, 1)
    print(0, flush=True)
    for line in sys.stdin:
        values, times = inputs(int(line)), []
        for _ in range(3):
            start = time.process_time()
            run(*values)
            times.append(time.process_time() - start)
        print(times[0], flush=True)
        print(min(times[1:]), flush=True)


def measured(name, args):
    """For each library the medians of first and of other runs in milliseconds."""
    first = case(name)[1]
    times: dict = {library: [] for library in args.libraries}
    for _ in range(args.rounds):
        servers = {library: Server(library, name, args, 1, __file__) for library in args.libraries}
        for n in range(first, first + LENGTHS):
            for library, server in servers.items():
                server.ask(n)
                times[library].append((1e3 * server.read(), 1e3 * server.read()))
        for server in servers.values():
            server.close()
    return {library: tuple(map(statistics.median, zip(*found))) for library, found in times.items()}


def line(name, found):
    """A row of the table."""
    ours, first = found["ours"], case(name)[1]
    cells = [name, f"{first} to {first + LENGTHS - 1}"]
    for i in range(2):
        cells += [f"{times[i]:.3g}" for times in found.values()]
        cells += [f"{ours[i] / times[i]:.2f}" for library, times in found.items() if library != "ours"]
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="part of the names of the models to measure")
    parser.add_argument("--rounds", type=int, default=1, help="how often new processes run all lengths")
    parser.add_argument("--before", metavar="DIR", help="the folder of another copy of this library")
    parser.add_argument("--bert", metavar="FILE", nargs="+", default=[], help="further models, of texts")
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(*args.serve)
        return
    args.libraries = ["ours", *(["before"] if args.before else []), "onnxruntime"]
    ratios = [f"ratio to {k}" for k in args.libraries[1:]]
    print(f"| {' | '.join(['model', 'lengths', *args.libraries, *ratios, *args.libraries, *ratios])} |")
    print("| --- |" + " ---: |" * (1 + 4 * len(args.libraries) - 2))
    for name in [*CASES, *(f"{file} from {first}" for file in args.bert for first in (14, 102))]:
        if args.only in name and case(name)[0]:
            print(line(name, measured(name, args)), flush=True)


if __name__ == "__main__":
    main()
