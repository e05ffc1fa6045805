/* Gradients of the recurrent operations. A row of S is computed forwards once, keeping all its states, and then
 * backwards. The gradients of the vectors of a token (w, k, r, a, b, u) are sums over the rows, and seq_chain_* turns
 * them into gradients of the operands. Each head of each sequence writes its own gradients, one operand after another,
 * as gg_seq_width defines; the builder sums those that share an operand. */
#ifndef GG_OPS_RECURRENT_BACK_H
#define GG_OPS_RECURRENT_BACK_H
#include "recurrent.h"
#include <math.h>

/* One head of one sequence. d: the gradients of the vectors of each token; bonus: r . (u k) and its gradient. */
typedef struct {
    const ggml_tensor *t;
    gg_seq z;
    int64_t h, seq, room;
    seq_step *steps;
    seq_tmp *d;
    float *states, *g, *sa, *bonus, *d_bonus;
} seq_back;

static size_t seq_back_floats(const gg_seq *z, int64_t room) {
    return (size_t)(z->tokens * 2 * SEQ_VECTORS * room + (z->tokens + 2) * room + 3 * z->tokens);
}
static bool seq_back_init(seq_back *q, const ggml_tensor *t, int op) {
    q->t = t, q->z = gg_seq_of(t, op), q->room = seq_room(&q->z);
    const int64_t tokens = q->z.tokens;
    char *p = gg_scratch(seq_back_floats(&q->z, q->room) * sizeof(float)
                         + (size_t)tokens * (sizeof(seq_step) + sizeof(seq_tmp)));
    if (!p) return false;
    q->steps = (seq_step *)p, p += (size_t)tokens * sizeof(seq_step);
    q->d = (seq_tmp *)p, p += (size_t)tokens * sizeof(seq_tmp);
    q->states = (float *)p + 2 * SEQ_VECTORS * tokens * q->room;
    q->g = q->states + (tokens + 1) * q->room;
    q->sa = q->g + q->room, q->bonus = q->sa + tokens, q->d_bonus = q->bonus + tokens;
    for (int64_t i = 0; i < tokens; i++) q->d[i] = seq_split((float *)p + (2 * i + 1) * SEQ_VECTORS * q->room, q->room);
    return true;
}
/* The index of element i of row j in a stored S. */
static int64_t seq_element(const gg_seq *z, int op, int64_t j, int64_t i) {
    return seq_by_columns(op) ? i * z->rows + j : j * z->n + i;
}

