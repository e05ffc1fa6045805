"""Recurrent operations: state-space models, RWKV, gated linear attention, the gated delta net.

Each carries a matrix, for every head of every sequence, from token to token. The result packs what comes out for the tokens
and, behind it, the last matrices, so that the next call can go on from there: take views of it.
"""
from libc.stdint cimport int64_t

from ._core cimport C, F, GGML_TYPE_F32, I, I32, P, T, draft, fail, gg_nelements, gg_set_param_f32, ggml_context as Ctx, ggml_tensor as Ten, put

cdef enum:
    SSM_CONV = 76, SSM_SCAN = 77, RWKV_WKV6 = 82, GATED_LINEAR_ATTN = 83, RWKV_WKV7 = 84, GATED_DELTA_NET = 86

cdef int sources(Ten *d, tuple tensors, tuple names) except -1:
    cdef int i
    for i in range(len(tensors)):
        d.src[i] = T(tensors[i], <bytes>names[i])
    return 0

def ggml_ssm_conv(ctx, sx, c):
    """A causal convolution of each channel: result[c, t] = sum over i of sx[t + i, c] c[i, c].

    sx [taps - 1 + tokens, channels, sequences] (the last taps - 1 elements before, then the new ones), c [taps, channels]: f32 [channels,
    tokens, sequences]. Mamba: arXiv:2312.00752."""
    cdef Ctx *x = C(ctx, b"ggml_ssm_conv")
    cdef Ten d
    cdef Ten *a = T(sx, b"sx")
    cdef Ten *f = T(c, b"c")
    if a.ne[0] < f.ne[0] - 1:
        fail(ValueError, f"sx has rows of {a.ne[0]}, c of {f.ne[0]}: need sx.ne[0] >= c.ne[0] - 1")
    draft(&d, SSM_CONV, GGML_TYPE_F32, f.ne[1], a.ne[0] - f.ne[0] + 1, a.ne[2], 1)
    d.src[0], d.src[1] = a, f
    return P(put(x, &d))

def ggml_ssm_scan(ctx, s, x, dt, A, B, C, ids):
    """Selective scan (Mamba, arXiv:2312.00752, and Mamba-2, arXiv:2405.21060): S = S exp(dt A) + dt x B^T, y = S C, dt = softplus(dt).

    s [state, dim, heads, states], x [dim, heads, tokens, seqs], dt [heads, tokens, seqs], A [state, heads] or [1, heads], B and C [state,
    groups, tokens, seqs], ids i32 [seqs]: the first state of each sequence. Packs y in x's shape, then the last states of the sequences."""
    cdef Ctx *c = context(ctx, b"ggml_ssm_scan")
    cdef Ten d
    sources(&d_of(&d)[0], (s, x, dt, A, B, C, ids), (b"s", b"x", b"dt", b"A", b"B", b"C", b"ids"))
    return P(put(c, &d))
