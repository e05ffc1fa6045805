"""Number formats, time, the CPU, messages, thread pools: what belongs to no tensor."""
import ctypes
import glob
import itertools
import sys
import time
import traceback

from libc.stdint cimport int32_t, int64_t, uint16_t
from libc.stdio cimport FILE
from libc.string cimport memcmp, memcpy

from ._core cimport (
    arg_address, arg_buffer, arg_callback, arg_context, arg_extent, arg_float, arg_int, arg_int32, arg_text, engine,
    enter, fail, gg_bf16_to_f32, gg_f16_to_f32, gg_f32_to_bf16, gg_f32_to_f16, ggml_context, ggml_object, wrap_handle,
)
from ._enums cimport GGML_TYPE_BF16, GGML_TYPE_F16, GGML_TYPE_F32
from . import _constants, _structs
from ._core import as_callback, cpu_has, enums, unpark

cdef extern from "stdio.h" nogil:
    FILE *fopen(const char *name, const char *mode)

# ---- half and bfloat16 -----------------------------------------------------------------------------------------------
cdef uint16_t bits16(object value, const char *name) except? 0:
    cdef int64_t v = arg_int(value, name)
    if not 0 <= v <= 0xffff:
        fail(ValueError, f"{name.decode()} is {v}: need 16 bits")
    return <uint16_t>v

def ggml_fp16_to_fp32(fp16):
    """Converts the bits of an IEEE half-precision number to a float.

    Args:
        fp16: the 16 bits as an integer, 0 to 65535.
    Returns:
        Value (float); every half is exact.
    Raises:
        TypeError: fp16 is not an integer.
        ValueError: fp16 does not fit 16 bits.
    """
    enter(b"ggml_fp16_to_fp32")
    return gg_f16_to_f32(bits16(fp16, b"fp16"))

def ggml_fp32_to_fp16(fp32):
    """Converts a number to the bits of the nearest IEEE half-precision number.

    The number is rounded to float32 first. Ties go to the even half; magnitudes from 65520 on become infinite.

    Args:
        fp32: number.
    Returns:
        The 16 bits as an integer, 0 to 65535.
    Raises:
        TypeError: fp32 is not a number.
    """
    enter(b"ggml_fp32_to_fp16")
    return gg_f32_to_f16(arg_float(fp32, b"fp32"))

def ggml_bf16_to_fp32(bf16):
    """Converts a bfloat16 number to a float.

    Args:
        bf16: ggml_bf16_t, or its 16 bits as an integer, 0 to 65535.
    Returns:
        Value (float); every bfloat16 is exact.
    Raises:
        TypeError: bf16 is neither a ggml_bf16_t nor an integer.
        ValueError: bf16 does not fit 16 bits.
    """
    enter(b"ggml_bf16_to_fp32")
    return gg_bf16_to_f32(bits16(bf16.bits if isinstance(bf16, _structs.ggml_bf16_t) else bf16, b"bf16"))

def ggml_fp32_to_bf16(fp32):
    """Converts a number to the nearest bfloat16 number.

    The number is rounded to float32 first. Ties go to the even bfloat16; NaN stays NaN.

    Args:
        fp32: number.
    Returns:
        ggml_bf16_t, whose field bits holds the 16 bits.
    Raises:
        TypeError: fp32 is not a number.
    """
    enter(b"ggml_fp32_to_bf16")
    return _structs.ggml_bf16_t(gg_f32_to_bf16(arg_float(fp32, b"fp32")))

cdef void *row(object o, const char *name, int64_t n, size_t size) except? NULL:
    """n elements of `size` bytes in memory of the caller; NULL when there are none."""
    cdef void *p
    if n > (<int64_t>1 << 60):
        fail(ValueError, f"{n} elements are larger than any memory")
    arg_buffer(o, name, <size_t>n * size, &p)
    if n == 0:
        return NULL
    if p == NULL or not engine.readable(p, <size_t>n * size):
        fail(ValueError, f"{name.decode()} ({<size_t>p:#x}) is no memory of {<size_t>n * size} bytes")
    return p

