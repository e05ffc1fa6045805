# Computing a graph, for the backends.
from .._core cimport gg_call, ggml_cgraph

cdef int run(ggml_cgraph *g, gg_call *call) except? -99         # checks and computes; the caller fills in how
cdef int copy_graph(ggml_cgraph *a, ggml_cgraph *b) except -1    # b becomes the graph a
cdef int threads(object n, str name) except -1                  # a number of threads that a caller gave
