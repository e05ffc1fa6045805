/* The rows of a tensor: their indices along dimensions 1 to 3, and their addresses. */
#ifndef GG_OPS_ROW_INDEX_H
#define GG_OPS_ROW_INDEX_H
#include "../runtime/kernel.h"

typedef struct { int64_t i1, i2, i3; } row_index;

/* Row r of t, counted in the order of dimensions 1, 2, 3. */
static inline row_index nth_row(const ggml_tensor *t, int64_t r) {
    const int64_t q = t->ne[1] ? r / t->ne[1] : 0, p = t->ne[2] ? q / t->ne[2] : 0;
    return (row_index){r - q * t->ne[1], q - p * t->ne[2], p};
}
/* The row behind it. */
static inline row_index next_row(const ggml_tensor *t, row_index at) {
    if (++at.i1 < t->ne[1]) return at;
    at.i1 = 0;
    if (++at.i2 == t->ne[2]) at.i2 = 0, at.i3++;
    return at;
}
static inline char *gg_row_ptr(const ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3) {
    return (char *)t->data + (size_t)i1 * t->nb[1] + (size_t)i2 * t->nb[2] + (size_t)i3 * t->nb[3];
}
/* Element i0 of that row; in a quantised row, the block that holds it. */
static inline char *gg_element_ptr(const ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3, int64_t i0) {
    const int64_t blck = gg_types[t->type].blck;
    return gg_row_ptr(t, i1, i2, i3) + (size_t)(blck == 1 ? i0 : i0 / blck) * t->nb[0];   /* divisions are slow */
}

#endif
