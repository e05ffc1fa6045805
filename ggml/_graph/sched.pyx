"""The scheduler: a graph computed by several backends; and copies of graphs on other backends."""
import ctypes

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from .._core cimport (
    GGML_MAX_NAME, GGML_MAX_SRC, GGML_STATUS_SUCCESS, GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_OUTPUT, arg_address,
    arg_bool, arg_buffer, arg_callback, arg_context, arg_graph, arg_int32, arg_size, arg_tensor, arg_tensors,
    context_free, context_new, engine, enter, fail, gg_pins, gg_region, ggml_cgraph, ggml_context, ggml_tensor,
    graph_expand, graph_new, hold, name_text, node_append, node_init, release, set_name, where, wrap_graph, wrap_tensor,
)
from .._enums cimport GGML_OP_CPY
from .alloc cimport DIFFERS, SAME, Galloc, Index, Record, alloc_context, new_galloc, no_chain, number
from .._backend.device cimport (
    HANDLE, Backend, Buffer, BufferType, CpuBackend, Event, Handle, backend_arg, buffer_dead, buffer_of_tensor, copy, cpu_buft, find, handles, live,
    place_view,
)
from .. import _structs
from .._core import as_callback, ggml_free, ggml_init, unpark
from .._backend.backend import ggml_backend_buffer_free
from .._backend.device import _open, _title

cdef enum:
    MAX_COPIES = 4, MAX_KINDS = 64, WEIGHTS = 1
    WIDTH = GGML_MAX_SRC + 1

cdef object new_context():
    return ggml_init(_structs.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))

cdef ggml_tensor *twin(ggml_context *ctx, ggml_tensor *t) except NULL:
    """A tensor without an operation that is laid out as another."""
    cdef ggml_tensor d
    node_init(&d, 0, t.type, t.ne[0], t.ne[1], t.ne[2], t.ne[3])
    cdef ggml_tensor *made = node_append(ctx, &d)
    memcpy(made.nb, t.nb, sizeof(t.nb))
    return made

cdef class Split:
    """A run of nodes for one backend, and what has to be copied to it before."""
    cdef int backend
    cdef int begin, end        # of the graph's nodes
    cdef list inputs           # (seat of the source, addresses of its copies, the backend that it is on)
    cdef set waits             # other backends whose results it reads where they are
    cdef ggml_cgraph *graph

    def __init__(self, int backend, int begin):
        self.backend, self.begin, self.inputs, self.waits = backend, begin, [], set()

ctypedef struct Seat:          # what is known of a tensor of the graph
    int root                   # seat of the tensor that it is a view of; its own: of none
    int where                  # the backend that computes it; -1: open
    int kind                   # number of the type of buffer that it lies in already; -1: the scheduler is to place it
    int writes                 # how often it was overwritten so far
    bint weights
    uint64_t asked, able       # backends that were asked whether they can compute it; those that can

