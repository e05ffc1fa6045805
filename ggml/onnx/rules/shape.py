"""Shapes, and moving whole parts of tensors."""

import numpy as np

from ..graph import numpy_type
from ..recording import ggml
from ..values import F32, I64, Known, OnHost, Tensor, broadcast, count, place_of
from . import rule


def parameter(b, node, name, operand, default=None):
    """A list that older operator sets give as an attribute and newer ones as an operand."""
    return b.ints(operand) if operand is not None else node.attr(name, default)


@rule("ggml.Dims")
def entries(b, node, *values):
    """Entries of the shapes of values (place among the values, axis), and other numbers."""
    shapes, spec = [v.shape for v in values], node.attr("spec")
    if any(not isinstance(e, int) and not -len(shapes[e[0]]) <= e[1] < len(shapes[e[0]]) for e in spec):
        raise OnHost("a shape of fewer entries")
    found = [e if isinstance(e, int) else shapes[e[0]][e[1]] for e in spec]
    return b.constant(found if node.attr("vector") else found[0], I64)


rule("Shape")(lambda b, node, x: b.constant(list(x.shape[node.attr("start", 0) : node.attr("end")]), I64))
rule("Size")(lambda b, node, x: b.constant(count(x.shape), I64))


@rule("ConstantOfShape")
def constant_of_shape(b, node, dims):
    if len(dims.shape) != 1:
        raise ValueError(f"the operand has the shape {list(dims.shape)}: need the sizes of a shape, in one dimension")
    value = node.attr("value")
    value = np.zeros(1, np.float32) if value is None else value
    return Known(np.full(b.ints(dims), value.reshape(-1)[0], value.dtype))


@rule("Range")
def arange(b, node, start, limit, delta):
    a, z, d = (b.known(v).reshape(()) for v in (start, limit, delta))
    n = max(int(np.ceil((z - a) / d)), 0)
    return Known((a + np.arange(n) * d).astype(start.dtype))


rule("EyeLike")(
    lambda b, node, x: Known(
        np.eye(x.shape[0], x.shape[1], node.attr("k", 0)).astype(
            numpy_type(node.attr("dtype"), str(node)) if node.attr("dtype") else x.dtype
        )
    )
)


