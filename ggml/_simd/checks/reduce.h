/* Checks of reductions. */
#ifndef GG_CHECKS_REDUCE_H
#define GG_CHECKS_REDUCE_H
#include "common.h"

CHECK(SUM) {
    REQUIRE_SOURCES(1);
    REQUIRE_FLOAT(a, "a");
    REQUIRE_FLOAT(t, "result");
    REQUIRE(gg_nelements(t) == 1, "result is %s: need one element", SHAPE(t));
    return NULL;
}
CHECK(ROWS1) {
    REQUIRE_SOURCES(1);
    REQUIRE_FLOAT(a, "a");
    REQUIRE_F32(t, "result");
    REQUIRE(t->ne[0] == 1 && t->ne[1] == a->ne[1] && t->ne[2] == a->ne[2] && t->ne[3] == a->ne[3],
            "result is %s, a is %s: need one element a row", SHAPE(t), SHAPE(a));
    return NULL;
}
CHECK(MIN_MAX) {
    REQUIRE_SOURCES(1);
    REQUIRE_FLOAT(a, "a");
    REQUIRE(t->type == GGML_TYPE_F32 && t->ne[0] == 2 && is_vector(t), "result is %s: need f32 [2]", SHAPE(t));
    return NULL;
}
CHECK(ARGMAX) {
    REQUIRE_SOURCES(1);
    REQUIRE_FLOAT(a, "a");
    REQUIRE(a->ne[2] == 1 && a->ne[3] == 1, "a is %s: need a matrix", SHAPE(a));
    REQUIRE(a->ne[0] <= INT32_MAX, "a is %s: rows are too long for an i32 index", SHAPE(a));
    REQUIRE(t->type == GGML_TYPE_I32 && t->ne[0] == a->ne[1] && gg_nelements(t) == t->ne[0],
            "result is %s: need i32 [%" PRId64 "]", SHAPE(t), a->ne[1]);
    return NULL;
}
CHECK(COUNT_EQUAL) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_same_shape(a, b), "a is %s, b is %s: shapes must be equal", SHAPE(a), SHAPE(b));
    REQUIRE(a->type == GGML_TYPE_I32 && b->type == GGML_TYPE_I32, "a is %s, b is %s: need i32", SHAPE(a), SHAPE(b));
    REQUIRE(t->type == GGML_TYPE_I64 && gg_nelements(t) == 1, "result is %s: need one i64", SHAPE(t));
    return NULL;
}
CHECK(REPEAT_BACK) {
    REQUIRE_SOURCES(1);
    REQUIRE_FLOAT(a, "a");
    REQUIRE_F32(t, "result");
    REQUIRE(gg_can_repeat(t, a),
            "a is %s, result is %s: each dimension of a must be a multiple of the result's", SHAPE(a), SHAPE(t));
    return NULL;
}

#endif
