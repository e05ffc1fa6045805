# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""What a recipe does for each graph that it builds again: a long list of short calls, and the names of tensors."""
from cpython.object cimport PyObject
from libc.stdint cimport uintptr_t
from libc.string cimport memcpy, memset

from .._core cimport GGML_MAX_NAME, GGML_OBJECT_TYPE_TENSOR, arg_tensor, ggml_object, ggml_tensor

from .._ops.shape import ggml_view_4d

cdef extern from "Python.h":
    object PyObject_Vectorcall(object, PyObject**, size_t, PyObject*)

cdef enum:
    MOST = 32       # arguments of a call that needs no list


def dense_rows(t):
    """Whether the elements of a tensor's rows are neighbours."""
    return arg_tensor(t, b"t").nb[0] == 4


def part_of(ctx, t, n0, n1, n2, n3, int place, Py_ssize_t start, Py_ssize_t step):
    """The view of n0 x n1 x n2 x n3 elements whose dimension `place` begins at `start` and makes steps."""
    cdef ggml_tensor* x = arg_tensor(t, b"t")
    cdef size_t nb[4]
    cdef size_t first = <size_t>start * x.nb[place]
    memcpy(nb, x.nb, sizeof(nb))
    nb[place] *= <size_t>step
    return ggml_view_4d(ctx, t, n0, n1, n2, n3, nb[1], nb[2], nb[3], first)


def repeat(list steps, list cells, object anything):
    """Calls the functions of steps in turn, and appends what they give to cells.

    Args:
        steps: for each call a tuple of the function, the places of its arguments in cells, and what it has to give.
        cells: values, of which there are enough for the first call.
        anything: stands for whatever a function may give.
    Returns:
        Whether all have given what they have to; if not, the call that did not was the last one.
    """
    cdef PyObject* arguments[MOST]
    cdef tuple places
    cdef Py_ssize_t i, n
    cdef object function, expected, result, value
    for function, places, expected in steps:
        n = len(places)
        if n <= MOST:
            for i in range(n):
                value = cells[<Py_ssize_t>places[i]]
                arguments[i] = <PyObject*>value  # which the list keeps alive
            result = PyObject_Vectorcall(function, arguments, n, NULL)
        else:
            result = function(*[cells[i] for i in places])
        if expected is not anything and result != expected:
            return False
        cells.append(result)
    return True


def evaluate(list rows, dict conditions, list values):
    """Appends what rows give to values, and says whether all conditions have the outcome that they had.

    Args:
        rows: pairs of places among the values, behind a function; or None and a value.
        conditions: their outcomes, by a function and two places.
        values: those of the symbols.
    """
    cdef object function, a, b, outcome, key
    cdef PyObject* arguments[2]
    for function, a, b in rows:
        if function is None:
            values.append(a)
        else:
            arguments[0], arguments[1] = <PyObject*>values[<Py_ssize_t>a], <PyObject*>values[<Py_ssize_t>b]
            values.append(PyObject_Vectorcall(function, arguments, 2, NULL))
    for key, outcome in conditions.items():
        function, a, b = key
        arguments[0], arguments[1] = <PyObject*>values[<Py_ssize_t>a], <PyObject*>values[<Py_ssize_t>b]
        if PyObject_Vectorcall(function, arguments, 2, NULL) != outcome:
            return False
    return True


def name_tensors(uintptr_t first, list names):
    """Names the tensors of a context in the order in which they were made; first: the address of the first one."""
    cdef ggml_object* o = <ggml_object*>first - 1
    cdef ggml_tensor* t
    cdef bytes name
    for name in names:
        while o != NULL and o.type != GGML_OBJECT_TYPE_TENSOR:
            o = o.next
        if o == NULL:
            return
        t = <ggml_tensor*>(o + 1)
        memset(t.name, 0, GGML_MAX_NAME)
        memcpy(t.name, <const char*>name, min(<size_t>len(name), <size_t>GGML_MAX_NAME - 1))
        o = o.next
