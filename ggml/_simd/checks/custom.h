/* Checks of custom operations. */
#ifndef GG_CHECKS_CUSTOM_H
#define GG_CHECKS_CUSTOM_H
#include "../runtime/custom_layout.h"
#include "common.h"

CHECK(CUSTOM) {
    void *fun;
    int32_t n_tasks;
    memcpy(&fun, t->op_params, sizeof fun);
    memcpy(&n_tasks, t->op_params + 2, sizeof n_tasks);
    REQUIRE(fun, "fun is NULL: need a function");
    REQUIRE(n_tasks == GGML_N_TASKS_MAX || n_tasks > 0, "n_tasks is %d: need GGML_N_TASKS_MAX or 1 or more", n_tasks);
    return NULL;
}

#endif
