"""MiniCPM-V (arXiv:2408.01800) up to 4.5: SigLIP on a picture and on slices of it, whose patches queries that were
learned resample to a fixed number of tokens."""

import math

import numpy as np

import ggml

from . import pixels
from .encoder import layer, linear, norm, patches

SLICES = 9  # most slices of a picture, where the file does not say
HEAD = 128  # elements of a head of the resampler
BASE = 10000.0  # of its positions
OLD = 2  # clip.minicpmv_version of 2.5, whose slices have other marks


def tiles(c, image):
    """The whole picture in about its shape, then slices of about a square, row by row, if it is large."""
    found, grid = sliced(image, c.own["image"], c.own["patch"], c.own["tiles"][1] or SLICES)
    return found, (*grid, c.own["version"])


def sliced(image, side, unit, most):
    """The whole and the slices, in multiples of `unit` pixels and of about side x side, and their columns and rows."""
    grid = arrangement(image.size, side, most)
    whole = pixels.resized(image, best_size(image.size, side, unit, grid is None), pixels.BICUBIC)
    if grid is None:
        return [whole], (0, 0)
    part = [nearest(n, count) / count for n, count in zip(image.size, grid, strict=True)]
    width, height = best_size(part, side, unit, True)
    larger = pixels.resized(image, (width * grid[0], height * grid[1]), pixels.BICUBIC)
    places = [(x * width, y * height) for y in range(grid[1]) for x in range(grid[0])]
    return [whole, *(larger.crop((x, y, x + width, y + height)) for x, y in places)], grid


def nearest(length, unit):
    """The multiple of `unit` nearest to a length, at least one."""
    return max(round(length / unit) * unit, unit)


def best_size(size, side, unit, enlarge):
    """A size with about side x side pixels, or with its own number if that is smaller and need not be enlarged."""
    width, height = size
    if enlarge or width * height > side * side:
        ratio = width / height
        height = int(side / math.sqrt(ratio))
        width = int(height * ratio)
    return nearest(width, unit), nearest(height, unit)


def arrangement(size, side, most):
    """The columns and rows of about as many slices as there are squares in a picture, nearest to its shape; or None."""
    width, height = size
    count = min(math.ceil(width * height / (side * side)), most)
    if count <= 1:
        return None
    ratio, best, difference = math.log(width / height), (1, 1), math.inf
    for slices in range(max(2, count - 1), min(count + 1, most) + 1):
        for rows in range(1, slices + 1):
            columns = slices // rows
            found = abs(ratio - math.log(columns / rows))
            if columns * rows == slices and (found < difference or (found == difference and rows > best[1])):
                best, difference = (columns, rows), found
    return best


def lookup(columns, rows, count):
    """The row of a table of `count` positions, of a square, for each patch: that at the same place of the picture.

    Places are compared as floats of 32 bits, as in the training.
    """
    side = math.isqrt(count)
    if side * side != count:
        raise ValueError(f"load: tensor 'v.position_embd.weight' has {count} rows: need a square")
    ends = np.arange(1 / side, 1.0, 1 / side).astype(np.float32)
    row, column = (np.searchsorted(ends, np.arange(n, dtype=np.float32) / np.float32(n), "right")
                   for n in (rows, columns))  # fmt: skip
    return (np.minimum(row, side - 1)[:, None] * side + np.minimum(column, side - 1)).reshape(-1)


def embed(g, given):
    """x = W patch + b + position: [C, N] from pixels."""
    table = g.weights.get("v.position_embd.weight")
    table = g.weight("v.position_embd.weight", g.config.n_embd, table.contents.ne[1] if table is not None else 1)
    x = ggml.ggml_get_rows(g.ctx, patches(g, given), g.inputs.ids)
    return g.point("v.embd", g.add(x, ggml.ggml_get_rows(g.ctx, table, g.inputs.positions)))


def encode(g, given, columns):
    """The states of the patches after all layers: [C, N]."""
    x = embed(g, given)
    for i in range(g.config.n_layer):
        x = layer(g, i, x)
    return norm(g, x, "v.post_ln") if g.has("v.post_ln.weight") else x


def project(g, x, columns):
    """W norm(attention of the queries to v), v = norm(W patch), whose keys are those of v + position."""
    ctx, n = g.ctx, x.contents.ne[1]
    query = g.weights.get("resampler.query")
    width, count = query.contents.ne[:2] if query is not None else (1, 1)
    if width % HEAD:
        raise ValueError(f"load: tensor 'resampler.query' is {width} wide: need a multiple of {HEAD}")
    q = ggml.ggml_cast(ctx, g.weight("resampler.query", width, count), ggml.GGML_TYPE_F32)
    q = g.layer_norm(q, "resampler.ln_q")
    v = g.layer_norm(g.linear(x, "resampler.kv", width), "resampler.ln_kv")
    k = g.add(v, sines(g, width, columns, n // columns))
    q, k, v = (g.linear(h, f"resampler.attn.{name}", width) for h, name in ((q, "q"), (k, "k"), (v, "v")))
    q, k, v = (
        ggml.ggml_permute(ctx, ggml.ggml_reshape_3d(ctx, h, HEAD, width // HEAD, h.contents.ne[1]), 0, 2, 1, 3)
        for h in (q, k, v)
    )
    y = ggml.ggml_flash_attn_ext(ctx, q, k, v, None, 1 / math.sqrt(HEAD), 0.0, 0.0)
    y = g.linear(ggml.ggml_reshape_2d(ctx, y, width, count), "resampler.attn.out", width)
    return linear(g, g.layer_norm(y, "resampler.ln_post"), "resampler.proj")


def sines(g, width, columns, rows):
    """Sines and cosines of the column, then of the row of each patch: [width, N]."""
    ctx, quarter = g.ctx, width // 4
    frequencies = ggml.ggml_arange(ctx, 0, quarter, 1)
    frequencies = ggml.ggml_exp(ctx, ggml.ggml_scale(ctx, frequencies, -math.log(BASE) / quarter))

    def of(count):
        """[width / 2, count]"""
        places = ggml.ggml_reshape_2d(ctx, ggml.ggml_arange(ctx, 0, count, 1), 1, count)
        angles = ggml.ggml_mul(ctx, ggml.ggml_repeat_4d(ctx, frequencies, quarter, count, 1, 1), places)
        return ggml.ggml_concat(ctx, ggml.ggml_sin(ctx, angles), ggml.ggml_cos(ctx, angles), 0)

    x = ggml.ggml_repeat_4d(ctx, of(columns), 2 * quarter, columns, rows, 1)
    y = ggml.ggml_reshape_3d(ctx, of(rows), 2 * quarter, 1, rows)
    y = ggml.ggml_repeat_4d(ctx, y, 2 * quarter, columns, rows, 1)
    return ggml.ggml_reshape_2d(ctx, ggml.ggml_concat(ctx, x, y, 0), width, columns * rows)


def prompt(grid):
    """The whole, then the slices, row by row, between marks."""
    columns, rows, *version = grid
    if version == [OLD]:
        start, end, first, last = "<image>", "</image>", "<slice>", "</slice>"
    else:
        start, end, first, last = "<slice>", "</slice>", "", ""
    parts = ["<image>", 0, "</image>"]
    for row in range(rows):
        parts.append("\n" if row else first)
        for column in range(columns):
            parts += [start, 1 + row * columns + column, end]
    return [part for part in [*parts, last if rows else ""] if part != ""]
