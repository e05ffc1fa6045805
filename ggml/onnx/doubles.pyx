# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Nodes of a graph that compute with numbers of type double.

Operands are contiguous, F64 or F32; the results are F64, or F32 where they are truths or places. Tensors that do not
fit are left alone.
"""
from libc.stdint cimport int32_t, uintptr_t
from libc.string cimport memcpy

from .._core cimport ggml_tensor
from .thin cimport short_rows

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include "runtime/exponential.h"
    #include <math.h>
    #include <stddef.h>
    #include <stdint.h>

    enum { GG_ADD, GG_SUB, GG_MUL, GG_DIV, GG_MAX, GG_MIN, GG_LESS, GG_GREATER, GG_EQUAL, GG_COPY, GG_NEG, GG_ABS,
           GG_SQRT, GG_EXP, GG_LOG, GG_RECIPROCAL, GG_SIGMOID, GG_TANH };

    // r[i] = what is made of a[i], or of a[i] and b[i]
    GG_VECTORS static void gg_for_each(int what, double *restrict r, const double *restrict a, const double *restrict b,
                                      size_t n) {
        #define GG_AS(NAME, VALUE) case NAME: for (size_t i = 0; i < n; i++) r[i] = VALUE; break;
        switch (what) {
            GG_AS(GG_ADD, a[i] + b[i])
            GG_AS(GG_SUB, a[i] - b[i])
            GG_AS(GG_MUL, a[i] * b[i])
            GG_AS(GG_DIV, a[i] / b[i])
            GG_AS(GG_MAX, a[i] > b[i] || a[i] != a[i] ? a[i] : b[i])
            GG_AS(GG_MIN, a[i] < b[i] || a[i] != a[i] ? a[i] : b[i])
            GG_AS(GG_LESS, a[i] < b[i])
            GG_AS(GG_GREATER, a[i] > b[i])
            GG_AS(GG_EQUAL, a[i] == b[i])
            GG_AS(GG_COPY, a[i])
            GG_AS(GG_NEG, -a[i])
            GG_AS(GG_ABS, fabs(a[i]))
            GG_AS(GG_SQRT, sqrt(a[i]))
            GG_AS(GG_EXP, exp(a[i]))
            GG_AS(GG_LOG, log(a[i]))
            GG_AS(GG_RECIPROCAL, 1 / a[i])
            GG_AS(GG_SIGMOID, 1 / (1 + exp(-a[i])))
            GG_AS(GG_TANH, tanh(a[i]))
        }
    }
    static size_t gg_quotient(size_t a, size_t b) { return b ? a / b : 0; }
    GG_VECTORS static void gg_widen(double *restrict r, const float *restrict x, size_t n) {
        for (size_t i = 0; i < n; i++) r[i] = x[i];
    }
    GG_VECTORS static void gg_round(float *restrict r, const double *restrict x, size_t n) {
        for (size_t i = 0; i < n; i++) r[i] = (float)x[i];
    }

    // The product of rows of x (k columns) with one column
    GG_VECTORS static void gg_multiply_one(double *restrict y, const double *restrict x, const double *restrict w,
                                           size_t rows, size_t k) {
        for (; rows; rows--, x += k, y++) {
            double sum[8] = {0}, rest = 0;
            size_t i = 0;
            for (; i + 8 <= k; i += 8)
                for (int j = 0; j < 8; j++) sum[j] += x[i + j] * w[i + j];
            for (; i < k; i++) rest += x[i] * w[i];
            for (int j = 0; j < 8; j++) rest += sum[j];
            *y = rest;
        }
    }

    // e to the distances from the largest element of each row, divided by their sum
    GG_VECTORS static void gg_softmax(double *restrict y, const double *restrict x, size_t rows, size_t n) {
        for (size_t r = 0; r < rows; r++) {
            double top = x[r * n];
            for (size_t i = 1; i < n; i++) {
                const double v = x[r * n + i];
                top = v > top || v != v ? v : top;
            }
            for (size_t i = 0; i < n; i++) y[r * n + i] = x[r * n + i] - top;
        }
        for (size_t i = 0; i < rows * n; i++) {
            const double e = gg_exp_limited_double(y[i]);
            y[i] = y[i] < -708 ? 0 : e;
        }
        for (size_t r = 0; r < rows; r++) {
            double sum = 0;
            for (size_t i = 0; i < n; i++) sum += y[r * n + i];
            for (size_t i = 0; i < n; i++) y[r * n + i] /= sum;
        }
    }
    """
    void gg_for_each(int what, double* r, const double* a, const double* b, size_t n) noexcept nogil
    size_t gg_quotient(size_t a, size_t b) noexcept nogil
    void gg_widen(double* r, const float* x, size_t n) noexcept nogil
    void gg_round(float* r, const double* x, size_t n) noexcept nogil
    void gg_multiply_one(double* y, const double* x, const double* w, size_t rows, size_t k) noexcept nogil
    void gg_softmax(double* y, const double* x, size_t rows, size_t n) noexcept nogil

