/* One family of kernels for one ISA: isa/<isa>.c names the ISA, the build names the family (-DGG_FAMILY=ELEM
 * -DGG_FAMILY_ELEM). Exports gg_install_<FAMILY>_<isa>, which enters the family's kernels in a table. */
#include "../runtime/kernel.h"
#include "../vec/vec.h"

#ifdef GG_FAMILY_ELEM
#include "../ops/elem.h"
#define OP_ELEM(NAME) k->op[GGML_OP_##NAME] = op_##NAME;
#else
#define OP_ELEM(NAME)
#endif
#ifdef GG_FAMILY_SHAPE
#include "../ops/shape.h"
#define OP_SHAPE(NAME) k->op[GGML_OP_##NAME] = op_##NAME;
#else
#define OP_SHAPE(NAME)
#endif
#ifdef GG_FAMILY_REDUCE
#include "../ops/reduce.h"
#define OP_REDUCE(NAME) k->op[GGML_OP_##NAME] = op_##NAME;
#else
#define OP_REDUCE(NAME)
#endif
#ifdef GG_FAMILY_MATMUL
#include "../ops/matmul.h"
#include "../ops/matmul_id.h"
#define OP_MATMUL(NAME) k->op[GGML_OP_##NAME] = op_##NAME;
#else
#define OP_MATMUL(NAME)
#endif
#ifdef GG_FAMILY_ATTN
#include "../ops/rope.h"
#include "../ops/attention_back.h"
#define OP_ATTN(NAME) k->op[GGML_OP_##NAME] = op_##NAME;
#else
#define OP_ATTN(NAME)
#endif
#ifdef GG_FAMILY_CONV
#include "../ops/conv.h"
#define OP_CONV(NAME) k->op[GGML_OP_##NAME] = op_##NAME;
#else
#define OP_CONV(NAME)
#endif
#ifdef GG_FAMILY_SEQ
#include "../ops/recurrent_back.h"
#define OP_SEQ(NAME) k->op[GGML_OP_##NAME] = op_##NAME;
#else
#define OP_SEQ(NAME)
#endif
#ifdef GG_FAMILY_QUANTS
#include "../quants/quants.h"
#endif
#define OP_NOP(NAME)
#define OP_CUSTOM(NAME)

#define GG_JOIN_(a, b, c) a##b##_##c
#define GG_JOIN(a, b, c) GG_JOIN_(a, b, c)

void GG_JOIN(gg_install_, GG_FAMILY, GG_ISA)(gg_kernels *k);
void GG_JOIN(gg_install_, GG_FAMILY, GG_ISA)(gg_kernels *k) {
    (void)k;
#define OP(id, NAME, symbol, family, check, cost) OP_##family(NAME)
#include "../tables/ops.h"
#undef OP
#ifdef GG_FAMILY_REDUCE
    install_reduce(k);
#endif
#ifdef GG_FAMILY_MATMUL
    install_matmul(k);
#endif
#ifdef GG_FAMILY_ATTN
    install_attn(k);
#endif
#ifdef GG_FAMILY_CONV
    install_conv(k);
#endif
#ifdef GG_FAMILY_QUANTS
    install_quants(k);
#endif
}
