#!/usr/bin/env bash
# Installs this package and txtai, whose requirements name ggml-python, in a new virtual environment as
# docs/replacing_ggml_python.md says, and runs txtai's vector index. It downloads about 300 MB.
# Usage: [PYTHON=python3.12] [TXTAI="torch==2.13.0+cpu txtai"] scripts/try_txtai.sh
. "$(dirname "$0")/lib.sh"
temporary_folder
native_wheel "$WORK/wheel"
"$PYTHON" -m venv "$WORK/venv"
"$WORK/venv/bin/pip" install -q "$WORK"/wheel/*.whl
(cd "$WORK" && venv/bin/ggml replace-bindings)
# txtai[ann] contains other indexes as well: this is the part of it that names ggml-python
read -ra packages <<<"${TXTAI:-txtai}"
"$WORK/venv/bin/pip" install -q "${packages[@]}" "ggml-python>=0.0.41"
"$WORK/venv/bin/pip" check
(cd "$WORK" && venv/bin/python -c 'import ggml, sys; assert ggml._core and ggml.__file__.startswith(sys.prefix)')
(cd "$WORK" && venv/bin/python "$ROOT/scripts/try_txtai.py")
say "txtai: passed"
