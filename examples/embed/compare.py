"""Holds embeddings and speed of the GGUF files against PyTorch with the original weights.

python compare.py minilm.gguf minilm-f16.gguf … --model DIR     # the folder that convert.py has read
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from convert import bundled, safetensors
from embed import Model

TOPICS = ["cats", "the weather in spring", "a train to the coast", "matrix multiplication", "bread", "an old violin",
          "the stock market", "rain on a tin roof", "distant galaxies", "children at play"]  # fmt: skip
FORMS = [
    "I like {}.",
    "What do you know about {}?",
    "Nothing was said about {} at the meeting, although everybody knew that it had been on the list for weeks.",
    "They wrote a long letter to the editor in which they complained about {} and about the noise.",
]
SENTENCES = [form.format(topic) for form in FORMS for topic in TOPICS]


class Reference:
    """The same BERT in PyTorch's own operations."""

    def __init__(self, folder, dtype=torch.float32):
        config = json.loads((folder / "config.json").read_text())
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        self.w = {name: torch.from_numpy(np.array(values)).to(dtype) for name, values in safetensors(folder / "model.safetensors")}

    def linear(self, x, name):
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def norm(self, x, name):
        name = (name + "." if name else "") + "LayerNorm"
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], 1e-12)

    @torch.inference_mode()
    def __call__(self, ids, real):
        b, n = ids.shape
        e = "embeddings."
        x = (
            self.w[e + "word_embeddings.weight"][ids]
            + self.w[e + "position_embeddings.weight"][:n]
            + self.w[e + "token_type_embeddings.weight"][0]
        )
        x = self.norm(x, "embeddings")
        mask = None if real.all() else real[:, None, None, :]
        for i in range(self.layers):
            at = f"encoder.layer.{i}."
            q, k, v = (
                self.linear(x, at + "attention.self." + p).view(b, n, self.heads, -1).transpose(1, 2) for p in ("query", "key", "value")
            )
            y = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(b, n, -1)
            x = self.norm(x + self.linear(y, at + "attention.output.dense"), at + "attention.output")
            y = self.linear(F.gelu(self.linear(x, at + "intermediate.dense")), at + "output.dense")
            x = self.norm(x + y, at + "output")
        x = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return F.normalize(x, dim=-1)

    def batch(self, encoded):
        n = max(map(len, encoded))
        ids = torch.tensor([e + [0] * (n - len(e)) for e in encoded])
        return self(ids, torch.arange(n) < torch.tensor([[len(e)] for e in encoded])).numpy()


def seconds(functions, turns, clock):
    """The median time of each, taken in turns, so that all meet the same load."""
    times = [[] for _ in functions]
    for _ in range(turns):
        for f, t in zip(functions, times, strict=True):
            start = clock()
            f()
            t.append(clock() - start)
    return [float(np.median(t)) for t in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--save", type=Path, metavar="NPZ", help="write the sentences and PyTorch's float64 embeddings, and stop")
    options = parser.parse_args()
    folder = options.model or bundled()
    torch.set_num_threads(options.threads)
    models = [Model(path, options.threads) for path in options.files]
    torch_model, exact = Reference(folder), Reference(folder, torch.float64)
    if options.save:
        found = [exact.batch([e.ids]) for e in models[0].tokenizer.encode_batch(SENTENCES)]
        np.savez_compressed(options.save, sentences=SENTENCES, embeddings=np.concatenate(found).astype(np.float32))
        return
    encoded = sorted((e.ids for e in models[0].tokenizer.encode_batch(SENTENCES)), key=len)
    one, many = [encoded[:1], encoded[-1:]], encoded[-32:]
    expected = np.concatenate([exact.batch([e]) for e in encoded])
    print("| file | size | lowest cosine | short sentence | long sentence | each of 32 | PyTorch's time over it |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for m in [torch_model, *models]:
        got = np.concatenate([m.batch(encoded[i : i + 8]) for i in range(0, len(encoded), 8)])
        rows.append((got * expected).sum(1).min())
    # of a single thread the time of its processor, which other work on the machine does not add to
    clock = time.process_time if options.threads == 1 else time.perf_counter
    times = [seconds([lambda m=m, part=part: m.batch(part) for m in [torch_model, *models]], options.turns, clock) for part in (*one, many)]
    for i, cosine in enumerate(rows):
        t = [row[i] for row in times]
        ratios = " / ".join(f"{row[0] / row[i]:.2f}" for row in times)
        size = f"{options.files[i - 1].stat().st_size / 1e6:.1f} MB" if i else "90.9 MB"
        name = options.files[i - 1].name if i else "PyTorch, F32"
        print(f"| {name} | {size} | {cosine:.6f} | {1e3 * t[0]:.2f} ms | {1e3 * t[1]:.2f} ms | {1e3 * t[2] / 32:.2f} ms | {ratios} |")


if __name__ == "__main__":
    main()
