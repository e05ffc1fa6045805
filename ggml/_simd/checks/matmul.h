/* Checks: Matrix products. */
#ifndef GG_CHECKS_MATMUL_H
#define GG_CHECKS_MATMUL_H
#include "common.h"

CHECK(MUL_MAT) {
    REQUIRE_SOURCES(2);
    REQUIRE(SRC_A->ne[0] == SRC_B->ne[0], "a is %s, b is %s: ne[0] must be equal", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(multiple(SRC_B->ne[2], SRC_A->ne[2]) && multiple(SRC_B->ne[3], SRC_A->ne[3]),
         "a is %s, b is %s: dimensions 2 and 3 of b must be multiples of a's", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(gg_is_float(SRC_A->type) || gg_types[SRC_A->type].quantized, "a is %s: need a float or quantised type", SHAPE(SRC_A));
    REQUIRE_FLOAT(SRC_B, "b");
    REQUIRE_F32(t, "result");
    REQUIRE(t->ne[0] == SRC_A->ne[1] && t->ne[1] == SRC_B->ne[1] && t->ne[2] == SRC_B->ne[2] && t->ne[3] == SRC_B->ne[3], "result is %s, a is %s, b is %s", SHAPE(t), SHAPE(SRC_A), SHAPE(SRC_B));
    return NULL;
}
CHECK(OUT_PROD) {
    REQUIRE_SOURCES(2);
    REQUIRE(SRC_A->ne[1] == SRC_B->ne[1], "a is %s, b is %s: ne[1] must be equal", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(multiple(SRC_B->ne[2], SRC_A->ne[2]) && multiple(SRC_B->ne[3], SRC_A->ne[3]),
         "a is %s, b is %s: dimensions 2 and 3 of b must be multiples of a's", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(gg_is_float(SRC_A->type) || gg_types[SRC_A->type].quantized, "a is %s: need a float or quantised type", SHAPE(SRC_A));
    REQUIRE_FLOAT(SRC_B, "b");
    REQUIRE_F32(t, "result");
    REQUIRE(t->ne[0] == SRC_A->ne[0] && t->ne[1] == SRC_B->ne[0] && t->ne[2] == SRC_B->ne[2] && t->ne[3] == SRC_B->ne[3], "result is %s, a is %s, b is %s", SHAPE(t), SHAPE(SRC_A), SHAPE(SRC_B));
    return NULL;
}
static const char *need_ids(const ggml_tensor *ids, const ggml_tensor *rows, char *msg) {
    REQUIRE(ids->type == GGML_TYPE_I32, "ids is %s: need i32", SHAPE(ids));
    REQUIRE(ids->ne[2] == 1 && ids->ne[3] == 1 && rows->ne[3] == 1 && ids->ne[1] == rows->ne[2],
         "ids is %s, b is %s: need a row of indices for each of b's ne[2] tokens", SHAPE(ids), SHAPE(rows));
    REQUIRE(multiple(ids->ne[0], rows->ne[1]),
         "ids is %s, b is %s: ids.ne[0] must be a multiple of b.ne[1]", SHAPE(ids), SHAPE(rows));
    return NULL;
}
CHECK(MUL_MAT_ID) {
    const int along = t->op == GGML_OP_MUL_MAT_ID_BACK;
    REQUIRE_SOURCES(3);   /* src: as, b, ids */
    const ggml_tensor *ids = t->src[2];
    REQUIRE(SRC_A->ne[3] == 1, "as is %s: need three dimensions", SHAPE(SRC_A));
    REQUIRE(gg_is_float(SRC_A->type) || gg_types[SRC_A->type].quantized, "as is %s: need a float or quantised type", SHAPE(SRC_A));
    REQUIRE_FLOAT(SRC_B, "b");
    REQUIRE(SRC_A->ne[along] == SRC_B->ne[0], "as is %s, b is %s: as.ne[%d] must be b.ne[0]", SHAPE(SRC_A), SHAPE(SRC_B), along);
    const char *bad = need_ids(ids, SRC_B, msg);
    if (bad) return bad;
    REQUIRE_F32(t, "result");
    REQUIRE(t->ne[0] == SRC_A->ne[!along] && t->ne[1] == ids->ne[0] && t->ne[2] == SRC_B->ne[2] && t->ne[3] == 1,
         "result is %s, as is %s, b is %s", SHAPE(t), SHAPE(SRC_A), SHAPE(SRC_B));
    return NULL;
}
CHECK(MUL_MAT_ID_BACK_AS) {
    REQUIRE_SOURCES(3);   /* src: b, gradient, ids */
    const ggml_tensor *ids = t->src[2];
    REQUIRE_FLOAT(SRC_A, "b");
    REQUIRE_FLOAT(SRC_B, "gradient");
    const char *bad = need_ids(ids, SRC_A, msg);
    if (bad) return bad;
    REQUIRE_F32(t, "result");
    REQUIRE(t->ne[0] == SRC_A->ne[0] && t->ne[1] == SRC_B->ne[0] && t->ne[3] == 1 && SRC_B->ne[1] == ids->ne[0] && SRC_B->ne[2] == ids->ne[1] && SRC_B->ne[3] == 1,
         "result is %s, b is %s, gradient is %s", SHAPE(t), SHAPE(SRC_A), SHAPE(SRC_B));
    return NULL;
}

#endif
