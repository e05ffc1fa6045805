#!/usr/bin/env bash
# Runs the ONNX tests of the ctypes bindings' source distribution against ggml.contrib.onnx, in a new virtual environment
# with the releases of onnx and onnxruntime that they pin. Fails if a test fails that docs/onnx_bindings.md does not name.
# Usage: [PYTHON=python3.11] scripts/try_bindings_onnx.sh
. "$(dirname "$0")/lib.sh"
temporary_folder
native_wheel "$WORK/wheel"
"$PYTHON" -m venv "$WORK/venv"
"$WORK/venv/bin/pip" install -q "$WORK"/wheel/*.whl onnx==1.14.0 onnxruntime==1.15.1 "numpy<2" pytest tabulate
"$WORK/venv/bin/pip" download -q --no-deps --no-binary :all: -d "$WORK" ggml-python==0.0.45
mkdir "$WORK/tests"
tar xzf "$WORK"/ggml_python-*.tar.gz -C "$WORK/tests" --strip-components=2 --wildcards '*/tests/test_ggml_onnx.py'
(cd "$WORK/tests" && "$WORK/venv/bin/python" -m pytest -q --tb=no test_ggml_onnx.py) >"$WORK/log" || true
tail -n 1 "$WORK/log"
grep -q "[0-9] passed" "$WORK/log"
sed -n 's/^FAILED [^:]*::\([A-Za-z0-9_]*\).*/\1/p' "$WORK/log" | sort -u >"$WORK/failed"
while read -r name; do
  grep -q "\`$name\`" "$ROOT/docs/onnx_bindings.md" || die "$name fails, but docs/onnx_bindings.md does not name it"
done <"$WORK/failed"
say "the bindings' ONNX tests: passed"
