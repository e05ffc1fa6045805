"""Properties of tensors, types and operations: sizes, shapes, strides, names, flags."""
from libc.stdint cimport int64_t

from .._core cimport (
    GGML_MAX_NAME, GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_LOSS, GGML_TENSOR_FLAG_OUTPUT, GGML_TENSOR_FLAG_PARAM,
    GG_TYPE_MAX, arg_extent, arg_format, arg_int, arg_int32, arg_tensor, arg_text, arg_type, arg_type_number, engine,
    enter, fail, gg_can_repeat, gg_contiguous, gg_contiguous_n, gg_extent, gg_is_empty, gg_nelements, gg_nrows,
    gg_row_size, gg_same_shape, gg_type_ok, gg_types, ggml_object, ggml_tensor, name_text, set_name, tensor_text,
    wrap_tensor,
)
from .._enums cimport GGML_OP_GLU, GGML_OP_NONE, GGML_OP_UNARY, GGML_TYPE_F32
from .._params cimport glu_params, unary_params
from .. import _constants

cdef extern from "runtime/engine.h" nogil:
    enum: GGML_MEM_ALIGN

GLU_NAMES = {value: name.removeprefix("GGML_GLU_OP_").encode() for name, value in vars(_constants).items()
             if name.startswith("GGML_GLU_OP_") and value != _constants.GGML_GLU_OP_COUNT}

# ---- sizes, types, operations, shapes --------------------------------------------------------------------------------
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
    """The bytes of a tensor's data, also of a tensor whose fields the caller wrote."""
    cdef size_t n = 0
    if not gg_type_ok(t.type) or not gg_extent(t, &n):
        fail(ValueError, f"type {t.type}, ne and nb describe no possible tensor")
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
    """Returns the size of one element of a tensor, or of one block if its type is quantised.

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
    """Returns the number of elements that one block of a type holds.

    Args:
        type: GGML_TYPE_*, or the number of a removed type.
    Returns:
        Elements of a block (int): 1 for types that are not quantised, 0 for numbers of removed types.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is out of range.
    """
    enter(b"ggml_blck_size")
    return gg_types[arg_type_number(type, b"type")].blck

def ggml_type_size(type):
    """Returns the size in bytes of one block of a type.

    Args:
        type: GGML_TYPE_*, or the number of a removed type.
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
    """Returns the name of a tensor type.

    Args:
        type: number of a type, GGML_TYPE_*.
    Returns:
        Name in lower case except for the K of the k-quants (bytes), as b"f32" or b"q4_K"; b"DEPRECATED" for the
        number of a removed type, None for a number that no type has.
    Raises:
        TypeError: type is not an integer.
        ValueError: type does not fit 64 bits.
    """
    enter(b"ggml_type_name")
    cdef int64_t ty = arg_int(type, b"type")
    if not 0 <= ty < GG_TYPE_MAX:
        return None
    return gg_types[ty].name if gg_type_ok(<int>ty) else b"DEPRECATED"

def ggml_is_quantized(type):
    """Tells whether a type stores quantised values in blocks.

    Args:
        type: GGML_TYPE_*, or the number of a removed type.
    Returns:
        True for quantised types; False for float and integer types and for numbers of removed types.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is out of range.
    """
    enter(b"ggml_is_quantized")
    return bool(gg_types[arg_type_number(type, b"type")].quantized)

def ggml_op_name(op):
    """Returns the name of an operation.

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
    """Returns an operation as a short formula.

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
    """Returns the name of an element-wise function of GGML_OP_UNARY.

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
    """Returns the name of a gated linear unit of GGML_OP_GLU.

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
    if i not in GLU_NAMES:
        fail(ValueError, f"op is {i}: no GLU operation has this number")
    return GLU_NAMES[i]

cdef bytes known_name(const char *name, object op, str what):
    if name == NULL:
        fail(ValueError, f"op is {op}: no {what} has this number")
    return name

def ggml_op_desc(t):
    """Returns the name of what computes a tensor, with the function in place of UNARY and GLU.

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
        return known_name(engine.unary_name(unary_params(x).function), unary_params(x).function, "unary operation")
    if x.op == GGML_OP_GLU:
        return ggml_glu_op_name(glu_params(x).function)
    return known_name(engine.op_name(x.op), x.op, "operation")

def ggml_get_unary_op(tensor):
    """Returns the element-wise function that computes a tensor.

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
    return unary_params(t).function

def ggml_get_glu_op(tensor):
    """Returns the gated linear unit that computes a tensor.

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
    return glu_params(t).function

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

cdef bint contiguous_below(ggml_tensor *t, int n) noexcept:
    """Whether the first n dimensions are contiguous."""
    cdef ggml_tensor inner = t[0]
    cdef int i
    for i in range(n, 4):
        inner.ne[i] = 1                      # strides of dimensions of size 1 do not count
    return gg_contiguous(&inner)

def ggml_is_contiguous_to_1(tensor):
    """Tells whether the elements of each row are adjacent; all other strides are arbitrary.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimension 0 is contiguous.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_contiguous_to_1")
    return contiguous_below(arg_tensor(tensor, b"tensor"), 1)

def ggml_is_contiguous_to_2(tensor):
    """Tells whether each matrix is contiguous; the strides of dimensions 2 and 3 are arbitrary.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimensions 0 and 1 are contiguous. Strides of dimensions of size 1 do not count.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_contiguous_to_2")
    return contiguous_below(arg_tensor(tensor, b"tensor"), 2)

def ggml_is_contiguous_to_3(tensor):
    """Tells whether dimensions 0 to 2 are contiguous; the stride of dimension 3 is arbitrary.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimensions 0 to 2 are contiguous. Strides of dimensions of size 1 do not count.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_is_contiguous_to_3")
    return contiguous_below(arg_tensor(tensor, b"tensor"), 3)

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
    """Returns the memory that a tensor takes in a context besides its data.

    Add it once for each tensor when you compute mem_size for ggml_init.

    Returns:
        Bytes of the object's header and the tensor's struct (int), 368.
    """
    return sizeof(ggml_object) + sizeof(ggml_tensor)

# ---- names and flags -------------------------------------------------------------------------------------------------
def ggml_get_name(tensor):
    """Returns the name of a tensor.

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
    set_name(t, arg_format(fmt, args), b"")
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

    Graph allocators do not reuse its memory for later nodes, so that it can be read when the graph was computed. For
    a view this is the memory of the tensor that it views. They see only tensors that are in the graph: expand the
    graph by a view that no node reads.

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
    if t.op != GGML_OP_NONE:
        fail(ValueError, f"tensor '{name_text(t)}' is the result of {engine.op_name(t.op).decode()}: need a leaf")
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
        fail(ValueError, f"tensor {tensor_text(t)} has {gg_nelements(t)} elements: need one element of type f32")
    t.flags |= GGML_TENSOR_FLAG_LOSS
