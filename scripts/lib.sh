# Functions for the other scripts in this folder, which source this file.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH PYTHONHOME

say() { printf '== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 2; }

# choose_tests core|all: sets SELECT, the arguments of pytest
choose_tests() {
  case ${1-all} in
    core) SELECT=(-m core) ;;
    all) SELECT=() ;;
    *) usage ;;
  esac
}

# temporary_folder: sets WORK, a new folder that is deleted at exit
temporary_folder() {
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
}

# copy_tree DIR: copies the files that git tracks or would add, and the type stubs, which a build there may be unable to
# make. A build with other flags there does not affect build/.
copy_tree() {
  mkdir -p "$1"
  (cd "$ROOT" && { git ls-files -z --cached --others --exclude-standard
    find ggml \( -name '*.pyi' -o -name _signatures.py \) -print0; } |
    while IFS= read -r -d '' f; do if [ -e "$f" ]; then printf '%s\0' "$f"; fi; done |
    tar --null -T - -cf -) | tar -xf - -C "$1"
}

# native_wheel DIR: builds the wheel for this machine and $PYTHON. Several scripts share one where $WHEELS names a folder.
native_wheel() {
  local built=${WHEELS:-$1}
  ls "$built"/*.whl >/dev/null 2>&1 || "$PYTHON" -m pip wheel -q --no-deps -w "$built" "$ROOT"
  [ "$built" = "$1" ] || { mkdir -p "$1" && cp "$built"/*.whl "$1"; }
}

# run_pytest PYTHON ARGUMENTS...: runs the tests outside of the tree, where Python finds only the installed ggml
run_pytest() {
  local python=$1
  shift
  (cd "${WORK:-/}" && "$python" -m pytest -p no:cacheprovider "$@" "$ROOT/tests")
}

# need_stubs: ends the script if the tree has no type stubs, which git does not hold
need_stubs() {
  [ -e "$ROOT/ggml/__init__.pyi" ] ||
    die "the tree has no type stubs: run 'python setup.py build_ext --inplace', or make_stubs.py where ggml is installed"
}
