"""The encoder of pictures in a folder, as a file `mmproj`: the table of its conversions."""

from __future__ import annotations

import fnmatch
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import ggml

from ..._errors import bare as bare_message
from ..._owners import Held
from ..vision import PROJECTORS as VISION
from ..vision.encoder import ROPE_BASE
from ..vision.gemma4v import BASE, TOKENS
from ..vision.minicpm import SLICES
from ..vision.tower import ARCH, smallest, tower_nodes, vision_config
from .checkpoint import SINGLE, TYPES, Checkpoint
from .fields import Fields, optional_json
from .parts import Keys, Part, flat, pairs_side_by_side, slices
from .plan import NUMBER, Recorded, Weight, minicpm_v, model_name, new_tensor
from .stored import Stored

# What class names put before the names of an encoder's tensors, and of a projector's
ENCODERS = ("vision_tower.vision_tower.vision_model.", "vision_tower.vision_model.", "vision_tower.", "vision_model.",
            "visual.", "vpm.")  # fmt: skip
PROJECTORS = ("multi_modal_projector.", "connector.", "visual_", "embed_vision.", "merger.", "mm_projector.",
              "resampler.")  # fmt: skip
F32 = ggml.GGML_TYPE_F32

VIT = {
    "embeddings.class_embedding": "v.class_embd",
    "embeddings.patch_embedding": "v.patch_embd",
    "embeddings.position_embedding": "v.position_embd",
    "pre_layrnorm": "v.pre_ln",
    "post_layernorm": "v.post_ln",
    "encoder.layers.{}.layer_norm1": "v.blk.{}.ln1",
    "encoder.layers.{}.self_attn.q_proj": "v.blk.{}.attn_q",
    "encoder.layers.{}.self_attn.k_proj": "v.blk.{}.attn_k",
    "encoder.layers.{}.self_attn.v_proj": "v.blk.{}.attn_v",
    "encoder.layers.{}.self_attn.out_proj": "v.blk.{}.attn_out",
    "encoder.layers.{}.layer_norm2": "v.blk.{}.ln2",
    "encoder.layers.{}.mlp.fc1": "v.blk.{}.ffn_up",
    "encoder.layers.{}.mlp.fc2": "v.blk.{}.ffn_down",
}
INTERNVIT = {
    "embeddings.cls_token": Part("v.class_embd", shape=flat),
    "embeddings.patch_embeddings.projection": "v.patch_embd",
    "embeddings.position_embeddings": Part("v.position_embd.weight", shape=flat),
    "layernorm": "v.post_ln",
    "encoder.layer.{}.layernorm_before": "v.blk.{}.ln1",
    "encoder.layer.{}.attention.q_proj": "v.blk.{}.attn_q",
    "encoder.layer.{}.attention.k_proj": "v.blk.{}.attn_k",
    "encoder.layer.{}.attention.v_proj": "v.blk.{}.attn_v",
    "encoder.layer.{}.attention.q_norm": "v.blk.{}.attn_q_norm",
    "encoder.layer.{}.attention.k_norm": "v.blk.{}.attn_k_norm",
    "encoder.layer.{}.attention.projection_layer": "v.blk.{}.attn_out",
    "encoder.layer.{}.lambda_1": "v.blk.{}.ls1.weight",
    "encoder.layer.{}.layernorm_after": "v.blk.{}.ln2",
    "encoder.layer.{}.mlp.fc1": "v.blk.{}.ffn_up",
    "encoder.layer.{}.mlp.fc2": "v.blk.{}.ffn_down",
    "encoder.layer.{}.lambda_2": "v.blk.{}.ls2.weight",
    "layer_norm": "mm.model.mlp.0",
    "linear_1": "mm.model.mlp.1",
    "linear_2": "mm.model.mlp.3",
}


