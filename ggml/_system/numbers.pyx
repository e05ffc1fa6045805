"""Half-precision and bfloat16 numbers, and arrays of them."""
from libc.stdint cimport int32_t, int64_t, uint16_t
from libc.string cimport memcpy

from .._core cimport (
    arg_buffer, arg_extent, arg_float, arg_int, arg_int32, engine, enter, fail, gg_bf16_to_f32, gg_f16_to_f32,
    gg_f32_to_bf16, gg_f32_to_f16, is_a, section_back, section_pause,
)
from .._enums cimport GGML_TYPE_BF16, GGML_TYPE_F16, GGML_TYPE_F32
from .. import _constants, _structs
from .._core import enums

cdef uint16_t bits16(object value, const char *name) except? 0:
    """The bits of a 16-bit number, given as an integer."""
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
    return gg_bf16_to_f32(bits16(bf16.bits if is_a(bf16, _structs.ggml_bf16_t) else bf16, b"bf16"))

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

cdef void *arg_array(object value, const char *name, int64_t n, size_t size) except? NULL:
    """The caller's memory of n elements of `size` bytes; NULL if n is 0."""
    cdef void *p
    if n > (<int64_t>1 << 60):
        fail(ValueError, f"{n} elements are larger than the address space")
    arg_buffer(value, name, <size_t>n * size, &p)
    if n == 0:
        return NULL
    if p == NULL or not engine.readable(p, <size_t>n * size):
        fail(ValueError, f"{name.decode()} ({<size_t>p:#x}) is not memory of {<size_t>n * size} bytes")
    return p

cdef object convert_to_f32(int type, object x, const char *x_name, object y, const char *y_name, object n,
                           const char *n_name):
    """Converts n elements of a 16-bit type to float32."""
    cdef int64_t k = arg_extent(n, n_name)
    cdef void *a = arg_array(x, x_name, k, 2)
    cdef void *b = arg_array(y, y_name, k, 4)
    cdef int section
    if k:
        section = section_pause()
        with nogil:
            engine.isa_active().to_f32[type](a, <float *>b, k)
        section_back(section)

cdef object convert_from_f32(int type, object x, const char *x_name, object y, const char *y_name, object n,
                             const char *n_name):
    """Rounds n float32 elements to a 16-bit type."""
    cdef int64_t k = arg_extent(n, n_name)
    cdef void *a = arg_array(x, x_name, k, 4)
    cdef void *b = arg_array(y, y_name, k, 2)
    cdef int section
    if k:
        section = section_pause()
        with nogil:
            engine.isa_active().from_f32[type](<float *>a, b, k)
        section_back(section)

def ggml_fp16_to_fp32_row(fp16, fp32, n):
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
    enter(b"ggml_fp16_to_fp32_row")
    convert_to_f32(GGML_TYPE_F16, fp16, b"fp16", fp32, b"fp32", n, b"n")

def ggml_fp32_to_fp16_row(fp32, fp16, n):
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
    enter(b"ggml_fp32_to_fp16_row")
    convert_from_f32(GGML_TYPE_F16, fp32, b"fp32", fp16, b"fp16", n, b"n")

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
    convert_to_f32(GGML_TYPE_BF16, bf16, b"bf16", fp32, b"fp32", n, b"n")

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
    convert_from_f32(GGML_TYPE_BF16, fp32, b"fp32", bf16, b"bf16", n, b"n")

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
    cdef float *a = <float *>arg_array(fp32, b"fp32", k, 4)
    cdef uint16_t *b = <uint16_t *>arg_array(bf16, b"bf16", k, 2)
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
    cdef void *a = arg_array(x, b"x", n, 4)
    cdef void *b = arg_array(y, b"y", n, 4)
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
    cdef float *a = <float *>arg_array(x, b"x", n, 4)
    cdef int32_t *b = <int32_t *>arg_array(y, b"y", n, 4)
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
        y: memory for k halves (2 * k bytes), given in the same ways. It is overwritten.
        k: number of elements, 0 or more.
    Returns:
        None.
    Raises:
        TypeError: x or y is not memory, or k is not an integer.
        ValueError: k is negative, or a buffer is too small, not contiguous, NULL or not readable.
    """
    enter(b"ggml_cpu_fp32_to_fp16")
    convert_from_f32(GGML_TYPE_F16, x, b"x", y, b"y", k, b"k")

def ggml_cpu_fp16_to_fp32(x, y, k):
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
    enter(b"ggml_cpu_fp16_to_fp32")
    convert_to_f32(GGML_TYPE_F16, x, b"x", y, b"y", k, b"k")

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
    convert_from_f32(GGML_TYPE_BF16, x, b"x", y, b"y", k, b"k")

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
    convert_to_f32(GGML_TYPE_BF16, x, b"x", y, b"y", k, b"k")

# ---- types of files --------------------------------------------------------------------------------------------------
cdef dict FILE_TYPES = {
    value: enums()["GGML_TYPE_" + name.split("_", 3)[3]] for name, value in vars(_constants).items()
    if name.startswith("GGML_FTYPE_MOSTLY_") and "GGML_TYPE_" + name.split("_", 3)[3] in enums()}
FILE_TYPES[_constants.GGML_FTYPE_ALL_F32] = GGML_TYPE_F32

def ggml_ftype_to_ggml_type(ftype):
    """Returns the tensor type that most tensors of a model file have.

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
        fail(ValueError, f"ftype is {k}: need a file type that stands for one tensor type")
    return FILE_TYPES[k]
