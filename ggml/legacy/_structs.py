"""Constants, structs and callback types of the header of May 2023."""

import ctypes
from ctypes import POINTER, c_bool, c_char, c_float, c_int, c_int64, c_size_t, c_uint16, c_void_p

from .._structs import (
    _is_pointer_to,
    _Struct,
    _StructPointer,
    callback,
    ggml_binary_op_f32_t,
    ggml_init_params,
    ggml_unary_op_f32_t,
)

__all__ = [
    "GGML_OBJECT_SIZE",
    "GGML_TENSOR_SIZE",
    "dequantize_row_q_t",
    "ggml_binary_op_f32_t",
    "ggml_cgraph",
    "ggml_cgraph_p",
    "ggml_context_p",
    "ggml_fp16_t",
    "ggml_init_params",
    "ggml_object",
    "ggml_object_p",
    "ggml_opt_params",
    "ggml_opt_params_adam",
    "ggml_opt_params_lbfgs",
    "ggml_scratch",
    "ggml_tensor",
    "ggml_tensor_p",
    "ggml_unary_op_f32_t",
    "quantize_fns_t",
    "quantize_row_q_t",
    "vec_dot_q_t",
]


class Constant(int):
    """An integer with the attribute `value` that c_int has: bindings of May 2023 made each constant a c_int."""

    value = property(int)


def _constants(prefix, names, first=0):
    return {prefix + name: Constant(i) for i, name in enumerate(names.split(), first)}


OPERATIONS = (
    "NONE DUP ADD ADD1 ACC SUB MUL DIV SQR SQRT LOG SUM SUM_ROWS MEAN REPEAT ABS SGN NEG STEP RELU GELU SILU SILU_BACK "
    "NORM RMS_NORM RMS_NORM_BACK MUL_MAT SCALE SET CPY CONT RESHAPE VIEW PERMUTE TRANSPOSE GET_ROWS GET_ROWS_BACK DIAG "
    "DIAG_MASK_INF DIAG_MASK_ZERO SOFT_MAX ROPE ROPE_BACK ALIBI CLAMP CONV_1D_1S CONV_1D_2S FLASH_ATTN FLASH_FF "
    "MAP_UNARY MAP_BINARY COUNT"
)
_NUMBERED = {
    "GGML_FILE_MAGIC": 0x67676D6C, "GGML_FILE_VERSION": 1, "GGML_QNT_VERSION": 2, "GGML_QNT_VERSION_FACTOR": 1000,
    "GGML_MAX_DIMS": 4, "GGML_MAX_NODES": 4096, "GGML_MAX_PARAMS": 256, "GGML_MAX_CONTEXTS": 64, "GGML_MAX_OPT": 4,
    "GGML_MAX_NAME": 32, "GGML_DEFAULT_N_THREADS": 4,
    "GGML_TYPE_F32": 0, "GGML_TYPE_F16": 1, "GGML_TYPE_Q4_0": 2, "GGML_TYPE_Q4_1": 3, "GGML_TYPE_Q5_0": 6,
    "GGML_TYPE_Q5_1": 7, "GGML_TYPE_Q8_0": 8, "GGML_TYPE_Q8_1": 9, "GGML_TYPE_I8": 10, "GGML_TYPE_I16": 11,
    "GGML_TYPE_I32": 12, "GGML_TYPE_COUNT": 13,
    "GGML_FTYPE_UNKNOWN": -1, "GGML_FTYPE_ALL_F32": 0, "GGML_FTYPE_MOSTLY_F16": 1, "GGML_FTYPE_MOSTLY_Q4_0": 2,
    "GGML_FTYPE_MOSTLY_Q4_1": 3, "GGML_FTYPE_MOSTLY_Q4_1_SOME_F16": 4, "GGML_FTYPE_MOSTLY_Q8_0": 7,
    "GGML_FTYPE_MOSTLY_Q5_0": 8, "GGML_FTYPE_MOSTLY_Q5_1": 9,
    "GGML_LINESEARCH_BACKTRACKING_ARMIJO": 0, "GGML_LINESEARCH_BACKTRACKING_WOLFE": 1,
    "GGML_LINESEARCH_BACKTRACKING_STRONG_WOLFE": 2, "GGML_LINESEARCH_DEFAULT": 1,
}  # fmt: skip
constants = {
    **{name: Constant(value) for name, value in _NUMBERED.items()},
    **_constants("GGML_OP_", OPERATIONS),
    **_constants("GGML_BACKEND_", "CPU CUDA CL"),
    **_constants("GGML_OPT_", "ADAM LBFGS"),
    **_constants("GGML_OPT_", "OK DID_NOT_CONVERGE NO_CONTEXT INVALID_WOLFE FAIL"),
    **_constants("GGML_LINESEARCH_", "FAIL MINIMUM_STEP MAXIMUM_STEP MAXIMUM_ITERATIONS INVALID_PARAMETERS", -128),
}

