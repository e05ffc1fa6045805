"""A language model that is built from the flat functions alone, as programs for the bindings do; see model_engines.py.

Models of LLaMA's and of Gemma 3's kind, for one sequence. Each call builds a new graph, whose memory a graph allocator
plans, and computes it on the CPU backend. Keys and values are kept in F16, and read by ggml_flash_attn_ext.
"""

import ctypes
import math

import numpy as np

import ggml

GLOBAL_EVERY = 6  # layers of Gemma 3 one sees all tokens, the others a window
LOCAL_BASE = 1e4  # the base of their rotations
MOST_NODES = 4096


class Flat:
    """An engine for model_engines.py: the next token of one sequence."""

    def __init__(self, path, threads, n_ctx, n_seq):
        if n_seq != 1:
            raise ValueError("flat: computes one sequence")
        self.weights = ctypes.c_void_p()
        options = ggml.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(self.weights))
        self.file = ggml.gguf_init_from_file(str(path).encode(), options)
        self.arch = self.key("general.architecture", ggml.gguf_get_val_str, None).decode()
        self.gemma = self.arch == "gemma3"
        number = ggml.gguf_get_val_u32
        self.n_layer, self.n_embd, self.heads = (
            self.key(f"{self.arch}.{name}", number, None)
            for name in ("block_count", "embedding_length", "attention.head_count")
        )
        self.kv_heads = self.key(f"{self.arch}.attention.head_count_kv", number, self.heads)
        self.size = self.key(f"{self.arch}.attention.key_length", number, self.n_embd // self.heads)
        self.rotated = self.key(f"{self.arch}.rope.dimension_count", number, self.size)
        self.window = self.key(f"{self.arch}.attention.sliding_window", number, 0)
        self.eps = self.key(f"{self.arch}.attention.layer_norm_rms_epsilon", ggml.gguf_get_val_f32, 1e-5)
        self.base = self.key(f"{self.arch}.rope.freq_base", ggml.gguf_get_val_f32, 1e4)
        self.n_vocab = self.tensor("token_embd").contents.ne[1]
        self.n_ctx = (n_ctx + 255) // 256 * 256
        self.backend = ggml.ggml_backend_cpu_init()
        ggml.ggml_backend_cpu_set_n_threads(self.backend, threads)
        self.allocator = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(self.backend))
        overhead = 2 * self.n_layer * ggml.ggml_tensor_overhead()
        self.memory = ggml.ggml_init(ggml.ggml_init_params(mem_size=overhead, mem_buffer=None, no_alloc=True))
        size = self.width, self.n_ctx
        self.keys, self.values = (
            [ggml.ggml_new_tensor_2d(self.memory, ggml.GGML_TYPE_F16, *size) for _ in range(self.n_layer)] for _ in "kv"
        )
        self.buffer = ggml.ggml_backend_alloc_ctx_tensors(self.memory, self.backend)
        ggml.ggml_backend_buffer_clear(self.buffer, 0)
        self.arena = ggml.ggml_tensor_overhead() * MOST_NODES + ggml.ggml_graph_overhead_custom(MOST_NODES, False)
        self.length = 0

    @property
    def width(self):
        """Elements of the keys of a token."""
        return self.size * self.kv_heads

    def key(self, name, read, missing):
        index = ggml.gguf_find_key(self.file, name.encode())
        return missing if index < 0 else read(self.file, index)

    def tensor(self, name):
        return ggml.ggml_get_tensor(self.weights, f"{name}.weight".encode())

    def clear(self):
        self.length = 0

    def append(self, pieces):
        return [int(self.logits(pieces[0][1]).argmax())]

    def logits(self, tokens):
        """Logits of the token after the last of these, which follow those given before."""
        n, past = len(tokens), self.length
        seen = min((past + n + 255) // 256 * 256, self.n_ctx)
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=self.arena, mem_buffer=None, no_alloc=True))
        graph = ggml.ggml_new_graph_custom(ctx, MOST_NODES, False)
        inputs = {
            "tokens": np.array(tokens, np.int32),
            "positions": np.arange(past, past + n, dtype=np.int32),
            "mask": self.mask(past, n, seen, seen),
        }
        if self.gemma:
            inputs["local mask"] = self.mask(past, n, seen, self.window)
        types = {np.dtype(np.int32): ggml.GGML_TYPE_I32, np.dtype(np.float16): ggml.GGML_TYPE_F16}
        places = {}
        for name, values in inputs.items():
            places[name] = ggml.ggml_new_tensor(ctx, types[values.dtype], values.ndim, values.shape[::-1])
            ggml.ggml_set_input(places[name])
        out = self.build(ctx, graph, places, past, n, seen)
        ggml.ggml_set_output(out)
        ggml.ggml_build_forward_expand(graph, out)
        if not ggml.ggml_gallocr_alloc_graph(self.allocator, graph):
            raise MemoryError("flat: no memory for the graph")
        for name, values in inputs.items():
            ggml.ggml_backend_tensor_set(places[name], values.ctypes.data, 0, values.nbytes)
        if ggml.ggml_backend_graph_compute(self.backend, graph) != ggml.GGML_STATUS_SUCCESS:
            raise RuntimeError("flat: the graph was not computed")
        found = np.empty(self.n_vocab, np.float32)
        ggml.ggml_backend_tensor_get(out, found.ctypes.data, 0, found.nbytes)
        ggml.ggml_free(ctx)
        self.length += n
        return found

    @staticmethod
    def mask(past, n, seen, window):
        """0 where a query sees a key, -inf elsewhere, [n, seen]."""
        distance = np.arange(past, past + n)[:, None] - np.arange(seen)
        return np.where((distance >= 0) & (distance < window), np.float16(0), np.float16(-np.inf))

    def build(self, ctx, graph, places, past, n, seen):
        """The logits [n_vocab] of the last of n tokens."""
        x = ggml.ggml_get_rows(ctx, self.tensor("token_embd"), places["tokens"])
        if self.gemma:
            x = ggml.ggml_scale(ctx, x, math.sqrt(self.n_embd))
        for i in range(self.n_layer):
            block = f"blk.{i}"
            attended = self.attention(ctx, graph, places, i, self.norm(ctx, x, f"{block}.attn_norm"), past, n, seen)
            if i == self.n_layer - 1 and n > 1:
                attended, x = (
                    ggml.ggml_view_2d(ctx, t, self.n_embd, 1, t.contents.nb[1], (n - 1) * t.contents.nb[1])
                    for t in (attended, x)
                )
            if self.gemma:
                attended = self.norm(ctx, attended, f"{block}.post_attention_norm")
            x = ggml.ggml_add(ctx, x, attended)
            y = self.norm(ctx, x, f"{block}.ffn_norm")
            gate, up = (ggml.ggml_mul_mat(ctx, self.tensor(f"{block}.ffn_{name}"), y) for name in ("gate", "up"))
            activate = ggml.ggml_gelu if self.gemma else ggml.ggml_silu
            y = ggml.ggml_mul(ctx, activate(ctx, gate), up)
            y = ggml.ggml_mul_mat(ctx, self.tensor(f"{block}.ffn_down"), y)
            if self.gemma:
                y = self.norm(ctx, y, f"{block}.post_ffw_norm")
            x = ggml.ggml_add(ctx, x, y)
        output = self.tensor("output") or self.tensor("token_embd")
        return ggml.ggml_mul_mat(ctx, output, self.norm(ctx, x, "output_norm"))

    def norm(self, ctx, x, name):
        return ggml.ggml_mul(ctx, ggml.ggml_rms_norm(ctx, x, self.eps), self.tensor(name))

    def attention(self, ctx, graph, places, i, x, past, n, seen):
        """What the tokens read of each other in layer i, [n_embd, n]."""
        block, local = f"blk.{i}", self.gemma and i % GLOBAL_EVERY != GLOBAL_EVERY - 1
        q, k, v = (ggml.ggml_mul_mat(ctx, self.tensor(f"{block}.attn_{name}"), x) for name in "qkv")
        q = ggml.ggml_reshape_3d(ctx, q, self.size, self.heads, n)
        k = ggml.ggml_reshape_3d(ctx, k, self.size, self.kv_heads, n)
        if self.gemma:
            q, k = (self.norm(ctx, t, f"{block}.attn_{name}_norm") for name, t in (("q", q), ("k", k)))
        mode = ggml.GGML_ROPE_TYPE_NEOX if self.gemma else ggml.GGML_ROPE_TYPE_NORMAL
        base = LOCAL_BASE if local else self.base
        q, k = (
            ggml.ggml_rope_ext(ctx, t, places["positions"], None, self.rotated, mode, 0, base, 1, 0, 1, 32, 1)
            for t in (q, k)
        )
        for kept, new in ((self.keys[i], k), (self.values[i], v)):
            stride = kept.contents.nb[1]
            to = ggml.ggml_view_1d(ctx, kept, n * self.width, past * stride)
            ggml.ggml_build_forward_expand(graph, ggml.ggml_cpy(ctx, new, to))
        strides = self.keys[i].contents.nb[1], self.size * ggml.ggml_type_size(ggml.GGML_TYPE_F16)
        k, v = (
            ggml.ggml_view_3d(ctx, kept[i], self.size, seen, self.kv_heads, *strides, 0)
            for kept in (self.keys, self.values)
        )
        mask = places["local mask" if local else "mask"]
        q = ggml.ggml_permute(ctx, q, 0, 2, 1, 3)
        y = ggml.ggml_flash_attn_ext(ctx, q, k, v, mask, 1 / math.sqrt(self.size), 0, 0)
        y = ggml.ggml_reshape_2d(ctx, y, self.size * self.heads, n)
        return ggml.ggml_mul_mat(ctx, self.tensor(f"{block}.attn_output"), y)
