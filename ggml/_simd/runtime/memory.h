/* The memory of tensors: regions (a registry of live address ranges), contexts (arenas of objects), graphs in them.
 * All functions are called under the GIL, or in a section (see ggml/_sections.h). */
#ifndef GG_MEMORY_H
#define GG_MEMORY_H
#include "engine.h"
#include "mapped.h"
#include "pages.h"
#include "sharing.h"
#include "slots.h"

typedef struct ggml_context ggml_context;

/* A live range of memory. An ARENA holds the objects of a context, a BUFFER tensor data of a backend buffer, a STRUCT
 * is one tensor or graph that the caller owns. */
enum { GG_ARENA, GG_BUFFER, GG_STRUCT, GG_REGION_KINDS };

typedef struct gg_region {
    GG_KEEP_APART(before)
    uint8_t *base;
    size_t size;
    ggml_context *ctx;      /* ARENA: its context; NULL after that was freed, while the caller's memory lives */
    void *owner;            /* memory of a caller: its Python object; for an ARENA a weak reference (see _core.pyx) */
    int64_t views;          /* NumPy and DLPack views, running computations, and GG_FREED: see gg_region_views. The
                             * pages are unmapped once the region is freed and its last view is released */
    uint64_t pins;          /* the id of the gg_pins that pinned it last */
    uint64_t serial;        /* a new number whenever the range is registered, or its context is reset */
    size_t used;            /* ARENA: bytes in use, after its context has stopped filling it */
    bool mapped;            /* pages of this library */
    int shard;              /* where it is registered (see memory.c) */
    gg_mapped *file;        /* of pages of a file; else NULL */
    bool rests;             /* in quarantine, without views: its pages went back */
    bool orphan;            /* freed, not in quarantine (any more), and kept by views */
    struct gg_region *next; /* in quarantine: the region that was freed after this one */
    size_t slack, gaps;     /* ARENA, sanitizer builds: bytes for red zones beyond the context's, those in use */
    struct gg_region *prev; /* earlier chunk of a context that grows */
    size_t reached;         /* ARENA: bytes that were in use before its context was reset, at most */
    size_t present;         /* ARENA: bytes that may have pages of freed arenas, which are not zeroed */
    gg_slot slot;           /* ARENA: where its addresses are from; the slab is NULL if they are its own */
    GG_KEEP_APART(behind)
} gg_region;

gg_region *gg_region_find(int kind, const void *addr);        /* the live range that holds addr, or NULL */
bool gg_region_add(int kind, gg_region *r);                   /* false: no memory */
void gg_region_remove(int kind, gg_region *r);
uint64_t gg_region_epoch(void);                               /* changes when a range is removed or reset */
gg_region *gg_region_overlap(int kind, const void *base, size_t size);   /* any live range that overlaps, or NULL */
/* Returns the pages of a range that has left its registry to the system; keeps the addresses reserved in quarantine. */
void gg_region_retire(gg_region *r);
void gg_region_leave(gg_region *r);                           /* the same for memory of a caller */
/* addr lies in a freed arena that is still in quarantine */
bool gg_region_stale(const void *addr);
gg_region *gg_region_of_data(const void *addr);               /* ARENA, BUFFER or freed but still viewed; NULL: none */
/* One view more of a live range, one less of any; unmaps the pages after the last. */
void gg_region_view(gg_region *r, int delta);
gg_region *gg_region_hold(const void *addr);                  /* the same as _of_data, with one view more */
/* The views of a range. In one word with them, GG_FREED says that it was retired: who adds the flag to no view, or
 * takes the last view from it, releases the pages. */
#define GG_FREED ((int64_t)1 << 62)
static inline int64_t gg_region_views(const gg_region *r) {
    return __atomic_load_n(&r->views, __ATOMIC_ACQUIRE) & ~GG_FREED;
}
static inline bool gg_region_freed(const gg_region *r) {
    return __atomic_load_n(&r->views, __ATOMIC_ACQUIRE) >= GG_FREED;
}
/* Called before and after ranges and contexts are taken out, so that no other thread has looked them up; the second
 * with the result of the first. NULL: the GIL sees to it. _core.pyx sets them. */
extern int (*gg_change_begin)(void);
extern void (*gg_change_end)(int before);
/* Called with each range of a context that is released, before it goes; NULL: nobody asks (prepare.c sets it). */
extern void (*gg_on_release)(const gg_region *region);

/* The ranges that a running computation uses. Each counts as viewed, so that its memory stays if it is freed
 * meanwhile. */
typedef struct gg_pins { gg_region **v; size_t n, cap; uint64_t id; gg_region *tensors, *data; } gg_pins;
bool gg_pin(gg_pins *p, ggml_tensor *const *nodes, int n);   /* the ranges of sound nodes; false: no memory */
void gg_unpin(gg_pins *p);

