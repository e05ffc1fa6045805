"""Several replicas of `ggml serve` under Ray Serve, which starts them, watches them and spreads requests over them.

    pip install '.[serve,llm]' 'ray[serve]'
    python examples/serve_ray.py MODEL [--replicas 2] [--threads 1] [--port 8000]

Each replica has the whole model, of which replicas of one machine share the pages of weights. A request goes to a
replica with few requests; which beginnings of texts it knows does not count. `--once` asks a question and ends.
"""

import argparse
import json
import time
import urllib.request

from ray import serve


def application(path, threads):
    """A function that makes the ASGI application in each replica."""

    def build():
        from ggml.serve import app

        return app({"model": path}, threads=threads)

    return build


def ask(port, question):
    """The answer to a question."""
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 24, "temperature": 0}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    replica = serve.ingress(application(options.model, options.threads))()
    deployment = serve.deployment(
        replica, name="ggml", num_replicas=options.replicas, max_ongoing_requests=64,
        ray_actor_options={"num_cpus": options.threads}, health_check_period_s=5, graceful_shutdown_timeout_s=30,
    )  # fmt: skip
    serve.start(http_options={"host": "127.0.0.1", "port": options.port})
    serve.run(deployment.bind(), name="ggml", route_prefix="/")
    if options.once:
        print(ask(options.port, "Name the capital of France."))
        serve.shutdown()
        return
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()
