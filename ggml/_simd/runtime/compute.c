/* The graph loop, and the services that kernels call while it runs. */
#define _GNU_SOURCE
#include "compute.h"
#include "dispatch.h"
#include "fuse.h"
#include "memory.h"
#include "threads.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef _WIN32
#include <windows.h>
#include <malloc.h>
#else
#include <pthread.h>
#include <sched.h>
#endif
#ifdef __linux__
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined __x86_64__ || defined _M_X64
#define PAUSE() __builtin_ia32_pause()
#elif defined __aarch64__
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

static const int64_t POLL_NS = 20000000;    /* between two checks for Ctrl-C */
static const float CLOCK_INTERVAL_NS = 50000;         /* estimated cost of nodes between two reads of the clock */

struct gg_team {
    gg_call *call;
    const gg_plan *plan;
    int n;                              /* threads */
    _Atomic int arrived, stop;          /* stop: set at a barrier, so that all threads see the same value */
    _Atomic int phase, sleepers;        /* barriers passed; threads that sleep until the next is */
    _Atomic int want_stop;
    int64_t slept, done;                /* ns for which the first thread slept; when it had computed its part */
};

static _Thread_local gg_call *this_call;
/* Memory of this thread, freed when the thread ends: for kernels, and for the work memory of the calls that it makes.
 * A call that a callback makes while the thread's work memory is in use gets its own. */
enum { SCRATCH, WORK, BUFFERS };
static const size_t LARGE_BUFFER = (size_t)64 << 20;       /* larger ones are freed after each call */
typedef struct { void *p; size_t size; } buffer;
static _Thread_local buffer buffers[BUFFERS];
static _Thread_local bool work_in_use;

gg_call *gg_current_call(void) { return this_call; }

static void *try_aligned(size_t size) {
#ifdef _WIN32
    return _aligned_malloc(size, 64);
#else
    void *p = NULL;
    return posix_memalign(&p, 64, size) ? NULL : p;
#endif
}
static void *aligned(size_t size) {
    void *p = try_aligned(size);
    return p || !gg_reclaim() ? p : try_aligned(size);
}
static void aligned_free(void *p) {
#ifdef _WIN32
    _aligned_free(p);
#else
    free(p);
#endif
}
/* The system frees the buffers of each thread that ends. */
#ifdef _WIN32
static DWORD keys[BUFFERS];
static void WINAPI free_buffer(void *p) { aligned_free(p); }
static BOOL CALLBACK make_keys(INIT_ONCE *once, void *a, void **b) {
    (void)once, (void)a, (void)b;
    for (int i = 0; i < BUFFERS; i++)
        if ((keys[i] = FlsAlloc(free_buffer)) == FLS_OUT_OF_INDEXES) return FALSE;
    return TRUE;
}
static void own_buffer(int which, void *p) {
    static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
    if (InitOnceExecuteOnce(&once, make_keys, NULL, NULL)) FlsSetValue(keys[which], p);
}
#else
static pthread_key_t keys[BUFFERS];
static int no_keys;
static void make_keys(void) {
    for (int i = 0; i < BUFFERS; i++) no_keys |= pthread_key_create(&keys[i], aligned_free);
}
static void own_buffer(int which, void *p) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_keys);
    if (!no_keys) pthread_setspecific(keys[which], p);
}
#endif
static void resize(int which, size_t size) {
    buffer *const b = &buffers[which];
    aligned_free(b->p);
    b->p = size ? aligned(size) : NULL;
    b->size = b->p ? size : 0;
    own_buffer(which, b->p);
}
static void *reserve(int which, size_t size) {
    if (size > buffers[which].size) resize(which, size);
    return buffers[which].size >= size ? buffers[which].p : NULL;
}
static void drop_large_buffers(void) {
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].size > LARGE_BUFFER && !(i == WORK && work_in_use)) resize(i, 0);
}
void *gg_scratch(size_t size) { return reserve(SCRATCH, size); }

