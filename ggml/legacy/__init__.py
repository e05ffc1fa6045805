"""The surface of May 2023: its 148 functions, structs and constants under their own names and with their own arguments.

What PyPI's ggml-python 0.0.3 binds, over the same engine as `ggml`:

    import ggml.legacy as ggml
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=16 << 20, mem_buffer=None, no_alloc=False))
    x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 1)
    f = ggml.ggml_sqr(ctx, x)
    gf = ggml.ggml_build_forward(f)
    ggml.ggml_graph_compute(ctx, ctypes.byref(gf))
"""

from . import _graph, _ops, _opt, _structs, _system, _tensors
from ._structs import *  # noqa: F403

globals().update(_structs.constants)
for _module in (_tensors, _ops, _graph, _opt, _system):
    globals().update({
        k: v for k, v in vars(_module).items() if k.startswith("ggml_") and getattr(v, "__module__", "") == _module.__name__
    })  # fmt: skip