TYPES = frozenset(v for k, v in _NUMBERED.items() if k.startswith("GGML_TYPE_") and k != "GGML_TYPE_COUNT")
MAX_NODES, MAX_OPT, MAX_NAME, MEM_ALIGN = 4096, 4, 32, 16

ggml_fp16_t = c_uint16
ggml_context_p = c_void_p


class ggml_object(_Struct):
    """The header of an object in an arena.

    offs: offset of the object's payload from the start of the arena, in bytes.
    size: bytes of the payload.
    next: the next object, NULL for the last one.
    """


class ggml_object_p(_StructPointer):
    """Pointer to a ggml_object."""

    __slots__ = ()

    _type_ = ggml_object


_is_pointer_to(ggml_object, ggml_object_p)
ggml_object._fields_ = [("offs", c_size_t), ("size", c_size_t), ("next", ggml_object_p), ("padding", c_char * 8)]
GGML_OBJECT_SIZE = ctypes.sizeof(ggml_object)


class ggml_tensor(_Struct):
    """A tensor.

    type, backend: GGML_TYPE_*, GGML_BACKEND_*.
    n_dims: number of dimensions, 1 to 4; ne: size of each of the four; nb: its stride in bytes.
    op: GGML_OP_* that computes it; src0, src1, opt: the sources of that operation.
    is_param: whether gradients with respect to it are computed; grad: the gradient of the result with respect to it.
    n_tasks, perf_runs, perf_cycles, perf_time_us: not used.
    data: address of the elements; name: text of at most 31 bytes.
    """


class ggml_tensor_p(_StructPointer):
    """Pointer to a ggml_tensor."""

    __slots__ = ()

    _type_ = ggml_tensor


_is_pointer_to(ggml_tensor, ggml_tensor_p)
ggml_tensor._fields_ = [
    ("type", c_int),
    ("backend", c_int),
    ("n_dims", c_int),
    ("ne", c_int64 * 4),
    ("nb", c_size_t * 4),
    ("op", c_int),
    ("is_param", c_bool),
    ("grad", ggml_tensor_p),
    ("src0", ggml_tensor_p),
    ("src1", ggml_tensor_p),
    ("opt", ggml_tensor_p * MAX_OPT),
    ("n_tasks", c_int),
    ("perf_runs", c_int),
    ("perf_cycles", c_int64),
    ("perf_time_us", c_int64),
    ("data", c_void_p),
    ("name", c_char * MAX_NAME),
    ("padding", c_char * 16),
]
GGML_TENSOR_SIZE = ctypes.sizeof(ggml_tensor)


class ggml_cgraph(_Struct):
    """A graph, passed by value.

    n_nodes, nodes: tensors to compute, in this order; grads: the gradient of each, or NULL.
    n_leafs, leafs: tensors that are given, not computed.
    n_threads: number of threads to compute with; work_size, work: not used.
    perf_runs: how often it was computed; perf_time_us: microseconds that took in total; perf_cycles: not used.
    """


class ggml_cgraph_p(_StructPointer):
    """Pointer to a ggml_cgraph."""

    __slots__ = ()

    _type_ = ggml_cgraph


