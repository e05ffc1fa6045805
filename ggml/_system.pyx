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
    """The number that 16 bits stand for as a half."""
    enter(b"ggml_fp16_to_fp32")
    return gg_f16_to_f32(bits16(fp16, b"fp16"))

def ggml_fp32_to_fp16(fp32):
    """The bits of the half nearest to a number."""
    enter(b"ggml_fp32_to_fp16")
    return gg_f32_to_f16(arg_float(fp32, b"fp32"))

def ggml_bf16_to_fp32(bf16):
    """The number that a ggml_bf16_t (or its bits) stands for."""
    enter(b"ggml_bf16_to_fp32")
    return gg_bf16_to_f32(bits16(bf16.bits if isinstance(bf16, _structs.ggml_bf16_t) else bf16, b"bf16"))

def ggml_fp32_to_bf16(fp32):
    """The bfloat16 nearest to a number (a ggml_bf16_t)."""
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
    """Converts n halfs to floats."""
    enter(b"ggml_fp16_to_fp32_row")
    widen(GGML_TYPE_F16, fp16, b"fp16", fp32, b"fp32", n, b"n")

def ggml_fp32_to_fp16_row(fp32, fp16, n):
    """Converts n floats to halfs."""
    enter(b"ggml_fp32_to_fp16_row")
    narrow(GGML_TYPE_F16, fp32, b"fp32", fp16, b"fp16", n, b"n")

def ggml_bf16_to_fp32_row(bf16, fp32, n):
    """Converts n bfloat16 numbers to floats."""
    enter(b"ggml_bf16_to_fp32_row")
    widen(GGML_TYPE_BF16, bf16, b"bf16", fp32, b"fp32", n, b"n")

def ggml_fp32_to_bf16_row(fp32, bf16, n):
    """Converts n floats to bfloat16."""
    enter(b"ggml_fp32_to_bf16_row")
    narrow(GGML_TYPE_BF16, fp32, b"fp32", bf16, b"bf16", n, b"n")

def ggml_fp32_to_bf16_row_ref(fp32, bf16, n):
    """ggml_fp32_to_bf16_row, one number at a time."""
    enter(b"ggml_fp32_to_bf16_row_ref")
    cdef int64_t k = arg_extent(n, b"n"), i
    cdef float *a = <float *>row(fp32, b"fp32", k, 4)
    cdef uint16_t *b = <uint16_t *>row(bf16, b"bf16", k, 2)
    for i in range(k):
        b[i] = gg_f32_to_bf16(a[i])

def ggml_cpu_fp32_to_fp32(x, y, k):
    """Copies k floats."""
    enter(b"ggml_cpu_fp32_to_fp32")
    cdef int64_t n = arg_extent(k, b"k")
    cdef void *a = row(x, b"x", n, 4)
    cdef void *b = row(y, b"y", n, 4)
    if n:
        memcpy(b, a, <size_t>n * 4)

def ggml_cpu_fp32_to_i32(x, y, k):
    """Converts k floats to integers, towards zero; beyond the range to its ends, NaN to 0."""
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
    """Converts k floats to halfs."""
    enter(b"ggml_cpu_fp32_to_fp16")
    narrow(GGML_TYPE_F16, x, b"x", y, b"y", k, b"k")

def ggml_cpu_fp16_to_fp32(x, y, k):
    """Converts k halfs to floats."""
    enter(b"ggml_cpu_fp16_to_fp32")
    widen(GGML_TYPE_F16, x, b"x", y, b"y", k, b"k")

def ggml_cpu_fp32_to_bf16(x, y, k):
    """Converts k floats to bfloat16."""
    enter(b"ggml_cpu_fp32_to_bf16")
    narrow(GGML_TYPE_BF16, x, b"x", y, b"y", k, b"k")

def ggml_cpu_bf16_to_fp32(x, y, k):
    """Converts k bfloat16 numbers to floats."""
    enter(b"ggml_cpu_bf16_to_fp32")
    widen(GGML_TYPE_BF16, x, b"x", y, b"y", k, b"k")

# ---- time, version ---------------------------------------------------------------------------------------------------
def ggml_time_init():
    """Nothing: time needs no preparation here."""

def ggml_time_ms():
    """Milliseconds of a clock that never goes back."""
    return time.monotonic_ns() // 1_000_000

def ggml_time_us():
    """Microseconds of a clock that never goes back."""
    return time.monotonic_ns() // 1_000

def ggml_cycles():
    """Ticks of the finest clock there is: see ggml_cycles_per_ms."""
    return time.perf_counter_ns()

def ggml_cycles_per_ms():
    """How many ticks of ggml_cycles are a millisecond."""
    return 1_000_000

def ggml_version():
    """The release of the C library whose functions these are (bytes)."""
    return _constants.GGML_VERSION.encode()

def ggml_commit():
    """b"unknown": this is not built from a commit of the C library."""
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
    """Nothing: the kernels are chosen when the module is imported."""

def ggml_cpu_get_sve_cnt():
    """Bytes of an SVE register; 0: no kernel of this build uses SVE."""
    return 0

def ggml_cpu_get_rvv_vlen():
    """Bytes of a RISC-V vector register; 0: no kernel of this build uses them."""
    return 0

cdef int numa_nodes = 1

def ggml_numa_init(numa):
    """Looks for memory nodes, unless `numa` is GGML_NUMA_STRATEGY_DISABLED; threads stay where the system puts them."""
    global numa_nodes
    enter(b"ggml_numa_init")
    cdef int strategy = arg_int32(numa, b"numa")
    if not 0 <= strategy < _constants.GGML_NUMA_STRATEGY_COUNT:
        fail(ValueError, f"numa is {strategy}: need 0 to {_constants.GGML_NUMA_STRATEGY_COUNT - 1}")
    if strategy != _constants.GGML_NUMA_STRATEGY_DISABLED:
        numa_nodes = max(1, len(glob.glob("/sys/devices/system/node/node[0-9]*")))

