"""Operations whose computing is a callback: as the C library has them, those of old releases, gradients."""
import itertools
import weakref

from libc.stdint cimport INT32_MAX, int64_t, uint8_t
from libc.string cimport memcpy

from .._core cimport (
    GGML_MAX_SRC, GGML_STATUS_FAILED, GGML_STATUS_SUCCESS, arg_address, arg_callback, arg_context, arg_extent,
    arg_graph, arg_int32, arg_tensor, arg_tensor_or_null, arg_tensors, arg_type, context_of, engine, enter, fail,
    gg_same_shape, ggml_context, ggml_tensor, keep, node_append, node_in_place, node_init, node_like, wrap_graph,
    wrap_handle, wrap_tensor,
)
from .._enums cimport GGML_OP_CUSTOM, GGML_OP_MAP_CUSTOM1, GGML_OP_MAP_CUSTOM2, GGML_OP_MAP_CUSTOM3, GGML_TYPE_F32
from .._graph.grad cimport Backward, gradients
from .. import _structs
from .._core import as_callback

cdef enum:
    FUN_AT = 0, N_TASKS_AT = 2, USERDATA_AT = 4, RULE_AT = 6  # in op_params; a rule is a gradient, see below

cdef ggml_tensor *finish(ggml_context *ctx, ggml_tensor *d, const void *fun, int n_tasks, const void *userdata, ggml_tensor *target) except NULL:
    """Enters a drafted node; with a target, its result lies in that tensor's memory."""
    memcpy(&d.op_params[FUN_AT], &fun, sizeof(fun))
    memcpy(&d.op_params[USERDATA_AT], &userdata, sizeof(userdata))
    d.op_params[N_TASKS_AT] = n_tasks
    if target != NULL:
        node_in_place(d, target)
    return node_append(ctx, d)

cdef object node(ggml_context *ctx, ggml_tensor *d, object kind, object fun, object n_tasks, object userdata, ggml_tensor *target):
    """The same for the arguments of a caller, who may drop callback and userdata: the context keeps them."""
    callback = as_callback(fun, kind)
    cdef void *address = arg_callback(callback, kind, b"fun")
    cdef void *data = arg_address(userdata, b"userdata")
    cdef ggml_tensor *t = finish(ctx, d, address, arg_int32(n_tasks, b"n_tasks"), data, target)
    keep(ctx, (callback, userdata))
    return wrap_tensor(t)

cdef void map_of(ggml_tensor *d, int op, ggml_tensor *a, ggml_tensor *b, ggml_tensor *c) noexcept:
    node_like(d, op, a.type, a)
    d.src[0], d.src[1], d.src[2] = a, b, c

# ---- one to three operands -------------------------------------------------------------------------------------------
def ggml_map_custom1(ctx, a, fun, n_tasks, userdata):
    """Creates a tensor like a whose elements a callback computes.

    Computing the node calls fun(dst, a, ith, nth, userdata) once for each ith from 0 to nth - 1, possibly on
    different threads at the same time; each call computes its share. nth is the smaller of n_tasks and the number
    of threads. An exception in fun ends the compute, which raises it. ggml_custom_set_backward gives the node a
    gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        a: operand, any type, any shape [ne0, ne1, ne2, ne3].
        fun: ggml_custom1_op_t, Python callable or address of a C function. dst and a are tensor pointers, ith and
            nth int, userdata an int or None.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        contiguous tensor of a's type and shape.
    Raises:
        TypeError: fun is no callback of this kind, or a or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom1")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM1, arg_tensor(a, b"a"), NULL, NULL)
    return node(k, &d, _structs.ggml_custom1_op_t, fun, n_tasks, userdata, NULL)

def ggml_map_custom1_inplace(ctx, a, fun, n_tasks, userdata):
    """Lets a callback overwrite a tensor in its own memory.

    The calls are those of ggml_map_custom1: fun(dst, a, ith, nth, userdata), where dst and a have the same data.
    The node has a gradient after ggml_custom_set_backward.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: operand, any type, any shape [ne0, ne1, ne2, ne3]; fun may modify it.
        fun: ggml_custom1_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        view of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is no callback of this kind, or a or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom1_inplace")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM1, arg_tensor(a, b"a"), NULL, NULL)
    return node(k, &d, _structs.ggml_custom1_op_t, fun, n_tasks, userdata, d.src[0])

