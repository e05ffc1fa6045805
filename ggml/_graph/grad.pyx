"""The backward pass: nodes that compute the gradients of a loss by the parameters, appended to a graph.

The forward nodes are visited in reverse order. The gradient function of a node's operation, given the gradient by the
node, adds its terms to the gradients by the sources.
"""
from libc.stdint cimport uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from .._core cimport (
    GGML_MAX_SRC, GGML_TENSOR_FLAG_COMPUTE, GGML_TENSOR_FLAG_LOSS, GGML_TENSOR_FLAG_OUTPUT, GGML_TENSOR_FLAG_PARAM,
    GG_MESSAGE, GG_OP_MAX, allocate, arg_context, arg_graph, arg_int32, arg_tensor_or_null, arg_tensors, engine, enter,
    fail, gg_contiguous, gg_is_float, gg_nbytes, gg_nelements, gg_same_shape, ggml_cgraph, ggml_context, ggml_tensor,
    graph_expand, is_a, new_tensor, node1, node2, node2_in_place, node_append, node_like, node_text, repr_short,
    set_name, wrap_graph, wrap_handle,
)
from .._enums cimport (
    GGML_OP_ADD, GGML_OP_CONT, GGML_OP_CUSTOM, GGML_OP_MAP_CUSTOM1, GGML_OP_NONE, GGML_OP_SET_ROWS, GGML_TYPE_F32,
)
from .graph cimport arg_sound_graph, copy_graph, hash_slot
from .. import _structs


cdef class Backward:
    def __cinit__(self):
        self.wanted, self.ctx, self.graph, self.any_in_place = NULL, NULL, NULL, False

    def __dealloc__(self):
        free(self.wanted)

    cdef bint needs(self, ggml_tensor *t):
        return (t != NULL and engine.hash_contains(&self.graph.visited_hash_set, t)
                and self.wanted[hash_slot(self.graph, t)])

    cdef int add(self, ggml_tensor *t, ggml_tensor *gradient) except -1:
        cdef size_t k
        cdef ggml_tensor *sum
        if not self.needs(t):
            return 0
        if not gg_same_shape(t, gradient):
            fail(RuntimeError, f"internal: the gradient of {node_text(t)} has the wrong shape: {node_text(gradient)}")
        k = hash_slot(self.graph, t)
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
        cdef int i
        cdef bint computed = value.op == GGML_OP_NONE                # by the nodes so far
        cdef ggml_tensor *t
        cdef ggml_tensor *root = value.view_src if value.view_src != NULL else value
        if not self.any_in_place:
            return 0
        for i in range(self.n_forward):
            t = self.graph.nodes[i]
            if computed and t != value and t.view_src == root and engine.op_computes(t.op):
                fail(ValueError, f"the gradient of {node_text(node)} needs {node_text(value)}, "
                                 f"which the in-place node {node_text(t)} overwrites")
            computed |= t == value
        return 0

    cdef int check_after_callback(self, const char *caller, ggml_tensor *node) except -1:
        cdef ggml_cgraph *g = self.graph
        cdef ggml_tensor *t
        cdef size_t k
        cdef int i
        arg_context(wrap_handle(self.ctx), caller)
        arg_sound_graph(wrap_graph(g), b"cgraph")
        if g.n_nodes < self.n_forward or g.visited_hash_set.size != self.n_slots:
            fail(RuntimeError, "cgraph was changed by a function given to ggml.ext.custom_set_backward")
        if not engine.tensor_usable(node):
            fail(RuntimeError, "a node was freed by the function that ggml.ext.custom_set_backward gave to it")
        check_node(node)
        for i in range(self.n_forward):
            t = g.nodes[i]
            check_node(t)
            if not engine.hash_contains(&g.visited_hash_set, t):
                fail(RuntimeError, f"cgraph lost {node_text(t)} in a function given to ggml.ext.custom_set_backward")
            k = hash_slot(g, t)
            if ((g.grads[k] != NULL and not engine.tensor_usable(g.grads[k]))
                    or (g.grad_accs[k] != NULL and not engine.tensor_usable(g.grad_accs[k]))):
                fail(RuntimeError, f"the gradient of {node_text(t)} was freed or written over")
        return 0

