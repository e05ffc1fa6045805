/* Checks: Padding and rolling. */
#ifndef GG_CHECKS_PAD_H
#define GG_CHECKS_PAD_H
#include "common.h"

CHECK(PAD) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    for (int i = 0; i < 4; i++) {
        const int64_t left = PARAM(2 * i), right = PARAM(2 * i + 1);
        REQUIRE(left >= 0 && right >= 0, "padding of dimension %d is %d and %d: must not be negative",
             i, (int)left, (int)right);
        REQUIRE(t->ne[i] == SRC_A->ne[i] + left + right, "result is %s, a is %s, padding of dimension %d is %d and %d",
             SHAPE(t), SHAPE(SRC_A), i, (int)left, (int)right);
        REQUIRE(!PARAM(8) || SRC_A->ne[i] || !t->ne[i], "a is %s: circular padding needs an element to repeat", SHAPE(SRC_A));
    }
    return NULL;
}
CHECK(PAD_REFLECT_1D) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    REQUIRE(PARAM(0) >= 0 && PARAM(1) >= 0, "padding is %d and %d: must not be negative", PARAM(0), PARAM(1));
    REQUIRE(PARAM(0) < SRC_A->ne[0] && PARAM(1) < SRC_A->ne[0], "a is %s, padding is %d and %d: must be less than ne[0]",
         SHAPE(SRC_A), PARAM(0), PARAM(1));
    REQUIRE_SIZE(SRC_A->ne[0] + PARAM(0) + PARAM(1), SRC_A->ne[1], SRC_A->ne[2], SRC_A->ne[3]);
    return NULL;
}

#endif
