"""Reading GGUF files: from paths, C FILEs, memory, callbacks and mapped pages.

The metadata are read over a prefix of the file that grows until it holds them all. Every count and length is compared
with the bytes that are left in the file before memory is allocated for it.
"""
import os

cimport cython
from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport FILE, SEEK_END, SEEK_SET, fread
from libc.stdlib cimport free
from libc.string cimport memchr, memcpy

from .._core cimport (
    GGML_MAX_NAME, arg_address, arg_buffer, arg_callback, arg_context, arg_path, arg_size, check_file, engine,
    enlarge_pages, enter, fail, file_region, function_name, gg_add, gg_type_ok, ggml_context, ggml_object, ggml_tensor,
    is_a, is_path, keep, new_tensor, paused, repr_short, resized, section_back, section_pause, set_name, unwatch,
    watch,
)
from .._enums cimport GGML_TYPE_I8
from .._handle cimport HANDLE, opened
from .gguf cimport (
    ARRAY, BOOLEAN, MAX_KEY, N_TYPES, NOWHERE, SIZES, STRING, File, Info, Mapping, Pair, arg_file, arg_gguf, padded,
    quoted, set_size, valid_utf8,
)
from .. import _structs
from .files import open_regular
from .._core import as_callback, ggml_free, ggml_init, raise_deferred

cdef extern from *:
    """
    #ifdef _WIN32
    #define gg_seek _fseeki64
    #define gg_tell _ftelli64
    #else
    #define gg_seek fseeko
    #define gg_tell ftello
    #endif
    """
    int gg_seek(FILE *f, long long offset, int whence) nogil
    long long gg_tell(FILE *f) nogil

cdef enum:
    MIN_KV = 8 + 1 + 4 + 1            # bytes of the shortest key with its value
    MIN_TENSOR = 8 + 1 + 4 + 4 + 8    # bytes of the shortest description of a tensor
    FIRST_READ = 1 << 16

