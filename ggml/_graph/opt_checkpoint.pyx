"""Checkpoints of training runs in GGUF files: ggml.ext.opt_save and ggml.ext.opt_load"""
import ctypes
import os
from array import array
from zlib import crc32

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint32_t, uint64_t

from .._core cimport (
    arg_path, arg_tensor, enter, fail, gg_nbytes, gg_same_shape, ggml_tensor, name_text, tensor_text, wrap_tensor,
)
from .._backend.device cimport read, write
from .opt_context cimport Context, State, arg_opt_context, new_context, new_named
from .opt_dataset cimport Dataset, arg_dataset
from .opt_params cimport OPT
from .. import _constants, _structs
from .._core import ggml_free
from .._errors import rename
from .._io.gguf import (
    gguf_find_key, gguf_free, gguf_get_arr_data, gguf_get_arr_n, gguf_get_arr_type, gguf_get_kv_type, gguf_get_val_i64,
    gguf_get_val_str, gguf_get_val_u64, gguf_init_empty,
)
from .._io.gguf_read import gguf_init_from_file
from .._io.gguf_write import (
    gguf_add_tensor, gguf_set_arr_data, gguf_set_val_i64, gguf_set_val_str, gguf_set_val_u64, _write_to_file,
)
from .._tensor.create import ggml_get_first_tensor, ggml_get_next_tensor
from .opt import ggml_opt_optimizer_name

cdef bytes VERSION = b"ggml.opt.version", ORDER = b"ggml.opt.order"
cdef enum:
    FORMAT = 2

cdef list content(Context o, int64_t index):
    """The tensors that a checkpoint holds: (name, address). `index` is the number of batches since the last step."""
    cdef bint accumulated = index > 0 or o.build_type != OPT     # else they are set to zero before they are used
    cdef State s
    cdef list all = []
    cdef set seen = set()
    for i, s in enumerate(o.states.values()):
        name = name_text(s.param)
        if not name or name in seen or name.startswith("opt."):
            name = f"opt.param.{i}"
        seen.add(name)
        all.append((name, <size_t>s.param))
        kept = (("acc", <size_t>s.acc if accumulated else 0), ("m", <size_t>s.m), ("v", <size_t>s.v))
        all += [(f"opt.{kind}.{i}", address) for kind, address in kept if address]
    return all

cdef int need_states(Context o) except -1:
    if not o.states:
        fail(RuntimeError, "the context has no parameters yet: give it a graph first (ggml_opt_prepare_alloc)")
    return 0

cdef uint32_t key_sum(int64_t iteration, int64_t index, uint64_t random, object order):
    return crc32(b"" if order is None else order, crc32(b"%d %d %d" % (iteration, index, random)))

cdef uint32_t data_sum(ggml_tensor *t):
    return crc32(PyMemoryView_FromMemory(<char *>t.data, gg_nbytes(t), PyBUF_READ))

def ext_opt_save(opt_ctx, fname, dataset=None):
    """Writes a checkpoint of a training run to a GGUF file.

    It holds the parameters, the optimiser's moments, the accumulated gradients of an unfinished period, the number
    of steps, the state of the random numbers, checksums, and the order of a dataset's shards. The file is complete
    or absent at any time: it replaces an older one only when it is fully written. With a communicator (see
    ggml_opt_init) all ranks have the same state, and one of them writes it; another number of ranks may resume. This
    function is not part of the C library.

    Args:
        opt_ctx: handle of an optimisation context that has a graph.
        fname: path, as str, bytes or os.PathLike.
        dataset: dataset whose order is saved, or None.
    Returns:
        None.
    Raises:
        TypeError: an argument is of the wrong kind.
        OSError: the file cannot be written.
        RuntimeError: opt_ctx or dataset was freed, the context has no parameters yet, or several ranks are within a
            period.
    See also:
        ggml.ext.opt_load, which resumes the run exactly.
    """
    enter(b"ggml.ext.opt_save")
    arg_opt_context(opt_ctx)
    cdef Dataset d = arg_dataset(dataset) if dataset is not None else None
    _save_checkpoint(opt_ctx, fname, None if d is None else d.order)

