"""Choosing boxes that do not overlap, and pooling what is in boxes."""

from __future__ import annotations

import numpy as np

from ..boxes import aligned, pooled, suppressed
from . import operator


@operator("NonMaxSuppression", "")
def non_max_suppression(node):
    """Rows of (batch, class, box): the best boxes of each class that overlap no better one by more than a share."""
    centred = node.attr("center_point_box", 0)

    def function(boxes, scores, most=None, share=None, least=None):
        most, share, least = (
            absent if v is None else v.reshape(-1)[0] for v, absent in ((most, 0), (share, 0), (least, np.nan))
        )
        boxes = np.ascontiguousarray(boxes, np.float32)
        return suppressed(boxes, np.ascontiguousarray(scores), centred, most, share, least)

    return function


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
        corners = (boxes.astype(np.float64) * node.attr("spatial_scale", 1.0)).reshape(-1, 2, 2)[..., ::-1]
        starts = corners[:, 0] - half / 2  # of rows, then of columns
        lengths = np.maximum(corners[:, 1] - half / 2 - starts, -np.inf if half else 1)
        y = np.zeros((len(boxes), x.shape[1], *size), plain.dtype)
        if y.size and x.size:
            places = np.ascontiguousarray(np.stack([starts, lengths], 1))
            aligned(plain, np.ascontiguousarray(images, np.int64), places, count, greatest, y)
        return y.astype(x.dtype, copy=False)

    return function


@operator("MaxRoiPool", "")
def max_roi_pool(node):
    """The maximum of each bin of a box, of which each row is the number of an image and its corners; 0 for no bin."""
    size = node.attr("pooled_shape")

    def function(x, boxes):
        plain = np.ascontiguousarray(x, x.dtype if x.dtype == np.float64 else np.float32)
        corners = np.floor(boxes[:, 1:] * node.attr("spatial_scale", 1.0) + 0.5).reshape(-1, 2, 2)[..., ::-1]
        places = np.array(corners, np.float64, order="C")
        places[:, 1] = np.maximum(places[:, 1] - places[:, 0] + 1, 1)
        y = np.zeros((len(boxes), x.shape[1], *size), plain.dtype)
        pooled(plain, boxes[:, 0].astype(np.int64), places, y)
        return y.astype(x.dtype, copy=False)

    return function
