/* The kernel families: target.h includes the header of each. Those that multiply bytes are compiled for every ISA, the
 * others for those that are their own base (isa.h). */
#define GG_FAMILIES(X, isa, base) \
    X(ELEM, base) X(SHAPE, base) X(REDUCE, base) X(MATMUL, isa) X(ATTN, base) X(QUANTS, isa) X(CONV, base) X(SEQ, base)
