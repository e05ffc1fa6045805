"""Optimisation contexts: creating them, computing batches with them, and their tensors."""
import ctypes
import math
from array import array

from libc.math cimport isfinite, pow
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from .._core cimport (
    arg_bool, arg_context, arg_int32, arg_tensor, enter, entered, fail, gg_contiguous, gg_nbytes, gg_nelements,
    ggml_tensor, is_a, outside, repr_short, tensor_text, wrap_tensor,
)
from .._enums cimport GGML_TYPE_F32
from .._backend.device cimport read, write
from .._handle cimport HANDLE, opened
from .opt_context cimport Context, State, allocated, arg_opt_context, build, select_passes
from .opt_params cimport ADAMW, BUILDS, FORWARD, GRAD, LOSSES, OPT, OPTIMIZERS, SGD, SUM, Rates, arg_choice, getter_of
from .opt_result cimport Result, arg_result
from .. import _structs
from .._backend.transfer import ggml_backend_tensor_memset
from .._core import run_callback
from .sched import (
    ggml_backend_sched_alloc_graph, ggml_backend_sched_get_backend, ggml_backend_sched_graph_compute,
    ggml_backend_sched_reset,
)

# ---- computing a batch -----------------------------------------------------------------------------------------------
cdef int prepare_batch(Context o, bint backward) except -1:
    cdef const char *name = entered()
    cdef int passes = FORWARD
    if o.g == NULL:
        fail(RuntimeError, "there is no graph: call ggml_opt_prepare_alloc first")
    if backward and o.build_type == FORWARD:
        fail(ValueError, "backward is True: the context was made for forward passes (build_type)")
    if backward:
        passes = o.build_type if (o.index + 1) % o.period == 0 else GRAD
        if o.build_type == OPT and o.index == 0:
            zero_gradients(o)
    select_passes(o, passes)
    if allocated.get(o.sched) is not o or not o.ready:
        allocated.pop(o.sched, None)
        ggml_backend_sched_reset(o.sched)
        if not ggml_backend_sched_alloc_graph(o.sched, o.graph):
            enter(name)
            fail(MemoryError, "there is no memory for the graph")
        allocated[o.sched] = o
    enter(name)
    o.ready = True
    return 0

cdef double LARGEST_RATE = 1e6      # larger learning rates are mistakes: f32 weights overflow after a few steps

cdef int check_rate(str name, double value, double low, double high) except -1:
    if not low <= value <= high or not isfinite(value):
        fail(ValueError, f"get_opt_pars: {name} is {value}: need {low:g} to {high:g}")
    return 0

cdef int set_rates(Context o) except -1:
    """Calls get_opt_pars and writes the parameters of the next step to the tensor of rates."""
    cdef const char *name = entered()
    cdef float k[7]
    cdef Rates r
    made = run_callback(o.getter, (o.userdata,))
    enter(name)
    check_alive(o, "get_opt_pars")
    if not is_a(made, _structs.ggml_opt_optimizer_params):
        fail(TypeError, f"get_opt_pars returned {repr_short(made)}: need a ggml_opt_optimizer_params")
    memcpy(&r, <void *><size_t>ctypes.addressof(made), sizeof(Rates))
    if o.optimizer == SGD:
        check_rate("sgd.alpha (learning rate)", r.sgd_alpha, 0, LARGEST_RATE)
        check_rate("sgd.wd (weight decay)", r.sgd_wd, 0, 1)
        k[0], k[1] = r.sgd_alpha, r.sgd_wd
        return write(o.rates, k, 0, 8)
    check_rate("adamw.alpha (learning rate)", r.alpha, 0, LARGEST_RATE)
    check_rate("adamw.beta1", r.beta1, 0, 0.9999999)
    check_rate("adamw.beta2", r.beta2, 0, 0.9999999)
    check_rate("adamw.eps", r.eps, 0, math.inf)
    check_rate("adamw.wd (weight decay)", r.wd, 0, 1)
    k[0], k[1], k[2], k[3], k[4] = r.alpha, r.beta1, r.beta2, r.eps, r.wd
    k[5], k[6] = <float>(1 / (1 - pow(r.beta1, o.iter))), <float>(1 / (1 - pow(r.beta2, o.iter)))
    return write(o.rates, k, 0, 28)

cdef int eval_batch(Context o, Result result) except -1:
    cdef const char *name = entered()
    cdef int status
    cdef float loss
    if not o.ready:
        fail(RuntimeError, "call ggml_opt_alloc first")
    if o.passes == OPT:
        set_rates(o)
    status = ggml_backend_sched_graph_compute(o.sched, o.graph)
    enter(name)
    check_alive(o, "a callback or another thread")
    if status:
        fail(RuntimeError, f"computing the graph failed with status {status}")
    read(o.loss, &loss, 0, 4)
    check_loss(o, loss)
    if o.passes != FORWARD:
        o.iter += o.passes == OPT
        o.index = (o.index + 1) % o.period
    if result is not None:
        record(o, result, loss)
    return 0

