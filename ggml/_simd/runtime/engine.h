/* Structs, enums and small inline helpers that every part shares. No Python here. Struct layouts are those of the
 * ggml surface (tests/graph/test_layout.py holds them against the manifest and the ctypes mirrors). */
#ifndef GG_ENGINE_H
#define GG_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    GGML_MAX_DIMS = 4, GGML_MAX_SRC = 10, GGML_MAX_NAME = 64, GGML_MAX_OP_PARAMS = 64, GGML_MAX_N_THREADS = 512,
    GGML_DEFAULT_GRAPH_SIZE = 2048, GGML_MEM_ALIGN = 16, GGML_N_TASKS_MAX = -1,
};

enum ggml_type {
#define TYPE(id, NAME, ...) GGML_TYPE_##NAME = id,
#include "../tables/types.h"
#undef TYPE
    GGML_TYPE_COUNT = 42,   /* of the public surface */
    GG_TYPE_MAX = 43        /* ids lie below it */
};
enum { GGML_TYPE_NONE = -1 };

enum ggml_op {
#define OP(id, NAME, symbol, family, check, cost, overwrites, flags) GGML_OP_##NAME = id,
#include "../tables/ops.h"
#undef OP
    GGML_OP_COUNT = 97,   /* of the public surface */
    GG_OP_MAX = 192       /* ids of this library's own operations lie between 128 and here */
};

enum ggml_unary_op {
#define UNARY(id, NAME, fn, derivative, back) GGML_UNARY_OP_##NAME = id,
#include "../tables/unary.h"
#undef UNARY
    GGML_UNARY_OP_COUNT             /* the last row has the highest number */
};

enum ggml_glu_op {
#define GLU(id, NAME) GGML_GLU_OP_##NAME = id,
#include "../tables/glu.h"
#undef GLU
    GGML_GLU_OP_COUNT
};

enum ggml_op_pool {
#define POOL(id, NAME) GGML_OP_POOL_##NAME = id,
#include "../tables/pool.h"
#undef POOL
    GGML_OP_POOL_COUNT
};

enum ggml_status {
    GGML_STATUS_ALLOC_FAILED = -2, GGML_STATUS_FAILED = -1, GGML_STATUS_SUCCESS = 0, GGML_STATUS_ABORTED = 1
};

enum ggml_object_type { GGML_OBJECT_TYPE_TENSOR = 0, GGML_OBJECT_TYPE_GRAPH = 1, GGML_OBJECT_TYPE_WORK_BUFFER = 2 };

enum {
    GGML_TENSOR_FLAG_INPUT = 1, GGML_TENSOR_FLAG_OUTPUT = 2, GGML_TENSOR_FLAG_PARAM = 4, GGML_TENSOR_FLAG_LOSS = 8,
    GGML_TENSOR_FLAG_COMPUTE = 16
};

typedef struct ggml_object {
    size_t offs, size;              /* payload: offset from the arena's base, bytes */
    struct ggml_object *next;
    int32_t type;
    char padding[4];
} ggml_object;

typedef struct ggml_tensor {
    int32_t type;
    void *buffer;
    int64_t ne[4];                  /* elements of each dimension, ne[0] innermost */
    size_t nb[4];                   /* stride in bytes; nb[0] is one block */
    int32_t op;
    int32_t op_params[GGML_MAX_OP_PARAMS / 4];
    int32_t flags;
    struct ggml_tensor *src[10];
    struct ggml_tensor *view_src;
    size_t view_offs;
    void *data;
    char name[64];
    void *extra;
    char padding[8];
} ggml_tensor;

typedef struct ggml_hash_set { size_t size; uint32_t *used; ggml_tensor **keys; } ggml_hash_set;

typedef struct ggml_cgraph {
    int32_t size, n_nodes, n_leafs;
    ggml_tensor **nodes, **grads, **grad_accs, **leafs;
    int32_t *use_counts;
    ggml_hash_set visited_hash_set;
    int32_t order;
    uint64_t uid;
} ggml_cgraph;

typedef bool (*ggml_abort_callback)(void *data);

typedef struct ggml_cplan {
    size_t work_size;
    uint8_t *work_data;
    int32_t n_threads;
    void *threadpool;
    ggml_abort_callback abort_callback;
    void *abort_callback_data;
    uint8_t use_ref;                /* a bool that callers write: any value but 0 is true */
} ggml_cplan;

_Static_assert(sizeof(void *) == 8, "ggml for Python is built for 64-bit systems");
_Static_assert(sizeof(ggml_tensor) == 336 && sizeof(ggml_object) == 32, "struct layout");
_Static_assert(sizeof(ggml_cgraph) == 96 && sizeof(ggml_cplan) == 56, "struct layout");

