"""Pointers, the registry of live objects, arguments and errors: what every other module builds on."""
import ctypes
import os
import weakref

from cpython.bytes cimport PyBytes_AsString
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact, PyLong_AsVoidPtr, PyLong_FromVoidPtr
from cpython.object cimport PyObject, Py_TYPE
from cpython.ref cimport Py_INCREF, Py_DECREF, Py_XDECREF
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, strlen

from . import _structs

cdef extern from "Python.h":
    int Py_LT
    ctypedef struct PyTypeObject:
        object (*tp_new)(PyTypeObject *, PyObject *, PyObject *)

cdef extern from "runtime/engine.h" nogil:
    void gg_clear_tensor(ggml_tensor *t)
cdef extern from "runtime/memory.h" nogil:
    gg_region *gg_region_find(int kind, const void *addr)
    bint gg_region_add(int kind, gg_region *r)
    void gg_region_remove(int kind, gg_region *r)
    gg_region *gg_region_overlap(int kind, const void *base, size_t size)
    bint gg_region_stale(const void *addr)
    void gg_region_retire(gg_region *r)
    void gg_region_leave(gg_region *r)
    bint gg_pin(gg_pins *p, ggml_tensor **nodes, int n)
    void gg_unpin(gg_pins *p)
    void *gg_pages_alloc(size_t size)
    void *gg_pages_of_file(int fd, size_t size)
    void gg_pages_free(void *p, size_t size)
    gg_region *gg_region_of_data(const void *addr)
    bint gg_readable(const void *addr, size_t size)
    ggml_context *gg_context_new(size_t mem_size, void *buffer, bint no_alloc)
    void gg_context_reset(ggml_context *ctx)
    void gg_context_free(ggml_context *ctx)
    ggml_context *gg_context_find(const void *handle)
    size_t gg_context_used(const ggml_context *ctx)
    ggml_object *gg_context_object(ggml_context *ctx, int type, size_t size, size_t *need)
    bint gg_scratch_fits(const ggml_context *ctx, size_t nbytes)
    bint gg_tensor_live(const ggml_tensor *t)
    bint gg_tensor_sound(const ggml_tensor *t)
    bint gg_tensor_usable(const ggml_tensor *t)
    bint gg_graph_live(const ggml_cgraph *g)
    bint gg_set_contiguous(ggml_tensor *t, size_t *nbytes)
    ggml_tensor *gg_context_tensor(ggml_context *ctx, const ggml_tensor *d, size_t nbytes, size_t *need)
    ggml_cgraph *gg_graph_new(ggml_context *ctx, size_t size, bint grads, size_t *need)
    bint gg_graph_sound(const ggml_cgraph *g)
    int gg_graph_expand(ggml_cgraph *g, ggml_tensor *t, bint compute, const ggml_tensor **bad)
cdef extern from "runtime/check.h" nogil:
    enum: GG_MESSAGE
    const char *gg_check(const ggml_tensor *t, char *msg)
    const char *gg_op_name(int op)
    const char *gg_unary_name(int op)
    bint gg_op_known(int op)
cdef extern from "runtime/compute.h" nogil:
    gg_call *gg_current_call()
    void gg_stop(gg_call *call, int status)
    int gg_default_threads()
cdef extern from "runtime/dispatch.h" nogil:
    int gg_isa_count()
    const char *gg_isa_name(int i)
    const char *gg_isa_needs(int i)
    bint gg_isa_supported(int i)
    int gg_isa_current()
    bint gg_isa_select(int i)
    bint gg_cpu_has(const char *feature)
cdef extern from *:
    """
    #if defined __clang__
    #define GG_COMPILER "clang " __clang_version__
    #elif defined __GNUC__
    #define GG_COMPILER "gcc " __VERSION__
    #else
    #define GG_COMPILER "unknown"
    #endif
    static const gg_engine gg_engine_table = GG_ENGINE_TABLE;

    /* The head of every ctypes object: where its memory is, what it keeps alive. Checked at import. */
    typedef struct {
        PyObject_HEAD char *b_ptr;
        int b_needsfree;
        void *b_base;
        Py_ssize_t b_size, b_length, b_index;
        PyObject *b_objects;
    } gg_cdata;

    /* Tensor pointers come and go with every call: a few dead ones are kept for the next call, as CPython does it for floats. */
    static struct { PyTypeObject *type, *base; PyObject *v[64]; int n; } gg_spare;

    static void gg_pointer_dealloc(PyObject *o) {
        PyTypeObject *type = Py_TYPE(o);
        gg_cdata *c = (gg_cdata *)o;
        const size_t at = (size_t)(c->b_ptr - (char *)o);   /* of its own, or a field of some struct? */
        if (type == gg_spare.type && gg_spare.n < 64 && !c->b_objects && !c->b_base && at < (size_t)type->tp_basicsize) {
            PyObject_GC_UnTrack(o);
            gg_spare.v[gg_spare.n++] = o;
            return;
        }
        gg_spare.base->tp_dealloc(o);   /* a heap type's lets go of the type itself */
        if (!(gg_spare.base->tp_flags & Py_TPFLAGS_HEAPTYPE)) Py_DECREF(type);
    }
    static void gg_spare_init(PyTypeObject *type) {
        gg_spare.type = type;
        gg_spare.base = type->tp_base;
        while (gg_spare.base->tp_dealloc == type->tp_dealloc) gg_spare.base = gg_spare.base->tp_base;
        type->tp_dealloc = gg_pointer_dealloc;
    }
    static PyObject *gg_spare_take(void) {   /* NULL: none */
        if (!gg_spare.n) return NULL;
        PyObject *o = gg_spare.v[--gg_spare.n];
        _Py_NewReference(o);
        return o;
    }
    """
    void gg_spare_init(PyTypeObject *type)
    PyObject *gg_spare_take()
    const char *GG_COMPILER
    const gg_engine gg_engine_table
    ctypedef struct gg_cdata:
        char *b_ptr
        PyObject *b_objects

engine = &gg_engine_table

# ---- errors ----------------------------------------------------------------------------------------------------------
cdef const char *running = b"ggml"

cdef int enter(const char *fn) noexcept:
    global running
    running = fn
    return 0

cdef const char *entered() noexcept:
    return running

cdef str where():
    return running.decode()

