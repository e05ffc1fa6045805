"""Language models from GGUF files: run them, look inside, change them.

    from ggml.models import load

    with load("model.gguf") as model:
        for piece in model.generate("Once upon a time", max_tokens=64):
            print(piece, end="", flush=True)

Tokenizers and chat templates need the extra `[llm]` (pip install 'ggml-cython[llm]').
"""

from ._arch import FAMILIES as _FAMILIES
from ._arch import Family, register
from ._chat import ChatTemplate
from ._config import Config
from ._generate import Generation, Generations, TokenProbability
from ._graph import Builder, Routing
from ._inspect import Edit, Trace
from ._llama import Llama
from ._merge import merge
from ._model import Model, load
from ._sampling import Sampler
from ._tokenizer import Tokenizer
from ._train_data import read_chats
from ._train_report import FinetuneResult, FinetuneStep

ARCHITECTURES = _FAMILIES.keys()

__all__ = [
    "ARCHITECTURES",
    "ChatTemplate",
    "Config",
    "Builder",
    "Edit",
    "Family",
    "FinetuneResult",
    "FinetuneStep",
    "Generation",
    "Generations",
    "Llama",
    "Model",
    "Routing",
    "Sampler",
    "TokenProbability",
    "Tokenizer",
    "Trace",
    "load",
    "merge",
    "read_chats",
    "register",
]
