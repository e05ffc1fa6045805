"""Measures what this machine can do at most: the limits that the speed of a library is compared with.

    python benchmarks/peaks.py [--threads N] [--megabytes N] [--rounds N] [--json]

For one thread and for all threads: multiply-adds of 32-bit floats (two operations each) and products of bytes for each
instruction set of the CPU, the rate at which memory is read, and the median time of an empty OpenMP region. Products of
bytes are `maddubs` with 16-bit sums, or `dpbusd` where the name has "vnni"; a kernel that has to add more often than
that stays below this limit.

The program peaks.c is compiled at run time by the C compiler ($CC, cc, gcc or clang), which must know OpenMP.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("peaks.c")
TITLES = {
    "fma": "multiply-adds of floats",
    "bytes": "products of bytes",
    "read": "reading",
    "region": "an empty parallel region",
}


def compiler():
    """The command of the C compiler, as a list."""
    candidates = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    for command in map(shlex.split, filter(None, candidates)):
        if shutil.which(command[0]):
            return command
    raise RuntimeError("peaks: no C compiler was found: install one, or set CC")


def measure(threads, megabytes=256, rounds=12):
    """Measures the limits for each number of threads.

    Args:
        threads: numbers of threads, a list of int.
        megabytes: size of the array that is read, several times the last cache.
        rounds: how often each limit is measured; the best counts.
    Returns:
        A list of dicts: "name" (an instruction set, "memory" or "OpenMP"), "what" ("fma", "bytes", "read" or "region"),
        "threads", "rate" in 10^9 operations or bytes per second (of a region: microseconds), and "unit".
    Raises:
        RuntimeError: there is no C compiler, or the program cannot be compiled or run.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "peaks"
        run([*compiler(), "-std=gnu11", "-O3", "-fopenmp", str(SOURCE), "-o", str(program)])
        for n in threads:
            text = run([str(program), str(n), str(megabytes), str(rounds)])
            rows += [json.loads(line) for line in text.splitlines()]
    return rows


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"peaks: {command[0]}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def rate_of(rows, name, what, threads):
    """The rate of one limit; None: it was not measured."""
    found = [row["rate"] for row in rows if (row["name"], row["what"], row["threads"]) == (name, what, threads)]
    return found[0] if found else None


def table(rows):
    """The lines of a Markdown table: a column for each number of threads."""
    threads = sorted({row["threads"] for row in rows})
    titles = " | ".join(f"{n} thread{'s' if n > 1 else ''}" for n in threads)
    lines = [f"| limit | {titles} |", "| --- |" + " ---: |" * len(threads)]
    for name, what, unit in dict.fromkeys((row["name"], row["what"], row["unit"]) for row in rows):
        rates = (rate_of(rows, name, what, n) for n in threads)
        cells = ["–" if rate is None else f"{rate:.4g} {unit}" for rate in rates]
        lines.append(f"| {name}: {TITLES[what]} | " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="also measures 1 thread")
    parser.add_argument("--megabytes", type=int, default=256, help="size of the array that is read")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", action="store_true", help="prints a list of objects instead of a table")
    args = parser.parse_args()
    if min(args.threads, args.megabytes, args.rounds) < 1:
        parser.error("--threads, --megabytes and --rounds are at least 1")
    try:
        rows = measure(sorted({1, args.threads}), args.megabytes, args.rounds)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(rows, indent=1) if args.json else "\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
