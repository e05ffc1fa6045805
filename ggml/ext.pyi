# Written by scripts/make_stubs.py from the built module: run it again instead of editing this file.
from collections.abc import Callable
from typing import Any

from . import (
    _Address, _Bool, _Float, _Int, _Path, _To, ggml_opt_context_t, ggml_opt_params, ggml_tensor, ggml_tensor_p,
    gguf_context_p, gguf_init_params,
)

__all__: list[str]
_MOVED: dict[str, str]

def conv_2d(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, s1: _Int, p0: _Int, p1: _Int, d0: _Int, d1: _Int, bias: _To[ggml_tensor] = ..., function: _Int | None = ..., offset: _Int = ..., winograd: _Int = ...) -> ggml_tensor_p:
    """Convolves images as ggml_conv_2d does, with a bias, a function, kernels of bytes and a choice of algorithms.

    The gradient flows to a and b; with a bias, a function or a kernel of bytes there is none. A kernel of bytes is
    multiplied exactly with images of whole numbers whose range is 255 at most, and in f32 with others.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], f32, f16, bf16 or i8 (fastest if it is a view of contiguous
            [in_channels, kw, kh, out_channels]).
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: columns of zeros at each side, 0 or more.
        p1: rows of zeros above and below, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
        bias: f32 tensor [out_channels] that is added to the sums, or None.
        function: GGML_UNARY_OP_RELU, SIGMOID, SILU or HARDSWISH, applied to the result, or None.
        offset: int from -255 to 255 that is added to each element of a kernel of type i8; others ignore it.
        winograd: 2, 4 or 0: the largest side of the squares of positions that kernels of 3x3 with a stride of 1 or 2
            may compute together with fewer multiplications, where that takes less time (Winograd's F(2x2, 3x3) and
            F(4x4, 3x3)). 2, as in ggml_conv_2d, needs 16 multiplications instead of 36 (25 with a stride of 2): its
            rounding errors are smaller than those of the sum of all products, and small whole numbers are convolved
            exactly. 4 needs 36 instead of 144 with a stride of 1, and 6 instead of 12 or 8 instead of 20 for kernels of
            3x1 or 5x1 (F(4, 3) and F(4, 5)): its errors are about twice those of the sum. Parts of an image with
            elements that are some 16 times larger than the others are computed by the sum, which 0 chooses everywhere.
            Kernels of bytes are always convolved exactly.
    Returns:
        f32 tensor [ow, oh, out_channels, batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh
            likewise.
    Raises:
        ValueError: the channels differ, a type, bias, function, offset, winograd or another parameter is invalid, or
            the kernel is larger than the padded image.
        MemoryError: the context is full.
    """
def conv_2d_dw(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], stride0: _Int, stride1: _Int, pad0: _Int, pad1: _Int, dilation0: _Int, dilation1: _Int, bias: _To[ggml_tensor] = ..., function: _Int | None = ...) -> ggml_tensor_p:
    """Convolves each channel of images with its own kernel, and adds a bias or applies a function.

    Computes the same as ggml_conv_2d_dw_direct before that, in the same memory layout. The gradient flows to a and b;
    with a bias or a function there is none.

    Args:
        ctx: context that receives the result.
        a: kernels [kw, kh, 1, channels], f32, f16 or bf16.
        b: images [width, height, channels, batch], f32, f16 or bf16.
        stride0: stride along the width, 1 or more.
        stride1: stride along the height, 1 or more.
        pad0: columns of zeros at each side, 0 or more.
        pad1: rows of zeros above and below, 0 or more.
        dilation0: dilation along the width, 1 or more.
        dilation1: dilation along the height, 1 or more.
        bias: f32 tensor [channels] that is added to the sums, or None.
        function: GGML_UNARY_OP_RELU, SIGMOID, SILU or HARDSWISH, applied to the result, or None.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = (width + 2 * pad0 - dilation0 * (kw - 1) - 1) // stride0 + 1
            and oh likewise.
    Raises:
        ValueError: there is not one kernel for each channel, a type, bias, function or another parameter is invalid,
            or the kernel is larger than the padded image.
        MemoryError: the context is full.
    """
def conv_algorithm(tensor: _To[ggml_tensor]) -> str | None:
    """Names the algorithm that computes a convolution, a transposed convolution or the gradient of one.

    It depends on the shape, the types, the layout and the kernels in use, not on values or the number of threads.

    Args:
        tensor: result of a convolution, whose data need not be allocated.
    Returns:
        str, a name in the table of the documentation ("Convolutions"); None if the tensor has no elements.
    Raises:
        ValueError: the tensor is not the result of a convolution, or its node is invalid.
        RuntimeError: the tensor or a source of it belongs to no live context.
    """
