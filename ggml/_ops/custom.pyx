"""Operations whose computing is a callback: as the C library has them, those of old releases, gradients."""
import itertools
import weakref

from libc.stdint cimport INT32_MAX, int64_t, uint8_t
from libc.string cimport memcpy

from .._core cimport (
    ADDR, C, FUN, G, GGML_MAX_SRC, GGML_STATUS_FAILED, GGML_STATUS_SUCCESS, GGML_TYPE_F32, H, I32, NE, P, PG, T, T0, TYPE,
    context_of, current_call, draft, enter, fail, gg_same_shape, ggml_context, ggml_tensor, keep, like,
    op_name, over, pointed, put, stop_call,
)
from .._graph.grad cimport Backward, gradients
from .. import _structs
from .._core import as_callback

cdef enum:
    MAP_CUSTOM1 = 88, MAP_CUSTOM2 = 89, MAP_CUSTOM3 = 90, CUSTOM = 91
    FUN_AT = 0, N_TASKS_AT = 2, USERDATA_AT = 4, RULE_AT = 6      # in op_params; a rule is a gradient, see below

ctypedef ggml_context Ctx
ctypedef ggml_tensor Ten

cdef Ten *finish(Ctx *ctx, Ten *d, const void *fun, int n_tasks, const void *userdata, Ten *target) except NULL:
    """Enters a drafted node; with a target, its result lies in that tensor's memory."""
    memcpy(&d.op_params[FUN_AT], &fun, sizeof(fun))
    memcpy(&d.op_params[USERDATA_AT], &userdata, sizeof(userdata))
    d.op_params[N_TASKS_AT] = n_tasks
    if target != NULL:
        over(d, target)
    return put(ctx, d)

cdef object node(Ctx *ctx, Ten *d, object kind, object fun, object n_tasks, object userdata, Ten *target):
    """The same for the arguments of a caller, who may drop callback and userdata: the context keeps them."""
    callback = as_callback(fun, kind)
    cdef void *address = FUN(callback, kind, b"fun")
    cdef void *data = ADDR(userdata, b"userdata")
    cdef Ten *t = finish(ctx, d, address, I32(n_tasks, b"n_tasks"), data, target)
    keep(ctx, (callback, userdata))
    return P(t)

cdef void map_of(Ten *d, int op, Ten *a, Ten *b, Ten *c) noexcept:
    like(d, op, a.type, a)
    d.src[0], d.src[1], d.src[2] = a, b, c

# ---- one to three operands -------------------------------------------------------------------------------------------
def ggml_map_custom1(ctx, a, fun, n_tasks, userdata):
    """A tensor like a, computed by fun(dst, a, ith, nth, userdata) on up to n_tasks threads (GGML_N_TASKS_MAX: on all).

    fun: a ggml_custom1_op_t, a Python callable or the address of a C function. Its exceptions end the compute.
    """
    cdef Ctx *k = C(ctx, b"ggml_map_custom1")
    cdef Ten d
    map_of(&d, MAP_CUSTOM1, T(a, b"a"), NULL, NULL)
    return node(k, &d, _structs.ggml_custom1_op_t, fun, n_tasks, userdata, NULL)

def ggml_map_custom1_inplace(ctx, a, fun, n_tasks, userdata):
    """ggml_map_custom1, written over a."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom1_inplace")
    cdef Ten d
    map_of(&d, MAP_CUSTOM1, T(a, b"a"), NULL, NULL)
    return node(k, &d, _structs.ggml_custom1_op_t, fun, n_tasks, userdata, d.src[0])

def ggml_map_custom2(ctx, a, b, fun, n_tasks, userdata):
    """A tensor like a, computed by fun(dst, a, b, ith, nth, userdata): see ggml_map_custom1."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom2")
    cdef Ten d
    map_of(&d, MAP_CUSTOM2, T(a, b"a"), T(b, b"b"), NULL)
    return node(k, &d, _structs.ggml_custom2_op_t, fun, n_tasks, userdata, NULL)

