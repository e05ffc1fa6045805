"""Copies, views, updates of a part, repeated and joined tensors, each with its gradient."""
from libc.stdint cimport INT32_MAX, int64_t
from libc.string cimport memcpy

from .._core cimport (
    arg_context, arg_extent, arg_int32, arg_size, arg_tensor, arg_type, fail, gg_add, gg_contiguous, gg_extent, gg_mul,
    gg_nbytes, gg_nelements, gg_row_size, gg_same_shape, gg_types, ggml_context, ggml_tensor, node1, node1_in_place,
    node_append, node_in_place, node_init, node_like, node_view, set_name, shape_text, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ACC, GGML_OP_CONCAT, GGML_OP_CONT, GGML_OP_CPY, GGML_OP_DUP, GGML_OP_PERMUTE, GGML_OP_REPEAT,
    GGML_OP_RESHAPE, GGML_OP_SET, GGML_OP_TRANSPOSE, GGML_OP_VIEW,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport concat_params, gg_update_params, permute_params, update_params, view_params
from .fill cimport zeros
from .reduce cimport sum_to_shape

cdef ggml_tensor *with_name(ggml_tensor *t, const char *name, const char *suffix) noexcept:
    """t, named name + suffix."""
    set_name(t, name, suffix)
    return t

cdef int check_blocks(int type, int64_t ne0) except -1:
    """Raises ValueError unless rows of ne0 elements consist of whole blocks of the type."""
    if ne0 % gg_types[type].blck:
        fail(ValueError,
             f"ne0 is {ne0}: need a multiple of {gg_types[type].name.decode()}'s block of {gg_types[type].blck}")
    return 0

# ---- copies ----------------------------------------------------------------------------------------------------------
def ggml_dup(ctx, a):
    """Copies a tensor: result = a.

    The result is contiguous even where a is a strided view. The gradient flows to a unchanged.

    Args:
        ctx: context that receives the result.
        a: tensor to copy, any type, any shape [ne0, ne1, ne2, ne3].
    Returns:
        Tensor of a's type and shape.
    Raises:
        MemoryError: the context is full.
    See also:
        ggml_cont, which makes the same copy; ggml_cast, which also converts.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_dup")
    return wrap_tensor(node1(c, GGML_OP_DUP, arg_tensor(a, b"a")))

def ggml_dup_inplace(ctx, a):
    """Adds a copy node whose result lies in the memory of a, so that no element changes.

    The result is a view of a with a's strides. Unlike ggml_view_tensor, it counts as an operation of the graph. The
    gradient flows to a unchanged.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: tensor whose memory is used, any type, any shape [ne0, ne1, ne2, ne3].
    Returns:
        View of a, with a's type, shape and strides.
    Raises:
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_dup_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_DUP, arg_tensor(a, b"a")))

def ggml_cpy(ctx, a, b):
    """Writes the elements of a over those of b, converted to the type of b.

    Elements are taken in order of their indices, so the shapes may differ. Conversion from a float to an integer
    truncates and saturates; conversion to a quantised type limits the scales of its blocks to the largest finite ones.
    The gradient flows to a only.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: source, any type, any shape [ne0, ne1, ne2, ne3].
        b: destination, any shape with as many elements as a, of any type that a's converts to. A quantised type
            converts to itself and to f32, f16, bf16 and f64; only these four floating-point types convert to a
            quantised one.
    Returns:
        View of b, which holds the converted elements once the graph has computed it.
    Raises:
        ValueError: the numbers of elements differ, there is no conversion, the type of b needs importance weights,
            or one side is quantised, the rows have different lengths and not both tensors are contiguous.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cpy")
    cdef ggml_tensor node
    cdef ggml_tensor *source = arg_tensor(a, b"a")
    cdef ggml_tensor *target = arg_tensor(b, b"b")
    node_like(&node, GGML_OP_CPY, target.type, target)
    node.src[0], node.src[1] = source, target
    node_in_place(&node, target)
    cdef ggml_tensor *t = node_append(c, &node)
    if target.name[0]:
        set_name(t, target.name, b" (copy of ")
        set_name(t, t.name, source.name)
        set_name(t, t.name, b")")
    else:
        set_name(t, source.name, b" (copy)")
    return wrap_tensor(t)

cdef ggml_tensor *cast(ggml_context *ctx, ggml_tensor *a, int type) except NULL:
    cdef ggml_tensor node
    check_blocks(type, a.ne[0])
    node_like(&node, GGML_OP_CPY, type, a)
    node.src[0] = a
    return with_name(node_append(ctx, &node), a.name, b" (copy)")

def ggml_cast(ctx, a, type_):
    """Converts a tensor to another type.

    The result is a contiguous copy, even where the types are equal. Conversion from a float to an integer truncates
    and saturates; conversion to a quantised type limits the scales of its blocks to the largest finite ones. The
    gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor to convert, any type, any shape [ne0, ne1, ne2, ne3].
        type_: type of the result, GGML_TYPE_*. A quantised type converts to itself and to f32, f16, bf16 and f64;
            only these four floating-point types convert to a quantised one.
    Returns:
        Tensor of type type_ in the shape of a.
    Raises:
        ValueError: type_ is not the number of a type, ne0 is not a multiple of its block, it needs importance weights
            (ggml_quantize_chunk makes those types), or there is no conversion.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cast")
    return wrap_tensor(cast(c, arg_tensor(a, b"a"), arg_type(type_, b"type_")))

