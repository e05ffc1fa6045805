/* What a plan joins into one step. runtime/fuse.c finds it, for every graph; GGML_FUSE=0 turns it off.
 *
 * FUSED_ROWS(NAME, family): operation NAME computes each row of its result from the same row of its operands. Nodes of
 * these operations, of one shape, that use each other's results form a chain: runtime/chain.c computes all of them for
 * one row, one tile of it, or some short rows, before it goes on to the next, so that each finds its operand in the
 * first cache, and no thread waits in between. `rows_NAME(node)` in ops/family.h returns what the kernel of the
 * operation computes rows with, or nothing where the parameters of the node do not permit it. Examples of chains:
 *     RMS_NORM MUL, RMS_NORM MUL ADD, ADD RMS_NORM MUL    norms with their weights, behind the sum of a residual
 *     NORM MUL ADD                                        layer norm
 *     ADD ADD, ADD UNARY                                  sums, a bias and an activation
 *     UNARY MUL                                           the gate of a feed-forward layer
 *     SCALE ADD SOFT_MAX, SCALE DIAG_MASK_INF SOFT_MAX    weights of attention
 *     SQR MUL SCALE ADD SCALE UNARY SCALE MUL             GELU in pieces
 *
 * FUSED_TAIL(NAME, takes): operation NAME can compute what follows it while its sums are in the cache.
 * `takes(node, next, other)` in runtime/fuse.c changes a copy of the node accordingly, or returns false; `other` is the
 * second operand of `next`, if it has one. It is asked where `next` overwrites the result of the node, which nobody can
 * read then:
 *     CONV_2D ADD, CONV_2D ADD UNARY, CONV_2D ADD PRELU   a bias for each channel, an activation
 *     CONV_2D ADD ADD, CONV_2D ADD ADD UNARY              the same, another tensor of this shape in between
 *     MUL_MAT ADD                                         a bias for each row of the matrix
 *
 * A fused node leaves the same bits in memory as the single nodes, intermediate results included: each result is
 * written, unless a later node of the same step overwrites it. */
FUSED_ROWS(ADD,             elementwise)
FUSED_ROWS(ADD1,            elementwise)
FUSED_ROWS(SUB,             elementwise)
FUSED_ROWS(MUL,             elementwise)
FUSED_ROWS(DIV,             elementwise)
FUSED_ROWS(MAXIMUM,         elementwise)
FUSED_ROWS(MINIMUM,         elementwise)
FUSED_ROWS(LESS,            elementwise)
FUSED_ROWS(EQUAL,           elementwise)
FUSED_ROWS(SQR,             elementwise)
FUSED_ROWS(SQRT,            elementwise)
FUSED_ROWS(LOG,             elementwise)
FUSED_ROWS(SIN,             elementwise)
FUSED_ROWS(COS,             elementwise)
FUSED_ROWS(ERF,             elementwise)
FUSED_ROWS(SCALE,           elementwise)
FUSED_ROWS(CLAMP,           elementwise)
FUSED_ROWS(LEAKY_RELU,      elementwise)
FUSED_ROWS(PRELU,           elementwise)
FUSED_ROWS(CLAMP_BACK,      elementwise)
FUSED_ROWS(UNARY,           unary)
FUSED_ROWS(SILU_BACK,       unary)
FUSED_ROWS(GELU_BACK,       unary)
FUSED_ROWS(GELU_QUICK_BACK, unary)
FUSED_ROWS(GELU_ERF_BACK,   unary)
FUSED_ROWS(ELU_BACK,        unary)
FUSED_ROWS(GLU,             glu)
FUSED_ROWS(NORM,            norm)
FUSED_ROWS(RMS_NORM,        norm)
FUSED_ROWS(L2_NORM,         norm)
FUSED_ROWS(SOFT_MAX,        softmax)
FUSED_ROWS(DIAG_MASK_INF,   triangular)
FUSED_ROWS(DIAG_MASK_ZERO,  triangular)
FUSED_TAIL(CONV_2D,         conv_takes)
FUSED_TAIL(CONV_2D_DW,      conv_takes)
FUSED_TAIL(MUL_MAT,         product_takes)
