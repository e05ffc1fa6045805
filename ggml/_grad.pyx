"""The backward pass: gradients of a loss by what it depends on, as more nodes of the graph."""
import ctypes

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from ._core cimport (
    C, G, GGML_MAX_NAME, GGML_MAX_SRC, GGML_TENSOR_FLAG_LOSS, GGML_TENSOR_FLAG_PARAM, GGML_TYPE_F32, GG_OP_MAX, T, T0, ggml_cgraph,
    ggml_context, ggml_tensor, enter, fail, gg_contiguous, gg_is_float, gg_nelements, gg_same_shape, gg_types, graph_expand, hash_find, hash_used,
    inplace2, new_tensor, node1, node2, op_name, set_name, hash_contains,
)
from . import _structs

cdef enum:
    OP_ADD = 2, OP_CONT = 35

cdef str shown(const ggml_tensor *t):
    """A tensor for messages: its name, shape and operation."""
    name = bytes(t.name[:GGML_MAX_NAME]).split(b"\0")[0].decode(errors="replace")
    return f"'{name}' ({gg_types[t.type].name.decode()} {[t.ne[i] for i in range(4)]}, {op_name(t.op).decode()})"

cdef class Backward:
    def __cinit__(self):
        self.wanted, self.ctx, self.graph, self.any_writes = NULL, NULL, NULL, False

    def __dealloc__(self):
        free(self.wanted)

    cdef bint needs(self, ggml_tensor *t):
        return t != NULL and hash_contains(&self.graph.visited_hash_set, t) and self.wanted[hash_find(&self.graph.visited_hash_set, t)]

    cdef int add(self, ggml_tensor *t, ggml_tensor *gradient) except -1:
        cdef size_t k
        cdef ggml_tensor *sum
        if not self.needs(t):
            return 0
        if not gg_same_shape(t, gradient):
            fail(RuntimeError, f"internal: the gradient of {shown(t)} came out as {shown(gradient)}")
        k = hash_find(&self.graph.visited_hash_set, t)
        sum = self.graph.grads[k]
        if sum == NULL:
            sum = gradient
        elif self.graph.grad_accs[k] != NULL:
            sum = inplace2(self.ctx, OP_ADD, sum, gradient)
        else:
            sum = node2(self.ctx, OP_ADD, sum, gradient)
        self.graph.grads[k] = sum
        return 0

    cdef int overwritten(self, ggml_tensor *node, ggml_tensor *value) except -1:
        """A gradient of `node` reads `value`: raises when a node of the forward graph writes over it after it was made."""
        cdef int i
        cdef bint made = value.op == 0
        cdef ggml_tensor *t
        cdef ggml_tensor *root = value.view_src if value.view_src != NULL else value
        if not self.any_writes:
            return 0
        for i in range(self.n_forward):
            t = self.graph.nodes[i]
            if made and t != value and t.view_src == root and writes(t):
                fail(ValueError, f"the gradient of {shown(node)} needs {shown(value)}, which the in-place node {shown(t)} overwrites")
            made |= t == value
        return 0

cdef bint writes(const ggml_tensor *t) noexcept:
    """Whether a view's node writes to the memory that it shares (36 to 39: RESHAPE, VIEW, PERMUTE, TRANSPOSE only look)."""
    return t.op != 0 and not 36 <= t.op <= 39

cdef bint want(ggml_tensor *t, ggml_cgraph *g, uint8_t *wanted) noexcept:
    cdef int k
    if t.flags & (GGML_TENSOR_FLAG_PARAM | GGML_TENSOR_FLAG_LOSS):
        return True
    for k in range(GGML_MAX_SRC):
        if t.src[k] != NULL and wanted[hash_find(&g.visited_hash_set, t.src[k])]:
            return True
    return False

def ggml_build_backward_expand(*args):
    """Adds to a graph, made with gradients, the nodes that compute the gradients of its loss by its parameters.

    Called as (ctx, cgraph, grad_accs), (ctx, cgraph) or (ctx_static, ctx_compute, cgraph, accumulate). `grad_accs`: an array with
    a tensor (or NULL) for each node of the graph, into which its gradient is added at each compute; None: none. The new nodes are made
    in ctx. ggml_graph_get_grad gives the gradients; call ggml_graph_reset before the first compute.
    ValueError: no loss is set (ggml_set_loss), no parameter (ggml_set_param) is reached from it, or a node on the way has no gradient.
    """
    enter(b"ggml_build_backward_expand")
    cdef bint accumulate = False
    accs = None
    if len(args) == 4:
        ctx, graph, accumulate = args[1], args[2], bool(args[3])
    elif 2 <= len(args) <= 3:
        ctx, graph = args[:2]
        accs = args[2] if len(args) == 3 else None
    else:
        fail(TypeError, f"called with {len(args)} arguments: need (ctx, cgraph, grad_accs)")
    build(C(ctx, b"ggml_build_backward_expand"), G(graph, b"cgraph"), accs, accumulate)

