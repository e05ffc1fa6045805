/* Checks of normalisation. */
#ifndef GG_CHECKS_NORM_H
#define GG_CHECKS_NORM_H
#include "common.h"

CHECK(NORM) {
    const float eps = norm_params(t)->eps;
    REQUIRE(eps >= 0, "eps is %g: need 0 or more", (double)eps);
    return check_UNARY(t, msg);
}
CHECK(GROUP_NORM) {
    const float eps = group_norm_params(t)->eps;
    REQUIRE(group_norm_params(t)->n_groups > 0, "n_groups is %d: need 1 or more", group_norm_params(t)->n_groups);
    REQUIRE(eps >= 0, "eps is %g: need 0 or more", (double)eps);
    return check_UNARY(t, msg);
}

#endif
