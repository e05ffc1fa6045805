/* Checks of normalisation. */
#ifndef GG_CHECKS_NORM_H
#define GG_CHECKS_NORM_H
#include "common.h"

CHECK(NORM) {
    const float eps = norm_params(t)->eps;
    REQUIRE(eps >= 0, "eps is %g: need 0 or more", (double)eps);
    return check_UNARY(t, msg);
}
CHECK(CHANNEL_NORM) {
    const ggml_tensor *const c = t->src[2];
    REQUIRE_SOURCES(3);
    const ggml_tensor *const factors[] = {b, c};
    for (int i = 0; i < 2; i++) {
        const ggml_tensor *const x = factors[i];
        REQUIRE_F32(x, "a factor or bias");
        REQUIRE(x->ne[0] == 1 && x->ne[1] == a->ne[1] && gg_can_repeat(x, a),
                "a is %s, a factor or bias is %s: need one for each channel, [1, %lld, ...]", SHAPE(a), SHAPE(x),
                (long long)a->ne[1]);
    }
    REQUIRE_F32(a, "a");
    REQUIRE_F32(t, "result");
    REQUIRE(gg_contiguous(a) && gg_contiguous(t), "a or the result is not contiguous");
    return check_NORM(t, msg);
}
CHECK(GROUP_NORM) {
    const float eps = group_norm_params(t)->eps;
    REQUIRE(group_norm_params(t)->n_groups > 0, "n_groups is %d: need 1 or more", group_norm_params(t)->n_groups);
    REQUIRE(eps >= 0, "eps is %g: need 0 or more", (double)eps);
    return check_UNARY(t, msg);
}

#endif
