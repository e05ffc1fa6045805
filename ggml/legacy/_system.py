"""Half precision, clocks, CPU features, and quantised rows with histograms."""

import ctypes
import functools
from ctypes import c_int64

import numpy as np

import ggml

from . import _memory
from ._api import api
from ._structs import dequantize_row_q_t, quantize_fns_t, quantize_row_q_t, vec_dot_q_t
from ._tensors import engine_type

BLOCK = 32
# Layout of a block: bits per value, offset of the values (their low four bits, if they have five), offset of the fifth
# bits.
LAYOUT = {
    ggml.GGML_TYPE_Q4_0: (4, 2, 0),
    ggml.GGML_TYPE_Q4_1: (4, 4, 0),
    ggml.GGML_TYPE_Q5_0: (5, 6, 2),
    ggml.GGML_TYPE_Q5_1: (5, 8, 4),
    ggml.GGML_TYPE_Q8_0: (8, 2, 0),
}


# ---- half precision, clocks, CPU features ----------------------------------------------------------------------------
@api
def ggml_fp16_to_fp32(x: int):
    """Decodes an IEEE half-precision number.

    Args:
        x: its 16 bits as an integer, 0 to 65535 (ggml_fp16_t).
    Returns:
        The number (float).
    Raises:
        TypeError: x is not an integer.
        ValueError: x does not fit into 16 bits.
    """
    return ggml.ggml_fp16_to_fp32(x)


@api
def ggml_fp32_to_fp16(x: float):
    """Encodes a number in IEEE half precision.

    Args:
        x: the number. It is rounded to the nearest half; magnitudes from 65520 on become infinite.
    Returns:
        The 16 bits as an integer (ggml_fp16_t).
    Raises:
        TypeError: x is not a number.
    """
    return ggml.ggml_fp32_to_fp16(x)


@api
def ggml_fp16_to_fp32_row(x, y, n: int):
    """Converts an array from half precision to f32.

    Args:
        x: n halves (16 bits each): an array, a buffer, a pointer or an address.
        y: memory for n floats.
        n: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is neither a buffer nor an address, or n is not an integer.
        ValueError: n is negative, or an array is too small or not readable.
    """
    ggml.ggml_fp16_to_fp32_row(x, y, n)


@api
def ggml_fp32_to_fp16_row(x, y, n: int):
    """Converts an array from f32 to half precision, rounding to nearest.

    Args:
        x: n floats: an array, a buffer, a pointer or an address.
        y: memory for n halves (16 bits each).
        n: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is neither a buffer nor an address, or n is not an integer.
        ValueError: n is negative, or an array is too small or not readable.
    """
    ggml.ggml_fp32_to_fp16_row(x, y, n)


@api
def ggml_time_init():
    """Does nothing: the clocks need no preparation. Old programs call it first.

    Returns:
        None.
    """


@api
def ggml_time_ms():
    """Reads a monotonic clock in milliseconds.

    Returns:
        Milliseconds since an arbitrary moment (int).
    """
    return ggml.ggml_time_ms()


@api
def ggml_time_us():
    """Reads a monotonic clock in microseconds.

    Returns:
        Microseconds since an arbitrary moment (int).
    """
    return ggml.ggml_time_us()


@api
def ggml_cycles():
    """Reads the finest clock there is, in ticks.

    Returns:
        Ticks since an arbitrary moment (int); ggml_cycles_per_ms of them make a millisecond.
    """
    return ggml.ggml_cycles()


@api
def ggml_cycles_per_ms():
    """Gives the rate of ggml_cycles.

    Returns:
        Ticks per millisecond: 1000000, since ticks are nanoseconds.
    """
    return ggml.ggml_cycles_per_ms()


CPU_FEATURES = {  # function ggml_cpu_has_...: printed name
    "avx": "AVX", "avx2": "AVX2", "avx512": "AVX-512F", "avx512_vbmi": "AVX-512 VBMI", "avx512_vnni": "AVX-512 VNNI",
    "fma": "FMA", "neon": "NEON", "arm_fma": "ARM's fused multiply-add", "f16c": "F16C",
    "fp16_va": "ARM's FP16 vector arithmetic", "wasm_simd": "WebAssembly SIMD", "sse3": "SSE3", "vsx": "POWER's VSX",
}  # fmt: skip
ABSENT_BACKENDS = {
    "blas": "a BLAS backend",
    "cublas": "the cuBLAS backend",
    "clblast": "the CLBlast backend",
    "gpublas": "a backend with BLAS on a GPU",
}
CPU_DOC = """Tells whether CPU and operating system support {}.

    Returns:
        1 or 0.
    """
