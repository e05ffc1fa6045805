/* What follows the sums of a convolution while they are in the cache: a bias for each channel, then a function. */
#ifndef GG_OPS_CONV_TAIL_H
#define GG_OPS_CONV_TAIL_H
#include "rows.h"

typedef struct conv_tail {
    const float *bias;              /* of each channel; NULL: none */
    gg_tile_fn function;            /* NULL: none */
} conv_tail;

GG_TILE_X(conv_RELU, v_relu(x))
GG_TILE_X(conv_SIGMOID, v_sigmoid(x))
GG_TILE_X(conv_SILU, v_silu(x))
GG_TILE_X(conv_HARDSWISH, v_hardswish(x))

/* Of CONV_2D and CONV_2D_DW: source 2 is the bias, the function is that of gg_conv_function. */
static conv_tail conv_tail_of(const ggml_tensor *t) {
    static const gg_tile_fn functions[] = {
        [GGML_UNARY_OP_RELU] = tile_conv_RELU, [GGML_UNARY_OP_SIGMOID] = tile_conv_SIGMOID,
        [GGML_UNARY_OP_SILU] = tile_conv_SILU, [GGML_UNARY_OP_HARDSWISH] = tile_conv_HARDSWISH,
    };
    const int id = gg_conv_function(t);
    return (conv_tail){t->src[2] ? t->src[2]->data : NULL, id < 0 ? NULL : functions[id]};
}
/* Applies the function to n contiguous elements. */
static inline void conv_apply(const conv_tail *tail, float *y, int64_t n) {
    static const float none[GG_TILE_PARAMS];
    if (tail->function) tail->function((float *const[]){y, y}, n, false, none);
}
/* Finishes n elements of a channel, which are contiguous. */
static inline void conv_finish(const conv_tail *tail, int64_t channel, float *y, int64_t n) {
    if (tail->bias) {
        const vf bias = vf_set1(tail->bias[channel]);
        for (int64_t i = 0; i < n; i += VW) st(y + i, vf_add(ld(y + i, n - i), bias), n - i);
    }
    conv_apply(tail, y, n);
}

#endif
