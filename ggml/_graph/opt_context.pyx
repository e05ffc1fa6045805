"""The optimisation context, and how its graph is built.

A context has one graph: the caller's forward pass, the loss, the backward pass and the steps of the optimiser. Which of
these passes are computed is decided by the compute flags of the nodes, so that the graph is allocated once.
"""
import weakref

from libc.stdint cimport int32_t, int64_t

from .._core cimport (
    GGML_TENSOR_FLAG_COMPUTE, GGML_TENSOR_FLAG_PARAM, arg_graph, arg_tensor, enter, entered, fail, function_name,
    gg_nelements, ggml_cgraph, ggml_context, ggml_tensor, graph_expand, name_text, new_tensor, paused, set_name,
    tensor_text, wrap_tensor,
)
from .._enums cimport GGML_TYPE_F32
from .._backend.device cimport write
from .._handle cimport Handle, find, live, set_title
from .opt_params cimport ADAMW, CROSS_ENTROPY, FORWARD, GRAD, OPT, SQUARED_ERROR, SUM
from .. import _structs
from .._backend.buffer import ggml_backend_buffer_clear, ggml_backend_buffer_free
from .._core import ggml_free, ggml_init
from .._ops.elementwise import ggml_add_inplace, ggml_scale, ggml_sqr, ggml_sub
from .._ops.optimizer import ggml_opt_step_adamw, ggml_opt_step_sgd
from .._ops.reduce import ggml_argmax, ggml_count_equal, ggml_sum
from .._ops.softmax import ggml_cross_entropy_loss
from .._tensor.create import ggml_get_first_tensor
from .._tensor.properties import ggml_set_input, ggml_set_loss, ggml_set_output
from .alloc import ggml_backend_alloc_ctx_tensors
from .grad import ggml_build_backward_expand
from .graph import ggml_build_forward_expand, ggml_graph_cpy, ggml_graph_get_grad, ggml_new_graph_custom
from .sched import ggml_backend_sched_get_backend, ggml_backend_sched_reset

allocated = weakref.WeakValueDictionary()

cdef object new_context(bint no_alloc):
    cdef const char *name = entered()
    ctx = ggml_init(_structs.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=no_alloc))
    enter(name)
    return ctx

cdef ggml_tensor *new_named(object ctx, int type, object ne, str name) except NULL:
    """A new tensor with a name, in a context of `new_context`."""
    cdef int64_t sizes[4]
    cdef int i
    for i in range(len(ne)):
        sizes[i] = ne[i]
    cdef ggml_tensor *t = new_tensor(<ggml_context *><size_t>ctx, type, len(ne), sizes)
    set_name(t, name.encode(), b"")
    return t

cdef list shape_of(ggml_tensor *t):
    return [t.ne[i] for i in range(4)]

cdef object named(object tensor, str name):
    set_name(arg_tensor(tensor, b"tensor"), name.encode(), b"")
    return tensor

# ---- the context -----------------------------------------------------------------------------------------------------
cdef class State:
    """What is kept for a parameter from step to step; NULL where there is none."""

cdef class Context(Handle):
    cdef int drop_graph(self) except -1:
        """Frees the graph and what was made with it, and the scheduler's memory for it."""
        if allocated.get(self.sched) is self:
            if self.sched in live:
                ggml_backend_sched_reset(self.sched)     # raises while it computes
            del allocated[self.sched]
        self.labels = self.loss = self.pred = self.ncorrect = self.guard = NULL
        self.g, self.graph, self.ready, self.starts = NULL, None, False, []
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

set_title(Context, "optimisation context")

cdef Context arg_opt_context(object o):
    return <Context>find(o, Context, "opt_ctx")

# ---- building the graph ----------------------------------------------------------------------------------------------
cdef object loss_nodes(Context o, object outputs, object nodes, object fixed):
    """Builds the loss; sets labels, pred and ncorrect where the type of loss has them.

    The loss is divided by the number of batches in a step (unless it is a sum), because their gradients add up.
    """
    cdef object labels = None, loss, pred, right
    cdef ggml_tensor *t = o.outputs
    cdef float factor = <float>(1.0 / o.summands)
    if o.loss_type in (CROSS_ENTROPY, SQUARED_ERROR):
        o.labels = new_named(fixed, GGML_TYPE_F32, shape_of(t), "labels")
        labels = wrap_tensor(o.labels)
        ggml_set_input(labels)
    if o.loss_type == CROSS_ENTROPY:
        loss = ggml_cross_entropy_loss(nodes, outputs, labels)
    else:
        summands = ggml_sqr(nodes, ggml_sub(nodes, outputs, labels)) if o.loss_type == SQUARED_ERROR else outputs
        loss = ggml_sum(nodes, summands)
        if o.loss_type != SUM:
            factor /= <float>max(gg_nelements(t), 1)
    if factor != 1 and o.loss_type != SUM:
        loss = ggml_scale(nodes, loss, factor)
    named(loss, "loss")
    ggml_set_output(loss)
    ggml_set_loss(loss)
    o.loss = arg_tensor(loss, b"loss")
    if o.loss_type == CROSS_ENTROPY and t.ne[2] == 1 and t.ne[3] == 1:
        pred = named(ggml_argmax(nodes, outputs), "pred")
        ggml_set_output(pred)
        right = named(ggml_count_equal(nodes, pred, ggml_argmax(nodes, labels)), "ncorrect")
        ggml_set_output(right)
        o.pred, o.ncorrect = arg_tensor(pred, b"pred"), arg_tensor(right, b"ncorrect")
    return loss