cdef object fail(type kind, str message):
    raise kind(f"{where()}: {message}")

cdef str repr_short(object o):
    cdef str text = repr(o)
    return text if len(text) <= 60 else text[:57] + "..."

cdef str shape_text(const ggml_tensor *t):
    return f"{gg_types[t.type].name.decode()} {[t.ne[i] for i in range(4)]}"

cdef str name_text(const ggml_tensor *t):
    return bytes(t.name[:GGML_MAX_NAME]).split(b"\0")[0].decode(errors="replace")

cdef str tensor_text(const ggml_tensor *t):
    return f"'{name_text(t)}' ({shape_text(t)})"

cdef str node_text(const ggml_tensor *t):
    return f"'{name_text(t)}' ({shape_text(t)}, {gg_op_name(t.op).decode()})"

# ---- ctypes objects --------------------------------------------------------------------------------------------------
cdef object tensor_p = _structs.ggml_tensor_p
cdef object graph_p = _structs.ggml_cgraph_p
cdef object simple_base = ctypes.c_int.__mro__[1]
cdef object cdata_base = ctypes.c_int.__mro__[2]
cdef object byref_type = type(ctypes.byref(ctypes.c_int()))
cdef PyTypeObject *tensor_p_type = <PyTypeObject *>tensor_p
cdef PyTypeObject *graph_p_type = <PyTypeObject *>graph_p
cdef tuple no_args = ()

cdef inline void **memory(object cdata) noexcept:
    return <void **>(<gg_cdata *><PyObject *>cdata).b_ptr

def _layout_known():
    x = ctypes.c_void_p(0x1234567890)
    known = (<size_t>memory(x) == <size_t>ctypes.addressof(x) and <size_t>memory(x)[0] == 0x1234567890
             and (<gg_cdata *><PyObject *>x).b_objects == NULL)
    y = ctypes.pointer(x)
    kept = y._objects
    return known and (<gg_cdata *><PyObject *>y).b_objects == <PyObject *>kept

if not _layout_known():
    raise ImportError("ggml: this Python's ctypes objects have a layout that this build does not know")
gg_spare_init(tensor_p_type)

cdef object pointer(PyTypeObject *type, void *p):
    cdef object o = type.tp_new(type, <PyObject *>no_args, NULL)
    memory(o)[0] = p
    return o

cdef object wrap_tensor(ggml_tensor *t):
    cdef PyObject *spare = gg_spare_take()
    if spare == NULL:
        return pointer(tensor_p_type, t)
    o = <object>spare
    Py_DECREF(o)      # the cast took a reference of its own
    memory(o)[0] = t
    return o

cdef object wrap_graph(ggml_cgraph *g):
    return pointer(graph_p_type, g)

cdef object wrap_handle(void *p):
    return PyLong_FromVoidPtr(p) if p != NULL else None

# ---- arguments -------------------------------------------------------------------------------------------------------
cdef object plain(object o):
    """What a ctypes scalar holds; other objects as they are."""
    return o.value if isinstance(o, simple_base) else o

cdef int64_t integer(object o, const char *name, object low, object high) except? -1:
    cdef object i = plain(o)
    if not PyLong_CheckExact(i):
        try:
            i = i.__index__()
        except (AttributeError, TypeError):
            fail(TypeError, f"{name.decode()} is {repr_short(o)}: need an integer")
    if not low <= i <= high:
        fail(ValueError, f"{name.decode()} is {repr_short(i)}: need {low} to {high}")
    return i

cdef int64_t arg_int(object o, const char *name) except? -1:
    cdef int overflow = 0
    cdef long long v
    if PyLong_CheckExact(o):
        v = PyLong_AsLongLongAndOverflow(o, &overflow)
        if not overflow:
            return v
    return integer(o, name, -(1 << 63), (1 << 63) - 1)

cdef int arg_int32(object o, const char *name) except? -1:
    cdef int64_t v = arg_int(o, name)
    if v < -0x80000000LL or v > 0x7fffffffLL:
        fail(ValueError, f"{name.decode()} is {v}: need a 32-bit integer")
    return <int>v

cdef size_t arg_size(object o, const char *name) except? 0:
    cdef int64_t v = arg_int(o, name)
    if v < 0:
        fail(ValueError, f"{name.decode()} is {v}: must not be negative")
    return <size_t>v

cdef int64_t arg_extent(object o, const char *name) except -1:
    cdef int64_t v = arg_int(o, name)
    if v < 0:
        fail(ValueError, f"{name.decode()} is {v}: must not be negative")
    return v

cdef float arg_float(object o, const char *name) except? -1:
    if PyFloat_CheckExact(o):
        return <float>PyFloat_AS_DOUBLE(o)
    cdef object v = plain(o)
    try:
        return <float><double>v
    except (TypeError, ValueError, OverflowError):
        fail(TypeError, f"{name.decode()} is {repr_short(o)}: need a number")

cdef bint arg_bool(object o, const char *name) except -1:
    if o is True or o is False:
        return o is True
    try:
        return bool(plain(o))
    except ValueError:
        fail(TypeError, f"{name.decode()} is {repr_short(o)}: need True or False")

cdef int arg_type_number(object o, const char *name) except -1:
    """A type's number, also of one that releases before this removed: its block and its bytes are 0."""
    cdef int64_t v = arg_int(o, name)
    if v < 0 or v >= GGML_TYPE_COUNT:
        fail(ValueError, f"{name.decode()} is {v}: no tensor type has this number")
    return <int>v

cdef int arg_type(object o, const char *name) except -1:
    cdef int v = arg_type_number(o, name)
    if not gg_type_ok(v):
        fail(ValueError, f"{name.decode()} is {v}: no tensor type has this number")
    return v

cdef bytes arg_text(object o, const char *name):
    if isinstance(o, bytes):
        return o
    if isinstance(o, str):
        try:
            return o.encode()
        except UnicodeEncodeError:
            fail(ValueError, f"{name.decode()} is {o!r}: it can't be encoded as UTF-8")
    o = plain(o)
    if isinstance(o, bytes):
        return o
    fail(TypeError, f"{name.decode()} is {repr_short(o)}: need bytes or str")

cdef bytes arg_path(object o, const char *name):
    return os.fsencode(o) if isinstance(o, (str, os.PathLike)) else arg_text(o, name)

