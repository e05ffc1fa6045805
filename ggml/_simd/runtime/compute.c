/* The graph loop, and the services that kernels call while it runs. */
#define _GNU_SOURCE
#include "compute.h"
#include "check.h"
#include "custom_layout.h"
#include "dispatch.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef _WIN32
#include <windows.h>
#include <malloc.h>
#else
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

#if defined __x86_64__ || defined _M_X64
#define PAUSE() __builtin_ia32_pause()
#elif defined __aarch64__
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

/* Costs are estimates in ns. A node runs on one thread if it costs less than SPLIT_COST for each thread and less than
 * SPLIT_MOST: a barrier of many threads takes longer. Threads are started if the nodes of a call cost CALL_COST. */
enum { SPLIT_COST = 1000, SPLIT_MOST = 6000, CALL_COST = 6000, SPINS = 1 << 16, PENDING = 16,
       GG_PRODUCTS_PER_NS = 25 };
static const int64_t POLL_NS = 20000000;

struct gg_team {
    gg_call *call;
    const gg_kernels *kernels;
    struct task *tasks;
    int n;                              /* threads */
    _Atomic int arrived, phase, stop;   /* stop: set at a barrier, so that all threads see the same value */
    _Atomic int want_stop;
};
struct task { bool split, sync; int threads; _Atomic int64_t chunk; };

static _Thread_local gg_call *this_call;
/* Work memory of this thread, freed when the thread ends. */
static _Thread_local struct { void *p; size_t size; } scratch;

gg_call *gg_current_call(void) { return this_call; }

static void *aligned(size_t size) {
#ifdef _WIN32
    return _aligned_malloc(size, 64);
#else
    void *p = NULL;
    return posix_memalign(&p, 64, size) ? NULL : p;
#endif
}
static void aligned_free(void *p) {
#ifdef _WIN32
    _aligned_free(p);
#else
    free(p);
#endif
}
/* The system frees the work memory of each thread that ends. */
#ifdef _WIN32
static DWORD scratch_key;
static void WINAPI free_scratch(void *p) { aligned_free(p); }
static BOOL CALLBACK make_key(INIT_ONCE *once, void *a, void **b) {
    (void)once, (void)a, (void)b;
    return (scratch_key = FlsAlloc(free_scratch)) != FLS_OUT_OF_INDEXES;
}
static void own_scratch(void *p) {
    static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
    if (InitOnceExecuteOnce(&once, make_key, NULL, NULL)) FlsSetValue(scratch_key, p);
}
#else
static pthread_key_t scratch_key;
static int no_scratch_key;
static void make_key(void) { no_scratch_key = pthread_key_create(&scratch_key, aligned_free); }
static void own_scratch(void *p) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    if (!no_scratch_key) pthread_setspecific(scratch_key, p);
}
#endif
static void resize_scratch(size_t size) {
    aligned_free(scratch.p);
    scratch.p = size ? aligned(size) : NULL;
    scratch.size = scratch.p ? size : 0;
    own_scratch(scratch.p);
}
void *gg_scratch(size_t size) {
    if (size > scratch.size) resize_scratch(size);
    return scratch.size >= size ? scratch.p : NULL;
}

void gg_stop(gg_call *call, int status) {
    if (call->status == GGML_STATUS_SUCCESS) call->status = status;
}
int gg_fail(const ggml_tensor *node, const char *fmt, ...) {
    gg_call *call = this_call;
    (void)node;
    if (call && !call->message[0]) {
        char text[sizeof call->message];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        memcpy(call->message, text, sizeof text);
    }
    return GGML_STATUS_FAILED;
}

/* ---- barrier: spins, then yields the processor --------------------------------------------------------------- */
static void relax(int *spins) {
    if (++*spins < SPINS) { PAUSE(); return; }
#ifdef _WIN32
    SwitchToThread();
#else
    sched_yield();
#endif
}
static void team_wait(struct gg_team *t, int n) {
    const int phase = atomic_load_explicit(&t->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) == n - 1) {
        atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
        const int stop = atomic_load_explicit(&t->want_stop, memory_order_relaxed);
        atomic_store_explicit(&t->stop, stop, memory_order_relaxed);
        atomic_store_explicit(&t->phase, phase + 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&t->phase, memory_order_acquire) == phase;) relax(&spins);
}
void gg_barrier(const gg_work *w) {
    if (w->nth > 1) team_wait(w->team, w->nth);
}

/* ---- pieces of a node -------------------------------------------------------------------------------------------- */
/* Work stealing: each thread first takes its own contiguous chunks, which are likely still in its cache, then steals
 * chunks of others from the end. w->chunk has a bit for each chunk that is taken. Beyond 64 chunks it is a counter, and
 * threads take the next chunk in order. */
