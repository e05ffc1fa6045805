"""Copies of graphs on other backends, and the comparison of two backends by such a copy."""

from libc.stdlib cimport free
from libc.string cimport memcpy

from .._core cimport (
    GGML_MAX_NAME, GGML_MAX_SRC, allocate, arg_context, arg_graph, arg_int32, arg_tensors, engine, enter, fail,
    ggml_cgraph, ggml_context, ggml_tensor, graph_expand, graph_new, node_append, node_like, pointed, repr_short,
    wrap_graph, wrap_tensor,
)
from .._enums cimport GGML_OP_NONE
from .._backend.device cimport Backend, backend_arg, buffer_dead, copy as copy_tensor, place_view
from .._handle cimport HANDLE
from .alloc cimport alloc_context
from .alloc_layout cimport no_chain
from .graph cimport arg_callable, arg_user_data
from .. import _structs
from .._backend.buffer import ggml_backend_buffer_free
from .._core import ggml_free, ggml_init, run_callback

cdef ggml_tensor *tensor_like(ggml_context *ctx, ggml_tensor *t) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_NONE, t.type, t)
    cdef ggml_tensor *made = node_append(ctx, &d)
    memcpy(made.nb, t.nb, sizeof(t.nb))
    return made

# ---- copies ----------------------------------------------------------------------------------------------------------
cdef class Copier:
    """Copies tensors with all that they are computed from, without their data."""
    cdef ggml_context *allocated         # of copies that get memory
    cdef ggml_context *views             # of copies of views
    cdef dict copies                     # address of a tensor: address of its copy
    cdef list pending                    # addresses of tensors whose copies have no operands yet

    cdef ggml_tensor *copy(self, ggml_tensor *t) except NULL:
        """The copy of a tensor, made if there is none yet; its operands are missing until `connect`."""
        cdef ggml_tensor *made
        cdef ggml_tensor view
        known = self.copies.get(<size_t>t)
        if known is not None:
            return <ggml_tensor *><size_t>known
        if not engine.tensor_usable(t):
            fail(RuntimeError, "the graph has a tensor that was freed or written over")
        if t.view_src == NULL:
            made = tensor_like(self.allocated, t)
        else:
            no_chain(t)
            node_like(&view, GGML_OP_NONE, t.type, t)
            memcpy(view.nb, t.nb, sizeof(t.nb))
            view.view_src, view.view_offs = self.copy(t.view_src), t.view_offs
            made = node_append(self.views, &view)
        self.copies[<size_t>t] = <size_t>made
        self.pending.append(<size_t>t)
        made.op, made.flags = t.op, t.flags
        memcpy(made.op_params, t.op_params, sizeof(t.op_params))
        memcpy(made.name, t.name, GGML_MAX_NAME)
        return made

    cdef int connect(self) except -1:
        """Gives the copies their operands, which are copied as well."""
        cdef ggml_tensor *t
        cdef ggml_tensor *made
        cdef int k
        while self.pending:
            t = <ggml_tensor *><size_t>self.pending.pop()
            made = self.copy(t)
            for k in range(GGML_MAX_SRC):
                if t.src[k] != NULL:
                    made.src[k] = self.copy(t.src[k])
        return 0

cdef object new_context():
    return ggml_init(_structs.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))

cdef object copy_to_backend(Backend backend, ggml_cgraph *g):
    """A ggml_backend_graph_copy: the graph with all its tensors and their data on a backend."""
    cdef Copier c = Copier()
    cdef int i
    cdef ggml_cgraph *made
    result = _structs.ggml_backend_graph_copy()
    try:
        result.ctx_allocated = new_context()
        result.ctx_unallocated = new_context()
        c.allocated = arg_context(result.ctx_allocated, b"ggml_backend_graph_copy")
        c.views = arg_context(result.ctx_unallocated, b"ggml_backend_graph_copy")
        c.copies, c.pending = {}, []
        for i in range(g.n_leafs):
            c.copy(g.leafs[i])
        for i in range(g.n_nodes):
            c.copy(g.nodes[i])
        c.connect()
        result.buffer = HANDLE(alloc_context(c.allocated, backend.buft()))
        if result.buffer is None and c.copies:
            fail(MemoryError, "no memory for the copies of the graph's tensors")
        for source, target in c.copies.items():
            copy_data(<ggml_tensor *><size_t>source, <ggml_tensor *><size_t>target)
        made = graph_new(c.allocated, len(c.copies) + 1, False)
        for i in range(g.n_leafs):
            graph_expand(made, c.copy(g.leafs[i]), False)
        for i in range(g.n_nodes):
            graph_expand(made, c.copy(g.nodes[i]), False)
        result.graph = wrap_graph(made)
    except BaseException:
        free_copy(result)
        raise
    return result

