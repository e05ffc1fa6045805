"""ctypes mirrors of the engine's structs, the pointers to them, the callback types and the handle types.

This module needs neither NumPy nor the compiled core. The core sets `_core_guard` and
`ggml_tensor_p._describe` when it is imported, `_graph.graph_copy` sets `ggml_backend_graph_copy._copy`.
"""

import ctypes
import functools
import sys
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    sizeof,
)
from typing import NewType

from ._constants import (
    GGML_BACKEND_META_MAX_DEVICES,
    GGML_MAX_DIMS,
    GGML_MAX_N_THREADS,
    GGML_MAX_NAME,
    GGML_MAX_OP_PARAMS,
    GGML_MAX_SRC,
)

# ---------------------------------------------------------------------------------------------------------------------
# Pointers to structs
# ---------------------------------------------------------------------------------------------------------------------


class _StructPointer(ctypes._Pointer):
    """A ctypes pointer that is equal to, and hashes as, every other pointer to the same struct."""

    __slots__ = ()

    def _address(self):
        return ctypes.addressof(self.contents) if self else 0

    def __eq__(self, other):
        return self._address() == other._address() if type(other) is type(self) else NotImplemented

    def __hash__(self):
        return hash(self._address())

    # Set by the core: maps a pointer to a short description of the struct, or to None if the struct may be freed.
    _describe = None

    def __repr__(self):
        name, describe = self._type_.__name__, type(self)._describe
        if not self:
            return f"<{name} NULL>"
        words = describe(self) if describe else None
        return f"<{name} {words} at {self._address():#x}>" if words else f"<{name} at {self._address():#x}>"


class _Struct(Structure):
    """A ctypes struct whose constructor refuses names that are not those of fields; ctypes would ignore them."""

    def __init__(self, *values, **fields):
        for name in fields:
            if name not in _field_names(type(self)):
                _no_such_field(type(self), name)
        try:
            Structure.__init__(self, *values, **fields)
        except TypeError:
            _name_wrong_value(self, values, fields)
            raise


def _name_wrong_value(struct, values, fields):
    """Raises the TypeError for a value that a field cannot hold, with the field's name; ctypes does not tell it."""
    for name, value in (*zip(_field_names(type(struct)), values), *fields.items()):
        try:
            setattr(struct, name, value)
        except TypeError as error:
            raise TypeError(f"{type(struct).__name__}: {name} is {value!r}: {error}") from None


@functools.cache
def _field_names(struct):
    return tuple(field[0] for class_ in struct.__mro__ for field in class_.__dict__.get("_fields_", ()))


