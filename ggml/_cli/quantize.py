"""Writes a GGUF file with its weights in another type; tensors of one dimension do not change.

Names of types, mixtures of types and the tensors that do not change are those of the tool of this name in llama.cpp.
"""

import ctypes
import fnmatch
import os
import re
import struct
import sys

import ggml

from .._errors import naming
from .._io.files import check_outputs, open_regular, write_file
from .._io.gguf_report import size_text
from .._io.interop import dequantize_row
from .._io.tensor_types import NUMBERS, PLAIN, TYPES, UNCHANGED
from .arguments import add_model, pattern_and_type
from .paths import check_replaced

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
    """The new type of each tensor that changes, by name; and by name (type, width of rows) where another was wanted."""
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
def read_importance(path):
    """Reads an importance matrix, in GGUF or the older format (.dat): arrays of floats by the weights' names."""
    with open_regular(path, "--imatrix") as file:
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
def convert(name, tensor, kind, importance, write, progress):
    """Writes a tensor in another type, at most CHUNK elements at a time."""
    t, new = tensor.contents, NUMBERS[kind]
    width, rows, slices = t.ne[0], t.ne[1], t.ne[2] * t.ne[3]
    weights = importance.get(name)
    if weights is None and ggml.ggml_quantize_requires_imatrix(new):
        raise Unfit(f"{kind} needs an importance matrix (--imatrix) with tensor {name!r}")
    if weights is not None and len(weights) not in (width, width * t.ne[2]):
        need = f"{width} or {width * t.ne[2]}"
        raise Unfit(f"the importance matrix has {len(weights)} values for tensor {name!r}: need {need}")
    step = max(1, min(rows, CHUNK // width))
    work = (ctypes.c_float * (step * width))() if t.type != ggml.GGML_TYPE_F32 else None
    out = (ctypes.c_uint8 * (step * ggml.ggml_row_size(new, width)))()
    per_slice = weights is not None and len(weights) > width  # an expert each
    for i in range(slices):
        column = ctypes.byref(weights, 4 * width * (i % t.ne[2])) if per_slice else weights
        for first in range(0, rows, step):
            n = min(step, rows - first)
            source = t.data + i * t.nb[2] + first * t.nb[1]
            if work is not None:
                dequantize_row(source, n * width, t.type, work)
            values = source if work is None else work
            with naming(f"tensor {name!r}, slice {i} from row {first} on"):
                size = ggml.ggml_quantize_chunk(new, values, out, 0, n, width, address(column))
            write(memoryview(out)[:size])
            progress(n * width)


def address(reference):
    return None if reference is None else ctypes.cast(reference, ctypes.c_void_p)


class Progress:
    """A progress bar, if stderr is a terminal."""

    def __init__(self, total):
        self.total, self.done, self.shown, self.name = total, 0, -1, ""

    def __call__(self, elements):
        self.done += elements
        percent = 100 * self.done // max(self.total, 1)
        if percent != self.shown and sys.stderr.isatty():
            self.shown = percent
            end = "\n" if percent == 100 else ""
            bar = f"[{'#' * (percent // 3):<33}]"
            print(f"\r{percent:3d}% {bar} {self.name[:40]:<40}", end=end, file=sys.stderr, flush=True)


def open_model(path):
    """Opens a file, mapped if possible; returns its GGUF context and the context of its tensors."""
    ctx = ctypes.c_void_p()
    wanted = ggml.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(ctx))
    try:
        return ggml.ext.gguf_init_from_file_mmap(path, wanted), ctx.value
    except ValueError as error:
        if "can't be used in place" not in str(error):
            raise
    return ggml.gguf_init_from_file(path, wanted), ctx.value


def add_arguments(parser):
    add_model(parser, "input", metavar="IN", help="GGUF file to read, or an installed package with one")
    parser.add_argument("output", metavar="OUT", help="GGUF file to write; it is complete or absent at any time")
    parser.add_argument(
        "type", metavar="TYPE", help="type of the weights, such as Q4_K_M, Q8_0, IQ4_XS, F16; Q4_K means Q4_K_M"
    )
    parser.add_argument("--imatrix", metavar="FILE", help="importance matrix of llama.cpp, as GGUF or .dat")
    parser.add_argument("--pure", action="store_true", help="use one type for all weights instead of a mixture")
    parser.add_argument(
        "--allow-requantize",
        action="store_true",
        help="convert quantised weights to types other than F32, which loses precision",
    )
    parser.add_argument("--leave-output-tensor", action="store_true", help="do not convert output.weight")
    parser.add_argument("--output-tensor-type", metavar="TYPE", help="type of output.weight")
    parser.add_argument("--token-embedding-type", metavar="TYPE", help="type of token_embd.weight")
    parser.add_argument(
        "--tensor-type",
        metavar="PATTERN=TYPE",
        type=pattern_and_type,
        action="append",
        default=[],
        help="type of weights whose name matches, as in 'blk.*.ffn_down.weight=q6_k'; may be repeated",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--dry-run", action="store_true", help="list the new types without writing a file")
    parser.add_argument("--verbose", action="store_true", help="list every tensor")


def run(options):
    options.type = options.type.upper()
    if options.type not in MIXES:
        raise Unfit(f"{options.type!r} is not a type to convert to: need one of {', '.join(MIXES)}")
    for name in ("output_tensor_type", "token_embedding_type"):
        if getattr(options, name):
            setattr(options, name, type_name(getattr(options, name)))
    options.tensor_type = [(pattern, type_name(kind)) for pattern, kind in options.tensor_type]
    check_output(options)
    importance = read_importance(options.imatrix) if options.imatrix else {}
    with naming(options.input):
        g, ctx = open_model(options.input)
    try:
        new, misfits = plan(g, options)
        n_tensors = ggml.gguf_get_n_tensors(g)
        tensors = [ggml.ggml_get_tensor(ctx, ggml.gguf_get_tensor_name(g, i)) for i in range(n_tensors)]
        if not options.dry_run:
            write_model(g, tensors, new, importance, options)
        print(*report(tensors, new, options), *remarks(tensors, new, misfits, options), sep="\n")
    finally:
        ggml.gguf_free(g)
        ggml.ggml_free(ctx)


def check_output(options):
    """Refuses to write over a file that is read, and without --force over any file."""
    if options.dry_run:
        return
    check_outputs([options.output], [options.input, options.imatrix])
    check_replaced(options.output, options.force)


def write_model(g, tensors, new, importance, options):
    """Writes the output file."""
    out = ggml.gguf_init_empty()
    try:
        ggml.gguf_set_kv(out, g)
        ggml.gguf_set_val_u32(out, "general.quantization_version", ggml.GGML_QNT_VERSION)
        ggml.gguf_set_val_u32(out, "general.file_type", MIXES[options.type][1])
        if importance:
            ggml.gguf_set_val_str(out, "quantize.imatrix.file", os.fspath(options.imatrix))
            ggml.gguf_set_val_i32(out, "quantize.imatrix.entries_count", len(importance))
        for tensor in tensors:
            ggml.gguf_add_tensor(out, tensor)
            if tensor.contents.name.decode() in new:
                ggml.gguf_set_tensor_type(out, tensor.contents.name, NUMBERS[new[tensor.contents.name.decode()]])
        meta = ctypes.create_string_buffer(ggml.gguf_get_meta_size(out))
        ggml.gguf_get_meta_data(out, meta)
        alignment = ggml.gguf_get_alignment(out)
        progress = Progress(sum(ggml.ggml_nelements(t) for t in tensors))

        def body(write):
            write(meta.raw)
            for i, tensor in enumerate(tensors):
                name = progress.name = tensor.contents.name.decode()
                if name in new:
                    convert(name, tensor, new[name], importance, write, progress)
                elif ggml.ggml_nelements(tensor):
                    write((ctypes.c_ubyte * ggml.ggml_nbytes(tensor)).from_address(tensor.contents.data))
                    progress(ggml.ggml_nelements(tensor))
                write(bytes(-ggml.gguf_get_tensor_size(out, i) % alignment))

        write_file(options.output, body)
    finally:
        ggml.gguf_free(out)


def report(tensors, new, options):
    """The lines that describe the conversion."""
    before = after = elements = 0
    for tensor in tensors:
        name, n = tensor.contents.name.decode(), ggml.ggml_nelements(tensor)
        kind = NUMBERS[new[name]] if name in new else tensor.contents.type
        size = n // tensor.contents.ne[0] * ggml.ggml_row_size(kind, tensor.contents.ne[0]) if n else 0
        before, after, elements = before + ggml.ggml_nbytes(tensor) * (n > 0), after + size, elements + n
        if options.verbose or options.dry_run:
            old = TYPES[tensor.contents.type]
            yield f"  {name:<40}  {old + (' -> ' + new[name] if name in new else ''):<16}  {size_text(size)}"
    bits = f", {8 * after / elements:.2f} bits per weight" if elements else ""
    yield f"{len(tensors)} tensors, {len(new)} converted: {size_text(before)} -> {size_text(after)}{bits}"


def remarks(tensors, new, misfits, options):
    """The lines about tensors that did not get the type that was wanted, and patterns that match no tensor."""
    names = [tensor.contents.name.decode() for tensor in tensors]
    groups: dict = {}
    if tensors and not new and not misfits:
        yield (f"nothing to convert: no tensor of two or more dimensions whose name ends in 'weight' has another type "
               f"than {options.type} (the tensors: {', '.join(names[:3])}{', ...' * (len(names) > 3)})")
    for tensor, name in zip(tensors, names):
        if name in misfits:
            wanted, width = misfits[name]
            got = new.get(name, TYPES[tensor.contents.type])
            groups.setdefault((wanted, got, width), []).append(name)
    for (wanted, got, width), members in groups.items():
        block = ggml.ggml_blck_size(NUMBERS[wanted])
        rest = f" and {len(members) - 1} more" if len(members) > 1 else ""
        yield f"{got} instead of {wanted}: {members[0]}{rest}, rows of {width} are not a multiple of {block}"
    for pattern, kind in options.tensor_type:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            yield f"--tensor-type {pattern}={kind} matches no tensor"
        elif not any(fnmatch.fnmatchcase(name, pattern) for name in new):
            yield f"--tensor-type {pattern}={kind} matches only tensors that do not change"