def ggml_map_custom2(ctx, a, b, fun, n_tasks, userdata):
    """Creates a tensor like a that a callback computes from two operands.

    Computing the node calls fun(dst, a, b, ith, nth, userdata) once for each of nth tasks, as ggml_map_custom1
    describes. ggml_custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; the result has both.
        b: second operand, any type, any shape.
        fun: ggml_custom2_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        contiguous tensor of a's type and shape.
    Raises:
        TypeError: fun is no callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom2")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM2, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL)
    return node(k, &d, _structs.ggml_custom2_op_t, fun, n_tasks, userdata, NULL)

def ggml_map_custom2_inplace(ctx, a, b, fun, n_tasks, userdata):
    """Lets a callback overwrite its first of two operands.

    Computing the node calls fun(dst, a, b, ith, nth, userdata) once for each of nth tasks; dst and a have the same
    data. See ggml_map_custom1 for tasks and exceptions.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; fun may modify it.
        b: second operand, any type, any shape.
        fun: ggml_custom2_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        view of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is no callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom2_inplace")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM2, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL)
    return node(k, &d, _structs.ggml_custom2_op_t, fun, n_tasks, userdata, d.src[0])

def ggml_map_custom3(ctx, a, b, c, fun, n_tasks, userdata):
    """Creates a tensor like a that a callback computes from three operands.

    Computing the node calls fun(dst, a, b, c, ith, nth, userdata) once for each of nth tasks, as ggml_map_custom1
    describes. ggml_custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; the result has both.
        b: second operand, any type, any shape.
        c: third operand, any type, any shape.
        fun: ggml_custom3_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        contiguous tensor of a's type and shape.
    Raises:
        TypeError: fun is no callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom3")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM3, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c"))
    return node(k, &d, _structs.ggml_custom3_op_t, fun, n_tasks, userdata, NULL)

def ggml_map_custom3_inplace(ctx, a, b, c, fun, n_tasks, userdata):
    """Lets a callback overwrite its first of three operands.

    Computing the node calls fun(dst, a, b, c, ith, nth, userdata) once for each of nth tasks; dst and a have the
    same data. See ggml_map_custom1 for tasks and exceptions.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; fun may modify it.
        b: second operand, any type, any shape.
        c: third operand, any type, any shape.
        fun: ggml_custom3_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        view of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is no callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom3_inplace")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM3, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c"))
    return node(k, &d, _structs.ggml_custom3_op_t, fun, n_tasks, userdata, d.src[0])

# ---- any number of operands ------------------------------------------------------------------------------------------
cdef int sources(ggml_tensor *d, int first, object args, object n_args) except -1:
    """Puts the operands into a draft from src[first] on."""
    cdef int n = arg_int32(n_args, b"n_args")
    if n < 0 or first + n > GGML_MAX_SRC:
        fail(ValueError, f"n_args is {n}: need 0 to {GGML_MAX_SRC - first}")
    return arg_tensors(args, n, b"args", &d.src[first])

