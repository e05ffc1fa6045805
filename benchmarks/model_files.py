"""Files of random weights with the shapes of known language models, for benchmarks/models.py.

Speed does not depend on the values, as long as they are normal numbers: a tensor is a block of random rows, quantised
once and repeated.
"""

import ctypes
from pathlib import Path
from typing import NamedTuple

import numpy as np

import ggml

ROWS = 64  # random rows of a tensor; the others repeat them
CONTEXT = 1 << 16  # tokens that the file says the model was trained for


class Shape(NamedTuple):
    """The sizes of a model; n_ff is that of an expert where there are experts."""

    arch: str
    n_layer: int
    n_embd: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_size: int
    n_vocab: int
    tied: bool = True
    n_expert: int = 0
    n_used: int = 0


SHAPES = {
    "SmolLM2-135M": Shape("llama", 30, 576, 1536, 9, 3, 64, 49152),
    "Qwen3-0.6B": Shape("qwen3", 28, 1024, 3072, 16, 8, 128, 151936),
    "LLaMA-1B": Shape("llama", 16, 2048, 8192, 32, 8, 64, 128256),
    "LLaMA-3B": Shape("llama", 28, 3072, 8192, 24, 8, 128, 128256),
    "LLaMA-8B": Shape("llama", 32, 4096, 14336, 32, 8, 128, 128256, tied=False),
    "Qwen3-MoE, 4 layers": Shape("qwen3moe", 4, 2048, 768, 32, 4, 128, 151936, tied=False, n_expert=128, n_used=8),
    "tiny": Shape("llama", 2, 64, 128, 4, 2, 16, 320),
}


def parameters(shape):
    """The number of weights of a model."""
    return sum(int(np.prod(ne)) for _, ne, _ in tensors(shape, "F32"))


def tensors(shape, kind):
    """(name, ne, type) of each tensor; matrices whose rows do not fit blocks of the type `kind` have another."""
    s, width, kv_width = shape, shape.n_head * shape.head_size, shape.n_head_kv * shape.head_size

    def matrix(name, *ne, kind=kind):
        return name + ".weight", ne, kind if ne[0] % block(kind) == 0 else "Q8_0"

    def vector(name, n):
        return name + ".weight", (n,), "F32"

    outer = "Q6_K" if kind == "Q4_K" else kind
    yield matrix("token_embd", s.n_embd, s.n_vocab, kind=outer)
    yield vector("output_norm", s.n_embd)
    if not s.tied:
        yield matrix("output", s.n_embd, s.n_vocab, kind=outer)
    for i in range(s.n_layer):
        b = f"blk.{i}."
        yield vector(b + "attn_norm", s.n_embd)
        yield matrix(b + "attn_q", s.n_embd, width)
        yield matrix(b + "attn_k", s.n_embd, kv_width)
        yield matrix(b + "attn_v", s.n_embd, kv_width)
        yield matrix(b + "attn_output", width, s.n_embd)
        if s.arch.startswith("qwen3"):
            yield vector(b + "attn_q_norm", s.head_size)
            yield vector(b + "attn_k_norm", s.head_size)
        yield vector(b + "ffn_norm", s.n_embd)
        if s.n_expert:
            yield matrix(b + "ffn_gate_inp", s.n_embd, s.n_expert, kind="F32")
        experts, suffix = ((s.n_expert,), "_exps") if s.n_expert else ((), "")
        yield matrix(b + "ffn_gate" + suffix, s.n_embd, s.n_ff, *experts)
        yield matrix(b + "ffn_up" + suffix, s.n_embd, s.n_ff, *experts)
        yield matrix(b + "ffn_down" + suffix, s.n_ff, s.n_embd, *experts)


def block(kind):
    return ggml.ggml_blck_size(number(kind))


def number(kind):
    return getattr(ggml, "GGML_TYPE_" + kind)


def keys(shape):
    """The keys of a file: name -> int, float or str."""
    s, a = shape, shape.arch + "."
    found = {
        "general.architecture": s.arch, "general.quantization_version": ggml.GGML_QNT_VERSION,
        "tokenizer.ggml.model": "no_vocab", a + "vocab_size": s.n_vocab, a + "block_count": s.n_layer,
        a + "context_length": CONTEXT, a + "embedding_length": s.n_embd, a + "feed_forward_length": s.n_ff,
        a + "attention.head_count": s.n_head, a + "attention.head_count_kv": s.n_head_kv,
        a + "attention.key_length": s.head_size, a + "attention.value_length": s.head_size,
        a + "attention.layer_norm_rms_epsilon": 1e-5, a + "rope.dimension_count": s.head_size,
        a + "rope.freq_base": 500000.0,
    }  # fmt: skip
    if s.n_expert:
        found |= {a + "expert_count": s.n_expert, a + "expert_used_count": s.n_used}
        found |= {a + "expert_feed_forward_length": s.n_ff}
    return found


def quantized_rows(width, kind, random):
    """ROWS random rows of a type, as bytes."""
    values = random.standard_normal((ROWS, width), np.float32) * np.float32(width**-0.5)
    if kind == "F32":
        return values.tobytes()
    out = ctypes.create_string_buffer(ROWS * ggml.ggml_row_size(number(kind), width))
    ggml.ggml_quantize_chunk(number(kind), values.ctypes.data, out, 0, ROWS, width, None)
    return out.raw


def write(path, shape, kind="Q4_K"):
    """Writes a file.

    Args:
        path: the file.
        shape: Shape.
        kind: name of the type of matrices.
    """
    random, made = np.random.default_rng(0), {}
    listed = list(tensors(shape, kind))
    file, ctx = ggml.gguf_init_empty(), ggml.ggml_init(ggml.ggml_init_params(1 << 20, None, True))
    setters = {int: ggml.gguf_set_val_u32, float: ggml.gguf_set_val_f32, str: ggml.gguf_set_val_str}
    for key, value in keys(shape).items():
        setters[type(value)](file, key.encode(), value.encode() if isinstance(value, str) else value)
    for name, ne, type_ in listed:
        tensor = ggml.ggml_new_tensor_3d(ctx, number(type_), *(*ne, 1, 1)[:3])
        ggml.ggml_set_name(tensor, name.encode())
        ggml.gguf_add_tensor(file, tensor)
    meta = ctypes.create_string_buffer(ggml.gguf_get_meta_size(file))
    ggml.gguf_get_meta_data(file, meta)
    alignment = ggml.gguf_get_alignment(file)
    with open(path, "wb") as out:
        out.write(meta.raw)
        for _, ne, type_ in listed:
            if len(ne) == 1:
                out.write(np.ones(ne, np.float32).tobytes())
            else:
                if (ne[0], type_) not in made:
                    made[ne[0], type_] = quantized_rows(ne[0], type_, random)
                rows = made[ne[0], type_]
                count = int(np.prod(ne[1:]))
                out.writelines([rows] * (count // ROWS))
                out.write(rows[: len(rows) // ROWS * (count % ROWS)])
            out.write(bytes(-out.tell() % alignment))
    ggml.gguf_free(file)
    ggml.ggml_free(ctx)


def path_of(folder, name, kind="Q4_K"):
    """The file of a model in a folder; written if it is not there."""
    path = Path(folder) / f"{name.replace(', ', '-').replace(' ', '-')}-{kind}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        write(unfinished, SHAPES[name], kind)
        unfinished.rename(path)
    return path
