"""What the commands for language models share: options, opening a model, progress."""

import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from .._io.files import check_outputs
from .arguments import between, number

KV_TYPES = ("f16", "q8_0", "f32")


def add_model(parser):
    """Adds the model and the number of threads."""
    parser.add_argument("model", metavar="MODEL", help="GGUF file (of a split file, any part), or an installed"
                        " package with one")  # fmt: skip
    parser.add_argument("--threads", type=between(1, 512), metavar="N", help="threads (default: all CPUs)")


def add_model_arguments(parser, context="up to 4096"):
    """Adds the model and the options of ggml.models.load; `context` tells the default of --ctx."""
    add_model(parser)
    parser.add_argument("--ctx", type=between(1, 1 << 24), metavar="N", help=f"tokens of context (default: {context})")
    parser.add_argument("--kv-type", choices=KV_TYPES, default="f16", help="type of keys and values (%(default)s)")
    parser.add_argument("--lora", action="append", default=[], metavar="FILE", help="adapter; can be repeated")


def add_sampling_arguments(parser):
    """Adds the options of Model.generate."""
    parser.add_argument("-n", "--max-tokens", type=between(1, 1 << 30), default=256, metavar="N",
                        help="most tokens of an answer (%(default)s)")  # fmt: skip
    rows = [
        ("--temperature", number(0, 100), 0.8, "0 takes the most likely token"),
        ("--top-k", between(0, 1 << 30), 40, "keep the K best tokens; 0: all"),
        ("--top-p", number(0, 1), 0.95, "keep the best tokens with this probability in sum; 1: all"),
        ("--min-p", number(0, 1), 0.05, "keep tokens with this share of the best one's probability; 0: all"),
        ("--repeat-penalty", number(0.01, 100), 1.0, "penalty of recent tokens; 1: none"),
    ]
    for name, kind, default, text in rows:
        parser.add_argument(name, type=kind, default=default, metavar="X", help=f"{text} (%(default)s)")
    parser.add_argument("--seed", type=between(0, 2**32 - 1), metavar="N", help="seed of random numbers (default: new)")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="ends the text before TEXT; can be"
                        " repeated")  # fmt: skip


def add_profile(parser):
    """Adds the option for a trace."""
    parser.add_argument("--profile", metavar="OUT", help="trace of all computes to write as JSON, for ui.perfetto.dev;"
                        " a summary goes to standard error")  # fmt: skip


@contextmanager
def profiled(path):
    """Profiles what runs inside and writes the trace, also after Ctrl-C; without a path it does nothing."""
    if path is None:
        yield
        return
    from ggml.profiler import profile

    p = profile()
    try:
        with p:
            yield
    finally:
        p.chrome_trace(path)
        print(p.summary(), p.table(), sep="\n\n", file=sys.stderr)


def sampling(options):
    """The arguments of Model.generate."""
    names = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed", "stop")
    return {name: getattr(options, name) for name in names}


def model_path(name):
    """The path of a model: a file, or the one GGUF file in an installed package of that name.

    The package is not imported.
    """
    package = name.replace("-", "_")
    if Path(name).exists() or not package.isidentifier():
        return name
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder).rglob("*.gguf")]
    return str(files[0]) if len(files) == 1 else name


def open_model(options, **more):
    """Opens the model of a command line."""
    from ggml.models import load

    settings = {"n_ctx": options.ctx, "threads": options.threads, "kv_type": options.kv_type, "lora": options.lora}
    return load(model_path(options.model), **settings | more)


def check_model_outputs(options, *outputs, inputs=()):
    """Refuses outputs that could not be written, or that would replace the model, an adapter or another input."""
    check_outputs(outputs, [model_path(options.model), *inputs])


def read_text(path):
    """The bytes of a text file, or of standard input for "-".

    Raises:
        ValueError: there are none, or they are a model.
    """
    text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    if not text:
        raise ValueError("standard input is empty" if path == "-" else f"{path}: the file is empty")
    if text.startswith(b"GGUF"):
        raise ValueError(f"{path} is a GGUF file: need a text")
    return text


@contextmanager
def progress(total, unit, what):
    """A progress bar on a terminal's standard error: call what is yielded with the number that is done."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield lambda done: None
        return
    with tqdm(total=total, unit=f" {unit}", desc=what, leave=False, disable=None) as bar:
        yield lambda done: bar.update(done - bar.n)


def report_speed(asked, first, count, seconds):
    """Prints the speed of an answer on standard error.

    Args:
        asked: int; tokens of the prompt.
        first: float; seconds until the first token.
        count: int; tokens of the answer.
        seconds: float; seconds of the whole answer.
    """
    line = f"prompt {asked} tokens in {first:.2f} s"
    if count > 1 and seconds > first:
        line += f", then {(count - 1) / (seconds - first):.1f} tokens/s ({count} tokens)"
    print(line, file=sys.stderr)
