/* Type traits: a row of three functions for each type, filled in where the ISA in use has them. */
#include "traits.h"
#include "dispatch.h"

/* The second operand of quantised types is widened by and by. */
static void vec_dot(int type, int64_t n, float *s, const char *x, const char *y) {
    enum { PIECE = 2048 };
    char wide[PIECE / 32 * GG_WIDE] __attribute__((aligned(64)));
    const gg_kernels *const k = gg_isa_active();
    const int partner = k->dot_type[type];
    if (!k->widen[partner]) {
        k->dot[type](n, s, x, y);
        return;
    }
    *s = 0;
    for (int64_t m; n > 0; n -= m, x += gg_row_size(type, m), y += gg_row_size(partner, m)) {
        float part;
        m = n < PIECE ? n : PIECE;
        k->widen[partner](y, wide, m);
        k->dot[type](m, &part, x, wide);
        *s += part;
    }
}

#define TYPE(id, NAME, name, blck, bytes, quant)                                                                   \
    static void to_float_##NAME(const void *x, float *y, int64_t n) { gg_isa_active()->to_f32[id](x, y, n); }            \
    static void from_float_##NAME(const float *x, void *y, int64_t n) { gg_isa_active()->from_f32[id](x, y, n); }        \
    static void vec_dot_##NAME(int n, float *s, size_t bs, const void *x, size_t bx, const void *y, size_t by, int nrc) { \
        (void)bs, (void)bx, (void)by, (void)nrc;                                                                   \
        vec_dot(id, n, s, x, y);                                                                                   \
    }
#include "../tables/types.h"
#undef TYPE

static ggml_type_traits traits[GGML_TYPE_COUNT] = {
#define TYPE(id, NAME, name, blck, bytes, quant) [id] = {name, blck, 0, bytes, quant, to_float_##NAME, from_float_##NAME},
#include "../tables/types.h"
#undef TYPE
};
static ggml_type_traits_cpu traits_cpu[GGML_TYPE_COUNT] = {
#define TYPE(id, NAME, name, blck, bytes, quant) [id] = {from_float_##NAME, vec_dot_##NAME, 0, 1},
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
    t->vec_dot_type = k->dot_type[type];
    return t;
}
