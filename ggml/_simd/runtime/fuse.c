/* Which steps are fused. One pass over the steps: each asks for the steps that compute its operands, which lie at most
 * WINDOW steps before it.
 *
 * Several nodes become one step at the place of the last one. The others are computed later than in the graph, so no
 * step in between may read or write what they write, or write what they read. Within the step each result is written as
 * before: the user may read any tensor afterwards. Only a result that a later node of the step overwrites is never
 * seen, and what is to follow it can take its place (the tail of a convolution).
 *
 * A chain computes row r of all its nodes before row r + 1. That is the same as one node after the other if any two
 * operands, of which one is written, have the same elements at the same addresses, or lie apart. */
#include "fuse.h"
#include "chain.h"
#include "dispatch.h"
#include "geometry.h"
#include "op_info.h"
#include "pages.h"
#include <stdlib.h>

/* On one thread, nodes of fewer elements than SMALLEST gain less by a chain than it takes to make it once. MANY rows of
 * fewer than SHORT elements take less time node by node, unless a chain computes many of them together. */
enum { WINDOW = 8, SMALLEST = 256, SHORT = 64, MANY = 64 };

static _Atomic bool enabled = true;
bool gg_fuse_enabled(void) { return enabled; }
void gg_fuse_enable(bool on) { enabled = on; }

typedef struct { uintptr_t lo, hi; } span;
/* What is known of a step while its plan is made. */
typedef struct member {
    const ggml_tensor *node, *result;   /* of the graph; whose value is left when the step has taken others */
    bool examined;                      /* what follows, except for the indices, is filled in */
    gg_row_kernel kernel;               /* neither: the step is in no chain */
    span at[1 + GG_CHAIN_SOURCES];      /* of the node and its sources, if it has a kernel */
    int into;                           /* the step that computes this one as well; -1: it stands */
    int before;                         /* the step that precedes it in its chain; -1: none */
    /* of the chain that ends here: nodes, operands that are filled in, memory around all results and all operands */
    int n, filled;
    bool whole;
    double cost;
    span results, all;
} member;
typedef struct { gg_plan *plan; member *v; } fusing;

/* ---- memory ------------------------------------------------------------------------------------------------------ */
/* As gg_nbytes, without its divisions and its checks, which the tensors of a plan have passed. */
static inline size_t nbytes(const ggml_tensor *t) {
    size_t n = (size_t)gg_types[t->type].bytes;
    if (gg_types[t->type].blck > 1 || gg_is_empty(t)) return gg_nbytes(t);
    for (int d = 0; d < 4; d++) n += (size_t)(t->ne[d] - 1) * t->nb[d];
    return n;
}
static span span_of(const ggml_tensor *t) { return (span){(uintptr_t)t->data, (uintptr_t)t->data + nbytes(t)}; }
static bool overlap(span a, span b) { return a.lo < b.hi && b.lo < a.hi; }
static span hull(span a, span b) { return (span){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi}; }
static bool same_elements(const ggml_tensor *a, const ggml_tensor *b) {
    return a->data == b->data && gg_same_shape(a, b) && !memcmp(a->nb, b->nb, sizeof a->nb);
}
/* No two elements of t overlap: each step along a dimension passes all elements of the dimensions before. */
static bool apart_in_order(const ggml_tensor *t, const int order[4]) {
    size_t least = sizeof(float);
    for (int i = 0; i < 4; i++) {
        const int d = order[i];
        if (t->ne[d] == 1) continue;
        if (t->nb[d] < least) return false;
        least = (size_t)t->ne[d] * t->nb[d];
    }
    return true;
}
/* Likewise, whatever strides a caller wrote. */
static bool elements_apart(const ggml_tensor *t) {
    int order[4] = {0, 1, 2, 3};
    if (apart_in_order(t, order)) return true;
    for (int i = 1; i < 4; i++)                         /* dimensions by stride */
        for (int k = i; k > 0 && t->nb[order[k]] < t->nb[order[k - 1]]; k--) {
            const int d = order[k];
            order[k] = order[k - 1], order[k - 1] = d;
        }
    return apart_in_order(t, order);
}
static bool touches(const ggml_tensor *t, span x) {                     /* t or a source of t */
    bool found = overlap(span_of(t), x);
    for (int k = 0; k < GGML_MAX_SRC && !found; k++) found = t->src[k] && overlap(span_of(t->src[k]), x);
    return found;
}
static bool conflict(const ggml_tensor *a, const ggml_tensor *b) {      /* a and b cannot change places */
    return gg_op(b->op)->flags & (GG_FLAG_CALLBACK | GG_FLAG_STEP) || touches(a, span_of(b)) || touches(b, span_of(a));
}

