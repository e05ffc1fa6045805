/* Plans of compute calls: what nodes cost, which are shared between threads, where barriers are. */
#include "plan.h"
#include "chain.h"
#include "custom_layout.h"
#include "dispatch.h"
#include "fuse.h"
#include "op_info.h"
#include "pages.h"
#include "threads.h"
#include "../quants/quantize.h"
#include <stdlib.h>

/* Threads are started if the nodes of a call cost CALL_COST ns. */
enum { CALL_COST = 6000, PENDING = 16, GG_PRODUCTS_PER_NS = 25 };

/* Work memory has two slots, so that a product may pack its operand while threads still read that of the one before. */
enum { SLOTS = 2 };

/* Estimates the time of a node on one thread in ns, by the cost model of its operation (tables/ops.h). */
static double node_cost(const gg_op_info *op, const ggml_tensor *t) {
    const double n = (double)gg_nelements(t), a = t->src[0] ? (double)gg_nelements(t->src[0]) : 0;
    double most = n;
    switch (op->cost_model) {
    case GG_COST_FREE: return 0;
    case GG_COST_PER_RESULT: return n * op->cost / 64;
    case GG_COST_PER_SOURCE: return a * op->cost / 64;
    case GG_COST_PER_PRODUCT: return n * (double)t->src[0]->ne[op->cost] / GG_PRODUCTS_PER_NS;
    case GG_COST_PER_ELEMENT:
        for (int i = 0; i < 3; i++)
            if (t->src[i] && (double)gg_nelements(t->src[i]) > most) most = (double)gg_nelements(t->src[i]);
        return most * op->cost / 64;
    default: return 1e9;                                /* no estimate: always shared */
    }
}
static bool has_flag(const ggml_tensor *t, uint32_t flags) { return gg_op(t->op)->flags & flags; }
static bool runs(const ggml_tensor *t) {
    return t->flags & GGML_TENSOR_FLAG_COMPUTE && gg_op_computes(t->op) && !gg_is_empty(t);
}
static int node_threads(const ggml_tensor *t, double cost, int n) {
    const bool calls = t->op == GGML_OP_COMPILED || has_flag(t, GG_FLAG_CALLBACK);
    if (n > 1 && calls && gg_custom_tasks(t, n) < n) return gg_custom_tasks(t, n);
    return gg_worth_sharing(cost, n) ? n : 1;
}
int gg_until_callback(ggml_tensor **nodes, int n) {
    for (int i = 0; i < n; i++)
        if (has_flag(nodes[i], GG_FLAG_CALLBACK) && runs(nodes[i])) return i + 1;
    return n;
}
void *gg_plan_memory(size_t bytes) { return gg_malloc(bytes); }
/* Bytes of work memory that nth threads need for a node; or one, as a team may turn out to be smaller than planned.
 * plan: of the node, or NULL. */
static size_t node_work(const gg_kernels *k, const ggml_tensor *t, const gg_node_plan *plan, int nth) {
    if (plan) return plan->work;
    const gg_work_fn size = k->work[t->op];
    return size ? (size_t)gg_max((int64_t)size(t, nth), (int64_t)size(t, 1)) : 0;
}
static size_t slot_size(size_t bytes) { return (bytes + 63) / 64 * 64; }
static size_t work_size(const gg_kernels *k, ggml_tensor **nodes, int n, int n_threads) {
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        const gg_plan_fn choose = k->plan[nodes[i]->op];
        if (!runs(nodes[i]) || (!k->work[nodes[i]->op] && !choose)) continue;
        const int threads = node_threads(nodes[i], node_cost(gg_op(nodes[i]->op), nodes[i]), n_threads);
        gg_node_plan *const plan = choose ? choose(k, nodes[i], threads) : NULL;
        const size_t w = node_work(k, nodes[i], plan, threads);
        free(plan);
        if (w > most) most = w;
    }
    return most ? SLOTS * slot_size(most) + 64 : 0;
}
const char *gg_algorithm_of(ggml_tensor *node) {
    const gg_kernels *const k = gg_isa_active();
    gg_node_plan *const plan = k->plan[node->op] && !gg_is_empty(node) ? k->plan[node->op](k, node, 1) : NULL;
    const char *const name = plan ? plan->algorithm : NULL;
    free(plan);
    return name;
}
size_t gg_work_size(ggml_tensor **nodes, int n, int n_threads) {
    const size_t active = work_size(gg_isa_active(), nodes, n, n_threads);
    const size_t reference = work_size(gg_isa_kernels(GG_ISA_REFERENCE), nodes, n, n_threads);
    return active > reference ? active : reference;
}

