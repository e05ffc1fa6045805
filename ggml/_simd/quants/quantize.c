/* Rows: quantising through the active kernel table, validation; and the neighbour tables of the IQ grids. */
#include "quantize.h"
#include "../runtime/dispatch.h"
#include "blocks.h"
#include "tables.h"
#include <stdlib.h>

bool gg_requires_imatrix(int type) {
    return type == GGML_TYPE_IQ2_XXS || type == GGML_TYPE_IQ2_XS || type == GGML_TYPE_IQ1_S;
}

/* ---- the grids -------------------------------------------------------------------------------------------------- */
#define POINT(u) u,
static const uint16_t iq2xxs[] = {GG_GRID_IQ2XXS(POINT)}, iq2xs[] = {GG_GRID_IQ2XS(POINT)};
static const uint16_t iq2s[] = {GG_GRID_IQ2S(POINT)}, iq1s[] = {GG_GRID_IQ1S(POINT)};
/* The three-bit levels come in nibbles: close the gaps. */
#define POINT3(u) ((u) & 7) | ((u) >> 4 & 7) << 3 | ((u) >> 8 & 7) << 6 | ((u) >> 12 & 7) << 9,
static const uint16_t iq3xxs[] = {GG_GRID_IQ3XXS(POINT3)}, iq3s[] = {GG_GRID_IQ3S(POINT3)};

