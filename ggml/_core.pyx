"""What every other module builds on: ctypes pointers, arguments, errors, memory of live objects, new nodes."""
import ctypes
import os
import sys
import threading
import weakref

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_SetInterrupt
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact, PyLong_AsVoidPtr, PyLong_FromVoidPtr
from cpython.number cimport PyNumber_Index
from cpython.object cimport PyObject, PyObject_TypeCheck, Py_TYPE
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_INCREF, Py_DECREF, Py_XDECREF
from libc.stdlib cimport free
from libc.string cimport memcpy, strlen

from . import _structs
from ._enums cimport GGML_OP_NONE, GGML_TYPE_F64, GGML_TYPE_I64

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(PyTypeObject *, PyObject *, PyObject *)

cdef extern from "runtime/engine.h" nogil:
    enum: GGML_UNARY_OP_COUNT
    void gg_clear_tensor(ggml_tensor *t)
cdef extern from "_sections.h" nogil:
    enum: GG_OUTSIDE, GG_SHARED, GG_ALONE
    int gg_section_enter(int section)
    int gg_section_pause()
    void gg_section_back(int before)
    int gg_section_here()
    uint64_t gg_section_changes()
    uint64_t gg_section_changed()
    bint gg_section_passed(uint64_t time)
    int gg_sections_begin()
    void gg_hook_take()
    void gg_hook_open()
cdef extern from "_sections.h":
    PyObject *gg_anew
    PyObject *gg_section_keep(PyObject *dict)
    PyObject *gg_section_kept()
    bint gg_section_anew(bint may)
    const char *gg_section_guard(PyObject *function, int section)
    void gg_uncounted(PyObject *o)
cdef extern from "_pointers.h":
    ctypedef struct gg_cdata:
        char *b_ptr
        Py_ssize_t b_size
        PyObject *b_objects
    void *gg_cdata_memory(PyObject *o) noexcept
    void gg_pointer_set(PyObject *o, void *memory, void *target) noexcept
    void gg_spare_init(PyTypeObject *type)
    PyObject *gg_spare_take()
cdef extern from "runtime/mapped.h" nogil:
    gg_mapped *gg_mapped_new(void *base, size_t size, int fd)
    bint gg_mapped_changed(const gg_mapped *m)
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
    int (*gg_change_begin)()
    void (*gg_change_end)(int before)
    void *gg_pages_alloc(size_t size)
    void *gg_pages_of_file(int fd, size_t size)
    size_t GG_LARGE_PAGE
    ctypedef void (*gg_copy_fn)(void *to, const void *source, size_t large_pages) noexcept
    size_t gg_pages_enlarge(void *p, size_t size, size_t room, gg_copy_fn copy) nogil
    void gg_pages_free(void *p, size_t size)
    gg_region *gg_region_of_data(const void *addr)
    bint gg_readable(const void *addr, size_t size)
    ggml_context *gg_context_new(size_t mem_size, void *buffer, bint no_alloc)
    bint gg_context_enter(ggml_context *ctx)
    void gg_context_reset(ggml_context *ctx)
    gg_region *gg_context_free(ggml_context *ctx)
    void gg_context_rest(gg_region *r)
    enum: GG_LEFT, GG_GONE, GG_NOT_SMALL
    int gg_context_leave(ggml_context *ctx, uint64_t (*now_changed)())
    ggml_context *gg_context_left(bint (*passed)(uint64_t time))
    void gg_context_end(ggml_context *ctx)
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
cdef extern from "runtime/poison.h" nogil:
    void gg_unpoison(const void *p, size_t n)
cdef extern from "runtime/check.h" nogil:
    const char *gg_check(const ggml_tensor *t, char *msg)
    const char *gg_op_name(int op)
    const char *gg_unary_name(int op)
    bint gg_op_known(int op)
cdef extern from "runtime/compute.h" nogil:
    int gg_compute(gg_call *call)
    gg_call *gg_current_call()
    void gg_stop(gg_call *call, int status)
cdef extern from "runtime/threads.h" nogil:
    int gg_default_threads()
cdef extern from "runtime/dispatch.h" nogil:
    int gg_isa_count()
    const char *gg_isa_name(int i)
    const char *gg_isa_needs(int i)
    bint gg_isa_supported(int i)
    int gg_isa_current()
    bint gg_isa_select(int i)
    bint gg_cpu_has(const char *feature)
cdef extern from "runtime/fuse.h" nogil:
    void gg_fuse_enable(bint on)
cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define GG_HAS_GIL 0
    #else
    #define GG_HAS_GIL 1
    #endif
    #if defined __clang__
    #define GG_COMPILER "clang " __clang_version__
    #elif defined __GNUC__
    #define GG_COMPILER "gcc " __VERSION__
    #else
    #define GG_COMPILER "unknown"
    #endif
    static const gg_engine gg_engine_table = GG_ENGINE_TABLE;

    /* The name of the public function that runs in this thread. With glibc the access is one instruction: it keeps room
     * for such variables of libraries that are loaded later. */
    #if defined __GLIBC__
    __attribute__((tls_model("initial-exec")))
    #endif
    static _Thread_local const char *gg_running = "ggml";

    static _Thread_local int gg_watching;       /* how often this thread is within watch() and unwatch() */
    """
    bint GG_HAS_GIL
    const char *GG_COMPILER
    const gg_engine gg_engine_table
    const char *gg_running
    int gg_watching

engine = &gg_engine_table

include "_sections.pxi"

# ---- errors ----------------------------------------------------------------------------------------------------------
cdef int enter(const char *name) noexcept:
    global gg_running
    gg_running = name
    return 0

cdef const char *entered() noexcept:
    return gg_running

cdef str function_name():
    return gg_running.decode()

cdef object fail(type kind, str message):
    function = function_name()
    error = kind(f"{function}: {message}")
    error.function = function       # see ggml/_errors.py
    raise error

cdef object no_memory(size_t n, size_t size):
    fail(MemoryError, f"there is no memory for {int(n) * int(size)} bytes")

cdef void *allocate(size_t n, size_t size) except NULL:
    cdef void *block = engine.calloc(n if n else 1, size if size else 1)
    if block == NULL:
        no_memory(n, size)
    return block

cdef void *resized(void *block, size_t n, size_t size) except NULL:
    cdef void *moved = NULL
    if n <= (<size_t>-1) // size:
        moved = engine.realloc(block, n * size if n else 1)
    if moved == NULL:
        no_memory(n, size)
    return moved

cdef str repr_short(object value):
    return outside(short_text, value)

cdef object short_text(object value):
    cdef str text
    try:
        text = repr(value)
    except Exception:      # Python refuses to print integers of thousands of digits; others have a broken __repr__
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."

cdef str shape_text(const ggml_tensor *t):
    kind = gg_types[t.type].name.decode() if gg_type_ok(t.type) else f"type {t.type}"
    return f"{kind} {[t.ne[i] for i in range(4)]}"

cdef str name_text(const ggml_tensor *t):
    return bytes(t.name[:GGML_MAX_NAME]).split(b"\0")[0].decode(errors="replace")

cdef str tensor_text(const ggml_tensor *t):
    return f"'{name_text(t)}' ({shape_text(t)})"

cdef str node_text(const ggml_tensor *t):
    cdef const char *op = gg_op_name(t.op)
    kind = op.decode() if op != NULL else f"operation {t.op}"
    return f"'{name_text(t)}' ({shape_text(t)}, {kind})"

# ---- ctypes objects --------------------------------------------------------------------------------------------------
cdef object tensor_p = _structs.ggml_tensor_p
cdef object graph_p = _structs.ggml_cgraph_p
cdef object simple_base = ctypes.c_int.__mro__[1]
cdef object cdata_base = ctypes.c_int.__mro__[2]
cdef object byref_type = type(ctypes.byref(ctypes.c_int()))
cdef object void_p = ctypes.c_void_p
cdef object pointer_base = ctypes._Pointer
cdef object function_base = ctypes._CFuncPtr
cdef object array_base = ctypes.Array
cdef tuple address_types = (void_p, ctypes.c_char_p, pointer_base, function_base)
cdef object sizeof_cdata = ctypes.sizeof
cdef PyTypeObject *tensor_p_type = <PyTypeObject *>tensor_p
cdef PyTypeObject *graph_p_type = <PyTypeObject *>graph_p
cdef PyTypeObject *init_params_type = <PyTypeObject *>_structs.ggml_init_params
cdef tuple no_args = ()

cdef object addressof = ctypes.addressof
cdef bint layout_known = False      # whether gg_cdata is the layout of this Python's ctypes objects

cdef inline void **memory(object cdata) noexcept:
    """The memory of a ctypes object; that of a pointer holds one address."""
    if layout_known:
        return <void **>gg_cdata_memory(<PyObject *>cdata)
    return <void **><size_t>addressof(cdata)

cdef inline Py_ssize_t memory_size(object cdata) except -1:
    """The bytes of a ctypes object's memory."""
    return (<gg_cdata *><PyObject *>cdata).b_size if layout_known else sizeof_cdata(cdata)

