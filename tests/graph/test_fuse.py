"""Fusions: nodes that are computed together leave the same bits in memory as nodes that are computed one by one."""

import contextlib
import ctypes
import math
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
from cases.harness import ISAS, context, gradients_graph, graph_of, isa

import ggml
import ggml.ext
import ggml.utils
from ggml import _core
from ggml._graph import graph as graphs

F32 = ggml.GGML_TYPE_F32
TABLE = (Path(__file__).resolve().parents[2] / "ggml" / "_simd" / "tables" / "fusions.h").read_text(encoding="utf-8")
ROWS = re.findall(r"^FUSED_ROWS\((\w+),", TABLE, re.M)
TAILS = re.findall(r"^FUSED_TAIL\((\w+),", TABLE, re.M)

# What builds a node of each row from x and y, two tensors of one shape.
BUILDERS = {
    "ADD": ggml.ggml_add,
    "ADD1": lambda ctx, x, y: ggml.ggml_add1(ctx, x, first(ctx, y)),
    "SUB": ggml.ggml_sub,
    "MUL": ggml.ggml_mul,
    "DIV": ggml.ggml_div,
    "MAXIMUM": ggml.ext.maximum,
    "MINIMUM": ggml.ext.minimum,
    "PRELU": ggml.ext.prelu,
    "LESS": ggml.ext.less,
    "EQUAL": ggml.ext.equal,
    "SQR": lambda ctx, x, y: ggml.ggml_sqr(ctx, x),
    "SQRT": lambda ctx, x, y: ggml.ggml_sqrt(ctx, x),
    "LOG": lambda ctx, x, y: ggml.ggml_log(ctx, x),
    "SIN": lambda ctx, x, y: ggml.ggml_sin(ctx, x),
    "COS": lambda ctx, x, y: ggml.ggml_cos(ctx, x),
    "ERF": lambda ctx, x, y: ggml.ext.erf(ctx, x),
    "SCALE": lambda ctx, x, y: ggml.ggml_scale_bias(ctx, x, 0.3, -0.1),
    "CLAMP": lambda ctx, x, y: ggml.ggml_clamp(ctx, ggml.ggml_scale(ctx, x, 1.0), -0.5, 0.7),
    "LEAKY_RELU": lambda ctx, x, y: ggml.ggml_leaky_relu(ctx, x, 0.1, False),
    "CLAMP_BACK": lambda ctx, x, y: ggml.ggml_clamp_back(ctx, x, y, -0.5, 0.7),
    "UNARY": lambda ctx, x, y: ggml.ggml_gelu(ctx, x),
    "SILU_BACK": ggml.ggml_silu_back,
    "GELU_BACK": ggml.ggml_gelu_back,
    "GELU_QUICK_BACK": ggml.ggml_gelu_quick_back,
    "GELU_ERF_BACK": ggml.ggml_gelu_erf_back,
    "ELU_BACK": ggml.ggml_elu_back,
    "GLU": ggml.ggml_swiglu_split,
    "NORM": lambda ctx, x, y: ggml.ggml_norm(ctx, x, 1e-5),
    "RMS_NORM": lambda ctx, x, y: ggml.ggml_rms_norm(ctx, x, 1e-5),
    "L2_NORM": lambda ctx, x, y: ggml.ggml_l2_norm(ctx, x, 1e-5),
    "SOFT_MAX": lambda ctx, x, y: ggml.ggml_soft_max_ext(ctx, x, y, 0.7, 0.0),
    "DIAG_MASK_INF": lambda ctx, x, y: ggml.ggml_diag_mask_inf(ctx, x, 1),
    "DIAG_MASK_ZERO": lambda ctx, x, y: ggml.ggml_diag_mask_zero(ctx, x, 1),
}


def first(ctx, t):
    """The first element of t as a scalar of its own memory."""
    one = ggml.ggml_new_tensor_1d(ctx, F32, 1)
    ggml.utils.to_numpy(one)[:] = ggml.ggml_get_f32_1d(t, 0)
    return one


@contextlib.contextmanager
def fusing(on):
    _core.fuse(on)
    try:
        yield
    finally:
        _core.fuse(os.environ.get("GGML_FUSE") != "0")


def steps(graph, n_threads=1, on=True, kept=False):
    """How many steps the nodes of a graph are; kept: from the second compute on."""
    with fusing(on):
        return graphs.count_steps(graph, n_threads, kept)


