/* PAGED_ATTN: attention of a batch of rows, each to the keys and values of its own sequence, which lie in pages.
 *
 * The cells of a pool hold a key and a value each; a page is `page` consecutive cells, and the i-th page of a sequence
 * holds the keys i*page to i*page + page-1. A sequence's rows follow one another, in the batch and in its text: the
 * last one is its last token. A row attends to itself and to what precedes it, or to the last `window` of these, or,
 * with `chunked`, to those in the same chunk of `window` keys.
 *
 * Column s of the table is {first row, number of rows, number of keys, page 0, page 1, ...} of a sequence. No shape
 * depends on these numbers, so one prepared graph serves every mixture of rows.
 *
 * Rows are taken in units, of one sequence and of about ATTN_ROWS rows and heads that share their keys; each is a tile
 * of attention.h. Blocks of keys begin at multiples of ATTN_KEYS, and a block that is not consecutive in the pool is
 * copied together: where pages lie changes no bit. With `exact` a unit has one row, and its keys are not split, so that
 * a row's result depends on nothing but its own sequence. */
#ifndef GG_OPS_ATTENTION_PAGED_H
#define GG_OPS_ATTENTION_PAGED_H
#include "attention.h"

enum { PAGED_FIRST, PAGED_ROWS, PAGED_KEYS, PAGED_PAGES };     /* rows of the table */

typedef struct paged {
    const ggml_tensor *q, *k, *v, *table;
    int64_t page, window, sequences, queries;   /* queries of a unit */
    bool exact, chunked;
    const int32_t *column;          /* of the table, of the sequence at hand */
} paged;

static paged paged_of(const ggml_tensor *t) {
    const gg_paged_attn_params *o = paged_attn_params(t);
    paged p = {.q = t->src[0], .k = t->src[1], .v = t->src[2], .table = t->src[3], .page = o->page_size,
               .window = o->window, .exact = o->exact != 0, .chunked = o->chunked != 0};
    p.sequences = p.table->ne[1];
    p.queries = p.exact ? 1 : gg_max(ATTN_ROWS / gg_max(p.q->ne[1] / gg_max(p.k->ne[2], 1), 1), 1);
    return p;
}
static const int32_t *paged_column(const paged *p, int64_t sequence) {
    return (const int32_t *)((const char *)p->table->data + (size_t)sequence * p->table->nb[1]);
}
static int64_t paged_units(const paged *p, const int32_t *column) {
    return gg_ceil_div(column[PAGED_ROWS], p->queries) * p->k->ne[2];
}

/* All units */
static int64_t paged_all_units(const paged *p) {
    int64_t units = 0;
    for (int64_t s = 0; s < p->sequences; s++) units += paged_units(p, paged_column(p, s));
    return units;
}
/* Makes units larger, which changes no bit: as many as ATTN_WIDE asks for, if each thread is left four of them, and
 * too many to split their keys. */
static void paged_widen(paged *p, int nth) {
    const int64_t group = gg_max(p->q->ne[1] / gg_max(p->k->ne[2], 1), 1), least = p->queries;
    const int64_t most = gg_min(ATTN_WIDE / gg_max(p->k->ne[0] + p->v->ne[0], 1), 4 * ATTN_ROWS) / group;
    for (int64_t n = least * gg_max(most / least, 1); n > least && !p->exact; n -= least) {
        p->queries = n;
        if (paged_all_units(p) >= gg_max(4 * nth, ATTN_TASKS / 2)) return;
    }
    p->queries = least;
}

/* The attention of a unit: rows `row` to row + n-1 of the sequence of p->column. */
static attn paged_attn(const gg_work *w, const paged *p, ggml_tensor *q, const ggml_tensor *dst, int64_t row,
                       int64_t n) {
    const int64_t first = p->column[PAGED_FIRST] + row;
    *q = *p->q;
    q->data = (char *)p->q->data + (size_t)first * p->q->nb[2];
    q->ne[1] = n, q->ne[2] = p->q->ne[1], q->nb[1] = p->q->nb[2], q->nb[2] = p->q->nb[1];
    attn a = {.kernels = w->kernels, .q = q, .k = *p->k, .v = *p->v, .sinks = dst->src[4], .causal = true,
              .window = p->window, .chunked = p->chunked, .pages = p, .factor = paged_attn_params(dst)->factor,
              .cap = paged_attn_params(dst)->logit_softcap};
    if (a.cap != 0) a.factor /= a.cap;
    a.k.ne[1] = p->column[PAGED_KEYS] - p->column[PAGED_ROWS] + row + n;
    attn_shape(&a);
    return a;
}

