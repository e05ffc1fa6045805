# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Operands and results of a plan: what is copied between arrays and the tensors of its graph, and what is not.

Copying a large array takes longer than computing most nodes. A large operand is read where the caller has it, if it
lies there as a tensor would. In a graph of few nodes, a large result is computed in the array that the caller gets. The
memory of results is used again when nobody refers to it any more: fresh pages would take longer than most nodes.
"""
import sys

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release
from cpython.exc cimport PyErr_Clear
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy

import numpy as np

import ggml

from .._core cimport arg_graph, arg_tensor, engine, gg_nbytes, ggml_cgraph, ggml_tensor, section_back, section_shared
from .._enums cimport GGML_TYPE_F16

from ..utils import to_numpy
from .values import BOOL, F32, F64, I64, count

cdef extern from "Python.h":
    int PyObject_GetBuffer(object, Py_buffer*, int)     # an exception is cleared here: there is another way

cdef enum:
    LARGE = 1 << 16     # bytes from which an array is not copied, or its memory is used again
    MOVED = 1 << 17     # bytes from which copying an operand takes longer than changing the steps that read it
    # A graph whose results move is checked and planned again, which takes as long for each node as copying so many
    # bytes.
    NODE = 40000

cdef object I32 = np.dtype(np.int32), F16 = np.dtype(np.float16), empty = np.empty, ndarray = np.ndarray
cdef tuple USUAL = (F32, F64, BOOL, I64, I32, F16)
cdef tuple CONVERTED = (I64, I32, F16)      # from and to floats
cdef dict TYPES = {
    ggml.GGML_TYPE_F32: F32,
    ggml.GGML_TYPE_F64: F64,
    ggml.GGML_TYPE_I8: BOOL,
}   # of elements, for the types of tensors that plans read and write


cdef object single(object dtype):
    for usual in USUAL:
        if dtype is usual:
            return dtype
    for usual in USUAL:
        if dtype == usual:
            return usual
    return dtype


# ---- copies ----------------------------------------------------------------------------------------------------------
cdef uintptr_t address_of(object array) except? 0:
    """The address of an array's bytes, or 0 if they are not contiguous or not aligned."""
    cdef Py_buffer b
    if PyObject_GetBuffer(array, &b, PyBUF_SIMPLE) != 0:
        PyErr_Clear()
        return 0
    cdef uintptr_t address = <uintptr_t>b.buf
    cdef bint aligned = address % <uintptr_t>max(b.itemsize, 1) == 0
    PyBuffer_Release(&b)
    return address if aligned else 0


cdef bint copied(object array, uintptr_t address, Py_ssize_t size) except -1:
    """Copies the bytes of an array to an address, or returns False if they are not contiguous or others."""
    cdef Py_buffer b
    if PyObject_GetBuffer(array, &b, PyBUF_SIMPLE) != 0:
        PyErr_Clear()
        return False
    cdef bint fits = b.len == size
    if fits and size:
        memcpy(<void*>address, b.buf, size)
    PyBuffer_Release(&b)
    return fits


cdef bint converted(object array, object dtype, uintptr_t address, Py_ssize_t n) except -1:
    """Writes the n numbers of an array, of a type of CONVERTED, as floats to an address; False as `copied`."""
    cdef Py_buffer b
    cdef float* to = <float*>address
    cdef Py_ssize_t i
    if PyObject_GetBuffer(array, &b, PyBUF_SIMPLE) != 0:
        PyErr_Clear()
        return False
    cdef bint fits = b.len == n * b.itemsize
    if not fits:
        pass
    elif dtype is F16:
        engine.isa_active().to_f32[GGML_TYPE_F16](b.buf, to, n)
    elif dtype is I64:
        for i in range(n):
            to[i] = <float>(<int64_t*>b.buf)[i]
    else:
        for i in range(n):
            to[i] = <float>(<int32_t*>b.buf)[i]
    PyBuffer_Release(&b)
    return fits


