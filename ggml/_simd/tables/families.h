/* The families of operations, gathered into compile units: X(unit, whose, families). ops/<family>.h holds the kernels
 * of a family. Families that share much code share a unit, which keeps that code once. A unit is compiled for every ISA
 * (`isa`: it multiplies matrices), for the ISAs that multiply bytes in a way of their own (`bytes`, see isa.h), or for
 * those that are their own base (`base`). The unit `quants` has no operations: quants/quants.h enters the conversions
 * of types. The family conv_bytes has none either: it holds algorithms of convolutions that multiply bytes
 * (tables/conv.h). */
#define GG_UNITS(X, isa, bytes, base)                                            \
    X(elements,  base, elementwise compare unary glu optimizer fill custom)              \
    X(rows,      base, reduce scan norm softmax)                                 \
    X(copies,    base, shape index pad window resize triangular)                 \
    X(matmul,    isa,  matmul conv_bytes)                                       \
    X(conv,      base, conv pool)                                                \
    X(attention, base, rope attention)                                           \
    X(recurrent, base, recurrent)                                                \
    X(quants,    bytes, )
