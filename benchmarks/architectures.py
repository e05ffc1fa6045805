"""Compares the speed of each architecture with llama.cpp's: files of random weights, at the widths of published models.

    python benchmarks/architectures.py shapes FOLDER [KIND...]      needs PyTorch and transformers; writes FOLDER/KIND
    python benchmarks/architectures.py write FOLDER [KIND...]       writes FOLDER/KIND.gguf; needs the extra [test]
    python benchmarks/architectures.py measure FOLDER [PEER=PYTHON...] [KIND...]    adds to FOLDER/rates.json
    python benchmarks/architectures.py table FOLDER                 prints the tables of benchmarks/README.md

A kind is one of tests/hf_models.py; here it has the widths of WIDTHS, as few layers as its pattern of layers allows, a
vocabulary of 8,192 tokens and often fewer experts than the published model. The first step writes folders whose weights
are holes in a file; the second plans the file as `ggml convert` does, with types of Q4_K_M, and fills it with random
rows. Kinds without a class in transformers (SCALED) get their shapes in the second step, from the tiny models of the
tests. PEER is llama_cpp or ik_llama_cpp, and PYTHON the interpreter of an environment with that package. The libraries
take turns (model_engines.py), and the best of the rounds counts, those of former calls too: ratios above 1 mean that
this one is faster. With GGML_ISA in the environment, rates and table are those of that instruction set (FOLDER/
rates-avx2.json), which a peer that was built for it can be compared with.

Of a language model tokens per second are those of reading a prompt and of writing an answer; of an encoder those of
embedding one text, and some short ones together. An encoder with a decoder has read when the decoder's first token is
known: llama.cpp computes the keys and values of cross attention with each token, this library once when it reads.
"""

import contextlib
import ctypes
import json
import os
import struct
import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "models")]

import hf_models  # noqa: E402
from model_files import ROWS, number, quantized_rows  # noqa: E402

