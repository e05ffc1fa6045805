/* Checks of diagonals, triangles and triangular systems. */
#ifndef GG_CHECKS_TRIANGULAR_H
#define GG_CHECKS_TRIANGULAR_H
#include "common.h"

CHECK(DIAG) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    REQUIRE(a->ne[1] == 1, "a is %s: ne[1] must be 1", SHAPE(a));
    REQUIRE_SIZE(a->ne[0], a->ne[0], a->ne[2], a->ne[3]);
    return NULL;
}
CHECK(TRI) {
    const int32_t kind = triangular_params(t)->kind;
    REQUIRE(kind >= 0 && kind <= 3, "type is %d: need 0 to 3", kind);
    REQUIRE_SOURCES(1);
    REQUIRE(a->ne[0] == a->ne[1], "a is %s: need square matrices", SHAPE(a));
    return check_SAME_PLAIN(t, msg);
}
CHECK(SOLVE_TRI) {
    REQUIRE_SOURCES(2);
    REQUIRE_FLOAT(a, "a");
    REQUIRE_FLOAT(b, "b");
    REQUIRE_FLOAT(t, "result");
    REQUIRE(a->ne[0] == a->ne[1], "a is %s: need square matrices", SHAPE(a));
    REQUIRE(a->ne[1] == b->ne[1] && a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3],
            "a is %s, b is %s: dimensions 1 to 3 must be equal", SHAPE(a), SHAPE(b));
    REQUIRE(gg_same_shape(t, b), "result is %s, b is %s: shapes must be equal", SHAPE(t), SHAPE(b));
    return NULL;
}

#endif
