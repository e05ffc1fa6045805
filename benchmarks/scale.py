"""Shows how the speed of this library changes with the size of the work, with the limit of the machine as a line.

    python benchmarks/scale.py [--output FOLDER] [--format png|svg] [--threads N] [--only TEXT] [--quick]
                               [--json FILE] [--machine NAME]

A plot shows a rate: work divided by time. Time grows linearly with the work where the rate stays. The program prints
where it falls: below three quarters of the best rate at a smaller size. --quick leaves out the large sizes and takes
about a minute. --json writes the data to a file and draws nothing; otherwise matplotlib is needed. The documentation
has the plots of the files in benchmarks/results (docs/performance.md).
"""

import argparse
import contextlib
import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import peaks
import workloads
from run import best_time, facts, limit_of, write

FALL = 0.75  # a rate below this share of the best one at a smaller size is reported
HEADS, HEAD_SIZE, QUERIES = 8, 64, 256  # of attention
BUSY = "while True: pass"


class Scale:
    """The measurements. Each method returns a plot.

    A plot is {"x", "y", "series": {name: [[x, rate]]}, "limits": same, "linear": bool}.
    """

    def __init__(self, threads, quick, tiny=False):
        self.g, self.quick, self.tiny = workloads.Ggml(threads), quick, tiny
        self.threads = threads
        most = max(4 * (os.cpu_count() or 1), threads)
        self.thread_counts = (
            [1, 2] if tiny else sorted({1, threads, *(2**k for k in range(1, most.bit_length())), most})
        )
        size = (2, 1) if tiny else (64, 3) if quick else (256, 12)
        self.peaks = peaks.measure(sorted({1, threads}), *size)

    def sizes(self, first, last, quick, factor=2):
        """first, first * factor ... up to `last`, or up to `quick` with --quick; two of them in the smoke test."""
        end, x, all_sizes = (quick if self.quick else last), first, []
        while x <= end and not (self.tiny and len(all_sizes) == 2):
            all_sizes.append(x)
            x *= factor
        return all_sizes

    def time(self, run):
        seconds, rounds = (0.0, 1) if self.tiny else (0.05, 2) if self.quick else (0.3, 4)
        return best_time(run, seconds, rounds)

    def limit(self, name):
        """The limit of a workload of run.py in its unit; None: unknown."""
        found = limit_of(name, "GFLOP/s", self.peaks, self.threads)
        return found and found[0]

    def read_rate(self):
        return peaks.rate_of(self.peaks, "memory", "read", self.threads)

    def product(self, kind, k, m, n, threads=0):
        """The rate of a matrix product in 10^9 operations per second."""
        g, ggml = self.g, self.g.ggml
        row_size = ggml.ggml_row_size(getattr(ggml, "GGML_TYPE_" + kind), k)
        with context(g, m * row_size + 4 * n * (k + m)) as ctx:
            values = np.tile(workloads.random(32, k), (m // 32, 1))
            a = g.tensor(ctx, values) if kind == "F32" else g.quantized(ctx, kind, values)
            out = ggml.ggml_mul_mat(ctx, a, g.tensor(ctx, workloads.random(n, k)))
            return workloads.gemm_flops(k, m, n) / self.time(g.runner(ctx, out, threads))

    def gemm(self):
        sizes = self.sizes(32, 8192, 1024)
        kinds = ("F32", "F16", "Q4_0")
        series = {kind: [[n, self.product(kind, n, n, n)] for n in sizes] for kind in kinds}
        names = {"multiply-adds": "GEMM F32 square", "products of bytes": "GEMM Q4_0 square"}
        limits = {name: self.limit(workload) for name, workload in names.items()}
        return plot("rows and columns", "GFLOP/s", series, flat(sizes, limits))

    def gemv(self):
        ggml, width, series = self.g.ggml, 4096, {}
        sizes = self.sizes(1 << 16, 1 << 30, 1 << 26, 4)
        for kind in ("F32", *workloads.WEIGHTS):
            row_size = ggml.ggml_row_size(getattr(ggml, "GGML_TYPE_" + kind), width)
            rows = sorted({max(32, size // row_size // 32 * 32) for size in sizes})
            per_operation = row_size / (2 * width)
            series[kind] = [[n * row_size, per_operation * self.product(kind, width, n, 1)] for n in rows]
        return plot("bytes of the matrix", "GB/s", series, flat(sizes, {"reading": self.read_rate()}))

    def attention_time(self, keys, queries):
        g, ggml = self.g, self.g.ggml
        with context(g, (4 * keys * HEAD_SIZE + 8 * queries * HEAD_SIZE) * HEADS) as ctx:
            q = ggml.ggml_new_tensor_3d(ctx, ggml.GGML_TYPE_F32, HEAD_SIZE, queries, HEADS)
            k, v = (ggml.ggml_new_tensor_3d(ctx, ggml.GGML_TYPE_F16, HEAD_SIZE, keys, HEADS) for _ in range(2))
            for t in (q, k, v):
                ctypes.memset(ggml.ggml_get_data(t), 0, ggml.ggml_nbytes(t))
            out = ggml.ggml_flash_attn_ext(ctx, q, k, v, None, HEAD_SIZE**-0.5, 0.0, 0.0)
            return self.time(g.runner(ctx, out))

    def attention(self):
        sizes = self.sizes(128, 32768, 4096)
        work = 4e-9 * QUERIES * HEAD_SIZE * HEADS
        series = {f"{QUERIES} queries": [[n, work * n / self.attention_time(n, QUERIES)] for n in sizes]}
        return plot("keys", "GFLOP/s", series, flat(sizes, {"multiply-adds": self.limit("GEMM F32 square")}))

    def decode(self):
        sizes = self.sizes(128, 32768, 4096)
        work = 4e-9 * HEAD_SIZE * HEADS  # bytes of a key and a value in f16
        series = {"1 query": [[n, work * n / self.attention_time(n, 1)] for n in sizes]}
        return plot("keys", "GB/s", series, flat(sizes, {"reading": self.read_rate()}))

    def graphs(self):
        """Nodes per second: building, planning with a graph allocator, and computing tensors of 16 elements."""
        g, ggml = self.g, self.g.ggml
        series = {"building": [], "preparing": [], "computing, 1 thread": []}
        sizes = self.sizes(10, 100_000, 10_000, 10)
        for n in sizes:

            def build(n=n):
                with context(g, 2048 * n) as ctx:
                    make(ctx, n)

            def make(ctx, n=n):
                x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 16)
                y = workloads.chain(g, ctx, x, n)
                graph = ggml.ggml_new_graph_custom(ctx, 2 * n + 16, False)
                ggml.ggml_build_forward_expand(graph, y)
                return graph

            series["building"].append([n, 1e-6 * n / self.time(build)])
            with context(g, 2048 * n, no_alloc=True) as ctx:
                graph, alloc = make(ctx), ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())
                seconds = self.time(lambda graph=graph, alloc=alloc: ggml.ggml_gallocr_reserve(alloc, graph))
                series["preparing"].append([n, 1e-6 * n / seconds])
                assert ggml.ggml_gallocr_alloc_graph(alloc, graph)
                seconds = self.time(g.runner(ctx, None, 1, graph))
                series["computing, 1 thread"].append([n, 1e-6 * n / seconds])
                ggml.ggml_gallocr_free(alloc)
        return plot("nodes", "Mnodes/s", series, {})

    def contexts(self):
        """Creating a context, writing all its memory, and freeing it."""
        g, available = self.g, os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        sizes = [n for n in self.sizes(1 << 20, 8 << 30, 1 << 28, 4) if n < available // 2]

        def write(n):
            with context(g, n) as ctx:
                t = g.ggml.ggml_new_tensor_1d(ctx, g.ggml.GGML_TYPE_F32, n // 4)
                ctypes.memset(g.ggml.ggml_get_data(t), 0, n)

        series = {"creating, writing, freeing": [[n, 1e-9 * n / self.time(lambda n=n: write(n))] for n in sizes]}
        return plot("bytes", "GB/s", series, flat(sizes, {"reading": self.read_rate()}))

    def threads_plot(self):
        """A product of 512 by 512 on more and more threads, beside busy processes; x is the number of threads."""
        series, n = {}, 32 if self.tiny else 512
        for n_busy in (0, 1) if self.tiny else (0, 2, 4):
            with busy(n_busy):
                rates = [[t, self.product("F32", n, n, n, t)] for t in self.thread_counts]
            series[f"beside {n_busy} busy processes"] = rates
        limits = flat(self.thread_counts, {"multiply-adds": self.limit("GEMM F32 square")})
        return plot("threads", "GFLOP/s", series, limits, linear=False)

    def regions(self):
        """How often per second OpenMP can start a team and wait for it: the median of empty regions."""
        series = {}
        for n_busy in (0, 1) if self.tiny else (0, 2, 4):
            with busy(n_busy):
                rows = peaks.measure(self.thread_counts, 1, 1)
            rates = [[t, 1e3 / peaks.rate_of(rows, "OpenMP", "region", t)] for t in self.thread_counts]
            series[f"beside {n_busy} busy processes"] = rates
        return plot("threads", "thousand empty regions/s", series, {}, linear=False)

    def pauses(self):
        """Bursts of 24 graphs, each of 40 products of a matrix and a vector, after pauses of x ms."""
        g, n, series = self.g, 32 if self.tiny else 512, {}
        pauses = [1, 2] if self.tiny else [1, 10, 50, 200]
        with context(g, 40 * 4 * n * n) as ctx:
            y = g.tensor(ctx, np.ones((1, n), np.float32))
            for _ in range(40):
                y = g.ggml.ggml_mul_mat(ctx, g.tensor(ctx, np.full((n, n), 1 / n, np.float32)), y)
            for threads in sorted({1, self.threads}):
                run = g.runner(ctx, y, threads)
                rates = [[pause, 24e-3 / self.burst(run, pause)] for pause in pauses]
                series[f"{threads} threads" if threads > 1 else "1 thread"] = rates
        return plot("ms of pause", "thousand graphs/s", series, {})

    def burst(self, run, pause):
        """Seconds of 24 calls after a pause of so many ms: the median of some bursts, of which the first warms up."""
        seconds = []
        for _ in range(3 if self.tiny else 16):
            time.sleep(pause / 1e3)
            began = time.perf_counter()
            for _ in range(24):
                run()
            seconds.append(time.perf_counter() - began)
        return float(np.median(seconds[1:]))

    def callers(self):
        """What Python threads are worth that compute each on its own: see callers.py."""
        import callers  # not above: the documentation is built without the package

        counts = [1, 2] if self.tiny else [1, 2, 4, 8]
        seconds, rounds = (0.01, 1) if self.tiny else (0.2, 2) if self.quick else (1.0, 3)
        how = "with the GIL" if getattr(sys, "_is_gil_enabled", lambda: True)() else "without the GIL"
        series = callers.speedups(counts, seconds, rounds)
        limits = {"cores": [[n, min(n, os.cpu_count() or 1)] for n in counts]}
        return plot(f"Python threads {how}", "times one thread", series, limits, linear=False)


PLOTS = {
    "gemm": Scale.gemm,
    "gemv": Scale.gemv,
    "attention": Scale.attention,
    "decode": Scale.decode,
    "graphs": Scale.graphs,
    "contexts": Scale.contexts,
    "threads": Scale.threads_plot,
    "regions": Scale.regions,
    "pauses": Scale.pauses,
    "callers": Scale.callers,
}


@contextlib.contextmanager
def context(g, n_bytes, no_alloc=False):
    """A context with n_bytes for data and a megabyte for the structs."""
    ctx = g.context((n_bytes >> 20) + 2, no_alloc)
    try:
        yield ctx
    finally:
        g.ggml.ggml_free(ctx)


@contextlib.contextmanager
def busy(n):
    """Runs n processes that do nothing but take time."""
    with contextlib.ExitStack() as stack:
        for _ in range(n):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
            stack.callback(process.kill)
        yield


def plot(x, y, series, limits, linear=True):
    return {"x": x, "y": y, "series": series, "limits": limits, "linear": linear}


def flat(sizes, limits):
    """Limits that do not depend on the size, as series; unknown ones are left out."""
    return {name: [[sizes[0], rate], [sizes[-1], rate]] for name, rate in limits.items() if rate}


def falls(name, data):
    """Sentences that say where a rate falls below FALL of the best one at a smaller size."""
    for series, points in data["series"].items():
        best_x, best = points[0]
        worst = None
        for x, rate in points[1:]:
            if rate > best:
                best_x, best = x, rate
            elif rate < FALL * best and (worst is None or rate / best < worst[2]):
                worst = x, rate, rate / best, best_x, best
        if worst and data["linear"]:
            x, rate, share, best_x, best = worst
            yield (
                f"{name}, {series}: {rate:.3g} {data['y']} at {x:,} {data['x']} is {share:.2f} of the {best:.3g} "
                f"{data['y']} at {best_x:,}"
            )


def draw(name, data):
    """The plot as a figure of matplotlib. The axis of the rates spans more than a decade: small changes look small."""
    from matplotlib import pyplot, ticker

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for series, points in data["series"].items():
        axes.plot(*zip(*points), marker="o", label=series)
    for i, (limit, points) in enumerate(data["limits"].items()):
        axes.plot(*zip(*points), linestyle=("--", ":")[i % 2], color="#e03131", label=f"limit: {limit}")
    axes.set(xscale="log", yscale="log", xlabel=data["x"], ylabel=data["y"], title=name)
    bottom, top = axes.get_ylim()
    axes.set_ylim(min(bottom, top / 12), 1.1 * top)
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    if not data["linear"]:  # a few small numbers, each with its label
        places = sorted({x for points in data["series"].values() for x, _ in points})
        axes.set_xticks(places, map(str, places))
        axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    figure.legend(frameon=False, loc="outside upper center", ncols=3)
    return figure


def save(figure, path):
    from matplotlib import pyplot

    figure.savefig(path)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("scale"), help="folder for the plots (default: scale)")
    parser.add_argument("--format", choices=("png", "svg"), default="png")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="only plots whose names contain this text: " + ", ".join(PLOTS))
    parser.add_argument("--quick", action="store_true", help="leaves out the large sizes")
    parser.add_argument("--json", metavar="FILE", type=Path, help="writes the data to this file and draws nothing")
    parser.add_argument("--machine", default="", help="name of the machine in that file")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)  # for the smoke test
    args = parser.parse_args()
    try:
        scale = Scale(args.threads, args.quick, args.tiny)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    results = {}
    if not args.json:
        import matplotlib

        matplotlib.use("agg")
    for name, measure in PLOTS.items():
        if args.only not in name:
            continue
        results[name] = measure(scale)
        for sentence in falls(name, results[name]):
            print(sentence, file=sys.stderr, flush=True)
        if not args.json:
            args.output.mkdir(parents=True, exist_ok=True)
            path = args.output / f"{name}.{args.format}"
            save(draw(name, results[name]), path)
            print(path, flush=True)
    if args.json:
        write(args.json, facts("scale.py", args) | {"plots": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
