"""The surface of May 2023: its 148 functions, structs and constants with their names and arguments.

It has the functions that version 0.0.3 of ggml-python binds, and seven of a header that is a few days younger, over the
engine of `ggml`:

    import ggml.legacy as ggml
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=16 << 20, mem_buffer=None, no_alloc=False))
    x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 1)
    f = ggml.ggml_sqr(ctx, x)
    gf = ggml.ggml_build_forward(f)
    ggml.ggml_graph_compute(ctx, ctypes.byref(gf))
"""

from . import _api, _graph, _ops, _opt, _structs, _system, _tensors  # noqa: F401 (they register their functions)
from ._structs import *  # noqa: F403

globals().update(_structs.constants)
globals().update(_api.functions)
