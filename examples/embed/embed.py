"""Sentence embeddings with a BERT from a GGUF file: ranks sentences by how near they are to a question.

python embed.py minilm.gguf "What do cats eat?" "Cats live on meat." "The train is late."
"""

import ctypes
import os
import sys

import numpy as np
from tokenizers import Tokenizer

import ggml
from ggml.utils import from_numpy, to_numpy


class Model:
    """The file is mapped: its weights take memory as they are used, and are shared by all processes that use them."""

    def __init__(self, path, threads=None):
        self.threads = threads or os.cpu_count()
        weights = ctypes.c_void_p()
        g = ggml.gguf_init_from_file_mmap(path, ggml.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(weights)))
        self.weights = weights.value
        names = [ggml.gguf_get_tensor_name(g, i) for i in range(ggml.gguf_get_n_tensors(g))]
        self.w = {name.decode(): ggml.ggml_get_tensor(self.weights, name) for name in names}

        def number(key):
            return ggml.gguf_get_val_u32(g, ggml.gguf_find_key(g, "bert." + key))

        self.layers, self.heads = number("block_count"), number("attention.head_count")
        self.dim, self.longest = number("embedding_length"), number("context_length")
        self.eps = ggml.gguf_get_val_f32(g, ggml.gguf_find_key(g, "bert.attention.layer_norm_epsilon"))
        self.tokenizer = Tokenizer.from_str(ggml.gguf_get_val_str(g, ggml.gguf_find_key(g, "tokenizer.huggingface.json")).decode())
        self.tokenizer.enable_truncation(min(self.longest, 256))  # what the model was trained with
        self.tokenizer.no_padding()
        ggml.gguf_free(g)

    # ---- the graph ---------------------------------------------------------------------------------------------------
    def norm(self, ctx, x, name):
        x = ggml.ggml_mul(ctx, ggml.ggml_norm(ctx, x, self.eps), self.w[name + ".weight"])
        return ggml.ggml_add(ctx, x, self.w[name + ".bias"])

    def linear(self, ctx, x, name):
        return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, self.w[name + ".weight"], x), self.w[name + ".bias"])

    def attention(self, ctx, x, layer, tokens, batch, mask):
        """x [dim, tokens * batch]; mask [tokens, tokens, 1, batch] in F16, None where nothing is padded."""
        size = self.dim // self.heads

        def heads(name):
            y = ggml.ggml_reshape_4d(ctx, self.linear(ctx, x, f"{layer}.{name}"), size, self.heads, tokens, batch)
            return ggml.ggml_permute(ctx, y, 0, 2, 1, 3)

        y = ggml.ggml_flash_attn_ext(ctx, heads("attn_q"), heads("attn_k"), heads("attn_v"), mask, size**-0.5, 0.0, 0.0)
        return self.linear(ctx, ggml.ggml_reshape_2d(ctx, y, self.dim, tokens * batch), f"{layer}.attn_output")

    def encode(self, ctx, ids, positions, mask, pool):
        """Embeddings [dim, 1, batch] of length 1: the means of the tokens, weighted by pool [tokens, 1, batch]."""
        tokens, batch = pool.contents.ne[0], pool.contents.ne[2]
        x = ggml.ggml_add(ctx, ggml.ggml_get_rows(ctx, self.w["token_embd.weight"], ids),
                          ggml.ggml_get_rows(ctx, self.w["position_embd.weight"], positions))  # fmt: skip
        first_type = ggml.ggml_view_1d(ctx, self.w["token_types.weight"], self.dim, 0)
        x = self.norm(ctx, ggml.ggml_add(ctx, x, first_type), "token_embd_norm")
        for i in range(self.layers):
            layer = f"blk.{i}"
            x = ggml.ggml_add(ctx, x, self.attention(ctx, x, layer, tokens, batch, mask))
            x = self.norm(ctx, x, f"{layer}.attn_output_norm")
            y = ggml.ggml_gelu_erf(ctx, self.linear(ctx, x, f"{layer}.ffn_up"))
            x = self.norm(ctx, ggml.ggml_add(ctx, x, self.linear(ctx, y, f"{layer}.ffn_down")), f"{layer}.layer_output_norm")
        columns = ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, ggml.ggml_reshape_3d(ctx, x, self.dim, tokens, batch)))
        return ggml.ggml_l2_norm(ctx, ggml.ggml_mul_mat(ctx, columns, pool), 1e-12)

    # ---- sentences ---------------------------------------------------------------------------------------------------
    def batch(self, encoded):
        """Embeddings of tokenised sentences, padded to the longest of them."""
        lengths = np.array([len(e) for e in encoded])
        n, b = int(lengths.max()), len(encoded)
        ids = np.zeros((b, n), np.int32)
        for row, e in zip(ids, encoded, strict=True):
            row[: len(e)] = e
        real = np.arange(n) < lengths[:, None]
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False))
        try:
            mask = None
            if not real.all():
                hidden = np.where(real, np.float16(0), np.float16(-np.inf))[:, None, None, :]
                mask = from_numpy(np.ascontiguousarray(np.broadcast_to(hidden, (b, 1, n, n))), ctx)
            positions = np.tile(np.arange(n, dtype=np.int32), b)
            pool = (real / lengths[:, None]).astype(np.float32)[:, None, :]
            out = self.encode(ctx, from_numpy(ids.ravel(), ctx), from_numpy(positions, ctx), mask, from_numpy(pool, ctx))
            graph = ggml.ggml_new_graph(ctx)
            ggml.ggml_build_forward_expand(graph, out)
            if ggml.ggml_graph_compute_with_ctx(ctx, graph, self.threads) != ggml.GGML_STATUS_SUCCESS:
                raise RuntimeError("computing failed")
            return to_numpy(out).reshape(b, self.dim).copy()
        finally:
            ggml.ggml_free(ctx)

    def embed(self, sentences, batch=32):
        """One row a sentence, of length 1."""
        encoded = [e.ids for e in self.tokenizer.encode_batch(list(sentences))]
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))  # little padding: neighbours are of a length
        out = np.empty((len(encoded), self.dim), np.float32)
        for i in range(0, len(order), batch):
            part = order[i : i + batch]
            out[part] = self.batch([encoded[k] for k in part])
        return out


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    model = Model(sys.argv[1])
    question, *sentences = model.embed(sys.argv[2:])
    near = np.array(sentences) @ question
    for i in np.argsort(-near):
        print(f"{near[i]:6.3f}  {sys.argv[3 + i]}")


if __name__ == "__main__":
    main()
