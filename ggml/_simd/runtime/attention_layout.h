/* The layout of the f32 result of FLASH_ATTN_BACK and FLASH_ATTN_EXT_BACK: the gradients of q, k and v, contiguous and
 * in their shapes; then, on request, the gradients of the masked logits [n_kv, n_q, heads, batch] and of the sink of
 * each row [n_q, heads, batch]. Each part begins at a multiple of GGML_MEM_ALIGN bytes. */
#ifndef GG_ATTENTION_LAYOUT_H
#define GG_ATTENTION_LAYOUT_H
#include "engine.h"

enum { GG_ATTN_Q, GG_ATTN_K, GG_ATTN_V, GG_ATTN_MASK, GG_ATTN_SINKS, GG_ATTN_END };
enum { GG_ATTN_WANT_Q = 1, GG_ATTN_WANT_KV = 2, GG_ATTN_WANT_MASK = 4, GG_ATTN_WANT_SINKS = 8 };

/* The byte offsets of the parts and, last, of the end; false on overflow. */
static inline bool gg_attn_layout(const ggml_tensor *q, const ggml_tensor *k, const ggml_tensor *v, int want,
                                  size_t offset[GG_ATTN_END + 1]) {
    const size_t rows = (size_t)gg_nrows(q);
    size_t n[GG_ATTN_END] = {(size_t)gg_nelements(q), (size_t)gg_nelements(k), (size_t)gg_nelements(v), 0,
                             want & GG_ATTN_WANT_SINKS ? rows : 0};
    if (want & GG_ATTN_WANT_MASK && !gg_mul(rows, (size_t)k->ne[1], &n[GG_ATTN_MASK])) return false;
    offset[0] = 0;
    for (int i = 0; i < GG_ATTN_END; i++) {
        size_t bytes;
        if (!gg_mul(n[i], sizeof(float), &bytes) || !gg_add(bytes, GGML_MEM_ALIGN - 1, &bytes)) return false;
        if (!gg_add(offset[i], bytes / GGML_MEM_ALIGN * GGML_MEM_ALIGN, &offset[i + 1])) return false;
    }
    return offset[GG_ATTN_END] <= PTRDIFF_MAX;
}

#endif
