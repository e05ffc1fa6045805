"""The backward pass: gradients of a loss by what it depends on, as more nodes of the graph."""
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from .._core cimport (
    GGML_MAX_SRC, GGML_TENSOR_FLAG_COMPUTE, GGML_TENSOR_FLAG_LOSS, GGML_TENSOR_FLAG_PARAM, GG_OP_MAX, arg_context,
    arg_graph, arg_int32, arg_tensor_or_null, arg_tensors, engine, enter, fail, gg_contiguous, gg_is_float,
    gg_nelements, gg_same_shape, ggml_cgraph, ggml_context, ggml_tensor, graph_expand, new_tensor, node1, node2,
    node2_in_place, node_append, node_like, node_text, set_name,
)
from .._enums cimport GGML_OP_ADD, GGML_OP_CONT, GGML_OP_CUSTOM, GGML_OP_MAP_CUSTOM1, GGML_OP_SET_ROWS, GGML_TYPE_F32
from .graph cimport copy_graph
from .. import _structs


cdef class Backward:
    def __cinit__(self):
        self.wanted, self.ctx, self.graph, self.any_writes = NULL, NULL, NULL, False

    def __dealloc__(self):
        free(self.wanted)

    cdef bint needs(self, ggml_tensor *t):
        return t != NULL and engine.hash_contains(&self.graph.visited_hash_set, t) and self.wanted[engine.hash_find(&self.graph.visited_hash_set, t)]

    cdef int add(self, ggml_tensor *t, ggml_tensor *gradient) except -1:
        cdef size_t k
        cdef ggml_tensor *sum
        if not self.needs(t):
            return 0
        if not gg_same_shape(t, gradient):
            fail(RuntimeError, f"internal: the gradient of {node_text(t)} came out as {node_text(gradient)}")
        k = engine.hash_find(&self.graph.visited_hash_set, t)
        sum = self.graph.grads[k]
        if sum == NULL:
            sum = gradient
        elif self.graph.grad_accs[k] != NULL and not t.flags & GGML_TENSOR_FLAG_LOSS:      # a loss keeps its seed
            sum = node2_in_place(self.ctx, GGML_OP_ADD, sum, gradient)
        else:
            sum = node2(self.ctx, GGML_OP_ADD, sum, gradient)
        self.graph.grads[k] = sum
        return 0

    cdef int require_not_overwritten(self, ggml_tensor *node, ggml_tensor *value) except -1:
        """A gradient of `node` reads `value`: raises when a node of the forward graph writes over it after it was made."""
        cdef int i
        cdef bint made = value.op == 0
        cdef ggml_tensor *t
        cdef ggml_tensor *root = value.view_src if value.view_src != NULL else value
        if not self.any_writes:
            return 0
        for i in range(self.n_forward):
            t = self.graph.nodes[i]
            if made and t != value and t.view_src == root and engine.op_computes(t.op):
                fail(ValueError, f"the gradient of {node_text(node)} needs {node_text(value)}, which the in-place node {node_text(t)} overwrites")
            made |= t == value
        return 0

cdef bint want(ggml_tensor *t, ggml_cgraph *g, uint8_t *wanted) noexcept:
    """Whether t is a parameter or computed from one by floating-point tensors."""
    cdef int k
    if t.flags & GGML_TENSOR_FLAG_PARAM:
        return True
    for k in range(GGML_MAX_SRC if gg_is_float(t.type) else 0):
        if t.src[k] != NULL and wanted[engine.hash_find(&g.visited_hash_set, t.src[k])]:
            return True
    return False

