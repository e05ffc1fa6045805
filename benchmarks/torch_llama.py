"""LLaMA with low-rank adapters in PyTorch, from the tensors of a GGUF file: what fine-tuning is compared with."""

import torch
import torch.nn.functional as F
from torch import nn

MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


class LoraLlama(nn.Module):
    """The logits of a row of tokens; only the adapters are trained.

    Args:
        weights: tensors by their names in the file (NumPy order); without `output.weight` the embedding's is used.
        heads: heads of queries.
        kv_heads: heads of keys and values.
        eps: added to the mean square in norms.
        base: base of the rotary frequencies.
        pairs: matrices A [rank, n_in] and B [n_out, rank] by the name of the weight.
        scale: factor of B A.
    """

    def __init__(self, weights, heads, kv_heads, eps, base, pairs, scale):
        super().__init__()
        self.weights, self.heads, self.kv_heads, self.eps, self.scale = weights, heads, kv_heads, eps, scale
        self.layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blk."))
        self.pairs = {name: tuple(nn.Parameter(t) for t in pair) for name, pair in pairs.items()}
        self.matrices = nn.ParameterList(t for pair in self.pairs.values() for t in pair)
        q = weights["blk.0.attn_q.weight"]
        self.size = len(q) // heads
        self.frequencies = base ** (-torch.arange(0, self.size, 2, dtype=q.dtype) / self.size)

    def norm(self, x, name):
        return F.rms_norm(x, x.shape[-1:], self.weights[name + ".weight"], self.eps)

    def linear(self, x, name):
        """W x + scale B (A x)."""
        y = F.linear(x, self.weights[name + ".weight"])
        if name + ".weight" not in self.pairs:
            return y
        a, b = self.pairs[name + ".weight"]
        return y + self.scale * F.linear(F.linear(x, a), b)

    def rotate(self, x):
        """Rotary positions: neighbouring elements of x [N, heads, D] are pairs."""
        angle = torch.arange(len(x), dtype=x.dtype)[:, None, None] * self.frequencies
        even, odd = x[..., ::2], x[..., 1::2]
        pair = even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()
        return torch.stack(pair, -1).flatten(-2)

    def attention(self, x, b):
        n = len(x)
        q = self.rotate(self.linear(x, b + "attn_q").view(n, self.heads, self.size))
        k = self.rotate(self.linear(x, b + "attn_k").view(n, self.kv_heads, self.size))
        v = self.linear(x, b + "attn_v").view(n, self.kv_heads, self.size)
        q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.linear(y[0].transpose(0, 1).reshape(n, -1), b + "attn_output")

    def forward(self, ids):
        """The logits [N, vocabulary] of tokens [N]."""
        x = self.weights["token_embd.weight"][ids]
        for i in range(self.layers):
            b = f"blk.{i}."
            x = x + self.attention(self.norm(x, b + "attn_norm"), b)
            h = self.norm(x, b + "ffn_norm")
            h = F.silu(self.linear(h, b + "ffn_gate")) * self.linear(h, b + "ffn_up")
            x = x + self.linear(h, b + "ffn_down")
        output = self.weights.get("output.weight", self.weights["token_embd.weight"])
        return F.linear(self.norm(x, "output_norm"), output)

    def loss(self, ids):
        """The mean negative log-probability of each token [N + 1] after the first."""
        return F.cross_entropy(self(ids[:-1]), ids[1:])
