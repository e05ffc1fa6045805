/* Copies between strided boxes of memory, with or without conversion: what the shape, pad, window, index, triangular
 * and resize families use. A box lists dimensions with a stride on each side. box_plan sorts them by the stride of the
 * destination, merges contiguous dimensions, and splits the box into two-dimensional tiles (x: the inner dimension of
 * the destination, y: that of the source if it is another one), so that both sides are accessed by whole cache lines.
 * Tiles are independent, and threads share them. */
#ifndef GG_OPS_COPY_H
#define GG_OPS_COPY_H
#include "../vec/vec.h"
#include "row_index.h"

enum { BOX_DIMS = 8, TILE_BYTES = 1 << 16, TILE_SIDE = 128, TILE_ELEMS = 2048, GRAIN_BYTES = 1 << 14 };

typedef void (*cast_fn)(const void *x, void *y, int64_t n);

typedef struct box {
    int nd;
    int64_t n[BOX_DIMS], step[BOX_DIMS];       /* extents, and extents of a tile (1 from dimension 2 on) */
    ptrdiff_t d[BOX_DIMS], s[BOX_DIMS];        /* strides in bytes; of dimension 0: per unit */
    char *dst;
    const char *src;                           /* NULL: zeros are written */
    /* elements of a unit: 1, or the block of a quantised type that is converted */
    int db, sb;
    ptrdiff_t du, su;                          /* bytes of a unit */
    bool convert;
    cast_fn cast, in, out;                     /* plain to plain, plain to f32, f32 to plain */
    gg_to_f32_fn load;                         /* half or quantised to f32, and back */
    gg_from_f32_fn store;
    int64_t tiles;
} box;

/* ---- conversions of packed rows ---------------------------------------------------------------------------------- */
/* Float to integer: truncates and saturates, NaN gives 0. Integer to integer: modulo 2^bits, as in C. */
#define SATURATE(F, I, lo, hi)                                                                                     \
    static inline I F##_to_##I(F x) { return x >= -(F)lo ? hi : x < (F)lo ? lo : x == x ? (I)x : 0; }
SATURATE(float, int8_t, INT8_MIN, INT8_MAX)
SATURATE(float, int16_t, INT16_MIN, INT16_MAX)
SATURATE(float, int32_t, INT32_MIN, INT32_MAX)
SATURATE(float, int64_t, INT64_MIN, INT64_MAX)
SATURATE(double, int8_t, INT8_MIN, INT8_MAX)
SATURATE(double, int16_t, INT16_MIN, INT16_MAX)
SATURATE(double, int32_t, INT32_MIN, INT32_MAX)
SATURATE(double, int64_t, INT64_MIN, INT64_MAX)
#undef SATURATE

#define CAST(X, Y, expr)                                                                                           \
    static void cast_##X##_##Y(const void *vx, void *vy, int64_t n) {                                              \
        const X *x = vx;                                                                                           \
        Y *y = vy;                                                                                                 \
        for (int64_t i = 0; i < n; i++) y[i] = expr;                                                               \
    }
#define PLAIN(X, Y) CAST(X, Y, (Y)x[i])
#define TRUNC(X, Y) CAST(X, Y, X##_to_##Y(x[i]))
#define FROM_FLOAT(X, Y) PLAIN(X, Y) TRUNC(X, int8_t) TRUNC(X, int16_t) TRUNC(X, int64_t)
#define FROM_INT(X, A, B, C) PLAIN(X, float) PLAIN(X, double) PLAIN(X, A) PLAIN(X, B) PLAIN(X, C)
FROM_FLOAT(float, double)
FROM_FLOAT(double, float) TRUNC(double, int32_t)
FROM_INT(int8_t, int16_t, int32_t, int64_t)
FROM_INT(int16_t, int8_t, int32_t, int64_t)
FROM_INT(int32_t, int8_t, int16_t, int64_t)
FROM_INT(int64_t, int8_t, int16_t, int32_t)
#undef FROM_INT
#undef FROM_FLOAT
#undef TRUNC
#undef PLAIN
#undef CAST
/* The most frequent conversion, vectorised. */
static void cast_float_int32_t(const void *vx, void *vy, int64_t n) {
    const float *x = vx;
    int32_t *y = vy;
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        const vf v = vf_load(x + i);
        const vi whole = vi_select(vf_ge(v, vf_set1(0x1p31f)), vi_set1(INT32_MAX), vf_to_vi(vf_trunc(v)));
        vi_store(y + i, vi_select(vf_isnan(v), vi_set1(0), whole));
    }
    for (; i < n; i++) y[i] = float_to_int32_t(x[i]);
}

