"""What the commands for language models share: options, opening a model, progress."""

import sys
from contextlib import contextmanager

from .arguments import add_model, between, number
from .output import unescaped
from .paths import read_text

KV_TYPES = ("f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")


def add_model_and_threads(parser):
    """Adds the model and the number of threads."""
    add_model(parser, metavar="MODEL", help="GGUF file (of a split file, any part), or an installed package with one")
    parser.add_argument("--threads", type=between(1, 512), metavar="N", help="threads (default: all CPUs)")


def add_model_arguments(parser, context="up to 4096"):
    """Adds the model and the options of ggml.models.load; `context` tells the default of --ctx."""
    add_model_and_threads(parser)
    parser.add_argument("--ctx", type=between(1, 1 << 24), metavar="N", help=f"tokens of context (default: {context})")
    parser.add_argument("--kv-type", choices=KV_TYPES, default="f16", help="type of keys and values (%(default)s)")
    add_model(parser, "--lora", action="append", default=[], metavar="FILE", help="adapter; can be repeated")


def add_image_arguments(parser, where):
    """Adds pictures and their encoder; `where` tells what the pictures are for."""
    parser.add_argument("--mmproj", metavar="FILE", help="GGUF file with the model's encoder of pictures")
    parser.add_argument(
        "--image", action="append", default=[], metavar="FILE", help=f"picture {where}; can be repeated"
    )


def add_sampling_arguments(parser):
    """Adds the options of Model.generate."""
    parser.add_argument("-n", "--max-tokens", type=between(1, 1 << 30), default=256, metavar="N",
                        help="most tokens of an answer (%(default)s)")  # fmt: skip
    whole = between(-1, (1 << 31) - 1)
    rows = [
        ("--temperature", number(-1e6, 1e6), "0.8", "0 takes the most likely token"),
        ("--top-k", whole, "40", "keep the K best tokens; 0: all"),
        ("--top-p", number(0, 1), "0.95", "keep the best tokens with this probability in sum; 1: all"),
        ("--min-p", number(0, 1), "0.05", "keep tokens with this share of the best one's probability; 0: all"),
        ("--typical-p", number(0, 1), "1", "keep tokens of typical surprise with this probability in sum; 1: all"),
        ("--top-n-sigma", number(-1, 1e6), "-1", "keep tokens so many standard deviations below the best; -1: all"),
        ("--repeat-penalty", number(0.01, 100), "1", "factor of recent tokens; 1: none"),
        ("--repeat-last-n", whole, "64", "number of recent tokens; -1: all"),
        ("--frequency-penalty", number(-100, 100), "0", "less for each time that a token is among the recent ones"),
        ("--presence-penalty", number(-100, 100), "0", "less for recent tokens"),
        ("--dry-multiplier", number(0, 100), "0", "penalty of repeated sequences; 0: none"),
        ("--xtc-probability", number(0, 1), "0", "of leaving out the most likely tokens"),
        ("--xtc-threshold", number(0, 1), "0.1", "probability of tokens that are left out"),
        ("--dynatemp-range", number(0, 100), "0", "of a temperature that depends on the entropy"),
        ("--mirostat", between(0, 2), "0", "version of Mirostat; 0: none"),
        ("--mirostat-tau", number(0, 100), "5", "bits of surprise that Mirostat aims at"),
        ("--mirostat-eta", number(0, 100), "0.1", "learning rate of Mirostat"),
    ]
    for name, kind, default, text in rows:
        parser.add_argument(name, type=kind, metavar="X", help=f"{text} (default: the model's, else {default})")
    parser.add_argument("--samplers", metavar="A;B;...", help="steps that choose a token, in their order")
    names = [name[2:].replace("-", "_") for name, *_ in rows]
    parser.set_defaults(settings=["max_tokens", *names, "samplers", "seed", "stop"])
    parser.add_argument("--seed", type=between(0, 2**32 - 1), metavar="N", help="seed of random numbers (default: new)")
    parser.add_argument("--draft", metavar="FILE", help="a smaller model with the same tokens that guesses ahead, or"
                        " ngram for what followed the same tokens before, or mtp for layers of the file")  # fmt: skip
    parser.add_argument("--stop", action="append", default=[], type=unescaped, metavar="TEXT",
                        help="ends the text before TEXT; can be repeated")  # fmt: skip


def add_language_arguments(parser):
    """Adds the options that limit a text to a language."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help="the text is a JSON object")
    group.add_argument("--json-schema", metavar="FILE", help="file with a JSON schema for which the text is valid")
    group.add_argument("--regex", metavar="R", help="regular expression that matches the whole text")
    group.add_argument("--grammar", metavar="FILE", help="file with a grammar (GBNF or Lark) of the text")
    group.add_argument("--choice", action="append", metavar="TEXT", help="the text is TEXT; repeated, one of several")


def language(options):
    """The arguments of Model.generate that limit the text."""
    files = {name: getattr(options, name) for name in ("json_schema", "grammar")}
    texts = {name: path and read_text(path).decode(errors="replace") for name, path in files.items()}
    return {"json": options.json or None, "regex": options.regex, "choices": options.choice, **texts}


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
    draft = options.draft
    if draft not in (None, "ngram", "mtp"):
        from ggml.models import load

        draft = load(draft, n_ctx=options.ctx, threads=options.threads)
    return {"draft": draft, **{name: getattr(options, name) for name in options.settings}}


def open_model(options, **more):
    """Opens the model of a command line."""
    from ggml.models import load

    settings = {"n_ctx": options.ctx, "threads": options.threads, "kv_type": options.kv_type, "lora": options.lora,
                "mmproj": getattr(options, "mmproj", None)}  # fmt: skip
    return load(options.model, **settings | more)


@contextmanager
def progress(total, unit, what):
    """A progress bar on a terminal's standard error: call what is yielded with the number that is done."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield lambda done: None
        return
    with tqdm(total=total, unit=unit, desc=what, leave=False, disable=None) as bar:
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
