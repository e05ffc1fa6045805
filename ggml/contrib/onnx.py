"""The names of the bindings' ONNX module, over ggml.onnx.

    from ggml.contrib.onnx import GgmlRuntimeBackend
    rep = GgmlRuntimeBackend.prepare(model)
    outputs = rep.run({"x": array})

Importing this module also makes operators of the domain com.ggml known, which the bindings add to ONNX's.
"""

import math
from types import SimpleNamespace

import numpy as np
import onnx

from .. import ggml
from ..onnx import backend, host, rules
from ..onnx.graph import Reader, Scope
from ..onnx.values import F32, Tensor, count
from ..utils import GGML_TYPE, GGML_TYPE_TO_NUMPY_DTYPE, get_shape

__all__ = ["GgmlBackendRep", "GgmlRuntimeBackend", "get_tensor_dtype", "get_tensor_shape", "onnx_operators"]
POLICIES = {"compat": False, "strict": True}


class GgmlBackendRep(backend.BackendRep):
    """A prepared model, as ggml.onnx.BackendRep."""

    def run(self, inputs, **kwargs):
        """Computes the outputs.

        Args:
            inputs, kwargs: as for ggml.onnx.BackendRep.run.
        Returns:
            List of arrays in the order of the outputs.
        Raises:
            ValueError, RuntimeError: as ggml.onnx.Model.run; an input of the wrong type is a ValueError too.
        """
        self.arguments = self.operands(inputs)
        try:
            return self.model.run(*self.arguments)
        except TypeError as error:
            raise ValueError(f"Unexpected input data type: {error}") from None

    @property
    def fallback_nodes(self):
        """The nodes that run on the host for the inputs of the last run: objects with name, op_type and reason."""
        entries = [e for e in self.model.report(*self.arguments) if e.where == "host"]
        return [SimpleNamespace(name=e.name, op_type=e.op.rpartition(".")[2], reason=e.why) for e in entries]


class GgmlRuntimeBackend(backend.Backend):
    """ggml.onnx.Backend with the bindings' parameter fallback_policy."""

    representation = GgmlBackendRep

    @classmethod
    def prepare(cls, model, device=None, fallback_policy="compat", **kwargs):
        """Loads a model.

        Args:
            model: onnx.ModelProto, path or bytes.
            device: "CPU" or None.
            fallback_policy: "compat", or "strict" to refuse to run operators on the host.
            kwargs: threads and weights, as ggml.onnx.load.
        Returns:
            GgmlBackendRep.
        Raises:
            ValueError: the device or the policy is not supported, or the model is broken.
        """
        if fallback_policy not in POLICIES:
            raise ValueError(
                f"GgmlRuntimeBackend.prepare: fallback_policy is {fallback_policy!r}: need one of "
                f"{', '.join(map(repr, POLICIES))}"
            )
        return super().prepare(model, device, **{"strict": POLICIES[fallback_policy], **kwargs})


class Operator:
    """An operator that has a rule, or that the onnx package can evaluate.

    Args:
        op_type, domain: its name.
    """

    has_numpy_evaluator = True

    def __init__(self, op_type, domain=""):
        self.op_type, self.domain = op_type, domain

    def eval_numpy(self, node, inputs):
        """The outputs of a NodeProto for arrays, computed by the onnx package's reference implementation."""
        scope = Scope({"": onnx.defs.onnx_opset_version(), self.domain: 1})
        return host.evaluate(Reader(scope, None).node(node, 0), list(inputs))


class OnnxOperators:
    """The operators, by name.

    Attributes:
        operators: dict of the operators of ONNX's own domain by their names.
        domain_operators: dict of the others by (domain, name).
    """

    def __init__(self):
        names = [tuple(name.rpartition(".")[::2]) for name in rules.load()]
        self.operators = {n: Operator(n) for d, n in names if not d}
        self.domain_operators = {(d, n): Operator(n, d) for d, n in names if d}

    def get(self, op_type, domain=""):
        """An operator, or None."""
        return self.domain_operators.get((domain, op_type)) if domain else self.operators.get(op_type)


# ---- The domain com.ggml ---------------------------------------------------------------------------------------------
UNARY = {"com.ggml.SiLU": ggml.ggml_silu, "com.ggml.QuickGelu": ggml.ggml_gelu_quick}
GATED = {
    "com.ggml.ReGLU": ggml.ggml_reglu,
    "com.ggml.GeGLU": ggml.ggml_geglu,
    "com.ggml.SwiGLU": ggml.ggml_swiglu,
    "com.ggml.GeGLUErf": ggml.ggml_geglu_erf,
    "com.ggml.GeGLUQuick": ggml.ggml_geglu_quick,
}


@rules.rule(*UNARY)
def unary(b, node, x):
    return b.unary(UNARY[node.op], x)


@rules.rule(*GATED)
def gated(b, node, x):
    """The first half of the last axis, activated, times the second half."""
    return b.like(GATED[node.op](b.ctx, b.contiguous(x).t), (*x.shape[:-1], x.shape[-1] // 2), F32)


@rules.rule("com.ggml.FlashAttention")
def flash_attention(b, node, q, k, v, mask=None):
    """Attention of (batch, heads, tokens, width)."""
    mask = None if mask is None else ggml.ggml_cast(b.ctx, b.contiguous(mask).t, ggml.GGML_TYPE_F16)
    t = ggml.ggml_flash_attn_ext(
        b.ctx,
        b.use(q).t,
        b.use(k).t,
        b.use(v).t,
        mask,
        node.attr("scale", 1 / math.sqrt(q.shape[-1])),
        node.attr("max_bias", 0.0),
        node.attr("logit_softcap", 0.0),
    )
    batch, heads, tokens, _ = q.shape
    return b.transpose(b.like(t, (batch, tokens, heads, v.shape[-1]), F32), (0, 2, 1, 3))


@rules.rule("com.ggml.Roll")
def roll(b, node, x):
    """numpy.roll by shifts, one per axis."""
    place = np.arange(count(x.shape)).reshape(x.shape)
    return b.take(x, np.roll(place, node.attr("shifts"), tuple(range(len(node.attr("shifts"))))))


@rules.rule("com.ggml.ArgSort")
def argsort(b, node, x):
    """The positions of the elements of rows in ascending order."""
    rows = b.contiguous(b.reshape(x, (count(x.shape[:-1]), x.shape[-1])))
    t = ggml.ggml_cast(b.ctx, ggml.ggml_argsort(b.ctx, rows.t, ggml.GGML_SORT_ORDER_ASC), ggml.GGML_TYPE_F32)
    return b.reshape(Tensor(t, rows.shape, np.dtype(np.int32), (0, x.shape[-1] - 1)), x.shape)


onnx_operators = OnnxOperators()


def get_tensor_shape(tensor):
    """The shape of a tensor in NumPy's order.

    Args:
        tensor: ggml tensor.
    Returns:
        Tuple of integers, outermost dimension first.
    """
    return tuple(reversed(get_shape(tensor)))


def get_tensor_dtype(tensor):
    """The NumPy type of a tensor's elements.

    Args:
        tensor: ggml tensor of a type that NumPy has.
    Returns:
        NumPy type.
    Raises:
        TypeError: NumPy has no such type.
    """
    kind = GGML_TYPE(tensor.contents.type)
    if kind not in GGML_TYPE_TO_NUMPY_DTYPE:
        raise TypeError(f"get_tensor_dtype: the tensor is {kind.name}: NumPy has no such type")
    return GGML_TYPE_TO_NUMPY_DTYPE[kind]
