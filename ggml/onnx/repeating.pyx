# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Runs of a model with operands like those of the run before, in a third of the time that Python takes for them.

Where plans follow each other, with nodes on the host between them, each program has a `Repeat` of its own.

A run of a few small nodes takes a few microseconds, of which looking for the plan, copying operands and collecting
results would be most.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release
from cpython.exc cimport PyErr_Clear
from cpython.ref cimport Py_REFCNT, PyObject
from libc.stdint cimport int32_t, int64_t

import numpy as np

from .transfer cimport Transfer, single

from .reducing import ends_of
from .transfer import COUNTS
from .values import BOOL, EXACT, F32, I64, integer_range, is_integer

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

cdef object ndarray = np.ndarray, I32 = np.dtype(np.int32)


cpdef bint fits(tuple declared, tuple shape) except -1:
    """Whether an array of a shape may be an operand that is declared with a shape, or None."""
    cdef Py_ssize_t i
    cdef object size
    if declared is None:
        return True
    if len(declared) != len(shape):
        return False
    for i in range(len(shape)):
        size = declared[i]
        if isinstance(size, int) and size != shape[i] and size != -1:
            return False
    return True


def as_declared(list inputs, given):
    """The operands for all inputs, given by position or by name, if they are arrays as declared; else None."""
    cdef list found = []
    cdef Py_ssize_t i
    if len(given) != len(inputs):
        return None
    for i in range(len(inputs)):
        value = given.get(inputs[i].name) if isinstance(given, dict) else given[i]
        if type(value) is not ndarray or value.dtype is not inputs[i].dtype:
            return None
        if not fits(inputs[i].shape, value.shape):
            return None
        found.append(value)
    return found


cdef object bounds_of(object array, object dtype):
    """An interval that the values of an integer array lie in, one of few; None for other types."""
    if dtype is BOOL:
        return 0, 1
    if dtype.kind not in "iu" and not is_integer(dtype):
        return None
    smallest, largest = integer_range(dtype)
    if max(-smallest, largest) <= EXACT or not array.size:
        return smallest, largest
    lo, hi = (int(array.item()),) * 2 if array.size == 1 else ends_of(array)
    for limit in (1 << 11, EXACT):
        if -limit <= lo and hi <= limit:
            return (0 if lo >= 0 else -limit), limit
    return smallest, largest


def signature(list names, set by_value, list values):
    """What plans depend on: for each operand "opaque", or its shape, type, and bytes or an interval.

    by_value: names of the operands whose bytes count.
    """
    cdef list parts = []
    cdef object value, dtype
    cdef Py_ssize_t i
    for i in range(len(names)):
        value = values[i]
        dtype = single(value.dtype) if isinstance(value, ndarray) else None
        if dtype is None or dtype.kind in "OUSMm":
            parts.append("opaque")
        elif names[i] in by_value:
            parts.append((value.shape, dtype, value.tobytes()))
        else:
            parts.append((value.shape, dtype, None if dtype is F32 else bounds_of(value, dtype)))
    return tuple(parts)