def rotated(c: Fields, rows: int) -> np.ndarray:
    """Rows of q or k for GGML_ROPE_TYPE_NORMAL."""
    v = c.inside("vision_config")
    heads = v.integer("num_attention_heads", high=65536)
    return pairs_side_by_side(max(1, v.integer("hidden_size") // heads), rows)


PIXTRAL = {
    "patch_conv": "v.patch_embd",
    "ln_pre": "v.pre_ln",
    "transformer.layers.{}.attention_norm": "v.blk.{}.ln1",
    "transformer.layers.{}.attention.q_proj": Part("v.blk.{}.attn_q", rotated),
    "transformer.layers.{}.attention.k_proj": Part("v.blk.{}.attn_k", rotated),
    "transformer.layers.{}.attention.v_proj": "v.blk.{}.attn_v",
    "transformer.layers.{}.attention.o_proj": "v.blk.{}.attn_out",
    "transformer.layers.{}.ffn_norm": "v.blk.{}.ln2",
    "transformer.layers.{}.feed_forward.gate_proj": "v.blk.{}.ffn_gate",
    "transformer.layers.{}.feed_forward.up_proj": "v.blk.{}.ffn_up",
    "transformer.layers.{}.feed_forward.down_proj": "v.blk.{}.ffn_down",
    "norm": "mm.input_norm",
    "patch_merger.merging_layer": "mm.patch_merger",
    "linear_1": "mm.1",
    "linear_2": "mm.2",
}


def frame(i: int) -> Part:
    """The weights of a patch for one of two pictures that follow one another, [C, 3, 2, P, P] as [3 C, P P]."""
    name = "v.patch_embd.weight.1" if i else "v.patch_embd"
    return Part(name, shape=lambda c, shape: (shape[0] * shape[1], math.prod(shape[2:])), columns=slices(2, i))


QWEN = {
    "patch_embed.proj": [frame(0), frame(1)],
    "blocks.{}.norm1": "v.blk.{}.ln1",
    "blocks.{}.attn.qkv": [Part(f"v.blk.{{}}.attn_{name}", slices(3, i)) for i, name in enumerate("qkv")],
    "blocks.{}.attn.proj": "v.blk.{}.attn_out",
    "blocks.{}.norm2": "v.blk.{}.ln2",
    "blocks.{}.mlp.fc1": "v.blk.{}.ffn_up",
    "blocks.{}.mlp.fc2": "v.blk.{}.ffn_down",
    "blocks.{}.mlp.gate_proj": "v.blk.{}.ffn_gate",
    "blocks.{}.mlp.up_proj": "v.blk.{}.ffn_up",
    "blocks.{}.mlp.down_proj": "v.blk.{}.ffn_down",
    "merger.ln_q": "v.post_ln",
    "merger.mlp.{}": "mm.{}",
}


def qwen3_names(v: Fields) -> dict[str, Any]:
    """As before; what the language model's layers add is named by the layer that it is taken from."""
    names = {
        **QWEN,
        "pos_embed": "v.position_embd",
        "blocks.{}.attn.qkv": "v.blk.{}.attn_qkv",
        "blocks.{}.mlp.linear_fc1": "v.blk.{}.ffn_up",
        "blocks.{}.mlp.linear_fc2": "v.blk.{}.ffn_down",
        "merger.norm": "v.post_ln",
        "merger.linear_fc1": "mm.0",
        "merger.linear_fc2": "mm.2",
    }
    for i, layer in enumerate(v.array("deepstack_visual_indexes", int, default=[])):
        new = {"norm": "norm", "linear_fc1": "fc1", "linear_fc2": "fc2"}
        names |= {f"deepstack_merger_list.{i}.{old}": f"v.deepstack.{layer}.{name}" for old, name in new.items()}
    return names


def by_channels(c: Fields, columns: int) -> np.ndarray:
    """The columns of the weights of a patch channel by channel, of those pixel by pixel."""
    return np.arange(columns).reshape(-1, 3).T.reshape(-1)


PATCH_BY_PIXELS = {"embeddings.patch_embedding": Part("v.patch_embd", columns=by_channels)}
LFM2 = {
    **VIT,
    **PATCH_BY_PIXELS,
    "layer_norm": "mm.input_norm",
    "linear_1": "mm.1",
    "linear_2": "mm.2",
}
PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
ROW_END = "v.token_embd.img_break"
CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
ACTIVATIONS: dict[str, Any] = {"quick_gelu": ggml.ggml_gelu_quick, "gelu_pytorch_tanh": ggml.ggml_gelu,
                               "gelu": ggml.ggml_gelu_erf, "silu": ggml.ggml_silu}  # fmt: skip


class Settings(NamedTuple):
    """The settings of a folder: of the whole model, of its encoder, and of the preprocessor."""

    model: Fields
    vision: Fields
    images: Fields


class ImageRow(NamedTuple):
    """An encoder with its projector, for models of some classes of transformers.

    Attributes:
        classes: names of the classes.
        projector: value of clip.projector_type.
        names: for the names of tensors what they become, as in Row; or a function of the encoder's settings.
        keys: function of the settings that gives the keys, without `clip.vision.` before them, or with "clip.".
        dropped: names of tensors that are not needed.
        defaults: settings of the encoder that files may leave out; or a function of the folder that gives them.
        unread: vectors that llama.cpp asks for and does not read, as wide as the embeddings.
    """

    classes: str
    projector: str
    names: Mapping[str, Any] | Callable[[Fields], Mapping[str, Any]]
    keys: Callable[[Settings], Keys]
    dropped: tuple[str, ...] = ()
    defaults: Mapping[str, Any] | Callable[[Checkpoint], Mapping[str, Any]] = {}
    unread: tuple[str, ...] = ()

    def names_of(self, v: Fields) -> Mapping[str, Any]:
        """`names` for the settings of an encoder."""
        return self.names(v) if callable(self.names) else self.names


def vision_of(checkpoint: Checkpoint, row: ImageRow) -> Fields:
    """The settings of the encoder."""
    given = checkpoint.config.inside("vision_config")
    defaults = row.defaults(checkpoint) if callable(row.defaults) else row.defaults
    return Fields({**defaults, **{k: v for k, v in given.values.items() if v is not None}}, given.where)


def usual(s: Settings, mean: list[float], std: list[float]) -> Keys:
    """Sizes, and how pixels are normalised."""
    v = s.vision
    v.require("num_channels", 3, default=3)
    s.images.require("do_rescale", True, default=True)
    s.images.require("do_normalize", True, default=True)
    return {
        "image_size": side(v, "image_size", 1 << 14),
        "patch_size": side(v, "patch_size", 1 << 10),
        "embedding_length": v.integer("hidden_size"),
        "feed_forward_length": v.integer("intermediate_size"),
        "block_count": v.integer("num_hidden_layers", high=4096),
        "attention.head_count": v.integer("num_attention_heads", high=65536),
        "attention.layer_norm_epsilon": v.number("layer_norm_eps", default=1e-6, high=1.0),
        "projection_dim": s.model.integer("hidden_size"),
        "image_mean": [float(x) for x in s.images.array("image_mean", (int, float), 3, default=mean)],
        "image_std": [float(x) for x in s.images.array("image_std", (int, float), 3, default=std)],
    }


def with_eps(s: Settings, eps: float) -> Settings:
    """Settings with another epsilon of the norms where the folder names none."""
    return Settings(s.model, Fields({"layer_norm_eps": eps, **s.vision.values}, s.vision.where), s.images)


def side(v: Fields, name: str, high: int) -> int:
    """A number of pixels, or a list with it twice."""
    value = v.values.get(name)
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        v = Fields({name: value[0]}, v.where)
    return v.integer(name, high=high)


def internvl(s: Settings) -> Keys:
    s.vision.require("norm_type", "layer_norm", default="layer_norm")
    s.model.require("projector_hidden_act", "gelu", default="gelu")
    s.model.require("vision_feature_layer", -1, default=-1)
    s.model.require("vision_feature_select_strategy", "default", default="default")
    factor = 1 / s.model.number("downsample_ratio", default=0.5, low=0.01, high=1.0)
    if factor != int(factor):
        raise s.model.wrong("downsample_ratio", 1 / factor, "1 / n")
    return usual(s, CLIP_MEAN, CLIP_STD) | {
        "projector.scale_factor": int(factor),
        "preproc_min_tiles": s.images.integer("min_patches", default=1, high=64),
        "preproc_max_tiles": s.images.integer("max_patches", default=12, high=64),
    }


def pixtral(s: Settings) -> Keys:
    """Pictures have the shape that they have; a matrix may merge squares of patches."""
    s.model.require("projector_hidden_act", "gelu", default="gelu")
    s.model.require("vision_feature_layer", -1, default=-1)
    rope = s.vision.inside("rope_parameters")
    if rope.number("rope_theta", default=s.vision.number("rope_theta", default=10000.0)) != ROPE_BASE:
        raise rope.wrong("rope_theta", rope.values.get("rope_theta"), f"{ROPE_BASE:g}")
    keys = usual(with_eps(s, 1e-5), CLIP_MEAN, CLIP_STD)
    if s.model.has("spatial_merge_size"):
        s.model.require("rms_norm_eps", 1e-5)  # that of the norm before the merging matrix
        keys["spatial_merge_size"] = s.model.integer("spatial_merge_size", high=64)
    return keys


def llava(s: Settings, in_tiles: bool = False) -> Keys:
    """The layer whose states are taken, and how the picture becomes a square."""
    s.model.require("projector_hidden_act", "gelu", default="gelu")
    clip = s.vision.text("model_type", default="clip_vision_model") == "clip_vision_model"
    s.model.require("vision_feature_select_strategy", "default" if clip else "full", default="default")
    keys = usual(with_eps(s, 1e-5) if clip else s, CLIP_MEAN, CLIP_STD)
    layers = keys["block_count"]
    chosen = s.model.values.get("vision_feature_layer", -2)
    chosen = chosen[0] if isinstance(chosen, list) and len(chosen) == 1 else chosen
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not -layers <= chosen <= layers:
        raise s.model.wrong("vision_feature_layer", chosen, f"an integer from {-layers} to {layers}")
    keys["block_count"] = chosen if chosen >= 0 else layers + 1 + chosen
    keys["feature_layer"] = [keys["block_count"]]  # without it, llama.cpp leaves out the last of the layers
    pad = s.images.flag("do_pad", False)
    keys["image_aspect_ratio"] = "pad" if pad else "crop"
    side = sides(keys["image_size"])
    s.images.require("size", *side, default=side[0])
    cropping = {} if pad and not in_tiles else cropped(s, keys["image_size"])
    return keys | cropping | ({"image_aspect_ratio": "anyres"} if in_tiles else {})


def sides(side: int) -> tuple[Any, ...]:
    """How preprocessors write the size of a picture whose shorter side, or both, have so many pixels."""
    return {"shortest_edge": side}, {"height": side, "width": side}, side


def cropped(s: Settings, side: int) -> Keys:
    """The middle of the picture becomes a square."""
    shorter, both, plain = sides(side)
    s.images.require("size", shorter, plain, default=shorter)
    s.images.require("do_center_crop", True, default=True)
    s.images.require("crop_size", both, plain, default=both)
    return {"image_aspect_ratio": "crop"}


def resample(s: Settings) -> Keys:
    """The kernel by which pictures are resized, where it is not the usual one."""
    kernel = s.images.integer("resample", default=3, high=3)
    return {} if kernel == 3 else {"resample": kernel}


def clip(s: Settings) -> Keys:
    keys = usual(s, CLIP_MEAN, CLIP_STD)
    return keys | cropped(s, keys["image_size"]) | resample(s)


def siglip(s: Settings) -> Keys:
    s.vision.require("vision_use_head", True, default=True)
    keys = usual(s, [0.5] * 3, [0.5] * 3)
    both = sides(keys["image_size"])[1]
    s.images.require("size", both, default=both)
    return keys | resample(s)


def llava_next(s: Settings) -> Keys:
    """Also the sizes of pictures in tiles."""
    sizes = s.model.values.get("image_grid_pinpoints")
    sizes = PINPOINTS if sizes is None else sizes
    across = side(s.vision, "image_size", 1 << 14)
    pairs = isinstance(sizes, list) and all(isinstance(size, list) and len(size) == 2 for size in sizes)
    if not pairs or not sizes or not all(isinstance(n, int) and n > 0 and n % across == 0 for n in sum(sizes, [])):
        raise s.model.wrong("image_grid_pinpoints", sizes, f"heights and widths that are multiples of {across}")
    s.images.require("image_grid_pinpoints", sizes, default=sizes)
    keys = llava(s, True)
    flat_sizes = [n for height, width in sizes for n in (width, height)]
    return keys | {"image_grid_pinpoints": flat_sizes, "mm_patch_merge_type": "spatial_unpad"}


def of_any_shape(s: Settings) -> Keys:
    """Of encoders with a table of positions for a square of `num_patches`, which is resized."""
    count = s.vision.integer("num_patches", default=256)
    across = math.isqrt(count)
    if across * across != count:
        raise s.vision.wrong("num_patches", count, "a square")
    image = across * side(s.vision, "patch_size", 1 << 10)
    vision = Fields({**s.vision.values, "image_size": image}, s.vision.where)
    return usual(Settings(s.model, vision, s.images), [0.5] * 3, [0.5] * 3)


def siglip2(s: Settings) -> Keys:
    """Pictures have any shape, up to a number of patches."""
    s.vision.require("vision_use_head", True, default=True)
    keys = of_any_shape(s)
    patch = keys["patch_size"]
    s.images.require("patch_size", patch, default=patch)
    most = s.images.integer("max_num_patches", default=256, high=1 << 14)
    return keys | {"image_max_pixels": most * patch**2, "resample": s.images.integer("resample", default=2, high=3)}


def lfm2(s: Settings) -> Keys:
    """Pictures have any shape; large ones are in tiles."""
    s.model.require("projector_hidden_act", "gelu", default="gelu")
    s.model.require("vision_feature_layer", -1, default=-1)
    patch, merge = side(s.vision, "patch_size", 1 << 10), s.model.integer("downsample_factor", default=2, high=64)
    s.images.require("encoder_patch_size", patch, default=patch)
    s.images.require("downsample_factor", merge, default=merge)
    s.images.require("max_pixels_tolerance", 2.0, default=2.0)
    s.images.require("use_thumbnail", True, default=True)
    tile = s.images.integer("tile_size", default=512, high=1 << 14)
    if tile % (patch * merge):
        raise s.images.wrong("tile_size", tile, f"a multiple of {patch * merge}")
    tiles = [s.images.integer(f"{name}_tiles", default=n, high=64) for name, n in (("min", 2), ("max", 10))]
    if not s.images.flag("do_image_splitting", True):
        tiles = [1, 1]
    tokens = [s.images.integer(f"{name}_image_tokens", default=n) for name, n in (("min", 64), ("max", 256))]
    return of_any_shape(s) | {
        "projector.scale_factor": merge, "preproc_min_tiles": tiles[0], "preproc_max_tiles": tiles[1],
        "preproc_image_size": tile, "image_min_pixels": tokens[0] * (patch * merge) ** 2,
        "image_max_pixels": tokens[1] * (patch * merge) ** 2,
    }  # fmt: skip


def gemma3(s: Settings) -> Keys:
    keys = usual(s, [0.5] * 3, [0.5] * 3)
    s.images.require("do_pan_and_scan", None, False)
    across, tokens = keys["image_size"] // keys["patch_size"], s.model.integer("mm_tokens_per_image", default=256)
    side = int(tokens**0.5)
    if side * side != tokens or across % side:
        raise s.model.wrong("mm_tokens_per_image", tokens, f"the square of a divisor of {across} patches")
    return keys if across // side == 4 else keys | {"projector.scale_factor": across // side}


def idefics3(s: Settings) -> Keys:
    keys = usual(s, [0.5] * 3, [0.5] * 3)
    side = keys["image_size"]
    s.images.require("do_image_splitting", True, default=True)
    s.images.require("max_image_size", {"longest_edge": side}, default={"longest_edge": side})
    longest = s.images.inside("size").integer("longest_edge", default=4 * side, high=1 << 14)
    return keys | {"projector.scale_factor": s.model.integer("scale_factor", default=2, high=64),
                   "preproc_image_size": longest}  # fmt: skip


def qwen(s: Settings, width: str = "hidden_size", **more: Any) -> Keys:
    """Pictures have any shape; squares of patches are merged."""
    v = s.vision
    for name, usual_one in (("temporal_patch_size", 2), ("in_channels", 3), ("in_chans", 3)):
        v.require(name, usual_one, default=usual_one)
    patch, merge = side(v, "patch_size", 1 << 10), v.integer("spatial_merge_size", default=2, high=64)
    if v.inside("rope_parameters").number("rope_theta", default=ROPE_BASE) != ROPE_BASE:
        raise v.wrong("rope_parameters", v.values["rope_parameters"], f"rope_theta {ROPE_BASE:g}")
    for name, value in (("patch_size", patch), ("merge_size", merge), ("temporal_patch_size", 2)):
        s.images.require(name, value, default=value)
    s.images.require("do_resize", True, default=True)
    size = s.images.inside("size")
    least = s.images.integer("min_pixels", default=size.integer("shortest_edge", default=56 * 56, high=1 << 26))
    most = s.images.integer("max_pixels", default=size.integer("longest_edge", default=28 * 28 * 1280, high=1 << 26))
    fields = {
        **v.values, "image_size": more.pop("image_size", 560), "num_attention_heads": v.values.get("num_heads"),
        "num_hidden_layers": v.values.get("depth"), "hidden_size": v.integer(width), **more,
    }  # fmt: skip
    keys = usual(Settings(s.model, Fields(fields, v.where), s.images), CLIP_MEAN, CLIP_STD)
    return keys | {"image_min_pixels": least, "image_max_pixels": most, "spatial_merge_size": merge}


def qwen2(s: Settings) -> Keys:
    width = s.vision.integer("embed_dim")
    return qwen(s, "embed_dim", intermediate_size=int(width * s.vision.number("mlp_ratio", default=4)))


def qwen25(s: Settings) -> Keys:
    """The layers in which patches see all others, as every n-th one where they are."""
    keys, v = qwen(s), s.vision
    whole, layers = v.array("fullatt_block_indexes", int, default=[7, 15, 23, 31]), keys["block_count"]
    if v.integer("window_size", default=112) != 112:
        keys["window_size"] = v.integer("window_size", high=1 << 14)
    found = sorted({i for i in whole if 0 <= i < layers})
    every = next((n for n in range(1, layers + 2) if list(range(n - 1, layers, n)) == found), 0)
    return keys | ({"n_wa_pattern": every} if every else {"wa_layer_indexes": found})


def qwen3(s: Settings) -> Keys:
    """The size of the pictures that the table of positions is for, and which layers' states are taken."""
    v = s.vision
    count, patch = v.integer("num_position_embeddings", default=2304), side(v, "patch_size", 1 << 10)
    across = math.isqrt(count)
    if across * across != count:
        raise v.wrong("num_position_embeddings", count, "a square")
    keys = qwen(s, image_size=across * patch)
    taken = v.array("deepstack_visual_indexes", int, default=[])
    layers = range(keys["block_count"])
    if len(taken) != len(set(taken)) or not set(taken) <= set(layers):
        raise v.wrong("deepstack_visual_indexes", taken, f"different layers from 0 to {layers[-1]}")
    return keys | {"is_deepstack_layers": [i in taken for i in layers]}


def gemma4v(s: Settings) -> Keys:
    """Pictures keep their shape; `image_size` is the side of the largest square."""
    v, images = s.vision, s.images
    v.require("attention_bias", False, default=False)
    heads, width = v.integer("num_attention_heads", default=12, high=65536), v.integer("hidden_size", default=768)
    v.require("num_key_value_heads", heads, default=heads)
    v.require("head_dim", width // heads, default=width // heads)
    theta = v.inside("rope_parameters").number("rope_theta", default=BASE)
    if theta != BASE:
        raise v.wrong("rope_theta", theta, f"{BASE:g}")
    images.require("do_rescale", True, default=True)
    images.require("do_normalize", False, default=False)
    patch, side = (
        v.integer("patch_size", default=16, high=1 << 10),
        v.integer("pooling_kernel_size", default=3, high=64),
    )
    images.require("patch_size", patch, default=patch)
    images.require("pooling_kernel_size", side, default=side)
    tokens = images.integer("max_soft_tokens", default=TOKENS, high=1 << 14)
    return {
        "image_size": int(tokens**0.5) * side * patch,
        "image_max_pixels": tokens * (side * patch) ** 2,
        "patch_size": patch,
        "projector.scale_factor": side,
        "embedding_length": width,
        "feed_forward_length": v.integer("intermediate_size", default=3072),
        "block_count": v.integer("num_hidden_layers", default=16, high=4096),
        "attention.head_count": heads,
        "attention.layer_norm_epsilon": v.number("rms_norm_eps", default=1e-6, high=1.0),
        "projection_dim": s.model.integer("hidden_size"),
        "image_mean": [0.0] * 3,
        "image_std": [1.0] * 3,
    }


def by_channel(c: Fields, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the weights of a convolution, of a matrix that takes pixels one after the other."""
    return shape[0], 3, *(2 * (math.isqrt(shape[1] // 3),))


def pixels_by_channel(c: Fields, values: np.ndarray) -> np.ndarray:
    """Weights of pixels, which have their channels side by side, channel by channel."""
    count, _, side, _ = values.shape
    return values.reshape(count, side, side, 3).transpose(0, 3, 1, 2)


def one(c: Fields, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a number."""
    return (1,)


def minicpm46(s: Settings) -> Keys:
    """Large pictures are in slices of about `image_size`; squares of patches merge after a layer."""
    for name, value in (("merge_kernel_size", [2, 2]), ("merger_times", 1), ("downsample_mode", "16x")):
        s.model.require(name, value, default=value)
    s.vision.require("window_kernel_size", [2, 2], default=[2, 2])
    patch = side(s.vision, "patch_size", 1 << 10)
    for name, value in (("patch_size", patch), ("downsample_mode", "16x"), ("resample", 3)):
        s.images.require(name, value, default=value)
    last = s.model.integer("insert_layer_id", default=s.vision.integer("insert_layer_id", default=6, low=0), low=0)
    square = s.images.integer("scale_resolution", default=448, high=1 << 14)
    vision = Fields({**s.vision.values, "image_size": square}, s.vision.where)
    most = s.images.integer("max_slice_nums", default=SLICES, high=64) if s.images.flag("slice_mode", True) else 1
    keys = usual(Settings(s.model, vision, s.images), [0.5] * 3, [0.5] * 3)
    keys |= {"projector.scale_factor": 4, "wa_layer_indexes": [last]}
    return keys if most == SLICES else keys | {"preproc_max_tiles": most}


def resampler(s: Settings) -> Keys:
    """MiniCPM-V 2.5 to 4.5: `image_size` is about the side of a slice; the table of positions is for more patches."""
    square, count = s.model.integer("image_size", default=448, high=1 << 14), s.model.integer("query_num", default=64)
    slices = s.model.inside("slice_config")
    slices.require("scale_resolution", square, default=square)
    slices.require("patch_size", side(s.vision, "patch_size", 1 << 10), default=s.vision.values.get("patch_size"))
    if not s.model.flag("slice_mode", True):
        slices = Fields({"max_slice_nums": 1}, slices.where)
    most = slices.integer("max_slice_nums", default=SLICES, high=64)
    vision = {**s.vision.values, "image_size": square}
    if s.model.flag("drop_vision_last_layer", False):
        vision["num_hidden_layers"] = s.vision.integer("num_hidden_layers", low=2, high=4096) - 1
    keys = usual(Settings(s.model, Fields(vision, s.vision.where), s.images), [0.5] * 3, [0.5] * 3)
    keys |= {"clip.minicpmv_version": np.int32(minicpm_v(s.model)[1]), "clip.minicpmv_query_num": count}
    return keys if most == SLICES else keys | {"preproc_max_tiles": most}


def mobile_vlm(s: Settings) -> Keys:
    """As LLaVA, with other names of the settings."""
    s.model.require("mm_vision_select_feature", "patch", default="patch")
    s.model.require("image_aspect_ratio", "pad", "square", default="square")
    pad = s.model.text("image_aspect_ratio", "square") == "pad"
    chosen = s.model.values.get("mm_vision_select_layer", -2)
    model = Fields({**s.model.values, "vision_feature_layer": chosen}, s.model.where)
    return llava(Settings(model, s.vision, Fields({"do_pad": pad, **s.images.values}, s.images.where)))


def mobile_vlm2(s: Settings) -> Keys:
    """Also the number of patches, of which four are a token whatever it is in the file, but 144 in all in the model."""
    keys = mobile_vlm(s)
    if keys["image_size"] // keys["patch_size"] != ACROSS:
        raise s.vision.wrong("image_size", keys["image_size"], f"{ACROSS} patches of {keys['patch_size']} in a row")
    return keys


def tower_of(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """The settings of a CLIP encoder whose tensors alone the folder has, or a folder in it, named as the encoder."""
    name, end = checkpoint.config.text("mm_vision_tower", ""), "vision_model.embeddings.patch_embedding.weight"
    if "siglip" in name.lower() or "laion" in name.lower():
        raise checkpoint.config.wrong("mm_vision_tower", name, "an encoder of OpenAI's CLIP")
    inner = os.path.join(checkpoint.folder, os.path.basename(name), SINGLE)
    if not any(tensor.endswith(end) for tensor in checkpoint.stored) and name and os.path.exists(inner):
        checkpoint.add(inner, "vision_tower.")
    shapes = {tensor.rpartition("vision_model.")[2]: stored.shape for tensor, stored in checkpoint.stored.items()
              if "vision_model." in tensor}  # fmt: skip
    patches, rows = (shapes.get(f"embeddings.{part}_embedding.weight", ()) for part in ("patch", "position"))
    hidden = shapes.get("encoder.layers.0.mlp.fc1.weight", ())
    if len(patches) != 4 or len(rows) != 2 or len(hidden) != 2:
        raise ValueError(
            f"convert: {checkpoint.folder}: the encoder {name!r} is not in the folder: need its tensors, or its own "
            f"folder as {os.path.basename(name) or 'vision_tower'}"
        )
    across = math.isqrt(rows[0] - ("embeddings.class_embedding" in shapes))
    return {
        "model_type": "clip_vision_model", "hidden_size": patches[0], "patch_size": patches[2],
        "image_size": across * patches[2], "intermediate_size": hidden[0],
        "num_hidden_layers": len([name for name in shapes if name.endswith(".mlp.fc1.weight")]),
        "num_attention_heads": max(1, patches[0] // CLIP_HEAD),
    }  # fmt: skip


ACROSS = 24  # patches in a row of MobileVLM
CLIP_HEAD = 64  # elements of a head of any of OpenAI's encoders
OF_CLIP = ("post_layernorm", "embeddings.position_ids", "text_model.*", "*_projection", "logit_scale")


def point(c: Fields, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a convolution of single points as a matrix."""
    return shape[:2]


LDP: dict[str, Any] = {**VIT, "model.mlp.1": "mm.model.mlp.1", "model.mlp.3": "mm.model.mlp.3"}
for _block in ("model.mb_block.1.block", "model.mb_block.2.block"):
    LDP |= {f"{_block}.{end}": f"mm.{_block}.{end}" for end in ("0.0", "0.1", "2.1")}
    LDP |= {f"{_block}.{end}": Part(f"mm.{_block}.{end}", shape=point) for end in ("1.fc1", "1.fc2", "2.0")}
LDP2 = {**VIT, "mlp.mlp.0": "mm.model.mlp.0", "mlp.mlp.2": "mm.model.mlp.2", "peg.peg.0": "mm.model.peg.0"}
RESAMPLER = {
    **VIT,
    "query": "resampler.query",
    "kv_proj": "resampler.kv",
    "attn.in_proj_weight": [Part(f"resampler.attn.{q}.weight", slices(3, i)) for i, q in enumerate("qkv")],
    "attn.in_proj_bias": [Part(f"resampler.attn.{q}.bias", slices(3, i)) for i, q in enumerate("qkv")],
    "attn.out_proj": "resampler.attn.out",
    **{f"ln_{name}": f"resampler.ln_{name}" for name in ("q", "kv", "post")},
    "proj": Part("resampler.proj.weight", transposed=True),
}
MINICPM46 = {
    **VIT,
    "vit_merger.layer_norm1": "v.vit_merger.ln1",
    "vit_merger.self_attn.q_proj": "v.vit_merger.attn_q",
    "vit_merger.self_attn.k_proj": "v.vit_merger.attn_k",
    "vit_merger.self_attn.v_proj": "v.vit_merger.attn_v",
    "vit_merger.self_attn.out_proj": "v.vit_merger.attn_out",
    "vit_merger.pre_norm": "v.vit_merger.ds_ln",
    "vit_merger.linear_1": "v.vit_merger.ds_ffn_up",
    "vit_merger.linear_2": "v.vit_merger.ds_ffn_down",
    "mlp.{}.pre_norm": "mm.input_norm",
    "mlp.{}.linear_1": "mm.up",
    "mlp.{}.linear_2": "mm.down",
}
GEMMA4V: dict[str, Any] = {
    "patch_embedder.input_proj": Part("v.patch_embd", shape=by_channel, function=pixels_by_channel),
    "patch_embedder.position_embedding_table": "v.position_embd.weight",
    "std_bias": "v.std_bias",
    "std_scale": "v.std_scale",
    "encoder.layers.{}.input_layernorm": "v.blk.{}.ln1",
    "encoder.layers.{}.post_attention_layernorm": "v.blk.{}.attn_post_norm",
    "encoder.layers.{}.pre_feedforward_layernorm": "v.blk.{}.ln2",
    "encoder.layers.{}.post_feedforward_layernorm": "v.blk.{}.ffn_post_norm",
    "encoder.layers.{}.self_attn.q_norm": "v.blk.{}.attn_q_norm",
    "encoder.layers.{}.self_attn.k_norm": "v.blk.{}.attn_k_norm",
    "embedding_projection": "mm.input_projection",
}
for _old, _new in {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                   "self_attn.o_proj": "attn_out", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
                   "mlp.down_proj": "ffn_down"}.items():  # fmt: skip
    GEMMA4V[f"encoder.layers.{{}}.{_old}.linear"] = f"v.blk.{{}}.{_new}"
    for _end in ("input_min", "input_max", "output_min", "output_max"):
        GEMMA4V[f"encoder.layers.{{}}.{_old}.{_end}"] = Part(f"v.blk.{{}}.{_new}.{_end}", shape=one)
VIT_BASE = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
            "image_size": 224}  # fmt: skip
CLIP_VISION = {**VIT_BASE, "patch_size": 32, "layer_norm_eps": 1e-5, "model_type": "clip_vision_model"}
HEAD = {
    "head.probe": Part("v.head.query.weight", shape=flat),
    "head.attention.in_proj_weight": [Part(f"v.head.attn_{q}.weight", slices(3, i)) for i, q in enumerate("qkv")],
    "head.attention.in_proj_bias": [Part(f"v.head.attn_{q}.bias", slices(3, i)) for i, q in enumerate("qkv")],
    "head.attention.out_proj": "v.head.attn_out",
    "head.layernorm": "v.head.ln",
    "head.mlp.fc1": "v.head.ffn_up",
    "head.mlp.fc2": "v.head.ffn_down",
}
QWEN3_VISION = {"hidden_act": "gelu_pytorch_tanh", "depth": 27, "hidden_size": 1152, "num_heads": 16, "patch_size": 16,
                "intermediate_size": 4304}  # fmt: skip
ROWS = [
    ImageRow("CLIPModel", "clip", {**VIT, "projection": "mm.model.fc"}, clip, ("embeddings.position_ids",),
             CLIP_VISION),
    ImageRow("SiglipModel", "siglip", {**VIT, **HEAD}, siglip, ("embeddings.position_ids",),
             {**VIT_BASE, "patch_size": 16}),
    ImageRow("Siglip2Model", "siglip2", {**VIT, **HEAD, **PATCH_BY_PIXELS}, siglip2, ("embeddings.position_ids",),
             {**VIT_BASE, "patch_size": 16, "hidden_act": "gelu_pytorch_tanh"}),
    ImageRow("LlavaForConditionalGeneration", "mlp", {**VIT, "linear_1": "mm.0", "linear_2": "mm.2"}, llava,
             ("post_layernorm", "embeddings.position_ids", "head.*")),
    ImageRow("LlavaNextForConditionalGeneration", "mlp",
             {**VIT, "linear_1": "mm.0", "linear_2": "mm.2", "image_newline": "v.image_newline"}, llava_next,
             ("post_layernorm", "embeddings.position_ids", "head.*")),
    ImageRow("Lfm2VlForConditionalGeneration", "lfm2", LFM2, lfm2, ("head.*",), {"hidden_act": "gelu_pytorch_tanh"}),
    ImageRow("MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6", MINICPM46, minicpm46, ("embeddings.position_ids",),
             {**VIT_BASE, "patch_size": 16, "hidden_act": "gelu_pytorch_tanh"}),
    ImageRow("MiniCPMV", "resampler", RESAMPLER, resampler, ("embeddings.position_ids", "pos_embed"),
             {**VIT_BASE, "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14,
              "num_attention_heads": 16}, unread=("resampler.pos_embed_k",)),
    ImageRow("MobileLlamaForCausalLM:ldpnet", "ldp", LDP, mobile_vlm, OF_CLIP, tower_of),
    ImageRow("MobileLlamaForCausalLM:ldpnetv2", "ldpv2", LDP2, mobile_vlm2, OF_CLIP, tower_of),
    ImageRow("Gemma3ForConditionalGeneration", "gemma3",
             {**VIT, "mm_input_projection_weight": "mm.input_projection.weight",
              "mm_soft_emb_norm": Part("mm.soft_emb_norm", plus=1.0)}, gemma3, ("head.*",)),
    ImageRow("Gemma4ForConditionalGeneration", "gemma4v", GEMMA4V, gemma4v,
             defaults={"hidden_act": "gelu_pytorch_tanh"}),
    ImageRow("InternVLForConditionalGeneration", "internvl", INTERNVIT, internvl, ("embeddings.mask_token",)),
    ImageRow("Mistral3ForConditionalGeneration LlavaForConditionalGeneration:pixtral", "pixtral", PIXTRAL, pixtral),
    ImageRow("Idefics3ForConditionalGeneration SmolVLMForConditionalGeneration", "idefics3",
             {**VIT, "modality_projection.proj": "mm.model.fc"}, idefics3),
    ImageRow("Qwen2VLForConditionalGeneration", "qwen2vl_merger", QWEN, qwen2,
             defaults={"hidden_act": "quick_gelu", "depth": 32, "embed_dim": 1280, "num_heads": 16, "patch_size": 14}),
    ImageRow("Qwen2_5_VLForConditionalGeneration", "qwen2.5vl_merger", QWEN, qwen25,
             defaults={"hidden_act": "silu", "depth": 32, "num_heads": 16, "patch_size": 14,
                       "intermediate_size": 3420}),
    ImageRow("Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration", "qwen3vl_merger", qwen3_names, qwen3,
             defaults={**QWEN3_VISION, "deepstack_visual_indexes": [8, 16, 24]}),
    ImageRow("Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration", "qwen3vl_merger", qwen3_names, qwen3,
             defaults=QWEN3_VISION),
]  # fmt: skip
BY_CLASS = {name: row for row in ROWS for name in row.classes.split()}


def image_row(checkpoint: Checkpoint) -> ImageRow:
    """The row of a model's class."""
    name, c = checkpoint.names[0], checkpoint.config
    kinds = c.values.get("mm_projector_type"), c.inside("vision_config").values.get("model_type")
    name = next((special for kind in kinds if (special := f"{name}:{kind}") in BY_CLASS), name)
    if name not in BY_CLASS:
        known = ", ".join(BY_CLASS)
        where = checkpoint.config.where
        raise ValueError(f"convert: {where}: class {name!r} has no known encoder of pictures: need one of {known}")
    return BY_CLASS[name]


def image_keys(checkpoint: Checkpoint, row: ImageRow) -> Keys:
    """The keys of the file."""
    where = "preprocessor_config.json"
    images = optional_json(checkpoint.folder, where)
    if not images:
        where = "processor_config.json"
        images = dict(Fields(optional_json(checkpoint.folder, where), where).inside("image_processor").values)
    vision = vision_of(checkpoint, row)
    settings = Settings(checkpoint.config, vision, Fields(images, os.path.join(checkpoint.folder, where)))
    keys: Keys = {
        "general.architecture": "clip",
        "general.type": "mmproj",
        "general.name": model_name(checkpoint),
        "clip.has_vision_encoder": True,
        "clip.projector_type": row.projector,
    }
    gelu = VISION[row.projector].gelu
    flags = {ggml.ggml_gelu_quick: None, gelu: "gelu", ggml.ggml_silu: "silu"}
    names = [name for name, function in ACTIVATIONS.items() if function in flags]
    clip = vision.text("model_type", default="") == "clip_vision_model"
    usual_name = "quick_gelu" if clip else next(name for name in names if ACTIVATIONS[name] is gelu)
    vision.require("hidden_act", *names, default=usual_name)
    flag = flags[ACTIVATIONS[vision.text("hidden_act", usual_name)]]
    if flag is not None:
        keys[f"clip.use_{flag}"] = True
    found = row.keys(settings).items()
    return keys | {name if name.startswith("clip.") else f"{ARCH}.{name}": value for name, value in found}


def image_weights(checkpoint: Checkpoint, row: ImageRow, layers: int) -> dict[str, Weight]:
    """The tensors of the file."""
    weights: dict[str, Weight] = {}
    names = row.names_of(vision_of(checkpoint, row))
    for stored in checkpoint.stored.values():
        name = stored.name.removeprefix("model.")
        prefix = next((p for p in (*ENCODERS, *PROJECTORS) if name.startswith(p)), "" if name in names else None)
        if prefix is None:  # of the language model
            continue
        name = name[len(prefix) :]
        whole = name.rpartition(".")[0] in names  # with numbers that are none of layers
        numbers = [] if whole else [int(n) for n in NUMBER.findall(f".{name}")]
        pattern = name if whole else NUMBER.sub("{}", name)
        stem, _, suffix = pattern.rpartition(".")
        if any(fnmatch.fnmatchcase(n, old) for n in (stem, pattern) for old in row.dropped) or numbers[:1] >= [layers]:
            continue
        if suffix not in ("weight", "bias"):
            stem, suffix = pattern, ""
        target = names.get(stem, names.get(name.removesuffix(f".{suffix}")))
        if target is None or len(numbers) > 1:
            raise ValueError(f"convert: {stored.path}: tensor {stored.name!r} is not one of {checkpoint.names[0]}")
        parts = [p if isinstance(p, Part) else Part(p) for p in (target if isinstance(target, list) else [target])]
        for part in parts if suffix != "bias" or parts[0].columns is None else [Part(parts[0].name)]:
            complete = not suffix or ".weight" in part.name
            new = part.name.format(*numbers) + ("" if complete else f".{suffix}")
            weights[new] = image_weight(checkpoint, stored, new, part)
    for name in row.unread:
        width = checkpoint.config.integer("hidden_size")
        weights[name] = Weight(name, (width,), F32, F32, values=np.zeros(width, np.float32))
    return dict(sorted(weights.items(), key=lambda item: order(item[0])))


def row_end(checkpoint: Checkpoint) -> dict[str, Weight]:
    """The embedding of the token that ends a row of patches, which llama.cpp needs there; none without an id."""
    added = optional_json(checkpoint.folder, "tokenizer.json").get("added_tokens")
    tokens = (
        {str(t.get("content")): t.get("id") for t in added if isinstance(t, dict)} if isinstance(added, list) else {}
    )
    number = tokens.get("[IMG_BREAK]")
    table = next((t for name, t in checkpoint.stored.items() if name.endswith("embed_tokens.weight")), None)
    if not isinstance(number, int) or table is None or len(table.shape) != 2 or not 0 <= number < table.shape[0]:
        return {}
    part = Part(ROW_END, lambda c, rows: np.array([number]))
    return {ROW_END: Weight(ROW_END, table.shape[1:], TYPES[table.dtype][0], F32, (table,), part)}


def image_weight(checkpoint: Checkpoint, stored: Stored, name: str, part: Part) -> Weight:
    """A tensor of the file that is one of the folder."""
    if stored.dtype not in TYPES:
        raise ValueError(f"convert: {stored.path}: tensor {stored.name!r} is {stored.dtype}: need {', '.join(TYPES)}")
    columns = part.columns is not None  # of patches, perhaps of films
    need = "[C, 3, 2, P, P] or [C, 3 P P]" if columns else "1 to 4 dimensions"
    number = not stored.shape and part.shape is not None
    fits = is_patches(stored.shape) if columns else number or 1 <= len(stored.shape) <= 4
    if 0 in stored.shape or not fits:
        raise ValueError(f"convert: {stored.path}: tensor {stored.name!r} is {list(stored.shape)}: need {need}")
    changed = part.function is not None or (part.plus and name.endswith(".weight"))
    source = F32 if changed else TYPES[stored.dtype][0]
    shape = part.reshaped(checkpoint.config, stored.shape)
    if columns:
        patch = math.isqrt(stored.shape[-1] // 3) if len(stored.shape) == 2 else stored.shape[-1]
        shape = (stored.shape[0], 3, patch, patch)
    elif part.rows is not None:
        shape = (len(part.rows(checkpoint.config, shape[0])), *shape[1:])
    plain = len(shape) != 2 or "position_embd" in name
    if len(shape) == 4 and name.startswith("mm."):  # llama.cpp convolves with kernels of f16 alone
        return Weight(name, shape, source, F32 if source == F32 else ggml.GGML_TYPE_F16, (stored,), part)
    return Weight(name, shape, source, F32 if plain else source, (stored,), part)


def is_patches(shape: tuple[int, ...]) -> bool:
    """Whether a shape is [C, 3, 2, P, P], of films, or [C, 3 P P]."""
    if len(shape) == 2:
        return shape[1] % 3 == 0 and math.isqrt(shape[1] // 3) ** 2 == shape[1] // 3
    return len(shape) == 5 and shape[1:3] == (3, 2) and shape[3] == shape[4]


def order(name: str) -> tuple[bool, int]:
    """Sorts tensors by layers, after those that are of none."""
    match = re.match(r"v\.blk\.(\d+)\.", name)
    return match is not None, int(match[1]) if match else 0


def check_images(checkpoint: Checkpoint, keys: Keys, weights: Mapping[str, Weight]) -> None:
    """Builds the graph of the encoder, without memory, of tensors of the planned shapes.

    Raises:
        ValueError: a key or tensor is missing or wrong, or a tensor is not used.
    """
    contexts = Held(ggml.ggml_free)
    try:
        ctx = contexts.new(ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
        row, config = vision_config(keys, checkpoint.folder)
        tensors = Recorded({w.name: new_tensor(ctx, w.shape, w.kind) for w in weights.values()})
        across = smallest(row, config)
        _, _, result = tower_nodes(ctx, ctx, row, config, tensors, across, across)
        unused = sorted(set(weights) - tensors.used - {ROW_END, *image_row(checkpoint).unread})
        if unused:
            raise ValueError(f"the projector {keys['clip.projector_type']!r} does not use tensor {unused[0]!r}")
        width = keys[f"{ARCH}.projection_dim"] * (1 + sum(keys.get(f"{ARCH}.is_deepstack_layers", [])))
        if not row.pooled and result.contents.ne[0] != width:
            raise ValueError(f"embeddings have {result.contents.ne[0]} elements, the text model {width}")
    except ValueError as error:
        text = bare_message(error).removeprefix("convert: ").removeprefix(f"{checkpoint.folder}: ")
        raise ValueError(f"convert: {checkpoint.folder}: {text}") from None
    finally:
        contexts.free()


def plan_images(checkpoint: Checkpoint) -> tuple[Keys, dict[str, Weight]]:
    """The keys and tensors of the file, checked."""
    row = image_row(checkpoint)
    keys = image_keys(checkpoint, row)
    weights = image_weights(checkpoint, row, keys[f"{ARCH}.block_count"])
    if row.names is PIXTRAL:
        weights = row_end(checkpoint) | weights
    check_images(checkpoint, keys, weights)
    return keys, weights
