/* A tile of attention (attention.h): rows that share their keys, which it goes through block by block. A tile of few
 * rows reads keys and values in place (attention_few.h). Another one packs those of a block, and takes its rows by
 * strips of as many as the register tile has columns: scores, their weights by an online soft-max that keeps the
 * maximum so far, and the sum of weighted values. The scores of a strip stay in L1, where the product with the values
 * reads the weights as they are. Which rows form a tile or a strip changes no bit of a row. */
#ifndef GG_OPS_ATTENTION_TILE_H
#define GG_OPS_ATTENTION_TILE_H

/* The keys begin .. end-1 of a block: a row attends to no others. plain: it attends to all of them, and the mask adds
 * nothing to their scores. */
typedef struct attn_range { int64_t begin, end; bool plain; } attn_range;

typedef struct attn_tile {
    int64_t set, row, n, ld;        /* n rows from `row` on; stride of out */
    float *q, *s, *out, *max, *tmp, *any, *unpacked;
    float *queries, *keys, *values; /* panels, not if there are few rows */
    double *sum;
    attn_row *at;                   /* where each row is */
    attn_range *ranges;             /* of each row in the block at hand */
    int64_t width, wider;           /* rows of a panel of queries; the first `wider` panels have one more */
    bool few;
    bool gaps;                      /* between the keys of the block that its rows attend to may be others */
} attn_tile;

static int64_t attn_round(int64_t n) { return (n + 15) / 16 * 16; }
static int64_t attn_lanes(int64_t n) { return gg_ceil_div(n, MR) * MR; }
static bool attn_few(const attn *a) {
    return a->rows <= ATTN_FEW && a->dv <= GEMV_ROWS && gg_rows_packed(&a->k) && gg_rows_packed(&a->v);
}
/* Room for tiles of n rows; false: no memory. */
static bool attn_tile_make(attn_tile *t, attn *a, int64_t n) {
    t->few = attn_few(a);
    t->ld = t->few ? GEMV_ROWS : attn_round(a->dv);
    const int64_t d = attn_round(a->d), rows = attn_round(n), taken = gg_max(NR, ATTN_FEW);
    const int64_t unpacked = t->few ? ATTN_UNPACK * attn_round(gg_max(a->d, a->dv)) : 0;
    const int64_t queries = t->few ? 0 : gg_ceil_div(n, NR) * NR_PAD * d, keys = t->few ? 0 : ATTN_KEYS * d;
    const int64_t values = t->few ? 0 : ATTN_KEYS * attn_lanes(a->dv);
    const int64_t strip = ATTN_KEYS * gg_max(NR * ATTN_STRIP, ATTN_FEW);
    const int64_t range = (int64_t)(sizeof(attn_range) / sizeof(float));
    const int64_t place = (int64_t)(sizeof(attn_row) / sizeof(float));
    const size_t floats = (size_t)(rows * (t->ld + 3 + range + place) + taken * d + strip + 2 * ATTN_KEYS + unpacked
                                   + queries + keys + values);
    float *p = gg_scratch(floats * sizeof *p + paged_block_size(a));
    if (!p) return false;
    a->gathered = (char *)(p + floats);
    t->sum = (double *)p, p += 2 * rows;
    t->ranges = (attn_range *)p, p += range * rows;
    t->at = (attn_row *)p, p += place * rows;
    t->max = p, p += rows;
    t->q = p, p += taken * d;
    t->out = p, p += rows * t->ld;
    t->s = p, p += strip;
    t->tmp = p, p += ATTN_KEYS;
    t->any = p, p += ATTN_KEYS;
    t->unpacked = p, p += unpacked;
    t->queries = p, p += queries;
    t->keys = p, t->values = p + keys;
    return true;
}
/* Copies n rows of a tensor [ne0, n_q, heads, batch] as f32, times a factor. */
static void attn_take(const attn *a, const ggml_tensor *x, int64_t set, int64_t row, int64_t n, float factor,
                      float *out) {
    const int64_t ne0 = x->ne[0];
    attn_row at = attn_at(a, set, row);
    for (int64_t r = 0; r < n; r++, at = attn_after(a, at), out += attn_round(ne0)) {
        const float *p = gg_row_in(x, at.query, at.head, at.batch, 0, ne0, out);
        row_times(WHOLE_ROW(ne0), p, factor, out);
    }
}

