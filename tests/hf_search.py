"""Tiny models of transformers' classes that compare texts with pictures, and tokenizers of their kinds.

scripts/record_hf_search.py builds them in transformers and records, for each kind, the settings, the names and shapes
of the tensors, pixels of pictures, the embeddings of some texts and pictures and their scores, and the files of a tiny
tokenizer with the ids of some texts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hf_images
import hf_models
import numpy as np

DATA = Path(__file__).parent / "data" / "hf_search"
END = 63  # the token that ends a text
TEXT = {"vocab_size": 64, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
        "max_position_embeddings": 24}  # fmt: skip
VISION = {**hf_images.VISION, "image_size": 28, "patch_size": 7}
CROP = {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}}
SQUARE = {"size": {"height": 28, "width": 28}}
# Kind: (class, settings: of the text, of the encoder of pictures, others; settings of the preprocessor)
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "clip": ("CLIP", {"eos_token_id": END}, {}, {"projection_dim": 40}, CROP),
    "clip+gelu": ("CLIP", {"eos_token_id": 2, "hidden_act": "gelu"}, {"hidden_act": "gelu"}, {"projection_dim": 56},
                  CROP),
    "siglip": ("Siglip", {"projection_size": 32}, {}, {}, SQUARE),
    "siglip2": ("Siglip2", {"projection_size": 32}, {"image_size": None, "num_patches": 16}, {},
                {"patch_size": 7, "max_num_patches": 20, "do_convert_rgb": True}),
    "siglip2+cubic": ("Siglip2", {"projection_size": 32}, {"image_size": None, "num_patches": 25, "patch_size": 4}, {},
                      {"patch_size": 4, "max_num_patches": 64, "resample": 3, "do_convert_rgb": True}),
    "siglip+bilinear": ("Siglip", {"projection_size": 32}, {}, {}, {**SQUARE, "resample": 2}),
}  # fmt: skip
TOKENIZERS = ("clip", "siglip")  # kinds
LINES = [
    "A photo of a cat.", "two DOGS, on the beach!", "it's we'LL don't", "12345 3.14",
    "na\u00efve caf\u00e9 \u00c0\u00c9",
    "cafe\u0301", "\u65e5\u672c\u8a9e \u0645\u0631", "tab\t and\n\n lines ", "", " ", "\U0001f600 \U0001f44d!!",
    "<|endoftextx", "a_b-c (d) [e] {f}", "\ufb01 \u00bd a\u00a0b",
]  # fmt: skip


def texts() -> list[list[int]]:
    """Ids of three texts, of which the second ends early."""
    found = [hf_models.tokens(24, i) for i in range(3)]
    for ids in found:
        ids[:] = [min(token, END - 1) for token in ids]
        ids[-1] = END
    found[1][10] = END
    return found


def record(kind: str) -> dict[str, Any]:
    """What was recorded of a kind."""
    with np.load(DATA / f"{kind}.npz") as data:
        found: dict[str, Any] = {name: data[name] for name in data.files}
    for name in ("config", "preprocessor", "shapes", "files", "ids"):
        if name in found:
            found[name] = json.loads(str(found[name]))
    return found


def write_folder(folder: Path, found: dict[str, Any], tokenizer: bool = False) -> Path:
    """Writes the folder of a recorded model, with its tokenizer or without."""
    rows = {name: [len_of(found), *shape[1:]] if "token_embedding" in name and tokenizer else shape
            for name, shape in found["shapes"].items()}  # fmt: skip
    config = json.loads(json.dumps(found["config"]))
    if tokenizer:
        config["text_config"]["vocab_size"] = len_of(found)
        config["text_config"]["eos_token_id"] = len_of(found) - 1
        for name, text in found["files"].items():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(bytes.fromhex(text) if name.endswith(".model") else text.encode())
    hf_models.write_folder(folder, config, rows)
    (folder / "preprocessor_config.json").write_text(json.dumps(found["preprocessor"]))
    return folder


def len_of(found: dict[str, Any]) -> int:
    """The number of tokens of the recorded tokenizer."""
    return int(found["vocabulary"])