cdef class Sched(Handle):
    cdef list backends, bufts, splits, events
    cdef Galloc galloc
    cdef int n_copies, now, n_splits
    cdef bint offload, bound
    cdef bint steady           # the backends' answers depend on the graph alone
    cdef bint assigned         # the index has the last graph
    cdef Record record         # of the last graph that was allocated
    cdef bint busy             # with a graph: callbacks and other threads have to wait
    cdef gg_pins pins          # the memory of a graph that backends are asked about,
    cdef gg_region *around     # that of its lists
    cdef list owners           # and who keeps that
    cdef Index index           # of the seats: leafs, nodes and their operands as they come
    cdef Seat *seats
    cdef int *order            # of the leafs, then of each node's operands and itself (see Record); -1: no such operand
    cdef int *nodes            # where in it the nodes begin
    cdef int room
    cdef size_t room_order
    cdef list kinds            # types of the buffers that tensors lie in
    cdef uint64_t accepts[MAX_KINDS]   # which backends can use each
    cdef Buffer latest         # a buffer that was asked about, and the number of its type
    cdef int latest_kind
    cdef dict by_hand, copies
    cdef dict hands            # by_hand when the recorded graph was split
    cdef list redirects        # (seat of a node, operand, its seat, addresses of its copies)
    cdef ggml_context *arena   # of copies and of the splits' graphs
    cdef object callback, user_data, graph
    cdef ggml_cgraph *planned
    cdef ggml_cgraph *window   # some nodes of a split
    cdef int planned_nodes

    def __dealloc__(self):
        free(self.seats)
        free(self.order)

    # ---- what the graph's tensors are ----------------------------------------------------------------------------------------
    cdef int kind(self, BufferType buft) except -1:
        """The number of a type of buffers."""
        cdef int n = len(self.kinds), i
        for i in range(n):
            if self.kinds[i] is buft:
                return i
        if n == MAX_KINDS:
            fail(ValueError, f"the graph's tensors lie in buffers of more than {MAX_KINDS} types")
        self.accepts[n] = 0
        for i in range(len(self.backends)):
            if (<Backend>self.backends[i]).supports_buft(buft):
                self.accepts[n] |= <uint64_t>1 << i
        self.kinds.append(buft)
        return n

    cdef int seat(self, ggml_tensor *t) except -1:
        """The number of a tensor's seat, which is new where the tensor is."""
        cdef int i = number(self.index, t), root
        cdef Seat *s
        if i >= 0:
            return i
        if not engine.tensor_usable(t):
            fail(RuntimeError, "the graph has a tensor that was freed or written over")
        root = self.index.n
        if t.view_src != NULL:
            no_chain(t)
            root = self.seat(t.view_src)
        i = self.index.add(t)
        if self.room < self.index.room:
            s = <Seat *>realloc(self.seats, <size_t>self.index.room * sizeof(Seat))
            if s == NULL:
                raise MemoryError()
            self.seats, self.room = s, self.index.room
        s = &self.seats[i]
        s.where, s.writes, s.asked, s.able, s.root = -1, 0, 0, 0, root
        if root == i:
            self.find_memory(t, s)
        else:
            s.kind, s.weights = self.seats[root].kind, self.seats[root].weights
        return i

    cdef int find_memory(self, ggml_tensor *t, Seat *s) except -1:
        """Sees what a tensor lies in already, if it does."""
        cdef Buffer b
        s.kind, s.weights = -1, False
        if t.data == NULL or buffer_dead(t) or (t.buffer != NULL and self.galloc.owns(t)):
            return 0
        b = buffer_of_tensor(t)
        if b is None:
            s.kind = self.kind(cpu_buft)
            return 0
        if b is not self.latest:
            self.latest, self.latest_kind = b, self.kind(b.buft)
        s.kind, s.weights = self.latest_kind, b.usage == WEIGHTS
        return 0

    cdef int look(self, ggml_cgraph *g) except -1:
        """Gives the graph's tensors their seats."""
        cdef int i, k
        cdef size_t mentions = g.n_leafs + <size_t>g.n_nodes * WIDTH
        cdef int *order
        cdef ggml_tensor *t
        if self.room_order < mentions:
            order = <int *>realloc(self.order, mentions * sizeof(int))
            if order == NULL:
                raise MemoryError()
            self.order, self.room_order = order, mentions
        self.kinds, self.latest = [], None
        self.nodes = self.order + g.n_leafs
        for i in range(g.n_leafs):
            self.order[i] = self.seat(g.leafs[i])
        for i in range(g.n_nodes):
            t = g.nodes[i]
            order = operands(self, i)
            order[GGML_MAX_SRC] = self.seat(t)
            for k in range(GGML_MAX_SRC):
                order[k] = self.seat(t.src[k]) if t.src[k] != NULL else -1
        return 0

    # ---- where a node is computed ------------------------------------------------------------------------------------------
    cdef bint can(self, int i, int seat) except -1:
        cdef uint64_t bit = <uint64_t>1 << i
        cdef bint able
        if not self.seats[seat].asked & bit:
            able = (<Backend>self.backends[i]).supports_op(self.index.tensors[seat])
            self.seats[seat].asked |= bit
            if able:
                self.seats[seat].able |= bit
        return (self.seats[seat].able & bit) != 0

    cdef int user(self, int kind, int seat) except -9:
        """The first backend that can use a type of buffer, and compute a node; -1: none."""
        cdef int i
        for i in range(len(self.backends)):
            if self.accepts[kind] >> i & 1 and (not engine.op_computes(self.index.tensors[seat].op) or self.can(i, seat)):
                return i
        return -1

    cdef int fixed(self, int seat, const int *ops) except -9:
        """The backend that a tensor asks for by where it or its weights lie; -1: it does not."""
        cdef ggml_tensor *t = self.index.tensors[seat]
        cdef int i, k, j, kind = self.seats[seat].kind, last = len(self.backends) - 1
        if self.by_hand and <size_t>t in self.by_hand:
            return self.by_hand[<size_t>t]
        if not engine.op_computes(t.op) and t.view_src != NULL:
            return -1
        if kind >= 0:
            i = self.user(kind, seat)
            if i < 0 and engine.op_computes(t.op):
                fail(RuntimeError, f"no backend can compute {engine.op_name(t.op).decode()} '{name_text(t)}' in the buffer that it lies in")
            return i
        if t.flags & GGML_TENSOR_FLAG_INPUT:
            return last
        for k in range(GGML_MAX_SRC):
            if ops == NULL or ops[k] < 0 or not self.seats[ops[k]].weights:
                continue
            kind = self.seats[ops[k]].kind
            i = self.user(kind, seat)
            if self.offload and i == last and last and (<BufferType>self.kinds[kind]).is_host():
                for j in range(last):
                    if self.can(j, seat) and (<Backend>self.backends[j]).offload_op(t):
                        return j
            if i >= 0:
                return i
        return -1

    cdef int sweep(self, ggml_cgraph *g, bint up, bint all) except -1:
        """Nodes that ask for nothing go where their neighbours are, as long as that backend can compute them.

        At first (all False) only for neighbours that are not on the last backend, which is there for the rest.
        """
        cdef int i, n = g.n_nodes, here = -1, seat, last = len(self.backends) - 1
        for i in range(n):
            seat = seat_of(self, n - 1 - i if up else i)
            if not engine.op_computes(self.index.tensors[seat].op):
                continue
            if self.seats[seat].where >= 0:
                here = self.seats[seat].where if all or self.seats[seat].where != last else -1
            elif here >= 0 and self.can(here, seat):
                self.seats[seat].where = here
        return 0

    cdef int remaining(self, int node) except -1:
        """The backend that can read most operands of a node where they are."""
        cdef int i, k, n, most = -1, best = -1
        cdef Seat *s
        cdef const int *ops = operands(self, node)
        cdef int seat = ops[GGML_MAX_SRC]
        cdef ggml_tensor *t = self.index.tensors[seat]
        for i in range(len(self.backends)):
            if not self.can(i, seat):
                continue
            n = 0
            for k in range(GGML_MAX_SRC):
                if ops[k] >= 0:
                    s = &self.seats[ops[k]]
                    n += s.where == i or (s.kind >= 0 and self.accepts[s.kind] >> i & 1)
            if n > most:
                most, best = n, i
        if best < 0:
            fail(RuntimeError, f"no backend can compute {engine.op_name(t.op).decode()} '{name_text(t)}'")
        return best

    cdef int in_place(self, int root, list writers) except -1:
        """Puts nodes that are computed over another tensor where that is, or, where that is still open, all of them together."""
        cdef Seat *s = &self.seats[root]
        cdef list wanted = [s.where] + [self.seats[<int>w].where for w in writers] + list(range(len(self.backends)))
        cdef list members = list(writers)
        cdef ggml_tensor *t
        cdef int at
        if s.kind < 0 and engine.op_computes(self.index.tensors[root].op):
            members.append(root)
        for at in wanted:
            if at < 0 or (s.kind >= 0 and not self.accepts[s.kind] >> at & 1):
                continue
            if all([self.can(at, m) for m in members]):
                for m in members:
                    self.seats[<int>m].where = at
                if s.kind < 0:
                    s.where = at
                return 0
        t = self.index.tensors[<int>writers[0]]
        fail(RuntimeError, f"no backend can compute {engine.op_name(t.op).decode()} '{name_text(t)}' where '{name_text(self.index.tensors[root])}' lies, "
                           "which it overwrites")

    cdef int assign(self, ggml_cgraph *g) except -1:
        cdef int i, k, seat, last = len(self.backends) - 1, next = 0, here
        cdef Seat *s
        cdef dict writers = {}
        for i in range(g.n_leafs):
            self.seats[self.order[i]].where = self.fixed(self.order[i], NULL)
        for i in range(g.n_nodes):
            seat = seat_of(self, i)
            self.seats[seat].where = self.fixed(seat, operands(self, i))
        if last:
            self.sweep(g, False, False)
            self.sweep(g, True, False)
            self.sweep(g, False, True)
            self.sweep(g, True, True)
        for i in range(g.n_nodes):
            seat = seat_of(self, i)
            if not engine.op_computes(g.nodes[i].op):
                continue
            if self.seats[seat].where < 0:
                self.seats[seat].where = self.remaining(i)
            if self.seats[seat].root != seat and last:
                writers.setdefault(self.seats[seat].root, []).append(seat)
        for root, nodes in writers.items():
            self.in_place(root, nodes)
        for i in range(g.n_nodes):                       # what is left is as good as anywhere: where it is used first
            if next <= i:
                next = self.next_computed(g, i)
            here = self.seats[seat_of(self, next)].where if next < g.n_nodes else last
            for k in range(WIDTH):
                seat = operands(self, i)[k]
                if seat < 0 or self.seats[seat].where >= 0:
                    continue
                s = &self.seats[self.seats[seat].root]
                if s.where < 0:
                    s.where = here
                self.seats[seat].where = s.where
        return 0

    cdef int next_computed(self, ggml_cgraph *g, int i) noexcept:
        """The first node behind those before i that is computed."""
        while i < g.n_nodes and not engine.op_computes(g.nodes[i].op):
            i += 1
        return i

    # ---- splits ------------------------------------------------------------------------------------------------------------
    cdef int hold(self, ggml_cgraph *g) except -1:
        """Until `let_go`: backends that call back could free what they are asked about."""
        self.let_go()
        hold(&self.pins, self.owners, g.leafs, g.n_leafs)
        hold(&self.pins, self.owners, g.nodes, g.n_nodes)
        self.around = engine.region_of_data(g)
        if self.around != NULL:
            engine.region_view(self.around, 1)
        return 0

    cdef int let_go(self) except -1:
        release(&self.pins)
        memset(&self.pins, 0, sizeof(self.pins))
        if self.around != NULL:
            engine.region_view(self.around, -1)
        self.around, self.owners = NULL, []
        return 0

    cdef int split(self, ggml_cgraph *g) except -1:
        """Assigns the nodes, cuts the graph where the backend changes, and makes the copies that are needed between."""
        cdef int i, k, at, seat
        cdef Split s = None
        self.forget()
        self.check_backends()
        self.look(g)
        if not self.steady:
            self.hold(g)
        self.assign(g)
        self.arena = context_new()
        if g.n_nodes:
            k = self.next_computed(g, 0)
            s = self.new_split(self.seats[seat_of(self, k)].where if k < g.n_nodes else len(self.backends) - 1, 0)
        for i in range(g.n_nodes):
            if engine.op_computes(g.nodes[i].op):
                seat = seat_of(self, i)
                at = self.seats[seat].where
                if s.backend != at:
                    s = self.new_split(at, i)
                for k in range(GGML_MAX_SRC):
                    if operands(self, i)[k] >= 0:
                        self.operand(s, i, k)
                self.seats[self.seats[seat].root].writes += 1             # a copy from before is stale
            s.end = i + 1
        self.n_splits = len(self.splits)
        for s in self.splits:
            s.graph = graph_new(self.arena, s.end - s.begin, False)
            s.graph.n_nodes = s.end - s.begin
        self.fill(g)
        self.assigned = True
        return 0

    cdef Split new_split(self, int backend, int begin):
        cdef Split s = Split(backend, begin)
        self.splits.append(s)
        return s

    cdef int operand(self, Split s, int node, int k) except -1:
        """Sees to it that the split's backend can read operand k of a node."""
        cdef int source = operands(self, node)[k]
        cdef Seat *seat = &self.seats[source]
        cdef Seat *root = &self.seats[seat.root]
        cdef int at = root.where if root.where >= 0 else s.backend, kind = seat.kind
        if kind < 0 and at == s.backend:
            return 0
        if self.accepts[kind if kind >= 0 else self.kind(self.bufts[at])] >> s.backend & 1:
            if at != s.backend:
                s.waits.add(at)
            return 0
        key = (source, s.backend, root.writes)
        made = self.copies.get(key)
        if made is None:
            made = self.copies[key] = self.duplicate(s, self.index.tensors[source])
            s.inputs.append((source, made, at))
        self.redirects.append((seat_of(self, node), k, source, made))
        return 0

    cdef list duplicate(self, Split s, ggml_tensor *src):
        cdef list made = []
        cdef int c
        cdef ggml_tensor *t
        for c in range(self.n_copies):
            t = twin(self.arena, src)
            name = b"%s#%s#%d" % ((<Backend>self.backends[s.backend]).name(), name_text(src).encode(), c)
            set_name(t, name, b"")
            if self.n_copies > 1:
                t.flags = GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT     # of graphs that may be at work at the same time
            made.append(<size_t>t)
        return made

    cdef int fill(self, ggml_cgraph *g) except -1:
        cdef Split s
        for s in self.splits:
            memcpy(s.graph.nodes, g.nodes + s.begin, <size_t>s.graph.n_nodes * sizeof(void *))
        return 0

    cdef int bind(self, bint on) except -1:
        """Puts the copies in the place of the operands, or these back: after a call the user's graph is as it was."""
        cdef ggml_tensor *t
        if on == self.bound:
            return 0
        for node, k, src, made in self.redirects:
            t = self.index.tensors[<int>node]
            if engine.tensor_live(t):
                t.src[<int>k] = <ggml_tensor *><size_t>made[self.now] if on else self.index.tensors[<int>src]
        self.bound = on
        return 0

    cdef int forget(self) except -1:
        """Lets go of the graph, and of what was planned for it."""
        self.bind(False)
        self.splits, self.redirects, self.copies = [], [], {}
        self.index.clear()
        self.record.forget()
        self.planned, self.window, self.graph, self.assigned = NULL, NULL, None, False
        if self.arena != NULL:
            context_free(self.arena)
            self.arena = NULL
        return 0

    # ---- memory ------------------------------------------------------------------------------------------------------------
    cdef list plan(self, ggml_cgraph *g, bint size_only):
        """Plans the memory of a graph that was split; the sizes of buffers to see to (of size_only: all of them)."""
        cdef ggml_cgraph all = g[0]
        cdef Split s
        cdef list sizes
        cdef int i, n = g.n_nodes
        cdef int *ids
        cdef ggml_tensor *t
        for copies in self.copies.values():
            n += len(copies)
        all.nodes = <ggml_tensor **>malloc(<size_t>(n + 1) * sizeof(void *))
        ids = <int *>malloc(<size_t>(n + g.n_leafs + 1) * sizeof(int))
        if all.nodes == NULL or ids == NULL:
            free(all.nodes)
            free(ids)
            raise MemoryError()
        try:
            n = 0
            for s in self.splits:
                for src, made, _ in s.inputs:
                    for m in made:                       # computed here, as far as the allocator is concerned
                        t = <ggml_tensor *><size_t>m
                        t.op, t.src[0] = GGML_OP_CPY, self.index.tensors[<int>src]
                        all.nodes[n], ids[n] = t, s.backend
                        n += 1
                for i in range(s.begin, s.end):
                    all.nodes[n], ids[n] = g.nodes[i], self.seats[seat_of(self, i)].where
                    n += 1
            all.n_nodes = n
            for i in range(g.n_leafs):
                ids[n + i] = max(self.seats[self.order[i]].where, 0)
            self.bind(True)
            if size_only:
                sizes = self.galloc.analyse(&all, ids, ids + n).pack([(<BufferType>b).max_size() for b in self.bufts])
            else:
                sizes = self.galloc.plan(&all, ids, ids + n)
        finally:
            self.bind(False)
            free(all.nodes)
            free(ids)
            for made in self.copies.values():
                for m in made:
                    t = <ggml_tensor *><size_t>m
                    t.op, t.src[0] = 0, NULL
        return sizes

    cdef bint reserve(self, ggml_cgraph *g) except -1:
        cdef list sizes
        self.split(g)
        sizes = self.plan(g, False)
        if sizes:
            self.synchronize()
        return self.galloc.grow(sizes)

    cdef bint alloc(self, ggml_cgraph *g, object graph) except -1:
        cdef int known = DIFFERS
        self.now = (self.now + 1) % self.n_copies
        if self.n_copies == 1:
            self.synchronize()
        self.check_backends()
        if self.steady and self.by_hand == self.hands:
            known = self.record.compare(g, self.galloc)
        if known == DIFFERS and not self.reserve(g):
            return False
        if known != DIFFERS and self.record.index is not self.index:
            self.galloc.follow(self.index, self.record.index)
            self.index = self.record.index
            self.fill(g)
        if known != SAME:
            self.galloc.assign()
        if known == DIFFERS:
            self.record.take(g, self.index, self.order, self.galloc)
            self.hands = dict(self.by_hand)
        self.planned, self.planned_nodes, self.graph, self.assigned = g, g.n_nodes, graph, True
        return True

    # ---- computing -----------------------------------------------------------------------------------------------------------
    cdef int compute(self, ggml_cgraph *g, object graph) except? -99:
        if (self.planned != g or self.planned_nodes != g.n_nodes) and not self.alloc(g, graph):
            return -2                                    # ALLOC_FAILED
        self.bind(True)
        try:
            return self.run()
        finally:
            self.bind(False)

    cdef int run(self) except? -99:
        cdef Split s
        cdef Event e
        cdef Backend b
        cdef int status
        for s in self.splits:
            b = self.backends[s.backend]
            for at in s.waits:
                (<Backend>self.backends[at]).synchronize()
            e = self.events[s.backend][self.now] if self.events else None
            self.fetch(s, b, e)
            status = self.observe(s, b, self.callback) if self.callback is not None else b.compute(s.graph)
            if status == CANCELLED:
                return GGML_STATUS_SUCCESS
            if status:
                return status
            if e is not None and s.inputs:
                e.record(b)
        return GGML_STATUS_SUCCESS

    cdef int fetch(self, Split s, Backend b, Event e) except -1:
        """Copies what a split needs, when its backend has done with what is there."""
        cdef Backend a
        cdef ggml_tensor *src
        cdef ggml_tensor *dst
        for source, made, at in s.inputs:
            src, dst = self.index.tensors[<int>source], <ggml_tensor *><size_t>made[self.now]
            a = self.backends[at]
            if src.flags & GGML_TENSOR_FLAG_INPUT:       # at once: the user may set the next graph's afterwards
                e.synchronize() if e is not None else b.synchronize()
                copy(src, dst)
                continue
            e.wait(b) if e is not None else b.synchronize()
            if not a.copy_async(b, src, dst):
                a.synchronize()
                b.synchronize()
                copy(src, dst)
        return 0

    cdef int observe(self, Split s, Backend b, object callback) except? -99:
        """Computes the split in pieces that end where the user's callback wants to see a result."""
        cdef int i, begin = 0, n = s.graph.n_nodes, status
        cdef bint shown
        if self.window == NULL:
            self.window = graph_new(self.arena, self.planned_nodes, False)
        for i in range(n):
            shown = self.ask(callback, s.graph.nodes[i], True)
            if not shown and i + 1 < n:
                continue
            self.window.n_nodes = i + 1 - begin
            memcpy(self.window.nodes, s.graph.nodes + begin, <size_t>self.window.n_nodes * sizeof(void *))
            status = b.compute(self.window)
            if status:
                return status
            b.synchronize()
            if shown and not self.ask(callback, s.graph.nodes[i], False):
                return CANCELLED
            begin = i + 1
        return GGML_STATUS_SUCCESS

    cdef bint ask(self, object callback, ggml_tensor *t, bint ask) except -1:
        answer = callback(wrap_tensor(t), bool(ask), self.user_data)
        unpark()
        return bool(answer)

    cdef int synchronize(self) except -1:
        cdef Backend b
        for b in self.backends:
            if <size_t>b.at in live:
                b.synchronize()
        return 0

    cdef int check_backends(self) except -1:
        cdef Handle b
        for b in self.backends:
            if <size_t>b.at not in live:
                fail(RuntimeError, "a backend of the scheduler was freed")
        return 0

    cdef int reset(self) except -1:
        """What is known of the graph stays, for it may come again."""
        self.synchronize()
        self.bind(False)
        self.planned, self.graph, self.assigned = NULL, None, False
        self.by_hand = {}
        return 0

    cdef int release(self) except -1:
        cdef Event e
        self.reset()
        self.forget()
        for of in self.events:
            for e in of:
                if e is not None:
                    e.release()
        self.galloc.release()
        return self.close()

