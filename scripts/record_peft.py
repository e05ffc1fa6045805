"""Records what transformers and PEFT compute from models of tests/hf_models.py with adapters.

It needs torch 2.13.0, transformers 5.24.0 and peft 0.21.2:

    python scripts/record_peft.py

writes tests/data/peft.npz: for each kind of hf_models.ADAPTERS the settings and the shapes of the adapter as
save_pretrained writes them, in JSON, and what record_hf.py records of a text. The weights come from NumPy.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import peft
import torch
import transformers
from safetensors import safe_open

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import hf_models  # noqa: E402
from record_hf import result_of  # noqa: E402


def results(kind: str) -> dict[str, np.ndarray]:
    """The record of a kind."""
    record = hf_models.record(kind)
    with tempfile.TemporaryDirectory() as folder:
        path = hf_models.write_folder(Path(folder) / "base", record["config"], record["shapes"])
        cls, adapter = getattr(transformers, hf_models.KINDS[kind][1]), Path(folder) / "adapter"
        options = {"attn_implementation": "eager", "dtype": torch.float32}
        model = peft.get_peft_model(cls.from_pretrained(path, **options), peft.LoraConfig(**hf_models.ADAPTERS[kind]))
        model.save_pretrained(adapter)
        config = json.loads((adapter / "adapter_config.json").read_text())
        with safe_open(adapter / "adapter_model.safetensors", "np") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in sorted(file.keys())}
        shapes = {name: shape for name, shape in shapes.items() if ".lora_" in name}  # not copies of embeddings
        hf_models.write_adapter(adapter, config, shapes)
        model = peft.PeftModel.from_pretrained(cls.from_pretrained(path, **options), adapter).eval()
        with torch.no_grad():
            logits = result_of(kind, model, hf_models.tokens(48))
    kept = {name: value for name, value in config.items() if value not in (None, {}, [], False)}
    return {f"{kind}/config": np.array(json.dumps({**kept, "base_model_name_or_path": None})),
            f"{kind}/shapes": np.array(json.dumps(shapes)), f"{kind}/logits": logits}  # fmt: skip


def main() -> None:
    found: dict[str, np.ndarray] = {}
    for kind in hf_models.ADAPTERS:
        found |= results(kind)
    np.savez_compressed(hf_models.PEFT, **found)  # type: ignore[arg-type]
    print(hf_models.PEFT, hf_models.PEFT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
