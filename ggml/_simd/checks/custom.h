/* Checks of custom operations. */
#ifndef GG_CHECKS_CUSTOM_H
#define GG_CHECKS_CUSTOM_H
#include "common.h"

CHECK(CUSTOM) {
    const int32_t n_tasks = custom_params(t)->n_tasks;
    REQUIRE(custom_params(t)->function, "fun is NULL: need a function");
    REQUIRE(n_tasks == GGML_N_TASKS_MAX || n_tasks > 0, "n_tasks is %d: need GGML_N_TASKS_MAX or 1 or more", n_tasks);
    return NULL;
}

#endif
