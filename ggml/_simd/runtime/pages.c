/* Pages and blocks of the system. */
#define _GNU_SOURCE
#include "pages.h"
#include "poison.h"
#include <stdint.h>
#include <stdlib.h>
#ifdef _WIN32
#include <windows.h>
#include <io.h>
#else
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#endif
#ifdef __linux__
#include <errno.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#endif

_Atomic(gg_exhaustion_fn) gg_on_exhaustion;
bool gg_reclaim(void) {
    const gg_exhaustion_fn release = atomic_load_explicit(&gg_on_exhaustion, memory_order_acquire);
    return release && release();
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
void *gg_malloc(size_t size) {
    void *p = malloc(size);
    return p || !gg_reclaim() ? p : malloc(size);
}
void *gg_calloc(size_t n, size_t size) {
    void *p = calloc(n, size);
    return p || !gg_reclaim() ? p : calloc(n, size);
}
void *gg_realloc(void *block, size_t size) {
    void *p = realloc(block, size);
    return p || !gg_reclaim() ? p : realloc(block, size);
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */
#define LARGE ((size_t)32 << 20)   /* larger areas use pages of 2 MiB, if the system has them: fewer TLB misses */

static void *map_pages(size_t size) {
#ifdef _WIN32
    return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
#else
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    if (size >= LARGE) madvise(p, size, MADV_HUGEPAGE);
#endif
    return p;
#endif
}
static void *map_file(int fd, size_t size) {
#ifdef _WIN32
    HANDLE map = CreateFileMappingW((HANDLE)_get_osfhandle(fd), NULL, PAGE_WRITECOPY, 0, 0, NULL);
    if (!map) return NULL;
    void *p = MapViewOfFile(map, FILE_MAP_COPY, 0, 0, size);
    CloseHandle(map);
    return p;
#else
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    return p == MAP_FAILED ? NULL : p;
#endif
}
void *gg_pages_alloc(size_t size) {
    void *p = map_pages(size);
    return p || !gg_reclaim() ? p : map_pages(size);
}
void *gg_pages_of_file(int fd, size_t size) {
    void *p = map_file(fd, size);
    return p || !gg_reclaim() ? p : map_file(fd, size);
}
void gg_pages_free(void *p, size_t size) {
    gg_unpoison(p, size);
#ifdef _WIN32
    VirtualFree(p, 0, MEM_RELEASE);
#else
    munmap(p, size);
#endif
}
bool gg_pages_close_file(void *p, size_t size) {
#ifdef _WIN32
    UnmapViewOfFile(p);
    return VirtualAlloc(p, size, MEM_RESERVE, PAGE_NOACCESS) != NULL;
#else
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(p, size, PROT_READ, flags, -1, 0) != MAP_FAILED) return true;
    munmap(p, size);
    return false;
#endif
}
#if defined __linux__ && defined MADV_HUGEPAGE && defined MREMAP_FIXED
static uintptr_t to_large_page(uintptr_t a) { return (a + GG_LARGE_PAGE - 1) & ~(uintptr_t)(GG_LARGE_PAGE - 1); }

size_t gg_pages_enlarge(void *p, size_t size, size_t room, gg_copy_fn copy) {
    const uintptr_t first = to_large_page((uintptr_t)p), end = ((uintptr_t)p + room) & ~(uintptr_t)(GG_LARGE_PAGE - 1);
    const uintptr_t wanted = to_large_page((uintptr_t)p + size), last = wanted < end ? wanted : end;
    if (first >= last) return 0;
    const size_t n = last - first;
    /* The copies are made elsewhere and then moved, so that nobody sees addresses without their values. */
    char *const reserved = mmap(NULL, n + GG_LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (reserved == MAP_FAILED) return 0;
    char *const copies = (char *)to_large_page((uintptr_t)reserved);
    const size_t before = copies - reserved, after = GG_LARGE_PAGE - before;
    if (before) munmap(reserved, before);
    if (after) munmap(copies + n, after);
    if (!madvise(copies, n, MADV_HUGEPAGE)) {
        copy(copies, (const void *)first, n / GG_LARGE_PAGE);
        if (mremap(copies, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)first) != MAP_FAILED) return n;
        /* The system may have unmapped the addresses before it failed: they get their values in other pages. */
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        void *again = mmap((void *)first, n, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (again != MAP_FAILED) copy(again, copies, n / GG_LARGE_PAGE);
    }
    munmap(copies, n);
    return 0;
}
#else
size_t gg_pages_enlarge(void *p, size_t size, size_t room, gg_copy_fn copy) {
    return (void)p, (void)size, (void)room, (void)copy, 0;
}
#endif

#ifdef MREMAP_DONTUNMAP
/* Emulators of programs (qemu-user) accept the flag and unmap the addresses all the same. A system call writes there,
 * because it fails where an access would end the process. */
bool gg_pages_can_move(void) {
    enum { UNKNOWN, YES, NO };
    static atomic_int known;
    int can = atomic_load_explicit(&known, memory_order_relaxed);
    if (can != UNKNOWN) return can == YES;
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *const p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;                  /* no memory says nothing about the next time */
    void *const moved = mremap(p, size, size, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    can = moved != MAP_FAILED && !uname(p) ? YES : NO;
    munmap(p, size);
    if (moved != MAP_FAILED) munmap(moved, size);
    atomic_store_explicit(&known, can, memory_order_relaxed);
    return can == YES;
}
void *gg_pages_move(void *p, size_t size, void *to) {
    const int flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP | (to ? MREMAP_FIXED : 0);
    void *const moved = gg_pages_can_move() ? mremap(p, size, size, flags, to) : MAP_FAILED;
    return moved == MAP_FAILED ? NULL : moved;
}
#else
bool gg_pages_can_move(void) { return false; }
void *gg_pages_move(void *p, size_t size, void *to) { return (void)p, (void)size, (void)to, NULL; }
#endif

/* Pages of freed arenas that used much memory are kept for the next arena of the same size (those of others: see
 * slots.h): a page fault costs as much as five calls. Contexts that grow have several arenas, each twice as large as
 * the one before, so there are places for those of a few contexts. A thread owns a place while `taken` stands in it; no
 * lock is held during the calls of the system, for which other threads would wait. A fork meanwhile costs the child
 * that place. */
enum { WARM = 16 };
static const size_t WARM_OF_ONE = (size_t)16 << 20, WARM_OF_ALL = (size_t)64 << 20;
static struct { _Atomic(void *) p; size_t size; } warm[WARM];
static atomic_size_t warm_of_all;
static char taken;

/* Takes what is in a place, if the place is full or empty as asked for. */
static bool take_place(int i, bool full, void **p) {
    *p = atomic_load_explicit(&warm[i].p, memory_order_relaxed);
    return *p != &taken && !*p == !full && atomic_compare_exchange_strong(&warm[i].p, p, &taken);
}
static void leave_place(int i, void *p) { atomic_store_explicit(&warm[i].p, p, memory_order_release); }
static bool drop_warm(int i) {
    void *p;
    if (!take_place(i, true, &p)) return false;
    gg_pages_free(p, warm[i].size);
    atomic_fetch_sub(&warm_of_all, warm[i].size);
    leave_place(i, NULL);
    return true;
}
/* Takes an empty place; -1: none is, or too much is kept. */
static int place_for(size_t size) {
    void *none;
    if (atomic_load(&warm_of_all) + size > WARM_OF_ALL) return -1;
    for (int i = 0; i < WARM; i++)
        if (take_place(i, false, &none)) return i;
    return -1;
}
static bool keep_warm(void *p, size_t size) {
    static atomic_uint turn;
    int i = place_for(size);
    for (int dropped = 0; i < 0 && dropped < WARM; dropped++) {     /* sizes that nobody asks for any more go */
        drop_warm((int)(atomic_fetch_add(&turn, 1) % WARM));
        i = place_for(size);
    }
    if (i < 0) return false;
    void *const moved = gg_pages_move(p, (size + 4095) & ~(size_t)4095, NULL);
    warm[i].size = size;
    if (moved) atomic_fetch_add(&warm_of_all, size);
    leave_place(i, moved);
    return moved;
}
void gg_pages_return(void *p, size_t size, size_t warm_size) {
#ifdef _WIN32
    (void)warm_size;
    VirtualFree(p, size, MEM_DECOMMIT), VirtualAlloc(p, size, MEM_COMMIT, PAGE_READONLY);
#else
    if (size > WARM_OF_ONE || size > warm_size || !keep_warm(p, size)) {
        madvise(p, size, MADV_DONTNEED);
#ifdef __APPLE__
        mmap(p, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
#endif
    }
#endif
    gg_poison(p, size);
}
void *gg_pages_warm(size_t size) {
    void *p;
    for (int i = 0; i < WARM; i++) {
        if (!take_place(i, true, &p)) continue;
        const bool fits = warm[i].size == size;
        if (fits) atomic_fetch_sub(&warm_of_all, size);
        leave_place(i, fits ? NULL : p);
        if (fits) return p;
    }
    return NULL;
}
void gg_pages_make_room(void) {
    for (int i = 0; i < WARM && !drop_warm(i); i++) {}
}
bool gg_pages_drop_warm(void) {
    bool any = false;
    for (int i = 0; i < WARM; i++) any |= drop_warm(i);
    return any;
}
void gg_pages_touch(void *p, size_t size) {
#if defined __linux__ && defined MADV_POPULATE_WRITE
    const uintptr_t a = ((uintptr_t)p + 4095) & ~(uintptr_t)4095, b = ((uintptr_t)p + size) & ~(uintptr_t)4095;
    if (b > a) madvise((void *)a, b - a, MADV_POPULATE_WRITE);
#else
    (void)p, (void)size;
#endif
}

size_t gg_spare_addresses(void) {
    const size_t most = (size_t)1 << 36;
#if !defined _WIN32 && defined RLIMIT_AS
    enum { SHARE = 32 };
    struct rlimit limit;
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur / SHARE < most)
        return (size_t)limit.rlim_cur / SHARE;
#endif
    return most;
}

/* Whether the whole range is mapped, and readable at both ends and every PROBE bytes. */
#define PROBE ((uintptr_t)2 << 20)
bool gg_readable(const void *addr, size_t size) {
    const uintptr_t a = (uintptr_t)addr, last = a + (size ? size - 1 : 0);
    if (a < 4096 || last < a) return false;
#ifdef _WIN32
    MEMORY_BASIC_INFORMATION m;
    for (uintptr_t p = a; p <= last && p >= a; p = (uintptr_t)m.BaseAddress + m.RegionSize)
        if (!VirtualQuery((void *)p, &m, sizeof m) || m.State != MEM_COMMIT || m.Protect & (PAGE_NOACCESS | PAGE_GUARD))
            return false;
#else
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = a & ~(page - 1), end = last & ~(page - 1);
#ifdef __linux__
    const bool both_ends = end - begin <= page;         /* one or two pages: the loop below tests all of them */
#else
    const bool both_ends = false;
#endif
    if (!both_ends && msync((void *)begin, end - begin + page, MS_ASYNC)) return false;     /* ENOMEM: not mapped */
#ifdef __linux__
    /* Pages without read permission, such as guard pages: the system call fails with EFAULT before it checks its
     * invalid first argument. */
    for (uintptr_t p = begin; ; p = end - p > PROBE ? p + PROBE : end) {
        if (syscall(SYS_rt_sigprocmask, ~0, p, NULL, 8) && errno == EFAULT) return false;
        if (p == end) break;
    }
#endif
#endif
    return !gg_poisoned(addr, size);
}
