"""Makes an importance matrix for `ggml quantize --imatrix`: how strongly each column of a weight is used on a text."""

import ctypes
import os
from contextlib import ExitStack

import numpy as np

import ggml
from ggml.utils import from_numpy

from .models import add_model_arguments, open_model, progress
from .paths import check_model_outputs, read_text

WINDOW = 512  # tokens that are evaluated together, unless --ctx says otherwise


def add_arguments(parser):
    add_model_arguments(parser, "up to 512")
    parser.add_argument("file", metavar="FILE", help="text like what the model will be used for; - for standard input")
    parser.add_argument("-o", "--out", default="imatrix.gguf", metavar="OUT", help="file to write (%(default)s)")


def collect(model, ids, size, advance):
    """Sums the squares of the operands of each weight over a text.

    Args:
        model: Model.
        ids: list of int.
        size: int; the text is evaluated in windows of this many tokens.
        advance: called with the number of tokens that are done.

    Returns:
        (dict from the names of weights to the sums, f64 [n_in], and the number of vectors summed, number of windows,
        mean negative log-probability of a token).
    """
    sums: dict = {}
    done, windows, total = 0, 0, 0.0

    def observer(name):
        def add(values):
            squares, count = sums.get(name, (0.0, 0))
            sums[name] = squares + np.square(values, dtype=np.float64).sum(0), count + len(values)

        return add

    with ExitStack() as edits:
        for point in model.points(inputs=True):
            if point.endswith(".in"):
                edits.enter_context(model.edit(point, observer(point.removesuffix(".in") + ".weight")))
        while done < len(ids):
            window = ids[done : done + size]
            if len(window) > 1:
                total -= float(model.log_probabilities(window).sum())
            done += len(window)
            windows += 1
            advance(done)
    return sums, windows, total / max(1, len(ids) - windows)


def write(path, sums, windows, size, source):
    """Writes an importance matrix as llama.cpp does: for each weight its sums and the number of vectors.

    Args:
        path: the file.
        sums: dict from the names of weights to (f64 [n_in] or [experts, n_in], number of vectors summed).
        windows, size: int; number and size of the windows of text.
        source: name of the text.
    """
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    g = ggml.gguf_init_empty()
    try:
        ggml.gguf_set_val_str(g, "general.type", "imatrix")
        ggml.gguf_set_arr_str(g, "imatrix.datasets", (ctypes.c_char_p * 1)(os.fsencode(source)), 1)
        ggml.gguf_set_val_u32(g, "imatrix.chunk_count", windows)
        ggml.gguf_set_val_u32(g, "imatrix.chunk_size", size)
        for name in sorted(sums):
            values = np.atleast_2d(sums[name][0]).astype(np.float32)
            count = np.full((len(values), 1), sums[name][1], np.float32)
            for suffix, array in ((".in_sum2", values), (".counts", count)):
                tensor = from_numpy(array, ctx)
                ggml.ggml_set_name(tensor, (name + suffix).encode())
                ggml.gguf_add_tensor(g, tensor)
        if not ggml.gguf_write_to_file(g, os.fsencode(path), False):
            raise OSError(f"{path} cannot be written")
    finally:
        ggml.gguf_free(g)
        ggml.ggml_free(ctx)


def run(options):
    check_model_outputs(options, options.out, inputs=[options.file, *options.lora])
    text = read_text(options.file)
    with open_model(options) as model:
        ids = model.tokenize(text)
        if len(ids) < 2:
            raise ValueError(f"{options.file} has {len(ids)} tokens: need at least two")
        size = options.ctx or min(WINDOW, model.n_ctx)
        with progress(len(ids), "token", "imatrix") as advance:
            sums, windows, loss = collect(model, ids, size, advance)
        for name, (squares, count) in sums.items():  # a stack of experts: what all of them saw stands for each
            experts = model.weight_shape(name)[2]
            sums[name] = (np.tile(squares, (experts, 1)) if experts > 1 else squares), count
        write(options.out, sums, windows, size, os.path.basename(options.file))
    print(f"{options.out}: {len(sums)} weights, {len(ids):,} tokens, perplexity {np.exp(loss):.2f}")