def ggml_map_custom2_inplace(ctx, a, b, fun, n_tasks, userdata):
    """ggml_map_custom2, written over a."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom2_inplace")
    cdef Ten d
    map_of(&d, MAP_CUSTOM2, T(a, b"a"), T(b, b"b"), NULL)
    return node(k, &d, _structs.ggml_custom2_op_t, fun, n_tasks, userdata, d.src[0])

def ggml_map_custom3(ctx, a, b, c, fun, n_tasks, userdata):
    """A tensor like a, computed by fun(dst, a, b, c, ith, nth, userdata): see ggml_map_custom1."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom3")
    cdef Ten d
    map_of(&d, MAP_CUSTOM3, T(a, b"a"), T(b, b"b"), T(c, b"c"))
    return node(k, &d, _structs.ggml_custom3_op_t, fun, n_tasks, userdata, NULL)

def ggml_map_custom3_inplace(ctx, a, b, c, fun, n_tasks, userdata):
    """ggml_map_custom3, written over a."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom3_inplace")
    cdef Ten d
    map_of(&d, MAP_CUSTOM3, T(a, b"a"), T(b, b"b"), T(c, b"c"))
    return node(k, &d, _structs.ggml_custom3_op_t, fun, n_tasks, userdata, d.src[0])

# ---- any number of operands ------------------------------------------------------------------------------------------
cdef int sources(Ten *d, int first, object args, object n_args) except -1:
    """Puts the operands into a draft from src[first] on."""
    cdef int n = I32(n_args, b"n_args")
    if n < 0 or first + n > GGML_MAX_SRC:
        fail(ValueError, f"n_args is {n}: need 0 to {GGML_MAX_SRC - first}")
    return pointed(args, n, b"args", &d.src[first])

def ggml_custom_4d(ctx, type_, ne0, ne1, ne2, ne3, args, n_args, fun, n_tasks, userdata):
    """A tensor [ne0, ne1, ne2, ne3], computed by fun(dst, ith, nth, userdata) from dst.contents.src, which are args.

    args: an array of n_args tensor pointers, a list or a tuple. For fun, n_tasks and userdata see ggml_map_custom1.
    """
    cdef Ctx *k = C(ctx, b"ggml_custom_4d")
    cdef Ten d
    draft(&d, CUSTOM, TYPE(type_, b"type_"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), NE(ne2, b"ne2"), NE(ne3, b"ne3"))
    sources(&d, 0, args, n_args)
    return node(k, &d, _structs.ggml_custom_op_t, fun, n_tasks, userdata, NULL)

def ggml_custom_inplace(ctx, a, args, n_args, fun, n_tasks, userdata):
    """ggml_custom_4d, written over a, which becomes src[0]; args follow."""
    cdef Ctx *k = C(ctx, b"ggml_custom_inplace")
    cdef Ten d
    map_of(&d, CUSTOM, T(a, b"a"), NULL, NULL)
    sources(&d, 1, args, n_args)
    return node(k, &d, _structs.ggml_custom_op_t, fun, n_tasks, userdata, d.src[0])

# ---- the f32 forms of old releases -----------------------------------------------------------------------------------
# Nodes as above whose function is one of these: it calls the old callback, which is its userdata.
ctypedef void (*row1)(int, float *, const float *) noexcept nogil
ctypedef void (*row2)(int, float *, const float *, const float *) noexcept nogil
ctypedef void (*whole1)(Ten *, const Ten *) noexcept nogil
ctypedef void (*whole2)(Ten *, const Ten *, const Ten *) noexcept nogil
ctypedef void (*whole3)(Ten *, const Ten *, const Ten *, const Ten *) noexcept nogil

cdef bint f32_rows(const Ten *t, const Ten *shape) noexcept nogil:
    """Whether t has packed rows of floats and that shape: the callback takes addresses of rows."""
    return t.type == GGML_TYPE_F32 and t.nb[0] == sizeof(float) and gg_same_shape(t, shape) and t.ne[0] <= INT32_MAX

cdef float *row(const Ten *t, int64_t i1, int64_t i2, int64_t i3) noexcept nogil:
    return <float *>(<uint8_t *>t.data + <size_t>i1 * t.nb[1] + <size_t>i2 * t.nb[2] + <size_t>i3 * t.nb[3])

cdef void each_row(Ten *dst, const Ten *a, const Ten *b, void *fun) noexcept nogil:
    cdef int64_t i1, i2, i3
    cdef int n = <int>dst.ne[0]
    if not f32_rows(dst, dst) or not f32_rows(a, dst) or (b != NULL and not f32_rows(b, dst)):
        stop_call(current_call(), GGML_STATUS_FAILED)
        return
    for i3 in range(dst.ne[3]):
        for i2 in range(dst.ne[2]):
            for i1 in range(dst.ne[1]):
                if b == NULL:
                    (<row1>fun)(n, row(dst, i1, i2, i3), row(a, i1, i2, i3))
                else:
                    (<row2>fun)(n, row(dst, i1, i2, i3), row(a, i1, i2, i3), row(b, i1, i2, i3))
                if current_call().status != GGML_STATUS_SUCCESS:
                    return

# Of copies: the callback may write into the tensors.
cdef void unary_rows(Ten *dst, const Ten *a, int ith, int nth, void *fun) noexcept nogil:
    cdef Ten d = dst[0], x = a[0]
    each_row(&d, &x, NULL, fun)
cdef void binary_rows(Ten *dst, const Ten *a, const Ten *b, int ith, int nth, void *fun) noexcept nogil:
    cdef Ten d = dst[0], x = a[0], y = b[0]
    each_row(&d, &x, &y, fun)
cdef void custom1(Ten *dst, const Ten *a, int ith, int nth, void *fun) noexcept nogil:
    (<whole1>fun)(dst, a)
cdef void custom2(Ten *dst, const Ten *a, const Ten *b, int ith, int nth, void *fun) noexcept nogil:
    (<whole2>fun)(dst, a, b)
cdef void custom3(Ten *dst, const Ten *a, const Ten *b, const Ten *c, int ith, int nth, void *fun) noexcept nogil:
    (<whole3>fun)(dst, a, b, c)

cdef object old(Ctx *ctx, const void *thunk, Ten *a, Ten *b, Ten *c, object kind, object fun, bint by_rows,
                bint inplace):
    cdef Ten d
    cdef Ten *t
    cdef void *address
    cdef int i
    map_of(&d, MAP_CUSTOM1 if b == NULL else MAP_CUSTOM2 if c == NULL else MAP_CUSTOM3, a, b, c)
    for i in range(3):
        if d.src[i] != NULL and d.src[i].type != GGML_TYPE_F32:
            fail(ValueError, f"{'abc'[i]} is not f32")
        if by_rows and d.src[i] != NULL and not f32_rows(d.src[i], a):
            fail(ValueError, f"{'abc'[i]} does not have packed rows of a's shape: use ggml_cont first")
    callback = as_callback(fun, kind)
    address = FUN(callback, kind, b"fun")
    if address == NULL:
        fail(ValueError, "fun is NULL: need a function")
    t = finish(ctx, &d, thunk, 1, address, a if inplace else NULL)
    keep(ctx, callback)
    return P(t)

def ggml_map_unary_f32(ctx, a, fun):
    """A tensor like a (f32), computed by fun(n, dst, a) for each row of n elements, on one thread."""
    cdef Ctx *k = C(ctx, b"ggml_map_unary_f32")
    return old(k, <void *>unary_rows, T(a, b"a"), NULL, NULL, _structs.ggml_unary_op_f32_t, fun, True, False)

def ggml_map_unary_inplace_f32(ctx, a, fun):
    """ggml_map_unary_f32, written over a."""
    cdef Ctx *k = C(ctx, b"ggml_map_unary_inplace_f32")
    return old(k, <void *>unary_rows, T(a, b"a"), NULL, NULL, _structs.ggml_unary_op_f32_t, fun, True, True)

def ggml_map_binary_f32(ctx, a, b, fun):
    """A tensor like a and b (f32), computed by fun(n, dst, a, b) for each row of n elements, on one thread."""
    cdef Ctx *k = C(ctx, b"ggml_map_binary_f32")
    return old(k, <void *>binary_rows, T(a, b"a"), T(b, b"b"), NULL, _structs.ggml_binary_op_f32_t, fun, True, False)

def ggml_map_binary_inplace_f32(ctx, a, b, fun):
    """ggml_map_binary_f32, written over a."""
    cdef Ctx *k = C(ctx, b"ggml_map_binary_inplace_f32")
    return old(k, <void *>binary_rows, T(a, b"a"), T(b, b"b"), NULL, _structs.ggml_binary_op_f32_t, fun, True, True)

def ggml_map_custom1_f32(ctx, a, fun):
    """A tensor like a (f32), computed by fun(dst, a) on one thread."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom1_f32")
    return old(k, <void *>custom1, T(a, b"a"), NULL, NULL, _structs.ggml_custom1_op_f32_t, fun, False, False)

