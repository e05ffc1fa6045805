/* What the checks of all families share. A check returns NULL, or msg with the reason why node t must not be computed.
 * A node that passes is safe to compute once the elements of every tensor (by ne, nb and type) lie in valid memory.
 * Messages call the sources a, b, c ... as the builders do. */
#ifndef GG_CHECKS_COMMON_H
#define GG_CHECKS_COMMON_H
#include "../quants/quantize.h"
#include "../runtime/check.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* CHECK(NAME) { ... } defines check_NAME(t, msg); its body sees the first two sources as a and b. */
#define CHECK(NAME)                                                                                                   \
    static const char *body_##NAME(const ggml_tensor *t, const ggml_tensor *a, const ggml_tensor *b, char *msg);      \
    static const char *check_##NAME(const ggml_tensor *t, char *msg) {                                                \
        return body_##NAME(t, t->src[0], t->src[1], msg);                                                             \
    }                                                                                                                 \
    static const char *body_##NAME(UNUSED const ggml_tensor *t, UNUSED const ggml_tensor *a,                          \
                                   UNUSED const ggml_tensor *b, UNUSED char *msg)
#define UNUSED __attribute__((unused))

static const char *fail(char *msg, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, GG_MESSAGE, fmt, ap);
    va_end(ap);
    return msg;
}
typedef struct { char s[112]; } shape_string;
/* The type and shape of x for a message, as in "f32 [4, 3]". */
static shape_string shape_text(const ggml_tensor *x) {
    shape_string r;
    int n = 4;
    while (n > 1 && x->ne[n - 1] == 1) n--;
    int at = snprintf(r.s, sizeof r.s, "%s [", gg_types[x->type].name);
    for (int i = 0; i < n; i++)
        at += snprintf(r.s + at, sizeof r.s - (size_t)at, i ? ", %" PRId64 : "%" PRId64, x->ne[i]);
    snprintf(r.s + at, sizeof r.s - (size_t)at, "]");
    return r;
}
#define SHAPE(x) shape_text(x).s

static const char *require_sources(const ggml_tensor *t, int n, char *msg) {
    for (int i = 0; i < n; i++)
        if (!t->src[i]) return fail(msg, "source %c is missing", 'a' + i);
    return NULL;
}
#define REQUIRE(condition, ...) do { if (!(condition)) return fail(msg, __VA_ARGS__); } while (0)
#define REQUIRE_SOURCES(n) \
    do { const char *problem_ = require_sources(t, n, msg); if (problem_) return problem_; } while (0)
#define REQUIRE_FLOAT(x, name) REQUIRE(gg_is_float((x)->type), name " is %s: need f32, f16 or bf16", SHAPE(x))
#define REQUIRE_F32(x, name) REQUIRE((x)->type == GGML_TYPE_F32, name " is %s: need f32", SHAPE(x))
#define REQUIRE_SAME_TYPE() \
    REQUIRE(t->type == a->type && !gg_types[a->type].quantized, \
            "a is %s, result is %s: need equal types, not quantised", SHAPE(a), SHAPE(t))
#define REQUIRE_SIZE(n0, n1, n2, n3) \
    REQUIRE(t->ne[0] == (n0) && t->ne[1] == (n1) && t->ne[2] == (n2) && t->ne[3] == (n3), \
            "result is %s, a is %s", SHAPE(t), SHAPE(a))

/* Whether a is a whole number of times b; of b = 0, only a = 0 is. */
static bool multiple(int64_t a, int64_t b) { return b ? a % b == 0 : a == 0; }
/* a / b rounded down or up, 0 unless b is positive. Checks divide only by these functions and multiple(): a divisor
 * may be a field that a caller has written. */
static int64_t quotient(int64_t a, int64_t b) { return b > 0 ? a / b : 0; }
static int64_t quotient_up(int64_t a, int64_t b) { return b > 0 ? (a + b - 1) / b : 0; }

/* Whether elements can be converted. Only ggml_quantize_chunk makes types that need importance weights. */
static bool converts(int from, int to) {
    if (from == to) return true;
    const bool plain_from = !gg_types[from].quantized, plain_to = !gg_types[to].quantized;
    return (plain_from || gg_is_float(to) || to == GGML_TYPE_F64)
        && (plain_to || gg_is_float(from) || from == GGML_TYPE_F64) && !gg_requires_imatrix(to);
}
static bool is_vector(const ggml_tensor *t) { return t->ne[1] == 1 && t->ne[2] == 1 && t->ne[3] == 1; }
static bool is_index(int type) { return type == GGML_TYPE_I32 || type == GGML_TYPE_I64; }
/* Whether the index of an element of a row fits in an i32. */
static bool index_fits(const ggml_tensor *t) { return t->ne[0] <= INT32_MAX; }

/* ---- checks of several families ---------------------------------------------------------------------------------- */
CHECK(SAME) {
    REQUIRE_SOURCES(1);
    REQUIRE(gg_same_shape(t, a), "result is %s, a is %s: shapes must be equal", SHAPE(t), SHAPE(a));
    REQUIRE(t->type == a->type, "result is %s, a is %s: types must be equal", SHAPE(t), SHAPE(a));
    return NULL;
}
/* One operand, floats of any type, and a result of its shape, floats of any type. */
CHECK(UNARY) {
    REQUIRE_SOURCES(1);
    REQUIRE_FLOAT(a, "a");
    REQUIRE(gg_is_float(t->type), "result is %s: need f32, f16 or bf16", SHAPE(t));
    REQUIRE(gg_same_shape(t, a), "result is %s, a is %s: shapes must be equal", SHAPE(t), SHAPE(a));
    return NULL;
}
/* Two operands of one shape, such as a gradient and the argument. */
CHECK(PAIR) {
    REQUIRE_SOURCES(2);
    REQUIRE(gg_same_shape(a, b), "a is %s, b is %s: shapes must be equal", SHAPE(a), SHAPE(b));
    REQUIRE_FLOAT(b, "b");
    return check_UNARY(t, msg);
}
/* Elements that move within a shape: any type that is not quantised. */
CHECK(SAME_PLAIN) {
    REQUIRE_SOURCES(1);
    REQUIRE_SAME_TYPE();
    REQUIRE_SIZE(a->ne[0], a->ne[1], a->ne[2], a->ne[3]);
    return NULL;
}

#endif
