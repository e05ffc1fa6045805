"""Measures fine-tuning of a language model: what it learns, that llama.cpp computes the same, and its speed.

    python benchmarks/lora.py MODEL TEXT --llama PYTHON [--steps N] [--rank N] [--adapter FILE]
    python benchmarks/lora.py MODEL TEXT --torch PYTHON [--tokens N] [--threads N] [--rounds N]

With --llama, the interpreter of an environment with llama-cpp-python: `ggml finetune` trains an adapter on the text
without its last tenth, with its default settings. On the first tokens of that tenth, this library and llama.cpp compute
the model with and without the adapter, from the file as it is and from a copy in F32. What is printed is the mean
negative log-probability of the tokens, and the mean Kullback-Leibler divergence of llama.cpp's probabilities from ours.
The exit status is 1 if a claim at the end does not hold.

With --torch, the interpreter of an environment with `torch` and NumPy: a step (forward, backward, AdamW) is compared
with PyTorch's, for models of the architecture llama. This library keeps the weights quantised as they are in the file;
PyTorch has the dequantised weights in float32, and such adapters beside the same matrices. The programs run
alternately, each in a new process. The best step of all rounds is reported, and the least peak of the resident set, in
which mapped pages of the file count too. A ratio above 1 is in favour of this library.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import divergence
import numpy as np
from train import resident

RATE = 1e-3


# ---- what an adapter does, here and in llama.cpp ---------------------------------------------------------------------
def compute(folder, program, model, lora, threads):
    """The mean loss of the held-out tokens, and the mean divergence from the probabilities that "ours" stored before.

    Args:
        folder: pathlib.Path with ids.npy.
        program: "ours", which stores its log-probabilities, or "llama.cpp".
        model: path of the model.
        lora: path of the adapter, or None.
        threads: threads to compute with.
    """
    ids, place = np.load(folder / "ids.npy"), folder / "ours.npy"
    losses, divergences, stored = [], [], []
    ours = np.load(place, mmap_mode="r") if program != "ours" else None
    for logits in divergence.PROGRAMS[program](model, ids.tolist(), 512, lora, threads):
        log_q = divergence.log_softmax(logits)
        targets = ids[1 + len(losses) :][: len(log_q)]
        losses.extend(-log_q[np.arange(len(targets)), targets])
        if ours is None:
            stored.append(log_q.astype(np.float32))
        else:
            log_p = ours[len(divergences) :][: len(log_q)].astype(np.float64)
            divergences.extend((np.exp(log_p) * (log_p - log_q)).sum(1))
    if ours is None:
        np.save(place, np.concatenate(stored))
    return np.mean(losses), np.mean(divergences or [0.0])


def train(args, folder):
    """Trains on the text without its last tenth, as `ggml finetune` does by default; returns the adapter's path."""
    text = Path(args.text).read_bytes()
    cut = text.rfind(b" ", 0, len(text) * 9 // 10)
    (folder / "train.txt").write_bytes(text[:cut])
    (folder / "held_out.txt").write_bytes(text[cut:])
    if args.adapter:
        return args.adapter
    settings = {"steps": args.steps, "rank": args.rank, "threads": args.threads, "tokens": args.tokens}
    command = [sys.executable, "-P", "-m", "ggml", "finetune", args.model, folder / "train.txt"]
    command += ["--lora", folder / "lora.gguf", *(f"--{name}={value}" for name, value in settings.items())]
    subprocess.run(command, check=True)
    return folder / "lora.gguf"


def write_f32(path, out):
    """Writes the model with all weights in F32."""
    from ggml.models import load

    command = [sys.executable, "-P", "-m", "ggml", "quantize", "--allow-requantize", "--pure", path, out, "F32"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with load(out) as model:
        kinds = {t.contents.type for t in model.runner.weights.values()}
    assert kinds == {0}, f"{out} has types {kinds}"


def proof(args, folder):
    """Trains an adapter, and compares what this library and llama.cpp compute with it. Returns whether all holds."""
    from ggml.models import load

    adapter = train(args, folder)
    write_f32(args.model, folder / "f32.gguf")
    with load(args.model) as model:
        ids = model.tokenize((folder / "held_out.txt").read_bytes())[: args.held_out]
    np.save(folder / "ids.npy", ids)
    found = {}
    for model, kind in ((args.model, "file"), (folder / "f32.gguf", "F32")):
        for lora in (None, adapter):
            for program, python in (("ours", sys.executable), ("llama.cpp", args.llama)):
                options = [f"--threads={args.threads}", *(["--adapter", lora] if lora else [])]
                command = [python, __file__, model, args.text, *options, "--measure", program, folder]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                loss, kl = found[kind, lora is not None, program] = json.loads(done.stdout.splitlines()[-1])
                text = f"{kind}, {'with' if lora else 'without'} the adapter: {program} {loss:.4f} nats per token"
                print(text + (f", divergence from ours {kl:.3g}" if program != "ours" else ""), flush=True)
    claims = {}
    for program in ("ours", "llama.cpp"):
        fall = found["file", False, program][0] - found["file", True, program][0]
        claims[f"{program}: the loss on held-out text falls by {fall:.3f}, at least {args.fall:g}"] = fall >= args.fall
    same, before, after = (found[kind, lora, "llama.cpp"][1] for kind, lora in (("F32", 1), ("file", 0), ("file", 1)))
    claims[f"in F32 the divergence with the adapter is {same:.2g}, at most 1e-4"] = same <= 1e-4
    ratio = after / before
    claims[f"in the file the divergence is {ratio:.2f} times that without, at most 1.2"] = ratio <= 1.2
    for claim, holds in claims.items():
        print(f"{claim}: {'holds' if holds else 'DOES NOT HOLD'}")
    return all(claims.values())


# ---- a step, here and in PyTorch -------------------------------------------------------------------------------------
def export(path, text, tokens, steps, folder):
    """Writes what PyTorch needs: the dequantised weights, sizes of the model, rows of tokens."""
    from ggml.models import load
    from ggml.models._merge import _floats

    with load(path) as model:
        c = model.config
        if c.arch != "llama" or c.n_expert or "rope_freqs.weight" in model.runner.weights:
            sys.exit(f"{path}: the comparison is for plain models of the architecture llama")
        for name, tensor in model.runner.weights.items():
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

    settings = {"rank": args.rank, "rate": RATE, "tokens": args.tokens, "steps": args.torch_steps, "validation": 0}
    with load(args.model, threads=args.threads) as model:
        model.finetune(ids, folder / "lora.gguf", **settings, validate_every=args.torch_steps, callbacks=after)
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
            a = (2 * torch.rand(args.rank, w.shape[1]) - 1) / w.shape[1] ** 0.5
            pairs[name] = a, torch.zeros(len(w), args.rank)
    model = LoraLlama(weights, **json.loads((folder / "sizes.json").read_text()), pairs=pairs, scale=2.0)
    ids = torch.from_numpy(np.load(folder / "ids.npy"))
    optimizer, times, losses = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0), [], []
    for i in range(args.torch_steps):
        optimizer.zero_grad()
        loss = model.loss(ids[i * args.tokens : (i + 1) * args.tokens + 1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter())
        losses.append(loss.item())
    return np.diff(times), losses


MEASURE = {"ggml": ggml_steps, "torch": torch_steps}


def compare(args, folder):
    """Compares a step with PyTorch's."""
    found = {"ggml": [], "torch": []}
    export(args.model, args.text, args.tokens, args.torch_steps, folder)
    for _ in range(args.rounds):
        for library, python in (("ggml", sys.executable), ("torch", args.torch)):
            options = [f"--{name}={getattr(args, name)}" for name in ("tokens", "threads", "rank")]
            options.append(f"--torch-steps={args.torch_steps}")
            command = [python, __file__, args.model, args.text, *options, "--measure", library, folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[library].append(json.loads(done.stdout))
            seconds, memory, losses = found[library][-1]
            print(f"  {library}: {seconds:.2f} s, {memory:.0f} MB, losses {np.round(losses, 3)}", flush=True)
    (ours, our_mb), (theirs, their_mb) = ([min(run[i] for run in found[name]) for i in (0, 1)] for name in found)
    print(f"step of {args.tokens} tokens: {ours:.2f} s, PyTorch {theirs:.2f} s, ratio {theirs / ours:.2f}")
    print(f"peak memory: {our_mb:.0f} MB, PyTorch {their_mb:.0f} MB, ratio {their_mb / our_mb:.2f}")


def measure(args):
    """What a process of one program prints: a line of JSON."""
    program, folder = args.measure[0], Path(args.measure[1])
    if program in divergence.PROGRAMS:
        return [float(x) for x in compute(folder, program, args.model, args.adapter, args.threads)]
    times, losses = MEASURE[program](args, folder)
    return [min(times), resident("VmHWM"), losses]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("text", help="text file")
    parser.add_argument("--llama", metavar="PYTHON", help="interpreter with llama-cpp-python")
    parser.add_argument("--torch", metavar="PYTHON", help="interpreter with torch")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=512, help="tokens of a step")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100, help="with --llama: steps of the training")
    parser.add_argument("--adapter", metavar="FILE", help="with --llama: an adapter to check instead of a training")
    parser.add_argument("--held-out", type=int, default=1024, help="with --llama: tokens of the held-out text")
    parser.add_argument("--fall", type=float, default=0.1, help="with --llama: by what the loss must fall")
    parser.add_argument("--rounds", type=int, default=3, help="with --torch: processes of each program")
    parser.add_argument("--torch-steps", type=int, default=4, help="with --torch: steps, the first does not count")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:  # in the process of a program
        print(json.dumps(measure(args)))
        return
    if not args.llama and not args.torch:
        parser.error("need --llama or --torch")
    holds = True
    with tempfile.TemporaryDirectory() as folder:
        if args.llama:
            holds = proof(args, Path(folder))
        if args.torch:
            compare(args, Path(folder))
    sys.exit(not holds)


if __name__ == "__main__":
    main()