def ggml_build_backward_expand(*args):
    """Appends the nodes that compute the gradients of the loss with respect to the parameters to a graph.

    The loss is the f32 scalar marked by ggml_set_loss, the parameters are the tensors marked by ggml_set_param.
    ggml_graph_get_grad returns the gradients, ggml_graph_reset must be called before the first compute. Integer and
    quantised nodes pass no gradient on.

    Args:
        *args: one of four forms: (ctx, cgraph); (ctx, cgraph, grad_accs); (ctx_static, ctx_compute, cgraph,
            accumulate); or, as in old releases, (ctx, gf, gb, keep), where the graph is gb, a copy of gf made by
            ggml_graph_dup, and keep has no effect.
        ctx: context that receives the new nodes; in the third form this is ctx_compute.
        cgraph: expanded forward graph that was made with gradients: ggml_new_graph_custom(ctx, size, True).
        grad_accs: None, or an array with an entry for each node of the graph: an f32 tensor of the node's shape
            that accumulates its gradient over computes, or None (NULL).
        accumulate: True to accumulate the gradients of all parameters over computes, in tensors made in
            ctx_compute.
    Returns:
        None.
    Raises:
        TypeError: the number or kinds of the arguments fit none of the forms.
        ValueError: the graph is empty or was made without gradients, no node is a loss or it is no f32 scalar, no
            parameter is reached from it, a parameter is not of a float type, a node on the way has no gradient, an
            entry of grad_accs does not fit, or a gradient needs a value that an in-place node overwrites.
        MemoryError: the context or the graph is full.
    """
    enter(b"ggml_build_backward_expand")
    cdef bint accumulate = False
    accs = None
    if 3 <= len(args) <= 4 and isinstance(args[2], _structs.ggml_cgraph_p) and isinstance(args[1], _structs.ggml_cgraph_p):
        ctx, graph = args[0], args[2]
    elif len(args) == 4:
        ctx, graph, accumulate = args[1], args[2], bool(args[3])
    elif 2 <= len(args) <= 3:
        ctx, graph = args[:2]
        accs = args[2] if len(args) == 3 else None
    else:
        fail(TypeError, f"called with {len(args)} arguments: need (ctx, cgraph, grad_accs)")
    build(arg_context(ctx, b"ggml_build_backward_expand"), arg_graph(graph, b"cgraph"), accs, accumulate)

cdef Backward build(ggml_context *ctx, ggml_cgraph *g, object accs, bint accumulate):
    cdef Backward b = Backward()
    cdef int i, n = g.n_nodes
    cdef bint reached = False
    cdef ggml_tensor *loss = NULL
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
        k = engine.hash_find(&g.visited_hash_set, t)
        if t.flags & GGML_TENSOR_FLAG_PARAM:
            if not gg_is_float(t.type):
                fail(ValueError, f"parameter {node_text(t)}: only floating-point tensors have gradients")
        b.any_writes |= t.view_src != NULL and engine.op_computes(t.op)
        b.wanted[k] = want(t, g, b.wanted)
        if t.flags & GGML_TENSOR_FLAG_LOSS:
            if t.type != GGML_TYPE_F32 or gg_nelements(t) != 1:
                fail(ValueError, f"the loss {node_text(t)} is no scalar: need one f32")
            loss = t
            reached |= b.wanted[k]
        g.grads[k] = g.grad_accs[k] = NULL
        acc = NULL
        if accs is not None:
            if hasattr(accs, "__len__") and len(accs) < n:
                fail(ValueError, f"grad_accs has {len(accs)} entries: need one for each of {n} nodes")
            acc = arg_tensor_or_null(accs[i], b"grad_accs")
            if acc != NULL and (not gg_same_shape(acc, t) or acc.type != GGML_TYPE_F32):
                fail(ValueError, f"grad_accs[{i}] is {node_text(acc)}: need f32 of the shape of {node_text(t)}")
        if acc == NULL and (t.flags & GGML_TENSOR_FLAG_LOSS or (accumulate and t.flags & GGML_TENSOR_FLAG_PARAM)):
            acc = new_tensor(ctx, GGML_TYPE_F32, 4, t.ne)
            set_name(acc, b"grad acc for ", t.name)
        if acc != NULL:
            g.grads[k] = g.grad_accs[k] = acc
    if loss == NULL:
        fail(ValueError, f"no node is a loss: call ggml_set_loss on one, as {node_text(g.nodes[n - 1])}, before the graph is expanded")
    if not reached:
        fail(ValueError, f"no parameter is reached from the loss {node_text(loss)}: call ggml_set_param on the tensors to take gradients by")
    for i in range(n - 1, -1, -1):
        backward(b, g.nodes[i])
    for i in range(n - 1, -1, -1):      # the last layers first: what they need may go before the first layers are reached
        k = engine.hash_find(&g.visited_hash_set, g.nodes[i])
        if g.grads[k] == NULL:
            continue
        if g.nodes[i].flags & GGML_TENSOR_FLAG_PARAM and not gg_contiguous(g.grads[k]):     # callers read them as plain memory
            g.grads[k] = node1(ctx, GGML_OP_CONT, g.grads[k])
        if not g.grads[k].name[0] or g.grads[k].op:
            set_name(g.grads[k], b"grad for ", g.nodes[i].name)
        if g.nodes[i].flags & GGML_TENSOR_FLAG_PARAM:
            graph_expand(g, g.grads[k], True)
    return b