cdef bint lies_within(object array, object dtype, tuple bounds) except -1:
    """Whether all numbers of an array of a type (`single`) lie in an interval, whose ends the type has."""
    cdef Py_buffer b
    cdef int64_t lo, hi
    cdef bint found
    if dtype is I64 or dtype is I32:
        if PyObject_GetBuffer(array, &b, PyBUF_SIMPLE) == 0:
            lo, hi = bounds
            if dtype is I64:
                found = gg_lie_within_64(<const int64_t*>b.buf, b.len // 8, lo, hi)
            else:
                found = gg_lie_within_32(<const int32_t*>b.buf, b.len // 4, lo, hi)
            PyBuffer_Release(&b)
            return found
        PyErr_Clear()
    if array.size == 1:
        return bounds[0] <= array.item() <= bounds[1]
    return bounds[0] <= array.min() and array.max() <= bounds[1]


cdef object expectation(object part):
    """What the values of an operand have to be besides their number: bytes, an interval, or None."""
    if type(part) is not tuple:
        return None
    _shape, dtype, values = part
    return None if type(values) is tuple and (dtype is BOOL or values == integer_range(dtype)) else values


cdef class Ending:
    """What plans of one recipe share: results that the graph does not compute, and what follows it.

    Attributes:
        passed: (name, position) of results that are operands.
        lists: (name, names of its elements) of sequences.
        own: names of results that nothing but their caller refers to.
        outputs: (name, whether it is one of these) of the program's outputs.
        entries: the fields of an Entry each, for a report.
        step, rest: a function that runs nodes on the host, or None; the Program of the remaining nodes, or None.
        ends: whether no node remains after the step.
    """
    cdef readonly list passed, lists, outputs, entries
    cdef readonly set own
    cdef readonly object step, rest
    cdef readonly bint ends

    def __init__(self, passed, lists, own, outputs, entries, step, rest):
        self.passed, self.lists, self.own, self.outputs = passed, lists, own, outputs
        self.entries, self.step, self.rest = entries, step, rest
        self.ends = step is not None and not rest.nodes and not set(rest.outputs) & rest.known.keys()


cdef class Repeat:
    """The plan of the last run of a program, and what its operands have to be for another run.

    Args:
        loops: for the iterations of a loop, whose results may share memory with operands and constants.
    """
    cdef object program
    cdef Ending ending
    cdef readonly object plan
    cdef bint loops
    cdef tuple key          # the signature of its operands
    cdef list expected      # of each operand, what its values have to be: bytes, an interval, or None
    cdef dict fixed
    cdef Transfer transfer

    def __init__(self, loops=False):
        self.program, self.plan, self.loops = None, None, loops

    def keep(self, program):
        """Remembers the plan of the last run of a program, if it can be repeated here."""
        key, plan = program.last
        if plan is self.plan and program is self.program:
            return
        self.program, self.plan = program, None
        if plan is None:
            return
        ending = plan.ending
        if self.loops and (ending.rest is not None or ending.lists or "opaque" in key):
            return
        self.key, self.expected = key, [expectation(part) for part in key]
        if plan.graph is None and all([entry[2] == "host" for entry in plan.ending.entries]):  # whatever the integers
            self.expected = [None if type(values) is tuple else values for values in self.expected]
        self.plan, self.ending, self.transfer, self.fixed = plan, ending, plan.transfer, plan.fixed

    def __call__(self, tuple arrays):
        """The outputs for operands by position, or in a dict; None if they are not like those of the last run."""
        cdef list operands
        cdef dict named
        if self.plan is None:
            return None
        if len(arrays) == 1 and type(arrays[0]) is dict:
            named = arrays[0]
            if len(named) != len(self.key):
                return None
            operands = [named.get(name) for name in self.program.inputs]
        elif len(arrays) == len(self.key):
            operands = list(arrays)
        else:
            return None
        return self.outcome(operands) if self.fits(operands, len(operands)) else None

    cdef object outcome(self, list operands):
        """The outputs for operands that fit; of the programs that follow, some may have to be planned."""
        cdef Repeat here = self
        cdef dict found
        cdef Ending ending
        cdef object program
        while True:
            ending, found = here.ending, here.computed(operands, len(operands))
            for name, names in reversed(ending.lists):
                found[name] = [found.pop(n) if n in ending.own else owned(found.pop(n)) for n in names]
            if ending.step is not None:
                found.update(ending.step(found))
            if ending.rest is None or ending.ends:  # the caller may write into outputs
                return outputs_of(found, ending)
            program = ending.rest
            operands, here = [found[name] for name in program.inputs], program.following
            if here.plan is None or not here.fits(operands, len(operands)):
                found_by_program = program.run(operands)
                here.keep(program)
                return found_by_program

    def again(self, list operands, Py_ssize_t changed):
        """The outputs where only the first `changed` operands are others than those of the last run of the plan."""
        cdef dict found
        if self.plan is None or not self.fits(operands, changed):
            return None
        found = self.computed(operands, changed)
        return [found[name] for name, _ in self.ending.outputs]

    cdef bint fits(self, list operands, Py_ssize_t changed) except -1:
        """Whether the first `changed` operands are like those of the last run."""
        cdef object array, part, expected, dtype
        cdef Py_ssize_t i
        if self.program.last[1] is not self.plan:
            return False
        for i in range(changed):
            array, part, expected = operands[i], self.key[i], self.expected[i]
            if type(part) is not tuple:
                if type(array) is ndarray and array.dtype.kind not in "OUSMm":
                    return False
                continue
            if type(array) is not ndarray or array.shape != (<tuple>part)[0]:
                return False
            dtype = array.dtype
            if dtype is not (<tuple>part)[1] and dtype != (<tuple>part)[1]:
                return False
            if expected is None:
                continue
            if type(expected) is bytes:
                if array.tobytes() != expected:
                    return False
            elif not lies_within(array, (<tuple>part)[1], expected):
                return False
        return True

    cdef dict computed(self, list operands, Py_ssize_t changed):
        """The values by name that the graph gives, or that pass it; only the first `changed` operands are copied."""
        cdef dict found = self.transfer.computed(operands, changed)
        found.update(self.fixed)
        for name, position in self.ending.passed:
            found[name] = operands[position]
        return found


cdef list outputs_of(dict found, Ending ending):
    """The outputs among values by name, as values that nothing else refers to."""
    cdef list outputs = []
    cdef object value
    for name, own in ending.outputs:
        value = found[name]
        outputs.append(value if own or is_free(value) else owned(value))
    return outputs


cdef bint is_free(object value) except -1:
    """Whether nothing refers to an array but a dict and a variable of the caller, and nothing to its memory but it."""
    if not COUNTS or type(value) is not ndarray or Py_REFCNT(value) != 2 or not value.flags.c_contiguous:
        return False
    cdef object base = value.base
    if base is None:
        return True
    return type(base) is ndarray and Py_REFCNT(base) == 2 and base.base is None and base.nbytes == value.nbytes


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