def _no_such_field(struct, name):
    """Raises the TypeError for a keyword that is not a field, with the nearest name."""
    from difflib import get_close_matches  # here, because it is slow to import

    names = _field_names(struct)
    nearest = get_close_matches(name, names, 1, 0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"need one of {', '.join(names)}"
    raise TypeError(f"{struct.__name__}: {name!r} is not a field: {hint}")


def _is_pointer_to(struct, pointer):
    """Makes POINTER(struct) return `pointer`, also in fields, arrays and callbacks. Call it before struct._fields_."""
    if sys.version_info >= (3, 14):
        struct.__pointer_type__ = pointer
    else:
        ctypes._pointer_type_cache[struct] = pointer


# ---------------------------------------------------------------------------------------------------------------------
# Callback types
# ---------------------------------------------------------------------------------------------------------------------


def _core_guard(function, restype, on_error):
    """Wraps `function` for C. The core replaces it: exceptions, which ctypes would print, are raised by the call."""
    return function


def _keep_text(function):
    """Wraps `function` so that the texts it returned live as long as the callback: C reads them after the call."""
    kept = {}

    def call(*args):
        text = function(*args)
        if text is None or isinstance(text, int):  # NULL, or an address that the callback keeps valid
            return text
        if isinstance(text, str):
            text = text.encode()
        if not isinstance(text, bytes):
            raise TypeError(f"the callback returned {text!r}: need bytes")
        if text not in kept:
            kept[text] = ctypes.create_string_buffer(text)
        return ctypes.addressof(kept[text])

    return call


_CFuncPtr = CFUNCTYPE(None).__mro__[1]


def callback(name, restype, *argtypes, doc, on_error=None):
    """Creates a callback type: `CFUNCTYPE(restype, *argtypes)` whose exceptions are raised by the running call.

    `on_error` is the result that C receives from a callback that raised; the default is 0, NULL or False. The
    attribute `prototype` is the plain CFUNCTYPE: fields and arguments have that type, so that they accept both.
    An instance is created from a Python callable, an address or another C function, as in ctypes.
    """
    prototype = CFUNCTYPE(restype, *argtypes)
    if restype is not None and on_error is None:
        on_error = None if restype is c_void_p or restype is c_char_p else 0

    def new(cls, *args):
        if len(args) != 1 or not callable(args[0]):
            return prototype.__new__(cls, *args)
        function = args[0]
        if isinstance(function, _CFuncPtr):  # called directly, not via Python
            self = prototype.__new__(cls, ctypes.cast(function, c_void_p).value or 0)
        else:
            safe = _keep_text(function) if restype is c_char_p else function
            self = prototype.__new__(cls, _core_guard(safe, restype, on_error))
        self.__wrapped__ = function
        return self

    body = {
        "_flags_": prototype._flags_,
        "_argtypes_": argtypes,
        "_restype_": restype,
        "prototype": prototype,
        "__new__": new,
        "__doc__": doc,
        "__module__": __name__,
    }
    return type(prototype)(name, (prototype,), body)


# ---------------------------------------------------------------------------------------------------------------------
# Handles: opaque addresses. An int (or None for NULL) in Python, c_void_p for ctypes.
# ---------------------------------------------------------------------------------------------------------------------

ggml_context_p = NewType("ggml_context_p", int)
ggml_context_p_ctypes = c_void_p
gguf_context_p = NewType("gguf_context_p", int)
gguf_context_p_ctypes = c_void_p
ggml_threadpool_t = NewType("ggml_threadpool_t", int)
ggml_threadpool_t_ctypes = c_void_p
ggml_gallocr = NewType("ggml_gallocr", int)
ggml_gallocr_ctypes = c_void_p

ggml_opt_dataset_t = NewType("ggml_opt_dataset_t", int)
ggml_opt_dataset_t_ctypes = c_void_p
ggml_opt_context_t = NewType("ggml_opt_context_t", int)
ggml_opt_context_t_ctypes = c_void_p
ggml_opt_result_t = NewType("ggml_opt_result_t", int)
ggml_opt_result_t_ctypes = c_void_p

ggml_backend_buffer_type_t = NewType("ggml_backend_buffer_type_t", int)
ggml_backend_buffer_type_t_ctypes = c_void_p
ggml_backend_buffer_type_context_t = NewType("ggml_backend_buffer_type_context_t", int)
ggml_backend_buffer_type_context_t_ctypes = c_void_p
ggml_backend_buffer_t = NewType("ggml_backend_buffer_t", int)
ggml_backend_buffer_t_ctypes = c_void_p
ggml_backend_buffer_context_t = NewType("ggml_backend_buffer_context_t", int)
ggml_backend_buffer_context_t_ctypes = c_void_p
ggml_backend_t = NewType("ggml_backend_t", int)
ggml_backend_t_ctypes = c_void_p
ggml_backend_context_t = NewType("ggml_backend_context_t", int)
ggml_backend_context_t_ctypes = c_void_p
ggml_backend_graph_plan_t = NewType("ggml_backend_graph_plan_t", int)
ggml_backend_graph_plan_t_ctypes = c_void_p
ggml_backend_event_t = NewType("ggml_backend_event_t", int)
ggml_backend_event_t_ctypes = c_void_p
ggml_backend_dev_t = NewType("ggml_backend_dev_t", int)
ggml_backend_dev_t_ctypes = c_void_p
ggml_backend_reg_t = NewType("ggml_backend_reg_t", int)
ggml_backend_reg_t_ctypes = c_void_p
ggml_backend_sched_t = NewType("ggml_backend_sched_t", int)
ggml_backend_sched_t_ctypes = c_void_p

# Functions that return a struct by value: ctypes cannot create such callbacks, so these are addresses
ggml_opt_get_optimizer_params = c_void_p
ggml_backend_meta_get_split_state_t = c_void_p

ggml_guid_ctypes = c_uint8 * 16
ggml_guid_t_ctypes = POINTER(ggml_guid_ctypes)

# ---------------------------------------------------------------------------------------------------------------------
# Numbers, contexts and tensors
# ---------------------------------------------------------------------------------------------------------------------

ggml_fp16_t = c_uint16


class ggml_bf16_t(_Struct):
    """A bfloat16 number: the upper half of a float32.

    bits: the 16 bits.
    """

    _fields_ = [("bits", c_uint16)]


class ggml_init_params(_Struct):
    """Parameters of `ggml_init`.

    mem_size: bytes of the arena; 0 for one that grows.
    mem_buffer: address of memory of that size; None to allocate it.
    no_alloc: True if tensors get a header but no data.
    """

    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


class ggml_scratch(_Struct):
    """A scratch buffer: while it is set, tensor data is placed there instead of in the context's arena.

    offs: bytes in use.
    size: bytes in total.
    data: address of the memory; None for no scratch buffer.
    """

    _fields_ = [("offs", c_size_t), ("size", c_size_t), ("data", c_void_p)]


class ggml_object(_Struct):
    """Header of an object in a context's arena.

    offs: offset of the content from the arena's start, in bytes.
    size: bytes of the content.
    next: the object after this one.
    type: GGML_OBJECT_TYPE_*.
    """


class ggml_object_p(_StructPointer):
    """Pointer to a ggml_object."""

    __slots__ = ()

    _type_ = ggml_object


_is_pointer_to(ggml_object, ggml_object_p)
ggml_object._fields_ = [
    ("offs", c_size_t),
    ("size", c_size_t),
    ("next", ggml_object_p),
    ("type", c_int),
    ("padding", c_char * 4),
]


class ggml_tensor(_Struct):
    """An array of up to four dimensions, and the operation that computes it.

    type: GGML_TYPE_* of the elements.
    buffer: handle of the backend buffer that holds the data; None for data in a context.
    ne: number of elements along each dimension, the innermost first.
    nb: stride of each dimension in bytes; for a quantised type, nb[0] is the size of a block.
    op: GGML_OP_*; GGML_OP_NONE for a leaf.
    op_params: the operation's parameters, 32-bit words.
    flags: sum of GGML_TENSOR_FLAG_*.
    src: the operands; unused entries are NULL pointers.
    view_src: the tensor in whose memory a view lies; view_offs: offset of the view in it, in bytes.
    data: address of the first element; None until it is allocated.
    name: text of up to 63 bytes.
    extra: reserved for backends.
    """


class ggml_tensor_p(_StructPointer):
    """Pointer to a ggml_tensor: what tensor functions take and return; `.contents` is the struct."""

    __slots__ = ()

    _type_ = ggml_tensor

    def _repr_html_(self):
        from ._view.tensor import html

        return html(self)


_is_pointer_to(ggml_tensor, ggml_tensor_p)
ggml_tensor._fields_ = [
    ("type", c_int),
    ("buffer", c_void_p),
    ("ne", c_int64 * GGML_MAX_DIMS),
    ("nb", c_size_t * GGML_MAX_DIMS),
    ("op", c_int),
    ("op_params", c_int32 * (GGML_MAX_OP_PARAMS // sizeof(c_int32))),
    ("flags", c_int32),
    ("src", ggml_tensor_p * GGML_MAX_SRC),
    ("view_src", ggml_tensor_p),
    ("view_offs", c_size_t),
    ("data", c_void_p),
    ("name", c_char * GGML_MAX_NAME),
    ("extra", c_void_p),
    ("padding", c_char * 8),
]

GGML_OBJECT_SIZE = sizeof(ggml_object)
GGML_TENSOR_SIZE = sizeof(ggml_tensor)

# ---------------------------------------------------------------------------------------------------------------------
# Graphs, computing and custom operations
# ---------------------------------------------------------------------------------------------------------------------

ggml_abort_callback_t = callback(
    "ggml_abort_callback_t", None, c_char_p, doc="(message): called with the message of ggml_abort before it raises."
)
ggml_abort_callback = callback(
    "ggml_abort_callback",
    c_bool,
    c_void_p,
    on_error=True,  # an exception stops the compute too
    doc="(data) -> bool: called between the nodes of a compute; True stops it with GGML_STATUS_ABORTED.",
)
ggml_log_callback = callback(
    "ggml_log_callback", None, c_int, c_char_p, c_void_p, doc="(level, text, user_data): receives messages."
)


class ggml_hash_set(_Struct):
    """A hash table of the tensors of a graph, by address.

    size: number of slots.
    used: one bit for each slot.
    keys: the tensor in each slot.
    """

    _fields_ = [("size", c_size_t), ("used", POINTER(c_uint32)), ("keys", POINTER(ggml_tensor_p))]


class ggml_cgraph(_Struct):
    """Tensors in the order in which they are computed.

    size: largest number of nodes, and of leafs.
    n_nodes, n_leafs: number of nodes and of leafs.
    nodes: tensors to compute; leafs: constants and inputs.
    grads, grad_accs: gradient and gradient accumulator by hash slot; NULL for a graph without gradients.
    use_counts: number of nodes that read a tensor, by hash slot.
    visited_hash_set: the tensors of the graph.
    order: GGML_CGRAPH_EVAL_ORDER_*, the order in which operands are visited.
    uid: number that identifies the graph, 0 for none.
    """


class ggml_cgraph_p(_StructPointer):
    """Pointer to a ggml_cgraph: what graph functions take and return."""

    __slots__ = ()

    _type_ = ggml_cgraph

    def _repr_svg_(self):
        from .profiler import graph_svg

        return graph_svg(self)


_is_pointer_to(ggml_cgraph, ggml_cgraph_p)
ggml_cgraph._fields_ = [
    ("size", c_int),
    ("n_nodes", c_int),
    ("n_leafs", c_int),
    ("nodes", POINTER(ggml_tensor_p)),
    ("grads", POINTER(ggml_tensor_p)),
    ("grad_accs", POINTER(ggml_tensor_p)),
    ("leafs", POINTER(ggml_tensor_p)),
    ("use_counts", POINTER(c_int32)),
    ("visited_hash_set", ggml_hash_set),
    ("order", c_int),
    ("uid", c_uint64),
]


class ggml_cplan(_Struct):
    """A plan for computing a graph, returned by `ggml_graph_plan`.

    work_size: bytes of work memory that the caller provides in work_data.
    n_threads: number of threads.
    threadpool: handle of a thread pool; None for the default one.
    abort_callback: stops the compute when it returns True; called with abort_callback_data.
    use_ref: True for the plain reference kernels.
    """


class ggml_cplan_p(_StructPointer):
    """Pointer to a ggml_cplan."""

    __slots__ = ()

    _type_ = ggml_cplan


_is_pointer_to(ggml_cplan, ggml_cplan_p)
ggml_cplan._fields_ = [
    ("work_size", c_size_t),
    ("work_data", POINTER(c_uint8)),
    ("n_threads", c_int),
    ("threadpool", c_void_p),
    ("abort_callback", ggml_abort_callback.prototype),
    ("abort_callback_data", c_void_p),
    ("use_ref", c_bool),
]

GGML_CPLAN_SIZE = sizeof(ggml_cplan)


class ggml_compute_params(_Struct):
    """Parameters of a thread that computes a node.

    type: GGML_TASK_TYPE_*.
    ith, nth: index of the thread and number of threads.
    wsize, wdata: bytes and address of the shared work memory.
    """


class ggml_compute_params_p(_StructPointer):
    """Pointer to a ggml_compute_params."""

    __slots__ = ()

    _type_ = ggml_compute_params


_is_pointer_to(ggml_compute_params, ggml_compute_params_p)
ggml_compute_params._fields_ = [
    ("type", c_int),
    ("ith", c_int),
    ("nth", c_int),
    ("wsize", c_size_t),
    ("wdata", c_void_p),
]


class ggml_threadpool_params(_Struct):
    """Parameters of a thread pool.

    cpumask: True for each CPU that may be used; all False for any CPU.
    n_threads: number of threads.
    prio: GGML_SCHED_PRIO_*.
    poll: how long threads spin before they sleep, from 0 (not at all) to 100.
    strict_cpu: True to bind each thread to one CPU.
    paused: True to start the pool paused.
    """

    _fields_ = [
        ("cpumask", c_bool * GGML_MAX_N_THREADS),
        ("n_threads", c_int),
        ("prio", c_int),
        ("poll", c_uint32),
        ("strict_cpu", c_bool),
        ("paused", c_bool),
    ]


_floats = POINTER(c_float)

ggml_unary_op_f32_t = callback(
    "ggml_unary_op_f32_t", None, c_int, _floats, _floats, doc="(n, dst, a): computes a row of n elements."
)
ggml_binary_op_f32_t = callback(
    "ggml_binary_op_f32_t", None, c_int, _floats, _floats, _floats, doc="(n, dst, a, b): computes a row of n elements."
)
ggml_custom1_op_f32_t = callback(
    "ggml_custom1_op_f32_t", None, *[ggml_tensor_p] * 2, doc="(dst, a): computes dst on one thread."
)
ggml_custom2_op_f32_t = callback(
    "ggml_custom2_op_f32_t", None, *[ggml_tensor_p] * 3, doc="(dst, a, b): computes dst on one thread."
)
ggml_custom3_op_f32_t = callback(
    "ggml_custom3_op_f32_t", None, *[ggml_tensor_p] * 4, doc="(dst, a, b, c): computes dst on one thread."
)

_thread = (c_int, c_int, c_void_p)
ggml_custom1_op_t = callback(
    "ggml_custom1_op_t",
    None,
    *[ggml_tensor_p] * 2,
    *_thread,
    doc="(dst, a, ith, nth, userdata): computes one thread's share.",
)
ggml_custom2_op_t = callback(
    "ggml_custom2_op_t",
    None,
    *[ggml_tensor_p] * 3,
    *_thread,
    doc="(dst, a, b, ith, nth, userdata): as ggml_custom1_op_t.",
)
ggml_custom3_op_t = callback(
    "ggml_custom3_op_t",
    None,
    *[ggml_tensor_p] * 4,
    *_thread,
    doc="(dst, a, b, c, ith, nth, userdata): as ggml_custom1_op_t.",
)
ggml_custom_op_t = callback(
    "ggml_custom_op_t",
    None,
    ggml_tensor_p,
    *_thread,
    doc="(dst, ith, nth, userdata): as ggml_custom1_op_t; the operands are dst's src.",
)

# ---------------------------------------------------------------------------------------------------------------------
# Types
# ---------------------------------------------------------------------------------------------------------------------

ggml_to_float_t = callback(
    "ggml_to_float_t", None, c_void_p, _floats, c_int64, doc="(x, y, k): converts k elements to float32."
)
ggml_from_float_t = callback(
    "ggml_from_float_t", None, _floats, c_void_p, c_int64, doc="(x, y, k): converts k elements from float32."
)
ggml_vec_dot_t = callback(
    "ggml_vec_dot_t",
    None,
    c_int,
    _floats,
    c_size_t,
    c_void_p,
    c_size_t,
    c_void_p,
    c_size_t,
    c_int,
    doc="(n, s, bs, x, bx, y, by, nrc): s[0] = dot product of n elements; bs, bx, by: row strides in bytes.",
)


class ggml_type_traits(_Struct):
    """Properties of an element type.

    type_name: name of the type.
    blck_size: elements of a block.
    blck_size_interleave: number of interleaved blocks; 0 for none.
    type_size: bytes of a block.
    is_quantized: True for quantised types.
    to_float, from_float_ref: convert rows to and from float32.
    """


class ggml_type_traits_p(_StructPointer):
    """Pointer to a ggml_type_traits."""

    __slots__ = ()

    _type_ = ggml_type_traits


_is_pointer_to(ggml_type_traits, ggml_type_traits_p)
ggml_type_traits._fields_ = [
    ("type_name", c_char_p),
    ("blck_size", c_int64),
    ("blck_size_interleave", c_int64),
    ("type_size", c_size_t),
    ("is_quantized", c_bool),
    ("to_float", ggml_to_float_t.prototype),
    ("from_float_ref", ggml_from_float_t.prototype),
]
ggml_type_traits_t = ggml_type_traits


class ggml_type_traits_cpu(_Struct):
    """Functions of the CPU for an element type.

    from_float: converts a row from float32.
    vec_dot: computes the dot product with a row of type vec_dot_type (GGML_TYPE_*).
    nrows: number of rows that one call of vec_dot computes.
    """


class ggml_type_traits_cpu_p(_StructPointer):
    """Pointer to a ggml_type_traits_cpu."""

    __slots__ = ()

    _type_ = ggml_type_traits_cpu


_is_pointer_to(ggml_type_traits_cpu, ggml_type_traits_cpu_p)
ggml_type_traits_cpu._fields_ = [
    ("from_float", ggml_from_float_t.prototype),
    ("vec_dot", ggml_vec_dot_t.prototype),
    ("vec_dot_type", c_int),
    ("nrows", c_int64),
]

# ---------------------------------------------------------------------------------------------------------------------
# GGUF and training
# ---------------------------------------------------------------------------------------------------------------------

gguf_reader_callback_t = callback(
    "gguf_reader_callback_t",
    c_size_t,
    c_void_p,
    c_void_p,
    c_size_t,
    c_size_t,
    doc="(userdata, output, offset, size) -> bytes read: reads a file for the GGUF parser; 0 after an exception.",
)


class gguf_init_params(_Struct):
    """Parameters of `gguf_init_from_file`.

    no_alloc: True to create the tensors without their data.
    ctx: pointer that receives a new context with the file's tensors; NULL for no context.
    """

    _fields_ = [("no_alloc", c_bool), ("ctx", POINTER(c_void_p))]


class ggml_opt_optimizer_params_adamw(_Struct):
    """Parameters of AdamW.

    alpha: learning rate.
    beta1, beta2: decay rates of the moving averages of the gradient and the squared gradient.
    eps: added to the denominator.
    wd: weight decay.
    """

    _fields_ = [("alpha", c_float), ("beta1", c_float), ("beta2", c_float), ("eps", c_float), ("wd", c_float)]


class ggml_opt_optimizer_params_sgd(_Struct):
    """Parameters of stochastic gradient descent.

    alpha: learning rate.
    wd: weight decay.
    """

    _fields_ = [("alpha", c_float), ("wd", c_float)]


class ggml_opt_optimizer_params(_Struct):
    """Parameters of both optimisers, adamw and sgd; the one that is used reads its own."""

    _fields_ = [("adamw", ggml_opt_optimizer_params_adamw), ("sgd", ggml_opt_optimizer_params_sgd)]


class ggml_opt_params(_Struct):
    """Parameters of an optimisation context.

    backend_sched: handle of the scheduler that computes.
    ctx_compute, inputs, outputs: context, inputs and outputs of a static graph; None to provide a graph each time.
    loss_type, build_type, optimizer: GGML_OPT_LOSS_TYPE_*, GGML_OPT_BUILD_TYPE_*, GGML_OPT_OPTIMIZER_TYPE_*.
    opt_period: number of physical batches for each step of the optimiser.
    get_opt_pars: address of the function that returns the parameters of a step; called with get_opt_pars_ud.
    """

    _fields_ = [
        ("backend_sched", c_void_p),
        ("ctx_compute", c_void_p),
        ("inputs", ggml_tensor_p),
        ("outputs", ggml_tensor_p),
        ("loss_type", c_int),
        ("build_type", c_int),
        ("opt_period", c_int32),
        ("get_opt_pars", ggml_opt_get_optimizer_params),
        ("get_opt_pars_ud", c_void_p),
        ("optimizer", c_int),
    ]


ggml_opt_epoch_callback = callback(
    "ggml_opt_epoch_callback",
    None,
    c_bool,
    c_void_p,
    c_void_p,
    c_void_p,
    c_int64,
    c_int64,
    c_int64,
    doc="(train, opt_ctx, dataset, result, ibatch, ibatch_max, t_start_us): called after each batch of an epoch.",
)

# ---------------------------------------------------------------------------------------------------------------------
# Allocators, devices and the scheduler
# ---------------------------------------------------------------------------------------------------------------------


class ggml_tallocr(_Struct):
    """An allocator that places tensors one after the other in a buffer.

    buffer: handle of the buffer; base: address of its memory.
    alignment: alignment of the tensors in bytes; offset: bytes in use.
    """

    _fields_ = [("buffer", c_void_p), ("base", c_void_p), ("alignment", c_size_t), ("offset", c_size_t)]


ggml_tallocr_t_ctypes = POINTER(ggml_tallocr)


class ggml_backend_dev_caps(_Struct):
    """Capabilities of a device.

    async: True if it computes asynchronously.
    host_buffer: True if it allocates pinned host memory.
    buffer_from_host_ptr: True if it can use the caller's memory.
    events: True if it has events.
    """

    _fields_ = [("async", c_bool), ("host_buffer", c_bool), ("buffer_from_host_ptr", c_bool), ("events", c_bool)]


class ggml_backend_dev_props(_Struct):
    """Properties of a device.

    name, description: text.
    memory_free, memory_total: bytes.
    type: GGML_BACKEND_DEVICE_TYPE_*.
    device_id: address on the bus; None if it has none.
    caps: capabilities.
    """

    _fields_ = [
        ("name", c_char_p),
        ("description", c_char_p),
        ("memory_free", c_size_t),
        ("memory_total", c_size_t),
        ("type", c_int),
        ("device_id", c_char_p),
        ("caps", ggml_backend_dev_caps),
    ]


class ggml_backend_meta_split_state(_Struct):
    """How a tensor is split over the devices of a meta device.

    axis: GGML_BACKEND_SPLIT_AXIS_*.
    ne: number of elements along the axis, for each segment and device.
    nr: number of repetitions of each segment.
    n_segments: number of segments.
    """

    _fields_ = [
        ("axis", c_int),
        ("ne", c_int64 * (16 * GGML_BACKEND_META_MAX_DEVICES)),
        ("nr", c_uint32 * 16),
        ("n_segments", c_uint32),
    ]


ggml_backend_sched_eval_callback = callback(
    "ggml_backend_sched_eval_callback",
    c_bool,
    ggml_tensor_p,
    c_bool,
    c_void_p,
    doc="(tensor, ask, user_data) -> bool: with ask, True requests a call after the compute; without, False cancels.",
)
ggml_backend_eval_callback = callback(
    "ggml_backend_eval_callback",
    c_bool,
    c_int,
    ggml_tensor_p,
    ggml_tensor_p,
    c_void_p,
    doc="(index, a, b, user_data) -> bool: compares the results of two backends; False ends the comparison.",
)


class ggml_backend_graph_copy(_Struct):
    """A copy of a graph on another backend. The call ggml_backend_graph_copy(backend, graph) creates the copy.

    buffer: handle of the buffer that holds the copied tensors.
    ctx_allocated, ctx_unallocated: contexts of the copied tensors with and without data.
    graph: the copy.
    """

    _fields_ = [
        ("buffer", c_void_p),
        ("ctx_allocated", c_void_p),
        ("ctx_unallocated", c_void_p),
        ("graph", ggml_cgraph_p),
    ]

    _copy = None  # set by ggml._graph.graph_copy: (backend, graph) -> ggml_backend_graph_copy

    def __init__(self, *args, **fields):
        if "backend" in fields or (len(args) == 2 and not isinstance(args[1], (int, c_void_p, type(None)))):
            made = type(self)._copy(*args, **fields)
            args, fields = [getattr(made, name) for name, _ in self._fields_], {}
        super().__init__(*args, **fields)


ggml_backend_graph_copy_t = ggml_backend_graph_copy

# ---------------------------------------------------------------------------------------------------------------------
# Backends written in Python: tables of callbacks. The first argument is the address of the struct with the table.
# ---------------------------------------------------------------------------------------------------------------------


def _table(**slots):
    return [(name, type_.prototype) for name, type_ in slots.items()]


_buft = _buffer = _backend = _event = _plan = _device = _registry = c_void_p
_transfer = (ggml_tensor_p, c_void_p, c_size_t, c_size_t)

ggml_backend_buffer_type_i_get_name = callback(
    "ggml_backend_buffer_type_i_get_name", c_char_p, _buft, doc="(buft) -> bytes."
)
ggml_backend_buffer_i_alloc_buffer = callback(
    "ggml_backend_buffer_i_alloc_buffer",
    _buffer,
    _buft,
    c_size_t,
    doc="(buft, size) -> buffer; None if there is no memory.",
)
ggml_backend_buffer_i_get_alignment = callback(
    "ggml_backend_buffer_i_get_alignment", c_size_t, _buft, doc="(buft) -> alignment of tensors in bytes."
)
ggml_backend_buffer_i_get_max_size = callback(
    "ggml_backend_buffer_i_get_max_size", c_size_t, _buft, doc="(buft) -> bytes of the largest buffer."
)
ggml_backend_buffer_i_get_alloc_size = callback(
    "ggml_backend_buffer_i_get_alloc_size",
    c_size_t,
    _buft,
    ggml_tensor_p,
    doc="(buft, tensor) -> bytes for the tensor.",
)
ggml_backend_buffer_i_supports_backend = callback(
    "ggml_backend_buffer_i_supports_backend",
    c_bool,
    _buft,
    _backend,
    doc="(buft, backend) -> bool: the backend can use the type.",
)
ggml_backend_buffer_i_is_host = callback(
    "ggml_backend_buffer_i_is_host", c_bool, _buft, doc="(buft) -> bool: the CPU can read and write it."
)


class ggml_backend_buffer_type_i(_Struct):
    """Callbacks of a buffer type. get_name, alloc_buffer and get_alignment are required, the others may be NULL."""

    _fields_ = _table(
        get_name=ggml_backend_buffer_type_i_get_name,
        alloc_buffer=ggml_backend_buffer_i_alloc_buffer,
        get_alignment=ggml_backend_buffer_i_get_alignment,
        get_max_size=ggml_backend_buffer_i_get_max_size,
        get_alloc_size=ggml_backend_buffer_i_get_alloc_size,
        supports_backend=ggml_backend_buffer_i_supports_backend,
        is_host=ggml_backend_buffer_i_is_host,
    )


class ggml_backend_buffer_type(_Struct):
    """A buffer type.

    iface: callbacks.
    context: data of the callbacks.
    """

    _fields_ = [("iface", ggml_backend_buffer_type_i), ("context", c_void_p)]


ggml_backend_buffer_i_get_name = callback("ggml_backend_buffer_i_get_name", c_char_p, _buffer, doc="(buffer) -> bytes.")
ggml_backend_buffer_i_free_buffer = callback(
    "ggml_backend_buffer_i_free_buffer", None, _buffer, doc="(buffer): frees its memory."
)
ggml_backend_buffer_i_get_base = callback(
    "ggml_backend_buffer_i_get_base", c_void_p, _buffer, doc="(buffer) -> address where its memory starts."
)
ggml_backend_buffer_i_init_tensor = callback(
    "ggml_backend_buffer_i_init_tensor",
    None,
    _buffer,
    ggml_tensor_p,
    doc="(buffer, tensor): called after a tensor was placed in it.",
)
ggml_backend_buffer_i_set_tensor = callback(
    "ggml_backend_buffer_i_set_tensor",
    None,
    _buffer,
    *_transfer,
    doc="(buffer, tensor, data, offset, size): copies in.",
)
ggml_backend_buffer_i_get_tensor = callback(
    "ggml_backend_buffer_i_get_tensor",
    None,
    _buffer,
    *_transfer,
    doc="(buffer, tensor, data, offset, size): copies out.",
)
ggml_backend_buffer_i_cpy_tensor = callback(
    "ggml_backend_buffer_i_cpy_tensor",
    c_bool,
    _buffer,
    ggml_tensor_p,
    ggml_tensor_p,
    doc="(buffer, src, dst) -> bool: copies src to dst in the buffer; False leaves the copy to the caller.",
)
ggml_backend_buffer_i_clear = callback(
    "ggml_backend_buffer_i_clear", None, _buffer, c_uint8, doc="(buffer, value): sets all bytes to value."
)
ggml_backend_buffer_i_reset = callback(
    "ggml_backend_buffer_i_reset", None, _buffer, doc="(buffer): discards what init_tensor created."
)


class ggml_backend_buffer_i(_Struct):
    """Callbacks of a buffer. get_base, set_tensor, get_tensor and clear are required, the others may be NULL."""

    _fields_ = _table(
        get_name=ggml_backend_buffer_i_get_name,
        free_buffer=ggml_backend_buffer_i_free_buffer,
        get_base=ggml_backend_buffer_i_get_base,
        init_tensor=ggml_backend_buffer_i_init_tensor,
        set_tensor=ggml_backend_buffer_i_set_tensor,
        get_tensor=ggml_backend_buffer_i_get_tensor,
        cpy_tensor=ggml_backend_buffer_i_cpy_tensor,
        clear=ggml_backend_buffer_i_clear,
        reset=ggml_backend_buffer_i_reset,
    )


class ggml_backend_buffer(_Struct):
    """A buffer.

    iface: callbacks; context: data of the callbacks.
    buft: handle of the buffer type.
    size: bytes.
    """

    _fields_ = [("iface", ggml_backend_buffer_i), ("buft", c_void_p), ("context", c_void_p), ("size", c_size_t)]


ggml_backend_i_get_name = callback("ggml_backend_i_get_name", c_char_p, _backend, doc="(backend) -> bytes.")
ggml_backend_i_free = callback("ggml_backend_i_free", None, _backend, doc="(backend): frees the backend.")
ggml_backend_i_get_default_buffer_type = callback(
    "ggml_backend_i_get_default_buffer_type", _buft, _backend, doc="(backend) -> buffer type."
)
ggml_backend_i_set_tensor_async = callback(
    "ggml_backend_i_set_tensor_async",
    None,
    _backend,
    *_transfer,
    doc="(backend, tensor, data, offset, size): copies in.",
)
ggml_backend_i_get_tensor_async = callback(
    "ggml_backend_i_get_tensor_async",
    None,
    _backend,
    *_transfer,
    doc="(backend, tensor, data, offset, size): copies out.",
)
ggml_backend_i_cpy_tensor_async = callback(
    "ggml_backend_i_cpy_tensor_async",
    c_bool,
    _backend,
    _backend,
    ggml_tensor_p,
    ggml_tensor_p,
    doc="(backend_src, backend_dst, src, dst) -> bool: copies src to dst; False leaves the copy to the caller.",
)
ggml_backend_i_synchronize = callback(
    "ggml_backend_i_synchronize", None, _backend, doc="(backend): waits until all started work is complete."
)
ggml_backend_i_graph_plan_create = callback(
    "ggml_backend_i_graph_plan_create", _plan, _backend, ggml_cgraph_p, doc="(backend, graph) -> plan."
)
ggml_backend_i_graph_plan_free = callback(
    "ggml_backend_i_graph_plan_free", None, _backend, _plan, doc="(backend, plan): frees a plan."
)
ggml_backend_i_graph_plan_compute = callback(
    "ggml_backend_i_graph_plan_compute", None, _backend, _plan, doc="(backend, plan): computes a plan."
)
ggml_backend_i_graph_compute = callback(
    "ggml_backend_i_graph_compute",
    c_bool,
    _backend,
    ggml_cgraph_p,
    doc="(backend, graph) -> bool: computes the graph; False reports a failure.",
)
ggml_backend_i_supports_op = callback(
    "ggml_backend_i_supports_op",
    c_bool,
    _backend,
    ggml_tensor_p,
    doc="(backend, op) -> bool: the backend can compute the node.",
)
ggml_backend_i_offload_op = callback(
    "ggml_backend_i_offload_op",
    c_bool,
    _backend,
    ggml_tensor_p,
    doc="(backend, op) -> bool: copying the weights to the backend to compute the node is worthwhile.",
)
ggml_backend_i_event_new = callback("ggml_backend_i_event_new", _event, _backend, doc="(backend) -> event.")
ggml_backend_i_event_free = callback("ggml_backend_i_event_free", None, _event, doc="(event): frees it.")
ggml_backend_i_event_record = callback(
    "ggml_backend_i_event_record", None, _event, doc="(event): signals it when all started work is complete."
)
ggml_backend_i_event_wait = callback(
    "ggml_backend_i_event_wait", None, _backend, _event, doc="(backend, event): later work of the backend waits for it."
)
ggml_backend_i_event_synchronize = callback(
    "ggml_backend_i_event_synchronize", None, _event, doc="(event): waits until it is signalled."
)


class ggml_backend_i(_Struct):
    """Callbacks of a backend.

    get_name, get_default_buffer_type, graph_compute and supports_op are required, the others may be NULL.
    """

    _fields_ = _table(
        get_name=ggml_backend_i_get_name,
        free=ggml_backend_i_free,
        get_default_buffer_type=ggml_backend_i_get_default_buffer_type,
        set_tensor_async=ggml_backend_i_set_tensor_async,
        get_tensor_async=ggml_backend_i_get_tensor_async,
        cpy_tensor_async=ggml_backend_i_cpy_tensor_async,
        synchronize=ggml_backend_i_synchronize,
        graph_plan_create=ggml_backend_i_graph_plan_create,
        graph_plan_free=ggml_backend_i_graph_plan_free,
        graph_plan_compute=ggml_backend_i_graph_plan_compute,
        graph_compute=ggml_backend_i_graph_compute,
        supports_op=ggml_backend_i_supports_op,
        offload_op=ggml_backend_i_offload_op,
        event_new=ggml_backend_i_event_new,
        event_free=ggml_backend_i_event_free,
        event_record=ggml_backend_i_event_record,
        event_wait=ggml_backend_i_event_wait,
        event_synchronize=ggml_backend_i_event_synchronize,
    )


class ggml_backend(_Struct):
    """A backend.

    guid: 16 bytes that identify its kind.
    iface: callbacks; context: data of the callbacks.
    """

    _fields_ = [("guid", ggml_guid_t_ctypes), ("iface", ggml_backend_i), ("context", c_void_p)]


class ggml_backend_event(_Struct):
    """An event.

    backend: handle of the backend that created it.
    context: data of that backend.
    """

    _fields_ = [("backend", c_void_p), ("context", c_void_p)]


# The tables of devices and registries exist only in this package, not in the bindings. They mirror the functions
# ggml_backend_dev_* and ggml_backend_reg_*.

ggml_backend_device_i_get_name = callback("ggml_backend_device_i_get_name", c_char_p, _device, doc="(device) -> bytes.")
ggml_backend_device_i_get_description = callback(
    "ggml_backend_device_i_get_description", c_char_p, _device, doc="(device) -> bytes."
)
ggml_backend_device_i_get_memory = callback(
    "ggml_backend_device_i_get_memory",
    None,
    _device,
    POINTER(c_size_t),
    POINTER(c_size_t),
    doc="(device, free, total): writes free[0] and total[0], bytes.",
)
ggml_backend_device_i_get_type = callback(
    "ggml_backend_device_i_get_type", c_int, _device, doc="(device) -> GGML_BACKEND_DEVICE_TYPE_*."
)
ggml_backend_device_i_get_props = callback(
    "ggml_backend_device_i_get_props",
    None,
    _device,
    POINTER(ggml_backend_dev_props),
    doc="(device, props): fills props.contents.",
)
ggml_backend_device_i_init_backend = callback(
    "ggml_backend_device_i_init_backend", _backend, _device, c_char_p, doc="(device, params) -> backend."
)
ggml_backend_device_i_get_buffer_type = callback(
    "ggml_backend_device_i_get_buffer_type", _buft, _device, doc="(device) -> buffer type."
)
ggml_backend_device_i_get_host_buffer_type = callback(
    "ggml_backend_device_i_get_host_buffer_type", _buft, _device, doc="(device) -> buffer type in host memory, or None."
)
ggml_backend_device_i_buffer_from_host_ptr = callback(
    "ggml_backend_device_i_buffer_from_host_ptr",
    _buffer,
    _device,
    c_void_p,
    c_size_t,
    c_size_t,
    doc="(device, ptr, size, max_tensor_size) -> buffer over the caller's memory, or None.",
)
ggml_backend_device_i_supports_op = callback(
    "ggml_backend_device_i_supports_op",
    c_bool,
    _device,
    ggml_tensor_p,
    doc="(device, op) -> bool: the device can compute the node.",
)
ggml_backend_device_i_supports_buft = callback(
    "ggml_backend_device_i_supports_buft",
    c_bool,
    _device,
    _buft,
    doc="(device, buft) -> bool: the device can use such buffers.",
)
ggml_backend_device_i_offload_op = callback(
    "ggml_backend_device_i_offload_op",
    c_bool,
    _device,
    ggml_tensor_p,
    doc="(device, op) -> bool: copying the weights to the device to compute the node is worthwhile.",
)
ggml_backend_device_i_event_new = callback("ggml_backend_device_i_event_new", _event, _device, doc="(device) -> event.")
ggml_backend_device_i_event_free = callback(
    "ggml_backend_device_i_event_free", None, _device, _event, doc="(device, event): frees it."
)
ggml_backend_device_i_event_synchronize = callback(
    "ggml_backend_device_i_event_synchronize",
    None,
    _device,
    _event,
    doc="(device, event): waits until it is signalled.",
)


class ggml_backend_device_i(_Struct):
    """Callbacks of a device.

    get_name, get_description, get_memory, get_type, get_props, init_backend, get_buffer_type, supports_op and
    supports_buft are required, the others may be NULL.
    """

    _fields_ = _table(
        get_name=ggml_backend_device_i_get_name,
        get_description=ggml_backend_device_i_get_description,
        get_memory=ggml_backend_device_i_get_memory,
        get_type=ggml_backend_device_i_get_type,
        get_props=ggml_backend_device_i_get_props,
        init_backend=ggml_backend_device_i_init_backend,
        get_buffer_type=ggml_backend_device_i_get_buffer_type,
        get_host_buffer_type=ggml_backend_device_i_get_host_buffer_type,
        buffer_from_host_ptr=ggml_backend_device_i_buffer_from_host_ptr,
        supports_op=ggml_backend_device_i_supports_op,
        supports_buft=ggml_backend_device_i_supports_buft,
        offload_op=ggml_backend_device_i_offload_op,
        event_new=ggml_backend_device_i_event_new,
        event_free=ggml_backend_device_i_event_free,
        event_synchronize=ggml_backend_device_i_event_synchronize,
    )


class ggml_backend_device(_Struct):
    """A device.

    iface: callbacks.
    reg: handle of the registry that the device belongs to; None for none.
    context: data of the callbacks.
    """

    _fields_ = [("iface", ggml_backend_device_i), ("reg", c_void_p), ("context", c_void_p)]


ggml_backend_reg_i_get_name = callback("ggml_backend_reg_i_get_name", c_char_p, _registry, doc="(reg) -> bytes.")
ggml_backend_reg_i_get_device_count = callback(
    "ggml_backend_reg_i_get_device_count", c_size_t, _registry, doc="(reg) -> number of devices."
)
ggml_backend_reg_i_get_device = callback(
    "ggml_backend_reg_i_get_device", _device, _registry, c_size_t, doc="(reg, index) -> device."
)
ggml_backend_reg_i_get_proc_address = callback(
    "ggml_backend_reg_i_get_proc_address", c_void_p, _registry, c_char_p, doc="(reg, name) -> address, or None."
)


class ggml_backend_reg_i(_Struct):
    """Callbacks of a registry of devices. get_proc_address may be NULL."""

    _fields_ = _table(
        get_name=ggml_backend_reg_i_get_name,
        get_device_count=ggml_backend_reg_i_get_device_count,
        get_device=ggml_backend_reg_i_get_device,
        get_proc_address=ggml_backend_reg_i_get_proc_address,
    )


class ggml_backend_reg(_Struct):
    """A registry of devices, for `ggml_backend_register`.

    iface: callbacks; context: data of the callbacks.
    """

    _fields_ = [("iface", ggml_backend_reg_i), ("context", c_void_p)]


__all__ = [name for name in dir() if name.startswith(("ggml_", "gguf_")) or name.endswith("_SIZE")]
