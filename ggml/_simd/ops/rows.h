/* Rows of any type and stride as f32 and back: what lets a kernel be written once, for packed f32.
 *
 *   const float *x = gg_row_in(a, i1, i2, i3, i0, n, tmp);     elements i0 .. i0+n of a row; tmp holds n floats
 *   float *y = gg_row_out(dst, i1, i2, i3, i0, tmp2);          where to write; then
 *   gg_row_store(dst, i1, i2, i3, i0, n, y);
 *
 * Packed f32 is used in place (x and y point into the tensor, the store does nothing), all else goes through tmp. These
 * rows are not quantised; gg_map takes operands of any type, and GG_TILE is a multiple of every block. */
#ifndef GG_OPS_ROWS_H
#define GG_OPS_ROWS_H
#include "../vec/vec.h"
#include "row_index.h"

enum { GG_TILE = 1024 };   /* elements to convert at a time: three tiles stay in the first-level cache */

/* ---- n elements of a type that is not quantised, `stride` bytes from one to the next, to f32 and back ------------ */
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

/* These two are not inlined: there are many callers, and a call costs little beside a row. */
static __attribute__((noinline)) void gg_to_floats(int type, const char *p, size_t stride, int64_t n, float *y) {
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

static __attribute__((noinline)) void gg_from_floats(int type, const float *x, int64_t n, char *p, size_t stride) {
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

/* The same of any type: `stride` bytes from one element, or one block, to the next. */
static inline void gg_any_to_floats(const gg_kernels *k, int type, const char *p, size_t stride, int64_t n, float *y) {
    const int64_t blck = gg_types[type].blck;
    if (!gg_types[type].quantized) gg_to_floats(type, p, stride, n, y);
    else if (stride == (size_t)gg_types[type].bytes) k->to_f32[type](p, y, n);
    else for (int64_t i = 0; i < n; i += blck, p += stride) k->to_f32[type](p, y + i, blck);
}
static inline void gg_any_from_floats(const gg_kernels *k, int type, const float *x, int64_t n, char *p,
                                      size_t stride) {
    const int64_t blck = gg_types[type].blck;
    if (!gg_types[type].quantized) gg_from_floats(type, x, n, p, stride);
    else if (stride == (size_t)gg_types[type].bytes) k->from_f32[type](x, p, n);
    else for (int64_t i = 0; i < n; i += blck, p += stride) k->from_f32[type](x + i, p, blck);
}

/* Prefetches 16 KiB ahead in a loop over floats: loads that cross cache lines keep the hardware from doing so. */
enum { PREFETCH_FLOATS = 4096 };
static inline void prefetch_floats(const float *p) { __builtin_prefetch(p + PREFETCH_FLOATS); }

/* ---- rows -------------------------------------------------------------------------------------------------------- */
/* Rows can be read and written in place as f32. */
static inline bool gg_row_direct(const ggml_tensor *t) {
    return t->type == GGML_TYPE_F32 && (t->nb[0] == 4 || t->ne[0] == 1);
}

static inline const float *gg_row_in(const ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3, int64_t i0, int64_t n,
                                     float *tmp) {
    const char *p = gg_element_ptr(t, i1, i2, i3, i0);
    if (gg_row_direct(t)) return (const float *)p;
    gg_to_floats(t->type, p, t->nb[0], n, tmp);
    return tmp;
}
static inline float *gg_row_out(const ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3, int64_t i0, float *tmp) {
    return gg_row_direct(t) ? (float *)gg_element_ptr(t, i1, i2, i3, i0) : tmp;
}
static inline void gg_row_store(const ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3, int64_t i0, int64_t n,
                                const float *y) {
    if (!gg_row_direct(t)) gg_from_floats(t->type, y, n, gg_element_ptr(t, i1, i2, i3, i0), t->nb[0]);
}

/* i modulo n, without a division where possible: one takes as long as a short row. */
static inline int64_t gg_wrap(int64_t i, int64_t n) { return i < n ? i : n == 1 ? 0 : i % n; }
/* gg_row_in of an operand b, of any type, that is repeated over a result: indices are those of the result (a multiple
 * of b in each dimension), whose rows have ne0 elements. A repeated row (b->ne[0] < ne0) cannot be quantised. */
static inline const float *gg_row_repeat(const gg_kernels *kernels, const ggml_tensor *b, int64_t ne0, int64_t i1,
                                         int64_t i2, int64_t i3, int64_t i0, int64_t n, float *tmp) {
    const int64_t k = b->ne[0];
    i1 = gg_wrap(i1, b->ne[1]), i2 = gg_wrap(i2, b->ne[2]), i3 = gg_wrap(i3, b->ne[3]);
    if (k == ne0) {
        const char *p = gg_element_ptr(b, i1, i2, i3, i0);
        if (gg_row_direct(b)) return (const float *)p;
        gg_any_to_floats(kernels, b->type, p, b->nb[0], n, tmp);
        return tmp;
    }
    if (k == 1) {                                        /* n may be less than a vector, tmp has room for whole ones */
        gg_to_floats(b->type, gg_row_ptr(b, i1, i2, i3), b->nb[0], 1, tmp);
        const vf x = vf_set1(*tmp);
        for (int64_t i = 0; i < n; i += VW) vf_store(tmp + i, x);
        return tmp;
    }
    /* one period from i0 on, in two parts, then copies of what is there so far */
    const int64_t at = i0 % k, first = k - at < n ? k - at : n, period = k < n ? k : n;
    gg_to_floats(b->type, gg_element_ptr(b, i1, i2, i3, at), b->nb[0], first, tmp);
    if (first < period) gg_to_floats(b->type, gg_row_ptr(b, i1, i2, i3), b->nb[0], period - first, tmp + first);
    for (int64_t have = period; have < n; have *= 2)
        memcpy(tmp + have, tmp, (size_t)(have < n - have ? have : n - have) * sizeof *tmp);
    return tmp;
}

/* ---- the loop over tiles of element-wise kernels ----------------------------------------------------------------- */
enum { GG_MAP_MAX = 4 };   /* operands of one kernel */

/* Whether dimensions d and d+1 of operand o can be one dimension, beside those of the result r. */
static inline bool gg_fold_ok(const ggml_tensor *o, const ggml_tensor *r, int d) {
    if (o->ne[d] == r->ne[d] && o->ne[d + 1] == r->ne[d + 1]) {
        if (o->ne[d] == 1 || o->ne[d + 1] == 1) return true;
        const int64_t blocks = d ? o->ne[d] : o->ne[0] / gg_types[o->type].blck;
        return o->nb[d + 1] == (size_t)blocks * o->nb[d];
    }
    if (o->ne[d] == 1 && o->ne[d + 1] == 1) return true;
    return d == 0 && o->ne[1] == 1 && r->ne[0] < 256;   /* a short row, repeated: cheaper as one long repeated row */
}
/* Joins dimensions as far as the strides of all operands allow, so that loops run over the longest possible rows:
 * contiguous tensors of one shape become one row. v[0] is the result, over which the others repeat. Changes ne and nb
 * of v, which are copies. */
static inline void gg_fold(ggml_tensor *v, int n) {
    for (int d = 0; d < 3;) {
        bool ok = false;
        for (int k = d + 1; k < 4; k++) ok |= v[0].ne[k] != 1;      /* nothing is left to join otherwise */
        for (int i = 0; i < n && ok; i++) ok = gg_fold_ok(&v[i], &v[0], d);
        if (!ok) { d++; continue; }
        for (int i = n - 1; i >= 0; i--) {
            ggml_tensor *o = &v[i];
            if (o->ne[d] == 1) o->nb[d] = o->nb[d + 1];
            o->ne[d] *= o->ne[d + 1];
            for (int k = d + 1; k < 3; k++) o->ne[k] = o->ne[k + 1], o->nb[k] = o->nb[k + 1];
            o->ne[3] = 1;
        }
    }
}

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

/* Load and store a vector of which k elements are left. */
static inline vf ld(const float *p, int64_t k) { return k >= VW ? vf_load(p) : vf_loadn(p, (int)k); }
static inline vf st(float *p, vf v, int64_t k) {
    if (k >= VW) vf_store(p, v); else vf_storen(p, v, (int)k);
    return v;
}
static inline void gg_put(float *y, vf v, bool stream) { if (stream) vf_stream(y, v); else vf_store(y, v); }

/* Tile functions: a result, EXPR of x; or of x and the second operand z; or of x, y and the third one z. The parameters
 * k are of the type gg_<PARAMS>_params (tables/params.h), or there are none. k points to a copy: the compiler could not
 * know that a store to the result leaves the parameters of the node unchanged, and would load them for each vector. */
typedef struct { char unused; } gg_none_params;
#define GG_TILE_FN(NAME, PARAMS, SOURCES, ONE)                                                       \
    static void tile_##NAME(float *const *p, int64_t n, bool stream, const void *params) {           \
        float *const y = p[0];                                                                       \
        const float *const a = p[1], *const b = p[SOURCES];                                          \
        gg_##PARAMS##_params k;                                                                      \
        int64_t i = 0;                                                                               \
        memcpy(&k, params, sizeof k);                                                                \
        for (; i + 4 * VW <= n; i += 4 * VW) {                                                       \
            for (int j = 0; stream && j < 4 * VW; j += 16) {                                         \
                prefetch_floats(a + i + j);                                                          \
                if (SOURCES > 1) prefetch_floats(b + i + j);                                         \
            }                                                                                        \
            const vf v0 = ONE(NAME, i, VW), v1 = ONE(NAME, i + VW, VW);                              \
            const vf v2 = ONE(NAME, i + 2 * VW, VW), v3 = ONE(NAME, i + 3 * VW, VW);                 \
            gg_put(y + i, v0, stream), gg_put(y + i + VW, v1, stream);                               \
            gg_put(y + i + 2 * VW, v2, stream), gg_put(y + i + 3 * VW, v3, stream);                  \
        }                                                                                            \
        for (; i < n; i += VW) st(y + i, ONE(NAME, i, n - i), n - i);                                \
    }
#define GG_ONE_X(NAME, i, m) one_##NAME(ld(b + (i), m), &k)
#define GG_ONE_XZ(NAME, i, m) one_##NAME(ld(a + (i), m), ld(b + (i), m), &k)
#define GG_ONE_XYZ(NAME, i, m) one_##NAME(ld(a + (i), m), ld(p[2] + (i), m), ld(b + (i), m), &k)
#define GG_TILE_X(NAME, PARAMS, EXPR)                                                                \
    static inline vf one_##NAME(vf x, const gg_##PARAMS##_params *k) { (void)k; return EXPR; }       \
    GG_TILE_FN(NAME, PARAMS, 1, GG_ONE_X)
#define GG_TILE_XZ(NAME, PARAMS, EXPR)                                                               \
    static inline vf one_##NAME(vf x, vf z, const gg_##PARAMS##_params *k) { (void)k; return EXPR; } \
    GG_TILE_FN(NAME, PARAMS, 2, GG_ONE_XZ)
#define GG_TILE_XYZ(NAME, PARAMS, EXPR)                                                              \
    static inline vf one_##NAME(vf x, vf y, vf z, const gg_##PARAMS##_params *k) { return EXPR; }    \
    GG_TILE_FN(NAME, PARAMS, 3, GG_ONE_XYZ)

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

/* Calls fn for all tiles of the operands t[0..n). The first n_out operands are written (and read before, if update);
 * the others are repeated to the shape of t[0]. An output may share its memory with an input of the same layout. */
static inline int gg_map(const gg_work *w, const ggml_tensor *node, ggml_tensor *const *t, int n, int n_out,
                         bool update, gg_tile_fn fn, const void *arg) {
    ggml_tensor v[GG_MAP_MAX];
    _Alignas(64) float tmp[GG_MAP_MAX][GG_TILE];
    float *p[GG_MAP_MAX] = {NULL};
    bool direct = true;
    int64_t u, end;
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
