#!/usr/bin/env bash
# Checks that need no build: ruff, mypy, rules of the sources, the shell scripts' syntax, workflows, the set of wheels.
# Usage: scripts/lint.sh   (tools: pip install --group lint)
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
say "ruff"
ruff check .
say "mypy"
mypy
say "sources"
"$PYTHON" scripts/check_sources.py
say "shell"
for script in scripts/*.sh .ci/run; do bash -n "$script"; done
say "workflows and wheels"
"$PYTHON" scripts/check_ci.py
say "lint: passed"
