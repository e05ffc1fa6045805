"""Copies, parts of tensors, and views: the same data in another shape."""

import ggml

from .._api import api
from .._arena import Context, Tensor, unary


@api
def ggml_dup(ctx: Context, a: Tensor) -> Tensor:
    """Copies a tensor.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape.
    Returns:
        Contiguous tensor with the type, shape and values of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_dup", "DUP", a)


@api
def ggml_cpy(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Writes a over b, converted to b's type.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type, any shape.
        b: destination of any type and any shape with as many elements as a; if one of them is quantised, rows must
            be equally long or both contiguous. Values are not converted from one quantised type to another.
    Returns:
        View of b.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the numbers of elements differ, or there is no conversion.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return ctx.node("CPY", ggml.ggml_cpy(ctx.engine, a.engine, b.engine), a, b, n_dims=b.struct.n_dims)


@api
def ggml_cont(ctx: Context, a: Tensor) -> Tensor:
    """Copies a tensor to contiguous memory, for example a permuted or transposed one.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape.
    Returns:
        Contiguous tensor with the type, shape and values of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_cont", "CONT", a)


@api
def ggml_repeat(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Tiles a to the shape of b.

    Only the shape of b is used. If a has that shape already and no gradient, a itself is returned. The gradient
    flows to a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), [n0, n1, n2, n3].
        b: tensor of any type, [m0, m1, m2, m3]; each size is a multiple of the one of a.
    Returns:
        Tensor with the type of a and the shape of b, or a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a size of b is not a multiple, or a is quantised.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    if a.struct.ne[:] == b.struct.ne[:] and not a.struct.grad:
        return a
    return ctx.node("REPEAT", ggml.ggml_repeat(ctx.engine, a.engine, b.engine), a, b, n_dims=b.struct.n_dims)


def _update(ctx, name, a, b, nb1, nb2, nb3, offset):
    """The node that adds b to a part of a (ACC) or replaces the part by b (SET), by the engine's function `name`."""
    inplace = name.endswith("_inplace")
    result = getattr(ggml, name)(ctx.engine, a.engine, b.engine, nb1, nb2, nb3, offset)
    if max(nb1, nb2, nb3, offset) >= 1 << 31:
        given = f"nb1 is {nb1}, nb2 is {nb2}, nb3 is {nb3}, offset is {offset}"
        raise ValueError(f"{given}: each must be less than 2^31, because an i32 tensor stores it")
    params = ctx.ints(nb1, nb2, nb3, offset, inplace)
    return ctx.node("ACC" if "acc" in name else "SET", result, a, b, params, grad=not inplace)


