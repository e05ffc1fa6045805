/* Regions and contexts. */
#include "memory.h"
#include "op_info.h"
#include "poison.h"
#include <stdatomic.h>
#include <stdlib.h>
#ifndef _WIN32
#include <pthread.h>
#endif

/* ---- shards ------------------------------------------------------------------------------------------------------ */
/* Without a GIL the ranges and contexts that a thread makes are in a shard of this thread, or of a few, with locks, and
 * cache lines, of its own: threads that make and free contexts of their own do not wait for each other. Memory of
 * callers is in the first shard. With a GIL there is one for all. */
#ifdef GG_FREE_THREADED
enum { SHARDS = 9, SHARES = 4 };                /* SHARES: how many times the limit of all the limit of a shard goes */
#else
enum { SHARDS = 1, SHARES = 1 };
#endif
enum { CALLERS, QUARANTINE = 1024, DEAD = 4096, LEAVING = 32 };
typedef struct {
    /* A thread in a section may enter ranges and contexts, and look them up; only one that is alone takes them out, so
     * that what was looked up stays. The lock is for the arrays, which are sorted by address. */
    _Alignas(GG_APART) gg_lock registry;
    struct { gg_region **v; size_t n, cap; } live[GG_REGION_KINDS];
    struct { ggml_context **v; size_t n, cap; } contexts;
    uint64_t changes;                           /* how often something was taken out */
    uint64_t serials, epoch;
    /* Handles come from malloc. A freed one is kept until 4096 others have been freed, so that no new context gets its
     * address soon. */
    ggml_context *dead[DEAD];
    size_t n_dead;
    /* Small contexts that have left while other threads shared the section, and may have looked them up. */
    struct { ggml_context *ctx; uint64_t time; } leaving[LEAVING];
    int n_leaving;

    /* Freed arenas, oldest first. Their addresses stay reserved for a while, and the oldest are released first. An
     * arena with views stays until the last view is released. Any thread whose allocation fails calls
     * release_reserved, so a lock of its own protects the list and the regions in it. */
    _Alignas(GG_APART) atomic_flag busy;
    gg_region *oldest, **newest;                /* newest: the last field `next`; NULL: &oldest */
    gg_region *by_address[QUARANTINE + 1];      /* the same, sorted */
    size_t q_len, q_bytes;                      /* q_bytes: of regions without views */
    /* Those that have left it. Without a GIL they are unmapped when a context is made, outside of sections, for whose
     * end others wait. */
    gg_region *departed;
    size_t n_departed;
} shard;
static shard shards[SHARDS];

/* Each shard, for i from 0 to SHARDS - 1: that of memory of callers, which may lie in ranges of others, that of this
 * thread, the others. */
static shard *nth_shard(int i) {
    return &shards[i ? 1 + (gg_thread_number() + (unsigned)i - 1) % (SHARDS > 1 ? SHARDS - 1 : 1) : 0];
}
static shard *own_shard(void) { return nth_shard(SHARDS > 1); }
static shard *shard_of(const gg_region *r) { return &shards[r->shard]; }

static inline uint64_t now(const uint64_t *count) { return __atomic_load_n(count, __ATOMIC_ACQUIRE); }
static inline void advance(uint64_t *count) { __atomic_store_n(count, *count + 1, __ATOMIC_RELEASE); }
/* Sizes of arrays, which others read without the lock to see whether there is something to look for. */
static inline size_t length(const size_t *n) { return __atomic_load_n(n, __ATOMIC_RELAXED); }
static inline void set_length(size_t *n, size_t to) { __atomic_store_n(n, to, __ATOMIC_RELAXED); }

/* ---- regions: an array of each kind, sorted by address ----------------------------------------------------------- */
/* What was found last: calls look up the same ranges one after the other. It holds as long as nothing of its shard was
 * taken out. */
static GG_OF_THREAD struct { gg_region *region; const uint64_t *count; uint64_t changes; } recent[GG_REGION_KINDS];

int (*gg_change_begin)(void);
void (*gg_change_end)(int before);
static int begin_change(void) { return gg_change_begin ? gg_change_begin() : 0; }
static void end_change(int before) {
    if (gg_change_end) gg_change_end(before);
}

uint64_t gg_region_epoch(void) {                /* the counts grow: their sum is the same only if all of them are */
    uint64_t sum = 0;
    for (int i = 0; i < SHARDS; i++) sum += now(&shards[i].epoch);
    return sum;
}

