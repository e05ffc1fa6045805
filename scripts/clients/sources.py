"""The sources of llama-cpp-python."""

import os
import subprocess
import sys
from pathlib import Path

import llama_cpp


def archive(folder):
    """The path of the archive: LLAMA_SOURCE, or one that pip downloads into a folder."""
    if os.environ.get("LLAMA_SOURCE"):
        return os.environ["LLAMA_SOURCE"]
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "install", "-q", "scikit-build-core"], check=True)
    options = "-q --no-deps --no-build-isolation --no-binary llama-cpp-python".split()
    release = f"llama-cpp-python=={llama_cpp.__version__}"
    subprocess.run([*pip, "download", *options, "-d", folder, release], check=True)
    return str(next(Path(folder).glob("llama_cpp_python-*.tar.gz")))
