"""Answer requests of programs over HTTP, in the forms of OpenAI's interface."""

import argparse
import os
import signal
import sys
from pathlib import Path

from .._extras import require
from .arguments import add_model, between, number
from .models import KV_TYPES
from .paths import model_path

PAIR = "NAME=FILE"
# Options that models which are divided among ranks cannot have
UNDIVIDED = {
    "lora": "adapters are not divided",
    "cache_dir": "each rank has a part of the keys and values only",
    "memory": "all ranks keep all models open",
}


def pair(text):
    """An argparse type: the pair of name and file from NAME=FILE."""
    name, _, file = text.partition("=")
    if not name or not file:
        raise argparse.ArgumentTypeError(f"{text!r} is not {PAIR}")
    return name, file


# Name, type, default, name of the value, help
VALUES = [
    ("--host", str, "127.0.0.1", "ADDRESS", "address to listen at (%(default)s: this machine only)"),
    ("--port", between(0, 65535), 8080, "N", "port (%(default)s)"),
    ("--api-key-file", str, None, "FILE", "file with a key on each line"),
    ("--ctx", between(1, 1 << 24), None, "N", "tokens of context (default: up to 4096)"),
    ("--sequences", between(1, 1 << 12), 8, "N", "texts that are computed together (%(default)s)"),
    ("--tokens", between(1, 1 << 30), None, "N",
     "tokens whose keys and values are kept (default: half of --sequences times --ctx)"),
    ("--chunk", between(1, 1 << 16), 128, "N", "most tokens of a step, which other texts wait for (%(default)s)"),
    ("--threads", between(1, 512), None, "N", "threads (default: all CPUs)"),
    ("--memory", number(0.01, 1e6), None, "GB",
     "most memory of open models: the least recently used are closed (default: no limit)"),
    ("--cache-dir", str, None, "DIR", "folder that keeps beginnings of texts, also for servers that start later"),
    ("--cache-size", number(0.001, 1e6), 10, "GB", "most bytes in it (%(default)s)"),
    ("--queue", between(0, 1 << 20), 256, "N",
     "texts that wait; requests beyond get status 429 (%(default)s)"),
    ("--timeout", number(1, 1e6), 600, "S", "seconds that a request may take (%(default)s)"),
]  # fmt: skip
# The same of options that can be repeated
LISTS = [
    ("--alias", str, "NAME", "name of a model in requests, in the order of the models (default: that of the file)"),
    ("--api-key", str, "KEY", "key that requests must have. Others see it in the list of processes"),
    ("--lora", pair, PAIR, "adapter, which MODEL:NAME in a request asks for"),
    ("--mmproj", str, "FILE",
     "encoder of pictures of a model, in the order of the models; requests have pictures as data: URLs"),
    ("--draft", str, "ngram|FILE",
     "what guesses tokens ahead for a model, in the order of the models: what followed the same tokens before, or a "
     "smaller model with the same tokens"),
    ("--cors", str, "ORIGIN", "origin whose pages may use the server, * for any"),
]  # fmt: skip


def add_arguments(parser):
    text = (
        "GGUF file, or an installed package with one; the first one answers requests that name none, the others are "
        "opened when they are asked for"
    )
    add_model(parser, nargs="+", metavar="MODEL", help=text)
    for name, kind, default, value, text in VALUES:
        parser.add_argument(name, type=kind, default=default, metavar=value, help=text)
    for name, kind, value, text in LISTS:
        parser.add_argument(
            name, action="append", type=kind, default=[], metavar=value, help=f"{text}; can be repeated"
        )
    parser.add_argument("--kv-type", choices=KV_TYPES, default="f16", help="type of keys and values (%(default)s)")
    parser.add_argument("--exact", action="store_true", help="answers do not depend on other requests; slower")


def keys_of(options):
    """The keys that requests may have."""
    keys = [*options.api_key]
    if options.api_key_file:
        keys += [line.strip() for line in Path(options.api_key_file).read_text(encoding="utf-8").splitlines()]
        if not any(keys):
            raise ValueError(f"{options.api_key_file}: there is no key")
    return [key for key in keys if key]


