/* Recurrent operations: SSM_CONV, SSM_SCAN, RWKV_WKV6, RWKV_WKV7, GATED_LINEAR_ATTN, GATED_DELTA_NET; gradients are in
 * recurrent_back.h.
 *
 * All but the first carry a matrix S, one for each head of each sequence, from token to token, and all are cases of
 *     S' = S diag(w) + (S a) b^T + v k^T      y = S' r      (WKV6: y = S r + v (r . (u k)))
 * whose vectors the operation makes from its operands (fill_*). The rows of S do not depend on each other. The result
 * holds y [rows, heads, tokens, sequences], then the last S [., ., heads, sequences]. */
#ifndef GG_OPS_RECURRENT_H
#define GG_OPS_RECURRENT_H
#include "../gemm/pack.h"
#include "rowwise.h"
#include "../runtime/recurrent_layout.h"

enum { SEQ_W, SEQ_K, SEQ_R, SEQ_A, SEQ_B, SEQ_V, SEQ_U, SEQ_VECTORS };
typedef struct { const float *p[SEQ_VECTORS]; } seq_step;      /* of one token; A, B, U: NULL where there are none */
typedef struct { int64_t h, seq, t; const float *dt; } seq_at;  /* dt: of ssm_steps, or NULL */

/* ---- the vectors of a token -------------------------------------------------------------------------------------- */
/* tmp has room for SEQ_VECTORS vectors. */
typedef struct { float *p[SEQ_VECTORS]; } seq_tmp;
typedef void (*seq_fill_fn)(const ggml_tensor *t, const gg_seq *z, seq_at at, seq_tmp tmp, seq_step *s);

