"""Makes pip regard ggml-python or llama-cpp-python as installed, for packages that require it.

ggml-python, the ctypes bindings, installs into the same folder as this package. A package that names it among its
requirements would overwrite this one: an empty distribution of that name prevents it. The one of llama-cpp-python has a
package `llama_cpp` that is `ggml.models.llama_cpp`.
"""

import base64
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGE = '''"""The names of llama-cpp-python, from ggml-cython."""

import importlib
import sys

from ggml.models.llama_cpp import *  # noqa: F403
from ggml.models.llama_cpp import __version__  # noqa: F401

_names = "cpp cache chat_format grammar speculative tokenizer types"
for _name in ["llama", "_logger", *("llama_" + _name for _name in _names.split())]:
    _module = importlib.import_module("ggml.models.llama_cpp." + _name)
    sys.modules[__name__ + "." + _name] = globals()[_name] = _module
'''
# The release whose names this package has, the folder of the real one, and the files of the one that stands for it.
BINDINGS = {
    "ggml-python": ("0.0.45", "ggml", {}),
    "llama-cpp-python": ("0.3.36", "llama_cpp", {"llama_cpp/__init__.py": PACKAGE}),
}
METADATA = """Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: Stands for {name} in an environment where ggml-cython provides its names.
Requires-Dist: ggml-cython
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: ggml-cython\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder, binding, version):
    """Writes the wheel of the distribution; returns its path."""
    stem = f"{binding.replace('-', '_')}-{version}"
    path, record = Path(folder, f"{stem}-py3-none-any.whl"), []
    with zipfile.ZipFile(path, "w") as wheel:
        texts = {f"{stem}.dist-info/METADATA": METADATA.format(name=binding, version=version)}
        for name, text in {**BINDINGS[binding][2], **texts, f"{stem}.dist-info/WHEEL": WHEEL}.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(text)}\n")
            wheel.writestr(name, text)
        record.append(f"{stem}.dist-info/RECORD,,\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "".join(record))
    return path


def check_installed(binding):
    """Raises RuntimeError if the real distribution is installed."""
    folder = BINDINGS[binding][1]
    try:
        files = distribution(binding).files or ()
        summary = distribution(binding).metadata["Summary"] or ""
    except PackageNotFoundError:
        return
    if any(file.parts[0] == folder for file in files) and "ggml-cython" not in summary:
        again = ", then reinstall ggml-cython with pip install --force-reinstall --no-deps" if folder == "ggml" else ""
        raise RuntimeError(f"{binding} is installed. Run: pip uninstall {binding}{again}, then run this command again")


def add_arguments(parser):
    parser.add_argument("binding", nargs="?", choices=BINDINGS, default="ggml-python", metavar="NAME",
                        help=f"{' or '.join(BINDINGS)} (%(default)s)")  # fmt: skip
    parser.add_argument("--version", help="version that pip sees (default: the one whose names these are)")


def run(options):
    name, version = options.binding, options.version or BINDINGS[options.binding][0]
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise ValueError(f"--version is {version!r}: need numbers separated by periods, such as {BINDINGS[name][0]}")
    check_installed(name)
    with tempfile.TemporaryDirectory() as folder:
        wheel = write_wheel(folder, name, version)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]
        done = subprocess.run([*command, wheel], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise RuntimeError(f"pip failed: {done.stderr.strip() or done.stdout.strip()}")
    print(f"pip now regards {name} {version} as installed; `pip uninstall {name}` undoes that")