cdef object owner_of(object o, size_t address, int depth=0):
    """The ctypes object whose own memory `address` begins, found in what `o` keeps alive (maybe itself); None: not known."""
    cdef object kept = getattr(o, "_objects", None) if isinstance(o, cdata_base) else o
    if isinstance(kept, dict) and depth < 6:
        for value in kept.values():
            if isinstance(value, cdata_base) and ctypes.addressof(value) == address:
                return value
            found = owner_of(value, address, depth + 1)
            if found is not None:
                return found
    return None

cdef void *int_address(object o, const char *name) except? NULL:
    try:
        return PyLong_AsVoidPtr(o)
    except OverflowError:
        fail(ValueError, f"{name.decode()} is {repr_short(o)}: no address")

cdef int arg_buffer(object o, const char *name, size_t need, void **out) except -1:
    """Where `o` (anything c_void_p takes, byref, arrays, buffers) is. Its size is held against `need`; where it is not known, memory of
    that size must be there."""
    cdef size_t address = 0
    cdef object size = None, owner
    out[0] = NULL
    if o is None:
        return 0
    if PyLong_CheckExact(o):
        address = <size_t>int_address(o, name)
    elif isinstance(o, byref_type):
        owner = o._obj
        address, size = <size_t>memory(owner), ctypes.sizeof(owner)
    elif isinstance(o, bytes):
        address, size = <size_t>PyBytes_AsString(o), len(o)
    elif isinstance(o, cdata_base):
        if isinstance(o, simple_base) or isinstance(o, ctypes._Pointer) or isinstance(o, ctypes._CFuncPtr):
            if isinstance(o, (ctypes.c_char_p, ctypes.c_void_p, ctypes._Pointer, ctypes._CFuncPtr)):
                address = <size_t>memory(o)[0]
            else:
                fail(TypeError, f"{name.decode()} is {repr_short(o)}: need an address or a buffer")
            owner = owner_of(o, address)
            size = None if owner is None else ctypes.sizeof(owner)
        else:
            address, size = <size_t>memory(o), ctypes.sizeof(o)
    elif hasattr(o, "_as_parameter_"):
        return arg_buffer(o._as_parameter_, name, need, out)
    elif isinstance(o, str):
        fail(TypeError, f"{name.decode()} is {repr_short(o)}: need bytes or an address")
    else:
        try:
            view = memoryview(o)
        except TypeError:
            try:
                return arg_buffer(o.__index__(), name, need, out)
            except (AttributeError, TypeError):
                fail(TypeError, f"{name.decode()} is {repr_short(o)}: need an address or a buffer")
        if not view.c_contiguous:
            fail(ValueError, f"{name.decode()} is not contiguous")
        address = buffer_address(view)
        size = view.nbytes
    if address and size is not None and size < need:
        fail(ValueError, f"{name.decode()} has {size} bytes: need {need}")
    if address and size is None and need and not gg_readable(<void *>address, need):
        fail(ValueError, f"{name.decode()} ({address:#x}) is no memory of {need} bytes")
    out[0] = <void *>address
    return 0

cdef size_t buffer_address(object view) except? 0:
    cdef const unsigned char[:] bytes_view
    if view.nbytes == 0:
        return 0
    bytes_view = view.cast("B")
    return <size_t>&bytes_view[0]

cdef void *arg_address(object o, const char *name) except? NULL:
    cdef void *p
    arg_buffer(o, name, 0, &p)
    return p

cdef bint called_as(object given, object callback_type) except -1:
    """Whether functions of a type can be called as those of another: as many arguments, and a struct comes back from both or none."""
    cdef object have = getattr(given, "_argtypes_", None)
    if have is None:                                     # of a library: nobody said what it takes
        return True
    struct = [isinstance(t._restype_, type) and issubclass(t._restype_, ctypes.Structure) for t in (given, callback_type)]
    return len(have) == len(callback_type._argtypes_) and struct[0] == struct[1]

cdef void *arg_callback(object o, object callback_type, const char *name) except? NULL:
    """Address of a C function: a CFUNCTYPE instance, an address, or a callable, for which a thunk is made (see keep_callback)."""
    if o is None:
        return NULL
    cdef void *p
    if isinstance(o, ctypes._CFuncPtr):
        if not called_as(type(o), callback_type):
            fail(TypeError, f"{name.decode()} is {repr_short(o)}: need a {callback_type.__name__}")
        return memory(o)[0]
    if PyLong_CheckExact(o) or isinstance(o, ctypes.c_void_p):
        p = arg_address(o, name)
        if p != NULL and not gg_readable(p, 1):
            fail(ValueError, f"{name.decode()} ({<size_t>p:#x}) is the address of no function")
        return p
    fail(TypeError, f"{name.decode()} is {repr_short(o)}: need a callback")

def as_callback(o, callback_type):
    """`o` as a callback object: Python callables are wrapped, the rest stays. The caller keeps it alive."""
    if o is None or isinstance(o, (int, ctypes.c_void_p, ctypes._CFuncPtr)) or not callable(o):
        return o
    return callback_type(o)

# ---- contexts --------------------------------------------------------------------------------------------------------
cdef ggml_context *arg_context(object o, const char *fn) except NULL:
    cdef ggml_context *ctx
    cdef int overflow
    global running
    running = fn
    if PyLong_CheckExact(o):
        ctx = gg_context_find(<void *><size_t>PyLong_AsLongLongAndOverflow(o, &overflow))     # -1 where it overflows: no context
        if ctx != NULL:
            return ctx
    return context_slow(o)

cdef ggml_context *context_slow(object o) except NULL:
    if o is None:
        fail(TypeError, "ctx is None: need a context")
    cdef object handle = o
    if isinstance(o, ctypes.c_void_p) or isinstance(o, ctypes._Pointer):
        handle = <size_t>memory(o)[0]
    if not PyLong_CheckExact(handle):
        fail(TypeError, f"ctx is {repr_short(o)}: need a context")
    cdef ggml_context *ctx = NULL
    if 0 < handle < 1 << 64:
        ctx = gg_context_find(<void *><size_t>handle)
    if ctx == NULL:
        fail(RuntimeError, f"ctx ({repr_short(o)}) is no live context: freed, or never made")
    return ctx

cdef ggml_context *context_of(const void *p) noexcept:
    cdef gg_region *r = gg_region_find(GG_ARENA, p)
    return r.ctx if r != NULL else NULL

