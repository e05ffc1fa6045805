/* Operands of a matrix product, and how they are packed into panels of floats. Here an operand is a set of vectors x_i
 * over k: the rows of a or the columns of b. A panel (gemm.h) holds up to `width` vectors: out[k*width + i]. */
#ifndef GG_GEMM_PACK_H
#define GG_GEMM_PACK_H
#include "tile.h"

enum {
    MC = 128,
    GEMM_BLOCK_MAX = 256,           /* the largest block of a type */
    PACK_GROUP = 4,                 /* panels of b that are packed together where a row has elements of several, */
    PACK_AHEAD = 8,                 /* and rows between those that are packed so and those that are prefetched */
};

typedef struct gemm_src gemm_src;
/* Writes x_{i0+i}[k0+k] to out[k*width + i] for i < n and k < kn. Lanes from n up to a multiple of VW get any
 * values. Each further `width` vectors make a panel of their own, kn*width floats behind the last one. k0 is a multiple
 * of KC. kn is KC at most, except for operands of which one call packs several panels. */
typedef void (*gemm_pack_fn)(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width);

struct gemm_src {
    const char *data;
    int32_t type;
    const gg_kernels *kernels;      /* conversions; f32 needs none, and NULL is enough */
    size_t nb_i, nb_k;              /* bytes from x_i to x_{i+1}; from k to k+1, or from block to block */
    size_t nb2, nb3;                /* bytes to the next matrix of a batch */
    int64_t share2, share3;         /* consecutive matrices of the batch that share one (broadcasting) */
    gemm_pack_fn pack;
    size_t (*offset)(const gemm_src *s, int64_t i);     /* bytes from data to x_i; NULL: i * nb_i */
    int32_t panels;                 /* panels of a that one call packs */
    int32_t step;                   /* elements of k of a step of panels of integers */
    bool ahead;                     /* micro-kernels prefetch the rows of the next panel */
    const void *context;            /* for pack functions of operations */
};

static inline bool pack_type_ok(const gg_kernels *k, int type) {
    return type == GGML_TYPE_F32 || ((gg_is_float(type) || gg_types[type].quantized) && k->to_f32[type]);
}
static inline const char *pack_at(const gemm_src *s, int64_t i, int64_t k) {
    return s->data + (size_t)i * s->nb_i + (size_t)k * s->nb_k;
}
static inline float pack_value(int type, const void *p) {
    uint16_t h;
    float f;
    if (type == GGML_TYPE_F32) return memcpy(&f, p, 4), f;
    memcpy(&h, p, 2);
    return type == GGML_TYPE_F16 ? gg_f16_to_f32(h) : gg_bf16_to_f32(h);
}

/* n elements from p on, nb_k bytes apart, as f32: where they are, or in tmp. Not inlined: there are many callers. */
static __attribute__((noinline)) const float *pack_floats(const gemm_src *s, const char *p, int64_t n, float *tmp) {
    if (s->nb_k != (size_t)gg_types[s->type].bytes)
        for (int64_t i = 0; i < n; i++) tmp[i] = pack_value(s->type, p + (size_t)i * s->nb_k);
    else if (s->type == GGML_TYPE_F32) return (const float *)p;
    else s->kernels->to_f32[s->type](p, tmp, n);
    return tmp;
}

/* The address of vector i in its panel. */
static inline float *pack_lane(float *out, int i, int kn, int width) {
    return out + (int64_t)(i / width) * kn * width + i % width;
}
/* Stores one k of n vectors. */
static inline void pack_one_k(const float *x, int n, float *out, int kn, int width) {
    for (float *panel = out; n > 0; panel += (int64_t)kn * width)
        for (int i = 0; i < width && n > 0; i += VW, x += VW, n -= VW)
            vf_store(panel + i, n >= VW ? vf_load(x) : vf_loadn(x, n));
}

/* Transposes VW rows of kn values. The last four columns may overlap with those before, which writes some twice. */
static inline void pack_transpose(const float *const row[VW], int64_t kn, float *out, int width) {
    if (kn < 4) {
        for (int64_t k = 0; k < kn; k++)
            for (int i = 0; i < VW; i++) out[k * width + i] = row[i][k];
        return;
    }
    for (int64_t k = 0; k < kn; k += 4) {
        vf col[4];
        if (k > kn - 4) k = kn - 4;
        vf_transpose4(row, k, col);
        for (int j = 0; j < 4; j++) vf_store(out + (k + j) * width, col[j]);
    }
}

