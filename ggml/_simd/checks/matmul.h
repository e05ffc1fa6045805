/* Checks of matrix products. */
#ifndef GG_CHECKS_MATMUL_H
#define GG_CHECKS_MATMUL_H
#include "common.h"

CHECK(MUL_MAT) {
    REQUIRE_SOURCES(2);
    REQUIRE(!t->src[2], "src[2] is set: need two operands");    /* fuse.c gives products a bias there */
    REQUIRE(a->ne[0] == b->ne[0], "a is %s, b is %s: ne[0] must be equal", SHAPE(a), SHAPE(b));
    REQUIRE(multiple(b->ne[2], a->ne[2]) && multiple(b->ne[3], a->ne[3]),
            "a is %s, b is %s: dimensions 2 and 3 of b must be multiples of a's", SHAPE(a), SHAPE(b));
    if (a->type == GGML_TYPE_I8)
        REQUIRE(a->nb[0] == 1 && a->ne[2] == 1 && a->ne[3] == 1 && gg_contiguous(t),
                "a is %s: need one matrix with contiguous rows, and a contiguous result", SHAPE(a));
    if (a->type == GGML_TYPE_I8)
        REQUIRE(mul_mat_params(t)->offset >= -255 && mul_mat_params(t)->offset <= 255,
                "offset is %d: need -255 to 255", mul_mat_params(t)->offset);
    else
        REQUIRE(gg_is_float(a->type) || gg_types[a->type].quantized, "a is %s: need a float, quantised or i8 type",
                SHAPE(a));
    if (mul_mat_params(t)->whole)
        REQUIRE(gg_is_float(a->type) && gg_contiguous(t), "a is %s: need floats, and a contiguous result", SHAPE(a));
    REQUIRE_FLOAT(b, "b");
    REQUIRE_F32(t, "result");
    REQUIRE(t->ne[0] == a->ne[1] && t->ne[1] == b->ne[1] && t->ne[2] == b->ne[2] && t->ne[3] == b->ne[3],
            "result is %s, a is %s, b is %s", SHAPE(t), SHAPE(a), SHAPE(b));
    return NULL;
}
CHECK(OUT_PROD) {
    REQUIRE_SOURCES(2);
    REQUIRE(a->ne[1] == b->ne[1], "a is %s, b is %s: ne[1] must be equal", SHAPE(a), SHAPE(b));
    REQUIRE(multiple(b->ne[2], a->ne[2]) && multiple(b->ne[3], a->ne[3]),
            "a is %s, b is %s: dimensions 2 and 3 of b must be multiples of a's", SHAPE(a), SHAPE(b));
    REQUIRE(gg_is_float(a->type) || gg_types[a->type].quantized, "a is %s: need a float or quantised type", SHAPE(a));
    REQUIRE_FLOAT(b, "b");
    REQUIRE_F32(t, "result");
    REQUIRE(t->ne[0] == a->ne[0] && t->ne[1] == b->ne[0] && t->ne[2] == b->ne[2] && t->ne[3] == b->ne[3],
            "result is %s, a is %s, b is %s", SHAPE(t), SHAPE(a), SHAPE(b));
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
    REQUIRE(a->ne[3] == 1, "as is %s: need three dimensions", SHAPE(a));
    REQUIRE(gg_is_float(a->type) || gg_types[a->type].quantized, "as is %s: need a float or quantised type", SHAPE(a));
    REQUIRE_FLOAT(b, "b");
    REQUIRE(a->ne[along] == b->ne[0], "as is %s, b is %s: as.ne[%d] must be b.ne[0]", SHAPE(a), SHAPE(b), along);
    const char *bad = need_ids(ids, b, msg);
    if (bad) return bad;
    REQUIRE_F32(t, "result");
    REQUIRE(t->ne[0] == a->ne[!along] && t->ne[1] == ids->ne[0] && t->ne[2] == b->ne[2] && t->ne[3] == 1,
            "result is %s, as is %s, b is %s", SHAPE(t), SHAPE(a), SHAPE(b));
    return NULL;
}
CHECK(MUL_MAT_ID_BACK_AS) {
    REQUIRE_SOURCES(3);   /* src: b, gradient, ids */
    const ggml_tensor *ids = t->src[2];
    REQUIRE_FLOAT(a, "b");
    REQUIRE_FLOAT(b, "gradient");
    const char *bad = need_ids(ids, a, msg);
    if (bad) return bad;
    REQUIRE_F32(t, "result");
    REQUIRE(t->ne[0] == a->ne[0] && t->ne[1] == b->ne[0] && t->ne[3] == 1 && b->ne[1] == ids->ne[0]
            && b->ne[2] == ids->ne[1] && b->ne[3] == 1,
            "result is %s, b is %s, gradient is %s", SHAPE(t), SHAPE(a), SHAPE(b));
    return NULL;
}

#endif
