/* Checks of padding and rolling. */
#ifndef GG_CHECKS_PAD_H
#define GG_CHECKS_PAD_H
#include "../runtime/pad_modes.h"
#include "common.h"

CHECK(PAD) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    const gg_pad_params *q = pad_params(t);
    REQUIRE(q->mode >= 0 && q->mode < GG_PAD_COUNT, "mode is %d: there is no such padding", q->mode);
    REQUIRE(q->value == 0 || (q->mode == GG_PAD_ZERO && a->type == GGML_TYPE_F32),
            "a is %s: only f32 is padded with a number that is not 0", gg_types[a->type].name);
    for (int i = 0; i < 4; i++) {
        const int64_t left = q->ends[2 * i], right = q->ends[2 * i + 1];
        REQUIRE(left >= 0 && right >= 0,
                "padding of dimension %d is %d and %d: must not be negative", i, (int)left, (int)right);
        REQUIRE(t->ne[i] == a->ne[i] + left + right,
                "result is %s, a is %s, padding of dimension %d is %d and %d", SHAPE(t), SHAPE(a), i, (int)left,
                (int)right);
        REQUIRE(q->mode == GG_PAD_ZERO || a->ne[i] || !t->ne[i], "a is %s: padding needs an element to repeat",
                SHAPE(a));
        REQUIRE(q->mode != GG_PAD_REFLECT || (!left && !right) || (left < a->ne[i] && right < a->ne[i]),
                "a is %s, padding of dimension %d is %d and %d: a reflection must be smaller", SHAPE(a), i, (int)left,
                (int)right);
    }
    return NULL;
}
CHECK(PAD_REFLECT_1D) {
    const gg_pad_reflect_params *q = pad_reflect_params(t);
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    REQUIRE(q->before >= 0 && q->after >= 0, "padding is %d and %d: must not be negative", q->before, q->after);
    REQUIRE(q->before < a->ne[0] && q->after < a->ne[0],
            "a is %s, padding is %d and %d: must be less than ne[0]", SHAPE(a), q->before, q->after);
    REQUIRE_SIZE(a->ne[0] + q->before + q->after, a->ne[1], a->ne[2], a->ne[3]);
    return NULL;
}

#endif
