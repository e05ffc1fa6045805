"""Measures a server of language models with OpenAI's interface under load: throughput, and what single clients wait.

    python benchmarks/serve.py URL [--model NAME] [--clients N...] [--requests N] [--rate R] [--prompt LOW HIGH]
                               [--answer LOW HIGH] [--shared N] [--seed N] [--key KEY] [--pid N] [--json FILE]
    python benchmarks/serve.py --llama MODEL --port N [--ctx N] [--sequences N] [--threads N]
    python benchmarks/serve.py --plot PICTURE NAME=FILE...

The server may be `ggml serve`, llama-server or vLLM: it must have /v1/completions with streaming. N clients make
requests: each begins the next one when its last is answered, or, with --rate, requests arrive at random (a Poisson
process of R requests a second) and wait for a free client. Prompts are random words, of about LOW to HIGH tokens, after
--shared tokens that all have in common; answers have LOW to HIGH tokens. The same seed gives the same requests to each
server. It needs httpx.

For each number of clients it prints tokens of answers a second, the time to the first token and between tokens (median
and 99th percentile), how many requests failed, and the memory of the server, where /metrics tells it or --pid names it.

--llama runs llama-server in this process (PyPI: xllamacpp) until it is interrupted, to be measured by another one.
--plot draws what --json wrote, by the names of the servers (matplotlib).
"""

import argparse
import asyncio
import json
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

WORDS = """time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work number night point home water room""".split()


@dataclass
class Result:
    """What a client saw of a request: when it came, and its tokens."""

    arrived: float
    times: list[float] = field(default_factory=list)
    tokens: int = 0
    error: str | None = None


def requests_of(options, count):
    """The bodies of requests, and after how many seconds each comes."""
    dice = random.Random(options.seed)
    shared = " ".join(dice.choices(WORDS, k=options.shared))
    arrival = 0.0
    for _ in range(count):
        words = " ".join(dice.choices(WORDS, k=dice.randint(*options.prompt)))
        body = {"prompt": f"{shared} {words}".strip(), "max_tokens": dice.randint(*options.answer), "temperature": 0,
                "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}  # fmt: skip
        if options.model:
            body["model"] = options.model
        arrival += dice.expovariate(options.rate) if options.rate else 0.0
        yield arrival, body


async def ask(client, body, result):
    """Makes a request and notes when its parts come."""
    try:
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            if answer.status_code != 200:
                result.error = f"status {answer.status_code}"
                await answer.aread()
                return
            async for line in answer.aiter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                data = json.loads(line[6:])
                if data.get("choices") and data["choices"][0].get("text"):
                    result.times.append(time.perf_counter())
                if data.get("usage"):
                    result.tokens = data["usage"]["completion_tokens"]
                if "error" in data:
                    result.error = str(data["error"])
    except httpx.HTTPError as error:
        result.error = type(error).__name__


async def load(options, clients):
    """The results of all requests of some clients, and the seconds that they took."""
    headers = {"Authorization": f"Bearer {options.key}"} if options.key else {}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=options.url, headers=headers, timeout=None, limits=limits) as client:
        free, begin, results, tasks = asyncio.Semaphore(clients), time.perf_counter(), [], []

        async def one(body, result):
            async with free:
                if not options.rate:
                    result.arrived = time.perf_counter()
                await ask(client, body, result)

        for arrival, body in requests_of(options, options.requests):
            if (wait := begin + arrival - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            results.append(Result(time.perf_counter()))
            tasks.append(asyncio.create_task(one(body, results[-1])))
        await asyncio.gather(*tasks)
        return results, time.perf_counter() - begin, await memory(client, options.pid)


async def memory(client, pid):
    """The resident memory of the server in MB, None if nobody tells."""
    if pid:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    try:
        answer = await client.get("/metrics")
    except httpx.HTTPError:  # it has gone
        return None
    lines = answer.text.splitlines() if answer.status_code == 200 else []
    found = [float(line.split()[1]) for line in lines if line.startswith("process_resident_memory_bytes ")]
    return found[0] / 1e6 if found else None


def summary(clients, results, seconds, megabytes):
    """The numbers of a load."""
    good = [result for result in results if result.times and result.error is None]
    first = [result.times[0] - result.arrived for result in good]
    between = [gap for result in good for gap in np.diff(result.times)]

    def percentiles(values):
        return [float(np.percentile(values, p)) for p in (50, 99)] if len(values) else [float("nan")] * 2

    return {
        "clients": clients, "tokens_per_second": sum(result.tokens for result in good) / seconds,
        "first_token_s": percentiles(first), "between_tokens_s": percentiles(between),
        "failed": sum(result.error is not None for result in results), "memory_mb": megabytes,
    }  # fmt: skip


def run_llama(options):
    """Runs llama-server until it is interrupted."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path, settings.port, settings.n_parallel = options.llama, options.port, options.sequences
    settings.n_ctx = options.ctx * options.sequences
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = options.threads
    server = xllamacpp.Server(settings)
    print(server.listening_address, os.getpid(), flush=True)
    while True:
        time.sleep(1)


def plot(picture, files):
    """Draws the numbers of servers against the number of clients."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    for name, _, file in (item.partition("=") for item in files):
        with open(file, encoding="utf-8") as source:
            rows = json.load(source)
        clients = [row["clients"] for row in rows]
        axes[0].plot(clients, [row["tokens_per_second"] for row in rows], marker="o", label=name)
        for axis, key in ((axes[1], "first_token_s"), (axes[2], "between_tokens_s")):
            (line,) = axis.plot(clients, [row[key][0] for row in rows], marker="o", label=f"{name}, half")
            axis.plot(clients, [row[key][1] for row in rows], "--", color=line.get_color(), label=f"{name}, 99 %")
    for axis, title in zip(axes, ("Tokens a second", "First token, s", "Between tokens, s"), strict=True):
        axis.set(xlabel="clients", title=title, xscale="log")
        axis.legend(fontsize="small")
    for axis in axes[1:]:
        axis.set_yscale("log")
    figure.savefig(picture)


def main(arguments=None):
    """Measures, and prints a line for each number of clients; returns the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url", nargs="*")
    parser.add_argument("--llama")
    parser.add_argument("--plot")
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pid", type=int)
    parser.add_argument("--model")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--prompt", type=int, nargs=2, default=[32, 800])
    parser.add_argument("--answer", type=int, nargs=2, default=[16, 96])
    parser.add_argument("--shared", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--key")
    parser.add_argument("--json")
    options = parser.parse_args(arguments)
    if options.llama or options.plot:
        return run_llama(options) if options.llama else plot(options.plot, options.url)
    if len(options.url) != 1:
        parser.error("need the URL of a server")
    options.url = options.url[0]
    found = []
    print("clients  tokens/s  first token p50 / p99 s  between tokens p50 / p99 s  failed  memory MB")
    for clients in options.clients:
        row = summary(clients, *asyncio.run(load(options, clients)))
        found.append(row)
        (a, b), (c, d), size = row["first_token_s"], row["between_tokens_s"], row["memory_mb"]
        line = f"{clients:7}  {row['tokens_per_second']:8.1f}  {a:16.2f} / {b:.2f}  {c:20.3f} / {d:.3f}"
        print(f"{line}  {row['failed']:6}  {'' if size is None else f'{size:.0f}'}", flush=True)
        options.seed += 1  # other prompts, which no server knows yet
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    return found


if __name__ == "__main__":
    main()
