/* Checks of recurrent operations; sources are named as in the builders. */
#ifndef GG_CHECKS_RECURRENT_H
#define GG_CHECKS_RECURRENT_H
#include "../runtime/recurrent_layout.h"
#include "common.h"

static const char *all_f32(const ggml_tensor *t, int n, const char *const names[], char *msg) {
    REQUIRE_SOURCES(n);
    for (int i = 0; i < n; i++)
        REQUIRE(t->src[i]->type == GGML_TYPE_F32, "%s is %s: need f32", names[i], SHAPE(t->src[i]));
    REQUIRE_F32(t, "result");
    REQUIRE(gg_contiguous(t), "result is %s: need a contiguous tensor", SHAPE(t));
    return NULL;
}
static bool has_ne(const ggml_tensor *t, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    return t->ne[0] == ne0 && t->ne[1] == ne1 && t->ne[2] == ne2 && t->ne[3] == ne3;
}
#define REQUIRE_NE(t, name, ne0, ne1, ne2, ne3) \
    REQUIRE(has_ne(t, ne0, ne1, ne2, ne3), name " is %s: need [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", \
            SHAPE(t), (int64_t)(ne0), (int64_t)(ne1), (int64_t)(ne2), (int64_t)(ne3))

/* Operands of the shape of the first, then the state; tf of WKV6 is [n, heads]. */
static const char *flat_sequences(const ggml_tensor *t, int n, const char *const names[], char *msg) {
    const char *bad = all_f32(t, n, names, msg);
    if (bad) return bad;
    const ggml_tensor *a = t->src[0], *state = t->src[n - 1];
    const int64_t size = a->ne[0], heads = a->ne[1], tokens = a->ne[2], seqs = state->ne[1];
    REQUIRE(a->ne[3] == 1, "%s is %s: need three dimensions", names[0], SHAPE(a));
    for (int i = 1; i < n - 1; i++) {
        const bool tf = t->op == GGML_OP_RWKV_WKV6 && i == 3;
        REQUIRE(has_ne(t->src[i], size, heads, tf ? 1 : tokens, 1),
                "%s is %s, %s is %s: %s", names[i], SHAPE(t->src[i]), names[0], SHAPE(a),
                tf ? "need [n, heads]" : "shapes must be equal");
    }
    REQUIRE(multiple(tokens, seqs),
            "%s is %s, state is %s: the tokens must be a multiple of the sequences", names[0], SHAPE(a),
            SHAPE(state));
    REQUIRE_NE(state, "state", gg_count(gg_count(size, size), heads), seqs, 1, 1);
    REQUIRE(gg_contiguous(state), "state is %s: need a contiguous tensor", SHAPE(state));
    REQUIRE_NE(t, "result", gg_count(size, heads), gg_sum(tokens, gg_count(size, seqs)), 1, 1);
    return NULL;
}
CHECK(RWKV_WKV6) {
    return flat_sequences(t, 6, (const char *const[]){"k", "v", "r", "tf", "td", "state"}, msg);
}
CHECK(RWKV_WKV7) {
    return flat_sequences(t, 7, (const char *const[]){"r", "w", "k", "v", "a", "b", "state"}, msg);
}
CHECK(GATED_LINEAR_ATTN) {
    return flat_sequences(t, 5, (const char *const[]){"k", "v", "q", "g", "state"}, msg);
}
CHECK(GATED_DELTA_NET) {
    static const char *const names[] = {"q", "k", "v", "g", "beta", "state"};
    const char *bad = all_f32(t, 6, names, msg);
    if (bad) return bad;
    const ggml_tensor *v = t->src[2], *g = t->src[3], *state = t->src[5];
    const int64_t n = v->ne[0], heads = v->ne[1], tokens = v->ne[2], seqs = v->ne[3];
    const int64_t slots = recurrent_params(t)->n_states;
    REQUIRE(slots >= 1, "K is %" PRId64 ": need 1 or more", slots);
    REQUIRE(a->ne[0] == n && multiple(heads, a->ne[1]) && a->ne[2] == tokens && a->ne[3] == seqs,
            "q is %s, v is %s: need equal dimensions, v's heads a multiple of q's", SHAPE(a), SHAPE(v));
    REQUIRE(gg_same_shape(a, b), "q is %s, k is %s: shapes must be equal", SHAPE(a), SHAPE(b));
    REQUIRE(n > 0 && (g->ne[0] == 1 || g->ne[0] == n),
            "g is %s, v is %s: g needs one gate a head, or as many as v has elements", SHAPE(g), SHAPE(v));
    REQUIRE_NE(g, "g", g->ne[0], heads, tokens, seqs);
    REQUIRE_NE(t->src[4], "beta", 1, heads, tokens, seqs);
    REQUIRE_NE(state, "state", n, n, heads, seqs);
    REQUIRE(gg_contiguous(state), "state is %s: need a contiguous tensor", SHAPE(state));
    REQUIRE_NE(t, "result", gg_count(n, heads), gg_delta_net_rows(v, slots), 1, 1);
    return NULL;
}
CHECK(SSM_SCAN) {
    static const char *const names[] = {"s", "x", "dt", "A", "B", "C"};
    const char *bad = all_f32(t, 6, names, msg);
    if (bad) return bad;
    REQUIRE_SOURCES(7);
    const ggml_tensor *s = a, *x = b, *rates = t->src[3], *b_groups = t->src[4], *ids = t->src[6];
    const int64_t n = s->ne[0], rows = s->ne[1], heads = s->ne[2], tokens = x->ne[2], seqs = x->ne[3];
    const int64_t slots = recurrent_params(t)->n_states;
    REQUIRE(slots >= 1, "K is %" PRId64 ": need 1 or more", slots);
    REQUIRE(n > 0 && (rates->ne[0] == 1 || rates->ne[0] == n),
            "A is %s, s is %s: A.ne[0] must be 1 or s.ne[0]", SHAPE(rates), SHAPE(s));
    REQUIRE_NE(x, "x", rows, heads, tokens, seqs);
    REQUIRE_NE(t->src[2], "dt", heads, tokens, seqs, 1);
    REQUIRE_NE(rates, "A", rates->ne[0], heads, 1, 1);
    REQUIRE(multiple(heads, b_groups->ne[1]),
            "B is %s, s is %s: the heads must be a multiple of the groups", SHAPE(b_groups), SHAPE(s));
    REQUIRE_NE(b_groups, "B", n, b_groups->ne[1], tokens, seqs);
    REQUIRE_NE(t->src[5], "C", n, b_groups->ne[1], tokens, seqs);
    REQUIRE(ids->type == GGML_TYPE_I32, "ids is %s: need i32", SHAPE(ids));
    REQUIRE_NE(ids, "ids", seqs, 1, 1, 1);
    REQUIRE(gg_contiguous(s), "s is %s: need a contiguous tensor", SHAPE(s));
    REQUIRE_NE(t, "result", gg_ssm_scan_elements(s, x, slots), 1, 1, 1);
    return NULL;
}
CHECK(SSM_CONV) {
    const char *bad = all_f32(t, 2, (const char *const[]){"sx", "c"}, msg);
    if (bad) return bad;
    REQUIRE(a->ne[1] == b->ne[1] && a->ne[3] == 1 && b->ne[2] == 1 && b->ne[3] == 1,
            "sx is %s, c is %s: need as many channels (ne[1])", SHAPE(a), SHAPE(b));
    REQUIRE(b->ne[0] > 0 && a->ne[0] >= b->ne[0] - 1,
            "sx is %s, c is %s: sx needs rows of c.ne[0] - 1 elements and more", SHAPE(a), SHAPE(b));
    REQUIRE_NE(t, "result", b->ne[1], a->ne[0] - b->ne[0] + 1, a->ne[2], 1);
    return NULL;
}
/* A node that only gradients make: the operation itself, with a result of the gradient's shape, must pass its check. */
CHECK(RECURRENT_BACK) {
    const int op = recurrent_back_params(t)->op;
    const ggml_tensor *g = t->src[GG_SEQ_GRADIENT];
    REQUIRE(op == GGML_OP_SSM_SCAN || op == GGML_OP_RWKV_WKV6 || op == GGML_OP_RWKV_WKV7
            || op == GGML_OP_GATED_LINEAR_ATTN || op == GGML_OP_GATED_DELTA_NET,
            "%d is not a recurrent operation", op);
    REQUIRE(g && g->type == GGML_TYPE_F32 && gg_contiguous(g), "the gradient must be f32 and contiguous");
    ggml_tensor forward = *t;
    forward.op = op;
    recurrent_params(&forward)->n_states = recurrent_back_params(t)->n_states;
    memcpy(forward.ne, g->ne, sizeof g->ne);
    memcpy(forward.nb, g->nb, sizeof g->nb);
    const char *bad = gg_check(&forward, msg);
    if (bad) return bad;
    const gg_seq z = gg_seq_of(t, op);
    int64_t all = 0;
    for (int i = 0; i < gg_seq_operands(op); i++) all = gg_sum(all, gg_seq_elements(t, &z, op, i));
    REQUIRE(t->type == GGML_TYPE_F32 && t->ne[0] == all && gg_contiguous(t),
            "result is %s: need f32 [%" PRId64 "]", SHAPE(t), all);
    return NULL;
}
CHECK(SSM_CONV_BACK) {
    const char *bad = all_f32(t, 3, (const char *const[]){"sx", "c", "gradient"}, msg);
    if (bad) return bad;
    REQUIRE_NE(t->src[2], "gradient", b->ne[1], a->ne[0] - b->ne[0] + 1, a->ne[2], 1);
    REQUIRE_NE(t, "result", gg_sum(gg_nelements(a), gg_nelements(b)), 1, 1, 1);
    return NULL;
}

#endif
