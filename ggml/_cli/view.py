"""Writes a page of HTML that shows a GGUF file, or a graph that ggml_graph_export wrote; it needs no network."""

from pathlib import Path

from .._errors import naming
from .._io.files import check_outputs, open_regular, save
from .arguments import add_model
from .paths import EXPORTED


def add_arguments(parser):
    add_model(parser, "file", metavar="FILE", help="GGUF file, an installed package with one, or an exported graph")
    parser.add_argument("-o", "--out", metavar="OUT", help="page to write (default: the name of FILE with .html, here)")
    parser.add_argument("--no-values", action="store_true", help="no histograms of values")
    parser.add_argument("--no-graph", action="store_true", help="no picture of the graph")


def run(options):
    from ..view import file_page, graph_page

    path = options.file
    out = options.out or Path(path).with_suffix(".html").name
    check_outputs([out], [path])
    with open_regular(path, "ggml_graph_import") as stream:
        start = stream.read(8)
    if start.startswith(b"GGUF"):
        text = file_page(path, not options.no_values, not options.no_graph)
    elif start == EXPORTED:
        with naming(path):
            text = graph_page(path)
    else:
        raise ValueError(f"{path}: neither a GGUF file nor a graph that ggml_graph_export wrote")
    save(out, text.encode(), "view")
    print(out)
