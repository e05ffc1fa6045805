"""A GPT-2 of characters: learned positions, LayerNorm before each part, causal attention, a GELU layer, one matrix in and out."""

import numpy as np

import ggml
from ggml.utils import from_numpy


def gpt2(session, rng, vocab, length, width, heads, layers):
    """The function that builds the network: logits [vocab, length * batch] of tokens [length, batch]."""

    def matrix(name, n_in, n_out, scale=1.0):
        weight = session.parameter(f"{name} weight", rng.normal(0, scale * n_in**-0.5, (n_out, n_in)))
        return weight, session.parameter(f"{name} bias", np.zeros(n_out))

    def gain(name):
        return session.parameter(f"{name} gain", np.ones(width)), session.parameter(f"{name} offset", np.zeros(width))

    deep = (2 * layers) ** -0.5  # so that what the layers add up to does not grow with their number
    embedding = session.parameter("embedding", rng.normal(0, 0.02, (vocab, width)))
    places = session.parameter("places", rng.normal(0, 0.02, (length, width)))
    parts = [
        {"query": matrix(f"{i} query", width, width), "key": matrix(f"{i} key", width, width),
         "value": matrix(f"{i} value", width, width), "out": matrix(f"{i} out", width, width, deep),
         "up": matrix(f"{i} up", width, 4 * width), "down": matrix(f"{i} down", 4 * width, width, deep),
         "first": gain(f"{i} first"), "second": gain(f"{i} second")}
        for i in range(layers)
    ]  # fmt: skip
    last, size = gain("last"), width // heads
    causal = from_numpy(np.triu(np.full((length, length), -np.inf, np.float16), 1), session.weights)

    def linear(ctx, x, layer):
        return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, layer[0], x), layer[1])

    def norm(ctx, x, layer):
        return ggml.ggml_add(ctx, ggml.ggml_mul(ctx, ggml.ggml_norm(ctx, x, 1e-5), layer[0]), layer[1])

    def attention(ctx, x, part, batch):
        def split(name):
            y = ggml.ggml_reshape_4d(ctx, linear(ctx, x, part[name]), size, heads, length, batch)
            return ggml.ggml_permute(ctx, y, 0, 2, 1, 3)

        y = ggml.ggml_flash_attn_ext(ctx, split("query"), split("key"), split("value"), causal, size**-0.5, 0, 0)
        return linear(ctx, ggml.ggml_reshape_2d(ctx, y, width, length * batch), part["out"])

    def forward(ctx, tokens):
        batch = tokens.contents.ne[1]
        x = ggml.ggml_get_rows(ctx, embedding, ggml.ggml_reshape_1d(ctx, tokens, length * batch))
        x = ggml.ggml_add(ctx, ggml.ggml_reshape_3d(ctx, x, width, length, batch), places)
        x = ggml.ggml_reshape_2d(ctx, x, width, length * batch)
        for part in parts:
            x = ggml.ggml_add(ctx, x, attention(ctx, norm(ctx, x, part["first"]), part, batch))
            y = ggml.ggml_gelu(ctx, linear(ctx, norm(ctx, x, part["second"]), part["up"]))
            x = ggml.ggml_add(ctx, x, linear(ctx, y, part["down"]))
        return ggml.ggml_mul_mat(ctx, embedding, norm(ctx, x, last))

    return forward