/* The first of n sorted ranges that begins after addr. */
static size_t after(gg_region *const *v, size_t n, const void *addr) {
    size_t lo = 0, hi = n;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if ((uintptr_t)v[mid]->base <= (uintptr_t)addr) lo = mid + 1; else hi = mid;
    }
    return lo;
}
static void insert(gg_region **v, size_t n, gg_region *r) {
    const size_t i = after(v, n, r->base);
    memmove(v + i + 1, v + i, (n - i) * sizeof *v);
    v[i] = r;
}
static bool take_out(gg_region **v, size_t n, const gg_region *r) {
    size_t i = after(v, n, r->base);
    while (i > 0 && v[i - 1] != r) i--;              /* empty ranges may share a base */
    if (i) memmove(v + i - 1, v + i, (n - i) * sizeof *v);
    return i > 0;
}
static size_t position(const shard *s, int kind, const void *addr) {
    return after(s->live[kind].v, s->live[kind].n, addr);
}
static inline bool holds(const gg_region *r, const void *addr) {
    return (uintptr_t)addr - (uintptr_t)r->base < r->size;
}
static gg_region *find_in(shard *s, int kind, const void *addr) {
    if (!length(&s->live[kind].n)) return NULL;
    gg_lock_take(&s->registry);
    const size_t i = position(s, kind, addr);
    gg_region *const r = i && holds(s->live[kind].v[i - 1], addr) ? s->live[kind].v[i - 1] : NULL;
    if (r) recent[kind].region = r, recent[kind].count = &s->changes, recent[kind].changes = s->changes;
    gg_lock_open(&s->registry);
    return r;
}
static gg_region *overlap_in(shard *s, int kind, const void *base, size_t size) {
    gg_region *r = find_in(s, kind, base);
    if (r || !length(&s->live[kind].n)) return r;
    gg_lock_take(&s->registry);
    const size_t i = position(s, kind, base);
    if (i < s->live[kind].n && (uintptr_t)s->live[kind].v[i]->base - (uintptr_t)base < size) r = s->live[kind].v[i];
    gg_lock_open(&s->registry);
    return r;
}
gg_region *gg_region_find(int kind, const void *addr) {
    gg_region *r = recent[kind].region;
    if (r && recent[kind].changes == now(recent[kind].count) && holds(r, addr)) return r;
    r = NULL;
    for (int i = 0; i < SHARDS && !r; i++) r = find_in(nth_shard(i), kind, addr);
    return r;
}
gg_region *gg_region_overlap(int kind, const void *base, size_t size) {
    gg_region *r = NULL;
    for (int i = 0; i < SHARDS && !r; i++) r = overlap_in(nth_shard(i), kind, base, size);
    return r;
}
/* New pages were given these addresses: memory of a caller that was registered there was freed, and its range, which
 * may begin inside of the new one, would hide what lies behind it. */
static void forget_callers(const void *base, size_t size) {
    if (!overlap_in(&shards[CALLERS], GG_ARENA, base, size)) return;
    const int before = begin_change();
    for (gg_region *r; (r = overlap_in(&shards[CALLERS], GG_ARENA, base, size));) {
        gg_region_remove(GG_ARENA, r);
        if (!r->ctx) gg_region_leave(r);
    }
    end_change(before);
}
/* A number that no other range of any shard gets. */
static uint64_t new_serial(shard *s) { return ++s->serials * SHARDS + (uint64_t)(s - shards); }
static bool enter_region(shard *s, int kind, gg_region *r) {
    if (s->live[kind].n == s->live[kind].cap) {
        const size_t cap = s->live[kind].cap ? 2 * s->live[kind].cap : 64;
        gg_region **v = gg_realloc(s->live[kind].v, cap * sizeof *v);
        if (!v) return false;
        s->live[kind].v = v, s->live[kind].cap = cap;
    }
    insert(s->live[kind].v, s->live[kind].n, r);
    set_length(&s->live[kind].n, s->live[kind].n + 1);
    r->shard = (int)(s - shards), r->serial = new_serial(s);
    return true;
}
bool gg_region_add(int kind, gg_region *r) {
    shard *const s = r->mapped ? own_shard() : &shards[CALLERS];
    if (r->mapped) forget_callers(r->base, r->size);
    gg_lock_take(&s->registry);
    const bool added = enter_region(s, kind, r);
    gg_lock_open(&s->registry);
    if (!r->mapped) {                           /* it may lie in a range that threads have looked up */
        for (int i = 0; i < SHARDS; i++) {
            gg_lock_take(&shards[i].registry);
            advance(&shards[i].changes);
            gg_lock_open(&shards[i].registry);
        }
    }
    return added;
}
static void take_region_out(shard *s, int kind, const gg_region *r) {
    if (!take_out(s->live[kind].v, s->live[kind].n, r)) return;
    set_length(&s->live[kind].n, s->live[kind].n - 1);
    advance(&s->changes);
    advance(&s->epoch);
}
void gg_region_remove(int kind, gg_region *r) {
    shard *const s = shard_of(r);
    const int before = begin_change();
    gg_lock_take(&s->registry);
    take_region_out(s, kind, r);
    gg_lock_open(&s->registry);
    end_change(before);
}

#ifdef GG_FREE_THREADED
enum { KEPT_FOR_LATER = true };
#else
enum { KEPT_FOR_LATER = false };
#endif

/* ---- quarantine -------------------------------------------------------------------------------------------------- */
static void lock(shard *s) {
    for (int i = 1; atomic_flag_test_and_set_explicit(&s->busy, memory_order_acquire); i++) gg_wait_turn(i);
}
static void unlock(shard *s) { atomic_flag_clear_explicit(&s->busy, memory_order_release); }
#ifndef _WIN32
/* A fork waits until no other thread holds the locks, which would stay locked in the child process. */
static void lock_all(void) {
    for (int i = 0; i < SHARDS; i++) gg_lock_take(&shards[i].registry);
    for (int i = 0; i < SHARDS; i++) lock(&shards[i]);
}
static void unlock_all(void) {
    for (int i = 0; i < SHARDS; i++) unlock(&shards[i]);
    for (int i = 0; i < SHARDS; i++) gg_lock_open(&shards[i].registry);
}
__attribute__((constructor)) static void lock_while_forking(void) {
    pthread_atfork(lock_all, unlock_all, unlock_all);
}
#endif