def _save_checkpoint(opt_ctx, fname, order):
    """ggml.ext.opt_save with the order of a dataset: an array of int64, or None."""
    enter(b"ggml.ext.opt_save")
    cdef Context o = arg_opt_context(opt_ctx)
    cdef ggml_tensor *t
    cdef ggml_tensor *copy
    given, fname = fname, arg_path(fname, b"fname")
    need_states(o)
    if o.index and o.summands != o.period:
        fail(RuntimeError, f"{o.index} of {o.period} batches of a step are computed, and other ranks have other "
                           "gradients: save after a step")
    sums = array("I", [key_sum(o.iter, o.index, o.random, order)])       # of the keys, then of each tensor
    ctx, file = new_context(False), None
    try:
        file = gguf_init_empty()
        gguf_set_val_u64(file, VERSION, FORMAT)
        gguf_set_val_str(file, b"ggml.opt.optimizer", ggml_opt_optimizer_name(o.optimizer))
        gguf_set_val_i64(file, b"ggml.opt.period", o.summands)
        gguf_set_val_i64(file, b"ggml.opt.iteration", o.iter)
        gguf_set_val_i64(file, b"ggml.opt.index", o.index)
        gguf_set_val_u64(file, b"ggml.opt.random", o.random)
        if order is not None:
            gguf_set_arr_data(file, ORDER, _constants.GGUF_TYPE_INT64, order, len(order))
        for name, address in content(o, o.index):
            t = <ggml_tensor *><size_t>address
            copy = new_named(ctx, t.type, [t.ne[i] for i in range(4)], name)
            read(t, copy.data, 0, gg_nbytes(t))
            gguf_add_tensor(file, wrap_tensor(copy))
            sums.append(data_sum(copy))
        gguf_set_arr_data(file, b"ggml.opt.sums", _constants.GGUF_TYPE_UINT32, sums, len(sums))
        _write_to_file(file, fname, False)
    except OSError as error:
        raise rename(error, "ggml.ext.opt_save", given) from None
    finally:
        if file is not None:
            gguf_free(file)
        ggml_free(ctx)

cdef object value(object file, bytes key, str fname, object get, int type):
    """The value of a key, read by get(file, index); it must be of a type."""
    cdef int64_t i = gguf_find_key(file, key)
    enter(b"ggml.ext.opt_load")
    if i < 0 or gguf_get_kv_type(file, i) != type:
        enter(b"ggml.ext.opt_load")
        problem = "missing" if i < 0 else "of another type"
        fail(ValueError, f"{fname!r} is not a checkpoint of a training run: key {key.decode()!r} is {problem}")
    return get(file, i)

cdef object array_of(object file, bytes key, str fname, int type, str code):
    """The numbers of an array in a checkpoint."""
    def get(file, i):
        return gguf_get_arr_type(file, i), gguf_get_arr_n(file, i), gguf_get_arr_data(file, i)

    kind, n, data = value(file, key, fname, get, _constants.GGUF_TYPE_ARRAY)
    enter(b"ggml.ext.opt_load")
    if kind != type:
        fail(ValueError, f"key {key.decode()!r} of {fname!r} has items of type {kind}: need {type}")
    made = array(code, bytes(array(code).itemsize * n))
    ctypes.memmove(made.buffer_info()[0], data, made.itemsize * n)
    return made

cdef object order_of(object file, str fname):
    """The order of a dataset's shards in a checkpoint; None if it has none."""
    if gguf_find_key(file, ORDER) < 0:
        return None
    order = array_of(file, ORDER, fname, _constants.GGUF_TYPE_INT64, "q")
    if sorted(order) != list(range(len(order))):
        fail(ValueError, f"key 'ggml.opt.order' of {fname!r} is not a permutation of {len(order)} shards")
    return order

cdef dict tensors_of(object ctx):
    """The tensors of a context by name."""
    cdef dict all = {}
    t = ggml_get_first_tensor(ctx)
    while t:
        all[name_text(arg_tensor(t, b"tensor"))] = t
        t = ggml_get_next_tensor(ctx, t)
    return all

cdef tuple checked_keys(Context o, object file, str fname):
    """Iteration, index and random state in a checkpoint, after all keys were found to fit the context."""
    version = value(file, VERSION, fname, gguf_get_val_u64, _constants.GGUF_TYPE_UINT64)
    optimizer = value(file, b"ggml.opt.optimizer", fname, gguf_get_val_str, _constants.GGUF_TYPE_STRING)
    period, iteration, index = [value(file, b"ggml.opt." + k, fname, gguf_get_val_i64, _constants.GGUF_TYPE_INT64)
                                for k in (b"period", b"iteration", b"index")]
    random = value(file, b"ggml.opt.random", fname, gguf_get_val_u64, _constants.GGUF_TYPE_UINT64)
    ours = ggml_opt_optimizer_name(o.optimizer)
    enter(b"ggml.ext.opt_load")
    if version != FORMAT:
        fail(ValueError, f"key 'ggml.opt.version' of {fname!r} is {version}: need {FORMAT}")
    if optimizer != ours:
        fail(ValueError, f"key 'ggml.opt.optimizer' of {fname!r} is {optimizer.decode()!r}: "
                         f"the context has {ours.decode()!r}")
    if period != o.summands:
        fail(ValueError, f"key 'ggml.opt.period' of {fname!r} is {period}: the context has {o.summands}")
    if iteration < 1:
        fail(ValueError, f"key 'ggml.opt.iteration' of {fname!r} is {iteration}: need 1 or more")
    limit = o.period if o.period == o.summands else 1
    if not 0 <= index < limit:
        fail(ValueError, f"key 'ggml.opt.index' of {fname!r} is {index}: need 0 to {limit - 1}")
    return iteration, index, random