static void seq_row_forwards(seq_back *q, int64_t j) {
    const int64_t n = q->z.n;
    for (int64_t t = 0; t < q->z.tokens; t++) {
        const float *const *p = q->steps[t].p, *s = q->states + t * q->room;
        float *next = q->states + (t + 1) * q->room;
        q->sa[t] = p[SEQ_A] ? (float)dot_rows(WHOLE_ROW(n), s, p[SEQ_A]) : 0;
        EACH_VEC(i, n) {
            const int64_t m = n - i;
            vf v = vf_fma(vf_set1(p[SEQ_V][j]), ld(p[SEQ_K] + i, m), vf_mul(ld(s + i, m), ld(p[SEQ_W] + i, m)));
            if (p[SEQ_A]) v = vf_fma(vf_set1(q->sa[t]), ld(p[SEQ_B] + i, m), v);
            st(next + i, v, m);
        }
    }
}
/* y[0..n) += f x */
static void seq_add(int64_t n, float f, const float *x, float *y) {
    EACH_VEC(i, n) st(y + i, vf_fma(vf_set1(f), ld(x + i, n - i), ld(y + i, n - i)), n - i);
}
static void seq_add_product(int64_t n, const float *a, const float *b, float *y) {
    EACH_VEC(i, n) st(y + i, vf_fma(ld(a + i, n - i), ld(b + i, n - i), ld(y + i, n - i)), n - i);
}
/* Turns g, the gradient of the row after token t, into that before it. dy: the gradient of y_j. */
static void seq_token_back(seq_back *q, int64_t t, int64_t j, float dy) {
    const int64_t n = q->z.n;
    const float *const *p = q->steps[t].p, *before = q->states + t * q->room, *behind = before + q->room;
    float *const *d = q->d[t].p, *g = q->g;
    const bool old = p[SEQ_U];
    seq_add(n, dy, old ? before : behind, d[SEQ_R]);
    if (!old) seq_add(n, dy, p[SEQ_R], g);
    const float dsa = p[SEQ_A] ? (float)dot_rows(WHOLE_ROW(n), g, p[SEQ_B]) : 0;
    d[SEQ_V][j] = (float)dot_rows(WHOLE_ROW(n), g, p[SEQ_K]) + (old ? dy * q->bonus[t] : 0);
    seq_add(n, p[SEQ_V][j], g, d[SEQ_K]);
    seq_add_product(n, g, before, d[SEQ_W]);
    if (p[SEQ_A]) seq_add(n, q->sa[t], g, d[SEQ_B]), seq_add(n, dsa, before, d[SEQ_A]);
    EACH_VEC(i, n) st(g + i, vf_mul(ld(g + i, n - i), ld(p[SEQ_W] + i, n - i)), n - i);
    if (p[SEQ_A]) seq_add(n, dsa, p[SEQ_A], g);
    if (old) seq_add(n, dy, p[SEQ_R], g), q->d_bonus[t] += dy * p[SEQ_V][j];
}
/* Adds the gradient of row j of a final state in the result. */
static void seq_add_state(seq_back *q, int op, int64_t j, const float *ds) {
    for (int64_t i = 0; i < q->z.n; i++) q->g[i] += ds[seq_element(&q->z, op, j, i)];
}
/* Row j backwards; the gradient of its initial state goes to `state`. */
static void seq_row_backwards(seq_back *q, int op, int64_t j, float *state) {
    const gg_seq *z = &q->z;
    const float *dy = q->t->src[GG_SEQ_GRADIENT]->data;
    const int64_t items = z->heads * z->seqs, size = z->n * z->rows;
    const float *ds = dy + z->rows * items * z->tokens + (q->seq * z->heads + q->h) * size;
    memset(q->g, 0, (size_t)q->room * sizeof *q->g);
    if (!z->tokens) seq_add_state(q, op, j, ds);   /* the state is unchanged */
    for (int64_t t = z->tokens - 1; t >= 0; t--) {
        const int64_t slot = z->tokens - 1 - t;
        if (slot < z->slots) seq_add_state(q, op, j, ds + slot * items * size);
        seq_token_back(q, t, j, dy[((q->seq * z->tokens + t) * z->heads + q->h) * z->rows + j]);
    }
    for (int64_t i = 0; i < z->n; i++) state[seq_element(z, op, j, i)] = q->g[i];
}

