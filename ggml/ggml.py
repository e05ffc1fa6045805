"""The flat namespace under its other name: `ggml.ggml.ggml_add` is `ggml.ggml_add`."""

import ggml as _package

__all__ = [name for name in vars(_package) if not name.startswith("_")]
globals().update({name: getattr(_package, name) for name in __all__})
