/* What follows the sums of a convolution while they are in the cache: a bias for each channel, another tensor that is
 * added to the result, a function. */
#ifndef GG_OPS_CONV_TAIL_H
#define GG_OPS_CONV_TAIL_H
#include "../rows.h"

/* Finishes `count` contiguous elements of each of n channels, which are ldy floats apart. bias, slope: one for each of
 * these channels, or NULL; the slope multiplies elements below 0. added: what is added to these elements, its channels
 * lda floats apart, or NULL. */
typedef void (*conv_tail_fn)(const float *bias, const float *slope, const float *added, int64_t lda, float *y,
                             int64_t ldy, int64_t n, int64_t count);
typedef struct conv_tail {
    const float *bias;              /* of each channel; NULL: none */
    const float *slope;             /* of each channel; NULL: the function needs none */
    uintptr_t added;                /* bytes from an element of the result to the one that is added to it; 0: none */
    int64_t lda;                    /* floats from a channel of both to the next */
    bool function;                  /* there is one */
    conv_tail_fn finish;            /* NULL: nothing follows */
} conv_tail;

/* Whole vectors have a loop without branches, which would take longer than most functions. Where no other tensor is
 * added, -0 is, which changes no bits. */
#define CONV_TAIL(NAME, EXPR)                                                                        \
    static inline vf conv_end_##NAME(vf x, vf below) { (void)below; return EXPR; }                   \
    static void conv_tail_##NAME(const float *bias, const float *slope, const float *added, int64_t lda, float *y, \
                                 int64_t ldy, int64_t n, int64_t count) {                            \
        const int64_t step = added ? VW : 0;                                                         \
        float none[VW];                                                                              \
        vf_store(none, vf_set1(-0.0f));                                                              \
        for (int64_t j = 0; j < n; j++, y += ldy) {                                                  \
            const vf more = vf_set1(bias ? bias[j] : 0), below = vf_set1(slope ? slope[j] : 0);      \
            const float *others = added ? added + j * lda : none;                                    \
            int64_t i = 0;                                                                           \
            for (; i + VW <= count; i += VW, others += step) {                                       \
                const vf x = vf_add(vf_add(vf_load(y + i), more), vf_load(others));                  \
                vf_store(y + i, conv_end_##NAME(x, below));                                          \
            }                                                                                        \
            if (i == count) continue;                                                                \
            const int left = (int)(count - i);                                                       \
            const vf x = vf_add(vf_add(vf_loadn(y + i, left), more), vf_loadn(others, left));        \
            vf_storen(y + i, conv_end_##NAME(x, below), left);                                       \
        }                                                                                            \
    }
CONV_TAIL(NONE, x)
CONV_TAIL(RELU, v_relu(x))
CONV_TAIL(SIGMOID, v_sigmoid(x))
CONV_TAIL(SILU, v_silu(x))
CONV_TAIL(HARDSWISH, v_hardswish(x))
CONV_TAIL(PRELU, v_prelu(x, below))
#undef CONV_TAIL
static void conv_tail_GELU_ERF(const float *bias, const float *slope, const float *added, int64_t lda, float *y,
                               int64_t ldy, int64_t n, int64_t count) {
    (void)slope;
    for (int64_t j = 0; j < n; j++, y += ldy) {
        const vf more = vf_set1(bias ? bias[j] : 0);
        const float *const others = added ? added + j * lda : NULL;
        int64_t i = 0;
        for (; i + 4 * VW <= count; i += 4 * VW) {
            vf v[4];
            GG_FOUR(l) v[l] = vf_add(vf_load(y + i + l * VW), more);
            if (others) GG_FOUR(l) v[l] = vf_add(v[l], vf_load(others + i + l * VW));
            v_gelu_erf_4(v);
            GG_FOUR(l) vf_store(y + i + l * VW, v[l]);
        }
        for (; i < count; i += VW) {
            const vf x = vf_add(ld(y + i, count - i), more);
            st(y + i, gg_gelu_erf_one(others ? vf_add(x, ld(others + i, count - i)) : x), count - i);
        }
    }
}

/* Of CONV_2D and CONV_2D_DW: source 2 is the bias, source 3 what is added, source 4 slopes; the function is that of
 * gg_conv_function, or PRELU with the slopes. */
static conv_tail conv_tail_of(const ggml_tensor *t) {
    static const conv_tail_fn functions[] = {
        [GGML_UNARY_OP_RELU] = conv_tail_RELU, [GGML_UNARY_OP_SIGMOID] = conv_tail_SIGMOID,
        [GGML_UNARY_OP_SILU] = conv_tail_SILU, [GGML_UNARY_OP_HARDSWISH] = conv_tail_HARDSWISH,
        [GGML_UNARY_OP_GELU_ERF] = conv_tail_GELU_ERF,
    };
    const int id = gg_conv_function(t);
    const float *const bias = t->src[2] ? t->src[2]->data : NULL;
    const float *const slope = t->src[4] ? t->src[4]->data : NULL;
    const uintptr_t added = t->src[3] ? (uintptr_t)t->src[3]->data - (uintptr_t)t->data : 0;
    const size_t channel = t->nb[conv_2d_params(t)->is_1d ? 1 : 2];
    return (conv_tail){.bias = bias, .slope = slope, .added = added, .lda = (int64_t)(channel / sizeof(float)),
                       .function = id >= 0 || slope,
                       .finish = slope ? conv_tail_PRELU : id >= 0 ? functions[id] : bias ? conv_tail_NONE : NULL};
}
/* Finishes elements of n channels from `channel` on, which `to` is the place of in the result. */
static inline void conv_finish_for(const conv_tail *tail, int64_t channel, const void *to, float *y, int64_t ldy,
                                   int64_t n, int64_t count) {
    const float *const added = tail->added ? (const float *)((uintptr_t)to + tail->added) : NULL;
    const float *const bias = tail->bias ? tail->bias + channel : NULL;
    const float *const slope = tail->slope ? tail->slope + channel : NULL;
    if (tail->finish) tail->finish(bias, slope, added, tail->lda, y, ldy, n, count);
}
/* The same where they are in the result. */
static inline void conv_finish(const conv_tail *tail, int64_t channel, float *y, int64_t ldy, int64_t n,
                               int64_t count) {
    conv_finish_for(tail, channel, y, y, ldy, n, count);
}

#endif
