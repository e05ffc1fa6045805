/* ARGSORT and TOP_K. Values become integers of the same order, an item is such a key with its index below it, and items
 * are sorted by their digits. Equal values keep their order (0 equals -0), NaN comes last in either direction. */
#ifndef GG_OPS_SORT_H
#define GG_OPS_SORT_H
#include "rowwise.h"

/* Keys that rise (or fall, when `down`) with x, as signed integers; NaN has the last. */
static inline vi sort_key(vf x, bool down) {
    const vi bits = vf_bits(vf_add(x, vf_zero())), sign = vi_sra(bits, 31);
    const vi up = vi_xor(bits, vi_srl(sign, 1));
    return vi_select(vf_isnan(x), vi_set1(INT32_MAX), down ? vi_xor(up, vi_set1(-1)) : up);
}
static inline uint64_t sort_item(int32_t key, int64_t index) {
    return (uint64_t)((uint32_t)key ^ 0x80000000) << 32 | (uint64_t)index;
}
static void sort_items(int64_t n, const float *x, bool down, uint64_t *items) {
    int32_t key[VW];
    EACH_VEC(i, n) {
        const int64_t k = n - i < VW ? n - i : VW;
        vi_store(key, sort_key(ld(x + i, k), down));
        for (int64_t j = 0; j < k; j++) items[i + j] = sort_item(key[j], i + j);
    }
}
enum { RANK_MOST = VW > 4 ? 64 : 24 };   /* up to here, to count the smaller ones is faster than to sort */

/* Sorts n items, with room for n more at `other`; returns where they are in the end. */
static uint64_t *radix_sort(int64_t n, uint64_t *items, uint64_t *other) {
    if (n <= RANK_MOST) {                                /* the compiler makes vectors of it */
        for (int64_t i = 0; i < n; i++) {
            uint64_t rank = 0;
            for (int64_t j = 0; j < n; j++) rank += items[j] < items[i];
            other[rank] = items[i];
        }
        return other;
    }
    uint32_t start[4][256] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < 4; d++) start[d][items[i] >> (32 + 8 * d) & 255]++;
    for (int d = 0; d < 4; d++) {
        const int shift = 32 + 8 * d;
        if (start[d][items[0] >> shift & 255] == n) continue;            /* all alike */
        uint32_t at = 0;
        for (int b = 0; b < 256; b++) { const uint32_t count = start[d][b]; start[d][b] = at; at += count; }
        for (int64_t i = 0; i < n; i++) other[start[d][items[i] >> shift & 255]++] = items[i];
        uint64_t *const swap = items;
        items = other, other = swap;
    }
    return items;
}
static void store_indices(ggml_tensor *dst, row_at at, const uint64_t *items) {
    char *p = gg_row_ptr(dst, at.i1, at.i2, at.i3);
    for (int64_t i = 0; i < dst->ne[0]; i++) *(int32_t *)(p + (size_t)i * dst->nb[0]) = (int32_t)items[i];
}
/* The k first items in falling order. Keeps the k best so far and collects what may be better than the last of them
 * until there is no room: `items` and `other` hold k + room, room at least VW. */
static uint64_t *best_items(int64_t n, const float *x, int64_t k, int64_t room, uint64_t *items, uint64_t *other) {
    int64_t have = 0;
    int32_t key[VW], bound = INT32_MAX;
    for (int64_t i = 0;; i += VW) {
        if (i < n) {
            const int64_t m = n - i < VW ? n - i : VW;
            const vi keys = sort_key(ld(x + i, m), true);
            if (have >= k && !vm_any(vi_gt(vi_set1(bound), keys))) continue;
            vi_store(key, keys);
            for (int64_t j = 0; j < m; j++)
                if (have < k || key[j] < bound) items[have++] = sort_item(key[j], i + j);
            if (have + VW <= k + room) continue;
        }
        uint64_t *sorted = radix_sort(have, items, other);
        if (sorted != items) other = items, items = sorted;
        if (i >= n) return items;
        have = k;
        bound = (int32_t)((uint32_t)(items[k - 1] >> 32) ^ 0x80000000);
    }
}
static int sort_rows(const gg_work *w, ggml_tensor *dst, bool down) {
    const ggml_tensor *a = dst->src[0];
    const int64_t n = a->ne[0], k = dst->ne[0], room = k / 2 + 2 * VW;
    const bool some = down && 4 * k <= n && k + room < n;              /* worth not to sort the whole row */
    const size_t items = (size_t)(some ? k + room : n), pad = (size_t)(n + 1) / 2 + 8;
    uint64_t *p = gg_scratch((2 * items + (gg_row_direct(a) ? 0 : pad)) * sizeof *p);
    if (!p) return no_memory(a);
    for EACH_ROW(w, a, r) {
        const row_at at = nth_row(a, r);
        const float *x = row_in(a, at, (float *)(p + 2 * items));
        if (some) {
            store_indices(dst, at, best_items(n, x, k, room, p, p + items));
        } else {
            sort_items(n, x, down, p);
            store_indices(dst, at, radix_sort(n, p, p + items));
        }
    }
    return GGML_STATUS_SUCCESS;
}
static int op_ARGSORT(const gg_work *w, ggml_tensor *dst) { return sort_rows(w, dst, dst->op_params[0] == 1); }
/* In falling order, which the C library leaves open. */
static int op_TOP_K(const gg_work *w, ggml_tensor *dst) { return sort_rows(w, dst, true); }

#endif