struct ggml_context {
    GG_KEEP_APART(before)
    size_t mem_size;         /* as the caller asked for; 0: the context grows */
    bool no_alloc, grows;
    int64_t n_objects;
    ggml_object *first, *last;
    gg_region *chunk;        /* the range being filled */
    size_t closed;           /* bytes used in earlier chunks */
    size_t touched;          /* bytes of the chunk whose pages are populated */
    void *keep;              /* PyObject list: callbacks, userdata, buffers that nodes refer to */
    void *legacy;            /* PyObject of the May-2023 surface, or NULL */
    uint8_t *scratch;        /* memory of the caller for the data of new tensors (ggml_set_scratch), or NULL */
    size_t scratch_size, scratch_used;
    bool left;               /* it was freed by gg_context_leave */
    gg_lock lock;            /* while an object is added */
    GG_KEEP_APART(behind)
};

/* A context that nobody finds yet; NULL: no memory. It may take a while, and needs no section. */
ggml_context *gg_context_new(size_t mem_size, void *buffer, bool no_alloc);
bool gg_context_enter(ggml_context *ctx);              /* from now on it is found; false: no memory, and it is gone */
void gg_context_reset(ggml_context *ctx);
/* Memory of a caller stays registered, with ctx NULL (see gg_region). What it returns goes to gg_context_rest, which
 * gives the pages back: without a GIL after the thread was alone, since all others wait for the system meanwhile. */
gg_region *gg_context_free(ggml_context *ctx);
void gg_context_rest(gg_region *r);
/* Frees a small context while other threads share the section, and may have looked it up (only without a GIL). Those
 * that come find it no more, but its memory stays: gg_context_left returns one whose time no thread in a section has
 * seen (`passed`), for gg_context_end; NULL: there is none. `now_changed` returns the time, and advances it. */
typedef enum { GG_LEFT, GG_GONE, GG_NOT_SMALL } gg_leaving;
gg_leaving gg_context_leave(ggml_context *ctx, uint64_t (*now_changed)(void));
ggml_context *gg_context_left(bool (*passed)(uint64_t time));
void gg_context_end(ggml_context *ctx);
ggml_context *gg_context_find(const void *handle);    /* NULL: not a live context */
size_t gg_context_used(const ggml_context *ctx);
/* A new object of `size` payload bytes; NULL if the arena is full, and *need is the mem_size that would suffice. */
ggml_object *gg_context_object(ggml_context *ctx, int type, size_t size, size_t *need);

bool gg_tensor_live(const ggml_tensor *t);      /* the address is that of a tensor of a live arena */
/* of a live tensor: its fields are valid, whatever a caller wrote to them */
bool gg_tensor_sound(const ggml_tensor *t);
bool gg_tensor_usable(const ggml_tensor *t);    /* both, as every argument must be */
bool gg_graph_live(const ggml_cgraph *g);
/* True: the fields are valid and all elements lie in a live arena or buffer. False: the caller must check further. */
bool gg_data_ok(const ggml_tensor *t);

/* Sets t->nb for a contiguous tensor; false when a size overflows. */
bool gg_set_contiguous(ggml_tensor *t, size_t *nbytes);

/* Whether the scratch memory of the context has room for nbytes more; true without scratch memory. */
bool gg_scratch_fits(const ggml_context *ctx, size_t nbytes);

/* Copies a complete tensor (shape, strides, type, op, sources, view) into the arena. Unless it is a view, or the
 * context is no_alloc, it gets nbytes of data, in scratch memory if there is some (see gg_scratch_fits). NULL: *need as
 * above. */
ggml_tensor *gg_context_tensor(ggml_context *ctx, const ggml_tensor *node, size_t nbytes, size_t *need);

/* ---- graphs (graph.c) -------------------------------------------------------------------------------------------- */
size_t gg_hash_size(size_t min);
size_t gg_graph_nbytes(size_t size, bool grads);           /* 0: too large */
ggml_cgraph *gg_graph_new(ggml_context *ctx, size_t size, bool grads, size_t *need);
size_t gg_hash_find(const ggml_hash_set *h, const ggml_tensor *key);     /* its slot or a free one; SIZE_MAX: full */
bool gg_hash_used(const ggml_hash_set *h, size_t slot);
bool gg_hash_contains(const ggml_hash_set *h, const ggml_tensor *key);
/* of a live graph in an arena: counts and arrays are those it was made with */
bool gg_graph_sound(const ggml_cgraph *g);
void gg_graph_clear(ggml_cgraph *g);
/* Adds t and all it depends on, sources first. Returns SUCCESS, FAILED (the graph is full), ALLOC_FAILED, or ABORTED (a
 * source of *bad is not a live tensor). */
int gg_graph_expand(ggml_cgraph *g, ggml_tensor *t, bool compute, const ggml_tensor **bad);
#endif
