/* The parameters of operations: what the 16 words `op_params` of a node hold, as fields with names.
 *
 * PARAMS(name, fields) describes the first words in order:
 *   I32(field)  F32(field)     one word
 *   I64(field)  PTR(field)     two words
 *   I32S(field, n)             n words
 * OF(NAME, name) gives these parameters to operation NAME; an operation without a row has none. Where the C library has
 * a parameter, it stands at the same position here, so that programs which read or write op_params agree; words that
 * only the C library uses are called `unused...`. What is this library's own follows behind.
 *
 * Derived from it: the struct gg_<name>_params and the function <name>_params(t), which shows the parameters of node t
 * (runtime/engine.h, for Cython ggml/_params.pxd), and for Python the names of the fields (ggml/_params.py). */

/* ---- functions of an element ------------------------------------------------------------------------------------- */
PARAMS(unary,
    I32(function)                                               /* GGML_UNARY_OP_* */
    F32(alpha_n) F32(alpha_p) F32(beta) F32(eps))               /* of XIELU */
OF(UNARY, unary)

PARAMS(glu,
    I32(function)                                               /* GGML_GLU_OP_* */
    I32(swapped)                                                /* the gate is the first operand, or half */
    F32(alpha) F32(limit))                                      /* of SWIGLU_OAI */
OF(GLU, glu)

PARAMS(scale, F32(factor) F32(bias))
OF(SCALE, scale)

PARAMS(clamp, F32(min) F32(max))
OF(CLAMP, clamp)
OF(CLAMP_BACK, clamp)

PARAMS(leaky_relu, F32(negative_slope))
OF(LEAKY_RELU, leaky_relu)

PARAMS(quantize_linear,
    F32(min) F32(max)
    F32(zero_factor))                                           /* times the zero point, added at the end: 1 or 0 */
OF(QUANTIZE_LINEAR, quantize_linear)

PARAMS(compare, I32(relation))                                  /* GG_COMPARE_* */
OF(COMPARE, compare)

PARAMS(fill, F32(value))
OF(FILL, fill)

PARAMS(arange, F32(start) F32(stop) F32(step))
OF(ARANGE, arange)

PARAMS(timestep, I32(dim) I32(max_period))
OF(TIMESTEP_EMBEDDING, timestep)

/* ---- rows -------------------------------------------------------------------------------------------------------- */
PARAMS(norm, F32(eps))
OF(NORM, norm)
OF(RMS_NORM, norm)
OF(RMS_NORM_BACK, norm)
OF(NORM_BACK, norm)
OF(L2_NORM, norm)
OF(CHANNEL_NORM, norm)

PARAMS(group_norm, I32(n_groups) F32(eps))
OF(GROUP_NORM, group_norm)

PARAMS(soft_max,
    F32(scale) F32(max_bias)
    I32(by_mask))                                               /* SOFT_MAX_BACK: the gradient of the mask */
OF(SOFT_MAX, soft_max)
OF(SOFT_MAX_BACK, soft_max)

PARAMS(cumsum, I32(from_end))                                   /* sums from the end of the row (the gradient) */
OF(CUMSUM, cumsum)

PARAMS(argmax,
    I32(nan)                                                    /* NaN is larger than all numbers */
    I32(first))                                                 /* of equal elements the first counts */
OF(ARGMAX, argmax)

PARAMS(argsort,
    I32(order)                                                  /* GGML_SORT_ORDER_* */
    I32(nan))                                                   /* NaN is larger than all numbers */
OF(ARGSORT, argsort)

PARAMS(rope,
    I32(unused)
    I32(n_dims) I32(mode)
    I32(back)                                                   /* ROPE_FACTORS_BACK: of the factors of ROPE_BACK */
    I32(n_ctx_orig)
    F32(freq_base) F32(freq_scale) F32(ext_factor) F32(attn_factor) F32(beta_fast) F32(beta_slow)
    I32S(sections, 4)
    I32(offset))                                                /* the first element that is rotated */
OF(ROPE, rope)
OF(ROPE_BACK, rope)
OF(ROPE_FACTORS_BACK, rope)

/* ---- matrices and attention -------------------------------------------------------------------------------------- */
PARAMS(mul_mat,
    I32(prec) I32(hint)                                         /* GGML_PREC_*, GGML_HINT_* */
    I32(offset)                                                 /* added to the elements of a matrix of bytes */
    I32(whole))                                                 /* most rows of both operands are whole numbers */
OF(MUL_MAT, mul_mat)

PARAMS(paged_attn,
    F32(factor) F32(logit_softcap)
    I32(page_size)                                              /* cells of a page */
    I32(window)                                                 /* most keys of a row, 0: all */
    I32(exact)                                                  /* each row is computed alone */
    I32(chunked))                                               /* a row attends to the keys of its chunk of `window` */
OF(PAGED_ATTN, paged_attn)

PARAMS(attention,
    F32(scale) F32(max_bias) F32(logit_softcap)
    I32(prec)                                                   /* GGML_PREC_* */
    I32(want))                                                  /* FLASH_ATTN_EXT_BACK: GG_ATTN_WANT_* */
OF(FLASH_ATTN_EXT, attention)
OF(FLASH_ATTN_EXT_BACK, attention)

PARAMS(attention_back, I32(masked))                             /* causal */
OF(FLASH_ATTN_BACK, attention_back)

PARAMS(recurrent, I32(n_states))                                /* final states that are kept */
OF(SSM_SCAN, recurrent)
OF(GATED_DELTA_NET, recurrent)