def array(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def leaf(ctx, values):
    """A tensor of these values; in a context without data, one that `fill_leaves` fills."""
    if not ggml.ggml_get_no_alloc(ctx):
        return ggml.utils.from_numpy(np.ascontiguousarray(values), ctx)
    dtype = ggml.GGML_TYPE_F16 if values.dtype == np.float16 else F32
    t = ggml.ggml_new_tensor(ctx, dtype, values.ndim, values.shape[::-1])
    ggml.ggml_set_input(t)
    LATER.append((t, values))
    return t


LATER = []


def fill_leaves():
    while LATER:
        t, values = LATER.pop()
        ggml.utils.to_numpy(t)[:] = values


def laid_out(ctx, values, layout):
    """A tensor of these values: contiguous, with dimensions 1 and 2 exchanged in memory, or with gaps between rows."""
    if layout == "contiguous":
        return leaf(ctx, values)
    if layout == "permuted":
        return ggml.ggml_permute(ctx, leaf(ctx, values.swapaxes(-2, -3)), 0, 2, 1, 3)
    n3, n2, n1, n0 = values.shape
    t = leaf(ctx, np.concatenate([values, values], -1))
    return ggml.ggml_view_4d(ctx, t, n0, n1, n2, n3, *list(t.contents.nb)[1:4], 0)


def bits(t):
    """The elements of a tensor as integers, in its order."""
    n0, n1, n2, n3 = t.contents.ne[:4]
    nb = list(t.contents.nb)
    base = (ctypes.c_uint8 * ggml.ggml_nbytes(t)).from_address(t.contents.data)
    return np.lib.stride_tricks.as_strided(
        np.frombuffer(base, np.uint8)[:4].view(np.uint32), (n3, n2, n1, n0), (nb[3], nb[2], nb[1], nb[0])
    ).copy()


def nodes_of(graph):
    return [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]


def compute(graph, n_threads=1, on=True):
    with context(1 << 16) as ctx, fusing(on):
        assert ggml.ggml_graph_compute_with_ctx(ctx, graph, n_threads) == ggml.GGML_STATUS_SUCCESS


def same_on_all(build, want_steps=None, want_later=None):
    """Builds a graph anew for each ISA, number of threads and setting: all tensors have the same bits in the end.

    build: returns the tensors to compare; the last one is the result. want_steps, want_later: the number of steps of
    the first compute and, if it is given, of those that follow.
    """
    for name in ISAS:
        for n_threads in 1, 2:
            found = []
            for on in False, True:
                with isa(name), context() as ctx:
                    tensors = build(ctx)
                    graph = graph_of(ctx, tensors[-1])
                    if on and want_steps is not None:
                        assert steps(graph, n_threads) == want_steps, [ggml.ggml_op_desc(t) for t in nodes_of(graph)]
                    if on and want_later is not None:
                        assert steps(graph, n_threads, kept=True) == want_later
                    for _ in range(1 if want_later is None else 3):  # checked, prepared, compared
                        compute(graph, n_threads, on)
                    found.append([bits(t) for t in [*nodes_of(graph), *tensors]])
            for i, (single, fused) in enumerate(zip(*found, strict=True)):
                assert np.array_equal(single, fused), (name, n_threads, i)


# ---- each row --------------------------------------------------------------------------------------------------------
def test_every_row_is_tested():
    assert set(BUILDERS) == set(ROWS) and len(ROWS) == len(set(ROWS))
    assert {*CONVOLUTIONS, "MUL_MAT"} == set(TAILS)


@pytest.mark.parametrize("layout", ["contiguous", "permuted", "gaps"])
@pytest.mark.parametrize("name", BUILDERS)
def test_rows(name, layout):
    """Row NAME in the middle and at the start of a chain."""

    def build(ctx):
        x, y = (laid_out(ctx, array(i, 2, 3, 5, 37), layout) for i in range(2))
        begun = ggml.ggml_add(ctx, x, y)
        middle = BUILDERS[name](ctx, begun, y)
        after = ggml.ggml_mul(ctx, middle, x)
        return [x, y, begun, middle, after, ggml.ggml_sqr(ctx, BUILDERS[name](ctx, after, y))]

    same_on_all(build, 1)


@pytest.mark.parametrize("shape", [(1, 1, 1, 5000), (1, 1, 700, 33), (2, 3, 60, 1), (1, 1, 2, 1024), (1, 1, 3, 4096)])
@pytest.mark.parametrize("name", ["ADD", "UNARY", "RMS_NORM", "SOFT_MAX"])
def test_shapes(name, shape):
    def build(ctx):
        x, y = (leaf(ctx, array(i, *shape)) for i in range(2))
        return [ggml.ggml_mul(ctx, BUILDERS[name](ctx, ggml.ggml_add(ctx, x, y), y), x)]

    same_on_all(build)


# ---- patterns --------------------------------------------------------------------------------------------------------
ROOT = math.sqrt(2 / math.pi)


def gelu_of_scales(ctx, x):
    cube = ggml.ggml_mul(ctx, ggml.ggml_sqr(ctx, x), x)
    inner = ggml.ggml_scale(ctx, ggml.ggml_add(ctx, x, ggml.ggml_scale(ctx, cube, 0.044715)), ROOT)
    factor = ggml.ggml_scale_bias(ctx, ggml.ggml_tanh(ctx, inner), 1.0, 1.0)
    return ggml.ggml_scale(ctx, ggml.ggml_mul(ctx, factor, x), 0.5)


def gelu_of_constants(ctx, x):
    half, one, root, cubic = (leaf(ctx, np.float32([v])) for v in (0.5, 1, ROOT, 0.044715))
    cube = ggml.ggml_mul(ctx, ggml.ggml_mul(ctx, x, x), x)
    inner = ggml.ggml_mul(ctx, ggml.ggml_add(ctx, ggml.ggml_mul(ctx, cube, cubic), x), root)
    return ggml.ggml_mul(ctx, ggml.ggml_mul(ctx, ggml.ggml_add(ctx, ggml.ggml_tanh(ctx, inner), one), x), half)


def gate_and_up(ctx, x, function):
    gate, up = (leaf(ctx, array(10 + i, 96, 64)) for i in range(2))
    gated = function(ctx, ggml.ggml_mul_mat(ctx, gate, x))
    return ggml.ggml_mul(ctx, gated, ggml.ggml_mul_mat(ctx, up, x))


def softmax_of(ctx, x, mask):
    return ggml.ggml_soft_max(ctx, mask(ctx, ggml.ggml_scale(ctx, x, 0.125)))


def row(ctx, i=0, n=64):
    return leaf(ctx, array(20 + i, n))


def half_mask(ctx):
    """A mask of f16 [64, 9] with hidden places, finite values and a row that is all hidden."""
    mask = array(30, 9, 64)
    mask[mask > 1] = -np.inf
    mask[4] = -np.inf
    return leaf(ctx, mask.astype(np.float16))


def with_sinks(ctx, t):
    ggml.ggml_soft_max_add_sinks(t, leaf(ctx, np.float32([0.4])))
    return t


PATTERNS = {  # what is built from x [64, 9], and how many steps it is
    "RMS_NORM MUL": (lambda ctx, x: ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, x, 1e-5), row(ctx)), 1),
    "RMS_NORM MUL ADD": (
        lambda ctx, x: ggml.ggml_add(ctx, ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, x, 1e-5), row(ctx)), row(ctx, 1)),
        1,
    ),
    "ADD RMS_NORM MUL": (
        lambda ctx, x: ggml.ggml_mul(
            ctx, ggml.ggml_rms_norm(ctx, ggml.ggml_add(ctx, x, leaf(ctx, array(3, 9, 64))), 1e-5), row(ctx)
        ),
        1,
    ),
    "NORM MUL ADD": (
        lambda ctx, x: ggml.ggml_add(ctx, ggml.ggml_mul(ctx, ggml.ggml_norm(ctx, x, 1e-5), row(ctx)), row(ctx, 1)),
        1,
    ),
    "ADD ADD": (lambda ctx, x: ggml.ggml_add(ctx, ggml.ggml_add(ctx, x, row(ctx)), leaf(ctx, array(3, 9, 64))), 1),
    "MUL_MAT ADD UNARY": (
        lambda ctx, x: ggml.ggml_gelu(
            ctx, ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, leaf(ctx, array(4, 80, 64)), x), row(ctx, 2, 80))
        ),
        2,
    ),
    "SCALE ADD SOFT_MAX": (
        lambda ctx, x: softmax_of(ctx, x, lambda ctx, x: ggml.ggml_add(ctx, x, leaf(ctx, array(5, 9, 64)))),
        1,
    ),
    "SCALE DIAG_MASK_INF SOFT_MAX": (
        lambda ctx, x: softmax_of(ctx, x, lambda ctx, x: ggml.ggml_diag_mask_inf(ctx, x, 55)),
        1,
    ),
    "SCALE SOFT_MAX of a mask of f16": (
        lambda ctx, x: ggml.ggml_soft_max_ext(ctx, ggml.ggml_scale(ctx, x, 0.125), half_mask(ctx), 0.5, 0.0),
        1,
    ),
    "SCALE SOFT_MAX with sinks": (
        lambda ctx, x: with_sinks(ctx, ggml.ggml_soft_max_ext(ctx, ggml.ggml_scale(ctx, x, 0.125), None, 1.0, 0.0)),
        1,
    ),
    "ADD SOFT_MAX of a mask of f16 with sinks": (
        lambda ctx, x: with_sinks(
            ctx, ggml.ggml_soft_max_ext(ctx, ggml.ggml_add(ctx, x, row(ctx)), half_mask(ctx), 0.5, 0.0)
        ),
        1,
    ),
    "SILU MUL": (lambda ctx, x: gate_and_up(ctx, x, ggml.ggml_silu), 3),
    "GELU MUL": (lambda ctx, x: gate_and_up(ctx, x, ggml.ggml_gelu), 3),
    "GELU in pieces": (gelu_of_scales, 1),
    "GELU in pieces, of constants": (gelu_of_constants, 1),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name):
    build, count = PATTERNS[name]

    def all_of(ctx):
        x = leaf(ctx, array(0, 9, 64))
        return [x, build(ctx, x)]

    same_on_all(all_of, count)


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_in_memory_that_is_reused(name, cpu):
    """The graph allocator lets results overwrite operands."""
    build, count = PATTERNS[name]
    for n_threads in 1, 2:
        found = []
        for on in False, True:
            with context(no_alloc=True) as ctx:
                result = build(ctx, leaf(ctx, array(0, 9, 64)))
                ggml.ggml_set_output(result)
                graph = graph_of(ctx, result)
                galloc = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(cpu))
                assert ggml.ggml_gallocr_alloc_graph(galloc, graph)
                fill_leaves()
                places = {t.contents.data for t in nodes_of(graph)}
                assert len(places) < max(2, len(nodes_of(graph)))
                assert not on or steps(graph, n_threads) == count
                compute(graph, n_threads, on)
                found.append(bits(result))
                ggml.ggml_gallocr_free(galloc)
        assert np.array_equal(*found)


