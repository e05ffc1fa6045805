/* FLASH_ATTN_EXT: soft-max(scale q k + mask) v, without storing the scores of all keys. Its gradients are in
 * attention_back.h. Rows of queries that share their keys (the heads of a group, the batches that share k) form tiles.
 * A tile goes through the keys block by block (attention_tile.h). If there are few tiles, the keys are split too, and
 * the pieces are merged at the end. How they are split depends on shapes alone, and so do the results. */
#ifndef GG_OPS_ATTENTION_H
#define GG_OPS_ATTENTION_H
#include "../gemm/gemv.h"
#include "logits.h"

enum {
    ATTN_ROWS = 128,                /* rows of a tile, which packs keys and values of a block once for all of them, */
    ATTN_WIDE = 3 << 14,            /* or a multiple, with so many floats of queries and results, if that leaves each */
    ATTN_LEAST = 64,                /* thread four tiles; or so few rows */
    ATTN_KEYS = 256,                /* keys of a block */
    ATTN_STRIP = NR > 6 ? 1 : 2,    /* panels of queries of a strip */
    ATTN_STEP = 64,                 /* a multiple of the keys that ROW_SUM adds at a time */
    ATTN_FEW = 8,                   /* tiles of at most that many rows read keys and values in place */
    ATTN_AHEAD = 16,                /* keys or values between those that are read and those that are prefetched */
    ATTN_UNPACK = 16,               /* rows of quantised keys or values to unpack at a time */
    ATTN_TASKS = 32, ATTN_SPLIT = 256,   /* tasks that keys are split to reach; least keys of a piece */
    ATTN_ROOM = (MC + (NC / NR + 3) * NR_PAD) * 2 * KC,  /* floats for the panels of any product */
};

typedef struct attn {
    const gg_kernels *kernels;
    const ggml_tensor *q, *mask, *sinks;
    ggml_tensor k, v;               /* [d, n_kv, ...] and [dv, n_kv, ...] */
    float factor, cap, max_bias;    /* logits are factor q k, or cap tanh(factor q k) */
    bool causal;
    int64_t window;                 /* with causal: most keys that a row attends to, 0 for all */
    bool chunked;                   /* a row attends to those of its chunk, of `window` keys */
    int64_t d, dv, n_q, n_kv, heads, group, share, rows, sets;   /* sets of `rows` rows that share their keys */
    const struct paged *pages;      /* where keys and values lie in pages, or NULL: see attention_paged.h */
    int64_t origin;                 /* k and v have the keys and values from that one on */
    char *gathered;                 /* room for a block of both */
} attn;
static void paged_block(attn *a, int64_t set, int64_t first, int64_t n);
static size_t paged_block_size(const attn *a);

static void attn_shape(attn *a) {
    a->d = a->q->ne[0], a->dv = a->v.ne[0], a->n_q = a->q->ne[1], a->n_kv = a->k.ne[1], a->heads = a->q->ne[2];
    a->group = a->heads / a->k.ne[2], a->share = a->q->ne[3] / a->k.ne[3];
    a->rows = a->n_q * a->group * a->share, a->sets = a->k.ne[2] * a->k.ne[3];
}
static attn attn_ext(const gg_kernels *kernels, const ggml_tensor *t) {
    attn a = {.kernels = kernels, .q = t->src[0], .k = *t->src[1], .v = *t->src[2], .mask = t->src[3],
              .sinks = t->src[4],
              .factor = attention_params(t)->scale, .max_bias = attention_params(t)->max_bias,
              .cap = attention_params(t)->logit_softcap};
    if (a.cap != 0) a.factor /= a.cap;
    attn_shape(&a);
    return a;
}

static bool attn_types_ok(const attn *a) {
    return pack_type_ok(a->kernels, a->k.type) && pack_type_ok(a->kernels, a->v.type);
}

typedef struct { int64_t query, head, batch; } attn_row;
static attn_row attn_at(const attn *a, int64_t set, int64_t row) {
    const int64_t h = row / a->n_q;
    return (attn_row){row % a->n_q, set % a->k.ne[2] * a->group + h % a->group,
                      set / a->k.ne[2] * a->share + h / a->group};
}
/* The row after another one of the same set */
static attn_row attn_after(const attn *a, attn_row at) {
    if (++at.query < a->n_q) return at;
    at.query = 0;
    if (++at.head % a->group == 0) at.head -= a->group, at.batch++;
    return at;
}
/* The keys or values of a set from key `first` on. */
static char *attn_data(const ggml_tensor *t, int64_t set, int64_t first) {
    return gg_row_ptr(t, first, set % t->ne[2], set / t->ne[2]);
}
static const float *attn_mask(const attn *a, attn_row at, int64_t first, int64_t n, float *tmp) {
    const ggml_tensor *m = a->mask;
    return gg_row_in(m, at.query, at.head % m->ne[2], at.batch % m->ne[3], first, n, tmp);
}
static float attn_sink(const attn *a, attn_row at) {
    return a->sinks ? *(const float *)((const char *)a->sinks->data + (size_t)at.head * a->sinks->nb[0]) : -GG_INF;
}