cdef int init_reshaped(ggml_tensor *node, int op, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2,
                       int64_t ne3) except -1:
    """Initialises a node with the source a, of its type and number of elements but of another shape."""
    cdef size_t n
    node_init(node, op, a.type, ne0, ne1, ne2, ne3)
    cdef bint fits = (gg_mul(<size_t>ne0, <size_t>ne1, &n) and gg_mul(n, <size_t>ne2, &n)
                      and gg_mul(n, <size_t>ne3, &n))
    if not fits or n != <size_t>gg_nelements(a):
        fail(ValueError, f"a is {shape_text(a)}: {[ne0, ne1, ne2, ne3]} does not have as many elements")
    check_blocks(a.type, ne0)
    node.src[0] = a
    return 0

cdef ggml_tensor *cont(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2,
                       int64_t ne3) except NULL:
    """A contiguous copy in the given shape."""
    cdef ggml_tensor node
    init_reshaped(&node, GGML_OP_CONT, a, ne0, ne1, ne2, ne3)
    return with_name(node_append(ctx, &node), a.name, b" (cont)")

cdef ggml_tensor *contiguous(ggml_context *ctx, ggml_tensor *a) except NULL:
    return a if gg_contiguous(a) else node1(ctx, GGML_OP_CONT, a)

def ggml_cont(ctx, a):
    """Copies a tensor into contiguous memory.

    Makes a permuted, transposed or otherwise strided view usable for operations that need contiguous operands, such
    as ggml_reshape. A contiguous a is copied, too. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor to copy, any type, any shape [ne0, ne1, ne2, ne3].
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cont")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(cont(c, x, x.ne[0], x.ne[1], x.ne[2], x.ne[3]))

def ggml_cont_1d(ctx, a, ne0):
    """Copies a tensor into a contiguous vector.

    Elements keep the order of their indices: dimension 0 of a varies fastest. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of ne0 elements, any type, any shape [a.ne0, a.ne1, a.ne2, a.ne3].
        ne0: number of elements.
    Returns:
        Contiguous tensor [ne0] of a's type.
    Raises:
        ValueError: a has another number of elements, or a is quantised and either ne0 is not a multiple of the block
            or a is not contiguous and its rows have another length.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cont_1d")
    return wrap_tensor(cont(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), 1, 1, 1))

def ggml_cont_2d(ctx, a, ne0, ne1):
    """Copies a tensor into a contiguous matrix.

    Combines ggml_cont and ggml_reshape_2d in one node: elements keep the order of their indices. The gradient flows
    to a.

    Args:
        ctx: context that receives the result.
        a: tensor of ne0 * ne1 elements, any type, any shape [a.ne0, a.ne1, a.ne2, a.ne3].
        ne0: length of a row.
        ne1: number of rows.
    Returns:
        Contiguous tensor [ne0, ne1] of a's type.
    Raises:
        ValueError: a has another number of elements, or a is quantised and either ne0 is not a multiple of the block
            or a is not contiguous and its rows have another length.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cont_2d")
    return wrap_tensor(cont(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), 1, 1))

def ggml_cont_3d(ctx, a, ne0, ne1, ne2):
    """Copies a tensor into contiguous memory with three dimensions of the given sizes.

    Combines ggml_cont and ggml_reshape_3d in one node: elements keep the order of their indices. The gradient flows
    to a.

    Args:
        ctx: context that receives the result.
        a: tensor of ne0 * ne1 * ne2 elements, any type, any shape [a.ne0, a.ne1, a.ne2, a.ne3].
        ne0: length of a row.
        ne1: number of rows of a matrix.
        ne2: number of matrices.
    Returns:
        Contiguous tensor [ne0, ne1, ne2] of a's type.
    Raises:
        ValueError: a has another number of elements, or a is quantised and either ne0 is not a multiple of the block
            or a is not contiguous and its rows have another length.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cont_3d")
    return wrap_tensor(cont(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"),
                            arg_extent(ne2, b"ne2"), 1))

