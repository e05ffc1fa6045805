"""Tiny models of transformers' classes that take pictures, and pictures for them, from settings and seeds.

scripts/record_hf_images.py builds them in transformers and records, for each kind, the settings and the preprocessor's
as they are saved, the names and shapes of the tensors, pixels of pictures of many sizes and modes, the embeddings of
two pictures and the logits of a prompt with both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf_files
import hf_models
import numpy as np

DATA = Path(__file__).parent / "data" / "hf_images"
IMAGE_TOKEN = 0  # of the tiny models, in place of each embedding of a picture
TEXT = {**hf_models.SIZES, "num_hidden_layers": 2, "max_position_embeddings": 512}
VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
GEMMA = {"num_hidden_layers": 4, "layer_types": hf_models.LAYERS, "sliding_window": 64, "query_pre_attn_scalar": 24}

# Settings of the encoder that Qwen's have under other names
QWEN = {"hidden_size": 64, "num_hidden_layers": None, "num_attention_heads": None, "intermediate_size": None,
        "depth": 3, "num_heads": 4, "patch_size": 4}  # fmt: skip
QWEN_TOKEN = {"image_token_id": IMAGE_TOKEN, "vision_start_token_id": 1, "vision_end_token_id": 2, "video_token_id": 3}
QWEN_PIXELS = {"patch_size": 4, "size": {"shortest_edge": 300, "longest_edge": 4000}}
MROPE3 = {"rope_parameters": {**hf_models.MROPE, "mrope_section": [4, 4, 4]}, "head_dim": 24}
PINPOINTS = [[28, 56], [56, 28], [56, 56], [84, 28], [28, 84]]

# Kind: (class of the model, settings: of the text, of the encoder, others; class and settings of the preprocessor)
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], str, dict[str, Any]]] = {
    "llava": (
        "Llava", {"model_type": "llama"},
        {"model_type": "clip_vision_model", "image_size": 28, "patch_size": 7, "projection_dim": 32},
        {"image_token_index": IMAGE_TOKEN, "vision_feature_layer": -2},
        "CLIPImageProcessorPil", {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}}),
    "gemma3": (
        "Gemma3", {"model_type": "gemma3_text", **GEMMA},
        {"model_type": "siglip_vision_model", "image_size": 32, "patch_size": 4},
        {"image_token_index": IMAGE_TOKEN, "mm_tokens_per_image": 16},
        "Gemma3ImageProcessorPil", {"size": {"height": 32, "width": 32}, "do_pan_and_scan": False}),
    "gemma4v": (
        "Gemma4", {"model_type": "gemma4_text", **hf_models.GEMMA4, "num_hidden_layers": 4,
                   "layer_types": hf_models.LAYERS, "sliding_window": 512, "hidden_size_per_layer_input": 12,
                   "vocab_size_per_layer_input": hf_models.VOCAB},
        {"model_type": "gemma4_vision", "patch_size": 4, "pooling_kernel_size": 2, "num_key_value_heads": 4,
         "head_dim": 8, "position_embedding_size": 300, "standardize": True, "use_clipped_linears": True},
        {"image_token_id": IMAGE_TOKEN},
        "Gemma4ImageProcessorPil", {"patch_size": 4, "pooling_kernel_size": 2, "max_soft_tokens": 70}),
    "gemma4v+whole": (
        "Gemma4", {"model_type": "gemma4_text", **hf_models.GEMMA4, "num_hidden_layers": 4,
                   "layer_types": [*hf_models.LAYERS[:3], hf_models.LAYERS[2]], "sliding_window": 512,
                   "hidden_size_per_layer_input": 0, "use_bidirectional_attention": "vision", "attention_k_eq_v": True,
                   "num_global_key_value_heads": 1},
        {"model_type": "gemma4_vision", "patch_size": 4, "pooling_kernel_size": 2, "num_key_value_heads": 4,
         "head_dim": 8, "position_embedding_size": 300},
        {"image_token_id": IMAGE_TOKEN},
        "Gemma4ImageProcessorPil", {"patch_size": 4, "pooling_kernel_size": 2, "max_soft_tokens": 70}),
    "idefics3": (
        "Idefics3", {"model_type": "llama"}, {"model_type": "idefics3_vision", "image_size": 32, "patch_size": 8},
        {"image_token_id": IMAGE_TOKEN, "scale_factor": 2},
        "Idefics3ImageProcessorPil", {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}}),
    "internvl": (
        "InternVL", {"model_type": "qwen2", "head_dim": None},
        {"model_type": "internvl_vision", "image_size": [32, 32], "patch_size": [8, 8], "attention_bias": True},
        {"image_token_id": IMAGE_TOKEN, "image_seq_length": 4},
        "GotOcr2ImageProcessorPil", {"size": {"height": 32, "width": 32}, "crop_to_patches": True, "max_patches": 6}),
    "internvl+norms": (
        "InternVL", {"model_type": "qwen3"},
        {"model_type": "internvl_vision", "image_size": [32, 32], "patch_size": [8, 8], "use_qk_norm": True,
         "use_mean_pooling": False},
        {"image_token_id": IMAGE_TOKEN, "image_seq_length": 4},
        "GotOcr2ImageProcessorPil", {"size": {"height": 32, "width": 32}, "crop_to_patches": True, "max_patches": 3}),
    "mistral3": (
        "Mistral3", {"model_type": "mistral", "rms_norm_eps": 1e-5, "sliding_window": None},
        {"model_type": "pixtral", "image_size": 64, "patch_size": 8, "hidden_act": "silu"},
        {"image_token_index": IMAGE_TOKEN, "spatial_merge_size": 2},
        "PixtralImageProcessorPil", {"size": {"longest_edge": 64}, "patch_size": {"height": 16, "width": 16}}),
    "pixtral": (
        "Llava", {"model_type": "mistral", "sliding_window": None},
        {"model_type": "pixtral", "image_size": 48, "patch_size": 8, "hidden_act": "gelu"},
        {"image_token_index": IMAGE_TOKEN, "vision_feature_layer": -1, "vision_feature_select_strategy": "full"},
        "PixtralImageProcessorPil", {"size": {"longest_edge": 48}, "patch_size": {"height": 8, "width": 8}}),
    "llava_next": (
        "LlavaNext", {"model_type": "llama"},
        {"model_type": "clip_vision_model", "image_size": 28, "patch_size": 7, "projection_dim": 32},
        {"image_token_index": IMAGE_TOKEN, "image_grid_pinpoints": PINPOINTS},
        "LlavaNextImageProcessorPil", {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28},
                                       "image_grid_pinpoints": PINPOINTS}),
    "lfm2vl": (
        "Lfm2Vl", {"model_type": "lfm2", "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"],
                   "block_auto_adjust_ff_dim": False, "head_dim": None},
        {"model_type": "siglip2_vision_model", "num_patches": 36, "patch_size": 4},
        {"image_token_id": IMAGE_TOKEN, "projector_hidden_size": 40},
        "Lfm2VlImageProcessor", {"encoder_patch_size": 4, "tile_size": 40, "min_image_tokens": 9,
                                 "max_image_tokens": 25, "max_tiles": 6,
                                 "do_convert_rgb": True}),
    "qwen2vl": (
        "Qwen2VL", {"head_dim": None, "rope_parameters": {**hf_models.MROPE, "mrope_section": [2, 3, 3]}},
        {**QWEN, "embed_dim": 32, "mlp_ratio": 2}, QWEN_TOKEN, "Qwen2VLImageProcessorPil", QWEN_PIXELS),
    "qwen25vl": (
        "Qwen2_5_VL", {"head_dim": None, "rope_parameters": {**hf_models.MROPE, "mrope_section": [2, 3, 3]}},
        {**QWEN, "hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 48, "depth": 4, "window_size": 24,
         "fullatt_block_indexes": [1]}, QWEN_TOKEN, "Qwen2VLImageProcessorPil", QWEN_PIXELS),
    "qwen3vl": (
        "Qwen3VL", MROPE3,
        {**QWEN, "hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 48, "num_position_embeddings": 36,
         "deepstack_visual_indexes": [0, 2]}, QWEN_TOKEN, "Qwen2VLImageProcessorPil", QWEN_PIXELS),
    "qwen3vlmoe": (
        "Qwen3VLMoe", {**MROPE3, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                       "num_hidden_layers": 3},
        {**QWEN, "hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 48, "num_position_embeddings": 144,
         "deepstack_visual_indexes": [1]}, QWEN_TOKEN, "Qwen2VLImageProcessorPil", QWEN_PIXELS),
    "qwen35": (
        "Qwen3_5", hf_models.DELTA_NET,
        {**QWEN, "hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 48, "num_position_embeddings": 36},
        QWEN_TOKEN, "Qwen2VLImageProcessorPil", QWEN_PIXELS),
    "minicpmv46": (
        "MiniCPMV4_6", {"model_type": "qwen3_5_text", **hf_models.DELTA_NET},
        {"model_type": "minicpmv4_6_vision", "image_size": 40, "patch_size": 4, "insert_layer_id": 1},
        {"image_token_id": IMAGE_TOKEN, "insert_layer_id": 1},
        "MiniCPMV4_6ImageProcessorPil", {"scale_resolution": 48, "patch_size": 4, "max_slice_nums": 6}),
}  # fmt: skip
# The value of clip.projector_type, where it is not the kind
PROJECTORS = {"llava": "mlp", "llava_next": "mlp", "lfm2vl": "lfm2", "internvl+norms": "internvl",
              "mistral3": "pixtral", "qwen2vl": "qwen2vl_merger", "qwen25vl": "qwen2.5vl_merger",
              "qwen3vl": "qwen3vl_merger", "qwen3vlmoe": "qwen3vl_merger", "qwen35": "qwen3vl_merger",
              "minicpmv46": "minicpmv4_6", "gemma4v+whole": "gemma4v"}  # fmt: skip
SIZES = [(45, 61), (70, 31)]  # width and height of the pictures of the prompt
MODES = ["RGB", "L", "LA", "P", "RGBA", "CMYK", "1"]


def picture(width: int, height: int, seed: int = 0, channels: int = 3) -> np.ndarray:
    """A picture: waves of random directions with some noise, u8 [height, width, channels]."""
    rng = np.random.default_rng([width, height, seed])
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(a * x + b * y + c) for a, b, c in rng.uniform(-0.5, 0.5, (channels, 3)) * (1, 1, 6)]
    values = 127 + 90 * np.stack(waves, -1) + rng.normal(0, 15, (height, width, channels))
    return np.clip(values, 0, 255).astype(np.uint8)


def odd_pictures(count: int) -> Any:
    """Images of Pillow of odd sizes and all modes."""
    from PIL import Image

    rng = np.random.default_rng(7)
    for i in range(count):
        width, height = (int(n) for n in np.exp(rng.uniform(1.5, 5, 2)))
        mode = MODES[i % len(MODES)]
        source = Image.fromarray(picture(width, height, i, 4 if mode in ("RGBA", "LA", "CMYK") else 3))
        yield source.convert(mode)


def sample(parts: list[np.ndarray]) -> np.ndarray:
    """Sixteen values of arrays, spread over them."""
    flat = np.concatenate([values.reshape(-1) for values in parts])
    return flat[np.linspace(0, flat.size - 1, 16).astype(int)]


def mobile_vlm(version: int, width: int = 32) -> dict[str, np.ndarray]:
    """Random tensors of MobileVLM's projectors, for patches of `width` elements and embeddings of 64."""
    first = 1 if version == 1 else 0
    shapes = {f"mm.model.mlp.{first}": (64, width), f"mm.model.mlp.{first + 2}": (64, 64)}
    if version == 1:
        for b in ("mm.model.mb_block.1.block.", "mm.model.mb_block.2.block."):
            shapes |= {b + "0.0": (64, 1, 3, 3), b + "0.1": (64,), b + "1.fc1": (16, 64), b + "1.fc2": (64, 16),
                       b + "2.0": (64, 64), b + "2.1": (64,)}  # fmt: skip
    else:
        shapes["mm.model.peg.0"] = (64, 1, 3, 3)
    rng = np.random.default_rng(3)
    found: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        found[f"{name}.weight"] = (rng.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)
        if not name.endswith((".0.0", "2.0")) or "mlp" in name or "peg" in name:
            found[f"{name}.bias"] = rng.standard_normal(shape[0]).astype(np.float32)
    return found


