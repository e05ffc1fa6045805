"""Rotary position embeddings (arXiv:2104.09864), with their gradient."""
from libc.math cimport M_PI, ceil, floor, log
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from .._core cimport (
    arg_bool, arg_buffer, arg_context, arg_float, arg_int32, arg_tensor, arg_tensor_or_null, check_node, enter,
    fail, ggml_context, ggml_tensor, node_append, node_in_place, node_like, node_text, wrap_tensor,
)
from .._enums cimport GGML_OP_ROPE, GGML_OP_ROPE_BACK, GGML_OP_ROPE_FACTORS_BACK, GGML_TYPE_F32
from .._graph.grad cimport Backward, gradients
from .._params cimport gg_rope_params, rope_params

# freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow
cdef tuple NO_SCALING = (10000.0, 1.0, 0.0, 1.0, 0.0, 0.0)

# ---- builders --------------------------------------------------------------------------------------------------------
cdef object rope_of(object ctx, const char *name, int op, object a, object b, object c, object n_dims, object sections,
                    object mode, object n_ctx_orig, tuple scaling, bint inplace):
    """What the public function `name` returns: a node of ROPE or ROPE_BACK.

    scaling holds six numbers in the order of NO_SCALING. sections is None where each token has one position.
    """
    cdef ggml_context *context = arg_context(ctx, name)
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef gg_rope_params *q = rope_params(&node)
    cdef void *address
    node_like(&node, op, x.type, x)
    node.src[0], node.src[1], node.src[2] = x, arg_tensor(b, b"b"), arg_tensor_or_null(c, b"c")
    q.n_dims = arg_int32(n_dims, b"n_dims")
    q.mode = arg_int32(mode, b"mode")
    q.n_ctx_orig = arg_int32(n_ctx_orig, b"n_ctx_orig")
    q.freq_base, q.freq_scale = arg_float(scaling[0], b"freq_base"), arg_float(scaling[1], b"freq_scale")
    q.ext_factor, q.attn_factor = arg_float(scaling[2], b"ext_factor"), arg_float(scaling[3], b"attn_factor")
    q.beta_fast, q.beta_slow = arg_float(scaling[4], b"beta_fast"), arg_float(scaling[5], b"beta_slow")
    if sections is not None:
        arg_buffer(sections, b"sections", 4 * sizeof(int32_t), &address)
        if address == NULL:
            fail(ValueError, "sections is NULL: need four int")
        memcpy(q.sections, address, sizeof(q.sections))
    if inplace:
        node_in_place(&node, x)
    return wrap_tensor(node_append(context, &node))

def ggml_rope(ctx, a, b, n_dims, mode):
    """Rotates pairs of elements by angles proportional to the token's position (RoPE, arXiv:2104.09864).

    Pair i of a token at position p is rotated by p * 10000^(-2 i / n_dims). Elements from n_dims on are copied. The
    gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [n_tokens].
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL pairs elements (0, 1), (2, 3) and so on, GGML_ROPE_TYPE_NEOX (0, n_dims / 2),
            (1, n_dims / 2 + 1) and so on.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, or a is not of a float type.
        MemoryError: the context is full.
    See also:
        ggml_rope_ext, with scaled frequencies; ggml_rope_multi, with several positions for each token.
    """
    return rope_of(ctx, b"ggml_rope", GGML_OP_ROPE, a, b, None, n_dims, None, mode, 0, NO_SCALING, False)

def ggml_rope_inplace(ctx, a, b, n_dims, mode):
    """Applies rotary position embedding to a in its own memory.

    The rotation is that of ggml_rope: pair i at position p by p * 10000^(-2 i / n_dims). The gradient flows to the
    old value of a.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch]; it is modified.
        b: positions, i32, [n_tokens].
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL pairs elements (0, 1), (2, 3) and so on, GGML_ROPE_TYPE_NEOX (0, n_dims / 2),
            (1, n_dims / 2 + 1) and so on.
    Returns:
        View of all of a, after the rotation.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, or a is not of a float type.
        MemoryError: the context is full.
    """
    return rope_of(ctx, b"ggml_rope_inplace", GGML_OP_ROPE, a, b, None, n_dims, None, mode, 0, NO_SCALING, True)

