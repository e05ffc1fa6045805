#!/usr/bin/env bash
# Builds with ThreadSanitizer, on threads that libgomp does not manage, and runs the tests of concurrency. Linux, GCC.
# A free-threaded Python runs them without the GIL.
# Usage: [PYTHON=python3.13t] scripts/sanitize_threads.sh
. "$(dirname "$0")/lib.sh"
temporary_folder
copy_tree "$WORK/tree"

say "building"
"$PYTHON" -m venv "$WORK/venv"
GGML_SANITIZE=thread "$WORK/venv/bin/pip" install -q --only-binary numpy "$WORK/tree" pytest

# Python is not instrumented: only accesses of this package's modules count. Some Linux kernels randomise
# addresses more than the run-time can handle, hence setarch.
say "running the tests"
# Frames of tracebacks lie in memory that Python hands from thread to thread unseen; so does the lock of a function's name.
printf 'race:%s\n' __Pyx_AddTraceback __Pyx_CyFunction_get_name_locked > "$WORK/suppressions"
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:report_signal_unsafe=0:exitcode=0:log_path=$WORK/tsan
TSAN_OPTIONS+=:suppressions=$WORK/suppressions
export LD_PRELOAD=$("${CC:-gcc}" -print-file-name=libtsan.so) OPENBLAS_NUM_THREADS=1
cd "$WORK"
setarch -R "$WORK/venv/bin/python" -m pytest -q -p no:cacheprovider -p no:faulthandler \
  "$ROOT"/tests/graph/test_threads.py || status=$?
for report in "$WORK"/tsan.*; do
  if [ -e "$report" ]; then cat "$report" && status=1; fi
done
[ "${status:-0}" = 0 ] || die "failed"
say "sanitize_threads: passed"
