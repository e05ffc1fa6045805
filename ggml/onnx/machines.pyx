# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Support vector machines: what they decide about rows of features, and the probabilities of their classes.

Kernels are computed in float64, as LIBSVM does, for BLOCK support vectors at a time, which the first cache holds.
"""
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uintptr_t

import numpy as np

from .._core cimport ggml_tensor

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include "runtime/exponential.h"
    #include <math.h>
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    // d[j] += the square of the distance between x and column j of v
    GG_VECTORS static void gg_add_distances(double *restrict d, const double *restrict x, const double *restrict v,
                                            size_t rows, size_t columns, size_t stride) {
        size_t k = 0;
        for (; k + 4 <= rows; k += 4) {
            const double *a = v + k * stride, *b = a + stride, *c = b + stride, *e = c + stride;
            const double p = x[k], q = x[k + 1], r = x[k + 2], s = x[k + 3];
            for (size_t j = 0; j < columns; j++)
                d[j] += ((p - a[j]) * (p - a[j]) + (q - b[j]) * (q - b[j]))
                    + ((r - c[j]) * (r - c[j]) + (s - e[j]) * (s - e[j]));
        }
        for (; k < rows; k++)
            for (size_t j = 0; j < columns; j++) d[j] += (x[k] - v[k * stride + j]) * (x[k] - v[k * stride + j]);
    }

    // d[j] += the product of x and column j of v
    GG_VECTORS static void gg_add_products(double *restrict d, const double *restrict x, const double *restrict v,
                                           size_t rows, size_t columns, size_t stride) {
        size_t k = 0;
        for (; k + 4 <= rows; k += 4) {
            const double *a = v + k * stride, *b = a + stride, *c = b + stride, *e = c + stride;
            const double p = x[k], q = x[k + 1], r = x[k + 2], s = x[k + 3];
            for (size_t j = 0; j < columns; j++) d[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * e[j]);
        }
        for (; k < rows; k++)
            for (size_t j = 0; j < columns; j++) d[j] += x[k] * v[k * stride + j];
    }

    // x[j] = e^(factor x[j]), of exponents limited to [-708, 708]
    GG_VECTORS static void gg_exp_times(double *x, double factor, size_t n) {
        for (size_t j = 0; j < n; j++) x[j] = gg_exp_limited_double(factor * x[j]);
    }

    // x[j] = (gamma x[j] + shift)^degree
    GG_VECTORS static void gg_power(double *x, double gamma, double shift, double degree, size_t n) {
        const int whole = degree >= 1 && degree <= 16 && degree == (int)degree ? (int)degree : 0;
        for (size_t j = 0; j < n; j++) x[j] = gamma * x[j] + shift;
        if (!whole) {
            for (size_t j = 0; j < n; j++) x[j] = pow(x[j], degree);
            return;
        }
        for (size_t j = 0; j < n; j++) {
            double y = 1;
            for (int i = 0; i < whole; i++) y *= x[j];
            x[j] = y;
        }
    }
    static void gg_tanhs(double *x, double gamma, double shift, size_t n) {
        for (size_t j = 0; j < n; j++) x[j] = tanh(gamma * x[j] + shift);
    }

    GG_VECTORS static double gg_dot(const double *restrict a, const double *restrict b, size_t n) {
        double sum[8] = {0}, rest = 0;
        size_t j = 0;
        for (; j + 8 <= n; j += 8)
            for (int i = 0; i < 8; i++) sum[i] += a[j + i] * b[j + i];
        for (; j < n; j++) rest += a[j] * b[j];
        for (int i = 0; i < 8; i++) rest += sum[i];
        return rest;
    }

    // Probabilities p of k classes from r[i * k + j], how likely class i is among the two of a pair, as Wu, Lin and
    // Weng (2004, second approach) find them: the least sum of (r[j, i] p[i] - r[i, j] p[j])^2, with the steps and the
    // tolerance of LIBSVM, whose results are thereby matched. q and product: memory, k * k and k.
    static void gg_couple(const double *r, double *p, double *q, double *product, int k) {
        for (int i = 0; i < k; i++) {
            p[i] = 1.0 / k, q[i * k + i] = 0;
            for (int j = 0; j < k; j++)
                if (j != i) q[i * k + j] = -r[j * k + i] * r[i * k + j], q[i * k + i] += r[j * k + i] * r[j * k + i];
        }
        for (int turn = 0; turn < (k > 100 ? k : 100); turn++) {
            double total = 0, far = 0;
            for (int i = 0; i < k; i++) {
                product[i] = 0;
                for (int j = 0; j < k; j++) product[i] += q[i * k + j] * p[j];
                total += p[i] * product[i];
            }
            for (int i = 0; i < k; i++) far = fmax(far, fabs(product[i] - total));
            if (far < 0.005 / k) return;
            for (int i = 0; i < k; i++) {
                const double step = (total - product[i]) / q[i * k + i];
                p[i] += step;
                total = (total + step * (step * q[i * k + i] + 2 * product[i])) / (1 + step) / (1 + step);
                for (int j = 0; j < k; j++)
                    product[j] = (product[j] + step * q[i * k + j]) / (1 + step), p[j] /= 1 + step;
            }
        }
    }
    static double gg_chance(double s, double a, double b) {   // of the first class of a pair
        const double p = 1 / (1 + exp(s * a + b));
        return p < 1e-7 ? 1e-7 : p > 1 - 1e-7 ? 1 - 1e-7 : p;
    }
    """
    void gg_add_distances(double* d, const double* x, const double* v, size_t rows, size_t columns,
                          size_t stride) noexcept nogil
    void gg_add_products(double* d, const double* x, const double* v, size_t rows, size_t columns,
                         size_t stride) noexcept nogil
    void gg_exp_times(double* x, double factor, size_t n) noexcept nogil
    void gg_power(double* x, double gamma, double shift, double degree, size_t n) noexcept nogil
    void gg_tanhs(double* x, double gamma, double shift, size_t n) noexcept nogil
    double gg_dot(const double* a, const double* b, size_t n) noexcept nogil
    void gg_couple(const double* r, double* p, double* q, double* product, int k) noexcept nogil
    double gg_chance(double s, double a, double b) noexcept nogil

