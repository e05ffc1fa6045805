"""Time, version, and the features of the CPU."""
import glob
import time

from .._core cimport arg_int32, enter, fail
from .. import _constants
from .._core import cpu_has

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
    """Returns the number of ggml_cycles ticks in a millisecond.

    Returns:
        1000000 (int).
    """
    return 1_000_000

def ggml_version():
    """Returns the release of the C library whose function set this package provides.

    Returns:
        Version (bytes), as b"0.15.3".
    """
    return _constants.GGML_VERSION.encode()

def ggml_commit():
    """Returns the commit of the C library; there is none, since this package is not built from it.

    Returns:
        b"unknown".
    """
    return b"unknown"

# ---- the CPU ---------------------------------------------------------------------------------------------------------
def ggml_cpu_init():
    """Does nothing; the kernels were chosen when the module was imported.

    The environment variable GGML_ISA selects the instruction set at import.

    Returns:
        None.
    """

def ggml_cpu_get_sve_cnt():
    """Returns the size of an SVE register; no kernel of this build uses SVE.

    Returns:
        0 on every machine.
    """
    return 0

def ggml_cpu_get_rvv_vlen():
    """Returns the size of a RISC-V vector register; no kernel of this build uses them.

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

# ---- features of the CPU: ggml_cpu_has_* -----------------------------------------------------------------------------
cdef int has(str feature) except -1:
    """1 if the CPU has a feature and the operating system allows its use, else 0."""
    return cpu_has(feature)

# ---- x86-64 ----------------------------------------------------------------------------------------------------------
def ggml_cpu_has_sse3():
    """Tells whether the CPU has SSE3, the third set of 128-bit instructions of x86-64.

    It adds sums of neighbouring elements. No kernel here depends on it.

    Returns:
        1 if the CPU has SSE3, else 0 (int).
    """
    return has("sse3")

def ggml_cpu_has_ssse3():
    """Tells whether the CPU has SSSE3, which shuffles the bytes of 128-bit registers.

    Returns:
        1 if the CPU has SSSE3, else 0 (int).
    """
    return has("ssse3")

def ggml_cpu_has_avx():
    """Tells whether the CPU has AVX, the 256-bit floating-point instructions of x86-64.

    The operating system must save the 256-bit registers, too.

    Returns:
        1 if AVX can be used, else 0 (int).
    """
    return has("avx")

def ggml_cpu_has_avx_vnni():
    """Tells whether the CPU has AVX-VNNI, 8-bit dot products in 256-bit registers.

    With AVX2, the kernels of quantised types named avx2vnni use it.

    Returns:
        1 if AVX-VNNI can be used, else 0 (int).
    """
    return has("avx_vnni")

def ggml_cpu_has_avx2():
    """Tells whether the CPU has AVX2, the 256-bit integer instructions of x86-64.

    With FMA and F16C, it is the least that the vectorised kernels of x86-64 need.

    Returns:
        1 if AVX2 can be used and the operating system saves its registers, else 0 (int).
    """
    return has("avx2")

def ggml_cpu_has_bmi2():
    """Tells whether the CPU has BMI2, which extracts and deposits groups of bits.

    BMI2 works on general registers; no kernel here needs it.

    Returns:
        1 if the CPU has BMI2, else 0 (int).
    """
    return has("bmi2")

def ggml_cpu_has_f16c():
    """Tells whether the CPU has F16C, which converts between half precision and float32.

    The AVX2 kernels require it.

    Returns:
        1 if F16C can be used, else 0 (int).
    """
    return has("f16c")

def ggml_cpu_has_fma():
    """Tells whether the CPU has FMA3, the fused multiply-add of x86-64.

    It rounds a * b + c once. The AVX2 kernels require it.

    Returns:
        1 if FMA3 can be used, else 0 (int); ggml_cpu_has_arm_fma answers for ARM.
    """
    return has("fma")

def ggml_cpu_has_avx512():
    """Tells whether the CPU has AVX-512F, the foundation of the 512-bit instructions.

    The AVX-512 kernels also need BW, DQ and VL, for which there are no functions.

    Returns:
        1 if AVX-512F can be used and the operating system saves its registers, else 0 (int).
    """
    return has("avx512f")

def ggml_cpu_has_avx512_vbmi():
    """Tells whether the CPU has AVX-512 VBMI, which permutes the bytes of 512-bit registers.

    Returns:
        1 if AVX-512 VBMI can be used, else 0 (int).
    """
    return has("avx512_vbmi")

def ggml_cpu_has_avx512_vnni():
    """Tells whether the CPU has AVX-512 VNNI, 8-bit dot products in 512-bit registers.

    The kernels of quantised types named avx512vnni and amx use it.

    Returns:
        1 if AVX-512 VNNI can be used, else 0 (int).
    """
    return has("avx512_vnni")

def ggml_cpu_has_avx512_bf16():
    """Tells whether the CPU has AVX-512 BF16, dot products of bfloat16 numbers.

    Returns:
        1 if AVX-512 BF16 can be used, else 0 (int).
    """
    return has("avx512_bf16")

def ggml_cpu_has_amx_int8():
    """Tells whether the CPU has AMX-INT8, products of 8-bit matrix tiles.

    The operating system must save the tile registers, too. The kernels named amx use it, and AMX-BF16.

    Returns:
        1 if AMX-INT8 can be used, else 0 (int).
    """
    return has("amx_int8")

# ---- ARM -------------------------------------------------------------------------------------------------------------
def ggml_cpu_has_neon():
    """Tells whether the CPU has NEON, the 128-bit vector instructions of ARM.

    Returns:
        1 on every 64-bit ARM CPU, 0 elsewhere (int).
    """
    return has("neon")

def ggml_cpu_has_arm_fma():
    """Tells whether the CPU has the fused multiply-add of ARM.

    It is part of NEON on 64-bit ARM.

    Returns:
        1 on 64-bit ARM, 0 elsewhere (int); ggml_cpu_has_fma answers for x86-64.
    """
    return has("arm_fma")

def ggml_cpu_has_fp16_va():
    """Tells whether the CPU has FP16 vector arithmetic, ARM's calculation in half precision.

    It is detected on Linux and macOS.

    Returns:
        1 if the operating system reports FEAT_FP16, else 0 (int).
    """
    return has("fp16_va")

def ggml_cpu_has_dotprod():
    """Tells whether the CPU has ARM's dot product instructions for 8-bit integers.

    The kernels of quantised types named dotprod use them.

    Returns:
        1 if the operating system reports FEAT_DotProd, else 0 (int).
    """
    return has("dotprod")

def ggml_cpu_has_matmul_int8():
    """Tells whether the CPU has I8MM, ARM's products of 8-bit matrices.

    The kernels named i8mm need it and the dot product. It is detected on Linux and macOS.

    Returns:
        1 if the operating system reports FEAT_I8MM, else 0 (int).
    """
    return has("matmul_int8")

def ggml_cpu_has_sve():
    """Tells whether the CPU has SVE, ARM's vectors of scalable length.

    It is detected on Linux. No kernel here uses it.

    Returns:
        1 if the operating system reports SVE, else 0 (int).
    """
    return has("sve")

def ggml_cpu_has_sme():
    """Tells whether kernels can use SME, the matrix extension of ARM; this build has none.

    Returns:
        0, also on CPUs with SME.
    """
    return 0

def ggml_cpu_has_sme2():
    """Tells whether kernels can use SME2, the second version of ARM's matrix extension; this build has none.

    Returns:
        0, also on CPUs with SME2.
    """
    return 0

# ---- other CPUs and other builds -------------------------------------------------------------------------------------
def ggml_cpu_has_riscv_v():
    """Tells whether kernels can use V, the vector extension of RISC-V; this build has none.

    Returns:
        0, also on CPUs with the V extension.
    """
    return 0

def ggml_cpu_has_vsx():
    """Tells whether kernels can use VSX, the vector instructions of POWER; this build has none.

    Returns:
        0, also on POWER.
    """
    return 0

def ggml_cpu_has_vxe():
    """Tells whether kernels can use VXE, the vectors of z/Architecture; this build has none.

    Returns:
        0, also on z/Architecture.
    """
    return 0

def ggml_cpu_has_wasm_simd():
    """Tells whether the build is for WebAssembly with SIMD, which this package does not support.

    Returns:
        0 on every machine.
    """
    return 0

def ggml_cpu_has_llamafile():
    """Tells whether the build has the matrix kernels of llamafile; this one has its own.

    Returns:
        0 in every build.
    """
    return 0

# ---- backends (releases of 2024 had these functions too) -------------------------------------------------------------
def ggml_cpu_has_metal():
    """Tells whether the build has a Metal backend for Apple's GPUs.

    Returns:
        0: this build computes on the CPU.
    """
    return 0

def ggml_cpu_has_blas():
    """Tells whether the build multiplies matrices with a BLAS library.

    Returns:
        0: this build multiplies with its own kernels.
    """
    return 0

def ggml_cpu_has_cuda():
    """Tells whether the build has a CUDA backend for NVIDIA's GPUs.

    Returns:
        0: this build has no CUDA backend.
    """
    return 0

def ggml_cpu_has_vulkan():
    """Tells whether the build has a Vulkan backend.

    Returns:
        0: this build has no Vulkan backend.
    """
    return 0

def ggml_cpu_has_kompute():
    """Tells whether the build has a Kompute backend, which runs on Vulkan devices.

    Returns:
        0: this build has no Kompute backend.
    """
    return 0

def ggml_cpu_has_gpublas():
    """Tells whether the build multiplies matrices with a BLAS library on a GPU.

    Returns:
        0: this build uses no GPU.
    """
    return 0

def ggml_cpu_has_sycl():
    """Tells whether the build has a SYCL backend for Intel's GPUs.

    Returns:
        0: this build has no SYCL backend.
    """
    return 0
