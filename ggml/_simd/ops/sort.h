/* ARGSORT and TOP_K by radix sort. Values become integer keys of the same order; an item is a key with its index in the
 * low bits. Equal values keep their order (0 equals -0). NaN comes last in either direction, or is the largest. */
#ifndef GG_OPS_SORT_H
#define GG_OPS_SORT_H
#include "rowwise.h"

typedef struct sort_order { bool down; int32_t nan; } sort_order;     /* nan: the key of NaN */
enum { NAN_LAST = INT32_MAX, NAN_FIRST = INT32_MIN };

/* Signed integer keys that increase (or decrease, if down) with x. */
static inline vi sort_key(vf x, sort_order order) {
    const vi bits = vf_bits(vf_add(x, vf_zero())), sign = vi_sra(bits, 31);
    const vi up = vi_xor(bits, vi_srl(sign, 1));
    return vi_select(vf_isnan(x), vi_set1(order.nan), order.down ? vi_xor(up, vi_set1(-1)) : up);
}
static inline uint64_t sort_item(int32_t key, int64_t index) {
    return (uint64_t)((uint32_t)key ^ 0x80000000) << 32 | (uint64_t)index;
}
/* The items of n values; the first value has the index `first`. */
static void sort_items(int64_t n, const float *x, int64_t first, sort_order order, uint64_t *items) {
    int32_t key[VW];
    EACH_VEC(i, n) {
        const int64_t k = n - i < VW ? n - i : VW;
        vi_store(key, sort_key(ld(x + i, k), order));
        for (int64_t j = 0; j < k; j++) items[i + j] = sort_item(key[j], first + i + j);
    }
}
enum { RANK_MOST = VW > 4 ? 64 : 24 };   /* up to this length, counting smaller items is faster than a radix sort */

/* Sorts n items, with room for n more at `other`; returns the sorted array, which is one of the two. */
static uint64_t *radix_sort(int64_t n, uint64_t *items, uint64_t *other) {
    if (n <= RANK_MOST) {                                /* the compiler vectorises this loop */
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
        if (start[d][items[0] >> shift & 255] == n) continue;            /* all items have the same digit */
        uint32_t at = 0;
        for (int b = 0; b < 256; b++) { const uint32_t count = start[d][b]; start[d][b] = at; at += count; }
        for (int64_t i = 0; i < n; i++) other[start[d][items[i] >> shift & 255]++] = items[i];
        uint64_t *const swap = items;
        items = other, other = swap;
    }
    return items;
}
static void store_indices(ggml_tensor *dst, row_index at, const uint64_t *items) {
    char *p = gg_row_ptr(dst, at.i1, at.i2, at.i3);
    for (int64_t i = 0; i < dst->ne[0]; i++) *(int32_t *)(p + (size_t)i * dst->nb[0]) = (int32_t)items[i];
}
/* The first k items in an order. Keeps the k best items so far and collects items that may be better than
 * the last of them until there is no room: `items` and `other` hold k + room, room at least VW. The first value has the
 * index `first`. */
static uint64_t *best_items(int64_t n, const float *x, int64_t first, sort_order order, int64_t k, int64_t room,
                            uint64_t *items, uint64_t *other) {
    int64_t have = 0;
    int32_t key[VW], bound = INT32_MAX;
    for (int64_t i = 0;; i += VW) {
        if (i < n) {
            const int64_t m = n - i < VW ? n - i : VW;
            const vi keys = sort_key(ld(x + i, m), order);
            if (have >= k && !vm_any(vi_gt(vi_set1(bound), keys))) continue;
            vi_store(key, keys);
            for (int64_t j = 0; j < m; j++)
                if (have < k || key[j] < bound) items[have++] = sort_item(key[j], first + i + j);
            if (have + VW <= k + room) continue;
        }
        uint64_t *sorted = radix_sort(have, items, other);
        if (sorted != items) other = items, items = sorted;
        if (i >= n) return items;
        have = k;
        bound = (int32_t)((uint32_t)(items[k - 1] >> 32) ^ 0x80000000);
    }
}

/* ---- few long rows: the threads share each ----------------------------------------------------------------------- */
/* Each thread sorts its part; then all merge, each thread the items of a range of ranks. */
enum { SORT_WIDE = 1 << 13 };
typedef struct { const uint64_t *p; int64_t n; } sort_part;          /* n < 0: no memory */

