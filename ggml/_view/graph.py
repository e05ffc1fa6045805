"""A graph as SVG: a box for each node or, of large graphs, for each layer; coloured by time after a profile."""

from __future__ import annotations

from typing import Any

import ggml

from .._profile.calls import AUTOMATIC, layers_of, op_name, shape_of, text, type_name
from .layout import draw

LARGEST = 150  # boxes; larger graphs are folded
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
        self.ops = [op_name(s.op, s.op_params[0]) for s in structs]
        self.keys: list[Key] = [(s.op, s.name, shape_of(s.ne)) for s in structs]
        names = [text(s.name) for s in structs]
        self.weights = [weight_of(s) for s in structs]
        self.layers = layers_of(names, self.weights, self.ops)
        self.names = [n if not AUTOMATIC.match(n) else w for n, w in zip(names, self.weights)]
        self.types = [type_name(s.type) for s in structs]

    def sources(self, tensor: Any) -> list[Any]:
        return [s for s in tensor.contents.src if s]


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
    found = Drawn(graph)
    if len(found.nodes) + len(found.leafs) > LARGEST:
        return folded(found, times or {})
    boxes = {}
    ns = [(times or {}).get(key, 0.0) for key in found.keys]
    most = max(ns, default=0.0)
    for i, t in enumerate(found.nodes):
        lines = [found.ops[i], f"{found.types[i]} {list(shape_of(t.contents.ne))}"]
        lines += [found.names[i]] if found.names[i] else []
        lines += [time_text(ns[i])] if ns[i] else []
        boxes[address(t)] = colour(ns[i], most), lines
    for t in found.leafs:
        s = t.contents
        lines = [text(s.name) or "leaf", f"{type_name(s.type)} {list(shape_of(s.ne))}"]
        boxes[address(t)] = ("#ffe9a8" if s.flags & ggml.GGML_TENSOR_FLAG_PARAM else "#e8e8e8"), lines
    edges = [(address(s), address(t)) for t in found.nodes for s in found.sources(t)]
    return draw(boxes, edges)


def folded(found: Drawn, times: dict[Key, float]) -> str:
    """The SVG of a large graph: one box for each stretch of nodes of the same layer."""
    groups: list[list[int]] = []
    member: dict[str, str] = {}
    for i, layer in enumerate(found.layers):
        if not groups or found.layers[groups[-1][-1]] != layer or (layer < 0 and len(groups[-1]) >= LARGEST):
            groups.append([])
        groups[-1].append(i)
        member[address(found.nodes[i])] = str(len(groups) - 1)
    ns = [sum(times.get(found.keys[i], 0.0) for i in group) for group in groups]
    boxes = {}
    for k, group in enumerate(groups):
        layer, ops = found.layers[group[0]], [found.ops[i] for i in group]
        last = found.nodes[group[-1]].contents
        title = "outside layers" if layer < 0 else f"layer {layer}"
        common = sorted(set(ops), key=lambda op: -ops.count(op))[:3]
        lines = [f"{title}: {len(group)} nodes", ", ".join(f"{op} x{ops.count(op)}" for op in common)]
        lines.append(f"gives {type_name(last.type)} {list(shape_of(last.ne))}")
        lines += [time_text(ns[k])] if ns[k] else []
        boxes[str(k)] = colour(ns[k], max(ns)), lines
    edges = {(member.get(address(s), ""), member[address(t)]): None for t in found.nodes for s in found.sources(t)}
    # a folded graph is a chain with jumps: an arrow never leads backwards
    return draw(boxes, [(a, b) for a, b in edges if a and int(a) < int(b)])


def address(tensor: Any) -> str:
    return f"{tensor._address():x}"


def colour(ns: float, most: float) -> str:
    """From white to red with the share of the longest time."""
    share = ns / most if most else 0.0
    return f"#ff{round(255 - 150 * share):02x}{round(255 - 170 * share):02x}" if share else "#ffffff"


def time_text(ns: float) -> str:
    return f"{ns / 1e6:.2f} ms" if ns >= 1e5 else f"{ns / 1e3:.2f} us"
