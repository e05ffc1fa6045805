/* Quantises rows with the kernels in use; builds the tables that map groups of elements to points of the IQ grids. */
#include "quantize.h"
#include "../runtime/dispatch.h"
#include "../runtime/pages.h"
#include "tables.h"
#include <stdlib.h>

/* ---- grids ------------------------------------------------------------------------------------------------------- */
#define POINT(u) u,
static const uint16_t iq2xxs[] = {GG_POINTS_IQ2XXS(POINT)}, iq2xs[] = {GG_POINTS_IQ2XS(POINT)};
static const uint16_t iq2s[] = {GG_POINTS_IQ2S(POINT)}, iq1s[] = {GG_POINTS_IQ1S(POINT)};
/* tables.h stores levels of three bits in four bits each. */
#define POINT3(u) ((u) & 7) | ((u) >> 4 & 7) << 3 | ((u) >> 8 & 7) << 6 | ((u) >> 12 & 7) << 9,
static const uint16_t iq3xxs[] = {GG_POINTS_IQ3XXS(POINT3)}, iq3s[] = {GG_POINTS_IQ3S(POINT3)};

/* The neighbours of a point are the grid points at the `rings` smallest distances that occur. */
static const struct { gg_grid grid; int rings; } specs[GG_GRID_COUNT] = {
    [GG_GRID_IQ2XXS] = {{256, 8, 2, 3, iq2xxs, NULL, NULL}, 2},
    [GG_GRID_IQ2XS] = {{512, 8, 2, 3, iq2xs, NULL, NULL}, 2},
    [GG_GRID_IQ2S] = {{1024, 8, 2, 3, iq2s, NULL, NULL}, 1},
    [GG_GRID_IQ3XXS] = {{256, 4, 3, 8, iq3xxs, NULL, NULL}, 2},
    [GG_GRID_IQ3S] = {{512, 4, 3, 8, iq3s, NULL, NULL}, 3},
    [GG_GRID_IQ1S] = {{2048, 8, 2, 3, iq1s, NULL, NULL}, 3},
};
enum { MAX_DISTANCE = 8 * 49 + 1 };

