/* Custom operations: each task is one call of the user's function, and a thread takes the next task until none is left.
 * A callback may write to its node, so the kernel reads operands and parameters from w->node, a copy of the node. */
#ifndef GG_OPS_CUSTOM_H
#define GG_OPS_CUSTOM_H
#include "../runtime/custom_layout.h"
#include "../runtime/kernel.h"

#define GG_CUSTOM_OP(NAME, PARAMETERS, ...)                                                        \
    static int op_##NAME(const gg_work *w, ggml_tensor *dst) {                                     \
        const gg_custom_params *c = custom_params(w->node);                                        \
        ggml_tensor *const *src = w->node->src;                                                    \
        const int nth = gg_custom_tasks(w->node, w->n_threads);                                    \
        (void)src;                                                                                 \
        for (int ith; (ith = (int)atomic_fetch_add(w->chunk, 1)) < nth;)                           \
            ((void (*)PARAMETERS)c->function)(__VA_ARGS__, ith, nth, c->userdata);                 \
        return GGML_STATUS_SUCCESS;                                                                \
    }
typedef const ggml_tensor *gg_operand;
GG_CUSTOM_OP(MAP_CUSTOM1, (ggml_tensor *, gg_operand, int, int, void *), dst, src[0])
GG_CUSTOM_OP(MAP_CUSTOM2, (ggml_tensor *, gg_operand, gg_operand, int, int, void *), dst, src[0], src[1])
GG_CUSTOM_OP(MAP_CUSTOM3, (ggml_tensor *, gg_operand, gg_operand, gg_operand, int, int, void *), dst, src[0], src[1],
             src[2])
GG_CUSTOM_OP(CUSTOM, (ggml_tensor *, int, int, void *), dst)

/* The function writes to its result only, so that the node is like any other: graphs with it are prepared. */
static int op_COMPILED(const gg_work *w, ggml_tensor *dst) {
    const gg_custom_params *c = custom_params(dst);
    const int nth = gg_custom_tasks(dst, w->n_threads);
    for (int ith; (ith = (int)atomic_fetch_add(w->chunk, 1)) < nth;)
        ((void (*)(ggml_tensor *, int, int, void *))c->function)(dst, ith, nth, c->userdata);
    return GGML_STATUS_SUCCESS;
}

#endif