cdef int check_loss(Context o, float loss) except -1:
    """Raises if a loss is not finite. No step was taken then, and the next batch begins a new one.

    All ranks raise together, in the last batch of a step.
    """
    cdef float total = loss
    if o.passes == OPT:
        read(o.guard, &total, 0, 4)
    elif o.passes == GRAD and o.build_type == OPT and o.comm is not None and o.comm.size > 1:
        return 0
    if isfinite(total):
        return 0
    if o.build_type == OPT and o.passes != FORWARD:
        o.index = 0
    if isfinite(loss):
        fail(RuntimeError, f"{tensor_text(o.loss)} of an earlier batch or another rank is {total} after {o.iter - 1} "
                           "steps: the parameters were not changed")
    fail(RuntimeError, f"{tensor_text(o.loss)} is {loss} after {o.iter - 1} steps: the parameters were not changed; "
                       f"{cause_of_nan(o)}")

cdef int check_alive(Context o, str who) except -1:
    """Raises if the graph was freed while it was in use."""
    if not o.ready:
        fail(RuntimeError, f"{who} freed the context, or its graph")
    return 0

cdef int record(Context o, Result r, float loss) except -1:
    """Adds a computed batch to a result."""
    cdef int64_t right
    cdef bytes raw
    per_datapoint = o.loss_type != SUM
    if len(r.losses) and r.per_datapoint != per_datapoint:
        fail(ValueError, "result has losses of another kind: sums and means don't add up (ggml_opt_result_reset)")
    r.per_datapoint = per_datapoint
    r.ndata += o.outputs.ne[1]
    r.losses.append(loss * o.summands if per_datapoint else loss)
    if o.pred == NULL:
        r.ncorrect = -1
        return 0
    raw = bytes(gg_nbytes(o.pred))
    read(o.pred, <char *>raw, 0, gg_nbytes(o.pred))
    r.pred.frombytes(raw)
    read(o.ncorrect, &right, 0, 8)
    if r.ncorrect >= 0:
        r.ncorrect += right
    return 0

cdef str cause_of_nan(Context o):
    """Which tensor may have made the loss NaN or infinite."""
    cdef list suspects = [<size_t>o.inputs, <size_t>o.labels] + list(o.states)
    for address in suspects:
        if address and not all_finite(<ggml_tensor *><size_t>address):
            return f"{tensor_text(<ggml_tensor *><size_t>address)} has values that are NaN or infinite"
    return "inputs, labels and parameters are finite: it arose between them and the loss"

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

cdef int clear(ggml_tensor *t) except -1:
    if t != NULL:
        ggml_backend_tensor_memset(wrap_tensor(t), 0, 0, gg_nbytes(t))
    return 0

cdef int zero_gradients(Context o) except -1:
    cdef State s
    for s in o.states.values():
        clear(s.acc)
    return clear(o.total)

cdef int reset(Context o, bint optimizer) except -1:
    cdef State s
    zero_gradients(o)
    o.index = 0
    if optimizer:
        for s in o.states.values():
            clear(s.m)
            clear(s.v)
        o.iter = 1
    return 0

cdef object ranks_of(object comm):
    """The number of ranks of a communicator; None: it is not one."""
    cdef object size = comm.size if hasattr(comm, "_reduce_gradients") and hasattr(comm, "size") else None
    return size if type(size) is int and size > 0 else None