_is_pointer_to(ggml_cgraph, ggml_cgraph_p)
ggml_cgraph._fields_ = [
    ("n_nodes", c_int),
    ("n_leafs", c_int),
    ("n_threads", c_int),
    ("work_size", c_size_t),
    ("work", ggml_tensor_p),
    ("nodes", ggml_tensor_p * MAX_NODES),
    ("grads", ggml_tensor_p * MAX_NODES),
    ("leafs", ggml_tensor_p * MAX_NODES),
    ("perf_runs", c_int),
    ("perf_cycles", c_int64),
    ("perf_time_us", c_int64),
]


class ggml_scratch(_Struct):
    """Memory for the data of new tensors: `size` bytes at `data`, of which the first `offs` are in use."""

    _fields_ = [("offs", c_size_t), ("size", c_size_t), ("data", c_void_p)]


class ggml_opt_params_adam(_Struct):
    """Settings of Adam.

    n_iter: largest number of iterations; alpha: step size; beta1, beta2: decay rates of the averages.
    eps: added to the divisor; eps_f: relative change of the value below which it has converged; eps_g: not used.
    """

    _fields_ = [("n_iter", c_int)] + [(name, c_float) for name in "alpha beta1 beta2 eps eps_f eps_g".split()]


class ggml_opt_params_lbfgs(_Struct):
    """Settings of L-BFGS.

    m: number of corrections; n_iter: largest number of iterations, 0 for no limit.
    eps: it has converged when |gradient| <= eps * max(1, |x|).
    linesearch: GGML_LINESEARCH_BACKTRACKING_*; max_linesearch: largest number of evaluations in a line search.
    ftol, wolfe: constants of the Armijo and Wolfe conditions; min_step, max_step: limits of the step.
    """

    _fields_ = [
        *[(name, c_int) for name in "m n_iter max_linesearch".split()],
        *[(name, c_float) for name in "eps ftol wolfe min_step max_step".split()],
        ("linesearch", c_int),
    ]


class ggml_opt_params(_Struct):
    """Settings of ggml_opt.

    type: GGML_OPT_ADAM or GGML_OPT_LBFGS; adam, lbfgs: the settings of each.
    n_threads: number of threads to compute with.
    past, delta: it has converged when the value changed by less than delta, relatively, over `past` iterations; past
        = 0 switches this off.
    max_no_improvement: number of iterations without a better value after which it stops; 0 for no limit.
    print_forward_graph, print_backward_graph: whether to print the graphs first.
    """

    _fields_ = [
        ("type", c_int),
        ("n_threads", c_int),
        ("past", c_int),
        ("delta", c_float),
        ("max_no_improvement", c_int),
        ("print_forward_graph", c_bool),
        ("print_backward_graph", c_bool),
        ("adam", ggml_opt_params_adam),
        ("lbfgs", ggml_opt_params_lbfgs),
    ]


_floats = POINTER(c_float)
dequantize_row_q_t = callback(
    "dequantize_row_q_t", None, c_void_p, _floats, c_int, doc="(x, y, k): converts k elements at x to f32 at y."
)
quantize_row_q_t = callback(
    "quantize_row_q_t", None, _floats, c_void_p, c_int, doc="(x, y, k): quantises k floats at x to y."
)
vec_dot_q_t = callback(
    "vec_dot_q_t", None, c_int, _floats, c_void_p, c_void_p,
    doc="(n, s, x, y): stores the dot product of n elements of x and y in s[0].",
)  # fmt: skip


class quantize_fns_t(_Struct):
    """The functions of a quantised type.

    dequantize_row_q, quantize_row_q, quantize_row_q_reference: conversions of a row to and from f32.
    quantize_row_q_dot: conversion from f32 to vec_dot_type.
    vec_dot_q: dot product of a row of this type and one of vec_dot_type.
    """

    _fields_ = [
        ("dequantize_row_q", dequantize_row_q_t.prototype),
        ("quantize_row_q", quantize_row_q_t.prototype),
        ("quantize_row_q_reference", quantize_row_q_t.prototype),
        ("quantize_row_q_dot", quantize_row_q_t.prototype),
        ("vec_dot_q", vec_dot_q_t.prototype),
        ("vec_dot_type", c_int),
    ]
