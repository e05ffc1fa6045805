"""Which backend of a scheduler computes each node of a graph.

The passes, in their order:

1. `required_backend`: tensors that the user has assigned, that lie in a buffer already, that are inputs, or that read
   weights.
2. `expand`: nodes without a backend follow their neighbours, first only those on backends other than the last, which
   takes what remains.
3. `most_operands`: a node that is still without a backend goes to the one that can read most of its operands.
4. `assign_in_place`: nodes that write into the memory of another tensor are computed where that is.
5. `assign_rest`: leafs and views go where they are used first.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free

from .._core cimport GGML_MAX_SRC, GGML_TENSOR_FLAG_INPUT, engine, fail, ggml_cgraph, ggml_tensor, name_text, resized
from .._backend.device cimport Backend, Buffer, BufferType, buffer_dead, buffer_of_tensor, cpu_buft
from .alloc_layout cimport REFS_PER_NODE, BufferPool, Index, n_references, no_chain, number_of
from .graph cimport op_and_name

cdef enum:
    WEIGHTS = 1                # GGML_BACKEND_BUFFER_USAGE_WEIGHTS

# ---- the tensors of a graph ------------------------------------------------------------------------------------------
cdef class Assignment:
    """The tensors of a graph, each with a slot: the memory that it lies in, and the backend that computes it."""

    def __dealloc__(self):
        free(self.slots)
        free(self.refs)

    cdef int type_number(self, BufferType buft) except -1:
        """The number of a buffer type."""
        cdef int n = len(self.types), i
        for i in range(n):
            if self.types[i] is buft:
                return i
        if n == MAX_TYPES:
            fail(ValueError, f"the graph's tensors lie in buffers of more than {MAX_TYPES} types")
        self.usable_by[n] = 0
        for i in range(len(self.backends)):
            if (<Backend>self.backends[i]).supports_buft(buft):
                self.usable_by[n] |= <uint64_t>1 << i
        self.types.append(buft)
        return n

    cdef int slot_of(self, ggml_tensor *t) except -1:
        """The slot of a tensor, which is made if the tensor is new."""
        cdef int i = number_of(self.index, t), root
        cdef Slot *s
        if i >= 0:
            return i
        if not engine.tensor_usable(t):
            fail(RuntimeError, "the graph has a tensor that was freed or written over")
        root = self.index.n
        if t.view_src != NULL:
            no_chain(t)
            root = self.slot_of(t.view_src)
        i = self.index.add(t)
        if self.capacity < self.index.capacity:
            self.slots = <Slot *>resized(self.slots, self.index.capacity, sizeof(Slot))
            self.capacity = self.index.capacity
        s = &self.slots[i]
        s.root, s.backend, s.writes, s.queried, s.supported = root, -1, 0, 0, 0
        if root == i:
            self.find_memory(t, s)
        else:
            s.buft, s.weights = self.slots[root].buft, self.slots[root].weights
        return i

    cdef int find_memory(self, ggml_tensor *t, Slot *s) except -1:
        """Finds the type of the buffer that a tensor already lies in, if it does."""
        cdef Buffer b
        s.buft, s.weights = -1, False
        if t.data == NULL or buffer_dead(t) or (t.buffer != NULL and self.pool.owns(t)):
            return 0
        b = buffer_of_tensor(t)
        if b is None:
            s.buft = self.type_number(cpu_buft)
            return 0
        if b is not self.last_buffer:
            self.last_buffer, self.last_type = b, self.type_number(b.buft)
        s.buft, s.weights = self.last_type, b.usage == WEIGHTS
        return 0

    cdef int read_graph(self, ggml_cgraph *g) except -1:
        """Gives the tensors of a graph their slots; the index must be empty."""
        cdef int i, k
        cdef size_t n = n_references(g)
        cdef int *refs
        cdef ggml_tensor *t
        if self.refs_capacity < n:
            self.refs = <int *>resized(self.refs, n, sizeof(int))
            self.refs_capacity = n
        self.types, self.last_buffer = [], None
        self.node_refs = self.refs + g.n_leafs
        for i in range(g.n_leafs):
            self.refs[i] = self.slot_of(g.leafs[i])
        for i in range(g.n_nodes):
            t = g.nodes[i]
            refs = operands(self, i)
            refs[GGML_MAX_SRC] = self.slot_of(t)
            for k in range(GGML_MAX_SRC):
                refs[k] = self.slot_of(t.src[k]) if t.src[k] != NULL else -1
        return 0

    cdef bint supports(self, int backend, int slot) except -1:
        """Whether a backend can compute a node; each backend is asked once."""
        cdef uint64_t bit = <uint64_t>1 << backend
        cdef bint supported
        if not self.slots[slot].queried & bit:
            supported = (<Backend>self.backends[backend]).supports_op(self.index.tensors[slot])
            self.slots[slot].queried |= bit
            if supported:
                self.slots[slot].supported |= bit
        return (self.slots[slot].supported & bit) != 0

cdef Assignment new_assignment(list backends, BufferPool pool, bint offload):
    cdef Assignment a = Assignment()
    a.backends, a.pool, a.offload = backends, pool, offload
    a.by_user, a.types, a.index = {}, [], Index(128)
    return a

# ---- the passes ------------------------------------------------------------------------------------------------------
cdef int assign(Assignment a, ggml_cgraph *g) except -1:
    cdef int i, slot
    cdef bint several = len(a.backends) > 1
    cdef dict writers = {}                               # slot of a tensor: slots of the nodes computed in its memory
    for i in range(g.n_leafs):
        a.slots[a.refs[i]].backend = required_backend(a, a.refs[i], NULL)
    for i in range(g.n_nodes):
        slot = node_slot(a, i)
        a.slots[slot].backend = required_backend(a, slot, operands(a, i))
    if several:
        expand(a, g, False, False)
        expand(a, g, True, False)
        expand(a, g, False, True)
        expand(a, g, True, True)
    for i in range(g.n_nodes):
        slot = node_slot(a, i)
        if not engine.op_computes(g.nodes[i].op):
            continue
        if a.slots[slot].backend < 0:
            a.slots[slot].backend = most_operands(a, i)
        if a.slots[slot].root != slot and several:
            writers.setdefault(a.slots[slot].root, []).append(slot)
    for root, nodes in writers.items():
        assign_in_place(a, root, nodes)
    assign_rest(a, g)
    return 0

cdef int first_backend_for(Assignment a, int buft, int slot) except -9:
    """The first backend that can use a type of buffer and compute a node; -1: none."""
    cdef int i
    for i in range(len(a.backends)):
        if can_use(a, i, buft) and (not engine.op_computes(a.index.tensors[slot].op) or a.supports(i, slot)):
            return i
    return -1

cdef int required_backend(Assignment a, int slot, const int *ops) except -9:
    """The backend that follows from the user's assignment or from the place of a tensor or its weights; -1: none does.

    `ops`: the slots of its operands; NULL: none.
    """
    cdef ggml_tensor *t = a.index.tensors[slot]
    cdef int i, k, j, buft = a.slots[slot].buft, last = len(a.backends) - 1
    if a.by_user and <size_t>t in a.by_user:
        return a.by_user[<size_t>t]
    if not engine.op_computes(t.op) and t.view_src != NULL:
        return -1
    if buft >= 0:
        i = first_backend_for(a, buft, slot)
        if i < 0 and engine.op_computes(t.op):
            fail(RuntimeError, f"no backend can compute {op_and_name(t)} in the buffer that it lies in")
        return i
    if t.flags & GGML_TENSOR_FLAG_INPUT:
        return last
    for k in range(GGML_MAX_SRC):
        if ops == NULL or ops[k] < 0 or not a.slots[ops[k]].weights:
            continue
        buft = a.slots[ops[k]].buft
        i = first_backend_for(a, buft, slot)
        if a.offload and i == last and last and (<BufferType>a.types[buft]).is_host():
            for j in range(last):
                if a.supports(j, slot) and (<Backend>a.backends[j]).offload_op(t):
                    return j
        if i >= 0:
            return i
    return -1

cdef int expand(Assignment a, ggml_cgraph *g, bint up, bint all) except -1:
    """Gives nodes without a backend that of the node before them (`up`: after them), if it supports them.

    `all`: nodes on the last backend count too.
    """
    cdef int i, n = g.n_nodes, current = -1, slot, last = len(a.backends) - 1
    for i in range(n):
        slot = node_slot(a, n - 1 - i if up else i)
        if not engine.op_computes(a.index.tensors[slot].op):
            continue
        if a.slots[slot].backend >= 0:
            current = a.slots[slot].backend if all or a.slots[slot].backend != last else -1
        elif current >= 0 and a.supports(current, slot):
            a.slots[slot].backend = current
    return 0

cdef int most_operands(Assignment a, int node) except -1:
    """The backend that can compute a node and read most of its operands where they lie."""
    cdef int i, k, n, most = -1, best = -1
    cdef Slot *s
    cdef const int *ops = operands(a, node)
    cdef int slot = ops[GGML_MAX_SRC]
    for i in range(len(a.backends)):
        if not a.supports(i, slot):
            continue
        n = 0
        for k in range(GGML_MAX_SRC):
            if ops[k] >= 0:
                s = &a.slots[ops[k]]
                n += s.backend == i or (s.buft >= 0 and can_use(a, i, s.buft))
        if n > most:
            most, best = n, i
    if best < 0:
        fail(RuntimeError, f"no backend can compute {op_and_name(a.index.tensors[slot])}")
    return best

cdef int assign_in_place(Assignment a, int root, list writers) except -1:
    """Assigns all nodes that are computed in the memory of a tensor to one backend: the tensor's own, if possible."""
    cdef Slot *s = &a.slots[root]
    cdef list wanted = [s.backend] + [a.slots[<int>w].backend for w in writers] + list(range(len(a.backends)))
    cdef list members = list(writers)
    cdef int backend
    if s.buft < 0 and engine.op_computes(a.index.tensors[root].op):
        members.append(root)
    for backend in wanted:
        if backend < 0 or (s.buft >= 0 and not can_use(a, backend, s.buft)):
            continue
        if all([a.supports(backend, m) for m in members]):
            for m in members:
                a.slots[<int>m].backend = backend
            if s.buft < 0:
                s.backend = backend
            return 0
    fail(RuntimeError, f"no backend can compute {op_and_name(a.index.tensors[<int>writers[0]])} where "
                       f"'{name_text(a.index.tensors[root])}' lies, which it overwrites")

cdef int assign_rest(Assignment a, ggml_cgraph *g) except -1:
    """Assigns leafs and views: to the backend of the next node that is computed."""
    cdef int i, k, slot, next = 0, backend
    cdef Slot *root
    for i in range(g.n_nodes):
        if next <= i:
            next = next_computed(g, i)
        backend = a.slots[node_slot(a, next)].backend if next < g.n_nodes else len(a.backends) - 1
        for k in range(REFS_PER_NODE):
            slot = operands(a, i)[k]
            if slot < 0 or a.slots[slot].backend >= 0:
                continue
            root = &a.slots[a.slots[slot].root]
            if root.backend < 0:
                root.backend = backend
            a.slots[slot].backend = root.backend
    return 0

cdef int next_computed(ggml_cgraph *g, int i) noexcept:
    while i < g.n_nodes and not engine.op_computes(g.nodes[i].op):
        i += 1
    return i
