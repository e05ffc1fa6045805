"""The table of patterns: nodes of the typed graph that one node computes, found before the graph is lowered.

`rewrite` goes through the nodes once. A pattern is a function of the pass and a node; it looks at what computes the
operands of the node, at constants and at the number of readers, and returns a node that takes its place, or None. The
new node is offered to the patterns again. What nothing reads any longer goes.

A new node keeps the nodes of the model that it stands for (`Node.parts`). Patterns know no shapes and few types: where
the rule of the new node finds operands that it does not compute (`OnHost`), the parts are lowered instead. So no rule
knows another operator: what several nodes mean together is said here alone. What the engine fuses in any graph
(tables/fusions.h: a bias and an activation behind a convolution or a product, chains of element-wise operations) is no
pattern.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import TensorProto

from .graph import Node
from .values import F32, Known, count, is_float

X = np.poly1d([1, 0])
GELU = {
    "Tanh": ("gelu", math.sqrt(2 / math.pi) * np.poly1d([0.044715, 0, 1, 0])),
    "Erf": ("gelu_erf", math.sqrt(0.5) * X),
}  # GELU(x) = x (1 + op(polynomial of x)) / 2, by the op: the engine's function, and the polynomial

FAR = -1e30  # a score that is replaced by one as low is lost in a sum with it as well


@dataclass(frozen=True)
class Pattern:
    """A row of the table: build(rewriter, node) for nodes of some operators; gradients: also if those are computed."""

    ops: frozenset
    build: Callable[..., Node | None]
    gradients: bool


PATTERNS: list[Pattern] = []  # in the order in which they are tried


def pattern(*ops, gradients=True):
    """Decorator: adds a function to the table. gradients: its node may be part of a graph that is trained."""

    def register(build):
        PATTERNS.append(Pattern(frozenset(ops), build, gradients))
        return build

    return register


class Rewriter:
    """The pass: nodes by the names that they compute, constants, and how many nodes read each name.

    known: constants by name, to which patterns add; outputs: names that are read from outside.
    """

    def __init__(self, nodes, known, outputs, trains):
        self.nodes, self.known, self.trains = nodes, known, trains
        self.makers: dict[str, Node] = {}
        self.readers = Counter(n for node in nodes for n in node.uses())
        self.readers.update(outputs)
        self.gone: set[int] = set()  # nodes, by id, that nothing reads any longer
        self.polynomials: dict[str, tuple[str, np.poly1d, int]] = {}
        mark_rounded(nodes, outputs)

    def run(self):
        """The nodes after all patterns have been tried."""
        found: list[Node] = []
        for node in self.nodes:
            while (new := self.changed(node)) is not None:
                node = new
            self.makers.update((n, node) for n in node.outputs if n)
            self.note_polynomial(node)
            found.append(node)
        found = [self.makers.get(n.outputs[0], n) if n.outputs else n for n in found]  # some got further outputs
        return [n for n in found if id(n) not in self.gone]

    def changed(self, node):
        """The node that a pattern puts in place of one, or None."""
        for row in PATTERNS:
            if node.op in row.ops and (row.gradients or not self.trains):
                try:
                    new = row.build(self, node)
                except IndexError:  # a damaged node lacks operands, as its rule will say
                    continue
                if new is not None:
                    self.readers.update(set(new.inputs))
                    self.released(node)
                    return new
        return None

    def released(self, node):
        """Forgets that a node reads its inputs; nodes whose results nothing else reads go with it."""
        for name in set(node.inputs) - {""}:
            self.readers[name] -= 1
            maker = self.makers.get(name)
            if maker and id(maker) not in self.gone and not any(self.readers[o] for o in maker.outputs if o):
                self.gone.add(id(maker))
                self.released(maker)

    # What patterns ask for

    def maker(self, name, *ops):
        """The node that computes a name, if it is of one of the operators."""
        node = self.makers.get(name)
        return node if node and node.op in ops else None

    def constant(self, name):
        """The Known value of a name, or None."""
        value = self.known.get(name)
        return value if isinstance(value, Known) else None

    def number(self, name):
        """The value of a constant that is one float, or None."""
        value = self.constant(name)
        single = value is not None and value.array.size == 1 and is_float(value.dtype)
        return float(value.array.reshape(())) if single else None

    def alone(self, node):
        """Whether one node reads the result of a node, and nothing outside."""
        return self.readers[node.outputs[0]] == 1

    def named(self, value, name):
        """A name for a Known value that a pattern made."""
        while name in self.known and self.known[name] is not value:
            name += "'"
        self.known[name] = value
        return name

    def joined(self, node, op, inputs, **attrs):
        """A node in place of one and of all that lies between it and the inputs, with attributes."""
        parts, left, seen = {}, [node], {""}
        while left:
            last = left.pop()
            for part in last.parts or [last]:
                parts[id(part)] = part
            names = set(last.inputs) - set(inputs) - seen
            seen |= names
            left += [self.makers[n] for n in names if n in self.makers]
        own = {o: part for part in parts.values() for o in part.outputs}
        return replace(node, op=op, inputs=list(inputs), attrs=attrs, parts=in_order(parts.values(), own))

    def polynomial(self, name):
        """The value of a name as a polynomial of another one, or of itself: (name, polynomial, rank of the numbers)."""
        return self.polynomials.get(name, (name, X, 0))

    def note_polynomial(self, node):
        """Remembers a result that is a polynomial of another value: what the parts of a GELU consist of."""
        if node.op not in ("Add", "Sub", "Mul", "Div", "Pow", "ggml.Line"):
            return
        line = self.line(node)
        if line is not None:
            x, scale, shift, rank = line
            base, p, other = self.polynomial(x)
            self.polynomials[node.outputs[0]] = base, p * scale + shift, max(rank, other)
            return
        if len(node.inputs) < 2:  # a function
            return
        (base, p, rank), (other, q, more) = map(self.polynomial, node.inputs[:2])
        power = self.number(node.inputs[1]) if node.op == "Pow" else None
        r = None
        if power in (2, 3) and p.order * power <= 3:
            r = p ** int(power)
        elif base == other and node.op in ("Add", "Sub", "Mul"):
            r = p + q if node.op == "Add" else p - q if node.op == "Sub" else p * q
        if r is not None and r.order <= 3:
            self.polynomials[node.outputs[0]] = base, r, max(rank, more)

    def line(self, node):
        """(x, scale, shift, rank of the numbers) of a node that computes x * scale + shift, or None."""
        if node.op == "ggml.Line" and not node.attrs["function"]:
            return node.inputs[0], *(node.attrs[k] for k in ("scale", "shift", "rank"))
        if node.op not in ("Add", "Sub", "Mul", "Div"):
            return None
        for x, other in (node.inputs, node.inputs[::-1])[: 2 if node.op in ("Add", "Mul") else 1]:
            c = self.number(other)
            if c is None or not math.isfinite(c if node.op != "Div" else 1 / c if c else math.inf):
                continue
            rank = len(self.known[other].shape)
            if node.op in ("Mul", "Div"):
                return x, c if node.op == "Mul" else 1 / c, 0.0, rank
            return x, 1.0, c if node.op == "Add" else -c, rank
        return None


def in_order(parts, own):
    """Nodes in an order in which producers come first; own: the nodes by their outputs."""
    done: dict[int, Node] = {}

    def visit(part):
        if id(part) not in done:
            for name in part.inputs:
                if name in own and own[name] is not part:
                    visit(own[name])
            done[id(part)] = part

    for part in parts:
        visit(part)
    return list(done.values())


def mark_rounded(nodes, outputs):
    """Marks the integer products that are only added to, moved, and converted to F32: they may be rounded like that."""
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.uses():
            readers.setdefault(name, []).append(node)
    passing = {"Add", "Sub", "Reshape", "Transpose", "Identity", "Squeeze", "Unsqueeze"}
    converted: set = set()  # names of which only such conversions are made
    for node in (n for n in reversed(nodes) if n.outputs):
        name, users = node.outputs[0], readers.get(node.outputs[0], ())
        if (
            name not in outputs
            and users
            and all(
                n.op == "Cast" and n.attr("to") == TensorProto.FLOAT or n.op in passing and n.outputs[0] in converted
                for n in users
            )
        ):
            converted.add(name)
            node.attrs["ggml.rounded"] = node.op in ("MatMulInteger", "ConvInteger")


def rewrite(nodes, known, outputs, trains=False):
    """The nodes with all patterns applied.

    Args:
        nodes: list of Node, in an order in which producers come first.
        known: Known values by name; those of new constants are added.
        outputs: names of the results.
        trains: whether gradients are computed.
    Returns:
        list of Node.
    """
    return Rewriter(without_copies(nodes, known, set(outputs)), known, set(outputs), trains).run()


def without_copies(nodes, known, outputs):
    """The nodes without Identity, and Dropout that drops nothing; those stay whose results branches or outputs read."""
    sources: dict[str, str] = {}
    read = set(outputs).union(*(replace(node, inputs=[]).uses() for node in nodes))  # from outside, or by branches
    found = []
    for node in nodes:
        if any(n in sources for n in node.inputs):
            node = replace(node, inputs=[sources.get(n, n) for n in node.inputs])
        if is_copy(node, known):
            sources[node.outputs[0]] = node.inputs[0]
            if node.outputs[0] not in read:
                continue
        found.append(node)
    return found


def is_copy(node, known):
    """Whether the one result of a node is its operand."""
    if node.op not in ("Identity", "Dropout") or "" in node.inputs[:1] + node.outputs or len(node.outputs) != 1:
        return False
    if node.op == "Identity":
        return len(node.inputs) == 1
    training = [*node.inputs, "", ""][2]
    switch = known.get(training)
    return node.version >= 7 and (not training or isinstance(switch, Known) and not switch.array.any())


# Integers of 8 bits

CODES = {
    "DequantizeLinear": (0, 2),
    "MatMulInteger": (0, 2),
    "ConvInteger": (0, 2),
}  # the places of integers and of their zero point among the inputs, by operator


@pattern(*CODES)
def without_zero(r, node):
    """QuantizeLinear, then an operator that subtracts the same zero point: the integers are made without it."""
    place, zero = CODES[node.op]
    name = node.inputs[zero] if len(node.inputs) > zero else ""
    source = r.maker(node.inputs[place], "QuantizeLinear", "DynamicQuantizeLinear")
    if not source or not name or node.inputs[place] != source.outputs[0]:
        return None
    dynamic = source.op == "DynamicQuantizeLinear"
    own = source.outputs[2] if dynamic else source.inputs[2] if len(source.inputs) > 2 else ""
    same = own == name or (
        r.constant(own) and r.constant(name) and np.array_equal(r.constant(own).array, r.constant(name).array)
    )
    if not same:
        return None
    outputs, n = list(source.outputs), 4 if dynamic else 2
    outputs += [""] * (n - 1 - len(outputs))
    if len(outputs) < n:
        outputs.append(outputs[0] + "/less zero")
        wider = replace(source, outputs=outputs, parts=source.parts or [source])
        r.makers.update((o, wider) for o in outputs if o)
    inputs = list(node.inputs)
    inputs[place], inputs[zero] = outputs[n - 1], ""
    return replace(node, inputs=inputs, parts=node.parts or [node])


@pattern("Conv", "MatMul", "Gemm", gradients=False)
def product_of_bytes(r, node):
    """DequantizeLinear, then a product with what DequantizeLinear made, of constants or not: of the integers."""
    x, w = r.maker(node.inputs[0], "DequantizeLinear"), r.constant(node.inputs[1])
    y = r.maker(node.inputs[1], "DequantizeLinear") if node.op == "MatMul" else None
    if x and y and all(single_scale(r, v) for v in (x, y)):
        inputs = [name for v in (x, y) for name in [*v.inputs, ""][:3]]
        return r.joined(node, "ggml.ByteMatMul", inputs, **node.attrs)
    codes = w is not None and w.tensors.get("codes")
    if not x or not codes or not count(w.shape):
        return None
    (weights, scale, zero, axis), channels = codes, {"Conv": 0, "MatMul": 1}.get(node.op, 1)
    if node.op == "Gemm":
        channels = 0 if node.attr("transB", 0) else 1
    bytewise = weights.dtype in (np.uint8, np.int8) and (zero is None or not np.ptp(zero.array))
    single = scale.array.size == 1 or scale.array.ndim == 1 and axis % len(w.shape) == channels
    if not (bytewise and single and (node.op == "Conv" or len(w.shape) == 2)):
        return None
    if node.op == "Gemm" and node.attr("transA", 0) or depthwise(node, w):
        return None
    name = node.inputs[1]
    own = [v and r.named(v, f"{name}/{k}") for v, k in zip((weights, scale, zero), ("codes", "scale", "zero"))]
    inputs = [*x.inputs[:2], x.inputs[2] if len(x.inputs) > 2 else "", *(n or "" for n in own), *node.inputs[2:]]
    return r.joined(node, "ggml.Byte" + node.op, inputs, **node.attrs)


def single_scale(r, node):
    """Whether the scale and the zero point of DequantizeLinear are constant numbers."""
    known = [r.constant(name) for name in node.inputs[1:3] if name]
    return all(v is not None and count(v.shape) == 1 for v in known)


def depthwise(node, w):
    """Whether a node is a convolution whose channels are each a group: there is no kernel of bytes for it."""
    return node.op == "Conv" and node.attr("group", 1) == w.shape[0] and w.shape[1] == 1


@pattern("Add")
def sums_with_bias(r, node):
    """ConvInteger, then a sum that is rounded to a float: the convolution adds it, if it is a number per channel."""
    for name, bias in (node.inputs, node.inputs[::-1]):
        sums = r.maker(name, "ConvInteger")
        if sums and len(sums.inputs) < 5 and sums.attr("ggml.rounded") and r.alone(sums):
            inputs = [*sums.inputs, "", ""][:4] + [bias]
            return r.joined(node, "ConvInteger", inputs, **sums.attrs)
    return None


# Numbers, convolutions


@pattern("Add", "Sub", "Mul", "Div")
def line_of_line(r, node):
    """A product with a number, then a sum or product with another: x * scale + shift."""
    line = r.line(node)
    if line is None:
        return None
    name, scale, shift, rank = line
    maker = r.maker(name, "Mul", "Div", "ggml.Line")
    if maker is None or maker.op == node.op == "Div":
        return None
    function = maker.attr("function")
    if function:
        found = maker.inputs[0], *(maker.attrs[k] for k in ("scale", "shift", "rank"))
    else:
        found = r.line(maker)
    if found is None or found[2] or not math.isfinite(found[1] * scale) or function and not r.alone(maker):
        return None
    return r.joined(node, "ggml.Line", [found[0]], **line_attrs(found[1] * scale, shift, max(rank, found[3]), function))


def line_attrs(scale, shift, rank, function=None):
    """The attributes of ggml.Line: function(x) * scale + shift, where the model has numbers of a rank."""
    return {"function": function, "scale": scale, "shift": shift, "rank": rank}


@pattern("Add", "Sub", "Mul", "Div", "ggml.Line", "BatchNormalization")
def scaled_convolution(r, node):
    """A convolution with constants, then a line or a normalisation by constants: other constants. Axes of one element
    may be left out in between, as exporters of one-dimensional convolutions do before they add a bias."""
    if node.op == "BatchNormalization":
        line = normalisation(r, node)
    else:
        line = r.line(node) or line_of_channels(r, node)
    if line is None or not all(np.isfinite(v).all() for v in line[1:3]):
        return None
    conv, w, rank = convolution(r, line[0])
    if not w or line[3] > rank:
        return None
    bias = conv.inputs[2] if len(conv.inputs) > 2 else ""
    if bias and r.constant(bias) is None:
        return None
    scale, shift = (np.asarray(v, np.float64) for v in line[1:3])
    shift = shift if not bias else shift + scale * r.constant(bias).array.reshape(-1)
    known = Known(np.broadcast_to(shift, w.shape[:1]).astype(np.float32), w.arena)
    name, kernel = node.outputs[0], w
    if (scale != 1).any():
        kernel = w.derived(("scaled", scale.tobytes()), lambda a: scaled(a, scale))
    inputs = [conv.inputs[0], r.named(kernel, f"{conv.inputs[1]}/{name}"), r.named(known, f"{name}/bias")]
    return r.joined(node, "Conv", inputs, **conv.attrs)


def convolution(r, name):
    """(node, weights, rank of the result) of the convolution with constant weights whose result only one node reads,
    perhaps through a Squeeze, whose axes the node then has as `ggml.squeezed`. (None, None, 0): another value."""
    last = r.maker(name, "Conv", "Squeeze")
    conv = r.maker(last.inputs[0], "Conv") if last and last.op == "Squeeze" else last
    w = conv and r.constant(conv.inputs[1])
    if not w or not r.alone(conv) or not r.alone(last) or not count(w.shape) or w.dtype != F32:
        return None, None, 0
    axes = list(conv.attr("ggml.squeezed", ()))
    if last is not conv:
        found = squeezed_places(r, last, len(w.shape))
        if axes or not found:
            return None, None, 0
        axes, conv = found, replace(conv, attrs={**conv.attrs, "ggml.squeezed": found})
    return conv, w, len(w.shape) - len(axes)


def squeezed_places(r, node, rank):
    """The axes that a Squeeze leaves out of a value of a rank; None if they are not known, or not those of places."""
    axes = known_axes(r, node) or []
    found = sorted({a % rank for a in axes if -rank <= a < rank})
    return found if len(found) == len(axes) and not {0, 1}.intersection(found) else None


def known_axes(r, node):
    """The axes that a node has as an attribute or as a constant operand, or None."""
    given = r.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return given.array.ravel().tolist() if given else node.attr("axes")


def line_of_channels(r, node):
    """(x, scale, shift, 0) of a convolution's sum or product with a constant for each channel, or None."""
    if node.op not in ("Add", "Sub", "Mul", "Div"):
        return None
    for x, other in (node.inputs, node.inputs[::-1])[: 2 if node.op in ("Add", "Mul") else 1]:
        _, w, rank = convolution(r, x)
        c = r.constant(other)
        channels = w and (w.shape[0], *(1,) * (rank - 2))
        if not w or c is None or c.dtype != F32 or tuple(c.shape) not in (channels, (1, *channels)):
            continue
        a = c.array.astype(np.float64).reshape(-1)
        if node.op in ("Mul", "Div"):
            with np.errstate(all="ignore"):
                return x, a if node.op == "Mul" else 1 / a, np.zeros(1), 0
        return x, np.ones(1), a if node.op == "Add" else -a, 0
    return None