static size_t paged_block_size(const attn *a) {
    if (!a->pages) return 0;
    return ATTN_KEYS * (gg_row_size(a->k.type, a->k.ne[0]) + gg_row_size(a->v.type, a->v.ne[0]));
}
/* The cell of a key; negative: its page is not there, which is so only before the window. */
static int64_t paged_cell(const paged *p, int64_t key) {
    const int32_t page = p->column[PAGED_PAGES + key / p->page];
    return page < 0 ? -1 : page * p->page + key % p->page;
}
/* Makes t hold n rows of a pool from key `first` on, for head `set`. */
static char *paged_rows(const paged *p, ggml_tensor *t, const ggml_tensor *pool, int64_t set, int64_t first, int64_t n,
                        char *room) {
    const size_t row = gg_row_size(pool->type, pool->ne[0]);
    const int64_t cell = paged_cell(p, first);
    bool consecutive = cell >= 0;
    for (int64_t i = p->page - first % p->page; i < n && consecutive; i += p->page)
        consecutive = paged_cell(p, first + i) == cell + i;
    t->data = room, t->nb[1] = row, t->nb[2] = 0;
    if (consecutive) {
        t->data = (char *)pool->data + (size_t)cell * pool->nb[1], t->nb[1] = pool->nb[1], t->nb[2] = pool->nb[2];
        return room;
    }
    for (int64_t i = 0; i < n; i++, room += row) {
        const int64_t at = paged_cell(p, first + i);
        if (at < 0) memset(room, 0, row);
        else memcpy(room, (const char *)pool->data + (size_t)at * pool->nb[1] + (size_t)set * pool->nb[2], row);
    }
    return room;
}
static void paged_block(attn *a, int64_t set, int64_t first, int64_t n) {
    char *const room = paged_rows(a->pages, &a->k, a->pages->k, set, first, n, a->gathered);
    paged_rows(a->pages, &a->v, a->pages->v, set, first, n, room);
    a->origin = first;
}

/* Whether all numbers of the table are within bounds. */
static bool paged_ok(const paged *p) {
    const int64_t most = p->table->ne[0] - PAGED_PAGES, pages = p->k->ne[1] / p->page;
    for (int64_t s = 0; s < p->sequences; s++) {
        const int32_t *const c = paged_column(p, s), rows = c[PAGED_ROWS], keys = c[PAGED_KEYS];
        if (!rows) continue;
        if (c[PAGED_FIRST] < 0 || rows < 0 || c[PAGED_FIRST] + (int64_t)rows > p->q->ne[2] || keys < rows) return false;
        if (gg_ceil_div(keys, p->page) > most) return false;
        const int64_t first = p->window ? attn_first_key(keys - (int64_t)rows + 1, p->window, p->chunked) : 0;
        const int64_t seen = gg_max(first, 0) / p->page;
        for (int64_t i = 0; i < gg_ceil_div(keys, p->page); i++) {
            const int32_t page = c[PAGED_PAGES + i];
            if (page >= pages || (page < 0 && i >= seen)) return false;
        }
    }
    return true;
}

/* Pieces of the keys of a unit with n_kv keys, if there are `units` in all. */
static int64_t paged_pieces(const paged *p, int64_t units, int64_t n_kv) {
    const int64_t want = gg_ceil_div(ATTN_TASKS, gg_max(units, 1));
    return p->exact || want <= 2 ? 1 : gg_max(gg_min(want, n_kv / ATTN_SPLIT), 1);
}
static size_t paged_piece_size(const paged *p) { return (size_t)(attn_round(p->v->ne[0]) + 4) * sizeof(float); }
static int64_t paged_rows_of_unit(const paged *p) {
    return gg_min(p->queries, p->q->ne[2]) * (p->q->ne[1] / gg_max(p->k->ne[2], 1));
}
static size_t work_PAGED_ATTN(const ggml_tensor *dst, int nth) {
    (void)nth;
    const paged p = paged_of(dst);      /* a unit is split only where there are few: all have ATTN_TASKS pieces or so */
    return p.exact ? 0 : (size_t)(2 * ATTN_TASKS * paged_rows_of_unit(&p)) * paged_piece_size(&p);
}

