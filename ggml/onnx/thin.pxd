cdef extern from "runtime/short_rows.h":
    enum:
        GG_WIDE
        GG_FEW
        GG_LONGEST
    ctypedef struct gg_short_rows:
        void (*one)(float* y, const float* x, const float* w, size_t rows, size_t k, size_t n) noexcept nogil
        void (*two)(float* y, const float* x, const float* w, size_t rows, size_t k, size_t n) noexcept nogil
        void (*few)(float* y, const float* x, const float* w, size_t rows, size_t k, size_t n) noexcept nogil
        void (*doubles)(double* y, const double* x, const double* w, size_t rows, size_t k, size_t n) noexcept nogil
        void (*sums)(float* y, const float* x, size_t rows, size_t n, size_t left, int squares) noexcept nogil

cdef const gg_short_rows* short_rows    # for the vectors of this CPU
