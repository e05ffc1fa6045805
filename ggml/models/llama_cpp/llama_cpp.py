"""All names of llama.h that programs import, from the modules that have them; errors begin with the function's name."""

from inspect import isfunction

from ..._errors import named
from . import adapters, contexts, further, samplers, states
from .contexts import library as _lib  # noqa: F401 - programs take addresses of its functions

__all__ = []
for _module in (contexts, samplers, states, adapters, further):
    for _name, _value in list(vars(_module).items()):
        if _name.startswith(("llama_", "LLAMA_", "ggml_", "GGML_")) and _name not in __all__:
            globals()[_name] = named(_name)(_value) if isfunction(_value) else _value
            __all__ += [_name]
