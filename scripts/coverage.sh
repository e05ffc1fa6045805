#!/usr/bin/env bash
# Measures the line coverage of the C sources (gcov) on all instruction sets of this machine. A line of a kernel is
# covered if the build for at least one instruction set ran it. Files for other architectures are not counted.
# Writes a report for each file and summary.txt to coverage/. Fails if the coverage is below LEAST per cent.
# Usage: [PYTHON=python3.12] [LEAST=95] scripts/coverage.sh [core|all]
. "$(dirname "$0")/lib.sh"
choose_tests "$@"
temporary_folder
copy_tree "$WORK/tree"

say "building"
"$PYTHON" -m venv "$WORK/venv"
"$WORK/venv/bin/pip" install -q gcovr
GGML_COVERAGE=1 "$WORK/venv/bin/pip" install -q "$WORK/tree[test]"

say "running the tests"
run_pytest "$WORK/venv/bin/python" ${SELECT[@]+"${SELECT[@]}"}

rm -rf "$ROOT/coverage"
mkdir "$ROOT/coverage"
# gcovr adds the counts of all objects that contain a line.
"$WORK/venv/bin/gcovr" --root "$WORK/tree" --filter "$WORK/tree/ggml/_simd/" --object-directory "$WORK/tree/build" \
  --merge-mode-functions=merge-use-line-min --gcov-ignore-parse-errors=suspicious_hits.warn_once_per_file \
  --txt "$ROOT/coverage/summary.txt" --html-details "$ROOT/coverage/index.html" \
  --fail-under-line "${LEAST:-95}" || status=$?
tail -n 3 "$ROOT/coverage/summary.txt"
[ "${status:-0}" = 0 ] || die "line coverage is below ${LEAST:-95} %"
say "coverage: passed"