/* Clear and copy a tensor 16 bytes at a time: what compilers make of memset and memcpy here starts slowly. */
typedef long long gg_pair __attribute__((vector_size(16), aligned(8), may_alias));
static inline void gg_clear_tensor(ggml_tensor *t) {
    for (size_t i = 0; i < sizeof *t / 16; i++) {
        gg_pair *p = (gg_pair *)t + i;
        __asm__("" : "+r"(p));   /* without this GCC emits `rep stos`, which is slow to start */
        *p = (gg_pair){0, 0};
    }
}
static inline void gg_copy_tensor(ggml_tensor *to, const ggml_tensor *from) {
    for (size_t i = 0; i < sizeof *to / 16; i++) ((gg_pair *)to)[i] = ((const gg_pair *)from)[i];
}

/* ---- types ------------------------------------------------------------------------------------------------------- */
/* What a type serves for; the quantised kinds come last (tables/types.h). */
enum { GG_KIND_FLOAT, GG_KIND_INT, GG_KIND_STORED, GG_KIND_WEIGHT, GG_KIND_ACTIVATION, GG_KIND_BOTH };

typedef struct gg_type_info {
    const char *name;
    int32_t blck, bytes, quantized;     /* elements and bytes of a block */
    int32_t activation;                 /* type of the second operand of dot products; GGML_TYPE_NONE: there are none */
} gg_type_info;

