# Parameters of the optimisers, and the numbers of losses, passes and optimisers (GGML_OPT_* of _constants.py).
cdef int MEAN, SUM, CROSS_ENTROPY, SQUARED_ERROR        # GGML_OPT_LOSS_TYPE_*
cdef int FORWARD, GRAD, OPT                             # GGML_OPT_BUILD_TYPE_*
cdef int ADAMW, SGD                                     # GGML_OPT_OPTIMIZER_TYPE_*
cdef tuple LOSSES, BUILDS, OPTIMIZERS

cdef struct Rates:                                      # ggml_opt_optimizer_params
    float alpha, beta1, beta2, eps, wd                  # AdamW
    float sgd_alpha, sgd_wd

cdef object getter_of(object o)
cdef int arg_choice(object value, const char *name, tuple known) except -1