cdef enum:
    BLOCK = 1024        # elements that are computed at a time
    ROWS = 64           # rows that one thread takes at a time
    PARTS = 10          # GGML_MAX_SRC

cdef enum:              # how an operand is spread over a result
    WHOLE, SCALAR, ROW, COLUMN, OTHER


cdef inline bint is_double(const ggml_tensor* t) noexcept nogil:
    return t.nb[0] == sizeof(double)


cdef inline Py_ssize_t count(const ggml_tensor* t) noexcept nogil:
    return t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3]


cdef inline Py_ssize_t rows_of(const ggml_tensor* t) noexcept nogil:
    return t.ne[1] * t.ne[2] * t.ne[3]


cdef int spread(const ggml_tensor* x, const ggml_tensor* y) noexcept nogil:
    """How x is spread over y."""
    cdef Py_ssize_t n = count(x)
    if n == count(y):
        return WHOLE
    if n == 1:
        return SCALAR
    if y.ne[0] <= BLOCK and n == x.ne[0] and n == y.ne[0]:
        return ROW
    return COLUMN if y.ne[0] <= BLOCK and x.ne[0] == 1 and n * y.ne[0] == count(y) else OTHER


cdef inline double element(const ggml_tensor* x, Py_ssize_t i) noexcept nogil:
    return (<const double*>x.data)[i] if is_double(x) else (<const float*>x.data)[i]


cdef const double* values(const ggml_tensor* x, int way, Py_ssize_t first, Py_ssize_t n, Py_ssize_t width,
                          double* memory, bint again) noexcept nogil:
    """Numbers of an operand for the n elements of a result from the first on; memory: for n; again: it has them."""
    cdef Py_ssize_t i, j, some
    if way == WHOLE:
        if is_double(x):
            return <const double*>x.data + first
        gg_widen(memory, <const float*>x.data + first, n)
    elif way == COLUMN:
        some, first = gg_quotient(n, width), gg_quotient(first, width)
        for i in range(some):
            for j in range(width):
                memory[i * width + j] = element(x, first + i)
    elif not again:
        for i in range(n):
            memory[i] = element(x, 0 if way == SCALAR else i if i < width else 0)
        if way == ROW:
            some = gg_quotient(n, width)
            for i in range(1, some):
                memcpy(memory + i * width, memory, width * sizeof(double))
    return memory


