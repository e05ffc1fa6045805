# The recording of compute calls, for ggml.profiler.
from .._core cimport gg_call

cdef int recorders                      # how many profiles receive what is computed
cdef int compute_recorded(gg_call *call) except? -99