def ggml_is_numa():
    """Whether ggml_numa_init found more than one memory node."""
    return numa_nodes > 1

# ---- files and identifiers -------------------------------------------------------------------------------------------
def ggml_fopen(fname, mode):
    """Opens a file as C's fopen does: the address of its FILE, None where it can't be opened."""
    enter(b"ggml_fopen")
    cdef bytes name = arg_text(fname, b"fname"), how = arg_text(mode, b"mode")
    return wrap_handle(fopen(name, how))

def ggml_guid_matches(guid_a, guid_b):
    """Whether two identifiers of 16 bytes are equal."""
    enter(b"ggml_guid_matches")
    return memcmp(row(guid_a, b"guid_a", 16, 1), row(guid_b, b"guid_b", 16, 1), 16) == 0

cdef dict FILE_TYPES = {
    value: enums()["GGML_TYPE_" + name.split("_", 3)[3]] for name, value in vars(_constants).items()
    if name.startswith("GGML_FTYPE_MOSTLY_") and "GGML_TYPE_" + name.split("_", 3)[3] in enums()}
FILE_TYPES[_constants.GGML_FTYPE_ALL_F32] = GGML_TYPE_F32

def ggml_ftype_to_ggml_type(ftype):
    """The type of most tensors in a file of type `ftype` (GGML_FTYPE_*)."""
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
    """Sends this library's messages to log_callback(level, text, user_data); None: to stderr."""
    global log_callback_kept, log_data_kept, log_function, log_data
    enter(b"ggml_log_set")
    callback = as_callback(log_callback, _structs.ggml_log_callback)
    cdef void *function = arg_callback(callback, _structs.ggml_log_callback, b"log_callback")
    cdef void *data = arg_address(user_data, b"user_data")
    log_callback_kept, log_data_kept = callback, user_data
    log_function, log_data = <log_fn>function, data

def ggml_log_get(log_callback, user_data):
    """Writes what ggml_log_set set to two pointers: to a ggml_log_callback and a c_void_p; NULL: nothing."""
    enter(b"ggml_log_get")
    (<void **>row(log_callback, b"log_callback", 1, sizeof(void *)))[0] = <void *>log_function
    (<void **>row(user_data, b"user_data", 1, sizeof(void *)))[0] = log_data

cdef str object_line(const ggml_object *o):
    return f" - ggml_object: type = {o.type}, offset = {o.offs}, size = {o.size}, next = {<size_t>o.next:#x}\n"

def ggml_print_object(obj):
    """Logs what an object of a context is (a pointer to a ggml_object)."""
    enter(b"ggml_print_object")
    cdef void *p = row(obj, b"obj", 1, sizeof(ggml_object))
    log(_constants.GGML_LOG_LEVEL_INFO, object_line(<ggml_object *>p))

def ggml_print_objects(ctx):
    """Logs what is in a context, a message an object."""
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
    """Writes the Python stack to stderr."""
    traceback.print_stack()

cdef object abort_callback = _structs.ggml_abort_callback_t()

def ggml_set_abort_callback(callback):
    """Sets what ggml_abort calls with its message before it raises; returns what was set before."""
    global abort_callback
    enter(b"ggml_set_abort_callback")
    new = as_callback(callback, _structs.ggml_abort_callback_t)
    if not isinstance(new, ctypes._CFuncPtr):
        new = _structs.ggml_abort_callback_t(<size_t>arg_callback(new, _structs.ggml_abort_callback_t, b"callback"))
    before, abort_callback = abort_callback, new
    return before

def ggml_abort(file, line, fmt, *args):
    """Raises RuntimeError with the message (a printf format and its arguments) and the place, where the C library ends the process."""
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
    """Parameters of a thread pool of n_threads, anywhere, of normal priority."""
    enter(b"ggml_threadpool_params_default")
    return defaults(_structs.ggml_threadpool_params(), n_threads)

def ggml_threadpool_params_init(p, n_threads):
    """Sets the parameters that p points to as ggml_threadpool_params_default does."""
    enter(b"ggml_threadpool_params_init")
    defaults(pool_params(p, "p"), n_threads)

def ggml_threadpool_params_match(p0, p1):
    """Whether two sets of parameters ask for the same threads; `paused` does not count."""
    enter(b"ggml_threadpool_params_match")
    a, b = pool_params(p0, "p0"), pool_params(p1, "p1")
    equal = all(getattr(a, k) == getattr(b, k) for k in ("n_threads", "prio", "poll", "strict_cpu"))
    return equal and bytes(a.cpumask) == bytes(b.cpumask)

def ggml_threadpool_new(params):
    """A handle (int) that stands for a number of threads; the threads themselves are OpenMP's."""
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
    """Frees the handle. None is accepted."""
    enter(b"ggml_threadpool_free")
    if threadpool is not None:
        del pools[pool(threadpool)]

def ggml_threadpool_pause(threadpool):
    """Marks the pool as paused; its threads sleep between computes anyway."""
    enter(b"ggml_threadpool_pause")
    pools[pool(threadpool)].paused = True

def ggml_threadpool_resume(threadpool):
    """Takes ggml_threadpool_pause back."""
    enter(b"ggml_threadpool_resume")
    pools[pool(threadpool)].paused = False

def ggml_threadpool_get_n_threads(threadpool):
    """Number of threads that a pool stands for."""
    enter(b"ggml_threadpool_get_n_threads")
    return threadpool_threads(threadpool)

def threadpool_threads(threadpool):
    """The same for other functions, whose names its errors bear."""
    return pools[pool(threadpool)].n_threads