VOCAB, THREADS, ROUNDS = 8192, 2, 3
READ, WRITTEN = 256, 24  # tokens of a prompt and of an answer
TEXTS, SHORT = 8, 32  # texts that are embedded together, and their tokens
PEERS = {"llama_cpp": "llama.cpp", "ik_llama_cpp": "ik_llama.cpp"}


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
                                                 num_local_experts=4, num_hidden_layers=4)),
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
    "gemma3n": ("Gemma 3n E2B", dense(2048, 8192, 8, 2, head_dim=256, sliding_window=512, laurel_rank=64,
                                      altup_num_inputs=4, num_kv_shared_layers=0, vocab_size_per_layer_input=VOCAB,
                                      hidden_size_per_layer_input=256)),
    "bert": ("BGE base", dense(768, 3072, 12, None, num_hidden_layers=4)),
    "roberta": ("BGE-M3", dense(1024, 4096, 16, None, num_hidden_layers=4)),
    "nomic-bert": ("nomic-embed-text 1.5", dense(768, 3072, 12, None, num_hidden_layers=4)),
    "modern-bert": ("ModernBERT base", dense(768, 1152, 12, None, local_attention=128, num_hidden_layers=4,
                                             norm_bias=False, attention_bias=False, mlp_bias=False)),
    "jina-bert-v3": ("jina-embeddings-v3", dense(1024, 4096, 16, None, num_hidden_layers=4)),
    "gemma-embedding": ("EmbeddingGemma 300M", dense(768, 1152, 3, 1, head_dim=256, sliding_window=512,
                                                     query_pre_attn_scalar=256)),
    "t5encoder": ("Flan-T5 base", {"d_model": 768, "d_kv": 64, "d_ff": 2048, "num_heads": 12}),
    "t5+gated": ("Flan-T5 base", {"d_model": 768, "d_kv": 64, "d_ff": 2048, "num_heads": 12}),
    "t5": ("T5 base", {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_heads": 12, "num_decoder_layers": 3}),
}  # fmt: skip
# Kinds of hf_models.BY_NUMPY: the model; the module of tests that writes a folder, by a function with arguments; the
# size here for each size there; settings that are others
SCALED = {
    "rwkv6": ("RWKV-6 World 1.6B", "test_rwkv6", "write_folder", (),
              {128: 2048, 160: 7168, 300: VOCAB, 12: 32, 60: 160, 10: 64, 2: 32}, {}),
    "rwkv7": ("RWKV-7 World 1.5B", "test_rwkv", "write_folder", (),
              {128: 2048, 160: 8192, 96: VOCAB, 12: 96, 8: 96, 6: 64, 10: 256, 2: 32}, {}),
    "jina-bert-v2": ("jina-embeddings-v2 base", "test_encoders", "jina_folder", (False,),
                     {72: 768, 80: 3072, 160: 6144, 64: VOCAB, 6: 12, 256: 4096}, {}),
    "nomic-bert-moe": ("nomic-embed-text 2", "test_encoders", "nomic_folder", (),
                       {64: 768, 192: 2304, 80: 3072, 320: 24576, 4: 8, 256: 4096}, {"n_head": 12, "moe_top_k": 2}),
}  # fmt: skip
MODELS = {kind: name for kind, (name, *_) in (WIDTHS | SCALED).items()}
ENCODERS = (*hf_models.ENCODERS, "jina-bert-v2", "nomic-bert-moe")


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
    written = {**config.to_dict(), "architectures": [model_class]} | hf_models.OTHER_SETTINGS.get(kind, {})
    write_holes(folder / kind, written, shapes)


def write_scaled(folder, kind):
    """Writes such a folder from that of a tiny model."""
    _, module, function, arguments, sizes, settings = SCALED[kind]
    folder = folder / kind
    getattr(import_module(module), function)(folder, *arguments)
    with open(folder / "model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    config = json.loads((folder / "config.json").read_text())
    config = {name: sizes.get(v, v) if type(v) is int else v for name, v in config.items()} | settings
    config["vocab_size"], shapes = VOCAB, {}
    for name, tensor in header.items():
        shapes[name] = [sizes.get(n, n) for n in tensor["shape"]]
        if name.endswith("word_embeddings.weight"):
            shapes[name][0] = VOCAB
    write_holes(folder, config, shapes)


def write_holes(folder, config, shapes):
    """Writes config.json, and the file of the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
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
    print(folder.name, f"{end / 2e6:.0f} million weights", flush=True)


# ---- files -----------------------------------------------------------------------------------------------------------
def write_file(folder, kind):
    """Writes the file that `ggml convert` would make of the folder, with random rows."""
    import ggml
    from ggml._io import quantization
    from ggml.models.conversion.checkpoint import Checkpoint
    from ggml.models.conversion.driver import set_key
    from ggml.models.conversion.plan import check, new_tensor, plan_keys, plan_weights, row_of

    if kind in SCALED:
        write_scaled(folder, kind)
    checkpoint = Checkpoint(folder / kind)
    row = row_of(checkpoint)
    keys, weights = plan_keys(checkpoint, row), plan_weights(checkpoint, row)
    check(checkpoint, keys, weights, row)
    keys |= {"tokenizer.ggml.model": "no_vocab", f"{row.arch}.vocab_size": weights["token_embd.weight"].shape[0],
             "general.quantization_version": ggml.GGML_QNT_VERSION}  # fmt: skip
    if kind in ENCODERS:
        keys[f"{row.arch}.pooling_type"] = 1  # means, as sentence-transformers' folders have
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
def requests(kind):
    """(what is measured, request, tokens): see model_engines.py."""
    if kind in ENCODERS:
        return ("one", ("embed", 1, READ), READ), ("many", ("embed", TEXTS, SHORT), TEXTS * SHORT)
    if kind in hf_models.ENCODER_DECODERS:
        return ("read", ("encode", READ), READ), ("write", ("translate", 16, WRITTEN), WRITTEN)
    return ("read", ("read", 0, READ), READ), ("write", ("write", 16, WRITTEN), WRITTEN)


def measure(folder, peers, kind):
    """Adds the rates of the libraries to the file of rates."""
    from models import Engine

    found = {}
    with contextlib.ExitStack() as stack:
        engines = {}
        for library, interpreter in {"ggml": sys.executable, **peers}.items():
            sizes = (THREADS, READ + WRITTEN + 32, *((TEXTS, "embed") if kind in ENCODERS else (1,)))
            engines[library] = Engine(interpreter, library, folder / f"{kind}.gguf", *sizes)
            stack.callback(engines[library].close)
        for name, request, tokens in requests(kind):
            seconds = {library: [] for library in engines}
            for _ in range(ROUNDS):
                for library, engine in engines.items():
                    seconds[library].append(engine.ask(*request))
            found[name] = {library: tokens / min(times) for library, times in seconds.items() if None not in times}
    rates = read_rates(folder)
    for name, best in found.items():
        for library, rate in rates.get(kind, {}).get(name, {}).items():
            best[library] = max(rate, best.get(library, 0))
    rates[kind] = found
    rates_path(folder).write_text(json.dumps(rates, indent=1))
    print(kind, *(f"{name} {' '.join(cells(best, PEERS))};" for name, best in found.items()), flush=True)


def rates_path(folder):
    isa = os.environ.get("GGML_ISA", "").lower()
    return folder / (f"rates-{isa}.json" if isa else "rates.json")


def read_rates(folder):
    path = rates_path(folder)
    return json.loads(path.read_text()) if path.exists() else {}


def cells(rates, peers):
    """The rate of this library, and its ratio to that of each peer."""
    ours = rates.get("ggml")
    ratios = (f"{ours / rates[peer]:.2f}" if ours and peer in rates else "" for peer in peers)
    return [f"{ours:,.0f}" if ours else "", *ratios]


def table(folder):
    """The tables in Markdown: of models that write, and of encoders."""
    rates, out = read_rates(folder), []
    for names, encoders in ((("reading", "writing"), False), (("one text", f"{TEXTS} texts"), True)):
        rows = {kind: found for kind, found in sorted(rates.items()) if (kind in ENCODERS) == encoders}
        used = {peer for found in rows.values() for best in found.values() for peer in best}
        peers = [peer for peer in PEERS if peer in used]
        columns = [text for name in names for text in (f"tokens/s {name}", *(f"to {PEERS[peer]}" for peer in peers))]
        lines = [f"| kind | widths of | {' | '.join(columns)} |", f"|---|---|{'---:|' * len(columns)}"]
        for kind, found in rows.items():
            row = [cell for best in found.values() for cell in cells(best, peers)]
            lines.append(f"| `{kind}` | {MODELS[kind]} | {' | '.join(row)} |")
        if rows:
            out.append("\n".join(lines))
    return "\n\n".join(out)


def main():
    step, folder, *rest = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if step == "table":
        print(table(folder))
        return
    warnings.simplefilter("ignore")
    peers = dict(text.split("=", 1) for text in rest if "=" in text)
    kinds = [text for text in rest if "=" not in text]
    for kind in kinds or (WIDTHS if step == "shapes" else MODELS):
        try:
            if step == "measure":
                measure(folder, peers, kind)
            else:
                {"shapes": write_shapes, "write": write_file}[step](folder, kind)
        except (ValueError, TypeError, AttributeError, OSError, KeyError) as error:
            print(kind, type(error).__name__, str(error)[:300], flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    main()