def scaled(array, scale):
    """A kernel times one number, or one for each of its output channels."""
    return (array * scale.reshape(-1, *(1,) * (array.ndim - 1))).astype(np.float32)


def normalisation(r, node):
    """(x, scale, shift, 0) of a BatchNormalization by constants, with numbers per channel."""
    values = [r.constant(n) for n in node.inputs[1:5]]
    plain = not node.attr("training_mode", 0) and node.attr("spatial", 1) and not any(node.outputs[1:])
    if len(values) < 4 or not plain or any(v is None or v.dtype != F32 for v in values):
        return None
    scale, bias, mean, variance = (v.array.astype(np.float64) for v in values)
    factor = scale / np.sqrt(variance + node.attr("epsilon", 1e-5))
    return node.inputs[0], factor, bias - mean * factor, 0


# Activations in pieces


@pattern("Mul")
def gate(r, node):
    """x times a function of x: SiLU, HardSwish, GELU, times a factor."""
    for value, other in (node.inputs, node.inputs[::-1]):
        found = gate_of(r, value, other) or gelu_of(r, value, other)
        if found:
            x, function, factor, rank = found
            return r.joined(node, "ggml.Line", [x], **line_attrs(factor, 0.0, rank, function))
    return None


def gate_of(r, x, name):
    """(x, function, factor, rank): the name's value times x is factor * function(x)."""
    maker, factor, rank = r.makers.get(name), 1.0, 0
    line = r.line(maker) if maker else None
    if line and not line[2]:
        name, factor, _, rank = line
    maker = r.maker(name, "Sigmoid", "HardSigmoid", "Clip")
    if maker is None:
        return None
    (base, p, rank_x), (other, q, more) = r.polynomial(x), r.polynomial(maker.inputs[0])
    if base != other:
        return None
    rank = max(rank, rank_x, more)
    if maker.op == "Sigmoid" and q == p:
        return x, "silu", factor, rank
    sixth = abs(6 * maker.attr("alpha", 0.2) - 1) < 1e-6 and maker.attr("beta", 0.5) == 0.5
    if maker.op == "HardSigmoid" and q == p and sixth:
        return x, "hardswish", factor, rank
    if maker.op == "Clip" and q == p + 3 and limits(r, maker) == (0, 6):
        return x, "hardswish", 6 * factor, rank
    return None


