/* What Cython modules do with many short rows: products with a small matrix, and sums of each. */
#ifndef GG_RUNTIME_SHORT_ROWS_H
#define GG_RUNTIME_SHORT_ROWS_H
#include <stddef.h>

enum {
    GG_WIDE = 16,       /* a matrix of floats has columns by the 16, */
    GG_FEW = 8,         /* pairs of rows of so many columns where that is all, */
    GG_GROUP = 8,       /* one of doubles groups of so many columns */
    GG_LONGEST = 64,    /* elements of rows that are summed */
};

typedef struct gg_short_rows {
    /* Rows of y (n columns) = those of x (k columns) times w (k rows of 16 columns) plus the row behind w. */
    void (*one)(float *y, const float *x, const float *w, size_t rows, size_t k, size_t n);
    /* The same where w has 32 columns. */
    void (*two)(float *y, const float *x, const float *w, size_t rows, size_t k, size_t n);
    /* The same for at most eight columns: w has (k + 1) / 2 pairs of rows, whose elements of one column are beside each
     * other, and one for what is added. The second of a pair is 0 where there is none. */
    void (*few)(float *y, const float *x, const float *w, size_t rows, size_t k, size_t n);
    /* Rows of y (n columns) = those of x (k columns) times w, whose columns are in groups of eight (k rows each). */
    void (*doubles)(double *y, const double *x, const double *w, size_t rows, size_t k, size_t n);
    /* The sum of the magnitudes, or of the squares, of each row of n elements, at most GG_LONGEST. `left` elements of x
     * may be read. */
    void (*sums)(float *y, const float *x, size_t rows, size_t n, size_t left, int squares);
} gg_short_rows;
#endif