cdef list parameters(Context o):
    """The addresses of the graph's parameters."""
    cdef int i
    return [<size_t>o.g.nodes[i] for i in range(o.g.n_nodes) if o.g.nodes[i].flags & GGML_TENSOR_FLAG_PARAM]

cdef int add_states(Context o, object fixed) except -1:
    """Creates the State of each parameter that has none yet."""
    cdef State s
    cdef bint accumulate = o.build_type == GRAD or o.period > 1
    for address in parameters(o):
        if address in o.states:
            continue
        s = State()
        s.param = <ggml_tensor *><size_t>address
        n, ne = len(o.states), shape_of(s.param)
        if accumulate:
            s.acc = new_named(fixed, GGML_TYPE_F32, ne, f"opt.acc.{n}")
        if o.build_type == OPT and o.optimizer == ADAMW:
            s.m = new_named(fixed, GGML_TYPE_F32, ne, f"opt.m.{n}")
            s.v = new_named(fixed, GGML_TYPE_F32, ne, f"opt.v.{n}")
        o.states[address] = s
    return 0

cdef bint allocate_states(Context o, object fixed) except -1:
    """Allocates the tensors of a context, all zero, for as long as `o` lives; False: there are none."""
    cdef const char *name = entered()
    if not ggml_get_first_tensor(fixed):
        return False
    buffer = ggml_backend_alloc_ctx_tensors(fixed, ggml_backend_sched_get_backend(o.sched, 0))
    if buffer is None:
        enter(name)
        fail(MemoryError, "there is no memory for the optimiser's state")
    o.arenas.append((fixed, buffer))
    ggml_backend_buffer_clear(buffer, 0)
    return True

cdef int build(Context o, object graph) except -1:
    """Builds the whole graph from the caller's forward graph; None: from everything that the outputs depend on.

    Errors of the functions that build it are reported as errors of the public function that runs.
    """
    cdef const char *name = entered()
    try:
        build_graph(o, graph)
    except (TypeError, ValueError, MemoryError, RuntimeError) as error:
        enter(name)
        if str(error).startswith(function_name() + ": "):
            raise
        fail(type(error), str(error))
    enter(name)
    return 0

cdef int build_graph(Context o, object graph) except -1:
    cdef ggml_tensor *seed = o.seed
    cdef dict states = dict(o.states)
    cdef float one = 1
    cdef bint used = False
    o.drop_graph()
    fixed = new_context(True)
    try:
        build_forward(o, graph, fixed)
        used = allocate_states(o, fixed)
    finally:
        if not used:
            o.seed, o.states = seed, states
            ggml_free(fixed)
    write(o.seed, &one, 0, 4)
    if o.build_type != FORWARD:
        ggml_build_backward_expand(o.nodes, o.graph, accumulators(o))
    if o.build_type == OPT:
        add_guard(o)
    o.n_grad = o.g.n_nodes
    if o.build_type == OPT:
        add_steps(o, {} if o.comm is None else add_reductions(o))
    return 0

cdef int build_forward(Context o, object graph, object fixed) except -1:
    """Builds the graph of the loss, and creates in `fixed` what is kept from step to step."""
    cdef ggml_cgraph *f
    cdef object outputs = wrap_tensor(o.outputs)
    cdef int size = 1024
    o.nodes = nodes = new_context(True)
    if graph is None:
        graph = ggml_new_graph_custom(nodes, 65536, False)
        ggml_build_forward_expand(graph, outputs)
    f = arg_graph(graph, b"gf")
    size += 16 * (f.n_nodes + f.n_leafs)
    o.graph = ggml_new_graph_custom(nodes, max(size, f.size), True)
    o.g = arg_graph(o.graph, b"graph")
    ggml_graph_cpy(graph, o.graph)
    ggml_set_input(wrap_tensor(o.inputs))
    ggml_set_output(outputs)
    ggml_build_forward_expand(o.graph, loss_nodes(o, outputs, nodes, fixed if o.static_graphs else nodes))
    if o.ncorrect != NULL:
        ggml_build_forward_expand(o.graph, wrap_tensor(o.ncorrect))
    o.n_forward = o.n_grad = o.g.n_nodes
    if o.seed == NULL:
        o.seed = new_named(fixed, GGML_TYPE_F32, (1,), "grad of loss")
        o.rates = new_named(fixed, GGML_TYPE_F32, (7 if o.optimizer == ADAMW else 2,), "rates")
        if o.build_type == OPT and o.summands > 1:
            o.total = new_named(fixed, GGML_TYPE_F32, (1,), "loss of the step")
    if o.build_type != FORWARD:
        add_states(o, fixed)
    return 0