/* Replaces the pages of a file by a reservation of their addresses; false: the addresses are free now. */
static bool close_file(gg_region *r) {
    gg_mapped_free(r->file);
    r->file = NULL;
    return gg_pages_close_file(r->base, r->size);
}
static size_t most_used(const gg_region *r) { return r->reached > r->used ? r->reached : r->used; }
static size_t slot_rest(gg_region *r) { return gg_slot_rest(r->slot, r->size, most_used(r)); }
/* Whether an arena gives its pages to the next one. It does not if it had those of another one and several such used so
 * little of them that slots, which need fewer calls of the system, would have served them. */
static bool gives_pages(const gg_region *r) {
    enum { LITTLE = 256 << 10, IN_SUCCESSION = 8 };
    static atomic_int in_succession;
    if (r->present < r->size) return true;
    const bool little = most_used(r) <= LITTLE;
    if (little && atomic_fetch_add(&in_succession, 1) < IN_SUCCESSION) return true;
    atomic_store(&in_succession, 0);
    return !little;
}
static void region_destroy(gg_region *r) {
    if (r->file && !close_file(r)) r->mapped = false;
    if (r->slot.slab) {
        if (!r->rests) slot_rest(r);
        gg_slot_release(r->slot);
    } else if (r->mapped) gg_pages_free(r->base, r->size);
    free(r);
}
static void quarantine_remove(shard *s, gg_region **at) {
    gg_region *r = *at;
    *at = r->next;
    if (!r->next) s->newest = at;
    take_out(s->by_address, s->q_len, r);
    set_length(&s->q_len, s->q_len - 1);
    if (r->rests) s->q_bytes -= r->size;
}
/* Releases the oldest regions without views until at most `bytes` are reserved. */
static void quarantine_trim(shard *s, size_t bytes) {
    for (gg_region **at = &s->oldest; *at && s->q_bytes > bytes;) {
        gg_region *r = *at;
        if (!r->rests) at = &r->next;
        else quarantine_remove(s, at), region_destroy(r);
    }
}
/* Returns the memory of a region that has no views any more; keeps its addresses unless they are too many. The lock is
 * open while the system works: until `rests` is set nobody else releases the region, but it may leave the list. */
static void region_rest(shard *s, gg_region *r) {
    const size_t limit = r->slot.slab ? gg_slot_limit(r->slot) : gg_spare_addresses();
    size_t size = r->size;
    bool keeps = size <= limit / SHARES;
    unlock(s);
    if (r->slot.slab) size = slot_rest(r);
    else if (keeps && r->file) keeps = r->mapped = close_file(r);
    else if (keeps && r->mapped) gg_pages_return(r->base, r->size, gives_pages(r) ? limit / 8 : 0);
    lock(s);
    r->size = size, r->rests = true;
    if (r->orphan) { region_destroy(r); return; }
    s->q_bytes += size;
    if (keeps) { quarantine_trim(s, limit / SHARES); return; }
    gg_region **at = &s->oldest;
    while (*at != r) at = &(*at)->next;
    quarantine_remove(s, at), region_destroy(r);
}
static gg_region *quarantined(const shard *s, const void *addr) {
    const size_t i = after(s->by_address, s->q_len, addr);
    return i && holds(s->by_address[i - 1], addr) ? s->by_address[i - 1] : NULL;
}
static void destroy_departed(shard *s) {
    lock(s);
    gg_region *r = s->departed;
    s->departed = NULL, s->n_departed = 0;
    unlock(s);
    for (gg_region *next; r; r = next) next = r->next, region_destroy(r);
}
/* Releases what freed arenas keep reserved. */
static bool release_reserved(void) {
    bool any = gg_pages_drop_warm();
    for (int i = 0; i < SHARDS; i++) {
        lock(&shards[i]);
        any |= shards[i].q_bytes > 0;
        quarantine_trim(&shards[i], 0);
        unlock(&shards[i]);
        destroy_departed(&shards[i]);
    }
    return gg_slots_drop() || any;
}
/* Changes the views of a range, or adds GG_FREED; returns them as they are then. */
static int64_t views_change(gg_region *r, int64_t delta) {
#ifdef GG_FREE_THREADED
    return __atomic_add_fetch(&r->views, delta, __ATOMIC_ACQ_REL);
#else
    return r->views += delta;
#endif
}
void gg_region_retire(gg_region *r) {
    shard *const s = shard_of(r);
    atomic_store_explicit(&gg_on_exhaustion, release_reserved, memory_order_release);
    lock(s);
    r->next = NULL;
    *(s->newest ? s->newest : &s->oldest) = r, s->newest = &r->next;
    insert(s->by_address, s->q_len, r);
    set_length(&s->q_len, s->q_len + 1);
    if (s->q_len > QUARANTINE) {
        gg_region *const old = s->oldest;
        quarantine_remove(s, &s->oldest);
        if (old->rests) old->next = s->departed, s->departed = old, s->n_departed++;
        else old->orphan = true;                            /* leaves the list; its views keep it */
    }
    if (views_change(r, GG_FREED) == GG_FREED) region_rest(s, r);
    const bool all = s->n_departed > (KEPT_FOR_LATER ? QUARANTINE : 0);
    unlock(s);
    if (all) destroy_departed(s);
}
void gg_region_leave(gg_region *r) {
    shard *const s = shard_of(r);
    lock(s);
    r->orphan = true;
    const bool viewed = views_change(r, GG_FREED) != GG_FREED;
    unlock(s);
    if (!viewed) free(r);
}
/* A freed range that is still in quarantine; hold: if it has views, with one more, else NULL. Nothing in quarantine is
 * released while its lock is held. */