cdef int backward(Backward b, ggml_tensor *t) except -1:
    cdef ggml_tensor *g
    cdef int k
    cdef bint any = False
    if not b.needs(t) or t.op == 0:
        return 0
    g = b.graph.grads[engine.hash_find(&b.graph.visited_hash_set, t)]
    if g == NULL:
        return 0
    for k in range(GGML_MAX_SRC):
        any |= b.needs(t.src[k])
    if not any:
        return 0
    if gradients[t.op] == NULL:
        fail(ValueError, f"{node_text(t)} has no gradient, and parameters reach the loss through it")
    gradients[t.op](b, t, g)
    return 0

def has_gradient(int op):
    """Whether an operation (GGML_OP_*) has a gradient."""
    return 0 <= op < GG_OP_MAX and gradients[op] != NULL

# ---- checkpoints: memory for time ------------------------------------------------------------------------------------
cdef class Recompute:
    """Which nodes of a forward graph the backward pass computes again, and their copies; arrays by slot of the graph's hash set."""
    cdef ggml_context *ctx
    cdef ggml_cgraph *forward
    cdef uint8_t *kept
    cdef uint8_t *needed
    cdef ggml_tensor **copies

    def __cinit__(self):
        self.kept, self.needed, self.copies = NULL, NULL, NULL

    def __dealloc__(self):
        free(self.kept)
        free(self.needed)
        free(self.copies)

    cdef size_t slot(self, ggml_tensor *t) noexcept:
        return engine.hash_find(&self.forward.visited_hash_set, t)

    cdef bint again(self, ggml_tensor *t) noexcept:
        """Whether t has to be computed again: a node of the forward graph that lies in no leaf's or checkpoint's memory."""
        if t == NULL or not engine.hash_contains(&self.forward.visited_hash_set, t):
            return False
        cdef ggml_tensor *root = t.view_src if t.view_src != NULL else t
        return root.op != 0 and not self.kept[self.slot(root)] and not self.kept[self.slot(t)]

    cdef void need(self, ggml_tensor *t) noexcept:
        """Marks what t reads."""
        cdef int k
        for k in range(GGML_MAX_SRC):
            if self.again(t.src[k]):
                self.needed[self.slot(t.src[k])] = True
        if not engine.op_computes(t.op) and self.again(t.view_src):
            self.needed[self.slot(t.view_src)] = True

    cdef ggml_tensor *now(self, ggml_tensor *t) noexcept:
        return self.copies[self.slot(t)] if self.again(t) else t

    cdef int copy(self, Backward b, ggml_tensor *t) except -1:
        """A node like t over copies of its sources. What t writes in place is a tensor of its own here."""
        cdef ggml_tensor d
        cdef int k
        if t.view_src != NULL and (t.op == GGML_OP_SET_ROWS or GGML_OP_MAP_CUSTOM1 <= t.op <= GGML_OP_CUSTOM):
            fail(ValueError, f"{node_text(t)} writes in place and can't be computed again: make it a checkpoint, or what it writes over a leaf")
        node_like(&d, t.op, t.type, t)
        memcpy(d.op_params, t.op_params, sizeof(d.op_params))
        for k in range(GGML_MAX_SRC):
            d.src[k] = self.now(t.src[k])
            if t.src[k] != NULL and d.src[k] == t.src[k]:
                b.require_not_overwritten(t, t.src[k])
        if t.view_src != NULL and not engine.op_computes(t.op):
            memcpy(d.nb, t.nb, sizeof(d.nb))
            d.view_src, d.view_offs = self.now(t.view_src), t.view_offs
        self.copies[self.slot(t)] = node_append(self.ctx, &d)
        set_name(self.copies[self.slot(t)], b"again: ", t.name)
        return 0

    cdef void redirect(self, ggml_tensor *t) noexcept:
        """Lets a node of the backward pass read copies."""
        cdef int k
        t.flags &= ~GGML_TENSOR_FLAG_COMPUTE       # so that what it reads now is marked when it enters the graph
        for k in range(GGML_MAX_SRC):
            t.src[k] = self.now(t.src[k])
        if self.again(t.view_src):
            t.view_src = self.now(t.view_src)
            t.data = <uint8_t *>t.view_src.data + t.view_offs if t.view_src.data != NULL else NULL