cdef object widen(int type, object x, const char *x_name, object y, const char *y_name, object n, const char *n_name):
    cdef int64_t k = arg_extent(n, n_name)
    cdef void *a = row(x, x_name, k, 2)
    cdef void *b = row(y, y_name, k, 4)
    if k:
        with nogil:
            engine.isa_active().to_f32[type](a, <float *>b, k)

cdef object narrow(int type, object x, const char *x_name, object y, const char *y_name, object n, const char *n_name):
    cdef int64_t k = arg_extent(n, n_name)
    cdef void *a = row(x, x_name, k, 4)
    cdef void *b = row(y, y_name, k, 2)
    if k:
        with nogil:
            engine.isa_active().from_f32[type](<float *>a, b, k)

def ggml_fp16_to_fp32_row(fp16, fp32, n):
    """Converts an array of half-precision numbers to float32.

    Args:
        fp16: n halfs to read (2 * n bytes): a contiguous buffer such as a NumPy array, a ctypes array or pointer,
            or an address.
        fp32: memory for n float32 values (4 * n bytes), given in the same ways. It is overwritten.
        n: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: fp16 or fp32 is not memory, or n is not an integer.
        ValueError: n is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
    enter(b"ggml_fp16_to_fp32_row")
    widen(GGML_TYPE_F16, fp16, b"fp16", fp32, b"fp32", n, b"n")

def ggml_fp32_to_fp16_row(fp32, fp16, n):
    """Rounds an array of float32 numbers to half precision.

    Ties go to the even half; magnitudes from 65520 on become infinite.

    Args:
        fp32: n float32 values to read (4 * n bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        fp16: memory for n halfs (2 * n bytes), given in the same ways. It is overwritten.
        n: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: fp32 or fp16 is not memory, or n is not an integer.
        ValueError: n is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
    enter(b"ggml_fp32_to_fp16_row")
    narrow(GGML_TYPE_F16, fp32, b"fp32", fp16, b"fp16", n, b"n")

def ggml_bf16_to_fp32_row(bf16, fp32, n):
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
    enter(b"ggml_bf16_to_fp32_row")
    widen(GGML_TYPE_BF16, bf16, b"bf16", fp32, b"fp32", n, b"n")

def ggml_fp32_to_bf16_row(fp32, bf16, n):
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
    enter(b"ggml_fp32_to_bf16_row")
    narrow(GGML_TYPE_BF16, fp32, b"fp32", bf16, b"bf16", n, b"n")

def ggml_fp32_to_bf16_row_ref(fp32, bf16, n):
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
    enter(b"ggml_fp32_to_bf16_row_ref")
    cdef int64_t k = arg_extent(n, b"n"), i
    cdef float *a = <float *>row(fp32, b"fp32", k, 4)
    cdef uint16_t *b = <uint16_t *>row(bf16, b"bf16", k, 2)
    for i in range(k):
        b[i] = gg_f32_to_bf16(a[i])

def ggml_cpu_fp32_to_fp32(x, y, k):
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
    enter(b"ggml_cpu_fp32_to_fp32")
    cdef int64_t n = arg_extent(k, b"k")
    cdef void *a = row(x, b"x", n, 4)
    cdef void *b = row(y, b"y", n, 4)
    if n:
        memcpy(b, a, <size_t>n * 4)

def ggml_cpu_fp32_to_i32(x, y, k):
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
    enter(b"ggml_cpu_fp32_to_i32")
    cdef int64_t n = arg_extent(k, b"k"), i
    cdef float *a = <float *>row(x, b"x", n, 4)
    cdef int32_t *b = <int32_t *>row(y, b"y", n, 4)
    for i in range(n):
        if a[i] >= 2147483648.0 or a[i] < -2147483648.0:
            b[i] = 0x7fffffff if a[i] > 0 else -0x80000000
        else:
            b[i] = 0 if a[i] != a[i] else <int32_t>a[i]

def ggml_cpu_fp32_to_fp16(x, y, k):
    """Rounds float32 numbers to half precision; the CPU backend's name for ggml_fp32_to_fp16_row.

    Args:
        x: k float32 values to read (4 * k bytes): a contiguous buffer such as a NumPy array, a ctypes array or
            pointer, or an address.
        y: memory for k halfs (2 * k bytes), given in the same ways. It is overwritten.
        k: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is not memory, or k is not an integer.
        ValueError: k is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
    enter(b"ggml_cpu_fp32_to_fp16")
    narrow(GGML_TYPE_F16, x, b"x", y, b"y", k, b"k")

def ggml_cpu_fp16_to_fp32(x, y, k):
    """Converts half-precision numbers to float32; the CPU backend's name for ggml_fp16_to_fp32_row.

    Args:
        x: k halfs to read (2 * k bytes): a contiguous buffer such as a NumPy array, a ctypes array or pointer, or
            an address.
        y: memory for k float32 values (4 * k bytes), given in the same ways. It is overwritten.
        k: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is not memory, or k is not an integer.
        ValueError: k is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
    enter(b"ggml_cpu_fp16_to_fp32")
    widen(GGML_TYPE_F16, x, b"x", y, b"y", k, b"k")

def ggml_cpu_fp32_to_bf16(x, y, k):
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
    enter(b"ggml_cpu_fp32_to_bf16")
    narrow(GGML_TYPE_BF16, x, b"x", y, b"y", k, b"k")

def ggml_cpu_bf16_to_fp32(x, y, k):
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
    enter(b"ggml_cpu_bf16_to_fp32")
    widen(GGML_TYPE_BF16, x, b"x", y, b"y", k, b"k")

# ---- time, version ---------------------------------------------------------------------------------------------------
def ggml_time_init():
    """Does nothing; the clocks need no preparation.

    It exists so that programs written for the C library run unchanged.

    Returns:
        None.
    """

def ggml_time_ms():
    """Reads a monotonic clock in milliseconds.

    Only differences between two calls are meaningful.

    Returns:
        Whole milliseconds since an unspecified start (int).
    """
    return time.monotonic_ns() // 1_000_000

def ggml_time_us():
    """Reads a monotonic clock in microseconds.

    Only differences between two calls are meaningful.

    Returns:
        Whole microseconds since an unspecified start (int).
    """
    return time.monotonic_ns() // 1_000

def ggml_cycles():
    """Reads the performance counter.

    A tick is a nanosecond, not a processor cycle.

    Returns:
        Ticks since an unspecified start (int).
    See also:
        ggml_cycles_per_ms gives the ticks of a millisecond.
    """
    return time.perf_counter_ns()

def ggml_cycles_per_ms():
    """Gives the number of ggml_cycles ticks in a millisecond.

    Returns:
        1000000 (int).
    """
    return 1_000_000

def ggml_version():
    """Gives the release of the C library whose function set this package provides.

    Returns:
        Version (bytes), as b"0.15.3".
    """
    return _constants.GGML_VERSION.encode()

def ggml_commit():
    """Gives the commit of the C library; there is none, since this package is not built from it.

    Returns:
        b"unknown".
    """
    return b"unknown"

# ---- the CPU ---------------------------------------------------------------------------------------------------------
cdef object _asks(str feature, str text):
    def ask():
        return int(cpu_has(feature))
    ask.__name__ = ask.__qualname__ = "ggml_cpu_has_" + feature
    ask.__doc__ = f"1 where the CPU has {text} and the operating system allows it, else 0."
    if feature == "avx512":
        feature = "avx512f"
    return ask

cdef dict FEATURES = {
    "sse3": "SSE3", "ssse3": "SSSE3", "avx": "AVX", "avx_vnni": "AVX-VNNI", "avx2": "AVX2", "bmi2": "BMI2",
    "f16c": "F16C", "fma": "FMA",
    "avx512": "AVX-512F", "avx512_vbmi": "AVX-512 VBMI", "avx512_vnni": "AVX-512 VNNI", "avx512_bf16": "AVX-512 BF16",
    "amx_int8": "AMX-INT8", "neon": "NEON", "arm_fma": "ARM's fused multiply-add",
    "fp16_va": "ARM's FP16 vector arithmetic",
    "dotprod": "ARM's dot product", "matmul_int8": "ARM's I8MM", "sve": "SVE", "sme": "SME", "riscv_v": "RISC-V's V",
    "vsx": "POWER's VSX",
    "vxe": "z/Architecture's VXE", "wasm_simd": "WebAssembly's SIMD", "llamafile": "the kernels of llamafile (never)",
}
cdef tuple BACKENDS = ("metal", "blas", "cuda", "vulkan", "kompute", "gpublas", "sycl")     # old releases asked here for these
FEATURES.update({k: f"the {k} backend (never: this build has none)" for k in BACKENDS})
globals().update({"ggml_cpu_has_" + k: _asks(k, v) for k, v in FEATURES.items()})

def ggml_cpu_init():
    """Does nothing; the kernels were chosen when the module was imported.

    The environment variable GGML_ISA selects the instruction set at import.

    Returns:
        None.
    """

def ggml_cpu_get_sve_cnt():
    """Gives the size of an SVE register; no kernel of this build uses SVE.

    Returns:
        0 on every machine.
    """
    return 0

def ggml_cpu_get_rvv_vlen():
    """Gives the size of a RISC-V vector register; no kernel of this build uses them.

    Returns:
        0, also on RISC-V.
    """
    return 0

cdef int numa_nodes = 1

def ggml_numa_init(numa):
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
    global numa_nodes
    enter(b"ggml_numa_init")
    cdef int strategy = arg_int32(numa, b"numa")
    if not 0 <= strategy < _constants.GGML_NUMA_STRATEGY_COUNT:
        fail(ValueError, f"numa is {strategy}: need 0 to {_constants.GGML_NUMA_STRATEGY_COUNT - 1}")
    if strategy != _constants.GGML_NUMA_STRATEGY_DISABLED:
        numa_nodes = max(1, len(glob.glob("/sys/devices/system/node/node[0-9]*")))

def ggml_is_numa():
    """Tells whether the machine has several memory nodes.

    Returns:
        True if ggml_numa_init was called and found more than one node. Nodes are found on Linux only.
    """
    return numa_nodes > 1

# ---- files and identifiers -------------------------------------------------------------------------------------------
def ggml_fopen(fname, mode):
    """Opens a file with the fopen of the C library.

    Close it with fclose of the same C library, for example via ctypes.

    Args:
        fname: name of the file, bytes or str (encoded as UTF-8).
        mode: mode of fopen, bytes or str, as "rb".
    Returns:
        Address of the FILE (int); None if the file cannot be opened.
    Raises:
        TypeError: fname or mode is neither bytes nor str.
        ValueError: fname or mode cannot be encoded.
    """
    enter(b"ggml_fopen")
    cdef bytes name = arg_text(fname, b"fname"), how = arg_text(mode, b"mode")
    return wrap_handle(fopen(name, how))

def ggml_guid_matches(guid_a, guid_b):
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
    enter(b"ggml_guid_matches")
    return memcmp(row(guid_a, b"guid_a", 16, 1), row(guid_b, b"guid_b", 16, 1), 16) == 0

cdef dict FILE_TYPES = {
    value: enums()["GGML_TYPE_" + name.split("_", 3)[3]] for name, value in vars(_constants).items()
    if name.startswith("GGML_FTYPE_MOSTLY_") and "GGML_TYPE_" + name.split("_", 3)[3] in enums()}
FILE_TYPES[_constants.GGML_FTYPE_ALL_F32] = GGML_TYPE_F32

def ggml_ftype_to_ggml_type(ftype):
    """Gives the tensor type that most tensors of a model file have.

    Args:
        ftype: file type, GGML_FTYPE_*.
    Returns:
        GGML_TYPE_* (int), as GGML_TYPE_Q4_0 for GGML_FTYPE_MOSTLY_Q4_0.
    Raises:
        TypeError: ftype is not an integer.
        ValueError: ftype is unknown or stands for no single type, as GGML_FTYPE_MOSTLY_Q4_1_SOME_F16.
    """
    enter(b"ggml_ftype_to_ggml_type")
    cdef int k = arg_int32(ftype, b"ftype")
    if k not in FILE_TYPES:
        fail(ValueError, f"ftype is {k}: no one tensor type belongs to it")
    return FILE_TYPES[k]

# ---- messages --------------------------------------------------------------------------------------------------------
cdef object log_callback_kept = None, log_data_kept = None       # what ggml_log_set was given
ctypedef void (*log_fn)(int, const char *, void *) noexcept
cdef log_fn log_function = NULL
cdef void *log_data = NULL

def log(int level, str text):
    """A message of this library: to the callback of ggml_log_set, else to stderr."""
    cdef bytes raw = text.encode()
    if log_function == NULL:
        sys.stderr.write(text)
        sys.stderr.flush()
    else:
        log_function(level, raw, log_data)
        unpark()

def ggml_log_set(log_callback, user_data):
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
    global log_callback_kept, log_data_kept, log_function, log_data
    enter(b"ggml_log_set")
    callback = as_callback(log_callback, _structs.ggml_log_callback)
    cdef void *function = arg_callback(callback, _structs.ggml_log_callback, b"log_callback")
    cdef void *data = arg_address(user_data, b"user_data")
    log_callback_kept, log_data_kept = callback, user_data
    log_function, log_data = <log_fn>function, data

def ggml_log_get(log_callback, user_data):
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
    enter(b"ggml_log_get")
    (<void **>row(log_callback, b"log_callback", 1, sizeof(void *)))[0] = <void *>log_function
    (<void **>row(user_data, b"user_data", 1, sizeof(void *)))[0] = log_data

cdef str object_line(const ggml_object *o):
    return f" - ggml_object: type = {o.type}, offset = {o.offs}, size = {o.size}, next = {<size_t>o.next:#x}\n"

def ggml_print_object(obj):
    """Logs the header of one object of a context: its type, offset, size and successor.

    Args:
        obj: pointer to a ggml_object, or its address.
    Returns:
        None; one message of level GGML_LOG_LEVEL_INFO is sent (see ggml_log_set).
    Raises:
        TypeError: obj is not a pointer or an address.
        ValueError: obj is NULL or points to no readable memory.
    """
    enter(b"ggml_print_object")
    cdef void *p = row(obj, b"obj", 1, sizeof(ggml_object))
    log(_constants.GGML_LOG_LEVEL_INFO, object_line(<ggml_object *>p))

def ggml_print_objects(ctx):
    """Logs the headers of all objects of a context: tensors, graphs and buffers.

    Args:
        ctx: context.
    Returns:
        None; one message for each object, between a first and a last line, is sent (see ggml_log_set).
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_print_objects")
    cdef ggml_object *o = c.first
    lines = [f"ggml_print_objects: objects in context {<size_t>c:#x}:\n"]
    while o != NULL:
        lines.append(object_line(o))
        o = o.next
    lines.append("ggml_print_objects: --- end ---\n")
    for line in lines:
        log(_constants.GGML_LOG_LEVEL_INFO, line)

def ggml_print_backtrace():
    """Writes the Python call stack to stderr.

    Returns:
        None.
    """
    traceback.print_stack()

cdef object abort_callback = _structs.ggml_abort_callback_t()

def ggml_set_abort_callback(callback):
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
    global abort_callback
    enter(b"ggml_set_abort_callback")
    new = as_callback(callback, _structs.ggml_abort_callback_t)
    if not isinstance(new, ctypes._CFuncPtr):
        new = _structs.ggml_abort_callback_t(<size_t>arg_callback(new, _structs.ggml_abort_callback_t, b"callback"))
    before, abort_callback = abort_callback, new
    return before

def ggml_abort(file, line, fmt, *args):
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
    enter(b"ggml_abort")
    if args:
        try:
            fmt = arg_text(fmt, b"fmt") % tuple([getattr(a, "value", a) for a in args])
        except (TypeError, ValueError) as e:
            fail(ValueError, f"fmt {fmt!r} does not fit its arguments: {e}")
    where_, what = (x.decode(errors="replace") for x in (arg_text(file, b"file"), arg_text(fmt, b"fmt")))
    message = f"{where_}:{arg_int32(line, b'line')}: {what}"
    if abort_callback:
        abort_callback(message.encode())
        unpark()
    raise RuntimeError(message)

# ---- thread pools: a compute with one uses as many threads -----------------------------------------------------------
cdef dict pools = {}                                  # handle: its parameters
cdef object handles = itertools.count(0x1000, 0x10)

cdef object pool_params(object p, str name):
    p = getattr(p, "_obj", p)
    if isinstance(p, ctypes._Pointer) and p:
        p = p.contents
    if not isinstance(p, _structs.ggml_threadpool_params):
        fail(TypeError, f"{name} is {p!r}: need a pointer to ggml_threadpool_params")
    return p

cdef int pool_threads(object n) except -1:
    cdef int k = arg_int32(n, b"n_threads")
    if not 0 < k <= _constants.GGML_MAX_N_THREADS:
        fail(ValueError, f"n_threads is {k}: need 1 to {_constants.GGML_MAX_N_THREADS}")
    return k

cdef object defaults(object p, object n_threads):
    ctypes.memset(ctypes.addressof(p), 0, ctypes.sizeof(p))
    p.n_threads, p.poll = pool_threads(n_threads), 50
    return p

def ggml_threadpool_params_default(n_threads):
    """Creates parameters of a thread pool with default values.

    Args:
        n_threads: number of threads, 1 to 512.
    Returns:
        ggml_threadpool_params by value: any CPU, normal priority, poll 50, not strict, not paused.
    Raises:
        TypeError: n_threads is not an integer.
        ValueError: n_threads is out of range.
    """
    enter(b"ggml_threadpool_params_default")
    return defaults(_structs.ggml_threadpool_params(), n_threads)

def ggml_threadpool_params_init(p, n_threads):
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
    enter(b"ggml_threadpool_params_init")
    defaults(pool_params(p, "p"), n_threads)

def ggml_threadpool_params_match(p0, p1):
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
    enter(b"ggml_threadpool_params_match")
    a, b = pool_params(p0, "p0"), pool_params(p1, "p1")
    equal = all(getattr(a, k) == getattr(b, k) for k in ("n_threads", "prio", "poll", "strict_cpu"))
    return equal and bytes(a.cpumask) == bytes(b.cpumask)

def ggml_threadpool_new(params):
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
    enter(b"ggml_threadpool_new")
    copy = _structs.ggml_threadpool_params.from_buffer_copy(pool_params(params, "params"))
    pool_threads(copy.n_threads)
    handle = next(handles)
    pools[handle] = copy
    return handle

cdef object pool(object handle):
    key = handle.value if isinstance(handle, ctypes.c_void_p) else handle
    if not isinstance(key, int) or key not in pools:
        fail(RuntimeError, f"threadpool is {handle!r}: no live thread pool")
    return key

def ggml_threadpool_free(threadpool):
    """Frees a thread pool.

    Args:
        threadpool: handle of the pool; None is accepted and ignored.
    Returns:
        None.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
    enter(b"ggml_threadpool_free")
    if threadpool is not None:
        del pools[pool(threadpool)]

def ggml_threadpool_pause(threadpool):
    """Marks a thread pool as paused.

    The mark has no effect: the threads sleep between graphs anyway.

    Args:
        threadpool: handle of the pool.
    Returns:
        None.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
    enter(b"ggml_threadpool_pause")
    pools[pool(threadpool)].paused = True

def ggml_threadpool_resume(threadpool):
    """Removes the mark that ggml_threadpool_pause set.

    Args:
        threadpool: handle of the pool.
    Returns:
        None.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
    enter(b"ggml_threadpool_resume")
    pools[pool(threadpool)].paused = False

def ggml_threadpool_get_n_threads(threadpool):
    """Gives the number of threads that a pool stands for.

    Args:
        threadpool: handle of the pool.
    Returns:
        Number of threads (int), 1 to 512.
    Raises:
        RuntimeError: threadpool is not a live thread pool.
    """
    enter(b"ggml_threadpool_get_n_threads")
    return threadpool_threads(threadpool)

def threadpool_threads(threadpool):
    """The same for other functions, whose names its errors bear."""
    return pools[pool(threadpool)].n_threads