static gg_region *freed_range(const void *addr, bool hold) {
    gg_region *r = NULL;
    for (int i = 0; i < SHARDS && !r; i++) {
        shard *const s = nth_shard(i);
        if (!length(&s->q_len)) continue;
        lock(s);
        r = quarantined(s, addr);
        if (r && hold && views_change(r, 1) == GG_FREED + 1) views_change(r, -1), r = NULL;
        unlock(s);
    }
    return r;
}
bool gg_region_stale(const void *addr) { return freed_range(addr, false) != NULL; }
/* A live range: it stays while this thread is in its section. */
static gg_region *live_with_data(const void *addr) {
    gg_region *r = gg_region_find(GG_ARENA, addr);
    return r ? r : gg_region_find(GG_BUFFER, addr);
}
gg_region *gg_region_of_data(const void *addr) {
    gg_region *r = live_with_data(addr);
    if (r) return r;
    r = freed_range(addr, true);
    if (r) gg_region_view(r, -1);
    return r;
}
gg_region *gg_region_hold(const void *addr) {
    gg_region *const r = live_with_data(addr);
    if (r) views_change(r, 1);
    return r ? r : freed_range(addr, true);
}
void gg_region_view(gg_region *r, int delta) {
    if (delta > 0 || views_change(r, delta) != GG_FREED) {
        if (delta > 0) views_change(r, delta);
        return;
    }
    shard *const s = shard_of(r);
    lock(s);                                        /* this was the last view of a freed range */
    if (r->orphan) region_destroy(r);
    else region_rest(s, r);
    unlock(s);
}

/* ---- pins -------------------------------------------------------------------------------------------------------- */
static bool pin_new(gg_pins *p, gg_region **last, const void *addr) {
    static GG_OF_THREAD gg_numbers ids;
    static uint64_t taken;
    if (p->n == p->cap) {
        const size_t cap = p->cap ? 2 * p->cap : 8;
        gg_region **v = gg_realloc(p->v, cap * sizeof *v);
        if (!v) return false;
        p->v = v, p->cap = cap;
    }
    gg_region *r = gg_region_hold(addr);
    if (!r && (r = gg_region_find(GG_STRUCT, addr))) gg_region_view(r, 1);
    if (!r) return true;                                   /* memory of a caller that is not registered */
    *last = r;
    if (!p->id) p->id = gg_number(&ids, &taken);
    if (__atomic_load_n(&r->pins, __ATOMIC_RELAXED) == p->id) {
        gg_region_view(r, -1);
        return true;
    }
    __atomic_store_n(&r->pins, p->id, __ATOMIC_RELAXED);
    p->v[p->n++] = r;
    return true;
}
/* *last: the range of the previous address, mostly the same. */
static inline bool pin(gg_pins *p, gg_region **last, const void *addr) {
    return !addr || (*last && holds(*last, addr)) || pin_new(p, last, addr);
}
bool gg_pin(gg_pins *p, ggml_tensor *const *nodes, int n) {
    for (int i = 0; i < n; i++) {
        const ggml_tensor *t = nodes[i];
        if (!pin(p, &p->tensors, t)) return false;
        if (!(t->flags & GGML_TENSOR_FLAG_COMPUTE) || !gg_op_computes(t->op)) continue;
        if (!pin(p, &p->data, t->data)) return false;
        for (int k = 0; k < GGML_MAX_SRC; k++)
            if (t->src[k] && !(pin(p, &p->tensors, t->src[k]) && pin(p, &p->data, t->src[k]->data))) return false;
    }
    return true;
}
void gg_unpin(gg_pins *p) {
    while (p->n) gg_region_view(p->v[--p->n], -1);
    free(p->v);
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */
enum { FIRST_CHUNK = 1 << 20, TOUCH = 1 << 17 };

static GG_OF_THREAD struct { ggml_context *context; const uint64_t *count; uint64_t changes; } recent_context;

static size_t place_of(const shard *s, const ggml_context *ctx) {
    size_t lo = 0, hi = s->contexts.n;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if ((uintptr_t)s->contexts.v[mid] < (uintptr_t)ctx) lo = mid + 1; else hi = mid;
    }
    return lo;
}
static bool entered(const shard *s, size_t place, const ggml_context *ctx) {
    return place < s->contexts.n && s->contexts.v[place] == ctx;
}
/* The shard in which a live context is, whose lock is then held; NULL: it is not live. */
static shard *lock_shard_of(const ggml_context *ctx, size_t *place) {
    for (int i = 0; i < SHARDS; i++) {
        shard *const s = nth_shard(i);
        if (!length(&s->contexts.n)) continue;
        gg_lock_take(&s->registry);
        if (entered(s, *place = place_of(s, ctx), ctx)) return s;
        gg_lock_open(&s->registry);
    }
    return NULL;
}
static void take_context_out(shard *s, size_t place) {
    set_length(&s->contexts.n, s->contexts.n - 1);
    memmove(s->contexts.v + place, s->contexts.v + place + 1, (s->contexts.n - place) * sizeof *s->contexts.v);
    advance(&s->changes);
}
ggml_context *gg_context_find(const void *handle) {
    if (handle && handle == recent_context.context && recent_context.changes == now(recent_context.count))
        return recent_context.context;
    size_t place;
    shard *const s = lock_shard_of(handle, &place);
    if (!s) return NULL;
    ggml_context *const found = s->contexts.v[place];
    recent_context.context = found, recent_context.count = &s->changes, recent_context.changes = s->changes;
    gg_lock_open(&s->registry);
    return found;
}
static bool enter_context(shard *s, ggml_context *ctx) {
    if (s->contexts.n == s->contexts.cap) {
        const size_t cap = s->contexts.cap ? 2 * s->contexts.cap : 64;
        ggml_context **v = gg_realloc(s->contexts.v, cap * sizeof *v);
        if (!v) return false;
        s->contexts.v = v, s->contexts.cap = cap;
    }
    size_t i = s->contexts.n;
    for (; i && (uintptr_t)s->contexts.v[i - 1] > (uintptr_t)ctx; i--) s->contexts.v[i] = s->contexts.v[i - 1];
    s->contexts.v[i] = ctx;
    set_length(&s->contexts.n, s->contexts.n + 1);
    return true;
}
static bool context_enter(ggml_context *ctx) {
    shard *const s = own_shard();
    gg_lock_take(&s->registry);
    const bool entered = enter_context(s, ctx);
    gg_lock_open(&s->registry);
    return entered;
}
/* Nobody can find the context any more. */
static void context_end(ggml_context *ctx) {
    shard *const s = own_shard();
    gg_lock_take(&s->registry);
    ggml_context *const oldest = s->dead[s->n_dead % DEAD];
    s->dead[s->n_dead++ % DEAD] = ctx;
    gg_lock_open(&s->registry);
    free(oldest);
}
static void context_leave(ggml_context *ctx) {
    size_t place;
    shard *const s = lock_shard_of(ctx, &place);
    if (s) {
        take_context_out(s, place);
        gg_lock_open(&s->registry);
    }
    context_end(ctx);
}

