"""MobileVLM (arXiv:2312.16886, its second version arXiv:2402.03766): as LLaVA, but convolutions make a token of four
patches."""

from types import SimpleNamespace

import ggml

from . import llava
from .encoder import between, layer_norm, linear, without_class

tiles, prompt = llava.tiles, llava.prompt


def project(g, x, columns):
    """y = W3 gelu(W1 x), then block2(y + block1(y))."""
    x = between(g, without_class(g, x), "mm.model.mlp.1", "mm.model.mlp.3")
    x = g.add(x, block(g, x, columns, "mm.model.mb_block.1.block.", 1))
    return block(g, x, columns, "mm.model.mb_block.2.block.", 2)


def project_of_second(g, x, columns):
    """y = the means of four of W2 gelu(W0 x), then y + convolution(y)."""
    x = between(g, without_class(g, x), "mm.model.mlp.0", "mm.model.mlp.2")
    x = as_picture(g, x, columns)
    x = as_tokens(g, ggml.ggml_pool_2d(g.ctx, x, ggml.GGML_OP_POOL_AVG, 2, 2, 2, 2, 0, 0))
    return g.add(x, g.bias(convolved(g, x, columns // 2, "mm.model.peg.0", 1), "mm.model.peg.0"))


SECOND = SimpleNamespace(tiles=tiles, prompt=prompt, project=project_of_second)


def block(g, x, columns, name, stride):
    """norm(W (h * gate)), h = hardswish(norm(convolution(x))), with a gate for each channel by the mean of h."""
    ctx = g.ctx
    h = layer_norm(g, convolved(g, x, columns, name + "0.0", stride), name + "0.1", g.config.eps)
    h = ggml.ggml_hardswish(ctx, h)
    width = h.contents.ne[0]
    mean = ggml.ggml_mean(ctx, ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, h)))
    gate = linear(g, ggml.ggml_reshape_2d(ctx, mean, width, 1), name + "1.fc1")
    gate = ggml.ggml_hardsigmoid(ctx, linear(g, ggml.ggml_relu(ctx, gate), name + "1.fc2"))
    h = g.linear(ggml.ggml_mul(ctx, h, gate), name + "2.0", width)
    return layer_norm(g, h, name + "2.1", g.config.eps)


def convolved(g, x, columns, name, stride):
    """A convolution of 3 x 3 tokens, channel by channel: [C, tokens]."""
    w = g.weight(name + ".weight", 3, 3, 1, x.contents.ne[0])
    return as_tokens(g, ggml.ggml_conv_2d_dw(g.ctx, w, as_picture(g, x, columns), stride, stride, 1, 1, 1, 1))


def as_picture(g, x, columns):
    """Tokens [C, N] as [columns, rows, C]."""
    (width, n), x = x.contents.ne[:2], ggml.ggml_cont(g.ctx, ggml.ggml_transpose(g.ctx, x))
    return ggml.ggml_reshape_3d(g.ctx, x, columns, n // columns, width)


def as_tokens(g, x):
    """The reverse."""
    columns, rows, width = x.contents.ne[:3]
    x = ggml.ggml_reshape_2d(g.ctx, x, columns * rows, width)
    return ggml.ggml_cont(g.ctx, ggml.ggml_transpose(g.ctx, x))
