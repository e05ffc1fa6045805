/* Graphs in an arena: layout, the hash set of visited tensors, expansion in dependency order. */
#include "memory.h"
#include <stdlib.h>

/* Sizes of hash tables: those of the C library, so that a graph takes the bytes that programs reserve for it. */
static const size_t primes[] = {
    2, 3, 5, 11, 17, 37, 67, 131, 257, 521, 1031, 2053, 4099, 8209, 16411, 32771, 65537, 131101, 262147, 524309,
    1048583, 2097169, 4194319, 8388617, 16777259, 33554467, 67108879, 134217757, 268435459, 536870923, 1073741827,
    2147483659,
};
size_t gg_hash_size(size_t min) {
    for (size_t i = 0; i < sizeof primes / sizeof *primes; i++)
        if (primes[i] >= min) return primes[i];
    return min | 1;
}
static size_t bitset_words(size_t n) { return (n + 31) / 32; }

bool gg_hash_used(const ggml_hash_set *h, size_t i) { return h->used[i / 32] >> (i % 32) & 1; }

size_t gg_hash_find(const ggml_hash_set *h, const ggml_tensor *key) {
    if (!h->size) return SIZE_MAX;
    const uint32_t mixed = (uint32_t)((uintptr_t)key >> 4) * 0x9E3779B1u;   /* Fibonacci hashing */
    size_t i = (size_t)((uint64_t)mixed * h->size >> 32), left = SIZE_MAX;   /* left: a slot that forget() released */
    for (size_t n = 0; n < h->size; n++) {
        if (!gg_hash_used(h, i)) return left != SIZE_MAX ? left : i;
        if (h->keys[i] == key) return i;
        if (!h->keys[i] && left == SIZE_MAX) left = i;
        if (++i == h->size) i = 0;
    }
    return left;
}
bool gg_hash_contains(const ggml_hash_set *h, const ggml_tensor *key) {
    const size_t i = gg_hash_find(h, key);
    return i != SIZE_MAX && gg_hash_used(h, i) && h->keys[i] == key;
}

/* The arrays follow the struct in this order: nodes, leafs, use counts, hash keys, gradients, accumulators, bit set. */
size_t gg_graph_nbytes(size_t size, bool grads) {
    if (size > INT32_MAX / 4) return 0;
    const size_t slots = gg_hash_size(2 * size);
    size_t at = sizeof(ggml_cgraph) + 2 * size * sizeof(void *) + slots * sizeof(int32_t);
    at = ((at + 7) & ~(size_t)7) + slots * sizeof(void *) * (grads ? 3 : 1);
    return at + bitset_words(slots) * sizeof(uint32_t);
}
ggml_cgraph *gg_graph_new(ggml_context *ctx, size_t size, bool grads, size_t *need) {
    const size_t bytes = gg_graph_nbytes(size, grads), slots = gg_hash_size(2 * size);
    *need = (size_t)-1;
    if (!bytes) return NULL;
    ggml_object *o = gg_context_object(ctx, GGML_OBJECT_TYPE_GRAPH, bytes, need);
    if (!o) return NULL;
    ggml_cgraph *g = (ggml_cgraph *)(o + 1);
    memset(g, 0, sizeof *g);
    uint8_t *p = (uint8_t *)(g + 1);
    g->size = (int32_t)size;
    g->nodes = (ggml_tensor **)p, p += size * sizeof(void *);
    g->leafs = (ggml_tensor **)p, p += size * sizeof(void *);
    g->use_counts = (int32_t *)p, p += (slots * sizeof(int32_t) + 7) & ~(size_t)7;
    g->visited_hash_set.keys = (ggml_tensor **)p, p += slots * sizeof(void *);
    if (grads) {
        g->grads = (ggml_tensor **)p, p += slots * sizeof(void *);
        g->grad_accs = (ggml_tensor **)p, p += slots * sizeof(void *);
        memset(g->grads, 0, 2 * slots * sizeof(void *));
    }
    g->visited_hash_set.used = (uint32_t *)p;
    g->visited_hash_set.size = slots;
    memset(g->use_counts, 0, slots * sizeof(int32_t));
    memset(g->visited_hash_set.used, 0, bitset_words(slots) * sizeof(uint32_t));
    return g;
}
bool gg_graph_sound(const ggml_cgraph *g) {
    const ggml_hash_set *h = &g->visited_hash_set;
    const size_t room = ((const ggml_object *)g - 1)->size;
    if (g->size < 0 || g->n_nodes < 0 || g->n_nodes > g->size || g->n_leafs < 0 || g->n_leafs > g->size) return false;
    if (g->nodes != (ggml_tensor **)(g + 1) || g->leafs != g->nodes + g->size) return false;
    if (h->size > room || h->size < 2 * (size_t)g->size) return false;
    if (g->use_counts != (int32_t *)(g->leafs + g->size)) return false;
    const uint8_t *p = (const uint8_t *)g->use_counts + ((h->size * sizeof(int32_t) + 7) & ~(size_t)7);
    if ((const uint8_t *)h->keys != p) return false;
    p += h->size * sizeof(void *);
    if (g->grads || g->grad_accs) {
        if ((const uint8_t *)g->grads != p || g->grad_accs != g->grads + h->size) return false;
        p += 2 * h->size * sizeof(void *);
    }
    const size_t bits = bitset_words(h->size) * sizeof(uint32_t);
    return (const uint8_t *)h->used == p && (size_t)(p - (const uint8_t *)g) + bits <= room;
}
void gg_graph_clear(ggml_cgraph *g) {
    g->n_nodes = g->n_leafs = 0;
    memset(g->visited_hash_set.used, 0, bitset_words(g->visited_hash_set.size) * sizeof(uint32_t));
    memset(g->use_counts, 0, g->visited_hash_set.size * sizeof(int32_t));
}

