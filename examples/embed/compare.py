"""Compares the embeddings and the speed of GGUF files with PyTorch on the original weights.

python compare.py minilm.gguf minilm-f16.gguf … --model DIR     # the folder from which convert.py read the model
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
    """The same BERT with PyTorch's operations. x is [sentences, tokens, width]."""

    def __init__(self, folder, dtype=torch.float32):
        config = json.loads((folder / "config.json").read_text())
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        tensors = safetensors(folder / "model.safetensors")
        self.w = {name: torch.from_numpy(np.array(values)).to(dtype) for name, values in tensors}

    def linear(self, x, name):
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def norm(self, x, name):
        name = (name + "." if name else "") + "LayerNorm"
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], 1e-12)

    @torch.inference_mode()
    def __call__(self, ids, real):
        """Embeddings of padded token ids; `real` is False for padding."""
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
            layer = f"encoder.layer.{i}."
            qkv = [self.linear(x, layer + "attention.self." + name) for name in ("query", "key", "value")]
            q, k, v = (y.view(b, n, self.heads, -1).transpose(1, 2) for y in qkv)
            y = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(b, n, -1)
            x = self.norm(x + self.linear(y, layer + "attention.output.dense"), layer + "attention.output")
            y = self.linear(F.gelu(self.linear(x, layer + "intermediate.dense")), layer + "output.dense")
            x = self.norm(x + y, layer + "output")
        x = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return F.normalize(x, dim=-1)

    def batch(self, encoded):
        """Embeddings of tokenised sentences, padded to the longest."""
        n = max(map(len, encoded))
        ids = torch.tensor([e + [0] * (n - len(e)) for e in encoded])
        return self(ids, torch.arange(n) < torch.tensor([[len(e)] for e in encoded])).numpy()


def seconds(functions, rounds, clock):
    """The median time of each function. They run alternately, so that other load affects all of them alike."""
    times = [[] for _ in functions]
    for _ in range(rounds):
        for f, t in zip(functions, times, strict=True):
            start = clock()
            f()
            t.append(clock() - start)
    return [float(np.median(t)) for t in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--model", type=Path, metavar="DIR", help="folder of the original model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30, help="number of measurements")
    save = "only write the sentences and PyTorch's float64 embeddings to this file"
    parser.add_argument("--save", type=Path, metavar="NPZ", help=save)
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
    print("| file | size | lowest cosine | short sentence | long sentence | each of 32 | PyTorch's time / its time |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    compared, cosines = [torch_model, *models], []
    for m in compared:
        got = np.concatenate([m.batch(encoded[i : i + 8]) for i in range(0, len(encoded), 8)])
        cosines.append((got * expected).sum(1).min())
    # processor time does not include other processes, but adds up over threads
    clock = time.process_time if options.threads == 1 else time.perf_counter
    times = []
    for sentences in (*one, many):
        runs = [lambda m=m, sentences=sentences: m.batch(sentences) for m in compared]
        times.append(seconds(runs, options.rounds, clock))
    for i, cosine in enumerate(cosines):
        t = [row[i] for row in times]
        ratios = " / ".join(f"{row[0] / row[i]:.2f}" for row in times)
        size = f"{options.files[i - 1].stat().st_size / 1e6:.1f} MB" if i else "90.9 MB"
        name = options.files[i - 1].name if i else "PyTorch, F32"
        milliseconds = [f"{1e3 * t:.2f} ms" for t in (t[0], t[1], t[2] / 32)]
        cells = [name, size, f"{cosine:.6f}", *milliseconds, ratios]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