cdef enum:
    BLOCK = 512         # support vectors whose kernels are computed at a time
    FEATURES = 1024     # of a row that a graph computes
    NUMBERS = 4096      # of work memory there

cdef enum:              # kernels
    LINEAR, POLY, RBF, SIGMOID

cdef enum:              # results: the scores; 1 where the only one is above 0, else -1; of one score s, -s and s; the
    EACH, SIGN, BOTH, CHANCES       # probabilities of all classes

cdef struct Parts:      # machines that share support vectors, without objects
    const double* columns       # (features, vectors); LINEAR: (features, scores), the sums of vectors times factors
    const double* factors       # (scores, vectors)
    const double* rho           # what is added to each score
    const double* a             # a, b: of the probabilities
    const double* b
    Py_ssize_t features, vectors, scores, classes, width
    int kernel, form
    double gamma, shift, degree

ctypedef fused number:
    float
    double


cdef void score(const Parts* f, const double* x, double* scores) noexcept nogil:
    """The scores of a row."""
    cdef double[BLOCK] k
    cdef Py_ssize_t first = 0, n, i
    for i in range(f.scores):
        scores[i] = f.rho[i]
    if f.kernel == LINEAR:
        gg_add_products(scores, x, f.columns, f.features, f.scores, f.scores)
        return
    while first < f.vectors:
        n = min(<Py_ssize_t>BLOCK, f.vectors - first)
        for i in range(n):
            k[i] = 0
        if f.kernel == RBF:
            gg_add_distances(k, x, f.columns + first, f.features, n, f.vectors)
            gg_exp_times(k, -f.gamma, n)
        else:
            gg_add_products(k, x, f.columns + first, f.features, n, f.vectors)
            if f.kernel == POLY:
                gg_power(k, f.gamma, f.shift, f.degree, n)
            elif f.kernel == SIGMOID:
                gg_tanhs(k, f.gamma, f.shift, n)
        for i in range(f.scores):
            scores[i] += gg_dot(k, f.factors + i * f.vectors + first, n)
        first += n


cdef Py_ssize_t winner(const Parts* f, const double* scores, double* votes) noexcept nogil:
    """The class that wins most pairs, the first of several."""
    cdef Py_ssize_t i, j, pair = 0, best = 0
    for i in range(f.classes):
        votes[i] = 0
    for i in range(f.classes):
        for j in range(i + 1, f.classes):
            votes[i if scores[pair] > 0 else j] += 1
            pair += 1
    for i in range(f.classes):
        if votes[i] > votes[best]:
            best = i
    return best


cdef void couple(const Parts* f, const double* scores, double* p, number* out) noexcept nogil:
    """The probabilities of k classes; p: memory, 2 k (k + 1)."""
    cdef Py_ssize_t i, j, k = f.classes, pair = 0
    cdef double* product = p + k
    cdef double* r = product + k
    cdef double* q = r + k * k
    for i in range(k):
        for j in range(i + 1, k):
            r[i * k + j] = gg_chance(scores[pair], f.a[pair], f.b[pair])
            r[j * k + i] = 1 - r[i * k + j]
            pair += 1
    gg_couple(r, p, q, product, <int>k)
    for i in range(k):
        out[i] = <number>p[i]


cdef Py_ssize_t answer(const Parts* f, const double* x, double* scores, number* out) noexcept nogil:
    """Writes the results of a row, and returns the number of its class; scores: memory, Machine.memory."""
    cdef Py_ssize_t i
    score(f, x, scores)
    if f.form == SIGN:
        out[0] = 1 if scores[0] > 0 else -1
    elif f.form == BOTH:
        out[0], out[1] = <number>-scores[0], <number>scores[0]
    elif f.form == CHANCES:
        couple(f, scores, scores + f.scores, out)
    else:
        for i in range(f.scores):
            out[i] = <number>scores[i]
    return winner(f, scores, scores + f.scores) if f.classes else 0


