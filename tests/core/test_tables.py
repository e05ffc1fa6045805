"""What is derived from the tables of types and of unary functions, or must agree with them."""

import re
from pathlib import Path

import numpy as np
import pytest
from cases.harness import QUANTISED, TYPES, context, graph_of, load, tensor

import ggml
from ggml._io import quantization, tensor_types

UNARY = Path(__file__).parents[2] / "ggml" / "_simd" / "tables" / "unary.h"
FUNCTIONS = re.findall(r"^UNARY\((\d+), *(\w+), *\w+, *(\w+), *(\w+)\)$", UNARY.read_text(encoding="utf-8"), re.M)
FLOATS = re.findall(r"^TYPE\([^,]+, *(\w+),(?:[^,]+,){3} *FLOAT\b", TYPES, re.M)


# ---- types -----------------------------------------------------------------------------------------------------------
def test_models_can_be_converted_to_each_type_of_weights():
    assert set(FLOATS) == {"F32", "F16", "BF16"} and {"Q2_0", "IQ4_NL", "Q8_0"} < set(QUANTISED)
    assert {base for base, _, _ in quantization.MIXES.values()} == {*FLOATS, *QUANTISED}
    assert set(tensor_types.PLAIN) <= {*FLOATS, *QUANTISED}
    numbers = list(tensor_types.PLAIN.values())
    assert len(set(numbers)) == len(numbers)
    assert set(quantization.FALLBACK) | set(quantization.FALLBACK.values()) <= set(QUANTISED)


def test_names_of_types_are_those_of_the_table():
    rows = dict(re.findall(r"^TYPE\((\d+), *(\w+),", TYPES, re.M))
    assert {str(number): name for number, name in tensor_types.TYPES.items()} == rows


# ---- unary functions -------------------------------------------------------------------------------------------------
def gradient(number, inplace):
    """The gradient of the sum of f(x); an array."""
    with context() as ctx:
        x = tensor(ctx, np.linspace(-2.9, 2.9, 30).reshape(1, 1, 1, 30), "F32")
        ggml.ggml_set_param(x)
        source = ggml.ggml_scale(ctx, x, 1.0)
        y = (ggml.ggml_unary_inplace if inplace else ggml.ggml_unary)(ctx, source, number)
        loss = ggml.ggml_sum(ctx, y)
        ggml.ggml_set_loss(loss)
        graph = graph_of(ctx, loss, grads=True)
        ggml.ggml_build_backward_expand(ctx, graph, None)
        ggml.ggml_graph_reset(graph)
        ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
        found = ggml.ggml_graph_get_grad(graph, x)
        return load(found).ravel() if found else np.zeros(30)


@pytest.mark.parametrize("number, name, derivative, back", FUNCTIONS)
def test_gradients_of_unary_functions_are_computed_from_what_the_table_says(number, name, derivative, back):
    assert (back == "NONE") or (derivative == "ARGUMENT" and back == f"{name}_BACK")
    assert ggml.ggml_unary_op_name(int(number)).decode() == name
    if name == "XIELU":
        return  # it has a builder of its own, and tests with its parameters
    found = gradient(int(number), inplace=False)
    if derivative == "ZERO":
        assert not found.any()
    if derivative == "NUMBER":
        assert (found == found[0]).all() and found[0]
    if derivative == "ARGUMENT":
        with pytest.raises(ValueError, match="overw"):
            gradient(int(number), inplace=True)
    else:
        np.testing.assert_array_equal(gradient(int(number), inplace=True), found)
