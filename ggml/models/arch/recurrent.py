"""Parts that architectures with a state of each sequence share: S sequences of T tokens each; shapes as in base.py."""

import ggml


def slices(g, x, *widths):
    """Consecutive parts of the rows of x [sum(widths), N], as views [width, N]."""
    row, parts, first = x.contents.nb[1], [], 0
    for width in widths:
        parts.append(ggml.ggml_view_2d(g.ctx, x, width, x.contents.ne[1], row, 4 * first))
        first += width
    return parts
