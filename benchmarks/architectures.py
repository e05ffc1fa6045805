"""Compares the speed of each architecture with llama.cpp's: files of random weights, at the widths of published models.

    python benchmarks/architectures.py shapes FOLDER [KIND...]      needs PyTorch and transformers; writes FOLDER/KIND
    python benchmarks/architectures.py write FOLDER [KIND...]       writes FOLDER/KIND.gguf
    python benchmarks/architectures.py measure FOLDER PYTHON [KIND...]   adds rates to FOLDER/rates.json
    python benchmarks/architectures.py table FOLDER                 prints the table of benchmarks/README.md

A kind is one of tests/hf_models.py; here it has the widths of WIDTHS, as few layers as its pattern of layers allows, a
vocabulary of 8,192 tokens and often fewer experts than the published model. The first step writes folders whose weights
are holes in a file; the second plans the file as `ggml convert` does, with types of Q4_K_M, and fills it with random
rows. PYTHON is the interpreter of an environment with llama-cpp-python. Both libraries take turns (model_engines.py),
and the best of the rounds counts, those of former calls too: ratios above 1 mean that this one is faster.
"""

import contextlib
import ctypes
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

import hf_models  # noqa: E402
from model_files import ROWS, number, quantized_rows  # noqa: E402

VOCAB, THREADS, ROUNDS = 8192, 2, 3
READ, WRITTEN = 256, 24  # tokens of a prompt and of an answer


def dense(width, hidden, heads, kv, **more):
    return {"hidden_size": width, "intermediate_size": hidden, "num_attention_heads": heads,
            "num_key_value_heads": kv, **more}  # fmt: skip


