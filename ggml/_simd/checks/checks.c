/* The conditions that each operation puts on its node: one check_<CHECK> for each CHECK of tables/ops.h. Each returns NULL or the
 * reason. Sources are called a, b, c ... as in the builders. */
#include "../runtime/check.h"
#include "../quants/quantize.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define A (t->src[0])
#define B (t->src[1])
#define CK static const char *

static const char *fail(char *msg, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, GG_MESSAGE, fmt, ap);
    va_end(ap);
    return msg;
}
typedef struct { char s[112]; } text;
static text shape(const ggml_tensor *t) {
    text r;
    int n = 4;
    while (n > 1 && t->ne[n - 1] == 1) n--;
    int at = snprintf(r.s, sizeof r.s, "%s [", gg_types[t->type].name);
    for (int i = 0; i < n; i++) at += snprintf(r.s + at, sizeof r.s - (size_t)at, i ? ", %" PRId64 : "%" PRId64, t->ne[i]);
    snprintf(r.s + at, sizeof r.s - (size_t)at, "]");
    return r;
}
#define S(x) shape(x).s

static const char *need_src(const ggml_tensor *t, int n, char *msg) {
    for (int i = 0; i < n; i++)
        if (!t->src[i]) return fail(msg, "source %c is missing", 'a' + i);
    return NULL;
}
#define NEED(n) do { const char *e_ = need_src(t, n, msg); if (e_) return e_; } while (0)
#define WANT(cond, ...) do { if (!(cond)) return fail(msg, __VA_ARGS__); } while (0)
#define FLOATS(x, name) WANT(gg_is_float((x)->type), name " is %s: need f32, f16 or bf16", S(x))
#define F32(x, name) WANT((x)->type == GGML_TYPE_F32, name " is %s: need f32", S(x))

/* a is a whole number of times b; 0 is of everything, and all there is of 0. */
static bool multiple(int64_t a, int64_t b) { return b ? a % b == 0 : a == 0; }

/* Blocks that need importance weights come from ggml_quantize_chunk alone. */
static bool converts(int from, int to) {
    if (from == to) return true;
    const bool plain_from = !gg_types[from].quantized, plain_to = !gg_types[to].quantized;
    return (plain_from || gg_is_float(to) || to == GGML_TYPE_F64) && (plain_to || gg_is_float(from) || from == GGML_TYPE_F64)
        && !gg_requires_imatrix(to);
}
CK check_NONE(const ggml_tensor *t, char *msg) { (void)t, (void)msg; return NULL; }

