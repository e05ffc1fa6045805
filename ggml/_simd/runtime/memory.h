/* Memory that tensors live in: regions (a registry of live address ranges), contexts (arenas of objects), graphs in them.
 * Everything here runs under the GIL. */
#ifndef GG_MEMORY_H
#define GG_MEMORY_H
#include "engine.h"

typedef struct ggml_context ggml_context;

/* A live range of memory. ARENA ranges hold objects of a context, BUFFER ranges tensor data of a backend buffer, a STRUCT range is
 * one tensor or graph that the caller owns. */
enum { GG_ARENA, GG_BUFFER, GG_STRUCT, GG_REGION_KINDS };

typedef struct gg_region {
    uint8_t *base;
    size_t size;
    ggml_context *ctx;      /* ARENA: its context, NULL once that was freed and only the caller's memory keeps it alive */
    void *owner;            /* memory of a caller: the Python object that keeps it, an ARENA's by a weak reference (see _core.pyx) */
    int64_t views;          /* NumPy / DLPack views, running computes; the pages go when it was freed and the last has gone */
    uint64_t pins;          /* the gg_pins that took it last */
    size_t used;            /* ARENA: bytes in use, once its context no longer fills it */
    bool mapped, warm, file;   /* mapped: pages of our own; warm: taken over from a freed arena; file: they show a file */
    bool freed, orphan;     /* freed: kept in quarantine; orphan: pushed out of it while views hold it */
    struct gg_region *prev; /* earlier chunk of a context that grows */
} gg_region;

gg_region *gg_region_find(int kind, const void *addr);        /* the live range that holds addr, or NULL */
bool gg_region_add(int kind, gg_region *r);                   /* false: no memory */
void gg_region_remove(int kind, gg_region *r);
gg_region *gg_region_overlap(int kind, const void *base, size_t size);   /* any live range that overlaps, or NULL */
void gg_region_retire(gg_region *r);                          /* gives back the pages of a range that has left its registry, keeps the addresses for a while */
void gg_region_leave(gg_region *r);                           /* the same for a range whose memory is a caller's */
bool gg_region_stale(const void *addr);                       /* addr lies in an arena that was freed (as far as is remembered) */
void gg_region_view(gg_region *r, int delta);                 /* counts a view; returns the pages when due */
gg_region *gg_region_of_data(const void *addr);               /* ARENA, BUFFER or freed but still viewed; NULL: none */
bool gg_readable(const void *addr, size_t size);              /* the pages at both ends are mapped (probe of a bare address) */
void *gg_pages_alloc(size_t size);                            /* zeroed pages, NULL: none */
void *gg_pages_of_file(int fd, size_t size);                  /* copy on write; NULL: it can't be mapped */
void gg_pages_free(void *p, size_t size);

/* The ranges that a running compute uses: each counts as viewed, so that it stays in memory when it is freed meanwhile. */
typedef struct gg_pins { gg_region **v; size_t n, cap; uint64_t id; gg_region *tensors, *data; } gg_pins;
bool gg_pin(gg_pins *p, ggml_tensor *const *nodes, int n);   /* those of sound nodes; false: no memory */
void gg_unpin(gg_pins *p);

struct ggml_context {
    uint64_t magic;
    size_t mem_size;         /* as asked; 0: grows */
    bool no_alloc, grows;
    int64_t n_objects;
    ggml_object *first, *last;
    gg_region *chunk;        /* the range being filled */
    size_t closed;           /* bytes used in earlier chunks */
    size_t touched;          /* bytes of the chunk whose pages were asked for ahead */
    void *keep;              /* PyObject list: callbacks, userdata, buffers that nodes refer to */
    void *legacy;            /* PyObject of the May-2023 surface, or NULL */
    uint8_t *scratch;        /* memory of the caller's where data of new tensors goes (ggml_set_scratch), or NULL */
    size_t scratch_size, scratch_used;
};

ggml_context *gg_context_new(size_t mem_size, void *buffer, bool no_alloc);    /* NULL: no memory */
void gg_context_reset(ggml_context *ctx);
void gg_context_free(ggml_context *ctx);     /* leaves a caller's range registered, its ctx NULL (see gg_region) */
ggml_context *gg_context_find(const void *handle);    /* NULL: not a live context */
size_t gg_context_used(const ggml_context *ctx);
/* A new object of `size` payload bytes; NULL when the arena is full, with *need the mem_size that would do. */
ggml_object *gg_context_object(ggml_context *ctx, int type, size_t size, size_t *need);

/* What addr is: a tensor of a live arena? */
bool gg_tensor_live(const ggml_tensor *t);
bool gg_tensor_sound(const ggml_tensor *t);   /* of a live one: callers have written nothing that can't be built upon */
bool gg_tensor_usable(const ggml_tensor *t);    /* both: what arguments need to be */
bool gg_graph_live(const ggml_cgraph *g);
/* Fields are sound and all elements lie in a live arena or buffer; false: perhaps, look closer. */
bool gg_data_ok(const ggml_tensor *t);

/* Sets t->nb for a contiguous tensor; false when a size overflows. */
bool gg_set_contiguous(ggml_tensor *t, size_t *nbytes);

/* Whether the context's scratch memory, if it has some, has room for nbytes more. */
bool gg_scratch_fits(const ggml_context *ctx, size_t nbytes);

/* Enters a filled-in tensor (shape, strides, type, op, sources, view) in the arena; without view_src and no_alloc it gets data of
 * `nbytes` (in scratch memory where there is some: ask gg_scratch_fits before). NULL: *need as above. */
ggml_tensor *gg_context_tensor(ggml_context *ctx, const ggml_tensor *draft, size_t nbytes, size_t *need);

/* ---- graphs (graph.c) --------------------------------------------------------------------------------------------- */
size_t gg_hash_size(size_t min);
size_t gg_graph_nbytes(size_t size, bool grads);           /* 0: too large */
ggml_cgraph *gg_graph_new(ggml_context *ctx, size_t size, bool grads, size_t *need);
size_t gg_hash_find(const ggml_hash_set *h, const ggml_tensor *key);     /* its slot, or the free slot for it; SIZE_MAX: full */
bool gg_hash_used(const ggml_hash_set *h, size_t slot);
bool gg_hash_contains(const ggml_hash_set *h, const ggml_tensor *key);
bool gg_graph_sound(const ggml_cgraph *g);   /* of a live one in an arena: counts and arrays are such as it was made with */
void gg_graph_clear(ggml_cgraph *g);
/* Adds t and what it needs, sources first; a status: SUCCESS, FAILED (graph full), ALLOC_FAILED, ABORTED (*bad: a source that is no live tensor). */
int gg_graph_expand(ggml_cgraph *g, ggml_tensor *t, bool compute, const ggml_tensor **bad);
#endif
