"""Recurrent operations: state-space models, RWKV, gated linear attention, the gated delta net.

Each carries a matrix, for every head of every sequence, from token to token. The result packs what comes out for the tokens
and, behind it, the last matrices, so that the next call can go on from there: take views of it.
"""
from libc.stdint cimport int64_t

from .._core cimport (
    C as context, F, GGML_TYPE_F32, I32, P, T, cbool, draft, fail, gg_nelements, gg_set_param_f32, ggml_context as Ctx,
    ggml_tensor as Ten, put,
)
from .elementwise cimport packed
from .._graph.grad cimport Backward, gradients
from .reduce cimport summed
from .shape cimport get_rows_back, reshape, window

cdef enum:
    SSM_CONV = 76, SSM_SCAN = 77, RWKV_WKV6 = 82, GATED_LINEAR_ATTN = 83, RWKV_WKV7 = 84, GATED_DELTA_NET = 86
    RECURRENT_BACK = 137, SSM_CONV_BACK = 138

cdef extern from "runtime/recurrent_layout.h" nogil:
    enum: GG_SEQ_GRADIENT, GG_SEQ_OP
    ctypedef struct gg_seq:
        int64_t rows, n, heads, tokens, seqs, states
    gg_seq gg_seq_of(const Ten *t, int op)
    int gg_seq_operands(int op)
    int gg_seq_state_index(int op)
    int64_t gg_seq_width(const Ten *t, const gg_seq *z, int op, int i, cbool *each)
    int64_t gg_seq_elements(const Ten *t, const gg_seq *z, int op, int i)

def ggml_ssm_conv(ctx, sx, c):
    """A causal convolution of each channel (Mamba, arXiv:2312.00752): result[c, t] = sum over i of sx[t + i, c] c[i, c].

    sx [taps - 1 + tokens, channels, seqs]: the last taps - 1 elements before, then the new ones; c [taps, channels].
    Result f32 [channels, tokens, seqs]."""
    cdef Ctx *x = context(ctx, b"ggml_ssm_conv")
    cdef Ten d
    cdef Ten *a = T(sx, b"sx")
    cdef Ten *f = T(c, b"c")
    if a.ne[0] < f.ne[0] - 1:
        fail(ValueError, f"sx has rows of {a.ne[0]}, c of {f.ne[0]}: need sx.ne[0] >= c.ne[0] - 1")
    draft(&d, SSM_CONV, GGML_TYPE_F32, f.ne[1], a.ne[0] - f.ne[0] + 1, a.ne[2], 1)
    d.src[0], d.src[1] = a, f
    return P(put(x, &d))

def ggml_ssm_scan(ctx, s, x, dt, A, B, C, ids):
    """Selective scan (Mamba, arXiv:2312.00752; Mamba-2, arXiv:2405.21060): S = S exp(d A) + d x B^T, y = S C, with d = softplus(dt).

    s [state, dim, heads, states], x [dim, heads, tokens, seqs], dt [heads, tokens, seqs], A [state, heads] or [1, heads],
    B and C [state, groups, tokens, seqs], ids i32 [seqs]: which of s each sequence begins with.
    Result f32, one row: y in x's shape, then the last state of each sequence [state, dim, heads, seqs]."""
    cdef Ctx *c = context(ctx, b"ggml_ssm_scan")
    cdef Ten d
    cdef Ten *state = T(s, b"s")
    cdef Ten *y = T(x, b"x")
    draft(&d, SSM_SCAN, GGML_TYPE_F32, gg_nelements(y) + state.ne[0] * state.ne[1] * state.ne[2] * y.ne[3], 1, 1, 1)
    d.src[0], d.src[1], d.src[2], d.src[3] = state, y, T(dt, b"dt"), T(A, b"A")
    d.src[4], d.src[5], d.src[6] = T(B, b"B"), T(C, b"C"), T(ids, b"ids")
    return P(put(c, &d))

cdef void flat(Ten *d, int op, Ten *a, Ten *state) noexcept:
    """A result of [n * heads, tokens + n * seqs], a [n, heads, tokens], with its first source."""
    draft(d, op, GGML_TYPE_F32, a.ne[0] * a.ne[1], a.ne[2] + a.ne[0] * state.ne[1], 1, 1)
    d.src[0] = a

