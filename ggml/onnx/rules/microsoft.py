"""Operators of the domain com.microsoft that exported and optimised models contain."""

import numpy as np

from ..values import OnHost
from . import rule
from .conv import conv
from .elementwise import activated
from .index import gather
from .matmul import gemm, matmul
from .norm import layer_norm, normalised


def fused(b, node, x, z=None):
    """The sum of x and z, and the activation that a fused operator applies to it."""
    x = x if z is None else b.add(x, z)
    given = [node.attr(f"activation_{k}") for k in ("alpha", "beta")]
    return activated(b, node, x, node.attr("activation"), *(node.attr("activation_params") or given)) \
        if node.attr("activation") else x


@rule("com.microsoft.FusedConv")
def fused_conv(b, node, x, w, bias=None, z=None):
    return fused(b, node, conv(b, node, x, w, bias), z)


rule("com.microsoft.FusedGemm")(lambda b, node, x, y, c=None: fused(b, node, gemm(b, node, x, y, c)))


@rule("com.microsoft.FusedMatMul")
def fused_matmul(b, node, x, y):
    if node.attr("transBatchA", 0) or node.attr("transBatchB", 0):
        raise OnHost("transposed batches")
    x = b.move(x, -1, -2) if node.attr("transA", 0) else x
    y = b.move(y, -1, -2) if node.attr("transB", 0) else y
    z, alpha = matmul(b, x, y), node.attr("alpha", 1.0)
    return z if alpha == 1.0 else b.affine(z, alpha)


@rule("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
def skip_layer_norm(b, node, x, skip, gamma, beta=None, bias=None):
    if "Simplified" in node.op:
        beta, bias = None, beta
    total = b.add(x, skip) if bias is None else b.add(b.add(x, skip), bias)
    y = b.mul(normalised(b, total, 1, node.attr("epsilon", 1e-12), "Simplified" in node.op), gamma)
    y = y if beta is None else b.add(y, beta)
    return (y, None, None, total)[: len(node.outputs)] if len(node.outputs) > 1 else y


@rule("com.microsoft.EmbedLayerNormalization")
def embed_layer_norm(b, node, word, segment, words, places, segments, gamma, beta, mask=None, positions=None):
    place = b.slice(places, 0, 0, word.shape[1]) if positions is None else gather(b, places, positions)
    total = b.add(gather(b, words, word), place)
    total = total if segment is None else b.add(total, gather(b, segments, segment))
    y = b.add(b.mul(normalised(b, total, 1, node.attr("epsilon", 1e-12)), gamma), beta)
    return y, b.full(word.shape[:1], 0, np.int32) if mask is None else b.reduce_sum(mask, [1], False), total


rule("com.microsoft.LayerNormalization")(lambda b, node, x, scale, bias=None: layer_norm(b, node, x, scale, bias))