def ggml_rope_ext(ctx, a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast,
                  beta_slow):
    """Applies rotary position embedding with scaled frequencies, frequency factors and YaRN (arXiv:2309.00071).

    Pair i of a token at position p is rotated by the angle
    p * freq_base^(-2 i / n_dims) / c[i] * (freq_scale * (1 - mix) + mix), and the result is multiplied by
    attn_factor. mix is 0 without YaRN. With it, mix falls linearly in i from ext_factor to 0 between the pairs that
    ggml_rope_yarn_corr_dims gives, and the result is also multiplied by 1 - 0.1 * log(freq_scale). Elements from
    n_dims on are copied. The gradient flows to a and c.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [n_tokens].
        c: frequency factors, f32, [n_dims / 2] or longer, or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL pairs elements (0, 1), (2, 3) and so on, GGML_ROPE_TYPE_NEOX (0, n_dims / 2),
            (1, n_dims / 2 + 1) and so on.
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, freq_base is not positive, or a is not of a float type.
        MemoryError: the context is full.
    """
    return rope_of(ctx, b"ggml_rope_ext", GGML_OP_ROPE, a, b, c, n_dims, None, mode, n_ctx_orig,
                   (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_ext_inplace(ctx, a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                          beta_fast, beta_slow):
    """Applies the extended rotary position embedding to a in its own memory.

    The rotation is that of ggml_rope_ext, with scaled frequencies, frequency factors and YaRN. The gradient flows
    to the old value of a; the one with respect to c needs that value, so the backward pass raises ValueError where
    c is a parameter.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch]; it is modified.
        b: positions, i32, [n_tokens].
        c: frequency factors, f32, [n_dims / 2] or longer, or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL or GGML_ROPE_TYPE_NEOX, as in ggml_rope.
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        View of all of a, after the rotation.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, freq_base is not positive, or a is not of a float type.
        MemoryError: the context is full.
    """
    return rope_of(ctx, b"ggml_rope_ext_inplace", GGML_OP_ROPE, a, b, c, n_dims, None, mode, n_ctx_orig,
                   (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), True)

def ggml_rope_multi(ctx, a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                    beta_fast, beta_slow):
    """Applies rotary position embedding with four positions for each token (M-RoPE, arXiv:2409.12191).

    Each pair of elements belongs to one of four sections and is rotated by the position of that section, for
    example time, height, width and an extra one. Angles are those of ggml_rope_ext. Pairs are (0, n_pairs),
    (1, n_pairs + 1) and so on, where n_pairs is n_dims / 2, or n_dims for GGML_ROPE_TYPE_VISION. Where there are
    more pairs than sections hold, the sections repeat. The gradient flows to a and c.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [4 * n_tokens]: the first position of every token, then the second of every token, and so
            on.
        c: frequency factors, f32, one for each pair or more, [n_pairs], or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim; for GGML_ROPE_TYPE_VISION
            head_dim / 2, and the whole row is rotated.
        sections: array of four int, the number of pairs for each of the four positions; not negative, not all 0.
        mode: GGML_ROPE_TYPE_MROPE (one section after the other), GGML_ROPE_TYPE_IMROPE (the first three sections
            interleaved) or GGML_ROPE_TYPE_VISION (one section after the other, in each of which the frequencies
            start anew).
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, sections are invalid, freq_base is not positive, or a is not
            of a float type.
        MemoryError: the context is full.
    """
    return rope_of(ctx, b"ggml_rope_multi", GGML_OP_ROPE, a, b, c, n_dims, sections, mode, n_ctx_orig,
                   (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_multi_inplace(ctx, a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor,
                            attn_factor, beta_fast, beta_slow):
    """Applies rotary position embedding with four positions for each token to a in its own memory.

    The rotation is that of ggml_rope_multi. The gradient flows to the old value of a; the one with respect to c needs
    that value, so the backward pass raises ValueError where c is a parameter.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch]; it is modified.
        b: positions, i32, [4 * n_tokens]: the first position of every token, then the second of every token, and so
            on.
        c: frequency factors, f32, one for each pair or more, [n_pairs], or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim; for GGML_ROPE_TYPE_VISION
            head_dim / 2, and the whole row is rotated.
        sections: array of four int, the number of pairs for each of the four positions; not negative, not all 0.
        mode: GGML_ROPE_TYPE_MROPE (one section after the other), GGML_ROPE_TYPE_IMROPE (the first three sections
            interleaved) or GGML_ROPE_TYPE_VISION (one section after the other, in each of which the frequencies
            start anew).
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        View of all of a, after the rotation.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, sections are invalid, freq_base is not positive, or a is not
            of a float type.
        MemoryError: the context is full.
    """
    return rope_of(ctx, b"ggml_rope_multi_inplace", GGML_OP_ROPE, a, b, c, n_dims, sections, mode, n_ctx_orig,
                   (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), True)

def ggml_rope_custom(ctx, a, b, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast,
                     beta_slow):
    """Applies rotary position embedding with scaled frequencies and YaRN, without frequency factors.

    The node is the one that ggml_rope_ext makes with c = None; the name is that of older releases. The gradient
    flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [n_tokens].
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL or GGML_ROPE_TYPE_NEOX, as in ggml_rope.
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, freq_base is not positive, or a is not of a float type.
        MemoryError: the context is full.
    """
    return rope_of(ctx, b"ggml_rope_custom", GGML_OP_ROPE, a, b, None, n_dims, None, mode, n_ctx_orig,
                   (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_custom_inplace(ctx, a, b, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                             beta_fast, beta_slow):
    """Applies rotary position embedding with scaled frequencies and YaRN to a in its own memory.

    There are no frequency factors: the rotation is that of ggml_rope_ext with c = None. The gradient flows to the
    old value of a.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch]; it is modified.
        b: positions, i32, [n_tokens].
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL or GGML_ROPE_TYPE_NEOX, as in ggml_rope.
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        View of all of a, after the rotation.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, freq_base is not positive, or a is not of a float type.
        MemoryError: the context is full.
    """
    return rope_of(ctx, b"ggml_rope_custom_inplace", GGML_OP_ROPE, a, b, None, n_dims, None, mode, n_ctx_orig,
                   (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), True)

# ---- gradients -------------------------------------------------------------------------------------------------------
def ggml_rope_ext_back(ctx, a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                       beta_fast, beta_slow):
    """Computes the gradient of ggml_rope_ext with respect to its operand: rotates a by the negative angles.

    The factors of ggml_rope_ext (attn_factor, YaRN's) apply here, too. The parameters are those of the forward
    call. The gradient flows to a and c.

    Args:
        ctx: context that receives the result.
        a: gradient of the result, f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [n_tokens].
        c: frequency factors, f32, [n_dims / 2] or longer, or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL or GGML_ROPE_TYPE_NEOX, as in ggml_rope.
        n_ctx_orig: context length of the original training, in tokens.
        freq_base: base of the frequencies, more than 0.
        freq_scale: factor of all angles.
        ext_factor: weight of YaRN's extrapolation, 0 for none.
        attn_factor: factor of the result.
        beta_fast: upper limit of YaRN's ramp, in rotations within n_ctx_orig.
        beta_slow: lower limit of YaRN's ramp.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, freq_base is not positive, or a is not of a float type.
        MemoryError: the context is full.
    """
    return rope_of(ctx, b"ggml_rope_ext_back", GGML_OP_ROPE_BACK, a, b, c, n_dims, None, mode, n_ctx_orig,
                   (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_multi_back(ctx, a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor,
                         attn_factor, beta_fast, beta_slow):
    """Computes the gradient of ggml_rope_multi with respect to its operand: rotates a back, section by section.

    The parameters are those of the forward call. The gradient flows to a and c.

    Args:
        ctx: context that receives the result.
        a: gradient of the result, f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [4 * n_tokens]: the first position of every token, then the second of every token, and so
            on.
        c: frequency factors, f32, one for each pair or more, [n_pairs], or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim; for GGML_ROPE_TYPE_VISION
            head_dim / 2, and the whole row is rotated.
        sections: array of four int, the number of pairs for each of the four positions; not negative, not all 0.
        mode: GGML_ROPE_TYPE_MROPE, GGML_ROPE_TYPE_IMROPE or GGML_ROPE_TYPE_VISION.
        n_ctx_orig: context length of the original training, in tokens.
        freq_base: base of the frequencies, more than 0.
        freq_scale: factor of all angles.
        ext_factor: weight of YaRN's extrapolation, 0 for none.
        attn_factor: factor of the result.
        beta_fast: upper limit of YaRN's ramp, in rotations within n_ctx_orig.
        beta_slow: lower limit of YaRN's ramp.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, sections are invalid, freq_base is not positive, or a is not
            of a float type.
        MemoryError: the context is full.
    """
    return rope_of(ctx, b"ggml_rope_multi_back", GGML_OP_ROPE_BACK, a, b, c, n_dims, sections, mode, n_ctx_orig,
                   (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_back(ctx, a, b, c, n_dims, mode, n_ctx, n_orig_ctx, freq_base, freq_scale, ext_factor, attn_factor,
                   beta_fast, beta_slow, xpos_base, xpos_down):
    """Computes the gradient of a rotary position embedding with the parameters of older releases.

    The node is the one that ggml_rope_ext_back makes. The gradient flows to a and c.

    Args:
        ctx: context that receives the result.
        a: gradient of the result, f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [n_tokens].
        c: frequency factors, f32, [n_dims / 2] or longer, or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL or GGML_ROPE_TYPE_NEOX, as in ggml_rope.
        n_ctx: any 32-bit integer; it has no effect.
        n_orig_ctx: context length of the original training, in tokens.
        freq_base: base of the frequencies, more than 0.
        freq_scale: factor of all angles.
        ext_factor: weight of YaRN's extrapolation, 0 for none.
        attn_factor: factor of the result.
        beta_fast: upper limit of YaRN's ramp, in rotations within n_orig_ctx.
        beta_slow: lower limit of YaRN's ramp.
        xpos_base: must be 0; xPos is not supported.
        xpos_down: True or False; it has no effect.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: xpos_base is not 0, or what ggml_rope_ext_back raises it for.
        MemoryError: the context is full.
    """
    arg_context(ctx, b"ggml_rope_back")
    arg_int32(n_ctx, b"n_ctx")
    arg_bool(xpos_down, b"xpos_down")
    if arg_float(xpos_base, b"xpos_base") != 0:
        fail(ValueError, f"xpos_base is {xpos_base}: need 0, xPos is not supported")
    return rope_of(ctx, b"ggml_rope_back", GGML_OP_ROPE_BACK, a, b, c, n_dims, None, mode, n_orig_ctx,
                   (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_set_offset(a, n_offs):
    """Moves the rotated part of the rows of a rotary position embedding: elements n_offs to n_offs + n_dims - 1.

    The elements before and after that part are copied. Call it before the gradients of the graph are built: they are
    rotated in the same part.

    Args:
        a: result of a ggml_rope function, except in mode GGML_ROPE_TYPE_VISION; any type and shape.
        n_offs: number of leading elements of a row that are not rotated, 0 to ne[0] - n_dims.
    Returns:
        a itself.
    Raises:
        TypeError: a is not a tensor pointer, or n_offs is not an integer.
        ValueError: a is not the result of a ggml_rope function, or n_offs is out of range.
        RuntimeError: a does not belong to a live context.
    """
    enter(b"ggml_rope_set_offset")
    cdef ggml_tensor *t = arg_tensor(a, b"a")
    cdef int n = arg_int32(n_offs, b"n_offs"), before
    if t.op != GGML_OP_ROPE and t.op != GGML_OP_ROPE_BACK:
        fail(ValueError, f"a is {node_text(t)}: need the result of a ggml_rope function")
    before = rope_params(t).offset
    rope_params(t).offset = n
    try:
        check_node(t)
    except ValueError:
        rope_params(t).offset = before
        raise
    return a

cdef int grad_rope(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = R(c) x, the pairs of x rotated by angles p w / c: dx = R(c)^T g, the pairs of g rotated back.

    The gradient with respect to the frequency factors c is the sum over the pairs that share a factor of g dt/dc
    (ROPE_FACTORS_BACK). ROPE_BACK is R^T: its gradient rotates forwards.
    """
    cdef ggml_tensor node
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *positions = t.src[1]
    cdef ggml_tensor *factors = t.src[2]
    cdef bint is_back = t.op == GGML_OP_ROPE_BACK
    if b.needs(x):
        node_like(&node, GGML_OP_ROPE if is_back else GGML_OP_ROPE_BACK, g.type, g)
        rope_params(&node)[0] = rope_params(t)[0]
        node.src[0], node.src[1], node.src[2] = g, positions, factors
        b.add(x, node_append(b.ctx, &node))
    if b.needs(factors):
        b.require_not_overwritten(t, x)
        b.require_not_overwritten(t, factors)
        node_like(&node, GGML_OP_ROPE_FACTORS_BACK, GGML_TYPE_F32, factors)
        rope_params(&node)[0] = rope_params(t)[0]
        rope_params(&node).back = is_back
        node.src[0], node.src[1], node.src[2], node.src[3] = g, x, positions, factors
        b.add(factors, node_append(b.ctx, &node))
    return 0

# ---- YaRN ------------------------------------------------------------------------------------------------------------
cdef double corr_dim(int n_dims, int n_ctx, float base, float rotations) except? -1:
    """The index of the pair that makes the given number of rotations within the context."""
    return n_dims * log(n_ctx / (rotations * 2 * M_PI)) / (2 * log(base))

def ggml_rope_yarn_corr_dims(n_dims, n_orig_ctx, freq_base, beta_fast, beta_slow, dims):
    """Computes the pairs between which YaRN passes from unchanged to scaled angles (arXiv:2309.00071).

    With dim(beta) = n_dims * log(n_orig_ctx / (2 pi beta)) / (2 log(freq_base)), dims[0] is
    max(0, floor(dim(beta_fast))) and dims[1] is min(n_dims - 1, ceil(dim(beta_slow))).

    Args:
        n_dims: number of elements of a row that are rotated.
        n_orig_ctx: context length of the original training in tokens, more than 0.
        freq_base: base of the frequencies, more than 0 and not 1.
        beta_fast: rotations within n_orig_ctx above which angles stay unchanged, more than 0.
        beta_slow: rotations below which angles are scaled, more than 0.
        dims: memory for two c_float, which receives the result: an array, a pointer or an address.
    Returns:
        None.
    Raises:
        ValueError: dims is None or too small, or a number is out of range.
    """
    enter(b"ggml_rope_yarn_corr_dims")
    cdef int n = arg_int32(n_dims, b"n_dims"), n_ctx = arg_int32(n_orig_ctx, b"n_orig_ctx")
    cdef float base = arg_float(freq_base, b"freq_base")
    cdef float fast = arg_float(beta_fast, b"beta_fast"), slow = arg_float(beta_slow, b"beta_slow")
    cdef void *address
    arg_buffer(dims, b"dims", 2 * sizeof(float), &address)
    if address == NULL:
        fail(ValueError, "dims is NULL: need two c_float")
    if n_ctx <= 0 or not (base > 0 and base != 1 and fast > 0 and slow > 0):
        fail(ValueError, f"n_orig_ctx is {n_ctx}, freq_base {base}, beta_fast {fast}, beta_slow {slow}: "
                         "need more than 0, and freq_base not 1")
    (<float *>address)[0] = <float>max(0, floor(corr_dim(n, n_ctx, base, fast)))
    (<float *>address)[1] = <float>min(n - 1, ceil(corr_dim(n, n_ctx, base, slow)))

gradients[GGML_OP_ROPE] = gradients[GGML_OP_ROPE_BACK] = grad_rope