cdef inline object kept_by(object cdata):
    """The objects that a ctypes object keeps alive: a dictionary, another object, or None."""
    if layout_known:
        return <object>(<gg_cdata *><PyObject *>cdata).b_objects if (<gg_cdata *><PyObject *>cdata).b_objects else None
    return cdata._objects

cdef bint is_a(object value, object type) noexcept:
    """As isinstance, which would ask value.__class__: objects may pretend."""
    return PyObject_TypeCheck(value, <PyTypeObject *>type)

cdef inline bint is_cdata(object value) noexcept:
    return is_a(value, cdata_base)

cdef bint is_address(object value) noexcept:
    """Whether a ctypes object holds an address."""
    for type in address_types:
        if is_a(value, type):
            return True
    return False

def _has_known_layout():
    """Whether the fields of gg_cdata lie where this Python's ctypes objects have them."""
    scalar = ctypes.c_void_p(0x1234567890)
    if ctypes.c_void_p.__basicsize__ < sizeof(gg_cdata):
        return False
    known = (<size_t>(<gg_cdata *><PyObject *>scalar).b_ptr == <size_t>addressof(scalar)
             and (<gg_cdata *><PyObject *>scalar).b_size == sizeof(void *)
             and (<gg_cdata *><PyObject *>scalar).b_objects == NULL)
    pointer = ctypes.pointer(scalar)
    kept = pointer._objects
    return known and (<gg_cdata *><PyObject *>pointer).b_objects == <PyObject *>kept

# The tests set GGML_PUBLIC_CTYPES, so that the way for unknown layouts is tried.
if not os.environ.get("GGML_PUBLIC_CTYPES") and _has_known_layout():
    layout_known = True
    gg_spare_init(tensor_p_type)
gg_uncounted(<PyObject *>tensor_p_type)
gg_uncounted(<PyObject *>graph_p_type)
gg_uncounted(<PyObject *>init_params_type)

cdef object new_pointer(PyTypeObject *type, void *target):
    cdef object pointer = type.tp_new(type, <PyObject *>no_args, NULL)
    gg_pointer_set(<PyObject *>pointer, memory(pointer), target)
    return pointer

cdef object wrap_tensor(ggml_tensor *t):
    cdef PyObject *spare = gg_spare_take()
    if spare == NULL:
        return new_pointer(tensor_p_type, t)
    pointer = <object>spare
    Py_DECREF(pointer)      # the cast has added a reference
    gg_pointer_set(<PyObject *>pointer, memory(pointer), t)
    return pointer

cdef object wrap_graph(ggml_cgraph *g):
    return new_pointer(graph_p_type, g)

cdef object wrap_handle(void *handle):
    return PyLong_FromVoidPtr(handle) if handle != NULL else None

# ---- arguments -------------------------------------------------------------------------------------------------------
# What these functions do may run code of a program: they are called by `outside`.
cdef object scalar_value(object value):
    """The value of a ctypes scalar; other objects unchanged."""
    return value.value if is_a(value, simple_base) else value

cdef object int_of(object value):
    return int(PyNumber_Index(scalar_value(value)))

cdef object float_of(object value):
    return <double>scalar_value(value)

cdef object truth_of(object value):
    return True if scalar_value(value) else False

cdef object tuple_of(object value):
    return tuple(value)

cdef object call_of(object pair):
    return pair[0](pair[1])

cdef int64_t arg_int_slow(object value, const char *name) except? -1:
    """arg_int for everything except an int of at most 64 bits."""
    cdef object i, low = -(1 << 63), high = (1 << 63) - 1
    try:
        i = outside(int_of, value)
    except (AttributeError, TypeError):
        fail(TypeError, f"{name.decode()} is {repr_short(value)}: need an integer")
    if not low <= i <= high:
        fail(ValueError, f"{name.decode()} is {repr_short(i)}: need {low} to {high}")
    return i

cdef int64_t arg_int(object value, const char *name) except? -1:
    cdef int overflow = 0
    cdef long long i
    if PyLong_CheckExact(value):
        i = PyLong_AsLongLongAndOverflow(value, &overflow)
        if not overflow:
            return i
    return arg_int_slow(value, name)

cdef int arg_int32(object value, const char *name) except? -1:
    cdef int64_t i = arg_int(value, name)
    if i < -0x80000000LL or i > 0x7fffffffLL:
        fail(ValueError, f"{name.decode()} is {i}: need a 32-bit integer")
    return <int>i

cdef size_t arg_size(object value, const char *name) except? 0:
    cdef int64_t i = arg_int(value, name)
    if i < 0:
        fail(ValueError, f"{name.decode()} is {i}: must not be negative")
    return <size_t>i

