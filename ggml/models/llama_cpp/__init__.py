"""`Llama`, and the names that programs import from llama-cpp-python.

`ggml replace-bindings llama-cpp-python` makes `import llama_cpp` mean this package.
"""

from . import llama_chat_format, llama_types
from . import llama_cpp as _low_level
from .llama import Llama
from .llama_cache import BaseLlamaCache, LlamaCache, LlamaDiskCache, LlamaRAMCache
from .llama_grammar import LlamaGrammar
from .llama_speculative import LlamaDraftModel
from .llama_tokenizer import BaseLlamaTokenizer, LlamaHFTokenizer, LlamaTokenizer
from .steps import (
    LlamaState,
    LogitsProcessor,
    LogitsProcessorList,
    MinTokensLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
)

for _module in (_low_level, llama_types):  # programs import the names of both from here
    globals().update({name: getattr(_module, name) for name in _module.__all__})
__version__ = "0.3.36"  # the release whose names these are

__all__ = [
    "BaseLlamaCache",
    "BaseLlamaTokenizer",
    "Llama",
    "LlamaCache",
    "LlamaDiskCache",
    "LlamaDraftModel",
    "LlamaGrammar",
    "LlamaHFTokenizer",
    "LlamaRAMCache",
    "LlamaState",
    "LlamaTokenizer",
    "LogitsProcessor",
    "LogitsProcessorList",
    "MinTokensLogitsProcessor",
    "StoppingCriteria",
    "StoppingCriteriaList",
    "llama_chat_format",
    "llama_types",
    *_low_level.__all__,
    *llama_types.__all__,
]
