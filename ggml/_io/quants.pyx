"""Quantising rows, checking them, and the properties of types."""
import ctypes

from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from libc.math cimport fabsf
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from .._core cimport (
    arg_buffer, arg_extent, arg_size, arg_type, arg_type_number, engine, enter, fail, gg_region, gg_row_size, gg_types,
    is_a, region_holding, section_back, section_pause,
)
from .. import _structs

cdef void *memory_of(object o, const char *name, size_t need) except? NULL:
    """The address of `need` bytes of the caller, which are checked as far as their extent is known."""
    cdef void *p = NULL
    cdef gg_region *r
    cdef int overflow                        # if it is set, the result is -1: an address in no region
    if PyLong_CheckExact(o):                 # often the address of a tensor's data, which needs no system call
        p = <void *><size_t>PyLong_AsLongLongAndOverflow(o, &overflow)
        r = region_holding(p, need)
        if r != NULL and <size_t>(<uint8_t *>p - r.base) + need <= r.size:
            return p
    arg_buffer(o, name, need, &p)            # checks what lies in no region
    if p == NULL:
        fail(TypeError, f"{name.decode()} is None: need {need} bytes")
    r = region_holding(p, need)
    if r != NULL and <size_t>(<uint8_t *>p - r.base) + need > r.size:
        fail(ValueError, f"{name.decode()} ends beyond the memory that holds it: need {need} bytes")
    return p

cdef str type_name(int type):
    return gg_types[type].name.decode()

cdef int64_t most_elements = <int64_t>1 << 56     # of an array: a larger one exceeds the address space

cdef struct Job:                  # a call of ggml_quantize_chunk, which threads share
    int type
    const float *src
    uint8_t *dst
    const float *imatrix
    int64_t rows, step, width     # step: rows of a part
    size_t row_size
    int64_t *beyond               # of each part: the first of its rows that the type does not hold, or their number
    int failed

cdef void quantize_part(void *data, int64_t i) noexcept nogil:
    cdef Job *job = <Job *>data
    cdef int64_t first = i * job.step, n = min(job.step, job.rows - first)
    cdef const float *src = job.src + first * job.width
    cdef uint8_t *dst = job.dst + <size_t>first * job.row_size
    if not engine.quantize_rows(job.type, src, dst, n, job.width, job.imatrix, job.beyond + i):
        job.failed = 1

cdef int fail_beyond(int type, object row, const float *x, int64_t n) except -1:
    """Raises ValueError: `row` of n elements is beyond the range of a type. It names the element that is the reason."""
    cdef float worst = 0                     # the first NaN, or the largest magnitude
    cdef int64_t i
    for i in range(n):
        if worst == worst and not fabsf(x[i]) <= fabsf(worst):
            worst = x[i]
    fail(ValueError, f"{row} holds {worst:g}, beyond the range of {type_name(type)}: need finite numbers, smaller ones "
                     f"or a type of larger range such as f32")
    return 0

def ggml_quantize_init(type):
    """Prepares quantisation to a type.

    The call is not necessary: tables are built when they are first used. It only checks the type.

    Args:
        type: GGML_TYPE_*.
    Returns:
        None.
    Raises:
        ValueError: type is not the number of a type.
    """
    enter(b"ggml_quantize_init")
    arg_type(type, b"type")

def ggml_quantize_free():
    """Does nothing: the tables of quantisation stay for the life of the process.

    Returns:
        None.
    """

def ggml_quantize_requires_imatrix(type):
    """Tells whether quantising to a type needs importance weights.

    This holds for GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS and GGML_TYPE_IQ1_S.

    Args:
        type: GGML_TYPE_*; numbers of removed types are accepted.
    Returns:
        True if ggml_quantize_chunk needs imatrix for the type, otherwise False.
    Raises:
        ValueError: type is not the number of a type.
    """
    enter(b"ggml_quantize_requires_imatrix")
    return bool(engine.requires_imatrix(arg_type_number(type, b"type")))