cdef int copy_data(ggml_tensor *source, ggml_tensor *target) except -1:
    """Gives a copied tensor its data; of a view, its place in the data of the tensor that it views."""
    if source.view_src != NULL:
        place_view(target)
    elif source.data != NULL and not buffer_dead(source):
        copy_tensor(source, target)
    return 0

cdef object free_copy(object copied):
    """Frees what the fields of a ggml_backend_graph_copy refer to."""
    if copied.buffer:
        ggml_backend_buffer_free(copied.buffer)
    for name in ("ctx_allocated", "ctx_unallocated"):
        if getattr(copied, name):
            ggml_free(getattr(copied, name))
    copied.buffer = copied.ctx_allocated = copied.ctx_unallocated = None
    copied.graph = _structs.ggml_cgraph_p()

def ggml_backend_graph_copy_(backend, graph):
    """Copies a graph with all its tensors and their data into the memory of a backend.

    Calling the struct type ggml_backend_graph_copy(backend, graph) does the same. Tensors without data are copied
    without values. Exceptions name the function without the underscore.

    Args:
        backend: handle of the backend that the copy is for.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        ggml_backend_graph_copy with the fields graph, buffer, and two contexts that hold the tensors
        (ctx_allocated) and the views (ctx_unallocated). Free it with ggml_backend_graph_copy_free.
    Raises:
        TypeError: backend is not a backend, or graph is not a graph.
        ValueError: a tensor is a view of a view.
        RuntimeError: the backend, or a tensor or its memory, was freed.
        MemoryError: there is no memory for the copies.
    """
    enter(b"ggml_backend_graph_copy")
    cdef Backend b = backend_arg(backend, "backend")
    return copy_to_backend(b, arg_graph(graph, b"graph"))

_structs.ggml_backend_graph_copy._copy = staticmethod(ggml_backend_graph_copy_)

def ggml_backend_graph_copy_free(copy):
    """Frees the buffer and the contexts of a copied graph.

    All fields of the struct become None or NULL, so that a second call does nothing.

    Args:
        copy: ggml_backend_graph_copy, byref of one or a pointer to it.
    Returns:
        None.
    Raises:
        TypeError: copy is no such struct, or a field that the caller wrote is of the wrong kind.
        RuntimeError: the buffer or a context was freed already.
    """
    enter(b"ggml_backend_graph_copy_free")
    copied = pointed(copy, _structs.ggml_backend_graph_copy)
    if copied is None:
        fail(TypeError, f"copy is {repr_short(copy)}: need a ggml_backend_graph_copy")
    try:
        free_copy(copied)
    except (TypeError, RuntimeError) as error:           # fields that a caller wrote
        enter(b"ggml_backend_graph_copy_free")
        fail(type(error), "copy." + str(error).partition(": ")[2])

# ---- comparison of two backends --------------------------------------------------------------------------------------
cdef set addresses(object nodes, int n):
    """The addresses of the n tensors in an array that a caller gives."""
    cdef ggml_tensor **found = <ggml_tensor **>allocate(<size_t>max(n, 0), sizeof(void *))
    cdef int i
    try:
        arg_tensors(nodes, n, b"test_nodes", found)
        return {<size_t>found[i] for i in range(n)}
    finally:
        free(found)

