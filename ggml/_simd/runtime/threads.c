/* Parallel regions that cannot end the process.
 *
 * OpenMP owns the threads, and each thread that enters regions has a team of its own. libgomp ends the process if it
 * cannot create a thread or has no memory for one. Kernels end it if the stack of a thread is too small. A region in a
 * forked child waits forever for threads that the fork did not copy. Therefore:
 *
 * - Before a team grows, a probe creates as many threads with stacks of the same size, all alive together, and ends
 *   them. If that fails, the team gets fewer threads. Then an empty region makes OpenMP create its threads, and each
 *   measures its stack. A mutex is held meanwhile, so that no other team of this process takes what the probe found.
 * - The pool of a thread counts the OpenMP threads that are alive. While a team of the size asked for exists, a region
 *   costs one comparison more.
 * - Before a fork the OpenMP threads of the forking thread end. Parent and child create new ones when they need them.
 *
 * Another program that takes the last thread or the last memory between the probe and the empty region is the case that
 * remains. */
#define _GNU_SOURCE
#include "threads.h"
#include "engine.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <ctype.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#endif
#ifdef __linux__
#include <link.h>
#include <sys/syscall.h>
#endif
#ifdef GG_OWN_THREADS   /* for ThreadSanitizer, which does not understand libgomp: see setup.py */
#undef _OPENMP
#endif
#ifdef _OPENMP
#include <omp.h>
#endif
/* The other run-time, libomp, handles forks itself, and a smaller team does not end threads. */
#if defined _OPENMP && defined __GNUC__ && !defined __clang__
#define LIBGOMP 1
#endif

enum { SECOND = 1000000000 };       /* in ns */