def custom_set_backward(tensor: _To[ggml_tensor], backward: Callable[..., Any]) -> ggml_tensor_p:
    """Gives the node of a custom operation a gradient.

    ggml_build_backward_expand and ggml_build_backward_gradient_checkpointing call backward(ctx, tensor, grad) when
    they reach the node. It adds operations on grad, the gradient with respect to tensor, to ctx and returns the
    gradients with respect to the operands, tensor.contents.src. The context of tensor keeps backward alive.

    Args:
        tensor: result of ggml_map_custom* or ggml_custom_*, any type, any shape.
        backward: callable that returns one tensor (the gradient with respect to src[0]) or a tuple or list with one
            for each operand; each is f32 in the shape of its operand, or None for no gradient.
    Returns:
        The argument tensor.
    Raises:
        TypeError: backward is not callable.
        ValueError: tensor is not made by a custom operation, or not in a live context.
    """
def equal(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Compares two tensors element by element: a == b, with b repeated to the shape of a.

    False where one of both is NaN. The result passes no gradient on.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type: 1 where both are equal, else 0.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
def gguf_get_tensor_shape(ctx: _Address, tensor_id: _Int) -> tuple[int, ...]:
    """Gives the shape of a tensor as the file states it.

    This function is not part of the C library.

    Args:
        ctx: GGUF context.
        tensor_id: index of the tensor, 0 to gguf_get_n_tensors(ctx) - 1.
    Returns:
        Tuple of 0 to 4 int, dimension 0 (the innermost) first. A tensor of gguf_add_tensor has no trailing
        dimensions of size 1, but at least one dimension.
    Raises:
        TypeError: ctx is not a handle, or tensor_id is not an integer.
        ValueError: there is no tensor with this index.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_init_from_file_mmap(fname: _Path, params: gguf_init_params) -> gguf_context_p:
    """Maps a GGUF file into memory, so that its tensors use the pages of the file without a copy.

    The operating system reads pages on first access, and processes that map the same file share them. Writing to a
    tensor changes this process's memory only, never the file. The mapping lives as long as the GGUF context, the
    ggml context or a NumPy or DLPack view of a tensor. The file must not be truncated in the meantime; replacing it
    by another file of the same name is safe. This function is not part of the C library.

    Args:
        fname: path, as str, bytes or os.PathLike.
        params: gguf_init_params, as in gguf_init_from_file. With no_alloc the tensors get no data, but
            gguf_get_data still gives the address of the mapped data.
    Returns:
        Handle (int) of the new GGUF context. Free it with gguf_free.
    Raises:
        TypeError: fname is not a path, or params is not a gguf_init_params.
        OSError: the file cannot be opened or mapped, or is not a regular file.
        ValueError: the file is not a valid GGUF file, or its data cannot be used in place because it has the other
            byte order or an alignment below 8.
        MemoryError: there is not enough memory for the metadata.
    """
def less(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Compares two tensors element by element: a < b, with b repeated to the shape of a.

    False where one of both is NaN. The result passes no gradient on.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type: 1 where a is less than b, else 0.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
def maximum(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Takes the larger of two tensors element by element, with b repeated to the shape of a.

    NaN where one of both is NaN. The gradient flows to the larger of both, and to a where they are equal.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
def min_max(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Finds the smallest and the largest element of a tensor in one pass.

    NaN is skipped. The gradient of each flows to the elements that are equal to it, in equal parts.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        f32 tensor [2]: the smallest and the largest element; inf and -inf if a is empty.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def minimum(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Takes the smaller of two tensors element by element, with b repeated to the shape of a.

    NaN where one of both is NaN. The gradient flows to the smaller of both, and to a where they are equal.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
def mul_mat_i8(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], offset: _Int = ...) -> ggml_tensor_p:
    """Multiplies a matrix of 8-bit integers, to each of which an offset is added, with floats.

    In NumPy's order of dimensions, result = b @ (a + offset).T. Rows of b whose elements are whole numbers that span
    at most 255 with 0 are multiplied exactly, in 32-bit integers, which are rounded to f32; other rows are multiplied
    in f32. The gradient flows to b.

    Args:
        ctx: context that receives the result.
        a: i8 matrix [k, n] with contiguous rows.
        b: f32, f16 or bf16, [k, m, b2, b3].
        offset: int from -255 to 255.
    Returns:
        f32 tensor [n, m, b2, b3].
    Raises:
        ValueError: a is not of type i8, the rows of a and b differ in length, or the type of b or the offset is not
            supported.
        MemoryError: the context is full.
    """
def opt_init(params: ggml_opt_params, comm: Any) -> ggml_opt_context_t:
    """Creates an optimisation context as ggml_opt_init does, for training on several ranks.

    The batches of all ranks count: before a step the gradients are summed over the ranks, while the backward pass still
    runs. All ranks must create the same context and compute the same number of batches.

    Args:
        params: ggml_opt_params, as for ggml_opt_init.
        comm: ggml.distributed.Communicator, or None for one rank.
    Returns:
        Handle (int) of the context. Free it with ggml_opt_free.
    Raises:
        TypeError: as ggml_opt_init, or comm is not a communicator.
        ValueError: as ggml_opt_init.
        RuntimeError: the scheduler or a tensor's context was freed.
        MemoryError: there is not enough memory for the optimiser's state.
    """
def opt_load(opt_ctx: _Address, fname: _Path, dataset: _Address = ...) -> None:
    """Restores a checkpoint of ggml.ext.opt_save, so that training continues exactly where it was saved.

    The context, its parameters and the dataset must have been made as they were then. Everything in the file is
    checked before anything is changed. This function is not part of the C library.

    Args:
        opt_ctx: handle of an optimisation context with the same parameters, optimiser and opt_period; with
            communicators, opt_period times the number of ranks must be the same.
        fname: path of the checkpoint, as str, bytes or os.PathLike.
        dataset: dataset whose order is restored, with as many shards as then; None to leave the order out.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        OSError: the file cannot be read.
        ValueError: the file is damaged, is not a checkpoint, or belongs to another model; the message names the key
            or tensor.
        RuntimeError: opt_ctx or dataset was freed, or the context has no parameters yet.
    """
def opt_save(opt_ctx: _Address, fname: _Path, dataset: _Address = ...) -> None:
    """Writes a checkpoint of a training run to a GGUF file.

    It holds the parameters, the optimiser's moments, the accumulated gradients of an unfinished period, the number
    of steps, the state of the random numbers, checksums, and the order of a dataset's shards. The file is complete
    or absent at any time: it replaces an older one only when it is fully written. With a communicator (see
    ggml_opt_init) all ranks have the same state, and one of them writes it; another number of ranks may resume. This
    function is not part of the C library.

    Args:
        opt_ctx: handle of an optimisation context that has a graph.
        fname: path, as str, bytes or os.PathLike.
        dataset: dataset whose order is saved, or None.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        OSError: the file cannot be written.
        RuntimeError: opt_ctx or dataset was freed, the context has no parameters yet, or several ranks are within a
            period.
    See also:
        ggml.ext.opt_load, which resumes the run exactly.
    """
def paged_attention(ctx: Any, q: Any, k: Any, v: Any, table: Any, factor: Any, page_size: Any, window: _Int = ..., logit_softcap: Any = ..., sinks: Any = ..., exact: Any = ...) -> Any:
    """Computes attention of a batch of rows, each to the keys and values of its own sequence, which lie in pages.

    k and v are a pool of cells, which sequences share; a page is page_size consecutive ones. The rows of a sequence
    follow one another, the last one has its last key: so a row with `after` rows of its sequence behind it attends to
    the first keys - after keys, or to the last `window` of these. Shapes do not depend on lengths: the same graph
    computes any mixture of long prompts and single tokens. Rows after those of the last sequence give zeros.

    A column of the table describes a sequence: its first row, its number of rows (0: it is left out), its number of
    keys, and its pages in order. Pages that lie wholly before the window of all rows may be -1.

    There is no gradient.

    Args:
        ctx: context that receives the result.
        q: queries, f32, f16 or bf16, [head_dim, n_heads, n_rows].
        k: keys [head_dim, n_cells, n_kv_heads], f32, f16, bf16 or a quantised type; n_heads is a multiple of
            n_kv_heads.
        v: values [v_dim, n_cells, n_kv_heads], f32, f16, bf16 or a quantised type.
        table: i32 [3 + pages, sequences].
        factor: factor of the scores, usually 1 / sqrt(head_dim).
        page_size: int; cells of a page, a divisor of n_cells.
        window: int; most keys that a row attends to, 0 for all.
        logit_softcap: limit c of the scores s, which become c * tanh(s / c); 0 for none.
        sinks: f32 [n_heads]: a further score in each row, without a value; or None.
        exact: bool; True to compute each row alone, so that its bits depend on nothing but its own sequence.
    Returns:
        f32 tensor [v_dim, n_heads, n_rows].
    Raises:
        ValueError: a shape, a type or a number does not fit. When it is computed, RuntimeError: the table names a row,
            a key or a page that does not exist.
        MemoryError: the context is full.
    """
def quantize_linear(ctx: _Address, a: _To[ggml_tensor], scale: _To[ggml_tensor], zero: _To[ggml_tensor], min: _Float, max: _Float, centred: _Bool = ...) -> ggml_tensor_p:
    """Expresses numbers as whole units above a zero point, as ONNX's QuantizeLinear: round(a / scale) + zero.

    Halves are rounded to even. The result holds floats, limited to the range of an integer type. NaN stays NaN. The
    gradient is that of the function without rounding: it flows to a where the result is not limited, divided by scale,
    to scale, and to zero.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        scale: units, f32, f16 or bf16; each dimension of the shape of a is a multiple of scale's.
        zero: what 0 becomes, f32, f16 or bf16, likewise repeated to a's shape; None for 0.
        min: lower bound of the result, a number.
        max: upper bound of the result, a number not below min.
        centred: subtract zero again, so that the result is about a / scale.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: min or max is not a number.
        ValueError: min is above max, one of them is NaN, scale or zero cannot be repeated to a's shape, or a type is
            not f32, f16 or bf16.
        MemoryError: the context is full.
    """