cdef int64_t arg_extent(object value, const char *name) except -1:
    cdef int64_t i = arg_int(value, name)
    if i < 0:
        fail(ValueError, f"{name.decode()} is {i}: must not be negative")
    return i

cdef float arg_float(object value, const char *name) except? -1:
    if PyFloat_CheckExact(value):
        return <float>PyFloat_AS_DOUBLE(value)
    try:
        return <float><double>outside(float_of, value)
    except (TypeError, ValueError, OverflowError):
        fail(TypeError, f"{name.decode()} is {repr_short(value)}: need a number")

cdef bint arg_bool(object value, const char *name) except -1:
    if value is True or value is False:
        return value is True
    try:
        return outside(truth_of, value)
    except ValueError:
        fail(TypeError, f"{name.decode()} is {repr_short(value)}: need True or False")

cdef int arg_type_number(object value, const char *name) except -1:
    """GGML_TYPE_*, also of a type that earlier releases of the C library removed: its block and bytes are 0 here."""
    cdef int64_t i = arg_int(value, name)
    if i < 0 or i >= GG_TYPE_MAX:
        fail(ValueError, f"{name.decode()} is {i}: no tensor type has this number")
    return <int>i

cdef int arg_type(object value, const char *name) except -1:
    cdef int type = arg_type_number(value, name)
    if not gg_type_ok(type):
        fail(ValueError, f"{name.decode()} is {type}: no tensor type has this number")
    return type

cdef object exact(object value):
    """Bytes of a program's class as plain bytes, which have no code of a program; other objects unchanged."""
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)) \
        if isinstance(value, bytes) else value

cdef object text_of(object value):
    value = scalar_value(value)
    return exact(value.encode() if isinstance(value, str) else value)

cdef bytes arg_text(object value, const char *name):
    if type(value) is bytes:
        return value
    try:
        text = outside(text_of, value)
    except UnicodeEncodeError:
        fail(ValueError, f"{name.decode()} is {repr_short(value)}: it can't be encoded as UTF-8")
    if isinstance(text, bytes):
        return text
    fail(TypeError, f"{name.decode()} is {repr_short(text)}: need bytes or str")

cdef object text_with(object pair):
    return pair[0] % tuple([getattr(a, "value", a) for a in pair[1]])

cdef bytes arg_format(object fmt, tuple args):
    cdef bytes text = arg_text(fmt, b"fmt")
    if not args:
        return text
    try:
        return outside(text_with, same_pair(text, args))
    except (TypeError, ValueError) as e:
        fail(ValueError, f"fmt {text!r} does not fit its arguments: {e}")

cdef bint is_path(object value) except -1:
    return isinstance(value, str) or outside(has_path, value)

cdef object has_path(object value):
    return hasattr(type(value), "__fspath__")  # isinstance would ask the object for its class

cdef object path_of(object value):
    return exact(os.fsencode(value))

cdef bytes arg_path(object value, const char *name):
    cdef bytes path
    try:
        path = outside(path_of, value) if is_path(value) else arg_text(value, name)
    except UnicodeEncodeError:
        fail(ValueError, f"{name.decode()} is {repr_short(value)}: it can't be encoded as the name of a file")
    if b"\0" in path:
        fail(ValueError, f"{name.decode()} is {repr_short(value)}: the name of a file contains no NUL")
    return path

cdef object owner_of(object value, size_t address, int depth=0):
    """The ctypes object whose memory begins at `address`, among those that `value` keeps alive; None: not known."""
    cdef object kept = kept_by(value) if is_cdata(value) else value
    if depth >= 6 or not isinstance(kept, dict):
        return None
    for item in (<dict>kept).values():
        if is_cdata(item) and <size_t>memory(item) == address:
            return item
        found = owner_of(item, address, depth + 1)
        if found is not None:
            return found
    return None

cdef void *int_address(object value, const char *name) except? NULL:
    try:
        return PyLong_AsVoidPtr(value)
    except OverflowError:
        fail(ValueError, f"{name.decode()} is {repr_short(value)}: no address")

cdef object buffer_of(object value):
    """What `value` means where memory is needed: an int, a ctypes object, bytes, str, a memoryview, or None."""
    if value is None or PyLong_CheckExact(value) or is_cdata(value) or is_a(value, byref_type):
        return value
    if isinstance(value, (bytes, str)):
        return value
    if hasattr(value, "_as_parameter_"):
        return buffer_of(value._as_parameter_)
    try:
        return memoryview(value)
    except TypeError:
        return int(PyNumber_Index(value))

cdef int arg_buffer(object value, const char *name, size_t need, void **out) except -1:
    cdef size_t address = 0
    cdef Py_ssize_t size = -1       # -1: not known
    out[0] = NULL
    if value is None:
        return 0
    if not (PyLong_CheckExact(value) or is_cdata(value) or isinstance(value, bytes)):
        try:
            value = outside(buffer_of, value)
        except (AttributeError, TypeError):
            fail(TypeError, f"{name.decode()} is {repr_short(value)}: need an address or a buffer")
        if value is None:
            return 0
    if PyLong_CheckExact(value):
        address = <size_t>int_address(value, name)
    elif is_cdata(value):
        if is_address(value):
            address = <size_t>memory(value)[0]
            owner = owner_of(value, address)
            if owner is not None:
                size = memory_size(owner)
        elif is_a(value, simple_base):
            fail(TypeError, f"{name.decode()} is {repr_short(value)}: need an address or a buffer")
        else:
            address, size = <size_t>memory(value), memory_size(value)
    elif is_a(value, byref_type):
        address, size = <size_t>memory(value._obj), memory_size(value._obj)
    elif isinstance(value, bytes):
        address, size = <size_t>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)
    elif isinstance(value, str):
        fail(TypeError, f"{name.decode()} is {repr_short(value)}: need bytes or an address")
    else:
        if not value.c_contiguous:
            fail(ValueError, f"{name.decode()} is not contiguous")
        address, size = buffer_address(value), value.nbytes
    if address and size >= 0 and <size_t>size < need:
        fail(ValueError, f"{name.decode()} has {size} bytes: need {need}")
    if address and size < 0 and need and not gg_readable(<void *>address, need):
        fail(ValueError, f"{name.decode()} ({address:#x}) is not memory of {need} bytes")
    out[0] = <void *>address
    return 0

cdef size_t buffer_address(object view) except? 0:
    cdef const unsigned char[:] bytes_view
    if view.nbytes == 0:
        return 0
    bytes_view = view.cast("B")
    return <size_t>&bytes_view[0]

cdef void *arg_address(object value, const char *name) except? NULL:
    cdef void *address
    arg_buffer(value, name, 0, &address)
    return address

cdef object pointed(object value, object struct):
    if is_a(value, byref_type):
        value = value._obj
    elif is_a(value, pointer_base) and memory(value)[0] != NULL:
        value = value.contents
    return value if is_a(value, struct) else None

