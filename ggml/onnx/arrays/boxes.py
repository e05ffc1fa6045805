"""Choosing boxes that do not overlap, and pooling what is in boxes."""

from __future__ import annotations

import math

import numpy as np

from ..suppressing import choice
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


def samples(start, length, n, bins, count):
    """The two entries of an axis of n elements next to each sample of each bin of a box, and their weights.

    Both have the shape (2, bins, samples). count: samples of a bin, 0 for one for each element that it covers.
    """
    count = count or max(math.ceil(length / bins), 0)
    at = start + (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / max(count, 1)) * (length / bins)
    inside = (at >= -1) & (at <= n)
    at = np.clip(at, 0, n - 1)
    low = np.floor(at).astype(np.int64)
    return np.stack([low, np.minimum(low + 1, n - 1)]), np.stack([low + 1 - at, at - low]) * inside


@operator("RoiAlign", "")
def roi_align(node):
    """Means (or maxima) of samples of each bin of a box, which are interpolated between four elements."""
    default = "output_half_pixel" if node.version < 16 else "half_pixel"
    half = node.attr("coordinate_transformation_mode", default) == "half_pixel"
    size, count = [node.attr(f"output_{side}", 1) for side in ("height", "width")], node.attr("sampling_ratio", 0)
    greatest = node.attr("mode", "avg") == "max"

    def function(x, boxes, images):
        y = np.empty((len(boxes), x.shape[1], *size), x.dtype)
        for i, box in enumerate(boxes.astype(np.float64) * node.attr("spatial_scale", 1.0)):
            ends = box.reshape(2, 2)[:, ::-1] - half / 2  # of rows, then of columns
            lengths = np.maximum(ends[1] - ends[0], -np.inf if half else 1)
            (rows, high), (columns, wide) = map(samples, ends[0], lengths, x.shape[2:], size, [count] * 2)
            values = x[images[i]][:, rows[..., None, None, None], columns] * (high[..., None, None, None] * wide)
            if greatest:  # of the four weighted elements, not of their sum
                y[i] = values.max((1, 3, 4, 6))
            else:
                y[i] = values.sum((1, 3, 4, 6)) / max(high.shape[2] * wide.shape[2], 1)
        return y

    return function


@operator("MaxRoiPool", "")
def max_roi_pool(node):
    """The maximum of each bin of a box, of which each row is the number of an image and its corners; 0 for no bin."""
    size, ones = node.attr("pooled_shape"), np.ones(2)

    def function(x, boxes):
        y = np.zeros((len(boxes), x.shape[1], *size), x.dtype)
        corners = np.floor(boxes[:, 1:] * node.attr("spatial_scale", 1.0) + 0.5).reshape(-1, 2, 2)[..., ::-1]
        for i, (first, last) in enumerate(corners):
            lengths = np.maximum(last - first + 1, 1)
            for place in np.ndindex(*size):
                start, end = first + np.floor(place * lengths / size), first + np.ceil((place + ones) * lengths / size)
                rows, columns = (slice(*np.clip(ends, 0, n).astype(int)) for *ends, n in zip(start, end, x.shape[2:]))
                part = x[int(boxes[i, 0]), :, rows, columns]
                if part.size:
                    y[i, :, place[0], place[1]] = part.max((1, 2))
        return y

    return function
