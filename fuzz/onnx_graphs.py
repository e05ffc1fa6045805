"""Random graphs of ONNX operators: results of ggml.onnx against onnxruntime's.

    python fuzz/onnx_graphs.py --seconds 600

A graph is made of steps, each of which reads values that are there already: single operators, what ggml.onnx finds
patterns for (ggml/onnx/patterns.py) and what nearly is one, parts of networks, quantised parts, subgraphs, functions
and sequences. In near misses an intermediate value is also an output, or has another reader, an axis, a constant or the
order of operands differs. Inputs have dimensions that vary: a model sees operands of several sizes, one after another.
A difference is rounding if changes of the inputs in their last bits make one as large.
"""

import math
import sys
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_peer import Dice, run

UNARY = (
    "Relu Sigmoid Tanh Abs Neg Erf Softplus HardSwish Floor Sign Elu LeakyRelu HardSigmoid Identity Softsign Cos Sin "
    "Round Mish Gelu Celu Selu ThresholdedRelu"
).split()
STEPWISE = {"QuantizeLinear", "DynamicQuantizeLinear", "Floor", "Round", "Sign", "Cast", "Less", "Greater"}
SIZES = {"N": (2, 1, 3, 5, 2, 0), "T": (5, 1, 7, 12, 33, 4)}  # of the dimensions that vary, one per feed
MOST = 30_000  # elements of a value
STEPS: list = []


def step(weight=1):
    """Decorator: adds a step; it gets the graph, the name and shape of a value, and may add nodes."""

    def register(function):
        STEPS.extend([function] * weight)
        return function

    return register


class Graph:
    """Nodes, constants and values (name, shape, kind); varying dimensions are strings, kinds "f", "b" and "i"."""

    def __init__(self, dice, prefix="", inlined=False):
        self.dice, self.prefix, self.inlined = dice, prefix, inlined
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.functions: list[Any] = []
        self.values: list[tuple] = []
        self.count, self.dtype, self.opset = 0, np.dtype(np.float32), 21

    @property
    def kind(self):
        """The number of the type of floats."""
        return helper.np_dtype_to_tensor_dtype(self.dtype)

    def name(self):
        self.count += 1
        return f"{self.prefix}v{self.count}"

    def constant(self, array):
        """The name of a constant, which is an initializer or a node."""
        array = np.asarray(array)
        name = self.name()
        tensor = numpy_helper.from_array(array.astype(self.dtype) if array.dtype == np.float32 else array)
        if self.inlined or self.dice.chance(0.2):
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            tensor.name = name
            self.constants.append(tensor)
        return name

    def number(self, value):
        """A constant that is one float, of rank 0 or 1."""
        return self.constant(np.full(self.dice.choice([(), (), (), (1,)]), value, np.float32))

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def weights(self, *shape):
        return self.constant(self.dice.array(shape, low=-0.9, high=0.9))

    def add(self, op, inputs, shape=None, kind="f", outputs=1, **attributes):
        """The result of a node, or all of several; those with a shape may be read by further steps."""
        domain = attributes.pop("domain", "")
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        for name, s in zip(names, [shape] if outputs == 1 else shape or []):
            if s is not None:
                self.values.append((name, tuple(s), kind))
        return names[0] if outputs == 1 else names

    def inner(self, op, inputs, shape, **attributes):
        """The result of a node within a pattern, which something else reads now and then."""
        return self.add(op, inputs, shape if self.dice.chance(0.12) else None, **attributes)

    def swapped(self, a, b):
        return [b, a] if self.dice.chance(0.5) else [a, b]

    def pick(self, fits=lambda shape: True, kind="f"):
        """A value (name, shape), mostly one of the last, or None."""
        found = [v for v in self.values if v[2] == kind and fits(v[1])]
        if not found:
            return None
        return self.dice.choice(found[-6:] if self.dice.chance(0.7) else found)[:2]


def fixed(size):
    return not isinstance(size, str)


def fixed_axes(shape, least=1):
    return [i for i, d in enumerate(shape) if fixed(d) and d >= least]


def elements(shape):
    return math.prod(SIZES[d][3] if d in SIZES else d for d in shape)


# Single operators


@step(3)
def unary(g, x, shape):
    g.add(g.dice.choice(UNARY), [x], shape)


@step()
def bounded(g, x, shape):
    """Functions that need some values."""
    op = g.dice.choice(["Exp", "Sqrt", "Reciprocal", "Log"])
    if op == "Exp":
        x = g.inner("Clip", [x, g.number(-3), g.number(3)], shape)
    else:
        x = g.inner("Abs", [x], shape)
        x = g.inner("Add", [x, g.number(0.5)], shape)
    g.add(op, [x], shape)


@step(3)
def with_constant(g, x, shape):
    """An operator with a constant that broadcasts."""
    op = g.dice.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Add", "Mul"])
    other = [1 if not fixed(d) or g.dice.chance(0.4) else d for d in shape]
    other = other[g.dice.randint(0, len(shape)) :] if g.dice.chance(0.3) else other
    value = g.dice.array([] if g.dice.chance(0.3) else other, low=-0.9, high=0.9)
    if op == "Div":
        value = np.abs(value) + np.float32(0.5)
        return g.add(op, [x, g.constant(value)], shape)
    return g.add(op, g.swapped(x, g.constant(value)), shape)


@step()
def power(g, x, shape):
    g.add("Pow", [x, g.number(g.dice.choice([2, 3, 1, 2, 0]))], shape)


@step()
def of_two(g, x, shape):
    y = g.pick(lambda s: s == shape)
    g.add(g.dice.choice(["Add", "Sub", "Mul", "Max", "Min", "Sum"]), [x, y[0]], shape)


@step()
def limited(g, x, shape):
    low, high = g.dice.choice([(-0.5, 0.7), (0, 6), (-0.5, 6), (0, 1)])
    g.add("Clip", [x, g.number(low), g.number(high)], shape)


