"""What the file of a model that compares texts with pictures has beside its encoder of texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..vision import PROJECTORS
from ..vision.tower import ARCH
from .checkpoint import TYPES, Checkpoint
from .images import BY_CLASS, plan_images
from .parts import Keys
from .plan import Weight

CLASSES = {name for name, row in BY_CLASS.items() if PROJECTORS[row.projector].pooled}
SCORES = ("logit_scale", "logit_bias")
OUTPUTS = {"text": "dense_2.weight", "clip": "mm.model.fc.weight", "siglip": "v.head.ffn_down.weight"}


def with_pictures(checkpoint: Checkpoint, keys: Keys, weights: Mapping[str, Any]) -> tuple[Keys, dict[str, Weight]]:
    """Keys and tensors of the encoder of texts with those of the encoder of pictures; others as they are.

    Args:
        keys, weights: of the encoder of texts; no weights if these are not wanted.
    Raises:
        ValueError: a key or tensor is missing or wrong, or the encoders have embeddings of different sizes.
    """
    if not weights or checkpoint.names[0] not in CLASSES:
        return keys, dict(weights)
    more, tensors = plan_images(checkpoint)
    rows = [w.shape[0] for name in OUTPUTS.values() if (w := {**weights, **tensors}.get(name)) is not None]
    if len(set(rows)) != 1 or len(rows) != 2:
        raise ValueError(f"convert: {checkpoint.folder}: embeddings of texts and pictures have {rows} elements")
    more = {name: value for name, value in more.items() if name not in keys} | {f"{ARCH}.projection_dim": rows[0]}
    return keys | more | scores(checkpoint), {**weights, **tensors}


def scores(checkpoint: Checkpoint) -> Keys:
    """What makes a score of a cosine, from tensors of one element."""
    found: Keys = {}
    for name in SCORES:
        stored = checkpoint.stored.get(name)
        if stored is None:
            continue
        values = checkpoint.floats(stored).reshape(-1) if stored.dtype in TYPES else np.empty(0)
        if values.size != 1 or not math.isfinite(values[0]):
            raise ValueError(
                f"convert: {stored.path}: tensor {name!r} is {stored.dtype} {list(stored.shape)}: need one number"
            )
        found[f"clip.{name}"] = float(values[0])
    return found
