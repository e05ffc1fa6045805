"""Records what transformers computes from the tiny models of tests/hf_models.py.

It needs torch 2.13.0, transformers 5.24.0 and safetensors:

    python scripts/record_hf.py [KIND...]

writes tests/data/hf/KIND.npz for each kind, or for those named: the settings and the shapes of the tensors as
save_pretrained writes them, and the logits of some tokens of two texts; of encoders, the mean of the states; of
classifiers, the logits of the classes. The weights come from NumPy.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import safe_open

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import hf_models  # noqa: E402


def made(cls: Any, config: Any, processor: Any = None) -> tuple[dict[str, np.ndarray], torch.nn.Module]:
    """A model of a class with weights from NumPy; its settings and the shapes of its tensors, as they are saved.

    Also the settings of a preprocessor, if one is given.
    """
    with tempfile.TemporaryDirectory() as folder:
        cls(config).save_pretrained(folder)
        stored = json.loads((Path(folder) / "config.json").read_text())
        with safe_open(Path(folder) / "model.safetensors", "np") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in sorted(file.keys())}
        found = {"config": np.array(json.dumps(stored)), "shapes": np.array(json.dumps(shapes))}
        if processor is not None:
            processor.save_pretrained(folder)
            preprocessor = json.loads((Path(folder) / "preprocessor_config.json").read_text())
            found["preprocessor"] = np.array(json.dumps(preprocessor))
    with tempfile.TemporaryDirectory() as folder:
        hf_models.write_folder(Path(folder), stored, shapes)
        model = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    return found, model.eval()


def record_all(folder: Path, kinds: Iterable[str], results: Callable[[str], dict[str, np.ndarray]], shown: str) -> None:
    """Writes the record of each kind, or of those that the command names; prints the variance of one of its arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in sys.argv[1:] or kinds:
        found = results(kind)
        path = folder / f"{kind}.npz"
        np.savez_compressed(path, **found)  # type: ignore[arg-type]
        print(f"{kind}: {path.stat().st_size} bytes, values of variance {found[shown].var():.2g}")


def results(kind: str) -> dict[str, np.ndarray]:
    """The record of a kind."""
    config_class, model_class, settings = hf_models.KINDS[kind]
    sizes = hf_models.settings_of(settings)
    cls = getattr(transformers, model_class)
    found, model = made(cls, getattr(transformers, config_class)(**sizes, attn_implementation="eager"))
    for length in hf_models.LENGTHS:
        found[str(length)] = result_of(kind, model, hf_models.tokens(length))
    return found


def result_of(kind: str, model: Any, ids: list[int]) -> np.ndarray:
    """What is recorded of a text."""
    length = len(ids)
    with torch.no_grad():
        types = hf_models.types(kind, length)
        more = {} if types is None else {"token_type_ids": torch.tensor([types])}
        if kind in hf_models.ENCODER_DECODERS:
            more["decoder_input_ids"] = torch.tensor([hf_models.decoder_tokens(length)])
        out = model(torch.tensor([ids]), **more)
    if kind in hf_models.ENCODERS:
        return out.last_hidden_state[0].mean(0).numpy()
    return out.logits[0].numpy() if kind in hf_models.CLASSIFIERS else out.logits[0].numpy()[hf_models.rows(length)]


if __name__ == "__main__":
    record_all(hf_models.DATA, hf_models.KINDS, results, str(hf_models.LENGTHS[-1]))
