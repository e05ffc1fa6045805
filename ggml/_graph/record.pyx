"""Recording what compute calls do, for ggml.profiler."""
from threading import get_ident

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from .._core cimport (
    GGML_MAX_SRC, compute_outside, engine, gg_call, gg_lane, gg_nbytes, gg_node_facts, gg_profile, gg_span, ggml_tensor,
    section_alone, section_back,
)

cdef struct Place:                      # where a tensor lies
    uint64_t tensor, data, nbytes

cdef enum:
    PLACES = 1 + GGML_MAX_SRC           # of a node: its own, and those of its operands

SIZES = {"facts": sizeof(gg_node_facts), "span": sizeof(gg_span), "places": PLACES * sizeof(Place)}

cdef list receivers = []                # the Recorders that are on
cdef dict known = {}                    # facts of graphs that were computed, by the first node and their number
recorders = 0

cdef class Recorder:
    """Receives what is computed between start and stop.

    Args:
        limit: most spans (int) that are kept, of a thread and a node each.
        places: True to keep where the tensors lie.
    """
    cdef readonly int64_t limit, n_spans
    cdef readonly int64_t dropped_calls, dropped_ns     # calls that were not kept, and their time
    cdef readonly bint places, on
    cdef readonly list calls                            # of Call

    def __init__(self, limit, places):
        self.limit, self.places, self.calls = limit, places, []

    def start(self):
        """Receives from now on."""
        global recorders
        cdef int section = section_alone()
        self.on = True
        receivers.append(self)
        recorders += 1
        section_back(section)

    def stop(self):
        """Receives no more. A compute call that is still running is not kept."""
        global recorders
        cdef int section = section_alone()
        try:
            self.on = False
            receivers.remove(self)
            recorders -= 1
            if not receivers:
                known.clear()
        finally:
            section_back(section)

    cdef int add(self, Call call) except -1:
        if not self.on:
            return 0
        if call.spans is None or self.n_spans + call.n_spans > self.limit:
            self.dropped_calls += 1
            self.dropped_ns += call.end - call.start
        else:
            self.n_spans += call.n_spans
            self.calls.append(call)
        return 0

cdef class Call:
    """A compute call: bytes of structs that ggml.profiler reads as NumPy arrays."""
    cdef readonly object facts, places, spans           # of the nodes; None: not kept
    cdef readonly tuple lanes                           # number of spans of each thread, in order
    cdef readonly int64_t n_spans, start, end           # ns of the clock of time.monotonic_ns
    cdef readonly object thread                         # identifier of the Python thread
    cdef readonly int status

cdef object facts_of(gg_call *call):
    """The facts of the nodes; the same object as before if nothing has changed since."""
    cdef gg_node_facts f
    cdef int i
    cdef char *old
    cdef tuple key = (<size_t>call.nodes[0] if call.n_nodes else 0, call.n_nodes)
    facts = known.get(key)
    if facts is not None:
        old = PyBytes_AS_STRING(facts)
        for i in range(call.n_nodes):
            engine.node_describe(&f, call.nodes[i])
            if memcmp(&f, old + <size_t>i * sizeof(f), sizeof(f)):
                break
        else:
            return facts
    facts = PyBytes_FromStringAndSize(NULL, call.n_nodes * <Py_ssize_t>sizeof(f))
    for i in range(call.n_nodes):
        engine.node_describe(<gg_node_facts *>PyBytes_AS_STRING(facts) + i, call.nodes[i])
    known[key] = facts
    return facts

cdef Place place_of(const ggml_tensor *t) noexcept:
    cdef Place p
    p.tensor, p.data, p.nbytes = <uint64_t>t, <uint64_t>t.data, gg_nbytes(t)
    return p

cdef object places_of(gg_call *call):
    """The places of the nodes that compute, and of their operands."""
    cdef int i, k
    cdef ggml_tensor *t
    places = PyBytes_FromStringAndSize(NULL, call.n_nodes * <Py_ssize_t>(PLACES * sizeof(Place)))
    cdef Place *to = <Place *>PyBytes_AS_STRING(places)
    memset(to, 0, <size_t>call.n_nodes * PLACES * sizeof(Place))
    for i in range(call.n_nodes):
        t = call.nodes[i]
        to[i * PLACES] = place_of(t)
        if not engine.op_computes(t.op):                # a view: its operands need not have been checked
            continue
        for k in range(GGML_MAX_SRC):
            if t.src[k] != NULL:
                to[i * PLACES + 1 + k] = place_of(t.src[k])
    return places

cdef int keep_spans(Call kept, gg_profile *profile) except -1:
    cdef int i
    cdef gg_lane *lane
    cdef int64_t total = 0, at = 0
    cdef list counts = []
    for i in range(profile.n_lanes):
        counts.append(profile.lanes[i].n)
        total += profile.lanes[i].n
    kept.spans = PyBytes_FromStringAndSize(NULL, total * <Py_ssize_t>sizeof(gg_span))
    for i in range(profile.n_lanes):
        lane = &profile.lanes[i]
        memcpy(<gg_span *>PyBytes_AS_STRING(kept.spans) + at, lane.spans, <size_t>lane.n * sizeof(gg_span))
        at += lane.n
    kept.n_spans, kept.lanes = total, tuple(counts)
    return 0

cdef int compute_recorded(gg_call *call) except? -99:
    """As engine.compute; the profiles that are on receive what happened. Without memory for it, they count it only."""
    cdef gg_profile *profile = NULL
    cdef int status, section
    cdef Call kept = Call()
    cdef Recorder r
    cdef list receiving = list(receivers)
    cdef int lanes = min(call.n_threads, engine.default_threads())
    try:
        kept.facts = facts_of(call)
        if any([(<Recorder>o).places for o in receiving]):
            kept.places = places_of(call)
        profile = engine.profile_new(lanes, call.n_nodes)
    except MemoryError:
        pass
    call.profile = profile
    kept.thread = get_ident()
    kept.start = engine.clock_ns()
    status = compute_outside(call)
    kept.end = engine.clock_ns()
    call.profile = NULL
    kept.status = status
    try:
        if profile != NULL:
            keep_spans(kept, profile)
    except MemoryError:
        kept.spans = None
    finally:
        free(profile)
    section = section_alone()
    try:
        for r in receiving:
            r.add(kept)
    finally:
        section_back(section)
    return status
