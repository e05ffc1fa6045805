/* What a profile records of a compute call: for each thread and node, when the thread waited, began and ended. */
#ifndef GG_PROFILE_H
#define GG_PROFILE_H
#include "engine.h"

typedef struct gg_span {            /* a thread and a node */
    int64_t arrived;                /* ns of gg_clock_ns: when the thread began to wait for the others */
    int64_t begin, end;             /* of the node; equal if other threads computed it */
    int32_t node;                   /* index in the nodes of the call */
    uint32_t waited;                /* ns that the thread waited at barriers inside the node, at most 2^32 - 1 */
} gg_span;

typedef struct gg_lane {            /* a thread of the call, which alone writes here */
    gg_span *spans;
    int n;
    int64_t now, waited;            /* the last reading of the clock; ns at barriers inside the node so far */
    char padding[64];               /* two threads never write to one cache line */
} gg_lane;

typedef struct gg_profile {
    int n_lanes, room;              /* threads; spans of each: one for each node */
    gg_lane lanes[];
} gg_profile;

/* What a profile keeps of a node: the node itself may be freed before the profile is read. */
typedef struct gg_node_facts {
    int32_t op, function, type, computes;   /* function: of unary and GLU operations, 0 of others */
    int32_t src_type[2];                    /* -1: there is no such operand */
    int64_t ne[4], src_ne[2][4];
    double flops, bytes;                    /* estimates from the shapes: arithmetic, memory that is read or written */
    char name[GGML_MAX_NAME], weight[GGML_MAX_NAME];    /* weight: the first operand that is a leaf with a name */
} gg_node_facts;

/* Room for the spans of n_lanes threads and n_nodes nodes; NULL: no memory. To be freed by free(). */
gg_profile *gg_profile_new(int n_lanes, int n_nodes);
/* Fills in the facts of a node that was checked. */
void gg_node_describe(gg_node_facts *facts, const ggml_tensor *node);
#endif
