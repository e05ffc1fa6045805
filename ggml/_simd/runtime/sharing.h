/* What threads share when several of them call the library simultaneously: a Python without a GIL lets them
 * (GG_FREE_THREADED, see ggml/_sections.h). With a GIL the variables and locks below cost nothing. */
#ifndef GG_SHARING_H
#define GG_SHARING_H
#include <stdbool.h>
#include <stdint.h>
#ifndef _WIN32
#include <pthread.h>
#include <sched.h>
#endif

/* Waits before a thread tries the i-th time to take a lock that is held for a few instructions. Who gives up the
 * processor may get it back after milliseconds, so that is done only if the thread that has the lock seems to sleep. */
static inline void gg_wait_turn(int i) {
#if defined __x86_64__ || defined _M_X64
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
#ifndef _WIN32
    if (i % 256 == 0) sched_yield();
#else
    (void)i;
#endif
}
#ifdef GG_FREE_THREADED
#include <stdatomic.h>
#include <string.h>

/* With glibc the access is one instruction: it keeps room for such variables of libraries that are loaded later. */
#ifdef __GLIBC__
#define GG_OF_THREAD __attribute__((tls_model("initial-exec"))) _Thread_local
#else
#define GG_OF_THREAD _Thread_local
#endif
/* A lock for a few instructions. Zeroed memory is an open one. In an array of locks each has its cache line. */
typedef struct { atomic_bool taken; } gg_lock;
/* Processors fetch lines in pairs. */
#define GG_APART 128
/* In a struct of the heap, before and behind what its thread writes often: no other block is in these lines. */
#define GG_KEEP_APART(name) char name[64];
typedef struct { _Alignas(64) gg_lock lock; } gg_lock_apart;
static inline void gg_lock_take(gg_lock *lock) {
    for (int i = 1; atomic_exchange_explicit(&lock->taken, true, memory_order_acquire); i++) gg_wait_turn(i);
}
static inline void gg_lock_open(gg_lock *lock) { atomic_store_explicit(&lock->taken, false, memory_order_release); }
/* Locks of a file that threads may hold while another one forks: in the child they are open. What they protect must be
 * sound after every instruction. */
#ifdef _WIN32
#define GG_OPEN_AFTER_FORK(locks)
#else
#define GG_OPEN_AFTER_FORK(locks)                                                                                      \
    static void open_after_fork(void) { memset(locks, 0, sizeof locks); }                                              \
    __attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, open_after_fork); }
#endif
/* Numbers of which each is given once. A thread takes many at a time, so that threads seldom wait for the counter. */
typedef struct { uint64_t last, end; } gg_numbers;
static inline uint64_t gg_number(gg_numbers *own, uint64_t *taken) {
    if (own->last == own->end) {
        own->end = __atomic_add_fetch(taken, 1 << 20, __ATOMIC_RELAXED);
        own->last = own->end - (1 << 20);
    }
    return ++own->last;
}
#else
#define GG_OF_THREAD
#define GG_APART 64
#define GG_KEEP_APART(name)
typedef struct { char unused; } gg_lock;
typedef struct { gg_lock lock; } gg_lock_apart;
#define GG_OPEN_AFTER_FORK(locks)
static inline void gg_lock_take(gg_lock *lock) { (void)lock; }
static inline void gg_lock_open(gg_lock *lock) { (void)lock; }
typedef struct { uint64_t last; } gg_numbers;
static inline uint64_t gg_number(gg_numbers *own, uint64_t *taken) {
    (void)taken;
    return ++own->last;
}
#endif
/* The first thread that asks in a file has 0, the next 1. With a GIL all have 0. */
static inline unsigned gg_thread_number(void) {
    static unsigned threads;
    static GG_OF_THREAD unsigned own;
    if (!own) own = 1 + __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
    return own - 1;
}
#endif
