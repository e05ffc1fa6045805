"""Recurrent networks: unrolled over the time steps, with the products of the inputs made for all steps together."""

import numpy as np

from .. import recurrence  # type: ignore[attr-defined]
from ..recording import ggml
from ..values import F32, Known, OnHost, Tensor, is_constant
from . import rule
from .elementwise import ACTIVATIONS, activation
from .matmul import matmul
from .quantized import quantized
from .shape import reverse_sequence_of

BATCH = 4  # rows of a state up to which all steps are one node
NEAR = 256  # elements of a state whose weights lie in a processor's own cache
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def activations(node, names):
    """The functions of gates by their names: those that have parameters take the next ones of two lists."""
    lists = [iter(node.attr(f"activation_{which}") or []) for which in ("alpha", "beta")]
    return [activation(node, name, *(next(v, None) for v in lists[: ACTIVATIONS.get(name, 0)])) for name in names]


class Cell:
    """One direction of a recurrent operator, or both, which then are a first axis of all values.

    The weights are those of inputs (gates * hidden, inputs) and of the state (gates * hidden, hidden), a bias
    (2 * gates * hidden,) or None, and peephole weights (3 * hidden,) or None; scales are factors of both products, one
    number or one for each column.
    """

    def __init__(self, b, node, weights, direction, scales=None):
        self.b, self.node = b, node
        self.kind = node.op.rpartition(".")[2].removeprefix("DynamicQuantize")
        self.w, self.r, bias, peephole = weights
        self.scales = scales
        self.hidden = self.r.shape[-1]
        n = GATES[self.kind] * self.hidden
        bias, peephole = (v and b.reshape(v, (*v.shape[:-1], 1, v.shape[-1])) for v in (bias, peephole))
        self.w_bias, self.r_bias = (bias and b.slice(bias, -1, first, n) for first in (0, n))
        self.peepholes = [b.slice(peephole, -1, i * self.hidden, self.hidden) for i in range(3)] if peephole else None
        defaults = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[self.kind]
        k = len(defaults)
        functions = activations(node, node.attr("activations") or defaults * 2)
        self.activations = functions[direction * k : direction * k + k]
        self.clip, self.parts = node.attr("clip"), {}  # parts: of r, as matrices to multiply states with

    def activate(self, which, x):
        return self.activations[which](self.b, self.b.clamp(x, -self.clip, self.clip) if self.clip else x)

    def gate(self, x, i, n=1):
        """n gates from the i-th on of (batch, gates * hidden)."""
        return self.b.slice(x, -1, i * self.hidden, n * self.hidden)

    def product(self, x, weights, which):
        """The product with a matrix (inputs, outputs). If that is of bytes, rows of 32 and more are rounded, too."""
        b, whole = self.b, np.dtype(np.int32)
        if weights.dtype != np.int8 or weights.shape[-2] < 32:
            y = matmul(b, x, weights)
            return self.scaled(y, which)
        size = Tensor(b.unary(ggml.ggml_abs, x).t, x.shape, whole)  # finite, so that the maximum takes one operation
        unit = Tensor(b.affine(b.reduce_max(size, [-1], True), 1 / 127, 1e-30).t, (*x.shape[:-1], 1), F32)
        codes = Tensor(quantized(b, x, unit, None, np.dtype(np.int8)).t, x.shape, whole, (-127, 127))
        y = matmul(b, codes, weights)
        return self.scaled(b.mul(Tensor(y.t, y.shape, F32), unit), which)

    def scaled(self, y, which):
        """A product times its scale, or one for each column."""
        if not self.scales:
            return y
        scale = self.scales[which]
        return self.b.affine(y, float(scale[0])) if scale.size == 1 else self.b.mul(y, self.b.constant(scale))

    def inputs(self, x):
        """What the inputs (..., inputs) add to the gates, with the biases that may be added beforehand."""
        y = self.product(x, self.b.move(self.w, -1, -2), 0)
        if self.w_bias is not None:
            y = self.b.add(y, self.w_bias)
            if not (self.kind == "GRU" and self.node.attr("linear_before_reset", 0)):
                y = self.b.add(y, self.r_bias)
        return y

    def recurrent(self, h, first=0, n=None):
        """What the state adds to n gates from the first on."""
        n = GATES[self.kind] - first if n is None else n
        if (first, n) not in self.parts:
            rows = self.b.slice(self.r, -2, first * self.hidden, n * self.hidden)
            self.parts[first, n] = self.b.move(rows, -1, -2)
        return self.product(h, self.parts[first, n], 1)

    def rnn(self, x, h, c):
        return self.activate(0, self.b.add(x, self.recurrent(h))), None

    def gru(self, x, h, c):
        b, early = self.b, self.node.attr("linear_before_reset", 0)
        if early:
            part = self.recurrent(h) if self.r_bias is None else b.add(self.recurrent(h), self.r_bias)
            zr = self.activate(0, b.add(self.gate(x, 0, 2), self.gate(part, 0, 2)))
            candidate = b.mul(self.gate(zr, 1), self.gate(part, 2))
        else:
            zr = self.activate(0, b.add(self.gate(x, 0, 2), self.recurrent(h, 0, 2)))
            candidate = self.recurrent(b.mul(self.gate(zr, 1), h), 2, 1)
        candidate = self.activate(1, b.add(self.gate(x, 2), candidate))
        return b.add(candidate, b.mul(self.gate(zr, 0), b.sub(h, candidate))), None

    def lstm(self, x, h, c):
        b, gates = self.b, self.b.add(x, self.recurrent(h))
        if self.peepholes is None:  # gates are i, o, f, c
            three = self.activate(0, self.gate(gates, 0, 3))
            i, o, f = (self.gate(three, k) for k in range(3))
        else:
            i = self.activate(0, b.add(self.gate(gates, 0), b.mul(c, self.peepholes[0])))
            f = self.activate(0, b.add(self.gate(gates, 2), b.mul(c, self.peepholes[2])))
        if self.node.attr("input_forget", 0):
            f = b.affine(i, -1.0, 1.0)
        c = b.add(b.mul(f, c), b.mul(i, self.activate(1, self.gate(gates, 3))))
        if self.peepholes is not None:
            o = self.activate(0, b.add(self.gate(gates, 1), b.mul(c, self.peepholes[1])))
        return b.mul(o, self.activate(2, c)), c

    def run(self, x, lengths, h, c):
        """All steps: the states (steps, batch, hidden), or (steps, 2, batch, hidden), the last state and cell."""
        b, step, states = self.b, getattr(self, self.kind.lower()), []
        both, steps = len(h.shape) == 3, x.shape[-3]
        gates = self.inputs(b.reshape(x, (2, steps * x.shape[2], x.shape[3])) if both else x)
        if both:
            gates = b.contiguous(b.move(b.reshape(gates, (2, steps, x.shape[2], gates.shape[2])), 1, 0))
        for t in range(steps):
            new_h, new_c = step(b.entry(gates, 0, t), h, c)
            out = new_h
            if lengths is not None and (t >= lengths).any():  # sequences that have ended keep their state
                alive = b.constant((t < lengths)[:, None])
                out = b.select(alive, new_h, b.full((), 0, new_h.dtype))
                new_h = b.select(alive, new_h, h)
                new_c = new_c and b.select(alive, new_c, c)
            h, c = new_h, new_c
            states.append(out)
        return b.stack(states, 0), h, c


