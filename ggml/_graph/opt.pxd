# Batches of an optimisation context.
from .opt_context cimport Context
from .opt_result cimport Result

cdef int prepare_batch(Context o, bint backward) except -1      # ggml_opt_alloc
cdef int eval_batch(Context o, Result result) except -1         # ggml_opt_eval
