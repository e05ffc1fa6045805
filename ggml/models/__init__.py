"""Language models from GGUF files: run them, look inside, change them.

    from ggml.models import load

    with load("model.gguf") as model:
        for piece in model.generate("Once upon a time", max_tokens=64):
            print(piece, end="", flush=True)

Tokenizers and chat templates need the extra `[llm]` (pip install 'ggml-cython[llm]').
"""

from ._merge import merge
from .arch import FAMILIES as _FAMILIES
from .arch import Family, register
from .arch.base import Builder, Routing
from .chat.template import ChatTemplate
from .conversion.driver import convert
from .files.config import Config
from .generate.answer import Answer
from .generate.text import Generation, Generations, TokenProbability
from .llama_cpp.llama import Llama
from .model import Model, load
from .run.batch import Batch
from .sample.chain import Sampler
from .text.tokenizer import Tokenizer
from .trace import Edit, Trace
from .train.data import read_chats, read_examples
from .train.report import FinetuneResult, FinetuneStep
from .train.unsaved import NotSaved

ARCHITECTURES = _FAMILIES.keys()

__all__ = [
    "ARCHITECTURES",
    "Answer",
    "Batch",
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
    "NotSaved",
    "Routing",
    "Sampler",
    "TokenProbability",
    "Tokenizer",
    "Trace",
    "convert",
    "load",
    "merge",
    "read_chats",
    "read_examples",
    "register",
]