# Kind: the model whose widths these are, and settings beside those of the tiny model
WIDTHS = {
    "llama": ("Llama 3.2 1B", dense(2048, 8192, 32, 8, head_dim=64, num_hidden_layers=4)),
    "mixtral": ("Mixtral 8x7B, 4 experts", dense(4096, 14336, 32, 8, head_dim=128, num_hidden_layers=1)),
    "qwen2": ("Qwen2.5 1.5B", dense(1536, 8960, 12, 2, num_hidden_layers=4)),
    "qwen3": ("Qwen3 1.7B", dense(2048, 6144, 16, 8, head_dim=128, num_hidden_layers=4)),
    "gemma": ("Gemma 2B", dense(2048, 16384, 8, 1, head_dim=256)),
    "gemma2": ("Gemma 2 2B", dense(2304, 9216, 8, 4, head_dim=256, sliding_window=4096,
                                     query_pre_attn_scalar=256)),
    "gemma3": ("Gemma 3 4B", dense(2560, 10240, 8, 4, head_dim=256, sliding_window=1024,
                                     query_pre_attn_scalar=256)),
    "gemma4": ("Gemma 4 E2B", dense(1536, 6144, 8, 1, head_dim=256, global_head_dim=512, sliding_window=512,
                                    hidden_size_per_layer_input=256, vocab_size_per_layer_input=VOCAB)),
    "qwen3moe": ("Qwen3 30B-A3B", dense(2048, 6144, 32, 4, head_dim=128, num_experts=128, num_experts_per_tok=8,
                                        moe_intermediate_size=768, num_hidden_layers=2)),
    "qwen2moe": ("Qwen1.5 MoE A2.7B", dense(2048, 5632, 16, 16, num_experts=60, num_experts_per_tok=4,
                                            moe_intermediate_size=1408, shared_expert_intermediate_size=5632,
                                            num_hidden_layers=2)),
    "deepseek2+lite": ("DeepSeek V2 Lite", dense(2048, 10944, 16, 16, kv_lora_rank=512, qk_nope_head_dim=128,
                                                 qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=64,
                                                 num_experts_per_tok=6, moe_intermediate_size=1408)),
    "minicpm3": ("MiniCPM3 4B", dense(2560, 6400, 40, 40, q_lora_rank=768, kv_lora_rank=256, qk_nope_head_dim=64,
                                      qk_rope_head_dim=32)),
    "ernie4_5-moe": ("ERNIE 4.5 21B-A3B", dense(2560, 12288, 20, 4, moe_num_experts=64, moe_k=6,
                                                moe_intermediate_size=1536)),
    "ernie4_5": ("ERNIE 4.5 0.3B", dense(1024, 3072, 16, 2, head_dim=128, num_hidden_layers=6)),
    "glm4moe": ("GLM-4.5-Air, 32 experts", dense(4096, 10944, 96, 8, head_dim=128, n_routed_experts=32,
                                                 num_experts_per_tok=8, moe_intermediate_size=1408,
                                                 num_hidden_layers=2)),
    "gpt-oss": ("gpt-oss 20B", dense(2880, 2880, 64, 8, head_dim=64, num_local_experts=32, num_experts_per_tok=4,
                                     sliding_window=128, num_hidden_layers=2,
                                     layer_types=["sliding_attention", "full_attention"])),
    "bitnet": ("BitNet 2B", dense(2560, 6912, 20, 5)),
    "smollm3": ("SmolLM3 3B", dense(2048, 11008, 16, 4)),
    "mistral3": ("Ministral 3 3B", dense(3072, 9216, 32, 8, head_dim=128)),
    "llama4": ("Llama 4 Scout, 4 experts", dense(5120, 8192, 40, 8, head_dim=128, intermediate_size_mlp=16384,
                                                 num_local_experts=4, num_hidden_layers=2)),
    "hunyuan": ("Hunyuan 1.8B", dense(2048, 6144, 16, 4, head_dim=128)),
    "granite": ("Granite 3.3 2B", dense(2048, 8192, 32, 8)),
    "granitemoe": ("Granite 3 1B-A400M", dense(1024, 512, 16, 8, num_local_experts=32, num_experts_per_tok=8)),
    "minicpm": ("MiniCPM 2B", dense(2304, 5760, 36, 36)),
    "phi3": ("Phi-4-mini", dense(3072, 8192, 24, 8, sliding_window=None)),
    "phimoe": ("Phi-3.5-MoE, 8 experts", dense(4096, 6400, 32, 8, num_local_experts=8, num_hidden_layers=1)),
    "glm4": ("GLM-4 9B", dense(4096, 13696, 32, 2, head_dim=128, num_hidden_layers=2)),
    "olmo2": ("OLMo 2 1B", dense(2048, 8192, 16, 16)),
    "olmo3": ("OLMo 3 7B", dense(4096, 11008, 32, 32, sliding_window=4096)),
    "exaone4": ("EXAONE 4 1.2B", dense(2048, 4096, 32, 8, num_hidden_layers=4)),
    "qwen3next": ("Qwen3 Next 80B-A3B, 64 experts", dense(
        2048, 5120, 16, 2, head_dim=256, linear_key_head_dim=128, linear_value_head_dim=128, linear_num_key_heads=16,
        linear_num_value_heads=32, num_experts=64, num_experts_per_tok=10, moe_intermediate_size=512,
        shared_expert_intermediate_size=512)),
    "qwen35": ("Qwen3.5 2B", dense(
        2048, 6144, 8, 2, head_dim=256, linear_key_head_dim=128, linear_value_head_dim=128, linear_num_key_heads=16,
        linear_num_value_heads=16)),
    "qwen35moe": ("Qwen3.5 35B-A3B, 64 experts", dense(
        2048, 5120, 16, 2, head_dim=256, linear_key_head_dim=128, linear_value_head_dim=128, linear_num_key_heads=16,
        linear_num_value_heads=32, num_experts=64, num_experts_per_tok=8, moe_intermediate_size=512,
        shared_expert_intermediate_size=512)),
    "mamba": ("Mamba 1.4B", {"hidden_size": 2048, "state_size": 16, "time_step_rank": 128, "num_hidden_layers": 4}),
    "mamba2": ("Mamba-2 1.3B", {"hidden_size": 2048, "state_size": 128, "num_heads": 64, "head_dim": 64, "n_groups": 1,
                                "num_hidden_layers": 4}),
    "granitehybrid": ("Granite 4.0 tiny", dense(
        1536, 512, 12, 4, num_local_experts=64, num_experts_per_tok=6, shared_intermediate_size=1024,
        mamba_n_heads=48, mamba_d_head=64, mamba_n_groups=1, mamba_d_state=128)),
    "falcon-h1+plain": ("Falcon-H1 1.5B", dense(2048, 4096, 8, 2, head_dim=128, mamba_d_ssm=3072, mamba_n_heads=48,
                                                mamba_d_head=64, mamba_n_groups=1, mamba_d_state=256)),
    "nemotron_h": ("Nemotron-H 4B", dense(3136, 12544, 32, 8, head_dim=128, mamba_num_heads=112, mamba_head_dim=64,
                                          n_groups=8, ssm_state_size=128)),
    "nemotron_h_moe": ("Nemotron 3 Nano, 32 experts", dense(
        2688, 1856, 32, 2, head_dim=128, mamba_num_heads=64, mamba_head_dim=64, n_groups=8, ssm_state_size=128,
        n_routed_experts=32, num_experts_per_tok=6, moe_intermediate_size=1856,
        moe_shared_expert_intermediate_size=3712)),
    "lfm2": ("LFM2 1.2B", dense(2048, 8192, 32, 8)),
    "lfm2moe": ("LFM2 8B-A1B", dense(2048, 7168, 32, 8, num_experts=32, num_experts_per_tok=4,
                                     moe_intermediate_size=1792)),
    "phi2": ("Phi-2", dense(2560, 10240, 32, 32)),
    "gptneox": ("Pythia 1.4B", {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 16}),
    "stablelm": ("StableLM 2 1.6B", dense(2048, 5632, 32, 32)),
    "starcoder2": ("StarCoder2 3B", dense(3072, 12288, 24, 2)),
    "nemotron": ("Nemotron Mini 4B", dense(3072, 9216, 24, 8)),
    "falcon": ("Falcon 7B", {"hidden_size": 4544, "num_attention_heads": 71, "ffn_hidden_size": 18176}),
    "command-r": ("Command R7B's", dense(4096, 14336, 32, 8)),
    "cohere2": ("Command R7B", dense(4096, 14336, 32, 8, sliding_window=4096)),
    "gpt2": ("GPT-2 large", {"n_embd": 1280, "hidden_size": 1280, "n_head": 20, "num_attention_heads": 20,
                             "n_layer": 4, "num_hidden_layers": 4, "n_positions": 4096}),
}  # fmt: skip


