# The optimisation context, and the graph of a training step that it holds.
from libc.stdint cimport int64_t, uint64_t

from .._core cimport ggml_cgraph, ggml_tensor
from .._handle cimport Handle

cdef class State:
    cdef ggml_tensor *param
    cdef ggml_tensor *acc                    # the accumulated gradient
    cdef ggml_tensor *m                      # the moments of AdamW
    cdef ggml_tensor *v

cdef class Context(Handle):
    cdef object __weakref__
    cdef object sched, getter, userdata      # getter: function that gives the optimiser's parameters
    cdef object comm                         # ggml.distributed.Communicator, or None
    cdef int loss_type, build_type, period, optimizer
    cdef int summands                        # batches whose losses make up a step's: period, times the ranks of comm
    cdef list starts                         # the nodes after which gradients travel to other ranks
    cdef bint static_graphs, ready           # ready: the graph is allocated
    cdef int64_t iter                        # number of the next step, from 1
    cdef int index                           # batches since the last step
    cdef uint64_t random                     # state of the random numbers
    cdef list arenas                         # (context, buffer) of tensors that live as long as this object
    cdef dict states                         # address of a parameter: its State, in the order of the graph
    cdef object nodes                        # the ggml context of the graph
    cdef object graph
    cdef ggml_cgraph *g
    cdef int n_forward, n_grad               # number of nodes up to the loss and predictions, and up to the gradients
    cdef int passes                          # FORWARD, GRAD or OPT: how far the graph is computed
    cdef ggml_tensor *inputs
    cdef ggml_tensor *outputs
    cdef ggml_tensor *labels
    cdef ggml_tensor *loss
    cdef ggml_tensor *pred
    cdef ggml_tensor *ncorrect
    cdef ggml_tensor *seed                   # the gradient of the loss with respect to itself: 1
    cdef ggml_tensor *rates
    cdef ggml_tensor *total                  # the losses of a step's batches added up; NULL where a step has one batch
    cdef ggml_tensor *guard                  # the loss of all batches and ranks of a step, which must be finite for it
    cdef int drop_graph(self) except -1
    cdef int release(self) except -1

cdef object allocated                        # WeakValueDictionary, scheduler: the Context whose graph it has allocated
cdef Context arg_opt_context(object o)
cdef int build(Context o, object graph) except -1
cdef int select_passes(Context o, int passes) except -1
cdef object new_context(bint no_alloc)       # a ggml context
cdef ggml_tensor *new_named(object ctx, int type, object ne, str name) except NULL
