/* Checks: Element-wise operations. */
#ifndef GG_CHECKS_ELEMENTWISE_H
#define GG_CHECKS_ELEMENTWISE_H
#include "common.h"

CHECK(UNARY_OP) {
    const int op = t->op_params[0];
    REQUIRE(gg_unary_name(op), "%d is no unary operation", op);
    return check_UNARY(t, msg);
}
CHECK(BINARY) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_same_shape(t, SRC_A), "result is %s, a is %s: shapes must be equal", SHAPE(t), SHAPE(SRC_A));
    REQUIRE(gg_can_repeat(SRC_B, SRC_A), "a is %s, b is %s: each dimension of a must be a multiple of b's", SHAPE(SRC_A), SHAPE(SRC_B));
    if (t->op == GGML_OP_ADD && gg_types[SRC_A->type].quantized) {
        REQUIRE(SRC_A->type == t->type || gg_is_float(t->type), "a is %s, result is %s", SHAPE(SRC_A), SHAPE(t));
        REQUIRE(converts(SRC_B->type, t->type), "result is %s: there is no conversion from f32", SHAPE(t));
        REQUIRE_F32(SRC_B, "b");
        return NULL;
    }
    REQUIRE_FLOAT(SRC_A, "a");
    REQUIRE_FLOAT(SRC_B, "b");
    REQUIRE(gg_is_float(t->type), "result is %s: need f32, f16 or bf16", SHAPE(t));
    return NULL;
}
CHECK(ADD1) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_nelements(SRC_B) == 1, "b is %s: need one element", SHAPE(SRC_B));
    REQUIRE_FLOAT(SRC_B, "b");
    return check_UNARY(t, msg);
}

#endif
