/* Mapped files: a handler of SIGBUS for their pages, and the comparison of size and time of modification.
 *
 * The handler is installed with the first mapping. It acts on addresses in mapped files alone; for all others the
 * handler that was there before takes its place again, and the access is repeated. */
#define _GNU_SOURCE
#include "mapped.h"
#include "pages.h"
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
struct gg_mapped { int unused; };   /* the system lets nobody shorten a file that is mapped */

gg_mapped *gg_mapped_new(void *base, size_t size, int fd) {
    (void)base, (void)size, (void)fd;
    return gg_calloc(1, sizeof(gg_mapped));
}
void gg_mapped_free(gg_mapped *m) { free(m); }
bool gg_mapped_changed(const gg_mapped *m) { return (void)m, false; }
#else
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __APPLE__
#define MODIFIED(s) (s).st_mtimespec
#else
#define MODIFIED(s) (s).st_mtim
#endif

/* Entries are never freed, as the handler may read them at any moment: those without a size are used again. */
struct gg_mapped {
    _Atomic uintptr_t base;
    _Atomic size_t size;            /* whole pages; 0: not in use */
    atomic_bool lost;               /* zeros have taken the place of pages */
    int fd;                         /* a descriptor of its own, or -1 */
    off_t length;                   /* of the file, as it was mapped, */
    struct timespec modified;       /* and when it had been written to */
    gg_mapped *next;
};
static _Atomic(gg_mapped *) first;
static struct sigaction before;     /* the handler that ours has replaced */
static atomic_bool leaving;         /* an access elsewhere was handed to it */
static uintptr_t page_size;

static gg_mapped *mapped_at(uintptr_t address) {
    for (gg_mapped *m = atomic_load(&first); m; m = m->next)
        if (address - atomic_load(&m->base) < atomic_load(&m->size)) return m;
    return NULL;
}

/* Puts zeros in the place of the page and all that follow it in the file. */
static bool fill(gg_mapped *m, uintptr_t address) {
    const uintptr_t begin = address & ~(page_size - 1), end = atomic_load(&m->base) + atomic_load(&m->size);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    atomic_store(&m->lost, true);
    return mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
}

/* Whether a process has sent the signal: no access of this one has caused it. */
static bool was_sent(const siginfo_t *info) { return info->si_code <= 0 || info->si_code == SI_USER; }

/* What follows is async-signal-safe; mmap is a plain system call on the systems that are supported. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
    (void)context;
    const int saved = errno;
    gg_mapped *m = was_sent(info) ? NULL : mapped_at((uintptr_t)info->si_addr);
    if (m && fill(m, (uintptr_t)info->si_addr)) {
        errno = saved;
        return;
    }
    struct sigaction next = before;
    if (atomic_exchange(&leaving, true)) {      /* that handler ended by raising the signal again */
        memset(&next, 0, sizeof next);
        next.sa_handler = SIG_DFL;
    }
    sigaction(number, &next, NULL);
    if (was_sent(info)) raise(number);
    errno = saved;
}
static bool is_ours(const struct sigaction *a) { return a->sa_flags & SA_SIGINFO && a->sa_sigaction == on_bus_error; }

/* Installs the handler unless it is there: another library may have put its own in its place. */
static void install(void) {
    struct sigaction now, ours;
    if (sigaction(SIGBUS, NULL, &now) || is_ours(&now)) return;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    before = now;
    atomic_store(&leaving, false);
    sigaction(SIGBUS, &ours, NULL);
}

gg_mapped *gg_mapped_new(void *base, size_t size, int fd) {
    struct stat file;
    if (!page_size) page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    gg_mapped *m = atomic_load(&first);
    while (m && atomic_load(&m->size)) m = m->next;
    const bool added = !m;
    if (added && !(m = gg_calloc(1, sizeof *m))) return NULL;
    m->fd = fstat(fd, &file) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (m->fd >= 0) m->length = file.st_size, m->modified = MODIFIED(file);
    atomic_store(&m->lost, false);
    atomic_store(&m->base, (uintptr_t)base);
    atomic_store(&m->size, (size + page_size - 1) & ~(size_t)(page_size - 1));
    if (added) {
        m->next = atomic_load(&first);
        atomic_store(&first, m);
    }
    install();
    return m;
}
void gg_mapped_free(gg_mapped *m) {
    atomic_store(&m->size, 0);
    if (m->fd >= 0) close(m->fd);
    m->fd = -1;
}
bool gg_mapped_changed(const gg_mapped *m) {
    struct stat file;
    install();
    if (atomic_load(&m->lost)) return true;
    if (m->fd < 0 || fstat(m->fd, &file)) return false;
    return file.st_size != m->length || MODIFIED(file).tv_sec != m->modified.tv_sec
        || MODIFIED(file).tv_nsec != m->modified.tv_nsec;
}
#endif