def ggml_cont_4d(ctx, a, ne0, ne1, ne2, ne3):
    """Copies a tensor into contiguous memory with four dimensions of the given sizes.

    Combines ggml_cont and ggml_reshape_4d in one node: elements keep the order of their indices. The gradient flows
    to a.

    Args:
        ctx: context that receives the result.
        a: tensor of ne0 * ne1 * ne2 * ne3 elements, any type, any shape [a.ne0, a.ne1, a.ne2, a.ne3].
        ne0: size of dimension 0, the length of a row.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
    Returns:
        Contiguous tensor [ne0, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: a has another number of elements, or a is quantised and either ne0 is not a multiple of the block
            or a is not contiguous and its rows have another length.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cont_4d")
    return wrap_tensor(cont(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"),
                            arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3")))

cdef int grad_copy(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """DUP, CPY, CONT, RESHAPE: dx = g in the shape of x. The destination of CPY gets no gradient."""
    cdef ggml_tensor *x = t.src[0]
    if not b.needs(x):
        return 0
    if not gg_same_shape(g, x):
        g = reshape(b.ctx, contiguous(b.ctx, g), x.ne[0], x.ne[1], x.ne[2], x.ne[3])
    return b.add(x, g)

# ---- RESHAPE ---------------------------------------------------------------------------------------------------------
cdef void set_contiguous_strides(ggml_tensor *node) noexcept:
    cdef int i
    node.nb[0] = <size_t>gg_types[node.type].bytes
    node.nb[1] = gg_row_size(node.type, node.ne[0])
    for i in range(1, 3):
        node.nb[i + 1] = node.nb[i] * <size_t>node.ne[i]

cdef ggml_tensor *reshape(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2,
                          int64_t ne3) except NULL:
    cdef ggml_tensor node
    if not gg_contiguous(a):
        fail(ValueError, f"a is {shape_text(a)}, not contiguous: use ggml_cont first")
    init_reshaped(&node, GGML_OP_RESHAPE, a, ne0, ne1, ne2, ne3)
    set_contiguous_strides(&node)
    node_view(&node, a, 0)
    return with_name(node_append(ctx, &node), a.name, b" (reshaped)")

def ggml_reshape(ctx, a, b):
    """Views a contiguous tensor in the shape of another one.

    No element is copied: the result shares the memory of a. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: contiguous tensor, any type, any shape with as many elements as b.
        b: tensor of any type whose shape [ne0, ne1, ne2, ne3] is used; its elements are not.
    Returns:
        View of a with a's type and b's shape.
    Raises:
        ValueError: a is not contiguous, the numbers of elements differ, or a is quantised and b's ne0 is no
            multiple of the block.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_reshape")
    cdef ggml_tensor *like = arg_tensor(b, b"b")
    return wrap_tensor(reshape(c, arg_tensor(a, b"a"), like.ne[0], like.ne[1], like.ne[2], like.ne[3]))

def ggml_reshape_1d(ctx, a, ne0):
    """Views a contiguous tensor as a vector.

    No element is copied: the result shares the memory of a. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: contiguous tensor of ne0 elements, any type, any shape.
        ne0: number of elements.
    Returns:
        View [ne0] of a, of the same type.
    Raises:
        ValueError: a is not contiguous, it has another number of elements, or it is quantised and ne0 is no
            multiple of the block.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_reshape_1d")
    return wrap_tensor(reshape(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), 1, 1, 1))

def ggml_reshape_2d(ctx, a, ne0, ne1):
    """Views a contiguous tensor as a matrix.

    No element is copied: the result shares the memory of a. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: contiguous tensor of ne0 * ne1 elements, any type, any shape.
        ne0: length of a row.
        ne1: number of rows.
    Returns:
        View [ne0, ne1] of a, of the same type.
    Raises:
        ValueError: a is not contiguous, it has another number of elements, or it is quantised and ne0 is no
            multiple of the block.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_reshape_2d")
    return wrap_tensor(reshape(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), 1, 1))

