"""All names of llama.h that programs import, from the modules that have them."""

from . import adapters, contexts, further, samplers, states
from .contexts import library as _lib  # noqa: F401 - programs take addresses of its functions

__all__ = []
for _module in (contexts, samplers, states, adapters, further):
    for _name in vars(_module):
        if _name.startswith(("llama_", "LLAMA_", "ggml_", "GGML_")) and _name not in __all__:
            globals()[_name] = getattr(_module, _name)
            __all__ += [_name]
