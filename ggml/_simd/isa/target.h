/* One compile unit (tables/families.h) for one ISA: isa/<isa>.c names the ISA, the build names its base, the unit and
 * its families (-DGG_BASE=avx2 -DGG_UNIT=rows -DGG_FAMILY_1=norm -DGG_FAMILY_norm=1 ...). Exports
 * gg_install_<unit>_<isa>, which enters the kernels of these families in a table. */
#include "../runtime/kernel.h"
#include "../vec/vec.h"

#define GG_QUOTE_(x) #x
#define GG_QUOTE(x) GG_QUOTE_(x)
#define GG_HEADER(family) GG_QUOTE(../ops/family.h)
#ifdef GG_FAMILY_1
#include GG_HEADER(GG_FAMILY_1)
#endif
#ifdef GG_FAMILY_2
#include GG_HEADER(GG_FAMILY_2)
#endif
#ifdef GG_FAMILY_3
#include GG_HEADER(GG_FAMILY_3)
#endif
#ifdef GG_FAMILY_4
#include GG_HEADER(GG_FAMILY_4)
#endif
#ifdef GG_FAMILY_5
#include GG_HEADER(GG_FAMILY_5)
#endif
#ifdef GG_FAMILY_6
#include GG_HEADER(GG_FAMILY_6)
#endif
#ifdef GG_FAMILY_7
#include GG_HEADER(GG_FAMILY_7)
#endif
#ifdef GG_FAMILY_8
#error "more families in a unit than this file includes"
#endif
#ifdef GG_UNIT_quants
#include "../quants/quants.h"
#endif

/* GG_IF_FAMILY(norm, X) is X where GG_FAMILY_norm is defined as 1, and nothing otherwise: only then does the pasted
 * name expand to a macro with a comma, which shifts X into second place. */
#define GG_SHIFT_1 ~,
#define GG_SECOND(a, b, ...) b
#define GG_IF_SHIFTED(shift, x) GG_SECOND(shift x, , ~)
#define GG_IF_VALUE_(value, x) GG_IF_SHIFTED(GG_SHIFT_##value, x)
#define GG_IF_VALUE(value, x) GG_IF_VALUE_(value, x)
#define GG_IF_FAMILY(family, x) GG_IF_VALUE(GG_FAMILY_##family, x)

/* What a row enters. The flags LEAF, VIEW, WORK and PLAN put the last part of a macro's name in second place. */
#define LEAF ~, NOTHING,
#define VIEW ~, NOTHING,
#define WORK ~, WITH_WORK,
#define PLAN ~, WITH_PLAN,
#define GG_ENTER_KERNEL(id, kernel, work_size, chooser) k->op[id] = kernel;
#define GG_ENTER_WITH_WORK(id, kernel, work_size, chooser) k->op[id] = kernel; k->work[id] = work_size;
#define GG_ENTER_WITH_PLAN(id, kernel, work_size, chooser) k->op[id] = kernel; k->plan[id] = chooser;
#define GG_ENTER_NOTHING(id, kernel, work_size, chooser)
#define GG_ENTER_AS_(how) GG_ENTER_##how
#define GG_ENTER_AS(how) GG_ENTER_AS_(how)
#define GG_ENTER(id, kernel, work_size, chooser, ...) \
    GG_ENTER_AS(GG_SECOND(__VA_ARGS__, KERNEL, ~))(id, kernel, work_size, chooser)

#define GG_JOIN_(a, b, c) a##b##_##c
#define GG_JOIN(a, b, c) GG_JOIN_(a, b, c)

void GG_JOIN(gg_install_, GG_UNIT, GG_ISA)(gg_kernels *k);
void GG_JOIN(gg_install_, GG_UNIT, GG_ISA)(gg_kernels *k) {
    (void)k;
#define OP(id, NAME, symbol, family, check, cost, overwrites, flags) \
    GG_IF_FAMILY(family, GG_ENTER(id, op_##NAME, work_##NAME, plan_##NAME, flags))
#include "../tables/ops.h"
#undef OP
#define ALGORITHM(name, computes, family) GG_IF_FAMILY(family, k->algorithms[GG_ALGORITHM_##name] = &conv_##name;)
#include "../tables/conv.h"
#undef ALGORITHM
#define FUSED_ROWS(NAME, family) GG_IF_FAMILY(family, k->rows[GGML_OP_##NAME] = rows_##NAME;)
#define FUSED_TAIL(NAME, takes)
#include "../tables/fusions.h"
#undef FUSED_TAIL
#undef FUSED_ROWS
    GG_IF_FAMILY(matmul, k->product_pieces = matmul_pieces;)
#ifdef GG_UNIT_quants
    install_quants(k);
#endif
}