#define ROW(X, A, B, C, D, E) {cast_##X##_##A, cast_##X##_##B, cast_##X##_##C, cast_##X##_##D, cast_##X##_##E}
/* [from][to]; the type itself is left out of its row */
static const cast_fn casts[6][5] = {
    ROW(float, double, int8_t, int16_t, int32_t, int64_t),   ROW(double, float, int8_t, int16_t, int32_t, int64_t),
    ROW(int8_t, float, double, int16_t, int32_t, int64_t),   ROW(int16_t, float, double, int8_t, int32_t, int64_t),
    ROW(int32_t, float, double, int8_t, int16_t, int64_t),   ROW(int64_t, float, double, int8_t, int16_t, int32_t),
};
#undef ROW

static int plain_index(int type) {             /* -1: converts through f32 only */
    switch (type) {
    case GGML_TYPE_F32: return 0;
    case GGML_TYPE_F64: return 1;
    case GGML_TYPE_I8: return 2;
    case GGML_TYPE_I16: return 3;
    case GGML_TYPE_I32: return 4;
    case GGML_TYPE_I64: return 5;
    default: return -1;
    }
}
static cast_fn cast_of(int from, int to) {     /* NULL: equal, or not both plain */
    const int i = plain_index(from), j = plain_index(to);
    return i < 0 || j < 0 || i == j ? NULL : casts[i][j < i ? j : j - 1];
}

static void convert_row(const box *b, const char *x, char *y, int64_t n) {
    if (b->cast) { b->cast(x, y, n); return; }
    if (b->load && !b->store && !b->out) { b->load(x, (float *)y, n); return; }
    if (b->store && !b->load && !b->in) { b->store((const float *)x, y, n); return; }
    float f[256];
    for (int64_t i = 0; i < n; i += 256) {
        const int64_t m = gg_min(256, n - i);
        const char *xi = x + i / b->sb * b->su;
        char *yi = y + i / b->db * b->du;
        if (b->load) b->load(xi, f, m); else b->in(xi, f, m);
        if (b->store) b->store(f, yi, m); else b->out(f, yi, m);
    }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */
/* Copies N to 2 N bytes as two pieces, which may overlap. */
#define TWO_PIECES(N) \
    if (n >= N) { \
        char a[N], b[N]; \
        memcpy(a, s, N), memcpy(b, s + n - N, N); \
        memcpy(d, a, N), memcpy(d + n - N, b, N); \
        return; \
    }
/* Rows may be short: calling memcpy would cost more than the copy. */
static inline void copy_run(char *d, const char *s, size_t n) {
    if (n > 512) { memcpy(d, s, n); return; }
    for (; n > 64; n -= 64, d += 64, s += 64) memcpy(d, s, 64);
    TWO_PIECES(32) TWO_PIECES(16) TWO_PIECES(8) TWO_PIECES(4)
    for (size_t i = 0; i < n; i++) d[i] = s[i];
}
#undef TWO_PIECES

/* Units of 1, 2, 4 or 8 bytes. A transposing tile uses a small square buffer: each source line is read once and each
 * destination line is written once, completely, because strides of a power of two evict cache lines early. */
#define STRIDED(T)                                                                                                    \
    static inline void strided_##T(char *dst, ptrdiff_t dx, ptrdiff_t dy, const char *src, ptrdiff_t sx, ptrdiff_t sy,\
                                   int64_t nx, int64_t ny) {                                                          \
        for (int64_t y = 0; y < ny; y++, dst += dy, src += sy) {                                                      \
            if (sx == 0 && dx == sizeof(T)) {                                                                         \
                T v;                                                                                                  \
                memcpy(&v, src, sizeof v);                                                                            \
                for (int64_t x = 0; x < nx; x++) memcpy(dst + x * (ptrdiff_t)sizeof v, &v, sizeof v);                 \
            } else {                                                                                                  \
                for (int64_t x = 0; x < nx; x++) memcpy(dst + x * dx, src + x * sx, sizeof(T));                       \
            }                                                                                                         \
        }                                                                                                             \
    }