static inline uint64_t low_bits(int n) { return n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0; }   /* the lowest n */
bool gg_claim_chunk(const gg_work *w, int64_t n, int64_t grain, int64_t *i0, int64_t *i1) {
    if (w->nth == 1) {              /* small nodes: no divisions, no locked instruction */
        const bool first = !atomic_load_explicit(w->chunk, memory_order_relaxed);
        atomic_store_explicit(w->chunk, 1, memory_order_relaxed);
        *i0 = 0, *i1 = n;
        return first && n > 0;
    }
    const int64_t most = 4 * (int64_t)w->nth;
    int64_t step = (n + most - 1) / most, i;
    if (step < grain) step = grain;
    if (step < 1) step = 1;
    if (most > 64) {
        i = atomic_fetch_add_explicit(w->chunk, step, memory_order_relaxed);
    } else {
        const int pieces = (int)((n + step - 1) / step);
        const int first = pieces * w->ith / w->nth, end = pieces * (w->ith + 1) / w->nth;
        const uint64_t all = low_bits(pieces), own = low_bits(end) & ~low_bits(first);
        uint64_t taken = (uint64_t)atomic_load_explicit(w->chunk, memory_order_relaxed), bit;
        do {
            if (!(all & ~taken)) return false;
            bit = own & ~taken ? own & ~taken & -(own & ~taken) : (uint64_t)1 << (63 - __builtin_clzll(all & ~taken));
            taken = (uint64_t)atomic_fetch_or_explicit(w->chunk, (int64_t)bit, memory_order_relaxed);
        } while (taken & bit);
        i = __builtin_ctzll(bit) * step;
    }
    if (i >= n) return false;
    *i0 = i;
    *i1 = i + step < n ? i + step : n;
    return true;
}

/* ---- which nodes to share, where to wait ------------------------------------------------------------------------- */
/* Estimates the time of a node on one thread in ns, by the cost model of its operation (tables/ops.h). */
static double node_cost(const ggml_tensor *t) {
    const gg_op_info *op = gg_op(t->op);
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
    return gg_op_computes(t->op) && t->flags & GGML_TENSOR_FLAG_COMPUTE && !gg_is_empty(t);
}
static int node_threads(const ggml_tensor *t, int n) {
    if (has_flag(t, GG_FLAG_CALLBACK) && gg_custom_tasks(t, n) < n) return gg_custom_tasks(t, n);
    const double cost = node_cost(t);
    return cost < SPLIT_MOST && cost < SPLIT_COST * n ? 1 : n;
}
/* Whether all nodes together cost enough to start threads. Asking how many there are takes time too. */
static bool worth_threads(const gg_call *c) {
    double cost = 0;
    for (int i = 0; i < c->n_nodes && cost < CALL_COST; i++)
        if (runs(c->nodes[i])) cost += node_cost(c->nodes[i]);
    return cost >= CALL_COST;
}
int gg_until_callback(ggml_tensor **nodes, int n) {
    for (int i = 0; i < n; i++)
        if (has_flag(nodes[i], GG_FLAG_CALLBACK) && runs(nodes[i])) return i + 1;
    return n;
}
static size_t work_size(const gg_kernels *k, ggml_tensor **nodes, int n, int n_threads) {
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        if (!runs(nodes[i]) || !k->work[nodes[i]->op]) continue;
        const size_t w = k->work[nodes[i]->op](nodes[i], node_threads(nodes[i], n_threads));
        if (w > most) most = w;
    }
    return most ? most + 64 : 0;
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
/* Fills in tasks; false when there is too little to share to start threads. A barrier precedes a node that reads or
 * writes what an unfinished node writes, or writes what one reads. Consecutive nodes on one thread need no barrier. */
