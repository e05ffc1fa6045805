/* Conditions of products by index and of recurrent operations; part of checks.c, whose macros it uses. */
#include "../runtime/recurrent_layout.h"

static const char *need_ids(const ggml_tensor *ids, const ggml_tensor *rows, char *msg) {
    WANT(ids->type == GGML_TYPE_I32, "ids is %s: need i32", S(ids));
    WANT(ids->ne[2] == 1 && ids->ne[3] == 1 && rows->ne[3] == 1 && ids->ne[1] == rows->ne[2],
         "ids is %s, b is %s: need a row of indices for each of b's ne[2] tokens", S(ids), S(rows));
    WANT(multiple(ids->ne[0], rows->ne[1]),
         "ids is %s, b is %s: ids.ne[0] must be a multiple of b.ne[1]", S(ids), S(rows));
    return NULL;
}
CK check_MUL_MAT_ID(const ggml_tensor *t, char *msg) {
    const int along = t->op == GGML_OP_MUL_MAT_ID_BACK;
    NEED(3);   /* src: as, b, ids */
    const ggml_tensor *ids = t->src[2];
    WANT(A->ne[3] == 1, "as is %s: need three dimensions", S(A));
    WANT(gg_is_float(A->type) || gg_types[A->type].quantized, "as is %s: need a float or quantised type", S(A));
    FLOATS(B, "b");
    WANT(A->ne[along] == B->ne[0], "as is %s, b is %s: as.ne[%d] must be b.ne[0]", S(A), S(B), along);
    const char *bad = need_ids(ids, B, msg);
    if (bad) return bad;
    F32(t, "result");
    WANT(t->ne[0] == A->ne[!along] && t->ne[1] == ids->ne[0] && t->ne[2] == B->ne[2] && t->ne[3] == 1,
         "result is %s, as is %s, b is %s", S(t), S(A), S(B));
    return NULL;
}
CK check_MUL_MAT_ID_BACK_AS(const ggml_tensor *t, char *msg) {
    NEED(3);   /* src: b, gradient, ids */
    const ggml_tensor *ids = t->src[2];
    FLOATS(A, "b");
    FLOATS(B, "gradient");
    const char *bad = need_ids(ids, A, msg);
    if (bad) return bad;
    F32(t, "result");
    WANT(t->ne[0] == A->ne[0] && t->ne[1] == B->ne[0] && t->ne[3] == 1 && B->ne[1] == ids->ne[0] && B->ne[2] == ids->ne[1] && B->ne[3] == 1,
         "result is %s, b is %s, gradient is %s", S(t), S(A), S(B));
    return NULL;
}

/* ---- recurrent operations: the operands as in the constructors --------------------------------------------------------- */
static const char *all_f32(const ggml_tensor *t, int n, const char *const names[], char *msg) {
    NEED(n);
    for (int i = 0; i < n; i++) WANT(t->src[i]->type == GGML_TYPE_F32, "%s is %s: need f32", names[i], S(t->src[i]));
    F32(t, "result");
    WANT(gg_contiguous(t), "result is %s: need a contiguous tensor", S(t));
    return NULL;
}
static bool has_ne(const ggml_tensor *t, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    return t->ne[0] == ne0 && t->ne[1] == ne1 && t->ne[2] == ne2 && t->ne[3] == ne3;
}
#define WANT_NE(t, name, ne0, ne1, ne2, ne3) \
    WANT(has_ne(t, ne0, ne1, ne2, ne3), name " is %s: need [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", S(t), \
         (int64_t)(ne0), (int64_t)(ne1), (int64_t)(ne2), (int64_t)(ne3))