@pytest.mark.parametrize("marked", range(4))
def test_outputs_in_memory_that_is_reused(marked, cpu):
    """A node in the middle of a chain is an output, and another one has a second reader."""
    found = []
    for on in False, True:
        with context(no_alloc=True) as ctx:
            x, w = leaf(ctx, array(0, 9, 64)), leaf(ctx, array(1, 64))
            nodes = [ggml.ggml_add(ctx, x, w)]
            nodes.append(ggml.ggml_rms_norm(ctx, nodes[-1], 1e-5))
            nodes.append(ggml.ggml_mul(ctx, nodes[-1], w))
            nodes.append(ggml.ggml_silu(ctx, nodes[-1]))
            late = ggml.ggml_sub(ctx, ggml.ggml_sum_rows(ctx, nodes[3 - marked]), ggml.ggml_sum_rows(ctx, nodes[3]))
            for t in nodes[marked], nodes[3], late:
                ggml.ggml_set_output(t)
            graph = graph_of(ctx, nodes[3])
            ggml.ggml_build_forward_expand(graph, late)
            galloc = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(cpu))
            assert ggml.ggml_gallocr_alloc_graph(galloc, graph)
            fill_leaves()
            assert not on or steps(graph) < ggml.ggml_graph_n_nodes(graph) - 1
            compute(graph, 2, on)
            found.append([bits(t) for t in (nodes[marked], nodes[3], late)])
            ggml.ggml_gallocr_free(galloc)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


# ---- convolutions ----------------------------------------------------------------------------------------------------
CONVOLUTIONS = {
    "CONV_2D": lambda ctx, w, x, s, p: ggml.ggml_conv_2d_direct(ctx, w, x, s, s, p, p, 1, 1),
    "CONV_2D_DW": lambda ctx, w, x, s, p: ggml.ggml_conv_2d_dw_direct(ctx, w, x, s, s, p, p, 1, 1),
}
ACTIVATIONS = {
    "none": None,
    "RELU": ggml.ggml_relu_inplace,
    "SILU": ggml.ggml_silu_inplace,
    "SIGMOID": ggml.ggml_sigmoid_inplace,
    "HARDSWISH": lambda ctx, x: in_place(ctx, ggml.ggml_hardswish, x),
    "GELU_ERF": ggml.ggml_gelu_erf_inplace,
    "GELU": ggml.ggml_gelu_inplace,
}


