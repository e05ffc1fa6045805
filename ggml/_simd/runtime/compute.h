/* The graph loop: one OpenMP region for each compute call, barriers only where data require them. */
#ifndef GG_COMPUTE_H
#define GG_COMPUTE_H
#include "plan.h"
#include "profile.h"

typedef struct gg_call {            /* one compute call; the caller fills the first part */
    ggml_tensor **nodes;            /* no custom operation before the last: see gg_until_callback */
    int n_nodes, n_threads;
    const gg_plan *plan;            /* of these nodes; NULL: the call makes one */
    uint8_t *wdata;                 /* NULL: taken from the heap */
    size_t wsize;
    bool use_ref;                   /* the kernels of GG_ISA_REFERENCE instead of those in use */
    bool (*abort)(void *data);      /* called by the first thread before each node; true: stop */
    void *abort_data;
    bool (*poll)(void);             /* called at intervals by the first thread; true: stop (Ctrl-C); may be NULL */
    bool single;                    /* nodes are not fused: each is observed */
    gg_profile *profile;            /* what the threads record; NULL: nothing */
    /* out */
    int status, failed;             /* ggml_status; index of the node that failed, or -1 */
    char message[256];              /* why it failed, may be empty */
    void *exception;                /* the Python exception of a callback */
    ggml_tensor last;               /* a copy of the last node: its callback may write to the node */
} gg_call;

int gg_compute(gg_call *call);                                      /* returns call->status */
gg_plan_request gg_call_request(const gg_call *call);               /* what its plan depends on beside the nodes */
gg_call *gg_current_call(void);                                     /* of this thread, NULL outside a compute */
void gg_stop(gg_call *call, int status);                            /* from a callback: starts no further node */

/* Runs body(data, i) for i in [0, n) on up to n_threads threads, in any order. */
void gg_parallel_for(int n_threads, int64_t n, void (*body)(void *data, int64_t i), void *data);
#endif
