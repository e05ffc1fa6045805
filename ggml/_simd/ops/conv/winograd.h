/* Convolutions with 3x3 taps by the algorithms F(2x2, 3x3) and F(4x4, 3x3) of Lavin and Gray, "Fast Algorithms for
 * Convolutional Neural Networks" (2015). With a stride of 1, a square of m x m positions of the result is
 *     A' [(G w G') . (B' x B)] A
 * where w are the taps of two channels, x the window of m+2 x m+2 elements of the input that the square reads, and .
 * multiplies elements: for m = 2 16 multiplications instead of 36, for m = 4 36 instead of 144. Their sums over the
 * input channels are products of matrices, computed by the tiles of shifted.h. The threads transform the kernel
 * together; each of them transforms a strip of the input and multiplies it while it is in the cache. If there are fewer
 * strips than threads, these transform the strips together, too.
 *
 * The points of F(4x4, 3x3) are 0, the positive and negative roots of 1/2 and 2, and infinity. Its largest
 * rounding errors are then about twice those of the sums of all products, instead of eight times with 1 and 2 (both for
 * random data of 96 channels). Those of F(2x2, 3x3) are smaller than those of the sums, and it convolves small whole
 * numbers exactly.
 *
 * With a stride of 2, m is 2, and a window has 5x5 elements. In one dimension, the elements of even index meet taps 0
 * and 2 like F(2, 2), with 3 multiplications, and the two others tap 1: 5 instead of 6, 25 instead of 36 in two. The
 * products are in this order; the last two have the same transformed kernel, which has 4x4 elements.
 *
 * A dilation along y makes so many images of one, whose rows alternate: each is convolved without a dilation, and its
 * rows are copied to their places.
 *
 * Every sum of a square mixes all elements of its window, so its rounding errors are relative to the largest of them,
 * also at positions that do not read that one. If the elements of a strip differ too much (winograd_even), products of
 * panels compute it. So errors are a few times those of usual sums of all products in the strip at most. */
#ifndef GG_OPS_CONV_WINOGRAD_H
#define GG_OPS_CONV_WINOGRAD_H
#include "shifted.h"

enum {
    WINOGRAD_MOST = 4,              /* the largest side of a square, */
    WINOGRAD_SIDE = WINOGRAD_MOST + 2,      /* and of its window */
    WINOGRAD_FLOATS = 128 << 10,    /* of the transformed input of a strip, so that it stays in the L2 cache, */
    WINOGRAD_WIDE = 2 * WINOGRAD_FLOATS,        /* or, if that saves vectors, comes in part from the L3 cache */
    WINOGRAD_KERNEL = 1 << 20,      /* of the transformed kernel, so that it stays in the L3 cache, */
    WINOGRAD_FAR = 3 << 18,         /* and of one that takes WINOGRAD_SLOW times as long for its size as a small one */
    WINOGRAD_SLOW = 2,
    WINOGRAD_ONCE = 10,             /* cycles of the taps of a pair at least, if they come from memory for one strip */
    WINOGRAD_N = 4 * SHIFTED_N,     /* output channels that are transformed together, */
    WINOGRAD_NEAR = 80 << 10,       /* and floats of their transformed kernel if it is made for a single strip */
    WINOGRAD_ALONE = 3,             /* vectors of squares up to which a single image is one strip */
    WINOGRAD_TRIES = 32,            /* divisions of an image that are compared */
    WINOGRAD_TASKS = 8,             /* for each thread at least, if there are enough output channels */
    WINOGRAD_GROUPS = 8,            /* of input channels, among which threads divide a strip, */
    WINOGRAD_FEW = 4,               /* and strips at most that they divide */
    WINOGRAD_RANGE = 16,            /* how many times larger than others elements may be */
};

typedef struct winograd winograd;
typedef struct winograd_piece winograd_piece;
/* A plan, of squares or of a line (winograd_line.h). That of bytes (bytes_winograd.h) has words for floats. */
struct winograd {
    int m, stride;                  /* the side of a square; the stride along x and y */
    int step, side, products;       /* elements from one window to the next; of its side; of a window */
    int transformed;                /* products of the transformed kernel */
    int64_t phases;                 /* the dilation along y: so many images, whose rows alternate */
    int64_t across, down;           /* squares in a row of an image, rows of squares */
    int64_t taps;                   /* rows of them that a product adds up: those of a line, 1 of squares */
    int64_t segments, beside;       /* of a row of the image, where a line has no squares; windows that follow each
                                     * other in a segment, or in one of the rows that a dilation makes of it */
    int64_t strips, plane;          /* tasks of an image; floats for the squares of one channel of a strip, */
    int64_t windows;                /* and for all that they read: of a line, those of lower taps, too */
    int64_t width, height;          /* the most positions of a part */
    bool joined;                    /* a vector has the squares of several rows, of 4 x 4 positions */
    int64_t blocks, tile, each;     /* of output channels that are transformed together, whole tiles; so many at most */
    bool near;                      /* each strip transforms the kernel of a block, before it multiplies by it: as fast
                                     * as to read what another thread has transformed, if there are few strips */
    int64_t input, sums;            /* floats of one of the products: of the transformed input, of a block's sums */
    int64_t line, lines;            /* floats of a padded row of the input, and of all that a task needs */
    int64_t pitch, energies;        /* floats of a row of energies (winograd_even), and of all rows of a strip */
    int64_t groups;                 /* of input channels, which have energies of their own */
    bool common;                    /* threads transform a strip together */
    int64_t packed;                 /* floats of the tiles of a line that are packed together */
    int64_t room;                   /* floats for the lines, or for a product of panels */
    int64_t kernels;                /* floats of one of the products of the transformed kernel */
    const float *kernel;            /* that kernel: products, output channels, rows of taps, input channels */
    /* transforms output channel j of the kernel, to `to` in each product; room: floats for its taps */
    void (*transform)(const patches *v, const gemm *g, const winograd *s, int64_t j, float *room, float *to);
    /* transforms channel c of the strip of a task, and adds its energies. last: what follows the channel is another
     * thread's */
    void (*channel)(const patches *v, const gemm *g, const winograd *s, const winograd_piece *task, int64_t c,
                    bool last, float *energy, float *lines);
    /* computes a task. x: room for the sums; lines of the input, or the panels of a part, follow them */
    void (*compute)(const patches *v, const gemm *g, const winograd *s, winograd_piece *task, float *x);
};

