"""Attention (arXiv:2205.14135), with its gradient."""
from libc.stdint cimport int64_t

from .._core cimport (
    GG_MESSAGE, arg_bool, arg_context, arg_float, arg_int, arg_tensor, arg_tensor_or_null, engine, enter, fail,
    ggml_context, ggml_tensor, node_append, node_init, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_FLASH_ATTN_BACK, GGML_OP_FLASH_ATTN_EXT, GGML_OP_FLASH_ATTN_EXT_BACK, GGML_OP_PAGED_ATTN, GGML_TYPE_F32,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport (
    attention_back_params, attention_params, gg_attention_params, gg_paged_attn_params, paged_attn_params,
)
from .matmul cimport arg_prec
from .shape cimport view
from .softmax cimport mask_gradient, sinks_gradient

cdef extern from "runtime/attention_layout.h" nogil:
    enum: GG_ATTN_MASK, GG_ATTN_SINKS, GG_ATTN_END
    enum: GG_ATTN_WANT_Q, GG_ATTN_WANT_KV, GG_ATTN_WANT_MASK, GG_ATTN_WANT_SINKS
    bint gg_attn_layout(const ggml_tensor *q, const ggml_tensor *k, const ggml_tensor *v, int want, size_t *offset)

# ---- FLASH_ATTN_EXT --------------------------------------------------------------------------------------------------
def ggml_flash_attn_ext(ctx, q, k, v, mask, scale, max_bias, logit_softcap):
    """Computes attention: result = soft_max(scale * k^T q + slope * mask) v for each head, without storing all scores.

    Consecutive heads of q share a head of k and v (grouped-query attention). With logit_softcap c, scores s
    become c * tanh(s / c) before the mask is added. A query that sees no key gets zeros; keys and values that the
    mask hides (-inf) from all queries may hold anything. Keys are processed block by block with a running softmax
    (FlashAttention, arXiv:2205.14135). The gradient flows to q, k, v, mask and sinks.

    Args:
        ctx: context that receives the result.
        q: queries, f32, f16 or bf16, [head_dim, n_q, n_heads, batch].
        k: keys [head_dim, n_kv, n_kv_heads, kv_batch], f32, f16, bf16 or a quantised type; n_heads and batch are
            multiples of n_kv_heads and kv_batch.
        v: values [v_dim, n_kv, n_kv_heads, kv_batch], f32, f16, bf16 or a quantised type.
        mask: f32, f16 or bf16, [n_kv or more, n_q or more, m2, m3], repeated over heads and batch (multiples of m2
            and m3), or None (NULL).
        scale: factor of the scores, usually 1 / sqrt(head_dim).
        max_bias: 0 for a slope of 1, more for ALiBi (arXiv:2108.12409), whose slopes differ by head; it needs a
            mask.
        logit_softcap: limit c of the scores, 0 for none.
    Returns:
        f32 tensor [v_dim, n_heads, n_q, batch]: heads and queries are exchanged.
    Raises:
        ValueError: a shape or type does not fit, or max_bias is negative or without a mask.
        MemoryError: the context is full.
    See also:
        ggml_flash_attn_ext_add_sinks, which adds a logit to each row of scores.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_flash_attn_ext")
    cdef ggml_tensor node
    cdef gg_attention_params *params = attention_params(&node)
    cdef ggml_tensor *queries = arg_tensor(q, b"q")
    cdef ggml_tensor *values = arg_tensor(v, b"v")
    node_init(&node, GGML_OP_FLASH_ATTN_EXT, GGML_TYPE_F32, values.ne[0], queries.ne[2], queries.ne[1], queries.ne[3])
    params.scale = arg_float(scale, b"scale")
    params.max_bias = arg_float(max_bias, b"max_bias")
    params.logit_softcap = arg_float(logit_softcap, b"logit_softcap")
    node.src[0], node.src[1], node.src[2] = queries, arg_tensor(k, b"k"), values
    node.src[3] = arg_tensor_or_null(mask, b"mask")
    return wrap_tensor(node_append(c, &node))

cdef ggml_tensor *arg_attention(object a) except NULL:
    """The argument a, which must be a result of ggml_flash_attn_ext."""
    cdef ggml_tensor *t = arg_tensor(a, b"a")
    if t.op != GGML_OP_FLASH_ATTN_EXT:
        fail(ValueError, "a is not a result of ggml_flash_attn_ext")
    return t

def ggml_flash_attn_ext_set_prec(a, prec):
    """Stores the precision requested for an attention node.

    The value has no effect on the result: products are summed in f32 with every setting.

    Args:
        a: result of ggml_flash_attn_ext, f32 [v_dim, n_heads, n_q, batch].
        prec: GGML_PREC_DEFAULT or GGML_PREC_F32.
    Returns:
        None.
    Raises:
        ValueError: a is not a result of ggml_flash_attn_ext, or prec is another number.
    """
    enter(b"ggml_flash_attn_ext_set_prec")
    attention_params(arg_attention(a)).prec = arg_prec(prec)

def ggml_flash_attn_ext_get_prec(a):
    """Returns the precision requested for an attention node.

    Args:
        a: result of ggml_flash_attn_ext, f32 [v_dim, n_heads, n_q, batch].
    Returns:
        The value given to ggml_flash_attn_ext_set_prec, GGML_PREC_DEFAULT (0) without such a call.
    Raises:
        ValueError: a is not a result of ggml_flash_attn_ext.
    """
    enter(b"ggml_flash_attn_ext_get_prec")
    return attention_params(arg_attention(a)).prec

def ggml_flash_attn_ext_add_sinks(a, sinks):
    """Sets the attention sinks of an attention node: one further logit for each head.

    The sink takes part in the softmax of every row of its head but has no value, so that the weights of the keys
    add up to less than 1. The gradient flows to the sinks.

    Args:
        a: result of ggml_flash_attn_ext, f32 [v_dim, n_heads, n_q, batch]; the node is changed.
        sinks: f32 [n_heads], or None (NULL) to remove the sinks.
    Returns:
        None.
    Raises:
        ValueError: a is not a result of ggml_flash_attn_ext, or sinks has another shape or type; the node then
            keeps the sinks that it had.
    """
    enter(b"ggml_flash_attn_ext_add_sinks")
    cdef char message[GG_MESSAGE]
    cdef ggml_tensor *t = arg_attention(a)
    cdef ggml_tensor *previous = t.src[4]
    t.src[4] = arg_tensor_or_null(sinks, b"sinks")
    if engine.check(t, message) != NULL:
        t.src[4] = previous
        fail(ValueError, message.decode(errors="replace"))

cdef ggml_tensor *view_floats(ggml_context *ctx, ggml_tensor *a, size_t offset, int64_t ne0, int64_t ne1, int64_t ne2,
                              int64_t ne3) except NULL:
    """A contiguous view [ne0, ne1, ne2, ne3] of an f32 vector, `offset` bytes from its start."""
    cdef int64_t[4] ne = [ne0, ne1, ne2, ne3]
    cdef size_t[4] nb = [4, 4 * ne0, 4 * ne0 * ne1, 4 * ne0 * ne1 * ne2]
    return view(ctx, a, ne, nb, offset)

cdef int wanted_gradients(Backward b, ggml_tensor *t) except -1:
    """GG_ATTN_WANT_* of the sources that need a gradient."""
    cdef int want = 0
    if b.needs(t.src[0]):
        want |= GG_ATTN_WANT_Q
    if b.needs(t.src[1]) or b.needs(t.src[2]):
        want |= GG_ATTN_WANT_KV
    if b.needs(t.src[3]):
        want |= GG_ATTN_WANT_MASK
    if b.needs(t.src[4]):
        want |= GG_ATTN_WANT_SINKS
    return want

cdef int grad_attention(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = p v with p = softmax(z), z = softcap(scale k^T q) + slope mask: one node computes all gradients.

    dv = p^T g, dz = p (dp - sum(dp p)) with dp = g v^T; dq, dk and the mask's gradient follow from dz as in mul_mat
    and soft_max_ext. The node's result holds them one after the other, at the offsets of gg_attn_layout.
    """
    cdef ggml_tensor node
    cdef ggml_tensor *q = t.src[0]
    cdef ggml_tensor *k = t.src[1]
    cdef ggml_tensor *mask = t.src[3]
    cdef ggml_tensor *sinks = t.src[4]
    cdef ggml_tensor *all_gradients
    cdef ggml_tensor *source
    cdef ggml_tensor *unreduced
    cdef size_t[6] offset
    cdef int i, want = wanted_gradients(b, t)
    if not gg_attn_layout(q, k, t.src[2], want, offset):
        fail(ValueError, "the gradients of an attention are too large")
    node_init(&node, GGML_OP_FLASH_ATTN_EXT_BACK, GGML_TYPE_F32, <int64_t>(offset[<int>GG_ATTN_END] // 4), 1, 1, 1)
    attention_params(&node)[0] = attention_params(t)[0]
    attention_params(&node).want = want
    for i in range(5):
        node.src[i] = t.src[i]
        if t.src[i] != NULL:
            b.require_not_overwritten(t, t.src[i])
    node.src[5] = g
    all_gradients = node_append(b.ctx, &node)
    for i in range(3):        # q, k and v
        source = t.src[i]
        if b.needs(source):
            b.add(source, view_floats(b.ctx, all_gradients, offset[i], source.ne[0], source.ne[1], source.ne[2],
                                      source.ne[3]))
    if b.needs(mask):
        unreduced = view_floats(b.ctx, all_gradients, offset[<int>GG_ATTN_MASK], k.ne[1], q.ne[1], q.ne[2], q.ne[3])
        b.add(mask, mask_gradient(b.ctx, unreduced, mask))
    if b.needs(sinks):
        unreduced = view_floats(b.ctx, all_gradients, offset[<int>GG_ATTN_SINKS], 1, q.ne[1], q.ne[2], q.ne[3])
        b.add(sinks, sinks_gradient(b.ctx, unreduced, sinks))
    return 0

# ---- FLASH_ATTN_BACK -------------------------------------------------------------------------------------------------
def ggml_flash_attn_back(ctx, q, k, v, d, masked):
    """Computes the gradients of soft_max(k^T q / sqrt(head_dim)) v with respect to q, k and v.

    Attention is causal or without a mask. The operation has no gradient of its own. ggml_build_backward_expand
    differentiates ggml_flash_attn_ext without this function.

    Args:
        ctx: context that receives the result.
        q: queries, f32, f16 or bf16, [head_dim, n_q, n_heads, batch].
        k: keys, f32, f16 or bf16, [head_dim, n_kv, n_kv_heads, kv_batch]; n_heads and batch are multiples of
            n_kv_heads and kv_batch.
        v: transposed values, f32, f16 or bf16, [n_kv, v_dim, n_kv_heads, kv_batch].
        d: gradient of the attention's result, f32, f16 or bf16, [v_dim, n_q, n_heads, batch].
        masked: True for a causal mask: query i sees the keys 0 to i + n_kv - n_q; it needs n_q <= n_kv.
    Returns:
        f32 vector: the gradients with respect to q, k and v in the shapes of these, each starting at the next
            multiple of 16 bytes.
    Raises:
        ValueError: a shape or type does not fit, or masked is True with more queries than keys.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_flash_attn_back")
    cdef ggml_tensor node
    cdef ggml_tensor *queries = arg_tensor(q, b"q")
    cdef ggml_tensor *keys = arg_tensor(k, b"k")
    cdef ggml_tensor *values = arg_tensor(v, b"v")
    cdef size_t[6] offset
    if not gg_attn_layout(queries, keys, values, GG_ATTN_WANT_Q | GG_ATTN_WANT_KV, offset):
        fail(ValueError, "the gradients are too large")
    node_init(&node, GGML_OP_FLASH_ATTN_BACK, GGML_TYPE_F32, <int64_t>(offset[<int>GG_ATTN_END] // 4), 1, 1, 1)
    attention_back_params(&node).masked = arg_bool(masked, b"masked")
    node.src[0], node.src[1], node.src[2], node.src[3] = queries, keys, values, arg_tensor(d, b"d")
    return wrap_tensor(node_append(c, &node))

# ---- PAGED_ATTN ------------------------------------------------------------------------------------------------------
def ext_paged_attention(ctx, q, k, v, table, factor, page_size, window=0, logit_softcap=0.0, sinks=None, exact=False,
                        chunked=False):
    """Computes attention of a batch of rows, each to the keys and values of its own sequence, which lie in pages.

    k and v are a pool of cells, which sequences share; a page is page_size consecutive ones. The rows of a sequence
    follow one another, the last one has its last key: so a row with `after` rows of its sequence behind it attends to
    the first keys - after keys, or to the last `window` of these. Shapes do not depend on lengths: the same graph
    computes any mixture of long prompts and single tokens. Rows that no sequence has give zeros.

    A column of the table describes a sequence: its first row, its number of rows (0: it is left out), its number of
    keys, and its pages in order. Pages that lie wholly before the window of all rows may be -1.

    There is no gradient.

    Args:
        ctx: context that receives the result.
        q: queries, f32, f16 or bf16, [head_dim, n_heads, n_rows].
        k: keys [head_dim, n_cells, n_kv_heads], f32, f16, bf16 or a quantised type; n_heads is a multiple of
            n_kv_heads.
        v: values [v_dim, n_cells, n_kv_heads], f32, f16, bf16 or a quantised type.
        table: i32 [3 + pages, sequences].
        factor: factor of the scores, usually 1 / sqrt(head_dim).
        page_size: int; cells of a page, a divisor of n_cells.
        window: int; most keys that a row attends to, 0 for all.
        logit_softcap: limit c of the scores s, which become c * tanh(s / c); 0 for none.
        sinks: f32 [n_heads]: a further score in each row, without a value; or None.
        exact: bool; True to compute each row alone, so that its bits depend on nothing but its own sequence.
        chunked: bool; True if keys are in chunks of `window`, the first from key 0 on, and a row attends to those in
            its own chunk.
    Returns:
        f32 tensor [v_dim, n_heads, n_rows].
    Raises:
        ValueError: a shape, a type or a number does not fit. When it is computed, RuntimeError: the table names a row,
            a key or a page that does not exist.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.paged_attention")
    cdef ggml_tensor node
    cdef ggml_tensor *queries = arg_tensor(q, b"q")
    cdef ggml_tensor *values = arg_tensor(v, b"v")
    node_init(&node, GGML_OP_PAGED_ATTN, GGML_TYPE_F32, values.ne[0], queries.ne[1], queries.ne[2], 1)
    cdef gg_paged_attn_params *p = paged_attn_params(&node)
    p.factor, p.logit_softcap = arg_float(factor, b"factor"), arg_float(logit_softcap, b"logit_softcap")
    p.page_size, p.window = arg_int(page_size, b"page_size"), arg_int(window, b"window")
    p.exact, p.chunked = bool(exact), bool(chunked)
    node.src[0], node.src[1], node.src[2] = queries, arg_tensor(k, b"k"), values
    node.src[3], node.src[4] = arg_tensor(table, b"table"), arg_tensor_or_null(sinks, b"sinks")
    return wrap_tensor(node_append(c, &node))

gradients[GGML_OP_FLASH_ATTN_EXT] = grad_attention