def ggml_custom_4d(ctx, type_, ne0, ne1, ne2, ne3, args, n_args, fun, n_tasks, userdata):
    """Creates a tensor of any type and shape that a callback computes from any number of operands.

    Computing the node calls fun(dst, ith, nth, userdata) once for each of nth tasks; the operands are
    dst.contents.src. See ggml_map_custom1 for tasks and exceptions. ggml_custom_set_backward gives the node a
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
        contiguous tensor [ne0, ne1, ne2, ne3] of type type_.
    Raises:
        TypeError: fun is no callback of this kind, or an operand or userdata is of the wrong kind.
        ValueError: type_, a size, n_args or n_tasks is invalid, args has fewer entries, or fun is None.
        RuntimeError: an entry of an array is no tensor of a live context.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_custom_4d")
    cdef ggml_tensor d
    node_init(&d, GGML_OP_CUSTOM, arg_type(type_, b"type_"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3"))
    sources(&d, 0, args, n_args)
    return node(k, &d, _structs.ggml_custom_op_t, fun, n_tasks, userdata, NULL)

def ggml_custom_inplace(ctx, a, args, n_args, fun, n_tasks, userdata):
    """Lets a callback overwrite a tensor, with any number of further operands.

    Computing the node calls fun(dst, ith, nth, userdata) once for each of nth tasks. dst.contents.src[0] is a,
    whose data dst shares; args follow from src[1] on. See ggml_map_custom1 for tasks and exceptions.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: tensor to overwrite, any type, any shape [ne0, ne1, ne2, ne3].
        args: further operands: a list, tuple or array of n_args tensor pointers.
        n_args: number of further operands, 0 to GGML_MAX_SRC - 1 (9).
        fun: ggml_custom_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        view of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is no callback of this kind, or an operand or userdata is of the wrong kind.
        ValueError: n_args or n_tasks is invalid, args has fewer entries, or fun is None.
        RuntimeError: an entry of an array is no tensor of a live context.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_custom_inplace")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_CUSTOM, arg_tensor(a, b"a"), NULL, NULL)
    sources(&d, 1, args, n_args)
    return node(k, &d, _structs.ggml_custom_op_t, fun, n_tasks, userdata, d.src[0])

# ---- the f32 forms of old releases -----------------------------------------------------------------------------------
# Nodes as above whose function is one of these: it calls the old callback, which is its userdata.
ctypedef void (*row1)(int, float *, const float *) noexcept nogil
ctypedef void (*row2)(int, float *, const float *, const float *) noexcept nogil
ctypedef void (*whole1)(ggml_tensor *, const ggml_tensor *) noexcept nogil
ctypedef void (*whole2)(ggml_tensor *, const ggml_tensor *, const ggml_tensor *) noexcept nogil
ctypedef void (*whole3)(ggml_tensor *, const ggml_tensor *, const ggml_tensor *, const ggml_tensor *) noexcept nogil

cdef bint f32_rows(const ggml_tensor *t, const ggml_tensor *shape) noexcept nogil:
    """Whether t has packed rows of floats and that shape: the callback takes addresses of rows."""
    return t.type == GGML_TYPE_F32 and t.nb[0] == sizeof(float) and gg_same_shape(t, shape) and t.ne[0] <= INT32_MAX

cdef float *row(const ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3) noexcept nogil:
    return <float *>(<uint8_t *>t.data + <size_t>i1 * t.nb[1] + <size_t>i2 * t.nb[2] + <size_t>i3 * t.nb[3])

cdef void each_row(ggml_tensor *dst, const ggml_tensor *a, const ggml_tensor *b, void *fun) noexcept nogil:
    cdef int64_t i1, i2, i3
    cdef int n = <int>dst.ne[0]
    if not f32_rows(dst, dst) or not f32_rows(a, dst) or (b != NULL and not f32_rows(b, dst)):
        engine.stop(engine.current_call(), GGML_STATUS_FAILED)
        return
    for i3 in range(dst.ne[3]):
        for i2 in range(dst.ne[2]):
            for i1 in range(dst.ne[1]):
                if b == NULL:
                    (<row1>fun)(n, row(dst, i1, i2, i3), row(a, i1, i2, i3))
                else:
                    (<row2>fun)(n, row(dst, i1, i2, i3), row(a, i1, i2, i3), row(b, i1, i2, i3))
                if engine.current_call().status != GGML_STATUS_SUCCESS:
                    return

# Of copies: the callback may write into the tensors.

cdef void unary_rows(ggml_tensor *dst, const ggml_tensor *a, int ith, int nth, void *fun) noexcept nogil:
    cdef ggml_tensor d = dst[0], x = a[0]
    each_row(&d, &x, NULL, fun)

cdef void binary_rows(ggml_tensor *dst, const ggml_tensor *a, const ggml_tensor *b, int ith, int nth, void *fun) noexcept nogil:
    cdef ggml_tensor d = dst[0], x = a[0], y = b[0]
    each_row(&d, &x, &y, fun)

