"""Windows of images and relative positions, as the image encoder of SAM uses them."""

import numpy as np

from . import Op
from .samples import EXACT


def window_partition(a, w):
    """[1, rows, columns, channels], padded with zeros to whole windows, as [windows, w, w, channels]."""
    down, across = -a.shape[1] % w, -a.shape[2] % w
    a = np.pad(a[0], [(0, down), (0, across), (0, 0)])
    a = a.reshape(a.shape[0] // w, w, a.shape[1] // w, w, -1).swapaxes(1, 2)
    return a.reshape(-1, w, w, a.shape[-1])


def window_unpartition(a, w0, h0, w):
    """The inverse of window_partition: the windows put together and cropped to [h0, w0, channels]."""
    across, down = -(-w0 // w), -(-h0 // w)
    a = a.reshape(down, across, w, w, -1).swapaxes(1, 2).reshape(down * w, across * w, -1)
    return a[:h0, :w0]


def rel_pos(a, n, _):
    """For each pair of positions the row n - 1 + query - key of a: [queries, keys, channels]."""
    return a[0, 0, n - 1 + np.arange(n)[:, None] - np.arange(n)]


def add_rel_pos(a, pw, ph):
    """Adds to the scores of each query the terms of the keys' columns (pw) and rows (ph)."""
    n, rows, cols = a.shape[1], a.shape[2], a.shape[3]
    cube = a.reshape(n, rows, ph.shape[-1], pw.shape[-1])
    cube = cube + ph.reshape(n, rows, ph.shape[-1], 1) + pw.reshape(n, rows, 1, pw.shape[-1])
    return cube.reshape(1, n, rows, cols)


OPS = [
    Op("win_part", window_partition, (lambda r: [r(3, 7, 6), 4], lambda r: [r(5, 8, 4), 2]), types=("F32",), **EXACT),
    Op(
        "win_unpart",
        window_unpartition,
        (lambda r: [r(3, 4, 4, 4), 7, 6, 4], lambda r: [r(5, 2, 2, 8), 8, 4, 2]),
        types=("F32",),
        **EXACT,
    ),
    Op("get_rel_pos", rel_pos, (lambda r: [r(5, 7), 4, 4], lambda r: [r(33, 25), 13, 13]), **EXACT),
    Op(
        "add_rel_pos",
        add_rel_pos,
        (
            lambda r: [r(9, 12, 2), r(3, 4, 3, 2), r(3, 4, 3, 2)],
            lambda r: [r(16, 6), r(4, 2, 3), r(4, 2, 3)],
            lambda r: [r(9, 0, 2), r(3, 0, 3, 2), r(3, 0, 3, 2)],
        ),
        diff=(0, 1, 2),
        types=("F32",),
        inplace="add_rel_pos_inplace",
        strided=(),
    ),
]
