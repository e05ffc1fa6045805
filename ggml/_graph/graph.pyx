"""Graphs: building, planning, computing, printing."""
import ctypes
import os

from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdlib cimport free
from libc.string cimport memcpy, memset, strncmp

from .._core cimport (
    GGML_DEFAULT_GRAPH_SIZE, GGML_MAX_NAME, GGML_MAX_SRC, GGML_STATUS_ABORTED, GGML_STATUS_ALLOC_FAILED,
    GGML_STATUS_FAILED, GGML_STATUS_SUCCESS, GGML_TENSOR_FLAG_COMPUTE, GGML_TENSOR_FLAG_LOSS, GGML_TENSOR_FLAG_PARAM,
    GG_MESSAGE, allocate, arg_address, arg_bool, arg_callback, arg_context, arg_graph, arg_int32, arg_path, arg_size,
    arg_tensor, arg_tensors, arg_text, cbool, check_data, check_files, compute_outside, engine, enter, entered, fail,
    function_name, gg_call, gg_is_empty, gg_nbytes, gg_pins, gg_prepared, gg_types, ggml_cgraph, ggml_context,
    ggml_cplan, ggml_object, ggml_tensor, graph_expand, graph_new, hold_owners, is_a, name_text, outside, paused,
    pins_hold, pins_release, pointed, repr_short, truth_of, unwatch, watch, wrap_graph, wrap_handle, wrap_tensor,
)
from .._enums cimport GGML_OP_GLU, GGML_OP_NONE, GGML_OP_OPT_STEP_ADAMW, GGML_OP_UNARY
from .._params cimport glu_params, unary_params
from .record cimport compute_recorded, recorders
from .. import _constants, _structs
from .._core import as_callback, defer_error
from .._io.files import save
from .._system.messages import log
from .._tensor.properties import GLU_NAMES

cdef enum:
    MAX_THREADS = 512

# ---- making graphs ---------------------------------------------------------------------------------------------------
def ggml_new_graph(ctx):
    """Creates a graph with room for GGML_DEFAULT_GRAPH_SIZE (2048) nodes, without gradients.

    Args:
        ctx: context that receives the graph; it takes ggml_graph_overhead() bytes, also with no_alloc.
    Returns:
        Pointer to an empty ggml_cgraph, valid as long as the context.
    Raises:
        TypeError: ctx is not a context handle.
        MemoryError: the context is full.
        RuntimeError: ctx is not a live context.
    """
    return wrap_graph(graph_new(arg_context(ctx, b"ggml_new_graph"), GGML_DEFAULT_GRAPH_SIZE, False))

