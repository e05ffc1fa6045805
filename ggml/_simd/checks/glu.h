/* Checks: GLU. */
#ifndef GG_CHECKS_GLU_H
#define GG_CHECKS_GLU_H
#include "common.h"

CHECK(GLU) {
    const int op = t->op_params[0];
    REQUIRE_SOURCES(1);
    REQUIRE(gg_glu_name(op), "%d is no GLU operation", op);
    REQUIRE_FLOAT(SRC_A, "a");
    REQUIRE_FLOAT(t, "result");
    if (SRC_B) {
        REQUIRE_FLOAT(SRC_B, "b");
        REQUIRE(gg_same_shape(SRC_A, SRC_B), "a is %s, b is %s: shapes must be equal", SHAPE(SRC_A), SHAPE(SRC_B));
        REQUIRE(gg_same_shape(t, SRC_A), "result is %s, a is %s: shapes must be equal", SHAPE(t), SHAPE(SRC_A));
        return NULL;
    }
    REQUIRE(SRC_A->ne[0] % 2 == 0, "a is %s: ne[0] must be even, its halves are the two operands", SHAPE(SRC_A));
    REQUIRE(t->ne[0] == SRC_A->ne[0] / 2 && t->ne[1] == SRC_A->ne[1] && t->ne[2] == SRC_A->ne[2] && t->ne[3] == SRC_A->ne[3],
         "result is %s, a is %s: need rows of half the length", SHAPE(t), SHAPE(SRC_A));
    return NULL;
}

#endif
