"""Compares the speed of this library with that of NumPy and, optionally, of PyTorch and of the ctypes bindings.

    python benchmarks/run.py [--bindings PYTHON] [--torch PYTHON] [--threads N] [--rounds N] [--only TEXT]
                             [--types TYPE,...] [--json FILE] [--machine NAME]

PYTHON is the interpreter of an environment with `ggml-python` or `torch`. The bindings need an environment of their
own, because their package is also called `ggml`. In each round, every library runs all its workloads in a new process.
The best rate of all rounds is reported. A ratio above 1 means that this library is faster. The table shows "–" for a
workload that a library does not have, and "fails" for one that raised an error. `--types` names the types of the
weights in matrix products: types that can be quantised to without importance weights. `--json` records the results and
the limits for the documentation (docs/performance.md); `--machine` is the name of the machine there.

The limits of the machine (peaks.py) are printed after the table, with the share of them that is reached. GEMM, the
convolution and attention are compared with the multiply-adds or products of bytes of the instruction set in use, GEMV
and element-wise operations with the rate at which memory is read.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path

import peaks

# The instruction set with whose limit products of floats are compared, where it is not the one in use.
FLOATS = {
    "scalar": "sse2",
    "avx2vnni": "avx2",
    "avx512vnni": "avx512",
    "amx": "avx512",
    "dotprod": "neon",
    "i8mm": "neon",
}


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


def facts(program, args, versions=()):
    """What results depend on, for a file of benchmarks/results. versions: {library: its version}, beside Python."""
    import ggml._core

    chosen = ", ".join(isa["name"] for isa in ggml._core.isa_info() if isa["chosen"])
    names = {args.json and str(args.json): args.json and args.json.name}
    names |= {getattr(args, library, None): "PYTHON" for library in ("bindings", "torch", "llama_cpp", "ik_llama_cpp")}
    names[str(getattr(args, "folder", None))] = "FOLDER"
    given = shlex.join(names.get(word, word) for word in sys.argv[1:])
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{args.machine or platform.processor() or platform.machine()} ({chosen})",
        "threads": args.threads,
        "versions": {"Python": platform.python_version(), "NumPy": version(sys.executable, "numpy"), **dict(versions)},
        "command": f"python benchmarks/{program} {given}",
    }


def write(path, content):
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def limit_of(name, unit, rows, threads):
    """The limit of a workload in the unit of its rate, and what limits it; None: none was measured, or there is none.

    name: "GEMM TYPE SHAPE", "GEMV TYPE SHAPE", or any other, whose unit decides.
    """
    import ggml

    read = peaks.rate_of(rows, "memory", "read", threads)
    if name.startswith("GEMV "):
        _, type_name, shape = name.split(" ", 2)
        width = int(shape.split(",")[0].split("x")[1])
        row_size = ggml.ggml_row_size(getattr(ggml, "GGML_TYPE_" + type_name), width)
        return read and (read * 2 * width / row_size, "reading")
    if unit != "GFLOP/s":
        return read and unit == "GB/s" and (read, "reading") or None
    isa = next(isa["name"] for isa in ggml._core.isa_info() if isa["chosen"])
    quantised = name.startswith("GEMM ") and name.split()[1] not in ("F32", "F16", "BF16")
    what = "bytes" if quantised else "fma"
    if what == "fma":
        isa = FLOATS.get(isa, isa)
    rate = peaks.rate_of(rows, isa, what, threads)
    return rate and (rate, f"{isa}, {peaks.TITLES[what]}")


def share_table(ours, rows, threads):
    """The lines of a Markdown table: the share of its limit that each workload reaches."""
    lines = ["| workload | rate | limit | share | of |", "| --- | ---: | ---: | ---: | --- |"]
    for name, row in ours.items():
        limit = "rate" in row and limit_of(name, row["unit"], rows, threads)
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
    try:
        rows = peaks.measure(sorted({1, args.threads}))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        rows = []
    if args.json:
        versions = {"PyTorch": version(args.torch, "torch")} if args.torch else {}
        versions |= {"ggml-python": version(args.bindings, "ggml-python")} if args.bindings else {}
        measured = [(name, row["unit"]) for name, row in results["ours"].items() if "rate" in row]
        limits = {name: limit_of(name, unit, rows, args.threads) for name, unit in measured}
        content = {"limits": {name: limit for name, limit in limits.items() if limit}, "results": results}
        write(args.json, facts("run.py", args, versions) | content)
    for lines in (peaks.table(rows), share_table(results["ours"], rows, args.threads)) if rows else ():
        print("\n" + "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
