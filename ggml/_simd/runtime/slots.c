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
enum { SLOTS = 64 };
static const uint64_t ALL = ~(uint64_t)0;
static const size_t LEFT = SIZE_MAX;
static const size_t LARGEST = (size_t)16 << 20;
/* Pages are moved when this much was used: the caches of a processor hold it, and one table of pages leads to it. */
static const size_t WINDOW = ((size_t)2 << 20) - ((size_t)384 << 10), WHOLE = (size_t)18 << 20;
/* What freed arenas keep in memory: one of them, and all together. One that used more may give its pages to the next
 * arena of its size: the caches of a processor hold one of these rather than several. */
static const size_t KEPT_OF_ONE = (size_t)256 << 10, KEPT_OF_ALL = (size_t)32 << 20;
/* An arena may have pages beyond what it used (see TOUCH in memory.c). */
static const size_t AHEAD = (size_t)1 << 17;

typedef struct { size_t begin, end; } span;
struct gg_slab {
    uint8_t *base;
    size_t limit, page;
    size_t present;                 /* bytes that had pages before they came here */
    atomic_size_t top;              /* where the next arena begins */
    atomic_size_t high;             /* pages lie below this; LEFT: no place has the slab any more */
    atomic_int users;               /* arenas whose addresses are needed, and the place in which the slab is */
    _Atomic(uint64_t) resting;      /* a bit for each slot at rest */
    int given;                      /* slots that were taken: for the thread that has the place */
    span spans[SLOTS];
};

/* A thread owns a place while `taken` stands in it: no lock is held during calls of the system. Threads have places of
 * their own, so that the arenas of a slab come to rest together: more than one, since an arena may live long. */
enum { PLACES = 16, OWN = 4 };
static _Atomic(gg_slab *) places[PLACES];
static gg_slab taken;
static atomic_size_t kept_of_all;

static gg_slab *place_take(int i) {
    gg_slab *s = atomic_load_explicit(&places[i], memory_order_relaxed);
    while (s != &taken && !atomic_compare_exchange_weak(&places[i], &s, &taken)) {}
    return s;
}
static void place_leave(int i, gg_slab *s) { atomic_store_explicit(&places[i], s, memory_order_release); }

/* The addresses of a slab stay reserved as long as one of its arenas is in quarantine. They would be a large part of
 * those of a process that has a limit of them. */
static bool affordable(void) { return WHOLE <= gg_spare_addresses() / 256; }
static gg_slab *slab_of(uint8_t *base) {
    gg_slab *s = gg_calloc(1, sizeof *s);
    if (s) s->base = base, s->limit = gg_spare_addresses(), s->page = (size_t)sysconf(_SC_PAGESIZE), s->users = 1;
    return s;
}
static gg_slab *slab_new(void) {
    if (!affordable()) return NULL;
    gg_pages_make_room();
    void *base = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    gg_slab *s = base != MAP_FAILED ? slab_of(base) : NULL;
    if (!s && base != MAP_FAILED) gg_pages_free(base, WHOLE);
    return s;
}
static void slab_release(gg_slab *s) {
    if (atomic_fetch_sub(&s->users, 1) != 1) return;
    gg_pages_free(s->base, WHOLE);
    free(s);
}
static void empty(gg_slab *s, span at) {
    if (at.end > at.begin) madvise(s->base + at.begin, at.end - at.begin, MADV_DONTNEED);
}
static uint64_t given_slots(const gg_slab *s) { return s->given < SLOTS ? ((uint64_t)1 << s->given) - 1 : ALL; }
static bool all_rest(gg_slab *s) { return atomic_load(&s->resting) == given_slots(s); }
/* Takes a slab out of its place for good, with the pages of arenas at rest. gg_slot_rest empties the others. */
static bool slab_leave(gg_slab *s) {
    const size_t high = atomic_exchange(&s->high, LEFT);
    const uint64_t resting = atomic_load(&s->resting);
    for (int i = 0; i < s->given; i++) {
        if (!(resting >> i & 1)) continue;
        span run = s->spans[i];
        for (; i + 1 < s->given && resting >> (i + 1) & 1; i++) run.end = s->spans[i + 1].end;
        if (i + 1 == s->given && run.end < high) run.end = high;
        empty(s, run);
    }
    atomic_fetch_sub(&kept_of_all, high);
    slab_release(s);
    return high;
}
/* Moves the pages of a slab whose arenas are all at rest to other addresses. */
static gg_slab *slab_renew(gg_slab *s) {
    gg_slab *const fresh = affordable() ? slab_of(NULL) : NULL;
    if (!fresh) return NULL;
    const size_t high = atomic_load(&s->high), most = (size_t)2 << 20, present = high < most ? high : most;
    empty(s, (span){present, high});        /* it had to go on behind the window */
    atomic_fetch_sub(&kept_of_all, high - present);
    atomic_store(&s->high, present);
    void *const moved = gg_pages_move(s->base, WHOLE);
    if (!moved) { free(fresh); return NULL; }
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
    if (s->given == SLOTS || top + size > WHOLE) return NO_ROOM;
    return top > WINDOW ? USED : IN_USE;
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
    if (s && all_rest(s) && (s->given == SLOTS || atomic_load(&s->top) > WINDOW)) {
        gg_slab *const fresh = slab_renew(s);
        if (fresh) s = fresh;
    }
    if (s && (s->given == SLOTS || atomic_load(&s->top) + size > WHOLE)) slab_leave(s), s = NULL;
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
    atomic_fetch_or(&s->resting, (uint64_t)1 << slot.number);
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
