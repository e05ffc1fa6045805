# Written by scripts/make_stubs.py from the built module: run it again instead of editing this file.
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from .. import _Address, _Int, _To, ggml_tensor, ggml_tensor_p

_Buffer = Any  # an object with the buffer protocol

def from_numpy(x: npt.ArrayLike | _Buffer, ctx: _Address) -> ggml_tensor_p:
    """Creates a tensor with the values of a NumPy array.

    The values are copied; the dimensions are reversed, so that the array's last one becomes dimension 0. Arrays of
    any strides and byte order are accepted.

    Args:
        x: array, or another object with the buffer protocol, of float16, float32, float64, int8, int16, int32,
            int64 or bfloat16 (ml_dtypes), with at most 4 dimensions. Operations compute with float32, float16 and
            bfloat16; convert other arrays first: x.astype(numpy.float32).
        ctx: context that receives the tensor. With no_alloc, the tensor gets type and shape but no data.
    Returns:
        Contiguous tensor of the corresponding type. Leading dimensions of size 1 of x do not show in it: see to_numpy.
    Raises:
        TypeError: ctx is not a context, x has no buffer, or no tensor type corresponds to its dtype.
        ValueError: x has more than 4 dimensions.
        RuntimeError: ctx was freed.
        MemoryError: the context is full.
    See also:
        from_dlpack, which shares the memory instead of copying it.
    """
def from_dlpack(ctx: _Address, x: Any) -> ggml_tensor_p:
    """Creates a tensor that shares the memory of an array of PyTorch, JAX or NumPy.

    Writes through one are visible through the other, and the context keeps the memory alive. A permuted array gives
    a permuted tensor (see ggml_cont). What a tensor cannot describe is copied: read-only memory, negative or zero
    strides, foreign byte order.

    Args:
        ctx: context that receives the tensor.
        x: object with __dlpack__ or the buffer protocol, in CPU memory, with at most 4 dimensions and a dtype that
            from_numpy accepts.
    Returns:
        Tensor with the dimensions of x reversed.
    Raises:
        TypeError: ctx is not a context, x has neither interface, or no tensor type corresponds to its dtype.
        ValueError: x has more than 4 dimensions.
        BufferError: x is not in CPU memory, or its DLPack version is not 1.x.
        RuntimeError: ctx was freed.
        MemoryError: the context is full.
    """
def to_numpy(tensor: _To[ggml_tensor], shape: Sequence[int] | None = ...) -> npt.NDArray[Any]:
    """Gives the values of a tensor as a NumPy array, its dimensions in NumPy's order (dimension 0 of ggml last).

    For f32, f16, f64 and integers, the array is a view: it shares the tensor's memory and keeps it alive, also
    after ggml_free. bf16 and quantised values are decoded to a new float32 array, which is read-only because writes
    would not reach the tensor; numpy.asarray(tensor) gives their bits.

    Args:
        tensor: tensor with data, any shape and any type. Every tensor has four dimensions, and none records how many
            of them were given: trailing dimensions of size 1, the first ones of the array, are left out, so that an
            array of shape (1, 3) comes back as (3,). shape restores them.
        shape: None, or a shape for the array. If it has as many dimensions as the array and none is larger, the
            result holds the first elements of each dimension; otherwise the elements are reshaped.
    Returns:
        numpy.ndarray; read-only if the type is bf16 or quantised.
    Raises:
        TypeError: tensor is not a tensor.
        ValueError: the tensor has no data, its type cannot be decoded, or its elements do not fit shape.
        BufferError: the blocks of a quantised tensor are not contiguous.
        RuntimeError: tensor was freed.

    Example:
        x = from_numpy(numpy.ones((2, 3), numpy.float32), ctx)
        to_numpy(x)[0] = 5.0  # writes to the tensor
    """
def get_ndims(tensor: _To[ggml_tensor]) -> int:
    """Counts the dimensions of a tensor without the trailing ones of size 1.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        1 to 4.
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
def get_shape(tensor: _To[ggml_tensor]) -> tuple[int, ...]:
    """Gives the sizes of a tensor's dimensions in ggml's order, dimension 0 first.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Tuple of get_ndims(tensor) int.
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
def get_strides(tensor: _To[ggml_tensor]) -> tuple[int, ...]:
    """Gives the strides of a tensor's dimensions in bytes, dimension 0 first.

    For a quantised type, the first stride is that of a block.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Tuple of get_ndims(tensor) int.
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
def quantize_row(data_f32: Any, nelements: _Int, ttype: _Int, work: Any = ...) -> Any:
    """Quantises one row of floats, without importance weights.

    Args:
        data_f32: at least nelements floats: NumPy array, ctypes array, pointer or address.
        nelements: number of floats, a multiple of the type's block.
        ttype: GGML_TYPE_* or member of GGML_TYPE.
        work: memory for the result (see ggml_row_size), or None for a new buffer.
    Returns:
        work, or the new buffer's address as c_void_p, which keeps it alive.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: nelements is not such a multiple, memory is too small, the type cannot be quantised to in this way,
            or the row is beyond the type's range (see ggml_quantize_chunk).
        MemoryError: there is no memory for the type's tables.
    """
def dequantize_row(data_q: Any, nelements: _Int, ttype: _Int, work: Any = ...) -> Any:
    """Decodes one row of a quantised or float type to float32.

    Args:
        data_q: the row, in the type's format: NumPy array, ctypes array, pointer or address.
        nelements: number of elements, a multiple of the type's block.
        ttype: GGML_TYPE_* or member of GGML_TYPE.
        work: memory for nelements floats, or None for a new buffer.
    Returns:
        work, or the new buffer's address as c_void_p, which keeps it alive.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: nelements is not such a multiple, memory is too small, or the type cannot be decoded.
    """
def reverse_bytes(data: Any, nelements: _Int, ttype: _Int) -> None:
    """Reverses the bytes of every number in a packed row, in place: for GGUF files of the other byte order.

    Args:
        data: the row, in the type's format: NumPy array, ctypes array, pointer or address.
        nelements: number of elements, a multiple of the type's block.
        ttype: GGML_TYPE_*.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: nelements is not such a multiple, or data is too small.
    """