def in_place(ctx, function, x):
    """A node of `function` that overwrites its operand."""
    t = function(ctx, x)
    t.contents.data = x.contents.data
    return t


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    "kernel, stride, channels, dtype",
    [
        (3, 1, 16, "f4"),
        (3, 2, 8, "f4"),
        (1, 1, 32, "f4"),
        (5, 1, 3, "f4"),
        (3, 1, 33, "f4"),
        (3, 1, 16, "f2"),
    ],
)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_tails(name, kernel, stride, channels, dtype, activation):
    """A bias and an activation that overwrite the sums. The kernels have no GELU, which stays a step of its own."""

    def build(ctx):
        x = leaf(ctx, array(0, 2, channels, 19, 21))
        w = leaf(ctx, array(1, channels, 1 if name == "CONV_2D_DW" else channels, kernel, kernel).astype(dtype))
        sums = CONVOLUTIONS[name](ctx, w, x, stride, kernel // 2)
        y = ggml.ggml_add_inplace(ctx, sums, leaf(ctx, array(2, 1, channels, 1, 1)))
        if ACTIVATIONS[activation]:
            y = ACTIVATIONS[activation](ctx, y)
        return [x, y]

    same_on_all(build, 2 if activation == "GELU" else 1)


@pytest.mark.parametrize("name, kernel", [("CONV_2D", 1), ("CONV_2D", 3), ("CONV_2D_DW", 3)])
def test_tails_in_another_shape(name, kernel):
    """A function, or a sum, of what a convolution has computed, viewed in another shape."""

    def function(ctx):
        x = leaf(ctx, array(0, 16, 16, 1, 21))
        rows = ggml.ggml_reshape_3d(ctx, with_bias(ctx, x, kernel, name), 21, 16, 16)
        return [x, in_place(ctx, ggml.ggml_hardswish, rows)]

    def sum_and_function(ctx):
        x = leaf(ctx, array(0, 16, 16, 1, 21))
        rows = ggml.ggml_reshape_3d(ctx, with_bias(ctx, x, kernel, name), 21, 16, 16)
        return [x, ggml.ggml_relu_inplace(ctx, sum_in(ctx, rows, leaf(ctx, array(5, 16, 16, 21)), rows))]

    same_on_all(function, 1)
    same_on_all(sum_and_function, 1 if name == "CONV_2D" else 2)


@pytest.mark.parametrize("count, shape", [(1, (3, 16, 1, 21)), (2, (1, 3, 16, 21))])
def test_sums_with_groups_of_channels(count, shape):
    """What is added to groups is divided among them, so it has the shape of the convolution."""

    def build(ctx):
        x = leaf(ctx, array(0, 3, 16, 1, 21))
        w, bias = leaf(ctx, array(1, 16, 8, 1, 3)), leaf(ctx, array(2, 16))
        y = ggml.ext.conv_2d(ctx, w, x, 1, 1, 1, 0, 1, 1, bias, None, 0, 4, 2)
        rows = ggml.ggml_reshape_4d(ctx, y, *shape[::-1])
        return [x, sum_in(ctx, rows, rows, leaf(ctx, array(5, *shape)))]

    same_on_all(build, count)


def test_numbers_of_another_shape_are_no_bias():
    """A number for each image of the view, as many as there are channels."""

    def build(ctx):
        x = leaf(ctx, array(0, 16, 16, 1, 21))
        y = CONVOLUTIONS["CONV_2D"](ctx, leaf(ctx, array(1, 16, 16, 1, 1)), x, 1, 0)
        rows = ggml.ggml_reshape_3d(ctx, y, 21, 16, 16)
        return [x, sum_in(ctx, y, rows, leaf(ctx, array(5, 1, 16, 1, 1)))]

    same_on_all(build, 2)


def test_the_bias_of_a_product_in_another_shape():
    """Of columns that are viewed as several batches."""

    def build(ctx):
        x = leaf(ctx, array(0, 12, 32))
        y = ggml.ggml_mul_mat(ctx, leaf(ctx, array(1, 48, 32)), x)
        batches = ggml.ggml_reshape_3d(ctx, y, 48, 4, 3)
        return [x, sum_in(ctx, y, batches, leaf(ctx, array(2, 48)))]

    same_on_all(build, 1)


@pytest.mark.parametrize("slopes, count", [((1, 16, 1, 1), 1), ((1, 1, 1, 1), 2), ((1, 16, 19, 21), 2)])
@pytest.mark.parametrize("name, kernel", [("CONV_2D", 1), ("CONV_2D", 3), ("CONV_2D", 5), ("CONV_2D_DW", 3)])
def test_slopes_behind_convolutions(name, kernel, slopes, count):
    """Slopes of the channels, behind CONV_2D alone: lanes of the other's vectors may be channels."""

    def build(ctx):
        x = leaf(ctx, array(0, 2, 16, 19, 21))
        y = with_bias(ctx, x, kernel, name)
        t = ggml.ext.prelu(ctx, y, leaf(ctx, array(7, *slopes)))
        t.contents.data = y.contents.data
        return [x, t]

    same_on_all(build, count if name == "CONV_2D" else 2)


def test_slopes_as_the_first_operand():
    """A convolution that gives the slopes takes no PRELU."""

    def build(ctx):
        x = leaf(ctx, array(0, 2, 16, 19, 21))
        y = with_bias(ctx, x, 3)
        t = ggml.ext.prelu(ctx, leaf(ctx, array(7, *extents(y))), y)
        t.contents.data = y.contents.data
        return [x, t]

    same_on_all(build, 2)


def test_tails_of_results_that_can_be_read():
    """Sums and a bias that do not overwrite each other are all written."""

    def build(ctx):
        sums = CONVOLUTIONS["CONV_2D"](ctx, leaf(ctx, array(1, 4, 3, 3, 3)), leaf(ctx, array(0, 1, 3, 9, 9)), 1, 1)
        with_bias = ggml.ggml_add(ctx, sums, leaf(ctx, array(2, 1, 4, 1, 1)))
        return [ggml.ggml_relu_inplace(ctx, with_bias)]

    same_on_all(build, 2)


# What is added to a convolution with a bias: of CONV_2D, in which order, how many steps the nodes are, and from
# (ctx, conv, x) what is added
ADDED = {
    "another tensor": (lambda ctx, y, x: leaf(ctx, array(5, *extents(y))), 1),
    "its input": (lambda ctx, y, x: x, 1),
    "one channel for all": (lambda ctx, y, x: leaf(ctx, array(5, 2, 1, 19, 21)), 2),
    "one image for all": (lambda ctx, y, x: leaf(ctx, array(5, 1, *extents(y)[1:])), 2),
    "a second bias": (lambda ctx, y, x: leaf(ctx, array(5, 1, extents(y)[1], 1, 1)), 2),
    "not contiguous": (lambda ctx, y, x: laid_out(ctx, array(5, *extents(y)), "permuted"), 2),
    "itself": (lambda ctx, y, x: y, 2),
}


def extents(t):
    """The shape of a tensor, in the order of NumPy."""
    return tuple(t.contents.ne[:4][::-1])


def sum_in(ctx, to, x, y):
    """x + y where `to` is."""
    t = ggml.ggml_add(ctx, x, y)
    t.contents.data = to.contents.data
    return t


def with_bias(ctx, x, kernel, name="CONV_2D", stride=1, channels=16):
    """A convolution of x with a bias, which has the shape of x if the stride is 1."""
    n = extents(x)[1]
    w = leaf(ctx, array(1, channels, 1 if name == "CONV_2D_DW" else n, kernel, kernel))
    sums = CONVOLUTIONS[name](ctx, w, x, stride, kernel // 2)
    return ggml.ggml_add_inplace(ctx, sums, leaf(ctx, array(2, 1, channels, 1, 1)))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("activation", ["none", "RELU", "SILU", "HARDSWISH", "GELU_ERF"])
@pytest.mark.parametrize("kernel, stride, shape", [
    (3, 1, (2, 16, 19, 21)), (3, 2, (1, 16, 30, 31)), (1, 1, (2, 24, 19, 21)), (1, 1, (1, 128, 7, 7)),
    (1, 1, (1, 40, 28, 28)), (5, 1, (1, 3, 19, 21)), (7, 2, (2, 3, 33, 35)), (1, 1, (3, 5, 1, 9)),
])  # fmt: skip
def test_sums_with_convolutions(kernel, stride, shape, activation, swapped):
    """A tensor that is added to a convolution with a bias, before an activation, for each way to compute it."""

    def build(ctx):
        x = leaf(ctx, array(0, *shape))
        y = with_bias(ctx, x, kernel, stride=stride, channels=130 if shape[1] == 128 else 16)
        other = leaf(ctx, array(5, *extents(y)))
        y = sum_in(ctx, y, *((other, y) if swapped else (y, other)))
        if ACTIVATIONS[activation]:
            y = ACTIVATIONS[activation](ctx, y)
        return [x, other, y]

    same_on_all(build, 1)


@pytest.mark.parametrize("name", ADDED)
def test_what_can_be_added_to_convolutions(name):
    added, count = ADDED[name]

    def build(ctx):
        x = leaf(ctx, array(0, 2, 16, 19, 21))
        y = with_bias(ctx, x, 3)
        return [x, sum_in(ctx, y, y, added(ctx, y, x))]

    same_on_all(build, count)


@pytest.mark.parametrize("dilation", [1, 2])
def test_sums_with_dilated_convolutions(dilation):
    """Rows that alternate, which Winograd's algorithm computes apart."""

    def build(ctx):
        x, w = leaf(ctx, array(0, 1, 32, 40, 64)), leaf(ctx, array(1, 32, 32, 3, 3))
        sums = ggml.ggml_conv_2d_direct(ctx, w, x, 1, 1, 1, dilation, 1, dilation)
        y = ggml.ggml_add_inplace(ctx, sums, leaf(ctx, array(2, 1, 32, 1, 1)))
        return [x, ggml.ggml_relu_inplace(ctx, sum_in(ctx, y, y, leaf(ctx, array(5, *extents(y)))))]

    same_on_all(build, 1)


def test_sums_with_a_convolution_whose_squares_are_not_finite():
    """Products of panels compute what Winograd's algorithm cannot, and add the same."""

    def build(ctx):
        values = array(0, 1, 64, 28, 28)
        values[0, 3, 4, 5] = np.inf
        x = leaf(ctx, values)
        y = with_bias(ctx, x, 3, channels=64)
        return [x, ggml.ggml_relu_inplace(ctx, sum_in(ctx, y, y, leaf(ctx, array(5, *extents(y)))))]

    same_on_all(build, 1)


@pytest.mark.parametrize("kind", ["no bias", "depthwise", "an activation before", "a second reader", "in the other"])
def test_sums_that_stay_steps(kind):
    """A convolution without a bias or of single channels, what is added after an activation, and results that are
    read elsewhere or do not overwrite the convolution."""

    def build(ctx):
        x = leaf(ctx, array(0, 2, 16, 19, 21))
        other = leaf(ctx, array(5, 2, 16, 19, 21))
        name = "CONV_2D_DW" if kind == "depthwise" else "CONV_2D"
        y = with_bias(ctx, x, 3, name)
        if kind == "no bias":
            y = CONVOLUTIONS[name](ctx, leaf(ctx, array(1, 16, 16, 3, 3)), x, 1, 1)
        if kind == "an activation before":
            y = ggml.ggml_relu_inplace(ctx, y)
        if kind == "a second reader":
            return [x, y, ggml.ggml_add(ctx, y, other)]
        return [x, y, sum_in(ctx, other if kind == "in the other" else y, y, other)]

    same_on_all(build, 2)


def test_two_sums_with_a_convolution():
    """The first is computed with it."""

    def build(ctx):
        x = leaf(ctx, array(0, 2, 16, 19, 21))
        y = with_bias(ctx, x, 3)
        for i in 5, 6:
            y = sum_in(ctx, y, y, leaf(ctx, array(i, *extents(y))))
        return [x, y]

    same_on_all(build, 2)


def test_gradients_of_sums_with_convolutions():
    """The backward pass reads what the sum and the activation overwrite nowhere."""
    found = []
    for on in False, True:
        with context() as ctx:
            x, w = leaf(ctx, array(0, 1, 8, 12, 12)), leaf(ctx, array(1, 8, 8, 3, 3))
            for t in x, w:
                ggml.ggml_set_param(t)
            y = ggml.ggml_add(ctx, CONVOLUTIONS["CONV_2D"](ctx, w, x, 1, 1), leaf(ctx, array(2, 1, 8, 1, 1)))
            graph = gradients_graph(ctx, ggml.ggml_relu(ctx, ggml.ggml_add(ctx, y, x)))
            ggml.ggml_graph_reset(graph)
            compute(graph, 2, on)
            found.append([bits(t) for t in [*nodes_of(graph), *(ggml.ggml_graph_get_grad(graph, t) for t in (x, w))]])
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True)) and found[0][-1].any()