cdef int write(object array, object dtype, uintptr_t address, Py_ssize_t size, bint floats) except -1:
    """Fills a new array: with `size` bytes at an address, or with the floats there, as a type of CONVERTED."""
    cdef const float* x = <const float*>address
    cdef Py_buffer b
    cdef Py_ssize_t i
    if PyObject_GetBuffer(array, &b, PyBUF_WRITABLE) != 0:
        PyErr_Clear()
        raise MemoryError("no view of a result")
    if not floats:
        if size:
            memcpy(b.buf, x, size)
    elif dtype is F16:
        engine.isa_active().from_f32[GGML_TYPE_F16](x, b.buf, size // 4)
    elif dtype is I64:
        for i in range(size // 4):
            (<int64_t*>b.buf)[i] = <int64_t>x[i]
    else:
        for i in range(size // 4):
            (<int32_t*>b.buf)[i] = <int32_t>x[i]
    PyBuffer_Release(&b)
    return 0


# ---- memory of results -----------------------------------------------------------------------------------------------
def references(list kept, Py_ssize_t i):
    """The references to an entry of a list, counted in the same way each time."""
    return sys.getrefcount(kept[i])


UNUSED = references([np.empty(0)], 0)  # of an array that only a list has
COUNTS = getattr(sys, "_is_gil_enabled", lambda: True)()  # without a GIL, counts may lag behind


cdef class Pool:
    """Memory of results, which callers get, and again when nothing refers to it any more."""
    cdef list kept      # what callers have, and what was given last

    def __init__(self):
        self.kept = []

    cdef object take(self, object shape, object dtype):
        """An array without values."""
        cdef Py_ssize_t i, size = dtype.itemsize * count(shape) + 63
        unused = [i for i in range(len(self.kept)) if references(self.kept, i) == UNUSED]
        if len(unused) != 1 or unused[0] != len(self.kept) - 1 or not suits(self.kept[unused[0]], size):
            memory = self.suitable([self.kept[i] for i in unused], size)
            self.kept = [m for i, m in enumerate(self.kept) if i not in unused]
            self.kept.append(memory)
        memory = self.kept[len(self.kept) - 1]
        return ndarray(shape, dtype, memory, -address_of(memory) % 64)

    cdef object suitable(self, list unused, Py_ssize_t size):
        """Memory for `size` bytes; where sizes change, new memory is twice as large, so that larger ones find it."""
        for memory in reversed(unused):
            if suits(memory, size):
                return memory
        grows = any([len(memory) < size for memory in unused])
        return empty(2 * size if grows else size, np.uint8)


cdef bint suits(object memory, Py_ssize_t size) except -1:
    """Whether memory has room for `size` bytes, and not much more: its caller may keep it for long."""
    return size <= len(memory) <= 4 * size


# ---- operands and results --------------------------------------------------------------------------------------------
cdef class Place:
    """The memory of a tensor of a graph; moves: it may lie elsewhere in each call, with what the graph keeps in it."""
    cdef readonly bint moves
    cdef object t, elements, shape, seen        # elements: their type; seen: an array over them, or None
    cdef Py_ssize_t size                        # bytes
    cdef uintptr_t home, address                # 0 if there are no elements
    cdef list tensors                           # (address, offset) of those that lie there

    cdef int lie(self, object t, object shape, bint moves, ggml_cgraph* graph) except -1:
        cdef ggml_tensor* x = arg_tensor(t, b"t")
        cdef int i
        self.t, self.shape, self.elements, self.moves = t, shape, TYPES[x.type], moves
        self.home = self.address = <uintptr_t>x.data
        self.size, self.tensors = <Py_ssize_t>gg_nbytes(x), []
        if count(shape) * <Py_ssize_t>self.elements.itemsize != self.size:  # it would be copied beyond an array
            n = self.size // <Py_ssize_t>self.elements.itemsize
            raise ValueError(f"a value of the shape {list(shape)} has {n} elements: some operands do not fit together")
        if moves:
            self.note(x)
            for i in range(graph.n_nodes):
                self.note(graph.nodes[i])
        return 0

    cdef int note(self, ggml_tensor* x) except -1:
        """Adds a tensor of the graph to those that move; one that lies here in part keeps all where they are."""
        cdef uintptr_t begin = <uintptr_t>x.data, end = self.home + <uintptr_t>self.size
        if self.home <= begin < end:
            self.tensors.append((<uintptr_t>x, begin - self.home))
            self.moves = self.moves and begin + gg_nbytes(x) <= end
        elif begin < self.home < begin + gg_nbytes(x):
            self.moves = False
        return 0

    cdef int move(self, uintptr_t address) except -1:
        """Puts the tensors at an address."""
        if address != self.address:
            for at, offset in self.tensors:
                (<ggml_tensor*><uintptr_t>at).data = <void*>(address + <uintptr_t>offset)
            self.address = address
        return 0

    cdef object view(self):
        """The elements in the graph's memory, as an array."""
        if self.seen is None:
            self.move(self.home)
            array = to_numpy(self.t).reshape(self.shape)
            self.seen = array.view(BOOL) if self.elements is BOOL else array
        return self.seen

    def settle(self):
        """Puts the tensors into memory of the graph, where they stay."""
        if self.moves:
            self.move(self.home)
            self.moves = False


cdef class Operand(Place):
    """An operand of a plan, by its position among the inputs."""
    cdef Py_ssize_t position

    cdef int give(self, object value) except -1:
        """Makes the tensor have the values of an array."""
        cdef object dtype = single(value.dtype)
        cdef uintptr_t address
        cdef bint done = False
        if self.moves:
            address = address_of(value) if dtype is self.elements else 0
            self.move(address or self.home)
            done = address != 0
        if not done and dtype is self.elements:
            done = copied(value, self.home, self.size)
        elif not done and self.elements is F32 and dtype in CONVERTED:
            done = converted(value, dtype, self.home, self.size // 4)
        if not done:
            self.view()[...] = value.reshape(self.shape)
        return 0


cdef class Result(Place):
    """A result of a plan, by its name."""
    cdef readonly object name
    cdef object dtype, array            # dtype: that of the model
    cdef Pool pool                      # None: it is small
    cdef bint same, made                # whether its bytes are the tensor's; whether `write` makes them of floats

    cdef int begin(self) except -1:
        """Before the graph is computed: decides where its values go."""
        if self.moves:
            self.array = self.pool.take(self.shape, self.dtype)
            self.move(address_of(self.array))
        return 0

    cdef object end(self):
        """The values, in an array that is the caller's."""
        if self.moves:
            array, self.array = self.array, None
            return array
        array = empty(self.shape, self.dtype) if self.pool is None else self.pool.take(self.shape, self.dtype)
        if self.same or self.made:
            write(array, self.dtype, self.home, self.size, self.made)
        elif self.dtype is BOOL:
            np.not_equal(self.view(), 0, out=array)
        else:
            before = np.seterr(all="ignore")
            try:
                np.copyto(array, self.view(), casting="unsafe")
            finally:
                np.seterr(**before)
        return array


cdef Py_ssize_t large(object t, object dtype) except -1:
    """The bytes of a value that need not be copied, if they are many."""
    cdef ggml_tensor* x = arg_tensor(t, b"t")
    cdef Py_ssize_t size = <Py_ssize_t>gg_nbytes(x)
    return size if size >= LARGE and TYPES.get(x.type) is dtype else 0


cdef bint alone(object t, list outputs) except -1:
    """Whether only one output is a tensor."""
    cdef ggml_tensor* x = arg_tensor(t, b"t")
    cdef int n = 0
    for _, _, _, other in outputs:
        n += arg_tensor(other, b"t") == x
    return n == 1


cdef class Transfer:
    """The operands and results of a graph that has its memory; it is computed by a backend.

    Args:
        feeds, outputs: (position or name, shape, type, tensor) of each. Operands that no node reads have no memory.
        pools: dict of the Pools of large results by their names, which graphs of other sizes share.
    """

    def __init__(self, backend, graph, list feeds, list outputs, dict pools):
        self.backend, self.graph, self.feeds, self.results = backend, graph, [], []
        cdef int section = section_shared()
        try:
            if graph is not None:
                self.place(arg_graph(graph, b"graph"), feeds, outputs, pools)
        finally:
            section_back(section)

    cdef int place(self, ggml_cgraph* graph, list feeds, list outputs, dict pools) except -1:
        cdef Operand operand
        cdef Result result
        cdef list given, taken
        feeds = [(position, shape, single(dtype), t) for position, shape, dtype, t in feeds
                 if arg_tensor(t, b"t").data != NULL]
        outputs = [(name, shape, single(dtype), t) for name, shape, dtype, t in outputs]
        given = [large(t, dtype) for _, _, dtype, t in feeds]
        taken = [size if (size := large(t, dtype)) and alone(t, outputs) else 0 for _, _, dtype, t in outputs]
        if sum(given) + sum(taken) < NODE * graph.n_nodes:  # moving results of so many nodes would take longer
            given, taken = [size if size >= MOVED else 0 for size in given], [0] * len(taken)
        for (position, shape, _, t), size in zip(feeds, given):
            operand = Operand.__new__(Operand)
            operand.position = position
            operand.lie(t, shape, size, graph)
            self.feeds.append(operand)
        for (name, shape, dtype, t), size in zip(outputs, taken):
            result = Result.__new__(Result)
            result.name, result.dtype = name, dtype
            result.lie(t, shape, size, graph)
            result.same = result.elements is dtype
            result.made = result.elements is F32 and dtype in CONVERTED
            if result.size // result.elements.itemsize * dtype.itemsize >= LARGE and COUNTS:
                result.pool = pools.setdefault(name, Pool())
            self.results.append(result)
        return 0

    def settle(self):
        """Puts operands and results into memory of the graph: others will compute it."""
        for place in (*self.feeds, *self.results):
            place.settle()

    cdef dict computed(self, object operands, Py_ssize_t changed):
        """The results by name for operands, of which only the first `changed` are new."""
        cdef Operand operand
        cdef Result result
        cdef dict found = {}
        for operand in self.feeds:
            if operand.position < changed:
                operand.give(operands[operand.position])
        for result in self.results:
            result.begin()
        if self.graph is not None:
            compute(self.backend, self.graph)
        for result in self.results:
            found[result.name] = result.end()
        return found

    def __call__(self, operands, changed=None):
        """The results by name for operands, of which only the first `changed` are new (None: all)."""
        return self.computed(operands, len(operands) if changed is None else changed)


cpdef int compute(object backend, object graph) except -1:
    """Computes a graph; raises RuntimeError if that fails."""
    status = ggml.ggml_backend_graph_compute(backend, graph)
    if status != ggml.GGML_STATUS_SUCCESS:
        raise RuntimeError(f"computing failed: {ggml.ggml_status_to_string(status).decode()}")
    return 0
