/* The parts of CONV_2D with a kernel of bytes (I8), to whose elements the parameter `offset` is added; bytes.h
 * and bytes_winograd.h run them.
 * Data of whole numbers whose range is at most 255 are convolved exactly: their elements become codes of 8 bits,
 * element = code + offset, and
 *     sum((w + p) * element) = sum(w * code) + offset * sum(w) + p * sum(element)
 * in int32. A word holds the codes of four channels at one position. The kernel has a row of words for each output
 * channel, which is read where it is if its elements are in this order. Where an ISA multiplies pairs of 16 bits, a
 * word holds the elements of two channels, those of w + p, unless the kernel is clipped (bytes_clipped.h).
 * As in direct.h, a strip of rows is copied with its padding, and positions are counted through the padded rows. The
 * lanes of a vector are positions. */
#ifndef GG_OPS_CONV_CODES_H
#define GG_OPS_CONV_CODES_H
#include "../matmul_bytes.h"
#include "plan.h"

enum {
    CODES_OF = BYTES_PAIRS ? 2 : 4, /* channels of a word, unless the kernel is clipped */
    CODES_MOST = 4,
    CODES_STRIP = 1 << 15,          /* words of a copy, so that it stays in the L2 cache */
    CODES_TILE = (NR + 1) * MR,     /* words of a tile of sums */
    CODES_PANELS = 8,               /* least panels of a strip if there are more strips than threads */
};

/* Where one dimension is read: position o of tap t is at o + shift in the plane `phase` of the copy. Element i of a
 * plane is element i * stride + first - padding of the data. */
typedef struct codes_axis { int64_t phases, extent; bool apart; } codes_axis;
static inline codes_axis codes_axis_of(const patch_axis *ax) {
    const int64_t extent = (ax->taps - 1) * ax->dilation / ax->stride;
    const bool apart = ax->stride > ax->taps || extent > ax->out;           /* a plane for each tap */
    return (codes_axis){apart ? ax->taps : ax->stride, apart ? 0 : extent, apart};
}
static inline int64_t codes_phase(const patch_axis *ax, const codes_axis *c, int64_t tap) {
    return c->apart ? tap : tap * ax->dilation % ax->stride;
}
static inline int64_t codes_shift(const patch_axis *ax, const codes_axis *c, int64_t tap) {
    return c->apart ? 0 : tap * ax->dilation / ax->stride;
}
static inline int64_t codes_first(const patch_axis *ax, const codes_axis *c, int64_t phase) {
    return ax->base + (c->apart ? phase * ax->dilation : phase);
}

typedef struct codes_plan {
    const patches *v;
    gg_conv_part kernel;
    const char *data;               /* its elements */
    codes_axis axis[2];
    int64_t words, taps, steps;     /* words of all channels; taps of a channel; words that a position is made of */
    int64_t width, height, plane;   /* of a plane of the copy, and their product */
    int64_t rows, strips;           /* rows of the result that a copy is for; copies of an image */
    int64_t columns, groups, each;  /* output channels; their groups, of `each` at most */
    int of;                         /* channels of a word */
    int w_offset;                   /* is added to the elements of the kernel */
    int sums_codes;                 /* 1: the first column of a group sums the codes */
    int32_t offset, range;          /* the largest code, where they have 8 bits */
    int32_t *at, *totals;           /* where each step begins in the copy; sums of output channels of the kernel */
    const float *row;               /* words of the kernel, row by row: in place, or packed */
    float *panels, *copy;           /* words of the packed kernel, and of a strip */
    float *tile, *floats;           /* sums of a tile; as many rows of the data as a word has channels */
} codes_plan;

/* Words of `of` channels, groups of at most `most_columns` output channels. False: the kernel has no bytes, or the copy
 * would be too large. */