/* ---- tails: a node that an operation computes while its sums are in the cache ------------------------------------ */
/* Whether b has one element for each channel of a convolution. */
static bool by_channel(const ggml_tensor *conv, const ggml_tensor *b) {
    const int channels = conv_2d_params(conv)->is_1d ? 1 : 2;
    for (int d = 0; d < 4; d++)
        if (b->ne[d] != (d == channels ? conv->ne[d] : 1)) return false;
    return true;
}
/* b: the other operand of `next`, which may have another shape, or NULL */
static bool conv_takes(ggml_tensor *conv, const ggml_tensor *next, ggml_tensor *b) {
    gg_conv_2d_params *const q = conv_2d_params(conv);
    const bool channels = b && gg_same_shape(conv, next) && by_channel(conv, b);
    if (q->function || conv->src[4] || !gg_is_float(conv->src[0]->type)) return false;
    if (next->op == GGML_OP_UNARY) {                    /* without a bias, the kernel would add 0 to -0 */
        const int function = unary_params(next)->function;
        if (b || !conv->src[2] || !gg_conv_function_ok(function)) return false;
        q->function = function + 1;
        return true;
    }
    if ((next->op != GGML_OP_ADD && next->op != GGML_OP_PRELU) || b->type != GGML_TYPE_F32 || !gg_contiguous(b)
        || overlap(span_of(b), span_of(conv))) return false;
    if (next->op == GGML_OP_PRELU) {                    /* likewise; lanes of CONV_2D_DW may be channels */
        if (conv->op != GGML_OP_CONV_2D || !conv->src[2] || b != next->src[1] || !channels) return false;
        conv->src[4] = b;
        return true;
    }
    if (conv->src[2]) {                                 /* what is added has an element for each sum */
        if (conv->op != GGML_OP_CONV_2D || conv->src[3] || gg_nelements(b) != gg_nelements(conv)
            || (gg_conv_groups(conv) > 1 && !gg_same_shape(b, conv))) return false;
        conv->src[3] = b;
        return true;
    }
    if (!channels) return false;
    conv->src[2] = b;
    return true;
}
static bool product_takes(ggml_tensor *product, const ggml_tensor *next, ggml_tensor *b) {
    if (next->op != GGML_OP_ADD || product->src[2] || product->src[0]->type == GGML_TYPE_I8
        || mul_mat_params(product)->whole || b->type != GGML_TYPE_F32 || !gg_contiguous(b)
        || overlap(span_of(b), span_of(product))) return false;
    for (int d = 0; d < 4; d++)
        if (b->ne[d] != (d ? 1 : product->ne[0])) return false;
    product->src[2] = b;
    return true;
}
static bool takes(ggml_tensor *node, const ggml_tensor *next, ggml_tensor *other) {
    switch (node->op) {
#define FUSED_ROWS(NAME, family)
#define FUSED_TAIL(NAME, takes) case GGML_OP_##NAME: return takes(node, next, other);
#include "../tables/fusions.h"
#undef FUSED_TAIL
#undef FUSED_ROWS
    default: return false;
    }
}
static bool has_tail(int op) {
#define FUSED_ROWS(NAME, family)
#define FUSED_TAIL(NAME, takes) || op == GGML_OP_##NAME
    return false
#include "../tables/fusions.h"
    ;
#undef FUSED_TAIL
#undef FUSED_ROWS
}
/* Whether t is all of what a step computes, perhaps in another shape. */
static bool reshaped(const ggml_tensor *step, const ggml_tensor *t) {
    return t && t->data == step->data && t->type == step->type && gg_nelements(t) == gg_nelements(step)
           && gg_contiguous(t) && gg_contiguous(step);
}
/* Lets step s compute step `next` as well. */
static bool take(const fusing *f, int s, int next) {
    gg_step *const step = &f->plan->steps[s];
    const ggml_tensor *const node = f->v[next].node, *const result = f->v[s].result;
    ggml_tensor changed = *step->node;
    int operand = 0;
    while (operand < 2 && node->src[operand] != result && !reshaped(&changed, node->src[operand])) operand++;
    if (operand == 2 || changed.type != GGML_TYPE_F32 || node->type != GGML_TYPE_F32
        || !(same_elements(&changed, node) || reshaped(&changed, node))
        || !takes(&changed, node, node->src[1 - operand])) return false;
    if (!step->owned) {
        ggml_tensor *const copy = gg_malloc(sizeof *copy);
        if (!copy) return false;
        step->node = copy, step->owned = true;
    }
    *step->node = changed;
    f->v[s].result = node, f->v[next].into = s;
    return true;
}

