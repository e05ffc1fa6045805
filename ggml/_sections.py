"""Which functions of the extension modules threads share without a GIL (see _sections.h)."""

from . import _core

# Modules, or functions of a module, that read what all threads have in common, change what belongs to their arguments
# alone, and are alone where they enter or free something. All others run alone.
SHARED = {
    "_core": [
        "ggml_init", "ggml_free", "ggml_used_mem", "ggml_get_mem_size", "ggml_get_mem_buffer", "ggml_get_no_alloc",
        "ggml_new_buffer", "ggml_get_max_tensor_size",
    ],
    "_backend.backend": ["ggml_backend_graph_compute", "ggml_backend_graph_compute_async"],
    "_ops": None,
    "_tensor": None,
    "_graph.graph": [
        "ggml_new_graph", "ggml_new_graph_custom", "ggml_graph_overhead", "ggml_graph_overhead_custom",
        "ggml_build_forward_expand", "ggml_graph_size", "ggml_graph_n_nodes", "ggml_graph_node", "ggml_graph_nodes",
        "ggml_graph_get_tensor", "ggml_graph_plan", "ggml_graph_compute", "ggml_graph_compute_with_ctx",
        "ggml_status_to_string",
    ],
    "_io.gguf": None,
    "_io.gguf_read": ["gguf_init_from_file"],
    "_io.interop": ["from_numpy", "to_numpy", "get_ndims", "get_shape", "get_strides", "_array_interface", "_array"],
    "_io.quants": None,
    "_system.numbers": None,
}  # fmt: skip
# Of these: callbacks that the context keeps; positions that the first call computes.
ALONE = {"_ops.custom", "_io.gguf.gguf_get_arr_str"}
# Functions that others of this package call, in whatever section these are: they touch what belongs to the thread, or
# run code of a program.
ANYWHERE = {"as_array", "as_callback", "assign", "capsule_of", "defer_error", "has_gil", "raise_deferred",
            "report_unraisable", "run_callback", "to_stderr"}  # fmt: skip


def shares(module, name):
    """Whether threads share a function (bool)."""
    if module in ALONE or f"{module}.{name}" in ALONE:
        return False
    names = SHARED.get(module, ())
    if module not in SHARED:
        names = SHARED.get(module.partition(".")[0], ())
    return names is None or name in names


def share(modules):
    """Puts all functions of extension modules into their sections. With a GIL that does nothing."""
    if _core.has_gil():
        return
    for module in modules:
        short = module.__name__.partition(".")[2]
        for name, value in list(vars(module).items()):
            own = type(value).__name__ == "cython_function_or_method" and value.__module__ == module.__name__
            if own and name not in ANYWHERE:
                _core.guard(value, shares(short, name))
