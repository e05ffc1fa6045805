"""Sentence embeddings with a BERT from a GGUF file: ranks sentences by how near they are to a question.

python embed.py minilm.gguf "What do cats eat?" "Cats live on meat." "The train is late."
"""

import ctypes
import os
import sys
from collections import Counter
from functools import reduce

import numpy as np
from tokenizers import Tokenizer

import ggml
from ggml.utils import to_numpy


class Model:
    """The file is mapped: its weights take memory as they are used, and are shared by all processes that use them."""

    def __init__(self, path, threads=None):
        self.backend = ggml.ggml_backend_cpu_init()
        ggml.ggml_backend_cpu_set_n_threads(self.backend, threads or os.cpu_count())
        self.memory = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())  # of the graphs, kept from batch to batch
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

    def attention(self, ctx, x, layer, groups):
        """x [dim, tokens]; groups: the number of tokens of a sentence, and of such sentences side by side."""
        size, step, first, found = self.dim // self.heads, 4 * self.dim, 0, []
        qkv = [self.linear(ctx, x, f"{layer}.attn_{name}") for name in "qkv"]
        for n, b in groups:
            q, k, v = (ggml.ggml_view_4d(ctx, y, size, n, self.heads, b, step, 4 * size, n * step, first * step) for y in qkv)
            y = ggml.ggml_flash_attn_ext(ctx, q, k, v, None, size**-0.5, 0.0, 0.0)
            found.append(ggml.ggml_reshape_2d(ctx, y, self.dim, n * b))
            first += n * b
        return self.linear(ctx, reduce(lambda a, b: ggml.ggml_concat(ctx, a, b, 1), found), f"{layer}.attn_output")

    def encode(self, ctx, ids, positions, pool, groups):
        """Embeddings [dim, batch] of length 1: the means of the tokens, weighted by pool [batch, tokens]."""
        x = ggml.ggml_add(ctx, ggml.ggml_get_rows(ctx, self.w["token_embd.weight"], ids),
                          ggml.ggml_get_rows(ctx, self.w["position_embd.weight"], positions))  # fmt: skip
        first_type = ggml.ggml_view_1d(ctx, self.w["token_types.weight"], self.dim, 0)
        x = self.norm(ctx, ggml.ggml_add(ctx, x, first_type), "token_embd_norm")
        for i in range(self.layers):
            layer = f"blk.{i}"
            x = ggml.ggml_add(ctx, x, self.attention(ctx, x, layer, groups))
            x = self.norm(ctx, x, f"{layer}.attn_output_norm")
            y = ggml.ggml_gelu_erf(ctx, self.linear(ctx, x, f"{layer}.ffn_up"))
            x = self.norm(ctx, ggml.ggml_add(ctx, x, self.linear(ctx, y, f"{layer}.ffn_down")), f"{layer}.layer_output_norm")
        return ggml.ggml_l2_norm(ctx, ggml.ggml_out_prod(ctx, x, pool), 1e-12)

    # ---- sentences ---------------------------------------------------------------------------------------------------
    def batch(self, encoded):
        """Embeddings of tokenised sentences: their tokens lie one after the other, without padding, sorted by the sentences' lengths."""
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
        lengths = [len(encoded[i]) for i in order]
        ids = np.concatenate([encoded[i] for i in order]).astype(np.int32)
        positions = np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
        pool = np.zeros((len(ids), len(encoded)), np.float32)
        pool[np.arange(len(ids)), np.repeat(order, lengths)] = 1 / np.repeat(lengths, lengths)  # gives rows in the order of `encoded`
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))
        try:
            inputs = [ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, len(ids)) for _ in range(2)]
            inputs.append(ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, *pool.shape[::-1]))
            for t in inputs:
                ggml.ggml_set_input(t)
            out = self.encode(ctx, *inputs, sorted(Counter(lengths).items()))
            graph = ggml.ggml_new_graph_custom(ctx, 16384, False)
            ggml.ggml_build_forward_expand(graph, out)
            if not ggml.ggml_gallocr_alloc_graph(self.memory, graph):
                raise MemoryError("no memory for the graph")
            for t, values in zip(inputs, (ids, positions, pool), strict=True):
                to_numpy(t)[...] = values
            if ggml.ggml_backend_graph_compute(self.backend, graph) != ggml.GGML_STATUS_SUCCESS:
                raise RuntimeError("computing failed")
            return to_numpy(out).copy()
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