def is_one_node(b, node, r, steps, batch):
    """Whether compiled code makes all steps (recurrence.pyx).

    Products of many rows take less time as nodes, and so does one step. Compiled code reads the weights for each row,
    with one thread for each direction: large ones for one row only, and where no other threads could help.
    """
    plain = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}.get(node.op)
    given = node.attr("activations")
    other = node.attr("clip") or node.attr("input_forget", 0) or b.trains or not isinstance(r, Known)
    if not plain or other or given and given != plain * r.shape[0]:
        return False
    directions, _, hidden = r.shape
    alone = batch == 1 and b.workers <= directions
    return bool(batch <= BATCH and steps > 1 and hidden <= (recurrence.LARGEST if alone else NEAR))


def whole(b, node, x, w, r, bias, state, peephole):
    """All steps of all directions as one node: the results of the operator."""
    (steps, batch, inputs), (directions, wide, hidden) = x.shape, r.shape
    kind, after = node.op, node.op == "GRU" and node.attr("linear_before_reset", 0)
    gates = matmul(b, x, b.move(b.reshape(w, (directions * wide, inputs)), -1, -2))
    if bias is not None:
        gates = b.add(gates, b.reshape(first_bias(b, bias, wide, after), (directions * wide,)))
    h, more = state
    ends = 2 if kind == "LSTM" else 1  # lines of the result after the steps: the last state, and the last cell
    if kind == "GRU":
        kind += ", reset after" if after else ""
        more = b.full((directions, wide), 0, F32) if bias is None else b.slice(bias, -1, wide, wide)
    size, lines = directions * batch * hidden, steps + ends
    others = {"RNN": [], "LSTM": [more, peephole]}.get(node.op, [more])
    operands = [b.contiguous(v).t for v in (gates, b.move(r, -1, -2), h, *others) if v is not None]
    backwards = np.array([directions == 1 and node.attr("direction", "forward") == "reverse"], np.int32)
    t = b.compiled(size, lines, recurrence.FUNCTIONS[kind], True, *operands, data=backwards)
    y = Tensor(t, (lines, size), F32)
    y = y if x.dtype == F32 else b.rounded(y, x.dtype)
    last = [b.reshape(b.entry(y, 0, steps + i), (directions, batch, hidden)) for i in range(ends)]
    return b.reshape(b.slice(y, 0, 0, steps), (steps, directions, batch, hidden)), *last


def first_bias(b, bias, wide, after):
    """What is added to the products of the inputs: both biases, or the first one if a gate is applied to the second."""
    if after:
        return b.slice(bias, -1, 0, wide)
    if is_constant(bias):
        return bias.derived("both", lambda a: a[:, :wide] + a[:, wide:])
    return b.add(b.slice(bias, -1, 0, wide), b.slice(bias, -1, wide, wide))