/* Takes pages of a freed arena, or new ones; false: there are none. */
static bool take_pages(gg_region *r) {
    r->mapped = true;
    if ((r->base = gg_pages_warm(r->size))) {
        r->present = r->size;
        return true;
    }
    if ((r->base = gg_slot_take(r->size, &r->slot, &r->present))) {
        if (r->present > r->size) r->present = r->size;
        return true;
    }
    gg_pages_make_room();
    r->base = gg_pages_alloc(r->size);
    return r->base != NULL;
}
static gg_region *chunk_new(ggml_context *ctx, void *buffer, size_t size) {
    gg_region *r = gg_calloc(1, sizeof *r);
    if (!r) return NULL;
    r->ctx = ctx, r->base = buffer, r->size = size;
    if (!buffer) {
        if (GG_RED_ZONE) r->size += r->slack = size / 4 + 4096;
        if (!take_pages(r)) { free(r); return NULL; }
        gg_poison(r->base, r->size);
    }
    return r;
}
static bool chunk_enter(gg_region *r) {
    if (gg_region_add(GG_ARENA, r)) return true;
    region_destroy(r);
    return false;
}
static size_t padded(size_t size) { return (size + GGML_MEM_ALIGN - 1) & ~(size_t)(GGML_MEM_ALIGN - 1); }
ggml_context *gg_context_new(size_t mem_size, void *buffer, bool no_alloc) {
    ggml_context *ctx = gg_calloc(1, sizeof *ctx);
    if (!ctx) return NULL;
    if (KEPT_FOR_LATER) destroy_departed(own_shard());
    if (!buffer) mem_size = padded(mem_size);   /* callers add up unpadded sizes of data */
    ctx->mem_size = mem_size, ctx->no_alloc = no_alloc, ctx->grows = !mem_size && !buffer;
    ctx->chunk = chunk_new(ctx, buffer, ctx->grows ? FIRST_CHUNK : mem_size);
    if (!ctx->chunk) { free(ctx); return NULL; }
    ctx->touched = ctx->chunk->present;
    return ctx;
}
bool gg_context_enter(ggml_context *ctx) {
    if (chunk_enter(ctx->chunk)) {
        if (context_enter(ctx)) return true;
        gg_region_remove(GG_ARENA, ctx->chunk), region_destroy(ctx->chunk);
    }
    free(ctx);
    return false;
}
static size_t chunk_end(const ggml_context *ctx) {   /* bytes used of the current chunk */
    const ggml_object *o = __atomic_load_n(&ctx->last, __ATOMIC_ACQUIRE);
    return o && holds(__atomic_load_n(&ctx->chunk, __ATOMIC_ACQUIRE), o) ? o->offs + o->size : 0;
}
void (*gg_on_release)(const gg_region *region);
static void tell_release(const gg_region *r) {
    void (*const tell)(const gg_region *) = __atomic_load_n(&gg_on_release, __ATOMIC_ACQUIRE);
    if (tell) tell(r);
}
static void chunk_release(gg_region *r) {
    if (r->ctx->chunk == r) r->used = chunk_end(r->ctx);
    r->ctx = NULL;
    tell_release(r);
    if (!r->mapped) return;                    /* memory of the caller stays registered (see _core.pyx) */
    gg_region_remove(GG_ARENA, r);
    gg_region_retire(r);
}
gg_region *gg_context_free(ggml_context *ctx) {
    const int before = begin_change();
    gg_region *const rest = KEPT_FOR_LATER && ctx->chunk->mapped ? ctx->chunk : NULL;
    for (gg_region *r = ctx->chunk, *prev; r; r = prev) {
        prev = r->prev;
        if (rest) views_change(r, 1);
        chunk_release(r);
    }
    context_leave(ctx);
    end_change(before);
    return rest;
}
static const size_t SMALL = (size_t)1 << 20;