def ggml_new_graph_custom(ctx, size, grads):
    """Creates a graph of a given capacity, with or without room for gradients.

    Args:
        ctx: context that receives the graph; it takes ggml_graph_overhead_custom(size, grads) bytes.
        size: number of nodes, and of leafs, that the graph has room for.
        grads: True if ggml_build_backward_expand is to add gradients.
    Returns:
        Pointer to an empty ggml_cgraph, valid as long as the context.
    Raises:
        TypeError: ctx is not a context handle, size is not an integer or grads is not a truth value.
        ValueError: size is negative or larger than 2^29 - 1.
        MemoryError: the context is full.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_graph_custom")
    return wrap_graph(graph_new(c, arg_size(size, b"size"), arg_bool(grads, b"grads")))

def ggml_graph_overhead():
    """Computes the memory that ggml_new_graph takes in a context.

    Returns:
        Size in bytes (int), the object's header included.
    """
    return ggml_graph_overhead_custom(GGML_DEFAULT_GRAPH_SIZE, False)

def ggml_graph_overhead_custom(size, grads):
    """Computes the memory that a graph of a given capacity takes in a context.

    Args:
        size: number of nodes, and of leafs, that the graph has room for.
        grads: True for a graph with gradients.
    Returns:
        Size in bytes (int) that ggml_new_graph_custom(ctx, size, grads) takes, the object's header included.
    Raises:
        TypeError: size is not an integer or grads is not a truth value.
        ValueError: size is negative or larger than 2^29 - 1.
    """
    enter(b"ggml_graph_overhead_custom")
    cdef size_t n = engine.graph_nbytes(arg_size(size, b"size"), arg_bool(grads, b"grads"))
    if n == 0:
        fail(ValueError, f"size is {size}: larger than any graph")
    return sizeof(ggml_object) + ((n + 15) & ~<size_t>15)

def ggml_build_forward_expand(cgraph, tensor):
    """Adds a tensor and everything it depends on to a graph.

    Sources come before the nodes that read them. Tensors that are in the graph already are not added again. Tensors
    without a name are named "node_<n>" or "leaf_<n>". If the call fails, nodes and leafs of the graph are as
    before.

    Args:
        cgraph: graph to extend.
        tensor: result to compute, of any shape and any type.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer or tensor is not a tensor pointer.
        ValueError: cgraph or tensor is a NULL pointer or has an invalid field.
        MemoryError: the graph is full (see ggml_new_graph_custom).
        RuntimeError: cgraph, tensor or one of its sources belongs to no live context.
    """
    enter(b"ggml_build_forward_expand")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    graph_expand(g, arg_tensor(tensor, b"tensor"), True)

def ggml_build_forward_order(cgraph, tensor):
    """Adds a tensor and everything it depends on to a graph, without selecting them to be computed.

    This fixes the order of nodes: what a later ggml_build_forward_expand or ggml_build_forward_select reaches is
    computed at its place here. Nodes that nothing selects are skipped.

    Args:
        cgraph: graph to extend.
        tensor: tensor of any shape and any type.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer or tensor is not a tensor pointer.
        ValueError: cgraph or tensor is a NULL pointer or has an invalid field.
        MemoryError: the graph is full (see ggml_new_graph_custom).
        RuntimeError: cgraph, tensor or one of its sources belongs to no live context.
    """
    enter(b"ggml_build_forward_order")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    graph_expand(g, arg_tensor(tensor, b"tensor"), False)

def ggml_build_forward_select(cgraph, tensors, n_tensors, idx):
    """Adds several alternative results to a graph and selects the one that is computed.

    Nodes that only the other alternatives need stay in the graph but are skipped, so that its layout does not
    depend on the choice.

    Args:
        cgraph: graph to extend.
        tensors: list, tuple or array of n_tensors tensor pointers.
        n_tensors: number of alternatives, 1 or more, at most the capacity of the graph.
        idx: which one is computed, 0 to n_tensors - 1.
    Returns:
        The selected tensor, tensors[idx].
    Raises:
        TypeError: cgraph is not a graph pointer, an entry is not a tensor pointer, or a number is not an integer.
        ValueError: idx or n_tensors is out of range, or tensors is NULL or has too few entries.
        MemoryError: the graph is full.
        RuntimeError: cgraph, an alternative or a source belongs to no live context.
    """
    enter(b"ggml_build_forward_select")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    cdef int n = arg_int32(n_tensors, b"n_tensors"), i = arg_int32(idx, b"idx"), k
    cdef ggml_tensor **found
    if n < 1 or i < 0 or i >= n or n > g.size:
        fail(ValueError, f"n_tensors is {n}, idx is {i}: idx must be one of the tensors, "
                         f"and the graph has room for {g.size}")
    found = <ggml_tensor **>allocate(<size_t>n, sizeof(void *))
    try:
        arg_tensors(tensors, n, b"tensors", found)
        for k in range(n):
            graph_expand(g, found[k], k == i)
        return wrap_tensor(found[i])
    finally:
        free(found)

def ggml_graph_add_node(cgraph, tensor):
    """Appends one tensor to the nodes of a graph, without its sources.

    The node is marked to be computed. Sources that are computed must be in the graph before it; this is not
    checked.

    Args:
        cgraph: graph to extend.
        tensor: tensor of any shape and any type.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer or tensor is not a tensor pointer.
        ValueError: cgraph or tensor is a NULL pointer or has an invalid field.
        MemoryError: the graph is full.
        RuntimeError: cgraph or tensor belongs to no live context.
    See also:
        ggml_build_forward_expand adds the sources too.
    """
    enter(b"ggml_graph_add_node")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if g.n_nodes >= g.size:
        fail(MemoryError, f"the graph is full: it has room for {g.size} nodes")
    t.flags |= GGML_TENSOR_FLAG_COMPUTE
    g.nodes[g.n_nodes] = t
    g.n_nodes += 1

def ggml_graph_clear(cgraph):
    """Removes all nodes and leafs from a graph.

    The tensors themselves and the capacity of the graph stay.

    Args:
        cgraph: graph to empty.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        RuntimeError: cgraph does not belong to a live context.
    """
    enter(b"ggml_graph_clear")
    engine.graph_clear(arg_graph(cgraph, b"cgraph"))

cdef int copy_graph(ggml_cgraph *a, ggml_cgraph *b) except -1:
    """Gives b the nodes, leafs, hash set and, if both have room for them, gradients of a."""
    cdef size_t i, k
    if b.size < a.n_nodes or b.size < a.n_leafs or b.visited_hash_set.size < a.visited_hash_set.size:
        fail(ValueError, f"dst has room for {b.size} nodes: need as much as src, {a.size}")
    b.n_nodes, b.n_leafs, b.order = a.n_nodes, a.n_leafs, a.order
    if a.n_nodes > 0:  # a graph of size 0 has no arrays: memcpy takes no NULL, even for 0 bytes
        memcpy(b.nodes, a.nodes, <size_t>a.n_nodes * sizeof(void *))
    if a.n_leafs > 0:
        memcpy(b.leafs, a.leafs, <size_t>a.n_leafs * sizeof(void *))
    clear_hash_set(b)
    for i in range(a.visited_hash_set.size):
        if not engine.hash_used(&a.visited_hash_set, i) or a.visited_hash_set.keys[i] == NULL:
            continue
        k = hash_insert(b, a.visited_hash_set.keys[i])
        b.use_counts[k] = a.use_counts[i] if a.use_counts != NULL else 0
        if a.grads != NULL and b.grads != NULL:
            b.grads[k], b.grad_accs[k] = a.grads[i], a.grad_accs[i]
    return 0

cdef int clear_hash_set(ggml_cgraph *g) except -1:
    """Empties the hash set and the gradients of a graph; its nodes and leafs stay."""
    cdef int nodes = g.n_nodes, leafs = g.n_leafs
    engine.graph_clear(g)
    g.n_nodes, g.n_leafs = nodes, leafs
    if g.grads != NULL:
        memset(g.grads, 0, g.visited_hash_set.size * sizeof(void *))
        memset(g.grad_accs, 0, g.visited_hash_set.size * sizeof(void *))
    return 0

cdef size_t hash_insert(ggml_cgraph *g, ggml_tensor *t) noexcept:
    cdef size_t k = hash_slot(g, t)
    g.visited_hash_set.used[k >> 5] |= 1u << (k & 31)
    g.visited_hash_set.keys[k] = t
    return k

def ggml_graph_dup(ctx, cgraph, force_grads=False):
    """Copies a graph into a context.

    The copy refers to the same tensors. It has the capacity of the original and its gradients, if there are any.

    Args:
        ctx: context that receives the copy.
        cgraph: graph to copy.
        force_grads: True to give the copy room for gradients where the original has none.
    Returns:
        Pointer to the new ggml_cgraph, valid as long as ctx.
    Raises:
        TypeError: ctx is not a context handle, cgraph is not a graph pointer or force_grads is not a truth value.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        MemoryError: the context is full.
        RuntimeError: ctx or the context of cgraph was freed.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_graph_dup")
    cdef ggml_cgraph *a = arg_graph(cgraph, b"cgraph")
    cdef ggml_cgraph *b = graph_new(c, <size_t>a.size, a.grads != NULL or arg_bool(force_grads, b"force_grads"))
    copy_graph(a, b)
    return wrap_graph(b)