@pytest.mark.parametrize("first_operand", ["convolution", "input"])
def test_the_allocator_lets_sums_overwrite_what_was_computed_last(first_operand, cpu):
    """So what a convolution is added to in either order is added by its kernel."""
    found = []
    for on in False, True:
        with context(no_alloc=True) as ctx:
            x = ggml.ggml_scale(ctx, leaf(ctx, array(0, 1, 16, 19, 21)), 0.5)
            w, bias = leaf(ctx, array(1, 16, 16, 3, 3)), leaf(ctx, array(2, 1, 16, 1, 1))
            y = ggml.ggml_add(ctx, CONVOLUTIONS["CONV_2D"](ctx, w, x, 1, 1), bias)
            y = ggml.ggml_relu(ctx, ggml.ggml_add(ctx, *((y, x) if first_operand == "convolution" else (x, y))))
            ggml.ggml_set_output(y)
            graph = graph_of(ctx, y)
            galloc = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(cpu))
            assert ggml.ggml_gallocr_alloc_graph(galloc, graph)
            fill_leaves()
            assert not on or steps(graph) == 2
            compute(graph, 2, on)
            found.append(bits(y))
            ggml.ggml_gallocr_free(galloc)
    assert np.array_equal(*found) and found[0].any()


def test_a_convolution_has_two_operands_and_a_bias(ctx):
    x = leaf(ctx, array(0, 1, 4, 5, 5))
    t = CONVOLUTIONS["CONV_2D"](ctx, leaf(ctx, array(1, 4, 4, 3, 3)), x, 1, 1)
    t.contents.src[3] = x
    with pytest.raises(ValueError, match=r"src\[3\] is set: need two operands and a bias"):
        ggml.ggml_graph_compute_with_ctx(ctx, graph_of(ctx, t), 1)


# ---- products --------------------------------------------------------------------------------------------------------
def weights(ctx, m, k, dtype):
    """A matrix [k, m] of a type."""
    w = ggml.ggml_new_tensor_2d(ctx, dtype, k, m)
    values = array(1, m, k)
    need = ggml.ggml_row_size(dtype, k) * m
    if dtype == F32:
        ggml.utils.to_numpy(w)[:] = values
    else:
        assert ggml.ggml_quantize_chunk(dtype, values.ctypes.data, w.contents.data, 0, m, k, None) == need
    return w


