/* The properties of operations: the rows of tables/ops.h as data. */
#ifndef GG_OP_INFO_H
#define GG_OP_INFO_H
#include "engine.h"

enum {  /* FLAGS of a row */
    GG_FLAG_LEAF = 1, GG_FLAG_VIEW = 2, GG_FLAG_WORK = 4, GG_FLAG_CALLBACK = 8, GG_FLAG_STEP = 16, GG_FLAG_GRAD = 32,
    GG_FLAG_PLAN = 64
};
enum { GG_OPERAND_A = 1, GG_OPERAND_B = 2, GG_OPERAND_C = 4 };      /* OVERWRITES of a row: bit k is operand k */
enum { GG_COST_FREE, GG_COST_PER_ELEMENT, GG_COST_PER_RESULT, GG_COST_PER_SOURCE, GG_COST_PER_PRODUCT, GG_COST_SPLIT };

typedef struct gg_op_info {
    const char *name;               /* "MUL_MAT"; NULL: there is no such operation */
    const char *symbol, *family;
    const char *(*check)(const ggml_tensor *t, char *msg);
    int32_t cost_model, cost;       /* GG_COST_*; its parameter: nanoseconds, or a dimension */
    uint32_t overwrites, flags;     /* GG_OPERAND_*, GG_FLAG_* */
} gg_op_info;

const gg_op_info *gg_op(int op);       /* of any number; never NULL */
const char *gg_op_name(int op);        /* NULL: there is no such operation */
const char *gg_op_symbol(int op);
bool gg_op_known(int op);
bool gg_op_computes(int op);           /* whether there is a kernel: false for leaves and views */

enum { GG_DERIVATIVE_ZERO, GG_DERIVATIVE_NUMBER, GG_DERIVATIVE_RESULT, GG_DERIVATIVE_ARGUMENT };   /* see unary.h */
typedef struct gg_unary_info {      /* a row of tables/unary.h */
    const char *name;               /* "TANH"; NULL: there is no such function */
    int32_t derivative, back;       /* GG_DERIVATIVE_*; GGML_OP_*, or GGML_OP_NONE */
} gg_unary_info;

const gg_unary_info *gg_unary(int function);    /* of any number; never NULL */
const char *gg_unary_name(int function);        /* NULL: there is no such function */
const char *gg_glu_name(int op);
#endif
