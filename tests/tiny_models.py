"""Tiny language models with random weights, one of each architecture, written by PyPI `gguf` from a seed.

scripts/record_models.py writes them too and records the logits that llama.cpp computes from them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gguf
import gguf_files
import numpy as np
from gguf.quants import quantize

VOCAB, LAYERS, CONTEXT = 96, 3, 256
IDS = np.random.default_rng(7).integers(3, VOCAB, 40).tolist()  # what the recorded logits are of
TYPES = ("F32", "Q8_0", "Q4_0")

# Keys by architecture; {arch}. precedes each name
SIZES: dict[str, dict[str, Any]] = {
    "llama": {"attention.head_count_kv": 2},
    "mixtral": {"attention.head_count_kv": 2, "expert_count": 4, "expert_used_count": 2},
    "llama+yarn": {"attention.head_count_kv": 2, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                   "rope.scaling.original_context_length": 32},
    "llama+freqs": {"attention.head_count_kv": 2, "rope.freq_base": 5e5},  # as Llama 3: factors of the frequencies
    "qwen2": {"attention.head_count_kv": 2, "rope.freq_base": 1e6},
    "qwen3": {"attention.head_count_kv": 2, "attention.key_length": 32, "attention.value_length": 32},
    "gemma2": {"attention.head_count_kv": 2, "attention.key_length": 32, "attention.value_length": 32,
               "attention.sliding_window": 16, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3": {"attention.head_count_kv": 1, "attention.key_length": 32, "attention.value_length": 32,
               "attention.sliding_window": 16, "rope.freq_base": 1e6},
    "gemma3+linear": {"attention.head_count_kv": 1, "attention.key_length": 32, "attention.value_length": 32,
                      "attention.sliding_window": 16, "rope.freq_base": 1e6, "rope.scaling.type": "linear",
                      "rope.scaling.factor": 8.0, "rope.freq_base_swa": 20000.0},
    "gpt2": {},
    "bert": {"attention.causal": False, "pooling_type": 1},
    "nomic-bert": {"attention.causal": False, "pooling_type": 1, "rope.freq_base": 1000.0},
}  # fmt: skip
WIDTH, HIDDEN, HEADS = 64, 96, 4
FLOATS = re.compile("token_types|position_embd|gate_inp")  # no program quantises these, nor the routers of experts


def architecture(kind: str) -> str:
    """The value of general.architecture: mixtures of experts are of the architecture llama."""
    return "llama" if kind == "mixtral" else kind.split("+")[0]


def keys(kind: str) -> dict[str, Any]:
    """The keys of a model, without the architecture's name before them."""
    layer_norm = kind in ("gpt2", "bert", "nomic-bert")
    # more layers, so that Gemma 3 has one that attends to everything
    return {
        "block_count": 6 if architecture(kind) == "gemma3" else LAYERS,
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        "attention.layer_norm_epsilon" if layer_norm else "attention.layer_norm_rms_epsilon": 1e-5,
        "vocab_size": VOCAB,
        **SIZES[kind],
    }