/* The values of a vector are contiguous, or contiguous blocks. */
static void pack_along_k(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    const gg_to_f32_fn to_f32 = s->type == GGML_TYPE_F32 ? NULL : s->kernels->to_f32[s->type];
    float tmp[VW][KC] __attribute__((aligned(64)));
    const int64_t block = k0 / gg_types[s->type].blck;
    for (int g = 0; g < n; g += VW) {
        const float *row[VW];
        for (int i = 0; i < VW; i++) {
            const char *p = pack_at(s, i0 + (g + i < n ? g + i : n - 1), block);
            if (!to_f32) row[i] = (const float *)p;
            else if (g + i < n) to_f32(p, tmp[i], kn), row[i] = tmp[i];
            else row[i] = tmp[0];
        }
        pack_transpose(row, kn, pack_lane(out, g, kn, width), width);
    }
}

/* The values of n neighbouring vectors for one k, which are contiguous, as f32: where they are, or in tmp. The caches
 * do not foresee rows that lie far apart. */
static inline const float *pack_row(const gemm_src *s, int64_t i0, int n, int64_t k, float *tmp) {
    const char *const p = pack_at(s, i0, k), *const ahead = p + PACK_AHEAD * s->nb_k;
    for (size_t i = 0; i < (size_t)n * gg_types[s->type].bytes; i += AHEAD_LINE) __builtin_prefetch(ahead + i);
    if (s->type == GGML_TYPE_F32) return (const float *)p;
    return s->kernels->to_f32[s->type](p, tmp, n), tmp;
}
/* For each k the values of neighbouring vectors are contiguous, as in the panel. */
static void pack_along_i(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    float tmp[MC];
    for (int k = 0; k < kn; k++) pack_one_k(pack_row(s, i0, n, k0 + k, tmp), n, out + k * width, kn, width);
}
/* The same for up to PACK_GROUP panels, of which panel p begins with vector first[p] and the next with first[p + 1], at
 * a time: each would read a part of a line of every row. */
static void pack_group_along_i(const gemm_src *s, const int64_t *first, int panels, int64_t k0, int kn, float *out,
                               int64_t panel, int width) {
    float tmp[PACK_GROUP * NR_MAX];
    const int n = (int)(first[panels] - first[0]);
    for (int k = 0; k < kn; k++) {
        const float *const x = pack_row(s, first[0], n, k0 + k, tmp);
        for (int p = 0; p < panels; p++) {
            const int at = (int)(first[p] - first[0]);
            pack_one_k(x + at, (int)gg_min(n - at, width), out + p * panel + k * width, kn, width);
        }
    }
}

/* Blocks extend across vectors (a transposed quantised matrix): unpacks all blocks that overlap with the panels. */
static void pack_blocks_along_i(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    float tmp[MC + 2 * GEMM_BLOCK_MAX];
    const int64_t blck = gg_types[s->type].blck, b0 = i0 / blck, b1 = gg_ceil_div(i0 + n, blck);
    for (int k = 0; k < kn; k++) {
        s->kernels->to_f32[s->type](pack_at(s, b0, k0 + k), tmp, (b1 - b0) * blck);
        pack_one_k(tmp + (i0 - b0 * blck), n, out + k * width, kn, width);
    }
}

static void pack_strided(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    float tmp[KC];
    for (int i = 0; i < n; i++) {
        float *lane = pack_lane(out, i, kn, width);
        const float *const x = pack_floats(s, pack_at(s, i0 + i, k0), kn, tmp);
        for (int k = 0; k < kn; k++) lane[k * width] = x[k];
    }
}

/* Chooses the pack function by the strides of s. `across`: blocks, if the type has them, extend across vectors. */
static inline void gemm_set_pack(gemm_src *s, bool across) {
    const size_t unit = (size_t)gg_types[s->type].bytes;
    if (gg_types[s->type].blck > 1) s->pack = across ? pack_blocks_along_i : pack_along_k;
    else s->pack = s->nb_k == unit ? pack_along_k : s->nb_i == unit ? pack_along_i : pack_strided;
    s->panels = s->pack == pack_along_i || s->pack == pack_blocks_along_i ? MC / MR : 1;
}
/* A tensor as an operand, broadcast to the batch of `batch`. k is dimension `along` (0 or 1), i the other. */
static inline gemm_src gemm_tensor(const gg_kernels *k, const ggml_tensor *t, int along, const ggml_tensor *batch) {
    gemm_src s = {.data = t->data, .type = t->type, .kernels = k, .nb_k = t->nb[along], .nb_i = t->nb[!along],
                  .nb2 = t->nb[2], .nb3 = t->nb[3],
                  .share2 = batch->ne[2] / t->ne[2], .share3 = batch->ne[3] / t->ne[3]};
    gemm_set_pack(&s, along == 1);
    return s;
}

#endif
