"""The modules of sentence-transformers in a folder: how the states of tokens become one vector of a text."""

from __future__ import annotations

import json
import os

from .checkpoint import Checkpoint, optional
from .fields import Fields, optional_json
from .parts import Keys

POOLING = {"pooling_mode_mean_tokens": 1, "pooling_mode_cls_token": 2, "pooling_mode_lasttoken": 3}
MODES = {"mean": 1, "cls": 2, "lasttoken": 3}
IDENTITY = "torch.nn.modules.linear.Identity"


class Modules:
    """What modules.json names; nothing, where a folder has no such file.

    Attributes:
        pooling: value of pooling_type; 0 if there is no module for it.
        dense: for the tensors dense_2 and dense_3, as far as there are such modules, the folder of their weights.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.folder = checkpoint.folder
        self.pooling = 0
        self.dense: dict[str, str] = {}
        for kind, path in self._listed():
            where = os.path.join(path, "config.json")
            config = Fields(optional_json(os.path.join(self.folder, path), "config.json"), where)
            if kind == "Pooling":
                self.pooling = self._pooling(config, where)
            elif kind == "Dense":
                config.require("activation_function", IDENTITY)
                self.dense[f"dense_{2 + len(self.dense)}"] = path
            elif kind not in ("Transformer", "Normalize"):
                raise ValueError(f"convert: {self.folder}: modules.json: module {kind[:60]!r} is not known")
        if len(self.dense) > 2:
            raise ValueError(f"convert: {self.folder}: modules.json has {len(self.dense)} dense layers: need at most 2")

    def _listed(self) -> list[tuple[str, str]]:
        """Kind and folder of each module."""
        data = optional(self.folder, "modules.json")
        if data is None:
            return []
        try:
            found = [(str(m["type"]).rpartition(".")[2], str(m["path"])) for m in json.loads(data)]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError(f"convert: {self.folder}: modules.json is not a list of modules") from None
        for _, path in found:
            if os.path.basename(path) != path or path in (".", ".."):
                raise ValueError(f"convert: {self.folder}: modules.json: {path[:60]!r} is no folder inside")
        return found

    def _pooling(self, config: Fields, where: str) -> int:
        mode = config.values.get("pooling_mode")
        kinds = [MODES[mode]] if isinstance(mode, str) and mode in MODES else []
        kinds += [kind for name, kind in POOLING.items() if config.flag(name, False)]
        if len(kinds) != 1:
            raise ValueError(f"convert: {self.folder}: {where}: need one of {', '.join(POOLING)}")
        return kinds[0]

    def keys(self) -> Keys:
        return {"pooling_type": self.pooling} if self.pooling else {}
