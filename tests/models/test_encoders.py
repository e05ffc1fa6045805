"""Encoders that transformers has no class for: they compute what NumPy computes by the definitions."""

import math

import numpy as np
import pytest

for library in ("safetensors", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402
from encoder_training import check_texts_are_learned  # noqa: E402

from ggml.models import convert, load  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*has no tokenizer")
C, H, FF, LAYERS, EXPERTS, USED, EPS = 64, 6, 80, 3, 4, 2, 1e-12
D = 12  # 6 heads of 12: the slopes of ALiBi are those of 4 heads and of every second of 8
erf = np.vectorize(math.erf)


def gelu(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Reference:
    """Layers in float64, with the names of the folder."""

    def __init__(self, shapes):
        self.w = {name: hf_models.weight(name, tuple(shape), 0).astype(np.float64) for name, shape in shapes.items()}

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0)

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * self.w[name + ".weight"] + self.w[name + ".bias"]

    def attention(self, q, k, v, bias):
        """q, k, v [tokens, heads, size]; bias [heads, tokens, tokens]."""
        scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1]) + bias
        return np.einsum("hij,jhd->ihd", softmax(scores), v).reshape(len(q), -1)


def slopes():
    """Of ALiBi for 6 heads: 2^-2, 2^-4, 2^-6, 2^-8, then 2^-1, 2^-3 (those of 8 heads, every second)."""
    return np.array([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3])


def with_biases(shapes):
    return {**shapes, **{name.replace(".weight", ".bias"): shape[:1] for name, shape in shapes.items()
                         if "embeddings." not in name or "LayerNorm" in name}}  # fmt: skip


def jina(code):
    """Names and shapes of jina-bert-v2, for text or for code."""
    size = H * D
    shapes = {"embeddings.word_embeddings.weight": [64, size], "embeddings.token_type_embeddings.weight": [2, size],
              "embeddings.LayerNorm.weight": [size]}  # fmt: skip
    for i in range(LAYERS):
        b = f"encoder.layer.{i}."
        for name in ("query", "key", "value"):
            shapes[f"{b}attention.self.{name}.weight"] = [size, size]
        last = "layer_norm_2" if code else "mlp.layernorm"
        shapes |= {f"{b}attention.output.dense.weight": [size, size], f"{b}attention.output.LayerNorm.weight": [size],
                   f"{b}mlp.wo.weight": [size, FF], f"{b}{last}.weight": [size]}  # fmt: skip
        if code:
            names = ("attention.self.layer_norm_q", "attention.self.layer_norm_k", "layer_norm_1")
            shapes |= {f"{b}{name}.weight": [size] for name in names}
    shapes = with_biases(shapes)
    return shapes | {f"encoder.layer.{i}.mlp.gated_layers.weight": [2 * FF, size] for i in range(LAYERS)}


def jina_states(shapes, ids, code):
    r = Reference(shapes)
    x = r.w["embeddings.word_embeddings.weight"][ids] + r.w["embeddings.token_type_embeddings.weight"][0]
    x = r.norm(x, "embeddings.LayerNorm")
    distance = np.abs(np.arange(len(ids))[:, None] - np.arange(len(ids)))
    bias = -slopes()[:, None, None] * distance
    for i in range(LAYERS):
        b = f"encoder.layer.{i}."
        q, k, v = (r.linear(x, f"{b}attention.self.{name}") for name in ("query", "key", "value"))
        if code:
            q, k = (r.norm(t, f"{b}attention.self.layer_norm_{name}") for t, name in ((q, "q"), (k, "k")))
        h = r.attention(*(t.reshape(len(ids), H, D) for t in (q, k, v)), bias)
        h = r.norm(x + r.linear(h, f"{b}attention.output.dense"), f"{b}attention.output.LayerNorm")
        if code:
            h = r.norm(x + h, f"{b}layer_norm_1")
        a, other = np.split(r.linear(h, f"{b}mlp.gated_layers"), 2, -1)
        x = r.norm(h + r.linear(gelu(a) * other, f"{b}mlp.wo"), b + ("layer_norm_2" if code else "mlp.layernorm"))
    return x


def compare(folder, tmp_path, expected_of):
    convert(folder, tmp_path / "model.gguf")
    texts = [hf_models.tokens(length) for length in (48, 131, 5)]
    with load(tmp_path / "model.gguf", threads=1) as model:
        for found, ids in zip(model.embed(texts, pooling="none"), texts, strict=True):
            expected = expected_of(ids)
            assert ((found - expected) ** 2).sum() < 1e-9 * (expected**2).sum()