static const float *seq_scaled(int64_t n, const float *x, float f, float *y) {
    row_times(WHOLE_ROW(n), x, f, y);
    return y;
}
static float seq_scalar(const ggml_tensor *t, int64_t i0, int64_t i1, int64_t i2) {
    return *(const float *)((const char *)gg_row_ptr(t, i1, i2, 0) + (size_t)i0 * t->nb[0]);
}
/* Operands [n, heads, all tokens]. */
static const float *seq_flat(const ggml_tensor *x, const gg_seq *z, seq_at at, float *tmp) {
    return row_in(x, (row_index){at.h, at.seq * z->tokens + at.t, 0}, tmp);
}
static void fill_wkv6(const ggml_tensor *t, const gg_seq *z, seq_at at, seq_tmp tmp, seq_step *s) {
    s->p[SEQ_K] = seq_flat(t->src[0], z, at, tmp.p[SEQ_K]);
    s->p[SEQ_V] = seq_flat(t->src[1], z, at, tmp.p[SEQ_V]);
    s->p[SEQ_R] = seq_flat(t->src[2], z, at, tmp.p[SEQ_R]);
    s->p[SEQ_U] = row_in(t->src[3], (row_index){at.h, 0, 0}, tmp.p[SEQ_U]);
    s->p[SEQ_W] = seq_flat(t->src[4], z, at, tmp.p[SEQ_W]);
}
static void fill_gla(const ggml_tensor *t, const gg_seq *z, seq_at at, seq_tmp tmp, seq_step *s) {
    s->p[SEQ_K] = seq_flat(t->src[0], z, at, tmp.p[SEQ_K]);
    s->p[SEQ_V] = seq_flat(t->src[1], z, at, tmp.p[SEQ_V]);
    const bool back = t->op == GGML_OP_RECURRENT_BACK;
    const float scale = back ? recurrent_back_params(t)->scale : linear_attention_params(t)->scale;
    s->p[SEQ_R] = seq_scaled(z->n, seq_flat(t->src[2], z, at, tmp.p[SEQ_R]), scale, tmp.p[SEQ_R]);
    s->p[SEQ_W] = seq_flat(t->src[3], z, at, tmp.p[SEQ_W]);
}
static void fill_wkv7(const ggml_tensor *t, const gg_seq *z, seq_at at, seq_tmp tmp, seq_step *s) {
    static const int order[] = {SEQ_R, SEQ_W, SEQ_K, SEQ_V, SEQ_A, SEQ_B};
    for (int i = 0; i < 6; i++) s->p[order[i]] = seq_flat(t->src[i], z, at, tmp.p[order[i]]);
}
/* w = exp(g); v is compared with the decayed state: a = w k, b = -beta k, v = beta v */
static void fill_delta(const ggml_tensor *t, const gg_seq *z, seq_at at, seq_tmp tmp, seq_step *s) {
    const ggml_tensor *g = t->src[3];
    const int64_t n = z->n, hk = at.h % t->src[0]->ne[1];
    const float *k = row_in(t->src[1], (row_index){hk, at.t, at.seq}, tmp.p[SEQ_K]);
    const float *q = row_in(t->src[0], (row_index){hk, at.t, at.seq}, tmp.p[SEQ_R]);
    const float *v = row_in(t->src[2], (row_index){at.h, at.t, at.seq}, tmp.p[SEQ_V]);
    const float *gates = row_in(g, (row_index){at.h, at.t, at.seq}, tmp.p[SEQ_W]);
    const float beta = *(const float *)gg_row_ptr(t->src[4], at.h, at.t, at.seq);
    const bool one = g->ne[0] == 1;
    const vf w1 = v_exp(vf_set1(gates[0]));
    float *w = tmp.p[SEQ_W], *a = tmp.p[SEQ_A];
    EACH_VEC(i, n) {
        const vf wi = one ? w1 : v_exp(ld(gates + i, n - i));
        st(w + i, wi, n - i);
        st(a + i, vf_mul(wi, ld(k + i, n - i)), n - i);
    }
    s->p[SEQ_W] = w, s->p[SEQ_A] = a, s->p[SEQ_K] = k;
    s->p[SEQ_B] = seq_scaled(n, k, -beta, tmp.p[SEQ_B]);
    s->p[SEQ_V] = seq_scaled(n, v, beta, tmp.p[SEQ_V]);
    s->p[SEQ_R] = seq_scaled(n, q, 1 / __builtin_sqrtf((float)n), tmp.p[SEQ_R]);
}
static float seq_softplus(float x) {
    float y[VW];
    vf_store(y, v_softplus(vf_set1(x)));
    return y[0];
}
/* The softplus of dt for as many heads as a vector has lanes, from head h on: one vector for each token. */
static void ssm_steps(const ggml_tensor *dt, const gg_seq *z, int64_t h, int64_t seq, float *steps) {
    const int64_t m = z->heads - h;
    float tmp[VW];
    for (int64_t t = 0; t < z->tokens; t++)
        vf_store(steps + t * VW, v_softplus(ld(gg_row_in(dt, t, seq, 0, h, m < VW ? m : VW, tmp), m)));
}
/* The group of a head, which has B and C. */
static int64_t ssm_group(const ggml_tensor *b, const gg_seq *z, int64_t h) {
    return b->ne[1] == 1 ? 0 : h / (z->heads / b->ne[1]);
}
/* w = exp(dt A), v = dt x, k = B, r = C, with dt = softplus of the operand */
static void fill_ssm(const ggml_tensor *t, const gg_seq *z, seq_at at, seq_tmp tmp, seq_step *s) {
    const ggml_tensor *a = t->src[3], *b = t->src[4];
    const int64_t n = z->n, group = ssm_group(b, z, at.h);
    const float dt = at.dt ? at.dt[at.t * VW] : seq_softplus(seq_scalar(t->src[2], at.h, at.t, at.seq));
    float *const w = tmp.p[SEQ_W];
    const float *rates = row_in(a, (row_index){at.h, 0, 0}, w);
    if (a->ne[0] == 1) {
        const vf w1 = v_exp(vf_set1(dt * rates[0]));
        EACH_VEC(i, n) st(w + i, w1, n - i);
    } else {
        EACH_VEC(i, n) st(w + i, v_exp(vf_mul(vf_set1(dt), ld(rates + i, n - i))), n - i);
    }
    s->p[SEQ_W] = w;
    s->p[SEQ_K] = row_in(b, (row_index){group, at.t, at.seq}, tmp.p[SEQ_K]);
    s->p[SEQ_R] = row_in(t->src[5], (row_index){group, at.t, at.seq}, tmp.p[SEQ_R]);
    s->p[SEQ_V] = seq_scaled(z->rows, row_in(t->src[1], (row_index){at.h, at.t, at.seq}, tmp.p[SEQ_V]), dt,
                             tmp.p[SEQ_V]);
}
static seq_fill_fn seq_fill(int op) {
    switch (op) {
    case GGML_OP_RWKV_WKV6: return fill_wkv6;
    case GGML_OP_RWKV_WKV7: return fill_wkv7;
    case GGML_OP_GATED_LINEAR_ATTN: return fill_gla;
    case GGML_OP_GATED_DELTA_NET: return fill_delta;
    default: return fill_ssm;
    }
}
/* WKV6 and GATED_LINEAR_ATTN store S by columns. */
static bool seq_by_columns(int op) { return op == GGML_OP_RWKV_WKV6 || op == GGML_OP_GATED_LINEAR_ATTN; }