#define WINOGRAD_ROOT 0.707106781f          /* of 1/2 */
/* F(m, stride, arguments) with m and stride as constants */
#define WINOGRAD(F, s, ...) ((s)->stride == 2 ? F(2, 2, __VA_ARGS__) \
                             : (s)->m == 2 ? F(2, 1, __VA_ARGS__) : F(4, 1, __VA_ARGS__))

static inline int64_t winograd_first(const winograd *s, int64_t strip) { return s->down * strip / s->strips; }
static inline int64_t winograd_vectors(const winograd *s, int64_t strip) {
    return gg_ceil_div((winograd_first(s, strip + 1) - winograd_first(s, strip)) * s->across, VW);
}

/* Rows of squares of a strip whose transformed input has `floats` at most. */
static inline int64_t winograd_fit(const patches *v, const winograd *s, int64_t floats) {
    return gg_max(floats / s->products / v->c / s->across, 1);
}
/* Divides an image into strips that waste few lanes of vectors and stay in the L2 cache, or waste fewer by a sixteenth;
 * returns their vectors, 0: no strip fits. */
static int64_t winograd_strips(const patches *v, winograd *s) {
    const bool halves = v->n * s->phases == 1 && s->across * s->down > WINOGRAD_ALONE * VW;
    const int64_t wide = gg_ceil_div(s->down, winograd_fit(v, s, WINOGRAD_WIDE));
    const int64_t near = gg_ceil_div(s->down, winograd_fit(v, s, WINOGRAD_FLOATS));
    const int64_t few = halves && wide == 1 && s->down > 1 ? 2 : wide;
    int64_t best = 0, least = 0;
    if (v->c > WINOGRAD_WIDE / s->products / s->across) return 0;
    for (int64_t n = few; n <= gg_min(s->down, near + WINOGRAD_TRIES); n++) {
        const int64_t rows = s->down / n, taller = s->down % n, size = rows * s->across;
        const int64_t vectors = n * gg_ceil_div(size, VW)
            + taller * (gg_ceil_div(size + s->across, VW) - gg_ceil_div(size, VW));
        const int64_t cost = vectors * (n < near ? 17 : 16);
        if (best && size < SHIFTED_V * VW) break;
        if (best && cost > least) continue;
        best = vectors, least = cost, s->strips = n;
        s->plane = gg_ceil_div(size + (taller > 0) * s->across, VW) * VW;
    }
    return best;
}

/* n floats or more: an odd number of cache lines, so that the elements of a window lie in different sets of L1. */
static inline int64_t winograd_apart(int64_t n) { return (gg_ceil_div(n, 16) | 1) * 16; }

/* What follows from the plane and the windows, c input channels, and n output channels, which are computed in tiles and
 * transformed in blocks of `most` at most. Those of a single strip are an even number, as threads often are. */
static void winograd_sizes(winograd *s, int64_t c, int64_t n, int64_t tile, int64_t most) {
    const int64_t tiles = gg_ceil_div(n, tile), blocks = gg_ceil_div(tiles, most / tile);
    s->blocks = s->strips == 1 && blocks < tiles ? blocks + blocks % 2 : blocks;
    s->tile = tile, s->each = gg_ceil_div(tiles, s->blocks) * tile;
    s->kernels = winograd_apart(c * s->taps * (s->near ? s->each : n));
    s->input = winograd_apart(c * s->windows + VW), s->sums = winograd_apart(s->each * s->plane + VW);
}
/* How threads share the input of `strips` strips of c channels. Sums of energies do not depend on their number. */
static void winograd_share(winograd *s, int64_t strips, int64_t c, int threads) {
    s->groups = strips <= WINOGRAD_FEW ? gg_min(WINOGRAD_GROUPS, c) : 1;
    s->common = strips < threads && strips <= WINOGRAD_FEW && s->blocks > 1;
}
/* The first of n output channels that is in block b. */
static inline int64_t winograd_first_channel(const winograd *s, int64_t n, int64_t b) {
    return gg_min(gg_ceil_div(n, s->tile) * b / s->blocks * s->tile, n);
}

/* Output channels of a block whose transformed kernel stays in the L2 cache with the input. */
static int64_t winograd_near(const patches *v, const winograd *s, int64_t tile) {
    return gg_max(gg_min(WINOGRAD_NEAR / s->transformed / v->c, WINOGRAD_N), tile);
}

/* Elements of a side of a window. */
static inline int winograd_side(int m, int stride) { return (m - 1) * stride + 3; }

/* The plan for squares of m x m; returns its cycles for each pair of channels. 0: the kernel is too large, or no strip
 * fits. */
