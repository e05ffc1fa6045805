"""Writes a model file whose weights contain a low-rank adapter (LoRA)."""

import os

from .._io.files import check_outputs
from .._io.gguf_report import size_text
from .arguments import add_model, number
from .paths import check_replaced


def add_arguments(parser):
    add_model(parser, metavar="MODEL", help="GGUF file, or an installed package with one")
    add_model(parser, "adapter", metavar="ADAPTER", help="adapter, as `ggml finetune` writes it (GGUF)")
    parser.add_argument("output", metavar="OUT", help="GGUF file to write; it is complete or absent at any time")
    parser.add_argument("--type", metavar="TYPE", help="type of all matrices, such as F16 or Q8_0 (default: that of"
                        " each in MODEL)")  # fmt: skip
    parser.add_argument("--scale", type=number(-1e6, 1e6), default=1.0, metavar="X", help="factor of the adapter"
                        " (%(default)s)")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")


def run(options):
    check_outputs([options.output], [options.model, options.adapter])
    check_replaced(options.output, options.force)
    from ggml.models import merge

    merge(options.model, options.adapter, options.output, options.type, scale=options.scale)
    print(f"{options.output}: {size_text(os.path.getsize(options.output))}")
