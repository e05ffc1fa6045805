/* Checks of convolutions and pooling. Included by checks.c. */
#include "../runtime/geometry.h"

/* Strides, dilations and padding, and that windows over `in` elements have `out` places. */
static const char *window(const char *of, int64_t in, int64_t k, int64_t s, int64_t p, int64_t d, int64_t out,
                          char *msg) {
    const int64_t n = gg_conv_out(in, k, s, p, d);
    WANT(s >= 1 && d >= 1, "stride is %" PRId64 ", dilation is %" PRId64 ": need 1 or more", s, d);
    WANT(p >= 0, "padding is %" PRId64 ": must not be negative", p);
    WANT(n >= 0, "%s: a window of %" PRId64 " (dilation %" PRId64 ") does not fit into %" PRId64
         " with a padding of %" PRId64, of, k, d, in, p);
    WANT(n == out, "%s: windows of %" PRId64 " over %" PRId64 " have %" PRId64 " places, not %" PRId64, of, k, in, n,
         out);
    return NULL;
}
#define WINDOW(...) do { const char *e_ = window(__VA_ARGS__, msg); if (e_) return e_; } while (0)

/* What of dimension 3 or 2 is not used must be 1. */
static bool conv_flat(const ggml_tensor *t, int kind) { return !gg_conv_is_1d(kind) || t->ne[3] == 1; }

CK check_CONV(const ggml_tensor *t, char *msg) {
    NEED(2);
    FLOATS(A, "a");
    FLOATS(B, "b");
    F32(t, "result");
    const gg_conv v = gg_conv_of(t);
    WANT(v.kind >= 0 && v.kind < GG_CONV_KINDS, "%d is no kind of convolution", v.kind);
    if (v.kind == GG_CONV_3D) {
        WANT(v.ic > 0 && v.oc >= 0 && v.n >= 0, "channels are %" PRId64 " and %" PRId64 ", batch is %" PRId64
             ": need 1 or more channels", v.ic, v.oc, v.n);
        WANT(v.w->ne[3] == v.ic * v.oc && v.x->ne[3] == v.ic * v.n && v.g->ne[3] == v.oc * v.n,
             "a is %s, b is %s, channels are %" PRId64 " and %" PRId64 ", batch is %" PRId64, S(A), S(B), v.ic, v.oc,
             v.n);
    }
    const gg_conv_part w = gg_conv_w(&v), x = gg_conv_x(&v), g = gg_conv_g(&v);
    WANT(conv_flat(v.w, v.kind) && conv_flat(v.x, v.kind) && conv_flat(v.g, v.kind),
         "a is %s, b is %s: ne[3] must be 1", S(A), S(B));
    if (gg_conv_is_depthwise(v.kind))
        WANT(w.c == 1 && w.n == x.c && x.c == g.c, "a is %s, b is %s: need one kernel a channel", S(A), S(B));
    else
        WANT(w.c == x.c && w.n == g.c, "a is %s, b is %s: channels must be equal", S(A), S(B));
    WANT(x.n == g.n, "result is %s, a is %s, b is %s", S(t), S(A), S(B));
    for (int i = 0; i < 3; i++) WINDOW(v.w == A ? "a" : "result", x.ne[i], w.ne[i], v.s[i], v.p[i], v.d[i], g.ne[i]);
    if (t->op != GGML_OP_CONV_2D_DW) WANT(gg_contiguous(t), "result is %s: must be contiguous", S(t));
    return NULL;
}
CK check_IM2COL(const ggml_tensor *t, char *msg) {
    const bool one = t->op == GGML_OP_COL2IM_1D, back = t->op == GGML_OP_IM2COL_BACK || t->op == GGML_OP_IM2COL_3D_BACK;
    if (one || back) NEED(1);
    else WANT(B, "source b is missing");
    const gg_columns q = gg_columns_of(t);
    FLOATS(q.x, "b");
    FLOATS(q.columns, "result");
    WANT(gg_contiguous(t), "result is %s: must be contiguous", S(t));
    if (back) F32(t, "result");
    WANT(q.ic > 0 || !one, "oc is %" PRId64 ": need 1 or more", q.ic);
    WANT(q.kind != GG_CONV_3D || (q.ic > 0 && q.x->ne[3] % q.ic == 0), "b is %s: IC is %" PRId64, S(q.x), q.ic);
    WANT(conv_flat(q.x, q.kind) && conv_flat(q.columns, q.kind), "b is %s, columns are %s: ne[3] must be 1", S(q.x),
         S(q.columns));
    const gg_conv_part x = gg_conv_part_of(q.x, q.kind, q.ic);
    if (!one && q.kernel) {
        const int64_t ic = q.kind == GG_CONV_3D ? q.ic : q.kernel->ne[q.kind == GG_CONV_2D ? 2 : 1];
        WANT(ic == x.c, "kernel is %s, data %s: channels must be equal", S(q.kernel), S(q.x));
    }
    int64_t depth = x.c;
    for (int i = 0; i < 3; i++)
        WANT(!__builtin_mul_overflow(depth, q.taps[i], &depth), "windows have too many elements");
    WANT(q.columns->ne[0] == depth, "columns are %s: need %" PRId64 " elements each", S(q.columns), depth);
    const int64_t *ne = q.columns->ne;
    const int64_t deep = q.kind == GG_CONV_3D ? gg_conv_out(x.ne[2], q.taps[2], q.s[2], q.p[2], q.d[2]) : 1;
    const int64_t out[3] = {ne[1], q.kind == GG_CONV_1D ? 1 : ne[2], deep};
    const int64_t images = ne[q.kind == GG_CONV_1D ? 2 : 3];
    for (int i = 0; i < 3; i++) WINDOW("columns", x.ne[i], q.taps[i], q.s[i], q.p[i], q.d[i], out[i]);
    WANT(images == x.n * deep, "columns are %s, b is %s", S(q.columns), S(q.x));
    return NULL;
}
CK check_POOL(const ggml_tensor *t, char *msg) {
    const bool back = t->op == GGML_OP_POOL_2D_BACK;
    NEED(back ? 2 : 1);
    FLOATS(A, "a");
    F32(t, "result");
    const gg_pool q = gg_pool_of(t);
    WANT(q.kind == GG_POOL_MAX || q.kind == GG_POOL_AVG, "op is %d: need GGML_OP_POOL_MAX or GGML_OP_POOL_AVG", q.kind);
    for (int i = 0; i < 2; i++) {
        WANT(q.k[i] >= 1 && q.s[i] >= 1, "k%d is %d, s%d is %d: need 1 or more", i, (int)q.k[i], i, (int)q.s[i]);
        WANT(q.p[i] >= 0, "p%d is %d: must not be negative", i, (int)q.p[i]);
        WANT(q.x->ne[i] <= INT64_MAX / 4 && q.y->ne[i] <= (q.x->ne[i] + 2 * q.p[i] + 2) / q.s[i] + 1,
             "a is %s, result is %s: too many windows", S(A), S(t));
    }
    WANT(q.k[0] * q.k[1] <= 1 << 24, "windows are %d x %d: too large", (int)q.k[0], (int)q.k[1]);
    WANT(q.x->ne[2] == q.y->ne[2] && q.x->ne[3] == q.y->ne[3], "a is %s, result is %s", S(A), S(t));
    if (!back) return NULL;
    FLOATS(B, "af");
    WANT(gg_same_shape(t, B), "result is %s, af is %s: shapes must be equal", S(t), S(B));
    WANT(gg_rows_packed(t), "result is %s: rows must lie in one piece", S(t));
    return NULL;
}
#undef WINDOW