cdef enum:
    CANCELLED = -50

cdef inline int *operands(Sched s, int i) noexcept:
    """The seats of node i's operands; behind them its own."""
    return s.nodes + i * <size_t>WIDTH

cdef inline int seat_of(Sched s, int i) noexcept:
    return operands(s, i)[GGML_MAX_SRC]

_title(Sched, "scheduler")

# ---- the functions ---------------------------------------------------------------------------------------------------------------
cdef Sched sched_arg(object o):
    return <Sched>find(o, Sched, "sched")

cdef class Turn:
    """A call's time with a scheduler's graph: callbacks and other threads can't change it meanwhile."""
    cdef Sched sched

    def __init__(self, o):
        self.sched = sched_arg(o)

    def __enter__(self):
        if self.sched.busy:
            fail(RuntimeError, "sched is at work with a graph: a callback or another thread can't change that")
        self.sched.busy = True
        return self.sched

    def __exit__(self, *error):
        self.sched.busy = False
        self.sched.let_go()

cdef int index_of(Sched s, object backend) except -1:
    cdef Backend b = backend_arg(backend, "backend")
    cdef int i
    for i in range(len(s.backends)):
        if s.backends[i] is b:
            return i
    fail(ValueError, "backend is none of the scheduler's")

cdef list types_of(object bufts, list backends):
    cdef Backend b
    cdef list types = [(<Backend>a).buft() for a in backends]
    if bufts is None or (isinstance(bufts, (ctypes._Pointer, ctypes.c_void_p)) and not bufts):
        return types
    types = handles(bufts, len(backends), BufferType, "bufts")
    for i, b in enumerate(backends):
        if not b.supports_buft(types[i]):
            fail(ValueError, f"bufts[{i}] is {(<BufferType>types[i]).name().decode()}: {b.name().decode()} can't use such buffers")
    return types

