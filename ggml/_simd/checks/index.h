/* Checks of rows by index and sorting. */
#ifndef GG_CHECKS_INDEX_H
#define GG_CHECKS_INDEX_H
#include "common.h"

CHECK(GET_ROWS) {
    REQUIRE_SOURCES(2);
    REQUIRE(is_index(b->type), "b is %s: need i32 or i64", SHAPE(b));
    REQUIRE(a->ne[2] == b->ne[1] && a->ne[3] == b->ne[2] && b->ne[3] == 1,
            "a is %s, b is %s: a.ne[2] = b.ne[1], a.ne[3] = b.ne[2] and b.ne[3] = 1 must hold", SHAPE(a), SHAPE(b));
    REQUIRE(t->ne[0] == a->ne[0] && t->ne[1] == b->ne[0] && t->ne[2] == b->ne[1] && t->ne[3] == b->ne[2],
            "result is %s, a is %s, b is %s", SHAPE(t), SHAPE(a), SHAPE(b));
    REQUIRE(t->type == GGML_TYPE_F32 || t->type == a->type, "result is %s, a is %s", SHAPE(t), SHAPE(a));
    return NULL;
}
CHECK(GET_ROWS_BACK) {
    REQUIRE_SOURCES(2);
    REQUIRE(is_index(b->type), "b is %s: need i32 or i64", SHAPE(b));
    REQUIRE_FLOAT(a, "a");
    REQUIRE_F32(t, "result");
    REQUIRE(a->ne[0] == t->ne[0], "a is %s, result is %s: ne[0] must be equal", SHAPE(a), SHAPE(t));
    REQUIRE(a->ne[1] == b->ne[0] && a->ne[2] == b->ne[1] && a->ne[3] == b->ne[2] && b->ne[3] == 1
            && t->ne[2] == a->ne[2] && t->ne[3] == a->ne[3],
            "a is %s, b is %s, result is %s: need a row of a for each index", SHAPE(a), SHAPE(b), SHAPE(t));
    return NULL;
}
CHECK(SET_ROWS) {
    REQUIRE_SOURCES(2);   /* src: b (rows), c (indices), a (the tensor written, of which t is a view) */
    REQUIRE(is_index(b->type), "c is %s: need i64 or i32", SHAPE(b));
    REQUIRE_FLOAT(a, "b");
    REQUIRE(a->ne[0] == t->ne[0] && a->ne[2] == t->ne[2] && a->ne[3] == t->ne[3],
            "a is %s, b is %s: ne[0], ne[2] and ne[3] must be equal", SHAPE(t), SHAPE(a));
    REQUIRE(a->ne[1] == b->ne[0], "b is %s, c is %s: need an index for each row", SHAPE(a), SHAPE(b));
    REQUIRE(multiple(a->ne[2], b->ne[1]) && multiple(a->ne[3], b->ne[2]) && b->ne[3] == 1,
            "b is %s, c is %s: dimensions 2 and 3 of b must be multiples of c's 1 and 2", SHAPE(a), SHAPE(b));
    REQUIRE(converts(a->type, t->type), "a is %s: there is no conversion from %s", SHAPE(t), SHAPE(a));
    return NULL;
}
CHECK(ADD_ID) {
    REQUIRE_SOURCES(3);   /* src: a, b (rows to choose from), ids */
    const ggml_tensor *ids = t->src[2];
    REQUIRE_FLOAT(b, "b");
    REQUIRE(a->ne[0] == b->ne[0] && b->ne[2] == 1 && b->ne[3] == 1,
            "a is %s, b is %s: need a matrix of equal ne[0]", SHAPE(a), SHAPE(b));
    REQUIRE(ids->type == GGML_TYPE_I32, "ids is %s: need i32", SHAPE(ids));
    REQUIRE(ids->ne[0] == a->ne[1] && ids->ne[1] == a->ne[2] && a->ne[3] == 1 && ids->ne[2] == 1 && ids->ne[3] == 1,
            "a is %s, ids is %s: need an index for each row of a", SHAPE(a), SHAPE(ids));
    return check_UNARY(t, msg);
}
CHECK(TOP_K) {
    REQUIRE_SOURCES(1);
    REQUIRE_FLOAT(a, "a");
    REQUIRE(index_fits(a), "a is %s: rows are too long for an i32 index", SHAPE(a));
    REQUIRE(t->ne[0] <= a->ne[0], "a is %s, k is %" PRId64 ": need at most ne[0]", SHAPE(a), t->ne[0]);
    REQUIRE(t->type == GGML_TYPE_I32 && t->ne[1] == a->ne[1] && t->ne[2] == a->ne[2] && t->ne[3] == a->ne[3],
            "result is %s, a is %s: need i32, as many rows", SHAPE(t), SHAPE(a));
    return NULL;
}
CHECK(ARGSORT) {
    const int order = argsort_params(t)->order;
    REQUIRE(order == 0 || order == 1, "order is %d: need 0 (ascending) or 1 (descending)", order);
    return check_TOP_K(t, msg);
}

#endif
