"""Records the gradients of the mean loss by all weights that PyTorch computes in float64, of tests/hf_models.py.

It needs torch 2.13.0, transformers 5.24.0 and safetensors:

    python scripts/record_hf_gradients.py

writes tests/data/hf_gradients.npz: for each kind an array [tensors, 3], in the order of the names of the tensors, with
the norm of each gradient and its products with two random tensors of its shape (hf_models.direction).
"""

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


def gradients(kind: str) -> dict[str, np.ndarray]:
    """The gradients of a kind by the names of its tensors."""
    record = hf_models.record(kind)
    with tempfile.TemporaryDirectory() as folder:
        hf_models.write_folder(Path(folder), record["config"], record["shapes"])
        cls = getattr(transformers, hf_models.KINDS[kind][1])
        options = {"attn_implementation": "eager", "experts_implementation": "eager", "dtype": torch.float64}
        model = cls.from_pretrained(folder, **options).eval()
    ids = torch.tensor([hf_models.tokens(hf_models.LENGTHS[0])])
    if kind in hf_models.ENCODER_DECODERS:
        text, ids = ids, torch.tensor([hf_models.decoder_tokens(hf_models.LENGTHS[0])])
        logits = model(text, decoder_input_ids=ids).logits[0, :-1]
    else:
        logits = model(ids).logits[0, :-1]
    torch.nn.functional.cross_entropy(logits, ids[0, 1:]).backward()
    for part in (
        *model.parameters(),
        *model.buffers(),
    ):  # saved in place of the weights, they get the names and shapes of these
        part.data = torch.zeros_like(part) if part.grad is None else part.grad
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with safe_open(Path(folder) / "model.safetensors", "np") as file:
            return {name: file.get_tensor(name) for name in record["shapes"]}


def main() -> None:
    found = {}
    for kind in hf_models.WITH_GRADIENTS:
        rows = []
        for name, grad in sorted(gradients(kind).items()):
            products = [float((grad * hf_models.direction(name, grad.shape, i)).sum()) for i in range(2)]
            rows.append([float(np.linalg.norm(grad)), *products])
        found[kind] = np.array(rows)
        print(f"{kind}: {len(rows)} tensors, norm {np.linalg.norm(found[kind][:, 0]):.3g}")
    np.savez_compressed(hf_models.GRADIENTS, **found)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
