/* The gradients of attention: FLASH_ATTN_EXT_BACK, with all options, and FLASH_ATTN_BACK, whose v is transposed and
 * whose mask is causal or none. runtime/attention_layout.h defines the layout of the result. Tiles of rows
 * give the gradients of q, mask and sinks, and, if a task is a whole set, those of k and v. If there are too few sets
 * for the threads, a second pass by blocks of keys gives those of k and v: it computes the weights of all rows again
 * from the soft-max statistics of each row. Threads write to disjoint parts, so that no sums are shared, and both ways
 * add the same terms in the same order. */
#ifndef GG_OPS_ATTENTION_BACK_H
#define GG_OPS_ATTENTION_BACK_H
#include "attention.h"
#include "../runtime/attention_layout.h"

enum { BACK_ROWS = 64, BACK_KEYS = 128 };

typedef struct attn_softmax { float max, part, dot; } attn_softmax;   /* weight is part exp(logit - max); sum of w dw */

typedef struct attn_back {
    attn a;
    ggml_tensor d;                  /* gradient of the result, [dv, n_q, heads, batch] */
    ggml_tensor k, v;               /* gradients of k and v, in the shapes of a.k and a.v */
    float *q, *mask, *sinks;        /* gradients of the others; NULL: not requested */
    bool kv;                        /* the gradients of k and v are requested */
    int64_t tiles, stride;          /* tiles of a set; stride of rows of weights */
    float *tq, *td, *w, *dw, *bend, *tmp, *room;
    attn_softmax *rows;             /* of all rows, in the work memory */
} attn_back;

static void attn_swap(ggml_tensor *t, int i, int j) {
    const int64_t ne = t->ne[i];
    const size_t nb = t->nb[i];
    t->ne[i] = t->ne[j], t->nb[i] = t->nb[j];
    t->ne[j] = ne, t->nb[j] = nb;
}
/* A contiguous f32 tensor of the shape of t at p. */
static ggml_tensor attn_part(const ggml_tensor *t, char *p) {
    ggml_tensor r = {.type = GGML_TYPE_F32, .ne = {t->ne[0], t->ne[1], t->ne[2], t->ne[3]}, .nb = {sizeof(float)}};
    for (int i = 1; i < 4; i++) r.nb[i] = r.nb[i - 1] * (size_t)r.ne[i - 1];
    r.data = p;
    return r;
}
static attn_back attn_back_of(const gg_kernels *kernels, ggml_tensor *dst) {
    const bool ext = dst->op == GGML_OP_FLASH_ATTN_EXT_BACK;
    const int want = ext ? attention_params(dst)->want : GG_ATTN_WANT_Q | GG_ATTN_WANT_KV;
    size_t at[GG_ATTN_END + 1] = {0};
    char *const p = dst->data;
    attn_back b = {.d = *dst->src[ext ? 5 : 3], .kv = want & GG_ATTN_WANT_KV};
    gg_attn_layout(dst->src[0], dst->src[1], dst->src[2], want, at);      /* succeeds, because the check has passed */
    b.k = attn_part(dst->src[1], p + at[GG_ATTN_K]), b.v = attn_part(dst->src[2], p + at[GG_ATTN_V]);
    if (want & GG_ATTN_WANT_Q) b.q = (float *)(p + at[GG_ATTN_Q]);
    if (want & GG_ATTN_WANT_MASK) b.mask = (float *)(p + at[GG_ATTN_MASK]);
    if (want & GG_ATTN_WANT_SINKS) b.sinks = (float *)(p + at[GG_ATTN_SINKS]);
    if (ext) {
        b.a = attn_ext(kernels, dst);
        attn_swap(&b.d, 1, 2);
    } else {
        b.a = (attn){.kernels = kernels, .q = dst->src[0], .k = *dst->src[1], .v = *dst->src[2],
                     .causal = attention_back_params(dst)->masked != 0};
        attn_swap(&b.a.v, 0, 1), attn_swap(&b.v, 0, 1);
        attn_shape(&b.a);
        b.a.factor = (float)(1 / sqrt((double)b.a.d));
    }
    b.tiles = gg_ceil_div(b.a.rows, BACK_ROWS);
    return b;
}
/* Clears the padding between the parts. */
static void attn_back_gaps(ggml_tensor *dst) {
    const ggml_tensor *const *of = (const ggml_tensor *const *)dst->src;
    size_t at[GG_ATTN_END + 1] = {0};
    gg_attn_layout(of[GG_ATTN_Q], of[GG_ATTN_K], of[GG_ATTN_V], 0, at);
    for (int i = GG_ATTN_Q; i <= GG_ATTN_V; i++) {
        const size_t size = (size_t)gg_nelements(of[i]) * sizeof(float);
        memset((char *)dst->data + at[i] + size, 0, at[i + 1] - at[i] - size);
    }
}
static bool attn_back_make(attn_back *b) {
    const int64_t n_kv = attn_round(gg_max(b->a.n_kv, BACK_KEYS)), d = attn_round(b->a.d), dv = attn_round(b->a.dv);
    float *p = gg_scratch((size_t)(BACK_ROWS * (d + dv + 2 * n_kv) + 2 * n_kv + ATTN_ROOM) * sizeof *p);
    if (!p) return false;
    b->tq = p, p += BACK_ROWS * d;
    b->td = p, p += BACK_ROWS * dv;
    b->w = p, p += BACK_ROWS * n_kv;
    b->dw = p, p += BACK_ROWS * n_kv;
    b->bend = p, p += n_kv;
    b->tmp = p, b->room = p + n_kv;
    b->stride = n_kv;
    return true;
}

