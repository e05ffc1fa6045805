/* Checks: Images to another size. */
#ifndef GG_CHECKS_RESIZE_H
#define GG_CHECKS_RESIZE_H
#include "common.h"

static const char *scaled(const ggml_tensor *t, const ggml_tensor *small, const ggml_tensor *large, const char *name, char *msg) {
    REQUIRE_FLOAT(SRC_A, "a");
    REQUIRE_FLOAT(t, "result");
    REQUIRE((PARAM(0) & 0xff) <= 2 && !(PARAM(0) & ~0x3ff),
         "mode is %d: need nearest, bilinear or bicubic, align corners or antialias", PARAM(0));
    REQUIRE(gg_is_empty(large) || !gg_is_empty(small), "%s is %s: nothing to interpolate", name, SHAPE(small));
    for (int i = 0; i < 2 && PARAM(0) & 512; i++)   /* with antialiasing, so many elements are weighed for one */
        REQUIRE(!large->ne[i] || small->ne[i] / large->ne[i] < 1 << 28, "a is %s, result is %s: too small", SHAPE(SRC_A), SHAPE(t));
    REQUIRE(small->ne[0] <= INT32_MAX && small->ne[1] <= INT32_MAX, "%s is %s: too large", name, SHAPE(small));
    return NULL;
}
CHECK(UPSCALE) { REQUIRE_SOURCES(1); return scaled(t, SRC_A, t, "a", msg); }
CHECK(UPSCALE_BACK) { REQUIRE_SOURCES(1); return scaled(t, t, SRC_A, "result", msg); }

#endif
