"""ggml for Python: the ggml tensor library as a Cython extension over hand-written SIMD kernels.

It has the `ggml_*` and `gguf_*` functions, constants, structs and callback types of the C library, under the same
names: see `ggml.ggml_init`, `ggml.ggml_new_tensor_2d`, `ggml.ggml_mul_mat`, `ggml.ggml_build_forward_expand` and
`ggml.ggml_graph_compute`.
"""

import ctypes as _ctypes
import os as _os
import sys as _sys
import warnings as _warnings
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from pkgutil import iter_modules as _iter_modules


def _interpreter(function):
    return _ctypes.PYFUNCTYPE(_ctypes.c_void_p)((function, _ctypes.pythonapi))()


# Only one interpreter can load the extension modules. After a subinterpreter, the main interpreter could not.
if _interpreter("PyInterpreterState_Get") != _interpreter("PyInterpreterState_Main"):
    raise ImportError("ggml: this is a subinterpreter: only the main interpreter of a process can import ggml")

from ._openmp import sleeping_threads as _sleeping_threads  # noqa: E402

try:
    with _sleeping_threads():
        from . import _absent, _core
except ImportError:
    if _find_spec("ggml._core") is not None:
        raise
    raise ImportError(
        f"ggml: {_os.path.dirname(__file__)} is a source folder that is not built, and hides the installed package: "
        "start Python elsewhere (`python -m` puts the current folder first on its path)"
    ) from None
except ValueError as _error:  # GGML_ISA is invalid
    # The command reports errors in one line. With `python -m ggml` Python imports the package under the name "-m".
    if _os.path.basename(_sys.argv[0]) in ("ggml", "ggml.exe", "-m"):
        _sys.exit(f"ggml: {_error}")
    raise
from ._absent import ctypes_function_for_shared_library, load_shared_library  # noqa: E402, F401
from ._annotations import annotate as _annotate  # noqa: E402
from ._constants import *  # noqa: E402, F403
from ._sections import share as _share  # noqa: E402
from ._structs import *  # noqa: E402, F403

__version__ = "0.1.0"

if _os.path.isdir(_os.path.join(_os.path.dirname(__file__), "lib")):
    _warnings.warn(
        "ggml: files of ggml-python lie in this package's folder: uninstall ggml-python, then reinstall ggml-cython",
        RuntimeWarning,
        stacklevel=2,
    )


def _publish(names):
    """Makes names attributes of this module. References to interned names are not counted without a GIL: threads that
    look up the same one would wait for each other at the counter.
    """
    globals().update({_sys.intern(name): value for name, value in names.items()})


_publish(_core.enums())
_modules = [_core]
for _room in ("_tensor", "_system", "_ops", "_graph", "_backend", "_io"):
    for _found in _iter_modules(_import_module("." + _room, __name__).__path__, f"{__name__}.{_room}."):
        _modules.append(_import_module(_found.name))
_share(_modules)
for _module in _modules:
    _publish({k: v for k, v in vars(_module).items() if k.startswith(("ggml_", "gguf_"))})
_publish(_absent.functions)
lib = _absent.Library(globals())
ggml_function = lib.function
module_name = lib_base_name = "ggml"
byref = _ctypes.byref
for _name in dir(lib):
    if _name.startswith(("ggml_", "gguf_")) and not hasattr(getattr(lib, _name), "_as_parameter_"):
        getattr(lib, _name)._as_parameter_ = _absent.no_address
from . import ext  # noqa: E402  (it takes the functions of _modules)

_annotate(globals())
# Not by a function __getattr__ of this module: Python would no longer specialize ggml.ggml_add, 20 ns a call.
_publish({name: ext._Moved(name) for name in ext._MOVED})

from . import ggml  # noqa: E402, F401  (last: it holds the finished namespace)
from .profiler import profile  # noqa: E402, F401
