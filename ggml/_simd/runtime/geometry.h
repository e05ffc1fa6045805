/* The geometry of convolutions and pooling, for their checks and kernels.
 *
 * All convolutions are one sum over three tensors:  g[n,oc,o] w[oc,ic,t] x[n,ic, o*s - p + t*d], where o, t and the
 * position in x have one to three dimensions. A convolution computes g from w and x, a transposed convolution (which is
 * the gradient of the data) x from w and g, the gradient of the kernel w from x and g. In a depthwise convolution each
 * channel has its own kernel: g[n,c,o] w[c,t] x[n,c,...]. */
#ifndef GG_GEOMETRY_H
#define GG_GEOMETRY_H
#include "engine.h"

enum { GG_CONV_2D, GG_CONV_1D, GG_CONV_3D, GG_CONV_DEPTHWISE, GG_CONV_DEPTHWISE_1D, GG_CONV_KINDS };

typedef struct gg_conv {
    int kind;
    int64_t s[3], p[3], d[3];
    int64_t ic, oc, n;              /* 3D only: dimension 3 holds channels and images */
    const ggml_tensor *w, *x, *g;
} gg_conv;

/* A tensor of a convolution: positions, channels and images (of a kernel: taps, input and output channels). */
typedef struct gg_conv_part { int64_t ne[3], c, n; size_t nb[3], nb_c, nb_n; } gg_conv_part;

static inline bool gg_conv_is_1d(int kind) { return kind == GG_CONV_1D || kind == GG_CONV_DEPTHWISE_1D; }
static inline bool gg_conv_is_depthwise(int kind) { return kind >= GG_CONV_DEPTHWISE; }

static inline gg_conv_part gg_conv_part_of(const ggml_tensor *t, int kind, int64_t channels) {
    const int dims = gg_conv_is_1d(kind) ? 1 : kind == GG_CONV_3D ? 3 : 2;
    gg_conv_part r = {.ne = {1, 1, 1}};
    for (int i = 0; i < dims; i++) r.ne[i] = t->ne[i], r.nb[i] = t->nb[i];
    if (dims < 3) {
        r.c = t->ne[dims], r.n = t->ne[dims + 1], r.nb_c = t->nb[dims], r.nb_n = t->nb[dims + 1];
    } else {
        r.c = channels, r.n = channels ? t->ne[3] / channels : 0;
        r.nb_c = t->nb[3], r.nb_n = (size_t)channels * t->nb[3];
    }
    return r;
}
static inline gg_conv_part gg_conv_w(const gg_conv *v) { return gg_conv_part_of(v->w, v->kind, v->ic); }
static inline gg_conv_part gg_conv_x(const gg_conv *v) { return gg_conv_part_of(v->x, v->kind, v->ic); }
static inline gg_conv_part gg_conv_g(const gg_conv *v) {
    gg_conv_part r = gg_conv_part_of(v->g, v->kind, v->oc);
    if (v->kind == GG_CONV_3D) r.n = v->n;               /* dimension 3 counts images only */
    return r;
}

/* Strides, paddings and dilations from those of `dims` dimensions; of a 1-d convolution only the first count. */
static inline void gg_conv_steps(gg_conv *v, const int32_t *s, const int32_t *p, const int32_t *d, int dims) {
    const int used = gg_conv_is_1d(v->kind) ? 1 : dims;
    for (int i = 0; i < 3; i++) {
        v->s[i] = i < used ? s[i] : 1;
        v->p[i] = i < used ? p[i] : 0;
        v->d[i] = i < used ? d[i] : 1;
    }
}
static inline gg_conv gg_conv_of(const ggml_tensor *t) {
    const gg_conv_2d_params *const q2 = conv_2d_params(t);
    const gg_conv_3d_params *const q3 = conv_3d_params(t);
    const gg_conv_transpose_1d_params *const t1 = conv_transpose_1d_params(t);
    const gg_conv_back_params *const back = conv_back_params(t);
    gg_conv v = {.w = t->src[0], .x = t->src[1], .g = t};
    switch (t->op) {
    case GGML_OP_CONV_2D:
        v.kind = q2->is_1d ? GG_CONV_1D : GG_CONV_2D;
        gg_conv_steps(&v, q2->s, q2->p, q2->d, 2);
        break;
    case GGML_OP_CONV_2D_DW:
        v.kind = q2->is_1d ? GG_CONV_DEPTHWISE_1D : GG_CONV_DEPTHWISE;
        gg_conv_steps(&v, q2->s, q2->p, q2->d, 2);
        break;
    case GGML_OP_CONV_3D:
        v.kind = GG_CONV_3D, v.ic = q3->ic, v.n = q3->n, v.oc = q3->oc;
        gg_conv_steps(&v, q3->s, q3->p, q3->d, 3);
        break;
    case GGML_OP_CONV_TRANSPOSE_1D:
        v.kind = GG_CONV_1D, v.g = t->src[1], v.x = t;
        gg_conv_steps(&v, &t1->s, &t1->p, &t1->d, 1);
        break;
    case GGML_OP_CONV_TRANSPOSE_2D: {
        const int32_t s = conv_transpose_2d_params(t)->s;
        v.kind = GG_CONV_2D, v.g = t->src[1], v.x = t;
        gg_conv_steps(&v, (const int32_t[]){s, s}, (const int32_t[]){0, 0}, (const int32_t[]){1, 1}, 2);
        break;
    }
    default:                        /* CONV_BACK_DATA, CONV_BACK_KERNEL */
        v.kind = back->kind, v.ic = back->ic, v.n = back->n, v.oc = back->oc;
        gg_conv_steps(&v, back->s, back->p, back->d, 3);
        if (t->op == GGML_OP_CONV_BACK_DATA) v.g = t->src[1], v.x = t;
        else v.x = t->src[0], v.g = t->src[1], v.w = t;
    }
    return v;
}

