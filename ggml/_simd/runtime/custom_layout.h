/* What op_params of MAP_CUSTOM1 to 3 and CUSTOM hold, for their check, their kernel and the compute loop. */
#ifndef GG_CUSTOM_LAYOUT_H
#define GG_CUSTOM_LAYOUT_H
#include "engine.h"

enum { GG_CUSTOM_FUN = 0, GG_CUSTOM_N_TASKS = 2, GG_CUSTOM_USERDATA = 4 };

typedef struct gg_custom { void *fun, *userdata; int32_t n_tasks; } gg_custom;

static inline gg_custom gg_custom_of(const ggml_tensor *t) {
    gg_custom c = {.n_tasks = t->op_params[GG_CUSTOM_N_TASKS]};
    memcpy(&c.fun, t->op_params + GG_CUSTOM_FUN, sizeof c.fun);
    memcpy(&c.userdata, t->op_params + GG_CUSTOM_USERDATA, sizeof c.userdata);
    return c;
}
/* How many times the function is called. This depends on the number of threads that the caller asked for, not on the
 * number that run. */
static inline int gg_custom_tasks(const ggml_tensor *t, int n_threads) {
    const int32_t n = t->op_params[GG_CUSTOM_N_TASKS];
    return n == GGML_N_TASKS_MAX || n > n_threads ? n_threads : n;
}

#endif
