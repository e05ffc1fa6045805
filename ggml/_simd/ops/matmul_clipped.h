/* Products of MR rows of signed bytes with columns of codes of 8 bits, for ISAs that add two products of bytes in 16
 * bits and saturate. Two such sums are added before they go to 32 bits: one of a word (four bytes) of the first half of
 * k, the other of a word of the second half. They fit where the largest code times the positive ones of these four
 * bytes, or the negative ones, does. Other bytes are clipped: those of the first word, and large parts of those of the
 * second, go to a list of words, whose products are added apart. */
#ifndef GG_OPS_MATMUL_CLIPPED_H
#define GG_OPS_MATMUL_CLIPPED_H
#include "../gemm/gemm.h"

enum {
    CLIPPED_N = 4,                  /* columns of a register tile */
    CLIPPED_LISTED = 3,             /* most words of a list for a word of each half */
};

typedef struct clipped_word { int32_t at, word; } clipped_word;     /* at: where the codes of a group of columns are */
typedef struct clipped_panel {
    int64_t half, k;                /* words of half a row; bytes of a row */
    int32_t most;                   /* largest sum of the positive ones of four bytes, and of the negative ones */
    int32_t *words;                 /* of the rows, transposed */
    int8_t *copies;                 /* of VW rows */
    int64_t line;                   /* bytes of each: the words, and a vector of zeros */
    clipped_word *lists[MV];        /* of each vector of rows: VW lists, which alternate */
    int64_t listed[MV];             /* the longest of them */
} clipped_panel;

static inline int64_t clipped_half(int64_t k) { return gg_ceil_div(k, 8); }
static inline int64_t clipped_line(int64_t k) { return gg_ceil_div(8 * clipped_half(k) + 4 * VW, 64) * 64; }
static inline int64_t clipped_list(int64_t k) { return CLIPPED_LISTED * clipped_half(k) + 1; }
/* Bytes of memory for panels, and how it is used; p: aligned to 64. */
static inline size_t clipped_room(int64_t k) {
    return (size_t)(VW * clipped_line(k)) + (size_t)(2 * clipped_half(k) * MR) * sizeof(int32_t)
         + (size_t)(MR * clipped_list(k)) * sizeof(clipped_word);
}
static clipped_panel clipped_panel_in(char *p, int64_t k) {
    clipped_panel q = {.half = clipped_half(k), .k = k, .words = (int32_t *)p, .line = clipped_line(k)};
    q.copies = (int8_t *)(q.words + 2 * q.half * MR);
    q.lists[0] = (clipped_word *)(q.copies + VW * q.line);
    for (int g = 1; g < MV; g++) q.lists[g] = q.lists[g - 1] + VW * clipped_list(k);
    return q;
}

/* ---- clipping ---------------------------------------------------------------------------------------------------- */
/* 255 in the bytes that are negative. */
static inline vi clipped_signs(vi x) {
    const vi s = vi_and(vi_srl(x, 7), vi_set1(0x01010101));
    return vi_sub(vi_shl(s, 8), s);
}
/* Sums of two bytes, in 16 bits: of the positive ones, and of the negative ones. */
typedef struct clipped_sums { vi up, down; } clipped_sums;
static inline clipped_sums clipped_sums_of(vi x) {
    const vi ones = vi_set1(0x01010101), down = vi_and(x, clipped_signs(x));
    return (clipped_sums){vi_pairs(ones, vi_xor(x, down)), vi_pairs(ones, down)};
}
/* All bits of the 16 whose sums are too large. */
static inline vi clipped_over(int32_t most, vi up, vi down) {
    const vi room = vi_set1(0x00010001 * (INT16_MAX - most));
    const vi over = vi_or(vi_add_pairs(up, room), vi_sub_pairs(room, down));        /* negative then */
    const vi bit = vi_and(vi_srl(over, 15), vi_set1(0x00010001));
    return vi_sub(vi_shl(bit, 16), bit);
}
/* Divides the bytes of x where the mask has bits: large ones give 64 or -64 to `high`, so that two of either fit. */
static inline vi clipped_split(vi x, vi mask, vi *high) {
    const vi s = clipped_signs(x), large = vi_and(vi_and(vi_xor(x, s), vi_set1(0x40404040)), mask);
    *high = vi_or(large, vi_and(vi_shl(large, 1), s));
    return vi_xor(x, large);
}
/* The largest sum for codes of up to `range`: more than four bytes can have if the codes are small. */
static inline int32_t clipped_most(int32_t range) { return INT16_MAX / gg_max(range, INT16_MAX / 512); }
typedef struct clipped_pair {       /* words of either half */
    vi a, b;
    clipped_sums of_a, of_b;
    vi over;                        /* the bits of a that are clipped */
} clipped_pair;
static inline clipped_pair clipped_pair_at(const clipped_panel *p, const int8_t *x, int64_t w) {
    const int32_t *const first = (const int32_t *)(const void *)x + w;
    const vm used = vi_gt(vi_set1((int32_t)gg_min(p->half - w, VW)), vi_iota());
    clipped_pair q = {.a = vi_load(first), .b = vi_load(first + p->half)};
    q.of_a = clipped_sums_of(q.a), q.of_b = clipped_sums_of(q.b);
    const vi up = vi_add_pairs(q.of_a.up, q.of_b.up), down = vi_add_pairs(q.of_a.down, q.of_b.down);
    q.over = vi_select(used, clipped_over(p->most, up, down), vi_set1(0));
    return q;
}
/* Adds the words that are not 0 to a list of n; returns its new length. lists: the number of those that alternate, and
 * of columns whose words do. */
