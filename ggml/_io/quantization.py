"""Writing weights in another type: which type each weight gets, importance matrices, and the conversion itself.

Names of types, mixtures of types and the tensors that do not change are those of llama.cpp's tool `quantize`.
"""

from __future__ import annotations

import ctypes
import fnmatch
import os
import re
import struct
from typing import NamedTuple

import ggml

from .._errors import naming
from .files import open_regular
from .interop import dequantize_row
from .tensor_types import NUMBERS, PLAIN, TYPES, UNCHANGED

# Name: (type of most weights, general.file_type, {part of a layer: rules}). A rule is (layers, type); the first rule
# that applies to a layer counts. Layers: "all"; a number: that many at the beginning; "1/8": that fraction of them, at
# the beginning; "more": see more_bits.
MIXES: dict = {name: (name, number, {}) for name, number in PLAIN.items()}
MIXES |= {
    "Q2_K": ("Q2_K", 10, {"attn_v": [("all", "Q3_K")], "ffn_down": [("all", "Q3_K")],
                          "attn_output": [("all", "Q3_K")]}),
    "Q2_K_S": ("Q2_K", 21, {"attn_v": [("all", "Q2_K")], "ffn_down": [("1/8", "Q4_K")]}),
    "Q3_K_S": ("Q3_K", 11, {}),
    "Q3_K_M": ("Q3_K", 12, {"attn_v": [(2, "Q5_K"), ("all", "Q4_K")], "ffn_down": [("1/16", "Q5_K"), ("more", "Q4_K")],
                            "attn_output": [("all", "Q4_K")], "attn_qkv": [("all", "Q4_K")]}),
    "Q3_K_L": ("Q3_K", 13, {"attn_v": [("all", "Q5_K")], "ffn_down": [("all", "Q5_K")],
                            "attn_output": [("all", "Q5_K")], "attn_qkv": [("all", "Q4_K")]}),
    "Q4_K_S": ("Q4_K", 14, {"attn_v": [(4, "Q5_K")], "ffn_down": [("1/8", "Q5_K")]}),
    "Q4_K_M": ("Q4_K", 15, {"attn_v": [("more", "Q6_K")], "ffn_down": [("more", "Q6_K")],
                            "attn_qkv": [("all", "Q5_K")]}),
    "Q5_K_S": ("Q5_K", 16, {}),
    "Q5_K_M": ("Q5_K", 17, {"attn_v": [("more", "Q6_K")], "ffn_down": [("more", "Q6_K")],
                            "attn_qkv": [("all", "Q6_K")]}),
}  # fmt: skip
MIXES |= {"Q3_K": MIXES["Q3_K_M"], "Q4_K": MIXES["Q4_K_M"], "Q5_K": MIXES["Q5_K_M"]}

# The type for rows that are not a whole number of blocks; F16 if they are not one of this type either
FALLBACK = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "TQ1_0": "Q4_0", "TQ2_0": "Q4_0", "NVFP4": "MXFP4"}
FALLBACK |= dict.fromkeys(("Q1_0", "Q2_0", "MXFP4"), "Q4_0")
FALLBACK |= dict.fromkeys([t for t in NUMBERS if re.match("Q[23]_K|IQ", t) and t != "IQ4_NL"], "IQ4_NL")

CHUNK = 1 << 24  # elements converted at a time


class Unfit(ValueError):
    """The request of the user cannot be fulfilled."""


class Request(NamedTuple):
    """What `plan` needs to know: options of the command `quantize`."""

    type: str
    pure: bool = False
    allow_requantize: bool = False
    leave_output_tensor: bool = False
    output_tensor_type: str | None = None
    token_embedding_type: str | None = None
    tensor_type: tuple[tuple[str, str], ...] = ()


def type_name(text):
    """The name of a type in capitals."""
    if text.upper() not in NUMBERS:
        raise Unfit(f"{text!r} is not a tensor type: need one of {', '.join(NUMBERS)}")
    return text.upper()