static double winograd_squares(const patches *v, const gemm *g, int m, int threads, winograd *s) {
    /* cycles of the transforms: of a vector of squares of an input and an output channel, of the taps of a pair */
    static const struct { double input, sums, kernel; } cycles[][3] = {
        {[1] = {60, 40, 7}, [2] = {VW == 8 ? 120 : 60, VW == 8 ? 80 : 40, 8}}, {[1] = {180, 170, 16}},
    };
    const int stride = (int)v->ax[0].stride, side = winograd_side(m, stride), i = m / 4;
    const int64_t phases = v->ax[1].dilation, height = gg_ceil_div(v->ax[1].out, phases);
    *s = (winograd){.m = m, .stride = stride, .step = m * stride, .side = side, .products = side * side,
                    .transformed = (m + 2) * (m + 2), .phases = phases, .across = gg_ceil_div(v->ax[0].out, m),
                    .down = gg_ceil_div(height, m), .taps = 1};
    const int64_t vectors = winograd_strips(v, s);
    if (!vectors) return 0;
    s->windows = s->plane;
    const int64_t strips = s->strips * v->n * phases;
    s->near = strips == 1 || (strips == 2 && threads > 1);
    if (strips > 1 && v->c > WINOGRAD_KERNEL / s->transformed / g->n) return 0;
    const int64_t tile = s->plane == VW ? SHIFTED_NARROW_N : SHIFTED_N;
    winograd_sizes(s, v->c, g->n, tile, strips > 2 ? WINOGRAD_N : winograd_near(v, s, tile));
    const int64_t rows = gg_ceil_div(s->down, s->strips);
    s->joined = m == 4 && 3 * rows * gg_ceil_div(s->across, VW) >= 4 * gg_ceil_div(rows * s->across, VW);
    s->width = v->ax[0].out, s->height = gg_min(m * rows, height);
    s->line = s->step * gg_ceil_div(s->across, VW) * VW + 2 * VW, s->lines = (side * (rows + 1) + 1) * s->line;
    s->pitch = s->line, s->energies = rows * s->pitch;
    const double transforms = cycles[i][stride].input / (double)g->n + cycles[i][stride].sums / (double)v->c;
    double kernel = cycles[i][stride].kernel;
    if (strips == 1) kernel = kernel < WINOGRAD_ONCE ? WINOGRAD_ONCE : kernel;
    else if (s->transformed * v->c * g->n > WINOGRAD_FAR) kernel *= WINOGRAD_SLOW;
    /* each vector of a transform has squares of one row, unless they are joined */
    const int64_t beside = s->joined ? vectors : s->down * gg_ceil_div(s->across, VW);
    const double cost = 0.5 * s->products * (double)vectors + transforms * (double)beside;
    return cost * (double)(v->n * phases) + kernel;
}

/* G w: the transformed values of three taps. */
GG_INLINE void winograd_taps(const int m, const int stride, vf a, vf b, vf c, vf out[WINOGRAD_SIDE]) {
    const vf half = vf_set1(0.5f), two = vf_set1(2);
    out[0] = a, out[m + 1] = c;
    if (stride == 2) {
        out[1] = vf_add(a, c), out[2] = c, out[3] = b;
    } else if (m == 2) {
        const vf even = vf_mul(half, vf_add(a, c)), odd = vf_mul(half, b);
        out[1] = vf_add(even, odd), out[2] = vf_sub(even, odd);
    } else {
        const vf even = vf_mul(vf_set1(-2 / 3.f), vf_fma(half, c, a)), odd = vf_mul(vf_set1(-2 * WINOGRAD_ROOT / 3), b);
        const vf more = vf_mul(vf_set1(1 / 6.f), vf_fma(two, c, a)), other = vf_mul(vf_set1(WINOGRAD_ROOT / 3), b);
        out[1] = vf_add(even, odd), out[2] = vf_sub(even, odd);
        out[3] = vf_add(more, other), out[4] = vf_sub(more, other);
    }
}
/* x B: the transformed elements of a row of a window. */
GG_INLINE void winograd_window(const int m, const int stride, const vf x[WINOGRAD_SIDE], vf out[WINOGRAD_SIDE]) {
    if (stride == 2) {
        out[0] = vf_sub(x[0], x[2]), out[1] = x[2], out[2] = vf_sub(x[2], x[4]), out[3] = x[1], out[4] = x[3];
    } else if (m == 2) {
        out[0] = vf_sub(x[0], x[2]), out[1] = vf_add(x[1], x[2]), out[2] = vf_sub(x[2], x[1]);
        out[3] = vf_sub(x[1], x[3]);
    } else {
        const vf half = vf_set1(0.5f), two = vf_set1(2);
        const vf root = vf_set1(WINOGRAD_ROOT), roots = vf_set1(2 * WINOGRAD_ROOT);
        const vf even = vf_fnma(two, x[2], x[4]), odd = vf_fnma(two, x[1], x[3]);
        const vf more = vf_fnma(half, x[2], x[4]), other = vf_fnma(half, x[1], x[3]);
        out[0] = vf_fnma(vf_set1(2.5f), x[2], vf_add(x[0], x[4]));
        out[1] = vf_fma(root, odd, even), out[2] = vf_fnma(root, odd, even);
        out[3] = vf_fma(roots, other, more), out[4] = vf_fnma(roots, other, more);
        out[5] = vf_fnma(vf_set1(2.5f), x[3], vf_add(x[1], x[5]));
    }
}
/* A' y: what the sums of a column of a window give for m positions. */
GG_INLINE void winograd_column(const int m, const int stride, const vf y[WINOGRAD_SIDE], vf out[WINOGRAD_MOST]) {
    if (stride == 2) {
        out[0] = vf_add(vf_add(y[0], y[1]), y[3]), out[1] = vf_add(vf_sub(y[1], y[2]), y[4]);
    } else if (m == 2) {
        out[0] = vf_add(vf_add(y[0], y[1]), y[2]), out[1] = vf_sub(vf_sub(y[1], y[2]), y[3]);
    } else {
        const vf half = vf_set1(0.5f), two = vf_set1(2);
        const vf even = vf_add(y[1], y[2]), odd = vf_mul(vf_set1(WINOGRAD_ROOT), vf_sub(y[1], y[2]));
        const vf more = vf_add(y[3], y[4]), other = vf_mul(vf_set1(2 * WINOGRAD_ROOT), vf_sub(y[3], y[4]));
        out[0] = vf_add(y[0], vf_add(even, more)), out[1] = vf_add(odd, other);
        out[2] = vf_fma(half, even, vf_mul(two, more));
        out[3] = vf_fma(half, odd, vf_fma(two, other, y[5]));
    }
}
/* The taps of output channel j with all input channels as contiguous floats: where they are, or in `room`. */
static const float *winograd_floats(const patches *v, const gemm *g, int64_t j, float *room) {
    const gemm_src *const b = &g->b;
    const patches *const kernel = b->context;
    const int64_t width = v->ax[0].taps, taps = width * v->ax[1].taps;
    if (b->pack == pack_along_k && b->type == GGML_TYPE_F32) return (const float *)pack_at(b, j, 0);
    if (b->pack == pack_along_k) return b->kernels->to_f32[b->type](pack_at(b, j, 0), room, g->k), room;
    const char *channel = b->data + (size_t)j * kernel->nb_c;
    for (int64_t c = 0; c < v->c; c++, channel += kernel->nb_n)
        for (int64_t t = 0; t < taps; t++)
            room[taps * c + t] = pack_value(b->type, channel + (size_t)(t / width) * kernel->nb[1]
                                                         + (size_t)(t % width) * kernel->nb[0]);
    return room;
}
/* Transforms them; room: for so many floats. */
GG_INLINE void winograd_kernel(const int m, const int stride, const patches *v, const gemm *g, const winograd *s,
                               int64_t j, float *room, float *to) {
    const float *w = winograd_floats(v, g, j, room);
    for (int64_t c = 0; c < v->c; c += VW, w += 9 * VW) {
        const int64_t n = gg_min(v->c - c, VW);
        const float *channel[VW];
        vf taps[3][4], rows[3][WINOGRAD_SIDE], u[WINOGRAD_SIDE];
        for (int64_t l = 0; l < VW; l++) channel[l] = w + 9 * gg_min(l, n - 1);
        GG_UNROLL for (int y = 0; y < 3; y++) {         /* four taps from tap 0, 3, 5: none beyond the ninth */
            vf_transpose4(channel, y < 2 ? 3 * y : 5, taps[y]);
            const vf *const t = taps[y] + (y == 2);
            winograd_taps(m, stride, t[0], t[1], t[2], rows[y]);
        }
        for (int x = 0; x < m + 2; x++) {
            winograd_taps(m, stride, rows[0][x], rows[1][x], rows[2][x], u);
            GG_UNROLL for (int y = 0; y < m + 2; y++) st(to + (y * (m + 2) + x) * s->kernels + c, u[y], n);
        }
    }
}

