"""What the tests of allocators, backends and schedulers share: tensors whose memory does not belong to their
context.
"""

import importlib.util
from pathlib import Path

import numpy as np

import ggml

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
F32 = ggml.GGML_TYPE_F32


def example(name):
    """Imports an example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def context():
    """A context whose tensors get no memory."""
    return ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))


def put(t, values):
    values = np.ascontiguousarray(values, np.float32)
    ggml.ggml_backend_tensor_set(t, values.ctypes.data, 0, values.nbytes)


def get(t):
    out = np.empty(ggml.ggml_nelements(t), np.float32)
    ggml.ggml_backend_tensor_get(t, out.ctypes.data, 0, out.nbytes)
    return out
