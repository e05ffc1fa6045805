"""Booleans as bytes: comparisons, logic and selection, of any shapes, as operands, results and in between."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto  # noqa: E402
from onnx.helper import make_node as node  # noqa: E402
from small_onnx import model, one, run  # noqa: E402

import ggml  # noqa: E402
import ggml.onnx  # noqa: E402

RNG = np.random.default_rng(0)
SHAPES = [
    ((5,), (5,)),
    ((3, 5), (5,)),
    ((1, 5), (4, 1)),
    ((), (2, 3)),
    ((2, 1, 3, 1), (2, 4, 1, 5)),
    ((2, 1, 3, 1, 2), (4, 1, 5, 1)),
    ((2, 1, 3, 1, 2, 1), (2, 4, 1, 5, 1, 3)),
    ((300, 257), (300, 257)),
    ((0, 3), (1, 3)),
]
LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
COMPARISONS = {
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
}


def truth(*shape):
    return np.asarray(RNG.random(shape) < 0.5)


def numbers(*shape):
    """Floats of which many are equal."""
    return np.asarray(RNG.integers(-2, 3, shape), np.float32)


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("op", LOGIC)
def test_logic(op, shapes):
    for a, b in (shapes, shapes[::-1]):
        x, y = truth(*a), truth(*b)
        found = one(op, x, y)
        assert found.dtype == bool
        np.testing.assert_array_equal(found, LOGIC[op](x, y))
        np.testing.assert_array_equal(one(op, x, constants={"y": y}), LOGIC[op](x, y))


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op, shapes):
    for a, b in (shapes, shapes[::-1]):
        x, y = numbers(*a), numbers(*b)
        found = one(op, x, y)
        assert found.dtype == bool
        np.testing.assert_array_equal(found, COMPARISONS[op](x, y))
        np.testing.assert_array_equal(one(op, x, constants={"y": y}), COMPARISONS[op](x, y))


@pytest.mark.parametrize("shapes", SHAPES)
def test_selection(shapes):
    """Of what a bool says, and of what a comparison says, in each order of shapes."""
    for a, b in (shapes, shapes[::-1]):
        c, x, y = truth(*a), numbers(*a), numbers(*b)
        np.testing.assert_array_equal(one("Where", c, x, y), np.where(c, x, y))
        np.testing.assert_array_equal(one("Where", truth(*b) & False, x, y), np.broadcast_arrays(x, y)[1])
        nodes = [node("Greater", ["x", "y"], ["c"]), node("Where", ["c", "y", "n"], ["z"])]
        found = run(nodes, {"x": x, "y": y}, ["z", "c"], {"n": np.float32(np.nan)})
        np.testing.assert_array_equal(found[0], np.where(x > y, y, np.float32(np.nan)))
        np.testing.assert_array_equal(found[1], x > y)


def test_what_is_not_chosen_does_no_harm():
    c, x = truth(7, 5), numbers(7, 5)
    for bad in (np.nan, np.inf, -np.inf):
        y = np.full((7, 5), bad, np.float32)
        np.testing.assert_array_equal(one("Where", c, x, y), np.where(c, x, y))
        np.testing.assert_array_equal(one("Where", c, y, x), np.where(c, y, x))


NODES = [  # m and n: masks; c: a comparison; everything that can be made of them
    node("Less", ["x", "z"], ["c"]),
    node("And", ["c", "m"], ["a"]),
    node("Not", ["a"], ["na"]),
    node("Or", ["na", "n"], ["o"]),
    node("Xor", ["o", "m"], ["e"]),
    node("Unsqueeze", ["e", "first"], ["u"]),
    node("Transpose", ["e"], ["t"], perm=[1, 0]),
    node("Cast", ["o"], ["f"], to=TensorProto.FLOAT),
    node("Where", ["e", "x", "f"], ["w"]),
    node("Where", ["u", "x", "z"], ["v"]),
]
OUTPUTS = ["a", "na", "o", "e", "t", "f", "w", "v"]


def expected(x, z, m, n):
    a = (x < z) & m
    o = ~a | n
    e = o ^ m
    return [a, ~a, o, e, e.T, o.astype(np.float32), np.where(e, x, o), np.where(e[None], x, z)]


def test_masks_of_changing_length():
    """The second length is recorded, further ones repeat the record."""
    inputs = {"x": numbers(3, 4), "z": numbers(3, 4), "m": truth(3, 4), "n": truth(3, 4)}
    made = model(NODES, inputs, OUTPUTS, {"first": np.array([0])})
    for value in made.graph.input:
        for i, d in enumerate(value.type.tensor_type.shape.dim):
            d.dim_param = "rc"[i]
    own = ggml.onnx.load(made, strict=True)
    for rows, columns in ((3, 4), (5, 7), (6, 9), (12, 2), (3, 4), (400, 300)):
        values = [numbers(rows, columns), numbers(rows, columns), truth(rows, columns), truth(rows, columns)]
        for name, found, want in zip(OUTPUTS, own.run(*values), expected(*values)):
            assert found.dtype == want.dtype or name in ("f", "w"), name
            np.testing.assert_array_equal(found, want, name)
    assert own.program.recipes


def test_a_mask_is_the_callers():
    """Large masks are not copied, and those of a call are not those of the next one."""
    x, y = numbers(300, 512), numbers(300, 512)
    own = ggml.onnx.load(model([node("Less", ["x", "z"], ["y"])], {"x": x, "z": y}), threads=1)
    first = own.run(x, y)[0]
    second = own.run(y, x)[0]
    np.testing.assert_array_equal(first, x < y)
    np.testing.assert_array_equal(second, y < x)
    assert own.program.plan([x, y]).transfer.results[0].moves


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((7,), (3, 2)),
        ((4, 5), (2, 0, 0, 3)),
        ((2, 3, 4, 5), (1, 2, 1, 3, 0, 2, 3, 4)),
        ((2, 3, 4, 5), (0, 0, 2, 2, 0, 0, 1, 1)),
        ((2, 3, 4, 2, 3), (1, 0, 2, 0, 2, 0, 1, 3, 0, 1)),
        ((2, 2, 3, 1, 4, 2), (1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 2, 1)),
        ((3, 4), (5, 9, 4, 8)),  # several times the size
        ((4, 5), (0, 0, 0, 0)),
        ((4, 5), (-1, 2, 1, -2)),
    ],
)
def test_pad(mode, shape, pads):
    x, half = numbers(*shape), len(pads) // 2
    widths = [(max(p, 0), max(q, 0)) for p, q in zip(pads, pads[half:])]
    cut = x[tuple(slice(max(-p, 0), n - max(-q, 0)) for n, p, q in zip(shape, pads, pads[half:]))]
    found = one("Pad", x, constants={"pads": np.array(pads)}, mode=mode)
    np.testing.assert_array_equal(found, np.pad(cut, widths, mode))
