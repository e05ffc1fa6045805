/* Checks: Soft-max and the cross-entropy loss. */
#ifndef GG_CHECKS_SOFTMAX_H
#define GG_CHECKS_SOFTMAX_H
#include "common.h"

CHECK(SOFT_MAX) {
    REQUIRE_SOURCES(1);
    if (SRC_B) {
        REQUIRE(SRC_B->type == GGML_TYPE_F32 || SRC_B->type == GGML_TYPE_F16, "mask is %s: need f32 or f16", SHAPE(SRC_B));
        REQUIRE(SRC_B->ne[0] == SRC_A->ne[0], "a is %s, mask is %s: ne[0] must be equal", SHAPE(SRC_A), SHAPE(SRC_B));
        REQUIRE(SRC_B->ne[1] >= SRC_A->ne[1], "a is %s, mask is %s: the mask needs at least as many rows", SHAPE(SRC_A), SHAPE(SRC_B));
        REQUIRE(multiple(SRC_A->ne[2], SRC_B->ne[2]) && multiple(SRC_A->ne[3], SRC_B->ne[3]),
             "a is %s, mask is %s: dimensions 2 and 3 of a must be multiples of the mask's", SHAPE(SRC_A), SHAPE(SRC_B));
    }
    REQUIRE(SRC_B || gg_param_f32(t, 1) == 0, "max_bias is %g: ALiBi needs a mask", (double)gg_param_f32(t, 1));
    REQUIRE(gg_param_f32(t, 1) >= 0, "max_bias is %g: need 0 or more", (double)gg_param_f32(t, 1));
    if (t->src[2]) {
        REQUIRE_F32(t->src[2], "sinks");
        REQUIRE(t->src[2]->ne[0] == SRC_A->ne[2] && gg_nrows(t->src[2]) == 1, "sinks is %s, a is %s: need one for each of ne[2]", SHAPE(t->src[2]), SHAPE(SRC_A));
    }
    return check_UNARY(t, msg);
}
CHECK(LOSS) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_same_shape(SRC_A, SRC_B), "a is %s, b is %s: shapes must be equal", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE_F32(SRC_A, "a");
    REQUIRE_F32(SRC_B, "b");
    REQUIRE(t->type == GGML_TYPE_F32 && gg_nelements(t) == 1, "result is %s: need one f32", SHAPE(t));
    return NULL;
}
CHECK(LOSS_BACK) {
    REQUIRE_SOURCES(3);   /* src: gradient (one element), logits, labels */
    ggml_tensor *C = t->src[2];
    REQUIRE(SRC_A->type == GGML_TYPE_F32 && gg_nelements(SRC_A) == 1, "a is %s: need one f32", SHAPE(SRC_A));
    REQUIRE(gg_same_shape(SRC_B, C) && gg_same_shape(t, SRC_B), "b is %s, c is %s: shapes must be equal", SHAPE(SRC_B), SHAPE(C));
    REQUIRE_F32(SRC_B, "b");
    REQUIRE_F32(C, "c");
    REQUIRE_F32(t, "result");
    return NULL;
}

#endif
