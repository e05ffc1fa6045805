/* Checks of convolutions and columns. */
#ifndef GG_CHECKS_CONV_H
#define GG_CHECKS_CONV_H
#include "../runtime/geometry.h"
#include "common.h"

/* Whether stride s, padding p and dilation d are valid and windows of k elements over `in` have `out` positions. */
static const char *window(const char *of, int64_t in, int64_t k, int64_t s, int64_t p, int64_t d, int64_t out,
                          char *msg) {
    const int64_t n = gg_conv_out(in, k, s, p, d);
    REQUIRE(s >= 1 && d >= 1, "stride is %" PRId64 ", dilation is %" PRId64 ": need 1 or more", s, d);
    REQUIRE(p >= 0, "padding is %" PRId64 ": must not be negative", p);
    REQUIRE(n >= 0, "%s: a window of %" PRId64 " (dilation %" PRId64 ") does not fit into %" PRId64
            " with a padding of %" PRId64, of, k, d, in, p);
    REQUIRE(n == out,
            "%s: windows of %" PRId64 " over %" PRId64 " have %" PRId64 " places, not %" PRId64, of, k, in, n, out);
    return NULL;
}
#define REQUIRE_WINDOW(...) \
    do { const char *problem_ = window(__VA_ARGS__, msg); if (problem_) return problem_; } while (0)