cdef bint is_compatible(object given, object callback_type) except -1:
    """Whether functions of a ctypes type can be called as those of another.

    Both must take as many arguments, and both or neither must return a struct.
    """
    cdef object argument_types = getattr(given, "_argtypes_", None)
    if argument_types is None:      # a function of a library, whose arguments are not declared
        return True
    returns_struct = [isinstance(t._restype_, type) and issubclass(t._restype_, ctypes.Structure)
                      for t in (given, callback_type)]
    return len(argument_types) == len(callback_type._argtypes_) and returns_struct[0] == returns_struct[1]

cdef void *arg_callback(object value, object callback_type, const char *name) except? NULL:
    cdef void *address
    if value is None:
        return NULL
    if is_a(value, function_base):
        if not is_compatible(type(value), callback_type):
            fail(TypeError, f"{name.decode()} is {repr_short(value)}: need a {callback_type.__name__}")
        return memory(value)[0]
    if PyLong_CheckExact(value) or is_a(value, void_p):
        address = arg_address(value, name)
        if address != NULL and not gg_readable(address, 1):
            fail(ValueError, f"{name.decode()} ({<size_t>address:#x}) is the address of no function")
        return address
    fail(TypeError, f"{name.decode()} is {repr_short(value)}: need a callback")

def as_callback(value, callback_type):
    """A Python callable wrapped as a callback_type, which the caller must keep alive; other objects unchanged."""
    if value is None or isinstance(value, int) or is_cdata(value) or not callable(value):
        return value
    return outside(call_of, same_pair(callback_type, value))

# ---- contexts --------------------------------------------------------------------------------------------------------
cdef ggml_context *arg_context(object value, const char *function) except NULL:
    cdef ggml_context *ctx
    cdef int overflow
    enter(function)
    if PyLong_CheckExact(value):      # an int that overflows gives -1, which is not a context
        ctx = gg_context_find(<void *><size_t>PyLong_AsLongLongAndOverflow(value, &overflow))
        if ctx != NULL:
            return ctx
    return arg_context_slow(value)

cdef ggml_context *arg_context_slow(object value) except NULL:
    """arg_context for everything except the int handle of a live context."""
    if value is None:
        fail(TypeError, "ctx is None: need a context")
    cdef object handle = value
    if is_a(value, void_p) or is_a(value, pointer_base):
        handle = <size_t>memory(value)[0]
    if not PyLong_CheckExact(handle):
        fail(TypeError, f"ctx is {repr_short(value)}: need a context")
    cdef ggml_context *ctx = NULL
    if 0 < handle < 1 << 64:
        ctx = gg_context_find(<void *><size_t>handle)
    if ctx == NULL:
        fail(RuntimeError, f"ctx ({repr_short(value)}) is not a live context: freed, or never made")
    return ctx

cdef ggml_context *context_of(const void *address) noexcept:
    cdef gg_region *region = gg_region_find(GG_ARENA, address)
    return region.ctx if region != NULL else NULL

cdef object keep(ggml_context *ctx, object value):
    if ctx.keep == NULL:
        kept = []
        Py_INCREF(kept)
        ctx.keep = <PyObject *>kept
    (<list><object><PyObject *>ctx.keep).append(value)

cdef object drop_kept(ggml_context *ctx):
    cdef PyObject *kept = <PyObject *>ctx.keep
    ctx.keep = NULL
    if kept != NULL:
        let_go(<object>kept)
        Py_DECREF(<object>kept)

cdef int free_overlapping(const void *buffer, size_t size) except -1:
    """Frees the contexts whose arenas are memory of the caller that overlaps a new arena."""
    cdef gg_region *other = gg_region_overlap(GG_ARENA, buffer, size)
    while other != NULL:
        if other.ctx == NULL:
            region_leave(GG_ARENA, other)
        elif other.mapped:
            fail(ValueError, "mem_buffer lies in the arena of a live context")
        else:
            context_free(other.ctx)
        other = gg_region_overlap(GG_ARENA, buffer, size)
    return 0

def _owner_died(size_t base, size_t address):
    """Ends the registration of an arena in memory of the caller that no longer exists, once its context is freed."""
    cdef gg_region *region = gg_region_find(GG_ARENA, <void *>base)
    if <size_t>region == address and region.ctx == NULL:
        region_leave(GG_ARENA, region)

cdef struct init_params:                # as in _structs.py
    size_t mem_size
    void *mem_buffer
    unsigned char no_alloc

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
    if not PyObject_TypeCheck(params, init_params_type):
        fail(TypeError, f"params is {repr_short(params)}: need ggml_init_params")
    cdef init_params *given = <init_params *>memory(params)
    cdef size_t size = given.mem_size
    cdef void *buffer = given.mem_buffer
    cdef bint no_alloc = given.no_alloc
    cdef ggml_context *ctx
    cdef object owner = None
    cdef int section
    if size > <size_t>1 << 62:
        fail(MemoryError, f"mem_size is {size} bytes: more than any memory holds")
    if buffer != NULL:
        section_alone()                     # contexts that used this memory end
        owner = owner_of(params, <size_t>buffer)
        if owner is not None and ctypes.sizeof(owner) < size:
            fail(ValueError, f"mem_buffer has {ctypes.sizeof(owner)} bytes, mem_size is {size}")
        if owner is None and not gg_readable(buffer, size):
            fail(ValueError, f"mem_buffer ({<size_t>buffer:#x}) is not readable memory of {size} bytes")
        free_overlapping(buffer, size)
    end_contexts()
    section = gg_section_here()
    if buffer == NULL and section == GG_SHARED:     # outside: the system may take its time. Others that call this while
        section = gg_section_pause()                # they are alone have looked up what shall stay
    ctx = gg_context_new(size, buffer, no_alloc)
    gg_section_back(section)
    if ctx == NULL or not gg_context_enter(ctx):
        fail(MemoryError, f"there is no memory for {f'{size} bytes' if size else 'a context'}")
    if owner is not None:
        keep(ctx, owner)
        try:
            reference = weakref.ref(owner, lambda _, b=<size_t>buffer, r=<size_t>ctx.chunk: _owner_died(b, r))
            Py_INCREF(reference)
            ctx.chunk.owner = <PyObject *>reference
        except TypeError:      # the owner does not support weak references
            pass
    return PyLong_FromVoidPtr(ctx)