cdef Recompute recompute(ggml_context *ctx, ggml_cgraph *forward, object checkpoints, int n):
    cdef Recompute r = Recompute()
    cdef size_t size = forward.visited_hash_set.size
    cdef ggml_tensor *t
    cdef int i
    r.ctx, r.forward = ctx, forward
    r.kept, r.needed = <uint8_t *>calloc(size, 1), <uint8_t *>calloc(size, 1)
    r.copies = <ggml_tensor **>calloc(size, sizeof(ggml_tensor *))
    if r.kept == NULL or r.needed == NULL or r.copies == NULL:
        raise MemoryError()
    if n > 0 and <size_t>n > size:
        fail(ValueError, f"n_checkpoints is {n}: the graph has {forward.n_nodes} nodes")
    arg_tensors(checkpoints, max(n, 0), b"checkpoints", r.copies)
    for i in range(n):
        t, r.copies[i] = r.copies[i], NULL
        if not engine.hash_contains(&forward.visited_hash_set, t):
            fail(ValueError, f"checkpoint {node_text(t)} is no tensor of the graph")
        r.kept[r.slot(t)] = True
    return r

def ggml_build_backward_gradient_checkpointing(ctx, gf, gb, gb_tmp, checkpoints, n_checkpoints):
    """Builds a graph of forward and backward pass in which the backward pass recomputes what lies between checkpoints.

    Only the checkpoints, the leafs and what the backward pass can still use are kept, so that a graph allocator
    (ggml_gallocr_*) reuses the memory of all other activations: with a checkpoint every sqrt(n) of n layers about
    2 sqrt(n) layers are held (arXiv:1604.06174). ggml_graph_get_grad(gb, ...) returns the gradients.

    Args:
        ctx: context that receives the new nodes.
        gf: expanded forward graph with a loss and parameters; it is not changed.
        gb: graph with gradients that receives the result, with room for all nodes.
        gb_tmp: another graph with gradients and as much room; it serves as scratch and must not be computed.
        checkpoints: list, tuple or array of tensors of gf to keep.
        n_checkpoints: number of checkpoints; with 0 nothing is recomputed.
    Returns:
        None.
    Raises:
        ValueError: two of the graphs are the same, gb or gb_tmp was made without gradients or is smaller than gf, a
            checkpoint is not in gf, a node to recompute writes in place, or what ggml_build_backward_expand raises
            it for.
        RuntimeError: an entry of an array of checkpoints is no tensor of a live context.
        MemoryError: the context or a graph is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_build_backward_gradient_checkpointing")
    cdef ggml_cgraph *f = arg_graph(gf, b"gf")
    cdef ggml_cgraph *g = arg_graph(gb, b"gb")
    cdef ggml_cgraph *scratch = arg_graph(gb_tmp, b"gb_tmp")
    cdef ggml_tensor *t
    cdef Backward b
    cdef Recompute r
    cdef int i, n = arg_int32(n_checkpoints, b"n_checkpoints")
    if g == f or scratch == f or g == scratch:
        fail(ValueError, "gf, gb and gb_tmp must be three graphs")
    if g.grads == NULL:
        fail(ValueError, "gb was made without room for gradients: use ggml_new_graph_custom(ctx, size, True)")
    r = recompute(c, f, checkpoints, n)
    copy_graph(f, scratch)
    b = build(c, scratch, None, False)
    copy_graph(f, g)
    if n > 0:
        for i in range(f.n_nodes, scratch.n_nodes):
            r.need(scratch.nodes[i])
        for i in range(f.n_nodes - 1, -1, -1):
            if r.needed[r.slot(f.nodes[i])]:
                r.need(f.nodes[i])
        for i in range(f.n_nodes):
            if r.needed[r.slot(f.nodes[i])]:
                r.copy(b, f.nodes[i])
        for i in range(f.n_nodes, scratch.n_nodes):
            r.redirect(scratch.nodes[i])
    for i in range(f.n_nodes, scratch.n_nodes):
        graph_expand(g, scratch.nodes[i], True)
    for i in range(f.n_nodes):
        t = f.nodes[i]
        g.grads[engine.hash_find(&g.visited_hash_set, t)] = scratch.grads[engine.hash_find(&scratch.visited_hash_set, t)]
        g.grad_accs[engine.hash_find(&g.visited_hash_set, t)] = scratch.grad_accs[engine.hash_find(&scratch.visited_hash_set, t)]