def limits(r, node):
    """The limits of a Clip by numbers."""
    if node.version < 11:
        return node.attr("min"), node.attr("max")
    return tuple(r.number(n) if n else None for n in [*node.inputs, "", ""][1:3])


def gelu_of(r, value, other):
    """The same of a GELU whose factors are spread over both operands of the product."""
    (x, p, rank), (root, q, more) = r.polynomial(value), r.polynomial(other)
    maker = r.maker(root, *GELU)
    if maker is None or not (p.order == q.order == 1 and p[0] == 0 and q[0] == q[1]):
        return None
    function, wanted = GELU[maker.op]
    base, inner, most = r.polynomial(maker.inputs[0])
    if base != x or inner.order != wanted.order or not np.allclose(inner.c, wanted.c, 1e-6, 0):
        return None
    return x, function, 2 * p[1] * q[1], max(rank, more, most)


# Normalisations in pieces


@pattern("Div", "Mul")
def normalised_rows(r, node):
    """(x - mean) / sqrt(variance + epsilon) over the last axes, or x / sqrt(mean of squares + epsilon)."""
    for x, other in (node.inputs, node.inputs[::-1])[: 2 if node.op == "Mul" else 1]:
        root = r.maker(other, "Sqrt") if node.op == "Div" else inverse_root(r, other)
        line = root and r.line(r.makers.get(root.inputs[0], root))
        square = line and r.maker(line[0], "ReduceMean")
        axes = square and trailing_axes(r, square)
        if not axes or line[1] != 1 or line[2] < 0 or line[3] > 1 or not squares(r, square.inputs[0], x):
            continue
        difference = r.maker(x, "Sub")
        mean = difference and r.maker(difference.inputs[1], "ReduceMean")
        centred = mean and mean.inputs[0] == difference.inputs[0] and trailing_axes(r, mean) == axes
        source = difference.inputs[0] if centred else x
        return r.joined(node, "ggml.Normalise", [source], axes=axes, epsilon=line[2], centred=bool(centred))
    return None