enum { SEQ_ROWS = 4, SEQ_VECS = 4, SEQ_PART = 32 /* least rows of S of a piece; whole vectors */ };

/* ---- a token ----------------------------------------------------------------------------------------------------- */
static inline __attribute__((always_inline)) void seq_sums(const int rows, const vf *x, float *y) {
    if (rows == SEQ_ROWS) vf_hsum4(y, x[0], x[1], x[2], x[3]);
    else for (int q = 0; q < rows; q++) y[q] = vf_hsum(x[q]);
}
/* Updates `rows` rows of S from row j on, to `to`. Together they share loads and the latency of horizontal sums. */
static inline __attribute__((always_inline))
void seq_some_rows(const int rows, int64_t n, const seq_step *v, int64_t j, const float *from, float *to, float *y) {
    const float *w = v->p[SEQ_W], *k = v->p[SEQ_K], *r = v->p[SEQ_R], *a = v->p[SEQ_A], *b = v->p[SEQ_B];
    vf sa[SEQ_ROWS], out[SEQ_ROWS], vj[SEQ_ROWS];
    from += j * n, to += j * n;
    for (int q = 0; q < rows; q++) sa[q] = out[q] = vf_zero(), vj[q] = vf_set1(v->p[SEQ_V][j + q]);
    if (a) {
        EACH_VEC(i, n) {
            const vf ai = ld(a + i, n - i);
            for (int q = 0; q < rows; q++) sa[q] = vf_fma(ld(from + q * n + i, n - i), ai, sa[q]);
        }
        for (int q = 0; q < rows; q++) sa[q] = vf_set1(vf_hsum(sa[q]));
    }
    EACH_VEC(i, n) {
        const int64_t m = n - i;
        const vf wi = ld(w + i, m), ki = ld(k + i, m), ri = ld(r + i, m), bi = a ? ld(b + i, m) : vf_zero();
        for (int q = 0; q < rows; q++) {
            vf s = vf_fma(vj[q], ki, vf_mul(ld(from + q * n + i, m), wi));
            if (a) s = vf_fma(sa[q], bi, s);
            out[q] = vf_fma(st(to + q * n + i, s, m), ri, out[q]);
        }
    }
    seq_sums(rows, out, y + j);
}
/* Rows j to end. */
static void seq_rows(const gg_seq *z, const seq_step *v, int64_t j, int64_t end, const float *from, float *to,
                     float *y) {
    for (; j + SEQ_ROWS <= end; j += SEQ_ROWS) seq_some_rows(SEQ_ROWS, z->n, v, j, from, to, y);
    for (; j < end; j++) seq_some_rows(1, z->n, v, j, from, to, y);
}
static float seq_bonus(const gg_seq *z, const seq_step *v) {   /* r . (u k) */
    vf sum = vf_zero();
    EACH_VEC(i, z->n) {
        const int64_t m = z->n - i;
        sum = vf_fma(vf_mul(ld(v->p[SEQ_R] + i, m), ld(v->p[SEQ_U] + i, m)), ld(v->p[SEQ_K] + i, m), sum);
    }
    return vf_hsum(sum);
}
/* The same for a state stored by columns: `vecs` vectors of rows from row j on, of which m rows are left. */
static inline __attribute__((always_inline))
void seq_some_columns(const int vecs, int64_t m, const gg_seq *z, const seq_step *v, vf bonus, int64_t j,
                      const float *from,
                      float *to, float *y) {
    const bool old = v->p[SEQ_U];
    vf vj[SEQ_VECS], out[SEQ_VECS];
    from += j, to += j;
    for (int q = 0; q < vecs; q++) vj[q] = ld(v->p[SEQ_V] + j + q * VW, m - q * VW), out[q] = vf_mul(bonus, vj[q]);
    for (int64_t i = 0; i < z->n; i++, from += z->rows, to += z->rows) {
        const vf k = vf_set1(v->p[SEQ_K][i]), w = vf_set1(v->p[SEQ_W][i]), r = vf_set1(v->p[SEQ_R][i]);
        for (int q = 0; q < vecs; q++) {
            const vf s = ld(from + q * VW, m - q * VW), next = vf_fma(k, vj[q], vf_mul(s, w));
            out[q] = vf_fma(r, old ? s : next, out[q]);
            st(to + q * VW, next, m - q * VW);
        }
    }
    for (int q = 0; q < vecs; q++) st(y + j + q * VW, out[q], m - q * VW);
}
static void seq_columns(const gg_seq *z, const seq_step *v, int64_t j, int64_t end, const float *from, float *to,
                        float *y) {
    const vf bonus = vf_set1(v->p[SEQ_U] ? seq_bonus(z, v) : 0);
    for (; j + SEQ_VECS * VW <= end; j += SEQ_VECS * VW)
        seq_some_columns(SEQ_VECS, SEQ_VECS * VW, z, v, bonus, j, from, to, y);
    for (; j < end; j += VW) seq_some_columns(1, end - j, z, v, bonus, j, from, to, y);
}

