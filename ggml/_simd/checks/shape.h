/* Checks of copies, views, and what moves whole tensors. */
#ifndef GG_CHECKS_SHAPE_H
#define GG_CHECKS_SHAPE_H
#include "common.h"

CHECK(NONE) { return NULL; }
CHECK(VIEW) { REQUIRE_SOURCES(1); return NULL; }
CHECK(PERMUTE) {
    REQUIRE_SOURCES(1);
    const int32_t *axes = permute_params(t)->axes;
    int found = 0;
    for (int i = 0; i < 4; i++) if (axes[i] >= 0 && axes[i] < 4) found |= 1 << axes[i];
    REQUIRE(found == 15, "axes are %d, %d, %d, %d: need 0 to 3, each once", axes[0], axes[1], axes[2], axes[3]);
    return NULL;
}
CHECK(CPY) {
    REQUIRE_SOURCES(1);
    REQUIRE(gg_nelements(t) == gg_nelements(a), "a is %s, result is %s: need as many elements", SHAPE(a), SHAPE(t));
    REQUIRE(converts(a->type, t->type), "a is %s, result is %s: there is no conversion", SHAPE(a), SHAPE(t));
    REQUIRE(!(gg_types[a->type].quantized || gg_types[t->type].quantized) || a->ne[0] == t->ne[0]
            || (gg_contiguous(a) && gg_contiguous(t)),
            "a is %s, result is %s: quantised rows must be as long", SHAPE(a), SHAPE(t));
    return NULL;
}
CHECK(REPEAT) {
    REQUIRE_SOURCES(1);
    REQUIRE(gg_can_repeat(a, t),
            "a is %s, result is %s: each dimension of the result must be a multiple of a's", SHAPE(a), SHAPE(t));
    REQUIRE(!gg_types[a->type].quantized && a->type == t->type,
            "a is %s, result is %s: need equal types, not quantised", SHAPE(a), SHAPE(t));
    return NULL;
}
CHECK(CONCAT) {
    REQUIRE_SOURCES(2);
    const int dim = concat_params(t)->dim;
    REQUIRE(dim >= 0 && dim < 4, "dim is %d: need 0 to 3", dim);
    REQUIRE(a->type == b->type && a->type == t->type, "a is %s, b is %s: types must be equal", SHAPE(a), SHAPE(b));
    for (int d = 0; d < 4; d++) {
        REQUIRE(d == dim || a->ne[d] == b->ne[d],
                "a is %s, b is %s: dimensions other than %d must be equal", SHAPE(a), SHAPE(b), dim);
        REQUIRE(t->ne[d] == (d == dim ? a->ne[d] + b->ne[d] : a->ne[d]),
                "result is %s, a is %s, b is %s", SHAPE(t), SHAPE(a), SHAPE(b));
    }
    REQUIRE(dim || !gg_types[a->type].quantized || multiple(a->ne[0], gg_types[a->type].blck),
            "a is %s: rows must be whole blocks", SHAPE(a));
    return NULL;
}
/* b goes into the view of a that the parameters nb and offset describe, as ACC and SET do it. */
CHECK(SET) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_same_shape(t, a) && t->type == a->type, "result is %s, a is %s: must be equal", SHAPE(t), SHAPE(a));
    REQUIRE(a->type == b->type, "a is %s, b is %s: types must be equal", SHAPE(a), SHAPE(b));
    REQUIRE(t->op == GGML_OP_SET ? !gg_types[a->type].quantized : a->type == GGML_TYPE_F32,
            "a is %s: type not supported", SHAPE(a));
    REQUIRE(gg_contiguous(t), "a is %s: need a contiguous tensor", SHAPE(a));
    const gg_update_params *q = update_params(t);
    ggml_tensor v = *b;
    size_t end;
    v.nb[0] = (size_t)gg_types[a->type].bytes;
    for (int i = 0; i < 3; i++) {
        REQUIRE(q->nb[i] >= 0, "nb%d is %d: must not be negative", i + 1, q->nb[i]);
        v.nb[i + 1] = (size_t)q->nb[i];
        REQUIRE(b->ne[i + 1] < 2 || multiple(q->nb[i], gg_types[a->type].bytes),
                "nb%d is %d: need a multiple of %zu", i + 1, q->nb[i], v.nb[0]);
    }
    REQUIRE(q->offset >= 0, "offset is %d: must not be negative", q->offset);
    REQUIRE(multiple(q->offset, gg_types[a->type].bytes),
            "offset is %d: need a multiple of %zu", q->offset, v.nb[0]);
    REQUIRE(gg_extent(&v, &end) && gg_add(end, (size_t)q->offset, &end)
            && (gg_is_empty(b) || end <= gg_nbytes(t)),
            "a is %s (%zu bytes): the view of %s at offset %d ends beyond it", SHAPE(a), gg_nbytes(t), SHAPE(b),
            q->offset);
    return NULL;
}

#endif
