# Written by scripts/make_stubs.py from the built module: run it again instead of editing this file.
import ctypes
import os
from collections.abc import Callable
from typing import Any, Final, Generic, NewType, SupportsFloat, SupportsIndex, TypeVar, overload

from . import ext as ext
from . import ggml as ggml
from .profiler import profile as profile

__version__: str
_core: Any
_Int = SupportsIndex | ctypes._SimpleCData[int]
_Float = SupportsFloat | ctypes._SimpleCData[float]
_Bool = bool | SupportsIndex | ctypes.c_bool
_Text = bytes | str | ctypes.c_char_p | ctypes.Array[ctypes.c_char] | None
_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Ref = ctypes._CArgObject
_Address = int | bytes | ctypes.c_void_p | ctypes.c_char_p | ctypes._Pointer[Any] | ctypes.Array[Any] | _Ref | None
_Pointer = int | ctypes._Pointer[Any] | ctypes.Array[Any] | ctypes.c_void_p | _Ref | None

_Get = TypeVar("_Get")
_Set = TypeVar("_Set")
_Struct = TypeVar("_Struct", bound=ctypes.Structure)

class _FieldInfo:
    offset: int
    size: int

class _Field(Generic[_Get, _Set]):
    @overload
    def __get__(self, instance: None, owner: Any) -> _FieldInfo: ...
    @overload
    def __get__(self, instance: object, owner: Any) -> _Get: ...
    def __set__(self, instance: object, value: _Set) -> None: ...

_To = ctypes._Pointer[_Struct] | _Ref | None

class _StructPointer(ctypes._Pointer[_Struct]):
    def __hash__(self) -> int: ...

class _Callback:
    prototype: Any
    def __init__(self, function: Callable[..., Any] | int = ...) -> None: ...
    def __call__(self, *args: Any) -> Any: ...

GGML_BACKEND_BUFFER_USAGE_ANY: Final = 0
GGML_BACKEND_BUFFER_USAGE_COMPUTE: Final = 2
GGML_BACKEND_BUFFER_USAGE_WEIGHTS: Final = 1
GGML_BACKEND_DEVICE_TYPE_ACCEL: Final = 3
GGML_BACKEND_DEVICE_TYPE_CPU: Final = 0
GGML_BACKEND_DEVICE_TYPE_GPU: Final = 1
GGML_BACKEND_DEVICE_TYPE_IGPU: Final = 2
GGML_BACKEND_DEVICE_TYPE_META: Final = 4
GGML_BACKEND_META_MAX_DEVICES: Final = 16
GGML_BACKEND_SPLIT_AXIS_0: Final = 0
GGML_BACKEND_SPLIT_AXIS_1: Final = 1
GGML_BACKEND_SPLIT_AXIS_2: Final = 2
GGML_BACKEND_SPLIT_AXIS_3: Final = 3
GGML_BACKEND_SPLIT_AXIS_MIRRORED: Final = 10
GGML_BACKEND_SPLIT_AXIS_NONE: Final = 98
GGML_BACKEND_SPLIT_AXIS_PARTIAL: Final = 11
GGML_BACKEND_SPLIT_AXIS_UNKNOWN: Final = 99
GGML_BACKEND_TYPE_CPU: Final = 0
GGML_BACKEND_TYPE_GPU: Final = 10
GGML_BACKEND_TYPE_GPU_SPLIT: Final = 20
GGML_CANN_MAX_DEVICES: Final = 16
GGML_CGRAPH_EVAL_ORDER_COUNT: Final = 2
GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT: Final = 0
GGML_CGRAPH_EVAL_ORDER_RIGHT_TO_LEFT: Final = 1
GGML_CPLAN_SIZE: Final = 56
GGML_CUDA_MAX_DEVICES: Final = 16
GGML_DEFAULT_GRAPH_SIZE: Final = 2048
GGML_DEFAULT_N_THREADS: Final = 4
GGML_EXIT_ABORTED: Final = 1
GGML_EXIT_SUCCESS: Final = 0
GGML_FILE_MAGIC: Final = 1734831468
GGML_FILE_VERSION: Final = 2
GGML_FTYPE_ALL_F32: Final = 0
GGML_FTYPE_MOSTLY_BF16: Final = 24
GGML_FTYPE_MOSTLY_F16: Final = 1
GGML_FTYPE_MOSTLY_IQ1_M: Final = 23
GGML_FTYPE_MOSTLY_IQ1_S: Final = 18
GGML_FTYPE_MOSTLY_IQ2_S: Final = 21
GGML_FTYPE_MOSTLY_IQ2_XS: Final = 16
GGML_FTYPE_MOSTLY_IQ2_XXS: Final = 15
GGML_FTYPE_MOSTLY_IQ3_S: Final = 20
GGML_FTYPE_MOSTLY_IQ3_XXS: Final = 17
GGML_FTYPE_MOSTLY_IQ4_NL: Final = 19
GGML_FTYPE_MOSTLY_IQ4_XS: Final = 22
GGML_FTYPE_MOSTLY_MXFP4: Final = 25
GGML_FTYPE_MOSTLY_NVFP4: Final = 26
GGML_FTYPE_MOSTLY_Q1_0: Final = 27
GGML_FTYPE_MOSTLY_Q2_0: Final = 28
GGML_FTYPE_MOSTLY_Q2_K: Final = 10
GGML_FTYPE_MOSTLY_Q3_K: Final = 11
GGML_FTYPE_MOSTLY_Q4_0: Final = 2
GGML_FTYPE_MOSTLY_Q4_1: Final = 3
GGML_FTYPE_MOSTLY_Q4_1_SOME_F16: Final = 4
GGML_FTYPE_MOSTLY_Q4_K: Final = 12
GGML_FTYPE_MOSTLY_Q5_0: Final = 8
GGML_FTYPE_MOSTLY_Q5_1: Final = 9
GGML_FTYPE_MOSTLY_Q5_K: Final = 13
GGML_FTYPE_MOSTLY_Q6_K: Final = 14
GGML_FTYPE_MOSTLY_Q8_0: Final = 7
GGML_FTYPE_UNKNOWN: Final = -1
GGML_GLU_OP_COUNT: Final = 6
GGML_GLU_OP_GEGLU: Final = 1
GGML_GLU_OP_GEGLU_ERF: Final = 4
GGML_GLU_OP_GEGLU_QUICK: Final = 5
GGML_GLU_OP_REGLU: Final = 0
GGML_GLU_OP_SWIGLU: Final = 2
GGML_GLU_OP_SWIGLU_OAI: Final = 3
GGML_HINT_NONE: Final = 0
GGML_HINT_SRC0_IS_HADAMARD: Final = 1
GGML_KQ_MASK_PAD: Final = 32
GGML_LOG_LEVEL_CONT: Final = 5
GGML_LOG_LEVEL_DEBUG: Final = 1
GGML_LOG_LEVEL_ERROR: Final = 4
GGML_LOG_LEVEL_INFO: Final = 2
GGML_LOG_LEVEL_NONE: Final = 0
GGML_LOG_LEVEL_WARN: Final = 3
GGML_MAX_DIMS: Final = 4
GGML_MAX_NAME: Final = 64
GGML_MAX_N_THREADS: Final = 512
GGML_MAX_OP_PARAMS: Final = 64
GGML_MAX_PARAMS: Final = 2048
GGML_MAX_SRC: Final = 10
GGML_MEMALIGN: Final = 16
GGML_MEM_ALIGN: Final = 16
GGML_METAL_MAX_BUFFERS: Final = 64
GGML_MROPE_SECTIONS: Final = 4
GGML_NUMA_STRATEGY_COUNT: Final = 5
GGML_NUMA_STRATEGY_DISABLED: Final = 0
GGML_NUMA_STRATEGY_DISTRIBUTE: Final = 1
GGML_NUMA_STRATEGY_ISOLATE: Final = 2
GGML_NUMA_STRATEGY_MIRROR: Final = 4
GGML_NUMA_STRATEGY_NUMACTL: Final = 3
GGML_N_TASKS_MAX: Final = -1
GGML_OBJECT_SIZE: Final = 32
GGML_OBJECT_TYPE_GRAPH: Final = 1
GGML_OBJECT_TYPE_TENSOR: Final = 0
GGML_OBJECT_TYPE_WORK_BUFFER: Final = 2
GGML_OPENVINO_NAME: Final = 'OPENVINO'
GGML_OPT_BUILD_TYPE_FORWARD: Final = 10
GGML_OPT_BUILD_TYPE_GRAD: Final = 20
GGML_OPT_BUILD_TYPE_OPT: Final = 30
GGML_OPT_LOSS_TYPE_CROSS_ENTROPY: Final = 2
GGML_OPT_LOSS_TYPE_MEAN: Final = 0
GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR: Final = 3
GGML_OPT_LOSS_TYPE_SUM: Final = 1
GGML_OPT_OPTIMIZER_TYPE_ADAMW: Final = 0
GGML_OPT_OPTIMIZER_TYPE_COUNT: Final = 2
GGML_OPT_OPTIMIZER_TYPE_SGD: Final = 1
GGML_OP_ACC: Final = 5
GGML_OP_ADD1: Final = 4
GGML_OP_ADD: Final = 2
GGML_OP_ADD_ID: Final = 3
GGML_OP_ADD_REL_POS: Final = 81
GGML_OP_ARANGE: Final = 67
GGML_OP_ARGMAX: Final = 18
GGML_OP_ARGSORT: Final = 69
GGML_OP_CLAMP: Final = 50
GGML_OP_CLAMP_BACK: Final = 132
GGML_OP_COL2IM_1D: Final = 55
GGML_OP_CONCAT: Final = 22
GGML_OP_CONT: Final = 35
GGML_OP_CONV_2D: Final = 56
GGML_OP_CONV_2D_DW: Final = 58
GGML_OP_CONV_3D: Final = 57
GGML_OP_CONV_BACK_DATA: Final = 140
GGML_OP_CONV_BACK_KERNEL: Final = 141
GGML_OP_CONV_TRANSPOSE_1D: Final = 51
GGML_OP_CONV_TRANSPOSE_2D: Final = 59
GGML_OP_COS: Final = 13
GGML_OP_COUNT: Final = 97
GGML_OP_COUNT_EQUAL: Final = 19
GGML_OP_CPY: Final = 34
GGML_OP_CROSS_ENTROPY_LOSS: Final = 92
GGML_OP_CROSS_ENTROPY_LOSS_BACK: Final = 93
GGML_OP_CUMSUM: Final = 16
GGML_OP_CUSTOM: Final = 91
GGML_OP_DIAG: Final = 43
GGML_OP_DIAG_MASK_INF: Final = 44
GGML_OP_DIAG_MASK_ZERO: Final = 45
GGML_OP_DIV: Final = 8
GGML_OP_DUP: Final = 1
GGML_OP_ELU_BACK: Final = 131
GGML_OP_EQUAL: Final = 159
GGML_OP_FILL: Final = 73
GGML_OP_FLASH_ATTN_BACK: Final = 75
GGML_OP_FLASH_ATTN_EXT: Final = 74
GGML_OP_FLASH_ATTN_EXT_BACK: Final = 134
GGML_OP_GATED_DELTA_NET: Final = 86
GGML_OP_GATED_LINEAR_ATTN: Final = 83
GGML_OP_GELU_BACK: Final = 128
GGML_OP_GELU_ERF_BACK: Final = 130
GGML_OP_GELU_QUICK_BACK: Final = 129
GGML_OP_GET_REL_POS: Final = 80
GGML_OP_GET_ROWS: Final = 40
GGML_OP_GET_ROWS_BACK: Final = 41
GGML_OP_GLU: Final = 96
GGML_OP_GROUP_NORM: Final = 27
GGML_OP_IM2COL: Final = 52
GGML_OP_IM2COL_3D: Final = 54
GGML_OP_IM2COL_3D_BACK: Final = 142
GGML_OP_IM2COL_BACK: Final = 53
GGML_OP_L2_NORM: Final = 28
GGML_OP_LEAKY_RELU: Final = 71
GGML_OP_LESS: Final = 158
GGML_OP_LOG: Final = 11
GGML_OP_LOG_SOFT_MAX: Final = 151
GGML_OP_MAP_CUSTOM1: Final = 88
GGML_OP_MAP_CUSTOM2: Final = 89
GGML_OP_MAP_CUSTOM3: Final = 90
GGML_OP_MAXIMUM: Final = 156
GGML_OP_MEAN: Final = 17
GGML_OP_MINIMUM: Final = 157
GGML_OP_MIN_MAX: Final = 152
GGML_OP_MUL: Final = 7
GGML_OP_MUL_MAT: Final = 29
GGML_OP_MUL_MAT_ID: Final = 30
GGML_OP_MUL_MAT_ID_BACK: Final = 135
GGML_OP_MUL_MAT_ID_BACK_AS: Final = 136
GGML_OP_NONE: Final = 0
GGML_OP_NORM: Final = 24
GGML_OP_NORM_BACK: Final = 139
GGML_OP_OPT_STEP_ADAMW: Final = 94
GGML_OP_OPT_STEP_SGD: Final = 95
GGML_OP_OUT_PROD: Final = 31
GGML_OP_PAD: Final = 64
GGML_OP_PAD_REFLECT_1D: Final = 65
GGML_OP_PAGED_ATTN: Final = 154
GGML_OP_PERMUTE: Final = 38
GGML_OP_POOL_1D: Final = 60
GGML_OP_POOL_2D: Final = 61
GGML_OP_POOL_2D_BACK: Final = 62
GGML_OP_POOL_AVG: Final = 1
GGML_OP_POOL_COUNT: Final = 2
GGML_OP_POOL_MAX: Final = 0
GGML_OP_QUANTIZE_LINEAR: Final = 153
GGML_OP_RECURRENT_BACK: Final = 137
GGML_OP_REPEAT: Final = 20
GGML_OP_REPEAT_BACK: Final = 21
GGML_OP_RESHAPE: Final = 36
GGML_OP_RMS_NORM: Final = 25
GGML_OP_RMS_NORM_BACK: Final = 26
GGML_OP_ROLL: Final = 66
GGML_OP_ROPE: Final = 48
GGML_OP_ROPE_BACK: Final = 49
GGML_OP_ROPE_FACTORS_BACK: Final = 133
GGML_OP_RWKV_WKV6: Final = 82
GGML_OP_RWKV_WKV7: Final = 84
GGML_OP_SCALE: Final = 32
GGML_OP_SET: Final = 33
GGML_OP_SET_ROWS: Final = 42
GGML_OP_SILU_BACK: Final = 23
GGML_OP_SIN: Final = 12
GGML_OP_SOFT_MAX: Final = 46
GGML_OP_SOFT_MAX_BACK: Final = 47
GGML_OP_SOLVE_TRI: Final = 85
GGML_OP_SQR: Final = 9
GGML_OP_SQRT: Final = 10
GGML_OP_SSM_CONV: Final = 76
GGML_OP_SSM_CONV_BACK: Final = 138
GGML_OP_SSM_SCAN: Final = 77
GGML_OP_SUB: Final = 6
GGML_OP_SUM: Final = 14
GGML_OP_SUM_ROWS: Final = 15
GGML_OP_TIMESTEP_EMBEDDING: Final = 68
GGML_OP_TOP_K: Final = 70
GGML_OP_TRANSPOSE: Final = 39
GGML_OP_TRI: Final = 72
GGML_OP_UNARY: Final = 87
GGML_OP_UPSCALE: Final = 63
GGML_OP_UPSCALE_BACK: Final = 150
GGML_OP_VIEW: Final = 37
GGML_OP_WIN_PART: Final = 78
GGML_OP_WIN_UNPART: Final = 79
GGML_PREC_DEFAULT: Final = 0
GGML_PREC_F32: Final = 10
GGML_QNT_VERSION: Final = 2
GGML_QNT_VERSION_FACTOR: Final = 1000
GGML_ROPE_TYPE_IMROPE: Final = 40
GGML_ROPE_TYPE_MROPE: Final = 8
GGML_ROPE_TYPE_NEOX: Final = 2
GGML_ROPE_TYPE_NORMAL: Final = 0
GGML_ROPE_TYPE_VISION: Final = 24
GGML_RPC_MAX_SERVERS: Final = 16
GGML_SCALE_FLAG_ALIGN_CORNERS: Final = 256
GGML_SCALE_FLAG_ANTIALIAS: Final = 512
GGML_SCALE_MODE_BICUBIC: Final = 2
GGML_SCALE_MODE_BILINEAR: Final = 1
GGML_SCALE_MODE_COUNT: Final = 3
GGML_SCALE_MODE_NEAREST: Final = 0
GGML_SCHED_PRIO_HIGH: Final = 2
GGML_SCHED_PRIO_LOW: Final = -1
GGML_SCHED_PRIO_MEDIUM: Final = 1
GGML_SCHED_PRIO_NORMAL: Final = 0
GGML_SCHED_PRIO_REALTIME: Final = 3
GGML_SORT_ORDER_ASC: Final = 0
GGML_SORT_ORDER_DESC: Final = 1
GGML_STATUS_ABORTED: Final = 1
GGML_STATUS_ALLOC_FAILED: Final = -2
GGML_STATUS_FAILED: Final = -1
GGML_STATUS_SUCCESS: Final = 0
GGML_SYCL_MAX_DEVICES: Final = 48
GGML_SYCL_NAME: Final = 'SYCL'
GGML_TASK_TYPE_COMPUTE: Final = 1
GGML_TASK_TYPE_FINALIZE: Final = 2
GGML_TASK_TYPE_INIT: Final = 0
GGML_TENSOR_FLAG_COMPUTE: Final = 16
GGML_TENSOR_FLAG_INPUT: Final = 1
GGML_TENSOR_FLAG_LOSS: Final = 8
GGML_TENSOR_FLAG_OUTPUT: Final = 2
GGML_TENSOR_FLAG_PARAM: Final = 4
GGML_TENSOR_SIZE: Final = 336
GGML_TRI_TYPE_LOWER: Final = 3
GGML_TRI_TYPE_LOWER_DIAG: Final = 2
GGML_TRI_TYPE_UPPER: Final = 1
GGML_TRI_TYPE_UPPER_DIAG: Final = 0
GGML_TYPE_BF16: Final = 30
GGML_TYPE_COUNT: Final = 42
GGML_TYPE_F16: Final = 1
GGML_TYPE_F32: Final = 0
GGML_TYPE_F64: Final = 28
GGML_TYPE_I16: Final = 25
GGML_TYPE_I32: Final = 26
GGML_TYPE_I64: Final = 27
GGML_TYPE_I8: Final = 24
GGML_TYPE_IQ1_M: Final = 29
GGML_TYPE_IQ1_S: Final = 19
GGML_TYPE_IQ2_S: Final = 22
GGML_TYPE_IQ2_XS: Final = 17
GGML_TYPE_IQ2_XXS: Final = 16
GGML_TYPE_IQ3_S: Final = 21
GGML_TYPE_IQ3_XXS: Final = 18
GGML_TYPE_IQ4_NL: Final = 20
GGML_TYPE_IQ4_XS: Final = 23
GGML_TYPE_MXFP4: Final = 39
GGML_TYPE_NVFP4: Final = 40
GGML_TYPE_Q1_0: Final = 41
GGML_TYPE_Q2_0: Final = 42
GGML_TYPE_Q2_K: Final = 10
GGML_TYPE_Q3_K: Final = 11
GGML_TYPE_Q4_0: Final = 2
GGML_TYPE_Q4_1: Final = 3
GGML_TYPE_Q4_K: Final = 12
GGML_TYPE_Q5_0: Final = 6
GGML_TYPE_Q5_1: Final = 7
GGML_TYPE_Q5_K: Final = 13
GGML_TYPE_Q6_K: Final = 14
GGML_TYPE_Q8_0: Final = 8
GGML_TYPE_Q8_1: Final = 9
GGML_TYPE_Q8_K: Final = 15
GGML_TYPE_TQ1_0: Final = 34
GGML_TYPE_TQ2_0: Final = 35
GGML_UNARY_OP_ABS: Final = 0
GGML_UNARY_OP_CEIL: Final = 19
GGML_UNARY_OP_COUNT: Final = 22
GGML_UNARY_OP_ELU: Final = 5
GGML_UNARY_OP_EXP: Final = 13
GGML_UNARY_OP_EXPM1: Final = 14
GGML_UNARY_OP_FLOOR: Final = 18
GGML_UNARY_OP_GELU: Final = 8
GGML_UNARY_OP_GELU_ERF: Final = 16
GGML_UNARY_OP_GELU_QUICK: Final = 9
GGML_UNARY_OP_HARDSIGMOID: Final = 12
GGML_UNARY_OP_HARDSWISH: Final = 11
GGML_UNARY_OP_NEG: Final = 2
GGML_UNARY_OP_RELU: Final = 6
GGML_UNARY_OP_ROUND: Final = 20
GGML_UNARY_OP_SGN: Final = 1
GGML_UNARY_OP_SIGMOID: Final = 7
GGML_UNARY_OP_SILU: Final = 10
GGML_UNARY_OP_SOFTPLUS: Final = 15
GGML_UNARY_OP_STEP: Final = 3
GGML_UNARY_OP_TANH: Final = 4
GGML_UNARY_OP_TRUNC: Final = 21
GGML_UNARY_OP_XIELU: Final = 17
GGML_USE_BLAS: Final = False
GGML_USE_CANN: Final = False
GGML_USE_CLBLAST: Final = False
GGML_USE_CUDA: Final = False
GGML_USE_CUDA_LOG_CALLBACK: Final = False
GGML_USE_HEXAGON: Final = False
GGML_USE_METAL: Final = False
GGML_USE_OPENCL: Final = False
GGML_USE_OPENVINO: Final = False
GGML_USE_RPC: Final = False
GGML_USE_RPC_LEGACY_SERVER: Final = False
GGML_USE_SYCL_BACKEND: Final = False
GGML_USE_VIRTGPU: Final = False
GGML_USE_VULKAN: Final = False
GGML_USE_VULKAN_CPU_ASSIST: Final = False
GGML_USE_WEBGPU: Final = False
GGML_USE_ZDNN: Final = False
GGML_USE_ZENDNN: Final = False
GGML_VERSION: Final = '0.15.3'
GGML_VERSION_MAJOR: Final = 0
GGML_VERSION_MINOR: Final = 15
GGML_VERSION_PATCH: Final = 3
GGML_VK_MAX_DEVICES: Final = 16
GGML_VK_NAME: Final = 'Vulkan'
GGUF_DEFAULT_ALIGNMENT: Final = 32
GGUF_MAGIC: Final = 'GGUF'
GGUF_TYPE_ARRAY: Final = 9
GGUF_TYPE_BOOL: Final = 7
GGUF_TYPE_COUNT: Final = 13
GGUF_TYPE_FLOAT32: Final = 6
GGUF_TYPE_FLOAT64: Final = 12
GGUF_TYPE_INT16: Final = 3
GGUF_TYPE_INT32: Final = 5
GGUF_TYPE_INT64: Final = 11
GGUF_TYPE_INT8: Final = 1
GGUF_TYPE_STRING: Final = 8
GGUF_TYPE_UINT16: Final = 2
GGUF_TYPE_UINT32: Final = 4
GGUF_TYPE_UINT64: Final = 10
GGUF_TYPE_UINT8: Final = 0
GGUF_VERSION: Final = 3
lib_base_name: Final = 'ggml'
module_name: Final = 'ggml'

ggml_backend_buffer_context_t = NewType("ggml_backend_buffer_context_t", int)
ggml_backend_buffer_t = NewType("ggml_backend_buffer_t", int)
ggml_backend_buffer_type_context_t = NewType("ggml_backend_buffer_type_context_t", int)
ggml_backend_buffer_type_t = NewType("ggml_backend_buffer_type_t", int)
ggml_backend_context_t = NewType("ggml_backend_context_t", int)
ggml_backend_dev_t = NewType("ggml_backend_dev_t", int)
ggml_backend_event_t = NewType("ggml_backend_event_t", int)
ggml_backend_graph_plan_t = NewType("ggml_backend_graph_plan_t", int)
ggml_backend_reg_t = NewType("ggml_backend_reg_t", int)
ggml_backend_sched_t = NewType("ggml_backend_sched_t", int)
ggml_backend_t = NewType("ggml_backend_t", int)
ggml_context_p = NewType("ggml_context_p", int)
ggml_gallocr = NewType("ggml_gallocr", int)
ggml_opt_context_t = NewType("ggml_opt_context_t", int)
ggml_opt_dataset_t = NewType("ggml_opt_dataset_t", int)
ggml_opt_result_t = NewType("ggml_opt_result_t", int)
ggml_threadpool_t = NewType("ggml_threadpool_t", int)
gguf_context_p = NewType("gguf_context_p", int)

class ggml_abort_callback(_Callback):
    """(data) -> bool: called between the nodes of a compute; True stops it with GGML_STATUS_ABORTED."""
class ggml_abort_callback_t(_Callback):
    """(message): called with the message of ggml_abort before it raises."""
class ggml_backend(ctypes.Structure):
    """A backend.

    guid: 16 bytes that identify its kind.
    iface: callbacks; context: data of the callbacks.
    """
    guid: _Field[Any, Any]
    iface: _Field[ggml_backend_i, ggml_backend_i]
    context: _Field[int | None, _Address]
class ggml_backend_buffer(ctypes.Structure):
    """A buffer.

    iface: callbacks; context: data of the callbacks.
    buft: handle of the buffer type.
    size: bytes.
    """
    iface: _Field[ggml_backend_buffer_i, ggml_backend_buffer_i]
    buft: _Field[int | None, _Address]
    context: _Field[int | None, _Address]
    size: _Field[int, _Int]
class ggml_backend_buffer_i(ctypes.Structure):
    """Callbacks of a buffer. get_base, set_tensor, get_tensor and clear are required, the others may be NULL."""
    get_name: _Field[Any, Any]
    free_buffer: _Field[Any, Any]
    get_base: _Field[Any, Any]
    init_tensor: _Field[Any, Any]
    set_tensor: _Field[Any, Any]
    get_tensor: _Field[Any, Any]
    cpy_tensor: _Field[Any, Any]
    clear: _Field[Any, Any]
    reset: _Field[Any, Any]
class ggml_backend_buffer_i_alloc_buffer(_Callback):
    """(buft, size) -> buffer; None if there is no memory."""
class ggml_backend_buffer_i_clear(_Callback):
    """(buffer, value): sets all bytes to value."""
class ggml_backend_buffer_i_cpy_tensor(_Callback):
    """(buffer, src, dst) -> bool: copies src to dst in the buffer; False leaves the copy to the caller."""
class ggml_backend_buffer_i_free_buffer(_Callback):
    """(buffer): frees its memory."""
class ggml_backend_buffer_i_get_alignment(_Callback):
    """(buft) -> alignment of tensors in bytes."""
class ggml_backend_buffer_i_get_alloc_size(_Callback):
    """(buft, tensor) -> bytes for the tensor."""
class ggml_backend_buffer_i_get_base(_Callback):
    """(buffer) -> address where its memory starts."""
class ggml_backend_buffer_i_get_max_size(_Callback):
    """(buft) -> bytes of the largest buffer."""
class ggml_backend_buffer_i_get_name(_Callback):
    """(buffer) -> bytes."""
class ggml_backend_buffer_i_get_tensor(_Callback):
    """(buffer, tensor, data, offset, size): copies out."""
class ggml_backend_buffer_i_init_tensor(_Callback):
    """(buffer, tensor): called after a tensor was placed in it."""
class ggml_backend_buffer_i_is_host(_Callback):
    """(buft) -> bool: the CPU can read and write it."""
class ggml_backend_buffer_i_reset(_Callback):
    """(buffer): discards what init_tensor created."""
class ggml_backend_buffer_i_set_tensor(_Callback):
    """(buffer, tensor, data, offset, size): copies in."""
class ggml_backend_buffer_i_supports_backend(_Callback):
    """(buft, backend) -> bool: the backend can use the type."""
class ggml_backend_buffer_type(ctypes.Structure):
    """A buffer type.

    iface: callbacks.
    context: data of the callbacks.
    """
    iface: _Field[ggml_backend_buffer_type_i, ggml_backend_buffer_type_i]
    context: _Field[int | None, _Address]
class ggml_backend_buffer_type_i(ctypes.Structure):
    """Callbacks of a buffer type. get_name, alloc_buffer and get_alignment are required, the others may be NULL."""
    get_name: _Field[Any, Any]
    alloc_buffer: _Field[Any, Any]
    get_alignment: _Field[Any, Any]
    get_max_size: _Field[Any, Any]
    get_alloc_size: _Field[Any, Any]
    supports_backend: _Field[Any, Any]
    is_host: _Field[Any, Any]
class ggml_backend_buffer_type_i_get_name(_Callback):
    """(buft) -> bytes."""
class ggml_backend_dev_caps(ctypes.Structure):
    """Capabilities of a device.

    async: True if it computes asynchronously.
    host_buffer: True if it allocates pinned host memory.
    buffer_from_host_ptr: True if it can use the caller's memory.
    events: True if it has events.
    """
    host_buffer: _Field[bool, _Bool]
    buffer_from_host_ptr: _Field[bool, _Bool]
    events: _Field[bool, _Bool]
class ggml_backend_dev_props(ctypes.Structure):
    """Properties of a device.

    name, description: text.
    memory_free, memory_total: bytes.
    type: GGML_BACKEND_DEVICE_TYPE_*.
    device_id: address on the bus; None if it has none.
    caps: capabilities.
    """
    name: _Field[bytes | None, _Text]
    description: _Field[bytes | None, _Text]
    memory_free: _Field[int, _Int]
    memory_total: _Field[int, _Int]
    type: _Field[int, _Int]
    device_id: _Field[bytes | None, _Text]
    caps: _Field[ggml_backend_dev_caps, ggml_backend_dev_caps]
class ggml_backend_device(ctypes.Structure):
    """A device.

    iface: callbacks.
    reg: handle of the registry that the device belongs to; None for none.
    context: data of the callbacks.
    """
    iface: _Field[ggml_backend_device_i, ggml_backend_device_i]
    reg: _Field[int | None, _Address]
    context: _Field[int | None, _Address]
class ggml_backend_device_i(ctypes.Structure):
    """Callbacks of a device.

    get_name, get_description, get_memory, get_type, get_props, init_backend, get_buffer_type, supports_op and
    supports_buft are required, the others may be NULL.
    """
    get_name: _Field[Any, Any]
    get_description: _Field[Any, Any]
    get_memory: _Field[Any, Any]
    get_type: _Field[Any, Any]
    get_props: _Field[Any, Any]
    init_backend: _Field[Any, Any]
    get_buffer_type: _Field[Any, Any]
    get_host_buffer_type: _Field[Any, Any]
    buffer_from_host_ptr: _Field[Any, Any]
    supports_op: _Field[Any, Any]
    supports_buft: _Field[Any, Any]
    offload_op: _Field[Any, Any]
    event_new: _Field[Any, Any]
    event_free: _Field[Any, Any]
    event_synchronize: _Field[Any, Any]
class ggml_backend_device_i_buffer_from_host_ptr(_Callback):
    """(device, ptr, size, max_tensor_size) -> buffer over the caller's memory, or None."""
class ggml_backend_device_i_event_free(_Callback):
    """(device, event): frees it."""
class ggml_backend_device_i_event_new(_Callback):
    """(device) -> event."""
class ggml_backend_device_i_event_synchronize(_Callback):
    """(device, event): waits until it is signalled."""
class ggml_backend_device_i_get_buffer_type(_Callback):
    """(device) -> buffer type."""
class ggml_backend_device_i_get_description(_Callback):
    """(device) -> bytes."""
class ggml_backend_device_i_get_host_buffer_type(_Callback):
    """(device) -> buffer type in host memory, or None."""
class ggml_backend_device_i_get_memory(_Callback):
    """(device, free, total): writes free[0] and total[0], bytes."""
class ggml_backend_device_i_get_name(_Callback):
    """(device) -> bytes."""
class ggml_backend_device_i_get_props(_Callback):
    """(device, props): fills props.contents."""
class ggml_backend_device_i_get_type(_Callback):
    """(device) -> GGML_BACKEND_DEVICE_TYPE_*."""
class ggml_backend_device_i_init_backend(_Callback):
    """(device, params) -> backend."""
class ggml_backend_device_i_offload_op(_Callback):
    """(device, op) -> bool: copying the weights to the device to compute the node is worthwhile."""
class ggml_backend_device_i_supports_buft(_Callback):
    """(device, buft) -> bool: the device can use such buffers."""
class ggml_backend_device_i_supports_op(_Callback):
    """(device, op) -> bool: the device can compute the node."""
class ggml_backend_eval_callback(_Callback):
    """(index, a, b, user_data) -> bool: compares the results of two backends; False ends the comparison."""
class ggml_backend_event(ctypes.Structure):
    """An event.

    backend: handle of the backend that created it.
    context: data of that backend.
    """
    backend: _Field[int | None, _Address]
    context: _Field[int | None, _Address]
class ggml_backend_graph_copy(ctypes.Structure):
    """A copy of a graph on another backend. The call ggml_backend_graph_copy(backend, graph) creates the copy.

    buffer: handle of the buffer that holds the copied tensors.
    ctx_allocated, ctx_unallocated: contexts of the copied tensors with and without data.
    graph: the copy.
    """
    buffer: _Field[int | None, _Address]
    ctx_allocated: _Field[int | None, _Address]
    ctx_unallocated: _Field[int | None, _Address]
    graph: _Field[ggml_cgraph_p, ggml_cgraph_p | None]
class ggml_backend_i(ctypes.Structure):
    """Callbacks of a backend.

    get_name, get_default_buffer_type, graph_compute and supports_op are required, the others may be NULL.
    """
    get_name: _Field[Any, Any]
    free: _Field[Any, Any]
    get_default_buffer_type: _Field[Any, Any]
    set_tensor_async: _Field[Any, Any]
    get_tensor_async: _Field[Any, Any]
    cpy_tensor_async: _Field[Any, Any]
    synchronize: _Field[Any, Any]
    graph_plan_create: _Field[Any, Any]
    graph_plan_free: _Field[Any, Any]
    graph_plan_compute: _Field[Any, Any]
    graph_compute: _Field[Any, Any]
    supports_op: _Field[Any, Any]
    offload_op: _Field[Any, Any]
    event_new: _Field[Any, Any]
    event_free: _Field[Any, Any]
    event_record: _Field[Any, Any]
    event_wait: _Field[Any, Any]
    event_synchronize: _Field[Any, Any]
class ggml_backend_i_cpy_tensor_async(_Callback):
    """(backend_src, backend_dst, src, dst) -> bool: copies src to dst; False leaves the copy to the caller."""
class ggml_backend_i_event_free(_Callback):
    """(event): frees it."""
class ggml_backend_i_event_new(_Callback):
    """(backend) -> event."""
class ggml_backend_i_event_record(_Callback):
    """(event): signals it when all started work is complete."""
class ggml_backend_i_event_synchronize(_Callback):
    """(event): waits until it is signalled."""
class ggml_backend_i_event_wait(_Callback):
    """(backend, event): later work of the backend waits for it."""
class ggml_backend_i_free(_Callback):
    """(backend): frees the backend."""
class ggml_backend_i_get_default_buffer_type(_Callback):
    """(backend) -> buffer type."""
class ggml_backend_i_get_name(_Callback):
    """(backend) -> bytes."""
class ggml_backend_i_get_tensor_async(_Callback):
    """(backend, tensor, data, offset, size): copies out."""
class ggml_backend_i_graph_compute(_Callback):
    """(backend, graph) -> bool: computes the graph; False reports a failure."""
class ggml_backend_i_graph_plan_compute(_Callback):
    """(backend, plan): computes a plan."""
class ggml_backend_i_graph_plan_create(_Callback):
    """(backend, graph) -> plan."""
class ggml_backend_i_graph_plan_free(_Callback):
    """(backend, plan): frees a plan."""
class ggml_backend_i_offload_op(_Callback):
    """(backend, op) -> bool: copying the weights to the backend to compute the node is worthwhile."""
class ggml_backend_i_set_tensor_async(_Callback):
    """(backend, tensor, data, offset, size): copies in."""
class ggml_backend_i_supports_op(_Callback):
    """(backend, op) -> bool: the backend can compute the node."""
class ggml_backend_i_synchronize(_Callback):
    """(backend): waits until all started work is complete."""
class ggml_backend_meta_split_state(ctypes.Structure):
    """How a tensor is split over the devices of a meta device.

    axis: GGML_BACKEND_SPLIT_AXIS_*.
    ne: number of elements along the axis, for each segment and device.
    nr: number of repetitions of each segment.
    n_segments: number of segments.
    """
    axis: _Field[int, _Int]
    ne: _Field[ctypes.Array[Any], Any]
    nr: _Field[ctypes.Array[Any], Any]
    n_segments: _Field[int, _Int]
class ggml_backend_reg(ctypes.Structure):
    """A registry of devices, for `ggml_backend_register`.

    iface: callbacks; context: data of the callbacks.
    """
    iface: _Field[ggml_backend_reg_i, ggml_backend_reg_i]
    context: _Field[int | None, _Address]
class ggml_backend_reg_i(ctypes.Structure):
    """Callbacks of a registry of devices. get_proc_address may be NULL."""
    get_name: _Field[Any, Any]
    get_device_count: _Field[Any, Any]
    get_device: _Field[Any, Any]
    get_proc_address: _Field[Any, Any]
class ggml_backend_reg_i_get_device(_Callback):
    """(reg, index) -> device."""
class ggml_backend_reg_i_get_device_count(_Callback):
    """(reg) -> number of devices."""
class ggml_backend_reg_i_get_name(_Callback):
    """(reg) -> bytes."""
class ggml_backend_reg_i_get_proc_address(_Callback):
    """(reg, name) -> address, or None."""
class ggml_backend_sched_eval_callback(_Callback):
    """(tensor, ask, user_data) -> bool: with ask, True requests a call after the compute; without, False cancels."""
class ggml_bf16_t(ctypes.Structure):
    """A bfloat16 number: the upper half of a float32.

    bits: the 16 bits.
    """
    bits: _Field[int, _Int]
class ggml_binary_op_f32_t(_Callback):
    """(n, dst, a, b): computes a row of n elements."""
class ggml_cgraph(ctypes.Structure):
    """Tensors in the order in which they are computed.

    size: largest number of nodes, and of leafs.
    n_nodes, n_leafs: number of nodes and of leafs.
    nodes: tensors to compute; leafs: constants and inputs.
    grads, grad_accs: gradient and gradient accumulator by hash slot; NULL for a graph without gradients.
    use_counts: number of nodes that read a tensor, by hash slot.
    visited_hash_set: the tensors of the graph.
    order: GGML_CGRAPH_EVAL_ORDER_*, the order in which operands are visited.
    uid: number that identifies the graph, 0 for none.
    """
    size: _Field[int, _Int]
    n_nodes: _Field[int, _Int]
    n_leafs: _Field[int, _Int]
    nodes: _Field[Any, Any]
    grads: _Field[Any, Any]
    grad_accs: _Field[Any, Any]
    leafs: _Field[Any, Any]
    use_counts: _Field[Any, Any]
    visited_hash_set: _Field[ggml_hash_set, ggml_hash_set]
    order: _Field[int, _Int]
    uid: _Field[int, _Int]
class ggml_cgraph_p(_StructPointer[ggml_cgraph]):
    """Pointer to a ggml_cgraph: what graph functions take and return."""
class ggml_compute_params(ctypes.Structure):
    """Parameters of a thread that computes a node.

    type: GGML_TASK_TYPE_*.
    ith, nth: index of the thread and number of threads.
    wsize, wdata: bytes and address of the shared work memory.
    """
    type: _Field[int, _Int]
    ith: _Field[int, _Int]
    nth: _Field[int, _Int]
    wsize: _Field[int, _Int]
    wdata: _Field[int | None, _Address]
class ggml_compute_params_p(_StructPointer[ggml_compute_params]):
    """Pointer to a ggml_compute_params."""
class ggml_cplan(ctypes.Structure):
    """A plan for computing a graph, returned by `ggml_graph_plan`.

    work_size: bytes of work memory that the caller provides in work_data.
    n_threads: number of threads.
    threadpool: handle of a thread pool; None for the default one.
    abort_callback: stops the compute when it returns True; called with abort_callback_data.
    use_ref: True for the plain reference kernels.
    """
    work_size: _Field[int, _Int]
    work_data: _Field[Any, Any]
    n_threads: _Field[int, _Int]
    threadpool: _Field[int | None, _Address]
    abort_callback: _Field[Any, Any]
    abort_callback_data: _Field[int | None, _Address]
    use_ref: _Field[bool, _Bool]
class ggml_cplan_p(_StructPointer[ggml_cplan]):
    """Pointer to a ggml_cplan."""
class ggml_custom1_op_f32_t(_Callback):
    """(dst, a): computes dst on one thread."""
class ggml_custom1_op_t(_Callback):
    """(dst, a, ith, nth, userdata): computes one thread's share."""
class ggml_custom2_op_f32_t(_Callback):
    """(dst, a, b): computes dst on one thread."""
class ggml_custom2_op_t(_Callback):
    """(dst, a, b, ith, nth, userdata): as ggml_custom1_op_t."""
class ggml_custom3_op_f32_t(_Callback):
    """(dst, a, b, c): computes dst on one thread."""
class ggml_custom3_op_t(_Callback):
    """(dst, a, b, c, ith, nth, userdata): as ggml_custom1_op_t."""
class ggml_custom_op_t(_Callback):
    """(dst, ith, nth, userdata): as ggml_custom1_op_t; the operands are dst's src."""
class ggml_from_float_t(_Callback):
    """(x, y, k): converts k elements from float32."""
class ggml_hash_set(ctypes.Structure):
    """A hash table of the tensors of a graph, by address.

    size: number of slots.
    used: one bit for each slot.
    keys: the tensor in each slot.
    """
    size: _Field[int, _Int]
    used: _Field[Any, Any]
    keys: _Field[Any, Any]
class ggml_init_params(ctypes.Structure):
    """Parameters of `ggml_init`.

    mem_size: bytes of the arena; 0 for one that grows.
    mem_buffer: address of memory of that size; None to allocate it.
    no_alloc: True if tensors get a header but no data.
    """
    mem_size: _Field[int, _Int]
    mem_buffer: _Field[int | None, _Address]
    no_alloc: _Field[bool, _Bool]
class ggml_log_callback(_Callback):
    """(level, text, user_data): receives messages."""
class ggml_object(ctypes.Structure):
    """Header of an object in a context's arena.

    offs: offset of the content from the arena's start, in bytes.
    size: bytes of the content.
    next: the object after this one.
    type: GGML_OBJECT_TYPE_*.
    """
    offs: _Field[int, _Int]
    size: _Field[int, _Int]
    next: _Field[ggml_object_p, ggml_object_p | None]
    type: _Field[int, _Int]
    padding: _Field[bytes, bytes]
class ggml_object_p(_StructPointer[ggml_object]):
    """Pointer to a ggml_object."""
class ggml_opt_epoch_callback(_Callback):
    """(train, opt_ctx, dataset, result, ibatch, ibatch_max, t_start_us): called after each batch of an epoch."""
class ggml_opt_optimizer_params(ctypes.Structure):
    """Parameters of both optimisers, adamw and sgd; the one that is used reads its own."""
    adamw: _Field[ggml_opt_optimizer_params_adamw, ggml_opt_optimizer_params_adamw]
    sgd: _Field[ggml_opt_optimizer_params_sgd, ggml_opt_optimizer_params_sgd]
class ggml_opt_optimizer_params_adamw(ctypes.Structure):
    """Parameters of AdamW.

    alpha: learning rate.
    beta1, beta2: decay rates of the moving averages of the gradient and the squared gradient.
    eps: added to the denominator.
    wd: weight decay.
    """
    alpha: _Field[float, _Float]
    beta1: _Field[float, _Float]
    beta2: _Field[float, _Float]
    eps: _Field[float, _Float]
    wd: _Field[float, _Float]
class ggml_opt_optimizer_params_sgd(ctypes.Structure):
    """Parameters of stochastic gradient descent.

    alpha: learning rate.
    wd: weight decay.
    """
    alpha: _Field[float, _Float]
    wd: _Field[float, _Float]
class ggml_opt_params(ctypes.Structure):
    """Parameters of an optimisation context.

    backend_sched: handle of the scheduler that computes.
    ctx_compute, inputs, outputs: context, inputs and outputs of a static graph; None to provide a graph each time.
    loss_type, build_type, optimizer: GGML_OPT_LOSS_TYPE_*, GGML_OPT_BUILD_TYPE_*, GGML_OPT_OPTIMIZER_TYPE_*.
    opt_period: number of physical batches for each step of the optimiser.
    get_opt_pars: address of the function that returns the parameters of a step; called with get_opt_pars_ud.
    """
    backend_sched: _Field[int | None, _Address]
    ctx_compute: _Field[int | None, _Address]
    inputs: _Field[ggml_tensor_p, ggml_tensor_p | None]
    outputs: _Field[ggml_tensor_p, ggml_tensor_p | None]
    loss_type: _Field[int, _Int]
    build_type: _Field[int, _Int]
    opt_period: _Field[int, _Int]
    get_opt_pars: _Field[int | None, _Address]
    get_opt_pars_ud: _Field[int | None, _Address]
    optimizer: _Field[int, _Int]
class ggml_scratch(ctypes.Structure):
    """A scratch buffer: while it is set, tensor data is placed there instead of in the context's arena.

    offs: bytes in use.
    size: bytes in total.
    data: address of the memory; None for no scratch buffer.
    """
    offs: _Field[int, _Int]
    size: _Field[int, _Int]
    data: _Field[int | None, _Address]
class ggml_tallocr(ctypes.Structure):
    """An allocator that places tensors one after the other in a buffer.

    buffer: handle of the buffer; base: address of its memory.
    alignment: alignment of the tensors in bytes; offset: bytes in use.
    """
    buffer: _Field[int | None, _Address]
    base: _Field[int | None, _Address]
    alignment: _Field[int, _Int]
    offset: _Field[int, _Int]
class ggml_tensor(ctypes.Structure):
    """An array of up to four dimensions, and the operation that computes it.

    type: GGML_TYPE_* of the elements.
    buffer: handle of the backend buffer that holds the data; None for data in a context.
    ne: number of elements along each dimension, the innermost first.
    nb: stride of each dimension in bytes; for a quantised type, nb[0] is the size of a block.
    op: GGML_OP_*; GGML_OP_NONE for a leaf.
    op_params: the operation's parameters, 32-bit words.
    flags: sum of GGML_TENSOR_FLAG_*.
    src: the operands; unused entries are NULL pointers.
    view_src: the tensor in whose memory a view lies; view_offs: offset of the view in it, in bytes.
    data: address of the first element; None until it is allocated.
    name: text of up to 63 bytes.
    extra: reserved for backends.
    """
    type: _Field[int, _Int]
    buffer: _Field[int | None, _Address]
    ne: _Field[ctypes.Array[Any], Any]
    nb: _Field[ctypes.Array[Any], Any]
    op: _Field[int, _Int]
    op_params: _Field[ctypes.Array[Any], Any]
    flags: _Field[int, _Int]
    src: _Field[ctypes.Array[ggml_tensor_p], Any]
    view_src: _Field[ggml_tensor_p, ggml_tensor_p | None]
    view_offs: _Field[int, _Int]
    data: _Field[int | None, _Address]
    name: _Field[bytes, bytes]
    extra: _Field[int | None, _Address]
    padding: _Field[bytes, bytes]
class ggml_tensor_p(_StructPointer[ggml_tensor]):
    """Pointer to a ggml_tensor: what tensor functions take and return; `.contents` is the struct."""
class ggml_threadpool_params(ctypes.Structure):
    """Parameters of a thread pool.

    cpumask: True for each CPU that may be used; all False for any CPU.
    n_threads: number of threads.
    prio: GGML_SCHED_PRIO_*.
    poll: how long threads spin before they sleep, from 0 (not at all) to 100.
    strict_cpu: True to bind each thread to one CPU.
    paused: True to start the pool paused.
    """
    cpumask: _Field[ctypes.Array[Any], Any]
    n_threads: _Field[int, _Int]
    prio: _Field[int, _Int]
    poll: _Field[int, _Int]
    strict_cpu: _Field[bool, _Bool]
    paused: _Field[bool, _Bool]
class ggml_to_float_t(_Callback):
    """(x, y, k): converts k elements to float32."""
class ggml_type_traits(ctypes.Structure):
    """Properties of an element type.

    type_name: name of the type.
    blck_size: elements of a block.
    blck_size_interleave: number of interleaved blocks; 0 for none.
    type_size: bytes of a block.
    is_quantized: True for quantised types.
    to_float, from_float_ref: convert rows to and from float32.
    """
    type_name: _Field[bytes | None, _Text]
    blck_size: _Field[int, _Int]
    blck_size_interleave: _Field[int, _Int]
    type_size: _Field[int, _Int]
    is_quantized: _Field[bool, _Bool]
    to_float: _Field[Any, Any]
    from_float_ref: _Field[Any, Any]
class ggml_type_traits_cpu(ctypes.Structure):
    """Functions of the CPU for an element type.

    from_float: converts a row from float32.
    vec_dot: computes the dot product with a row of type vec_dot_type (GGML_TYPE_*).
    nrows: number of rows that one call of vec_dot computes.
    """
    from_float: _Field[Any, Any]
    vec_dot: _Field[Any, Any]
    vec_dot_type: _Field[int, _Int]
    nrows: _Field[int, _Int]
class ggml_type_traits_cpu_p(_StructPointer[ggml_type_traits_cpu]):
    """Pointer to a ggml_type_traits_cpu."""
class ggml_type_traits_p(_StructPointer[ggml_type_traits]):
    """Pointer to a ggml_type_traits."""
class ggml_unary_op_f32_t(_Callback):
    """(n, dst, a): computes a row of n elements."""
class ggml_vec_dot_t(_Callback):
    """(n, s, bs, x, bx, y, by, nrc): s[0] = dot product of n elements; bs, bx, by: row strides in bytes."""
class gguf_init_params(ctypes.Structure):
    """Parameters of `gguf_init_from_file`.

    no_alloc: True to create the tensors without their data.
    ctx: pointer that receives a new context with the file's tensors; NULL for no context.
    """
    no_alloc: _Field[bool, _Bool]
    ctx: _Field[Any, Any]
class gguf_reader_callback_t(_Callback):
    """(userdata, output, offset, size) -> bytes read: reads a file for the GGUF parser; 0 after an exception."""

byref = ctypes.byref
ggml_backend_buffer_context_t_ctypes = ctypes.c_void_p
ggml_backend_buffer_t_ctypes = ctypes.c_void_p
ggml_backend_buffer_type_context_t_ctypes = ctypes.c_void_p
ggml_backend_buffer_type_t_ctypes = ctypes.c_void_p
ggml_backend_context_t_ctypes = ctypes.c_void_p
ggml_backend_dev_t_ctypes = ctypes.c_void_p
ggml_backend_event_t_ctypes = ctypes.c_void_p
ggml_backend_graph_copy_t = ggml_backend_graph_copy
ggml_backend_graph_plan_t_ctypes = ctypes.c_void_p
ggml_backend_meta_get_split_state_t = ctypes.c_void_p
ggml_backend_reg_t_ctypes = ctypes.c_void_p
ggml_backend_sched_t_ctypes = ctypes.c_void_p
ggml_backend_t_ctypes = ctypes.c_void_p
ggml_context_p_ctypes = ctypes.c_void_p
ggml_fp16_t = ctypes.c_ushort
ggml_gallocr_ctypes = ctypes.c_void_p
ggml_guid_ctypes: Any
ggml_guid_t_ctypes: Any
ggml_opt_context_t_ctypes = ctypes.c_void_p
ggml_opt_dataset_t_ctypes = ctypes.c_void_p
ggml_opt_get_optimizer_params: Any
ggml_opt_result_t_ctypes = ctypes.c_void_p
ggml_tallocr_t_ctypes: Any
ggml_threadpool_t_ctypes = ctypes.c_void_p
ggml_type_traits_t = ggml_type_traits
gguf_context_p_ctypes = ctypes.c_void_p
lib: Any

def ctypes_function_for_shared_library(lib: Any) -> Any:
    """Returns the decorator with which the ctypes bindings declare the functions of a library.

    Args:
        lib: ggml.lib.
    Returns:
        ggml.ggml_function, a function (name, argtypes, restype, enabled) that returns a decorator.
    Raises:
        TypeError: lib is not ggml.lib.
    """
def ggml_abort(file: _Text, line: _Int, fmt: _Text, *args: Any) -> None:
    """Raises RuntimeError with a formatted message and a place in the source.

    The C library ends the process here. The callback of ggml_set_abort_callback is called with the message first.

    Args:
        file: name of the source file, bytes or str.
        line: number of the line.
        fmt: printf format, bytes or str, as Python's % operator for bytes takes it. Without arguments it is used as
            it is.
        *args: values for the format: numbers, ctypes scalars, and bytes for %s.
    Returns:
        Never.
    Raises:
        RuntimeError: always, with the message "<file>:<line>: <text>".
        TypeError: file or fmt is neither bytes nor str, or line is not an integer.
        ValueError: the arguments do not fit the format.
    """
def ggml_abs(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Takes the absolute value of each element.

    The gradient flows to a, multiplied by the sign of a, which is 0 at 0.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_abs_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Removes the sign of each element of a.

    The gradient would need the signs: ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with its magnitudes.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_acc(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], nb1: _Int, nb2: _Int, nb3: _Int, offset: _Int) -> ggml_tensor_p:
    """Adds b to a part of a copy of a: result = a; view(result, nb1, nb2, nb3, offset) += b.

    The part has b's shape and the given strides within the result, which is contiguous. The gradient flows to a
    and, from that part, to b.

    Args:
        ctx: context that receives the result.
        a: f32, [ne0, ne1, ne2, ne3].
        b: f32, any shape that fits into the result from offset on.
        nb1: bytes between rows of the part, less than 2 GiB, a multiple of 4. The stride of a dimension of size 1
            is not used.
        nb2: stride of the part's dimension 2 in bytes, likewise.
        nb3: stride of the part's dimension 3 in bytes, likewise.
        offset: bytes from the start of the result to the part, less than 2 GiB, a multiple of 4.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        ValueError: a type is not f32, the part ends beyond the result, or a stride or offset is invalid.
        MemoryError: the context is full.
    """
def ggml_acc_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], nb1: _Int, nb2: _Int, nb3: _Int, offset: _Int) -> ggml_tensor_p:
    """Adds b to a part of a in a's own memory: view(a, nb1, nb2, nb3, offset) += b.

    Elements of a outside the part stay as they are. The gradient flows to a and, from the part, to b.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous f32, [ne0, ne1, ne2, ne3]; it is modified.
        b: f32, any shape that fits into a from offset on.
        nb1: bytes between rows of the part, less than 2 GiB, a multiple of 4. The stride of a dimension of size 1
            is not used.
        nb2: stride of the part's dimension 2 in bytes, likewise.
        nb3: stride of the part's dimension 3 in bytes, likewise.
        offset: bytes from the start of a to the part, less than 2 GiB, a multiple of 4.
    Returns:
        View of all of a, after the addition.
    Raises:
        ValueError: a type is not f32, a is not contiguous, the part ends beyond a, or a stride or offset is
            invalid.
        MemoryError: the context is full.
    """
def ggml_add(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Adds two tensors element by element: a + b, with b repeated to the shape of a.

    The sum is computed in f32 and rounded to the type of a. A quantised a is unpacked and quantised again. The gradient
    flows to a and b; that of b is summed over its repeats. Quantised tensors pass no gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or quantised, any shape.
        b: f32, f16 or bf16 (f32 if a is quantised); each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes do not fit, a type is not supported, or the quantised type of a needs importance
            weights.
        MemoryError: the context is full.
    """
def ggml_add1(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Adds the single element of b to every element of a.

    The gradient flows to a unchanged, and to b as the sum over all elements.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: scalar tensor, f32, f16 or bf16, [1].
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: b has more or less than one element, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_scale_bias, which adds a Python number.
    """
def ggml_add1_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Adds the single element of b to a, overwriting a.

    The gradient reads no overwritten value, so the node may be used in training.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; its memory holds the result.
        b: scalar tensor, f32, f16 or bf16, [1].
    Returns:
        View of all of a.
    Raises:
        ValueError: b does not have exactly one element, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_add_cast(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], type: _Int) -> ggml_tensor_p:
    """Adds b to a and stores the sums as another type.

    A typical use is the f32 sum of quantised weights and an f32 update. The gradient flows to a and b as for ggml_add;
    a quantised operand receives none, and a quantised result passes none on.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or quantised, any shape.
        b: f32, f16 or bf16 (f32 if a is quantised); each dimension of the shape of a is a multiple of b's.
        type: GGML_TYPE_* of the result: f32, f16, bf16, or the type of a.
    Returns:
        Tensor of a's shape and of the given type.
    Raises:
        ValueError: the shapes do not fit, an operand's type is not supported, or type is unknown or not one of
            those above.
        MemoryError: the context is full.
    """
def ggml_add_id(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], ids: _To[ggml_tensor]) -> ggml_tensor_p:
    """Adds to each row of a the row of b that an index selects.

    result[:, i, j] = a[:, i, j] + b[:, ids[i, j]], such as the bias of the expert that token j uses as its i-th. The
    gradient flows to a and to b. An index out of range makes the compute call raise RuntimeError.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [n, n_used, n_tokens].
        b: f32, f16 or bf16, [n, n_rows].
        ids: i32 [n_used, n_tokens], with values from 0 to n_rows - 1.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: b is not a matrix with rows of a's length, a has four dimensions, ids does not hold one index for
            each row of a, or a type is not supported.
        MemoryError: the context is full.
    See also:
        ggml_mul_mat_id, the product with the expert's matrix.
    """
def ggml_add_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Adds b to a and stores the sums in the memory of a.

    The memory is written when the graph is computed, so every computation of the graph adds b once more unless
    the graph also computes a. The gradient needs none of the overwritten values and flows to a and b.

    Args:
        ctx: context that receives the node; it needs no memory for data.
        a: f32, f16, bf16 or quantised, any shape; overwritten.
        b: f32, f16 or bf16 (f32 if a is quantised); each dimension of the shape of a is a multiple of b's.
    Returns:
        View of all of a, with a's type and strides.
    Raises:
        ValueError: the shapes do not fit, a type is not supported, or the quantised type of a needs importance
            weights.
        MemoryError: the context is full.
    """
def ggml_add_rel_pos(ctx: _Address, a: _To[ggml_tensor], pw: _To[ggml_tensor], ph: _To[ggml_tensor]) -> ggml_tensor_p:
    """Adds decomposed relative position scores to attention scores.

    result[y * k + x, i, n] = a[y * k + x, i, n] + pw[x, i, n] + ph[y, i, n], where x and y are column and row of
    the key and i = qw * y_q + x_q counts the queries of a window (SAM, arXiv:2304.02643). The gradient flows to a,
    pw and ph.

    Args:
        ctx: context that receives the result.
        a: contiguous f32 scores [k * k, qw * qh, n].
        pw: contiguous f32 scores by column of the key, [k, qw, qh, n].
        ph: contiguous f32 scores by row of the key, in the shape of pw.
    Returns:
        f32 tensor in the shape of a.
    Raises:
        ValueError: a shape does not fit, or a tensor is not f32 or not contiguous.
        MemoryError: the context is full.
    """
def ggml_add_rel_pos_inplace(ctx: _Address, a: _To[ggml_tensor], pw: _To[ggml_tensor], ph: _To[ggml_tensor]) -> ggml_tensor_p:
    """Adds decomposed relative position scores to the attention scores in a itself: a[y * k + x, i, n] += pw + ph.

    The terms are pw[x, i, n] and ph[y, i, n]; see ggml_add_rel_pos. The gradient flows to a, pw and ph.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous f32 scores [k * k, qw * qh, n]; they are modified.
        pw: contiguous f32 scores by column of the key, [k, qw, qh, n].
        ph: contiguous f32 scores by row of the key, in the shape of pw.
    Returns:
        View of all of a, after the addition.
    Raises:
        ValueError: a shape does not fit, or a tensor is not f32 or not contiguous.
        MemoryError: the context is full.
    """
def ggml_arange(ctx: _Address, start: _Float, stop: _Float, step: _Float) -> ggml_tensor_p:
    """Creates a sequence with constant steps: result[i] = start + i * step.

    The sequence ends before stop, which it does not contain. There is no gradient.

    Args:
        ctx: context that receives the result.
        start: first element.
        stop: end of the sequence.
        step: difference of neighbouring elements, not 0; negative where stop is less than start.
    Returns:
        f32 vector [ceil((stop - start) / step)].
    Raises:
        ValueError: step is 0, or it leads away from stop.
        MemoryError: the context is full.
    """
def ggml_are_same_shape(t0: _To[ggml_tensor], t1: _To[ggml_tensor]) -> bool:
    """Tells whether two tensors have equal sizes in all four dimensions.

    Args:
        t0: tensor of any shape and any type.
        t1: tensor of any shape and any type.
    Returns:
        True if the shapes are equal; types and strides are not compared.
    Raises:
        TypeError: t0 or t1 is not a tensor pointer.
        ValueError: t0 or t1 is a NULL pointer or has an invalid field.
        RuntimeError: t0 or t1 does not belong to a live context.
    """
def ggml_are_same_stride(t0: _To[ggml_tensor], t1: _To[ggml_tensor]) -> bool:
    """Tells whether two tensors have equal strides nb in all four dimensions.

    Args:
        t0: tensor of any shape and any type.
        t1: tensor of any shape and any type.
    Returns:
        True if the strides in bytes are equal; types and sizes are not compared.
    Raises:
        TypeError: t0 or t1 is not a tensor pointer.
        ValueError: t0 or t1 is a NULL pointer or has an invalid field.
        RuntimeError: t0 or t1 does not belong to a live context.
    """
def ggml_argmax(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Finds the index of the largest element of each row of a matrix.

    Of equal elements the last one counts, unlike in NumPy. NaN is skipped; a row that is NaN throughout gives 0. There
    is no gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1].
    Returns:
        i32 tensor [ne1], with indices from 0 to ne0 - 1.
    Raises:
        ValueError: a has more than two dimensions, rows too long for an i32 index, or a type other than f32, f16,
            bf16.
        MemoryError: the context is full.
    """
def ggml_argsort(ctx: _Address, a: _To[ggml_tensor], order: _Int) -> ggml_tensor_p:
    """Computes the indices that sort each row.

    The sort is stable in both directions, and NaN comes last. There is no gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        order: GGML_SORT_ORDER_ASC or GGML_SORT_ORDER_DESC.
    Returns:
        i32 tensor of a's shape.
    Raises:
        TypeError: order is not an integer.
        ValueError: order is unknown, a is not f32, f16 or bf16, or its rows are too long for an i32 index.
        MemoryError: the context is full.
    """
def ggml_argsort_top_k(ctx: _Address, a: _To[ggml_tensor], k: _Int) -> ggml_tensor_p:
    """Gives the indices of the k largest elements of each row as a view of a complete sort.

    The indices are in descending order of their elements, equal elements in order of their index, NaN last. The call
    adds two nodes: ggml_argsort and a view of it. There is no gradient.

    Args:
        ctx: context that receives both nodes.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        k: number of indices for each row, 0 to ne0.
    Returns:
        i32 tensor [k, ne1, ne2, ne3], not contiguous for k < ne0 and several rows.
    Raises:
        TypeError: k is not an integer.
        ValueError: k is out of range, a is not f32, f16 or bf16, or its rows are too long for an i32 index.
        MemoryError: the context is full.
    See also:
        ggml_top_k, which need not sort whole rows.
    """
def ggml_backend_alloc_buffer(backend: _Address, size: _Int) -> ggml_backend_buffer_t | None:
    """Allocates a buffer of a backend's default type.

    Args:
        backend: handle of a backend.
        size: bytes, 0 or more.
    Returns:
        Handle of the new buffer (int), or None if the memory is not available.
    Raises:
        TypeError: backend is not a backend, or size is not an integer.
        ValueError: size is negative.
        RuntimeError: backend was freed, or never was a handle.
    """
def ggml_backend_alloc_ctx_tensors(ctx: _Address, backend: _Address) -> ggml_backend_buffer_t | None:
    """Allocates all tensors of a context in the memory of a backend.

    The buffer has the default buffer type of the backend. Tensors that have data already keep it.

    Args:
        ctx: context for which no_alloc is set.
        backend: handle of the backend.
    Returns:
        Handle of the buffer (int), to be freed with ggml_backend_buffer_free; None if there was nothing to allocate
        or the memory cannot be allocated.
    Raises:
        TypeError: ctx is not a context handle, or backend is None or a handle of another kind.
        ValueError: no_alloc is not set for ctx, or one of its tensors has an invalid field.
        RuntimeError: ctx or backend is not live.
    """
def ggml_backend_alloc_ctx_tensors_from_buft(ctx: _Address, buft: _Address) -> ggml_backend_buffer_t | None:
    """Allocates a buffer of a given type for all tensors of a context that have no data yet.

    Views are connected to the data of their sources. If the type limits the size of a buffer, several are allocated
    and combined into one handle. The values are undefined.

    Args:
        ctx: context for which no_alloc is set.
        buft: handle of the buffer type.
    Returns:
        Handle of the buffer (int), to be freed with ggml_backend_buffer_free; None if there was nothing to allocate
        or the memory cannot be allocated.
    Raises:
        TypeError: ctx is not a context handle, or buft is None or a handle of another kind.
        ValueError: no_alloc is not set for ctx, or one of its tensors has an invalid field.
        RuntimeError: ctx or buft is not live.
    """
def ggml_backend_alloc_ctx_tensors_from_buft_size(ctx: _Address, buft: _Address) -> int:
    """Computes the memory that all tensors of a context would take in buffers of a type.

    Nothing is allocated. Views and tensors that have data already do not count.

    Args:
        ctx: context.
        buft: handle of the buffer type.
    Returns:
        Size in bytes (int), alignment included.
    Raises:
        TypeError: ctx is not a context handle, or buft is None or a handle of another kind.
        ValueError: a tensor of the context has an invalid field.
        RuntimeError: ctx or buft is not live.
    """
def ggml_backend_blas_init() -> ggml_backend_t | None:
    """Would create a backend that multiplies matrices (BLAS backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the BLAS backend.
    """
def ggml_backend_blas_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (BLAS backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the BLAS backend.
    """
def ggml_backend_blas_set_n_threads(backend_blas: _Address, n_threads: _Int) -> None:
    """Would set the number of threads of the BLAS library (BLAS backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend_blas: handle of a backend of ggml_backend_blas_init.
        n_threads: number of threads, 1 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the BLAS backend.
    """
def ggml_backend_buffer_clear(buffer: _Address, value: _Int) -> None:
    """Fills all bytes of a buffer with one value.

    Args:
        buffer: handle of a buffer; a combined buffer passes the value on to its parts.
        value: 32-bit integer, of which the low 8 bits are used.
    Returns:
        None.
    Raises:
        TypeError: buffer is not a buffer, or value is not an integer.
        ValueError: value needs more than 32 bits.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buffer_copy_tensor(src: _To[ggml_tensor], dst: _To[ggml_tensor]) -> bool:
    """Copies a tensor to one of the same layout if the destination's buffer can do so directly.

    ggml_backend_tensor_copy tries this first and copies via host memory otherwise.

    Args:
        src: any tensor, any shape, with data.
        dst: tensor with data that has src's type, shape [ne0, ne1, ne2, ne3] and strides.
    Returns:
        True if the data was copied; False if not, for example if dst's data lies in a context instead of a buffer.
    Raises:
        TypeError: src or dst is not a tensor.
        ValueError: the types, shapes or strides differ, or a tensor has no data.
        RuntimeError: a tensor, or the memory that it lies in, was freed.
    """
def ggml_backend_buffer_free(buffer: _Address) -> None:
    """Frees a buffer.

    Tensors in it become unusable: functions that need their data raise RuntimeError. CPU memory stays alive until
    the last NumPy or DLPack view of it is released.

    Args:
        buffer: handle of a buffer; None is ignored.
    Returns:
        None.
    Raises:
        TypeError: buffer is 0 or not a buffer.
        RuntimeError: buffer was freed already, or never was a handle.
    """
def ggml_backend_buffer_get_alignment(buffer: _Address) -> int:
    """Returns the alignment of tensors in a buffer, which is that of its type.

    Args:
        buffer: handle of a buffer.
    Returns:
        Bytes, a power of two; 32 for memory of the CPU.
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buffer_get_alloc_size(buffer: _Address, tensor: _To[ggml_tensor]) -> int:
    """Returns the bytes that a tensor needs in a given buffer, as ggml_backend_buft_get_alloc_size of its type.

    Args:
        buffer: handle of a buffer.
        tensor: any tensor, any shape, in the buffer or elsewhere.
    Returns:
        Bytes, at least ggml_nbytes(tensor).
    Raises:
        TypeError: buffer is not a buffer, or tensor is not a tensor.
        RuntimeError: the buffer or the tensor was freed.
    """
def ggml_backend_buffer_get_base(buffer: _Address) -> int | None:
    """Returns the address at which the memory of a buffer starts.

    The CPU may access that address only if ggml_backend_buffer_is_host(buffer) is True. For other buffers, the
    address has a meaning for their device only.

    Args:
        buffer: handle of a buffer.
    Returns:
        Address as int, or None for a buffer of 0 bytes and for one that combines several.
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buffer_get_max_size(buffer: _Address) -> int:
    """Returns the size limit of the type that a buffer belongs to.

    Args:
        buffer: handle of a buffer.
    Returns:
        Bytes of the largest buffer of that type; 2**64 - 1 if there is no limit.
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buffer_get_size(buffer: _Address) -> int:
    """Returns the size of a buffer.

    Args:
        buffer: handle of a buffer.
    Returns:
        Bytes, as requested when it was allocated; for a combined buffer, the sum of its parts.
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buffer_get_type(buffer: _Address) -> ggml_backend_buffer_type_t | None:
    """Returns the type that a buffer was allocated from.

    Args:
        buffer: handle of a buffer.
    Returns:
        Handle of the buffer type.
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buffer_get_usage(buffer: _Address) -> int:
    """Returns the purpose with which a buffer is labelled.

    Args:
        buffer: handle of a buffer.
    Returns:
        GGML_BACKEND_BUFFER_USAGE_ANY (0), _WEIGHTS (1) or _COMPUTE (2, set by the allocators of graphs).
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buffer_init(buft: _Address, iface: ggml_backend_buffer_i, context: _Address, size: _Int) -> ggml_backend_buffer_t | None:
    """Creates a buffer whose behaviour is given by a table of callbacks.

    The alloc_buffer callback of a buffer type that is written in Python returns such a buffer. Each callback
    receives the handle, which is the address of a ggml_backend_buffer struct that holds context. This call runs
    get_base.

    Args:
        buft: handle of the buffer type that the buffer belongs to.
        iface: ggml_backend_buffer_i, or a pointer to one. get_base, set_tensor, get_tensor and clear must be set.
        context: value for the callbacks: None, an int or an address; of other objects, the address is taken.
        size: bytes, 0 or more.
    Returns:
        Handle of the buffer (int).
    Raises:
        TypeError: iface is not a ggml_backend_buffer_i, or another argument is of the wrong kind.
        ValueError: size is negative, a required callback is NULL, a callback is not a function, or get_base returned
            NULL or, for a host type, an address where size bytes cannot be read.
        RuntimeError: buft is not a live handle.
    """
def ggml_backend_buffer_init_tensor(buffer: _Address, tensor: _To[ggml_tensor]) -> int:
    """Tells a buffer that a tensor has been placed in it.

    ggml_backend_tensor_alloc and the allocators do this themselves. CPU buffers ignore it, a buffer of a meta
    device splits the tensor again, and a buffer that is written in Python runs its init_tensor callback.

    Args:
        buffer: handle of a buffer.
        tensor: any tensor, any shape, whose buffer and data fields are set already.
    Returns:
        GGML_STATUS_SUCCESS (0).
    Raises:
        TypeError: buffer is not a buffer, or tensor is not a tensor.
        ValueError: the get_split_state function of a meta device returned a split that does not fit.
        RuntimeError: the buffer or the tensor was freed.
    """
def ggml_backend_buffer_is_host(buffer: _Address) -> bool:
    """Tells whether the CPU can read and write a buffer directly.

    Args:
        buffer: handle of a buffer.
    Returns:
        True or False, as ggml_backend_buft_is_host of its type.
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buffer_is_openvino(buffer: _Address) -> bool:
    """Would tell whether a buffer is of this kind (OpenVINO backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        buffer: handle of a buffer.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenVINO backend.
    """
def ggml_backend_buffer_name(buffer: _Address) -> bytes:
    """Returns the name of a buffer, which is the name of its type unless a callback says otherwise.

    Args:
        buffer: handle of a buffer.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buffer_reset(buffer: _Address) -> None:
    """Makes a buffer discard what it stored about the tensors that were placed in it.

    CPU buffers store nothing about tensors and keep their contents. A buffer of a meta device frees the parts of
    its tensors, and a buffer that is written in Python runs its reset callback, if it has one.

    Args:
        buffer: handle of a buffer; a combined buffer resets its parts.
    Returns:
        None.
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buffer_set_usage(buffer: _Address, usage: _Int) -> None:
    """Labels a buffer with its purpose, for the scheduler.

    The scheduler prefers to compute a node on a backend that can read the node's weights, which are the operands in
    buffers labelled WEIGHTS.

    Args:
        buffer: handle of a buffer; for a combined buffer, the parts are labelled too.
        usage: GGML_BACKEND_BUFFER_USAGE_ANY (0, the default), _WEIGHTS (1) or _COMPUTE (2).
    Returns:
        None.
    Raises:
        TypeError: buffer is not a buffer, or usage is not an integer.
        ValueError: usage is another number.
        RuntimeError: buffer was freed, or never was a handle.
    """
def ggml_backend_buft_alloc_buffer(buft: _Address, size: _Int) -> ggml_backend_buffer_t | None:
    """Allocates a buffer from a buffer type.

    Memory of the CPU starts out as zeros. Free the buffer with ggml_backend_buffer_free.

    Args:
        buft: handle of a buffer type.
        size: bytes, 0 or more.
    Returns:
        Handle of the new buffer (int), or None if the memory is not available.
    Raises:
        TypeError: buft is not a buffer type, or size is not an integer.
        ValueError: size is negative.
        RuntimeError: buft is not a live handle.
    """
def ggml_backend_buft_get_alignment(buft: _Address) -> int:
    """Returns the alignment of tensors in buffers of a type.

    Args:
        buft: handle of a buffer type.
    Returns:
        Bytes, a power of two; 32 for memory of the CPU.
    Raises:
        TypeError: buft is None or not a buffer type.
        RuntimeError: buft is a number that is not a live handle.
        ValueError: the get_alignment callback of a type that is written in Python returned no power of two.
    """
def ggml_backend_buft_get_alloc_size(buft: _Address, tensor: _To[ggml_tensor]) -> int:
    """Returns the bytes that a tensor needs in buffers of a type.

    This is ggml_nbytes(tensor), unless the type is written in Python and its get_alloc_size returns more.

    Args:
        buft: handle of a buffer type.
        tensor: any tensor, any shape, with or without data.
    Returns:
        Bytes, without padding for the alignment.
    Raises:
        TypeError: buft is not a buffer type, or tensor is not a tensor.
        ValueError: the get_alloc_size callback returned less than ggml_nbytes(tensor).
        RuntimeError: buft is not a live handle, or the tensor was freed.
    """
def ggml_backend_buft_get_device(buft: _Address) -> ggml_backend_dev_t | None:
    """Returns the device that a buffer type belongs to.

    Args:
        buft: handle of a buffer type.
    Returns:
        Handle of the device, or None if it is unknown. The device of a type that is written in Python becomes known
        when the device returns the type.
    Raises:
        TypeError: buft is None or not a buffer type.
        RuntimeError: buft is a number that is not a live handle.
    """
def ggml_backend_buft_get_max_size(buft: _Address) -> int:
    """Returns the size of the largest buffer that a buffer type can allocate.

    Args:
        buft: handle of a buffer type.
    Returns:
        Bytes; 2**64 - 1 if the type has no limit, which is the case for the CPU.
    Raises:
        TypeError: buft is None or not a buffer type.
        RuntimeError: buft is a number that is not a live handle.
    """
def ggml_backend_buft_is_host(buft: _Address) -> bool:
    """Tells whether the CPU can read and write buffers of a type directly.

    Args:
        buft: handle of a buffer type.
    Returns:
        True if tensors in such buffers have addresses of ordinary memory, False if their data must be copied.
    Raises:
        TypeError: buft is None or not a buffer type.
        RuntimeError: buft is a number that is not a live handle.
    """
def ggml_backend_buft_is_openvino(buft: _Address) -> bool:
    """Would tell whether a buffer type is that of a device (OpenVINO backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        buft: handle of a buffer type.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenVINO backend.
    """
def ggml_backend_buft_is_openvino_host(buft: _Address) -> bool:
    """Would tell whether a buffer type is that of the host memory (OpenVINO backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        buft: handle of a buffer type.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenVINO backend.
    """
def ggml_backend_buft_name(buft: _Address) -> bytes:
    """Returns the name of a buffer type.

    A buffer type stands for a kind of memory. Buffers are allocated from it, and tensors are placed in buffers.

    Args:
        buft: handle of a buffer type, or the ggml_backend_buffer_type of one that is written in Python.
    Returns:
        Name as bytes, for example b"CPU" or b"CPU_Mapped".
    Raises:
        TypeError: buft is None or not a buffer type.
        RuntimeError: buft is a number that is not a live handle.
    """
def ggml_backend_cann_buffer_type(device: _Int) -> ggml_backend_buffer_type_t | None:
    """Would return the buffer type of a device (CANN backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CANN backend.
    """
def ggml_backend_cann_get_device_count() -> int:
    """Would return the number of devices (CANN backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CANN backend.
    """
def ggml_backend_cann_get_device_description(device: _Int, description: _Text, description_size: _Int) -> None:
    """Would write the name of a device (CANN backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
        description: text buffer that would receive the name.
        description_size: bytes of that buffer.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CANN backend.
    """
def ggml_backend_cann_get_device_memory(device: _Int, free: _Pointer, total: _Pointer) -> None:
    """Would write the free and the total memory of a device (CANN backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
        free: pointer to a size_t that would receive the free bytes.
        total: pointer to a size_t that would receive the bytes in total.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CANN backend.
    """
def ggml_backend_cann_host_buffer_type() -> ggml_backend_buffer_type_t | None:
    """Would return the type of host memory that devices copy from fastest (CANN backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CANN backend.
    """
def ggml_backend_cann_init(device: _Int) -> ggml_backend_t | None:
    """Would create a backend on a device (CANN backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CANN backend.
    """
def ggml_backend_cann_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (CANN backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CANN backend.
    """
def ggml_backend_compare_graph_backend(backend1: _Address, backend2: _Address, graph: _To[ggml_cgraph], callback: ggml_backend_eval_callback | Callable[..., Any] | int | None, user_data: _Address, test_nodes: _Pointer = ..., num_test_nodes: _Int = ...) -> bool:
    """Computes a graph on two backends and shows a callback the results of both.

    The graph is copied for backend2 first. Without test_nodes, the nodes are computed one after the other, and the
    callback sees each before the next is computed; with test_nodes, both graphs are computed as a whole first.

    Args:
        backend1: handle of a backend that can use the graph's memory.
        backend2: handle of the backend to compare with.
        graph: the graph (ggml_cgraph pointer), allocated.
        callback: callback(index, a, b, user_data) -> bool, with the node's index and its tensors on backend1 and
            backend2: a Python callable, a ggml_backend_eval_callback or the address of a C function. False ends the
            comparison.
        user_data: value for the callback: None, an int or an address; of other objects, the address is taken.
        test_nodes: array of num_test_nodes nodes of the graph to show; None (the default) shows all except
            reshape, view, permute and transpose nodes.
        num_test_nodes: number of entries in test_nodes; 0 (the default) means that there is no such array.
    Returns:
        True, also if the callback ended the comparison.
    Raises:
        TypeError: callback is None, no function or one of another signature, or another argument is of the wrong
            kind.
        ValueError: a node does not fit its operands, a tensor has no data, num_test_nodes is negative, or test_nodes
            has fewer entries.
        RuntimeError: something was freed, a backend failed, or the callback changed the graph.
        MemoryError: there is no memory for the copy of the graph.
    """
def ggml_backend_cpu_buffer_from_ptr(ptr: _Address, size: _Int) -> ggml_backend_buffer_t | None:
    """Wraps memory of the caller in a CPU buffer, without copying it.

    The buffer keeps the object ptr alive and does not free the memory. Its type is the one named b"CPU_Mapped".

    Args:
        ptr: the memory: an address, bytes, ctypes or NumPy memory, or any contiguous object with a buffer.
        size: bytes of it to use, 0 or more.
    Returns:
        Handle of the buffer (int).
    Raises:
        TypeError: ptr is None or NULL, or is not memory.
        ValueError: size is negative, or ptr is smaller than size or not readable for size bytes.
    """
def ggml_backend_cpu_buffer_type() -> ggml_backend_buffer_type_t | None:
    """Returns the buffer type of ordinary CPU memory.

    Returns:
        Handle of the type named b"CPU", the same at every call.
    """
def ggml_backend_cpu_hbm_buffer_type() -> ggml_backend_buffer_type_t | None:
    """Returns the buffer type of high-bandwidth memory, which this build does not support.

    Returns:
        None, always.
    """
def ggml_backend_cpu_init() -> ggml_backend_t | None:
    """Creates a CPU backend that uses all threads the CPU offers.

    Returns:
        Handle of the backend (int). Free it with ggml_backend_free.
    See also:
        ggml_backend_cpu_set_n_threads.
    """
def ggml_backend_cpu_reg() -> ggml_backend_reg_t | None:
    """Returns the registry that holds the CPU device.

    Returns:
        Handle of the registry named b"CPU", the same at every call.
    """
def ggml_backend_cpu_set_abort_callback(backend_cpu: _Address, abort_callback: ggml_abort_callback | Callable[..., Any] | int | None, abort_callback_data: _Address) -> None:
    """Sets a function that can stop the computations of a CPU backend.

    One thread calls it before each node of a graph. An exception that it raises stops the computation too and is
    raised by the compute call. The backend keeps the callback alive.

    Args:
        backend_cpu: handle of a CPU backend.
        abort_callback: callback(data) -> bool: a Python callable, a ggml_abort_callback or the address of a C
            function. True stops with GGML_STATUS_ABORTED. None removes the callback.
        abort_callback_data: value for data, an address or None; the callback receives it as int or None.
    Returns:
        None.
    Raises:
        TypeError: backend_cpu is not a backend, or abort_callback is not a function of this signature.
        ValueError: backend_cpu is another kind of backend, or there is no function at the address.
        RuntimeError: backend_cpu was freed, or never was a handle.
    """
def ggml_backend_cpu_set_n_threads(backend_cpu: _Address, n_threads: _Int) -> None:
    """Sets the number of threads that a CPU backend computes with.

    Args:
        backend_cpu: handle of a CPU backend.
        n_threads: 1 to 512, or a negative number for as many as the CPU offers. No more than that are started.
    Returns:
        None.
    Raises:
        TypeError: backend_cpu is not a backend, or n_threads is not an integer.
        ValueError: backend_cpu is another kind of backend, or n_threads is 0 or above 512.
        RuntimeError: backend_cpu was freed, or never was a handle.
    """
def ggml_backend_cpu_set_threadpool(backend_cpu: _Address, threadpool: _Address) -> None:
    """Makes a CPU backend use the number of threads of a thread pool.

    The threads themselves belong to OpenMP: the pool's other parameters have no effect.

    Args:
        backend_cpu: handle of a CPU backend.
        threadpool: handle from ggml_threadpool_new, or None, which leaves the number of threads as it is.
    Returns:
        None.
    Raises:
        TypeError: backend_cpu is not a backend.
        ValueError: backend_cpu is another kind of backend.
        RuntimeError: the backend or the thread pool was freed, or never was a handle.
    """
def ggml_backend_cpu_set_use_ref(backend_cpu: _Address, use_ref: _Bool) -> None:
    """Chooses between the plain C kernels and the fastest kernels for a CPU backend.

    The plain kernels are the reference to compare others with; they are slower.

    Args:
        backend_cpu: handle of a CPU backend.
        use_ref: True for the plain C kernels, False (as after ggml_backend_cpu_init) for those of the best
            instruction set.
    Returns:
        None.
    Raises:
        TypeError: backend_cpu is not a backend, or use_ref has no truth value.
        ValueError: backend_cpu is another kind of backend.
        RuntimeError: backend_cpu was freed, or never was a handle.
    """
def ggml_backend_cuda_allreduce_tensor(backends: _Pointer, tensors: _Pointer, n_backends: _Int) -> bool:
    """Would replace each tensor by the sum of all of them (CUDA backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backends: array of n_backends backend handles, one for each device.
        tensors: array of tensor pointers, one for each backend.
        n_backends: number of backends.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_buffer_type(device: _Int) -> ggml_backend_buffer_type_t | None:
    """Would return the buffer type of a device (CUDA backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_get_device_count() -> int:
    """Would return the number of devices (CUDA backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_get_device_description(device: _Int, description: _Text, description_size: _Int) -> None:
    """Would write the name of a device (CUDA backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
        description: text buffer that would receive the name.
        description_size: bytes of that buffer.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_get_device_memory(device: _Int, free: _Pointer, total: _Pointer) -> None:
    """Would write the free and the total memory of a device (CUDA backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
        free: pointer to a size_t that would receive the free bytes.
        total: pointer to a size_t that would receive the bytes in total.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_host_buffer_type() -> ggml_backend_buffer_type_t | None:
    """Would return the type of host memory that devices copy from fastest (CUDA backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_init(device: _Int) -> ggml_backend_t | None:
    """Would create a backend on a device (CUDA backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_log_set_callback(log_callback: ggml_log_callback | Callable[..., Any] | int | None, user_data: _Address) -> None:
    """Would set the function that receives log messages (CUDA backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        log_callback: callback(level, text, user_data) (ggml_log_callback).
        user_data: value that the callback would receive.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (CUDA backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_register_host_buffer(buffer: _Address, size: _Int) -> bool:
    """Would pin host memory, so that devices copy it faster (CUDA backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        buffer: address of the host memory.
        size: bytes of that memory.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_split_buffer_type(main_device: _Int, tensor_split: _Pointer) -> ggml_backend_buffer_type_t | None:
    """Would return the type whose buffers split matrices by rows (CUDA backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        main_device: index of the device that holds what is not split.
        tensor_split: array of float, the share of each device; None for shares by memory.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_cuda_unregister_host_buffer(buffer: _Address) -> None:
    """Would unpin host memory (CUDA backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        buffer: address of the host memory.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_dev_backend_reg(device: _Address) -> ggml_backend_reg_t | None:
    """Returns the registry that a device belongs to.

    Args:
        device: handle of a device.
    Returns:
        Handle of the registry, or None for a device without one, such as a meta device.
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
def ggml_backend_dev_buffer_from_host_ptr(device: _Address, ptr: _Address, size: _Int, max_tensor_size: _Int) -> ggml_backend_buffer_t | None:
    """Wraps memory of the caller in a buffer that a device can use, without copying it.

    For the CPU device this is ggml_backend_cpu_buffer_from_ptr: the buffer keeps the object ptr alive.

    Args:
        device: handle of a device.
        ptr: the memory: an address, bytes, ctypes or NumPy memory, or any contiguous object with a buffer.
        size: bytes of it to use, 0 or more.
        max_tensor_size: bytes of the largest tensor that will be placed there; only devices that are written in
            Python receive it.
    Returns:
        Handle of the buffer (int), or None if the device cannot use the caller's memory, such as a meta device.
    Raises:
        TypeError: device is not a device, or ptr is None or not memory.
        ValueError: a size is negative, or ptr is smaller than size or not readable for size bytes.
        RuntimeError: device is a number that is not a live handle.
    """
def ggml_backend_dev_buffer_type(device: _Address) -> ggml_backend_buffer_type_t | None:
    """Returns the buffer type that a device uses by default.

    Args:
        device: handle of a device.
    Returns:
        Handle of the buffer type.
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
def ggml_backend_dev_by_name(name: _Text) -> ggml_backend_dev_t | None:
    """Finds a device by its name.

    Args:
        name: bytes or str; upper and lower case are the same.
    Returns:
        Handle of the first device with that name, or None if there is none.
    Raises:
        TypeError: name is None or not text.
    """
def ggml_backend_dev_by_type(type: _Int) -> ggml_backend_dev_t | None:
    """Finds a device by its kind.

    Args:
        type: GGML_BACKEND_DEVICE_TYPE_CPU (0), _GPU (1), _IGPU (2), _ACCEL (3) or _META (4).
    Returns:
        Handle of the first device of that kind, or None if there is none or the number is unknown.
    Raises:
        TypeError: type is not an integer.
        ValueError: type needs more than 32 bits.
    """
def ggml_backend_dev_count() -> int:
    """Returns the number of devices that programs can search.

    Returns:
        1 for the CPU, plus those of ggml_backend_register and ggml_backend_device_register.
    """
def ggml_backend_dev_description(device: _Address) -> bytes:
    """Returns the description of a device, for people to read.

    Args:
        device: handle of a device.
    Returns:
        Text as bytes; for the CPU, the processor's model as the operating system names it.
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
def ggml_backend_dev_get(index: _Int) -> ggml_backend_dev_t | None:
    """Returns a device by its index in the list of all devices.

    Args:
        index: 0 to ggml_backend_dev_count() - 1; 0 is the CPU.
    Returns:
        Handle of the device.
    Raises:
        TypeError: index is not an integer.
        ValueError: index is negative.
        IndexError: index is too large.
    """
def ggml_backend_dev_get_props(device: _Address, props: _To[ggml_backend_dev_props]) -> None:
    """Fills in a struct with the properties of a device.

    The fields are name, description, device_id (None for the CPU), memory_free and memory_total in bytes, type, and
    caps, which tells whether the device works asynchronously, has a buffer type for the host, can use the caller's
    memory, and has events.

    Args:
        device: handle of a device.
        props: ggml_backend_dev_props, byref of one, a pointer or its address. Its texts stay valid.
    Returns:
        None.
    Raises:
        TypeError: device is not a device, or props is not such a struct.
        RuntimeError: device is a number that is not a live handle.
    """
def ggml_backend_dev_host_buffer_type(device: _Address) -> ggml_backend_buffer_type_t | None:
    """Returns the type of host memory from which a device copies fastest.

    Args:
        device: handle of a device.
    Returns:
        Handle of the buffer type, or None if the device has none, which is the case for the CPU.
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
def ggml_backend_dev_init(device: _Address, params: _Text) -> ggml_backend_t | None:
    """Creates a backend that computes on a device.

    Args:
        device: handle of a device.
        params: text for the device, bytes, str or None. The CPU ignores it; a meta device passes it to its members.
    Returns:
        Handle of the backend (int), or None if the device could not make one. Free it with ggml_backend_free.
    Raises:
        TypeError: device is not a device, or params is not text.
        RuntimeError: device is a number that is not a live handle.
    """
def ggml_backend_dev_memory(device: _Address, free: _Pointer, total: _Pointer) -> None:
    """Writes the free and the total memory of a device to two variables.

    Args:
        device: handle of a device.
        free: byref(c_size_t()), a pointer to size_t or an address; receives the bytes that are free.
        total: the same; receives the bytes in total. For the CPU, this is the machine's physical memory.
    Returns:
        None.
    Raises:
        TypeError: device is not a device, or free or total is None or not a pointer.
        ValueError: free or total is smaller than a size_t, or an address that cannot be read.
        RuntimeError: device is a number that is not a live handle.
    """
def ggml_backend_dev_name(device: _Address) -> bytes:
    """Returns the name of a device.

    Args:
        device: handle of a device, or the ggml_backend_device of one that is written in Python.
    Returns:
        Name as bytes: b"CPU", or b"Meta(" with the names of the members for a meta device.
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
def ggml_backend_dev_offload_op(device: _Address, op: _To[ggml_tensor]) -> bool:
    """Tells whether a device should compute a node although the node's weights lie in host memory.

    Args:
        device: handle of a device.
        op: the node: any tensor, any shape.
    Returns:
        True or False; False for the CPU and for meta devices.
    Raises:
        TypeError: device is not a device, or op is not a tensor.
        RuntimeError: device is not a live handle, or the node was freed.
    """
def ggml_backend_dev_supports_buft(device: _Address, buft: _Address) -> bool:
    """Tells whether a device can compute with tensors in buffers of a type.

    The CPU supports its own types and every type that is host memory, and a meta device only its own type.

    Args:
        device: handle of a device.
        buft: handle of a buffer type.
    Returns:
        True or False.
    Raises:
        TypeError: device is not a device, or buft is not a buffer type.
        RuntimeError: one of the handles is not live.
    """
def ggml_backend_dev_supports_op(device: _Address, op: _To[ggml_tensor]) -> bool:
    """Tells whether a device can compute a node.

    The CPU checks the operation, types, shapes and parameters; data need not be allocated. A meta device supports
    what the CPU supports.

    Args:
        device: handle of a device.
        op: the node: any tensor, any shape.
    Returns:
        True or False.
    Raises:
        TypeError: device is not a device, or op is not a tensor.
        RuntimeError: device is not a live handle, or the node was freed.
    """
def ggml_backend_dev_type(device: _Address) -> int:
    """Returns the kind of a device.

    Args:
        device: handle of a device.
    Returns:
        GGML_BACKEND_DEVICE_TYPE_CPU (0), _GPU (1), _IGPU (2), _ACCEL (3) or _META (4).
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
def ggml_backend_device_register(device: _Address) -> None:
    """Adds one device to the list that programs search, without a registry.

    Args:
        device: the device: a ggml_backend_device struct that the caller fills in and keeps alive (the struct, a
            pointer to it or its address), or a handle.
    Returns:
        None.
    Raises:
        TypeError: device is None, NULL or not a device.
        ValueError: there is no struct at the address, or a required callback is NULL or not a function.
    """
def ggml_backend_event_free(event: _Address) -> None:
    """Frees an event.

    Args:
        event: handle of an event; None is ignored.
    Returns:
        None.
    Raises:
        TypeError: event is 0 or not an event.
        RuntimeError: event was freed already, or never was a handle.
    """
def ggml_backend_event_new(device: _Address) -> ggml_backend_event_t | None:
    """Creates an event: a mark in the sequence of a backend's work that others can wait for.

    Args:
        device: handle of a device, or of a backend as in older releases; None for no event.
    Returns:
        Handle of the event (int); None if device is None or supports no events.
    Raises:
        TypeError: device is 0, or neither a device nor a backend.
        RuntimeError: device is not a live handle.
    """
def ggml_backend_event_record(event: _Address, backend: _Address = ...) -> None:
    """Places an event after all work that a backend has started so far.

    Args:
        event: handle of an event.
        backend: handle of the backend whose work counts; None (the default) is the backend that made the event.
    Returns:
        None.
    Raises:
        TypeError: event is not an event, or backend is not a backend.
        RuntimeError: the event or the backend was freed.
    """
def ggml_backend_event_synchronize(event: _Address) -> None:
    """Blocks the caller until the work before an event's mark is complete.

    Work of the CPU is always complete.

    Args:
        event: handle of an event, recorded before.
    Returns:
        None.
    Raises:
        TypeError: event is None or not an event.
        RuntimeError: event was freed, or never was a handle.
    """
def ggml_backend_event_wait(backend: _Address, event: _Address) -> None:
    """Makes the later work of a backend wait for an event of another backend, without blocking the caller.

    If a backend that is written in Python has no event_wait callback, the call waits itself.

    Args:
        backend: handle of the backend that waits.
        event: handle of an event, recorded before.
    Returns:
        None.
    Raises:
        TypeError: backend is not a backend, or event is not an event.
        RuntimeError: the backend or the event was freed.
    """
def ggml_backend_free(backend: _Address) -> None:
    """Frees a backend; buffers that were allocated with it stay.

    A meta backend frees the backends of its members, and a backend that is written in Python runs its free
    callback, if it has one.

    Args:
        backend: handle of a backend; None is ignored.
    Returns:
        None.
    Raises:
        TypeError: backend is 0 or not a backend.
        RuntimeError: backend was freed already, or never was a handle.
    """
def ggml_backend_get_alignment(backend: _Address) -> int:
    """Returns the alignment of tensors in a backend's default buffers.

    Args:
        backend: handle of a backend.
    Returns:
        Bytes, a power of two; 32 for the CPU.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
def ggml_backend_get_default_buffer_type(backend: _Address) -> ggml_backend_buffer_type_t | None:
    """Returns the buffer type that a backend uses by default.

    Args:
        backend: handle of a backend.
    Returns:
        Handle of the buffer type; for the CPU, that of ggml_backend_cpu_buffer_type.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
def ggml_backend_get_device(backend: _Address) -> ggml_backend_dev_t | None:
    """Returns the device that a backend runs on.

    Args:
        backend: handle of a backend.
    Returns:
        Handle of the device, or None for a backend that is written in Python and that no device made.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
def ggml_backend_get_max_size(backend: _Address) -> int:
    """Returns the size of the largest buffer of a backend's default type.

    Args:
        backend: handle of a backend.
    Returns:
        Bytes; 2**64 - 1 if the type has no limit, which is the case for the CPU.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
def ggml_backend_graph_compute(backend: _Address, cgraph: _To[ggml_cgraph]) -> int:
    """Computes all nodes of a graph on a backend and waits for the results.

    All tensors must lie in memory that the backend can use. The CPU releases the GIL, stops at the next node on
    Ctrl-C, and raises the exceptions of Python callbacks here.

    Args:
        backend: handle of a backend.
        cgraph: the graph (ggml_cgraph pointer), allocated.
    Returns:
        GGML_STATUS_SUCCESS (0); GGML_STATUS_ABORTED (1) if the abort callback of a CPU backend stopped it;
        GGML_STATUS_FAILED (-1) if the graph_compute callback of a backend that is written in Python returned 0.
    Raises:
        TypeError: backend is not a backend, or cgraph is not a graph.
        ValueError: a tensor has no data, or a node's type, shape or parameters do not fit its operands.
        RuntimeError: the backend or a tensor was freed, or an operation failed.
        MemoryError: there is no memory for intermediate values of operations.
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
def ggml_backend_graph_compute_async(backend: _Address, cgraph: _To[ggml_cgraph]) -> int:
    """Starts computing a graph on a backend; ggml_backend_synchronize waits for the end.

    The CPU completes the graph before it returns.

    Args:
        backend: handle of a backend.
        cgraph: the graph (ggml_cgraph pointer), allocated. Keep it and its tensors until the work is done.
    Returns:
        Status, as of ggml_backend_graph_compute; if the backend continues after the call, the status of the start.
    Raises:
        TypeError: backend is not a backend, or cgraph is not a graph.
        ValueError: a tensor has no data, or a node's type, shape or parameters do not fit its operands.
        RuntimeError: the backend or a tensor was freed, or an operation failed.
        MemoryError: there is no memory for intermediate values of operations.
    """
def ggml_backend_graph_copy_(backend: _Address, graph: _To[ggml_cgraph]) -> ggml_backend_graph_copy:
    """Copies a graph with all its tensors and their data into the memory of a backend.

    Calling the struct type ggml_backend_graph_copy(backend, graph) does the same. Tensors without data are copied
    without values. Exceptions name the function without the underscore.

    Args:
        backend: handle of the backend that the copy is for.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        ggml_backend_graph_copy with the fields graph, buffer, and two contexts that hold the tensors
        (ctx_allocated) and the views (ctx_unallocated). Free it with ggml_backend_graph_copy_free.
    Raises:
        TypeError: backend is not a backend, or graph is not a graph.
        ValueError: a tensor is a view of a view.
        RuntimeError: the backend, or a tensor or its memory, was freed.
        MemoryError: there is no memory for the copies.
    """
def ggml_backend_graph_copy_free(copy: ggml_backend_graph_copy | _To[ggml_backend_graph_copy]) -> None:
    """Frees the buffer and the contexts of a copied graph.

    All fields of the struct become None or NULL, so that a second call does nothing.

    Args:
        copy: ggml_backend_graph_copy, byref of one or a pointer to it.
    Returns:
        None.
    Raises:
        TypeError: copy is no such struct, or a field that the caller wrote is of the wrong kind.
        RuntimeError: the buffer or a context was freed already.
    """
def ggml_backend_graph_plan_compute(backend: _Address, plan: _Address) -> int:
    """Computes the graph of a plan.

    Args:
        backend: handle of the backend that made the plan.
        plan: handle of the plan.
    Returns:
        Status, with the same meaning as that of ggml_backend_graph_compute.
    Raises:
        TypeError: backend is not a backend, or plan is None or not a plan.
        ValueError: another backend made the plan, or a node does not fit its operands.
        RuntimeError: the backend, the plan or the graph was freed, or an operation failed.
    """
def ggml_backend_graph_plan_create(backend: _Address, cgraph: _To[ggml_cgraph]) -> ggml_backend_graph_plan_t | None:
    """Prepares a graph for repeated computation on a backend.

    The CPU's plan refers to the graph and does not copy it: nodes that are added later are computed too.

    Args:
        backend: handle of a backend.
        cgraph: the graph (ggml_cgraph pointer); it must live as long as the plan is used.
    Returns:
        Handle of the plan (int), for ggml_backend_graph_plan_compute. Free it with ggml_backend_graph_plan_free.
    Raises:
        TypeError: backend is not a backend, or cgraph is not a graph.
        RuntimeError: the backend or the graph was freed.
    """
def ggml_backend_graph_plan_free(backend: _Address, plan: _Address) -> None:
    """Frees a plan; its graph stays.

    Args:
        backend: handle of the backend that made the plan.
        plan: handle of the plan.
    Returns:
        None.
    Raises:
        TypeError: backend is not a backend, or plan is None or not a plan.
        ValueError: another backend made the plan.
        RuntimeError: the backend or the plan was freed already.
    """
def ggml_backend_guid(backend: _Address) -> Any:
    """Returns the 16 bytes that identify the kind of a backend.

    Args:
        backend: handle of a backend.
    Returns:
        Pointer to an array of 16 bytes (ggml_guid_t_ctypes), equal for all backends of a kind; a false pointer if a
        backend that is written in Python has none.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
def ggml_backend_hexagon_init() -> ggml_backend_t | None:
    """Would create a backend on the first device (Hexagon backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Hexagon backend.
    """
def ggml_backend_hexagon_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (Hexagon backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Hexagon backend.
    """
def ggml_backend_init_best() -> ggml_backend_t | None:
    """Creates a backend on the first GPU, else on the first integrated GPU, else on the CPU.

    Without devices that the program registered, this is the CPU.

    Returns:
        Handle of the backend (int), or None if the device could not make one. Free it with ggml_backend_free.
    """
def ggml_backend_init_by_name(name: _Text, params: _Text) -> ggml_backend_t | None:
    """Creates a backend on the device with a given name.

    Args:
        name: bytes or str, as for ggml_backend_dev_by_name.
        params: text for the device, bytes, str or None; the CPU ignores it.
    Returns:
        Handle of the backend (int), or None if there is no such device or it could not make one.
    Raises:
        TypeError: name is not text, or params is neither text nor None.
    """
def ggml_backend_init_by_type(type: _Int, params: _Text) -> ggml_backend_t | None:
    """Creates a backend on the first device of a kind.

    Args:
        type: GGML_BACKEND_DEVICE_TYPE_CPU (0), _GPU (1), _IGPU (2), _ACCEL (3) or _META (4).
        params: text for the device, bytes, str or None; the CPU ignores it.
    Returns:
        Handle of the backend (int), or None if there is no such device or it could not make one.
    Raises:
        TypeError: type is not an integer, or params is neither text nor None.
        ValueError: type needs more than 32 bits.
    """
def ggml_backend_is_blas(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (BLAS backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the BLAS backend.
    """
def ggml_backend_is_cann(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (CANN backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CANN backend.
    """
def ggml_backend_is_cpu(backend: _Address) -> bool:
    """Tells whether a backend computes on the CPU.

    Args:
        backend: handle of a backend, or None.
    Returns:
        True for backends of ggml_backend_cpu_init and of CPU devices; False for others and for None.
    Raises:
        TypeError: backend is 0 or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
def ggml_backend_is_cuda(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (CUDA backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CUDA backend.
    """
def ggml_backend_is_hexagon(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (Hexagon backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Hexagon backend.
    """
def ggml_backend_is_metal(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (Metal backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Metal backend.
    """
def ggml_backend_is_opencl(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (OpenCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenCL backend.
    """
def ggml_backend_is_openvino(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (OpenVINO backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenVINO backend.
    """
def ggml_backend_is_rpc(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (RPC backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the RPC backend.
    """
def ggml_backend_is_sycl(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (SYCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_is_vk(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (Vulkan backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_backend_is_zendnn(backend: _Address) -> bool:
    """Would tell whether a backend is of this kind (ZenDNN backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the ZenDNN backend.
    """
def ggml_backend_load(path: _Text) -> ggml_backend_reg_t | None:
    """Would load a backend from a shared library; this build loads none.

    Args:
        path: name of the library, bytes or str. The file is not opened.
    Returns:
        None, which means that nothing was loaded.
    Raises:
        TypeError: path is None or not text.
        ValueError: path contains a NUL.
    """
def ggml_backend_load_all() -> None:
    """Does nothing: the CPU backend is built in, and this build loads no others.

    Returns:
        None.
    """
def ggml_backend_load_all_from_path(dir_path: _Text) -> None:
    """Would load every backend library in a folder; this build loads none.

    Args:
        dir_path: name of the folder, bytes, str or None. It is not read.
    Returns:
        None.
    Raises:
        TypeError: dir_path is not text.
        ValueError: dir_path contains a NUL.
    """
def ggml_backend_meta_device(devs: _Pointer, n_devs: _Int, get_split_state: _Address, get_split_state_ud: _Address) -> ggml_backend_dev_t | None:
    """Combines several devices into one that splits its tensors over them.

    Every tensor that is placed in the meta device's buffers is stored as get_split_state says: in parts along an
    axis, whole on every device (MIRRORED), or whole on the first (PARTIAL, NONE, UNKNOWN). The devices compute
    matrix products whose first operand is split along axis 1, each with its own rows; the CPU computes all other
    nodes on gathered data.

    Args:
        devs: array of n_devs device handles: a list, a ctypes array, a pointer or an address.
        n_devs: number of devices, 1 to 16.
        get_split_state: callable (tensor, user_data) -> ggml_backend_meta_split_state, or the address of such a C
            function. Called when a tensor is placed. In its result, ne[segment * n_devs + device] is the number of
            elements along the axis, and nr[segment] repeats a segment. The numbers must add up to the tensor's size
            along the axis; along axis 0 they must be multiples of the type's block.
        get_split_state_ud: value for user_data: None, an int or an address; of other objects, the address is taken.
    Returns:
        Handle of the device (int), of kind GGML_BACKEND_DEVICE_TYPE_META. It is not listed among the devices.
        ggml_backend_dev_init makes a backend of it.
    Raises:
        TypeError: devs is None or not an array, an entry is not a device, or get_split_state is None or not a function.
        ValueError: n_devs is not 1 to 16, devs has fewer entries or cannot be read, or there is no function at the
            address. A split that does not fit its tensor raises this too, in the call that places the tensor.
        RuntimeError: an entry is not a live handle.
    """
def ggml_backend_meta_split_axis_name(split_axis: _Int) -> bytes:
    """Returns the name of a split axis, the way in which a meta device divides a tensor.

    Args:
        split_axis: GGML_BACKEND_SPLIT_AXIS_0 to _3 (0 to 3), _MIRRORED (10), _PARTIAL (11), _NONE (98) or
            _UNKNOWN (99).
    Returns:
        Name as bytes: b"0" to b"3", b"MIRRORED", b"PARTIAL", b"NONE" or b"UNKNOWN".
    Raises:
        TypeError: split_axis is not an integer.
        ValueError: split_axis is another number.
    """
def ggml_backend_metal_capture_next_compute(backend: _Address) -> None:
    """Would capture the GPU commands of the next compute for debugging (Metal backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Metal backend.
    """
def ggml_backend_metal_init() -> ggml_backend_t | None:
    """Would create a backend on the default device (Metal backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Metal backend.
    """
def ggml_backend_metal_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (Metal backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Metal backend.
    """
def ggml_backend_metal_set_abort_callback(backend: _Address, abort_callback: ggml_abort_callback | Callable[..., Any] | int | None, user_data: _Address) -> None:
    """Would set the function that can stop a compute (Metal backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
        abort_callback: callback(user_data) -> bool (ggml_abort_callback); True would stop the compute.
        user_data: value that the callback would receive.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Metal backend.
    """
def ggml_backend_metal_supports_family(backend: _Address, family: _Int) -> bool:
    """Would tell whether the device belongs to a family of GPUs (Metal backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
        family: number of the family, as Metal counts them.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Metal backend.
    """
def ggml_backend_multi_buffer_alloc_buffer(buffers: _Pointer, n_buffers: _Int) -> ggml_backend_buffer_t | None:
    """Combines several buffers into one that is freed, cleared, reset and labelled as a whole.

    Tensors are placed in the parts, not in the combined buffer, which has no address of its own.

    Args:
        buffers: array of n_buffers buffer handles: a list, a ctypes array, a pointer or an address.
        n_buffers: number of parts, 1 or more.
    Returns:
        Handle of the combined buffer. Its size is the sum of the parts' sizes, its type that of the first part.
        Freeing it frees the parts that are still live.
    Raises:
        TypeError: buffers is None or not an array, or an entry is not a buffer.
        ValueError: n_buffers is 0 or negative, a buffer occurs twice, or the array has fewer entries or cannot be
            read.
        RuntimeError: an entry is not a live handle.
    """
def ggml_backend_name(backend: _Address) -> bytes:
    """Returns the name of a backend, which is the name of its device unless a callback says otherwise.

    Args:
        backend: handle of a backend.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
def ggml_backend_offload_op(backend: _Address, op: _To[ggml_tensor]) -> bool:
    """Tells whether a backend should compute a node although the node's weights lie in host memory.

    The scheduler then copies the weights to the backend, if it was made with op_offload.

    Args:
        backend: handle of a backend.
        op: the node: any tensor, any shape.
    Returns:
        True or False; the CPU always answers False.
    Raises:
        TypeError: backend is not a backend, or op is not a tensor.
        RuntimeError: the backend or the node was freed.
    """
def ggml_backend_opencl_buffer_type() -> ggml_backend_buffer_type_t | None:
    """Would return the buffer type of the first device (OpenCL backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenCL backend.
    """
def ggml_backend_opencl_host_buffer_type() -> ggml_backend_buffer_type_t | None:
    """Would return the type of host memory that devices copy from fastest (OpenCL backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenCL backend.
    """
def ggml_backend_opencl_init() -> ggml_backend_t | None:
    """Would create a backend on the first device (OpenCL backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenCL backend.
    """
def ggml_backend_opencl_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (OpenCL backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenCL backend.
    """
def ggml_backend_openvino_buffer_get_ctx_id(buffer: _Address) -> int:
    """Would return the number that identifies a buffer (OpenVINO backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        buffer: handle of a buffer.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenVINO backend.
    """
def ggml_backend_openvino_buffer_type(device: _Int) -> ggml_backend_buffer_type_t | None:
    """Would return the buffer type of a device (OpenVINO backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenVINO backend.
    """
def ggml_backend_openvino_get_device_count() -> int:
    """Would return the number of devices (OpenVINO backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenVINO backend.
    """
def ggml_backend_openvino_host_buffer_type(device: _Int) -> ggml_backend_buffer_type_t | None:
    """Would return the type of the host memory for a device (OpenVINO backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenVINO backend.
    """
def ggml_backend_openvino_init(device: _Int) -> ggml_backend_t | None:
    """Would create a backend on a device (OpenVINO backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenVINO backend.
    """
def ggml_backend_openvino_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (OpenVINO backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the OpenVINO backend.
    """
def ggml_backend_reg_alloc_buffer(i: _Int, size: _Int) -> ggml_backend_buffer_t | None:
    """Allocates a buffer of a backend's default type by the backend's index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
        size: bytes, 0 or more.
    Returns:
        Handle of the new buffer (int), or None if the memory is not available.
    Raises:
        TypeError: i or size is not an integer.
        ValueError: i or size is negative.
        IndexError: i is too large.
    """
def ggml_backend_reg_by_name(name: _Text) -> ggml_backend_reg_t | None:
    """Finds a backend registry by its name.

    Args:
        name: bytes or str; upper and lower case are the same.
    Returns:
        Handle of the first registry with that name, or None if there is none.
    Raises:
        TypeError: name is None or not text.
    """
def ggml_backend_reg_count() -> int:
    """Returns the number of backend registries.

    Returns:
        1 for the CPU's, plus those of ggml_backend_register.
    """
def ggml_backend_reg_dev_count(reg: _Address) -> int:
    """Returns the number of devices in a backend registry.

    Args:
        reg: handle of a registry.
    Returns:
        Number of devices; 1 for the CPU's registry.
    Raises:
        TypeError: reg is None or not a registry.
        RuntimeError: reg is a number that is not a live handle.
    """
def ggml_backend_reg_dev_get(reg: _Address, index: _Int) -> ggml_backend_dev_t | None:
    """Returns a device of a backend registry.

    Args:
        reg: handle of a registry.
        index: 0 to ggml_backend_reg_dev_count(reg) - 1.
    Returns:
        Handle of the device.
    Raises:
        TypeError: reg is not a registry, or index is not an integer.
        ValueError: index is negative.
        IndexError: index is too large.
        RuntimeError: reg is a number that is not a live handle.
    """
def ggml_backend_reg_find_by_name(name: _Text) -> int:
    """Finds the index of a backend by its name, as in releases of 2024.

    Args:
        name: bytes or str; upper and lower case are the same.
    Returns:
        Index for ggml_backend_reg_init_backend and its siblings; 2**64 - 1 (SIZE_MAX) if there is no such backend.
    Raises:
        TypeError: name is None or not text.
    """
def ggml_backend_reg_get(index: _Int) -> ggml_backend_reg_t | None:
    """Returns a backend registry by its index.

    Args:
        index: 0 to ggml_backend_reg_count() - 1; 0 is the CPU's.
    Returns:
        Handle of the registry.
    Raises:
        TypeError: index is not an integer.
        ValueError: index is negative.
        IndexError: index is too large.
    """
def ggml_backend_reg_get_count() -> int:
    """Returns the number of backends in the list that releases of 2024 had.

    That list has one entry for each device, in the order of ggml_backend_dev_get.

    Returns:
        Number of entries, equal to ggml_backend_dev_count().
    """
def ggml_backend_reg_get_default_buffer_type(i: _Int) -> ggml_backend_buffer_type_t | None:
    """Returns the default buffer type of a backend by its index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
    Returns:
        Handle of the buffer type.
    Raises:
        TypeError: i is not an integer.
        ValueError: i is negative.
        IndexError: i is too large.
    """
def ggml_backend_reg_get_name(i: _Int) -> bytes:
    """Returns the name of a backend by its index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: i is not an integer.
        ValueError: i is negative.
        IndexError: i is too large.
    """
def ggml_backend_reg_get_proc_address(reg: _Address, name: _Text) -> int | None:
    """Finds a C function that a registry offers beyond the common functions.

    The CPU's registry has ggml_backend_get_features, ggml_backend_set_n_threads, ggml_backend_set_abort_callback,
    ggml_backend_cpu_set_threadpool, ggml_backend_cpu_numa_init, ggml_backend_cpu_is_numa, ggml_threadpool_new and
    ggml_threadpool_free.

    Args:
        reg: handle of a registry.
        name: name of the function, bytes or str.
    Returns:
        Address as int, to be called via a ctypes.CFUNCTYPE of the right signature; None if there is none.
    Raises:
        TypeError: reg is not a registry, or name is not text.
        RuntimeError: reg is a number that is not a live handle.
    """
def ggml_backend_reg_init_backend(i: _Int, params: _Text) -> ggml_backend_t | None:
    """Creates a backend by its index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
        params: text for the device, bytes, str or None; the CPU ignores it.
    Returns:
        Handle of the backend (int), or None if the device could not make one.
    Raises:
        TypeError: i is not an integer, or params is neither text nor None.
        ValueError: i is negative.
        IndexError: i is too large.
    """
def ggml_backend_reg_init_backend_from_str(backend_str: _Text) -> ggml_backend_t | None:
    """Creates a backend from a text with its name and parameters, as in releases of 2024.

    Args:
        backend_str: b"name" or b"name:params", bytes or str; in the name, upper and lower case are the same.
    Returns:
        Handle of the backend (int), or None if there is not a backend of that name.
    Raises:
        TypeError: backend_str is None or not text.
    """
def ggml_backend_reg_name(reg: _Address) -> bytes:
    """Returns the name of a backend registry.

    Args:
        reg: handle of a registry.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: reg is None or not a registry.
        RuntimeError: reg is a number that is not a live handle.
    """
def ggml_backend_register(reg: _Address) -> None:
    """Adds a backend registry and its devices to the lists that programs search.

    A registry or device that is listed already is not added twice.

    Args:
        reg: the registry: a ggml_backend_reg struct that the caller fills in and keeps alive (the struct, a pointer
            to it or its address), or a handle.
    Returns:
        None.
    Raises:
        TypeError: reg is None, NULL or not a registry.
        ValueError: there is no struct at the address, or a required callback (get_name, get_device_count,
            get_device) is NULL or not a function.
    """
def ggml_backend_rpc_add_server(endpoint: _Text) -> ggml_backend_reg_t | None:
    """Would return a registry with the devices of a server (RPC backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        endpoint: network address of the server, "host:port" as bytes or str.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the RPC backend.
    """
def ggml_backend_rpc_buffer_type(endpoint: _Text, device: _Int) -> ggml_backend_buffer_type_t | None:
    """Would return the buffer type of a device of a server (RPC backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        endpoint: network address of the server, "host:port" as bytes or str.
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the RPC backend.
    """
def ggml_backend_rpc_get_device_memory(endpoint: _Text, device: _Int, free: _Pointer, total: _Pointer) -> None:
    """Would write the memory sizes of a server's device (RPC backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        endpoint: network address of the server, "host:port" as bytes or str.
        device: index of the device, 0 or more.
        free: pointer to a size_t that would receive the free bytes.
        total: pointer to a size_t that would receive the bytes in total.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the RPC backend.
    """
def ggml_backend_rpc_init(endpoint: _Text, device: _Int) -> ggml_backend_t | None:
    """Would create a backend on a device of a server (RPC backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        endpoint: network address of the server, "host:port" as bytes or str.
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the RPC backend.
    """
def ggml_backend_rpc_reg() -> ggml_backend_reg_t | None:
    """Would return the registry that finds the functions of this kind (RPC backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the RPC backend.
    """
def ggml_backend_rpc_start_server(endpoint: _Text, cache_dir: _Text, n_threads: _Int, n_devices: _Int, devices: _Pointer) -> None:
    """Would serve devices to clients (RPC backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        endpoint: network address of the server, "host:port" as bytes or str.
        cache_dir: folder for copies of large tensors, bytes or str; None for no copies.
        n_threads: number of threads, 1 or more.
        n_devices: number of devices.
        devices: array of n_devices device handles.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the RPC backend.
    """
def ggml_backend_sched_alloc_graph(sched: _Address, graph: _To[ggml_cgraph]) -> bool:
    """Assigns the nodes of a graph to backends and gives every tensor without data its memory.

    Set the graph's inputs afterwards, then call ggml_backend_sched_graph_compute. With CPU backends only, a graph
    that equals the last one tensor by tensor is not planned again. Without parallel, it first waits for work under
    way.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        True, or False if the memory is not available.
    Raises:
        TypeError: sched is not a scheduler, or graph is not a graph.
        ValueError: the graph is malformed, for example with a view of a view.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
def ggml_backend_sched_free(sched: _Address) -> None:
    """Frees a scheduler with the buffers that it allocated; the backends stay.

    Args:
        sched: handle of a scheduler, or None, for which nothing happens.
    Returns:
        None.
    Raises:
        TypeError: sched is 0 or something else than a scheduler.
        RuntimeError: sched was freed already, or is computing (the call comes from a callback or another thread).
    """
def ggml_backend_sched_get_backend(sched: _Address, i: _Int) -> ggml_backend_t | None:
    """Returns a backend of a scheduler by its position.

    Args:
        sched: handle of a scheduler.
        i: 0 (the preferred backend) to ggml_backend_sched_get_n_backends(sched) - 1.
    Returns:
        Handle of the backend.
    Raises:
        TypeError: sched is not a scheduler, or i is not an integer.
        IndexError: i is negative or too large.
        RuntimeError: sched was freed, or never was a handle.
    """
def ggml_backend_sched_get_buffer_size(sched: _Address, backend: _Address) -> int:
    """Returns the size of the buffers that a scheduler has allocated for one of its backends.

    Args:
        sched: handle of a scheduler.
        backend: handle of one of its backends.
    Returns:
        Bytes; 0 before the first allocation, and for a backend whose buffer type an earlier backend uses too.
    Raises:
        TypeError: sched is not a scheduler, or backend is not a backend.
        ValueError: the scheduler does not have that backend.
        RuntimeError: the scheduler or the backend was freed.
    """
def ggml_backend_sched_get_buffer_type(sched: _Address, backend: _Address) -> ggml_backend_buffer_type_t | None:
    """Returns the buffer type that a scheduler allocates from for one of its backends.

    Args:
        sched: handle of a scheduler.
        backend: handle of one of its backends.
    Returns:
        Handle of the type: that of bufts in ggml_backend_sched_new, or the backend's default.
    Raises:
        TypeError: sched is not a scheduler, or backend is not a backend.
        ValueError: the scheduler does not have that backend.
        RuntimeError: the scheduler or the backend was freed.
    """
def ggml_backend_sched_get_n_backends(sched: _Address) -> int:
    """Returns the number of backends of a scheduler.

    Args:
        sched: handle of a scheduler.
    Returns:
        n_backends of ggml_backend_sched_new.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
def ggml_backend_sched_get_n_copies(sched: _Address) -> int:
    """Returns how many copies a scheduler keeps of each tensor that it copies to another backend.

    Args:
        sched: handle of a scheduler.
    Returns:
        4 if it was made with parallel=True, otherwise 1.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
def ggml_backend_sched_get_n_splits(sched: _Address) -> int:
    """Returns the number of splits of the last graph.

    A split is a range of consecutive nodes that one backend computes.

    Args:
        sched: handle of a scheduler.
    Returns:
        Number of splits, 0 before the first graph. ggml_backend_sched_reset does not change it.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
def ggml_backend_sched_get_tensor_backend(sched: _Address, node: _To[ggml_tensor]) -> ggml_backend_t | None:
    """Returns the backend to which a tensor of the last graph was assigned.

    Args:
        sched: handle of a scheduler.
        node: a node, an operand or a leaf of that graph: any tensor, any shape.
    Returns:
        Handle of the backend; None if the tensor has been assigned neither explicitly nor with a graph.
    Raises:
        TypeError: sched is not a scheduler, or node is not a tensor.
        RuntimeError: the scheduler or the tensor was freed.
    """
def ggml_backend_sched_graph_compute(sched: _Address, graph: _To[ggml_cgraph]) -> int:
    """Computes a graph on the backends of a scheduler and waits for the results.

    A graph that was not allocated by ggml_backend_sched_alloc_graph just before is allocated first.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        GGML_STATUS_SUCCESS (0), also if the evaluation callback cancelled the rest; GGML_STATUS_ALLOC_FAILED (-2)
        if the memory is not available; or the status of the backend that stopped, as of ggml_backend_graph_compute.
    Raises:
        TypeError: sched is not a scheduler, or graph is not a graph.
        ValueError: the graph is malformed, or a node does not fit its operands.
        RuntimeError: something was freed, the scheduler is computing already, no backend can compute a node, or an
            operation failed.
    """
def ggml_backend_sched_graph_compute_async(sched: _Address, graph: _To[ggml_cgraph]) -> int:
    """Starts computing a graph on the backends of a scheduler; ggml_backend_sched_synchronize waits for the end.

    CPU backends complete their splits before the call returns.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer); keep it and its tensors until the work is done.
    Returns:
        Status, as of ggml_backend_sched_graph_compute.
    Raises:
        TypeError: sched is not a scheduler, or graph is not a graph.
        ValueError: the graph is malformed, or a node does not fit its operands.
        RuntimeError: something was freed, the scheduler is computing already, no backend can compute a node, or an
            operation failed. Before an exception is raised, the call waits for all backends.
    """
def ggml_backend_sched_new(backends: _Pointer, bufts: _Pointer, n_backends: _Int, graph_size: _Int, parallel: _Bool, op_offload: _Bool = ...) -> ggml_backend_sched_t | None:
    """Creates a scheduler, which computes graphs on several backends.

    It assigns each node to a backend, cuts the graph into splits of consecutive nodes for one backend, copies
    operands between them where one backend cannot read the other's memory, and allocates all tensors without data.

    Args:
        backends: array of n_backends backend handles, the preferred first. The last one also receives the graph's
            inputs (ggml_set_input) and should be able to compute every node, so it is usually a CPU backend.
        bufts: array of n_backends buffer type handles, the memory that each backend computes in; None for the
            backends' default types.
        n_backends: number of backends, 1 to 64.
        graph_size: number of nodes expected, 0 or more; larger graphs work too.
        parallel: True keeps 4 copies of what is copied between backends, so that the next graph can start before
            the last has ended; False keeps one.
        op_offload: True (the default) lets a backend copy weights from host memory for nodes that it wants
            (ggml_backend_offload_op). Older releases lack this parameter.
    Returns:
        Handle of the scheduler (int). Free it with ggml_backend_sched_free; keep the backends until then.
    Raises:
        TypeError: backends is None or no array, or an entry or another argument is of the wrong kind.
        ValueError: n_backends is not 1 to 64, graph_size is negative, an array has fewer entries or cannot be read,
            or a backend does not support its type in bufts.
        RuntimeError: an entry is not a live handle.
    """
def ggml_backend_sched_reserve(sched: _Address, measure_graph: _To[ggml_cgraph]) -> bool:
    """Allocates buffers that suffice for a graph, so that later graphs of up to this size need no new ones.

    The graph's tensors are not placed. Like ggml_backend_sched_reset, it drops assignments of
    ggml_backend_sched_set_tensor_backend afterwards.

    Args:
        sched: handle of a scheduler.
        measure_graph: the graph (ggml_cgraph pointer), usually the largest one to come.
    Returns:
        True, or False if the memory is not available.
    Raises:
        TypeError: sched is not a scheduler, or measure_graph is not a graph.
        ValueError: the graph is malformed, for example with a view of a view.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
def ggml_backend_sched_reserve_size(sched: _Address, measure_graph: _To[ggml_cgraph], sizes: _Pointer) -> None:
    """Computes how much memory a graph would take on each backend, without allocating it.

    Like ggml_backend_sched_reset, it drops assignments of ggml_backend_sched_set_tensor_backend afterwards.

    Args:
        sched: handle of a scheduler.
        measure_graph: the graph (ggml_cgraph pointer).
        sizes: array of n_backends size_t (ctypes, NumPy or an address); receives the bytes. A buffer type that
            several backends share counts for the first of them, and the others receive 0.
    Returns:
        None.
    Raises:
        TypeError: sched is not a scheduler, measure_graph is not a graph, or sizes is not an array.
        ValueError: sizes is too short, or the graph is malformed.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
def ggml_backend_sched_reset(sched: _Address) -> None:
    """Drops the last graph and all explicit assignments; the buffers stay.

    Waits for work under way first. What was planned for the last graph is kept for graphs that equal it.

    Args:
        sched: handle of a scheduler.
    Returns:
        None.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or is computing (the call comes from a callback or another thread).
    """
def ggml_backend_sched_set_eval_callback(sched: _Address, callback: ggml_backend_sched_eval_callback | Callable[..., Any] | int | None, user_data: _Address) -> None:
    """Sets a function that observes the nodes while a scheduler computes.

    It is called once or twice for each node: with ask=True before the node is computed, to tell whether it wants
    the result; if so, with ask=False when the result is there. Nodes up to a wanted one are computed together. An
    exception that it raises ends the compute call and is raised there.

    Args:
        sched: handle of a scheduler.
        callback: callback(tensor, ask, user_data) -> bool: a Python callable, a ggml_backend_sched_eval_callback or
            the address of a C function. False with ask=False cancels the rest of the graph. None removes it.
        user_data: value for the callback: None, an int or an address; of other objects, the address is taken.
    Returns:
        None.
    Raises:
        TypeError: sched is not a scheduler, or callback is not a function or one of another signature.
        ValueError: callback is an address at which there is no function.
        RuntimeError: sched was freed, or never was a handle.
    """
def ggml_backend_sched_set_tensor_backend(sched: _Address, node: _To[ggml_tensor], backend: _Address) -> None:
    """Assigns a node to a backend explicitly, for all graphs until the next ggml_backend_sched_reset.

    Call it before ggml_backend_sched_alloc_graph. It takes precedence over the scheduler's own choice.

    Args:
        sched: handle of a scheduler.
        node: the node: any tensor, any shape.
        backend: handle of one of the scheduler's backends, which must support the node.
    Returns:
        None.
    Raises:
        TypeError: sched is not a scheduler, node is not a tensor, or backend is not a backend.
        ValueError: the scheduler does not have that backend.
        RuntimeError: the scheduler, the node or the backend was freed.
    """
def ggml_backend_sched_split_graph(sched: _Address, graph: _To[ggml_cgraph]) -> None:
    """Assigns the nodes of a graph to backends without allocating memory, to inspect the assignment.

    See it with ggml_backend_sched_get_tensor_backend and ggml_backend_sched_get_n_splits.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        None.
    Raises:
        TypeError: sched is not a scheduler, or graph is not a graph.
        ValueError: the graph is malformed, for example with a view of a view.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
def ggml_backend_sched_synchronize(sched: _Address) -> None:
    """Waits until all backends of a scheduler have completed their work.

    Args:
        sched: handle of a scheduler.
    Returns:
        None.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
def ggml_backend_supports_buft(backend: _Address, buft: _Address) -> bool:
    """Tells whether a backend can compute with tensors in buffers of a type.

    The CPU supports its own types and every type for which ggml_backend_buft_is_host is True.

    Args:
        backend: handle of a backend.
        buft: handle of a buffer type.
    Returns:
        True or False.
    Raises:
        TypeError: backend is not a backend, or buft is not a buffer type.
        RuntimeError: one of the handles is not live.
    """
def ggml_backend_supports_op(backend: _Address, op: _To[ggml_tensor]) -> bool:
    """Tells whether a backend can compute a node.

    The CPU checks the operation, types, shapes and parameters; data need not be allocated. Leafs and views, which
    need no computation, are supported.

    Args:
        backend: handle of a backend.
        op: the node: any tensor, any shape.
    Returns:
        True or False.
    Raises:
        TypeError: backend is not a backend, or op is not a tensor.
        RuntimeError: the backend or the node was freed.
    """
def ggml_backend_sycl_buffer_type(device: _Int) -> ggml_backend_buffer_type_t | None:
    """Would return the buffer type of a device (SYCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_comm_allreduce_tensor(comm_ctx: _Address, tensors: _Pointer) -> bool:
    """Would replace each tensor by the sum of all of them (SYCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        comm_ctx: the communicator, from ggml_backend_sycl_comm_init.
        tensors: array of tensor pointers, one for each backend.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_comm_free(comm_ctx: _Address) -> None:
    """Would free a communicator (SYCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        comm_ctx: the communicator, from ggml_backend_sycl_comm_init.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_comm_init(backends: _Pointer, n_backends: _Int) -> int | None:
    """Would create a communicator for sums over several backends (SYCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backends: array of n_backends backend handles, one for each device.
        n_backends: number of backends.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_get_device_count() -> int:
    """Would return the number of devices (SYCL backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_get_device_description(device: _Int, description: _Text, description_size: _Int) -> None:
    """Would write the name of a device (SYCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
        description: text buffer that would receive the name.
        description_size: bytes of that buffer.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_get_device_memory(device: _Int, free: _Pointer, total: _Pointer) -> None:
    """Would write the free and the total memory of a device (SYCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
        free: pointer to a size_t that would receive the free bytes.
        total: pointer to a size_t that would receive the bytes in total.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_get_gpu_list(id_list: _Pointer, max_len: _Int) -> None:
    """Would write the numbers of the GPUs to an array (SYCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        id_list: array of max_len int that would receive the numbers.
        max_len: number of entries in id_list.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_host_buffer_type() -> ggml_backend_buffer_type_t | None:
    """Would return the type of host memory that devices copy from fastest (SYCL backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_init(device: _Int) -> ggml_backend_t | None:
    """Would create a backend on a device (SYCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_print_sycl_devices() -> None:
    """Would print a list of the devices (SYCL backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (SYCL backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_sycl_split_buffer_type(tensor_split: _Pointer) -> ggml_backend_buffer_type_t | None:
    """Would return the type whose buffers split matrices by rows (SYCL backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        tensor_split: array of float, the share of each device; None for shares by memory.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the SYCL backend.
    """
def ggml_backend_synchronize(backend: _Address) -> None:
    """Waits until a backend has completed all work that it has started.

    The CPU has nothing to wait for: its calls return when the work is done.

    Args:
        backend: handle of a backend.
    Returns:
        None.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
def ggml_backend_tensor_alloc(buffer: _Address, tensor: _To[ggml_tensor], addr: _Address) -> int:
    """Places a tensor without data at an address within a buffer.

    Sets the tensor's buffer and data fields. The alignment of the address is the caller's responsibility.

    Args:
        buffer: handle of a buffer.
        tensor: any tensor, any shape, that is not a view and has no data (or lies in a buffer that was freed).
        addr: address in the buffer, not below ggml_backend_buffer_get_base(buffer).
    Returns:
        GGML_STATUS_SUCCESS (0).
    Raises:
        TypeError: buffer is not a buffer, or tensor is not a tensor.
        ValueError: the tensor is a view or has data already, or does not fit between addr and the buffer's end, or
            the buffer combines several.
        RuntimeError: the buffer or the tensor was freed.
    See also:
        ggml_tallocr_alloc, which chooses the addresses; ggml_backend_view_init, for views.
    """
def ggml_backend_tensor_copy(src: _To[ggml_tensor], dst: _To[ggml_tensor]) -> None:
    """Copies the data of a tensor to a tensor of the same layout, in whatever memory either lies.

    The data is copied directly if the destination's buffer can do that, otherwise via host memory. Nothing happens
    if src and dst are the same tensor.

    Args:
        src: any tensor, any shape, with data.
        dst: tensor with data that has src's type, shape [ne0, ne1, ne2, ne3] and strides.
    Returns:
        None.
    Raises:
        TypeError: src or dst is not a tensor.
        ValueError: the types, shapes or strides differ, or a tensor has no data.
        RuntimeError: a tensor, or the memory that it lies in, was freed.
        MemoryError: there is no memory for the copy on the host.
    """
def ggml_backend_tensor_copy_async(backend_src: _Address, backend_dst: _Address, src: _To[ggml_tensor], dst: _To[ggml_tensor]) -> None:
    """Copies a tensor between two backends, after the first's queued work and before the second's later work.

    If the backends cannot order the copy themselves, which is the case for the CPU, the call waits for both and
    copies before it returns.

    Args:
        backend_src: handle of the backend that computes src.
        backend_dst: handle of the backend that reads dst.
        src: any tensor, any shape, with data.
        dst: tensor with data that has src's type, shape [ne0, ne1, ne2, ne3] and strides.
    Returns:
        None.
    Raises:
        TypeError: a backend is not a backend, or src or dst is not a tensor.
        ValueError: the types, shapes or strides differ, or a tensor has no data.
        RuntimeError: a backend, a tensor, or the memory of a tensor, was freed.
        MemoryError: there is no memory for the copy on the host.
    """
def ggml_backend_tensor_get(tensor: _To[ggml_tensor], data: _Address, offset: _Int, size: _Int) -> None:
    """Copies bytes of a tensor into the caller's memory, from whatever memory the tensor lies in.

    Args:
        tensor: any tensor, any shape, with data.
        data: destination: an address, a bytearray, ctypes or NumPy memory of at least size bytes.
        offset: byte of the tensor at which to start.
        size: bytes to copy; offset + size must not exceed ggml_nbytes(tensor).
    Returns:
        None; the bytes are in data.
    Raises:
        TypeError: tensor is not a tensor, or data is None, bytes (which cannot be written) or not memory.
        ValueError: offset and size reach beyond the tensor, data is too small, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
def ggml_backend_tensor_get_2d(tensor: _To[ggml_tensor], data: _Address, offset: _Int, size: _Int, n_copies: _Int, stride_tensor: _Int, stride_data: _Int) -> None:
    """Copies equal pieces of a tensor into the caller's memory, with a stride on either side.

    Piece i goes from byte offset + i * stride_tensor of the tensor to byte i * stride_data of data.

    Args:
        tensor: any tensor, any shape, with data; the last piece must end within ggml_nbytes(tensor).
        data: destination: an address, a bytearray, ctypes or NumPy memory.
        offset: byte of the tensor at which the first piece starts.
        size: bytes of a piece.
        n_copies: number of pieces; nothing happens if it or size is 0.
        stride_tensor: bytes from the start of a piece to that of the next in the tensor.
        stride_data: bytes from the start of a piece to that of the next in data.
    Returns:
        None; the pieces are in data, bytes between them are unchanged.
    Raises:
        TypeError: tensor is not a tensor, or data is None, bytes (which cannot be written) or not memory.
        ValueError: a number is negative, a piece lies beyond the tensor or data, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
def ggml_backend_tensor_get_2d_async(backend: _Address, tensor: _To[ggml_tensor], data: _Address, offset: _Int, size: _Int, n_copies: _Int, stride_tensor: _Int, stride_data: _Int) -> None:
    """Starts copying equal pieces of a tensor to the caller; ggml_backend_synchronize waits for the end.

    Piece i goes from byte offset + i * stride_tensor of the tensor to byte i * stride_data of data. The CPU copies
    before it returns; with other backends, data is complete only after ggml_backend_synchronize.

    Args:
        backend: handle of the backend whose memory the tensor lies in.
        tensor: any tensor, any shape, with data; the last piece must end within ggml_nbytes(tensor).
        data: destination: an address, a bytearray, ctypes or NumPy memory. Keep it alive until the copy is done.
        offset: byte of the tensor at which the first piece starts.
        size: bytes of a piece.
        n_copies: number of pieces; nothing happens if it or size is 0.
        stride_tensor: bytes from the start of a piece to that of the next in the tensor.
        stride_data: bytes from the start of a piece to that of the next in data.
    Returns:
        None.
    Raises:
        TypeError: backend is not a backend, tensor is not a tensor, or data is None, bytes or not memory.
        ValueError: a number is negative, a piece lies beyond the tensor or data, or the tensor has no data.
        RuntimeError: the backend, the tensor, or the memory that it lies in, was freed.
    """
def ggml_backend_tensor_get_async(backend: _Address, tensor: _To[ggml_tensor], data: _Address, offset: _Int, size: _Int) -> None:
    """Starts copying bytes of a tensor to the caller; ggml_backend_synchronize waits for the end.

    The CPU copies before it returns. With other backends, data is complete only after ggml_backend_synchronize.

    Args:
        backend: handle of the backend whose memory the tensor lies in.
        tensor: any tensor, any shape, with data.
        data: destination: an address, a bytearray, ctypes or NumPy memory. Keep it alive until the copy is done.
        offset: byte of the tensor at which to start.
        size: bytes to copy; offset + size must not exceed ggml_nbytes(tensor). Nothing happens if it is 0.
    Returns:
        None.
    Raises:
        TypeError: backend is not a backend, tensor is not a tensor, or data is None, bytes or not memory.
        ValueError: offset and size reach beyond the tensor, data is too small, or the tensor has no data.
        RuntimeError: the backend, the tensor, or the memory that it lies in, was freed.
    See also:
        ggml_backend_tensor_get, which always waits.
    """
def ggml_backend_tensor_memset(tensor: _To[ggml_tensor], value: _Int, offset: _Int, size: _Int) -> None:
    """Fills a range of a tensor's bytes with one value.

    Args:
        tensor: any tensor, any shape, with data.
        value: 32-bit integer, of which the low 8 bits are used.
        offset: byte of the tensor at which to start.
        size: bytes to fill; offset + size must not exceed ggml_nbytes(tensor). Nothing happens if it is 0.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor, or a number is not an integer.
        ValueError: the range reaches beyond the tensor, value needs more than 32 bits, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
def ggml_backend_tensor_set(tensor: _To[ggml_tensor], data: _Address, offset: _Int, size: _Int) -> None:
    """Copies bytes from the caller's memory into a tensor, in whatever memory the tensor lies.

    Args:
        tensor: any tensor, any shape, with data.
        data: source: an address, bytes, ctypes or NumPy memory of at least size bytes; None only if size is 0.
        offset: byte of the tensor at which to start.
        size: bytes to copy; offset + size must not exceed ggml_nbytes(tensor).
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor, or data is None or not memory.
        ValueError: offset and size reach beyond the tensor, data is too small, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
def ggml_backend_tensor_set_2d(tensor: _To[ggml_tensor], data: _Address, offset: _Int, size: _Int, n_copies: _Int, stride_tensor: _Int, stride_data: _Int) -> None:
    """Copies equal pieces from the caller's memory into a tensor, with a stride on either side.

    Piece i goes from byte i * stride_data of data to byte offset + i * stride_tensor of the tensor.

    Args:
        tensor: any tensor, any shape, with data; the last piece must end within ggml_nbytes(tensor).
        data: source: an address, bytes, ctypes or NumPy memory.
        offset: byte of the tensor at which the first piece starts.
        size: bytes of a piece.
        n_copies: number of pieces; nothing happens if it or size is 0.
        stride_tensor: bytes from the start of a piece to that of the next in the tensor.
        stride_data: bytes from the start of a piece to that of the next in data.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor, or data is None or not memory.
        ValueError: a number is negative, a piece lies beyond the tensor or data, or the tensor has no data. In
            these cases nothing is copied.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
def ggml_backend_tensor_set_2d_async(backend: _Address, tensor: _To[ggml_tensor], data: _Address, offset: _Int, size: _Int, n_copies: _Int, stride_tensor: _Int, stride_data: _Int) -> None:
    """Starts copying equal pieces into a tensor on a backend; ggml_backend_synchronize waits for the end.

    Piece i goes from byte i * stride_data of data to byte offset + i * stride_tensor of the tensor. The CPU copies
    before it returns, other backends may still read data afterwards.

    Args:
        backend: handle of the backend whose memory the tensor lies in.
        tensor: any tensor, any shape, with data; the last piece must end within ggml_nbytes(tensor).
        data: source: an address, bytes, ctypes or NumPy memory. Keep it alive and unchanged until the copy is done.
        offset: byte of the tensor at which the first piece starts.
        size: bytes of a piece.
        n_copies: number of pieces; nothing happens if it or size is 0.
        stride_tensor: bytes from the start of a piece to that of the next in the tensor.
        stride_data: bytes from the start of a piece to that of the next in data.
    Returns:
        None.
    Raises:
        TypeError: backend is not a backend, tensor is not a tensor, or data is None or not memory.
        ValueError: a number is negative, a piece lies beyond the tensor or data, or the tensor has no data.
        RuntimeError: the backend, the tensor, or the memory that it lies in, was freed.
    """
def ggml_backend_tensor_set_async(backend: _Address, tensor: _To[ggml_tensor], data: _Address, offset: _Int, size: _Int) -> None:
    """Starts copying bytes into a tensor on a backend; ggml_backend_synchronize waits for the end.

    The CPU copies before it returns. Other backends may still read data afterwards.

    Args:
        backend: handle of the backend whose memory the tensor lies in.
        tensor: any tensor, any shape, with data.
        data: source: an address, bytes, ctypes or NumPy memory. Keep it alive and unchanged until the copy is done.
        offset: byte of the tensor at which to start.
        size: bytes to copy; offset + size must not exceed ggml_nbytes(tensor). Nothing happens if it is 0.
    Returns:
        None.
    Raises:
        TypeError: backend is not a backend, tensor is not a tensor, or data is None or not memory.
        ValueError: offset and size reach beyond the tensor, data is too small, or the tensor has no data.
        RuntimeError: the backend, the tensor, or the memory that it lies in, was freed.
    See also:
        ggml_backend_tensor_set, which always waits.
    """
def ggml_backend_unload(reg: _Address) -> None:
    """Removes a backend registry and its devices from the lists that programs search.

    Handles of the registry, its devices and their backends stay usable.

    Args:
        reg: handle of a registry.
    Returns:
        None.
    Raises:
        TypeError: reg is None or not a registry.
        ValueError: reg is the CPU's registry, which cannot be removed.
        RuntimeError: reg is a number that is not a live handle.
    """
def ggml_backend_view_init(tensor: _To[ggml_tensor]) -> int:
    """Gives a view its place in the memory of the tensor that it is a view of.

    The allocators do this themselves. It is needed for a view that was created before its source was placed.

    Args:
        tensor: view of any tensor, any shape; the tensor in its view_src has data.
    Returns:
        GGML_STATUS_SUCCESS (0).
    Raises:
        TypeError: tensor is not a tensor.
        ValueError: tensor is not a view, or the tensor that it is a view of has no data.
        RuntimeError: the tensor, its source, or the source's buffer, was freed.
    """
def ggml_backend_virtgpu_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (VirtGPU backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the VirtGPU backend.
    """
def ggml_backend_vk_buffer_type(dev_num: _Int) -> ggml_backend_buffer_type_t | None:
    """Would return the buffer type of a device (Vulkan backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        dev_num: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_backend_vk_get_device_count() -> int:
    """Would return the number of devices (Vulkan backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_backend_vk_get_device_description(device: _Int, description: _Text, description_size: _Int) -> None:
    """Would write the name of a device (Vulkan backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
        description: text buffer that would receive the name.
        description_size: bytes of that buffer.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_backend_vk_get_device_memory(device: _Int, free: _Pointer, total: _Pointer) -> None:
    """Would write the free and the total memory of a device (Vulkan backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        device: index of the device, 0 or more.
        free: pointer to a size_t that would receive the free bytes.
        total: pointer to a size_t that would receive the bytes in total.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_backend_vk_host_buffer_type() -> ggml_backend_buffer_type_t | None:
    """Would return the type of host memory that devices copy from fastest (Vulkan backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_backend_vk_init(dev_num: _Int) -> ggml_backend_t | None:
    """Would create a backend on a device (Vulkan backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        dev_num: index of the device, 0 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_backend_vk_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (Vulkan backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_backend_webgpu_init() -> ggml_backend_t | None:
    """Would create a backend on the first device (WebGPU backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the WebGPU backend.
    """
def ggml_backend_webgpu_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (WebGPU backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the WebGPU backend.
    """
def ggml_backend_zdnn_buffer_type() -> ggml_backend_buffer_type_t | None:
    """Would return the buffer type of the device (zDNN backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the zDNN backend.
    """
def ggml_backend_zdnn_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (zDNN backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the zDNN backend.
    """
def ggml_backend_zendnn_init() -> ggml_backend_t | None:
    """Would create a backend that multiplies matrices (ZenDNN backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the ZenDNN backend.
    """
def ggml_backend_zendnn_reg() -> ggml_backend_reg_t | None:
    """Would return the registry of the devices (ZenDNN backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the ZenDNN backend.
    """
def ggml_backend_zendnn_set_n_threads(backend_zendnn: _Address, n_threads: _Int) -> None:
    """Would set the number of threads of the ZenDNN library (ZenDNN backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend_zendnn: handle of a backend of ggml_backend_zendnn_init.
        n_threads: number of threads, 1 or more.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the ZenDNN backend.
    """
def ggml_bf16_to_fp32(bf16: ggml_bf16_t) -> float:
    """Converts a bfloat16 number to a float.

    Args:
        bf16: ggml_bf16_t, or its 16 bits as an integer, 0 to 65535.
    Returns:
        Value (float); every bfloat16 is exact.
    Raises:
        TypeError: bf16 is neither a ggml_bf16_t nor an integer.
        ValueError: bf16 does not fit 16 bits.
    """
def ggml_bf16_to_fp32_row(bf16: _To[ggml_bf16_t], fp32: _Pointer, n: _Int) -> None:
    """Converts an array of bfloat16 numbers to float32.

    Args:
        bf16: n bfloat16 values to read (2 * n bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        fp32: memory for n float32 values (4 * n bytes), given in the same ways. It is overwritten.
        n: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: bf16 or fp32 is not memory, or n is not an integer.
        ValueError: n is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_blck_size(type: _Int) -> int:
    """Returns the number of elements that one block of a type holds.

    Args:
        type: GGML_TYPE_*, or the number of a removed type.
    Returns:
        Elements of a block (int): 1 for types that are not quantised, 0 for numbers of removed types.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is out of range.
    """
def ggml_build_backward_expand(*args: Any) -> None:
    """Appends the nodes that compute the gradients of the loss with respect to the parameters to a graph.

    The loss is the f32 scalar marked by ggml_set_loss, the parameters are the tensors marked by ggml_set_param.
    ggml_graph_get_grad returns the gradients. The gradient of the loss with respect to itself becomes 1, and new
    accumulators become 0; where ctx has no_alloc, ggml_graph_reset must do that once they have memory. Integer and
    quantised nodes pass no gradient on.

    Args:
        *args: one of four forms: (ctx, cgraph); (ctx, cgraph, grad_accs); (ctx_static, ctx_compute, cgraph,
            accumulate); or, as in old releases, (ctx, gf, gb, keep), where the graph is gb, a copy of gf made by
            ggml_graph_dup, and keep has no effect.
        ctx: context that receives the new nodes; in the third form this is ctx_compute.
        cgraph: expanded forward graph that was made with gradients: ggml_new_graph_custom(ctx, size, True).
        grad_accs: None, or an array with an entry for each node of the graph: an f32 tensor of the node's shape
            that accumulates its gradient over computes, or None (NULL).
        accumulate: True to accumulate the gradients of all parameters over computes, in tensors made in
            ctx_compute.
    Returns:
        None.
    Raises:
        TypeError: the number or kinds of the arguments fit none of the forms.
        ValueError: the graph is empty or was made without gradients, no node is a loss or it is not an f32 scalar, no
            parameter is reached from it, a parameter is not of a float type, a node on the way has no gradient, an
            entry of grad_accs does not fit, or a gradient needs a value that an in-place node overwrites.
        RuntimeError: the graph, or a node or leaf of it, belongs to no live context.
        MemoryError: the context or the graph is full.
    """
def ggml_build_backward_gradient_checkpointing(ctx: _Address, gf: _To[ggml_cgraph], gb: _To[ggml_cgraph], gb_tmp: _To[ggml_cgraph], checkpoints: _Pointer, n_checkpoints: _Int) -> None:
    """Builds a graph of forward and backward pass in which the backward pass recomputes what lies between checkpoints.

    Only the checkpoints, the leafs and what the backward pass can still use are kept, so that a graph allocator
    (ggml_gallocr_*) reuses the memory of all other activations: with a checkpoint every sqrt(n) of n layers about
    2 sqrt(n) layers are held (arXiv:1604.06174). ggml_graph_get_grad(gb, ...) returns the gradients.

    Args:
        ctx: context that receives the new nodes.
        gf: expanded forward graph with a loss and parameters; it is not changed.
        gb: graph with gradients that receives the result, with room for all nodes.
        gb_tmp: another graph with gradients and as much room; it serves as scratch and must not be computed.
        checkpoints: list, tuple or array of tensors of gf to keep.
        n_checkpoints: number of checkpoints; with 0 nothing is recomputed.
    Returns:
        None.
    Raises:
        ValueError: two of the graphs are the same, gb or gb_tmp was made without gradients or is smaller than gf, a
            checkpoint is not in gf, a node to recompute writes in place, or what ggml_build_backward_expand raises
            it for.
        RuntimeError: an entry of an array of checkpoints is not a tensor of a live context.
        MemoryError: the context or a graph is full.
    """
def ggml_build_forward_expand(cgraph: _To[ggml_cgraph], tensor: _To[ggml_tensor]) -> None:
    """Adds a tensor and everything it depends on to a graph.

    Sources come before the nodes that read them. Tensors that are in the graph already are not added again. Tensors
    without a name are named "node_<n>" or "leaf_<n>". If the call fails, nodes and leafs of the graph are as
    before.

    Args:
        cgraph: graph to extend.
        tensor: result to compute, of any shape and any type.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer or tensor is not a tensor pointer.
        ValueError: cgraph or tensor is a NULL pointer or has an invalid field.
        MemoryError: the graph is full (see ggml_new_graph_custom).
        RuntimeError: cgraph, tensor or one of its sources belongs to no live context.
    """
def ggml_build_forward_order(cgraph: _To[ggml_cgraph], tensor: _To[ggml_tensor]) -> None:
    """Adds a tensor and everything it depends on to a graph, without selecting them to be computed.

    This fixes the order of nodes: what a later ggml_build_forward_expand or ggml_build_forward_select reaches is
    computed at its place here. Nodes that nothing selects are skipped.

    Args:
        cgraph: graph to extend.
        tensor: tensor of any shape and any type.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer or tensor is not a tensor pointer.
        ValueError: cgraph or tensor is a NULL pointer or has an invalid field.
        MemoryError: the graph is full (see ggml_new_graph_custom).
        RuntimeError: cgraph, tensor or one of its sources belongs to no live context.
    """
def ggml_build_forward_select(cgraph: _To[ggml_cgraph], tensors: _Pointer, n_tensors: _Int, idx: _Int) -> ggml_tensor_p:
    """Adds several alternative results to a graph and selects the one that is computed.

    Nodes that only the other alternatives need stay in the graph but are skipped, so that its layout does not
    depend on the choice.

    Args:
        cgraph: graph to extend.
        tensors: list, tuple or array of n_tensors tensor pointers.
        n_tensors: number of alternatives, 1 or more, at most the capacity of the graph.
        idx: which one is computed, 0 to n_tensors - 1.
    Returns:
        The selected tensor, tensors[idx].
    Raises:
        TypeError: cgraph is not a graph pointer, an entry is not a tensor pointer, or a number is not an integer.
        ValueError: idx or n_tensors is out of range, or tensors is NULL or has too few entries.
        MemoryError: the graph is full.
        RuntimeError: cgraph, an alternative or a source belongs to no live context.
    """
def ggml_can_repeat(t0: _To[ggml_tensor], t1: _To[ggml_tensor]) -> bool:
    """Tells whether one tensor can be repeated to fill the shape of another.

    This is the condition for broadcasting t0 to t1 and for ggml_repeat.

    Args:
        t0: tensor to repeat, of any shape and any type.
        t1: tensor of any shape and any type, whose shape is to be filled.
    Returns:
        True if each size of t1 is a multiple of that of t0. An empty t0 fits only an empty t1.
    Raises:
        TypeError: t0 or t1 is not a tensor pointer.
        ValueError: t0 or t1 is a NULL pointer or has an invalid field.
        RuntimeError: t0 or t1 does not belong to a live context.
    """
def ggml_cast(ctx: _Address, a: _To[ggml_tensor], type_: _Int) -> ggml_tensor_p:
    """Converts a tensor to another type.

    The result is a contiguous copy, even where the types are equal. Conversion from a float to an integer truncates
    and saturates; conversion to a quantised type limits the scales of its blocks to the largest finite ones. The
    gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor to convert, any type, any shape [ne0, ne1, ne2, ne3].
        type_: type of the result, GGML_TYPE_*. A quantised type converts to itself and to f32, f16, bf16 and f64;
            only these four floating-point types convert to a quantised one.
    Returns:
        Tensor of type type_ in the shape of a.
    Raises:
        ValueError: type_ is not the number of a type, ne0 is not a multiple of its block, it needs importance weights
            (ggml_quantize_chunk makes those types), or there is no conversion.
        MemoryError: the context is full.
    """
def ggml_ceil(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Rounds each element up to an integer.

    The derivative is 0 wherever it exists, so no gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with integral values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_ceil_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Rounds the elements of a up where they are stored.

    No gradient flows to a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with ceil(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_cl_add(src0: _To[ggml_tensor], src1: _To[ggml_tensor], dst: _To[ggml_tensor]) -> None:
    """Would add two tensors element by element (CLBlast backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        src0: first operand: any tensor, any shape.
        src1: second operand: any tensor, any shape.
        dst: tensor for the result: any tensor, any shape.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CLBlast backend.
    """
def ggml_cl_can_mul_mat(src0: _To[ggml_tensor], src1: _To[ggml_tensor], dst: _To[ggml_tensor]) -> bool:
    """Would tell whether the device should compute a matrix product (CLBlast backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        src0: first operand: any tensor, any shape.
        src1: second operand: any tensor, any shape.
        dst: tensor for the result: any tensor, any shape.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CLBlast backend.
    """
def ggml_cl_free_data(tensor: _To[ggml_tensor]) -> None:
    """Would free the device memory of a tensor (CLBlast backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        tensor: the tensor: any tensor, any shape.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CLBlast backend.
    """
def ggml_cl_init() -> None:
    """Would open the OpenCL device and compile the kernels for it (CLBlast backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CLBlast backend.
    """
def ggml_cl_mul(src0: _To[ggml_tensor], src1: _To[ggml_tensor], dst: _To[ggml_tensor]) -> None:
    """Would multiply two tensors element by element (CLBlast backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        src0: first operand: any tensor, any shape.
        src1: second operand: any tensor, any shape.
        dst: tensor for the result: any tensor, any shape.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CLBlast backend.
    """
def ggml_cl_mul_mat(src0: _To[ggml_tensor], src1: _To[ggml_tensor], dst: _To[ggml_tensor], wdata: _Address, wsize: _Int) -> None:
    """Would multiply matrices (CLBlast backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        src0: first operand: any tensor, any shape.
        src1: second operand: any tensor, any shape.
        dst: tensor for the result: any tensor, any shape.
        wdata: address of work memory.
        wsize: bytes of work memory, from ggml_cl_mul_mat_get_wsize.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CLBlast backend.
    """
def ggml_cl_mul_mat_get_wsize(src0: _To[ggml_tensor], src1: _To[ggml_tensor], dst: _To[ggml_tensor]) -> int:
    """Would return the bytes of work memory that a matrix product needs (CLBlast backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        src0: first operand: any tensor, any shape.
        src1: second operand: any tensor, any shape.
        dst: tensor for the result: any tensor, any shape.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CLBlast backend.
    """
def ggml_cl_transform_tensor(data: _Address, tensor: _To[ggml_tensor]) -> None:
    """Would copy the data of a tensor to the device (CLBlast backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        data: address of the data in host memory.
        tensor: the tensor: any tensor, any shape.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the CLBlast backend.
    """
def ggml_clamp(ctx: _Address, a: _To[ggml_tensor], min: _Float, max: _Float) -> ggml_tensor_p:
    """Limits each element to a range: min(max(a, min), max).

    NaN stays NaN. The result is a new tensor, whereas the function of this name in the C library overwrites a; see
    ggml_clamp_inplace. The gradient flows to a where it lies in the range, bounds included.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        min: lower bound, a number; -inf for none.
        max: upper bound, a number not below min; inf for none.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: min or max is not a number.
        ValueError: min is above max, one of them is NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_clamp_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], min: _Float, max: _Float) -> ggml_tensor_p:
    """Computes the gradient of ggml_clamp: a where min <= b <= max, else 0.

    The result is also 0 where b is NaN. The gradient flows to a where b lies in the range; b has none.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_clamp, f32, f16 or bf16, any shape.
        b: argument that was clamped, f32, f16 or bf16, of the shape of a.
        min: lower bound of the clamp, a number.
        max: upper bound of the clamp, a number.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: min or max is not a number.
        ValueError: min is above max, one of them is NaN, the shapes of a and b differ, or a type is not f32, f16 or
            bf16.
        MemoryError: the context is full.
    """
def ggml_clamp_inplace(ctx: _Address, a: _To[ggml_tensor], min: _Float, max: _Float) -> ggml_tensor_p:
    """Limits the elements of a to a range and stores them back to a, as the C library's ggml_clamp does.

    The gradient depends on which elements were in the range: ggml_build_backward_expand raises ValueError if a
    needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten.
        min: lower bound, a number; -inf for none.
        max: upper bound, a number not below min; inf for none.
    Returns:
        View of all of a.
    Raises:
        TypeError: min or max is not a number.
        ValueError: min is above max, one of them is NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_col2im_1d(ctx: _Address, a: _To[ggml_tensor], s0: _Int, oc: _Int, p0: _Int) -> ggml_tensor_p:
    """Adds up overlapping columns to signals: result[i * s0 - p0 + j, c, n] += a[c * k + j, i, n].

    After ggml_mul_mat with a flattened kernel this completes a transposed convolution. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: columns [k * oc, length, batch], f32, f16 or bf16.
        s0: distance of neighbouring columns in the result, 1 or more.
        oc: number of output channels, a divisor of a.ne[0].
        p0: elements to cut off at each end of the result, 0 or more.
    Returns:
        Tensor [(length - 1) * s0 + k - 2 * p0, oc, batch] of a's type.
    Raises:
        ValueError: oc is not a divisor, s0 or p0 is invalid, a is empty or not of a float type, or p0 leaves nothing.
        MemoryError: the context is full.
    """
def ggml_commit() -> bytes:
    """Returns the commit of the C library; there is none, since this package is not built from it.

    Returns:
        b"unknown".
    """
def ggml_concat(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], dim: _Int) -> ggml_tensor_p:
    """Joins two tensors along one dimension, the elements of a first.

    The gradient flows to a and b, to each from its part.

    Args:
        ctx: context that receives the result.
        a: any type, [ne0, ne1, ne2, ne3].
        b: tensor of a's type, with the shape of a except in dimension dim.
        dim: dimension to join along, 0 to 3.
    Returns:
        Tensor of a's type with result.ne[dim] = a.ne[dim] + b.ne[dim], otherwise a's shape.
    Raises:
        ValueError: dim is not 0 to 3, the types differ, or another dimension differs.
        MemoryError: the context is full.
    """
def ggml_cont(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Copies a tensor into contiguous memory.

    Makes a permuted, transposed or otherwise strided view usable for operations that need contiguous operands, such
    as ggml_reshape. A contiguous a is copied, too. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor to copy, any type, any shape [ne0, ne1, ne2, ne3].
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        MemoryError: the context is full.
    """
def ggml_cont_1d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int) -> ggml_tensor_p:
    """Copies a tensor into a contiguous vector.

    Elements keep the order of their indices: dimension 0 of a varies fastest. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of ne0 elements, any type, any shape [a.ne0, a.ne1, a.ne2, a.ne3].
        ne0: number of elements.
    Returns:
        Contiguous tensor [ne0] of a's type.
    Raises:
        ValueError: a has another number of elements, or a is quantised and either ne0 is not a multiple of the block
            or a is not contiguous and its rows have another length.
        MemoryError: the context is full.
    """
def ggml_cont_2d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int) -> ggml_tensor_p:
    """Copies a tensor into a contiguous matrix.

    Combines ggml_cont and ggml_reshape_2d in one node: elements keep the order of their indices. The gradient flows
    to a.

    Args:
        ctx: context that receives the result.
        a: tensor of ne0 * ne1 elements, any type, any shape [a.ne0, a.ne1, a.ne2, a.ne3].
        ne0: length of a row.
        ne1: number of rows.
    Returns:
        Contiguous tensor [ne0, ne1] of a's type.
    Raises:
        ValueError: a has another number of elements, or a is quantised and either ne0 is not a multiple of the block
            or a is not contiguous and its rows have another length.
        MemoryError: the context is full.
    """
def ggml_cont_3d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int, ne2: _Int) -> ggml_tensor_p:
    """Copies a tensor into contiguous memory with three dimensions of the given sizes.

    Combines ggml_cont and ggml_reshape_3d in one node: elements keep the order of their indices. The gradient flows
    to a.

    Args:
        ctx: context that receives the result.
        a: tensor of ne0 * ne1 * ne2 elements, any type, any shape [a.ne0, a.ne1, a.ne2, a.ne3].
        ne0: length of a row.
        ne1: number of rows of a matrix.
        ne2: number of matrices.
    Returns:
        Contiguous tensor [ne0, ne1, ne2] of a's type.
    Raises:
        ValueError: a has another number of elements, or a is quantised and either ne0 is not a multiple of the block
            or a is not contiguous and its rows have another length.
        MemoryError: the context is full.
    """
def ggml_cont_4d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int, ne2: _Int, ne3: _Int) -> ggml_tensor_p:
    """Copies a tensor into contiguous memory with four dimensions of the given sizes.

    Combines ggml_cont and ggml_reshape_4d in one node: elements keep the order of their indices. The gradient flows
    to a.

    Args:
        ctx: context that receives the result.
        a: tensor of ne0 * ne1 * ne2 * ne3 elements, any type, any shape [a.ne0, a.ne1, a.ne2, a.ne3].
        ne0: size of dimension 0, the length of a row.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
    Returns:
        Contiguous tensor [ne0, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: a has another number of elements, or a is quantised and either ne0 is not a multiple of the block
            or a is not contiguous and its rows have another length.
        MemoryError: the context is full.
    """
def ggml_conv_1d(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, p0: _Int, d0: _Int) -> ggml_tensor_p:
    """Convolves signals along dimension 0.

    result[o, f, n] = sum over j, c of a[j, c, f] * b[o * s0 - p0 + j * d0, c, n]. The kernel is not mirrored (a
    cross-correlation), and elements outside b count as 0. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [k, in_channels, out_channels], f32, f16 or bf16.
        b: data [length, in_channels, batch], f32, f16 or bf16.
        s0: stride, 1 or more.
        p0: zeros at each end of the data, 0 or more.
        d0: dilation, the distance of neighbouring kernel elements, 1 or more.
    Returns:
        f32 tensor [(length + 2 * p0 - d0 * (k - 1) - 1) // s0 + 1, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is longer than the padded
            data.
        MemoryError: the context is full.
    """
def ggml_conv_1d_dw(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, p0: _Int, d0: _Int) -> ggml_tensor_p:
    """Convolves each channel of signals with a kernel of its own (depthwise convolution).

    result[o, c, n] = sum over j of a[j, 0, c] * b[o * s0 - p0 + j * d0, c, n], with 0 for elements outside b.
    The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernels [k, 1, channels], f32, f16 or bf16.
        b: data [length, channels, batch], f32, f16 or bf16.
        s0: stride, 1 or more.
        p0: zeros at each end of the data, 0 or more.
        d0: dilation, 1 or more.
    Returns:
        f32 tensor [(length + 2 * p0 - d0 * (k - 1) - 1) // s0 + 1, channels, batch].
    Raises:
        ValueError: there is not one kernel for each channel, a type or parameter is invalid, or the kernel is
            longer than the padded data.
        MemoryError: the context is full.
    """
def ggml_conv_1d_dw_ph(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, d0: _Int) -> ggml_tensor_p:
    """Convolves each channel of signals with a kernel of its own and a padding of half the kernel's length.

    This is ggml_conv_1d_dw with p0 = k // 2. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernels [k, 1, channels], f32, f16 or bf16.
        b: data [length, channels, batch], f32, f16 or bf16.
        s0: stride, 1 or more.
        d0: dilation, 1 or more.
    Returns:
        f32 tensor [(length + 2 * (k // 2) - d0 * (k - 1) - 1) // s0 + 1, channels, batch].
    Raises:
        ValueError: there is not one kernel for each channel, a type or parameter is invalid, or the kernel is
            longer than the padded data.
        MemoryError: the context is full.
    """
def ggml_conv_1d_ph(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s: _Int, d: _Int) -> ggml_tensor_p:
    """Convolves signals along dimension 0 with a padding of half the kernel's length.

    This is ggml_conv_1d with p0 = k // 2. With an odd k, s = 1 and d = 1 the result is as long as the data. The
    gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [k, in_channels, out_channels], f32, f16 or bf16.
        b: data [length, in_channels, batch], f32, f16 or bf16.
        s: stride, 1 or more.
        d: dilation, 1 or more.
    Returns:
        f32 tensor [(length + 2 * (k // 2) - d * (k - 1) - 1) // s + 1, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is longer than the padded
            data.
        MemoryError: the context is full.
    """
def ggml_conv_2d(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, s1: _Int, p0: _Int, p1: _Int, d0: _Int, d1: _Int) -> ggml_tensor_p:
    """Convolves images: each output channel is the sum of all input channels, each correlated with its kernel.

    The kernel is not mirrored, and pixels outside b count as 0. The convolution is direct: no intermediate
    tensor of patches is stored. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], f32, f16 or bf16.
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: columns of zeros at each side, 0 or more.
        p1: rows of zeros above and below, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
    Returns:
        f32 tensor [ow, oh, out_channels, batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh
            likewise.
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is larger than the padded
            image.
        MemoryError: the context is full.
    """
def ggml_conv_2d_direct(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, s1: _Int, p0: _Int, p1: _Int, d0: _Int, d1: _Int) -> ggml_tensor_p:
    """Convolves images without an intermediate tensor of patches, as ggml_conv_2d does in this library.

    Both names make the same node, so they do not differ in speed or memory. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], f32, f16 or bf16.
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: columns of zeros at each side, 0 or more.
        p1: rows of zeros above and below, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
    Returns:
        f32 tensor [ow, oh, out_channels, batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh
            likewise.
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is larger than the padded
            image.
        MemoryError: the context is full.
    See also:
        ggml.ext.conv_2d, with a bias, a function, kernels of bytes and a choice of algorithms.
    """
def ggml_conv_2d_dw(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, s1: _Int, p0: _Int, p1: _Int, d0: _Int, d1: _Int) -> ggml_tensor_p:
    """Convolves each channel of images with a kernel of its own (depthwise convolution).

    The kernel is not mirrored, and pixels outside b count as 0. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernels [kw, kh, 1, channels], f32, f16 or bf16.
        b: images [width, height, channels, batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: columns of zeros at each side, 0 or more.
        p1: rows of zeros above and below, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh
            likewise.
    Raises:
        ValueError: there is not one kernel for each channel, a type or parameter is invalid, or the kernel is
            larger than the padded image.
        MemoryError: the context is full.
    """
def ggml_conv_2d_dw_direct(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], stride0: _Int, stride1: _Int, pad0: _Int, pad1: _Int, dilation0: _Int, dilation1: _Int) -> ggml_tensor_p:
    """Convolves each channel of images with its own kernel and keeps the memory layout of the images.

    Computes the same as ggml_conv_2d_dw. Where the channels of b are adjacent in memory (a permuted view of
    contiguous [channels, width, height, batch]), so are those of the result. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernels [kw, kh, 1, channels], f32, f16 or bf16.
        b: images [width, height, channels, batch], f32, f16 or bf16.
        stride0: stride along the width, 1 or more.
        stride1: stride along the height, 1 or more.
        pad0: columns of zeros at each side, 0 or more.
        pad1: rows of zeros above and below, 0 or more.
        dilation0: dilation along the width, 1 or more.
        dilation1: dilation along the height, 1 or more.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = (width + 2 * pad0 - dilation0 * (kw - 1) - 1) // stride0 + 1
            and oh likewise.
    Raises:
        ValueError: there is not one kernel for each channel, a type or parameter is invalid, or the kernel is
            larger than the padded image.
        MemoryError: the context is full.
    See also:
        ggml.ext.conv_2d_dw, with a bias and a function.
    """
def ggml_conv_2d_s1_ph(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Convolves images with stride 1 and a padding of half the kernel's size.

    With a kernel of odd width and height the result is as large as the image. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], f32, f16 or bf16.
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
    Returns:
        f32 tensor [width + 2 * (kw // 2) - kw + 1, height + 2 * (kh // 2) - kh + 1, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type is not a float type, or the kernel is larger than the padded image.
        MemoryError: the context is full.
    """
def ggml_conv_2d_sk_p0(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Convolves images patch by patch: the stride is the kernel's size and there is no padding.

    Patches do not overlap; columns and rows that fill no whole patch are ignored. This is the patch embedding of a
    vision transformer. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], f32, f16 or bf16.
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
    Returns:
        f32 tensor [width // kw, height // kh, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type is not a float type, or the kernel is larger than the image.
        MemoryError: the context is full.
    """
def ggml_conv_3d(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], IC: _Int, s0: _Int, s1: _Int, s2: _Int, p0: _Int, p1: _Int, p2: _Int, d0: _Int, d1: _Int, d2: _Int) -> ggml_tensor_p:
    """Convolves volumes whose dimension 3 holds channels and batch.

    The kernel is not mirrored, and voxels outside b count as 0. Within dimension 3 the input channel varies
    fastest in a and b, the output channel in the result. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, kd, IC * out_channels], f32, f16 or bf16.
        b: volumes [width, height, depth, IC * batch], f32, f16 or bf16.
        IC: number of input channels, a divisor of a.ne[3] and b.ne[3].
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        s2: stride along the depth, 1 or more.
        p0: zeros at each end of the width, 0 or more.
        p1: zeros at each end of the height, 0 or more.
        p2: zeros at each end of the depth, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
        d2: dilation along the depth, 1 or more.
    Returns:
        f32 tensor [ow, oh, od, out_channels * batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1, oh
            and od likewise.
    Raises:
        ValueError: IC is not a divisor, a type or parameter is invalid, or the kernel is larger than the padded
            volume.
        MemoryError: the context is full.
    """
def ggml_conv_3d_direct(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, s1: _Int, s2: _Int, p0: _Int, p1: _Int, p2: _Int, d0: _Int, d1: _Int, d2: _Int, n_channels: _Int, n_batch: _Int, n_channels_out: _Int) -> ggml_tensor_p:
    """Convolves volumes with the numbers of channels and the batch size given explicitly.

    Computes the same as ggml_conv_3d, which derives these numbers from the shapes. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, kd, n_channels * n_channels_out], f32, f16 or bf16.
        b: volumes [width, height, depth, n_channels * n_batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        s2: stride along the depth, 1 or more.
        p0: zeros at each end of the width, 0 or more.
        p1: zeros at each end of the height, 0 or more.
        p2: zeros at each end of the depth, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
        d2: dilation along the depth, 1 or more.
        n_channels: number of input channels, 1 or more.
        n_batch: number of volumes.
        n_channels_out: number of output channels.
    Returns:
        f32 tensor [ow, oh, od, n_channels_out * n_batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1,
            oh and od likewise.
    Raises:
        ValueError: dimension 3 of a or b is not the product given, a type or parameter is invalid, or the kernel is
            larger than the padded volume.
        MemoryError: the context is full.
    """
def ggml_conv_depthwise_2d(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, s1: _Int, p0: _Int, p1: _Int, d0: _Int, d1: _Int) -> ggml_tensor_p:
    """Convolves each channel of images with a kernel of its own, under the name that older releases used.

    ggml_conv_2d_dw makes the same node. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernels [kw, kh, 1, channels], f32, f16 or bf16.
        b: images [width, height, channels, batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: columns of zeros at each side, 0 or more.
        p1: rows of zeros above and below, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh
            likewise.
    Raises:
        ValueError: there is not one kernel for each channel, a type or parameter is invalid, or the kernel is
            larger than the padded image.
        MemoryError: the context is full.
    """
def ggml_conv_transpose_1d(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, p0: _Int, d0: _Int) -> ggml_tensor_p:
    """Computes the transposed convolution of signals.

    Each element of b adds a scaled copy of the kernel to the result:
    result[i * s0 - p0 + j * d0, f, n] += a[j, f, c] * b[i, c, n] for all i, j and c. The operation is the gradient
    of ggml_conv_1d with respect to its data. Its own gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [k, out_channels, in_channels], f32, f16 or bf16.
        b: data [length, in_channels, batch], f32, f16 or bf16.
        s0: distance of the copies in the result, 1 or more.
        p0: elements to cut off at each end of the result, 0 or more.
        d0: dilation of the kernel, 1 or more.
    Returns:
        f32 tensor [(length - 1) * s0 + (k - 1) * d0 + 1 - 2 * p0, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, a or b is empty, or p0 leaves nothing.
        MemoryError: the context is full.
    """
def ggml_conv_transpose_2d_p0(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], stride: _Int) -> ggml_tensor_p:
    """Computes the transposed convolution of images: each input pixel adds a scaled copy of the kernel to the result.

    There is no padding: nothing is cut off. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, out_channels, in_channels], f32, f16 or bf16.
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
        stride: distance of the copies in the result along width and height, 1 or more.
    Returns:
        f32 tensor [(width - 1) * stride + kw, (height - 1) * stride + kh, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type is not a float type, stride is less than 1, or a or b is empty.
        MemoryError: the context is full.
    """
def ggml_cos(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the cosine of each element, given in radians.

    Infinite elements give NaN. The gradient flows to a, multiplied by -sin(a).

    Args:
        ctx: context that receives the result.
        a: angles in radians, f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from -1 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_cos_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Overwrites the angles in a with their cosines.

    Since the angles are lost, ggml_build_backward_expand raises ValueError if a needs a gradient.

    Args:
        ctx: context that receives the node.
        a: angles in radians, f32, f16 or bf16, any shape; its memory holds the cosines.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_count_equal(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Counts the positions at which two integer tensors are equal.

    With results of ggml_argmax this gives the number of correct predictions. There is no gradient.

    Args:
        ctx: context that receives the result.
        a: i32, any shape.
        b: i32, of the shape of a.
    Returns:
        i64 tensor [1].
    Raises:
        ValueError: the shapes differ, or a type is not i32.
        MemoryError: the context is full.
    """
def ggml_cpu_bf16_to_fp32(x: _To[ggml_bf16_t], y: _Pointer, k: _Int) -> None:
    """Converts bfloat16 numbers to float32; the CPU backend's name for ggml_bf16_to_fp32_row.

    Args:
        x: k bfloat16 values to read (2 * k bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        y: memory for k float32 values (4 * k bytes), given in the same ways. It is overwritten.
        k: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is not memory, or k is not an integer.
        ValueError: k is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_cpu_fp16_to_fp32(x: _Pointer, y: _Pointer, k: _Int) -> None:
    """Converts half-precision numbers to float32; the CPU backend's name for ggml_fp16_to_fp32_row.

    Args:
        x: k halves to read (2 * k bytes): a contiguous buffer such as a NumPy array, a ctypes array or pointer, or
            an address.
        y: memory for k float32 values (4 * k bytes), given in the same ways. It is overwritten.
        k: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is not memory, or k is not an integer.
        ValueError: k is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_cpu_fp32_to_bf16(x: _Pointer, y: _To[ggml_bf16_t], k: _Int) -> None:
    """Rounds float32 numbers to bfloat16; the CPU backend's name for ggml_fp32_to_bf16_row.

    Args:
        x: k float32 values to read (4 * k bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        y: memory for k bfloat16 values (2 * k bytes), given in the same ways. It is overwritten.
        k: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is not memory, or k is not an integer.
        ValueError: k is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_cpu_fp32_to_fp16(x: _Pointer, y: _Pointer, k: _Int) -> None:
    """Rounds float32 numbers to half precision; the CPU backend's name for ggml_fp32_to_fp16_row.

    Args:
        x: k float32 values to read (4 * k bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        y: memory for k halves (2 * k bytes), given in the same ways. It is overwritten.
        k: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is not memory, or k is not an integer.
        ValueError: k is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_cpu_fp32_to_fp32(x: _Pointer, y: _Pointer, k: _Int) -> None:
    """Copies an array of float32 numbers.

    Args:
        x: k float32 values to read (4 * k bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        y: memory for k float32 values, given in the same ways. It is overwritten and must not overlap x.
        k: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is not memory, or k is not an integer.
        ValueError: k is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_cpu_fp32_to_i32(x: _Pointer, y: _Pointer, k: _Int) -> None:
    """Converts an array of float32 numbers to int32 by truncation.

    Values are truncated towards zero; those outside the range of int32 become its nearest end, and NaN becomes 0.

    Args:
        x: k float32 values to read (4 * k bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        y: memory for k int32 values (4 * k bytes), given in the same ways. It is overwritten.
        k: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is not memory, or k is not an integer.
        ValueError: k is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_cpu_get_rvv_vlen() -> int:
    """Returns the size of a RISC-V vector register; no kernel of this build uses them.

    Returns:
        0, also on RISC-V.
    """
def ggml_cpu_get_sve_cnt() -> int:
    """Returns the size of an SVE register; no kernel of this build uses SVE.

    Returns:
        0 on every machine.
    """
def ggml_cpu_has_amx_int8() -> int:
    """Tells whether the CPU has AMX-INT8, products of 8-bit matrix tiles.

    The operating system must save the tile registers, too. No kernel here uses AMX.

    Returns:
        1 if AMX-INT8 can be used, else 0 (int).
    """
def ggml_cpu_has_arm_fma() -> int:
    """Tells whether the CPU has the fused multiply-add of ARM.

    It is part of NEON on 64-bit ARM.

    Returns:
        1 on 64-bit ARM, 0 elsewhere (int); ggml_cpu_has_fma answers for x86-64.
    """
def ggml_cpu_has_avx() -> int:
    """Tells whether the CPU has AVX, the 256-bit floating-point instructions of x86-64.

    The operating system must save the 256-bit registers, too.

    Returns:
        1 if AVX can be used, else 0 (int).
    """
def ggml_cpu_has_avx2() -> int:
    """Tells whether the CPU has AVX2, the 256-bit integer instructions of x86-64.

    With FMA and F16C, it is the least that the vectorised kernels of x86-64 need.

    Returns:
        1 if AVX2 can be used and the operating system saves its registers, else 0 (int).
    """
def ggml_cpu_has_avx512() -> int:
    """Tells whether the CPU has AVX-512F, the foundation of the 512-bit instructions.

    The AVX-512 kernels also need BW, DQ and VL, for which there are no functions.

    Returns:
        1 if AVX-512F can be used and the operating system saves its registers, else 0 (int).
    """
def ggml_cpu_has_avx512_bf16() -> int:
    """Tells whether the CPU has AVX-512 BF16, dot products of bfloat16 numbers.

    Returns:
        1 if AVX-512 BF16 can be used, else 0 (int).
    """
def ggml_cpu_has_avx512_vbmi() -> int:
    """Tells whether the CPU has AVX-512 VBMI, which permutes the bytes of 512-bit registers.

    Returns:
        1 if AVX-512 VBMI can be used, else 0 (int).
    """
def ggml_cpu_has_avx512_vnni() -> int:
    """Tells whether the CPU has AVX-512 VNNI, 8-bit dot products in 512-bit registers.

    The kernels of quantised types named avx512vnni use it.

    Returns:
        1 if AVX-512 VNNI can be used, else 0 (int).
    """
def ggml_cpu_has_avx_vnni() -> int:
    """Tells whether the CPU has AVX-VNNI, 8-bit dot products in 256-bit registers.

    With AVX2, the kernels of quantised types named avx2vnni use it.

    Returns:
        1 if AVX-VNNI can be used, else 0 (int).
    """
def ggml_cpu_has_blas() -> int:
    """Tells whether the build multiplies matrices with a BLAS library.

    Returns:
        0: this build multiplies with its own kernels.
    """
def ggml_cpu_has_bmi2() -> int:
    """Tells whether the CPU has BMI2, which extracts and deposits groups of bits.

    BMI2 works on general registers; no kernel here needs it.

    Returns:
        1 if the CPU has BMI2, else 0 (int).
    """
def ggml_cpu_has_cuda() -> int:
    """Tells whether the build has a CUDA backend for NVIDIA's GPUs.

    Returns:
        0: this build has no CUDA backend.
    """
def ggml_cpu_has_dotprod() -> int:
    """Tells whether the CPU has ARM's dot product instructions for 8-bit integers.

    The kernels of quantised types named dotprod use them.

    Returns:
        1 if the operating system reports FEAT_DotProd, else 0 (int).
    """
def ggml_cpu_has_f16c() -> int:
    """Tells whether the CPU has F16C, which converts between half precision and float32.

    The AVX2 kernels require it.

    Returns:
        1 if F16C can be used, else 0 (int).
    """
def ggml_cpu_has_fma() -> int:
    """Tells whether the CPU has FMA3, the fused multiply-add of x86-64.

    It rounds a * b + c once. The AVX2 kernels require it.

    Returns:
        1 if FMA3 can be used, else 0 (int); ggml_cpu_has_arm_fma answers for ARM.
    """
def ggml_cpu_has_fp16_va() -> int:
    """Tells whether the CPU has FP16 vector arithmetic, ARM's calculation in half precision.

    It is detected on Linux and macOS.

    Returns:
        1 if the operating system reports FEAT_FP16, else 0 (int).
    """
def ggml_cpu_has_gpublas() -> int:
    """Tells whether the build multiplies matrices with a BLAS library on a GPU.

    Returns:
        0: this build uses no GPU.
    """
def ggml_cpu_has_kompute() -> int:
    """Tells whether the build has a Kompute backend, which runs on Vulkan devices.

    Returns:
        0: this build has no Kompute backend.
    """
def ggml_cpu_has_llamafile() -> int:
    """Tells whether the build has the matrix kernels of llamafile; this one has its own.

    Returns:
        0 in every build.
    """
def ggml_cpu_has_matmul_int8() -> int:
    """Tells whether the CPU has I8MM, ARM's products of 8-bit matrices.

    The kernels named i8mm need it and the dot product. It is detected on Linux and macOS.

    Returns:
        1 if the operating system reports FEAT_I8MM, else 0 (int).
    """
def ggml_cpu_has_metal() -> int:
    """Tells whether the build has a Metal backend for Apple's GPUs.

    Returns:
        0: this build computes on the CPU.
    """
def ggml_cpu_has_neon() -> int:
    """Tells whether the CPU has NEON, the 128-bit vector instructions of ARM.

    Returns:
        1 on every 64-bit ARM CPU, 0 elsewhere (int).
    """
def ggml_cpu_has_riscv_v() -> int:
    """Tells whether kernels can use V, the vector extension of RISC-V; this build has none.

    Returns:
        0, also on CPUs with the V extension.
    """
def ggml_cpu_has_sme() -> int:
    """Tells whether kernels can use SME, the matrix extension of ARM; this build has none.

    Returns:
        0, also on CPUs with SME.
    """
def ggml_cpu_has_sme2() -> int:
    """Tells whether kernels can use SME2, the second version of ARM's matrix extension; this build has none.

    Returns:
        0, also on CPUs with SME2.
    """
def ggml_cpu_has_sse3() -> int:
    """Tells whether the CPU has SSE3, the third set of 128-bit instructions of x86-64.

    It adds sums of neighbouring elements. No kernel here depends on it.

    Returns:
        1 if the CPU has SSE3, else 0 (int).
    """
def ggml_cpu_has_ssse3() -> int:
    """Tells whether the CPU has SSSE3, which shuffles the bytes of 128-bit registers.

    Returns:
        1 if the CPU has SSSE3, else 0 (int).
    """
def ggml_cpu_has_sve() -> int:
    """Tells whether the CPU has SVE, ARM's vectors of scalable length.

    It is detected on Linux. No kernel here uses it.

    Returns:
        1 if the operating system reports SVE, else 0 (int).
    """
def ggml_cpu_has_sycl() -> int:
    """Tells whether the build has a SYCL backend for Intel's GPUs.

    Returns:
        0: this build has no SYCL backend.
    """
def ggml_cpu_has_vsx() -> int:
    """Tells whether kernels can use VSX, the vector instructions of POWER; this build has none.

    Returns:
        0, also on POWER.
    """
def ggml_cpu_has_vulkan() -> int:
    """Tells whether the build has a Vulkan backend.

    Returns:
        0: this build has no Vulkan backend.
    """
def ggml_cpu_has_vxe() -> int:
    """Tells whether kernels can use VXE, the vectors of z/Architecture; this build has none.

    Returns:
        0, also on z/Architecture.
    """
def ggml_cpu_has_wasm_simd() -> int:
    """Tells whether the build is for WebAssembly with SIMD, which this package does not support.

    Returns:
        0 on every machine.
    """
def ggml_cpu_init() -> None:
    """Does nothing; the kernels were chosen when the module was imported.

    The environment variable GGML_ISA selects the instruction set at import.

    Returns:
        None.
    """
def ggml_cpy(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Writes the elements of a over those of b, converted to the type of b.

    Elements are taken in order of their indices, so the shapes may differ. Conversion from a float to an integer
    truncates and saturates; conversion to a quantised type limits the scales of its blocks to the largest finite ones.
    The gradient flows to a only.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: source, any type, any shape [ne0, ne1, ne2, ne3].
        b: destination, any shape with as many elements as a, of any type that a's converts to. A quantised type
            converts to itself and to f32, f16, bf16 and f64; only these four floating-point types convert to a
            quantised one.
    Returns:
        View of b, which holds the converted elements once the graph has computed it.
    Raises:
        ValueError: the numbers of elements differ, there is no conversion, the type of b needs importance weights,
            or one side is quantised, the rows have different lengths and not both tensors are contiguous.
        MemoryError: the context is full.
    """
def ggml_cross_entropy_loss(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the cross entropy of logits and labels: the mean over the rows of -sum(b * log(softmax(a))).

    A label of 0 contributes nothing, even where the logit is -inf. The gradient flows to a, as
    ggml_cross_entropy_loss_back computes it, and to b.

    Args:
        ctx: context that receives the result.
        a: logits, f32, [n_classes, ne1, ne2, ne3].
        b: labels, probabilities of the classes, f32, of the shape of a.
    Returns:
        f32 tensor [1].
    Raises:
        ValueError: the shapes differ, or a type is not f32.
        MemoryError: the context is full.
    """
def ggml_cross_entropy_loss_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the gradient of ggml_cross_entropy_loss with respect to its logits.

    With n rows the result is a / n * (softmax(b) * sum(c) - c), with the sum over each row; labels need not sum to 1.
    The gradient flows to a, b and c.

    Args:
        ctx: context that receives the result.
        a: gradient of the loss, f32 [1].
        b: logits, f32, [n_classes, ne1, ne2, ne3].
        c: labels, f32, of the shape of b.
    Returns:
        f32 tensor of b's shape.
    Raises:
        ValueError: a is not one f32, the shapes of b and c differ, or their type is not f32.
        MemoryError: the context is full.
    """
def ggml_cumsum(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the running sums of each row: y[i] = a[0] + ... + a[i].

    The sums are accumulated in double precision. The gradient flows to a as the running sums from the end of the row.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_custom_4d(ctx: _Address, type_: _Int, ne0: _Int, ne1: _Int, ne2: _Int, ne3: _Int, args: _Pointer, n_args: _Int, fun: ggml_custom_op_t | Callable[..., Any] | int | None, n_tasks: _Int, userdata: _Address) -> ggml_tensor_p:
    """Creates a tensor of any type and shape that a callback computes from any number of operands.

    Computing the node calls fun(dst, ith, nth, userdata) once for each of nth tasks; the operands are
    dst.contents.src. See ggml_map_custom1 for tasks and exceptions. ggml.ext.custom_set_backward gives the node a
    gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        type_: type of the result, GGML_TYPE_*.
        ne0: size of dimension 0.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
        args: operands: a list, tuple or array of n_args tensor pointers.
        n_args: number of operands, 0 to GGML_MAX_SRC (10).
        fun: ggml_custom_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        Contiguous tensor [ne0, ne1, ne2, ne3] of type type_.
    Raises:
        TypeError: fun is not a callback of this kind, or an operand or userdata is of the wrong kind.
        ValueError: type_, a size, n_args or n_tasks is invalid, args has fewer entries, or fun is None.
        RuntimeError: an entry of an array is not a tensor of a live context.
        MemoryError: the context is full.
    """
def ggml_custom_inplace(ctx: _Address, a: _To[ggml_tensor], args: _Pointer, n_args: _Int, fun: ggml_custom_op_t | Callable[..., Any] | int | None, n_tasks: _Int, userdata: _Address) -> ggml_tensor_p:
    """Lets a callback overwrite a tensor, with any number of further operands.

    Computing the node calls fun(dst, ith, nth, userdata) once for each of nth tasks. dst.contents.src[0] is a,
    whose data dst shares; args follow from src[1] on. See ggml_map_custom1 for tasks and exceptions.
    ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: tensor to overwrite, any type, any shape [ne0, ne1, ne2, ne3].
        args: further operands: a list, tuple or array of n_args tensor pointers.
        n_args: number of further operands, 0 to GGML_MAX_SRC - 1 (9).
        fun: ggml_custom_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        View of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is not a callback of this kind, or an operand or userdata is of the wrong kind.
        ValueError: n_args or n_tasks is invalid, args has fewer entries, or fun is None.
        RuntimeError: an entry of an array is not a tensor of a live context.
        MemoryError: the context is full.
    """
def ggml_cycles() -> int:
    """Reads the performance counter.

    A tick is a nanosecond, not a processor cycle.

    Returns:
        Ticks since an unspecified start (int).
    See also:
        ggml_cycles_per_ms gives the ticks of a millisecond.
    """
def ggml_cycles_per_ms() -> int:
    """Returns the number of ggml_cycles ticks in a millisecond.

    Returns:
        1000000 (int).
    """
def ggml_diag(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Builds diagonal matrices from rows: result[i, i] = a[i], all other elements are 0.

    The gradient with respect to a is the diagonal of the result's gradient.

    Args:
        ctx: context that receives the result.
        a: diagonals [n, 1, ne2, ne3] of any type that is not quantised.
    Returns:
        Tensor [n, n, ne2, ne3] of a's type.
    Raises:
        ValueError: a.ne[1] is not 1, or a is quantised.
        MemoryError: the context is full.
    """
def ggml_diag_mask_inf(ctx: _Address, a: _To[ggml_tensor], n_past: _Int) -> ggml_tensor_p:
    """Sets the elements above a diagonal to -inf: a causal mask for attention scores.

    Element [i0, i1] of each matrix is masked where i0 > n_past + i1, so that query i1 sees the keys up to n_past + i1.
    The gradient flows to a where it is not masked.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [n_keys, n_queries, ne2, ne3].
        n_past: number of keys before the first query, a 32-bit integer.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: n_past is not an integer.
        ValueError: n_past does not fit into 32 bits, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_diag_mask_inf_inplace(ctx: _Address, a: _To[ggml_tensor], n_past: _Int) -> ggml_tensor_p:
    """Writes -inf over the elements of a above a diagonal: those with i0 > n_past + i1.

    The other elements are not changed. The gradient needs no element of a and remains available.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [n_keys, n_queries, ne2, ne3]; partly overwritten.
        n_past: number of keys before the first query, a 32-bit integer.
    Returns:
        View of all of a.
    Raises:
        TypeError: n_past is not an integer.
        ValueError: n_past does not fit into 32 bits, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_diag_mask_zero(ctx: _Address, a: _To[ggml_tensor], n_past: _Int) -> ggml_tensor_p:
    """Sets the elements above a diagonal to 0.

    Element [i0, i1] of each matrix becomes 0 where i0 > n_past + i1; with n_past = 0 the lower triangle remains. The
    gradient flows to a where it is not masked.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        n_past: distance of the last kept diagonal above the main one, a 32-bit integer.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: n_past is not an integer.
        ValueError: n_past does not fit into 32 bits, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_diag_mask_zero_inplace(ctx: _Address, a: _To[ggml_tensor], n_past: _Int) -> ggml_tensor_p:
    """Clears the elements of a above a diagonal: those with i0 > n_past + i1.

    Only the cleared elements change. The gradient is available.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; partly overwritten.
        n_past: distance of the last kept diagonal above the main one, a 32-bit integer.
    Returns:
        View of all of a.
    Raises:
        TypeError: n_past is not an integer.
        ValueError: n_past does not fit into 32 bits, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_div(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Divides two tensors element by element: a / b, with b repeated to the shape of a.

    Division by zero gives infinities, or NaN for 0 / 0. The gradient flows to a, divided by b, and to b, multiplied by
    -a / b^2 and summed over the repeats of b.

    Args:
        ctx: context that receives the result.
        a: dividend, f32, f16 or bf16, any shape.
        b: divisor, f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_div_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Divides a by b element by element and leaves the quotients in a.

    The gradients of a and b are computed from the quotient and b, so both are available.

    Args:
        ctx: context that receives the node.
        a: dividend, f32, f16 or bf16, any shape; the quotient takes its memory.
        b: divisor, f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        View of all of a.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_dup(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Copies a tensor: result = a.

    The result is contiguous even where a is a strided view. The gradient flows to a unchanged.

    Args:
        ctx: context that receives the result.
        a: tensor to copy, any type, any shape [ne0, ne1, ne2, ne3].
    Returns:
        Tensor of a's type and shape.
    Raises:
        MemoryError: the context is full.
    See also:
        ggml_cont, which makes the same copy; ggml_cast, which also converts.
    """
def ggml_dup_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Adds a copy node whose result lies in the memory of a, so that no element changes.

    The result is a view of a with a's strides. Unlike ggml_view_tensor, it counts as an operation of the graph. The
    gradient flows to a unchanged.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: tensor whose memory is used, any type, any shape [ne0, ne1, ne2, ne3].
    Returns:
        View of a, with a's type, shape and strides.
    Raises:
        MemoryError: the context is full.
    """
def ggml_dup_tensor(ctx: _Address, src: _To[ggml_tensor]) -> ggml_tensor_p:
    """Creates a tensor with the type and shape of another.

    Neither the elements nor the strides, the name or the operation of src are copied: the new tensor is contiguous.
    To copy the values in a graph use ggml_dup or ggml_cont.

    Args:
        ctx: context that receives the tensor.
        src: tensor of any shape and any type.
    Returns:
        Tensor with the type and shape of src, with undefined values. In a context with no_alloc it has no data.
    Raises:
        TypeError: ctx is not a context handle, or src is not a tensor pointer.
        ValueError: src is a NULL pointer or has an invalid field.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx or the context of src was freed.
    """
def ggml_element_size(tensor: _To[ggml_tensor]) -> int:
    """Returns the size of one element of a tensor, or of one block if its type is quantised.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Size in bytes (int): 4 for f32, 18 for q4_0 (a block of 32 elements).
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_elu(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the exponential linear unit (arXiv:1511.07289): a where a > 0, else exp(a) - 1.

    The gradient flows to a, multiplied by 1 where a > 0, else by exp(a).

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values above or equal to -1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_elu_back, its gradient.
    """
def ggml_elu_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the gradient of ggml_elu: a where b > 0, else a * exp(b).

    The gradient flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_elu, f32, f16 or bf16, any shape.
        b: argument of ggml_elu, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type: the gradient of the argument.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_elu_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Applies the exponential linear unit to a where it is stored.

    The gradient reads the original elements: ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with elu(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_exp(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the exponential of each element: e^a.

    It underflows gradually and becomes inf where f32 overflows, above about 88.7. The gradient flows to a, multiplied
    by the result.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_exp_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Replaces each element of a by its exponential.

    The result is its own derivative, so overwriting a does not prevent the gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with e^a.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_expm1(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes e^a - 1 without the cancellation of ggml_exp and a subtraction near 0.

    The gradient flows to a, multiplied by the result plus 1.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values above or equal to -1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_expm1_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Replaces each element of a by e^a - 1, accurate near 0.

    The gradient is computed from the result and needs no copy of a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_fill(ctx: _Address, a: _To[ggml_tensor], c: _Float) -> ggml_tensor_p:
    """Creates a tensor like another one with all elements equal to c.

    The elements of a are not read, so no gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16 tensor whose shape [ne0, ne1, ne2, ne3] is used.
        c: value of every element.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_fill_inplace(ctx: _Address, a: _To[ggml_tensor], c: _Float) -> ggml_tensor_p:
    """Sets every element of a to c.

    No gradient flows to the old elements of a.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; it is overwritten.
        c: value of every element.
    Returns:
        View of all of a, after it was filled.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_flash_attn_back(ctx: _Address, q: _To[ggml_tensor], k: _To[ggml_tensor], v: _To[ggml_tensor], d: _To[ggml_tensor], masked: _Bool) -> ggml_tensor_p:
    """Computes the gradients of soft_max(k^T q / sqrt(head_dim)) v with respect to q, k and v.

    Attention is causal or without a mask. The operation has no gradient of its own. ggml_build_backward_expand
    differentiates ggml_flash_attn_ext without this function.

    Args:
        ctx: context that receives the result.
        q: queries, f32, f16 or bf16, [head_dim, n_q, n_heads, batch].
        k: keys, f32, f16 or bf16, [head_dim, n_kv, n_kv_heads, kv_batch]; n_heads and batch are multiples of
            n_kv_heads and kv_batch.
        v: transposed values, f32, f16 or bf16, [n_kv, v_dim, n_kv_heads, kv_batch].
        d: gradient of the attention's result, f32, f16 or bf16, [v_dim, n_q, n_heads, batch].
        masked: True for a causal mask: query i sees the keys 0 to i + n_kv - n_q; it needs n_q <= n_kv.
    Returns:
        f32 vector: the gradients with respect to q, k and v in the shapes of these, each starting at the next
            multiple of 16 bytes.
    Raises:
        ValueError: a shape or type does not fit, or masked is True with more queries than keys.
        MemoryError: the context is full.
    """
def ggml_flash_attn_ext(ctx: _Address, q: _To[ggml_tensor], k: _To[ggml_tensor], v: _To[ggml_tensor], mask: _To[ggml_tensor], scale: _Float, max_bias: _Float, logit_softcap: _Float) -> ggml_tensor_p:
    """Computes attention: result = soft_max(scale * k^T q + slope * mask) v for each head, without storing all scores.

    Consecutive heads of q share a head of k and v (grouped-query attention). With logit_softcap c, scores s
    become c * tanh(s / c) before the mask is added. A query that sees no key gets zeros; keys and values that the
    mask hides (-inf) from all queries may hold anything. Keys are processed block by block with a running softmax
    (FlashAttention, arXiv:2205.14135). The gradient flows to q, k, v, mask and sinks.

    Args:
        ctx: context that receives the result.
        q: queries, f32, f16 or bf16, [head_dim, n_q, n_heads, batch].
        k: keys [head_dim, n_kv, n_kv_heads, kv_batch], f32, f16, bf16 or a quantised type; n_heads and batch are
            multiples of n_kv_heads and kv_batch.
        v: values [v_dim, n_kv, n_kv_heads, kv_batch], f32, f16, bf16 or a quantised type.
        mask: f32, f16 or bf16, [n_kv or more, n_q or more, m2, m3], repeated over heads and batch (multiples of m2
            and m3), or None (NULL).
        scale: factor of the scores, usually 1 / sqrt(head_dim).
        max_bias: 0 for a slope of 1, more for ALiBi (arXiv:2108.12409), whose slopes differ by head; it needs a
            mask.
        logit_softcap: limit c of the scores, 0 for none.
    Returns:
        f32 tensor [v_dim, n_heads, n_q, batch]: heads and queries are exchanged.
    Raises:
        ValueError: a shape or type does not fit, or max_bias is negative or without a mask.
        MemoryError: the context is full.
    See also:
        ggml_flash_attn_ext_add_sinks, which adds a logit to each row of scores.
    """
def ggml_flash_attn_ext_add_sinks(a: _To[ggml_tensor], sinks: _To[ggml_tensor]) -> None:
    """Sets the attention sinks of an attention node: one further logit for each head.

    The sink takes part in the softmax of every row of its head but has no value, so that the weights of the keys
    add up to less than 1. The gradient flows to the sinks.

    Args:
        a: result of ggml_flash_attn_ext, f32 [v_dim, n_heads, n_q, batch]; the node is changed.
        sinks: f32 [n_heads], or None (NULL) to remove the sinks.
    Returns:
        None.
    Raises:
        ValueError: a is not a result of ggml_flash_attn_ext, or sinks has another shape or type; the node then
            keeps the sinks that it had.
    """
def ggml_flash_attn_ext_get_prec(a: _To[ggml_tensor]) -> int:
    """Returns the precision requested for an attention node.

    Args:
        a: result of ggml_flash_attn_ext, f32 [v_dim, n_heads, n_q, batch].
    Returns:
        The value given to ggml_flash_attn_ext_set_prec, GGML_PREC_DEFAULT (0) without such a call.
    Raises:
        ValueError: a is not a result of ggml_flash_attn_ext.
    """
def ggml_flash_attn_ext_set_prec(a: _To[ggml_tensor], prec: _Int) -> None:
    """Stores the precision requested for an attention node.

    The value has no effect on the result: products are summed in f32 with every setting.

    Args:
        a: result of ggml_flash_attn_ext, f32 [v_dim, n_heads, n_q, batch].
        prec: GGML_PREC_DEFAULT or GGML_PREC_F32.
    Returns:
        None.
    Raises:
        ValueError: a is not a result of ggml_flash_attn_ext, or prec is another number.
    """
def ggml_floor(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Rounds each element down to an integer.

    The derivative is 0 wherever it exists, so no gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with integral values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_floor_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Rounds the elements of a down where they are stored.

    No gradient flows to a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with floor(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_fopen(fname: _Text, mode: _Text) -> int | None:
    """Opens a file with the fopen of the C library.

    Close it with fclose of the same C library, for example via ctypes.

    Args:
        fname: name of the file, bytes, str or os.PathLike.
        mode: mode of fopen, bytes or str, as "rb".
    Returns:
        Address of the FILE (int); None if the file cannot be opened.
    Raises:
        TypeError: fname or mode is neither bytes nor str.
        ValueError: fname contains a NUL or cannot be encoded, or mode contains a NUL.
    """
def ggml_format_name(tensor: _To[ggml_tensor], fmt: _Text, *args: Any) -> ggml_tensor_p:
    """Sets the name of a tensor from a printf format and its arguments.

    Args:
        tensor: tensor of any shape and any type; its name is replaced.
        fmt: format, bytes or str, as Python's % operator for bytes takes it. Without arguments it is used as it is.
        *args: values for the format: numbers, ctypes scalars, and bytes for %s.
    Returns:
        The same tensor, named by the first 63 bytes of the text.
    Raises:
        TypeError: tensor is not a tensor pointer, or fmt is neither bytes nor str.
        ValueError: tensor is a NULL pointer or has an invalid field, or the arguments do not fit the format.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_fp16_to_fp32(fp16: _Int) -> float:
    """Converts the bits of an IEEE half-precision number to a float.

    Args:
        fp16: the 16 bits as an integer, 0 to 65535.
    Returns:
        Value (float); every half is exact.
    Raises:
        TypeError: fp16 is not an integer.
        ValueError: fp16 does not fit 16 bits.
    """
def ggml_fp16_to_fp32_row(fp16: _Pointer, fp32: _Pointer, n: _Int) -> None:
    """Converts an array of half-precision numbers to float32.

    Args:
        fp16: n halves to read (2 * n bytes): a contiguous buffer such as a NumPy array, a ctypes array or pointer,
            or an address.
        fp32: memory for n float32 values (4 * n bytes), given in the same ways. It is overwritten.
        n: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: fp16 or fp32 is not memory, or n is not an integer.
        ValueError: n is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_fp32_to_bf16(fp32: _Float) -> ggml_bf16_t:
    """Converts a number to the nearest bfloat16 number.

    The number is rounded to float32 first. Ties go to the even bfloat16; NaN stays NaN.

    Args:
        fp32: number.
    Returns:
        ggml_bf16_t, whose field bits holds the 16 bits.
    Raises:
        TypeError: fp32 is not a number.
    """
def ggml_fp32_to_bf16_row(fp32: _Pointer, bf16: _To[ggml_bf16_t], n: _Int) -> None:
    """Rounds an array of float32 numbers to bfloat16.

    It uses the kernel of the instruction set in use. Ties go to the even bfloat16.

    Args:
        fp32: n float32 values to read (4 * n bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        bf16: memory for n bfloat16 values (2 * n bytes), given in the same ways. It is overwritten.
        n: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: fp32 or bf16 is not memory, or n is not an integer.
        ValueError: n is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_fp32_to_bf16_row_ref(fp32: _Pointer, bf16: _To[ggml_bf16_t], n: _Int) -> None:
    """Rounds an array of float32 numbers to bfloat16 with scalar reference code.

    It converts one number at a time and serves as reference for ggml_fp32_to_bf16_row.

    Args:
        fp32: n float32 values to read (4 * n bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        bf16: memory for n bfloat16 values (2 * n bytes), given in the same ways. It is overwritten.
        n: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: fp32 or bf16 is not memory, or n is not an integer.
        ValueError: n is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_fp32_to_fp16(fp32: _Float) -> int:
    """Converts a number to the bits of the nearest IEEE half-precision number.

    The number is rounded to float32 first. Ties go to the even half; magnitudes from 65520 on become infinite.

    Args:
        fp32: number.
    Returns:
        The 16 bits as an integer, 0 to 65535.
    Raises:
        TypeError: fp32 is not a number.
    """
def ggml_fp32_to_fp16_row(fp32: _Pointer, fp16: _Pointer, n: _Int) -> None:
    """Rounds an array of float32 numbers to half precision.

    Ties go to the even half; magnitudes from 65520 on become infinite.

    Args:
        fp32: n float32 values to read (4 * n bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        fp16: memory for n halves (2 * n bytes), given in the same ways. It is overwritten.
        n: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: fp32 or fp16 is not memory, or n is not an integer.
        ValueError: n is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
def ggml_free(ctx: _Address) -> None:
    """Frees a context with all its tensors and graphs.

    Pointers to them become invalid, and functions that get one raise RuntimeError. NumPy and DLPack views of
    tensors stay valid. Tensors and graphs stay usable only if the arena is memory of the caller (mem_buffer), as
    long as that memory exists.

    Args:
        ctx: context; None is accepted and ignored.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
def ggml_ftype_to_ggml_type(ftype: _Int) -> int:
    """Returns the tensor type that most tensors of a model file have.

    Args:
        ftype: file type, GGML_FTYPE_*.
    Returns:
        GGML_TYPE_* (int), as GGML_TYPE_Q4_0 for GGML_FTYPE_MOSTLY_Q4_0.
    Raises:
        TypeError: ftype is not an integer.
        ValueError: ftype is unknown or stands for no single type, as GGML_FTYPE_MOSTLY_Q4_1_SOME_F16.
    """
def ggml_function(name: str, argtypes: Any, restype: Any, enabled: bool = ...) -> Any:
    """Returns a decorator that replaces the declaration of a C function by the function of this build.

    The ctypes bindings declare their functions with it. The functions of this build convert their arguments
    themselves, so the types have no effect.

    Args:
        name: name of the function, str.
        argtypes: ctypes types of the parameters.
        restype: ctypes type of the result.
        enabled: False for a function that the build does not have.
    Returns:
        Decorator (declaration) -> function. If enabled is False, the function raises RuntimeError when it is
        called.
    Raises:
        AttributeError: this build has no function of that name (raised by the decorator).
    """
def ggml_gallocr_alloc_graph(galloc: _Address, graph: _To[ggml_cgraph]) -> bool:
    """Places the tensors of a graph in the memory of an allocator.

    The buffers grow if necessary. A graph with the structure of one of the last four reuses its plan. Write the
    inputs after this call: the memory of inputs and weights that the allocator has placed is reused after their
    last reader, unless they are marked with ggml_set_output. Tensors that have data elsewhere stay where they are.

    Args:
        galloc: handle of the graph allocator.
        graph: graph whose tensors get their data and buffer fields set.
    Returns:
        True; False if the memory cannot be allocated, or if there are several buffer types and
        ggml_gallocr_reserve_n was not called with the ids of as many nodes.
    Raises:
        TypeError: galloc is not a graph allocator or graph is not a graph pointer.
        ValueError: graph is a NULL pointer, or it or a view in it has an invalid field.
        RuntimeError: galloc is not live, a leaf lies in a buffer that was freed, or the graph or a tensor was
            freed.
    """
def ggml_gallocr_free(galloc: _Address) -> None:
    """Frees a graph allocator and its buffers.

    Tensors that it has placed lose their data.

    Args:
        galloc: handle of the allocator; None is accepted and ignored.
    Returns:
        None.
    Raises:
        TypeError: galloc is a handle of another kind.
        RuntimeError: galloc is not a live graph allocator.
    """
def ggml_gallocr_get_buffer_size(galloc: _Address, buffer_id: _Int) -> int:
    """Gives the memory that a graph allocator holds of one buffer type.

    Args:
        galloc: handle of the graph allocator.
        buffer_id: position of the buffer type, 0 to n_bufs - 1.
    Returns:
        Size in bytes (int); 0 if the type also has a lower id, with which it is counted.
    Raises:
        TypeError: galloc is not a graph allocator, or buffer_id is not an integer.
        ValueError: buffer_id is out of range.
        RuntimeError: galloc is not a live graph allocator.
    """
def ggml_gallocr_new(buft: _Address) -> ggml_gallocr | None:
    """Creates a graph allocator whose buffers have one buffer type.

    It plans a whole graph before it places anything: tensors whose lifetimes do not overlap share memory.

    Args:
        buft: handle of the buffer type.
    Returns:
        Handle of the allocator (int); free it with ggml_gallocr_free. It has no buffer yet.
    Raises:
        TypeError: buft is None or a handle of another kind.
        RuntimeError: buft is not a live buffer type.
    """
def ggml_gallocr_new_n(bufts: _Pointer, n_bufs: _Int) -> ggml_gallocr | None:
    """Creates a graph allocator with several buffer types.

    Args:
        bufts: list, tuple or array of n_bufs handles of buffer types. Their positions are the buffer ids that
            ggml_gallocr_reserve_n takes; equal types share buffers.
        n_bufs: number of buffer types, 1 to 1024.
    Returns:
        Handle of the allocator (int); free it with ggml_gallocr_free. It has no buffer yet.
    Raises:
        TypeError: bufts is None or not an array, an entry is not a buffer type, or n_bufs is not an integer.
        ValueError: n_bufs is out of range, or bufts has too few entries.
        RuntimeError: an entry is not a live buffer type.
    """
def ggml_gallocr_reserve(galloc: _Address, graph: _To[ggml_cgraph]) -> bool:
    """Allocates enough buffer memory for a graph without placing its tensors.

    Reserve for the largest graph first; later graphs that fit need no new memory. All tensors go to buffer id 0.

    Args:
        galloc: handle of the graph allocator.
        graph: graph to plan for.
    Returns:
        True; False if the memory cannot be allocated.
    Raises:
        TypeError: galloc is not a graph allocator or graph is not a graph pointer.
        ValueError: graph is a NULL pointer, or it or a view in it has an invalid field.
        RuntimeError: galloc is not live, or the graph or a tensor it uses was freed.
    """
def ggml_gallocr_reserve_n(galloc: _Address, graph: _To[ggml_cgraph], node_buffer_ids: _Pointer, leaf_buffer_ids: _Pointer) -> bool:
    """Allocates memory for a graph whose tensors go to several buffer types.

    The ids are remembered: ggml_gallocr_alloc_graph uses them for graphs with as many nodes and leafs.

    Args:
        galloc: handle of the graph allocator.
        graph: graph to plan for.
        node_buffer_ids: list, tuple or int array with the buffer id of each node; None for id 0.
        leaf_buffer_ids: the same for each leaf.
    Returns:
        True; False if the memory cannot be allocated.
    Raises:
        TypeError: galloc is not a graph allocator, graph is not a graph pointer, or ids are not an array of
            integers.
        ValueError: an array is too short, an id is not 0 to n_bufs - 1, or graph has an invalid field.
        RuntimeError: galloc is not live, or the graph or a tensor it uses was freed.
    """
def ggml_gallocr_reserve_n_size(galloc: _Address, graph: _To[ggml_cgraph], node_buffer_ids: _Pointer, leaf_buffer_ids: _Pointer, sizes: _Pointer) -> None:
    """Computes the memory that ggml_gallocr_reserve_n would need, without allocating it.

    Args:
        galloc: handle of the graph allocator.
        graph: graph to plan for.
        node_buffer_ids: list, tuple or int array with the buffer id of each node; None for id 0.
        leaf_buffer_ids: the same for each leaf.
        sizes: array of size_t, one for each buffer type, that receives the bytes. Where a type occurs several
            times, the first occurrence counts for all.
    Returns:
        None; the results are written to sizes.
    Raises:
        TypeError: galloc is not a graph allocator, graph is not a graph pointer, or ids or sizes are not an array.
        ValueError: an array is too short, an id is not 0 to n_bufs - 1, or graph has an invalid field.
        RuntimeError: galloc is not live, or the graph or a tensor it uses was freed.
    """
def ggml_gated_delta_net(ctx: _Address, q: _To[ggml_tensor], k: _To[ggml_tensor], v: _To[ggml_tensor], g: _To[ggml_tensor], beta: _To[ggml_tensor], state: _To[ggml_tensor], K: _Int) -> ggml_tensor_p:
    """Computes the gated delta rule (Gated DeltaNet, arXiv:2412.06464) for each head.

    For each token, with a state S [n, n] per head: S = S * exp(g), S = S + beta * (v - S k) k^T, y = S q / sqrt(n).
    Head h of v uses head h mod n_heads_k of q and k. The gradient flows to q, k, v, g, beta and state.

    Args:
        ctx: context that receives the result.
        q: queries, f32 [n, n_heads_k, n_tokens, n_seqs].
        k: keys, f32 in the shape of q.
        v: values, f32 [n, n_heads, n_tokens, n_seqs]; n_heads is a multiple of n_heads_k.
        g: logarithms of the decay, f32 [1, n_heads, n_tokens, n_seqs], or with n instead of 1 for one per element
            of k.
        beta: strengths of the update, f32 [1, n_heads, n_tokens, n_seqs].
        state: initial states, contiguous f32 [n, n, n_heads, n_seqs]; dimension 0 belongs to k, dimension 1 to v.
        K: number of states to return, 1 or more.
    Returns:
        f32 tensor [n * n_heads, n_tokens * n_seqs + n * n_seqs * K]: y in the shape of v, then K states, each
            [n, n, n_heads, n_seqs]: the one after the last token, the one before it, and so on; zeros where there
            are no more tokens.
    Raises:
        ValueError: a shape or type does not fit, state is not contiguous, or K is less than 1.
        MemoryError: the context is full.
    """
def ggml_gated_linear_attn(ctx: _Address, k: _To[ggml_tensor], v: _To[ggml_tensor], q: _To[ggml_tensor], g: _To[ggml_tensor], state: _To[ggml_tensor], scale: _Float) -> ggml_tensor_p:
    """Computes gated linear attention (arXiv:2312.06635) as a recurrence for each head.

    For each token, with a state S [n, n] per head: S = diag(g) S + k v^T, then y = scale * S^T q. The tokens of all
    sequences follow one another. The gradient flows to k, v, q, g and state.

    Args:
        ctx: context that receives the result.
        k: keys, f32 [n, n_heads, n_tokens].
        v: values, f32 in the shape of k.
        q: queries, f32 in the shape of k.
        g: gates, the factors of the state, f32 in the shape of k.
        state: initial states, contiguous f32 [n * n * n_heads, n_seqs], within a head S[i, j] at i * n + j (i of k,
            j of v); n_tokens is a multiple of n_seqs.
        scale: factor of the result, usually 1 / sqrt(n).
    Returns:
        f32 tensor [n * n_heads, n_tokens + n * n_seqs]: a row y for each token, then the final states.
    Raises:
        ValueError: a shape or type does not fit, or state is not contiguous.
        MemoryError: the context is full.
    """
def ggml_geglu(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes GEGLU of each row: gelu(first half) * second half, with the tanh form of ggml_gelu.

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: argument and gate side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_geglu_erf(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes GEGLU of each row with the exact GELU: gelu_erf(first half) * second half.

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: argument and gate side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_geglu_erf_split(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes GEGLU of two tensors with the exact GELU: gelu_erf(a) * b.

    The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: argument of the exact GELU, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_geglu_erf_swapped(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes GEGLU with the exact GELU of rows that begin with the gate: first half * gelu_erf(second half).

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: gate and argument side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_geglu_quick(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes GEGLU of each row with the sigmoid form of GELU: x * sigmoid(1.702 * x) * second half.

    x is the first half of the row. The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: argument and gate side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_geglu_quick_split(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes GEGLU of two tensors with the sigmoid form of GELU: a * sigmoid(1.702 * a) * b.

    The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: argument of the activation, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_geglu_quick_swapped(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes GEGLU with the sigmoid form of GELU of rows that begin with the gate: first half * gelu_quick(x).

    x is the second half of the row, gelu_quick(x) = x * sigmoid(1.702 * x). The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: gate and argument side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_geglu_split(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes GEGLU of two tensors: gelu(a) * b, with the tanh form of ggml_gelu.

    The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: argument of gelu, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_geglu_swapped(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes GEGLU of rows that begin with the gate: first half * gelu(second half).

    gelu is the tanh form of ggml_gelu. The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: gate and argument side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_gelu(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes GELU in its tanh form (arXiv:1606.08415).

    The formula is 0.5 * a * (1 + tanh(sqrt(2/pi) * (a + 0.044715 * a^3))). It is evaluated in f32 rather than read from
    a table of f16 values; f16 tensors use a shorter polynomial. The gradient flows to a, as ggml_gelu_back computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_gelu_erf, the exact form; ggml_gelu_quick, a cheaper approximation.
    """
def ggml_gelu_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the gradient of ggml_gelu: a times the derivative of the tanh form at b.

    The gradient flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_gelu, f32, f16 or bf16, any shape.
        b: argument of ggml_gelu, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type: the gradient of the argument.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_gelu_erf(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the exact GELU (arXiv:1606.08415): a * Phi(a), with the normal distribution function Phi.

    Phi(a) is 0.5 * (1 + erf(a / sqrt(2))). The gradient flows to a, as ggml_gelu_erf_back computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_gelu_erf_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the gradient of ggml_gelu_erf: a * (Phi(b) + b * phi(b)).

    Phi is the normal distribution function and phi its density. The gradient flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_gelu_erf, f32, f16 or bf16, any shape.
        b: argument of ggml_gelu_erf, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type: the gradient of the argument.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_gelu_erf_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Applies the exact GELU to a where it is stored.

    The derivative at the original elements cannot be recovered from the result: ggml_build_backward_expand raises
    ValueError if a needs a gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with a * Phi(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_gelu_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Applies GELU in its tanh form to a where it is stored.

    A gradient of a would need the original elements: ggml_build_backward_expand then raises ValueError. Use
    ggml_gelu in graphs that are trained.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with gelu(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_gelu_quick(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the sigmoid approximation of GELU (arXiv:1606.08415): a * sigmoid(1.702 * a).

    The gradient flows to a, as ggml_gelu_quick_back computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_gelu_quick_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the gradient of ggml_gelu_quick: a * s * (1 + 1.702 * b * (1 - s)) with s = sigmoid(1.702 * b).

    The gradient flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_gelu_quick, f32, f16 or bf16, any shape.
        b: argument of ggml_gelu_quick, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type: the gradient of the argument.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_gelu_quick_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Replaces a by a * sigmoid(1.702 * a), the sigmoid approximation of GELU.

    This form is for inference: ggml_build_backward_expand raises ValueError if a needs a gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_get_data(tensor: _To[ggml_tensor]) -> int | None:
    """Returns the address of a tensor's data.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Address of the first element (int); None if the tensor has no data.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    See also:
        numpy.asarray(tensor) and ggml.utils.to_numpy give an array that keeps the memory alive.
    """
def ggml_get_data_f32(tensor: _To[ggml_tensor]) -> Any:
    """Returns a ctypes pointer to the data of an f32 tensor.

    Args:
        tensor: f32 tensor of any shape.
    Returns:
        POINTER(c_float) to the first element; a NULL pointer if the tensor has no data. It does not keep the memory
        alive.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or is not f32.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_get_f32_1d(tensor: _To[ggml_tensor], i: _Int) -> float:
    """Reads one element of a tensor by its flat index as a float.

    The index counts in logical order, dimension 0 fastest, and the strides of the tensor are respected.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
    Returns:
        Value (float). An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or i is not an integer.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data.
        RuntimeError: tensor or its data was freed.
    """
def ggml_get_f32_nd(tensor: _To[ggml_tensor], i0: _Int, i1: _Int, i2: _Int, i3: _Int) -> float:
    """Reads the element at [i0, i1, i2, i3] of a tensor as a float.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
    Returns:
        Value (float). An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or an index is not an integer.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data.
        RuntimeError: tensor or its data was freed.
    """
def ggml_get_first_tensor(ctx: _Address) -> ggml_tensor_p:
    """Finds the tensor that was created first in a context.

    With ggml_get_next_tensor it visits all tensors of a context in the order of their creation.

    Args:
        ctx: context.
    Returns:
        Tensor; a NULL pointer if the context has none.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
def ggml_get_glu_op(tensor: _To[ggml_tensor]) -> int:
    """Returns the gated linear unit that computes a tensor.

    Args:
        tensor: tensor of any shape and any type, computed by GGML_OP_GLU.
    Returns:
        GGML_GLU_OP_* (int).
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or is computed by another operation.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_get_i32_1d(tensor: _To[ggml_tensor], i: _Int) -> int:
    """Reads one element of a tensor by its flat index as an integer.

    The index counts in logical order, dimension 0 fastest.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
    Returns:
        Value (int), truncated towards zero and not limited to 32 bits. An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or i is not an integer.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or the element is NaN.
        OverflowError: the element is infinite.
        RuntimeError: tensor or its data was freed.
    """
def ggml_get_i32_nd(tensor: _To[ggml_tensor], i0: _Int, i1: _Int, i2: _Int, i3: _Int) -> int:
    """Reads the element at [i0, i1, i2, i3] of a tensor as an integer.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
    Returns:
        Value (int), truncated towards zero and not limited to 32 bits. An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or an index is not an integer.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or the element is NaN.
        OverflowError: the element is infinite.
        RuntimeError: tensor or its data was freed.
    """
def ggml_get_max_tensor_size(ctx: _Address) -> int:
    """Finds the size of the largest tensor in a context.

    Args:
        ctx: context.
    Returns:
        The largest ggml_nbytes of its tensors (int); 0 if there are none.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
def ggml_get_mem_buffer(ctx: _Address) -> int | None:
    """Gives the address of a context's arena.

    Args:
        ctx: context.
    Returns:
        Address (int); for a context that grows, that of its newest block.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
def ggml_get_mem_size(ctx: _Address) -> int:
    """Gives the size of a context's arena.

    Args:
        ctx: context.
    Returns:
        Size in bytes (int). For a context that grows, the bytes used in earlier blocks plus the size of the newest.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
def ggml_get_name(tensor: _To[ggml_tensor]) -> bytes:
    """Returns the name of a tensor.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Name (bytes), at most 63 bytes; b"" if it has none.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_get_next_tensor(ctx: _Address, tensor: _To[ggml_tensor]) -> ggml_tensor_p:
    """Finds the tensor that was created after a given one in the same context.

    Args:
        ctx: context of the tensor. It must be live, but the search uses the context in which tensor lies.
        tensor: tensor of any shape and any type, in a context.
    Returns:
        The tensor created next; a NULL pointer after the last one.
    Raises:
        TypeError: ctx is not a context handle, or tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or a struct that the caller owns instead of one in a context.
        RuntimeError: ctx or the context of tensor was freed.
    """
def ggml_get_no_alloc(ctx: _Address) -> bool:
    """Tells whether new tensors of a context get no data.

    Args:
        ctx: context.
    Returns:
        True if ggml_init or ggml_set_no_alloc has set no_alloc.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
def ggml_get_rel_pos(ctx: _Address, a: _To[ggml_tensor], qh: _Int, kh: _Int) -> ggml_tensor_p:
    """Looks up relative position embeddings: result[:, k, q] = a[:, kh - 1 - k + q] (SAM, arXiv:2304.02643).

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: embedding of each distance, [channels, 2 * kh - 1], any type that is not quantised.
        qh: number of query positions along the axis; must equal kh.
        kh: number of key positions, 1 or more.
    Returns:
        Tensor [channels, kh, qh] of a's type.
    Raises:
        ValueError: qh differs from kh, one is less than 1, a has another number of rows, or a is quantised.
        MemoryError: the context is full.
    """
def ggml_get_rows(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Looks up rows by index: result[:, i, j, k] = a[:, b[i, j, k], j, k].

    Quantised rows are decoded. An index outside a's rows makes the compute fail. The gradient flows to a; rows
    that are named several times receive the sum.

    Args:
        ctx: context that receives the result.
        a: table, any type, [ne0, n_rows, ne2, ne3].
        b: indices, i32 or i64, [n, ne2, ne3]: each matrix of a has its own.
    Returns:
        Tensor [ne0, n, ne2, ne3]: f32, but integers and f64 keep their type.
    Raises:
        ValueError: b is neither i32 nor i64, or a.ne[2] = b.ne[1], a.ne[3] = b.ne[2], b.ne[3] = 1 does not hold.
        MemoryError: the context is full.
    """
def ggml_get_rows_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the gradient of ggml_get_rows with respect to its table.

    Starting from zeros, result[:, b[i, j, k], j, k] += a[:, i, j, k] for all i, j and k. An index outside c's
    rows makes the compute fail. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: gradient of the rows looked up, f32, f16 or bf16, [ne0, n, ne2, ne3].
        b: indices, i32 or i64, [n, ne2, ne3].
        c: the table or any tensor of its shape [ne0, n_rows, ne2, ne3], any type; its elements are not used.
    Returns:
        f32 tensor in the shape of c.
    Raises:
        ValueError: ne[0], ne[2] or ne[3] of a and c differ, b's shape or type does not fit, or a is not of a float
            type.
        MemoryError: the context is full.
    """
def ggml_get_tensor(ctx: _Address, name: _Text) -> ggml_tensor_p:
    """Finds a tensor of a context by its name.

    Args:
        ctx: context that is searched in the order in which its tensors were created.
        name: bytes or str, compared exactly. A stored name has at most 63 bytes, so a longer one is never found.
    Returns:
        The first tensor of that name; a NULL pointer if there is none.
    Raises:
        TypeError: ctx is not a context handle, or name is neither bytes nor str.
        ValueError: name cannot be encoded as UTF-8.
        RuntimeError: ctx is not a live context.
    See also:
        ggml_graph_get_tensor searches the tensors of a graph.
    """
def ggml_get_type_traits(type: _Int) -> ggml_type_traits_p:
    """Returns the properties of a type.

    The struct ggml_type_traits holds name, elements and bytes of a block, whether the type is quantised, and the
    functions that convert rows to and from f32; these are NULL where there is no such conversion and for f32
    itself.

    Args:
        type: GGML_TYPE_*; a removed type has the name DEPRECATED and blocks of 0 bytes.
    Returns:
        Pointer to a ggml_type_traits that stays valid.
    Raises:
        ValueError: type is not the number of a type.
    """
def ggml_get_type_traits_cpu(type: _Int) -> ggml_type_traits_cpu_p:
    """Returns what the CPU kernels offer for a type.

    The struct ggml_type_traits_cpu holds the conversion of a row from f32, the dot product of two rows (NULL where
    there is none) and the type that the second row of the dot product must have (vec_dot_type).

    Args:
        type: GGML_TYPE_*; numbers of removed types are accepted.
    Returns:
        Pointer to a ggml_type_traits_cpu that stays valid.
    Raises:
        ValueError: type is not the number of a type.
    """
def ggml_get_unary_op(tensor: _To[ggml_tensor]) -> int:
    """Returns the element-wise function that computes a tensor.

    Args:
        tensor: tensor of any shape and any type, computed by GGML_OP_UNARY.
    Returns:
        GGML_UNARY_OP_* (int).
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or is computed by another operation.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_glu(ctx: _Address, a: _To[ggml_tensor], op: _Int, swapped: _Bool) -> ggml_tensor_p:
    """Computes a gated linear unit (arXiv:2002.05202) over the two halves of each row: f(x) * gate.

    x is the first half of the row and the gate is the second half; with swapped set, the gate comes first. op selects
    f. As in the C library, GGML_GLU_OP_SWIGLU_OAI has alpha = limit = 0 here, so its result is min(x, 0) / 2: use
    ggml_swiglu_oai instead. The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
        op: GGML_GLU_OP_*.
        swapped: True if f is applied to the second half.
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        TypeError: op is not an integer.
        ValueError: ne0 of a is odd, op selects no unit, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_glu_split for halves in separate tensors.
    """
def ggml_glu_op_name(op: _Int) -> bytes:
    """Returns the name of a gated linear unit of GGML_OP_GLU.

    Args:
        op: GGML_GLU_OP_*, 0 to 5.
    Returns:
        Name in upper case (bytes), as b"SWIGLU".
    Raises:
        TypeError: op is not an integer.
        ValueError: no gated linear unit has this number.
    """
def ggml_glu_split(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], op: _Int) -> ggml_tensor_p:
    """Computes a gated linear unit (arXiv:2002.05202) of two tensors: f(a) * b.

    op selects f. As in the C library, GGML_GLU_OP_SWIGLU_OAI has alpha = limit = 0 here, so its result is min(a, 0) /
    2: use ggml_swiglu_oai instead. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: argument of f, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
        op: GGML_GLU_OP_*.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: op is not an integer.
        ValueError: the shapes of a and b differ, op selects no unit, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_graph_add_node(cgraph: _To[ggml_cgraph], tensor: _To[ggml_tensor]) -> None:
    """Appends one tensor to the nodes of a graph, without its sources.

    The node is marked to be computed. Sources that are computed must be in the graph before it; this is not
    checked.

    Args:
        cgraph: graph to extend.
        tensor: tensor of any shape and any type.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer or tensor is not a tensor pointer.
        ValueError: cgraph or tensor is a NULL pointer or has an invalid field.
        MemoryError: the graph is full.
        RuntimeError: cgraph or tensor belongs to no live context.
    See also:
        ggml_build_forward_expand adds the sources too.
    """
def ggml_graph_clear(cgraph: _To[ggml_cgraph]) -> None:
    """Removes all nodes and leafs from a graph.

    The tensors themselves and the capacity of the graph stay.

    Args:
        cgraph: graph to empty.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        RuntimeError: cgraph does not belong to a live context.
    """
def ggml_graph_compute(cgraph: _To[ggml_cgraph], cplan: _To[ggml_cplan]) -> int:
    """Computes a graph according to a plan.

    The GIL is released. At most cplan.n_threads threads run, and no more than there are CPUs available; small nodes
    run on one. Work memory is allocated by the call, so that cplan.work_data is not used. The first thread calls
    cplan.abort_callback(abort_callback_data) before each node; if it returns True, no further node is started. With
    cplan.use_ref scalar reference kernels run.

    Args:
        cgraph: graph to compute; all its nodes and sources need data.
        cplan: ggml_cplan of ggml_graph_plan, or a pointer to one.
    Returns:
        GGML_STATUS_SUCCESS (0), or GGML_STATUS_ABORTED (1) if the callback stopped it.
    Raises:
        TypeError: cgraph is not a graph pointer or cplan is not a ggml_cplan.
        ValueError: cgraph is a NULL pointer, a node is invalid or has no data, or a field of cplan is invalid.
        RuntimeError: an operation failed, or the graph or a tensor it uses was freed.
        MemoryError: the work memory cannot be allocated.
        KeyboardInterrupt: Ctrl-C was pressed; signals are handled between nodes.
        Exception: a Python callback raised it; it is passed on unchanged.
    """
def ggml_graph_compute_with_ctx(ctx: _Address, cgraph: _To[ggml_cgraph], n_threads: _Int) -> int:
    """Computes a graph with a number of threads, without a plan of the caller.

    It is ggml_graph_plan and ggml_graph_compute in one call. The GIL is released.

    Args:
        ctx: any live context; nothing is stored in it, since work memory is allocated by the call.
        cgraph: graph to compute; all its nodes and sources need data.
        n_threads: most threads to use, 1 to 512; a negative number for one on each available CPU.
    Returns:
        GGML_STATUS_SUCCESS (0); failures are raised.
    Raises:
        TypeError: ctx is not a context handle, cgraph is not a graph pointer or n_threads is not an integer.
        ValueError: cgraph is a NULL pointer, n_threads is 0 or above 512, or a node is invalid or has no data.
        RuntimeError: an operation failed, or the context, the graph or a tensor it uses was freed.
        MemoryError: the work memory cannot be allocated.
        KeyboardInterrupt: Ctrl-C was pressed; signals are handled between nodes.
        Exception: a Python callback raised it; it is passed on unchanged.
    """
def ggml_graph_cpy(src: _To[ggml_cgraph], dst: _To[ggml_cgraph]) -> None:
    """Replaces the content of a graph by that of another.

    Nodes, leafs, use counts and the evaluation order are copied, gradients only if both graphs have room for them.
    Both graphs refer to the same tensors afterwards.

    Args:
        src: graph to copy.
        dst: graph that is overwritten.
    Returns:
        None.
    Raises:
        TypeError: src or dst is not a graph pointer.
        ValueError: src or dst is a NULL pointer or has an invalid field, or dst has too little room.
        RuntimeError: src or dst belongs to no live context.
    """
def ggml_graph_dump_dot(gb: _To[ggml_cgraph], gf: _To[ggml_cgraph], filename: _Text) -> None:
    """Writes a graph to a file in Graphviz's DOT language.

    Colours: parameters yellow, leafs pink, nodes of gf green, other nodes with a gradient light blue, the rest
    white.

    Args:
        gb: graph to draw.
        gf: forward graph whose nodes are marked, or None.
        filename: file to write, bytes, str or os.PathLike; an existing file is replaced.
    Returns:
        None.
    Raises:
        TypeError: gb or gf is not a graph pointer, or filename is not a path.
        ValueError: gb is a NULL pointer, filename contains a NUL, or a graph has an invalid field.
        RuntimeError: a graph, or a node or leaf of gb, belongs to no live context.
        OSError: the file cannot be written.
    """
def ggml_graph_dup(ctx: _Address, cgraph: _To[ggml_cgraph], force_grads: _Bool = ...) -> ggml_cgraph_p:
    """Copies a graph into a context.

    The copy refers to the same tensors. It has the capacity of the original and its gradients, if there are any.

    Args:
        ctx: context that receives the copy.
        cgraph: graph to copy.
        force_grads: True to give the copy room for gradients where the original has none.
    Returns:
        Pointer to the new ggml_cgraph, valid as long as ctx.
    Raises:
        TypeError: ctx is not a context handle, cgraph is not a graph pointer or force_grads is not a truth value.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        MemoryError: the context is full.
        RuntimeError: ctx or the context of cgraph was freed.
    """
def ggml_graph_export(cgraph: _To[ggml_cgraph], fname: _Text) -> None:
    """Writes a graph with its weights to a file.

    The file holds the structure, names and operations of the graph, gradients included, and the values of all
    tensors that no operation computes, if they have data. Its little-endian format belongs to this library, not to
    the C library.

    Args:
        cgraph: graph to write.
        fname: file to write, bytes, str or os.PathLike; an existing file is replaced once the new one is complete.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer, or fname is not a path.
        ValueError: cgraph is a NULL pointer, fname contains a NUL, or the graph has a custom operation (a
            callback), a cycle or a tensor with gaps between its elements.
        RuntimeError: the graph or a tensor it uses was freed.
        OSError: the file cannot be written.
    See also:
        ggml_graph_import reads the file.
    """
def ggml_graph_get_grad(cgraph: _To[ggml_cgraph], node: _To[ggml_tensor]) -> ggml_tensor_p:
    """Gives the gradient of the loss with respect to a tensor.

    Args:
        cgraph: graph that ggml_build_backward_expand has extended.
        node: tensor of any shape and any type.
    Returns:
        Tensor of the gradient, [ne0, ne1, ne2, ne3] of node; a NULL pointer if the graph has none for it.
    Raises:
        TypeError: cgraph is not a graph pointer or node is not a tensor pointer.
        ValueError: cgraph or node is a NULL pointer or has an invalid field.
        RuntimeError: cgraph or node belongs to no live context.
    """
def ggml_graph_get_grad_acc(cgraph: _To[ggml_cgraph], node: _To[ggml_tensor]) -> ggml_tensor_p:
    """Gives the tensor in which the gradient with respect to a tensor is accumulated.

    Args:
        cgraph: graph that ggml_build_backward_expand has extended.
        node: tensor of any shape and any type.
    Returns:
        Accumulator, a tensor [ne0, ne1, ne2, ne3] of node; a NULL pointer if the graph has none for it.
    Raises:
        TypeError: cgraph is not a graph pointer or node is not a tensor pointer.
        ValueError: cgraph or node is a NULL pointer or has an invalid field.
        RuntimeError: cgraph or node belongs to no live context.
    """
def ggml_graph_get_tensor(cgraph: _To[ggml_cgraph], name: _Text) -> ggml_tensor_p:
    """Finds a tensor of a graph by its name.

    Leafs are searched first, then nodes.

    Args:
        cgraph: graph.
        name: bytes or str, compared exactly. A stored name has at most 63 bytes, so a longer one is never found.
    Returns:
        The first tensor of that name; a NULL pointer if there is none.
    Raises:
        TypeError: cgraph is not a graph pointer, or name is neither bytes nor str.
        ValueError: cgraph is a NULL pointer or has an invalid field, or name cannot be encoded.
        RuntimeError: cgraph, one of its nodes or one of its leafs belongs to no live context.
    """
def ggml_graph_import(fname: _Text, ctx_data: _Pointer, ctx_eval: _Pointer) -> ggml_cgraph_p:
    """Reads a graph from a file that ggml_graph_export wrote.

    It creates two contexts, which the caller frees. ggml_graph_get_tensor finds inputs and results by name. Every
    record is checked as if its tensor were created by calls.

    Args:
        fname: file to read, bytes, str or os.PathLike.
        ctx_data: pointer to a c_void_p that receives the context of the weights and inputs.
        ctx_eval: pointer to a c_void_p that receives the context of all other tensors and the graph.
    Returns:
        Pointer to the ggml_cgraph, in the second context.
    Raises:
        TypeError: fname is not a path, or ctx_data or ctx_eval is not a pointer.
        ValueError: fname contains a NUL, or the file is damaged or has another format or version.
        MemoryError: the memory for the tensors cannot be allocated.
        OSError: the file cannot be read or is not a regular file.
    Example:
        data, evaluated = ctypes.c_void_p(), ctypes.c_void_p()
        graph = ggml.ggml_graph_import("model.graph", ctypes.byref(data), ctypes.byref(evaluated))
    """
def ggml_graph_n_nodes(cgraph: _To[ggml_cgraph]) -> int:
    """Counts the nodes of a graph.

    Args:
        cgraph: graph.
    Returns:
        Number of nodes (int): results of operations and parameters, but no leafs.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        RuntimeError: cgraph does not belong to a live context.
    """
def ggml_graph_node(cgraph: _To[ggml_cgraph], i: _Int) -> ggml_tensor_p:
    """Gives one node of a graph by its position.

    Args:
        cgraph: graph.
        i: position in the order of computation; a negative i counts from the end, -1 is the last node.
    Returns:
        Tensor.
    Raises:
        TypeError: cgraph is not a graph pointer, or i is not an integer.
        IndexError: i is out of range.
        ValueError: cgraph is a NULL pointer or has an invalid field, or i does not fit 32 bits.
        RuntimeError: cgraph does not belong to a live context.
    """
def ggml_graph_nodes(cgraph: _To[ggml_cgraph]) -> Any:
    """Gives the array of node pointers of a graph.

    Args:
        cgraph: graph.
    Returns:
        POINTER(POINTER(ggml_tensor)) to ggml_graph_n_nodes(cgraph) entries. It is valid as long as the graph's
        context.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        RuntimeError: cgraph does not belong to a live context.
    """
def ggml_graph_overhead() -> int:
    """Computes the memory that ggml_new_graph takes in a context.

    Returns:
        Size in bytes (int), the object's header included.
    """
def ggml_graph_overhead_custom(size: _Int, grads: _Bool) -> int:
    """Computes the memory that a graph of a given capacity takes in a context.

    Args:
        size: number of nodes, and of leafs, that the graph has room for.
        grads: True for a graph with gradients.
    Returns:
        Size in bytes (int) that ggml_new_graph_custom(ctx, size, grads) takes, the object's header included.
    Raises:
        TypeError: size is not an integer or grads is not a truth value.
        ValueError: size is negative or larger than 2^29 - 1.
    """
def ggml_graph_plan(cgraph: _To[ggml_cgraph], n_threads: _Int = ..., threadpool: _Address = ...) -> ggml_cplan:
    """Prepares how a graph is computed: threads and work memory.

    It checks every node: its operation, its sources and that their data is allocated. The caller may set
    abort_callback, abort_callback_data and use_ref of the plan. Setting work_data is not necessary.

    Args:
        cgraph: graph to compute.
        n_threads: most threads to use, 1 to 512, 4 by default; a negative number for one on each available CPU.
        threadpool: handle of a thread pool or None. It is stored in the plan but does not change n_threads.
    Returns:
        ggml_cplan by value, with work_size in bytes and the number of threads.
    Raises:
        TypeError: cgraph is not a graph pointer, n_threads is not an integer or threadpool is not a handle.
        ValueError: cgraph is a NULL pointer, n_threads is 0 or above 512, or a node is invalid or has no data.
        RuntimeError: cgraph, one of its nodes or a source belongs to no live context, or its data was freed.
    """
def ggml_graph_print(cgraph: _To[ggml_cgraph]) -> None:
    """Logs the nodes and leafs of a graph.

    Each gets a line with its number, sizes, operation and name; nodes that are parameters are marked "x", those
    with a gradient "g". The lines go to stderr or to the callback of ggml_log_set, one message each.

    Args:
        cgraph: graph.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        RuntimeError: cgraph, one of its nodes or one of its leafs belongs to no live context.
    """
def ggml_graph_reset(cgraph: _To[ggml_cgraph]) -> None:
    """Resets the gradient accumulators and optimiser states of a graph.

    Accumulators become 0, those of the loss 1. The first and second moments of GGML_OP_OPT_STEP_ADAMW nodes become
    0. Tensors without data are skipped, except the accumulator of the loss.

    Args:
        cgraph: graph with gradients (see ggml_new_graph_custom).
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer, has no gradients, or the accumulator of the loss has no data.
        RuntimeError: cgraph, one of its nodes or one of its leafs belongs to no live context.
    """
def ggml_graph_size(cgraph: _To[ggml_cgraph]) -> int:
    """Gives the capacity of a graph.

    Args:
        cgraph: graph.
    Returns:
        Number of nodes, and of leafs, that there is room for (int); 0 for a ggml_graph_view.
    Raises:
        TypeError: cgraph is not a graph pointer.
        ValueError: cgraph is a NULL pointer or has an invalid field.
        RuntimeError: cgraph does not belong to a live context.
    """
def ggml_graph_view(cgraph: _To[ggml_cgraph], i0: _Int, i1: _Int) -> ggml_cgraph:
    """Creates a graph of a range of nodes of another graph.

    The view shares the arrays of the graph, so that it sees later changes. It has no leafs, no gradients and no
    room for further nodes.

    Args:
        cgraph: graph that is viewed.
        i0: first node, 0 or more.
        i1: end of the range, not included, i0 to ggml_graph_n_nodes(cgraph).
    Returns:
        ggml_cgraph by value, which other functions accept like a pointer. The context of cgraph must live as long.
    Raises:
        TypeError: cgraph is not a graph pointer, or i0 or i1 is not an integer.
        ValueError: cgraph is a NULL pointer or has an invalid field, or i0 <= i1 <= number of nodes does not hold.
        RuntimeError: cgraph does not belong to a live context.
    """
def ggml_group_norm(ctx: _Address, a: _To[ggml_tensor], n_groups: _Int, eps: _Float) -> ggml_tensor_p:
    """Normalises groups of channels to mean 0 and variance 1 (arXiv:1803.08494).

    Channels are dimension 2. Each group has ceil(channels / n_groups) of them, the last one what remains; mean and
    variance are taken over all elements of the group in one item of the batch. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [width, height, channels, batch].
        n_groups: number of groups, 1 or more.
        eps: number added to the variance, 0 or more.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: n_groups is not an integer, or eps is not a number.
        ValueError: n_groups is less than 1, eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_group_norm_inplace(ctx: _Address, a: _To[ggml_tensor], n_groups: _Int, eps: _Float) -> ggml_tensor_p:
    """Normalises groups of channels where they are stored.

    The gradient needs the original elements: ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [width, height, channels, batch]; overwritten.
        n_groups: number of groups, 1 or more; the last group is smaller if the channels do not divide evenly.
        eps: number added to the variance, 0 or more.
    Returns:
        View of all of a.
    Raises:
        TypeError: n_groups is not an integer, or eps is not a number.
        ValueError: n_groups is less than 1, eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_guid_matches(guid_a: _Pointer, guid_b: _Pointer) -> bool:
    """Tells whether two 16-byte identifiers are equal.

    Args:
        guid_a: 16 bytes: bytes, a buffer such as a ctypes array, a pointer or an address.
        guid_b: 16 bytes, given in the same ways.
    Returns:
        True if all 16 bytes are equal.
    Raises:
        TypeError: guid_a or guid_b is not memory.
        ValueError: guid_a or guid_b is NULL, not readable or shorter than 16 bytes.
    """
def ggml_hardsigmoid(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes hard sigmoid, a piecewise linear sigmoid: min(1, max(0, (a + 3) / 6)).

    The gradient flows to a, divided by 6, where a lies between -3 and 3.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from 0 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_hardswish(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes hard swish (arXiv:1905.02244): a * min(1, max(0, (a + 3) / 6)).

    The gradient flows to a, multiplied by 0 below -3, by 1 above 3 and by (2 * a + 3) / 6 between.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_im2col(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], s0: _Int, s1: _Int, p0: _Int, p1: _Int, d0: _Int, d1: _Int, is_2D: _Bool, dst_type: _Int) -> ggml_tensor_p:
    """Writes the patches of images that a convolution looks at as columns: dimension 0 of the result is one patch.

    ggml_mul_mat of the columns with the flattened kernel is then the convolution. Within a patch the column of the
    kernel varies fastest, then its row, then the channel. The gradient flows to b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], without is_2D [k, in_channels, out_channels], of any type;
            only its shape is used.
        b: images [width, height, in_channels, batch], without is_2D [length, in_channels, batch], f32, f16 or bf16.
        s0: stride along dimension 0, 1 or more.
        s1: stride along dimension 1; used with is_2D only, like p1 and d1.
        p0: zeros at each end of dimension 0, 0 or more.
        p1: zeros at each end of dimension 1.
        d0: dilation along dimension 0, 1 or more.
        d1: dilation along dimension 1.
        is_2D: True for images, False for signals.
        dst_type: type of the result, GGML_TYPE_F32, GGML_TYPE_F16 or GGML_TYPE_BF16.
    Returns:
        Tensor [kw * kh * in_channels, ow, oh, batch], without is_2D [k * in_channels, ow, batch], of type dst_type,
            with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh likewise.
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is larger than the padded
            image.
        MemoryError: the context is full.
    """
def ggml_im2col_3d(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], IC: _Int, s0: _Int, s1: _Int, s2: _Int, p0: _Int, p1: _Int, p2: _Int, d0: _Int, d1: _Int, d2: _Int, dst_type: _Int) -> ggml_tensor_p:
    """Writes the patches of volumes that a three-dimensional convolution looks at as columns.

    Within a patch the index along the kernel's width varies fastest, then height, depth and channel. The gradient
    flows to b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, kd, IC * out_channels] of any type; only its shape is used.
        b: volumes [width, height, depth, IC * batch], f32, f16 or bf16.
        IC: number of input channels, a divisor of a.ne[3] and b.ne[3].
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        s2: stride along the depth, 1 or more.
        p0: zeros at each end of the width, 0 or more.
        p1: zeros at each end of the height, 0 or more.
        p2: zeros at each end of the depth, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
        d2: dilation along the depth, 1 or more.
        dst_type: type of the result, GGML_TYPE_F32, GGML_TYPE_F16 or GGML_TYPE_BF16.
    Returns:
        Tensor [kw * kh * kd * IC, ow, oh, od * batch] of type dst_type, with
            ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1, oh and od likewise.
    Raises:
        ValueError: IC is not a divisor, a type or parameter is invalid, or the kernel is larger than the padded
            volume.
        MemoryError: the context is full.
    """
def ggml_im2col_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], ne: _Pointer, s0: _Int, s1: _Int, p0: _Int, p1: _Int, d0: _Int, d1: _Int, is_2D: _Bool) -> ggml_tensor_p:
    """Computes the gradient of ggml_im2col with respect to its images.

    Each element of a column is added to the pixel that it came from. The C header names a and b in the opposite
    order; that order is accepted if the shapes fit no other. The gradient flows to the columns.

    Args:
        ctx: context that receives the result.
        a: columns in the shape [kw * kh * in_channels, ow, oh, batch] of ggml_im2col's result, f32, f16 or bf16.
        b: kernel [kw, kh, in_channels, out_channels] of any type; only its shape is used.
        ne: shape of the images, an array of four int64.
        s0: stride along dimension 0, as in the forward call.
        s1: stride along dimension 1.
        p0: padding of dimension 0.
        p1: padding of dimension 1.
        d0: dilation along dimension 0.
        d1: dilation along dimension 1.
        is_2D: True for images, False for signals, whose shapes are as in ggml_im2col.
    Returns:
        f32 tensor with the four sizes of ne.
    Raises:
        ValueError: ne is None, too short or negative, or columns, kernel, ne and parameters do not fit one another.
        MemoryError: the context is full.
    """
def ggml_init(params: ggml_init_params) -> ggml_context_p | None:
    """Creates a context: an arena in which tensors and graphs are allocated one after the other.

    Contexts that still use memory of the caller that overlaps mem_buffer are freed.

    Args:
        params: ggml_init_params with three fields. mem_size: size of the arena in bytes; without mem_buffer it is
            rounded up to a multiple of 16, and 0 makes an arena that grows as needed. mem_buffer: memory of the
            caller to use as arena (ctypes memory or an address), or None to allocate it; the context keeps ctypes
            memory alive. no_alloc: True if tensors get no data.
    Returns:
        Handle of the context (int); free it with ggml_free.
    Raises:
        TypeError: params is not a ggml_init_params.
        ValueError: mem_buffer is smaller than mem_size, is not readable or lies in the arena of a live context.
        MemoryError: the memory cannot be allocated.
    Example:
        params = ggml.ggml_init_params(mem_size=16 * 1024 * 1024, mem_buffer=None, no_alloc=False)
        ctx = ggml.ggml_init(params)
    """
def ggml_internal_get_type_traits(type: _Int) -> ggml_type_traits:
    """Returns the properties of a type as a struct, under the name that old releases used.

    The struct is the one that ggml_get_type_traits points to.

    Args:
        type: GGML_TYPE_*; a removed type has the name DEPRECATED and blocks of 0 bytes.
    Returns:
        ggml_type_traits.
    Raises:
        ValueError: type is not the number of a type.
    """
def ggml_interpolate(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int, ne2: _Int, ne3: _Int, mode: _Int) -> ggml_tensor_p:
    """Resizes images to a larger or smaller size.

    The operation is that of ggml_upscale_ext: interpolation of dimensions 0 and 1, nearest elements in dimensions 2
    and 3. GGML_SCALE_FLAG_ANTIALIAS makes bilinear interpolation weight every source pixel that an output pixel
    covers when the image shrinks. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: images [width, height, channels, batch], f32, f16 or bf16.
        ne0: new width.
        ne1: new height.
        ne2: new size of dimension 2.
        ne3: new size of dimension 3.
        mode: GGML_SCALE_MODE_* plus any of GGML_SCALE_FLAG_ALIGN_CORNERS and GGML_SCALE_FLAG_ANTIALIAS; the latter
            has no effect on the modes nearest and bicubic.
    Returns:
        Tensor [ne0, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: a size is negative, mode is invalid, or a is empty or not of a float type.
        MemoryError: the context is full.
    """
def ggml_is_3d(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether a tensor has the shape [ne0, ne1, ne2, 1].

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimension 3 has size 1, so also for matrices, vectors and scalars.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_contiguous(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether the elements of a tensor lie in order and without gaps.

    Strides of dimensions of size 1 do not count.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if each stride is the size of the dimension below times its stride, and nb0 is that of an element or
        block.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_contiguous_0(tensor: _To[ggml_tensor]) -> bool:
    """Tells the same as ggml_is_contiguous: no gaps after any dimension.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if the tensor is contiguous in all dimensions.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    See also:
        ggml_is_contiguous_1 and ggml_is_contiguous_2 allow gaps in the lower dimensions.
    """
def ggml_is_contiguous_1(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether a tensor is contiguous except for gaps after its rows.

    The elements of a row are adjacent and nb1 is arbitrary; nb2 = ne1 * nb1 and nb3 = ne2 * nb2. Strides of
    dimensions of size 1 do not count, except that nb1 enters nb2.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if the rows are contiguous and equally spaced through dimensions 1 to 3.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_contiguous_2(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether a tensor is contiguous except for gaps after its rows and matrices.

    The elements of a row are adjacent, nb1 and nb2 are arbitrary, and nb3 = ne2 * nb2 unless ne3 is 1.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if the rows are contiguous and dimension 3 follows dimension 2 without gaps.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_contiguous_channels(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether dimension 2 is innermost in memory, as in channels-last images.

    Args:
        tensor: tensor [width, height, channels, batch] of any type.
    Returns:
        True if nb1 > nb0 > nb2 and nb2 is the size of one element.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_contiguous_rows(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether the elements of each row are adjacent in memory.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if nb0 is the size of an element (of a block for quantised types) or a row has just one of these.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_contiguous_to_1(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether the elements of each row are adjacent; all other strides are arbitrary.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimension 0 is contiguous.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_contiguous_to_2(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether each matrix is contiguous; the strides of dimensions 2 and 3 are arbitrary.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimensions 0 and 1 are contiguous. Strides of dimensions of size 1 do not count.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_contiguous_to_3(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether dimensions 0 to 2 are contiguous; the stride of dimension 3 is arbitrary.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimensions 0 to 2 are contiguous. Strides of dimensions of size 1 do not count.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_contiguously_allocated(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether the elements of a tensor fill their memory without gaps, in any order of dimensions.

    It compares ggml_nbytes with the bytes of all elements. A permuted tensor can pass where ggml_is_contiguous
    fails.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if the data has exactly the size of its elements.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer, or its type, ne and nb describe no possible tensor.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_empty(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether a tensor has no elements.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if some dimension has size 0.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_matrix(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether a tensor has the shape [ne0, ne1, 1, 1].

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimensions 2 and 3 have size 1, so also for vectors and scalars.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_numa() -> bool:
    """Tells whether the machine has several memory nodes.

    Returns:
        True if ggml_numa_init was called and found more than one node. Nodes are found on Linux only.
    """
def ggml_is_permuted(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether the strides are out of order: nb0 > nb1, nb1 > nb2 or nb2 > nb3.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if some dimension has a larger stride than the next.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_quantized(type: _Int) -> bool:
    """Tells whether a type stores quantised values in blocks.

    Args:
        type: GGML_TYPE_*, or the number of a removed type.
    Returns:
        True for quantised types; False for float and integer types and for numbers of removed types.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is out of range.
    """
def ggml_is_scalar(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether a tensor has the shape [1, 1, 1, 1].

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if every dimension has size 1.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_transposed(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether dimension 0 has a larger stride than dimension 1: nb0 > nb1.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True for a matrix stored by columns, as ggml_transpose returns it.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_vector(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether a tensor has the shape [ne0, 1, 1, 1].

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if dimensions 1 to 3 have size 1, so also for a scalar.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_is_view(tensor: _To[ggml_tensor]) -> bool:
    """Tells whether a tensor lies in the memory of another tensor.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        True if view_src is set: for views, reshaped and permuted tensors and results of in-place operations.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_l2_norm(ctx: _Address, a: _To[ggml_tensor], eps: _Float) -> ggml_tensor_p:
    """Divides each row by its Euclidean length: a / max(sqrt(sum(a^2)), eps).

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        eps: least divisor, 0 or more. With 0, a row of zeros stays zero.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_l2_norm_inplace(ctx: _Address, a: _To[ggml_tensor], eps: _Float) -> ggml_tensor_p:
    """Scales the rows of a to length 1 where they are stored.

    Rows shorter than eps are divided by eps. The original rows are lost, so ggml_build_backward_expand raises
    ValueError if a needs a gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; overwritten.
        eps: least divisor, 0 or more.
    Returns:
        View of all of a.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_leaky_relu(ctx: _Address, a: _To[ggml_tensor], negative_slope: _Float, inplace: _Bool) -> ggml_tensor_p:
    """Computes the leaky rectifier: a where a > 0, else negative_slope * a.

    The gradient flows to a, multiplied by 1 or negative_slope. It needs the original elements, so with inplace set
    ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        negative_slope: factor for elements that are not positive, a number, often 0.01.
        inplace: True to write the result over a.
    Returns:
        Tensor of a's shape and type, or a view of all of a with inplace set.
    Raises:
        TypeError: negative_slope is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_log(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Takes the natural logarithm of each element.

    The logarithm of 0 is -inf, that of a negative element NaN. The gradient flows to a, multiplied by 1 / a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_log_get(log_callback: _Pointer, user_data: _Pointer) -> None:
    """Reads the message callback and user data that ggml_log_set installed.

    Args:
        log_callback: pointer to a ggml_log_callback that receives the function; NULL is written if messages go to
            stderr.
        user_data: pointer to a c_void_p that receives the user data.
    Returns:
        None; the results are written to the two pointers.
    Raises:
        TypeError: log_callback or user_data is not a pointer.
        ValueError: log_callback or user_data is NULL or points to no memory of 8 bytes.
    Example:
        callback, data = ggml.ggml_log_callback(), ctypes.c_void_p()
        ggml.ggml_log_get(ctypes.byref(callback), ctypes.byref(data))
    """
def ggml_log_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Replaces each element of a by its natural logarithm.

    The gradient divides by the original element, which is lost: ggml_build_backward_expand raises ValueError if a
    needs a gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with log(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_log_set(log_callback: ggml_log_callback | Callable[..., Any] | int | None, user_data: _Address) -> None:
    """Sets the function that receives the messages of this library.

    Without one, messages go to stderr. The callback and user_data are kept alive until the next call. An exception
    in the callback is raised by the function that sent the message.

    Args:
        log_callback: ggml_log_callback, Python callable or address of a C function, called as (level, text,
            user_data) for each message, with level GGML_LOG_LEVEL_* and text as bytes that end in a newline. None
            restores stderr.
        user_data: address or ctypes object that is handed to the callback; None for NULL.
    Returns:
        None.
    Raises:
        TypeError: log_callback is not a callback of this type, or user_data is not an address.
        ValueError: log_callback is the address of no function.
    """
def ggml_map_binary_f32(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], fun: ggml_binary_op_f32_t | Callable[..., Any] | int | None) -> ggml_tensor_p:
    """Creates an f32 tensor whose rows a callback computes from the rows of two tensors.

    Computing the node calls fun(n, dst, a, b) for each row on one thread: n is the number of elements, the others
    are pointers to float. Older releases offered this form; ggml_map_custom2 is the general one.
    ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32 with contiguous rows (nb0 = 4), [ne0, ne1, ne2, ne3].
        b: f32 with contiguous rows, in the shape of a.
        fun: ggml_binary_op_f32_t, Python callable or address of a C function.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a or b is not f32 or has no contiguous rows, the shapes differ, or fun is None.
        MemoryError: the context is full.
    """
def ggml_map_binary_inplace_f32(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], fun: ggml_binary_op_f32_t | Callable[..., Any] | int | None) -> ggml_tensor_p:
    """Lets a callback overwrite the rows of a with results from the rows of a and b.

    Computing the node calls fun(n, dst, a, b) for each row of n elements on one thread; dst and a are the same
    address. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32 with contiguous rows (nb0 = 4), [ne0, ne1, ne2, ne3]; it is modified.
        b: f32 with contiguous rows, in the shape of a.
        fun: ggml_binary_op_f32_t, Python callable or address of a C function.
    Returns:
        View of all of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a or b is not f32 or has no contiguous rows, the shapes differ, or fun is None.
        MemoryError: the context is full.
    """
def ggml_map_custom1(ctx: _Address, a: _To[ggml_tensor], fun: ggml_custom1_op_t | Callable[..., Any] | int | None, n_tasks: _Int, userdata: _Address) -> ggml_tensor_p:
    """Creates a tensor like a whose elements a callback computes.

    Computing the node calls fun(dst, a, ith, nth, userdata) once for each ith from 0 to nth - 1, possibly on
    different threads at the same time; each call computes its share. nth is the smaller of n_tasks and the number
    of threads. An exception in fun ends the compute, which raises it. ggml.ext.custom_set_backward gives the node a
    gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        a: operand, any type, any shape [ne0, ne1, ne2, ne3].
        fun: ggml_custom1_op_t, Python callable or address of a C function. dst and a are tensor pointers, ith and
            nth int, userdata an int or None.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        TypeError: fun is not a callback of this kind, or a or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
def ggml_map_custom1_f32(ctx: _Address, a: _To[ggml_tensor], fun: ggml_custom1_op_f32_t | Callable[..., Any] | int | None) -> ggml_tensor_p:
    """Creates an f32 tensor that a callback computes as a whole from one operand.

    Computing the node calls fun(dst, a) with two tensor pointers, once and on one thread. Older releases offered
    this form; ggml_map_custom1 is the general one. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3], any strides.
        fun: ggml_custom1_op_f32_t, Python callable or address of a C function.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a is not f32, or fun is None.
        MemoryError: the context is full.
    """
def ggml_map_custom1_inplace(ctx: _Address, a: _To[ggml_tensor], fun: ggml_custom1_op_t | Callable[..., Any] | int | None, n_tasks: _Int, userdata: _Address) -> ggml_tensor_p:
    """Lets a callback overwrite a tensor in its own memory.

    The calls are those of ggml_map_custom1: fun(dst, a, ith, nth, userdata), where dst and a have the same data.
    The node has a gradient after ggml.ext.custom_set_backward.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: operand, any type, any shape [ne0, ne1, ne2, ne3]; fun may modify it.
        fun: ggml_custom1_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        View of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is not a callback of this kind, or a or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
def ggml_map_custom1_inplace_f32(ctx: _Address, a: _To[ggml_tensor], fun: ggml_custom1_op_f32_t | Callable[..., Any] | int | None) -> ggml_tensor_p:
    """Lets a callback overwrite an f32 tensor as a whole.

    Computing the node calls fun(dst, a) once and on one thread; dst is a view of a. ggml.ext.custom_set_backward gives
    the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; it is modified.
        fun: ggml_custom1_op_f32_t, Python callable or address of a C function.
    Returns:
        View of all of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a is not f32, or fun is None.
        MemoryError: the context is full.
    """
def ggml_map_custom2(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], fun: ggml_custom2_op_t | Callable[..., Any] | int | None, n_tasks: _Int, userdata: _Address) -> ggml_tensor_p:
    """Creates a tensor like a that a callback computes from two operands.

    Computing the node calls fun(dst, a, b, ith, nth, userdata) once for each of nth tasks, as ggml_map_custom1
    describes. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; the result has both.
        b: second operand, any type, any shape.
        fun: ggml_custom2_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        TypeError: fun is not a callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
def ggml_map_custom2_f32(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], fun: ggml_custom2_op_f32_t | Callable[..., Any] | int | None) -> ggml_tensor_p:
    """Creates an f32 tensor that a callback computes as a whole from two operands.

    Computing the node calls fun(dst, a, b) with three tensor pointers, once and on one thread. Older releases
    offered this form; ggml_map_custom2 is the general one. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; the result has the same.
        b: f32, any shape.
        fun: ggml_custom2_op_f32_t, Python callable or address of a C function.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a or b is not f32, or fun is None.
        MemoryError: the context is full.
    """
def ggml_map_custom2_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], fun: ggml_custom2_op_t | Callable[..., Any] | int | None, n_tasks: _Int, userdata: _Address) -> ggml_tensor_p:
    """Lets a callback overwrite its first of two operands.

    Computing the node calls fun(dst, a, b, ith, nth, userdata) once for each of nth tasks; dst and a have the same
    data. See ggml_map_custom1 for tasks and exceptions. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; fun may modify it.
        b: second operand, any type, any shape.
        fun: ggml_custom2_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        View of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is not a callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
def ggml_map_custom2_inplace_f32(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], fun: ggml_custom2_op_f32_t | Callable[..., Any] | int | None) -> ggml_tensor_p:
    """Lets a callback overwrite the f32 tensor a as a whole, with b as a second operand.

    Computing the node calls fun(dst, a, b) once and on one thread; dst is a view of a. ggml.ext.custom_set_backward
    gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; it is modified.
        b: f32, any shape.
        fun: ggml_custom2_op_f32_t, Python callable or address of a C function.
    Returns:
        View of all of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a or b is not f32, or fun is None.
        MemoryError: the context is full.
    """
def ggml_map_custom3(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], fun: ggml_custom3_op_t | Callable[..., Any] | int | None, n_tasks: _Int, userdata: _Address) -> ggml_tensor_p:
    """Creates a tensor like a that a callback computes from three operands.

    Computing the node calls fun(dst, a, b, c, ith, nth, userdata) once for each of nth tasks, as ggml_map_custom1
    describes. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; the result has both.
        b: second operand, any type, any shape.
        c: third operand, any type, any shape.
        fun: ggml_custom3_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        TypeError: fun is not a callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
def ggml_map_custom3_f32(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], fun: ggml_custom3_op_f32_t | Callable[..., Any] | int | None) -> ggml_tensor_p:
    """Creates an f32 tensor that a callback computes as a whole from three operands.

    Computing the node calls fun(dst, a, b, c) with four tensor pointers, once and on one thread. Older releases
    offered this form; ggml_map_custom3 is the general one. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; the result has the same.
        b: f32, any shape.
        c: f32, any shape.
        fun: ggml_custom3_op_f32_t, Python callable or address of a C function.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a, b or c is not f32, or fun is None.
        MemoryError: the context is full.
    """
def ggml_map_custom3_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], fun: ggml_custom3_op_t | Callable[..., Any] | int | None, n_tasks: _Int, userdata: _Address) -> ggml_tensor_p:
    """Lets a callback overwrite its first of three operands.

    Computing the node calls fun(dst, a, b, c, ith, nth, userdata) once for each of nth tasks; dst and a have the
    same data. See ggml_map_custom1 for tasks and exceptions. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun and userdata alive.
        a: first operand, any type, any shape [ne0, ne1, ne2, ne3]; fun may modify it.
        b: second operand, any type, any shape.
        c: third operand, any type, any shape.
        fun: ggml_custom3_op_t, Python callable or address of a C function.
        n_tasks: maximum number of tasks, 1 or more, or GGML_N_TASKS_MAX for one for each thread.
        userdata: what fun receives as an address: an int, ctypes pointer, array or struct, a buffer, or None.
    Returns:
        View of all of a, which fun receives as dst.
    Raises:
        TypeError: fun is not a callback of this kind, or a tensor or userdata is of the wrong kind.
        ValueError: fun is None, or n_tasks is neither positive nor GGML_N_TASKS_MAX.
        MemoryError: the context is full.
    """
def ggml_map_custom3_inplace_f32(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], fun: ggml_custom3_op_f32_t | Callable[..., Any] | int | None) -> ggml_tensor_p:
    """Lets a callback overwrite the f32 tensor a as a whole, with b and c as further operands.

    Computing the node calls fun(dst, a, b, c) once and on one thread; dst is a view of a. ggml.ext.custom_set_backward
    gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32, any shape [ne0, ne1, ne2, ne3]; it is modified.
        b: f32, any shape.
        c: f32, any shape.
        fun: ggml_custom3_op_f32_t, Python callable or address of a C function.
    Returns:
        View of all of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a, b or c is not f32, or fun is None.
        MemoryError: the context is full.
    """
def ggml_map_unary_f32(ctx: _Address, a: _To[ggml_tensor], fun: ggml_unary_op_f32_t | Callable[..., Any] | int | None) -> ggml_tensor_p:
    """Creates an f32 tensor whose rows a callback computes one by one.

    Computing the node calls fun(n, dst, a) for each row on one thread: n is the number of elements, dst and a are
    pointers to float. Older releases offered this form; ggml_map_custom1 is the general one.
    ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the result. It keeps fun alive.
        a: f32 with contiguous rows (nb0 = 4), [ne0, ne1, ne2, ne3].
        fun: ggml_unary_op_f32_t, Python callable or address of a C function.
    Returns:
        Contiguous f32 tensor in the shape of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a is not f32 or its rows are not contiguous, or fun is None.
        MemoryError: the context is full.
    """
def ggml_map_unary_inplace_f32(ctx: _Address, a: _To[ggml_tensor], fun: ggml_unary_op_f32_t | Callable[..., Any] | int | None) -> ggml_tensor_p:
    """Lets a callback overwrite the rows of an f32 tensor one by one.

    Computing the node calls fun(n, dst, a) for each row of n elements on one thread; dst and a are the same
    address. ggml.ext.custom_set_backward gives the node a gradient.

    Args:
        ctx: context that receives the node. It keeps fun alive.
        a: f32 with contiguous rows (nb0 = 4), [ne0, ne1, ne2, ne3]; it is modified.
        fun: ggml_unary_op_f32_t, Python callable or address of a C function.
    Returns:
        View of all of a.
    Raises:
        TypeError: fun is not a callback of this kind.
        ValueError: a is not f32 or its rows are not contiguous, or fun is None.
        MemoryError: the context is full.
    """
def ggml_mean(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Averages the elements of each row.

    Rows without elements give NaN. The gradient flows to every element of the row, divided by ne0.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
    Returns:
        f32 tensor [1, ne1, ne2, ne3].
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_mul(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Multiplies two tensors element by element: a * b, with b repeated to the shape of a.

    The gradient flows to a, multiplied by b, and to b, multiplied by a and summed over the repeats of b.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_mul_mat for matrix products, ggml_scale for a Python number.
    """
def ggml_mul_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Multiplies a by b element by element, replacing the factors in a by the products.

    The gradient of a is available. That of b needs the overwritten factors: ggml_build_backward_expand raises
    ValueError if b needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with a * b.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        View of all of a.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_mul_mat(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Multiplies matrices: each row of the result holds the dot products of one row of b with all rows of a.

    In NumPy's order of dimensions, result = b @ a.T. Sums are f32. With quantised a, the rows of b are rounded to
    blocks of 8-bit integers if b has only a few rows or if the instruction set multiplies bytes; else a is unpacked to
    f32. The gradient flows to b, and to a if it is not quantised.

    A rounded block whose elements are all at most 2^-120 (8e-37) counts as zero. The products with one or two rows of b
    keep the scales of blocks of 32 as f16, as the C library does: types other than the K, IQ and ternary ones lose
    precision there if all elements of a block are below 8e-3, and the block counts as zero if they are below 4e-6.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or quantised, [k, n, ne2, ne3]; unlike in the C library it may be a transposed view. Or a
            matrix [k, n] of type i8 with contiguous rows, as ggml.ext.mul_mat_i8 takes it.
        b: f32, f16 or bf16, [k, m, b2, b3]; b2 is a multiple of ne2 and b3 of ne3. Consecutive matrices of b
            share one of a.
    Returns:
        f32 tensor [n, m, b2, b3].
    Raises:
        ValueError: the rows of a and b differ in length, b2 or b3 is not a multiple, or a type is not supported.
        MemoryError: the context is full.
    See also:
        ggml_out_prod, which sums over dimension 1.
    """
def ggml_mul_mat_id(ctx: _Address, as_: _To[ggml_tensor], b: _To[ggml_tensor], ids: _To[ggml_tensor]) -> ggml_tensor_p:
    """Multiplies each row of b by the matrix that an index selects, as mixtures of experts do.

    result[:, i, j] holds the dot products of the rows of as_[:, :, ids[i, j]] with b[:, i % b1, j]. Rows are grouped by
    matrix, and each group is one product, with the rounding of ggml_mul_mat. The gradient flows to b, and to as_ if it
    is not quantised. An index out of range makes the compute call raise RuntimeError.

    Args:
        ctx: context that receives the result.
        as_: matrices, f32, f16, bf16 or quantised, [k, n, n_matrices].
        b: f32, f16 or bf16, [k, b1, n_tokens], where n_used is a multiple of b1.
        ids: i32 [n_used, n_tokens], with values from 0 to n_matrices - 1.
    Returns:
        f32 tensor [n, n_used, n_tokens].
    Raises:
        ValueError: the shapes do not fit, as_ has four dimensions, or a type is not supported.
        MemoryError: the context is full.
    """
def ggml_mul_mat_set_hint(a: _To[ggml_tensor], hint: _Int) -> None:
    """Gives a hint about the first operand of a matrix product.

    The number is stored in the node and ignored by the computation.

    Args:
        a: result of ggml_mul_mat, f32, [n, m, b2, b3].
        hint: GGML_HINT_NONE or GGML_HINT_SRC0_IS_HADAMARD.
    Returns:
        None.
    Raises:
        TypeError: a is not a tensor, or hint is not an integer.
        ValueError: a is not the result of ggml_mul_mat, or hint is another number.
        RuntimeError: a was freed.
    """
def ggml_mul_mat_set_prec(a: _To[ggml_tensor], prec: _Int) -> None:
    """Chooses the precision of a matrix product.

    Sums are f32 with any precision. By default, the second operand of a quantised matrix is rounded to 8 bits, which is
    fast. With GGML_PREC_F32 it is not: the matrix is unpacked to f32 instead.

    Args:
        a: result of ggml_mul_mat, f32, [n, m, b2, b3].
        prec: GGML_PREC_DEFAULT or GGML_PREC_F32.
    Returns:
        None.
    Raises:
        TypeError: a is not a tensor, or prec is not an integer.
        ValueError: a is not the result of ggml_mul_mat (ggml_mul_mat_id does not count), or prec is another number.
        RuntimeError: a was freed.
    """
def ggml_n_dims(tensor: _To[ggml_tensor]) -> int:
    """Counts the dimensions of a tensor without the trailing ones of size 1.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Number of dimensions (int), 1 to 4: 2 for [4, 3, 1, 1], 1 for a scalar.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_nbytes(tensor: _To[ggml_tensor]) -> int:
    """Computes the size of a tensor's data from its shape and strides.

    The size is the distance from the first byte to the end of the last element, (ne0 / block - 1) * nb0 + bytes of
    a block + the sum of (ne[d] - 1) * nb[d] for d = 1 to 3. Gaps between rows are included.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Size in bytes (int); 0 for a tensor without elements.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer, or its type, ne and nb describe no possible tensor.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_nbytes_pad(tensor: _To[ggml_tensor]) -> int:
    """Computes the size of a tensor's data, rounded up to a multiple of 16 bytes.

    This is the memory that the data takes in a context's arena or scratch buffer.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        ggml_nbytes(tensor), rounded up to a multiple of 16 (int).
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer, or its type, ne and nb describe no possible tensor.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_neg(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Negates each element: -a.

    The gradient flows to a, negated.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_neg_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Flips the sign of each element where it is stored.

    The gradient is the negated gradient of the result; it needs no element of a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with -a.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_nelements(tensor: _To[ggml_tensor]) -> int:
    """Counts the elements of a tensor: ne0 * ne1 * ne2 * ne3.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Number of elements (int); elements of a quantised type count singly, not by block.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_new_buffer(ctx: _Address, nbytes: _Int) -> int | None:
    """Allocates memory for any use in the arena of a context.

    The memory is freed with the context. It is allocated with no_alloc too.

    Args:
        ctx: context.
        nbytes: size in bytes, 0 or more.
    Returns:
        Address of the memory (int), a multiple of 16.
    Raises:
        TypeError: ctx is not a context handle, or nbytes is not an integer.
        ValueError: nbytes is negative or larger than the address space.
        MemoryError: the context is full.
        RuntimeError: ctx is not a live context.
    """
def ggml_new_f32(ctx: _Address, value: _Float) -> ggml_tensor_p:
    """Creates an f32 tensor [1] with a given value.

    The number always lies in the context's arena, also while a scratch buffer is set.

    Args:
        ctx: context that receives the tensor; it must not have no_alloc.
        value: number, rounded to float32.
    Returns:
        f32 tensor [1] that holds value.
    Raises:
        TypeError: ctx is not a context handle, or value is not a number.
        ValueError: the context has no_alloc.
        MemoryError: the context is full.
        RuntimeError: ctx is not a live context.
    """
def ggml_new_graph(ctx: _Address) -> ggml_cgraph_p:
    """Creates a graph with room for GGML_DEFAULT_GRAPH_SIZE (2048) nodes, without gradients.

    Args:
        ctx: context that receives the graph; it takes ggml_graph_overhead() bytes, also with no_alloc.
    Returns:
        Pointer to an empty ggml_cgraph, valid as long as the context.
    Raises:
        TypeError: ctx is not a context handle.
        MemoryError: the context is full.
        RuntimeError: ctx is not a live context.
    """
def ggml_new_graph_custom(ctx: _Address, size: _Int, grads: _Bool) -> ggml_cgraph_p:
    """Creates a graph of a given capacity, with or without room for gradients.

    Args:
        ctx: context that receives the graph; it takes ggml_graph_overhead_custom(size, grads) bytes.
        size: number of nodes, and of leafs, that the graph has room for.
        grads: True if ggml_build_backward_expand is to add gradients.
    Returns:
        Pointer to an empty ggml_cgraph, valid as long as the context.
    Raises:
        TypeError: ctx is not a context handle, size is not an integer or grads is not a truth value.
        ValueError: size is negative or larger than 2^29 - 1.
        MemoryError: the context is full.
        RuntimeError: ctx is not a live context.
    """
def ggml_new_i32(ctx: _Address, value: _Int) -> ggml_tensor_p:
    """Creates an i32 tensor [1] with a given value.

    The value always lies in the context's arena, also while a scratch buffer is set.

    Args:
        ctx: context that receives the tensor; it must not have no_alloc.
        value: 32-bit integer.
    Returns:
        i32 tensor [1] that holds value.
    Raises:
        TypeError: ctx is not a context handle, or value is not an integer.
        ValueError: value does not fit 32 bits, or the context has no_alloc.
        MemoryError: the context is full.
        RuntimeError: ctx is not a live context.
    """
def ggml_new_tensor(ctx: _Address, type: _Int, n_dims: _Int, ne: _Pointer) -> ggml_tensor_p:
    """Creates a tensor of 1 to 4 dimensions in a context.

    The tensor is contiguous and has no operation and no name. Its elements are undefined until they are written;
    they lie in the context's arena, or in its scratch buffer (ggml_set_scratch). In a context with no_alloc it has
    no data.

    Args:
        ctx: context that receives the tensor.
        type: element type, GGML_TYPE_*.
        n_dims: number of dimensions, 1 to 4.
        ne: sizes, innermost first: a list or tuple of integers, or an array of int64 with at least n_dims entries.
            ne[0] must be a multiple of the type's block (ggml_blck_size).
    Returns:
        Tensor of the given type; the dimensions beyond n_dims have size 1.
    Raises:
        TypeError: ctx is not a context handle, an argument is not an integer, or ne is None or not an array.
        ValueError: type is not a type, n_dims is not 1 to 4, ne is too short, a size is negative or ne[0] is not a
            multiple of the block, or the tensor is larger than the address space.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx is not a live context.
    See also:
        ggml_new_tensor_1d to ggml_new_tensor_4d take the sizes as separate arguments.
    """
def ggml_new_tensor_1d(ctx: _Address, type: _Int, ne0: _Int) -> ggml_tensor_p:
    """Creates a one-dimensional tensor [ne0] in a context.

    The elements are undefined until they are written. In a context with no_alloc the tensor has no data.

    Args:
        ctx: context that receives the tensor.
        type: element type, GGML_TYPE_*.
        ne0: number of elements, 0 or more; a multiple of the type's block (ggml_blck_size).
    Returns:
        Contiguous tensor [ne0] of the given type.
    Raises:
        TypeError: ctx is not a context handle, or type or ne0 is not an integer.
        ValueError: type is not a type, or ne0 is negative, not a multiple of the block or too large.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx is not a live context.
    """
def ggml_new_tensor_2d(ctx: _Address, type: _Int, ne0: _Int, ne1: _Int) -> ggml_tensor_p:
    """Creates a matrix [ne0, ne1] in a context.

    The rows of ne0 elements follow each other without gaps. Their values are undefined until they are written. In a
    context with no_alloc the tensor has no data.

    Args:
        ctx: context that receives the tensor.
        type: element type, GGML_TYPE_*.
        ne0: elements of a row, 0 or more; a multiple of the type's block (ggml_blck_size).
        ne1: number of rows, 0 or more.
    Returns:
        Contiguous tensor [ne0, ne1] of the given type. In NumPy's order its shape is (ne1, ne0).
    Raises:
        TypeError: ctx is not a context handle, or type or a size is not an integer.
        ValueError: type is not a type, a size is negative, ne0 is not a multiple of the block, or the matrix is
            larger than the address space.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx is not a live context.
    """
def ggml_new_tensor_3d(ctx: _Address, type: _Int, ne0: _Int, ne1: _Int, ne2: _Int) -> ggml_tensor_p:
    """Creates a three-dimensional tensor [ne0, ne1, ne2] in a context.

    Its values are undefined until they are written. In a context with no_alloc the tensor has no data.

    Args:
        ctx: context that receives the tensor.
        type: element type, GGML_TYPE_*.
        ne0: elements of a row, 0 or more; a multiple of the type's block (ggml_blck_size).
        ne1: rows of a matrix, 0 or more.
        ne2: number of matrices, 0 or more.
    Returns:
        Contiguous tensor [ne0, ne1, ne2] of the given type.
    Raises:
        TypeError: ctx is not a context handle, or type or a size is not an integer.
        ValueError: type is not a type, a size is negative, ne0 is not a multiple of the block, or the product of
            the sizes is too large.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx is not a live context.
    """
def ggml_new_tensor_4d(ctx: _Address, type: _Int, ne0: _Int, ne1: _Int, ne2: _Int, ne3: _Int) -> ggml_tensor_p:
    """Creates a four-dimensional tensor [ne0, ne1, ne2, ne3] in a context.

    Its elements are contiguous, ne0 innermost, and undefined until they are written. In a context with no_alloc the
    tensor has no data.

    Args:
        ctx: context that receives the tensor.
        type: element type, GGML_TYPE_*.
        ne0: elements of a row, 0 or more; a multiple of the type's block (ggml_blck_size).
        ne1: size of dimension 1, 0 or more.
        ne2: size of dimension 2, 0 or more.
        ne3: size of dimension 3 (the outermost), 0 or more.
    Returns:
        Contiguous tensor [ne0, ne1, ne2, ne3] of the given type.
    Raises:
        TypeError: ctx is not a context handle, or type or a size is not an integer.
        ValueError: type is not a type, a size is negative, ne0 is not a multiple of the block, or the product of
            the sizes is too large.
        MemoryError: the context or its scratch buffer is full.
        RuntimeError: ctx is not a live context.
    """
def ggml_norm(ctx: _Address, a: _To[ggml_tensor], eps: _Float) -> ggml_tensor_p:
    """Normalises each row to mean 0 and variance 1: (a - mean) / sqrt(variance + eps).

    This is layer normalisation (arXiv:1607.06450) without weights. The variance is that of the population, sum of
    squared deviations / ne0. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        eps: number added to the variance, 0 or more. With 0, a constant row gives zeros.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_norm_inplace(ctx: _Address, a: _To[ggml_tensor], eps: _Float) -> ggml_tensor_p:
    """Shifts and scales the rows of a, where they are stored, to mean 0 and variance 1.

    The gradient needs the original rows: ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; overwritten.
        eps: number added to the variance, 0 or more.
    Returns:
        View of all of a.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_nrows(tensor: _To[ggml_tensor]) -> int:
    """Counts the rows of a tensor: ne1 * ne2 * ne3.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Number of rows along dimension 0 (int).
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_numa_init(numa: _Int) -> None:
    """Counts the memory nodes of the machine for ggml_is_numa.

    Threads and memory stay where the operating system places them; the strategies do not differ.

    Args:
        numa: GGML_NUMA_STRATEGY_*, 0 to 4. GGML_NUMA_STRATEGY_DISABLED leaves the count as it is.
    Returns:
        None.
    Raises:
        TypeError: numa is not an integer.
        ValueError: numa is not a strategy.
    """
def ggml_op_desc(t: _To[ggml_tensor]) -> bytes:
    """Returns the name of what computes a tensor, with the function in place of UNARY and GLU.

    Args:
        t: tensor of any shape and any type.
    Returns:
        Name of the operation (bytes); for UNARY that of the element-wise function, as b"RELU", for GLU that of the
        gated linear unit, as b"SWIGLU".
    Raises:
        TypeError: t is not a tensor pointer.
        ValueError: t is a NULL pointer, or its operation or function has an unknown number.
        RuntimeError: t does not belong to a live context.
    """
def ggml_op_name(op: _Int) -> bytes:
    """Returns the name of an operation.

    Args:
        op: number of an operation: GGML_OP_*, or one of this library's own from 128 on.
    Returns:
        Name in upper case (bytes), as b"MUL_MAT"; b"NONE" for GGML_OP_NONE.
    Raises:
        TypeError: op is not an integer.
        ValueError: no operation has this number.
    """
def ggml_op_symbol(op: _Int) -> bytes:
    """Returns an operation as a short formula.

    Args:
        op: number of an operation: GGML_OP_*, or one of this library's own from 128 on.
    Returns:
        Formula in UTF-8 (bytes), as b"x+y" for GGML_OP_ADD and b"X*Y" for GGML_OP_MUL_MAT.
    Raises:
        TypeError: op is not an integer.
        ValueError: op is not the number of an operation.
    """
def ggml_opt_alloc(opt_ctx: _Address, backward: _Bool) -> None:
    """Prepares the next batch: allocates the graph and decides how far it is computed.

    Call it before each batch; afterwards inputs and labels can be written. Memory is allocated only if the graph is
    new or another graph used the scheduler since. With backward, the gradients are computed, and with build_type
    OPT the last batch of each period (see opt_period) ends with a step of the optimiser; the first one begins with
    accumulated gradients of zero.

    Args:
        opt_ctx: handle of the optimisation context.
        backward: True for training, False for evaluation only.
    Returns:
        None.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        ValueError: backward is True, but build_type is GGML_OPT_BUILD_TYPE_FORWARD.
        RuntimeError: opt_ctx was freed, there is no graph (see ggml_opt_prepare_alloc), or the scheduler is
            computing.
        MemoryError: there is not enough memory for the graph.
    """
def ggml_opt_context_optimizer_type(opt_ctx: _Address) -> int:
    """Tells which optimiser a context uses.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        GGML_OPT_OPTIMIZER_TYPE_ADAMW or GGML_OPT_OPTIMIZER_TYPE_SGD (int).
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
def ggml_opt_dataset_data(dataset: _Address) -> ggml_tensor_p:
    """Gives the tensor that holds all datapoints, to be filled by the caller.

    Shuffling does not move values in it: only the order changes in which batches take the shards.

    Args:
        dataset: handle of the dataset.
    Returns:
        Tensor [ne_datapoint, ndata] of the type given to ggml_opt_dataset_init.
    Raises:
        TypeError: dataset is not a dataset.
        RuntimeError: dataset was freed.
    """
def ggml_opt_dataset_free(dataset: _Address) -> None:
    """Frees a dataset together with its tensors.

    NumPy and DLPack views of the tensors stay valid.

    Args:
        dataset: handle of the dataset, or None, which does nothing.
    Returns:
        None.
    Raises:
        TypeError: dataset is not a dataset.
        RuntimeError: dataset was freed already.
    """
def ggml_opt_dataset_get_batch(dataset: _Address, data_batch: _To[ggml_tensor], labels_batch: _To[ggml_tensor], ibatch: _Int) -> None:
    """Copies one batch of datapoints, and their labels, to tensors.

    The size of data_batch determines how many shards make a batch. Batch i consists of the next shards after those
    of batches 0 to i - 1, in the current (shuffled) order.

    Args:
        dataset: handle of the dataset.
        data_batch: allocated contiguous tensor of the same type as the dataset's datapoints, of any shape whose
            bytes are a whole number of shards, usually [ne_datapoint, n].
        labels_batch: allocated contiguous tensor of the same type as the dataset's labels with one label per
            datapoint, usually [ne_label, n]; None or NULL if the dataset has no labels.
        ibatch: index of the batch, 0 to (number of shards // shards per batch) - 1.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a tensor has another type, size or layout, or labels are given where there are none, or missing.
        IndexError: there is no batch of this index.
        RuntimeError: dataset or a tensor's context was freed.
    """
def ggml_opt_dataset_get_batch_host(dataset: _Address, data_batch: _Address, nb_data_batch: _Int, labels_batch: _Address, ibatch: _Int) -> None:
    """Copies one batch of datapoints, and their labels, to memory.

    It takes the same shards as ggml_opt_dataset_get_batch does for a tensor of nb_data_batch bytes.

    Args:
        dataset: handle of the dataset.
        data_batch: writable memory of nb_data_batch bytes: a buffer such as a NumPy array, a ctypes array or an
            address.
        nb_data_batch: size of the batch's datapoints in bytes, a multiple of a shard's size.
        labels_batch: writable memory for the labels of as many datapoints; None if the dataset has no labels.
        ibatch: index of the batch, 0 to (number of shards // shards per batch) - 1.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a size is not allowed, memory is too small, or labels are given where there are none, or
            missing.
        IndexError: there is no batch of this index.
        RuntimeError: dataset was freed.
    """
def ggml_opt_dataset_init(type_data: _Int, type_label: _Int, ne_datapoint: _Int, ne_label: _Int, ndata: _Int, ndata_shard: _Int) -> ggml_opt_dataset_t | None:
    """Creates a dataset: memory for datapoints and, if wanted, their labels.

    The values are not initialised: fill ggml_opt_dataset_data and ggml_opt_dataset_labels. Shuffling permutes
    shards, groups of ndata_shard consecutive datapoints.

    Args:
        type_data: GGML_TYPE_* of the datapoints.
        type_label: GGML_TYPE_* of the labels; it must be valid even without labels.
        ne_datapoint: elements per datapoint, 1 or more, a multiple of the type's block.
        ne_label: elements per label, a multiple of the type's block; 0 for a dataset without labels.
        ndata: number of datapoints, 1 or more.
        ndata_shard: datapoints per shard, a divisor of ndata.
    Returns:
        Handle (int) of the dataset. Free it with ggml_opt_dataset_free.
    Raises:
        TypeError: an argument is not an integer.
        ValueError: a type or a number is not allowed.
        MemoryError: there is not enough memory.
    """
def ggml_opt_dataset_labels(dataset: _Address) -> ggml_tensor_p:
    """Gives the tensor that holds all labels, in the order of the datapoints.

    Args:
        dataset: handle of the dataset.
    Returns:
        Tensor [ne_label, ndata] of the type given to ggml_opt_dataset_init; a NULL pointer if there are no labels.
    Raises:
        TypeError: dataset is not a dataset.
        RuntimeError: dataset was freed.
    """
def ggml_opt_dataset_ndata(dataset: _Address) -> int:
    """Counts the datapoints of a dataset.

    Args:
        dataset: handle of the dataset.
    Returns:
        Number of datapoints (int).
    Raises:
        TypeError: dataset is not a dataset.
        RuntimeError: dataset was freed.
    """
def ggml_opt_dataset_shuffle(opt_ctx: _Address, dataset: _Address, idata: _Int) -> None:
    """Shuffles the order in which batches take the shards of a dataset.

    Every permutation of the shards is equally likely (Fisher-Yates). The random numbers are those of the
    optimisation context: two contexts that were made alike shuffle alike, and ggml.ext.opt_save stores their state.

    Args:
        opt_ctx: optimisation context whose random numbers are drawn.
        dataset: handle of the dataset.
        idata: number of datapoints at the front of the current order that are shuffled among themselves, a multiple
            of the shard's size; negative for all.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: idata is greater than the number of datapoints or not a multiple of the shard's size.
        RuntimeError: opt_ctx or dataset was freed.
    """
def ggml_opt_default_params(backend_sched: _Address, loss_type: _Int) -> ggml_opt_params:
    """Gives a ggml_opt_params with default settings, to be completed by the caller.

    Its build_type is GGML_OPT_BUILD_TYPE_OPT, opt_period 1, optimizer AdamW with the parameters of
    ggml_opt_get_default_optimizer_params. ctx_compute, inputs and outputs are NULL; set all three for a graph that
    is built once.

    Args:
        backend_sched: handle of the scheduler that computes (see ggml_backend_sched_new); None to set it later.
        loss_type: GGML_OPT_LOSS_TYPE_*: MEAN or SUM of the outputs, CROSS_ENTROPY or MEAN_SQUARED_ERROR between
            outputs and labels.
    Returns:
        A new ggml_opt_params.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: loss_type is not one of the four.
    """
def ggml_opt_epoch(opt_ctx: _Address, dataset: _Address, result_train: _Address, result_eval: _Address, idata_split: _Int, callback_train: ggml_opt_epoch_callback | Callable[..., Any] | int | None, callback_eval: ggml_opt_epoch_callback | Callable[..., Any] | int | None) -> None:
    """Trains on the first part of a dataset, batch by batch, and evaluates the rest.

    The size of a batch is ne1 of the context's inputs. The order is the dataset's current one (see
    ggml_opt_dataset_shuffle).

    Args:
        opt_ctx: handle of an optimisation context with static graphs.
        dataset: dataset whose datapoints and labels fit the context's inputs and labels, with a whole number of
            batches.
        result_train: result that collects the training batches, or None.
        result_eval: result that collects the evaluation batches, or None.
        idata_split: number of datapoints to train on, a multiple of the batch; negative for all.
        callback_train: called as callback(train, opt_ctx, dataset, result, ibatch, ibatch_max, t_start_us) after
            each training batch, or None. ibatch counts from 1 to ibatch_max, t_start_us is the start of the loop in
            ggml_time_us. A Python callable or a ggml_opt_epoch_callback.
        callback_eval: the same for the evaluation batches (train is False), or None.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the context has no static graphs, the dataset does not fit it, or idata_split is not allowed.
        RuntimeError: an object was freed, also by a callback, or the loss is not finite (see ggml_opt_eval).
    """
def ggml_opt_epoch_callback_progress_bar(train: _Bool, opt_ctx: _Address, dataset: _Address, result: _Address, ibatch: _Int, ibatch_max: _Int, t_start_us: _Int) -> None:
    """Prints a progress bar to stderr: a callback for ggml_opt_epoch.

    The line shows batches, mean loss, accuracy (where it is known), time used and time left. It is rewritten after
    each batch and ends with a newline after the last one.

    Args:
        train: True for "train", False for "eval" at the beginning of the line.
        opt_ctx: not used.
        dataset: not used.
        result: result from which loss and accuracy are taken, or None.
        ibatch: number of batches that are done.
        ibatch_max: number of batches in all.
        t_start_us: start of the loop, in microseconds of ggml_time_us.
    Returns:
        None.
    Raises:
        TypeError: a number or the result is of the wrong kind.
        RuntimeError: result was freed.
    """
def ggml_opt_eval(opt_ctx: _Address, result: _Address) -> None:
    """Computes the batch that ggml_opt_alloc prepared: the outputs and the loss, in training also gradients and step.

    Before a step, get_opt_pars is called for the optimiser's parameters. Exceptions that it raises leave this
    function.

    Args:
        opt_ctx: handle of the optimisation context.
        result: result that collects loss, predictions and accuracy of the batch, or None.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind, or get_opt_pars returned no ggml_opt_optimizer_params.
        ValueError: get_opt_pars returned a number that is out of range, or result holds sums while the loss is a
            mean, or the reverse.
        RuntimeError: ggml_opt_alloc was not called, the computation failed, something was freed, or the loss is NaN
            or infinite; the message then names a tensor with such values.
    """
def ggml_opt_fit(backend_sched: _Address, ctx_compute: _Address, inputs: _To[ggml_tensor], outputs: _To[ggml_tensor], dataset: _Address, loss_type: _Int, optimizer: _Int, get_opt_pars: _Address, nepoch: _Int, nbatch_logical: _Int, val_split: _Float, silent: _Bool) -> None:
    """Trains a model on a dataset: creates an optimisation context and runs all epochs.

    The dataset is shuffled once, which draws the validation part, and its training part before each epoch if it has
    more than nbatch_logical datapoints. Each epoch trains on the training part and evaluates the validation part
    (see ggml_opt_epoch).

    Args:
        backend_sched: handle of the scheduler that computes.
        ctx_compute: context in which inputs and outputs were built.
        inputs: input tensor of the dataset's type, [ne_datapoint, physical batch]. Its ne1 is the physical batch.
        outputs: f32 output tensor [n_out, physical batch].
        dataset: handle of the dataset. Its labels have n_out elements, unless loss_type takes none.
        loss_type: GGML_OPT_LOSS_TYPE_*.
        optimizer: GGML_OPT_OPTIMIZER_TYPE_*.
        get_opt_pars: function that gives the optimiser's parameters, see ggml_opt_get_optimizer_params. Its
            userdata is the address of the epoch, an int64 that counts from 1.
        nepoch: number of epochs.
        nbatch_logical: datapoints per step of the optimiser, a multiple of the physical batch and a divisor of the
            number of datapoints.
        val_split: fraction of the dataset for validation, 0 or more and less than 1.
        silent: True for no output; otherwise a progress bar on stderr.
    Returns:
        None. The parameters hold the trained values.
    Raises:
        TypeError: an argument is of the wrong kind, or get_opt_pars is NULL.
        ValueError: a number is not allowed, or dataset, inputs, outputs and loss do not fit.
        RuntimeError: an object was freed, or the loss is not finite (see ggml_opt_eval).
        MemoryError: there is not enough memory.
    """
def ggml_opt_free(opt_ctx: _Address) -> None:
    """Frees an optimisation context with its graph, moments and accumulated gradients.

    Parameters, inputs, outputs and the scheduler stay.

    Args:
        opt_ctx: handle of the context, or None, which does nothing.
    Returns:
        None.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed already, or its scheduler is computing.
    """
def ggml_opt_get_constant_optimizer_params(userdata: _Address) -> ggml_opt_optimizer_params:
    """Gives a copy of the optimiser parameters that userdata points to.

    The function itself is accepted as ggml_opt_params.get_opt_pars, with the address of a ggml_opt_optimizer_params
    as get_opt_pars_ud: then every step uses the same parameters.

    Args:
        userdata: ggml_opt_optimizer_params by reference, pointer or address.
    Returns:
        A new ggml_opt_optimizer_params.
    Raises:
        TypeError: userdata is neither an address nor a ctypes object.
        ValueError: userdata is NULL, too small or not readable.
    """
def ggml_opt_get_default_optimizer_params(userdata: _Address) -> ggml_opt_optimizer_params:
    """Gives parameters of the optimisers to start with.

    AdamW: alpha 1e-3, beta1 0.9, beta2 0.999, eps 1e-8, weight decay 0. SGD: alpha 1e-3, weight decay 0. The
    function itself is accepted as ggml_opt_params.get_opt_pars.

    Args:
        userdata: ignored.
    Returns:
        A new ggml_opt_optimizer_params.
    Raises:
        TypeError: the function is called with another number of arguments.
    """
def ggml_opt_grad_acc(opt_ctx: _Address, node: _To[ggml_tensor]) -> ggml_tensor_p:
    """Gives the tensor in which the gradient with respect to a parameter is accumulated.

    Args:
        opt_ctx: handle of the optimisation context.
        node: parameter of the graph, of any shape and any type.
    Returns:
        f32 tensor in the parameter's shape. A NULL pointer if node is not a parameter of the graph, or if gradients
        are not accumulated: with build_type OPT and an opt_period of 1.
    Raises:
        TypeError: opt_ctx is not an optimisation context, or node is not a tensor.
        RuntimeError: opt_ctx or the context of node was freed.
    """
def ggml_opt_init(params: ggml_opt_params) -> ggml_opt_context_t | None:
    """Creates an optimisation context, which builds and computes the graph of a training step.

    With params.ctx_compute, params.inputs and params.outputs, the graph is built now and used for every batch
    (static graphs). Without them, ggml_opt_prepare_alloc supplies a graph. The graph consists of the forward pass,
    the loss, and, as params.build_type says, the gradients and the steps of the optimiser for all tensors that were
    marked with ggml_set_param. A step is taken every params.opt_period batches; the gradients of these batches are
    averaged (summed for GGML_OPT_LOSS_TYPE_SUM).

    Args:
        params: ggml_opt_params (see ggml_opt_default_params). params.backend_sched must be a live scheduler,
            opt_period 1 or more.
    Returns:
        Handle (int) of the context. Free it with ggml_opt_free.
    Raises:
        TypeError: params or a field of it is of the wrong kind, or params.backend_sched or params.get_opt_pars is NULL.
        ValueError: a field has a value that is not allowed, only some of ctx_compute, inputs and outputs are set,
            or outputs and loss do not fit.
        RuntimeError: the scheduler or a tensor's context was freed.
        MemoryError: there is not enough memory for the optimiser's state.
    See also:
        ggml.ext.opt_init, which trains on several ranks.
    """
def ggml_opt_inputs(opt_ctx: _Address) -> ggml_tensor_p:
    """Gives the tensor that receives the datapoints of a batch.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        The tensor that was given as inputs; a NULL pointer before the first ggml_opt_prepare_alloc.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
def ggml_opt_labels(opt_ctx: _Address) -> ggml_tensor_p:
    """Gives the tensor that receives the labels of a batch.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        f32 tensor in the shape of the outputs; a NULL pointer for the losses MEAN and SUM, which take no labels,
        and while there is no graph.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
def ggml_opt_loss(opt_ctx: _Address) -> ggml_tensor_p:
    """Gives the tensor of the loss that is minimised.

    Its value is the loss of the last computed batch: for CROSS_ENTROPY the mean over the rows (see
    ggml_cross_entropy_loss), for MEAN_SQUARED_ERROR and MEAN the mean over all elements. Unless the loss type is
    SUM, it is divided by opt_period and the number of ranks (see ggml_opt_init).

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        Tensor [1]; a NULL pointer while there is no graph.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
def ggml_opt_ncorrect(opt_ctx: _Address) -> ggml_tensor_p:
    """Gives the tensor that counts the correct predictions of a batch.

    A prediction is correct if it is the index of the largest element of the label.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        i64 tensor [1]; a NULL pointer where ggml_opt_pred is one.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
def ggml_opt_optimizer_name(optimizer: _Int) -> bytes:
    """Gives the name of an optimiser.

    Args:
        optimizer: GGML_OPT_OPTIMIZER_TYPE_* (int).
    Returns:
        b"adamw" or b"sgd"; b"undefined" for any other number.
    Raises:
        TypeError: optimizer is not an integer.
        ValueError: optimizer does not fit into 32 bits.
    """
def ggml_opt_outputs(opt_ctx: _Address) -> ggml_tensor_p:
    """Gives the tensor with the model's results for a batch.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        The tensor that was given as outputs; a NULL pointer before the first ggml_opt_prepare_alloc.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
def ggml_opt_pred(opt_ctx: _Address) -> ggml_tensor_p:
    """Gives the tensor of predicted classes: the index of each datapoint's largest output.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        i32 tensor [n]; a NULL pointer if the loss is not CROSS_ENTROPY, the outputs are not a matrix [classes, n],
        or there is no graph.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
def ggml_opt_prepare_alloc(opt_ctx: _Address, ctx_compute: _Address, gf: _To[ggml_cgraph], inputs: _To[ggml_tensor], outputs: _To[ggml_tensor]) -> None:
    """Supplies the forward graph for the next batches of a context without static graphs.

    It replaces the graph before. Loss, gradients and optimiser steps are added; moments and accumulated gradients
    of parameters that the context knows already are kept. Call ggml_opt_alloc next.

    Args:
        opt_ctx: handle of an optimisation context without static graphs.
        ctx_compute: context in which the graph was built.
        gf: forward graph that contains outputs, or None for the graph of everything that outputs depend on.
        inputs: input tensor of any shape and any type.
        outputs: f32 output tensor [n_out, n], with one row per datapoint.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: opt_ctx has static graphs, or outputs and loss do not fit.
        RuntimeError: opt_ctx, ctx_compute, the graph or a tensor was freed.
        MemoryError: there is not enough memory for the optimiser's state.
    """
def ggml_opt_reset(opt_ctx: _Address, optimizer: _Bool) -> None:
    """Sets the accumulated gradients to zero and starts a new period of batches.

    Args:
        opt_ctx: handle of the optimisation context.
        optimizer: True to set the moments of AdamW to zero as well, and the number of the next step to 1.
    Returns:
        None.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
def ggml_opt_result_accuracy(result: _Address, accuracy: _Pointer, unc: _Pointer) -> None:
    """Writes the fraction of correct predictions and its uncertainty.

    With p the fraction and n the number of datapoints, the uncertainty is sqrt(p (1 - p) / (n - 1)).

    Args:
        result: handle of the result.
        accuracy: pointer to a double that receives a number from 0 to 1, or None. It is NaN before the first batch,
            and for losses without predictions (see ggml_opt_result_pred).
        unc: pointer to a double that receives the uncertainty, or None. It is NaN for fewer than two datapoints.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or another argument is not a pointer.
        ValueError: accuracy or unc has fewer than 8 bytes.
        RuntimeError: result was freed.
    """
def ggml_opt_result_free(result: _Address) -> None:
    """Frees a training result.

    Args:
        result: handle of the result, or None, which does nothing.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result.
        RuntimeError: result was freed already.
    """
def ggml_opt_result_init() -> ggml_opt_result_t | None:
    """Creates an empty result, which collects loss, predictions and accuracy over batches.

    Returns:
        Handle (int) of the result. Pass it to ggml_opt_eval or ggml_opt_epoch; free it with ggml_opt_result_free.
    """
def ggml_opt_result_loss(result: _Address, loss: _Pointer, unc: _Pointer) -> None:
    """Writes the loss over all collected batches and its uncertainty.

    The loss is the mean of the batches' losses, and the uncertainty the standard error of that mean. For
    GGML_OPT_LOSS_TYPE_SUM both are multiplied by the number of batches.

    Args:
        result: handle of the result.
        loss: pointer to a double that receives the loss, or None. It is 0 before the first batch.
        unc: pointer to a double that receives the uncertainty, or None. It is NaN for fewer than two batches.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or another argument is not a pointer.
        ValueError: loss or unc has fewer than 8 bytes.
        RuntimeError: result was freed.
    """
def ggml_opt_result_ndata(result: _Address, ndata: _Pointer) -> None:
    """Writes how many datapoints a result has collected.

    Each evaluated batch adds ne1 of the outputs.

    Args:
        result: handle of the result.
        ndata: pointer to an int64 that receives the number, or None.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or ndata is not a pointer.
        ValueError: ndata has fewer than 8 bytes.
        RuntimeError: result was freed.
    """
def ggml_opt_result_pred(result: _Address, pred: _Pointer) -> None:
    """Writes the predicted class of every collected datapoint.

    There are predictions for GGML_OPT_LOSS_TYPE_CROSS_ENTROPY with outputs [classes, n] only; otherwise nothing is
    written. The order is that of the evaluated batches.

    Args:
        result: handle of the result.
        pred: array of int32 with an entry for each datapoint (see ggml_opt_result_ndata), or None.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or pred is not a pointer.
        ValueError: pred is too small.
        RuntimeError: result was freed.
    """
def ggml_opt_result_reset(result: _Address) -> None:
    """Empties a result, so that the next batch is its first one.

    Args:
        result: handle of the result.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result.
        RuntimeError: result was freed.
    """
def ggml_opt_static_graphs(opt_ctx: _Address) -> bool:
    """Tells whether the graph of an optimisation context was built once, by ggml_opt_init.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        True for static graphs, False if ggml_opt_prepare_alloc supplies the graph.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
def ggml_opt_step_adamw(ctx: _Address, a: _To[ggml_tensor], grad: _To[ggml_tensor], m: _To[ggml_tensor], v: _To[ggml_tensor], adamw_params: _To[ggml_tensor]) -> ggml_tensor_p:
    """Performs one AdamW step (arXiv:1711.05101) on a parameter and its two moments.

    Each element g of grad changes the elements of m, v and a at its position:

        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        a = a * (1 - alpha * wd) - alpha * (m * h1) / (sqrt(v * h2) + eps)

    The step takes place when the graph is computed; the caller updates h1 and h2 before each step. There is no
    gradient.

    Args:
        ctx: context that receives the node.
        a: parameter, f32, any shape, marked by ggml_set_param; overwritten.
        grad: its gradient, f32, of the shape of a.
        m: first moment, f32, of the shape of a, 0 before the first step; overwritten.
        v: second moment, f32, of the shape of a, 0 before the first step; overwritten.
        adamw_params: f32 [7], contiguous: alpha (learning rate), beta1, beta2, eps, wd (weight decay),
            h1 = 1 / (1 - beta1^t), h2 = 1 / (1 - beta2^t), where t counts the steps from 1.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not a parameter, a shape differs, a type is not f32, or adamw_params is not 7 contiguous
            elements.
        MemoryError: the context is full.
    """
def ggml_opt_step_sgd(ctx: _Address, a: _To[ggml_tensor], grad: _To[ggml_tensor], sgd_params: _To[ggml_tensor]) -> ggml_tensor_p:
    """Performs one step of gradient descent on a parameter: a = a * (1 - alpha * wd) - alpha * grad.

    The step takes place when the graph is computed. There is no gradient.

    Args:
        ctx: context that receives the node.
        a: parameter, f32, any shape, marked by ggml_set_param; overwritten.
        grad: its gradient, f32, of the shape of a.
        sgd_params: f32 [2], contiguous: alpha (learning rate) and wd (weight decay).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not a parameter, grad has another shape, a type is not f32, or sgd_params is not 2
            contiguous elements.
        MemoryError: the context is full.
    """
def ggml_out_prod(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Sums outer products: result[i, j] = sum over k of a[i, k] * b[j, k].

    In NumPy's order of dimensions, result = b.T @ a. Sums are f32; a quantised a is unpacked to f32. The gradient flows
    to b, and to a if it is not quantised.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or quantised, [m, k, ne2, ne3].
        b: f32, f16 or bf16, [n, k, b2, b3]; b2 is a multiple of ne2 and b3 of ne3. Consecutive matrices of b
            share one of a.
    Returns:
        f32 tensor [m, n, b2, b3].
    Raises:
        ValueError: ne1 of a and b differ, b2 or b3 is not a multiple, or a type is not supported.
        MemoryError: the context is full.
    """
def ggml_pad(ctx: _Address, a: _To[ggml_tensor], p0: _Int, p1: _Int, p2: _Int, p3: _Int) -> ggml_tensor_p:
    """Appends zeros to each dimension of a tensor.

    The gradient with respect to a is that part of the result's gradient which a covers.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        p0: zeros after the elements of dimension 0, 0 or more.
        p1: zeros after those of dimension 1.
        p2: zeros after those of dimension 2.
        p3: zeros after those of dimension 3.
    Returns:
        Tensor [ne0 + p0, ne1 + p1, ne2 + p2, ne3 + p3] of a's type.
    Raises:
        ValueError: a padding is negative, or a is quantised.
        MemoryError: the context is full.
    See also:
        ggml_pad_ext, which pads both ends.
    """
def ggml_pad_circular(ctx: _Address, a: _To[ggml_tensor], p0: _Int, p1: _Int, p2: _Int, p3: _Int) -> ggml_tensor_p:
    """Extends each dimension of a tensor at its end by its own first elements: result[i] = a[i mod a.ne].

    A padding may exceed the size of its dimension; the elements then repeat. The gradient with respect to a is the
    sum over all copies of an element.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        p0: elements to add to dimension 0, 0 or more.
        p1: elements to add to dimension 1.
        p2: elements to add to dimension 2.
        p3: elements to add to dimension 3.
    Returns:
        Tensor [ne0 + p0, ne1 + p1, ne2 + p2, ne3 + p3] of a's type.
    Raises:
        ValueError: a padding is negative, a is quantised, or a dimension to extend is empty.
        MemoryError: the context is full.
    """
def ggml_pad_ext(ctx: _Address, a: _To[ggml_tensor], lp0: _Int, rp0: _Int, lp1: _Int, rp1: _Int, lp2: _Int, rp2: _Int, lp3: _Int, rp3: _Int) -> ggml_tensor_p:
    """Adds zeros at both ends of each dimension of a tensor.

    The gradient with respect to a is that part of the result's gradient which a covers.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        lp0: zeros before the elements of dimension 0, 0 or more.
        rp0: zeros after them, 0 or more.
        lp1: zeros before the elements of dimension 1.
        rp1: zeros after them.
        lp2: zeros before the elements of dimension 2.
        rp2: zeros after them.
        lp3: zeros before the elements of dimension 3.
        rp3: zeros after them.
    Returns:
        Tensor [lp0 + ne0 + rp0, lp1 + ne1 + rp1, lp2 + ne2 + rp2, lp3 + ne3 + rp3] of a's type.
    Raises:
        ValueError: a padding is negative, or a is quantised.
        MemoryError: the context is full.
    """
def ggml_pad_ext_circular(ctx: _Address, a: _To[ggml_tensor], lp0: _Int, rp0: _Int, lp1: _Int, rp1: _Int, lp2: _Int, rp2: _Int, lp3: _Int, rp3: _Int) -> ggml_tensor_p:
    """Extends each dimension of a tensor at both ends as if it were periodic: result[i] = a[(i - lp) mod a.ne].

    The elements before the first one come from the end of a, those after the last one from its beginning. The
    gradient with respect to a is the sum over all copies of an element.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        lp0: elements to add at the beginning of dimension 0, 0 or more.
        rp0: elements to add at its end, 0 or more.
        lp1: elements to add at the beginning of dimension 1.
        rp1: elements to add at its end.
        lp2: elements to add at the beginning of dimension 2.
        rp2: elements to add at its end.
        lp3: elements to add at the beginning of dimension 3.
        rp3: elements to add at its end.
    Returns:
        Tensor [lp0 + ne0 + rp0, lp1 + ne1 + rp1, lp2 + ne2 + rp2, lp3 + ne3 + rp3] of a's type.
    Raises:
        ValueError: a padding is negative, a is quantised, or a dimension to extend is empty.
        MemoryError: the context is full.
    """
def ggml_pad_reflect_1d(ctx: _Address, a: _To[ggml_tensor], p0: _Int, p1: _Int) -> ggml_tensor_p:
    """Extends the rows of a tensor at both ends by their mirror images.

    The row is reflected at its first and last element, which are not repeated: [a, b, c] with p0 = 1 and p1 = 2
    becomes [b, a, b, c, b, a]. The gradient with respect to a is the sum over all copies of an element; it needs rows
    of at most 2^24 elements.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        p0: elements to add before each row, 0 to ne0 - 1.
        p1: elements to add after each row, 0 to ne0 - 1.
    Returns:
        Tensor [p0 + ne0 + p1, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: p0 or p1 is not 0 to ne0 - 1, or a is quantised.
        MemoryError: the context is full.
    """
def ggml_permute(ctx: _Address, a: _To[ggml_tensor], axis0: _Int, axis1: _Int, axis2: _Int, axis3: _Int) -> ggml_tensor_p:
    """Views a tensor with its dimensions in another order: dimension i of a becomes dimension axis_i of the result.

    No element is copied; ggml_cont makes the result contiguous. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: tensor, any shape [ne0, ne1, ne2, ne3], any type; a quantised one keeps its dimension 0.
        axis0: place of dimension 0 of a, 0 to 3.
        axis1: place of dimension 1.
        axis2: place of dimension 2.
        axis3: place of dimension 3.
    Returns:
        View of a with result.ne[axis_i] = a.ne[i], of the same type.
    Raises:
        ValueError: the axes are not 0 to 3, each exactly once, or a is quantised and axis0 is not 0.
        MemoryError: the context is full.
    Example:
        [head_dim, n_heads, n_tokens] to [head_dim, n_tokens, n_heads]: ggml_permute(ctx, a, 0, 2, 1, 3)
    """
def ggml_pool_1d(ctx: _Address, a: _To[ggml_tensor], op: _Int, k0: _Int, s0: _Int, p0: _Int) -> ggml_tensor_p:
    """Reduces windows of each row to their largest value or their average.

    Averages are taken over the elements that lie inside of the row. The gradient flows to a; that of a maximum goes
    to the first largest element.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        op: GGML_OP_POOL_MAX or GGML_OP_POOL_AVG.
        k0: length of a window, 1 or more.
        s0: stride, 1 or more.
        p0: elements outside the row at each end, 0 or more.
    Returns:
        f32 tensor [(ne0 + 2 * p0 - k0) // s0 + 1, ne1, ne2, ne3].
    Raises:
        ValueError: op, k0, s0 or p0 is invalid, a window is longer than the padded row, or a is not of a float
            type.
        MemoryError: the context is full.
    """
def ggml_pool_2d(ctx: _Address, a: _To[ggml_tensor], op: _Int, k0: _Int, k1: _Int, s0: _Int, s1: _Int, p0: _Float, p1: _Float) -> ggml_tensor_p:
    """Reduces windows of each image to their largest value or their average.

    Averages divide by k0 * k1 and count pixels outside the image as 0. The gradient flows to a; that of a
    maximum goes to the first largest pixel.

    Args:
        ctx: context that receives the result.
        a: images [width, height, channels, batch], f32, f16 or bf16.
        op: GGML_OP_POOL_MAX or GGML_OP_POOL_AVG.
        k0: width of a window, 1 or more.
        k1: height of a window, 1 or more; k0 * k1 is at most 2^24.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: padding at each side, 0 or more, less than 2^24; it may be fractional. The first window begins floor(p0)
            pixels outside of the image, while the number of windows follows from p0 itself.
        p1: padding above and below, likewise.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = floor((width + 2 * p0 - k0) / s0) + 1 and oh likewise.
    Raises:
        ValueError: op, a size, stride or padding is invalid, a window is larger than the padded image, or a is not
            of a float type.
        MemoryError: the context is full.
    """
def ggml_pool_2d_back(ctx: _Address, a: _To[ggml_tensor], af: _To[ggml_tensor], op: _Int, k0: _Int, k1: _Int, s0: _Int, s1: _Int, p0: _Float, p1: _Float) -> ggml_tensor_p:
    """Computes the gradient of ggml_pool_2d with respect to its images.

    The gradient of a maximum goes to the first largest pixel of the window, that of an average equally to all
    pixels. The operation has no gradient of its own.

    Args:
        ctx: context that receives the result.
        a: gradient of the pooled images [ow, oh, channels, batch], f32, f16 or bf16.
        af: images that were pooled, [width, height, channels, batch], f32, f16 or bf16.
        op: GGML_OP_POOL_MAX or GGML_OP_POOL_AVG; this and the parameters below as in the forward call.
        k0: width of a window.
        k1: height of a window.
        s0: stride along the width.
        s1: stride along the height.
        p0: padding at each side.
        p1: padding above and below.
    Returns:
        f32 tensor in the shape of af.
    Raises:
        ValueError: the shape of a is not that of the pooled images, or a parameter or type is invalid.
        MemoryError: the context is full.
    """
def ggml_print_backtrace() -> None:
    """Writes the Python call stack to stderr.

    Returns:
        None.
    """
def ggml_print_object(obj: _To[ggml_object]) -> None:
    """Logs the header of one object of a context: its type, offset, size and successor.

    Args:
        obj: pointer to a ggml_object, or its address.
    Returns:
        None; one message of level GGML_LOG_LEVEL_INFO is sent (see ggml_log_set).
    Raises:
        TypeError: obj is not a pointer or an address.
        ValueError: obj is NULL or points to no readable memory.
    """
def ggml_print_objects(ctx: _Address) -> None:
    """Logs the headers of all objects of a context: tensors, graphs and buffers.

    Args:
        ctx: context.
    Returns:
        None; one message for each object, between a first and a last line, is sent (see ggml_log_set).
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
def ggml_quantize_chunk(type: _Int, src: _Pointer, dst: _Address, start: _Int, nrows: _Int, n_per_row: _Int, imatrix: _Pointer) -> int:
    """Converts rows of f32 to a quantised type, f16 or bf16, or copies them.

    Row start / n_per_row of src and the nrows - 1 rows after it are written to the same rows of dst. The work is
    shared by threads, and the GIL is released.

    A row is beyond the range of the type if it holds numbers that would decode to infinity or NaN, or if the scale of a
    block would: those of most types are f16. NaN and infinities are beyond the range of all quantised types. Then
    ValueError names the first such row; dst holds all rows, with scales limited to the largest of the type.

    Args:
        type: type of dst: GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16 or a quantised type.
        src: f32 elements: ctypes or NumPy memory, or an address.
        dst: memory of the rows: ctypes or NumPy memory, or an address; start / n_per_row + nrows rows.
        start: index of the first element to convert, a multiple of n_per_row.
        nrows: number of rows.
        n_per_row: elements of a row, a multiple of the type's block.
        imatrix: n_per_row importance weights in f32, shared by all rows, or None for none.
    Returns:
        Number of bytes written; 0 where nrows or n_per_row is 0.
    Raises:
        TypeError: src or dst is None or no memory.
        ValueError: type, start or n_per_row is invalid, src, dst or imatrix is too small, the type needs importance
            weights and imatrix is None, there is no conversion to the type, or a row is beyond its range.
        MemoryError: there is no memory for the type's tables.
    """
def ggml_quantize_free() -> None:
    """Does nothing: the tables of quantisation stay for the life of the process.

    Returns:
        None.
    """
def ggml_quantize_init(type: _Int) -> None:
    """Prepares quantisation to a type.

    The call is not necessary: tables are built when they are first used. It only checks the type.

    Args:
        type: GGML_TYPE_*.
    Returns:
        None.
    Raises:
        ValueError: type is not the number of a type.
    """
def ggml_quantize_requires_imatrix(type: _Int) -> bool:
    """Tells whether quantising to a type needs importance weights.

    This holds for GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS and GGML_TYPE_IQ1_S.

    Args:
        type: GGML_TYPE_*; numbers of removed types are accepted.
    Returns:
        True if ggml_quantize_chunk needs imatrix for the type, otherwise False.
    Raises:
        ValueError: type is not the number of a type.
    """
def ggml_reglu(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes ReGLU of each row: max(first half, 0) * second half.

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: argument and gate side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_reglu_split(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes ReGLU of two tensors: max(a, 0) * b.

    The gradient flows to a where it is positive, and to b.

    Args:
        ctx: context that receives the result.
        a: argument of the rectifier, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_reglu_swapped(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes ReGLU of rows that begin with the gate: first half * max(second half, 0).

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: gate and argument side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_relu(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the rectifier: max(a, 0).

    NaN stays NaN. The gradient flows to a where a > 0.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, without negative values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_relu_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Sets the negative elements of a to 0.

    The gradient flows to a where the result is positive; the overwritten elements are not needed for it.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with max(a, 0).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_repeat(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Tiles a tensor to the shape of another one: result[i] = a[i mod a.ne] in each dimension.

    The gradient with respect to a is the sum over the repetitions.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        b: tensor of any type whose shape is used, [k0 * ne0, k1 * ne1, k2 * ne2, k3 * ne3] with whole numbers k.
    Returns:
        Tensor of a's type and b's shape.
    Raises:
        ValueError: a is quantised, or a dimension of b is not a multiple of a's.
        MemoryError: the context is full.
    See also:
        ggml_repeat_back, the sum over the repetitions.
    """
def ggml_repeat_4d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int, ne2: _Int, ne3: _Int) -> ggml_tensor_p:
    """Tiles a tensor to the sizes given: result[i] = a[i mod a.ne] in each dimension.

    The gradient with respect to a is the sum over the repetitions.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, any shape whose sizes divide ne0 to ne3.
        ne0: size of dimension 0 of the result.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
    Returns:
        Tensor [ne0, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: a is quantised, or a size is not a multiple of a's.
        MemoryError: the context is full.
    """
def ggml_repeat_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Sums the repeats that ggml_repeat made: the gradient of ggml_repeat.

    a is cut into blocks of b's shape, and the blocks are added up element by element. The gradient flows to a,
    repeated.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16; each dimension of its shape [ne0, ne1, ne2, ne3] is a multiple of b's.
        b: any tensor of the shape of the result; its elements and type do not matter.
    Returns:
        f32 tensor of b's shape.
    Raises:
        ValueError: a dimension of a is not a multiple of b's, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_reset(ctx: _Address) -> None:
    """Removes all tensors and graphs from a context and keeps its memory for new ones.

    Pointers to them become invalid, and a scratch buffer is no longer used. A context that grows keeps only its
    first block of memory.

    Args:
        ctx: context to empty.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context, or NumPy or DLPack views or a running computation use tensors in
            its first block of memory.
    """
def ggml_reshape(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Views a contiguous tensor in the shape of another one.

    No element is copied: the result shares the memory of a. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: contiguous tensor, any type, any shape with as many elements as b.
        b: tensor of any type whose shape [ne0, ne1, ne2, ne3] is used; its elements are not.
    Returns:
        View of a with a's type and b's shape.
    Raises:
        ValueError: a is not contiguous, the numbers of elements differ, or a is quantised and b's ne0 is no
            multiple of the block.
        MemoryError: the context is full.
    """
def ggml_reshape_1d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int) -> ggml_tensor_p:
    """Views a contiguous tensor as a vector.

    No element is copied: the result shares the memory of a. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: contiguous tensor of ne0 elements, any type, any shape.
        ne0: number of elements.
    Returns:
        View [ne0] of a, of the same type.
    Raises:
        ValueError: a is not contiguous, it has another number of elements, or it is quantised and ne0 is no
            multiple of the block.
        MemoryError: the context is full.
    """
def ggml_reshape_2d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int) -> ggml_tensor_p:
    """Views a contiguous tensor as a matrix.

    No element is copied: the result shares the memory of a. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: contiguous tensor of ne0 * ne1 elements, any type, any shape.
        ne0: length of a row.
        ne1: number of rows.
    Returns:
        View [ne0, ne1] of a, of the same type.
    Raises:
        ValueError: a is not contiguous, it has another number of elements, or it is quantised and ne0 is no
            multiple of the block.
        MemoryError: the context is full.
    """
def ggml_reshape_3d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int, ne2: _Int) -> ggml_tensor_p:
    """Views a contiguous tensor with three dimensions of the given sizes.

    No element is copied: the result shares the memory of a. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: contiguous tensor of ne0 * ne1 * ne2 elements, any type, any shape.
        ne0: length of a row.
        ne1: number of rows of a matrix.
        ne2: number of matrices.
    Returns:
        View [ne0, ne1, ne2] of a, of the same type.
    Raises:
        ValueError: a is not contiguous, it has another number of elements, or it is quantised and ne0 is no
            multiple of the block.
        MemoryError: the context is full.
    """
def ggml_reshape_4d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int, ne2: _Int, ne3: _Int) -> ggml_tensor_p:
    """Views a contiguous tensor with four dimensions of the given sizes.

    No element is copied: the result shares the memory of a. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: contiguous tensor of ne0 * ne1 * ne2 * ne3 elements, any type, any shape.
        ne0: size of dimension 0, the length of a row.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
    Returns:
        View [ne0, ne1, ne2, ne3] of a, of the same type.
    Raises:
        ValueError: a is not contiguous, it has another number of elements, or it is quantised and ne0 is no
            multiple of the block.
        MemoryError: the context is full.
    """
def ggml_rms_norm(ctx: _Address, a: _To[ggml_tensor], eps: _Float) -> ggml_tensor_p:
    """Divides each row by its root mean square (arXiv:1910.07467): a / sqrt(mean(a^2) + eps).

    Weights are not included; multiply the result by them. The gradient flows to a, as ggml_rms_norm_back computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        eps: number added to the mean square, 0 or more. With 0, a row of zeros stays zero.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_rms_norm_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], eps: _Float) -> ggml_tensor_p:
    """Computes the gradient of ggml_rms_norm with respect to its argument.

    Per row, with r = 1 / sqrt(mean(b^2) + eps), the result is r * (a - b * r^2 * mean(a * b)). The gradient flows to a
    and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_rms_norm, f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        b: argument of ggml_rms_norm, f32, f16 or bf16, of the shape of a.
        eps: the eps of ggml_rms_norm, 0 or more.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_rms_norm_inplace(ctx: _Address, a: _To[ggml_tensor], eps: _Float) -> ggml_tensor_p:
    """Divides the rows of a by their root mean square without a second tensor.

    Training needs ggml_rms_norm instead: ggml_build_backward_expand raises ValueError if a needs a gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; the normalised rows take its memory.
        eps: number added to the mean square, 0 or more.
    Returns:
        View of all of a.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_roll(ctx: _Address, a: _To[ggml_tensor], shift0: _Int, shift1: _Int, shift2: _Int, shift3: _Int) -> ggml_tensor_p:
    """Shifts the elements of a tensor cyclically: result[(i + shift) mod ne] = a[i] in each dimension.

    Elements that leave a dimension at one end enter it at the other. The gradient is shifted back to a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        shift0: places to shift dimension 0 by; negative shifts towards index 0.
        shift1: places to shift dimension 1 by.
        shift2: places to shift dimension 2 by.
        shift3: places to shift dimension 3 by.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: a is quantised.
        MemoryError: the context is full.
    """
def ggml_rope(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], n_dims: _Int, mode: _Int) -> ggml_tensor_p:
    """Rotates pairs of elements by angles proportional to the token's position (RoPE, arXiv:2104.09864).

    Pair i of a token at position p is rotated by p * 10000^(-2 i / n_dims). Elements from n_dims on are copied. The
    gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [n_tokens].
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL pairs elements (0, 1), (2, 3) and so on, GGML_ROPE_TYPE_NEOX (0, n_dims / 2),
            (1, n_dims / 2 + 1) and so on.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, or a is not of a float type.
        MemoryError: the context is full.
    See also:
        ggml_rope_ext, with scaled frequencies; ggml_rope_multi, with several positions for each token.
    """
def ggml_rope_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], n_dims: _Int, mode: _Int, n_ctx: _Int, n_orig_ctx: _Int, freq_base: _Float, freq_scale: _Float, ext_factor: _Float, attn_factor: _Float, beta_fast: _Float, beta_slow: _Float, xpos_base: _Float, xpos_down: _Bool) -> ggml_tensor_p:
    """Computes the gradient of a rotary position embedding with the parameters of older releases.

    The node is the one that ggml_rope_ext_back makes. The gradient flows to a and c.

    Args:
        ctx: context that receives the result.
        a: gradient of the result, f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [n_tokens].
        c: frequency factors, f32, [n_dims / 2] or longer, or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL or GGML_ROPE_TYPE_NEOX, as in ggml_rope.
        n_ctx: any 32-bit integer; it has no effect.
        n_orig_ctx: context length of the original training, in tokens.
        freq_base: base of the frequencies, more than 0.
        freq_scale: factor of all angles.
        ext_factor: weight of YaRN's extrapolation, 0 for none.
        attn_factor: factor of the result.
        beta_fast: upper limit of YaRN's ramp, in rotations within n_orig_ctx.
        beta_slow: lower limit of YaRN's ramp.
        xpos_base: must be 0; xPos is not supported.
        xpos_down: True or False; it has no effect.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: xpos_base is not 0, or what ggml_rope_ext_back raises it for.
        MemoryError: the context is full.
    """
def ggml_rope_custom(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], n_dims: _Int, mode: _Int, n_ctx_orig: _Int, freq_base: _Float, freq_scale: _Float, ext_factor: _Float, attn_factor: _Float, beta_fast: _Float, beta_slow: _Float) -> ggml_tensor_p:
    """Applies rotary position embedding with scaled frequencies and YaRN, without frequency factors.

    The node is the one that ggml_rope_ext makes with c = None; the name is that of older releases. The gradient
    flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [n_tokens].
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL or GGML_ROPE_TYPE_NEOX, as in ggml_rope.
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, freq_base is not positive, or a is not of a float type.
        MemoryError: the context is full.
    """
def ggml_rope_custom_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], n_dims: _Int, mode: _Int, n_ctx_orig: _Int, freq_base: _Float, freq_scale: _Float, ext_factor: _Float, attn_factor: _Float, beta_fast: _Float, beta_slow: _Float) -> ggml_tensor_p:
    """Applies rotary position embedding with scaled frequencies and YaRN to a in its own memory.

    There are no frequency factors: the rotation is that of ggml_rope_ext with c = None. The gradient flows to the
    old value of a.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch]; it is modified.
        b: positions, i32, [n_tokens].
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL or GGML_ROPE_TYPE_NEOX, as in ggml_rope.
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        View of all of a, after the rotation.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, freq_base is not positive, or a is not of a float type.
        MemoryError: the context is full.
    """
def ggml_rope_ext(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], n_dims: _Int, mode: _Int, n_ctx_orig: _Int, freq_base: _Float, freq_scale: _Float, ext_factor: _Float, attn_factor: _Float, beta_fast: _Float, beta_slow: _Float) -> ggml_tensor_p:
    """Applies rotary position embedding with scaled frequencies, frequency factors and YaRN (arXiv:2309.00071).

    Pair i of a token at position p is rotated by the angle
    p * freq_base^(-2 i / n_dims) / c[i] * (freq_scale * (1 - mix) + mix), and the result is multiplied by
    attn_factor. mix is 0 without YaRN. With it, mix falls linearly in i from ext_factor to 0 between the pairs that
    ggml_rope_yarn_corr_dims gives, and the result is also multiplied by 1 - 0.1 * log(freq_scale). Elements from
    n_dims on are copied. The gradient flows to a and c.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [n_tokens].
        c: frequency factors, f32, [n_dims / 2] or longer, or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL pairs elements (0, 1), (2, 3) and so on, GGML_ROPE_TYPE_NEOX (0, n_dims / 2),
            (1, n_dims / 2 + 1) and so on.
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, freq_base is not positive, or a is not of a float type.
        MemoryError: the context is full.
    """
def ggml_rope_ext_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], n_dims: _Int, mode: _Int, n_ctx_orig: _Int, freq_base: _Float, freq_scale: _Float, ext_factor: _Float, attn_factor: _Float, beta_fast: _Float, beta_slow: _Float) -> ggml_tensor_p:
    """Computes the gradient of ggml_rope_ext with respect to its operand: rotates a by the negative angles.

    The factors of ggml_rope_ext (attn_factor, YaRN's) apply here, too. The parameters are those of the forward
    call. The gradient flows to a and c.

    Args:
        ctx: context that receives the result.
        a: gradient of the result, f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [n_tokens].
        c: frequency factors, f32, [n_dims / 2] or longer, or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL or GGML_ROPE_TYPE_NEOX, as in ggml_rope.
        n_ctx_orig: context length of the original training, in tokens.
        freq_base: base of the frequencies, more than 0.
        freq_scale: factor of all angles.
        ext_factor: weight of YaRN's extrapolation, 0 for none.
        attn_factor: factor of the result.
        beta_fast: upper limit of YaRN's ramp, in rotations within n_ctx_orig.
        beta_slow: lower limit of YaRN's ramp.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, freq_base is not positive, or a is not of a float type.
        MemoryError: the context is full.
    """
def ggml_rope_ext_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], n_dims: _Int, mode: _Int, n_ctx_orig: _Int, freq_base: _Float, freq_scale: _Float, ext_factor: _Float, attn_factor: _Float, beta_fast: _Float, beta_slow: _Float) -> ggml_tensor_p:
    """Applies the extended rotary position embedding to a in its own memory.

    The rotation is that of ggml_rope_ext, with scaled frequencies, frequency factors and YaRN. The gradient flows
    to the old value of a; the one with respect to c needs that value, so the backward pass raises ValueError where
    c is a parameter.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch]; it is modified.
        b: positions, i32, [n_tokens].
        c: frequency factors, f32, [n_dims / 2] or longer, or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL or GGML_ROPE_TYPE_NEOX, as in ggml_rope.
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        View of all of a, after the rotation.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, freq_base is not positive, or a is not of a float type.
        MemoryError: the context is full.
    """
def ggml_rope_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], n_dims: _Int, mode: _Int) -> ggml_tensor_p:
    """Applies rotary position embedding to a in its own memory.

    The rotation is that of ggml_rope: pair i at position p by p * 10000^(-2 i / n_dims). The gradient flows to the
    old value of a.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch]; it is modified.
        b: positions, i32, [n_tokens].
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim.
        mode: GGML_ROPE_TYPE_NORMAL pairs elements (0, 1), (2, 3) and so on, GGML_ROPE_TYPE_NEOX (0, n_dims / 2),
            (1, n_dims / 2 + 1) and so on.
    Returns:
        View of all of a, after the rotation.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, or a is not of a float type.
        MemoryError: the context is full.
    """
def ggml_rope_multi(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], n_dims: _Int, sections: _Pointer, mode: _Int, n_ctx_orig: _Int, freq_base: _Float, freq_scale: _Float, ext_factor: _Float, attn_factor: _Float, beta_fast: _Float, beta_slow: _Float) -> ggml_tensor_p:
    """Applies rotary position embedding with four positions for each token (M-RoPE, arXiv:2409.12191).

    Each pair of elements belongs to one of four sections and is rotated by the position of that section, for
    example time, height, width and an extra one. Angles are those of ggml_rope_ext. Pairs are (0, n_pairs),
    (1, n_pairs + 1) and so on, where n_pairs is n_dims / 2, or n_dims for GGML_ROPE_TYPE_VISION. Where there are
    more pairs than sections hold, the sections repeat. The gradient flows to a and c.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [4 * n_tokens]: the first position of every token, then the second of every token, and so
            on.
        c: frequency factors, f32, one for each pair or more, [n_pairs], or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim; for GGML_ROPE_TYPE_VISION
            head_dim / 2, and the whole row is rotated.
        sections: array of four int, the number of pairs for each of the four positions; not negative, not all 0.
        mode: GGML_ROPE_TYPE_MROPE (one section after the other), GGML_ROPE_TYPE_IMROPE (the first three sections
            interleaved) or GGML_ROPE_TYPE_VISION (one section after the other, in each of which the frequencies
            start anew).
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, sections are invalid, freq_base is not positive, or a is not
            of a float type.
        MemoryError: the context is full.
    """
def ggml_rope_multi_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], n_dims: _Int, sections: _Pointer, mode: _Int, n_ctx_orig: _Int, freq_base: _Float, freq_scale: _Float, ext_factor: _Float, attn_factor: _Float, beta_fast: _Float, beta_slow: _Float) -> ggml_tensor_p:
    """Computes the gradient of ggml_rope_multi with respect to its operand: rotates a back, section by section.

    The parameters are those of the forward call. The gradient flows to a and c.

    Args:
        ctx: context that receives the result.
        a: gradient of the result, f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch].
        b: positions, i32, [4 * n_tokens]: the first position of every token, then the second of every token, and so
            on.
        c: frequency factors, f32, one for each pair or more, [n_pairs], or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim; for GGML_ROPE_TYPE_VISION
            head_dim / 2, and the whole row is rotated.
        sections: array of four int, the number of pairs for each of the four positions; not negative, not all 0.
        mode: GGML_ROPE_TYPE_MROPE, GGML_ROPE_TYPE_IMROPE or GGML_ROPE_TYPE_VISION.
        n_ctx_orig: context length of the original training, in tokens.
        freq_base: base of the frequencies, more than 0.
        freq_scale: factor of all angles.
        ext_factor: weight of YaRN's extrapolation, 0 for none.
        attn_factor: factor of the result.
        beta_fast: upper limit of YaRN's ramp, in rotations within n_ctx_orig.
        beta_slow: lower limit of YaRN's ramp.
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, sections are invalid, freq_base is not positive, or a is not
            of a float type.
        MemoryError: the context is full.
    """
def ggml_rope_multi_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor], n_dims: _Int, sections: _Pointer, mode: _Int, n_ctx_orig: _Int, freq_base: _Float, freq_scale: _Float, ext_factor: _Float, attn_factor: _Float, beta_fast: _Float, beta_slow: _Float) -> ggml_tensor_p:
    """Applies rotary position embedding with four positions for each token to a in its own memory.

    The rotation is that of ggml_rope_multi. The gradient flows to the old value of a; the one with respect to c needs
    that value, so the backward pass raises ValueError where c is a parameter.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [head_dim, n_heads, n_tokens, batch]; it is modified.
        b: positions, i32, [4 * n_tokens]: the first position of every token, then the second of every token, and so
            on.
        c: frequency factors, f32, one for each pair or more, [n_pairs], or None (NULL) for factors of 1.
        n_dims: number of leading elements of a row to rotate, even, 0 to head_dim; for GGML_ROPE_TYPE_VISION
            head_dim / 2, and the whole row is rotated.
        sections: array of four int, the number of pairs for each of the four positions; not negative, not all 0.
        mode: GGML_ROPE_TYPE_MROPE (one section after the other), GGML_ROPE_TYPE_IMROPE (the first three sections
            interleaved) or GGML_ROPE_TYPE_VISION (one section after the other, in each of which the frequencies
            start anew).
        n_ctx_orig: context length of the original training, in tokens; used with YaRN only.
        freq_base: base of the frequencies, more than 0; usually 10000.
        freq_scale: factor of all angles, 1 for none; 1 / s interpolates positions linearly.
        ext_factor: weight of YaRN's extrapolation: 0 without YaRN, usually 1 with it.
        attn_factor: factor of the result.
        beta_fast: rotations within n_ctx_orig above which YaRN keeps a pair's angle, e.g. 32.
        beta_slow: rotations below which YaRN scales the angle by freq_scale alone, e.g. 1.
    Returns:
        View of all of a, after the rotation.
    Raises:
        ValueError: n_dims is odd, negative or more than head_dim, mode is not supported, b is not i32 or has
            another length, c is not f32 or too short, sections are invalid, freq_base is not positive, or a is not
            of a float type.
        MemoryError: the context is full.
    """
def ggml_rope_set_offset(a: _To[ggml_tensor], n_offs: _Int) -> ggml_tensor_p:
    """Moves the rotated part of the rows of a rotary position embedding: elements n_offs to n_offs + n_dims - 1.

    The elements before and after that part are copied. Call it before the gradients of the graph are built: they are
    rotated in the same part.

    Args:
        a: result of a ggml_rope function, except in mode GGML_ROPE_TYPE_VISION; any type and shape.
        n_offs: number of leading elements of a row that are not rotated, 0 to ne[0] - n_dims.
    Returns:
        a itself.
    Raises:
        TypeError: a is not a tensor pointer, or n_offs is not an integer.
        ValueError: a is not the result of a ggml_rope function, or n_offs is out of range.
        RuntimeError: a does not belong to a live context.
    """
def ggml_rope_yarn_corr_dims(n_dims: _Int, n_orig_ctx: _Int, freq_base: _Float, beta_fast: _Float, beta_slow: _Float, dims: _Pointer) -> None:
    """Computes the pairs between which YaRN passes from unchanged to scaled angles (arXiv:2309.00071).

    With dim(beta) = n_dims * log(n_orig_ctx / (2 pi beta)) / (2 log(freq_base)), dims[0] is
    max(0, floor(dim(beta_fast))) and dims[1] is min(n_dims - 1, ceil(dim(beta_slow))).

    Args:
        n_dims: number of elements of a row that are rotated.
        n_orig_ctx: context length of the original training in tokens, more than 0.
        freq_base: base of the frequencies, more than 0 and not 1.
        beta_fast: rotations within n_orig_ctx above which angles stay unchanged, more than 0.
        beta_slow: rotations below which angles are scaled, more than 0.
        dims: memory for two c_float, which receives the result: an array, a pointer or an address.
    Returns:
        None.
    Raises:
        ValueError: dims is None or too small, or a number is out of range.
    """
def ggml_round(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Rounds each element to the nearest integer, halves away from 0.

    This is C's roundf, not NumPy's round, which takes halves to even. The derivative is 0 wherever it exists, so no
    gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with integral values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_round_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Rounds the elements of a to the nearest integer where they are stored, halves away from 0.

    No gradient flows to a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with round(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_row_size(type: _Int, ne: _Int) -> int:
    """Computes the size in bytes of a row of elements: ne / block * bytes of a block.

    Args:
        type: GGML_TYPE_* of an existing type.
        ne: number of elements, 0 or more; a multiple of the type's block (ggml_blck_size).
    Returns:
        Size in bytes (int).
    Raises:
        TypeError: type or ne is not an integer.
        ValueError: type is not a type, or ne is negative, not a multiple of the block or too large.
    """
def ggml_rwkv_wkv6(ctx: _Address, k: _To[ggml_tensor], v: _To[ggml_tensor], r: _To[ggml_tensor], tf: _To[ggml_tensor], td: _To[ggml_tensor], state: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the recurrence of RWKV-6 (arXiv:2404.05892) for each head.

    For each token, with a state S [n, n] per head: y = (S + (tf * k) v^T)^T r, then S = diag(td) S + k v^T. The
    tokens of all sequences follow one another. The gradient flows to all operands.

    Args:
        ctx: context that receives the result.
        k: keys, f32 [n, n_heads, n_tokens].
        v: values, f32 in the shape of k.
        r: receptances, f32 in the shape of k.
        tf: bonus of the current token, f32 [n, n_heads].
        td: decays, f32 in the shape of k.
        state: initial states, contiguous f32 [n * n * n_heads, n_seqs], within a head S[i, j] at i * n + j (i of k,
            j of v); n_tokens is a multiple of n_seqs.
    Returns:
        f32 tensor [n * n_heads, n_tokens + n * n_seqs]: a row y for each token, then the final states.
    Raises:
        ValueError: a shape or type does not fit, or state is not contiguous.
        MemoryError: the context is full.
    """
def ggml_rwkv_wkv7(ctx: _Address, r: _To[ggml_tensor], w: _To[ggml_tensor], k: _To[ggml_tensor], v: _To[ggml_tensor], a: _To[ggml_tensor], b: _To[ggml_tensor], state: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the recurrence of RWKV-7 (arXiv:2503.14456) for each head.

    For each token, with a state S [n, n] per head: S = S diag(w) + (S a) b^T + v k^T, where S on the right is the
    previous state, then y = S r. The tokens of all sequences follow one another. The gradient flows to all
    operands.

    Args:
        ctx: context that receives the result.
        r: receptances, f32 [n, n_heads, n_tokens].
        w: decays, f32 in the shape of r.
        k: keys, f32 in the shape of r.
        v: values, f32 in the shape of r.
        a: vector that the state is multiplied by, f32 in the shape of r.
        b: vector of the update's rows, f32 in the shape of r.
        state: initial states, contiguous f32 [n * n * n_heads, n_seqs], within a head S[i, j] at i * n + j (i of v,
            j of k); n_tokens is a multiple of n_seqs.
    Returns:
        f32 tensor [n * n_heads, n_tokens + n * n_seqs]: a row y for each token, then the final states.
    Raises:
        ValueError: a shape or type does not fit, or state is not contiguous.
        MemoryError: the context is full.
    """
def ggml_scale(ctx: _Address, a: _To[ggml_tensor], s: _Float) -> ggml_tensor_p:
    """Multiplies each element by a number: a * s.

    The gradient flows to a, multiplied by s.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        s: factor, rounded to f32.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: s is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_scale_bias(ctx: _Address, a: _To[ggml_tensor], s: _Float, b: _Float) -> ggml_tensor_p:
    """Multiplies each element by one number and adds another: a * s + b.

    The gradient flows to a, multiplied by s.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        s: factor, rounded to f32.
        b: summand, a number rounded to f32.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: s or b is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_scale_bias_inplace(ctx: _Address, a: _To[ggml_tensor], s: _Float, b: _Float) -> ggml_tensor_p:
    """Applies x * s + b to each element x of a, where it is stored.

    The gradient does not depend on the elements and remains available.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten.
        s: factor, rounded to f32.
        b: summand, a number rounded to f32.
    Returns:
        View of all of a.
    Raises:
        TypeError: s or b is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_scale_inplace(ctx: _Address, a: _To[ggml_tensor], s: _Float) -> ggml_tensor_p:
    """Multiplies a by a number and stores the products in a.

    Unless the graph also computes a, each computation of the graph scales it once more. The gradient of a is that
    of the result times s; it needs no element of a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with a * s.
        s: factor, rounded to f32.
    Returns:
        View of all of a.
    Raises:
        TypeError: s is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_set(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], nb1: _Int, nb2: _Int, nb3: _Int, offset: _Int) -> ggml_tensor_p:
    """Replaces a part of a copy of a by b: result = a; view(result, nb1, nb2, nb3, offset) = b.

    The part has b's shape and the given strides within the result, which is contiguous. The gradient flows to b
    from the part and to a from everything else.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        b: tensor of a's type, any shape that fits into the result from offset on.
        nb1: bytes between rows of the part, less than 2 GiB, a multiple of the element's size. The stride of a
            dimension of size 1 is not used.
        nb2: stride of the part's dimension 2 in bytes, likewise.
        nb3: stride of the part's dimension 3 in bytes, likewise.
        offset: bytes from the start of the result to the part, less than 2 GiB, a multiple of the element's size.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        ValueError: the types differ or are quantised, the part ends beyond the result, or a stride or offset is
            invalid.
        MemoryError: the context is full.
    """
def ggml_set_1d(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], offset: _Int) -> ggml_tensor_p:
    """Replaces consecutive elements of a copy of a by the vector b.

    The gradient flows to b from these elements and to a from all others.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        b: vector [n] of a's type. Further dimensions of b have the strides nb[1] to nb[3] of a.
        offset: bytes from the start of the result to the first element replaced, less than 2 GiB, a multiple of the
            element's size.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        ValueError: the types differ or are quantised, b ends beyond the result, or offset is invalid.
        MemoryError: the context is full.
    """
def ggml_set_1d_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], offset: _Int) -> ggml_tensor_p:
    """Stores the vector b in consecutive elements of a itself.

    The gradient flows to b from these elements and to a from all others.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous tensor of any type that is not quantised, [ne0, ne1, ne2, ne3]; it is modified.
        b: vector [n] of a's type. Further dimensions of b have the strides nb[1] to nb[3] of a.
        offset: bytes from the start of a to the first element overwritten, less than 2 GiB, a multiple of the
            element's size.
    Returns:
        View of all of a, after b was stored.
    Raises:
        ValueError: the types differ or are quantised, a is not contiguous, b ends beyond a, or offset is invalid.
        MemoryError: the context is full.
    """
def ggml_set_2d(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], nb1: _Int, offset: _Int) -> ggml_tensor_p:
    """Replaces a rectangle of a copy of a by the matrix b, whose rows are nb1 bytes apart there.

    The gradient flows to b from the rectangle and to a from everything else.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        b: matrix [n, m] of a's type. Further dimensions of b have the strides nb[2] and nb[3] of a.
        nb1: bytes between rows of the rectangle, less than 2 GiB, a multiple of the element's size.
        offset: bytes from the start of the result to the rectangle, less than 2 GiB, a multiple of the element's
            size.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        ValueError: the types differ or are quantised, the rectangle ends beyond the result, or nb1 or offset is
            invalid.
        MemoryError: the context is full.
    """
def ggml_set_2d_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], nb1: _Int, offset: _Int) -> ggml_tensor_p:
    """Stores the matrix b in a rectangle of a itself, with rows nb1 bytes apart.

    The gradient flows to b from the rectangle and to a from everything else.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous tensor of any type that is not quantised, [ne0, ne1, ne2, ne3]; it is modified.
        b: matrix [n, m] of a's type. Further dimensions of b have the strides nb[2] and nb[3] of a.
        nb1: bytes between rows of the rectangle, less than 2 GiB, a multiple of the element's size.
        offset: bytes from the start of a to the rectangle, less than 2 GiB, a multiple of the element's size.
    Returns:
        View of all of a, after b was stored.
    Raises:
        ValueError: the types differ or are quantised, a is not contiguous, the rectangle ends beyond a, or nb1 or
            offset is invalid.
        MemoryError: the context is full.
    """
def ggml_set_abort_callback(callback: ggml_abort_callback_t | Callable[..., Any] | int | None) -> ggml_abort_callback_t:
    """Sets the function that ggml_abort calls before it raises.

    Args:
        callback: ggml_abort_callback_t, Python callable or address of a C function, called with the message
            (bytes). None removes it.
    Returns:
        The previous callback (ggml_abort_callback_t); a NULL function if there was none.
    Raises:
        TypeError: callback is not a callback of this type.
        ValueError: callback is the address of no function.
    """
def ggml_set_f32(tensor: _To[ggml_tensor], value: _Float) -> ggml_tensor_p:
    """Writes one number to every element of a tensor.

    It writes immediately, through the strides of the tensor; ggml_fill does the same as an operation of a graph.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64). It is
            overwritten.
        value: number, rounded to float32 and then to the tensor's type; integer types truncate it towards zero.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer, or value is not a number.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or its integer type cannot hold value.
        RuntimeError: tensor or its data was freed.
    """
def ggml_set_f32_1d(tensor: _To[ggml_tensor], i: _Int, value: _Float) -> None:
    """Writes a number to one element of a tensor by its flat index.

    The index counts in logical order, dimension 0 fastest. The number is rounded to float32 and then converted to
    the tensor's type; integer types truncate it towards zero.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
        value: number.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, i is not an integer or value is not a number.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or its integer type cannot hold value.
        RuntimeError: tensor or its data was freed.
    """
def ggml_set_f32_nd(tensor: _To[ggml_tensor], i0: _Int, i1: _Int, i2: _Int, i3: _Int, value: _Float) -> None:
    """Writes a number to the element at [i0, i1, i2, i3] of a tensor.

    The number is rounded to float32 and then converted to the tensor's type; integer types truncate it towards
    zero.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
        value: number.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, an index is not an integer or value is not a number.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or its integer type cannot hold value.
        RuntimeError: tensor or its data was freed.
    """
def ggml_set_i32(tensor: _To[ggml_tensor], value: _Int) -> ggml_tensor_p:
    """Writes one integer to every element of a tensor.

    It writes immediately, through the strides of the tensor.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64). It is
            overwritten.
        value: 32-bit integer; float types round it to the nearest value they have.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer, or value is not an integer.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or value does not fit 32 bits or its
            type.
        RuntimeError: tensor or its data was freed.
    """
def ggml_set_i32_1d(tensor: _To[ggml_tensor], i: _Int, value: _Int) -> None:
    """Writes an integer to one element of a tensor by its flat index.

    The index counts in logical order, dimension 0 fastest. Float types round the integer to the nearest value they
    have.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
        value: 32-bit integer.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, or i or value is not an integer.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or value does not fit 32 bits or its
            type.
        RuntimeError: tensor or its data was freed.
    """
def ggml_set_i32_nd(tensor: _To[ggml_tensor], i0: _Int, i1: _Int, i2: _Int, i3: _Int, value: _Int) -> None:
    """Writes an integer to the element at [i0, i1, i2, i3] of a tensor.

    Float types round the integer to the nearest value they have.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
        value: 32-bit integer.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, or an index or value is not an integer.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or value does not fit 32 bits or its
            type.
        RuntimeError: tensor or its data was freed.
    """
def ggml_set_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], nb1: _Int, nb2: _Int, nb3: _Int, offset: _Int) -> ggml_tensor_p:
    """Stores b in a part of a without copying a: view(a, nb1, nb2, nb3, offset) = b.

    The gradient flows to b from the part and to a from everything else.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous tensor of any type that is not quantised, [ne0, ne1, ne2, ne3]; the part is overwritten.
        b: tensor of a's type, any shape that fits into a from offset on.
        nb1: bytes between rows of the part, less than 2 GiB, a multiple of the element's size. The stride of a
            dimension of size 1 is not used.
        nb2: stride of the part's dimension 2 in bytes, likewise.
        nb3: stride of the part's dimension 3 in bytes, likewise.
        offset: bytes from the start of a to the part, less than 2 GiB, a multiple of the element's size.
    Returns:
        View of all of a, after b was stored.
    Raises:
        ValueError: the types differ or are quantised, a is not contiguous, the part ends beyond a, or a stride or
            offset is invalid.
        MemoryError: the context is full.
    """
def ggml_set_input(tensor: _To[ggml_tensor]) -> None:
    """Marks a tensor as an input of the graph.

    Graph allocators reserve its memory from the start of the graph and compute no result in its place. Memory is
    reused after the last node that reads the input, unless it is marked as an output too.

    Args:
        tensor: tensor of any shape and any type; GGML_TENSOR_FLAG_INPUT is set in its flags.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_set_loss(tensor: _To[ggml_tensor]) -> None:
    """Marks a tensor as the loss from which gradients are propagated back.

    Args:
        tensor: f32 tensor with one element, [1, 1, 1, 1]; GGML_TENSOR_FLAG_LOSS is set in its flags.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer, is not f32 or has more or less than one element.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_set_name(tensor: _To[ggml_tensor], name: _Text) -> ggml_tensor_p:
    """Sets the name of a tensor.

    Args:
        tensor: tensor of any shape and any type; its name is replaced.
        name: bytes or str (encoded as UTF-8); only the first 63 bytes are stored.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer, or name is neither bytes nor str.
        ValueError: tensor is a NULL pointer or has an invalid field, or name cannot be encoded.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_set_no_alloc(ctx: _Address, no_alloc: _Bool) -> None:
    """Sets whether new tensors of a context get data.

    Tensors that exist already do not change.

    Args:
        ctx: context.
        no_alloc: True for tensors without data, False for tensors with data.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context handle, or no_alloc is not a truth value.
        RuntimeError: ctx is not a live context.
    """
def ggml_set_output(tensor: _To[ggml_tensor]) -> None:
    """Marks a tensor as an output of the graph.

    Graph allocators do not reuse its memory for later nodes, so that it can be read when the graph was computed. For
    a view this is the memory of the tensor that it views. They see only tensors that are in the graph: expand the
    graph by a view that no node reads.

    Args:
        tensor: tensor of any shape and any type; GGML_TENSOR_FLAG_OUTPUT is set in its flags.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_set_param(*args: Any) -> None:
    """Marks a tensor as a parameter, with respect to which gradients are computed.

    Call it before ggml_build_forward_expand: a graph lists parameters among its nodes instead of its leafs.
    ggml_build_backward_expand then adds their gradients.

    Args:
        *args: (tensor), or (ctx, tensor) as in old releases. The tensor has any shape and must be a leaf, not the
            result of an operation. ctx is ignored.
    Returns:
        None.
    Raises:
        TypeError: there are not one or two arguments, or the last one is not a tensor pointer.
        ValueError: the tensor is a NULL pointer or the result of an operation.
        RuntimeError: the tensor does not belong to a live context.
    """
def ggml_set_rows(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], c: _To[ggml_tensor]) -> ggml_tensor_p:
    """Overwrites rows of a by index, converting to its type: a[:, c[i, j mod c1, k mod c2], j, k] = b[:, i, j, k].

    Where an index occurs more than once, the last row wins. An index outside a's rows makes the compute fail. If a is
    quantised, the scales of its blocks are limited to the largest finite ones.
    The gradient flows to b from the rows that stay, if b has fewer than 2^24, and to a from the rows that are not
    written.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: destination [ne0, n_rows, ne2, ne3] of any type that does not need importance weights; it is modified.
        b: new rows, f32, f16 or bf16, [ne0, n, ne2, ne3].
        c: indices, i64 or i32, [n, c1, c2]; ne2 is a multiple of c1 and ne3 of c2.
    Returns:
        View of all of a, after the rows were written.
    Raises:
        ValueError: a shape does not fit, b is not of a float type, c is neither i64 nor i32, or there is no
            conversion to a's type.
        MemoryError: the context is full.
    """
def ggml_set_scratch(ctx: _Address, scratch: ggml_scratch) -> int:
    """Sets the scratch buffer in which a context places the data of new tensors.

    The tensor structs stay in the arena, as do the values of ggml_new_i32 and ggml_new_f32. Views share memory as
    always.

    Args:
        ctx: context; it keeps the buffer alive if it is ctypes memory.
        scratch: ggml_scratch with three fields. offs: first byte to use. size: bytes in all. data: address of the
            memory, or None to place data in the arena again.
    Returns:
        Bytes in use of the buffer that was set before (int), its offs included; 0 if there was none.
    Raises:
        TypeError: ctx is not a context handle, or scratch is not a ggml_scratch.
        ValueError: offs is larger than size, or data is not readable memory of size bytes.
        RuntimeError: ctx is not a live context.
    """
def ggml_set_zero(tensor: _To[ggml_tensor]) -> ggml_tensor_p:
    """Sets all data of a tensor to zero bytes.

    Gaps between the elements of a strided tensor stay as they are, except in quantised tensors, where they are
    cleared too.

    Args:
        tensor: tensor of any shape and any type, also quantised. It is overwritten.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has no data.
        RuntimeError: tensor or its data was freed.
    """
def ggml_sgn(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Gives the sign of each element as -1, 0 or 1.

    NaN stays NaN. The derivative is 0 wherever it exists, so no gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sgn_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Replaces each element of a by its sign, -1, 0 or 1.

    Like ggml_sgn it passes no gradient to a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with the signs.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sigmoid(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the logistic function: 1 / (1 + exp(-a)).

    The gradient flows to a, multiplied by y * (1 - y), where y is the result.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from 0 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sigmoid_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Turns the elements of a, as logits, into probabilities: 1 / (1 + exp(-a)).

    The gradient is computed from the probabilities, so it remains available.

    Args:
        ctx: context that receives the node.
        a: logits, f32, f16 or bf16, any shape; overwritten.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_silu(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes SiLU, also called swish (arXiv:1702.03118): a * sigmoid(a).

    The gradient flows to a, as ggml_silu_back computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_swiglu, which multiplies the result by a second operand in the same pass.
    """
def ggml_silu_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the gradient of ggml_silu: a * s * (1 + b * (1 - s)) with s = sigmoid(b).

    The gradient flows to a and to b, so second derivatives are available.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_silu, f32, f16 or bf16, any shape.
        b: argument of ggml_silu, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type: the gradient of the argument.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_silu_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Multiplies each element of a by its sigmoid and stores the products in a.

    SiLU is not monotonic, so its gradient needs the original elements: ggml_build_backward_expand raises
    ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with silu(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sin(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the sine of each element, given in radians.

    Infinite elements give NaN; large finite ones are reduced accurately. The gradient flows to a, multiplied by cos(a).

    Args:
        ctx: context that receives the result.
        a: angles in radians, f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from -1 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sin_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Overwrites the angles in a with their sines.

    The gradient needs the angles, so ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: angles in radians, f32, f16 or bf16, any shape; overwritten.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_soft_max(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the softmax of each row: exp(a) / sum(exp(a)).

    The largest element of a row is subtracted first, so exp does not overflow. A row that is -inf throughout gives
    zeros. The gradient flows to a, as ggml_soft_max_back computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_soft_max_ext for a mask and a scale, ggml_soft_max_add_sinks for sinks.
    """
def ggml_soft_max_add_sinks(a: _To[ggml_tensor], sinks: _To[ggml_tensor]) -> None:
    """Gives a softmax node attention sinks: one additional logit for each head.

    The node itself changes. exp(sink) is added to the sum that divides each row of the head but has no element in the
    result, so these rows sum to less than 1. The gradient flows to sinks.

    Args:
        a: result of ggml_soft_max or ggml_soft_max_ext (or an _inplace form), f32, f16 or bf16, [ne0, ne1,
            n_heads, ne3].
        sinks: f32 [n_heads]; None or NULL removes the sinks.
    Returns:
        None.
    Raises:
        TypeError: a or sinks is not a tensor.
        ValueError: a is not the result of a softmax, or sinks is not one f32 for each head.
        RuntimeError: a or sinks was freed.
    """
def ggml_soft_max_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the gradient of ggml_soft_max with respect to its argument: (a - sum(a * b)) * b.

    The sum is taken over each row. The gradient flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_soft_max, f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        b: result of ggml_soft_max, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_soft_max_back_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Turns the gradient of a ggml_soft_max result into that of its argument, in the same memory.

    The result is (a - sum(a * b)) * b by rows. b is only read.

    Args:
        ctx: context that receives the node.
        a: gradient of the result of ggml_soft_max, f32, f16 or bf16, [ne0, ne1, ne2, ne3]; overwritten.
        b: result of ggml_soft_max, f32, f16 or bf16, of the shape of a.
    Returns:
        View of all of a.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_soft_max_ext(ctx: _Address, a: _To[ggml_tensor], mask: _To[ggml_tensor], scale: _Float, max_bias: _Float) -> ggml_tensor_p:
    """Computes the softmax of each row of a * scale + slope * mask.

    An element is hidden where the mask is -inf, whatever its value; a row that is hidden throughout gives zeros.
    The slope is 1 if max_bias is 0. Otherwise it implements ALiBi (arXiv:2108.12409): where p is the largest
    power of two up to n_heads, head h has the slope

        2^(-max_bias * (h + 1) / p)                     for h < p,
        2^(-max_bias * (2 * (h - p) + 1) / (2 * p))     for the heads beyond.

    The gradient flows to a, mask and sinks (see ggml_soft_max_add_sinks).

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [n_keys, n_queries, n_heads, batch].
        mask: f32 or f16, [n_keys, n_queries or more, m2, m3], where n_heads is a multiple of m2 and batch of m3;
            None or NULL for no mask.
        scale: factor of a, a number.
        max_bias: ALiBi's largest exponent, 0 or more; 0 without a mask.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: scale or max_bias is not a number.
        ValueError: mask does not fit a, max_bias is negative or needs a mask, or a type is not supported.
        MemoryError: the context is full.
    """
def ggml_soft_max_ext_back(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], scale: _Float, max_bias: _Float) -> ggml_tensor_p:
    """Computes the gradient of ggml_soft_max_ext with respect to its a: scale * (a - sum(a * b)) * b.

    The sum is taken over each row. The gradient flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_soft_max_ext, f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        b: result of ggml_soft_max_ext, f32, f16 or bf16, of the shape of a.
        scale: the scale of ggml_soft_max_ext, a number.
        max_bias: the max_bias of ggml_soft_max_ext, a number; it does not change this gradient.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: scale or max_bias is not a number.
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_soft_max_ext_back_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], scale: _Float, max_bias: _Float) -> ggml_tensor_p:
    """Turns the gradient of a ggml_soft_max_ext result into that of its a, in the same memory.

    The result is scale * (a - sum(a * b)) * b by rows. A further gradient flows to a; one of b would need the
    overwritten values, and ggml_build_backward_expand raises ValueError for it.

    Args:
        ctx: context that receives the node.
        a: gradient of the result of ggml_soft_max_ext, f32, f16 or bf16, [ne0, ne1, ne2, ne3]; overwritten.
        b: result of ggml_soft_max_ext, f32, f16 or bf16, of the shape of a.
        scale: the scale of ggml_soft_max_ext, a number.
        max_bias: the max_bias of ggml_soft_max_ext, a number; it does not change this gradient.
    Returns:
        View of all of a.
    Raises:
        TypeError: scale or max_bias is not a number.
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_soft_max_ext_inplace(ctx: _Address, a: _To[ggml_tensor], mask: _To[ggml_tensor], scale: _Float, max_bias: _Float) -> ggml_tensor_p:
    """Replaces each row of a by the softmax of a * scale + slope * mask.

    Scale, mask and slopes are those of ggml_soft_max_ext. The gradients of a and mask are computed from the
    result and remain available.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [n_keys, n_queries, n_heads, batch]; overwritten.
        mask: f32 or f16, [n_keys, n_queries or more, m2, m3], where n_heads is a multiple of m2 and batch of m3;
            None or NULL for no mask.
        scale: factor of a, a number.
        max_bias: ALiBi's largest exponent, 0 or more; 0 without a mask.
    Returns:
        View of all of a.
    Raises:
        TypeError: scale or max_bias is not a number.
        ValueError: mask does not fit a, max_bias is negative or needs a mask, or a type is not supported.
        MemoryError: the context is full.
    """
def ggml_soft_max_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Replaces each row of a by its softmax.

    The gradient is computed from the result, so attention may use this form in training.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; overwritten.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_softplus(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the smooth rectifier log(1 + exp(a)).

    It neither overflows for large a nor rounds to 0 for negative a before exp(a) itself underflows. The gradient flows
    to a, multiplied by sigmoid(a).

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, without negative values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_softplus_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Applies log(1 + exp(x)) to each element x of a where it is stored.

    The gradient is the sigmoid of the original elements: ggml_build_backward_expand raises ValueError if a needs
    one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with softplus(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_solve_tri(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], left: _Bool, lower: _Bool, uni: _Bool) -> ggml_tensor_p:
    """Solves A X = B for X by forward substitution, with A lower triangular.

    Row i of A is row i of a; elements above the diagonal are not read. A zero on the diagonal gives infinities or NaN,
    not an error. The gradient flows to a (its lower triangle) and to b.

    Args:
        ctx: context that receives the result.
        a: A, f32, f16 or bf16, [n, n, ne2, ne3].
        b: B, f32, f16 or bf16, [n_columns, n, ne2, ne3].
        left: must be True: A stands to the left of X.
        lower: must be True: A is lower triangular.
        uni: must be False: the diagonal of A is read, not taken to be 1.
    Returns:
        f32 tensor of b's shape: X.
    Raises:
        ValueError: left, lower or uni has another value, a is not square, the shapes do not fit, or a type is not
            f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sqr(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Squares each element: a^2.

    The gradient flows to a, multiplied by 2 * a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sqr_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Replaces each element of a by its square.

    The gradient would need the values before squaring: ggml_build_backward_expand raises ValueError if a needs
    one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; holds the squares afterwards.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sqrt(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Takes the square root of each element.

    Negative elements give NaN. The gradient flows to a, multiplied by 0.5 / sqrt(a), which is infinite at 0.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sqrt_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Replaces each element of a by its square root, NaN where it is negative.

    The gradient is computed from the roots, so overwriting the radicands does not prevent it.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; holds the roots afterwards.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_ssm_conv(ctx: _Address, sx: _To[ggml_tensor], c: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the causal convolution of Mamba (arXiv:2312.00752) for each channel of each sequence.

    result[ch, t, n] = sum over i of sx[t + i, ch, n] * c[i, ch]. The gradient flows to sx and c.

    Args:
        ctx: context that receives the result.
        sx: f32 [n_taps - 1 + n_tokens, channels, n_seqs]: each row starts with the n_taps - 1 elements before the
            new ones.
        c: f32 weights [n_taps, channels].
    Returns:
        f32 tensor [channels, n_tokens, n_seqs].
    Raises:
        ValueError: sx has shorter rows than n_taps - 1, the channels differ, or a type is not f32.
        MemoryError: the context is full.
    """
def ggml_ssm_scan(ctx: _Address, s: _To[ggml_tensor], x: _To[ggml_tensor], dt: _To[ggml_tensor], A: _To[ggml_tensor], B: _To[ggml_tensor], C: _To[ggml_tensor], ids: _To[ggml_tensor], K: _Int = ...) -> ggml_tensor_p:
    """Computes the selective scan of Mamba (arXiv:2312.00752) and Mamba-2 (arXiv:2405.21060).

    For each token, with the head's state S and d = softplus(dt): S = S * exp(d A) + (d x) B^T, y = S C. Consecutive
    heads share a group of B and C. An index in ids outside the states makes the compute fail. The gradient flows
    to s, x, dt, A, B and C.

    Args:
        ctx: context that receives the result.
        s: initial states, contiguous f32 [d_state, dim, n_heads, n_states].
        x: inputs, f32 [dim, n_heads, n_tokens, n_seqs].
        dt: steps before softplus, f32 [n_heads, n_tokens, n_seqs].
        A: decay rates, f32 [d_state, n_heads] or [1, n_heads].
        B: input projections, f32 [d_state, n_groups, n_tokens, n_seqs]; n_heads is a multiple of n_groups.
        C: output projections, f32 in the shape of B.
        ids: i32 [n_seqs], the initial state of each sequence.
        K: number of states to return, 1 or more: those after the last K tokens.
    Returns:
        f32 vector: y in the shape of x, then K times states [d_state, dim, n_heads, n_seqs], the final ones first.
            With fewer than K tokens the rest is 0.
    Raises:
        ValueError: a shape or type does not fit, s is not contiguous, or K is less than 1.
        MemoryError: the context is full.
    """
def ggml_status_to_string(status: _Int) -> bytes:
    """Describes a status of a computation in words.

    Args:
        status: GGML_STATUS_*: -2 (out of memory), -1 (failed), 0 (success) or 1 (aborted).
    Returns:
        Text (bytes), as b"GGML status: success"; b"GGML status: unknown" for other numbers.
    Raises:
        TypeError: status is not an integer.
        ValueError: status does not fit 32 bits.
    """
def ggml_step(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the unit step: 1 where a > 0, else 0.

    NaN stays NaN. The derivative is 0 wherever it exists, so no gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_step_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Turns a into a mask of its positive elements: 1 where positive, else 0.

    No gradient flows to a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with the mask.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sub(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Subtracts two tensors element by element: a - b, with b repeated to the shape of a.

    The gradient flows to a unchanged, and to b negated and summed over its repeats.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sub_inplace(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Subtracts b from a and keeps the differences in a.

    The gradient needs neither operand, so it is available although a is overwritten.

    Args:
        ctx: context that receives the node.
        a: minuend, f32, f16 or bf16, any shape; holds the difference afterwards.
        b: subtrahend, f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        View of all of a.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sum(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Sums all elements of a tensor.

    Short blocks are summed in f32 and added up in double precision; the number of threads does not change the result.
    The gradient flows to every element of a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor [1] of a's type; 0 if a is empty.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_sum_rows(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Sums the elements of each row.

    The gradient flows to every element of the row.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
    Returns:
        f32 tensor [1, ne1, ne2, ne3], also for f16 and bf16 input.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_swiglu(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes SwiGLU of each row: silu(first half) * second half.

    silu(x) is x * sigmoid(x). The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: argument and gate side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_swiglu_oai(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor], alpha: _Float, limit: _Float) -> ggml_tensor_p:
    """Computes the clamped SwiGLU of the gpt-oss models: x * sigmoid(alpha * x) * (y + 1).

    x is min(a, limit), y is b clamped to -limit .. limit. The gradient flows to a and b where they are within their
    bounds.

    Args:
        ctx: context that receives the result.
        a: argument of the activation, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
        alpha: factor inside the sigmoid, a number; gpt-oss uses 1.702.
        limit: bound of a and b, a number; gpt-oss uses 7.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: alpha or limit is not a number.
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_swiglu_split(ctx: _Address, a: _To[ggml_tensor], b: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes SwiGLU of two tensors: silu(a) * b.

    This is the gate of LLaMA's feed-forward layers in one pass instead of ggml_silu and ggml_mul. The gradient
    flows to a and b.

    Args:
        ctx: context that receives the result.
        a: argument of silu, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_swiglu_swapped(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes SwiGLU of rows that begin with the gate: first half * silu(second half).

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: gate and argument side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_tallocr_alloc(talloc: ggml_tallocr | _To[ggml_tallocr], tensor: _To[ggml_tensor]) -> int:
    """Places a tensor at the next free position of a buffer.

    The data and buffer fields of the tensor are set, and the offset of the allocator advances by its aligned size.
    The values are undefined.

    Args:
        talloc: ggml_tallocr, or a pointer to one.
        tensor: tensor of any shape and any type without data, not a view.
    Returns:
        GGML_STATUS_SUCCESS (0), or the status with which the buffer prepared the tensor.
    Raises:
        TypeError: talloc is not a ggml_tallocr, or tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer, is a view or has data already.
        MemoryError: the buffer is full.
        RuntimeError: tensor does not belong to a live context, or the buffer was freed.
    """
def ggml_tallocr_new(buffer: _Address) -> ggml_tallocr:
    """Creates an allocator that places tensors one after the other in a buffer.

    Args:
        buffer: handle of a backend buffer, which must outlive the allocator.
    Returns:
        ggml_tallocr by value: buffer, base address, alignment in bytes and offset, the bytes in use.
    Raises:
        TypeError: buffer is None or a handle of another kind.
        RuntimeError: buffer is not a live buffer.
    """
def ggml_tanh(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Computes the hyperbolic tangent of each element.

    The gradient flows to a, multiplied by 1 - y^2, where y is the result.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from -1 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_tanh_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Replaces each element of a by its hyperbolic tangent.

    The gradient is computed from the result alone, so hidden layers may use this form in training.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with tanh(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_tensor_overhead() -> int:
    """Returns the memory that a tensor takes in a context besides its data.

    Add it once for each tensor when you compute mem_size for ggml_init.

    Returns:
        Bytes of the object's header and the tensor's struct (int), 368.
    """
def ggml_threadpool_free(threadpool: _Address) -> None:
    """Frees a thread pool.

    Args:
        threadpool: handle of the pool; None is accepted and ignored.
    Returns:
        None.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
def ggml_threadpool_get_n_threads(threadpool: _Address) -> int:
    """Returns the number of threads that a pool stands for.

    Args:
        threadpool: handle of the pool.
    Returns:
        Number of threads (int), 1 to 512.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
def ggml_threadpool_new(params: _To[ggml_threadpool_params]) -> ggml_threadpool_t | None:
    """Creates a handle that stands for a number of threads.

    No thread is started: graphs run on the threads of OpenMP. A backend that gets the pool
    (ggml_backend_cpu_set_threadpool) computes with n_threads threads; the other parameters have no effect.

    Args:
        params: ggml_threadpool_params, or a pointer to one; it is copied.
    Returns:
        Handle of the pool (int); free it with ggml_threadpool_free.
    Raises:
        TypeError: params is not a pointer to ggml_threadpool_params.
        ValueError: params.n_threads is not 1 to 512.
    """
def ggml_threadpool_params_default(n_threads: _Int) -> ggml_threadpool_params:
    """Creates parameters of a thread pool with default values.

    Args:
        n_threads: number of threads, 1 to 512.
    Returns:
        ggml_threadpool_params by value: any CPU, normal priority, poll 50, not strict, not paused.
    Raises:
        TypeError: n_threads is not an integer.
        ValueError: n_threads is out of range.
    """
def ggml_threadpool_params_init(p: _To[ggml_threadpool_params], n_threads: _Int) -> None:
    """Overwrites parameters of a thread pool with the default values.

    Args:
        p: ggml_threadpool_params, or a pointer to one; set as ggml_threadpool_params_default does it.
        n_threads: number of threads, 1 to 512.
    Returns:
        None.
    Raises:
        TypeError: p is not a pointer to ggml_threadpool_params, or n_threads is not an integer.
        ValueError: n_threads is out of range.
    """
def ggml_threadpool_params_match(p0: _To[ggml_threadpool_params], p1: _To[ggml_threadpool_params]) -> bool:
    """Tells whether two sets of thread pool parameters describe the same threads.

    It compares n_threads, prio, poll, strict_cpu and cpumask, but not paused.

    Args:
        p0: ggml_threadpool_params, or a pointer to one.
        p1: ggml_threadpool_params, or a pointer to one.
    Returns:
        True if the compared fields are equal.
    Raises:
        TypeError: p0 or p1 is not a pointer to ggml_threadpool_params.
    """
def ggml_threadpool_pause(threadpool: _Address) -> None:
    """Marks a thread pool as paused.

    The mark has no effect: the threads sleep between graphs anyway.

    Args:
        threadpool: handle of the pool.
    Returns:
        None.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
def ggml_threadpool_resume(threadpool: _Address) -> None:
    """Removes the mark that ggml_threadpool_pause set.

    Args:
        threadpool: handle of the pool.
    Returns:
        None.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
def ggml_time_init() -> None:
    """Does nothing; the clocks need no preparation.

    It exists so that programs written for the C library run unchanged.

    Returns:
        None.
    """
def ggml_time_ms() -> int:
    """Reads a monotonic clock in milliseconds.

    Only differences between two calls are meaningful.

    Returns:
        Whole milliseconds since an unspecified start (int).
    """
def ggml_time_us() -> int:
    """Reads a monotonic clock in microseconds.

    Only differences between two calls are meaningful.

    Returns:
        Whole microseconds since an unspecified start (int).
    """
def ggml_timestep_embedding(ctx: _Address, timesteps: _To[ggml_tensor], dim: _Int, max_period: _Int) -> ggml_tensor_p:
    """Computes sinusoidal embeddings of timesteps: row t is cos(t f_0), cos(t f_1), ..., sin(t f_0), sin(t f_1), ...

    The dim // 2 frequencies are f_j = max_period^(-j / (dim // 2)). If dim is odd, the last element is 0. The
    gradient flows to timesteps.

    Args:
        ctx: context that receives the result.
        timesteps: f32 vector [n].
        dim: length of an embedding, 0 or more.
        max_period: determines the lowest frequency; 1 or more.
    Returns:
        f32 tensor [dim, n].
    Raises:
        ValueError: timesteps is not an f32 vector, dim is negative, or max_period is not positive.
        MemoryError: the context is full.
    """
def ggml_top_k(ctx: _Address, a: _To[ggml_tensor], k: _Int) -> ggml_tensor_p:
    """Finds the indices of the k largest elements of each row.

    Here they are in descending order of their elements, but the C library does not promise an order. Equal elements
    keep their order, NaN comes last. There is no gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        k: number of indices for each row, 0 to ne0.
    Returns:
        i32 tensor [k, ne1, ne2, ne3], contiguous.
    Raises:
        TypeError: k is not an integer.
        ValueError: k is out of range, a is not f32, f16 or bf16, or its rows are too long for an i32 index.
        MemoryError: the context is full.
    See also:
        ggml_argsort_top_k.
    """
def ggml_transpose(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Views the matrices of a tensor with rows and columns exchanged.

    No element is copied; ggml_cont makes the result contiguous. The gradient flows to a.

    Args:
        ctx: context that receives the view.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
    Returns:
        View [ne1, ne0, ne2, ne3] of a, of the same type.
    Raises:
        ValueError: a is quantised.
        MemoryError: the context is full.
    """
def ggml_tri(ctx: _Address, a: _To[ggml_tensor], type_: _Int) -> ggml_tensor_p:
    """Keeps the upper or lower triangle of each square matrix and sets the other elements to 0.

    The index of dimension 0 is the column, that of dimension 1 the row. The gradient with respect to a is the same
    triangle of the result's gradient.

    Args:
        ctx: context that receives the result.
        a: matrices [n, n, ne2, ne3] of any type that is not quantised.
        type_: which elements stay: GGML_TRI_TYPE_UPPER_DIAG (column >= row), GGML_TRI_TYPE_UPPER (column > row),
            GGML_TRI_TYPE_LOWER_DIAG (column <= row) or GGML_TRI_TYPE_LOWER (column < row).
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: the matrices are not square, type_ is not one of the four, or a is quantised.
        MemoryError: the context is full.
    """
def ggml_trunc(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Rounds each element towards 0.

    The derivative is 0 wherever it exists, so no gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with integral values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_trunc_inplace(ctx: _Address, a: _To[ggml_tensor]) -> ggml_tensor_p:
    """Drops the fraction of each element of a.

    No gradient flows to a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with trunc(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_type_name(type: _Int) -> bytes:
    """Returns the name of a tensor type.

    Args:
        type: number of a type, GGML_TYPE_*.
    Returns:
        Name in lower case except for the K of the k-quants (bytes), as b"f32" or b"q4_K"; b"DEPRECATED" for the
        number of a removed type, None for a number that no type has.
    Raises:
        TypeError: type is not an integer.
        ValueError: type does not fit 64 bits.
    """
def ggml_type_size(type: _Int) -> int:
    """Returns the size in bytes of one block of a type.

    Args:
        type: GGML_TYPE_*, or the number of a removed type.
    Returns:
        Bytes of a block, or of an element where the type is not quantised (int); 0 for numbers of removed types.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is out of range.
    See also:
        ggml_row_size gives the size of a whole row.
    """
def ggml_type_sizef(type: _Int) -> float:
    """Computes the average size of one element of a type: bytes of a block / elements of a block.

    Args:
        type: GGML_TYPE_* of an existing type.
    Returns:
        Bytes of an element (float), for example 0.5625 for q4_0.
    Raises:
        TypeError: type is not an integer.
        ValueError: type is out of range or the number of a removed type.
    """
def ggml_unary(ctx: _Address, a: _To[ggml_tensor], op: _Int) -> ggml_tensor_p:
    """Applies the element-wise function that a number selects.

    ggml_unary(ctx, a, GGML_UNARY_OP_EXP) builds the same node as ggml_exp(ctx, a), and so on. The gradient is that of
    the selected function.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        op: GGML_UNARY_OP_* except GGML_UNARY_OP_XIELU, which takes parameters.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: op is not an integer.
        ValueError: op selects no function or XIELU, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_xielu.
    """
def ggml_unary_inplace(ctx: _Address, a: _To[ggml_tensor], op: _Int) -> ggml_tensor_p:
    """Applies the element-wise function that a number selects, with the result in a's memory.

    It also covers functions without an _inplace builder of their own, such as GGML_UNARY_OP_HARDSWISH. Functions
    whose gradient is computed from the result (tanh, sigmoid, exp, expm1, relu) or from neither operand nor
    result (neg) keep it; for the other ones that have a gradient, ggml_build_backward_expand raises ValueError if
    a needs it.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten.
        op: GGML_UNARY_OP_* except GGML_UNARY_OP_XIELU.
    Returns:
        View of all of a.
    Raises:
        TypeError: op is not an integer.
        ValueError: op selects no function or XIELU, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def ggml_unary_op_name(op: _Int) -> bytes:
    """Returns the name of an element-wise function of GGML_OP_UNARY.

    Args:
        op: GGML_UNARY_OP_*.
    Returns:
        Name in upper case (bytes), as b"TANH".
    Raises:
        TypeError: op is not an integer.
        ValueError: no element-wise function has this number.
    """
def ggml_unravel_index(tensor: _To[ggml_tensor], i: _Int, i0: _Pointer, i1: _Pointer, i2: _Pointer, i3: _Pointer) -> None:
    """Converts a flat index of a tensor to one index for each dimension.

    i = i0 + ne0 * (i1 + ne1 * (i2 + ne2 * i3)). Only the shape of the tensor counts, not its strides.

    Args:
        tensor: tensor of any shape and any type.
        i: flat index, 0 to ggml_nelements(tensor) - 1.
        i0: int64 pointer or buffer that receives the index in dimension 0; None if it is not needed.
        i1: the same for dimension 1.
        i2: the same for dimension 2.
        i3: the same for dimension 3.
    Returns:
        None; the indices are written to i0 to i3.
    Raises:
        TypeError: tensor is not a tensor pointer, i is not an integer, or i0 to i3 are not addresses or buffers.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, or a buffer has less than 8 bytes.
        RuntimeError: tensor does not belong to a live context.
    """
def ggml_upscale(ctx: _Address, a: _To[ggml_tensor], scale_factor: _Int, mode: _Int) -> ggml_tensor_p:
    """Enlarges images by a whole factor with interpolation.

    Dimensions 0 and 1 are interpolated, dimensions 2 and 3 stay. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: images [width, height, channels, batch], f32, f16 or bf16.
        scale_factor: factor for width and height, 1 or more.
        mode: GGML_SCALE_MODE_NEAREST, GGML_SCALE_MODE_BILINEAR or GGML_SCALE_MODE_BICUBIC (Keys' cubic, a = -0.75);
            add GGML_SCALE_FLAG_ALIGN_CORNERS to let the centres of the corner pixels coincide.
    Returns:
        Tensor [width * scale_factor, height * scale_factor, channels, batch] of a's type.
    Raises:
        ValueError: scale_factor is less than 1, mode is invalid, a is not of a float type, or the result is too
            large.
        MemoryError: the context is full.
    """
def ggml_upscale_ext(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int, ne2: _Int, ne3: _Int, mode: _Int) -> ggml_tensor_p:
    """Interpolates a tensor to the sizes given.

    Dimensions 0 and 1 are interpolated according to mode, dimensions 2 and 3 take the nearest element. Sizes may be
    larger or smaller than those of a. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: images [width, height, channels, batch], f32, f16 or bf16.
        ne0: new width.
        ne1: new height.
        ne2: new size of dimension 2.
        ne3: new size of dimension 3.
        mode: GGML_SCALE_MODE_NEAREST, GGML_SCALE_MODE_BILINEAR or GGML_SCALE_MODE_BICUBIC, plus
            GGML_SCALE_FLAG_ALIGN_CORNERS where wanted.
    Returns:
        Tensor [ne0, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: a size is negative, mode is invalid, or a is empty or not of a float type.
        MemoryError: the context is full.
    See also:
        ggml_interpolate, the later name of this operation.
    """
def ggml_used_mem(ctx: _Address) -> int:
    """Gives the memory that is in use in a context.

    Args:
        ctx: context.
    Returns:
        Bytes of the arena in use (int): objects, their headers and padding; data in scratch buffers is not
        included.
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
def ggml_validate_row_data(type: _Int, data: _Address, nbytes: _Int) -> bool:
    """Tells whether data consists of whole blocks of a type that decode to finite numbers.

    Scales of quantised blocks and values of float types are checked; integers are always valid.

    Args:
        type: GGML_TYPE_*.
        data: rows to check: ctypes or NumPy memory, bytes, or an address.
        nbytes: size of the rows in bytes.
    Returns:
        True if the data is valid; False if nbytes is not a multiple of the block's size, or a scale or value is
            infinite or NaN.
    Raises:
        TypeError: data is None or no memory.
        ValueError: type is not the number of a type, or data is smaller than nbytes.
    """
def ggml_version() -> bytes:
    """Returns the release of the C library whose function set this package provides.

    Returns:
        Version (bytes), as b"0.15.3".
    """
def ggml_view_1d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, offset: _Int) -> ggml_tensor_p:
    """Views consecutive elements of a tensor's memory as a vector.

    No element is copied. If a is a view itself, the result is a view of the tensor that owns the memory, and offset
    counts from where a begins. The gradient flows to the elements of a that the view covers.

    Args:
        ctx: context that receives the view.
        a: tensor to look into, any type, any shape.
        ne0: number of elements; for a quantised type a multiple of its block.
        offset: bytes from the start of a to the first element, a multiple of the element's (block's) size.
    Returns:
        View [ne0] of a, of the same type.
    Raises:
        ValueError: the view ends beyond the memory, or ne0 or offset does not fit the type.
        MemoryError: the context is full.
    """
def ggml_view_2d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int, nb1: _Int, offset: _Int) -> ggml_tensor_p:
    """Views part of a tensor's memory as a matrix whose rows are nb1 bytes apart.

    No element is copied. Elements of a row are adjacent. If a is a view itself, offset counts from where a begins.
    The gradient flows to the elements of a that the view covers.

    Args:
        ctx: context that receives the view.
        a: tensor to look into, any type, any shape.
        ne0: length of a row; for a quantised type a multiple of its block.
        ne1: number of rows.
        nb1: bytes from one row to the next; a multiple of the element's (block's) size where ne1 is more than 1.
        offset: bytes from the start of a to the first element, a multiple of the element's (block's) size.
    Returns:
        View [ne0, ne1] of a, of the same type.
    Raises:
        ValueError: the view ends beyond the memory, or ne0, nb1 or offset does not fit the type.
        MemoryError: the context is full.
    """
def ggml_view_3d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int, ne2: _Int, nb1: _Int, nb2: _Int, offset: _Int) -> ggml_tensor_p:
    """Views part of a tensor's memory as matrices with the strides nb1 and nb2.

    No element is copied. Elements of a row are adjacent. If a is a view itself, offset counts from where a begins.
    The gradient flows to the elements of a that the view covers.

    Args:
        ctx: context that receives the view.
        a: tensor to look into, any type, any shape.
        ne0: length of a row; for a quantised type a multiple of its block.
        ne1: number of rows of a matrix.
        ne2: number of matrices.
        nb1: bytes from one row to the next.
        nb2: bytes from one matrix to the next.
        offset: bytes from the start of a to the first element; like the strides of dimensions larger than 1 a
            multiple of the element's (block's) size.
    Returns:
        View [ne0, ne1, ne2] of a, of the same type.
    Raises:
        ValueError: the view ends beyond the memory, or ne0, a stride or offset does not fit the type.
        MemoryError: the context is full.
    """
def ggml_view_4d(ctx: _Address, a: _To[ggml_tensor], ne0: _Int, ne1: _Int, ne2: _Int, ne3: _Int, nb1: _Int, nb2: _Int, nb3: _Int, offset: _Int) -> ggml_tensor_p:
    """Views part of a tensor's memory with four dimensions and the strides nb1, nb2 and nb3.

    No element is copied. Elements of a row are adjacent. If a is a view itself, offset counts from where a begins.
    The gradient flows to the elements of a that the view covers.

    Args:
        ctx: context that receives the view.
        a: tensor to look into, any type, any shape.
        ne0: length of a row; for a quantised type a multiple of its block.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
        nb1: stride of dimension 1 in bytes.
        nb2: stride of dimension 2 in bytes.
        nb3: stride of dimension 3 in bytes.
        offset: bytes from the start of a to the first element; like the strides of dimensions larger than 1 a
            multiple of the element's (block's) size.
    Returns:
        View [ne0, ne1, ne2, ne3] of a, of the same type.
    Raises:
        ValueError: the view ends beyond the memory, or ne0, a stride or offset does not fit the type.
        MemoryError: the context is full.
    """
def ggml_view_tensor(ctx: _Address, src: _To[ggml_tensor]) -> ggml_tensor_p:
    """Creates a tensor that shares the memory of another.

    The view has the type, shape and strides of src and is named after it ("<name> (view)"). It records no
    operation, so a graph that reads the view does not compute src for it; use ggml_view_4d or its siblings there.
    No gradient.

    Args:
        ctx: context that receives the tensor.
        src: tensor of any shape and any type; it may be a view itself, and it may have no data yet.
    Returns:
        Tensor over the data of src. Where src has no data yet, the view has none until an allocator places it.
    Raises:
        TypeError: ctx is not a context handle, or src is not a tensor pointer.
        ValueError: src is a NULL pointer or has an invalid field.
        MemoryError: the context is full.
        RuntimeError: ctx or the context of src was freed.
    """
def ggml_vk_build_graph_cpu_assist(node: _To[ggml_tensor], last_node: _Bool) -> None:
    """Would record the device commands of a node (Vulkan backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        node: a node of the graph: any tensor, any shape.
        last_node: True for the last node of the graph.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_vk_compute_forward_cpu_assist(params: _To[ggml_compute_params], tensor: _To[ggml_tensor]) -> bool:
    """Would compute a node with its recorded commands (Vulkan backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        params: pointer to the ggml_compute_params of the calling thread.
        tensor: the tensor: any tensor, any shape.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_vk_free_cpu_assist() -> None:
    """Would free what ggml_vk_init_cpu_assist prepared (Vulkan backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_vk_graph_cleanup_cpu_assist() -> None:
    """Would drop the recorded commands of a graph (Vulkan backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_vk_init_cpu_assist() -> None:
    """Would prepare the device for computing nodes on behalf of the CPU (Vulkan backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_vk_instance_init() -> None:
    """Would create the Vulkan instance (Vulkan backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_vk_preallocate_buffers_cpu_assist() -> None:
    """Would allocate the device memory that was added up for a graph (Vulkan backend, not part of this build).

    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_vk_preallocate_buffers_graph_cpu_assist(node: _To[ggml_tensor]) -> None:
    """Would add up the device memory that the nodes of a graph need (Vulkan backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        node: a node of the graph: any tensor, any shape.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the Vulkan backend.
    """
def ggml_win_part(ctx: _Address, a: _To[ggml_tensor], w: _Int) -> ggml_tensor_p:
    """Partitions an image into square windows that do not overlap (window attention of SAM, arXiv:2304.02643).

    Windows follow one another row by row. Those at the right and the lower edge are filled up with zeros. The
    gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: image [channels, width, height] of any type that is not quantised.
        w: side of a window in pixels, 1 or more.
    Returns:
        Tensor [channels, w, w, n_windows] of a's type with n_windows = ceil(width / w) * ceil(height / w).
    Raises:
        ValueError: w is less than 1, a.ne[3] is not 1, or a is quantised.
        MemoryError: the context is full.
    """
def ggml_win_unpart(ctx: _Address, a: _To[ggml_tensor], w0: _Int, h0: _Int, w: _Int) -> ggml_tensor_p:
    """Assembles an image from the windows that ggml_win_part made of it.

    What the windows hold beyond the edges of the image is dropped. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: windows [channels, w, w, n_windows] of any type that is not quantised.
        w0: width of the image.
        h0: height of the image.
        w: side of a window in pixels, 1 or more.
    Returns:
        Tensor [channels, w0, h0] of a's type.
    Raises:
        ValueError: a is not [channels, w, w, ceil(w0 / w) * ceil(h0 / w)], or it is quantised.
        MemoryError: the context is full.
    """
def ggml_xielu(ctx: _Address, a: _To[ggml_tensor], alpha_n: _Float, alpha_p: _Float, beta: _Float, eps: _Float) -> ggml_tensor_p:
    """Computes xIELU (arXiv:2411.13010), a quadratic unit with an expanded exponential below 0.

    With p = softplus(alpha_p) and n = beta + softplus(alpha_n), an element x becomes

        p * x^2 + beta * x                          where x > 0,
        n * (expm1(min(x, eps)) - x) + beta * x     elsewhere.

    The gradient flows to a only; the parameters are numbers.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        alpha_n: parameter of the negative side before softplus, a number.
        alpha_p: parameter of the positive side before softplus, a number.
        beta: factor of the linear term, a number.
        eps: upper bound of the argument of expm1, a number, usually a small negative one such as -1e-6.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: alpha_n, alpha_p, beta or eps is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
def gguf_add_tensor(ctx: _Address, tensor: _To[ggml_tensor]) -> None:
    """Appends a tensor to a GGUF context.

    Its name, shape, type and data address are taken over now; its data are read when the file is written and must
    exist until then. A tensor without data can be added for metadata, or gets data from gguf_set_tensor_data.

    Args:
        ctx: GGUF context.
        tensor: any shape and any type, contiguous, with a name (see ggml_set_name) that no other tensor of ctx has.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, or tensor is None or of the wrong kind.
        ValueError: the tensor has no name or a name that is taken or not UTF-8, or is not contiguous.
        RuntimeError: ctx or the tensor's context was freed.
    """
def gguf_find_key(ctx: _Address, key: _Text) -> int:
    """Finds the index of a key by its name, in constant time.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str.
    Returns:
        Index (int), or -1 if there is no such key. Indices change when keys are set or removed.
    Raises:
        TypeError: ctx is not a handle, or key is neither bytes nor str.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_find_tensor(ctx: _Address, name: _Text) -> int:
    """Finds the index of a tensor by its name, in constant time.

    Args:
        ctx: GGUF context.
        name: name of the tensor, as bytes or str.
    Returns:
        Index (int), or -1 if there is no such tensor.
    Raises:
        TypeError: ctx is not a handle, or name is neither bytes nor str.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_free(ctx: _Address) -> None:
    """Frees a GGUF context. A ggml context that was created together with it stays.

    Args:
        ctx: handle of the GGUF context, or None, which does nothing.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed already, or is not a GGUF context.
    """
def gguf_get_alignment(ctx: _Address) -> int:
    """Reports the alignment of the tensor data.

    It is the value of the key "general.alignment", or 32 without that key. Each tensor's data begin at a multiple
    of it, counted from the start of the tensor data.

    Args:
        ctx: GGUF context.
    Returns:
        Alignment in bytes, a power of two.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_arr_data(ctx: _Address, key_id: _Int) -> int | None:
    """Gives the address of the items of an array of numbers or bools.

    The items are contiguous, in this machine's byte order, and stay valid until the key is replaced or removed, or
    the context is freed.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        Address (int) of the first item, None if the array is empty. For a single number or bool, its address.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its items are strings (see gguf_get_arr_str).
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_arr_n(ctx: _Address, key_id: _Int) -> int:
    """Counts the items of an array.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        Number of items; 1 if the value is not an array.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_arr_str(ctx: _Address, key_id: _Int, i: _Int) -> bytes:
    """Reads one string of an array of strings.

    The first call for an array computes the positions of all its strings; further calls take constant time.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
        i: index of the string, 0 to gguf_get_arr_n(ctx, key_id) - 1.
    Returns:
        The string as bytes (UTF-8). A value that is a single string counts as an array of one.
    Raises:
        TypeError: ctx is not a handle, or an index is not an integer.
        ValueError: there is no key or no string with this index, or the value does not consist of strings.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_arr_type(ctx: _Address, key_id: _Int) -> int:
    """Gives the type of the items of an array.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        GGUF_TYPE_* (int), never GGUF_TYPE_ARRAY: arrays of arrays are not supported.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not an array.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_data(ctx: _Address) -> int | None:
    """Gives the address of the tensor data that were read or mapped as one block.

    Tensor i begins gguf_get_tensor_offset(ctx, i) bytes after it. The block belongs to the ggml context that was
    created with the file, or to the mapping of ggml.ext.gguf_init_from_file_mmap.

    Args:
        ctx: GGUF context.
    Returns:
        Address (int). None if no data were read, if the file's alignment is below 8, or if the memory was freed.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_data_offset(ctx: _Address) -> int:
    """Reports where the tensor data begin in the file that was read.

    For gguf_init_from_file_ptr the offset counts from the beginning of the FILE, not from the position at which the
    GGUF data begin.

    Args:
        ctx: GGUF context.
    Returns:
        Offset in bytes; 0 if the context was not read from a file.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_key(ctx: _Address, key_id: _Int) -> bytes:
    """Gives the name of a key.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        Name as bytes (UTF-8).
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_kv_type(ctx: _Address, key_id: _Int) -> int:
    """Gives the type of a key's value.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        GGUF_TYPE_* (int); GGUF_TYPE_ARRAY for every array (see gguf_get_arr_type).
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_meta_data(ctx: _Address, data: _Address) -> None:
    """Writes the metadata to memory: the bytes that gguf_write_to_file writes before the tensor data.

    Args:
        ctx: GGUF context.
        data: writable memory of gguf_get_meta_size(ctx) bytes: a buffer, a ctypes array or an address.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, or data is neither a buffer nor an address.
        ValueError: data is None or too small.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_meta_size(ctx: _Address) -> int:
    """Computes the size of the metadata as they are written.

    The metadata are the header, the keys with their values and the descriptions of the tensors, padded to the
    alignment.

    Args:
        ctx: GGUF context.
    Returns:
        Size in bytes.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_n_kv(ctx: _Address) -> int:
    """Counts the keys of a GGUF context.

    Args:
        ctx: GGUF context.
    Returns:
        Number of keys; their indices are 0 to that number - 1.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_n_tensors(ctx: _Address) -> int:
    """Counts the tensors of a GGUF context.

    Args:
        ctx: GGUF context.
    Returns:
        Number of tensors; their indices are 0 to that number - 1.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_tensor_name(ctx: _Address, tensor_id: _Int) -> bytes:
    """Gives the name of a tensor in a GGUF context.

    Args:
        ctx: GGUF context.
        tensor_id: index of the tensor, 0 to gguf_get_n_tensors(ctx) - 1.
    Returns:
        Name as bytes (UTF-8).
    Raises:
        TypeError: ctx is not a handle, or tensor_id is not an integer.
        ValueError: there is no tensor with this index.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_tensor_ne(ctx: _Address, tensor_id: _Int) -> ctypes.Array[ctypes.c_int64]:
    """Gives the sizes of the four dimensions of a tensor.

    Args:
        ctx: GGUF context.
        tensor_id: index of the tensor, 0 to gguf_get_n_tensors(ctx) - 1.
    Returns:
        New ctypes array of four c_int64, dimension 0 (the innermost) first; 1 for dimensions that the tensor lacks.
    Raises:
        TypeError: ctx is not a handle, or tensor_id is not an integer.
        ValueError: there is no tensor with this index.
        RuntimeError: ctx was freed, or is not a GGUF context.
    See also:
        ggml.ext.gguf_get_tensor_shape has as many dimensions as the file states.
    """
def gguf_get_tensor_offset(ctx: _Address, tensor_id: _Int) -> int:
    """Reports where a tensor's data begin within the tensor data.

    Args:
        ctx: GGUF context.
        tensor_id: index of the tensor, 0 to gguf_get_n_tensors(ctx) - 1.
    Returns:
        Offset in bytes from the start of the tensor data, a multiple of the alignment. In the file, add
        gguf_get_data_offset(ctx).
    Raises:
        TypeError: ctx is not a handle, or tensor_id is not an integer.
        ValueError: there is no tensor with this index.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_tensor_size(ctx: _Address, tensor_id: _Int) -> int:
    """Computes how many bytes a tensor's data take, without the padding after them.

    Args:
        ctx: GGUF context.
        tensor_id: index of the tensor, 0 to gguf_get_n_tensors(ctx) - 1.
    Returns:
        Size in bytes.
    Raises:
        TypeError: ctx is not a handle, or tensor_id is not an integer.
        ValueError: there is no tensor with this index.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_tensor_type(ctx: _Address, tensor_id: _Int) -> int:
    """Gives the element type of a tensor in a GGUF context.

    Args:
        ctx: GGUF context.
        tensor_id: index of the tensor, 0 to gguf_get_n_tensors(ctx) - 1.
    Returns:
        GGML_TYPE_* (int).
    Raises:
        TypeError: ctx is not a handle, or tensor_id is not an integer.
        ValueError: there is no tensor with this index.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_bool(ctx: _Address, key_id: _Int) -> bool:
    """Reads a key's value, a bool.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (bool). For an array of exactly one bool, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_BOOL.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_data(ctx: _Address, key_id: _Int) -> int | None:
    """Gives the address of a key's number or bool.

    The bytes are in this machine's byte order. They stay valid until the key is replaced or removed, or the context
    is freed.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        Address (int) of one value of the type gguf_get_kv_type. For an array with one item, the address of the
        item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is a string or an array of another length than 1.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_f32(ctx: _Address, key_id: _Int) -> float:
    """Reads a key's value, a 32-bit float.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (float). For an array of exactly one f32, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_FLOAT32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_f64(ctx: _Address, key_id: _Int) -> float:
    """Reads a key's value, a 64-bit float.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (float). For an array of exactly one f64, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_FLOAT64.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_i16(ctx: _Address, key_id: _Int) -> int:
    """Reads a key's value, a signed 16-bit integer.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (int). For an array of exactly one i16, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_INT16.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_i32(ctx: _Address, key_id: _Int) -> int:
    """Reads a key's value, a signed 32-bit integer.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (int). For an array of exactly one i32, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_INT32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_i64(ctx: _Address, key_id: _Int) -> int:
    """Reads a key's value, a signed 64-bit integer.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (int). For an array of exactly one i64, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_INT64.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_i8(ctx: _Address, key_id: _Int) -> int:
    """Reads a key's value, a signed 8-bit integer.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (int). For an array of exactly one i8, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_INT8.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_str(ctx: _Address, key_id: _Int) -> bytes:
    """Reads a key's string.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The string as bytes (UTF-8). For an array of exactly one string, that string.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not a string.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_u16(ctx: _Address, key_id: _Int) -> int:
    """Reads a key's value, an unsigned 16-bit integer.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (int). For an array of exactly one u16, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_UINT16.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_u32(ctx: _Address, key_id: _Int) -> int:
    """Reads a key's value, an unsigned 32-bit integer.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (int). For an array of exactly one u32, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_UINT32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_u64(ctx: _Address, key_id: _Int) -> int:
    """Reads a key's value, an unsigned 64-bit integer.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (int). For an array of exactly one u64, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_UINT64.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_val_u8(ctx: _Address, key_id: _Int) -> int:
    """Reads a key's value, an unsigned 8-bit integer.

    Args:
        ctx: GGUF context.
        key_id: index of the key, 0 to gguf_get_n_kv(ctx) - 1.
    Returns:
        The value (int). For an array of exactly one u8, its item.
    Raises:
        TypeError: ctx is not a handle, or key_id is not an integer.
        ValueError: there is no key with this index, or its value is not of the type GGUF_TYPE_UINT8.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_get_version(ctx: _Address) -> int:
    """Reports the version of the GGUF format that a context has.

    A context that is written keeps the version of the file it was read from.

    Args:
        ctx: GGUF context.
    Returns:
        2 or 3 for a file that was read, 3 for a context of gguf_init_empty.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_init_empty() -> gguf_context_p | None:
    """Creates a GGUF context without keys and tensors, to be filled and written.

    Its format version is 3 and its alignment 32 bytes, until a key "general.alignment" is set.

    Returns:
        Handle (int) of the new GGUF context. Free it with gguf_free.
    """
def gguf_init_from_buffer(data: _Address, size: _Int, params: gguf_init_params) -> gguf_context_p | None:
    """Reads a GGUF file that lies in memory.

    Keys, tensor descriptions and (if params requests them) tensor data are copied: nothing refers to `data` after
    the call.

    Args:
        data: the file's bytes: bytes, a contiguous buffer such as a NumPy array, a ctypes array or an address.
        size: length of the file in bytes, 0 or more.
        params: gguf_init_params, as in gguf_init_from_file.
    Returns:
        Handle (int) of the new GGUF context. Free it with gguf_free.
    Raises:
        TypeError: data is neither a buffer nor an address, or params is not a gguf_init_params.
        ValueError: data has fewer than `size` bytes or is not readable, or the bytes are not a valid GGUF file.
        MemoryError: there is not enough memory for the metadata or the tensor data.
    """
def gguf_init_from_callback(callback: gguf_reader_callback_t | Callable[..., Any] | int | None, userdata: _Address, max_chunk_read: _Int, max_expected_size: _Int, params: gguf_init_params) -> gguf_context_p | None:
    """Reads a GGUF file through a function that delivers ranges of its bytes.

    Args:
        callback: called as callback(userdata, output, offset, size) during this call only. It writes up to `size`
            bytes of the file, from byte `offset` on, to the address `output`, and returns how many it wrote. Fewer
            than `size` is allowed; 0 means the end of the file. A range may be requested twice. An exception raised
            in it leaves this function.
        userdata: address that the callback receives, or None.
        max_chunk_read: largest `size` that is requested, in bytes; 0 for no limit.
        max_expected_size: upper bound of the file's size in bytes; 0 if it is not known.
        params: gguf_init_params, as in gguf_init_from_file.
    Returns:
        Handle (int) of the new GGUF context. Free it with gguf_free.
    Raises:
        TypeError: callback is None or not callable, or params is not a gguf_init_params.
        ValueError: the bytes are not a valid GGUF file, the callback returned more than `size`, or a size is
            negative.
        MemoryError: there is not enough memory for the metadata or the tensor data.
    """
def gguf_init_from_file(fname: _Text, params: gguf_init_params) -> gguf_context_p | None:
    """Reads the metadata of a GGUF file and, if requested, its tensors.

    Versions 2 and 3 are read, in either byte order. Every count and length is compared with the bytes that are left
    in the file before memory is allocated for it. A file of metadata only (see gguf_write_to_file) is accepted when
    params.no_alloc is True.

    Args:
        fname: path, as str, bytes or os.PathLike.
        params: gguf_init_params. Where params.ctx points to a c_void_p, a new ggml context with one tensor per
            tensor of the file is created and its handle is stored there; free it with ggml_free. Unless
            params.no_alloc is True, the tensor data are read into that context; its first tensor is then an i8
            vector named "GGUF tensor data binary blob" that holds the data of all tensors (only if the alignment is
            8 or more).
    Returns:
        Handle (int) of the new GGUF context. Free it with gguf_free.
    Raises:
        TypeError: fname is not a path, or params is not a gguf_init_params.
        OSError: the file cannot be opened or read, or is not a regular file.
        ValueError: the file is not a valid GGUF file. The message names the key or tensor and the offset in the
            file.
        MemoryError: there is not enough memory for the metadata or the tensor data.
    See also:
        ggml.ext.gguf_init_from_file_mmap, which does not copy the tensor data.
    """
def gguf_init_from_file_ptr(file: _Address, params: gguf_init_params) -> gguf_context_p | None:
    """Reads GGUF data from an open C FILE, starting at its current position.

    The FILE must be seekable and stays open; its position after the call is not specified.

    Args:
        file: address of the FILE (see ggml_fopen).
        params: gguf_init_params, as in gguf_init_from_file.
    Returns:
        Handle (int) of the new GGUF context. Free it with gguf_free.
    Raises:
        TypeError: file is None, or params is not a gguf_init_params.
        OSError: the FILE has no position, or reading failed.
        ValueError: file is not the address of a C FILE, or what it holds from there on is not valid GGUF data.
        MemoryError: there is not enough memory for the metadata or the tensor data.
    """
def gguf_remove_key(ctx: _Address, key: _Text) -> int:
    """Removes a key and its value.

    The indices of the keys after it decrease by 1. Without "general.alignment" the alignment is 32 again, and the
    offsets of the tensors are recomputed.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str.
    Returns:
        Index (int) that the key had, or -1 if there was no such key.
    Raises:
        TypeError: ctx is not a handle, or key is neither bytes nor str.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_arr_data(ctx: _Address, key: _Text, type: _Int, data: _Address, n: _Int) -> None:
    """Sets a key to an array of numbers or bools, which is copied.

    A key of that name is replaced. The key becomes the last one.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        type: GGUF_TYPE_* of the items, but neither GGUF_TYPE_STRING nor GGUF_TYPE_ARRAY.
        data: the items, contiguous and in this machine's byte order: a buffer such as a NumPy array, a ctypes array
            or an address. Bools are single bytes 0 or 1. None is accepted if n is 0.
        n: number of items, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: key or type is not valid, data holds fewer than n items or is not readable, or a bool is neither
            0 nor 1.
        RuntimeError: ctx was freed, or is not a GGUF context.
    See also:
        gguf_set_arr_str for strings.
    """
def gguf_set_arr_str(ctx: _Address, key: _Text, data: _Pointer, n: _Int) -> None:
    """Sets a key to an array of strings.

    A key of that name is replaced. The key becomes the last one.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        data: list or tuple of bytes or str, ctypes array of c_char_p, or pointer to c_char_p. The strings must be
            UTF-8; they are copied.
        n: number of strings, 0 or more. More entries of data are ignored.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind, or an entry of data is neither bytes nor str.
        ValueError: key is not valid, data has fewer than n entries or is not readable, or a string is not UTF-8.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_kv(ctx: _Address, src: _Address) -> None:
    """Copies all keys and values of one GGUF context to another.

    Keys that exist in ctx are replaced. The copied keys become the last ones, in the order of src.

    Args:
        ctx: GGUF context that receives the keys.
        src: GGUF context whose keys are copied; it does not change.
    Returns:
        None.
    Raises:
        TypeError: ctx or src is not a handle.
        RuntimeError: ctx or src was freed, or is not a GGUF context.
    """
def gguf_set_tensor_data(ctx: _Address, name: _Text, data: _Address) -> None:
    """Sets where the data of a tensor are.

    They are not copied, but read when the file is written. Objects such as bytes and NumPy arrays are kept alive by
    the context; memory that is given by its bare address must exist until then.

    Args:
        ctx: GGUF context.
        name: name of the tensor, as bytes or str.
        data: gguf_get_tensor_size bytes or more: bytes, a contiguous buffer, a ctypes array or an address.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind, or data is None.
        ValueError: there is no tensor of that name, or data is too small or not readable.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_tensor_type(ctx: _Address, name: _Text, type: _Int) -> None:
    """Changes the type of a tensor in a GGUF context.

    The offsets of the tensors after it change, and it has no data until gguf_set_tensor_data is called: its data
    are not converted. A type that it has already changes nothing.

    Args:
        ctx: GGUF context.
        name: name of the tensor, as bytes or str.
        type: GGML_TYPE_*.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, or another argument is of the wrong kind.
        ValueError: there is no tensor of that name, type is not a tensor type, or ne0 is not a multiple of its
            block.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_bool(ctx: _Address, key: _Text, val: _Bool) -> None:
    """Sets a key to a bool.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: True or False, or any object with a truth value.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not an object with a truth value.
        ValueError: key is not valid, or key is "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_f32(ctx: _Address, key: _Text, val: _Float) -> None:
    """Sets a key to a 32-bit float.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: a number, rounded to 32 bits; beyond their range it becomes infinite.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not a number.
        ValueError: key is not valid, val is an integer beyond the range of a 64-bit float, or key is
            "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_f64(ctx: _Address, key: _Text, val: _Float) -> None:
    """Sets a key to a 64-bit float.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: a number.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not a number.
        ValueError: key is not valid, val is an integer beyond the range of a 64-bit float, or key is
            "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_i16(ctx: _Address, key: _Text, val: _Int) -> None:
    """Sets a key to a signed 16-bit integer.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: an integer from -32768 to 32767.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not an integer.
        ValueError: key is not valid, val is out of range, or key is "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_i32(ctx: _Address, key: _Text, val: _Int) -> None:
    """Sets a key to a signed 32-bit integer.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: an integer from -2^31 to 2^31 - 1.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not an integer.
        ValueError: key is not valid, val is out of range, or key is "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_i64(ctx: _Address, key: _Text, val: _Int) -> None:
    """Sets a key to a signed 64-bit integer.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: an integer from -2^63 to 2^63 - 1.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not an integer.
        ValueError: key is not valid, val is out of range, or key is "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_i8(ctx: _Address, key: _Text, val: _Int) -> None:
    """Sets a key to a signed 8-bit integer.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: an integer from -128 to 127.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not an integer.
        ValueError: key is not valid, val is out of range, or key is "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_str(ctx: _Address, key: _Text, val: _Text) -> None:
    """Sets a key to a string.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: the string, as bytes or str, in UTF-8.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, or key or val is neither bytes nor str.
        ValueError: key or val is not valid, or key is "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_u16(ctx: _Address, key: _Text, val: _Int) -> None:
    """Sets a key to an unsigned 16-bit integer.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: an integer from 0 to 65535.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not an integer.
        ValueError: key is not valid, val is out of range, or key is "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_u32(ctx: _Address, key: _Text, val: _Int) -> None:
    """Sets a key to an unsigned 32-bit integer.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: an integer from 0 to 2^32 - 1.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not an integer.
        ValueError: key is not valid, val is out of range, or key is "general.alignment" and val is not a power of two
            up to 2^24.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_u64(ctx: _Address, key: _Text, val: _Int) -> None:
    """Sets a key to an unsigned 64-bit integer.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: an integer from 0 to 2^64 - 1.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not an integer.
        ValueError: key is not valid, val is out of range, or key is "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_set_val_u8(ctx: _Address, key: _Text, val: _Int) -> None:
    """Sets a key to an unsigned 8-bit integer.

    A key of that name is replaced. The key becomes the last one; the indices of the keys after its old place
    decrease by 1.

    Args:
        ctx: GGUF context.
        key: name of the key, as bytes or str: 1 to 65535 bytes of UTF-8 without a zero byte.
        val: an integer from 0 to 255.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle, key is neither bytes nor str, or val is not an integer.
        ValueError: key is not valid, val is out of range, or key is "general.alignment", which must be of type u32.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
def gguf_type_name(type: _Int) -> bytes:
    """Gives the name of a value type of GGUF keys.

    Args:
        type: GGUF_TYPE_* (int).
    Returns:
        Name as bytes: b"u8", b"i8", b"u16", b"i16", b"u32", b"i32", b"f32", b"bool", b"str", b"arr", b"u64", b"i64"
        or b"f64"; None if there is no such type.
    Raises:
        TypeError: type is not an integer.
        ValueError: type does not fit into 32 bits.
    """
def gguf_write_to_file(ctx: _Address, fname: _Text, only_meta: _Bool) -> bool:
    """Writes a GGUF context to a file.

    The file replaces one of that name once it is complete, so that an interrupted call never leaves half a file of
    this name. On Linux file systems that have files without a name, a killed process leaves nothing behind; elsewhere
    it may leave a file NAME.PID-N.tmp in the folder. Devices and pipes are written directly.

    Args:
        ctx: GGUF context.
        fname: path, as str, bytes or os.PathLike.
        only_meta: True to write the metadata without the tensor data.
    Returns:
        True if the file was written. False if the operating system reported an error, which is logged (see
        ggml_log_set).
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: fname contains a NUL, a tensor has no data, or its data reach beyond their memory (unless
            only_meta).
        RuntimeError: ctx or the data of a tensor were freed.
    """
def gguf_write_to_file_ptr(ctx: _Address, file: _Address, only_meta: _Bool) -> bool:
    """Writes a GGUF context to an open C FILE, from its current position on.

    The FILE is flushed and stays open. Bytes that were written before an error remain in it.

    Args:
        ctx: GGUF context.
        file: address of the FILE (see ggml_fopen).
        only_meta: True to write the metadata without the tensor data.
    Returns:
        True if everything was written. False if writing failed, which is logged (see ggml_log_set).
    Raises:
        TypeError: ctx is not a handle, or file is None or not an address.
        ValueError: file is not the address of a C FILE, or a tensor has no data (unless only_meta).
        RuntimeError: ctx or the data of a tensor were freed.
    """
def load_shared_library(module_name: str, lib_base_name: str) -> Any:
    """Returns the functions of this build; the ctypes bindings load their shared library with it.

    There is nothing to load here: the functions belong to extension modules that `import ggml` has loaded.

    Args:
        module_name: name of the package, "ggml".
        lib_base_name: name of the library, "ggml".
    Returns:
        ggml.lib.
    Raises:
        FileNotFoundError: another package or library is asked for.
    """
def start_rpc_server(backend: _Address, endpoint: _Text, free_mem: _Int, total_mem: _Int) -> None:
    """Would serve one backend to clients, as releases of 2024 did (RPC backend, not part of this build).

    Arguments are not examined: any number of any kind leads to the same error.

    Args:
        backend: handle of a backend.
        endpoint: network address of the server, "host:port" as bytes or str.
        free_mem: bytes of free memory to report to clients.
        total_mem: bytes of memory in total to report to clients.
    Returns:
        Nothing: the function always raises.
    Raises:
        RuntimeError: always, because this build lacks the RPC backend.
    """
