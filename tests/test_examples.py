"""The examples run, and in a short run come near the figures of their READMEs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


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
