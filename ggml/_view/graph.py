"""A graph as SVG: a box for each node or, of large graphs, for each layer; coloured by time after a profile."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import ggml

from .._params import function_of
from .._profile.calls import AUTOMATIC, layers_of, op_name, shape_of, text, type_name
from .layout import draw

WIDTH, MOST_LINES = 60, 4  # of the text of a box that is a layer: characters, lines of operations
LARGEST = 150  # boxes; larger graphs are folded
VIEWS = ("RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE")  # compute nothing: arrows lead past them
# What operations are called outside this library
WORDS = {"FLASH_ATTN_EXT": "attention", "ROPE": "rope", "NORM": "layer norm", "RMS_NORM": "RMS norm",
         "GROUP_NORM": "group norm", "L2_NORM": "L2 norm"}  # fmt: skip
INPUT, PARAMETER = "#e8e8e8", "#ffe9a8"
Key = tuple[int, bytes, tuple[int, ...]]  # of a node: operation, name, shape


class Drawn:
    """The nodes of a graph as far as they are drawn."""

    def __init__(self, graph: Any) -> None:
        n = ggml.ggml_graph_n_nodes(graph)
        self.nodes = [ggml.ggml_graph_node(graph, i) for i in range(n)]
        g = graph.contents
        self.leafs = [g.leafs[i] for i in range(g.n_leafs) if is_live(g.leafs[i])]
        if not all(map(is_live, self.nodes)):
            raise RuntimeError("graph_svg: a node of the graph was freed")
        structs = [t.contents for t in self.nodes]
        self.ops = [op_name(s.op, function_of(s)) for s in structs]
        used = {address(s) for t in self.nodes for s in t.contents.src if s}
        self._views = {address(t) for op, t in zip(self.ops, self.nodes) if op in VIEWS and address(t) in used}
        # the nodes that have a box, or a part in one, as operations; parameters are nodes without one
        self.shown = [i for i, t in enumerate(self.nodes) if self.ops[i] != "NONE" and address(t) not in self._views]
        self.inputs = [*(t for op, t in zip(self.ops, self.nodes) if op == "NONE"), *self.leafs]
        self.keys: list[Key] = [(s.op, s.name, shape_of(s.ne)) for s in structs]
        names = [text(s.name) for s in structs]
        self.weights = [weight_of(s) for s in structs]
        self.layers = layers_of(names, self.weights, self.ops)
        self.names = [n if not AUTOMATIC.match(n) else w for n, w in zip(names, self.weights)]
        self.types = [type_name(s.type) for s in structs]

    @property
    def is_large(self) -> bool:
        """Whether a box is a layer instead of a node."""
        return len(self.shown) + len(self.inputs) > LARGEST

    def sources(self, tensor: Any) -> list[Any]:
        """The operands of a node; in place of views what they show."""
        found = []
        for source in tensor.contents.src:
            while source and address(source) in self._views:
                source = source.contents.src[0]
            if source:
                found.append(source)
        return found

    def word(self, i: int) -> str:
        """The name of the operation of node i."""
        return WORDS.get(self.ops[i], self.ops[i])


def is_live(tensor: Any) -> bool:
    """Whether a pointer is that of a tensor which may be read."""
    return bool(tensor) and type(tensor)._describe(tensor) is not None


def weight_of(struct: Any) -> str:
    """The name of the first operand that is a leaf; "" if there is none with a chosen name."""
    for source in struct.src:
        if is_live(source) and source.contents.op == ggml.GGML_OP_NONE and source.contents.name:
            name = text(source.contents.name)
            return "" if AUTOMATIC.match(name) else name
    return ""


def svg(graph: Any, times: dict[Key, float] | None = None) -> str:
    """The SVG of a graph.

    Args:
        graph: graph pointer.
        times: mean ns of the nodes by operation, name and shape: the more time, the redder. None: no colours.
    """
    return picture(Drawn(graph), times or {})


def picture(found: Drawn, times: dict[Key, float]) -> str:
    """The SVG of what Drawn has found (see svg)."""
    if found.is_large:
        return folded(found, times)
    boxes = {}
    ns = [times.get(key, 0.0) for key in found.keys]
    most = max(ns, default=0.0)
    for i in found.shown:
        t = found.nodes[i]
        lines = [found.word(i), f"{found.types[i]} {list(shape_of(t.contents.ne))}"]
        name = found.names[i] or (f"layer {found.layers[i]}" if found.layers[i] >= 0 else "")
        lines += [name] if name else []
        lines += [time_text(ns[i])] if ns[i] else []
        boxes[address(t)] = colour(ns[i], most), lines
    for t in found.inputs:
        s = t.contents
        lines = [text(s.name) or "leaf", f"{type_name(s.type)} {list(shape_of(s.ne))}"]
        boxes[address(t)] = (PARAMETER if s.flags & ggml.GGML_TENSOR_FLAG_PARAM else INPUT), lines
    edges = [(address(s), address(found.nodes[i])) for i in found.shown for s in found.sources(found.nodes[i])]
    meaning = {INPUT: "weight or input", PARAMETER: "parameter, which is trained"}
    return draw(boxes, edges, meaning | times_meaning(most))


def folded(found: Drawn, times: dict[Key, float]) -> str:
    """The SVG of a large graph: one box for each stretch of nodes of the same layer."""
    groups: list[list[int]] = []
    member: dict[str, str] = {}
    for i in found.shown:
        layer = found.layers[i]
        if not groups or found.layers[groups[-1][-1]] != layer or (layer < 0 and len(groups[-1]) >= LARGEST):
            groups.append([])
        groups[-1].append(i)
        member[address(found.nodes[i])] = str(len(groups) - 1)
    ns = [sum(times.get(found.keys[i], 0.0) for i in group) for group in groups]
    boxes = {}
    for k, group in enumerate(groups):
        layer, ops = found.layers[group[0]], [found.word(i) for i in group]
        last = found.nodes[group[-1]].contents
        title = "outside layers" if layer < 0 else f"layer {layer}"
        counts = [f"{ops.count(op)} {op}" for op in dict.fromkeys(ops)]  # in the order in which they are computed
        lines = [f"{title}: {len(group)} operation{'s' * (len(group) > 1)}", *listed(counts)]
        lines.append(f"gives {type_name(last.type)} {list(shape_of(last.ne))}")
        lines += [time_text(ns[k])] if ns[k] else []
        boxes[str(k)] = colour(ns[k], max(ns)), lines
    nodes = [found.nodes[i] for i in found.shown]
    edges = {(member.get(address(s), ""), member[address(t)]): None for t in nodes for s in found.sources(t)}
    # a folded graph is a chain with jumps: an arrow never leads backwards
    return draw(boxes, [(a, b) for a, b in edges if a and int(a) < int(b)], times_meaning(max(ns, default=0.0)))


def listed(words: list[str]) -> list[str]:
    """Lines of words, which are not broken; what does not fit is left out."""
    lines = wrap(", ".join(word.replace(" ", "\xa0") for word in words), WIDTH)
    return [line.replace("\xa0", " ") for line in lines[:MOST_LINES]]


def address(tensor: Any) -> str:
    return f"{tensor._address():x}"


def colour(ns: float, most: float) -> str:
    """From white to red with the share of the longest time."""
    share = ns / most if most else 0.0
    return f"#ff{round(255 - 150 * share):02x}{round(255 - 170 * share):02x}" if share else "#ffffff"


def times_meaning(most: float) -> dict[str, str]:
    """What the colours of boxes with times mean."""
    return {colour(most, most): f"red: most time ({time_text(most)}); white: little"} if most else {}


def time_text(ns: float) -> str:
    return f"{ns / 1e6:.2f} ms" if ns >= 1e5 else f"{ns / 1e3:.2f} us"
