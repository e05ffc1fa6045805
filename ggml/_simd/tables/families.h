/* The kernel families: target.h includes the header of each, and each is compiled once per ISA. */
#define GG_FAMILIES(X, isa) X(ELEM, isa) X(SHAPE, isa) X(REDUCE, isa) X(MATMUL, isa) X(ATTN, isa) X(QUANTS, isa) X(CONV, isa) X(SEQ, isa)