static bool codes_plan_make(codes_plan *q, const conv_plan *p, int of, int64_t most_columns) {
    const patches *const v = &p->product.seen;
    const patch_axis *ax = v->ax;
    const int nth = p->threads;
    if (p->v.w->type != GGML_TYPE_I8) return false;
    *q = (codes_plan){.v = v, .kernel = gg_conv_w(&p->v), .data = p->v.w->data, .taps = patches_taps(v),
                      .words = gg_ceil_div(v->c, of), .of = of, .w_offset = p->product.other.more};
    if (v->c < 1 || q->taps * v->c > BYTES_K || ax[2].out != 1 || ax[2].taps != 1) return false;
    for (int i = 0; i < 2; i++) q->axis[i] = codes_axis_of(&ax[i]);
    q->steps = q->words * q->taps, q->sums_codes = !BYTES_PAIRS && q->w_offset != 0;
    q->columns = q->kernel.n;
    q->groups = gg_ceil_div(q->columns, most_columns - q->sums_codes), q->each = gg_ceil_div(q->columns, q->groups);
    q->width = ax[0].out + q->axis[0].extent;
    const int64_t planes = q->words * q->axis[0].phases * q->axis[1].phases;
    if (q->width > INT32_MAX / planes / (2 * q->axis[1].extent + 1)) return false;
    const int64_t most = CODES_STRIP / (planes * q->width) - q->axis[1].extent, positions = ax[1].out * q->width;
    const int64_t split = gg_max(nth, gg_min(4 * nth, positions / (CODES_PANELS * MR)));
    q->rows = gg_max(1, gg_min(most, gg_ceil_div(ax[1].out, nth > 1 ? split : 1)));
    q->strips = gg_ceil_div(ax[1].out, q->rows), q->rows = gg_ceil_div(ax[1].out, q->strips);
    q->height = q->rows + q->axis[1].extent, q->plane = q->width * q->height;
    return true;
}

/* What a thread finds in a part of the data: the range of the elements, and whether all are whole numbers. ready: the
 * thread has memory, and has looked. */
typedef struct codes_seen { float low, high; int32_t whole, ready; } codes_seen;
/* Where the threads share what they find, sums of output channels, and `words` words of the packed kernel. */
static size_t codes_work(const codes_plan *q, int nth, int64_t words) {
    return (size_t)nth * sizeof(codes_seen) + (size_t)(q->columns + words) * sizeof(float);
}
/* Floats of the rows of the data that make words, or words of such rows. */
static inline int64_t codes_floats(const codes_plan *q) { return q->of * q->v->ax[0].in + 3 * VW; }
/* Sets the pointers of q to this memory; returns where each thread writes what it finds. */
static codes_seen *codes_shared(codes_plan *q, const gg_work *w) {
    codes_seen *const found = w->wdata;
    found[w->ith] = (codes_seen){.ready = 0};
    q->totals = (int32_t *)(found + w->nth), q->panels = (float *)(q->totals + q->columns);
    return found;
}
/* Looks at part ith of nth parts of the data. */
static codes_seen codes_look(const codes_plan *q, const ggml_tensor *x, int ith, int nth) {
    const patches *v = q->v;
    codes_seen seen = {.whole = true, .ready = true};
    const bool plain = x->type == GGML_TYPE_F32 && gg_contiguous(x);
    const int64_t all = gg_nelements(x), first = all * ith / nth;
    const int64_t n = plain ? all * (ith + 1) / nth - first : v->ax[0].in, rows = plain ? 1 : v->ax[1].in * v->c * v->n;
    for (int64_t r = plain ? 0 : rows * ith / nth; r < (plain ? 1 : rows * (ith + 1) / nth) && seen.whole; r++) {
        const float *p = (const float *)x->data + first;
        if (!plain) {
            const char *row = (const char *)x->data + (size_t)(r % v->ax[1].in) * v->nb[1]
                + (size_t)(r / v->ax[1].in % v->c) * v->nb_c + (size_t)(r / v->ax[1].in / v->c) * v->nb_n;
            gg_to_floats(x->type, row, v->nb[0], n, q->floats), p = q->floats;
        }
        const bytes_range range = bytes_range_of(p, n);
        seen.low = gg_min(seen.low, range.least), seen.high = gg_max(seen.high, range.most), seen.whole = range.whole;
    }
    return seen;
}
static bool codes_ready(const codes_seen *seen, int nth) {
    for (int i = 0; i < nth; i++)
        if (!seen[i].ready) return false;
    return true;
}
/* Computes the node by floats. All threads know by now that they do: what they found is overwritten. */
static int codes_give_up(const gg_work *w, const conv_plan *p) {
    gg_barrier(w);
    return conv_otherwise(w, p);
}
/* Whether all elements are whole numbers within a range of 255 that contains 0; sets the offset of their codes. */
static bool codes_range(codes_plan *q, const codes_seen *seen, int nth) {
    float low = 0, high = 0;
    bool whole = true;
    for (int i = 0; i < nth; i++)
        whole &= seen[i].whole, low = gg_min(low, seen[i].low), high = gg_max(high, seen[i].high);
    whole = whole && low >= -255 && high <= 255 && high - low <= 255;
    if (!whole) return false;
    q->offset = q->of == 2 ? 0 : (int32_t)low + BYTES_SIGNED, q->range = (int32_t)(high - low);
    return true;
}

