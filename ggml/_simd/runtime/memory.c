/* Pages, regions and contexts. */
#define _GNU_SOURCE
#include "memory.h"
#include "check.h"
#include <stdlib.h>
#ifdef _WIN32
#include <windows.h>
#include <io.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif
#ifdef __linux__
#include <errno.h>
#include <sys/syscall.h>
#endif

/* ---- pages ------------------------------------------------------------------------------------------------------- */
#define LARGE ((size_t)32 << 20)   /* larger areas use pages of 2 MiB, if the system has them: fewer TLB misses */

void *gg_pages_alloc(size_t size) {
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
void gg_pages_free(void *p, size_t size) {
#ifdef _WIN32
    (void)size;
    VirtualFree(p, 0, MEM_RELEASE);
#else
    munmap(p, size);
#endif
}
void *gg_pages_of_file(int fd, size_t size) {
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
/* Pages of freed arenas are kept in memory for the next arena of the same size: programs make and free the same
 * contexts repeatedly, and a page fault costs as much as five calls. */
enum { WARM = 4 };
#define WARM_BYTES ((size_t)16 << 20)
static struct { void *p; size_t size; } warm[WARM];

/* Returns the memory to the system and keeps the addresses readable (as zeros), so that a stale pointer is harmless. */
static void pages_return(void *p, size_t size) {
#ifdef _WIN32
    VirtualFree(p, size, MEM_DECOMMIT), VirtualAlloc(p, size, MEM_COMMIT, PAGE_READONLY);
#else
#ifdef MREMAP_DONTUNMAP
    for (int i = 0; i < WARM && size <= WARM_BYTES; i++) {
        if (warm[i].p) continue;
        const size_t whole = (size + 4095) & ~(size_t)4095;
        void *moved = mremap(p, whole, whole, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
        if (moved == MAP_FAILED) break;
        warm[i].p = moved, warm[i].size = size;
        return;
    }
#endif
    madvise(p, size, MADV_DONTNEED);
#ifdef __APPLE__
    mmap(p, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
#endif
#endif
}
static void *pages_warm(size_t size) {   /* not zeroed */
    for (int i = 0; i < WARM; i++) {
        if (!warm[i].p || warm[i].size != size) continue;
        void *p = warm[i].p;
        warm[i].p = NULL;
        return p;
    }
    for (int i = 0; i < WARM; i++)   /* none fits: make room for the sizes in use now */
        if (warm[i].p) { gg_pages_free(warm[i].p, warm[i].size), warm[i].p = NULL; break; }
    return NULL;
}
/* Populates pages before the first access: one call for many pages is cheaper than a page fault for each. */
static void pages_touch(void *p, size_t size) {
#if defined __linux__ && defined MADV_POPULATE_WRITE
    const uintptr_t a = ((uintptr_t)p + 4095) & ~(uintptr_t)4095, b = ((uintptr_t)p + size) & ~(uintptr_t)4095;
    if (b > a) madvise((void *)a, b - a, MADV_POPULATE_WRITE);
#else
    (void)p, (void)size;
#endif
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
    const bool both_ends = end - begin <= page;       /* one or two pages: the loop below meets all of them */
#else
    const bool both_ends = false;
#endif
    if (!both_ends && msync((void *)begin, end - begin + page, MS_ASYNC)) return false;      /* ENOMEM: not mapped */
#ifdef __linux__
    /* Pages without read permission, such as guard pages: the system call fails with EFAULT before it checks its
     * invalid first argument. */
    for (uintptr_t p = begin; ; p = end - p > PROBE ? p + PROBE : end) {
        if (syscall(SYS_rt_sigprocmask, ~0, p, NULL, 8) && errno == EFAULT) return false;
        if (p == end) break;
    }
#endif
#endif
    return true;
}

/* ---- regions: an array of each kind, sorted by address ----------------------------------------------------------- */
static struct { gg_region **v; size_t n, cap; gg_region *last; } live[GG_REGION_KINDS];

static size_t position(int kind, const void *addr) {   /* of the first range that begins after addr */
    size_t lo = 0, hi = live[kind].n;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if ((uintptr_t)live[kind].v[mid]->base <= (uintptr_t)addr) lo = mid + 1; else hi = mid;
    }
    return lo;
}
static inline bool holds(const gg_region *r, const void *addr) {
    return (uintptr_t)addr - (uintptr_t)r->base < r->size;
}

gg_region *gg_region_find(int kind, const void *addr) {
    gg_region *r = live[kind].last;
    if (r && holds(r, addr)) return r;
    const size_t i = position(kind, addr);
    if (!i || !holds(live[kind].v[i - 1], addr)) return NULL;
    return live[kind].last = live[kind].v[i - 1];
}
gg_region *gg_region_overlap(int kind, const void *base, size_t size) {
    gg_region *r = gg_region_find(kind, base);
    if (r) return r;
    const size_t i = position(kind, base);
    return i < live[kind].n && (uintptr_t)live[kind].v[i]->base - (uintptr_t)base < size ? live[kind].v[i] : NULL;
}
bool gg_region_add(int kind, gg_region *r) {
    if (live[kind].n == live[kind].cap) {
        const size_t cap = live[kind].cap ? 2 * live[kind].cap : 64;
        gg_region **v = realloc(live[kind].v, cap * sizeof *v);
        if (!v) return false;
        live[kind].v = v, live[kind].cap = cap;
    }
    const size_t i = position(kind, r->base);
    memmove(live[kind].v + i + 1, live[kind].v + i, (live[kind].n - i) * sizeof *live[kind].v);
    live[kind].v[i] = r;
    live[kind].n++;
    return true;
}
void gg_region_remove(int kind, gg_region *r) {
    size_t i = position(kind, r->base);
    while (i > 0 && live[kind].v[i - 1] != r) i--;   /* empty ranges may share a base */
    if (!i) return;
    memmove(live[kind].v + i - 1, live[kind].v + i, (live[kind].n - i) * sizeof *live[kind].v);
    live[kind].n--;
    if (live[kind].last == r) live[kind].last = NULL;
}

/* Freed arenas: their addresses stay reserved for a while, and the oldest are released first. An arena with views stays
 * until the last view is released. */
enum { QUARANTINE = 1024 };
static const size_t QUARANTINE_BYTES = (size_t)1 << 36;
static gg_region *quarantine[QUARANTINE];
static size_t q_head, q_len, q_bytes;

/* Unmaps the file and keeps the addresses reserved. */
static void region_close_file(gg_region *r) {
#ifdef _WIN32
    UnmapViewOfFile(r->base);
    r->mapped = VirtualAlloc(r->base, r->size, MEM_RESERVE, PAGE_NOACCESS) != NULL;
#else
    mmap(r->base, r->size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
#endif
    r->file = false;
}
static void region_return(gg_region *r) {
    if (r->file) region_close_file(r);
    else if (r->mapped) pages_return(r->base, r->size);
}
static void region_destroy(gg_region *r) {
    if (r->file) region_close_file(r);
    if (r->mapped) gg_pages_free(r->base, r->size);
    free(r);
}
static void quarantine_push(gg_region *r) {
    while (q_len == QUARANTINE || (q_len && q_bytes + r->size > QUARANTINE_BYTES)) {
        gg_region *old = quarantine[q_head];
        q_head = (q_head + 1) % QUARANTINE, q_len--, q_bytes -= old->size;
        if (old->views) old->orphan = true;          /* leaves the list; its views keep it */
        else region_destroy(old);
    }
    quarantine[(q_head + q_len++) % QUARANTINE] = r;
    q_bytes += r->size;
}
static gg_region *quarantined(const void *addr) {
    for (size_t i = 0; i < q_len; i++) {
        gg_region *r = quarantine[(q_head + i) % QUARANTINE];
        if (holds(r, addr)) return r;
    }
    return NULL;
}
void gg_region_retire(gg_region *r) {
    r->freed = true;
    if (!r->views) region_return(r);
    quarantine_push(r);
}
void gg_region_leave(gg_region *r) {
    if (r->views) r->freed = r->orphan = true;
    else free(r);
}
bool gg_region_stale(const void *addr) { return quarantined(addr) != NULL; }

gg_region *gg_region_of_data(const void *addr) {
    gg_region *r = gg_region_find(GG_ARENA, addr);
    if (!r) r = gg_region_find(GG_BUFFER, addr);
    if (!r && (r = quarantined(addr)) && !r->views) r = NULL;
    return r;
}
void gg_region_view(gg_region *r, int delta) {
    r->views += delta;
    if (r->views || !r->freed) return;
    if (r->orphan) region_destroy(r);
    else region_return(r);                                 /* still in quarantine */
}

static bool pin_new(gg_pins *p, gg_region **last, const void *addr) {
    static uint64_t id;
    gg_region *r = gg_region_of_data(addr);
    if (!r) r = gg_region_find(GG_STRUCT, addr);
    if (!r) return true;                                   /* memory of a caller that is not registered */
    *last = r;
    if (!p->id) p->id = ++id;
    if (r->pins == p->id) return true;
    if (p->n == p->cap) {
        const size_t cap = p->cap ? 2 * p->cap : 8;
        gg_region **v = realloc(p->v, cap * sizeof *v);
        if (!v) return false;
        p->v = v, p->cap = cap;
    }
    r->pins = p->id;
    r->views++;
    p->v[p->n++] = r;
    return true;
}
/* *last: the range of the address before, mostly the same. */
static inline bool pin(gg_pins *p, gg_region **last, const void *addr) {
    return !addr || (*last && holds(*last, addr)) || pin_new(p, last, addr);
}
bool gg_pin(gg_pins *p, ggml_tensor *const *nodes, int n) {
    for (int i = 0; i < n; i++) {
        const ggml_tensor *t = nodes[i];
        if (!pin(p, &p->tensors, t)) return false;
        if (!(t->flags & GGML_TENSOR_FLAG_COMPUTE) || !gg_op_computes(t->op)) continue;
        if (!pin(p, &p->data, t->data)) return false;
        for (int k = 0; k < GGML_MAX_SRC; k++)
            if (t->src[k] && !(pin(p, &p->tensors, t->src[k]) && pin(p, &p->data, t->src[k]->data))) return false;
    }
    return true;
}
void gg_unpin(gg_pins *p) {
    while (p->n) gg_region_view(p->v[--p->n], -1);
    free(p->v);
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */
static const uint64_t MAGIC = 0x7478635f6c6d6767;   /* "ggml_cxt" */
enum { FIRST_CHUNK = 1 << 20, TOUCH = 1 << 17 };

/* Handles come from malloc. A freed one is kept, marked dead, until 4096 others have been freed. */
static ggml_context *dead[4096];
static size_t n_dead;
static struct { ggml_context **v; size_t n, cap; } contexts;
static ggml_context *last_context;

ggml_context *gg_context_find(const void *handle) {
    if (handle && handle == last_context) return last_context;
    size_t lo = 0, hi = contexts.n;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if ((uintptr_t)contexts.v[mid] < (uintptr_t)handle) lo = mid + 1; else hi = mid;
    }
    if (lo == contexts.n || contexts.v[lo] != handle) return NULL;
    return last_context = contexts.v[lo];
}
static bool context_enter(ggml_context *ctx) {
    if (contexts.n == contexts.cap) {
        const size_t cap = contexts.cap ? 2 * contexts.cap : 64;
        ggml_context **v = realloc(contexts.v, cap * sizeof *v);
        if (!v) return false;
        contexts.v = v, contexts.cap = cap;
    }
    size_t i = contexts.n++;
    for (; i && (uintptr_t)contexts.v[i - 1] > (uintptr_t)ctx; i--) contexts.v[i] = contexts.v[i - 1];
    contexts.v[i] = ctx;
    return true;
}
static void context_leave(ggml_context *ctx) {
    size_t i = 0;
    while (contexts.v[i] != ctx) i++;
    memmove(contexts.v + i, contexts.v + i + 1, (--contexts.n - i) * sizeof *contexts.v);
    last_context = NULL;
    ctx->magic = 0;
    free(dead[n_dead % 4096]);
    dead[n_dead++ % 4096] = ctx;
}

static gg_region *chunk_new(ggml_context *ctx, void *buffer, size_t size) {
    gg_region *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->ctx = ctx, r->base = buffer, r->size = size;
    if (!buffer) {
        r->mapped = true;
        r->warm = (r->base = pages_warm(size)) != NULL;
        if (!r->base && !(r->base = gg_pages_alloc(size))) { free(r); return NULL; }
    }
    if (!gg_region_add(GG_ARENA, r)) { region_destroy(r); return NULL; }
    return r;
}
static size_t padded(size_t size) { return (size + GGML_MEM_ALIGN - 1) & ~(size_t)(GGML_MEM_ALIGN - 1); }
ggml_context *gg_context_new(size_t mem_size, void *buffer, bool no_alloc) {
    ggml_context *ctx = calloc(1, sizeof *ctx);
    if (!ctx) return NULL;
    if (!buffer) mem_size = padded(mem_size);   /* callers add up unpadded sizes of data */
    ctx->magic = MAGIC, ctx->mem_size = mem_size, ctx->no_alloc = no_alloc, ctx->grows = !mem_size && !buffer;
    ctx->chunk = chunk_new(ctx, buffer, ctx->grows ? FIRST_CHUNK : mem_size);
    if (!ctx->chunk) { free(ctx); return NULL; }
    if (context_enter(ctx)) return ctx;
    gg_region_remove(GG_ARENA, ctx->chunk), region_destroy(ctx->chunk), free(ctx);
    return NULL;
}
static size_t chunk_end(const ggml_context *ctx) {   /* bytes used of the current chunk */
    const ggml_object *o = ctx->last;
    return o && holds(ctx->chunk, o) ? o->offs + o->size : 0;
}
static void chunk_release(gg_region *r) {
    if (r->ctx->chunk == r) r->used = chunk_end(r->ctx);
    r->ctx = NULL;
    if (!r->mapped) return;                    /* memory of the caller stays registered (see _core.pyx) */
    gg_region_remove(GG_ARENA, r);
    gg_region_retire(r);
}
void gg_context_free(ggml_context *ctx) {
    for (gg_region *r = ctx->chunk, *prev; r; r = prev) prev = r->prev, chunk_release(r);
    context_leave(ctx);
}
void gg_context_reset(ggml_context *ctx) {
    while (ctx->chunk->prev) {
        gg_region *r = ctx->chunk;
        ctx->chunk = r->prev;
        chunk_release(r);
    }
    ctx->first = ctx->last = NULL;
    ctx->n_objects = 0, ctx->closed = 0, ctx->touched = 0;
    ctx->scratch = NULL;
}
size_t gg_context_used(const ggml_context *ctx) { return ctx->closed + chunk_end(ctx); }

ggml_object *gg_context_object(ggml_context *ctx, int type, size_t size, size_t *need) {
    size_t end = chunk_end(ctx), total;
    *need = (size_t)-1;
    if (size > (size_t)PTRDIFF_MAX / 2) return NULL;
    size = padded(size);
    /* an unaligned buffer of the caller */
    const uintptr_t misaligned = (uintptr_t)(ctx->chunk->base + end) % GGML_MEM_ALIGN;
    if (misaligned) end += GGML_MEM_ALIGN - misaligned;
    if (!gg_add(end, sizeof(ggml_object), &total) || !gg_add(total, size, &total)) return NULL;
    if (total > ctx->chunk->size) {
        *need = ctx->closed + total;
        if (!ctx->grows) return NULL;
        size_t next = 2 * ctx->chunk->size < (size_t)1 << 30 ? 2 * ctx->chunk->size : (size_t)1 << 30;
        if (next < size + sizeof(ggml_object)) next = size + sizeof(ggml_object);
        gg_region *r = chunk_new(ctx, NULL, next);
        if (!r) return NULL;
        r->prev = ctx->chunk;
        ctx->closed += end;
        ctx->chunk->used = end;
        ctx->chunk = r, ctx->touched = 0;
        end = 0, total = sizeof(ggml_object) + size;
    }
    const size_t head = end + sizeof(ggml_object) + sizeof(ggml_tensor);
    if (ctx->chunk->mapped && !ctx->chunk->warm && head > ctx->touched && size <= 4 * TOUCH) {
        const size_t ahead = ctx->chunk->size - ctx->touched < TOUCH ? ctx->chunk->size - ctx->touched : TOUCH;
        if (head > ctx->touched + ahead) ctx->touched = end;
        else pages_touch(ctx->chunk->base + ctx->touched, ahead), ctx->touched += ahead;
    }
    ggml_object *o = (ggml_object *)(ctx->chunk->base + end);
    *o = (ggml_object){.offs = end + sizeof *o, .size = size, .type = type};
    if (ctx->last) ctx->last->next = o; else ctx->first = o;
    ctx->last = o;
    ctx->n_objects++;
    return o;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */
static inline bool object_live(const void *payload, int type, size_t size) {
    const gg_region *r = gg_region_find(GG_ARENA, payload);
    if (!r) return (r = gg_region_find(GG_STRUCT, payload)) && r->base == (const uint8_t *)payload && r->size == size;
    if ((uintptr_t)payload % GGML_MEM_ALIGN) return false;
    const size_t at = (size_t)((const uint8_t *)payload - r->base);
    if (at < sizeof(ggml_object) || r->size - at < size) return false;
    const ggml_object *o = (const ggml_object *)((const uint8_t *)payload - sizeof *o);
    if (o->offs != at || o->type != type || o->size < size) return false;
    return at < (r->ctx && r->ctx->chunk == r ? chunk_end(r->ctx) : r->used);     /* beyond lies stale data */
}
bool gg_tensor_live(const ggml_tensor *t) { return object_live(t, GGML_OBJECT_TYPE_TENSOR, sizeof *t); }
bool gg_tensor_sound(const ggml_tensor *t) {
    return gg_type_ok(t->type) && gg_op_known(t->op)
        && (t->ne[0] | t->ne[1] | t->ne[2] | t->ne[3]) >= 0 && (!t->view_src || gg_tensor_live(t->view_src));
}
bool gg_tensor_usable(const ggml_tensor *t) { return gg_tensor_live(t) && gg_tensor_sound(t); }
bool gg_graph_live(const ggml_cgraph *g) { return object_live(g, GGML_OBJECT_TYPE_GRAPH, sizeof *g); }

bool gg_data_ok(const ggml_tensor *t) {
    size_t n;
    if (!gg_type_ok(t->type) || t->ne[0] < 0 || t->ne[1] < 0 || t->ne[2] < 0 || t->ne[3] < 0) return false;
    if (gg_types[t->type].blck > 1 && t->ne[0] % gg_types[t->type].blck) return false;
    if (!gg_extent(t, &n) || !n) return false;
    const gg_region *r = gg_region_find(GG_ARENA, t->data);
    if (!r && !(r = gg_region_find(GG_BUFFER, t->data))) return false;
    return n <= r->size - (size_t)((const uint8_t *)t->data - r->base);
}

bool gg_set_contiguous(ggml_tensor *t, size_t *nbytes) {
    const gg_type_info *ti = &gg_types[t->type];
    t->nb[0] = (size_t)ti->bytes;
    if (!gg_mul((size_t)(ti->blck == 1 ? t->ne[0] : t->ne[0] / ti->blck), t->nb[0], &t->nb[1])) return false;
    for (int d = 2; d < 4; d++)
        if (!gg_mul(t->nb[d - 1], (size_t)t->ne[d - 1], &t->nb[d])) return false;
    return gg_mul(t->nb[3], (size_t)t->ne[3], nbytes) && *nbytes <= (size_t)PTRDIFF_MAX / 2;
}
bool gg_scratch_fits(const ggml_context *ctx, size_t nbytes) {
    return !ctx->scratch || padded(nbytes) <= ctx->scratch_size - ctx->scratch_used;
}
ggml_tensor *gg_context_tensor(ggml_context *ctx, const ggml_tensor *draft, size_t nbytes, size_t *need) {
    const bool alloc = !draft->view_src && !ctx->no_alloc, own = alloc && !ctx->scratch;
    ggml_object *o = gg_context_object(ctx, GGML_OBJECT_TYPE_TENSOR, sizeof *draft + (own ? nbytes : 0), need);
    if (!o) return NULL;
    ggml_tensor *t = (ggml_tensor *)(o + 1);
    gg_copy_tensor(t, draft);
    if (own) {
        t->data = t + 1;
        if (ctx->chunk->warm) memset(t->data, 0, nbytes);   /* as fresh pages would be */
    } else if (alloc) t->data = ctx->scratch + ctx->scratch_used, ctx->scratch_used += padded(nbytes);
    if (draft->view_src) {
        t->data = draft->view_src->data ? (uint8_t *)draft->view_src->data + draft->view_offs : NULL;
        t->buffer = draft->view_src->buffer;
    }
    return t;
}