/* Scores and gradients of the weights for n rows and m keys; tq and td are filled with the rows. */
static void attn_back_scores(const attn_back *b, int64_t set, int64_t row, int64_t n, int64_t first, int64_t m) {
    const attn *a = &b->a;
    const int64_t d = attn_round(a->d), dv = attn_round(a->dv);
    attn_take(a, a->q, set, row, n, a->factor, b->tq);
    attn_take(a, &b->d, set, row, n, 1, b->td);
    attn_product_rows(m, n, a->d, attn_matrix(a, &a->k, 0, set, first), attn_floats(b->tq, d, 1), b->w, b->stride,
                      false,
                      b->room);
    attn_product_rows(m, n, a->dv, attn_matrix(a, &a->v, 0, set, first), attn_floats(b->td, dv, 1), b->dw, b->stride,
                      false, b->room);
}
/* Turns the gradient of the weights into that of the scores: dw = w (dw - dot) bend. */
static void attn_back_logits(const attn *a, int64_t n, const float *w, float dot, const float *bend, float *dw) {
    EACH_VEC(i, n) {
        const int64_t k = n - i;
        const vf v = vf_mul(ld(w + i, k), vf_sub(ld(dw + i, k), vf_set1(dot)));
        st(dw + i, a->cap != 0 ? vf_mul(v, ld(bend + i, k)) : v, k);
    }
}

/* ---- by rows ----------------------------------------------------------------------------------------------------- */
/* Turns the scores w and the gradients dw of the weights, for row `row` and keys key .. key+n-1, into weights and
 * gradients of the scores. The row attends to no other keys. */
static void attn_back_row(const attn_back *b, int64_t set, int64_t row, int64_t key, int64_t n, float *w,
                          float *dw) {
    const attn *a = &b->a;
    const attn_row at = attn_at(a, set, row);
    const int64_t index = (at.batch * a->heads + at.head) * a->n_q + at.query;
    const float most = attn_logits(a, at, key, n, w, b->bend, b->tmp), sink = attn_sink(a, at);
    const float top = sink > most ? sink : most, alone = attn_exp(sink, top);
    const double sum = weights_row(WHOLE_ROW(n), w, w, vf_set1(top == -GG_INF ? 0 : top)) + (double)alone;
    attn_softmax *s = &b->rows[set * a->rows + row];
    *s = (attn_softmax){top == -GG_INF ? 0 : top, sum == 0 ? 0 : (float)(1 / sum), 0};
    row_times(WHOLE_ROW(n), w, s->part, w);
    s->dot = (float)dot_rows(WHOLE_ROW(n), w, dw);
    if (b->sinks) b->sinks[index] = -alone * s->part * s->dot;
    if (b->mask) {
        const vf slope = vf_set1(alibi_slope(a->max_bias, a->heads, at.head)), dot = vf_set1(s->dot);
        float *const y = b->mask + index * a->n_kv;
        memset(y, 0, (size_t)a->n_kv * sizeof *y);
        EACH_VEC(i, n) {
            const int64_t k = n - i;
            st(y + key + i, vf_mul(slope, vf_mul(ld(w + i, k), vf_sub(ld(dw + i, k), dot))), k);
        }
    }
    attn_back_logits(a, n, w, s->dot, b->bend, dw);
}

/* ---- by keys ----------------------------------------------------------------------------------------------------- */
/* y[i, key] += sum over the rows r of x[r, i] w[r, key]; without rows, y = 0 */
static void attn_back_add(const attn_back *b, const ggml_tensor *y, int64_t set, int64_t first, int64_t keys,
                          int64_t rows, const float *x, const float *w) {
    attn_product(y->ne[0], keys, rows, attn_floats(x, 1, attn_round(y->ne[0])), attn_floats(w, 1, b->stride),
                 attn_data(y, set, first), y->nb[0], y->nb[1], rows > 0, b->room);
}
static void attn_back_keys(const attn_back *b, int64_t set, int64_t first) {
    const attn *a = &b->a;
    const int64_t m = gg_min(BACK_KEYS, a->n_kv - first);
    attn_back_add(b, &b->v, set, first, m, 0, b->td, b->w);
    attn_back_add(b, &b->k, set, first, m, 0, b->tq, b->dw);
    for (int64_t row = 0; row < a->rows; row += BACK_ROWS) {
        const int64_t n = gg_min(BACK_ROWS, a->rows - row);
        int64_t key = first, keys = m;
        if (!attn_narrow(a, set, row, n, &key, &keys, b->tmp)) continue;
        attn_back_scores(b, set, row, n, key, keys);
        for (int64_t r = 0; r < n; r++) {
            const attn_softmax *s = &b->rows[set * a->rows + row + r];
            float *w = b->w + r * b->stride, *dw = b->dw + r * b->stride;
            attn_logits(a, attn_at(a, set, row + r), key, keys, w, b->bend, b->tmp);
            weights_row(WHOLE_ROW(keys), w, w, vf_set1(s->max));
            row_times(WHOLE_ROW(keys), w, s->part, w);
            attn_back_logits(a, keys, w, s->dot, b->bend, dw);
        }
        attn_back_add(b, &b->v, set, key, keys, n, b->td, b->w);
        attn_back_add(b, &b->k, set, key, keys, n, b->tq, b->dw);
    }
}