/* Several threads may fail: the first says how. */
static int status_of(const gg_call *c) { return __atomic_load_n(&c->status, __ATOMIC_RELAXED); }
static void set_once(int *p, int unset, int value) {
    __atomic_compare_exchange_n(p, &unset, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
void gg_stop(gg_call *call, int status) { set_once(&call->status, GGML_STATUS_SUCCESS, status); }
static void explain(const char *fmt, va_list arguments) {
    gg_call *call = this_call;
    char empty = 0;
    if (call && __atomic_compare_exchange_n(call->message, &empty, '?', false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        vsnprintf(call->message, sizeof call->message, fmt, arguments);
}
#define EXPLAIN(fmt) \
    do { va_list ap; va_start(ap, fmt); explain(fmt, ap); va_end(ap); } while (0)
int gg_fail(const ggml_tensor *node, const char *fmt, ...) {
    (void)node;
    EXPLAIN(fmt);
    return GGML_STATUS_FAILED;
}
int gg_no_memory(const ggml_tensor *node, const char *fmt, ...) {
    (void)node;
    EXPLAIN(fmt);
    return GGML_STATUS_ALLOC_FAILED;
}

/* ---- profile ----------------------------------------------------------------------------------------------------- */
static gg_lane *lane_of(const gg_call *c, int ith) {
    return c->profile && ith < c->profile->n_lanes ? &c->profile->lanes[ith] : NULL;
}
static gg_lane *lane_start(const gg_call *c, int ith) {
    gg_lane *const lane = lane_of(c, ith);
    if (lane) lane->now = gg_clock_ns();
    return lane;
}
/* A node begins when the last one ended, unless the thread has waited: one reading of the clock serves both. */
static void lane_add(gg_lane *lane, int node, int64_t arrived, int64_t begin, int64_t end) {
    const uint32_t waited = lane->waited < UINT32_MAX ? (uint32_t)lane->waited : UINT32_MAX;
    lane->spans[lane->n++] = (gg_span){arrived, begin, end, node, waited};
    lane->waited = 0, lane->now = end;
}

/* ---- barrier ----------------------------------------------------------------------------------------------------- */
/* A thread that waits spins for some 20 us, which is as long as it takes to wake a thread. Then the one that it waits
 * for may need this processor: to compute, or to find that it shares it and to move (gg_part). So this thread lets
 * others run for a while. If they keep the processor, the machine is busy, and this thread sleeps at once; else after
 * that while. */
enum { SPINS = 1 << 11 };
static const int64_t LET_RUN_NS = 300000, KEPT_NS = 150000, CROWDED_NS = 100000000;
static bool let_others_run(struct gg_team *t, int phase, int ith, int64_t start) {
#ifdef __linux__
    static _Thread_local int64_t crowded_until;
    if (start < crowded_until) return false;
    for (int64_t now = start, then = start; now - start < LET_RUN_NS; then = now) {
        sched_yield();
        if (atomic_load_explicit(&t->phase, memory_order_acquire) != phase) return true;
        now = gg_clock_ns();
        if (now - then > KEPT_NS) {
            crowded_until = now + CROWDED_NS;
            return false;
        }
        if (ith) gg_part(ith, t->n);
    }
#else
    (void)t, (void)phase, (void)ith, (void)start;
#endif
    return false;
}
static void sleep_while(struct gg_team *t, int phase) {
#ifdef __linux__
    atomic_fetch_add(&t->sleepers, 1);
    while (atomic_load(&t->phase) == phase) syscall(SYS_futex, &t->phase, FUTEX_WAIT_PRIVATE, phase, NULL, NULL, 0);
    atomic_fetch_sub(&t->sleepers, 1);
#else
    while (atomic_load(&t->phase) == phase) {
#ifdef _WIN32
        SwitchToThread();
#else
        sched_yield();
#endif
    }
#endif
}
static void wake_sleepers(struct gg_team *t) {
#ifdef __linux__
    if (atomic_load(&t->sleepers)) syscall(SYS_futex, &t->phase, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)t;
#endif
}
/* What a thread that waits prefetches to its second cache: the beginning of its part of the next matrix. */
typedef struct { const gg_step *product; const char *at, *end; } fetcher;
static void team_wait(struct gg_team *t, int ith, int n, fetcher *f) {
    const int phase = atomic_load_explicit(&t->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) == n - 1) {
        atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
        const int stop = atomic_load_explicit(&t->want_stop, memory_order_relaxed);
        atomic_store_explicit(&t->stop, stop, memory_order_relaxed);
        atomic_store(&t->phase, phase + 1);             /* before the sleepers are counted */
        wake_sleepers(t);
        return;
    }
    for (; f && f->at < f->end; f->at += 64) {
        if (atomic_load_explicit(&t->phase, memory_order_acquire) != phase) return;
        __builtin_prefetch(f->at, 0, 2);
    }
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&t->phase, memory_order_acquire) != phase) return;
        PAUSE();
    }
    const int64_t start = gg_clock_ns();
    if (!let_others_run(t, phase, ith, start)) {
        sleep_while(t, phase);
        gg_part(ith, t->n);
    }
    if (!ith) t->slept += gg_clock_ns() - start;
}
void gg_barrier(const gg_work *w) {
    if (w->nth < 2) return;
    gg_lane *const lane = lane_of(w->team->call, w->ith);
    const int64_t start = lane ? gg_clock_ns() : 0;
    team_wait(w->team, w->ith, w->nth, NULL);
    if (lane) lane->waited += gg_clock_ns() - start;
}

