"""All steps of an LSTM, a GRU or an RNN as one node of a graph.

As single nodes, a step of so few numbers takes longer to make, and to hand to threads, than to compute; and a graph of
as many steps as there are serves sequences of one length only. Tasks share the rows of the batch and the directions. A
state has up to MOST elements, so that a task needs no memory but the stack.
"""
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy

from .._core cimport ggml_tensor

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include "runtime/exponential.h"
    #include <stddef.h>

    // y[j] += the sum of x[k] * m[k * stride + j]; back: rows in the reverse order, eight at a time. Of steps that take
    // turns, each finds in the cache those rows of a matrix that the one before has read last.
    GG_VECTORS static void gg_add_product(float *restrict y, const float *restrict x, const float *restrict m,
                                          size_t rows, size_t columns, size_t stride, int back) {
        size_t k;
        for (size_t done = 0; done + 8 <= rows; done += 8) {
            k = back ? (rows & ~(size_t)7) - 8 - done : done;
            const float *a = m + k * stride, *b = a + 2 * stride, *c = b + 2 * stride, *d = c + 2 * stride, *v = x + k;
            for (size_t j = 0; j < columns; j++)
                y[j] += ((v[0] * a[j] + v[1] * a[j + stride]) + (v[2] * b[j] + v[3] * b[j + stride]))
                      + ((v[4] * c[j] + v[5] * c[j + stride]) + (v[6] * d[j] + v[7] * d[j + stride]));
        }
        for (k = rows & ~(size_t)7; k + 4 <= rows; k += 4) {
            const float *a = m + k * stride, *b = a + stride, *c = b + stride, *d = c + stride;
            const float p = x[k], q = x[k + 1], r = x[k + 2], s = x[k + 3];
            for (size_t j = 0; j < columns; j++) y[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * d[j]);
        }
        for (; k < rows; k++)
            for (size_t j = 0; j < columns; j++) y[j] += x[k] * m[k * stride + j];
    }

    GG_VECTORS static void gg_sigmoid(float *x, size_t n) {
        for (size_t i = 0; i < n; i++) x[i] = 1.0f / (1.0f + gg_exp_limited(-x[i]));
    }

    GG_VECTORS static void gg_tanh(float *x, size_t n) {
        for (size_t i = 0; i < n; i++) {
            const float v = x[i], s = v * v;  // near 0, where 1 would hide the result, its Taylor polynomial
            const float near = v * (1 + s * (-1.0f / 3 + s * (2.0f / 15 + s * (-17.0f / 315))));
            const float far = 1.0f - 2.0f / (1.0f + gg_exp_limited(2.0f * v));
            x[i] = s < 0.01f ? near : far;
        }
    }
    """
    void gg_add_product(float *y, const float *x, const float *m, size_t rows, size_t columns,
                        size_t stride, bint back) noexcept nogil
    void gg_sigmoid(float *x, size_t n) noexcept nogil
    void gg_tanh(float *x, size_t n) noexcept nogil

cdef enum:
    MOST = 512          # elements of a state

cdef enum Kind:
    LSTM, GRU, GRU_RESET_AFTER, RNN


cdef int64_t count(const ggml_tensor *t) noexcept nogil:
    return t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3]


cdef void add_scaled(float *y, const float *x, const float *factors, size_t n) noexcept nogil:
    cdef size_t i
    for i in range(n):
        y[i] += factors[i] * x[i]


cdef void lstm_step(float *g, const float *r, const float *h, float *c, const float *peepholes, float *out, size_t n,
                    bint back) noexcept nogil:
    """A step of one sequence: g are the gates i, o, f, c of the inputs, which are overwritten.

    peepholes: factors of c for i, o and f, or NULL; o takes the new c.
    """
    cdef size_t i
    gg_add_product(g, h, r, n, 4 * n, 4 * n, back)
    if peepholes != NULL:
        add_scaled(g, c, peepholes, n)
        add_scaled(g + 2 * n, c, peepholes + 2 * n, n)
        gg_sigmoid(g, n)
        gg_sigmoid(g + 2 * n, n)
    else:
        gg_sigmoid(g, 3 * n)
    gg_tanh(g + 3 * n, n)
    for i in range(n):
        c[i] = g[2 * n + i] * c[i] + g[i] * g[3 * n + i]
        out[i] = c[i]
    if peepholes != NULL:
        add_scaled(g + n, c, peepholes + n, n)
        gg_sigmoid(g + n, n)
    gg_tanh(out, n)
    for i in range(n):
        out[i] *= g[n + i]


cdef void gru_step(float *g, const float *r, const float *h, const float *bias, float *out, size_t n,
                   bint after, bint back) noexcept nogil:
    """The same of a GRU, with gates z, r, h; after: r multiplies the product of the state, with its bias."""
    cdef float[MOST] own
    cdef size_t i
    gg_add_product(g, h, r, n, 2 * n, 3 * n, back)
    if after:
        for i in range(2 * n):
            g[i] += bias[i]
    gg_sigmoid(g, 2 * n)
    if after:
        memcpy(own, bias + 2 * n, n * sizeof(float))
        gg_add_product(own, h, r + 2 * n, n, n, 3 * n, back)
        for i in range(n):
            g[2 * n + i] += g[n + i] * own[i]
    else:
        for i in range(n):
            own[i] = g[n + i] * h[i]
        gg_add_product(g + 2 * n, own, r + 2 * n, n, n, 3 * n, back)
    gg_tanh(g + 2 * n, n)
    for i in range(n):
        out[i] = g[2 * n + i] + g[i] * (h[i] - g[2 * n + i])


cdef void rnn_step(float *g, const float *r, const float *h, float *out, size_t n, bint back) noexcept nogil:
    """The same of an RNN, which has one gate."""
    gg_add_product(g, h, r, n, n, n, back)
    gg_tanh(g, n)
    memcpy(out, g, n * sizeof(float))


cdef void run(ggml_tensor *dst, int ith, int nth, const int32_t *data, Kind kind) noexcept nogil:
    """All steps. The operands are contiguous and F32:

    gates (steps, batch, directions, gates * n) of the inputs; r (directions, n, gates * n), transposed; h (directions,
    batch, n); then c, which is like h, and peepholes (directions, 3 * n), if there are any (LSTM), or a bias
    (directions, gates * n) (GRU). The result has a row of the states (directions, batch, n) for each step, one of the
    last states, and for an LSTM one of the last c. The second direction goes from the last step to the first one, and
    so does a single one if data is not 0. Tensors that do not fit are left alone.
    """
    cdef const ggml_tensor *gates = dst.src[0]
    cdef const ggml_tensor *r = dst.src[1]
    cdef const ggml_tensor *h = dst.src[2]
    cdef const ggml_tensor *more = dst.src[3]
    cdef const ggml_tensor *peepholes = dst.src[4]
    cdef int64_t n = h.ne[0], wide = (4 if kind == LSTM else 1 if kind == RNN else 3) * n, batch = h.ne[1]
    cdef int64_t directions = h.ne[2] * h.ne[3]
    cdef const float *own = NULL
    cdef const float *factors = NULL
    cdef int64_t rows = batch * directions, steps = dst.ne[1] - 1 - (kind == LSTM), d, b
    cdef int turn = -1
    cdef bint fits = 0 < n <= MOST and steps > 0 and count(gates) == steps * rows * wide
    fits = fits and count(r) == directions * n * wide and count(dst) == dst.ne[1] * rows * n
    if kind != RNN:
        fits = fits and more != NULL and count(more) == (rows * n if kind == LSTM else directions * wide)
    fits = fits and (peepholes == NULL or count(peepholes) == directions * 3 * n)
    if not fits:
        return
    for d in range(directions):
        for b in range(batch):
            turn = turn + 1 if turn + 1 < nth else 0
            if turn == ith:
                if kind != RNN:
                    own = <const float *>more.data + ((d * batch + b) * n if kind == LSTM else d * wide)
                if peepholes != NULL:
                    factors = <const float *>peepholes.data + d * 3 * n
                run_row(rows, steps, n, wide, <const float *>gates.data + (b * directions + d) * wide,
                        <const float *>r.data + d * n * wide, <const float *>h.data + (d * batch + b) * n,
                        own, factors, <float *>dst.data + (d * batch + b) * n, kind, d == 1 or data[0] != 0)


cdef void run_row(int64_t rows, int64_t steps, int64_t n, int64_t wide, const float *gates, const float *r,
                  const float *before, const float *more, const float *peepholes, float *y, Kind kind,
                  bint backwards) noexcept nogil:
    """The steps of one sequence in one direction, whose entries begin at the pointers; rows: sequences of a step."""
    cdef float[4 * MOST] g
    cdef float *c = y + (steps + 1) * rows * n
    cdef float *out
    cdef int64_t t, place
    if kind == LSTM:
        memcpy(c, more, n * sizeof(float))
    for t in range(steps):
        place = (steps - 1 - t if backwards else t) * rows
        memcpy(g, gates + place * wide, wide * sizeof(float))
        out = y + place * n
        if kind == LSTM:
            lstm_step(g, r, before, c, peepholes, out, n, t & 1)
        elif kind == RNN:
            rnn_step(g, r, before, out, n, t & 1)
        else:
            gru_step(g, r, before, more, out, n, kind == GRU_RESET_AFTER, t & 1)
        before = out
    memcpy(y + steps * rows * n, before, n * sizeof(float))


cdef void run_lstm(ggml_tensor *dst, int ith, int nth, void *data) noexcept nogil:
    run(dst, ith, nth, <const int32_t *>data, LSTM)


cdef void run_gru(ggml_tensor *dst, int ith, int nth, void *data) noexcept nogil:
    run(dst, ith, nth, <const int32_t *>data, GRU)


cdef void run_gru_reset_after(ggml_tensor *dst, int ith, int nth, void *data) noexcept nogil:
    run(dst, ith, nth, <const int32_t *>data, GRU_RESET_AFTER)


cdef void run_rnn(ggml_tensor *dst, int ith, int nth, void *data) noexcept nogil:
    run(dst, ith, nth, <const int32_t *>data, RNN)


LARGEST = MOST
FUNCTIONS = {  # addresses for ggml.ext.compiled
    "LSTM": <uintptr_t>&run_lstm,
    "GRU": <uintptr_t>&run_gru,
    "GRU, reset after": <uintptr_t>&run_gru_reset_after,
    "RNN": <uintptr_t>&run_rnn,
}
