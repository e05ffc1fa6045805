/* Slots of arenas (see slots.h). */
#define _GNU_SOURCE
#include "slots.h"
#include "pages.h"
#include "poison.h"
#include "sharing.h"
#include <stdatomic.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#ifdef MREMAP_DONTUNMAP
enum { SLOTS = 256, WORD = 64 };
static const size_t LEFT = SIZE_MAX;
static const size_t LARGEST = (size_t)16 << 20;
/* A slab has as many addresses as a table of page tables (PUD) describes, of which it uses the first: then its pages
 * move with that table, and the other processors are interrupted once, not once for each page table. */
static const size_t CHUNK = (size_t)1 << 30;
/* Pages are moved when this much was used, which the caches hold; the last arena may have BEYOND bytes behind it. */
enum { BEYOND = 384 << 10 };
static const size_t WINDOW = (size_t)4 << 20, WHOLE = (size_t)20 << 20;
/* Where so many addresses are not to be had, one page table describes what moves. */
static const size_t SMALL_WINDOW = ((size_t)2 << 20) - BEYOND, SMALL_WHOLE = (size_t)18 << 20;
/* What freed arenas keep in memory: one of them, and all together. One that used more may give its pages to the next
 * arena of its size: the caches of a processor hold one of these rather than several. */
static const size_t KEPT_OF_ONE = (size_t)256 << 10, KEPT_OF_ALL = (size_t)48 << 20;
/* An arena may have pages beyond what it used (see TOUCH in memory.c). */
static const size_t AHEAD = (size_t)1 << 17;

typedef struct { size_t begin, end; } span;
struct gg_slab {
    uint8_t *base;
    size_t size;                    /* bytes that are reserved: CHUNK, SMALL_WHOLE, or what has arenas in quarantine */
    size_t limit, page;
    size_t present;                 /* bytes that had pages before they came here */
    atomic_size_t top;              /* where the next arena begins */
    atomic_size_t high;             /* pages lie below this; LEFT: no place has the slab any more */
    atomic_int users;               /* arenas whose addresses are needed, and the place in which the slab is */
    atomic_int rest;                /* slots at rest, */
    _Atomic(uint64_t) resting[SLOTS / WORD];        /* and a bit for each */
    int given;                      /* slots that were taken: for the thread that has the place */
    span spans[SLOTS];
};

/* A thread owns a place while `taken` stands in it: no lock is held during calls of the system. Threads have places of
 * their own, so that the arenas of a slab come to rest together: more than one, since an arena may live long. */
enum { PLACES = 16, OWN = 4 };
static _Atomic(gg_slab *) places[PLACES];
static gg_slab taken;
static atomic_size_t kept_of_all;
static atomic_bool without_chunks;      /* the system refused to move one */

static gg_slab *place_take(int i) {
    gg_slab *s = atomic_load_explicit(&places[i], memory_order_relaxed);
    while (s != &taken && !atomic_compare_exchange_weak(&places[i], &s, &taken)) {}
    return s;
}
static void place_leave(int i, gg_slab *s) { atomic_store_explicit(&places[i], s, memory_order_release); }

/* The addresses of a slab stay reserved as long as one of its arenas is in quarantine. They would be a large part of
 * those of a process that has a limit of them. */
