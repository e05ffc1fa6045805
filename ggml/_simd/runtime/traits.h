/* The type traits of the public surface: structs of function pointers that go to the kernels of the ISA in use. */
#ifndef GG_TRAITS_H
#define GG_TRAITS_H
#include "kernel.h"

typedef struct ggml_type_traits {
    const char *type_name;
    int64_t blck_size, blck_size_interleave;
    size_t type_size;
    bool is_quantized;
    gg_to_f32_fn to_float;             /* NULL: the type has no such conversion */
    gg_from_f32_fn from_float_ref;
} ggml_type_traits;

typedef struct ggml_type_traits_cpu {
    gg_from_f32_fn from_float;
    void (*vec_dot)(int n, float *s, size_t bs, const void *x, size_t bx, const void *y, size_t by, int nrc);
    int32_t vec_dot_type;
    int64_t nrows;
} ggml_type_traits_cpu;

const ggml_type_traits *gg_type_traits(int type);          /* of a known type */
const ggml_type_traits_cpu *gg_type_traits_cpu(int type);
#endif