def ggml_map_custom1_inplace_f32(ctx, a, fun):
    """ggml_map_custom1_f32, written over a."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom1_inplace_f32")
    return old(k, <void *>custom1, T(a, b"a"), NULL, NULL, _structs.ggml_custom1_op_f32_t, fun, False, True)

def ggml_map_custom2_f32(ctx, a, b, fun):
    """A tensor like a (f32), computed by fun(dst, a, b) on one thread."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom2_f32")
    return old(k, <void *>custom2, T(a, b"a"), T(b, b"b"), NULL, _structs.ggml_custom2_op_f32_t, fun, False, False)

def ggml_map_custom2_inplace_f32(ctx, a, b, fun):
    """ggml_map_custom2_f32, written over a."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom2_inplace_f32")
    return old(k, <void *>custom2, T(a, b"a"), T(b, b"b"), NULL, _structs.ggml_custom2_op_f32_t, fun, False, True)

def ggml_map_custom3_f32(ctx, a, b, c, fun):
    """A tensor like a (f32), computed by fun(dst, a, b, c) on one thread."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom3_f32")
    return old(k, <void *>custom3, T(a, b"a"), T(b, b"b"), T(c, b"c"), _structs.ggml_custom3_op_f32_t, fun, False,
               False)

def ggml_map_custom3_inplace_f32(ctx, a, b, c, fun):
    """ggml_map_custom3_f32, written over a."""
    cdef Ctx *k = C(ctx, b"ggml_map_custom3_inplace_f32")
    return old(k, <void *>custom3, T(a, b"a"), T(b, b"b"), T(c, b"c"), _structs.ggml_custom3_op_f32_t, fun, False, True)

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
    cdef Ten *t = T(tensor, b"tensor")
    if not MAP_CUSTOM1 <= t.op <= CUSTOM:
        fail(ValueError, f"tensor is made by {op_name(t.op).decode()}: need a custom operation")
    if not callable(backward):
        fail(TypeError, f"backward is {backward!r}: need a callable")
    cdef Ctx *ctx = context_of(t)
    if ctx == NULL:
        fail(ValueError, "tensor is not in a live context")
    rule = _Rule(backward)
    number = next(numbers)
    rules[number] = rule
    keep(ctx, rule)
    t.op_params[RULE_AT] = number
    return P(t)

