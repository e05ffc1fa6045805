"""Records what transformers computes from the tiny models of tests/hf_images.py.

It needs torch 2.13.0, transformers 5.24.0, torchvision 0.28.0, safetensors and Pillow 13.0.0:

    python scripts/record_hf_images.py [KIND...]

writes tests/data/hf_images/KIND.npz for each kind, or for those named. The weights and pictures come from NumPy.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from record_hf import made, record_all
from transformers.image_processing_backends import TorchvisionBackend

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import hf_images  # noqa: E402
import hf_models  # noqa: E402


def with_pillow(self: Any, image: torch.Tensor, size: Any, resample: int = 2, **_: Any) -> torch.Tensor:
    """Resizes pictures u8 [n, 3, height, width] as Pillow does; torchvision's bytes differ by 1, rarely 2."""
    given = image.permute(0, 2, 3, 1).numpy()
    found = [np.asarray(Image.fromarray(values).resize((size.width, size.height), resample)) for values in given]
    return torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2)


class Processor:
    """A preprocessor, and in which form a model takes what it returns.

    Args:
        kind: of the model.
    """

    def __init__(self, kind: str) -> None:
        self.name, _, self.vision, _, processor_class, settings = hf_images.KINDS[kind]
        self.processor = getattr(transformers, processor_class)(**settings)
        # The model takes all that the preprocessor returns
        self.direct = self.name.startswith(("Qwen", "LlavaNext", "Lfm2", "MiniCPM"))
        self.has_sizes = "ixtral" in processor_class

    def parts(self, image: Any) -> list[np.ndarray]:
        """The parts of a picture, each [3, height, width]."""
        found, patch = self.processor(images=image, return_tensors="np"), self.vision["patch_size"]
        values = found["pixel_values"]
        if self.name.startswith("Qwen"):
            return [in_pictures(values, found["image_grid_thw"], patch)]
        if self.name == "Lfm2Vl":
            shapes = zip(values, found["spatial_shapes"], strict=True)
            return [in_rows(part, int(rows), int(columns), patch) for part, (rows, columns) in shapes]
        if self.name == "Gemma4":
            return list(pixels_of(found, patch))
        if self.name.startswith("MiniCPM"):
            return side_by_side(values[0], found["target_sizes"], patch)
        rows = np.concatenate([np.asarray(item)[None] for item in values])
        return list(rows.reshape(-1, *rows.shape[-3:]))

    def inputs(self, images: list[Any]) -> dict[str, torch.Tensor]:
        """Of pictures, what the model takes beside the ids."""
        if self.direct:
            return dict(self.processor(images=images, return_tensors="pt"))
        if self.name == "Gemma4":
            return padded_patches([self.parts(image) for image in images], self.vision["patch_size"])
        parts = [torch.tensor(np.stack(self.parts(image))) for image in images]
        sides = [max(values.shape[i] for values in parts) for i in (-2, -1)]
        padded = [torch.nn.functional.pad(v, (0, sides[1] - v.shape[-1], 0, sides[0] - v.shape[-2])) for v in parts]
        given = torch.cat(padded)
        sizes = {"image_sizes": torch.tensor([v.shape[-2:] for v in parts])} if self.has_sizes else {}
        return {"pixel_values": given[None] if self.name == "Idefics3" else given, **sizes}

    def of_ids(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the model takes with ids: which of them are pictures."""
        kinds = ids == hf_images.IMAGE_TOKEN
        if self.name.startswith(("Qwen", "Gemma4")):
            return {"mm_token_type_ids": kinds.long()}
        return {"token_type_ids": kinds.long()} if self.name == "Gemma3" else {}


def in_pictures(values: np.ndarray, grid: np.ndarray, patch: int) -> np.ndarray:
    """Patches in squares of four, each with its pixels twice, as a picture [3, height, width]."""
    _, rows, columns = map(int, grid[0])
    parts = values.reshape(rows // 2, columns // 2, 2, 2, 3, 2, patch, patch)
    assert np.array_equal(parts[..., 0, :, :], parts[..., 1, :, :])
    return parts[..., 0, :, :].transpose(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * patch, columns * patch)


def side_by_side(values: np.ndarray, sizes: np.ndarray, patch: int) -> list[np.ndarray]:
    """The parts of a picture [3, height, width], of all their patches [3, patch, patches * patch] in a row."""
    ends = np.cumsum([rows * columns * patch for rows, columns in sizes])[:-1]
    parts = zip(np.split(values, ends, -1), sizes, strict=True)
    squares = [(part.reshape(3, patch, rows, columns, patch), rows, columns) for part, (rows, columns) in parts]
    return [part.transpose(0, 2, 1, 3, 4).reshape(3, rows * patch, columns * patch) for part, rows, columns in squares]


def in_rows(values: np.ndarray, rows: int, columns: int, patch: int) -> np.ndarray:
    """Patches row by row, each pixel by pixel, as a picture [3, height, width]."""
    parts = values[: rows * columns].reshape(rows, columns, patch, patch, 3)
    return parts.transpose(4, 0, 2, 1, 3).reshape(3, rows * patch, columns * patch)


def patches_of(pixels: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels [1, 3, height, width] as Gemma 4 takes them: patches, pixels one after the other, and their places."""
    _, _, height, width = pixels.shape
    rows, columns = height // side, width // side
    parts = pixels[0].reshape(3, rows, side, columns, side).transpose(1, 3, 2, 4, 0).reshape(rows * columns, -1)
    places = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1).reshape(-1, 2)
    return parts, places


