/* Files that are mapped into memory. Another process may write to such a file, or shorten it: pages that the file no
 * longer has would end the process by SIGBUS at their first access. Here they become zeros, and whoever used the file
 * learns that it was changed. */
#ifndef GG_MAPPED_H
#define GG_MAPPED_H
#include <stdbool.h>
#include <stddef.h>

typedef struct gg_mapped gg_mapped;

/* Watches pages that were mapped from an open file, which may be closed afterwards. NULL: no memory. (GIL) */
gg_mapped *gg_mapped_new(void *base, size_t size, int fd);
void gg_mapped_free(gg_mapped *m);               /* before the pages are unmapped */
/* Whether the file was shortened, or written to, since it was mapped. Any thread may call it. */
bool gg_mapped_changed(const gg_mapped *m);
#endif
