/* The sizes of a recurrent operation, for its check and its kernel. */
#ifndef GG_RECURRENT_LAYOUT_H
#define GG_RECURRENT_LAYOUT_H
#include "engine.h"

typedef struct gg_seq {
    int64_t rows, n, heads, tokens, seqs;   /* rows of S and their length, heads, tokens of a sequence, sequences */
    int64_t states, slots;                  /* first states to choose from; last states that are kept, the latest first */
    const ggml_tensor *state, *ids;         /* ids: NULL, or which first state each sequence has */
} gg_seq;

static inline gg_seq gg_seq_of(const ggml_tensor *t, int op) {
    gg_seq z = {.slots = 1};
    ggml_tensor *const *const src = t->src;
    if (op == GGML_OP_SSM_SCAN) {           /* s [n, rows, heads, states], x [rows, heads, tokens, sequences] */
        z.state = src[0], z.ids = src[6];
        z.n = src[0]->ne[0], z.rows = src[0]->ne[1], z.heads = src[0]->ne[2], z.states = src[0]->ne[3];
        z.tokens = src[1]->ne[2], z.seqs = src[1]->ne[3];
    } else if (op == GGML_OP_GATED_DELTA_NET) {
        z.state = src[5], z.slots = t->op_params[0];
        z.n = src[0]->ne[0], z.rows = src[2]->ne[0], z.heads = src[2]->ne[1], z.tokens = src[2]->ne[2], z.states = z.seqs = src[2]->ne[3];
    } else {                                /* operands [n, heads, tokens of all sequences], state [n n heads, sequences] */
        z.state = src[op == GGML_OP_GATED_LINEAR_ATTN ? 4 : op == GGML_OP_RWKV_WKV6 ? 5 : 6];
        z.n = z.rows = src[0]->ne[0], z.heads = src[0]->ne[1], z.states = z.seqs = z.state->ne[1];
        z.tokens = z.seqs ? src[0]->ne[2] / z.seqs : 0;
    }
    return z;
}

#endif
