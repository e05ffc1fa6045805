"""The splits of a graph: ranges of consecutive nodes that one backend computes.

Operands that a split's backend cannot read where they lie are copied. While a graph is computed, the nodes refer to the
copies; after each call they refer to their own operands again.
"""
from libc.stdlib cimport free
from libc.string cimport memcpy

from .._core cimport (
    GGML_MAX_SRC, GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_OUTPUT, allocate, context_free, context_new, engine,
    ggml_cgraph, ggml_tensor, graph_new, name_text, set_name,
)
from .._enums cimport GGML_OP_CPY, GGML_OP_NONE
from .._backend.device cimport Backend
from .alloc cimport Galloc
from .alloc_layout cimport analyse, pack
from .graph_copy cimport tensor_like
from .sched_assign cimport Assignment, Slot, can_use, next_computed, node_slot, operands

cdef class Input:
    """A tensor that is copied from one backend to another."""

cdef class Split:
    """Consecutive nodes that one backend computes."""

    def __init__(self, int backend, int begin):
        self.backend, self.begin, self.inputs, self.sources = backend, begin, [], set()

cdef class Splits:
    """The splits of a graph."""

    cdef int clear(self) except -1:
        """Restores the operands of the graph's nodes, and removes splits and copies."""
        self.redirect(False)
        self.splits, self.redirects, self.inputs, self.window = [], [], {}, NULL
        if self.arena != NULL:
            context_free(self.arena)
            self.arena = NULL
        return 0

    cdef int build(self, ggml_cgraph *g) except -1:
        """Cuts an assigned graph where the backend changes, and makes copies of operands. Call `clear` first."""
        cdef Assignment a = self.assignment
        cdef int i, k, backend, slot
        cdef Split s = None
        self.arena = context_new()
        if g.n_nodes:
            k = next_computed(g, 0)
            backend = a.slots[node_slot(a, k)].backend if k < g.n_nodes else len(a.backends) - 1
            s = self.new_split(backend, 0)
        for i in range(g.n_nodes):
            if engine.op_computes(g.nodes[i].op):
                slot = node_slot(a, i)
                backend = a.slots[slot].backend
                if s.backend != backend:
                    s = self.new_split(backend, i)
                for k in range(GGML_MAX_SRC):
                    if operands(a, i)[k] >= 0:
                        self.add_operand(s, i, k)
                a.slots[a.slots[slot].root].writes += 1      # earlier copies of this memory are stale
            s.end = i + 1
        for s in self.splits:
            s.graph = graph_new(self.arena, s.end - s.begin, False)
            s.graph.n_nodes = s.end - s.begin
        return self.set_nodes(g)

    cdef Split new_split(self, int backend, int begin):
        cdef Split s = Split(backend, begin)
        self.splits.append(s)
        return s

    cdef int add_operand(self, Split s, int node, int k) except -1:
        """Makes operand k of a node readable for the split's backend, by a copy if necessary."""
        cdef Assignment a = self.assignment
        cdef int slot = operands(a, node)[k], buft = a.slots[slot].buft
        cdef Slot *root = &a.slots[a.slots[slot].root]
        cdef int backend = root.backend if root.backend >= 0 else s.backend
        if buft < 0 and backend == s.backend:
            return 0
        if can_use(a, s.backend, buft if buft >= 0 else a.type_number(self.bufts[backend])):
            if backend != s.backend:
                s.sources.add(backend)
            return 0
        key = (slot, s.backend, root.writes)
        found = self.inputs.get(key)
        if found is None:
            found = self.inputs[key] = self.copied_input(s, slot, backend)
            s.inputs.append(found)
        self.redirects.append((node_slot(a, node), k, found))
        return 0

    cdef Input copied_input(self, Split s, int slot, int backend):
        cdef Input made = Input()
        cdef ggml_tensor *t
        cdef ggml_tensor *source = self.assignment.index.tensors[slot]
        cdef bytes target = (<Backend>self.assignment.backends[s.backend]).name()
        cdef int c
        made.slot, made.backend, made.copies = slot, backend, []
        for c in range(self.n_copies):
            t = tensor_like(self.arena, source)
            name = b"%s#%s#%d" % (target, name_text(source).encode(), c)
            set_name(t, name, b"")
            if self.n_copies > 1:                        # several graphs may be computed simultaneously
                t.flags = GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT
            made.copies.append(<size_t>t)
        return made

    cdef int set_nodes(self, ggml_cgraph *g) except -1:
        """Enters the nodes of a graph, which may be another one with the same splits, in the splits' graphs."""
        cdef Split s
        for s in self.splits:
            if s.graph.n_nodes > 0:
                memcpy(s.graph.nodes, g.nodes + s.begin, <size_t>s.graph.n_nodes * sizeof(void *))
        return 0

    cdef int redirect(self, bint on) except -1:
        """Lets the nodes read the current copies, or (not `on`) their own operands again."""
        cdef Input x
        cdef ggml_tensor *t
        if on == self.redirected:
            return 0
        for node, k, x in self.redirects:
            t = self.assignment.index.tensors[<int>node]
            if engine.tensor_live(t):
                t.src[<int>k] = copy_of(x, self.current_copy) if on else self.assignment.index.tensors[x.slot]
        self.redirected = on
        return 0