static int distance(const gg_grid *g, int a, int b) {
    int sum = 0;
    for (int k = 0; k < g->dims; k++) {
        const int mask = (1 << g->bits) - 1, diff = (a >> k * g->bits & mask) - (b >> k * g->bits & mask);
        sum += diff * diff;
    }
    return sum;
}
static bool reachable(const gg_grid *g, int point) {
    for (int k = 0; k < g->dims; k++)
        if ((point >> k * g->bits & ((1 << g->bits) - 1)) >= g->levels) return false;
    return true;
}
/* Writes the number of neighbours of a point, then their indices, to `out`; returns how many numbers these are. */
static int neighbours(const gg_grid *g, int point, int rings, uint16_t *dist, uint16_t *out) {
    int seen[MAX_DISTANCE] = {0}, n = 0;
    for (int i = 0; i < g->size; i++) seen[dist[i] = (uint16_t)distance(g, point, g->points[i])]++;
    for (int d = 0; rings; d++) {
        if (!seen[d]) continue;
        rings--;
        for (int i = 0, k = n; k < n + seen[d]; i++) if (dist[i] == d) out[1 + k++] = (uint16_t)i;
        n += seen[d];
    }
    *out = (uint16_t)n;
    return n + 1;
}
static gg_grid *build_grid(int which) {
    gg_grid *g = gg_malloc(sizeof *g);
    const int n = 1 << (specs[which].grid.dims * specs[which].grid.bits);
    int32_t *map = gg_malloc((size_t)n * sizeof *map);
    size_t used = 0, room = 1 << 16;
    uint16_t *lists = gg_malloc(room * sizeof *lists), dist[2048];
    if (!g || !map || !lists) goto fail;
    *g = specs[which].grid;
    memset(map, -1, (size_t)n * sizeof *map);
    for (int i = 0; i < g->size; i++) map[g->points[i]] = i;
    for (int p = 0; p < n; p++) {
        if (map[p] >= 0 || !reachable(g, p)) continue;
        if (used + (size_t)g->size + 1 > room) {
            uint16_t *more = gg_realloc(lists, (room *= 2) * sizeof *lists);
            if (!more) goto fail;
            lists = more;
        }
        map[p] = -(int32_t)used - 1;
        used += (size_t)neighbours(g, p, specs[which].rings, dist, lists + used);
    }
    g->map = map, g->lists = lists;
    return g;
fail:
    free(g), free(map), free(lists);
    return NULL;
}
const gg_grid *gg_grid_get(int which) {
    static _Atomic(gg_grid *) grids[GG_GRID_COUNT];
    gg_grid *g = atomic_load(&grids[which]), *none = NULL;
    if (g || !(g = build_grid(which))) return g;
    if (atomic_compare_exchange_strong(&grids[which], &none, g)) return g;
    free((void *)g->map), free((void *)g->lists), free(g);      /* another thread was faster */
    return none;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
enum { ENCODER_NONE, ENCODER_DIRECT, ENCODER_SEARCH, ENCODER_EITHER, ENCODER_WEIGHTED };
static const struct { int8_t encoder, grid; } types[GG_TYPE_MAX] = {
#define TYPE(id, NAME, name, blck, bytes, kind, activation, encoder, grid) [id] = {ENCODER_##encoder, GG_GRID_##grid},
#include "../tables/types.h"
#undef TYPE
};

bool gg_requires_imatrix(int type) { return types[type].encoder == ENCODER_WEIGHTED; }

bool gg_quantizer_ready(int type) { return types[type].grid == GG_GRID_NONE || gg_grid_get(types[type].grid); }

static _Thread_local bool noted;        /* beyond the range, since the start of this thread's row */
void gg_note_beyond_range(void) { noted = true; }

/* Whether a finite element has become an infinity, whose bits are given. */
static bool has_overflowed(const float *x, const uint16_t *y, int64_t n, int infinity) {
    int16_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const int16_t magnitude = (int16_t)(y[i] & 0x7fff);
        largest = magnitude > largest ? magnitude : largest;
    }
    for (int64_t i = 0; largest >= infinity && i < n; i++)
        if ((y[i] & 0x7fff) >= infinity && x[i] - x[i] == 0) return true;
    return false;
}
/* Whether the row that this thread has just converted is beyond the range of the type. */
static bool beyond_range(int type, const float *x, const void *y, int64_t n) {
    if (type == GGML_TYPE_F16) return has_overflowed(x, y, n, 0x7c00);
    if (type == GGML_TYPE_BF16) return has_overflowed(x, y, n, 0x7f80);
    return noted;
}
bool gg_convert_row(int type, const float *x, void *y, int64_t n) {
    noted = false;
    gg_isa_active()->from_f32[type](x, y, n);
    return !beyond_range(type, x, y, n);
}
size_t gg_quantize_rows(int type, const float *src, void *dst, int64_t nrows, int64_t n_per_row, const float *imatrix,
                        int64_t *beyond) {
    const gg_quantize_fn quantize = gg_isa_active()->quantize[type];
    const gg_from_f32_fn from_f32 = gg_isa_active()->from_f32[type];
    *beyond = nrows;
    if (!(quantize || from_f32) || (gg_requires_imatrix(type) && !imatrix) || !gg_quantizer_ready(type)) return 0;
    const size_t row = gg_row_size(type, n_per_row);
    for (int64_t i = 0; i < nrows; i++, src += n_per_row) {
        void *y = (char *)dst + (size_t)i * row;
        noted = false;
        if (quantize) quantize(src, y, n_per_row, imatrix);
        else from_f32(src, y, n_per_row);
        if (*beyond == nrows && beyond_range(type, src, y, n_per_row)) *beyond = i;
    }
    return (size_t)nrows * row;
}
