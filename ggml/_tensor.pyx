"""Making tensors, asking about them, reading and writing their elements."""
import ctypes

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memcpy, memset, strncmp

from ._core cimport (
    GGML_MAX_NAME, GGML_OBJECT_TYPE_TENSOR, GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_LOSS, GGML_TENSOR_FLAG_OUTPUT,
    GGML_TENSOR_FLAG_PARAM, GGML_TYPE_COUNT, arg_buffer, arg_context, arg_extent, arg_float, arg_int, arg_int32,
    arg_tensor, arg_text, arg_type, arg_type_number, check_data, context_of, engine, enter, fail, gg_bf16_to_f32,
    gg_can_repeat, gg_contiguous, gg_contiguous_n, gg_extent, gg_f16_to_f32, gg_f32_to_bf16, gg_f32_to_f16, gg_is_empty,
    gg_nelements, gg_nrows, gg_row_size, gg_same_shape, gg_type_ok, gg_types, ggml_context, ggml_object, ggml_tensor,
    new_tensor, node_append, node_in_place, node_init, set_name, wrap_handle, wrap_tensor,
)
from ._enums cimport (
    GGML_OP_GLU, GGML_OP_UNARY, GGML_TYPE_BF16, GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_F64, GGML_TYPE_I16,
    GGML_TYPE_I32, GGML_TYPE_I64, GGML_TYPE_I8,
)

cdef extern from "runtime/engine.h" nogil:
    enum: GGML_MEM_ALIGN

