"""Recurrent operations: state-space models, RWKV, gated linear attention and the gated delta net.

The references compute token by token in float64.
"""

import numpy as np

from . import Op


def join(y, states):
    """The results and the final states, one after the other."""
    return np.concatenate([y.ravel(), states.ravel()])


def ssm_conv(sx, c):
    taps = c.shape[-1]
    windows = np.lib.stride_tricks.sliding_window_view(sx[0], taps, -1)  # sequence, channel, token, tap
    return np.einsum("sctk,ck->stc", windows, c[0, 0])


def ssm_scan(s, x, dt, a, b, c, ids, slots=1):
    seqs, tokens, heads, _ = x.shape
    kept = np.zeros((slots, seqs, *s.shape[1:]))
    states, y = s[ids.ravel().astype(int)].copy(), np.zeros_like(x)
    dt = np.logaddexp(dt[0], 0)  # sequence, token, head
    groups = np.arange(heads) // (heads // b.shape[2])
    kept[0] = states
    for i, t in np.ndindex(seqs, tokens):
        d = dt[i, t][:, None, None]
        v = x[i, t][:, :, None] * d
        states[i] = states[i] * np.exp(d * a[0, 0][:, None]) + v * b[i, t, groups][:, None]
        y[i, t] = np.einsum("hrn,hn->hr", states[i], c[i, t, groups])
        if tokens - 1 - t < slots:
            kept[tokens - 1 - t, i] = states[i]
    return join(y, kept)


def recurrence(state, operands, step):
    """Runs step(S, vectors of a token) -> (next S, y) over all tokens, with S [heads, n, n] and y [heads, n].
    The result is [n heads, tokens + n seqs].
    """
    tokens, heads, n = operands[0].shape[1:]
    states = state.reshape(-1, heads, n, n).copy()
    y = np.zeros((tokens, heads, n))
    for t in range(tokens):
        i = t // (tokens // len(states))
        states[i], y[t] = step(states[i], *(x[0, t] for x in operands))
    return join(y, states).reshape(1, 1, -1, heads * n)


def rwkv_wkv6(k, v, r, tf, td, state):
    def step(s, k, v, r, td):
        kv = k[:, :, None] * v[:, None]
        y = np.einsum("hi,hij->hj", r, s + tf[0, 0][:, :, None] * kv)
        return s * td[:, :, None] + kv, y

    return recurrence(state, (k, v, r, td), step)


def gated_linear_attn(k, v, q, g, state, scale):
    def step(s, k, v, q, g):
        s = s * g[:, :, None] + k[:, :, None] * v[:, None]
        return s, scale * np.einsum("hi,hij->hj", q, s)

    return recurrence(state, (k, v, q, g), step)


def rwkv_wkv7(r, w, k, v, a, b, state):
    def step(s, r, w, k, v, a, b):
        sa = np.einsum("hji,hi->hj", s, a)
        s = s * w[:, None] + v[:, :, None] * k[:, None] + sa[:, :, None] * b[:, None]
        return s, np.einsum("hji,hi->hj", s, r)

    return recurrence(state, (r, w, k, v, a, b), step)


def gated_delta_net(q, k, v, g, beta, state, slots):
    seqs, tokens, heads, n = v.shape
    y, kept = np.zeros_like(v), np.zeros((slots, *state.shape))
    kept[0] = state
    at = np.arange(heads) % q.shape[2]
    for i in range(seqs):
        s = state[i].copy()
        for t in range(tokens):
            s = s * np.exp(g[i, t])[:, None]
            error = (v[i, t] - np.einsum("hji,hi->hj", s, k[i, t, at])) * beta[i, t]
            s = s + error[:, :, None] * k[i, t, at][:, None]
            y[i, t] = np.einsum("hji,hi->hj", s, q[i, t, at]) / np.sqrt(n)
            if tokens - 1 - t < slots:
                kept[tokens - 1 - t, i] = s
    return join(y, kept).reshape(1, 1, -1, heads * n)


def ssm_scan_args(r, n, rows, heads, groups, tokens, seqs, a, states):
    """A sample of ssm_scan."""
    fade = -r(a, heads, low=0.1, high=1.5)
    bc = [r(n, groups, tokens, seqs) for _ in "BC"]
    x, dt = r(rows, heads, tokens, seqs), r(heads, tokens, seqs)
    return [r(n, rows, heads, states), x, dt, fade, *bc, r.order(states, seqs)]


def state_matrix_args(r, n, heads, tokens, seqs, kinds):
    """A sample of an operation whose state is a matrix per head. Each operand is given by a letter: n normally
    distributed, f decay factors between 0 and 1, u one vector [n, heads] for all tokens. The state comes last.
    """
    make = {
        "n": lambda: r(n, heads, tokens, scale=0.5),
        "f": lambda: r(n, heads, tokens, low=0.3, high=1),
        "u": lambda: r(n, heads),
    }
    return [*(make[kind]() for kind in kinds), r(n * n * heads, seqs)]