/* ---- the keys of a row ------------------------------------------------------------------------------------------- */
/* The range of a row of n elements of a mask, which are -inf where their bits are `hidden`. */
#define ATTN_MASK_RANGE(name, T, hidden) \
    static bool name##_none(const T *m, int64_t n) { \
        T shown = 0; \
        for (int64_t i = 0; i < n; i++) shown |= (T)(m[i] ^ hidden); \
        return !shown; \
    } \
    static attn_range name(const T *m, int64_t n) { \
        T any = 0, shown = 0; \
        int64_t begin = 0, end = n; \
        for (int64_t i = 0; i < n; i++) any |= m[i], shown |= (T)(m[i] ^ hidden); \
        if (!shown) return (attn_range){0}; \
        if (!any) return (attn_range){.end = n, .plain = true}; \
        while (name##_none(m + begin, gg_min(n - begin, ATTN_STEP))) begin += ATTN_STEP; \
        while (m[begin] == hidden) begin++; \
        while (end - begin > ATTN_STEP && name##_none(m + end - ATTN_STEP, ATTN_STEP)) end -= ATTN_STEP; \
        while (m[end - 1] == hidden) end--; \
        any = 0; \
        for (int64_t i = begin; i < end; i++) any |= m[i]; \
        return (attn_range){begin, end, !any}; \
    }
ATTN_MASK_RANGE(attn_mask_range_16, uint16_t, 0xfc00)
ATTN_MASK_RANGE(attn_mask_range_32, uint32_t, 0xff800000)
#undef ATTN_MASK_RANGE

/* The range of a row in the block of n keys from `first` on. */
static attn_range attn_range_of(const attn *a, attn_row at, int64_t first, int64_t n, float *tmp) {
    const ggml_tensor *const m = a->mask;
    if (m && m->type == GGML_TYPE_F16 && m->nb[0] == sizeof(uint16_t))
        return attn_mask_range_16((const uint16_t *)gg_element_ptr(m, at.query, at.head % m->ne[2],
                                                                   at.batch % m->ne[3], first), n);
    if (m) return attn_mask_range_32((const uint32_t *)attn_mask(a, at, first, n, tmp), n);
    attn_range range = {.end = n, .plain = true};
    if (a->causal) range.end = gg_max(gg_min(attn_seen(a, at) - first, n), 0);
    if (a->window) range.begin = gg_min(gg_max(attn_begin(a, at) - first, 0), range.end);
    return range;
}
/* Narrows keys first .. first+n-1 to those from `lo` to `hi`; false: there is none. Sums of weights do not change,
 * because ATTN_STEP keys are left out at a time. */
static bool attn_narrow_to(int64_t lo, int64_t hi, int64_t *first, int64_t *n) {
    if (lo >= hi) return false;
    lo = lo / ATTN_STEP * ATTN_STEP, hi = gg_min(gg_ceil_div(hi, ATTN_STEP) * ATTN_STEP, *n);
    *first += lo, *n = hi - lo;
    return true;
}
/* Narrows a block to the keys that one of these rows attends to. */
static bool attn_narrow(const attn *a, int64_t set, int64_t row, int64_t rows, int64_t *first, int64_t *n, float *tmp) {
    int64_t lo = *n, hi = 0;
    for (int64_t r = row + rows - 1; r >= row && (lo > 0 || hi < *n); r--) {      /* the last row often sees most */
        const attn_range range = attn_range_of(a, attn_at(a, set, r), *first, *n, tmp);
        if (range.begin < range.end) lo = gg_min(lo, range.begin), hi = gg_max(hi, range.end);
    }
    return attn_narrow_to(lo, hi, first, n);
}
/* The same for the rows of a tile, whose ranges in the narrowed block it writes. */
static bool attn_narrow_tile(const attn *a, attn_tile *t, int64_t *first, int64_t *n) {
    const int64_t block = *first;
    int64_t lo = *n, hi = 0, last_begin = 0, first_end = *n;
    t->gaps = false;
    for (int64_t r = 0; r < t->n; r++) {
        const attn_range range = attn_range_of(a, t->at[r], *first, *n, t->tmp);
        t->ranges[r] = range;
        if (range.begin >= range.end) continue;
        lo = gg_min(lo, range.begin), hi = gg_max(hi, range.end);
        last_begin = gg_max(last_begin, range.begin), first_end = gg_min(first_end, range.end);
        t->gaps = t->gaps || !range.plain;
    }
    t->gaps = t->gaps || last_begin > first_end;
    if (!attn_narrow_to(lo, hi, first, n)) return false;
    for (int64_t r = 0; r < t->n && *first > block; r++)
        t->ranges[r].begin -= *first - block, t->ranges[r].end -= *first - block;
    return true;
}

/* ---- panels ------------------------------------------------------------------------------------------------------ */
/* Packs vectors of `depth` elements into panels of MR. */
static void attn_pack(const gemm_src *s, int64_t vectors, int64_t depth, float *out) {
    const int64_t step = (int64_t)s->panels * MR, unit = s->panels > 1 ? depth : KC;
    for (int64_t i = 0; i < vectors; i += step)
        for (int64_t k = 0; k < depth; k += unit)
            s->pack(s, i, (int)gg_min(vectors - i, step), k, (int)gg_min(depth - k, unit), out + i * depth + k * MR,
                    MR);
}
static void attn_pack_block(const attn *a, const attn_tile *t, int64_t first, int64_t n) {
    const gemm_src keys = attn_matrix(a, &a->k, 0, t->set, first), values = attn_matrix(a, &a->v, 1, t->set, first);
    attn_pack(&keys, n, a->d, t->keys);
    attn_pack(&values, a->dv, n, t->values);
}
/* Whether a row of the tile attends to key i of the block that begins with key `first`. */
static bool attn_sees(const attn *a, const attn_tile *t, int64_t first, int64_t i) {
    for (int64_t r = 0; r < t->n; r++) {
        const attn_range range = t->ranges[r];
        if (i < range.begin || i >= range.end) continue;
        if (range.plain || *attn_mask(a, t->at[r], first + i, 1, t->tmp) != -GG_INF) return true;
    }
    return false;
}
/* Clears the values of keys that no row attends to where they are infinite or NaN, as in a cache that was not written
 * yet: their weight is 0, and so must their product be. */
static void attn_clear_hidden(const attn *a, const attn_tile *t, int64_t first, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float *const value = t->values + i * MR;
        vf zero = vf_zero();
        for (int64_t p = 0; p < attn_lanes(a->dv); p += VW)
            zero = vf_fma(vf_load(value + p / MR * MR * n + p % MR), vf_zero(), zero);
        if (vm_all(vf_eq(zero, vf_zero())) || attn_sees(a, t, first, i)) continue;
        for (int64_t p = 0; p < attn_lanes(a->dv); p += VW) vf_store(value + p / MR * MR * n + p % MR, vf_zero());
    }
}
/* The first row of a panel of queries; t->n behind the last one. Panels are of even width. */
static inline int64_t attn_panel_row(const attn_tile *t, int64_t panel) {
    return panel * t->width + gg_min(panel, t->wider);
}
static void attn_pack_queries(const attn *a, const attn_tile *t) {
    const gemm_src q = attn_floats(t->q, attn_round(a->d), 1);
    for (int64_t p = 0, r = 0, next; r < t->n; p++, r = next) {
        next = attn_panel_row(t, p + 1);
        attn_take(a, a->q, t->set, t->row + r, next - r, a->factor, t->q);
        for (int64_t k = 0; k < a->d; k += KC)
            q.pack(&q, 0, (int)(next - r), k, (int)gg_min(a->d - k, KC), t->queries + (p * a->d + k) * NR_PAD, NR_PAD);
    }
}

/* ---- strips ------------------------------------------------------------------------------------------------------ */
/* c[j*ldc + i] += the sum over `steps` keys of element i of the value, in a panel, and the weight of row j. */
typedef void (*attn_values_fn)(int64_t steps, const float *panel, const float *weights, float *c, int64_t ldc,
                               int64_t m);
#define ATTN_VALUES(n, v) \
    static void attn_values_##v##_##n(int64_t steps, const float *panel, const float *weights, float *c, \
                                      int64_t ldc, int64_t m) { \
        micro_floats(v, n < NR ? n : NR, 1, ATTN_KEYS, steps, panel, weights, c, ldc, m, true, NULL); \
    }
