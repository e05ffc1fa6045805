"""The command `ggml serve` as a process that others end."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

for library in ("gguf", "jinja2", "tokenizers", "llguidance", "fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(library)  # of the extra [test]
if sys.platform == "win32":
    pytest.skip("signals", allow_module_level=True)

import httpx  # noqa: E402
import tiny_models  # noqa: E402

PROMPT = [3 + i * i % 90 for i in range(200)]


@contextlib.contextmanager
def server(path, *options):
    """Runs the command; yields the process and a client."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "ggml", "serve", str(path), "--port", str(port), "--ctx", "512", "--threads", "1",
               *options]  # fmt: skip
    process = subprocess.Popen(command)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            while True:
                assert process.poll() is None
                with contextlib.suppress(httpx.TransportError):
                    if client.get("/health").status_code == 200:
                        break
                time.sleep(0.05)
            yield process, client
    finally:
        process.kill()
        process.wait()


def ask(client, most=4):
    body = {"prompt": PROMPT, "max_tokens": most, "temperature": 0, "exact": True, "ignore_eos": True}
    return client.post("/v1/completions", json=body)


def test_killed_and_started_again(tmp_path):
    path, cache = tiny_models.write(tmp_path / "m.gguf", "llama"), tmp_path / "cache"
    with server(path, "--cache-dir", str(cache)) as (process, client):
        first = ask(client).json()
        while len(list(cache.glob("*.kv"))) < 3:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with server(path, "--cache-dir", str(cache)) as (process, client):
        again = ask(client).json()
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 192
        assert again["choices"][0]["text"] == first["choices"][0]["text"]
        found = []
        asking = threading.Thread(target=lambda: found.append(ask(client, 300)))
        asking.start()
        while (
            "ggml_active_texts" not in (numbers := client.get("/metrics").text) or 'texts{model="m"} 1.0' not in numbers
        ):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)  # what runs is finished
        asking.join()
        assert found[0].status_code == 200 and found[0].json()["usage"]["completion_tokens"] == 300
        assert process.wait(30) in (0, -signal.SIGTERM)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of processes")
@pytest.mark.parametrize("spare", [1, 16])
def test_limited_memory(spare, tmp_path):
    """Where the process gets no more memory, requests get status 503 or wait, and the server goes on."""
    import resource

    path = tiny_models.write(tmp_path / "m.gguf", "llama")
    body = {"max_tokens": 8, "temperature": 0, "exact": True, "ignore_eos": True}
    prompts = [[3 + (i * i + 7 * k) % 90 for i in range(900)] for k in range(16)]

    def answer(client, prompt):
        return client.post("/v1/completions", json={"prompt": prompt, **body})

    with server(path, "--ctx", "1024", "--kv-type", "f32", "--tokens", "16384") as (process, client):
        assert ask(client).status_code == 200
        pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[0])
        unlimited = resource.prlimit(process.pid, resource.RLIMIT_AS)
        most = pages * os.sysconf("SC_PAGE_SIZE") + (spare << 20)
        resource.prlimit(process.pid, resource.RLIMIT_AS, (most, unlimited[1]))
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda prompt: answer(client, prompt), prompts))
        assert process.poll() is None
        resource.prlimit(process.pid, resource.RLIMIT_AS, unlimited)
        assert {item.status_code for item in found} <= {200, 503}
        for item, prompt in zip(found, prompts, strict=True):
            again = answer(client, prompt)
            assert again.status_code == 200
            if item.status_code == 200:
                assert item.json()["choices"][0]["text"] == again.json()["choices"][0]["text"]
            else:
                assert int(item.headers["retry-after"]) > 0 and item.json()["error"]["type"] == "overloaded_error"
