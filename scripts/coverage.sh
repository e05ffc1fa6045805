#!/usr/bin/env bash
# Measures how many lines of the C sources the tests run (gcov), on every instruction set this machine has. A line of a
# kernel counts as run when the build for some instruction set ran it; files for other architectures do not count.
# Writes coverage/ (a report a file, and summary.txt). Fails below LEAST per cent.
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
# gcovr adds up the counts of a line that several objects hold.
"$WORK/venv/bin/gcovr" --root "$WORK/tree" --filter "$WORK/tree/ggml/_simd/" --object-directory "$WORK/tree/build" \
  --merge-mode-functions=merge-use-line-min --gcov-ignore-parse-errors=suspicious_hits.warn_once_per_file --txt "$ROOT/coverage/summary.txt" \
  --html-details "$ROOT/coverage/index.html" --fail-under-line "${LEAST:-95}" || status=$?
tail -n 3 "$ROOT/coverage/summary.txt"
[ "${status:-0}" = 0 ] || die "below ${LEAST:-95} % of lines"
say "coverage: passed"