def ggml_graph_cpy(src, dst):
    """Replaces the content of a graph by that of another.

    Nodes, leafs, use counts and the evaluation order are copied, gradients only if both graphs have room for them.
    Both graphs refer to the same tensors afterwards.

    Args:
        src: graph to copy.
        dst: graph that is overwritten.
    Returns:
        None.
    Raises:
        TypeError: src or dst is not a graph pointer.
        ValueError: src or dst is a NULL pointer or has an invalid field, or dst has too little room.
        RuntimeError: src or dst belongs to no live context.
    """
    enter(b"ggml_graph_cpy")
    cdef ggml_cgraph *a = arg_graph(src, b"src")
    copy_graph(a, arg_graph(dst, b"dst"))

def ggml_graph_view(cgraph, i0, i1):
    """Creates a graph of a range of nodes of another graph.

    The view shares the arrays of the graph, so that it sees later changes. It has no leafs, no gradients and no
    room for further nodes.

    Args:
        cgraph: graph that is viewed.
        i0: first node, 0 or more.
        i1: end of the range, not included, i0 to ggml_graph_n_nodes(cgraph).
    Returns:
        ggml_cgraph by value, which other functions accept like a pointer. The context of cgraph must live as long.
    Raises:
        TypeError: cgraph is not a graph pointer, or i0 or i1 is not an integer.
        ValueError: cgraph is a NULL pointer or has an invalid field, or i0 <= i1 <= number of nodes does not hold.
        RuntimeError: cgraph does not belong to a live context.
    """
    enter(b"ggml_graph_view")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    cdef int a = arg_int32(i0, b"i0"), b = arg_int32(i1, b"i1")
    if not 0 <= a <= b <= g.n_nodes:
        fail(ValueError, f"i0 is {a}, i1 is {b}: need 0 <= i0 <= i1 <= {g.n_nodes}")
    view = _structs.ggml_cgraph()
    ctypes.memmove(ctypes.byref(view), <size_t>g, sizeof(ggml_cgraph))
    view.size, view.n_nodes, view.n_leafs = 0, b - a, 0
    cdef ggml_cgraph *v = <ggml_cgraph *><size_t>ctypes.addressof(view)
    v.nodes, v.leafs, v.grads, v.grad_accs = g.nodes + a, NULL, NULL, NULL
    view._graph = cgraph
    return view

# ---- properties and tensors of graphs --------------------------------------------------------------------------------
def ggml_graph_size(cgraph):
    """Gives the capacity of a graph.

    Args:
        cgraph: graph.
    Returns:
        Number of nodes, and of leafs, that there is room for (int); 0 for a ggml_graph_view.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        RuntimeError: cgraph does not belong to a live context.
    """
    enter(b"ggml_graph_size")
    return arg_graph(cgraph, b"cgraph").size

def ggml_graph_n_nodes(cgraph):
    """Counts the nodes of a graph.

    Args:
        cgraph: graph.
    Returns:
        Number of nodes (int): results of operations and parameters, but no leafs.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        RuntimeError: cgraph does not belong to a live context.
    """
    enter(b"ggml_graph_n_nodes")
    return arg_graph(cgraph, b"cgraph").n_nodes

