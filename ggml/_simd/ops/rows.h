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

/* ---- what all units share ---------------------------------------------------------------------------------------- */
/* Functions that one unit has for all those of an ISA, and of the ISAs with the same base (rows_shared.h). */
#define GG_OF_BASE_(name, base) name##_##base
#define GG_OF_BASE(name, base) GG_OF_BASE_(name, base)
#define gg_to_floats GG_OF_BASE(gg_to_floats, GG_BASE)
#define gg_from_floats GG_OF_BASE(gg_from_floats, GG_BASE)
#define gg_map GG_OF_BASE(gg_map, GG_BASE)

/* n elements of a type that is not quantised, `stride` bytes from one to the next, to f32 and back */
void gg_to_floats(int type, const char *p, size_t stride, int64_t n, float *y);
void gg_from_floats(int type, const float *x, int64_t n, char *p, size_t stride);
/* Calls fn for all tiles of the operands t[0..n). The first n_out operands are written (and read before, if update);
 * the others are repeated to the shape of t[0]. An output may share its memory with an input of the same layout. */
int gg_map(const gg_work *w, const ggml_tensor *node, ggml_tensor *const *t, int n, int n_out, bool update,
           gg_tile_fn fn, const void *arg);

/* Elements of any type: `stride` bytes from one element, or one block, to the next. */
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


#endif
