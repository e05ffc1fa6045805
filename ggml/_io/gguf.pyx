"""GGUF contexts: the keys and the descriptions of tensors that a file holds, and the functions that query them.

Values are kept as the bytes that they have in a file. `gguf_read` creates contexts from files, `gguf_write` changes and
writes them.
"""
import ctypes
import struct

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport FILE
from libc.stdlib cimport free
from libc.string cimport memcpy

from .._core cimport (
    allocate, arg_address, arg_int, arg_int32, arg_size, arg_text, buffer_retire, engine, enter, fail, gg_mul, gg_types,
)
from .._handle cimport HANDLE, Handle, find, opened, set_title
from .. import _constants
from .gguf_types import TYPES, getter_text

cdef extern from *:
    """
    /* A FILE of glibc begins with a magic number; for other C libraries nothing is known. */
    static inline int gg_may_be_file(const void *p) {
    #ifdef __GLIBC__
        return (*(const unsigned *)p & 0xffff0000u) == 0xfbad0000u;
    #else
        (void)p;
        return 1;
    #endif
    }
    """
    bint gg_may_be_file(const void *p)

U32, F32, F64 = _constants.GGUF_TYPE_UINT32, _constants.GGUF_TYPE_FLOAT32, _constants.GGUF_TYPE_FLOAT64
BOOLEAN, STRING, ARRAY = _constants.GGUF_TYPE_BOOL, _constants.GGUF_TYPE_STRING, _constants.GGUF_TYPE_ARRAY
N_TYPES = len(TYPES)
for _type in TYPES:
    SIZES[_type.number] = _type.size
cdef tuple names = tuple([t.name.encode() for t in TYPES])
ALIGNMENT_KEY = b"general.alignment"
NOWHERE = <size_t>1 << 62

cdef enum:
    DEFAULT_ALIGNMENT = 32
    MAX_ALIGNMENT = 1 << 24

# ---- what a file holds -----------------------------------------------------------------------------------------------
@cython.no_gc
cdef class Pair:
    """A key and its value or array."""

    def __dealloc__(self):
        free(self.starts)

@cython.no_gc
cdef class Info:
    """The description of a tensor."""

cdef class Mapping:
    """Pages of a mapped file, which are unmapped once no context and no view uses them."""

    def __dealloc__(self):
        if self.region != NULL:
            buffer_retire(self.region)

cdef class File(Handle):
    """A GGUF context."""

    def __cinit__(self):
        self.version, self.alignment = _constants.GGUF_VERSION, DEFAULT_ALIGNMENT
        self.pairs, self.infos, self.keys, self.names = [], [], {}, {}

    cdef int set_pair(self, Pair p) except -1:
        """Appends a pair; one with the same key is removed."""
        self.remove(p.key)
        self.keys[p.key] = len(self.pairs)
        self.pairs.append(p)
        if p.key == ALIGNMENT_KEY:
            self.alignment = alignment_of(p)
            self.place()
        return 0

    cdef int64_t remove(self, bytes key) except -2:
        """Removes a pair; returns its index, or -1."""
        at = self.keys.get(key, -1)
        if at < 0:
            return -1
        if at == len(self.pairs) - 1:
            del self.keys[key]
            del self.pairs[at]
        else:
            del self.pairs[at]
            self.keys = {(<Pair>p).key: i for i, p in enumerate(self.pairs)}
        if key == ALIGNMENT_KEY:
            self.alignment = DEFAULT_ALIGNMENT
            self.place()
        return at

    cdef int place(self, int64_t first=0) except -1:
        """Computes the offsets of the tensors from `first` on: each follows the one before, aligned."""
        cdef Info t
        cdef size_t end = 0
        cdef int64_t i
        if first:
            t = self.infos[first - 1]
            end = padded(t.offset + t.size, self.alignment)
        for i in range(first, len(self.infos)):
            t = self.infos[i]
            t.offset = end
            end = padded(end + t.size, self.alignment)
        self.data_size = end
        return 0

    cdef Pair pair(self, object key_id):
        """The pair of an index that the caller gives."""
        cdef int64_t i = arg_int(key_id, b"key_id")
        if not 0 <= i < len(self.pairs):
            fail(ValueError, f"key_id is {i}: there are {len(self.pairs)} keys")
        return self.pairs[i]

    cdef Info tensor(self, object tensor_id):
        """The tensor of an index that the caller gives."""
        cdef int64_t i = arg_int(tensor_id, b"tensor_id")
        if not 0 <= i < len(self.infos):
            fail(ValueError, f"tensor_id is {i}: there are {len(self.infos)} tensors")
        return self.infos[i]

    cdef Info find_tensor(self, object name):
        cdef bytes text = arg_text(name, b"name")
        if text not in self.names:
            fail(ValueError, f"no tensor is named {quoted(text)}")
        return self.infos[self.names[text]]