/* The number of keys that the causal mask shows to a row. */
static int64_t attn_seen(const attn *a, attn_row at) { return at.query + a->n_kv - a->n_q + 1; }
/* The first key that a row attends to if it sees so many, with a window; negative: all. */
static int64_t attn_first_key(int64_t seen, int64_t window, bool chunked) {
    return chunked ? (seen - 1) / window * window : seen - window;
}
static int64_t attn_begin(const attn *a, attn_row at) {
    return attn_first_key(attn_seen(a, at), a->window, a->chunked);
}

/* ---- products by one thread -------------------------------------------------------------------------------------- */
static gemm_src attn_floats(const float *p, int64_t i, int64_t k) {       /* strides in floats */
    gemm_src s = {.data = (const char *)p, .type = GGML_TYPE_F32, .nb_i = (size_t)i * 4, .nb_k = (size_t)k * 4};
    gemm_set_pack(&s, false);
    return s;
}
static gemm_src attn_matrix(const attn *a, const ggml_tensor *t, int along, int64_t set, int64_t first) {
    gemm_src s = gemm_tensor(a->kernels, t, along, t);
    s.data = attn_data(t, set, first);
    return s;
}
static void attn_product(int64_t m, int64_t n, int64_t k, gemm_src a, gemm_src b, char *c, size_t c_m, size_t c_n,
                         bool add, float *room) {
    if (!m || !n) return;
    const gemm g = {.m = m, .n = n, .k = k, .ne2 = 1, .ne3 = 1, .a = a, .b = b, .c = c, .c_m = c_m, .c_n = c_n,
                    .add = add};
    const gemm_tiling tiling = gemm_plan(&g, 1, false);
    gemm_rows(&g, &tiling, 0, tiling.rows, room);
}
/* c[r*stride + i] of floats */
static void attn_product_rows(int64_t m, int64_t n, int64_t k, gemm_src a, gemm_src b, float *c, int64_t stride,
                              bool add, float *room) {
    attn_product(m, n, k, a, b, (char *)c, sizeof *c, (size_t)stride * sizeof *c, add, room);
}

/* ---- a row of scores --------------------------------------------------------------------------------------------- */
/* Turns the scores x of n keys into logits, in place; returns the maximum. bend (may be NULL): the derivative of the
 * soft-cap. */
static float attn_logits(const attn *a, attn_row at, int64_t first, int64_t n, float *x, float *bend, float *tmp) {
    if (a->cap != 0)
        EACH_VEC(i, n) {
            const int64_t k = n - i;
            const vf t = v_tanh(ld(x + i, k)), cap = vf_set1(a->cap);
            if (bend) st(bend + i, vf_mul(cap, vf_fnma(t, t, vf_set1(1))), k);
            st(x + i, vf_mul(cap, t), k);
        }
    if (a->causal)
        for (int64_t i = gg_max(attn_seen(a, at) - first, 0); i < n; i++) x[i] = -GG_INF;
    if (a->window)
        for (int64_t i = 0, end = gg_min(attn_begin(a, at) - first, n); i < end; i++) x[i] = -GG_INF;
    if (!a->mask) return max_row(WHOLE_ROW(n), x);
    const float slope = alibi_slope(a->max_bias, a->heads, at.head);
    return logits_row(WHOLE_ROW(n), x, attn_mask(a, at, first, n, tmp), 1, slope, x);
}

#include "attention_tile.h"
/* A row of the result from its sum of weighted values; the sink takes its share of the weight. */
static void attn_finish(const attn *a, ggml_tensor *dst, attn_row at, float max, double sum, float *out) {
    const float sink = attn_sink(a, at), top = sink > max ? sink : max, fade = attn_exp(max, top);
    sum = sum * (double)fade + (double)attn_exp(sink, top);
    float *y = gg_row_out(dst, at.head, at.query, at.batch, 0, out);
    const vf part = vf_set1(sum == 0 ? 0 : (float)((double)fade / sum));
    EACH_VEC(i, a->dv) st(y + i, vf_mul(ld(out + i, a->dv - i), part), a->dv - i);
    gg_row_store(dst, at.head, at.query, at.batch, 0, a->dv, y);
}

/* ---- pieces: the keys of few tiles are split --------------------------------------------------------------------- */
/* Tiles of a set and rows of a tile, which change no result; pieces of the keys and keys of a piece. */
typedef struct attn_cut { int64_t tiles, rows, pieces, keys; } attn_cut;

