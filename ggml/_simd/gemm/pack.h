/* Operands of a matrix product and how a piece of one is unpacked into a panel of f32.
 * An operand is a set of vectors x_i[k]; a panel holds up to `width` of them side by side: out[k*width + i]. */
#ifndef GG_GEMM_PACK_H
#define GG_GEMM_PACK_H
#include "tile.h"

enum {
    GEMM_BLOCK_MAX = 256,
    GEMM_GROUP = 256,               /* vectors to unpack at once where neighbours lie side by side in memory */
};

static inline int64_t gemm_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t gemm_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t gemm_max(int64_t a, int64_t b) { return a > b ? a : b; }

typedef struct gemm_src gemm_src;
/* Writes x_{i0+i}[k0+k] to out[k*width + i], i < n, k < kn; lanes from n up to a multiple of VW hold any values. What
 * is over `width` goes on in a next panel, kn*width floats further. k0 is a multiple of GEMM_K. */
typedef void (*gemm_pack_fn)(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width);

struct gemm_src {
    const char *data;
    int32_t type;
    const gg_kernels *kernels;      /* conversions; f32 needs none, and NULL is enough */
    size_t nb_i, nb_k;              /* bytes from x_i to x_{i+1} and from k to k+1 (along blocks: bytes of a block) */
    size_t nb2, nb3;                /* bytes to the next matrix of a batch */
    int64_t share2, share3;         /* that many neighbours of the batch share a matrix (broadcast) */
    gemm_pack_fn pack;
    int32_t group;                  /* panels of a to unpack in one call */
    const void *context;            /* for pack, when it is none of those below */
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

/* Where lane i of a panel begins, or of one of the panels behind it. */
static inline float *pack_lane(float *out, int i, int kn, int width) {
    return out + (int64_t)(i / width) * kn * width + i % width;
}
/* One k of n vectors. */
static inline void pack_spread(const float *x, int n, float *out, int kn, int width) {
    for (int i = 0; i < n; i += VW)
        vf_store(pack_lane(out, i, kn, width), n - i >= VW ? vf_load(x + i) : vf_loadn(x + i, n - i));
}

/* VW rows of kn values to columns. A last incomplete step of four begins earlier and writes some columns again. */
static inline void pack_transpose(const float *const row[VW], int64_t kn, float *out, int width) {
    if (kn < 4) {
        for (int64_t k = 0; k < kn; k++)
            for (int i = 0; i < VW; i++) out[k * width + i] = row[i][k];
        return;
    }
    for (int64_t k = 0; k < kn; k += 4) {
        vf col[4];
        if (k > kn - 4) k = kn - 4;
        micro_columns4(row, k, col);
        for (int j = 0; j < 4; j++) vf_store(out + (k + j) * width, col[j]);
    }
}

/* The values of each vector lie side by side (or block by block). */
static void pack_along_k(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    const gg_to_f32_fn to_f32 = s->type == GGML_TYPE_F32 ? NULL : s->kernels->to_f32[s->type];
    float tmp[VW][GEMM_K] __attribute__((aligned(64)));
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

/* Values of neighbouring vectors lie side by side: the panel is a copy. */
static void pack_along_i(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    float tmp[GEMM_GROUP];
    for (int k = 0; k < kn; k++) {
        const char *p = pack_at(s, i0, k0 + k);
        if (s->type != GGML_TYPE_F32) s->kernels->to_f32[s->type](p, tmp, n);
        pack_spread(s->type == GGML_TYPE_F32 ? (const float *)p : tmp, n, out + k * width, kn, width);
    }
}

/* Blocks lie across the vectors (the transpose of a quantised matrix): unpacks the blocks that the panels touch. */
static void pack_blocks_along_i(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    float tmp[GEMM_GROUP + 2 * GEMM_BLOCK_MAX];
    const int64_t blck = gg_types[s->type].blck, b0 = i0 / blck, b1 = gemm_ceil(i0 + n, blck);
    for (int k = 0; k < kn; k++) {
        s->kernels->to_f32[s->type](pack_at(s, b0, k0 + k), tmp, (b1 - b0) * blck);
        pack_spread(tmp + (i0 - b0 * blck), n, out + k * width, kn, width);
    }
}

static void pack_strided(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    for (int i = 0; i < n; i++) {
        float *lane = pack_lane(out, i, kn, width);
        for (int k = 0; k < kn; k++) lane[k * width] = pack_value(s->type, pack_at(s, i0 + i, k0 + k));
    }
}

/* How to unpack s, by its strides; `across`: its blocks, if it has any, lie across the vectors. */
static inline void gemm_set_pack(gemm_src *s, bool across) {
    const size_t unit = (size_t)gg_types[s->type].bytes;
    if (gg_types[s->type].blck > 1) s->pack = across ? pack_blocks_along_i : pack_along_k;
    else s->pack = s->nb_k == unit ? pack_along_k : s->nb_i == unit ? pack_along_i : pack_strided;
    s->group = s->pack == pack_along_i || s->pack == pack_blocks_along_i ? GEMM_GROUP / MICRO_R : 1;
}
/* The vectors of a tensor, for a batch of the shape of `batch`: dimension `along` (0 or 1) is k, the other is i. */
static inline gemm_src gemm_tensor(const gg_kernels *k, const ggml_tensor *t, int along, const ggml_tensor *batch) {
    gemm_src s = {.data = t->data, .type = t->type, .kernels = k, .nb_k = t->nb[along], .nb_i = t->nb[!along],
                  .nb2 = t->nb[2], .nb3 = t->nb[3], .share2 = batch->ne[2] / t->ne[2], .share3 = batch->ne[3] / t->ne[3]};
    gemm_set_pack(&s, along == 1);
    return s;
}

#endif