def ggml_backend_sched_new(backends, bufts, n_backends, graph_size, parallel, op_offload=True):
    """Creates a scheduler, which computes graphs on several backends.

    It assigns each node to a backend, cuts the graph into splits of consecutive nodes for one backend, copies
    operands between them where one backend cannot read the other's memory, and allocates all tensors without data.

    Args:
        backends: array of n_backends backend handles, the preferred first. The last one also receives the graph's
            inputs (ggml_set_input) and should be able to compute every node, so it is usually a CPU backend.
        bufts: array of n_backends buffer type handles, the memory that each backend computes in; None for the
            backends' default types.
        n_backends: number of backends, 1 to 64.
        graph_size: number of nodes expected, 0 or more; larger graphs work too.
        parallel: True keeps 4 copies of what is copied between backends, so that the next graph can start before
            the last has ended; False keeps one.
        op_offload: True (the default) lets a backend copy weights from host memory for nodes that it wants
            (ggml_backend_offload_op). Older releases lack this parameter.
    Returns:
        Handle of the scheduler (int). Free it with ggml_backend_sched_free; keep the backends until then.
    Raises:
        TypeError: backends is None or no array, or an entry or another argument is of the wrong kind.
        ValueError: n_backends is not 1 to 64, graph_size is negative, an array has fewer entries or is no readable
            memory, or a backend does not support its type in bufts.
        RuntimeError: an entry is no live handle.
    """
    enter(b"ggml_backend_sched_new")
    cdef int n = arg_int32(n_backends, b"n_backends"), i
    if n < 1 or n > 64:
        fail(ValueError, f"n_backends is {n}: need 1 to 64")
    arg_size(graph_size, b"graph_size")
    cdef Sched s = Sched()
    s.backends = handles(backends, n, Backend, "backends")
    s.bufts = types_of(bufts, s.backends)
    s.n_copies = MAX_COPIES if arg_bool(parallel, b"parallel") else 1
    s.offload = arg_bool(op_offload, b"op_offload")
    s.galloc = new_galloc(s.bufts)
    _open(s.galloc)
    s.splits, s.redirects, s.copies, s.by_hand, s.kinds = [], [], {}, {}, []
    s.index, s.record = Index(128), Record()
    s.steady = all([isinstance(b, CpuBackend) for b in s.backends])
    s.events = [[(<Backend>b).event_new() for i in range(s.n_copies)] for b in s.backends] if s.n_copies > 1 else []
    _open(s)
    return HANDLE(s)