def ggml_graph_node(cgraph, i):
    """Gives one node of a graph by its position.

    Args:
        cgraph: graph.
        i: position in the order of computation; a negative i counts from the end, -1 is the last node.
    Returns:
        Tensor.
    Raises:
        TypeError: cgraph is not a graph pointer, or i is not an integer.
        IndexError: i is out of range.
        ValueError: cgraph is a NULL pointer or has an invalid field, or i does not fit 32 bits.
        RuntimeError: cgraph does not belong to a live context.
    """
    enter(b"ggml_graph_node")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    cdef int k = arg_int32(i, b"i")
    if k < -g.n_nodes or k >= g.n_nodes:
        fail(IndexError, f"i is {k}: the graph has {g.n_nodes} nodes")
    return wrap_tensor(g.nodes[k if k >= 0 else g.n_nodes + k])

def ggml_graph_nodes(cgraph):
    """Gives the array of node pointers of a graph.

    Args:
        cgraph: graph.
    Returns:
        POINTER(POINTER(ggml_tensor)) to ggml_graph_n_nodes(cgraph) entries. It is valid as long as the graph's
        context.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        RuntimeError: cgraph does not belong to a live context.
    """
    enter(b"ggml_graph_nodes")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    return ctypes.cast(<size_t>g.nodes, ctypes.POINTER(_structs.ggml_tensor_p))

def ggml_graph_get_tensor(cgraph, name):
    """Finds a tensor of a graph by its name.

    Leafs are searched first, then nodes.

    Args:
        cgraph: graph.
        name: bytes or str, compared exactly. A stored name has at most 63 bytes, so a longer one is never found.
    Returns:
        The first tensor of that name; a NULL pointer if there is none.
    Raises:
        TypeError: cgraph is not a graph pointer, or name is neither bytes nor str.
        ValueError: cgraph is a NULL pointer or has an invalid field, or name cannot be encoded.
        RuntimeError: cgraph, one of its nodes or one of its leafs belongs to no live context.
    """
    enter(b"ggml_graph_get_tensor")
    cdef ggml_cgraph *g = arg_sound_graph(cgraph, b"cgraph")
    cdef bytes wanted = arg_text(name, b"name")
    cdef int i
    for i in range(g.n_leafs):
        if not strncmp(g.leafs[i].name, wanted, GGML_MAX_NAME):
            return wrap_tensor(g.leafs[i])
    for i in range(g.n_nodes):
        if not strncmp(g.nodes[i].name, wanted, GGML_MAX_NAME):
            return wrap_tensor(g.nodes[i])
    return wrap_tensor(NULL)

cdef ggml_cgraph *arg_sound_graph(object cgraph, const char *name) except NULL:
    cdef ggml_cgraph *g = arg_graph(cgraph, name)
    cdef ggml_tensor *t
    cdef int i
    for i in range(g.n_nodes + g.n_leafs):
        t = g.nodes[i] if i < g.n_nodes else g.leafs[i - g.n_nodes]
        if engine.tensor_usable(t):
            continue
        what = f"node {i}" if i < g.n_nodes else f"leaf {i - g.n_nodes}"
        if not engine.tensor_live(t):
            fail(RuntimeError, f"{what} is not a tensor of a live context: freed, reset, or never one")
        fail(ValueError, f"{what} has an invalid type, operation, shape or view_src: written over, or the tensor that "
                         "it views was freed")
    return g

cdef ggml_tensor *gradient_of(ggml_cgraph *g, ggml_tensor **gradients, ggml_tensor *t) noexcept:
    """The entry for t in the graph's `grads` or `grad_accs`; NULL: there is none."""
    if gradients == NULL or not engine.hash_contains(&g.visited_hash_set, t):
        return NULL
    return gradients[hash_slot(g, t)]

def ggml_graph_get_grad(cgraph, node):
    """Gives the gradient of the loss with respect to a tensor.

    Args:
        cgraph: graph that ggml_build_backward_expand has extended.
        node: tensor of any shape and any type.
    Returns:
        Tensor of the gradient, [ne0, ne1, ne2, ne3] of node; a NULL pointer if the graph has none for it.
    Raises:
        TypeError: cgraph is not a graph pointer or node is not a tensor pointer.
        ValueError: cgraph or node is a NULL pointer or has an invalid field.
        RuntimeError: cgraph or node belongs to no live context.
    """
    enter(b"ggml_graph_get_grad")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    return wrap_tensor(gradient_of(g, g.grads, arg_tensor(node, b"node")))

def ggml_graph_get_grad_acc(cgraph, node):
    """Gives the tensor in which the gradient with respect to a tensor is accumulated.

    Args:
        cgraph: graph that ggml_build_backward_expand has extended.
        node: tensor of any shape and any type.
    Returns:
        Accumulator, a tensor [ne0, ne1, ne2, ne3] of node; a NULL pointer if the graph has none for it.
    Raises:
        TypeError: cgraph is not a graph pointer or node is not a tensor pointer.
        ValueError: cgraph or node is a NULL pointer or has an invalid field.
        RuntimeError: cgraph or node belongs to no live context.
    """
    enter(b"ggml_graph_get_grad_acc")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    return wrap_tensor(gradient_of(g, g.grad_accs, arg_tensor(node, b"node")))

