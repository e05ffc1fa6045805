/* Checks of GLU. */
#ifndef GG_CHECKS_GLU_H
#define GG_CHECKS_GLU_H
#include "common.h"

CHECK(GLU) {
    const int op = glu_params(t)->function;
    REQUIRE_SOURCES(1);
    REQUIRE(gg_glu_name(op), "%d is not a GLU operation", op);
    REQUIRE_FLOAT(a, "a");
    REQUIRE_FLOAT(t, "result");
    if (b) {
        REQUIRE_FLOAT(b, "b");
        REQUIRE(gg_same_shape(a, b), "a is %s, b is %s: shapes must be equal", SHAPE(a), SHAPE(b));
        REQUIRE(gg_same_shape(t, a), "result is %s, a is %s: shapes must be equal", SHAPE(t), SHAPE(a));
        return NULL;
    }
    REQUIRE(a->ne[0] % 2 == 0, "a is %s: ne[0] must be even, its halves are the two operands", SHAPE(a));
    REQUIRE(t->ne[0] == a->ne[0] / 2 && t->ne[1] == a->ne[1] && t->ne[2] == a->ne[2] && t->ne[3] == a->ne[3],
            "result is %s, a is %s: need rows of half the length", SHAPE(t), SHAPE(a));
    return NULL;
}

#endif