MICRO_SIZES(ATTN_VALUES, 1)
MICRO_SIZES(ATTN_VALUES, 2)
#undef ATTN_VALUES
#define ATTN_VALUES(n, v) [n] = n <= NR ? attn_values_##v##_##n : NULL,
static const attn_values_fn attn_values_table[][NR_MAX + 1] = {[1] = {MICRO_SIZES(ATTN_VALUES, 1)},
                                                               [2] = {MICRO_SIZES(ATTN_VALUES, 2)}};
#undef ATTN_VALUES

#include "attention_few.h"
/* Rows row .. row+rows-1 of a tile, those of panels p0 .. p1-1 of queries, in a block of n keys. They attend to
 * none but keys lo .. hi-1 of it. */
typedef struct attn_strip { int64_t p0, p1, row, rows, n, lo, hi; } attn_strip;

static void attn_scores(const attn *a, const attn_tile *t, const attn_strip *s) {
    for (int64_t i = s->lo / MR * MR; i < s->hi; i += MR) {
        const int64_t m = gg_min(s->n - i, MR);
        for (int64_t p = s->p0, r = s->row, next; p < s->p1; p++, r = next) {
            next = attn_panel_row(t, p + 1);
            micro_table[gg_ceil_div(m, VW)][next - r](&float_panels, a->d, t->keys + i * a->d,
                                                      t->queries + p * a->d * NR_PAD,
                                                      t->s + (r - s->row) * ATTN_KEYS + i, ATTN_KEYS, m, false);
        }
    }
}
static void attn_values(const attn *a, const attn_tile *t, const attn_strip *s) {
    for (int64_t i = 0; i < a->dv; i += MR) {
        const int64_t m = gg_min(a->dv - i, MR);
        for (int64_t p = s->p0, r = s->row, next; p < s->p1; p++, r = next) {
            next = attn_panel_row(t, p + 1);
            attn_values_table[gg_ceil_div(m, VW)][next - r](s->hi - s->lo, t->values + i * s->n + s->lo * MR,
                                                            t->s + (r - s->row) * ATTN_KEYS + s->lo,
                                                            t->out + r * t->ld + i, t->ld, m);
        }
    }
}
/* The same of few rows, run by run of keys that a row attends to, as the others cannot be cleared; first: the block. */
static void attn_few_seen_values(const attn *a, const attn_tile *t, const attn_strip *s, int64_t first) {
    if (!t->gaps) {
        attn_few_values(a, t, first + s->lo, t->s + s->lo, s->hi - s->lo);
        return;
    }
    EACH_VEC(i, s->hi) {
        vi bits = vi_set1(0);
        for (int64_t r = 0; r < s->rows; r++) bits = vi_or(bits, vf_bits(ld(t->s + r * ATTN_KEYS + i, s->hi - i)));
        st(t->any + i, vi_float(bits), s->hi - i);
    }
    for (int64_t i = s->lo, run; i < s->hi; i += run + 1) {
        for (run = 0; i + run < s->hi && t->any[i + run] != 0; run++) {}
        if (run) attn_few_values(a, t, first + i, t->s + i, run);
    }
}

