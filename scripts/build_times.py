"""Builds the wheel from a clean copy of the tree and prints the processor time of each file, the longest first.

    python scripts/build_times.py [--rows N] [--again]

Cython's own time is what the compilers' leave of the total. `--again` then builds a second time from the same tree, in
a new isolated environment, where nothing has changed. Processor time is little disturbed by other programs.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WRAPPER = """#!{python}
import resource, subprocess, sys
status = subprocess.call([{compiler!r}, *sys.argv[1:]])
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
with open({log!r}, "a") as log:
    log.write(f"{{usage.ru_utime + usage.ru_stime:.2f}} {{' '.join(sys.argv[1:])}}\\n")
sys.exit(status)
"""


def copy_tree(folder):
    """Copies the files that git tracks or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def build(tree, env):
    """Builds the wheel in a new isolated environment: (wall-clock time, processor time) in seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tree.parent / "wheel"), "."]
    subprocess.run(command, cwd=tree, env=env, check=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def sizes(wheel):
    """The sizes of the wheel and of the files in it, in bytes."""
    listed = subprocess.run([sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True)
    return wheel.stat().st_size, sum(int(line.split()[-1]) for line in listed.stdout.splitlines()[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=25, help="print this many files")
    parser.add_argument("--again", action="store_true", help="build a second time without a change")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree, log, compiler = folder / "tree", folder / "log", folder / "gcc"
        copy_tree(tree)
        real = shutil.which((os.environ.get("CC") or "gcc").split()[0])
        compiler.write_text(WRAPPER.format(python=sys.executable, compiler=real, log=str(log)))
        compiler.chmod(0o755)
        env = os.environ | {"CC": str(compiler)}
        wall, total = build(tree, env)
        rows = []
        for line in log.read_text().splitlines():
            seconds, command = line.split(" ", 1)
            if output := re.search(r"-o (\S+)", command):
                rows.append((float(seconds), re.sub(r"^.*?build/", "", output[1])))
        rows.sort(reverse=True)
        print(*(f"{seconds:8.1f} s  {output}" for seconds, output in rows[: args.rows]), sep="\n")
        compiled = sum(seconds for seconds, _ in rows)
        kernels = sum(seconds for seconds, output in rows if "simd" in output)
        print(
            f"{kernels:8.1f} s  all C sources\n{compiled - kernels:8.1f} s  all modules, compiled and linked\n"
            f"{total - compiled:8.1f} s  Cython, setuptools and pip\n"
            f"{total:8.1f} s  processor time\n{wall:8.1f} s  wall-clock time"
        )
        packed, unpacked = sizes(next((folder / "wheel").glob("*.whl")))
        print(f"{packed / 1e6:8.1f} MB wheel\n{unpacked / 1e6:8.1f} MB installed")
        if args.again:
            wall, total = build(tree, env)
            print(f"{total:8.1f} s  processor time of a build without a change\n{wall:8.1f} s  wall-clock time")


if __name__ == "__main__":
    main()
