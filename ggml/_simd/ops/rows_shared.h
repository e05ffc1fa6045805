/* The functions of rows.h that all units of an ISA share, and those of ISAs with the same base: only elementwise.h
 * includes them. There are many callers, and a call costs little beside a row. */
#ifndef GG_OPS_ROWS_SHARED_H
#define GG_OPS_ROWS_SHARED_H
#include "rows.h"

/* ---- conversions ------------------------------------------------------------------------------------------------- */
/* As a C cast where that is defined; otherwise the nearest bound, and 0 for NaN. */
static inline int64_t gg_f32_to_int(float v, float lo, float hi, int64_t min, int64_t max) {
    return v != v ? 0 : v <= lo ? min : v >= hi ? max : (int64_t)v;
}
/* Contiguous elements of 16 bits: whole vectors (FULL), then the last m elements (TAIL). */
#define GG_PACKED(TYPE, FULL, TAIL)                                                                 \
    if (type == GGML_TYPE_##TYPE && stride == sizeof(uint16_t)) {                                   \
        uint16_t *h = (uint16_t *)p;                                                                \
        int64_t i = 0;                                                                              \
        _Pragma("GCC unroll 4")                                                                     \
        for (; i + VW <= n; i += VW) FULL;                                                          \
        const int m = (int)(n - i);                                                                 \
        TAIL;                                                                                       \
        return;                                                                                     \
    }
#define GG_EACH(T, EXPR)                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                               \
        T e;                                                                                        \
        memcpy(&e, p + (size_t)i * stride, sizeof e);                                               \
        y[i] = EXPR;                                                                                \
    }                                                                                               \
    break

void gg_to_floats(int type, const char *p, size_t stride, int64_t n, float *y) {
    GG_PACKED(F16, vf_store(y + i, vf_load_f16(h + i)), vf_storen(y + i, vf_load_f16n(h + i, m), m))
    GG_PACKED(BF16, vf_store(y + i, vf_load_bf16(h + i)), vf_storen(y + i, vf_load_bf16n(h + i, m), m))
    if (type == GGML_TYPE_I8 && stride == 1) for (; n >= VW; n -= VW, p += VW, y += VW)     /* the last ones below */
        vf_store(y, vf_load_i8((const int8_t *)p));
    switch (type) {
        case GGML_TYPE_F32: GG_EACH(float, e);
        case GGML_TYPE_F16: GG_EACH(uint16_t, gg_f16_to_f32(e));
        case GGML_TYPE_BF16: GG_EACH(uint16_t, gg_bf16_to_f32(e));
        case GGML_TYPE_F64: GG_EACH(double, (float)e);
        case GGML_TYPE_I8: GG_EACH(int8_t, (float)e);
        case GGML_TYPE_I16: GG_EACH(int16_t, (float)e);
        case GGML_TYPE_I32: GG_EACH(int32_t, (float)e);
        case GGML_TYPE_I64: GG_EACH(int64_t, (float)e);
        default: break;
    }
}
#undef GG_EACH
#define GG_EACH(T, EXPR)                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                               \
        const float v = x[i];                                                                       \
        const T e = (T)(EXPR);                                                                      \
        memcpy(p + (size_t)i * stride, &e, sizeof e);                                               \
    }                                                                                               \
    break

