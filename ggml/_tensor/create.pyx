"""Creating tensors, and finding those of a context."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, strncmp

from .._core cimport (
    GGML_MAX_NAME, GGML_OBJECT_TYPE_TENSOR, arg_buffer, arg_context, arg_extent, arg_float, arg_int32, arg_tensor,
    arg_text, arg_type, context_of, fail, ggml_context, ggml_object, ggml_tensor, new_tensor, node_append,
    node_in_place, node_init, outside, tuple_of, wrap_tensor,
)
from .._enums cimport GGML_OP_NONE, GGML_TYPE_F32, GGML_TYPE_I32

# ---- new tensors -----------------------------------------------------------------------------------------------------
def ggml_new_tensor(ctx, type, n_dims, ne):
    """Creates a tensor of 1 to 4 dimensions in a context.

    The tensor is contiguous and has no operation and no name. Its elements are undefined until they are written;
    they lie in the context's arena, or in its scratch buffer (ggml_set_scratch). In a context with no_alloc it has
    no data.

    Args:
        ctx: context that receives the tensor.
        type: element type, GGML_TYPE_*.
        n_dims: number of dimensions, 1 to 4.
        ne: sizes, innermost first: a list or tuple of integers, or an array of int64 with at least n_dims entries.
            ne[0] must be a multiple of the type's block (ggml_blck_size).
    Returns:
        Tensor of the given type; the dimensions beyond n_dims have size 1.
    Raises:
        TypeError: ctx is not a context handle, an argument is not an integer, or ne is None or not an array.
        ValueError: type is not a type, n_dims is not 1 to 4, ne is too short, a size is negative or ne[0] is not a
            multiple of the block, or the tensor is larger than the address space.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx is not a live context.
    See also:
        ggml_new_tensor_1d to ggml_new_tensor_4d take the sizes as separate arguments.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_tensor")
    cdef int n = arg_int32(n_dims, b"n_dims"), i
    cdef int64_t sizes[4]
    cdef void *p
    if n < 1 or n > 4:
        fail(ValueError, f"n_dims is {n}: need 1 to 4")
    if isinstance(ne, (list, tuple)):
        ne = outside(tuple_of, ne)
        if len(ne) < n:
            fail(ValueError, f"ne has {len(ne)} sizes: need {n}")
        for i in range(n):
            sizes[i] = arg_extent(ne[i], b"ne")
    else:
        arg_buffer(ne, b"ne", <size_t>n * 8, &p)
        if p == NULL:
            fail(TypeError, "ne is None: need an array of int64")
        memcpy(sizes, p, <size_t>n * 8)
    return wrap_tensor(new_tensor(c, arg_type(type, b"type"), n, sizes))

