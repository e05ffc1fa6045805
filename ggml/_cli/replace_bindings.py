"""Makes pip regard ggml-python as installed, for packages that require it: installs an empty distribution of that name.

ggml-python, the ctypes bindings, installs into the same folder as this package. A package that names it among its
requirements would overwrite this one.
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

NAME, SURFACE = "ggml-python", "0.0.45"  # the release whose functions this package has
METADATA = """Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: Stands for ggml-python in an environment where ggml-cython provides the package ggml. It has no files.
Requires-Dist: ggml-cython
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: ggml-cython\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder, version):
    """Writes the wheel of the empty distribution; returns its path."""
    stem = f"{NAME.replace('-', '_')}-{version}"
    path, record = Path(folder, f"{stem}-py3-none-any.whl"), []
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in (("METADATA", METADATA.format(name=NAME, version=version)), ("WHEEL", WHEEL)):
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{stem}.dist-info/{name},sha256={digest},{len(text)}\n")
            wheel.writestr(f"{stem}.dist-info/{name}", text)
        record.append(f"{stem}.dist-info/RECORD,,\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "".join(record))
    return path


def check_installed():
    """Raises RuntimeError if the real ggml-python is installed: uninstalling it removes files of this package too."""
    try:
        files = distribution(NAME).files or ()
    except PackageNotFoundError:
        return
    if any(file.parts[0] == "ggml" for file in files):
        raise RuntimeError(
            f"{NAME} is installed. Run: pip uninstall {NAME}, then reinstall ggml-cython with "
            "pip install --force-reinstall --no-deps, then run this command again"
        )


def add_arguments(parser):
    parser.add_argument("--version", default=SURFACE, help="version that pip sees (%(default)s)")


def run(options):
    if not re.fullmatch(r"\d+(\.\d+)*", options.version):
        raise ValueError(f"--version is {options.version!r}: need numbers separated by periods, such as {SURFACE}")
    check_installed()
    with tempfile.TemporaryDirectory() as folder:
        wheel = write_wheel(folder, options.version)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]
        done = subprocess.run([*command, wheel], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise RuntimeError(f"pip failed: {done.stderr.strip() or done.stdout.strip()}")
    print(f"pip now regards {NAME} {options.version} as installed; `pip uninstall {NAME}` undoes that")
