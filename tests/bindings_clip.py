"""CLIP of random weights in the file format of the bindings' example `clip`, and CLIP in NumPy."""

import struct

import numpy as np

F32 = np.float32
WIDTH, PATCH, GRID, EMBED, LENGTH, VOCAB, HEADS, LAYERS = 128, 4, 2, 64, 7, 11, 2, 2
RESOLUTION, VISION_HEADS = PATCH * GRID, WIDTH // 64  # the example's heads have 64 elements in pictures
TOKENS = [np.array([9, 3, 4, 10, 0, 0, 0]), np.array([9, 5, 10, 0, 0, 0, 0])]  # the largest ends a text


def random_weights():
    """All weights by their names in PyTorch's model, in NumPy's order of axes."""
    shapes = {"positional_embedding": (LENGTH, EMBED), "text_projection": (EMBED, EMBED), "logit_scale": (1,),
              "visual.class_embedding": (WIDTH,), "visual.positional_embedding": (GRID**2 + 1, WIDTH),
              "visual.proj": (WIDTH, EMBED), "visual.conv1.weight": (WIDTH, 3, PATCH, PATCH),
              "token_embedding.weight": (VOCAB, EMBED)}  # fmt: skip
    for name, width in (("visual.ln_pre", WIDTH), ("visual.ln_post", WIDTH), ("ln_final", EMBED)):
        shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    for prefix, width in (("visual.", WIDTH), ("", EMBED)):
        for layer in range(LAYERS):
            block = f"{prefix}transformer.resblocks.{layer}."
            for name, rows, columns in (("attn.in_proj_", 3, 1), ("attn.out_proj.", 1, 1), ("mlp.c_fc.", 4, 1),
                                        ("mlp.c_proj.", 1, 4)):  # fmt: skip
                shapes |= {f"{block}{name}weight": (rows * width, columns * width),
                           f"{block}{name}bias": (rows * width,)}  # fmt: skip
            shapes |= {f"{block}ln_{i}.{kind}": (width,) for i in (1, 2) for kind in ("weight", "bias")}
    rng = np.random.default_rng(3)
    out = {name: rng.normal(0, 0.5 / np.sqrt(shape[-1]) if len(shape) > 1 else 0.3, shape).astype(F32)
           for name, shape in shapes.items()}  # fmt: skip
    out["visual.conv1.weight"] = out["visual.conv1.weight"].astype(np.float16)
    for name in out:
        if ".ln_" in f".{name}" and name.endswith("weight"):
            out[name] += 1
    return out


def write(path, weights):
    """The format of the example: magic, sizes, vocabulary; of each tensor its sizes, innermost first, and its data."""
    with open(path, "wb") as file:
        file.write(struct.pack("13i", 0x67676D6C, WIDTH, LAYERS, PATCH, GRID, RESOLUTION, EMBED, LENGTH, EMBED, HEADS,
                               LAYERS, 0, VOCAB))  # fmt: skip
        for token in range(VOCAB):
            file.write(struct.pack("i", 2) + f"{token:2}".encode())
        for name, values in weights.items():
            half = values.dtype == np.float16
            file.write(struct.pack("3i", values.ndim, len(name), half))
            file.write(struct.pack(f"{values.ndim}i", *values.shape[::-1]) + name.encode() + values.tobytes())


# ---- CLIP in NumPy ---------------------------------------------------------------------------------------------------
def normed(x, weights, name):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def block(x, weights, name, heads, causal):
    def linear(x, layer):
        at = name + layer + ("_" if layer.endswith("in_proj") else ".")
        return x @ weights[at + "weight"].T + weights[at + "bias"]

    n, width = x.shape
    q, k, v = linear(normed(x, weights, f"{name}ln_1"), "attn.in_proj").reshape(n, 3, heads, -1).transpose(1, 2, 0, 3)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(width / heads)
    if causal:
        scores = scores + np.triu(np.full((n, n), -np.inf), 1)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, width)
    x = x + linear(mixed, "attn.out_proj")
    hidden = linear(normed(x, weights, f"{name}ln_2"), "mlp.c_fc")
    return x + linear(hidden / (1 + np.exp(-1.702 * hidden)), "mlp.c_proj")


def features(weights, picture, texts):
    """The features of a picture, (1, EMBED), and of texts, (len(texts), EMBED), in float64."""
    weights = {name: values.astype(np.float64) for name, values in weights.items()}
    patches = picture[0].reshape(3, GRID, PATCH, GRID, PATCH).transpose(1, 3, 0, 2, 4).reshape(GRID**2, -1)
    x = np.vstack([weights["visual.class_embedding"], patches @ weights["visual.conv1.weight"].reshape(WIDTH, -1).T])
    x = normed(x + weights["visual.positional_embedding"], weights, "visual.ln_pre")
    for layer in range(LAYERS):
        x = block(x, weights, f"visual.transformer.resblocks.{layer}.", VISION_HEADS, False)
    seen = normed(x[:1], weights, "visual.ln_post") @ weights["visual.proj"]
    read = []
    for text in texts:
        x = weights["token_embedding.weight"][text] + weights["positional_embedding"]
        for layer in range(LAYERS):
            x = block(x, weights, f"transformer.resblocks.{layer}.", HEADS, True)
        read.append(normed(x, weights, "ln_final")[text.argmax()] @ weights["text_projection"])
    return seen, np.array(read)