cdef bint depends_on_parameter(ggml_tensor *t, ggml_cgraph *g, uint8_t *wanted) noexcept:
    """Whether t is a parameter or computed from one through floating-point tensors, as `wanted` says of its sources."""
    cdef int k
    if t.flags & GGML_TENSOR_FLAG_PARAM:
        return True
    for k in range(GGML_MAX_SRC if gg_is_float(t.type) else 0):
        if t.src[k] != NULL and wanted[hash_slot(g, t.src[k])]:
            return True
    return False

def ggml_build_backward_expand(*args):
    """Appends the nodes that compute the gradients of the loss with respect to the parameters to a graph.

    The loss is the f32 scalar marked by ggml_set_loss, the parameters are the tensors marked by ggml_set_param.
    ggml_graph_get_grad returns the gradients. The gradient of the loss with respect to itself becomes 1, and new
    accumulators become 0; where ctx has no_alloc, ggml_graph_reset must do that once they have memory. Integer and
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
        ValueError: the graph is empty or was made without gradients, no node is a loss or it is not an f32 scalar, no
            parameter is reached from it, a parameter is not of a float type, a node on the way has no gradient, an
            entry of grad_accs does not fit, or a gradient needs a value that an in-place node overwrites.
        RuntimeError: the graph, or a node or leaf of it, belongs to no live context.
        MemoryError: the context or the graph is full.
    """
    enter(b"ggml_build_backward_expand")
    cdef bint accumulate = False
    accs = None
    if 3 <= len(args) <= 4 and all([is_a(a, _structs.ggml_cgraph_p) for a in args[1:3]]):
        ctx, graph = args[0], args[2]
    elif len(args) == 4:
        ctx, graph, accumulate = args[1], args[2], bool(args[3])
    elif 2 <= len(args) <= 3:
        ctx, graph = args[:2]
        accs = args[2] if len(args) == 3 else None
    else:
        fail(TypeError, f"called with {len(args)} arguments: need (ctx, cgraph, grad_accs)")
    build(arg_context(ctx, b"ggml_build_backward_expand"), arg_sound_graph(graph, b"cgraph"), accs, accumulate)

cdef Backward build(ggml_context *ctx, ggml_cgraph *g, object accs, bint accumulate):
    """Appends the backward pass to a graph."""
    cdef Backward b = Backward()
    cdef int i, n = g.n_nodes
    if g.grads == NULL:
        fail(ValueError, "the graph was made without room for gradients: use ggml_new_graph_custom(ctx, size, True)")
    if n == 0:
        fail(ValueError, "the graph is empty")
    if accs is not None and not hasattr(accs, "__getitem__"):
        fail(TypeError, f"grad_accs is {repr_short(accs)}: need an array of tensors or None")
    b.ctx, b.graph, b.n_forward, b.n_slots = ctx, g, n, g.visited_hash_set.size
    b.wanted = <uint8_t *>allocate(g.visited_hash_set.size, 1)
    prepare(b, accs, accumulate)
    for i in range(n - 1, -1, -1):
        backward(b, g.nodes[i])
    append_gradients(b)
    return b