/* Elements k to k + 7 of each of some windows. */
GG_INLINE void winograd_elements(const float *const window[VW], int64_t k, vf x[2 * WINOGRAD_MOST]) {
    vf_transpose4(window, k, x), vf_transpose4(window, k + 4, x + 4);
}
/* Where the elements from x on of the rows that begin with row y are, n of each: in the input if that has contiguous
 * floats, in `zeros`, or in lines of `floats`. */
GG_INLINE void winograd_rows(const int side, const patches *v, const gemm *g, const char *channel, int64_t x, int64_t y,
                             int64_t n, const float *zeros, float *floats, int64_t line,
                             const float *row[WINOGRAD_SIDE]) {
    const bool plain = g->a.type == GGML_TYPE_F32 && v->nb[0] == sizeof(float);
    for (int i = 0; i < side; i++, y++, floats += line) {
        const char *const from = channel + y * (ptrdiff_t)v->nb[1] + x * (ptrdiff_t)v->nb[0];
        if (y < 0 || y >= v->ax[1].in) row[i] = zeros;
        else if (plain) row[i] = (const float *)from;
        else gg_to_floats(g->a.type, from, v->nb[0], n, floats), row[i] = floats;
    }
}
/* Adds the squares of n elements of a row to energies. */
static inline void winograd_add_energy(const float *row, int64_t n, float *energy) {
    for (int64_t l = 0; l < n; l += VW) {
        const vf x = ld(row + l, n - l);
        vf_store(energy + l, vf_fma(x, x, vf_load(energy + l)));
    }
}
/* Whether no energy, a sum of squares of all groups, is much larger than the others: `rows` rows of n. False if one is
 * not finite. */
static bool winograd_even(const winograd *s, const float *energy, int64_t rows, int64_t n) {
    vf sums = vf_zero(), most = vf_zero();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t l = 0; l < n; l += VW) {
            vf all = vf_zero();
            for (int64_t q = 0; q < s->groups; q++)
                all = vf_add(all, ld(energy + q * s->energies + r * s->pitch + l, n - l));
            const vf root = vf_sqrt(all);
            sums = vf_add(sums, root), most = vf_max(most, root);
        }
    const float largest = vf_hmax(most), others = vf_hsum(sums) - largest;
    return largest * (float)(rows * n - 1) <= WINOGRAD_RANGE * others;
}
/* Transforms n columns of the rows that a row of squares reads, into lines from element lo on, whose other elements up
 * to `end` are 0. Adds the energies of the rows that the row of squares above does not read. ahead: bytes from these
 * rows to those that are read next, which are prefetched. */
GG_INLINE void winograd_columns(const int m, const int stride, const float *const row[WINOGRAD_SIDE], int64_t lo,
                                int64_t n, int64_t end, ptrdiff_t ahead, float *energy, float *lines, int64_t line) {
    const int side = winograd_side(m, stride);
    for (int i = 0; i < side; i++)
        for (int64_t l = 0; l < lo; l += VW) vf_store(lines + i * line + l, vf_zero());
    for (int64_t l = 0; l < n; l += VW) {
        vf x[WINOGRAD_SIDE], out[WINOGRAD_SIDE];
        if (l + VW > n && n > VW) l = n - VW;           /* masked loads are slow */
        GG_UNROLL for (int i = 0; i < side; i++) x[i] = ld(row[i] + l, n - l);
        GG_UNROLL for (int i = side - m * stride; i < side; i++) __builtin_prefetch((const char *)(row[i] + l) + ahead);
        vf sum = vf_load(energy + l);
        GG_UNROLL for (int i = side - m * stride; i < side; i++) sum = vf_fma(x[i], x[i], sum);
        vf_store(energy + l, sum);
        winograd_window(m, stride, x, out);
        GG_UNROLL for (int i = 0; i < side; i++) vf_store(lines + i * line + lo + l, out[i]);
    }
    for (int i = 0; i < side; i++)
        for (int64_t l = lo + n; l < end; l += VW) vf_store(lines + i * line + l, vf_zero());
}
/* The elements of a row that the windows of a row of squares read lie in the input from lo to hi. */
static inline patch_range winograd_inside(const patches *v, const winograd *s) {
    const patch_range in = patch_inside(v->ax[0].in, v->ax[0].base, 1, s->step * (s->across - 1) + s->side);
    return in.lo < in.hi ? in : (patch_range){0, 0};
}
/* Transforms the columns of n windows, or of a vector of them, that begin in a line: those of their rows follow. Joined
 * windows do not lie beside each other. */
