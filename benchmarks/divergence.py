"""Measures how far the probabilities of a model's next tokens are from a float64 reference, here and in llama.cpp.

    python benchmarks/divergence.py MODEL TEXT [--llama PYTHON] [--tokens N] [--threads N] [--lora ADAPTER]
        [--work FOLDER]

PYTHON is the interpreter of an environment with llama-cpp-python. The reference is NumPy in float64 with the
dequantised weights, for the architectures llama and gemma3. Each program takes the same token ids as one sequence, in
steps of 512 ("prefill") and one by one ("decode"). What is printed is the mean over the tokens of the Kullback-Leibler
divergence of the program's probabilities from those of the reference.
"""

import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROWS = 64  # tokens whose logits are in memory together


# ---- the reference ---------------------------------------------------------------------------------------------------
class Reference:
    """LLaMA or Gemma 3 in float64."""

    def __init__(self, path, lora):
        from ggml.models._merge import _floats
        from ggml.models.model import Model as Core
        from ggml.models.run.lora import Lora

        model = Core(path)
        self.config, adapter = model.config, Lora(lora, model.runner.weights, model.config.arch) if lora else None
        self.w = {}
        for name, tensor in model.runner.weights.items():
            values = _floats(tensor).astype(np.float64)[0]
            if adapter and name in adapter.pairs:
                pair = adapter.pairs[name]
                values += pair.scale * (_floats(pair.b)[0].astype(np.float64) @ _floats(pair.a)[0])
            self.w[name.removesuffix(".weight")] = values if len(values) > 1 else values[0]
        model.close()

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config.eps) * self.w[name]

    def rotate(self, x, base):
        """Rotary positions of x [N, heads, D]: Gemma pairs element i with i + D/2, LLaMA 2i with 2i + 1."""
        n, _, size = x.shape
        angle = np.arange(n)[:, None, None] * base ** (-np.arange(0, size, 2) / size)
        halves = self.config.arch == "gemma3"
        first = slice(0, size // 2) if halves else slice(0, size, 2)
        second = slice(size // 2, size) if halves else slice(1, size, 2)
        y = np.empty_like(x)
        y[..., first] = x[..., first] * np.cos(angle) - x[..., second] * np.sin(angle)
        y[..., second] = x[..., first] * np.sin(angle) + x[..., second] * np.cos(angle)
        return y

    def attention(self, i, h):
        c, b, n = self.config, f"blk.{i}.", len(h)
        q, k, v = ((h @ self.w[f"{b}attn_{x}"].T).reshape(n, -1, c.key_dim) for x in "qkv")
        rope = c.rope_local if c.local[i] and c.arch == "gemma3" else c.rope
        if c.arch == "gemma3":
            q, k = self.norm(q, b + "attn_q_norm"), self.norm(k, b + "attn_k_norm")
        q, k = self.rotate(q, rope.freq_base), self.rotate(k, rope.freq_base)
        distance = np.subtract.outer(np.arange(n), np.arange(n))
        hidden = (distance < 0) | (distance >= (c.window if c.local[i] else n))
        out = np.empty_like(q)
        for head in range(c.n_head):
            group = head * c.n_head_kv // c.n_head
            scores = q[:, head] @ k[:, group].T / math.sqrt(c.key_dim)
            scores[hidden] = -np.inf
            p = np.exp(scores - scores.max(1, keepdims=True))
            out[:, head] = p / p.sum(1, keepdims=True) @ v[:, group]
        return out.reshape(n, -1) @ self.w[b + "attn_output"].T

    def feed_forward(self, i, h):
        gate, up = h @ self.w[f"blk.{i}.ffn_gate"].T, h @ self.w[f"blk.{i}.ffn_up"].T
        if self.config.arch == "gemma3":
            gate *= 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
        else:
            gate /= 1 + np.exp(-gate)
        return (gate * up) @ self.w[f"blk.{i}.ffn_down"].T

    def log_probabilities(self, ids):
        """Yields log-probabilities [rows, vocabulary] of at most ROWS tokens at a time."""
        c, gemma = self.config, self.config.arch == "gemma3"
        x = self.w["token_embd"][ids] * (math.sqrt(c.n_embd) if gemma else 1)
        for i in range(c.n_layer):
            b = f"blk.{i}."
            h = self.attention(i, self.norm(x, b + "attn_norm"))
            x = x + (self.norm(h, b + "post_attention_norm") if gemma else h)
            h = self.feed_forward(i, self.norm(x, b + "ffn_norm"))
            x = x + (self.norm(h, b + "post_ffw_norm") if gemma else h)
        x = self.norm(x, "output_norm")
        table = self.w.get("output", self.w["token_embd"])
        for begin in range(0, len(x), ROWS):
            yield log_softmax(x[begin : begin + ROWS] @ table.T)


def log_softmax(z):
    z = z.astype(np.float64)
    z -= z.max(1, keepdims=True)
    return z - np.log(np.exp(z).sum(1, keepdims=True))


# ---- the programs: they yield logits [rows, vocabulary] --------------------------------------------------------------
def ours(path, ids, step, lora, threads):
    from ggml.models import Batch, load

    with load(path, n_ctx=len(ids), threads=threads, lora=[lora] if lora else []) as model:
        for begin in range(0, len(ids), step):
            piece, batch = ids[begin : begin + step], Batch()
            batch.add(0, piece, len(piece))
            yield model.runner.decode(batch)


def llama_cpp(path, ids, step, lora, threads):
    import llama_cpp

    model = llama_cpp.Llama(
        path, n_ctx=len(ids), n_batch=step, n_ubatch=step, n_threads=threads, n_threads_batch=threads, logits_all=True,
        lora_path=lora, verbose=False,
    )  # fmt: skip
    for begin in range(0, len(ids), step):
        part = ids[begin : begin + step]
        model.eval(part)
        for row in range(begin, begin + len(part), ROWS):
            yield model.scores[row : min(row + ROWS, begin + len(part))]


PROGRAMS = {"ours": ours, "llama.cpp": llama_cpp}


def divergences(reference, rows):
    """The divergence of each token."""
    found, at = [], 0
    for logits in rows:
        for begin in range(0, len(logits), ROWS):
            log_q = log_softmax(logits[begin : begin + ROWS])
            log_p = reference[at : at + len(log_q)].astype(np.float64)
            found.append((np.exp(log_p) * (log_p - log_q)).sum(1))
            at += len(log_q)
    return np.concatenate(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("text", help="text file; its beginning is taken")
    parser.add_argument("--llama", metavar="PYTHON", help="interpreter with llama-cpp-python")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2, help="of both programs; 1 is faster on a busy machine")
    parser.add_argument("--lora", metavar="ADAPTER", help="adapter (GGUF) that both programs use")
    parser.add_argument("--work", metavar="FOLDER", help="folder that keeps the reference for further runs")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(args.work or temporary)
        folder.mkdir(exist_ok=True)
        place = folder / "reference.npy"
        if args.measure:  # in the process of a program
            program, step = args.measure
            ids = np.load(folder / "ids.npy").tolist()
            rows = PROGRAMS[program](args.model, ids, int(step), args.lora, args.threads)
            np.save(folder / "out.npy", divergences(np.load(place, mmap_mode="r"), rows))
            return
        if not place.exists():
            from ggml.models import load

            with load(args.model) as model:
                ids = np.array(model.tokenize(Path(args.text).read_bytes())[: args.tokens])
                vocabulary = model.config.n_vocab
            np.save(folder / "ids.npy", ids)
            found = np.lib.format.open_memmap(folder / "new.npy", "w+", np.float32, (len(ids), vocabulary))
            at = 0
            for rows in Reference(args.model, args.lora).log_probabilities(ids):
                found[at : at + len(rows)] = rows
                at += len(rows)
            found.flush()
            (folder / "new.npy").rename(place)
        for name, step in (("prefill", 512), ("decode", 1)):
            means = {}
            for program, python in (("ours", sys.executable), ("llama.cpp", args.llama)):
                if python is None:
                    continue
                command = [python, __file__, args.model, args.text, "--work", folder, "--threads", str(args.threads)]
                command += ["--lora", args.lora] if args.lora else []
                subprocess.run([*command, "--measure", program, str(step)], check=True)
                found = np.load(folder / "out.npy")
                means[program] = found.mean()
                print(f"{name} {program}: {found.mean():.6f} +- {found.std() / len(found) ** 0.5:.6f}", flush=True)
            if len(means) == 2:
                print(f"{name}: {means['ours'] / means['llama.cpp']:.3f} times llama.cpp's", flush=True)


if __name__ == "__main__":
    main()
