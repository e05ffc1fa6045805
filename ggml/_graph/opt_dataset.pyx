"""Datasets for training: ggml_opt_dataset_*."""
from array import array

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from .._core cimport (
    arg_buffer, arg_extent, arg_int, arg_size, arg_tensor, arg_type, engine, enter, fail, gg_contiguous, gg_nbytes,
    gg_types, ggml_tensor, tensor_text, wrap_tensor,
)
from .._backend.device cimport write
from .._handle cimport HANDLE, Handle, find, opened, set_title
from .opt_context cimport Context, arg_opt_context, new_context, new_named
from .._core import ggml_free

# ---- random numbers --------------------------------------------------------------------------------------------------
cdef uint64_t draw(uint64_t *state) noexcept:
    """SplitMix64: its state is one number, which a checkpoint can hold."""
    state[0] += <uint64_t>0x9E3779B97F4A7C15
    cdef uint64_t z = state[0]
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)

cdef uint64_t below(uint64_t *state, uint64_t n) except? 0:
    """A uniform number below n: draws below 2^64 mod n are rejected."""
    cdef uint64_t least = (0 - n) % n, x = draw(state)
    while x < least:
        x = draw(state)
    return x % n

# ---- datasets --------------------------------------------------------------------------------------------------------
cdef class Dataset(Handle):
    cdef int64_t shards(self):
        return len(self.order)

    cdef int64_t shards_of(self, size_t bytes, str what) except -1:
        if bytes == 0 or bytes % self.data_bytes:
            fail(ValueError, f"{what} has {bytes} bytes: need a multiple of {self.data_bytes}, "
                             f"a shard of {self.shard} datapoints")
        return <int64_t>(bytes // self.data_bytes)

    cdef int64_t first(self, int64_t ibatch, int64_t n) except -1:
        cdef int64_t batches = self.shards() // n
        if not 0 <= ibatch < batches:
            fail(IndexError, f"ibatch is {ibatch}: the dataset has {batches} batches of {n * self.shard} datapoints")
        return ibatch * n

    cdef const uint8_t *data_at(self, int64_t i):
        return <uint8_t *>self.data.data + <size_t>(<int64_t>self.order[i]) * self.data_bytes

    cdef const uint8_t *labels_at(self, int64_t i):
        return <uint8_t *>self.labels.data + <size_t>(<int64_t>self.order[i]) * self.label_bytes

    cdef int batch(self, ggml_tensor *data, ggml_tensor *labels, int64_t ibatch) except -1:
        cdef int64_t i, n, first
        check_batch(data, self.data, "data_batch")
        n = self.shards_of(gg_nbytes(data), "data_batch " + tensor_text(data))
        first = self.first(ibatch, n)
        if (labels == NULL) != (self.labels == NULL):
            fail(ValueError, "labels_batch is NULL: the dataset has labels" if labels == NULL else
                 f"labels_batch is {tensor_text(labels)}: the dataset has no labels")
        if labels != NULL:
            check_batch(labels, self.labels, "labels_batch")
            if gg_nbytes(labels) != <size_t>n * self.label_bytes:
                fail(ValueError, f"labels_batch is {tensor_text(labels)}, data_batch {tensor_text(data)}: "
                                 f"need {n * self.shard} labels of {self.labels.ne[0]} elements for as many "
                                 f"datapoints of {self.data.ne[0]}")
        for i in range(n):
            write(data, self.data_at(first + i), <size_t>i * self.data_bytes, self.data_bytes)
            if labels != NULL:
                write(labels, self.labels_at(first + i), <size_t>i * self.label_bytes, self.label_bytes)
        return 0

    cdef int shuffle(self, uint64_t *state, int64_t idata) except -1:
        """Fisher-Yates shuffle of the shards with the first idata datapoints; negative: of all shards."""
        cdef int64_t i, j, n = self.shards()
        cdef int64_t[::1] order = self.order
        if idata >= 0:
            if idata > self.ndata or idata % self.shard:
                fail(ValueError, f"idata is {idata}: need a multiple of the {self.shard} datapoints of a shard, "
                                 f"up to {self.ndata}")
            n = idata // self.shard
        for i in range(n - 1, 0, -1):
            j = <int64_t>below(state, <uint64_t>(i + 1))
            order[i], order[j] = order[j], order[i]
        return 0

set_title(Dataset, "dataset")

cdef int check_batch(ggml_tensor *batch, ggml_tensor *whole, str what) except -1:
    if batch.type != whole.type or not gg_contiguous(batch):
        fail(ValueError, f"{what} is {tensor_text(batch)}: need contiguous {gg_types[whole.type].name.decode()}, "
                         "as the dataset has")
    return 0

cdef Dataset arg_dataset(object o):
    return <Dataset>find(o, Dataset, "dataset")

def _order(dataset):
    """The order of a dataset's shards: array of int64."""
    return arg_dataset(dataset).order[:]

def _set_order(dataset, order):
    """Sets the order of a dataset's shards, a permutation as `_order` gives it."""
    cdef Dataset d = arg_dataset(dataset)
    if len(order) != len(d.order):
        fail(ValueError, f"the order is of {len(order)} shards: the dataset has {len(d.order)}")
    d.order = order[:]

def ggml_opt_dataset_init(type_data, type_label, ne_datapoint, ne_label, ndata, ndata_shard):
    """Creates a dataset: memory for datapoints and, if wanted, their labels.

    The values are not initialised: fill ggml_opt_dataset_data and ggml_opt_dataset_labels. Shuffling permutes
    shards, groups of ndata_shard consecutive datapoints.

    Args:
        type_data: GGML_TYPE_* of the datapoints.
        type_label: GGML_TYPE_* of the labels; it must be valid even without labels.
        ne_datapoint: elements per datapoint, 1 or more, a multiple of the type's block.
        ne_label: elements per label, a multiple of the type's block; 0 for a dataset without labels.
        ndata: number of datapoints, 1 or more.
        ndata_shard: datapoints per shard, a divisor of ndata.
    Returns:
        Handle (int) of the dataset. Free it with ggml_opt_dataset_free.
    Raises:
        TypeError: an argument is not an integer.
        ValueError: a type or a number is not allowed.
        MemoryError: there is not enough memory.
    """
    enter(b"ggml_opt_dataset_init")
    cdef int td = arg_type(type_data, b"type_data"), tl = arg_type(type_label, b"type_label")
    cdef int64_t nd = arg_extent(ne_datapoint, b"ne_datapoint"), nl = arg_extent(ne_label, b"ne_label")
    cdef int64_t n = arg_extent(ndata, b"ndata"), shard = arg_extent(ndata_shard, b"ndata_shard")
    if nd == 0 or n == 0:
        fail(ValueError, f"ne_datapoint is {nd}, ndata {n}: need 1 or more")
    if shard == 0 or n % shard:
        fail(ValueError, f"ndata_shard is {shard}: need a divisor of ndata, {n}")
    cdef Dataset d = Dataset()
    d.ctx = new_context(False)
    try:
        d.data = new_named(d.ctx, td, (nd, n), "dataset data")
        d.labels = new_named(d.ctx, tl, (nl, n), "dataset labels") if nl > 0 else NULL
        d.ndata, d.shard = n, shard
        d.order = array("q", range(n // shard))
        d.data_bytes = gg_nbytes(d.data) // <size_t>n * <size_t>shard
        d.label_bytes = gg_nbytes(d.labels) // <size_t>n * <size_t>shard if nl > 0 else 0
        return HANDLE(opened(d))
    except BaseException:
        ggml_free(d.ctx)
        raise

def ggml_opt_dataset_free(dataset):
    """Frees a dataset together with its tensors.

    NumPy and DLPack views of the tensors stay valid.

    Args:
        dataset: handle of the dataset, or None, which does nothing.
    Returns:
        None.
    Raises:
        TypeError: dataset is not a dataset.
        RuntimeError: dataset was freed already.
    """
    enter(b"ggml_opt_dataset_free")
    cdef Dataset d
    if dataset is not None:
        d = arg_dataset(dataset)
        d.close()
        ggml_free(d.ctx)

def ggml_opt_dataset_ndata(dataset):
    """Counts the datapoints of a dataset.

    Args:
        dataset: handle of the dataset.
    Returns:
        Number of datapoints (int).
    Raises:
        TypeError: dataset is not a dataset.
        RuntimeError: dataset was freed.
    """
    enter(b"ggml_opt_dataset_ndata")
    return arg_dataset(dataset).ndata

def ggml_opt_dataset_data(dataset):
    """Gives the tensor that holds all datapoints, to be filled by the caller.

    Shuffling does not move values in it: only the order changes in which batches take the shards.

    Args:
        dataset: handle of the dataset.
    Returns:
        Tensor [ne_datapoint, ndata] of the type given to ggml_opt_dataset_init.
    Raises:
        TypeError: dataset is not a dataset.
        RuntimeError: dataset was freed.
    """
    enter(b"ggml_opt_dataset_data")
    return wrap_tensor(arg_dataset(dataset).data)

def ggml_opt_dataset_labels(dataset):
    """Gives the tensor that holds all labels, in the order of the datapoints.

    Args:
        dataset: handle of the dataset.
    Returns:
        Tensor [ne_label, ndata] of the type given to ggml_opt_dataset_init; a NULL pointer if there are no labels.
    Raises:
        TypeError: dataset is not a dataset.
        RuntimeError: dataset was freed.
    """
    enter(b"ggml_opt_dataset_labels")
    return wrap_tensor(arg_dataset(dataset).labels)

def ggml_opt_dataset_shuffle(opt_ctx, dataset, idata):
    """Shuffles the order in which batches take the shards of a dataset.

    Every permutation of the shards is equally likely (Fisher-Yates). The random numbers are those of the
    optimisation context: two contexts that were made alike shuffle alike, and ggml.ext.opt_save stores their state.

    Args:
        opt_ctx: optimisation context whose random numbers are drawn.
        dataset: handle of the dataset.
        idata: number of datapoints at the front of the current order that are shuffled among themselves, a multiple
            of the shard's size; negative for all.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: idata is greater than the number of datapoints or not a multiple of the shard's size.
        RuntimeError: opt_ctx or dataset was freed.
    """
    enter(b"ggml_opt_dataset_shuffle")
    cdef Context o = arg_opt_context(opt_ctx)
    arg_dataset(dataset).shuffle(&o.random, arg_int(idata, b"idata"))

def ggml_opt_dataset_get_batch(dataset, data_batch, labels_batch, ibatch):
    """Copies one batch of datapoints, and their labels, to tensors.

    The size of data_batch determines how many shards make a batch. Batch i consists of the next shards after those
    of batches 0 to i - 1, in the current (shuffled) order.

    Args:
        dataset: handle of the dataset.
        data_batch: allocated contiguous tensor of the same type as the dataset's datapoints, of any shape whose
            bytes are a whole number of shards, usually [ne_datapoint, n].
        labels_batch: allocated contiguous tensor of the same type as the dataset's labels with one label per
            datapoint, usually [ne_label, n]; None or NULL if the dataset has no labels.
        ibatch: index of the batch, 0 to (number of shards // shards per batch) - 1.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a tensor has another type, size or layout, or labels are given where there are none, or missing.
        IndexError: there is no batch of this index.
        RuntimeError: dataset or a tensor's context was freed.
    """
    enter(b"ggml_opt_dataset_get_batch")
    cdef Dataset d = arg_dataset(dataset)
    cdef ggml_tensor *data = arg_tensor(data_batch, b"data_batch")
    cdef ggml_tensor *labels = arg_tensor(labels_batch, b"labels_batch") if labels_batch else NULL
    d.batch(data, labels, arg_int(ibatch, b"ibatch"))

def ggml_opt_dataset_get_batch_host(dataset, data_batch, nb_data_batch, labels_batch, ibatch):
    """Copies one batch of datapoints, and their labels, to memory.

    It takes the same shards as ggml_opt_dataset_get_batch does for a tensor of nb_data_batch bytes.

    Args:
        dataset: handle of the dataset.
        data_batch: writable memory of nb_data_batch bytes: a buffer such as a NumPy array, a ctypes array or an
            address.
        nb_data_batch: size of the batch's datapoints in bytes, a multiple of a shard's size.
        labels_batch: writable memory for the labels of as many datapoints; None if the dataset has no labels.
        ibatch: index of the batch, 0 to (number of shards // shards per batch) - 1.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a size is not allowed, memory is too small, or labels are given where there are none, or
            missing.
        IndexError: there is no batch of this index.
        RuntimeError: dataset was freed.
    """
    enter(b"ggml_opt_dataset_get_batch_host")
    cdef Dataset d = arg_dataset(dataset)
    cdef size_t size = arg_size(nb_data_batch, b"nb_data_batch")
    cdef int64_t i, n = d.shards_of(size, "data_batch"), first = d.first(arg_int(ibatch, b"ibatch"), n)
    cdef void *data
    cdef void *labels
    arg_buffer(data_batch, b"data_batch", size, &data)
    arg_buffer(labels_batch, b"labels_batch", <size_t>n * d.label_bytes, &labels)
    if data == NULL or not engine.readable(data, size):
        fail(ValueError, f"data_batch is not memory of {size} bytes")
    if (labels == NULL) != (d.labels == NULL):
        fail(ValueError, f"labels_batch: the dataset has {'no ' if d.labels == NULL else ''}labels")
    for i in range(n):
        memcpy(<uint8_t *>data + <size_t>i * d.data_bytes, d.data_at(first + i), d.data_bytes)
        if labels != NULL:
            memcpy(<uint8_t *>labels + <size_t>i * d.label_bytes, d.labels_at(first + i), d.label_bytes)
