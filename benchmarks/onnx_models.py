"""Compares ggml.onnx with onnxruntime: time of a run and memory, on models from PyPI packages.

    pip install '.[onnx]' onnxruntime && pip install --no-deps silero-vad magika rapidocr-onnxruntime ddddocr
    python benchmarks/onnx_models.py

The libraries run alternately in one process, and the best time of each counts. Memory is measured in a process of its
own for each library.
"""

import argparse
import importlib.util
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

REST = 0.03  # seconds after which the threads of the other library sleep


def picture(*shape):
    return np.random.default_rng(0).random(shape, np.float32)


def speech(windows):
    return (0.1 * np.random.default_rng(0).standard_normal((windows, 576))).astype(np.float32)


def zeros(*shape):
    return np.zeros(shape, np.float32)


MODELS = {  # name: path of the package's file, inputs in the model's order
    "silero, a window": ("silero_vad/data/silero_vad.onnx",
                         lambda: (speech(1), zeros(2, 1, 128), np.array(16000, np.int64))),
    "silero, 200 windows": ("silero_vad/data/silero_vad_16k_sequence.onnx",
                            lambda: (speech(200), zeros(1, 1, 128), zeros(1, 1, 128))),
    "magika": ("magika/models/standard_v3_3/model.onnx",
               lambda: (np.random.default_rng(0).integers(0, 257, (1, 2048), np.int32),)),
    "rapidocr, detector": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                           lambda: (picture(1, 3, 320, 480),)),
    "rapidocr, recogniser": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                             lambda: (picture(1, 3, 48, 320),)),
    "rapidocr, orientation": ("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                              lambda: (picture(1, 3, 48, 192),)),
    "ddddocr, letters": ("ddddocr/common.onnx", lambda: (picture(1, 1, 64, 160),)),
    "ddddocr, letters (int8)": ("ddddocr/common_old.onnx", lambda: (picture(1, 1, 64, 160),)),
    "ddddocr, detector": ("ddddocr/common_det.onnx", lambda: (picture(1, 3, 416, 416),)),
}


def path_of(file):
    """The path of a file of an installed package, which is not imported."""
    package, _, rest = file.partition("/")
    spec = importlib.util.find_spec(package)
    return None if spec is None else str(Path(spec.origin).parent / rest)


def runner(library, path, inputs, threads):
    """A function without arguments that computes the outputs of a model."""
    if library == "ours":
        import ggml.onnx

        model = ggml.onnx.load(path, threads=threads)
        return lambda: model.run(*inputs)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    values = dict(zip((i.name for i in session.get_inputs()), inputs))
    return lambda: session.run(None, values)


def best_times(functions, seconds, rounds):
    """The best time of each function in seconds. They run alternately."""
    best = [math.inf] * len(functions)
    for function in functions:
        function()
        function()
    for _ in range(rounds):
        for i, function in enumerate(functions):
            time.sleep(REST)
            end = time.perf_counter() + seconds
            while True:
                start = time.perf_counter()
                function()
                stop = time.perf_counter()
                best[i] = min(best[i], stop - start)
                if stop > end:
                    break
    return best


def resident(library, name, threads):
    """Prints by how many bytes the memory of this process grew at most since the library was imported."""
    if library == "ours":
        import ggml.onnx  # noqa: F401
    else:
        import onnxruntime  # noqa: F401
    file, inputs = MODELS[name]
    values = inputs()
    before = status("VmRSS")
    run = runner(library, path_of(file), values, threads)
    for _ in range(3):
        run()
    print(status("VmHWM") - before)


def status(key):
    """A size in bytes that Linux tells about this process; getrusage counts what the parent had before exec."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith(key)))


def memory(name, threads):
    """The growth of both libraries in bytes."""
    found = []
    for library in ("ours", "theirs"):
        command = [sys.executable, __file__, "--resident", library, name, "--threads", str(threads)]
        found.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]))
    return found


def measured(name, args):
    """One row per number of threads; no rows if the package is not installed."""
    file, inputs = MODELS[name]
    path = path_of(file)
    if path is None:
        return []
    values, rows = inputs(), []
    size = memory(name, max(args.threads))
    for threads in args.threads:
        functions = [runner(library, path, values, threads) for library in ("ours", "theirs")]
        ours, theirs = best_times(functions, args.seconds, args.rounds)
        rows.append({"model": name, "threads": threads, "ours": ours, "onnxruntime": theirs,
                     "memory": size[0], "onnxruntime memory": size[1]})
    return rows


def line(row):
    """A row of the table."""
    mega = [row[k] / 1e6 for k in ("memory", "onnxruntime memory")]
    return (f"| {row['model']} | {row['threads']} | {1e3 * row['ours']:.3g} ms | {1e3 * row['onnxruntime']:.3g} ms | "
            f"{row['onnxruntime'] / row['ours']:.2f} | {mega[0]:.0f} MB | {mega[1]:.0f} MB | {mega[0] / mega[1]:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads")
    parser.add_argument("--only", default="", help="part of the names of the models to measure")
    parser.add_argument("--seconds", type=float, default=0.3, help="time of each turn of a library")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each library")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--resident", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.resident:
        resident(*args.resident, args.threads[0])
        return
    if not args.json:
        print("| model | threads | ours | onnxruntime | speed | memory | onnxruntime | ratio |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = []
    for name in MODELS:
        if args.only in name:
            found = measured(name, args)
            rows += found
            if not args.json:
                print("\n".join(map(line, found)), flush=True)
    if args.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
