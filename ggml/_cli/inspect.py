"""Shows the contents of a GGUF file: keys, tensors, and the share of each type."""

import math

from .._io.gguf_report import in_json, read, short, size_text
from .arguments import add_model
from .output import json_text

LONG, SHOWN = 64, 8  # JSON has the first SHOWN items of arrays of more than LONG


def without_long_arrays(about):
    """The report with the first items of long arrays, as those of the vocabulary, under "first" instead of "value"."""
    keys = {
        key: {"type": v["type"], "first": v["value"][:SHOWN]}
        if isinstance(v["value"], list) and len(v["value"]) > LONG
        else v
        for key, v in about["keys"].items()
    }
    return about | {"keys": keys}


def lines(about):
    """The report as text, line by line."""
    elements = sum(math.prod(t["shape"]) for t in about["tensors"])
    size = size_text(about["bytes"])
    yield f"{about['file']}: GGUF version {about['version']}, {size}, alignment {about['alignment']}"
    yield f"\n{len(about['keys'])} keys"
    width = max((len(k) for k in about["keys"]), default=0)
    for key, v in about["keys"].items():
        yield f"  {key:<{width}}  {v['type']:<10}  {short(v['value'])}"
    yield f"\n{len(about['tensors'])} tensors, {elements:,} elements"
    width = max((len(t["name"]) for t in about["tensors"]), default=0)
    for t in about["tensors"]:
        shape = " x ".join(map(str, t["shape"])) or "1"
        yield f"  {t['name']:<{width}}  {t['type']:<8}  {shape:<24}  {size_text(t['bytes'])}"
    total = sum(t["bytes"] for t in about["types"].values())
    yield "\ntypes"
    for kind, t in about["types"].items():
        share = t["bytes"] / total if total else 0
        size, bar = size_text(t["bytes"]), "#" * round(40 * share)
        yield f"  {kind:<8} {t['tensors']:>6} tensors  {size:>12}  {share:6.1%}  {bar}".rstrip()


def add_arguments(parser):
    add_model(parser, "file", metavar="FILE", help="GGUF file, or an installed package with one")
    parser.add_argument(
        "--json", action="store_true", help=f"print JSON, with the first {SHOWN} items of arrays of more than {LONG}"
    )
    parser.add_argument("--full", action="store_true", help="with --json: print all items of all arrays")


def run(options):
    about = read(options.file)
    if options.json:
        shown = about if options.full else without_long_arrays(about)
        print(json_text(in_json(shown), indent=1))
    else:
        print(*lines(about), sep="\n")