def shapes(kind: str) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights in NumPy order, by name."""
    k = keys(kind)
    dim = k.get("attention.key_length", WIDTH // HEADS)
    q, kv = HEADS * dim, k.get("attention.head_count_kv", HEADS) * dim
    out: dict[str, tuple[int, ...]] = {"token_embd.weight": (VOCAB, WIDTH)}
    if kind in ("gpt2", "bert"):
        out["position_embd.weight"] = (CONTEXT, WIDTH)
    if "bert" in kind:
        out |= {"token_types.weight": (2, WIDTH), "token_embd_norm.weight": (WIDTH,), "token_embd_norm.bias": (WIDTH,)}
    else:
        out["output_norm.weight"] = (WIDTH,)
    if kind == "gpt2":
        out["output_norm.bias"] = (WIDTH,)
    if kind == "llama+freqs":
        out["rope_freqs.weight"] = (dim // 2,)
    if architecture(kind) in ("llama", "qwen2"):  # the others use the embedding's matrix
        out["output.weight"] = (VOCAB, WIDTH)
    for i in range(k["block_count"]):
        out |= {f"blk.{i}.{name}": shape for name, shape in layer_shapes(kind, q, kv, dim).items()}
    return out


def layer_shapes(kind: str, q: int, kv: int, dim: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights of one layer."""
    norm = (WIDTH,)
    up, down = (HIDDEN, WIDTH), (WIDTH, HIDDEN)
    if kind in ("gpt2", "bert"):
        out: dict[str, tuple[int, ...]] = {"ffn_up.weight": up, "ffn_up.bias": (HIDDEN,), "ffn_down.weight": down,
                                           "ffn_down.bias": norm}  # fmt: skip
    elif kind == "mixtral":
        experts = keys(kind)["expert_count"]
        out = {"ffn_gate_inp.weight": (experts, WIDTH), "ffn_gate_exps.weight": (experts, *up),
               "ffn_up_exps.weight": (experts, *up), "ffn_down_exps.weight": (experts, *down)}  # fmt: skip
    else:
        out = {"ffn_gate.weight": up, "ffn_up.weight": up, "ffn_down.weight": down}
    out["attn_output.weight"] = (WIDTH, q)
    if kind in ("gpt2", "nomic-bert"):
        out["attn_qkv.weight"] = (q + 2 * kv, WIDTH)
    else:
        out |= {"attn_q.weight": (q, WIDTH), "attn_k.weight": (kv, WIDTH), "attn_v.weight": (kv, WIDTH)}
    if kind == "gpt2":
        out |= {"attn_qkv.bias": (q + 2 * kv,), "attn_output.bias": norm, "attn_norm.bias": norm, "ffn_norm.bias": norm}
    if kind in ("qwen2", "bert"):
        out |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    if "bert" in kind:
        out |= {f"{name}.{part}": norm for name in ("attn_output_norm", "layer_output_norm")
                for part in ("weight", "bias")}  # fmt: skip
        if kind == "bert":
            out["attn_output.bias"] = norm
    else:
        out |= {"attn_norm.weight": norm, "ffn_norm.weight": norm}
    if architecture(kind) in ("qwen3", "gemma3"):
        out |= {"attn_q_norm.weight": (dim,), "attn_k_norm.weight": (dim,)}
    if architecture(kind) in ("gemma2", "gemma3"):
        out |= {"post_attention_norm.weight": norm, "post_ffw_norm.weight": norm}
    return out