CK check_SAME(const ggml_tensor *t, char *msg) {
    NEED(1);
    WANT(gg_same_shape(t, A), "result is %s, a is %s: shapes must be equal", S(t), S(A));
    WANT(t->type == A->type, "result is %s, a is %s: types must be equal", S(t), S(A));
    return NULL;
}
CK check_UNARY(const ggml_tensor *t, char *msg) {
    NEED(1);
    FLOATS(A, "a");
    WANT(gg_is_float(t->type), "result is %s: need f32, f16 or bf16", S(t));
    WANT(gg_same_shape(t, A), "result is %s, a is %s: shapes must be equal", S(t), S(A));
    return NULL;
}
CK check_UNARY_OP(const ggml_tensor *t, char *msg) {
    const int op = t->op_params[0];
    WANT(gg_unary_name(op), "%d is no unary operation", op);
    return check_UNARY(t, msg);
}
CK check_BINARY(const ggml_tensor *t, char *msg) {
    NEED(2);
    WANT(gg_same_shape(t, A), "result is %s, a is %s: shapes must be equal", S(t), S(A));
    WANT(gg_can_repeat(B, A), "a is %s, b is %s: each dimension of a must be a multiple of b's", S(A), S(B));
    if (t->op == GGML_OP_ADD && gg_types[A->type].quantized) {
        WANT(A->type == t->type || gg_is_float(t->type), "a is %s, result is %s", S(A), S(t));
        WANT(converts(B->type, t->type), "result is %s: there is no conversion from f32", S(t));
        F32(B, "b");
        return NULL;
    }
    FLOATS(A, "a");
    FLOATS(B, "b");
    WANT(gg_is_float(t->type), "result is %s: need f32, f16 or bf16", S(t));
    return NULL;
}
CK check_PAIR(const ggml_tensor *t, char *msg) {
    NEED(2);
    WANT(gg_same_shape(A, B), "a is %s, b is %s: shapes must be equal", S(A), S(B));
    FLOATS(B, "b");
    return check_UNARY(t, msg);
}
CK check_ADD1(const ggml_tensor *t, char *msg) {
    NEED(2);
    WANT(gg_nelements(B) == 1, "b is %s: need one element", S(B));
    FLOATS(B, "b");
    return check_UNARY(t, msg);
}
CK check_SUM(const ggml_tensor *t, char *msg) {
    NEED(1);
    FLOATS(A, "a");
    FLOATS(t, "result");
    WANT(gg_nelements(t) == 1, "result is %s: need one element", S(t));
    return NULL;
}
CK check_ROWS1(const ggml_tensor *t, char *msg) {
    NEED(1);
    FLOATS(A, "a");
    F32(t, "result");
    WANT(t->ne[0] == 1 && t->ne[1] == A->ne[1] && t->ne[2] == A->ne[2] && t->ne[3] == A->ne[3],
         "result is %s, a is %s: need one element a row", S(t), S(A));
    return NULL;
}
CK check_ARGMAX(const ggml_tensor *t, char *msg) {
    NEED(1);
    FLOATS(A, "a");
    WANT(A->ne[2] == 1 && A->ne[3] == 1, "a is %s: need a matrix", S(A));
    WANT(A->ne[0] <= INT32_MAX, "a is %s: rows are too long for an i32 index", S(A));
    WANT(t->type == GGML_TYPE_I32 && t->ne[0] == A->ne[1] && gg_nelements(t) == t->ne[0], "result is %s: need i32 [%" PRId64 "]", S(t), A->ne[1]);
    return NULL;
}
CK check_COUNT_EQUAL(const ggml_tensor *t, char *msg) {
    NEED(2);
    WANT(gg_same_shape(A, B), "a is %s, b is %s: shapes must be equal", S(A), S(B));
    WANT(A->type == GGML_TYPE_I32 && B->type == GGML_TYPE_I32, "a is %s, b is %s: need i32", S(A), S(B));
    WANT(t->type == GGML_TYPE_I64 && gg_nelements(t) == 1, "result is %s: need one i64", S(t));
    return NULL;
}
CK check_REPEAT(const ggml_tensor *t, char *msg) {
    NEED(1);
    WANT(gg_can_repeat(A, t), "a is %s, result is %s: each dimension of the result must be a multiple of a's", S(A), S(t));
    WANT(!gg_types[A->type].quantized && A->type == t->type, "a is %s, result is %s: need equal types, not quantised", S(A), S(t));
    return NULL;
}
CK check_REPEAT_BACK(const ggml_tensor *t, char *msg) {
    NEED(1);
    FLOATS(A, "a");
    F32(t, "result");
    WANT(gg_can_repeat(t, A), "a is %s, result is %s: each dimension of a must be a multiple of the result's", S(A), S(t));
    return NULL;
}
CK check_CONCAT(const ggml_tensor *t, char *msg) {
    NEED(2);
    const int dim = t->op_params[0];
    WANT(dim >= 0 && dim < 4, "dim is %d: need 0 to 3", dim);
    WANT(A->type == B->type && A->type == t->type, "a is %s, b is %s: types must be equal", S(A), S(B));
    for (int d = 0; d < 4; d++) {
        WANT(d == dim || A->ne[d] == B->ne[d], "a is %s, b is %s: dimensions other than %d must be equal", S(A), S(B), dim);
        WANT(t->ne[d] == (d == dim ? A->ne[d] + B->ne[d] : A->ne[d]), "result is %s, a is %s, b is %s", S(t), S(A), S(B));
    }
    WANT(dim || !gg_types[A->type].quantized || A->ne[0] % gg_types[A->type].blck == 0, "a is %s: rows must be whole blocks", S(A));
    return NULL;
}
CK check_NORM(const ggml_tensor *t, char *msg) {
    const float eps = gg_param_f32(t, 0);
    WANT(eps >= 0, "eps is %g: need 0 or more", (double)eps);
    return check_UNARY(t, msg);
}
CK check_SOFT_MAX(const ggml_tensor *t, char *msg) {
    NEED(1);
    if (B) {
        WANT(B->type == GGML_TYPE_F32 || B->type == GGML_TYPE_F16, "mask is %s: need f32 or f16", S(B));
        WANT(B->ne[0] == A->ne[0], "a is %s, mask is %s: ne[0] must be equal", S(A), S(B));
        WANT(B->ne[1] >= A->ne[1], "a is %s, mask is %s: the mask needs at least as many rows", S(A), S(B));
        WANT(multiple(A->ne[2], B->ne[2]) && multiple(A->ne[3], B->ne[3]),
             "a is %s, mask is %s: dimensions 2 and 3 of a must be multiples of the mask's", S(A), S(B));
    }
    WANT(B || gg_param_f32(t, 1) == 0, "max_bias is %g: ALiBi needs a mask", (double)gg_param_f32(t, 1));
    WANT(gg_param_f32(t, 1) >= 0, "max_bias is %g: need 0 or more", (double)gg_param_f32(t, 1));
    if (t->src[2]) {
        F32(t->src[2], "sinks");
        WANT(t->src[2]->ne[0] == A->ne[2] && gg_nrows(t->src[2]) == 1, "sinks is %s, a is %s: need one for each of ne[2]", S(t->src[2]), S(A));
    }
    return check_UNARY(t, msg);
}
CK check_MUL_MAT(const ggml_tensor *t, char *msg) {
    NEED(2);
    WANT(A->ne[0] == B->ne[0], "a is %s, b is %s: ne[0] must be equal", S(A), S(B));
    WANT(multiple(B->ne[2], A->ne[2]) && multiple(B->ne[3], A->ne[3]),
         "a is %s, b is %s: dimensions 2 and 3 of b must be multiples of a's", S(A), S(B));
    WANT(gg_is_float(A->type) || gg_types[A->type].quantized, "a is %s: need a float or quantised type", S(A));
    FLOATS(B, "b");
    F32(t, "result");
    WANT(t->ne[0] == A->ne[1] && t->ne[1] == B->ne[1] && t->ne[2] == B->ne[2] && t->ne[3] == B->ne[3], "result is %s, a is %s, b is %s", S(t), S(A), S(B));
    return NULL;
}
CK check_OUT_PROD(const ggml_tensor *t, char *msg) {
    NEED(2);
    WANT(A->ne[1] == B->ne[1], "a is %s, b is %s: ne[1] must be equal", S(A), S(B));
    WANT(multiple(B->ne[2], A->ne[2]) && multiple(B->ne[3], A->ne[3]),
         "a is %s, b is %s: dimensions 2 and 3 of b must be multiples of a's", S(A), S(B));
    WANT(gg_is_float(A->type) || gg_types[A->type].quantized, "a is %s: need a float or quantised type", S(A));
    FLOATS(B, "b");
    F32(t, "result");
    WANT(t->ne[0] == A->ne[0] && t->ne[1] == B->ne[0] && t->ne[2] == B->ne[2] && t->ne[3] == B->ne[3], "result is %s, a is %s, b is %s", S(t), S(A), S(B));
    return NULL;
}
/* b goes into the view of a that op_params (nb1, nb2, nb3, offset) describe, as ACC and SET do it. */
CK check_SET(const ggml_tensor *t, char *msg) {
    NEED(2);
    WANT(gg_same_shape(t, A) && t->type == A->type, "result is %s, a is %s: must be equal", S(t), S(A));
    WANT(A->type == B->type, "a is %s, b is %s: types must be equal", S(A), S(B));
    WANT(t->op == GGML_OP_SET ? !gg_types[A->type].quantized : A->type == GGML_TYPE_F32, "a is %s: type not supported", S(A));
    WANT(gg_contiguous(t), "a is %s: need a contiguous tensor", S(A));
    ggml_tensor v = *B;
    size_t end;
    v.nb[0] = (size_t)gg_types[A->type].bytes;
    for (int i = 0; i < 3; i++) {
        WANT(t->op_params[i] >= 0, "nb%d is %d: must not be negative", i + 1, t->op_params[i]);
        v.nb[i + 1] = (size_t)t->op_params[i];
        WANT(B->ne[i + 1] < 2 || v.nb[i + 1] % v.nb[0] == 0, "nb%d is %d: need a multiple of %zu", i + 1, t->op_params[i], v.nb[0]);
    }
    WANT(t->op_params[3] >= 0, "offset is %d: must not be negative", t->op_params[3]);
    WANT((size_t)t->op_params[3] % v.nb[0] == 0, "offset is %d: need a multiple of %zu", t->op_params[3], v.nb[0]);
    WANT(gg_extent(&v, &end) && gg_add(end, (size_t)t->op_params[3], &end) && (gg_is_empty(B) || end <= gg_nbytes(t)),
         "a is %s (%zu bytes): the view of %s at offset %d ends beyond it", S(A), gg_nbytes(t), S(B), t->op_params[3]);
    return NULL;
}
CK check_CPY(const ggml_tensor *t, char *msg) {
    NEED(1);
    WANT(gg_nelements(t) == gg_nelements(A), "a is %s, result is %s: need as many elements", S(A), S(t));
    WANT(converts(A->type, t->type), "a is %s, result is %s: there is no conversion", S(A), S(t));
    WANT(!(gg_types[A->type].quantized || gg_types[t->type].quantized) || A->ne[0] == t->ne[0] || (gg_contiguous(A) && gg_contiguous(t)),
         "a is %s, result is %s: quantised rows must be as long", S(A), S(t));
    return NULL;
}
CK check_VIEW(const ggml_tensor *t, char *msg) { NEED(1); return NULL; }