def inverse_root(r, name):
    """The Sqrt whose reciprocal is a value."""
    maker = r.maker(name, "Reciprocal", "Div")
    if maker is None or maker.op == "Div" and r.number(maker.inputs[0]) != 1:
        return None
    return r.maker(maker.inputs[-1], "Sqrt")


def trailing_axes(r, node):
    """How many of the last axes a reduction reduces and keeps; 0 if it does something else."""
    axes = sorted(known_axes(r, node) or ())
    return len(axes) if axes and node.attr("keepdims", 1) and axes == list(range(-len(axes), 0)) else 0


def squares(r, name, x):
    """Whether a value is the square of another one, which may be computed twice."""
    maker = r.maker(name, "Pow", "Mul")
    if maker is None or (r.number(maker.inputs[1]) != 2 if maker.op == "Pow" else len(set(maker.inputs)) > 1):
        return False
    a, b = r.makers.get(maker.inputs[0]), r.makers.get(x)
    return maker.inputs[0] == x or bool(a and b and a.op == b.op == "Sub" and a.inputs == b.inputs)


@pattern("ReduceSum")
def sum_of_squares(r, node):
    """A square, then a sum."""
    square = r.maker(node.inputs[0], "Mul", "Pow")
    if not square or not r.alone(square) or not squares(r, node.inputs[0], square.inputs[0]):
        return None
    return r.joined(node, "ReduceSumSquare", [square.inputs[0], *node.inputs[1:]], **node.attrs)