cdef void custom1(ggml_tensor *dst, const ggml_tensor *a, int ith, int nth, void *fun) noexcept nogil:
    (<whole1>fun)(dst, a)

cdef void custom2(ggml_tensor *dst, const ggml_tensor *a, const ggml_tensor *b, int ith, int nth, void *fun) noexcept nogil:
    (<whole2>fun)(dst, a, b)

cdef void custom3(ggml_tensor *dst, const ggml_tensor *a, const ggml_tensor *b, const ggml_tensor *c, int ith, int nth, void *fun) noexcept nogil:
    (<whole3>fun)(dst, a, b, c)

cdef object old(ggml_context *ctx, const void *thunk, ggml_tensor *a, ggml_tensor *b, ggml_tensor *c, object kind, object fun, bint by_rows,
                bint inplace):
    cdef ggml_tensor d
    cdef ggml_tensor *t
    cdef void *address
    cdef int i
    map_of(&d, GGML_OP_MAP_CUSTOM1 if b == NULL else GGML_OP_MAP_CUSTOM2 if c == NULL else GGML_OP_MAP_CUSTOM3, a, b, c)
    for i in range(3):
        if d.src[i] != NULL and d.src[i].type != GGML_TYPE_F32:
            fail(ValueError, f"{'abc'[i]} is not f32")
        if by_rows and d.src[i] != NULL and not f32_rows(d.src[i], a):
            fail(ValueError, f"{'abc'[i]} does not have packed rows of a's shape: use ggml_cont first")
    callback = as_callback(fun, kind)
    address = arg_callback(callback, kind, b"fun")
    if address == NULL:
        fail(ValueError, "fun is NULL: need a function")
    t = finish(ctx, &d, thunk, 1, address, a if inplace else NULL)
    keep(ctx, callback)
    return wrap_tensor(t)

def ggml_map_unary_f32(ctx, a, fun):
    """Creates an f32 tensor whose rows a callback computes one by one.

    Computing the node calls fun(n, dst, a) for each row on one thread: n is the number of elements, dst and a are
    pointers to float. Older releases offered this form; ggml_map_custom1 is the general one.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32 with packed rows (nb0 = 4), [ne0, ne1, ne2, ne3].
        fun: ggml_unary_op_f32_t, Python callable or address of a C function.
    Returns:
        contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is no callback of this kind.
        ValueError: a is not f32 or its rows are not packed, or fun is None.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_unary_f32")
    return old(k, <void *>unary_rows, arg_tensor(a, b"a"), NULL, NULL, _structs.ggml_unary_op_f32_t, fun, True, False)

def ggml_map_unary_inplace_f32(ctx, a, fun):
    """Lets a callback overwrite the rows of an f32 tensor one by one.

    Computing the node calls fun(n, dst, a) for each row of n elements on one thread; dst and a are the same
    address.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32 with packed rows (nb0 = 4), [ne0, ne1, ne2, ne3]; it is modified.
        fun: ggml_unary_op_f32_t, Python callable or address of a C function.
    Returns:
        view of all of a.
    Raises:
        TypeError: fun is no callback of this kind.
        ValueError: a is not f32 or its rows are not packed, or fun is None.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_unary_inplace_f32")
    return old(k, <void *>unary_rows, arg_tensor(a, b"a"), NULL, NULL, _structs.ggml_unary_op_f32_t, fun, True, True)