def jina_folder(folder, code):
    config = {"architectures": ["JinaBertModel"], "hidden_size": H * D, "num_attention_heads": H,
              "num_hidden_layers": LAYERS, "intermediate_size": FF, "max_position_embeddings": 256, "vocab_size": 64,
              "layer_norm_eps": EPS, "position_embedding_type": "alibi", "feed_forward_type": "geglu",
              "type_vocab_size": 2}  # fmt: skip
    return hf_models.write_folder(folder, config, jina(code))


@pytest.mark.parametrize("code", [False, True])
def test_jina_bert_v2(code, tmp_path):
    compare(jina_folder(tmp_path / "folder", code), tmp_path, lambda ids: jina_states(jina(code), ids, code))


def rotated(x, base):
    """Rotary positions of [tokens, heads, size]: pairs (i, i + size / 2)."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def nomic():
    """Names and shapes of nomic-bert-moe, whose layers 1, 3, ... have experts."""
    shapes = {"embeddings.word_embeddings.weight": [64, C], "embeddings.token_type_embeddings.weight": [1, C],
              "emb_ln.weight": [C]}  # fmt: skip
    for i in range(LAYERS):
        b = f"encoder.layers.{i}."
        shapes |= {f"{b}attn.Wqkv.weight": [3 * C, C], f"{b}attn.out_proj.weight": [C, C], f"{b}norm1.weight": [C],
                   f"{b}norm2.weight": [C]}  # fmt: skip
        if i % 2 == 0:
            shapes |= {f"{b}mlp.fc1.weight": [FF, C], f"{b}mlp.fc2.weight": [C, FF]}
    shapes = with_biases(shapes)
    for i in range(1, LAYERS, 2):
        b = f"encoder.layers.{i}.mlp."
        shapes |= {f"{b}router.layer.weight": [EXPERTS, C], f"{b}experts.mlp.w1": [EXPERTS * FF, C],
                   f"{b}experts.mlp.w2": [EXPERTS * FF, C], f"{b}experts.bias": [C]}  # fmt: skip
    return shapes


def nomic_states(shapes, ids):
    """Without the bias of the experts, which a GGUF file has no place for."""
    r = Reference(shapes)
    x = r.w["embeddings.word_embeddings.weight"][ids] + r.w["embeddings.token_type_embeddings.weight"][0]
    x = r.norm(x, "emb_ln")
    for i in range(LAYERS):
        b = f"encoder.layers.{i}."
        q, k, v = np.split(r.linear(x, f"{b}attn.Wqkv").reshape(len(ids), -1, C // 4), 3, 1)
        h = r.attention(rotated(q, 1000.0), rotated(k, 1000.0), v, 0)
        x = r.norm(x + r.linear(h, f"{b}attn.out_proj"), f"{b}norm1")
        if i % 2 == 0:
            h = r.linear(gelu(r.linear(x, f"{b}mlp.fc1")), f"{b}mlp.fc2")
        else:
            shares, h = softmax(r.linear(x, f"{b}mlp.router.layer")), np.zeros_like(x)
            up, down = (r.w[f"{b}mlp.experts.mlp.w{n}"].reshape(EXPERTS, FF, C) for n in (1, 2))
            for t, share in enumerate(shares):
                for e in np.argsort(-share)[:USED]:
                    h[t] += share[e] * (gelu(up[e] @ x[t]) @ down[e])
        x = r.norm(x + h, f"{b}norm2")
    return x


def nomic_folder(folder):
    config = {"architectures": ["NomicBertModel"], "n_embd": C, "n_head": 4, "n_layer": LAYERS, "n_inner": FF,
              "n_positions": 256, "vocab_size": 64, "layer_norm_epsilon": EPS, "rotary_emb_base": 1000.0,
              "activation_function": "gelu", "num_experts": EXPERTS, "moe_top_k": USED, "moe_every_n_layers": 2,
              "moe_normalize_expert_weights": False, "type_vocab_size": 1}  # fmt: skip
    return hf_models.write_folder(folder, config, nomic())


def test_nomic_bert_moe(tmp_path):
    compare(nomic_folder(tmp_path / "folder"), tmp_path, lambda ids: nomic_states(nomic(), ids))


@pytest.mark.parametrize("kind", ["jina", "jina for code", "nomic"])
def test_adapters_are_trained(kind, tmp_path):
    """Beside the matrices of experts too, where no single text can have them."""
    folder = tmp_path / "folder"
    folder = nomic_folder(folder) if kind == "nomic" else jina_folder(folder, kind != "jina")
    with load(folder, threads=1) as model:
        check_texts_are_learned(model, tmp_path, named=kind != "nomic")