def ggml_reshape_3d(ctx, a, ne0, ne1, ne2):
    """Views a contiguous tensor with three dimensions of the given sizes.

    No element is copied: the result shares the memory of a. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: contiguous tensor of ne0 * ne1 * ne2 elements, any type, any shape.
        ne0: length of a row.
        ne1: number of rows of a matrix.
        ne2: number of matrices.
    Returns:
        View [ne0, ne1, ne2] of a, of the same type.
    Raises:
        ValueError: a is not contiguous, it has another number of elements, or it is quantised and ne0 is no
            multiple of the block.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_reshape_3d")
    return wrap_tensor(reshape(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"),
                               arg_extent(ne2, b"ne2"), 1))

def ggml_reshape_4d(ctx, a, ne0, ne1, ne2, ne3):
    """Views a contiguous tensor with four dimensions of the given sizes.

    No element is copied: the result shares the memory of a. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: contiguous tensor of ne0 * ne1 * ne2 * ne3 elements, any type, any shape.
        ne0: size of dimension 0, the length of a row.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
    Returns:
        View [ne0, ne1, ne2, ne3] of a, of the same type.
    Raises:
        ValueError: a is not contiguous, it has another number of elements, or it is quantised and ne0 is no
            multiple of the block.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_reshape_4d")
    return wrap_tensor(reshape(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"),
                               arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3")))

# ---- VIEW ------------------------------------------------------------------------------------------------------------
cdef ggml_tensor *view(ggml_context *ctx, ggml_tensor *a, const int64_t *ne, const size_t *nb,
                       size_t offset) except NULL:
    cdef ggml_tensor node
    cdef int i
    cdef size_t end, bytes = <size_t>gg_types[a.type].bytes
    node_init(&node, GGML_OP_VIEW, a.type, ne[0], ne[1], ne[2], ne[3])
    memcpy(node.nb, nb, sizeof(node.nb))
    check_blocks(a.type, ne[0])
    for i in range(1, 4):
        if ne[i] > 1 and nb[i] % bytes:
            fail(ValueError, f"nb{i} is {nb[i]}: need a multiple of {gg_types[a.type].name.decode()}'s {bytes} bytes")
    if offset % bytes:
        fail(ValueError, f"offset is {offset}: need a multiple of {gg_types[a.type].name.decode()}'s {bytes} bytes")
    node_view(&node, a, offset)
    if not (gg_extent(&node, &end) and gg_add(end, node.view_offs, &end)) or end > gg_nbytes(node.view_src):
        fail(ValueError,
             f"a is {shape_text(a)}: the view {[ne[0], ne[1], ne[2], ne[3]]} at offset {offset} ends beyond it")
    view_params(&node).offset = <int64_t>offset
    node.src[0] = a
    return with_name(node_append(ctx, &node), a.name, b" (view)")

cdef ggml_tensor *view_slice(ggml_context *ctx, ggml_tensor *a, int dim, int64_t start, int64_t n) except NULL:
    cdef int64_t[4] ne = [a.ne[0], a.ne[1], a.ne[2], a.ne[3]]
    ne[dim] = n
    return view(ctx, a, ne, a.nb, <size_t>start * a.nb[dim])

cdef ggml_tensor *view_rows(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
                            int n_strides, size_t nb1, size_t nb2, size_t nb3, size_t offset) except NULL:
    """A view whose rows are contiguous, with the first n_strides of nb1 to nb3.

    The other strides are those of a view that is contiguous in these dimensions.
    """
    cdef int64_t[4] ne = [ne0, ne1, ne2, ne3]
    cdef size_t[4] nb = [<size_t>gg_types[a.type].bytes, nb1, nb2, nb3]
    cdef int i
    # If a product overflows, then it is the stride of a dimension of size 1, or the view is too large anyway.
    for i in range(n_strides + 1, 4):
        nb[i] = nb[i - 1] * <size_t>ne[i - 1] if i > 1 else gg_row_size(a.type, ne0)
    return view(ctx, a, ne, nb, offset)

def ggml_view_1d(ctx, a, ne0, offset):
    """Views consecutive elements of a tensor's memory as a vector.

    No element is copied. If a is a view itself, the result is a view of the tensor that owns the memory, and offset
    counts from where a begins. The gradient flows to the elements of a that the view covers.

    Args:
        ctx: context that receives the view.
        a: tensor to look into, any type, any shape.
        ne0: number of elements; for a quantised type a multiple of its block.
        offset: bytes from the start of a to the first element, a multiple of the element's (block's) size.
    Returns:
        View [ne0] of a, of the same type.
    Raises:
        ValueError: the view ends beyond the memory, or ne0 or offset does not fit the type.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_view_1d")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(view_rows(c, x, arg_extent(ne0, b"ne0"), 1, 1, 1, 0, 0, 0, 0, arg_size(offset, b"offset")))

def ggml_view_2d(ctx, a, ne0, ne1, nb1, offset):
    """Views part of a tensor's memory as a matrix whose rows are nb1 bytes apart.

    No element is copied. Elements of a row are adjacent. If a is a view itself, offset counts from where a begins.
    The gradient flows to the elements of a that the view covers.

    Args:
        ctx: context that receives the view.
        a: tensor to look into, any type, any shape.
        ne0: length of a row; for a quantised type a multiple of its block.
        ne1: number of rows.
        nb1: bytes from one row to the next; a multiple of the element's (block's) size where ne1 is more than 1.
        offset: bytes from the start of a to the first element, a multiple of the element's (block's) size.
    Returns:
        View [ne0, ne1] of a, of the same type.
    Raises:
        ValueError: the view ends beyond the memory, or ne0, nb1 or offset does not fit the type.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_view_2d")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(view_rows(c, x, arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), 1, 1, 1,
                                 arg_size(nb1, b"nb1"), 0, 0, arg_size(offset, b"offset")))

def ggml_view_3d(ctx, a, ne0, ne1, ne2, nb1, nb2, offset):
    """Views part of a tensor's memory as matrices with the strides nb1 and nb2.

    No element is copied. Elements of a row are adjacent. If a is a view itself, offset counts from where a begins.
    The gradient flows to the elements of a that the view covers.

    Args:
        ctx: context that receives the view.
        a: tensor to look into, any type, any shape.
        ne0: length of a row; for a quantised type a multiple of its block.
        ne1: number of rows of a matrix.
        ne2: number of matrices.
        nb1: bytes from one row to the next.
        nb2: bytes from one matrix to the next.
        offset: bytes from the start of a to the first element; like the strides of dimensions larger than 1 a
            multiple of the element's (block's) size.
    Returns:
        View [ne0, ne1, ne2] of a, of the same type.
    Raises:
        ValueError: the view ends beyond the memory, or ne0, a stride or offset does not fit the type.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_view_3d")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(view_rows(c, x, arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), 1, 2,
                                 arg_size(nb1, b"nb1"), arg_size(nb2, b"nb2"), 0, arg_size(offset, b"offset")))

def ggml_view_4d(ctx, a, ne0, ne1, ne2, ne3, nb1, nb2, nb3, offset):
    """Views part of a tensor's memory with four dimensions and the strides nb1, nb2 and nb3.

    No element is copied. Elements of a row are adjacent. If a is a view itself, offset counts from where a begins.
    The gradient flows to the elements of a that the view covers.

    Args:
        ctx: context that receives the view.
        a: tensor to look into, any type, any shape.
        ne0: length of a row; for a quantised type a multiple of its block.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
        nb1: stride of dimension 1 in bytes.
        nb2: stride of dimension 2 in bytes.
        nb3: stride of dimension 3 in bytes.
        offset: bytes from the start of a to the first element; like the strides of dimensions larger than 1 a
            multiple of the element's (block's) size.
    Returns:
        View [ne0, ne1, ne2, ne3] of a, of the same type.
    Raises:
        ValueError: the view ends beyond the memory, or ne0, a stride or offset does not fit the type.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_view_4d")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(view_rows(c, x, arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"),
                                 arg_extent(ne3, b"ne3"), 3, arg_size(nb1, b"nb1"), arg_size(nb2, b"nb2"),
                                 arg_size(nb3, b"nb3"), arg_size(offset, b"offset")))

