"""Single ONNX operators with random operands and attributes: results of ggml.onnx against onnxruntime's.

    python fuzz/onnx_operators.py --seconds 600
    python fuzz/onnx_operators.py --seconds 600 --only Conv ConvTranspose

An operand is an input of the model or a constant. Each model runs several times: with the same operands, with strides,
for each result alone, and with dimensions of other sizes. A difference is rounding if changes of the inputs in their
last bits make one as large. `DIFFERENT` lists where onnxruntime differs on purpose, or from the specification. The
operators of com.microsoft are in onnx_microsoft.py, those of ai.onnx.ml and of texts in onnx_ml.py.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx_microsoft  # noqa: F401  adds its samples
import onnx_ml  # noqa: F401  the same
from onnx import helper, numpy_helper
from onnx_cases import SAMPLES, Case, Constant, described, known, maybe, model_of, sample, trimmed
from onnx_peer import FLOATS, INTEGERS, MUCH, SIZES, Dice, other_sizes, run

# Where results may differ


@dataclass(frozen=True)
class Difference:
    """A row of DIFFERENT: operators, a function of a Case that says whether it is such a case, and the reason."""

    ops: frozenset
    applies: Callable[[Case], bool]
    reason: str


def empty(case):
    """Whether an operand has no elements."""
    return any(np.size(a) == 0 for a in case.arrays())


def special(case):
    """Whether an operand has values that are not finite, or whose square is not."""
    floats = [a.astype(np.float64) for a in case.arrays() if np.asarray(a).dtype.kind == "f"]
    return any((~(np.abs(a) < 1e18)).any() for a in floats)


def has_nan(case):
    return any(np.isnan(a).any() for a in case.arrays() if np.asarray(a).dtype.kind == "f")


def same_with_dilations(case):
    dilated = max(case.attributes.get("dilations", [1])) > 1
    return dilated and case.attributes.get("auto_pad", "").startswith("SAME")


def no_room(case):
    """Whether a window is larger than the padded image."""
    x, kernel = case.arrays()[0], case.attributes["kernel_shape"]
    pads = case.attributes.get("pads", [0] * 2 * len(kernel))
    dilations = case.attributes.get("dilations", [1] * len(kernel))
    sizes = [n + pads[i] + pads[i + len(kernel)] for i, n in enumerate(x.shape[2:])]
    return any(n < (k - 1) * d + 1 for n, k, d in zip(sizes, kernel, dilations))


def constant_rows(case):
    """Whether elements that are normalised together are equal."""
    x = case.arrays()[0]
    return (np.std(x, tuple(case.attributes.get("axes", (0, 2, 3)))) < 1e-6).any()


def crops_without_scaling(case):
    """Whether Resize takes a region of an axis whose size stays."""
    x, *_, wanted = case.arrays()
    axes = min(len(wanted), x.ndim - 2)
    same = wanted[-axes:] == (np.array(x.shape[-axes:]) if wanted.dtype.kind == "i" else 1)
    return case.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize" and same.any()


def edges(case):
    """Whether Resize has places that lie on an edge or an element, for all that rounding leaves."""
    return case.attributes.get("nearest_mode") in ("floor", "ceil") or 1 in case.arrays()[1]


def large_products(case):
    """Whether products of integers may leave their type, where onnxruntime goes through floats."""
    return any(np.asarray(a).dtype.kind in "iu" for a in case.arrays())


def difference(ops, applies, reason):
    return Difference(frozenset(ops.split()), applies, reason)


DIFFERENT = [
    difference("Pad", empty, "an axis without elements that loses one and gains two has one; in onnxruntime none"),
    difference(
        "Imputer",
        lambda case: len(case.attributes.get("imputed_value_floats", [0])) > case.operands[0].shape[1],
        "onnxruntime takes the first of more values than columns",
    ),
    difference(
        "TreeEnsembleClassifier",
        lambda case: set(case.attributes["class_ids"]) == {0, 1},
        "the class with the greater score; onnxruntime looks at the second score alone",
    ),
    difference("StringSplit", lambda case: True, "an empty text has one empty part, if there is a delimiter"),
    difference(
        "Normalizer",
        lambda case: case.attributes["norm"] == "MAX",
        "magnitudes count, as in onnx's reference and in scikit-learn; in onnxruntime numbers",
    ),
    difference(
        "Resize", crops_without_scaling, "onnxruntime takes an axis whose size stays as it is, without its region"
    ),
    difference("ReduceMean", empty, "the mean of nothing is not a number; onnxruntime gives 0"),
    difference(
        "ReduceMin ReduceMax ArgMin ArgMax", has_nan, "NaN is the extreme; in onnxruntime it depends on the place"
    ),
    difference("TopK", has_nan, "NaN has no order; the specification leaves its place open"),
    difference("Max Min Clip Relu", has_nan, "NaN goes on; in onnxruntime it depends on the place and the type"),
    difference("Sign", has_nan, "the sign of NaN is NaN; onnxruntime gives 0"),
    difference("DynamicQuantizeLinear", empty, "the range of nothing is open; onnxruntime gives a scale of 1"),
    difference(
        "Gelu Swish Mish HardSwish QuickGelu FastGelu BiasGelu",
        special,
        "-inf gives -0, the limit, instead of -inf * 0",
    ),
    difference(
        "BatchNormalization InstanceNormalization", special, "scale and shift are one product and sum in another order"
    ),
    difference(
        "MaxPool AveragePool LpPool",
        same_with_dilations,
        "SAME pads for the dilated window; onnxruntime ignores dilations",
    ),
    difference(
        "MaxPool AveragePool LpPool", no_room, "a window that does not fit has no place; onnxruntime rounds towards 0"
    ),
    difference("MaxPool", empty, "onnxruntime computes the sizes of an empty batch in another order"),
    difference(
        "Resize",
        lambda case: (
            case.attributes.get("exclude_outside", 0)
            and case.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        ),
        "weights outside are excluded; onnxruntime forgets it after the first element outside",
    ),
    difference(
        "Attention",
        lambda case: case.attributes.get("is_causal") and len(case.operands) > 4 and not case.domain,
        "a token sees all earlier keys and its own; in onnxruntime the last token has the last key",
    ),
    difference(
        "Attention",
        lambda case: case.outputs == 4 and not case.domain,
        "scores of hidden keys are -inf; in onnxruntime a large number",
    ),
    difference("LSTM", lambda case: "clip" in case.attributes, "all inputs of activations are clipped, the cell too"),
    difference("MeanVarianceNormalization", constant_rows, "equal elements become 0; in onnxruntime 0 / 0"),
    difference(
        "NonZero", lambda case: case.operands[0].ndim == 0, "a scalar has no axes: no rows, as the specification says"
    ),
    difference(
        "Resize",
        lambda case: case.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize" and edges(case),
        "places that are whole numbers or edges but for rounding",
    ),
    difference(
        "MaxPool AveragePool",
        lambda case: "dilations" in case.attributes and min(case.operands[0].shape[2:]) < 3,
        "of a window that is all padding, the greatest is -inf and the mean no number; in onnxruntime others",
    ),
    difference(
        "Clip",
        special,
        "an omitted operand is no limit, as in the function of the specification; in onnxruntime the least float",
    ),
    difference(
        "AffineGrid",
        lambda case: case.attributes["align_corners"] and 1 in case.arrays()[1][2:],
        "the only row lies in the middle; in onnxruntime at the edge",
    ),
    difference(
        "ReduceProd ReduceSum ReduceSumSquare ReduceL1 ReduceMean",
        large_products,
        "integers wrap; onnxruntime saturates",
    ),
]


def reason_for(case):
    """Why the results of a case may differ from onnxruntime's, or ""."""
    return next((d.reason for d in DIFFERENT if case.op in d.ops and d.applies(case)), "")


# Element-wise operators

UNARY = (
    "Abs Neg Sign Ceil Floor Round Sqrt Exp Log Reciprocal Relu Sigmoid Tanh Erf Softplus Softsign Sin Cos Tan Asin "
    "Acos Atan Sinh Cosh Asinh Acosh Atanh IsNaN IsInf Not Identity LeakyRelu Elu Selu Celu ThresholdedRelu "
    "HardSigmoid HardSwish Mish Gelu Shrink Swish BitwiseNot Dropout"
)
FIRST = {"Gelu": 20, "HardSwish": 14, "Mish": 18, "Swish": 24, "BitwiseNot": 18, "Celu": 12, "IsInf": 10, "Round": 11}


