/* Checks of optimiser steps. */
#ifndef GG_CHECKS_OPTIMIZER_H
#define GG_CHECKS_OPTIMIZER_H
#include "common.h"

static const char *step(const ggml_tensor *t, int n_state, int n_params, char *msg) {
    REQUIRE_SOURCES(n_state + 1);
    const ggml_tensor *a = t->src[0], *p = t->src[n_state], *loss = t->src[n_state + 1];
    REQUIRE(a->flags & GGML_TENSOR_FLAG_PARAM, "a ('%s') is not a parameter: call ggml_set_param on it", a->name);
    for (int i = 0; i < n_state; i++) {
        REQUIRE(gg_same_shape(a, t->src[i]),
                "a is %s, source %d is %s: shapes must be equal", SHAPE(a), i, SHAPE(t->src[i]));
        REQUIRE(t->src[i]->type == GGML_TYPE_F32, "source %d is %s: need f32", i, SHAPE(t->src[i]));
    }
    REQUIRE(p->type == GGML_TYPE_F32 && gg_nelements(p) == n_params && gg_contiguous(p),
            "parameters are %s: need f32 [%d]", SHAPE(p), n_params);
    REQUIRE(!loss || (loss->type == GGML_TYPE_F32 && gg_nelements(loss) == 1), "loss is %s: need f32 [1]", SHAPE(loss));
    return NULL;
}
CHECK(ADAMW) { return step(t, 4, 7, msg); }
CHECK(SGD) { return step(t, 2, 2, msg); }

#endif