cdef int prepare(Backward b, object accs, bint accumulate) except -1:
    """Finds the nodes that need a gradient, sets up the accumulators, and checks the loss and the parameters."""
    cdef ggml_cgraph *g = b.graph
    cdef int i
    cdef size_t k
    cdef bint reached = False
    cdef ggml_tensor *loss = NULL
    cdef ggml_tensor *t
    for i in range(b.n_forward):
        t = g.nodes[i]
        k = hash_slot(g, t)
        check_node(t)
        if t.flags & GGML_TENSOR_FLAG_PARAM and not gg_is_float(t.type):
            fail(ValueError, f"parameter {node_text(t)}: only floating-point tensors have gradients")
        b.any_in_place |= t.view_src != NULL and engine.op_computes(t.op)
        b.wanted[k] = depends_on_parameter(t, g, b.wanted)
        if t.flags & GGML_TENSOR_FLAG_LOSS:
            if t.type != GGML_TYPE_F32 or gg_nelements(t) != 1:
                fail(ValueError, f"the loss {node_text(t)} is not a scalar: need one f32")
            loss = t
            reached |= b.wanted[k]
        g.grads[k] = g.grad_accs[k] = NULL
        g.grad_accs[k] = accumulator(b, i, accs, accumulate)
        if t.op != GGML_OP_NONE or t.flags & GGML_TENSOR_FLAG_LOSS:
            g.grads[k] = g.grad_accs[k]
    if loss == NULL:
        fail(ValueError, f"no node is a loss: call ggml_set_loss on one, as {node_text(g.nodes[b.n_forward - 1])}, "
                         "before the graph is expanded")
    if not reached:
        fail(ValueError, f"no parameter is reached from the loss {node_text(loss)}: "
                         "call ggml_set_param on the tensors to take gradients by")
    return 0

cdef int check_node(ggml_tensor *t) except -1:
    """Checks again what callers may have written into a node: the gradients rely on it."""
    cdef char message[GG_MESSAGE]
    cdef int k
    for k in range(GGML_MAX_SRC):
        if t.src[k] != NULL and not engine.tensor_usable(t.src[k]):
            fail(RuntimeError, f"source {k} of {node_text(t)} was freed or written over")
    if engine.check(t, message) != NULL:
        fail(ValueError, f"{node_text(t)} was written over: {message.decode(errors='replace')}")
    return 0

cdef ggml_tensor *accumulator(Backward b, int i, object accs, bint accumulate) except? NULL:
    """The tensor that accumulates the gradient by node i: from accs, a new one if it needs one, or NULL.

    The accumulator of the loss holds the seed of the backward pass, 1; its flags say so to the allocators, which write
    it where the context has no data, and keep it from one compute to the next.
    """
    cdef ggml_tensor *t = b.graph.nodes[i]
    cdef ggml_tensor *acc = NULL
    if accs is not None:
        if hasattr(accs, "__len__") and len(accs) < b.n_forward:
            fail(ValueError, f"grad_accs has {len(accs)} entries: need one for each of {b.n_forward} nodes")
        acc = arg_tensor_or_null(accs[i], b"grad_accs")
        if acc != NULL and (not gg_same_shape(acc, t) or acc.type != GGML_TYPE_F32):
            fail(ValueError, f"grad_accs[{i}] is {node_text(acc)}: need f32 of the shape of {node_text(t)}")
    if acc == NULL and (t.flags & GGML_TENSOR_FLAG_LOSS or (accumulate and t.flags & GGML_TENSOR_FLAG_PARAM)):
        acc = new_tensor(b.ctx, GGML_TYPE_F32, 4, t.ne)
        set_name(acc, b"grad acc for ", t.name)
        if t.flags & GGML_TENSOR_FLAG_LOSS:
            acc.flags |= GGML_TENSOR_FLAG_LOSS | GGML_TENSOR_FLAG_OUTPUT
        if acc.data != NULL:
            memset(acc.data, 0, gg_nbytes(acc))
            if t.flags & GGML_TENSOR_FLAG_LOSS:
                (<float *>acc.data)[0] = 1.0
    return acc

cdef int append_gradients(Backward b) except -1:
    """Names the gradients, and appends those by parameters to the graph.

    The last layers come first: an allocator reuses what only their gradients need before it reaches the first layers.
    """
    cdef ggml_cgraph *g = b.graph
    cdef ggml_tensor *t
    cdef size_t k
    cdef int i
    for i in range(b.n_forward - 1, -1, -1):
        t = g.nodes[i]
        k = hash_slot(g, t)
        # The gradient of one compute is summed before it is added to those of others, so that neither the number of
        # computes nor of machines changes how its terms are rounded.
        if t.op == GGML_OP_NONE and g.grad_accs[k] != NULL and g.grads[k] != g.grad_accs[k]:
            g.grads[k] = (g.grad_accs[k] if g.grads[k] == NULL else
                          node2_in_place(b.ctx, GGML_OP_ADD, g.grad_accs[k], g.grads[k]))
        if g.grads[k] == NULL:
            continue
        if t.flags & GGML_TENSOR_FLAG_PARAM and not gg_contiguous(g.grads[k]):    # callers read the data directly
            g.grads[k] = node1(b.ctx, GGML_OP_CONT, g.grads[k])
        if not g.grads[k].name[0] or g.grads[k].op != GGML_OP_NONE:
            set_name(g.grads[k], b"grad for ", t.name)
        if t.flags & GGML_TENSOR_FLAG_PARAM:
            graph_expand(g, g.grads[k], True)
    return 0