def ggml_new_tensor_1d(ctx, type, ne0):
    """Creates a one-dimensional tensor [ne0] in a context.

    The elements are undefined until they are written. In a context with no_alloc the tensor has no data.

    Args:
        ctx: context that receives the tensor.
        type: element type, GGML_TYPE_*.
        ne0: number of elements, 0 or more; a multiple of the type's block (ggml_blck_size).
    Returns:
        Contiguous tensor [ne0] of the given type.
    Raises:
        TypeError: ctx is not a context handle, or type or ne0 is not an integer.
        ValueError: type is not a type, or ne0 is negative, not a multiple of the block or too large.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_tensor_1d")
    cdef int64_t ne = arg_extent(ne0, b"ne0")
    return wrap_tensor(new_tensor(c, arg_type(type, b"type"), 1, &ne))

def ggml_new_tensor_2d(ctx, type, ne0, ne1):
    """Creates a matrix [ne0, ne1] in a context.

    The rows of ne0 elements follow each other without gaps. Their values are undefined until they are written. In a
    context with no_alloc the tensor has no data.

    Args:
        ctx: context that receives the tensor.
        type: element type, GGML_TYPE_*.
        ne0: elements of a row, 0 or more; a multiple of the type's block (ggml_blck_size).
        ne1: number of rows, 0 or more.
    Returns:
        Contiguous tensor [ne0, ne1] of the given type. In NumPy's order its shape is (ne1, ne0).
    Raises:
        TypeError: ctx is not a context handle, or type or a size is not an integer.
        ValueError: type is not a type, a size is negative, ne0 is not a multiple of the block, or the matrix is
            larger than the address space.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_tensor_2d")
    cdef int64_t[2] ne = [arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1")]
    return wrap_tensor(new_tensor(c, arg_type(type, b"type"), 2, ne))

def ggml_new_tensor_3d(ctx, type, ne0, ne1, ne2):
    """Creates a three-dimensional tensor [ne0, ne1, ne2] in a context.

    Its values are undefined until they are written. In a context with no_alloc the tensor has no data.

    Args:
        ctx: context that receives the tensor.
        type: element type, GGML_TYPE_*.
        ne0: elements of a row, 0 or more; a multiple of the type's block (ggml_blck_size).
        ne1: rows of a matrix, 0 or more.
        ne2: number of matrices, 0 or more.
    Returns:
        Contiguous tensor [ne0, ne1, ne2] of the given type.
    Raises:
        TypeError: ctx is not a context handle, or type or a size is not an integer.
        ValueError: type is not a type, a size is negative, ne0 is not a multiple of the block, or the product of
            the sizes is too large.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_tensor_3d")
    cdef int64_t[3] ne = [arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2")]
    return wrap_tensor(new_tensor(c, arg_type(type, b"type"), 3, ne))

def ggml_new_tensor_4d(ctx, type, ne0, ne1, ne2, ne3):
    """Creates a four-dimensional tensor [ne0, ne1, ne2, ne3] in a context.

    Its elements are contiguous, ne0 innermost, and undefined until they are written. In a context with no_alloc the
    tensor has no data.

    Args:
        ctx: context that receives the tensor.
        type: element type, GGML_TYPE_*.
        ne0: elements of a row, 0 or more; a multiple of the type's block (ggml_blck_size).
        ne1: size of dimension 1, 0 or more.
        ne2: size of dimension 2, 0 or more.
        ne3: size of dimension 3 (the outermost), 0 or more.
    Returns:
        Contiguous tensor [ne0, ne1, ne2, ne3] of the given type.
    Raises:
        TypeError: ctx is not a context handle, or type or a size is not an integer.
        ValueError: type is not a type, a size is negative, ne0 is not a multiple of the block, or the product of
            the sizes is too large.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_tensor_4d")
    cdef int64_t[4] ne = [
        arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3")]
    return wrap_tensor(new_tensor(c, arg_type(type, b"type"), 4, ne))

def ggml_dup_tensor(ctx, src):
    """Creates a tensor with the type and shape of another.

    Neither the elements nor the strides, the name or the operation of src are copied: the new tensor is contiguous.
    To copy the values in a graph use ggml_dup or ggml_cont.

    Args:
        ctx: context that receives the tensor.
        src: tensor of any shape and any type.
    Returns:
        Tensor with the type and shape of src, with undefined values. In a context with no_alloc it has no data.
    Raises:
        TypeError: ctx is not a context handle, or src is not a tensor pointer.
        ValueError: src is a NULL pointer or has an invalid field.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx or the context of src was freed.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_dup_tensor")
    cdef ggml_tensor *a = arg_tensor(src, b"src")
    return wrap_tensor(new_tensor(c, a.type, 4, a.ne))

def ggml_view_tensor(ctx, src):
    """Creates a tensor that shares the memory of another.

    The view has the type, shape and strides of src and is named after it ("<name> (view)"). It records no
    operation, so a graph that reads the view does not compute src for it; use ggml_view_4d or its siblings there.
    No gradient.

    Args:
        ctx: context that receives the tensor.
        src: tensor of any shape and any type; it may be a view itself, and it may have no data yet.
    Returns:
        Tensor over the data of src. Where src has no data yet, the view has none until an allocator places it.
    Raises:
        TypeError: ctx is not a context handle, or src is not a tensor pointer.
        ValueError: src is a NULL pointer or has an invalid field.
        MemoryError: the context is full.
        RuntimeError: ctx or the context of src was freed.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_view_tensor")
    cdef ggml_tensor *a = arg_tensor(src, b"src")
    cdef ggml_tensor d
    node_init(&d, GGML_OP_NONE, a.type, a.ne[0], a.ne[1], a.ne[2], a.ne[3])
    node_in_place(&d, a)
    return wrap_tensor(node_append(c, &d))

cdef ggml_tensor *new_constant(ggml_context *ctx, int type) except NULL:
    """A tensor [1] with data in the arena: a scratch buffer may be reused before the value is read."""
    cdef int64_t one = 1
    cdef uint8_t *scratch = ctx.scratch
    if ctx.no_alloc:
        fail(ValueError, "ctx was made with no_alloc: need memory for the value")
    ctx.scratch = NULL
    try:
        return new_tensor(ctx, type, 1, &one)
    finally:
        ctx.scratch = scratch

def ggml_new_i32(ctx, value):
    """Creates an i32 tensor [1] with a given value.

    The value always lies in the context's arena, also while a scratch buffer is set.

    Args:
        ctx: context that receives the tensor; it must not have no_alloc.
        value: 32-bit integer.
    Returns:
        i32 tensor [1] that holds value.
    Raises:
        TypeError: ctx is not a context handle, or value is not an integer.
        ValueError: value does not fit 32 bits, or the context has no_alloc.
        MemoryError: the context is full.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_i32")
    cdef int32_t number = arg_int32(value, b"value")
    cdef ggml_tensor *t = new_constant(c, GGML_TYPE_I32)
    (<int32_t *>t.data)[0] = number
    return wrap_tensor(t)

def ggml_new_f32(ctx, value):
    """Creates an f32 tensor [1] with a given value.

    The number always lies in the context's arena, also while a scratch buffer is set.

    Args:
        ctx: context that receives the tensor; it must not have no_alloc.
        value: number, rounded to float32.
    Returns:
        f32 tensor [1] that holds value.
    Raises:
        TypeError: ctx is not a context handle, or value is not a number.
        ValueError: the context has no_alloc.
        MemoryError: the context is full.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_f32")
    cdef float number = arg_float(value, b"value")
    cdef ggml_tensor *t = new_constant(c, GGML_TYPE_F32)
    (<float *>t.data)[0] = number
    return wrap_tensor(t)

# ---- walking a context -----------------------------------------------------------------------------------------------
cdef ggml_tensor *first_from(ggml_object *o) noexcept:
    """The first tensor in a list of objects; NULL if there is none."""
    while o != NULL and o.type != GGML_OBJECT_TYPE_TENSOR:
        o = o.next
    return <ggml_tensor *>(o + 1) if o != NULL else NULL

def ggml_get_first_tensor(ctx):
    """Finds the tensor that was created first in a context.

    With ggml_get_next_tensor it visits all tensors of a context in the order of their creation.

    Args:
        ctx: context.
    Returns:
        Tensor; a NULL pointer if the context has none.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
    return wrap_tensor(first_from(arg_context(ctx, b"ggml_get_first_tensor").first))

def ggml_get_next_tensor(ctx, tensor):
    """Finds the tensor that was created after a given one in the same context.

    Args:
        ctx: context of the tensor. It must be live, but the search uses the context in which tensor lies.
        tensor: tensor of any shape and any type, in a context.
    Returns:
        The tensor created next; a NULL pointer after the last one.
    Raises:
        TypeError: ctx is not a context handle, or tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or a struct that the caller owns instead of one in a context.
        RuntimeError: ctx or the context of tensor was freed.
    """
    arg_context(ctx, b"ggml_get_next_tensor")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if context_of(t) == NULL:
        fail(ValueError, "tensor is a struct of the caller: need one that lies in a context")
    return wrap_tensor(first_from((<ggml_object *>t - 1).next))

def ggml_get_tensor(ctx, name):
    """Finds a tensor of a context by its name.

    Args:
        ctx: context that is searched in the order in which its tensors were created.
        name: bytes or str, compared exactly. A stored name has at most 63 bytes, so a longer one is never found.
    Returns:
        The first tensor of that name; a NULL pointer if there is none.
    Raises:
        TypeError: ctx is not a context handle, or name is neither bytes nor str.
        ValueError: name cannot be encoded as UTF-8.
        RuntimeError: ctx is not a live context.
    See also:
        ggml_graph_get_tensor searches the tensors of a graph.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_get_tensor")
    cdef bytes wanted = arg_text(name, b"name")
    cdef ggml_tensor *t = first_from(c.first)
    while t != NULL and strncmp(t.name, wanted, GGML_MAX_NAME):
        t = first_from((<ggml_object *>t - 1).next)
    return wrap_tensor(t)
