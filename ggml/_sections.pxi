# A part of _core.pyx: sections, and code of programs outside of them (see _sections.h and _core.pxd).

cdef int section_pause() noexcept nogil:
    return gg_section_pause()

cdef int section_shared() noexcept nogil:
    return gg_section_enter(GG_SHARED)

cdef int section_alone() noexcept nogil:
    return gg_section_enter(GG_ALONE)

cdef void section_back(int before) noexcept nogil:
    gg_section_back(before)

cpdef bint has_gil() noexcept:
    """Whether this build is for a Python with a GIL."""
    return GG_HAS_GIL

cdef int compute_outside(gg_call *call) noexcept:
    cdef int status, section = gg_section_pause()
    with nogil:
        status = gg_compute(call)
    gg_section_back(section)
    return status

class _Anew(BaseException):
    """Ends a call that begins anew. No program sees it."""

gg_anew = <PyObject *>_Anew

cdef object letting_go():
    """A dict of what this thread's call lets go of once it has left its section."""
    cdef PyObject *kept = gg_section_kept()
    if kept != NULL:
        return <object>kept
    made = {}
    Py_INCREF(made)
    gg_section_keep(<PyObject *>made)
    return made

cdef object let_go(object value):
    if not GG_HAS_GIL and gg_section_here() != GG_OUTSIDE:
        (<dict>letting_go())[id(value)] = value

cdef object outside(object (*function)(object), object value):
    global gg_running
    cdef const char *running = gg_running
    cdef int section
    cdef uint64_t changes
    cdef PyObject *kept
    cdef bint may
    if GG_HAS_GIL or gg_section_here() == GG_OUTSIDE:
        made = function(value)
        gg_running = running
        return made
    key = <size_t><void *>function, id(value)
    if gg_section_kept() != NULL and key in <dict>letting_go():
        return (<dict>letting_go())[key][1]
    kept, may = gg_section_keep(NULL), gg_section_anew(False)       # calls within belong to the program
    changes = gg_section_changes()
    section = gg_section_pause()
    try:
        made = function(value)
    finally:
        gg_section_back(section)
        gg_section_keep(kept)
        gg_section_anew(may)
        gg_running = running
    (<dict>letting_go())[key] = value, made
    if may and gg_section_changes() - changes != (section == GG_ALONE):     # other than that of this thread
        raise _Anew
    return made

cdef int context_free(ggml_context *ctx) except -1:
    """Frees a live context. Without a GIL other threads go on meanwhile where it is small."""
    cdef int section = gg_section_enter(GG_SHARED), how = GG_NOT_SMALL
    if not GG_HAS_GIL and gg_section_here() == GG_SHARED:
        how = gg_context_leave(ctx, gg_section_changed)
    if how == GG_NOT_SMALL:
        how = context_free_alone(ctx)
    end_contexts()
    gg_section_back(section)
    if how == GG_GONE:
        fail(RuntimeError, f"ctx ({<size_t>ctx}) is not a live context: freed, or never made")
    return 0

cdef int context_free_alone(ggml_context *ctx) except -1:
    cdef gg_region *rest
    cdef int section = gg_section_enter(GG_ALONE)
    if not GG_HAS_GIL and gg_context_find(ctx) == NULL:     # another thread was alone before
        gg_section_back(section)
        return GG_GONE
    _kept = <object><PyObject *>ctx.keep if ctx.keep != NULL else None     # lives until the arena is freed
    drop_kept(ctx)
    rest = gg_context_free(ctx)
    gg_section_back(section)
    gg_context_rest(rest)
    return GG_LEFT

cdef object end_contexts():
    """Ends those that were freed while other threads might use them, and that none of these uses any more."""
    cdef ggml_context *ctx = NULL if GG_HAS_GIL else gg_context_left(gg_section_passed)
    while ctx != NULL:
        drop_kept(ctx)
        gg_context_end(ctx)
        ctx = gg_context_left(gg_section_passed)

cdef tuple same_pair(object a, object b):
    """(a, b), the same tuple if the call begins anew."""
    pair = a, b
    if GG_HAS_GIL or gg_section_here() == GG_OUTSIDE:
        return pair
    # A tuple of further arguments is a new one each time; what it holds is the same.
    key = id(a), tuple([id(x) for x in <tuple>b]) if type(b) is tuple else id(b)
    return (<dict>letting_go()).setdefault(key, pair)

cdef object paused(object function, tuple args):
    cdef int section = gg_section_pause()
    try:
        return function(*args)
    finally:
        gg_section_back(section)

def guard(function, shares):
    """Lets a function run in a section from now on (bool: one that it shares). Does nothing where there is a GIL."""
    cdef const char *problem = gg_section_guard(<PyObject *>function, GG_SHARED if shares else GG_ALONE)
    if problem != NULL:
        raise ImportError(f"ggml: {function!r} can't run without the GIL: {problem.decode()}")
    gg_uncounted(<PyObject *>function)

if not GG_HAS_GIL:
    if gg_sections_begin():
        raise ImportError("ggml: the system has no room for another variable of threads")
    gg_change_begin, gg_change_end = section_alone, section_back
