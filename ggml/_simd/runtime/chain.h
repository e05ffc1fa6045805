/* Chains: nodes that are computed together, row by row (tables/fusions.h). */
#ifndef GG_CHAIN_H
#define GG_CHAIN_H
#include "kernel.h"

enum {
    GG_CHAIN_SOURCES = 3,               /* operands of a node, at most */
    GG_CHAIN_MOST = 16,                 /* nodes */
    GG_CHAIN_TILE = 1024,               /* elements of a row that are computed together */
    GG_CHAIN_FILLED = 6                 /* operands of which an element is repeated along the row, or a row */
};

typedef struct gg_link {                /* a node of a chain; operand 0 is its result, 1.. are its sources */
    gg_row_kernel kernel;
    const ggml_tensor *node;
    float *data[1 + GG_CHAIN_SOURCES];  /* or of f16, if the kernel says so; NULL: there is no such operand */
    size_t nb[1 + GG_CHAIN_SOURCES][3]; /* strides of dimensions 1 to 3 in bytes; 0: the operand is repeated along it */
    int8_t filled[1 + GG_CHAIN_SOURCES];    /* which buffer holds what is repeated; -1: none */
} gg_link;

typedef struct gg_chain {
    int n;
    bool whole;                         /* a node needs whole rows */
    bool single;                        /* there is one row, of one tile, of which nothing has to be filled in */
    int64_t block;                      /* rows that are computed together; more than 1: all lie beside each other */
    int64_t ne[4];                      /* of the results; contiguous ones count as one row where none needs rows */
    gg_link links[];
} gg_chain;

/* Whether the operand s of a node t is contiguous and has the same rows, one row for all, one element for each row, or
 * a single element. */
bool gg_chain_rows_fit(const ggml_tensor *t, const ggml_tensor *s);
/* A chain of n nodes with these kernels, whose conditions fuse.c has checked; NULL: no memory. free() frees it. */
gg_chain *gg_chain_new(int n, const ggml_tensor *const *nodes, const gg_row_kernel *kernels);
/* Reads again where the operands of its nodes lie. */
void gg_chain_place(gg_chain *chain);
/* Computes w->chain, whose last node is `last`; a gg_op_fn. */
int gg_chain_run(const gg_work *w, ggml_tensor *last);
#endif