# ---- functions of contexts -------------------------------------------------------------------------------------------
cdef object context_of_params(const char *name, object params, object comm):
    """What the public function `name` returns: the handle of a new context."""
    enter(name)
    cdef Context o = Context()
    if not is_a(params, _structs.ggml_opt_params):
        fail(TypeError, f"params is {repr_short(params)}: need a ggml_opt_params")
    if params.backend_sched is None:
        fail(TypeError, "params.backend_sched is None: need a scheduler")
    o.sched, o.static_graphs = params.backend_sched, params.ctx_compute is not None
    try:
        ggml_backend_sched_get_backend(o.sched, 0)   # raises if it is not a scheduler
    except (TypeError, RuntimeError) as error:
        enter(name)
        fail(type(error), "params.backend_" + str(error).partition(": ")[2])
    enter(name)
    o.loss_type = arg_choice(params.loss_type, b"loss_type", LOSSES)
    o.build_type = arg_choice(params.build_type, b"build_type", BUILDS)
    o.optimizer = arg_choice(params.optimizer, b"optimizer", OPTIMIZERS)
    o.period, o.iter, o.random = params.opt_period, 1, 0
    if o.period < 1:
        fail(ValueError, f"opt_period is {o.period}: need 1 or more")
    o.getter, o.userdata = getter_of(params.get_opt_pars), params.get_opt_pars_ud
    cdef object ranks = 1 if comm is None else outside(ranks_of, comm)
    if ranks is None:
        fail(TypeError, f"comm is {repr_short(comm)}: need a ggml.distributed.Communicator")
    o.comm, o.summands = comm, o.period * ranks
    o.arenas, o.states = [], {}
    if o.static_graphs != bool(params.inputs) or o.static_graphs != bool(params.outputs):
        fail(ValueError, "only some of ctx_compute, inputs and outputs are set: static graphs need all three, "
                         "graphs of ggml_opt_prepare_alloc none")
    if o.static_graphs:
        arg_context(params.ctx_compute, name)
        o.inputs, o.outputs = arg_tensor(params.inputs, b"inputs"), arg_tensor(params.outputs, b"outputs")
    try:
        if o.static_graphs:
            build(o, None)
        return HANDLE(opened(o))
    except BaseException:
        o.release()
        raise

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
        TypeError: params or a field of it is of the wrong kind, or params.backend_sched or params.get_opt_pars is NULL.
        ValueError: a field has a value that is not allowed, only some of ctx_compute, inputs and outputs are set,
            or outputs and loss do not fit.
        RuntimeError: the scheduler or a tensor's context was freed.
        MemoryError: there is not enough memory for the optimiser's state.
    See also:
        ggml.ext.opt_init, which trains on several ranks.
    """
    return context_of_params(b"ggml_opt_init", params, None)

def ext_opt_init(params, comm):
    """Creates an optimisation context as ggml_opt_init does, for training on several ranks.

    The batches of all ranks count: before a step the gradients are summed over the ranks, while the backward pass still
    runs. All ranks must create the same context and compute the same number of batches.

    Args:
        params: ggml_opt_params, as for ggml_opt_init.
        comm: ggml.distributed.Communicator, or None for one rank.
    Returns:
        Handle (int) of the context. Free it with ggml_opt_free.
    Raises:
        TypeError: as ggml_opt_init, or comm is not a communicator.
        ValueError: as ggml_opt_init.
        RuntimeError: the scheduler or a tensor's context was freed.
        MemoryError: there is not enough memory for the optimiser's state.
    """
    return context_of_params(b"ggml.ext.opt_init", params, comm)

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
        arg_opt_context(opt_ctx).release()

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
    reset(arg_opt_context(opt_ctx), arg_bool(optimizer, b"optimizer"))

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
    return bool(arg_opt_context(opt_ctx).static_graphs)

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
    return wrap_tensor(arg_opt_context(opt_ctx).inputs)

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
    return wrap_tensor(arg_opt_context(opt_ctx).outputs)

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
    return wrap_tensor(arg_opt_context(opt_ctx).labels)

def ggml_opt_loss(opt_ctx):
    """Gives the tensor of the loss that is minimised.

    Its value is the loss of the last computed batch: for CROSS_ENTROPY the mean over the rows (see
    ggml_cross_entropy_loss), for MEAN_SQUARED_ERROR and MEAN the mean over all elements. Unless the loss type is
    SUM, it is divided by opt_period and the number of ranks (see ggml_opt_init).

    Args:
        opt_ctx: handle of the optimisation context.
    Returns:
        Tensor [1]; a NULL pointer while there is no graph.
    Raises:
        TypeError: opt_ctx is not an optimisation context.
        RuntimeError: opt_ctx was freed.
    """
    enter(b"ggml_opt_loss")
    return wrap_tensor(arg_opt_context(opt_ctx).loss)

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
    return wrap_tensor(arg_opt_context(opt_ctx).pred)

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
    return wrap_tensor(arg_opt_context(opt_ctx).ncorrect)

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
    cdef State s = arg_opt_context(opt_ctx).states.get(<size_t>arg_tensor(node, b"node"))
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
    return arg_opt_context(opt_ctx).optimizer

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
    cdef Context o = arg_opt_context(opt_ctx)
    if o.static_graphs:
        fail(ValueError, "the context has static graphs")
    arg_context(ctx_compute, b"ggml_opt_prepare_alloc")
    o.inputs, o.outputs = arg_tensor(inputs, b"inputs"), arg_tensor(outputs, b"outputs")
    try:
        build(o, gf)
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
    prepare_batch(arg_opt_context(opt_ctx), arg_bool(backward, b"backward"))

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
            or infinite; the message then names a tensor with such values. The parameters keep their values, and the
            next batch begins a new step; with several ranks all raise, in the last batch of the step.
    """
    enter(b"ggml_opt_eval")
    cdef Context o = arg_opt_context(opt_ctx)
    eval_batch(o, arg_result(result) if result is not None else None)
