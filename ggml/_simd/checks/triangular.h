/* Checks: Diagonals, triangles and triangular systems. */
#ifndef GG_CHECKS_TRIANGULAR_H
#define GG_CHECKS_TRIANGULAR_H
#include "common.h"

CHECK(DIAG) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    REQUIRE(SRC_A->ne[1] == 1, "a is %s: ne[1] must be 1", SHAPE(SRC_A));
    REQUIRE_SIZE(SRC_A->ne[0], SRC_A->ne[0], SRC_A->ne[2], SRC_A->ne[3]);
    return NULL;
}
CHECK(TRI) {
    REQUIRE(PARAM(0) >= 0 && PARAM(0) <= 3, "type is %d: need 0 to 3", PARAM(0));
    REQUIRE_SOURCES(1);
    REQUIRE(SRC_A->ne[0] == SRC_A->ne[1], "a is %s: need square matrices", SHAPE(SRC_A));
    return check_SAME_PLAIN(t, msg);
}
CHECK(SOLVE_TRI) {
    REQUIRE_SOURCES(2);
    REQUIRE_FLOAT(SRC_A, "a");
    REQUIRE_FLOAT(SRC_B, "b");
    REQUIRE_FLOAT(t, "result");
    REQUIRE(SRC_A->ne[0] == SRC_A->ne[1], "a is %s: need square matrices", SHAPE(SRC_A));
    REQUIRE(SRC_A->ne[1] == SRC_B->ne[1] && SRC_A->ne[2] == SRC_B->ne[2] && SRC_A->ne[3] == SRC_B->ne[3],
         "a is %s, b is %s: dimensions 1 to 3 must be equal", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(gg_same_shape(t, SRC_B), "result is %s, b is %s: shapes must be equal", SHAPE(t), SHAPE(SRC_B));
    return NULL;
}

#endif