def ggml_backend_sched_free(sched):
    """Frees a scheduler with the buffers that it allocated; the backends stay.

    Args:
        sched: handle of a scheduler, or None, for which nothing happens.
    Returns:
        None.
    Raises:
        TypeError: sched is 0 or something else than a scheduler.
        RuntimeError: sched was freed already, or is computing (the call comes from a callback or another thread).
    """
    enter(b"ggml_backend_sched_free")
    cdef Sched s
    if sched is not None:
        with Turn(sched) as s:
            s.release()

def ggml_backend_sched_reserve_size(sched, measure_graph, sizes):
    """Computes how much memory a graph would take on each backend, without allocating it.

    Like ggml_backend_sched_reset, it drops assignments of ggml_backend_sched_set_tensor_backend afterwards.

    Args:
        sched: handle of a scheduler.
        measure_graph: the graph (ggml_cgraph pointer).
        sizes: array of n_backends size_t (ctypes, NumPy or an address); receives the bytes. A buffer type that
            several backends share counts for the first of them, and the others receive 0.
    Returns:
        None.
    Raises:
        TypeError: sched is no scheduler, measure_graph is no graph, or sizes is no array.
        ValueError: sizes is too short, or the graph is malformed.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
    enter(b"ggml_backend_sched_reserve_size")
    cdef Sched s = sched_arg(sched)
    cdef ggml_cgraph *g = arg_graph(measure_graph, b"measure_graph")
    cdef size_t n = len(s.backends), i
    cdef void *p
    arg_buffer(sizes, b"sizes", n * sizeof(size_t), &p)
    if p == NULL or not engine.readable(p, n * sizeof(size_t)):
        fail(TypeError, f"sizes is no array of {n} size_t")
    with Turn(sched):
        s.split(g)
        need = s.plan(g, True)
        s.reset()
    for i in range(n):
        (<size_t *>p)[i] = sum(need[i])

def ggml_backend_sched_reserve(sched, measure_graph):
    """Allocates buffers that suffice for a graph, so that later graphs of up to this size need no new ones.

    The graph's tensors are not placed. Like ggml_backend_sched_reset, it drops assignments of
    ggml_backend_sched_set_tensor_backend afterwards.

    Args:
        sched: handle of a scheduler.
        measure_graph: the graph (ggml_cgraph pointer), usually the largest one to come.
    Returns:
        True, or False if the memory is not available.
    Raises:
        TypeError: sched is no scheduler, or measure_graph is no graph.
        ValueError: the graph is malformed, for example with a view of a view.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
    enter(b"ggml_backend_sched_reserve")
    cdef Sched s
    cdef bint done = False
    with Turn(sched) as s:
        done = s.reserve(arg_graph(measure_graph, b"measure_graph"))
        s.reset()
    return bool(done)

