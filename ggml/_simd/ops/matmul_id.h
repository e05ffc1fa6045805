/* MUL_MAT_ID and its gradients: each row of b is multiplied by the matrix (of `as`) that its index selects. Rows are
 * grouped by matrix. Each group is one product. One thread computes it, which then packs its rows once and reads the
 * matrix in one run; the threads share the tasks of large groups and of the last ones, so that they end together. A
 * group has a counter, by which threads claim it or its tasks. */
#ifndef GG_OPS_MATMUL_ID_H
#define GG_OPS_MATMUL_ID_H
#include "../gemm/int8_few.h"

/* A pair is an element of ids: pair i is ids[i % used, i / used]. The pairs of matrix e are pair[start[e]] to
 * pair[start[e + 1]]. Everything lies in the work memory of the node. */
typedef struct { int64_t *bad, *start, *pair; _Atomic int64_t *chunk; } id_groups;

static int64_t id_work(int64_t matrices, int64_t pairs) { return 2 * (matrices + pairs + 1); }
static int32_t id_at(const ggml_tensor *ids, int64_t i) {
    const int64_t used = ids->ne[0];
    return *(const int32_t *)((const char *)ids->data + (size_t)(i % used) * ids->nb[0]
                              + (size_t)(i / used) * ids->nb[1]);
}
/* Called by one thread; false: the index of pair *bad is out of range. */
static bool id_sort(const id_groups *g, const ggml_tensor *ids, int64_t matrices) {
    const int64_t pairs = gg_nelements(ids);
    for (int64_t i = 0; i < matrices + pairs; i++) atomic_init(&g->chunk[i], 0);
    memset(g->start, 0, (size_t)(matrices + 1) * sizeof *g->start);
    for (int64_t i = 0; i < pairs; i++) {
        const int32_t id = id_at(ids, i);
        if (id < 0 || id >= matrices) return *g->bad = i, false;
        g->start[id]++;
    }
    /* the ends of the groups */
    for (int64_t e = 0, sum = 0; e <= matrices; e++) sum += g->start[e], g->start[e] = sum;
    for (int64_t i = pairs - 1; i >= 0; i--) g->pair[--g->start[id_at(ids, i)]] = i;
    return *g->bad = -1, true;
}
static int id_prepare(const gg_work *w, const ggml_tensor *dst, int64_t matrices, id_groups *g) {
    const ggml_tensor *ids = dst->src[2];
    const int64_t pairs = gg_nelements(ids);
    int64_t *p = w->wdata;
    *g = (id_groups){.bad = p, .start = p + 1, .pair = p + 2 + matrices, .chunk = (void *)(p + 2 + matrices + pairs)};
    if (w->ith == 0) id_sort(g, ids, matrices);
    gg_barrier(w);
    const int64_t i = *g->bad;
    if (i < 0) return GGML_STATUS_SUCCESS;
    return gg_fail(dst, "ids[%lld, %lld] is %d: there are %lld matrices", (long long)(i % ids->ne[0]),
                   (long long)(i / ids->ne[0]), id_at(ids, i), (long long)matrices);
}

/* The rows of a tensor that belong to a group of pairs. If a token has fewer than `used` rows, they repeat. */
typedef struct { const int64_t *pair; int64_t used, ne1; size_t nb1, nb2; } id_rows;

