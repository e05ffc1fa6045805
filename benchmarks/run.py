"""Compares the speed of this library with that of NumPy and, optionally, of PyTorch and of the ctypes bindings.

    python benchmarks/run.py [--bindings PYTHON] [--torch PYTHON] [--threads N] [--rounds N] [--only TEXT]
                             [--types TYPE,...] [--json FILE] [--limit UNIT=RATE]...

PYTHON is the interpreter of an environment with `ggml-python` or `torch`. The bindings need an environment of their
own, because their package is also called `ggml`. In each round, every library runs all its workloads in a new process.
The best rate of all rounds is reported. A ratio above 1 means that this library is faster. The table shows "–" for a
workload that a library does not have, and "fails" for one that raised an error. `--types` names the types of the
weights in matrix products: types that can be quantised to without importance weights. `--json` records the results for
the documentation (docs/performance.md), `--limit GB/s=38` the most that the machine can do.

The limits of the machine (peaks.py) are printed after the table, with the share that matrix products reach: GEMM of the
multiply-adds or products of bytes of the instruction set in use, GEMV of the rate at which memory is read.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import peaks

# The instruction set with whose limit products of floats are compared, where it is not the one in use.
FLOATS = {"scalar": "sse2", "avx2vnni": "avx2", "avx512vnni": "avx512", "dotprod": "neon", "i8mm": "neon"}


def best_time(run, seconds=0.3, rounds=4):
    """The time of a call of `run` in seconds: the least of the mean times of some rounds."""
    run()
    times = []
    for _ in range(rounds):
        n, start = 0, time.perf_counter()
        while True:
            run()
            n += 1
            elapsed = time.perf_counter() - start
            if elapsed > seconds / rounds:
                break
        times.append(elapsed / n)
    return min(times)


def measure(library, threads, only, types):
    """Runs in a new process: prints a line of JSON for each workload of a library."""
    import workloads

    if types:
        workloads.WEIGHTS = types.split(",")
    for name, make in getattr(workloads, library + "_workloads")(threads).items():
        if only and only.lower() not in name.lower():
            continue
        try:
            run, amount, unit = make()
            row = {"name": name, "rate": amount / best_time(run), "unit": unit}
        except (AttributeError, ValueError, RuntimeError, MemoryError) as error:
            row = {"name": name, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(row), flush=True)


def collect(python, library, args):
    """Measures a library in a new process: {workload: row}. A row has either "rate" and "unit" or "error"."""
    command = [python, __file__, "--measure", library, "--threads", str(args.threads), "--only", args.only]
    command += ["--types", args.types]
    env = os.environ | {"OMP_NUM_THREADS": str(args.threads), "OPENBLAS_NUM_THREADS": str(args.threads)}
    if python != sys.executable:
        env.pop("PYTHONPATH", None)  # the other interpreter must not import this library
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=Path(__file__).parent, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        status = f"exit status {done.returncode} after {len(rows)} workloads"
        print(f"{library}: {status}: {done.stderr.strip()[-300:]}", file=sys.stderr)
    return {row["name"]: row for row in rows}


def table(results, libraries):
    """The lines of a Markdown table: our rate, then the rate of each other library and the ratio of ours to it."""
    others = [name for name in libraries if name != "ours"]
    titles = " | ".join(f"{name} | ratio" for name in others)
    lines = [f"| workload | ours | {titles} |", "| --- | ---: |" + " ---: | ---: |" * len(others)]

    def rate_text(row):
        if row is None:
            return "–"
        if "error" in row:
            return "fails"
        scale, prefix = (1e-6, "M") if row["rate"] > 1e6 else (1e-3, "k") if row["rate"] > 1e4 else (1, "")
        return f"{row['rate'] * scale:.3g} {prefix}{row['unit']}"

    for name, ours in results["ours"].items():
        cells = [name, rate_text(ours)]
        for other in others:
            row = results[other].get(name)
            both = row and "rate" in row and "rate" in ours
            cells += [rate_text(row), f"{ours['rate'] / row['rate']:.2f}" if both else "–"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def version(python, package):
    """The version of a package in the environment of an interpreter."""
    program = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def record(results, args):
    """Writes the results with what they depend on to the file of `--json`."""
    import ggml._core

    chosen = ", ".join(isa["name"] for isa in ggml._core.isa_info() if isa["chosen"])
    versions = {"Python": platform.python_version(), "NumPy": version(sys.executable, "numpy")}
    versions |= {"PyTorch": version(args.torch, "torch")} if args.torch else {}
    versions |= {"ggml-python": version(args.bindings, "ggml-python")} if args.bindings else {}
    given = ["bindings" if word == args.bindings else "torch" if word == args.torch else word for word in sys.argv[1:]]
    content = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{args.machine or platform.processor() or platform.machine()} ({chosen})",
        "threads": args.threads,
        "versions": versions,
        "command": " ".join(["python benchmarks/run.py", *given]),
        "limits": {unit: float(rate) for unit, rate in (limit.split("=") for limit in args.limit)},
        "results": results,
    }
    args.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def limit_of(name, rows, threads):
    """The limit of a matrix product in the unit of its rate, and what limits it; None: none was measured.

    name: "GEMM TYPE SHAPE" or "GEMV TYPE SHAPE".
    """
    import ggml

    kind, type_name, shape = name.split(" ", 2)
    if kind == "GEMV":
        width = int(shape.split(",")[0].split("x")[1])
        row_size = ggml.ggml_row_size(getattr(ggml, "GGML_TYPE_" + type_name), width)
        read = peaks.rate_of(rows, "memory", "read", threads)
        return read and (read * 2 * width / row_size, "reading")
    isa = next(isa["name"] for isa in ggml._core.isa_info() if isa["chosen"])
    what = "fma" if type_name in ("F32", "F16", "BF16") else "bytes"
    if what == "fma":
        isa = FLOATS.get(isa, isa)
    rate = peaks.rate_of(rows, isa, what, threads)
    return rate and (rate, f"{isa}, {peaks.TITLES[what]}")


def share_table(ours, rows, threads):
    """The lines of a Markdown table: the share of its limit that each matrix product reaches."""
    lines = ["| workload | rate | limit | share | of |", "| --- | ---: | ---: | ---: | --- |"]
    for name, row in ours.items():
        limit = limit_of(name, rows, threads) if name.startswith("GEM") and "rate" in row else None
        if limit:
            lines.append(f"| {name} | {row['rate']:.3g} | {limit[0]:.3g} | {row['rate'] / limit[0]:.2f} | {limit[1]} |")
    return lines if len(lines) > 2 else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bindings", metavar="PYTHON", help="interpreter with ggml-python")
    parser.add_argument("--torch", metavar="PYTHON", help="interpreter with PyTorch")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="", help="only workloads whose names contain this text")
    parser.add_argument("--types", default="", help="types of the weights in matrix products, as Q2_K,MXFP4")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the results to this file")
    parser.add_argument("--machine", default="", help="name of the machine in that file")
    parser.add_argument("--limit", metavar="UNIT=RATE", action="append", default=[], help="a limit of the machine")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure(args.measure, args.threads, args.only, args.types)
    libraries = {"ours": (sys.executable, "ggml"), "NumPy": (sys.executable, "numpy")}
    libraries |= {"PyTorch": (args.torch, "torch")} if args.torch else {}
    libraries |= {"bindings": (args.bindings, "ggml")} if args.bindings else {}
    results = {name: {} for name in libraries}
    for _ in range(args.rounds):
        for name, (python, library) in libraries.items():
            for key, row in collect(python, library, args).items():
                if "rate" not in results[name].get(key, {}) or row.get("rate", 0) > results[name][key]["rate"]:
                    results[name][key] = row
    print("\n".join(table(results, libraries)))
    if args.json:
        record(results, args)
    try:
        rows = peaks.measure(sorted({1, args.threads}))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 0
    for lines in (peaks.table(rows), share_table(results["ours"], rows, args.threads)):
        print("\n" + "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
