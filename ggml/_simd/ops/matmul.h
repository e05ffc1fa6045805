/* Matrix products: MUL_MAT, OUT_PROD and MUL_MAT_ID (matmul_id.h). They describe their operands; gemm/ computes. */
#ifndef GG_OPS_MATMUL_H
#define GG_OPS_MATMUL_H
#include "../gemm/in_place.h"
#include "../gemm/int8_few.h"
#include "matmul_bytes.h"
#include "matmul_id.h"

enum { MATMUL_PREC_F32 = 10 };     /* GGML_PREC_F32 */

/* Merges neighbours of the batch that share a into one wider product, if b and c continue at an even stride: a batch
 * through one layer, or the query heads of a token that share keys. */
static inline void matmul_merge(gemm *g) {
    gemm_src *a = &g->a, *b = &g->b;
    if (g->n == 1 && a->share2 > 1) b->nb_i = b->nb2, g->c_n = g->c_2;
    if (b->nb2 == (size_t)g->n * b->nb_i && g->c_2 == (size_t)g->n * g->c_n) {
        g->n *= a->share2, g->ne2 /= a->share2;
        b->nb2 *= (size_t)a->share2, g->c_2 *= (size_t)a->share2, a->share2 = 1;
    }
    if (g->ne2 == 1 && b->nb3 == (size_t)g->n * b->nb_i && g->c_3 == (size_t)g->n * g->c_n) {
        g->n *= a->share3, g->ne3 /= a->share3;
        b->nb3 *= (size_t)a->share3, g->c_3 *= (size_t)a->share3, a->share3 = 1;
    }
    gemm_set_pack(b, false);
}

/* Adds the bias of a product to its sums: an element for each row of c, or for each column if the operands are
 * swapped. */
static void matmul_bias_rows(const gemm *g, int64_t i, int64_t m, int64_t j, int64_t n, float *tile, int64_t ldc) {
    (void)j;
    for (const float *const end = tile + n * ldc; tile < end; tile += ldc)
        for (int64_t r = 0; r < m; r += VW) {
            const int left = (int)gg_min(m - r, VW);
            const float *const bias = g->bias + i + r;
            if (left == VW) vf_store(tile + r, vf_add(vf_load(tile + r), vf_load(bias)));
            else vf_storen(tile + r, vf_add(vf_loadn(tile + r, left), vf_loadn(bias, left)), left);
        }
}
static void matmul_bias_columns(const gemm *g, int64_t i, int64_t m, int64_t j, int64_t n, float *tile, int64_t ldc) {
    (void)i;
    for (int64_t q = 0; q < n; q++)
        for (int64_t r = 0; r < m; r++) tile[q * ldc + r] += g->bias[j + q];
}

/* dst = a * b with k along dimension `along` of both, plus a bias if fuse.c gave the product one. The operands are
 * swapped if few rows would leave most lanes of a vector empty, or if b is the matrix and a the few vectors. */
static inline gemm matmul_problem(const gg_kernels *kernels, const ggml_tensor *dst, int along) {
    const ggml_tensor *a = dst->src[0], *b = dst->src[1];
    gemm g = {.m = dst->ne[0], .n = dst->ne[1], .k = b->ne[along], .ne2 = dst->ne[2], .ne3 = dst->ne[3],
              .a = gemm_tensor(kernels, a, along, dst), .b = gemm_tensor(kernels, b, along, dst),
              .exact = dst->op == GGML_OP_MUL_MAT && mul_mat_params(dst)->prec == MATMUL_PREC_F32,
              .bias = dst->op == GGML_OP_MUL_MAT && dst->src[2] ? dst->src[2]->data : NULL,
              .c = dst->data, .c_m = dst->nb[0], .c_n = dst->nb[1], .c_2 = dst->nb[2], .c_3 = dst->nb[3]};
    matmul_merge(&g);
    gemm t = gemm_swapped(&g);
    if (g.bias) g.finish = matmul_bias_rows, t.finish = matmul_bias_columns;
    if (few_fits(&g) || gemv_fits(&g) || in_place_fits(&g)) return g;
    if (gemv_fits(&t)) return t;
    const int64_t cost = gg_ceil_div(g.m, VW) * g.n, swapped = gg_ceil_div(t.m, VW) * t.n;
    return 8 * cost > 9 * swapped ? t : g;
}

