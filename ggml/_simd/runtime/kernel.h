/* What a kernel sees, and the table of kernels that each ISA exports. */
#ifndef GG_KERNEL_H
#define GG_KERNEL_H
#include "engine.h"
#include <stdatomic.h>

struct gg_team;   /* the threads of one compute call (compute.c) */
struct gg_chain;  /* nodes that are computed together (chain.h) */

typedef struct gg_kernels gg_kernels;

/* What was decided about a node before it is computed: the first part of what plan[op] of the kernels made. */
typedef struct gg_node_plan {
    const char *algorithm;          /* its name (tables/conv.h) */
    size_t work;                    /* bytes of work memory that the threads share */
} gg_node_plan;

typedef struct gg_work {
    const gg_kernels *kernels;      /* the table that this compute call uses: kernels call others through it */
    int ith, nth;                   /* thread ith of the nth threads of this node; the team may have more */
    void *wdata;                    /* shared by the threads of the node, 64-byte aligned */
    size_t wsize;                   /* bytes, at least what the work function of the operation returned */
    struct gg_team *team;
    const ggml_tensor *node;        /* a copy of the last node (gg_call), for operations with a callback */
    const gg_node_plan *plan;       /* of this node, if its operation has a function plan; else NULL */
    int n_threads;                  /* that the caller asked for */
    _Atomic int64_t *chunk;         /* of this node, 0 at the start: see gg_claim_chunk */
    bool packed;                    /* wdata already holds the second operand, packed by an earlier product */
    bool down;                      /* threads claim their last pieces first, which the last node left in the cache */
    const char *next;               /* what this thread reads first of the next matrix that is multiplied by a few
                                     * vectors: it is prefetched at the end of this one; or NULL */
    const struct gg_chain *chain;   /* that the step computes; NULL: a single node */
} gg_work;

/* Computes a node; returns a ggml_status. gg_fail says why it failed. */
typedef int (*gg_op_fn)(const gg_work *w, ggml_tensor *dst);
typedef size_t (*gg_work_fn)(const ggml_tensor *dst, int nth);
/* Chooses how nth threads or fewer compute a node that was checked. The plan is freed by free(); NULL: no memory. It is
 * made once for many computations of the node, whose fields do not change. */
typedef gg_node_plan *(*gg_plan_fn)(const gg_kernels *k, ggml_tensor *dst, int nth);
/* The pieces (gg_claim_piece) in which nth threads read the first source, one matrix; n = 0: they read it otherwise. */
typedef struct gg_pieces {
    int64_t n;
    size_t bytes;
} gg_pieces;
typedef gg_pieces (*gg_pieces_fn)(const gg_kernels *k, const ggml_tensor *dst, int nth);

/* An algorithm of convolutions, a row of tables/conv.h. Its file in ops/conv/ defines it as conv_<name>. */
struct conv_plan;                   /* ops/conv/plan.h */
typedef struct gg_algorithm {
    size_t bytes;                   /* of its own part of a plan */
    /* Whether it computes the convolution, in less time than the rows below it; fills in its part of the plan. */
    bool (*fits)(const struct conv_plan *p, void *part);
    size_t (*work)(const struct conv_plan *p, const void *part);    /* bytes of shared work memory; NULL: none */
    int (*run)(const gg_work *w, const struct conv_plan *p, const void *part);
    bool by_values;                 /* depends on the values of the data too: run may call conv_otherwise */
} gg_algorithm;
enum {
#define ALGORITHM(name, computes, family) GG_ALGORITHM_##name,
#include "../tables/conv.h"
#undef ALGORITHM
    GG_ALGORITHMS
};

/* Computes n contiguous elements of f32: p[0] is the result, the others are the operands. stream: the result begins at
 * a whole vector and is stored past the caches. params: op_params of the node. */
typedef void (*gg_tile_fn)(float *const *p, int64_t n, bool stream, const void *params);
/* Computes the row of a node with indices i1 and i2: p[0] is the result, p[k + 1] the row of source k, or NULL. */
typedef void (*gg_row_fn)(const ggml_tensor *node, float *const *p, int64_t i1, int64_t i2);
/* The same for several rows, which lie beside each other in each operand. */
typedef void (*gg_rows_fn)(const ggml_tensor *node, float *const *p, int64_t rows);
/* What computes row r of a node's result from row r of its operands: `tile` any part of the row, `row` all of it,
 * `rows` any number of rows, wherever they are in the tensor. At most one of them is set. Operands are f32; `row` may
 * make exceptions (bit k: source k). */