@step()
def chosen(g, x, shape):
    op = g.dice.choice(["Less", "Greater", "GreaterOrEqual"])
    condition = g.add(op, [x, g.number(g.dice.choice([0.0123, 0.3]))], shape, kind="b")
    y = g.pick(lambda s: s == shape)[0] if g.dice.chance(0.5) else g.number(0.0971)
    g.add("Where", [condition, *g.swapped(x, y)], shape)


@step()
def cast(g, x, shape):
    middle = g.add("Cast", [x], to=g.dice.choice([6, 7, 10, 9, 11]))
    g.add("Cast", [middle], shape, to=g.kind)


# Shapes


@step(2)
def transposed(g, x, shape):
    order = g.dice.some(range(len(shape)), len(shape))
    if order:
        g.add("Transpose", [x], [shape[i] for i in order], perm=order)


@step()
def reduced(g, x, shape):
    axes, keep = sorted(g.dice.some(range(len(shape)))), g.dice.randint(0, 1)
    result = [1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes]
    op = g.dice.choice(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare"])
    axes = [a - len(shape) * g.dice.randint(0, 1) for a in axes]
    g.add(op, [x, g.ints(*axes)], result, keepdims=keep)


@step()
def joined(g, x, shape):
    y = g.pick(lambda s: len(s) == len(shape) and sum(a != b for a, b in zip(s, shape)) <= 1)
    differing = [i for i, (a, b) in enumerate(zip(shape, y[1])) if a != b] or fixed_axes(shape)
    if differing and fixed(shape[differing[0]]) and fixed(y[1][differing[0]]):
        axis = differing[0]
        result = [d + y[1][i] if i == axis else d for i, d in enumerate(shape)]
        g.add("Concat", [x, y[0]], result, axis=axis - len(shape) * g.dice.randint(0, 1))


@step()
def sliced(g, x, shape):
    axes = fixed_axes(shape, 2)
    if axes:
        axis, step = g.dice.choice(axes), g.dice.choice([1, 1, 2, -1])
        size = shape[axis]
        start, end = (-1, -(1 << 31)) if step < 0 else (g.dice.choice([0, 1, -1]), g.dice.choice([size, 1 << 31, -1]))
        kept = len(range(size)[start if step > 0 else None : end if step > 0 else None : step])
        if kept:
            operands = [x, *(g.ints(v) for v in (start, end, axis, step))]
            g.add("Slice", operands, [kept if i == axis else d for i, d in enumerate(shape)])


@step()
def parts(g, x, shape):
    axes = fixed_axes(shape, 2)
    if axes:
        axis = g.dice.choice(axes)
        first = g.dice.randint(1, shape[axis] - 1)
        sizes = first, shape[axis] - first
        results = [[n if i == axis else d for i, d in enumerate(shape)] for n in sizes]
        g.add("Split", [x, g.ints(*sizes)], results, outputs=2, axis=axis)


@step()
def gathered(g, x, shape):
    axes = fixed_axes(shape)
    if axes:
        axis, lead = g.dice.choice(axes), g.dice.choice([(), (1,), (3,), (2, 2)])
        index = g.constant(g.dice.indices(shape[axis], lead, np.int64))
        g.add("Gather", [x, index], [*shape[:axis], *lead, *shape[axis + 1 :]], axis=axis)


@step()
def ranks(g, x, shape):
    ones = [i for i, d in enumerate(shape) if d == 1]
    if len(shape) < 5 and g.dice.chance(0.5):
        axis = g.dice.randint(0, len(shape))
        g.add("Unsqueeze", [x, g.ints(axis)], [*shape[:axis], 1, *shape[axis:]])
    elif ones:
        axis = g.dice.choice(ones)
        g.add("Squeeze", [x, g.ints(axis)], [*shape[:axis], *shape[axis + 1 :]])


@step(2)
def reshaped(g, x, shape):
    """Axes that become one, or two, by a shape that is constant or put together of dimensions."""
    if len(shape) < 2:
        return
    axis = g.dice.randrange(len(shape) - 1)
    if fixed(shape[axis]) and fixed(shape[axis + 1]):
        target = [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]]
    elif fixed(shape[-1]) and shape[-1] % 2 == 0 and len(shape) < 6:
        target = [*shape[:-1], 2, shape[-1] // 2]
    else:
        return
    varying = [d for d in target if not fixed(d)]
    if len(varying) > 1 or g.dice.chance(0.4):
        sizes, entries = g.add("Shape", [x]), []
        for d in target:
            if fixed(d):
                entries.append(g.ints(d))
                continue
            scalar = g.dice.chance(0.7)
            place = shape.index(d) - len(shape) * g.dice.randint(0, 1)
            entry = g.add("Gather", [sizes, g.constant(np.array(place if scalar else [place]))], axis=0)
            if g.dice.chance(0.3):
                entry = g.add("Cast", [entry], to=TensorProto.INT64)
            entries.append(g.add("Unsqueeze", [entry, g.ints(0)]) if scalar else entry)
        goal = g.add("Concat", entries, axis=0)
    else:
        goal = g.ints(*(d if fixed(d) else -1 for d in target))
    g.add("Reshape", [x, goal], target)


@step()
def padded(g, x, shape):
    axes = fixed_axes(shape)
    if axes:
        axis, pads = g.dice.choice(axes), [0] * 2 * len(shape)
        pads[axis], pads[axis + len(shape)] = g.dice.choice([0, 1]), g.dice.choice([1, 2])
        total = pads[axis] + pads[axis + len(shape)]
        mode = g.dice.choice(["constant", "edge"])
        value = [g.number(1.5)] if mode == "constant" and g.dice.chance(0.5) else []
        g.add(
            "Pad", [x, g.ints(*pads), *value], [d + total if i == axis else d for i, d in enumerate(shape)], mode=mode
        )


@step()
def expanded(g, x, shape):
    ones = [i for i, d in enumerate(shape) if d == 1]
    if ones and all(map(fixed, shape)):
        axis = g.dice.choice(ones)
        target = [3 if i == axis else d for i, d in enumerate(shape)]
        g.add("Expand", [x, g.ints(*target)], target)


@step()
def running_sums(g, x, shape):
    if shape:
        attributes = {"exclusive": g.dice.randint(0, 1), "reverse": g.dice.randint(0, 1)}
        g.add("CumSum", [x, g.constant(np.array(g.dice.randrange(len(shape))))], shape, **attributes)


# Sizes that are computed


def entry(g, x, shape, axis, vector=True):
    """A dimension of a value, as a number or a vector of one."""
    sizes = g.add("Shape", [x])
    kind = g.dice.randint(0, 2)
    if kind == 0 and vector:
        return g.add("Slice", [sizes, g.ints(axis), g.ints(axis + 1), g.ints(0)])
    if kind == 1:
        one = g.add("Shape", [x], start=axis, end=axis + 1)
        return one if vector else g.add("Squeeze", [one, g.ints(0)])
    number = g.add("Gather", [sizes, g.constant(np.array(axis))], axis=0)
    return g.add("Unsqueeze", [number, g.ints(0)]) if vector else number


@step()
def flattened(g, x, shape):
    """All axes but some of the first become one, by a product of dimensions."""
    if len(shape) < 3 or not all(map(fixed, shape[1:])):
        return
    rest = g.add("Slice", [g.add("Shape", [x]), g.ints(1), g.ints(1 << 31)])
    rest = g.add("ReduceProd", [rest, *([g.ints(0)] if g.opset >= 18 else [])], keepdims=1)
    goal = g.add("Concat", [entry(g, x, shape, 0), rest], axis=0)
    g.add("Reshape", [x, goal], [shape[0], math.prod(shape[1:])])


@step()
def halves(g, x, shape):
    """The first or second half of an axis, whose size is computed."""
    axes = fixed_axes(shape, 2)
    if not axes:
        return
    axis = g.dice.choice(axes)
    half = g.add("Div", [entry(g, x, shape, axis), g.ints(2)])
    size = shape[axis] // 2
    if g.dice.chance(0.5):
        y = g.add("Slice", [x, g.ints(0), half, g.ints(axis)])
    else:
        y, size = g.add("Slice", [x, half, g.ints(1 << 31), g.ints(axis)]), shape[axis] - size
    g.add("Neg", [y], [size if i == axis else d for i, d in enumerate(shape)])


@step(2)
def positions(g, x, shape):
    """Numbers of the elements of an axis that varies: added, compared to a mask, or looked up in a table."""
    if not shape:
        return
    axis = g.dice.randrange(len(shape))
    length = entry(g, x, shape, axis, vector=False)
    place = g.add("Range", [g.constant(np.array(0)), length, g.constant(np.array(1))])
    tail = g.ints(*range(1, len(shape) - axis)) if axis < len(shape) - 1 else None
    kind = g.dice.randint(0, 2)
    if kind == 0:
        y = g.add("Cast", [place], to=g.kind)
        y = g.add("Mul", [y, g.number(0.1)])
        y = g.add("Unsqueeze", [y, tail]) if tail else y
        g.add("Add", g.swapped(x, y), shape)
    elif kind == 1:
        last = g.add("Sub", [length, g.constant(np.array(g.dice.choice([0, 1, 2])))])
        y = g.add("Less", [place, last])
        y = g.add("Unsqueeze", [y, tail]) if tail else y
        g.add("Where", [y, x, g.number(-2.5)], shape)
    else:
        width = g.dice.choice([1, 5])
        g.add("Gather", [g.weights(80, width), place], [shape[axis], width])


@step()
def causal(g, x, shape):
    """A square of scores with a mask of the upper part."""
    if len(shape) < 2 or shape[-1] == shape[-2]:
        return
    other = g.add("Transpose", [x], perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
    result = [*shape[:-1], shape[-2]]
    scores = g.add("MatMul", [x, other], result)
    length = entry(g, x, shape, len(shape) - 2)
    square = g.add("Concat", [length, length], axis=0)
    fill = numpy_helper.from_array(np.array([-1e4], g.dtype))
    mask = g.add("Trilu", [g.add("ConstantOfShape", [square], value=fill), g.constant(np.array(1))], upper=1)
    scores = g.inner("Add", g.swapped(scores, mask), result)
    g.add("Softmax", [scores], result, axis=-1)


@step()
def spread(g, x, shape):
    """Expand or Tile by sizes of another value."""
    if not shape:
        return
    goal = g.add("Concat", [g.ints(2), g.add("Shape", [x])], axis=0)
    if g.dice.chance(0.5):
        g.add("Expand", [x, goal], [2, *shape])
    else:
        ones = g.add("Sub", [g.add("Shape", [x]), g.add("Sub", [g.add("Shape", [x]), g.ints(1)])])
        g.add("Tile", [x, ones], shape)


# Products and convolutions


@step(2)
def linear(g, x, shape):
    if len(shape) < 2 or not fixed(shape[-1]):
        return
    width = g.dice.choice([1, 3, 8, 16, 33])
    result = [*shape[:-1], width]
    if len(shape) == 2 and g.dice.chance(0.4):
        right = g.dice.randint(0, 1)
        w = g.weights(width, shape[-1]) if right else g.weights(shape[-1], width)
        g.add("Gemm", [x, w, g.weights(width)], result, transB=right, alpha=g.dice.choice([1.0, 0.5]))
        return
    y = g.add("MatMul", [x, g.weights(shape[-1], width)], result)
    if g.dice.chance(0.7):
        y = g.add("Add", g.swapped(y, g.weights(width)), result)
    if g.dice.chance(0.4):
        g.add(g.dice.choice(["Relu", "Tanh", "Gelu"]), [y], result)


@step(4)
def convolution(g, x, shape):
    """A convolution, and what can become part of it: a normalisation, factors, a sum, an activation."""
    if len(shape) not in (3, 4) or not fixed(shape[1]):
        return
    channels, group = shape[1], g.dice.choice([1, 1, shape[1]])
    outputs = channels if group > 1 else g.dice.choice([1, 4, 8, 17])
    kernel = [g.dice.choice([1, 3, 5]) for _ in shape[2:]]
    free = any(not fixed(d) for d in shape[2:])
    stride = [1 if free else g.dice.choice([1, 1, 2]) for _ in shape[2:]]
    dilation = [g.dice.choice([1, 1, 2]) for _ in shape[2:]]
    pads = [d * (k // 2) for d, k in zip(dilation, kernel)] * 2
    result = [shape[0], outputs, *(d if not fixed(d) else (d - 1) // s + 1 for d, s in zip(shape[2:], stride))]
    attributes = {"group": group, "kernel_shape": kernel, "pads": pads, "strides": stride, "dilations": dilation}
    w = [g.weights(outputs, channels // group, *kernel), *([g.weights(outputs)] if g.dice.chance(0.6) else [])]
    y = g.inner("Conv", [x, *w], result, **attributes)
    for _ in range(g.dice.randint(0, 3)):
        kind = g.dice.randint(0, 4)
        width = [outputs, *[1] * (len(shape) - 2)]
        if kind == 0:
            values = [g.dice.array(outputs, low=0.2, high=1.5) for _ in range(4)]
            y = g.inner("BatchNormalization", [y, *map(g.constant, values)], result)
        elif kind == 1:
            y = g.inner(
                g.dice.choice(["Mul", "Add"]), g.swapped(y, g.weights(*g.dice.choice([width, [1, *width]]))), result
            )
        elif kind == 2:
            y = g.inner(g.dice.choice(["Mul", "Add", "Sub"]), [y, g.number(g.dice.choice([0.5, 2, -1]))], result)
        elif kind == 3:
            other = g.pick(lambda s: s == tuple(result))
            y = g.inner("Add", g.swapped(y, other[0]), result) if other else y
        else:
            y = g.inner(g.dice.choice(["Relu", "HardSwish", "Sigmoid", "LeakyRelu", "Clip"]), [y], result)
    g.add("Identity", [y], result)


@step()
def pooled(g, x, shape):
    if len(shape) not in (3, 4):
        return
    axes = len(shape) - 2
    if all(fixed(d) and d >= 2 for d in shape[2:]) and g.dice.chance(0.6):
        result = [*shape[:2], *((d - 2) // 2 + 1 for d in shape[2:])]
        attributes = {"kernel_shape": [2] * axes, "strides": [2] * axes}
        g.add(g.dice.choice(["MaxPool", "AveragePool"]), [x], result, **attributes)
    else:
        g.add(g.dice.choice(["GlobalAveragePool", "GlobalMaxPool"]), [x], [*shape[:2], *[1] * axes])


@step()
def resized(g, x, shape):
    if len(shape) == 4 and all(fixed(d) and d < 30 for d in shape[2:]):
        scales = g.constant(np.array([1, 1, 2, 2], np.float32))
        attributes = {"mode": g.dice.choice(["nearest", "linear"]), "nearest_mode": "floor"}
        attributes["coordinate_transformation_mode"] = g.dice.choice(["asymmetric", "half_pixel"])
        g.add("Resize", [x, "", scales], [*shape[:2], *(2 * d for d in shape[2:])], **attributes)


# Patterns


@step(2)
def gelu_in_pieces(g, x, shape):
    """GELU as exporters write it: the factors anywhere, erf or tanh."""
    half = g.dice.choice([0.5, 0.5, 0.5, 0.25, 1.0])
    one = g.dice.choice([1.0, 1.0, 1.0, 1.0, 0.9])
    if g.dice.chance(0.5):
        root = g.dice.choice([2**0.5, 2**0.5, 2**0.5, 1.5])
        if g.dice.chance(0.5):
            inner = g.inner("Div", [x, g.number(root)], shape)
        else:
            inner = g.inner("Mul", g.swapped(x, g.number(1 / root)), shape)
        inner = g.inner("Erf", [inner], shape)
    else:
        cube = g.inner("Pow", [x, g.number(3)], shape)
        if g.dice.chance(0.4):
            square = g.inner("Mul", [x, x], shape)
            cube = g.inner("Mul", g.swapped(square, x), shape)
        cube = g.inner("Mul", g.swapped(cube, g.number(g.dice.choice([0.044715, 0.044715, 0.05]))), shape)
        inner = g.inner("Add", g.swapped(x, cube), shape)
        inner = g.inner("Mul", g.swapped(inner, g.number((2 / math.pi) ** 0.5)), shape)
        inner = g.inner("Tanh", [inner], shape)
    inner = g.inner("Add", g.swapped(inner, g.number(one)), shape)
    kind = g.dice.randint(0, 2)
    if kind == 0:
        y = g.inner("Mul", g.swapped(x, inner), shape)
        g.add("Mul", g.swapped(y, g.number(half)), shape)
    elif kind == 1:
        y = g.inner("Mul", g.swapped(x, g.number(half)), shape)
        g.add("Mul", g.swapped(y, inner), shape)
    else:
        y = g.inner("Mul", g.swapped(inner, g.number(half)), shape)
        g.add("Mul", g.swapped(x, y), shape)


@step(2)
def gated(g, x, shape):
    """SiLU and HardSwish in pieces."""
    other = g.pick(lambda s: s == shape)[0] if g.dice.chance(0.15) else x
    kind = g.dice.randint(0, 3)
    if kind == 0:
        gate = g.inner("Sigmoid", [other], shape)
    elif kind == 1:
        alpha, beta = g.dice.choice([(1 / 6, 0.5), (1 / 6, 0.5), (0.2, 0.5), (1 / 6, 0.4)])
        gate = g.inner("HardSigmoid", [other], shape, alpha=alpha, beta=beta)
    else:
        gate = g.inner("Add", g.swapped(other, g.number(g.dice.choice([3, 3, 3, 2.5]))), shape)
        gate = g.inner("Clip", [gate, g.number(0), g.number(g.dice.choice([6, 6, 6, 5]))], shape)
        if g.dice.chance(0.4):
            gate = g.inner(g.dice.choice(["Mul", "Div"]), [gate, g.number(6 if g.dice.chance(0.7) else 4)], shape)
    y = g.inner("Mul", g.swapped(x, gate), shape)
    if kind > 1 and g.dice.chance(0.7):
        y = g.inner(g.dice.choice(["Div", "Mul"]), [y, g.number(6)], shape)
    g.add(g.dice.choice(["Identity", "Neg", "Abs"]), [y], shape)


@step(2)
def norm_in_pieces(g, x, shape):
    """Layer and RMS norms in pieces, over the last axes or others."""
    if not shape or not fixed(shape[-1]):
        return
    count = g.dice.choice([1, 1, 1, 2]) if len(shape) > 2 and fixed(shape[-2]) else 1
    axes = list(range(-count, 0)) if g.dice.chance(0.9) else [-len(shape)]
    if axes[0] == -len(shape) and not fixed(shape[0]):
        axes, count = [-1], 1
    small = [1 if i - len(shape) in axes else d for i, d in enumerate(shape)]
    centred, difference = g.dice.chance(0.6), x
    if centred:
        mean = g.inner("ReduceMean", [x, g.ints(*axes)], small)
        difference = g.inner("Sub", [x, mean], shape)
    again = g.inner("Sub", [x, mean], shape) if centred and g.dice.chance(0.2) else difference
    if g.dice.chance(0.5):
        square = g.inner("Pow", [again, g.number(g.dice.choice([2, 2, 2, 4]))], shape)
    else:
        square = g.inner("Mul", [again, again], shape)
    variance = g.inner("ReduceMean", [square, g.ints(*axes)], small)
    variance = g.inner("Add", g.swapped(variance, g.number(g.dice.choice([1e-5, 1e-3, 0.5]))), small)
    root = g.inner("Sqrt", [variance], small)
    kind = g.dice.randint(0, 2)
    if kind == 0:
        y = g.inner("Div", [difference, root], shape)
    else:
        inverse = g.inner("Reciprocal", [root], small) if kind == 1 else g.inner("Div", [g.number(1), root], small)
        y = g.inner("Mul", g.swapped(difference, inverse), shape)
    width = [shape[-1]]
    y = g.inner("Mul", g.swapped(y, g.weights(*width)), shape) if g.dice.chance(0.7) else y
    y = g.inner("Add", g.swapped(y, g.weights(*width)), shape) if g.dice.chance(0.6) else y
    g.add("Identity", [y], shape)


@step()
def squares_summed(g, x, shape):
    axes = sorted(g.dice.some(range(len(shape))))
    if axes:
        keep = g.dice.randint(0, 1)
        result = [1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes]
        square = g.inner("Mul", [x, x], shape) if g.dice.chance(0.6) else g.inner("Pow", [x, g.number(2)], shape)
        g.add("ReduceSum", [square, g.ints(*axes)], result, keepdims=keep)


@step(2)
def lines(g, x, shape):
    """A chain of products and sums with numbers, within functions."""
    y = x
    for _ in range(g.dice.randint(2, 5)):
        kind = g.dice.randint(0, 6)
        value = g.number(g.dice.choice([0.5, 2, -1, 0.3, 1, 0]))
        if kind < 4:
            op = ["Add", "Mul", "Sub", "Mul"][kind]
            y = g.inner(op, g.swapped(y, value), shape)
        elif kind == 4:
            y = g.inner("Div", [y, g.number(g.dice.choice([2, 0.5, -3]))], shape)
        elif kind == 5:
            y = g.inner("Mul", [y, g.inner("Sigmoid", [y], shape)], shape)
        else:
            y = g.inner("Mul", [y, g.constant(np.full((1,) * len(shape), 0.5, np.float32))], shape)
    g.add("Identity", [y], shape)


@step()
def rows_looked_up(g, x, shape):
    """Equal to 0, 1, 2 ..., then a product with a table."""
    if not shape or len(shape) > 3:
        return
    count, width = g.dice.choice([2, 5, 9]), g.dice.choice([1, 4, 17])
    index = g.add("Abs", [x])
    index = g.add("Cast", [g.add("Floor", [index])], to=g.dice.choice([6, 7]))
    kind = g.nodes[-1].attribute[0].i
    dtype = np.int32 if kind == 6 else np.int64
    index = g.add("Unsqueeze", [index, g.ints(-1)])
    places = np.arange(count) if g.dice.chance(0.8) else np.arange(count)[::-1]
    if g.dice.chance(0.3) and all(map(fixed, shape)):
        index = g.add("Expand", [index, g.ints(*shape, count)])
    hot = g.add(
        "Equal",
        g.swapped(index, g.constant(places.astype(dtype)))
        if g.dice.chance(0.3)
        else [index, g.constant(places.astype(dtype))],
    )
    hot = g.add("Cast", [hot], [*shape, count] if g.dice.chance(0.2) else None, to=g.kind)
    g.add("MatMul", [hot, g.weights(count, width)], [*shape, width])


@step(2)
def heads(g, x, shape):
    """Attention in pieces, and a soft-max with a mask."""
    if len(shape) != 3 or not fixed(shape[-1]) or shape[-1] % 2:
        return
    batch, length, width = shape
    wide = [batch, 2, length, width // 2]
    operands = []
    for _ in range(3):
        y = g.add("MatMul", [x, g.weights(width, width)]) if g.dice.chance(0.7) else x
        y = g.add("Reshape", [y, g.ints(0, 0, 2, width // 2)])
        operands.append(g.add("Transpose", [y], perm=[0, 2, 1, 3]))
    q, k, v = operands
    k = g.inner("Transpose", [k], [batch, 2, width // 2, length], perm=[0, 1, 3, 2])
    scores = g.inner("MatMul", [q, k], [batch, 2, length, length])
    scores = g.inner(
        g.dice.choice(["Mul", "Div"]), [scores, g.number(g.dice.choice([0.5, 1.7]))], [batch, 2, length, length]
    )
    if g.dice.chance(0.5):
        masked = g.add("Less", [scores, g.number(-0.3)])
        scores = g.inner("Where", [masked, g.number(-1e4), scores], [batch, 2, length, length])
    scores = g.inner("Softmax", [scores], [batch, 2, length, length], axis=g.dice.choice([-1, -1, 3, 2]))
    y = g.add("MatMul", [scores, v], wide)
    y = g.add("Transpose", [y], perm=[0, 2, 1, 3])
    g.add("Reshape", [y, g.ints(0, 0, width)], shape)


@step()
def softmax(g, x, shape):
    if shape:
        axis = g.dice.randrange(-len(shape), len(shape))
        g.add(g.dice.choice(["Softmax", "LogSoftmax", "Softmax"]), [x], shape, axis=axis)


@step()
def norm(g, x, shape):
    if len(shape) > 2 and fixed(shape[1]) and all(not fixed(d) or d > 1 for d in shape[2:]) and g.dice.chance(0.4):
        g.add("InstanceNormalization", [x, g.weights(shape[1]), g.weights(shape[1])], shape)
    elif shape and fixed(shape[-1]):
        g.add("LayerNormalization", [x, g.weights(shape[-1]), g.weights(shape[-1])], shape, axis=-1)


# Quantised numbers

SCALES = [0.0513, 0.0971, 0.0307]


def codes(g, x, scale, zero):
    """Quantised and dequantised: what stands around an operator of a quantised model."""
    operands = [scale, zero]
    return g.add("DequantizeLinear", [g.add("QuantizeLinear", [x, *operands]), *operands])


def parameters(g):
    """The names of a scale and a zero point."""
    zero = g.dice.choice([np.uint8(120), np.int8(3), np.uint8(128), np.int8(0), np.uint8(0)])
    return g.constant(np.float32(g.dice.choice(SCALES))), g.constant(np.asarray(zero))


def quantised_weights(g, shape, axis, signed=True):
    """A constant of bytes that is dequantised: one scale, or one for each output channel."""
    dtype = np.int8 if signed or g.dice.chance(0.5) else np.uint8
    middle = 0 if dtype == np.int8 else 128
    values = g.constant(g.dice.array(shape, dtype, middle - 60, middle + 60))
    if g.dice.chance(0.5):
        scale = g.dice.array(shape[axis], low=0.004, high=0.02)
        zero = np.full(shape[axis], middle, dtype)
        return g.add("DequantizeLinear", [values, g.constant(scale), g.constant(zero)], axis=axis)
    zero = middle + (g.dice.choice([0, 5]) if g.dice.chance(0.2) else 0)
    return g.add("DequantizeLinear", [values, g.constant(np.float32(0.0107)), g.constant(np.asarray(zero, dtype))])


@step(2)
def quantised(g, x, shape):
    g.add("Identity", [codes(g, x, *parameters(g))], shape)


@step(2)
def quantised_linear(g, x, shape):
    if len(shape) < 2 or not fixed(shape[-1]):
        return
    width, gemm = g.dice.choice([1, 4, 8, 33]), len(shape) == 2 and g.dice.chance(0.4)
    x = codes(g, x, *parameters(g))
    result = [*shape[:-1], width]
    if gemm:
        right = g.dice.randint(0, 1)
        w = quantised_weights(g, (width, shape[-1]) if right else (shape[-1], width), 1 - right)
        y = g.inner("Gemm", [x, w, g.weights(width)], result, transB=right)
    else:
        y = g.inner("MatMul", [x, quantised_weights(g, (shape[-1], width), 1)], result)
        y = g.inner("Add", g.swapped(y, g.weights(width)), result) if g.dice.chance(0.5) else y
    y = g.inner("Relu", [y], result) if g.dice.chance(0.4) else y
    g.add("Identity", [codes(g, y, *parameters(g)) if g.dice.chance(0.7) else y], result)


@step(2)
def quantised_convolution(g, x, shape):
    if len(shape) not in (3, 4) or not fixed(shape[1]):
        return
    channels, group = shape[1], g.dice.choice([1, 1, shape[1]])
    outputs, size = channels if group > 1 else g.dice.choice([1, 4, 8, 17]), g.dice.choice([1, 3])
    axes = len(shape) - 2
    result = [shape[0], outputs, *shape[2:]]
    w = quantised_weights(g, (outputs, channels // group, *[size] * axes), 0)
    bias = [g.weights(outputs)] if g.dice.chance(0.6) else []
    attributes = {"group": group, "kernel_shape": [size] * axes, "pads": [size // 2] * 2 * axes}
    y = g.inner("Conv", [codes(g, x, *parameters(g)), w, *bias], result, **attributes)
    y = g.inner("Relu", [y], result) if g.dice.chance(0.4) else y
    g.add("Identity", [codes(g, y, *parameters(g)) if g.dice.chance(0.7) else y], result)


@step()
def quantised_others(g, x, shape):
    """Sums, pools, soft-max and products of two quantised values."""
    first = codes(g, x, *parameters(g))
    kind = g.dice.randint(0, 4)
    other = codes(g, g.pick(lambda s: s == shape)[0], *parameters(g))
    result = shape
    if kind == 0:
        y = g.add(g.dice.choice(["Add", "Mul", "Sub"]), [first, other])
    elif kind == 1 and shape:
        y = g.add("Softmax", [first], axis=-1)
    elif kind == 2 and len(shape) == 4:
        y, result = g.add("GlobalAveragePool", [first]), [*shape[:2], 1, 1]
    elif kind == 3 and len(shape) > 1:
        swapped = g.add("Transpose", [other], perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
        y, result = g.add("MatMul", [first, swapped]), [*shape[:-1], shape[-2]]
    else:
        y = g.add(g.dice.choice(["Sigmoid", "Relu", "LeakyRelu", "Tanh"]), [first])
    g.add("Identity", [codes(g, y, *parameters(g))], result)


@step(2)
def dynamically_quantised(g, x, shape):
    """DynamicQuantizeLinear, a product of integers, its scales and a bias."""
    if len(shape) < 2 or not fixed(shape[-1]):
        return
    width = g.dice.choice([1, 4, 17])
    dtype = g.dice.choice([np.int8, np.uint8])
    values, scale, zero = g.add("DynamicQuantizeLinear", [x], outputs=3)
    middle = 0 if dtype == np.int8 else 128
    w = g.constant(g.dice.array((shape[-1], width), dtype, middle - 60, middle + 60))
    zeros = g.dice.choice([np.asarray(middle, dtype), np.full(width, middle, dtype), g.dice.array(width, dtype)])
    sums = g.add("MatMulInteger", [values, w, zero, g.constant(zeros)])
    factor = g.add(
        "Mul", g.swapped(scale, g.constant(g.dice.array(g.dice.choice([(), (width,)]), low=0.005, high=0.02)))
    )
    y = g.add("Mul", g.swapped(g.add("Cast", [sums], to=1), factor), [*shape[:-1], width])
    if g.dice.chance(0.6):
        g.add("Add", g.swapped(y, g.weights(width)), [*shape[:-1], width])


@step()
def dynamically_quantised_convolution(g, x, shape):
    if len(shape) not in (3, 4) or not fixed(shape[1]):
        return
    outputs, axes, size = g.dice.choice([1, 4, 17]), len(shape) - 2, g.dice.choice([1, 3])
    values, scale, zero = g.add("DynamicQuantizeLinear", [x], outputs=3)
    w = g.constant(g.dice.array((outputs, shape[1], *[size] * axes), np.int8, -60, 60))
    operands = [values, w, zero, g.constant(np.int8(0))]
    sums = g.add("ConvInteger", operands, kernel_shape=[size] * axes, pads=[size // 2] * 2 * axes)
    y = g.add("Mul", [g.add("Cast", [sums], to=1), g.add("Mul", [scale, g.constant(np.float32(0.01))])])
    bias = g.weights(1, outputs, *[1] * axes)
    g.add("Add", g.swapped(y, bias), [shape[0], outputs, *shape[2:]])


# Subgraphs, functions, sequences


def chain(g, x, shape):
    """A few steps that keep the shape: the name of the last value."""
    for _ in range(g.dice.randint(1, 3)):
        kind = g.dice.randint(0, 3)
        if kind == 0:
            x = g.add(g.dice.choice(UNARY), [x])
        elif kind == 1:
            x = g.add(g.dice.choice(["Add", "Mul"]), g.swapped(x, g.number(g.dice.choice([0.5, 1.3, -1]))))
        elif kind == 2 and shape and fixed(shape[-1]):
            x = g.add("MatMul", [x, g.weights(shape[-1], shape[-1])]) if len(shape) > 1 else x
        else:
            x = g.add("Mul", [x, g.add("Sigmoid", [x])])
    return x


def body(g, inputs, outputs, build):
    """A subgraph: build(inner graph) returns the names of the outputs; inputs: (name, type, shape)."""
    inner = Graph(g.dice, g.name() + "_", inlined=g.dice.chance(0.5))
    inner.dtype, inner.opset = g.dtype, g.opset
    names = build(inner)
    inner.nodes += [helper.make_node("Identity", [n], [o]) for n, o in zip(names, outputs)]
    declared = [helper.make_tensor_value_info(n, kind, shape) for n, kind, shape in inputs]
    results = [helper.make_empty_tensor_value_info(o) for o in outputs]
    return helper.make_graph(inner.nodes, g.name(), declared, results, inner.constants)


@step()
def branch(g, x, shape):
    """If, by a condition that the inputs or constants decide."""
    if g.dice.chance(0.7):
        total = g.add("ReduceSum", [x], keepdims=0)
        condition = g.add("Greater", [total, g.constant(np.float32(0.0123))])
    else:
        condition = g.constant(np.array(g.dice.chance(0.5)))
    one, two = (body(g, [], [g.name()], lambda inner: [chain(inner, x, shape)]) for _ in range(2))
    g.add("If", [condition], shape, then_branch=one, else_branch=two)


@step()
def loop(g, x, shape):
    """Loop with a state, a value from outside, and a result that is stacked."""
    turn, going, state = (g.name() for _ in range(3))
    inputs = [(turn, TensorProto.INT64, []), (going, TensorProto.BOOL, []), (state, g.kind, None)]

    def build(inner):
        y = chain(inner, state, shape)
        y = inner.add("Add", [y, x]) if g.dice.chance(0.5) else y
        y = inner.add("Tanh", [y])
        return [going, y, inner.add("Neg", [y])]

    inside = body(g, inputs, [g.name() for _ in range(3)], build)
    count = g.dice.choice([1, 2, 3])
    operands = [g.ints(count) if g.dice.chance(0.3) else g.constant(np.array(count)), g.constant(np.array(True)), x]
    g.add("Loop", operands, [shape, [count, *shape]], outputs=2, body=inside)


@step()
def scan(g, x, shape):
    """Scan over the first axis, with a state that starts as zeros."""
    if len(shape) < 2 or not all(map(fixed, shape[1:])):
        return
    state, row = g.name(), g.name()
    inputs = [(n, g.kind, shape[1:]) for n in (state, row)]

    def build(inner):
        y = inner.add("Add", [inner.add("Mul", [state, inner.number(0.5)]), chain(inner, row, shape[1:])])
        y = inner.add("Tanh", [y])
        return [y, y]

    inside = body(g, inputs, [g.name() for _ in range(2)], build)
    start = g.constant(np.zeros(shape[1:], np.float32))
    attributes = {"scan_input_directions": [g.dice.randint(0, 1)], "scan_output_directions": [g.dice.randint(0, 1)]}
    g.add("Scan", [start, x], [shape[1:], shape], outputs=2, body=inside, num_scan_inputs=1, **attributes)


@step()
def called(g, x, shape):
    """A function of the model."""
    inner = Graph(g.dice, "f_", inlined=True)
    inner.dtype = g.dtype
    y = chain(inner, "f_x", shape)
    name = f"F{len(g.functions)}_{g.name()}"
    opsets = [helper.make_opsetid("", g.opset)]
    inner.nodes.append(helper.make_node("Identity", [y], ["f_y"]))
    g.functions.append(helper.make_function("own", name, ["f_x"], ["f_y"], inner.nodes, opsets))
    for _ in range(g.dice.randint(1, 2)):
        x = g.add(name, [x], shape, domain="own")


@step()
def sequence(g, x, shape):
    """Values in a sequence, out of it, and joined."""
    y = g.pick(lambda s: s == shape)[0]
    kind = g.dice.randint(0, 2)
    if kind == 0 and shape:
        items, count = g.add("SequenceConstruct", [x, y]), 2
        if g.dice.chance(0.5):
            place = g.constant(np.array(g.dice.randint(-2, 2)))
            items, count = g.add("SequenceInsert", [items, y, place]), 3
        axes = fixed_axes(shape)
        if axes and g.dice.chance(0.6):
            axis = g.dice.choice(axes)
            result = [count * d if i == axis else d for i, d in enumerate(shape)]
            return g.add("ConcatFromSequence", [items], result, axis=axis)
        return g.add("ConcatFromSequence", [items], [count, *shape], axis=0, new_axis=1)
    if kind == 1 and shape and fixed_axes(shape, 2):
        axis = g.dice.choice(fixed_axes(shape, 2))
        items = g.add("SplitToSequence", [x], axis=axis, keepdims=1)
        result = [1 if i == axis else d for i, d in enumerate(shape)]
        return g.add("SequenceAt", [items, g.constant(np.array(g.dice.choice([0, -1])))], result)
    items = g.add("SequenceConstruct", [x, y])
    return g.add("SequenceAt", [items, g.constant(np.array(1))], shape)


# Models


def model_of(dice):
    """(ModelProto, feeds) of a random graph, or None."""
    g = Graph(dice)
    g.opset = dice.choice([18, 20, 21])
    g.dtype = np.dtype(dice.choice([np.float32] * 8 + [np.float64, np.float16]))
    kind = dice.randint(0, 4)
    if kind == 0:
        inputs = {"x": ("N", dice.choice([3, 4, 8, 17]), dice.choice([6, 8, 17]), dice.choice([5, 8, 13]))}
    elif kind == 1:
        inputs = {"x": ("N", "T", dice.choice([4, 8, 16, 33]))}
    elif kind == 2:
        inputs = {"x": ("N", dice.choice([4, 6, 70]))}
    elif kind == 3:
        inputs = {"x": (2, 4, "T"), "z": (2, 4, "T")}
    else:
        inputs = {"x": ("N", dice.choice([2, 8]), "T", 4)}
    if dice.chance(0.2):
        inputs = {k: tuple({"N": 2, "T": 5}.get(d, d) for d in s) for k, s in inputs.items()}
    g.values += [(name, shape, "f") for name, shape in inputs.items()]
    for _ in range(dice.randint(2, 14)):
        before = len(g.values)
        value, made_of = g.pick(), dice.choice(STEPS)
        if g.dtype == np.float32 or "quantised" not in made_of.__name__:  # which takes float32
            made_of(g, *value)
        g.values[before:] = [v for v in g.values[before:] if elements(v[1]) <= MOST and len(v[1]) < 7]
    made = [v for v in g.values if v[0] not in inputs]
    if not made:
        return None
    read = {name for node in g.nodes for name in node.input}
    outputs = [v for v in made if v[0] not in read or dice.chance(0.15)] or made[-1:]
    graph = helper.make_graph(
        g.nodes,
        "g",
        [helper.make_tensor_value_info(name, g.kind, shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(v[0]) for v in outputs],
        g.constants,
    )
    opsets = [helper.make_opsetid("", g.opset)] + ([helper.make_opsetid("own", 1)] if g.functions else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=g.functions)
    feeds = []
    means = any("Mean" in node.op_type for node in g.nodes)  # of nothing are not what onnxruntime gives
    for k in range(len(SIZES["N"]) - (means or dice.choice([0, 1, 1]))):
        shapes = {name: [SIZES[d][k] if d in SIZES else d for d in shape] for name, shape in inputs.items()}
        feeds.append({name: dice.numpy.standard_normal(s).astype(g.dtype) for name, s in shapes.items()})
    return model, feeds, g.dtype == np.float16


def made_by(number, options):
    """The model with a number, for `run`."""
    dice = Dice(number)
    found = model_of(dice)
    if found is None:
        return None
    model, feeds, half = found
    ops = [n.op_type for n in model.graph.node if n.op_type != "Constant"]
    keywords = {"relative": 2e-3, "absolute": 1e-3, "threads": dice.choice([1, 1, 2]), "full": dice.chance(0.3)}
    if half:
        keywords.update(relative=3e-2, absolute=2e-2)
    keywords["rare"] = 0.02 if STEPWISE.intersection(ops) else 0.0
    keywords["optimised"] = False  # what onnxruntime fuses is another matter
    return "a graph", model.SerializeToString(), feeds, keywords, " ".join(ops), ""


if __name__ == "__main__":
    sys.exit(run(__doc__, made_by))
