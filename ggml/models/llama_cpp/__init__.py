"""`Llama`, and the names that programs import from llama-cpp-python.

`ggml replace-bindings llama-cpp-python` makes `import llama_cpp` mean this package.
"""

from .constants import constants as _constants
from .llama import Llama
from .llama_cache import BaseLlamaCache, LlamaCache, LlamaDiskCache, LlamaRAMCache
from .llama_grammar import LlamaGrammar
from .llama_tokenizer import BaseLlamaTokenizer, LlamaHFTokenizer, LlamaTokenizer
from .steps import LlamaState, LogitsProcessorList, MinTokensLogitsProcessor, StoppingCriteriaList

globals().update(_constants())
__version__ = "0.3.36"  # the release whose names these are

__all__ = [
    "BaseLlamaCache",
    "BaseLlamaTokenizer",
    "Llama",
    "LlamaCache",
    "LlamaDiskCache",
    "LlamaGrammar",
    "LlamaHFTokenizer",
    "LlamaRAMCache",
    "LlamaState",
    "LlamaTokenizer",
    "LogitsProcessorList",
    "MinTokensLogitsProcessor",
    "StoppingCriteriaList",
    *_constants(),
]