int64_t gg_clock_ns(void) {
#ifdef _WIN32
    LARGE_INTEGER ticks, second;
    QueryPerformanceCounter(&ticks), QueryPerformanceFrequency(&second);
    return ticks.QuadPart / second.QuadPart * SECOND + ticks.QuadPart % second.QuadPart * SECOND / second.QuadPart;
#else
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * SECOND + ts.tv_nsec;
#endif
}
int64_t gg_coarse_ns(void) {
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

/* ---- stacks ------------------------------------------------------------------------------------------------------ */
/* Kernels need KERNEL_STACK bytes at most: the largest frame has 45 KiB (gcc -fstack-usage). Callbacks run Python code:
 * a thread that is made for want of stack gets more. */
enum { KERNEL_STACK = 96 << 10, OWN_STACK = 1 << 20 };

#ifdef _WIN32
static bool stack_suffices(void) { return true; }
bool gg_run_elsewhere(void (*body)(void *data), void *data) {
    (void)body, (void)data;
    return false;
}
#else
static uintptr_t lowest_of_stack(void) {   /* the lowest address that this thread may use, 0: unknown */
#ifdef __APPLE__
    return (uintptr_t)pthread_get_stackaddr_np(pthread_self()) - pthread_get_stacksize_np(pthread_self());
#elif defined __linux__
    pthread_attr_t attr;
    void *base = NULL;
    size_t size, guard = 0;
    if (pthread_getattr_np(pthread_self(), &attr)) return 0;
    if (pthread_attr_getstack(&attr, &base, &size)) base = NULL;
    if (pthread_attr_getguardsize(&attr, &guard)) guard = 0;    /* the C library may count it as part of the stack */
    pthread_attr_destroy(&attr);
    return base ? (uintptr_t)base + guard : 0;
#else
    return 0;
#endif
}
static bool stack_suffices(void) {
    static _Thread_local uintptr_t lowest;
    if (!lowest) lowest = lowest_of_stack();
    return (uintptr_t)__builtin_frame_address(0) - lowest >= KERNEL_STACK;
}

typedef struct { void (*body)(void *data); void *data; } job;
static void *run_job(void *p) {
    const job *j = p;
    j->body(j->data);
    return NULL;
}
bool gg_run_elsewhere(void (*body)(void *data), void *data) {
    job j = {body, data};
    pthread_attr_t attr;
    pthread_t thread;
    if (pthread_attr_init(&attr)) return false;
    const bool made = !pthread_attr_setstacksize(&attr, OWN_STACK) && !pthread_create(&thread, &attr, run_job, &j);
    pthread_attr_destroy(&attr);
    if (made) pthread_join(thread, NULL);
    return made;
}
#endif

#if defined _OPENMP && !defined _WIN32
/* ---- the probe --------------------------------------------------------------------------------------------------- */
static size_t stack_size;   /* of OpenMP's threads by the environment, as libgomp reads it; 0: the default of threads */

static bool parse_size(const char *text, size_t *size) {
    char *end;
    if (!text || strchr(text, '-')) return false;
    const unsigned long long value = strtoull(text, &end, 10);
    if (end == text) return false;
    while (isspace((unsigned char)*end)) end++;
    static const char units[] = "bkmg";
    int shift = 10;
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    if (unit) shift = 10 * (int)(unit - units), end++;
    while (isspace((unsigned char)*end)) end++;
    if (*end || value << shift >> shift != value) return false;
    *size = (size_t)value << shift;
    return true;
}

/* A mutex holds the threads of a probe back until all exist. */
typedef struct { pthread_t thread; pthread_mutex_t *gate; long id; } candidate;
static void *run_candidate(void *p) {
    candidate *c = p;
#ifdef __linux__
    c->id = syscall(SYS_gettid);
#endif
    pthread_mutex_lock(c->gate);
    pthread_mutex_unlock(c->gate);
    return NULL;
}
/* A thread that was joined counts towards the limits until the kernel has removed it, some microseconds later. */
static void wait_until_gone(const candidate *c) {
#ifdef __linux__
    const int64_t end = gg_coarse_ns() + SECOND;
    while (!syscall(SYS_tgkill, getpid(), c->id, 0) && gg_coarse_ns() < end) sched_yield();
#else
    (void)c;
#endif
}
/* Whether n threads and some memory for OpenMP are available simultaneously. */
static bool probe(int n) {
    enum { ROOM = 1 << 20 };
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t attr;
    candidate *made = calloc((size_t)n + 1, sizeof *made);
    if (!made || pthread_attr_init(&attr)) { free(made); return false; }
    /* A size that is refused here was refused by libgomp too, which then uses the default. */
    if (stack_size) pthread_attr_setstacksize(&attr, stack_size);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);    /* no signal handler runs on these threads */
    pthread_mutex_lock(&gate);
    int count = 0;
    for (; count < n; count++) {
        made[count].gate = &gate;
        if (pthread_create(&made[count].thread, &attr, run_candidate, &made[count])) break;
    }
    void *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room != MAP_FAILED) munmap(room, ROOM);
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < count; i++) pthread_join(made[i].thread, NULL);
    for (int i = 0; i < count; i++) wait_until_gone(&made[i]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    free(made);
    return count == n && room != MAP_FAILED;
}

/* ---- teams ------------------------------------------------------------------------------------------------------- */
/* A thread that enters regions, and its OpenMP threads. The last member that ends frees it. */
struct pool {
    _Atomic int members;    /* threads that are alive */
    int asked, size;        /* of the last team: the number of threads asked for, and the number that it has */
    int64_t retry_at;       /* when to try again if size < asked */
    _Atomic int16_t processor[GGML_MAX_N_THREADS];      /* on which each member was last, see gg_part */
};
static _Thread_local struct pool *pool;     /* of which this thread is a member */
static pthread_key_t pool_key;              /* its destructor tells that a member has ended */
static bool pool_key_made;
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;

