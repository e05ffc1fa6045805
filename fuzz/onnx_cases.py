"""Cases of single ONNX operators, and the models that are made of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_peer import declared

SAMPLES: dict[str, Callable[..., "Case"]] = {}


@dataclass
class Constant:
    """An operand that is a constant of the model."""

    array: Any


@dataclass
class Input:
    """An operand that is an input of the model."""

    array: Any


@dataclass
class Case:
    """One operator: operands (arrays, Constant, Input, or None for an omitted one), attributes, an operator set.

    domain, version: of an operator that is not ONNX's own.
    units: by how much integers of the result may differ; loose: the relative difference that is allowed.
    """

    operands: list
    attributes: dict = field(default_factory=dict)
    opset: int = 21
    outputs: int = 1
    domain: str = ""
    version: int = 1
    units: int = 0
    loose: float = 3e-4
    op: str = ""

    def arrays(self):
        """The arrays of the operands."""
        return [getattr(v, "array", v) for v in self.operands if v is not None]


def sample(*ops):
    """Decorator: registers a function of dice and the operator, which returns a Case."""

    def register(function):
        SAMPLES.update((op, function) for op in ops)
        return function

    return register


def trimmed(operands):
    """Operands without the omitted ones at the end."""
    while operands and operands[-1] is None:
        operands = operands[:-1]
    return operands


def maybe(dice, probability, value):
    """A value, or None."""
    return value if dice.chance(probability) else None


def known(dice, values, dtype=np.int64):
    """A small operand that mostly is a constant."""
    return dice.choice([Constant, Constant, Input])(np.array(values, dtype))


# Models


def model_of(case, dice, dynamic):
    """(ModelProto, inputs by name) of a Case."""
    names, inputs, constants = [], {}, {}
    share = dice.choice([0, 0, 0.3, 0.7])  # of constants among the operands that may be either
    for i, operand in enumerate(case.operands):
        names.append("" if operand is None else f"i{i}")
        if isinstance(operand, Constant) or isinstance(operand, np.ndarray) and i and dice.chance(share):
            constants[names[-1]] = getattr(operand, "array", operand)
        elif operand is not None:
            inputs[names[-1]] = np.asarray(getattr(operand, "array", operand))
    outputs = [f"o{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, domain=case.domain, **case.attributes)
    opsets = [helper.make_opsetid("", case.opset)] + (
        [helper.make_opsetid(case.domain, case.version)] if case.domain else []
    )
    graph = helper.make_graph(
        [node],
        "g",
        [declared(name, value, dynamic) for name, value in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), inputs


def described(case):
    """A Case in words: attributes, and operands with their small values."""
    attributes = {
        k: numpy_helper.to_array(v).tolist() if isinstance(v, TensorProto) else v for k, v in case.attributes.items()
    }
    operands = []
    for operand in case.operands:
        a = np.asarray(getattr(operand, "array", operand))
        kind = "" if operand is None or isinstance(operand, np.ndarray) else type(operand).__name__ + " "
        values = f" {a.tolist()}" if a.size < 9 else ""
        operands.append("omitted" if operand is None else f"{kind}{a.dtype}{list(a.shape)}{values}")
    return f"opset {case.opset} {attributes} {'; '.join(operands)}"