static bool sort_wide(const ggml_tensor *a, int nth) { return a->ne[0] >= SORT_WIDE && 2 * gg_nrows(a) <= nth; }
static size_t sort_work(const ggml_tensor *dst, int nth) {
    return sort_wide(dst->src[0], nth) ? (size_t)nth * sizeof(sort_part) : 0;
}
static int64_t items_below(sort_part s, uint64_t bound) {
    int64_t lo = 0;
    for (int64_t hi = s.n; lo < hi;) {
        const int64_t mid = (lo + hi) / 2;
        if (s.p[mid] < bound) lo = mid + 1; else hi = mid;
    }
    return lo;
}
/* The item of which `rank` others are smaller (all items differ), found bit by bit. */
static uint64_t item_of_rank(const sort_part *parts, int nth, int64_t rank) {
    uint64_t item = 0;
    for (int bit = 63; bit >= 0; bit--) {
        const uint64_t more = item | (uint64_t)1 << bit;
        int64_t below = 0;
        for (int t = 0; t < nth; t++) below += items_below(parts[t], more);
        if (below <= rank) item = more;
    }
    return item;
}
/* Writes the indices of the ranks begin to end. */
static void merge_parts(ggml_tensor *dst, row_index at, const sort_part *parts, int nth, int64_t begin, int64_t end) {
    sort_part rest[GGML_MAX_N_THREADS];
    char *y = gg_row_ptr(dst, at.i1, at.i2, at.i3);
    if (begin >= end) return;
    const uint64_t first = item_of_rank(parts, nth, begin);
    for (int t = 0; t < nth; t++) {
        const int64_t below = items_below(parts[t], first);
        rest[t] = (sort_part){parts[t].p + below, parts[t].n - below};
    }
    for (int64_t r = begin; r < end; r++) {
        uint64_t least = UINT64_MAX;
        int of = 0;
        for (int t = 0; t < nth; t++)
            if (rest[t].n && *rest[t].p <= least) least = *rest[t].p, of = t;
        rest[of].p++, rest[of].n--;
        *(int32_t *)(y + (size_t)r * dst->nb[0]) = (int32_t)least;
    }
}
static int sort_shared_rows(const gg_work *w, ggml_tensor *dst, sort_order order) {
    const ggml_tensor *a = dst->src[0];
    const int64_t n = a->ne[0], k = dst->ne[0], begin = n * w->ith / w->nth, m = n * (w->ith + 1) / w->nth - begin;
    const int64_t room = k / 2 + 2 * VW;
    const bool some = 4 * k * w->nth <= n;      /* the best items of each part suffice */
    const size_t items = (size_t)(some ? k + room : m);
    sort_part *const parts = w->wdata, *const own = parts + w->ith;
    uint64_t *const p = gg_scratch((2 * items + (size_t)m) * sizeof *p);
    for (int64_t r = 0; r < gg_nrows(a); r++) {
        const row_index at = nth_row(a, r);
        *own = (sort_part){.n = -1};
        if (p) {
            const float *x = gg_row_in(a, at.i1, at.i2, at.i3, begin, m, (float *)(p + 2 * items));
            if (!some) sort_items(m, x, begin, order, p);
            own->p = some ? best_items(m, x, begin, order, k, room, p, p + items) : radix_sort(m, p, p + items);
            own->n = some ? k : m;
        }
        gg_barrier(w);
        for (int t = 0; t < w->nth; t++)
            if (parts[t].n < 0) return no_memory(a);
        merge_parts(dst, at, parts, w->nth, k * w->ith / w->nth, k * (w->ith + 1) / w->nth);
        gg_barrier(w);                                   /* all threads have read this part */
    }
    return GGML_STATUS_SUCCESS;
}

static int sort_rows(const gg_work *w, ggml_tensor *dst, sort_order order) {
    const ggml_tensor *a = dst->src[0];
    if (sort_wide(a, w->nth)) return sort_shared_rows(w, dst, order);
    const int64_t n = a->ne[0], k = dst->ne[0], room = k / 2 + 2 * VW;
    const bool some = 4 * k <= n && k + room < n;              /* cheaper than to sort the whole row */
    const size_t items = (size_t)(some ? k + room : n), pad = (size_t)(n + 1) / 2 + 8;
    uint64_t *p = gg_scratch((2 * items + (gg_row_direct(a) ? 0 : pad)) * sizeof *p);
    if (!p) return no_memory(a);
    for EACH_ROW(w, a, r) {
        const row_index at = nth_row(a, r);
        const float *x = row_in(a, at, (float *)(p + 2 * items));
        if (some) {
            store_indices(dst, at, best_items(n, x, 0, order, k, room, p, p + items));
        } else {
            sort_items(n, x, 0, order, p);
            store_indices(dst, at, radix_sort(n, p, p + items));
        }
    }
    return GGML_STATUS_SUCCESS;
}
static size_t work_ARGSORT(const ggml_tensor *dst, int nth) { return sort_work(dst, nth); }
static size_t work_TOP_K(const ggml_tensor *dst, int nth) { return sort_work(dst, nth); }
static int op_ARGSORT(const gg_work *w, ggml_tensor *dst) {
    const gg_argsort_params *q = argsort_params(dst);
    const bool down = q->order == 1;
    return sort_rows(w, dst, (sort_order){down, down && q->nan ? NAN_FIRST : NAN_LAST});
}
/* In decreasing order; the C library leaves the order open. */
static int op_TOP_K(const gg_work *w, ggml_tensor *dst) { return sort_rows(w, dst, (sort_order){true, NAN_LAST}); }

#endif