cdef int build(ggml_context *ctx, ggml_cgraph *g, object accs, bint accumulate) except -1:
    cdef Backward b = Backward()
    cdef int i, n = g.n_nodes, losses = 0, params = 0
    cdef ggml_tensor *t
    cdef ggml_tensor *acc
    cdef size_t k
    if g.grads == NULL:
        fail(ValueError, "the graph was made without room for gradients: use ggml_new_graph_custom(ctx, size, True)")
    if n == 0:
        fail(ValueError, "the graph is empty")
    if accs is not None and not hasattr(accs, "__getitem__"):
        fail(TypeError, f"grad_accs is {accs!r}: need an array of tensors or None")
    b.ctx, b.graph, b.n_forward = ctx, g, n
    b.wanted = <uint8_t *>calloc(g.visited_hash_set.size, 1)
    if b.wanted == NULL:
        raise MemoryError()
    for i in range(n):
        t = g.nodes[i]
        k = hash_find(&g.visited_hash_set, t)
        if t.flags & GGML_TENSOR_FLAG_PARAM:
            if not gg_is_float(t.type):
                fail(ValueError, f"parameter {shown(t)}: only floating-point tensors have gradients")
            params += 1
        losses += (t.flags & GGML_TENSOR_FLAG_LOSS) != 0
        b.any_writes |= t.view_src != NULL and writes(t)
        b.wanted[k] = want(t, g, b.wanted) and (gg_is_float(t.type))
        g.grads[k] = g.grad_accs[k] = NULL
        acc = NULL
        if accs is not None:
            if hasattr(accs, "__len__") and len(accs) < n:
                fail(ValueError, f"grad_accs has {len(accs)} entries: need one for each of {n} nodes")
            acc = T0(accs[i], b"grad_accs")
            if acc != NULL and (not gg_same_shape(acc, t) or acc.type != GGML_TYPE_F32):
                fail(ValueError, f"grad_accs[{i}] is {shown(acc)}: need f32 of the shape of {shown(t)}")
        if acc == NULL and (t.flags & GGML_TENSOR_FLAG_LOSS or (accumulate and t.flags & GGML_TENSOR_FLAG_PARAM)):
            acc = new_tensor(ctx, GGML_TYPE_F32, 4, t.ne)
            label(acc, b"grad acc for ", t)
        if acc != NULL:
            g.grads[k] = g.grad_accs[k] = acc
    if losses == 0:
        fail(ValueError, "no node is a loss: call ggml_set_loss on one before the graph is expanded")
    if params == 0:
        fail(ValueError, "no parameter is reached from the loss: call ggml_set_param on the tensors to take gradients by")
    for i in range(n - 1, -1, -1):
        backward(b, g.nodes[i])
    for i in range(n):
        k = hash_find(&g.visited_hash_set, g.nodes[i])
        if g.nodes[i].flags & GGML_TENSOR_FLAG_PARAM and g.grads[k] != NULL:
            if not gg_contiguous(g.grads[k]):      # callers read gradients as plain memory
                g.grads[k] = node1(ctx, OP_CONT, g.grads[k])
            if not g.grads[k].name[0] or g.grads[k].op:
                label(g.grads[k], b"grad for ", g.nodes[i])
            graph_expand(g, g.grads[k], True)
    return 0

cdef void label(ggml_tensor *t, const char *prefix, const ggml_tensor *of) noexcept:
    set_name(t, prefix, of.name)

cdef int backward(Backward b, ggml_tensor *t) except -1:
    cdef ggml_tensor *g
    cdef int k
    cdef bint any = False
    if not b.needs(t) or t.op == 0:
        return 0
    g = b.graph.grads[hash_find(&b.graph.visited_hash_set, t)]
    if g == NULL:
        return 0
    for k in range(GGML_MAX_SRC):
        any |= b.needs(t.src[k])
    if not any:
        return 0
    if gradients[t.op] == NULL:
        fail(ValueError, f"{shown(t)} has no gradient, and parameters reach the loss through it")
    gradients[t.op](b, t, g)
    return 0