/* Columns of the result are ldo floats apart. */
#define CODES_ARGS int64_t steps, const int32_t *at, const float *x, const float *b, float *out, int64_t ldo
GG_INLINE void codes_tile(const int n, CODES_ARGS) {
    vi sum[NR][MV];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < MV; i++) sum[j][i] = vi_set1(0);
    for (int64_t s = 0; s < steps; s++, b++) {
        vi a[MV];
        GG_UNROLL for (int i = 0; i < MV; i++) a[i] = vi_words(x + at[s] + i * VW);
        GG_UNROLL for (int j = 0; j < n; j++) {
            int32_t word;
            memcpy(&word, b + j * steps, sizeof word);
            const vi w = vi_set1(word);
            GG_UNROLL for (int i = 0; i < MV; i++) sum[j][i] = bytes_dot(sum[j][i], a[i], w);
        }
    }
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < MV; i++) vf_store(out + j * ldo + i * VW, vi_float(sum[j][i]));
}
#define CODES(n, v) static void codes_##n(CODES_ARGS) { codes_tile(n < NR ? n : NR, steps, at, x, b, out, ldo); }
MICRO_SIZES(CODES, 2)
#undef CODES
#define CODES(n, v) [n] = n <= NR ? codes_##n : NULL,
static void (*const codes_table[])(CODES_ARGS) = {MICRO_SIZES(CODES, 2)};
#undef CODES

/* Whether the bytes of an output channel of the kernel lie in the order of its words. */
static bool codes_ordered(const codes_plan *q) {
    const gg_conv_part k = q->kernel;
    return k.nb_c == 1 && k.c % q->of == 0 && (k.ne[0] == 1 || k.nb[0] == (size_t)k.c)
        && (k.ne[1] == 1 || k.nb[1] == (size_t)(k.c * k.ne[0]));
}
/* Whether those of all channels lie in memory as they are multiplied. */
static bool codes_in_place(const codes_plan *q) {
    return !BYTES_PAIRS && !q->sums_codes && codes_ordered(q) && q->kernel.nb_n == (size_t)q->steps * sizeof(float)
        && (uintptr_t)q->data % sizeof(float) == 0;
}
/* The words of output channel j of the kernel, tap by tap; in tmp if they are not in this order in memory. j is -1:
 * those of a channel whose elements are all 1. */