def ggml_rwkv_wkv6(ctx, k, v, r, tf, td, state):
    """RWKV-6 (arXiv:2404.05892): y = r (S + (tf k) v^T), S = td S + k v^T, one S [n, n] a head.

    k, v, r, td [n, heads, tokens], tf [n, heads], state [n * n * heads, seqs], the tokens of all sequences one after another.
    Result f32 [n * heads, tokens + n * seqs]: y, then the last states."""
    cdef Ctx *c = context(ctx, b"ggml_rwkv_wkv6")
    cdef Ten d
    cdef Ten *s = T(state, b"state")
    flat(&d, RWKV_WKV6, T(k, b"k"), s)
    d.src[1], d.src[2], d.src[3], d.src[4], d.src[5] = T(v, b"v"), T(r, b"r"), T(tf, b"tf"), T(td, b"td"), s
    return P(put(c, &d))

def ggml_gated_linear_attn(ctx, k, v, q, g, state, scale):
    """Gated linear attention (arXiv:2312.06635): S = g S + k v^T, y = scale q S, one S [n, n] a head.

    k, v, q, g [n, heads, tokens], state [n * n * heads, seqs], the tokens of all sequences one after another.
    Result f32 [n * heads, tokens + n * seqs]: y, then the last states."""
    cdef Ctx *c = context(ctx, b"ggml_gated_linear_attn")
    cdef Ten d
    cdef Ten *s = T(state, b"state")
    flat(&d, GATED_LINEAR_ATTN, T(k, b"k"), s)
    d.src[1], d.src[2], d.src[3], d.src[4] = T(v, b"v"), T(q, b"q"), T(g, b"g"), s
    gg_set_param_f32(&d, 0, F(scale, b"scale"))
    return P(put(c, &d))

def ggml_rwkv_wkv7(ctx, r, w, k, v, a, b, state):
    """RWKV-7 (arXiv:2503.14456): S = S diag(w) + (S a) b^T + v k^T, y = S r, one S [n, n] a head.

    r, w, k, v, a, b [n, heads, tokens], state [n * n * heads, seqs], the tokens of all sequences one after another.
    Result f32 [n * heads, tokens + n * seqs]: y, then the last states."""
    cdef Ctx *c = context(ctx, b"ggml_rwkv_wkv7")
    cdef Ten d
    cdef Ten *s = T(state, b"state")
    flat(&d, RWKV_WKV7, T(r, b"r"), s)
    d.src[1], d.src[2], d.src[3] = T(w, b"w"), T(k, b"k"), T(v, b"v")
    d.src[4], d.src[5], d.src[6] = T(a, b"a"), T(b, b"b"), s
    return P(put(c, &d))

def ggml_gated_delta_net(ctx, q, k, v, g, beta, state, K):
    """The gated delta rule (arXiv:2412.06464): S = S exp(g), S = S + beta (v - S k) k^T, y = S q / sqrt(n), one S [n, n] a head.

    q, k [n, heads_k, tokens, seqs], v [n, heads, tokens, seqs], g [1 or n, heads, tokens, seqs], beta [1, heads, tokens, seqs], state
    [n, n, heads, seqs]; head h has row h % heads_k of q and k. Result f32 [n * heads, tokens * seqs + n * seqs * K]: y in v's
    shape, then K states, each [n, n, heads, seqs]: the last, that one token before, ..., zeros where there are no more tokens."""
    cdef Ctx *c = context(ctx, b"ggml_gated_delta_net")
    cdef Ten d
    cdef Ten *x = T(v, b"v")
    cdef int slots = I32(K, b"K")
    cdef int64_t seqs = x.ne[3]
    if slots < 1:
        fail(ValueError, f"K is {slots}: need 1 or more")
    draft(&d, GATED_DELTA_NET, GGML_TYPE_F32, x.ne[0] * x.ne[1], x.ne[2] * seqs + x.ne[0] * seqs * slots, 1, 1)
    d.op_params[0] = slots
    d.src[0], d.src[1], d.src[2] = T(q, b"q"), T(k, b"k"), x
    d.src[3], d.src[4], d.src[5] = T(g, b"g"), T(beta, b"beta"), T(state, b"state")
    return P(put(c, &d))

