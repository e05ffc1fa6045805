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
    """A new tensor of `n_dims` (1 to 4) dimensions with the sizes `ne` (array of int64, innermost first)."""
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
    """A new tensor [ne0]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_tensor_1d")
    cdef int64_t ne = arg_extent(ne0, b"ne0")
    return wrap_tensor(new_tensor(c, arg_type(type, b"type"), 1, &ne))

def ggml_new_tensor_2d(ctx, type, ne0, ne1):
    """A new tensor [ne0, ne1]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_tensor_2d")
    cdef int64_t[2] ne = [arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1")]
    return wrap_tensor(new_tensor(c, arg_type(type, b"type"), 2, ne))

def ggml_new_tensor_3d(ctx, type, ne0, ne1, ne2):
    """A new tensor [ne0, ne1, ne2]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_tensor_3d")
    cdef int64_t[3] ne = [arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2")]
    return wrap_tensor(new_tensor(c, arg_type(type, b"type"), 3, ne))

def ggml_new_tensor_4d(ctx, type, ne0, ne1, ne2, ne3):
    """A new tensor [ne0, ne1, ne2, ne3]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_tensor_4d")
    cdef int64_t[4] ne = [arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3")]
    return wrap_tensor(new_tensor(c, arg_type(type, b"type"), 4, ne))

def ggml_dup_tensor(ctx, src):
    """A new tensor with the type and shape of `src`; its values are not copied."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_dup_tensor")
    cdef ggml_tensor *a = arg_tensor(src, b"src")
    return wrap_tensor(new_tensor(c, a.type, 4, a.ne))

def ggml_view_tensor(ctx, src):
    """A tensor over the same memory as `src`, with its type, shape and strides."""
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
    """A new tensor [1] of type i32 that holds `value`."""
    cdef ggml_tensor *t = new_constant(arg_context(ctx, b"ggml_new_i32"), GGML_TYPE_I32)
    write(t, t.data, arg_int32(value, b"value")) if t.data != NULL else no_data(t)
    return wrap_tensor(t)

def ggml_new_f32(ctx, value):
    """A new tensor [1] of type f32 that holds `value`."""
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
    """The first tensor of the context; a NULL pointer when it has none."""
    return wrap_tensor(first_from(arg_context(ctx, b"ggml_get_first_tensor").first))

def ggml_get_next_tensor(ctx, tensor):
    """The tensor made after `tensor`; a NULL pointer after the last."""
    arg_context(ctx, b"ggml_get_next_tensor")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if context_of(t) == NULL:
        fail(ValueError, "tensor is a caller's own struct: no other was made after it")
    return wrap_tensor(first_from((<ggml_object *>t - 1).next))

def ggml_get_tensor(ctx, name):
    """The first tensor of that name; a NULL pointer when there is none."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_get_tensor")
    cdef bytes wanted = arg_text(name, b"name")
    cdef ggml_tensor *t = first_from(c.first)
    while t != NULL and strncmp(t.name, wanted, GGML_MAX_NAME):
        t = first_from((<ggml_object *>t - 1).next)
    return wrap_tensor(t)

# ---- questions -------------------------------------------------------------------------------------------------------
def ggml_nelements(tensor):
    """Number of elements."""
    enter(b"ggml_nelements")
    return gg_nelements(arg_tensor(tensor, b"tensor"))

def ggml_nrows(tensor):
    """Number of rows: ne1 * ne2 * ne3."""
    enter(b"ggml_nrows")
    return gg_nrows(arg_tensor(tensor, b"tensor"))

cdef size_t nbytes(const ggml_tensor *t) except? 0:
    cdef size_t n = 0
    if not gg_type_ok(t.type) or not gg_extent(t, &n):
        fail(ValueError, "type, ne and nb describe no tensor that can be")
    return n

def ggml_nbytes(tensor):
    """Bytes from the first to behind the last element, padding between rows included."""
    enter(b"ggml_nbytes")
    return nbytes(arg_tensor(tensor, b"tensor"))

def ggml_nbytes_pad(tensor):
    """ggml_nbytes, rounded up to 16."""
    enter(b"ggml_nbytes_pad")
    return (nbytes(arg_tensor(tensor, b"tensor")) + GGML_MEM_ALIGN - 1) & ~<size_t>(GGML_MEM_ALIGN - 1)

def ggml_element_size(tensor):
    """Bytes of one block (of one element, where the type is not quantised)."""
    enter(b"ggml_element_size")
    return gg_types[arg_type(arg_tensor(tensor, b"tensor").type, b"type")].bytes

def ggml_blck_size(type):
    """Elements of one block of a type; 1 where it is not quantised, 0 where the type was removed."""
    enter(b"ggml_blck_size")
    return gg_types[arg_type_number(type, b"type")].blck

def ggml_type_size(type):
    """Bytes of one block of a type; 0 where the type was removed."""
    enter(b"ggml_type_size")
    return gg_types[arg_type_number(type, b"type")].bytes

def ggml_type_sizef(type):
    """Bytes of one element of a type, as a float."""
    enter(b"ggml_type_sizef")
    cdef int ty = arg_type(type, b"type")
    return <double>gg_types[ty].bytes / gg_types[ty].blck

def ggml_row_size(type, ne):
    """Bytes of a row of `ne` elements of a type. ValueError: not a whole number of blocks."""
    enter(b"ggml_row_size")
    cdef int ty = arg_type(type, b"type")
    cdef int64_t n = arg_extent(ne, b"ne")
    if n % gg_types[ty].blck:
        fail(ValueError, f"ne is {n}: need a multiple of {gg_types[ty].name.decode()}'s block of {gg_types[ty].blck}")
    if n > (<int64_t>1 << 62) // gg_types[ty].bytes:
        fail(ValueError, f"ne is {n}: the row is larger than any memory")
    return gg_row_size(ty, n)

def ggml_type_name(type):
    """Name of a type (bytes); b"DEPRECATED" when it was removed, None when no type has this number."""
    enter(b"ggml_type_name")
    cdef int64_t ty = arg_int(type, b"type")
    if not 0 <= ty < GGML_TYPE_COUNT:
        return None
    return gg_types[ty].name if gg_type_ok(<int>ty) else b"DEPRECATED"

def ggml_is_quantized(type):
    """Whether a type stores blocks of quantised values."""
    enter(b"ggml_is_quantized")
    return bool(gg_types[arg_type_number(type, b"type")].quantized)

def ggml_op_name(op):
    """Name of an operation, as b"MUL_MAT"."""
    enter(b"ggml_op_name")
    return known_name(engine.op_name(arg_int32(op, b"op")), op, "operation")

def ggml_op_symbol(op):
    """An operation as a formula, as b"X*Y"."""
    enter(b"ggml_op_symbol")
    return known_name(engine.op_symbol(arg_int32(op, b"op")), op, "operation")

def ggml_unary_op_name(op):
    """Name of an element-wise function, as b"TANH"."""
    enter(b"ggml_unary_op_name")
    return known_name(engine.unary_name(arg_int32(op, b"op")), op, "unary operation")

def ggml_glu_op_name(op):
    """Name of a gated linear unit, as b"SWIGLU"."""
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
    """Name of a tensor's operation; for UNARY and GLU, of the function."""
    enter(b"ggml_op_desc")
    cdef ggml_tensor *x = arg_tensor(t, b"t")
    if x.op == GGML_OP_UNARY:
        return known_name(engine.unary_name(x.op_params[0]), x.op_params[0], "unary operation")
    if x.op == GGML_OP_GLU:
        return ggml_glu_op_name(x.op_params[0])
    return known_name(engine.op_name(x.op), x.op, "operation")

def ggml_get_unary_op(tensor):
    """The element-wise function of a UNARY tensor (GGML_UNARY_OP_*)."""
    enter(b"ggml_get_unary_op")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.op != GGML_OP_UNARY:
        fail(ValueError, f"the operation is {engine.op_name(t.op).decode()}: need UNARY")
    return t.op_params[0]

def ggml_get_glu_op(tensor):
    """The gated linear unit of a GLU tensor (GGML_GLU_OP_*)."""
    enter(b"ggml_get_glu_op")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.op != GGML_OP_GLU:
        fail(ValueError, f"the operation is {engine.op_name(t.op).decode()}: need GLU")
    return t.op_params[0]

def ggml_is_transposed(tensor):
    """Whether dimension 0 has a larger stride than dimension 1."""
    enter(b"ggml_is_transposed")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return t.nb[0] > t.nb[1]

def ggml_is_permuted(tensor):
    """Whether some dimension has a larger stride than the next."""
    enter(b"ggml_is_permuted")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return t.nb[0] > t.nb[1] or t.nb[1] > t.nb[2] or t.nb[2] > t.nb[3]

def ggml_is_contiguous(tensor):
    """Whether the elements lie one after the other without gaps."""
    enter(b"ggml_is_contiguous")
    return bool(gg_contiguous(arg_tensor(tensor, b"tensor")))

def ggml_is_contiguous_0(tensor):
    """The same as ggml_is_contiguous."""
    enter(b"ggml_is_contiguous_0")
    return bool(gg_contiguous(arg_tensor(tensor, b"tensor")))

def ggml_is_contiguous_1(tensor):
    """Contiguous but for gaps that may follow each row."""
    enter(b"ggml_is_contiguous_1")
    return bool(gg_contiguous_n(arg_tensor(tensor, b"tensor"), 1))

def ggml_is_contiguous_2(tensor):
    """Contiguous but for gaps that may follow each row and each matrix."""
    enter(b"ggml_is_contiguous_2")
    return bool(gg_contiguous_n(arg_tensor(tensor, b"tensor"), 2))

def ggml_is_contiguously_allocated(tensor):
    """Whether the elements fill their memory without gaps, in any order of dimensions."""
    enter(b"ggml_is_contiguously_allocated")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return nbytes(t) == <size_t>(gg_nelements(t) // gg_types[t.type].blck) * <size_t>gg_types[t.type].bytes

def ggml_is_contiguous_channels(tensor):
    """Whether dimension 2 is the innermost in memory, as in channels-last images."""
    enter(b"ggml_is_contiguous_channels")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return t.nb[0] > t.nb[2] and t.nb[1] > t.nb[0] and t.nb[2] == <size_t>gg_types[t.type].bytes

def ggml_is_contiguous_rows(tensor):
    """Whether the elements of each row lie one after the other."""
    enter(b"ggml_is_contiguous_rows")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return t.ne[0] == gg_types[t.type].blck or t.nb[0] == <size_t>gg_types[t.type].bytes

def ggml_is_empty(tensor):
    """Whether there are no elements."""
    enter(b"ggml_is_empty")
    return bool(gg_is_empty(arg_tensor(tensor, b"tensor")))

def ggml_is_view(tensor):
    """Whether the tensor lies in the memory of another."""
    enter(b"ggml_is_view")
    return arg_tensor(tensor, b"tensor").view_src != NULL

cdef int n_dims(const ggml_tensor *t) noexcept:
    cdef int n = 4
    while n > 1 and t.ne[n - 1] == 1:
        n -= 1
    return n

def ggml_n_dims(tensor):
    """Number of dimensions without the trailing ones of size 1; at least 1."""
    enter(b"ggml_n_dims")
    return n_dims(arg_tensor(tensor, b"tensor"))

def ggml_is_scalar(tensor):
    """Whether every dimension has size 1."""
    enter(b"ggml_is_scalar")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return t.ne[0] == 1 and n_dims(t) == 1

def ggml_is_vector(tensor):
    """Whether only dimension 0 may have a size other than 1."""
    enter(b"ggml_is_vector")
    return n_dims(arg_tensor(tensor, b"tensor")) <= 1

def ggml_is_matrix(tensor):
    """Whether dimensions 2 and 3 have size 1."""
    enter(b"ggml_is_matrix")
    return n_dims(arg_tensor(tensor, b"tensor")) <= 2

def ggml_is_3d(tensor):
    """Whether dimension 3 has size 1."""
    enter(b"ggml_is_3d")
    return n_dims(arg_tensor(tensor, b"tensor")) <= 3

def ggml_are_same_shape(t0, t1):
    """Whether two tensors have equal sizes in all dimensions."""
    enter(b"ggml_are_same_shape")
    return bool(gg_same_shape(arg_tensor(t0, b"t0"), arg_tensor(t1, b"t1")))

def ggml_are_same_stride(t0, t1):
    """Whether two tensors have equal strides in all dimensions."""
    enter(b"ggml_are_same_stride")
    cdef ggml_tensor *a = arg_tensor(t0, b"t0")
    cdef ggml_tensor *b = arg_tensor(t1, b"t1")
    return a.nb[0] == b.nb[0] and a.nb[1] == b.nb[1] and a.nb[2] == b.nb[2] and a.nb[3] == b.nb[3]

def ggml_can_repeat(t0, t1):
    """Whether t0 can be tiled to the shape of t1."""
    enter(b"ggml_can_repeat")
    return bool(gg_can_repeat(arg_tensor(t0, b"t0"), arg_tensor(t1, b"t1")))

def ggml_tensor_overhead():
    """Bytes of an arena that a tensor takes besides its data."""
    return sizeof(ggml_object) + sizeof(ggml_tensor)

# ---- names and flags -------------------------------------------------------------------------------------------------
def ggml_get_name(tensor):
    """The tensor's name (bytes)."""
    enter(b"ggml_get_name")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return bytes(t.name[:GGML_MAX_NAME]).split(b"\0", 1)[0]

def ggml_set_name(tensor, name):
    """Names the tensor (bytes or str, cut to 63 bytes); returns it."""
    enter(b"ggml_set_name")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    set_name(t, arg_text(name, b"name"), b"")
    return wrap_tensor(t)

def ggml_format_name(tensor, fmt, *args):
    """Names the tensor by a printf format and its arguments; returns it."""
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
    """Marks the tensor as an input of the graph: allocators keep it apart."""
    enter(b"ggml_set_input")
    arg_tensor(tensor, b"tensor").flags |= GGML_TENSOR_FLAG_INPUT

def ggml_set_output(tensor):
    """Marks the tensor as an output: its memory is not used again."""
    enter(b"ggml_set_output")
    arg_tensor(tensor, b"tensor").flags |= GGML_TENSOR_FLAG_OUTPUT

def ggml_set_param(*args):
    """Marks the tensor as a parameter, by which gradients are taken. Called as (tensor) or (ctx, tensor)."""
    enter(b"ggml_set_param")
    if not 1 <= len(args) <= 2:
        fail(TypeError, f"called with {len(args)} arguments: need (tensor) or (ctx, tensor)")
    cdef ggml_tensor *t = arg_tensor(args[len(args) - 1], b"tensor")
    if t.op != 0:
        fail(ValueError, f"'{t.name.decode(errors='replace')}' is the result of {engine.op_name(t.op).decode()}: a parameter must be a leaf")
    t.flags |= GGML_TENSOR_FLAG_PARAM

def ggml_set_loss(tensor):
    """Marks a scalar f32 tensor as the loss, from which gradients start."""
    enter(b"ggml_set_loss")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if gg_nelements(t) != 1 or t.type != GGML_TYPE_F32:
        fail(ValueError, f"'{t.name.decode(errors='replace')}' is {gg_types[t.type].name.decode()} with {gg_nelements(t)} elements: need one f32")
    t.flags |= GGML_TENSOR_FLAG_LOSS

def ggml_get_data(tensor):
    """Address of the tensor's data (int); None when it has none."""
    enter(b"ggml_get_data")
    return wrap_handle(arg_tensor(tensor, b"tensor").data)

def ggml_get_data_f32(tensor):
    """The data of an f32 tensor as a ctypes pointer to float."""
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
    """Element i, counted through all dimensions, as a float."""
    enter(b"ggml_get_f32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return read(t, at_flat(t, arg_int(i, b"i")))

def ggml_set_f32_1d(tensor, i, value):
    """Sets element i, counted through all dimensions."""
    enter(b"ggml_set_f32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    write(t, at_flat(t, arg_int(i, b"i")), arg_float(value, b"value"))

def ggml_get_i32_1d(tensor, i):
    """Element i, counted through all dimensions, as an int (floats are truncated)."""
    enter(b"ggml_get_i32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return int(read(t, at_flat(t, arg_int(i, b"i"))))

def ggml_set_i32_1d(tensor, i, value):
    """Sets element i, counted through all dimensions, to an integer."""
    enter(b"ggml_set_i32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    write(t, at_flat(t, arg_int(i, b"i")), arg_int32(value, b"value"))

def ggml_get_f32_nd(tensor, i0, i1, i2, i3):
    """Element [i0, i1, i2, i3] as a float."""
    enter(b"ggml_get_f32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return read(t, at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3")))

def ggml_set_f32_nd(tensor, i0, i1, i2, i3, value):
    """Sets element [i0, i1, i2, i3]."""
    enter(b"ggml_set_f32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    write(t, at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3")), arg_float(value, b"value"))

def ggml_get_i32_nd(tensor, i0, i1, i2, i3):
    """Element [i0, i1, i2, i3] as an int (floats are truncated)."""
    enter(b"ggml_get_i32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return int(read(t, at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3"))))

def ggml_set_i32_nd(tensor, i0, i1, i2, i3, value):
    """Sets element [i0, i1, i2, i3] to an integer."""
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
    """Sets every element; returns the tensor."""
    enter(b"ggml_set_f32")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    fill(t, arg_float(value, b"value"))
    return wrap_tensor(t)

def ggml_set_i32(tensor, value):
    """Sets every element to an integer; returns the tensor."""
    enter(b"ggml_set_i32")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    fill(t, arg_int32(value, b"value"))
    return wrap_tensor(t)

def ggml_set_zero(tensor):
    """Sets every byte of the tensor's data to zero; returns the tensor."""
    enter(b"ggml_set_zero")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    check_data(t, "tensor")
    if gg_contiguous(t) or gg_types[t.type].quantized:
        memset(t.data, 0, nbytes(t))
    else:
        fill(t, 0)
    return wrap_tensor(t)

def ggml_unravel_index(tensor, i, i0, i1, i2, i3):
    """Writes the four indices of element i to the int64 pointers i0 to i3 (None: not wanted)."""
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