/* Whether the dimensions that a 1-d convolution does not use are 1. */
static bool conv_flat(const ggml_tensor *t, int kind) { return !gg_conv_is_1d(kind) || t->ne[3] == 1; }
CHECK(CONV) {
    REQUIRE_SOURCES(2);
    if (t->op == GGML_OP_CONV_2D && a->type == GGML_TYPE_I8)
        REQUIRE(conv_2d_params(t)->offset >= -255 && conv_2d_params(t)->offset <= 255,
                "offset is %d: need -255 to 255", conv_2d_params(t)->offset);
    else
        REQUIRE_FLOAT(a, "a");
    REQUIRE_FLOAT(b, "b");
    REQUIRE_F32(t, "result");
    const gg_conv v = gg_conv_of(t);
    REQUIRE(v.kind >= 0 && v.kind < GG_CONV_KINDS, "%d is not a kind of convolution", v.kind);
    if (v.kind == GG_CONV_3D) {
        REQUIRE(v.ic > 0 && v.oc >= 0 && v.n >= 0,
                "channels are %" PRId64 " and %" PRId64 ", batch is %" PRId64 ": need 1 or more channels", v.ic, v.oc,
                v.n);
        REQUIRE(v.w->ne[3] == v.ic * v.oc && v.x->ne[3] == v.ic * v.n && v.g->ne[3] == v.oc * v.n,
                "a is %s, b is %s, channels are %" PRId64 " and %" PRId64 ", batch is %" PRId64, SHAPE(a), SHAPE(b),
                v.ic, v.oc, v.n);
    }
    const gg_conv_part w = gg_conv_w(&v), x = gg_conv_x(&v), g = gg_conv_g(&v);
    REQUIRE(conv_flat(v.w, v.kind) && conv_flat(v.x, v.kind) && conv_flat(v.g, v.kind),
            "a is %s, b is %s: ne[3] must be 1", SHAPE(a), SHAPE(b));
    if (gg_conv_is_depthwise(v.kind))
        REQUIRE(w.c == 1 && w.n == x.c && x.c == g.c,
                "a is %s, b is %s: need one kernel a channel", SHAPE(a), SHAPE(b));
    else if (gg_conv_groups(t) != 1) {
        const int64_t n = gg_conv_groups(t);
        REQUIRE(n > 0 && multiple(w.n, n) && multiple(x.c, n) && w.c == quotient(x.c, n) && w.n == g.c,
                "a is %s, b is %s, groups are %" PRId64 ": need channels / groups in a, and output channels in groups",
                SHAPE(a), SHAPE(b), n);
    } else
        REQUIRE(w.c == x.c && w.n == g.c, "a is %s, b is %s: channels must be equal", SHAPE(a), SHAPE(b));
    REQUIRE(x.n == g.n, "result is %s, a is %s, b is %s", SHAPE(t), SHAPE(a), SHAPE(b));
    for (int i = 0; i < 3; i++)
        REQUIRE_WINDOW(v.w == a ? "a" : "result", x.ne[i], w.ne[i], v.s[i], v.p[i], v.d[i], g.ne[i]);
    if (t->op == GGML_OP_CONV_2D || t->op == GGML_OP_CONV_2D_DW) {
        const ggml_tensor *bias = t->src[2];
        for (int i = 3; i < 5; i++)                                             /* fuse.c has other operands there */
            REQUIRE(!t->src[i], "src[%d] is set: need two operands and a bias", i);
        if (bias)
            REQUIRE(bias->type == GGML_TYPE_F32 && bias->ne[0] == g.c && gg_nelements(bias) == g.c
                    && gg_contiguous(bias),
                    "bias is %s, a is %s: need one contiguous f32 element a channel", SHAPE(bias), SHAPE(a));
        REQUIRE(gg_conv_function_ok(gg_conv_function(t)), "%d is not a function of a convolution",
                gg_conv_function(t));
    }
    if (t->op != GGML_OP_CONV_2D_DW) REQUIRE(gg_contiguous(t), "result is %s: must be contiguous", SHAPE(t));
    return NULL;
}
CHECK(IM2COL) {
    const bool one = t->op == GGML_OP_COL2IM_1D, back = t->op == GGML_OP_IM2COL_BACK || t->op == GGML_OP_IM2COL_3D_BACK;
    if (one || back) REQUIRE_SOURCES(1);
    else REQUIRE(b, "source b is missing");
    const gg_columns q = gg_columns_of(t);
    REQUIRE_FLOAT(q.x, "b");
    REQUIRE_FLOAT(q.columns, "result");
    REQUIRE(gg_contiguous(t), "result is %s: must be contiguous", SHAPE(t));
    if (back) REQUIRE_F32(t, "result");
    REQUIRE(q.ic > 0 || !one, "oc is %" PRId64 ": need 1 or more", q.ic);
    REQUIRE(q.kind != GG_CONV_3D || (q.ic > 0 && multiple(q.x->ne[3], q.ic)),
            "b is %s: IC is %" PRId64, SHAPE(q.x), q.ic);
    REQUIRE(conv_flat(q.x, q.kind) && conv_flat(q.columns, q.kind),
            "b is %s, columns are %s: ne[3] must be 1", SHAPE(q.x), SHAPE(q.columns));
    const gg_conv_part x = gg_conv_part_of(q.x, q.kind, q.ic);
    if (!one && q.kernel) {
        const int64_t ic = q.kind == GG_CONV_3D ? q.ic : q.kernel->ne[q.kind == GG_CONV_2D ? 2 : 1];
        REQUIRE(ic == x.c, "kernel is %s, data %s: channels must be equal", SHAPE(q.kernel), SHAPE(q.x));
    }
    int64_t depth = x.c;
    for (int i = 0; i < 3; i++)
        REQUIRE(!__builtin_mul_overflow(depth, q.taps[i], &depth), "windows have too many elements");
    REQUIRE(q.columns->ne[0] == depth, "columns are %s: need %" PRId64 " elements each", SHAPE(q.columns), depth);
    const int64_t *ne = q.columns->ne;
    const int64_t deep = q.kind == GG_CONV_3D ? gg_conv_out(x.ne[2], q.taps[2], q.s[2], q.p[2], q.d[2]) : 1;
    const int64_t out[3] = {ne[1], q.kind == GG_CONV_1D ? 1 : ne[2], deep};
    const int64_t images = ne[q.kind == GG_CONV_1D ? 2 : 3];
    for (int i = 0; i < 3; i++) REQUIRE_WINDOW("columns", x.ne[i], q.taps[i], q.s[i], q.p[i], q.d[i], out[i]);
    REQUIRE(images == x.n * deep, "columns are %s, b is %s", SHAPE(q.columns), SHAPE(q.x));
    return NULL;
}
#undef REQUIRE_WINDOW

#endif
