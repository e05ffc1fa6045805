"""Transforms as products with known matrices; Einstein sums; overlapping sums."""

import numpy as np

from ..recording import ggml
from ..values import Known, count, floats
from . import rule
from .conv import places, window
from .matmul import matmul
from .pool import windows


@rule("DFT", on_floats=True)
def dft(b, node, x, length=None, axis=None):
    given = node.attr("axis", 1) if node.version < 20 else int(b.ints(axis, [-2])[0])
    axis, n = given % len(x.shape), None if length is None else int(b.ints(length)[0])
    return fourier(b, x, axis, n, node.attr("inverse", 0), node.attr("onesided", 0))


def fourier(b, x, axis, n, inverse, onesided):
    """The discrete Fourier transform of an axis; the last axis holds real and imaginary parts."""
    if inverse and onesided:
        n = n or (x.shape[axis] - 1) * 2
        have = n // 2 + 1
    else:
        n = have = n or x.shape[axis]
    k = np.arange(n // 2 + 1 if onesided and not inverse else n)
    used = min(have, x.shape[axis])
    angle = (1 if inverse else -1) * 2 * np.pi * np.outer(np.arange(used), k) / n
    weight = np.ones((used, 1))
    if inverse:
        weight /= n
        if onesided:  # the other half is the conjugate: each but the first and the middle one counts twice
            weight[1 : (n + 1) // 2] *= 2
    cos, sin = np.cos(angle) * weight, np.sin(angle) * weight
    y = b.slice(b.move(x, axis, -2), -2, 0, used)
    lead, width = y.shape[:-2], count(y.shape[-2:])
    parts = [np.stack([cos, sin], -1), np.stack([-sin, cos], -1)][: y.shape[-1]]  # of real and imaginary numbers
    matrix = b.constant(np.stack(parts, 1).reshape(width, -1).astype(np.float32))
    z = b.reshape(matmul(b, b.reshape(y, (count(lead), width)), matrix), (*lead, len(k), 2))
    if inverse and onesided:
        z = b.slice(z, -1, 0, 1)
    return b.move(z, -2, axis)


@rule("STFT", on_floats=True)
def stft(b, node, x, step, window=None, length=None):
    step = b.ints(step)[0]
    n = b.ints(length)[0] if length is not None else window.shape[0]
    frames = (x.shape[1] - n) // step + 1
    y = b.gather(x, 1, b.constant(np.arange(frames)[:, None] * step + np.arange(n)))
    y = b.reshape(y, (x.shape[0], frames, n, x.shape[2] if len(x.shape) > 2 else 1))
    if window is not None:
        y = b.mul(y, b.reshape(window, (1, 1, n, 1)))
    return fourier(b, y, 2, None, 0, node.attr("onesided", 1))


@rule("Einsum")
def einsum(b, node, *values):
    for v in values:
        floats(v)
    equation = node.attr("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        raise ValueError(f"the equation {equation!r} has {len(terms)} terms for {len(values)} operands")
    free = [chr(0x100 + i) for i in range(max(len(v.shape) for v in values))]  # labels of "..."
    full = []
    for term, v in zip(terms, values):
        missing = len(v.shape) - len(term.replace("...", ""))
        full.append(term.replace("...", "".join(free[len(free) - missing :]) if missing else ""))
    sizes = require_sizes(equation, terms, full, values)
    used = "".join(f for f in free if any(f in t for t in full))
    if arrow:
        out = right.replace("...", used)
    else:
        letters = "".join(full)
        out = used + "".join(sorted(c for c in set(letters) - set(used) if letters.count(c) == 1))
    labels, value = diagonal(b, full[0], values[0])
    for term, v in zip(full[1:], values[1:]):
        rest = out + "".join(full[full.index(term) + 1 :])
        labels, value = contract(b, (labels, value), diagonal(b, term, v), rest)
    if unknown := [c for c in out if c not in sizes or out.count(c) > 1]:
        raise ValueError(f"the equation {equation!r} gives {unknown[0]!r}, which no term has, or twice")
    gone = [i for i, c in enumerate(labels) if c not in out]
    if gone:
        value = b.reduce_sum(value, gone, False)
        labels = "".join(c for c in labels if c in out)
    return b.transpose(value, [labels.index(c) for c in out])


def require_sizes(equation, terms, full, values):
    """The size of each label, where those of all operands agree or are 1."""
    sizes: dict = {}
    for term, labels, v in zip(terms, full, values):
        if len(labels) != len(v.shape):
            raise ValueError(f"the equation {equation!r} has the term {term!r} for an operand of shape {list(v.shape)}")
        for c, n in zip(labels, v.shape):
            before = sizes.setdefault(c, n)
            if n != before and n != 1 and before != 1:
                raise ValueError(f"the equation {equation!r} has {c!r} of {before} and of {n} entries")
            sizes[c] = n if before == 1 else before
    return sizes


def diagonal(b, labels, x):
    """The diagonal over labels that appear twice."""
    for c in set(labels):
        while labels.count(c) > 1:
            i, j = labels.index(c), labels.rindex(c)
            place = np.arange(count(x.shape)).reshape(x.shape)
            x = b.take(x, np.moveaxis(np.diagonal(place, 0, i, j), -1, i))
            labels = labels[:j] + labels[j + 1 :]
    return labels, x


def contract(b, left, right, kept):
    """The product of two terms as a batched matrix product: batch labels, rows, inner labels, columns."""
    (one, x), (two, y) = left, right
    batch = [c for c in one if c in two and c in kept]
    inner = [c for c in one if c in two and c not in kept]
    rows, columns = [c for c in one if c not in two], [c for c in two if c not in one]
    sizes = dict(zip(one, x.shape))
    for c, n in zip(two, y.shape):
        sizes[c] = max(n, sizes.get(c, 1))
    shape = [[sizes[c] for c in group] for group in (batch, rows, inner, columns)]
    x = b.transpose(x, [one.index(c) for c in batch + rows + inner])
    y = b.transpose(y, [two.index(c) for c in batch + inner + columns])
    x = b.reshape(b.expand(x, shape[0] + shape[1] + shape[2]), [count(shape[i]) for i in (0, 1, 2)])
    y = b.reshape(b.expand(y, shape[0] + shape[2] + shape[3]), [count(shape[i]) for i in (0, 2, 3)])
    return "".join(batch + rows + columns), b.reshape(matmul(b, x, y), shape[0] + shape[1] + shape[3])


@rule("Col2Im")
def col2im(b, node, x, image, block):
    """Adds the columns to the places of the image that they were taken from."""
    image, block = b.ints(image), b.ints(block)
    strides, dilations, pads = window(node, image, block)
    out = places(image, block, strides, dilations, pads)
    place = windows(image, block, strides, dilations, pads, out).T  # (elements, windows), as the columns
    n, c, size = x.shape[0], x.shape[1] // count(block), count(image)
    place = np.where(place < 0, size, place).reshape(-1).astype(np.int32)  # the padding adds to a row that is cut off
    rows = b.contiguous(b.transpose(b.reshape(x, (n * c, place.size)), (1, 0)))
    blank = b.use(b.full((size + 1, n * c), 0.0))
    total = ggml.ggml_get_rows_back(b.ctx, rows.t, b.index(Known(place)), blank.t)
    y = b.slice(b.with_shape(total, (size + 1, n * c), x), 0, 0, size)
    return b.reshape(b.transpose(y, (1, 0)), (n, c, *image))
