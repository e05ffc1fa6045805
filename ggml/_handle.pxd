# Handles: the numbers by which callers know the objects of this package (buffers, schedulers, GGUF contexts ...).
# A function that takes a handle finds the object here.
from cpython.object cimport PyObject

cdef class Handle:
    cdef void *at                           # the handle: the address of a block of our own, or of a caller's struct
    cdef bint foreign                       # whether it is the latter, which is not freed here
    cdef object keep                        # what must live as long as this object
    cdef int close(self) except -1          # ends the handle: find() refuses its number

cdef dict live                              # address: Handle
cdef Handle opened(Handle h)                # allocates a handle for a new object, and enters it
cdef int known(Handle h) except -1          # enters an object whose address is set
cdef void set_title(type kind, str title)   # what messages call the handles of a class: "buffer type"
cdef inline object HANDLE(Handle h): return <size_t>h.at if h is not None else None

# ---- finding the object of a handle ----------------------------------------------------------------------------------
cdef dict adopters                          # class: (struct type, function(address, owner) that wraps such a struct)
cdef Handle find(object o, type kind, str name)                     # of an argument; raises unless it is a live `kind`
cdef list handles(object array, size_t n, type kind, str name)      # the same for an array of handles
cdef PyObject *handle_at(void *at) except? NULL                     # by address, borrowed; NULL: no handle
cdef bint memory_at(object address, size_t size) except -1          # whether `size` bytes can be read there
cdef Handle adopted(object address, type kind)                      # for what a callback returned; None for NULL
