/* Checks of pooling. */
#ifndef GG_CHECKS_POOL_H
#define GG_CHECKS_POOL_H
#include "../runtime/geometry.h"
#include "common.h"

CHECK(POOL) {
    const bool back = t->op == GGML_OP_POOL_2D_BACK;
    REQUIRE_SOURCES(back ? 2 : 1);
    REQUIRE_FLOAT(a, "a");
    REQUIRE_F32(t, "result");
    const gg_pool q = gg_pool_of(t);
    REQUIRE(q.kind == GGML_OP_POOL_MAX || q.kind == GGML_OP_POOL_AVG,
            "op is %d: need GGML_OP_POOL_MAX or GGML_OP_POOL_AVG", q.kind);
    for (int i = 0; i < 2; i++) {
        REQUIRE(q.k[i] >= 1 && q.s[i] >= 1, "k%d is %d, s%d is %d: need 1 or more", i, (int)q.k[i], i, (int)q.s[i]);
        REQUIRE(q.p[i] >= 0, "p%d is %d: must not be negative", i, (int)q.p[i]);
        REQUIRE(q.x->ne[i] <= INT64_MAX / 4 && q.y->ne[i] <= quotient(q.x->ne[i] + 2 * q.p[i] + 2, q.s[i]) + 1,
                "a is %s, result is %s: too many windows", SHAPE(a), SHAPE(t));
    }
    REQUIRE(!q.inside || q.k[1] == 1, "averages leave out the padding: need windows of height 1, not %d", (int)q.k[1]);
    REQUIRE(q.k[0] * q.k[1] <= 1 << 24, "windows are %d x %d: too large", (int)q.k[0], (int)q.k[1]);
    REQUIRE(q.x->ne[2] == q.y->ne[2] && q.x->ne[3] == q.y->ne[3], "a is %s, result is %s", SHAPE(a), SHAPE(t));
    if (!back) return NULL;
    REQUIRE_FLOAT(b, "af");
    REQUIRE(gg_same_shape(t, b), "result is %s, af is %s: shapes must be equal", SHAPE(t), SHAPE(b));
    REQUIRE(gg_rows_packed(t), "result is %s: rows must lie in one piece", SHAPE(t));
    return NULL;
}

#endif
