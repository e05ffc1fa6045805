#!/usr/bin/env bash
# Runs tests where threads, stacks or memory are limited, and in a forked child. Linux. ggml is installed for $PYTHON.
# Usage: [PYTHON=python3.12] scripts/limits.sh [core|all]
# core: the core tests under four limits. all: the tests that compute most, and more limits.
. "$(dirname "$0")/lib.sh"
choose_tests "$@"
temporary_folder
cd "$WORK"
CORE=(-m core "$ROOT/tests")
# the core tests that start no process
ALONE="not environment and not unknown_isa and not no_regular_file and not killed_process"
TESTS=("${CORE[@]}")
if [ "${1-all}" = all ]; then
  TESTS=("$ROOT"/tests/*/test_{core,copies,conv,quants,threads,graph,attention,recurrent}.py)
fi
for name in $(compgen -e | grep '^G\?OMP_'); do unset "$name"; done

# limited TITLE COMMAND...: runs pytest by a command, to which the arguments of Python are appended
limited() {
  say "$1"
  shift
  # The time limit ends a run that hangs.
  timeout 3600 "$@" -m pytest -q -p no:cacheprovider "${TESTS[@]}" || failures+=("$*")
}
# The user's threads and processes are limited to this process: only the core tests can do without. Root is exempt from
# the limit, and becomes another user that may read and write the files.
one_thread() {
  local user=() TESTS=("${CORE[@]}" -k "$ALONE")
  if [ "$(id -u)" = 0 ]; then
    user=(setpriv --reuid=54321 --clear-groups --inh-caps=-all,+dac_override --ambient-caps=-all,+dac_override)
  fi
  limited "no thread can be created" prlimit --nproc=1 "${user[@]+"${user[@]}"}" env OPENBLAS_NUM_THREADS=1 "$PYTHON"
}
# In a child that was forked after a region of another library, as in a worker of multiprocessing.
forked() {
  printf '%s\n' 'int region(int n) {' '    int sum = 0;' '#pragma omp parallel num_threads(n) reduction(+ : sum)' \
    '    sum += 1;' '    return sum;' '}' >other.c
  "${CC:-cc}" -fopenmp -shared -fPIC other.c -o other.so
  cat >forked.py <<'END'
import ctypes, os, runpy, sys

ctypes.CDLL("./other.so").region(4)
import ggml

pid = os.fork()
if pid:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
sys.argv = sys.argv[2:]
runpy.run_module("pytest", run_name="__main__")
END
  limited "in a forked child" "$PYTHON" forked.py
}
failures=()
limited "the smallest stacks on which kernels run" env OMP_STACKSIZE=112k "$PYTHON"
limited "address space of 4 GiB" prlimit --as=$((4 << 30)) "$PYTHON"
one_thread
forked
if [ "${1-all}" = all ]; then
  limited "stacks too small for kernels" env OMP_STACKSIZE=16k "$PYTHON"
  limited "stacks too large" env OMP_STACKSIZE=100g "$PYTHON"
  limited "OMP_THREAD_LIMIT=1" env OMP_THREAD_LIMIT=1 "$PYTHON"
fi
for failure in ${failures[@]+"${failures[@]}"}; do echo "failed: $failure"; done
[ ${#failures[@]} = 0 ] || die "failed"
say "limits: passed"