static bool affordable(size_t size) {
    const size_t share = size == CHUNK ? 64 : 256;
    return size <= gg_spare_addresses() / share;
}
static size_t whole_of(const gg_slab *s) { return s->size == CHUNK ? WHOLE : SMALL_WHOLE; }
static size_t window_of(const gg_slab *s) { return s->size == CHUNK ? WINDOW : SMALL_WINDOW; }
/* CHUNK addresses from a multiple of CHUNK on, which nothing may access; or NULL. */
static uint8_t *chunk_reserve(void) {
    if (atomic_load(&without_chunks) || !affordable(CHUNK)) return NULL;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uint8_t *const p = mmap(NULL, 2 * CHUNK, PROT_NONE, flags, -1, 0);
    if (p == MAP_FAILED) return NULL;
    const size_t before = -(uintptr_t)p & (CHUNK - 1);
    if (before) munmap(p, before);
    munmap(p + before + CHUNK, CHUNK - before);
    return p + before;
}
/* Arenas lie in the first WHOLE of a slab's addresses. */
static bool addresses_free(uint8_t *base, size_t begin, size_t end) {
    const size_t used = end < WHOLE ? end : WHOLE;
    if (used > begin) gg_unpoison(base + begin, used - begin);
    return !munmap(base + begin, end - begin);
}
static uint8_t *addresses_new(size_t *size) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    uint8_t *p = chunk_reserve();
    *size = CHUNK;
    if (p && mmap(p, CHUNK, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED) return p;
    if (p) munmap(p, CHUNK);
    *size = SMALL_WHOLE;
    if (!affordable(SMALL_WHOLE)) return NULL;
    p = mmap(NULL, SMALL_WHOLE, PROT_READ | PROT_WRITE, flags, -1, 0);
    return p != MAP_FAILED ? p : NULL;
}
/* A slab that gets no more arenas keeps the addresses of those it has. */
static void addresses_trim(gg_slab *s) {
    const size_t top = atomic_load(&s->top);
    if (s->size == CHUNK && addresses_free(s->base, top, CHUNK)) s->size = top;
}
static gg_slab *slab_of(uint8_t *base, size_t size) {
    gg_slab *s = gg_calloc(1, sizeof *s);
    if (!s) return NULL;
    s->base = base, s->size = size, s->limit = gg_spare_addresses(), s->page = (size_t)sysconf(_SC_PAGESIZE);
    s->users = 1;
    return s;
}
static gg_slab *slab_new(void) {
    size_t size;
    gg_pages_make_room();
    uint8_t *const base = addresses_new(&size);
    gg_slab *const s = base ? slab_of(base, size) : NULL;
    if (!s && base) addresses_free(base, 0, size);
    return s;
}
static void slab_release(gg_slab *s) {
    if (atomic_fetch_sub(&s->users, 1) != 1) return;
    if (s->size) addresses_free(s->base, 0, s->size);
    free(s);
}
static void empty(gg_slab *s, span at) {
    if (at.end > at.begin) madvise(s->base + at.begin, at.end - at.begin, MADV_DONTNEED);
}
static bool all_rest(gg_slab *s) { return atomic_load(&s->rest) == s->given; }
static bool rests(gg_slab *s, int i) { return atomic_load(&s->resting[i / WORD]) >> i % WORD & 1; }
/* Takes a slab out of its place for good, with the pages of arenas at rest. gg_slot_rest empties the others. */
static bool slab_leave(gg_slab *s) {
    const size_t high = atomic_exchange(&s->high, LEFT);
    for (int i = 0; i < s->given; i++) {
        if (!rests(s, i)) continue;
        span run = s->spans[i];
        for (; i + 1 < s->given && rests(s, i + 1); i++) run.end = s->spans[i + 1].end;
        if (i + 1 == s->given && run.end < high) run.end = high;
        empty(s, run);
    }
    atomic_fetch_sub(&kept_of_all, high);
    addresses_trim(s);
    slab_release(s);
    return high;
}
/* Moves the pages of a slab to other addresses, which it returns; NULL: the system cannot. */
static uint8_t *slab_move(gg_slab *s) {
    if (s->size != CHUNK) return gg_pages_move(s->base, s->size, NULL);
    uint8_t *const to = gg_pages_can_move() ? chunk_reserve() : NULL;
    uint8_t *const moved = to ? gg_pages_move(s->base, CHUNK, to) : NULL;
    if (to && !moved) atomic_store(&without_chunks, true);
    return moved;
}
/* A slab with the pages of one whose arenas are all at rest. */
static gg_slab *slab_renew(gg_slab *s) {
    gg_slab *const fresh = affordable(s->size) ? slab_of(NULL, s->size) : NULL;
    if (!fresh) return NULL;
    const size_t most = window_of(s) + BEYOND, high = atomic_load(&s->high);
    const size_t present = high < most ? high : most;
    empty(s, (span){present, high});        /* it had to go on behind the window */
    atomic_fetch_sub(&kept_of_all, high - present);
    atomic_store(&s->high, present);
    uint8_t *const moved = slab_move(s);
    if (!moved) { free(fresh); return NULL; }
    addresses_trim(s);
    fresh->base = moved, fresh->present = fresh->high = present;
    slab_release(s);                        /* without pages now, and with no arena that is not at rest */
    return fresh;
}
/* In the order in which a thread chooses from its places: it rather uses more slabs than addresses behind an arena that
 * may need few of its own, so that the pages in use lie close together. */