def ggml_quantize_chunk(type, src, dst, start, nrows, n_per_row, imatrix):
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
    enter(b"ggml_quantize_chunk")
    cdef Job job
    memset(&job, 0, sizeof(job))
    job.type = arg_type(type, b"type")
    cdef int64_t first = arg_extent(start, b"start")
    cdef int64_t first_row, parts, n_threads, i, row
    cdef bytearray beyond
    job.rows, job.width = arg_extent(nrows, b"nrows"), arg_extent(n_per_row, b"n_per_row")
    if job.width == 0 or job.rows == 0:
        return 0
    if job.width % gg_types[job.type].blck:
        fail(ValueError, f"n_per_row is {job.width}: need a multiple of {type_name(job.type)}'s block of "
                         f"{gg_types[job.type].blck}")
    if first % job.width:
        fail(ValueError, f"start is {first}: need a multiple of n_per_row, {job.width}")
    if job.width > most_elements or job.rows > most_elements // job.width or first > most_elements:
        fail(ValueError, f"{job.rows} rows of {job.width} from {first} on are larger than any memory")
    job.row_size = gg_row_size(job.type, job.width)
    first_row = first // job.width
    job.src = <const float *>memory_of(src, b"src", <size_t>(first + job.rows * job.width) * 4) + first
    job.dst = <uint8_t *>memory_of(dst, b"dst", <size_t>(first_row + job.rows) * job.row_size)
    job.dst += <size_t>first_row * job.row_size
    if imatrix is not None and (not is_a(imatrix, ctypes._Pointer) or imatrix):
        job.imatrix = <const float *>memory_of(imatrix, b"imatrix", <size_t>job.width * 4)
    if job.imatrix == NULL and engine.requires_imatrix(job.type):
        fail(ValueError, f"{type_name(job.type)} needs importance weights: imatrix is None")
    if not engine.quantizer_ready(job.type):
        fail(MemoryError, f"there is no memory for the tables of {type_name(job.type)}")
    n_threads = engine.default_threads() if job.rows * job.width >= 65536 else 1
    parts = min(job.rows, 8 * n_threads) if n_threads > 1 else 1
    job.step = (job.rows + parts - 1) // parts
    parts = (job.rows + job.step - 1) // job.step
    beyond = bytearray(parts * sizeof(int64_t))
    job.beyond = <int64_t *><char *>beyond
    cdef int section = section_pause()
    with nogil:
        engine.parallel_for(<int>n_threads, parts, quantize_part, &job)
    section_back(section)
    if job.failed:
        fail(ValueError, f"there is no conversion to {type_name(job.type)}")
    for i in range(parts):
        row = i * job.step + job.beyond[i]
        if row < min((i + 1) * job.step, job.rows):
            fail_beyond(job.type, f"row {first_row + row} of src", job.src + row * job.width, job.width)
    return <size_t>job.rows * job.row_size

def ggml_validate_row_data(type, data, nbytes):
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
    enter(b"ggml_validate_row_data")
    cdef int ty = arg_type(type, b"type")
    cdef size_t n = arg_size(nbytes, b"nbytes")
    cdef void *p
    if n % <size_t>gg_types[ty].bytes:
        return False
    if n == 0:
        return True
    p = memory_of(data, b"data", n)
    return bool(engine.validate_rows(ty, p, n))

def ggml_get_type_traits(type):
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
    enter(b"ggml_get_type_traits")
    return ctypes.cast(<size_t>engine.type_traits(arg_type_number(type, b"type")), _structs.ggml_type_traits_p)

def ggml_internal_get_type_traits(type):
    """Returns the properties of a type as a struct, under the name that old releases used.

    The struct is the one that ggml_get_type_traits points to.

    Args:
        type: GGML_TYPE_*; a removed type has the name DEPRECATED and blocks of 0 bytes.
    Returns:
        ggml_type_traits.
    Raises:
        ValueError: type is not the number of a type.
    """
    enter(b"ggml_internal_get_type_traits")
    return ctypes.cast(<size_t>engine.type_traits(arg_type_number(type, b"type")), _structs.ggml_type_traits_p).contents

def ggml_get_type_traits_cpu(type):
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
    enter(b"ggml_get_type_traits_cpu")
    return ctypes.cast(<size_t>engine.type_traits_cpu(arg_type_number(type, b"type")), _structs.ggml_type_traits_cpu_p)
