"""Training: datasets, the optimisation context, results, epochs, and checkpoints of all that.

A context has one graph: the caller's, its loss, the backward pass and the steps of the optimiser. How far it is computed
(evaluation, gradients, a step) is a matter of its nodes' compute flags, so that it is allocated once.
"""
import ctypes
import math
import os
import sys
import weakref
from array import array
from zlib import crc32

from libc.math cimport isfinite, pow
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from .._core cimport (
    GGML_TENSOR_FLAG_COMPUTE, GGML_TENSOR_FLAG_PARAM, arg_address, arg_bool, arg_buffer, arg_callback, arg_context,
    arg_extent, arg_float, arg_graph, arg_int, arg_int32, arg_path, arg_size, arg_tensor, arg_type, engine, enter, fail,
    gg_contiguous, gg_nbytes, gg_nelements, gg_types, ggml_cgraph, ggml_tensor, name_text, release, tensor_text,
    wrap_tensor,
)
from .._enums cimport GGML_TYPE_F32
from .._backend.device cimport HANDLE, Handle, find, live, read, write
from .. import _constants, _structs
from .alloc import ggml_backend_alloc_ctx_tensors
from .._backend.backend import ggml_backend_buffer_clear, ggml_backend_buffer_free, ggml_backend_tensor_memset
from .._core import ggml_free, ggml_init, unpark
from .._backend.device import _open, _title
from .._ops.elementwise import ggml_scale, ggml_sqr, ggml_sub
from .._ops.optimizer import ggml_opt_step_adamw, ggml_opt_step_sgd
from .._io.gguf import (
    gguf_add_tensor, gguf_find_key, gguf_free, gguf_get_arr_data, gguf_get_arr_n, gguf_get_arr_type, gguf_get_kv_type,
    gguf_get_val_i64, gguf_get_val_str, gguf_get_val_u64, gguf_init_empty, gguf_init_from_file, gguf_set_arr_data,
    gguf_set_val_i64, gguf_set_val_str, gguf_set_val_u64, gguf_write_to_file,
)
from .grad import ggml_build_backward_expand
from .graph import ggml_build_forward_expand, ggml_graph_cpy, ggml_graph_get_grad, ggml_new_graph_custom
from .._ops.reduce import ggml_argmax, ggml_count_equal, ggml_sum
from .._ops.softmax import ggml_cross_entropy_loss
from .sched import (
    ggml_backend_sched_alloc_graph, ggml_backend_sched_get_backend, ggml_backend_sched_graph_compute, ggml_backend_sched_reset,
)
from .._system import ggml_time_us
from .._tensor import (
    ggml_get_first_tensor, ggml_get_next_tensor, ggml_new_tensor, ggml_set_input, ggml_set_loss, ggml_set_name, ggml_set_output,
)

cdef enum:
    MEAN, SUM, CROSS_ENTROPY, SQUARED_ERROR
cdef enum:
    FORWARD = 10, GRAD = 20, OPT = 30
cdef enum:
    ADAMW, SGD

cdef object new_context(bint no_alloc):
    return ggml_init(_structs.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=no_alloc))

cdef object with_name(object tensor, str name):
    ggml_set_name(tensor, name.encode())
    return tensor

cdef int out(object target, const char *name, const void *value, size_t size) except -1:
    """Writes a result to where the caller wants it; None: nowhere."""
    cdef void *p
    arg_buffer(target, name, size, &p)
    if p != NULL:
        memcpy(p, value, size)
    return 0

# ---- random numbers --------------------------------------------------------------------------------------------------
cdef uint64_t draw(uint64_t *state) noexcept:
    """SplitMix64: its state is one number, which a checkpoint can hold."""
    state[0] += <uint64_t>0x9E3779B97F4A7C15
    cdef uint64_t z = state[0]
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)

cdef uint64_t below(uint64_t *state, uint64_t n) noexcept:
    """A number below n, each as likely: draws from the incomplete last run of n are not taken."""
    cdef uint64_t least = (0 - n) % n, x = draw(state)
    while x < least:
        x = draw(state)
    return x % n