enum { NO_ROOM, USED, IN_USE, NO_SLAB, READY };
static int rank_of(gg_slab *s, size_t size) {
    if (!s) return NO_SLAB;
    if (all_rest(s)) return READY;
    const size_t top = atomic_load(&s->top);
    if (s->given == SLOTS || top + size > whole_of(s)) return NO_ROOM;
    return top > window_of(s) ? USED : IN_USE;
}
/* Takes a place of this thread, with the best slab for an arena; -1: other threads have them. */
static int place_for(size_t size, gg_slab **found) {
    static GG_OF_THREAD unsigned turn;
    const int first = (int)(gg_thread_number() * OWN % PLACES);
    int best = -1, best_rank = NO_ROOM;
    for (int k = first; k < first + OWN; k++) {
        gg_slab *const s = place_take(k);
        if (s == &taken) continue;
        const int rank = rank_of(s, size);
        if (rank == READY) { *found = s; return k; }
        if (rank > best_rank) best = k, best_rank = rank;
        place_leave(k, s);
    }
    if (best < 0) best = first + (int)(turn++ % OWN);
    *found = place_take(best);
    return *found == &taken ? -1 : best;
}
uint8_t *gg_slot_take(size_t size, gg_slot *slot, size_t *present) {
    gg_slab *s;
    const int place = size && size <= LARGEST ? place_for(size, &s) : -1;
    if (place < 0) return NULL;
    if (s && all_rest(s) && (s->given == SLOTS || atomic_load(&s->top) > window_of(s))) {
        gg_slab *const fresh = slab_renew(s);
        if (fresh) s = fresh;
    }
    if (s && (s->given == SLOTS || atomic_load(&s->top) + size > whole_of(s))) slab_leave(s), s = NULL;
    if (!s) s = slab_new();
    uint8_t *base = NULL;
    if (s) {
        const size_t whole = (size + s->page - 1) & ~(s->page - 1), begin = atomic_fetch_add(&s->top, whole);
        base = s->base + begin;
        *present = begin < s->present ? s->present - begin : 0;
        *slot = (gg_slot){s, s->given};
        s->spans[s->given++] = (span){begin, begin + whole};
        atomic_fetch_add(&s->users, 1);
    }
    place_leave(place, s);
    return base;
}
/* Whether the pages below `end` may be kept. */
static bool keeps(gg_slab *s, size_t end) {
    size_t high = atomic_load(&s->high);
    while (high < end) {
        if (atomic_fetch_add(&kept_of_all, end - high) + end - high > KEPT_OF_ALL) {
            atomic_fetch_sub(&kept_of_all, end - high);
            return false;
        }
        const size_t before = high;
        if (atomic_compare_exchange_strong(&s->high, &high, end)) return true;
        atomic_fetch_sub(&kept_of_all, end - before);
    }
    return true;
}
size_t gg_slot_rest(gg_slot slot, size_t asked, size_t used) {
    gg_slab *const s = slot.slab;
    span *const own = &s->spans[slot.number];
    const size_t nominal = own->end, size = nominal - own->begin;
    const size_t part = used < size ? (used + s->page - !!used) & ~(s->page - 1) : size;
    const size_t ahead = part + AHEAD < size ? part + AHEAD : size;
    gg_poison(s->base + own->begin, size);
    if (part > KEPT_OF_ONE) gg_pages_return(s->base + own->begin, asked, s->limit / 8);
    else if (!keeps(s, own->begin + ahead)) empty(s, *own);
    /* The next arena may begin behind the pages that were used. */
    const size_t kept = part ? part : s->page;
    size_t top = nominal;
    own->end = own->begin + kept;
    if (!atomic_compare_exchange_strong(&s->top, &top, own->end)) own->end = nominal;
    const size_t left = own->end - own->begin;
    atomic_fetch_or(&s->resting[slot.number / WORD], (uint64_t)1 << slot.number % WORD);
    atomic_fetch_add(&s->rest, 1);
    if (atomic_load(&s->high) == LEFT) empty(s, *own);
    return left;
}
void gg_slot_release(gg_slot slot) { slab_release(slot.slab); }
size_t gg_slot_limit(gg_slot slot) { return slot.slab->limit; }
bool gg_slots_drop(void) {
    bool any = false;
    for (int k = 0; k < PLACES; k++) {
        gg_slab *const s = place_take(k);
        if (s == &taken) continue;
        place_leave(k, NULL);
        if (s) any |= slab_leave(s);
    }
    return any;
}
#else
struct gg_slab { char unused; };
uint8_t *gg_slot_take(size_t size, gg_slot *slot, size_t *present) {
    return (void)size, (void)slot, (void)present, NULL;
}
size_t gg_slot_rest(gg_slot slot, size_t asked, size_t used) { return (void)slot, (void)asked, used; }
void gg_slot_release(gg_slot slot) { (void)slot; }
size_t gg_slot_limit(gg_slot slot) { return (void)slot, 0; }
bool gg_slots_drop(void) { return false; }
#endif
