"""A graph as an allocator left it, to recognise a later graph that needs no new plan."""
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from .._core cimport GGML_MAX_SRC, engine, ggml_cgraph, ggml_tensor, resized
from .._enums cimport GGML_OP_NONE
from .._backend.device cimport Buffer, live
from .alloc_layout cimport REFS_PER_NODE, BufferPool, Index, n_references, number_of

cdef enum:
    SEEN = 64                  # entries of the cache of buffers that `take` has looked up

cdef class Record:
    """A graph with its tensors as an allocator left them."""

    def __dealloc__(self):
        free(self.heads)
        free(self.own)
        free(self.roots)
        free(self.refs)

    cdef int reserve(self, int n_tensors, size_t n_refs) except -1:
        if self.capacity < n_tensors:
            self.heads = <Head *>resized(self.heads, n_tensors, sizeof(Head))
            self.own = <char *>resized(self.own, n_tensors, sizeof(char))
            self.roots = <int *>resized(self.roots, n_tensors, sizeof(int))
            self.capacity = n_tensors
        if self.refs_capacity < n_refs:
            self.refs = <int *>resized(self.refs, n_refs, sizeof(int))
            self.refs_capacity = n_refs
        return 0

    cdef int take(self, ggml_cgraph *g, Index index, const int *refs, BufferPool pool) except -1:
        """Records a graph whose tensors have the numbers of `index`; `refs` is its reference list."""
        cdef size_t k
        cdef int e
        cdef ggml_tensor *t
        cdef void *seen[SEEN]
        self.forget()
        self.reserve(index.capacity, n_references(g))
        if n_references(g) > 0:  # otherwise there may be no arrays: memcpy takes no NULL
            memcpy(self.refs, refs, n_references(g) * sizeof(int))
        memset(seen, 0, sizeof(seen))
        self.usages = {}
        for e in range(index.n):
            t = index.tensors[e]
            memcpy(&self.heads[e], t, sizeof(Head))
            self.own[e] = pool.owns(t)
            self.roots[e] = number_of(index, t.view_src) if t.view_src != NULL else -1
            k = (<size_t>t.buffer >> 4) % SEEN
            if seen[k] != t.buffer:
                seen[k] = t.buffer
                buffer = live.get(<size_t>t.buffer)
                if not isinstance(buffer, Buffer):
                    return 0
                self.usages[buffer] = (<Buffer>buffer).usage
        self.n_leafs, self.n_nodes, self.index, self.epoch = g.n_leafs, g.n_nodes, index, engine.region_epoch()
        return 0

    cdef int forget(self) noexcept:
        self.index = None
        return 0

    cdef bint same_size(self, ggml_cgraph *g) noexcept:
        return self.index is not None and g.n_leafs == self.n_leafs and g.n_nodes == self.n_nodes

    cdef bint buffers_live(self) except -1:
        cdef Buffer b
        for b, usage in self.usages.items():
            if live.get(<size_t>b.at) is not b or b.usage != usage:
                return False
        return True

    cdef bint holds(self, ggml_cgraph *g) except -1:
        """Whether it is the recorded graph itself, without a change in its tensors since."""
        return self.same_size(g) and unchanged(self, g) and self.buffers_live()

    cdef int match(self, ggml_cgraph *g, BufferPool pool) except -1:
        """Whether the plan suits a graph: SAME; MOVED if some tensors have to be placed again; or DIFFERS.

        Unless it is DIFFERS, `spare` has the tensors of this graph afterwards.
        """
        cdef int answer
        if not self.same_size(g) or not self.buffers_live():
            return DIFFERS
        if self.spare is None or self.spare.capacity < self.index.n:
            self.spare = Index(self.index.capacity)
        memset(self.spare.tensors, 0, <size_t>self.index.n * sizeof(void *))
        answer = compare_graph(self, g, pool)
        if answer != DIFFERS and not self.same_tensors() and not self.spare.renumber(self.index.n):
            return DIFFERS
        return answer

    cdef bint same_tensors(self) noexcept:
        """Whether the graph that `match` has compared has the recorded tensors, maybe with other fields."""
        return memcmp(self.spare.tensors, self.index.tensors, <size_t>self.index.n * sizeof(void *)) == 0

    cdef int exchange(self) noexcept:
        """Makes the graph that `match` has compared the recorded one. The recorded fields stay those of the old one."""
        if not self.same_tensors():
            self.index, self.spare = self.spare, self.index
        return 0

    cdef bint refresh(self) noexcept:
        """Records the fields anew if `match` has found the recorded tensors; False: they are others."""
        cdef int e
        if not self.same_tensors():
            return False
        for e in range(self.index.n):
            memcpy(&self.heads[e], self.index.tensors[e], sizeof(Head))
        self.epoch = engine.region_epoch()
        return True

    cdef Record copy(self):
        """A record of the graph that `match` has found to be the SAME, with other tensors than the recorded ones."""
        cdef Record r = Record()
        cdef size_t n = self.index.n, n_refs = self.n_leafs + <size_t>self.n_nodes * REFS_PER_NODE
        cdef size_t e
        r.reserve(n, n_refs)
        if n_refs > 0:
            memcpy(r.refs, self.refs, n_refs * sizeof(int))
        if n > 0:
            memcpy(r.own, self.own, n * sizeof(char))
            memcpy(r.roots, self.roots, n * sizeof(int))
        for e in range(n):
            memcpy(&r.heads[e], self.spare.tensors[e], sizeof(Head))
        r.index, self.spare, r.usages = self.spare, None, self.usages
        r.n_leafs, r.n_nodes, r.epoch = self.n_leafs, self.n_nodes, engine.region_epoch()
        return r

    cdef int compare(self, ggml_cgraph *g, BufferPool pool) except -1:
        """The answer of `match`. Unless it is DIFFERS, `index` has the tensors of this graph afterwards."""
        cdef int answer
        if self.holds(g):
            return SAME
        answer = self.match(g, pool)
        if answer != DIFFERS:
            self.exchange()
        return answer

