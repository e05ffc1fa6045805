"""Tensors share their memory with NumPy, DLPack and the buffer protocol; views keep the memory alive.

Every view of a tensor owns a `Hold`, which counts as a view of the memory's region: `ggml_free` leaves the memory until
the last view is released. The order of dimensions is NumPy's here: the outermost first.
"""
import ctypes
import sys
import weakref

cimport cython
from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS, PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS, PyBUF_FORMAT, PyBUF_ND, PyBUF_RECORDS_RO,
    PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_CheckBuffer,
    PyObject_GetBuffer,
)
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, strchr

from .._core cimport (
    GG_TYPE_MAX, allocate, arg_buffer, arg_context, arg_extent, arg_tensor, arg_type, check_data, check_file, engine,
    enter, fail, gg_bf16_to_f32, gg_is_empty, gg_region, gg_row_size, gg_types, ggml_context, ggml_tensor, is_a, keep,
    new_tensor, node_append, node_init, outside, paused, region_owner, repr_short, section_alone, section_back,
    section_pause, section_shared, truth_of, tuple_of, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_NONE, GGML_TYPE_BF16, GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_F64, GGML_TYPE_I16, GGML_TYPE_I32,
    GGML_TYPE_I64, GGML_TYPE_I8,
)
from .quants cimport fail_beyond
from .._structs import ggml_tensor_p

cdef extern from "Python.h":
    ctypedef struct RawBuffer "Py_buffer":       # the same struct, whose obj Cython does not count references of
        void *buf
        PyObject *obj
        Py_ssize_t len, itemsize
        int readonly, ndim
        char *format
        Py_ssize_t *shape
        Py_ssize_t *strides
        Py_ssize_t *suboffsets
        void *internal
    ctypedef struct PyBufferProcs:
        int (*bf_getbuffer)(PyObject *, RawBuffer *, int) except -1
    ctypedef struct PyTypeObject:
        PyBufferProcs *tp_as_buffer
    bint Py_IsInitialized() nogil

cdef extern from *:
    """
    static int gg_numpy_ready;                  /* whether `numpy` and `dtypes` are what they stay */
    static inline int gg_numpy_here(void) { return __atomic_load_n(&gg_numpy_ready, __ATOMIC_ACQUIRE); }
    static inline void gg_numpy_came(void) { __atomic_store_n(&gg_numpy_ready, 1, __ATOMIC_RELEASE); }
    """
    bint gg_numpy_here() nogil
    void gg_numpy_came() nogil

cdef bint big_endian = sys.byteorder == "big"
cdef object numpy = None              # imported when it is first needed
cdef list dtypes = [None] * GG_TYPE_MAX     # NumPy dtypes by tensor type; None: values have to be decoded

cdef int need_numpy() except -1:
    """Imports NumPy at first. What was looked up before has to be looked up again."""
    return 0 if gg_numpy_here() else import_numpy()

cdef int import_numpy() except -1:
    global numpy
    cdef int section = section_pause()
    try:
        import numpy as module
    finally:
        section_back(section)
    section = section_alone()
    try:
        if not gg_numpy_here():
            for type_ in (GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_F64, GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32,
                          GGML_TYPE_I64):
                dtypes[type_] = module.dtype((<bytes>format_of(type_)).decode())
            numpy = module
            gg_numpy_came()
    finally:
        section_back(section)
    return 0

cdef const char *format_of(int type) noexcept:
    """The struct code of an element: 16 bits of BF16 are an unsigned integer, a row of quantised blocks is bytes."""
    if type == GGML_TYPE_F32: return b"f"
    if type == GGML_TYPE_F16: return b"e"
    if type == GGML_TYPE_F64: return b"d"
    if type == GGML_TYPE_I8: return b"b"
    if type == GGML_TYPE_I16: return b"h"
    if type == GGML_TYPE_I32: return b"i" if sizeof(long) == 8 else b"l"     # the codes of NumPy's own int32 and int64
    if type == GGML_TYPE_I64: return b"l" if sizeof(long) == 8 else b"q"
    if type == GGML_TYPE_BF16: return b"H"
    return b"B"

