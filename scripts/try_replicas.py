"""Two `ggml serve` of one model behind HAProxy (examples/serve/haproxy.cfg): one is killed under load and comes back.

No request whose answer had not begun is lost, each answer is the one that its prompt gets alone, and prompts that begin
alike go to the server that knows them. Needs haproxy, and pip install '.[test]'. See try_replicas.sh.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
import server  # noqa: E402

from ggml.models import load  # noqa: E402

CLIENTS, PREFIXES, SECONDS = 12, 8, 6.0  # seconds before, between and after what happens to a server
OPTIONS = {"max_tokens": 24, **server.GREEDY}


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def started(path, port):
    """A server, once it answers."""
    command = [sys.executable, "-P", "-m", "ggml", "serve", str(path), "--port", str(port), "--ctx", "1024",
               "--threads", "1"]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while True:
        assert process.poll() is None
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                return process
        time.sleep(0.1)


def prompt_of(number, question):
    """A prompt of which the first part is shared by all with this number."""
    return f"{number} " * 200 + f"question {question}"


async def visit(url, client, expected, end, counts):
    """Asks again and again, whole and in parts."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        question = client
        while time.monotonic() < end():
            question += CLIENTS
            key = (question % PREFIXES, question % 3)
            body = {"prompt": prompt_of(*key), "stream": question % 4 == 0, **OPTIONS}
            text = ""
            try:
                async with http.stream("POST", "/v1/completions", json=body) as answer:
                    if answer.status_code != 200:
                        counts[f"status {answer.status_code}"] += 1
                        continue
                    async for part in answer.aiter_text():
                        text += part
            except httpx.HTTPError as error:  # a stream that had begun can't be sent again
                counts["cut" if text or body["stream"] else f"lost: {type(error).__name__}"] += 1
                continue
            if body["stream"]:
                found = "".join(event["choices"][0]["text"] for event in server.events(text) if event.get("choices"))
            else:
                answer = server.json.loads(text)
                found = answer["choices"][0]["text"]
                counts["prefix known"] += answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
            counts["right" if found == expected[key] else "wrong"] += 1


def answered_by(port):
    """How many texts a server has computed."""
    lines = httpx.get(f"http://127.0.0.1:{port}/metrics").text.splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith("ggml_texts_total{"))


async def loaded(front, path, ports, processes, expected, counts):
    """Load, during which the first server is killed and comes back; the texts of each server at the end."""
    ends = [time.monotonic() + 3600]
    url = f"http://127.0.0.1:{front}"
    work = asyncio.gather(*(visit(url, i, expected, lambda: ends[0], counts) for i in range(CLIENTS)))
    await asyncio.sleep(SECONDS)
    before = [answered_by(port) for port in ports]
    processes[0].send_signal(signal.SIGKILL)
    await asyncio.sleep(SECONDS)
    processes[0] = await asyncio.to_thread(started, path, ports[0])
    await asyncio.sleep(SECONDS)
    ends[0] = 0.0
    await work
    return before, [answered_by(port) for port in ports]


def main():
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = server.write(Path(folder) / "tiny.gguf")
        with load(path, n_ctx=1024, threads=1) as model:
            keys = [(number, question) for number in range(PREFIXES) for question in range(3)]
            expected = {key: "".join(model.generate(prompt_of(*key), **OPTIONS)) for key in keys}
        front, *ports = free_ports(3)
        processes = [started(path, port) for port in ports]
        environment = {**os.environ, "FRONT": str(front), "ONE": str(ports[0]), "TWO": str(ports[1])}
        proxy = subprocess.Popen(
            ["haproxy", "-f", str(ROOT / "examples" / "serve" / "haproxy.cfg")],
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(lambda: [process.kill() for process in (proxy, *processes)])
        time.sleep(1)
        before, after = asyncio.run(loaded(front, path, ports, processes, expected, counts))
    print(f"{dict(counts)}; texts of each server before it was killed {before}, at the end {after}")
    bad = counts["wrong"] + sum(n for name, n in counts.items() if name.startswith(("lost", "status")))
    return 1 if bad or not all(before) or not all(after) or counts["prefix known"] < counts["right"] / 2 else 0


if __name__ == "__main__":
    sys.exit(main())
