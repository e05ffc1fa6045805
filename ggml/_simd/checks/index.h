/* Checks: Rows by index and sorting. */
#ifndef GG_CHECKS_INDEX_H
#define GG_CHECKS_INDEX_H
#include "common.h"

CHECK(GET_ROWS) {
    REQUIRE_SOURCES(2);
    REQUIRE(is_index(SRC_B->type), "b is %s: need i32 or i64", SHAPE(SRC_B));
    REQUIRE(SRC_A->ne[2] == SRC_B->ne[1] && SRC_A->ne[3] == SRC_B->ne[2] && SRC_B->ne[3] == 1, "a is %s, b is %s: a.ne[2] = b.ne[1], a.ne[3] = b.ne[2] and b.ne[3] = 1 must hold", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(t->ne[0] == SRC_A->ne[0] && t->ne[1] == SRC_B->ne[0] && t->ne[2] == SRC_B->ne[1] && t->ne[3] == SRC_B->ne[2], "result is %s, a is %s, b is %s", SHAPE(t), SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(t->type == GGML_TYPE_F32 || t->type == SRC_A->type, "result is %s, a is %s", SHAPE(t), SHAPE(SRC_A));
    return NULL;
}
CHECK(GET_ROWS_BACK) {
    REQUIRE_SOURCES(2);
    REQUIRE(is_index(SRC_B->type), "b is %s: need i32 or i64", SHAPE(SRC_B));
    REQUIRE_FLOAT(SRC_A, "a");
    REQUIRE_F32(t, "result");
    REQUIRE(SRC_A->ne[0] == t->ne[0], "a is %s, result is %s: ne[0] must be equal", SHAPE(SRC_A), SHAPE(t));
    REQUIRE(SRC_A->ne[1] == SRC_B->ne[0] && SRC_A->ne[2] == SRC_B->ne[1] && SRC_A->ne[3] == SRC_B->ne[2] && SRC_B->ne[3] == 1 && t->ne[2] == SRC_A->ne[2] && t->ne[3] == SRC_A->ne[3],
         "a is %s, b is %s, result is %s: need a row of a for each index", SHAPE(SRC_A), SHAPE(SRC_B), SHAPE(t));
    return NULL;
}
CHECK(SET_ROWS) {
    REQUIRE_SOURCES(2);   /* src: b (rows), c (indices), a (the tensor written, of which t is a view) */
    REQUIRE(is_index(SRC_B->type), "c is %s: need i64 or i32", SHAPE(SRC_B));
    REQUIRE_FLOAT(SRC_A, "b");
    REQUIRE(SRC_A->ne[0] == t->ne[0] && SRC_A->ne[2] == t->ne[2] && SRC_A->ne[3] == t->ne[3], "a is %s, b is %s: ne[0], ne[2] and ne[3] must be equal", SHAPE(t), SHAPE(SRC_A));
    REQUIRE(SRC_A->ne[1] == SRC_B->ne[0], "b is %s, c is %s: need an index for each row", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(multiple(SRC_A->ne[2], SRC_B->ne[1]) && multiple(SRC_A->ne[3], SRC_B->ne[2]) && SRC_B->ne[3] == 1,
         "b is %s, c is %s: dimensions 2 and 3 of b must be multiples of c's 1 and 2", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(converts(SRC_A->type, t->type), "a is %s: there is no conversion from %s", SHAPE(t), SHAPE(SRC_A));
    return NULL;
}
CHECK(ADD_ID) {
    REQUIRE_SOURCES(3);   /* src: a, b (rows to choose from), ids */
    const ggml_tensor *ids = t->src[2];
    REQUIRE_FLOAT(SRC_B, "b");
    REQUIRE(SRC_A->ne[0] == SRC_B->ne[0] && SRC_B->ne[2] == 1 && SRC_B->ne[3] == 1,
         "a is %s, b is %s: need a matrix of equal ne[0]", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(ids->type == GGML_TYPE_I32, "ids is %s: need i32", SHAPE(ids));
    REQUIRE(ids->ne[0] == SRC_A->ne[1] && ids->ne[1] == SRC_A->ne[2] && gg_nelements(ids) == gg_nrows(SRC_A),
         "a is %s, ids is %s: need an index for each row of a", SHAPE(SRC_A), SHAPE(ids));
    return check_UNARY(t, msg);
}
CHECK(ARGSORT) {
    const int order = t->op_params[0];
    REQUIRE_SOURCES(1);
    REQUIRE(order == 0 || order == 1, "order is %d: need 0 (ascending) or 1 (descending)", order);
    REQUIRE_FLOAT(SRC_A, "a");
    REQUIRE(index_fits(SRC_A), "a is %s: rows are too long for an i32 index", SHAPE(SRC_A));
    REQUIRE(t->type == GGML_TYPE_I32 && gg_same_shape(t, SRC_A),
         "result is %s, a is %s: need i32 of the same shape", SHAPE(t), SHAPE(SRC_A));
    return NULL;
}
CHECK(TOP_K) {
    REQUIRE_SOURCES(1);
    REQUIRE_FLOAT(SRC_A, "a");
    REQUIRE(index_fits(SRC_A), "a is %s: rows are too long for an i32 index", SHAPE(SRC_A));
    REQUIRE(t->ne[0] <= SRC_A->ne[0], "a is %s, k is %" PRId64 ": need at most ne[0]", SHAPE(SRC_A), t->ne[0]);
    REQUIRE(t->type == GGML_TYPE_I32 && t->ne[1] == SRC_A->ne[1] && t->ne[2] == SRC_A->ne[2] && t->ne[3] == SRC_A->ne[3],
         "result is %s, a is %s: need i32, as many rows", SHAPE(t), SHAPE(SRC_A));
    return NULL;
}

#endif
