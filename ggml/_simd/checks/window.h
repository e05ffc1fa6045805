/* Checks: Windows of images and relative positions. */
#ifndef GG_CHECKS_WINDOW_H
#define GG_CHECKS_WINDOW_H
#include "common.h"

CHECK(WIN_PART) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    const int64_t across = PARAM(0), down = PARAM(1), w = PARAM(2);
    REQUIRE(w > 0, "w is %d: must be positive", PARAM(2));
    REQUIRE(SRC_A->ne[3] == 1, "a is %s: ne[3] must be 1", SHAPE(SRC_A));
    REQUIRE(across == (SRC_A->ne[1] + w - 1) / w && down == (SRC_A->ne[2] + w - 1) / w,
         "a is %s, windows of %d: %d by %d do not cover it", SHAPE(SRC_A), PARAM(2), PARAM(0), PARAM(1));
    REQUIRE_SIZE(SRC_A->ne[0], w, w, across * down);
    return NULL;
}
CHECK(WIN_UNPART) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    const int64_t w = PARAM(0);
    REQUIRE(w > 0, "w is %d: must be positive", PARAM(0));
    REQUIRE(SRC_A->ne[0] == t->ne[0] && SRC_A->ne[1] == w && SRC_A->ne[2] == w && t->ne[3] == 1, "a is %s, result is %s, w is %d",
         SHAPE(SRC_A), SHAPE(t), PARAM(0));
    REQUIRE(SRC_A->ne[3] == (t->ne[1] + w - 1) / w * ((t->ne[2] + w - 1) / w),
         "a is %s, result is %s: need a window for each part", SHAPE(SRC_A), SHAPE(t));
    return NULL;
}
CHECK(GET_REL_POS) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    REQUIRE(gg_nelements(SRC_A) == SRC_A->ne[0] * SRC_A->ne[1], "a is %s: need a matrix", SHAPE(SRC_A));
    REQUIRE(t->ne[1] == t->ne[2] && SRC_A->ne[1] == 2 * t->ne[1] - 1, "a is %s, result is %s: a needs 2 * size - 1 rows",
         SHAPE(SRC_A), SHAPE(t));
    REQUIRE_SIZE(SRC_A->ne[0], t->ne[1], t->ne[2], 1);
    return NULL;
}
CHECK(ADD_REL_POS) {
    REQUIRE_SOURCES(3);
    ggml_tensor *C = t->src[2];
    REQUIRE_F32(SRC_A, "a");
    REQUIRE_F32(SRC_B, "pw");
    REQUIRE_F32(C, "ph");
    REQUIRE_F32(t, "result");
    REQUIRE(SRC_B->ne[0] <= INT32_MAX, "pw is %s: too large", SHAPE(SRC_B));
    REQUIRE(gg_same_shape(SRC_B, C), "pw is %s, ph is %s: shapes must be equal", SHAPE(SRC_B), SHAPE(C));
    REQUIRE(gg_contiguous(SRC_A) && gg_contiguous(SRC_B) && gg_contiguous(C) && gg_contiguous(t),
         "a is %s: need contiguous tensors", SHAPE(SRC_A));
    REQUIRE(SRC_A->ne[0] == SRC_B->ne[0] * SRC_B->ne[0] && SRC_A->ne[1] == SRC_B->ne[1] * SRC_B->ne[2] && SRC_A->ne[2] == SRC_B->ne[3] && SRC_A->ne[3] == 1,
         "a is %s, pw is %s: a must be [pw.ne[0]^2, pw.ne[1] * pw.ne[2], pw.ne[3]]", SHAPE(SRC_A), SHAPE(SRC_B));
    return check_SAME_PLAIN(t, msg);
}

#endif
