"""Writes a GGUF file from a folder as Hugging Face saves a model or PEFT an adapter (safetensors)."""

import os

from .._io.files import check_outputs
from .._io.gguf_report import size_text
from .paths import check_replaced


def add_arguments(parser):
    parser.add_argument("folder", metavar="DIRECTORY", help="folder with config.json, *.safetensors and a tokenizer,"
                        " or with an adapter of PEFT; or a GGUF adapter, to make a folder of PEFT of")  # fmt: skip
    parser.add_argument("output", metavar="OUT", help="GGUF file to write; it is complete or absent at any time")
    parser.add_argument("--type", metavar="TYPE", help="type of the weights, such as F16, Q8_0 or Q4_K_M (default: that"
                        " of each in DIRECTORY)")  # fmt: skip
    parser.add_argument("--imatrix", metavar="FILE", help="importance matrix of llama.cpp, as GGUF or .dat")
    parser.add_argument("--vocab-only", action="store_true", help="write the keys and the vocabulary without weights")
    parser.add_argument("--base", metavar="DIRECTORY", help="of an adapter, the folder of its model")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")


def run(options):
    if not (os.path.isfile(options.folder) and os.path.isdir(options.output)):  # a GGUF adapter becomes a folder
        check_outputs([options.output], [options.imatrix])
    check_replaced(options.output, options.force)
    from ggml.models import convert

    convert(options.folder, options.output, options.type, imatrix=options.imatrix, vocab_only=options.vocab_only,
            base=options.base, progress=True)  # fmt: skip
    files = [options.output]
    if os.path.isdir(options.output):
        files = [os.path.join(options.output, name) for name in sorted(os.listdir(options.output))]
    for file in files:
        print(f"{file}: {size_text(os.path.getsize(file))}")