def ggml_graph_reset(cgraph):
    """Resets the gradient accumulators and optimiser states of a graph.

    Accumulators become 0, those of the loss 1. The first and second moments of GGML_OP_OPT_STEP_ADAMW nodes become
    0. Tensors without data are skipped, except the accumulator of the loss.

    Args:
        cgraph: graph with gradients (see ggml_new_graph_custom).
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer, has no gradients, or the accumulator of the loss has no data.
        RuntimeError: cgraph, one of its nodes or one of its leafs belongs to no live context.
    """
    enter(b"ggml_graph_reset")
    cdef ggml_cgraph *g = arg_sound_graph(cgraph, b"cgraph")
    cdef ggml_tensor *t
    cdef ggml_tensor *acc
    cdef int i, k
    if g.grads == NULL:
        fail(ValueError, "the graph was made without gradients")
    for i in range(g.n_nodes):
        t = g.nodes[i]
        acc = gradient_of(g, g.grad_accs, t)
        if t.op == GGML_OP_OPT_STEP_ADAMW:
            for k in (2, 3):                             # the first and second moments
                zero(t.src[k])
        if acc == NULL:
            continue
        zero(acc)
        if t.flags & GGML_TENSOR_FLAG_LOSS:
            check_data(acc, "gradient")
            (<float *>acc.data)[0] = 1.0
    for i in range(g.n_leafs):
        acc = gradient_of(g, g.grad_accs, g.leafs[i])
        if acc != NULL:
            zero(acc)

cdef int zero(ggml_tensor *t) except -1:
    if t == NULL:
        return 0
    if not engine.tensor_usable(t):
        fail(RuntimeError, "a moment of an optimiser step or an accumulated gradient was freed or written over")
    if not gg_is_empty(t) and t.data != NULL:
        check_data(t, "tensor")
        memset(t.data, 0, gg_nbytes(t))
    return 0

# ---- computing -------------------------------------------------------------------------------------------------------
cdef int threads(object n, str name) except -1:
    cdef int k = arg_int32(n, b"n_threads")
    if k == 0 or k > MAX_THREADS:
        fail(ValueError, f"{name} is {k}: need 1 to {MAX_THREADS}, or a negative number for one on each available CPU")
    return k if k > 0 else engine.default_threads()

cdef object arg_callable(object callback, object type_):
    """A Python callable for a callback that may be a CFUNCTYPE, a Python callable or an address; None for NULL."""
    made = as_callback(callback, type_)
    cdef void *p = arg_callback(made, type_, b"callback")
    if p == NULL:
        return None
    return made if is_a(made, type_.prototype) else type_(<size_t>p)

cdef object arg_user_data(object user_data):
    if user_data is None or isinstance(user_data, int):
        return user_data
    return <size_t>arg_address(user_data, b"user_data")

def ggml_graph_plan(cgraph, n_threads=4, threadpool=None):
    """Prepares how a graph is computed: threads and work memory.

    It checks every node: its operation, its sources and that their data is allocated. The caller may set
    abort_callback, abort_callback_data and use_ref of the plan. Setting work_data is not necessary.

    Args:
        cgraph: graph to compute.
        n_threads: most threads to use, 1 to 512, 4 by default; a negative number for one on each available CPU.
        threadpool: handle of a thread pool or None. It is stored in the plan but does not change n_threads.
    Returns:
        ggml_cplan by value, with work_size in bytes and the number of threads.
    Raises:
        TypeError: cgraph is not a graph pointer, n_threads is not an integer or threadpool is not a handle.
        ValueError: cgraph is a NULL pointer, n_threads is 0 or above 512, or a node is invalid or has no data.
        RuntimeError: cgraph, one of its nodes or a source belongs to no live context, or its data was freed.
    """
    enter(b"ggml_graph_plan")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    cdef int n = threads(n_threads, "n_threads")
    check_nodes(g.nodes, 0, g.n_nodes)
    plan = _structs.ggml_cplan()
    plan.n_threads = n
    plan.work_size = engine.work_size(g.nodes, g.n_nodes, n)
    plan.threadpool = wrap_handle(arg_address(threadpool, b"threadpool"))
    return plan

