"""GGUF files: keys and tensors, read from files, memory and callbacks, and written.

A file is read over a prefix of it that grows until it holds the metadata, so that nothing is allocated that the file
does not back: every count and length is held against the bytes that are left before it is believed. Values are kept as
the bytes that they have in a file.
"""
import ctypes
import itertools
import operator
import os
import stat
import struct

cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport FILE, SEEK_END, SEEK_SET, fflush, fread, fwrite
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcpy

from .._core cimport (
    GGML_MAX_NAME, arg_address, arg_bool, arg_buffer, arg_callback, arg_context, arg_int, arg_int32, arg_path, arg_size,
    arg_tensor, arg_text, arg_type, buffer_retire, check_data, engine, enter, fail, file_region, gg_add, gg_contiguous,
    gg_mul, gg_region, gg_type_ok, gg_types, ggml_context, ggml_object, ggml_tensor, keep, new_tensor, node_init,
    set_name, where,
)
from .._enums cimport GGML_TYPE_I8
from .. import _constants, _structs
from .._core import as_callback, ggml_free, ggml_init, unpark
from .._system import log

cdef extern from *:
    """
    /* A FILE of glibc begins with a mark; elsewhere nothing is known of it. */
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
    U8 = 0, I8 = 1, U16 = 2, I16 = 3, U32 = 4, I32_ = 5, F32 = 6, BOOLEAN = 7, STRING = 8, ARRAY = 9, U64 = 10, I64 = 11
    F64 = 12, N_TYPES = 13
    MIN_KV = 8 + 1 + 4 + 1  # bytes of the shortest key with its value
    MIN_TENSOR = 8 + 1 + 4 + 4 + 8  # and of the shortest description of a tensor
    MAX_KEY = 65535
    MAX_ALIGNMENT = 1 << 24
    FIRST_READ = 1 << 20

cdef tuple NAMES = (b"u8", b"i8", b"u16", b"i16", b"u32", b"i32", b"f32", b"bool", b"str", b"arr", b"u64", b"i64",
                    b"f64")
cdef int[13] SIZES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]
cdef bytes ALIGNMENT_KEY = b"general.alignment"
cdef size_t NOWHERE = <size_t>1 << 62      # an end that is not known

# ---- what a file holds -----------------------------------------------------------------------------------------------
@cython.final
@cython.no_gc
cdef class Pair:
    """A key and its value or array."""
    cdef bytes key, data                  # data: as in a file, each string with its length before it
    cdef int type                         # of the value or of the items
    cdef bint array
    cdef uint64_t n
    cdef size_t *starts                   # of the strings of an array, once they are asked for

    def __dealloc__(self):
        free(self.starts)

@cython.final
@cython.no_gc
cdef class Info:
    """A tensor of the file."""
    cdef bytes name
    cdef int type, n_dims
    cdef int64_t ne[4]
    cdef size_t offset, size              # in the tensor data
    cdef void *data                       # NULL: not known
    cdef object held                      # what keeps that alive, where it is known

@cython.final
cdef class Mapping:
    """Pages that show a file: as long as contexts or views need them."""
    cdef gg_region *region

    def __dealloc__(self):
        if self.region != NULL:
            buffer_retire(self.region)

@cython.final
cdef class File:
    cdef uint32_t version
    cdef size_t alignment, data_offset, data_size
    cdef bint swapped                     # its bytes are in the other order than this machine's
    cdef bint data_present
    cdef list pairs, infos
    cdef dict keys, names                 # index by key and by name
    cdef uint8_t *data                    # of the tensors, where it is in memory as one piece
    cdef Mapping mapping

    def __cinit__(self):
        self.version, self.alignment = 3, 32
        self.pairs, self.infos, self.keys, self.names = [], [], {}, {}

    cdef int set_pair(self, Pair p) except -1:
        """Enters a pair at the end, in place of one with the same key."""
        self.remove(p.key)
        self.keys[p.key] = len(self.pairs)
        self.pairs.append(p)
        if p.key == ALIGNMENT_KEY:
            self.alignment = alignment_of(p)
            self.place()
        return 0

    cdef int64_t remove(self, bytes key) except -2:
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
            self.alignment = 32
            self.place()
        return at

    cdef int place(self, int64_t first=0) except -1:
        """Gives the tensors from `first` on their offsets, one behind the other."""
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
        cdef int64_t i = arg_int(key_id, b"key_id")
        if not 0 <= i < len(self.pairs):
            fail(ValueError, f"key_id is {i}: there are {len(self.pairs)} keys")
        return self.pairs[i]

    cdef Info tensor(self, object tensor_id):
        cdef int64_t i = arg_int(tensor_id, b"tensor_id")
        if not 0 <= i < len(self.infos):
            fail(ValueError, f"tensor_id is {i}: there are {len(self.infos)} tensors")
        return self.infos[i]

    cdef Info find_tensor(self, object name):
        cdef bytes text = arg_text(name, b"name")
        if text not in self.names:
            fail(ValueError, f"no tensor is named {quoted(text)}")
        return self.infos[self.names[text]]

cdef inline size_t padded(size_t n, size_t alignment) noexcept:
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
    name = (<bytes>NAMES[p.type]).decode()
    return f"an array of {name}" if p.array else name

cdef int size_of(Info t) except -1:
    """Computes t.size; ValueError where the shape does not suit the type or any memory."""
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

# ---- UTF-8 -----------------------------------------------------------------------------------------------------------
cdef bint valid_utf8(const uint8_t *s, size_t n) noexcept nogil:
    """No overlong forms, no surrogates, nothing above U+10FFFF."""
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

cdef int check_text(bytes text, str what) except -1:
    if not valid_utf8(<const uint8_t *>PyBytes_AS_STRING(text), len(text)):
        fail(ValueError, f"{what} is not valid UTF-8")
    return 0

# ---- byte order ------------------------------------------------------------------------------------------------------
cdef void swap(uint8_t *p, size_t n, int size) noexcept nogil:
    """Reverses each of n items of `size` bytes."""
    cdef size_t i
    cdef int k
    cdef uint8_t c
    for i in range(n):
        for k in range(size // 2):
            c = p[k]
            p[k] = p[size - 1 - k]
            p[size - 1 - k] = c
        p += size

# ---- where bytes come from -------------------------------------------------------------------------------------------
cdef class Source:
    """A file in some form. Offsets count from its beginning; the GGUF data begin at `start`."""
    cdef size_t start, end                # end: NOWHERE while it is not known
    cdef const uint8_t *memory            # all of it from `start` on, or NULL: see fill

    cdef size_t fill(self, uint8_t *out, size_t offset, size_t n) except? 0:
        """Reads up to n bytes; fewer at the end only."""
        memcpy(out, self.memory + (offset - self.start), min(n, self.end - offset))
        return min(n, self.end - offset)

cdef class PathSource(Source):
    cdef object file

    cdef size_t fill(self, uint8_t *out, size_t offset, size_t n) except? 0:
        cdef size_t got = 0
        self.file.seek(offset)
        while got < n:
            k = self.file.readinto(PyMemoryView_FromMemory(<char *>out + got, <Py_ssize_t>(n - got), PyBUF_WRITE))
            if not k:
                break
            got += <size_t>k
        return got

cdef class StdioSource(Source):
    cdef FILE *file

    cdef size_t fill(self, uint8_t *out, size_t offset, size_t n) except? 0:
        with nogil:
            if gg_seek(self.file, <long long>offset, SEEK_SET):
                n = 0
            n = fread(out, 1, n, self.file)
        return n

cdef class CallbackSource(Source):
    cdef size_t (*read)(void *userdata, void *output, size_t offset, size_t size) noexcept
    cdef void *userdata
    cdef size_t chunk

    cdef size_t fill(self, uint8_t *out, size_t offset, size_t n) except? 0:
        cdef size_t got = 0, k, asked
        while got < n:
            asked = min(n - got, self.chunk)
            k = self.read(self.userdata, out + got, offset + got, asked)
            unpark()
            if k > asked:
                fail(ValueError, f"the callback says it read {k} bytes at offset {offset + got}: "
                                 f"{asked} were asked for")
            got += k
            if k == 0:
                break
        return got

# ---- reading ---------------------------------------------------------------------------------------------------------
class _Short(Exception):
    """The prefix ends before the metadata does."""

@cython.final
cdef class Reader:
    """Reads the metadata from a prefix of a file: p[0 : have], which lies at offset `start`."""
    cdef const uint8_t *p
    cdef size_t start, have, at, end     # at: in p; end: of the file, counted from p too
    cdef str what                        # is being read, for messages
    cdef bytes subject
    cdef File f

    cdef object bad(self, str problem, size_t at):
        subject = self.what if self.subject is None else f"{self.what} {quoted(self.subject)}"
        fail(ValueError, f"{subject} at offset {self.start + at}: {problem}")

    cdef object place(self, object error, size_t at):
        """Raises it again, with the place."""
        raise type(error)(f"{error} (at offset {self.start + at})") from None

    cdef const uint8_t *take(self, size_t n) except NULL:
        """The next n bytes."""
        if n > self.end - self.at:
            self.bad(f"{n} bytes are needed, the file has {self.end - self.at} left", self.at)
        if n > self.have - self.at:
            raise _Short
        self.at += n
        return self.p + self.at - n

    cdef uint64_t number(self, int size) except? 0:
        """An unsigned integer."""
        cdef uint8_t raw[8]
        cdef uint32_t n32
        cdef uint64_t n64
        memcpy(raw, self.take(size), size)
        if self.f.swapped:
            swap(raw, 1, size)
        if size == 4:
            memcpy(&n32, raw, 4)
            return n32
        memcpy(&n64, raw, 8)
        return n64

    cdef bytes text(self, size_t most, str role):
        """A key or a name."""
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

    cdef size_t header(self, size_t *n_pairs) except? 0:
        """Returns the number of tensors."""
        self.what, self.subject = "header", None
        if self.take(4)[:4] != b"GGUF":
            self.bad("this is no GGUF file (it does not begin with 'GGUF')", 0)
        self.f.version = <uint32_t>self.number(4)
        if self.f.version and not self.f.version & 0xffff:
            self.f.swapped = True
            self.at -= 4
            self.f.version = <uint32_t>self.number(4)
        if self.f.version not in (2, 3):
            self.bad(f"version {self.f.version} is not known: need 2 or 3", 4)
        cdef uint64_t n_tensors = self.number(8), n = self.number(8)
        if n_tensors > (self.end - self.at) // MIN_TENSOR:
            self.bad(f"{n_tensors} tensors can't be in the {self.end - self.at} bytes left", 8)
        if n > (self.end - self.at - n_tensors * MIN_TENSOR) // MIN_KV:
            self.bad(f"{n} keys can't be in the {self.end - self.at} bytes left", 16)
        n_pairs[0] = n
        return n_tensors

    cdef int pair(self, int64_t index) except -1:
        cdef Pair p = Pair.__new__(Pair)
        cdef size_t at = self.at
        self.what, self.subject = f"key {index}", None
        p.key = self.text(MAX_KEY, "key")
        self.what, self.subject = "key", p.key
        if p.key in self.f.keys:
            self.bad("there is one with this name already", at)
        p.type, p.n = self.value_type(), 1
        if p.type == ARRAY:
            p.array = True
            p.type = self.value_type()
            if p.type == ARRAY:
                self.bad("an array of arrays is not supported", self.at - 4)
            at = self.at
            p.n = self.number(8)
            if p.n > (self.end - self.at) // (8 if p.type == STRING else <size_t>SIZES[p.type]):
                self.bad(f"an array of {p.n} items can't be in the {self.end - self.at} bytes left", at)
        self.items(p)
        try:
            self.f.set_pair(p)
        except ValueError as error:
            self.place(error, at)
        return 0

    cdef int value_type(self) except -1:
        cdef uint64_t type = self.number(4)
        if type >= N_TYPES:
            self.bad(f"value type {type} is not known", self.at - 4)
        return <int>type

    cdef int items(self, Pair p) except -1:
        cdef size_t at = self.at, i
        cdef const uint8_t *s
        cdef uint8_t *out
        if p.type == STRING:
            for i in range(p.n):
                self.string()
        else:
            s = self.take(p.n * <size_t>SIZES[p.type])
            if p.type == BOOLEAN:
                for i in range(p.n):
                    if s[i] > 1:
                        self.bad(f"the bool is {s[i]}: need 0 or 1", at + i)
        p.data = PyBytes_FromStringAndSize(<const char *>self.p + at, <Py_ssize_t>(self.at - at))
        if self.f.swapped:
            out = <uint8_t *>PyBytes_AS_STRING(p.data)
            if p.type == STRING:
                swap_lengths(out, p.n)
            else:
                swap(out, p.n, SIZES[p.type])
        return 0

    cdef inline int string(self) except -1:
        cdef size_t at = self.at
        cdef uint64_t n
        cdef const uint8_t *s
        n = self.number(8)
        s = self.take(n) if n else NULL
        if not valid_utf8(s, n):
            self.bad("the string is not valid UTF-8", at)
        return 0

    cdef int tensor(self, int64_t index, size_t expected) except -1:
        cdef Info t = Info.__new__(Info)
        cdef size_t at = self.at
        cdef uint64_t n
        cdef int d
        self.what, self.subject = f"tensor {index}", None
        t.name = self.text(GGML_MAX_NAME - 1, "name")
        self.what, self.subject = "tensor", t.name
        if t.name in self.f.names:
            self.bad("there is one with this name already", at)
        at = self.at
        n = self.number(4)
        if n > 4:
            self.bad(f"{n} dimensions: at most 4 are possible", at)
        t.n_dims = <int>n
        for d in range(4):
            at = self.at
            n = self.number(8) if d < t.n_dims else 1
            if n > <uint64_t>1 << 62:
                self.bad(f"dimension {d} of {n} is larger than any file", at)
            t.ne[d] = <int64_t>n
        at = self.at
        n = self.number(4)
        if n >= 1 << 31 or not gg_type_ok(<int>n):
            self.bad(f"tensor type {n} is not known", at)
        t.type = <int>n
        try:
            size_of(t)
        except ValueError as error:
            self.place(error, at)
        at = self.at
        t.offset = self.number(8)
        if t.offset != expected:
            self.bad(f"its data are said to be at {t.offset} in the tensor data: need {expected}", at)
        if not gg_add(t.offset, t.size, &self.f.data_size) or self.f.data_size > NOWHERE:
            self.bad("its data end beyond any file", at)
        self.f.names[t.name] = index
        self.f.infos.append(t)
        return 0

    cdef File run(self):
        """All metadata; then where the tensor data are."""
        cdef size_t n_pairs, n_tensors, i, expected = 0, meta
        cdef Info t
        self.f = File()
        n_tensors = self.header(&n_pairs)
        for i in range(n_pairs):
            self.pair(i)
        for i in range(n_tensors):
            self.tensor(i, expected)
            expected = padded(self.f.data_size, self.f.alignment)
        meta = self.start + self.at
        self.f.data_offset = padded(meta, self.f.alignment) if n_tensors else meta
        cdef size_t end = self.start + self.end
        self.f.data_present = self.f.data_size <= end - min(end, self.f.data_offset)
        if n_tensors and not self.f.data_present and end > self.f.data_offset:
            for t in self.f.infos:
                if t.offset + t.size > end - self.f.data_offset:
                    self.what, self.subject = "tensor", t.name
                    self.bad(f"its {t.size} bytes of data end beyond the file, which has {end} bytes",
                             self.f.data_offset + t.offset - self.start)
        self.f.data_size = expected
        return self.f

cdef void swap_lengths(uint8_t *p, uint64_t n) noexcept nogil:
    cdef uint64_t length
    while n:
        swap(p, 1, 8)
        memcpy(&length, p, 8)
        p += 8 + length
        n -= 1

cdef File parse(Source s):
    cdef Reader r
    cdef size_t want = min(<size_t>FIRST_READ, s.end - s.start), got, have = 0
    cdef uint8_t *old
    cdef uint8_t *p = NULL
    if s.memory != NULL or s.start == s.end:
        r = Reader()
        r.p, r.start, r.have, r.end = s.memory, s.start, s.end - s.start, s.end - s.start
        return r.run()
    try:
        while True:
            old, p = p, <uint8_t *>malloc(want)
            if p == NULL:
                p = old
                raise MemoryError(f"{want} bytes of metadata")
            if old != NULL:
                memcpy(p, old, have)
                free(old)
            got = s.fill(p + have, s.start + have, want - have)
            if got < want - have:
                if s.end != NOWHERE and not isinstance(s, CallbackSource):
                    fail(OSError, f"reading at offset {s.start + have + got} failed")
                s.end = s.start + have + got
            have += got
            r = Reader()
            r.p, r.start, r.have, r.end = p, s.start, have, s.end - s.start
            try:
                return r.run()
            except _Short:
                want = 4 * have if s.end - s.start > 4 * have else s.end - s.start
    finally:
        free(p)

# ---- a context with the tensors --------------------------------------------------------------------------------------
cdef int load(File f, Source s, object params, const char *fn) except -1:
    """What `params` asks for: a ggml context with the tensors, and their data."""
    cdef bint no_alloc = params.no_alloc
    if f.infos and not f.data_present and not no_alloc:
        fail(ValueError, "the file has no tensor data: no_alloc must be True")
    if not params.ctx:
        return 0
    cdef size_t each = sizeof(ggml_object) + sizeof(ggml_tensor), n = len(f.infos), size
    cdef bint one = f.alignment >= 8                # else tensors may lie where their type can't
    if no_alloc or f.mapping is not None:
        size = n * each
    elif one:
        size = (n + 1) * each + f.data_size
    else:
        size = n * (each + 16) + f.data_size
    handle = ggml_init(_structs.ggml_init_params(size if size > 16 else 16, None, True))
    try:
        make_tensors(f, s, arg_context(handle, fn), no_alloc, one)
    except BaseException:
        ggml_free(handle)
        raise
    params.ctx[0] = handle
    return 0

cdef int make_tensors(File f, Source s, ggml_context *ctx, bint no_alloc, bint one) except -1:
    cdef Info info
    cdef ggml_tensor *t
    cdef int64_t n = <int64_t>f.data_size
    cdef bint copy = not no_alloc and f.mapping is None
    if f.mapping is not None:
        keep(ctx, f.mapping)
    if copy and one:
        ctx.no_alloc = False
        t = new_tensor(ctx, GGML_TYPE_I8, 1, &n)
        set_name(t, b"GGUF tensor data binary blob", b"")
        f.data = <uint8_t *>t.data
        if f.infos:
            info = f.infos[-1]
            read_data(s, f.data, f.data_offset, info.offset + info.size)
    ctx.no_alloc = one or not copy
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

# ---- contexts --------------------------------------------------------------------------------------------------------
cdef dict live = {}                                        # by handle
cdef object handles = itertools.count(0x67670010, 0x10)    # never given twice

cdef object opened(File f):
    handle = next(handles)
    live[handle] = f
    return handle

cdef File X(object ctx, const char *fn):
    enter(fn)
    if isinstance(ctx, ctypes.c_void_p):
        ctx = ctx.value
    found = live.get(ctx) if isinstance(ctx, int) else None
    if found is None:
        if ctx is None or not isinstance(ctx, int):
            fail(TypeError, f"ctx is {ctx!r}: need a GGUF context")
        fail(RuntimeError, f"ctx ({ctx}) is no live GGUF context: freed, or never made")
    return found

cdef object checked(object params):
    if not isinstance(params, _structs.gguf_init_params):
        fail(TypeError, f"params is {params!r}: need gguf_init_params")
    return params

cdef object read_from(Source s, object params, const char *fn):
    cdef File f = parse(s)
    load(f, s, params, fn)
    return opened(f)

cdef object open_path(object fname):
    """An open file and its size."""
    name = os.fspath(fname if isinstance(fname, (str, os.PathLike)) else arg_text(fname, b"fname"))
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise OSError(0, "no regular file")
        file = open(name, "rb", buffering=0)
    except OSError as error:
        raise type(error)(error.errno, f"{where()}: {error.strerror}", name) from None
    return file, os.fstat(file.fileno()).st_size

def gguf_init_empty():
    """Creates a GGUF context without keys and tensors, to be filled and written.

    Its format version is 3 and its alignment 32 bytes, until a key "general.alignment" is set.

    Returns:
        Handle (int) of the new GGUF context. Free it with gguf_free.
    """
    return opened(File())

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
        TypeError: fname is no path, or params is not a gguf_init_params.
        OSError: the file cannot be opened or read, or is not a regular file.
        ValueError: the file is not a valid GGUF file. The message names the key or tensor and the offset in the
            file.
        MemoryError: there is not enough memory for the metadata or the tensor data.
    See also:
        gguf_init_from_file_mmap, which does not copy the tensor data.
    """
    enter(b"gguf_init_from_file")
    cdef PathSource s = PathSource()
    checked(params)
    s.file, s.end = open_path(fname)
    with s.file:
        return read_from(s, params, b"gguf_init_from_file")

