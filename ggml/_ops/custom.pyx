"""Operations that a callback computes: map_custom and custom nodes, the f32 forms of older releases, gradients."""
import itertools
import weakref

from libc.stdint cimport INT32_MAX, int64_t, uint8_t

from .._core cimport (
    GGML_MAX_SRC, GGML_STATUS_FAILED, GGML_STATUS_SUCCESS, arg_address, arg_callback, arg_context, arg_extent,
    arg_int32, arg_tensor, arg_tensor_or_null, arg_tensors, arg_type, context_of, engine, enter, entered, fail,
    gg_same_shape, ggml_context, ggml_tensor, keep, name_text, node_append, node_in_place, node_init, node_like, paused,
    repr_short, shape_text, wrap_handle, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_COMPILED, GGML_OP_CUSTOM, GGML_OP_MAP_CUSTOM1, GGML_OP_MAP_CUSTOM2, GGML_OP_MAP_CUSTOM3, GGML_TYPE_F32,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport custom_params, gg_custom_params
from .. import _structs
from .._core import as_callback

cdef void init_map(ggml_tensor *node, ggml_tensor *a, ggml_tensor *b, ggml_tensor *c) noexcept:
    """Initialises a node of MAP_CUSTOM1 to MAP_CUSTOM3, by the number of operands that are not NULL."""
    node_like(node, GGML_OP_MAP_CUSTOM1 if b == NULL else GGML_OP_MAP_CUSTOM2 if c == NULL else GGML_OP_MAP_CUSTOM3,
              a.type, a)
    node.src[0], node.src[1], node.src[2] = a, b, c

cdef ggml_tensor *append_callback(ggml_context *ctx, ggml_tensor *node, const void *function, int n_tasks,
                                  const void *userdata, bint inplace) except NULL:
    """Appends an initialised node that calls a function; with inplace, its result lies in the memory of src[0]."""
    cdef gg_custom_params *q = custom_params(node)
    q.function, q.n_tasks, q.userdata = <void *>function, n_tasks, <void *>userdata
    if inplace:
        node_in_place(node, node.src[0])
    return node_append(ctx, node)

cdef object callback_of(ggml_context *ctx, ggml_tensor *node, object callback_type, object fun, object n_tasks,
                        object userdata, bint inplace):
    """Appends an initialised node with the arguments of a public function; the context keeps fun and userdata."""
    callback = as_callback(fun, callback_type)
    cdef void *function = arg_callback(callback, callback_type, b"fun")
    cdef void *data = arg_address(userdata, b"userdata")
    cdef ggml_tensor *t = append_callback(ctx, node, function, arg_int32(n_tasks, b"n_tasks"), data, inplace)
    keep(ctx, (callback, userdata))
    return wrap_tensor(t)

# ---- one to three operands -------------------------------------------------------------------------------------------
cdef object map1_of(object ctx, const char *name, object a, object fun, object n_tasks, object userdata, bint inplace):
    """What the public function `name` returns: a node of MAP_CUSTOM1."""
    cdef ggml_context *context = arg_context(ctx, name)
    cdef ggml_tensor node
    init_map(&node, arg_tensor(a, b"a"), NULL, NULL)
    return callback_of(context, &node, _structs.ggml_custom1_op_t, fun, n_tasks, userdata, inplace)

cdef object map2_of(object ctx, const char *name, object a, object b, object fun, object n_tasks, object userdata,
                    bint inplace):
    """What the public function `name` returns: a node of MAP_CUSTOM2."""
    cdef ggml_context *context = arg_context(ctx, name)
    cdef ggml_tensor node
    init_map(&node, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL)
    return callback_of(context, &node, _structs.ggml_custom2_op_t, fun, n_tasks, userdata, inplace)

cdef object map3_of(object ctx, const char *name, object a, object b, object c, object fun, object n_tasks,
                    object userdata, bint inplace):
    """What the public function `name` returns: a node of MAP_CUSTOM3."""
    cdef ggml_context *context = arg_context(ctx, name)
    cdef ggml_tensor node
    init_map(&node, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c"))
    return callback_of(context, &node, _structs.ggml_custom3_op_t, fun, n_tasks, userdata, inplace)

def ggml_map_custom1(ctx, a, fun, n_tasks, userdata):
    """Creates a tensor like a whose elements a callback computes.

    Computing the node calls fun(dst, a, ith, nth, userdata) once for each ith from 0 to nth - 1, possibly on
    different threads at the same time; each call computes its share. nth is the smaller of n_tasks and the number
    of threads. An exception in fun ends the compute, which raises it. ggml.ext.custom_set_backward gives the node a
    gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        a: operand, any type, any shape [ne0, ne1, ne2, ne3].
        fun: ggml_custom1_op_t, Python callable or address of a C function. dst and a are tensor pointers, ith and
            nth int, userdata an int or None.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        TypeError: fun is not a callback of this kind, or a or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    return map1_of(ctx, b"ggml_map_custom1", a, fun, n_tasks, userdata, False)

def ggml_map_custom1_inplace(ctx, a, fun, n_tasks, userdata):
    """Lets a callback overwrite a tensor in its own memory.

    The calls are those of ggml_map_custom1: fun(dst, a, ith, nth, userdata), where dst and a have the same data.
    The node has a gradient after ggml.ext.custom_set_backward.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: operand, any type, any shape [ne0, ne1, ne2, ne3]; fun may modify it.
        fun: ggml_custom1_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        View of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is not a callback of this kind, or a or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    return map1_of(ctx, b"ggml_map_custom1_inplace", a, fun, n_tasks, userdata, True)

def ggml_map_custom2(ctx, a, b, fun, n_tasks, userdata):
    """Creates a tensor like a that a callback computes from two operands.

    Computing the node calls fun(dst, a, b, ith, nth, userdata) once for each of nth tasks, as ggml_map_custom1
    describes. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; the result has both.
        b: second operand, any type, any shape.
        fun: ggml_custom2_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        TypeError: fun is not a callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    return map2_of(ctx, b"ggml_map_custom2", a, b, fun, n_tasks, userdata, False)

def ggml_map_custom2_inplace(ctx, a, b, fun, n_tasks, userdata):
    """Lets a callback overwrite its first of two operands.

    Computing the node calls fun(dst, a, b, ith, nth, userdata) once for each of nth tasks; dst and a have the same
    data. See ggml_map_custom1 for tasks and exceptions. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; fun may modify it.
        b: second operand, any type, any shape.
        fun: ggml_custom2_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        View of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is not a callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    return map2_of(ctx, b"ggml_map_custom2_inplace", a, b, fun, n_tasks, userdata, True)

def ggml_map_custom3(ctx, a, b, c, fun, n_tasks, userdata):
    """Creates a tensor like a that a callback computes from three operands.

    Computing the node calls fun(dst, a, b, c, ith, nth, userdata) once for each of nth tasks, as ggml_map_custom1
    describes. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; the result has both.
        b: second operand, any type, any shape.
        c: third operand, any type, any shape.
        fun: ggml_custom3_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        TypeError: fun is not a callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    return map3_of(ctx, b"ggml_map_custom3", a, b, c, fun, n_tasks, userdata, False)

def ggml_map_custom3_inplace(ctx, a, b, c, fun, n_tasks, userdata):
    """Lets a callback overwrite its first of three operands.

    Computing the node calls fun(dst, a, b, c, ith, nth, userdata) once for each of nth tasks; dst and a have the
    same data. See ggml_map_custom1 for tasks and exceptions. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; fun may modify it.
        b: second operand, any type, any shape.
        c: third operand, any type, any shape.
        fun: ggml_custom3_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        View of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is not a callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    return map3_of(ctx, b"ggml_map_custom3_inplace", a, b, c, fun, n_tasks, userdata, True)

# ---- any number of operands ------------------------------------------------------------------------------------------
cdef int set_sources(ggml_tensor *node, int first, object args, object n_args) except -1:
    """Stores the n_args tensors of args as sources, from src[first] on."""
    cdef int n = arg_int32(n_args, b"n_args")
    if n < 0 or first + n > GGML_MAX_SRC:
        fail(ValueError, f"n_args is {n}: need 0 to {GGML_MAX_SRC - first}")
    return arg_tensors(args, n, b"args", &node.src[first])

cdef object custom_of(ggml_context *c, int op, object type_, object ne0, object ne1, object ne2, object ne3,
                      object args, object n_args, object fun, object n_tasks, object userdata):
    """A node of any type and shape without an operand that it resembles."""
    cdef ggml_tensor node
    node_init(&node, op, arg_type(type_, b"type_"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"),
              arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3"))
    set_sources(&node, 0, args, n_args)
    return callback_of(c, &node, _structs.ggml_custom_op_t, fun, n_tasks, userdata, False)

def ggml_custom_4d(ctx, type_, ne0, ne1, ne2, ne3, args, n_args, fun, n_tasks, userdata):
    """Creates a tensor of any type and shape that a callback computes from any number of operands.

    Computing the node calls fun(dst, ith, nth, userdata) once for each of nth tasks; the operands are
    dst.contents.src. See ggml_map_custom1 for tasks and exceptions. ggml.ext.custom_set_backward gives the node a
    gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        type_: type of the result, GGML_TYPE_*.
        ne0: size of dimension 0.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
        args: operands: a list, tuple or array of n_args tensor pointers.
        n_args: number of operands, 0 to GGML_MAX_SRC (10).
        fun: ggml_custom_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        Contiguous tensor [ne0, ne1, ne2, ne3] of type type_.
    Raises:
        TypeError: fun is not a callback of this kind, or an operand or userdata is of the wrong kind.
        ValueError: type_, a size, n_args or n_tasks is invalid, args has fewer entries, or fun is None.
        RuntimeError: an entry of an array is not a tensor of a live context.
        MemoryError: the context is full.
    """
    return custom_of(arg_context(ctx, b"ggml_custom_4d"), GGML_OP_CUSTOM, type_, ne0, ne1, ne2, ne3, args, n_args,
                     fun, n_tasks, userdata)

def ext_compiled(ctx, type_, ne0, ne1, ne2, ne3, args, n_args, fun, n_tasks, userdata):
    """Creates a tensor of any type and shape that compiled code computes from any number of operands.

    As ggml_custom_4d, for functions that are no Python code, write to the memory of dst alone and leave all fields of
    tensors as they are: a graph with such a node is prepared as one without. There is no gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        type_: type of the result, GGML_TYPE_*.
        ne0: size of dimension 0.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
        args: operands: a list, tuple or array of n_args tensor pointers.
        n_args: number of operands, 0 to GGML_MAX_SRC (10).
        fun: ggml_custom_op_t, or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        Contiguous tensor [ne0, ne1, ne2, ne3] of type type_.
    Raises:
        TypeError: fun is not a function of this kind, or an operand or userdata is of the wrong kind.
        ValueError: type_, a size, n_args or n_tasks is invalid, args has fewer entries, or fun is None.
        RuntimeError: an entry of an array is not a tensor of a live context.
        MemoryError: the context is full.
    """
    return custom_of(arg_context(ctx, b"ggml.ext.compiled"), GGML_OP_COMPILED, type_, ne0, ne1, ne2, ne3, args, n_args,
                     fun, n_tasks, userdata)

def ggml_custom_inplace(ctx, a, args, n_args, fun, n_tasks, userdata):
    """Lets a callback overwrite a tensor, with any number of further operands.

    Computing the node calls fun(dst, ith, nth, userdata) once for each of nth tasks. dst.contents.src[0] is a,
    whose data dst shares; args follow from src[1] on. See ggml_map_custom1 for tasks and exceptions.
    ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: tensor to overwrite, any type, any shape [ne0, ne1, ne2, ne3].
        args: further operands: a list, tuple or array of n_args tensor pointers.
        n_args: number of further operands, 0 to GGML_MAX_SRC - 1 (9).
        fun: ggml_custom_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        View of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is not a callback of this kind, or an operand or userdata is of the wrong kind.
        ValueError: n_args or n_tasks is invalid, args has fewer entries, or fun is None.
        RuntimeError: an entry of an array is not a tensor of a live context.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_custom_inplace")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&node, GGML_OP_CUSTOM, x.type, x)
    node.src[0] = x
    set_sources(&node, 1, args, n_args)
    return callback_of(c, &node, _structs.ggml_custom_op_t, fun, n_tasks, userdata, True)

# ---- the f32 forms of older releases ---------------------------------------------------------------------------------
# Such a node is a MAP_CUSTOM node whose function is one of those below and whose userdata is the caller's callback.
ctypedef void (*unary_row_fn)(int, float *, const float *) noexcept nogil
ctypedef void (*binary_row_fn)(int, float *, const float *, const float *) noexcept nogil
ctypedef void (*custom1_fn)(ggml_tensor *, const ggml_tensor *) noexcept nogil
ctypedef void (*custom2_fn)(ggml_tensor *, const ggml_tensor *, const ggml_tensor *) noexcept nogil
ctypedef void (*custom3_fn)(ggml_tensor *, const ggml_tensor *, const ggml_tensor *, const ggml_tensor *) noexcept nogil

cdef bint has_f32_rows(const ggml_tensor *t, const ggml_tensor *like) noexcept nogil:
    """Whether t has contiguous rows of floats and the shape of `like`: callbacks take addresses and an int length."""
    return t.type == GGML_TYPE_F32 and t.nb[0] == sizeof(float) and gg_same_shape(t, like) and t.ne[0] <= INT32_MAX

cdef float *row_address(const ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3) noexcept nogil:
    return <float *>(<uint8_t *>t.data + <size_t>i1 * t.nb[1] + <size_t>i2 * t.nb[2] + <size_t>i3 * t.nb[3])

cdef void call_for_rows(ggml_tensor *dst, const ggml_tensor *a, const ggml_tensor *b, void *fun) noexcept nogil:
    """Calls fun for each row, as a unary_row_fn if b is NULL, else as a binary_row_fn."""
    cdef int64_t i1, i2, i3
    cdef int n = <int>dst.ne[0]
    if not has_f32_rows(dst, dst) or not has_f32_rows(a, dst) or (b != NULL and not has_f32_rows(b, dst)):
        engine.stop(engine.current_call(), GGML_STATUS_FAILED)
        return
    for i3 in range(dst.ne[3]):
        for i2 in range(dst.ne[2]):
            for i1 in range(dst.ne[1]):
                if b == NULL:
                    (<unary_row_fn>fun)(n, row_address(dst, i1, i2, i3), row_address(a, i1, i2, i3))
                else:
                    (<binary_row_fn>fun)(n, row_address(dst, i1, i2, i3), row_address(a, i1, i2, i3),
                                         row_address(b, i1, i2, i3))
                if engine.current_call().status != GGML_STATUS_SUCCESS:
                    return

# The tensor structs are copied, because the callback may write into those of the graph while rows are computed.
cdef void call_unary_rows(ggml_tensor *dst, const ggml_tensor *a, int ith, int nth, void *fun) noexcept nogil:
    cdef ggml_tensor dst_copy = dst[0], a_copy = a[0]
    call_for_rows(&dst_copy, &a_copy, NULL, fun)

cdef void call_binary_rows(ggml_tensor *dst, const ggml_tensor *a, const ggml_tensor *b, int ith, int nth,
                           void *fun) noexcept nogil:
    cdef ggml_tensor dst_copy = dst[0], a_copy = a[0], b_copy = b[0]
    call_for_rows(&dst_copy, &a_copy, &b_copy, fun)

cdef void call_custom1(ggml_tensor *dst, const ggml_tensor *a, int ith, int nth, void *fun) noexcept nogil:
    (<custom1_fn>fun)(dst, a)

cdef void call_custom2(ggml_tensor *dst, const ggml_tensor *a, const ggml_tensor *b, int ith, int nth,
                       void *fun) noexcept nogil:
    (<custom2_fn>fun)(dst, a, b)

cdef void call_custom3(ggml_tensor *dst, const ggml_tensor *a, const ggml_tensor *b, const ggml_tensor *c, int ith,
                       int nth, void *fun) noexcept nogil:
    (<custom3_fn>fun)(dst, a, b, c)

cdef object f32_map_of(object ctx, const char *name, const void *caller, tuple operands, object callback_type,
                       object fun, bint inplace):
    """What the public function `name` returns: a node whose function `caller` calls fun."""
    cdef ggml_context *context = arg_context(ctx, name)
    cdef bint by_rows = caller == <void *>call_unary_rows or caller == <void *>call_binary_rows
    cdef ggml_tensor node
    cdef ggml_tensor *x[3]
    cdef ggml_tensor *t
    cdef void *function
    cdef int i
    x[0] = x[1] = x[2] = NULL
    for i, operand_name in enumerate((b"a", b"b", b"c")[:len(operands)]):
        x[i] = arg_tensor(operands[i], operand_name)
        if x[i].type != GGML_TYPE_F32:
            fail(ValueError, f"{operand_name.decode()} is {shape_text(x[i])}: need f32")
        if by_rows and not has_f32_rows(x[i], x[0]):
            fail(ValueError, f"{operand_name.decode()} is {shape_text(x[i])}: need contiguous rows and the shape of a, "
                             "use ggml_cont first")
    init_map(&node, x[0], x[1], x[2])
    callback = as_callback(fun, callback_type)
    function = arg_callback(callback, callback_type, b"fun")
    if function == NULL:
        fail(ValueError, "fun is NULL: need a function")
    t = append_callback(context, &node, caller, 1, function, inplace)
    keep(context, callback)
    return wrap_tensor(t)

def ggml_map_unary_f32(ctx, a, fun):
    """Creates an f32 tensor whose rows a callback computes one by one.

    Computing the node calls fun(n, dst, a) for each row on one thread: n is the number of elements, dst and a are
    pointers to float. Older releases offered this form; ggml_map_custom1 is the general one.
    ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32 with contiguous rows (nb0 = 4), [ne0, ne1, ne2, ne3].
        fun: ggml_unary_op_f32_t, Python callable or address of a C function.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a is not f32 or its rows are not contiguous, or fun is None.
        MemoryError: the context is full.
    """
    return f32_map_of(ctx, b"ggml_map_unary_f32", <void *>call_unary_rows, (a,),
                      _structs.ggml_unary_op_f32_t, fun, False)

def ggml_map_unary_inplace_f32(ctx, a, fun):
    """Lets a callback overwrite the rows of an f32 tensor one by one.

    Computing the node calls fun(n, dst, a) for each row of n elements on one thread; dst and a are the same
    address. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32 with contiguous rows (nb0 = 4), [ne0, ne1, ne2, ne3]; it is modified.
        fun: ggml_unary_op_f32_t, Python callable or address of a C function.
    Returns:
        View of all of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a is not f32 or its rows are not contiguous, or fun is None.
        MemoryError: the context is full.
    """
    return f32_map_of(ctx, b"ggml_map_unary_inplace_f32", <void *>call_unary_rows, (a,),
                      _structs.ggml_unary_op_f32_t, fun, True)

def ggml_map_binary_f32(ctx, a, b, fun):
    """Creates an f32 tensor whose rows a callback computes from the rows of two tensors.

    Computing the node calls fun(n, dst, a, b) for each row on one thread: n is the number of elements, the others
    are pointers to float. Older releases offered this form; ggml_map_custom2 is the general one.
    ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32 with contiguous rows (nb0 = 4), [ne0, ne1, ne2, ne3].
        b: f32 with contiguous rows, in the shape of a.
        fun: ggml_binary_op_f32_t, Python callable or address of a C function.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a or b is not f32 or has no contiguous rows, the shapes differ, or fun is None.
        MemoryError: the context is full.
    """
    return f32_map_of(ctx, b"ggml_map_binary_f32", <void *>call_binary_rows, (a, b),
                      _structs.ggml_binary_op_f32_t, fun, False)

def ggml_map_binary_inplace_f32(ctx, a, b, fun):
    """Lets a callback overwrite the rows of a with results from the rows of a and b.

    Computing the node calls fun(n, dst, a, b) for each row of n elements on one thread; dst and a are the same
    address. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32 with contiguous rows (nb0 = 4), [ne0, ne1, ne2, ne3]; it is modified.
        b: f32 with contiguous rows, in the shape of a.
        fun: ggml_binary_op_f32_t, Python callable or address of a C function.
    Returns:
        View of all of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a or b is not f32 or has no contiguous rows, the shapes differ, or fun is None.
        MemoryError: the context is full.
    """
    return f32_map_of(ctx, b"ggml_map_binary_inplace_f32", <void *>call_binary_rows, (a, b),
                      _structs.ggml_binary_op_f32_t, fun, True)

def ggml_map_custom1_f32(ctx, a, fun):
    """Creates an f32 tensor that a callback computes as a whole from one operand.

    Computing the node calls fun(dst, a) with two tensor pointers, once and on one thread. Older releases offered
    this form; ggml_map_custom1 is the general one. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3], any strides.
        fun: ggml_custom1_op_f32_t, Python callable or address of a C function.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a is not f32, or fun is None.
        MemoryError: the context is full.
    """
    return f32_map_of(ctx, b"ggml_map_custom1_f32", <void *>call_custom1, (a,),
                      _structs.ggml_custom1_op_f32_t, fun, False)

def ggml_map_custom1_inplace_f32(ctx, a, fun):
    """Lets a callback overwrite an f32 tensor as a whole.

    Computing the node calls fun(dst, a) once and on one thread; dst is a view of a. ggml.ext.custom_set_backward gives
    the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; it is modified.
        fun: ggml_custom1_op_f32_t, Python callable or address of a C function.
    Returns:
        View of all of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a is not f32, or fun is None.
        MemoryError: the context is full.
    """
    return f32_map_of(ctx, b"ggml_map_custom1_inplace_f32", <void *>call_custom1, (a,),
                      _structs.ggml_custom1_op_f32_t, fun, True)

def ggml_map_custom2_f32(ctx, a, b, fun):
    """Creates an f32 tensor that a callback computes as a whole from two operands.

    Computing the node calls fun(dst, a, b) with three tensor pointers, once and on one thread. Older releases
    offered this form; ggml_map_custom2 is the general one. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; the result has the same.
        b: f32, any shape.
        fun: ggml_custom2_op_f32_t, Python callable or address of a C function.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a or b is not f32, or fun is None.
        MemoryError: the context is full.
    """
    return f32_map_of(ctx, b"ggml_map_custom2_f32", <void *>call_custom2, (a, b),
                      _structs.ggml_custom2_op_f32_t, fun, False)

def ggml_map_custom2_inplace_f32(ctx, a, b, fun):
    """Lets a callback overwrite the f32 tensor a as a whole, with b as a second operand.

    Computing the node calls fun(dst, a, b) once and on one thread; dst is a view of a. ggml.ext.custom_set_backward
    gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; it is modified.
        b: f32, any shape.
        fun: ggml_custom2_op_f32_t, Python callable or address of a C function.
    Returns:
        View of all of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a or b is not f32, or fun is None.
        MemoryError: the context is full.
    """
    return f32_map_of(ctx, b"ggml_map_custom2_inplace_f32", <void *>call_custom2, (a, b),
                      _structs.ggml_custom2_op_f32_t, fun, True)

def ggml_map_custom3_f32(ctx, a, b, c, fun):
    """Creates an f32 tensor that a callback computes as a whole from three operands.

    Computing the node calls fun(dst, a, b, c) with four tensor pointers, once and on one thread. Older releases
    offered this form; ggml_map_custom3 is the general one. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; the result has the same.
        b: f32, any shape.
        c: f32, any shape.
        fun: ggml_custom3_op_f32_t, Python callable or address of a C function.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a, b or c is not f32, or fun is None.
        MemoryError: the context is full.
    """
    return f32_map_of(ctx, b"ggml_map_custom3_f32", <void *>call_custom3, (a, b, c),
                      _structs.ggml_custom3_op_f32_t, fun, False)

def ggml_map_custom3_inplace_f32(ctx, a, b, c, fun):
    """Lets a callback overwrite the f32 tensor a as a whole, with b and c as further operands.

    Computing the node calls fun(dst, a, b, c) once and on one thread; dst is a view of a. ggml.ext.custom_set_backward
    gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; it is modified.
        b: f32, any shape.
        c: f32, any shape.
        fun: ggml_custom3_op_f32_t, Python callable or address of a C function.
    Returns:
        View of all of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a, b or c is not f32, or fun is None.
        MemoryError: the context is full.
    """
    return f32_map_of(ctx, b"ggml_map_custom3_inplace_f32", <void *>call_custom3, (a, b, c),
                      _structs.ggml_custom3_op_f32_t, fun, True)

# ---- gradients -------------------------------------------------------------------------------------------------------
class _BackwardFunction:
    """The callable that computes a node's gradient; the context of the node keeps it alive."""

    def __init__(self, function):
        self.function = function

cdef object backward_functions = weakref.WeakValueDictionary()     # by the number in the node's op_params
cdef object backward_numbers = itertools.count(1)

def ext_custom_set_backward(tensor, backward):
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
    enter(b"ggml.ext.custom_set_backward")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if not GGML_OP_MAP_CUSTOM1 <= t.op <= GGML_OP_CUSTOM:
        fail(ValueError, f"tensor is made by {engine.op_name(t.op).decode()}: need a custom operation")
    if not callable(backward):
        fail(TypeError, f"backward is {repr_short(backward)}: need a callable")
    cdef ggml_context *ctx = context_of(t)
    if ctx == NULL:
        fail(ValueError, "tensor is not in a live context")
    entry = _BackwardFunction(backward)
    number = next(backward_numbers)
    backward_functions[number] = entry
    keep(ctx, entry)
    custom_params(t).backward = number
    return wrap_tensor(t)

cdef int grad_custom(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """dx = what the function given to ggml.ext.custom_set_backward returns for the operand x."""
    cdef const char *caller = entered()
    cdef ggml_tensor *dx
    cdef int i
    entry = backward_functions.get(custom_params(t).backward)
    if entry is None:
        fail(ValueError, f"'{name_text(t)}' ({engine.op_name(t.op).decode()}) has no gradient: "
                         "give it one with ggml.ext.custom_set_backward")
    results = paused(entry.function, (wrap_handle(b.ctx), wrap_tensor(t), wrap_tensor(g)))
    b.check_after_callback(caller, t)
    if not isinstance(results, (tuple, list)):
        results = (results,)
    for i, result in enumerate(results):
        dx = arg_tensor_or_null(result, b"result of backward")
        if dx == NULL:
            continue
        if i >= GGML_MAX_SRC or t.src[i] == NULL:
            fail(ValueError, f"backward returned {len(results)} gradients: source {i} does not exist")
        if dx.type != GGML_TYPE_F32 or not gg_same_shape(dx, t.src[i]):
            fail(ValueError, f"backward returned a gradient of source {i} that is not f32 in its shape")
        b.add(t.src[i], dx)
    return 0

gradients[GGML_OP_MAP_CUSTOM1] = gradients[GGML_OP_MAP_CUSTOM2] = gradients[GGML_OP_MAP_CUSTOM3] = grad_custom
gradients[GGML_OP_CUSTOM] = grad_custom
