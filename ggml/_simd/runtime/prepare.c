/* Prepared graphs: a table by the address of the graph. */
#include "prepare.h"
#include "clones.h"
#include "op_info.h"
#include "pages.h"
#include <stdlib.h>

enum { BUCKETS = 256, MOST_GRAPHS = 512, LONGEST_WAIT = 64, MOST_MOVED = 16 };
static const size_t MOST_BYTES = (size_t)128 << 20;

/* The fields of a tensor from `type` to `data`: what a computation depends on. */
enum { SNAPSHOT_BYTES = offsetof(ggml_tensor, name) };
_Static_assert(SNAPSHOT_BYTES % 64 == 0 && offsetof(ggml_tensor, data) < SNAPSHOT_BYTES, "fields of a snapshot");
typedef struct gg_snapshot { char bytes[SNAPSHOT_BYTES]; } gg_snapshot;
typedef struct gg_held { gg_region *region; const uint8_t *base; uint64_t serial; } gg_held;

static gg_prepared *table[BUCKETS];
static size_t n_graphs, n_bytes;
static uint64_t entered;        /* graphs that were entered so far: the clock of `used` */
/* Each is of a part of the table, and of the fields of its entries that no thread uses (busy). The last one is of the
 * whole: a thread that enters or unlinks takes it first. */
enum { LOCKS = 16 };
static gg_lock_apart locks[LOCKS + 1];
static gg_lock *const change = &locks[LOCKS].lock;
GG_OPEN_AFTER_FORK(locks)

static size_t place(const ggml_cgraph *g) { return ((uintptr_t)g >> 4) * 0x9e3779b97f4a7c15u >> 56; }
static gg_prepared **bucket(const ggml_cgraph *g) { return &table[place(g)]; }
static gg_lock *lock_of(const ggml_cgraph *g) { return &locks[place(g) % LOCKS].lock; }
static size_t bytes_now(void) {
#ifdef GG_FREE_THREADED
    return __atomic_load_n(&n_bytes, __ATOMIC_RELAXED);
#else
    return n_bytes;
#endif
}
static void count_bytes(size_t more) {      /* or less: modulo 2^64 */
#ifdef GG_FREE_THREADED
    __atomic_fetch_add(&n_bytes, more, __ATOMIC_RELAXED);
#else
    n_bytes += more;
#endif
}
static gg_prepared *lookup(const ggml_cgraph *g) {
    gg_prepared *p = *bucket(g);
    while (p && p->graph != g) p = p->next;
    return p;
}

/* ---- forgetting -------------------------------------------------------------------------------------------------- */
/* Frees what was prepared; the entry stays. */
static void discard(gg_prepared *p) {
    for (int i = 0; i < 2; i++) gg_plan_free(&p->plans[i]), p->plans[i] = (gg_plan){.n_steps = 0};
    free(p->nodes), free(p->tensors), free(p->snapshots), free(p->regions);
    p->nodes = p->tensors = NULL, p->snapshots = NULL, p->regions = NULL;
    p->n_nodes = 0, p->n_tensors = p->n_regions = 0, p->outside = false;
    count_bytes(-p->bytes);
    p->bytes = 0;
}
static void unlink_entry(gg_prepared *p) {
    gg_lock *const lock = lock_of(p->graph);
    gg_lock_take(lock);
    gg_prepared **at = bucket(p->graph);
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    n_graphs--;
    const bool busy = p->forgotten = p->busy;
    gg_lock_open(lock);
    if (busy) return;                       /* freed by the thread that uses it */
    discard(p);
    free(p);
}
/* Drops the prepared forms of graphs that lie in this range. */
static void prepared_forget(const gg_region *region) {
    gg_lock_take(change);
    for (int i = 0; i < BUCKETS && n_graphs; i++)
        for (gg_prepared *p = table[i], *next; p; p = next) {
            next = p->next;
            if ((uintptr_t)p->graph - (uintptr_t)region->base < region->size) unlink_entry(p);
        }
    gg_lock_open(change);
}
/* Makes room for another graph by dropping those that were not used for the longest time. */
static bool make_room(size_t bytes, const gg_prepared *keep) {
    if (bytes > MOST_BYTES) return false;
    while (n_graphs > MOST_GRAPHS || bytes_now() + bytes > MOST_BYTES) {
        gg_prepared *oldest = NULL;
        for (int i = 0; i < BUCKETS; i++) {
            gg_lock_take(&locks[i % LOCKS].lock);
            for (gg_prepared *p = table[i]; p; p = p->next)
                if (p != keep && !p->busy && (!oldest || p->used < oldest->used)) oldest = p;
            gg_lock_open(&locks[i % LOCKS].lock);
        }
        if (!oldest) return false;
        unlink_entry(oldest);
    }
    return true;
}