def gguf_init_from_file_mmap(fname, params):
    """Maps a GGUF file into memory, so that its tensors use the pages of the file without a copy.

    The operating system reads pages on first access, and processes that map the same file share them. Writing to a
    tensor changes this process's memory only, never the file. The mapping lives as long as the GGUF context, the
    ggml context or a NumPy or DLPack view of a tensor. The file must not be truncated in the meantime; replacing it
    by another file of the same name is safe. This function is not part of the C library.

    Args:
        fname: path, as str, bytes or os.PathLike.
        params: gguf_init_params, as in gguf_init_from_file. With no_alloc the tensors get no data, but
            gguf_get_data still gives the address of the mapped data.
    Returns:
        Handle (int) of the new GGUF context. Free it with gguf_free.
    Raises:
        TypeError: fname is no path, or params is not a gguf_init_params.
        OSError: the file cannot be opened or mapped, or is not a regular file.
        ValueError: the file is not a valid GGUF file, or its data cannot be used in place because it has the other
            byte order or an alignment below 8.
        MemoryError: there is not enough memory for the metadata.
    """
    enter(b"gguf_init_from_file_mmap")
    cdef Source s = Source()
    cdef File f
    checked(params)
    file, s.end = open_path(fname)
    with file:
        mapping = Mapping()
        if s.end:
            (<Mapping>mapping).region = file_region(file.fileno(), s.end)
            if (<Mapping>mapping).region == NULL:
                fail(OSError, f"{fname!r} can't be mapped")
            s.memory = (<Mapping>mapping).region.base
    f = parse(s)
    if f.swapped or f.alignment < 8:
        why = "their byte order is the other one" if f.swapped else f"the alignment is {f.alignment}"
        fail(ValueError, f"the data can't be used in place: {why} (see gguf_init_from_file)")
    f.mapping = mapping
    if f.data_present:
        f.data = (<Mapping>mapping).region.base + f.data_offset
    load(f, s, params, b"gguf_init_from_file_mmap")
    return opened(f)

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
    checked(params)
    s.file = stdio(file)
    at = gg_tell(s.file)
    if at < 0 or gg_seek(s.file, 0, SEEK_END):
        fail(OSError, "the file has no position")
    end = gg_tell(s.file)
    s.start, s.end = <size_t>at, <size_t>max(at, end)
    return read_from(s, params, b"gguf_init_from_file_ptr")

