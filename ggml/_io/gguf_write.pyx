"""Changing GGUF contexts, and writing them to files, memory and C FILEs."""
import ctypes
import struct

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdio cimport FILE, fflush, fwrite
from libc.string cimport memcpy

from .._core cimport (
    arg_bool, arg_buffer, arg_int32, arg_path, arg_size, arg_tensor, arg_text, arg_type, check_data, engine, fail,
    float_of, gg_contiguous, gg_mul, gg_types, ggml_tensor, int_of, is_a, node_init, outside, repr_short, section_back,
    section_pause, set_name, truth_of, tuple_of,
)
from .._enums cimport GGML_OP_NONE
from .gguf cimport (
    ALIGNMENT_KEY, ARRAY, BOOLEAN, F32, F64, MAX_KEY, N_TYPES, NOWHERE, SIZES, STRING, File, Info, Pair, alignment_of,
    arg_file, arg_gguf, padded, quoted, set_size, valid_utf8,
)
from .. import _constants
from .._errors import rename
from .._system.messages import log
from .files import write_file
from .gguf_types import TYPES, setter_text


cdef int check_text(bytes text, str what) except -1:
    if not valid_utf8(<const uint8_t *>PyBytes_AS_STRING(text), len(text)):
        fail(ValueError, f"{what} is not valid UTF-8")
    return 0

# ---- keys ------------------------------------------------------------------------------------------------------------
cdef Pair new_pair(object key, int type, bint array, uint64_t n, bytes data):
    cdef Pair p = Pair.__new__(Pair)
    p.key, p.type, p.array, p.n, p.data = arg_text(key, b"key"), type, array, n, data
    if not 0 < len(p.key) <= MAX_KEY or b"\0" in p.key:
        fail(ValueError, f"key is {quoted(p.key)}: need 1 to {MAX_KEY} bytes, none of them zero")
    check_text(p.key, f"key {quoted(p.key)}")
    if p.key == ALIGNMENT_KEY:
        alignment_of(p)
    return p

cdef bytes raw64(uint64_t n):
    return PyBytes_FromStringAndSize(<char *>&n, 8)

cdef bytes raw32(uint32_t n):
    return PyBytes_FromStringAndSize(<char *>&n, 4)

cdef bytes value_bytes(int type, object form, object val):
    """The bytes of a value of a type; form: its struct.Struct."""
    cdef double number
    cdef float single
    try:
        if type == BOOLEAN:
            return b"\1" if outside(truth_of, val) else b"\0"
        if type == F32 or type == F64:
            number = outside(float_of, val)
            single = <float>number
            return PyBytes_FromStringAndSize(<char *>&single, 4) if type == F32 else form.pack(number)
        return form.pack(outside(int_of, val))
    except (struct.error, OverflowError):
        fail(ValueError, f"val is {repr_short(val)}: it does not fit into {TYPES[type].name}")
    except (TypeError, ValueError):
        fail(TypeError, f"val is {repr_short(val)}: need {'True or False' if type == BOOLEAN else 'a number'}")

def _setter(kind):
    """gguf_set_val_NAME of a type."""
    cdef bytes name = b"gguf_set_val_" + kind.name.encode()
    cdef int type = kind.number
    form = struct.Struct("=" + kind.code)

    def set(ctx, key, val):
        cdef File f = arg_gguf(ctx, name)
        f.set_pair(new_pair(key, type, False, 1, value_bytes(type, form, val)))
    set.__name__ = set.__qualname__ = name.decode()
    set.__doc__ = setter_text(kind)
    return set

for _type in TYPES:
    if _type.code:
        globals()["gguf_set_val_" + _type.name] = _setter(_type)

cdef bytes string_bytes(object text, const char *role):
    cdef bytes raw = arg_text(text, role)
    check_text(raw, f"{role.decode()} {quoted(raw)}")
    return raw64(len(raw)) + raw

def gguf_set_val_str(ctx, key, val):
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
    cdef File f = arg_gguf(ctx, b"gguf_set_val_str")
    f.set_pair(new_pair(key, STRING, False, 1, string_bytes(val, b"val")))

