/* Checks of comparisons and selection. */
#ifndef GG_CHECKS_COMPARE_H
#define GG_CHECKS_COMPARE_H
#include "common.h"
#include "../runtime/relations.h"

static bool is_float_or_byte(const ggml_tensor *x) { return gg_is_float(x->type) || x->type == GGML_TYPE_I8; }

CHECK(COMPARE) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_same_shape(t, a), "result is %s, a is %s: shapes must be equal", SHAPE(t), SHAPE(a));
    REQUIRE(gg_can_repeat(b, a), "a is %s, b is %s: each dimension of a must be a multiple of b's", SHAPE(a), SHAPE(b));
    REQUIRE(is_float_or_byte(a), "a is %s: need f32, f16, bf16 or i8", SHAPE(a));
    REQUIRE(is_float_or_byte(b), "b is %s: need f32, f16, bf16 or i8", SHAPE(b));
    REQUIRE(t->type == GGML_TYPE_I8, "result is %s: need i8", SHAPE(t));
    const int relation = compare_params(t)->relation;
    REQUIRE(relation >= 0 && relation < GG_COMPARE_COUNT, "%d is no relation", relation);
    return NULL;
}
CHECK(SELECT) {
    const ggml_tensor *const c = t->src[2];
    REQUIRE_SOURCES(3);
    REQUIRE(gg_can_repeat(a, t), "result is %s, a is %s: each dimension must be a multiple of a's", SHAPE(t), SHAPE(a));
    REQUIRE(gg_can_repeat(b, t), "result is %s, b is %s: each dimension must be a multiple of b's", SHAPE(t), SHAPE(b));
    REQUIRE(gg_can_repeat(c, t), "result is %s, c is %s: each dimension must be a multiple of c's", SHAPE(t), SHAPE(c));
    REQUIRE(is_float_or_byte(a), "a is %s: need f32, f16, bf16 or i8", SHAPE(a));
    REQUIRE_FLOAT(b, "b");
    REQUIRE_FLOAT(c, "c");
    REQUIRE(gg_is_float(t->type), "result is %s: need f32, f16 or bf16", SHAPE(t));
    return NULL;
}

#endif