cdef inline ggml_tensor *copy_of(Input x, int c):
    return <ggml_tensor *><size_t>x.copies[c]

cdef Splits new_splits(Assignment assignment, list bufts, int n_copies):
    cdef Splits s = Splits()
    s.assignment, s.bufts, s.n_copies = assignment, bufts, n_copies
    s.splits, s.redirects, s.inputs = [], [], {}
    return s

# ---- memory ----------------------------------------------------------------------------------------------------------
cdef list plan_memory(Splits s, ggml_cgraph *g, Galloc galloc, bint size_only):
    cdef Assignment a = s.assignment
    cdef ggml_cgraph all = g[0]
    cdef int i, n = g.n_nodes + s.n_copies * len(s.inputs)
    cdef int *ids = NULL
    all.nodes = NULL
    try:
        ids = <int *>allocate(<size_t>(n + g.n_leafs + 1), sizeof(int))
        all.nodes = <ggml_tensor **>allocate(<size_t>(n + 1), sizeof(void *))
        all.n_nodes = list_nodes(s, g, all.nodes, ids)
        for i in range(g.n_leafs):
            ids[all.n_nodes + i] = max(a.slots[a.refs[i]].backend, 0)
        s.redirect(True)
        if size_only:
            return pack(analyse(galloc.pool, &all, ids, ids + all.n_nodes), galloc.pool)
        return galloc.plan(&all, ids, ids + all.n_nodes)
    finally:
        free(all.nodes)
        free(ids)
        s.redirect(False)
        restore_copies(s)

cdef int list_nodes(Splits s, ggml_cgraph *g, ggml_tensor **nodes, int *ids) except -1:
    """Lists the graph's nodes, and before each split its copies, as nodes that read the originals; with their backends.

    Returns their number.
    """
    cdef Assignment a = s.assignment
    cdef Split split
    cdef Input x
    cdef ggml_tensor *t
    cdef int i, c, n = 0
    for split in s.splits:
        for x in split.inputs:
            for c in range(s.n_copies):
                t = copy_of(x, c)
                t.op, t.src[0] = GGML_OP_CPY, a.index.tensors[x.slot]
                nodes[n], ids[n] = t, split.backend
                n += 1
        for i in range(split.begin, split.end):
            nodes[n], ids[n] = g.nodes[i], a.slots[node_slot(a, i)].backend
            n += 1
    return n

cdef int restore_copies(Splits s) except -1:
    """Makes the copies leafs again."""
    cdef Input x
    cdef ggml_tensor *t
    cdef int c
    for x in s.inputs.values():
        for c in range(s.n_copies):
            t = copy_of(x, c)
            t.op, t.src[0] = GGML_OP_NONE, NULL
    return 0