def more_bits(layer, layers):
    """The layers at both ends and every third between them, which matter most."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def chosen(which, layer, layers):
    """Whether a rule for `which` layers applies to a layer."""
    if which == "more":
        return more_bits(layer, layers)
    if isinstance(which, str) and "/" in which:
        return layer < layers // int(which[2:])
    return which == "all" or layer < which


def wanted_type(name, options, names, layers):
    """The type that a weight of this name gets."""
    base, _, mix = MIXES[options.type]
    for pattern, kind in options.tensor_type:
        if fnmatch.fnmatchcase(name, pattern):
            return kind
    output = name == "output.weight" or (name == "token_embd.weight" and "output.weight" not in names)
    if output and options.output_tensor_type:
        return options.output_tensor_type
    if name == "token_embd.weight" and options.token_embedding_type:
        return options.token_embedding_type
    if options.pure:
        return base
    few = base.startswith(("IQ1", "IQ2"))
    if output:
        return base if base in ("F32", "F16", "BF16", "Q8_0") else "Q5_K" if few else "Q6_K"
    if name == "token_embd.weight" and (few or base.startswith("TQ")):
        return "Q2_K" if few else "Q4_K"
    place = re.match(r"blk\.(\d+)\.(\w+)\.weight$", name)
    if place:
        for which, kind in mix.get(place[2], ()):
            if chosen(which, int(place[1]), layers):
                return kind
    return base


def plan(g, options):
    """The new type of each tensor that changes, by name; and by name (type, width of rows) where another was wanted.

    Args:
        g: GGUF context with the tensors.
        options: Request, or an object with the same attributes.
    """
    new, misfits = {}, {}
    names = [ggml.gguf_get_tensor_name(g, i).decode() for i in range(ggml.gguf_get_n_tensors(g))]
    layers = 1 + max((int(n[1]) for n in (re.match(r"blk\.(\d+)\.", n) for n in names) if n), default=-1)
    for i, name in enumerate(names):
        shape, old = ggml.ext.gguf_get_tensor_shape(g, i), TYPES[ggml.gguf_get_tensor_type(g, i)]
        if all(n <= 1 for n in shape[1:]) or not name.endswith("weight"):
            continue
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in UNCHANGED):
            continue
        if name == "output.weight" and options.leave_output_tensor:
            continue
        kind = wanted = wanted_type(name, options, names, layers)
        while shape[0] % ggml.ggml_blck_size(NUMBERS[kind]):
            kind = FALLBACK.get(kind, "F16")
        if kind != wanted:
            misfits[name] = wanted, shape[0]
        if kind == old:
            continue
        if old not in ("F32", "F16", "BF16"):
            if not ggml.ggml_is_quantized(NUMBERS[old]):
                continue
            if kind != "F32" and not options.allow_requantize:
                raise Unfit(f"tensor {name!r} is {old} already (--allow-requantize converts it, with a loss)")
        new[name] = kind
    return new, misfits


# ---- importance ------------------------------------------------------------------------------------------------------
def read_importance(path, caller="quantize"):
    """Reads an importance matrix, in GGUF or the older format (.dat): arrays of floats by the weights' names."""
    with open_regular(path, caller) as file:
        raw = file.read(4)
        if raw != b"GGUF":
            with naming(path):
                return old_importance(raw + file.read())
    ctx = ctypes.c_void_p()
    params = ggml.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(ctx))
    with naming(path):
        g = ggml.gguf_init_from_file(os.fsencode(path), params)
    ggml.gguf_free(g)
    try:
        found, tensor = {}, ggml.ggml_get_first_tensor(ctx)
        while tensor:
            name = tensor.contents.name.decode()
            if name.endswith(".in_sum2"):
                counts = ggml.ggml_get_tensor(ctx, name[: -len("in_sum2")] + "counts")
                found[name[: -len(".in_sum2")]] = means(tensor, counts)
            tensor = ggml.ggml_get_next_tensor(ctx, tensor)
    finally:
        ggml.ggml_free(ctx.value)
    if not found:
        raise Unfit(f"{path} is not an importance matrix: it has no tensor '*.in_sum2'")
    return found