static bool is_index(int type) { return type == GGML_TYPE_I32 || type == GGML_TYPE_I64; }

CK check_GET_ROWS(const ggml_tensor *t, char *msg) {
    NEED(2);
    WANT(is_index(B->type), "b is %s: need i32 or i64", S(B));
    WANT(A->ne[2] == B->ne[1] && A->ne[3] == B->ne[2] && B->ne[3] == 1, "a is %s, b is %s: a.ne[2] = b.ne[1], a.ne[3] = b.ne[2] and b.ne[3] = 1 must hold", S(A), S(B));
    WANT(t->ne[0] == A->ne[0] && t->ne[1] == B->ne[0] && t->ne[2] == B->ne[1] && t->ne[3] == B->ne[2], "result is %s, a is %s, b is %s", S(t), S(A), S(B));
    WANT(t->type == GGML_TYPE_F32 || t->type == A->type, "result is %s, a is %s", S(t), S(A));
    return NULL;
}
CK check_GET_ROWS_BACK(const ggml_tensor *t, char *msg) {
    NEED(2);
    WANT(is_index(B->type), "b is %s: need i32 or i64", S(B));
    FLOATS(A, "a");
    F32(t, "result");
    WANT(A->ne[0] == t->ne[0], "a is %s, result is %s: ne[0] must be equal", S(A), S(t));
    WANT(A->ne[1] == B->ne[0] && A->ne[2] == B->ne[1] && A->ne[3] == B->ne[2] && B->ne[3] == 1 && t->ne[2] == A->ne[2] && t->ne[3] == A->ne[3],
         "a is %s, b is %s, result is %s: need a row of a for each index", S(A), S(B), S(t));
    return NULL;
}
CK check_SET_ROWS(const ggml_tensor *t, char *msg) {
    NEED(2);   /* src: b (rows), c (indices), a (the tensor written, of which t is a view) */
    WANT(is_index(B->type), "c is %s: need i64 or i32", S(B));
    FLOATS(A, "b");
    WANT(A->ne[0] == t->ne[0] && A->ne[2] == t->ne[2] && A->ne[3] == t->ne[3], "a is %s, b is %s: ne[0], ne[2] and ne[3] must be equal", S(t), S(A));
    WANT(A->ne[1] == B->ne[0], "b is %s, c is %s: need an index for each row", S(A), S(B));
    WANT(multiple(A->ne[2], B->ne[1]) && multiple(A->ne[3], B->ne[2]) && B->ne[3] == 1,
         "b is %s, c is %s: dimensions 2 and 3 of b must be multiples of c's 1 and 2", S(A), S(B));
    WANT(converts(A->type, t->type), "a is %s: there is no conversion from %s", S(t), S(A));
    return NULL;
}
CK check_CROSS_ENTROPY(const ggml_tensor *t, char *msg) {
    NEED(2);
    WANT(gg_same_shape(A, B), "a is %s, b is %s: shapes must be equal", S(A), S(B));
    F32(A, "a");
    F32(B, "b");
    WANT(t->type == GGML_TYPE_F32 && gg_nelements(t) == 1, "result is %s: need one f32", S(t));
    return NULL;
}
CK check_CROSS_ENTROPY_BACK(const ggml_tensor *t, char *msg) {
    NEED(3);   /* src: gradient (one element), logits, labels */
    ggml_tensor *C = t->src[2];
    WANT(A->type == GGML_TYPE_F32 && gg_nelements(A) == 1, "a is %s: need one f32", S(A));
    WANT(gg_same_shape(B, C) && gg_same_shape(t, B), "b is %s, c is %s: shapes must be equal", S(B), S(C));
    F32(B, "b");
    F32(C, "c");
    F32(t, "result");
    return NULL;
}
CK step(const ggml_tensor *t, int n_state, int n_params, char *msg) {
    NEED(n_state + 1);
    const ggml_tensor *p = t->src[n_state];
    WANT(A->flags & GGML_TENSOR_FLAG_PARAM, "a ('%s') is no parameter: call ggml_set_param on it", A->name);
    for (int i = 0; i < n_state; i++) {
        WANT(gg_same_shape(A, t->src[i]), "a is %s, source %d is %s: shapes must be equal", S(A), i, S(t->src[i]));
        WANT(t->src[i]->type == GGML_TYPE_F32, "source %d is %s: need f32", i, S(t->src[i]));
    }
    WANT(p->type == GGML_TYPE_F32 && gg_nelements(p) == n_params && gg_contiguous(p), "parameters are %s: need f32 [%d]", S(p), n_params);
    return NULL;
}
CK check_ADAMW(const ggml_tensor *t, char *msg) { return step(t, 4, 7, msg); }
CK check_SGD(const ggml_tensor *t, char *msg) { return step(t, 2, 2, msg); }

