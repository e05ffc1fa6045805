"""Drawing graphs in Graphviz's language DOT, as ggml_graph_dump_dot writes it, without Graphviz."""

import re

from .layout import draw

NODE = re.compile(r'  "(\w+)" \[.*fillcolor=(\w+), .*label="(.*)"\];')
COLOURS = {"yellow": "parameter", "pink": "leaf: weight or input", "green": "node of the forward graph",
           "lightblue": "node with a gradient"}  # fmt: skip
EDGE = re.compile(r'  "(\w+)" -> "(\w+)"')


def drawn(text):
    """The SVG of DOT text without Graphviz."""
    boxes = {}
    for name, colour, label in NODE.findall(text):
        boxes[name] = colour, re.sub(r"\\(.)", r"\1", label.replace("\\n", "\n")).split("\n")
    return draw(boxes, EDGE.findall(text), COLOURS)
