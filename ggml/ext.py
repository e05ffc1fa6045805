"""Operations and functions that the C library does not have, and options that its functions do not take.

The drop-in functions `ggml_*` and `gguf_*` have exactly the parameters of the ctypes bindings. What this library adds
is here. Its nodes mix with all others in a graph, and the same rules hold for contexts, types and errors.
"""

import sys as _sys

_PREFIX = "ext_"


def _collect(modules):
    """Takes the functions named ext_* from the extension modules, under their names without the prefix."""
    for module in modules:
        for name, function in vars(module).items():
            if name.startswith(_PREFIX):
                function.__name__ = function.__qualname__ = name.removeprefix(_PREFIX)
                function.__module__ = __name__
                globals()[function.__name__] = function
                __all__.append(function.__name__)


# Names under which earlier versions had them among the drop-in functions
_MOVED = {
    "ggml_custom_set_backward": "custom_set_backward",
    "ggml_min_max": "min_max",
    "ggml_opt_load": "opt_load",
    "ggml_opt_save": "opt_save",
    "ggml_quantize_linear": "quantize_linear",
    "gguf_get_tensor_shape": "gguf_get_tensor_shape",
    "gguf_init_from_file_mmap": "gguf_init_from_file_mmap",
}


class _Moved:
    """What the package has under an earlier name: a call says the new one."""

    def __init__(self, name):
        self._name = name

    def __call__(self, *args, **kwargs):
        new = f"{__name__}.{_MOVED[self._name]}"
        raise AttributeError(f"ggml.{self._name} is {new}: the C library has no such function")

    def __repr__(self):
        return f"<{self._name}: see {__name__}.{_MOVED[self._name]}>"


__all__: list[str] = []
_collect(_sys.modules[__package__]._modules)