/* A list holds the points at the `rings` smallest distances that occur. */
static const struct { gg_grid grid; int rings; } specs[GG_N_GRIDS] = {
    [GG_IQ2XXS_GRID] = {{256, 8, 2, 3, iq2xxs, NULL, NULL}, 2},
    [GG_IQ2XS_GRID] = {{512, 8, 2, 3, iq2xs, NULL, NULL}, 2},
    [GG_IQ2S_GRID] = {{1024, 8, 2, 3, iq2s, NULL, NULL}, 1},
    [GG_IQ3XXS_GRID] = {{256, 4, 3, 8, iq3xxs, NULL, NULL}, 2},
    [GG_IQ3S_GRID] = {{512, 4, 3, 8, iq3s, NULL, NULL}, 3},
    [GG_IQ1S_GRID] = {{2048, 8, 2, 3, iq1s, NULL, NULL}, 3},
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
/* Appends the list of a point at `out` (unless NULL) and returns its length, the count included. */
static int neighbours(const gg_grid *g, int point, int rings, uint16_t *dist, uint16_t *out) {
    int seen[MAX_DISTANCE] = {0}, n = 0;
    for (int i = 0; i < g->size; i++) seen[dist[i] = (uint16_t)distance(g, point, g->points[i])]++;
    for (int d = 0; rings; d++) {
        if (!seen[d]) continue;
        rings--;
        if (out)
            for (int i = 0, k = n; k < n + seen[d]; i++) if (dist[i] == d) out[1 + k++] = (uint16_t)i;
        n += seen[d];
    }
    if (out) *out = (uint16_t)n;
    return n + 1;
}
static gg_grid *build_grid(int which) {
    gg_grid *g = malloc(sizeof *g);
    const int n = 1 << (specs[which].grid.dims * specs[which].grid.bits);
    int32_t *map = malloc((size_t)n * sizeof *map);
    size_t used = 0, room = 1 << 16;
    uint16_t *lists = malloc(room * sizeof *lists), dist[2048];
    if (!g || !map || !lists) goto fail;
    *g = specs[which].grid;
    memset(map, -1, (size_t)n * sizeof *map);
    for (int i = 0; i < g->size; i++) map[g->points[i]] = i;
    for (int p = 0; p < n; p++) {
        if (map[p] >= 0 || !reachable(g, p)) continue;
        if (used + (size_t)g->size + 1 > room) {
            uint16_t *more = realloc(lists, (room *= 2) * sizeof *lists);
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
    static _Atomic(gg_grid *) grids[GG_N_GRIDS];
    gg_grid *g = atomic_load(&grids[which]), *none = NULL;
    if (g || !(g = build_grid(which))) return g;
    if (atomic_compare_exchange_strong(&grids[which], &none, g)) return g;
    free((void *)g->map), free((void *)g->lists), free(g);      /* another thread was first */
    return none;
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */
static bool grid_ready(int type) {
    switch (type) {
    case GGML_TYPE_IQ2_XXS: return gg_grid_get(GG_IQ2XXS_GRID);
    case GGML_TYPE_IQ2_XS: return gg_grid_get(GG_IQ2XS_GRID);
    case GGML_TYPE_IQ2_S: return gg_grid_get(GG_IQ2S_GRID);
    case GGML_TYPE_IQ3_XXS: return gg_grid_get(GG_IQ3XXS_GRID);
    case GGML_TYPE_IQ3_S: return gg_grid_get(GG_IQ3S_GRID);
    case GGML_TYPE_IQ1_S: case GGML_TYPE_IQ1_M: return gg_grid_get(GG_IQ1S_GRID);
    default: return true;
    }
}
size_t gg_quantize_rows(int type, const float *src, void *dst, int64_t nrows, int64_t n_per_row, const float *imatrix) {
    const gg_quantize_fn quantize = gg_isa_active()->quantize[type];
    const gg_from_f32_fn from_f32 = gg_isa_active()->from_f32[type];
    if (!(quantize || from_f32) || (gg_requires_imatrix(type) && !imatrix) || !grid_ready(type)) return 0;
    const size_t row = gg_row_size(type, n_per_row);
    for (int64_t i = 0; i < nrows; i++, src += n_per_row) {
        void *y = (char *)dst + (size_t)i * row;
        if (quantize) quantize(src, y, n_per_row, imatrix);
        else from_f32(src, y, n_per_row);
    }
    return (size_t)nrows * row;
}

/* ---- validation ------------------------------------------------------------------------------------------------- */
static bool finite_half(const void *p) { uint16_t h; memcpy(&h, p, 2); return (h & 0x7c00) != 0x7c00; }
static bool finite_float(const void *p) { uint32_t u; memcpy(&u, p, 4); return (u & 0x7f800000) != 0x7f800000; }
static bool finite_double(const void *p) {
    uint64_t u;
    memcpy(&u, p, 8);
    return (u & 0x7ff0000000000000) != 0x7ff0000000000000;
}
static bool finite_bfloat(const void *p) { uint16_t h; memcpy(&h, p, 2); return (h & 0x7f80) != 0x7f80; }
static bool e8m0_number(const void *p) { return *(const uint8_t *)p != 255; }
/* the top nibbles of four 16-bit numbers are the half; its exponent is in the last two */
static bool finite_iq1_m(const void *p) {
    const uint8_t *s = p;
    return ((s[7] & 0x70) | (s[5] >> 4 & 12)) != 0x7c;
}

/* What to look at in a block: `count` items of `step` bytes at `at`. */
typedef struct { bool (*ok)(const void *); size_t at; int count; size_t step; } check;
#define HALVES(block, member, n) {finite_half, offsetof(block, member), n, 2}
static const check checks[GGML_TYPE_COUNT] = {
    [GGML_TYPE_F32] = {finite_float, 0, 1, 4}, [GGML_TYPE_F64] = {finite_double, 0, 1, 8},
    [GGML_TYPE_F16] = {finite_half, 0, 1, 2}, [GGML_TYPE_BF16] = {finite_bfloat, 0, 1, 2},
    [GGML_TYPE_Q4_0] = HALVES(block_q4_0, d, 1),       [GGML_TYPE_Q4_1] = HALVES(block_q4_1, d, 2),
    [GGML_TYPE_Q5_0] = HALVES(block_q5_0, d, 1),       [GGML_TYPE_Q5_1] = HALVES(block_q5_1, d, 2),
    [GGML_TYPE_Q8_0] = HALVES(block_q8_0, d, 1),       [GGML_TYPE_Q8_1] = HALVES(block_q8_1, d, 2),
    [GGML_TYPE_Q2_K] = HALVES(block_q2_K, d, 2),       [GGML_TYPE_Q3_K] = HALVES(block_q3_K, d, 1),
    [GGML_TYPE_Q4_K] = HALVES(block_q4_K, d, 2),       [GGML_TYPE_Q5_K] = HALVES(block_q5_K, d, 2),
    [GGML_TYPE_Q6_K] = HALVES(block_q6_K, d, 1),       [GGML_TYPE_Q8_K] = {finite_float, offsetof(block_q8_K, d), 1, 4},
    [GGML_TYPE_IQ2_XXS] = HALVES(block_iq2_xxs, d, 1), [GGML_TYPE_IQ2_XS] = HALVES(block_iq2_xs, d, 1),
    [GGML_TYPE_IQ2_S] = HALVES(block_iq2_s, d, 1),     [GGML_TYPE_IQ3_XXS] = HALVES(block_iq3_xxs, d, 1),
    [GGML_TYPE_IQ3_S] = HALVES(block_iq3_s, d, 1),     [GGML_TYPE_IQ1_S] = HALVES(block_iq1_s, d, 1),
    [GGML_TYPE_IQ1_M] = {finite_iq1_m, offsetof(block_iq1_m, scales), 1, 8},
    [GGML_TYPE_IQ4_NL] = HALVES(block_iq4_nl, d, 1),   [GGML_TYPE_IQ4_XS] = HALVES(block_iq4_xs, d, 1),
    [GGML_TYPE_TQ1_0] = HALVES(block_tq1_0, d, 1),     [GGML_TYPE_TQ2_0] = HALVES(block_tq2_0, d, 1),
    [GGML_TYPE_Q1_0] = HALVES(block_q1_0, d, 1),
    [GGML_TYPE_MXFP4] = {e8m0_number, offsetof(block_mxfp4, e), 1, 1},
};
bool gg_validate_rows(int type, const void *data, size_t nbytes) {
    if (!gg_type_ok(type) || nbytes % (size_t)gg_types[type].bytes) return false;
    const check c = checks[type];
    if (!c.ok) return true;                                     /* integers; NVFP4: all its scales are numbers */
    for (size_t at = c.at; at < nbytes; at += (size_t)gg_types[type].bytes)
        for (int i = 0; i < c.count; i++)
            if (!c.ok((const char *)data + at + (size_t)i * c.step)) return false;
    return true;
}