static size_t id_row_offset(const id_rows *r, int64_t i) {
    const int64_t p = r->pair[i];
    return (size_t)(p % r->used % r->ne1) * r->nb1 + (size_t)(p / r->used) * r->nb2;
}
/* x_i is the row of pair i. */
static size_t id_offset(const gemm_src *s, int64_t i) { return id_row_offset(s->context, i); }
static void pack_pairs(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    float tmp[VW][KC] __attribute__((aligned(64)));
    for (int g = 0; g < n; g += VW) {
        const float *row[VW];
        for (int i = 0; i < VW; i++) {
            if (g + i >= n) { row[i] = row[0]; continue; }
            row[i] = pack_floats(s, s->data + s->offset(s, i0 + g + i) + (size_t)k0 * s->nb_k, kn, tmp[i]);
        }
        pack_transpose(row, kn, pack_lane(out, g, kn, width), width);
    }
}
/* k counts the pairs, x_i[k] is element i of their rows. */
static void pack_across_pairs(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    float tmp[MC];
    for (int k = 0; k < kn; k++) {
        const char *p = s->data + id_row_offset(s->context, k0 + k) + (size_t)i0 * s->nb_i;
        pack_one_k(pack_floats(s, p, n, tmp), n, out + k * width, kn, width);
    }
}
static id_rows id_rows_of(const ggml_tensor *t, const ggml_tensor *ids, const int64_t *pair) {
    return (id_rows){pair, ids->ne[0], t->ne[1], t->nb[1], t->nb[2]};
}
static gemm_src id_src(const gg_kernels *k, const ggml_tensor *t, const void *rows, gemm_pack_fn pack) {
    return (gemm_src){.data = t->data, .type = t->type, .kernels = k, .nb_i = t->nb[0], .nb_k = t->nb[0], .share2 = 1,
                      .share3 = 1, .pack = pack, .offset = pack == pack_pairs ? id_offset : NULL,
                      .panels = pack == pack_across_pairs ? MC / MR : 1, .context = rows};
}
static gemm_src id_matrix(const gg_kernels *k, const ggml_tensor *as, int64_t e, int along) {
    gemm_src s = gemm_tensor(k, as, along, as);
    s.data += (size_t)e * as->nb[2];
    return s;
}
/* alone: on the thread that comes first, for which few_run and gemv_run take the whole as one piece. */
typedef bool (*id_run_fn)(const gg_work *w, const gemm *g);
static bool id_run(const gg_work *w, _Atomic int64_t *chunk, const gemm *g, id_run_fn run, bool alone) {
    gg_work own = *w;
    own.chunk = chunk;
    if (alone) own.ith = 0, own.nth = 1;
    return run(&own, g);
}
static bool id_panels(const gg_work *w, const gemm *g) { return gemm_run(w, g, NULL); }

/* Whether one thread computes the product of group e: what is left then for the others is large enough. */
static bool id_alone(const gg_work *w, const id_groups *all, int64_t matrices, int64_t e) {
    const int64_t count = all->start[e + 1] - all->start[e], left = all->start[matrices] - all->start[e];
    return 2 * w->nth * count <= left;
}
/* Computes g by panels on the thread that comes first; false: no memory. */
static bool id_panels_alone(_Atomic int64_t *chunk, const gemm *g) {
    if (atomic_fetch_add_explicit(chunk, 1, memory_order_relaxed)) return true;
    const gemm_tiling tiling = gemm_plan(g, 1, false);
    float *const scratch = gg_scratch((size_t)gemm_scratch_floats(g, &tiling) * sizeof(float));
    if (scratch) gemm_rows(g, &tiling, 0, tiling.rows, scratch);
    return scratch;
}

/* A group as one product with the pairs as columns; id_c_at gives the address of their results. */
typedef struct { id_rows x, y; } id_group;
static size_t id_c_at(const gemm *g, int64_t i, int64_t j) {
    return (size_t)i * g->c_m + id_row_offset(&((const id_group *)g->b.context)->y, j);
}

/* Row i and, where their strides allow, row i + 1 of a group as the vectors of a product. */
static gemm id_vectors(const ggml_tensor *dst, const gemm_src *matrix, int64_t k, const id_group *p, int64_t i,
                       int64_t count) {
    const size_t x = id_row_offset(&p->x, i), y = id_row_offset(&p->y, i);
    gemm g = {.m = dst->ne[0], .n = 1, .k = k, .ne2 = 1, .ne3 = 1, .a = *matrix,
              .b = id_src(matrix->kernels, dst->src[1], NULL, NULL),
              .c = (char *)dst->data + y, .c_m = dst->nb[0]};
    g.b.data += x;
    if (i + 1 < count && id_row_offset(&p->x, i + 1) >= x && id_row_offset(&p->y, i + 1) >= y)
        g.n = 2, g.b.nb_i = id_row_offset(&p->x, i + 1) - x, g.c_n = id_row_offset(&p->y, i + 1) - y;
    return g;
}

