"""Constants, structs and callback types of the header of May 2023. Data only."""

import ctypes
from ctypes import POINTER, Structure, c_bool, c_char, c_float, c_int, c_int64, c_size_t, c_uint16, c_void_p

from .._structs import (
    _is_pointer_to,
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
    """An integer that also has the `.value` of the c_int that bindings of that time made of it."""

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


class ggml_object(Structure):
    """The head of an object in an arena.

    offs: where the object begins, in bytes from the arena's begin.
    size: its bytes.
    next: the object after it.
    """


class ggml_object_p(_StructPointer):
    """Pointer to a ggml_object."""

    __slots__ = ()

    _type_ = ggml_object


_is_pointer_to(ggml_object, ggml_object_p)
ggml_object._fields_ = [("offs", c_size_t), ("size", c_size_t), ("next", ggml_object_p), ("padding", c_char * 8)]
GGML_OBJECT_SIZE = ctypes.sizeof(ggml_object)


class ggml_tensor(Structure):
    """A tensor.

    type, backend: GGML_TYPE_*, GGML_BACKEND_*.
    n_dims, ne, nb: number of dimensions, elements and bytes to the next element in each of four.
    op: GGML_OP_* that makes it; is_param: gradients are taken by it; grad: the gradient by it.
    src0, src1, opt: the operation's sources.
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


class ggml_cgraph(Structure):
    """A graph, which its user holds by value.

    n_nodes, nodes, grads: tensors in the order of computing, and the gradients by them.
    n_leafs, leafs: tensors that are given.
    n_threads: threads to compute with; work_size, work: not used.
    perf_runs, perf_cycles, perf_time_us: how often it was computed, and the time that took.
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


class ggml_scratch(Structure):
    """Memory for the data of new tensors: `size` bytes at `data`, of which `offs` are taken."""

    _fields_ = [("offs", c_size_t), ("size", c_size_t), ("data", c_void_p)]


class ggml_opt_params_adam(Structure):
    """Adam: at most n_iter iterations, rate alpha, decays beta1 and beta2, eps of the divisor.

    eps_f: converged when the value changes by less, relatively. eps_g: not used.
    """

    _fields_ = [("n_iter", c_int)] + [(name, c_float) for name in "alpha beta1 beta2 eps eps_f eps_g".split()]


class ggml_opt_params_lbfgs(Structure):
    """L-BFGS: m corrections, at most n_iter iterations (0: any number) of at most max_linesearch evaluations each.

    eps: converged when |gradient| < eps * max(1, |x|).
    ftol, wolfe: the constants of the line search (GGML_LINESEARCH_*); min_step, max_step: bounds of its step.
    """

    _fields_ = [
        *[(name, c_int) for name in "m n_iter max_linesearch".split()],
        *[(name, c_float) for name in "eps ftol wolfe min_step max_step".split()],
        ("linesearch", c_int),
    ]


class ggml_opt_params(Structure):
    """How ggml_opt minimises.

    type: GGML_OPT_*; n_threads.
    past, delta: converged when the value changes by less than delta, relatively, in `past` iterations; past 0: no such stop.
    max_no_improvement: so many iterations without a better value end it; 0: no such stop.
    print_forward_graph, print_backward_graph; adam, lbfgs: of the two types.
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
dequantize_row_q_t = callback("dequantize_row_q_t", None, c_void_p, _floats, c_int, doc="(x, y, k): k elements to f32.")
quantize_row_q_t = callback("quantize_row_q_t", None, _floats, c_void_p, c_int, doc="(x, y, k): k elements from f32.")
vec_dot_q_t = callback(
    "vec_dot_q_t", None, c_int, _floats, c_void_p, c_void_p, doc="(n, s, x, y): s[0] becomes the dot product of x and y."
)


class quantize_fns_t(Structure):
    """The functions of a quantised type: rows to and from it, the dot product with a row of vec_dot_type."""

    _fields_ = [
        ("dequantize_row_q", dequantize_row_q_t.prototype),
        ("quantize_row_q", quantize_row_q_t.prototype),
        ("quantize_row_q_reference", quantize_row_q_t.prototype),
        ("quantize_row_q_dot", quantize_row_q_t.prototype),
        ("vec_dot_q", vec_dot_q_t.prototype),
        ("vec_dot_type", c_int),
    ]
