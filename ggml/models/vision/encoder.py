"""Vision transformers (arXiv:2010.11929) of the parts of language models: CLIP, SigLIP and relatives.

They differ in what their files hold: a class token, a norm before or after the layers, scales of the branches, norms
of q and k, a gate. C is the width of the encoder, N the number of patches with the class token, P the side of a patch.
"""

from __future__ import annotations

from typing import Any

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
        "tiles": (k.integer("preproc_min_tiles", 1, high=64), k.integer("preproc_max_tiles", 12, high=64)),
        "pixels": k.integer("image_max_pixels", 0, low=0, high=1 << 28),
        "fit": k.text("image_aspect_ratio", "pad"),
        "kernel": k.integer("resample", pixels.BICUBIC, high=pixels.BICUBIC),
    }


def triple(k: Any, name: str, low: float) -> tuple[float, ...]:
    """Three numbers, one for each channel."""
    values = k.value(name)
    if not isinstance(values, list) or len(values) != 3 or not all(
        isinstance(v, (int, float)) and low <= v <= 1e6 for v in values
    ):  # fmt: skip
        raise ValueError(f"load: {k.path}: key 'clip.vision.{name}' is {str(values)[:60]}: need three numbers")
    return tuple(map(float, values))


def embed(g: Any, pixels: Tensor) -> Tensor:
    """x = W patch + b, a class token before them, + position: [C, N] from pixels [3 P P, patches]."""
    c, ctx = g.config, g.ctx
    side = c.own["patch"]
    w = g.weight("v.patch_embd.weight", side, side, 3, c.n_embd)
    x = ggml.ggml_mul_mat(ctx, ggml.ggml_reshape_2d(ctx, w, 3 * side * side, c.n_embd), pixels)
    x = g.bias(x, "v.patch_embd")
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


def layer(g: Any, i: int, x: Tensor) -> Tensor:
    """x += attention(norm(x)), then x += ffn(norm(x)); every patch sees all of them."""
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
        q, k = rotated(g, q), rotated(g, k)
    h = g.attention(i, q, k, v, g.default_scale())
    h = g.linear(h, b + "attn_out", c.n_embd)
    x = g.add(x, scaled(g, h, b + "ls1"))
    h = feed_forward(g, norm(g, x, b + "ln2"), b + "ffn")
    return g.point(b + "out", g.add(x, scaled(g, h, b + "ls2")))


def rotated(g: Any, x: Tensor) -> Tensor:
    """Rotary positions in two dimensions: half of each head by the row of the patch, half by its column.

    Of the frequencies 10000^(-2 i / D), those of even i rotate the former and those of odd i the latter.
    """
    ctx, (size, n_head, n), nb = g.ctx, x.contents.ne[:3], x.contents.nb
    halves = []
    for i, scale in enumerate((1.0, ROPE_BASE ** (-2 / size))):
        half = ggml.ggml_view_3d(ctx, x, size // 2, n_head, n, nb[1], nb[2], i * size // 2 * nb[0])
        places = ggml.ggml_view_1d(ctx, g.inputs.positions, n, 4 * n * i)
        mode = ggml.GGML_ROPE_TYPE_NORMAL
        halves.append(
            ggml.ggml_rope_ext(ctx, half, places, None, size // 2, mode, 0, ROPE_BASE, scale, 0.0, 1.0, 0.0, 0.0)
        )
    first, second = halves
    return ggml.ggml_concat(ctx, first, second, 0)


def scaled(g: Any, x: Tensor, name: str) -> Tensor:
    """x times a factor for each channel, where the file has some."""
    return ggml.ggml_mul(g.ctx, x, g.weight(name + ".weight", g.config.n_embd)) if g.has(name + ".weight") else x


def feed_forward(g: Any, x: Tensor, name: str) -> Tensor:
    """down(activation(up x)), or with a gate down(activation(gate x) * up x).

    Files of older converters have up and down exchanged, which their shapes show.
    """
    c = g.config
    up, down = name + "_up", name + "_down"
    if g.has(up + ".weight") and g.weights[up + ".weight"].contents.ne[0] != c.n_embd:
        up, down = down, up
    h = g.linear(x, up, c.n_ff)
    if g.has(name + "_gate.weight"):
        h = ggml.ggml_mul(g.ctx, c.own["activation"](g.ctx, g.linear(x, name + "_gate", c.n_ff)), h)
    else:
        h = c.own["activation"](g.ctx, h)
    return g.linear(h, down, c.n_embd)


def linear(g: Any, x: Tensor, name: str) -> Tensor:
    """W x + b, where the file says how many rows W has."""
    w = g.weights.get(name + ".weight")
    return g.linear(x, name, w.contents.ne[1] if w is not None else 1)


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
