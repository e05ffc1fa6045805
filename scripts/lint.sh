#!/usr/bin/env bash
# Checks that run nothing of the package: ruff, cython-lint, mypy (which reads the type stubs), check_sources.py, the
# syntax of the shell scripts, and check_ci.py.
# Usage: scripts/lint.sh   (tools: pip install --group lint)
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
need_stubs
say "ruff"
ruff check .
ruff format --check .
say "cython-lint"
cython-lint ggml
say "mypy"
mypy
say "sources"
"$PYTHON" scripts/check_sources.py
say "shell"
for script in scripts/*.sh .ci/run; do bash -n "$script"; done
say "workflows and wheels"
"$PYTHON" scripts/check_ci.py
say "lint: passed"