cdef list accumulators(Context o):
    """For each node, the tensor that accumulates its gradient; None where there is none."""
    cdef State s
    cdef int i
    cdef list accs = [None] * o.g.n_nodes
    for i in range(o.g.n_nodes):
        s = o.states.get(<size_t>o.g.nodes[i])
        if s is not None and s.acc != NULL:
            accs[i] = wrap_tensor(s.acc)
        elif o.g.nodes[i] == o.loss:
            accs[i] = wrap_tensor(o.seed)
    return accs

cdef int add_guard(Context o) except -1:
    """Chooses the loss that must be finite for a step: that of its batch, or the sum over its batches."""
    o.guard = o.loss
    if o.total != NULL:
        added = ggml_add_inplace(o.nodes, wrap_tensor(o.total), wrap_tensor(o.loss))
        o.guard = arg_tensor(added, b"loss")
        ggml_build_forward_expand(o.graph, added)
    return 0

cdef int move_behind(Context o, ggml_tensor *node, set others) except -1:
    """Moves the last node of the graph to the place behind the last of `others` (addresses) in the backward pass."""
    cdef ggml_cgraph *g = o.g
    cdef int i = g.n_nodes - 1
    if g.nodes[i] != node:
        fail(RuntimeError, f"internal: {tensor_text(node)} is not the last node")
    while i > o.n_forward and <size_t>g.nodes[i - 1] not in others:
        g.nodes[i] = g.nodes[i - 1]
        i -= 1
    g.nodes[i] = node
    o.n_grad = g.n_nodes
    return 0

cdef dict add_reductions(Context o):
    """Lets o.comm add the sums of all ranks' gradients: by address of a parameter, the tensor of the sum.

    The losses are added up beside them, so that all ranks take a step or none does. Sums start to travel as soon as the
    backward pass has the gradients.
    """
    cdef ggml_tensor *start
    cdef dict sums = {}, owners = {}
    gradients = []
    for address in reversed(parameters(o)):
        gradient = ggml_graph_get_grad(o.graph, wrap_tensor(<ggml_tensor *><size_t>address))
        if gradient:
            owners[len(gradients)] = address
            gradients.append(gradient)
    gradients.append(wrap_tensor(o.guard))
    count = 0
    for bucket in paused(o.comm._reduce_gradients, (o.nodes, gradients)):
        start = arg_tensor(bucket.start, b"start")
        graph_expand(o.g, start, True)
        move_behind(o, start, {<size_t>arg_tensor(gradient, b"gradient") for gradient in bucket.gradients})
        o.starts.append(<size_t>start)
        for total in bucket.sums:
            if count in owners:
                sums[owners[count]] = total
            else:
                o.guard = arg_tensor(total, b"loss")
            count += 1
    return sums

cdef int add_steps(Context o, dict sums) except -1:
    """Adds the step of the optimiser for each parameter that has a gradient; sums: see add_reductions."""
    cdef State s
    ggml_set_output(wrap_tensor(o.guard))
    for address in list(sums) or parameters(o):
        s = o.states[address]
        param, rates = wrap_tensor(s.param), wrap_tensor(o.rates)
        gradient = sums.get(address) or ggml_graph_get_grad(o.graph, param)
        if not gradient:
            continue
        if o.optimizer == ADAMW:
            step = ggml_opt_step_adamw(o.nodes, param, gradient, wrap_tensor(s.m), wrap_tensor(s.v), rates)
        else:
            step = ggml_opt_step_sgd(o.nodes, param, gradient, rates)
        arg_tensor(step, b"step").src[5 if o.optimizer == ADAMW else 3] = o.guard
        ggml_build_forward_expand(o.graph, named(step, f"step of {name_text(s.param)}"[:63]))
    return 0

cdef int select_passes(Context o, int passes) except -1:
    """Marks the nodes to compute: of the forward pass, up to the gradients, or up to the optimiser's steps."""
    cdef int i, end = o.n_forward if passes == FORWARD else o.n_grad if passes == GRAD else o.g.n_nodes
    for i in range(o.n_forward, o.g.n_nodes):
        if i < end:
            o.g.nodes[i].flags |= GGML_TENSOR_FLAG_COMPUTE
        else:
            o.g.nodes[i].flags &= ~<int32_t>GGML_TENSOR_FLAG_COMPUTE
    if passes == GRAD:
        for address in o.starts:
            (<ggml_tensor *><size_t>address).flags &= ~<int32_t>GGML_TENSOR_FLAG_COMPUTE
    o.passes = passes
    return 0