cdef int grad_custom(Backward b, Ten *t, Ten *g) except -1:
    cdef Ten *x
    cdef int k
    rule = rules.get(t.op_params[RULE_AT])
    if rule is None:
        name = bytes(t.name[:64]).split(b"\0")[0].decode(errors="replace")
        fail(ValueError,
             f"'{name}' ({op_name(t.op).decode()}) has no gradient: give it one with ggml_custom_set_backward")
    results = rule.function(H(b.ctx), P(t), P(g))
    C(H(b.ctx), b"ggml_build_backward_expand")           # raises if it freed them
    G(PG(b.graph), b"cgraph")
    if not isinstance(results, (tuple, list)):
        results = (results,)
    for k, result in enumerate(results):
        x = T0(result, b"result of backward")
        if x == NULL:
            continue
        if k >= GGML_MAX_SRC or t.src[k] == NULL:
            fail(ValueError, f"backward gave {len(results)} gradients: source {k} does not exist")
        if x.type != GGML_TYPE_F32 or not gg_same_shape(x, t.src[k]):
            fail(ValueError, f"backward gave a gradient by source {k} that is not f32 in its shape")
        b.add(t.src[k], x)
    return 0

gradients[MAP_CUSTOM1] = gradients[MAP_CUSTOM2] = gradients[MAP_CUSTOM3] = gradients[CUSTOM] = grad_custom
