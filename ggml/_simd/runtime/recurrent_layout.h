/* The sizes of recurrent operations, for their checks and kernels. */
#ifndef GG_RECURRENT_LAYOUT_H
#define GG_RECURRENT_LAYOUT_H
#include "engine.h"

typedef struct gg_seq {
    int64_t rows, n, heads, tokens, seqs;   /* rows of the state S, their length n, heads, tokens of a sequence */
    int64_t states, slots;                  /* initial states; final states that are kept, the latest first */
    const ggml_tensor *state, *ids;         /* ids: the initial state of each sequence, or NULL */
} gg_seq;

static inline gg_seq gg_seq_of(const ggml_tensor *t, int op) {
    gg_seq z = {.slots = 1};
    const bool back = t->op == GGML_OP_RECURRENT_BACK;
    const int32_t n_states = back ? recurrent_back_params(t)->n_states : recurrent_params(t)->n_states;
    ggml_tensor *const *const src = t->src;
    if (op == GGML_OP_SSM_SCAN) {           /* s [n, rows, heads, states], x [rows, heads, tokens, sequences] */
        z.state = src[0], z.ids = src[6];
        z.n = src[0]->ne[0], z.rows = src[0]->ne[1], z.heads = src[0]->ne[2], z.states = src[0]->ne[3];
        z.tokens = src[1]->ne[2], z.seqs = src[1]->ne[3], z.slots = n_states;
    } else if (op == GGML_OP_GATED_DELTA_NET) {
        z.state = src[5], z.slots = n_states;
        z.n = src[0]->ne[0], z.rows = src[2]->ne[0], z.heads = src[2]->ne[1], z.tokens = src[2]->ne[2];
        z.states = z.seqs = src[2]->ne[3];
    } else {                                /* operands [n, heads, all tokens], state [n n heads, sequences] */
        z.state = src[op == GGML_OP_GATED_LINEAR_ATTN ? 4 : op == GGML_OP_RWKV_WKV6 ? 5 : 6];
        z.n = z.rows = src[0]->ne[0], z.heads = src[0]->ne[1], z.states = z.seqs = z.state->ne[1];
        z.tokens = z.seqs ? src[0]->ne[2] / z.seqs : 0;
    }
    return z;
}

/* Elements of the result of SSM_SCAN, and rows of that of GATED_DELTA_NET; INT64_MAX on overflow. */
static inline int64_t gg_ssm_scan_elements(const ggml_tensor *s, const ggml_tensor *x, int64_t slots) {
    const int64_t state = gg_count(gg_count(s->ne[0], s->ne[1]), s->ne[2]);
    return gg_sum(gg_nelements(x), gg_count(gg_count(state, x->ne[3]), slots));
}
static inline int64_t gg_delta_net_rows(const ggml_tensor *v, int64_t slots) {
    return gg_sum(gg_count(v->ne[2], v->ne[3]), gg_count(gg_count(v->ne[0], v->ne[3]), slots));
}

/* ---- RECURRENT_BACK: the operands and parameters of the operation, and the gradient of its result ---------------- */
enum { GG_SEQ_GRADIENT = 9 };            /* the source that is the gradient */

static inline int gg_seq_state_index(int op) {
    return op == GGML_OP_SSM_SCAN ? 0 : op == GGML_OP_GATED_LINEAR_ATTN ? 4 : op == GGML_OP_RWKV_WKV7 ? 6 : 5;
}
/* The number of operands with gradients. */
static inline int gg_seq_operands(int op) { return op == GGML_OP_SSM_SCAN ? 6 : gg_seq_state_index(op) + 1; }
/* Elements of the gradient of operand i for one head: of each token if *each, otherwise of the sequence. */
static inline int64_t gg_seq_width(const ggml_tensor *t, const gg_seq *z, int op, int i, bool *each) {
    *each = i != gg_seq_state_index(op) && !(op == GGML_OP_RWKV_WKV6 && i == 3) && !(op == GGML_OP_SSM_SCAN && i == 3);
    if (i == gg_seq_state_index(op)) return gg_count(z->n, z->rows);
    if (op == GGML_OP_SSM_SCAN) return i == 1 ? z->rows : i == 2 ? 1 : i == 3 ? t->src[3]->ne[0] : z->n;
    if (op == GGML_OP_GATED_DELTA_NET && i >= 3) return i == 3 ? t->src[3]->ne[0] : 1;
    return z->n;
}
static inline int64_t gg_seq_elements(const ggml_tensor *t, const gg_seq *z, int op, int i) {
    bool each;
    const int64_t width = gg_seq_width(t, z, op, i, &each);
    return gg_count(gg_count(gg_count(width, z->heads), z->seqs), each ? z->tokens : 1);
}

#endif