/* Goes through the units of all sequences; returns false after the last. */
typedef struct paged_walk {
    int64_t sequence, unit, row, n, head, units, pieces, piece0;   /* piece0: number of pieces before this unit */
} paged_walk;
static bool paged_next(paged *p, paged_walk *at) {
    for (at->unit++, at->piece0 += at->pieces;; at->sequence++, at->unit = 0) {
        if (at->sequence == p->sequences) return false;
        p->column = paged_column(p, at->sequence);
        if (at->unit < paged_units(p, p->column)) break;
    }
    const int64_t rows = p->column[PAGED_ROWS];
    at->head = at->unit % p->k->ne[2], at->row = at->unit / p->k->ne[2] * p->queries;
    at->n = gg_min(p->queries, rows - at->row);
    at->pieces = paged_pieces(p, at->units, p->column[PAGED_KEYS] - rows + at->row + at->n);
    return true;
}
static paged_walk paged_start(const paged *p) {
    return (paged_walk){.unit = -1, .units = paged_all_units(p)};
}
/* dst from the first row of a unit on */
static ggml_tensor paged_out(const paged *p, const ggml_tensor *dst, int64_t row) {
    ggml_tensor out = *dst;
    out.data = (char *)dst->data + (size_t)(p->column[PAGED_FIRST] + row) * dst->nb[2];
    return out;
}
static float *paged_piece(const gg_work *w, const paged *p, int64_t piece, int64_t row) {
    return (float *)((char *)w->wdata + (size_t)(piece * paged_rows_of_unit(p) + row) * paged_piece_size(p));
}
static bool paged_run(const gg_work *w, paged *p, const paged_walk *at, int64_t piece, ggml_tensor *dst) {
    ggml_tensor q, out = paged_out(p, dst, at->row);
    attn a = paged_attn(w, p, &q, dst, at->row, at->n);
    const int64_t blocks = gg_ceil_div(a.n_kv, ATTN_KEYS), first = blocks * piece / at->pieces * ATTN_KEYS;
    attn_tile t;
    if (!attn_tile_make(&t, &a, a.rows)) return false;
    t.set = at->head, t.row = 0, t.n = a.rows;
    attn_run_tile(&a, &t, first, gg_min(blocks * (piece + 1) / at->pieces * ATTN_KEYS, a.n_kv));
    for (int64_t r = 0; r < t.n; r++)
        if (at->pieces > 1) attn_keep(&a, &t, r, paged_piece(w, p, at->piece0 + piece, r));
        else attn_finish(&a, &out, t.at[r], t.max[r], t.sum[r], t.out + r * t.ld);
    return true;
}
/* The row behind the sequence that has `row`, or `row` itself if none has it */
static int64_t paged_after(const paged *p, int64_t row) {
    for (int64_t s = 0; s < p->sequences; s++) {
        const int32_t *const c = paged_column(p, s);
        if (row >= c[PAGED_FIRST] && row < c[PAGED_FIRST] + (int64_t)c[PAGED_ROWS])
            return c[PAGED_FIRST] + (int64_t)c[PAGED_ROWS];
    }
    return row;
}
/* Rows that no sequence has are zero. */
static void paged_clear_rest(const paged *p, const ggml_tensor *dst) {
    for (int64_t row = 0; row < dst->ne[2];) {
        const int64_t after = paged_after(p, row);
        if (after == row) memset((char *)dst->data + (size_t)row++ * dst->nb[2], 0, dst->nb[2]);
        else row = after;
    }
}

static int op_PAGED_ATTN(const gg_work *w, ggml_tensor *dst) {
    paged p = paged_of(dst);
    const attn types = {.kernels = w->kernels, .k = *p.k, .v = *p.v};
    if (!attn_types_ok(&types))
        return gg_fail(dst, "no products of %s and %s", gg_types[p.k->type].name, gg_types[p.v->type].name);
    if (!paged_ok(&p)) return gg_fail(dst, "the table has a row, a key or a page that does not exist");
    if (w->ith == 0) paged_clear_rest(&p, dst);
    paged_widen(&p, w->nth);
    const paged_walk start = paged_start(&p);
    bool split = false, ok = true;
    for (paged_walk each = start; !p.exact && paged_next(&p, &each);) split |= each.pieces > 1;
    paged_walk at = start;
    bool more = paged_next(&p, &at);
    for (int64_t i; more && (i = gemm_next_task(w)) >= 0;) {
        while (more && i >= at.piece0 + at.pieces) more = paged_next(&p, &at);
        if (more && ok) ok = paged_run(w, &p, &at, i - at.piece0, dst);
    }
    if (split) gg_barrier(w);                           /* also on failure: the other threads wait */
    if (!ok) return gg_no_memory(dst, "no memory for a tile");
    if (!split) return GGML_STATUS_SUCCESS;
    int64_t rows = 0;
    for (at = start; paged_next(&p, &at);) {
        ggml_tensor q, out = paged_out(&p, dst, at.row);
        const attn a = paged_attn(w, &p, &q, dst, at.row, at.n);
        for (int64_t r = 0; at.pieces > 1 && r < a.rows; r++)
            if (rows++ % w->nth == w->ith)
                attn_merge(&a, &out, attn_at(&a, at.head, r), paged_piece(w, &p, at.piece0, r), at.pieces,
                           (size_t)paged_rows_of_unit(&p) * paged_piece_size(&p));
    }
    return GGML_STATUS_SUCCESS;
}

#endif