@sample(*UNARY.split())
def unary(dice, op):
    opset = max(dice.choice([7, 8, 9, 11, 13, 14, 15, 16, 18, 21, 22, 24]), FIRST.get(op, 7))
    whole = [np.int32, np.int64, np.int8, np.uint8] if op in ("Abs", "Neg", "Sign", "Relu", "Identity") else []
    dtype = {"Not": np.bool_, "BitwiseNot": dice.choice(INTEGERS)}.get(op, dice.choice(FLOATS + whole))
    attributes: dict[str, Any] = {}
    if dice.chance(0.6):
        if op in ("LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "HardSigmoid", "Swish"):
            attributes["alpha"] = dice.choice([0.1, 1.0, 2.5, 0.3] + ([0.0] if op != "Celu" else []))
        if op == "HardSigmoid":
            attributes["beta"] = dice.choice([0.1, 1.0, -0.3])
        if op == "Selu":
            attributes["gamma"] = dice.choice([0.1, 1.0, -0.3])
        if op == "Shrink":
            attributes = {"lambd": dice.choice([0.0, 0.5, 1.5]), "bias": dice.choice([0.0, 0.5, -1.0])}
        if op == "Gelu":
            attributes["approximate"] = dice.choice(["none", "tanh"])
        if op == "IsInf":
            attributes = {"detect_negative": dice.randint(0, 1), "detect_positive": dice.randint(0, 1)}
    x = dice.array(dice.shape(), dtype)
    if op in ("Asin", "Acos", "Atanh"):
        x = np.clip(x, -1, 1)
    return Case([x], attributes, opset)


@sample(
    *"Add Sub Mul Div Pow Mod BitShift And Or Xor Equal Greater Less GreaterOrEqual LessOrEqual PRelu Max Min".split(),
    *"BitwiseAnd BitwiseOr BitwiseXor Sum Mean".split(),
)
def binary(dice, op):
    opset, shape = dice.choice([7, 8, 9, 11, 12, 13, 14, 15, 17, 18, 21, 22]), dice.shape()
    attributes: dict[str, Any] = {}
    dtype = np.dtype(dice.choice(FLOATS + INTEGERS))
    if op in ("And", "Or", "Xor") or op == "Equal" and dice.chance(0.2):
        dtype = np.dtype(bool)
    if op.startswith("Bitwise"):
        dtype, opset = np.dtype(dice.choice(INTEGERS)), max(opset, 18)
    if op == "BitShift":
        dtype, opset = np.dtype(dice.choice([np.uint8, np.uint16, np.uint32, np.uint64])), max(opset, 11)
        attributes["direction"] = dice.choice(["LEFT", "RIGHT"])
    if op in ("Sum", "Mean", "PRelu"):
        dtype = np.dtype(dice.choice(FLOATS))
    x, y = dice.array(shape, dtype), dice.array(dice.broadcast(shape), dtype)
    if op != "PRelu" and dice.chance(0.4):
        x, y = y, x
    if op == "BitShift":
        y = (y % (8 * dtype.itemsize)).astype(dtype)
    if op == "Mod":
        opset, attributes["fmod"] = max(opset, 10), 1 if dtype.kind == "f" else dice.randint(0, 1)
    if op in ("Div", "Mod") and dtype.kind in "iu":
        y = np.where((y == 0) | (y.astype(float) == -1), 1, y).astype(dtype)
    if op == "Pow":
        if dtype.kind in "iu":
            x, y = np.clip(x, 0 if dtype.kind == "u" else -5, 5), np.clip(y, 0, 4)
        elif dice.chance(0.5):
            y = np.array(dice.choice([2, 3, 0.5, -1, 0, -0.5, 1]), dice.choice([dtype, np.float32]))
            opset = max(opset, 12)
    operands = [x, y]
    if op in ("Max", "Min", "Sum", "Mean"):
        operands = operands[: dice.randint(1, 2)]
        operands += [dice.array(dice.broadcast(shape), dtype) for _ in range(dice.randint(0, 2))]
    return Case(operands, attributes, opset)


@sample("Where")
def where(dice, op):
    shape, dtype = dice.shape(), dice.choice([*FLOATS, *INTEGERS, np.bool_])
    operands = [dice.array(dice.broadcast(shape), t) for t in (np.bool_, dtype, dtype)]
    return Case(operands, opset=dice.choice([9, 16]))


@sample("Clip")
def clip(dice, op):
    opset = dice.choice([6, 11, 12, 13])
    if opset == 6:
        limits = {"min": -1.0, "max": dice.choice([0.5, -2.0])}
        return Case([dice.array(dice.shape())], {k: v for k, v in limits.items() if dice.chance(0.7)}, opset)
    dtype = dice.choice([*FLOATS, np.int32, np.int64, np.int8, np.uint8] if opset >= 12 else [np.float32])
    low, high = (dice.choice([None, *(np.array(v, dtype) for v in pair)]) for pair in ((1, 3), (2, 6)))
    return Case(trimmed([dice.array(dice.shape(), dtype), low, high]), opset=opset)


# Reductions


@sample(*(f"Reduce{k}" for k in "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split()))
def reduction(dice, op):
    opset = dice.choice([1, 9, 11, 12, 13, 18, 20])
    shape = dice.shape(1 if dice.chance(0.9) else 0, 5)
    extreme = op in ("ReduceMax", "ReduceMin")
    dtype = dice.choice([*FLOATS, np.int32, np.int64, *([np.int8, np.uint8] if extreme else [])])
    if extreme and dice.chance(0.05):
        dtype, opset = np.bool_, 20
    if op == "ReduceLogSumExp" and np.dtype(dtype).kind == "i":
        dtype = np.float32
    axes = dice.some(range(len(shape)), 0 if dice.chance(0.1) else 1) if shape and dice.chance(0.8) else None
    by_input = opset >= 18 or op == "ReduceSum" and opset >= 13
    if axes == [] and not by_input:
        axes = None
    if axes and opset >= 11 and dice.chance(0.3):
        axes = [a - len(shape) for a in axes]
    attributes: dict[str, Any] = {}
    if dice.chance(0.6):
        attributes["keepdims"] = dice.randint(0, 1)
    if by_input and dice.chance(0.3):
        attributes["noop_with_empty_axes"] = dice.randint(0, 1)
    x = dice.array(shape, dtype, special=0 if np.dtype(dtype).kind == "i" else 0.08)
    if op == "ReduceProd":
        x = np.clip(x, -2, 2).astype(dtype)
    operands = [x]
    if axes is not None and by_input:
        operands.append(known(dice, axes))
    elif axes is not None:
        attributes["axes"] = axes
    return Case(operands, attributes, opset)


@sample("ArgMax", "ArgMin")
def extreme_index(dice, op):
    shape, opset = dice.shape(1), dice.choice([1, 11, 12, 13])
    axis = dice.randrange(len(shape)) - (len(shape) if dice.chance(0.3) and opset >= 11 else 0)
    attributes = {"axis": axis, "keepdims": dice.randint(0, 1)}
    if opset >= 12:
        attributes["select_last_index"] = dice.randint(0, 1)
    x = dice.array(shape, dice.choice([*FLOATS, np.int32, np.int64, np.int8, np.uint8]))
    return Case([np.round(x) if dice.chance(0.3) else x], attributes, opset)


@sample("Softmax", "LogSoftmax", "Hardmax")
def softmax(dice, op):
    shape, opset = dice.shape(1), dice.choice([1, 11, 13])
    attributes = {}
    if dice.chance(0.8):
        attributes["axis"] = dice.randrange(len(shape)) - (len(shape) if opset >= 11 and dice.chance(0.3) else 0)
    if len(shape) == 1 and opset < 13:
        attributes["axis"] = 0
    return Case([dice.array(shape, dice.choice(FLOATS), special=0)], attributes, opset)


@sample("CumSum", "CumProd")
def cumulative(dice, op):
    shape = dice.shape(1)
    axis = dice.randrange(-len(shape), len(shape))
    dtype = dice.choice([np.float32, np.float64, np.int32, np.int64])
    attributes = {"exclusive": dice.randint(0, 1), "reverse": dice.randint(0, 1)}
    x = dice.array(shape, dtype, special=0)
    if op == "CumProd":
        x = np.clip(x, -1, 1).astype(dtype)
    axis = known(dice, axis, dice.choice([np.int32, np.int64]))
    return Case([x, axis], attributes, dice.choice([11, 14]) if op == "CumSum" else 26)


# Shapes


def any_type(dice):
    return dice.choice([*FLOATS, *INTEGERS, np.bool_])


@sample("Concat")
def concat(dice, op):
    shape, opset, dtype = dice.shape(1), dice.choice([4, 11, 13]), any_type(dice)
    axis = dice.randrange(len(shape))
    operands = []
    for _ in range(dice.randint(1, 5)):
        part = list(shape)
        part[axis] = dice.choice([0, 1, 2, 3, 17])
        operands.append(dice.array(part, dtype))
    return Case(operands, {"axis": axis - (len(shape) if opset > 4 and dice.chance(0.3) else 0)}, opset)


@sample("Split")
def split(dice, op):
    shape, opset, count = list(dice.shape(1)), dice.choice([2, 11, 13, 18]), dice.randint(1, 4)
    axis = dice.randrange(len(shape))
    attributes: dict[str, Any] = {"axis": axis - (len(shape) if opset > 2 and dice.chance(0.3) else 0)}
    operands = []
    if dice.chance(0.4):
        parts = [dice.choice([0, 1, 2, 3]) for _ in range(count)]
        shape[axis] = sum(parts)
        if opset < 13:
            attributes["split"] = parts
        else:
            operands = [Constant(np.array(parts))]
    else:
        shape[axis] = count * dice.randint(1, 4)
        if opset >= 18:
            attributes["num_outputs"] = count
            shape[axis] -= dice.choice([0, 0, 1]) if shape[axis] > count else 0
    return Case([dice.array(shape, any_type(dice)), *operands], attributes, opset, count)


@sample("Slice")
def slices(dice, op):
    shape, opset = dice.shape(1), dice.choice([1, 10, 11, 13])
    axes = dice.some(range(len(shape)))
    steps = [dice.choice([1, 1, 2, -1, -2, 3]) if opset > 1 else 1 for _ in axes]
    starts = [dice.choice([0, 1, -1, -2, 2, 5, -100 if s > 0 else 3, 100]) for s in steps]
    far = [1 << 62, (1 << 31) - 1, -100]
    ends = [dice.choice([0, 1, -1, 3, *(far if s > 0 else [-1 - v for v in far[:2]])]) for s in steps]
    x = dice.array(shape, any_type(dice))
    if opset == 1:
        ends = [min(e, (1 << 31) - 1) for e in ends]
        return Case([x], {"starts": starts, "ends": ends, "axes": axes}, 1)
    if opset >= 11 and dice.chance(0.3):
        axes = [a - len(shape) for a in axes]
    dtype = dice.choice([np.int64, np.int32])
    limits = np.iinfo(dtype)
    ends = [min(max(e, limits.min), limits.max) for e in ends]
    everything = axes == list(range(len(shape)))
    operands = [x, known(dice, starts, dtype), known(dice, ends, dtype)]
    operands.append(None if everything and dice.chance(0.5) else known(dice, axes, dtype))
    operands.append(known(dice, steps, dtype) if dice.chance(0.8) or max(steps) != min(steps) != 1 else None)
    return Case(trimmed(operands), {}, opset)


@sample("Pad")
def pad(dice, op):
    shape, opset = dice.shape(1, zero=0.02), dice.choice([2, 11, 13, 18, 19, 21])
    mode = dice.choice(["constant", "reflect", "edge", *(["wrap"] if opset >= 19 else [])])
    axes = dice.some(range(len(shape))) if opset >= 18 and dice.chance(0.5) else list(range(len(shape)))
    most = [{"reflect": min(shape[a] - 1, 3), "wrap": min(shape[a], 3)}.get(mode, 3) for a in axes]
    low = -1 if dice.chance(0.2) else 0
    pads = [dice.randint(low, max(n, 0)) for n in most * 2]
    dtype = dice.choice([*FLOATS, np.int32, np.int64, np.bool_, np.uint8, np.int8] if opset >= 13 else [np.float32])
    attributes: dict[str, Any] = {"mode": mode}
    x = dice.array(shape, dtype)
    if opset == 2:
        attributes["pads"] = pads
        return Case([x], {**attributes, "value": 1.5} if dice.chance(0.5) else attributes, 2)
    operands = [x, known(dice, pads), maybe(dice, 0.5, dice.array((), dtype, special=0))]
    if len(axes) < len(shape) or axes != sorted(axes):
        axes = [a - (len(shape) if dice.chance(0.3) else 0) for a in axes]
        operands.append(Constant(np.array(axes, dice.choice([np.int64, np.int32]))))
    return Case(trimmed(operands), attributes, opset)


@sample("Transpose")
def transpose(dice, op):
    shape = dice.shape(0, 6)
    order = dice.some(range(len(shape)), len(shape))
    attributes = {"perm": order} if shape and dice.chance(0.8) else {}
    return Case([dice.array(shape, any_type(dice))], attributes, dice.choice([1, 13, 21]))


@sample("Reshape")
def reshape(dice, op):
    shape, opset = dice.shape(1), dice.choice([5, 13, 14, 19])
    target = dice.choice([[*shape], [-1], [0, *shape[1:]], [1, *shape, 1], [shape[0], -1], [0, -1]])
    attributes = {}
    if opset >= 14 and dice.chance(0.3):
        attributes["allowzero"], target = 1, [*shape]
    return Case([dice.array(shape, any_type(dice)), known(dice, target)], attributes, opset)


@sample("Expand")
def expand(dice, op):
    shape = dice.shape()
    target = dice.broadcast(shape) if dice.chance(0.2) else shape
    return Case([dice.array(dice.broadcast(shape), any_type(dice)), known(dice, target)], opset=dice.choice([8, 13]))


@sample("Tile")
def tile(dice, op):
    shape = dice.shape(1, zero=0.03)
    repeats = [dice.choice([0, 1, 1, 2, 3]) for _ in shape]
    return Case([dice.array(shape, any_type(dice)), known(dice, repeats)], opset=dice.choice([6, 13]))


@sample("Squeeze", "Unsqueeze", "Flatten")
def ranks(dice, op):
    opset, shape = dice.choice([1, 11, 13]), dice.shape(1)
    x, rank, axes = dice.array(shape, any_type(dice)), len(shape), None
    if op == "Flatten":
        axis = dice.randint(0 if opset < 11 else -rank, rank)
        return Case([x], {"axis": axis} if dice.chance(0.8) else {}, opset)
    if op == "Squeeze":
        ones = [i for i, d in enumerate(shape) if d == 1]
        axes = dice.some(ones) if ones and dice.chance(0.8) else None
    else:
        rank += 2
        axes = dice.sample(range(rank), 2)
    if axes and opset >= 11 and dice.chance(0.4):
        axes = [a - rank for a in axes]
    if opset < 13:
        return Case([x], {} if axes is None else {"axes": axes}, opset)
    return Case([x, *([] if axes is None else [known(dice, axes)])], {}, opset)


@sample("DepthToSpace", "SpaceToDepth")
def blocks(dice, op):
    block, shape = dice.choice([1, 2, 3]), [dice.choice([0, 1, 2]), *(dice.choice([1, 2, 3, 9]) for _ in range(3))]
    attributes: dict[str, Any] = {"blocksize": block}
    opset = dice.choice([1, 13])
    if op == "DepthToSpace":
        shape[1] *= block * block
        opset = dice.choice([1, 11, 13])
        if opset >= 11:
            attributes["mode"] = dice.choice(["DCR", "CRD"])
    else:
        shape[2:] = [n * block for n in shape[2:]]
    return Case([dice.array(shape, dice.choice([np.float32, np.float64, np.uint8]))], attributes, opset)


@sample("Shape", "Size")
def sizes(dice, op):
    limits = {k: dice.randint(-5, 5) for k in ("start", "end") if op == "Shape" and dice.chance(0.4)}
    return Case(
        [dice.array(dice.shape(), any_type(dice))], limits, dice.choice([15, 19, 21] if op == "Shape" else [1, 13])
    )


@sample("CenterCropPad")
def centre(dice, op):
    shape = dice.shape(1, zero=0)
    axes = sorted(dice.some(range(len(shape))))
    target = Constant(np.array([dice.choice(SIZES[:14]) for _ in axes]))
    return Case([dice.array(shape, dice.choice([np.float32, np.int32])), target], {"axes": axes}, 18)


@sample("Trilu", "EyeLike")
def diagonals(dice, op):
    shape = dice.shape(2, 2 if op == "EyeLike" else 4)
    x = dice.array(shape, dice.choice([np.float32, np.float64, np.int64, np.int32]))
    if op == "EyeLike":
        pairs = (("k", dice.randint(-3, 3)), ("dtype", dice.choice([1, 6, 7, 11])))
        return Case([x], {k: v for k, v in pairs if dice.chance(0.6)}, 9)
    k = known(dice, dice.randint(-4, 4)) if dice.chance(0.6) else None
    return Case(trimmed([x, k]), {"upper": dice.randint(0, 1)} if dice.chance(0.8) else {}, 14)


@sample("Range", "ConstantOfShape")
def made(dice, op):
    if op == "Range":
        dtype = dice.choice([np.int64, np.int32, np.float32, np.float64, np.int16])
        numbers = (dice.randint(-3, 3), dice.randint(-5, 70), dice.choice([1, 2, -1, -3]))
        return Case([known(dice, v, dtype) for v in numbers], {}, 11)
    value = numpy_helper.from_array(dice.array((1,), any_type(dice)))
    return Case([known(dice, dice.shape())], {"value": value} if dice.chance(0.8) else {}, dice.choice([9, 20, 21]))


@sample("Cast", "CastLike", "BitCast")
def cast(dice, op):
    x = dice.array(dice.shape(), any_type(dice), special=0.03)
    if op == "BitCast":
        same = {1: [2, 3, 9], 2: [4, 5, 10], 4: [1, 6, 12], 8: [7, 11, 13]}[x.dtype.itemsize]
        return Case([x], {"to": dice.choice(same)}, 26)
    if op == "CastLike":
        return Case([x, dice.array((1,), dice.choice([np.float32, np.float64, np.int64, np.float16]))], {}, 15)
    to = dice.choice([1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13])
    if x.dtype.kind == "f":  # others have no value as an integer, or another one on each CPU
        x = np.clip(np.where(np.isfinite(x), x, 1), 0 if to in (2, 4, 12, 13) else -100, 100).astype(x.dtype)
    return Case([x], {"to": to}, dice.choice([6, 9, 13, 19]))


# Indices


@sample("Gather")
def gather(dice, op):
    shape, opset, lead = dice.shape(1, zero=0.02), dice.choice([1, 11, 13]), dice.shape(0, 2)
    axis = dice.randrange(len(shape))
    if shape[axis] == 0:
        lead = (0,)
    index = dice.indices(max(shape[axis], 1), lead, negative=opset >= 11)
    return Case([dice.array(shape, any_type(dice)), index], {"axis": axis - len(shape) * dice.randint(0, 1)}, opset)


@sample("GatherElements")
def gather_elements(dice, op):
    shape = dice.shape(1, zero=0)
    axis = dice.randrange(len(shape))
    lead = [dice.randint(0 if dice.chance(0.1) else 1, d) for d in shape]
    lead[axis] = dice.randint(1, 5)
    index = dice.indices(shape[axis], lead)
    return Case([dice.array(shape, any_type(dice)), index], {"axis": axis - len(shape) * dice.randint(0, 1)}, 13)


@sample("GatherND")
def gather_nd(dice, op):
    shape = dice.shape(2, zero=0)
    batch = dice.randint(0, min(1, len(shape) - 2))
    depth = dice.randint(1, len(shape) - batch)
    lead = [*shape[:batch], *dice.shape(0 if batch else 1, 2, zero=0.03)]
    index = np.stack([dice.indices(shape[batch + j], lead, np.int64) for j in range(depth)], -1)
    attributes = {"batch_dims": batch} if batch else {}
    return Case(
        [dice.array(shape, any_type(dice)), index], attributes, dice.choice([12, 13] if batch else [11, 12, 13])
    )


def reductions(dice, opset):
    """Attributes with a reduction of a scattering operator."""
    kinds = ["none", "add", "mul", *(["max", "min"] if opset >= 18 else [])]
    return {"reduction": dice.choice(kinds)} if opset >= 16 and dice.chance(0.7) else {}


@sample("ScatterElements", "Scatter")
def scatter_elements(dice, op):
    shape, opset = dice.shape(1, zero=0), 9 if op == "Scatter" else dice.choice([11, 13, 16, 18])
    axis, dtype = dice.randrange(len(shape)), dice.choice([*FLOATS, np.int32, np.int64])
    lead = [dice.randint(1, d) for d in shape]
    attributes = reductions(dice, opset)
    if attributes.get("reduction", "none") == "none":  # each place once
        order = dice.numpy.permutation(shape[axis])[: lead[axis]]
        index = np.broadcast_to(order.reshape([-1 if k == axis else 1 for k in range(len(shape))]), lead)
        index = np.where(dice.numpy.random(lead) < 0.3, index - shape[axis], index)
    else:
        index = dice.indices(shape[axis], lead)
    operands = [dice.array(shape, dtype, special=0), index.astype(dice.choice([np.int64, np.int32]))]
    attributes["axis"] = axis - len(shape) * dice.randint(0, 1)
    return Case([*operands, dice.array(lead, dtype, special=0)], attributes, opset)


@sample("ScatterND")
def scatter_nd(dice, op):
    shape, opset = dice.shape(1, zero=0), dice.choice([11, 13, 16, 18])
    depth, dtype = dice.randint(1, len(shape)), dice.choice([*FLOATS, np.int32, np.int64])
    attributes, lead = reductions(dice, opset), dice.shape(1, 2)
    places = math.prod(shape[:depth])
    if attributes.get("reduction", "none") == "none":
        if math.prod(lead) > places:
            lead = (places,)
        flat = dice.numpy.permutation(places)[: math.prod(lead)].reshape(lead)
    else:
        flat = dice.numpy.integers(0, places, lead)
    index = np.stack(np.unravel_index(flat, shape[:depth]), -1).astype(np.int64)
    if math.prod(lead) * math.prod(shape[depth:]) > 4 * MUCH:
        return scatter_nd(dice, op)
    updates = dice.array((*lead, *shape[depth:]), dtype, special=0)
    return Case([dice.array(shape, dtype, special=0), index, updates], attributes, opset)


@sample("OneHot")
def one_hot(dice, op):
    shape, depth = dice.shape(0, 3), dice.randint(1, 20)
    dtype = dice.choice([np.float32, np.int64, np.int32])
    index = dice.array(shape, dice.choice([np.int64, np.int32, np.float32]), -depth, depth + 1)
    index = np.round(index).astype(index.dtype)
    depth = known(dice, depth if dice.chance(0.6) else [depth])
    axis = dice.randint(-len(shape) - 1, len(shape))
    return Case([index, depth, dice.array((2,), dtype, special=0)], {"axis": axis}, dice.choice([9, 11]))


@sample("ReverseSequence")
def reverse_sequence(dice, op):
    shape, batch = dice.shape(2, zero=0), dice.randint(0, 1)
    lengths = dice.array(shape[batch], np.int64, 1, shape[1 - batch])
    x = dice.array(shape, dice.choice([np.float32, np.float64, np.int64, np.bool_]))
    return Case([x, lengths], {"batch_axis": batch, "time_axis": 1 - batch}, 10)


@sample("NonZero", "Compress", "Unique")
def selected(dice, op):
    # On no rows of elements, onnxruntime's Unique ends the process.
    shape = dice.shape(1 if op != "NonZero" else 0, zero=0.05 if op != "Unique" else 0)
    if op == "NonZero":
        x = dice.array(shape, dice.choice([np.float32, np.int64, np.int32, np.bool_, np.uint8]), special=0)
        return Case([x if x.dtype == bool else np.round(x).astype(x.dtype)], {}, dice.choice([9, 13]))
    axis = None if dice.chance(0.3) else dice.randrange(len(shape))
    attributes = {} if axis is None else {"axis": axis - len(shape) * dice.randint(0, 1)}
    if op == "Compress":
        most = math.prod(shape) if axis is None else shape[axis]
        return Case([dice.array(shape, any_type(dice)), dice.array(dice.randint(0, most), bool)], attributes, 11)
    x = np.round(dice.array(shape, dice.choice([np.float32, np.float64, np.int64, np.int8]), 0, 3))
    return Case([x], {**attributes, "sorted": dice.randint(0, 1)}, 11, dice.randint(1, 4))


@sample("TopK")
def top_k(dice, op):
    shape, opset = dice.shape(1, zero=0), dice.choice([1, 10, 11])
    axis = dice.randrange(len(shape))
    k = dice.randint(0 if dice.chance(0.1) else 1, shape[axis])
    dtype = dice.choice([np.float32, np.float32, np.float64, np.int64, np.int32]) if opset == 11 else np.float32
    x = dice.array(shape, dtype, special=0)
    x = np.round(x).astype(dtype) if dice.chance(0.3) else x
    attributes = {"axis": axis - (len(shape) if opset > 1 and dice.chance(0.3) else 0)}
    if opset == 1:
        return Case([x], {**attributes, "k": max(k, 1)}, 1, 2)
    if opset == 11:
        attributes.update(largest=dice.randint(0, 1), sorted=1)
    return Case([x, known(dice, [k])], attributes, opset, 2)


# Products


@sample("MatMul", "MatMulInteger")
def matmul(dice, op):
    k, lead = dice.choice([*SIZES, 0 if op == "MatMul" else 5]), dice.shape(0, 2)
    lead = lead if math.prod(lead) < 100 else ()
    left = (*dice.broadcast(lead), dice.choice([*SIZES, 0]), k)
    right = (*dice.broadcast(lead), k, dice.choice(SIZES))
    left, right = (k,) if dice.chance(0.1) else left, (k,) if dice.chance(0.1) else right
    if op == "MatMul":
        dtype = dice.choice([*FLOATS, np.int32, np.int64])
        return Case([dice.array(s, dtype, special=0) for s in (left, right)], opset=dice.choice([9, 13]))
    types = [dice.choice([np.uint8, np.int8]) for _ in range(2)]
    operands = [dice.array(s, t) for s, t in zip((left, right), types)]
    rows = left[-2] if len(left) == 2 and dice.chance(0.2) else ()
    columns = right[-1] if len(right) == 2 and dice.chance(0.4) else ()
    zeros = [dice.array(s, t) if dice.chance(0.7) else None for s, t in zip((rows, columns), types)]
    return Case(trimmed([*operands, *zeros]), {}, 10)


@sample("Gemm")
def gemm(dice, op):
    m, k, n = dice.choice([*SIZES, 0]), dice.choice([*SIZES, 0]), dice.choice(SIZES)
    left, right = dice.randint(0, 1), dice.randint(0, 1)
    dtype, opset = dice.choice([np.float32, np.float32, np.float64, np.float16]), dice.choice([7, 9, 11, 13])
    operands = [dice.array(s, dtype, special=0) for s in ((k, m) if left else (m, k), (n, k) if right else (k, n))]
    if opset < 11 or dice.chance(0.8):
        operands.append(dice.array(dice.choice([(m, n), (n,), (1, n), (m, 1), (), (1, 1), (1,)]), dtype, special=0))
    attributes = {k: dice.choice([0.5, 0.0, 2.0]) for k in ("alpha", "beta") if dice.chance(0.4)}
    return Case(operands, {**attributes, "transA": left, "transB": right}, opset)


EQUATIONS = (
    "ij,jk->ik bij,bjk->bik ij->ji ii->i ii ij-> i,j->ij ij,ij->i bhid,bhjd->bhij ...ij,...jk->...ik ij,kj->ik "
    "abc,cd->abd ij,jk bij->bj ijk,il->ljk a,b,c->abc ij,j->i bnqd,bnkd->bnqk ijj->i abcd,cd->ab bij,kj->bik "
    "abi,abi->ab i,i-> bhij,bjhd->bihd bchw,kc->bkhw ...i,i->... iij,jk->ik"
)


@sample("Einsum")
def einsum(dice, op):
    equation = dice.choice(EQUATIONS.split())
    size = {letter: dice.choice(SIZES[:12]) for letter in "abcdhijklnqw"}
    if dice.chance(0.05):
        size["i"] = 0
    dtype, lead = dice.choice([np.float32, np.float32, np.float64, np.int64, np.int32]), dice.shape(1, 2, zero=0)[:1]
    shapes = []
    for term in equation.split("->")[0].split(","):
        ellipsis = list(lead) if "..." in term else []
        shapes.append(ellipsis + [size[letter] for letter in term.replace("...", "")])
    return Case([dice.array(s, dtype, special=0) for s in shapes], {"equation": equation}, 12)


# Convolutions and pools


def image(dice, axes):
    """Spatial sizes."""
    most = {1: len(SIZES), 2: 17, 3: 11}[axes]
    return [dice.choice(SIZES[:most]) for _ in range(axes)]


@sample("Conv", "ConvTranspose", "ConvInteger", "QLinearConv")
def conv(dice, op):
    axes = dice.choice([1, 2, 2, 2, 3])
    group = dice.choice([1, 1, 1, 1, 2, 3])
    channels, outputs = (group * dice.choice([1, 1, 2, 3, 4, 8, 13, 17, 40]) for _ in range(2))
    if dice.chance(0.2):
        channels = outputs = group = dice.choice([2, 3, 8, 17])
    if dice.chance(0.05):
        outputs *= 2
    batch, size = dice.choice([1, 1, 2, 3, 0 if dice.chance(0.2) else 1]), image(dice, axes)
    while channels * outputs * math.prod(size) > 20 * MUCH:
        size[dice.randrange(axes)] = dice.choice(SIZES[:10])
        channels, outputs = (max(v // 2 // group, 1) * group for v in (channels, outputs))
    kernel = [dice.choice([1, 2, 3, 3, 5, 7 if axes < 3 else 3]) for _ in range(axes)]
    attributes: dict[str, Any] = {"group": group}
    if dice.chance(0.7):
        attributes["kernel_shape"] = kernel
    if dice.chance(0.5):
        attributes["strides"] = [dice.choice([1, 1, 2, 3]) for _ in range(axes)]
    if dice.chance(0.3):
        attributes["dilations"] = [dice.choice([1, 1, 2, 3]) for _ in range(axes)]
    strides = attributes.get("strides", [1])
    if dice.chance(0.6):
        attributes["pads"] = [dice.choice([0, 1, 2]) for _ in range(2 * axes)]
    elif dice.chance(0.5) and op != "ConvTranspose" and max(strides) < 3:
        attributes["auto_pad"] = dice.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    opset = dice.choice([1, 11, 22])
    if op in ("Conv", "ConvTranspose"):
        dtype = dice.choice([np.float32] * 5 + [np.float16])
        weights = (channels, outputs // group, *kernel) if op != "Conv" else (outputs, channels // group, *kernel)
        if op == "ConvTranspose" and "strides" in attributes and dice.chance(0.3):
            attributes["output_padding"] = [dice.randint(0, s - 1) for s in strides]
        shapes = ((batch, channels, *size), weights, (outputs,))[: dice.randint(2, 3)]
        return Case([dice.array(s, dtype, special=0) for s in shapes], attributes, opset)
    x_type, w_type = dice.choice([np.uint8, np.uint8, np.int8]), dice.choice([np.uint8, np.int8])
    if op == "ConvInteger":
        x_type = np.uint8
    if x_type == np.int8:
        w_type = np.int8
    x, w = dice.array((batch, channels, *size), x_type), dice.array((outputs, channels // group, *kernel), w_type)
    if op == "ConvInteger":
        zeros = [dice.array((), t) if dice.chance(0.7) else None for t in (x_type, w_type)]
        return Case(trimmed([x, w, *zeros]), attributes, 10)
    per_channel = (outputs,) if dice.chance(0.4) else ()
    zero = dice.array((), w_type) if not per_channel else np.zeros(per_channel, w_type)
    constants = [dice.array((), low=0.01, high=0.05), dice.array((), x_type), w]
    constants += [dice.array(per_channel, low=0.01, high=0.05), zero, dice.array((), low=0.05, high=0.2)]
    constants += [dice.array((), x_type), maybe(dice, 0.5, dice.array(outputs, np.int32, special=0))]
    return Case([x, *(Constant(v) for v in constants if v is not None)], attributes, 10, units=1)


@sample("DeformConv")
def deformable(dice, op):
    kernel, size, group = [dice.choice([1, 2, 3]) for _ in range(2)], image(dice, 2), dice.choice([1, 1, 2])
    channels, outputs, offsets = 2 * group, group * dice.choice([1, 3]), dice.choice([1, 2])
    strides, pads = [dice.choice([1, 2]) for _ in kernel], [dice.choice([0, 1, 2]) for _ in range(4)]
    extents = [(n + pads[i] + pads[i + 2] - k) // strides[i] + 1 for i, (n, k) in enumerate(zip(size, kernel))]
    if min(extents) < 1:
        return deformable(dice, op)
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "group": group, "offset_group": offsets}
    taps, batch = math.prod(kernel) * offsets, dice.choice([1, 2])
    operands = [dice.uniform_array(batch, channels, *size), dice.uniform_array(outputs, channels // group, *kernel)]
    operands += [2 * dice.uniform_array(batch, 2 * taps, *extents), maybe(dice, 0.5, dice.uniform_array(outputs))]
    operands.append(maybe(dice, 0.4, dice.uniform_array(batch, taps, *extents)))
    return Case(trimmed(operands), attributes, dice.choice([19, 22]))


POOLS = {
    "MaxPool": [1, 8, 10, 11, 12, 22],
    "AveragePool": [1, 7, 10, 11, 19, 22],
    "LpPool": [2, 11, 18, 22],
}  # operator sets


@sample(*POOLS)
def pool(dice, op):
    opset, axes = dice.choice(POOLS[op]), dice.choice([1, 2, 2, 2, 3])
    size = image(dice, axes)
    kernel = [min(dice.choice([1, 2, 3, 3, 5]), n + 1) for n in size]
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if dice.chance(0.7):
        attributes["strides"] = [dice.choice([1, 2, 3]) for _ in size]
    if dice.chance(0.5):
        attributes["pads"] = [dice.randint(0, k - 1) for k in kernel * 2]
    elif dice.chance(0.4) and max(attributes.get("strides", [1])) < 3:
        attributes["auto_pad"] = dice.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    if opset >= (18 if op == "LpPool" else 10) and dice.chance(0.5):
        attributes["ceil_mode"] = dice.randint(0, 1)
    if opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op] and dice.chance(0.3):
        attributes["dilations"] = [dice.choice([1, 2]) for _ in size]
    if op == "AveragePool" and opset >= 7 and dice.chance(0.5):
        attributes["count_include_pad"] = dice.randint(0, 1)
    if op == "LpPool":
        attributes["p"] = dice.choice([1, 2, 3])
    outputs = 1
    if op == "MaxPool" and opset >= 8 and dice.chance(0.3):
        outputs, attributes["storage_order"] = 2, dice.choice([0, 0, 1])
    dtype = dice.choice([np.float32] * 4 + ([np.uint8, np.int8] if op == "MaxPool" and opset >= 12 else []))
    x = dice.array((dice.choice([1, 1, 2]), dice.choice([1, 3, 17]), *size), dtype, special=0)
    return Case([x], attributes, opset, outputs)


@sample("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
def global_pool(dice, op):
    x = dice.array((dice.choice([1, 2, 3]), dice.choice(SIZES), *image(dice, dice.choice([1, 2, 3]))), special=0)
    return Case([x], {"p": dice.choice([1, 2, 3])} if op == "GlobalLpPool" else {}, dice.choice([2, 22]))


@sample("MaxUnpool")
def unpool(dice, op):
    rows, columns, channels = (dice.choice(SIZES[:12]) for _ in range(3))
    places = [dice.numpy.permutation(4 * rows * columns)[: rows * columns] for _ in range(channels)]
    index = (
        np.stack(places).reshape(1, channels, rows, columns) + 4 * rows * columns * np.arange(channels)[:, None, None]
    )
    x = dice.array(index.shape, special=0)
    return Case([x, index.astype(np.int64)], {"kernel_shape": [2, 2], "strides": [2, 2]}, dice.choice([9, 11]))


@sample("Col2Im")
def col_to_image(dice, op):
    kernel, size = [dice.choice([1, 2, 3]), dice.choice([1, 2])], [dice.choice([3, 5, 17]), dice.choice([3, 4, 9])]
    strides, pads = [dice.choice([1, 2]) for _ in kernel], [dice.choice([0, 1]) for _ in range(4)]
    dilations = [1, dice.choice([1, 2])]
    columns = [
        (n + pads[i] + pads[i + 2] - dilations[i] * (k - 1) - 1) // strides[i] + 1
        for i, (n, k) in enumerate(zip(size, kernel))
    ]
    x = dice.array((dice.choice([1, 2]), dice.choice([1, 3, 8]) * math.prod(kernel), math.prod(columns)), special=0)
    attributes = {"strides": strides, "pads": pads, "dilations": dilations}
    return Case([x, Constant(np.array(size)), Constant(np.array(kernel))], attributes, 18)


# Normalisations


@sample("LRN", "BatchNormalization", "InstanceNormalization", "GroupNormalization", "LpNormalization")
@sample("LayerNormalization", "RMSNormalization", "MeanVarianceNormalization")
def normalisation(dice, op):
    axes = dice.choice([1, 2, 2, 3] if op != "BatchNormalization" else [0, 1, 2, 2, 3])
    channels, epsilon = dice.choice(SIZES[:16]), dice.choice([1e-5, 1e-2])
    shape = (dice.choice([1, 2, 3]), channels, *(image(dice, axes) if axes else ()))
    x = dice.array(shape, special=0)
    weights = [dice.array(channels, special=0.03) for _ in range(3)]
    if op == "LRN":
        x = dice.array((shape[0], channels, *image(dice, 2)), special=0)
        attributes = {"size": dice.randint(1, 5), "alpha": dice.choice([1e-4, 0.5]), "beta": dice.choice([0.75, 0.5])}
        return Case([x], {**attributes, "bias": dice.choice([1.0, 2.0])}, dice.choice([1, 13]))
    if op == "InstanceNormalization":
        return Case([x, *weights[:2]], {"epsilon": epsilon}, dice.choice([6, 22]))
    if op == "BatchNormalization":
        variance = dice.array(channels, low=0.1, high=3)
        return Case([x, *weights, variance], {"epsilon": epsilon}, dice.choice([7, 9, 14, 15]))
    if op == "GroupNormalization":
        groups, opset = dice.choice([d for d in range(1, channels + 1) if channels % d == 0]), dice.choice([18, 21])
        weights = [dice.array(groups if opset == 18 else channels, special=0) for _ in range(2)]
        return Case([x, *weights], {"num_groups": groups, "epsilon": epsilon}, opset)
    if op == "LpNormalization":
        return Case([x], {"axis": dice.randrange(-x.ndim, x.ndim), "p": dice.choice([1, 2])}, dice.choice([1, 22]))
    if op == "MeanVarianceNormalization":
        given = dice.chance(0.6) or x.ndim != 4
        return Case([x], {"axes": sorted(dice.some(range(x.ndim)))} if given else {}, dice.choice([9, 13]))
    axis = dice.randrange(x.ndim)
    width = [1 if dice.chance(0.1) else d for d in shape[axis:]]
    weights = [dice.array(width, special=0) for _ in range(2)]
    attributes = {"axis": axis - x.ndim * dice.randint(0, 1), "epsilon": epsilon}
    if op == "RMSNormalization":
        return Case([x, weights[0]], attributes, 23)
    return Case([x, *weights[: dice.randint(1, 2)]], attributes, 17, dice.choice([1, 1, 3]))


# Images

MODES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize"]


@sample("Resize", "Upsample")
def resize(dice, op):
    axes = dice.choice([1, 2, 2, 2, 3])
    shape = [dice.choice([1, 2]), dice.choice([1, 3, 9]), *(dice.choice([1, 2, 3, 4, 5, 8, 17]) for _ in range(axes))]
    if op == "Upsample":
        scales = np.array([1, 1] + [dice.choice([1.0, 2.0, 1.5, 3.0]) for _ in range(axes)], np.float32)
        mode = dice.choice(["nearest", "linear"]) if axes == 2 else "nearest"
        return Case([dice.array(shape, special=0), Constant(scales)], {"mode": mode}, 9)
    opset = dice.choice([10, 11, 13, 18, 19])
    mode = dice.choice(["nearest", "linear"] + (["cubic"] if opset > 10 and axes == 2 else []))
    scales = [1.0, 1.0] + [dice.choice([1.0, 2.0, 0.5, 1.5, 0.6, 3.0, 0.34, 2.3]) for _ in range(axes)]
    x = dice.array(shape, dice.choice([np.float32] * 4 + [np.uint8 if mode == "nearest" else np.float32]), special=0)
    attributes: dict[str, Any] = {"mode": mode}
    if opset == 10:
        return Case([x, Constant(np.array(scales, np.float32))], attributes, 10)
    transform = dice.choice(MODES + (["half_pixel_symmetric"] if opset >= 19 else []))
    attributes["coordinate_transformation_mode"] = transform
    nothing = None if opset > 11 else Constant(np.zeros(0, np.float32))
    roi: Any = nothing
    if transform == "tf_crop_and_resize":
        edges = [0] * 2 + [dice.choice([0, 0.1, 0.3])] * axes + [1] * 2 + [dice.choice([1, 0.8, 1.2])] * axes
        roi, attributes["extrapolation_value"] = Constant(np.array(edges, np.float32)), dice.choice([0.0, 5.0])
    if transform == "align_corners":
        scales = [1.0, 1.0] + [dice.choice([1.0, 2.0, 3.0]) for _ in range(axes)]
    if mode == "nearest":
        scales = [1.0, 1.0] + [dice.choice([1.0, 2.0, 0.5, 4.0, 0.25]) for _ in range(axes)]  # exact places
        attributes["nearest_mode"] = dice.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attributes.update(cubic_coeff_a=dice.choice([-0.5, -0.75]), exclude_outside=dice.randint(0, 1))
    if opset >= 18 and mode != "nearest" and transform != "tf_crop_and_resize" and dice.chance(0.3):
        attributes["antialias"] = 1
    if dice.chance(0.5):
        return Case([x, roi, Constant(np.array(scales, np.float32))], attributes, opset)
    size = [*shape[:2], *(dice.choice([1, 2, 3, 4, 6, 9, 20]) for _ in range(axes))]
    if opset >= 18 and dice.chance(0.4):
        attributes["axes"] = list(range(2, 2 + axes))
        attributes["keep_aspect_ratio_policy"] = dice.choice(["stretch", "not_larger", "not_smaller"])
        size = size[2:]
        if transform == "tf_crop_and_resize":
            roi = Constant(roi.array.reshape(2, -1)[:, 2:].reshape(-1))
    return Case([x, roi, nothing, Constant(np.array(size))], attributes, opset)


@sample("GridSample", "AffineGrid")
def grid_sample(dice, op):
    opset = dice.choice([16, 20, 22])
    axes = 2 if opset == 16 else dice.choice([2, 3])
    if op == "AffineGrid":
        size = Constant(np.array([2, 3] + [dice.choice([2, 3, 5, 1, 17]) for _ in range(axes)]))
        return Case([dice.array((2, axes, axes + 1), special=0), size], {"align_corners": dice.randint(0, 1)}, 20)
    shape = [2, 3, *(dice.choice([1, 2, 4, 5, 13]) for _ in range(axes))]
    grid = dice.array((2, *(dice.choice([1, 3, 4, 17]) for _ in range(axes)), axes), low=-1.5, high=1.5)
    modes = ["bilinear", "nearest", "bicubic"] if opset == 16 else ["linear", "nearest"] + ["cubic"] * (axes == 2)
    attributes = {"mode": dice.choice(modes), "padding_mode": dice.choice(["zeros", "border", "reflection"])}
    return Case([dice.array(shape, special=0), grid], {**attributes, "align_corners": dice.randint(0, 1)}, opset)


@sample("RoiAlign", "MaxRoiPool")
def rois(dice, op):
    count = dice.randint(1, 4)
    x, batch = dice.array((2, dice.choice([1, 3, 8]), 8, 9), special=0), dice.array(count, np.int64, 0, 1)
    if op == "MaxRoiPool":
        corners = np.sort(dice.array((count, 2, 2), np.int64, 0, 7), 1).reshape(count, 4)
        boxes = np.concatenate([batch[:, None], corners], 1).astype(np.float32)
        return Case([x, boxes], {"pooled_shape": [2, dice.randint(1, 3)], "spatial_scale": dice.choice([1.0, 0.5])}, 1)
    boxes = np.sort(dice.array((count, 2, 2), low=0, high=10), 1).reshape(count, 4)
    attributes = {
        "output_height": dice.randint(1, 4),
        "output_width": dice.randint(1, 3),
        "sampling_ratio": dice.choice([0, 1, 2]),
        "spatial_scale": dice.choice([1.0, 0.5]),
        "mode": dice.choice(["avg", "max"]),
    }
    opset = dice.choice([10, 16])
    if opset == 16:
        attributes["coordinate_transformation_mode"] = dice.choice(["half_pixel", "output_half_pixel"])
    return Case([x, boxes, batch], attributes, opset)


@sample("NonMaxSuppression")
def suppression(dice, op):
    batch, classes, count = dice.choice([1, 2]), dice.choice([1, 3]), dice.choice([1, 3, 12, 40])
    boxes = np.sort(dice.array((batch, count, 2, 2), low=0, high=1), 2).reshape(batch, count, 4)
    operands = [boxes, dice.array((batch, classes, count), low=0, high=1)]
    most, overlap, score = dice.choice([0, 2, 5, 100]), dice.choice([0.0, 0.3, 0.5, 1.0]), dice.choice([0.0, 0.4])
    limits = [np.array([most]), np.array([overlap], np.float32), np.array([score], np.float32)]
    operands += limits[: dice.randint(0, 3)]
    return Case(operands, {"center_point_box": dice.randint(0, 1)}, dice.choice([10, 11]))


# Recurrences

ACTIVATIONS = "Tanh Sigmoid Softsign HardSigmoid Relu LeakyRelu Elu Affine ScaledTanh ThresholdedRelu Softplus".split()
ALPHA = {"HardSigmoid": 0.2, "LeakyRelu": 0.01, "Elu": 1.0, "Affine": 1.0, "ScaledTanh": 1.0, "ThresholdedRelu": 1.0}
BETA = {"HardSigmoid": 0.5, "Affine": 0.2, "ScaledTanh": 1.0}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@sample(*GATES)
def recurrence(dice, op):
    steps, batch = dice.choice([1, 2, 4, 7, 20]), dice.choice([1, 1, 2, 3, 9])
    width, hidden = dice.choice([1, 3, 8, 33]), dice.choice([1, 2, 4, 5, 16, 33])
    direction = dice.choice(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    opset = dice.choice([7, 14, 22])
    last = opset >= 14 and dice.chance(0.3)
    rows = GATES[op] * hidden

    def draw(probability, *shape):
        return maybe(dice, probability, dice.uniform_array(*shape))

    operands = [draw(1, batch, steps, width) if last else draw(1, steps, batch, width)]
    operands += [draw(1, ways, rows, n) * np.float32(n**-0.5) for n in (width, hidden)]  # states do not explode
    operands.append(draw(0.6, ways, 2 * rows))
    operands.append(maybe(dice, 0.4, dice.array(batch, np.int32, 1, steps)))
    state = (batch, ways, hidden) if last else (ways, batch, hidden)
    operands.append(draw(0.4, *state))
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if op == "LSTM":
        operands += [draw(0.4, *state), draw(0.3, ways, 3 * hidden)]
        attributes["input_forget"] = int(dice.chance(0.2))
    if op == "GRU":
        attributes["linear_before_reset"] = dice.randint(0, 1)
    if dice.chance(0.2):
        attributes["clip"] = dice.choice([0.5, 2.0])
    if last:
        attributes["layout"] = 1
    if dice.chance(0.4):
        chosen = [
            dice.choice(ACTIVATIONS if steps < 5 else ACTIVATIONS[:4])
            for _ in range(ways * {"RNN": 1, "GRU": 2, "LSTM": 3}[op])
        ]
        attributes["activations"] = chosen
        alpha, beta = ([table[a] for a in chosen if a in table] for table in (ALPHA, BETA))
        attributes.update({k: v for k, v in (("activation_alpha", alpha), ("activation_beta", beta)) if v})
    return Case(trimmed(operands), attributes, opset, dice.randint(1, 3 if op == "LSTM" else 2), loose=1e-3)


# Quantised numbers


@sample("QuantizeLinear", "DequantizeLinear")
def quantised(dice, op):
    shape, opset = dice.shape(1, zero=0.02), dice.choice([10, 13, 19, 21, 21, 23])
    axis, kind = dice.randrange(len(shape)), dice.choice(["tensor", "axis", "blocks"])
    four = opset >= 21 and op[0] == "D" and dice.chance(0.3)
    dtype = dice.choice([np.uint8, np.int8] + ([np.uint16, np.int16] if opset >= 21 else []))
    attributes: dict[str, Any] = {}
    if opset >= 13:
        attributes["axis"] = axis - len(shape) * dice.randint(0, 1)
    if kind == "blocks" and (opset < 21 or not shape[axis]) or opset < 13:
        kind = "tensor"
    parameters: tuple[int, ...] = {"tensor": (), "axis": (shape[axis],), "blocks": shape}[kind]
    if kind == "blocks":
        attributes["block_size"] = dice.randint(1, shape[axis])
        count = -(-shape[axis] // attributes["block_size"])
        parameters = tuple(count if i == axis else n for i, n in enumerate(shape))
    scale = dice.array(parameters, low=0.01, high=0.5)
    if op == "QuantizeLinear":
        x = dice.array(shape, special=0.05)
        x[np.isnan(x)] = 0  # no integer is NaN
        operands = [x, scale, maybe(dice, 0.8, dice.array(parameters, dtype, special=0.1))]
        if opset >= 21 and operands[2] is None and dice.chance(0.5):
            attributes["output_dtype"] = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return Case(trimmed(operands), attributes, opset, units=0)
    if four:
        bits = dice.choice([ml_dtypes.int4, ml_dtypes.uint4])
        low = 0 if bits == ml_dtypes.uint4 else -8
        x, zero = (dice.array(s, np.int8, low, low + 15).astype(bits) for s in (shape, parameters))
        return Case(trimmed([Constant(x), scale, maybe(dice, 0.8, Constant(zero))]), attributes, opset)
    if dice.chance(0.2):
        return Case([dice.array(shape, np.int32), scale], attributes, opset)
    return Case(
        trimmed([dice.array(shape, dtype), scale, maybe(dice, 0.8, dice.array(parameters, dtype))]), attributes, opset
    )


@sample("DynamicQuantizeLinear")
def dynamically_quantised(dice, op):
    return Case([dice.array(dice.shape(zero=0.01), special=0)], {}, 11, 3, units=1)


@sample("QLinearMatMul")
def quantised_matmul(dice, op):
    k, n, lead = dice.choice(SIZES), dice.choice(SIZES), dice.shape(0, 2, zero=0)
    lead = lead if math.prod(lead) < 50 else ()
    left, right = dice.choice([np.uint8, np.int8]), dice.choice([np.uint8, np.int8])
    if left == np.int8:
        right = np.int8
    batched = dice.chance(0.4) and bool(lead)
    per_column = not batched and dice.chance(0.4)
    columns = (n,) if per_column else ()
    a, b = dice.array((*lead, dice.choice(SIZES), k), left), dice.array((*lead, k, n) if batched else (k, n), right)
    scales = [dice.array(s, low=0.01, high=0.05) for s in ((), columns, ())]
    zeros = [dice.array(s, t, special=0) for s, t in (((), left), (columns, right), ((), left))]
    operands = [
        a,
        *map(Constant, (scales[0], zeros[0])),
        b,
        *map(Constant, (scales[1], zeros[1], scales[2] * 8, zeros[2])),
    ]
    return Case(operands, {}, dice.choice([10, 21]), units=1)


# Signals and others


@sample("DFT", "STFT")
def transform(dice, op):
    opset = dice.choice([17, 20])
    if op == "STFT":
        length = dice.choice([4, 5, 8, 16])
        window = maybe(dice, 0.6, dice.array(length, low=0, high=1))
        signal = dice.array((dice.choice([1, 2]), dice.choice([16, 21, 64]), 1), special=0)
        step, length = Constant(np.array(dice.choice([2, 3, 4]))), Constant(np.array(length))
        operands = [signal, step, window, length if window is None or dice.chance(0.5) else None]
        return Case(trimmed(operands), {"onesided": dice.randint(0, 1)}, 17, loose=3e-3)
    shape = [dice.choice([1, 2]), dice.choice([1, 4, 5, 8, 33]), dice.choice([1, 3, 6, 16]), dice.choice([1, 2])]
    inverse, axis = dice.randint(0, 1), dice.choice([1, 2])
    onesided = dice.randint(0, 1) if shape[-1] == 1 and not inverse else 0
    attributes = {"inverse": inverse, "onesided": onesided}
    operands = [dice.array(shape, special=0), maybe(dice, 0.3, Constant(np.array(dice.choice([3, 4, 8]))))]
    if opset == 20:
        operands.append(Constant(np.array(axis)))
    else:
        attributes["axis"] = axis
    return Case(trimmed(operands), attributes, opset, loose=3e-3)


@sample("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix")
def window(dice, op):
    if op[0] == "M":
        numbers = [dice.choice([4, 8]), dice.choice([16, 33]), dice.choice([8000, 16000])]
        return Case([Constant(np.array(v)) for v in (*numbers, np.float32(0), np.float32(4000))], {}, 17)
    attributes = {"periodic": dice.randint(0, 1), "output_datatype": dice.choice([1, 11])}
    return Case([known(dice, dice.choice(SIZES))], attributes, 17)


@sample("Det")
def determinant(dice, op):
    n = dice.randint(1, 6)
    return Case([dice.array((*dice.shape(0, 1, zero=0), n, n), special=0)], {}, dice.choice([11, 22]))


@sample("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def loss(dice, op):
    batch, classes, size = dice.choice([1, 3, 9]), dice.choice([2, 4, 17]), image(dice, dice.choice([1, 2]))
    size = size if dice.chance(0.6) else []
    operands = [dice.array((batch, classes, *size), special=0), dice.array((batch, *size), np.int64, 0, classes - 1)]
    operands.append(maybe(dice, 0.5, dice.array(classes, low=0.1, high=1)))
    attributes = {"reduction": dice.choice(["none", "mean", "sum"])}
    if dice.chance(0.4):
        attributes["ignore_index"] = dice.choice([0, 1, -1])
    return Case(trimmed(operands), attributes, dice.choice([12, 13]), dice.choice([1, 2]) if op[0] == "S" else 1)


# Attention


@sample("Attention")
def attention(dice, op):
    batch, q_len, kv_len = dice.choice([1, 2]), dice.choice([1, 3, 8, 17]), dice.choice([1, 4, 16, 33])
    kv_heads, size, v_size = dice.choice([1, 2, 3]), dice.choice([1, 4, 8, 33]), dice.choice([4, 8, 17])
    heads, past = kv_heads * dice.choice([1, 1, 2, 3]), dice.choice([0, 0, 2, 5])
    flat = dice.chance(0.4)
    attributes: dict[str, Any] = {}

    def draw(count, length, width):
        return dice.uniform_array(*((batch, length, count * width) if flat else (batch, count, length, width)))

    if flat:
        attributes = {"q_num_heads": heads, "kv_num_heads": kv_heads}
    options = {"scale": 0.3, "softcap": 2.0, "is_causal": 1, "softmax_precision": 1}
    attributes.update({k: v for k, v in options.items() if dice.chance(0.25)})
    operands = [draw(heads, q_len, size), draw(kv_heads, kv_len, size), draw(kv_heads, kv_len, v_size)]
    total = kv_len + past
    mask = None
    if dice.chance(0.5):
        shape = dice.choice(
            [(q_len, total), (1, 1, q_len, total), (batch, heads, q_len, total), (batch, 1, q_len, total)]
        )
        mask = dice.uniform_array(*shape)
        if dice.chance(0.5):
            mask = mask < 0.5
            mask[..., 0] = True
    operands.append(mask)
    if past:
        operands += [dice.uniform_array(batch, kv_heads, past, n) for n in (size, v_size)]
    outputs = 3 if past else dice.choice([1, 1, 4])
    if outputs == 4:
        attributes["qk_matmul_output_mode"] = dice.randint(0, 3)
    return Case(trimmed(operands), attributes, dice.choice([23, 24]), outputs)


@sample("RotaryEmbedding")
def rotary(dice, op):
    batch, length, heads, size = (
        dice.choice([1, 2]),
        dice.choice([1, 3, 17]),
        dice.choice([1, 2, 5]),
        dice.choice([4, 8, 32]),
    )
    rotated = dice.choice([0, 0, size // 2])
    half = (rotated or size) // 2
    attributes = {"interleaved": dice.randint(0, 1)}
    if rotated:
        attributes["rotary_embedding_dim"] = rotated
    flat, positions = dice.chance(0.5), dice.chance(0.6)
    if flat:
        attributes["num_heads"] = heads
    x = dice.uniform_array(*((batch, length, heads * size) if flat else (batch, heads, length, size)))
    tables = [dice.uniform_array(*((40, half) if positions else (batch, length, half))) for _ in range(2)]
    index = [dice.array((batch, length), np.int64, 0, 39)] if positions else []
    return Case([x, *tables, *index], attributes, 23)


@sample("TensorScatter")
def cache_update(dice, op):
    batch, heads, most, length, size = dice.choice([1, 2]), 2, 8, dice.choice([1, 2, 5]), dice.choice([1, 4, 17])
    cache, update = dice.uniform_array(batch, heads, most, size), dice.uniform_array(batch, heads, length, size)
    mode = dice.choice(["linear", "circular"])
    places = dice.array(batch, np.int64, 0, most - length if mode == "linear" else most - 1)
    return Case(trimmed([cache, update, maybe(dice, 0.8, places)]), {"mode": mode, "axis": dice.choice([2, -2])}, 24)


SIZED = {"ConstantOfShape", "Expand", "Range", "Reshape", "Tile"}  # the values of an operand are sizes


def fed(case, feed):
    """A Case with the inputs of a feed as its operands."""
    return replace(case, operands=[feed.get(f"i{i}", operand) for i, operand in enumerate(case.operands)])


def made_by(number, options):
    """The model with a number, for `run`."""
    dice = Dice(number)
    op = dice.choice(options.only or list(SAMPLES))
    case = replace(SAMPLES[op](dice, op), op=op.rpartition(".")[2])
    dynamic = dice.chance(0.6)
    model, inputs = model_of(case, dice, dynamic)
    feeds = [inputs]
    for _ in range(dice.choice([0, 2, 4]) if dynamic and case.op not in SIZED else 0):
        feeds.append(other_sizes(dice.choice(feeds), dice))
    half = any(np.asarray(a).dtype == np.float16 for a in case.arrays())
    keywords = {
        "relative": max(case.loose, 4e-3 if half else 0),
        "absolute": 4e-3 if half else case.loose / 10,
        "units": case.units,
        "threads": dice.choice([1, 1, 2]),
        "full": dice.chance(0.4),
        "valid": False,
    }
    reason = next(filter(None, (reason_for(fed(case, feed)) for feed in feeds)), "")
    return op, model.SerializeToString(), feeds, keywords, described(case), reason


def main():
    only = {"nargs": "*", "choices": list(SAMPLES), "metavar": "OPERATOR", "help": "try these operators"}
    return run(__doc__, made_by, [("--only", only)])


if __name__ == "__main__":
    sys.exit(main())
