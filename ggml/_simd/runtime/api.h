/* The engine's functions as a table. The C objects are linked into ggml._core alone, so the other extension modules
 * call them through the pointer `engine` that _core exports: a field gg_NAME's name without its prefix. */
#ifndef GG_API_H
#define GG_API_H
#include "check.h"
#include "compute.h"
#include "dispatch.h"
#include "prepare.h"
#include "threads.h"
#include "traits.h"
#include "../quants/quantize.h"
#include "../quants/rows.h"

#define GG_ENGINE(X)                                                                                                   \
    /* check.h, op_info.h */                                                                                           \
    X(const char *, check, (const ggml_tensor *node, char *message))                                                   \
    X(const gg_op_info *, op, (int op))                                                                                \
    X(const char *, op_name, (int op))                                                                                 \
    X(const char *, op_symbol, (int op))                                                                               \
    X(const gg_unary_info *, unary, (int function))                                                                    \
    X(const char *, unary_name, (int function))                                                                        \
    X(bool, op_computes, (int op))                                                                                     \
    /* memory.h, pages.h */                                                                                            \
    X(size_t, graph_nbytes, (size_t size, bool grads))                                                                 \
    X(void, graph_clear, (ggml_cgraph *graph))                                                                         \
    X(size_t, hash_find, (const ggml_hash_set *set, const ggml_tensor *key))                                           \
    X(bool, hash_used, (const ggml_hash_set *set, size_t slot))                                                        \
    X(bool, hash_contains, (const ggml_hash_set *set, const ggml_tensor *key))                                         \
    X(void *, calloc, (size_t n, size_t size))                                                                         \
    X(void *, realloc, (void *block, size_t size))                                                                     \
    X(bool, readable, (const void *address, size_t size))                                                              \
    X(bool, tensor_live, (const ggml_tensor *t))                                                                       \
    X(bool, tensor_usable, (const ggml_tensor *t))                                                                     \
    X(bool, data_ok, (const ggml_tensor *t))                                                                           \
    X(uint64_t, region_epoch, (void))                                                                                  \
    X(gg_region *, region_of_data, (const void *address))                                                              \
    X(gg_region *, region_hold, (const void *address))                                                                 \
    X(void, region_view, (gg_region *region, int delta))                                                               \
    /* compute.h */                                                                                                    \
    X(int, compute, (gg_call *call))                                                                                   \
    X(gg_call *, current_call, (void))                                                                                 \
    X(void, stop, (gg_call *call, int status))                                                                         \
    X(void, parallel_for, (int n_threads, int64_t n, void (*body)(void *data, int64_t i), void *data))                 \
    /* plan.h, prepare.h */                                                                                            \
    X(int, until_callback, (ggml_tensor **nodes, int n))                                                               \
    X(size_t, work_size, (ggml_tensor **nodes, int n, int n_threads))                                                  \
    X(const char *, algorithm_of, (ggml_tensor *node))                                                                 \
    X(int, count_steps, (ggml_tensor *const *nodes, int n, int n_threads, bool kept))                                  \
    X(gg_prepared *, prepared_find, (const ggml_cgraph *graph))                                                        \
    X(gg_prepared *, prepared_note, (const ggml_cgraph *graph, int n))                                                 \
    X(bool, prepared_begin, (gg_prepared *p, gg_call *call, gg_pins *pins))                                            \
    X(void, prepared_end, (gg_prepared *p))                                                                            \
    /* threads.h */                                                                                                    \
    X(int, default_threads, (void))                                                                                    \
    X(int64_t, clock_ns, (void))                                                                                       \
    /* profile.h */                                                                                                    \
    X(gg_profile *, profile_new, (int n_lanes, int n_nodes))                                                           \
    X(void, node_describe, (gg_node_facts *facts, const ggml_tensor *node))                                            \
    /* dispatch.h, traits.h, quantize.h, rows.h */                                                                     \
    X(const gg_kernels *, isa_active, (void))                                                                          \
    X(const ggml_type_traits *, type_traits, (int type))                                                               \
    X(const ggml_type_traits_cpu *, type_traits_cpu, (int type))                                                       \
    X(size_t, quantize_rows,                                                                                           \
      (int type, const float *src, void *dst, int64_t nrows, int64_t n_per_row, const float *imatrix,                  \
       int64_t *beyond))                                                                                               \
    X(bool, convert_row, (int type, const float *x, void *y, int64_t n))                                               \
    X(bool, requires_imatrix, (int type))                                                                              \
    X(bool, quantizer_ready, (int type))                                                                               \
    X(bool, validate_rows, (int type, const void *data, size_t nbytes))                                                \
    X(void, byteswap_rows, (int type, void *data, size_t nbytes))

typedef struct gg_engine {
#define FIELD(result, name, parameters) result (*name) parameters;
    GG_ENGINE(FIELD)
#undef FIELD
} gg_engine;

/* For _core alone: filling it in needs the C objects. */
#define GG_ENGINE_ENTRY(result, name, parameters) .name = gg_##name,
#define GG_ENGINE_TABLE {GG_ENGINE(GG_ENGINE_ENTRY)}
#endif
