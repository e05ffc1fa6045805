"""Choosing boxes that do not overlap."""

from __future__ import annotations

import numpy as np

from . import operator


def corners(boxes, centred):
    """Boxes (n, 4) as smallest y, smallest x, largest y, largest x; centred ones are x, y, width, height."""
    if centred:
        half = boxes[:, 2:] / 2
        return np.hstack([boxes[:, :2] - half, boxes[:, :2] + half])
    return np.hstack([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])])


def overlap(box, others):
    """The intersection of one box with others, over their union; 0 for boxes without area."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    both = np.maximum(high - low, 0).prod(1)
    union = (box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1) - both
    return np.divide(both, union, out=np.zeros_like(both), where=(both > 0) & (union > 0))


@operator("NonMaxSuppression", "")
def non_max_suppression(node):
    """Rows of (batch, class, box): the best boxes of each class that overlap no better one by more than a share."""

    def function(boxes, scores, most=None, share=None, least=None):
        most, share = (0 if v is None else v.reshape(-1)[0] for v in (most, share))
        found = []
        for i, j in np.ndindex(scores.shape[:2]) if most > 0 else ():
            row, places = scores[i, j], corners(boxes[i], node.attr("center_point_box", 0))
            order = np.argsort(-row, kind="stable")
            order = order if least is None else order[row[order] > least.reshape(-1)[0]]
            taken = 0
            while len(order) and taken < most:
                best, order, taken = order[0], order[1:], taken + 1
                found.append((i, j, best))
                order = order[overlap(places[best], places[order]) <= share]
        return np.array(found, np.int64).reshape(-1, 3)

    return function