GG_INLINE void winograd_windows(const int m, const int stride, const winograd *s, const float *const window[VW],
                                int64_t n, float *to) {
    const int side = winograd_side(m, stride);
    GG_UNROLL for (int j = 0; j < side; j++) {
        vf x[2 * WINOGRAD_MOST], out[WINOGRAD_SIDE];
        const float *const row = window[0] + j * s->line;
        if (side == 4) vf_load_pairs(row, &x[0], &x[1]), vf_load_pairs(row + 2, &x[2], &x[3]);
        else winograd_elements(window, j * s->line, x);
        winograd_window(m, stride, x, out);
        if (n >= VW) GG_UNROLL for (int i = 0; i < side; i++, to += s->input) vf_store(to, out[i]);
        else for (int i = 0; i < side; i++, to += s->input) vf_storen(to, out[i], (int)n);
    }
}
/* Transforms channel c of `rows` rows of squares from row `first` on: all columns, and then the rows of windows, as a
 * load that crosses two recent stores waits for them. Vectors are stored whole: what they write beyond a row of squares
 * is overwritten by the next row or channel, or ignored; that of the last channel is not written. */
GG_INLINE void winograd_input(const int m, const int stride, const patches *v, const gemm *g, const winograd *s,
                              int64_t image, int64_t c, bool last, int64_t first, int64_t rows, float *energy,
                              float *lines, float *to) {
    const int step = m * stride, side = winograd_side(m, stride);
    const patch_axis *ax = v->ax;
    const char *const channel = g->a.data + (size_t)image * v->nb_n + (size_t)c * v->nb_c;
    const int64_t line = s->line, input = s->input, rest = (gg_ceil_div(rows * s->across, VW) - 1) * VW;
    const int64_t end = step * (s->across - 1) + side;
    const patch_range in = winograd_inside(v, s);
    const int64_t lo = in.lo, n = in.hi - lo;
    const ptrdiff_t next = step * (ptrdiff_t)v->nb[1];
    const bool joined = m == 4 && s->joined;
    const float *window[VW];
    float *const zeros = lines + side * rows * line;
    for (int64_t i = 0; i < line; i += VW) vf_store(zeros + i, vf_zero());
    for (int64_t r = 0; r < rows; r++) {
        const float *row[WINOGRAD_SIDE];
        winograd_rows(side, v, g, channel, ax[0].base + lo, ax[1].base + step * (first + r), n, zeros, zeros + line,
                      line, row);
        for (int i = 0; !r && i < side - step; i++) winograd_add_energy(row[i], n, energy);
        winograd_columns(m, stride, row, lo, n, end, r + 1 < rows ? next : (ptrdiff_t)v->nb_c - r * next,
                         energy + r * s->pitch, lines + side * r * line, line);
    }
    to += c * s->plane;
    for (int i = 0; i < s->products; i++) vf_store(to + i * input + rest, vf_zero());
    for (int64_t t = 0, r = 0, x = 0; joined && t < rows * s->across; t += VW) {
        for (int l = 0; l < VW; l++) {                  /* lanes behind the last window have the last one */
            window[l] = lines + side * r * line + step * x;
            if (x + 1 < s->across) x++;
            else if (r + 1 < rows) x = 0, r++;
        }
        winograd_windows(m, stride, s, window, VW, to + t);
    }
    for (int64_t r = 0; !joined && r < rows; r++)
        for (int64_t t = 0; t < s->across; t += VW) {
            for (int l = 0; l < VW; l++) window[l] = lines + side * r * line + step * (t + l);
            winograd_windows(m, stride, s, window, last ? (rows - r) * s->across - t : VW, to + r * s->across + t);
        }
}

/* Interleaves the positions of a row of squares. */
GG_INLINE void winograd_merge(const int m, const vf x[WINOGRAD_MOST], vf out[WINOGRAD_MOST]) {
    if (m == 2) {
        vf_pairs(x[0], x[1], &out[0], &out[1]);
    } else {
        vf even[2], odd[2];
        vf_pairs(x[0], x[2], &even[0], &even[1]), vf_pairs(x[1], x[3], &odd[0], &odd[1]);
        for (int i = 0; i < 2; i++) vf_pairs(even[i], odd[i], &out[2 * i], &out[2 * i + 1]);
    }
}
/* Stores n positions, or more while they end before `end`. */
GG_INLINE void winograd_store(const int m, const vf *x, int64_t n, float *to, const float *end) {
    if (n >= m * VW)
        GG_UNROLL for (int j = 0; j < m; j++) vf_store(to + j * VW, x[j]);
    else
        GG_UNROLL for (int j = 0; j < m; j++)
            if (n > j * VW) st(to + j * VW, x[j], end - (to + j * VW));
}
/* The positions of `n` squares beside each other, row by row, from the sums of their windows. Adds 0 times each of them
 * to test. */
GG_INLINE void winograd_positions(const int m, const int stride, const winograd *s, const float *sums, int64_t n,
                                  vf rows[WINOGRAD_MOST][WINOGRAD_MOST], vf *test) {
    const int side = winograd_side(m, stride);
    vf half[WINOGRAD_MOST][WINOGRAD_SIDE], column[WINOGRAD_SIDE], out[WINOGRAD_MOST], all = vf_zero();
    GG_UNROLL for (int x = 0; x < side; x++) {
        GG_UNROLL for (int i = 0; i < side; i++) column[i] = vf_load(sums + (i * side + x) * s->sums);
        winograd_column(m, stride, column, out);
        GG_UNROLL for (int i = 0; i < m; i++) half[i][x] = out[i];
    }
    GG_UNROLL for (int i = 0; i < m; i++) {
        winograd_column(m, stride, half[i], out);
        for (int j = 0; j < m; j += 2) all = vf_fma(vf_add(out[j], out[j + 1]), vf_zero(), all);
        winograd_merge(m, out, rows[i]);
    }
    if (n < VW) {
        float lanes[VW];
        vf_store(lanes, all), all = vf_loadn(lanes, (int)n);
    }
    *test = vf_add(*test, all);
}
/* Stores `height` x `width` positions of `rows` rows of squares of an output channel. Returns whether all are finite.
 * Vectors of one row are stored whole while they end within these positions: what they write beyond a row is
 * overwritten by the rows below, because the squares of a row are stored from right to left. */