cdef int check_nodes(ggml_tensor **nodes, int first, int end) except -1:
    """Checks what the operations of nodes need: callers may have written into the nodes since they were made."""
    cdef int i, k
    cdef ggml_tensor *t
    cdef ggml_tensor *s
    cdef char[GG_MESSAGE] message
    for i in range(first, end):
        t = nodes[i]
        if not engine.tensor_live(t):
            fail(RuntimeError, f"node {i} is not a tensor of a live context: freed, reset, or never one")
        if engine.op_name(t.op) == NULL:
            fail(ValueError, f"node {i} ('{name_text(t)}'): op is {t.op}: no operation has this number")
        if not t.flags & GGML_TENSOR_FLAG_COMPUTE or not engine.op_computes(t.op):
            continue
        for k in range(GGML_MAX_SRC):
            s = t.src[k]
            if s == NULL:
                continue
            if not engine.tensor_live(s):
                fail(RuntimeError, f"source {k} of node {i} ({op_and_name(t)}) is not a tensor of a live context: "
                                   "freed, reset, or never one")
            if not engine.data_ok(s):
                check_data(s, f"source {k} of node {i} ({op_and_name(t)}),")
        if not engine.data_ok(t):
            check_data(t, f"node {i} ({op_and_name(t)}),")
        if engine.check(t, message) != NULL:
            fail(ValueError, f"node {i} ({op_and_name(t)}): {message.decode(errors='replace')}")
    return 0

cdef str op_and_name(const ggml_tensor *t):
    cdef const char *op = engine.op_name(t.op)
    return f"{'' if op == NULL else op.decode()} '{name_text(t)}'"

cdef cbool poll_signals() noexcept nogil:
    with gil:
        return signals_pending()

cdef bint signals_pending() noexcept:
    try:
        PyErr_CheckSignals()
    except BaseException as e:
        defer_error(e)
        return True
    return False

cdef int compute_nodes(gg_call *call, int first, const char *caller) except? -99:
    """Computes the nodes of a call, which begin with node `first` of the graph.

    Returns GGML_STATUS_SUCCESS or GGML_STATUS_ABORTED; raises if an operation, a callback or an allocation failed.
    """
    cdef int status = compute_recorded(call) if recorders else compute_outside(call)
    enter(caller)                                        # callbacks may have entered other functions
    if call.exception != NULL:
        error = <object><PyObject *>call.exception
        Py_DECREF(error)
        raise error
    if status == GGML_STATUS_FAILED or status == GGML_STATUS_ALLOC_FAILED:
        lacking = status == GGML_STATUS_ALLOC_FAILED
        what = call.message.decode(errors="replace")
        what = what or ("no memory for the work buffer" if lacking else "the operation failed")
        if call.failed >= 0:
            what = f"node {first + call.failed} ({op_and_name(call.nodes[call.failed])}): {what}"
        fail(MemoryError if lacking else RuntimeError, what)
    return status

cdef int run(ggml_cgraph *g, gg_call *call) except? -99:
    """Computes a graph; returns and raises what `compute_nodes` does.

    Callbacks and other threads may change the graph or free its memory meanwhile. Therefore the list of nodes is copied
    and their memory is held; after an operation that calls a callback, the following nodes are checked again.
    """
    cdef gg_prepared *prepared = NULL
    call.poll = poll_signals
    call.single = call.abort != NULL or recorders > 0
    if call.abort == NULL:                               # a prepared graph has no callbacks
        prepared = engine.prepared_find(g)
    if prepared != NULL:
        return run_prepared(prepared, call)
    watch()
    try:
        return run_watched(g, call)
    finally:
        unwatch()

cdef int run_watched(ggml_cgraph *g, gg_call *call) except? -99:
    """As `run`, between watch() and unwatch()."""
    cdef gg_pins pins
    cdef list kept = []
    cdef const char *caller = entered()
    cdef int n = g.n_nodes, first = 0, end, status = GGML_STATUS_SUCCESS
    cdef ggml_tensor **nodes
    cdef gg_prepared *prepared = engine.prepared_find(g)
    if prepared != NULL:
        return run_prepared(prepared, call)
    check_nodes(g.nodes, 0, n)
    prepared = engine.prepared_note(g, n)
    if prepared != NULL:
        return run_prepared(prepared, call)
    nodes = <ggml_tensor **>allocate(<size_t>n, sizeof(void *))
    if n > 0:
        memcpy(nodes, g.nodes, <size_t>n * sizeof(void *))
    memset(&pins, 0, sizeof(pins))
    try:
        pins_hold(&pins, kept, nodes, n)
        while True:
            end = first + engine.until_callback(nodes + first, n - first)
            if first:
                check_nodes(nodes, first, end)
                pins_hold(&pins, kept, nodes + first, end - first)
            call.nodes, call.n_nodes = nodes + first, end - first
            status = compute_nodes(call, first, caller)
            if status or end == n:
                enter(caller)
                check_files(&pins)
                return status
            first = end
    finally:
        pins_release(&pins)
        free(nodes)

cdef int run_prepared(gg_prepared *prepared, gg_call *call) except? -99:
    cdef gg_pins pins
    cdef list kept = []
    cdef const char *caller = entered()
    cdef int status
    memset(&pins, 0, sizeof(pins))
    if not engine.prepared_begin(prepared, call, &pins):
        fail(MemoryError, "no memory for the plan of the graph")
    try:
        hold_owners(&pins, 0, kept)
        status = compute_nodes(call, 0, caller)
        enter(caller)
        check_files(&pins)
        return status
    finally:
        pins_release(&pins)
        engine.prepared_end(prepared)