cdef void run_each(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
    """What data says (int32) of each element of one operand, or of two, which are broadcast."""
    cdef int what = (<const int32_t*>data)[0]
    cdef const ggml_tensor* a = dst.src[0]
    cdef const ggml_tensor* b = dst.src[1]
    cdef int way_a = spread(a, dst), way_b = spread(b if b != NULL else a, dst)
    cdef double[BLOCK] left, right, result
    cdef Py_ssize_t all = count(dst), width = dst.ne[0], n, first
    cdef Py_ssize_t block = gg_quotient(BLOCK, width) * width if width <= BLOCK else BLOCK
    cdef bint again = False
    cdef double* y
    cdef const double* p
    cdef const double* q
    if way_a == OTHER or way_b == OTHER:
        return
    first = ith * block
    while first < all:
        n = min(block, all - first)
        y = <double*>dst.data + first if is_double(dst) else result
        p = values(a, way_a, first, n, width, left, again)
        q = p if b == NULL else values(b, way_b, first, n, width, right, again)
        gg_for_each(what, y, p, q, n)
        if not is_double(dst):
            gg_round(<float*>dst.data + first, y, n)
        again = n == block
        first += nth * block


cdef void run_product(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    """Rows (k, rows) times a matrix: of one column (k), or with columns in groups of eight (8, k, groups)."""
    cdef const ggml_tensor* x = dst.src[0]
    cdef const ggml_tensor* w = dst.src[1]
    cdef Py_ssize_t k = x.ne[0], n = dst.ne[0], rows = dst.ne[1], row = <Py_ssize_t>ith * ROWS, some
    cdef double* y
    cdef const double* p
    if x.ne[1] != rows or count(w) != k * (1 if n == 1 else (n + 7) // 8 * 8) or not (is_double(x) and is_double(w)):
        return
    while row < rows:
        some, y, p = min(<Py_ssize_t>ROWS, rows - row), <double*>dst.data + row * n, <const double*>x.data + row * k
        if n == 1:
            gg_multiply_one(y, p, <const double*>w.data, some, k)
        else:
            short_rows.doubles(y, p, <const double*>w.data, some, k, n)
        row += <Py_ssize_t>nth * ROWS


cdef void run_softmax(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    cdef Py_ssize_t n = dst.ne[0], rows = rows_of(dst), row = <Py_ssize_t>ith * ROWS
    if not is_double(dst.src[0]) or count(dst.src[0]) != count(dst):
        return
    while row < rows:
        gg_softmax(<double*>dst.data + row * n, <const double*>dst.src[0].data + row * n,
                   min(<Py_ssize_t>ROWS, rows - row), n)
        row += <Py_ssize_t>nth * ROWS


cdef void run_place(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    """Where the largest element of each row is, the first of equal ones, or NaN."""
    cdef const ggml_tensor* x = dst.src[0]
    cdef Py_ssize_t n = x.ne[0], rows = count(dst), row = ith, i, best
    cdef const double* p
    if not is_double(x) or count(x) != rows * n:
        return
    while row < rows:
        p, best = <const double*>x.data + row * n, 0
        for i in range(1, n):
            if p[i] > p[best] or p[i] != p[i] and p[best] == p[best]:
                best = i
        (<float*>dst.data)[row] = best
        row += nth


cdef void run_choose(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
    """Of each row the elements in the columns that data names (int32), behind their number."""
    cdef const int32_t* numbers = <const int32_t*>data
    cdef const int32_t* places = numbers + 1
    cdef const ggml_tensor* x = dst.src[0]
    cdef Py_ssize_t n = x.ne[0], k = dst.ne[0], rows = rows_of(dst), row = ith, i
    if numbers[0] != k or not is_double(x) or count(x) != rows * n:
        return
    for i in range(k):
        if not 0 <= places[i] < n:
            return
    while row < rows:
        for i in range(k):
            (<double*>dst.data)[row * k + i] = (<const double*>x.data)[row * n + places[i]]
        row += nth


cdef void run_join(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    """The rows of the operands beside each other."""
    cdef Py_ssize_t n = dst.ne[0], rows = dst.ne[1], offset = 0, row, w
    cdef const ggml_tensor* x
    cdef int i
    for i in range(PARTS):
        x = dst.src[i]
        if x == NULL:
            break
        w = x.ne[0]
        if x.ne[1] != rows or offset + w > n or not is_double(x):
            return
        row = ith
        while row < rows:
            memcpy(<double*>dst.data + row * n + offset, <const double*>x.data + row * w, w * sizeof(double))
            row += nth
        offset += w


FUNCTIONS = ("Add Sub Mul Div Max Min Less Greater Equal Cast Neg Abs Sqrt Exp Log Reciprocal Sigmoid Tanh").split()
WIDEST, MOST = BLOCK, PARTS
EACH, PRODUCT, SOFTMAX = <uintptr_t>&run_each, <uintptr_t>&run_product, <uintptr_t>&run_softmax  # for ggml.ext.compiled
PLACE, CHOOSE, JOIN = <uintptr_t>&run_place, <uintptr_t>&run_choose, <uintptr_t>&run_join
