"""Requests as editors make them, by plain HTTP: filling in by `/infill` and by `suffix`, whole and in parts.

The model is one of random weights with tokens for filling in: what comes back is no program, but the forms are checked.
"""

import json
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
import server  # noqa: E402
from served import served  # noqa: E402

NUMBERS = {"pre": 3, "suf": 4, "mid": 5}
TOKENS = {f"tokenizer.ggml.fim_{name}_token_id": number for name, number in NUMBERS.items()}


def post(url, path, **body):
    """The answer to a request: JSON, or the events of a stream."""
    data = json.dumps({"max_tokens": 12, "temperature": 0, "ignore_eos": True, **body}).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        text = answer.read().decode()
    return server.events(text) if body.get("stream") else json.loads(text)


with tempfile.TemporaryDirectory() as folder:
    path = server.write(Path(folder) / "tiny.gguf", **TOKENS)
    with served("--ctx", "256", model=str(path)) as url:
        before, after = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"
        found = post(url, "/infill", input_prefix=before, input_suffix=after, n_predict=12)
        assert found["stop"] and found["tokens_predicted"] == 12
        parts = post(url, "/infill", input_prefix=before, input_suffix=after, n_predict=12, stream=True)
        assert "".join(part["content"] for part in parts) == found["content"]
        by_suffix = post(url, "/v1/completions", prompt=before, suffix=after)["choices"][0]["text"]
        assert by_suffix == found["content"]
        parts = post(url, "/v1/completions", prompt=before, suffix=after, stream=True)
        assert "".join(part["choices"][0]["text"] for part in parts) == by_suffix
        print("fim: passed")