#include "recurrent_tokens.h"

/* ---- the operations ---------------------------------------------------------------------------------------------- */
static seq_tmp seq_split(float *p, int64_t room) {
    seq_tmp t;
    for (int i = 0; i < SEQ_VECTORS; i++) t.p[i] = p + i * room;
    return t;
}
static int64_t seq_room(const gg_seq *z) { return ((z->n > z->rows ? z->n : z->rows) + 15) / 16 * 16; }

/* The initial state of a sequence: selected by ids (SSM_SCAN), otherwise in order. */
static int seq_first_state(const gg_seq *z, const ggml_tensor *dst, int64_t seq, int64_t *first) {
    *first = z->ids ? *(const int32_t *)((const char *)z->ids->data + (size_t)seq * z->ids->nb[0]) : seq;
    if (*first >= 0 && *first < z->states) return GGML_STATUS_SUCCESS;
    return gg_fail(dst, "ids[%lld] is %lld: there are %lld states", (long long)seq, (long long)*first,
                   (long long)z->states);
}
static const float *seq_state_in(const gg_seq *z, int64_t which, int64_t h) {
    return (const float *)z->state->data + (which * z->heads + h) * z->n * z->rows;
}
/* Where there are fewer tokens than slots. from: the initial state; last: the first slot; both of one head. */
static void seq_unused_slots(const gg_seq *z, const float *from, float *last) {
    const int64_t size = z->n * z->rows, items = z->heads * z->seqs;
    for (int64_t slot = z->tokens; slot < z->slots; slot++) {
        if (slot) memset(last + slot * items * size, 0, (size_t)size * sizeof *last);
        else memcpy(last, from, (size_t)size * sizeof *last);
    }
}
/* Rows j to end of item u (one head of one sequence), through all tokens. own: room for a state and vectors. */
static int seq_item(ggml_tensor *dst, const gg_seq *z, int64_t u, int64_t j, int64_t end, float *own, const float *dt) {
    const seq_fill_fn fill = seq_fill(dst->op);
    const int64_t room = seq_room(z), size = z->n * z->rows, items = z->heads * z->seqs,
        ys = z->rows * items * z->tokens;
    float *const last = (float *)dst->data + ys + u * size;            /* the latest of the kept states */
    seq_at at = {u % z->heads, u / z->heads, 0, dt};
    int64_t first;
    const int status = seq_first_state(z, dst, at.seq, &first);
    if (status != GGML_STATUS_SUCCESS) return status;
    const float *from = seq_state_in(z, first, at.h);
    for (int64_t now = 1; at.t < z->tokens; at.t += now) {
        const int64_t slot = z->tokens - 1 - at.t;
        float *const to = slot < z->slots ? last + slot * items * size : own;
        float *y = (float *)dst->data + ((at.seq * z->tokens + at.t) * z->heads + at.h) * z->rows;
        seq_step s[SEQ_TOKENS] = {{{NULL}}};
        now = gg_max(seq_together(dst, z, slot + 1 - z->slots), 1);
        for (int64_t i = 0; i < now; i++) {
            const seq_at token = {at.h, at.seq, at.t + i, dt};
            fill(dst, z, token, seq_split(own + size + i * SEQ_VECTORS * room, room), &s[i]);
        }
        if (now > 1) seq_rows_of_tokens(z, now, s, j, end, from, to, y);
        else if (seq_by_columns(dst->op)) seq_columns(z, s, j, end, from, to, y);
        else seq_rows(z, s, j, end, from, to, y);
        from = to;
    }
    if (j == 0) seq_unused_slots(z, from, last);
    return GGML_STATUS_SUCCESS;
}
#include "recurrent_lanes.h"