/* ---- preparing --------------------------------------------------------------------------------------------------- */
static bool computes(const ggml_tensor *t) { return t->flags & GGML_TENSOR_FLAG_COMPUTE && gg_op_computes(t->op); }

/* Collects tensors, each once. `seen` is a hash table of n_seen slots, a power of two, twice as large as needed. */
typedef struct { ggml_tensor **v; size_t n; ggml_tensor **seen; size_t n_seen; } collection;
static void collect(collection *c, ggml_tensor *t) {
    size_t at = ((uintptr_t)t >> 4) * 0x9e3779b97f4a7c15u >> 20 & (c->n_seen - 1);
    while (c->seen[at] && c->seen[at] != t) at = (at + 1) & (c->n_seen - 1);
    if (!c->seen[at]) c->v[c->n++] = c->seen[at] = t;
}
/* All nodes, and the sources of those that compute. Those whose data is used come first; *n_data is their number. */
static bool collect_tensors(const gg_prepared *p, collection *c, size_t *n_data) {
    size_t most = (size_t)p->n_nodes;
    for (int i = 0; i < p->n_nodes; i++)
        for (int k = 0; k < GGML_MAX_SRC && computes(p->nodes[i]); k++) most += p->nodes[i]->src[k] != NULL;
    for (c->n_seen = 16; c->n_seen < 2 * most;) c->n_seen *= 2;
    c->v = gg_malloc((most + 1) * sizeof *c->v), c->seen = gg_calloc(c->n_seen, sizeof *c->seen);
    if (!c->v || !c->seen) return false;
    for (int i = 0; i < p->n_nodes; i++) {
        ggml_tensor *const t = p->nodes[i];
        if (!computes(t)) continue;
        collect(c, t);
        for (int k = 0; k < GGML_MAX_SRC; k++)
            if (t->src[k]) collect(c, t->src[k]);
    }
    *n_data = c->n;
    for (int i = 0; i < p->n_nodes; i++) collect(c, p->nodes[i]);
    return true;
}
static bool outside(const ggml_tensor *t) { return !gg_is_empty(t) && !gg_data_ok(t); }
static gg_snapshot snapshot(const ggml_tensor *t) {
    gg_snapshot s;
    memcpy(&s, t, sizeof s);
    return s;
}
static bool keep_tensors(gg_prepared *p) {
    collection c = {.n = 0};
    const bool collected = collect_tensors(p, &c, &p->n_data);
    free(c.seen);
    p->tensors = c.v, p->n_tensors = c.n;
    if (!collected || !(p->snapshots = gg_malloc((c.n + 1) * sizeof *p->snapshots))) return false;
    for (size_t i = 0; i < c.n; i++) p->snapshots[i] = snapshot(c.v[i]);
    for (size_t i = 0; i < p->n_data; i++) p->outside |= outside(c.v[i]);
    return true;
}
static bool keep_regions(gg_prepared *p) {
    gg_pins pins = {.n = 0};
    p->epoch = gg_region_epoch();                       /* first: a region may be freed meanwhile */
    bool kept = gg_pin(&pins, p->nodes, p->n_nodes) && (p->regions = gg_malloc((pins.n + 1) * sizeof *p->regions));
    for (size_t i = 0; kept && i < pins.n; i++) {
        gg_region *const r = pins.v[i];
        kept = !gg_region_freed(r);                     /* memory that only views keep is not worth the trouble */
        p->regions[p->n_regions++] = (gg_held){.region = r, .base = r->base, .serial = r->serial};
    }
    gg_unpin(&pins);
    return kept;
}
static bool prepare(gg_prepared *p, const ggml_cgraph *g, int n) {
    if (!(p->nodes = gg_malloc(((size_t)n + 1) * sizeof *p->nodes))) return false;
    memcpy(p->nodes, g->nodes, (size_t)n * sizeof *p->nodes);
    p->n_nodes = n;
    return keep_tensors(p) && keep_regions(p);
}
static void enter(const ggml_cgraph *g) {
    gg_prepared *const p = make_room(0, NULL) ? gg_calloc(1, sizeof *p) : NULL;
    if (!p) return;
    __atomic_store_n(&entered, entered + 1, __ATOMIC_RELAXED);
    *p = (gg_prepared){.graph = g, .next = *bucket(g), .wait = 1, .used = entered};
    gg_lock_take(lock_of(g));
    *bucket(g) = p;
    gg_lock_open(lock_of(g));
    n_graphs++;
    __atomic_store_n(&gg_on_release, prepared_forget, __ATOMIC_RELEASE);
}
/* Ends the use of an entry by this thread. */
static void let_go(gg_prepared *p) {
    p->busy = false;
    if (!p->forgotten) return;
    discard(p);
    free(p);
}
gg_prepared *gg_prepared_note(const ggml_cgraph *g, int n) {
    for (int i = 0; i < n; i++)                         /* a callback may change the nodes after its own */
        if (gg_op(g->nodes[i]->op)->flags & GG_FLAG_CALLBACK) return NULL;
    gg_lock_take(change);
    gg_prepared *p = lookup(g);
    if (!p) enter(g);
    gg_lock_take(lock_of(g));
    gg_lock_open(change);
    const bool often = p && !p->busy && !p->snapshots && ++p->seen >= p->wait;
    if (often) p->busy = true;
    gg_lock_open(lock_of(g));
    if (!often) return NULL;
    bool prepared = prepare(p, g, n);
    if (prepared) {
        p->bytes = (size_t)p->n_nodes * (sizeof *p->nodes + 2 * sizeof(gg_step))
            + p->n_tensors * (2 * sizeof(void *) + sizeof(gg_snapshot));
        count_bytes(p->bytes);
        gg_lock_take(change);
        prepared = make_room(0, p);
        gg_lock_open(change);
    }
    if (prepared) return p;
    gg_lock_take(lock_of(g));
    discard(p), p->seen = 0, let_go(p);
    gg_lock_open(lock_of(g));
    return NULL;
}

