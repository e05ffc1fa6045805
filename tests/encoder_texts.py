"""What encoders are trained on where gradients are recorded (scripts/record_lora_gradients.py): texts, matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import hf_models

RECORDED = hf_models.DATA.parent / "lora_gradients_encoders.npz"
RANK, ALPHA, TEMPERATURE = 2, 3.0, 0.5
BERT = {"attn_q": "attention.self.query", "attn_output": "attention.output.dense", "ffn_down": "output.dense"}
LAYERS = {"attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_down": "mlp.down_proj"}
MODERN = {"attn_qkv": "attn.Wqkv", "attn_output": "attn.Wo", "ffn_up": "mlp.Wi"}
T5 = {"attn_v": "layer.0.SelfAttention.v", "attn_o": "layer.0.SelfAttention.o",
      "ffn_down": "layer.1.DenseReluDense.wo"}  # fmt: skip


def places(names: dict[str, str], block: str, inside: str, heads: dict[str, str] | None = None) -> dict[str, str]:
    """The names of matrices in files, one of each layer, with the names of their modules in transformers."""
    found = {f"{block}.{i}.{name}": f"{inside}.{i}.{module}" for i, (name, module) in enumerate(names.items())}
    return found | (heads or {})


class Kind(NamedTuple):
    """How a kind of hf_models is trained.

    Attributes:
        adapted: the matrices that have an adapter, with the names of their modules in transformers.
        width: texts of an item: 1 for a text with a label.
        pooling: of embeddings.
    """

    adapted: dict[str, str]
    width: int = 2
    pooling: str = "mean"


KINDS = {
    "bert+classes": Kind(places(BERT, "blk", "bert.encoder.layer",
                                {"cls": "bert.pooler.dense", "cls.output": "classifier"}), 1),
    "roberta+classes": Kind(places(BERT, "blk", "roberta.encoder.layer",
                                   {"cls": "classifier.dense", "cls.output": "classifier.out_proj"}), 1),
    "modern-bert+classes": Kind(places(MODERN, "blk", "model.layers",
                                       {"cls": "head.dense", "cls.output": "classifier"}), 1),
    "qwen3+classes": Kind(places(LAYERS, "blk", "model.layers", {"cls.output": "score"}), 1),
    "bert": Kind(places(BERT, "blk", "encoder.layer"), pooling="cls"),
    "nomic-bert": Kind(places({"attn_output": "self_attn.o_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"},
                              "blk", "layers")),
    "modern-bert": Kind(places(MODERN, "blk", "layers"), width=3),
    "jina-bert-v3": Kind(places({"attn_output": "self_attn.o_proj", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}, "blk",
                                "layers"), pooling="last"),
    "gemma-embedding": Kind(places(LAYERS, "blk", "layers")),
    "t5encoder": Kind(places(T5, "enc.blk", "encoder.block")),
}  # fmt: skip


def items(kind: str, n_classes: int = 1) -> list[tuple[Any, ...]]:
    """Four items of the data: (text, label) or texts that belong together, of different lengths."""
    if KINDS[kind].width > 1:
        return [tuple(hf_models.tokens(7 + 5 * i + 3 * j, 10 * i + j) for j in range(KINDS[kind].width))
                for i in range(4)]  # fmt: skip
    labels = [0.0, 1.0, 0.25, 1.0] if n_classes == 1 else [i % n_classes for i in (1, 0, 2, 1)]
    return [(hf_models.tokens(8 + 9 * i, i), labels[i]) for i in range(4)]


def types(kind: str, length: int) -> list[int]:
    """Which text of a pair each token is of."""
    return hf_models.types(kind, length) or [0] * length
