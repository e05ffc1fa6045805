#!/usr/bin/env bash
# Builds with the address and undefined-behaviour sanitizers and runs the tests, or the fuzzers for SECONDS_EACH.
# Arenas are poisoned around tensors (runtime/poison.h). Linux, with GCC or clang.
# Usage: [PYTHON=python3.12] [SECONDS_EACH=300] scripts/sanitize.sh [core|all|fuzz]
. "$(dirname "$0")/lib.sh"
[ "${1-all}" = fuzz ] || choose_tests "$@"
temporary_folder
copy_tree "$WORK/tree"

say "building"
"$PYTHON" -m venv "$WORK/venv"
GGML_SANITIZE=1 "$WORK/venv/bin/pip" install -q "$WORK/tree[test]"

# The runtime must be loaded before Python starts. libstdc++ is loaded too, because ASan resolves __cxa_throw at start,
# and C++ modules such as matplotlib's throw exceptions.
cc=${CC:-gcc}
runtime=$($cc -print-file-name=libasan.so)
[ -e "$runtime" ] || runtime=$($cc -print-file-name=libclang_rt.asan-x86_64.so)
[ -e "$runtime" ] || die "no address sanitizer runtime for $cc"
export LD_PRELOAD="$runtime $($cc -print-file-name=libstdc++.so.6)"
# No leak detection: CPython keeps memory until exit. Python's own allocator is off (PYTHONMALLOC), so that the sanitizer
# sees each object as a block. Reports are written to files, because pytest captures the output of a process that dies,
# and child processes write reports too.
ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:allocator_may_return_null=1:handle_segv=1
export ASAN_OPTIONS=$ASAN_OPTIONS:log_path=$WORK/asan
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:log_path=$WORK/ubsan PYTHONMALLOC=malloc
if [ "${1-all}" = fuzz ]; then
  cd "$WORK"
  for fuzzer in calls gguf fields models onnx_models programs; do
    say "running fuzz/$fuzzer.py"
    "$WORK/venv/bin/python" "$ROOT/fuzz/$fuzzer.py" --seconds "${SECONDS_EACH:-300}" || status=$?
  done
else
  say "running the tests"
  run_pytest "$WORK/venv/bin/python" -p no:faulthandler ${SELECT[@]+"${SELECT[@]}"} || status=$?
fi
# Not a fault: a mutant of a fuzzer asked for terabytes, the allocation failed, and the caller raised an exception. A size
# of 2^63 or more is a fault, because only a computation that wrapped gives it.
refused='WARNING: AddressSanitizer failed to allocate 0x([0-9a-f]{1,15}|[0-7][0-9a-f]{15}) bytes'
for report in "$WORK"/asan.* "$WORK"/ubsan.*; do
  if [ -e "$report" ] && grep -Ev "$refused" "$report"; then status=1; fi
done
[ "${status:-0}" = 0 ] || die "failed"
say "sanitize: passed"
