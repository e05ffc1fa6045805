/* Checks of images to another size. */
#ifndef GG_CHECKS_RESIZE_H
#define GG_CHECKS_RESIZE_H
#include "common.h"

static const char *scaled(const ggml_tensor *t, const ggml_tensor *small, const ggml_tensor *large, const char *name,
                          char *msg) {
    const ggml_tensor *a = t->src[0];
    const int32_t mode = upscale_params(t)->mode;
    REQUIRE_FLOAT(a, "a");
    REQUIRE_FLOAT(t, "result");
    REQUIRE((mode & 0xff) <= 2 && !(mode & ~0x3ff),
            "mode is %d: need nearest, bilinear or bicubic, align corners or antialias", mode);
    REQUIRE(gg_is_empty(large) || !gg_is_empty(small), "%s is %s: nothing to interpolate", name, SHAPE(small));
    for (int i = 0; i < 2 && mode & 512; i++)   /* the number of weights with antialiasing */
        REQUIRE(quotient(small->ne[i], large->ne[i]) < 1 << 28,
                "a is %s, result is %s: too small", SHAPE(a), SHAPE(t));
    REQUIRE(small->ne[0] <= INT32_MAX && small->ne[1] <= INT32_MAX, "%s is %s: too large", name, SHAPE(small));
    return NULL;
}
CHECK(UPSCALE) { REQUIRE_SOURCES(1); return scaled(t, a, t, "a", msg); }
CHECK(UPSCALE_BACK) { REQUIRE_SOURCES(1); return scaled(t, t, a, "result", msg); }

#endif