/* ---- from the vectors of a token to the operands ----------------------------------------------------------------- */
/* The address of the gradient of operand i for token t, or for the head if the operand has no tokens. */
static float *seq_out(const seq_back *q, ggml_tensor *dst, int op, int i, int64_t t) {
    const gg_seq *z = &q->z;
    float *p = dst->data;
    bool each;
    for (int k = 0; k < i; k++) p += gg_seq_elements(dst, z, op, k);
    const int64_t width = gg_seq_width(dst, z, op, i, &each);
    return p + ((each ? q->seq * z->tokens + t : q->seq) * z->heads + q->h) * width;
}
static void seq_put(const seq_back *q, ggml_tensor *dst, int op, int i, int64_t t, const float *x, float f) {
    bool each;
    seq_scaled(gg_seq_width(dst, &q->z, op, i, &each), x, f, seq_out(q, dst, op, i, t));
}
static void seq_chain_wkv6(seq_back *q, ggml_tensor *dst, int op, int64_t t) {
    static const int order[] = {SEQ_K, SEQ_V, SEQ_R, SEQ_U, SEQ_W};
    const float *const *p = q->steps[t].p, c = q->d_bonus[t];
    float *const *d = q->d[t].p, *du = seq_out(q, dst, op, 3, 0);
    for (int64_t i = 0; i < q->z.n; i++) {
        d[SEQ_R][i] += c * p[SEQ_U][i] * p[SEQ_K][i];
        d[SEQ_K][i] += c * p[SEQ_U][i] * p[SEQ_R][i];
        du[i] += c * p[SEQ_R][i] * p[SEQ_K][i];
    }
    for (int i = 0; i < 5; i++) if (i != 3) seq_put(q, dst, op, i, t, d[order[i]], 1);
}
static void seq_chain_flat(seq_back *q, ggml_tensor *dst, int op, int64_t t) {
    static const int gla[] = {SEQ_K, SEQ_V, SEQ_R, SEQ_W}, wkv7[] = {SEQ_R, SEQ_W, SEQ_K, SEQ_V, SEQ_A, SEQ_B};
    const bool seven = op == GGML_OP_RWKV_WKV7;
    const float scale = recurrent_back_params(dst)->scale;
    for (int i = 0; i < (seven ? 6 : 4); i++)
        seq_put(q, dst, op, i, t, q->d[t].p[(seven ? wkv7 : gla)[i]], !seven && i == 2 ? scale : 1);
}
static void seq_chain_delta(seq_back *q, ggml_tensor *dst, int op, int64_t t) {
    const gg_seq *z = &q->z;
    const float *const *p = q->steps[t].p, beta = *(const float *)gg_row_ptr(dst->src[4], q->h, t, q->seq);
    float *const *d = q->d[t].p, *dg = seq_out(q, dst, op, 3, t), *dv = d[SEQ_V];
    const ggml_tensor *v = dst->src[2];
    const char *vs = gg_row_ptr(v, q->h, t, q->seq);
    const bool one = dst->src[3]->ne[0] == 1;
    double d_beta = 0, sum = 0;
    for (int64_t i = 0; i < z->n; i++) {
        const float w = p[SEQ_W][i], k = p[SEQ_K][i], gate = (d[SEQ_W][i] + d[SEQ_A][i] * k) * w;
        d_beta += (double)dv[i] * (double)*(const float *)(vs + (size_t)i * v->nb[0]) - (double)d[SEQ_B][i] * (double)k;
        d[SEQ_K][i] += d[SEQ_A][i] * w - beta * d[SEQ_B][i];
        if (one) sum += (double)gate;
        else dg[i] = gate;
    }
    if (one) dg[0] = (float)sum;
    seq_put(q, dst, op, 0, t, d[SEQ_R], 1 / __builtin_sqrtf((float)z->n));
    seq_put(q, dst, op, 1, t, d[SEQ_K], 1);
    seq_put(q, dst, op, 2, t, dv, beta);
    *seq_out(q, dst, op, 4, t) = (float)d_beta;
}
static void seq_chain_ssm(seq_back *q, ggml_tensor *dst, int op, int64_t t) {
    const gg_seq *z = &q->z;
    const ggml_tensor *x = dst->src[1], *a = dst->src[3];
    const float *const *p = q->steps[t].p, dt = seq_scalar(dst->src[2], q->h, t, q->seq), soft = seq_softplus(dt);
    float *const *d = q->d[t].p, *da = seq_out(q, dst, op, 3, 0);
    const bool one = a->ne[0] == 1;
    double by_dt = 0, sum = da[0];
    for (int64_t i = 0; i < z->n; i++) {
        const float dw = d[SEQ_W][i] * p[SEQ_W][i];
        by_dt += (double)dw * (double)seq_scalar(a, one ? 0 : i, q->h, 0);
        if (one) sum += (double)(dw * soft);
        else da[i] += dw * soft;
    }
    if (one) da[0] = (float)sum;
    for (int64_t j = 0; j < z->rows; j++)
        by_dt += (double)d[SEQ_V][j] * (double)*(const float *)(gg_row_ptr(x, q->h, t, q->seq) + (size_t)j * x->nb[0]);
    seq_put(q, dst, op, 1, t, d[SEQ_V], soft);
    *seq_out(q, dst, op, 2, t) = (float)(by_dt / (1 + exp(-(double)dt)));
    seq_put(q, dst, op, 4, t, d[SEQ_K], 1);
    seq_put(q, dst, op, 5, t, d[SEQ_R], 1);
}
static void seq_chain(seq_back *q, ggml_tensor *dst, int op, int64_t t) {
    if (op == GGML_OP_RWKV_WKV6) seq_chain_wkv6(q, dst, op, t);
    else if (op == GGML_OP_SSM_SCAN) seq_chain_ssm(q, dst, op, t);
    else if (op == GGML_OP_GATED_DELTA_NET) seq_chain_delta(q, dst, op, t);
    else seq_chain_flat(q, dst, op, t);
}