def ggml_backend_sched_get_n_backends(sched):
    """Returns the number of backends of a scheduler.

    Args:
        sched: handle of a scheduler.
    Returns:
        n_backends of ggml_backend_sched_new.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_get_n_backends")
    return len(sched_arg(sched).backends)

def ggml_backend_sched_get_backend(sched, i):
    """Returns a backend of a scheduler by its position.

    Args:
        sched: handle of a scheduler.
        i: 0 (the preferred backend) to ggml_backend_sched_get_n_backends(sched) - 1.
    Returns:
        Handle of the backend.
    Raises:
        TypeError: sched is no scheduler, or i is no integer.
        IndexError: i is negative or too large.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_get_backend")
    cdef Sched s = sched_arg(sched)
    cdef int k = arg_int32(i, b"i")
    if not 0 <= k < len(s.backends):
        fail(IndexError, f"i is {k}: the scheduler has {len(s.backends)} backends")
    return HANDLE(<Handle>s.backends[k])

def ggml_backend_sched_get_n_splits(sched):
    """Returns the number of splits of the last graph.

    A split is a range of consecutive nodes that one backend computes.

    Args:
        sched: handle of a scheduler.
    Returns:
        Number of splits, 0 before the first graph. ggml_backend_sched_reset does not change it.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_get_n_splits")
    return sched_arg(sched).n_splits

def ggml_backend_sched_get_n_copies(sched):
    """Returns how many copies a scheduler keeps of each tensor that it copies to another backend.

    Args:
        sched: handle of a scheduler.
    Returns:
        4 if it was made with parallel=True, otherwise 1.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_get_n_copies")
    return sched_arg(sched).n_copies

def ggml_backend_sched_get_buffer_type(sched, backend):
    """Returns the buffer type that a scheduler allocates from for one of its backends.

    Args:
        sched: handle of a scheduler.
        backend: handle of one of its backends.
    Returns:
        Handle of the type: that of bufts in ggml_backend_sched_new, or the backend's default.
    Raises:
        TypeError: sched is no scheduler, or backend is no backend.
        ValueError: the scheduler does not have that backend.
        RuntimeError: the scheduler or the backend was freed.
    """
    enter(b"ggml_backend_sched_get_buffer_type")
    cdef Sched s = sched_arg(sched)
    return HANDLE(<Handle>s.bufts[index_of(s, backend)])

def ggml_backend_sched_get_buffer_size(sched, backend):
    """Returns the size of the buffers that a scheduler has allocated for one of its backends.

    Args:
        sched: handle of a scheduler.
        backend: handle of one of its backends.
    Returns:
        Bytes; 0 before the first allocation, and for a backend whose buffer type an earlier backend uses too.
    Raises:
        TypeError: sched is no scheduler, or backend is no backend.
        ValueError: the scheduler does not have that backend.
        RuntimeError: the scheduler or the backend was freed.
    """
    enter(b"ggml_backend_sched_get_buffer_size")
    cdef Sched s = sched_arg(sched)
    return s.galloc.size(index_of(s, backend))

def ggml_backend_sched_set_tensor_backend(sched, node, backend):
    """Assigns a node to a backend by hand, for the graphs up to the next ggml_backend_sched_reset.

    Call it before ggml_backend_sched_alloc_graph. It takes precedence over the scheduler's own choice.

    Args:
        sched: handle of a scheduler.
        node: the node: any tensor, any shape.
        backend: handle of one of the scheduler's backends, which must support the node.
    Returns:
        None.
    Raises:
        TypeError: sched is no scheduler, node is no tensor, or backend is no backend.
        ValueError: the scheduler does not have that backend.
        RuntimeError: the scheduler, the node or the backend was freed.
    """
    enter(b"ggml_backend_sched_set_tensor_backend")
    cdef Sched s = sched_arg(sched)
    s.by_hand[<size_t>arg_tensor(node, b"node")] = index_of(s, backend)

def ggml_backend_sched_get_tensor_backend(sched, node):
    """Returns the backend to which a tensor of the last graph was assigned.

    Args:
        sched: handle of a scheduler.
        node: a node, an operand or a leaf of that graph: any tensor, any shape.
    Returns:
        Handle of the backend; None if the tensor has not been assigned, neither by hand nor with a graph.
    Raises:
        TypeError: sched is no scheduler, or node is no tensor.
        RuntimeError: the scheduler or the tensor was freed.
    """
    enter(b"ggml_backend_sched_get_tensor_backend")
    cdef Sched s = sched_arg(sched)
    cdef ggml_tensor *t = arg_tensor(node, b"node")
    cdef int seat = number(s.index, t) if s.assigned else -1
    where = s.seats[seat].where if seat >= 0 else s.by_hand.get(<size_t>t, -1)
    return HANDLE(<Handle>s.backends[where]) if where >= 0 else None

