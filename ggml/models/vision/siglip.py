"""SigLIP (arXiv:2303.15343) and SigLIP 2: the states of the patches, pooled by a query that was learned."""

import ggml

from . import clip, pixels
from .encoder import feed_forward

prompt = clip.prompt


def tiles(c, image):
    """The picture as a square."""
    return [pixels.resized(image, (c.own["image"],) * 2, c.own["kernel"])], (1, 1)


def project(g, x, columns):
    """y = attention of the query to the patches, then y + ffn(norm(y))."""
    c, ctx, width = g.config, g.ctx, g.config.n_embd
    q = ggml.ggml_reshape_2d(ctx, g.weight("v.head.query.weight", width), width, 1)
    q, k, v = (g.linear(h, f"v.head.attn_{name}", width) for h, name in ((q, "q"), (x, "k"), (x, "v")))
    size, n = c.key_dim, x.contents.ne[1]
    q, k, v = (
        ggml.ggml_permute(ctx, ggml.ggml_reshape_3d(ctx, h, size, c.n_head, count), 0, 2, 1, 3)
        for h, count in ((q, 1), (k, n), (v, n))
    )
    y = ggml.ggml_flash_attn_ext(ctx, q, k, v, None, g.default_scale(), 0.0, 0.0)
    y = g.linear(ggml.ggml_reshape_2d(ctx, y, width, 1), "v.head.attn_out", width)
    return g.add(y, feed_forward(g, g.layer_norm(y, "v.head.ln"), "v.head.ffn"))
