"""Writes a GGUF file with its weights in another type; tensors of one dimension do not change.

Names of types, mixtures of types and the tensors that do not change are those of the tool of this name in llama.cpp.
"""

import ctypes
import fnmatch
import os
import sys

import ggml

from .._errors import naming
from .._io.files import check_outputs, write_file
from .._io.gguf_report import size_text
from .._io.quantization import MIXES, Unfit, convert, plan, read_importance, type_name
from .._io.tensor_types import NUMBERS, TYPES
from .arguments import add_model, pattern_and_type
from .paths import check_replaced


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
            for number, tensor in enumerate(tensors):
                name = progress.name = tensor.contents.name.decode()
                if name in new:
                    t = tensor.contents
                    matrices = (t.data + i * t.nb[2] for i in range(t.ne[2] * t.ne[3]))
                    convert(name, t.ne, t.type, matrices, new[name], importance, write, progress)
                elif ggml.ggml_nelements(tensor):
                    write((ctypes.c_ubyte * ggml.ggml_nbytes(tensor)).from_address(tensor.contents.data))
                    progress(ggml.ggml_nelements(tensor))
                write(bytes(-ggml.gguf_get_tensor_size(out, number) % alignment))

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
        yield (
            f"nothing to convert: no tensor of two or more dimensions whose name ends in 'weight' has another type "
            f"than {options.type} (the tensors: {', '.join(names[:3])}{', ...' * (len(names) > 3)})"
        )
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