cdef tuple GLU_NAMES = (b"REGLU", b"GEGLU", b"SWIGLU", b"SWIGLU_OAI", b"GEGLU_ERF", b"GEGLU_QUICK")

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
    cdef int64_t[4] ne = [arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3")]
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
    node_init(&d, 0, a.type, a.ne[0], a.ne[1], a.ne[2], a.ne[3])
    node_in_place(&d, a)
    return wrap_tensor(node_append(c, &d))

cdef ggml_tensor *new_constant(ggml_context *ctx, int type) except NULL:
    """[1], in the arena: scratch memory will be used anew before the value is."""
    cdef int64_t one = 1
    cdef uint8_t *scratch = ctx.scratch
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
    cdef ggml_tensor *t = new_constant(arg_context(ctx, b"ggml_new_i32"), GGML_TYPE_I32)
    write(t, t.data, arg_int32(value, b"value")) if t.data != NULL else no_data(t)
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
    cdef ggml_tensor *t = new_constant(arg_context(ctx, b"ggml_new_f32"), GGML_TYPE_F32)
    write(t, t.data, arg_float(value, b"value")) if t.data != NULL else no_data(t)
    return wrap_tensor(t)

cdef int no_data(const ggml_tensor *t) except -1:
    fail(ValueError, f"tensor '{t.name.decode(errors='replace')}' has no data: the context was made with no_alloc")

# ---- walking a context -----------------------------------------------------------------------------------------------
cdef ggml_tensor *first_from(ggml_object *o) noexcept:
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
        fail(ValueError, "tensor is a caller's own struct: no other was made after it")
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

# ---- questions -------------------------------------------------------------------------------------------------------
def ggml_nelements(tensor):
    """Counts the elements of a tensor: ne0 * ne1 * ne2 * ne3.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Number of elements (int); elements of a quantised type count singly, not by block.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_nelements")
    return gg_nelements(arg_tensor(tensor, b"tensor"))

def ggml_nrows(tensor):
    """Counts the rows of a tensor: ne1 * ne2 * ne3.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Number of rows along dimension 0 (int).
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_nrows")
    return gg_nrows(arg_tensor(tensor, b"tensor"))

cdef size_t nbytes(const ggml_tensor *t) except? 0:
    cdef size_t n = 0
    if not gg_type_ok(t.type) or not gg_extent(t, &n):
        fail(ValueError, "type, ne and nb describe no tensor that can be")
    return n

def ggml_nbytes(tensor):
    """Computes the size of a tensor's data from its shape and strides.

    The size is the distance from the first byte to the end of the last element, (ne0 / block - 1) * nb0 + bytes of
    a block + the sum of (ne[d] - 1) * nb[d] for d = 1 to 3. Gaps between rows are included.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Size in bytes (int); 0 for a tensor without elements.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer, or its type, ne and nb describe no possible tensor.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_nbytes")
    return nbytes(arg_tensor(tensor, b"tensor"))

def ggml_nbytes_pad(tensor):
    """Computes the size of a tensor's data, rounded up to a multiple of 16 bytes.

    This is the memory that the data takes in a context's arena or scratch buffer.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        ggml_nbytes(tensor), rounded up to a multiple of 16 (int).
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer, or its type, ne and nb describe no possible tensor.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_nbytes_pad")
    return (nbytes(arg_tensor(tensor, b"tensor")) + GGML_MEM_ALIGN - 1) & ~<size_t>(GGML_MEM_ALIGN - 1)

def ggml_element_size(tensor):
    """Gives the size of one element of a tensor, or of one block if its type is quantised.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Size in bytes (int): 4 for f32, 18 for q4_0 (a block of 32 elements).
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_element_size")
    return gg_types[arg_type(arg_tensor(tensor, b"tensor").type, b"type")].bytes

def ggml_blck_size(type):
    """Gives the number of elements that one block of a type holds.

    Args:
        type: GGML_TYPE_*, 0 to GGML_TYPE_COUNT - 1.
    Returns:
        Elements of a block (int): 1 for types that are not quantised, 0 for numbers of removed types.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is out of range.
    """
    enter(b"ggml_blck_size")
    return gg_types[arg_type_number(type, b"type")].blck

def ggml_type_size(type):
    """Gives the size in bytes of one block of a type.

    Args:
        type: GGML_TYPE_*, 0 to GGML_TYPE_COUNT - 1.
    Returns:
        Bytes of a block, or of an element where the type is not quantised (int); 0 for numbers of removed types.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is out of range.
    See also:
        ggml_row_size gives the size of a whole row.
    """
    enter(b"ggml_type_size")
    return gg_types[arg_type_number(type, b"type")].bytes

def ggml_type_sizef(type):
    """Computes the average size of one element of a type: bytes of a block / elements of a block.

    Args:
        type: GGML_TYPE_* of an existing type.
    Returns:
        Bytes of an element (float), for example 0.5625 for q4_0.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is out of range or the number of a removed type.
    """
    enter(b"ggml_type_sizef")
    cdef int ty = arg_type(type, b"type")
    return <double>gg_types[ty].bytes / gg_types[ty].blck

def ggml_row_size(type, ne):
    """Computes the size in bytes of a row of elements: ne / block * bytes of a block.

    Args:
        type: GGML_TYPE_* of an existing type.
        ne: number of elements, 0 or more; a multiple of the type's block (ggml_blck_size).
    Returns:
        Size in bytes (int).
    Raises:
        TypeError: type or ne is not an integer.
        ValueError: type is not a type, or ne is negative, not a multiple of the block or too large.
    """
    enter(b"ggml_row_size")
    cdef int ty = arg_type(type, b"type")
    cdef int64_t n = arg_extent(ne, b"ne")
    if n % gg_types[ty].blck:
        fail(ValueError, f"ne is {n}: need a multiple of {gg_types[ty].name.decode()}'s block of {gg_types[ty].blck}")
    if n > (<int64_t>1 << 62) // gg_types[ty].bytes:
        fail(ValueError, f"ne is {n}: the row is larger than any memory")
    return gg_row_size(ty, n)

def ggml_type_name(type):
    """Gives the name of a tensor type.

    Args:
        type: number of a type, GGML_TYPE_*.
    Returns:
        Name in lower case except for the K of the k-quants (bytes), as b"f32" or b"q4_K"; b"DEPRECATED" for the
        number of a removed type, None for a number outside 0 to GGML_TYPE_COUNT - 1.
    Raises:
        TypeError: type is not an integer.
        ValueError: type does not fit 64 bits.
    """
    enter(b"ggml_type_name")
    cdef int64_t ty = arg_int(type, b"type")
    if not 0 <= ty < GGML_TYPE_COUNT:
        return None
    return gg_types[ty].name if gg_type_ok(<int>ty) else b"DEPRECATED"

def ggml_is_quantized(type):
    """Tells whether a type stores quantised values in blocks.

    Args:
        type: GGML_TYPE_*, 0 to GGML_TYPE_COUNT - 1.
    Returns:
        True for quantised types; False for float and integer types and for numbers of removed types.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is out of range.
    """
    enter(b"ggml_is_quantized")
    return bool(gg_types[arg_type_number(type, b"type")].quantized)

def ggml_op_name(op):
    """Gives the name of an operation.

    Args:
        op: number of an operation: GGML_OP_*, or one of this library's own from 128 on.
    Returns:
        Name in upper case (bytes), as b"MUL_MAT"; b"NONE" for GGML_OP_NONE.
    Raises:
        TypeError: op is not an integer.
        ValueError: no operation has this number.
    """
    enter(b"ggml_op_name")
    return known_name(engine.op_name(arg_int32(op, b"op")), op, "operation")

def ggml_op_symbol(op):
    """Gives an operation as a short formula.

    Args:
        op: number of an operation: GGML_OP_*, or one of this library's own from 128 on.
    Returns:
        Formula in UTF-8 (bytes), as b"x+y" for GGML_OP_ADD and b"X*Y" for GGML_OP_MUL_MAT.
    Raises:
        TypeError: op is not an integer.
        ValueError: op is not the number of an operation.
    """
    enter(b"ggml_op_symbol")
    return known_name(engine.op_symbol(arg_int32(op, b"op")), op, "operation")

def ggml_unary_op_name(op):
    """Gives the name of an element-wise function of GGML_OP_UNARY.

    Args:
        op: GGML_UNARY_OP_*.
    Returns:
        Name in upper case (bytes), as b"TANH".
    Raises:
        TypeError: op is not an integer.
        ValueError: no element-wise function has this number.
    """
    enter(b"ggml_unary_op_name")
    return known_name(engine.unary_name(arg_int32(op, b"op")), op, "unary operation")

def ggml_glu_op_name(op):
    """Gives the name of a gated linear unit of GGML_OP_GLU.

    Args:
        op: GGML_GLU_OP_*, 0 to 5.
    Returns:
        Name in upper case (bytes), as b"SWIGLU".
    Raises:
        TypeError: op is not an integer.
        ValueError: no gated linear unit has this number.
    """
    enter(b"ggml_glu_op_name")
    cdef int i = arg_int32(op, b"op")
    if not 0 <= i < len(GLU_NAMES):
        fail(ValueError, f"op is {i}: no GLU operation has this number")
    return GLU_NAMES[i]

cdef bytes known_name(const char *name, object op, str what):
    if name == NULL:
        fail(ValueError, f"op is {op}: no {what} has this number")
    return name

def ggml_op_desc(t):
    """Gives the name of what computes a tensor, with the function in place of UNARY and GLU.

    Args:
        t: tensor of any shape and any type.
    Returns:
        Name of the operation (bytes); for UNARY that of the element-wise function, as b"RELU", for GLU that of the
        gated linear unit, as b"SWIGLU".
    Raises:
        TypeError: t is not a tensor pointer.
        ValueError: t is a NULL pointer, or its operation or function has an unknown number.
        RuntimeError: t does not belong to a live context.
    """
    enter(b"ggml_op_desc")
    cdef ggml_tensor *x = arg_tensor(t, b"t")
    if x.op == GGML_OP_UNARY:
        return known_name(engine.unary_name(x.op_params[0]), x.op_params[0], "unary operation")
    if x.op == GGML_OP_GLU:
        return ggml_glu_op_name(x.op_params[0])
    return known_name(engine.op_name(x.op), x.op, "operation")

def ggml_get_unary_op(tensor):
    """Gives the element-wise function that computes a tensor.

    Args:
        tensor: tensor of any shape and any type, computed by GGML_OP_UNARY.
    Returns:
        GGML_UNARY_OP_* (int).
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or is computed by another operation.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_get_unary_op")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.op != GGML_OP_UNARY:
        fail(ValueError, f"the operation is {engine.op_name(t.op).decode()}: need UNARY")
    return t.op_params[0]

def ggml_get_glu_op(tensor):
    """Gives the gated linear unit that computes a tensor.

    Args:
        tensor: tensor of any shape and any type, computed by GGML_OP_GLU.
    Returns:
        GGML_GLU_OP_* (int).
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or is computed by another operation.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_get_glu_op")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.op != GGML_OP_GLU:
        fail(ValueError, f"the operation is {engine.op_name(t.op).decode()}: need GLU")
    return t.op_params[0]

def ggml_is_transposed(tensor):
    """Tells whether dimension 0 has a larger stride than dimension 1: nb0 > nb1.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True for a matrix stored by columns, as ggml_transpose returns it.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_transposed")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return t.nb[0] > t.nb[1]

def ggml_is_permuted(tensor):
    """Tells whether the strides are out of order: nb0 > nb1, nb1 > nb2 or nb2 > nb3.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if some dimension has a larger stride than the next.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_permuted")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return t.nb[0] > t.nb[1] or t.nb[1] > t.nb[2] or t.nb[2] > t.nb[3]

def ggml_is_contiguous(tensor):
    """Tells whether the elements of a tensor lie in order and without gaps.

    Strides of dimensions of size 1 do not count.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if each stride is the size of the dimension below times its stride, and nb0 is that of an element or
        block.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_contiguous")
    return bool(gg_contiguous(arg_tensor(tensor, b"tensor")))

def ggml_is_contiguous_0(tensor):
    """Tells the same as ggml_is_contiguous: no gaps after any dimension.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if the tensor is contiguous in all dimensions.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    See also:
        ggml_is_contiguous_1 and ggml_is_contiguous_2 allow gaps in the lower dimensions.
    """
    enter(b"ggml_is_contiguous_0")
    return bool(gg_contiguous(arg_tensor(tensor, b"tensor")))

def ggml_is_contiguous_1(tensor):
    """Tells whether a tensor is contiguous except for gaps after its rows.

    The elements of a row are adjacent and nb1 is arbitrary; nb2 = ne1 * nb1 and nb3 = ne2 * nb2. Strides of
    dimensions of size 1 do not count, except that nb1 enters nb2.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if the rows are contiguous and equally spaced through dimensions 1 to 3.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_contiguous_1")
    return bool(gg_contiguous_n(arg_tensor(tensor, b"tensor"), 1))

def ggml_is_contiguous_2(tensor):
    """Tells whether a tensor is contiguous except for gaps after its rows and matrices.

    The elements of a row are adjacent, nb1 and nb2 are arbitrary, and nb3 = ne2 * nb2 unless ne3 is 1.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if the rows are contiguous and dimension 3 follows dimension 2 without gaps.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_contiguous_2")
    return bool(gg_contiguous_n(arg_tensor(tensor, b"tensor"), 2))

def ggml_is_contiguously_allocated(tensor):
    """Tells whether the elements of a tensor fill their memory without gaps, in any order of dimensions.

    It compares ggml_nbytes with the bytes of all elements. A permuted tensor can pass where ggml_is_contiguous
    fails.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if the data has exactly the size of its elements.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer, or its type, ne and nb describe no possible tensor.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_contiguously_allocated")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return nbytes(t) == <size_t>(gg_nelements(t) // gg_types[t.type].blck) * <size_t>gg_types[t.type].bytes

def ggml_is_contiguous_channels(tensor):
    """Tells whether dimension 2 is innermost in memory, as in channels-last images.

    Args:
        tensor: tensor [width, height, channels, batch] of any type.
    Returns:
        True if nb1 > nb0 > nb2 and nb2 is the size of one element.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_contiguous_channels")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return t.nb[0] > t.nb[2] and t.nb[1] > t.nb[0] and t.nb[2] == <size_t>gg_types[t.type].bytes

def ggml_is_contiguous_rows(tensor):
    """Tells whether the elements of each row are adjacent in memory.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if nb0 is the size of an element (of a block for quantised types) or a row has just one of these.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_contiguous_rows")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return t.ne[0] == gg_types[t.type].blck or t.nb[0] == <size_t>gg_types[t.type].bytes

def ggml_is_empty(tensor):
    """Tells whether a tensor has no elements.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if some dimension has size 0.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_empty")
    return bool(gg_is_empty(arg_tensor(tensor, b"tensor")))

def ggml_is_view(tensor):
    """Tells whether a tensor lies in the memory of another tensor.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if view_src is set: for views, reshaped and permuted tensors and results of in-place operations.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_view")
    return arg_tensor(tensor, b"tensor").view_src != NULL

cdef int n_dims(const ggml_tensor *t) noexcept:
    cdef int n = 4
    while n > 1 and t.ne[n - 1] == 1:
        n -= 1
    return n

def ggml_n_dims(tensor):
    """Counts the dimensions of a tensor without the trailing ones of size 1.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Number of dimensions (int), 1 to 4: 2 for [4, 3, 1, 1], 1 for a scalar.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_n_dims")
    return n_dims(arg_tensor(tensor, b"tensor"))

def ggml_is_scalar(tensor):
    """Tells whether a tensor has the shape [1, 1, 1, 1].

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if every dimension has size 1.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_scalar")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return t.ne[0] == 1 and n_dims(t) == 1

def ggml_is_vector(tensor):
    """Tells whether a tensor has the shape [ne0, 1, 1, 1].

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimensions 1 to 3 have size 1, so also for a scalar.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_vector")
    return n_dims(arg_tensor(tensor, b"tensor")) <= 1

def ggml_is_matrix(tensor):
    """Tells whether a tensor has the shape [ne0, ne1, 1, 1].

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimensions 2 and 3 have size 1, so also for vectors and scalars.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_matrix")
    return n_dims(arg_tensor(tensor, b"tensor")) <= 2

def ggml_is_3d(tensor):
    """Tells whether a tensor has the shape [ne0, ne1, ne2, 1].

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimension 3 has size 1, so also for matrices, vectors and scalars.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_3d")
    return n_dims(arg_tensor(tensor, b"tensor")) <= 3

def ggml_are_same_shape(t0, t1):
    """Tells whether two tensors have equal sizes in all four dimensions.

    Args:
        t0: tensor of any shape and any type.
        t1: tensor of any shape and any type.
    Returns:
        True if the shapes are equal; types and strides are not compared.
    Raises:
        TypeError: t0 or t1 is not a tensor pointer.
        ValueError: t0 or t1 is a NULL pointer or has an invalid field.
        RuntimeError: t0 or t1 does not belong to a live context.
    """
    enter(b"ggml_are_same_shape")
    return bool(gg_same_shape(arg_tensor(t0, b"t0"), arg_tensor(t1, b"t1")))

def ggml_are_same_stride(t0, t1):
    """Tells whether two tensors have equal strides nb in all four dimensions.

    Args:
        t0: tensor of any shape and any type.
        t1: tensor of any shape and any type.
    Returns:
        True if the strides in bytes are equal; types and sizes are not compared.
    Raises:
        TypeError: t0 or t1 is not a tensor pointer.
        ValueError: t0 or t1 is a NULL pointer or has an invalid field.
        RuntimeError: t0 or t1 does not belong to a live context.
    """
    enter(b"ggml_are_same_stride")
    cdef ggml_tensor *a = arg_tensor(t0, b"t0")
    cdef ggml_tensor *b = arg_tensor(t1, b"t1")
    return a.nb[0] == b.nb[0] and a.nb[1] == b.nb[1] and a.nb[2] == b.nb[2] and a.nb[3] == b.nb[3]

def ggml_can_repeat(t0, t1):
    """Tells whether one tensor can be repeated to fill the shape of another.

    This is the condition for broadcasting t0 to t1 and for ggml_repeat.

    Args:
        t0: tensor to repeat, of any shape and any type.
        t1: tensor of any shape and any type, whose shape is to be filled.
    Returns:
        True if each size of t1 is a multiple of that of t0. An empty t0 fits only an empty t1.
    Raises:
        TypeError: t0 or t1 is not a tensor pointer.
        ValueError: t0 or t1 is a NULL pointer or has an invalid field.
        RuntimeError: t0 or t1 does not belong to a live context.
    """
    enter(b"ggml_can_repeat")
    return bool(gg_can_repeat(arg_tensor(t0, b"t0"), arg_tensor(t1, b"t1")))

def ggml_tensor_overhead():
    """Gives the memory that a tensor takes in a context besides its data.

    Add it once for each tensor when you compute mem_size for ggml_init.

    Returns:
        Bytes of the object's header and the tensor's struct (int), 368.
    """
    return sizeof(ggml_object) + sizeof(ggml_tensor)

# ---- names and flags -------------------------------------------------------------------------------------------------
def ggml_get_name(tensor):
    """Gives the name of a tensor.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Name (bytes), at most 63 bytes; b"" if it has none.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_get_name")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return bytes(t.name[:GGML_MAX_NAME]).split(b"\0", 1)[0]

def ggml_set_name(tensor, name):
    """Sets the name of a tensor.

    Args:
        tensor: tensor of any shape and any type; its name is replaced.
        name: bytes or str (encoded as UTF-8); only the first 63 bytes are stored.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer, or name is neither bytes nor str.
        ValueError: tensor is a NULL pointer or has an invalid field, or name cannot be encoded.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_set_name")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    set_name(t, arg_text(name, b"name"), b"")
    return wrap_tensor(t)

def ggml_format_name(tensor, fmt, *args):
    """Sets the name of a tensor from a printf format and its arguments.

    Args:
        tensor: tensor of any shape and any type; its name is replaced.
        fmt: format, bytes or str, as Python's % operator for bytes takes it. Without arguments it is used as it is.
        *args: values for the format: numbers, ctypes scalars, and bytes for %s.
    Returns:
        The same tensor, named by the first 63 bytes of the text.
    Raises:
        TypeError: tensor is not a tensor pointer, or fmt is neither bytes nor str.
        ValueError: tensor is a NULL pointer or has an invalid field, or the arguments do not fit the format.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_format_name")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef bytes text = arg_text(fmt, b"fmt")
    if args:
        try:
            text = text % tuple([getattr(a, "value", a) for a in args])
        except (TypeError, ValueError) as e:
            fail(ValueError, f"fmt {text!r} does not fit its arguments: {e}")
    set_name(t, text, b"")
    return wrap_tensor(t)

def ggml_set_input(tensor):
    """Marks a tensor as an input of the graph.

    Graph allocators reserve its memory from the start of the graph and compute no result in its place. Memory is
    reused after the last node that reads the input, unless it is marked as an output too.

    Args:
        tensor: tensor of any shape and any type; GGML_TENSOR_FLAG_INPUT is set in its flags.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_set_input")
    arg_tensor(tensor, b"tensor").flags |= GGML_TENSOR_FLAG_INPUT

def ggml_set_output(tensor):
    """Marks a tensor as an output of the graph.

    Graph allocators do not reuse its memory for later nodes, so that it can be read when the graph was computed.

    Args:
        tensor: tensor of any shape and any type; GGML_TENSOR_FLAG_OUTPUT is set in its flags.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_set_output")
    arg_tensor(tensor, b"tensor").flags |= GGML_TENSOR_FLAG_OUTPUT

def ggml_set_param(*args):
    """Marks a tensor as a parameter, with respect to which gradients are computed.

    Call it before ggml_build_forward_expand: a graph lists parameters among its nodes instead of its leafs.
    ggml_build_backward_expand then adds their gradients.

    Args:
        *args: (tensor), or (ctx, tensor) as in old releases. The tensor has any shape and must be a leaf, not the
            result of an operation. ctx is ignored.
    Returns:
        None.
    Raises:
        TypeError: there are not one or two arguments, or the last one is not a tensor pointer.
        ValueError: the tensor is a NULL pointer or the result of an operation.
        RuntimeError: the tensor does not belong to a live context.
    """
    enter(b"ggml_set_param")
    if not 1 <= len(args) <= 2:
        fail(TypeError, f"called with {len(args)} arguments: need (tensor) or (ctx, tensor)")
    cdef ggml_tensor *t = arg_tensor(args[len(args) - 1], b"tensor")
    if t.op != 0:
        fail(ValueError, f"'{t.name.decode(errors='replace')}' is the result of {engine.op_name(t.op).decode()}: a parameter must be a leaf")
    t.flags |= GGML_TENSOR_FLAG_PARAM

def ggml_set_loss(tensor):
    """Marks a tensor as the loss from which gradients are propagated back.

    Args:
        tensor: f32 tensor with one element, [1, 1, 1, 1]; GGML_TENSOR_FLAG_LOSS is set in its flags.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer, is not f32 or has more or less than one element.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_set_loss")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if gg_nelements(t) != 1 or t.type != GGML_TYPE_F32:
        fail(ValueError, f"'{t.name.decode(errors='replace')}' is {gg_types[t.type].name.decode()} with {gg_nelements(t)} elements: need one f32")
    t.flags |= GGML_TENSOR_FLAG_LOSS

def ggml_get_data(tensor):
    """Gives the address of a tensor's data.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Address of the first element (int); None if the tensor has no data.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    See also:
        numpy.asarray(tensor) and ggml.utils.to_numpy give an array that keeps the memory alive.
    """
    enter(b"ggml_get_data")
    return wrap_handle(arg_tensor(tensor, b"tensor").data)

def ggml_get_data_f32(tensor):
    """Gives a ctypes pointer to the data of an f32 tensor.

    Args:
        tensor: f32 tensor of any shape.
    Returns:
        POINTER(c_float) to the first element; a NULL pointer if the tensor has no data. It does not keep the memory
        alive.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or is not f32.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_get_data_f32")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.type != GGML_TYPE_F32:
        fail(ValueError, f"the tensor is {gg_types[t.type].name.decode()}: need f32")
    return ctypes.cast(<size_t>t.data, ctypes.POINTER(ctypes.c_float))

# ---- elements --------------------------------------------------------------------------------------------------------
cdef double read(const ggml_tensor *t, const void *p) except? -1:
    if t.type == GGML_TYPE_F32: return (<const float *>p)[0]
    if t.type == GGML_TYPE_F16: return gg_f16_to_f32((<const uint16_t *>p)[0])
    if t.type == GGML_TYPE_BF16: return gg_bf16_to_f32((<const uint16_t *>p)[0])
    if t.type == GGML_TYPE_F64: return (<const double *>p)[0]
    if t.type == GGML_TYPE_I8: return (<const int8_t *>p)[0]
    if t.type == GGML_TYPE_I16: return (<const int16_t *>p)[0]
    if t.type == GGML_TYPE_I32: return (<const int32_t *>p)[0]
    if t.type == GGML_TYPE_I64: return <double>(<const int64_t *>p)[0]
    fail(ValueError, f"the tensor is {gg_types[t.type].name.decode()}: single elements of a quantised type can't be read")

cdef int write(ggml_tensor *t, void *p, double v) except -1:
    if t.type == GGML_TYPE_F32: (<float *>p)[0] = <float>v
    elif t.type == GGML_TYPE_F16: (<uint16_t *>p)[0] = gg_f32_to_f16(<float>v)
    elif t.type == GGML_TYPE_BF16: (<uint16_t *>p)[0] = gg_f32_to_bf16(<float>v)
    elif t.type == GGML_TYPE_F64: (<double *>p)[0] = v
    elif v != v or v <= -9.3e18 or v >= 9.3e18: fail(ValueError, f"value is {v}: no integer")
    elif t.type == GGML_TYPE_I8: (<int8_t *>p)[0] = <int8_t>ranged(v, 127)
    elif t.type == GGML_TYPE_I16: (<int16_t *>p)[0] = <int16_t>ranged(v, 32767)
    elif t.type == GGML_TYPE_I32: (<int32_t *>p)[0] = <int32_t>ranged(v, 2147483647)
    elif t.type == GGML_TYPE_I64: (<int64_t *>p)[0] = <int64_t>v
    else: fail(ValueError, f"the tensor is {gg_types[t.type].name.decode()}: single elements of a quantised type can't be written")
    return 0

cdef int64_t ranged(double v, int64_t most) except? -1:
    cdef int64_t i = <int64_t>v
    if i > most or i < -most - 1:
        fail(ValueError, f"value is {v}: the type holds {-most - 1} to {most}")
    return i

cdef void *at(ggml_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3) except NULL:
    check_data(t, "tensor")
    cdef int64_t[4] i = [i0, i1, i2, i3]
    cdef int d
    cdef size_t offset = 0
    for d in range(4):
        if i[d] < 0 or i[d] >= t.ne[d]:
            fail(IndexError, f"index {d} is {i[d]}: the tensor has ne[{d}] = {t.ne[d]}")
        offset += <size_t>i[d] * t.nb[d]
    return <uint8_t *>t.data + offset

cdef void *at_flat(ggml_tensor *t, int64_t i) except NULL:
    cdef int64_t n = gg_nelements(t), k = i
    if i < 0 or i >= n:
        fail(IndexError, f"i is {i}: the tensor has {n} elements")
    cdef int64_t[4] index
    cdef int d
    for d in range(4):
        index[d] = k % t.ne[d]
        k //= t.ne[d]
    return at(t, index[0], index[1], index[2], index[3])

def ggml_get_f32_1d(tensor, i):
    """Reads one element of a tensor by its flat index as a float.

    The index counts in logical order, dimension 0 fastest, and the strides of the tensor are respected.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
    Returns:
        Value (float). An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or i is not an integer.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_get_f32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return read(t, at_flat(t, arg_int(i, b"i")))

def ggml_set_f32_1d(tensor, i, value):
    """Writes a number to one element of a tensor by its flat index.

    The index counts in logical order, dimension 0 fastest. The number is rounded to float32 and then converted to
    the tensor's type; integer types truncate it towards zero.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
        value: number.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, i is not an integer or value is not a number.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or its integer type cannot hold value.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_f32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    write(t, at_flat(t, arg_int(i, b"i")), arg_float(value, b"value"))

def ggml_get_i32_1d(tensor, i):
    """Reads one element of a tensor by its flat index as an integer.

    The index counts in logical order, dimension 0 fastest.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
    Returns:
        Value (int), truncated towards zero and not limited to 32 bits. An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or i is not an integer.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or the element is NaN.
        OverflowError: the element is infinite.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_get_i32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return int(read(t, at_flat(t, arg_int(i, b"i"))))

def ggml_set_i32_1d(tensor, i, value):
    """Writes an integer to one element of a tensor by its flat index.

    The index counts in logical order, dimension 0 fastest. Float types round the integer to the nearest value they
    have.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
        value: 32-bit integer.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, or i or value is not an integer.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or value does not fit 32 bits or its
            type.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_i32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    write(t, at_flat(t, arg_int(i, b"i")), arg_int32(value, b"value"))

def ggml_get_f32_nd(tensor, i0, i1, i2, i3):
    """Reads the element at [i0, i1, i2, i3] of a tensor as a float.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
    Returns:
        Value (float). An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or an index is not an integer.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_get_f32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return read(t, at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3")))

def ggml_set_f32_nd(tensor, i0, i1, i2, i3, value):
    """Writes a number to the element at [i0, i1, i2, i3] of a tensor.

    The number is rounded to float32 and then converted to the tensor's type; integer types truncate it towards
    zero.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
        value: number.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, an index is not an integer or value is not a number.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or its integer type cannot hold value.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_f32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    write(t, at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3")), arg_float(value, b"value"))

def ggml_get_i32_nd(tensor, i0, i1, i2, i3):
    """Reads the element at [i0, i1, i2, i3] of a tensor as an integer.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
    Returns:
        Value (int), truncated towards zero and not limited to 32 bits. An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or an index is not an integer.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or the element is NaN.
        OverflowError: the element is infinite.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_get_i32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return int(read(t, at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3"))))

def ggml_set_i32_nd(tensor, i0, i1, i2, i3, value):
    """Writes an integer to the element at [i0, i1, i2, i3] of a tensor.

    Float types round the integer to the nearest value they have.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
        value: 32-bit integer.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, or an index or value is not an integer.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or value does not fit 32 bits or its
            type.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_i32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    write(t, at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3")), arg_int32(value, b"value"))

cdef int fill(ggml_tensor *t, double v) except -1:
    cdef int64_t i0, i1, i2, i3
    cdef uint8_t *row
    cdef size_t size = <size_t>gg_types[t.type].bytes
    cdef uint8_t one[8]                                  # an element; those of a caller's strides may overlap
    if gg_is_empty(t):
        return 0
    write(t, at(t, 0, 0, 0, 0), v)
    memcpy(one, at(t, 0, 0, 0, 0), size)
    for i3 in range(t.ne[3]):
        for i2 in range(t.ne[2]):
            for i1 in range(t.ne[1]):
                row = <uint8_t *>t.data + <size_t>i1 * t.nb[1] + <size_t>i2 * t.nb[2] + <size_t>i3 * t.nb[3]
                for i0 in range(t.ne[0]):
                    memcpy(row + <size_t>i0 * t.nb[0], one, size)
    return 0

def ggml_set_f32(tensor, value):
    """Writes one number to every element of a tensor.

    It writes immediately, through the strides of the tensor; ggml_fill does the same as an operation of a graph.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64). It is
            overwritten.
        value: number, rounded to float32 and then to the tensor's type; integer types truncate it towards zero.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer, or value is not a number.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or its integer type cannot hold value.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_f32")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    fill(t, arg_float(value, b"value"))
    return wrap_tensor(t)

def ggml_set_i32(tensor, value):
    """Writes one integer to every element of a tensor.

    It writes immediately, through the strides of the tensor.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64). It is
            overwritten.
        value: 32-bit integer; float types round it to the nearest value they have.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer, or value is not an integer.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or value does not fit 32 bits or its
            type.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_i32")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    fill(t, arg_int32(value, b"value"))
    return wrap_tensor(t)

def ggml_set_zero(tensor):
    """Sets all data of a tensor to zero bytes.

    Gaps between the elements of a strided tensor stay as they are, except in quantised tensors, where they are
    cleared too.

    Args:
        tensor: tensor of any shape and any type, also quantised. It is overwritten.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has no data.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_zero")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    check_data(t, "tensor")
    if gg_contiguous(t) or gg_types[t.type].quantized:
        memset(t.data, 0, nbytes(t))
    else:
        fill(t, 0)
    return wrap_tensor(t)

def ggml_unravel_index(tensor, i, i0, i1, i2, i3):
    """Converts a flat index of a tensor to one index for each dimension.

    i = i0 + ne0 * (i1 + ne1 * (i2 + ne2 * i3)). Only the shape of the tensor counts, not its strides.

    Args:
        tensor: tensor of any shape and any type.
        i: flat index, 0 to ggml_nelements(tensor) - 1.
        i0: int64 pointer or buffer that receives the index in dimension 0; None if it is not needed.
        i1: the same for dimension 1.
        i2: the same for dimension 2.
        i3: the same for dimension 3.
    Returns:
        None; the indices are written to i0 to i3.
    Raises:
        TypeError: tensor is not a tensor pointer, i is not an integer, or i0 to i3 are not addresses or buffers.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, or a buffer has less than 8 bytes.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_unravel_index")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef int64_t k = arg_int(i, b"i"), size
    cdef void *p
    cdef int d
    if k < 0 or k >= gg_nelements(t):
        fail(IndexError, f"i is {k}: the tensor has {gg_nelements(t)} elements")
    for d, out in enumerate((i0, i1, i2, i3)):
        size = t.ne[d]
        arg_buffer(out, b"i0 to i3", 8, &p)
        if p != NULL:
            (<int64_t *>p)[0] = k % size
        k //= size
