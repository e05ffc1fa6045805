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
    """A tensor like a, computed by fun(dst, a, ith, nth, userdata) on up to n_tasks threads (GGML_N_TASKS_MAX: on all).

    fun: a ggml_custom1_op_t, a Python callable or the address of a C function. Its exceptions end the compute.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom1")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM1, arg_tensor(a, b"a"), NULL, NULL)
    return node(k, &d, _structs.ggml_custom1_op_t, fun, n_tasks, userdata, NULL)

def ggml_map_custom1_inplace(ctx, a, fun, n_tasks, userdata):
    """ggml_map_custom1, written over a."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom1_inplace")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM1, arg_tensor(a, b"a"), NULL, NULL)
    return node(k, &d, _structs.ggml_custom1_op_t, fun, n_tasks, userdata, d.src[0])

def ggml_map_custom2(ctx, a, b, fun, n_tasks, userdata):
    """A tensor like a, computed by fun(dst, a, b, ith, nth, userdata): see ggml_map_custom1."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom2")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM2, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL)
    return node(k, &d, _structs.ggml_custom2_op_t, fun, n_tasks, userdata, NULL)

def ggml_map_custom2_inplace(ctx, a, b, fun, n_tasks, userdata):
    """ggml_map_custom2, written over a."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom2_inplace")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM2, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL)
    return node(k, &d, _structs.ggml_custom2_op_t, fun, n_tasks, userdata, d.src[0])

def ggml_map_custom3(ctx, a, b, c, fun, n_tasks, userdata):
    """A tensor like a, computed by fun(dst, a, b, c, ith, nth, userdata): see ggml_map_custom1."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom3")
    cdef ggml_tensor d
    map_of(&d, GGML_OP_MAP_CUSTOM3, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c"))
    return node(k, &d, _structs.ggml_custom3_op_t, fun, n_tasks, userdata, NULL)

def ggml_map_custom3_inplace(ctx, a, b, c, fun, n_tasks, userdata):
    """ggml_map_custom3, written over a."""
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
    """A tensor [ne0, ne1, ne2, ne3], computed by fun(dst, ith, nth, userdata) from dst.contents.src, which are args.

    args: an array of n_args tensor pointers, a list or a tuple. For fun, n_tasks and userdata see ggml_map_custom1.
    """
    cdef ggml_context *k = arg_context(ctx, b"ggml_custom_4d")
    cdef ggml_tensor d
    node_init(&d, GGML_OP_CUSTOM, arg_type(type_, b"type_"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3"))
    sources(&d, 0, args, n_args)
    return node(k, &d, _structs.ggml_custom_op_t, fun, n_tasks, userdata, NULL)

def ggml_custom_inplace(ctx, a, args, n_args, fun, n_tasks, userdata):
    """ggml_custom_4d, written over a, which becomes src[0]; args follow."""
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
    """A tensor like a (f32), computed by fun(n, dst, a) for each row of n elements, on one thread."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_unary_f32")
    return old(k, <void *>unary_rows, arg_tensor(a, b"a"), NULL, NULL, _structs.ggml_unary_op_f32_t, fun, True, False)

def ggml_map_unary_inplace_f32(ctx, a, fun):
    """ggml_map_unary_f32, written over a."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_unary_inplace_f32")
    return old(k, <void *>unary_rows, arg_tensor(a, b"a"), NULL, NULL, _structs.ggml_unary_op_f32_t, fun, True, True)

def ggml_map_binary_f32(ctx, a, b, fun):
    """A tensor like a and b (f32), computed by fun(n, dst, a, b) for each row of n elements, on one thread."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_binary_f32")
    return old(k, <void *>binary_rows, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL, _structs.ggml_binary_op_f32_t, fun, True, False)

def ggml_map_binary_inplace_f32(ctx, a, b, fun):
    """ggml_map_binary_f32, written over a."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_binary_inplace_f32")
    return old(k, <void *>binary_rows, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL, _structs.ggml_binary_op_f32_t, fun, True, True)

def ggml_map_custom1_f32(ctx, a, fun):
    """A tensor like a (f32), computed by fun(dst, a) on one thread."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom1_f32")
    return old(k, <void *>custom1, arg_tensor(a, b"a"), NULL, NULL, _structs.ggml_custom1_op_f32_t, fun, False, False)

def ggml_map_custom1_inplace_f32(ctx, a, fun):
    """ggml_map_custom1_f32, written over a."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom1_inplace_f32")
    return old(k, <void *>custom1, arg_tensor(a, b"a"), NULL, NULL, _structs.ggml_custom1_op_f32_t, fun, False, True)

def ggml_map_custom2_f32(ctx, a, b, fun):
    """A tensor like a (f32), computed by fun(dst, a, b) on one thread."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom2_f32")
    return old(k, <void *>custom2, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL, _structs.ggml_custom2_op_f32_t, fun, False, False)

def ggml_map_custom2_inplace_f32(ctx, a, b, fun):
    """ggml_map_custom2_f32, written over a."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom2_inplace_f32")
    return old(k, <void *>custom2, arg_tensor(a, b"a"), arg_tensor(b, b"b"), NULL, _structs.ggml_custom2_op_f32_t, fun, False, True)

def ggml_map_custom3_f32(ctx, a, b, c, fun):
    """A tensor like a (f32), computed by fun(dst, a, b, c) on one thread."""
    cdef ggml_context *k = arg_context(ctx, b"ggml_map_custom3_f32")
    return old(k, <void *>custom3, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c"), _structs.ggml_custom3_op_f32_t, fun, False,
               False)

def ggml_map_custom3_inplace_f32(ctx, a, b, c, fun):
    """ggml_map_custom3_f32, written over a."""
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
    """Gives a custom operation's tensor a gradient; returns the tensor. Not part of the C library.

    ggml_build_backward_expand calls backward(ctx, tensor, grad), which builds in ctx, from the gradient by the tensor,
    those by its sources (tensor.contents.src): an f32 tensor in the shape of the first, or a tuple with one for each;
    None: no gradient.
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