cdef int check_tensors(list wanted, dict found, object sums, str fname) except -1:
    """Each wanted tensor is in the file, fits the one in memory and has its checksum."""
    cdef ggml_tensor *t
    cdef ggml_tensor *s
    cdef int i
    for i, (name, address) in enumerate(wanted):
        t = <ggml_tensor *><size_t>address
        if name not in found:
            fail(ValueError, f"tensor {name!r} is missing in {fname!r}")
        s = arg_tensor(found[name], b"tensor")
        if s.type != t.type or not gg_same_shape(s, t):
            fail(ValueError, f"tensor {tensor_text(s)} of {fname!r} does not fit {tensor_text(t)}")
        if sums[i + 1] != data_sum(s):
            fail(ValueError, f"tensor {tensor_text(s)} of {fname!r} is damaged: "
                             "its checksum differs from that in key 'ggml.opt.sums'")
    return 0

cdef class Checkpoint:
    """An open checkpoint, all of which fits a context. Nothing is changed before `restore`.

    Attributes:
        order: order of the shards of a dataset (array of int64), or None.
        steps: steps that were done.
    """
    cdef Context o
    cdef object file, ctx
    cdef str name
    cdef dict found
    cdef list wanted
    cdef int64_t iteration
    cdef int index
    cdef uint64_t random
    cdef readonly object order

    def __init__(self, opt_ctx, fname):
        enter(b"ggml.ext.opt_load")
        self.o = arg_opt_context(opt_ctx)
        given, fname = fname, arg_path(fname, b"fname")
        need_states(self.o)
        ctx = ctypes.c_void_p()
        try:
            self.file = gguf_init_from_file(fname, _structs.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(ctx)))
        except ValueError as error:
            raise rename(error, "ggml.ext.opt_load", os.fsdecode(fname)) from None
        except OSError as error:
            raise rename(error, "ggml.ext.opt_load", given) from None
        self.ctx, self.name = ctx.value, os.fsdecode(fname)
        try:
            enter(b"ggml.ext.opt_load")         # what was called has entered another name
            self.check()
        except BaseException:
            self.close()
            raise

    cdef int check(self) except -1:
        """Raises unless everything in the file fits the context."""
        self.found = tensors_of(self.ctx)
        self.iteration, self.index, self.random = checked_keys(self.o, self.file, self.name)
        self.order = order_of(self.file, self.name)
        self.wanted = content(self.o, self.index)
        sums = array_of(self.file, b"ggml.opt.sums", self.name, _constants.GGUF_TYPE_UINT32, "I")
        if len(sums) != len(self.wanted) + 1:
            fail(ValueError, f"key 'ggml.opt.sums' of {self.name!r} has {len(sums)} checksums: "
                             f"need {len(self.wanted) + 1}")
        if sums[0] != key_sum(self.iteration, self.index, self.random, self.order):
            fail(ValueError, "keys 'ggml.opt.iteration', 'ggml.opt.index', 'ggml.opt.random' or 'ggml.opt.order' of "
                             f"{self.name!r} are damaged: see 'ggml.opt.sums'")
        return check_tensors(self.wanted, self.found, sums, self.name)

    @property
    def steps(self):
        return self.iteration - 1

    def restore(self, dataset=None):
        """Changes the context, and the order of a dataset, to what the checkpoint holds."""
        cdef Dataset d = arg_dataset(dataset) if dataset is not None else None
        cdef ggml_tensor *t
        cdef ggml_tensor *s
        if d is not None and self.order is None:
            fail(ValueError, f"{self.name!r} has no order of a dataset: key 'ggml.opt.order' is missing")
        if d is not None and len(self.order) != len(d.order):
            fail(ValueError, f"key 'ggml.opt.order' of {self.name!r} has {len(self.order)} shards: "
                             f"the dataset has {len(d.order)}")
        for name, address in self.wanted:
            t, s = <ggml_tensor *><size_t>address, arg_tensor(self.found[name], b"tensor")
            write(t, s.data, 0, gg_nbytes(t))
        self.o.iter, self.o.index, self.o.random = self.iteration, self.index, self.random
        if d is not None:
            d.order = self.order

    def close(self):
        file, self.file = self.file, None
        if file is not None:
            gguf_free(file)
            ggml_free(self.ctx)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

def ext_opt_load(opt_ctx, fname, dataset=None):
    """Restores a checkpoint of ggml.ext.opt_save, so that training continues exactly where it was saved.

    The context, its parameters and the dataset must have been made as they were then. Everything in the file is
    checked before anything is changed. This function is not part of the C library.

    Args:
        opt_ctx: handle of an optimisation context with the same parameters, optimiser and opt_period; with
            communicators, opt_period times the number of ranks must be the same.
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
    enter(b"ggml.ext.opt_load")
    arg_opt_context(opt_ctx)
    if dataset is not None:
        arg_dataset(dataset)
    checkpoint = Checkpoint(opt_ctx, fname)
    try:
        enter(b"ggml.ext.opt_load")
        checkpoint.restore(dataset)
    finally:
        checkpoint.close()