/* ---- pieces of a node -------------------------------------------------------------------------------------------- */
/* Work stealing: w->chunk has a bit for each piece that is taken. Beyond GG_OWN_PIECES it is a counter. */
static inline uint64_t low_bits(int n) { return n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0; }   /* the lowest n */
int64_t gg_claim_piece(const gg_work *w, int64_t n) {
    if (w->nth == 1 || n > GG_OWN_PIECES) {
        const int64_t i = atomic_fetch_add_explicit(w->chunk, 1, memory_order_relaxed);
        return i < n ? i : -1;
    }
    const int pieces = (int)n, first = pieces * w->ith / w->nth, end = pieces * (w->ith + 1) / w->nth;
    const uint64_t all = low_bits(pieces), own = low_bits(end) & ~low_bits(first);
    uint64_t taken = (uint64_t)atomic_load_explicit(w->chunk, memory_order_relaxed), bit;
    do {
        const uint64_t left = all & ~taken, mine = own & left;
        if (!left) return -1;
        bit = mine && !w->down ? mine & -mine : (uint64_t)1 << (63 - __builtin_clzll(mine ? mine : left));
        taken = (uint64_t)atomic_fetch_or_explicit(w->chunk, (int64_t)bit, memory_order_relaxed);
    } while (taken & bit);
    return __builtin_ctzll(bit);
}
bool gg_claim_chunk(const gg_work *w, int64_t n, int64_t grain, int64_t *i0, int64_t *i1) {
    if (w->nth == 1) {              /* small nodes: no divisions, no locked instruction */
        const bool first = !atomic_load_explicit(w->chunk, memory_order_relaxed);
        atomic_store_explicit(w->chunk, 1, memory_order_relaxed);
        *i0 = 0, *i1 = n;
        return first && n > 0;
    }
    const int64_t most = 4 * (int64_t)w->nth;
    int64_t step = (n + most - 1) / most;
    if (step < grain) step = grain;
    if (step < 1) step = 1;
    const int64_t i = gg_claim_piece(w, (n + step - 1) / step);
    if (i < 0) return false;
    *i0 = i * step;
    *i1 = *i0 + step < n ? *i0 + step : n;
    return true;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
static int run_step(const gg_step *s, const gg_work *w, gg_lane *lane, int64_t arrived) {
    if (!lane) return s->run(w, s->node);
    const int64_t begin = lane->now;
    const int st = s->run(w, s->node);
    lane_add(lane, s->index, arrived, begin, gg_clock_ns());
    return st;
}
static void failed(gg_call *c, int node, int status) {
    set_once(&c->failed, -1, node);
    gg_stop(c, status);
}
/* What the first thread does between nodes: it asks the caller, and now and then looks for Ctrl-C. */
typedef struct { float cost; int64_t asked; } poller;
static void ask(gg_call *c, poller *p, float cost) {
    if (c->abort && c->abort(c->abort_data)) gg_stop(c, GGML_STATUS_ABORTED);
    if (!c->poll) return;
    if (p->asked && (p->cost += cost) < CLOCK_INTERVAL_NS) return;
    const int64_t t = gg_coarse_ns();
    if (!p->asked) p->asked = t;
    p->cost = 0;
    if (t - p->asked < POLL_NS) return;
    p->asked = t;
    if (c->poll()) gg_stop(c, GGML_STATUS_FAILED);
}
static void *slot_of(const gg_call *c, const gg_plan *plan, const gg_step *s) {
    return c->wdata ? c->wdata + (size_t)s->slot * plan->slot_size : NULL;
}
/* Where thread ith begins to read the matrix of a product; NULL: nowhere, or what it reads is in its cache. */
static const char *part_of(const gg_step *product, int ith) {
    if (!product || product->down || ith >= product->threads) return NULL;
    const gg_pieces *const p = &product->pieces;
    return (const char *)product->node->src[0]->data + p->bytes * (size_t)(p->n * ith / product->threads);
}
enum { FETCH_MOST = 64 << 10 };     /* bytes: a fraction of the second cache */
/* Directs f to the first product from s on. What the one before it prefetches is left out. */
static void fetch_for(fetcher *f, const gg_step *s, int ith) {
    const gg_step *const product = s->pieces.n ? s : s->next;
    if (product == f->product) return;
    const char *const at = part_of(product, ith), *const end = part_of(product, ith + 1);
    *f = (fetcher){product, at, at};
    if (!at) return;
    f->at = at + GG_PREFETCH_FAR;
    f->end = at + (end && end - at < FETCH_MOST ? end - at : FETCH_MOST);
}
static void run_alone(gg_call *c, const gg_plan *plan) {
    struct gg_team team = {.call = c, .plan = plan, .n = 1};
    gg_work w = {.kernels = plan->request.kernels, .nth = 1, .wsize = plan->slot_size, .team = &team,
                 .node = &c->last, .n_threads = c->n_threads};
    gg_call *outer = this_call;
    poller poller = {.asked = 0};
    gg_lane *const lane = lane_start(c, 0);
    this_call = c;
    for (gg_step *s = plan->steps, *end = s + plan->n_steps; s < end; s++) {
        ask(c, &poller, s->cost);
        if (status_of(c)) { set_once(&c->failed, -1, s->index); break; }
        w.chunk = &s->chunk, w.wdata = slot_of(c, plan, s), w.plan = s->plan, w.chain = s->chain;
        w.next = s->pieces.n ? part_of(s->next, 0) : NULL;
        const int st = run_step(s, &w, lane, lane ? lane->now : 0);
        if (st || status_of(c)) { failed(c, s->index, st); break; }
    }
    this_call = outer;
}
static void run_thread(struct gg_team *team, int ith) {
    const gg_plan *const plan = team->plan;
    gg_call *c = team->call, *outer = this_call;
    gg_work w = {.kernels = plan->request.kernels, .ith = ith, .wsize = plan->slot_size, .team = team,
                 .node = &c->last, .n_threads = c->n_threads};
    poller poller = {.asked = 0};
    fetcher ahead = {NULL, NULL, NULL};
    gg_lane *const lane = lane_start(c, ith);
    this_call = c;
    for (gg_step *s = plan->steps, *end = s + plan->n_steps; s < end; s++) {
        const int64_t arrived = lane ? lane->now : 0;
        if (ith == 0) {
            ask(c, &poller, s->cost);
            if (status_of(c)) atomic_store_explicit(&team->want_stop, 1, memory_order_relaxed);
        }
        if (s->sync) {
            fetch_for(&ahead, s, ith);
            team_wait(team, ith, team->n, &ahead);
            if (atomic_load_explicit(&team->stop, memory_order_relaxed)) break;
            if (lane) lane->now = gg_clock_ns();
        }
        if (ith >= s->threads) {
            if (lane && s->sync) lane_add(lane, s->index, arrived, lane->now, lane->now);
            continue;
        }
        w.nth = s->threads, w.chunk = &s->chunk, w.wdata = slot_of(c, plan, s), w.packed = s->packed;
        w.down = s->down, w.plan = s->plan, w.chain = s->chain;
        w.next = s->pieces.n ? part_of(s->next, ith) : NULL;
        const int st = run_step(s, &w, lane, arrived);
        if (st || status_of(c)) {
            failed(c, s->index, st);
            atomic_store_explicit(&team->want_stop, 1, memory_order_relaxed);
        }
    }
    this_call = outer;
}

/* ---- crowded processors ------------------------------------------------------------------------------------------ */
/* Where other programs use the processors, threads may get so little time that several are slower than one. If the
 * first thread sleeps during much of a call, waiting for others, the calls that follow run on it alone for a while.
 * That ends immediately if it is slower; else the pause doubles each time that several threads are late again. */
static const int64_t LATE_NS = 1000000, SHORTEST_PAUSE_NS = 4000000, LONGEST_PAUSE_NS = 256000000;
static _Thread_local struct {
    int64_t until, pause;       /* when several threads are tried again, and how long the last pause was */
    int64_t retry;              /* when the next pause may begin */
    double rate;                /* estimated cost by time of the call with several threads */
} alone;
static bool runs_alone(const gg_call *c, const gg_plan *plan) {
    return alone.until && !c->profile && !plan->calls_back && gg_coarse_ns() < alone.until;
}
static void note_team(const gg_plan *plan, int64_t waited, int64_t took) {
    if (waited < LATE_NS || 4 * waited < took) {
        alone.pause /= 2;
        return;
    }
    const int64_t now = gg_coarse_ns();
    if (now < alone.retry) return;
    alone.pause = gg_max(gg_min(2 * alone.pause, LONGEST_PAUSE_NS), SHORTEST_PAUSE_NS);
    alone.until = now + alone.pause, alone.rate = plan->cost / (double)took;
}
static void note_alone(const gg_plan *plan, int64_t took) {
    if (plan->cost > alone.rate * (double)took) return;
    alone.until = alone.pause = 0, alone.retry = gg_coarse_ns() + LONGEST_PAUSE_NS;
}

static void team_region(void *p, int ith, int nth) {
    struct gg_team *team = p;
    if (nth == team->n) run_thread(team, ith);
    else if (ith == 0) run_alone(team->call, team->plan);
    if (ith == 0) team->done = gg_clock_ns();
}
static void run_team(struct gg_team *team) {
    const int64_t start = gg_clock_ns();
    gg_run_team(team->n, team_region, team);
    const int64_t end = gg_clock_ns();
    note_team(team->plan, team->slept + end - team->done, end - start);
}
static void run_instead_of_team(gg_call *c, const gg_plan *plan) {
    const int64_t start = gg_clock_ns();
    run_alone(c, plan);
    note_alone(plan, gg_clock_ns() - start);
}

/* Computes c on the threads of its plan, or on one. */
static int compute_on(gg_call *c, const gg_plan *plan, int threads) {
    struct gg_team team = {.call = c, .plan = plan, .n = threads};
    const size_t need = plan->work_size;
    /* The caller may use c again for further nodes: it gets back the work memory that it gave. */
    uint8_t *const given = c->wdata;
    const size_t given_size = c->wsize;
    void *own = NULL;
    bool mine = false;
    const uintptr_t pad = -(uintptr_t)c->wdata & 63;
    if (need && (!c->wdata || c->wsize < need)) {
        mine = !work_in_use;
        c->wdata = mine ? reserve(WORK, need) : (own = aligned(need)), c->wsize = need;
        if (!c->wdata) return c->wdata = given, c->wsize = given_size, c->status = GGML_STATUS_ALLOC_FAILED;
        work_in_use = true;
    } else if (c->wdata && c->wsize > pad) {
        c->wdata += pad, c->wsize -= pad;
    }
    if (threads > 1) run_team(&team);
    else if (plan->threads > 1) run_instead_of_team(c, plan);
    else run_alone(c, plan);
    aligned_free(own);
    c->wdata = given, c->wsize = given_size;
    if (mine) work_in_use = false;
    drop_large_buffers();
    return c->status;
}
static void compute_elsewhere(void *c) { gg_compute(c); }
static int compute_by(gg_call *c, const gg_plan *plan) {
    if (!gg_thread_suffices(plan->threads > 1))
        return gg_run_elsewhere(compute_elsewhere, c) ? c->status : (c->status = GGML_STATUS_ALLOC_FAILED);
    const int threads = plan->threads > 1 && runs_alone(c, plan) ? 1 : gg_team_size(plan->threads);
    if (threads == 1 || threads == plan->threads) return compute_on(c, plan, threads);
    gg_plan_request request = plan->request;            /* fewer threads can be had than planned */
    gg_plan smaller;
    request.n_threads = threads;
    if (!gg_plan_make(&smaller, c->nodes, c->n_nodes, &request)) return c->status = GGML_STATUS_ALLOC_FAILED;
    compute_on(c, &smaller, smaller.threads);
    gg_plan_free(&smaller);
    return c->status;
}
gg_plan_request gg_call_request(const gg_call *c) {
    return (gg_plan_request){.kernels = c->use_ref ? gg_isa_kernels(GG_ISA_REFERENCE) : gg_isa_active(),
                             .n_threads = c->n_threads, .sync_all = c->abort != NULL,
                             .fuse = gg_fuse_enabled() && !c->single};
}
int gg_compute(gg_call *c) {
    c->status = GGML_STATUS_SUCCESS, c->failed = -1, c->message[0] = 0, c->exception = NULL;
    if (c->n_nodes) c->last = *c->nodes[c->n_nodes - 1];
    if (c->plan) {
        for (gg_step *s = c->plan->steps, *end = s + c->plan->n_steps; s < end; s++)
            atomic_store_explicit(&s->chunk, 0, memory_order_relaxed);
        return compute_by(c, c->plan);
    }
    const gg_plan_request request = gg_call_request(c);
    gg_plan plan;
    if (!gg_plan_make(&plan, c->nodes, c->n_nodes, &request)) return c->status = GGML_STATUS_ALLOC_FAILED;
    compute_by(c, &plan);
    gg_plan_free(&plan);
    return c->status;
}

typedef struct { int n_threads; int64_t n; void (*body)(void *, int64_t); void *data; _Atomic int64_t next; } loop;
static void loop_region(void *p, int ith, int nth) {
    loop *l = p;
    (void)ith, (void)nth;
    for (int64_t i; (i = atomic_fetch_add(&l->next, 1)) < l->n;) l->body(l->data, i);
}
static void loop_elsewhere(void *p) {
    const loop *l = p;
    gg_parallel_for(l->n_threads, l->n, l->body, l->data);
}
void gg_parallel_for(int n_threads, int64_t n, void (*body)(void *, int64_t), void *data) {
    loop l = {.n_threads = n_threads < n ? n_threads : (int)n, .n = n, .body = body, .data = data};
    if (!gg_thread_suffices(l.n_threads > 1)) {
        if (gg_run_elsewhere(loop_elsewhere, &l)) return;
        l.n_threads = 1;
    }
    l.n_threads = gg_team_size(l.n_threads);
    if (l.n_threads > 1) gg_run_team(l.n_threads, loop_region, &l);
    else loop_region(&l, 0, 1);
}