GG_INLINE bool winograd_output(const int m, const int stride, const winograd *s, const float *sums, int64_t rows,
                               int64_t width, int64_t height, float *y) {
    const int64_t across = s->across, squares = rows * across;
    const float *const end = y + height * width;
    const bool joined = m == 4 && s->joined;
    vf test = vf_zero(), at[WINOGRAD_MOST][WINOGRAD_MOST];
    for (int64_t t = 0; joined && t < squares; t += VW) {
        const int64_t last = gg_min(t + VW, squares);
        float lines[WINOGRAD_MOST][WINOGRAD_MOST * VW];
        winograd_positions(m, stride, s, sums + t, last - t, at, &test);
        GG_UNROLL for (int i = 0; i < m; i++)
            GG_UNROLL for (int j = 0; j < m; j++) vf_store(lines[i] + j * VW, at[i][j]);
        for (int64_t q = t, r = t / across, x = t % across, n; q < last; q += n, r++, x = 0) {
            n = gg_min(across - x, last - q);
            for (int64_t i = 0; i < gg_min(m, height - m * r); i++)
                patch_copy(lines[i] + m * (q - t), gg_min(m * n, width - m * x), y + (m * r + i) * width + m * x);
        }
    }
    for (int64_t r = 0; !joined && r < rows; r++)
        for (int64_t t = (across - 1) / VW * VW; t >= 0; t -= VW) {
            float *const to = y + m * r * width + m * t;
            winograd_positions(m, stride, s, sums + r * across + t, across - t, at, &test);
            GG_UNROLL for (int i = 0; i < m; i++)
                if (i < height - m * r) winograd_store(m, at[i], width - m * t, to + i * width, end);
        }
    return !vm_any(vf_isnan(test));
}

/* Positions from x0, y0 on, `width` x `height`, of n output channels, from channel j on, as a product of panels. */
typedef struct winograd_part { patches seen; gemm g; gemm_tiling tiling; } winograd_part;
static void winograd_part_make(const patches *v, const gemm *g, int64_t image, int64_t x0, int64_t width, int64_t y0,
                               int64_t height, int64_t j, int64_t n, winograd_part *p) {
    p->seen = *v, p->g = *g;
    p->seen.n = 1, p->seen.ax[0].out = width, p->seen.ax[1].out = height;
    p->seen.ax[0].base += x0 * v->ax[0].stride, p->seen.ax[1].base += y0 * v->ax[1].stride;
    if (v->tail.bias) p->seen.tail.bias += j;
    p->g.m = patches_places(&p->seen), p->g.n = n;
    p->g.a.context = &p->seen, p->g.a.data += (size_t)image * v->nb_n;
    p->g.b.data += (size_t)j * ((const patches *)g->b.context)->nb_c;
    p->g.c += (size_t)image * v->to_n + (size_t)j * g->c_n + (size_t)y0 * v->to[1] + (size_t)x0 * v->to[0];
    p->tiling = gemm_plan(&p->g, 1, false);
}

/* Which product of the transformed kernel the product i of a window is multiplied by. */
static inline int winograd_which(const winograd *s, int i) {
    return gg_min(i / s->side, s->m + 1) * (s->m + 2) + gg_min(i % s->side, s->m + 1);
}

/* One of the products of n output channels: the sums over c rows of taps of input channels of `vectors` vectors of
 * windows. */
static void winograd_products(const float *kernel, const float *x, int64_t c, int64_t n, int64_t vectors, int64_t tiles,
                              int64_t step, float *sums, int64_t plane) {
    const int64_t most = vectors == 1 ? SHIFTED_NARROW_N : SHIFTED_N;
    for (int64_t j = 0, few; j < n; j += few) {
        few = n - j >= most ? most : gg_min(n - j, SHIFTED_N);
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t from = vectors * t / tiles, wide = vectors * (t + 1) / tiles - from;
            shifted_table[SHIFTED_STEPS][wide][few](c, NULL, step, x + from * VW, kernel + j * c, c,
                                                    sums + j * plane + from * VW, plane, VW, false, !t, NULL, NULL);
        }
    }
}

/* The taps of n output channels from channel j on, which are prefetched in so many steps. */
static pack_ahead winograd_ahead(const gemm *g, int64_t j, int64_t n, int64_t steps) {
    if (g->b.pack != pack_along_k || j >= g->n) return (pack_ahead){.rows = 0};
    pack_ahead x = {.row = pack_at(&g->b, j, 0), .stride = g->b.nb_i, .rows = gg_min(n, g->n - j),
                    .lines = gg_ceil_div(g->k * gg_types[g->b.type].bytes, AHEAD_LINE)};
    x.each = gg_ceil_div(x.rows * x.lines, steps);
    return x;
}

/* A task: blocks b0 .. b1-1 of output channels of a strip of an image. Unless threads transform the input of a strip
 * together, each of them does that. */
