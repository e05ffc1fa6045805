"""Draws a graph that ggml_graph_export or ggml_graph_dump_dot wrote, as SVG or in Graphviz's language DOT."""

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import ggml

from .._errors import naming
from .._io.files import check_outputs, open_regular
from .._view.dot import NODE, drawn
from .._view.layout import printable
from .paths import EXPORTED


def dot(file):
    """The graph of a file in DOT: the text of a DOT file, or the graph of a file of ggml_graph_export."""
    with open_regular(file, "ggml_graph_import") as stream:
        start = stream.read(4096)
        if re.match(rb"\s*(strict\s+)?digraph\b", start):
            stream.seek(0)
            text = stream.read().decode(errors="replace")
            if not NODE.search(text):
                raise ValueError(f"{file} is in DOT, but not as ggml_graph_dump_dot writes it: use Graphviz to draw it")
            return text
    if not start.startswith(EXPORTED):
        raise ValueError(f"{file}: neither a graph in DOT nor one that ggml_graph_export wrote")
    data, evaluated = ctypes.c_void_p(), ctypes.c_void_p()
    with naming(file):
        graph = ggml.ggml_graph_import(os.fsencode(file), ctypes.byref(data), ctypes.byref(evaluated))
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "graph.dot")
            ggml.ggml_graph_dump_dot(graph, None, os.fsencode(path))
            return path.read_text(encoding="utf-8")
    finally:
        ggml.ggml_free(evaluated)
        ggml.ggml_free(data)


def svg(text):
    """An SVG of DOT text of ggml_graph_dump_dot: drawn by Graphviz if it is installed, otherwise by `drawn`."""
    text = "\n".join(map(printable, text.split("\n")))
    if not (program := shutil.which("dot")):
        return drawn(text)
    command = [program, "-Tsvg"]
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise RuntimeError(f"{program} failed: {done.stderr.strip()}")
    return done.stdout


def add_arguments(parser):
    parser.add_argument("file", metavar="FILE", help="exported graph, or DOT file of a graph")
    parser.add_argument(
        "-o",
        "--out",
        metavar="OUT",
        help="file to write: SVG if its name ends in .svg, else DOT (default: DOT on standard output)",
    )


def run(options):
    check_outputs([options.out], [options.file])
    text, out = dot(options.file), options.out
    if out is None:
        print(text, end="")
    else:
        Path(out).write_text(svg(text) if Path(out).suffix.lower() == ".svg" else text, encoding="utf-8")
