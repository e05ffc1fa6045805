"""Draws a graph that ggml_graph_export or ggml_graph_dump_dot wrote, as SVG or in Graphviz's language DOT."""

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

import ggml

NODE = re.compile(r'  "(\w+)" \[.*fillcolor=(\w+), .*label="(.*)"\];')
EDGE = re.compile(r'  "(\w+)" -> "(\w+)"')
LINE, CHARACTER, MARGIN, ROW = 16, 7.3, 10, 110  # in pixels: line height, character width, margin, distance of rows
ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="gray" stroke="none"/></marker>'
)


def dot(file):
    """The graph of a file in DOT: the text of a DOT file, or the graph of a file of ggml_graph_export."""
    with open(file, "rb") as stream:
        if re.match(rb"\s*(strict\s+)?digraph\b", stream.read(4096)):
            stream.seek(0)
            text = stream.read().decode(errors="replace")
            if not NODE.search(text):
                raise ValueError(f"{file} is in DOT, but not as ggml_graph_dump_dot writes it: use Graphviz to draw it")
            return text
    data, evaluated = ctypes.c_void_p(), ctypes.c_void_p()
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
    text = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)  # XML has no control characters
    if not (program := shutil.which("dot")):
        return drawn(text)
    done = subprocess.run([program, "-Tsvg"], input=text, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError(f"{program} failed: {done.stderr.strip()}")
    return done.stdout


def rows(boxes, edges):
    """Arranges the boxes in rows.

    A box is below all of its sources; a box without sources is just above the first box that uses it. Within a row,
    boxes are sorted by the mean position of their sources.
    """
    sources: dict[str, list[str]] = {b: [] for b in boxes}
    users: dict[str, list[str]] = {b: [] for b in boxes}
    for a, b in edges:
        sources[b].append(a)
        users[a].append(b)
    level = dict.fromkeys(boxes, 0)
    for b in boxes:  # nodes come after their sources; boxes without sources get their final level below
        level[b] = max((level[a] + 1 for a in sources[b]), default=0)
    for b in boxes:
        if not sources[b]:
            level[b] = min((level[u] for u in users[b]), default=1) - 1
    found: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    place: dict[str, float] = {}
    for b in boxes:
        found[level[b]].append(b)
    for row in found:
        row.sort(key=lambda b: sum(place.get(a, 0) for a in sources[b]) / max(len(sources[b]), 1))
        place.update((b, i - len(row) / 2) for i, b in enumerate(row))
    return found


def drawn(text):
    """An SVG of boxes in rows and arrows between them."""
    boxes = {}
    for name, colour, label in NODE.findall(text):
        boxes[name] = colour, re.sub(r"\\(.)", r"\1", label.replace("\\n", "\n")).split("\n")
    edges, at = [(a, b) for a, b in EDGE.findall(text) if a in boxes], {}  # a source need not be in the graph
    for y, row in enumerate(rows(boxes, edges)):
        widths = [CHARACTER * max(map(len, boxes[b][1])) + 2 * MARGIN for b in row]
        x = -(sum(widths) + MARGIN * (len(row) - 1)) / 2
        for b, width in zip(row, widths, strict=True):
            at[b] = x, MARGIN + ROW * y, width, LINE * len(boxes[b][1]) + MARGIN
            x += width + MARGIN
    left = min((x for x, *_ in at.values()), default=0) - MARGIN
    width = max((x + w for x, _, w, _ in at.values()), default=0) + MARGIN - left
    height = max((y + h for _, y, _, h in at.values()), default=0) + MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="{left:.0f} 0 {width:.0f} {height:.0f}"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<defs>{ARROW}</defs>"]
    out.append(f'<rect x="{left:.0f}" width="{width:.0f}" height="{height:.0f}" fill="white"/>')  # for dark viewers
    out.append('<g stroke="gray" fill="none">')
    for a, b in edges:
        (x1, y1, w1, h1), (x2, y2, w2, _) = at[a], at[b]
        x1, y1, x2, bend = x1 + w1 / 2, y1 + h1, x2 + w2 / 2, ROW / 3
        curve = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
        out.append(f'<path d="{curve}" marker-end="url(#arrow)"/>')
    out.append('</g>\n<g stroke="black" font-family="monospace" font-size="12">')
    for b, (x, y, w, h) in at.items():
        colour, lines = boxes[b]
        out.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{h:.0f}" fill="{colour}"/>')
        for i, line in enumerate(lines):
            out.append(f'<text x="{x + MARGIN:.0f}" y="{y + LINE * (i + 1):.0f}" stroke="none">{escape(line)}</text>')
    return "\n".join([*out, "</g>", "</svg>", ""])


def add_arguments(parser):
    parser.add_argument("file", metavar="FILE", help="exported graph, or DOT file of a graph")
    parser.add_argument(
        "-o",
        "--out",
        metavar="OUT",
        help="file to write: SVG if its name ends in .svg, else DOT (default: DOT on standard output)",
    )


def run(options):
    text, out = dot(options.file), options.out
    if out is None:
        print(text, end="")
    else:
        Path(out).write_text(svg(text) if Path(out).suffix.lower() == ".svg" else text, encoding="utf-8")
