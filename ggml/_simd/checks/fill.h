/* Checks of tensors made from parameters. */
#ifndef GG_CHECKS_FILL_H
#define GG_CHECKS_FILL_H
#include "common.h"

CHECK(FILL) {
    REQUIRE_FLOAT(t, "result");
    return NULL;
}
CHECK(ARANGE) {
    REQUIRE_F32(t, "result");
    REQUIRE(gg_contiguous(t) && gg_nelements(t) == t->ne[0], "result is %s: need a contiguous vector", SHAPE(t));
    return NULL;
}
CHECK(TIMESTEP) {
    REQUIRE_SOURCES(1);
    REQUIRE_F32(a, "a");
    REQUIRE_F32(t, "result");
    REQUIRE(PARAM(0) >= 0 && PARAM(1) > 0, "dim is %d, max_period is %d: must be positive", PARAM(0), PARAM(1));
    REQUIRE(gg_nelements(a) == a->ne[0], "a is %s: need a vector", SHAPE(a));
    REQUIRE(t->nb[0] == sizeof(float), "result is %s: need packed rows", SHAPE(t));
    REQUIRE_SIZE(PARAM(0), a->ne[0], 1, 1);
    return NULL;
}

#endif
