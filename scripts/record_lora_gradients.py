"""Records the gradients of a tiny model with adapters that PyTorch computes in float64.

It needs PyTorch, gguf and numpy:

    python scripts/record_lora_gradients.py

writes tests/data/models/lora_gradients.npz: `loss`, and for each matrix of the adapter its gradient in f32.
"""

import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "benchmarks")]

import tiny_models  # noqa: E402
from torch_llama import LoraLlama  # type: ignore[import-not-found]  # noqa: E402

OUT = ROOT / "tests" / "data" / "models" / "lora_gradients.npz"


def main() -> None:
    weights = {name: torch.tensor(values.astype(np.float64)) for name, values in tiny_models.weights("llama").items()}
    matrices = {name: torch.tensor(v.astype(np.float64)) for name, v in tiny_models.lora_weights("llama").items()}
    names = sorted({name.rsplit(".lora_", 1)[0] for name in matrices})
    pairs = {name: (matrices[name + ".lora_a"], matrices[name + ".lora_b"]) for name in names}
    eps = float(np.float32(tiny_models.keys("llama")["attention.layer_norm_rms_epsilon"]))
    scale = tiny_models.LORA_ALPHA / tiny_models.LORA_RANK
    model = LoraLlama(weights, tiny_models.HEADS, 2, eps, 10000.0, pairs, scale)
    loss = model.loss(torch.tensor(tiny_models.IDS))
    loss.backward()
    found = {}
    for name, pair in model.pairs.items():
        for part, values in zip("ab", pair):
            found[f"{name}.lora_{part}"] = values.grad.numpy().astype(np.float32)
    np.savez_compressed(OUT, loss=loss.item(), **found)
    print(f"{OUT}: {len(found)} gradients, loss {loss.item():.6f}, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