@rule("Reshape")
def reshape(b, node, x, dims=None):
    dims = parameter(b, node, "shape", dims)
    if not node.attr("allowzero", 0):
        if any(d == 0 and i >= len(x.shape) for i, d in enumerate(dims)):
            raise ValueError(f"0 in {dims} copies a dimension that {list(x.shape)} does not have")
        dims = [x.shape[i] if d == 0 else d for i, d in enumerate(dims)]
    if -1 in dims:
        rest = count(d for d in dims if d != -1)
        dims = [(count(x.shape) // rest if rest else 0) if d == -1 else d for d in dims]
    if count(dims) != count(x.shape) or min(dims, default=0) < 0:
        raise ValueError(f"{list(x.shape)} cannot become {dims}")
    return b.reshape(x, dims)


@rule("Flatten")
def flatten(b, node, x):
    axis, rank = node.attr("axis", 1), len(x.shape)
    axis = axis if axis == rank else place_of(axis, rank)  # also behind the last one
    return b.reshape(x, (count(x.shape[:axis]), count(x.shape[axis:])))


@rule("Squeeze")
def squeeze(b, node, x, axes=None):
    axes, rank = parameter(b, node, "axes", axes), len(x.shape)
    drop = {place_of(a, rank) for a in axes} if axes is not None else {i for i, d in enumerate(x.shape) if d == 1}
    return b.reshape(x, [d for i, d in enumerate(x.shape) if i not in drop])


@rule("Unsqueeze")
def unsqueeze(b, node, x, axes=None):
    axes = parameter(b, node, "axes", axes)
    rank = len(x.shape) + len(axes)
    new, old = {place_of(a, rank) for a in axes}, iter(x.shape)
    return b.reshape(x, [1 if i in new else next(old) for i in range(rank)])


rule("Transpose")(lambda b, node, x: b.transpose(x, node.attr("perm") or range(len(x.shape))[::-1]))


@rule("Expand")
def expand(b, node, x, dims):
    return b.expand(x, broadcast(x.shape, tuple(b.ints(dims))))


@rule("Tile")
def tile(b, node, x, repeats):
    repeats = b.ints(repeats)
    doubled = [d for n in x.shape for d in (1, n)]
    wide = [d for r, n in zip(repeats, x.shape) for d in (r, n)]
    return b.reshape(b.expand(b.reshape(x, doubled), wide), [r * n for r, n in zip(repeats, x.shape)])


rule("Concat")(lambda b, node, *values: b.concat(values, node.attr("axis", 1)))


@rule("Split")
def split(b, node, x, parts=None):
    axis = node.attr("axis", 0) % len(x.shape)
    n, parts = len(node.outputs), parameter(b, node, "split", parts)
    if parts is None:
        step = -(-x.shape[axis] // n)
        parts = [min(step, x.shape[axis] - i * step) for i in range(n)]
    if sum(parts) != x.shape[axis] or min(parts) < 0:
        raise ValueError(f"parts of {list(parts)} of an axis of {x.shape[axis]}")
    return tuple(b.split(x, axis, parts))


@rule("Slice")
def slices(b, node, x, starts=None, ends=None, axes=None, steps=None):
    starts, ends = parameter(b, node, "starts", starts), parameter(b, node, "ends", ends)
    axes = parameter(b, node, "axes", axes, range(len(starts)))
    for start, end, axis, step in zip(starts, ends, axes, b.ints(steps, [1] * len(starts))):
        axis = place_of(axis, len(x.shape))
        first, n = chosen(x.shape[axis], start, end, step)
        if n == 0:
            x = Known(np.empty([0 if i == axis else d for i, d in enumerate(x.shape)], x.dtype))
        else:
            x = b.slice(x, axis, first, n, step)
    return x


def chosen(size, start, end, step):
    """The first entry of an axis that a slice chooses, and their number."""
    least, most = (0, size) if step > 0 else (-1, size - 1)
    start, end = (i + size if i < 0 else i for i in (start, end))
    first, last = min(max(start, 0), most), min(max(end, least), most)
    return first, max(-((first - last) // step), 0)


@rule("Pad")
def pad(b, node, x, pads=None, value=None, axes=None):
    pads, mode, rank = parameter(b, node, "pads", pads), node.attr("mode", "constant"), len(x.shape)
    axes = [place_of(a, rank) for a in b.ints(axes, range(rank))]
    widths = [(0, 0)] * rank
    for i, a in enumerate(axes):
        widths[a] = pads[i], pads[i + len(axes)]
    fill = float(b.known(value, np.zeros(())).reshape(())) if node.version >= 11 else node.attr("value", 0.0)
    crops = {}  # axes with negative widths, which also leave out what is added at the other end: the entries that stay
    for a, (before, after) in enumerate(widths):
        if min(before, after) < 0:
            first, end = max(-before, 0), x.shape[a] + min(after, 0)
            if x.shape[a] + before + after < 0:
                raise ValueError(f"{-before - after} of {x.shape[a]} entries are left out")
            crops[a] = first, end - first
    if mode == "constant" and (0 in x.shape or any(n <= 0 for _, n in crops.values())):
        return b.full([n + sum(pair) for n, pair in zip(x.shape, widths)], fill, x.dtype)
    for a, (first, n) in crops.items():
        x = b.slice(x, a, first, n)
    if 0 in x.shape:
        raise OnHost("padding around nothing")
    widths = [(max(p, 0), max(q, 0)) for p, q in widths]
    if mode != "constant":
        return continued(b, x, widths, mode)
    if fill and x.dtype == F32:
        return continued(b, x, widths, fill)
    y = padded(b, x, widths)
    if not fill:
        return y
    outside = np.pad(np.zeros(x.shape, bool), widths, constant_values=True)
    return b.select(b.constant(~outside), y, b.full((), fill, x.dtype))


def continued(b, x, widths, mode):
    """x with further entries at the ends of its axes: as numpy.pad takes them from the others, or a number (mode)."""
    far = [a for a, pair in enumerate(widths) if mode == "reflect" and max(pair) >= x.shape[a]]
    for a in far:  # reflected several times
        x, places = b.use(x), np.pad(np.arange(x.shape[a]), widths[a], mode=mode)
        x, widths = b.gather(x, a, b.constant(places)), [*widths[:a], (0, 0), *widths[a + 1 :]]
    sizes: list = [[1, (0, 0)]]  # neighbouring axes that stay as they are are one
    for n, pair in zip(x.shape, widths):
        if any(pair) or any(sizes[-1][1]):
            sizes.append([n, pair])
        else:
            sizes[-1][0] *= n
    sizes = [[n, pair] for n, pair in sizes if n != 1 or any(pair)]
    if not any(any(pair) for _, pair in sizes):
        return x
    if len(sizes) > 4:  # one axis, then the others
        a = next(a for a, pair in enumerate(widths) if any(pair))
        first = [pair if i == a else (0, 0) for i, pair in enumerate(widths)]
        x = continued(b, x, first, mode)
        return continued(b, x, [(0, 0) if i == a else pair for i, pair in enumerate(widths)], mode)
    wide = [p + n + q for n, (p, q) in zip(x.shape, widths)]
    flat = b.contiguous(b.reshape(x, [n for n, _ in sizes]))
    sides = [n for _, pair in reversed(sizes) for n in pair] + [0] * (8 - 2 * len(sizes))
    t = (
        ggml.ggml_pad_ext_circular(b.ctx, flat.t, *sides)
        if mode == "wrap"
        else ggml.ext.pad(b.ctx, flat.t, sides, mode)
    )
    return b.reshape(b.with_shape(t, [n + p + q for n, (p, q) in sizes], x), wide)


def padded(b, x, pads):
    """x with zeros around its last axes, as one ggml node; pads: pairs of their numbers before and after."""
    while pads and not any(pads[0]):
        pads = pads[1:]
    if not pads:
        return x
    lead, wide = x.shape[: len(x.shape) - len(pads)], [p + n + q for n, (p, q) in zip(x.shape[-len(pads) :], pads)]
    head = [count(lead)] if lead else []
    if len(head) + len(pads) > 4:
        widths = [(0, 0)] * len(lead) + list(pads)
        return b.take(x, np.pad(np.arange(count(x.shape)).reshape(x.shape), widths, constant_values=-1))
    flat = b.contiguous(b.reshape(x, (*head, *x.shape[len(lead) :])))
    sides = [n for pair in reversed(pads) for n in pair]
    t = ggml.ggml_pad_ext(b.ctx, flat.t, *sides, *[0] * (8 - len(sides)))
    bounds = x.bounds and (min(x.bounds[0], 0), max(x.bounds[1], 0))
    return b.reshape(Tensor(t, (*head, *wide), x.dtype, bounds), (*lead, *wide))


@rule("Crop")
def crop(b, node, x):
    """Planes without a border (left, top, right, bottom), or a part of them of a size, from its left and top."""
    left, top, right, bottom = node.attr("border")
    size = node.attr("scale") or [n - a - z for n, a, z in zip(x.shape[2:], (top, left), (bottom, right))]
    for axis, start, n in zip((2, 3), (top, left), size):
        if not 0 <= start <= start + n <= x.shape[axis] or n < 1:
            raise ValueError(f"entries {start} to {start + n} of an axis of {x.shape[axis]}")
        x = b.slice(x, axis, start, n)
    return x


@rule("DepthToSpace", "SpaceToDepth")
def depth_to_space(b, node, x):
    (n, c, h, w), s, depth_first = x.shape, node.attr("blocksize"), node.attr("mode", "DCR") == "DCR"
    if node.op == "SpaceToDepth":
        y = b.reshape(x, (n, c, h // s, s, w // s, s))
        return b.reshape(
            b.transpose(y, (0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4)), (n, c * s * s, h // s, w // s)
        )
    c //= s * s
    y = b.reshape(x, (n, s, s, c, h, w) if depth_first else (n, c, s, s, h, w))
    return b.reshape(b.transpose(y, (0, 3, 4, 1, 5, 2) if depth_first else (0, 1, 4, 2, 5, 3)), (n, c, h * s, w * s))


@rule("Trilu")
def trilu(b, node, x, k=None):
    k = int(b.known(k, np.zeros(())).reshape(()))
    keep = (np.triu if node.attr("upper", 1) else np.tril)(np.ones(x.shape[-2:], bool), k)
    return b.select(b.constant(keep), x, b.full((), 0, x.dtype))


rule("ReverseSequence")(
    lambda b, node, x, lengths: reverse_sequence_of(
        b, x, b.ints(lengths), node.attr("batch_axis", 1), node.attr("time_axis", 0)
    )
)


def reverse_sequence_of(b, x, lengths, batch, time):
    """The first lengths[i] entries of the time axis reversed, for each i of the batch axis."""
    if all(n == x.shape[time] for n in lengths):
        return b.flip(x, time)
    place = np.moveaxis(np.arange(count(x.shape)).reshape(x.shape), (batch, time), (0, 1)).copy()
    for row, n in zip(place, lengths):
        row[:n] = row[:n][::-1].copy()
    return b.take(x, np.moveaxis(place, (0, 1), (batch, time)))