def gguf_set_arr_data(ctx, key, type, data, n):
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
    cdef File f = arg_gguf(ctx, b"gguf_set_arr_data")
    cdef int k = arg_int32(type, b"type")
    cdef size_t count = arg_size(n, b"n"), size
    cdef void *p
    if not 0 <= k < N_TYPES or k in (STRING, ARRAY):
        fail(ValueError, f"type is {k}: need the type of a value of fixed size")
    if not gg_mul(count, <size_t>SIZES[k], &size) or size > NOWHERE:
        fail(ValueError, f"n is {count}: larger than any memory")
    arg_buffer(data, b"data", size, &p)
    if size and (p == NULL or not engine.readable(p, size)):
        fail(ValueError, f"data ({<size_t>p:#x}) is not memory of {size} bytes")
    cdef bytes copy = PyBytes_FromStringAndSize(<const char *>p, <Py_ssize_t>size) if size else b""
    if k == BOOLEAN and copy.translate(None, b"\0\1"):
        fail(ValueError, "data has bools that are neither 0 nor 1")
    f.set_pair(new_pair(key, k, True, count, copy))

def gguf_set_arr_str(ctx, key, data, n):
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
    cdef File f = arg_gguf(ctx, b"gguf_set_arr_str")
    cdef size_t count = arg_size(n, b"n")
    is_pointer = is_a(data, ctypes._Pointer)
    if isinstance(data, (list, tuple)) or is_a(data, ctypes.Array):
        data = outside(tuple_of, data)
    if not (is_pointer or type(data) is tuple) or (count and not data):
        fail(TypeError, f"data is {repr_short(data)}: need {count} strings, as a list, a ctypes array or a pointer")
    if not is_pointer and <size_t>len(data) < count:
        fail(ValueError, f"n is {count}: data has {len(data)} strings")
    cdef size_t address
    if is_pointer:
        address = ctypes.addressof(data.contents)
        if not engine.readable(<void *>address, count * sizeof(void *)):
            fail(ValueError, f"data is not an array of {count} strings")
    strings = [string_bytes(data[i], b"a string of data") for i in range(count)]
    f.set_pair(new_pair(key, STRING, True, count, b"".join(strings)))

def gguf_set_kv(ctx, src):
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
    cdef File f = arg_gguf(ctx, b"gguf_set_kv"), g = arg_gguf(src, b"gguf_set_kv")
    for p in list(g.pairs):
        f.set_pair(p)                      # shared: a pair does not change

def gguf_remove_key(ctx, key):
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
    cdef File f = arg_gguf(ctx, b"gguf_remove_key")
    return f.remove(arg_text(key, b"key"))

# ---- tensors ---------------------------------------------------------------------------------------------------------
def gguf_add_tensor(ctx, tensor):
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
    cdef File f = arg_gguf(ctx, b"gguf_add_tensor")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef Info info = Info.__new__(Info)
    cdef int d
    info.name, info.type, info.n_dims = <bytes>t.name, t.type, 1
    if not info.name:
        fail(ValueError, "the tensor has no name (see ggml_set_name)")
    check_text(info.name, f"the tensor's name {quoted(info.name)}")
    if info.name in f.names:
        fail(ValueError, f"there is a tensor named {quoted(info.name)} already")
    if not gg_contiguous(t):
        fail(ValueError, f"tensor {quoted(info.name)} is not contiguous (see ggml_cont)")
    for d in range(4):
        info.ne[d] = t.ne[d]
        if t.ne[d] != 1:
            info.n_dims = d + 1
    set_size(info)
    info.data = t.data
    if t.data != NULL and engine.region_of_data(t.data) == NULL:
        info.held = memoryview(tensor)
    info.offset = f.data_size
    f.names[info.name] = len(f.infos)
    f.infos.append(info)
    f.data_size = padded(info.offset + info.size, f.alignment)

def gguf_set_tensor_type(ctx, name, type):
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
    cdef File f = arg_gguf(ctx, b"gguf_set_tensor_type")
    cdef Info t = f.find_tensor(name)
    cdef int before = t.type
    t.type = arg_type(type, b"type")
    if t.type == before:
        return
    try:
        set_size(t)
    except ValueError:
        t.type = before
        raise
    t.data = NULL
    f.place(f.names[t.name] + 1)

def gguf_set_tensor_data(ctx, name, data):
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
    cdef File f = arg_gguf(ctx, b"gguf_set_tensor_data")
    cdef Info t = f.find_tensor(name)
    cdef void *p
    arg_buffer(data, b"data", t.size, &p)
    if t.size and p == NULL:
        fail(TypeError, f"data is None: need {t.size} bytes")
    t.data, t.held = p, data