def count_steps(cgraph, n_threads, kept=False):
    """How many steps the nodes of a graph are on so many threads: fused nodes are one (see tables/fusions.h).

    kept: from the second compute on, whose plan is kept.
    """
    enter(b"count_steps")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    cdef int n = threads(n_threads, "n_threads"), steps
    check_nodes(g.nodes, 0, g.n_nodes)
    steps = engine.count_steps(g.nodes, g.n_nodes, n, kept)
    if steps < 0:
        fail(MemoryError, "no memory for the plan of the graph")
    return steps

def ggml_graph_compute(cgraph, cplan):
    """Computes a graph according to a plan.

    The GIL is released. At most cplan.n_threads threads run, and no more than there are CPUs available; small nodes
    run on one. Work memory is allocated by the call, so that cplan.work_data is not used. The first thread calls
    cplan.abort_callback(abort_callback_data) before each node; if it returns True, no further node is started. With
    cplan.use_ref scalar reference kernels run.

    Args:
        cgraph: graph to compute; all its nodes and sources need data.
        cplan: ggml_cplan of ggml_graph_plan, or a pointer to one.
    Returns:
        GGML_STATUS_SUCCESS (0), or GGML_STATUS_ABORTED (1) if the callback stopped it.
    Raises:
        TypeError: cgraph is not a graph pointer or cplan is not a ggml_cplan.
        ValueError: cgraph is a NULL pointer, a node is invalid or has no data, or a field of cplan is invalid.
        RuntimeError: an operation failed, or the graph or a tensor it uses was freed.
        MemoryError: the work memory cannot be allocated.
        KeyboardInterrupt: Ctrl-C was pressed; signals are handled between nodes.
        Exception: a Python callback raised it; it is passed on unchanged.
    """
    enter(b"ggml_graph_compute")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    cdef gg_call call
    plan = pointed(cplan, _structs.ggml_cplan)
    if plan is None:
        fail(TypeError, f"cplan is {repr_short(cplan)}: need a ggml_cplan or a pointer to one")
    cdef ggml_cplan *p = <ggml_cplan *><size_t>ctypes.addressof(plan)
    memset(&call, 0, sizeof(call))
    call.n_threads = threads(p.n_threads, "cplan.n_threads")
    call.use_ref = p.use_ref != 0
    call.abort = <cbool (*)(void *) noexcept nogil>p.abort_callback
    call.abort_data = p.abort_callback_data
    _callback = dict(plan._objects or {})                 # keeps it, even if the plan gets another one meanwhile
    if p.abort_callback != NULL and not engine.readable(p.abort_callback, 1):
        fail(ValueError, f"cplan.abort_callback ({<size_t>p.abort_callback:#x}) is not a function")
    return run(g, &call)

def ggml_graph_compute_with_ctx(ctx, cgraph, n_threads):
    """Computes a graph with a number of threads, without a plan of the caller.

    It is ggml_graph_plan and ggml_graph_compute in one call. The GIL is released.

    Args:
        ctx: any live context; nothing is stored in it, since work memory is allocated by the call.
        cgraph: graph to compute; all its nodes and sources need data.
        n_threads: most threads to use, 1 to 512; a negative number for one on each available CPU.
    Returns:
        GGML_STATUS_SUCCESS (0); failures are raised.
    Raises:
        TypeError: ctx is not a context handle, cgraph is not a graph pointer or n_threads is not an integer.
        ValueError: cgraph is a NULL pointer, n_threads is 0 or above 512, or a node is invalid or has no data.
        RuntimeError: an operation failed, or the context, the graph or a tensor it uses was freed.
        MemoryError: the work memory cannot be allocated.
        KeyboardInterrupt: Ctrl-C was pressed; signals are handled between nodes.
        Exception: a Python callback raised it; it is passed on unchanged.
    """
    arg_context(ctx, b"ggml_graph_compute_with_ctx")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    cdef gg_call call
    memset(&call, 0, sizeof(call))
    call.n_threads = threads(n_threads, "n_threads")
    return run(g, &call)

def ggml_status_to_string(status):
    """Describes a status of a computation in words.

    Args:
        status: GGML_STATUS_*: -2 (out of memory), -1 (failed), 0 (success) or 1 (aborted).
    Returns:
        Text (bytes), as b"GGML status: success"; b"GGML status: unknown" for other numbers.
    Raises:
        TypeError: status is not an integer.
        ValueError: status does not fit 32 bits.
    """
    enter(b"ggml_status_to_string")
    return {
        GGML_STATUS_ALLOC_FAILED: b"GGML status: error (failed to allocate memory)",
        GGML_STATUS_FAILED: b"GGML status: error (operation failed)",
        GGML_STATUS_SUCCESS: b"GGML status: success",
        GGML_STATUS_ABORTED: b"GGML status: warning (operation aborted)",
    }.get(arg_int32(status, b"status"), b"GGML status: unknown")

# ---- printing and drawing --------------------------------------------------------------------------------------------
cdef str mark(ggml_cgraph *g, const ggml_tensor *t):
    if t.flags & GGML_TENSOR_FLAG_PARAM:
        return "x"
    return "g" if gradient_of(g, g.grads, <ggml_tensor *>t) != NULL else " "