# Attention in pieces


@pattern("MatMul")
def attention(r, node):
    """Softmax of scaled products of q and transposed k, with masks, times v: no scores are stored."""
    maker, v = r.maker(node.inputs[0], "Softmax", "Where"), node.inputs[1]
    if maker is None or not r.alone(maker):
        return None
    softmax = maker if maker.op == "Softmax" else numbers_or_zero(r, maker)
    found = softmax and scores(r, softmax.inputs[0], 2)
    if not found:
        return None
    product, scale, rank, masks = found
    (q, k), keys = product.inputs, None
    q, scale, rank = unscaled(r, q, scale, rank)
    k, scale, rank = unscaled(r, k, scale, rank)
    turned = r.maker(k, "Transpose")
    if turned and r.alone(turned) and turned.attr("perm"):
        k, scale, rank = unscaled(r, turned.inputs[0], scale, rank)
        keys = tuple(turned.attr("perm"))
    return r.joined(
        node,
        "ggml.Attention",
        [q, k, v, *(mask for mask, _ in masks)],
        keys=keys,
        scale=scale,
        rank=rank,
        hides=[hides for _, hides in masks],
        axis=softmax.attr("axis", 1 if softmax.version < 13 else -1),
    )


def numbers_or_zero(r, node):
    """The Softmax of which a Where takes all but NaN, which it has where no key is seen; that reads it, too."""
    softmax, test = r.maker(node.inputs[2], "Softmax"), r.maker(node.inputs[0], "IsNaN")
    safe = softmax and test and test.inputs[0] == node.inputs[2] and r.number(node.inputs[1]) == 0
    return softmax if safe and r.alone(test) and r.readers[node.inputs[2]] == 2 else None


