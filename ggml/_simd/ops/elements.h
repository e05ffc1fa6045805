/* What kernels of element-wise operations are made of. A kernel computes a tile of contiguous f32; gg_map (rows.h)
 * provides tiles of operands of any type, stride and repetition, and shares the work among the threads. */
#ifndef GG_OPS_ELEMENTS_H
#define GG_OPS_ELEMENTS_H
#include "rows.h"

static inline int gg_map_sources(const gg_work *w, ggml_tensor *dst, int sources, gg_tile_fn fn) {
    ggml_tensor *t[GG_MAP_MAX] = {dst, dst->src[0], dst->src[1], dst->src[2]};
    return gg_map(w, dst, t, 1 + sources, 1, false, fn, dst->op_params);
}
/* What computes rows of an operation in chains: its tile function. */
#define GG_ROWS_BY_TILES(NAME)                                                                       \
    static gg_row_kernel rows_##NAME(const ggml_tensor *node) {                                      \
        (void)node;                                                                                  \
        return (gg_row_kernel){.tile = tile_##NAME};                                                 \
    }
/* Operations of one and two operands whose nodes have the given parameters. */
#define GG_ELEM_1(NAME, PARAMS, EXPR)                                                                \
    GG_TILE_X(NAME, PARAMS, EXPR)                                                                    \
    GG_ROWS_BY_TILES(NAME)                                                                           \
    static int op_##NAME(const gg_work *w, ggml_tensor *dst) { return gg_map_sources(w, dst, 1, tile_##NAME); }
#define GG_ELEM_2(NAME, PARAMS, EXPR)                                                                \
    GG_TILE_XZ(NAME, PARAMS, EXPR)                                                                   \
    GG_ROWS_BY_TILES(NAME)                                                                           \
    static int op_##NAME(const gg_work *w, ggml_tensor *dst) { return gg_map_sources(w, dst, 2, tile_##NAME); }

#endif