cdef object keep(ggml_context *ctx, object value):
    if ctx.keep == NULL:
        kept = []
        Py_INCREF(kept)
        ctx.keep = <PyObject *>kept
    (<list><object><PyObject *>ctx.keep).append(value)

cdef object drop_kept(ggml_context *ctx):
    cdef PyObject *kept = <PyObject *>ctx.keep
    ctx.keep = NULL
    Py_XDECREF(kept)

def _owner_died(size_t base, size_t region):
    cdef gg_region *r = gg_region_find(GG_ARENA, <void *>base)
    if <size_t>r == region and r.ctx == NULL:
        region_leave(GG_ARENA, r)

def ggml_init(params):
    """Creates a context: an arena in which tensors and graphs are allocated one after the other.

    Contexts that still use memory of the caller that overlaps mem_buffer are freed.

    Args:
        params: ggml_init_params with three fields. mem_size: size of the arena in bytes; without mem_buffer it is
            rounded up to a multiple of 16, and 0 makes an arena that grows as needed. mem_buffer: memory of the
            caller to use as arena (ctypes memory or an address), or None to allocate it; the context keeps ctypes
            memory alive. no_alloc: True if tensors get no data.
    Returns:
        Handle of the context (int); free it with ggml_free.
    Raises:
        TypeError: params is not a ggml_init_params.
        ValueError: mem_buffer is smaller than mem_size, is not readable or lies in the arena of a live context.
        MemoryError: the memory cannot be allocated.
    Example:
        params = ggml.ggml_init_params(mem_size=16 * 1024 * 1024, mem_buffer=None, no_alloc=False)
        ctx = ggml.ggml_init(params)
    """
    enter(b"ggml_init")
    if not isinstance(params, _structs.ggml_init_params):
        fail(TypeError, f"params is {repr_short(params)}: need ggml_init_params")
    cdef size_t size = params.mem_size
    cdef void *buffer = <void *><size_t>(params.mem_buffer or 0)
    cdef bint no_alloc = params.no_alloc
    cdef ggml_context *ctx
    cdef gg_region *other
    cdef object owner = None
    if size > <size_t>1 << 62:
        fail(MemoryError, f"mem_size is {size} bytes: more than there can be")
    if buffer != NULL:
        owner = owner_of(params, <size_t>buffer)
        if owner is not None and ctypes.sizeof(owner) < size:
            fail(ValueError, f"mem_buffer has {ctypes.sizeof(owner)} bytes, mem_size is {size}")
        if owner is None and not gg_readable(buffer, size):
            fail(ValueError, f"mem_buffer ({<size_t>buffer:#x}) is no readable memory of {size} bytes")
        other = gg_region_overlap(GG_ARENA, buffer, size)
        while other != NULL:
            if other.ctx == NULL:
                region_leave(GG_ARENA, other)
            elif other.mapped:
                fail(ValueError, "mem_buffer lies in the arena of a live context")
            else:
                context_free(other.ctx)
            other = gg_region_overlap(GG_ARENA, buffer, size)
    ctx = gg_context_new(size, buffer, no_alloc)
    if ctx == NULL:
        fail(MemoryError, f"{size} bytes can't be had")
    if owner is not None:
        keep(ctx, owner)
        try:
            token = weakref.ref(owner, lambda _, b=<size_t>buffer, r=<size_t>ctx.chunk: _owner_died(b, r))
            Py_INCREF(token)
            ctx.chunk.owner = <PyObject *>token
        except TypeError:
            pass
    return PyLong_FromVoidPtr(ctx)

cdef ggml_context *context_new() except NULL:
    cdef ggml_context *ctx = gg_context_new(0, NULL, True)
    if ctx == NULL:
        fail(MemoryError, "no memory for a context")
    return ctx

cdef int context_free(ggml_context *ctx) except -1:
    kept = <object><PyObject *>ctx.keep if ctx.keep != NULL else None   # alive until the arena is gone
    drop_kept(ctx)
    gg_context_free(ctx)
    return 0

def ggml_free(ctx):
    """Frees a context with all its tensors and graphs.

    Pointers to them become invalid, and functions that get one raise RuntimeError. NumPy and DLPack views of
    tensors stay valid. Tensors and graphs stay usable only if the arena is memory of the caller (mem_buffer), as
    long as that memory exists.

    Args:
        ctx: context; None is accepted and ignored.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
    if ctx is not None:
        context_free(arg_context(ctx, b"ggml_free"))

def ggml_reset(ctx):
    """Removes all tensors and graphs from a context and keeps its memory for new ones.

    Pointers to them become invalid, and a scratch buffer is no longer used. A context that grows keeps only its
    first block of memory.

    Args:
        ctx: context to empty.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context, or NumPy or DLPack views or a running computation use tensors in
            its first block of memory.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_reset")
    cdef gg_region *kept = c.chunk
    while kept.prev != NULL:
        kept = kept.prev
    if kept.views:
        fail(RuntimeError, "NumPy or DLPack views of the context's tensors are alive, or a compute uses them")
    drop_kept(c)
    gg_context_reset(c)

def ggml_used_mem(ctx):
    """Gives the memory that is in use in a context.

    Args:
        ctx: context.
    Returns:
        Bytes of the arena in use (int): objects, their headers and padding; data in scratch buffers is not
        included.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
    return gg_context_used(arg_context(ctx, b"ggml_used_mem"))

def ggml_get_mem_size(ctx):
    """Gives the size of a context's arena.

    Args:
        ctx: context.
    Returns:
        Size in bytes (int). For a context that grows, the bytes used in earlier blocks plus the size of the newest.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_get_mem_size")
    return c.closed + c.chunk.size if c.grows else c.mem_size

def ggml_get_mem_buffer(ctx):
    """Gives the address of a context's arena.

    Args:
        ctx: context.
    Returns:
        Address (int); for a context that grows, that of its newest block.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
    return wrap_handle(arg_context(ctx, b"ggml_get_mem_buffer").chunk.base)

def ggml_get_no_alloc(ctx):
    """Tells whether new tensors of a context get no data.

    Args:
        ctx: context.
    Returns:
        True if ggml_init or ggml_set_no_alloc has set no_alloc.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
    return bool(arg_context(ctx, b"ggml_get_no_alloc").no_alloc)