set_title(File, "GGUF context")

cdef File arg_gguf(object ctx, const char *fn):
    enter(fn)
    return <File>find(ctx, File, "ctx")

cdef FILE *arg_file(object file) except NULL:
    cdef FILE *f = <FILE *>arg_address(file, b"file")
    if f == NULL:
        fail(TypeError, "file is None: need a C FILE (see ggml_fopen)")
    if not engine.readable(f, 64) or not gg_may_be_file(f):
        fail(ValueError, f"file ({<size_t>f:#x}) is not a C FILE")
    return f

cdef size_t padded(size_t n, size_t alignment) noexcept:
    return (n + alignment - 1) & ~(alignment - 1)

cdef str quoted(bytes text):
    return repr((text if len(text) <= 80 else text[:77] + b"...").decode(errors="replace"))

cdef size_t alignment_of(Pair p) except 0:
    cdef uint32_t a
    if p.array or p.type != U32:
        fail(ValueError, f"key '{ALIGNMENT_KEY.decode()}' is of type {type_text(p)}: need u32")
    memcpy(&a, PyBytes_AS_STRING(p.data), 4)
    if a == 0 or a & (a - 1) or a > MAX_ALIGNMENT:
        fail(ValueError, f"key '{ALIGNMENT_KEY.decode()}' is {a}: need a power of two up to {MAX_ALIGNMENT}")
    return a

cdef str type_text(Pair p):
    name = (<bytes>names[p.type]).decode()
    return f"an array of {name}" if p.array else name

