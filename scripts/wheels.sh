#!/usr/bin/env bash
# scripts/wheel.sh for every CPython from 3.10 on that this machine has, each found by its name on the PATH or in pyenv.
# Usage: scripts/wheels.sh [core|all]
. "$(dirname "$0")/lib.sh"
choose_tests "$@"
tried=()
for version in 3.10 3.11 3.12 3.13 3.14; do
  found=$(compgen -G "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version.*/bin/python" | head -n 1 || true)
  if python=${found:-$(command -v "python$version")} && "$python" -c "import venv, ensurepip" 2>/dev/null; then
    PYTHON=$python bash "$ROOT/scripts/wheel.sh" "${1-all}"
    tried+=("$version")
  else
    say "no Python $version here"
  fi
done
[ ${#tried[@]} -gt 0 ] || die "found no Python"
say "wheels: passed with ${tried[*]}"