# ---- byte order ------------------------------------------------------------------------------------------------------
cdef void swap(uint8_t *p, size_t n, int size) noexcept nogil:
    """Reverses each of n items of `size` bytes."""
    cdef size_t _i
    cdef int k
    cdef uint8_t c
    for _i in range(n):
        for k in range(size // 2):
            c = p[k]
            p[k] = p[size - 1 - k]
            p[size - 1 - k] = c
        p += size

cdef void swap_lengths(uint8_t *p, uint64_t n) noexcept nogil:
    """Reverses the lengths of n strings."""
    cdef uint64_t length
    while n:
        swap(p, 1, 8)
        memcpy(&length, p, 8)
        p += 8 + length
        n -= 1

# ---- sources of bytes ------------------------------------------------------------------------------------------------
cdef class Source:
    """The bytes of a file. Offsets count from its beginning; the GGUF data begin at `start`."""
    cdef size_t start, end                # end: NOWHERE while it is not known
    cdef const uint8_t *memory            # all bytes from `start` on; NULL: only `fill` gives them

    cdef size_t fill(self, uint8_t *out, size_t offset, size_t n) except? 0:
        """Reads n bytes, or fewer if the file ends before."""
        memcpy(out, self.memory + (offset - self.start), min(n, self.end - offset))
        return min(n, self.end - offset)

cdef class PathSource(Source):
    cdef object file

    cdef size_t fill(self, uint8_t *out, size_t offset, size_t n) except? 0:
        cdef size_t got = 0
        self.file.seek(offset)
        while got < n:
            view = PyMemoryView_FromMemory(<char *>out + got, <Py_ssize_t>(n - got), PyBUF_WRITE)
            k = paused(self.file.readinto, (view,))
            if not k:
                break
            got += <size_t>k
        return got

cdef class StdioSource(Source):
    cdef FILE *file

    cdef size_t fill(self, uint8_t *out, size_t offset, size_t n) except? 0:
        cdef int section = section_pause()
        with nogil:
            if gg_seek(self.file, <long long>offset, SEEK_SET):
                n = 0
            n = fread(out, 1, n, self.file)
        section_back(section)
        return n

cdef class CallbackSource(Source):
    cdef size_t (*read)(void *userdata, void *output, size_t offset, size_t size) noexcept
    cdef void *userdata
    cdef size_t chunk

    cdef size_t fill(self, uint8_t *out, size_t offset, size_t n) except? 0:
        cdef size_t got = 0, k, wanted
        while got < n:
            wanted = min(n - got, self.chunk)
            watch()
            try:
                k = self.read(self.userdata, out + got, offset + got, wanted)
            finally:
                unwatch()
            raise_deferred()
            if k > wanted:
                fail(ValueError, f"the callback returned {k} bytes at offset {offset + got}: "
                                 f"at most {wanted} were requested")
            got += k
            if k == 0:
                break
        return got

# ---- metadata --------------------------------------------------------------------------------------------------------
class _Short(Exception):
    """The prefix ends before the metadata do."""

@cython.final
cdef class Cursor:
    """A position in a prefix of a file: p[0 : have], which lies at offset `start`."""
    cdef const uint8_t *p
    cdef size_t start, have, at, end     # at: in p; end: of the file, counted from p as well
    cdef bint swapped                    # the file's byte order is not this machine's
    cdef str what                        # what is being read, for messages
    cdef bytes subject                   # and its name, once it is known

    cdef int bad(self, str problem, size_t at) except -1:
        """Raises ValueError that names what is being read, the offset and the problem."""
        subject = self.what if self.subject is None else f"{self.what} {quoted(self.subject)}"
        fail(ValueError, f"{subject} at offset {self.start + at}: {problem}")

    cdef int raise_at(self, object error, size_t at) except -1:
        """Raises an error again, with the offset."""
        raise type(error)(f"{error} (at offset {self.start + at})") from None

    cdef const uint8_t *take(self, size_t n) except NULL:
        """Returns the next n bytes and moves behind them."""
        if n > self.end - self.at:
            self.bad(f"{n} bytes are needed, the file has {self.end - self.at} left", self.at)
        if n > self.have - self.at:
            raise _Short
        self.at += n
        return self.p + self.at - n

    cdef uint64_t number(self, int size) except? 0:
        """Reads an unsigned integer of 4 or 8 bytes."""
        cdef uint8_t raw[8]
        cdef uint32_t n32
        cdef uint64_t n64
        memcpy(raw, self.take(size), size)
        if self.swapped:
            swap(raw, 1, size)
        if size == 4:
            memcpy(&n32, raw, 4)
            return n32
        memcpy(&n64, raw, 8)
        return n64

    cdef bytes text(self, size_t most, str role):
        """Reads a key or a name of at most `most` bytes."""
        cdef size_t at = self.at
        cdef uint64_t n = self.number(8)
        if n == 0:
            self.bad(f"the {role} is empty", at)
        if n > most:
            self.bad(f"the {role} has {n} bytes: at most {most} are allowed", at)
        cdef const uint8_t *s = self.take(n)
        if not valid_utf8(s, n):
            self.bad(f"the {role} is not valid UTF-8", at)
        if memchr(s, 0, n) != NULL:
            self.bad(f"the {role} has a zero byte", at)
        return PyBytes_FromStringAndSize(<const char *>s, <Py_ssize_t>n)

cdef size_t read_header(Cursor c, File f, size_t *n_pairs) except? 0:
    """Reads the header; returns the number of tensors."""
    c.what, c.subject = "header", None
    if c.take(4)[:4] != b"GGUF":
        c.bad("this is not a GGUF file (it does not begin with 'GGUF')", 0)
    f.version = <uint32_t>c.number(4)
    if f.version and not f.version & 0xffff:
        f.swapped = c.swapped = True
        c.at -= 4
        f.version = <uint32_t>c.number(4)
    if f.version not in (2, 3):
        c.bad(f"version {f.version} is not known: need 2 or 3", 4)
    cdef uint64_t n_tensors = c.number(8), n = c.number(8)
    if n_tensors > (c.end - c.at) // MIN_TENSOR:
        c.bad(f"{n_tensors} tensors can't be in the {c.end - c.at} bytes left", 8)
    if n > (c.end - c.at - n_tensors * MIN_TENSOR) // MIN_KV:
        c.bad(f"{n} keys can't be in the {c.end - c.at} bytes left", 16)
    n_pairs[0] = n
    return n_tensors

cdef int read_pair(Cursor c, File f, int64_t index) except -1:
    """Reads a key with its value or array."""
    cdef Pair p = Pair.__new__(Pair)
    cdef size_t at = c.at
    c.what, c.subject = f"key {index}", None
    p.key = c.text(MAX_KEY, "key")
    c.what, c.subject = "key", p.key
    if p.key in f.keys:
        c.bad("there is one with this name already", at)
    p.type, p.n = read_type(c), 1
    if p.type == ARRAY:
        p.array = True
        p.type = read_type(c)
        if p.type == ARRAY:
            c.bad("an array of arrays is not supported", c.at - 4)
        at = c.at
        p.n = c.number(8)
        if p.n > (c.end - c.at) // (8 if p.type == STRING else <size_t>SIZES[p.type]):
            c.bad(f"an array of {p.n} items can't be in the {c.end - c.at} bytes left", at)
    read_items(c, p)
    try:
        f.set_pair(p)
    except ValueError as error:
        c.raise_at(error, at)
    return 0

cdef int read_type(Cursor c) except -1:
    """Reads the type of a value."""
    cdef uint64_t type = c.number(4)
    if type >= <uint64_t>N_TYPES:
        c.bad(f"value type {type} is not known", c.at - 4)
    return <int>type

cdef int read_items(Cursor c, Pair p) except -1:
    """Reads the value, or all items of the array, into p.data, in this machine's byte order."""
    cdef size_t at = c.at, i
    cdef const uint8_t *s
    cdef uint8_t *out
    if p.type == STRING:
        for _ in range(p.n):
            skip_string(c)
    else:
        s = c.take(p.n * <size_t>SIZES[p.type])
        if p.type == BOOLEAN:
            for i in range(p.n):
                if s[i] > 1:
                    c.bad(f"the bool is {s[i]}: need 0 or 1", at + i)
    p.data = PyBytes_FromStringAndSize(<const char *>c.p + at, <Py_ssize_t>(c.at - at))
    if c.swapped:
        out = <uint8_t *>PyBytes_AS_STRING(p.data)
        if p.type == STRING:
            swap_lengths(out, p.n)
        else:
            swap(out, p.n, SIZES[p.type])
    return 0

cdef inline int skip_string(Cursor c) except -1:
    """Checks a string and moves behind it."""
    cdef size_t at = c.at
    cdef uint64_t n
    cdef const uint8_t *s
    n = c.number(8)
    s = c.take(n) if n else NULL
    if not valid_utf8(s, n):
        c.bad("the string is not valid UTF-8", at)
    return 0

cdef int read_tensor(Cursor c, File f, int64_t index, size_t expected) except -1:
    """Reads the description of a tensor, whose data must be at the expected offset."""
    cdef Info t = Info.__new__(Info)
    cdef size_t at = c.at
    cdef uint64_t n
    cdef int d
    c.what, c.subject = f"tensor {index}", None
    t.name = c.text(GGML_MAX_NAME - 1, "name")
    c.what, c.subject = "tensor", t.name
    if t.name in f.names:
        c.bad("there is one with this name already", at)
    at = c.at
    n = c.number(4)
    if n > 4:
        c.bad(f"{n} dimensions: at most 4 are possible", at)
    t.n_dims = <int>n
    for d in range(4):
        at = c.at
        n = c.number(8) if d < t.n_dims else 1
        if n > <uint64_t>1 << 62:
            c.bad(f"dimension {d} of {n} is larger than any file", at)
        t.ne[d] = <int64_t>n
    at = c.at
    n = c.number(4)
    if n >= 1 << 31 or not gg_type_ok(<int>n):
        c.bad(f"tensor type {n} is not known", at)
    t.type = <int>n
    try:
        set_size(t)
    except ValueError as error:
        c.raise_at(error, at)
    at = c.at
    t.offset = c.number(8)
    if t.offset != expected:
        c.bad(f"its data are said to be at {t.offset} in the tensor data: need {expected}", at)
    if not gg_add(t.offset, t.size, &f.data_size) or f.data_size > NOWHERE:
        c.bad("its data end beyond any file", at)
    f.names[t.name] = index
    f.infos.append(t)
    return 0

cdef File read_metadata(Cursor c):
    """Reads all metadata, and finds out where the tensor data are and whether the file has them."""
    cdef File f = File()
    cdef Info t
    cdef size_t n_pairs = 0, n_tensors, i, expected = 0, meta, end = c.start + c.end
    n_tensors = read_header(c, f, &n_pairs)
    for i in range(n_pairs):
        read_pair(c, f, i)
    for i in range(n_tensors):
        read_tensor(c, f, i, expected)
        expected = padded(f.data_size, f.alignment)
    meta = c.start + c.at
    f.data_offset = padded(meta, f.alignment) if n_tensors else meta
    f.data_present = f.data_size <= end - min(end, f.data_offset)
    if n_tensors and not f.data_present and end > f.data_offset:
        for t in f.infos:
            if t.offset + t.size > end - f.data_offset:
                c.what, c.subject = "tensor", t.name
                c.bad(f"its {t.size} bytes of data end beyond the file, which has {end} bytes",
                      f.data_offset + t.offset - c.start)
    f.data_size = expected
    return f

cdef Cursor cursor(const uint8_t *p, Source s, size_t have):
    cdef Cursor c = Cursor()
    c.p, c.start, c.have, c.end = p, s.start, have, s.end - s.start
    return c

cdef File parse(Source s):
    """Reads the metadata of a file, over a prefix of it that grows until it is long enough."""
    cdef size_t want = min(<size_t>FIRST_READ, s.end - s.start), got, have = 0
    cdef uint8_t *p = NULL
    if s.memory != NULL or s.start == s.end:
        return read_metadata(cursor(s.memory, s, s.end - s.start))
    try:
        while True:
            p = <uint8_t *>resized(p, want, 1)
            got = s.fill(p + have, s.start + have, want - have)
            if got < want - have:
                if s.end != NOWHERE and not isinstance(s, CallbackSource):
                    fail(OSError, f"reading at offset {s.start + have + got} failed")
                s.end = s.start + have + got
            have += got
            try:
                return read_metadata(cursor(p, s, have))
            except _Short:
                want = 4 * have if s.end - s.start > 4 * have else s.end - s.start
    finally:
        free(p)

# ---- a ggml context with the tensors ---------------------------------------------------------------------------------
cdef int load_tensors(File f, Source s, object params, const char *fn) except -1:
    """Creates the ggml context that `params` requests, with the tensors and their data."""
    cdef bint no_alloc = params.no_alloc
    if f.infos and not f.data_present and not no_alloc:
        fail(ValueError, "the file has no tensor data: no_alloc must be True")
    if not params.ctx:
        return 0
    cdef size_t each = sizeof(ggml_object) + sizeof(ggml_tensor), n = len(f.infos), size
    cdef bint one_block = f.alignment >= 8          # otherwise tensors may be misaligned for their type
    if no_alloc or f.mapping is not None:
        size = n * each
    elif one_block:
        size = (n + 1) * each + f.data_size
    else:
        size = n * (each + 16) + f.data_size
    handle = ggml_init(_structs.ggml_init_params(size if size > 16 else 16, None, True))
    try:
        make_tensors(f, s, arg_context(handle, fn), no_alloc, one_block)
    except BaseException:
        ggml_free(handle)
        raise
    params.ctx[0] = handle
    return 0

cdef int make_tensors(File f, Source s, ggml_context *ctx, bint no_alloc, bint one_block) except -1:
    """Creates the tensors; copies their data, as one block or each by itself, unless they are mapped."""
    cdef Info info
    cdef ggml_tensor *t
    cdef int64_t n = <int64_t>f.data_size
    cdef bint copy = not no_alloc and f.mapping is None
    if f.mapping is not None:
        keep(ctx, f.mapping)
    if copy and one_block:
        ctx.no_alloc = False
        t = new_tensor(ctx, GGML_TYPE_I8, 1, &n)
        set_name(t, b"GGUF tensor data binary blob", b"")
        f.data = <uint8_t *>t.data
        if f.infos:
            info = f.infos[-1]
            read_data(s, f.data, f.data_offset, info.offset + info.size)
    ctx.no_alloc = one_block or not copy
    for info in f.infos:
        t = new_tensor(ctx, info.type, 4, info.ne)
        set_name(t, info.name, b"")
        if f.data != NULL and not no_alloc:
            t.data = f.data + info.offset
        elif copy:
            read_data(s, <uint8_t *>t.data, f.data_offset + info.offset, info.size)
        if copy and f.swapped:
            engine.byteswap_rows(info.type, t.data, info.size)
        info.data = t.data
    ctx.no_alloc = no_alloc
    return 0

cdef int read_data(Source s, uint8_t *out, size_t offset, size_t n) except -1:
    cdef size_t got = s.fill(out, offset, n) if n else 0
    if got != n:
        fail(ValueError, f"the tensor data end at offset {offset + got}: need {offset + n}")
    return 0

cdef object load(File f, Source s, object params, const char *fn):
    """Loads what `params` requests of a parsed file, and returns the handle."""
    opened(f)
    try:
        load_tensors(f, s, params, fn)
    except BaseException:
        f.close()
        raise
    return HANDLE(f)

# ---- functions -------------------------------------------------------------------------------------------------------
cdef int check_params(object params) except -1:
    if not is_a(params, _structs.gguf_init_params):
        fail(TypeError, f"params is {repr_short(params)}: need gguf_init_params")
    return 0

cdef object read_from(Source s, object params, const char *fn):
    return load(parse(s), s, params, fn)

cdef object open_path(object fname):
    """Opens a regular file; returns it and its size."""
    cdef bytes path = arg_path(fname, b"fname")
    file = paused(open_regular, (os.fsdecode(path) if is_path(fname) else path, function_name()))
    return file, os.fstat(file.fileno()).st_size

def gguf_init_from_file(fname, params):
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
    enter(b"gguf_init_from_file")
    cdef PathSource s = PathSource()
    check_params(params)
    s.file, s.end = open_path(fname)
    try:
        return read_from(s, params, b"gguf_init_from_file")
    finally:
        s.file.close()

def ext_gguf_init_from_file_mmap(fname, params):
    """Maps a GGUF file into memory, so that its tensors use the pages of the file without a copy.

    The operating system reads pages on first access, and processes that map the same file share them. Writing to a
    tensor changes this process's memory only, never the file. The mapping lives as long as the GGUF context, the
    ggml context or a NumPy or DLPack view of a tensor. If another program writes to the file or shortens it meanwhile,
    computes and copies raise RuntimeError, and bytes that are missing read as zeros; replacing it by another file of
    the same name is safe. This function is not part of the C library.

    Args:
        fname: path, as str, bytes or os.PathLike.
        params: gguf_init_params, as in gguf_init_from_file. With no_alloc the tensors get no data, but
            gguf_get_data still gives the address of the mapped data.
    Returns:
        Handle (int) of the new GGUF context. Free it with gguf_free.
    Raises:
        TypeError: fname is not a path, or params is not a gguf_init_params.
        OSError: the file cannot be opened or mapped, or is not a regular file.
        ValueError: the file is not a valid GGUF file, or its data cannot be used in place because it has the other
            byte order or an alignment below 8.
        RuntimeError: another program has written to the file or shortened it in the meantime.
        MemoryError: there is not enough memory for the metadata.
    """
    enter(b"ggml.ext.gguf_init_from_file_mmap")
    cdef Source s = Source()
    cdef File f
    check_params(params)
    file, s.end = open_path(fname)
    try:
        mapping = Mapping()
        if s.end:
            (<Mapping>mapping).region = file_region(file.fileno(), s.end)
            if (<Mapping>mapping).region == NULL:
                fail(OSError, f"{fname!r} can't be mapped")
            s.memory = (<Mapping>mapping).region.base
    finally:
        file.close()
    f = parse(s)
    if s.end:
        enter(b"ggml.ext.gguf_init_from_file_mmap")
        check_file((<Mapping>mapping).region)
    if f.swapped or f.alignment < 8:
        why = "the file has the other byte order" if f.swapped else f"the alignment is {f.alignment}"
        fail(ValueError, f"the data can't be used in place: {why} (see gguf_init_from_file)")
    f.mapping = mapping
    if f.data_present:
        f.data = (<Mapping>mapping).region.base + f.data_offset
    return load(f, s, params, b"ggml.ext.gguf_init_from_file_mmap")

def ext_gguf_use_large_pages(ctx, start, size):
    """Copies tensor data of a mapped file into pages of 2 MiB, at the same addresses.

    Reading much memory takes longer in small pages, whose places a processor has to look up more often: in a virtual
    machine up to twice as long. The copies belong to this process alone; the other pages of the file are still shared
    with other processes. Tensors may be read meanwhile, but not written. This function is not part of the C library.

    Args:
        ctx: GGUF context of ggml.ext.gguf_init_from_file_mmap.
        start: where the bytes begin, an offset in the tensor data.
        size: number of bytes, 0 or more. The large pages that begin in them, and end before the file does, are copied.
    Returns:
        Number of bytes (int) in large pages now. 0 if no such page begins there, and if the system (Linux alone) has
        no large pages or no memory.
    Raises:
        TypeError: ctx is not a handle, or start or size is not an integer.
        ValueError: the bytes lie beyond the tensor data, or the context does not map a file.
        RuntimeError: ctx was freed or is not a GGUF context, or another program has written to the file or shortened
            it.
    """
    cdef File f = arg_gguf(ctx, b"ggml.ext.gguf_use_large_pages")
    cdef Mapping mapping = f.mapping
    cdef size_t first = arg_size(start, b"start"), n = arg_size(size, b"size"), done
    cdef int section
    if mapping is None or f.data == NULL:
        fail(ValueError, "ctx has no tensor data of a mapped file: need one of ggml.ext.gguf_init_from_file_mmap")
    if first > f.data_size or n > f.data_size - first:
        fail(ValueError, f"start is {first} and size is {n}: the tensor data have {f.data_size} bytes")
    check_file(mapping.region)
    section = section_pause()
    with nogil:
        done = enlarge_pages(mapping.region, f.data + first, n)
    section_back(section)
    check_file(mapping.region)
    return done

def gguf_init_from_file_ptr(file, params):
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
    enter(b"gguf_init_from_file_ptr")
    cdef StdioSource s = StdioSource()
    cdef long long at, end
    check_params(params)
    s.file = arg_file(file)
    at = gg_tell(s.file)
    if at < 0 or gg_seek(s.file, 0, SEEK_END):
        fail(OSError, "the file has no position")
    end = gg_tell(s.file)
    s.start, s.end = <size_t>at, <size_t>max(at, end)
    return read_from(s, params, b"gguf_init_from_file_ptr")

def gguf_init_from_buffer(data, size, params):
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
    enter(b"gguf_init_from_buffer")
    cdef Source s = Source()
    cdef void *p
    check_params(params)
    s.end = arg_size(size, b"size")
    arg_buffer(data, b"data", s.end, &p)
    if s.end and (p == NULL or not engine.readable(p, s.end)):
        fail(ValueError, f"data ({<size_t>p:#x}) is not memory of {s.end} bytes")
    s.memory = <const uint8_t *>p
    return read_from(s, params, b"gguf_init_from_buffer")

def gguf_init_from_callback(callback, userdata, max_chunk_read, max_expected_size, params):
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
    enter(b"gguf_init_from_callback")
    cdef CallbackSource s = CallbackSource()
    check_params(params)
    function = as_callback(callback, _structs.gguf_reader_callback_t)
    cdef void *address = arg_callback(function, _structs.gguf_reader_callback_t, b"callback")
    if address == NULL:
        fail(TypeError, "callback is None: need a function")
    s.read = <size_t (*)(void *, void *, size_t, size_t) noexcept>address
    s.userdata = arg_address(userdata, b"userdata")
    s.chunk = arg_size(max_chunk_read, b"max_chunk_read") or NOWHERE
    s.end = min(arg_size(max_expected_size, b"max_expected_size") or NOWHERE, NOWHERE)
    return read_from(s, params, b"gguf_init_from_callback")