/* exp(x - top); if top is -inf, all x are -inf */
static float attn_exp(float x, float top) { return x == -GG_INF ? 0 : expf(x - top); }

static void attn_fill(float *x, int64_t from, int64_t to, float value) {
    for (int64_t i = from; i < to; i++) x[i] = value;
}
/* The keys of which a row needs weights: those of its range, and beside it up to multiples of ATTN_STEP. */
static attn_range attn_weighed(const attn_strip *s, attn_range range) {
    if (range.begin >= range.end) return (attn_range){s->lo, s->lo, true};
    return (attn_range){range.begin / ATTN_STEP * ATTN_STEP,
                        gg_min(gg_ceil_div(range.end, ATTN_STEP) * ATTN_STEP, s->n), range.plain};
}
/* Turns the scores x of a row into logits; returns the maximum. */
static float attn_row_logits(const attn *a, const attn_tile *t, const attn_strip *s, int64_t r, int64_t first,
                             float *x) {
    const attn_range range = t->ranges[r], all = attn_weighed(s, range);
    const int64_t n = all.end - all.begin;
    if (!n) return -GG_INF;
    if (!range.plain || a->cap != 0)
        return attn_logits(a, t->at[r], first + all.begin, n, x + all.begin, NULL, t->tmp);
    attn_fill(x, all.begin, range.begin, -GG_INF), attn_fill(x, range.end, all.end, -GG_INF);
    return max_row(WHOLE_ROW(n), x + all.begin);
}
/* Raises the maximum of a row, and scales its sum and values so far down. */
static void attn_raise(const attn *a, const attn_tile *t, int64_t r, float top) {
    const float before = t->max[r], fade = attn_exp(before, top);
    t->max[r] = top;
    if (before == -GG_INF) return;                      /* nothing was added yet */
    t->sum[r] *= (double)fade;
    row_times(WHOLE_ROW(a->dv), t->out + r * t->ld, fade, t->out + r * t->ld);
}
/* Turns the scores of a strip into weights. All rows take a step before the next one, as each waits for the last. */
static void attn_weigh(const attn *a, const attn_tile *t, const attn_strip *s, int64_t first) {
    float most[ATTN_STRIP * NR > ATTN_FEW ? ATTN_STRIP * NR : ATTN_FEW];
    for (int64_t i = 0; i < s->rows; i++)
        most[i] = attn_row_logits(a, t, s, s->row + i, first, t->s + i * ATTN_KEYS);
    for (int64_t i = 0; i < s->rows; i++)
        if (most[i] > t->max[s->row + i]) attn_raise(a, t, s->row + i, most[i]);
    for (int64_t i = 0; i < s->rows; i++) {
        const int64_t r = s->row + i;
        const attn_range all = attn_weighed(s, t->ranges[r]);
        const vf top = vf_set1(t->max[r] == -GG_INF ? 0 : t->max[r]);
        float *const x = t->s + i * ATTN_KEYS;
        t->sum[r] += weights_row(WHOLE_ROW(all.end - all.begin), x + all.begin, x + all.begin, top);
        attn_fill(x, s->lo, gg_min(all.begin, s->hi), 0), attn_fill(x, gg_max(all.end, s->lo), s->hi, 0);
    }
}
/* Adds a block of n keys to the rows of panels p0 .. p1-1; first, origin: its first key, and where that is in k and
 * v. */