cdef FILE *stdio(object file) except NULL:
    cdef FILE *f = <FILE *>arg_address(file, b"file")
    if f == NULL:
        fail(TypeError, "file is None: need a C FILE (see ggml_fopen)")
    if not engine.readable(f, 64) or not gg_may_be_file(f):
        fail(ValueError, f"file ({<size_t>f:#x}) is no C FILE")
    return f

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
    checked(params)
    s.end = arg_size(size, b"size")
    arg_buffer(data, b"data", s.end, &p)
    if s.end and (p == NULL or not engine.readable(p, s.end)):
        fail(ValueError, f"data ({<size_t>p:#x}) is no memory of {s.end} bytes")
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
    checked(params)
    function = as_callback(callback, _structs.gguf_reader_callback_t)
    cdef void *address = arg_callback(function, _structs.gguf_reader_callback_t, b"callback")
    if address == NULL:
        fail(TypeError, "callback is None: need a function")
    s.read = <size_t (*)(void *, void *, size_t, size_t) noexcept>address
    s.userdata = arg_address(userdata, b"userdata")
    s.chunk = arg_size(max_chunk_read, b"max_chunk_read") or NOWHERE
    s.end = min(arg_size(max_expected_size, b"max_expected_size") or NOWHERE, NOWHERE)
    return read_from(s, params, b"gguf_init_from_callback")

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
        X(ctx, b"gguf_free")
        del live[ctx.value if isinstance(ctx, ctypes.c_void_p) else ctx]