static void leave(void *p) {
    struct pool *left = p;
    if (atomic_fetch_sub(&left->members, 1) == 1) free(left);
}
static bool join(struct pool *p) {
    if (pool == p) return true;
    if (!pool_key_made || pthread_setspecific(pool_key, p)) return false;
    if (pool) leave(pool);              /* libomp gives threads to other teams */
    atomic_fetch_add(&p->members, 1);
    pool = p;
    return true;
}
static struct pool *own_pool(void) {
    struct pool *p = pool ? pool : calloc(1, sizeof *p);
    for (int i = 0; p && p != pool && i < GGML_MAX_N_THREADS; i++) p->processor[i] = -1;
    if (p && !join(p)) free(p), p = NULL;
    return p;
}
/* A region of n threads whose members join the pool. Returns their number; 1 if a stack is too small. */
static int start_team(struct pool *p, int n) {
    _Atomic bool unfit = false;
    int granted = 1;
#pragma omp parallel num_threads(n)
    {
        if (omp_get_thread_num() == 0) granted = omp_get_num_threads();
        else if (!join(p) || !stack_suffices()) atomic_store(&unfit, true);
    }
#ifdef LIBGOMP      /* the members that a smaller team does not need are ending */
    for (const int64_t end = gg_coarse_ns() + SECOND; atomic_load(&p->members) > granted && gg_coarse_ns() < end;)
        sched_yield();
#endif
    return atomic_load(&unfit) ? 1 : granted;
}
static int make_team(int n) {
    struct pool *p = own_pool();
    if (!p) return 1;
    pthread_mutex_lock(&growing);
    const int others = atomic_load(&p->members) - 1;
    int more = n - 1 > others ? n - 1 - others : 0, size = 1;
    bool possible;
    while (!(possible = probe(more)) && more) more /= 2;
    if (possible) size = n - 1 > others ? 1 + others + more : n;
    if (size > 1) size = start_team(p, size);
    pthread_mutex_unlock(&growing);
    p->asked = n, p->size = size, p->retry_at = gg_coarse_ns() + SECOND;
    return size;
}
int gg_team_size(int n) {
    if (n < 2 || omp_get_level()) return 1;     /* no region in a region */
    const struct pool *p = pool;
    if (p && p->asked == n && atomic_load_explicit(&p->members, memory_order_relaxed) >= p->size &&
        (p->size == n || gg_coarse_ns() < p->retry_at))
        return p->size;
    return make_team(n);
}

/* ---- forks ------------------------------------------------------------------------------------------------------- */
/* A process that was forked before this library was loaded: the OpenMP threads of its main thread may be lost. */
static bool forked_before;
static bool team_is_lost(void) {
#ifdef __linux__
    return forked_before && syscall(SYS_gettid) == getpid();
#else
    return forked_before;
#endif
}
static void before_fork(void) {
    pthread_mutex_lock(&growing);
#ifdef LIBGOMP
    if (!team_is_lost()) omp_pause_resource_all(omp_pause_hard);    /* does nothing within a region */
#endif
}
static void after_fork(void) { pthread_mutex_unlock(&growing); }

#if defined LIBGOMP && defined __linux__
/* For each loaded object, in the order of loading: is it libgomp? The loop ends at this library. */
static int find_earlier(struct dl_phdr_info *object, size_t size, void *found) {
    (void)size;
    const char *slash = strrchr(object->dlpi_name, '/'), *name = slash ? slash + 1 : object->dlpi_name;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const uintptr_t start = object->dlpi_addr + part->p_vaddr, here = (uintptr_t)&forked_before;
        if (part->p_type == PT_LOAD && here >= start && here < start + part->p_memsz) return 1;
    }
    if (!strncmp(name, "libgomp", 7)) *(bool *)found = true;
    return 0;
}
static bool forked_without_exec(void) {
    enum { FORKED = 0x40 };     /* PF_FORKNOEXEC */
    char text[512];
    unsigned flags = 0;
    FILE *f = fopen("/proc/self/stat", "r");
    if (!f) return false;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *end = strrchr(text, ')');   /* of the name, which may contain anything; then the state and 5 numbers */
    return end && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & FORKED;
}
#endif

__attribute__((constructor)) static void prepare(void) {
    if (!parse_size(getenv("OMP_STACKSIZE"), &stack_size)) parse_size(getenv("GOMP_STACKSIZE"), &stack_size);
    pool_key_made = !pthread_key_create(&pool_key, leave);
    pthread_atfork(before_fork, after_fork, after_fork);
#if defined LIBGOMP && defined __linux__
    bool earlier = false;
    dl_iterate_phdr(find_earlier, &earlier);
    forked_before = earlier && forked_without_exec();
#endif
}

