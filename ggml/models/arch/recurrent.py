"""Parts that architectures with a state of each sequence share: S sequences of T tokens each; shapes as in base.py."""

import ggml


def slices(g, x, *widths):
    """Consecutive parts of the rows of x [sum(widths), N], as views [width, N]."""
    row, parts, first = x.contents.nb[1], [], 0
    for width in widths:
        parts.append(ggml.ggml_view_2d(g.ctx, x, width, x.contents.ne[1], row, 4 * first))
        first += width
    return parts


def by_sequence(g, x):
    """x [a, b, N] as a view [a, b, T, S]."""
    sequences, nb = g.inputs.n_sequences, x.contents.nb
    tokens = g.n_tokens // sequences
    return ggml.ggml_view_4d(g.ctx, x, *x.contents.ne[:2], tokens, sequences, nb[1], nb[2], tokens * nb[2], 0)


def heads_and_state(g, i, y, heads):
    """The heads [D, heads, N] of the result of a recurrence; the states behind them are kept."""
    width, nb = y.contents.ne[0], y.contents.nb[1]
    sequences = g.inputs.n_sequences
    size = (y.contents.ne[1] - g.n_tokens) * width // sequences
    g.keep(i, ggml.ggml_view_2d(g.ctx, y, size, sequences, 4 * size, g.n_tokens * nb))
    return g.heads(ggml.ggml_view_2d(g.ctx, y, width, g.n_tokens, nb, 0), heads)
