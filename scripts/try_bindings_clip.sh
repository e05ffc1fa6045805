#!/usr/bin/env bash
# Runs model.py of the example clip of the ctypes bindings' source distribution, with the changes that
# docs/bindings_examples.md shows, on a model of random weights that the test writes. ggml must be installed or built in place.
# Usage: [PYTHON=python3.11] scripts/try_bindings_clip.sh
. "$(dirname "$0")/lib.sh"
temporary_folder
"$PYTHON" -m venv "$WORK/tools"
"$WORK/tools/bin/pip" install -q scikit-build-core # without which pip does not even download the archive
"$WORK/tools/bin/pip" download -q --no-deps --no-build-isolation --no-binary ggml-python -d "$WORK" ggml-python==0.0.45
tar xzf "$WORK"/ggml_python-*.tar.gz -C "$WORK" --strip-components=3 --wildcards '*/examples/clip/model.py'
sed -i 's/^from ggml\.experimental import/from experimental import/
  s/cgraph=ggml\.ggml_cgraph(n_threads=self\.n_threads)/self.n_threads/' "$WORK/model.py"
GGML_CLIP=$WORK/model.py "$PYTHON" -m pytest -p no:cacheprovider "$ROOT/tests/core/test_bindings_examples.py" |
  tee "$WORK/log"
grep -q "3 passed" "$WORK/log" || die "the example was not run"
say "the bindings' example clip: passed"