# ---- folders ---------------------------------------------------------------------------------------------------------
def write_shapes(folder, kind):
    """Writes a folder as Hugging Face saves a model, with holes in place of weights."""
    import torch
    import transformers
    from transformers.core_model_loading import revert_weight_conversion

    config_class, model_class, settings = hf_models.KINDS[kind]
    sizes = {**hf_models.settings_of(settings), "max_position_embeddings": 4096, "vocab_size": VOCAB, **WIDTHS[kind][1]}
    config = getattr(transformers, config_class)(**{name: v for name, v in sizes.items() if v is not None})
    with torch.device("meta"):
        model = getattr(transformers, model_class)(config)
    model.tie_weights()
    stored = revert_weight_conversion(model, model.state_dict())
    tied = set(model.all_tied_weights_keys) if config.tie_word_embeddings else set()
    shapes = {name: list(tensor.shape) for name, tensor in stored.items() if name not in tied}
    folder = folder / kind
    folder.mkdir(parents=True, exist_ok=True)
    written = {**config.to_dict(), "architectures": [model_class]} | hf_models.OTHER_SETTINGS.get(kind, {})
    (folder / "config.json").write_text(json.dumps(written))
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    print(kind, f"{end / 2e6:.0f} million weights", flush=True)


# ---- files -----------------------------------------------------------------------------------------------------------
def write_file(folder, kind):
    """Writes the file that `ggml convert` would make of the folder, with random rows."""
    import ggml
    from ggml._io import quantization
    from ggml.models.conversion.checkpoint import Checkpoint
    from ggml.models.conversion.driver import set_key
    from ggml.models.conversion.plan import check, new_tensor, plan_keys, plan_weights, row_of

    checkpoint = Checkpoint(folder / kind)
    row = row_of(checkpoint)
    keys, weights = plan_keys(checkpoint, row), plan_weights(checkpoint, row)
    check(checkpoint, keys, weights, row)
    keys |= {"tokenizer.ggml.model": "no_vocab", f"{row.arch}.vocab_size": weights["token_embd.weight"].shape[0],
             "general.quantization_version": ggml.GGML_QNT_VERSION}  # fmt: skip
    file, ctx = ggml.gguf_init_empty(), ggml.ggml_init(ggml.ggml_init_params(1 << 20, None, True))
    for name, weight in weights.items():
        tensor = new_tensor(ctx, weight.shape, weight.kind)
        ggml.ggml_set_name(tensor, name.encode())
        ggml.gguf_add_tensor(file, tensor)
    types = quantization.plan(file, quantization.Request("Q4_K_M"))[0]
    types = {name: types.get(name) or ggml.ggml_type_name(w.kind).decode().upper() for name, w in weights.items()}
    for name, kind_ in types.items():
        ggml.gguf_set_tensor_type(file, name, number(kind_))
    for key, value in keys.items():
        set_key(file, key, value)
    meta = ctypes.create_string_buffer(ggml.gguf_get_meta_size(file))
    ggml.gguf_get_meta_data(file, meta)
    alignment, random = ggml.gguf_get_alignment(file), np.random.default_rng(0)
    with open(folder / f"{kind}.gguf", "wb") as out:
        out.write(meta.raw)
        for name, weight in weights.items():
            out.write(values_of(name, weight, types[name], random))
            out.write(bytes(-out.tell() % alignment))
    ggml.gguf_free(file)
    ggml.ggml_free(ctx)
    print(kind, f"{(folder / f'{kind}.gguf').stat().st_size / 1e6:.0f} MB", flush=True)