def weights(kind: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights: matrices of variance 1 / n_in, norms around 1, small biases."""
    rng, out = np.random.default_rng(seed), {}
    for name, shape in shapes(kind).items():
        values = rng.standard_normal(shape, dtype=np.float32)
        if name.endswith("norm.weight"):
            values = 1 + 0.2 * values
        elif name == "rope_freqs.weight":
            values = np.linspace(1, 8, *shape)
        elif name.endswith("bias"):
            values *= 0.1
        else:
            values /= np.sqrt(shape[-1])
        out[name] = values.astype(np.float32)
    return out


def vocabulary() -> list[str]:
    """Tokens of a byte-pair vocabulary without merges: control tokens, then single characters."""
    return ["<s>", "</s>", "<unk>"] + [chr(33 + i) for i in range(VOCAB - 3)]


def write(path: Path | str, kind: str, type_: str = "F32", seed: int = 0, drop: tuple[str, ...] = (),
          change: dict[str, Any] | None = None, tensors: dict[str, np.ndarray] | None = None) -> Path:  # fmt: skip
    """Writes a model.

    Args:
        path: the new file.
        kind: key of SIZES.
        type_: type of the matrices whose rows are whole blocks: F32 or one that `gguf` can quantise to.
        seed: seed of the weights.
        drop: keys and tensors to leave out.
        change: keys with other values.
        tensors: other weights.
    Returns:
        The path.
    """
    arch = architecture(kind)
    writer = gguf.GGUFWriter(path, arch)
    add_vocabulary(writer, kind)
    fields = {**{f"{arch}.{name}": value for name, value in keys(kind).items()}, **(change or {})}
    for name in (*fields, *drop):
        for known in writer.kv_data:  # of the vocabulary
            known.pop(name, None)
    for name, value in fields.items():
        if name in drop:
            continue
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, list):
            writer.add_array(name, value)
        else:
            (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(name, value)
    for name, values in (tensors or weights(kind, seed)).items():
        if name in drop:
            continue
        if type_ != "F32" and values.ndim > 1 and values.shape[-1] % 32 == 0 and not FLOATS.search(name):
            kind_of = getattr(gguf.GGMLQuantizationType, type_)
            writer.add_tensor(name, quantize(values, kind_of), raw_dtype=kind_of)
        else:
            writer.add_tensor(name, values)
    gguf_files.finish(writer)
    return Path(path)


def write_as(path: Path, kind: str, arch: str, more: dict[str, Any], keys: dict[str, Any] | None = None) -> Path:
    """Writes the F32 model of a kind as one of another architecture.

    Args:
        path: the new file.
        kind: key of SIZES, and the architecture there.
        arch: architecture to name.
        more: further keys, without the name of the architecture.
        keys: further keys as a whole.
    Returns:
        The path.
    """
    reader = gguf.GGUFReader(write(path.with_suffix(f".{kind}"), kind))
    values = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    del values["general.architecture"]
    values = {re.sub(rf"^{kind}\.", f"{arch}.", name): value for name, value in values.items()}
    values |= {f"{arch}.{name}": value for name, value in more.items()} | (keys or {})
    writer = gguf.GGUFWriter(path, arch)
    for name, value in values.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add.get(type(value), writer.add_array)(name, value)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data)
    gguf_files.finish(writer)
    return path


def write_all(folder: Path) -> Path:
    """Writes the F32 model of each architecture to files named after it. Returns the folder."""
    for kind in SIZES:
        write(folder / f"{kind}.gguf", kind)
    return folder


def add_vocabulary(writer: gguf.GGUFWriter, kind: str) -> None:
    """Byte-pair tokens, or WordPiece for the encoders."""
    tokens = vocabulary()
    types = [3, 3, 2] + [1] * (VOCAB - 3)  # control, unknown, normal
    writer.add_tokenizer_model("bert" if "bert" in kind else "gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if "bert" in kind:
        writer.add_token_type_count(2)
        writer.add_unk_token_id(2)
    else:
        writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)


LORA_RANK, LORA_ALPHA = 4, 8.0


def lora_weights(kind: str, tables: bool = False, seed: int = 1) -> dict[str, np.ndarray]:
    """Random pairs of matrices for the weights of the layers, by their names in a file.

    With `tables` also for the embedding, whose pair is that of the transposed table, and the output matrix if any.
    """
    rng, out = np.random.default_rng(seed), {}
    for name, shape in shapes(kind).items():
        if len(shape) == 2 and not FLOATS.search(name) and (tables or name.startswith("blk.")):
            n_out, n_in = shape[::-1] if name.startswith("token_embd") else shape
            pair = {"a": (LORA_RANK, n_in), "b": (n_out, LORA_RANK)}
            if name.startswith("token_embd"):
                pair["a"] = pair["a"][::-1]
            for part, size in pair.items():
                values = rng.standard_normal(size, dtype=np.float32) / np.sqrt(size[1])
                out[f"{name}.lora_{part}"] = (0.3 * values).astype(np.float32)
    return out


def write_lora(path: Path | str, kind: str, tensors: dict[str, np.ndarray] | None = None) -> Path:
    """Writes an adapter of random pairs for the matrices of the layers, or of other tensors; returns the path."""
    writer = gguf.GGUFWriter(path, architecture(kind))
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", LORA_ALPHA)
    for name, values in (tensors or lora_weights(kind)).items():
        writer.add_tensor(name, values)
    gguf_files.finish(writer)
    return Path(path)


class Letters:
    """A tokenizer of one character per token."""

    bos, eos, eog, n_vocab = 0, 1, {1}, VOCAB

    def encode(self, text, add_bos=None, special=False):
        return [ord(c) - 33 + 3 for c in text]

    def decode(self, ids):
        return "".join(chr(i - 3 + 33) for i in ids if i >= 3)

    def decoder(self):
        return self

    def push(self, token):
        return self.decode([token])

    def flush(self):
        return ""