@pytest.mark.parametrize("dtype", ["F32", "F16", "Q8_0", "Q4_K"])
@pytest.mark.parametrize("m, n", [(70, 1), (70, 2), (70, 9), (33, 60), (200, 50), (3, 300), (1, 1), (5, 0)])
def test_bias_of_products(m, n, dtype):
    """A bias that overwrites the product, for each way in which products are computed."""

    def build(ctx):
        w = weights(ctx, m, 256, getattr(ggml, "GGML_TYPE_" + dtype))
        product = ggml.ggml_mul_mat(ctx, w, leaf(ctx, array(0, n, 256)))
        y = ggml.ggml_add_inplace(ctx, product, leaf(ctx, array(2, m)))
        return [y, ggml.ggml_gelu(ctx, y)]

    same_on_all(build, 2 if n else None)


@pytest.mark.parametrize("layout", ["contiguous", "permuted", "gaps"])
def test_bias_of_batches(layout):
    """Products of a batch with a matrix that is broadcast, with a transposed one, and of operands with gaps."""

    def build(ctx):
        x = laid_out(ctx, array(0, 2, 6, 5, 48), layout)
        w = laid_out(ctx, array(1, 1, 3, 40, 48), layout)
        product = ggml.ggml_mul_mat(ctx, w, x)
        return [x, ggml.ggml_add_inplace(ctx, product, leaf(ctx, array(2, 40)))]

    same_on_all(build, 1)


@pytest.mark.parametrize(
    "shape, where", [((9, 1), "row"), ((1, 1), "one element"), ((9, 40), "matrix"), ((40,), "another tensor")]
)
def test_what_is_no_bias_of_a_product(shape, where):
    """Operands of another shape, and sums that do not overwrite the product, stay steps of their own."""

    def build(ctx):
        product = ggml.ggml_mul_mat(ctx, leaf(ctx, array(1, 40, 64)), leaf(ctx, array(0, 9, 64)))
        add = ggml.ggml_add if where == "another tensor" else ggml.ggml_add_inplace
        return [product, add(ctx, product, leaf(ctx, array(2, *shape)))]

    same_on_all(build, 2)


def test_a_product_has_two_operands(ctx):
    x = leaf(ctx, array(0, 4, 4))
    t = ggml.ggml_mul_mat(ctx, x, x)
    t.contents.src[2] = x
    with pytest.raises(ValueError, match=r"src\[2\] is set: need two operands"):
        ggml.ggml_graph_compute_with_ctx(ctx, graph_of(ctx, t), 1)


# ---- what is not worth it --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n, count", [(1, 5), (255, 5), (256, 1)])
def test_tiny_nodes_stay_single_at_first(n, count):
    """On one thread, a chain of tiny nodes takes longer to make than it saves in one compute."""

    def build(ctx):
        nodes = [leaf(ctx, array(0, n))]
        for _ in range(5):
            nodes.append(ggml.ggml_scale(ctx, nodes[-1], 0.5))
        return nodes

    same_on_all(build, count, 1)


@pytest.mark.parametrize("name", BUILDERS)
def test_tiny_nodes(name):
    """Chains of one row, of whose operands one may be a single element."""

    def build(ctx):
        x, y = (leaf(ctx, array(i, 1, 19)) for i in range(2))
        begun = ggml.ggml_add(ctx, x, y)
        middle = BUILDERS[name](ctx, begun, y)
        return [begun, middle, ggml.ggml_sub(ctx, ggml.ggml_mul(ctx, middle, first(ctx, x)), x)]

    same_on_all(build, want_later=1)


@pytest.mark.parametrize("rows, n, flat", [(64, 63, False), (63, 63, False), (64, 64, False), (90, 3, True)])
def test_many_short_rows(rows, n, flat):
    """A chain computes many short rows together."""

    def build(ctx):
        nodes = [leaf(ctx, array(0, rows, n))]
        other = leaf(ctx, array(1, *((rows, n) if flat else (n,))))
        for _ in range(5):
            nodes.append(ggml.ggml_add(ctx, nodes[-1], other))
        return nodes

    same_on_all(build, 1)


@pytest.mark.parametrize("norm", ["NORM", "RMS_NORM", "L2_NORM"])
@pytest.mark.parametrize("shape", [(1, 1, 700, 1), (1, 1, 333, 7), (2, 5, 23, 30), (1, 3, 80, 64), (1, 1, 5, 500)])
def test_short_rows_of_operands_that_are_repeated(norm, shape):
    """One row for all, one element for each row, and a single element; norms of rows that are no usual ones."""

    def build(ctx):
        values = array(0, *shape)
        rows = values.reshape(-1, shape[-1])
        rows[0], rows[1], rows[2, 0], rows[3, -1], rows[4] = 0, 2, np.nan, -np.inf, 1e30
        x, each = leaf(ctx, values), leaf(ctx, array(1, *shape[:-1], 1))
        w, b, one = leaf(ctx, array(2, shape[-1])), leaf(ctx, array(3, shape[-1])), leaf(ctx, array(4, 1))
        nodes = [ggml.ggml_add(ctx, x, each)]
        nodes.append(BUILDERS[norm](ctx, nodes[-1], None))
        nodes.append(ggml.ggml_add(ctx, ggml.ggml_mul(ctx, nodes[-1], w), b))
        nodes.append(ggml.ggml_mul(ctx, nodes[-1], one))
        nodes.append(ggml.ggml_add(ctx, nodes[-1], x))
        return nodes

    same_on_all(build, 1)


def test_short_rows_of_many_operands_that_are_repeated():
    """A chain has room for six of them."""

    def build(ctx):
        nodes = [leaf(ctx, array(0, 100, 20))]
        for i in range(8):
            nodes.append(ggml.ggml_add(ctx, nodes[-1], leaf(ctx, array(i, 20))))
        return nodes

    same_on_all(build, 2)


@pytest.mark.parametrize("layout", ["permuted", "gaps"])
def test_many_short_rows_that_lie_apart_stay_single(layout):
    """To go through a chain row by row would take longer."""

    def build(ctx):
        x = laid_out(ctx, array(0, 1, 3, 40, 20), layout)
        return [x, ggml.ggml_add(ctx, ggml.ggml_add(ctx, x, row(ctx, n=20)), x)]

    same_on_all(build, 2)


