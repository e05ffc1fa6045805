"""Connections to `ggml serve` that send nothing or slowly, hang up at any moment or never read, beside honest ones.

    python fuzz/connections.py --seconds 60 --connections 10000

The exit status is 1 if an honest request fails, takes longer than LIMIT or gets another answer than alone, if the
memory of the server grows by more than GROWTH, or if texts are left behind.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx

# In place of this folder, whose gguf.py would be imported instead of the package.
sys.path[0] = str(Path(__file__).resolve().parent.parent / "tests")
import server  # noqa: E402
from server import GREEDY  # noqa: E402

from ggml.models import load  # noqa: E402

LIMIT, GROWTH = 60.0, 600e6
BODY = {"prompt": "hello", "max_tokens": 30, **GREEDY}
TEXT = json.dumps({**BODY, "stream": True}).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
WHOLE = HEAD % len(TEXT) + TEXT
KINDS = ("idle", "half head", "half body", "slow body", "hangs up", "does not read")


async def disturb(address, kind, dice, end, counts):
    """One connection after another of a kind."""
    while time.monotonic() < end:
        try:
            reader, writer = await asyncio.open_connection(*address)
        except OSError:
            counts["refused"] += 1
            await asyncio.sleep(1)
            continue
        counts[kind] += 1
        try:
            if kind == "hangs up":
                writer.write(WHOLE[: dice.randrange(len(WHOLE) + 200)])
                await reader.read(dice.choice([1, 100, 2000]))
            elif kind == "half head":
                writer.write(WHOLE[: dice.randrange(60)])
            elif kind == "half body":
                writer.write(HEAD % (1 << 20) + b'{"prompt": "' + bytes(dice.randrange(1000)))
            elif kind == "slow body":
                for byte in WHOLE:
                    if writer.transport.is_closing():
                        break
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.05)
            elif kind == "does not read":
                writer.transport.pause_reading()
                writer.write(WHOLE)
            if kind != "hangs up":
                await asyncio.wait_for(reader.read(), dice.uniform(10, 60))
        except (OSError, asyncio.TimeoutError):
            pass
        writer.transport.abort()


async def honest(url, expected, end, counts, longest):
    """A client whose answers must be right."""
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT) as client:
        while time.monotonic() < end:
            begin = time.monotonic()
            try:
                answer = await client.post("/v1/completions", json=BODY)
                right = answer.status_code == 200 and answer.json()["choices"][0]["text"] == expected
                counts["right" if right else "wrong"] += 1
            except httpx.HTTPError as error:
                counts[f"failed: {type(error).__name__}"] += 1
            longest.append(time.monotonic() - begin)


def resident(process):
    """The memory of a process in bytes."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def load_of(url, process, expected, options, counts):
    """All connections; returns the memory before, at most and after, and the longest answer."""
    host, _, port = url.removeprefix("http://").partition(":")
    end, longest, dice = time.monotonic() + options.seconds, [], random.Random(options.seed)
    await honest(url, expected, time.monotonic() + 2, counts, longest)
    before = most = resident(process)
    tasks = [honest(url, expected, end, counts, longest) for _ in range(4)]
    for i in range(options.connections):
        kind = "idle" if i < 0.9 * options.connections else KINDS[i % len(KINDS)]
        tasks.append(disturb((host, int(port)), kind, random.Random(dice.random()), end, counts))
    work = asyncio.gather(*tasks)
    while not work.done():
        await asyncio.sleep(0.5)
        most = max(most, resident(process))
        files = len(os.listdir(f"/proc/{process.pid}/fd"))
        counts["open at most"] = max(counts["open at most"], files)
    await asyncio.sleep(3)
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT) as client:
        lines = (await client.get("/metrics")).text.splitlines()
    left = sum(
        float(line.split()[1]) for line in lines if line.startswith(("ggml_active_texts{", "ggml_waiting_texts{"))
    )
    return before, most, resident(process), max(longest), left


def main():
    """Starts a server and disturbs it; prints the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    counts = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = server.write(Path(folder) / "tiny.gguf")
        with load(path, n_ctx=256, threads=1) as model:
            expected = "".join(model.generate(BODY["prompt"], max_tokens=30, **GREEDY))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-P", "-m", "ggml", "serve", str(path), "--port", str(port), "--ctx", "256",
                   "--threads", "1", "--cache-dir", f"{folder}/cache", "--cache-size", "0.05"]  # fmt: skip
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}"
        try:
            while True:
                try:
                    httpx.get(f"{url}/health").raise_for_status()
                    break
                except httpx.HTTPError:
                    time.sleep(0.1)
            before, most, after, longest, left = asyncio.run(load_of(url, process, expected, options, counts))
        finally:
            process.terminate()
            status = process.wait(60)
    print(f"{dict(counts)}, memory {before / 1e6:.0f} MB before, {most / 1e6:.0f} at most, {after / 1e6:.0f} after, "
          f"longest answer {longest:.1f} s, {left:.0f} texts left, status {status}")  # fmt: skip
    bad = counts["wrong"] + sum(count for name, count in counts.items() if name.startswith("failed"))
    return 1 if bad or left or not counts["right"] or longest > LIMIT or most > before + GROWTH else 0


if __name__ == "__main__":
    sys.exit(main())
