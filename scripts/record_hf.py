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
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors import safe_open

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import hf_models  # noqa: E402


def saved(model: torch.nn.Module, folder: str) -> tuple[dict, dict]:
    """The settings of a model, and the shapes of its tensors, as they are saved."""
    model.save_pretrained(folder)
    config = json.loads((Path(folder) / "config.json").read_text())
    with safe_open(Path(folder) / "model.safetensors", "np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in sorted(file.keys())}
    return config, shapes


def results(kind: str) -> dict[str, np.ndarray]:
    """The record of a kind."""
    config_class, model_class, settings = hf_models.KINDS[kind]
    sizes = hf_models.settings_of(settings)
    cls = getattr(transformers, model_class)
    with tempfile.TemporaryDirectory() as folder:
        model = cls(getattr(transformers, config_class)(**sizes, attn_implementation="eager"))
        config, shapes = saved(model, folder)
    with tempfile.TemporaryDirectory() as folder:
        hf_models.write_folder(Path(folder), config, shapes)
        model = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    found = {"config": np.array(json.dumps(config)), "shapes": np.array(json.dumps(shapes))}
    for length in hf_models.LENGTHS:
        with torch.no_grad():
            types = hf_models.types(kind, length)
            more = {} if types is None else {"token_type_ids": torch.tensor([types])}
            if kind in hf_models.ENCODER_DECODERS:  # the decoder has another text, which begins with token 0
                more["decoder_input_ids"] = torch.tensor([[0, *hf_models.tokens(length, 1)[1:]]])
            out = model(torch.tensor([hf_models.tokens(length)]), **more)
        if kind in hf_models.ENCODERS:
            found[str(length)] = out.last_hidden_state[0].mean(0).numpy()
        elif kind in hf_models.CLASSIFIERS:
            found[str(length)] = out.logits[0].numpy()
        else:
            found[str(length)] = out.logits[0].numpy()[hf_models.rows(length)]
    return found


def main() -> None:
    hf_models.DATA.mkdir(parents=True, exist_ok=True)
    for kind in sys.argv[1:] or hf_models.KINDS:
        found = results(kind)
        path = hf_models.DATA / f"{kind}.npz"
        np.savez_compressed(path, **found)  # type: ignore[arg-type]
        values = found[str(hf_models.LENGTHS[-1])]
        print(f"{kind}: {path.stat().st_size} bytes, values of variance {values.var():.2g}")


if __name__ == "__main__":
    main()
