"""Records the gradients of tiny models with adapters that PyTorch computes in float64.

It needs PyTorch, transformers, gguf and numpy:

    python scripts/record_lora_gradients.py

writes tests/data/models/lora_gradients.npz, of a LLaMA, and tests/data/lora_gradients_t5.npz, of transformers' T5:
`loss`, and for each matrix of the adapter its gradient in f32.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "benchmarks")]

import hf_models  # noqa: E402
import tiny_models  # noqa: E402
from torch_llama import LoraLlama  # type: ignore[import-not-found]  # noqa: E402

OUT = ROOT / "tests" / "data" / "models" / "lora_gradients.npz"


def llama() -> tuple[float, dict[str, np.ndarray]]:
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
    return loss.item(), found


def t5() -> tuple[float, dict[str, np.ndarray]]:
    record = hf_models.record("t5+gated")
    with tempfile.TemporaryDirectory() as folder:
        hf_models.write_folder(Path(folder), record["config"], record["shapes"])
        options = {"attn_implementation": "eager", "dtype": torch.float64}
        model = transformers.T5ForConditionalGeneration.from_pretrained(folder, **options).eval()
    matrices: dict[str, Any] = {}
    for name, place in hf_models.T5_ADAPTED.items():
        module = model.get_submodule(place)
        shapes = {"a": (hf_models.T5_RANK, module.in_features), "b": (module.out_features, hf_models.T5_RANK)}
        names = {part: f"{name}.weight.lora_{part}" for part in shapes}
        values = {part: hf_models.weight(names[part], shape, 7).astype(np.float64) for part, shape in shapes.items()}
        a, b = (torch.tensor(values[part], requires_grad=True) for part in "ab")
        matrices |= {names["a"]: a, names["b"]: b}
        scale = hf_models.T5_ALPHA / hf_models.T5_RANK
        module.register_forward_hook(lambda _, x, y, a=a, b=b, scale=scale: y + scale * (x[0] @ a.T) @ b.T)
    read, written = hf_models.t5_pair()
    decoder = [record["config"]["decoder_start_token_id"], *written[:-1]]
    logits = model(torch.tensor([read]), decoder_input_ids=torch.tensor([decoder])).logits[0]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(written))
    loss.backward()
    return loss.item(), {name: matrix.grad.numpy().astype(np.float32) for name, matrix in matrices.items()}


def main() -> None:
    for path, compute in ((OUT, llama), (hf_models.T5_LORA, t5)):
        loss, found = compute()
        np.savez_compressed(path, loss=loss, **found)  # type: ignore[arg-type]
        print(f"{path}: {len(found)} gradients, loss {loss:.6f}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
