/* One row a family of kernels: X(stem, whose). ops/STEM.h holds its kernels; each family is one compile unit for every
 * ISA (`isa`: those that multiply bytes), or for the ISAs that are their own base (`base`, see isa.h).
 * The family `quants` has no operations: quants/quants.h enters the conversions of the types. */
#define GG_FAMILIES(X, isa, base) \
    X(elementwise, base) X(glu, base) X(index, base) X(reduce, base) X(scan, base) X(norm, base) X(softmax, base) \
    X(triangular, base) X(shape, base) X(pad, base) X(fill, base) X(resize, base) X(window, base) X(matmul, isa) \
    X(conv, base) X(pool, base) X(rope, base) X(attention, base) X(recurrent, base) X(optimizer, base) X(custom, base) \
    X(quants, isa)