# ---- random graphs ---------------------------------------------------------------------------------------------------
def random_graph(ctx, graph, seed):
    """Nodes of random operations on random earlier tensors, some in place, some on views."""
    rng = random.Random(seed)
    shape = rng.choice([(1, 1, 9, 32), (1, 3, 5, 40), (2, 2, 5, 17), (1, 1, 1, 2100)])
    one_row = (1, 1, 1, shape[-1])
    full = [leaf(ctx, array(seed + i, *shape)) for i in range(3)]
    rows = [leaf(ctx, array(seed + 10, *one_row)), leaf(ctx, array(seed + 11, 1))]
    square = [leaf(ctx, array(seed + 12, shape[-1], shape[-1])) if shape[-1] < 100 else None]
    for _ in range(rng.randint(3, 14)):
        x = rng.choice(full[-4:])
        kind = rng.randrange(10)
        if kind == 0 and square[0] is not None:
            t = ggml.ggml_mul_mat(ctx, square[0], x)
        elif kind == 1:
            t = rng.choice([ggml.ggml_add, ggml.ggml_mul, ggml.ggml_sub])(ctx, x, rng.choice(rows))
        elif kind == 2:
            t = rng.choice([ggml.ggml_scale_inplace])(ctx, x, 0.9)
        elif kind == 3:
            t = rng.choice([ggml.ggml_add_inplace, ggml.ggml_mul_inplace])(ctx, x, rng.choice(rows + full))
        elif kind == 4:
            t = ggml.ggml_cont(ctx, ggml.ggml_reshape(ctx, x, rng.choice(full)))
        elif kind == 5:  # a result that lies one row further than an operand
            t = ggml.ggml_sqr(ctx, x)
            if shape[2] > 1 and shape[:2] == (1, 1):
                part = ggml.ggml_view_2d(ctx, t, shape[3], shape[2] - 1, t.contents.nb[1], t.contents.nb[1])
                head = ggml.ggml_view_2d(ctx, t, shape[3], shape[2] - 1, t.contents.nb[1], 0)
                ggml.ggml_build_forward_expand(graph, ggml.ggml_add_inplace(ctx, part, ggml.ggml_sqr(ctx, head)))
        else:
            t = BUILDERS[rng.choice(list(BUILDERS))](ctx, x, rng.choice(full))
        full.append(t)
        ggml.ggml_build_forward_expand(graph, t)
    return [*full, *rows]


@pytest.mark.parametrize("seed", range(0, 6000, 100))
def test_random_graphs(seed):
    """All values of a random graph, and how often something is fused."""
    found, counts = [], []
    n_threads = 1 + seed // 100 % 2
    for on in False, True:
        with context() as ctx:
            graph = ggml.ggml_new_graph(ctx)
            tensors = random_graph(ctx, graph, seed)
            counts.append(steps(graph, n_threads, on))
            for _ in range(3):  # checked, prepared, compared with what was prepared
                compute(graph, n_threads, on)
                found.append([bits(t) for t in [*nodes_of(graph), *tensors]])
    for single, fused in zip(found[:3], found[3:], strict=True):
        for i, (a, b) in enumerate(zip(single, fused, strict=True)):
            assert np.array_equal(a, b), i
    SAVED[seed] = counts[0] - counts[1]


SAVED = {}


def test_random_graphs_are_fused():
    if len(SAVED) < 60:
        pytest.skip("needs all random graphs")
    assert sum(n > 0 for n in SAVED.values()) > 40


# ---- hazards ---------------------------------------------------------------------------------------------------------
def test_a_step_in_between_reads_the_operand(ctx):
    """y = x + 1 in place, z = sum of x, y * y: the sum must not see x, nor y be computed after it."""
    x = leaf(ctx, array(0, 320))
    before = ggml.utils.to_numpy(x).copy()
    y = ggml.ggml_scale_bias_inplace(ctx, x, 1.0, 1.0)
    graph = graph_of(ctx, y)
    total = ggml.ggml_sum(ctx, x)
    ggml.ggml_build_forward_expand(graph, total)
    product = ggml.ggml_mul(ctx, y, y)
    ggml.ggml_build_forward_expand(graph, product)
    assert steps(graph) == 3
    compute(graph)
    assert ggml.ggml_get_f32_1d(total, 0) == pytest.approx((before + 1).sum(), rel=1e-5)
    assert np.array_equal(ggml.utils.to_numpy(product), (before + 1) ** 2)


def test_a_step_in_between_overwrites_the_operand(ctx):
    x = leaf(ctx, array(0, 320))
    before = ggml.utils.to_numpy(x).copy()
    y = ggml.ggml_scale(ctx, x, 2.0)
    graph = graph_of(ctx, y)
    ggml.ggml_build_forward_expand(graph, ggml.ggml_cpy(ctx, leaf(ctx, np.zeros(320, np.float32)), x))
    z = ggml.ggml_sqr(ctx, y)
    ggml.ggml_build_forward_expand(graph, z)
    assert steps(graph) == 3
    compute(graph)
    assert np.array_equal(ggml.utils.to_numpy(z), (2 * before) ** 2) and not ggml.utils.to_numpy(x).any()


def test_a_repeated_operand_that_is_overwritten(ctx):
    """The row that is added to all rows is the first of them."""
    x, row_ = leaf(ctx, array(0, 4, 80)), leaf(ctx, array(1, 80))
    doubled = ggml.ggml_scale(ctx, x, 2.0)
    row_.contents.data = doubled.contents.data
    result = ggml.ggml_add(ctx, doubled, row_)
    graph = graph_of(ctx, result)
    assert steps(graph) == 2
    compute(graph)
    want = 2 * ggml.utils.to_numpy(x)
    assert np.array_equal(ggml.utils.to_numpy(result), want + want[:1])


def test_rows_that_share_memory(ctx):
    """Rows of a result that lie upon each other: the last row is what a second node reads for all of them."""
    x = leaf(ctx, array(0, 4, 80))
    doubled = ggml.ggml_scale(ctx, x, 2.0)
    for d in 1, 2, 3:
        doubled.contents.nb[d] = 0
    result = ggml.ggml_sqr(ctx, doubled)
    graph = graph_of(ctx, result)
    assert steps(graph) == 2
    compute(graph)
    assert np.array_equal(ggml.utils.to_numpy(result), np.tile((2 * ggml.utils.to_numpy(x)[3]) ** 2, (4, 1)))


def chain(ctx, n=3):
    """(leaf, nodes) of a chain."""
    x = leaf(ctx, array(0, 3, 100))
    nodes = [x]
    for _ in range(n):
        nodes.append(ggml.ggml_scale(ctx, nodes[-1], 2.0))
    return x, nodes[1:]


@pytest.mark.parametrize("computes", range(1, 5))
def test_nodes_that_change_between_computes(ctx, computes):
    """Parameters, an operation, a source, and the places of data, after any number of computes."""
    x, (a, b, c) = chain(ctx)
    graph = graph_of(ctx, c)

    def check(want):
        for _ in range(computes):
            compute(graph)
        assert np.array_equal(ggml.utils.to_numpy(c), want)

    values = ggml.utils.to_numpy(x).copy()
    check(8 * values)
    ctypes.memmove(b.contents.op_params, ctypes.byref(ctypes.c_float(3)), 4)
    check(12 * values)
    b.contents.op = ggml.GGML_OP_SQR
    check(2 * (2 * values) ** 2)
    c.contents.src[0] = a
    check(4 * values)
    a.contents.data = leaf(ctx, np.zeros((3, 100), np.float32)).contents.data
    check(4 * values)
    other = leaf(ctx, array(1, 3, 100))
    x.contents.data = other.contents.data
    check(4 * ggml.utils.to_numpy(other))
    a.contents.flags &= ~ggml.GGML_TENSOR_FLAG_COMPUTE  # its old value is used
    ggml.utils.to_numpy(other)[:] = 0
    check(2 * ggml.utils.to_numpy(a))
    assert ggml.utils.to_numpy(a).any()