static attn_cut attn_plan(const attn *a, int nth) {
    attn_cut c = {.tiles = gg_ceil_div(a->rows, ATTN_ROWS), .pieces = 1};
    const int64_t want = gg_ceil_div(ATTN_TASKS, c.tiles * a->sets);
    if (want > 2) c.pieces = gg_max(gg_min(want, a->n_kv / ATTN_SPLIT), 1);
    c.keys = gg_max(gg_ceil_div(gg_ceil_div(a->n_kv, c.pieces), ATTN_KEYS), 1) * ATTN_KEYS;
    c.pieces = gg_max(gg_ceil_div(a->n_kv, c.keys), 1);
    c.tiles = gg_ceil_div(a->rows, ATTN_LEAST);
    const int64_t wide = gg_min(ATTN_WIDE / gg_max(a->d + a->dv, 1), 4 * ATTN_ROWS);
    for (int64_t rows = ATTN_ROWS; rows <= gg_max(wide, ATTN_ROWS); rows += ATTN_ROWS)
        if (gg_ceil_div(a->rows, rows) * a->sets * c.pieces >= 4 * nth) c.tiles = gg_ceil_div(a->rows, rows);
    c.rows = gg_ceil_div(a->rows, c.tiles), c.tiles = gg_ceil_div(a->rows, c.rows);
    return c;
}
/* The result of a piece of a row: its values, after sum and maximum. */
static size_t attn_piece_size(const attn *a) { return (size_t)(attn_round(a->dv) + 4) * sizeof(float); }
static float *attn_piece(const gg_work *w, const attn *a, const attn_cut *c, int64_t set, int64_t row, int64_t piece) {
    return (float *)((char *)w->wdata + (size_t)((set * a->rows + row) * c->pieces + piece) * attn_piece_size(a));
}
static size_t work_FLASH_ATTN_EXT(const ggml_tensor *dst, int nth) {
    const attn a = attn_ext(NULL, dst);
    const attn_cut c = attn_plan(&a, nth);
    return c.pieces > 1 ? (size_t)(a.sets * a.rows * c.pieces) * attn_piece_size(&a) : 0;
}
static void attn_keep(const attn *a, const attn_tile *t, int64_t r, float *piece) {
    memcpy(piece, &t->sum[r], sizeof *t->sum), piece[2] = t->max[r];
    memcpy(piece + 4, t->out + r * t->ld, (size_t)a->dv * sizeof *piece);
}
/* Merges `count` pieces of a row, `stride` bytes apart, into the first of them. */
static void attn_merge(const attn *a, ggml_tensor *dst, attn_row at, float *first, int64_t count, size_t stride) {
    float top = -GG_INF, *out = first + 4;
    double total = 0;
    for (int64_t i = 0; i < count; i++) {
        const float max = ((const float *)((const char *)first + (size_t)i * stride))[2];
        top = max > top ? max : top;
    }
    for (int64_t p = 0; p < count; p++) {
        const float *piece = (const float *)((const char *)first + (size_t)p * stride), fade = attn_exp(piece[2], top);
        double sum;
        memcpy(&sum, piece, sizeof sum);
        total += sum * (double)fade;
        if (p == 0) row_times(WHOLE_ROW(a->dv), out, fade, out);
        else EACH_VEC(i, a->dv) {
            const int64_t k = a->dv - i;
            st(out + i, vf_fma(ld(piece + 4 + i, k), vf_set1(fade), ld(out + i, k)), k);
        }
    }
    attn_finish(a, dst, at, top, total, out);
}

static int op_FLASH_ATTN_EXT(const gg_work *w, ggml_tensor *dst) {
    attn a = attn_ext(w->kernels, dst);
    const attn_cut c = attn_plan(&a, w->nth);
    const int64_t rows = a.sets * a.rows, tasks = a.sets * c.tiles * c.pieces;
    attn_tile t;
    if (!attn_types_ok(&a))
        return gg_fail(dst, "no products of %s and %s", gg_types[a.k.type].name, gg_types[a.v.type].name);
    const bool ok = attn_tile_make(&t, &a, c.rows);
    for (int64_t i; ok && (i = gemm_next_task(w)) < tasks;) {
        /* From the end: the last rows of a causal mask see most keys, and short tasks let threads end together. */
        const int64_t task = tasks - 1 - i, piece = task % c.pieces, tile = task / c.pieces % c.tiles;
        t.set = task / c.pieces / c.tiles, t.row = tile * c.rows, t.n = gg_min(c.rows, a.rows - t.row);
        attn_run_tile(&a, &t, piece * c.keys, gg_min((piece + 1) * c.keys, a.n_kv));
        for (int64_t r = 0; r < t.n; r++)
            if (c.pieces > 1) attn_keep(&a, &t, r, attn_piece(w, &a, &c, t.set, t.row + r, piece));
            else attn_finish(&a, dst, t.at[r], t.max[r], t.sum[r], t.out + r * t.ld);
    }
    if (c.pieces > 1) gg_barrier(w);                     /* also on failure: the other threads wait */
    if (!ok) return gg_no_memory(dst, "no memory for a tile");
    if (c.pieces > 1)
        for (int64_t r = rows * w->ith / w->nth; r < rows * (w->ith + 1) / w->nth; r++)
            attn_merge(&a, dst, attn_at(&a, r / a.rows, r % a.rows),
                       attn_piece(w, &a, &c, r / a.rows, r % a.rows, 0), c.pieces, attn_piece_size(&a));
    return GGML_STATUS_SUCCESS;
}

#include "attention_back.h"
#include "attention_paged.h"

#endif