static bool is_small(const ggml_context *ctx) {
    const gg_region *const r = ctx->chunk;
    return r->mapped && !r->prev && r->reached <= SMALL && chunk_end(ctx) <= SMALL && !ctx->keep && !ctx->legacy;
}
gg_leaving gg_context_leave(ggml_context *ctx, uint64_t (*now_changed)(void)) {
    size_t place;
    shard *const s = lock_shard_of(ctx, &place);
    if (!s) return GG_GONE;
    gg_lock_take(&ctx->lock);               /* a thread that adds an object has done so */
    const bool leaves = s->n_leaving < LEAVING && is_small(ctx);
    if (leaves) {
        take_context_out(s, place);
        ctx->left = true, ctx->chunk->used = chunk_end(ctx);
        s->leaving[s->n_leaving].ctx = ctx, s->leaving[s->n_leaving].time = UINT64_MAX;
        __atomic_store_n(&s->n_leaving, s->n_leaving + 1, __ATOMIC_RELAXED);
    }
    gg_lock_open(&ctx->lock);
    gg_lock_open(&s->registry);
    if (!leaves) return GG_NOT_SMALL;
    gg_region *const r = ctx->chunk;
    views_change(r, 1);
    gg_region_retire(r);                    /* first: who does not find it among the live ones finds it there */
    gg_lock_take(&s->registry);
    take_region_out(s, GG_ARENA, r);
    for (int i = 0; i < s->n_leaving; i++)
        if (s->leaving[i].ctx == ctx) s->leaving[i].time = now_changed();
    gg_lock_open(&s->registry);
    return GG_LEFT;
}
static ggml_context *left_in(shard *s, bool (*passed)(uint64_t time)) {
    ggml_context *found = NULL;
    if (!__atomic_load_n(&s->n_leaving, __ATOMIC_RELAXED)) return NULL;
    gg_lock_take(&s->registry);
    for (int i = 0; i < s->n_leaving && !found; i++) {
        if (!passed(s->leaving[i].time)) continue;
        found = s->leaving[i].ctx, s->leaving[i] = s->leaving[s->n_leaving - 1];
        __atomic_store_n(&s->n_leaving, s->n_leaving - 1, __ATOMIC_RELAXED);
    }
    gg_lock_open(&s->registry);
    return found;
}
ggml_context *gg_context_left(bool (*passed)(uint64_t time)) {
    enum { SELDOM = 64 };                   /* other threads mostly end theirs, and are at work with their shards */
    static GG_OF_THREAD unsigned calls;
    ggml_context *found = left_in(own_shard(), passed);
    if (++calls % SELDOM) return found;
    for (int i = 0; i < SHARDS && !found; i++) found = left_in(nth_shard(i), passed);
    return found;
}
#if defined GG_FREE_THREADED && !defined _WIN32
/* A thread that was freeing a context is not in the child process, where that context stays for good. */
static void forget_unfinished(void) {
    for (shard *s = shards; s < shards + SHARDS; s++)
        for (int i = s->n_leaving; i-- > 0;)
            if (s->leaving[i].time == UINT64_MAX) s->leaving[i] = s->leaving[--s->n_leaving];
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_unfinished); }
#endif
void gg_context_end(ggml_context *ctx) {
    gg_region *const r = ctx->chunk;
    r->used = chunk_end(ctx);               /* others that had found it may have added to it */
    tell_release(r);
    r->ctx = NULL;
    context_end(ctx);
    gg_region_view(r, -1);
}
void gg_context_rest(gg_region *r) {
    for (gg_region *prev; r; r = prev) prev = r->prev, gg_region_view(r, -1);
}
void gg_context_reset(ggml_context *ctx) {
    const int before = begin_change();
    while (ctx->chunk->prev) {
        gg_region *r = ctx->chunk;
        ctx->chunk = r->prev;
        chunk_release(r);
    }
    if (ctx->chunk->reached < chunk_end(ctx)) ctx->chunk->reached = chunk_end(ctx);
    ctx->first = ctx->last = NULL;
    ctx->n_objects = 0, ctx->closed = 0;
    ctx->touched = ctx->chunk->present > ctx->chunk->reached ? ctx->chunk->present : ctx->chunk->reached;
    ctx->scratch = NULL;
    shard *const s = shard_of(ctx->chunk);  /* alone: no lock is needed */
    ctx->chunk->serial = new_serial(s);
    advance(&s->epoch);
    ctx->chunk->gaps = 0;
    if (ctx->chunk->mapped) gg_poison(ctx->chunk->base, ctx->chunk->size);
    end_change(before);
}
size_t gg_context_used(const ggml_context *ctx) {
    gg_lock *const lock = (gg_lock *)&ctx->lock;
    gg_lock_take(lock);
    const size_t used = ctx->closed + chunk_end(ctx) - ctx->chunk->gaps;
    gg_lock_open(lock);
    return used;
}