cdef int grad_view(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = some elements of the memory of x: dx = g at these elements, else 0.

    g is added to a vector of zeros that is laid out like the memory of x, but in f32. A view of the vector with the
    strides of x is dx.
    """
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *vector
    cdef ggml_tensor *g_rows
    cdef size_t[4] nb
    cdef size_t bytes = <size_t>gg_types[x.type].bytes, end = gg_nbytes(x)
    cdef size_t offset = t.view_offs - (x.view_offs if x.view_src != NULL else 0)
    cdef int64_t i
    if not b.needs(x):
        return 0
    end = max(end, offset + gg_nbytes(t))     # a view may cover elements of the memory that x itself skips
    vector = zeros(b.ctx, <int64_t>(end // bytes), 1, 1, 1)
    for i in range(4):
        nb[i] = t.nb[i] // bytes * 4
    offset = offset // bytes * 4
    if t.nb[0] == bytes or t.ne[0] < 2:
        vector = update(b.ctx, GGML_OP_ACC, vector, g, nb[1], nb[2], nb[3], offset, True)
    else:     # ACC adds to contiguous rows only, so each element becomes a row
        for i in range(t.ne[3]):
            g_rows = view(b.ctx, g, [1, g.ne[0], g.ne[1], g.ne[2]], [4, g.nb[0], g.nb[1], g.nb[2]],
                          <size_t>i * g.nb[3])
            vector = update(b.ctx, GGML_OP_ACC, vector, g_rows, nb[0], nb[1], nb[2], offset + <size_t>i * nb[3], True)
    for i in range(4):
        nb[i] = x.nb[i] // bytes * 4
    return b.add(x, view(b.ctx, vector, x.ne, nb, 0))

# ---- PERMUTE, TRANSPOSE ----------------------------------------------------------------------------------------------
cdef int check_not_quantised(const ggml_tensor *a) except -1:
    if gg_types[a.type].quantized:
        fail(ValueError, f"a is {shape_text(a)}: quantised rows can't become columns")
    return 0

cdef ggml_tensor *permute(ggml_context *ctx, ggml_tensor *a, int axis0, int axis1, int axis2, int axis3) except NULL:
    cdef ggml_tensor node
    cdef int[4] axes = [axis0, axis1, axis2, axis3]
    cdef int i, seen = 0
    for i in range(4):
        seen |= 1 << axes[i] if 0 <= axes[i] < 4 else 0
    if seen != 0b1111:
        fail(ValueError, f"axes are {axis0}, {axis1}, {axis2}, {axis3}: need 0 to 3, each once")
    if axis0:
        check_not_quantised(a)
    node_init(&node, GGML_OP_PERMUTE, a.type, 0, 0, 0, 0)
    for i in range(4):
        node.ne[axes[i]], node.nb[axes[i]] = a.ne[i], a.nb[i]
        permute_params(&node).axes[i] = axes[i]
    node.src[0] = a
    node_view(&node, a, 0)
    return with_name(node_append(ctx, &node), a.name, b" (permuted)")

def ggml_permute(ctx, a, axis0, axis1, axis2, axis3):
    """Views a tensor with its dimensions in another order: dimension i of a becomes dimension axis_i of the result.

    No element is copied; ggml_cont makes the result contiguous. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: tensor, any shape [ne0, ne1, ne2, ne3], any type; a quantised one keeps its dimension 0.
        axis0: place of dimension 0 of a, 0 to 3.
        axis1: place of dimension 1.
        axis2: place of dimension 2.
        axis3: place of dimension 3.
    Returns:
        View of a with result.ne[axis_i] = a.ne[i], of the same type.
    Raises:
        ValueError: the axes are not 0 to 3, each exactly once, or a is quantised and axis0 is not 0.
        MemoryError: the context is full.
    Example:
        [head_dim, n_heads, n_tokens] to [head_dim, n_tokens, n_heads]: ggml_permute(ctx, a, 0, 2, 1, 3)
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_permute")
    return wrap_tensor(permute(c, arg_tensor(a, b"a"), arg_int32(axis0, b"axis0"), arg_int32(axis1, b"axis1"),
                               arg_int32(axis2, b"axis2"), arg_int32(axis3, b"axis3")))

cdef int grad_permute(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """dx = g with the inverse permutation."""
    cdef int[4] inverse
    cdef int i
    for i in range(4):
        inverse[permute_params(t).axes[i]] = i
    return b.add(t.src[0], permute(b.ctx, g, inverse[0], inverse[1], inverse[2], inverse[3]))

cdef ggml_tensor *transpose(ggml_context *ctx, ggml_tensor *a) except NULL:
    cdef ggml_tensor node
    check_not_quantised(a)
    node_init(&node, GGML_OP_TRANSPOSE, a.type, a.ne[1], a.ne[0], a.ne[2], a.ne[3])
    node.nb[0], node.nb[1], node.nb[2], node.nb[3] = a.nb[1], a.nb[0], a.nb[2], a.nb[3]
    node.src[0] = a
    node_view(&node, a, 0)
    return with_name(node_append(ctx, &node), a.name, b" (transposed)")

def ggml_transpose(ctx, a):
    """Views the matrices of a tensor with rows and columns exchanged.

    No element is copied; ggml_cont makes the result contiguous. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
    Returns:
        View [ne1, ne0, ne2, ne3] of a, of the same type.
    Raises:
        ValueError: a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_transpose")
    return wrap_tensor(transpose(c, arg_tensor(a, b"a")))

cdef int grad_transpose(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x^T: dx = g^T."""
    return b.add(t.src[0], transpose(b.ctx, g))

# ---- ACC, SET --------------------------------------------------------------------------------------------------------
cdef ggml_tensor *update(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b, size_t nb1, size_t nb2, size_t nb3,
                         size_t offset, bint inplace) except NULL:
    cdef ggml_tensor node
    cdef gg_update_params *q = update_params(&node)
    cdef size_t[4] params = [nb1, nb2, nb3, offset]
    cdef int i
    node_like(&node, op, a.type, a)
    for i in range(4):
        if params[i] > INT32_MAX and i < 3 and b.ne[i + 1] == 1:
            params[i] = 0        # the stride of a dimension of size 1 is not used
        if params[i] > INT32_MAX:
            fail(ValueError, f"{('nb1', 'nb2', 'nb3', 'offset')[i]} is {params[i]}: need less than 2 GiB")
        if i < 3:
            q.nb[i] = <int>params[i]
        else:
            q.offset = <int>params[i]
    q.inplace = inplace
    node.src[0], node.src[1] = a, b
    if inplace:
        node_in_place(&node, a)
    return node_append(ctx, &node)

cdef object update_of(object ctx, const char *name, int op, object a, object b, object nb1, object nb2, object nb3,
                      object offset, bint inplace):
    """What the public function `name` returns: a with b added to, or stored in, a part of it."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef ggml_tensor *y = arg_tensor(b, b"b")
    return wrap_tensor(update(c, op, x, y, arg_size(nb1, b"nb1"), arg_size(nb2, b"nb2"), arg_size(nb3, b"nb3"),
                              arg_size(offset, b"offset"), inplace))

cdef object set_1d_of(object ctx, const char *name, object a, object b, object offset, bint inplace):
    """What the public function `name` returns: a with b stored in a part of it that has the strides of a."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef ggml_tensor *y = arg_tensor(b, b"b")
    return wrap_tensor(update(c, GGML_OP_SET, x, y, x.nb[1], x.nb[2], x.nb[3], arg_size(offset, b"offset"), inplace))

cdef object set_2d_of(object ctx, const char *name, object a, object b, object nb1, object offset, bint inplace):
    """What the public function `name` returns: a with b stored in a part of it whose rows are nb1 bytes apart."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef ggml_tensor *y = arg_tensor(b, b"b")
    return wrap_tensor(update(c, GGML_OP_SET, x, y, arg_size(nb1, b"nb1"), x.nb[2], x.nb[3],
                              arg_size(offset, b"offset"), inplace))

def ggml_acc(ctx, a, b, nb1, nb2, nb3, offset):
    """Adds b to a part of a copy of a: result = a; view(result, nb1, nb2, nb3, offset) += b.

    The part has b's shape and the given strides within the result, which is contiguous. The gradient flows to a
    and, from that part, to b.

    Args:
        ctx: context that receives the result.
        a: f32, [ne0, ne1, ne2, ne3].
        b: f32, any shape that fits into the result from offset on.
        nb1: bytes between rows of the part, less than 2 GiB, a multiple of 4. The stride of a dimension of size 1
            is not used.
        nb2: stride of the part's dimension 2 in bytes, likewise.
        nb3: stride of the part's dimension 3 in bytes, likewise.
        offset: bytes from the start of the result to the part, less than 2 GiB, a multiple of 4.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        ValueError: a type is not f32, the part ends beyond the result, or a stride or offset is invalid.
        MemoryError: the context is full.
    """
    return update_of(ctx, b"ggml_acc", GGML_OP_ACC, a, b, nb1, nb2, nb3, offset, False)

def ggml_acc_inplace(ctx, a, b, nb1, nb2, nb3, offset):
    """Adds b to a part of a in a's own memory: view(a, nb1, nb2, nb3, offset) += b.

    Elements of a outside the part stay as they are. The gradient flows to a and, from the part, to b.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous f32, [ne0, ne1, ne2, ne3]; it is modified.
        b: f32, any shape that fits into a from offset on.
        nb1: bytes between rows of the part, less than 2 GiB, a multiple of 4. The stride of a dimension of size 1
            is not used.
        nb2: stride of the part's dimension 2 in bytes, likewise.
        nb3: stride of the part's dimension 3 in bytes, likewise.
        offset: bytes from the start of a to the part, less than 2 GiB, a multiple of 4.
    Returns:
        View of all of a, after the addition.
    Raises:
        ValueError: a type is not f32, a is not contiguous, the part ends beyond a, or a stride or offset is
            invalid.
        MemoryError: the context is full.
    """
    return update_of(ctx, b"ggml_acc_inplace", GGML_OP_ACC, a, b, nb1, nb2, nb3, offset, True)

def ggml_set(ctx, a, b, nb1, nb2, nb3, offset):
    """Replaces a part of a copy of a by b: result = a; view(result, nb1, nb2, nb3, offset) = b.

    The part has b's shape and the given strides within the result, which is contiguous. The gradient flows to b
    from the part and to a from everything else.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        b: tensor of a's type, any shape that fits into the result from offset on.
        nb1: bytes between rows of the part, less than 2 GiB, a multiple of the element's size. The stride of a
            dimension of size 1 is not used.
        nb2: stride of the part's dimension 2 in bytes, likewise.
        nb3: stride of the part's dimension 3 in bytes, likewise.
        offset: bytes from the start of the result to the part, less than 2 GiB, a multiple of the element's size.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        ValueError: the types differ or are quantised, the part ends beyond the result, or a stride or offset is
            invalid.
        MemoryError: the context is full.
    """
    return update_of(ctx, b"ggml_set", GGML_OP_SET, a, b, nb1, nb2, nb3, offset, False)

def ggml_set_inplace(ctx, a, b, nb1, nb2, nb3, offset):
    """Stores b in a part of a without copying a: view(a, nb1, nb2, nb3, offset) = b.

    The gradient flows to b from the part and to a from everything else.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous tensor of any type that is not quantised, [ne0, ne1, ne2, ne3]; the part is overwritten.
        b: tensor of a's type, any shape that fits into a from offset on.
        nb1: bytes between rows of the part, less than 2 GiB, a multiple of the element's size. The stride of a
            dimension of size 1 is not used.
        nb2: stride of the part's dimension 2 in bytes, likewise.
        nb3: stride of the part's dimension 3 in bytes, likewise.
        offset: bytes from the start of a to the part, less than 2 GiB, a multiple of the element's size.
    Returns:
        View of all of a, after b was stored.
    Raises:
        ValueError: the types differ or are quantised, a is not contiguous, the part ends beyond a, or a stride or
            offset is invalid.
        MemoryError: the context is full.
    """
    return update_of(ctx, b"ggml_set_inplace", GGML_OP_SET, a, b, nb1, nb2, nb3, offset, True)

def ggml_set_1d(ctx, a, b, offset):
    """Replaces consecutive elements of a copy of a by the vector b.

    The gradient flows to b from these elements and to a from all others.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        b: vector [n] of a's type. Further dimensions of b have the strides nb[1] to nb[3] of a.
        offset: bytes from the start of the result to the first element replaced, less than 2 GiB, a multiple of the
            element's size.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        ValueError: the types differ or are quantised, b ends beyond the result, or offset is invalid.
        MemoryError: the context is full.
    """
    return set_1d_of(ctx, b"ggml_set_1d", a, b, offset, False)

def ggml_set_1d_inplace(ctx, a, b, offset):
    """Stores the vector b in consecutive elements of a itself.

    The gradient flows to b from these elements and to a from all others.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous tensor of any type that is not quantised, [ne0, ne1, ne2, ne3]; it is modified.
        b: vector [n] of a's type. Further dimensions of b have the strides nb[1] to nb[3] of a.
        offset: bytes from the start of a to the first element overwritten, less than 2 GiB, a multiple of the
            element's size.
    Returns:
        View of all of a, after b was stored.
    Raises:
        ValueError: the types differ or are quantised, a is not contiguous, b ends beyond a, or offset is invalid.
        MemoryError: the context is full.
    """
    return set_1d_of(ctx, b"ggml_set_1d_inplace", a, b, offset, True)

def ggml_set_2d(ctx, a, b, nb1, offset):
    """Replaces a rectangle of a copy of a by the matrix b, whose rows are nb1 bytes apart there.

    The gradient flows to b from the rectangle and to a from everything else.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        b: matrix [n, m] of a's type. Further dimensions of b have the strides nb[2] and nb[3] of a.
        nb1: bytes between rows of the rectangle, less than 2 GiB, a multiple of the element's size.
        offset: bytes from the start of the result to the rectangle, less than 2 GiB, a multiple of the element's
            size.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        ValueError: the types differ or are quantised, the rectangle ends beyond the result, or nb1 or offset is
            invalid.
        MemoryError: the context is full.
    """
    return set_2d_of(ctx, b"ggml_set_2d", a, b, nb1, offset, False)

def ggml_set_2d_inplace(ctx, a, b, nb1, offset):
    """Stores the matrix b in a rectangle of a itself, with rows nb1 bytes apart.

    The gradient flows to b from the rectangle and to a from everything else.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous tensor of any type that is not quantised, [ne0, ne1, ne2, ne3]; it is modified.
        b: matrix [n, m] of a's type. Further dimensions of b have the strides nb[2] and nb[3] of a.
        nb1: bytes between rows of the rectangle, less than 2 GiB, a multiple of the element's size.
        offset: bytes from the start of a to the rectangle, less than 2 GiB, a multiple of the element's size.
    Returns:
        View of all of a, after b was stored.
    Raises:
        ValueError: the types differ or are quantised, a is not contiguous, the rectangle ends beyond a, or nb1 or
            offset is invalid.
        MemoryError: the context is full.
    """
    return set_2d_of(ctx, b"ggml_set_2d_inplace", a, b, nb1, offset, True)

cdef int grad_update(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x with y added to (ACC) or stored in (SET) a part: dy = the part of g, dx = g, for SET with the part 0."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    cdef ggml_tensor *no_part
    cdef size_t[4] nb
    cdef size_t bytes = <size_t>gg_types[t.type].bytes, offset = <size_t>update_params(t).offset // bytes * 4
    cdef int i
    nb[0] = 4
    for i in range(3):
        nb[i + 1] = <size_t>update_params(t).nb[i] // bytes * 4
    g = contiguous(b.ctx, g)
    if b.needs(y):
        b.add(y, view(b.ctx, g, y.ne, nb, offset))
    if b.needs(x) and t.op == GGML_OP_SET:
        no_part = zeros(b.ctx, y.ne[0], y.ne[1], y.ne[2], y.ne[3])
        g = update(b.ctx, GGML_OP_SET, g, no_part, nb[1], nb[2], nb[3], offset, False)
    return b.add(x, g)

# ---- REPEAT, CONCAT --------------------------------------------------------------------------------------------------
cdef ggml_tensor *repeat(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2,
                         int64_t ne3) except NULL:
    cdef ggml_tensor node
    node_init(&node, GGML_OP_REPEAT, a.type, ne0, ne1, ne2, ne3)
    node.src[0] = a
    return node_append(ctx, &node)

cdef ggml_tensor *broadcast_to(ggml_context *ctx, ggml_tensor *a, ggml_tensor *like) except NULL:
    return a if gg_same_shape(a, like) else repeat(ctx, a, like.ne[0], like.ne[1], like.ne[2], like.ne[3])

def ggml_repeat(ctx, a, b):
    """Tiles a tensor to the shape of another one: result[i] = a[i mod a.ne] in each dimension.

    The gradient with respect to a is the sum over the repetitions.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        b: tensor of any type whose shape is used, [k0 * ne0, k1 * ne1, k2 * ne2, k3 * ne3] with whole numbers k.
    Returns:
        Tensor of a's type and b's shape.
    Raises:
        ValueError: a is quantised, or a dimension of b is not a multiple of a's.
        MemoryError: the context is full.
    See also:
        ggml_repeat_back, the sum over the repetitions.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_repeat")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef ggml_tensor *like = arg_tensor(b, b"b")
    return wrap_tensor(repeat(c, x, like.ne[0], like.ne[1], like.ne[2], like.ne[3]))

def ggml_repeat_4d(ctx, a, ne0, ne1, ne2, ne3):
    """Tiles a tensor to the sizes given: result[i] = a[i mod a.ne] in each dimension.

    The gradient with respect to a is the sum over the repetitions.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, any shape whose sizes divide ne0 to ne3.
        ne0: size of dimension 0 of the result.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
    Returns:
        Tensor [ne0, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: a is quantised, or a size is not a multiple of a's.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_repeat_4d")
    return wrap_tensor(repeat(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"),
                              arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3")))

cdef int grad_repeat(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = the repeats of x: dx = g summed over the repeats."""
    return b.add(t.src[0], sum_to_shape(b.ctx, g, t.src[0]))

cdef ggml_tensor *concat(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b, int dim) except NULL:
    cdef ggml_tensor node
    node_like(&node, GGML_OP_CONCAT, a.type, a)
    if 0 <= dim < 4:
        node.ne[dim] += b.ne[dim]
    concat_params(&node).dim = dim
    node.src[0], node.src[1] = a, b
    return node_append(ctx, &node)

def ggml_concat(ctx, a, b, dim):
    """Joins two tensors along one dimension, the elements of a first.

    The gradient flows to a and b, to each from its part.

    Args:
        ctx: context that receives the result.
        a: any type, [ne0, ne1, ne2, ne3].
        b: tensor of a's type, with the shape of a except in dimension dim.
        dim: dimension to join along, 0 to 3.
    Returns:
        Tensor of a's type with result.ne[dim] = a.ne[dim] + b.ne[dim], otherwise a's shape.
    Raises:
        ValueError: dim is not 0 to 3, the types differ, or another dimension differs.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_concat")
    return wrap_tensor(concat(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_int32(dim, b"dim")))

cdef int grad_concat(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x and y joined along a dimension: dx and dy are slices of g."""
    cdef int dim = concat_params(t).dim
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    if b.needs(x):
        b.add(x, view_slice(b.ctx, g, dim, 0, x.ne[dim]))
    if b.needs(y):
        b.add(y, view_slice(b.ctx, g, dim, x.ne[dim], y.ne[dim]))
    return 0

gradients[GGML_OP_DUP] = gradients[GGML_OP_CPY] = gradients[GGML_OP_CONT] = gradients[GGML_OP_RESHAPE] = grad_copy
gradients[GGML_OP_VIEW] = grad_view
gradients[GGML_OP_PERMUTE] = grad_permute
gradients[GGML_OP_TRANSPOSE] = grad_transpose
gradients[GGML_OP_ACC] = gradients[GGML_OP_SET] = grad_update
gradients[GGML_OP_REPEAT] = grad_repeat
gradients[GGML_OP_CONCAT] = grad_concat