static void attn_run_strip(const attn *a, const attn_tile *t, int64_t p0, int64_t p1, int64_t first, int64_t origin,
                           int64_t n) {
    attn_strip s = {.p0 = p0, .p1 = p1, .n = n, .lo = n};
    s.row = attn_panel_row(t, p0), s.rows = attn_panel_row(t, p1) - s.row;
    for (int64_t r = s.row; r < s.row + s.rows; r++)
        if (t->ranges[r].begin < t->ranges[r].end)
            s.lo = gg_min(s.lo, t->ranges[r].begin), s.hi = gg_max(s.hi, t->ranges[r].end);
    if (s.lo >= s.hi) return;
    if (t->few) attn_few_scores(a, t, origin, n);
    else attn_scores(a, t, &s);
    attn_weigh(a, t, &s, first);
    if (t->few) attn_few_seen_values(a, t, &s, origin);
    else attn_values(a, t, &s);
}
static void attn_run_tile(attn *a, attn_tile *t, int64_t first, int64_t end) {
    const int64_t panels = t->few ? 1 : gg_ceil_div(t->n, NR);
    t->width = t->n / panels, t->wider = t->n % panels;
    if (t->few) attn_take(a, a->q, t->set, t->row, t->n, a->factor, t->q);
    else attn_pack_queries(a, t);
    attn_row at = attn_at(a, t->set, t->row);
    for (int64_t r = 0; r < t->n; r++, at = attn_after(a, at)) t->at[r] = at, t->max[r] = -GG_INF, t->sum[r] = 0;
    memset(t->out, 0, (size_t)(t->n * t->ld) * sizeof *t->out);
    for (; first < end; first += ATTN_KEYS) {
        int64_t key = first, n = gg_min(end - first, ATTN_KEYS);
        if (!attn_narrow_tile(a, t, &key, &n)) continue;
        if (a->pages) paged_block(a, t->set, key, n);
        if (!t->few) attn_pack_block(a, t, key - a->origin, n);
        if (!t->few && t->gaps) attn_clear_hidden(a, t, key, n);
        for (int64_t p = 0; p < panels; p += ATTN_STRIP)
            attn_run_strip(a, t, p, gg_min(p + ATTN_STRIP, panels), key, key - a->origin, n);
    }
}

#endif