/* A new object in the current chunk, or NULL: there is no room. *grow: the size of the chunk that would have it, 0 if
 * the context does not grow. */
static ggml_object *place(ggml_context *ctx, int type, size_t size, size_t *need, size_t *grow) {
    const size_t asked = size, left = ctx->chunk->slack - ctx->chunk->gaps;
    size_t end = chunk_end(ctx), gap = end && left >= GG_RED_ZONE ? GG_RED_ZONE : 0, total;
    *need = (size_t)-1;
    if (size > (size_t)PTRDIFF_MAX / 2) return NULL;
    size = padded(size);
    /* an unaligned buffer of the caller */
    const uintptr_t misaligned = (uintptr_t)(ctx->chunk->base + end) % GGML_MEM_ALIGN;
    if (misaligned) end += GGML_MEM_ALIGN - misaligned;
    end += gap;
    if (!gg_add(end, sizeof(ggml_object), &total) || !gg_add(total, size, &total)) return NULL;
    const size_t gaps = ctx->chunk->gaps + gap;
    if (total - gaps > ctx->chunk->size - ctx->chunk->slack) {
        *need = ctx->closed + total - gaps;
        if (!ctx->grows) return NULL;
        const size_t twice = 2 * (ctx->chunk->size - ctx->chunk->slack);
        *grow = twice < (size_t)1 << 30 ? twice : (size_t)1 << 30;
        if (*grow < size + sizeof(ggml_object)) *grow = size + sizeof(ggml_object);
        return NULL;
    }
    if (gap) ctx->chunk->gaps += gap;
    const size_t head = end + sizeof(ggml_object) + sizeof(ggml_tensor);
    if (ctx->chunk->mapped && head > ctx->touched && size <= 4 * TOUCH) {
        const size_t left = ctx->chunk->size - ctx->touched, least = TOUCH / 8;     /* few tensors need few pages */
        const size_t wanted = ctx->touched < least ? least : ctx->touched < TOUCH ? ctx->touched : TOUCH;
        const size_t ahead = left < wanted ? left : wanted;
        if (head > ctx->touched + ahead) ctx->touched = end;
        else gg_pages_touch(ctx->chunk->base + ctx->touched, ahead), ctx->touched += ahead;
    }
    ggml_object *o = (ggml_object *)(ctx->chunk->base + end);
    gg_unpoison(o, sizeof *o + asked);
    *o = (ggml_object){.offs = end + sizeof *o, .size = size, .type = type};
    return o;
}
/* From now on an object is found. */
static void link_object(ggml_context *ctx, ggml_object *o) {
    __atomic_store_n(ctx->last ? &ctx->last->next : &ctx->first, o, __ATOMIC_RELEASE);
    __atomic_store_n(&ctx->last, o, __ATOMIC_RELEASE);
    ctx->n_objects++;
}
/* What a new tensor is made of: a complete tensor, the bytes of its data and whether they are its own, or what it
 * views. */