def pixels_of(found: Any, side: int) -> np.ndarray:
    """The pixels [1, 3, height, width] of what Gemma 4's processor gives."""
    places = np.asarray(found["image_position_ids"][0])
    columns, rows = places.max(0) + 1
    parts = np.asarray(found["pixel_values"][0])[(places >= 0).all(1)]
    parts = parts.reshape(rows, columns, side, side, 3).transpose(4, 0, 2, 1, 3)
    return parts.reshape(1, 3, rows * side, columns * side)


def padded_patches(pictures: list[list[np.ndarray]], side: int) -> dict[str, torch.Tensor]:
    """What Gemma 4 takes of pictures."""
    both = [patches_of(np.stack(parts), side) for parts in pictures]
    most = max(len(patches) for patches, _ in both)
    given = np.stack([np.pad(patches, ((0, most - len(patches)), (0, 0))) for patches, _ in both])
    places = np.stack([np.pad(p, ((0, most - len(p)), (0, 0)), constant_values=-1) for _, p in both])
    return {"pixel_values": torch.tensor(given), "image_position_ids": torch.tensor(places)}


def results(kind: str) -> dict[str, np.ndarray]:
    """The record of a kind."""
    name, text, vision, others, *_ = hf_images.KINDS[kind]
    config_class = getattr(transformers, f"{name}Config")
    cls = getattr(transformers, f"{name}ForConditionalGeneration")
    given = Processor(kind)
    config = config_class(
        text_config={n: v for n, v in {**hf_images.TEXT, **text}.items() if v is not None},
        vision_config={n: v for n, v in {**hf_images.VISION, **vision}.items() if v is not None},
        **others, attn_implementation="eager",
    )  # fmt: skip
    found, model = made(cls, config, given.processor)

    odd = [given.parts(image) for image in hf_images.odd_pictures(200)]
    found["pixels"] = np.array([hf_images.sample(parts) for parts in odd], np.float16)
    found["counts"] = np.array([len(parts) for parts in odd])
    pictures = [Image.fromarray(hf_images.picture(*size)) for size in hf_images.SIZES]
    embeddings = []
    for picture in pictures:
        with torch.no_grad():
            out = model.get_image_features(**given.inputs([picture])).pooler_output
        rows = torch.cat(list(out)) if isinstance(out, (list, tuple)) else out
        embeddings.append(rows.reshape(-1, rows.shape[-1]).numpy())
    ids = []
    for part in hf_images.parts(hf_models.tokens(31)):
        ids += part if isinstance(part, list) else [hf_images.IMAGE_TOKEN] * len(embeddings[part])
    tokens = torch.tensor([ids])
    inputs = {"attention_mask": torch.ones_like(tokens), **given.inputs(pictures), **given.of_ids(tokens)}
    with torch.no_grad():
        logits = model(input_ids=tokens, **inputs).logits[0]
    found["embeddings"] = np.concatenate(embeddings)
    found["tokens"] = np.array([len(rows) for rows in embeddings])
    found["logits"] = logits.numpy()[::3]
    return found


if __name__ == "__main__":
    TorchvisionBackend.resize = with_pillow
    record_all(hf_images.DATA, hf_images.KINDS, results, "logits")
