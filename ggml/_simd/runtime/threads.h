/* The threads that parallel regions run on: how many there may be, and regions on them. */
#ifndef GG_THREADS_H
#define GG_THREADS_H
#include <stdbool.h>
#include <stdint.h>

int gg_default_threads(void);               /* min(CPU affinity, cgroup quota) */
int64_t gg_clock_ns(void);                  /* a precise monotonic clock */
int64_t gg_coarse_ns(void);                 /* a clock that is cheap to read and advances every few milliseconds */

/* How many threads a region that this thread enters next may have: n, or fewer where OpenMP cannot have n threads.
 * Starts the threads if they do not exist. */
int gg_team_size(int n);
/* Runs body(data, ith, nth) on n threads, a number that gg_team_size returned. OpenMP may give the region another
 * number of threads: nth is what it has. */
void gg_run_team(int n, void (*body)(void *data, int ith, int nth), void *data);
/* Member `ith` of a running team of n notes its processor, and moves to one without a member if another one is there
 * and it is not the first. A member calls it after it slept. */
#if defined _OPENMP && defined __linux__ && !defined GG_OWN_THREADS
void gg_part(int ith, int n);
#else
static inline void gg_part(int ith, int n) { (void)ith, (void)n; }
#endif

/* Whether this thread may run kernels; parallel: in a region. If not, gg_run_elsewhere runs them. */
bool gg_thread_suffices(bool parallel);
/* Runs body(data) on a new thread and waits for its end; false: there is no thread. */
bool gg_run_elsewhere(void (*body)(void *data), void *data);
#endif