cdef int backward(Backward b, ggml_tensor *t) except -1:
    """Adds the terms of node t to the gradients by its sources, if one of them needs a gradient."""
    cdef ggml_tensor *g
    cdef int k
    cdef bint any = False
    if not b.needs(t) or t.op == GGML_OP_NONE:
        return 0
    g = b.graph.grads[hash_slot(b.graph, t)]
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

# ---- gradient checkpointing: less memory for more computation --------------------------------------------------------
cdef class Recompute:
    """The nodes of a forward graph that the backward pass recomputes. The arrays are by position in its hash set."""
    cdef ggml_context *ctx
    cdef ggml_cgraph *forward
    cdef uint8_t *kept         # the checkpoints
    cdef uint8_t *needed       # nodes to be recomputed
    cdef ggml_tensor **copies  # of these nodes

    def __cinit__(self):
        self.kept, self.needed, self.copies = NULL, NULL, NULL

    def __dealloc__(self):
        free(self.kept)
        free(self.needed)
        free(self.copies)

    cdef size_t slot(self, ggml_tensor *t) noexcept:
        return hash_slot(self.forward, t)

    cdef bint dropped(self, ggml_tensor *t) noexcept:
        """Whether t must be recomputed: a node of the forward graph outside the memory of leafs and checkpoints."""
        if t == NULL or not engine.hash_contains(&self.forward.visited_hash_set, t):
            return False
        cdef ggml_tensor *root = t.view_src if t.view_src != NULL else t
        return root.op != GGML_OP_NONE and not self.kept[self.slot(root)] and not self.kept[self.slot(t)]

    cdef void need_sources(self, ggml_tensor *t) noexcept:
        """Marks the tensors that t reads and that must be recomputed."""
        cdef int k
        for k in range(GGML_MAX_SRC):
            if self.dropped(t.src[k]):
                self.needed[self.slot(t.src[k])] = True
        if not engine.op_computes(t.op) and self.dropped(t.view_src):
            self.needed[self.slot(t.view_src)] = True

    cdef ggml_tensor *available(self, ggml_tensor *t) noexcept:
        """The copy of t if t must be recomputed, else t."""
        return self.copies[self.slot(t)] if self.dropped(t) else t

    cdef int copy(self, Backward b, ggml_tensor *t) except -1:
        """Makes a node like t that reads the copies of its sources, and has memory of its own if t is in place."""
        cdef ggml_tensor d
        cdef int k
        if t.view_src != NULL and (t.op == GGML_OP_SET_ROWS or GGML_OP_MAP_CUSTOM1 <= t.op <= GGML_OP_CUSTOM):
            fail(ValueError, f"{node_text(t)} writes in place and can't be computed again: "
                             "make it a checkpoint, or let it write into a leaf")
        node_like(&d, t.op, t.type, t)
        memcpy(d.op_params, t.op_params, sizeof(d.op_params))
        for k in range(GGML_MAX_SRC):
            d.src[k] = self.available(t.src[k])
            if t.src[k] != NULL and d.src[k] == t.src[k]:
                b.require_not_overwritten(t, t.src[k])
        if t.view_src != NULL and not engine.op_computes(t.op):
            memcpy(d.nb, t.nb, sizeof(d.nb))
            d.view_src, d.view_offs = self.available(t.view_src), t.view_offs
        self.copies[self.slot(t)] = node_append(self.ctx, &d)
        set_name(self.copies[self.slot(t)], b"again: ", t.name)
        return 0

    cdef void redirect(self, ggml_tensor *t) noexcept:
        """Lets a node of the backward pass read the copies."""
        cdef int k
        t.flags &= ~GGML_TENSOR_FLAG_COMPUTE             # without it graph_expand visits the new sources as well
        for k in range(GGML_MAX_SRC):
            t.src[k] = self.available(t.src[k])
        if self.dropped(t.view_src):
            t.view_src = self.available(t.view_src)
            t.data = <uint8_t *>t.view_src.data + t.view_offs if t.view_src.data != NULL else NULL

