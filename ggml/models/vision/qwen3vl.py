"""Qwen 3 VL: as Qwen 2 VL, with a table of positions, and states of some layers for the language model's layers."""

import ggml

from .encoder import between, layer, norm, patches, positions, resized_positions
from .qwen2vl import order, places, prompt, rotated, sides, squares, tiles

__all__ = ["encode", "order", "places", "positions", "project", "prompt", "rotated", "sides", "tiles"]

MODE = ggml.GGML_SCALE_MODE_BILINEAR | ggml.GGML_SCALE_FLAG_ALIGN_CORNERS


def encode(g, given, columns):
    """The states of the patches after all layers: [C, N]; what layers of the language model add is kept for project."""
    x = patches(g, given)
    x = g.add(x, resized_positions(g, columns, x.contents.ne[1] // columns, MODE))
    x = g.point("v.embd", ggml.ggml_get_rows(g.ctx, x, g.inputs.ids))
    added = g.passed["added"] = []
    for i in range(g.config.n_layer):
        x = layer(g, i, x)
        if g.has(f"v.deepstack.{i}.norm.weight"):
            h = norm(g, squares(g, x), f"v.deepstack.{i}.norm")
            added.append(between(g, h, f"v.deepstack.{i}.fc1", f"v.deepstack.{i}.fc2"))
    return x


def project(g, x, columns):
    """W2 gelu(W0 norm(x)), of the patches of a square, and after it what layers add: [(1 + layers) dim, tokens]."""
    y = between(g, squares(g, norm(g, x, "v.post_ln")), "mm.0", "mm.2")
    for part in g.passed["added"]:
        y = ggml.ggml_concat(g.ctx, y, part, 0)
    return y