/* ---- using ------------------------------------------------------------------------------------------------------- */
GG_VECTORS static bool unchanged(ggml_tensor *const *tensors, const gg_snapshot *snapshots, size_t n) {
    typedef long long part __attribute__((vector_size(64), aligned(8), may_alias));
    part difference = {0};
    int64_t any = 0;
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < SNAPSHOT_BYTES / 64; k++)
            difference |= ((const part *)tensors[i])[k] ^ ((const part *)&snapshots[i])[k];
    for (int k = 0; k < 8; k++) any |= difference[k];
    return !any;
}
static bool regions_live(gg_prepared *p) {
    const uint64_t epoch = gg_region_epoch();
    if (p->epoch == epoch) return true;
    for (size_t i = 0; i < p->n_regions; i++) {
        const gg_held *const h = &p->regions[i];
        bool found = false;
        for (int kind = 0; kind < GG_REGION_KINDS && !found; kind++) {
            const gg_region *const r = gg_region_find(kind, h->base);
            found = r && r == h->region && r->serial == h->serial;
        }
        if (!found) return false;
    }
    p->epoch = epoch;
    return true;
}
/* Memory that is not registered may have been freed. */
static bool still_readable(const gg_prepared *p) {
    for (size_t i = 0; p->outside && i < p->n_data; i++) {
        const ggml_tensor *const t = p->tensors[i];
        if (outside(t) && (gg_region_of_data(t->data) || gg_region_stale(t->data)
                           || !gg_readable(t->data, gg_nbytes(t)))) return false;
    }
    return true;
}
/* Finds the tensors whose `data` has changed, and returns how many they are. -1: another field has changed, or a node
 * that computes, or more than MOST_MOVED tensors. */
