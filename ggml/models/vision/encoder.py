"""Vision transformers (arXiv:2010.11929) of the parts of language models: CLIP, SigLIP and relatives.

They differ in what their files hold: a class token, a norm before or after the layers, scales of the branches, norms
of q and k, a gate. C is the width of the encoder, N the number of patches with the class token, P the side of a patch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ggml

from . import pixels

Tensor = Any
ROPE_BASE = 10000.0


def keys(k: Any) -> dict[str, Any]:
    """The keys of encoders beside the usual ones."""
    image, patch = k.integer("image_size", high=1 << 14), k.integer("patch_size", high=1 << 10)
    if image < patch:
        raise ValueError(f"load: {k.path}: key 'clip.vision.image_size' is {image}: need at least a patch, {patch}")
    return {
        "image": image,
        "patch": patch,
        "mean": triple(k, "image_mean", 0.0),
        "std": triple(k, "image_std", 1e-6),
        "merge": k.integer(
            "projector.scale_factor", k.integer("spatial_merge_size", 0, low=0, high=64), low=0, high=64
        ),
        "largest": k.integer("preproc_image_size", 0, low=0, high=1 << 14),
        "tiles": tuple(k.integer(f"preproc_{end}_tiles", 0, low=0, high=64) for end in ("min", "max")),
        "fit": k.text("image_aspect_ratio", "pad"),
        "pinpoints": pinpoints(k),
        "pixels": tuple(k.integer(f"image_{end}_pixels", 0, low=0, high=1 << 26) for end in ("min", "max")),
        "window_size": k.integer("window_size", 112, high=1 << 14),
        "whole_layers": whole_layers(k),
        "kernel": k.integer("resample", pixels.BICUBIC, high=pixels.BICUBIC),
    }


def pinpoints(k: Any) -> tuple[tuple[int, int], ...]:
    """The widths and heights of pictures in tiles that there may be; none if a picture is one square."""
    values = k.value("image_grid_pinpoints", [])
    if not isinstance(values, list) or len(values) % 2 or len(values) > 256 or not all(
        isinstance(v, int) and 0 < v <= 1 << 14 for v in values
    ):  # fmt: skip
        raise ValueError(f"load: {k.path}: key 'clip.vision.image_grid_pinpoints' is {str(values)[:60]}: need sizes")
    return tuple(zip(values[::2], values[1::2]))


def whole_layers(k: Any) -> tuple[tuple[int, ...] | None, int]:
    """The layers in which every patch sees all of them, or None; else it is every n-th layer."""
    listed = k.value("wa_layer_indexes", [])
    if not isinstance(listed, list) or not all(isinstance(i, int) and 0 <= i < 4096 for i in listed):
        raise ValueError(f"load: {k.path}: key 'clip.vision.wa_layer_indexes' is {str(listed)[:60]}: need layers")
    return tuple(listed) or None, k.integer("n_wa_pattern", 1, high=4097)


def triple(k: Any, name: str, low: float) -> tuple[float, ...]:
    """Three numbers, one for each channel."""
    values = k.value(name)
    if not isinstance(values, list) or len(values) != 3 or not all(
        isinstance(v, (int, float)) and low <= v <= 1e6 for v in values
    ):  # fmt: skip
        raise ValueError(f"load: {k.path}: key 'clip.vision.{name}' is {str(values)[:60]}: need three numbers")
    return tuple(map(float, values))


def patches(g: Any, pixels: Tensor) -> Tensor:
    """W patch + b: [C, patches] from pixels [3 P P, patches]. Encoders of films have W for two equal pictures."""
    c, ctx, side = g.config, g.ctx, g.config.own["patch"]
    products: list[Tensor] = []
    for name in ("v.patch_embd.weight", "v.patch_embd.weight.1"):
        if g.has(name) or not products:
            w = ggml.ggml_reshape_2d(ctx, g.weight(name, side, side, 3, c.n_embd), 3 * side * side, c.n_embd)
            products.append(ggml.ggml_mul_mat(ctx, w, pixels))
    return g.bias(products[0] if len(products) == 1 else g.add(*products), "v.patch_embd")


def embed(g: Any, pixels: Tensor) -> Tensor:
    """x = W patch + b, a class token before them, + position: [C, N] from pixels [3 P P, patches]."""
    c, ctx, side = g.config, g.ctx, g.config.own["patch"]
    x = patches(g, pixels)
    if g.has("v.class_embd"):
        first = ggml.ggml_reshape_2d(ctx, g.weight("v.class_embd", c.n_embd), c.n_embd, 1)
        x = ggml.ggml_concat(ctx, first, x, 1)
    if g.has("v.position_embd.weight"):
        table = g.weight("v.position_embd.weight", c.n_embd, (c.own["image"] // side) ** 2 + g.has("v.class_embd"))
        x = g.add(x, ggml.ggml_get_rows(ctx, table, g.inputs.positions))
    x = g.point("v.embd", x)
    return norm(g, x, "v.pre_ln") if g.has("v.pre_ln.weight") else x


def norm(g: Any, x: Tensor, name: str) -> Tensor:
    return (g.rms_norm if g.config.own["rms"] else g.layer_norm)(x, name)


def layer(g: Any, i: int, x: Tensor, attention: Callable[..., Tensor] | None = None) -> Tensor:
    """x += attention(norm(x)), then x += ffn(norm(x)); every patch sees all of them, unless `attention` is given.

    attention: function of i, q, k, v [D, H, N] and the factor of the scores that gives [C, N].
    """
    c, b = g.config, f"v.blk.{i}."
    h = norm(g, x, b + "ln1")
    if g.has(b + "attn_qkv.weight"):
        q, k, v = g.split(g.linear(h, b + "attn_qkv", 3 * c.n_embd), c.n_head, c.n_head, c.n_head)
    else:
        q, k, v = (g.linear(h, b + name, c.n_embd) for name in ("attn_q", "attn_k", "attn_v"))
        if g.has(b + "attn_q_norm.weight"):
            q, k = g.rms_norm(q, b + "attn_q_norm"), g.rms_norm(k, b + "attn_k_norm")
        q, k, v = (g.heads(x, c.n_head) for x in (q, k, v))
    if c.own["axial"]:
        q, k = c.own["axial"](g, q), c.own["axial"](g, k)
    h = (attention or g.attention)(i, q, k, v, g.default_scale())
    h = g.linear(h, b + "attn_out", c.n_embd)
    x = g.add(x, scaled(g, h, b + "ls1"))
    h = feed_forward(g, norm(g, x, b + "ln2"), b + "ffn")
    return g.point(b + "out", g.add(x, scaled(g, h, b + "ls2")))


def scaled(g: Any, x: Tensor, name: str) -> Tensor:
    """x times a factor for each channel, where the file has some."""
    return ggml.ggml_mul(g.ctx, x, g.weight(name + ".weight", g.config.n_embd)) if g.has(name + ".weight") else x


def feed_forward(g: Any, x: Tensor, name: str) -> Tensor:
    """down(activation(up x)), or with a gate down(activation(gate x) * up x).

    Files of older converters have up and down exchanged, which their shapes show; those of Qwen 2 VL name a wrong width
    between them.
    """
    c = g.config
    up, down = name + "_up", name + "_down"
    if g.has(up + ".weight") and g.weights[up + ".weight"].contents.ne[0] != c.n_embd:
        up, down = down, up
    h = linear(g, x, up)
    if g.has(name + "_gate.weight"):
        h = ggml.ggml_mul(g.ctx, c.own["activation"](g.ctx, linear(g, x, name + "_gate")), h)
    else:
        h = c.own["activation"](g.ctx, h)
    return g.linear(h, down, c.n_embd)


def layer_norm(g: Any, x: Tensor, name: str, eps: float) -> Tensor:
    """The norm of g.layer_norm with another epsilon than the encoder's."""
    w = g.weight(name + ".weight", x.contents.ne[0])
    return g.bias(ggml.ggml_mul(g.ctx, ggml.ggml_norm(g.ctx, x, eps), w), name)


