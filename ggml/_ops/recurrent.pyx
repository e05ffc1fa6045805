"""Recurrent operations: state-space models, RWKV, gated linear attention, the gated delta net.

Each updates a state matrix for every head of every sequence from token to token. The result holds the outputs of all
tokens and, after them, the last states, from which the next call continues; views of it give access to both parts.
"""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_float, arg_int32, arg_tensor, cbool, fail, gg_nelements, ggml_context,
    ggml_tensor, node_append, node_init, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_GATED_DELTA_NET, GGML_OP_GATED_LINEAR_ATTN, GGML_OP_RECURRENT_BACK, GGML_OP_RWKV_WKV6, GGML_OP_RWKV_WKV7,
    GGML_OP_SSM_CONV, GGML_OP_SSM_CONV_BACK, GGML_OP_SSM_SCAN, GGML_TYPE_F32,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport gg_recurrent_back_params, linear_attention_params, recurrent_back_params, recurrent_params
from .index cimport get_rows_back
from .reduce cimport sum_to_sizes
from .shape cimport contiguous, reshape, view_slice

cdef extern from "runtime/recurrent_layout.h" nogil:
    enum: GG_SEQ_GRADIENT
    ctypedef struct gg_seq:
        int64_t heads, tokens, seqs, states
    gg_seq gg_seq_of(const ggml_tensor *t, int op)
    int gg_seq_operands(int op)
    int gg_seq_state_index(int op)
    int64_t gg_seq_width(const ggml_tensor *t, const gg_seq *z, int op, int i, cbool *each)
    int64_t gg_seq_elements(const ggml_tensor *t, const gg_seq *z, int op, int i)
    int64_t gg_ssm_scan_elements(const ggml_tensor *s, const ggml_tensor *x, int64_t slots)
    int64_t gg_delta_net_rows(const ggml_tensor *v, int64_t slots)
cdef extern from "runtime/engine.h" nogil:
    int64_t gg_count(int64_t a, int64_t b)
    int64_t gg_sum(int64_t a, int64_t b)

# ---- SSM_CONV --------------------------------------------------------------------------------------------------------
def ggml_ssm_conv(ctx, sx, c):
    """Computes the causal convolution of Mamba (arXiv:2312.00752) for each channel of each sequence.

    result[ch, t, n] = sum over i of sx[t + i, ch, n] * c[i, ch]. The gradient flows to sx and c.

    Args:
        ctx: context that receives the result.
        sx: f32 [n_taps - 1 + n_tokens, channels, n_seqs]: each row starts with the n_taps - 1 elements before the
            new ones.
        c: f32 weights [n_taps, channels].
    Returns:
        f32 tensor [channels, n_tokens, n_seqs].
    Raises:
        ValueError: sx has shorter rows than n_taps - 1, the channels differ, or a type is not f32.
        MemoryError: the context is full.
    """
    cdef ggml_context *context = arg_context(ctx, b"ggml_ssm_conv")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(sx, b"sx")
    cdef ggml_tensor *weights = arg_tensor(c, b"c")
    if x.ne[0] < weights.ne[0] - 1:
        fail(ValueError, f"sx has rows of {x.ne[0]}, c of {weights.ne[0]}: need sx.ne[0] >= c.ne[0] - 1")
    node_init(&node, GGML_OP_SSM_CONV, GGML_TYPE_F32, weights.ne[1], x.ne[0] - weights.ne[0] + 1, x.ne[2], 1)
    node.src[0], node.src[1] = x, weights
    return wrap_tensor(node_append(context, &node))