# ---- gradients -------------------------------------------------------------------------------------------------------
cdef Ten *shared(Ctx *c, Ten *part, Ten *x, const gg_seq *z, int op, int i, int64_t width, bint each) except NULL:
    """The gradient by operand x from those of the heads [width, heads, tokens, seqs]: heads or sequences may share it."""
    cdef int64_t tokens = z.tokens if each else 1, groups = x.ne[1]
    if op == GATED_DELTA_NET and i < 2 and groups != z.heads:         # head h has row h % groups
        return summed(c, reshape(c, part, width, z.heads, tokens, z.seqs), width, groups, tokens, z.seqs)
    if op == SSM_SCAN and i in (4, 5) and groups != z.heads:          # neighbours share a group
        part = reshape(c, part, width, z.heads // groups, groups, tokens * z.seqs)
        part = summed(c, part, width, 1, groups, tokens * z.seqs)
    elif not each and i != gg_seq_state_index(op) and z.seqs > 1:     # weights of all sequences: tf, A
        part = summed(c, reshape(c, part, width * z.heads, z.seqs, 1, 1), width * z.heads, 1, 1, 1)
    return reshape(c, part, x.ne[0], x.ne[1], x.ne[2], x.ne[3])

cdef int grad_recurrent(Backward b, Ten *t, Ten *g) except -1:
    cdef Ctx *c = b.ctx
    cdef gg_seq z = gg_seq_of(t, t.op)
    cdef int i, op = t.op
    cdef int64_t total = 0, n, start = 0
    cdef cbool each = False
    cdef Ten d
    cdef Ten *part
    for i in range(gg_seq_operands(op)):
        b.overwritten(t, t.src[i])
        total += gg_seq_elements(t, &z, op, i)
    draft(&d, RECURRENT_BACK, GGML_TYPE_F32, total, 1, 1, 1)
    for i in range(GG_SEQ_GRADIENT):
        d.src[i] = t.src[i]
    d.src[GG_SEQ_GRADIENT] = packed(c, g)
    d.op_params[0], d.op_params[GG_SEQ_OP] = t.op_params[0], op
    cdef Ten *all = put(c, &d)
    for i in range(gg_seq_operands(op)):
        n = gg_seq_elements(t, &z, op, i)
        if b.needs(t.src[i]):
            part = window(c, all, 0, start, n)
            n = gg_seq_width(t, &z, op, i, &each)
            if op == SSM_SCAN and i == 0:                             # the states that ids name
                part = get_rows_back(c, reshape(c, part, n * z.heads, z.seqs, 1, 1), t.src[6], z.states)
                part = reshape(c, part, t.src[0].ne[0], t.src[0].ne[1], t.src[0].ne[2], t.src[0].ne[3])
            else:
                part = shared(c, part, t.src[i], &z, op, i, n, each)
            b.add(t.src[i], part)
        start += gg_seq_elements(t, &z, op, i)
    return 0

cdef int grad_ssm_conv(Backward b, Ten *t, Ten *g) except -1:
    cdef Ten d
    cdef Ten *x = t.src[0]
    cdef Ten *f = t.src[1]
    cdef int64_t n = gg_nelements(x)
    b.overwritten(t, x)
    b.overwritten(t, f)
    draft(&d, SSM_CONV_BACK, GGML_TYPE_F32, n + gg_nelements(f), 1, 1, 1)
    d.src[0], d.src[1], d.src[2] = x, f, g
    cdef Ten *both = put(b.ctx, &d)
    b.add(x, reshape(b.ctx, window(b.ctx, both, 0, 0, n), x.ne[0], x.ne[1], x.ne[2], 1))
    return b.add(f, reshape(b.ctx, window(b.ctx, both, 0, n, gg_nelements(f)), f.ne[0], f.ne[1], 1, 1))

gradients[SSM_CONV] = grad_ssm_conv
gradients[SSM_SCAN] = gradients[RWKV_WKV6] = gradients[RWKV_WKV7] = grad_recurrent
gradients[GATED_LINEAR_ATTN] = gradients[GATED_DELTA_NET] = grad_recurrent