def delta_net_args(r, n, heads_k, heads, tokens, seqs, gates, slots):
    """A sample of gated_delta_net; `gates` is 1 (one gate per head) or n (one per element of a key)."""
    q, k = (r(n, heads_k, tokens, seqs, scale=0.4) for _ in "qk")
    g, beta = -r(gates, heads, tokens, seqs, low=0.0, high=1), r(1, heads, tokens, seqs, low=0.1, high=1)
    return [q, k, r(n, heads, tokens, seqs), g, beta, r(n, n, heads, seqs), slots]


COMMON = {"types": ("F32",), "tol": 1e-5, "grad_tol": 1e-3}


def state_matrix_row(name, ref, kinds, *rest):
    """A row of such an operation; `rest` follows the operands."""
    sizes = ((3, 2, 4, 2), (5, 1, 3, 1), (16, 3, 12, 3), (67, 2, 9, 1), (3, 2, 0, 2))
    n = len(kinds)
    return Op(
        name,
        ref,
        tuple(lambda r, z=z: [*state_matrix_args(r, *z, kinds), *rest] for z in sizes),
        diff=tuple(range(n + 1)),
        strided=tuple(range(n)),
        bad=(
            (lambda r: [*state_matrix_args(r, 3, 2, 5, 2, kinds), *rest], ValueError, "multiple of the sequences"),
            (
                lambda r: [*state_matrix_args(r, 3, 2, 4, 2, kinds)[:-1], r(17, 2), *rest],
                ValueError,
                "state is f32 [17, 2]",
            ),
        ),
        **COMMON,
    )


OPS = [
    Op(
        "ssm_conv",
        ssm_conv,
        (
            lambda r: [r(6, 3, 2), r(3, 3)],
            lambda r: [r(4, 5), r(4, 5)],
            lambda r: [r(12, 33, 3), r(4, 33)],
            lambda r: [r(600, 5), r(2, 5)],
        ),
        diff=(0, 1),
        bad=(
            (lambda r: [r(6, 3), r(3, 4)], ValueError, "need as many channels"),
            (lambda r: [r(2, 3), r(4, 3)], ValueError, "c.ne[0] - 1"),
        ),
        **COMMON,
    ),
    Op(
        "ssm_scan",
        ssm_scan,
        (
            lambda r: ssm_scan_args(r, 3, 2, 2, 1, 3, 2, 1, 3),
            lambda r: ssm_scan_args(r, 3, 1, 4, 2, 3, 1, 3, 1),
            lambda r: ssm_scan_args(r, 16, 8, 4, 2, 9, 2, 1, 2),
            lambda r: ssm_scan_args(r, 67, 5, 2, 2, 5, 2, 67, 4),
            lambda r: ssm_scan_args(r, 80, 6, 2, 1, 37, 2, 1, 2),
            lambda r: ssm_scan_args(r, 5, 1, 38, 2, 3, 2, 5, 2),
            lambda r: ssm_scan_args(r, 19, 1, 38, 1, 3, 2, 19, 2),
            lambda r: ssm_scan_args(r, 3, 2, 2, 1, 0, 2, 1, 3),
            lambda r: [*ssm_scan_args(r, 3, 2, 2, 1, 4, 2, 1, 3), 3],
            lambda r: [*ssm_scan_args(r, 3, 1, 2, 2, 2, 2, 3, 2), 4],
            lambda r: [*ssm_scan_args(r, 16, 1, 32, 2, 2, 2, 1, 2), 4],
        ),
        diff=(0, 1, 2, 3, 4, 5),
        strided=(1, 2, 3, 4, 5),
        bad=(
            (
                lambda r: [
                    *ssm_scan_args(r, 3, 2, 2, 1, 3, 2, 1, 3)[:3],
                    r(2, 2),
                    *ssm_scan_args(r, 3, 2, 2, 1, 3, 2, 1, 3)[4:],
                ],
                ValueError,
                "A is",
            ),
            (lambda r: [*ssm_scan_args(r, 3, 2, 2, 1, 3, 2, 1, 3), 0], ValueError, "K is 0: need 1 or more"),
        ),
        **COMMON,
    ),
    state_matrix_row("rwkv_wkv6", rwkv_wkv6, "nnnuf"),
    state_matrix_row("gated_linear_attn", gated_linear_attn, "nnnf", 0.25),
    state_matrix_row("rwkv_wkv7", rwkv_wkv7, "nfnnnn"),
    Op(
        "gated_delta_net",
        gated_delta_net,
        (
            lambda r: delta_net_args(r, 3, 2, 2, 3, 2, 1, 1),
            lambda r: delta_net_args(r, 3, 1, 2, 3, 1, 3, 2),
            lambda r: delta_net_args(r, 4, 2, 4, 2, 2, 1, 3),
            lambda r: delta_net_args(r, 16, 2, 4, 9, 2, 16, 4),
            lambda r: delta_net_args(r, 67, 1, 2, 5, 1, 1, 1),
            lambda r: delta_net_args(r, 3, 1, 2, 0, 2, 3, 2),
        ),
        diff=(0, 1, 2, 3, 4, 5),
        strided=(0, 1, 2, 3, 4),
        bad=(
            (lambda r: delta_net_args(r, 3, 2, 2, 3, 2, 1, 0), ValueError, "K is 0"),
            (lambda r: delta_net_args(r, 3, 2, 3, 3, 2, 1, 1), ValueError, "multiple of q's"),
        ),
        **COMMON,
    ),
]
