/* Quantises whole rows, on one thread; rows are independent, so callers split them over threads. */
#ifndef GG_QUANTS_QUANTIZE_H
#define GG_QUANTS_QUANTIZE_H
#include "../runtime/engine.h"

/* Any type but integers. n_per_row is a multiple of the type's block, imatrix (n_per_row weights) may be NULL unless
 * required. Returns the bytes written; 0: not possible (no such conversion, a missing imatrix, no memory for
 * tables). */
size_t gg_quantize_rows(int type, const float *src, void *dst, int64_t nrows, int64_t n_per_row, const float *imatrix);
bool gg_requires_imatrix(int type);

/* The tables by which the IQ types round eight (four) values to a point of a grid; NULL: no memory. Built on first
 * use, never freed. */
typedef struct gg_grid {
    int size, dims, bits, levels;   /* dims values of `bits` bits each, 0..levels-1, lowest first */
    const uint16_t *points;         /* size packed points */
    /* packed point -> index; or -(offset + 1) of its list below, when it is not on the grid */
    const int32_t *map;
    const uint16_t *lists;          /* count, then that many indices: the points nearest to it */
} gg_grid;
enum {
    GG_GRID_NONE = -1, GG_GRID_IQ2XXS, GG_GRID_IQ2XS, GG_GRID_IQ2S, GG_GRID_IQ3XXS, GG_GRID_IQ3S, GG_GRID_IQ1S, GG_GRID_COUNT
};
const gg_grid *gg_grid_get(int which);

#endif
