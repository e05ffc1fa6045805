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
    const gg_timestep_params *q = timestep_params(t);
    REQUIRE_SOURCES(1);
    REQUIRE_F32(a, "a");
    REQUIRE_F32(t, "result");
    REQUIRE(q->dim >= 0 && q->max_period > 0, "dim is %d, max_period is %d: must be positive", q->dim, q->max_period);
    REQUIRE(gg_nelements(a) == a->ne[0], "a is %s: need a vector", SHAPE(a));
    REQUIRE(t->nb[0] == sizeof(float), "result is %s: need packed rows", SHAPE(t));
    REQUIRE_SIZE(q->dim, a->ne[0], 1, 1);
    return NULL;
}

#endif
