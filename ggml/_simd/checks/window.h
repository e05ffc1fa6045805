/* Checks of windows of images and relative positions. */
#ifndef GG_CHECKS_WINDOW_H
#define GG_CHECKS_WINDOW_H
#include "common.h"

CHECK(WIN_PART) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    const gg_win_part_params *q = win_part_params(t);
    const int64_t across = q->columns, down = q->rows, w = q->w;
    REQUIRE(w > 0, "w is %d: must be positive", q->w);
    REQUIRE(a->ne[3] == 1, "a is %s: ne[3] must be 1", SHAPE(a));
    REQUIRE(across == quotient_up(a->ne[1], w) && down == quotient_up(a->ne[2], w),
            "a is %s, windows of %d: %d by %d do not cover it", SHAPE(a), q->w, q->columns, q->rows);
    REQUIRE_SIZE(a->ne[0], w, w, across * down);
    return NULL;
}
CHECK(WIN_UNPART) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    const int64_t w = win_unpart_params(t)->w;
    REQUIRE(w > 0, "w is %d: must be positive", win_unpart_params(t)->w);
    REQUIRE(a->ne[0] == t->ne[0] && a->ne[1] == w && a->ne[2] == w && t->ne[3] == 1,
            "a is %s, result is %s, w is %d", SHAPE(a), SHAPE(t), win_unpart_params(t)->w);
    REQUIRE(a->ne[3] == quotient_up(t->ne[1], w) * quotient_up(t->ne[2], w),
            "a is %s, result is %s: need a window for each part", SHAPE(a), SHAPE(t));
    return NULL;
}
CHECK(GET_REL_POS) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    REQUIRE(gg_nelements(a) == a->ne[0] * a->ne[1], "a is %s: need a matrix", SHAPE(a));
    REQUIRE(t->ne[1] == t->ne[2] && a->ne[1] == 2 * t->ne[1] - 1,
            "a is %s, result is %s: a needs 2 * size - 1 rows", SHAPE(a), SHAPE(t));
    REQUIRE_SIZE(a->ne[0], t->ne[1], t->ne[2], 1);
    return NULL;
}
CHECK(ADD_REL_POS) {
    REQUIRE_SOURCES(3);
    ggml_tensor *C = t->src[2];
    REQUIRE_F32(a, "a");
    REQUIRE_F32(b, "pw");
    REQUIRE_F32(C, "ph");
    REQUIRE_F32(t, "result");
    REQUIRE(b->ne[0] <= INT32_MAX, "pw is %s: too large", SHAPE(b));
    REQUIRE(gg_same_shape(b, C), "pw is %s, ph is %s: shapes must be equal", SHAPE(b), SHAPE(C));
    REQUIRE(gg_contiguous(a) && gg_contiguous(b) && gg_contiguous(C) && gg_contiguous(t),
            "a is %s: need contiguous tensors", SHAPE(a));
    REQUIRE(a->ne[0] == b->ne[0] * b->ne[0] && a->ne[1] == b->ne[1] * b->ne[2] && a->ne[2] == b->ne[3] && a->ne[3] == 1,
            "a is %s, pw is %s: a must be [pw.ne[0]^2, pw.ne[1] * pw.ne[2], pw.ne[3]]", SHAPE(a), SHAPE(b));
    return check_SAME_PLAIN(t, msg);
}

#endif
