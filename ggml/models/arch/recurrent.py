"""Parts that architectures with a state of each sequence share: S sequences of T tokens each; shapes as in base.py."""

import ggml


def slices(g, x, *parts):
    """Consecutive parts of the rows of x [.., N], as views: [width, N], or of (size, heads) [size, heads, N]."""
    n, nb, views, first = x.contents.ne[1], x.contents.nb[1], [], 0
    for part in parts:
        if isinstance(part, tuple):
            size, heads = part
            views.append(ggml.ggml_view_3d(g.ctx, x, size, heads, n, 4 * size, nb, 4 * first))
            first += size * heads
        else:
            views.append(ggml.ggml_view_2d(g.ctx, x, part, n, nb, 4 * first))
            first += part
    return views


def by_sequence(g, x):
    """x [a, b, N] as a view [a, b, T, S]."""
    sequences, nb = g.inputs.n_sequences, x.contents.nb
    (a, b, *_), tokens = x.contents.ne, g.n_tokens // sequences
    return ggml.ggml_view_4d(g.ctx, x, a, b, tokens, sequences, nb[1], nb[2], tokens * nb[2], 0)


def heads_and_state(g, i, y, heads):
    """The heads [D, heads, N] of the result of a recurrence; the states behind them are kept."""
    width, nb = y.contents.ne[0], y.contents.nb[1]
    sequences = g.inputs.n_sequences
    size = (y.contents.ne[1] - g.n_tokens) * width // sequences
    g.keep(i, ggml.ggml_view_2d(g.ctx, y, size, sequences, 4 * size, g.n_tokens * nb))
    return g.heads(ggml.ggml_view_2d(g.ctx, y, width, g.n_tokens, nb, 0), heads)