def ggml_backend_compare_graph_backend(backend1, backend2, graph, callback, user_data, test_nodes=None,
                                       num_test_nodes=0):
    """Computes a graph on two backends and shows a callback the results of both.

    The graph is copied for backend2 first. Without test_nodes, the nodes are computed one after the other, and the
    callback sees each before the next is computed; with test_nodes, both graphs are computed as a whole first.

    Args:
        backend1: handle of a backend that can use the graph's memory.
        backend2: handle of the backend to compare with.
        graph: the graph (ggml_cgraph pointer), allocated.
        callback: callback(index, a, b, user_data) -> bool, with the node's index and its tensors on backend1 and
            backend2: a Python callable, a ggml_backend_eval_callback or the address of a C function. False ends the
            comparison.
        user_data: value for the callback: None, an int or an address; of other objects, the address is taken.
        test_nodes: array of num_test_nodes nodes of the graph to show; None (the default) shows all except
            reshape, view, permute and transpose nodes.
        num_test_nodes: number of entries in test_nodes; 0 (the default) means that there is no such array.
    Returns:
        True, also if the callback ended the comparison.
    Raises:
        TypeError: callback is None, no function or one of another signature, or another argument is of the wrong
            kind.
        ValueError: a node does not fit its operands, a tensor has no data, num_test_nodes is negative, or test_nodes
            has fewer entries.
        RuntimeError: something was freed, a backend failed, or the callback changed the graph.
        MemoryError: there is no memory for the copy of the graph.
    """
    enter(b"ggml_backend_compare_graph_backend")
    cdef Backend a = backend_arg(backend1, "backend1"), b = backend_arg(backend2, "backend2")
    cdef ggml_cgraph *g = arg_graph(graph, b"graph")
    cdef int n = arg_int32(num_test_nodes, b"num_test_nodes")
    if n < 0:
        fail(ValueError, f"num_test_nodes is {n}: need 0 or more")
    show = arg_callable(callback, _structs.ggml_backend_eval_callback)
    if show is None:
        fail(TypeError, "callback is None: need a ggml_backend_eval_callback")
    data = arg_user_data(user_data)
    wanted = addresses(test_nodes, n) if n else None
    copied = copy_to_backend(b, g)
    try:
        compare(a, b, graph, copied, show, data, wanted)
    finally:
        free_copy(copied)
    return True

cdef int compare(Backend a, Backend b, object graph, object copied, object show, object data, object wanted) except -1:
    """Computes a graph on backend a and its copy on b; shows the results of `wanted` nodes (addresses; None: all)."""
    cdef ggml_cgraph *g = arg_graph(graph, b"graph")
    cdef ggml_cgraph *h = arg_graph(copied.graph, b"graph")
    cdef ggml_context *ctx = arg_context(copied.ctx_unallocated, b"ggml_backend_compare_graph_backend")
    cdef ggml_cgraph *one_g = graph_new(ctx, 1, False)   # the node that is computed next
    cdef ggml_cgraph *one_h = graph_new(ctx, 1, False)
    cdef int i, n = g.n_nodes
    if wanted is not None:
        compute_all(a, g)
        compute_all(b, h)
    for i in range(n):
        if wanted is None:
            one_g.nodes[0], one_g.n_nodes = g.nodes[i], 1
            one_h.nodes[0], one_h.n_nodes = h.nodes[i], 1
            compute_all(a, one_g)
            compute_all(b, one_h)
        if engine.op_computes(g.nodes[i].op) if wanted is None else <size_t>g.nodes[i] in wanted:
            if not run_callback(show, (i, wrap_tensor(g.nodes[i]), wrap_tensor(h.nodes[i]), data)):
                return 0
            if arg_graph(graph, b"graph").n_nodes != n:
                fail(RuntimeError, "the callback changed the graph")
    return 0

cdef int compute_all(Backend b, ggml_cgraph *g) except -1:
    cdef int status = b.compute(g)
    b.synchronize()
    if status:
        fail(RuntimeError, f"{b.name().decode()} failed with status {status}")
    return 0