static bool id_product(const gg_work *w, ggml_tensor *dst, int along, const id_groups *all, int64_t e) {
    const ggml_tensor *as = dst->src[0], *b = dst->src[1], *ids = dst->src[2];
    const int64_t first = all->start[e], count = all->start[e + 1] - first, k = as->ne[along];
    const id_group p = {id_rows_of(b, ids, all->pair + first), id_rows_of(dst, ids, all->pair + first)};
    const gemm_src matrix = id_matrix(w->kernels, as, e, along);
    gemm g = {.m = dst->ne[0], .n = count, .k = k, .ne2 = 1, .ne3 = 1, .a = matrix,
              .b = id_src(w->kernels, b, &p, pack_pairs),
              .c = dst->data, .c_m = dst->nb[0], .c_at = id_c_at};
    const bool alone = id_alone(w, all, as->ne[2], e);
    if (few_fits(&g)) return id_run(w, all->chunk + e, &g, few_run, alone);
    if (count <= gemv_max_vectors(&matrix)) {      /* the matrix is read once for two vectors */
        int64_t i = 0;
        for (gemm v; i < count; i += v.n) {
            v = id_vectors(dst, &matrix, k, &p, i, count);
            if (!gemv_fits(&v)) break;
            if (!id_run(w, all->chunk + as->ne[2] + first + i, &v, gemv_run, alone)) return false;
        }
        if (i == count) return true;
    }
    gemm_use_ints(&g);
    gemm_prefetch_rows(&g);
    return alone ? id_panels_alone(all->chunk + e, &g) : id_run(w, all->chunk + e, &g, id_panels, false);
}
static int matmul_id_run(const gg_work *w, ggml_tensor *dst, int along) {
    const ggml_tensor *as = dst->src[0];
    id_groups all;
    if (gg_is_empty(dst)) return GGML_STATUS_SUCCESS;
    if (!pack_type_ok(w->kernels, as->type)) return gg_fail(dst, "no product of %s", gg_types[as->type].name);
    const int status = id_prepare(w, dst, as->ne[2], &all);
    if (status != GGML_STATUS_SUCCESS) return status;
    for (int64_t e = 0; e < as->ne[2]; e++)
        if (!id_product(w, dst, along, &all, e)) return gg_no_memory(dst, "no memory for panels");
    return GGML_STATUS_SUCCESS;
}

/* src: as, b, ids. The gradient of b takes the gradient of the result as b and sums over the other dimension of
 * `as`. */
static int op_MUL_MAT_ID(const gg_work *w, ggml_tensor *dst) { return matmul_id_run(w, dst, 0); }
static int op_MUL_MAT_ID_BACK(const gg_work *w, ggml_tensor *dst) { return matmul_id_run(w, dst, 1); }

/* src: b, gradient of the result, ids. The gradient of `as`: for each matrix the sum of the outer products of its
 * pairs. */
static int op_MUL_MAT_ID_BACK_AS(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *b = dst->src[0], *g = dst->src[1], *ids = dst->src[2];
    id_groups all;
    if (gg_is_empty(dst)) return GGML_STATUS_SUCCESS;
    const int status = id_prepare(w, dst, dst->ne[2], &all);
    if (status != GGML_STATUS_SUCCESS) return status;
    for (int64_t e = 0; e < dst->ne[2]; e++) {
        const int64_t first = all.start[e];
        const id_rows x = id_rows_of(b, ids, all.pair + first), y = id_rows_of(g, ids, all.pair + first);
        const gemm p = {.m = dst->ne[0], .n = dst->ne[1], .k = all.start[e + 1] - first, .ne2 = 1, .ne3 = 1,
                        .a = id_src(w->kernels, b, &x, pack_across_pairs),
                        .b = id_src(w->kernels, g, &y, pack_across_pairs),
                        .c = (char *)dst->data + (size_t)e * dst->nb[2], .c_m = dst->nb[0], .c_n = dst->nb[1]};
        if (!id_run(w, all.chunk + e, &p, id_panels, false)) return gg_no_memory(dst, "no memory for panels");
    }
    return GGML_STATUS_SUCCESS;
}

static size_t work_MUL_MAT_ID(const ggml_tensor *dst, int nth) {
    (void)nth;
    const int64_t matrices = dst->op == GGML_OP_MUL_MAT_ID_BACK_AS ? dst->ne[2] : dst->src[0]->ne[2];
    return (size_t)id_work(matrices, gg_nelements(dst->src[2])) * sizeof(int64_t);
}
static size_t work_MUL_MAT_ID_BACK(const ggml_tensor *dst, int nth) { return work_MUL_MAT_ID(dst, nth); }
static size_t work_MUL_MAT_ID_BACK_AS(const ggml_tensor *dst, int nth) { return work_MUL_MAT_ID(dst, nth); }

#endif