static int op_RECURRENT_BACK(const gg_work *w, ggml_tensor *dst) {
    const int op = recurrent_back_params(dst)->op;
    seq_back q;
    if (!seq_back_init(&q, dst, op)) return no_memory(dst);
    const gg_seq *z = &q.z;
    const seq_fill_fn fill = seq_fill(op);
    for (int64_t u0, u1; gg_claim_chunk(w, z->heads * z->seqs, 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            q.h = u % z->heads, q.seq = u / z->heads;
            int64_t first;
            const int status = seq_first_state(z, dst, q.seq, &first);
            if (status != GGML_STATUS_SUCCESS) return status;
            for (int64_t t = 0; t < z->tokens; t++) {
                float *const tmp = q.d[t].p[0] - SEQ_VECTORS * q.room;
                q.steps[t] = (seq_step){{NULL}};
                fill(dst, z, (seq_at){q.h, q.seq, t, NULL}, seq_split(tmp, q.room), &q.steps[t]);
                memset(q.d[t].p[0], 0, (size_t)(SEQ_VECTORS * q.room) * sizeof(float));
                q.bonus[t] = q.steps[t].p[SEQ_U] ? seq_bonus(z, &q.steps[t]) : 0;
                q.d_bonus[t] = 0;
            }
            if (op == GGML_OP_RWKV_WKV6 || op == GGML_OP_SSM_SCAN) {      /* tf and A: sums over the tokens */
                bool each;
                memset(seq_out(&q, dst, op, 3, 0), 0, (size_t)gg_seq_width(dst, z, op, 3, &each) * sizeof(float));
            }
            const float *state = seq_state_in(z, first, q.h);
            float *out = seq_out(&q, dst, op, gg_seq_state_index(op), 0);
            for (int64_t j = 0; j < z->rows; j++) {
                for (int64_t i = 0; i < z->n; i++) q.states[i] = state[seq_element(z, op, j, i)];
                seq_row_forwards(&q, j);
                seq_row_backwards(&q, op, j, out);
            }
            for (int64_t t = z->tokens - 1; t >= 0; t--) seq_chain(&q, dst, op, t);
        }
    return GGML_STATUS_SUCCESS;
}

/* SSM_CONV: the gradients of sx, then of c. One thread computes a channel. src: sx, c, gradient of the result. */
static int op_SSM_CONV_BACK(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *x = dst->src[0], *c = dst->src[1], *g = dst->src[2];
    const int64_t taps = c->ne[0], channels = c->ne[1], tokens = g->ne[1], seqs = g->ne[2];
    float *const dc = (float *)dst->data + x->ne[0] * channels * seqs;
    double sums[64];
    for (int64_t c0, c1; gg_claim_chunk(w, channels, 1, &c0, &c1);)
        for (int64_t ch = c0; ch < c1; ch++) {
            for (int64_t i0 = 0; i0 < taps; i0 += 64) {
                const int64_t part = taps - i0 < 64 ? taps - i0 : 64;
                memset(sums, 0, sizeof sums);
                for (int64_t s = 0; s < seqs; s++) {
                    float *dx = (float *)dst->data + (s * channels + ch) * x->ne[0];
                    if (i0 == 0) memset(dx, 0, (size_t)x->ne[0] * sizeof *dx);
                    for (int64_t t = 0; t < tokens; t++) {
                        const float dy = seq_scalar(g, ch, t, s);
                        for (int64_t i = 0; i < part; i++) {
                            dx[t + i0 + i] += dy * seq_scalar(c, i0 + i, ch, 0);
                            sums[i] += (double)dy * (double)seq_scalar(x, t + i0 + i, ch, s);
                        }
                    }
                }
                for (int64_t i = 0; i < part; i++) dc[ch * taps + i0 + i] = (float)sums[i];
            }
        }
    return GGML_STATUS_SUCCESS;
}

#endif