bool gg_thread_suffices(bool parallel) {
    return !(parallel && team_is_lost()) && stack_suffices();
}

/* ---- processors -------------------------------------------------------------------------------------------------- */
/* A kernel may wake a thread on the processor of the one that wakes it, though another one is idle: in a virtual
 * machine it can take an idle processor for one that the host has taken away. Threads of a team that share a processor
 * are as slow as one, and computations of some milliseconds give the kernel no occasion to part them. */
#ifdef __linux__
static const int64_t STAY_NS = 500000;
void gg_part(int ith, int n) {
    static _Thread_local int64_t moved_at;
    struct pool *const p = pool;
    const int cpu = sched_getcpu();
    bool shared = false;
    if (!p || cpu < 0 || cpu >= CPU_SETSIZE || n > GGML_MAX_N_THREADS) return;
    if (atomic_load_explicit(&p->processor[ith], memory_order_relaxed) != cpu)
        atomic_store_explicit(&p->processor[ith], (int16_t)cpu, memory_order_relaxed);
    for (int i = 0; i < n; i++)
        shared |= i != ith && atomic_load_explicit(&p->processor[i], memory_order_relaxed) == cpu;
    if (!shared || !ith) return;
    const int64_t now = gg_clock_ns();
    cpu_set_t allowed, others;
    if (now - moved_at < STAY_NS || sched_getaffinity(0, sizeof allowed, &allowed)) return;
    moved_at = now, others = allowed;
    for (int i = 0; i < n; i++) CPU_CLR(atomic_load_explicit(&p->processor[i], memory_order_relaxed), &others);
    if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof others, &others)) return;
    sched_setaffinity(0, sizeof allowed, &allowed);
    atomic_store_explicit(&p->processor[ith], (int16_t)sched_getcpu(), memory_order_relaxed);
}
#endif
void gg_run_team(int n, void (*body)(void *data, int ith, int nth), void *data) {
    gg_part(0, n);
#pragma omp parallel num_threads(n)
    {
        const int ith = omp_get_thread_num(), nth = omp_get_num_threads();
        if (ith) gg_part(ith, nth);
        body(data, ith, nth);
    }
}

#elif defined _OPENMP   /* Windows */
int gg_team_size(int n) { return omp_get_level() ? 1 : n; }
bool gg_thread_suffices(bool parallel) {
    (void)parallel;
    return stack_suffices();
}
void gg_run_team(int n, void (*body)(void *data, int ith, int nth), void *data) {
#pragma omp parallel num_threads(n)
    body(data, omp_get_thread_num(), omp_get_num_threads());
}

#elif defined GG_OWN_THREADS
static _Thread_local bool in_region;
typedef struct { pthread_t thread; void (*body)(void *data, int ith, int nth); void *data; int ith, nth; } member;

static void *run_member(void *p) {
    const member *m = p;
    in_region = true;
    m->body(m->data, m->ith, m->nth);
    in_region = false;
    return NULL;
}
int gg_team_size(int n) { return in_region ? 1 : n; }
bool gg_thread_suffices(bool parallel) {
    (void)parallel;
    return stack_suffices();
}
void gg_run_team(int n, void (*body)(void *data, int ith, int nth), void *data) {
    member members[n];
    for (int i = n - 1; i >= 0; i--) {
        members[i] = (member){.body = body, .data = data, .ith = i, .nth = n};
        if (i && pthread_create(&members[i].thread, NULL, run_member, &members[i])) abort();
    }
    run_member(&members[0]);
    for (int i = 1; i < n; i++) pthread_join(members[i].thread, NULL);
}

#else                   /* no threads */
int gg_team_size(int n) {
    (void)n;
    return 1;
}
bool gg_thread_suffices(bool parallel) {
    (void)parallel;
    return stack_suffices();
}
void gg_run_team(int n, void (*body)(void *data, int ith, int nth), void *data) { body(data, 0, n < 2 ? n : 1); }
#endif

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
    const int64_t now = gg_coarse_ns(), last = atomic_load(&read_at);
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
