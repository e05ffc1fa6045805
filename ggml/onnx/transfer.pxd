# Operands and results of a graph, and computing it.
from .._core cimport ggml_cgraph

cdef object single(object dtype)    # a usual type for one that is equal to it: arrays that were pickled have their own

cdef class Transfer:
    cdef readonly list feeds, results       # Operand, Result
    cdef object backend, graph
    cdef int place(self, ggml_cgraph* graph, list feeds, list outputs, dict pools) except -1
    cdef dict computed(self, object operands, Py_ssize_t changed)
