/* Makes allocations fail, for fuzz/faults.py, which builds this file as a shared library and preloads it (glibc).
 *
 * Only calls from the given address ranges count, those of the extension modules for example. While armed, the calls
 * with the numbers first to last return as they do when the system has no memory or threads. The library also counts
 * what those callers have allocated and not freed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

enum { RANGES = 512, SLOTS = 1 << 20 };
static struct { uintptr_t lo, hi; } ranges[RANGES];
static int n_ranges;
static volatile bool armed;
static long first, last;
static _Atomic long calls, blocks, mappings;
static const char *last_failed;

/* ---- blocks in use: a hash table of addresses with linear probing ------------------------------------------------ */
static uintptr_t table[SLOTS];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
enum { DELETED = 1 };

static size_t slot_of(uintptr_t p) { return (size_t)((p >> 4) * 0x9E3779B97F4A7C15u >> 44) % SLOTS; }
static void enter(void *block) {
    const uintptr_t p = (uintptr_t)block;
    pthread_mutex_lock(&table_lock);
    size_t i = slot_of(p);
    while (table[i] > DELETED) i = (i + 1) % SLOTS;
    table[i] = p;
    pthread_mutex_unlock(&table_lock);
    blocks++;
}
static void leave(void *block) {
    const uintptr_t p = (uintptr_t)block;
    if (!p || !n_ranges) return;
    pthread_mutex_lock(&table_lock);
    size_t i = slot_of(p);
    while (table[i] && table[i] != p) i = (i + 1) % SLOTS;
    if (table[i]) table[i] = DELETED, blocks--;
    pthread_mutex_unlock(&table_lock);
}

/* ---- control: called through ctypes ------------------------------------------------------------------------------ */
void faults_add_range(uintptr_t lo, uintptr_t hi) {
    if (n_ranges < RANGES) ranges[n_ranges].lo = lo, ranges[n_ranges++].hi = hi;
}
void faults_arm(long from, long to) {
    calls = 0;
    first = from;
    last = to;
    last_failed = "";
    armed = true;
}
void faults_disarm(void) { armed = false; }
long faults_calls(void) { return calls; }
long faults_blocks(void) { return blocks; }
long faults_mappings(void) { return mappings; }
const char *faults_last(void) { return last_failed; }

static bool ours(const void *caller) {
    for (int i = 0; i < n_ranges; i++)
        if ((uintptr_t)caller >= ranges[i].lo && (uintptr_t)caller < ranges[i].hi) return true;
    return false;
}
static bool fails(const char *what) {
    if (!armed) return false;
    const long n = ++calls;
    if (n < first || n > last) return false;
    last_failed = what;
    return true;
}
#define CALLER __builtin_return_address(0)

/* ---- what is replaced -------------------------------------------------------------------------------------------- */
static void *entered(void *p) { if (p) enter(p); return p; }
static void *none(void) { errno = ENOMEM; return NULL; }

void *malloc(size_t size) {
    if (!ours(CALLER)) return __libc_malloc(size);
    return fails("malloc") ? none() : entered(__libc_malloc(size));
}
void *calloc(size_t n, size_t size) {
    if (!ours(CALLER)) return __libc_calloc(n, size);
    return fails("calloc") ? none() : entered(__libc_calloc(n, size));
}
void *realloc(void *block, size_t size) {
    const bool counts = ours(CALLER);
    if (counts && fails("realloc")) return none();
    void *p = __libc_realloc(block, size);
    if (!p && size) return NULL;
    leave(block);
    return counts ? entered(p) : p;
}
void free(void *block) { leave(block), __libc_free(block); }
void *aligned_alloc(size_t alignment, size_t size) {
    if (!ours(CALLER)) return __libc_memalign(alignment, size);
    return fails("aligned_alloc") ? none() : entered(__libc_memalign(alignment, size));
}
int posix_memalign(void **out, size_t alignment, size_t size) {
    const bool counts = ours(CALLER);
    if (counts && fails("posix_memalign")) return ENOMEM;
    void *p = __libc_memalign(alignment, size);
    if (!p) return ENOMEM;
    *out = counts ? entered(p) : p;
    return 0;
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }
static void *map(const void *caller, void *at, size_t size, int access, int flags, int fd, off_t offset) {
    static void *(*real)(void *, size_t, int, int, int, off_t);
    const bool counts = ours(caller);
    if (counts && fails("mmap")) { errno = ENOMEM; return MAP_FAILED; }
    if (!real) *(void **)&real = next("mmap64");
    void *p = real(at, size, access, flags, fd, offset);
    if (counts && p != MAP_FAILED && !(flags & MAP_FIXED)) mappings++;
    return p;
}
void *mmap(void *at, size_t size, int access, int flags, int fd, off_t offset) {
    return map(CALLER, at, size, access, flags, fd, offset);
}
void *mmap64(void *at, size_t size, int access, int flags, int fd, off64_t offset) {
    return map(CALLER, at, size, access, flags, fd, offset);
}
int munmap(void *p, size_t size) {
    static int (*real)(void *, size_t);
    if (!real) *(void **)&real = next("munmap");
    if (ours(CALLER)) mappings--;
    return real(p, size);
}
void *mremap(void *old, size_t size, size_t new_size, int flags, ...) {
    static void *(*real)(void *, size_t, size_t, int, ...);
    va_list more;
    va_start(more, flags);
    void *at = va_arg(more, void *);
    va_end(more);
    const bool counts = ours(CALLER);
    if (counts && fails("mremap")) { errno = ENOMEM; return MAP_FAILED; }
    if (!real) *(void **)&real = next("mremap");
    void *p = real(old, size, new_size, flags, at);
#ifdef MREMAP_DONTUNMAP
    if (counts && p != MAP_FAILED && flags & MREMAP_DONTUNMAP) mappings++;
#endif
    return p;
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *data) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (ours(CALLER) && fails("pthread_create")) return EAGAIN;
    if (!real) *(void **)&real = next("pthread_create");
    return real(thread, attr, body, data);
}
int pthread_key_create(pthread_key_t *key, void (*destroy)(void *)) {
    static int (*real)(pthread_key_t *, void (*)(void *));
    if (ours(CALLER) && fails("pthread_key_create")) return EAGAIN;
    if (!real) *(void **)&real = next("pthread_key_create");
    return real(key, destroy);
}
