"""Choosing boxes that do not overlap, and pooling what is in boxes."""

from __future__ import annotations

import numpy as np

from ..boxes import aligned, choice, pooled
from . import operator


def corners(boxes, centred):
    """Boxes (n, 4) as smallest y, smallest x, largest y, largest x; centred ones are x, y, width, height."""
    if centred:
        half = boxes[:, 2:] / 2
        return np.hstack([boxes[:, :2] - half, boxes[:, :2] + half])
    return np.hstack([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])])


@operator("NonMaxSuppression", "")
def non_max_suppression(node):
    """Rows of (batch, class, box): the best boxes of each class that overlap no better one by more than a share."""

    def function(boxes, scores, most=None, share=None, least=None):
        most, share = (0 if v is None else v.reshape(-1)[0] for v in (most, share))
        found = []
        for i in range(len(boxes) if most > 0 else 0):
            places = corners(boxes[i], node.attr("center_point_box", 0))
            for j, row in enumerate(scores[i]):
                order = np.arange(len(row)) if least is None else np.flatnonzero(row > least.reshape(-1)[0])
                order = order[np.argsort(-row[order], kind="stable")]
                best = order[choice(np.ascontiguousarray(places[order], np.float32), int(most), share)]
                found.append(np.stack([np.full_like(best, i), np.full_like(best, j), best], 1))
        return np.concatenate(found) if found else np.empty((0, 3), np.int64)

    return function


def numbers_of_images(images, n):
    """The numbers of the images that boxes are in, of n; negative ones count from the end."""
    if ((images < -n) | (images >= n)).any():
        raise IndexError(f"boxes are in the images {images.min()} to {images.max()} of {n}")
    return (images.astype(np.int64) + n) % max(n, 1)


@operator("RoiAlign", "")
def roi_align(node):
    """Means (or maxima) of samples of each bin of a box, which are interpolated between four elements."""
    default = "output_half_pixel" if node.version < 16 else "half_pixel"
    half = node.attr("coordinate_transformation_mode", default) == "half_pixel"
    size, count = [node.attr(f"output_{side}", 1) for side in ("height", "width")], node.attr("sampling_ratio", 0)
    greatest = node.attr("mode", "avg") == "max"

    def function(x, boxes, images):
        if images.shape != boxes.shape[:1] or boxes.shape[1:] != (4,):
            given = f"{list(boxes.shape)}, of images {list(images.shape)}"
            raise ValueError(f"boxes are {given}: need [n, 4], [n]")
        plain = np.ascontiguousarray(x, x.dtype if x.dtype == np.float64 else np.float32)
        images = numbers_of_images(images, len(x))
        corners = (boxes.astype(np.float64) * node.attr("spatial_scale", 1.0)).reshape(-1, 2, 2)[..., ::-1]
        starts = corners[:, 0] - half / 2  # of rows, then of columns
        lengths = np.maximum(corners[:, 1] - half / 2 - starts, -np.inf if half else 1)
        counts = np.full(lengths.shape, count) if count else np.clip(np.nan_to_num(np.ceil(lengths / size)), 0, 2.0**31)
        y = np.zeros((len(boxes), x.shape[1], *size), plain.dtype)
        if y.size and x.size:
            places = np.ascontiguousarray(np.stack([starts, lengths], 1))
            counts = np.ascontiguousarray(counts, np.int64)
            aligned(plain, images, places, counts, greatest, y)
        return y.astype(x.dtype, copy=False)

    return function


@operator("MaxRoiPool", "")
def max_roi_pool(node):
    """The maximum of each bin of a box, of which each row is the number of an image and its corners; 0 for no bin."""
    size = node.attr("pooled_shape")

    def function(x, boxes):
        plain = np.ascontiguousarray(x, x.dtype if x.dtype == np.float64 else np.float32)
        images = numbers_of_images(boxes[:, 0], len(x))
        corners = np.floor(boxes[:, 1:] * node.attr("spatial_scale", 1.0) + 0.5).reshape(-1, 2, 2)[..., ::-1]
        starts = corners[:, 0]
        lengths, ends = np.maximum(corners[:, 1] - starts + 1, 1), []
        for k, n in enumerate(size):
            step, place = lengths[:, k, None], np.arange(n)
            found = (
                np.stack([np.floor(place * step / n), np.ceil((place + 1.0) * step / n)], 2) + starts[:, k, None, None]
            )
            ends.append(np.clip(np.nan_to_num(found), 0, x.shape[2 + k]).astype(np.int64))
        y = np.zeros((len(boxes), x.shape[1], *size), plain.dtype)
        pooled(plain, images, *ends, y)
        return y.astype(x.dtype, copy=False)

    return function