# ---- views -----------------------------------------------------------------------------------------------------------
@cython.freelist(16)
@cython.final
cdef class Hold:
    """Keeps the memory of a tensor alive for a view, and describes its layout. As a buffer, it has all its bytes."""
    cdef gg_region *region            # which counts the view; NULL: memory that is not ours
    cdef object owner                 # what keeps that memory alive, if it is known
    cdef uint8_t *data
    cdef int type, ndim
    cdef Py_ssize_t itemsize, span    # bytes of an item, and from the first byte to behind the last
    cdef Py_ssize_t shape[4]
    cdef Py_ssize_t strides[4]

    def __dealloc__(self):
        if self.region != NULL:
            engine.region_view(self.region, -1)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.span, 0, flags)

    cdef tuple sizes(self):
        if self.ndim == 1:
            return (self.shape[0],)
        if self.ndim == 2:
            return (self.shape[0], self.shape[1])
        return tuple([self.shape[i] for i in range(self.ndim)])

    cdef tuple steps(self):
        if self.ndim == 1:
            return (self.strides[0],)
        if self.ndim == 2:
            return (self.strides[0], self.strides[1])
        return tuple([self.strides[i] for i in range(self.ndim)])

cdef Hold hold(ggml_tensor *t):
    cdef Hold h
    cdef int d, k, n = dims(t)
    if not engine.data_ok(t):
        check_data(t, "tensor")
    h = Hold.__new__(Hold)
    h.type, h.ndim, h.data = t.type, n, <uint8_t *>t.data
    h.itemsize = 1 if gg_types[t.type].quantized else gg_types[t.type].bytes
    h.span = h.itemsize
    for k in range(n):
        d = n - 1 - k
        h.shape[k], h.strides[k] = t.ne[d], <Py_ssize_t>t.nb[d]
    if gg_types[t.type].quantized:
        if t.nb[0] != <size_t>gg_types[t.type].bytes:
            fail(BufferError, f"the blocks of {gg_types[t.type].name.decode()} are not contiguous")
        h.shape[n - 1], h.strides[n - 1] = <Py_ssize_t>gg_row_size(t.type, t.ne[0]), 1
    if gg_is_empty(t):
        h.span = 0
        return h
    for k in range(n):
        h.span += (h.shape[k] - 1) * h.strides[k]
    h.region = engine.region_hold(t.data)
    if h.region != NULL:
        check_file(h.region)
        if h.region.mapped:
            return h
    h.owner = source_of(t)
    if h.region != NULL:
        if h.owner is None:
            h.owner = region_owner(h.region)
        engine.region_view(h.region, -1)
        h.region = NULL
    return h

cdef bint contiguous(Hold h, bint fortran) noexcept:
    cdef Py_ssize_t need = h.itemsize
    cdef int i, k
    if h.span == 0:
        return True
    for i in range(h.ndim):
        k = i if fortran else h.ndim - 1 - i
        if h.shape[k] != 1 and h.strides[k] != need:
            return False
        need *= h.shape[k]
    return True

cdef int export(PyObject *tensor, RawBuffer *view, int flags) except -1:
    """The buffer protocol of tensor pointers. The view's object is the Hold, so that releasing it needs no more."""
    view.obj = NULL
    enter(b"ggml_tensor_p")
    cdef int section = section_shared()
    try:
        fill_view(hold(arg_tensor(<object>tensor, b"tensor")), view, flags)
    finally:
        section_back(section)
    return 0

