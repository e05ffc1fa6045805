"""Gemma 3 (arXiv:2503.19786): SigLIP, whose patches are averaged to 256 tokens that see each other."""

import ggml

from . import pixels


def tiles(c, image):
    """The picture as a square."""
    return [pixels.resized(image, (c.own["image"],) * 2, pixels.BILINEAR)], (1, 1)


def project(g, x, columns):
    """W norm(mean of squares of patches)."""
    ctx, width, side = g.ctx, g.config.n_embd, g.config.own["merge"] or 4
    x = ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, x))
    x = ggml.ggml_reshape_3d(ctx, x, columns, columns, width)
    x = ggml.ggml_pool_2d(ctx, x, ggml.GGML_OP_POOL_AVG, side, side, side, side, 0, 0)
    x = ggml.ggml_reshape_2d(ctx, x, (columns // side) ** 2, width)
    x = ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, x))
    x = g.rms_norm(x, "mm.soft_emb_norm")
    w = g.weights.get("mm.input_projection.weight")
    w = g.weight("mm.input_projection.weight", w.contents.ne[0] if w is not None else 1, width)
    if ggml.ggml_is_quantized(w.contents.type):  # rows of blocks can't become columns
        raise ValueError("load: tensor 'mm.input_projection.weight' is quantised: need a float type")
    return ggml.ggml_mul_mat(ctx, ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, w)), x)


def prompt(grid):
    """The tokens between marks, and blank lines."""
    return ["\n\n<start_of_image>", 0, "<end_of_image>\n\n"]