struct winograd_piece {
    int64_t strips, images, blocks; /* of an image; of output channels */
    int64_t chunks;                 /* that the blocks of a strip are divided into */
    int64_t image, strip, b0, b1;
    int64_t held;                   /* the strip of the last task, counted through the images */
    bool ready;                     /* it was the same */
    bool even;                      /* its elements do not differ too much */
    float *first, *input;           /* the transformed input of the first strip, and of this one; energies follow it */
    int64_t next;                   /* floats from one strip to the next; 0: they take the same place */
};
static inline winograd_piece winograd_pieces(const gg_work *w, int64_t strips, int64_t images, int64_t blocks) {
    const int64_t chunks = gg_min(gg_ceil_div(WINOGRAD_TASKS * w->nth, strips * images), blocks);
    return (winograd_piece){.strips = strips, .images = images, .blocks = blocks, .chunks = chunks, .held = -1};
}
static inline void winograd_at(winograd_piece *p, int64_t strip) {
    p->image = strip / p->strips, p->strip = strip % p->strips;
    p->input = p->next ? p->first + strip * p->next : p->first;
}
static inline bool winograd_claim(const gg_work *w, winograd_piece *p) {
    const int64_t u = gg_claim_piece(w, p->strips * p->images * p->chunks);
    if (u < 0) return false;
    const int64_t strip = u / p->chunks, chunk = u % p->chunks;
    p->ready = strip == p->held, p->held = strip;
    winograd_at(p, strip);
    p->b0 = p->blocks * chunk / p->chunks, p->b1 = p->blocks * (chunk + 1) / p->chunks;
    return true;
}

/* The rows of a phase of the result, which read those of a phase of the input. */
static void winograd_phase(int64_t phase, int64_t phases, patches *v, gemm *g) {
    patch_axis *const y = &v->ax[1];
    const int64_t first = phase + y->base, row = (first % phases + phases) % phases;
    g->a.data += (size_t)row * v->nb[1], g->c += (size_t)phase * v->to[1];
    *y = (patch_axis){.in = gg_max(gg_ceil_div(y->in - row, phases), 0), .out = gg_ceil_div(y->out - phase, phases),
                      .taps = y->taps, .stride = 1, .base = (first - row) / phases, .dilation = 1};
    v->nb[1] *= (size_t)phases, v->to[1] *= (size_t)phases;
}

/* The input of a task, and its part of the kernel: those of a phase, if the convolution has any. */
typedef struct winograd_view { patches v; gemm g; int64_t image; } winograd_view;
static winograd_view winograd_view_of(const patches *v, const gemm *g, const winograd *s, const winograd_piece *task) {
    winograd_view x = {*v, *g, task->image / s->phases};
    if (s->phases > 1) winograd_phase(task->image % s->phases, s->phases, &x.v, &x.g);
    return x;
}
static inline int64_t winograd_input_floats(const winograd *s) {
    return s->products * s->input + gg_ceil_div(s->groups * s->energies, 16) * 16;
}
static inline float *winograd_energies(const winograd *s, const winograd_piece *task) {
    return task->input + s->products * s->input;
}
/* Transforms group q of the input channels of a strip. ahead: taps that are prefetched meanwhile; or NULL. */
static void winograd_group(const winograd_view *x, const winograd *s, const winograd_piece *task, int64_t q,
                           pack_ahead *ahead, float *lines) {
    float *const energy = winograd_energies(s, task) + q * s->energies;
    const int64_t end = x->v.c * (q + 1) / s->groups;
    memset(energy, 0, (size_t)s->energies * sizeof *energy);
    for (int64_t c = x->v.c * q / s->groups; c < end; c++) {
        s->channel(&x->v, &x->g, s, task, c, s->common && c == end - 1, energy, lines);
        if (ahead) pack_prefetch(ahead);
    }
}
static void winograd_input_channel(const patches *v, const gemm *g, const winograd *s, const winograd_piece *task,
                                   int64_t c, bool last, float *energy, float *lines) {
    const int64_t first = winograd_first(s, task->strip), rows = winograd_first(s, task->strip + 1) - first;
    WINOGRAD(winograd_input, s, v, g, s, task->image / s->phases, c, last, first, rows, energy, lines, task->input);
}
/* A sum that is not finite makes others of its square wrong: a product of panels computes the block again. */
static void winograd_task(const patches *all, const gemm *whole, const winograd *s, winograd_piece *task, float *sums) {
    winograd_view view = winograd_view_of(all, whole, s, task);
    const patches *const v = &view.v;
    gemm *const g = &view.g;
    const bool apart = s->phases > 1;
    const int64_t image = view.image, first = winograd_first(s, task->strip),
        rows = winograd_first(s, task->strip + 1) - first;
    const int64_t vectors = winograd_vectors(s, task->strip), tiles = gg_ceil_div(vectors, SHIFTED_V);
    const int64_t width = v->ax[0].out, height = gg_min(s->m * rows, v->ax[1].out - s->m * first);
    float *const room = sums + s->products * s->sums, *const taps = room + s->room, *const block = taps + g->k,
        *const plane = s->near ? block + s->transformed * s->kernels : taps;
    if (height < 1) return;                             /* the last phases may have a row less */
    pack_ahead ahead = winograd_ahead(g, winograd_first_channel(s, g->n, task->b0), s->each, v->c);
    for (int64_t q = 0; q < s->groups && !task->ready && !s->common; q++)
        winograd_group(&view, s, task, q, s->near ? &ahead : NULL, room);
    const patch_range in = winograd_inside(v, s);
    if (!task->ready) task->even = winograd_even(s, winograd_energies(s, task), rows, in.hi - in.lo);
    for (int64_t b = task->b0; b < task->b1; b++) {
        const int64_t j0 = winograd_first_channel(s, g->n, b), n = winograd_first_channel(s, g->n, b + 1) - j0;
        const float *const kernel = s->near ? block : s->kernel + j0 * v->c;
        char *const to = g->c + (size_t)image * v->to_n + (size_t)j0 * g->c_n + (size_t)(s->m * first) * v->to[1];
        bool good = task->even;
        for (int64_t j = 0; good && s->near && j < n; j++) s->transform(v, g, s, j0 + j, taps, block + j * v->c);
        ahead = winograd_ahead(g, j0 + n, s->each, s->products);
        for (int i = 0; good && i < s->products; i++) {
            if (s->near) pack_prefetch(&ahead);
            winograd_products(kernel + winograd_which(s, i) * s->kernels, task->input + i * s->input, v->c, n, vectors,
                              tiles, s->windows, sums + i * s->sums, s->plane);
        }
        for (int64_t j = 0; task->even && j < n; j++) {
            float *const y = apart ? plane : (float *)(to + (size_t)j * g->c_n);
            good &= WINOGRAD(winograd_output, s, s, sums + j * s->plane, rows, width, height, y);
            if (!apart) conv_finish(&v->tail, j0 + j, y, 0, 1, height * width);
            for (int64_t r = 0; apart && r < height; r++) {
                float *const row = (float *)(to + (size_t)j * g->c_n + (size_t)r * v->to[1]);
                conv_finish_for(&v->tail, j0 + j, row, y + r * width, 0, 1, width);
                patch_copy(y + r * width, width, row);
            }
        }
        if (good) continue;
        winograd_part p;
        winograd_part_make(v, g, image, 0, width, s->m * first, height, j0, n, &p);
        gemm_rows(&p.g, &p.tiling, 0, p.tiling.rows, room);
    }
}

