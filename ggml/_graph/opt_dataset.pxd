# Datasets: datapoints and labels, which batches take shard by shard.
from libc.stdint cimport int64_t, uint8_t, uint64_t

from .._core cimport ggml_tensor
from .._handle cimport Handle

cdef class Dataset(Handle):
    cdef object ctx
    cdef object order                       # array('q'): the shards in the order in which batches take them
    cdef ggml_tensor *data
    cdef ggml_tensor *labels                # NULL: none
    cdef int64_t ndata, shard               # datapoints; datapoints of a shard
    cdef size_t data_bytes, label_bytes     # of a shard
    cdef int64_t shards(self)
    cdef int64_t shards_of(self, size_t bytes, str what) except -1          # shards in a batch of `bytes` bytes
    cdef int64_t first(self, int64_t ibatch, int64_t n) except -1           # first shard of batch i of n shards each
    cdef const uint8_t *data_at(self, int64_t i)                            # of the i-th shard in the current order
    cdef const uint8_t *labels_at(self, int64_t i)
    cdef int batch(self, ggml_tensor *data, ggml_tensor *labels, int64_t ibatch) except -1
    cdef int shuffle(self, uint64_t *state, int64_t idata) except -1

cdef Dataset arg_dataset(object o)