def ggml_set_no_alloc(ctx, no_alloc):
    """Sets whether new tensors of a context get data.

    Tensors that exist already do not change.

    Args:
        ctx: context.
        no_alloc: True for tensors without data, False for tensors with data.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context handle, or no_alloc is not a truth value.
        RuntimeError: ctx is not a live context.
    """
    arg_context(ctx, b"ggml_set_no_alloc").no_alloc = arg_bool(no_alloc, b"no_alloc")

def ggml_set_scratch(ctx, scratch):
    """Sets the scratch buffer in which a context places the data of new tensors.

    The tensor structs stay in the arena, as do the values of ggml_new_i32 and ggml_new_f32. Views share memory as
    always.

    Args:
        ctx: context; it keeps the buffer alive if it is ctypes memory.
        scratch: ggml_scratch with three fields. offs: first byte to use. size: bytes in all. data: address of the
            memory, or None to place data in the arena again.
    Returns:
        Bytes in use of the buffer that was set before (int), its offs included; 0 if there was none.
    Raises:
        TypeError: ctx is not a context handle, or scratch is not a ggml_scratch.
        ValueError: offs is larger than size, or data is not readable memory of size bytes.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_set_scratch")
    if not isinstance(scratch, _structs.ggml_scratch):
        fail(TypeError, f"scratch is {repr_short(scratch)}: need ggml_scratch")
    cdef size_t size = scratch.size, data = scratch.data or 0, used = scratch.offs
    cdef size_t before = c.scratch_used if c.scratch != NULL else 0
    owner = owner_of(scratch, data) if data else None
    if used > size:
        fail(ValueError, f"scratch.offs is {used}: need 0 to scratch.size, {size}")
    if data and size > (ctypes.sizeof(owner) if owner is not None else size if gg_readable(<void *>data, size) else 0):
        fail(ValueError, f"scratch.data ({data:#x}) is no memory of {size} bytes")
    if owner is not None and (c.keep == NULL or not any([kept is owner for kept in <list><object><PyObject *>c.keep])):
        keep(c, owner)
    used += (16 - (data + used) % 16) % 16
    c.scratch, c.scratch_size, c.scratch_used = <uint8_t *>data, size, min(used, size)
    return before

def ggml_new_buffer(ctx, nbytes):
    """Allocates memory for any use in the arena of a context.

    The memory is freed with the context. It is allocated with no_alloc too.

    Args:
        ctx: context.
        nbytes: size in bytes, 0 or more.
    Returns:
        Address of the memory (int), a multiple of 16.
    Raises:
        TypeError: ctx is not a context handle, or nbytes is not an integer.
        ValueError: nbytes is negative or larger than the address space.
        MemoryError: the context is full.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_new_buffer")
    return PyLong_FromVoidPtr(work_buffer(c, arg_size(nbytes, b"nbytes")))