def models_of(options):
    """The files by their names in requests."""
    if len(options.alias) > len(options.model):
        raise ValueError(f"{len(options.alias)} names of --alias for {len(options.model)} models")
    found = {}
    for i, path in enumerate(options.model):
        name = options.alias[i] if i < len(options.alias) else Path(path).name.removesuffix(".gguf")
        if name in found:
            raise ValueError(f"two models have the name {name!r}: need --alias")
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file")
        found[name] = path
    return found


def in_order(name, values, models):
    """The values of an option by the names of the models."""
    if len(values) > len(models):
        raise ValueError(f"{len(values)} values of --{name} for {len(models)} models")
    return dict(zip(models, values, strict=False))


def drafts_of(options, models, opened):
    """What guesses for the models, by their names: "ngram", or what `opened` makes of a second model's name."""
    given = in_order("draft", options.draft, models)
    return {name: draft if draft == "ngram" else opened(draft) for name, draft in given.items()}


def run(options):
    require("", ["fastapi", "uvicorn", "prometheus_client"], "'ggml-cython[serve,llm]'")
    from ggml.distributed import mpi
    from ggml.serve.running import run as serve

    keys = keys_of(options)
    if not keys and options.host not in ("127.0.0.1", "localhost", "::1"):
        print(
            f"ggml serve: warning: everybody who reaches {options.host} can use the server: --api-key-file asks for"
            " a key",
            file=sys.stderr,
        )
    models = models_of(options)
    comm = mpi()
    if comm.size > 1:
        run_divided(options, comm, keys, models)
        return
    encoders = in_order("mmproj", options.mmproj, models)
    drafts = drafts_of(options, models, model_path)
    serve(application_of(options, keys, models, encoders, drafts), options.host, options.port)


def run_divided(options, comm, keys, models):
    """Serves models that are divided among ranks: the first one answers requests, the others compute with it."""
    from ggml.models import load
    from ggml.models.run.following import Leader, follow
    from ggml.serve.running import run as serve

    for name, reason in UNDIVIDED.items():
        if getattr(options, name):
            raise ValueError(f"--{name.replace('_', '-')} is given: need none with {comm.size} ranks: {reason}")
    encoders = in_order("mmproj", options.mmproj, models) if comm.rank == 0 else {}  # the others get what it gives
    loaded = {
        name: load(file, n_ctx=options.ctx, n_seq=options.sequences, threads=options.threads, kv_type=options.kv_type,
                   comm=comm, mmproj=encoders.get(name))
        for name, file in models.items()
    }  # fmt: skip
    runners = [model.runner for model in loaded.values()]
    if comm.rank:
        for number in (signal.SIGINT, signal.SIGTERM):  # which the launcher sends to all: the first rank ends them
            signal.signal(number, signal.SIG_IGN)
        follow(runners)
        return
    leader = Leader(runners)
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn ends itself, then repeats the signal
    try:
        settings = {"n_ctx": options.ctx, "n_seq": options.sequences, "threads": options.threads}
        drafts = drafts_of(options, models, lambda draft: load(model_path(draft), **settings))
        serve(application_of(options, keys, loaded, {}, drafts), options.host, options.port)
    finally:
        leader.close()


def application_of(options, keys, models, encoders, drafts):
    """The application for models by name, with encoders and drafts by these names."""
    from ggml.serve import app

    return app(
        models,
        n_ctx=options.ctx,
        sequences=options.sequences,
        threads=options.threads,
        kv_type=options.kv_type,
        tokens=options.tokens,
        chunk=max(options.chunk, options.sequences),
        exact=options.exact,
        memory=options.memory and int(options.memory * 1e9),
        cache_dir=options.cache_dir,
        cache_bytes=int(options.cache_size * 1e9),
        queue=options.queue,
        timeout=options.timeout,
        keys=keys,
        cors=options.cors,
        adapters={name: model_path(file) for name, file in options.lora},
        encoders=encoders,
        drafts=drafts,
    )
