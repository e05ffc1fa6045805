"""Clients of `ggml.serve` that come, go and hang up; each finished answer must be the one that its request gets alone.

    python fuzz/serve.py --seconds 3600 --clients 100

There is less memory for keys and values than the texts need, so texts are put back. Counts and memory are printed nine
times on the way. The exit status is 1 if an answer differs, a request fails, a text remains in the server after its
client has gone, or memory grows.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx

# In place of this folder, whose gguf.py would be imported instead of the package.
sys.path[0] = str(Path(__file__).resolve().parent.parent / "tests")
import server  # noqa: E402
from server import GREEDY, SETTINGS  # noqa: E402

from ggml.models import load  # noqa: E402
from ggml.serve import app  # noqa: E402

TEXTS = 40
GROWTH = 64e6  # bytes, after the first tenth of the time
CHAT = "/v1/chat/completions"
MEMORY = "process_resident_memory_bytes"


def conversations(path):
    """Bodies of requests, and the answer that each gets alone."""
    with load(path, n_ctx=256, threads=1) as model:
        for i in range(TEXTS):
            content = "".join(random.Random(i).choices("abcdefgh ", k=10 + 3 * i))
            body = {"messages": [{"role": "user", "content": content}], "max_tokens": 5 + i, **GREEDY}
            yield body, "".join(model.chat(body["messages"], max_tokens=5 + i, **GREEDY))


async def visit(client, dice, cases, end, limit, counts):
    """One client: asks, reads, hangs up."""
    while time.monotonic() < end:
        body, expected = dice.choice(cases)
        stream, patience = dice.random() < 0.5, dice.choice([0.001, 0.02, 0.1, limit, limit, limit])
        try:
            answer = await asyncio.wait_for(client.post(CHAT, json={**body, "stream": stream}), patience)
        except asyncio.TimeoutError:
            counts["hung up" if patience < limit else "stuck"] += 1
            continue
        if answer.status_code != 200:
            counts["failed"] += 1
            print(answer.status_code, answer.text[:200])
            continue
        if stream:
            parts = [event["choices"][0]["delta"] for event in server.events(answer.text) if "choices" in event]
            text = "".join(part.get("content", "") for part in parts)
        else:
            text = answer.json()["choices"][0]["message"]["content"]
        counts["equal" if text == expected else "different"] += 1


async def numbers(client):
    """The numbers of the server, added up over models."""
    lines = (line for line in (await client.get("/metrics")).text.splitlines() if not line.startswith("#"))
    return {name.partition("{")[0]: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def soak(url, cases, options, counts):
    """All clients; returns how much memory grew, and the texts that are left."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as client:
        end, limit = time.monotonic() + options.seconds, options.limit
        dice = [random.Random(options.seed + i) for i in range(options.clients)]
        work = asyncio.ensure_future(asyncio.gather(*(visit(client, d, cases, end, limit, counts) for d in dice)))
        sizes = []
        for _ in range(9):
            await asyncio.wait({work}, timeout=options.seconds / 10)
            sizes.append((await numbers(client))[MEMORY])
            print(f"{dict(counts)}, {sizes[-1] / 1e6:.1f} MB", flush=True)
        await work
        await asyncio.sleep(1)
        after = await numbers(client)
        counts["put back"] = int(after.get("ggml_texts_put_back_total", 0))
        return after[MEMORY] - sizes[0], after["ggml_active_texts"] + after["ggml_waiting_texts"]


def main():
    """Runs clients; prints the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=120, help="seconds after which an answer counts as stuck")
    options = parser.parse_args()
    counts = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = server.write(Path(folder) / "tiny.gguf")
        cases = list(conversations(path))
        settings = {**SETTINGS, "tokens": 300, "kept": 4, "queue": 10 * options.clients}
        with server.listening(app({"tiny": path}, **settings), timeout_keep_alive=round(options.limit)) as url:
            growth, left = asyncio.run(soak(url, cases, options, counts))
    print(f"{dict(counts)}, {left:.0f} texts left, memory grew by {growth / 1e6:.1f} MB")
    wrong = counts["different"] + counts["failed"] + counts["stuck"] + left
    return 1 if wrong or growth > GROWTH or not counts["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
