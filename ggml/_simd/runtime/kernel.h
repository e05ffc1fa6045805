/* What a kernel sees, and the table of kernels that each ISA exports. */
#ifndef GG_KERNEL_H
#define GG_KERNEL_H
#include "engine.h"
#include <stdatomic.h>

struct gg_team;   /* the threads of one compute call (compute.c) */

typedef struct gg_kernels gg_kernels;

typedef struct gg_work {
    const gg_kernels *kernels;      /* the table that this compute call uses: kernels call others through it */
    int ith, nth;                   /* this thread of how many; nth may be 1 while the team is larger */
    void *wdata;                    /* shared by the threads of the node; at least what op_work asked for; 64-byte aligned */
    size_t wsize;
    struct gg_team *team;
    const ggml_tensor *node;        /* of an operation that calls the user back: a copy made when the compute call began */
    int n_threads;                  /* that the caller asked for */
    _Atomic int64_t *chunk;         /* of this node, 0 at the start: how much is taken, or which pieces */
} gg_work;

/* Takes the node to compute; returns a ggml_status. Sets the reason with gg_fail. */
typedef int (*gg_op_fn)(const gg_work *w, ggml_tensor *dst);
typedef size_t (*gg_work_fn)(const ggml_tensor *dst, int nth);

/* Conversions of n elements (n a multiple of the type's block) between a packed row of a type and f32. */
typedef void (*gg_to_f32_fn)(const void *x, float *y, int64_t n);
typedef void (*gg_from_f32_fn)(const float *x, void *y, int64_t n);
/* As from_f32, one whole row, with an importance weight for each element (NULL: none) and the slower searches. */
typedef void (*gg_quantize_fn)(const float *x, void *y, int64_t n, const float *im);
/* sum(x[i]*y[i]): x packed row of the type, y a row of the type's dot partner (dot_type): widened if it is quantised. */
typedef void (*gg_dot_fn)(int64_t n, float *s, const void *x, const void *y);
/* Lays a packed row of a partner out for dot products with many rows, at a multiple of 64: GG_WIDE bytes for 32 elements.
 * Of blocks of 32 come all bytes, then for each block its scale as a float and that times the sum of its bytes; a block
 * of 256 becomes a wide_q8_K. */
typedef void (*gg_widen_fn)(const void *partner, void *wide, int64_t n);
enum { GG_WIDE = 44 };
enum { GG_AHEAD = 4096 };       /* bytes ahead that kernels fetch: processors themselves stop at the end of a page */
/* A packed row of n elements as integers and their scales. Of each `group` elements it writes bytes q, a float d and,
 * with mins, a float m: an element is d (q - bias) - m. Bytes are unsigned, up to `most`, or signed, without a bias.
 * With a run it writes blocks of 256 as gemm/blocks.h has them; scales and mins are those of `group` elements there. */
typedef struct gg_ints {
    void (*unpack)(const void *x, void *groups, int64_t n);     /* NULL: the type has no such form */
    uint8_t group, bias, most;
    bool mins, is_signed;
    uint8_t run;                    /* words of integers that share a word of scales; 0: there are groups, not blocks */
} gg_ints;

struct gg_kernels {
    gg_op_fn op[GG_OP_MAX];
    gg_work_fn work[GG_OP_MAX];     /* NULL: the operation needs no shared work memory */
    gg_to_f32_fn to_f32[GGML_TYPE_COUNT];
    gg_from_f32_fn from_f32[GGML_TYPE_COUNT];
    gg_quantize_fn quantize[GGML_TYPE_COUNT];   /* NULL: from_f32 does it, weights make no difference */
    gg_dot_fn dot[GGML_TYPE_COUNT];
    int32_t dot_type[GGML_TYPE_COUNT];   /* type of the second operand of dot */
    gg_widen_fn widen[GGML_TYPE_COUNT];  /* of the quantised types that are such operands */
    gg_ints ints[GGML_TYPE_COUNT];
};

/* ---- services for kernels (compute.c) ---------------------------------------------------------------------------- */
void gg_barrier(const gg_work *w);                 /* waits for the w->nth threads of this node */
void *gg_scratch(size_t bytes);                    /* this thread's own memory, 64-byte aligned, until its next call; NULL: none left */
int gg_fail(const ggml_tensor *node, const char *fmt, ...) __attribute__((format(printf, 2, 3)));  /* returns GGML_STATUS_FAILED */

/* The next piece of [0, n) for this thread, at least `grain` long but for the last; false when nothing is left:
 * int64_t i0, i1; while (gg_next(w, n, grain, &i0, &i1)) { ... i0..i1 ... } */
bool gg_next(const gg_work *w, int64_t n, int64_t grain, int64_t *i0, int64_t *i1);

#endif