def scores(r, name, most):
    """(product, scale, rank of the scale, masks) of a value that only a softmax reads, with up to `most` masks.

    masks: (name, None) of what is added, (name, (low, seen)) of a condition that is `seen` where no key is hidden.
    """
    node = r.makers.get(name)
    if node is None or not r.alone(node):
        return None
    line = r.line(node)
    if node.op == "MatMul" or line:
        x, scale, shift, rank = line or (name, 1.0, 0.0, 0)
        product = r.maker(x, "MatMul")
        return None if product is None or shift or not r.alone(product) else (product, scale, rank, [])
    sides: list[tuple] = []  # (scores, mask, how it hides)
    if node.op == "Add":
        sides = [(x, mask, None) for x, mask in (node.inputs, node.inputs[::-1])]
    elif node.op == "Where":
        condition, x, y = node.inputs
        sides = [(s, condition, (r.number(low), s == x)) for s, low in ((x, y), (y, x)) if (r.number(low) or 0) <= FAR]
    for x, mask, hides in sides if most else ():
        found = scores(r, x, most - 1)
        if found and not (found[3] and hides and hides[0] > -math.inf):  # a sum may be lower than what replaces it
            return *found[:3], [*found[3], (mask, hides)]
    return None


def unscaled(r, name, scale, rank):
    """(x, scale, rank) of a factor of a product, x times a number that only the product reads."""
    node = r.makers.get(name)
    line = r.line(node) if node and r.alone(node) else None
    if line is None or line[2]:
        return name, scale, rank
    return line[0], scale * line[1], max(rank, line[3])