def values_of(name, weight, kind, random):
    """The bytes of a tensor: vectors near those of trained models, rows of matrices that repeat."""
    if weight.values is not None:
        return weight.values.astype(np.float32).tobytes()
    count = int(np.prod(weight.shape))
    if kind == "F32" and (len(weight.shape) == 1 or count <= 1 << 16):
        value = -1.0 if name.endswith("ssm_a") else 1.0 if "norm" in name else 0.02
        return np.full(count, value, np.float32).tobytes()
    width, rows = weight.shape[-1], count // weight.shape[-1]
    if kind in ("F16", "BF16"):
        values = (random.standard_normal((ROWS, width), np.float32) * np.float32(width**-0.5)).view(np.uint32) >> 16
        block = values.astype(np.uint16).tobytes()
        if kind == "F16":
            block = random.standard_normal((ROWS, width)).astype(np.float16).tobytes()
    else:
        block = quantized_rows(width, kind, random)
    return (block * (-(-rows // ROWS)))[: len(block) // ROWS * rows]


# ---- rates -----------------------------------------------------------------------------------------------------------
def measure(folder, python, kind):
    """Adds the rates of both libraries, reading and writing, to the file of rates."""
    from models import Engine

    path = folder / f"{kind}.gguf"
    pythons, found = {"ggml": sys.executable, "llama_cpp": python}, {}
    with contextlib.ExitStack() as stack:
        engines = {}
        for library, interpreter in pythons.items():
            engines[library] = Engine(interpreter, library, path, THREADS, READ + WRITTEN + 32, 1)
            stack.callback(engines[library].close)
        for name, request, tokens in (("read", (0, READ), READ), ("write", (16, WRITTEN), WRITTEN)):
            seconds = {library: [] for library in engines}
            for _ in range(ROUNDS):
                for library, engine in engines.items():
                    seconds[library].append(engine.ask(name, *request))
            best = {library: tokens / min(times) for library, times in seconds.items() if None not in times}
            found[name] = best
    rates = read_rates(folder)
    former = rates.get(kind, {})
    for name, best in found.items():
        for library, rate in former.get(name, {}).items():
            best[library] = max(rate, best.get(library, 0))
    rates[kind] = found
    (folder / "rates.json").write_text(json.dumps(rates, indent=1))
    print(kind, *(f"{name} {b.get('ggml', 0) / b['llama_cpp']:.2f}" if "llama_cpp" in b else f"{name} {b}"
                  for name, b in found.items()), flush=True)  # fmt: skip


def read_rates(folder):
    path = folder / "rates.json"
    return json.loads(path.read_text()) if path.exists() else {}


def table(folder):
    """The table in Markdown."""
    lines = [
        "| kind | widths of | tokens/s reading | ratio | tokens/s writing | ratio |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for kind, found in sorted(read_rates(folder).items()):
        cells = []
        for name in ("read", "write"):
            ours, theirs = (found[name].get(library) for library in ("ggml", "llama_cpp"))
            cells += [f"{ours:,.0f}" if ours else "", f"{ours / theirs:.2f}" if ours and theirs else ""]
        lines.append(f"| `{kind}` | {WIDTHS[kind][0]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    step, folder, *rest = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if step == "table":
        print(table(folder))
        return
    warnings.simplefilter("ignore")
    python, kinds = (rest[0], rest[1:]) if step == "measure" else ("", rest)
    for kind in kinds or WIDTHS:
        try:
            if step == "measure":
                measure(folder, python, kind)
            else:
                {"shapes": write_shapes, "write": write_file}[step](folder, kind)
        except (ValueError, TypeError, AttributeError, OSError, KeyError) as error:
            print(kind, type(error).__name__, str(error)[:300], flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    main()
