/* Checks of rotary position embedding. */
#ifndef GG_CHECKS_ROPE_H
#define GG_CHECKS_ROPE_H
#include "common.h"

/* The parameters of a ROPE node, its positions and factors (may be NULL), for the tensor x that it turns */
static const char *rope_fits(const ggml_tensor *t, const ggml_tensor *x, const ggml_tensor *positions,
                             const ggml_tensor *factors, char *msg) {
    const int32_t n_dims = rope_params(t)->n_dims, mode = rope_params(t)->mode, n_offs = rope_params(t)->offset;
    const int32_t *sections = rope_params(t)->sections;
    const bool known = mode == 0 || mode == 2 || mode == 8 || mode == 24 || mode == 40, multi = mode & 8;
    REQUIRE(known, "mode is %d: need GGML_ROPE_TYPE_NORMAL, NEOX, MROPE, VISION or IMROPE (0, 2, 8, 24, 40)", mode);
    REQUIRE(n_dims >= 0 && n_dims % 2 == 0 && n_dims <= x->ne[0],
            "n_dims is %d, a is %s: need an even number up to ne[0]", n_dims, SHAPE(x));
    REQUIRE(mode != 24 || (int64_t)n_dims * 2 == x->ne[0],
            "n_dims is %d, a is %s: mode VISION needs half of ne[0]", n_dims, SHAPE(x));
    REQUIRE(n_offs == 0 || mode != 24, "n_offs is %d: mode VISION rotates whole rows, need 0", n_offs);
    REQUIRE(n_offs >= 0 && (int64_t)n_offs + n_dims <= x->ne[0],
            "n_offs is %d, n_dims is %d, a is %s: need 0 or more, and a sum up to ne[0]", n_offs, n_dims, SHAPE(x));
    REQUIRE(positions->type == GGML_TYPE_I32 && is_vector(positions) && positions->ne[0] == x->ne[2] * (multi ? 4 : 1),
            "b is %s, a is %s: need %s i32 for each of a's ne[2]", SHAPE(positions), SHAPE(x), multi ? "four" : "one");
    const int64_t pairs = mode == 24 ? n_dims : n_dims / 2;
    if (factors) REQUIRE(factors->type == GGML_TYPE_F32 && is_vector(factors) && factors->ne[0] >= pairs,
                         "c is %s: need f32 [%" PRId64 "] or more", SHAPE(factors), pairs);
    int64_t sum = 0;
    for (int i = 0; multi && i < 4; i++) {
        REQUIRE(sections[i] >= 0, "sections[%d] is %d: must not be negative", i, sections[i]);
        sum += sections[i];
    }
    REQUIRE(!multi || sum > 0, "sections are all 0: mode %d needs some", mode);
    REQUIRE(rope_params(t)->freq_base > 0, "freq_base is %g: need more than 0", (double)rope_params(t)->freq_base);
    return NULL;
}
CHECK(ROPE) {
    REQUIRE_SOURCES(2);
    const char *problem = rope_fits(t, a, b, t->src[2], msg);
    return problem ? problem : check_UNARY(t, msg);
}
CHECK(ROPE_FACTORS_BACK) {
    REQUIRE_SOURCES(4);   /* src: gradient, a, positions, factors */
    const ggml_tensor *factors = t->src[3];
    REQUIRE_FLOAT(a, "a");
    REQUIRE_FLOAT(b, "b");
    REQUIRE(gg_same_shape(a, b), "a is %s, b is %s: shapes must be equal", SHAPE(a), SHAPE(b));
    REQUIRE(t->type == GGML_TYPE_F32 && gg_same_shape(t, factors),
            "result is %s, c is %s: need f32, equal shapes", SHAPE(t), SHAPE(factors));
    return rope_fits(t, b, t->src[2], factors, msg);
}

#endif