# Rows that are looked up


@pattern("MatMul")
def lookup(r, node):
    """Equal to 0, 1, 2 ..., converted to floats, times a constant matrix: rows of the matrix."""
    cast, w = r.maker(node.inputs[0], "Cast"), r.constant(node.inputs[1])
    equal = cast and cast.attr("to") == TensorProto.FLOAT and r.maker(cast.inputs[0], "Equal")
    if not equal or w is None or len(w.shape) != 2 or not is_float(w.dtype):
        return None
    index, places = equal.inputs
    known = r.constant(places)
    count: Any = 0 if known is None or is_float(known.dtype) else known.array.size
    if count < 2 or count != w.shape[0] or (known.array.reshape(-1) != np.arange(count)).any():
        return None
    spread = r.maker(index, "Expand")
    return r.joined(node, "ggml.Lookup", [*(spread.inputs if spread else [index, ""]), node.inputs[1]])


# Shapes that are put together


def dims(r, node, sources, spec, vector):
    """ggml.Dims: a number, or a vector, of entries of shapes (place in the sources, axis) and of other numbers."""
    names = list(dict.fromkeys(sources))
    spec = [e if isinstance(e, int) else (names.index(sources[e[0]]), e[1]) for e in spec]
    return r.joined(node, "ggml.Dims", names, spec=spec, vector=vector)


