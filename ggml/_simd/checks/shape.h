/* Checks: Copies, views, and what moves whole tensors. */
#ifndef GG_CHECKS_SHAPE_H
#define GG_CHECKS_SHAPE_H
#include "common.h"

CHECK(NONE) { (void)t, (void)msg; return NULL; }
CHECK(VIEW) { REQUIRE_SOURCES(1); return NULL; }
CHECK(CPY) {
    REQUIRE_SOURCES(1);
    REQUIRE(gg_nelements(t) == gg_nelements(SRC_A), "a is %s, result is %s: need as many elements", SHAPE(SRC_A), SHAPE(t));
    REQUIRE(converts(SRC_A->type, t->type), "a is %s, result is %s: there is no conversion", SHAPE(SRC_A), SHAPE(t));
    REQUIRE(!(gg_types[SRC_A->type].quantized || gg_types[t->type].quantized) || SRC_A->ne[0] == t->ne[0] || (gg_contiguous(SRC_A) && gg_contiguous(t)),
         "a is %s, result is %s: quantised rows must be as long", SHAPE(SRC_A), SHAPE(t));
    return NULL;
}
CHECK(REPEAT) {
    REQUIRE_SOURCES(1);
    REQUIRE(gg_can_repeat(SRC_A, t), "a is %s, result is %s: each dimension of the result must be a multiple of a's", SHAPE(SRC_A), SHAPE(t));
    REQUIRE(!gg_types[SRC_A->type].quantized && SRC_A->type == t->type, "a is %s, result is %s: need equal types, not quantised", SHAPE(SRC_A), SHAPE(t));
    return NULL;
}
CHECK(CONCAT) {
    REQUIRE_SOURCES(2);
    const int dim = t->op_params[0];
    REQUIRE(dim >= 0 && dim < 4, "dim is %d: need 0 to 3", dim);
    REQUIRE(SRC_A->type == SRC_B->type && SRC_A->type == t->type, "a is %s, b is %s: types must be equal", SHAPE(SRC_A), SHAPE(SRC_B));
    for (int d = 0; d < 4; d++) {
        REQUIRE(d == dim || SRC_A->ne[d] == SRC_B->ne[d], "a is %s, b is %s: dimensions other than %d must be equal", SHAPE(SRC_A), SHAPE(SRC_B), dim);
        REQUIRE(t->ne[d] == (d == dim ? SRC_A->ne[d] + SRC_B->ne[d] : SRC_A->ne[d]), "result is %s, a is %s, b is %s", SHAPE(t), SHAPE(SRC_A), SHAPE(SRC_B));
    }
    REQUIRE(dim || !gg_types[SRC_A->type].quantized || SRC_A->ne[0] % gg_types[SRC_A->type].blck == 0, "a is %s: rows must be whole blocks", SHAPE(SRC_A));
    return NULL;
}
/* b goes into the view of a that op_params (nb1, nb2, nb3, offset) describe, as ACC and SET do it. */
CHECK(SET) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_same_shape(t, SRC_A) && t->type == SRC_A->type, "result is %s, a is %s: must be equal", SHAPE(t), SHAPE(SRC_A));
    REQUIRE(SRC_A->type == SRC_B->type, "a is %s, b is %s: types must be equal", SHAPE(SRC_A), SHAPE(SRC_B));
    REQUIRE(t->op == GGML_OP_SET ? !gg_types[SRC_A->type].quantized : SRC_A->type == GGML_TYPE_F32, "a is %s: type not supported", SHAPE(SRC_A));
    REQUIRE(gg_contiguous(t), "a is %s: need a contiguous tensor", SHAPE(SRC_A));
    ggml_tensor v = *SRC_B;
    size_t end;
    v.nb[0] = (size_t)gg_types[SRC_A->type].bytes;
    for (int i = 0; i < 3; i++) {
        REQUIRE(t->op_params[i] >= 0, "nb%d is %d: must not be negative", i + 1, t->op_params[i]);
        v.nb[i + 1] = (size_t)t->op_params[i];
        REQUIRE(SRC_B->ne[i + 1] < 2 || v.nb[i + 1] % v.nb[0] == 0, "nb%d is %d: need a multiple of %zu", i + 1, t->op_params[i], v.nb[0]);
    }
    REQUIRE(t->op_params[3] >= 0, "offset is %d: must not be negative", t->op_params[3]);
    REQUIRE((size_t)t->op_params[3] % v.nb[0] == 0, "offset is %d: need a multiple of %zu", t->op_params[3], v.nb[0]);
    REQUIRE(gg_extent(&v, &end) && gg_add(end, (size_t)t->op_params[3], &end) && (gg_is_empty(SRC_B) || end <= gg_nbytes(t)),
         "a is %s (%zu bytes): the view of %s at offset %d ends beyond it", SHAPE(SRC_A), gg_nbytes(t), SHAPE(SRC_B), t->op_params[3]);
    return NULL;
}

#endif