void gg_from_floats(int type, const float *x, int64_t n, char *p, size_t stride) {
    GG_PACKED(F16, vf_store_f16(h + i, vf_load(x + i)), vf_store_f16n(h + i, vf_loadn(x + i, m), m))
    GG_PACKED(BF16, vf_store_bf16(h + i, vf_load(x + i)), vf_store_bf16n(h + i, vf_loadn(x + i, m), m))
    if (type == GGML_TYPE_I8 && stride == 1) for (; n >= VW; n -= VW, p += VW, x += VW) {
        const vf v = vf_load(x), limited = vf_max(vf_set1(INT8_MIN), vf_min(vf_set1(INT8_MAX), v));
        vi_store_u8((uint8_t *)p, vf_whole(vf_select(vf_isnan(v), vf_zero(), limited)));
    }
    switch (type) {
        case GGML_TYPE_F32: GG_EACH(float, v);
        case GGML_TYPE_F16: GG_EACH(uint16_t, gg_f32_to_f16(v));
        case GGML_TYPE_BF16: GG_EACH(uint16_t, gg_f32_to_bf16(v));
        case GGML_TYPE_F64: GG_EACH(double, v);
        case GGML_TYPE_I8: GG_EACH(int8_t, gg_f32_to_int(v, -0x1p7f, 0x1p7f, INT8_MIN, INT8_MAX));
        case GGML_TYPE_I16: GG_EACH(int16_t, gg_f32_to_int(v, -0x1p15f, 0x1p15f, INT16_MIN, INT16_MAX));
        case GGML_TYPE_I32: GG_EACH(int32_t, gg_f32_to_int(v, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX));
        case GGML_TYPE_I64: GG_EACH(int64_t, gg_f32_to_int(v, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX));
        default: break;
    }
}
#undef GG_EACH
#undef GG_PACKED

/* ---- the loop over tiles of element-wise kernels ----------------------------------------------------------------- */
/* Fast path: contiguous operands of equal shape are treated as one row each. */
static inline bool gg_flat(ggml_tensor *v, ggml_tensor *const *t, int n) {
    for (int i = 0; i < n; i++)
        if (!gg_contiguous(t[i]) || (i && memcmp(t[i]->ne, t[0]->ne, sizeof t[i]->ne))) return false;
    for (int i = 0; i < n; i++) {
        v[i].type = t[i]->type, v[i].data = t[i]->data;
        for (int d = 0; d < 4; d++) v[i].ne[d] = 1, v[i].nb[d] = (size_t)gg_types[v[i].type].bytes;
        v[i].ne[0] = gg_nelements(t[i]);
    }
    return true;
}

/* A store reads its cache line before it writes, unless it goes past the caches. That pays if a node touches more
 * memory than the last-level cache holds and overwrites nothing that it has read. *shift: the elements by which all
 * rows miss the boundary of a vector. */
#define GG_STREAM_FROM ((size_t)32 << 20)
static inline bool gg_streams(const ggml_tensor *v, int n, int64_t *shift) {
    const size_t width = VW * sizeof(float), at = (uintptr_t)v->data % width;
    if (!GG_VEC_STREAMS || (size_t)gg_nelements(v) * sizeof(float) * (size_t)n <= GG_STREAM_FROM) return false;
    for (int i = 1; i < n; i++)
        if (v[i].data == v->data) return false;
    for (int d = 1; d < 4; d++)
        if (v->ne[d] > 1 && v->nb[d] % width) return false;
    *shift = (int64_t)(at / sizeof(float));
    return at % sizeof(float) == 0;
}

/* The number of elements if all operands are f32, contiguous, of one shape and no larger than a tile; otherwise 0. */
static inline int64_t gg_single_tile(ggml_tensor *const *t, int n) {
    for (int i = 0; i < n; i++)
        if (t[i]->type != GGML_TYPE_F32 || memcmp(t[i]->ne, t[0]->ne, sizeof t[0]->ne)
            || memcmp(t[i]->nb, t[0]->nb, sizeof t[0]->nb)) return 0;
    const int64_t count = gg_nelements(t[0]);
    return count <= 4 * GG_TILE && gg_contiguous(t[0]) ? count : 0;
}

/* Whether the rows of v lie beside each other. */
static inline bool gg_adjacent_rows(const ggml_tensor *v) { return v->nb[1] == (size_t)v->ne[0] * sizeof(float); }
/* Whether rows are short and lie beside each other, except those of operands that have one element for each row, or
 * rows of less than a vector. */