/* ---- chains ------------------------------------------------------------------------------------------------------ */
static const ggml_tensor *operand(const member *m, int k) { return k ? m->node->src[k - 1] : m->node; }
static bool packed_rows(const ggml_tensor *t) {
    return t->nb[0] == (size_t)gg_types[t->type].bytes || t->ne[0] == 1;
}
/* Operands of which one is written overlap, but not element by element. */
static bool clash(const member *a, int i, const member *b, int k) {
    return overlap(a->at[i], b->at[k]) && !same_elements(operand(a, i), operand(b, k));
}
static bool computed_by(const fusing *f, const ggml_tensor *t, int chain) {
    for (int a = chain; a >= 0; a = f->v[a].before)
        if (f->v[a].node == t) return true;
    return false;
}
static bool clashes(const member *a, const member *b) {
    for (int k = 0; k <= GG_CHAIN_SOURCES; k++)
        if (clash(a, 0, b, k) || clash(b, 0, a, k)) return true;
    return false;
}
/* Whether the nodes of the chains that end with steps j and i can be computed row by row. What was found for each chain
 * holds. A source that the other chain computes lies where its result lies, which has been compared with the others. */
static bool fit_together(const fusing *f, int j, int i) {
    const member *const v = f->v;
    bool apart = v[i].n == 1 && !overlap(v[i].at[0], v[j].all);
    for (int k = 1; k <= GG_CHAIN_SOURCES && apart; k++)
        apart = !overlap(v[i].at[k], v[j].results) || computed_by(f, operand(&v[i], k), j);
    if (apart) return true;
    for (int a = j; a >= 0; a = v[a].before)
        for (int b = i; b >= 0; b = v[b].before)
            if (clashes(&v[a], &v[b])) return false;
    return true;
}
static bool has_kernel(gg_row_kernel k) { return k.tile || k.row || k.rows; }
/* Fills in the kernel and the operands of a member, if its node can be part of a chain. */
static void examine_operands(member *m, const gg_kernels *k) {
    const ggml_tensor *const t = m->node;
    const gg_row_kernel kernel = k->rows[t->op] ? k->rows[t->op](t) : (gg_row_kernel){.tile = NULL};
    if (!has_kernel(kernel) || t->type != GGML_TYPE_F32 || !packed_rows(t) || !elements_apart(t)) return;
    const bool many = t->ne[0] < SHORT && gg_nrows(t) >= MANY;
    if (many && (kernel.row || !gg_contiguous(t))) return;
    m->at[0] = m->results = m->all = span_of(t);
    for (int i = 1; i <= GG_CHAIN_SOURCES; i++) m->at[i] = (span){0, 0};
    for (int i = GG_CHAIN_SOURCES; i < GGML_MAX_SRC; i++)
        if (t->src[i]) return;
    for (int i = 0; i < GG_CHAIN_SOURCES; i++) {
        const ggml_tensor *const s = t->src[i];
        if (!s) continue;
        const uint8_t bit = (uint8_t)(1 << i);
        if (!packed_rows(s) || s->type != (kernel.f16 & bit ? GGML_TYPE_F16 : GGML_TYPE_F32))
            return;
        for (int d = 0; d < 4; d++)
            if (s->ne[d] != t->ne[d] && s->ne[d] != 1 && !(kernel.by_node & bit)) return;
        if (many && !gg_chain_rows_fit(t, s)) return;
        const bool repeated = s->ne[0] != t->ne[0] || (many && !gg_same_shape(s, t));
        if (!(kernel.by_node & bit) && repeated && (!kernel.tile || ++m->filled > GG_CHAIN_FILLED)) return;
        m->at[i + 1] = span_of(s), m->all = hull(m->all, m->at[i + 1]);
        if (clash(m, 0, m, i + 1)) return;
    }
    m->kernel = kernel, m->whole = kernel.tile == NULL;
}
/* Whether a step can be part of a chain. Most are asked only if another one uses what they compute. */
static bool chains(const fusing *f, int i) {
    member *const m = &f->v[i];
    if (!m->examined) {
        m->examined = true, m->n = 1, m->filled = 0, m->whole = false, m->cost = (double)f->plan->steps[i].cost;
        examine_operands(m, f->plan->request.kernels);
    }
    return has_kernel(m->kernel);
}
/* Whether the chain that ends with step j may be computed after the steps between it and step i. */
static bool may_wait(const fusing *f, int j, int i) {
    for (int s = j + 1; s < i; s++) {
        if (f->v[s].into >= 0) continue;
        for (int a = j; a >= 0; a = f->v[a].before)
            for (int b = s; b >= 0; b = f->v[b].before)
                if (conflict(f->v[a].node, b == s ? f->plan->steps[s].node : f->v[b].node)) return false;
    }
    return true;
}
/* Makes the chain that ends with step j part of the one that ends with step i > j. */
static void join(const fusing *f, int j, int i) {
    member *const v = f->v, *const last = &v[i];
    const ggml_tensor *const t = last->node;
    const bool whole = last->whole || v[j].whole;
    const int n = last->n + v[j].n, filled = last->filled + v[j].filled;
    const double cost = last->cost + v[j].cost;
    if (n > GG_CHAIN_MOST || filled > GG_CHAIN_FILLED || (whole && filled && t->ne[0] > GG_CHAIN_TILE)) return;
    /* Threads share rows; single nodes would share the elements of few rows. */
    if (whole && gg_nrows(t) < f->plan->available && gg_worth_sharing(cost, f->plan->available)) return;
    if (!fit_together(f, j, i) || !may_wait(f, j, i)) return;
    int first = j, at = i;
    while (v[at].before > j) at = v[at].before;         /* a chain that ended after step j stays behind it */
    if (v[at].before >= 0) {
        while (v[first].before >= 0) first = v[first].before;
        v[first].before = v[at].before;
    }
    v[at].before = j;
    v[j].into = i;
    last->n = n, last->filled = filled, last->whole = whole, last->cost = cost;
    last->results = hull(last->results, v[j].results), last->all = hull(last->all, v[j].all);
}
static int standing(const fusing *f, int i) {
    while (f->v[i].into >= 0) i = f->v[i].into;
    return i;
}
static void join_sources(const fusing *f, int i) {
    const ggml_tensor *const t = f->v[i].node;
    if (!f->plan->request.kept && f->plan->available == 1 && gg_nelements(t) < SMALLEST) return;
    for (int k = 0; k < GG_CHAIN_SOURCES; k++) {
        if (!t->src[k] || !gg_same_shape(t->src[k], t)) continue;
        int j = i - 1;
        while (j >= 0 && i - j <= WINDOW && f->v[j].node != t->src[k]) j--;
        if (j < 0 || i - j > WINDOW || !chains(f, j)) continue;
        if (!chains(f, i)) return;
        j = standing(f, j);
        if (j < i) join(f, j, i);
    }
}
/* Turns the chain that ends with step i into what this step computes; without memory, its steps stand alone. */
static void make_chain(const fusing *f, int i) {
    gg_step *const s = &f->plan->steps[i];
    const ggml_tensor *nodes[GG_CHAIN_MOST];
    gg_row_kernel kernels[GG_CHAIN_MOST];
    int n = f->v[i].n;
    for (int a = i; a >= 0; a = f->v[a].before) n--, nodes[n] = f->v[a].node, kernels[n] = f->v[a].kernel;
    if ((s->chain = gg_chain_new(f->v[i].n, nodes, kernels))) {
        s->run = gg_chain_run, s->cost = (float)f->v[i].cost;
        return;
    }
    for (int a = f->v[i].before; a >= 0; a = f->v[a].before) f->v[a].into = -1;
}

void gg_fuse(gg_plan *plan) {
    const int n = plan->n_steps;
    int last = -1, kept = 0;                            /* last: the last step that stands */
    const fusing f = {plan, n > 1 ? gg_malloc((size_t)n * sizeof *f.v) : NULL};
    if (!f.v) return;
    for (int i = 0; i < n; i++) {
        member *const m = &f.v[i];
        m->node = m->result = plan->steps[i].node, m->kernel = (gg_row_kernel){.tile = NULL}, m->examined = false;
        m->into = m->before = -1;
        if (last >= 0 && has_tail(f.v[last].node->op) && take(&f, last, i)) {
            m->examined = true;                         /* it is in no chain */
            continue;
        }
        if (plan->request.kernels->rows[m->node->op]) join_sources(&f, i);
        last = i;
    }
    for (int i = n - 1; i >= 0; i--)
        if (f.v[i].into < 0 && f.v[i].before >= 0) make_chain(&f, i);
    for (int i = 0; i < n; i++)
        if (f.v[i].into < 0) plan->steps[kept++] = plan->steps[i];
    plan->n_steps = kept;
    free(f.v);
}
void gg_fused_free(gg_step *step) {
    free(step->chain);
    if (step->owned) free(step->node);
}