cdef bint unchanged(Record r, ggml_cgraph *g) noexcept:
    """Whether it is the recorded graph itself, and no field of its tensors has changed."""
    cdef int i
    cdef ggml_tensor **recorded = r.index.tensors
    cdef const int *refs = r.refs + g.n_leafs
    for i in range(g.n_leafs):
        if recorded[r.refs[i]] != g.leafs[i]:
            return False
    for i in range(g.n_nodes):
        if recorded[refs[i * <size_t>REFS_PER_NODE + GGML_MAX_SRC]] != g.nodes[i]:
            return False
    if r.epoch != engine.region_epoch():                 # otherwise no memory of a context was freed or reset since
        for i in range(r.index.n):
            if not engine.tensor_live(recorded[i]):
                return False
        r.epoch = engine.region_epoch()
    for i in range(r.index.n):
        if memcmp(recorded[i], &r.heads[i], sizeof(Head)):
            return False
    return True

cdef int compare_graph(Record r, ggml_cgraph *g, BufferPool pool) except -1:
    """Compares a graph with the recorded one, and enters its tensors in `spare`."""
    cdef int i, k, answer = SAME
    cdef size_t differ
    cdef ggml_tensor **met = r.spare.tensors             # the graph's tensors by number, NULL until they are met
    cdef ggml_tensor *t
    cdef const int *refs = r.refs
    for i in range(g.n_leafs):
        if g.leafs[i] == NULL or met[refs[i]] != g.leafs[i]:
            answer = min(answer, compare_tensor(r, g.leafs[i], refs[i], pool))
    refs += g.n_leafs
    for i in range(g.n_nodes):
        t = g.nodes[i]
        if t == NULL or met[refs[GGML_MAX_SRC]] != t:
            answer = min(answer, compare_tensor(r, t, refs[GGML_MAX_SRC], pool))
        if answer == DIFFERS:
            return DIFFERS
        differ = 0
        for k in range(GGML_MAX_SRC):
            differ |= <size_t>met[refs[k]] ^ <size_t>t.src[k]
        if differ:                                       # operands that are in neither list of the graph are met here
            answer = min(answer, compare_operands(r, t, refs, pool))
        refs += REFS_PER_NODE
    return answer

cdef int compare_operands(Record r, ggml_tensor *t, const int *refs, BufferPool pool) except -1:
    cdef int k, answer = SAME
    for k in range(GGML_MAX_SRC):
        if r.spare.tensors[refs[k]] == t.src[k]:
            continue
        if refs[k] < 0 or t.src[k] == NULL:
            return DIFFERS
        answer = min(answer, compare_tensor(r, t.src[k], refs[k], pool))
    return answer

cdef int compare_tensor(Record r, ggml_tensor *t, int e, BufferPool pool) except -1:
    """Compares a tensor that was not met before with recorded tensor e, and enters it under this number."""
    cdef const ggml_tensor *recorded = <ggml_tensor *>&r.heads[e]
    cdef int answer = SAME
    if (r.spare.tensors[e] != NULL or not engine.tensor_live(t) or t.type != recorded.type
            or memcmp(&t.ne, &recorded.ne, <size_t>&recorded.op_params - <size_t>&recorded.ne)     # ne, nb and op
            or t.flags != recorded.flags or (t.view_offs != recorded.view_offs and r.own[e])):
        return DIFFERS
    r.spare.tensors[e] = t
    if t.data != recorded.data or t.buffer != recorded.buffer:
        if t.data == NULL:
            answer = MOVED if r.own[e] or t.view_src != NULL else DIFFERS
        elif r.own[e]:
            answer = MOVED if t.op != GGML_OP_NONE and pool.owns(t) else DIFFERS
        elif t.buffer != recorded.buffer:
            answer = DIFFERS
    if r.spare.tensors[r.roots[e]] != t.view_src:
        if r.roots[e] < 0 or t.view_src == NULL:
            return DIFFERS
        answer = min(answer, compare_tensor(r, t.view_src, r.roots[e], pool))
    return answer