cdef int set_size(Info t) except -1:
    """Computes t.size; raises ValueError if the shape does not fit the type, or is larger than any file."""
    cdef size_t n = <size_t>gg_types[t.type].bytes
    cdef int d
    if t.ne[0] % gg_types[t.type].blck:
        fail(ValueError, f"tensor {quoted(t.name)} has rows of {t.ne[0]}: need a multiple of "
                         f"{gg_types[t.type].name.decode()}'s block of {gg_types[t.type].blck}")
    for d in range(4):
        if not gg_mul(n, <size_t>(t.ne[d] // gg_types[t.type].blck if d == 0 else t.ne[d]), &n) or n > NOWHERE:
            shape = [t.ne[0], t.ne[1], t.ne[2], t.ne[3]]
            fail(ValueError, f"tensor {quoted(t.name)} with shape {shape} is larger than any file")
    t.size = n
    return 0

cdef bint valid_utf8(const uint8_t *s, size_t n) noexcept nogil:
    """Whether bytes are UTF-8 without overlong forms, surrogates and code points above U+10FFFF."""
    cdef size_t i = 0, k, more
    cdef uint64_t eight
    cdef uint8_t c, low, high
    while i < n:
        if n - i >= 8:
            memcpy(&eight, s + i, 8)
            if not eight & 0x8080808080808080u:
                i += 8
                continue
        c = s[i]
        i += 1
        if c < 0x80:
            continue
        low, high = 0x80, 0xbf
        if 0xc2 <= c <= 0xdf:
            more = 1
        elif 0xe0 <= c <= 0xef:
            more = 2
            if c == 0xe0: low = 0xa0
            if c == 0xed: high = 0x9f
        elif 0xf0 <= c <= 0xf4:
            more = 3
            if c == 0xf0: low = 0x90
            if c == 0xf4: high = 0x8f
        else:
            return False
        if n - i < more or not low <= s[i] <= high:
            return False
        for k in range(1, more):
            if not 0x80 <= s[i + k] <= 0xbf:
                return False
        i += more
    return True

# ---- contexts --------------------------------------------------------------------------------------------------------
def gguf_init_empty():
    """Creates a GGUF context without keys and tensors, to be filled and written.

    Its format version is 3 and its alignment 32 bytes, until a key "general.alignment" is set.

    Returns:
        Handle (int) of the new GGUF context. Free it with gguf_free.
    """
    return HANDLE(opened(File()))

def gguf_free(ctx):
    """Frees a GGUF context. A ggml context that was created together with it stays.

    Args:
        ctx: handle of the GGUF context, or None, which does nothing.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed already, or is not a GGUF context.
    """
    if ctx is not None:
        arg_gguf(ctx, b"gguf_free").close()

# ---- keys ------------------------------------------------------------------------------------------------------------
def gguf_type_name(type):
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
    enter(b"gguf_type_name")
    cdef int k = arg_int32(type, b"type")
    return names[k] if 0 <= k < N_TYPES else None

def gguf_get_version(ctx):
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
    return arg_gguf(ctx, b"gguf_get_version").version

def gguf_get_alignment(ctx):
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
    return arg_gguf(ctx, b"gguf_get_alignment").alignment

def gguf_get_data_offset(ctx):
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
    return arg_gguf(ctx, b"gguf_get_data_offset").data_offset

def gguf_get_data(ctx):
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
    cdef File f = arg_gguf(ctx, b"gguf_get_data")
    return <size_t>f.data if f.data != NULL and engine.region_of_data(f.data) != NULL else None

def gguf_get_n_kv(ctx):
    """Counts the keys of a GGUF context.

    Args:
        ctx: GGUF context.
    Returns:
        Number of keys; their indices are 0 to that number - 1.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
    return len(arg_gguf(ctx, b"gguf_get_n_kv").pairs)

def gguf_find_key(ctx, key):
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
    cdef File f = arg_gguf(ctx, b"gguf_find_key")
    return f.keys.get(arg_text(key, b"key"), -1)

def gguf_get_key(ctx, key_id):
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
    return arg_gguf(ctx, b"gguf_get_key").pair(key_id).key

def gguf_get_kv_type(ctx, key_id):
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
    cdef Pair p = arg_gguf(ctx, b"gguf_get_kv_type").pair(key_id)
    return ARRAY if p.array else p.type

def gguf_get_arr_type(ctx, key_id):
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
    cdef Pair p = arg_gguf(ctx, b"gguf_get_arr_type").pair(key_id)
    if not p.array:
        fail(ValueError, f"key {quoted(p.key)} is {type_text(p)}: need an array")
    return p.type

def gguf_get_arr_n(ctx, key_id):
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
    return arg_gguf(ctx, b"gguf_get_arr_n").pair(key_id).n

cdef bytes value_data(Pair p, int type):
    """The bytes of a single value, or of the only item of an array; type: the required one, -1: any but strings."""
    if p.n != 1 or (p.type != type if type >= 0 else p.type == STRING):
        wanted = (<bytes>names[type]).decode() if type >= 0 else "a value of fixed size"
        fail(ValueError, f"key {quoted(p.key)} is {type_text(p)}: need {wanted}")
    return p.data

cdef object string_at(Pair p, size_t i):
    """String i; the first call for an array computes the positions of all."""
    cdef size_t k, at = 0
    cdef uint64_t n
    cdef const char *data = PyBytes_AS_STRING(p.data)
    if p.starts == NULL and p.n > 1:
        p.starts = <size_t *>allocate(p.n, sizeof(size_t))
        for k in range(p.n):
            p.starts[k] = at
            memcpy(&n, data + at, 8)
            at += 8 + n
    at = p.starts[i] if p.starts != NULL else 0
    memcpy(&n, data + at, 8)
    return PyBytes_FromStringAndSize(data + at + 8, <Py_ssize_t>n)

def gguf_get_val_str(ctx, key_id):
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
    cdef Pair p = arg_gguf(ctx, b"gguf_get_val_str").pair(key_id)
    value_data(p, STRING)
    return string_at(p, 0)

def gguf_get_arr_str(ctx, key_id, i):
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
    cdef Pair p = arg_gguf(ctx, b"gguf_get_arr_str").pair(key_id)
    cdef size_t k = arg_size(i, b"i")
    if p.type != STRING:
        fail(ValueError, f"key {quoted(p.key)} is {type_text(p)}: need an array of str")
    if k >= p.n:
        fail(ValueError, f"i is {k}: key {quoted(p.key)} has {p.n} strings")
    return string_at(p, k)

def gguf_get_val_data(ctx, key_id):
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
    cdef bytes data = value_data(arg_gguf(ctx, b"gguf_get_val_data").pair(key_id), -1)
    return <size_t>PyBytes_AS_STRING(data)

def gguf_get_arr_data(ctx, key_id):
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
    cdef Pair p = arg_gguf(ctx, b"gguf_get_arr_data").pair(key_id)
    if p.type == STRING:
        fail(ValueError, f"key {quoted(p.key)} is {type_text(p)}: need an array of values of fixed size")
    return <size_t>PyBytes_AS_STRING(p.data) if p.n else None

def _getter(kind):
    """gguf_get_val_NAME of a type."""
    cdef bytes name = b"gguf_get_val_" + kind.name.encode()
    cdef int number = kind.number
    form = struct.Struct("=" + kind.code)

    def get(ctx, key_id):
        return form.unpack(value_data(arg_gguf(ctx, name).pair(key_id), number))[0]
    get.__name__ = get.__qualname__ = name.decode()
    get.__doc__ = getter_text(kind)
    return get

for _type in TYPES:
    if _type.code:
        globals()["gguf_get_val_" + _type.name] = _getter(_type)

# ---- tensors ---------------------------------------------------------------------------------------------------------
def gguf_get_n_tensors(ctx):
    """Counts the tensors of a GGUF context.

    Args:
        ctx: GGUF context.
    Returns:
        Number of tensors; their indices are 0 to that number - 1.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
    return len(arg_gguf(ctx, b"gguf_get_n_tensors").infos)

def gguf_find_tensor(ctx, name):
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
    cdef File f = arg_gguf(ctx, b"gguf_find_tensor")
    return f.names.get(arg_text(name, b"name"), -1)

def gguf_get_tensor_offset(ctx, tensor_id):
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
    return arg_gguf(ctx, b"gguf_get_tensor_offset").tensor(tensor_id).offset

def gguf_get_tensor_name(ctx, tensor_id):
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
    return arg_gguf(ctx, b"gguf_get_tensor_name").tensor(tensor_id).name

def gguf_get_tensor_type(ctx, tensor_id):
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
    return arg_gguf(ctx, b"gguf_get_tensor_type").tensor(tensor_id).type

def gguf_get_tensor_size(ctx, tensor_id):
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
    return arg_gguf(ctx, b"gguf_get_tensor_size").tensor(tensor_id).size

def gguf_get_tensor_ne(ctx, tensor_id):
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
    cdef Info t = arg_gguf(ctx, b"gguf_get_tensor_ne").tensor(tensor_id)
    return (ctypes.c_int64 * 4)(*[t.ne[i] if i < t.n_dims else 1 for i in range(4)])

def ext_gguf_get_tensor_shape(ctx, tensor_id):
    """Gives the shape of a tensor as the file states it.

    This function is not part of the C library.

    Args:
        ctx: GGUF context.
        tensor_id: index of the tensor, 0 to gguf_get_n_tensors(ctx) - 1.
    Returns:
        Tuple of 0 to 4 int, dimension 0 (the innermost) first. A tensor of gguf_add_tensor has no trailing
        dimensions of size 1, but at least one dimension.
    Raises:
        TypeError: ctx is not a handle, or tensor_id is not an integer.
        ValueError: there is no tensor with this index.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
    cdef Info t = arg_gguf(ctx, b"ggml.ext.gguf_get_tensor_shape").tensor(tensor_id)
    return tuple([t.ne[i] for i in range(t.n_dims)])
