/* One row an element-wise function of GGML_OP_UNARY: UNARY(id, NAME, function, derivative, back).
 *
 * function    y = function(x), in the vocabulary (vec/vec.h) or in vec/math.h; gg_xielu also takes parameters
 *             (ops/unary.h)
 * derivative  what dy/dx is computed from:
 *               ZERO      nothing: it is 0 wherever it exists
 *               NUMBER    nothing: it is the same everywhere
 *               RESULT    y, so that a node in place keeps its gradient
 *               ARGUMENT  x
 * back        the operation that computes g dy/dx from g and x; NONE: other nodes do (_ops/unary.pyx) */
UNARY(0,  ABS,         vf_abs,        ARGUMENT, NONE)
UNARY(1,  SGN,         v_sgn,         ZERO,     NONE)
UNARY(2,  NEG,         vf_neg,        NUMBER,   NONE)
UNARY(3,  STEP,        v_step,        ZERO,     NONE)
UNARY(4,  TANH,        v_tanh,        RESULT,   NONE)
UNARY(5,  ELU,         v_elu,         ARGUMENT, ELU_BACK)
UNARY(6,  RELU,        v_relu,        RESULT,   NONE)
UNARY(7,  SIGMOID,     v_sigmoid,     RESULT,   NONE)
UNARY(8,  GELU,        v_gelu,        ARGUMENT, GELU_BACK)
UNARY(9,  GELU_QUICK,  v_gelu_quick,  ARGUMENT, GELU_QUICK_BACK)
UNARY(10, SILU,        v_silu,        ARGUMENT, SILU_BACK)
UNARY(11, HARDSWISH,   v_hardswish,   ARGUMENT, NONE)
UNARY(12, HARDSIGMOID, v_hardsigmoid, ARGUMENT, NONE)
UNARY(13, EXP,         v_exp,         RESULT,   NONE)
UNARY(14, EXPM1,       v_expm1,       RESULT,   NONE)
UNARY(15, SOFTPLUS,    v_softplus,    ARGUMENT, NONE)
UNARY(16, GELU_ERF,    v_gelu_erf,    ARGUMENT, GELU_ERF_BACK)
UNARY(17, XIELU,       gg_xielu,      ARGUMENT, NONE)
UNARY(18, FLOOR,       vf_floor,      ZERO,     NONE)
UNARY(19, CEIL,        vf_ceil,       ZERO,     NONE)
UNARY(20, ROUND,       v_round_away,  ZERO,     NONE)
UNARY(21, TRUNC,       vf_trunc,      ZERO,     NONE)