static bool arrange(gg_call *c, const gg_kernels *k, struct task *tasks, int n) {
    spans reads = {.n = 0}, writes = {.n = 0};
    bool work_used = false, others = false;
    double shared = 0;
    for (int i = 0; i < c->n_nodes; i++) {
        const ggml_tensor *t = c->nodes[i];
        tasks[i] = (struct task){.threads = 0};
        if (!runs(t)) continue;
        tasks[i].threads = node_threads(t, n);
        tasks[i].split = tasks[i].threads > 1;
        if (tasks[i].split) shared += node_cost(t);
        const bool works = k->work[t->op] && k->work[t->op](t, tasks[i].threads);
        const bool writes_any = has_flag(t, GG_FLAG_CALLBACK | GG_FLAG_STEP);      /* memory other than its own */
        bool clash = writes_any || (works && work_used) || touches(&reads, span_of(t)) || touches(&writes, span_of(t));
        for (int j = 0; j < GGML_MAX_SRC && !clash; j++)
            if (t->src[j]) clash = touches(&writes, span_of(t->src[j]));
        if (c->abort || (clash && (tasks[i].split || others))) {
            tasks[i].sync = true;
            reads.n = writes.n = 0, reads.full = writes.full = work_used = others = false;
        }
        others |= tasks[i].split;                       /* a thread other than the first may be working */
        work_used |= works;
        remember(&writes, span_of(t));
        if (writes_any) writes.full = true;
        for (int j = 0; j < GGML_MAX_SRC; j++)
            if (t->src[j]) remember(&reads, span_of(t->src[j]));
    }
    return shared >= CALL_COST;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
/* A callback may change any node, even its own. That node is the last one, whose operation is read from a copy. */
static int run_node(const gg_kernels *k, const gg_work *w, int i) {
    const gg_call *c = w->team->call;
    ggml_tensor *t = c->nodes[i];
    return k->op[i == c->n_nodes - 1 ? c->last.op : t->op](w, t);
}
static void failed(gg_call *c, int node, int status) {
    if (c->status == GGML_STATUS_SUCCESS || c->failed < 0) c->failed = node;
    gg_stop(c, status);
}
static int64_t now_ns(void) {
#ifdef _WIN32
    return (int64_t)GetTickCount64() * 1000000;
#else
    struct timespec ts;
#ifdef CLOCK_MONOTONIC_COARSE
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
#else
    clock_gettime(CLOCK_MONOTONIC, &ts);
#endif
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
#endif
}
/* By the first thread between nodes: whether the caller, or Ctrl-C, stops the computation. */
static void ask(gg_call *c, int64_t *polled) {
    if (c->abort && c->abort(c->abort_data)) gg_stop(c, GGML_STATUS_ABORTED);
    if (!c->poll) return;
    const int64_t t = now_ns();
    if (!*polled) *polled = t;
    if (t - *polled < POLL_NS) return;
    *polled = t;
    if (c->poll()) gg_stop(c, GGML_STATUS_FAILED);
}
static void run_alone(gg_call *c, const gg_kernels *k) {
    _Atomic int64_t chunk;
    struct gg_team team = {.call = c, .kernels = k, .n = 1};
    const gg_work w = {.kernels = k, .ith = 0, .nth = 1, .wdata = c->wdata, .wsize = c->wsize, .team = &team,
                       .chunk = &chunk, .node = &c->last, .n_threads = c->n_threads};
    gg_call *outer = this_call;
    int64_t polled = 0;
    this_call = c;
    for (int i = 0; i < c->n_nodes; i++) {
        ggml_tensor *t = c->nodes[i];
        if (!runs(t)) continue;
        ask(c, &polled);
        if (c->status) { if (c->failed < 0) c->failed = i; break; }
        atomic_store_explicit(&chunk, 0, memory_order_relaxed);
        const int st = run_node(k, &w, i);
        if (st || c->status) { failed(c, i, st); break; }
    }
    this_call = outer;
}
static void run_thread(struct gg_team *team, int ith) {
    gg_call *c = team->call, *outer = this_call;
    int64_t polled = 0;
    this_call = c;
    for (int i = 0; i < c->n_nodes; i++) {
        struct task *task = &team->tasks[i];
        if (!task->threads) continue;
        if (ith == 0) {
            ask(c, &polled);
            if (c->status) atomic_store_explicit(&team->want_stop, 1, memory_order_relaxed);
        }
        if (task->sync) {
            team_wait(team, team->n);
            if (atomic_load_explicit(&team->stop, memory_order_relaxed)) break;
        }
        if (ith >= task->threads) continue;
        const gg_work w = {.kernels = team->kernels, .ith = ith, .nth = task->threads, .wdata = c->wdata,
                           .wsize = c->wsize, .team = team, .chunk = &task->chunk, .node = &c->last,
                           .n_threads = c->n_threads};
        const int st = run_node(team->kernels, &w, i);
        if (st || c->status) {
            failed(c, i, st);
            atomic_store_explicit(&team->want_stop, 1, memory_order_relaxed);
        }
    }
    this_call = outer;
}

#ifndef _WIN32
/* The threads of libgomp do not survive a fork. In a child process, the thread that forked enters the region from a new
 * thread. */
static _Thread_local pid_t region_pid;
static void *in_thread(void *p) { void **a = p; ((void (*)(void *))a[0])(a[1]); return NULL; }
#endif
static void enter_region(void (*body)(void *), void *data) {
#ifndef _WIN32
    const pid_t pid = getpid();
    if (region_pid && region_pid != pid) {
        pthread_t th;
        void *a[2] = {(void *)body, data};
        if (!pthread_create(&th, NULL, in_thread, a)) { pthread_join(th, NULL); return; }
    }
    region_pid = pid;
#endif
    body(data);
}
static void team_region(void *p) {
    struct gg_team *team = p;
#ifdef _OPENMP
    _Atomic int granted = 0;
#pragma omp parallel num_threads(team->n)
    {
        /* OpenMP may start fewer threads (nested regions, limits): then the first thread computes everything */
        const int ith = omp_get_thread_num(), n = omp_get_num_threads();
        if (n == team->n) run_thread(team, ith);
        else if (ith == 0) atomic_store(&granted, n);
    }
    if (atomic_load(&granted)) run_alone(team->call, team->kernels);
#else
    run_alone(team->call, team->kernels);
#endif
}

int gg_compute(gg_call *c) {
    const gg_kernels *k = c->use_ref ? gg_isa_kernels(GG_ISA_REFERENCE) : gg_isa_active();
    c->status = GGML_STATUS_SUCCESS, c->failed = -1, c->message[0] = 0, c->exception = NULL;
    if (c->n_nodes) c->last = *c->nodes[c->n_nodes - 1];
    /* More threads than processors would only wait for each other. */
    const int threads = c->n_threads > 1 && worth_threads(c) ? gg_default_threads() : 1;
    struct gg_team team = {.call = c, .kernels = k, .n = threads};
    if (team.n > c->n_threads) team.n = c->n_threads;
    const size_t need = work_size(k, c->nodes, c->n_nodes, team.n);
    void *own = NULL;
    /* The call may compute its nodes in several parts: each part gets the caller's work memory, or some of its own. */
    uint8_t *const given = c->wdata;
    const size_t given_size = c->wsize;
    const uintptr_t pad = -(uintptr_t)c->wdata & 63;
    if (need && (!c->wdata || c->wsize < need)) {
        if (!(own = aligned(need))) return c->status = GGML_STATUS_ALLOC_FAILED;
        c->wdata = own, c->wsize = need;
    } else if (c->wdata && c->wsize > pad) {
        c->wdata += pad, c->wsize -= pad;
    }
    if (team.n > 1 && c->n_nodes) {
        team.tasks = malloc((size_t)c->n_nodes * sizeof *team.tasks);
        if (team.tasks && arrange(c, k, team.tasks, team.n)) enter_region(team_region, &team);
        else run_alone(c, k);
        free(team.tasks);
    } else {
        run_alone(c, k);
    }
    aligned_free(own);
    c->wdata = given, c->wsize = given_size;
    if (scratch.size > (size_t)64 << 20) resize_scratch(0);
    return c->status;
}

typedef struct { int n_threads; int64_t n; void (*body)(void *, int64_t); void *data; _Atomic int64_t next; } loop;
static void loop_region(void *p) {
    loop *l = p;
#ifdef _OPENMP
#pragma omp parallel num_threads(l->n_threads)
#endif
    for (int64_t i; (i = atomic_fetch_add(&l->next, 1)) < l->n;) l->body(l->data, i);
}
void gg_parallel_for(int n_threads, int64_t n, void (*body)(void *, int64_t), void *data) {
    loop l = {.n_threads = n_threads < n ? n_threads : (int)n, .n = n, .body = body, .data = data};
    if (l.n_threads > 1) { enter_region(loop_region, &l); return; }
    for (int64_t i = 0; i < n; i++) body(data, i);
}

/* ---- how many threads -------------------------------------------------------------------------------------------- */
#ifdef __linux__
static int read_quota(void) {
    long long most = 0, period = 0;
    char first[32];
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (f) {
        if (fscanf(f, "%31s %lld", first, &period) == 2 && strcmp(first, "max")) most = atoll(first);
        fclose(f);
    } else if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r"))) {
        if (fscanf(f, "%lld", &most) != 1) most = 0;
        fclose(f);
        if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r"))) {
            if (fscanf(f, "%lld", &period) != 1) period = 0;
            fclose(f);
        }
    }
    return most > 0 && period > 0 ? (int)((most + period - 1) / period) : 0;
}
static int quota(void) {   /* processors of the cgroup, 0: no limit; read again after a second */
    static _Atomic int known;
    static _Atomic int64_t read_at;
    const int64_t now = now_ns(), last = atomic_load(&read_at);
    if (!last || now - last > 1000000000) {
        atomic_store(&known, read_quota());
        atomic_store(&read_at, now);
    }
    return atomic_load(&known);
}
#else
static int quota(void) { return 0; }
#endif
int gg_default_threads(void) {
    int n = 1;
#ifdef __linux__
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) n = CPU_COUNT(&set);
#elif defined _WIN32
    SYSTEM_INFO si;
    GetSystemInfo(&si);
    n = (int)si.dwNumberOfProcessors;
#else
    n = (int)sysconf(_SC_NPROCESSORS_ONLN);
#endif
    const int q = quota();
    if (q && q < n) n = q;
    return n < 1 ? 1 : n > GGML_MAX_N_THREADS ? GGML_MAX_N_THREADS : n;
}
