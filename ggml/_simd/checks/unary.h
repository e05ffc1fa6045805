/* Checks of the unary functions. */
#ifndef GG_CHECKS_UNARY_H
#define GG_CHECKS_UNARY_H
#include "common.h"

CHECK(UNARY_OP) {
    const int op = t->op_params[0];
    REQUIRE(gg_unary_name(op), "%d is not a unary operation", op);
    return check_UNARY(t, msg);
}

#endif