static bool matmul_in_place(const ggml_tensor *dst) {
    const gemm g = matmul_problem(NULL, dst, dst->op == GGML_OP_OUT_PROD);
    return in_place_fits(&g);
}
/* Whether the threads pack b together: several of them need it, and it is large enough to be worth a barrier. Never
 * true where matmul_problem swaps the operands, few_fits, gemv_fits or in_place_fits. */
enum {
    SHARED_LEAST = 1 << 16,         /* least elements of b, */
    SHARED_MOST = 32 << 20,         /* most bytes of its panels, */
    SHARED_ROOM = 9 << 20,          /* and of those that are there at a time; more, if a panel of any format has more */
    SHARED_DEPTH = 1024,            /* elements of k than fit */
};
static int64_t matmul_shared_bytes(const ggml_tensor *dst) {
    const int64_t n = dst->ne[1], k = dst->src[1]->ne[dst->op == GGML_OP_OUT_PROD];
    return gg_min(gemm_shared_bytes(n, k), gg_max(gemm_shared_bytes(n, gg_min(k, SHARED_DEPTH)), SHARED_ROOM));
}
static bool matmul_shares(const ggml_tensor *dst, int nth) {
    const ggml_tensor *b = dst->src[1];
    const int64_t m = dst->ne[0], n = dst->ne[1], k = b->ne[dst->op == GGML_OP_OUT_PROD];
    return nth > 1 && dst->ne[2] * dst->ne[3] == 1 && !bytes_fits(dst) && n > GEMV_MAX_N
        && m >= 2 * nth * MR && 8 * gg_ceil_div(m, VW) * n <= 9 * gg_ceil_div(n, VW) * m
        && n * k >= SHARED_LEAST && matmul_shared_bytes(dst) <= SHARED_MOST && !matmul_in_place(dst);
}
static size_t matmul_work(const ggml_tensor *dst, int nth) {
    if (bytes_fits(dst)) return bytes_work_size(dst, nth);
    return matmul_shares(dst, nth) ? (size_t)matmul_shared_bytes(dst) : 0;
}
static size_t work_MUL_MAT(const ggml_tensor *dst, int nth) { return matmul_work(dst, nth); }
static size_t work_OUT_PROD(const ggml_tensor *dst, int nth) { return matmul_work(dst, nth); }

static int matmul_run(const gg_work *w, ggml_tensor *dst, int along) {
    if (gg_is_empty(dst)) return GGML_STATUS_SUCCESS;
    const int a = dst->src[0]->type, b = dst->src[1]->type;
    if (!pack_type_ok(w->kernels, a) || !gg_is_float(b))
        return gg_fail(dst, "no product of %s and %s", gg_types[a].name, gg_types[b].name);
    gemm g = matmul_problem(w->kernels, dst, along);
    const bool few = few_fits(&g), vectors = gemv_fits(&g), in_place = in_place_fits(&g);
    if (!few && !vectors && !in_place && !g.exact) gemm_use_ints(&g);
    gemm_shared *const shared = matmul_shares(dst, w->nth) ? w->wdata : NULL;
    const bool ok = few ? few_run(w, &g) : in_place ? in_place_run(w, &g) : vectors ? gemv_run(w, &g)
                  : gemm_run(w, &g, shared);
    return ok ? GGML_STATUS_SUCCESS : gg_no_memory(dst, "no memory for panels");
}

/* The pieces of a matrix whose rows are contiguous and multiplied by a few vectors. Small ones are not looked at: a
 * plan of many of them would take longer to make. */
