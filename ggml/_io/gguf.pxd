# GGUF contexts: the keys and the descriptions of tensors that a file holds.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport FILE

from .._core cimport gg_region
from .._handle cimport Handle

cdef enum:
    MAX_KEY = 65535                         # bytes of a key's name
    MAX_TYPES = 16

cdef int U32, F32, BOOLEAN, STRING, ARRAY, F64, N_TYPES     # GGUF_TYPE_*
cdef int SIZES[MAX_TYPES]                   # bytes of a value by type; 0: they vary
cdef bytes ALIGNMENT_KEY
cdef size_t NOWHERE                         # a size larger than any file; an end that is not known

@cython.final
cdef class Pair:
    cdef bytes key
    cdef bytes data                         # as in a file, in this machine's byte order; strings follow their lengths
    cdef int type                           # of the value, or of the items of an array
    cdef bint array
    cdef uint64_t n                         # items; 1 for a single value
    cdef size_t *starts                     # offsets in `data` of an array's strings; NULL before they are needed

@cython.final
cdef class Info:
    cdef bytes name
    cdef int type, n_dims
    cdef int64_t ne[4]
    cdef size_t offset, size                # in the tensor data
    cdef void *data                         # NULL: not known
    cdef object held                        # what keeps that memory alive, if it is known

@cython.final
cdef class Mapping:
    cdef gg_region *region

@cython.final
cdef class File(Handle):
    cdef uint32_t version
    cdef size_t alignment, data_offset, data_size
    cdef bint swapped                       # the file's byte order is not this machine's
    cdef bint data_present                  # the file has all tensor data
    cdef list pairs, infos
    cdef dict keys, names                   # index by key and by name of the tensor
    cdef uint8_t *data                      # the tensor data, if they are one block of memory
    cdef Mapping mapping
    cdef int set_pair(self, Pair p) except -1
    cdef int64_t remove(self, bytes key) except -2
    cdef int place(self, int64_t first=*) except -1
    cdef Pair pair(self, object key_id)
    cdef Info tensor(self, object tensor_id)
    cdef Info find_tensor(self, object name)

cdef File arg_gguf(object ctx, const char *fn)              # the argument ctx of the public function fn
cdef FILE *arg_file(object file) except NULL                # the argument file: an open C FILE
cdef size_t padded(size_t n, size_t alignment) noexcept     # rounded up
cdef str quoted(bytes text)
cdef size_t alignment_of(Pair p) except 0
cdef str type_text(Pair p)
cdef int set_size(Info t) except -1
cdef bytes value_data(Pair p, int type)
cdef bint valid_utf8(const uint8_t *s, size_t n) noexcept nogil