/* ---- tiles of rows, and whole sets ------------------------------------------------------------------------------- */
/* Computes the gradients of a tile of rows; both: also adds its part of the gradients of k and v. */
static void attn_back_tile(const attn_back *b, int64_t set, int64_t row, bool both) {
    const attn *a = &b->a;
    const int64_t n = gg_min(BACK_ROWS, a->rows - row), d = attn_round(a->d);
    int64_t key = 0, keys = a->n_kv;
    const bool any = attn_narrow(a, set, row, n, &key, &keys, b->tmp);
    attn_back_scores(b, set, row, n, key, keys);
    for (int64_t r = 0; r < n; r++)
        attn_back_row(b, set, row + r, key, keys, b->w + r * b->stride, b->dw + r * b->stride);
    if (both && any) {
        attn_back_add(b, &b->v, set, key, keys, n, b->td, b->w);
        attn_back_add(b, &b->k, set, key, keys, n, b->tq, b->dw);
    }
    if (!b->q) return;
    attn_product_rows(a->d, n, keys, attn_matrix(a, &a->k, 1, set, key), attn_floats(b->dw, b->stride, 1), b->tq, d,
                      false, b->room);
    for (int64_t r = 0; r < n; r++) {
        const attn_row at = attn_at(a, set, row + r);
        float *y = b->q + ((at.batch * a->heads + at.head) * a->n_q + at.query) * a->d;
        row_times(WHOLE_ROW(a->d), b->tq + r * d, a->factor, y);
    }
}
static void attn_back_set(const attn_back *b, int64_t set) {
    attn_back_add(b, &b->v, set, 0, b->a.n_kv, 0, b->td, b->w);
    attn_back_add(b, &b->k, set, 0, b->a.n_kv, 0, b->tq, b->dw);
    for (int64_t row = 0; row < b->a.rows; row += BACK_ROWS) attn_back_tile(b, set, row, true);
}
/* Whether whole sets as tasks are faster: two passes compute seven products for each row and key instead of five. */
static bool attn_back_once(const attn_back *b, int nth) {
    return b->kv && 5 * gg_ceil_div(b->a.sets, nth) * nth <= 7 * b->a.sets;
}

static size_t work_FLASH_ATTN_BACK(const ggml_tensor *dst, int nth) {
    (void)nth;
    return (size_t)gg_nrows(dst->src[0]) * sizeof(attn_softmax);
}
static size_t work_FLASH_ATTN_EXT_BACK(const ggml_tensor *dst, int nth) { return work_FLASH_ATTN_BACK(dst, nth); }

static int op_FLASH_ATTN_BACK(const gg_work *w, ggml_tensor *dst) {
    attn_back b = attn_back_of(w->kernels, dst);
    if (!attn_types_ok(&b.a))
        return gg_fail(dst, "no products of %s and %s", gg_types[b.a.k.type].name, gg_types[b.a.v.type].name);
    const bool ok = attn_back_make(&b);
    const int64_t blocks = gg_ceil_div(b.a.n_kv, BACK_KEYS);
    const bool once = attn_back_once(&b, w->nth);
    b.rows = w->wdata;
    for (int64_t i; ok && (i = gemm_next_task(w)) < b.a.sets * (once ? 1 : b.tiles);) {
        if (once) attn_back_set(&b, i);
        else attn_back_tile(&b, i / b.tiles, i % b.tiles * BACK_ROWS, false);
    }
    gg_barrier(w);                                       /* also on failure: the other threads wait */
    if (w->ith == 0) {
        atomic_store_explicit(w->chunk, 0, memory_order_relaxed);
        attn_back_gaps(dst);
    }
    gg_barrier(w);
    if (!ok) return gg_no_memory(dst, "no memory for a tile");
    for (int64_t i; b.kv && !once && (i = gemm_next_task(w)) < b.a.sets * blocks;)
        attn_back_keys(&b, i / blocks, i % blocks * BACK_KEYS);
    return GGML_STATUS_SUCCESS;
}
static int op_FLASH_ATTN_EXT_BACK(const gg_work *w, ggml_tensor *dst) { return op_FLASH_ATTN_BACK(w, dst); }

#endif
