/* SSM_SCAN of heads that have one row (Mamba 1): a vector holds one element of the state of as many heads as it has
 * lanes. The states are transposed when they are read and when they are kept. */
#ifndef GG_OPS_RECURRENT_LANES_H
#define GG_OPS_RECURRENT_LANES_H

/* Heads from h on, of one sequence; `lanes` of them exist. */
typedef struct { int64_t h, lanes, seq; } ssm_heads;
typedef struct { float *state, *rates, *b, *c, *steps; } ssm_lane_tmp;      /* state and rates: [n][VW] */

/* The heads of a vector have the same B and C. */
static bool ssm_in_lanes(const ggml_tensor *dst, const gg_seq *z) {
    const int64_t groups = dst->src[4]->ne[1];
    return z->rows == 1 && z->n > 0 && (groups == 1 || z->heads / groups % VW == 0);
}
static vf ssm_lane_x(const ggml_tensor *x, ssm_heads at, int64_t t) {
    if (gg_row_direct(x) && x->nb[1] == sizeof(float))
        return ld((const float *)gg_row_ptr(x, at.h, t, at.seq), at.lanes);
    float values[VW] = {0}, one;
    for (int64_t lane = 0; lane < at.lanes; lane++) values[lane] = *gg_row_in(x, at.h + lane, t, at.seq, 0, 1, &one);
    return vf_load(values);
}
static void ssm_lane_rates(const ggml_tensor *a, ssm_heads at, float *tmp, float *rates) {
    memset(rates, 0, (size_t)(a->ne[0] * VW) * sizeof *rates);
    for (int64_t lane = 0; lane < at.lanes; lane++) {
        const float *row = row_in(a, (row_index){at.h + lane, 0, 0}, tmp);
        for (int64_t i = 0; i < a->ne[0]; i++) rates[i * VW + lane] = row[i];
    }
}
/* from: of head at.h; [n] for each head */
static void ssm_lanes_in(int64_t n, ssm_heads at, const float *from, float *state) {
    const float *row[VW];
    for (int64_t lane = 0; lane < VW; lane++) row[lane] = from + (lane < at.lanes ? lane : 0) * n;
    pack_transpose(row, n, state, VW);
}
static void ssm_lanes_out(int64_t n, ssm_heads at, const float *state, float *to) {
    int64_t i = 0;
    for (; at.lanes == VW && i + VW <= n; i += VW) {
        const float *row[VW];
        for (int64_t q = 0; q < VW; q++) row[q] = state + (i + q) * VW;
        pack_transpose(row, VW, to + i, (int)n);
    }
    for (; i < n; i++)
        for (int64_t lane = 0; lane < at.lanes; lane++) to[lane * n + i] = state[i * VW + lane];
}
static vf ssm_lane_token(int64_t n, bool one_rate, vf dt, vf x, const ssm_lane_tmp *tmp, const float *b,
                         const float *c) {
    const vf step = vf_mul(dt, x);
    vf w = v_exp(vf_mul(dt, vf_load(tmp->rates))), y = vf_zero();
    for (int64_t i = 0; i < n; i++) {
        float *const s = tmp->state + i * VW;
        if (i && !one_rate) w = v_exp(vf_mul(dt, vf_load(tmp->rates + i * VW)));
        const vf next = vf_fma(step, vf_set1(b[i]), vf_mul(vf_load(s), w));
        vf_store(s, next);
        y = vf_fma(next, vf_set1(c[i]), y);
    }
    return y;
}
static int ssm_lanes_item(ggml_tensor *dst, const gg_seq *z, ssm_heads at, const ssm_lane_tmp *tmp) {
    const int64_t n = z->n, items = z->heads * z->seqs, group = ssm_group(dst->src[4], z, at.h);
    float *const y = dst->data, *const last = y + items * z->tokens + (at.seq * z->heads + at.h) * n;
    int64_t first;
    const int status = seq_first_state(z, dst, at.seq, &first);
    if (status != GGML_STATUS_SUCCESS) return status;
    const float *const from = seq_state_in(z, first, at.h);
    ssm_lane_rates(dst->src[3], at, tmp->b, tmp->rates);
    ssm_lanes_in(n, at, from, tmp->state);
    ssm_steps(dst->src[2], z, at.h, at.seq, tmp->steps);
    for (int64_t t = 0; t < z->tokens; t++) {
        const float *b = row_in(dst->src[4], (row_index){group, t, at.seq}, tmp->b);
        const float *c = row_in(dst->src[5], (row_index){group, t, at.seq}, tmp->c);
        const vf sum = ssm_lane_token(n, dst->src[3]->ne[0] == 1, vf_load(tmp->steps + t * VW),
                                      ssm_lane_x(dst->src[1], at, t), tmp, b, c);
        st(y + (at.seq * z->tokens + t) * z->heads + at.h, sum, at.lanes);
        const int64_t slot = z->tokens - 1 - t;
        if (slot < z->slots) ssm_lanes_out(n, at, tmp->state, last + slot * items * n);
    }
    for (int64_t lane = 0; lane < at.lanes; lane++) seq_unused_slots(z, from + lane * n, last + lane * n);
    return GGML_STATUS_SUCCESS;
}
static int ssm_lanes_run(const gg_work *w, ggml_tensor *dst, const gg_seq *z) {
    const int64_t n = z->n, vectors = (z->heads + VW - 1) / VW, room = (n + VW - 1) / VW * VW;
    float *const own = gg_scratch((size_t)(2 * n * VW + 2 * room + z->tokens * VW) * sizeof *own);
    if (!own) return no_memory(dst);
    const ssm_lane_tmp tmp = {own, own + n * VW, own + 2 * n * VW, own + 2 * n * VW + room,
                              own + 2 * n * VW + 2 * room};
    for (int64_t u0, u1; gg_claim_chunk(w, vectors * z->seqs, 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t h = u % vectors * VW, left = z->heads - h;
            const ssm_heads at = {h, left < VW ? left : VW, u / vectors};
            const int status = ssm_lanes_item(dst, z, at, &tmp);
            if (status != GGML_STATUS_SUCCESS) return status;
        }
    return GGML_STATUS_SUCCESS;
}

#endif