def floats(tensor):
    """The values of an F32 tensor."""
    if tensor.contents.type != ggml.GGML_TYPE_F32:
        raise Unfit(f"tensor {tensor.contents.name.decode()!r} of the importance matrix is not F32")
    raw = ctypes.string_at(tensor.contents.data, ggml.ggml_nbytes(tensor)) if ggml.ggml_nelements(tensor) else b""
    return struct.unpack(f"={len(raw) // 4}f", raw)


def means(sums, counts):
    """The sums divided by the number of calls, as an array of floats; 1 where there were no calls."""
    n, total = sums.contents.ne[0], floats(sums)
    calls = floats(counts) if counts else ()
    if n == 0 or len(calls) != len(total) // n:
        raise Unfit(f"tensor {sums.contents.name.decode()!r} of the importance matrix has no counts that fit it")
    values = [v / calls[i // n] if calls[i // n] > 0 else 1.0 for i, v in enumerate(total)]
    return (ctypes.c_float * len(values))(*values)


def old_importance(raw):
    """Reads the older format. An entry is: length and text of the name, calls, number of values, values."""
    at, found = 0, {}

    def take(form):
        nonlocal at
        if struct.calcsize(form) > len(raw) - at:
            raise Unfit("the file is not an importance matrix: neither GGUF nor complete in the older format")
        at += struct.calcsize(form)
        return struct.unpack_from(form, raw, at - struct.calcsize(form))

    def number():
        (n,) = take("<i")
        if n < 0:
            raise Unfit(f"the file is not an importance matrix: a count of {n} at offset {at - 4}")
        return n

    for _ in range(number()):
        (name,) = take(f"<{number()}s")
        calls, n = number(), number()
        values = take(f"<{n}f")
        found[name.decode(errors="replace")] = (ctypes.c_float * n)(*(v / calls if calls else v for v in values))
    return found


# ---- conversion ------------------------------------------------------------------------------------------------------
def convert(name, ne, old, matrices, kind, importance, write, progress):
    """Writes a tensor in another type, at most CHUNK elements at a time.

    Args:
        name: of the tensor.
        ne: its four dimensions.
        old: number of the type that its values have.
        matrices: iterable of the addresses of its ne[2] ne[3] matrices, whose rows lie one after the other.
        kind: name of the new type.
        importance: arrays of floats by the weights' names.
        write: function that takes bytes.
        progress: function that takes the number of elements that were written.
    """
    width, rows, new = ne[0], ne[1], NUMBERS[kind]
    weights = importance.get(name)
    if weights is None and ggml.ggml_quantize_requires_imatrix(new):
        raise Unfit(f"{kind} needs an importance matrix (--imatrix) with tensor {name!r}")
    if weights is not None and len(weights) not in (width, width * ne[2]):
        need = f"{width} or {width * ne[2]}"
        raise Unfit(f"the importance matrix has {len(weights)} values for tensor {name!r}: need {need}")
    step = max(1, min(rows, CHUNK // width))
    work = (ctypes.c_float * (step * width))() if old != ggml.GGML_TYPE_F32 else None
    out = (ctypes.c_uint8 * (step * ggml.ggml_row_size(new, width)))()
    per_slice = weights is not None and len(weights) > width  # an expert each
    for i, start in enumerate(matrices):
        column = ctypes.byref(weights, 4 * width * (i % ne[2])) if per_slice else weights
        for first in range(0, rows, step):
            n = min(step, rows - first)
            source = start + first * ggml.ggml_row_size(old, width)
            if work is not None:
                dequantize_row(source, n * width, old, work)
            values = source if work is None else work
            with naming(f"tensor {name!r}, slice {i} from row {first} on"):
                size = ggml.ggml_quantize_chunk(new, values, out, 0, n, width, address(column))
            write(memoryview(out)[:size])
            progress(n * width)


def address(reference):
    return None if reference is None else ctypes.cast(reference, ctypes.c_void_p)