CK check_CUSTOM(const ggml_tensor *t, char *msg) {
    void *fun;
    int32_t n_tasks;
    memcpy(&fun, t->op_params, sizeof fun);
    memcpy(&n_tasks, t->op_params + 2, sizeof n_tasks);
    WANT(fun, "fun is NULL: need a function");
    WANT(n_tasks == GGML_N_TASKS_MAX || n_tasks > 0, "n_tasks is %d: need GGML_N_TASKS_MAX or 1 or more", n_tasks);
    return NULL;
}

#include "attention.h"
#include "reduce.h"
#include "pad.h"
#include "conv.h"
#include "recurrent.h"

/* ---- the rows ------------------------------------------------------------------------------------------------------ */
#define COMPUTES_NOP false
#define COMPUTES_CUSTOM true
#define COMPUTES_ELEM true
#define COMPUTES_SHAPE true
#define COMPUTES_REDUCE true
#define COMPUTES_MATMUL true
#define COMPUTES_CONV true
#define COMPUTES_ATTN true
#define COMPUTES_SEQ true

static const struct { const char *name, *symbol; const char *(*check)(const ggml_tensor *, char *); float cost; bool computes; } rows[GG_OP_MAX] = {
#define OP(id, NAME, symbol, family, check, cost) [id] = {#NAME, symbol, check_##check, cost, COMPUTES_##family},
#include "../tables/ops.h"
#undef OP
};
static const char *const unary[] = {
#define UNARY(id, NAME, fn) [id] = #NAME,
#include "../tables/unary.h"
#undef UNARY
    [GGML_UNARY_OP_XIELU] = "XIELU",
};
static bool is_row(int op) { return op >= 0 && op < GG_OP_MAX && rows[op].name; }
const char *gg_op_name(int op) { return is_row(op) ? rows[op].name : NULL; }
const char *gg_op_symbol(int op) { return is_row(op) ? rows[op].symbol : NULL; }
float gg_op_cost(int op) { return rows[op].cost; }
bool gg_op_computes(int op) { return is_row(op) && rows[op].computes; }
bool gg_op_known(int op) { return is_row(op); }
const char *gg_unary_name(int op) { return op >= 0 && op < (int)(sizeof unary / sizeof *unary) ? unary[op] : NULL; }

const char *gg_check(const ggml_tensor *t, char msg[GG_MESSAGE]) {
    if (!is_row(t->op)) return fail(msg, "%d is no operation", t->op);
    return rows[t->op].check(t, msg);
}
