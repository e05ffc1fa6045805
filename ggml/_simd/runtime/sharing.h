/* What threads share when several of them call the library simultaneously: a Python without a GIL lets them
 * (GG_FREE_THREADED, see ggml/_sections.h). With a GIL the variables and locks below cost nothing. */
#ifndef GG_SHARING_H
#define GG_SHARING_H
#include <stdbool.h>
#include <stdint.h>
#ifdef GG_FREE_THREADED
#include <stdatomic.h>
#ifndef _WIN32
#include <sched.h>
#endif

/* With glibc the access is one instruction: it keeps room for such variables of libraries that are loaded later. */
#ifdef __GLIBC__
#define GG_OF_THREAD __attribute__((tls_model("initial-exec"))) _Thread_local
#else
#define GG_OF_THREAD _Thread_local
#endif
/* A lock for a few instructions. Zeroed memory is an open one. */
typedef struct { atomic_bool taken; } gg_lock;
static inline void gg_lock_take(gg_lock *lock) {
    for (int i = 1; atomic_exchange_explicit(&lock->taken, true, memory_order_acquire); i++) {
#ifndef _WIN32
        if (i % 64 == 0) sched_yield();
#endif
    }
}
static inline void gg_lock_open(gg_lock *lock) { atomic_store_explicit(&lock->taken, false, memory_order_release); }
static inline uint64_t gg_next(uint64_t *count) { return __atomic_add_fetch(count, 1, __ATOMIC_RELAXED); }
#else
#define GG_OF_THREAD
typedef struct { char unused; } gg_lock;
static inline void gg_lock_take(gg_lock *lock) { (void)lock; }
static inline void gg_lock_open(gg_lock *lock) { (void)lock; }
static inline uint64_t gg_next(uint64_t *count) { return ++*count; }
#endif
#endif