cdef class Machine:
    """Machines that share support vectors. As a buffer, what the function at RUN takes as its userdata.

    Args:
        kernel: "LINEAR" is x v, "POLY" (gamma x v + shift)^degree, "RBF" exp(-gamma |x - v|^2), "SIGMOID"
            tanh(gamma x v + shift).
        settings: gamma, shift and degree.
        vectors: (vectors, features).
        factors: (scores, vectors): what the kernels are multiplied by.
        rho: what is added to each score.
        classes: the number of classes of which each pair has a score, 0 if there are none.
        form: 0 for the scores, 1 for the sign of the only one, 2 for it with both signs, 3 for probabilities.
        chances: a and b of the probabilities of each pair, or None.
    """
    cdef const double[:, ::1] columns, factors
    cdef const double[::1] rho, a, b
    cdef Parts parts

    def __init__(self, str kernel, settings, vectors, factors, rho, classes=0, form=0, chances=None):
        cdef Parts* f = &self.parts
        self.columns = np.ascontiguousarray(vectors.T, np.float64)
        self.factors = np.array(factors, np.float64, order="C")
        self.rho = np.array(rho, np.float64)
        f.features, f.vectors, f.scores = self.columns.shape[0], self.columns.shape[1], self.factors.shape[0]
        if not (f.features and f.vectors and f.scores) or len(rho) != f.scores:
            raise ValueError(f"{f.vectors} vectors of {f.features} features, {f.scores} scores and {classes} classes")
        if self.factors.shape[1] != f.vectors or classes and f.scores != classes * (classes - 1) // 2:
            raise ValueError(f"factors are {list(factors.shape)} for {f.vectors} vectors and {classes} classes")
        if kernel == "LINEAR":
            self.columns = np.ascontiguousarray(np.asarray(self.columns) @ np.asarray(self.factors).T)
        f.columns, f.factors, f.rho = &self.columns[0, 0], &self.factors[0, 0], &self.rho[0]
        if chances is not None:
            self.a, self.b = (np.array(v, np.float64) for v in chances)
            if self.a.shape[0] != f.scores or self.b.shape[0] != f.scores:
                raise ValueError(f"{len(self.a)} prob_a and {len(self.b)} prob_b for {f.scores} scores")
            f.a, f.b = &self.a[0], &self.b[0]
        f.kernel, f.classes, f.form = KERNELS[kernel], classes, form
        f.gamma, f.shift, f.degree = settings
        f.width = {EACH: f.scores, SIGN: 1, BOTH: 2, CHANCES: classes}[form]

    @property
    def features(self):
        return self.parts.features

    @property
    def classes(self):
        return self.parts.classes

    @property
    def width(self):
        """Results of a row."""
        return self.parts.width

    @property
    def memory(self):
        """Numbers that are kept while a row is computed."""
        return self.parts.scores + 2 * self.parts.classes * (self.parts.classes + 1)

    @property
    def in_graph(self):
        """Whether the function at RUN has enough memory."""
        return self.features <= FEATURES and self.memory <= NUMBERS

    @property
    def work(self):
        """Elements that are multiplied for a row."""
        if self.parts.kernel == LINEAR:
            return self.parts.features * self.parts.scores
        return self.parts.vectors * (self.parts.features + self.parts.scores + 16)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, &self.parts, sizeof(Parts), True, flags)

    def compute(self, const double[:, ::1] x):
        """The results of rows x (rows, features), and the numbers of their classes."""
        out, places = np.empty((x.shape[0], self.width)), np.empty(x.shape[0], np.int64)
        cdef double[::1] memory = np.empty(self.memory)
        cdef double[:, ::1] y = out
        cdef int64_t[::1] place = places
        cdef Py_ssize_t row
        with nogil:
            for row in range(x.shape[0]):
                place[row] = answer(&self.parts, &x[row, 0], &memory[0], &y[row, 0])
        return out, places


cdef void run(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
    """The results of all rows, behind which, if there are classes, is the number of each row's class.

    The operand is contiguous and F32 or F64, (rows, features). Tensors that do not fit are left alone.
    """
    cdef const Parts* f = <const Parts*>data
    cdef const ggml_tensor* x = dst.src[0]
    cdef double[FEATURES] wide
    cdef double[NUMBERS] memory
    cdef Py_ssize_t rows = x.ne[1], width = f.width, place, row, i
    cdef float* y = <float*>dst.data
    cdef const float* own
    cdef const double* source
    if x.ne[0] != f.features or dst.ne[0] != rows * (width + (f.classes > 0)):
        return
    row = ith
    while row < rows:
        source = <const double*>x.data + row * f.features
        if x.nb[0] != sizeof(double):
            own = <const float*>x.data + row * f.features
            for i in range(f.features):
                wide[i] = own[i]
            source = wide
        place = answer(f, source, memory, y + row * width)
        if f.classes:
            y[rows * width + row] = place
        row += nth


KERNELS = {"LINEAR": LINEAR, "POLY": POLY, "RBF": RBF, "SIGMOID": SIGMOID}
RUN = <uintptr_t>&run  # for ggml.ext.compiled