# ---- questions -------------------------------------------------------------------------------------------------------
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
    return NAMES[k] if 0 <= k < N_TYPES else None

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
    return X(ctx, b"gguf_get_version").version

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
    return X(ctx, b"gguf_get_alignment").alignment

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
    return X(ctx, b"gguf_get_data_offset").data_offset

def gguf_get_data(ctx):
    """Gives the address of the tensor data that were read or mapped as one block.

    Tensor i begins gguf_get_tensor_offset(ctx, i) bytes after it. The block belongs to the ggml context that was
    created with the file, or to the mapping of gguf_init_from_file_mmap.

    Args:
        ctx: GGUF context.
    Returns:
        Address (int). None if no data were read, if the file's alignment is below 8, or if the memory was freed.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed, or is not a GGUF context.
    """
    cdef File f = X(ctx, b"gguf_get_data")
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
    return len(X(ctx, b"gguf_get_n_kv").pairs)

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
    cdef File f = X(ctx, b"gguf_find_key")
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
    return X(ctx, b"gguf_get_key").pair(key_id).key

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
    cdef Pair p = X(ctx, b"gguf_get_kv_type").pair(key_id)
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
    cdef Pair p = X(ctx, b"gguf_get_arr_type").pair(key_id)
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
    return X(ctx, b"gguf_get_arr_n").pair(key_id).n

