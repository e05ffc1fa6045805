"""Helpers between tensors and NumPy arrays: `to_numpy`, `from_numpy`, `slice_tensor`, quantising arrays.

NumPy itself is imported when it is first needed. Shapes and indices of tensors are in ggml's order (dimension 0 is the
innermost), those of NumPy arrays in NumPy's, which is the reverse.
"""

from __future__ import annotations

import ctypes
import enum
import faulthandler
import sys
from typing import TYPE_CHECKING, Any

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
    from collections.abc import Sequence

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
GGML_TYPE.__doc__ = """Enumerates the tensor types by name: GGML_TYPE.Q4_K equals ggml.GGML_TYPE_Q4_K.

Its members are int, so that they are accepted wherever a type is; GGML_TYPE(number).name gives a type's name.
"""

_NUMPY_NAMES = {"F16": "float16", "F32": "float32", "F64": "float64", **{f"I{n}": f"int{n}" for n in (8, 16, 32, 64)}}


def __getattr__(name):
    """Creates the two tables on first use, because they need NumPy."""
    if name not in ("NUMPY_DTYPE_TO_GGML_TYPE", "GGML_TYPE_TO_NUMPY_DTYPE"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import numpy

    numpy_types = {GGML_TYPE[ours]: getattr(numpy, theirs) for ours, theirs in _NUMPY_NAMES.items()}
    globals()["GGML_TYPE_TO_NUMPY_DTYPE"] = numpy_types
    globals()["NUMPY_DTYPE_TO_GGML_TYPE"] = {v: k for k, v in numpy_types.items()}
    return globals()[name]


def copy_to_cpu(ctx: int, tensor: ggml.ggml_tensor_p) -> ggml.ggml_tensor_p:
    """Adds a node that copies a tensor to memory of a CPU context.

    The result has the values once a graph that contains it is computed.

    Args:
        ctx: context that receives the result.
        tensor: tensor of any shape and any type.
    Returns:
        Contiguous tensor with the type and shape of tensor.
    Raises:
        TypeError: ctx is not a context, or tensor is not a tensor.
        RuntimeError: ctx or tensor was freed.
        MemoryError: the context is full.
    """
    return ggml.ggml_dup(ctx, tensor)


def quantize_0(
    data_f32: Any, nelements: int, ne0: int, ttype: int, work: Any = None, imatrix: Any = None
) -> tuple[ctypes.c_void_p, int]:
    """Quantises an array of floats, row by row.

    Args:
        data_f32: the floats: NumPy array, ctypes array, pointer or address.
        nelements: number of floats, a multiple of ne0. For a ctypes array of nelements * ne0 floats, it is taken as
            the number of rows.
        ne0: floats per row, a multiple of the type's block.
        ttype: GGML_TYPE_* or member of GGML_TYPE.
        work: memory for the result, or None for a new buffer.
        imatrix: ne0 floats, the importance of each column, or None. Some types require it (see
            ggml_quantize_requires_imatrix).
    Returns:
        Pair of the result's address (c_void_p, which keeps the buffer alive) and its size in bytes.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is not allowed, memory is too small, the type cannot be quantised to, it requires an
            imatrix, or a row is beyond its range (see ggml_quantize_chunk).
    """
    if nelements < 0 or ne0 <= 0:
        raise ValueError(f"quantize_0: nelements is {nelements}, ne0 is {ne0}: need 0 or more and 1 or more")
    rows_given = getattr(data_f32, "_length_", nelements) == nelements * ne0
    if nelements % ne0 and not rows_given:
        raise ValueError(f"quantize_0: nelements is {nelements}: need a multiple of ne0, which is {ne0}")
    rows = nelements if rows_given else nelements // ne0
    out = ctypes.cast(work or (ctypes.c_float * (rows * ne0))(), ctypes.c_void_p)
    return out, ggml.ggml_quantize_chunk(int(ttype), data_f32, out, 0, rows, ne0, imatrix)


def slice_tensor(ctx: int, tensor: ggml.ggml_tensor_p, indices: Sequence[slice]) -> ggml.ggml_tensor_p:
    """Selects a part of a tensor by slices, over the same memory.

    Slices mean what they mean in Python: negative and open ends are allowed, steps must be positive. The gradient
    flows to the selected elements.

    Args:
        ctx: context that receives the view.
        tensor: tensor of any shape and any type.
        indices: one slice for each dimension that get_shape(tensor) has, dimension 0 first. In dimension 0 of a
            quantised tensor, start and length must be whole blocks and the step 1.
    Returns:
        View of the part; with a step in dimension 0 it is not contiguous.
    Raises:
        TypeError: an entry of indices is not a slice, or another argument is of the wrong kind.
        ValueError: there are too few or too many slices, a step is not positive, or blocks would be split.
        RuntimeError: ctx or tensor was freed.
        MemoryError: the context is full.

    Example:
        every_other_row = slice_tensor(ctx, x, [slice(None), slice(None, None, 2)])
    """
    sizes, strides = get_shape(tensor), get_strides(tensor)
    if len(indices) != len(sizes):
        raise ValueError(f"slice_tensor: the tensor has {len(sizes)} dimensions, {len(indices)} indices were given")
    ranges = []
    for index, size in zip(indices, sizes, strict=True):
        if not isinstance(index, slice):
            raise TypeError(f"slice_tensor: an index is {index!r}: need a slice")
        if index.step is not None and index.step <= 0:
            raise ValueError(f"slice_tensor: an index is {index}: need a positive step")
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
    if first.step != 1 and len(counts) < 4:  # views have contiguous rows: view rows of one element
        view = _view(ctx, tensor, [1, *counts], [step, *outer], offset)
        return ggml.ggml_permute(ctx, view, 3, 0, 1, 2)
    view = _view(ctx, tensor, counts, outer, offset)
    view.contents.nb[0] = step  # with four dimensions there is none left for rows of one element
    return view


def _view(ctx, tensor, counts, strides, offset):
    view_nd = (ggml.ggml_view_1d, ggml.ggml_view_2d, ggml.ggml_view_3d, ggml.ggml_view_4d)[len(counts) - 1]
    return view_nd(ctx, tensor, *counts, *strides, offset)  # type: ignore[call-arg]


def setup_sigabrt_handler() -> None:
    """Makes Python print its stack to stderr when the process aborts or crashes, through faulthandler.

    Errors of ggml raise exceptions and do not abort the process; this helps with other libraries.

    Returns:
        None.
    """
    if not faulthandler.is_enabled() and sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)