@rule("RNN", "GRU", "LSTM", on_floats=True)
def recurrent(b, node, x, w, r, bias=None, lengths=None, h0=None, c0=None, peephole=None, scales=None):
    batch_first = node.attr("layout", 0)
    if batch_first:
        x = b.transpose(x, (1, 0, 2))
        h0, c0 = (v if v is None else b.transpose(v, (1, 0, 2)) for v in (h0, c0))
    (steps, batch, inputs), hidden, directions = x.shape, r.shape[2], w.shape[0]
    wide = GATES[node.op.rpartition(".")[2].removeprefix("DynamicQuantize")] * hidden
    shapes = (directions, wide, inputs), (directions, wide, hidden), (directions, 2 * wide)
    for what, v, shape in zip(("weights", "weights of the state", "bias"), (w, r, bias), shapes):
        if v is not None and tuple(v.shape) != shape:
            raise ValueError(f"the {what} have the shape {list(v.shape)}: need {list(shape)}")
    if not steps:
        states = [b.full((directions, batch, hidden), 0, x.dtype) if v is None else v for v in (h0, c0)]
        y = b.full((0, directions, batch, hidden), 0, x.dtype)
        if batch_first:
            y = b.full((batch, 0, directions, hidden), 0, x.dtype)
            states = [b.transpose(v, (1, 0, 2)) for v in states]
        return (y, *states)[: 3 if node.op == "LSTM" else 2]
    ends = b.ints(lengths, [])
    lengths = None if all(n >= steps for n in ends) else np.array([int(n) for n in ends])
    state = [b.full((directions, batch, hidden), 0, F32) if v is None else v for v in (h0, c0)]
    if peephole is not None and tuple(peephole.shape) != (directions, 3 * hidden):
        raise ValueError(f"the peephole weights have the shape {list(peephole.shape)}: need {[directions, 3 * hidden]}")
    if lengths is None and not scales and is_one_node(b, node, r, steps, batch):
        y, *state = whole(b, node, x, w, r, bias, state, peephole)
        if batch_first:
            y, *state = b.transpose(y, (2, 0, 1, 3)), *(b.transpose(v, (1, 0, 2)) for v in state)
        return y, *state
    back = [d == 1 or node.attr("direction", "forward") == "reverse" for d in range(directions)]
    own = [reversed_in_time(b, x, lengths) if turned else x for turned in back]
    given = [node.attr(n) or [] for n in ("activations", "activation_alpha", "activation_beta")]
    if directions == 2 and not scales and all(g[: len(g) // 2] == g[len(g) // 2 :] for g in given):
        found = Cell(b, node, (w, r, bias, peephole), 0).run(b.stack(own, 0), lengths, *state)
        parts = [[v and b.entry(v, axis, d) for v, axis in zip(found, (1, 0, 0))] for d in range(2)]
    else:
        weights = [[v and b.entry(v, 0, d) for v in (w, r, bias, peephole, *state)] for d in range(directions)]
        parts = [
            Cell(b, node, v[:4], d, scales and scales[d]).run(own[d], lengths, *v[4:]) for d, v in enumerate(weights)
        ]
    states = [reversed_in_time(b, p[0], lengths) if turned else p[0] for p, turned in zip(parts, back)]
    y, h = b.stack(states, 1), b.stack([p[1] for p in parts], 0)
    c = b.stack([p[2] for p in parts], 0) if parts[0][2] else None
    if batch_first:
        y = b.transpose(y, (2, 0, 1, 3))
        h, c = (v and b.transpose(v, (1, 0, 2)) for v in (h, c))
    return y, h, c


def reversed_in_time(b, x, lengths):
    """The steps (steps, batch, ...) in reverse order, of sequences of some lengths, or of all steps."""
    return b.flip(x, 0) if lengths is None else reverse_sequence_of(b, x, lengths, 1, 0)


def less(array, zero):
    """Bytes minus their zero point: the array itself if that is 0, else int8 if that holds them."""
    wide = array.astype(np.int16) - zero if zero.any() or array.dtype != np.int8 else array
    small = wide.astype(np.int8, copy=False)
    return small if (small == wide).all() else wide


@rule("com.microsoft.DynamicQuantizeLSTM")
def quantized_lstm(b, node, x, w, r, bias, lengths, h0, c0, peephole, w_scale, w_zero, r_scale, r_zero):
    """The weights stay integers, their products are scaled."""
    operands = (w, w_scale, w_zero), (r, r_scale, r_zero)
    if not all(isinstance(p, Known) for group in operands for p in group):
        raise OnHost("weights that are computed")
    factors, whole = [], []
    for v, scale, zero in operands:
        z, s = (p.array.reshape(v.shape[0], -1) for p in (zero, scale))
        factors.append(s)
        whole.append(v.derived(("lstm", z.tobytes()), lambda a, z=z: less(a, z[:, None]).transpose(0, 2, 1)))
    return recurrent(b, node, x, *whole, bias, lengths, h0, c0, peephole, list(zip(*factors)))