cdef bytes plain(Pair p, int type):
    """The bytes of a single value; type: the one that it must have, -1: any but a string."""
    if p.n != 1 or (p.type != type if type >= 0 else p.type == STRING):
        wanted = (<bytes>NAMES[type]).decode() if type >= 0 else "a value of fixed size"
        fail(ValueError, f"key {quoted(p.key)} is {type_text(p)}: need {wanted}")
    return p.data

cdef object string_at(Pair p, size_t i):
    cdef size_t k, at = 0
    cdef uint64_t n
    cdef const char *data = PyBytes_AS_STRING(p.data)
    if p.starts == NULL and p.n > 1:
        p.starts = <size_t *>malloc(p.n * sizeof(size_t))
        if p.starts == NULL:
            raise MemoryError()
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
    cdef Pair p = X(ctx, b"gguf_get_val_str").pair(key_id)
    plain(p, STRING)
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
    cdef Pair p = X(ctx, b"gguf_get_arr_str").pair(key_id)
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
    cdef bytes data = plain(X(ctx, b"gguf_get_val_data").pair(key_id), -1)
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
    cdef Pair p = X(ctx, b"gguf_get_arr_data").pair(key_id)
    if p.type == STRING:
        fail(ValueError, f"key {quoted(p.key)} is {type_text(p)}: need an array of values of fixed size")
    return <size_t>PyBytes_AS_STRING(p.data) if p.n else None

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
    return len(X(ctx, b"gguf_get_n_tensors").infos)

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
    cdef File f = X(ctx, b"gguf_find_tensor")
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
    return X(ctx, b"gguf_get_tensor_offset").tensor(tensor_id).offset

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
    return X(ctx, b"gguf_get_tensor_name").tensor(tensor_id).name

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
    return X(ctx, b"gguf_get_tensor_type").tensor(tensor_id).type

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
    return X(ctx, b"gguf_get_tensor_size").tensor(tensor_id).size

