"""What a GGUF file contains, as data for JSON and as words."""

import ctypes
import json
import math
import os
import struct
from collections import Counter

import ggml

from .._errors import naming
from .gguf_types import TYPES as VALUE_TYPES
from .tensor_types import TYPES


def key_value(g, i):
    """The type of key i by name, such as "f32" or "str[3]", and its value; an array as a list."""
    kind = VALUE_TYPES[ggml.gguf_get_kv_type(g, i)].name
    if kind != "arr":
        value = getattr(ggml, f"gguf_get_val_{kind}")(g, i)
        return kind, value.decode() if kind == "str" else value
    n, (_, kind, code, *_) = ggml.gguf_get_arr_n(g, i), VALUE_TYPES[ggml.gguf_get_arr_type(g, i)]
    if kind == "str":
        return f"str[{n}]", [ggml.gguf_get_arr_str(g, i, k).decode() for k in range(n)]
    form = struct.Struct(f"={n}{code}")
    raw = ctypes.string_at(ggml.gguf_get_arr_data(g, i), form.size) if n else b""  # type: ignore[arg-type]
    return f"{kind}[{n}]", list(form.unpack(raw))


def read(path):
    """The metadata of a file, as they are written to JSON."""
    with naming(path):
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
                "shape": list(ggml.ext.gguf_get_tensor_shape(g, i)),
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
    """Number of tensors and bytes by type, the type with the most bytes first."""
    counts, sizes = Counter(), Counter()  # type: ignore[var-annotated]
    for t in tensors:
        counts[t["type"]] += 1
        sizes[t["type"]] += t["bytes"]
    return {kind: {"tensors": counts[kind], "bytes": size} for kind, size in sizes.most_common()}


def size_text(n):
    """A number of bytes with its unit; halves are rounded up, as in the page of `ggml view` (page.html)."""
    unit = "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if n < 1024:
            break
        n, unit = n / 1024, larger
    return f"{n:,} {unit}" if unit == "bytes" else f"{math.floor(10 * n + 0.5) / 10:,.1f} {unit}"


def short(value, width=70):
    """A value on one line; of an array as many items as fit, with "..." in place of the others."""
    text = json.dumps(value[:width] if isinstance(value, list) else value, ensure_ascii=False)
    if len(text) <= width and not (isinstance(value, list) and len(value) > width):
        return text
    if not isinstance(value, list):
        return text[: width - 3] + "..."
    words, room = [], width - len("[, ...]")
    for item in value:
        word = json.dumps(item, ensure_ascii=False)
        if len(word) > room:
            break
        words.append(word)
        room -= len(word) + 2
    return f"[{', '.join([*words, '...'])}]"


def in_json(value):
    """A value with infinities and NaN, which JSON does not have, as strings."""
    if isinstance(value, dict):
        return {k: in_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return [in_json(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
