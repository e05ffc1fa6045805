/* The table of operations (tables/ops.h) with the check of each: one check_<CHECK> of the family's header. */
#include "attention.h"
#include "conv.h"
#include "custom.h"
#include "elementwise.h"
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

enum { VIEW = 1, WORK = 2 };
static const struct { const char *name, *symbol; const char *(*check)(const ggml_tensor *, char *); float cost; int flags; } rows[GG_OP_MAX] = {
#define OP(id, NAME, symbol, family, check, cost, flags) [id] = {#NAME, symbol, check_##check, cost, flags},
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
bool gg_op_computes(int op) { return is_row(op) && !(rows[op].flags & VIEW); }
bool gg_op_known(int op) { return is_row(op); }
const char *gg_unary_name(int op) { return op >= 0 && op < (int)(sizeof unary / sizeof *unary) ? unary[op] : NULL; }

const char *gg_check(const ggml_tensor *t, char msg[GG_MESSAGE]) {
    if (!is_row(t->op)) return fail(msg, "%d is no operation", t->op);
    return rows[t->op].check(t, msg);
}
