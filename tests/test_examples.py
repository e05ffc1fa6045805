"""The examples run, and in a short run come near the figures of their READMEs."""

import re
import subprocess
import sys

import pytest
from placed import EXAMPLES


@pytest.mark.parametrize(
    "name, options, pattern, low, high",
    [
        ("linear_regression", [], r"exact solution ([\d.]+)", 0, 0.01),
        ("svm", [], r"held-out accuracy ([\d.]+)%", 94, 100),
        ("digits", ["--threads", "1"], r"held-out accuracy ([\d.]+)%", 94, 100),
        ("digits", ["--threads", "1", "--model", "cnn"], r"held-out accuracy ([\d.]+)%", 93, 100),
        ("baby_llama", [], r"next level right ([\d.]+)%", 50, 100),
        ("lora", ["--threads", "1", "--epochs", "40"], r"([\d.]+)% after", 50, 100),
    ],
)
def test_example(name, options, pattern, low, high, tmp_path):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    plot = tmp_path / "plot.png"
    quick = [] if "--epochs" in options else ["--quick"]
    command = [sys.executable, EXAMPLES / name / "main.py", *quick, "--plot", plot, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert low <= float(re.search(pattern, done.stdout)[1]) <= high, done.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "name, expected",
    [
        ("simple", r"in_a_context:\n(\[\[ 60\.  55\.  50\. 110\.\]\n.*\]\])\nwith_a_backend:\n\1\n"),
        ("custom_op", r"difference to NumPy \d\.\de-0[789]\nthe exception arrives: this operation does not work\n"),
        ("optimiser", r"by hand: 2\.99\d x \+ 3\.99\d, loss 32\.\d* at first and 0\.01\d* .*\nby the API: 2\.99\d x \+ 3\.99\d\n"),
        ("two_backends", r"splits: [2-9]\n"),
        ("python_backend", r"splits: \d\n"),
    ],
)
def test_script(name, expected):
    """The small ones, which need nothing but NumPy: what they print."""
    done = subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(expected, done.stdout, re.DOTALL), done.stdout
