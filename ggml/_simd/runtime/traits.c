/* Type traits: a row of three functions for each type, filled in where the ISA in use has them. */
#include "traits.h"
#include "dispatch.h"

/* The second operand of quantised types is brought into the activation layout PIECE elements at a time. */
static void vec_dot(int type, int64_t n, float *s, const char *x, const char *y) {
    enum { PIECE = 2048 };
    char laid_out[PIECE / 32 * GG_LAYOUT_BYTES] __attribute__((aligned(64)));
    const gg_kernels *const k = gg_isa_active();
    const int activation = gg_types[type].activation;
    if (!k->lay_out[activation]) {
        k->dot[type](n, 1, s, x, 0, y, x);
        return;
    }
    *s = 0;
    for (int64_t m; n > 0; n -= m, x += gg_row_size(type, m), y += gg_row_size(activation, m)) {
        float part;
        m = n < PIECE ? n : PIECE;
        k->lay_out[activation](y, laid_out, m);
        k->dot[type](m, 1, &part, x, 0, laid_out, x);
        *s += part;
    }
}

#define TYPE(id, NAME, name, ...) \
    static void name##_to_float(const void *x, float *y, int64_t n) { gg_isa_active()->to_f32[id](x, y, n); } \
    static void name##_from_float(const float *x, void *y, int64_t n) { gg_isa_active()->from_f32[id](x, y, n); } \
    static void name##_vec_dot(int n, float *s, size_t bs, const void *x, size_t bx, const void *y, size_t by,         \
                               int nrc) {                                                                             \
        (void)bs, (void)bx, (void)by, (void)nrc; \
        vec_dot(id, n, s, x, y); \
    }
#include "../tables/types.h"
#undef TYPE

static ggml_type_traits traits[GG_TYPE_MAX] = {
#define TYPE(id, NAME, name, blck, bytes, kind, ...) \
    [id] = {#name, blck, 0, bytes, GG_KIND_##kind >= GG_KIND_WEIGHT, name##_to_float, name##_from_float},
#include "../tables/types.h"
#undef TYPE
};
static ggml_type_traits_cpu traits_cpu[GG_TYPE_MAX] = {
#define TYPE(id, NAME, name, ...) [id] = {name##_from_float, name##_vec_dot, 0, 1},
#include "../tables/types.h"
#undef TYPE
};

const ggml_type_traits *gg_type_traits(int type) {
    ggml_type_traits *t = &traits[type];
    const gg_kernels *const k = gg_isa_active();
    if (!t->type_name) t->type_name = "DEPRECATED";
    if (!k->to_f32[type] || type == GGML_TYPE_F32) t->to_float = NULL;
    if (!k->from_f32[type] || type == GGML_TYPE_F32) t->from_float_ref = NULL;
    return t;
}
const ggml_type_traits_cpu *gg_type_traits_cpu(int type) {
    ggml_type_traits_cpu *t = &traits_cpu[type];
    const gg_kernels *const k = gg_isa_active();
    if (!k->from_f32[type]) t->from_float = NULL;
    if (!k->dot[type]) t->vec_dot = NULL;
    t->vec_dot_type = t->vec_dot ? gg_types[type].activation : 0;
    return t;
}
