"""Compares a step of fine-tuning of a LLaMA (forward, backward, AdamW on low-rank adapters) with PyTorch.

    python benchmarks/lora.py MODEL TEXT [--torch PYTHON] [--tokens N] [--threads N] [--rounds N] [--steps N]

PYTHON is the interpreter of an environment with `torch` and NumPy. This library keeps the weights quantised as they are
in the file; PyTorch has the dequantised weights in float32, and such adapters beside the same matrices. The programs
run alternately, each in a new process. The best step of all rounds is reported, and the least peak of the resident set,
in which mapped pages of the file count too. A ratio above 1 is in favour of this library.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from train import resident

RANK, RATE = 8, 1e-3


def export(path, text, tokens, steps, folder):
    """Writes what PyTorch needs: the dequantised weights, sizes of the model, rows of tokens."""
    from ggml.models import load
    from ggml.models._merge import _floats

    with load(path) as model:
        c = model.config
        if c.arch != "llama" or c.n_expert or "rope_freqs.weight" in model._weights:
            sys.exit(f"{path}: the comparison is for plain models of the architecture llama")
        for name, tensor in model._weights.items():
            values = _floats(tensor)[0]
            np.save(folder / f"{name}.npy", values if len(values) > 1 else values[0])
        ids = np.array(model.tokenize(Path(text).read_bytes())[: tokens * steps + 1])
    if len(ids) <= tokens * steps:
        sys.exit(f"{text}: too short for {steps} steps of {tokens} tokens")
    np.save(folder / "ids.npy", ids)
    sizes = {"heads": c.n_head, "kv_heads": c.n_head_kv, "eps": c.eps, "base": c.rope.freq_base}
    (folder / "sizes.json").write_text(json.dumps(sizes))


def ggml_steps(args, folder):
    """The seconds of each step, and its loss."""
    from ggml.models import load

    ids, times, losses = np.load(folder / "ids.npy").tolist(), [], []

    def after(report):
        times.append(time.perf_counter())
        losses.append(report.loss)

    settings = {"rank": RANK, "rate": RATE, "tokens": args.tokens, "steps": args.steps, "validation": 0}
    with load(args.model, threads=args.threads) as model:
        model.finetune(ids, folder / "lora.gguf", **settings, validate_every=args.steps, callbacks=after)
    return np.diff(times), losses


def torch_steps(args, folder):
    """The seconds of each step, and its loss."""
    import torch
    from torch_llama import MATRICES, LoraLlama

    torch.set_num_threads(args.threads)
    files = folder.glob("*.weight.npy")
    weights = {path.name.removesuffix(".npy"): torch.from_numpy(np.load(path)) for path in files}
    pairs = {}
    for name, w in weights.items():
        if name.split(".")[-2] in MATRICES:
            a = (2 * torch.rand(RANK, w.shape[1]) - 1) / w.shape[1] ** 0.5
            pairs[name] = a, torch.zeros(len(w), RANK)
    model = LoraLlama(weights, **json.loads((folder / "sizes.json").read_text()), pairs=pairs, scale=2.0)
    ids = torch.from_numpy(np.load(folder / "ids.npy"))
    optimizer, times, losses = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0), [], []
    for i in range(args.steps):
        optimizer.zero_grad()
        loss = model.loss(ids[i * args.tokens : (i + 1) * args.tokens + 1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter())
        losses.append(loss.item())
    return np.diff(times), losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("text", help="text file")
    parser.add_argument("--torch", metavar="PYTHON", help="interpreter with torch", default=sys.executable)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="steps of a round, of which the first does not count")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:  # in the process of a program
        steps = {"ggml": ggml_steps, "torch": torch_steps}[args.measure[0]]
        times, losses = steps(args, Path(args.measure[1]))
        print(json.dumps([min(times), resident("VmHWM"), losses]))
        return
    found = {"ggml": [], "torch": []}
    with tempfile.TemporaryDirectory() as folder:
        export(args.model, args.text, args.tokens, args.steps, Path(folder))
        for _ in range(args.rounds):
            for library, python in (("ggml", sys.executable), ("torch", args.torch)):
                options = [f"--{name}={getattr(args, name)}" for name in ("tokens", "threads", "steps")]
                command = [python, __file__, args.model, args.text, *options, "--measure", library, folder]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[library].append(json.loads(done.stdout))
                seconds, memory, losses = found[library][-1]
                print(f"  {library}: {seconds:.2f} s, {memory:.0f} MB, losses {np.round(losses, 3)}", flush=True)
    (ours, our_mb), (theirs, their_mb) = ([min(run[i] for run in found[name]) for i in (0, 1)] for name in found)
    print(f"step of {args.tokens} tokens: {ours:.2f} s, PyTorch {theirs:.2f} s, ratio {theirs / ours:.2f}")
    print(f"peak memory: {our_mb:.0f} MB, PyTorch {their_mb:.0f} MB, ratio {their_mb / our_mb:.2f}")


if __name__ == "__main__":
    main()
