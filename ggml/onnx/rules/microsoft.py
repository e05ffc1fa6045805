"""Operators of the domain com.microsoft that exported and optimised models contain."""

import math
from dataclasses import replace

import ggml

from ..values import OnHost
from . import RULES, rule
from .conv import conv
from .matmul import gemm, matmul
from .norm import layer_norm, normalised


def activated(b, node, x):
    """The activation that a fused operator applies to its result."""
    name, parameters = node.attr("activation", ""), node.attr("activation_params") or []
    if not name:
        return x
    names = {"LeakyRelu": ["alpha"], "HardSigmoid": ["alpha", "beta"], "Clip": ["min", "max"]}.get(name, [])
    attrs = dict(zip(names, parameters))
    attrs.update((k, node.attr(f"activation_{k}")) for k in names if node.attr(f"activation_{k}") is not None)
    if name not in ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip"):
        raise OnHost(f"activation {name}")
    return RULES[name](b, replace(node, op=name, attrs=attrs, version=7), x)


@rule("com.microsoft.FusedConv")
def fused_conv(b, node, x, w, bias=None, z=None):
    y = conv(b, node, x, w, bias)
    return activated(b, node, y if z is None else b.add(y, z))


rule("com.microsoft.FusedGemm")(lambda b, node, x, y, c=None: activated(b, node, gemm(b, node, x, y, c)))


@rule("com.microsoft.FusedMatMul")
def fused_matmul(b, node, x, y):
    if node.attr("transBatchA", 0) or node.attr("transBatchB", 0):
        raise OnHost("transposed batches")
    x = b.move(x, -1, -2) if node.attr("transA", 0) else x
    y = b.move(y, -1, -2) if node.attr("transB", 0) else y
    z, alpha = matmul(b, x, y), node.attr("alpha", 1.0)
    return z if alpha == 1.0 else b.affine(z, alpha)


@rule("com.microsoft.Gelu", "com.microsoft.BiasGelu", "com.microsoft.FastGelu")
def gelu(b, node, x, bias=None):
    x = x if bias is None else b.add(x, bias)
    return b.unary(ggml.ggml_gelu if node.op.endswith("FastGelu") else ggml.ggml_gelu_erf, x)


@rule("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
def skip_layer_norm(b, node, x, skip, gamma, beta=None, bias=None):
    if "Simplified" in node.op:
        beta, bias = None, beta
    total = b.add(x, skip) if bias is None else b.add(b.add(x, skip), bias)
    y = b.mul(normalised(b, total, 1, node.attr("epsilon", 1e-12), "Simplified" in node.op), gamma)
    y = y if beta is None else b.add(y, beta)
    return (y, None, None, total)[: len(node.outputs)] if len(node.outputs) > 1 else y


rule("com.microsoft.LayerNormalization")(lambda b, node, x, scale, bias=None: layer_norm(b, node, x, scale, bias))


@rule("com.microsoft.MultiHeadAttention")
def multi_head_attention(b, node, q, k=None, v=None, bias=None, mask=None, relative=None, *rest):
    if k is None or v is None or len(k.shape) != 3 or bias is not None or mask is not None or any(
            r is not None for r in rest):
        raise OnHost("packed operands, masks or states")
    heads = node.attr("num_heads")

    def split(x):
        return b.transpose(b.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads)), (0, 2, 1, 3))

    q, k, v = split(q), split(k), split(v)
    scale = node.attr("scale") or 1 / math.sqrt(q.shape[-1])
    scores = b.affine(matmul(b, q, b.transpose(k, (0, 1, 3, 2))), scale)
    scores = scores if relative is None else b.add(scores, relative)
    weights = b.with_shape(ggml.ggml_soft_max(b.ctx, b.contiguous(scores).t), scores.shape, scores)
    y = b.transpose(matmul(b, weights, v), (0, 2, 1, 3))
    return b.reshape(y, (*y.shape[:2], y.shape[2] * y.shape[3]))