def linear(g: Any, x: Tensor, name: str) -> Tensor:
    """W x + b, where the file says how many rows W has."""
    w = g.weights.get(name + ".weight")
    return g.linear(x, name, w.contents.ne[1] if w is not None else 1)


def between(g: Any, x: Tensor, first: str, second: str) -> Tensor:
    """second(gelu(first(x)))."""
    return linear(g, ggml.ggml_gelu_erf(g.ctx, linear(g, x, first)), second)


def positions(columns: int, rows: int) -> np.ndarray:
    """The row, then the column of each patch, row by row: [2, N]."""
    return np.indices((rows, columns)).reshape(2, -1)


def resized_positions(g: Any, columns: int, rows: int, mode: int) -> Tensor:
    """The table of positions of a square of patches for another shape: [C, columns * rows]."""
    ctx, width, side = g.ctx, g.config.n_embd, g.config.own["image"] // g.config.own["patch"]
    table = g.weight("v.position_embd.weight", width, side * side)
    table = ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, ggml.ggml_cast(ctx, table, ggml.GGML_TYPE_F32)))
    table = ggml.ggml_reshape_3d(ctx, table, side, side, width)
    table = ggml.ggml_interpolate(ctx, table, columns, rows, width, 1, mode)
    table = ggml.ggml_reshape_2d(ctx, table, columns * rows, width)
    return ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, table))


def encode(g: Any, pixels: Tensor) -> Tensor:
    """The states of the patches after all layers: [C, N]."""
    x = embed(g, pixels)
    for i in range(g.config.n_layer):
        x = layer(g, i, x)
    return norm(g, x, "v.post_ln") if g.has("v.post_ln.weight") else x


def without_class(g: Any, x: Tensor) -> Tensor:
    """The states of the patches alone."""
    if not g.has("v.class_embd"):
        return x
    return ggml.ggml_view_2d(g.ctx, x, x.contents.ne[0], x.contents.ne[1] - 1, x.contents.nb[1], x.contents.nb[1])


def merged(g: Any, x: Tensor, columns: int, side: int) -> Tensor:
    """The patches of each square of side x side one below the other: [C side side, N / side^2] from [C, N].

    Within a square, the patches of a row follow one another.
    """
    ctx, (width, n) = g.ctx, x.contents.ne[:2]
    rows, across = n // columns, columns // side
    x = ggml.ggml_reshape_4d(ctx, x, width * side, across, side, rows // side)  # a row of patches in pieces of `side`
    x = ggml.ggml_cont(ctx, ggml.ggml_permute(ctx, x, 0, 2, 1, 3))
    return ggml.ggml_reshape_2d(ctx, x, width * side * side, across * (rows // side))