cdef ggml_context *context_new() except NULL:
    cdef ggml_context *ctx = gg_context_new(0, NULL, True)
    if ctx == NULL or not gg_context_enter(ctx):
        fail(MemoryError, "no memory for a context")
    return ctx

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
    cdef gg_region *first = c.chunk
    while first.prev != NULL:
        first = first.prev
    if first.views:
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
    return c.closed + c.chunk.size - c.chunk.slack if c.grows else c.mem_size

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
    cdef ggml_context *c = arg_context(ctx, b"ggml_get_mem_buffer")
    gg_unpoison(c.chunk.base, c.chunk.size)      # the caller may use all of it
    return wrap_handle(c.chunk.base)

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
    if not is_a(scratch, _structs.ggml_scratch):
        fail(TypeError, f"scratch is {repr_short(scratch)}: need ggml_scratch")
    cdef size_t size = scratch.size, data = scratch.data or 0, used = scratch.offs
    cdef size_t before = c.scratch_used if c.scratch != NULL else 0
    owner = owner_of(scratch, data) if data else None
    if used > size:
        fail(ValueError, f"scratch.offs is {used}: need 0 to scratch.size, {size}")
    if data and size and (size > ctypes.sizeof(owner) if owner is not None else not gg_readable(<void *>data, size)):
        fail(ValueError, f"scratch.data ({data:#x}) is not memory of {size} bytes")
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

# ---- tensors and graphs as arguments ---------------------------------------------------------------------------------
cdef ggml_tensor *arg_tensor(object value, const char *name) except NULL:
    cdef ggml_tensor *t
    if Py_TYPE(value) == <void *>tensor_p_type:
        t = <ggml_tensor *>memory(value)[0]
        if gg_tensor_usable(t):
            return t
    return <ggml_tensor *>arg_struct(value, name, tensor_p, "tensor", False)

cdef ggml_tensor *arg_tensor_or_null(object value, const char *name) except? NULL:
    if value is None:
        return NULL
    if Py_TYPE(value) == <void *>tensor_p_type and memory(value)[0] == NULL:
        return NULL
    return arg_tensor(value, name)

cdef int arg_tensors(object value, int n, const char *name, ggml_tensor **out) except -1:
    cdef void *address = NULL
    cdef int i
    if isinstance(value, (list, tuple)):
        value = outside(tuple_of, value)
        if len(value) < n:
            fail(ValueError, f"{name.decode()} has {len(value)} entries: need {n}")
        for i in range(n):
            out[i] = arg_tensor(value[i], name)
        return 0
    arg_buffer(value, name, <size_t>n * sizeof(void *), &address)
    if n and address == NULL:
        fail(ValueError, f"{name.decode()} is not an array of {n} tensor pointers")
    for i in range(n):
        out[i] = (<ggml_tensor **>address)[i]
        if not gg_tensor_usable(out[i]):
            fail(RuntimeError, f"{name.decode()}[{i}] is not a tensor of a live context: freed, reset, or never one")
    return 0

cdef ggml_cgraph *arg_graph(object value, const char *name) except NULL:
    cdef ggml_cgraph *graph
    if Py_TYPE(value) == <void *>graph_p_type:
        graph = <ggml_cgraph *>memory(value)[0]
        if gg_region_find(GG_ARENA, graph) != NULL and gg_graph_live(graph) and gg_graph_sound(graph):
            return graph
    return <ggml_cgraph *>arg_struct(value, name, graph_p, "graph", True)

cdef void *arg_struct(object value, const char *name, object pointer_type, str kind, bint is_graph) except NULL:
    """A tensor or a graph in any form: a pointer, byref, the struct itself or an array of structs.

    A struct in memory of the caller is registered as long as its owner lives.
    """
    cdef object struct = pointer_type._type_, owner = None, problem
    cdef void *address = NULL
    cdef str argument = name.decode()
    cdef bint is_live
    if value is None:
        fail(TypeError, f"{argument} is None: need a {kind}")
    if is_a(value, byref_type) and is_a(value._obj, struct):
        owner = value._obj
        address = memory(owner)
    elif is_a(value, struct) or (is_a(value, array_base) and type(value)._type_ is struct and memory_size(value)):
        owner = value
        address = memory(owner)
    elif is_a(value, pointer_type):
        address = memory(value)[0]
        if address == NULL:
            fail(ValueError, f"{argument} is a NULL pointer: need a {kind}")
        owner = owner_of(value, <size_t>address)
    else:
        shape = outside(shape_of_array, value)
        if kind == "tensor" and shape is not None:
            fail(TypeError, f"{argument} is a NumPy array of shape {shape}: need a tensor, which "
                            "ggml.utils.from_numpy makes from it")
        fail(TypeError, f"{argument} is {repr_short(value)}: need a {kind} ({pointer_type.__name__})")
    is_live = gg_graph_live(<ggml_cgraph *>address) if is_graph else gg_tensor_live(<ggml_tensor *>address)
    if not is_live and (owner is None or gg_region_find(GG_ARENA, address) != NULL or gg_region_stale(address)):
        fail(RuntimeError, f"{argument} ({<size_t>address:#x}) is not a {kind} of a live context: "
                           "freed, reset, or never one")
    if is_live and not is_graph and gg_tensor_sound(<ggml_tensor *>address):
        return address
    problem = graph_problem(<ggml_cgraph *>address) if is_graph else tensor_problem(<ggml_tensor *>address)
    if problem or (is_live and not is_graph):
        fail(ValueError, f"{argument}: {problem or 'its fields were overwritten'}")
    if not is_live:
        adopt(owner, address, ctypes.sizeof(struct))
    return address

cdef object shape_of_array(object value):
    """The shape of a NumPy array as text, None for other objects."""
    return str(value.shape) if type(value).__module__ == "numpy" and hasattr(value, "shape") else None

cdef dict adopted = {}      # {address of a caller's struct: (owner or a weak reference to it, address of the region)}

cdef int adopt(object owner, void *address, size_t size) except -1:
    """Registers a struct that the caller owns, as long as its owner lives."""
    cdef size_t key = <size_t>address
    cdef gg_region *region
    if key in adopted:
        return 0
    region = <gg_region *>allocate(1, sizeof(gg_region))
    region.base, region.size = <uint8_t *>address, size
    region_add(GG_STRUCT, region)
    try:
        reference = weakref.ref(owner, lambda _, k=key: _disown(k))
    except TypeError:      # the owner does not support weak references
        reference = owner
    adopted[key] = (reference, <size_t>region)
    return 0

def _disown(key):
    _, region = adopted.pop(key)
    region_leave(GG_STRUCT, <gg_region *><size_t>region)

cdef object tensor_problem(const ggml_tensor *t):
    """The reason why a tensor, whose fields callers may have written, is not valid; None if it is."""
    cdef const gg_type_info *type
    cdef size_t extent
    cdef int i
    if not gg_type_ok(t.type):
        return f"type is {t.type}: no tensor type has this number"
    for i in range(4):
        if t.ne[i] < 0:
            return f"ne[{i}] is {t.ne[i]}: must not be negative"
    if t.view_src != NULL and not gg_tensor_live(t.view_src):
        return "view_src is not a tensor of a live context"
    type = &gg_types[t.type]
    if t.ne[0] % type.blck:
        return f"ne[0] is {t.ne[0]}: need a multiple of {type.name.decode()}'s block of {type.blck}"
    if not gg_extent(t, &extent):
        return "ne and nb reach over more than any memory, or let more than 2^34 elements share it"
    if not gg_op_known(t.op):
        return f"op is {t.op}: no operation of this build"
    for i in range(GGML_MAX_SRC):
        if t.src[i] != NULL and not gg_tensor_live(t.src[i]):
            return f"src[{i}] is not a tensor of a live context"
    return None