/* The GGML_UNARY_OP_* that CONV_2D or CONV_2D_DW applies to its result, -1: none. */
static inline int gg_conv_function(const ggml_tensor *t) { return conv_2d_params(t)->function - 1; }
static inline bool gg_conv_function_ok(int id) {
    return id == -1 || id == GGML_UNARY_OP_RELU || id == GGML_UNARY_OP_SIGMOID || id == GGML_UNARY_OP_SILU
        || id == GGML_UNARY_OP_HARDSWISH || id == GGML_UNARY_OP_GELU_ERF;
}

/* Groups of channels of CONV_2D: each has its part of the kernel, of the images and of the result. */
static inline int64_t gg_conv_groups(const ggml_tensor *t) {
    return t->op == GGML_OP_CONV_2D && conv_2d_params(t)->groups ? conv_2d_params(t)->groups : 1;
}

/* The largest side of the squares of positions that CONV_2D may compute together (ops/conv/winograd.h); 1: none, 0
 * stands for 2. */
static inline int gg_conv_squares(const ggml_tensor *t) {
    const int side = conv_2d_params(t)->squares;
    return side ? side : 2;
}

/* Positions of a window of k elements over `in` elements; -1: the window does not fit, or a parameter is invalid. */
static inline int64_t gg_conv_out(int64_t in, int64_t k, int64_t s, int64_t p, int64_t d) {
    int64_t span, room;
    if (k < 1 || s < 1 || p < 0 || d < 1 || __builtin_mul_overflow(k - 1, d, &span)
        || __builtin_add_overflow(in, 2 * p, &room) || room <= span) return -1;
    return (room - span - 1) / s + 1;
}

/* ---- columns: IM2COL and its gradients ------------------------------------------------------------------------- */
typedef struct gg_columns {
    int kind;                       /* GG_CONV_1D, 2D or 3D */
    int64_t s[3], p[3], d[3], taps[3], ic;
    const ggml_tensor *x, *columns, *kernel;  /* kernel: only its shape is used; may be NULL */
} gg_columns;

/* Sources of IM2COL: kernel and x; of IM2COL_BACK: columns and kernel. */
static inline gg_columns gg_columns_of(const ggml_tensor *t) {
    gg_conv v = {.kind = GG_CONV_3D};
    gg_columns r = {.x = t->src[1], .columns = t, .kernel = t->src[0], .taps = {1, 1, 1}};
    if (t->op == GGML_OP_IM2COL_BACK || t->op == GGML_OP_IM2COL_3D_BACK)
        r.x = t, r.columns = t->src[0], r.kernel = t->src[1];
    if (t->op == GGML_OP_IM2COL_3D || t->op == GGML_OP_IM2COL_3D_BACK) {
        const gg_im2col_3d_params *q = im2col_3d_params(t);
        gg_conv_steps(&v, q->s, q->p, q->d, 3);
        r.ic = q->ic;
        for (int i = 0; i < 3; i++) r.taps[i] = r.kernel ? r.kernel->ne[i] : q->k[i];
    } else if (t->op == GGML_OP_COL2IM_1D) {
        const gg_col2im_params *q = col2im_params(t);
        v.kind = GG_CONV_1D, r.x = t, r.columns = t->src[0], r.ic = q->oc;
        gg_conv_steps(&v, &q->s, &q->p, (const int32_t[]){1}, 1);
        r.taps[0] = r.ic > 0 ? r.columns->ne[0] / r.ic : 0;
    } else {
        const gg_im2col_params *q = im2col_params(t);
        const int dims = q->is_2d ? 2 : 1;
        v.kind = q->is_2d ? GG_CONV_2D : GG_CONV_1D;
        gg_conv_steps(&v, q->s, q->p, q->d, 2);
        r.ic = r.x->ne[dims];
        for (int i = 0; i < dims; i++) r.taps[i] = r.kernel ? r.kernel->ne[i] : q->k[i];
    }
    r.kind = v.kind;
    memcpy(r.s, v.s, sizeof r.s), memcpy(r.p, v.p, sizeof r.p), memcpy(r.d, v.d, sizeof r.d);
    return r;
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */
/* inside: averages exclude the padding; windows must have height 1 then. */
typedef struct gg_pool { int kind; int64_t k[2], s[2], p[2]; bool inside, nan; const ggml_tensor *x, *y; } gg_pool;

static inline gg_pool gg_pool_of(const ggml_tensor *t) {
    const gg_pool_1d_params *q1 = pool_1d_params(t);
    const gg_pool_2d_params *q = pool_2d_params(t);
    if (t->op == GGML_OP_POOL_1D)
        return (gg_pool){q1->kind, {q1->k, 1}, {q1->s, 1}, {q1->p, 0}, true, false, t->src[0], t};
    const bool back = t->op == GGML_OP_POOL_2D_BACK;
    return (gg_pool){q->kind, {q->k[0], q->k[1]}, {q->s[0], q->s[1]}, {q->p[0], q->p[1]}, q->inside,
                     q->nan, back ? t : t->src[0], back ? t->src[0] : t};
}

#endif