def ggml_graph_print(cgraph):
    """Logs the nodes and leafs of a graph.

    Each gets a line with its number, sizes, operation and name; nodes that are parameters are marked "x", those
    with a gradient "g". The lines go to stderr or to the callback of ggml_log_set, one message each.

    Args:
        cgraph: graph.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        RuntimeError: cgraph, one of its nodes or one of its leafs belongs to no live context.
    """
    enter(b"ggml_graph_print")
    cdef ggml_cgraph *g = arg_sound_graph(cgraph, b"cgraph")
    cdef int i
    cdef ggml_tensor *t
    lines = ["=== GRAPH ===", f"n_nodes = {g.n_nodes}"]
    for i in range(g.n_nodes):
        t = g.nodes[i]
        op = engine.op_name(t.op).decode()
        lines.append(f" - {i:3d}: [ {t.ne[0]:5d}, {t.ne[1]:5d}, {t.ne[2]:5d}] {op:>16s} {mark(g, t)} {name_text(t)}")
    lines.append(f"n_leafs = {g.n_leafs}")
    for i in range(g.n_leafs):
        t = g.leafs[i]
        op = engine.op_name(t.op).decode()
        lines.append(f" - {i:3d}: [ {t.ne[0]:5d}, {t.ne[1]:5d}] {op:>8s} {name_text(t):>16s}")
    lines.append("========================================")
    for line in lines:
        log(_constants.GGML_LOG_LEVEL_INFO, line + "\n")

cdef str quoted(str text):
    """A string of the DOT language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

cdef str colour(ggml_cgraph *g, ggml_cgraph *forward, int i):
    """The colour of node i of g, or of a leaf, which follow the nodes; `forward` may be NULL."""
    cdef ggml_tensor *t = g.nodes[i] if i < g.n_nodes else g.leafs[i - g.n_nodes]
    if t.flags & GGML_TENSOR_FLAG_PARAM:
        return "yellow"
    if i >= g.n_nodes:
        return "pink"
    if forward != NULL and engine.hash_contains(&forward.visited_hash_set, t):
        return "green"
    return "lightblue" if gradient_of(g, g.grads, t) != NULL else "white"

cdef str op_text(const ggml_tensor *t):
    """The operation of a node in pictures: its symbol, with the function's name for unary and GLU operations."""
    cdef const char *name = engine.unary_name(unary_params(t).function)
    if t.op == GGML_OP_UNARY and name != NULL:
        return f"{name.decode().lower()}(x)"
    if t.op == GGML_OP_GLU and glu_params(t).function in GLU_NAMES:
        return f"{GLU_NAMES[glu_params(t).function].decode().lower()}({'x' if t.src[1] == NULL else 'x,y'})"
    return engine.op_symbol(t.op).decode()

def ggml_graph_dump_dot(gb, gf, filename):
    """Writes a graph to a file in Graphviz's DOT language.

    Colours: parameters yellow, leafs pink, nodes of gf green, other nodes with a gradient light blue, the rest
    white.

    Args:
        gb: graph to draw.
        gf: forward graph whose nodes are marked, or None.
        filename: file to write, bytes, str or os.PathLike; an existing file is replaced.
    Returns:
        None.
    Raises:
        TypeError: gb or gf is not a graph pointer, or filename is not a path.
        ValueError: gb is a NULL pointer, filename contains a NUL, or a graph has an invalid field.
        RuntimeError: a graph, or a node or leaf of gb, belongs to no live context.
        OSError: the file cannot be written.
    """
    enter(b"ggml_graph_dump_dot")
    cdef ggml_cgraph *g = arg_sound_graph(gb, b"gb")
    cdef ggml_cgraph *f = NULL if gf is None or not outside(truth_of, gf) else arg_graph(gf, b"gf")
    cdef int i, k
    cdef ggml_tensor *t
    name = os.fsdecode(arg_path(filename, b"filename"))
    lines = ["digraph G {", "  newrank = true;", "  rankdir = TB;"]
    for i in range(g.n_nodes + g.n_leafs):
        t = g.nodes[i] if i < g.n_nodes else g.leafs[i - g.n_nodes]
        shape = ", ".join([str(t.ne[k]) for k in range(4) if k == 0 or t.ne[k] != 1])
        text = f"{name_text(t)} ({gg_types[t.type].name.decode()})\n{i if i < g.n_nodes else i - g.n_nodes} [{shape}]"
        if t.op != GGML_OP_NONE:
            text += "\n" + op_text(t)
        style = f"style=filled, fillcolor={colour(g, f, i)}, shape=box, label={quoted(text)}"
        lines.append(f'  "{<size_t>t:#x}" [{style}];')
        for k in range(GGML_MAX_SRC):
            if t.src[k] != NULL:
                lines.append(f'  "{<size_t>t.src[k]:#x}" -> "{<size_t>t:#x}" [label="src {k}"];')
    lines.append("}")
    paused(save, (name, ("\n".join(lines) + "\n").encode(), function_name()))