static int find_moved(const gg_prepared *p, ggml_tensor **operands) {
    int n = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        ggml_tensor *const t = p->tensors[i];
        gg_snapshot before = p->snapshots[i];
        if (!memcmp(&before, t, sizeof before)) continue;
        memcpy(before.bytes + offsetof(ggml_tensor, data), &t->data, sizeof t->data);
        if (n == MOST_MOVED || computes(t) || memcmp(&before, t, sizeof before)) return -1;
        operands[n++] = t;
    }
    return n;
}
/* A node that computes something writes to where t lies, or may. */
static bool written(const gg_prepared *p, const ggml_tensor *t) {
    const uintptr_t lo = (uintptr_t)t->data, hi = lo + gg_nbytes(t);
    bool found = false;
    for (int i = 0; i < p->n_nodes && !found; i++) {
        const ggml_tensor *const x = p->nodes[i];
        if (!computes(x)) continue;
        found = lo < (uintptr_t)x->data + gg_nbytes(x) && (uintptr_t)x->data < hi;
        found |= (gg_op(x->op)->flags & GG_FLAG_STEP) != 0;
    }
    return found;
}
/* t lies in a range that is held. */
static bool is_held(const gg_prepared *p, const ggml_tensor *t) {
    bool found = false;
    for (size_t i = 0; i < p->n_regions && !found; i++) {
        const gg_held *const h = &p->regions[i];
        const size_t at = (size_t)((uintptr_t)t->data - (uintptr_t)h->base), size = h->region->size;
        found = at <= size && gg_nbytes(t) <= size - at;
    }
    return found;
}
/* Adapts to operands that callers put into other memory. False: more has changed, or the graph has to be checked. */
static bool follow(gg_prepared *p) {
    ggml_tensor *operands[MOST_MOVED];
    const int n = find_moved(p, operands);
    bool good = n >= 0;
    for (int i = 0; i < n && good; i++) {
        const bool apart = outside(operands[i]);
        p->outside |= apart;
        good = operands[i]->data && (apart || is_held(p, operands[i])) && !written(p, operands[i]);
    }
    if (!good || !still_readable(p)) return false;
    for (int i = 0; i < 2; i++)
        if (p->plans[i].request.kernels && !gg_plan_move(&p->plans[i], operands, n)) return false;
    for (size_t i = 0; i < p->n_tensors; i++) p->snapshots[i] = snapshot(p->tensors[i]);
    return true;
}
static bool valid(gg_prepared *p, const ggml_cgraph *g) {
    if (g->n_nodes != p->n_nodes || memcmp(g->nodes, p->nodes, (size_t)p->n_nodes * sizeof *p->nodes)
        || !regions_live(p)) return false;
    return unchanged(p->tensors, p->snapshots, p->n_tensors) ? still_readable(p) : follow(p);
}
gg_prepared *gg_prepared_find(const ggml_cgraph *g) {
    gg_lock *const lock = lock_of(g);
    gg_lock_take(lock);
    gg_prepared *const p = lookup(g);
    const bool usable = p && !p->busy && p->snapshots;
    if (usable) p->busy = true, p->used = __atomic_load_n(&entered, __ATOMIC_RELAXED);
    gg_lock_open(lock);
    if (!usable || valid(p, g)) return usable ? p : NULL;
    gg_lock_take(lock);
    discard(p);                                         /* graphs that change often are prepared less often */
    p->seen = 0;
    if (p->wait < LONGEST_WAIT) p->wait *= 2;
    let_go(p);
    gg_lock_open(lock);
    return NULL;
}
bool gg_prepared_begin(gg_prepared *p, gg_call *call, gg_pins *pins) {
    gg_plan_request request = gg_call_request(call);
    const gg_plan *plan = NULL;
    request.kept = true;
    for (int i = 0; i < 2 && !plan; i++)
        if (p->plans[i].request.kernels && gg_plan_serves(&p->plans[i], &request)) plan = &p->plans[i];
    if (!plan) {
        gg_plan *const made = &p->plans[p->older];
        gg_plan_free(made);
        if (!gg_plan_make(made, p->nodes, p->n_nodes, &request)) {
            made->request.kernels = NULL;
            gg_prepared_end(p);
            return false;
        }
        p->older = !p->older;
        plan = made;
    }
    if (!(pins->v = gg_malloc((p->n_regions + 1) * sizeof *pins->v))) { gg_prepared_end(p); return false; }
    for (size_t i = 0; i < p->n_regions; i++) {
        gg_region_view(p->regions[i].region, 1);
        pins->v[pins->n++] = p->regions[i].region;
    }
    call->nodes = p->nodes, call->n_nodes = p->n_nodes, call->plan = plan;
    return true;
}
void gg_prepared_end(gg_prepared *p) {
    gg_lock *const lock = lock_of(p->graph);
    gg_lock_take(lock);
    let_go(p);
    gg_lock_open(lock);
}
