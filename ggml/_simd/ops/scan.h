/* CUMSUM: running sums along rows. */
#ifndef GG_OPS_SCAN_H
#define GG_OPS_SCAN_H
#include "rowwise.h"

/* Running sums of a tile in double, on top of `base`, to y (may be NULL); returns the sum of the tile. Adds
 * four elements to the running sum at a time, which shortens the chain of dependent additions. */
static double cumsum_tile(int64_t n, const float *a, double base, bool back, float *y) {
    double sum = 0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float *x = back ? a + n - 4 - i : a + i;
        const double s0 = (double)x[back ? 3 : 0], s1 = s0 + (double)x[back ? 2 : 1];
        const double s2 = s1 + (double)x[back ? 1 : 2], s3 = s2 + (double)x[back ? 0 : 3], on = base + sum;
        sum += s3;
        if (!y) continue;
        float *to = back ? y + n - 4 - i : y + i;
        to[back ? 3 : 0] = (float)(on + s0), to[back ? 2 : 1] = (float)(on + s1);
        to[back ? 1 : 2] = (float)(on + s2), to[back ? 0 : 3] = (float)(on + s3);
    }
    for (; i < n; i++) {
        const int64_t j = back ? n - 1 - i : i;
        sum += (double)a[j];
        if (y) y[j] = (float)(base + sum);
    }
    return sum;
}
static void cumsum_row(const ggml_tensor *t, const row_part *p, const float *a, const float *b, float *y) {
    (void)b;
    const bool back = cumsum_params(t)->from_end;
    const int64_t tiles = row_tiles(p->n), first = p->begin / SUM_TILE, own = row_tiles(p->end - p->begin);
    double base = 0;
    for (int pass = p->shared ? 0 : 1; pass < 2; pass++) {               /* pass 0: the sum of each tile */
        for (int64_t k = 0; k < own; k++) {
            const int64_t tile = back ? first + own - 1 - k : first + k, i = tile * SUM_TILE;
            const int64_t n = p->end - i < SUM_TILE ? p->end - i : SUM_TILE;
            const double sum = cumsum_tile(n, a + i, base, back, pass ? y + i : NULL);
            if (pass) base += sum; else p->shared[tile] = sum;
        }
        if (!p->shared) return;
        gg_barrier(p->w);
        if (!pass && back) for (int64_t k = tiles - 1; k >= first + own; k--) base += p->shared[k];
        if (!pass && !back) for (int64_t k = 0; k < first; k++) base += p->shared[k];
    }
}
GG_WORK_ROWS(CUMSUM)
static int op_CUMSUM(const gg_work *w, ggml_tensor *dst) { return map_rows(w, dst, dst->src[0], NULL, cumsum_row); }

#endif
