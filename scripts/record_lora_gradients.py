"""Records the gradients of tiny models with adapters that PyTorch computes in float64.

It needs PyTorch, transformers, gguf and numpy:

    python scripts/record_lora_gradients.py

writes tests/data/models/lora_gradients.npz, of a LLaMA, and tests/data/lora_gradients_t5.npz, of transformers' T5:
`loss`, and for each matrix of the adapter its gradient in f32. tests/data/lora_gradients_encoders.npz has the same of
the kinds of tests/encoder_texts.py, by KIND/NAME.
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

import encoder_texts  # noqa: E402
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


def adapted(model: Any, places: dict[str, str], rank: int, alpha: float) -> dict[str, Any]:
    """The matrices of an adapter beside modules of a model; hooks add what they give to the results."""
    matrices: dict[str, Any] = {}
    for name, place in places.items():
        module = model.get_submodule(place)
        shapes = {"a": (rank, module.in_features), "b": (module.out_features, rank)}
        names = {part: f"{name}.weight.lora_{part}" for part in shapes}
        values = {part: hf_models.weight(names[part], shape, 7).astype(np.float64) for part, shape in shapes.items()}
        a, b = (torch.tensor(values[part], requires_grad=True) for part in "ab")
        matrices |= {names["a"]: a, names["b"]: b}
        module.register_forward_hook(lambda _, x, y, a=a, b=b: y + alpha / rank * (x[0] @ a.T) @ b.T)
    return matrices


def t5() -> tuple[float, dict[str, np.ndarray]]:
    record = hf_models.record("t5+gated")
    with tempfile.TemporaryDirectory() as folder:
        hf_models.write_folder(Path(folder), record["config"], record["shapes"])
        options = {"attn_implementation": "eager", "dtype": torch.float64}
        model = transformers.T5ForConditionalGeneration.from_pretrained(folder, **options).eval()
    matrices = adapted(model, hf_models.T5_ADAPTED, hf_models.T5_RANK, hf_models.T5_ALPHA)
    read, written = hf_models.t5_pair()
    decoder = [record["config"]["decoder_start_token_id"], *written[:-1]]
    logits = model(torch.tensor([read]), decoder_input_ids=torch.tensor([decoder])).logits[0]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(written))
    loss.backward()
    return loss.item(), {name: matrix.grad.numpy().astype(np.float32) for name, matrix in matrices.items()}


def encoder(kind: str) -> tuple[float, dict[str, np.ndarray]]:
    record, chosen = hf_models.record(kind), encoder_texts.KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        hf_models.write_folder(Path(folder), record["config"], record["shapes"])
        cls = getattr(transformers, record["config"]["architectures"][0])
        model = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    matrices = adapted(model, chosen.adapted, encoder_texts.RANK, encoder_texts.ALPHA)
    loss = loss_of_classes(kind, model) if chosen.width == 1 else loss_of_texts(kind, model)
    loss.backward()
    return loss.item(), {name: matrix.grad.numpy().astype(np.float32) for name, matrix in matrices.items()}


def loss_of_classes(kind: str, model: Any) -> Any:
    """The cross entropy of several classes, the logistic loss of one."""
    count = model.config.num_labels
    texts, labels = zip(*encoder_texts.items(kind, count))
    rows = []
    for text in texts:
        types = (
            {"token_type_ids": torch.tensor([encoder_texts.types(kind, len(text))])} if kind.startswith("bert") else {}
        )
        rows.append(model(torch.tensor([text]), **types).logits[0])
    logits = torch.stack(rows)
    if count > 1:
        return torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
    return torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], torch.tensor(labels, dtype=logits.dtype))


def loss_of_texts(kind: str, model: Any) -> Any:
    """The loss that sentence-transformers calls MultipleNegativesRankingLoss, of the cosines."""
    pooling = {"mean": lambda x: x.mean(0), "cls": lambda x: x[0], "last": lambda x: x[-1]}
    pooled = pooling[encoder_texts.KINDS[kind].pooling]
    columns = [
        torch.stack([pooled(model(torch.tensor([text])).last_hidden_state[0]) for text in texts])
        for texts in zip(*encoder_texts.items(kind))
    ]
    queries, *documents = (torch.nn.functional.normalize(column, dim=1) for column in columns)
    scores = queries @ torch.cat(documents).T / encoder_texts.TEMPERATURE
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(queries)))


def main() -> None:
    for path, compute in ((OUT, llama), (hf_models.T5_LORA, t5)):
        loss, found = compute()
        np.savez_compressed(path, loss=loss, **found)  # type: ignore[arg-type]
        print(f"{path}: {len(found)} gradients, loss {loss:.6f}, {path.stat().st_size} bytes")
    together: dict[str, Any] = {}
    for kind in encoder_texts.KINDS:
        loss, found = encoder(kind)
        together |= {f"{kind}/{name}": values for name, values in {"loss": np.float64(loss), **found}.items()}
        print(f"{kind}: {len(found)} gradients, loss {loss:.6f}")
    np.savez_compressed(encoder_texts.RECORDED, **together)
    print(f"{encoder_texts.RECORDED}: {encoder_texts.RECORDED.stat().st_size} bytes")


if __name__ == "__main__":
    main()