STRIDED(uint8_t)
STRIDED(uint16_t)
STRIDED(uint32_t)
STRIDED(uint64_t)
#undef STRIDED
/* The square of the first nx, ny <= N elements of N lines. */
#define SQUARE(T, N)                                                                                                  \
    static inline void square_##T(char *dst, ptrdiff_t dy, const char *src, ptrdiff_t sx, int64_t nx, int64_t ny) {   \
        T in[N][N], out[N];                                                                                           \
        if (nx < N || ny < N) {                                                                                       \
            strided_##T(dst, sizeof(T), dy, src, sx, sizeof(T), nx, ny);                                              \
            return;                                                                                                   \
        }                                                                                                             \
        for (int x = 0; x < N; x++) memcpy(in[x], src + x * sx, sizeof in[x]);                                        \
        for (int y = 0; y < N; y++) {                                                                                 \
            for (int x = 0; x < N; x++) out[x] = in[x][y];                                                            \
            memcpy(dst + y * dy, out, sizeof out);                                                                    \
        }                                                                                                             \
    }
SQUARE(uint8_t, 64)
SQUARE(uint16_t, 32)
SQUARE(uint64_t, 8)
#undef SQUARE
enum { WORDS = 16, WORDS_LEAST = 8 };         /* fewer elements along x or y are copied one by one */
static inline void square_uint32_t(char *dst, ptrdiff_t dy, const char *src, ptrdiff_t sx, int64_t nx, int64_t ny) {
    float in[WORDS][WORDS];
    if (nx < WORDS_LEAST || ny < WORDS_LEAST) {
        strided_uint32_t(dst, sizeof(uint32_t), dy, src, sx, sizeof(uint32_t), nx, ny);
        return;
    }
    for (int64_t x = 0; x < nx; x++, src += sx)
        if (ny == WORDS) memcpy(in[x], src, sizeof in[x]);
        else copy_run((char *)in[x], src, (size_t)ny * sizeof in[x][0]);
    for (int64_t y = 0; y < ny; y += 4) {
        vf out[WORDS / VW][4];
        GG_UNROLL for (int g = 0; g < WORDS / VW; g++) {
            const float *row[VW];
            GG_UNROLL for (int i = 0; i < VW; i++) row[i] = in[g * VW + i];
            vf_transpose4(row, y, out[g]);
        }
        GG_UNROLL for (int j = 0; j < 4; j++, dst += dy)
            GG_UNROLL for (int g = 0; g < WORDS / VW; g++) {
                float *const to = (float *)(void *)dst + g * VW;
                if (y + j < ny && nx - g * VW >= VW) vf_store(to, out[g][j]);
                else if (y + j < ny && nx > g * VW) vf_storen(to, out[g][j], (int)(nx - g * VW));
            }
    }
}
/* Pixels of three elements: each becomes one element of three lines, or the other way round. */
static void split_pixels(float *to, ptrdiff_t dy, const float *restrict from, int64_t n) {
    float *restrict a = to, *restrict b = a + dy, *restrict c = b + dy;
    for (int64_t i = 0; i < n; i++) a[i] = from[3 * i], b[i] = from[3 * i + 1], c[i] = from[3 * i + 2];
}
static void join_pixels(float *restrict to, const float *from, ptrdiff_t sx, int64_t n) {
    const float *const a = from, *const b = a + sx, *const c = b + sx;
    for (int64_t i = 0; i < n; i++) to[3 * i] = a[i], to[3 * i + 1] = b[i], to[3 * i + 2] = c[i];
}
/* Whether that moves a tile; false: it has no pixels. */
static bool move_pixels(char *dst, ptrdiff_t dx, ptrdiff_t dy, const char *src, ptrdiff_t sx, ptrdiff_t sy, int64_t nx,
                        int64_t ny) {
    const ptrdiff_t size = sizeof(float);
    float *const to = (float *)(void *)dst;
    const float *const from = (const float *)(const void *)src;
    if (dx != size || sy != size) return false;
    if (ny == 3 && sx == 3 * size && dy % size == 0) split_pixels(to, dy / size, from, nx);
    else if (nx == 3 && dy == 3 * size && sx % size == 0) join_pixels(to, from, sx / size, ny);
    else return false;
    return true;
}
#define MOVE(T, N)                                                                                                    \
    static void transpose_##T(char *dst, ptrdiff_t dy, const char *src, ptrdiff_t sx, int64_t nx, int64_t ny) {       \
        for (int64_t y = 0; y < ny; y += N)                                                                           \
            for (int64_t x = 0; x < nx; x += N)                                                                       \
                square_##T(dst + y * dy + x * (ptrdiff_t)sizeof(T), dy, src + x * sx + y * (ptrdiff_t)sizeof(T), sx,  \
                           gg_min(N, nx - x), gg_min(N, ny - y));                                                     \
    }                                                                                                                 \
    static void move_##T(char *dst, ptrdiff_t dx, ptrdiff_t dy, const char *src, ptrdiff_t sx, ptrdiff_t sy,          \
                         int64_t nx, int64_t ny) {                                                                    \
        if (dx == sizeof(T) && sy == sizeof(T) && sx) transpose_##T(dst, dy, src, sx, nx, ny);                        \
        else if (sx == sizeof(T) && dy == sizeof(T)) transpose_##T(dst, dx, src, sy, ny, nx);                         \
        else strided_##T(dst, dx, dy, src, sx, sy, nx, ny);                                                           \
    }