def ggml_get_max_tensor_size(ctx):
    """Finds the size of the largest tensor in a context.

    Args:
        ctx: context.
    Returns:
        The largest ggml_nbytes of its tensors (int); 0 if there are none.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_object *o = arg_context(ctx, b"ggml_get_max_tensor_size").first
    cdef size_t most = 0
    while o != NULL:
        if o.type == GGML_OBJECT_TYPE_TENSOR and gg_tensor_sound(<ggml_tensor *>(o + 1)):
            most = max(most, gg_nbytes(<ggml_tensor *>(o + 1)))
        o = o.next
    return most

# ---- tensors as arguments --------------------------------------------------------------------------------------------
cdef ggml_tensor *arg_tensor(object o, const char *name) except NULL:
    cdef ggml_tensor *t
    if Py_TYPE(o) == <void *>tensor_p_type:
        t = <ggml_tensor *>memory(o)[0]
        if gg_tensor_usable(t):
            return t
    return <ggml_tensor *>struct_slow(o, name, tensor_p, "tensor", False)

cdef int arg_tensors(object array, int n, const char *name, ggml_tensor **out) except -1:
    cdef void *p = NULL
    cdef int i
    if isinstance(array, (list, tuple)):
        if len(array) < n:
            fail(ValueError, f"{name.decode()} has {len(array)} entries: need {n}")
        for i in range(n):
            out[i] = arg_tensor(array[i], name)
        return 0
    arg_buffer(array, name, <size_t>n * sizeof(void *), &p)
    if n and p == NULL:
        fail(ValueError, f"{name.decode()} is no array of {n} tensor pointers")
    for i in range(n):
        out[i] = (<ggml_tensor **>p)[i]
        if not gg_tensor_usable(out[i]):
            fail(RuntimeError, f"{name.decode()}[{i}] is no tensor of a live context: freed, reset, or never one")
    return 0

cdef ggml_tensor *arg_tensor_or_null(object o, const char *name) except? NULL:
    if o is None:
        return NULL
    if Py_TYPE(o) == <void *>tensor_p_type and memory(o)[0] == NULL:
        return NULL
    return arg_tensor(o, name)

cdef ggml_cgraph *arg_graph(object o, const char *name) except NULL:
    cdef ggml_cgraph *g
    if Py_TYPE(o) == <void *>graph_p_type:
        g = <ggml_cgraph *>memory(o)[0]
        if gg_region_find(GG_ARENA, g) != NULL and gg_graph_live(g) and gg_graph_sound(g):
            return g
    return <ggml_cgraph *>struct_slow(o, name, graph_p, "graph", True)

cdef void *struct_slow(object o, const char *name, object pointer_type, str kind, bint graph) except NULL:
    cdef object struct = pointer_type._type_, owner = None
    cdef void *p = NULL
    cdef str n = name.decode()
    if o is None:
        fail(TypeError, f"{n} is None: need a {kind}")
    if isinstance(o, byref_type) and isinstance(o._obj, struct):
        owner = o._obj
        p = memory(owner)
    elif isinstance(o, struct) or (isinstance(o, ctypes.Array) and o._type_ is struct and len(o)):
        owner = o
        p = memory(o)
    elif isinstance(o, pointer_type):
        p = memory(o)[0]
        if p == NULL:
            fail(ValueError, f"{n} is a NULL pointer: need a {kind}")
        owner = owner_of(o, <size_t>p)
    else:
        fail(TypeError, f"{n} is {repr_short(o)}: need a {kind} ({pointer_type.__name__})")
    if (gg_graph_live(<ggml_cgraph *>p) if graph else gg_tensor_live(<ggml_tensor *>p)):
        if not graph and not gg_tensor_sound(<ggml_tensor *>p):
            fail(ValueError, f"{n}: {tensor_problem(<ggml_tensor *>p)}")
        if graph:
            problem = graph_problem(<ggml_cgraph *>p)
            if problem:
                fail(ValueError, f"{n}: {problem}")
        return p
    if owner is not None and gg_region_find(GG_ARENA, p) == NULL and not gg_region_stale(p):
        problem = graph_problem(<ggml_cgraph *>p) if graph else tensor_problem(<ggml_tensor *>p)
        if problem:
            fail(ValueError, f"{n}: {problem}")
        adopt(owner, p, ctypes.sizeof(struct))
        return p
    fail(RuntimeError, f"{n} ({<size_t>p:#x}) is no {kind} of a live context: freed, reset, or never one")

cdef dict adopted = {}   # address of a caller's struct: (weak reference or the owner, region)

cdef int adopt(object owner, void *p, size_t size) except -1:
    """Registers a struct that the caller owns, for as long as its owner lives."""
    cdef size_t key = <size_t>p
    cdef gg_region *r
    if key in adopted:
        return 0
    r = <gg_region *>calloc(1, sizeof(gg_region))
    if r == NULL:
        raise MemoryError()
    r.base, r.size = <uint8_t *>p, size
    if not gg_region_add(GG_STRUCT, r):
        free(r)
        raise MemoryError()
    try:
        token = weakref.ref(owner, lambda _, k=key: _disown(k))
    except TypeError:
        token = owner
    adopted[key] = (token, <size_t>r)
    return 0

def _disown(key):
    _, region = adopted.pop(key)
    region_leave(GG_STRUCT, <gg_region *><size_t>region)

cdef object tensor_problem(const ggml_tensor *t):
    """What is wrong with the fields of a tensor that callers may have written, or None."""
    cdef int d
    if not gg_type_ok(t.type):
        return f"type is {t.type}: no tensor type has this number"
    for d in range(4):
        if t.ne[d] < 0:
            return f"ne[{d}] is {t.ne[d]}: must not be negative"
    if t.view_src != NULL and not gg_tensor_live(t.view_src):
        return "view_src is no tensor of a live context"
    if t.ne[0] % gg_types[t.type].blck:
        return f"ne[0] is {t.ne[0]}: need a multiple of {gg_types[t.type].name.decode()}'s block of {gg_types[t.type].blck}"
    cdef size_t n
    if not gg_extent(t, &n):
        return "ne and nb reach over more than any memory, or let more than 2^34 elements share it"
    if not gg_op_known(t.op):
        return f"op is {t.op}: no operation of this build"
    for d in range(GGML_MAX_SRC):
        if t.src[d] != NULL and not gg_tensor_live(t.src[d]):
            return f"src[{d}] is no tensor of a live context"
    return None

cdef object graph_problem(const ggml_cgraph *g):
    cdef size_t slots = g.visited_hash_set.size
    if gg_region_find(GG_ARENA, g) != NULL:
        return None if gg_graph_sound(g) else "counts or addresses of arrays were written over"
    if g.n_nodes < 0 or g.n_leafs < 0:
        return "n_nodes and n_leafs must not be negative"
    if g.n_nodes and (g.nodes == NULL or not gg_readable(g.nodes, <size_t>g.n_nodes * sizeof(void *))):
        return f"nodes is no array of {g.n_nodes} pointers"
    if g.n_leafs and (g.leafs == NULL or not gg_readable(g.leafs, <size_t>g.n_leafs * sizeof(void *))):
        return f"leafs is no array of {g.n_leafs} pointers"
    if slots and (slots >> 40 or not gg_readable(g.visited_hash_set.keys, slots * sizeof(void *))
                  or not gg_readable(g.visited_hash_set.used, slots // 8 + 1)):
        return f"visited_hash_set has no arrays for {slots} tensors"
    return None

cdef gg_region *region_holding(const void *p, size_t n) noexcept:
    """The range that p lies in, if any. An arena in a caller's memory says nothing about more than itself once its context was freed: the
    memory may be gone, and something larger in its place."""
    cdef gg_region *r = gg_region_of_data(p)
    if (r != NULL and r.ctx == NULL and not r.mapped and r.owner == NULL and <size_t>(<uint8_t *>p - r.base) + n > r.size
            and gg_region_find(GG_ARENA, p) == r):
        return NULL
    return r

cdef int check_data(ggml_tensor *t, str role) except -1:
    """Holds a tensor's fields and the place of its data against live memory; raises where they do not fit."""
    cdef size_t n
    cdef gg_region *r
    problem = tensor_problem(t)
    if problem:
        fail(ValueError, f"{role} '{t.name.decode(errors='replace')}': {problem}")
    if gg_is_empty(t):
        return 0
    gg_extent(t, &n)
    if t.data == NULL:
        fail(ValueError, f"{role} '{t.name.decode(errors='replace')}' has no data: made with no_alloc and not allocated")
    r = region_holding(t.data, n)
    if r != NULL:
        if <size_t>(<uint8_t *>t.data - r.base) + n > r.size:
            fail(ValueError, f"{role} '{t.name.decode(errors='replace')}' ({n} bytes) reaches beyond the memory that holds it")
    elif gg_region_stale(t.data):
        fail(RuntimeError, f"{role} '{t.name.decode(errors='replace')}' has data in memory that was freed")
    elif not gg_readable(t.data, n):
        fail(ValueError, f"{role} '{t.name.decode(errors='replace')}' has data at {<size_t>t.data:#x}: no readable memory of {n} bytes")
    return 0

cdef object region_add(int kind, gg_region *r):
    if not gg_region_add(kind, r):
        raise MemoryError()

cdef int region_leave(int kind, gg_region *r) except -1:
    cdef PyObject *owner = <PyObject *>r.owner
    gg_region_remove(kind, r)
    r.owner = NULL
    gg_region_leave(r)
    Py_XDECREF(owner)
    return 0

cdef gg_region *buffer_region(size_t size) noexcept:
    return pages_region(gg_pages_alloc(size), size)

