# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""What a recipe does for each graph that it builds again: a long list of short calls, and what frames it."""
from cpython.object cimport PyObject
from libc.string cimport memcpy

from .._core cimport (
    GGML_MAX_NAME, GGML_MAX_SRC, GGML_OBJECT_TYPE_TENSOR, GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_OUTPUT, arg_context,
    arg_tensor, gg_contiguous, ggml_cgraph, ggml_context, ggml_object, ggml_tensor, graph_expand, graph_new,
    section_back, section_shared, set_name, wrap_graph, wrap_tensor,
)
from .._enums cimport GGML_OP_NONE, GGML_OP_RESHAPE

import numpy as np

from .._ops.custom import ext_compiled
from .._ops.shape import ggml_cont, ggml_view_4d
from .._tensor.create import ggml_new_tensor_4d

cdef extern from "Python.h":
    object PyObject_Vectorcall(object, PyObject**, size_t, PyObject*)

cdef enum:
    MOST = 32           # arguments of a call that needs no list
    MOST_BYTES = 64     # of integers that are part of a signature and count as sizes


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


# ---- tensors and graphs ----------------------------------------------------------------------------------------------
def input_tensor(ctx, kind, n0, n1, n2, n3):
    """A tensor for an operand, which stays when the graph has run."""
    cdef int section = section_shared()
    try:
        t = ggml_new_tensor_4d(ctx, kind, n0, n1, n2, n3)
        arg_tensor(t, b"t").flags |= GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT
        return t
    finally:
        section_back(section)


def compiled_node(ctx, kind, n0, n1, n2, n3, function, tasks, data, *operands):
    """The node of a type and extents that a function of compiled code computes."""
    return ext_compiled(ctx, kind, n0, n1, n2, n3, operands, len(operands), function, tasks, data)


def result_tensor(ctx, t, bytes name):
    """The contiguous tensor, in some shape, that a node computes for a result; it gets a name, and stays."""
    cdef int section = section_shared()
    cdef ggml_tensor* x
    try:
        x = arg_tensor(t, b"t")
        while x.op == GGML_OP_RESHAPE:
            x = x.src[0]
        if x.view_src != NULL or x.op == GGML_OP_NONE or not gg_contiguous(x):
            x = arg_tensor(ggml_cont(ctx, t), b"t")
        x.flags |= GGML_TENSOR_FLAG_OUTPUT
        set_name(x, name, b"")
        return wrap_tensor(x)
    finally:
        section_back(section)


def graph_of(ctx, list tensors):
    """The graph in a context that computes some of its tensors."""
    cdef int section = section_shared()
    cdef ggml_context* c
    cdef ggml_cgraph* graph
    try:
        c = arg_context(ctx, b"graph_of")
        graph = graph_new(c, most_in_graph(c), False)
        for t in tensors:
            graph_expand(graph, arg_tensor(t, b"t"), True)
        return wrap_graph(graph)
    finally:
        section_back(section)


cdef size_t most_in_graph(ggml_context* ctx) noexcept:
    """How many nodes and leafs a graph of a context's tensors has at most."""
    cdef ggml_tensor* t = tensor_from(ctx.first)
    cdef size_t n = 0
    cdef int i
    while t != NULL:
        n += t.op != GGML_OP_NONE
        for i in range(GGML_MAX_SRC):
            n += t.src[i] != NULL and t.src[i].op == GGML_OP_NONE
        t = tensor_after(t)
    return n


cdef ggml_tensor* tensor_from(ggml_object* o) noexcept:
    """The first tensor among an object of a context and those behind it; NULL: there is none."""
    while o != NULL and o.type != GGML_OBJECT_TYPE_TENSOR:
        o = o.next
    return <ggml_tensor*>(o + 1) if o != NULL else NULL


cdef ggml_tensor* tensor_after(ggml_tensor* t) noexcept:
    return tensor_from((<ggml_object*>t - 1).next)


cdef ggml_tensor* first_tensor(ctx) except? NULL:
    cdef int section = section_shared()
    try:
        return tensor_from(arg_context(ctx, b"first_tensor").first)
    finally:
        section_back(section)


def names_of(ctx):
    """The names of the tensors of a context, each in GGML_MAX_NAME bytes, in the order in which they were made."""
    cdef list names = []
    cdef ggml_tensor* t = first_tensor(ctx)
    while t != NULL:
        names.append(t.name[:GGML_MAX_NAME])
        t = tensor_after(t)
    return b"".join(names)


def name_tensors(ctx, bytes names):
    """Gives the tensors of a context the names that names_of has found in another one."""
    cdef const char* name = names
    cdef const char* end = name + len(names)
    cdef ggml_tensor* t = first_tensor(ctx)
    while t != NULL and name < end:
        memcpy(t.name, name, GGML_MAX_NAME)
        t, name = tensor_after(t), name + GGML_MAX_NAME


# ---- signatures ------------------------------------------------------------------------------------------------------
cpdef bint is_numbers(object part) except -1:
    """Whether an operand is a few integers that are part of the signature."""
    return type(part) is tuple and type(part[2]) is bytes and part[1].kind in "iu" and len(part[2]) <= MOST_BYTES


def kind_of(part):
    """What an operand of a signature is besides what shape_of gives."""
    return part if type(part) is not tuple else part[:2] if is_numbers(part) else part[1:]


def shape_of(part):
    """The shape of an operand of a signature; of integers that are part of it, these; None: it has none."""
    if type(part) is not tuple:
        return None
    return tuple(np.frombuffer(part[2], part[1]).tolist()) if is_numbers(part) else part[0]


def symbols_of(list kinds, list patterns, tuple key, Py_ssize_t n):
    """The numbers of the n symbols of a recipe for the operands of a signature; None if it is not for them.

    Args:
        kinds: those of its operands.
        patterns: their shapes, with a number or (symbol,) for each dimension.
    """
    cdef list found = [None] * n
    cdef object part, pattern, shape, p, size
    cdef Py_ssize_t i, k, symbol
    for i in range(len(kinds)):
        part, pattern = key[i], patterns[i]
        if kind_of(part) != kinds[i]:
            return None
        shape = shape_of(part)
        if shape is None or pattern is None:
            if shape is not pattern:
                return None
            continue
        if len(<tuple>shape) != len(<tuple>pattern):
            return None
        for k in range(len(<tuple>shape)):
            p, size = (<tuple>pattern)[k], (<tuple>shape)[k]
            if type(p) is not tuple:
                if p != size:
                    return None
                continue
            symbol = p[0]
            if not size or found[symbol] is not None and found[symbol] != size:
                return None
            found[symbol] = size
    return found


def filled(list entries, list cells):
    """Entries (key, shape, type, place) with sizes for the (place,) in their shapes, and what is at their places."""
    return [(key, tuple([cells[n[0]] if type(n) is tuple else n for n in shape]), dtype, cells[place])
            for key, shape, dtype, place in entries]
