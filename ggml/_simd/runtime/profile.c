/* Profiles of compute calls: memory for what the threads record, and what the nodes cost by their shapes. */
#include "profile.h"
#include "geometry.h"
#include "memory.h"
#include "op_info.h"

gg_profile *gg_profile_new(int n_lanes, int n_nodes) {
    const size_t head = sizeof(gg_profile) + (size_t)n_lanes * sizeof(gg_lane);
    gg_profile *const p = gg_malloc(head + (size_t)n_lanes * (size_t)n_nodes * sizeof(gg_span));
    if (!p) return NULL;
    p->n_lanes = n_lanes, p->room = n_nodes;
    for (int i = 0; i < n_lanes; i++)
        p->lanes[i] = (gg_lane){.spans = (gg_span *)((char *)p + head) + (size_t)i * (size_t)n_nodes};
    return p;
}

static double elements(const ggml_tensor *t) { return t ? (double)gg_nelements(t) : 0; }
static double packed_bytes(const ggml_tensor *t, double n) {
    return t ? n * gg_types[t->type].bytes / gg_types[t->type].blck : 0;
}
/* Products are counted exactly, as two operations each: a multiplication and an addition. Other operations count one
 * for each element of the result or of an operand, whichever has most; those with tables do not count the table. */
static double node_flops(const ggml_tensor *t, const gg_op_info *op) {
    const ggml_tensor *const a = t->src[0], *const b = t->src[1];
    if (op->cost_model == GG_COST_FREE) return 0;
    if (op->cost_model == GG_COST_PER_PRODUCT) return 2 * elements(t) * (double)a->ne[op->cost];
    switch (t->op) {
    case GGML_OP_CONV_2D: case GGML_OP_CONV_2D_DW: case GGML_OP_CONV_3D: case GGML_OP_CONV_TRANSPOSE_1D:
    case GGML_OP_CONV_TRANSPOSE_2D: case GGML_OP_CONV_BACK_DATA: case GGML_OP_CONV_BACK_KERNEL: {
        const gg_conv v = gg_conv_of(t);
        const int64_t channels = gg_conv_g(&v).c;
        return channels > 0 ? 2 * elements(v.g) * elements(v.w) / (double)channels : 0;
    }
    case GGML_OP_FLASH_ATTN_EXT:        /* q k^T, then the weighted sum of v */
        return 2 * elements(a) / (double)gg_max(a->ne[0], 1) * (double)b->ne[1] * (double)(b->ne[0] + t->src[2]->ne[0]);
    default: {
        double most = op->cost_model == GG_COST_PER_SOURCE ? elements(a) : elements(t);
        if (op->cost_model == GG_COST_PER_RESULT || op->cost_model == GG_COST_PER_SOURCE) return most;
        for (int k = 0; k < 3; k++)
            if (elements(t->src[k]) > most) most = elements(t->src[k]);
        return most;
    }
    }
}
/* The result and all operands once, but of tables only the rows that are used. */
static double node_bytes(const ggml_tensor *t, const gg_op_info *op) {
    const ggml_tensor *const a = t->src[0], *const b = t->src[1];
    if (op->cost_model == GG_COST_FREE) return 0;
    const double result = packed_bytes(t, elements(t));
    switch (t->op) {
    case GGML_OP_GET_ROWS: return result + packed_bytes(a, elements(t)) + packed_bytes(b, elements(b));
    case GGML_OP_SET_ROWS:
        return packed_bytes(t, elements(a)) + packed_bytes(a, elements(a)) + packed_bytes(b, elements(b));
    case GGML_OP_CPY: return result + packed_bytes(a, elements(a));
    case GGML_OP_MUL_MAT_ID: {
        const double experts = (double)gg_max(a->ne[2], 1), used = elements(t->src[2]);
        return result + packed_bytes(a, elements(a)) * (used < experts ? used / experts : 1)
             + packed_bytes(b, elements(b));
    }
    default: break;
    }
    double sum = result;
    for (int k = 0; k < GGML_MAX_SRC; k++) sum += packed_bytes(t->src[k], elements(t->src[k]));
    return sum;
}
void gg_node_describe(gg_node_facts *f, const ggml_tensor *t) {
    const gg_op_info *const op = gg_op(t->op);
    memset(f, 0, sizeof *f);
    f->op = t->op, f->type = t->type;
    f->function = t->op == GGML_OP_UNARY ? unary_params(t)->function
                : t->op == GGML_OP_GLU ? glu_params(t)->function : 0;
    f->src_type[0] = f->src_type[1] = -1;
    memcpy(f->ne, t->ne, sizeof f->ne);
    memcpy(f->name, t->name, sizeof f->name);
    f->computes = t->flags & GGML_TENSOR_FLAG_COMPUTE && gg_op_computes(t->op);
    if (!f->computes) return;                           /* such nodes are not checked: their operands may be gone */
    for (int k = 0; k < 2; k++) {
        const ggml_tensor *const s = t->src[k];
        if (!s) continue;
        f->src_type[k] = s->type;
        memcpy(f->src_ne[k], s->ne, sizeof s->ne);
    }
    f->flops = node_flops(t, op), f->bytes = node_bytes(t, op);
    for (int k = 0; k < GGML_MAX_SRC && !f->weight[0]; k++)
        if (t->src[k] && t->src[k]->op == GGML_OP_NONE) memcpy(f->weight, t->src[k]->name, sizeof f->weight);
}
