# Computing a graph, for the backends.
from .._core cimport gg_call, ggml_cgraph

cdef int run(ggml_cgraph *g, gg_call *call) except? -99         # checks and computes; the caller fills in how
cdef int copy_graph(ggml_cgraph *a, ggml_cgraph *b) except -1    # b becomes the graph a
cdef int threads(object n, str name) except -1                  # a number of threads that a caller gave
cdef object arg_callable(object callback, object type_)           # a callback as a Python callable; None: it is NULL
cdef object arg_user_data(object user_data)                       # a caller's value for a callback: None or an int
