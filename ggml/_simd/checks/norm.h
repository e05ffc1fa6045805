/* Checks of normalisation. */
#ifndef GG_CHECKS_NORM_H
#define GG_CHECKS_NORM_H
#include "common.h"

CHECK(NORM) {
    const float eps = gg_param_f32(t, 0);
    REQUIRE(eps >= 0, "eps is %g: need 0 or more", (double)eps);
    return check_UNARY(t, msg);
}
CHECK(GROUP_NORM) {
    const float eps = gg_param_f32(t, 1);
    REQUIRE(t->op_params[0] > 0, "n_groups is %d: need 1 or more", t->op_params[0]);
    REQUIRE(eps >= 0, "eps is %g: need 0 or more", (double)eps);
    return check_UNARY(t, msg);
}

#endif
