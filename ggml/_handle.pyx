"""Handles: objects that callers know by a number, as C programs know them by a pointer.

The number is an address: of a small block that is allocated for the purpose, or of a struct of the caller. A block is
not reused until 4096 other handles were closed, so that a stale handle is reported instead of meaning another object.
"""
import ctypes

from cpython.number cimport PyNumber_Index
from cpython.object cimport PyObject

from ._core cimport (
    allocate, engine, fail, has_gil, is_a, let_go, outside, repr_short, section_alone, section_back,
)

cdef extern from *:
    """
    #include <stdlib.h>
    /* Blocks of closed handles: each is kept until as many others were closed. Any thread may add one. */
    enum { GG_DEAD = 4096 };
    static void *gg_dead[GG_DEAD];
    static size_t gg_n_dead;
    static void gg_block_close(void *block) {
        const size_t i = __atomic_fetch_add(&gg_n_dead, 1, __ATOMIC_RELAXED) % GG_DEAD;
        free(__atomic_exchange_n(&gg_dead[i], block, __ATOMIC_ACQ_REL));
    }
    """
    void gg_block_close(void *block)

cdef enum:
    NEAR = 64

live = {}
adopters = {}
cdef dict titles = {}                       # class: what messages call it

cdef struct Near:                           # a recent look-up: graphs look up the buffer of every tensor
    void *at
    PyObject *handle                        # borrowed from `live`; NULL: none
cdef Near near[NEAR]

cdef inline Near *near_of(void *at) noexcept:
    return &near[(<size_t>at >> 4) % NEAR]

cdef PyObject *handle_at(void *at) except? NULL:
    cdef Near *n = near_of(at)
    cdef PyObject *handle = n.handle
    if n.at != at or not has_gil():         # without a GIL another thread may be writing to it
        found = live.get(<size_t>at)
        handle = <PyObject *>found if found is not None else NULL
        if has_gil():
            n.at, n.handle = at, handle
        elif handle != NULL:
            let_go(found)                   # borrowed until the call ends: another thread may close it
    return handle

cdef int known(Handle h) except -1:
    cdef int section
    if not has_gil() and not h.foreign:     # nobody has its number
        live[<size_t>h.at] = h
        return 0
    section = section_alone()
    near_of(h.at).at = NULL
    live[<size_t>h.at] = h
    section_back(section)
    return 0

cdef class Handle:
    """An object that callers know by a number."""

    def __cinit__(self):
        self.at = NULL

    cdef int close(self) except -1:
        """Ends the handle. Other threads that have found the object keep it until their calls end."""
        if has_gil():
            near_of(self.at).at = NULL
        closed = live.pop(<size_t>self.at, None)
        let_go(self)
        if closed is not None and not self.foreign:
            gg_block_close(self.at)
        return 0

cdef Handle opened(Handle h):
    h.at = allocate(1, 64)
    known(h)
    return h

# ---- words for messages ----------------------------------------------------------------------------------------------
cdef void set_title(type kind, str title):
    titles[kind] = title

titles[Handle] = "handle"

cdef str with_article(str title):
    article = "an" if title.startswith(("a", "e", "i", "o", "u")) else "a"
    return f"{article} {title}"

cdef str title_of(Handle h):
    """The title of an object's class, or of its base class."""
    return titles.get(type(h)) or titles[type(h).__mro__[1]]

# ---- finding the object of a handle ----------------------------------------------------------------------------------
cdef object byref_type = type(ctypes.byref(ctypes.c_int()))
cdef object void_p = ctypes.c_void_p
cdef object pointer_base = ctypes._Pointer
cdef object struct_base = ctypes.Structure

cdef object struct_address(object o):
    """The address that an object stands for, and the struct type at that address (None: not known)."""
    if is_a(o, byref_type):
        return ctypes.addressof(o._obj), type(o._obj)
    if is_a(o, struct_base):
        return ctypes.addressof(o), type(o)
    if is_a(o, pointer_base):
        return (ctypes.addressof(o.contents) if o else None), type(o)._type_
    if is_a(o, void_p):
        return o.value, None
    try:
        return int(PyNumber_Index(o)), None
    except TypeError:
        return o, None

cdef Handle find(object o, type kind, str name):
    cdef Handle h = None
    cdef str title = titles[kind]
    address, struct = (o, None) if type(o) is int else outside(struct_address, o)
    if address is None or (type(address) is int and address == 0):
        fail(TypeError, f"{name} is {'None' if o is None else 'NULL'}: need {with_article(title)}")
    if type(address) is int:
        h = live.get(address)
    if h is not None:
        if isinstance(h, kind):
            return h
        fail(TypeError, f"{name} is {with_article(title_of(h))}: need {with_article(title)}")
    if struct is not None and kind in adopters and adopters[kind][0] is struct:
        return adopters[kind][1](address, o)
    if type(address) is not int:
        fail(TypeError, f"{name} is {repr_short(o)}: need {with_article(title)}")
    fail(RuntimeError, f"{name} ({hex(address)[:18]}) is not a live {title}: freed, or never one")

cdef bint memory_at(object address, size_t size) except -1:
    return 0 < address < 1 << 63 and engine.readable(<void *><size_t>address, size)

cdef Handle adopted(object address, type kind):
    cdef Handle h
    if not address:
        return None
    h = live.get(address)
    if h is not None and isinstance(h, kind):
        return h
    if h is not None or not memory_at(address, ctypes.sizeof(adopters[kind][0])):
        fail(ValueError, f"{address:#x} is the address of no {titles[kind]}")
    return adopters[kind][1](address, None)

cdef object list_of(object array):
    """A list of what an array of any kind has, None for other objects."""
    if is_a(array, byref_type):
        array = array._obj if is_a(array._obj, ctypes.Array) else [array._obj]
    return list(array) if isinstance(array, (list, tuple)) or is_a(array, ctypes.Array) else None

cdef list handles(object array, size_t n, type kind, str name):
    if array is None:
        fail(TypeError, f"{name} is None: need an array of {n}")
    given = outside(list_of, array)
    if given is not None:
        if <size_t>len(given) < n:
            fail(ValueError, f"{name} has {len(given)} elements: need {n}")
    elif isinstance(array, int) or is_a(array, void_p):
        address, _ = outside(struct_address, array)
        if not address or n > 1 << 20 or not memory_at(address, n * 8):
            fail(ValueError, f"{name} is not an array of {n} handles")
        given = (ctypes.c_void_p * n).from_address(address)
    elif is_a(array, pointer_base):
        if not array:
            fail(ValueError, f"{name} is a NULL pointer: need an array of {n}")
        given = array
    else:
        fail(TypeError, f"{name} is {repr_short(array)}: need an array of {n}")
    return [find(given[i], kind, f"{name}[{i}]") for i in range(n)]