def test_graphs_that_share_nodes(ctx):
    """A graph up to an inner node leaves what comes after it alone."""
    x, (a, b, c) = chain(ctx)
    whole, part = graph_of(ctx, c), graph_of(ctx, b)
    compute(whole)
    ggml.utils.to_numpy(x)[:] = 1
    before = bits(c)
    compute(part)
    assert np.array_equal(bits(c), before) and (ggml.utils.to_numpy(b) == 4).all()


def test_an_abort_callback_is_asked_before_each_node(ctx):
    _, nodes = chain(ctx)
    graph = graph_of(ctx, nodes[-1])
    for stop in range(1, 4):
        for t in nodes:
            ggml.utils.to_numpy(t)[:] = 7
        asked = []
        plan = ggml.ggml_graph_plan(graph, 1)
        plan.abort_callback = ggml.ggml_abort_callback(lambda _: bool(asked.append(1)) or len(asked) > stop)
        status = ggml.ggml_graph_compute(graph, plan)
        assert status == (ggml.GGML_STATUS_ABORTED if stop < 3 else ggml.GGML_STATUS_SUCCESS)
        assert [bool((ggml.utils.to_numpy(t) == 7).all()) for t in nodes] == [i >= stop for i in range(3)]


def test_callbacks_see_what_is_computed_before_them(ctx):
    x, (a, b, c) = chain(ctx)
    seen = []

    def look(dst, src, ith, nth, userdata):
        seen.extend(ggml.utils.to_numpy(t).copy() for t in (a, b, c))
        ggml.utils.to_numpy(dst)[:] = ggml.utils.to_numpy(src)

    mapped = ggml.ggml_map_custom1(ctx, c, ggml.ggml_custom1_op_t(look), 1, None)
    result = ggml.ggml_sqr(ctx, ggml.ggml_scale(ctx, mapped, 1.0))
    compute(graph_of(ctx, result))
    values = ggml.utils.to_numpy(x)
    assert all(np.array_equal(s, values * 2**i) for i, s in enumerate(seen, 1))
    assert np.array_equal(ggml.utils.to_numpy(result), (8 * values) ** 2)


def test_the_callback_of_a_scheduler_sees_each_value(cpu):
    """The scheduler computes up to each node that the callback asks for."""
    found = []
    for on in False, True:
        with context(no_alloc=True) as ctx, fusing(on):
            y = PATTERNS["ADD RMS_NORM MUL"][0](ctx, leaf(ctx, array(0, 9, 64)))
            graph = graph_of(ctx, y)
            backends, seen = (ctypes.c_void_p * 1)(cpu), []
            sched = ggml.ggml_backend_sched_new(backends, None, 1, 64, False)
            assert ggml.ggml_backend_sched_alloc_graph(sched, graph)
            fill_leaves()
            observe = ggml.ggml_backend_sched_eval_callback(lambda t, ask, data: bool(ask or seen.append(bits(t)) or 1))
            ggml.ggml_backend_sched_set_eval_callback(sched, observe, None)
            assert ggml.ggml_backend_sched_graph_compute(sched, graph) == ggml.GGML_STATUS_SUCCESS
            found.append(seen)
            ggml.ggml_backend_sched_free(sched)
    assert len(found[0]) == 3 and all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_a_profile_measures_each_node(ctx):
    _, nodes = chain(ctx)
    graph = graph_of(ctx, nodes[-1])
    assert steps(graph) == 1
    for _ in range(4):  # before and after the plan is kept
        with ggml.profile() as profile:
            compute(graph)
        assert len(profile.timeline()) == 3
        compute(graph)


def test_gradients_of_fused_nodes():
    """Forward nodes whose values the backward pass reads, with and without fusions."""
    found = []
    for on in False, True:
        with context() as ctx:
            x, w = leaf(ctx, array(0, 5, 60)), leaf(ctx, array(1, 60))
            for t in x, w:
                ggml.ggml_set_param(t)
            loss = ggml.ggml_sum(ctx, ggml.ggml_silu(ctx, ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, x, 1e-5), w)))
            ggml.ggml_set_loss(loss)
            graph = ggml.ggml_new_graph_custom(ctx, 256, True)
            ggml.ggml_build_forward_expand(graph, loss)
            ggml.ggml_build_backward_expand(ctx, graph, None)
            ggml.ggml_graph_reset(graph)
            gradients = [ggml.ggml_graph_get_grad(graph, t) for t in (x, w)]
            compute(graph, 2, on)
            found.append([bits(t) for t in [*nodes_of(graph), *gradients]])
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True)) and found[0][-1].any()


def test_long_chains_are_cut(ctx):
    x, nodes = chain(ctx, 40)
    graph = graph_of(ctx, nodes[-1])
    assert steps(graph) == 3  # at most 16 nodes each
    compute(graph)
    for i, t in enumerate(nodes, 1):
        assert np.array_equal(ggml.utils.to_numpy(t), ggml.utils.to_numpy(x) * np.float32(2) ** i)


def test_few_long_rows_are_left_to_the_threads(ctx):
    """Threads share the elements of a long row, but only the rows of a chain."""
    x = leaf(ctx, array(0, 1, 60000))
    y = ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, x, 1e-5), leaf(ctx, array(1, 60000)))
    graph = graph_of(ctx, y)
    assert steps(graph) == 1
    assert steps(graph, 2) == min(2, _core.build_info()["threads"])


@pytest.mark.parametrize("value, count", [("0", 2), ("1", 1), (None, 1)])
def test_the_environment_variable(value, count, child):
    code = (
        "import ggml; from ggml._graph.graph import count_steps; c = ggml.ggml_init(ggml.ggml_init_params());"
        "x = ggml.ggml_new_tensor_1d(c, 0, 400); g = ggml.ggml_new_graph(c);"
        "ggml.ggml_build_forward_expand(g, ggml.ggml_sqr(c, ggml.ggml_sqr(c, x))); print(count_steps(g, 1))"
    )
    env = {k: v for k, v in os.environ.items() if k != "GGML_FUSE"} | ({"GGML_FUSE": value} if value else {})
    assert int(child(code, env=env)) == count
