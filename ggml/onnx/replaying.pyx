# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""What a recipe does for each graph that it builds again: a long list of short calls, and what frames it."""
import operator

from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from .._core cimport (
    GGML_MAX_NAME, GGML_MAX_SRC, GGML_OBJECT_TYPE_TENSOR, GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_OUTPUT, allocate,
    arg_context, arg_tensor, gg_contiguous, ggml_cgraph, ggml_context, ggml_object, ggml_tensor, graph_expand,
    graph_new, section_back, section_shared, set_name, wrap_graph, wrap_tensor,
)
from .._enums cimport GGML_OP_NONE, GGML_OP_RESHAPE

import numpy as np

from .._ops.custom import ext_compiled
from .._ops.shape import ggml_cont, ggml_view_4d
from .._tensor.create import ggml_new_tensor_4d

cdef extern from "Python.h":
    object PyObject_Vectorcall(object, PyObject**, size_t, PyObject*)

cdef object I64 = np.dtype(np.int64)

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


# ---- sizes -----------------------------------------------------------------------------------------------------------
cdef extern from *:
    """
    #include <stdbool.h>
    #include <stdint.h>
    enum { GG_NUMBER, GG_ADD, GG_SUB, GG_MUL, GG_DIV, GG_MOD, GG_EQ, GG_NE, GG_LT, GG_LE, GG_GT, GG_GE };
    typedef struct { int64_t code, a, b; } gg_row;      /* a function, and where its operands are; or a number, a */

    /* What Python gives; false: the result has no 64 bits, or there is none. */
    static bool gg_apply(int64_t code, int64_t x, int64_t y, int64_t *z) {
        switch (code) {
        case GG_ADD: return !__builtin_add_overflow(x, y, z);
        case GG_SUB: return !__builtin_sub_overflow(x, y, z);
        case GG_MUL: return !__builtin_mul_overflow(x, y, z);
        case GG_EQ: return *z = x == y, true;
        case GG_NE: return *z = x != y, true;
        case GG_LT: return *z = x < y, true;
        case GG_LE: return *z = x <= y, true;
        case GG_GT: return *z = x > y, true;
        case GG_GE: return *z = x >= y, true;
        }
        if (!y || (y == -1 && x == INT64_MIN)) return false;
        const bool down = x % y && (x < 0) != (y < 0);
        *z = code == GG_DIV ? x / y - down : x % y + (down ? y : 0);
        return true;
    }
    /* Appends the results of rows to n values, and returns whether they satisfy the conditions, whose results are 1. */
    static bool gg_evaluate(const gg_row *rows, size_t n_rows, const gg_row *conditions, size_t n_conditions,
                            int64_t *values, size_t n) {
        int64_t z;
        for (const gg_row *r = rows; r < rows + n_rows; r++) {
            if (r->code == GG_NUMBER) values[n++] = r->a;
            else if (!gg_apply(r->code, values[r->a], values[r->b], &values[n++])) return false;
        }
        for (const gg_row *r = conditions; r < conditions + n_conditions; r++)
            if (!gg_apply(r->code, values[r->a], values[r->b], &z) || !z) return false;
        return true;
    }
    """
    enum:
        GG_NUMBER, GG_ADD, GG_SUB, GG_MUL, GG_DIV, GG_MOD, GG_EQ, GG_NE, GG_LT, GG_LE, GG_GT, GG_GE
    ctypedef struct gg_row:
        int64_t code, a, b
    bint gg_evaluate(const gg_row *rows, size_t n_rows, const gg_row *conditions, size_t n_conditions,
                     int64_t *values, size_t n)

cdef dict CODES = {
    operator.add: GG_ADD, operator.sub: GG_SUB, operator.mul: GG_MUL, operator.floordiv: GG_DIV, operator.mod: GG_MOD,
    operator.eq: GG_EQ, operator.ne: GG_NE, operator.lt: GG_LT, operator.le: GG_LE, operator.gt: GG_GT,
    operator.ge: GG_GE,
}
cdef dict OPPOSITES = {GG_EQ: GG_NE, GG_NE: GG_EQ, GG_LT: GG_GE, GG_GE: GG_LT, GG_GT: GG_LE, GG_LE: GG_GT}


cdef class Arithmetic:
    """What gives all values of sizes.Terms for other numbers of the symbols, or None if a condition does not hold.

    Args:
        symbols: how many there are.
        rows: (function, place, place) of the values behind them, or (None, number, None).
        conditions: dict of outcomes by (function, place, place).
    """
    cdef gg_row* rows           # and the conditions
    cdef int64_t* values
    cdef Py_ssize_t symbols, n_rows, n_conditions

    def __init__(self, symbols, list rows, dict conditions):
        cdef Py_ssize_t i = 0
        self.symbols, self.n_rows, self.n_conditions = symbols, len(rows), len(conditions)
        self.rows = <gg_row*>allocate(self.n_rows + self.n_conditions, sizeof(gg_row))
        self.values = <int64_t*>allocate(self.symbols + self.n_rows, sizeof(int64_t))
        for function, a, b in rows:
            self.rows[i].code = GG_NUMBER if function is None else CODES[function]
            self.rows[i].a, self.rows[i].b = a, b or 0
            i += 1
        for (function, a, b), outcome in conditions.items():
            self.rows[i].code = CODES[function] if outcome else OPPOSITES[CODES[function]]
            self.rows[i].a, self.rows[i].b = a, b
            i += 1

    def __dealloc__(self):
        free(self.rows)
        free(self.values)

    def __call__(self, list numbers):
        cdef Py_ssize_t i
        for i in range(self.symbols):
            self.values[i] = numbers[i]
        if not gg_evaluate(self.rows, self.n_rows, self.rows + self.n_rows, self.n_conditions, self.values,
                           self.symbols):
            return None
        return [self.values[i] for i in range(self.symbols + self.n_rows)]


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
    cdef const char* data
    if type(part) is not tuple:
        return None
    if not is_numbers(part):
        return part[0]
    if part[1] != I64:
        return tuple(np.frombuffer(part[2], part[1]).tolist())
    data = <bytes>part[2]
    return tuple([(<const int64_t*>data)[i] for i in range(len(<bytes>part[2]) // 8)])


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