def gguf_get_tensor_shape(ctx, tensor_id):
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
    cdef Info t = X(ctx, b"gguf_get_tensor_shape").tensor(tensor_id)
    return tuple([t.ne[i] for i in range(t.n_dims)])

# ---- changes ---------------------------------------------------------------------------------------------------------
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

cdef tuple FORMATS = ("=B", "=b", "=H", "=h", "=I", "=i", "=f", "=?", None, None, "=Q", "=q", "=d")

cdef bytes value_bytes(int type, object val):
    if isinstance(val, ctypes.c_int.__mro__[1]):
        val = val.value
    cdef float single
    try:
        if type == F32:
            single = <float><double>val
            return PyBytes_FromStringAndSize(<char *>&single, 4)
        return struct.pack(FORMATS[type], val if type == BOOLEAN or type == F64 else operator.index(val))
    except TypeError:
        fail(TypeError, f"val is {val!r}: need a number")
    except struct.error:
        fail(ValueError, f"val is {val!r}: it does not fit into {(<bytes>NAMES[type]).decode()}")

cdef object _getter(int type):
    cdef bytes kind = NAMES[type], name = b"gguf_get_val_" + kind
    form = struct.Struct(FORMATS[type])
    def get(ctx, key_id):
        return form.unpack(plain(X(ctx, name).pair(key_id), type))[0]
    return named_function(get, name, f"The value of a key of type {kind.decode()}; ValueError where it has another.")

