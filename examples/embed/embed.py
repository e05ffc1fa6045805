"""Sentence embeddings with a BERT from a GGUF file. Ranks sentences by their similarity to a question.

python embed.py minilm.gguf "What do cats eat?" "Cats live on meat." "The train is late."
"""

import ctypes
import os
import sys
from collections import Counter
from functools import reduce

import numpy as np

import ggml
from ggml.training import check_packages
from ggml.utils import to_numpy


class Model:
    """A BERT encoder whose weights are those of a memory-mapped GGUF file.

    The weights are read from the file when they are first used, and all processes share them. Shapes are in ggml
    order, innermost dimension first, with C the width, H the number of heads and N the tokens of all sentences.
    """

    def __init__(self, path, threads=None):
        check_packages("tokenizers", install="tokenizers")
        from tokenizers import Tokenizer

        self.backend = ggml.ggml_backend_cpu_init()
        ggml.ggml_backend_cpu_set_n_threads(self.backend, threads or os.cpu_count())
        # the memory of the graphs, reused for every batch
        self.allocator = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())
        weights = ctypes.c_void_p()
        g = ggml.ext.gguf_init_from_file_mmap(path, ggml.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(weights)))
        self.weights = weights.value
        names = [ggml.gguf_get_tensor_name(g, i) for i in range(ggml.gguf_get_n_tensors(g))]
        self.w = {name.decode(): ggml.ggml_get_tensor(self.weights, name) for name in names}

        def number(key):
            return ggml.gguf_get_val_u32(g, ggml.gguf_find_key(g, "bert." + key))

        self.layers, self.heads = number("block_count"), number("attention.head_count")
        self.dim, self.longest = number("embedding_length"), number("context_length")
        self.eps = ggml.gguf_get_val_f32(g, ggml.gguf_find_key(g, "bert.attention.layer_norm_epsilon"))
        tokenizer = ggml.gguf_get_val_str(g, ggml.gguf_find_key(g, "tokenizer.huggingface.json"))
        self.tokenizer = Tokenizer.from_str(tokenizer.decode())
        self.tokenizer.enable_truncation(min(self.longest, 256))  # the length with which the model was trained
        self.tokenizer.no_padding()
        ggml.gguf_free(g)

    # ---- the graph ---------------------------------------------------------------------------------------------------
    def norm(self, ctx, x, name):
        """(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, by rows of x [C, N]."""
        x = ggml.ggml_mul(ctx, ggml.ggml_norm(ctx, x, self.eps), self.w[name + ".weight"])
        return ggml.ggml_add(ctx, x, self.w[name + ".bias"])

    def linear(self, ctx, x, name):
        """W x + b: [n_out, N] from W [n_in, n_out] and x [n_in, N]."""
        return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, self.w[name + ".weight"], x), self.w[name + ".bias"])

    def attention(self, ctx, x, layer, groups):
        """Attention within each sentence: [C, N] -> [C, N].

        groups: (tokens per sentence, number of sentences) of each group of consecutive sentences of equal length.
        """
        size, row, first, results = self.dim // self.heads, 4 * self.dim, 0, []
        qkv = [self.linear(ctx, x, f"{layer}.attn_{name}") for name in "qkv"]
        for n, count in groups:
            # the group's part of q, k and v [C, N] as views [C / H, n, H, count]
            strides = (row, 4 * size, n * row)
            q, k, v = (ggml.ggml_view_4d(ctx, y, size, n, self.heads, count, *strides, first * row) for y in qkv)
            # soft_max(q k / sqrt(C / H)) v: [C / H, H, n, count] -> [C, n * count]
            y = ggml.ggml_flash_attn_ext(ctx, q, k, v, None, size**-0.5, 0.0, 0.0)
            results.append(ggml.ggml_reshape_2d(ctx, y, self.dim, n * count))
            first += n * count
        return self.linear(ctx, reduce(lambda a, b: ggml.ggml_concat(ctx, a, b, 1), results), f"{layer}.attn_output")

    def encode(self, ctx, ids, positions, pool, groups):
        """The embeddings [C, sentences]: the mean of each sentence's tokens, of Euclidean length 1.

        ids, positions: i32 [N]. pool: f32 [sentences, N], the weight of each token in each mean.
        """
        # x = norm(token_embd[id] + position_embd[position] + token_types[0]): [C, N]
        x = ggml.ggml_add(ctx, ggml.ggml_get_rows(ctx, self.w["token_embd.weight"], ids),
                          ggml.ggml_get_rows(ctx, self.w["position_embd.weight"], positions))  # fmt: skip
        first_type = ggml.ggml_view_1d(ctx, self.w["token_types.weight"], self.dim, 0)
        x = self.norm(ctx, ggml.ggml_add(ctx, x, first_type), "token_embd_norm")
        for i in range(self.layers):
            layer = f"blk.{i}"
            # x = norm(x + attention(x)), then x = norm(x + ffn_down(gelu(ffn_up(x))))
            x = ggml.ggml_add(ctx, x, self.attention(ctx, x, layer, groups))
            x = self.norm(ctx, x, f"{layer}.attn_output_norm")
            y = ggml.ggml_gelu_erf(ctx, self.linear(ctx, x, f"{layer}.ffn_up"))
            x = ggml.ggml_add(ctx, x, self.linear(ctx, y, f"{layer}.ffn_down"))
            x = self.norm(ctx, x, f"{layer}.layer_output_norm")
        # mean[:, s] = sum over tokens t of pool[s, t] x[:, t]: [C, sentences], divided by its length
        return ggml.ggml_l2_norm(ctx, ggml.ggml_out_prod(ctx, x, pool), 1e-12)

    # ---- sentences ---------------------------------------------------------------------------------------------------
    def batch(self, encoded):
        """The embeddings [sentences, C] (NumPy order) of tokenised sentences.

        The tokens of all sentences are concatenated without padding, in the order of the sentences' lengths.
        """
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
        lengths = [len(encoded[i]) for i in order]
        ids = np.concatenate([encoded[i] for i in order]).astype(np.int32)
        positions = np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
        pool = np.zeros((len(ids), len(encoded)), np.float32)
        # 1 / length for each token of a sentence, in the column of the sentence in `encoded`
        pool[np.arange(len(ids)), np.repeat(order, lengths)] = 1 / np.repeat(lengths, lengths)
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))
        try:
            inputs = [ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, len(ids)) for _ in range(2)]
            inputs.append(ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, *pool.shape[::-1]))
            for t in inputs:
                ggml.ggml_set_input(t)
            out = self.encode(ctx, *inputs, sorted(Counter(lengths).items()))
            graph = ggml.ggml_new_graph_custom(ctx, 16384, False)
            ggml.ggml_build_forward_expand(graph, out)
            if not ggml.ggml_gallocr_alloc_graph(self.allocator, graph):
                raise MemoryError("no memory for the graph")
            for t, values in zip(inputs, (ids, positions, pool), strict=True):
                to_numpy(t)[...] = values
            if ggml.ggml_backend_graph_compute(self.backend, graph) != ggml.GGML_STATUS_SUCCESS:
                raise RuntimeError("computing failed")
            return to_numpy(out).copy()
        finally:
            ggml.ggml_free(ctx)

    def embed(self, sentences, batch=32):
        """The embeddings of sentences, computed in batches: one row of Euclidean length 1 per sentence."""
        encoded = [e.ids for e in self.tokenizer.encode_batch(list(sentences))]
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))  # equal lengths fall into the same batch
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
    similarity = np.array(sentences) @ question  # the cosine: all rows have length 1
    for i in np.argsort(-similarity):
        print(f"{similarity[i]:6.3f}  {sys.argv[3 + i]}")


if __name__ == "__main__":
    main()