static gg_pieces matmul_pieces(const gg_kernels *kernels, const ggml_tensor *dst, int nth) {
    const ggml_tensor *const a = dst->src[0];
    const gg_pieces none = {0, 0};
    if (bytes_fits(dst) || (size_t)a->ne[1] * a->nb[1] < GG_PREFETCH_FAR || dst->ne[1] > GEMV_MAX_N
        || dst->ne[2] * dst->ne[3] != 1 || gg_is_empty(dst) || !pack_type_ok(kernels, a->type)
        || !gg_is_float(dst->src[1]->type)) return none;
    const gemm g = matmul_problem(kernels, dst, 0);
    const bool few = few_fits(&g);
    if (g.a.data != a->data || g.a.pack != pack_along_k || !(few || gemv_fits(&g))) return none;
    const int64_t rows = gemv_piece(nth, &g, few ? FEW_ROWS : GG_DOT_ROWS);
    return (gg_pieces){gg_ceil_div(g.m, rows), (size_t)rows * g.a.nb_i};
}

/* Outer products of a few vectors: the time is that of writing the result, so it is written column by column. */
enum { OUTER_K = 4 };
static bool outer_fits(const ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *b = dst->src[1];
    return b->ne[1] >= 1 && b->ne[1] <= OUTER_K && a->type == GGML_TYPE_F32 && b->type == GGML_TYPE_F32
        && a->nb[0] == sizeof(float) && dst->nb[0] == sizeof(float);
}
static void outer_column(const int k, int64_t m, const float *const *a, const float *b, float *y) {
    for (int64_t i = 0; i < m; i += VW) {
        vf sum = vf_zero();
        for (int q = 0; q < k; q++)
            sum = vf_fma(gemv_load(GGML_TYPE_F32, (const char *)(a[q] + i), m - i), vf_set1(b[q]), sum);
        if (m - i >= VW) vf_store(y + i, sum); else vf_storen(y + i, sum, (int)(m - i));
    }
}
static int outer_run(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *b = dst->src[1];
    const int64_t k = b->ne[1], ne1 = dst->ne[1], ne2 = dst->ne[2];
    for (int64_t u0, u1; gg_claim_chunk(w, ne1 * ne2 * dst->ne[3], GEMM_MIN_TASK / (16 * dst->ne[0]) + 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t j = u % ne1, i2 = u / ne1 % ne2, i3 = u / ne1 / ne2;
            const char *x = (const char *)a->data + (size_t)(i2 / (ne2 / a->ne[2])) * a->nb[2]
                          + (size_t)(i3 / (dst->ne[3] / a->ne[3])) * a->nb[3];
            const char *z = (const char *)b->data + (size_t)j * b->nb[0] + (size_t)i2 * b->nb[2]
                + (size_t)i3 * b->nb[3];
            const float *columns[OUTER_K];
            float factors[OUTER_K];
            for (int64_t q = 0; q < k; q++) {
                columns[q] = (const float *)(x + (size_t)q * a->nb[1]);
                factors[q] = *(const float *)(z + (size_t)q * b->nb[1]);
            }
            outer_column((int)k, dst->ne[0], columns, factors,
                         (float *)((char *)dst->data + (size_t)j * dst->nb[1] + (size_t)i2 * dst->nb[2]
                                   + (size_t)i3 * dst->nb[3]));
        }
    return GGML_STATUS_SUCCESS;
}

static int op_MUL_MAT(const gg_work *w, ggml_tensor *dst) {
    if (bytes_fits(dst) && !gg_is_empty(dst)) return bytes_run(w, dst);
    return matmul_run(w, dst, 0);
}
static int op_OUT_PROD(const gg_work *w, ggml_tensor *dst) {
    if (!gg_is_empty(dst) && outer_fits(dst)) return outer_run(w, dst);
    return matmul_run(w, dst, 1);
}

#endif
