"""Operators of the domain com.microsoft that exported and optimised models contain."""

import numpy as np

from ..recording import ggml
from . import RULES, rule
from .conv import conv
from .elementwise import activated
from .matmul import gemm, matmul
from .norm import moments, normalised


def fused(b, node, x, z=None):
    """The sum of x and z, and the activation that a fused operator applies to it."""
    x = x if z is None else b.add(x, z)
    given = [node.attr(f"activation_{k}") for k in ("alpha", "beta")]
    return (
        activated(b, node, x, node.attr("activation"), *(node.attr("activation_params") or given))
        if node.attr("activation")
        else x
    )


@rule("com.microsoft.FusedConv")
def fused_conv(b, node, x, w, bias=None, z=None):
    return fused(b, node, conv(b, node, x, w, bias), z)


rule("com.microsoft.FusedGemm")(lambda b, node, x, y, c=None: fused(b, node, gemm(b, node, x, y, c)))


@rule("com.microsoft.NhwcConv", "com.microsoft.NhwcFusedConv", "com.microsoft.NhwcMaxPool")
def channels_last(b, node, *operands):
    """The same with the channels as the last axis of images."""
    build = RULES["MaxPool"] if node.op.endswith("MaxPool") else fused_conv
    first = (b.move(v, -1, 1) if i in (0, 3) and v else v for i, v in enumerate(operands))
    return b.move(build(b, node, *first), 1, -1)


@rule("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
def fused_matmul(b, node, *operands):
    x, y = (b.move(v, 0, -2) if node.attr(f"transBatch{n}", 0) else v for v, n in zip(operands, "AB"))
    x, y = (b.move(v, -1, -2) if node.attr(f"trans{n}", 0) else v for v, n in zip((x, y), "AB"))
    alpha, z = node.attr("alpha", 1.0), matmul(b, x, y)
    return z if alpha == 1.0 else b.affine(z, alpha)


@rule("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
def skip_layer_norm(b, node, x, skip, gamma, beta=None, bias=None):
    simple, epsilon = "Simplified" in node.op, node.attr("epsilon", 1e-12)
    if simple:
        beta, bias = None, beta
    total = b.add(x, skip) if bias is None else b.add(b.add(x, skip), bias)
    y = b.mul(normalised(b, total, 1, epsilon, simple), gamma)
    y = y if beta is None else b.add(y, beta)
    if not any(node.outputs[1:3]):
        return y, None, None, total
    if simple:
        mean = b.full((*total.shape[:-1], 1), 0.0)
        variance = b.reduce_sum(b.unary(ggml.ggml_sqr, total), [-1], True, mean=True)
    else:
        mean, variance = moments(b, total, [-1])
    return y, mean, b.reciprocal(b.unary(ggml.ggml_sqrt, b.affine(variance, 1.0, epsilon))), total


@rule("com.microsoft.EmbedLayerNormalization")
def embed_layer_norm(b, node, word, segment, words, places, segments, gamma, beta, mask=None, positions=None):
    place = b.slice(places, 0, 0, word.shape[1]) if positions is None else b.gather(places, 0, positions)
    total = b.add(b.gather(words, 0, word), place)
    total = total if segment is None else b.add(total, b.gather(segments, 0, segment))
    y = b.add(b.mul(normalised(b, total, 1, node.attr("epsilon", 1e-12)), gamma), beta)
    return y, b.full(word.shape[:1], 0, np.int32) if mask is None else b.reduce_sum(mask, [1], False), total