/* With few heads, the rows of each are split. */
static int seq_run(const gg_work *w, ggml_tensor *dst) {
    const gg_seq z = gg_seq_of(dst, dst->op);
    const int64_t items = z.heads * z.seqs, blocks = (z.rows + SEQ_PART - 1) / SEQ_PART;
    int64_t parts = w->nth > 1 && items && items < 4 * w->nth ? (4 * w->nth + items - 1) / items : 1;
    if (parts > blocks) parts = blocks;
    const bool ssm = dst->op == GGML_OP_SSM_SCAN;
    const int64_t together = gg_max(seq_together(dst, &z, z.tokens), 1);
    const int64_t room = together * SEQ_VECTORS * seq_room(&z) + z.n * z.rows;
    float *const own = gg_scratch((size_t)(room + (ssm ? z.tokens * VW : 0)) * sizeof *own), *const steps = own + room;
    if (!own) return no_memory(dst);
    int64_t known = -1;                                   /* the first head of `steps` */
    for (int64_t u0, u1; gg_claim_chunk(w, items * parts, 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t item = u / parts, part = u % parts;
            const int64_t j = blocks * part / parts * SEQ_PART, end = blocks * (part + 1) / parts * SEQ_PART;
            const int64_t h = item % z.heads, lane = h % VW;
            if (ssm && known != item - lane) {
                ssm_steps(dst->src[2], &z, h - lane, item / z.heads, steps);
                known = item - lane;
            }
            const int status = seq_item(dst, &z, item, j, end < z.rows ? end : z.rows, own, ssm ? steps + lane : NULL);
            if (status != GGML_STATUS_SUCCESS) return status;
        }
    return GGML_STATUS_SUCCESS;
}
#define SEQ_OP(NAME) static int op_##NAME(const gg_work *w, ggml_tensor *dst) { return seq_run(w, dst); }
SEQ_OP(RWKV_WKV6) SEQ_OP(RWKV_WKV7) SEQ_OP(GATED_LINEAR_ATTN) SEQ_OP(GATED_DELTA_NET)
static int op_SSM_SCAN(const gg_work *w, ggml_tensor *dst) {
    const gg_seq z = gg_seq_of(dst, dst->op);
    return ssm_in_lanes(dst, &z) ? ssm_lanes_run(w, dst, &z) : seq_run(w, dst);
}

/* ---- SSM_CONV: a convolution along each row of sx, [taps - 1 + tokens, channels, sequences] ---------------------- */
/* VW channels at a time, transposed so that they are contiguous, as in the result. */
static void conv_channels(const ggml_tensor *dst, int64_t c0, int64_t n, int64_t seq, float *x, float *f) {
    const ggml_tensor *sx = dst->src[0], *c = dst->src[1];
    const int64_t taps = c->ne[0], tokens = dst->ne[1];
    const bool along = sx->nb[0] == sizeof(float), across = sx->nb[1] == sizeof(float);
    if (n == VW && (along || across) && c->nb[0] == sizeof(float)) {
        const float *row[VW], *taps_of[VW];
        const char *const first = gg_row_ptr(sx, c0, seq, 0);
        for (int i = 0; i < VW; i++) {
            row[i] = (const float *)(first + (size_t)i * sx->nb[1]);
            taps_of[i] = (const float *)gg_row_ptr(c, c0 + i, 0, 0);
        }
        if (along) pack_transpose(row, sx->ne[0], x, VW);
        else for (int64_t t = 0; t < sx->ne[0]; t++)
            vf_store(x + t * VW, vf_load((const float *)(first + (size_t)t * sx->nb[0])));
        pack_transpose(taps_of, taps, f, VW);
    } else for (int64_t lane = 0; lane < n; lane++) {
        const char *from = gg_row_ptr(sx, c0 + lane, seq, 0), *taps_of = gg_row_ptr(c, c0 + lane, 0, 0);
        for (int64_t t = 0; t < sx->ne[0]; t++) x[t * VW + lane] = *(const float *)(from + (size_t)t * sx->nb[0]);
        for (int64_t i = 0; i < taps; i++) f[i * VW + lane] = *(const float *)(taps_of + (size_t)i * c->nb[0]);
    }
    for (int64_t t = 0; t < tokens; t++) {
        vf sum = vf_zero();
        for (int64_t i = 0; i < taps; i++) sum = vf_fma(vf_load(x + (t + i) * VW), vf_load(f + i * VW), sum);
        st((float *)gg_row_ptr(dst, t, seq, 0) + c0, sum, n);
    }
}
static int op_SSM_CONV(const gg_work *w, ggml_tensor *dst) {
    const int64_t length = dst->src[0]->ne[0], taps = dst->src[1]->ne[0], channels = dst->ne[0],
        blocks = (channels + VW - 1) / VW;
    const size_t size = (size_t)((length + taps) * VW) * sizeof(float);
    float *const x = gg_scratch(size);
    if (!x) return no_memory(dst->src[0]);
    memset(x, 0, size);                                   /* lanes without a channel are computed, but not stored */
    for (int64_t u0, u1; gg_claim_chunk(w, blocks * dst->ne[2], 4096 / (length * VW + 1) + 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t c0 = u % blocks * VW;
            conv_channels(dst, c0, channels - c0 < VW ? channels - c0 : VW, u / blocks, x, x + length * VW);
        }
    return GGML_STATUS_SUCCESS;
}

#include "recurrent_back.h"

#endif
