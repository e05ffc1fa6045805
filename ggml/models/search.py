"""Searching pictures by texts, or the reverse: models whose encoders of both share a space (CLIP, SigLIP)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .generate.images import Images
from .run.whole_texts import normalized
from .score import Embedding


class Searching:
    """Compares texts with pictures; see Model."""

    def __init__(self, images: Images, embedding: Embedding) -> None:
        self.images, self.embedding = images, embedding

    def similarity(
        self, texts: str | bytes | Sequence[str | bytes | Sequence[int]], images: Any, *, scaled: bool = True
    ) -> np.ndarray:
        """How well texts describe pictures.

        Args:
            texts: a text or a list of texts, or of lists of token ids.
            images: a picture or a list of them, see embed_image.
            scaled: True for the scores with which the model was trained, scale * cosine + bias: of one picture, their
                soft_max has the probabilities of CLIP, their sigmoids those of SigLIP. False for the cosine.
        Returns:
            f32 [n_texts, n_images].
        Raises:
            OSError, ModuleNotFoundError: as embed_image.
            TypeError, ValueError: as embed and embed_image, or the model does not compare texts with pictures.
            RuntimeError: the model is closed.
        """
        runner = self.embedding.runner
        runner.check("similarity")
        tower = self.images.tower
        if tower is None or not tower.row.pooled:
            arch = runner.config.arch
            raise ValueError(f"similarity: a model of architecture {arch!r} does not compare texts with pictures")
        given: Any = [texts] if isinstance(texts, (str, bytes)) else texts
        rows = self.embedding.embedded("similarity", given, runner.config.pooling)
        of_images = np.concatenate([np.empty((0, tower.dim), np.float32), *self.images.rows("similarity", images)])
        cosine = normalized(rows[:, : tower.dim]) @ normalized(of_images).T
        if not scaled:
            return cosine
        own = runner.config.own
        return cosine * np.float32(math.exp(own["logit_scale"])) + np.float32(own["logit_bias"])