static const float *codes_row(const codes_plan *q, int64_t j, float *tmp) {
    const gg_conv_part k = q->kernel;
    const char *const p = q->data + (size_t)gg_max(j, 0) * k.nb_n;
    const bool ordered = j >= 0 && codes_ordered(q), pairs = q->of == 2;
    int8_t *const bytes = (int8_t *)tmp;
    int16_t *const wide = (int16_t *)tmp;
    int64_t l = 0;
    if (ordered && !pairs && (uintptr_t)p % sizeof *tmp == 0) return (const float *)p;
#ifdef GG_VEC_PAIRS
    const vi added = vi_set1((int32_t)(((uint32_t)q->w_offset & 0xffff) * 0x10001u));
    for (; ordered && pairs && l + 2 * VW <= q->steps * 2; l += 2 * VW)
        vi_store((int32_t *)(wide + l), vi_add_pairs(vi_load_pairs((const int8_t *)p + l), added));
#endif
    const int64_t row = q->of * q->words;
    for (int64_t t = l / row, c = l % row; t < q->taps; t++, c = 0) {
        const char *const e = p + (size_t)(t % k.ne[0]) * k.nb[0] + (size_t)(t / k.ne[0]) * k.nb[1];
        for (; c < row; c++, l++) {
            const int w = c >= k.c ? 0 : j < 0 ? 1 : *(const int8_t *)(e + (size_t)c * k.nb_c);
            if (pairs) wide[l] = (int16_t)(c < k.c ? w + q->w_offset : 0);
            else bytes[l] = (int8_t)w;
        }
    }
    return tmp;
}
/* Words of the packed kernel. */
static int64_t codes_packed(const codes_plan *q) {
    return codes_in_place(q) ? 0 : (q->columns + q->sums_codes * q->groups) * q->steps;
}
/* The rows of a group, whose first output channel is j. */
static inline const float *codes_group(const codes_plan *q, int64_t j) {
    return q->row + (j + q->sums_codes * (j / q->each)) * q->steps;
}
/* The sum of the codes in n words. */
static int32_t codes_total(const float *words, int64_t n) {
    const vi ones = vi_set1(0x01010101);
    vi sum[4] = {vi_set1(0), vi_set1(0), vi_set1(0), vi_set1(0)};
    int64_t i = 0;
    for (; i + 4 * VW <= n; i += 4 * VW)
        GG_UNROLL for (int l = 0; l < 4; l++) sum[l] = bytes_dot(sum[l], ones, vi_words(words + i + l * VW));
    for (; i < n; i += VW) sum[0] = bytes_dot(sum[0], ones, vf_bits(ld(words + i, n - i)));
    return (int32_t)vf_hsum(vi_to_vf(vi_add(vi_add(sum[0], sum[1]), vi_add(sum[2], sum[3]))));
}
/* Packs the groups of output channels j0 .. j1-1 of the kernel, and sums each channel. */
static void codes_pack(const codes_plan *q, int64_t j0, int64_t j1) {
    for (int64_t j = j0; j < j1; j++) {
        const float *row = codes_group(q, j) + q->sums_codes * q->steps;
        if (q->row == q->panels) {
            float *const to = q->panels + (row - q->row);
            if (q->sums_codes && j % q->each == 0) codes_row(q, -1, to - q->steps);
            row = codes_row(q, j, to);
            if (row != to) memcpy(to, row, (size_t)q->steps * sizeof *to);
        }
        q->totals[j] = !BYTES_PAIRS && q->offset ? codes_total(row, q->steps) : 0;
    }
}

/* The codes of n elements of `of` rows, of which `readable` may be read: a word holds one element of each. Whole
 * vectors are written. */
