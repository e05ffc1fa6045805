# Graphs: arguments, computing, descriptions for messages.
from .._core cimport engine, gg_call, ggml_cgraph, ggml_tensor

cdef inline size_t hash_slot(ggml_cgraph *g, const ggml_tensor *t) noexcept:
    """The position of a tensor in the graph's hash set: the index of its gradient and its use count."""
    return engine.hash_find(&g.visited_hash_set, t)

cdef int run(ggml_cgraph *g, gg_call *call) except? -99         # checks and computes; the other fields of call say how
cdef int copy_graph(ggml_cgraph *a, ggml_cgraph *b) except -1    # b becomes a copy of a
cdef str op_and_name(const ggml_tensor *t)                      # "MUL_MAT 'name'"

# ---- arguments -------------------------------------------------------------------------------------------------------
cdef int threads(object n, str name) except -1                  # a number of threads
# A graph, of whose nodes and leafs each is live and valid: callers may have written into the arrays or the tensors.
cdef ggml_cgraph *arg_sound_graph(object cgraph, const char *name) except NULL
cdef object arg_callable(object callback, object type_)         # a callback as a Python callable; None: it is NULL
cdef object arg_user_data(object user_data)                     # a value for a callback: None or an int
