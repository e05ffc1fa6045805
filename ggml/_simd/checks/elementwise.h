/* Checks of element-wise operations. */
#ifndef GG_CHECKS_ELEMENTWISE_H
#define GG_CHECKS_ELEMENTWISE_H
#include "common.h"

CHECK(BINARY) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_same_shape(t, a), "result is %s, a is %s: shapes must be equal", SHAPE(t), SHAPE(a));
    REQUIRE(gg_can_repeat(b, a), "a is %s, b is %s: each dimension of a must be a multiple of b's", SHAPE(a), SHAPE(b));
    if (t->op == GGML_OP_ADD && gg_types[a->type].quantized) {
        REQUIRE(a->type == t->type || gg_is_float(t->type), "a is %s, result is %s", SHAPE(a), SHAPE(t));
        REQUIRE(converts(b->type, t->type), "result is %s: there is no conversion from f32", SHAPE(t));
        REQUIRE_F32(b, "b");
        return NULL;
    }
    REQUIRE_FLOAT(a, "a");
    REQUIRE_FLOAT(b, "b");
    REQUIRE(gg_is_float(t->type), "result is %s: need f32, f16 or bf16", SHAPE(t));
    return NULL;
}
CHECK(ADD1) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_nelements(b) == 1, "b is %s: need one element", SHAPE(b));
    REQUIRE_FLOAT(b, "b");
    return check_UNARY(t, msg);
}
CHECK(QUANTIZE_LINEAR) {
    const ggml_tensor *const operands[] = {b, t->src[2]};
    REQUIRE_SOURCES(2);
    for (int i = 0; i < 2; i++) {
        const ggml_tensor *const x = operands[i];
        const char *const name = i ? "zero" : "scale";
        if (!x) continue;
        REQUIRE(gg_is_float(x->type), "%s is %s: need f32, f16 or bf16", name, SHAPE(x));
        REQUIRE(gg_can_repeat(x, a), "a is %s, %s is %s: each dimension of a must be a multiple of its", SHAPE(a), name,
                SHAPE(x));
    }
    return check_UNARY(t, msg);
}

#endif
