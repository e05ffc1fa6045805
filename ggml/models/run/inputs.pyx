"""The inputs of graphs that append one token to each sequence: they change with every token of a text."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint16_t

cdef enum:
    SEEN = 0
    HIDDEN = 0xFC00  # -inf as f16


cdef class Layers:
    """The inputs of the layers that attend to everything, or of those with a sliding window.

    Args:
        mask: f16 [S, 1, 1, keys] (NumPy order), contiguous.
        cells: i64 [S, 1, 1], contiguous.
        size: int; number of cells of a sequence.
        window: int; most tokens that a token sees, itself included.
    """
    cdef uint16_t[:, ::1] mask
    cdef int64_t[::1] cells
    cdef Py_ssize_t size, window

    def __init__(self, mask, cells, Py_ssize_t size, Py_ssize_t window):
        self.mask = mask.reshape(len(mask), -1).view(np.uint16)
        self.cells = cells.reshape(-1)
        self.size, self.window = size, min(size, window)

    cdef int fill(self, Py_ssize_t row, Py_ssize_t position) except -1:
        """The token at `position` is stored in cell `position` mod size, and sees the window that ends with it."""
        cdef uint16_t* mask = &self.mask[row, 0]
        cdef Py_ssize_t i, keys = self.mask.shape[1]
        cdef Py_ssize_t first = max(0, position + 1 - self.window) % self.size, last = position % self.size
        self.cells[row] = last
        for i in range(keys):  # both conditions must hold; one of them where the window goes round the end of the cells
            mask[i] = SEEN if (first <= i) + (i <= last) + (last < first) >= 2 else HIDDEN


cdef class TokenInputs:
    """Fills in the inputs of a graph that appends one token to each of S sequences.

    Args:
        ids, positions: i32 [S], contiguous.
        layers: list of Layers.
    """
    cdef int32_t[::1] ids, positions
    cdef list layers

    def __init__(self, ids, positions, list layers not None):
        self.ids, self.positions, self.layers = ids, positions, layers

    def fill(self, Py_ssize_t row, int token, Py_ssize_t start, Py_ssize_t position):
        """Appends a token.

        Args:
            row: int; which of the S sequences.
            token: int; its id.
            start: int; number of tokens before it.
            position: int; what rotary positions are computed of.
        """
        cdef Layers layers
        if not 0 <= row < self.ids.shape[0]:
            raise IndexError(f"TokenInputs: sequence {row} does not exist: need 0 to {self.ids.shape[0] - 1}")
        self.ids[row], self.positions[row] = token, position
        for layers in self.layers:
            layers.fill(row, start)