cdef Recompute new_recompute(ggml_context *ctx, ggml_cgraph *forward, object checkpoints, int n):
    """Marks the n checkpoints in an array that a caller gives."""
    cdef Recompute r = Recompute()
    cdef size_t size = forward.visited_hash_set.size
    cdef ggml_tensor *t
    cdef int i
    r.ctx, r.forward = ctx, forward
    r.kept = <uint8_t *>allocate(size, 1)
    r.needed = <uint8_t *>allocate(size, 1)
    r.copies = <ggml_tensor **>allocate(size, sizeof(ggml_tensor *))
    if n > 0 and <size_t>n > size:
        fail(ValueError, f"n_checkpoints is {n}: the graph has {forward.n_nodes} nodes")
    arg_tensors(checkpoints, max(n, 0), b"checkpoints", r.copies)      # `copies` serves as a buffer here
    for i in range(n):
        t, r.copies[i] = r.copies[i], NULL
        if not engine.hash_contains(&forward.visited_hash_set, t):
            fail(ValueError, f"checkpoint {node_text(t)} is not a tensor of the graph")
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
        RuntimeError: an entry of an array of checkpoints is not a tensor of a live context.
        MemoryError: the context or a graph is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_build_backward_gradient_checkpointing")
    cdef ggml_cgraph *f = arg_sound_graph(gf, b"gf")
    cdef ggml_cgraph *g = arg_graph(gb, b"gb")
    cdef ggml_cgraph *scratch = arg_graph(gb_tmp, b"gb_tmp")
    cdef ggml_tensor *t
    cdef Backward b
    cdef Recompute r
    cdef size_t n_slots
    cdef int i, n = arg_int32(n_checkpoints, b"n_checkpoints")
    if g == f or scratch == f or g == scratch:
        fail(ValueError, "gf, gb and gb_tmp must be three graphs")
    if g.grads == NULL:
        fail(ValueError, "gb was made without room for gradients: use ggml_new_graph_custom(ctx, size, True)")
    r = new_recompute(c, f, checkpoints, n)
    n_slots = f.visited_hash_set.size
    copy_graph(f, scratch)
    b = build(c, scratch, None, False)
    # Functions given to ggml.ext.custom_set_backward may have freed the graphs.
    arg_sound_graph(wrap_graph(f), b"gf")
    arg_graph(wrap_graph(g), b"gb")
    if f.n_nodes != b.n_forward or f.visited_hash_set.size != n_slots:
        fail(RuntimeError, "gf was changed by a function given to ggml.ext.custom_set_backward")
    copy_graph(f, g)
    if n > 0:
        for i in range(f.n_nodes, scratch.n_nodes):
            r.need_sources(scratch.nodes[i])
        for i in range(f.n_nodes - 1, -1, -1):
            if r.needed[r.slot(f.nodes[i])]:
                r.need_sources(f.nodes[i])
        for i in range(f.n_nodes):
            if r.needed[r.slot(f.nodes[i])]:
                r.copy(b, f.nodes[i])
        for i in range(f.n_nodes, scratch.n_nodes):
            r.redirect(scratch.nodes[i])
    for i in range(f.n_nodes, scratch.n_nodes):
        graph_expand(g, scratch.nodes[i], True)
    for i in range(f.n_nodes):
        t = f.nodes[i]
        g.grads[hash_slot(g, t)] = scratch.grads[hash_slot(scratch, t)]
        g.grad_accs[hash_slot(g, t)] = scratch.grad_accs[hash_slot(scratch, t)]
