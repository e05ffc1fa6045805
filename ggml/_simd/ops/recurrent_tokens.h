/* Several tokens at a time, of states that change by S' = S w + v k^T with a number w (Mamba 2): a block of S stays in
 * registers while the tokens pass. Sums have the terms of seq_some_rows in the same order, and so the same bits. */
#ifndef GG_OPS_RECURRENT_TOKENS_H
#define GG_OPS_RECURRENT_TOKENS_H

enum {
    SEQ_TOKENS = 16,                    /* tokens, whose vectors stay in L1 */
    SEQ_WIDE = NR > 6 ? 4 : 2,          /* vectors of a block of SEQ_ROWS rows: the registers of the ISA hold them */
};

/* How many of the next `left` tokens, of which no state is kept, are taken together; 0: none. */
static int64_t seq_together(const ggml_tensor *t, const gg_seq *z, int64_t left) {
    const bool fits = t->op == GGML_OP_SSM_SCAN && t->src[3]->ne[0] == 1 && z->n % VW == 0 && z->n > 0;
    return fits ? gg_max(gg_min(left, SEQ_TOKENS), 0) : 0;
}
/* A block of `vecs` vectors, from element i on, of rows j, j + 1, ...; sums: those so far of each token and row, none
 * where i is 0. */
static inline __attribute__((always_inline))
void seq_block(const int rows, const int vecs, int64_t n, int64_t tokens, const seq_step *v, int64_t j, int64_t i,
               const float *from, float *to, float sums[][SEQ_ROWS][VW]) {
    vf s[SEQ_ROWS][SEQ_WIDE];
    GG_UNROLL for (int q = 0; q < rows; q++)
        GG_UNROLL for (int p = 0; p < vecs; p++) s[q][p] = vf_load(from + (j + q) * n + i + p * VW);
    for (int64_t t = 0; t < tokens; t++) {
        const float *const k = v[t].p[SEQ_K] + i, *const r = v[t].p[SEQ_R] + i, *const x = v[t].p[SEQ_V] + j;
        const vf w = vf_set1(v[t].p[SEQ_W][0]);
        GG_UNROLL for (int q = 0; q < rows; q++) {
            const vf xq = vf_set1(x[q]);
            vf sum = i ? vf_load(sums[t][q]) : vf_zero();
            GG_UNROLL for (int p = 0; p < vecs; p++) {
                s[q][p] = vf_fma(xq, vf_load(k + p * VW), vf_mul(s[q][p], w));
                sum = vf_fma(s[q][p], vf_load(r + p * VW), sum);
            }
            vf_store(sums[t][q], sum);
        }
    }
    GG_UNROLL for (int q = 0; q < rows; q++)
        GG_UNROLL for (int p = 0; p < vecs; p++) vf_store(to + (j + q) * n + i + p * VW, s[q][p]);
}
static inline __attribute__((always_inline))
void seq_rows_through(const int rows, const gg_seq *z, int64_t tokens, const seq_step *v, int64_t j, const float *from,
                      float *to, float *y) {
    float sums[SEQ_TOKENS][SEQ_ROWS][VW] __attribute__((aligned(64)));
    int64_t i = 0;
    for (; i + SEQ_WIDE * VW <= z->n; i += SEQ_WIDE * VW)
        seq_block(rows, SEQ_WIDE, z->n, tokens, v, j, i, from, to, sums);
    for (; i < z->n; i += VW) seq_block(rows, 1, z->n, tokens, v, j, i, from, to, sums);
    for (int64_t t = 0; t < tokens; t++, y += z->heads * z->rows) {
        vf x[SEQ_ROWS];
        for (int q = 0; q < rows; q++) x[q] = vf_load(sums[t][q]);
        seq_sums(rows, x, y + j);
    }
}
/* Rows j to end; y: of the first token. */
static void seq_rows_of_tokens(const gg_seq *z, int64_t tokens, const seq_step *v, int64_t j, int64_t end,
                               const float *from, float *to, float *y) {
    for (; j + SEQ_ROWS <= end; j += SEQ_ROWS) seq_rows_through(SEQ_ROWS, z, tokens, v, j, from, to, y);
    for (; j < end; j++) seq_rows_through(1, z, tokens, v, j, from, to, y);
}

#endif