static void name_by_number(ggml_tensor *t, const char prefix[5], int n) {
    char digits[12];
    int k = 0, at = 5;
    do digits[k++] = (char)('0' + n % 10); while (n /= 10);
    memcpy(t->name, prefix, 5);
    while (k) t->name[at++] = digits[--k];
    t->name[at] = 0;
}
static int enter(ggml_cgraph *g, ggml_tensor *t, bool compute) {
    const bool leaf = t->op == GGML_OP_NONE && !(t->flags & GGML_TENSOR_FLAG_PARAM);
    int32_t *n = leaf ? &g->n_leafs : &g->n_nodes;
    if (*n >= g->size) return GGML_STATUS_FAILED;
    if (!t->name[0]) name_by_number(t, leaf ? "leaf_" : "node_", *n);
    if (compute && t->op != GGML_OP_NONE) t->flags |= GGML_TENSOR_FLAG_COMPUTE;   /* its sources were entered before */
    (leaf ? g->leafs : g->nodes)[(*n)++] = t;
    return GGML_STATUS_SUCCESS;
}

typedef struct { ggml_tensor *t; int next; } frame;
static GG_OF_THREAD struct { frame *v; size_t cap; } stack;

static bool push(size_t *depth, ggml_tensor *t) {
    if (*depth == stack.cap) {
        const size_t cap = stack.cap ? 2 * stack.cap : 256;
        frame *v = gg_realloc(stack.v, cap * sizeof *v);
        if (!v) return false;
        stack.v = v, stack.cap = cap;
    }
    stack.v[(*depth)++] = (frame){t, 0};
    return true;
}
/* Marks t visited; *slot is its slot in the hash set. Returns 1 if t is new, 0 if it is known, -1 if the set is
 * full. */
static int visit(ggml_cgraph *g, ggml_tensor *t, size_t *slot) {
    *slot = gg_hash_find(&g->visited_hash_set, t);
    if (*slot == SIZE_MAX) return -1;
    if (gg_hash_used(&g->visited_hash_set, *slot) && g->visited_hash_set.keys[*slot] == t) return 0;
    g->use_counts[*slot] = 0;
    g->visited_hash_set.used[*slot / 32] |= 1u << (*slot % 32);
    g->visited_hash_set.keys[*slot] = t;
    return 1;
}