typedef struct { uintptr_t lo, hi; } span;
typedef struct { span v[PENDING * 4]; int n; bool full; } spans;
static span span_of(const ggml_tensor *t) { return (span){(uintptr_t)t->data, (uintptr_t)t->data + gg_nbytes(t)}; }
static void remember(spans *s, span x) {
    if (s->n == PENDING * 4) s->full = true; else s->v[s->n++] = x;
}
static bool touches(const spans *s, span x) {
    if (s->full) return true;
    for (int i = 0; i < s->n; i++)
        if (x.lo < s->v[i].hi && s->v[i].lo < x.hi) return true;
    return false;
}
/* What steps read and write, and the slots that they use, since the last barrier. */
typedef struct { spans reads, writes; unsigned slots; } pending;
static bool writes_any(const ggml_tensor *t) {          /* memory other than its own */
    return has_flag(t, GG_FLAG_CALLBACK | GG_FLAG_STEP);
}
static int n_nodes(const gg_step *s) { return s->chain ? s->chain->n : 1; }
static const ggml_tensor *node_of(const gg_step *s, int i) { return s->chain ? s->chain->links[i].node : s->node; }
static bool computes(const gg_step *s, const ggml_tensor *t) {
    for (int i = 0; i < n_nodes(s); i++)
        if (node_of(s, i) == t) return true;
    return false;
}
static bool clashes(const pending *p, const gg_step *s) {
    bool clash = false;
    for (int i = 0; i < n_nodes(s) && !clash; i++) {
        const ggml_tensor *const t = node_of(s, i);
        clash = writes_any(t) || touches(&p->reads, span_of(t)) || touches(&p->writes, span_of(t));
        for (int j = 0; j < GGML_MAX_SRC && !clash; j++)
            if (t->src[j]) clash = touches(&p->writes, span_of(t->src[j]));
    }
    return clash;
}
static void await(pending *p, const gg_step *s, bool works) {
    if (works) p->slots |= 1u << s->slot;
    for (int i = 0; i < n_nodes(s); i++) {
        const ggml_tensor *const t = node_of(s, i);
        remember(&p->writes, span_of(t));
        if (writes_any(t)) p->writes.full = true;
        for (int j = 0; j < GGML_MAX_SRC; j++)
            if (t->src[j] && !computes(s, t->src[j])) remember(&p->reads, span_of(t->src[j]));
    }
}
/* The products whose packed second operand the slots hold; NULL: none. */
typedef struct { const gg_step *of[SLOTS]; } packs;
static bool packed_alike(const gg_step *a, const gg_step *b) {
    return a && a->node->op == GGML_OP_MUL_MAT && b->node->op == GGML_OP_MUL_MAT && a->threads == b->threads
        && a->node->src[1] == b->node->src[1] && a->node->src[0]->type == b->node->src[0]->type
        && mul_mat_params(a->node)->prec == mul_mat_params(b->node)->prec
        && mul_mat_params(a->node)->whole == mul_mat_params(b->node)->whole;
}
/* Chooses the slot of a step that uses work memory; true: it must wait for one. */
static bool choose_slot(gg_step *s, const pending *p, packs *held) {
    for (s->slot = 0; s->slot < SLOTS; s->slot++)
        if ((s->packed = packed_alike(held->of[s->slot], s))) return false;
    for (s->slot = 0; s->slot < SLOTS - 1 && p->slots >> s->slot & 1;) s->slot++;
    held->of[s->slot] = s;
    return p->slots >> s->slot & 1;
}
/* Packed operands are of no use once the tensor has changed. */
static void note_writes(packs *held, const gg_step *s) {
    for (int i = 0; i < SLOTS; i++) {
        const ggml_tensor *const b = held->of[i] ? held->of[i]->node->src[1] : NULL;
        const span y = b ? span_of(b) : (span){0, 0};
        for (int k = 0; held->of[i] && k < n_nodes(s); k++) {
            const span x = span_of(node_of(s, k));
            if (writes_any(node_of(s, k)) || (x.lo < y.hi && y.lo < x.hi)) held->of[i] = NULL;
        }
    }
}
/* Bytes of work memory that a step needs; chains never do. */
static size_t step_work(const gg_kernels *k, const gg_step *s) {
    return s->chain ? 0 : node_work(k, s->node, s->plan, s->threads);
}
/* Decides where the threads wait, and returns whether there is enough to share. A barrier precedes a node that reads or
 * writes what an unfinished node writes, or writes what one reads. Consecutive nodes on one thread need no barrier. */
static bool arrange(gg_plan *plan) {
    const gg_kernels *const k = plan->request.kernels;
    pending p = {.slots = 0};
    packs held = {{NULL}};
    const gg_step *product = NULL;                      /* the last one */
    bool others = false;
    double shared = 0;
    for (gg_step *s = plan->steps, *end = s + plan->n_steps; s < end; s++) {
        const ggml_tensor *t = s->node;
        const bool split = s->threads > 1, works = step_work(k, s);
        if (split) shared += s->cost;
        const bool taken = works && choose_slot(s, &p, &held), clash = taken || clashes(&p, s);
        note_writes(&held, s);
        if (t->op == GGML_OP_MUL_MAT) {                 /* products of one matrix alternate their direction */
            s->down = product && product->node->src[0]->data == t->src[0]->data && !product->down;
            product = s;
        }
        if (plan->request.sync_all || (clash && (split || others)))
            s->sync = true, p = (pending){.slots = 0}, others = false;
        others |= split;                                /* a thread other than the first may be working */
        await(&p, s, works);
    }
    return shared >= CALL_COST;
}

