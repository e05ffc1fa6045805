"""Epochs: training and evaluation over a whole dataset, and the loop of ggml_opt_fit over them."""
import ctypes
import sys

from libc.stdint cimport int64_t

from .._core cimport (
    arg_bool, arg_callback, arg_float, arg_int, arg_tensor, enter, entered, fail, gg_nelements, is_a, tensor_text,
)
from .._handle cimport HANDLE, live
from .opt cimport eval_batch, prepare_batch
from .opt_context cimport Context, arg_opt_context
from .opt_dataset cimport Dataset, arg_dataset
from .opt_params cimport getter_of
from .opt_result cimport Result, arg_result
from .. import _structs
from .._core import run_callback
from .._system.cpu import ggml_time_us
from .opt import ggml_opt_free, ggml_opt_init
from .opt_dataset import ggml_opt_dataset_shuffle
from .opt_params import ggml_opt_default_params, ggml_opt_get_optimizer_params
from .opt_result import ggml_opt_result_free, ggml_opt_result_init, ggml_opt_result_reset

cdef object epoch_callback(object o):
    """A Python callable for an argument that may be a callback, a callable or NULL."""
    if callable(o) and not is_a(o, ctypes._CFuncPtr):
        return o
    cdef void *p = arg_callback(o, _structs.ggml_opt_epoch_callback, b"a callback")
    if p == NULL:
        return None
    return o if is_a(o, ctypes._CFuncPtr) else _structs.ggml_opt_epoch_callback(<size_t>p)

cdef int run_batches(Context o, Dataset d, object result, int64_t first, int64_t end, object callback,
                     bint train) except -1:
    """Trains on, or evaluates, the batches from first to end - 1."""
    cdef const char *name = entered()
    cdef int64_t i
    cdef Result r = arg_result(result) if result is not None else None
    start = ggml_time_us()
    for i in range(first, end):
        enter(name)
        prepare_batch(o, train)
        d.batch(o.inputs, o.labels if d.labels != NULL else NULL, i)
        eval_batch(o, r)
        if callback is not None:
            batch = bool(train), HANDLE(o), HANDLE(d), result, i + 1 - first, end - first, start
            run_callback(callback, batch)
            if <size_t>o.at not in live or <size_t>d.at not in live:
                enter(name)
                fail(RuntimeError, "the callback freed the context or the dataset")
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
    cdef Context o = arg_opt_context(opt_ctx)
    cdef Dataset d = arg_dataset(dataset)
    cdef int64_t split = arg_int(idata_split, b"idata_split"), batch
    if not o.static_graphs:
        fail(ValueError, "the context has no static graphs, which an epoch needs (see ggml_opt_init)")
    batch = o.inputs.ne[1]
    if gg_nelements(o.inputs) != d.data.ne[0] * batch:
        fail(ValueError, f"inputs {tensor_text(o.inputs)} don't fit {tensor_text(d.data)}: "
                         f"need {d.data.ne[0]} elements for each of {batch} datapoints")
    if batch < 1 or d.ndata % batch:
        fail(ValueError, f"{tensor_text(d.data)}: {d.ndata} datapoints are not a whole number of batches of {batch}, "
                         f"see inputs {tensor_text(o.inputs)}")
    if split > d.ndata or (split >= 0 and split % batch):
        fail(ValueError, f"idata_split is {split}: need a multiple of the batch of {batch}, up to {d.ndata}")
    if (o.labels == NULL) != (d.labels == NULL):
        fail(ValueError, f"the loss needs {'no ' if o.labels == NULL else ''}labels, "
                         f"the dataset has {'none' if d.labels == NULL else 'some'}")
    if o.labels != NULL and gg_nelements(o.labels) != d.labels.ne[0] * batch:
        fail(ValueError, f"labels {tensor_text(o.labels)} don't fit {tensor_text(d.labels)}")
    split = d.ndata if split < 0 else split
    on_train, on_eval = epoch_callback(callback_train), epoch_callback(callback_eval)
    run_batches(o, d, result_train, 0, split // batch, on_train, True)
    run_batches(o, d, result_eval, split // batch, d.ndata // batch, on_eval, False)

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
    left = used / max(i, 1) * (n - i)
    word, filled = "train" if arg_bool(train, b"train") else "eval", 24 * min(max(i, 0), n) // n
    text = f"\r{word:>5} [{'=' * filled:<24}] {i}/{n}"
    if result is not None:
        r = arg_result(result)
        loss, accuracy = r.loss(), r.accuracy()
        text += f"  loss {loss[0]:.5f} ± {loss[1]:.5f}"
        if r.ncorrect >= 0:
            text += f"  accuracy {100 * accuracy[0]:.2f} ± {100 * accuracy[1]:.2f} %"
    end = "\n" if i >= n else ""
    print(text, f" {used:.1f} s, {left:.1f} s left ", end=end, file=sys.stderr, flush=True)

# The value of this function when it is cast to a pointer.
ggml_opt_epoch_callback_progress_bar._as_parameter_ = \
    _structs.ggml_opt_epoch_callback(ggml_opt_epoch_callback_progress_bar)

def ggml_opt_fit(backend_sched, ctx_compute, inputs, outputs, dataset, loss_type, optimizer, get_opt_pars, nepoch,
                 nbatch_logical, val_split, silent):
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
    cdef Dataset d = arg_dataset(dataset)
    cdef int64_t epochs = arg_int(nepoch, b"nepoch"), logical = arg_int(nbatch_logical, b"nbatch_logical"), split
    cdef int64_t physical = arg_tensor(inputs, b"inputs").ne[1]
    cdef float part = arg_float(val_split, b"val_split")
    cdef bint quiet = arg_bool(silent, b"silent")
    if epochs < 0:
        fail(ValueError, f"nepoch is {epochs}: must not be negative")
    if physical < 1:
        fail(ValueError, f"inputs hold a batch of {physical} datapoints: need 1 or more")
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
    opt_ctx, results = ggml_opt_init(params), []
    bar = None if quiet else ggml_opt_epoch_callback_progress_bar
    try:
        results.append(ggml_opt_result_init())
        results.append(ggml_opt_result_init())
        if logical < d.ndata:
            ggml_opt_dataset_shuffle(opt_ctx, dataset, -1)   # validation takes a random part
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
