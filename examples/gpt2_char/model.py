"""A GPT-2 of characters: learned positions, LayerNorm before each block, causal attention, GELU, tied embeddings.

Shapes are in ggml order, innermost dimension first, with C the width, T the length of a sequence, B the number of
sequences and N = T B tokens.
"""

import numpy as np

import ggml
from ggml.utils import from_numpy


def gpt2(session, rng, vocab, length, width, heads, layers):
    """Creates the parameters. Returns the function that builds the network: logits [vocab, N] of tokens [T, B]."""
    size = width // heads  # elements of a head
    residual = (2 * layers) ** -0.5  # keeps the variance of the sum over all blocks independent of their number

    def linear_parameters(name, n_in, n_out, scale=1.0):
        weight = session.parameter(f"{name} weight", rng.normal(0, scale * n_in**-0.5, (n_out, n_in)))
        return weight, session.parameter(f"{name} bias", np.zeros(n_out))

    def norm_parameters(name):
        return session.parameter(f"{name} gain", np.ones(width)), session.parameter(f"{name} offset", np.zeros(width))

    token_embedding = session.parameter("token embedding", rng.normal(0, 0.02, (vocab, width)))
    position_embedding = session.parameter("position embedding", rng.normal(0, 0.02, (length, width)))
    blocks = [
        {
            "attention norm": norm_parameters(f"{i} attention norm"),
            "query": linear_parameters(f"{i} query", width, width),
            "key": linear_parameters(f"{i} key", width, width),
            "value": linear_parameters(f"{i} value", width, width),
            "out": linear_parameters(f"{i} out", width, width, residual),
            "mlp norm": norm_parameters(f"{i} mlp norm"),
            "up": linear_parameters(f"{i} up", width, 4 * width),
            "down": linear_parameters(f"{i} down", 4 * width, width, residual),
        }
        for i in range(layers)
    ]
    final_norm = norm_parameters("final norm")
    # mask[key, query] = -inf for keys after the query, else 0: [T, T]
    causal = from_numpy(np.triu(np.full((length, length), -np.inf, np.float16), 1), session.weights)

    def linear(ctx, x, layer):
        # W x + b: [n_out, N] from W [n_in, n_out] and x [n_in, N]
        return ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, layer[0], x), layer[1])

    def norm(ctx, x, layer):
        # (x - mean(x)) / sqrt(variance(x) + eps) * gain + offset, by rows of x [C, N]
        return ggml.ggml_add(ctx, ggml.ggml_mul(ctx, ggml.ggml_norm(ctx, x, 1e-5), layer[0]), layer[1])

    def attention(ctx, x, block, batch):
        def split(name):
            # W x + b [C, N] -> [C / heads, heads, T, B] -> [C / heads, T, heads, B]
            y = ggml.ggml_reshape_4d(ctx, linear(ctx, x, block[name]), size, heads, length, batch)
            return ggml.ggml_permute(ctx, y, 0, 2, 1, 3)

        # y = soft_max(q k / sqrt(C / heads) + mask) v: [C / heads, heads, T, B]
        q, k, v = split("query"), split("key"), split("value")
        y = ggml.ggml_flash_attn_ext(ctx, q, k, v, causal, size**-0.5, 0, 0)
        # W y + b, with the heads of a token side by side: [C, N]
        return linear(ctx, ggml.ggml_reshape_2d(ctx, y, width, length * batch), block["out"])

    def mlp(ctx, x, block):
        # down(gelu(up(x))): [C, N] through [4 C, N]
        return linear(ctx, ggml.ggml_gelu(ctx, linear(ctx, x, block["up"])), block["down"])

    def forward(ctx, tokens):
        batch = tokens.contents.ne[1]
        # x = token_embedding[token] + position_embedding[position]: [C, T, B] -> [C, N]
        x = ggml.ggml_get_rows(ctx, token_embedding, ggml.ggml_reshape_1d(ctx, tokens, length * batch))
        x = ggml.ggml_add(ctx, ggml.ggml_reshape_3d(ctx, x, width, length, batch), position_embedding)
        x = ggml.ggml_reshape_2d(ctx, x, width, length * batch)
        for block in blocks:
            # x = x + attention(norm(x)), then x = x + mlp(norm(x))
            x = ggml.ggml_add(ctx, x, attention(ctx, norm(ctx, x, block["attention norm"]), block, batch))
            x = ggml.ggml_add(ctx, x, mlp(ctx, norm(ctx, x, block["mlp norm"]), block))
        # logits = token_embedding norm(x): [vocab, N] from token_embedding [C, vocab]
        return ggml.ggml_mul_mat(ctx, token_embedding, norm(ctx, x, final_norm))

    return forward