@api
def ggml_acc(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """Copies a and adds b to a part of the copy.

    The part is the view [b.ne0, b.ne1, b.ne2, b.ne3] with the given strides and offset. Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32, any shape, contiguous.
        b: f32, any shape whose view lies within a.
        nb1: bytes between elements of the view along dimension 1.
        nb2: bytes between elements along dimension 2.
        nb3: bytes between elements along dimension 3.
        offset: where the view begins in a, in bytes. All four are 0 or more and less than 2^31.
    Returns:
        f32 tensor with the shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a type is not f32, a is not contiguous, a number is out of range, or the view does not lie
            within a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _update(ctx, "ggml_acc", a, b, nb1, nb2, nb3, offset)


@api
def ggml_acc_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """Adds b to a part of a, in a's own memory.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: f32, any shape, contiguous. The part is overwritten when the graph is computed.
        b: f32, any shape whose view lies within a.
        nb1: bytes between elements of the view along dimension 1.
        nb2: bytes between elements along dimension 2.
        nb3: bytes between elements along dimension 3.
        offset: where the view begins in a, in bytes. All four are 0 or more and less than 2^31.
    Returns:
        View of the whole of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a type is not f32, a is not contiguous, a number is out of range, or the view does not lie
            within a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return _update(ctx, "ggml_acc_inplace", a, b, nb1, nb2, nb3, offset)


@api
def ggml_set(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """Copies a and replaces a part of the copy by b.

    The part is the view [b.ne0, b.ne1, b.ne2, b.ne3] with the given strides and offset. Gradients flow to b and to
    the rest of a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous.
        b: same type as a, any shape whose view lies within a.
        nb1: bytes between elements of the view along dimension 1.
        nb2: bytes between elements along dimension 2.
        nb3: bytes between elements along dimension 3.
        offset: where the view begins in a, in bytes. All four are 0 or more and less than 2^31.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, a number is out of range, or the view
            does not lie within a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _update(ctx, "ggml_set", a, b, nb1, nb2, nb3, offset)


@api
def ggml_set_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """Replaces a part of a by b, in a's own memory.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous. The part is overwritten
            when the graph is computed.
        b: same type as a, any shape whose view lies within a.
        nb1: bytes between elements of the view along dimension 1.
        nb2: bytes between elements along dimension 2.
        nb3: bytes between elements along dimension 3.
        offset: where the view begins in a, in bytes. All four are 0 or more and less than 2^31.
    Returns:
        View of the whole of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, a number is out of range, or the view
            does not lie within a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return _update(ctx, "ggml_set_inplace", a, b, nb1, nb2, nb3, offset)


@api
def ggml_set_1d(ctx: Context, a: Tensor, b: Tensor, offset: int) -> Tensor:
    """Copies a and replaces consecutive elements of the copy by the vector b.

    This is ggml_set with the strides of a. Gradients flow to b and to the rest of a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous.
        b: same type as a, usually a vector [n].
        offset: where the elements begin in a, in bytes, less than 2^31.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, offset is out of range, or b reaches
            beyond a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _update(ctx, "ggml_set", a, b, *a.struct.nb[1:], offset)


@api
def ggml_set_1d_inplace(ctx: Context, a: Tensor, b: Tensor, offset: int) -> Tensor:
    """Replaces consecutive elements of a by the vector b, in a's own memory.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous. The elements are
            overwritten when the graph is computed.
        b: same type as a, usually a vector [n].
        offset: where the elements begin in a, in bytes, less than 2^31.
    Returns:
        View of the whole of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, offset is out of range, or b reaches
            beyond a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return _update(ctx, "ggml_set_inplace", a, b, *a.struct.nb[1:], offset)


@api
def ggml_set_2d(ctx: Context, a: Tensor, b: Tensor, nb1: int, offset: int) -> Tensor:
    """Copies a and replaces a rectangle of the copy by the matrix b.

    This is ggml_set with nb2 and nb3 of a. Gradients flow to b and to the rest of a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous.
        b: same type as a, usually a matrix [n, rows].
        nb1: bytes between rows of the rectangle, usually nb1 of a.
        offset: where the rectangle begins in a, in bytes. Both numbers are 0 or more and less than 2^31.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, a number is out of range, or b reaches
            beyond a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _update(ctx, "ggml_set", a, b, nb1, *a.struct.nb[2:], offset)


@api
def ggml_set_2d_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, offset: int) -> Tensor:
    """Replaces a rectangle of a by the matrix b, in a's own memory.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous. The rectangle is
            overwritten when the graph is computed.
        b: same type as a, usually a matrix [n, rows].
        nb1: bytes between rows of the rectangle, usually nb1 of a.
        offset: where the rectangle begins in a, in bytes. Both numbers are 0 or more and less than 2^31.
    Returns:
        View of the whole of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, a number is out of range, or b reaches
            beyond a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return _update(ctx, "ggml_set_inplace", a, b, nb1, *a.struct.nb[2:], offset)


@api
def ggml_reshape(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Gives a the shape of b, over a's own memory.

    Only the shape of b is used. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape, contiguous.
        b: tensor of any type and any shape with as many elements; rows of quantised types are whole blocks.
    Returns:
        View of a with the shape of b.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not contiguous, or the numbers of elements differ.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return ctx.node("RESHAPE", ggml.ggml_reshape(ctx.engine, a.engine, b.engine), a, n_dims=b.struct.n_dims)


def _reshape(ctx, a, *ne):
    result = getattr(ggml, f"ggml_reshape_{len(ne)}d")(ctx.engine, a.engine, *ne)
    return ctx.node("RESHAPE", result, a, n_dims=len(ne))


@api
def ggml_reshape_1d(ctx: Context, a: Tensor, ne0: int) -> Tensor:
    """Shows a contiguous tensor as a vector, over the same memory.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape, contiguous.
        ne0: number of elements, as many as a has.
    Returns:
        View [ne0] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not contiguous, or ne0 is not its number of elements.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _reshape(ctx, a, ne0)


@api
def ggml_reshape_2d(ctx: Context, a: Tensor, ne0: int, ne1: int) -> Tensor:
    """Shows a contiguous tensor as a matrix, over the same memory.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape, contiguous.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: number of rows; ne0 * ne1 is the number of elements of a.
    Returns:
        View [ne0, ne1] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not contiguous, or the sizes do not fit.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _reshape(ctx, a, ne0, ne1)


@api
def ggml_reshape_3d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int) -> Tensor:
    """Shows a contiguous tensor with three dimensions, over the same memory.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape, contiguous.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: rows per matrix.
        ne2: number of matrices; the product of the sizes is the number of elements of a.
    Returns:
        View [ne0, ne1, ne2] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not contiguous, or the sizes do not fit.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _reshape(ctx, a, ne0, ne1, ne2)


@api
def ggml_reshape_4d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int) -> Tensor:
    """Shows a contiguous tensor with four dimensions, over the same memory.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape, contiguous.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3; the product of the sizes is the number of elements of a.
    Returns:
        View [ne0, ne1, ne2, ne3] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not contiguous, or the sizes do not fit.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _reshape(ctx, a, ne0, ne1, ne2, ne3)


def _view(ctx, n_dims, a, *args):
    result = getattr(ggml, f"ggml_view_{n_dims}d")(ctx.engine, a.engine, *args)
    return ctx.node("VIEW", result, a, n_dims=n_dims)


@api
def ggml_view_1d(ctx: Context, a: Tensor, ne0: int, offset: int) -> Tensor:
    """Shows consecutive elements of a tensor's memory as a vector.

    The gradient flows to the elements of a that the view shows.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape.
        ne0: number of elements, whole blocks of a quantised type.
        offset: where the vector begins, in bytes from the data of a.
    Returns:
        View [ne0] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is negative or not a multiple of the element or block, or the view does not lie within
            a.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _view(ctx, 1, a, ne0, offset)


@api
def ggml_view_2d(ctx: Context, a: Tensor, ne0: int, ne1: int, nb1: int, offset: int) -> Tensor:
    """Shows a part of a tensor's memory as a matrix.

    The gradient flows to the elements of a that the view shows.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: number of rows.
        nb1: bytes from one row to the next.
        offset: where the matrix begins, in bytes from the data of a.
    Returns:
        View [ne0, ne1] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is negative or not a multiple of the element or block, or the view does not lie within
            a.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _view(ctx, 2, a, ne0, ne1, nb1, offset)


@api
def ggml_view_3d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, nb1: int, nb2: int, offset: int) -> Tensor:
    """Shows a part of a tensor's memory with three dimensions.

    The gradient flows to the elements of a that the view shows.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: rows per matrix.
        ne2: number of matrices.
        nb1: bytes from one row to the next.
        nb2: bytes from one matrix to the next.
        offset: where the view begins, in bytes from the data of a.
    Returns:
        View [ne0, ne1, ne2] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is negative or not a multiple of the element or block, or the view does not lie within
            a.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _view(ctx, 3, a, ne0, ne1, ne2, nb1, nb2, offset)


@api
def ggml_view_4d(
    ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int, nb1: int, nb2: int, nb3: int, offset: int
) -> Tensor:
    """Shows a part of a tensor's memory with four dimensions.

    The gradient flows to the elements of a that the view shows.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
        nb1: stride of dimension 1 in bytes.
        nb2: stride of dimension 2 in bytes.
        nb3: stride of dimension 3 in bytes.
        offset: where the view begins, in bytes from the data of a.
    Returns:
        View [ne0, ne1, ne2, ne3] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is negative or not a multiple of the element or block, or the view does not lie within
            a.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _view(ctx, 4, a, ne0, ne1, ne2, ne3, nb1, nb2, nb3, offset)


@api
def ggml_permute(ctx: Context, a: Tensor, axis0: int, axis1: int, axis2: int, axis3: int) -> Tensor:
    """Reorders the dimensions of a tensor, over the same memory: dimension i of a becomes dimension axis_i.

    NumPy's transpose takes the inverse permutation. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type, [n0, n1, n2, n3]; of a quantised type only with axis0 = 0.
        axis0: new place of dimension 0. The four axes are 0 to 3, each once.
        axis1: new place of dimension 1.
        axis2: new place of dimension 2.
        axis3: new place of dimension 3.
    Returns:
        View of a, generally not contiguous.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the axes are not a permutation of 0 to 3, or rows of a quantised type would become columns.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return ctx.node("PERMUTE", ggml.ggml_permute(ctx.engine, a.engine, axis0, axis1, axis2, axis3), a)


@api
def ggml_transpose(ctx: Context, a: Tensor) -> Tensor:
    """Exchanges dimensions 0 and 1, over the same memory.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type that is not quantised, [ne0, ne1, ne2, ne3].
    Returns:
        View [ne1, ne0, ne2, ne3] of a, generally not contiguous.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is quantised.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return unary(ctx, "ggml_transpose", "TRANSPOSE", a)