cdef gg_region *file_region(int fd, size_t size) noexcept:
    cdef gg_region *r = pages_region(gg_pages_of_file(fd, size), size)
    if r != NULL:
        r.file = True
    return r

cdef gg_region *pages_region(void *pages, size_t size) noexcept:
    cdef gg_region *r
    if pages == NULL:
        return NULL
    r = <gg_region *>calloc(1, sizeof(gg_region))
    if r != NULL:
        r.base, r.size, r.mapped = <uint8_t *>pages, size, True
        if gg_region_add(GG_BUFFER, r):
            return r
    free(r)
    gg_pages_free(pages, size)
    return NULL

cdef void buffer_retire(gg_region *r) noexcept:
    gg_region_remove(GG_BUFFER, r)
    gg_region_retire(r)

cdef object region_owner(gg_region *r):
    return None if r.owner == NULL else referred(<object><PyObject *>r.owner)

cdef object referred(object owner):
    return owner() if isinstance(owner, weakref.ref) else owner

cdef int hold(gg_pins *pins, list kept, ggml_tensor **nodes, int n) except -1:
    cdef size_t i, known = pins.n
    cdef gg_region *r
    if not gg_pin(pins, nodes, n):
        fail(MemoryError, f"no memory to hold what {n} nodes use")
    for i in range(known, pins.n):
        r = pins.v[i]
        if r.ctx != NULL and r.ctx.keep != NULL:
            kept.append(<object><PyObject *>r.ctx.keep)
        elif r.owner != NULL:
            kept.append(region_owner(r))
        elif not r.mapped and <size_t>r.base in adopted:
            kept.append(referred(adopted[<size_t>r.base][0]))
    return 0

cdef void release(gg_pins *pins) noexcept:
    gg_unpin(pins)

# ---- tensors into arenas ---------------------------------------------------------------------------------------------
cdef void node_init(ggml_tensor *d, int op, int type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) noexcept:
    gg_clear_tensor(d)
    d.op, d.type = op, type
    d.ne[0], d.ne[1], d.ne[2], d.ne[3] = ne0, ne1, ne2, ne3

cdef void node_like(ggml_tensor *d, int op, int type, const ggml_tensor *a) noexcept:
    node_init(d, op, type, a.ne[0], a.ne[1], a.ne[2], a.ne[3])

cdef void node_view(ggml_tensor *d, ggml_tensor *a, size_t offset) noexcept:
    d.view_src, d.view_offs = a, offset
    if a.view_src != NULL:
        d.view_src = a.view_src
        d.view_offs += a.view_offs

cdef ggml_tensor *node_append(ggml_context *ctx, ggml_tensor *d) except NULL:
    cdef char message[512]
    cdef size_t need, nbytes = 0
    cdef ggml_tensor *t
    if d.view_src == NULL and not gg_set_contiguous(d, &nbytes):
        fail(ValueError, "the tensor is larger than any memory")
    if d.op and gg_check(d, message) != NULL:
        fail(ValueError, message.decode(errors="replace"))
    if ctx.scratch != NULL and not ctx.no_alloc and not gg_scratch_fits(ctx, nbytes):
        fail(MemoryError, f"the scratch buffer is full: {ctx.scratch_used} of {ctx.scratch_size} bytes are used, {nbytes} more are needed")
    t = gg_context_tensor(ctx, d, nbytes, &need)
    if t == NULL:
        arena_full(ctx, need)
    return t

cdef int arena_full(ggml_context *ctx, size_t need) except -1:
    if need == <size_t>-1:
        fail(ValueError, "the tensor or graph is larger than any memory")
    if ctx.grows:
        fail(MemoryError, f"the context can't grow: {need} bytes can't be had")
    fail(MemoryError, f"the context is full: it would need mem_size={need}, it has {ctx.mem_size}")

cdef void *work_buffer(ggml_context *ctx, size_t size) except NULL:
    cdef size_t need
    cdef ggml_object *o = gg_context_object(ctx, GGML_OBJECT_TYPE_WORK_BUFFER, size, &need)
    if o == NULL:
        arena_full(ctx, need)
    return o + 1

cdef void node_in_place(ggml_tensor *d, ggml_tensor *a) noexcept:
    memcpy(d.nb, a.nb, sizeof(d.nb))
    node_view(d, a, 0)
    set_name(d, a.name, b" (view)")

cdef ggml_tensor *node1(ggml_context *ctx, int op, ggml_tensor *a) except NULL:
    cdef ggml_tensor d
    node_like(&d, op, a.type, a)
    d.src[0] = a
    return node_append(ctx, &d)

cdef ggml_tensor *node2(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b) except NULL:
    cdef ggml_tensor d
    node_like(&d, op, a.type, a)
    d.src[0], d.src[1] = a, b
    return node_append(ctx, &d)

cdef ggml_tensor *node1_in_place(ggml_context *ctx, int op, ggml_tensor *a) except NULL:
    return node2_in_place(ctx, op, a, NULL)

cdef ggml_tensor *node2_in_place(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b) except NULL:
    cdef ggml_tensor d
    node_like(&d, op, a.type, a)
    d.src[0], d.src[1] = a, b
    node_in_place(&d, a)
    return node_append(ctx, &d)

cdef ggml_tensor *new_tensor(ggml_context *ctx, int type, int n_dims, const int64_t *ne) except NULL:
    cdef ggml_tensor d
    cdef int i
    node_init(&d, 0, type, 1, 1, 1, 1)
    for i in range(n_dims):
        if ne[i] < 0:
            fail(ValueError, f"ne{i} is {ne[i]}: must not be negative")
        d.ne[i] = ne[i]
    if d.ne[0] % gg_types[type].blck:
        fail(ValueError, f"ne0 is {d.ne[0]}: need a multiple of {gg_types[type].name.decode()}'s block of {gg_types[type].blck}")
    return node_append(ctx, &d)

cdef void set_name(ggml_tensor *t, const char *a, const char *suffix) noexcept:
    cdef size_t n = strlen(a), m = strlen(suffix)
    n = n if n < GGML_MAX_NAME - 1 else GGML_MAX_NAME - 1
    m = m if n + m < GGML_MAX_NAME else GGML_MAX_NAME - 1 - n
    if t.name != a:
        memcpy(t.name, a, n)
    memcpy(t.name + n, suffix, m)
    t.name[n + m] = 0

