/* Quantises whole rows on one thread. Rows are independent, so callers distribute them over threads.
 *
 * Range: from finite elements no encoder makes a scale that is infinite or NaN. A scale beyond the range of its type
 * (f16, or e4m3) becomes the largest one, and elements become at most the largest that the type holds. Encoders note
 * this, and elements that are not finite; the functions below tell their callers, which raise an exception. Nodes of a
 * graph store the limited row. */
#ifndef GG_QUANTS_QUANTIZE_H
#define GG_QUANTS_QUANTIZE_H
#include "../runtime/engine.h"

/* n_per_row is a multiple of the type's block. imatrix holds n_per_row importance weights, or is NULL. Returns the
 * number of bytes written; 0 if there is no conversion to the type, a required imatrix is missing or memory runs out
 * (see gg_quantizer_ready). *beyond becomes the first row that is beyond the range of the type, which for quantised
 * types includes rows that are not finite; nrows if there is none. All rows are written. */
size_t gg_quantize_rows(int type, const float *src, void *dst, int64_t nrows, int64_t n_per_row, const float *imatrix,
                        int64_t *beyond);
/* Converts one row by from_f32 of the kernels in use, which exists; false: it is beyond the range of the type. */
bool gg_convert_row(int type, const float *x, void *y, int64_t n);
/* Called by encoders: the row that this thread converts is beyond the range of the type. */
void gg_note_beyond_range(void);
bool gg_requires_imatrix(int type);
/* Builds the tables that quantising to a type needs; false: out of memory. */
bool gg_quantizer_ready(int type);

/* The tables with which the IQ types round eight (IQ3: four) levels to a point of a grid. They are built on first
 * use and never freed; NULL: out of memory. */
typedef struct gg_grid {
    int size, dims, bits, levels;   /* a point is `dims` levels 0..levels-1 of `bits` bits, the first in the lowest */
    const uint16_t *points;         /* the points of the grid */
    const int32_t *map;             /* of every point: its index, or -(offset + 1) in lists if it is not on the grid */
    const uint16_t *lists;          /* of each such point: the number of its neighbours, then their indices */
} gg_grid;
enum {
    GG_GRID_NONE = -1, GG_GRID_IQ2XXS, GG_GRID_IQ2XS, GG_GRID_IQ2S, GG_GRID_IQ3XXS, GG_GRID_IQ3S, GG_GRID_IQ1S,
    GG_GRID_COUNT
};
const gg_grid *gg_grid_get(int which);

#endif
