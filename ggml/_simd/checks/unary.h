/* Checks of the unary functions. */
#ifndef GG_CHECKS_UNARY_H
#define GG_CHECKS_UNARY_H
#include "common.h"

CHECK(UNARY_OP) {
    const int op = unary_params(t)->function;
    REQUIRE(gg_unary_name(op), "%d is not a unary operation", op);
    return check_UNARY(t, msg);
}

#endif