/* Marks root, which was visited before, and its sources for computing; the sources of a marked tensor are marked. */
static int mark(ggml_tensor *root, size_t depth) {
    const size_t floor = depth;
    if (root->op == GGML_OP_NONE || root->flags & GGML_TENSOR_FLAG_COMPUTE) return GGML_STATUS_SUCCESS;
    root->flags |= GGML_TENSOR_FLAG_COMPUTE;
    if (!push(&depth, root)) return GGML_STATUS_ALLOC_FAILED;
    while (depth > floor) {
        frame *f = &stack.v[depth - 1];
        if (f->next == GGML_MAX_SRC) { depth--; continue; }
        ggml_tensor *s = f->t->src[f->next++];
        if (!s || s->op == GGML_OP_NONE || s->flags & GGML_TENSOR_FLAG_COMPUTE) continue;
        s->flags |= GGML_TENSOR_FLAG_COMPUTE;
        if (!push(&depth, s)) return GGML_STATUS_ALLOC_FAILED;
    }
    return GGML_STATUS_SUCCESS;
}

/* The next source of f's tensor that was not visited yet; NULL: none is left, or *st is not SUCCESS. */
static ggml_tensor *next_source(ggml_cgraph *g, frame *f, size_t depth, bool compute, int *st) {
    while (f->next < GGML_MAX_SRC) {
        const int k = f->next++;
        ggml_tensor *s = f->t->src[g->order ? GGML_MAX_SRC - 1 - k : k];
        size_t slot;
        if (!s) continue;
        if (!gg_tensor_live(s)) { *st = GGML_STATUS_ABORTED; return NULL; }
        const int is_new = visit(g, s, &slot);
        if (is_new < 0) { *st = GGML_STATUS_FAILED; return NULL; }
        g->use_counts[slot]++;
        if (is_new) return s;
        if (compute && (*st = mark(s, depth))) return NULL;
        f = &stack.v[depth - 1];                              /* mark() may have moved the stack */
    }
    return NULL;
}
static int expand(ggml_cgraph *g, ggml_tensor *root, bool compute, const ggml_tensor **bad) {
    size_t depth = 0, slot;
    int st = GGML_STATUS_SUCCESS;
    const int is_new = visit(g, root, &slot);
    if (is_new < 0) return GGML_STATUS_FAILED;
    if (!is_new) return compute ? mark(root, 0) : st;
    if (!push(&depth, root)) return GGML_STATUS_ALLOC_FAILED;
    while (depth) {
        ggml_tensor *t = stack.v[depth - 1].t, *s = next_source(g, &stack.v[depth - 1], depth, compute, &st);
        if (st == GGML_STATUS_ABORTED) *bad = t;
        if (st) return st;
        if (s) {
            if (!push(&depth, s)) return GGML_STATUS_ALLOC_FAILED;
        } else {
            if (enter(g, t, compute)) return GGML_STATUS_FAILED;
            depth--;
        }
    }
    return st;
}

/* Removes what a failed expansion entered: only the first tensors of both lists stay. */
static void forget(ggml_cgraph *g, int n_nodes, int n_leafs) {
    ggml_hash_set *h = &g->visited_hash_set;
    for (size_t i = 0; i < h->size; i++) {
        if (!gg_hash_used(h, i)) continue;
        bool stays = false;
        for (int k = 0; k < n_nodes && !stays; k++) stays = g->nodes[k] == h->keys[i];
        for (int k = 0; k < n_leafs && !stays; k++) stays = g->leafs[k] == h->keys[i];
        if (!stays) h->keys[i] = NULL;                    /* the slot stays in use: probing past it must not stop */
    }
    g->n_nodes = n_nodes, g->n_leafs = n_leafs;
}

static gg_lock_apart locks[64];             /* one of them belongs to each graph, and keeps its counts within bounds */
GG_OPEN_AFTER_FORK(locks)

int gg_graph_expand(ggml_cgraph *g, ggml_tensor *root, bool compute, const ggml_tensor **bad) {
    gg_lock *const lock = &locks[((uintptr_t)g >> 4) * 0x9e3779b97f4a7c15u >> 58].lock;
    *bad = NULL;
    gg_lock_take(lock);
    const int n_nodes = g->n_nodes, n_leafs = g->n_leafs;
    const int st = expand(g, root, compute, bad);
    if (st) forget(g, n_nodes, n_leafs);
    gg_lock_open(lock);
#ifdef GG_FREE_THREADED
    free(stack.v), stack.v = NULL, stack.cap = 0;           /* the thread may end */
#endif
    return st;
}
