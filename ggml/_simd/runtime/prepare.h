/* Prepared graphs. Callers compute the same graph thousands of times. Each compute has a plan, with fusions. That of
 * the first compute is dropped after it: many graphs are computed once. The second compute keeps its plan, with a
 * snapshot of the tensors. From the third on the graph is not checked and planned again, if a comparison with the
 * snapshot shows that nothing was written to the tensors since. Operands, and views of them, may lie elsewhere in each
 * compute: the plan changes only where it reads them. After another change, twice as many computes pass before a plan
 * is kept again, 64 at most.
 * All functions are called under the GIL, or in a section (see ggml/_sections.h). */
#ifndef GG_PREPARE_H
#define GG_PREPARE_H
#include "compute.h"
#include "memory.h"

typedef struct gg_prepared {
    const ggml_cgraph *graph;
    ggml_tensor **nodes;                /* the list of nodes as it was */
    int n_nodes;
    /* for prepare.c */
    bool outside;                       /* data lies in memory that is not registered: is it still there? */
    ggml_tensor **tensors;              /* nodes and their sources, each once, and a snapshot of each */
    struct gg_snapshot *snapshots;
    size_t n_tensors, n_data;           /* the first n_data of them have data that is used */
    struct gg_held *regions;            /* the ranges of memory that they lie in */
    size_t n_regions;
    uint64_t epoch;                     /* gg_region_epoch() when the regions were last looked up */
    gg_plan plans[2];
    int older;                          /* index of the plan to replace next */
    size_t bytes;
    uint64_t used;                      /* when it was last used: how many graphs had been entered */
    int seen, wait;                     /* computes since the last change; how many pass before a plan is kept */
    bool busy, forgotten;               /* it is being computed; to be freed after that */
    struct gg_prepared *next;
} gg_prepared;

/* The prepared form of a graph, if its tensors, and the memory they lie in, are as when it was checked. Else NULL. It
 * is this thread's until gg_prepared_end: a compute of the same graph meanwhile has none. */
gg_prepared *gg_prepared_find(const ggml_cgraph *graph);
/* Tells that the first n nodes of a graph, all it had, were just found valid. Returns its prepared form if it has been
 * computed often enough since its last change, else NULL. */
gg_prepared *gg_prepared_note(const ggml_cgraph *graph, int n);
/* Fills in nodes and plan of a call, and holds the memory that the nodes use; false: no memory, and it has ended. */
bool gg_prepared_begin(gg_prepared *p, gg_call *call, gg_pins *pins);
void gg_prepared_end(gg_prepared *p);
#endif