static inline bool gg_short_rows(const ggml_tensor *v, int n) {
    bool others = false;
    for (int i = 0; i < n; i++) {
        const bool column = i > 0 && v[i].ne[0] == 1, apart = !column && !gg_adjacent_rows(&v[i]);
        if (v[i].type != GGML_TYPE_F32) return false;
        if (!column && (v[i].nb[0] != sizeof(float) || v[i].ne[0] != v->ne[0])) return false;
        if (apart && (i == 0 || v->ne[0] >= VW)) return false;
        if (v[i].ne[1] != v->ne[1] && !(column && v[i].ne[1] == 1)) return false;
        others |= column || apart;
    }
    return others && v->ne[0] > 1 && v->ne[0] <= GG_TILE / 4 && v->ne[1] > 1;
}
/* Each of n elements, nb bytes apart, `times` times; may write a vector beyond the end. */
static inline void gg_each_repeated(const char *p, size_t nb, int64_t n, int64_t times, float *y) {
    for (int64_t i = 0; i < n; i++, p += nb, y += times) {
        const vf x = vf_set1(*(const float *)p);
        for (int64_t k = 0; k < times; k += VW) vf_store(y + k, x);
    }
}
/* The tiles of short rows are several rows. */
static inline void gg_map_short_rows(const gg_work *w, const ggml_tensor *v, int n, float (*tmp)[GG_TILE],
                                     gg_tile_fn fn, const void *arg) {
    const int64_t ne0 = v->ne[0], ne1 = v->ne[1], ne2 = v->ne[2], rows = (GG_TILE - VW) / ne0;
    const int64_t groups = (ne1 + rows - 1) / rows;
    float *p[GG_MAP_MAX];
    for (int64_t u, end; gg_claim_chunk(w, groups * ne2 * v->ne[3], 4, &u, &end);)
        for (; u < end; u++) {
            const int64_t i1 = u % groups * rows, i2 = u / groups % ne2, i3 = u / groups / ne2;
            const int64_t m = ne1 - i1 < rows ? ne1 - i1 : rows;
            for (int i = 0; i < n; i++) {
                const int64_t j1 = gg_wrap(i1, v[i].ne[1]), j2 = gg_wrap(i2, v[i].ne[2]), j3 = gg_wrap(i3, v[i].ne[3]);
                p[i] = (float *)gg_row_ptr(&v[i], j1, j2, j3);
                const char *const from = (const char *)p[i];
                if (v[i].ne[0] < ne0) gg_each_repeated(from, v[i].ne[1] > 1 ? v[i].nb[1] : 0, m, ne0, tmp[i]);
                else if (gg_adjacent_rows(&v[i])) continue;
                else for (int64_t r = 0; r < m; r++)
                    vf_store(tmp[i] + r * ne0, vf_loadn((const float *)(from + (size_t)r * v[i].nb[1]), (int)ne0));
                p[i] = tmp[i];
            }
            fn(p, m * ne0, false, arg);
        }
}