@pattern("Gather")
def entries_of_shape(r, node):
    """Shape, then entries of it."""
    shape, index = r.maker(node.inputs[0], "Shape"), r.constant(node.inputs[1])
    if not shape or shape.attr("start") or shape.attr("end") is not None or index is None or len(index.shape) > 1:
        return None
    spec = [(0, int(i)) for i in index.array.reshape(-1)]
    return dims(r, node, shape.inputs, spec, len(index.shape) == 1) if spec else None


@pattern("Unsqueeze", "Cast")
def same_entries(r, node):
    """An entry of a shape as a vector, or in the type that it has."""
    made = r.maker(node.inputs[0], "ggml.Dims")
    if made is None:
        return None
    vector = made.attrs["vector"]
    if node.op == "Unsqueeze":
        axes = r.constant(node.inputs[1]) if len(node.inputs) > 1 else None
        axes = node.attr("axes") if axes is None else axes.array.tolist()
        if vector or axes not in ([0], [-1]):
            return None
    elif node.attr("to") != TensorProto.INT64:
        return None
    return dims(r, node, made.inputs, made.attrs["spec"], vector or node.op == "Unsqueeze")


@pattern("Concat")
def shape_of_entries(r, node):
    """A shape that is put together of entries of others, and of numbers."""
    sources: list[Any] = []
    spec, found = [], 0
    for name in node.inputs:
        made, known = r.maker(name, "ggml.Dims"), r.constant(name)
        if made and made.attrs["vector"]:
            spec += [e if isinstance(e, int) else (e[0] + len(sources), e[1]) for e in made.attrs["spec"]]
            sources += made.inputs
            found += 1
        elif known is not None and known.dtype == np.int64 and len(known.shape) == 1:
            spec += known.array.tolist()
        else:
            return None
    return dims(r, node, sources, spec, True) if found else None