cdef object graph_problem(const ggml_cgraph *graph):
    """The reason why a graph is not valid; None if it is."""
    cdef const ggml_hash_set *visited = &graph.visited_hash_set
    if gg_region_find(GG_ARENA, graph) != NULL:
        return None if gg_graph_sound(graph) else "counts or addresses of arrays were written over"
    if graph.n_nodes < 0 or graph.n_leafs < 0:
        return "n_nodes and n_leafs must not be negative"
    if graph.n_nodes and not is_pointer_array(graph.nodes, graph.n_nodes):
        return f"nodes is not an array of {graph.n_nodes} pointers"
    if graph.n_leafs and not is_pointer_array(graph.leafs, graph.n_leafs):
        return f"leafs is not an array of {graph.n_leafs} pointers"
    if visited.size and (visited.size >> 40 or not is_pointer_array(visited.keys, visited.size)
                         or not gg_readable(visited.used, visited.size // 8 + 1)):
        return f"visited_hash_set has no arrays for {visited.size} tensors"
    return None

cdef bint is_pointer_array(const void *array, size_t n) noexcept:
    return array != NULL and gg_readable(array, n * sizeof(void *))

# ---- memory ----------------------------------------------------------------------------------------------------------
cdef gg_region *region_holding(const void *address, size_t size) noexcept:
    cdef gg_region *region = gg_region_of_data(address)
    if region == NULL or <size_t>(<uint8_t *>address - region.base) + size <= region.size:
        return region
    # An arena in memory of the caller whose context was freed: the memory may be gone, and a larger block in its place.
    if (region.ctx == NULL and not region.mapped and region.owner == NULL
            and gg_region_find(GG_ARENA, address) == region):
        return NULL
    return region

cdef int check_data(ggml_tensor *t, str role) except -1:
    cdef size_t size
    cdef gg_region *region
    problem = tensor_problem(t)
    if problem:
        fail(ValueError, f"{role} '{name_text(t)}': {problem}")
    if gg_is_empty(t):
        return 0
    gg_extent(t, &size)
    if t.data == NULL:
        fail(ValueError, f"{role} '{name_text(t)}' has no data: made with no_alloc and not allocated")
    region = region_holding(t.data, size)
    if region != NULL:
        if <size_t>(<uint8_t *>t.data - region.base) + size > region.size:
            fail(ValueError, f"{role} '{name_text(t)}' ({size} bytes) reaches beyond the memory that holds it")
    elif gg_region_stale(t.data):
        fail(RuntimeError, f"{role} '{name_text(t)}' has data in memory that was freed")
    elif not gg_readable(t.data, size):
        fail(ValueError, f"{role} '{name_text(t)}' has data at {<size_t>t.data:#x}: "
                         f"no readable memory of {size} bytes")
    return 0

cdef object region_add(int kind, gg_region *region):
    if not gg_region_add(kind, region):
        free(region)
        fail(MemoryError, "there is no memory to register a region")

cdef int region_leave(int kind, gg_region *region) except -1:
    cdef PyObject *owner = <PyObject *>region.owner
    gg_region_remove(kind, region)
    region.owner = NULL
    gg_region_leave(region)
    Py_XDECREF(owner)
    return 0

cdef gg_region *buffer_region(size_t size) noexcept:
    return pages_region(gg_pages_alloc(size), size)

cdef gg_region *file_region(int fd, size_t size) noexcept:
    cdef gg_region *region = pages_region(gg_pages_of_file(fd, size), size)
    if region != NULL:
        region.file = gg_mapped_new(region.base, size, fd)
        if region.file == NULL:
            buffer_retire(region)
            return NULL
    return region

cdef struct Copies:
    uint8_t *to
    const uint8_t *source

cdef void copy_large_page(void *data, int64_t i) noexcept nogil:
    cdef Copies *c = <Copies *>data
    memcpy(c.to + i * <int64_t>GG_LARGE_PAGE, c.source + i * <int64_t>GG_LARGE_PAGE, GG_LARGE_PAGE)

cdef void copy_large_pages(void *to, const void *source, size_t large_pages) noexcept nogil:
    cdef Copies c = Copies(<uint8_t *>to, <const uint8_t *>source)
    engine.parallel_for(engine.default_threads(), <int64_t>large_pages, copy_large_page, &c)

cdef size_t enlarge_pages(gg_region *region, uint8_t *data, size_t size) noexcept nogil:
    return gg_pages_enlarge(data, size, region.size - <size_t>(data - region.base), copy_large_pages)

cdef int check_file(gg_region *region) except -1:
    if region.file != NULL and gg_mapped_changed(region.file):
        fail(RuntimeError, "a file was written to or shortened by another program while it was mapped into memory: "
                           "open it again, or read it without mapping it (mmap=False, gguf_init_from_file)")
    return 0

cdef int check_files(gg_pins *pins) except -1:
    cdef size_t i
    for i in range(pins.n):
        check_file(pins.v[i])
    return 0

cdef gg_region *pages_region(void *pages, size_t size) noexcept:
    """Registers pages as a BUFFER region; unmaps them and returns NULL if there is no memory for it."""
    cdef gg_region *region
    if pages == NULL:
        return NULL
    region = <gg_region *>engine.calloc(1, sizeof(gg_region))
    if region != NULL:
        region.base, region.size, region.mapped = <uint8_t *>pages, size, True
        if gg_region_add(GG_BUFFER, region):
            return region
    free(region)
    gg_pages_free(pages, size)
    return NULL

cdef void buffer_retire(gg_region *region) noexcept:
    gg_region_remove(GG_BUFFER, region)
    gg_region_retire(region)

cdef object region_owner(gg_region *region):
    return None if region.owner == NULL else dereference(<object><PyObject *>region.owner)

cdef object dereference(object owner):
    """The object of a weak reference; other objects unchanged."""
    return owner() if is_a(owner, weakref.ref) else owner

cdef int pins_hold(gg_pins *pins, list kept, ggml_tensor **nodes, int n) except -1:
    cdef size_t before = pins.n
    if not gg_pin(pins, nodes, n):
        fail(MemoryError, f"no memory to hold what {n} nodes use")
    return hold_owners(pins, before, kept)

cdef int hold_owners(gg_pins *pins, size_t first, list kept) except -1:
    cdef size_t i
    cdef gg_region *region
    for i in range(first, pins.n):
        region = pins.v[i]
        check_file(region)
        if region.ctx != NULL and region.ctx.keep != NULL:
            kept.append(<object><PyObject *>region.ctx.keep)
        elif region.owner != NULL:
            kept.append(region_owner(region))
        elif not region.mapped and <size_t>region.base in adopted:
            kept.append(dereference(adopted[<size_t>region.base][0]))
    return 0

cdef void pins_release(gg_pins *pins) noexcept:
    gg_unpin(pins)

# ---- nodes -----------------------------------------------------------------------------------------------------------
cdef void node_init(ggml_tensor *node, int op, int type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) noexcept:
    gg_clear_tensor(node)
    node.op, node.type = op, type
    node.ne[0], node.ne[1], node.ne[2], node.ne[3] = ne0, ne1, ne2, ne3

cdef void node_like(ggml_tensor *node, int op, int type, const ggml_tensor *a) noexcept:
    node_init(node, op, type, a.ne[0], a.ne[1], a.ne[2], a.ne[3])

cdef void node_view(ggml_tensor *node, ggml_tensor *a, size_t offset) noexcept:
    node.view_src, node.view_offs = a, offset
    if a.view_src != NULL:
        node.view_src = a.view_src
        node.view_offs += a.view_offs

cdef int check_node(const ggml_tensor *node) except -1:
    cdef char message[GG_MESSAGE]
    cdef int i
    if node.op != GGML_OP_NONE and gg_check(node, message) != NULL:
        text = message.decode(errors="replace")
        for i in range(2):                   # what arrays of Python numbers become by default
            if node.src[i] == NULL:
                continue
            if node.src[i].type == GGML_TYPE_F64 or (i == 0 and node.src[i].type == GGML_TYPE_I64):
                fail(ValueError, f"{text} (operations do not compute with {gg_types[node.src[i].type].name.decode()}: "
                                 "convert the array with .astype(numpy.float32) first)")
        fail(ValueError, text)
    return 0

cdef ggml_tensor *node_append(ggml_context *ctx, ggml_tensor *node) except NULL:
    cdef size_t need, nbytes = 0
    cdef ggml_tensor *t
    if node.view_src == NULL and not gg_set_contiguous(node, &nbytes):
        fail(ValueError, "the tensor is larger than any memory")
    check_node(node)
    if ctx.scratch != NULL and not ctx.no_alloc and not gg_scratch_fits(ctx, nbytes):
        fail(MemoryError, f"the scratch buffer is full: {ctx.scratch_used} of {ctx.scratch_size} bytes are used, "
                          f"{nbytes} more are needed")
    t = gg_context_tensor(ctx, node, nbytes, &need)
    if t == NULL:
        arena_full(ctx, need)
    return t

cdef int arena_full(ggml_context *ctx, size_t need) except -1:
    """Raises the exception for a context without room; need: the size that it would have to have."""
    if need == <size_t>-1:
        fail(ValueError, "the tensor or graph is larger than any memory")
    if ctx.grows:
        fail(MemoryError, f"the context can't grow: there is no memory for {need} bytes")
    fail(MemoryError, f"the context is full: it would need mem_size={need}, it has {ctx.mem_size}")

cdef void *work_buffer(ggml_context *ctx, size_t size) except NULL:
    cdef size_t need
    cdef ggml_object *header = gg_context_object(ctx, GGML_OBJECT_TYPE_WORK_BUFFER, size, &need)
    if header == NULL:
        arena_full(ctx, need)
    return header + 1

cdef void node_in_place(ggml_tensor *node, ggml_tensor *a) noexcept:
    memcpy(node.nb, a.nb, sizeof(node.nb))
    node_view(node, a, 0)
    set_name(node, a.name, b" (view)")

cdef ggml_tensor *node1(ggml_context *ctx, int op, ggml_tensor *a) except NULL:
    cdef ggml_tensor node
    node_like(&node, op, a.type, a)
    node.src[0] = a
    return node_append(ctx, &node)

cdef ggml_tensor *node2(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b) except NULL:
    cdef ggml_tensor node
    node_like(&node, op, a.type, a)
    node.src[0], node.src[1] = a, b
    return node_append(ctx, &node)

cdef ggml_tensor *node1_in_place(ggml_context *ctx, int op, ggml_tensor *a) except NULL:
    return node2_in_place(ctx, op, a, NULL)

cdef ggml_tensor *node2_in_place(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b) except NULL:
    cdef ggml_tensor node
    node_like(&node, op, a.type, a)
    node.src[0], node.src[1] = a, b
    node_in_place(&node, a)
    return node_append(ctx, &node)

cdef ggml_tensor *new_tensor(ggml_context *ctx, int type, int n_dims, const int64_t *ne) except NULL:
    cdef ggml_tensor node
    cdef int i
    node_init(&node, GGML_OP_NONE, type, 1, 1, 1, 1)
    for i in range(n_dims):
        if ne[i] < 0:
            fail(ValueError, f"ne{i} is {ne[i]}: must not be negative")
        node.ne[i] = ne[i]
    if node.ne[0] % gg_types[type].blck:
        fail(ValueError, f"ne0 is {node.ne[0]}: need a multiple of {gg_types[type].name.decode()}'s block of "
                         f"{gg_types[type].blck}")
    return node_append(ctx, &node)

cdef void set_name(ggml_tensor *t, const char *prefix, const char *suffix) noexcept:
    cdef size_t n = min(strlen(prefix), <size_t>GGML_MAX_NAME - 1)
    cdef size_t n_suffix = min(strlen(suffix), <size_t>GGML_MAX_NAME - 1 - n)
    if t.name != prefix:
        memcpy(t.name, prefix, n)
    memcpy(t.name + n, suffix, n_suffix)
    t.name[n + n_suffix] = 0

def _describe(pointer):
    """The tensor of a pointer for repr(), None unless it is live."""
    cdef ggml_tensor *t = <ggml_tensor *>memory(pointer)[0]
    if not gg_tensor_live(t):
        return None
    cdef const char *op = gg_op_name(t.op)
    type = gg_types[t.type].name.decode() if gg_type_ok(t.type) else f"type {t.type}"
    made_by = "" if t.op == GGML_OP_NONE or op == NULL else f" op {op.decode()}"
    return f"{name_text(t)!r} {type} {[t.ne[0], t.ne[1], t.ne[2], t.ne[3]]}{made_by}"

tensor_p._describe = _describe

# ---- callbacks -------------------------------------------------------------------------------------------------------
# An exception of a callback must stop the call that runs the callback, wherever it is raised: a signal may come at the
# first instruction of a function of Python. Two means see to it. Callbacks of the types in _structs are a Guard, which
# is compiled, so that no instruction of Python lies between C and its `try`. Other functions of ctypes report what they
# raise to sys.unraisablehook, which is `report_unraisable` while callbacks may run.
cdef dict deferred = {}      # thread: the first exception of its callbacks that ran outside of a compute
cdef int watchers = 0       # threads that are within watch() and unwatch()
cdef object former_hook = None
cdef object main_thread = threading.main_thread().ident

cdef bint more_urgent(object error, object before):
    """Whether an exception takes the place of an earlier one: the first counts, but Ctrl-C counts more."""
    return before is None or (issubclass(type(before), Exception) and not issubclass(type(error), Exception))

cdef object defer_in(gg_call *call, object error):
    """Stores an exception of a compute, whose threads may raise some at the same time. Returns what is not raised."""
    cdef object before = None
    gg_hook_take()
    if call.exception != NULL:
        before = <object><PyObject *>call.exception
    if more_urgent(error, before):
        Py_INCREF(error)
        call.exception = <PyObject *>error
        if before is not None:
            Py_DECREF(before)
    gg_hook_open()
    return before

def defer_error(error):
    """Stores an exception of a callback: the compute that runs it raises it, else the thread's next raise_deferred().

    KeyboardInterrupt in a callback that no function of this package runs is raised as soon as Python code runs again.
    """
    cdef gg_call *call = gg_current_call()
    if call == NULL:
        ident = PyThread_get_thread_ident()
        if not gg_watching and isinstance(error, KeyboardInterrupt) and ident == main_thread:
            PyErr_SetInterrupt()
        elif more_urgent(error, deferred.get(ident)):
            deferred[ident] = error
        return
    defer_in(call, error)
    gg_stop(call, GGML_STATUS_FAILED)

def raise_deferred():
    """Raises the first exception of this thread's callbacks that ran outside of a compute, if there is one."""
    error = deferred.pop(PyThread_get_thread_ident(), None) if deferred else None
    if error is not None:
        raise error

def report_unraisable(args):
    """Takes the place of sys.unraisablehook after `watch`: defers what a function of ctypes would print and forget."""
    from_callback = args.exc_value is not None and "ctypes callback function" in (args.err_msg or "")
    if from_callback and (gg_current_call() != NULL or gg_watching):
        defer_error(args.exc_value)
    else:
        gg_hook_take()
        hook = former_hook
        gg_hook_open()
        (hook or sys.__unraisablehook__)(args)

cdef int watch() except -1:
    global former_hook, watchers, gg_watching
    gg_hook_take()
    try:
        if sys.unraisablehook is not report_unraisable:
            former_hook, sys.unraisablehook = sys.unraisablehook, report_unraisable
        watchers += not gg_watching
        gg_watching += 1
    finally:
        gg_hook_open()
    return 0

cdef int unwatch() except -1:
    global watchers, gg_watching
    gg_hook_take()
    try:
        gg_watching -= 1
        watchers -= not gg_watching
        if not watchers and sys.unraisablehook is report_unraisable:
            sys.unraisablehook = former_hook
    finally:
        gg_hook_open()
    return 0

def run_callback(function, tuple args):
    """The result of a callback, which may be a function of ctypes; raises what it raised."""
    watch()
    try:
        result = paused(function, args)
    finally:
        unwatch()
    raise_deferred()
    return result

cdef class Guard:
    """A function of Python as ctypes calls it for C: its exceptions are deferred.

    Args:
        function: what is called.
        restype: ctypes type of the result, or None.
        on_error: what C gets if the function raises.
    """
    cdef object function, restype, on_error

    def __init__(self, function, restype, on_error):
        self.function, self.restype, self.on_error = function, restype, on_error

    def __call__(self, *args):
        cdef const char *caller = gg_running
        cdef int section = gg_section_pause()
        try:
            result = self.function(*args)
            if self.restype is None:
                return None
            made = self.restype(result)     # a result that cannot be converted is an error of the callback too
            return result if self.restype is ctypes.c_char_p else made.value
        except BaseException as error:
            defer_error(error)
            return self.on_error
        finally:
            gg_section_back(section)
            enter(caller)                   # the callback may have called other functions

_structs._core_guard = Guard

# ---- graphs ----------------------------------------------------------------------------------------------------------
cdef ggml_cgraph *graph_new(ggml_context *ctx, size_t size, bint grads) except NULL:
    cdef size_t need
    cdef ggml_cgraph *graph = gg_graph_new(ctx, size, grads, &need)
    if graph == NULL:
        arena_full(ctx, need)
    return graph

cdef int graph_expand(ggml_cgraph *graph, ggml_tensor *t, bint compute) except -1:
    cdef const ggml_tensor *bad
    cdef int status = gg_graph_expand(graph, t, compute, &bad)
    if status == GGML_STATUS_FAILED:
        fail(MemoryError, f"the graph is full: it has room for {graph.size} nodes and as many leafs "
                          "(see ggml_new_graph_custom)")
    if status == GGML_STATUS_ABORTED:
        fail(RuntimeError, f"a source of '{name_text(bad)}' is not a tensor of a live context")
    if status:
        raise MemoryError(f"{function_name()}: out of memory")
    return 0

include "_isa.pxi"

def enums():
    """The constants that the tables define: GGML_TYPE_*, GGML_OP_*, GGML_UNARY_OP_*."""
    names = {}
    for i in range(GG_TYPE_MAX):
        if gg_type_ok(i):
            names["GGML_TYPE_" + gg_types[i].name.decode().upper()] = i
    names["GGML_TYPE_COUNT"] = GGML_TYPE_COUNT
    for i in range(GG_OP_MAX):
        if gg_op_name(i) != NULL:
            names["GGML_OP_" + gg_op_name(i).decode()] = i
    names["GGML_OP_COUNT"] = GGML_OP_COUNT
    for i in range(256):
        if gg_unary_name(i) != NULL:
            names["GGML_UNARY_OP_" + gg_unary_name(i).decode()] = i
    names["GGML_UNARY_OP_COUNT"] = GGML_UNARY_OP_COUNT
    return names

# ---- the table of operations -----------------------------------------------------------------------------------------
def op_table():
    """The rows of _simd/tables/ops.h as dicts: id, name, symbol, family, overwrites (numbers of operands), flags."""
    flags = {"LEAF": GG_FLAG_LEAF, "VIEW": GG_FLAG_VIEW, "WORK": GG_FLAG_WORK, "CALLBACK": GG_FLAG_CALLBACK,
             "STEP": GG_FLAG_STEP, "GRAD": GG_FLAG_GRAD, "PLAN": GG_FLAG_PLAN}
    cdef const gg_op_info *row
    table = []
    for i in range(GG_OP_MAX):
        row = engine.op(i)
        if row.name != NULL:
            table.append({
                "id": i,
                "name": row.name.decode(),
                "symbol": row.symbol.decode(),
                "family": row.family.decode(),
                "overwrites": {k for k in range(3) if row.overwrites >> k & 1},
                "flags": {name for name, bit in flags.items() if row.flags & bit},
            })
    return table

def fuse(on):
    """Says whether later computes fuse nodes (bool). At import the environment variable GGML_FUSE says it."""
    gg_fuse_enable(on)

isa_select(os.environ.get("GGML_ISA") or None)
fuse(os.environ.get("GGML_FUSE") != "0")
