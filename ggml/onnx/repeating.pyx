# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Runs of a model with operands like those of the run before, in a third of the time that Python takes for them.

Where plans follow each other, with nodes on the host between them, each program has a `Repeat` of its own.

A run of a few small nodes takes a few microseconds, of which looking for the plan, copying operands and collecting
results would be most.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release
from cpython.exc cimport PyErr_Clear
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy

import numpy as np

from .values import BOOL, F32, F64, integer_range

cdef extern from "Python.h":
    int PyObject_GetBuffer(object, Py_buffer*, int)     # an exception is cleared here: there is another way
    PyObject* PyDict_GetItemWithError(dict, object) except? NULL

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include <stddef.h>
    #include <stdint.h>
    #define GG_LIE_WITHIN(NAME, TYPE)                                                              \
        GG_VECTORS static int NAME(const TYPE *x, size_t n, int64_t lo, int64_t hi) {              \
            int beyond = 0;                                                                        \
            for (size_t i = 0; i < n; i++) beyond |= (x[i] < (TYPE)lo) | (x[i] > (TYPE)hi);        \
            return !beyond;                                                                        \
        }
    GG_LIE_WITHIN(gg_lie_within_32, int32_t)
    GG_LIE_WITHIN(gg_lie_within_64, int64_t)
    """
    bint gg_lie_within_32(const int32_t *x, size_t n, int64_t lo, int64_t hi)
    bint gg_lie_within_64(const int64_t *x, size_t n, int64_t lo, int64_t hi)

cdef object ndarray = np.ndarray, empty = np.empty
cdef object INT64 = np.dtype(np.int64), INT32 = np.dtype(np.int32)


def address_of(array):
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


cdef bint converted(object array, object dtype, uintptr_t address, Py_ssize_t size) except -1:
    """Writes the numbers of an array of int64 or int32 as floats to an address; False as `copied`."""
    cdef Py_buffer b
    cdef float* to = <float*>address
    cdef Py_ssize_t i, n = size // sizeof(float)
    if PyObject_GetBuffer(array, &b, PyBUF_SIMPLE) != 0:
        PyErr_Clear()
        return False
    cdef bint fits = b.len == n * (8 if dtype is INT64 else 4)
    if fits and dtype is INT64:
        for i in range(n):
            to[i] = <float>(<int64_t*>b.buf)[i]
    elif fits:
        for i in range(n):
            to[i] = <float>(<int32_t*>b.buf)[i]
    PyBuffer_Release(&b)
    return fits


cdef object single(object dtype):
    """INT64 or INT32 for a type that is equal to it: arrays that were pickled have types of their own."""
    return INT64 if dtype == INT64 else INT32 if dtype == INT32 else dtype


cdef bint lies_within(object array, object dtype, tuple bounds) except -1:
    """Whether all numbers of an array of a type (`single`) lie in an interval, whose ends the type has."""
    cdef Py_buffer b
    cdef int64_t lo, hi
    cdef bint found
    if dtype is INT64 or dtype is INT32:
        if PyObject_GetBuffer(array, &b, PyBUF_SIMPLE) == 0:
            lo, hi = bounds
            if dtype is INT64:
                found = gg_lie_within_64(<const int64_t*>b.buf, b.len // 8, lo, hi)
            else:
                found = gg_lie_within_32(<const int32_t*>b.buf, b.len // 4, lo, hi)
            PyBuffer_Release(&b)
            return found
        PyErr_Clear()
    if array.size == 1:
        return bounds[0] <= array.item() <= bounds[1]
    return bounds[0] <= array.min() and array.max() <= bounds[1]


cdef object expectation(tuple part):
    """What the values of an operand have to be besides their number: bytes, an interval, or None."""
    _shape, dtype, values = part
    if type(values) is bytes or values is None:
        return values
    return None if dtype == BOOL or values == integer_range(dtype) else values


cdef object whole_numbers(object dtype, tuple shape, uintptr_t address, Py_ssize_t n):
    """An array of int64 or int32 of the floats at an address."""
    cdef object array = empty(shape, dtype)
    cdef const float* x = <const float*>address
    cdef Py_buffer b
    cdef Py_ssize_t i
    if PyObject_GetBuffer(array, &b, PyBUF_WRITABLE) != 0:
        raise MemoryError("no view of a result")
    if dtype is INT64:
        for i in range(n):
            (<int64_t*>b.buf)[i] = <int64_t>x[i]
    else:
        for i in range(n):
            (<int32_t*>b.buf)[i] = <int32_t>x[i]
    PyBuffer_Release(&b)
    return array


cdef class Repeat:
    """The plan of the last run of a program, and what its operands have to be for another run.

    Args:
        compute: the function of a backend and a graph that computes the graph.
        loops: for the iterations of a loop, whose results may share memory with operands and constants.
    """
    cdef object compute, program
    cdef readonly object plan
    cdef bint loops
    cdef tuple names, dtypes, shapes, values, feeds, results, outputs, passed, lists
    cdef frozenset made, listed
    cdef Py_ssize_t count

    def __init__(self, compute, loops=False):
        self.compute, self.program, self.plan, self.loops = compute, None, None, loops

    def keep(self, program):
        """Remembers the plan of the last run of a program, if it can be repeated here."""
        key, plan = program.last
        if plan is self.plan and program is self.program:
            return
        self.program, self.plan = program, None
        if plan is None or self.loops and (plan.rest is not None or plan.lists or "opaque" in key):
            return
        self.names, self.count = tuple(program.inputs), len(key)
        self.shapes, self.dtypes, self.values = (), (), ()
        for part in key:
            self.shapes += (None if part == "opaque" else part[0],)
            self.dtypes += (None if part == "opaque" else single(part[1]),)
            self.values += (None if part == "opaque" else expectation(part),)
        ways = tuple(way_of(r) for r in plan.results)
        if any(way == "end" and r.dtype not in (F32, F64, BOOL) for r, way in zip(plan.results, ways)):
            return  # of conversions that NumPy may warn of
        self.feeds = tuple(
            (f, f.position, f.home, f.view.nbytes, None if f.moves else self.dtypes[f.position], single(f.view.dtype))
            for f in plan.feeds)
        self.results = tuple(
            (r, r.name, way, tuple(r.view.shape), r.home, r.view.size) for r, way in zip(plan.results, ways))
        self.outputs, self.passed, self.plan = tuple(program.outputs), tuple(plan.passed), plan
        self.lists, self.listed = tuple(reversed(plan.lists)), frozenset(name for name, _ in plan.lists)
        self.made = frozenset(r.name for r in plan.results)

    def __call__(self, tuple arrays):
        """The outputs for operands by position, or in a dict; None if they are not like those of the last run."""
        cdef list operands
        cdef dict named
        if self.plan is None:
            return None
        if len(arrays) == 1 and type(arrays[0]) is dict:
            named = arrays[0]
            if len(named) != self.count:
                return None
            operands = [named.get(name) for name in self.names]
        elif len(arrays) == self.count:
            operands = list(arrays)
        else:
            return None
        return self.outcome(operands) if self.fits(operands, self.count) else None

    cdef object outcome(self, list operands):
        """The outputs for operands that fit; of the programs that follow, some may have to be planned."""
        cdef Repeat here = self
        cdef dict found
        cdef object plan, program
        while True:
            plan, found = here.plan, here.computed(operands, here.count)
            for name, names in here.lists:
                found[name] = [found.pop(n) if n in here.made else owned(found.pop(n)) for n in names]
            if plan.step is not None:
                found.update(plan.step(found))
            if plan.rest is None or plan.ends:  # the caller may write into outputs
                return [found[n] if n in here.made or n in here.listed else owned(found[n]) for n in here.outputs]
            program = plan.rest
            operands, here = [found[name] for name in program.inputs], program.following
            if here.plan is None or not here.fits(operands, here.count):
                found_by_program = program.run(operands)
                here.keep(program)
                return found_by_program

    def again(self, list operands, Py_ssize_t changed):
        """The outputs where only the first `changed` operands are others than those of the last run of the plan."""
        cdef dict found
        if self.plan is None or not self.fits(operands, changed):
            return None
        found = self.computed(operands, changed)
        return [found[name] for name in self.outputs]

    cdef bint fits(self, list operands, Py_ssize_t changed) except -1:
        """Whether the first `changed` operands are like those of the last run."""
        cdef object array, expected, dtype
        cdef Py_ssize_t i
        if self.program.last[1] is not self.plan:
            return False
        for i in range(changed):
            array, expected = operands[i], self.values[i]
            if self.shapes[i] is None:
                if type(array) is ndarray and array.dtype.kind not in "OUSMm":
                    return False
                continue
            if type(array) is not ndarray or array.shape != self.shapes[i]:
                return False
            dtype = array.dtype
            if dtype is not self.dtypes[i] and dtype != self.dtypes[i]:
                return False
            if expected is None:
                continue
            if type(expected) is bytes:
                if array.tobytes() != expected:
                    return False
            elif not lies_within(array, self.dtypes[i], expected):
                return False
        return True

    cdef dict computed(self, list operands, Py_ssize_t changed):
        """The values by name that the graph gives, or that pass it; only the first `changed` operands are copied."""
        cdef bint done
        cdef dict found = dict(self.plan.fixed)
        cdef tuple entry, result
        cdef object plan = self.plan
        for entry in self.feeds:
            feed, position, home, size, dtype, own = entry
            if <Py_ssize_t>position >= changed:
                continue
            if dtype is own or dtype is not None and dtype == own:
                done = copied(operands[position], home, size)
            else:
                done = (dtype is INT64 or dtype is INT32) and converted(operands[position], dtype, home, size)
            if not done:
                feed.give(operands[position])
        for result in self.results:
            if result[2] == "end":
                result[0].begin()
        if plan.graph is not None:
            self.compute(plan.backend, plan.graph)
        for result in self.results:
            if result[2] == "copy":
                found[result[1]] = result[0].view.copy()
            elif result[2] == "end":
                found[result[1]] = result[0].end()
            else:
                found[result[1]] = whole_numbers(result[0].dtype, result[3], result[4], result[5])
        for name, position in self.passed:
            found[name] = operands[position]
        return found


cpdef object owned(object value):
    """A copy of an array, or a list of copies, which nothing else refers to; other values as they are."""
    if type(value) is list and value and type(value[0]) is ndarray:
        return [owned(v) for v in value]
    return value.copy() if type(value) is ndarray else value


cdef class Step:
    """Nodes that run on the host: a function of arrays by name that gives their outputs by name.

    Args:
        nodes: list of Node.
        function_of: gives the function of a node that computes its outputs from arrays.
        fail: raises what an error of a function means, given the node, the arrays and the error.
    """
    cdef list nodes, functions
    cdef object function_of, fail

    def __init__(self, nodes, function_of, fail):
        self.nodes = [(n, tuple(n.inputs), tuple(n.outputs)) for n in nodes]
        self.functions = [None] * len(nodes)    # which are made in the first run
        self.function_of, self.fail = function_of, fail

    def __call__(self, dict values):
        cdef dict found = {}
        cdef list arrays, results
        cdef tuple inputs, outputs
        cdef PyObject* value
        cdef Py_ssize_t i, k
        for k in range(len(self.nodes)):
            node, inputs, outputs = <tuple>self.nodes[k]
            arrays = []
            for name in inputs:
                value = PyDict_GetItemWithError(found, name)
                arrays.append(<object>value if value != NULL else values[name] if name else None)
            try:
                if self.functions[k] is None:
                    self.functions[k] = self.function_of(node)
                if len(arrays) == 1:
                    result = self.functions[k](arrays[0])
                elif len(arrays) == 2:
                    result = self.functions[k](arrays[0], arrays[1])
                else:
                    result = self.functions[k](*arrays)
            except Exception as error:
                self.fail(node, arrays, error)
            if type(result) is ndarray and len(outputs) == 1:
                found[outputs[0]] = result
                continue
            results = listed(result)
            for i in range(len(outputs)):
                if i < len(results):
                    found[outputs[i]] = results[i]
                elif outputs[i]:
                    self.fail(node, arrays, ValueError(
                        f"it has {len(outputs)} outputs, the operator gives {len(results)}"))
        return found


cpdef list called(object node, object values, object function_of, object fail):
    """What the function of a node gives for values, as a list, with arrays for scalars of NumPy; see Step."""
    try:
        return listed(function_of(node)(*values))
    except Exception as error:
        fail(node, values, error)


cdef list listed(object result):
    """The outputs of a node: those of a tuple, or the only one."""
    results = result if isinstance(result, tuple) else (result,)
    return [np.asarray(r) if isinstance(r, np.generic) else r for r in results]


cdef str way_of(object result):
    """How the array of a result is made: by copying what the graph gives, by conversion here, or by its own method."""
    if result.moves or result.pool.large:
        return "end"
    if result.view.dtype == result.dtype:
        return "copy"
    return "whole" if result.view.dtype == F32 and (result.dtype is INT64 or result.dtype is INT32) else "end"