cdef object _setter(int type):
    cdef bytes kind = NAMES[type], name = b"gguf_set_val_" + kind
    def set(ctx, key, val):
        cdef File f = X(ctx, name)
        f.set_pair(new_pair(key, type, False, 1, value_bytes(type, val)))
    return named_function(set, name, f"Sets a key to a value of type {kind.decode()}; it becomes the last one.")

cdef object named_function(object function, bytes name, str text):
    function.__name__ = function.__qualname__ = name.decode()
    function.__doc__ = text
    return function

for _type in range(N_TYPES):
    if _type not in (STRING, ARRAY):
        for _function in (_getter(_type), _setter(_type)):
            globals()[_function.__name__] = _function

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
    cdef File f = X(ctx, b"gguf_set_val_str")
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
    cdef File f = X(ctx, b"gguf_set_arr_data")
    cdef int k = arg_int32(type, b"type")
    cdef size_t count = arg_size(n, b"n"), size
    cdef void *p
    if not 0 <= k < N_TYPES or k in (STRING, ARRAY):
        fail(ValueError, f"type is {k}: need the type of a value of fixed size")
    if not gg_mul(count, <size_t>SIZES[k], &size) or size > NOWHERE:
        fail(ValueError, f"n is {count}: larger than any memory")
    arg_buffer(data, b"data", size, &p)
    if size and (p == NULL or not engine.readable(p, size)):
        fail(ValueError, f"data ({<size_t>p:#x}) is no memory of {size} bytes")
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
    cdef File f = X(ctx, b"gguf_set_arr_str")
    cdef size_t count = arg_size(n, b"n")
    if not isinstance(data, (list, tuple, ctypes.Array, ctypes._Pointer)) or (count and not data):
        fail(TypeError, f"data is {data!r}: need {count} strings, as a list, a ctypes array or a pointer")
    if hasattr(data, "__len__") and <size_t>len(data) < count:
        fail(ValueError, f"n is {count}: data has {len(data)} strings")
    if isinstance(data, ctypes._Pointer) and not engine.readable(<void *><size_t>ctypes.addressof(data.contents), count * sizeof(void *)):
        fail(ValueError, f"data is no array of {count} strings")
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
    cdef File f = X(ctx, b"gguf_set_kv"), g = X(src, b"gguf_set_kv")
    for p in list(g.pairs):
        f.set_pair(p)                      # pairs do not change once they are made

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
    cdef File f = X(ctx, b"gguf_remove_key")
    return f.remove(arg_text(key, b"key"))

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
    cdef File f = X(ctx, b"gguf_add_tensor")
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
    size_of(info)
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
    cdef File f = X(ctx, b"gguf_set_tensor_type")
    cdef Info t = f.find_tensor(name)
    cdef int before = t.type
    t.type = arg_type(type, b"type")
    if t.type == before:
        return
    try:
        size_of(t)
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
    cdef File f = X(ctx, b"gguf_set_tensor_data")
    cdef Info t = f.find_tensor(name)
    cdef void *p
    arg_buffer(data, b"data", t.size, &p)
    if t.size and p == NULL:
        fail(TypeError, f"data is None: need {t.size} bytes")
    t.data, t.held = p, data

