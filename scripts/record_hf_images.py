"""Records what transformers computes from the tiny models of tests/hf_images.py.

It needs torch 2.13.0, transformers 5.24.0, safetensors and Pillow 13.0.0:

    python scripts/record_hf_images.py [KIND...]

writes tests/data/hf_images/KIND.npz for each kind, or for those named. The weights and pictures come from NumPy.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from record_hf import saved

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import hf_images  # noqa: E402
import hf_models  # noqa: E402


def rows_of(pixels: Any) -> np.ndarray:
    """The parts of a picture, [n, 3, height, width]."""
    values = np.concatenate([np.asarray(item)[None] for item in pixels])
    return values.reshape(-1, *values.shape[-3:])


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


def results(kind: str) -> dict[str, np.ndarray]:
    """The record of a kind."""
    name, text, vision, others, processor_class, settings = hf_images.KINDS[kind]
    config_class = getattr(transformers, f"{name}Config")
    cls = getattr(transformers, f"{name}ForConditionalGeneration")
    processor = getattr(transformers, processor_class)(**settings)
    config = config_class(
        text_config={n: v for n, v in {**hf_images.TEXT, **text}.items() if v is not None},
        vision_config={**hf_images.VISION, **vision},
        **others, attn_implementation="eager",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        stored, shapes = saved(cls(config), folder)
        processor.save_pretrained(folder)
        preprocessor = json.loads((Path(folder) / "preprocessor_config.json").read_text())
    found = {"config": np.array(json.dumps(stored)), "shapes": np.array(json.dumps(shapes)),
             "preprocessor": np.array(json.dumps(preprocessor))}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        hf_models.write_folder(Path(folder), stored, shapes)
        model = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()

    def pixels(image: object) -> np.ndarray:
        found = processor(images=image, return_tensors="np")
        return pixels_of(found, processor.patch_size) if name == "Gemma4" else rows_of(found["pixel_values"])

    odd = [pixels(image) for image in hf_images.odd_pictures(200)]
    found["pixels"] = np.array([hf_images.sample(values) for values in odd], np.float16)
    found["counts"] = np.array([len(values) for values in odd])
    embeddings = []
    ids, inputs = [], []
    for part in hf_images.parts(hf_models.tokens(31)):
        if isinstance(part, list):
            ids += part
            continue
        values = torch.tensor(pixels(Image.fromarray(hf_images.picture(*hf_images.SIZES[part]))))
        inputs.append(values)
        with torch.no_grad():
            given = values[None] if name == "Idefics3" else values
            size = {"image_sizes": torch.tensor([values.shape[-2:]])} if "ixtral" in processor_class else {}
            if name == "Gemma4":
                patches, places = patches_of(values.numpy(), processor.patch_size)
                given, size = torch.tensor(patches)[None], {"image_position_ids": torch.tensor(places)[None]}
            out = model.get_image_features(pixel_values=given, **size).pooler_output
        rows = (torch.cat(list(out)) if isinstance(out, (list, tuple)) else out).reshape(-1, 64)
        embeddings.append(rows.numpy())
        ids += [hf_images.IMAGE_TOKEN] * len(rows)
    ids = torch.tensor([ids])
    sides = [max(values.shape[i] for values in inputs) for i in (-2, -1)]
    padded = [torch.nn.functional.pad(v, (0, sides[1] - v.shape[-1], 0, sides[0] - v.shape[-2])) for v in inputs]
    given = torch.cat(padded)
    more = {"token_type_ids": (ids == hf_images.IMAGE_TOKEN).long()} if name == "Gemma3" else {}
    if "ixtral" in processor_class:
        more["image_sizes"] = torch.tensor([v.shape[-2:] for v in inputs])
    if name == "Idefics3":
        given = given[None]
    if name == "Gemma4":
        both = [patches_of(values.numpy(), processor.patch_size) for values in inputs]
        most = max(len(patches) for patches, _ in both)
        given = torch.tensor(np.stack([np.pad(p, ((0, most - len(p)), (0, 0))) for p, _ in both]))
        ends = [np.pad(p, ((0, most - len(p)), (0, 0)), constant_values=-1) for _, p in both]
        more = {"image_position_ids": torch.tensor(np.stack(ends)),
                "mm_token_type_ids": (ids == hf_images.IMAGE_TOKEN).long()}  # fmt: skip
    with torch.no_grad():
        logits = model(input_ids=ids, pixel_values=given, attention_mask=torch.ones_like(ids), **more).logits[0]
    found["embeddings"] = np.concatenate(embeddings)
    found["tokens"] = np.array([len(rows) for rows in embeddings])
    found["logits"] = logits.numpy()[::3]
    return found


def main() -> None:
    hf_images.DATA.mkdir(parents=True, exist_ok=True)
    for kind in sys.argv[1:] or hf_images.KINDS:
        found = results(kind)
        path = hf_images.DATA / f"{kind}.npz"
        np.savez_compressed(path, **found)  # type: ignore[arg-type]
        print(f"{kind}: {path.stat().st_size} bytes, {found['tokens']} tokens, logits of variance "
              f"{found['logits'].var():.2g}")  # fmt: skip


if __name__ == "__main__":
    main()