cdef int grad_ssm_conv(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[ch, i] = sum over k of x[i + k, ch] w[k, ch]: one node computes dx and dw, dx first.

    dx[i, ch] = sum over k of g[ch, i - k] w[k, ch], dw[k, ch] = sum over i and the sequences of g[ch, i] x[i + k, ch].
    """
    cdef ggml_tensor node
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *w = t.src[1]
    cdef ggml_tensor *both
    cdef int64_t n_x = gg_nelements(x), n_w = gg_nelements(w)
    b.require_not_overwritten(t, x)
    b.require_not_overwritten(t, w)
    node_init(&node, GGML_OP_SSM_CONV_BACK, GGML_TYPE_F32, n_x + n_w, 1, 1, 1)
    node.src[0], node.src[1], node.src[2] = x, w, g
    both = node_append(b.ctx, &node)
    b.add(x, reshape(b.ctx, view_slice(b.ctx, both, 0, 0, n_x), x.ne[0], x.ne[1], x.ne[2], 1))
    return b.add(w, reshape(b.ctx, view_slice(b.ctx, both, 0, n_x, n_w), w.ne[0], w.ne[1], 1, 1))

# ---- scans -----------------------------------------------------------------------------------------------------------
def ggml_ssm_scan(ctx, s, x, dt, A, B, C, ids, K=1):
    """Computes the selective scan of Mamba (arXiv:2312.00752) and Mamba-2 (arXiv:2405.21060).

    For each token, with the head's state S and d = softplus(dt): S = S * exp(d A) + (d x) B^T, y = S C. Consecutive
    heads share a group of B and C. An index in ids outside the states makes the compute fail. The gradient flows
    to s, x, dt, A, B and C.

    Args:
        ctx: context that receives the result.
        s: initial states, contiguous f32 [d_state, dim, n_heads, n_states].
        x: inputs, f32 [dim, n_heads, n_tokens, n_seqs].
        dt: steps before softplus, f32 [n_heads, n_tokens, n_seqs].
        A: decay rates, f32 [d_state, n_heads] or [1, n_heads].
        B: input projections, f32 [d_state, n_groups, n_tokens, n_seqs]; n_heads is a multiple of n_groups.
        C: output projections, f32 in the shape of B.
        ids: i32 [n_seqs], the initial state of each sequence.
        K: number of states to return, 1 or more: those after the last K tokens.
    Returns:
        f32 vector: y in the shape of x, then K times states [d_state, dim, n_heads, n_seqs], the final ones first.
            With fewer than K tokens the rest is 0.
    Raises:
        ValueError: a shape or type does not fit, s is not contiguous, or K is less than 1.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_ssm_scan")
    cdef ggml_tensor node
    cdef ggml_tensor *states = arg_tensor(s, b"s")
    cdef ggml_tensor *inputs = arg_tensor(x, b"x")
    cdef int64_t n_states = arg_int32(K, b"K")
    if n_states < 1:
        fail(ValueError, f"K is {n_states}: need 1 or more")
    node_init(&node, GGML_OP_SSM_SCAN, GGML_TYPE_F32, gg_ssm_scan_elements(states, inputs, n_states), 1, 1, 1)
    recurrent_params(&node).n_states = <int>n_states
    node.src[0], node.src[1], node.src[2], node.src[3] = states, inputs, arg_tensor(dt, b"dt"), arg_tensor(A, b"A")
    node.src[4], node.src[5], node.src[6] = arg_tensor(B, b"B"), arg_tensor(C, b"C"), arg_tensor(ids, b"ids")
    return wrap_tensor(node_append(c, &node))

cdef void init_token_rows(ggml_tensor *node, int op, ggml_tensor *a, ggml_tensor *state) noexcept:
    """Initialises a node with the result [n * heads, tokens + n * seqs] and the first source a, [n, heads, tokens]."""
    cdef int64_t rows = gg_sum(a.ne[2], gg_count(a.ne[0], state.ne[1]))
    node_init(node, op, GGML_TYPE_F32, gg_count(a.ne[0], a.ne[1]), rows, 1, 1)
    node.src[0] = a

def ggml_rwkv_wkv6(ctx, k, v, r, tf, td, state):
    """Computes the recurrence of RWKV-6 (arXiv:2404.05892) for each head.

    For each token, with a state S [n, n] per head: y = (S + (tf * k) v^T)^T r, then S = diag(td) S + k v^T. The
    tokens of all sequences follow one another. The gradient flows to all operands.

    Args:
        ctx: context that receives the result.
        k: keys, f32 [n, n_heads, n_tokens].
        v: values, f32 in the shape of k.
        r: receptances, f32 in the shape of k.
        tf: bonus of the current token, f32 [n, n_heads].
        td: decays, f32 in the shape of k.
        state: initial states, contiguous f32 [n * n * n_heads, n_seqs], within a head S[i, j] at i * n + j (i of k,
            j of v); n_tokens is a multiple of n_seqs.
    Returns:
        f32 tensor [n * n_heads, n_tokens + n * n_seqs]: a row y for each token, then the final states.
    Raises:
        ValueError: a shape or type does not fit, or state is not contiguous.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_rwkv_wkv6")
    cdef ggml_tensor node
    cdef ggml_tensor *s = arg_tensor(state, b"state")
    init_token_rows(&node, GGML_OP_RWKV_WKV6, arg_tensor(k, b"k"), s)
    node.src[1], node.src[2] = arg_tensor(v, b"v"), arg_tensor(r, b"r")
    node.src[3], node.src[4], node.src[5] = arg_tensor(tf, b"tf"), arg_tensor(td, b"td"), s
    return wrap_tensor(node_append(c, &node))

def ggml_rwkv_wkv7(ctx, r, w, k, v, a, b, state):
    """Computes the recurrence of RWKV-7 (arXiv:2503.14456) for each head.

    For each token, with a state S [n, n] per head: S = S diag(w) + (S a) b^T + v k^T, where S on the right is the
    previous state, then y = S r. The tokens of all sequences follow one another. The gradient flows to all
    operands.

    Args:
        ctx: context that receives the result.
        r: receptances, f32 [n, n_heads, n_tokens].
        w: decays, f32 in the shape of r.
        k: keys, f32 in the shape of r.
        v: values, f32 in the shape of r.
        a: vector that the state is multiplied by, f32 in the shape of r.
        b: vector of the update's rows, f32 in the shape of r.
        state: initial states, contiguous f32 [n * n * n_heads, n_seqs], within a head S[i, j] at i * n + j (i of v,
            j of k); n_tokens is a multiple of n_seqs.
    Returns:
        f32 tensor [n * n_heads, n_tokens + n * n_seqs]: a row y for each token, then the final states.
    Raises:
        ValueError: a shape or type does not fit, or state is not contiguous.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_rwkv_wkv7")
    cdef ggml_tensor node
    cdef ggml_tensor *s = arg_tensor(state, b"state")
    init_token_rows(&node, GGML_OP_RWKV_WKV7, arg_tensor(r, b"r"), s)
    node.src[1], node.src[2], node.src[3] = arg_tensor(w, b"w"), arg_tensor(k, b"k"), arg_tensor(v, b"v")
    node.src[4], node.src[5], node.src[6] = arg_tensor(a, b"a"), arg_tensor(b, b"b"), s
    return wrap_tensor(node_append(c, &node))

def ggml_gated_linear_attn(ctx, k, v, q, g, state, scale):
    """Computes gated linear attention (arXiv:2312.06635) as a recurrence for each head.

    For each token, with a state S [n, n] per head: S = diag(g) S + k v^T, then y = scale * S^T q. The tokens of all
    sequences follow one another. The gradient flows to k, v, q, g and state.

    Args:
        ctx: context that receives the result.
        k: keys, f32 [n, n_heads, n_tokens].
        v: values, f32 in the shape of k.
        q: queries, f32 in the shape of k.
        g: gates, the factors of the state, f32 in the shape of k.
        state: initial states, contiguous f32 [n * n * n_heads, n_seqs], within a head S[i, j] at i * n + j (i of k,
            j of v); n_tokens is a multiple of n_seqs.
        scale: factor of the result, usually 1 / sqrt(n).
    Returns:
        f32 tensor [n * n_heads, n_tokens + n * n_seqs]: a row y for each token, then the final states.
    Raises:
        ValueError: a shape or type does not fit, or state is not contiguous.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gated_linear_attn")
    cdef ggml_tensor node
    cdef ggml_tensor *s = arg_tensor(state, b"state")
    init_token_rows(&node, GGML_OP_GATED_LINEAR_ATTN, arg_tensor(k, b"k"), s)
    node.src[1], node.src[2] = arg_tensor(v, b"v"), arg_tensor(q, b"q")
    node.src[3], node.src[4] = arg_tensor(g, b"g"), s
    linear_attention_params(&node).scale = arg_float(scale, b"scale")
    return wrap_tensor(node_append(c, &node))

def ggml_gated_delta_net(ctx, q, k, v, g, beta, state, K):
    """Computes the gated delta rule (Gated DeltaNet, arXiv:2412.06464) for each head.

    For each token, with a state S [n, n] per head: S = S * exp(g), S = S + beta * (v - S k) k^T, y = S q / sqrt(n).
    Head h of v uses head h mod n_heads_k of q and k. The gradient flows to q, k, v, g, beta and state.

    Args:
        ctx: context that receives the result.
        q: queries, f32 [n, n_heads_k, n_tokens, n_seqs].
        k: keys, f32 in the shape of q.
        v: values, f32 [n, n_heads, n_tokens, n_seqs]; n_heads is a multiple of n_heads_k.
        g: logarithms of the decay, f32 [1, n_heads, n_tokens, n_seqs], or with n instead of 1 for one per element
            of k.
        beta: strengths of the update, f32 [1, n_heads, n_tokens, n_seqs].
        state: initial states, contiguous f32 [n, n, n_heads, n_seqs]; dimension 0 belongs to k, dimension 1 to v.
        K: number of states to return, 1 or more.
    Returns:
        f32 tensor [n * n_heads, n_tokens * n_seqs + n * n_seqs * K]: y in the shape of v, then K states, each
            [n, n, n_heads, n_seqs]: the one after the last token, the one before it, and so on; zeros where there
            are no more tokens.
    Raises:
        ValueError: a shape or type does not fit, state is not contiguous, or K is less than 1.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gated_delta_net")
    cdef ggml_tensor node
    cdef ggml_tensor *values = arg_tensor(v, b"v")
    cdef int n_states = arg_int32(K, b"K")
    if n_states < 1:
        fail(ValueError, f"K is {n_states}: need 1 or more")
    node_init(&node, GGML_OP_GATED_DELTA_NET, GGML_TYPE_F32, gg_count(values.ne[0], values.ne[1]),
              gg_delta_net_rows(values, n_states), 1, 1)
    recurrent_params(&node).n_states = n_states
    node.src[0], node.src[1], node.src[2] = arg_tensor(q, b"q"), arg_tensor(k, b"k"), values
    node.src[3], node.src[4], node.src[5] = arg_tensor(g, b"g"), arg_tensor(beta, b"beta"), arg_tensor(state, b"state")
    return wrap_tensor(node_append(c, &node))

# ---- gradients of scans ----------------------------------------------------------------------------------------------
cdef ggml_tensor *operand_gradient(ggml_context *ctx, ggml_tensor *t, int i, const gg_seq *z,
                                   ggml_tensor *head_gradients) except NULL:
    """The gradient with respect to operand i of a scan t: head_gradients, summed where heads or sequences share it.

    head_gradients is [width, heads, tokens, seqs], or without the tokens for operands that have none.
    """
    cdef ggml_tensor *x = t.src[i]
    cdef ggml_tensor *sum = head_gradients
    cdef cbool each_token = False
    cdef int64_t width = gg_seq_width(t, z, t.op, i, &each_token), tokens = z.tokens if each_token else 1
    cdef int64_t groups = x.ne[1]
    if t.op == GGML_OP_SSM_SCAN and i == 0:                                 # the states that ids selects
        sum = get_rows_back(ctx, reshape(ctx, sum, width * z.heads, z.seqs, 1, 1), t.src[6], z.states)
    elif t.op == GGML_OP_GATED_DELTA_NET and i < 2 and groups != z.heads:   # head h uses head h mod groups of q and k
        sum = reshape(ctx, sum, width, z.heads, tokens, z.seqs)
        return sum_to_sizes(ctx, sum, width, groups, tokens, z.seqs)
    elif t.op == GGML_OP_SSM_SCAN and i in (4, 5) and groups != z.heads:    # consecutive heads share a group of B and C
        sum = reshape(ctx, sum, width, z.heads // groups, groups, tokens * z.seqs)
        sum = sum_to_sizes(ctx, sum, width, 1, groups, tokens * z.seqs)
    elif not each_token and i != gg_seq_state_index(t.op) and z.seqs > 1:   # tf, A: weights of all sequences
        sum = reshape(ctx, sum, width * z.heads, z.seqs, 1, 1)
        sum = sum_to_sizes(ctx, sum, width * z.heads, 1, 1, 1)
    return reshape(ctx, sum, x.ne[0], x.ne[1], x.ne[2], x.ne[3])

cdef int grad_recurrent(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """The recurrence y_t = f(S_t), S_t = h(S_(t-1), operands) differentiated from the last token to the first.

    One node RECURRENT_BACK computes dS_(t-1) = dS_t dh/dS + dy_t dy/dS and from these the gradients with respect to
    all operands. Its result holds them one after the other, separately for each head and sequence.
    """
    cdef ggml_context *c = b.ctx
    cdef gg_seq z = gg_seq_of(t, t.op)
    cdef int i
    cdef int64_t total = 0, start = 0, n
    cdef ggml_tensor node
    cdef gg_recurrent_back_params *q = recurrent_back_params(&node)
    cdef ggml_tensor *all_gradients
    for i in range(gg_seq_operands(t.op)):
        b.require_not_overwritten(t, t.src[i])
        total = gg_sum(total, gg_seq_elements(t, &z, t.op, i))
    node_init(&node, GGML_OP_RECURRENT_BACK, GGML_TYPE_F32, total, 1, 1, 1)
    for i in range(GG_SEQ_GRADIENT):
        node.src[i] = t.src[i]
    node.src[<int>GG_SEQ_GRADIENT] = contiguous(c, g)
    q.op = t.op
    if t.op == GGML_OP_GATED_LINEAR_ATTN:
        q.scale = linear_attention_params(t).scale
    elif t.op in (GGML_OP_SSM_SCAN, GGML_OP_GATED_DELTA_NET):
        q.n_states = recurrent_params(t).n_states
    all_gradients = node_append(c, &node)
    for i in range(gg_seq_operands(t.op)):
        n = gg_seq_elements(t, &z, t.op, i)
        if b.needs(t.src[i]):
            b.add(t.src[i], operand_gradient(c, t, i, &z, view_slice(c, all_gradients, 0, start, n)))
        start += n
    return 0

gradients[GGML_OP_SSM_CONV] = grad_ssm_conv
gradients[GGML_OP_SSM_SCAN] = gradients[GGML_OP_RWKV_WKV6] = gradients[GGML_OP_RWKV_WKV7] = grad_recurrent
gradients[GGML_OP_GATED_LINEAR_ATTN] = gradients[GGML_OP_GATED_DELTA_NET] = grad_recurrent