# ---- writing ---------------------------------------------------------------------------------------------------------
cdef bytes metadata(File f):
    """Header, keys and descriptions of tensors, padded."""
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
    """Its data are there."""
    cdef ggml_tensor d
    cdef int i
    if t.size == 0:
        return 0
    if t.data == NULL:
        fail(ValueError, f"tensor {quoted(t.name)} has no data (see gguf_set_tensor_data)")
    node_init(&d, 0, t.type, t.ne[0], t.ne[1], t.ne[2], t.ne[3])
    d.nb[0] = <size_t>gg_types[t.type].bytes
    for i in range(1, 4):
        d.nb[i] = d.nb[i - 1] * <size_t>(t.ne[i - 1] // gg_types[t.type].blck if i == 1 else t.ne[i - 1])
    d.data = t.data
    set_name(&d, t.name, b"")
    check_data(&d, "tensor")
    return 0

cdef int write_to(File f, object write, bint only_meta) except -1:
    """write: takes bytes or a memoryview."""
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
    return len(metadata(X(ctx, b"gguf_get_meta_size")))

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
    cdef bytes meta = metadata(X(ctx, b"gguf_get_meta_data"))
    cdef void *p
    arg_buffer(data, b"data", len(meta), &p)
    if p == NULL or not engine.readable(p, len(meta)):
        fail(ValueError, f"data ({<size_t>p:#x}) is no memory of {len(meta)} bytes")
    memcpy(p, PyBytes_AS_STRING(meta), len(meta))

def _replacing(fname):
    """Where to write, and what to put in its place then: a file is exchanged once the new one is complete."""
    path = os.path.realpath(os.fsdecode(fname))
    if os.path.lexists(path) and not os.path.isfile(path):
        return path, None                   # a device or a pipe
    return f"{path}.{os.getpid():x}-{next(handles):x}.tmp", path

def _write_file(fname, write):
    """Calls write(function that takes bytes) with a new file, which replaces `fname` when it is complete."""
    place, final = _replacing(fname)
    try:
        with open(place, "wb", buffering=0) as file:
            write(lambda data: _write_all(file, data))
        if final is not None:
            if os.path.exists(final):
                os.chmod(place, stat.S_IMODE(os.stat(final).st_mode))
            os.replace(place, final)
    except BaseException:
        if final is not None and os.path.exists(place):
            os.unlink(place)
        raise

def _write_all(file, data):
    view = memoryview(data)
    while len(view):                        # one call takes 2 GiB at most
        view = view[file.write(view):]

def gguf_write_to_file(ctx, fname, only_meta):
    """Writes a GGUF context to a file.

    The bytes go to a temporary file beside it, which replaces a file of that name once it is complete, so that an
    interrupted call never leaves half a file. Devices and pipes are written directly.

    Args:
        ctx: GGUF context.
        fname: path, as str, bytes or os.PathLike.
        only_meta: True to write the metadata without the tensor data.
    Returns:
        True if the file was written. False if the operating system reported an error, which is logged (see
        ggml_log_set).
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a tensor has no data, or its data reach beyond their memory (unless only_meta).
        RuntimeError: ctx or the data of a tensor were freed.
    """
    cdef File f = X(ctx, b"gguf_write_to_file")
    cdef bint meta = arg_bool(only_meta, b"only_meta")
    name = arg_path(fname, b"fname")
    try:
        _write_file(name, lambda write: write_to(f, write, meta))
    except OSError as error:
        log(_constants.GGML_LOG_LEVEL_ERROR, f"gguf_write_to_file: {error.strerror}: {fname!r}\n")
        return False
    return True

cdef class Stdio:
    cdef FILE *file

    def write(self, data):
        cdef const uint8_t[::1] view = data
        cdef size_t n = <size_t>view.shape[0], done = 0
        if n:
            with nogil:
                done = fwrite(&view[0], 1, n, self.file)
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
    cdef File f = X(ctx, b"gguf_write_to_file_ptr")
    cdef Stdio out = Stdio()
    cdef bint meta = arg_bool(only_meta, b"only_meta")
    out.file = stdio(file)
    try:
        write_to(f, out.write, meta)
        if fflush(out.file):
            raise OSError("writing failed")
    except OSError as error:
        log(_constants.GGML_LOG_LEVEL_ERROR, f"gguf_write_to_file_ptr: {error}\n")
        return False
    return True