int gg_map(const gg_work *w, const ggml_tensor *node, ggml_tensor *const *t, int n, int n_out, bool update,
           gg_tile_fn fn, const void *arg) {
    ggml_tensor v[GG_MAP_MAX];
    _Alignas(64) float tmp[GG_MAP_MAX][GG_TILE];
    float *p[GG_MAP_MAX] = {NULL};
    bool direct = true;
    int64_t u, end;
    if (n < 1) return GGML_STATUS_SUCCESS;
    const int64_t single = gg_single_tile(t, n);         /* the fast path of small nodes */
    if (single) {
        for (int i = 0; i < n; i++) p[i] = t[i]->data;
        if (gg_claim_chunk(w, 1, 1, &u, &end)) fn(p, single, false, arg);
        return GGML_STATUS_SUCCESS;
    }
    for (int i = 0; i < n; i++) {
        const int type = t[i]->type;
        const bool known = i < n_out ? w->kernels->from_f32[type] != NULL : w->kernels->to_f32[type] != NULL;
        if (gg_types[type].quantized && !known) return gg_fail(node, "no conversion of %s", gg_types[type].name);
    }
    if (!gg_flat(v, t, n)) {
        for (int i = 0; i < n; i++) v[i] = *t[i];
        gg_fold(v, n);
    }
    if (n_out == 1 && !update && gg_short_rows(v, n)) {
        gg_map_short_rows(w, v, n, tmp, fn, arg);
        return GGML_STATUS_SUCCESS;
    }
    for (int i = 0; i < n; i++) direct &= gg_row_direct(&v[i]) && v[i].ne[0] == v[0].ne[0];
    int64_t shift = 0;
    const bool stream = direct && n_out == 1 && !update && gg_streams(v, n, &shift);
    const int64_t ne0 = v[0].ne[0], ne1 = v[0].ne[1], ne2 = v[0].ne[2], tile = direct ? 4 * GG_TILE : GG_TILE;
    const int64_t tiles = (ne0 + shift + tile - 1) / tile;
    const int64_t grain = ne0 > 0 ? 4 * GG_TILE / (ne0 < tile ? ne0 : tile) : 1;
    bool stepped = direct && tiles == 1;                 /* the next row is a step from the one before */
    size_t step[GG_MAP_MAX];
    for (int i = 0; i < n; i++) {
        stepped &= v[i].ne[1] == ne1 || v[i].ne[1] == 1;
        step[i] = v[i].ne[1] == 1 ? 0 : v[i].nb[1];
    }
    bool ready[GG_MAP_MAX] = {false};                    /* a single element, repeated once for all tiles */
    for (int i = n_out; i < n && ne0 > 1; i++)
        if ((ready[i] = gg_nelements(&v[i]) == 1))
            p[i] = (float *)gg_row_repeat(w->kernels, &v[i], ne0, 0, 0, 0, 0, ne0 < tile ? ne0 : tile, tmp[i]);
    while (gg_claim_chunk(w, tiles * gg_nrows(&v[0]), grain, &u, &end)) {
        int64_t at = -shift, i1 = 0, i2 = 0, i3 = 0;
        if (u > 0) {
            const int64_t row = u / tiles;
            at += u % tiles * tile, i1 = row % ne1, i2 = row / ne1 % ne2, i3 = row / ne1 / ne2;
        }
        bool follows = false, within = false;            /* p points at the row before this one, or into this one */
        for (; u < end; u++) {
            const int64_t i0 = at > 0 ? at : 0, m = (at + tile < ne0 ? at + tile : ne0) - i0;
            if (follows && stepped) for (int i = 0; i < n; i++) p[i] = (float *)((char *)p[i] + step[i]);
            else for (int i = 0; i < n; i++) {
                if (ready[i] || (within && i >= n_out && v[i].ne[0] < gg_min(ne0, 2))) continue;
                if (i >= n_out) p[i] = (float *)gg_row_repeat(w->kernels, &v[i], ne0, i1, i2, i3, i0, m, tmp[i]);
                else if (update) p[i] = (float *)gg_row_in(&v[i], i1, i2, i3, i0, m, tmp[i]);
                else p[i] = gg_row_out(&v[i], i1, i2, i3, i0, tmp[i]);
            }
            fn(p, m, stream && at >= 0, arg);
            for (int i = 0; i < n_out && !direct; i++)
                if (!gg_row_direct(&v[i]))
                    gg_any_from_floats(w->kernels, v[i].type, p[i], m, gg_element_ptr(&v[i], i1, i2, i3, i0),
                                       v[i].nb[0]);
            if ((within = (at += tile) < ne0)) continue;
            at = -shift;
            if ((follows = ++i1 < ne1)) continue;
            i1 = 0;
            if (++i2 == ne2) i2 = 0, i3++;
        }
    }
    if (stream) vf_stream_end();
    return GGML_STATUS_SUCCESS;
}

#endif
