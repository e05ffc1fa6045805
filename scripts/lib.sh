# Shared by the scripts beside it: they source this file, it does nothing by itself.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH PYTHONHOME

say() { printf '== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 2; }

# core | all -> SELECT, arguments for pytest
choose_tests() {
  case ${1-all} in
    core) SELECT=(-m core) ;;
    all) SELECT=() ;;
    *) usage ;;
  esac
}

# WORK: a folder of this run's own, gone at its end
temporary_folder() {
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
}

# copy_tree DIR: the files git knows or would add, so that a build with other flags leaves this tree's build/ alone
copy_tree() {
  mkdir -p "$1"
  (cd "$ROOT" && git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' f; do [ -e "$f" ] && printf '%s\0' "$f"; done |
    tar --null -T - -cf -) | tar -xf - -C "$1"
}

# native_wheel DIR: this tree's wheel for this machine and $PYTHON
native_wheel() {
  "$PYTHON" -m pip wheel -q --no-deps -w "$1" "$ROOT"
  [ -n "$(ls "$1"/*.whl)" ]
}

# run_pytest PYTHON ARGUMENTS...: from outside the tree, where only the installed ggml can be found
run_pytest() {
  local python=$1
  shift
  (cd "${WORK:-/}" && "$python" -m pytest -p no:cacheprovider "$@" "$ROOT/tests")
}