MOVE(uint8_t, 64)
MOVE(uint16_t, 32)
MOVE(uint32_t, WORDS)
MOVE(uint64_t, 8)
#undef MOVE

static void tile_move(char *dst, ptrdiff_t dx, ptrdiff_t dy, const char *src, ptrdiff_t sx, ptrdiff_t sy,
                      int64_t nx, int64_t ny, ptrdiff_t unit) {
    if (dx == unit && (sx == unit || nx == 1)) {
        for (int64_t y = 0; y < ny; y++) copy_run(dst + y * dy, src + y * sy, (size_t)(nx * unit));
        return;
    }
    switch (unit) {
    case 1: move_uint8_t(dst, dx, dy, src, sx, sy, nx, ny); return;
    case 2: move_uint16_t(dst, dx, dy, src, sx, sy, nx, ny); return;
    case 4:
        if (!move_pixels(dst, dx, dy, src, sx, sy, nx, ny)) move_uint32_t(dst, dx, dy, src, sx, sy, nx, ny);
        return;
    case 8: move_uint64_t(dst, dx, dy, src, sx, sy, nx, ny); return;
    default:
        for (int64_t y = 0; y < ny; y++)
            for (int64_t x = 0; x < nx; x++) memcpy(dst + x * dx + y * dy, src + x * sx + y * sy, (size_t)unit);
    }
}
static void tile_zero(char *dst, ptrdiff_t dx, ptrdiff_t dy, int64_t nx, int64_t ny, ptrdiff_t unit) {
    for (int64_t y = 0; y < ny; y++)
        if (dx == unit) memset(dst + y * dy, 0, (size_t)(nx * unit));
        else for (int64_t x = 0; x < nx; x++) memset(dst + x * dx + y * dy, 0, (size_t)unit);
}
/* Rows that are strided on either side go through a contiguous copy of the tile. */
static void tile_convert(const box *b, char *dst, const char *src, int64_t nx, int64_t ny) {
    _Alignas(64) char in[TILE_ELEMS * 8], out[TILE_ELEMS * 8];
    const bool gather = b->s[0] != b->su, scatter = b->d[0] != b->du;
    const int64_t sn = nx / b->sb, dn = nx / b->db;
    const ptrdiff_t sy = gather ? sn * b->su : b->s[1], dy = scatter ? dn * b->du : b->d[1];
    if (gather) tile_move(in, b->su, sy, src, b->s[0], b->s[1], sn, ny, b->su);
    const char *s = gather ? in : src;
    char *d = scatter ? out : dst;
    for (int64_t y = 0; y < ny; y++) convert_row(b, s + y * sy, d + y * dy, nx);
    if (scatter) tile_move(dst, b->d[0], b->d[1], out, b->du, dy, dn, ny, b->du);
}
static void box_tile(const box *b, char *dst, const char *src, int64_t nx, int64_t ny) {
    if (!src) tile_zero(dst, b->d[0], b->d[1], nx, ny, b->du);
    else if (b->convert) tile_convert(b, dst, src, nx, ny);
    else tile_move(dst, b->d[0], b->d[1], src, b->s[0], b->s[1], nx, ny, b->du);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */
/* Starts a box from one type to another; false: there is no conversion. Without conversion, dimension 0 counts
 * blocks. */
static bool box_types(const gg_kernels *k, box *b, int to, int from) {
    const gg_type_info *t = &gg_types[to], *f = &gg_types[from];
    *b = (box){.db = 1, .sb = 1, .du = t->bytes, .su = f->bytes, .convert = to != from};
    if (!b->convert) return true;
    b->db = t->blck, b->sb = f->blck;
    if ((b->cast = cast_of(from, to))) return true;
    b->in = cast_of(from, GGML_TYPE_F32), b->out = cast_of(GGML_TYPE_F32, to);
    if (plain_index(from) < 0 && !(b->load = k->to_f32[from])) return false;
    if (plain_index(to) < 0 && !(b->store = k->from_f32[to])) return false;
    return true;
}
static inline void box_dim(box *b, int64_t n, ptrdiff_t d, ptrdiff_t s) {
    b->n[b->nd] = n, b->d[b->nd] = d, b->s[b->nd++] = s;
}
/* Whether dimension 0 must stay the inner one. */
static inline bool box_blocks(const box *b) { return b->db > 1 || b->sb > 1; }

static void box_swap(box *b, int i, int j) {
    const int64_t n = b->n[i];
    const ptrdiff_t d = b->d[i], s = b->s[i];
    b->n[i] = b->n[j], b->d[i] = b->d[j], b->s[i] = b->s[j];
    b->n[j] = n, b->d[j] = d, b->s[j] = s;
}
static void box_merge(box *b) {
    int last = -1;
    for (int i = 0; i < b->nd; i++) {
        if (b->n[i] == 1 && !(i == 0 && box_blocks(b))) continue;
        if (last >= 0) {
            const int64_t dn = b->n[last] / (last ? 1 : b->db), sn = b->n[last] / (last ? 1 : b->sb);
            if (b->d[i] == b->d[last] * dn && b->s[i] == b->s[last] * sn) { b->n[last] *= b->n[i]; continue; }
        }
        last++;
        b->n[last] = b->n[i], b->d[last] = b->d[i], b->s[last] = b->s[i];
    }
    b->nd = last + 1;
    for (; b->nd < 2; b->nd++) {
        const bool first = b->nd == 0;
        b->n[b->nd] = 1, b->d[b->nd] = first ? b->du : 0, b->s[b->nd] = first ? b->su : 0;
    }
}
/* The extents of a tile along x and y, for contiguous and for strided rows. */
static void box_steps(box *b) {
    const bool packed = b->d[0] == b->du && b->s[0] == b->su;
    int64_t all = TILE_ELEMS, x = b->convert ? (packed ? TILE_ELEMS : box_blocks(b) ? 256 : 64) : TILE_SIDE;
    if (!b->convert) all = packed || !b->src ? (x = TILE_BYTES / b->du) : TILE_SIDE * TILE_SIDE;
    if (x < 1) all = x = 1;
    b->step[0] = gg_min(b->n[0], x);
    b->step[1] = gg_min(b->n[1], all / b->step[0] ? all / b->step[0] : 1);
    for (int i = 2; i < BOX_DIMS; i++) b->step[i] = 1;
}
static void box_plan(box *b) {
    b->tiles = 0;
    for (int i = 0; i < b->nd; i++)
        if (b->n[i] < 1) return;
    for (int i = box_blocks(b) ? 2 : 1; i < b->nd; i++)
        for (int j = i; j > (box_blocks(b) ? 1 : 0) && b->d[j] < b->d[j - 1]; j--) box_swap(b, j, j - 1);
    box_merge(b);
    /* y: the dimension in which the other side is contiguous, if that is not x */
    for (int i = 2; i < b->nd; i++) {
        if (b->s[0] != b->su && b->s[i] < b->s[1]) box_swap(b, 1, i);
        else if (b->d[0] != b->du && b->d[i] < b->d[1]) box_swap(b, 1, i);
    }
    box_steps(b);
    b->tiles = 1;
    for (int i = 0; i < b->nd; i++) b->tiles *= gg_ceil_div(b->n[i], b->step[i]);
}
static void box_tiles(const box *b, int64_t t0, int64_t t1) {
    int64_t i[BOX_DIMS], t = t0;
    for (int k = 0; k < b->nd; k++) {
        const int64_t count = gg_ceil_div(b->n[k], b->step[k]);
        i[k] = t % count * b->step[k], t /= count;
    }
    for (t = t0; t < t1; t++) {
        ptrdiff_t d = i[0] / b->db * b->d[0], s = i[0] / b->sb * b->s[0];
        for (int k = 1; k < b->nd; k++) d += i[k] * b->d[k], s += i[k] * b->s[k];
        const int64_t nx = gg_min(b->step[0], b->n[0] - i[0]), ny = gg_min(b->step[1], b->n[1] - i[1]);
        box_tile(b, b->dst + d, b->src ? b->src + s : NULL, nx, ny);
        for (int k = 0; k < b->nd && (i[k] += b->step[k]) >= b->n[k]; k++) i[k] = 0;
    }
}
/* Copies tiles [t0, t1), counted over all boxes. */
static void boxes_tiles(const box *b, int n, int64_t t0, int64_t t1) {
    for (int i = 0; i < n && t1 > 0; t0 -= b[i].tiles, t1 -= b[i].tiles, i++)
        if (t0 < b[i].tiles) box_tiles(&b[i], t0 > 0 ? t0 : 0, gg_min(t1, b[i].tiles));
}
static int64_t boxes_count(const box *b, int n) {
    int64_t total = 0;
    for (int i = 0; i < n; i++) total += b[i].tiles;
    return total;
}
/* Copies planned boxes; the threads share the tiles. */
static void boxes_run(const gg_work *w, const box *b, int n) {
    const int64_t total = boxes_count(b, n);
    int64_t t0, t1, bytes = 0;
    for (int i = 0; i < n; i++) bytes += b[i].tiles * (b[i].step[0] * b[i].step[1] / b[i].db * b[i].du);
    const int64_t grain = total ? GRAIN_BYTES / (bytes / total + 1) + 1 : 1;
    while (gg_claim_chunk(w, total, grain, &t0, &t1)) boxes_tiles(b, n, t0, t1);
}

/* ---- rows: for operations that go row by row --------------------------------------------------------------------- */
/* Prepares rows of n elements, dx and sx bytes apart (blocks, for a quantised type); false: no conversion. */
static bool row_box(const gg_kernels *k, box *b, int to, ptrdiff_t dx, int from, ptrdiff_t sx, int64_t n) {
    static const char any;
    if (!box_types(k, b, to, from)) return false;
    const int blck = b->convert ? 1 : gg_types[to].blck;
    b->src = &any;
    box_dim(b, n / blck, dx, sx);
    box_dim(b, 1, 0, 0);
    if (n) box_steps(b);
    return true;
}
/* Advances n rows, at most to the end of dimension 1. */
static inline void row_step(const ggml_tensor *t, row_index *at, int64_t n) {
    if ((at->i1 += n) < t->ne[1]) return;
    at->i1 = 0;
    if (++at->i2 == t->ne[2]) at->i2 = 0, at->i3++;
}
/* Copies n elements, or blocks of a quantised type that is not converted; both sides are contiguous. */
static inline void packed_copy(const box *b, char *dst, const char *src, int64_t n) {
    if (b->convert) convert_row(b, src, dst, n); else copy_run(dst, src, (size_t)(n * b->du));
}
static inline void row_copy(const box *b, char *dst, const char *src, int64_t n) {
    if (b->d[0] == b->du && b->s[0] == b->su) { packed_copy(b, dst, src, n); return; }
    for (int64_t x = 0; x < n; x += b->step[0])
        box_tile(b, dst + x / b->db * b->d[0], src + x / b->sb * b->s[0], gg_min(b->step[0], n - x), 1);
}

/* Copies `count` rows of n elements, dy and sy bytes apart. */
static inline void rows_copy(const box *b, char *dst, ptrdiff_t dy, const char *src, ptrdiff_t sy, int64_t n,
                             int64_t count) {
    if (b->d[0] == b->du && b->s[0] == b->su && !b->convert)
        for (; count > 0; count--, dst += dy, src += sy) copy_run(dst, src, (size_t)(n * b->du));
    else
        for (; count > 0; count--, dst += dy, src += sy) row_copy(b, dst, src, n);
}

/* Adds n elements of x to f32 elements dx bytes apart. */
static void run_add(char *d, ptrdiff_t dx, const float *x, int64_t n) {
    if (dx != sizeof(float)) {
        for (int64_t i = 0; i < n; i++) *(float *)(d + i * dx) += x[i];
        return;
    }
    float *y = (float *)d;
    int64_t i = 0;
    for (; i + VW <= n; i += VW) vf_store(y + i, vf_add(vf_load(y + i), vf_load(x + i)));
    for (; i < n; i++) y[i] += x[i];
}
/* Adds a row of n elements, which b (a row box to f32) converts, to f32 elements dx bytes apart. */
static void row_add(const box *b, char *d, ptrdiff_t dx, const char *src, int64_t n) {
    if (!b->convert && b->s[0] == sizeof(float)) { run_add(d, dx, (const float *)src, n); return; }
    float tmp[256];
    for (int64_t i = 0; i < n; i += 256) {
        const int64_t m = gg_min(256, n - i);
        row_copy(b, (char *)tmp, src + i * b->s[0], m);
        run_add(d + i * dx, dx, tmp, m);
    }
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */
/* Splits dimensions first to 3 of two tensors into common dimensions; false: that is impossible. */
static bool box_refine(box *b, const ggml_tensor *dst, const ggml_tensor *src, int first, int blck) {
    box t = {.nd = 0}, f = {.nd = 0};
    for (int i = first; i < 4; i++) {
        box_dim(&t, i ? dst->ne[i] : dst->ne[0] / blck, (ptrdiff_t)dst->nb[i], (ptrdiff_t)dst->nb[i]);
        box_dim(&f, i ? src->ne[i] : src->ne[0] / blck, (ptrdiff_t)src->nb[i], (ptrdiff_t)src->nb[i]);
    }
    t.db = t.sb = f.db = f.sb = 1;
    box_merge(&t), box_merge(&f);
    int i = 0, j = 0;
    while (i < t.nd && j < f.nd) {
        const int64_t n = gg_min(t.n[i], f.n[j]);
        if (t.n[i] % n || f.n[j] % n) return false;
        if (n > 1) box_dim(b, n, t.d[i], f.s[j]);
        t.d[i] *= n, f.s[j] *= n;
        if ((t.n[i] /= n) == 1) i++;
        if ((f.n[j] /= n) == 1) j++;
    }
    return true;
}
/* Copies elements in the order of each tensor, run by run: for shapes without common dimensions. */
static int walk(const gg_work *w, ggml_tensor *dst, const ggml_tensor *src) {
    box b;
    const int blck = gg_types[dst->type].blck;
    const bool rows = blck > 1 || gg_types[src->type].blck > 1;   /* rows of equal length are copied whole */
    const int64_t unit = rows ? dst->ne[0] : 1;
    int64_t i0, i1;
    row_box(w->kernels, &b, dst->type, (ptrdiff_t)dst->nb[0], src->type, (ptrdiff_t)src->nb[0],
            rows ? unit : TILE_ELEMS);
    while (gg_claim_chunk(w, gg_nelements(dst) / unit, rows ? 1 : TILE_ELEMS, &i0, &i1)) {
        for (int64_t e = i0 * unit, n = 0; e < i1 * unit; e += n) {
            size_t d = 0, s = 0;
            for (int64_t k = 0, di = e, si = e; k < 4; di /= dst->ne[k], si /= src->ne[k], k++) {
                const int64_t dk = di % dst->ne[k], sk = si % src->ne[k];
                if (k == 0) n = gg_min(gg_min(dst->ne[0] - dk, src->ne[0] - sk), i1 * unit - e);
                d += (size_t)dk * dst->nb[k], s += (size_t)sk * src->nb[k];
            }
            row_copy(&b, (char *)dst->data + d, (const char *)src->data + s, b.convert ? n : n / blck);
        }
    }
    return GGML_STATUS_SUCCESS;
}
static int no_conversion(const ggml_tensor *dst, int from, int to) {
    return gg_fail(dst, "no conversion from %s to %s", gg_types[from].name, gg_types[to].name);
}
/* Copies src to dst, element by element in the order of each: any strides, shapes and types. */
static int copy_tensor(const gg_work *w, ggml_tensor *dst, const ggml_tensor *src) {
    box b;
    if (!box_types(w->kernels, &b, dst->type, src->type)) return no_conversion(dst, src->type, dst->type);
    b.dst = dst->data, b.src = src->data;
    const int blck = b.convert ? 1 : gg_types[dst->type].blck;
    bool cut = true;
    if (gg_contiguous(dst) && gg_contiguous(src)) {
        const int64_t unit = b.db > b.sb ? b.db : b.sb;          /* blocks of one are whole blocks of the other */
        const ptrdiff_t du = unit / b.db * b.du, su = unit / b.sb * b.su;
        for (int64_t i0, i1; gg_claim_chunk(w, gg_nelements(dst) / (unit * blck), GRAIN_BYTES / du + 1, &i0, &i1);)
            packed_copy(&b, b.dst + i0 * du, b.src + i0 * su, (i1 - i0) * unit);
        return GGML_STATUS_SUCCESS;
    }
    if (!box_blocks(&b)) {
        cut = box_refine(&b, dst, src, 0, blck);
    } else {
        box_dim(&b, dst->ne[0], (ptrdiff_t)dst->nb[0], (ptrdiff_t)src->nb[0]);
        cut = box_refine(&b, dst, src, 1, 1);
    }
    if (!cut) return walk(w, dst, src);
    box_plan(&b);
    boxes_run(w, &b, 1);
    return GGML_STATUS_SUCCESS;
}

#endif