def ggml_backend_sched_split_graph(sched, graph):
    """Assigns the nodes of a graph to backends without allocating memory, to inspect the assignment.

    See it with ggml_backend_sched_get_tensor_backend and ggml_backend_sched_get_n_splits.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        None.
    Raises:
        TypeError: sched is no scheduler, or graph is no graph.
        ValueError: the graph is malformed, for example with a view of a view.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
    enter(b"ggml_backend_sched_split_graph")
    cdef Sched s
    with Turn(sched) as s:
        s.split(arg_graph(graph, b"graph"))

def ggml_backend_sched_alloc_graph(sched, graph):
    """Assigns the nodes of a graph to backends and gives every tensor without data its memory.

    Set the graph's inputs afterwards, then call ggml_backend_sched_graph_compute. With CPU backends only, a graph
    that equals the last one tensor by tensor is not planned again. Without parallel, it first waits for work under
    way.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        True, or False if the memory is not available.
    Raises:
        TypeError: sched is no scheduler, or graph is no graph.
        ValueError: the graph is malformed, for example with a view of a view.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
    enter(b"ggml_backend_sched_alloc_graph")
    cdef Sched s
    with Turn(sched) as s:
        return bool(s.alloc(arg_graph(graph, b"graph"), graph))

def ggml_backend_sched_graph_compute(sched, graph):
    """Computes a graph on the backends of a scheduler and waits for the results.

    A graph that was not allocated by ggml_backend_sched_alloc_graph just before is allocated first.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        GGML_STATUS_SUCCESS (0), also if the evaluation callback cancelled the rest; GGML_STATUS_ALLOC_FAILED (-2)
        if the memory is not available; or the status of the backend that stopped, as of ggml_backend_graph_compute.
    Raises:
        TypeError: sched is no scheduler, or graph is no graph.
        ValueError: the graph is malformed, or a node does not fit its operands.
        RuntimeError: something was freed, the scheduler is computing already, no backend can compute a node, or an
            operation failed.
    """
    enter(b"ggml_backend_sched_graph_compute")
    cdef Sched s
    cdef int status = GGML_STATUS_SUCCESS
    with Turn(sched) as s:
        try:
            status = s.compute(arg_graph(graph, b"graph"), graph)
        finally:
            s.synchronize()
    return status

def ggml_backend_sched_graph_compute_async(sched, graph):
    """Starts computing a graph on the backends of a scheduler; ggml_backend_sched_synchronize waits for the end.

    CPU backends complete their splits before the call returns.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer); keep it and its tensors until the work is done.
    Returns:
        Status, as of ggml_backend_sched_graph_compute.
    Raises:
        TypeError: sched is no scheduler, or graph is no graph.
        ValueError: the graph is malformed, or a node does not fit its operands.
        RuntimeError: something was freed, the scheduler is computing already, no backend can compute a node, or an
            operation failed. Before an exception is raised, the call waits for all backends.
    """
    enter(b"ggml_backend_sched_graph_compute_async")
    cdef Sched s
    with Turn(sched) as s:
        try:
            return s.compute(arg_graph(graph, b"graph"), graph)
        except BaseException:
            s.synchronize()
            raise

def ggml_backend_sched_synchronize(sched):
    """Waits until all backends of a scheduler have completed their work.

    Args:
        sched: handle of a scheduler.
    Returns:
        None.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_synchronize")
    sched_arg(sched).synchronize()

def ggml_backend_sched_reset(sched):
    """Drops the last graph and all assignments by hand; the buffers stay.

    Waits for work under way first. What was planned for the last graph is kept for graphs that equal it.

    Args:
        sched: handle of a scheduler.
    Returns:
        None.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or is computing (the call comes from a callback or another thread).
    """
    enter(b"ggml_backend_sched_reset")
    cdef Sched s
    with Turn(sched) as s:
        s.reset()

def ggml_backend_sched_set_eval_callback(sched, callback, user_data):
    """Sets a function that observes the nodes while a scheduler computes.

    It is called once or twice for each node: with ask=True before the node is computed, to tell whether it wants
    the result; if so, with ask=False when the result is there. Nodes up to a wanted one are computed together. An
    exception that it raises ends the compute call and is raised there.

    Args:
        sched: handle of a scheduler.
        callback: callback(tensor, ask, user_data) -> bool: a Python callable, a ggml_backend_sched_eval_callback or
            the address of a C function. False with ask=False cancels the rest of the graph. None removes it.
        user_data: value for the callback: None, an int or an address; of other objects, the address is taken.
    Returns:
        None.
    Raises:
        TypeError: sched is no scheduler, or callback is no function or one of another signature.
        ValueError: callback is an address at which there is no function.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_set_eval_callback")
    cdef Sched s = sched_arg(sched)
    s.callback = callable_of(callback, _structs.ggml_backend_sched_eval_callback)
    s.user_data = user_data if user_data is None or isinstance(user_data, int) else <size_t>arg_address(user_data, b"user_data")

cdef object callable_of(object callback, object type_):
    """A Python callable for a callback that may be a CFUNCTYPE, a Python callable or an address; None for NULL."""
    made = as_callback(callback, type_)
    cdef void *p = arg_callback(made, type_, b"callback")
    if p == NULL:
        return None
    return made if isinstance(made, type_.prototype) else type_(<size_t>p)

# ---- copies of graphs ------------------------------------------------------------------------------------------------------------
cdef class Copier:
    """Copies tensors with all that they are computed from."""
    cdef ggml_context *allocated
    cdef ggml_context *views
    cdef dict made             # address of a tensor: of its copy
    cdef list todo             # addresses of those whose copies have no operands yet

    cdef ggml_tensor *dup(self, ggml_tensor *t) except NULL:
        cdef ggml_tensor *d
        cdef ggml_tensor view
        known = self.made.get(<size_t>t)
        if known is not None:
            return <ggml_tensor *><size_t>known
        if not engine.tensor_usable(t):
            fail(RuntimeError, "the graph has a tensor that was freed or written over")
        if t.view_src == NULL:
            d = twin(self.allocated, t)
        else:
            no_chain(t)
            node_init(&view, 0, t.type, t.ne[0], t.ne[1], t.ne[2], t.ne[3])
            memcpy(view.nb, t.nb, sizeof(t.nb))
            view.view_src, view.view_offs = self.dup(t.view_src), t.view_offs
            d = node_append(self.views, &view)
        self.made[<size_t>t] = <size_t>d
        self.todo.append(<size_t>t)
        d.op, d.flags = t.op, t.flags
        memcpy(d.op_params, t.op_params, sizeof(t.op_params))
        memcpy(d.name, t.name, GGML_MAX_NAME)
        return d

    cdef int connect(self) except -1:
        cdef ggml_tensor *t
        cdef ggml_tensor *d
        cdef int k
        while self.todo:
            t = <ggml_tensor *><size_t>self.todo.pop()
            d = self.dup(t)
            for k in range(GGML_MAX_SRC):
                if t.src[k] != NULL:
                    d.src[k] = self.dup(t.src[k])
        return 0