static inline int64_t clipped_add(clipped_word *list, int64_t n, vi words, int64_t at, int lists) {
    int32_t word[VW];
    vi_store(word, words);
    for (int i = 0; i < VW; i++) {                      /* without branches, which would be mispredicted */
        list[n * lists] = (clipped_word){(int32_t)(at + i) * lists, word[i]};
        n += word[i] != 0;
    }
    return n;
}
/* Clips a row, whose sum goes to *total; returns the length of its list. */
static int64_t clipped_row(const clipped_panel *p, int8_t *x, clipped_word *list, int lists, int32_t *total) {
    const vi none = vi_set1(0), ones = vi_set1(0x01010101);
    int32_t *const first = (int32_t *)(void *)x, *const second = first + p->half;
    int32_t sums[4];
    vi sum = none;
    int64_t n = 0;
    for (int64_t w = 0; w < 2 * p->half; w += VW) sum = vi_add(sum, vi_sum_pairs(vi_pairs(ones, vi_load(first + w))));
    vi_hsum4(sums, sum, none, none, none);
    *total = sums[0];
    for (int64_t w = 0; w < p->half; w += VW) {
        const clipped_pair q = clipped_pair_at(p, x, w);
        if (vm_all(vi_eq(q.over, none))) continue;
        const vi moved = vi_and(q.a, q.over), over_b = clipped_over(p->most, q.of_b.up, q.of_b.down);
        vi high, high_b;
        const vi low = clipped_split(moved, clipped_over(p->most, q.of_a.up, q.of_a.down), &high);
        const vi low_b = clipped_split(q.b, vi_and(q.over, over_b), &high_b);
        vi_store(first + w, vi_xor(q.a, moved));        /* may overlap the second half, which stays as it is */
        vi_store(second + w, low_b);
        n = clipped_add(list, n, low, w, lists);
        if (!vm_all(vi_eq(high, none))) n = clipped_add(list, n, high, w, lists);
        if (!vm_all(vi_eq(high_b, none))) n = clipped_add(list, n, high_b, w + p->half, lists);
    }
    return n;
}
/* A copy of the bytes of a row, behind which there are zeros. */
static int8_t *clipped_copy(const clipped_panel *p, int i, const int8_t *from) {
    int8_t *const x = p->copies + i * p->line;
    memcpy(x, from, (size_t)p->k);
    memset(x + p->k, 0, (size_t)(p->line - p->k));
    return x;
}
/* How many words of a half would be clipped. */
static int64_t clipped_count(const clipped_panel *p, const int8_t *from) {
    const int8_t *const x = clipped_copy(p, 0, from);
    const vi none = vi_set1(0);
    vi sum = none;
    int32_t n[4];
    for (int64_t w = 0; w < p->half; w += VW)
        sum = vi_add(sum, vi_select(vi_eq(clipped_pair_at(p, x, w).over, none), none, vi_set1(1)));
    vi_hsum4(n, sum, none, none, none);
    return n[0];
}
/* Packs m rows of a, which are nb bytes apart, and sums each. */
static void clipped_pack(clipped_panel *p, const int8_t *a, size_t nb, int64_t m, int32_t *totals) {
    for (int g = 0; g < MV; g++) {
        const float *row[VW];
        int64_t n[VW], most = 0;
        for (int i = 0; i < VW; i++) {
            int8_t *const x = clipped_copy(p, i, a + (size_t)gg_min(g * VW + i, m - 1) * nb);
            n[i] = clipped_row(p, x, p->lists[g] + i, VW, totals + g * VW + i);
            row[i] = (const float *)(void *)x;
            most = gg_max(most, n[i]);
        }
        for (int i = 0; i < VW; i++)
            for (; n[i] < most; n[i]++) p->lists[g][n[i] * VW + i] = (clipped_word){0, 0};
        p->listed[g] = most;
        pack_transpose(row, 2 * p->half, (float *)(void *)p->words + g * VW, MR);
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */
/* Codes of VW columns: their words, transposed. codes: VW lines, which are `line` bytes apart. */
static void clipped_transpose(int64_t k, const uint8_t *codes, int64_t line, int32_t *out) {
    const float *row[VW];
    for (int i = 0; i < VW; i++) row[i] = (const float *)(const void *)(codes + i * line);
    pack_transpose(row, 2 * clipped_half(k), (float *)(void *)out, VW);
}
static inline bool clipped_any(const clipped_panel *p) {
    int64_t listed = 0;
    for (int g = 0; g < MV; g++) listed += p->listed[g];
    return listed > 0;
}
/* Adds the products of the lists of each row and VW columns of codes to sums, whose columns are MR apart. */
static void clipped_lists(const clipped_panel *p, const int32_t *codes, int32_t *sums) {
    const vi ones = vi_set1(0x00010001);
    for (int g = 0; g < MV; g++) {
        const clipped_word *list = p->lists[g];
        float lanes[VW][VW] __attribute__((aligned(64))), columns[VW][VW] __attribute__((aligned(64)));
        const float *row[VW];
        vi sum[VW];
        GG_UNROLL for (int i = 0; i < VW; i++) sum[i] = vi_set1(0);
        for (int64_t n = 0; n < p->listed[g]; n++, list += VW)
            GG_UNROLL for (int i = 0; i < VW; i++)
                sum[i] = vi_madd_pairs(sum[i], vi_pairs(vi_load(codes + list[i].at), vi_set1(list[i].word)), ones);
        GG_UNROLL for (int i = 0; i < VW; i++) row[i] = lanes[i], vf_store(lanes[i], vi_float(sum[i]));
        pack_transpose(row, VW, columns[0], VW);
        for (int i = 0; i < VW; i++) {
            int32_t *const to = sums + i * MR + g * VW;
            vi_store(to, vi_add(vi_load(to), vi_words(columns[i])));
        }
    }
}
/* The products of a panel and CLIPPED_N columns of codes, from where the words of the first are, plus `sums`, whose
 * columns are MR apart. */
static void clipped_tile(const clipped_panel *p, const int32_t *codes, const int32_t *sums, float *y, int64_t ldy) {
    const vi ones = vi_set1(0x00010001);
    const int32_t *a = p->words;
    const int64_t a_half = p->half * MR, b_half = p->half * VW;
    vi sum[CLIPPED_N][MV];
    GG_UNROLL for (int j = 0; j < CLIPPED_N; j++)
        GG_UNROLL for (int i = 0; i < MV; i++) sum[j][i] = vi_load(sums + j * MR + i * VW);
    for (int64_t w = 0; w < p->half; w++, a += MR, codes += VW)
        GG_UNROLL for (int j = 0; j < CLIPPED_N; j++) {
            const vi b = vi_set1(codes[j]), b2 = vi_set1(codes[b_half + j]);
            GG_UNROLL for (int i = 0; i < MV; i++) {
                const vi two = vi_pairs(b, vi_load(a + i * VW)), more = vi_pairs(b2, vi_load(a + a_half + i * VW));
                sum[j][i] = vi_madd_pairs(sum[j][i], vi_add_pairs(two, more), ones);
            }
        }
    GG_UNROLL for (int j = 0; j < CLIPPED_N; j++)
        GG_UNROLL for (int i = 0; i < MV; i++) vf_store(y + j * ldy + i * VW, vi_to_vf(sum[j][i]));
}

#endif