# ---- writing ---------------------------------------------------------------------------------------------------------
cdef bytes metadata(File f):
    """The header, keys and descriptions of tensors, padded to the alignment."""
    cdef Pair p
    cdef Info t
    parts = [b"GGUF", raw32(f.version), raw64(len(f.infos)), raw64(len(f.pairs))]
    for p in f.pairs:
        parts += (raw64(len(p.key)), p.key)
        if p.array:
            parts += (raw32(ARRAY), raw32(p.type), raw64(p.n), p.data)
        else:
            parts += (raw32(p.type), p.data)
    for t in f.infos:
        parts += (raw64(len(t.name)), t.name, raw32(t.n_dims), PyBytes_FromStringAndSize(<char *>t.ne, 8 * t.n_dims),
                  raw32(t.type), raw64(t.offset))
    meta = b"".join(parts)
    return meta.ljust(padded(len(meta), f.alignment), b"\0")

cdef int check_tensor(Info t) except -1:
    """Raises unless the tensor's data are in live memory."""
    cdef ggml_tensor d
    cdef int i
    if t.size == 0:
        return 0
    if t.data == NULL:
        fail(ValueError, f"tensor {quoted(t.name)} has no data (see gguf_set_tensor_data)")
    node_init(&d, GGML_OP_NONE, t.type, t.ne[0], t.ne[1], t.ne[2], t.ne[3])
    d.nb[0] = <size_t>gg_types[t.type].bytes
    for i in range(1, 4):
        d.nb[i] = d.nb[i - 1] * <size_t>(t.ne[i - 1] // gg_types[t.type].blck if i == 1 else t.ne[i - 1])
    d.data = t.data
    set_name(&d, t.name, b"")
    check_data(&d, "tensor")
    return 0

cdef int write_to(File f, object write, bint only_meta) except -1:
    """Writes a whole file with write(data), which takes bytes or a memoryview."""
    cdef Info t
    if not only_meta:
        for t in f.infos:
            check_tensor(t)
    write(metadata(f))
    if only_meta:
        return 0
    for t in f.infos:
        if t.size:
            write(PyMemoryView_FromMemory(<char *>t.data, <Py_ssize_t>t.size, PyBUF_READ))
        write(bytes(padded(t.size, f.alignment) - t.size))
    return 0

def gguf_get_meta_size(ctx):
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
    return len(metadata(arg_gguf(ctx, b"gguf_get_meta_size")))

def gguf_get_meta_data(ctx, data):
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
    cdef bytes meta = metadata(arg_gguf(ctx, b"gguf_get_meta_data"))
    cdef void *p
    arg_buffer(data, b"data", len(meta), &p)
    if p == NULL or not engine.readable(p, len(meta)):
        fail(ValueError, f"data ({<size_t>p:#x}) is not memory of {len(meta)} bytes")
    memcpy(p, PyBytes_AS_STRING(meta), len(meta))

def gguf_write_to_file(ctx, fname, only_meta):
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
    try:
        _write_to_file(ctx, fname, only_meta)
    except OSError as error:
        log(_constants.GGML_LOG_LEVEL_ERROR, f"{error.strerror}: {fname!r}\n")
        return False
    return True

def _write_to_file(ctx, fname, only_meta):
    """gguf_write_to_file, but errors of the operating system are raised."""
    cdef File f = arg_gguf(ctx, b"gguf_write_to_file")
    cdef bint meta = arg_bool(only_meta, b"only_meta")
    name = arg_path(fname, b"fname")
    try:
        write_file(name, lambda write: write_to(f, write, meta))
    except OSError as error:
        raise rename(error, "gguf_write_to_file", fname) from None

cdef class Stdio:
    """A C FILE as a Python object with a method write."""
    cdef FILE *file

    def write(self, data):
        cdef const uint8_t[::1] view = data
        cdef size_t n = <size_t>view.shape[0], done = 0
        cdef int section
        if n:
            section = section_pause()
            with nogil:
                done = fwrite(&view[0], 1, n, self.file)
            section_back(section)
        if done < n:
            raise OSError("writing failed")

def gguf_write_to_file_ptr(ctx, file, only_meta):
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
    cdef File f = arg_gguf(ctx, b"gguf_write_to_file_ptr")
    cdef Stdio out = Stdio()
    cdef bint meta = arg_bool(only_meta, b"only_meta")
    out.file = arg_file(file)
    try:
        write_to(f, out.write, meta)
        if fflush(out.file):
            raise OSError("writing failed")
    except OSError as error:
        log(_constants.GGML_LOG_LEVEL_ERROR, f"gguf_write_to_file_ptr: {error}\n")
        return False
    return True
