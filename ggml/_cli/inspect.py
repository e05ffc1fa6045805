"""What is in a GGUF file: keys, tensors, and how much of which type."""

import ctypes
import json
import math
import os
import struct
from collections import Counter

import ggml

KINDS = ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64")
SIZES = dict(zip(KINDS, "BbHhIif?--Qqd", strict=True))
TYPES = {v: k[len("GGML_TYPE_") :] for k, v in vars(ggml).items() if k.startswith("GGML_TYPE_") and k != "GGML_TYPE_COUNT"}


def key_value(g, i):
    """The type of key i by name, as in "f32" or "str[3]", and its value: arrays are lists."""
    kind = KINDS[ggml.gguf_get_kv_type(g, i)]
    if kind != "arr":
        value = getattr(ggml, f"gguf_get_val_{kind}")(g, i)
        return kind, value.decode() if kind == "str" else value
    n, kind = ggml.gguf_get_arr_n(g, i), KINDS[ggml.gguf_get_arr_type(g, i)]
    if kind == "str":
        return f"str[{n}]", [ggml.gguf_get_arr_str(g, i, k).decode() for k in range(n)]
    raw = ctypes.string_at(ggml.gguf_get_arr_data(g, i), n * struct.calcsize(SIZES[kind])) if n else b""  # type: ignore[arg-type]
    return f"{kind}[{n}]", list(struct.unpack(f"={n}{SIZES[kind]}", raw))


def read(path):
    """All that a file says about itself, as it goes into JSON."""
    g = ggml.gguf_init_from_file(os.fsencode(path), ggml.gguf_init_params(no_alloc=True))
    try:
        keys = {}
        for i in range(ggml.gguf_get_n_kv(g)):
            kind, value = key_value(g, i)
            keys[ggml.gguf_get_key(g, i).decode()] = {"type": kind, "value": value}
        tensors = [
            {
                "name": ggml.gguf_get_tensor_name(g, i).decode(),
                "type": TYPES[ggml.gguf_get_tensor_type(g, i)],
                "shape": list(ggml.gguf_get_tensor_shape(g, i)),
                "offset": ggml.gguf_get_tensor_offset(g, i),
                "bytes": ggml.gguf_get_tensor_size(g, i),
            }
            for i in range(ggml.gguf_get_n_tensors(g))
        ]
        about = {"file": str(path), "bytes": os.path.getsize(path), "version": ggml.gguf_get_version(g)}
        about |= {"alignment": ggml.gguf_get_alignment(g), "data_offset": ggml.gguf_get_data_offset(g)}
    finally:
        ggml.gguf_free(g)
    return about | {"keys": keys, "tensors": tensors, "types": histogram(tensors)}


def histogram(tensors):
    """By type: how many tensors and bytes, the most bytes first."""
    counts, sizes = Counter(), Counter()  # type: ignore[var-annotated]
    for t in tensors:
        counts[t["type"]] += 1
        sizes[t["type"]] += t["bytes"]
    return {kind: {"tensors": counts[kind], "bytes": size} for kind, size in sizes.most_common()}


def size_text(n):
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1024:
            return f"{n:,} {unit}" if unit == "bytes" else f"{n:,.1f} {unit}"
        n /= 1024
    return f"{n:,.1f} GiB"


def short(value, width=70):
    """A value on one line; of arrays, the first items."""
    text = json.dumps(value[:16] if isinstance(value, list) else value, ensure_ascii=False)
    return text if len(text) <= width else text[: width - 3] + "..."


def in_json(value):
    """Infinities and NaN are no JSON: they become strings."""
    if isinstance(value, dict):
        return {k: in_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return [in_json(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def lines(about):
    elements = sum(math.prod(t["shape"]) for t in about["tensors"])
    yield f"{about['file']}: GGUF version {about['version']}, {size_text(about['bytes'])}, alignment {about['alignment']}"
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
        yield f"  {kind:<8} {t['tensors']:>6} tensors  {size_text(t['bytes']):>12}  {share:6.1%}  {'#' * round(40 * share)}".rstrip()


def add_arguments(parser):
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def run(options):
    about = read(options.file)
    print(json.dumps(in_json(about), ensure_ascii=False, indent=1) if options.json else "\n".join(lines(about)))