GG_INLINE void codes_words(const int of, const codes_plan *q, const float *const *row, int64_t n, int64_t readable,
                           float *out) {
    const vf from = vf_set1((float)q->offset);
    const vi mask = vi_set1(of == 2 ? 0xffff : 0xff);
    for (int64_t i = 0; i < n; i += VW) {
        vi word = vi_set1(0);
        GG_UNROLL for (int l = 0; l < of; l++) {
            const vi code = vf_to_vi(vf_sub(ld(row[l] + i, readable - i), from));
            word = vi_or(word, vi_shl(l < of - 1 ? vi_and(code, mask) : code, 32 / of * l));
        }
        vf_store(out + i, vi_float(word));
    }
}
static void codes_encode(const codes_plan *q, const float *const *row, int64_t n, int64_t readable, float *out) {
    if (q->of == 2) codes_words(2, q, row, n, readable, out);
    else codes_words(4, q, row, n, readable, out);
}
/* n words that lie `stride` words apart, side by side; whole vectors are written. */
static void codes_pick(const float *words, int64_t stride, int64_t n, float *out) {
    vf odd;
    for (int64_t i = 0; stride == 2 && i < n; i += VW) {
        vf even;
        vf_load_pairs(words + 2 * i, &even, &odd), vf_store(out + i, even);
    }
    for (int64_t i = 0; stride != 2 && i < n; i++) out[i] = words[i * stride];
}
/* Copies `rows` rows of a plane of word k, from row `first` of the result on. Bytes of channels that do not exist meet
 * elements of the kernel that are 0. Vectors are stored whole: what they write beyond a row is overwritten by the next
 * row or plane, or ignored. */
static void codes_plane(const codes_plan *q, const ggml_tensor *x, int64_t image, int64_t first, int64_t rows,
                        int64_t k, int64_t p1, int64_t p0, float *out) {
    const patches *const v = q->v;
    const patch_axis *ax = v->ax;
    const vf none = vi_float(vi_set1((int32_t)(((uint32_t)-q->offset & 255) * 0x01010101u)));
    const bool plain = x->type == GGML_TYPE_F32 && v->nb[0] == sizeof(float);
    const int64_t from = codes_first(&ax[0], &q->axis[0], p0);
    const patch_range in = patch_inside(ax[0].in, from, ax[0].stride, q->width);
    const int64_t n = in.hi - in.lo, end = (int64_t)(gg_nbytes(x) / sizeof(float));
    for (int64_t r = 0; r < rows; r++, out += q->width) {
        const int64_t y = (first + r) * ax[1].stride + codes_first(&ax[1], &q->axis[1], p1);
        const bool inside = y >= 0 && y < ax[1].in && n > 0;
        for (int64_t i = 0; i < (inside ? in.lo : q->width); i += VW) vf_store(out + i, none);
        if (!inside) continue;
        const float *row[CODES_MOST];
        for (int64_t l = 0; l < q->of; l++) {
            const int64_t c = gg_min(q->of * k + l, v->c - 1);
            const char *const p = (const char *)x->data + (size_t)image * v->nb_n + (size_t)c * v->nb_c
                + (size_t)y * v->nb[1] + (size_t)(from + in.lo * ax[0].stride) * v->nb[0];
            row[l] = (const float *)p;
            if (plain) continue;
            float *const copy = q->floats + l * ax[0].in;
            gg_to_floats(x->type, p, v->nb[0] * (size_t)ax[0].stride, n, copy), row[l] = copy;
        }
        const int64_t readable = plain ? end - (row[q->of - 1] - (const float *)x->data) : n;
        if (plain && ax[0].stride > 1) {
            codes_encode(q, row, (n - 1) * ax[0].stride + 1, readable, q->floats);
            codes_pick(q->floats, ax[0].stride, n, out + in.lo);
        } else codes_encode(q, row, n, readable, out + in.lo);
        for (int64_t i = in.hi; i < q->width; i += VW) vf_store(out + i, none);
    }
}
/* Copies a strip. */
static void codes_load(const codes_plan *q, const ggml_tensor *x, int64_t image, int64_t strip) {
    float *out = q->copy;
    for (int64_t k = 0; k < q->words; k++)
        for (int64_t p1 = 0; p1 < q->axis[1].phases; p1++)
            for (int64_t p0 = 0; p0 < q->axis[0].phases; p0++, out += q->plane)
                codes_plane(q, x, image, strip * q->rows, q->height, k, p1, p0, out);
}

