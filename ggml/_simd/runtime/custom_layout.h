/* The calls of MAP_CUSTOM1 to 3, CUSTOM and COMPILED, for their kernels and the compute loop. */
#ifndef GG_CUSTOM_LAYOUT_H
#define GG_CUSTOM_LAYOUT_H
#include "engine.h"

/* How many times the function is called. This depends on the number of threads that the caller asked for, not on the
 * number that run. */
static inline int gg_custom_tasks(const ggml_tensor *t, int n_threads) {
    const int32_t n = custom_params(t)->n_tasks;
    return n == GGML_N_TASKS_MAX || n > n_threads ? n_threads : n;
}

#endif
