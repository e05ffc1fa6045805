/* The plan of a compute call: which nodes run, on how many threads, and where the threads wait for each other. */
#ifndef GG_PLAN_H
#define GG_PLAN_H
#include "kernel.h"

typedef struct gg_step {                /* a node that computes something, or several that are fused */
    gg_op_fn run;
    ggml_tensor *node;
    gg_node_plan *plan;                 /* see gg_work */
    struct gg_chain *chain;             /* nodes that are computed together, the last one is `node`; NULL: one node */
    bool owned;                         /* `node` is a copy, changed by fuse.c */
    int index;                          /* of the node in the list that the plan was made of */
    int threads;                        /* that share the node; 1: the first thread computes it */
    bool sync;                          /* the threads wait for each other before the node */
    bool packed, down;                  /* see gg_work */
    gg_pieces pieces;                   /* of the matrix, if the node multiplies one by a few vectors */
    struct gg_step *next;               /* the next step of this kind; or NULL */
    int slot;                           /* of the work memory that the node uses */
    float cost;                         /* estimated time on one thread, ns */
    _Atomic int64_t chunk;              /* see gg_work; 0 at the start of each compute call */
} gg_step;

typedef struct gg_plan_request {        /* what a plan depends on beside the nodes */
    const gg_kernels *kernels;
    int n_threads;                      /* that the caller asked for */
    bool sync_all;                      /* all threads wait before every node: the caller decides whether it starts */
    bool fuse;                          /* nodes may be fused (fuse.h) */
    bool kept;                          /* the plan serves many computes: what it takes to make it does not matter */
} gg_plan_request;

typedef struct gg_plan {
    gg_plan_request request;
    gg_step *steps;
    int n_steps;
    int available;                      /* threads that it could use: at most one a processor, 1 for little work */
    int threads;                        /* threads that it uses: 1 if no node is worth sharing */
    size_t work_size, slot_size;        /* bytes of work memory, and of each of its slots */
    bool calls_back;                    /* a node calls a function of the user */
    double cost;                        /* estimated time on one thread, ns */
} gg_plan;

/* Costs are estimates in ns. A node runs on one thread if it costs less than GG_SPLIT_COST for each thread and less
 * than GG_SPLIT_MOST: a barrier of many threads takes longer. */
enum { GG_SPLIT_COST = 1000, GG_SPLIT_MOST = 6000 };
static inline bool gg_worth_sharing(double cost, int n_threads) {
    return cost >= GG_SPLIT_MOST || cost >= GG_SPLIT_COST * (double)n_threads;
}

/* Makes a plan of nodes that were checked; false: no memory. gg_plan_free releases what it holds. */
bool gg_plan_make(gg_plan *plan, ggml_tensor *const *nodes, int n, const gg_plan_request *request);
/* Whether the plan is one for this request, and as many threads are available as when it was made. */
bool gg_plan_serves(const gg_plan *plan, const gg_plan_request *request);
/* Makes the plan one for operands that lie elsewhere now, apart from what any node computes. False: make another. */
bool gg_plan_move(gg_plan *plan, ggml_tensor *const *operands, int n);
void gg_plan_free(gg_plan *plan);
/* How many steps these nodes are on so many threads with the kernels in use, in a plan that is kept or in one that is
 * not; -1: no memory. */
int gg_count_steps(ggml_tensor *const *nodes, int n, int n_threads, bool kept);

int gg_until_callback(ggml_tensor **nodes, int n);                  /* nodes up to the first callback, inclusive */
size_t gg_work_size(ggml_tensor **nodes, int n, int n_threads);     /* bytes of shared work memory: enough with
                                                                      * and without use_ref */
/* The name of the algorithm that the kernels in use choose for a node that was checked. NULL: its operation has one
 * only, there is nothing to compute, or no memory. */
const char *gg_algorithm_of(ggml_tensor *node);
#endif