/* What is added to the sums of an output channel. */
static inline vi codes_add(const codes_plan *q, int64_t channel) {
    return vi_set1(q->offset * (q->totals[channel] + q->w_offset * (int32_t)(q->taps * q->v->c)));
}
/* Stores n <= MR sums as floats plus a bias, like patch_lanes; reads whole vectors. */
static inline void codes_lanes(const float *p, vi add, vf bias, int64_t n, float *out) {
    const vf first = vf_add(vi_to_vf(vi_add(vi_words(p), add)), bias);
    if (n < VW) {
        vf_storen(out, first, (int)n);
        return;
    }
    vf_store(out, first);
    if (n > VW) vf_store(out + n - VW, vf_add(vi_to_vf(vi_add(vi_words(p + n - VW), add)), bias));
}
/* Makes floats of the sums of n columns and stores them, except those of positions in the padding. f: the first
 * position of the panel; j0: the first output channel; y: of the strip. */
static void codes_store(const codes_plan *q, int64_t rows, int64_t f, int64_t j0, int64_t n, size_t nb_c, char *y) {
    const patches *const v = q->v;
    const conv_tail *const tail = &v->tail;
    const int64_t end = gg_min(f + MR, (rows - 1) * q->width + v->ax[0].out);
    const bool flat = q->width == v->ax[0].out && v->to[1] == (size_t)q->width * sizeof(float);   /* as if one row */
    const int64_t width = flat ? end : q->width, out = flat ? end : v->ax[0].out;
    float *const tile = q->tile + q->sums_codes * MR;
    for (int64_t j = 0; j < n && (q->sums_codes || tail->function); j++) {
        float *const p = tile + j * MR;
        for (int i = 0; i < MR; i += VW) {
            vi sum = vi_words(p + i);
            if (q->sums_codes) sum = vi_add(sum, vi_mul(vi_words(q->tile + i), vi_set1(q->w_offset)));
            vf_store(p + i, tail->function ? vi_to_vf(vi_add(sum, codes_add(q, j0 + j))) : vi_float(sum));
        }
    }
    if (tail->function) conv_finish(tail, j0, tile, MR, n, MR);
    for (int64_t i = f, m; i < end; i += m) {
        const int64_t r = i / width, x = i % width;
        m = gg_min(end - i, (x < out ? out : width) - x);
        if (x >= out) continue;
        char *const to = y + (size_t)r * v->to[1] + (size_t)x * sizeof(float) + (size_t)j0 * nb_c;
        for (int64_t j = 0; j < n; j++) {
            const float *const p = tile + j * MR + (i - f);
            float *const c = (float *)(to + (size_t)j * nb_c);
            if (tail->function) patch_lanes(p, m, c);
            else codes_lanes(p, codes_add(q, j0 + j), vf_set1(tail->bias ? tail->bias[j0 + j] : 0), m, c);
        }
    }
}

/* Where each step begins in the copy, and one more, whose elements of the kernel are 0. */
static void codes_steps(const codes_plan *q) {
    const patch_axis *const ax = q->v->ax;
    const int64_t phases = q->axis[0].phases * q->axis[1].phases;
    int32_t *at = q->at;
    for (int64_t tap = 0; tap < q->taps; tap++) {
        int64_t t[3], none;
        patch_tap(q->v, tap, t, &none);
        const int64_t phase = codes_phase(&ax[1], &q->axis[1], t[1]) * q->axis[0].phases
            + codes_phase(&ax[0], &q->axis[0], t[0]);
        const int64_t shift = codes_shift(&ax[1], &q->axis[1], t[1]) * q->width
            + codes_shift(&ax[0], &q->axis[0], t[0]);
        for (int64_t k = 0; k < q->words; k++) *at++ = (int32_t)((k * phases + phase) * q->plane + shift);
    }
    *at = 0;
}

#endif