static void winograd_transform(const patches *v, const gemm *g, const winograd *s, int64_t j, float *room, float *to) {
    WINOGRAD(winograd_kernel, s, v, g, s, j, room, to);
}
/* The largest side of the squares of positions that the node allows; 0: none. */
static inline int winograd_most(const conv_plan *p) {
    return p->dst->op == GGML_OP_CONV_2D ? gg_conv_squares(p->dst) : 0;
}
/* The strips and blocks do not depend on the number of threads, and so the result does not either. */
static CONV_ONCE bool winograd_fits(const conv_plan *p, void *part) {
    const patches *const v = &p->product.seen;
    const gemm *const g = &p->product.g;
    winograd *const s = part;
    const patch_axis *ax = v->ax;
    for (int i = 0; i < 2; i++)
        if (ax[i].taps != 3 || ax[i].stride != ax[0].stride || ax[i].out < 1) return false;
    if (ax[0].dilation != 1 || ax[1].dilation < 1 || (ax[1].dilation > 1 && ax[1].stride > 1)) return false;
    if (ax[1].dilation > ax[1].out) return false;
    if (ax[0].stride > 2 || ax[2].out != 1 || ax[2].taps != 1 || ax[2].base) return false;
    if (v->c < 1 || v->n < 1 || g->n < 1 || !gg_is_float(g->b.type) || v->to[0] != sizeof(float)
        || v->to[1] != sizeof(float) * (size_t)ax[0].out) return false;
    /* of the sums of all products, which tiles of few registers compute more slowly */
    const double sums = (SHIFTED_V == 2 ? 1.06 : 0.95) * 4.5;
    double least = sums * (double)(gg_ceil_div(ax[0].out * ax[1].out, VW) * v->n);
    bool found = false;
    for (int m = 2; m <= gg_min(winograd_most(p), ax[0].stride == 2 ? 2 : WINOGRAD_MOST); m += 2) {
        winograd one;
        const double cycles = winograd_squares(v, g, m, p->threads, &one);
        if (cycles > 0 && cycles < least) *s = one, least = cycles, found = true;
    }
    s->transform = winograd_transform, s->channel = winograd_input_channel, s->compute = winograd_task;
    if (found) winograd_share(s, s->strips * v->n * s->phases, v->c, p->threads);
    return found;
}

static size_t winograd_work(const conv_plan *p, const void *part) {
    const winograd *const s = part;
    const int64_t strips = s->common ? s->strips * p->product.seen.n * s->phases : 0;
    const int64_t kernel = s->near ? 0 : s->transformed * s->kernels;
    return (size_t)(kernel + strips * winograd_input_floats(s)) * sizeof(float);
}
/* Transforms this thread's share of the input. */
static void winograd_prepare(const gg_work *w, const patches *v, const gemm *g, const winograd *s, winograd_piece task,
                             float *lines) {
    const int64_t units = task.strips * task.images * s->groups;
    for (int64_t u = units * w->ith / w->nth; u < units * (w->ith + 1) / w->nth; u++) {
        winograd_at(&task, u / s->groups);
        const winograd_view x = winograd_view_of(v, g, s, &task);
        winograd_group(&x, s, &task, u % s->groups, NULL, lines);
    }
}
/* Computes what gemm_run would. */
static int winograd_run(const gg_work *w, const conv_plan *plan, const void *part) {
    const patches *const v = &plan->product.seen;
    const gemm *const g = &plan->product.g;
    winograd own = *(const winograd *)part, *const s = &own;
    winograd_part most;
    winograd_part_make(v, g, 0, 0, s->width, 0, s->height, 0, gg_min(s->each, g->n), &most);
    const int64_t room = gg_max(s->lines, gemm_scratch_floats(&most.g, &most.tiling));
    const int64_t plane = s->phases > 1 ? s->width * s->height : 0;
    const int64_t block = s->near ? g->k + s->transformed * s->kernels : 0;
    const int64_t input = s->common ? 0 : winograd_input_floats(s);
    const int64_t floats = input + s->products * s->sums + room + s->packed + block + plane;
    const int64_t depth = v->c * s->taps;
    float *const x = gg_scratch((size_t)floats * sizeof *x);
    for (int64_t j = g->n * w->ith / w->nth; x && !s->near && j < g->n * (w->ith + 1) / w->nth; j++)
        s->transform(v, g, s, j, x, (float *)w->wdata + j * depth);
    s->kernel = w->wdata, s->room = room;
    winograd_piece task = winograd_pieces(w, s->strips, v->n * s->phases, s->blocks);
    task.first = s->common ? (float *)w->wdata + (s->near ? 0 : s->transformed * s->kernels) : x;
    task.next = s->common ? winograd_input_floats(s) : 0;
    if (x && s->common) winograd_prepare(w, v, g, s, task, x);
    if (!s->near || s->common) gg_barrier(w);
    if (!x) return conv_memory(plan->dst);
    while (winograd_claim(w, &task)) s->compute(v, g, s, &task, x + input);
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_winograd = {
    .bytes = sizeof(winograd), .fits = winograd_fits, .work = winograd_work, .run = winograd_run,
};

#endif