def ggml_map_binary_f32(ctx, a, b, fun):
    """Creates an f32 tensor whose rows a callback computes from the rows of two tensors.

    Computing the node calls fun(n, dst, a, b) for each row on one thread: n is the number of elements, the others
    are pointers to float. Older releases offered this form; ggml_map_custom2 is the general one.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32 with packed rows (nb0 = 4), [ne0, ne1, ne2, ne3].
        b: f32 with packed rows, in the shape of a.
        fun: ggml_binary_op_f32_t, Python callable or address of a C function.
    Returns:
        contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is no callback of this kind.
        ValueError: a or b is not f32 or has no packed rows, the shapes differ, or fun is None.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_binary_f32")
    return old(k, <void *>binary_rows, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL, _structs.ggml_binary_op_f32_t, fun, True, False)

def ggml_map_binary_inplace_f32(ctx, a, b, fun):
    """Lets a callback overwrite the rows of a with results from the rows of a and b.

    Computing the node calls fun(n, dst, a, b) for each row of n elements on one thread; dst and a are the same
    address.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32 with packed rows (nb0 = 4), [ne0, ne1, ne2, ne3]; it is modified.
        b: f32 with packed rows, in the shape of a.
        fun: ggml_binary_op_f32_t, Python callable or address of a C function.
    Returns:
        view of all of a.
    Raises:
        TypeError: fun is no callback of this kind.
        ValueError: a or b is not f32 or has no packed rows, the shapes differ, or fun is None.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_binary_inplace_f32")
    return old(k, <void *>binary_rows, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL, _structs.ggml_binary_op_f32_t, fun, True, True)

def ggml_map_custom1_f32(ctx, a, fun):
    """Creates an f32 tensor that a callback computes as a whole from one operand.

    Computing the node calls fun(dst, a) with two tensor pointers, once and on one thread. Older releases offered
    this form; ggml_map_custom1 is the general one.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3], any strides.
        fun: ggml_custom1_op_f32_t, Python callable or address of a C function.
    Returns:
        contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is no callback of this kind.
        ValueError: a is not f32, or fun is None.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom1_f32")
    return old(k, <void *>custom1, arg_tensor(a, b"a"), NULL, NULL, _structs.ggml_custom1_op_f32_t, fun, False, False)

def ggml_map_custom1_inplace_f32(ctx, a, fun):
    """Lets a callback overwrite an f32 tensor as a whole.

    Computing the node calls fun(dst, a) once and on one thread; dst is a view of a.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; it is modified.
        fun: ggml_custom1_op_f32_t, Python callable or address of a C function.
    Returns:
        view of all of a.
    Raises:
        TypeError: fun is no callback of this kind.
        ValueError: a is not f32, or fun is None.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom1_inplace_f32")
    return old(k, <void *>custom1, arg_tensor(a, b"a"), NULL, NULL, _structs.ggml_custom1_op_f32_t, fun, False, True)

def ggml_map_custom2_f32(ctx, a, b, fun):
    """Creates an f32 tensor that a callback computes as a whole from two operands.

    Computing the node calls fun(dst, a, b) with three tensor pointers, once and on one thread. Older releases
    offered this form; ggml_map_custom2 is the general one.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; the result has the same.
        b: f32, any shape.
        fun: ggml_custom2_op_f32_t, Python callable or address of a C function.
    Returns:
        contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is no callback of this kind.
        ValueError: a or b is not f32, or fun is None.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom2_f32")
    return old(k, <void *>custom2, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL, _structs.ggml_custom2_op_f32_t, fun, False, False)

def ggml_map_custom2_inplace_f32(ctx, a, b, fun):
    """Lets a callback overwrite the f32 tensor a as a whole, with b as a second operand.

    Computing the node calls fun(dst, a, b) once and on one thread; dst is a view of a.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; it is modified.
        b: f32, any shape.
        fun: ggml_custom2_op_f32_t, Python callable or address of a C function.
    Returns:
        view of all of a.
    Raises:
        TypeError: fun is no callback of this kind.
        ValueError: a or b is not f32, or fun is None.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom2_inplace_f32")
    return old(k, <void *>custom2, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL, _structs.ggml_custom2_op_f32_t, fun, False, True)