def _describe(p):
    """For repr: what a tensor pointer points to, None where it is no live tensor."""
    cdef ggml_tensor *t = <ggml_tensor *>memory(p)[0]
    if not gg_tensor_live(t):
        return None
    cdef const char *op = gg_op_name(t.op)
    kind = gg_types[t.type].name.decode() if gg_type_ok(t.type) else f"type {t.type}"
    made = "" if t.op == 0 or op == NULL else f" op {op.decode()}"
    name = bytes(t.name[:GGML_MAX_NAME]).split(b"\0")[0].decode(errors="replace")
    return f"{name!r} {kind} {[t.ne[0], t.ne[1], t.ne[2], t.ne[3]]}{made}"

tensor_p._describe = _describe

# ---- callbacks -------------------------------------------------------------------------------------------------------
def park(error):
    """Keeps an exception of a callback for the compute that runs it; outside of one, raises it."""
    cdef gg_call *call = gg_current_call()
    if call == NULL:
        parked.append(error)
        return
    if call.exception == NULL:
        Py_INCREF(error)
        call.exception = <PyObject *>error
    gg_stop(call, GGML_STATUS_FAILED)

cdef list parked = []

def unpark():
    """Raises the first exception that a callback left outside of a compute, if any."""
    if parked:
        error = parked[0]
        parked.clear()
        raise error

def name_of_running(size_t name=0):
    global running
    if name:
        running = <const char *>name
    return <size_t>running

_structs._core_park = park
_structs._core_entered = name_of_running

# ---- graphs ------------------------------------------------------------------------------------------------------------
cdef ggml_cgraph *graph_new(ggml_context *ctx, size_t size, bint grads) except NULL:
    cdef size_t need
    cdef ggml_cgraph *g = gg_graph_new(ctx, size, grads, &need)
    if g == NULL:
        arena_full(ctx, need)
    return g

cdef int graph_expand(ggml_cgraph *g, ggml_tensor *t, bint compute) except -1:
    cdef const ggml_tensor *bad
    cdef int status = gg_graph_expand(g, t, compute, &bad)
    if status == GGML_STATUS_FAILED:
        fail(MemoryError, f"the graph is full: it has room for {g.size} nodes and as many leafs (see ggml_new_graph_custom)")
    if status == GGML_STATUS_ABORTED:
        fail(RuntimeError, f"a source of '{(<ggml_tensor *>bad).name.decode(errors='replace')}' is no tensor of a live context")
    if status:
        raise MemoryError(f"{where()}: out of memory")
    return 0

# ---- instruction sets ------------------------------------------------------------------------------------------------
def isa_info():
    """One dict an instruction set of this build: name, needs, supported (by this CPU), chosen."""
    return [{"name": gg_isa_name(i).decode(), "needs": gg_isa_needs(i).decode(), "supported": bool(gg_isa_supported(i)),
             "chosen": gg_isa_current() == i} for i in range(gg_isa_count())]

def isa_select(name):
    """Makes the kernels of an instruction set the ones in use, None: the best that this CPU has. Returns its name."""
    rows = [r["name"] for r in isa_info() if r["supported"]] if name is None else [name]
    known = {gg_isa_name(i).decode(): i for i in range(gg_isa_count())}
    if rows[-1] not in known:
        raise ValueError(f"GGML_ISA: {name!r} is not in this build, which has {', '.join(known)}")
    if not gg_isa_select(known[rows[-1]]):
        raise ValueError(f"GGML_ISA: this CPU has no {name} ({gg_isa_needs(known[name]).decode()})")
    return rows[-1]

def cpu_has(feature):
    """Whether the CPU and its operating system have a feature, by the names of dispatch.c."""
    return bool(gg_cpu_has(arg_text(feature, b"feature")))

def build_info():
    """How this build was made and what it runs on: compiler, threads by default."""
    return {"compiler": GG_COMPILER.decode(), "threads": gg_default_threads()}

def enums():
    """The constants that the tables give: GGML_TYPE_*, GGML_OP_*, GGML_UNARY_OP_*."""
    names = {}
    for i in range(GGML_TYPE_COUNT):
        if gg_type_ok(i):
            text = gg_types[i].name.decode()
            names["GGML_TYPE_" + (text.upper() if text[-2:] != "_K" else text[:-2].upper() + "_K")] = i
    names["GGML_TYPE_COUNT"] = GGML_TYPE_COUNT
    for i in range(GG_OP_MAX):
        if gg_op_name(i) != NULL:
            names["GGML_OP_" + gg_op_name(i).decode()] = i
    names["GGML_OP_COUNT"] = GGML_OP_COUNT
    for i in range(256):
        if gg_unary_name(i) != NULL:
            names["GGML_UNARY_OP_" + gg_unary_name(i).decode()] = i
    names["GGML_UNARY_OP_COUNT"] = 22
    return names

isa_select(os.environ.get("GGML_ISA") or None)

# ---- the table of operations -----------------------------------------------------------------------------------------
cdef extern from "runtime/op_info.h" nogil:
    enum: GG_FLAG_LEAF, GG_FLAG_VIEW, GG_FLAG_WORK, GG_FLAG_CALLBACK, GG_FLAG_STEP, GG_FLAG_GRAD
    ctypedef struct gg_op_info:
        const char *name
        const char *symbol
        const char *family
        uint32_t overwrites, flags
    const gg_op_info *gg_op(int op)

def op_table():
    """The rows of _simd/tables/ops.h, a dict each: id, name, symbol, family, overwrites (numbers of operands), flags."""
    flags = {"LEAF": GG_FLAG_LEAF, "VIEW": GG_FLAG_VIEW, "WORK": GG_FLAG_WORK, "CALLBACK": GG_FLAG_CALLBACK,
             "STEP": GG_FLAG_STEP, "GRAD": GG_FLAG_GRAD}
    cdef const gg_op_info *row
    table = []
    for i in range(GG_OP_MAX):
        row = gg_op(i)
        if row.name != NULL:
            table.append({"id": i, "name": row.name.decode(), "symbol": row.symbol.decode(), "family": row.family.decode(),
                          "overwrites": {k for k in range(3) if row.overwrites >> k & 1},
                          "flags": {name for name, bit in flags.items() if row.flags & bit}})
    return table
