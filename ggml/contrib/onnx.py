"""The names of the bindings' ONNX module, over ggml.onnx.

    from ggml.contrib.onnx import GgmlRuntimeBackend
    rep = GgmlRuntimeBackend.prepare(model)
    outputs = rep.run({"x": array})
"""

from ..onnx.backend import Backend as GgmlRuntimeBackend
from ..onnx.backend import BackendRep as GgmlBackendRep
from ..utils import GGML_TYPE, GGML_TYPE_TO_NUMPY_DTYPE, get_shape

__all__ = ["GgmlBackendRep", "GgmlRuntimeBackend", "get_tensor_dtype", "get_tensor_shape"]


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
