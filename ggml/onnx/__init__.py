"""ONNX models on ggml: `load` a model, `run` it.

    model = ggml.onnx.load("model.onnx")
    outputs = model.run({"input": array})

`Training` computes gradients of a loss by the weights, and trains them.

Needs the onnx package: pip install 'ggml-cython[onnx]'.
"""

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise ImportError("ggml.onnx needs the onnx package: pip install 'ggml-cython[onnx]'") from error

from .backend import Backend, BackendRep
from .graph import ModelError, ValueInfo
from .host import HostError
from .model import Model, load
from .program import Entry, HostRefused, NodeError
from .training import Training

__all__ = ["Backend", "BackendRep", "Entry", "HostError", "HostRefused", "Model", "ModelError", "NodeError"]
__all__ += ["Training", "ValueInfo", "load"]