cdef int fill_view(Hold h, RawBuffer *view, int flags) except -1:
    cdef bint rows = contiguous(h, False)
    cdef int k
    if (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS and not rows:
        fail(BufferError, "the tensor is not contiguous")
    if (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS and not contiguous(h, True):
        fail(BufferError, "the tensor is not contiguous in Fortran order")
    if (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS and not rows and not contiguous(h, True):
        fail(BufferError, "the tensor is not contiguous")
    if (flags & PyBUF_STRIDES) != PyBUF_STRIDES and not rows:
        fail(BufferError, "the tensor is not contiguous, and strides were not requested")
    view.buf, view.itemsize, view.len, view.readonly = h.data, h.itemsize, h.itemsize, 0
    for k in range(h.ndim):
        view.len *= h.shape[k]
    view.ndim = h.ndim if flags & PyBUF_ND else 1
    view.shape = h.shape if flags & PyBUF_ND else NULL
    view.strides = h.strides if (flags & PyBUF_STRIDES) == PyBUF_STRIDES else NULL
    view.format = <char *>format_of(h.type) if flags & PyBUF_FORMAT else NULL
    view.suboffsets, view.internal = NULL, NULL
    Py_INCREF(h)
    view.obj = <PyObject *>h
    return 0

(<PyTypeObject *><PyObject *>ggml_tensor_p).tp_as_buffer.bf_getbuffer = export

def _array_interface(self):
    """The array interface protocol; `data` is an object that keeps the memory alive, not an address."""
    enter(b"__array_interface__")
    cdef Hold h = hold(arg_tensor(self, b"tensor"))
    code = (<bytes>format_of(h.type)).decode()
    kind = "f" if code in "efd" else "i" if code in "bhilq" else "u"
    order = "|" if h.itemsize == 1 else ">" if big_endian else "<"
    return {"version": 3, "typestr": f"{order}{kind}{h.itemsize}", "shape": h.sizes(), "strides": h.steps(), "data": h}

def _array(self, dtype=None, copy=None):
    """NumPy calls this when the other protocols raised; its exception reaches the caller."""
    need_numpy()
    return paused(as_array, (self, dtype, copy))

def as_array(tensor, dtype, copy):
    return numpy.array(memoryview(tensor), dtype=dtype, copy=copy)

ggml_tensor_p.__array_interface__ = property(_array_interface)
ggml_tensor_p.__array__ = _array

# ---- DLPack ----------------------------------------------------------------------------------------------------------
cdef enum:
    DL_CPU = 1
    DL_INT = 0
    DL_FLOAT = 2
    DL_BFLOAT = 4
    DL_READ_ONLY = 1
    DL_COPIED = 2

cdef struct DLTensor:
    void *data
    int32_t device_type, device_id
    int32_t ndim
    uint8_t code, bits
    uint16_t lanes
    int64_t *shape
    int64_t *strides         # in items; NULL: contiguous
    uint64_t byte_offset

cdef struct DLManaged:
    DLTensor tensor
    void *manager
    void (*deleter)(DLManaged *) noexcept nogil

cdef struct DLVersioned:
    uint32_t major, minor
    void *manager
    void (*deleter)(DLVersioned *) noexcept nogil
    uint64_t flags
    DLTensor tensor

cdef struct Exported:        # a tensor as a capsule, in one of the two forms
    DLManaged plain
    DLVersioned versioned
    int64_t shape[4]
    int64_t strides[4]
    PyObject *hold

cdef void drop(Exported *e) noexcept with gil:
    Py_DECREF(<object>e.hold)
    free(e)

cdef void drop_plain(DLManaged *m) noexcept nogil:
    if Py_IsInitialized():
        drop(<Exported *>m.manager)

cdef void drop_versioned(DLVersioned *m) noexcept nogil:
    if Py_IsInitialized():
        drop(<Exported *>m.manager)

cdef void unclaimed(object capsule) noexcept:
    """The destructor of a capsule: frees the tensor if no consumer took it (which renames the capsule)."""
    if PyCapsule_IsValid(capsule, b"dltensor"):
        drop(<Exported *>(<DLManaged *>PyCapsule_GetPointer(capsule, b"dltensor")).manager)
    elif PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        drop(<Exported *>(<DLVersioned *>PyCapsule_GetPointer(capsule, b"dltensor_versioned")).manager)

cdef Hold copied(Hold h, object tensor):
    """A Hold with a contiguous copy of the values."""
    cdef Hold c = Hold.__new__(Hold)
    cdef int k
    c.owner = bytearray(memoryview(tensor).tobytes() or 1)
    cdef uint8_t[::1] memory = c.owner
    c.data, c.span = &memory[0], memory.shape[0]
    c.type, c.ndim, c.itemsize = h.type, h.ndim, h.itemsize
    cdef Py_ssize_t step = h.itemsize
    for k in reversed(range(h.ndim)):
        c.shape[k], c.strides[k] = h.shape[k], step
        step *= h.shape[k]
    return c

def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule over the tensor's memory: versioned if the caller accepts 1.0, otherwise unversioned."""
    enter(b"__dlpack__")
    if stream is not None:
        fail(BufferError, f"stream is {repr_short(stream)}: tensors are in CPU memory, need None")
    if dl_device is not None and outside(tuple_of, dl_device) != (DL_CPU, 0):
        fail(BufferError, f"dl_device is {repr_short(dl_device)}: tensors are in CPU memory, need ({DL_CPU}, 0)")
    cdef Hold h = hold(arg_tensor(self, b"tensor"))
    if gg_types[h.type].quantized:
        fail(BufferError, f"the tensor is {gg_types[h.type].name.decode()}: DLPack has no such type")
    cdef int k
    for k in range(h.ndim):
        if h.strides[k] % h.itemsize:
            fail(BufferError, f"strides {h.steps()} are not multiples of the items' {h.itemsize} bytes")
    cdef bint copies = outside(truth_of, copy)
    if copies:
        h = copied(h, self)
    cdef bint versioned = max_version is not None and outside(tuple_of, max_version) >= (1,)
    cdef Exported *e = <Exported *>allocate(1, sizeof(Exported))
    cdef DLTensor *x = &e.versioned.tensor if versioned else &e.plain.tensor
    x.data, x.device_type, x.device_id, x.ndim, x.byte_offset = h.data, DL_CPU, 0, h.ndim, 0
    x.bits, x.lanes = <uint8_t>(8 * h.itemsize), 1
    x.code = DL_BFLOAT if h.type == GGML_TYPE_BF16 else DL_FLOAT if format_of(h.type)[0] in b"efd" else DL_INT
    x.shape, x.strides = e.shape, e.strides
    for k in range(h.ndim):
        e.shape[k], e.strides[k] = h.shape[k], h.strides[k] // h.itemsize
    if versioned:
        e.versioned.major, e.versioned.minor, e.versioned.flags = 1, 0, DL_COPIED if copies else 0
        e.versioned.manager, e.versioned.deleter = e, drop_versioned
        capsule = PyCapsule_New(&e.versioned, b"dltensor_versioned", unclaimed)
    else:
        e.plain.manager, e.plain.deleter = e, drop_plain
        capsule = PyCapsule_New(&e.plain, b"dltensor", unclaimed)
    Py_INCREF(h)
    e.hold = <PyObject *>h
    return capsule

def _dlpack_device(self):
    """(kDLCPU, 0)."""
    return DL_CPU, 0

ggml_tensor_p.__dlpack__ = _dlpack
ggml_tensor_p.__dlpack_device__ = _dlpack_device

# ---- tensors over foreign memory -------------------------------------------------------------------------------------
cdef dict sources = {}   # address of a tensor over foreign memory: weak reference to its Source

@cython.no_gc
cdef class Source:
    """Keeps the memory of such a tensor alive; its context and the views of the tensor hold it."""
    cdef RawBuffer view
    cdef DLManaged *plain
    cdef DLVersioned *versioned
    cdef object tensor, itself, __weakref__     # the first two as in `sources`: objects that exist need no memory here

    def __dealloc__(self):
        if self.itself is not None and sources.get(self.tensor) is self.itself:
            sources.pop(self.tensor, None)
        if self.view.obj != NULL:
            PyBuffer_Release(<Py_buffer *>&self.view)
        if self.plain != NULL and self.plain.deleter != NULL:
            self.plain.deleter(self.plain)
        if self.versioned != NULL and self.versioned.deleter != NULL:
            self.versioned.deleter(self.versioned)

cdef object source_of(ggml_tensor *t):
    if not sources:
        return None
    found = sources.get(<size_t>(t.view_src if t.view_src != NULL else t))
    return found if found is None else found()

cdef int type_of(const char *code, Py_ssize_t size, bint *swapped) noexcept:
    """The tensor type of items by their struct code; -1: there is none."""
    swapped[0] = code != NULL and (code[0] == b"<" if big_endian else code[0] == b">" or code[0] == b"!")
    if code != NULL and code[0] != 0 and strchr(b"@=<>!", code[0]) != NULL:
        code += 1
    if code == NULL or code[0] == 0 or code[1] != 0:
        return -1
    if code[0] == b"e" and size == 2: return GGML_TYPE_F16
    if code[0] == b"f" and size == 4: return GGML_TYPE_F32
    if code[0] == b"d" and size == 8: return GGML_TYPE_F64
    if strchr(b"bhilqn", code[0]) == NULL: return -1
    if size == 1: return GGML_TYPE_I8
    if size == 2: return GGML_TYPE_I16
    if size == 4: return GGML_TYPE_I32
    return GGML_TYPE_I64 if size == 8 else -1

cdef int type_of_dl(const DLTensor *x) noexcept:
    cdef bint swapped
    if x.lanes != 1: return -1
    if x.code == DL_BFLOAT and x.bits == 16: return GGML_TYPE_BF16
    if x.code == DL_FLOAT:
        return type_of(b"e" if x.bits == 16 else b"f" if x.bits == 32 else b"d", x.bits // 8, &swapped)
    return type_of(b"q", x.bits // 8, &swapped) if x.code == DL_INT else -1

cdef ggml_tensor *shared(ggml_context *c, Source s, int type, int ndim, const int64_t *shape, const int64_t *strides,
                         void *data) except? NULL:
    """A tensor over `data` (strides in bytes); NULL if a tensor cannot describe it."""
    cdef ggml_tensor d
    cdef ggml_tensor *t
    cdef size_t[4] nb
    cdef int k, i
    cdef int64_t size = gg_types[type].bytes
    node_init(&d, GGML_OP_NONE, type, 1, 1, 1, 1)
    if <size_t>data % <size_t>size:
        return NULL
    for k in range(ndim):
        i = ndim - 1 - k
        d.ne[i] = shape[k]
        nb[i] = <size_t>strides[k]
        if shape[k] > 1 and (strides[k] < size or strides[k] % size):
            return NULL
    for i in range(4):                       # dimensions of size 1 may have any stride
        if i >= ndim or d.ne[i] <= 1:
            nb[i] = <size_t>size if i == 0 else nb[i - 1] * <size_t>d.ne[i - 1]
    cdef bint no_alloc = c.no_alloc
    c.no_alloc = True
    try:
        t = node_append(c, &d)
    finally:
        c.no_alloc = no_alloc
    memcpy(t.nb, nb, sizeof(nb))
    s.tensor, s.itself = <size_t>t, weakref.ref(s)
    keep(c, s)
    sources[s.tensor] = s.itself
    t.data = data
    return t

cdef ggml_tensor *over_buffer(ggml_context *c, object x) except? NULL:
    cdef Source s = Source.__new__(Source)
    cdef int64_t shape[4]
    cdef int64_t strides[4]
    cdef bint swapped
    cdef int k, type
    try:
        PyObject_GetBuffer(outside(buffer_of, x), <Py_buffer *>&s.view, PyBUF_RECORDS_RO | PyBUF_WRITABLE)
    except (BufferError, ValueError, TypeError):
        return NULL                          # read-only, or of a dtype without a buffer format
    type = type_of(s.view.format, s.view.itemsize, &swapped)
    if type < 0 or swapped or s.view.ndim > 4:
        return NULL
    for k in range(s.view.ndim):
        shape[k], strides[k] = s.view.shape[k], s.view.strides[k]
    return shared(c, s, type, s.view.ndim, shape, strides, s.view.buf)

cdef object buffer_of(object x):
    return memoryview(x)

def capsule_of(x):
    """The DLPack device of an array, and its capsule if that is the CPU."""
    device = tuple(x.__dlpack_device__())
    if device[0] != DL_CPU:
        return device, None
    try:
        return device, x.__dlpack__(max_version=(1, 0))
    except TypeError:                        # older than DLPack 1.0
        return device, x.__dlpack__()

cdef ggml_tensor *over_dlpack(ggml_context *c, tuple device, object capsule) except? NULL:
    cdef Source s = Source.__new__(Source)
    cdef DLTensor *m
    cdef int64_t strides[4]
    cdef int64_t step
    cdef int k, type
    if capsule is None:
        fail(BufferError, f"x is on device {device}: need CPU memory")
    if PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        s.versioned = <DLVersioned *>PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        PyCapsule_SetName(capsule, b"used_dltensor_versioned")
        if s.versioned.major != 1:
            fail(BufferError, f"x has DLPack version {s.versioned.major}.{s.versioned.minor}: need 1.x")
        if s.versioned.flags & DL_READ_ONLY:
            return NULL
        m = &s.versioned.tensor
    else:
        s.plain = <DLManaged *>PyCapsule_GetPointer(capsule, b"dltensor")
        PyCapsule_SetName(capsule, b"used_dltensor")
        m = &s.plain.tensor
    type = type_of_dl(m)
    if type < 0:
        fail(TypeError, f"x has DLPack type {m.code} of {m.bits} bits: no tensor type corresponds to it")
    if m.ndim > 4:
        fail(ValueError, f"x has {m.ndim} dimensions: need at most 4")
    step = gg_types[type].bytes
    for k in reversed(range(m.ndim)):
        strides[k] = m.strides[k] * gg_types[type].bytes if m.strides != NULL else step
        step *= m.shape[k]
    return shared(c, s, type, m.ndim, m.shape, strides, <uint8_t *>m.data + m.byte_offset)

cdef object has_dlpack(object x):
    return hasattr(x, "__dlpack__")

def from_dlpack(ctx, x):
    """Creates a tensor that shares the memory of an array of PyTorch, JAX or NumPy.

    Writes through one are visible through the other, and the context keeps the memory alive. A permuted array gives
    a permuted tensor (see ggml_cont). What a tensor cannot describe is copied: read-only memory, negative or zero
    strides, foreign byte order.

    Args:
        ctx: context that receives the tensor.
        x: object with __dlpack__ or the buffer protocol, in CPU memory, with at most 4 dimensions and a dtype that
            from_numpy accepts.
    Returns:
        Tensor with the dimensions of x reversed.
    Raises:
        TypeError: ctx is not a context, x has neither interface, or no tensor type corresponds to its dtype.
        ValueError: x has more than 4 dimensions.
        BufferError: x is not in CPU memory, or its DLPack version is not 1.x.
        RuntimeError: ctx was freed.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"from_dlpack")
    cdef ggml_tensor *t
    if x is None or not (PyObject_CheckBuffer(x) or outside(has_dlpack, x)):
        fail(TypeError, f"x is a {type(x).__name__}: need an object with __dlpack__ or the buffer protocol")
    if PyObject_CheckBuffer(x) and not is_a(x, ggml_tensor_p):     # buffers do not distinguish BF16 from integers
        t = over_buffer(c, x)
    else:
        device, capsule = paused(capsule_of, (x,))
        c = arg_context(ctx, b"from_dlpack")             # again: it may be freed by now
        t = over_dlpack(c, device, capsule)
        if t == NULL:
            need_numpy()
            x = paused(numpy.from_dlpack, (x,))
            c = arg_context(ctx, b"from_dlpack")
    return wrap_tensor(t) if t != NULL else imported(c, x)

# ---- NumPy -----------------------------------------------------------------------------------------------------------
cdef object decoded(ggml_tensor *t):
    """The values of a BF16 or quantised tensor as a new float32 array, which is read-only."""
    cdef Hold h = hold(t)
    cdef ggml_tensor as_is = t[0]                        # a copy: another thread may free the tensor
    cdef int64_t i1, i2, i3, i0, n = t.ne[0]
    cdef const uint8_t *row
    cdef Py_buffer view
    cdef float *y
    to_f32 = engine.isa_active().to_f32[t.type]
    cdef bint packed = t.nb[0] == <size_t>gg_types[t.type].bytes
    if to_f32 == NULL and t.type != GGML_TYPE_BF16:
        fail(ValueError, f"the tensor is {gg_types[t.type].name.decode()}: its values can't be decoded")
    shape = h.sizes()[:h.ndim - 1] + (n,)
    out = numpy.empty(shape, numpy.float32)
    PyObject_GetBuffer(out, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
    y = <float *>view.buf
    cdef int section = section_pause()
    with nogil:
        for i3 in range(as_is.ne[3]):
            for i2 in range(as_is.ne[2]):
                for i1 in range(as_is.ne[1]):
                    row = h.data + <size_t>i1 * as_is.nb[1] + <size_t>i2 * as_is.nb[2] + <size_t>i3 * as_is.nb[3]
                    if packed and to_f32 != NULL:
                        to_f32(row, y, n)
                    else:
                        for i0 in range(n):
                            y[i0] = gg_bf16_to_f32((<const uint16_t *>(row + <size_t>i0 * as_is.nb[0]))[0])
                    y += n
    section_back(section)
    PyBuffer_Release(&view)
    out.setflags(write=False)                # writes would not reach the tensor
    return out

cdef object reshaped(object array, tuple wanted):
    """Applies `shape` of to_numpy: the first elements of each dimension if it fits, otherwise a reshape."""
    if len(wanted) == array.ndim and all([0 <= n <= m for n, m in zip(wanted, array.shape)]):
        return array[tuple([slice(n) for n in wanted])]
    try:
        return array.reshape(wanted)
    except ValueError:
        fail(ValueError, f"shape is {wanted}: the tensor has {array.shape}")

def to_numpy(tensor, shape=None):
    """Gives the values of a tensor as a NumPy array, its dimensions in NumPy's order (dimension 0 of ggml last).

    For f32, f16, f64 and integers, the array is a view: it shares the tensor's memory and keeps it alive, also
    after ggml_free. bf16 and quantised values are decoded to a new float32 array, which is read-only because writes
    would not reach the tensor; numpy.asarray(tensor) gives their bits.

    Args:
        tensor: tensor with data, any shape and any type. Every tensor has four dimensions, and none records how many
            of them were given: trailing dimensions of size 1, the first ones of the array, are left out, so that an
            array of shape (1, 3) comes back as (3,). shape restores them.
        shape: None, or a shape for the array. If it has as many dimensions as the array and none is larger, the
            result holds the first elements of each dimension; otherwise the elements are reshaped.
    Returns:
        numpy.ndarray; read-only if the type is bf16 or quantised.
    Raises:
        TypeError: tensor is not a tensor.
        ValueError: the tensor has no data, its type cannot be decoded, or its elements do not fit shape.
        BufferError: the blocks of a quantised tensor are not contiguous.
        RuntimeError: tensor was freed.

    Example:
        x = from_numpy(numpy.ones((2, 3), numpy.float32), ctx)
        to_numpy(x)[0] = 5.0  # writes to the tensor
    """
    enter(b"to_numpy")
    need_numpy()
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef Hold h = hold(t)
    dtype = dtypes[t.type]
    array = decoded(t) if dtype is None else numpy.ndarray(h.sizes(), dtype, h, 0, h.steps())
    return array if shape is None else reshaped(array, outside(tuple_of, shape))

cdef object imported(ggml_context *c, object x):
    """A new tensor with the values of an array."""
    cdef Py_buffer view
    cdef int64_t ne[4]
    cdef ggml_tensor *t
    cdef bint swapped
    cdef int kind, k
    if not PyObject_CheckBuffer(x):
        fail(TypeError, f"x is a {type(x).__name__}: need a NumPy array")
    try:
        PyObject_GetBuffer(outside(buffer_of, x), &view, PyBUF_RECORDS_RO)
    except (BufferError, ValueError):
        if outside(dtype_of, x) == "bfloat16":                # of ml_dtypes: it has no buffer format
            return imported_bf16(c, x)
        no_such_type(x, "")
    try:
        kind = type_of(view.format, view.itemsize, &swapped)
        if kind < 0:
            no_such_type(x, "B" if view.format == NULL else (<bytes>view.format).decode())
        if view.ndim > 4:
            fail(ValueError, f"x has {view.ndim} dimensions: need at most 4")
        for k in range(view.ndim):
            ne[view.ndim - 1 - k] = view.shape[k]
        t = new_tensor(c, kind, view.ndim, ne)
        tensor = wrap_tensor(t)
        if t.data != NULL and view.len:
            if not swapped and PyBuffer_IsContiguous(&view, b"C"):
                memcpy(t.data, view.buf, <size_t>view.len)
            else:
                paused(assign, (to_numpy(tensor), x))
        return tensor
    finally:
        PyBuffer_Release(&view)

def assign(array, values):
    array[...] = values

cdef object dtype_of(object x):
    return str(getattr(x, "dtype", ""))

cdef object bits_of(object x):
    return x.view("int16")

cdef int no_such_type(object x, str code) except -1:
    fail(TypeError, f"x has dtype {outside(dtype_of, x) or code}: need float16/32/64 or int8/16/32/64; "
                    "for values to compute with, convert the array: x.astype(numpy.float32)")

cdef object imported_bf16(ggml_context *c, object x):
    tensor = imported(c, outside(bits_of, x))
    (<ggml_tensor *>arg_tensor(tensor, b"x")).type = GGML_TYPE_BF16
    return tensor

def from_numpy(x, ctx):
    """Creates a tensor with the values of a NumPy array.

    The values are copied; the dimensions are reversed, so that the array's last one becomes dimension 0. Arrays of
    any strides and byte order are accepted.

    Args:
        x: array, or another object with the buffer protocol, of float16, float32, float64, int8, int16, int32,
            int64 or bfloat16 (ml_dtypes), with at most 4 dimensions. Operations compute with float32, float16 and
            bfloat16; convert other arrays first: x.astype(numpy.float32).
        ctx: context that receives the tensor. With no_alloc, the tensor gets type and shape but no data.
    Returns:
        Contiguous tensor of the corresponding type. Leading dimensions of size 1 of x do not show in it: see to_numpy.
    Raises:
        TypeError: ctx is not a context, x has no buffer, or no tensor type corresponds to its dtype.
        ValueError: x has more than 4 dimensions.
        RuntimeError: ctx was freed.
        MemoryError: the context is full.
    See also:
        from_dlpack, which shares the memory instead of copying it.
    """
    return imported(arg_context(ctx, b"from_numpy"), x)

# ---- shapes ----------------------------------------------------------------------------------------------------------
cdef int dims(const ggml_tensor *t) noexcept:
    cdef int n = 4
    while n > 1 and t.ne[n - 1] == 1:
        n -= 1
    return n

def get_ndims(tensor):
    """Counts the dimensions of a tensor without the trailing ones of size 1.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        1 to 4.
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
    enter(b"get_ndims")
    return dims(arg_tensor(tensor, b"tensor"))

def get_shape(tensor):
    """Gives the sizes of a tensor's dimensions in ggml's order, dimension 0 first.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Tuple of get_ndims(tensor) int.
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
    enter(b"get_shape")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return tuple([t.ne[i] for i in range(dims(t))])

def get_strides(tensor):
    """Gives the strides of a tensor's dimensions in bytes, dimension 0 first.

    For a quantised type, the first stride is that of a block.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Tuple of get_ndims(tensor) int.
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
    enter(b"get_strides")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return tuple([t.nb[i] for i in range(dims(t))])

# ---- rows ------------------------------------------------------------------------------------------------------------
cdef object is_given(object work):
    return hasattr(work, "__array_interface__") or bool(work)   # NumPy arrays have no truth value

cdef object row_work(object work, int64_t n):
    if outside(is_given, work):
        return work
    return ctypes.cast((ctypes.c_float * n)(), ctypes.c_void_p)

def quantize_row(data_f32, nelements, ttype, work=None):
    """Quantises one row of floats, without importance weights.

    Args:
        data_f32: at least nelements floats: NumPy array, ctypes array, pointer or address.
        nelements: number of floats, a multiple of the type's block.
        ttype: GGML_TYPE_* or member of GGML_TYPE.
        work: memory for the result (see ggml_row_size), or None for a new buffer.
    Returns:
        work, or the new buffer's address as c_void_p, which keeps it alive.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: nelements is not such a multiple, memory is too small, the type cannot be quantised to in this way,
            or the row is beyond the type's range (see ggml_quantize_chunk).
        MemoryError: there is no memory for the type's tables.
    """
    enter(b"quantize_row")
    cdef int ty = arg_type(ttype, b"ttype")
    cdef int64_t n = arg_extent(nelements, b"nelements")
    cdef void *x
    cdef void *y
    row_blocks(ty, n)
    if engine.isa_active().from_f32[ty] == NULL:
        fail(ValueError, f"ttype is {gg_types[ty].name.decode()}, which cannot be quantised to in this way")
    if not engine.quantizer_ready(ty):
        fail(MemoryError, f"there is no memory for the tables of {gg_types[ty].name.decode()}")
    arg_buffer(data_f32, b"data_f32", <size_t>n * sizeof(float), &x)
    out = row_work(work, n)
    arg_buffer(out, b"work", gg_row_size(ty, n), &y)
    if n and not engine.convert_row(ty, <const float *>not_null(x, "data_f32"), y, n):
        fail_beyond(ty, "data_f32", <const float *>x, n)
    return out

def dequantize_row(data_q, nelements, ttype, work=None):
    """Decodes one row of a quantised or float type to float32.

    Args:
        data_q: the row, in the type's format: NumPy array, ctypes array, pointer or address.
        nelements: number of elements, a multiple of the type's block.
        ttype: GGML_TYPE_* or member of GGML_TYPE.
        work: memory for nelements floats, or None for a new buffer.
    Returns:
        work, or the new buffer's address as c_void_p, which keeps it alive.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: nelements is not such a multiple, memory is too small, or the type cannot be decoded.
    """
    enter(b"dequantize_row")
    cdef int ty = arg_type(ttype, b"ttype")
    cdef int64_t n = arg_extent(nelements, b"nelements")
    cdef void *x
    cdef void *y
    row_blocks(ty, n)
    to_f32 = engine.isa_active().to_f32[ty]
    if to_f32 == NULL:
        fail(ValueError, f"{gg_types[ty].name.decode()} can't be decoded")
    arg_buffer(data_q, b"data_q", gg_row_size(ty, n), &x)
    out = row_work(work, n)
    arg_buffer(out, b"work", <size_t>n * sizeof(float), &y)
    if n:
        to_f32(not_null(x, "data_q"), <float *>y, n)
    return out

def reverse_bytes(data, nelements, ttype):
    """Reverses the bytes of every number in a packed row, in place: for GGUF files of the other byte order.

    Args:
        data: the row, in the type's format: NumPy array, ctypes array, pointer or address.
        nelements: number of elements, a multiple of the type's block.
        ttype: GGML_TYPE_*.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: nelements is not such a multiple, or data is too small.
    """
    enter(b"reverse_bytes")
    cdef int ty = arg_type(ttype, b"ttype")
    cdef int64_t n = arg_extent(nelements, b"nelements")
    cdef void *x
    row_blocks(ty, n)
    arg_buffer(data, b"data", gg_row_size(ty, n), &x)
    if n:
        engine.byteswap_rows(ty, not_null(x, "data"), gg_row_size(ty, n))

cdef int row_blocks(int type, int64_t n) except -1:
    if n % gg_types[type].blck or n > <int64_t>1 << 58:
        fail(ValueError, f"nelements is {n}: need a multiple of {gg_types[type].name.decode()}'s block of "
                         f"{gg_types[type].blck}")
    return 0

cdef void *not_null(void *p, str name) except NULL:
    if p == NULL:
        fail(ValueError, f"{name} is NULL")
    return p