static const gg_type_info gg_types[GG_TYPE_MAX] = {
#define TYPE(id, NAME, name, blck, bytes, kind, activation, ...) \
    [id] = {#name, blck, bytes, GG_KIND_##kind >= GG_KIND_WEIGHT, GGML_TYPE_##activation},
#include "../tables/types.h"
#undef TYPE
};

static inline bool gg_type_ok(int type) { return type >= 0 && type < GG_TYPE_MAX && gg_types[type].bytes; }
static inline bool gg_is_float(int type) {
#define TYPE(id, NAME, name, blck, bytes, kind, ...) || (GG_KIND_##kind == GG_KIND_FLOAT && type == id)
    return false
#include "../tables/types.h"
    ;
#undef TYPE
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */
static inline int64_t gg_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t gg_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t gg_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- sizes, with overflow checks --------------------------------------------------------------------------------- */
static inline bool gg_mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool gg_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

/* Bytes of a row of ne elements (ne a multiple of the block). */
static inline size_t gg_row_size(int type, int64_t ne) {
    return (size_t)(ne / gg_types[type].blck) * (size_t)gg_types[type].bytes;
}
/* A product of sizes, INT64_MAX on overflow: checks see shapes that the caller wrote into a struct. */
static inline int64_t gg_count(int64_t a, int64_t b) {
    int64_t n;
    return __builtin_mul_overflow(a, b, &n) ? INT64_MAX : n;
}
/* Likewise a sum. */
static inline int64_t gg_sum(int64_t a, int64_t b) {
    int64_t n;
    return __builtin_add_overflow(a, b, &n) ? INT64_MAX : n;
}
static inline int64_t gg_nrows(const ggml_tensor *t) { return gg_count(gg_count(t->ne[1], t->ne[2]), t->ne[3]); }
static inline int64_t gg_nelements(const ggml_tensor *t) { return gg_count(t->ne[0], gg_nrows(t)); }
static inline bool gg_is_empty(const ggml_tensor *t) { return !(t->ne[0] && t->ne[1] && t->ne[2] && t->ne[3]); }

/* Bytes from the first element to the end of the last, by ne and nb. Returns false on overflow, or when zero strides
 * alias more than 2^34 elements. */
static inline bool gg_extent(const ggml_tensor *t, size_t *out) {
    size_t n = 0, step, count = (size_t)t->ne[0];
    *out = 0;
    if (gg_is_empty(t)) return true;
    const int64_t blocks = t->ne[0] / gg_types[t->type].blck;
    if (blocks < 1) return false;
    if (!gg_mul((size_t)(blocks - 1), t->nb[0], &n) || !gg_add(n, (size_t)gg_types[t->type].bytes, &n)) return false;
    for (int d = 1; d < 4; d++)
        if (!gg_mul((size_t)(t->ne[d] - 1), t->nb[d], &step) || !gg_add(n, step, &n)
            || !gg_mul(count, (size_t)t->ne[d], &count)) return false;
    *out = n;
    return n <= (size_t)PTRDIFF_MAX && (count >> 34 == 0 || count / 8 <= n);   /* at most 8 elements a byte */
}
static inline size_t gg_nbytes(const ggml_tensor *t) { size_t n = 0; return gg_extent(t, &n) ? n : 0; }

/* ---- shapes and strides ------------------------------------------------------------------------------------------ */
static inline bool gg_same_shape(const ggml_tensor *a, const ggml_tensor *b) {
    return a->ne[0] == b->ne[0] && a->ne[1] == b->ne[1] && a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3];
}
/* b can be tiled to the shape of a. */
static inline bool gg_can_repeat(const ggml_tensor *b, const ggml_tensor *a) {
    if (gg_same_shape(a, b)) return true;
    if (gg_is_empty(b)) return gg_is_empty(a);
    return a->ne[0] % b->ne[0] == 0 && a->ne[1] % b->ne[1] == 0 && a->ne[2] % b->ne[2] == 0 && a->ne[3] % b->ne[3] == 0;
}
static inline bool gg_rows_packed(const ggml_tensor *t) {   /* the elements of a row are contiguous */
    return t->nb[0] == (size_t)gg_types[t->type].bytes || t->ne[0] == gg_types[t->type].blck;
}
/* Contiguous from dimension n on: dimensions below n may have padding after them (n = 0: fully contiguous). */
static inline bool gg_contiguous_n(const ggml_tensor *t, int n) {
    size_t next = (size_t)gg_types[t->type].bytes;
    if (t->ne[0] != gg_types[t->type].blck && t->nb[0] != next) return false;
    next *= (size_t)(t->ne[0] / gg_types[t->type].blck);
    for (int i = 1; i < 4; i++) {
        if (i > n) {
            if (t->ne[i] != 1 && t->nb[i] != next) return false;
            next *= (size_t)t->ne[i];
        } else {
            next = (size_t)t->ne[i] * t->nb[i];
        }
    }
    return true;
}
static inline bool gg_contiguous(const ggml_tensor *t) { return gg_contiguous_n(t, 0); }

/* ---- op_params --------------------------------------------------------------------------------------------------- */
/* The struct gg_<name>_params of each row of tables/params.h, and <name>_params(t), the parameters of node t. Nodes
 * hold them as words, at a multiple of 4 bytes: hence the attributes. */
#define I32(field) int32_t field;
#define F32(field) float field;
#define I64(field) int64_t field;
#define PTR(field) void *field;
#define I32S(field, n) int32_t field[n];
#define PARAMS(name, fields)                                                                                          \
    typedef struct __attribute__((packed, aligned(4), may_alias)) { fields } gg_##name##_params;                      \
    _Static_assert(sizeof(gg_##name##_params) <= GGML_MAX_OP_PARAMS, "parameters of " #name);                         \
    static inline gg_##name##_params *name##_params(const ggml_tensor *t) {                                           \
        return (gg_##name##_params *)t->op_params;                                                                    \
    }
#define OF(NAME, name)
#include "../tables/params.h"
#undef OF
#undef PARAMS
#undef I32S
#undef PTR
#undef I64
#undef F32
#undef I32

/* ---- half and bfloat16, exact scalar conversions ----------------------------------------------------------------- */
static inline float gg_bits_f32(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t gg_f32_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float gg_bf16_to_f32(uint16_t h) { return gg_bits_f32((uint32_t)h << 16); }
static inline uint16_t gg_f32_to_bf16(float f) {
    const uint32_t u = gg_f32_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)((u >> 16) | 64);   /* keep NaN a (quiet) NaN */
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
static inline float gg_f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7fff;
    if (mag >= 0x7c00) return gg_bits_f32(sign | 0x7f800000 | (mag & 0x3ff) << 13 | (mag > 0x7c00 ? 0x400000 : 0));
    if (mag >= 0x400) return gg_bits_f32(sign | ((mag << 13) + 0x38000000));
    const float sub = (float)mag * 0x1p-24f;
    return sign ? -sub : sub;
}
static inline uint16_t gg_f32_to_f16(float f) {
    const uint32_t u = gg_f32_bits(f), sign = (u >> 16) & 0x8000, mag = u & 0x7fffffff;
    if (mag > 0x7f800000) return (uint16_t)(sign | 0x7e00 | ((mag >> 13) & 0x3ff));
    if (mag >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (mag < 0x38800000) {                                  /* subnormal half: the float addition rounds to even */
        const float r = gg_bits_f32(mag) + 0.5f;
        return (uint16_t)(sign | (gg_f32_bits(r) - 0x3f000000));
    }
    return (uint16_t)(sign | ((mag - 0x38000000 + 0xfff + ((mag >> 13) & 1)) >> 13));
}

#endif