# ---- datasets --------------------------------------------------------------------------------------------------------
cdef class Dataset(Handle):
    cdef object ctx, order          # order: array('q') of shards
    cdef ggml_tensor *data
    cdef ggml_tensor *labels        # NULL: none
    cdef int64_t ndata, shard       # datapoints; of a shard
    cdef size_t data_bytes, label_bytes     # of a shard

    cdef int64_t shards(self):
        return len(self.order)

    cdef int64_t taken(self, size_t bytes, str what) except -1:
        """How many shards a batch of so many bytes takes."""
        if bytes == 0 or bytes % self.data_bytes:
            fail(ValueError, f"{what} has {bytes} bytes: need a multiple of {self.data_bytes}, a shard of {self.shard} datapoints")
        return <int64_t>(bytes // self.data_bytes)

    cdef int64_t first(self, int64_t ibatch, int64_t n) except -1:
        if not 0 <= ibatch < self.shards() // n:
            fail(IndexError, f"ibatch is {ibatch}: the dataset has {self.shards() // n} batches of {n * self.shard} datapoints")
        return ibatch * n

    cdef const uint8_t *data_at(self, int64_t i):
        return <uint8_t *>self.data.data + <size_t>(<int64_t>self.order[i]) * self.data_bytes

    cdef const uint8_t *labels_at(self, int64_t i):
        return <uint8_t *>self.labels.data + <size_t>(<int64_t>self.order[i]) * self.label_bytes

    cdef int batch(self, ggml_tensor *data, ggml_tensor *labels, int64_t ibatch) except -1:
        cdef int64_t i, n, first
        check_batch(data, self.data, "data_batch")
        n = self.taken(gg_nbytes(data), "data_batch " + tensor_text(data))
        first = self.first(ibatch, n)
        if (labels == NULL) != (self.labels == NULL):
            fail(ValueError, "labels_batch is NULL: the dataset has labels" if labels == NULL else
                 f"labels_batch is {tensor_text(labels)}: the dataset has no labels")
        if labels != NULL:
            check_batch(labels, self.labels, "labels_batch")
            if gg_nbytes(labels) != <size_t>n * self.label_bytes:
                fail(ValueError, f"labels_batch is {tensor_text(labels)}, data_batch {tensor_text(data)}: need {n * self.shard} labels of "
                     f"{self.labels.ne[0]} elements for as many datapoints of {self.data.ne[0]}")
        for i in range(n):
            write(data, self.data_at(first + i), <size_t>i * self.data_bytes, self.data_bytes)
            if labels != NULL:
                write(labels, self.labels_at(first + i), <size_t>i * self.label_bytes, self.label_bytes)
        return 0

    cdef int shuffle(self, uint64_t *state, int64_t idata) except -1:
        """Shuffles the first idata datapoints, shard by shard; a negative number: all."""
        cdef int64_t i, j, n = self.shards()
        cdef int64_t[::1] order = self.order
        if idata >= 0:
            if idata > self.ndata or idata % self.shard:
                fail(ValueError, f"idata is {idata}: need a multiple of the {self.shard} datapoints of a shard, up to {self.ndata}")
            n = idata // self.shard
        for i in range(n - 1, 0, -1):
            j = <int64_t>below(state, <uint64_t>(i + 1))
            order[i], order[j] = order[j], order[i]
        return 0

_title(Dataset, "dataset")

cdef int check_batch(ggml_tensor *batch, ggml_tensor *whole, str what) except -1:
    if batch.type != whole.type or not gg_contiguous(batch):
        fail(ValueError, f"{what} is {tensor_text(batch)}: need contiguous {gg_types[whole.type].name.decode()}, as the dataset has")
    return 0

cdef Dataset dataset_arg(object o):
    return <Dataset>find(o, Dataset, "dataset")

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
    cdef int64_t nd = arg_extent(ne_datapoint, b"ne_datapoint"), nl = arg_extent(ne_label, b"ne_label"), n = arg_extent(ndata, b"ndata")
    cdef int64_t shard = arg_extent(ndata_shard, b"ndata_shard")
    if nd == 0 or n == 0:
        fail(ValueError, f"ne_datapoint is {nd}, ndata {n}: need 1 or more")
    if shard == 0 or n % shard:
        fail(ValueError, f"ndata_shard is {shard}: need a divisor of ndata, {n}")
    cdef Dataset d = Dataset()
    d.ctx = new_context(False)
    try:
        tensors = [with_name(ggml_new_tensor(d.ctx, td, 2, (nd, n)), "dataset data")]
        if nl > 0:
            tensors.append(with_name(ggml_new_tensor(d.ctx, tl, 2, (nl, n)), "dataset labels"))
        d.data = arg_tensor(tensors[0], b"data")
        d.labels = arg_tensor(tensors[1], b"labels") if nl > 0 else NULL
    except BaseException:
        ggml_free(d.ctx)
        raise
    d.ndata, d.shard = n, shard
    d.order = array("q", range(n // shard))
    d.data_bytes = gg_nbytes(d.data) // <size_t>n * <size_t>shard
    d.label_bytes = gg_nbytes(d.labels) // <size_t>n * <size_t>shard if nl > 0 else 0
    return HANDLE(_open(d))

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
        d = dataset_arg(dataset)
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
    return dataset_arg(dataset).ndata

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
    return wrap_tensor(dataset_arg(dataset).data)

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
    return wrap_tensor(dataset_arg(dataset).labels)

def ggml_opt_dataset_shuffle(opt_ctx, dataset, idata):
    """Shuffles the order in which batches take the shards of a dataset.

    Every permutation of the shards is equally likely (Fisher-Yates). The random numbers are those of the
    optimisation context: two contexts that were made alike shuffle alike, and ggml_opt_save stores their state.

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
    cdef Context o = context_arg(opt_ctx)
    dataset_arg(dataset).shuffle(&o.random, arg_int(idata, b"idata"))

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
    cdef Dataset d = dataset_arg(dataset)
    d.batch(arg_tensor(data_batch, b"data_batch"), arg_tensor(labels_batch, b"labels_batch") if labels_batch else NULL, arg_int(ibatch, b"ibatch"))

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
    cdef Dataset d = dataset_arg(dataset)
    cdef size_t size = arg_size(nb_data_batch, b"nb_data_batch")
    cdef int64_t i, n = d.taken(size, "data_batch"), first = d.first(arg_int(ibatch, b"ibatch"), n)
    cdef void *data
    cdef void *labels
    arg_buffer(data_batch, b"data_batch", size, &data)
    arg_buffer(labels_batch, b"labels_batch", <size_t>n * d.label_bytes, &labels)
    if data == NULL or not engine.readable(data, size):
        fail(ValueError, f"data_batch is no memory of {size} bytes")
    if (labels == NULL) != (d.labels == NULL):
        fail(ValueError, f"labels_batch: the dataset has {'no ' if d.labels == NULL else ''}labels")
    for i in range(n):
        memcpy(<uint8_t *>data + <size_t>i * d.data_bytes, d.data_at(first + i), d.data_bytes)
        if labels != NULL:
            memcpy(<uint8_t *>labels + <size_t>i * d.label_bytes, d.labels_at(first + i), d.label_bytes)

# ---- parameters of the optimisers ------------------------------------------------------------------------------------
cdef struct Rates:
    float alpha, beta1, beta2, eps, wd      # AdamW
    float sgd_alpha, sgd_wd

cdef Rates default_rates(void *userdata) noexcept:
    return Rates(<float>1e-3, <float>0.9, <float>0.999, <float>1e-8, 0, <float>1e-3, 0)

cdef Rates constant_rates(void *userdata) noexcept:
    return (<Rates *>userdata)[0]

cdef object rates_of(Rates r):
    made = _structs.ggml_opt_optimizer_params()
    memcpy(<void *><size_t>ctypes.addressof(made), &r, sizeof(Rates))
    return made

cdef object getter_type = ctypes.CFUNCTYPE(_structs.ggml_opt_optimizer_params, ctypes.c_void_p)
cdef object mark_type = ctypes.CFUNCTYPE(None)
cdef object getters = weakref.WeakValueDictionary()       # address: mark

class ggml_opt_get_optimizer_params(ctypes.c_void_p):
    """The function that gives the optimiser's parameters of a step: of an address, or of a Python callable.

    It is called with the user data (an int or None) and returns a ggml_opt_optimizer_params. Of a callable, the value is a number
    that only ggml_opt_init and ggml_opt_fit understand, since ctypes can't make a C function that returns a struct.
    """

    def __new__(cls, function=None):
        if not callable(function) or isinstance(function, ctypes._CFuncPtr):
            return super().__new__(cls)
        mark = mark_type(lambda: None)      # its address stands for the callable, and what holds the value holds it
        mark.function = function
        made = ctypes.cast(mark, cls)
        getters[made.value] = mark
        return made

    def __init__(self, function=None):
        if isinstance(function, ctypes._CFuncPtr):
            self.value = ctypes.cast(function, ctypes.c_void_p).value
        elif not callable(function):
            super().__init__(function)

cdef object getter_of(object o):
    """What to call for the parameters of a step, given an address or a callable."""
    if isinstance(o, ctypes._CFuncPtr):
        return o if o._restype_ is _structs.ggml_opt_optimizer_params else getter_type(ctypes.cast(o, ctypes.c_void_p).value)
    if callable(o):
        return o
    address = o.value if isinstance(o, ctypes.c_void_p) else o
    if not address:
        fail(TypeError, "get_opt_pars is NULL: need a function that gives the optimiser's parameters")
    if not isinstance(address, int):
        fail(TypeError, f"get_opt_pars is {o!r}: need a function or its address")
    known = getters.get(address)
    if known is not None:
        return known.function
    if not 0 < address < 1 << 63 or not engine.readable(<void *><size_t>address, 1):
        fail(ValueError, f"get_opt_pars is {address:#x}: no function can be there")
    return getter_type(address)

def ggml_opt_get_default_optimizer_params(userdata):
    """Gives parameters of the optimisers to start with.

    AdamW: alpha 1e-3, beta1 0.9, beta2 0.999, eps 1e-8, weight decay 0. SGD: alpha 1e-3, weight decay 0. The
    function itself is accepted as ggml_opt_params.get_opt_pars.

    Args:
        userdata: ignored.
    Returns:
        A new ggml_opt_optimizer_params.
    Raises:
        TypeError: the function is called with another number of arguments.
    """
    return rates_of(default_rates(NULL))

def ggml_opt_get_constant_optimizer_params(userdata):
    """Gives a copy of the optimiser parameters that userdata points to.

    The function itself is accepted as ggml_opt_params.get_opt_pars, with the address of a ggml_opt_optimizer_params
    as get_opt_pars_ud: then every step uses the same parameters.

    Args:
        userdata: ggml_opt_optimizer_params by reference, pointer or address.
    Returns:
        A new ggml_opt_optimizer_params.
    Raises:
        TypeError: userdata is neither an address nor a ctypes object.
        ValueError: userdata is NULL, too small or not readable.
    """
    enter(b"ggml_opt_get_constant_optimizer_params")
    cdef void *p
    arg_buffer(userdata, b"userdata", sizeof(Rates), &p)
    if p == NULL or not engine.readable(p, sizeof(Rates)):
        fail(ValueError, "userdata points to no ggml_opt_optimizer_params")
    return rates_of(constant_rates(p))

# What programs cast to pointers, for fields and callbacks of functions.
ggml_opt_get_default_optimizer_params._as_parameter_ = ctypes.c_void_p(<size_t>&default_rates)
ggml_opt_get_constant_optimizer_params._as_parameter_ = ctypes.c_void_p(<size_t>&constant_rates)

def ggml_opt_default_params(backend_sched, loss_type):
    """Gives a ggml_opt_params with default settings, to be completed by the caller.

    Its build_type is GGML_OPT_BUILD_TYPE_OPT, opt_period 1, optimizer AdamW with the parameters of
    ggml_opt_get_default_optimizer_params. ctx_compute, inputs and outputs are NULL; set all three for a graph that
    is built once.

    Args:
        backend_sched: handle of the scheduler that computes (see ggml_backend_sched_new); None to set it later.
        loss_type: GGML_OPT_LOSS_TYPE_*: MEAN or SUM of the outputs, CROSS_ENTROPY or MEAN_SQUARED_ERROR between
            outputs and labels.
    Returns:
        A new ggml_opt_params.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: loss_type is not one of the four.
    """
    enter(b"ggml_opt_default_params")
    return _structs.ggml_opt_params(
        backend_sched=<size_t>arg_address(backend_sched, b"backend_sched") or None,
        loss_type=checked(loss_type, b"loss_type", (MEAN, SUM, CROSS_ENTROPY, SQUARED_ERROR)),
        build_type=OPT, opt_period=1, get_opt_pars=<size_t>&default_rates, optimizer=ADAMW)

cdef int checked(object value, const char *name, tuple known) except -1:
    cdef int k = arg_int32(value, name)
    if k not in known:
        fail(ValueError, f"{name.decode()} is {k}: need one of {', '.join(map(str, known))}")
    return k

# ---- results ---------------------------------------------------------------------------------------------------------
cdef class Result(Handle):
    cdef int64_t ndata, ncorrect       # ncorrect -1: not known
    cdef object losses, pred           # of the batches, array('d'); of the datapoints, array('i')
    cdef bint per_datapoint

    cdef int reset(self) except -1:
        self.ndata = self.ncorrect = 0
        self.losses, self.pred, self.per_datapoint = array("d"), array("i"), True
        return 0

    cdef tuple loss(self):
        """Mean (or sum) over the batches, and its standard error."""
        cdef Py_ssize_t n = len(self.losses)
        if n == 0:
            return 0.0, math.nan
        mean = math.fsum(self.losses) / n
        error = math.sqrt(math.fsum([(x - mean) ** 2 for x in self.losses]) / (n - 1) / n) if n > 1 else math.nan
        return (mean, error) if self.per_datapoint else (mean * n, error * n)

    cdef tuple accuracy(self):
        if self.ncorrect < 0 or self.ndata == 0:
            return math.nan, math.nan
        part = self.ncorrect / <double>self.ndata
        return part, (math.sqrt(part * (1 - part) / (self.ndata - 1)) if self.ndata > 1 else math.nan)

_title(Result, "training result")

cdef Result result_arg(object o):
    return <Result>find(o, Result, "result")

def ggml_opt_result_init():
    """Creates an empty result, which collects loss, predictions and accuracy over batches.

    Returns:
        Handle (int) of the result. Pass it to ggml_opt_eval or ggml_opt_epoch; free it with ggml_opt_result_free.
    """
    cdef Result r = Result()
    r.reset()
    return HANDLE(_open(r))

def ggml_opt_result_free(result):
    """Frees a training result.

    Args:
        result: handle of the result, or None, which does nothing.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result.
        RuntimeError: result was freed already.
    """
    enter(b"ggml_opt_result_free")
    if result is not None:
        result_arg(result).close()

def ggml_opt_result_reset(result):
    """Empties a result, so that the next batch is its first one.

    Args:
        result: handle of the result.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_result_reset")
    result_arg(result).reset()

def ggml_opt_result_ndata(result, ndata):
    """Writes how many datapoints a result has collected.

    Each evaluated batch adds ne1 of the outputs.

    Args:
        result: handle of the result.
        ndata: pointer to an int64 that receives the number, or None.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or ndata is not a pointer.
        ValueError: ndata has fewer than 8 bytes.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_result_ndata")
    out(ndata, b"ndata", &result_arg(result).ndata, 8)

cdef int two(tuple values, object first, const char *name, object unc) except -1:
    cdef double value = values[0], error = values[1]
    out(first, name, &value, 8)
    return out(unc, b"unc", &error, 8)

def ggml_opt_result_loss(result, loss, unc):
    """Writes the loss over all collected batches and its uncertainty.

    The loss is the mean of the batches' losses, and the uncertainty the standard error of that mean. For
    GGML_OPT_LOSS_TYPE_SUM both are multiplied by the number of batches.

    Args:
        result: handle of the result.
        loss: pointer to a double that receives the loss, or None. It is 0 before the first batch.
        unc: pointer to a double that receives the uncertainty, or None. It is NaN for fewer than two batches.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or another argument is not a pointer.
        ValueError: loss or unc has fewer than 8 bytes.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_result_loss")
    two(result_arg(result).loss(), loss, b"loss", unc)

def ggml_opt_result_pred(result, pred):
    """Writes the predicted class of every collected datapoint.

    There are predictions for GGML_OPT_LOSS_TYPE_CROSS_ENTROPY with outputs [classes, n] only; otherwise nothing is
    written. The order is that of the evaluated batches.

    Args:
        result: handle of the result.
        pred: array of int32 with an entry for each datapoint (see ggml_opt_result_ndata), or None.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or pred is not a pointer.
        ValueError: pred is too small.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_result_pred")
    cdef Result r = result_arg(result)
    cdef const int[::1] values = r.pred
    if len(r.pred):
        out(pred, b"pred", &values[0], <size_t>len(r.pred) * 4)

def ggml_opt_result_accuracy(result, accuracy, unc):
    """Writes the fraction of correct predictions and its uncertainty.

    With p the fraction and n the number of datapoints, the uncertainty is sqrt(p (1 - p) / (n - 1)).

    Args:
        result: handle of the result.
        accuracy: pointer to a double that receives a number from 0 to 1, or None. It is NaN before the first batch,
            and for losses without predictions (see ggml_opt_result_pred).
        unc: pointer to a double that receives the uncertainty, or None. It is NaN for fewer than two datapoints.
    Returns:
        None.
    Raises:
        TypeError: result is not a training result, or another argument is not a pointer.
        ValueError: accuracy or unc has fewer than 8 bytes.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_result_accuracy")
    two(result_arg(result).accuracy(), accuracy, b"accuracy", unc)

# ---- the optimisation context ----------------------------------------------------------------------------------------
cdef object allocated = weakref.WeakValueDictionary()     # scheduler: the context whose graph it has

cdef class State:
    """What belongs to a parameter from step to step; NULL where there is none."""
    cdef ggml_tensor *param
    cdef ggml_tensor *acc
    cdef ggml_tensor *m
    cdef ggml_tensor *v

cdef class Context(Handle):
    cdef object __weakref__
    cdef object sched, getter, userdata
    cdef int loss_type, build_type, period, optimizer
    cdef bint static_graphs, ready           # ready: allocated, to be evaluated
    cdef int64_t iter
    cdef int index                           # batches since the last step
    cdef uint64_t random
    cdef list arenas                         # (context, buffer) of what lives as long as the context
    cdef dict states                         # address of a parameter: its State, in the order of the graph
    cdef object nodes                        # the context of the graph
    cdef object graph
    cdef ggml_cgraph *g
    cdef int n_forward, n_grad               # nodes up to the loss and results, and up to the gradients
    cdef int reach                           # FORWARD, GRAD or OPT: how far the graph is computed
    cdef ggml_tensor *inputs
    cdef ggml_tensor *outputs
    cdef ggml_tensor *labels
    cdef ggml_tensor *loss
    cdef ggml_tensor *pred
    cdef ggml_tensor *ncorrect
    cdef ggml_tensor *seed                   # the gradient by the loss: 1
    cdef ggml_tensor *rates

    # ---- building --------------------------------------------------------------------------------------------------------
    cdef object loss_nodes(self, object outputs, object nodes, object fixed):
        """The loss; sets labels, pred and ncorrect where the type of loss has them."""
        cdef object labels = None, loss, pred
        cdef ggml_tensor *o = self.outputs
        # the mean over a period of batches, whose gradients add up
        cdef float part = <float>(1.0 / self.period)
        if self.loss_type in (CROSS_ENTROPY, SQUARED_ERROR):
            labels = with_name(ggml_new_tensor(fixed, GGML_TYPE_F32, 4, [o.ne[i] for i in range(4)]), "labels")
            ggml_set_input(labels)
            self.labels = arg_tensor(labels, b"labels")
        if self.loss_type == CROSS_ENTROPY:
            loss = ggml_cross_entropy_loss(nodes, outputs, labels)
        else:
            difference = ggml_sqr(nodes, ggml_sub(nodes, outputs, labels)) if self.loss_type == SQUARED_ERROR else outputs
            loss = ggml_sum(nodes, difference)
            if self.loss_type != SUM:
                part /= <float>gg_nelements(o)
        if part != 1 and self.loss_type != SUM:
            loss = ggml_scale(nodes, loss, part)
        with_name(loss, "loss")
        ggml_set_output(loss)
        ggml_set_loss(loss)
        self.loss = arg_tensor(loss, b"loss")
        if self.loss_type == CROSS_ENTROPY and o.ne[2] == 1 and o.ne[3] == 1:
            pred = with_name(ggml_argmax(nodes, outputs), "pred")
            ggml_set_output(pred)
            right = with_name(ggml_count_equal(nodes, pred, ggml_argmax(nodes, labels)), "ncorrect")
            ggml_set_output(right)
            self.pred, self.ncorrect = arg_tensor(pred, b"pred"), arg_tensor(right, b"ncorrect")
        return loss

    cdef list parameters(self):
        cdef int i
        return [<size_t>self.g.nodes[i] for i in range(self.g.n_nodes) if self.g.nodes[i].flags & GGML_TENSOR_FLAG_PARAM]

    cdef int add_states(self, object fixed) except -1:
        """Tensors for the parameters that have none yet."""
        cdef State s
        cdef ggml_tensor *p
        cdef bint accumulate = self.build_type == GRAD or self.period > 1
        for address in self.parameters():
            if address in self.states:
                continue
            p = <ggml_tensor *><size_t>address
            s = State()
            s.param, n, ne = p, len(self.states), [p.ne[i] for i in range(4)]
            if accumulate:
                s.acc = arg_tensor(with_name(ggml_new_tensor(fixed, GGML_TYPE_F32, 4, ne), f"opt.acc.{n}"), b"acc")
            if self.build_type == OPT and self.optimizer == ADAMW:
                s.m = arg_tensor(with_name(ggml_new_tensor(fixed, GGML_TYPE_F32, 4, ne), f"opt.m.{n}"), b"m")
                s.v = arg_tensor(with_name(ggml_new_tensor(fixed, GGML_TYPE_F32, 4, ne), f"opt.v.{n}"), b"v")
            self.states[address] = s
        return 0

    cdef int allocate(self, object fixed) except -1:
        """Memory for the tensors made to last, all zero."""
        if not ggml_get_first_tensor(fixed):
            ggml_free(fixed)
            return 0
        buffer = ggml_backend_alloc_ctx_tensors(fixed, ggml_backend_sched_get_backend(self.sched, 0))
        if buffer is None:
            ggml_free(fixed)
            fail(MemoryError, "no memory for the optimiser's state")
        ggml_backend_buffer_clear(buffer, 0)
        self.arenas.append((fixed, buffer))
        return 0

    cdef int build(self, object graph) except -1:
        """Makes the whole graph; `graph`: the caller's forward graph, None: what the outputs depend on."""
        cdef ggml_cgraph *f
        cdef object outputs = wrap_tensor(self.outputs), fixed = new_context(True), accs
        cdef float one = 1
        cdef State s
        cdef int i, size = 1024
        self.drop_graph()
        self.nodes = nodes = new_context(True)
        if graph is None:
            graph = ggml_new_graph_custom(nodes, 65536, False)
            ggml_build_forward_expand(graph, outputs)
        f = arg_graph(graph, b"gf")
        size += 16 * (f.n_nodes + f.n_leafs)
        self.graph = ggml_new_graph_custom(nodes, max(size, f.size), True)
        self.g = arg_graph(self.graph, b"graph")
        ggml_graph_cpy(graph, self.graph)
        ggml_set_input(wrap_tensor(self.inputs))
        ggml_set_output(outputs)
        ggml_build_forward_expand(self.graph, self.loss_nodes(outputs, nodes, fixed if self.static_graphs else nodes))
        if self.ncorrect != NULL:
            ggml_build_forward_expand(self.graph, wrap_tensor(self.ncorrect))
        self.n_forward = self.n_grad = self.g.n_nodes
        if self.seed == NULL:
            self.seed = arg_tensor(with_name(ggml_new_tensor(fixed, GGML_TYPE_F32, 1, (1,)), "grad of loss"), b"seed")
            self.rates = arg_tensor(with_name(ggml_new_tensor(fixed, GGML_TYPE_F32, 1, (7 if self.optimizer == ADAMW else 2,)), "rates"), b"rates")
        if self.build_type != FORWARD:
            self.add_states(fixed)
        self.allocate(fixed)
        write(self.seed, &one, 0, 4)
        if self.build_type == FORWARD:
            return 0
        accs = [None] * self.g.n_nodes
        for i in range(self.g.n_nodes):
            s = self.states.get(<size_t>self.g.nodes[i])
            if s is not None and s.acc != NULL:
                accs[i] = wrap_tensor(s.acc)
            elif self.g.nodes[i] == self.loss:
                accs[i] = wrap_tensor(self.seed)
        ggml_build_backward_expand(nodes, self.graph, accs)
        self.n_grad = self.g.n_nodes
        if self.build_type == OPT:
            self.add_steps()
        return 0

    cdef int add_steps(self) except -1:
        cdef State s
        for address in self.parameters():
            s = self.states[address]
            param, rates = wrap_tensor(s.param), wrap_tensor(self.rates)
            gradient = ggml_graph_get_grad(self.graph, param)
            if not gradient:
                continue
            if self.optimizer == ADAMW:
                step = ggml_opt_step_adamw(self.nodes, param, gradient, wrap_tensor(s.m), wrap_tensor(s.v), rates)
            else:
                step = ggml_opt_step_sgd(self.nodes, param, gradient, rates)
            ggml_build_forward_expand(self.graph, with_name(step, f"step of {name_text(s.param)}"[:63]))
        return 0

    cdef int aim(self, int reach) except -1:
        """How far the graph is to be computed."""
        cdef int i, end = self.n_forward if reach == FORWARD else self.n_grad if reach == GRAD else self.g.n_nodes
        for i in range(self.n_forward, self.g.n_nodes):
            if i < end:
                self.g.nodes[i].flags |= GGML_TENSOR_FLAG_COMPUTE
            else:
                self.g.nodes[i].flags &= ~<int32_t>GGML_TENSOR_FLAG_COMPUTE
        self.reach = reach
        return 0

    # ---- a batch ---------------------------------------------------------------------------------------------------------
    cdef int alloc(self, bint backward) except -1:
        cdef int reach = FORWARD
        if self.g == NULL:
            fail(RuntimeError, "there is no graph: call ggml_opt_prepare_alloc first")
        if backward and self.build_type == FORWARD:
            fail(ValueError, "backward is True: the context was made for forward passes (build_type)")
        if backward:
            reach = self.build_type if (self.index + 1) % self.period == 0 else GRAD
            if self.build_type == OPT and self.index == 0:
                self.zero_gradients()
        self.aim(reach)
        if allocated.get(self.sched) is not self or not self.ready:
            allocated.pop(self.sched, None)
            ggml_backend_sched_reset(self.sched)
            if not ggml_backend_sched_alloc_graph(self.sched, self.graph):
                fail(MemoryError, "no memory for the graph")
            allocated[self.sched] = self
        self.ready = True
        return 0

    cdef int set_rates(self) except -1:
        cdef float k[7]
        cdef Rates r
        made = self.getter(self.userdata)
        unpark()
        enter(b"ggml_opt_eval")
        self.still("get_opt_pars")
        if not isinstance(made, _structs.ggml_opt_optimizer_params):
            fail(TypeError, f"get_opt_pars returned {made!r}: need a ggml_opt_optimizer_params")
        memcpy(&r, <void *><size_t>ctypes.addressof(made), sizeof(Rates))
        if self.optimizer == SGD:
            within("sgd.alpha (learning rate)", r.sgd_alpha, 0, math.inf)
            within("sgd.wd (weight decay)", r.sgd_wd, 0, 1)
            k[0], k[1] = r.sgd_alpha, r.sgd_wd
            return write(self.rates, k, 0, 8)
        within("adamw.alpha (learning rate)", r.alpha, 0, math.inf)
        within("adamw.beta1", r.beta1, 0, 0.9999999)
        within("adamw.beta2", r.beta2, 0, 0.9999999)
        within("adamw.eps", r.eps, 0, math.inf)
        within("adamw.wd (weight decay)", r.wd, 0, 1)
        k[0], k[1], k[2], k[3], k[4] = r.alpha, r.beta1, r.beta2, r.eps, r.wd
        k[5], k[6] = <float>(1 / (1 - pow(r.beta1, self.iter))), <float>(1 / (1 - pow(r.beta2, self.iter)))
        return write(self.rates, k, 0, 28)

    cdef int eval(self, Result result) except -1:
        cdef int status
        cdef float loss
        if not self.ready:
            fail(RuntimeError, "call ggml_opt_alloc first")
        if self.reach == OPT:
            self.set_rates()
        status = ggml_backend_sched_graph_compute(self.sched, self.graph)
        enter(b"ggml_opt_eval")
        self.still("a callback or another thread")
        if status:
            fail(RuntimeError, f"computing the graph failed with status {status}")
        if self.reach != FORWARD:
            self.iter += self.reach == OPT
            self.index = (self.index + 1) % self.period
        read(self.loss, &loss, 0, 4)
        if not isfinite(loss):
            fail(RuntimeError, f"{tensor_text(self.loss)} is {loss} after {self.iter - 1} steps; {self.culprit()}")
        if result is not None:
            self.record(result, loss)
        return 0

    cdef int still(self, str who) except -1:
        """Raises if the graph that is being worked with is gone."""
        if not self.ready:
            fail(RuntimeError, f"{who} freed the context, or its graph")
        return 0

    cdef int record(self, Result r, float loss) except -1:
        cdef int64_t right
        cdef bytes raw
        per_datapoint = self.loss_type != SUM
        if len(r.losses) and r.per_datapoint != per_datapoint:
            fail(ValueError, "result has losses of another kind: sums and means don't add up (ggml_opt_result_reset)")
        r.per_datapoint = per_datapoint
        r.ndata += self.outputs.ne[1]
        r.losses.append(loss * self.period if per_datapoint else loss)
        if self.pred == NULL:
            r.ncorrect = -1
            return 0
        raw = bytes(gg_nbytes(self.pred))
        read(self.pred, <char *>raw, 0, gg_nbytes(self.pred))
        r.pred.frombytes(raw)
        read(self.ncorrect, &right, 0, 8)
        if r.ncorrect >= 0:
            r.ncorrect += right
        return 0

    cdef str culprit(self):
        """Where a loss that is no number may come from."""
        cdef list suspects = [<size_t>self.inputs, <size_t>self.labels] + list(self.states)
        for address in suspects:
            if address and not all_finite(<ggml_tensor *><size_t>address):
                return f"{tensor_text(<ggml_tensor *><size_t>address)} holds values that are no finite numbers"
        return "inputs, labels and parameters are finite: it arose in between"

    # ---- starting over, and the end --------------------------------------------------------------------------------------
    cdef int zero_gradients(self) except -1:
        cdef State s
        for s in self.states.values():
            clear(s.acc)
        return 0

    cdef int reset(self, bint optimizer) except -1:
        cdef State s
        self.zero_gradients()
        self.index = 0
        if optimizer:
            for s in self.states.values():
                clear(s.m)
                clear(s.v)
            self.iter = 1
        return 0

    cdef int drop_graph(self) except -1:
        if allocated.get(self.sched) is self:
            if self.sched in live:
                ggml_backend_sched_reset(self.sched)     # raises while it computes
            del allocated[self.sched]
        self.labels = self.loss = self.pred = self.ncorrect = NULL
        self.g, self.graph, self.ready = NULL, None, False
        if self.nodes is not None:
            nodes, self.nodes = self.nodes, None
            ggml_free(nodes)
        return 0

    cdef int release(self) except -1:
        self.drop_graph()
        for fixed, buffer in self.arenas:
            ggml_backend_buffer_free(buffer)
            ggml_free(fixed)
        self.arenas = []
        return self.close()

_title(Context, "optimisation context")

cdef int clear(ggml_tensor *t) except -1:
    if t != NULL:
        ggml_backend_tensor_memset(wrap_tensor(t), 0, 0, gg_nbytes(t))
    return 0

cdef int within(str name, double value, double low, double high) except -1:
    if not low <= value <= high or not isfinite(value):
        fail(ValueError, f"get_opt_pars: {name} is {value}: need {low:g} to {high:g}")
    return 0

cdef bint all_finite(ggml_tensor *t) except -1:
    cdef int64_t i
    if t.type != GGML_TYPE_F32 or not gg_contiguous(t) or t.data == NULL:
        return True
    values = array("f", bytes(gg_nbytes(t)))
    cdef float[::1] x = values
    read(t, &x[0], 0, gg_nbytes(t))
    for i in range(gg_nelements(t)):
        if not isfinite(x[i]):
            return False
    return True

cdef Context context_arg(object o):
    return <Context>find(o, Context, "opt_ctx")

def ggml_opt_init(params):
    """Creates an optimisation context, which builds and computes the graph of a training step.

    With params.ctx_compute, params.inputs and params.outputs, the graph is built now and used for every batch
    (static graphs). Without them, ggml_opt_prepare_alloc supplies a graph. The graph consists of the forward pass,
    the loss, and, as params.build_type says, the gradients and the steps of the optimiser for all tensors that were
    marked with ggml_set_param. A step is taken every params.opt_period batches; the gradients of these batches are
    averaged (summed for GGML_OPT_LOSS_TYPE_SUM).

    Args:
        params: ggml_opt_params (see ggml_opt_default_params). params.backend_sched must be a live scheduler,
            opt_period 1 or more.
    Returns:
        Handle (int) of the context. Free it with ggml_opt_free.
    Raises:
        TypeError: params or a field of it is of the wrong kind, or params.backend_sched or params.get_opt_pars is
            NULL.
        ValueError: a field has a value that is not allowed, only some of ctx_compute, inputs and outputs are set,
            or outputs and loss do not fit.
        RuntimeError: the scheduler or a tensor's context was freed.
        MemoryError: there is not enough memory for the optimiser's state.
    """
    enter(b"ggml_opt_init")
    cdef Context o = Context()
    if not isinstance(params, _structs.ggml_opt_params):
        fail(TypeError, f"params is {params!r}: need a ggml_opt_params")
    if params.backend_sched is None:
        fail(TypeError, "params.backend_sched is None: need a scheduler")
    o.sched, o.static_graphs = params.backend_sched, params.ctx_compute is not None
    try:
        ggml_backend_sched_get_backend(o.sched, 0)   # raises where it is no scheduler
    except (TypeError, RuntimeError) as error:
        enter(b"ggml_opt_init")
        fail(type(error), "params.backend_" + str(error).partition(": ")[2])
    enter(b"ggml_opt_init")
    o.loss_type = checked(params.loss_type, b"loss_type", (MEAN, SUM, CROSS_ENTROPY, SQUARED_ERROR))
    o.build_type = checked(params.build_type, b"build_type", (FORWARD, GRAD, OPT))
    o.optimizer = checked(params.optimizer, b"optimizer", (ADAMW, SGD))
    o.period, o.iter, o.random = params.opt_period, 1, 0
    if o.period < 1:
        fail(ValueError, f"opt_period is {o.period}: need 1 or more")
    o.getter, o.userdata = getter_of(params.get_opt_pars), params.get_opt_pars_ud
    o.arenas, o.states = [], {}
    if o.static_graphs != bool(params.inputs) or o.static_graphs != bool(params.outputs):
        fail(ValueError, "static graphs need ctx_compute, inputs and outputs; graphs that are given each time none of these")
    if o.static_graphs:
        arg_context(params.ctx_compute, b"ggml_opt_init")
        o.inputs, o.outputs = arg_tensor(params.inputs, b"inputs"), arg_tensor(params.outputs, b"outputs")
        try:
            o.build(None)
        except BaseException:
            o.release()
            raise
    return HANDLE(_open(o))

def ggml_opt_free(opt_ctx):
    """Frees an optimisation context with its graph, moments and accumulated gradients.

    Parameters, inputs, outputs and the scheduler stay.

    Args:
        opt_ctx: handle of the context, or None, which does nothing.
    Returns:
        None.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed already, or its scheduler is computing.
    """
    enter(b"ggml_opt_free")
    if opt_ctx is not None:
        context_arg(opt_ctx).release()

def ggml_opt_reset(opt_ctx, optimizer):
    """Sets the accumulated gradients to zero and starts a new period of batches.

    Args:
        opt_ctx: handle of the optimisation context.
        optimizer: True to set the moments of AdamW to zero as well, and the number of the next step to 1.
    Returns:
        None.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
    enter(b"ggml_opt_reset")
    context_arg(opt_ctx).reset(arg_bool(optimizer, b"optimizer"))

def ggml_opt_static_graphs(opt_ctx):
    """Tells whether the graph of an optimisation context was built once, by ggml_opt_init.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        True for static graphs, False if ggml_opt_prepare_alloc supplies the graph.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
    enter(b"ggml_opt_static_graphs")
    return bool(context_arg(opt_ctx).static_graphs)

def ggml_opt_inputs(opt_ctx):
    """Gives the tensor that receives the datapoints of a batch.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        The tensor that was given as inputs; a NULL pointer before the first ggml_opt_prepare_alloc.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
    enter(b"ggml_opt_inputs")
    return wrap_tensor(context_arg(opt_ctx).inputs)

def ggml_opt_outputs(opt_ctx):
    """Gives the tensor with the model's results for a batch.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        The tensor that was given as outputs; a NULL pointer before the first ggml_opt_prepare_alloc.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
    enter(b"ggml_opt_outputs")
    return wrap_tensor(context_arg(opt_ctx).outputs)

def ggml_opt_labels(opt_ctx):
    """Gives the tensor that receives the labels of a batch.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        f32 tensor in the shape of the outputs; a NULL pointer for the losses MEAN and SUM, which take no labels,
        and while there is no graph.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
    enter(b"ggml_opt_labels")
    return wrap_tensor(context_arg(opt_ctx).labels)

def ggml_opt_loss(opt_ctx):
    """Gives the tensor of the loss that is minimised.

    Its value is the loss of the last computed batch, divided by opt_period unless the loss type is SUM:
    CROSS_ENTROPY is the mean over the rows (see ggml_cross_entropy_loss), MEAN_SQUARED_ERROR the mean over all
    elements.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        Tensor [1]; a NULL pointer while there is no graph.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
    enter(b"ggml_opt_loss")
    return wrap_tensor(context_arg(opt_ctx).loss)

def ggml_opt_pred(opt_ctx):
    """Gives the tensor of predicted classes: the index of each datapoint's largest output.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        i32 tensor [n]; a NULL pointer if the loss is not CROSS_ENTROPY, the outputs are not a matrix [classes, n],
        or there is no graph.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
    enter(b"ggml_opt_pred")
    return wrap_tensor(context_arg(opt_ctx).pred)

def ggml_opt_ncorrect(opt_ctx):
    """Gives the tensor that counts the correct predictions of a batch.

    A prediction is correct if it is the index of the largest element of the label.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        i64 tensor [1]; a NULL pointer where ggml_opt_pred is one.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
    enter(b"ggml_opt_ncorrect")
    return wrap_tensor(context_arg(opt_ctx).ncorrect)

def ggml_opt_grad_acc(opt_ctx, node):
    """Gives the tensor in which the gradient with respect to a parameter is accumulated.

    Args:
        opt_ctx: handle of the optimisation context.
        node: parameter of the graph, of any shape and any type.
    Returns:
        f32 tensor in the parameter's shape. A NULL pointer if node is not a parameter of the graph, or if gradients
        are not accumulated: with build_type OPT and an opt_period of 1.
    Raises:
        TypeError: opt_ctx is not an optimisation context, or node is not a tensor.
        RuntimeError: opt_ctx or the context of node was freed.
    """
    enter(b"ggml_opt_grad_acc")
    cdef State s = context_arg(opt_ctx).states.get(<size_t>arg_tensor(node, b"node"))
    return wrap_tensor(s.acc if s is not None else NULL)

def ggml_opt_context_optimizer_type(opt_ctx):
    """Tells which optimiser a context uses.

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        GGML_OPT_OPTIMIZER_TYPE_ADAMW or GGML_OPT_OPTIMIZER_TYPE_SGD (int).
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
    enter(b"ggml_opt_context_optimizer_type")
    return context_arg(opt_ctx).optimizer

def ggml_opt_optimizer_name(optimizer):
    """Gives the name of an optimiser.

    Args:
        optimizer: GGML_OPT_OPTIMIZER_TYPE_* (int).
    Returns:
        b"adamw" or b"sgd"; b"undefined" for any other number.
    Raises:
        TypeError: optimizer is not an integer.
        ValueError: optimizer does not fit into 32 bits.
    """
    enter(b"ggml_opt_optimizer_name")
    return {ADAMW: b"adamw", SGD: b"sgd"}.get(arg_int32(optimizer, b"optimizer"), b"undefined")

def ggml_opt_prepare_alloc(opt_ctx, ctx_compute, gf, inputs, outputs):
    """Supplies the forward graph for the next batches of a context without static graphs.

    It replaces the graph before. Loss, gradients and optimiser steps are added; moments and accumulated gradients
    of parameters that the context knows already are kept. Call ggml_opt_alloc next.

    Args:
        opt_ctx: handle of an optimisation context without static graphs.
        ctx_compute: context in which the graph was built.
        gf: forward graph that contains outputs, or None for the graph of everything that outputs depend on.
        inputs: input tensor of any shape and any type.
        outputs: f32 output tensor [n_out, n], with one row per datapoint.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: opt_ctx has static graphs, or outputs and loss do not fit.
        RuntimeError: opt_ctx, ctx_compute, the graph or a tensor was freed.
        MemoryError: there is not enough memory for the optimiser's state.
    """
    enter(b"ggml_opt_prepare_alloc")
    cdef Context o = context_arg(opt_ctx)
    if o.static_graphs:
        fail(ValueError, "the context has static graphs")
    arg_context(ctx_compute, b"ggml_opt_prepare_alloc")
    o.inputs, o.outputs = arg_tensor(inputs, b"inputs"), arg_tensor(outputs, b"outputs")
    try:
        o.build(gf)
    except BaseException:
        o.drop_graph()
        raise

def ggml_opt_alloc(opt_ctx, backward):
    """Prepares the next batch: allocates the graph and decides how far it is computed.

    Call it before each batch; afterwards inputs and labels can be written. Memory is allocated only if the graph is
    new or another graph used the scheduler since. With backward, the gradients are computed, and with build_type
    OPT the last batch of each period (see opt_period) ends with a step of the optimiser; the first one begins with
    accumulated gradients of zero.

    Args:
        opt_ctx: handle of the optimisation context.
        backward: True for training, False for evaluation only.
    Returns:
        None.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        ValueError: backward is True, but build_type is GGML_OPT_BUILD_TYPE_FORWARD.
        RuntimeError: opt_ctx was freed, there is no graph (see ggml_opt_prepare_alloc), or the scheduler is
            computing.
        MemoryError: there is not enough memory for the graph.
    """
    enter(b"ggml_opt_alloc")
    context_arg(opt_ctx).alloc(arg_bool(backward, b"backward"))

def ggml_opt_eval(opt_ctx, result):
    """Computes the batch that ggml_opt_alloc prepared: the outputs and the loss, in training also gradients and step.

    Before a step, get_opt_pars is called for the optimiser's parameters. Exceptions that it raises leave this
    function.

    Args:
        opt_ctx: handle of the optimisation context.
        result: result that collects loss, predictions and accuracy of the batch, or None.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind, or get_opt_pars returned no ggml_opt_optimizer_params.
        ValueError: get_opt_pars returned a number that is out of range, or result holds sums while the loss is a
            mean, or the reverse.
        RuntimeError: ggml_opt_alloc was not called, the computation failed, something was freed, or the loss is NaN
            or infinite; the message then names a tensor with such values.
    """
    enter(b"ggml_opt_eval")
    cdef Context o = context_arg(opt_ctx)
    o.eval(result_arg(result) if result is not None else None)

# ---- epochs ----------------------------------------------------------------------------------------------------------
cdef object epoch_callback(object o):
    """A Python callable for an argument that may be a callback, a callable or NULL."""
    if callable(o) and not isinstance(o, ctypes._CFuncPtr):
        return o
    cdef void *p = arg_callback(o, _structs.ggml_opt_epoch_callback, b"a callback")
    if p == NULL:
        return None
    return o if isinstance(o, ctypes._CFuncPtr) else _structs.ggml_opt_epoch_callback(<size_t>p)

cdef int run(Context o, Dataset d, object result, int64_t first, int64_t end, object callback, bint train) except -1:
    """Batches first to end, for training or evaluation."""
    cdef int64_t i
    cdef Result r = result_arg(result) if result is not None else None
    start = ggml_time_us()
    for i in range(first, end):
        enter(b"ggml_opt_epoch")
        o.alloc(train)
        d.batch(o.inputs, o.labels if d.labels != NULL else NULL, i)
        o.eval(r)
        if callback is not None:
            callback(bool(train), HANDLE(o), HANDLE(d), result, i + 1 - first, end - first, start)
            unpark()
            if <size_t>o.at not in live or <size_t>d.at not in live:
                enter(b"ggml_opt_epoch")
                fail(RuntimeError, "the callback freed what the epoch works with")
    return 0

def ggml_opt_epoch(opt_ctx, dataset, result_train, result_eval, idata_split, callback_train, callback_eval):
    """Trains on the first part of a dataset, batch by batch, and evaluates the rest.

    The size of a batch is ne1 of the context's inputs. The order is the dataset's current one (see
    ggml_opt_dataset_shuffle).

    Args:
        opt_ctx: handle of an optimisation context with static graphs.
        dataset: dataset whose datapoints and labels fit the context's inputs and labels, with a whole number of
            batches.
        result_train: result that collects the training batches, or None.
        result_eval: result that collects the evaluation batches, or None.
        idata_split: number of datapoints to train on, a multiple of the batch; negative for all.
        callback_train: called as callback(train, opt_ctx, dataset, result, ibatch, ibatch_max, t_start_us) after
            each training batch, or None. ibatch counts from 1 to ibatch_max, t_start_us is the start of the loop in
            ggml_time_us. A Python callable or a ggml_opt_epoch_callback.
        callback_eval: the same for the evaluation batches (train is False), or None.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the context has no static graphs, the dataset does not fit it, or idata_split is not allowed.
        RuntimeError: an object was freed, also by a callback, or the loss is not finite (see ggml_opt_eval).
    """
    enter(b"ggml_opt_epoch")
    cdef Context o = context_arg(opt_ctx)
    cdef Dataset d = dataset_arg(dataset)
    cdef int64_t split = arg_int(idata_split, b"idata_split"), batch
    if not o.static_graphs:
        fail(ValueError, "the context has no static graphs: only these can be fed by a dataset")
    batch = o.inputs.ne[1]
    if gg_nelements(o.inputs) != d.data.ne[0] * batch:
        fail(ValueError, f"inputs {tensor_text(o.inputs)} don't fit {tensor_text(d.data)}: need {d.data.ne[0]} elements for each of {batch} datapoints")
    if d.ndata % batch:
        fail(ValueError, f"{tensor_text(d.data)}: {d.ndata} datapoints are no whole number of batches of {batch}, see inputs {tensor_text(o.inputs)}")
    if split > d.ndata or (split >= 0 and split % batch):
        fail(ValueError, f"idata_split is {split}: need a multiple of the batch of {batch}, up to {d.ndata}")
    if (o.labels == NULL) != (d.labels == NULL):
        fail(ValueError, f"the loss needs {'no ' if o.labels == NULL else ''}labels, "
             f"the dataset has {'none' if d.labels == NULL else 'some'}")
    if o.labels != NULL and gg_nelements(o.labels) != d.labels.ne[0] * batch:
        fail(ValueError, f"labels {tensor_text(o.labels)} don't fit {tensor_text(d.labels)}")
    split = d.ndata if split < 0 else split
    on_train, on_eval = epoch_callback(callback_train), epoch_callback(callback_eval)
    run(o, d, result_train, 0, split // batch, on_train, True)
    run(o, d, result_eval, split // batch, d.ndata // batch, on_eval, False)

def ggml_opt_epoch_callback_progress_bar(train, opt_ctx, dataset, result, ibatch, ibatch_max, t_start_us):
    """Prints a progress bar to stderr: a callback for ggml_opt_epoch.

    The line shows batches, mean loss, accuracy (where it is known), time used and time left. It is rewritten after
    each batch and ends with a newline after the last one.

    Args:
        train: True for "train", False for "eval" at the beginning of the line.
        opt_ctx: not used.
        dataset: not used.
        result: result from which loss and accuracy are taken, or None.
        ibatch: number of batches that are done.
        ibatch_max: number of batches in all.
        t_start_us: start of the loop, in microseconds of ggml_time_us.
    Returns:
        None.
    Raises:
        TypeError: a number or the result is of the wrong kind.
        RuntimeError: result was freed.
    """
    enter(b"ggml_opt_epoch_callback_progress_bar")
    cdef int64_t i = arg_int(ibatch, b"ibatch"), n = max(arg_int(ibatch_max, b"ibatch_max"), 1)
    cdef Result r
    used = (ggml_time_us() - arg_int(t_start_us, b"t_start_us")) / 1e6
    text = f"\r{'train' if arg_bool(train, b'train') else 'eval':>5} [{'=' * (24 * min(max(i, 0), n) // n):<24}] {i}/{n}"
    if result is not None:
        r = result_arg(result)
        loss, accuracy = r.loss(), r.accuracy()
        text += f"  loss {loss[0]:.5f} ± {loss[1]:.5f}"
        if r.ncorrect >= 0:
            text += f"  accuracy {100 * accuracy[0]:.2f} ± {100 * accuracy[1]:.2f} %"
    print(text, f" {used:.1f} s, {used / max(i, 1) * (n - i):.1f} s left ", end="\n" if i >= n else "", file=sys.stderr, flush=True)

ggml_opt_epoch_callback_progress_bar._as_parameter_ = _structs.ggml_opt_epoch_callback(ggml_opt_epoch_callback_progress_bar)

def ggml_opt_fit(backend_sched, ctx_compute, inputs, outputs, dataset, loss_type, optimizer, get_opt_pars, nepoch, nbatch_logical,
                 val_split, silent):
    """Trains a model on a dataset: creates an optimisation context and runs all epochs.

    The dataset is shuffled once, which draws the validation part, and its training part before each epoch if it has
    more than nbatch_logical datapoints. Each epoch trains on the training part and evaluates the validation part
    (see ggml_opt_epoch).

    Args:
        backend_sched: handle of the scheduler that computes.
        ctx_compute: context in which inputs and outputs were built.
        inputs: input tensor of the dataset's type, [ne_datapoint, physical batch]. Its ne1 is the physical batch.
        outputs: f32 output tensor [n_out, physical batch].
        dataset: handle of the dataset. Its labels have n_out elements, unless loss_type takes none.
        loss_type: GGML_OPT_LOSS_TYPE_*.
        optimizer: GGML_OPT_OPTIMIZER_TYPE_*.
        get_opt_pars: function that gives the optimiser's parameters, see ggml_opt_get_optimizer_params. Its
            userdata is the address of the epoch, an int64 that counts from 1.
        nepoch: number of epochs.
        nbatch_logical: datapoints per step of the optimiser, a multiple of the physical batch and a divisor of the
            number of datapoints.
        val_split: fraction of the dataset for validation, 0 or more and less than 1.
        silent: True for no output; otherwise a progress bar on stderr.
    Returns:
        None. The parameters hold the trained values.
    Raises:
        TypeError: an argument is of the wrong kind, or get_opt_pars is NULL.
        ValueError: a number is not allowed, or dataset, inputs, outputs and loss do not fit.
        RuntimeError: an object was freed, or the loss is not finite (see ggml_opt_eval).
        MemoryError: there is not enough memory.
    """
    enter(b"ggml_opt_fit")
    cdef Dataset d = dataset_arg(dataset)
    cdef int64_t epochs = arg_int(nepoch, b"nepoch"), logical = arg_int(nbatch_logical, b"nbatch_logical"), physical = arg_tensor(inputs, b"inputs").ne[1], split
    cdef float part = arg_float(val_split, b"val_split")
    cdef bint quiet = arg_bool(silent, b"silent")
    if logical < 1 or d.ndata % logical or logical % physical:
        fail(ValueError, f"nbatch_logical is {logical}: need a divisor of the {d.ndata} datapoints "
             f"and a multiple of the batch of {physical}")
    if not 0 <= part < 1:
        fail(ValueError, f"val_split is {part}: need 0 or more and less than 1")
    split = <int64_t>((1 - part) * <float>(d.ndata // logical)) * logical
    epoch = ctypes.c_int64(1)
    getter = ggml_opt_get_optimizer_params(getter_of(get_opt_pars)) if callable(get_opt_pars) else get_opt_pars
    params = ggml_opt_default_params(backend_sched, loss_type)
    params.ctx_compute, params.inputs, params.outputs = ctx_compute, inputs, outputs
    params.opt_period, params.optimizer = logical // physical, optimizer
    params.get_opt_pars, params.get_opt_pars_ud = getter, ctypes.addressof(epoch)
    opt_ctx, results = ggml_opt_init(params), [ggml_opt_result_init(), ggml_opt_result_init()]
    bar = None if quiet else ggml_opt_epoch_callback_progress_bar
    try:
        if logical < d.ndata:
            ggml_opt_dataset_shuffle(opt_ctx, dataset, -1)       # what validates is a random part
        while epoch.value <= epochs:
            if logical < split:
                ggml_opt_dataset_shuffle(opt_ctx, dataset, split)
            for result in results:
                ggml_opt_result_reset(result)
            if not quiet:
                print(f"epoch {epoch.value}/{epochs}", file=sys.stderr)
            ggml_opt_epoch(opt_ctx, dataset, *results, split, bar, bar)
            epoch.value += 1
    finally:
        ggml_opt_free(opt_ctx)
        for result in results:
            ggml_opt_result_free(result)

# ---- checkpoints (functions of our own) --------------------------------------------------------------------------------
cdef bytes VERSION = b"ggml.opt.version"
cdef enum:
    FORMAT = 1

cdef list content(Context o):
    """What a checkpoint holds of a context: (name, tensor's address)."""
    cdef State s
    cdef list all = []
    cdef set seen = set()
    for i, s in enumerate(o.states.values()):
        name = name_text(s.param)
        if not name or name in seen or name.startswith("opt."):
            name = f"opt.param.{i}"
        seen.add(name)
        all.append((name, <size_t>s.param))
        all += [(f"opt.{kind}.{i}", t) for kind, t in (("acc", <size_t>s.acc), ("m", <size_t>s.m), ("v", <size_t>s.v)) if t]
    return all

cdef int need_states(Context o) except -1:
    if not o.states:
        fail(RuntimeError, "the context has no parameters yet: give it a graph first (ggml_opt_prepare_alloc)")
    return 0

cdef uint32_t key_sum(int64_t iteration, int64_t index, uint64_t random):
    return crc32(b"%d %d %d" % (iteration, index, random))

cdef uint32_t data_sum(ggml_tensor *t):
    return crc32(<const uint8_t[:gg_nbytes(t)]>t.data)

def ggml_opt_save(opt_ctx, fname, dataset=None):
    """Writes a checkpoint of a training run to a GGUF file.

    It holds the parameters, the optimiser's moments, the accumulated gradients of an unfinished period, the number
    of steps, the state of the random numbers, checksums, and the order of a dataset's shards. The file is complete
    or absent at any time: it replaces an older one only when it is fully written. This function is not part of the
    C library.

    Args:
        opt_ctx: handle of an optimisation context that has a graph.
        fname: path, as str, bytes or os.PathLike.
        dataset: dataset whose order is saved, or None.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        OSError: the file cannot be written.
        RuntimeError: opt_ctx or dataset was freed, or the context has no parameters yet.
    See also:
        ggml_opt_load, which resumes the run exactly.
    """
    enter(b"ggml_opt_save")
    cdef Context o = context_arg(opt_ctx)
    cdef Dataset d = dataset_arg(dataset) if dataset is not None else None
    cdef ggml_tensor *t
    cdef ggml_tensor *copy
    fname = arg_path(fname, b"fname")
    need_states(o)
    file, ctx = gguf_init_empty(), new_context(False)
    sums = array("I", [key_sum(o.iter, o.index, o.random)])       # of the keys, then of each tensor
    try:
        gguf_set_val_u64(file, VERSION, FORMAT)
        gguf_set_val_str(file, b"ggml.opt.optimizer", ggml_opt_optimizer_name(o.optimizer))
        gguf_set_val_i64(file, b"ggml.opt.period", o.period)
        gguf_set_val_i64(file, b"ggml.opt.iteration", o.iter)
        gguf_set_val_i64(file, b"ggml.opt.index", o.index)
        gguf_set_val_u64(file, b"ggml.opt.random", o.random)
        if d is not None:
            gguf_set_arr_data(file, b"ggml.opt.order", _constants.GGUF_TYPE_INT64, d.order, len(d.order))
        for name, address in content(o):
            t = <ggml_tensor *><size_t>address
            made = with_name(ggml_new_tensor(ctx, t.type, 4, [t.ne[i] for i in range(4)]), name)
            copy = arg_tensor(made, b"copy")
            read(t, copy.data, 0, gg_nbytes(t))
            gguf_add_tensor(file, made)
            sums.append(data_sum(copy))
        gguf_set_arr_data(file, b"ggml.opt.sums", _constants.GGUF_TYPE_UINT32, sums, len(sums))
        done = gguf_write_to_file(file, fname, False)
    finally:
        gguf_free(file)
        ggml_free(ctx)
    if not done:
        enter(b"ggml_opt_save")
        fail(OSError, f"{os.fsdecode(fname)!r} can't be written")

cdef object value(object file, bytes key, str fname, object get, int type):
    cdef int64_t i = gguf_find_key(file, key)
    enter(b"ggml_opt_load")
    if i < 0 or gguf_get_kv_type(file, i) != type:
        enter(b"ggml_opt_load")
        problem = "missing" if i < 0 else "of another type"
        fail(ValueError, f"{fname!r} is no checkpoint of a training run: key {key.decode()!r} is {problem}")
    return get(file, i)

cdef object array_of(object file, bytes key, str fname, int type, str code, Py_ssize_t count, str what):
    """An array in a checkpoint that must have so many numbers."""
    kind, n, data = value(file, key, fname, lambda f, i: (gguf_get_arr_type(f, i), gguf_get_arr_n(f, i), gguf_get_arr_data(f, i)),
                          _constants.GGUF_TYPE_ARRAY)
    enter(b"ggml_opt_load")
    if kind != type or n != count:
        fail(ValueError, f"key {key.decode()!r} of {fname!r} has {n} {what}: need {count} of type {type}")
    made = array(code, bytes(array(code).itemsize * count))
    ctypes.memmove(made.buffer_info()[0], data.value if isinstance(data, ctypes.c_void_p) else data, made.itemsize * count)
    return made

cdef object order_of(object file, Dataset d, str fname):
    """The order of a dataset's shards in a checkpoint."""
    order = array_of(file, b"ggml.opt.order", fname, _constants.GGUF_TYPE_INT64, "q", len(d.order), "shards")
    if sorted(order) != list(range(len(order))):
        fail(ValueError, f"key 'ggml.opt.order' of {fname!r} is no order of {len(order)} shards")
    return order

cdef dict tensors_of(object ctx):
    cdef dict all = {}
    t = ggml_get_first_tensor(ctx)
    while t:
        all[name_text(arg_tensor(t, b"tensor"))] = t
        t = ggml_get_next_tensor(ctx, t)
    return all

cdef int load(Context o, Dataset d, object file, object ctx, str fname) except -1:
    """Takes over a checkpoint, after everything in it was found to fit."""
    cdef ggml_tensor *t
    cdef ggml_tensor *s
    cdef int i, j
    cdef dict found
    version = value(file, VERSION, fname, gguf_get_val_u64, _constants.GGUF_TYPE_UINT64)
    optimizer = value(file, b"ggml.opt.optimizer", fname, gguf_get_val_str, _constants.GGUF_TYPE_STRING)
    numbers = [value(file, b"ggml.opt." + k, fname, gguf_get_val_i64, _constants.GGUF_TYPE_INT64)
               for k in (b"period", b"iteration", b"index")]
    random = value(file, b"ggml.opt.random", fname, gguf_get_val_u64, _constants.GGUF_TYPE_UINT64)
    order = order_of(file, d, fname) if d is not None else None
    found = tensors_of(ctx)
    ours = ggml_opt_optimizer_name(o.optimizer)
    enter(b"ggml_opt_load")
    if version != FORMAT:
        fail(ValueError, f"key 'ggml.opt.version' of {fname!r} is {version}: need {FORMAT}")
    if optimizer != ours:
        fail(ValueError, f"key 'ggml.opt.optimizer' of {fname!r} is {optimizer.decode()!r}: the context has {ours.decode()!r}")
    if numbers[0] != o.period:
        fail(ValueError, f"key 'ggml.opt.period' of {fname!r} is {numbers[0]}: the context has {o.period}")
    if numbers[1] < 1:
        fail(ValueError, f"key 'ggml.opt.iteration' of {fname!r} is {numbers[1]}: need 1 or more")
    if not 0 <= numbers[2] < o.period:
        fail(ValueError, f"key 'ggml.opt.index' of {fname!r} is {numbers[2]}: need 0 to {o.period - 1}")
    all = content(o)
    sums = array_of(file, b"ggml.opt.sums", fname, _constants.GGUF_TYPE_UINT32, "I", len(all) + 1, "checksums")
    if sums[0] != key_sum(numbers[1], numbers[2], random):
        fail(ValueError, f"keys 'ggml.opt.iteration', 'ggml.opt.index' or 'ggml.opt.random' of {fname!r} are damaged: see 'ggml.opt.sums'")
    for i, (name, address) in enumerate(all):
        t = <ggml_tensor *><size_t>address
        if name not in found:
            fail(ValueError, f"tensor {name!r} is missing in {fname!r}")
        s = arg_tensor(found[name], b"tensor")
        if s.type != t.type or [s.ne[j] for j in range(4)] != [t.ne[j] for j in range(4)]:
            fail(ValueError, f"tensor {tensor_text(s)} of {fname!r} does not fit {tensor_text(t)}")
        if sums[i + 1] != data_sum(s):
            fail(ValueError, f"tensor {tensor_text(s)} of {fname!r} is damaged: its checksum in key 'ggml.opt.sums' is another")
    for name, address in all:
        t, s = <ggml_tensor *><size_t>address, arg_tensor(found[name], b"tensor")
        write(t, s.data, 0, gg_nbytes(t))
    o.iter, o.index, o.random = numbers[1], numbers[2], random
    if order is not None:
        d.order = order
    return 0

def ggml_opt_load(opt_ctx, fname, dataset=None):
    """Restores a checkpoint of ggml_opt_save, so that training continues exactly where it was saved.

    The context, its parameters and the dataset must have been made as they were then. Everything in the file is
    checked before anything is changed. This function is not part of the C library.

    Args:
        opt_ctx: handle of an optimisation context with the same parameters, optimiser and opt_period.
        fname: path of the checkpoint, as str, bytes or os.PathLike.
        dataset: dataset whose order is restored, with as many shards as then; None to leave the order out.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        OSError: the file cannot be read.
        ValueError: the file is damaged, is not a checkpoint, or belongs to another model; the message names the key
            or tensor.
        RuntimeError: opt_ctx or dataset was freed, or the context has no parameters yet.
    """
    enter(b"ggml_opt_load")
    cdef Context o = context_arg(opt_ctx)
    cdef Dataset d = dataset_arg(dataset) if dataset is not None else None
    fname = arg_path(fname, b"fname")
    need_states(o)
    ctx = ctypes.c_void_p()
    file = gguf_init_from_file(fname, _structs.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(ctx)))
    try:
        load(o, d, file, ctx.value, os.fsdecode(fname))
    finally:
        gguf_free(file)
        ggml_free(ctx.value)
