/* Checks of soft-max and the cross-entropy loss. */
#ifndef GG_CHECKS_SOFTMAX_H
#define GG_CHECKS_SOFTMAX_H
#include "common.h"

CHECK(SOFT_MAX) {
    REQUIRE_SOURCES(1);
    if (b) {
        REQUIRE(b->type == GGML_TYPE_F32 || b->type == GGML_TYPE_F16, "mask is %s: need f32 or f16", SHAPE(b));
        REQUIRE(b->ne[0] == a->ne[0], "a is %s, mask is %s: ne[0] must be equal", SHAPE(a), SHAPE(b));
        REQUIRE(b->ne[1] >= a->ne[1], "a is %s, mask is %s: the mask needs at least as many rows", SHAPE(a), SHAPE(b));
        REQUIRE(multiple(a->ne[2], b->ne[2]) && multiple(a->ne[3], b->ne[3]),
                "a is %s, mask is %s: dimensions 2 and 3 of a must be multiples of the mask's", SHAPE(a), SHAPE(b));
    }
    const float max_bias = soft_max_params(t)->max_bias;
    REQUIRE(b || max_bias == 0, "max_bias is %g: ALiBi needs a mask", (double)max_bias);
    REQUIRE(max_bias >= 0, "max_bias is %g: need 0 or more", (double)max_bias);
    if (t->src[2]) {
        REQUIRE_F32(t->src[2], "sinks");
        REQUIRE(t->src[2]->ne[0] == a->ne[2] && gg_nrows(t->src[2]) == 1,
                "sinks is %s, a is %s: need one for each of ne[2]", SHAPE(t->src[2]), SHAPE(a));
    }
    return check_UNARY(t, msg);
}
CHECK(LOSS) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_same_shape(a, b), "a is %s, b is %s: shapes must be equal", SHAPE(a), SHAPE(b));
    REQUIRE_F32(a, "a");
    REQUIRE_F32(b, "b");
    REQUIRE(t->type == GGML_TYPE_F32 && gg_nelements(t) == 1, "result is %s: need one f32", SHAPE(t));
    return NULL;
}
CHECK(LOSS_BACK) {
    REQUIRE_SOURCES(3);   /* src: gradient (one element), logits, labels */
    ggml_tensor *C = t->src[2];
    REQUIRE(a->type == GGML_TYPE_F32 && gg_nelements(a) == 1, "a is %s: need one f32", SHAPE(a));
    REQUIRE(gg_same_shape(b, C) && gg_same_shape(t, b), "b is %s, c is %s: shapes must be equal", SHAPE(b), SHAPE(C));
    REQUIRE_F32(b, "b");
    REQUIRE_F32(C, "c");
    REQUIRE_F32(t, "result");
    return NULL;
}

#endif
