"""Shows how fast language models are: against their sizes, the tokens before, sequences and threads.

    python benchmarks/models.py [--llama-cpp PYTHON] [--ik-llama-cpp PYTHON] [--folder FOLDER] [--threads N] [--quick]
                                [--only TEXT] [--rounds N] [--output FOLDER] [--json FILE] [--machine NAME]
                                [--file MODEL]

PYTHON is the interpreter of an environment with llama-cpp-python or ik-llama-cpp-python. The models are files of random
weights at the sizes of known models (model_files.py), Q4_K with Q6_K for the vocabulary, which are written to FOLDER on
first use: 11 GB, or 0.7 GB with --quick, which measures small models, short texts and few sequences, and takes about
two minutes. Each library computes in a process of its own (model_engines.py). The processes take turns within a
measurement, and the best of the rounds counts. The program prints the rates and the ratios; a library that cannot
compute something, or ends, has no rate there. `flat` is a program that builds the model from this library's flat
functions (flat_model.py), of the smallest file or of MODEL. The limits are the products of bytes, of which a token
needs two for each weight in a matrix, and the rate at which memory is read: a token needs all weights, except experts
that are not chosen. Without --json it draws plots, which needs matplotlib.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import model_files
import peaks
from model_files import SHAPES
from run import facts, limit_of, write
from scale import draw, falls, plot, save

WORKER = Path(__file__).with_name("model_engines.py")
QUICK_MODELS = ("SmolLM2-135M", "Qwen3-0.6B")
READ, WRITTEN = 256, 32  # tokens of a prompt and of an answer
AT_DEPTH = 128, 16  # the same after a long text
PAUSE = 0.05  # seconds before a request: threads of the library that had the last one spin for some milliseconds


class Engine:
    """A process that computes with a model through one library."""

    def __init__(self, python, library, path, threads, n_ctx, n_seq, *role):
        command = [python, str(WORKER), library, str(path), *map(str, (threads, n_ctx, n_seq, *role))]
        env = os.environ | {"OMP_NUM_THREADS": str(threads)}
        if python != sys.executable:
            env.pop("PYTHONPATH", None)  # the other interpreter must not import this library
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
        )
        self._answer()

    def ask(self, *request):
        """The answer to a request; None: the process has ended, or does so now."""
        time.sleep(PAUSE)
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except OSError:
            return None
        return self._answer()

    def _answer(self):
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):  # a line that the library prints
                return json.loads(line)
        return None

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with self.process:
            pass


class Measuring:
    """The measurements. Each method gives plots by their names, see scale.py."""

    def __init__(self, args, folder):
        self.pythons = {"ggml": sys.executable}
        self.pythons |= {"llama_cpp": args.llama_cpp} if args.llama_cpp else {}
        self.pythons |= {"ik_llama_cpp": args.ik_llama_cpp} if args.ik_llama_cpp else {}
        self.threads, self.rounds, self.quick, self.tiny = args.threads, args.rounds, args.quick, args.tiny
        self.folder, self.file = folder, args.file
        self.peaks = peaks.measure([args.threads], *((2, 1) if args.tiny else (64, 3)))

    def files(self):
        """The models, (name, file), from small to large."""
        names = ["tiny"] if self.tiny else QUICK_MODELS if self.quick else [n for n in SHAPES if n != "tiny"]
        for name in sorted(names, key=lambda name: active(SHAPES[name])):
            yield name, model_files.path_of(self.folder, name)

    def smallest(self):
        return next(self.files())[1]

    @contextlib.contextmanager
    def engines(self, path, n_ctx, n_seq=1, threads=0, others=()):
        """The engines of the libraries, and others of this interpreter by their names in model_engines.py."""
        with contextlib.ExitStack() as stack:
            found = {}
            for library, python in (self.pythons | dict.fromkeys(others, sys.executable)).items():
                found[library] = Engine(python, library, path, threads or self.threads, n_ctx, n_seq)
                stack.callback(found[library].close)
            yield found

    def rates(self, engines, *request, tokens):
        """Tokens per second of each library, for one request; prints them."""
        seconds = {library: [] for library in engines}
        for _ in range(self.rounds):
            for library, engine in engines.items():
                seconds[library].append(engine.ask(*request))
        best = {library: tokens / min(times) for library, times in seconds.items() if None not in times}
        ratios = (f"{name} {rate:.1f} ({best['ggml'] / rate:.2f})" for name, rate in best.items() if name != "ggml")
        print(f"  {' '.join(map(str, request)):<20} {best['ggml']:8.1f} tokens/s; ", ", ".join(ratios), flush=True)
        return best

    def parameters(self):
        reading, writing, limits = {}, {}, {"products": [], "memory": []}
        products = limit_of("GEMM Q4_0", "GFLOP/s", self.peaks, self.threads)
        memory = peaks.rate_of(self.peaks, "memory", "read", self.threads)
        for name, path in self.files():
            shape, x = SHAPES[name], round(active(SHAPES[name]) / 1e6, 3)
            print(f"{name}: {path.stat().st_size / 1e6:,.0f} MB", flush=True)
            with self.engines(path, READ + WRITTEN + 32) as engines:
                add(reading, x, self.rates(engines, "read", 0, READ, tokens=READ))
                add(writing, x, self.rates(engines, "write", 16, WRITTEN, tokens=WRITTEN))
                sizes = {library: engine.ask("memory") for library, engine in engines.items()}
                print("  memory", ", ".join(f"{library} {size or 0:,.0f} MB" for library, size in sizes.items()))
            if products and memory:
                size = path.stat().st_size * active(shape) / model_files.parameters(shape)
                limits["products"].append([x, products[0] * 1e9 / (2 * active(shape))])
                limits["memory"].append([x, memory * 1e9 / size])
        found = {name: points for name, points in limits.items() if points}
        name = "million parameters that a token needs"
        return {
            "reading": plot(name, "tokens/s", reading, without(found, "memory"), linear=False),
            "writing": plot(name, "tokens/s", writing, without(found, "products"), linear=False),
        }

    def depth(self):
        n_read, n_written = AT_DEPTH
        depths = (64, 128) if self.tiny else (512, 1024, 2048) if self.quick else (512, 2048, 8192, 32768)
        reading, writing = {}, {}
        print("Depth", flush=True)
        with self.engines(self.smallest(), depths[-1] + n_read + n_written + 16) as engines:
            for n in depths:
                add(reading, n, self.rates(engines, "read", n, n_read, tokens=n_read))
                add(writing, n, self.rates(engines, "write", n, n_written, tokens=n_written))
        return {
            "reading on": plot("tokens before", "tokens/s", reading, {}),
            "writing on": plot("tokens before", "tokens/s", writing, {}),
        }

    def flat(self):
        sizes, reading, writing = (READ // 4, READ), {}, {}
        path = self.file or self.smallest()
        print(f"Flat functions: {path.name}", flush=True)
        with self.engines(path, READ + WRITTEN + 32, others=["flat"]) as engines:
            for n in sizes:
                add(reading, n, self.rates(engines, "read", 0, n, tokens=n))
                add(writing, n, self.rates(engines, "write", n, WRITTEN, tokens=WRITTEN))
        return {
            "reading, flat": plot("tokens that are read", "tokens/s", reading, {}, linear=False),
            "writing, flat": plot("tokens before", "tokens/s", writing, {}, linear=False),
        }

    def sequences(self):
        counts, found = (1, 2) if self.tiny else (1, 2, 4, 8) if self.quick else (1, 2, 4, 8, 16, 32, 64), {}
        print("Sequences", flush=True)
        with self.engines(self.smallest(), WRITTEN + 32, counts[-1]) as engines:
            for n in counts:
                add(found, n, self.rates(engines, "together", n, WRITTEN, tokens=n * WRITTEN))
        return {"together": plot("sequences", "tokens/s", found, {}, linear=False)}

    def thread_counts(self):
        counts = sorted({1, self.threads, 2 * self.threads, *(2**k for k in range(self.threads.bit_length()))})
        reading, writing = {}, {}
        print("Threads", flush=True)
        for n in counts:
            with self.engines(self.smallest(), READ + WRITTEN + 32, threads=n) as engines:
                print(f"  {n}:")
                add(reading, n, self.rates(engines, "read", 0, READ, tokens=READ))
                add(writing, n, self.rates(engines, "write", 16, WRITTEN, tokens=WRITTEN))
        return {
            "reading by threads": plot("threads", "tokens/s", reading, {}, linear=False),
            "writing by threads": plot("threads", "tokens/s", writing, {}, linear=False),
        }


MEASUREMENTS = {
    "parameters": Measuring.parameters,
    "depth": Measuring.depth,
    "flat": Measuring.flat,
    "sequences": Measuring.sequences,
    "threads": Measuring.thread_counts,
}


def active(shape):
    """The weights that a token needs: without experts that are not chosen, and one row of a table of tokens."""
    chosen = shape._replace(n_expert=shape.n_used)
    table = 0 if shape.tied else shape.n_vocab * shape.n_embd
    return model_files.parameters(chosen) - table


def add(series, x, rates):
    """Adds a point to the series of each library."""
    for library, rate in rates.items():
        series.setdefault(library, []).append([x, rate])


def without(limits, name):
    return {key: points for key, points in limits.items() if key != name}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--llama-cpp", metavar="PYTHON", help="interpreter with llama-cpp-python")
    parser.add_argument("--ik-llama-cpp", metavar="PYTHON", help="interpreter with ik-llama-cpp-python")
    parser.add_argument("--folder", type=Path, help="folder for the models (default: one that is deleted at the end)")
    parser.add_argument("--file", type=Path, help="the model of `flat`, of LLaMA's or Gemma 3's kind")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="leaves out what takes long")
    parser.add_argument("--only", default="", help="only measurements with this text: " + ", ".join(MEASUREMENTS))
    parser.add_argument("--output", type=Path, default=Path("models"), help="folder for the plots (default: models)")
    parser.add_argument("--format", choices=("png", "svg"), default="png")
    parser.add_argument("--json", metavar="FILE", type=Path, help="writes the data to this file and draws nothing")
    parser.add_argument("--machine", default="", help="name of the machine in that file")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)  # for the smoke test
    args = parser.parse_args()
    plots = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            measuring = Measuring(args, args.folder or folder)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
        for name, measure in MEASUREMENTS.items():
            if args.only in name:
                plots |= measure(measuring)
    for name, data in plots.items():
        for sentence in falls(name, data):
            print(sentence, file=sys.stderr, flush=True)
    if args.json:
        write(args.json, facts("models.py", args) | {"plots": plots})
        return 0
    import matplotlib

    matplotlib.use("agg")
    args.output.mkdir(parents=True, exist_ok=True)
    for name, data in plots.items():
        save(draw(name, data), args.output / f"{name.replace(' ', '_')}.{args.format}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
