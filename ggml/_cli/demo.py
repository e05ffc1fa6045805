"""Trains a small network on handwritten digits; writes a picture of the training and the graph."""

from ggml import _core

from .._extras import require
from .arguments import between


def add_arguments(parser):
    parser.add_argument("--seed", type=between(0, 2**32 - 1), default=0, help="seed of random numbers (%(default)s)")
    parser.add_argument("--epochs", type=between(1, 100_000), default=120, help="passes over the digits (%(default)s)")
    parser.add_argument("--threads", type=between(1, 512), help="threads (default: all CPUs of the process)")
    parser.add_argument("--out", default="ggml-demo", metavar="DIR", help="folder to write into (%(default)s)")


def run(options):
    require("", ["sklearn", "matplotlib", "tqdm"], "'ggml-cython[demo]'")
    from ggml import demo

    demo.run(options.seed, options.epochs, options.threads or _core.build_info()["threads"], options.out)
    return 0