typedef struct gg_row_kernel {
    gg_tile_fn tile;
    gg_row_fn row;
    gg_rows_fn rows;
    uint8_t f16;                    /* the row is one of f16 */
    uint8_t by_node;                /* it reads elements of the source by itself: any shape */
} gg_row_kernel;
typedef gg_row_kernel (*gg_row_kernel_fn)(const ggml_tensor *node);

/* Conversions of n elements (n a multiple of the type's block) between a packed row of a type and f32. */
typedef void (*gg_to_f32_fn)(const void *x, float *y, int64_t n);
typedef void (*gg_from_f32_fn)(const float *x, void *y, int64_t n);
/* As from_f32, one whole row, with an importance weight for each element (NULL: none) and the slower searches. */
typedef void (*gg_quantize_fn)(const float *x, void *y, int64_t n, const float *im);
/* s[r] = sum(x_r[i] * y[i]) for r < rows <= GG_DOT_ROWS: x_r is a packed row of the type at x + r * nb, y one
 * of its activation type (gg_types), in the activation layout if that type is quantised. s[r] does not depend on other
 * rows. Types that are quantised prefetch as many bytes as the rows have from `ahead` on. */
typedef void (*gg_dot_fn)(int64_t n, int rows, float *s, const void *x, size_t nb, const void *y, const void *ahead);
enum { GG_DOT_ROWS = 4 };
/* Bring a packed row of a quantised activation type, or a row of floats rounded to the codes of the type, into the
 * activation layout, in which it enters dot products with many rows: GG_LAYOUT_BYTES for 32 elements, at a multiple of
 * 64 (quants/activation.h). */
typedef void (*gg_lay_out_fn)(const void *row, void *laid_out, int64_t n);
typedef void (*gg_lay_out_f32_fn)(const float *x, void *laid_out, int64_t n);
enum { GG_LAYOUT_BYTES = 44 };
/* Floats are rounded to codes of eight bits as if the largest magnitude of their scale group were at least this one:
 * the reciprocal of a smaller scale may be infinite. The scale then is 2^-120 / 127, which f32 holds to 22 bits. */
#define GG_LEAST_MAGNITUDE 0x1p-120f
/* How far ahead products with a vector prefetch the matrix: hardware prefetchers stop at the end of a page. */
enum {
    GG_PAGE_BYTES = 4096,
    GG_PREFETCH_NEAR = 2 * GG_PAGE_BYTES,       /* the most bytes of rows that are prefetched to the first cache */
    GG_PREFETCH_FAR = 4 * GG_PAGE_BYTES,
    GG_PREFETCH_PAGES = 16 * GG_PAGE_BYTES      /* one line a page: address translation takes longer than the load */
};
/* Unpacks n elements of as many rows as a vector has lanes, nb bytes apart: word i of each row, as gg_ints.unpack
 * writes them, to out[i * width ..]. */
typedef void (*gg_pack_fn)(const char *x, size_t nb, int64_t n, float *out, int width);
/* Multiplies n elements of as many rows as a vector has lanes, nb bytes apart, by `columns` columns of b, a panel of
 * gemm/int8_few.h: sums[j * lanes + i] = row i times column j. Prefetches from `ahead` on, as a dot product does. */
enum {
    GG_TIMES_MOST = 32,             /* columns, */
    GG_TIMES_MOST_SIGNED = 24,      /* of signed codes of two bytes */
    GG_SIGNED_GROUP = 16,           /* elements of a scale group of signed codes of two bytes */
};
typedef void (*gg_times_fn)(const char *x, size_t nb, int64_t n, int columns, const int32_t *b, float *sums,
                            const char *ahead);
/* A block of 256 elements whose scales are part of the codes (gemm/int8_folded.h): element i is d codes[i], minus the
 * minimum of its 16 elements, dmin m[i / 16], if the type has minima. Codes use as much of 15 bits as a type allows. */
