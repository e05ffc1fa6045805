"""NumPy and everyday helpers: `to_numpy`, `from_numpy`, `slice_tensor`, quantising arrays.

NumPy itself is imported when it is first needed. Sizes and indices are in ggml's order here (dimension 0 is the
innermost), those of NumPy arrays in NumPy's, which is the reverse.
"""

from __future__ import annotations

import ctypes
import enum
import faulthandler
import sys
from typing import TYPE_CHECKING

from . import _core, ggml
from ._io.interop import (
    dequantize_row,
    from_dlpack,
    from_numpy,
    get_ndims,
    get_shape,
    get_strides,
    quantize_row,
    to_numpy,
)

if TYPE_CHECKING:
    NUMPY_DTYPE_TO_GGML_TYPE: dict
    GGML_TYPE_TO_NUMPY_DTYPE: dict

__all__ = [
    "GGML_TYPE",
    "GGML_TYPE_TO_NUMPY_DTYPE",
    "NUMPY_DTYPE_TO_GGML_TYPE",
    "copy_to_cpu",
    "dequantize_row",
    "from_dlpack",
    "from_numpy",
    "get_ndims",
    "get_shape",
    "get_strides",
    "quantize_0",
    "quantize_row",
    "setup_sigabrt_handler",
    "slice_tensor",
    "to_numpy",
]

_PREFIX = "GGML_TYPE_"
GGML_TYPE = enum.IntEnum(  # type: ignore[misc]
    "GGML_TYPE",
    {k[len(_PREFIX) :]: v for k, v in _core.enums().items() if k.startswith(_PREFIX) and k != "GGML_TYPE_COUNT"},
    module=__name__,
)
GGML_TYPE.__doc__ = "Tensor types by name: `GGML_TYPE.Q4_K` is `ggml.GGML_TYPE_Q4_K`."

_NUMPY_NAMES = {"F16": "float16", "F32": "float32", "F64": "float64", **{f"I{n}": f"int{n}" for n in (8, 16, 32, 64)}}


def __getattr__(name):
    """The two tables are made on first use, since they need NumPy."""
    if name not in ("NUMPY_DTYPE_TO_GGML_TYPE", "GGML_TYPE_TO_NUMPY_DTYPE"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import numpy

    numpy_types = {GGML_TYPE[ours]: getattr(numpy, theirs) for ours, theirs in _NUMPY_NAMES.items()}
    globals()["GGML_TYPE_TO_NUMPY_DTYPE"] = numpy_types
    globals()["NUMPY_DTYPE_TO_GGML_TYPE"] = {v: k for k, v in numpy_types.items()}
    return globals()[name]


def copy_to_cpu(ctx, tensor):
    """A node that copies `tensor` to memory of the CPU context `ctx`: has its values once it is computed."""
    return ggml.ggml_dup(ctx, tensor)


def quantize_0(data_f32, nelements, ne0, ttype, work=None, imatrix=None):
    """Quantises an array of floats to `ttype`.

    nelements: how many floats, a multiple of ne0. (Or how many rows, where the array has nelements * ne0 floats.)
    ne0: floats in a row, a multiple of the type's block.
    work: where the result goes; a new buffer when None.
    imatrix: importance of each column, ne0 floats.

    Returns (address of the result as c_void_p, its bytes).
    """
    if nelements < 0 or ne0 <= 0:
        raise ValueError(f"quantize_0: nelements is {nelements}, ne0 is {ne0}: must be positive")
    rows_given = getattr(data_f32, "_length_", nelements) == nelements * ne0
    if nelements % ne0 and not rows_given:
        raise ValueError(f"quantize_0: nelements is {nelements}: need a multiple of ne0, which is {ne0}")
    rows = nelements if rows_given else nelements // ne0
    out = ctypes.cast(work or (ctypes.c_float * (rows * ne0))(), ctypes.c_void_p)
    return out, ggml.ggml_quantize_chunk(int(ttype), data_f32, out, 0, rows, ne0, imatrix)


def slice_tensor(ctx, tensor, indices):
    """A view of part of a tensor: one slice for each dimension, the innermost first, read as Python reads them.

    Negative and open ends are counted as usual; steps must be positive. In dimension 0 of a quantised tensor, begin and
    end lie on block boundaries and the step is 1. There is no gradient of steps in dimension 0 of four.
    """
    sizes, strides = get_shape(tensor), get_strides(tensor)
    if len(indices) != len(sizes):
        raise ValueError(f"slice_tensor: the tensor has {len(sizes)} dimensions, {len(indices)} indices were given")
    ranges = []
    for index, size in zip(indices, sizes, strict=True):
        if not isinstance(index, slice):
            raise TypeError(f"slice_tensor: an index is {index!r}: need a slice")
        if index.step is not None and index.step <= 0:
            raise ValueError(f"slice_tensor: {index} has no positive step")
        ranges.append(range(*index.indices(size)))
    block = ggml.ggml_blck_size(tensor.contents.type)
    first = ranges[0]
    if block > 1 and (first.step != 1 or first.start % block or len(first) % block):
        raise ValueError(f"slice_tensor: {indices[0]} splits blocks of {block} elements")
    offset = first.start // block * strides[0]
    offset += sum(r.start * stride for r, stride in zip(ranges[1:], strides[1:], strict=True))
    outer = [stride * r.step for r, stride in zip(ranges[1:], strides[1:], strict=True)]
    counts = [len(r) for r in ranges]
    if 0 in counts:
        offset = 0
    step = strides[0] * first.step
    if first.step != 1 and len(counts) < 4:  # views have dense rows: begin with rows of one element
        view = _view(ctx, tensor, [1, *counts], [step, *outer], offset)
        return ggml.ggml_permute(ctx, view, 3, 0, 1, 2)
    view = _view(ctx, tensor, counts, outer, offset)
    view.contents.nb[0] = step
    return view


def _view(ctx, tensor, counts, strides, offset):
    view_nd = (ggml.ggml_view_1d, ggml.ggml_view_2d, ggml.ggml_view_3d, ggml.ggml_view_4d)[len(counts) - 1]
    return view_nd(ctx, tensor, *counts, *strides, offset)  # type: ignore[call-arg]


def setup_sigabrt_handler():
    """Prints the Python stack when the process aborts. (Errors of ggml raise here, they do not abort.)"""
    if not faulthandler.is_enabled() and sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)
