/* Memory from the system: pages, and blocks of the C library. When the system has no more, what freed arenas keep
 * reserved is released (gg_on_exhaustion), and the allocation is tried again. Any thread may call these functions. */
#ifndef GG_PAGES_H
#define GG_PAGES_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Called by any thread when the system has no memory. It releases some and returns true, or there is none to release.
 * NULL: nobody keeps any (memory.c sets it). */
typedef bool (*gg_exhaustion_fn)(void);
extern _Atomic(gg_exhaustion_fn) gg_on_exhaustion;
bool gg_reclaim(void);                                /* calls it; false: nothing was released */

void *gg_malloc(size_t size);                         /* as those of the C library; free() frees the blocks */
void *gg_calloc(size_t n, size_t size);
void *gg_realloc(void *p, size_t size);

void *gg_pages_alloc(size_t size);                    /* zeroed pages, NULL: none */
void *gg_pages_of_file(int fd, size_t size);          /* copy on write; NULL: the file cannot be mapped */
void gg_pages_free(void *p, size_t size);
/* Replaces the pages of a file by a reservation of their addresses; false: the addresses are free now. */
bool gg_pages_close_file(void *p, size_t size);
/* Replaces pages of a file (gg_pages_of_file) by copies in pages of 2 MiB at the same addresses, of which a TLB needs
 * fewer, where such pages begin in p[0 : size] and end in p[0 : room]. Other threads may read meanwhile, not write.
 * Returns the bytes that `copy` has copied; 0: the system has no such pages, or no memory. */
enum { GG_LARGE_PAGE = 2 << 20 };
typedef void (*gg_copy_fn)(void *to, const void *from, size_t large_pages);
size_t gg_pages_enlarge(void *p, size_t size, size_t room, gg_copy_fn copy);
bool gg_pages_can_move(void);                         /* whether the system can do what follows */
/* Moves pages to other addresses, to those from `to` on unless it is NULL; the old ones stay mapped, without pages.
 * NULL: the pages are where they were; but the addresses from `to` on may belong to others now. */
void *gg_pages_move(void *p, size_t size, void *to);
/* Returns the memory to the system and keeps the addresses readable (as zeros), so that a stale pointer is harmless.
 * The pages may be kept for gg_pages_warm if they take at most `warm_size` bytes. */
void gg_pages_return(void *p, size_t size, size_t warm_size);
void *gg_pages_warm(size_t size);                     /* pages of a freed arena, not zeroed; NULL: none */
void gg_pages_make_room(void);                        /* releases some of these: arenas of other sizes are in use now */
bool gg_pages_drop_warm(void);                        /* releases all of these; false: there were none */
/* Populates pages before the first access: one call for many pages is cheaper than a page fault for each. */
void gg_pages_touch(void *p, size_t size);
bool gg_readable(const void *addr, size_t size);      /* the pages are mapped and readable (see pages.c) */
/* How many bytes of addresses freed arenas may keep reserved: a small share of what the process may use (RLIMIT_AS),
 * so that other allocations find room. */
size_t gg_spare_addresses(void);
#endif
