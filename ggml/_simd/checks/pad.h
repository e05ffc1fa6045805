/* Checks of padding and rolling. */
#ifndef GG_CHECKS_PAD_H
#define GG_CHECKS_PAD_H
#include "common.h"

CHECK(PAD) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    for (int i = 0; i < 4; i++) {
        const int64_t left = PARAM(2 * i), right = PARAM(2 * i + 1);
        REQUIRE(left >= 0 && right >= 0,
                "padding of dimension %d is %d and %d: must not be negative", i, (int)left, (int)right);
        REQUIRE(t->ne[i] == a->ne[i] + left + right,
                "result is %s, a is %s, padding of dimension %d is %d and %d", SHAPE(t), SHAPE(a), i, (int)left,
                (int)right);
        REQUIRE(!PARAM(8) || a->ne[i] || !t->ne[i], "a is %s: circular padding needs an element to repeat", SHAPE(a));
    }
    return NULL;
}
CHECK(PAD_REFLECT_1D) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    REQUIRE(PARAM(0) >= 0 && PARAM(1) >= 0, "padding is %d and %d: must not be negative", PARAM(0), PARAM(1));
    REQUIRE(PARAM(0) < a->ne[0] && PARAM(1) < a->ne[0],
            "a is %s, padding is %d and %d: must be less than ne[0]", SHAPE(a), PARAM(0), PARAM(1));
    REQUIRE_SIZE(a->ne[0] + PARAM(0) + PARAM(1), a->ne[1], a->ne[2], a->ne[3]);
    return NULL;
}

#endif
