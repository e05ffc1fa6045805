/* COMPARE, whose results are bytes of 0 and 1, and SELECT. */
#ifndef GG_OPS_COMPARE_H
#define GG_OPS_COMPARE_H
#include "../runtime/relations.h"
#include "elements.h"

static inline vf one_where(vm m) { return vf_select(m, vf_set1(1), vf_zero()); }
static inline vm is_zero(vf x) { return vf_eq(x, vf_zero()); }

/* Compares n floats with others, or with one (b_step is 0), without a result of floats in between. */
typedef void (*compare_fn)(const float *a, const float *b, int b_step, int64_t n, uint8_t *y);
#define BYTES_WHERE(NAME, HOLDS)                                                                     \
    static void bytes_##NAME(const float *a, const float *b, int b_step, int64_t n, uint8_t *y) {    \
        int64_t i = 0;                                                                               \
        for (; i + VW <= n; i += VW) {                                                               \
            const vf x = vf_load(a + i), z = b_step ? vf_load(b + i) : vf_set1(*b);                  \
            vi_store_u8(y + i, vi_select(HOLDS, vi_set1(1), vi_set1(0)));                            \
        }                                                                                            \
        if (i == n) return;                                                                          \
        uint8_t rest[VW];                                                                            \
        const vf x = ld(a + i, n - i), z = b_step ? ld(b + i, n - i) : vf_set1(*b);                  \
        vi_store_u8(rest, vi_select(HOLDS, vi_set1(1), vi_set1(0)));                                 \
        memcpy(y + i, rest, (size_t)(n - i));                                                        \
    }
#define RELATION(NAME, HOLDS)                                                                        \
    GG_TILE_XZ(NAME, none, one_where(HOLDS))                                                         \
    BYTES_WHERE(NAME, HOLDS)

RELATION(COMPARE_EQUAL, vf_eq(x, z))
RELATION(COMPARE_UNEQUAL, vm_not(vf_eq(x, z)))
RELATION(COMPARE_LESS, vf_lt(x, z))
RELATION(COMPARE_LESS_EQUAL, vf_le(x, z))
RELATION(COMPARE_GREATER, vf_gt(x, z))
RELATION(COMPARE_GREATER_EQUAL, vf_ge(x, z))
RELATION(COMPARE_AND, vm_and(vm_not(is_zero(x)), vm_not(is_zero(z))))
RELATION(COMPARE_OR, vm_not(vm_and(is_zero(x), is_zero(z))))

static int op_COMPARE(const gg_work *w, ggml_tensor *dst) {
#define OF(NAME) [GG_##NAME] = {tile_##NAME, bytes_##NAME}
    static const struct { gg_tile_fn tile; compare_fn bytes; } relations[GG_COMPARE_COUNT] = {
        OF(COMPARE_EQUAL), OF(COMPARE_UNEQUAL), OF(COMPARE_LESS), OF(COMPARE_LESS_EQUAL), OF(COMPARE_GREATER),
        OF(COMPARE_GREATER_EQUAL), OF(COMPARE_AND), OF(COMPARE_OR),
    };
#undef OF
    const int relation = compare_params(dst)->relation;
    enum { TILE = 4 * GG_TILE };
    ggml_tensor v[] = {*dst, *dst->src[0], *dst->src[1]};
    gg_fold(v, 3);
    const int64_t ne0 = v->ne[0], tiles = gg_ceil_div(ne0, TILE), grain = gg_max(1, TILE / gg_max(ne0, 1));
    const bool one = v[2].ne[0] == 1, whole = v[1].ne[0] == ne0 && (one || v[2].ne[0] == ne0);
    if (!whole || !gg_row_direct(&v[1]) || !gg_row_direct(&v[2]) || (ne0 > 1 && v->nb[0] != 1))
        return gg_map_sources(w, dst, 2, relations[relation].tile);
    for (int64_t u, end; gg_claim_chunk(w, tiles * gg_nrows(v), grain, &u, &end);) {
        row_index at = nth_row(v, u / tiles);
        for (int64_t i0 = u % tiles * TILE; u < end; u++) {
            const int64_t j1 = gg_wrap(at.i1, v[2].ne[1]), j2 = gg_wrap(at.i2, v[2].ne[2]);
            const float *const a = (const float *)gg_row_ptr(&v[1], at.i1, at.i2, at.i3);
            const float *const b = (const float *)gg_row_ptr(&v[2], j1, j2, gg_wrap(at.i3, v[2].ne[3]));
            relations[relation].bytes(a + i0, one ? b : b + i0, !one, gg_min(ne0 - i0, TILE),
                                      (uint8_t *)gg_row_ptr(v, at.i1, at.i2, at.i3) + i0);
            if ((i0 += TILE) >= ne0) i0 = 0, at = next_row(v, at);
        }
    }
    return GGML_STATUS_SUCCESS;
}

/* x is the condition */
GG_TILE_XYZ(SELECT, none, ((void)k, vf_select(is_zero(x), z, y)))
static int op_SELECT(const gg_work *w, ggml_tensor *dst) { return gg_map_sources(w, dst, 3, tile_SELECT); }

#endif