def ggml_map_custom3_f32(ctx, a, b, c, fun):
    """Creates an f32 tensor that a callback computes as a whole from three operands.

    Computing the node calls fun(dst, a, b, c) with four tensor pointers, once and on one thread. Older releases
    offered this form; ggml_map_custom3 is the general one.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; the result has the same.
        b: f32, any shape.
        c: f32, any shape.
        fun: ggml_custom3_op_f32_t, Python callable or address of a C function.
    Returns:
        contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is no callback of this kind.
        ValueError: a, b or c is not f32, or fun is None.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom3_f32")
    return old(k, <void *>custom3, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c"), _structs.ggml_custom3_op_f32_t, fun, False,
               False)

def ggml_map_custom3_inplace_f32(ctx, a, b, c, fun):
    """Lets a callback overwrite the f32 tensor a as a whole, with b and c as further operands.

    Computing the node calls fun(dst, a, b, c) once and on one thread; dst is a view of a.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; it is modified.
        b: f32, any shape.
        c: f32, any shape.
        fun: ggml_custom3_op_f32_t, Python callable or address of a C function.
    Returns:
        view of all of a.
    Raises:
        TypeError: fun is no callback of this kind.
        ValueError: a, b or c is not f32, or fun is None.
        MemoryError: the context is full.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom3_inplace_f32")
    return old(k, <void *>custom3, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c"), _structs.ggml_custom3_op_f32_t, fun, False, True)

# ---- gradients -------------------------------------------------------------------------------------------------------
class _Rule:
    """Holds the gradient of a node: kept by the node's context, found by the number in its op_params."""

    def __init__(self, function):
        self.function = function

cdef object rules = weakref.WeakValueDictionary()
cdef object numbers = itertools.count(1)

def ggml_custom_set_backward(tensor, backward):
    """Gives the node of a custom operation a gradient.

    ggml_build_backward_expand and ggml_build_backward_gradient_checkpointing call backward(ctx, tensor, grad) when
    they reach the node. It adds operations on grad, the gradient with respect to tensor, to ctx and returns the
    gradients with respect to the operands, tensor.contents.src. The context of tensor keeps backward alive. The
    function is an addition of this library.

    Args:
        tensor: result of ggml_map_custom* or ggml_custom_*, any type, any shape.
        backward: callable that returns one tensor (the gradient with respect to src[0]) or a tuple or list with one
            for each operand; each is f32 in the shape of its operand, or None for no gradient.
    Returns:
        tensor itself.
    Raises:
        TypeError: backward is not callable.
        ValueError: tensor is not made by a custom operation, or not in a live context.
    """
    enter(b"ggml_custom_set_backward")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if not GGML_OP_MAP_CUSTOM1 <= t.op <= GGML_OP_CUSTOM:
        fail(ValueError, f"tensor is made by {engine.op_name(t.op).decode()}: need a custom operation")
    if not callable(backward):
        fail(TypeError, f"backward is {backward!r}: need a callable")
    cdef ggml_context *ctx = context_of(t)
    if ctx == NULL:
        fail(ValueError, "tensor is not in a live context")
    rule = _Rule(backward)
    number = next(numbers)
    rules[number] = rule
    keep(ctx, rule)
    t.op_params[RULE_AT] = number
    return wrap_tensor(t)

cdef int grad_custom(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_tensor *x
    cdef int k
    rule = rules.get(t.op_params[RULE_AT])
    if rule is None:
        name = bytes(t.name[:64]).split(b"\0")[0].decode(errors="replace")
        fail(ValueError,
             f"'{name}' ({engine.op_name(t.op).decode()}) has no gradient: give it one with ggml_custom_set_backward")
    results = rule.function(wrap_handle(b.ctx), wrap_tensor(t), wrap_tensor(g))
    arg_context(wrap_handle(b.ctx), b"ggml_build_backward_expand")           # raises if it freed them
    arg_graph(wrap_graph(b.graph), b"cgraph")
    if not isinstance(results, (tuple, list)):
        results = (results,)
    for k, result in enumerate(results):
        x = arg_tensor_or_null(result, b"result of backward")
        if x == NULL:
            continue
        if k >= GGML_MAX_SRC or t.src[k] == NULL:
            fail(ValueError, f"backward gave {len(results)} gradients: source {k} does not exist")
        if x.type != GGML_TYPE_F32 or not gg_same_shape(x, t.src[k]):
            fail(ValueError, f"backward gave a gradient by source {k} that is not f32 in its shape")
        b.add(t.src[k], x)
    return 0

gradients[GGML_OP_MAP_CUSTOM1] = gradients[GGML_OP_MAP_CUSTOM2] = gradients[GGML_OP_MAP_CUSTOM3] = gradients[GGML_OP_CUSTOM] = grad_custom
