/* The table of operations (tables/ops.h) with the check of each: one check_<CHECK> of the family's header. */
#include "attention.h"
#include "compare.h"
#include "conv.h"
#include "custom.h"
#include "elementwise.h"
#include "unary.h"
#include "fill.h"
#include "glu.h"
#include "index.h"
#include "matmul.h"
#include "norm.h"
#include "optimizer.h"
#include "pad.h"
#include "pool.h"
#include "recurrent.h"
#include "reduce.h"
#include "resize.h"
#include "rope.h"
#include "scan.h"
#include "shape.h"
#include "softmax.h"
#include "triangular.h"
#include "window.h"

/* The words of the columns COST, OVERWRITES and FLAGS */
#define FREE GG_COST_FREE, 0
#define PER_ELEMENT(ns) GG_COST_PER_ELEMENT, ns
#define PER_RESULT(ns) GG_COST_PER_RESULT, ns
#define PER_SOURCE(ns) GG_COST_PER_SOURCE, ns
#define PER_PRODUCT(d) GG_COST_PER_PRODUCT, d
#define SPLIT GG_COST_SPLIT, 0
enum {
    A = GG_OPERAND_A, B = GG_OPERAND_B, C = GG_OPERAND_C,
    LEAF = GG_FLAG_LEAF, VIEW = GG_FLAG_VIEW, WORK = GG_FLAG_WORK, CALLBACK = GG_FLAG_CALLBACK, STEP = GG_FLAG_STEP,
    GRAD = GG_FLAG_GRAD, PLAN = GG_FLAG_PLAN,
};

static const char *check_unknown(const ggml_tensor *t, char *msg) { return fail(msg, "%d is not an operation", t->op); }
static const gg_op_info unknown = {.check = check_unknown};
static const gg_op_info rows[GG_OP_MAX] = {
#define OP(id, NAME, symbol, family, check, cost, overwrites, flags) \
    [id] = {#NAME, symbol, #family, check_##check, cost, overwrites, flags},
#include "../tables/ops.h"
#undef OP
};
static const gg_unary_info unary[GGML_UNARY_OP_COUNT] = {
#define UNARY(id, NAME, fn, derivative, back) [id] = {#NAME, GG_DERIVATIVE_##derivative, GGML_OP_##back},
#include "../tables/unary.h"
#undef UNARY
};
static const char *const glu[GGML_GLU_OP_COUNT] = {
#define GLU(id, NAME) [id] = #NAME,
#include "../tables/glu.h"
#undef GLU
};

const gg_op_info *gg_op(int op) { return op >= 0 && op < GG_OP_MAX && rows[op].name ? &rows[op] : &unknown; }
const char *gg_op_name(int op) { return gg_op(op)->name; }
const char *gg_op_symbol(int op) { return gg_op(op)->symbol; }
bool gg_op_known(int op) { return gg_op(op) != &unknown; }
bool gg_op_computes(int op) {
    const gg_op_info *info = gg_op(op);
    return info->name && !(info->flags & (GG_FLAG_LEAF | GG_FLAG_VIEW));
}
const gg_unary_info *gg_unary(int function) {
    static const gg_unary_info none = {.name = NULL};
    return function >= 0 && function < GGML_UNARY_OP_COUNT ? &unary[function] : &none;
}
const char *gg_unary_name(int function) { return gg_unary(function)->name; }
const char *gg_glu_name(int op) { return op >= 0 && op < GGML_GLU_OP_COUNT ? glu[op] : NULL; }

const char *gg_check(const ggml_tensor *t, char msg[GG_MESSAGE]) { return gg_op(t->op)->check(t, msg); }