PARAMS(linear_attention, F32(scale))
OF(GATED_LINEAR_ATTN, linear_attention)

PARAMS(recurrent_back,
    I32(op)                                                     /* the operation whose gradients these are */
    I32(n_states) F32(scale))                                   /* its parameter, if it has it */
OF(RECURRENT_BACK, recurrent_back)

PARAMS(triangular, I32(kind))                                   /* GGML_TRI_TYPE_* */
OF(TRI, triangular)

PARAMS(diag_mask, I32(n_past))
OF(DIAG_MASK_INF, diag_mask)
OF(DIAG_MASK_ZERO, diag_mask)

PARAMS(solve_tri, I32(transposed))                              /* solves A^T X = B */
OF(SOLVE_TRI, solve_tri)

/* ---- shapes ------------------------------------------------------------------------------------------------------ */
PARAMS(view, I64(offset))
OF(VIEW, view)

PARAMS(permute, I32S(axes, 4))
OF(PERMUTE, permute)

PARAMS(update, I32S(nb, 3) I32(offset) I32(inplace))            /* the view that is written; nb[0] is nb1 */
OF(ACC, update)
OF(SET, update)

PARAMS(concat, I32(dim))
OF(CONCAT, concat)

PARAMS(pad,
    I32S(ends, 8)                                               /* before and after each dimension */
    I32(mode)                                                   /* GG_PAD_*; in the C library 0 or 1, circular */
    F32(value))                                                 /* GG_PAD_ZERO, f32: what is put around the tensor */
OF(PAD, pad)

PARAMS(pad_reflect, I32(before) I32(after))
OF(PAD_REFLECT_1D, pad_reflect)

PARAMS(roll, I32S(shifts, 4))
OF(ROLL, roll)

PARAMS(upscale, I32(mode))                                      /* GGML_SCALE_MODE_*, GGML_SCALE_FLAG_* */
OF(UPSCALE, upscale)
OF(UPSCALE_BACK, upscale)

PARAMS(win_part, I32(columns) I32(rows) I32(w))                 /* windows across and down, their side */
OF(WIN_PART, win_part)

PARAMS(win_unpart, I32(w))
OF(WIN_UNPART, win_unpart)

PARAMS(add_rel_pos, I32(inplace))
OF(ADD_REL_POS, add_rel_pos)

/* ---- convolutions and pooling: strides s, paddings p, dilations d ------------------------------------------------ */
PARAMS(conv_2d,
    I32S(s, 2) I32S(p, 2) I32S(d, 2)
    I32(is_1d)
    I32(function)                                               /* 1 + GGML_UNARY_OP_*, applied to sums; 0: none */
    I32(offset)                                                 /* added to the elements of a kernel of bytes */
    I32(squares)                                                /* see gg_conv_squares */
    I32(groups))                                                /* of channels, of CONV_2D; 0 stands for 1 */
OF(CONV_2D, conv_2d)
OF(CONV_2D_DW, conv_2d)

PARAMS(conv_3d, I32S(s, 3) I32S(p, 3) I32S(d, 3) I32(ic) I32(n) I32(oc))    /* channels, images, result channels */
OF(CONV_3D, conv_3d)

PARAMS(conv_transpose_1d, I32(s) I32(p) I32(d))
OF(CONV_TRANSPOSE_1D, conv_transpose_1d)

PARAMS(conv_transpose_2d, I32(s))
OF(CONV_TRANSPOSE_2D, conv_transpose_2d)

PARAMS(conv_back,
    I32(kind)                                                   /* GG_CONV_* (runtime/geometry.h) */
    I32S(s, 3) I32S(p, 3) I32S(d, 3) I32(ic) I32(n) I32(oc))
OF(CONV_BACK_DATA, conv_back)
OF(CONV_BACK_KERNEL, conv_back)

PARAMS(im2col,
    I32S(s, 2) I32S(p, 2) I32S(d, 2)
    I32(is_2d)
    I32S(k, 2))                                                 /* of the kernel, where it is no source */
OF(IM2COL, im2col)
OF(IM2COL_BACK, im2col)

PARAMS(im2col_3d, I32S(s, 3) I32S(p, 3) I32S(d, 3) I32(ic) I32S(k, 3))
OF(IM2COL_3D, im2col_3d)
OF(IM2COL_3D_BACK, im2col_3d)

PARAMS(col2im, I32(s) I32(oc) I32(p))
OF(COL2IM_1D, col2im)

PARAMS(pool_1d, I32(kind) I32(k) I32(s) I32(p))                 /* GGML_OP_POOL_* */
OF(POOL_1D, pool_1d)

PARAMS(pool_2d,
    I32(kind) I32S(k, 2) I32S(s, 2) I32S(p, 2)
    I32(inside)                                                 /* averages exclude the padding, as POOL_1D's do */
    I32(nan))                                                   /* maxima may be NaN, and -inf */
OF(POOL_2D, pool_2d)
OF(POOL_2D_BACK, pool_2d)

/* ---- functions of the user --------------------------------------------------------------------------------------- */
PARAMS(custom,
    PTR(function)
    I32(n_tasks) I32(unused)
    PTR(userdata)
    I32(backward))                                              /* the number of the function that differentiates */
OF(MAP_CUSTOM1, custom)
OF(MAP_CUSTOM2, custom)
OF(MAP_CUSTOM3, custom)
OF(CUSTOM, custom)
OF(COMPILED, custom)