cdef object copy_graph(Backend backend, ggml_cgraph *g):
    """The graph with all its tensors on another backend: a ggml_backend_graph_copy."""
    cdef Copier c = Copier()
    cdef int i
    cdef ggml_cgraph *made
    cdef ggml_tensor *s
    cdef ggml_tensor *d
    result = _structs.ggml_backend_graph_copy()
    result.ctx_allocated, result.ctx_unallocated = new_context(), new_context()
    try:
        c.allocated, c.views = arg_context(result.ctx_allocated, b"ggml_backend_graph_copy"), arg_context(result.ctx_unallocated, b"ggml_backend_graph_copy")
        c.made, c.todo = {}, []
        for i in range(g.n_leafs):
            c.dup(g.leafs[i])
        for i in range(g.n_nodes):
            c.dup(g.nodes[i])
        c.connect()
        result.buffer = HANDLE(alloc_context(c.allocated, backend.buft()))
        if result.buffer is None and c.made:
            fail(MemoryError, "no memory for the copies of the graph's tensors")
        for source, target in c.made.items():
            s, d = <ggml_tensor *><size_t>source, <ggml_tensor *><size_t>target
            if s.view_src != NULL:
                place_view(d)
            elif s.data != NULL and not buffer_dead(s):
                copy(s, d)
        made = graph_new(c.allocated, len(c.made) + 1, False)
        for i in range(g.n_leafs):
            graph_expand(made, c.dup(g.leafs[i]), False)
        for i in range(g.n_nodes):
            graph_expand(made, c.dup(g.nodes[i]), False)
        result.graph = wrap_graph(made)
    except BaseException:
        free_copy(result)
        raise
    return result

cdef object free_copy(object copied):
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
        TypeError: backend is no backend, or graph is no graph.
        ValueError: a tensor is a view of a view.
        RuntimeError: the backend, or a tensor or its memory, was freed.
        MemoryError: there is no memory for the copies.
    """
    enter(b"ggml_backend_graph_copy")
    cdef Backend b = backend_arg(backend, "backend")
    return copy_graph(b, arg_graph(graph, b"graph"))

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
    copied = copy.contents if isinstance(copy, ctypes._Pointer) and copy else getattr(copy, "_obj", copy)
    if not isinstance(copied, _structs.ggml_backend_graph_copy):
        fail(TypeError, f"copy is {copy!r}: need a ggml_backend_graph_copy")
    try:
        free_copy(copied)
    except (TypeError, RuntimeError) as error:           # fields that a caller wrote
        enter(b"ggml_backend_graph_copy_free")
        fail(type(error), "copy." + str(error).partition(": ")[2])

cdef set addresses(object nodes, int n):
    cdef ggml_tensor **found = <ggml_tensor **>malloc(<size_t>max(n, 1) * sizeof(void *))
    cdef int i
    if found == NULL:
        raise MemoryError()
    try:
        arg_tensors(nodes, n, b"test_nodes", found)
        return {<size_t>found[i] for i in range(n)}
    finally:
        free(found)

def ggml_backend_compare_graph_backend(backend1, backend2, graph, callback, user_data, test_nodes=None, num_test_nodes=0):
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
        ValueError: a node does not fit its operands, a tensor has no data, or test_nodes has fewer entries.
        RuntimeError: something was freed, a backend failed, or the callback changed the graph.
        MemoryError: there is no memory for the copy of the graph.
    """
    enter(b"ggml_backend_compare_graph_backend")
    cdef Backend a = backend_arg(backend1, "backend1"), b = backend_arg(backend2, "backend2")
    cdef ggml_cgraph *g = arg_graph(graph, b"graph")
    cdef int n = arg_int32(num_test_nodes, b"num_test_nodes")
    cdef ggml_cgraph *other
    show = callable_of(callback, _structs.ggml_backend_eval_callback)
    if show is None:
        fail(TypeError, "callback is None: need a ggml_backend_eval_callback")
    data = user_data if user_data is None or isinstance(user_data, int) else <size_t>arg_address(user_data, b"user_data")
    wanted = addresses(test_nodes, n) if n else None
    copied = copy_graph(b, g)
    try:
        other = arg_graph(copied.graph, b"graph")
        compare(a, b, graph, other, arg_context(copied.ctx_unallocated, b"ggml_backend_compare_graph_backend"), show, data, wanted)
    finally:
        free_copy(copied)
    return True

cdef int compare(Backend a, Backend b, object graph, ggml_cgraph *h, ggml_context *ctx, object show, object data, object wanted) except -1:
    cdef ggml_cgraph *g = arg_graph(graph, b"graph")
    cdef ggml_cgraph *one = graph_new(ctx, 1, False)
    cdef ggml_cgraph *two = graph_new(ctx, 1, False)
    cdef int i, n = g.n_nodes
    if wanted is not None:
        finish(a, g)
        finish(b, h)
    for i in range(n):
        if wanted is None:
            one.nodes[0], one.n_nodes = g.nodes[i], 1
            two.nodes[0], two.n_nodes = h.nodes[i], 1
            finish(a, one)
            finish(b, two)
        if (engine.op_computes(g.nodes[i].op) if wanted is None else <size_t>g.nodes[i] in wanted):
            answer = show(i, wrap_tensor(g.nodes[i]), wrap_tensor(h.nodes[i]), data)
            unpark()
            if not answer:
                return 0
            if arg_graph(graph, b"graph").n_nodes != n:
                fail(RuntimeError, "the callback changed the graph")
    return 0

cdef int finish(Backend b, ggml_cgraph *g) except -1:
    cdef int status = b.compute(g)
    b.synchronize()
    if status:
        fail(RuntimeError, f"{b.name().decode()} failed with status {status}")
    return 0