typedef struct { const ggml_tensor *node; size_t nbytes; bool own, scratch; void *data, *buffer; } content;
static void fill(ggml_context *ctx, ggml_tensor *t, const content *c) {
    gg_copy_tensor(t, c->node);
    if (c->node->view_src) {
        t->data = c->data ? (uint8_t *)c->data + c->node->view_offs : NULL;
        t->buffer = c->buffer;
    } else if (c->own) {
        t->data = t + 1;
        const size_t at = (size_t)((uint8_t *)t->data - ctx->chunk->base), present = ctx->chunk->present;
        /* as new pages are */
        if (at < present) memset(t->data, 0, c->nbytes < present - at ? c->nbytes : present - at);
    } else if (c->scratch && gg_scratch_fits(ctx, c->nbytes)) {
        t->data = ctx->scratch + ctx->scratch_used, ctx->scratch_used += padded(c->nbytes);
    }
}
/* False: the context is no longer live. */
static bool go_on_in(ggml_context *ctx, gg_region *chunk) {
    if (!gg_context_find(ctx)) return false;
    gg_lock_take(&ctx->lock);
    const bool stays = !ctx->left;
    if (stays) {
        const size_t end = chunk_end(ctx);
        chunk->prev = ctx->chunk;
        ctx->closed += end - ctx->chunk->gaps;
        ctx->chunk->used = end;
        __atomic_store_n(&ctx->chunk, chunk, __ATOMIC_RELEASE);
        ctx->touched = chunk->present;
    }
    gg_lock_open(&ctx->lock);
    return stays;
}
/* c: of a tensor; else NULL. */
static ggml_object *add_object(ggml_context *ctx, int type, size_t size, const content *c, size_t *need) {
    while (true) {
        size_t grow = 0;
        gg_lock_take(&ctx->lock);
        ggml_object *const o = place(ctx, type, size, need, &grow);
        if (o && c) fill(ctx, (ggml_tensor *)(o + 1), c);
        if (o) link_object(ctx, o);
        gg_lock_open(&ctx->lock);
        if (o || !grow) return o;
        gg_region *const chunk = chunk_new(ctx, NULL, grow);
        if (!chunk || !chunk_enter(chunk)) return NULL;
        if (!go_on_in(ctx, chunk)) {        /* another thread has freed it */
            chunk->ctx = NULL;
            gg_region_remove(GG_ARENA, chunk), gg_region_retire(chunk);
            return NULL;
        }
    }
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */
/* payload may be any address in an arena, so what is read may be a red zone. */
GG_READS_RED_ZONES static inline bool object_live(const void *payload, int type, size_t size) {
    const gg_region *r = gg_region_find(GG_ARENA, payload);
    if (!r) return (r = gg_region_find(GG_STRUCT, payload)) && r->base == (const uint8_t *)payload && r->size == size;
    if ((uintptr_t)payload % GGML_MEM_ALIGN) return false;
    const size_t at = (size_t)((const uint8_t *)payload - r->base);
    if (at < sizeof(ggml_object) || r->size - at < size) return false;
    const ggml_object *o = (const ggml_object *)((const uint8_t *)payload - sizeof *o);
    if (o->offs != at || o->type != type || o->size < size) return false;
    const bool filling = r->ctx && __atomic_load_n(&r->ctx->chunk, __ATOMIC_ACQUIRE) == r;
    return at < (filling ? chunk_end(r->ctx) : r->used);     /* beyond lies stale data */
}
bool gg_tensor_live(const ggml_tensor *t) { return object_live(t, GGML_OBJECT_TYPE_TENSOR, sizeof *t); }
bool gg_tensor_sound(const ggml_tensor *t) {
    return gg_type_ok(t->type) && gg_op_known(t->op)
        && (t->ne[0] | t->ne[1] | t->ne[2] | t->ne[3]) >= 0 && (!t->view_src || gg_tensor_live(t->view_src));
}
bool gg_tensor_usable(const ggml_tensor *t) { return gg_tensor_live(t) && gg_tensor_sound(t); }
bool gg_graph_live(const ggml_cgraph *g) { return object_live(g, GGML_OBJECT_TYPE_GRAPH, sizeof *g); }

bool gg_data_ok(const ggml_tensor *t) {
    size_t n;
    if (!gg_type_ok(t->type) || t->ne[0] < 0 || t->ne[1] < 0 || t->ne[2] < 0 || t->ne[3] < 0) return false;
    if (gg_types[t->type].blck > 1 && t->ne[0] % gg_types[t->type].blck) return false;
    if (!gg_extent(t, &n) || !n) return false;
    const gg_region *r = gg_region_find(GG_ARENA, t->data);
    if (!r && !(r = gg_region_find(GG_BUFFER, t->data))) return false;
    return n <= r->size - (size_t)((const uint8_t *)t->data - r->base);
}

bool gg_set_contiguous(ggml_tensor *t, size_t *nbytes) {
    const gg_type_info *ti = &gg_types[t->type];
    t->nb[0] = (size_t)ti->bytes;
    if (!gg_mul((size_t)(ti->blck == 1 ? t->ne[0] : t->ne[0] / ti->blck), t->nb[0], &t->nb[1])) return false;
    for (int d = 2; d < 4; d++)
        if (!gg_mul(t->nb[d - 1], (size_t)t->ne[d - 1], &t->nb[d])) return false;
    return gg_mul(t->nb[3], (size_t)t->ne[3], nbytes) && *nbytes <= (size_t)PTRDIFF_MAX / 2;
}
bool gg_scratch_fits(const ggml_context *ctx, size_t nbytes) {
    return !ctx->scratch || padded(nbytes) <= ctx->scratch_size - ctx->scratch_used;
}
ggml_object *gg_context_object(ggml_context *ctx, int type, size_t size, size_t *need) {
    return add_object(ctx, type, size, NULL, need);
}
ggml_tensor *gg_context_tensor(ggml_context *ctx, const ggml_tensor *node, size_t nbytes, size_t *need) {
    content c = {.node = node, .nbytes = nbytes};
    if (node->view_src) c.data = node->view_src->data, c.buffer = node->view_src->buffer;
    else if (!ctx->no_alloc) c.scratch = ctx->scratch, c.own = !c.scratch;
    ggml_object *const o =
        add_object(ctx, GGML_OBJECT_TYPE_TENSOR, sizeof *node + (c.own ? nbytes : 0), &c, need);
    return o ? (ggml_tensor *)(o + 1) : NULL;
}
