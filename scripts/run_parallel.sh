#!/usr/bin/env bash
# Runs the core tests in a Python without a GIL, each of them in several threads at once: the objects that a test makes
# are its thread's own, all else is shared. Needs the package, pytest and pytest-run-parallel in that environment.
# Usage: [PYTHON=python3.13t] [THREADS="4 8"] scripts/run_parallel.sh [PYTEST ARGUMENT...]
. "$(dirname "$0")/lib.sh"

# What a test has in common with its other threads: a fixture's context, the instruction set, the profiler, fusions. Tests
# of child processes would start several at once. They run in one thread.
fixtures=(ctx cpu child capsys monkeypatch)
functions=(cases.harness.isa cases.harness.gradients cases.harness.convolved ggml.profile subprocess.run subprocess.Popen)
lines() { printf '%s\n' "$@"; }

"$PYTHON" -c 'import sys; assert not sys._is_gil_enabled(), "this Python has a GIL"'
for threads in ${THREADS:-4 8}; do
  say "$threads threads"
  (cd "$ROOT" && "$PYTHON" -m pytest -q -p no:cacheprovider -m core --parallel-threads="$threads" \
    -o thread_unsafe_fixtures="$(lines "${fixtures[@]}")" -o thread_unsafe_functions="$(lines "${functions[@]}")" "$@")
done
say "run_parallel: passed"