BACKEND_DOC = """Tells whether this build has {}.

    Returns:
        0: it has none.
    """


def _cpu_has(feature, doc):
    """Makes the public function ggml_cpu_has_<feature>. It returns 0 where the engine has no such function."""
    engine = getattr(ggml, "ggml_cpu_has_" + feature, None)

    def function():
        return int(engine()) if engine is not None else 0

    function.__name__ = function.__qualname__ = "ggml_cpu_has_" + feature
    function.__doc__ = doc
    return api(function)


for _feature, _printed in CPU_FEATURES.items():
    _cpu_has(_feature, CPU_DOC.format(_printed))
for _feature, _printed in ABSENT_BACKENDS.items():
    _cpu_has(_feature, BACKEND_DOC.format(_printed))


# ---- quantising ------------------------------------------------------------------------------------------------------
def _bins(type, blocks):
    """The histogram bin (0 to 15) of each quantised value. blocks: uint8 [n_blocks, bytes per block]."""
    bits, at, high = LAYOUT[type]
    if bits == 8:
        return np.trunc(blocks[:, at:].view(np.int8) / 16).astype(int) + 8
    packed = blocks[:, at : at + BLOCK // 2].astype(np.uint32)
    low, high_half = packed & 15, packed >> 4
    if bits == 5:  # as in May 2023, the fifth bits come from these positions, which belong to other values
        fifth, j = blocks[:, high : high + 4].copy().view("<u4"), np.arange(0, BLOCK, 2, dtype=np.uint32)
        low = (low | (fifth >> j & 1) << 4) // 2
        high_half = (high_half | fifth >> (j + 12) % BLOCK & 16) // 2
    return np.concatenate([low, high_half], axis=1)


def _quantize(type, src, dst, start, n, k, hist):
    """Quantises n floats at src + start in rows of k and adds the counts of the values to hist.

    Returns the number of bytes written.
    """
    if start % BLOCK or n < 0 or start < 0 or k < 1 or k % BLOCK or n % k:
        raise ValueError(f"start is {start}, n is {n}, k is {k}: need multiples of {BLOCK}, n also a multiple of k")
    size = ggml.ggml_row_size(type, n)
    first = ggml.ggml_row_size(type, start)
    histogram = _memory.address(hist, "hist", 16 * 8)
    _memory.address(src, "src", 4 * (start + n))
    out = _memory.address(dst, "dst", first + size)
    if n == 0:
        return 0
    ggml.ggml_quantize_chunk(type, src, dst, start, n // BLOCK, BLOCK, None)
    if type in LAYOUT:
        data = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(out + first))
        counts = np.bincount(_bins(type, data.reshape(n // BLOCK, -1)).ravel(), minlength=16)
        np.ctypeslib.as_array((c_int64 * 16).from_address(histogram))[:] += counts
    return size


@api
def ggml_quantize_q4_0(src, dst, n: int, k: int, hist):
    """Quantises floats to Q4_0: blocks of 32 numbers of 4 bits with one scale.

    Args:
        src: n floats: an array, a buffer, a pointer or an address.
        dst: memory for the result, 18 bytes per 32 floats.
        n: number of floats, a multiple of k.
        k: floats per row, a multiple of 32.
        hist: array of 16 int64: entry v increases by the number of values v (0 to 15).
    Returns:
        Bytes written to dst.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: n or k is not such a multiple, or an array is NULL or too small.
    """
    return _quantize(ggml.GGML_TYPE_Q4_0, src, dst, 0, n, k, hist)


@api
def ggml_quantize_q4_1(src, dst, n: int, k: int, hist):
    """Quantises floats to Q4_1: blocks of 32 numbers of 4 bits with a scale and a minimum.

    Args:
        src: n floats: an array, a buffer, a pointer or an address.
        dst: memory for the result, 20 bytes per 32 floats.
        n: number of floats, a multiple of k.
        k: floats per row, a multiple of 32.
        hist: array of 16 int64: entry v increases by the number of values v (0 to 15).
    Returns:
        Bytes written to dst.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: n or k is not such a multiple, or an array is NULL or too small.
    """
    return _quantize(ggml.GGML_TYPE_Q4_1, src, dst, 0, n, k, hist)


@api
def ggml_quantize_q5_0(src, dst, n: int, k: int, hist):
    """Quantises floats to Q5_0: blocks of 32 numbers of 5 bits with one scale.

    Args:
        src: n floats: an array, a buffer, a pointer or an address.
        dst: memory for the result, 22 bytes per 32 floats.
        n: number of floats, a multiple of k.
        k: floats per row, a multiple of 32.
        hist: array of 16 int64: entry v // 2 increases for each v that has the low four bits of one number and the
            fifth bit of a number that is generally another. These are the counts of May 2023.
    Returns:
        Bytes written to dst.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: n or k is not such a multiple, or an array is NULL or too small.
    """
    return _quantize(ggml.GGML_TYPE_Q5_0, src, dst, 0, n, k, hist)


@api
def ggml_quantize_q5_1(src, dst, n: int, k: int, hist):
    """Quantises floats to Q5_1: blocks of 32 numbers of 5 bits with a scale and a minimum.

    Args:
        src: n floats: an array, a buffer, a pointer or an address.
        dst: memory for the result, 24 bytes per 32 floats.
        n: number of floats, a multiple of k.
        k: floats per row, a multiple of 32.
        hist: array of 16 int64, counted as by ggml_quantize_q5_0.
    Returns:
        Bytes written to dst.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: n or k is not such a multiple, or an array is NULL or too small.
    """
    return _quantize(ggml.GGML_TYPE_Q5_1, src, dst, 0, n, k, hist)


@api
def ggml_quantize_q8_0(src, dst, n: int, k: int, hist):
    """Quantises floats to Q8_0: blocks of 32 numbers of 8 bits with one scale.

    Args:
        src: n floats: an array, a buffer, a pointer or an address.
        dst: memory for the result, 34 bytes per 32 floats.
        n: number of floats, a multiple of k.
        k: floats per row, a multiple of 32.
        hist: array of 16 int64: entry 8 + trunc(v / 16) increases for each value v (-127 to 127).
    Returns:
        Bytes written to dst.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: n or k is not such a multiple, or an array is NULL or too small.
    """
    return _quantize(ggml.GGML_TYPE_Q8_0, src, dst, 0, n, k, hist)


@api
def ggml_quantize_chunk(type: int, src, dst, start: int, n: int, hist):
    """Quantises a range of floats to the place in dst that it has in the whole array.

    Calls for all ranges of an array give the same bytes as one call for the whole array.

    Args:
        type: GGML_TYPE_Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0.
        src: the whole array of floats, at least start + n of them.
        dst: memory for the whole result.
        start: index of the first float, a multiple of 32.
        n: number of floats, a multiple of 32.
        hist: array of 16 int64 whose counts increase as in the function of the type, for example
            ggml_quantize_q4_0.
    Returns:
        Bytes written.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: type is none of the five, start or n is not such a multiple, or an array is NULL or too small.
    """
    if type not in LAYOUT:
        raise ValueError(f"type is {type}: need GGML_TYPE_Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0")
    return _quantize(type, src, dst, start, n, max(BLOCK, n), hist)


@functools.cache
def _functions(type):
    """The functions of a type. They call the engine's, whose lengths have 64 bits and whose dot product has strides."""
    fns = quantize_fns_t()
    if not ggml.ggml_is_quantized(type):
        return fns
    cpu = ggml.ggml_get_type_traits_cpu(type).contents
    to_float = ggml.ggml_get_type_traits(type).contents.to_float
    reference = ggml.ggml_get_type_traits(type).contents.from_float_ref
    dot_type = ggml.ggml_get_type_traits_cpu(cpu.vec_dot_type).contents

    def rows(function):
        return quantize_row_q_t(lambda x, y, k: function(x, y, k)) if function else quantize_row_q_t.prototype()

    if to_float:
        fns.dequantize_row_q = dequantize_row_q_t(lambda x, y, k: to_float(x, y, k))
    fns.quantize_row_q, fns.quantize_row_q_reference = rows(cpu.from_float), rows(reference)
    fns.quantize_row_q_dot, fns.vec_dot_type = rows(dot_type.from_float), cpu.vec_dot_type
    if cpu.vec_dot:
        fns.vec_dot_q = vec_dot_q_t(lambda n, s, x, y: cpu.vec_dot(n, s, 0, x, 0, y, 0, 1))
    return fns


@api
def ggml_internal_get_quantize_fn(i: int):
    """Gives the functions that convert rows of a type and multiply them.

    Args:
        i: GGML_TYPE_* of this module.
    Returns:
        quantize_fns_t with conversions from and to f32, the conversion to the type vec_dot_type and the dot product
        with a row of that type. All are NULL if the type is not quantised.
    Raises:
        TypeError: i is not an integer.
        ValueError: no type has this number.
    """
    return _functions(engine_type(i))