/* k and what has its shape, then the state; WKV6's tf is [n, heads]. */
static const char *flat_sequences(const ggml_tensor *t, int n, const char *const names[], char *msg) {
    const char *bad = all_f32(t, n, names, msg);
    if (bad) return bad;
    const ggml_tensor *state = t->src[n - 1];
    const int64_t size = A->ne[0], heads = A->ne[1], tokens = A->ne[2], seqs = state->ne[1];
    WANT(A->ne[3] == 1, "%s is %s: need three dimensions", names[0], S(A));
    for (int i = 1; i < n - 1; i++) {
        const bool tf = t->op == GGML_OP_RWKV_WKV6 && i == 3;
        WANT(has_ne(t->src[i], size, heads, tf ? 1 : tokens, 1), "%s is %s, %s is %s: %s", names[i], S(t->src[i]), names[0], S(A),
             tf ? "need [n, heads]" : "shapes must be equal");
    }
    WANT(multiple(tokens, seqs),
         "%s is %s, state is %s: the tokens must be a multiple of the sequences", names[0], S(A), S(state));
    WANT_NE(state, "state", size * size * heads, seqs, 1, 1);
    WANT(gg_contiguous(state), "state is %s: need a contiguous tensor", S(state));
    WANT_NE(t, "result", size * heads, tokens + size * seqs, 1, 1);
    return NULL;
}
CK check_RWKV_WKV6(const ggml_tensor *t, char *msg) {
    return flat_sequences(t, 6, (const char *const[]){"k", "v", "r", "tf", "td", "state"}, msg);
}
CK check_RWKV_WKV7(const ggml_tensor *t, char *msg) {
    return flat_sequences(t, 7, (const char *const[]){"r", "w", "k", "v", "a", "b", "state"}, msg);
}
CK check_GATED_LINEAR_ATTN(const ggml_tensor *t, char *msg) {
    return flat_sequences(t, 5, (const char *const[]){"k", "v", "q", "g", "state"}, msg);
}
CK check_GATED_DELTA_NET(const ggml_tensor *t, char *msg) {
    static const char *const names[] = {"q", "k", "v", "g", "beta", "state"};
    const char *bad = all_f32(t, 6, names, msg);
    if (bad) return bad;
    const ggml_tensor *v = t->src[2], *g = t->src[3], *state = t->src[5];
    const int64_t n = v->ne[0], heads = v->ne[1], tokens = v->ne[2], seqs = v->ne[3], slots = t->op_params[0];
    WANT(slots >= 1, "K is %" PRId64 ": need 1 or more", slots);
    WANT(A->ne[0] == n && multiple(heads, A->ne[1]) && A->ne[2] == tokens && A->ne[3] == seqs,
         "q is %s, v is %s: need equal dimensions, v's heads a multiple of q's", S(A), S(v));
    WANT(gg_same_shape(A, B), "q is %s, k is %s: shapes must be equal", S(A), S(B));
    WANT(n > 0 && (g->ne[0] == 1 || g->ne[0] == n),
         "g is %s, v is %s: g needs one gate a head, or as many as v has elements", S(g), S(v));
    WANT_NE(g, "g", g->ne[0], heads, tokens, seqs);
    WANT_NE(t->src[4], "beta", 1, heads, tokens, seqs);
    WANT_NE(state, "state", n, n, heads, seqs);
    WANT(gg_contiguous(state), "state is %s: need a contiguous tensor", S(state));
    WANT_NE(t, "result", n * heads, tokens * seqs + n * seqs * slots, 1, 1);
    return NULL;
}
CK check_SSM_SCAN(const ggml_tensor *t, char *msg) {
    static const char *const names[] = {"s", "x", "dt", "A", "B", "C"};
    const char *bad = all_f32(t, 6, names, msg);
    if (bad) return bad;
    NEED(7);
    const ggml_tensor *a = t->src[3], *b = t->src[4], *ids = t->src[6];
    const int64_t n = A->ne[0], rows = A->ne[1], heads = A->ne[2], tokens = B->ne[2], seqs = B->ne[3];
    WANT(n > 0 && (a->ne[0] == 1 || a->ne[0] == n), "A is %s, s is %s: A.ne[0] must be 1 or s.ne[0]", S(a), S(A));
    WANT_NE(B, "x", rows, heads, tokens, seqs);
    WANT_NE(t->src[2], "dt", heads, tokens, seqs, 1);
    WANT_NE(a, "A", a->ne[0], heads, 1, 1);
    WANT(multiple(heads, b->ne[1]), "B is %s, s is %s: the heads must be a multiple of the groups", S(b), S(A));
    WANT_NE(b, "B", n, b->ne[1], tokens, seqs);
    WANT_NE(t->src[5], "C", n, b->ne[1], tokens, seqs);
    WANT(ids->type == GGML_TYPE_I32, "ids is %s: need i32", S(ids));
    WANT_NE(ids, "ids", seqs, 1, 1, 1);
    WANT(gg_contiguous(A), "s is %s: need a contiguous tensor", S(A));
    WANT_NE(t, "result", gg_nelements(B) + n * rows * heads * seqs, 1, 1, 1);
    return NULL;
}
CK check_SSM_CONV(const ggml_tensor *t, char *msg) {
    const char *bad = all_f32(t, 2, (const char *const[]){"sx", "c"}, msg);
    if (bad) return bad;
    WANT(A->ne[1] == B->ne[1] && A->ne[3] == 1 && B->ne[2] == 1 && B->ne[3] == 1,
         "sx is %s, c is %s: need as many channels (ne[1])", S(A), S(B));
    WANT(B->ne[0] > 0 && A->ne[0] >= B->ne[0] - 1,
         "sx is %s, c is %s: sx needs rows of c.ne[0] - 1 elements and more", S(A), S(B));
    WANT_NE(t, "result", B->ne[1], A->ne[0] - B->ne[0] + 1, A->ne[2], 1);
    return NULL;
}
/* Nodes that only the gradients make: what holds for the operation, with a result like the gradient, must hold here too. */
CK check_RECURRENT_BACK(const ggml_tensor *t, char *msg) {
    const int op = t->op_params[GG_SEQ_OP];
    const ggml_tensor *g = t->src[GG_SEQ_GRADIENT];
    WANT(op == GGML_OP_SSM_SCAN || op == GGML_OP_RWKV_WKV6 || op == GGML_OP_RWKV_WKV7 || op == GGML_OP_GATED_LINEAR_ATTN
         || op == GGML_OP_GATED_DELTA_NET, "%d is no recurrent operation", op);
    WANT(g && g->type == GGML_TYPE_F32 && gg_contiguous(g), "the gradient must be f32 and contiguous");
    ggml_tensor forward = *t;
    forward.op = op;
    memcpy(forward.ne, g->ne, sizeof g->ne);
    memcpy(forward.nb, g->nb, sizeof g->nb);
    const char *bad = gg_check(&forward, msg);
    if (bad) return bad;
    const gg_seq z = gg_seq_of(t, op);
    int64_t all = 0;
    for (int i = 0; i < gg_seq_operands(op); i++) all += gg_seq_elements(t, &z, op, i);
    WANT(t->type == GGML_TYPE_F32 && t->ne[0] == all && gg_contiguous(t), "result is %s: need f32 [%" PRId64 "]", S(t), all);
    return NULL;
}
CK check_SSM_CONV_BACK(const ggml_tensor *t, char *msg) {
    const char *bad = all_f32(t, 3, (const char *const[]){"sx", "c", "gradient"}, msg);
    if (bad) return bad;
    WANT_NE(t->src[2], "gradient", B->ne[1], A->ne[0] - B->ne[0] + 1, A->ne[2], 1);
    WANT_NE(t, "result", gg_nelements(A) + gg_nelements(B), 1, 1, 1);
    return NULL;
}