typedef struct gg_folded {
    int16_t codes[256];             /* plus GG_FOLDED_BIAS */
    float d, dmin, unused[2];
    float m[16];                    /* small integers */
} gg_folded;
enum { GG_FOLDED_BIAS = 128 };
typedef void (*gg_fold_fn)(const void *x, gg_folded *out, int64_t n);
/* How a packed row is unpacked for products of integers. unpack writes for each `group` elements their codes q, one
 * byte each, a float scale d and, if the type has minima, a float m: element = d (q - bias) - m. Signed codes have two
 * bytes where GG_VEC_PAIRS is defined, at most 2^12 in size, and unpack takes whole blocks of one group, which may be
 * smaller. If scale_group is not 0 it writes blocks of 256 elements instead
 * (gemm/int8_blocks.h), with scales and minima for each `group` elements. */
typedef struct gg_ints {
    void (*unpack)(const void *x, void *groups, int64_t n);     /* NULL: the type is not unpacked to integers */
    uint16_t group;
    uint8_t bias;
    uint8_t max;                    /* largest code if codes are unsigned */
    bool minima;
    bool is_signed;                 /* codes are signed; bias is 0 */
    uint8_t scale_group;            /* 32-bit words of codes that share a word of two int16 scales; 0: no blocks */
    gg_pack_fn pack;                /* or NULL, */
    gg_times_fn times;              /* as this one, */
    uint8_t times_least;            /* which is faster than dot products from so many columns on */
    gg_fold_fn fold;                /* types with blocks of 256, if GG_VEC_FOLDED is defined; or NULL */
} gg_ints;

struct gg_kernels {
    gg_op_fn op[GG_OP_MAX];
    gg_work_fn work[GG_OP_MAX];     /* NULL: the operation needs no shared work memory, or has a function plan */
    gg_plan_fn plan[GG_OP_MAX];     /* NULL: nothing is decided in advance */
    gg_pieces_fn product_pieces;    /* of MUL_MAT */
    const gg_algorithm *algorithms[GG_ALGORITHMS];
    gg_row_kernel_fn rows[GG_OP_MAX];   /* NULL: the operation is never part of a chain (tables/fusions.h) */
    gg_to_f32_fn to_f32[GG_TYPE_MAX];
    gg_from_f32_fn from_f32[GG_TYPE_MAX];
    gg_quantize_fn quantize[GG_TYPE_MAX];   /* NULL: from_f32 does it, weights make no difference */
    gg_dot_fn dot[GG_TYPE_MAX];
    gg_lay_out_fn lay_out[GG_TYPE_MAX];     /* of the quantised activation types, */
    gg_lay_out_f32_fn lay_out_f32[GG_TYPE_MAX];     /* from their rows, or from floats */
    gg_ints ints[GG_TYPE_MAX];
    int columns_alike;              /* the most columns by which gg_ints.times of all types multiplies, if panels, which
                                     * serve more, round in another way; 0: they round alike, or there is no times */
};

/* ---- services for kernels (compute.c) ---------------------------------------------------------------------------- */
void gg_barrier(const gg_work *w);                 /* waits for the w->nth threads of this node */
/* memory of this thread until its next call, 64-byte aligned; or NULL */
void *gg_scratch(size_t bytes);
/* Memory for a plan of a node; or NULL. */
void *gg_plan_memory(size_t bytes);
/* Keeps the reason why a node failed; returns GGML_STATUS_FAILED. */
int gg_fail(const ggml_tensor *node, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same if memory is lacking ("no memory for ..."); returns GGML_STATUS_ALLOC_FAILED. */
int gg_no_memory(const ggml_tensor *node, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Claims one of n pieces of a node for this thread, -1 when none is left: first its own, which are contiguous and
 * likely in its cache, then those of others from the end. More than GG_OWN_PIECES are claimed in order. */
int64_t gg_claim_piece(const gg_work *w, int64_t n);
enum { GG_OWN_PIECES = 64 };
/* Claims a chunk of [0, n) for this thread, at least `grain` long except the last one; false when none is left:
 * int64_t i0, i1; while (gg_claim_chunk(w, n, grain, &i0, &i1)) { ... i0..i1 ... } */
bool gg_claim_chunk(const gg_work *w, int64_t n, int64_t grain, int64_t *i0, int64_t *i1);

#endif