def write_text_folder(folder: Path, prefix: str, width: int, tensors: dict[str, np.ndarray], config: dict[str, Any],
                      dtype: Any = np.float32) -> Path:  # fmt: skip
    """Writes the folder of a tiny LLaMA or Qwen 2 (with biases), whose names get a prefix, and of tensors beside it."""
    rows = hf_models.VOCAB
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (rows, width), "lm_head.weight": (rows, width),
                                          "model.norm.weight": (width,)}  # fmt: skip
    for i in range(2):
        b = f"model.layers.{i}."
        shapes |= {f"{b}{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
        shapes |= {f"{b}self_attn.{part}_proj.weight": (width, width) for part in "qkvo"}
        shapes |= {f"{b}mlp.{part}_proj.weight": (80, width) for part in ("gate", "up")}
        shapes[b + "mlp.down_proj.weight"] = (width, 80)
        if prefix:
            shapes |= {f"{b}self_attn.{part}_proj.bias": (width,) for part in "qkv"}
    sizes = {"hidden_size": width, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 4, "max_position_embeddings": 1024, "vocab_size": rows, "rms_norm_eps": 1e-5,
             "rope_theta": 1e4, "hidden_act": "silu", "tie_word_embeddings": False}  # fmt: skip
    found = {prefix + name: hf_models.weight(name, shape, 0) for name, shape in shapes.items()} | tensors
    hf_models.write_folder(folder, sizes | config, {})
    hf_models.write_shard(folder / "model.safetensors", {name: values.astype(dtype) for name, values in found.items()})
    return folder


def vit(width: int, hidden: int, layers: int, patch: int, rows: int) -> dict[str, np.ndarray]:
    """Random tensors of CLIP and SigLIP without what only one of the two has."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.patch_embedding.weight": (width, 3, patch, patch),
        "embeddings.position_embedding.weight": (rows, width), "post_layernorm": (width,),
    }  # fmt: skip
    for i in range(layers):
        b = f"encoder.layers.{i}."
        shapes |= {f"{b}layer_norm{n}": (width,) for n in (1, 2)}
        shapes |= {f"{b}self_attn.{name}_proj": (width, width) for name in ("q", "k", "v", "out")}
        shapes |= {b + "mlp.fc1": (hidden, width), b + "mlp.fc2": (width, hidden)}
    found = {}
    for name, shape in shapes.items():
        alone = name.endswith(".weight")
        for part, ne in ({name: shape} if alone else {f"{name}.weight": shape, f"{name}.bias": shape[:1]}).items():
            found[part] = hf_models.weight(part, ne, 2)
    return found


def write_mobile_vlm(folder: Path, version: int, dtype: Any = np.float32, class_token: bool = True) -> Path:
    """Writes the folder of a tiny MobileVLM, with its own names."""
    width, patch = 128, 7
    tower = vit(width, 48, 3, patch, 24 * 24 + class_token)
    tower |= {f"pre_layrnorm.{end}": hf_models.weight(f"pre_layrnorm.{end}", (width,), 2) for end in ("weight", "bias")}
    if class_token:
        tower["embeddings.class_embedding"] = hf_models.weight("class", (width,), 2)
    tensors = {f"model.vision_tower.vision_tower.vision_model.{name}": values for name, values in tower.items()}
    for name, values in mobile_vlm(version, width).items():
        point = name.endswith(("fc1.weight", "fc2.weight", "2.0.weight")) and "mlp" not in name
        name = name.removeprefix("mm.model." if version == 2 else "mm.")
        name = name.replace("mlp.", "mlp.mlp.").replace("peg.", "peg.peg.") if version == 2 else name
        tensors["model.mm_projector." + name] = values[:, :, None, None] if point else values
    config = {"architectures": ["MobileLlamaForCausalLM"], "model_type": "mobilevlm", "mm_hidden_size": width,
              "mm_projector_type": "ldpnet" if version == 1 else "ldpnetv2", "mm_vision_select_layer": -2,
              "mm_vision_tower": "openai/clip-vit-large-patch14-336", "image_aspect_ratio": "pad"}  # fmt: skip
    return write_text_folder(folder, "", 64, tensors, config, dtype)


def write_minicpm(folder: Path, version: float | str = 2.6, side: int = 10, image: int = 40) -> Path:
    """Writes the folder of a tiny MiniCPM-V, with its own names; sizes as of `resampler`."""
    w = resampler(side)
    tensors = {f"vpm.{name}": values for name, values in vit(32, 48, 1, 4, side**2).items()}
    tensors["vpm.embeddings.patch_embedding.bias"] = hf_models.weight("patches.bias", (32,), 2)
    for name in ("query", "ln_q", "ln_kv", "ln_post"):
        tensors |= {old: values for old, values in w.items() if old.startswith(f"resampler.{name}")}
    tensors |= {
        "resampler.kv_proj.weight": w["resampler.kv.weight"], "resampler.proj": w["resampler.proj.weight"].T.copy(),
        **{f"resampler.attn.out_proj.{end}": w[f"resampler.attn.out.{end}"] for end in ("weight", "bias")},
        **{f"resampler.attn.in_proj_{end}": np.concatenate([w[f"resampler.attn.{part}.{end}"] for part in "qkv"])
           for end in ("weight", "bias")},
    }  # fmt: skip
    vision = {"hidden_size": 32, "image_size": 4 * side, "intermediate_size": 48, "model_type": "siglip",
              "num_attention_heads": 4, "num_hidden_layers": 1, "patch_size": 4}  # fmt: skip
    config = {"architectures": ["MiniCPMV"], "model_type": "minicpmv", "version": version, "image_size": image,
              "vision_config": vision, "query_num": 6, "slice_config": {"max_slice_nums": 9}}  # fmt: skip
    return write_text_folder(folder, "llm.", 128, tensors, config)


def resampler(side: int = 10) -> dict[str, np.ndarray]:
    """Random tensors of an encoder of MiniCPM-V 2.6: patches of 4 pixels, 32 elements; 6 queries of 128."""
    width, hidden, dim, layers = 32, 48, 128, 1
    shapes: dict[str, tuple[int, ...]] = {
        "v.patch_embd": (width, 3, 4, 4), "v.post_ln": (width,), "v.position_embd.weight": (side**2, width),
        "resampler.query": (6, dim), "resampler.pos_embed_k": (side**2, dim), "resampler.kv.weight": (dim, width),
        "resampler.proj.weight": (dim, dim),
    }  # fmt: skip
    shapes |= {f"resampler.ln_{name}": (dim,) for name in ("q", "kv", "post")}
    shapes |= {f"resampler.attn.{name}": (dim, dim) for name in ("q", "k", "v", "out")}
    for i in range(layers):
        shapes |= {f"v.blk.{i}.{name}": (width,) for name in ("ln1", "ln2")}
        shapes |= {f"v.blk.{i}.attn_{name}": (width, width) for name in ("q", "k", "v", "out")}
        shapes |= {f"v.blk.{i}.ffn_up": (hidden, width), f"v.blk.{i}.ffn_down": (width, hidden)}
    found, rng = {}, np.random.default_rng(4)
    for name, shape in shapes.items():
        alone = name.endswith((".weight", ".query", "embed_k"))
        for part, ne in ({name: shape} if alone else {f"{name}.weight": shape, f"{name}.bias": shape[:1]}).items():
            found[part] = (rng.standard_normal(ne) / np.prod(ne[1:]) ** 0.5).astype(np.float32)
    return found


def write_resampler(path: Path, version: int = 3, side: int = 10, image: int = 40) -> Path:
    """Writes a tiny encoder of MiniCPM-V for pictures of about image x image pixels.

    Its table of positions is for a square of side x side patches.
    """
    import gguf

    writer = gguf.GGUFWriter(path, "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_bool("clip.use_gelu", True)
    writer.add_string("clip.projector_type", "resampler")
    writer.add_int32("clip.minicpmv_version", version)
    sizes = {"image_size": image, "patch_size": 4, "embedding_length": 32, "feed_forward_length": 48,
             "block_count": 1, "projection_dim": 0, "attention.head_count": 4}  # fmt: skip
    for name, size in sizes.items():
        writer.add_uint32(f"clip.vision.{name}", size)
    writer.add_uint32("clip.minicpmv_query_num", 6)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    for name in ("image_mean", "image_std"):
        writer.add_array(f"clip.vision.{name}", [0.5] * 3)
    for name, values in resampler(side).items():
        writer.add_tensor(name, values)
    gguf_files.finish(writer)
    return path


def parts(tokens: list[int]) -> list[list[int] | int]:
    """The prompt: texts, and numbers of the pictures."""
    return [tokens[:9], 0, tokens[9:20], 1, tokens[20:31]]


def record(kind: str) -> dict[str, Any]:
    """What was recorded of a kind."""
    with np.load(DATA / f"{kind}.npz") as data:
        found: dict[str, Any] = {name: data[name] for name in data.files}
    for name in ("config", "preprocessor", "shapes"):
        found[name] = json.loads(str(found[name]))
    return found


def write_folder(folder: Path, found: dict[str, Any]) -> Path:
    """Writes the folder of a recorded model."""
    hf_models.write_folder(folder, found["config"], found["shapes"])
    (folder / "preprocessor_config.json").write_text(json.dumps(found["preprocessor"]))
    return folder