/* More threads than processors would only wait for each other. Asking how many there are takes time. */
static int available(const gg_plan *plan, const gg_plan_request *request) {
    if (request->n_threads <= 1 || plan->cost < CALL_COST) return 1;
    return (int)gg_min(request->n_threads, gg_default_threads());
}
bool gg_plan_make(gg_plan *plan, ggml_tensor *const *nodes, int n, const gg_plan_request *request) {
    const gg_kernels *const k = request->kernels;
    double cost = 0;
    int64_t slots = 1;
    *plan = (gg_plan){.request = *request, .threads = 1};
    if (n && !(plan->steps = gg_malloc((size_t)n * sizeof *plan->steps))) return false;
    for (int i = 0; i < n; i++) {
        ggml_tensor *const t = nodes[i];
        if (!runs(t)) continue;
        gg_step *const s = &plan->steps[plan->n_steps++];
        *s = (gg_step){.run = k->op[t->op], .node = t, .index = i, .threads = 1};
        s->cost = (float)node_cost(gg_op(t->op), t);
        cost += s->cost;
        plan->calls_back |= has_flag(t, GG_FLAG_CALLBACK);
        if (gg_types[t->type].quantized && !gg_quantizer_ready(t->type)) { gg_plan_free(plan); return false; }
    }
    plan->cost = cost;
    plan->available = available(plan, request);
    if (request->fuse) gg_fuse(plan);
    for (gg_step *s = plan->steps, *end = s + plan->n_steps; s < end; s++) {
        const gg_plan_fn choose = s->chain ? NULL : k->plan[s->node->op];
        s->threads = node_threads(s->node, s->cost, plan->available);
        if (choose && !(s->plan = choose(k, s->node, s->threads))) { gg_plan_free(plan); return false; }
    }
    if (plan->available > 1 && arrange(plan)) plan->threads = plan->available;
    for (gg_step *s = plan->steps, *end = s + plan->n_steps; s < end; s++) {
        if (plan->threads == 1) s->threads = 1, s->slot = 0, s->packed = false;
        const size_t work = step_work(k, s);
        if (work) plan->slot_size = gg_max(plan->slot_size, slot_size(work)), slots = gg_max(slots, s->slot + 1);
    }
    for (gg_step *s = plan->steps + plan->n_steps, *next = NULL; s-- > plan->steps;) {
        s->next = next;
        if (s->chain || s->node->op != GGML_OP_MUL_MAT) continue;
        s->pieces = k->product_pieces(k, s->node, s->threads);
        if (s->pieces.n) next = s;
    }
    if (plan->slot_size) plan->work_size = slots * plan->slot_size + 64;        /* for alignment */
    return true;
}
static bool reads(const gg_step *s, ggml_tensor *const *operands, int n) {
    for (int i = 0; i < n_nodes(s); i++)
        for (int k = 0; k < GGML_MAX_SRC; k++)
            for (int j = 0; j < n; j++)
                if (node_of(s, i)->src[k] == operands[j]) return true;
    return false;
}
bool gg_plan_move(gg_plan *plan, ggml_tensor *const *operands, int n) {
    const gg_kernels *const k = plan->request.kernels;
    for (gg_step *s = plan->steps, *end = s + plan->n_steps; s < end; s++) {
        if (!reads(s, operands, n)) continue;
        if (s->chain) gg_chain_place(s->chain);
        if (s->plan) {                                  /* with as many threads as it was made for */
            const int threads = node_threads(s->node, s->cost, plan->available);
            gg_node_plan *const made = k->plan[s->node->op](k, s->node, threads);
            if (!made) return false;
            free(s->plan);
            s->plan = made;
            if (made->work > plan->slot_size) return false;
        }
        if (s->pieces.n) s->pieces = k->product_pieces(k, s->node, s->threads);
    }
    return true;
}
bool gg_plan_serves(const gg_plan *plan, const gg_plan_request *request) {
    const gg_plan_request *const made = &plan->request;
    return made->kernels == request->kernels && made->n_threads == request->n_threads
        && made->sync_all == request->sync_all && made->fuse == request->fuse
        && plan->available == available(plan, request);
}
void gg_plan_free(gg_plan *plan) {
    for (int i = 0; i < plan->n_steps; i++) free(plan->steps[i].plan), gg_fused_free(&plan->steps[i]);
    free(plan->steps);
    plan->steps = NULL, plan->n_steps = 0;
}
int gg_count_steps(ggml_tensor *const *nodes, int n, int n_threads, bool kept) {
    const gg_plan_request request = {.kernels = gg_isa_active(), .n_threads = n_threads,
                                     .fuse = gg_fuse_enabled(), .kept = kept};
    gg_plan plan;
    if (!gg_plan_make(&plan, nodes, n, &request)) return -1;
    const int steps = plan.n_steps;
    gg_plan_free(&plan);
    return steps;
}
