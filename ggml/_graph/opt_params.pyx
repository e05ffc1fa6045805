"""Parameters of the optimisers, the functions that give them, and the defaults of ggml_opt_params."""
import ctypes
import weakref

from libc.string cimport memcpy

from .._core cimport arg_address, arg_buffer, arg_int32, engine, enter, fail, is_a, repr_short
from .. import _constants, _structs

MEAN, SUM = _constants.GGML_OPT_LOSS_TYPE_MEAN, _constants.GGML_OPT_LOSS_TYPE_SUM
CROSS_ENTROPY = _constants.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY
SQUARED_ERROR = _constants.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR
FORWARD, GRAD = _constants.GGML_OPT_BUILD_TYPE_FORWARD, _constants.GGML_OPT_BUILD_TYPE_GRAD
OPT = _constants.GGML_OPT_BUILD_TYPE_OPT
ADAMW, SGD = _constants.GGML_OPT_OPTIMIZER_TYPE_ADAMW, _constants.GGML_OPT_OPTIMIZER_TYPE_SGD
LOSSES, BUILDS, OPTIMIZERS = (MEAN, SUM, CROSS_ENTROPY, SQUARED_ERROR), (FORWARD, GRAD, OPT), (ADAMW, SGD)

cdef int arg_choice(object value, const char *name, tuple known) except -1:
    cdef int k = arg_int32(value, name)
    if k not in known:
        fail(ValueError, f"{name.decode()} is {k}: need one of {', '.join(map(str, known))}")
    return k

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
    """Holds the function that gives the optimiser's parameters for a step.

    It is a c_void_p, the type of ggml_opt_params.get_opt_pars, and can be used as a decorator. The function is
    called as function(userdata) before each step of the optimiser, in ggml_opt_eval, and returns a
    ggml_opt_optimizer_params; userdata is an int (an address) or None. The value of a Python callable is not the
    address of C code: only ggml_opt_init and ggml_opt_fit accept it. Whoever holds this object keeps the callable
    alive.

    Args:
        function: Python callable, ctypes function, address of a C function, or None for NULL.
    Returns:
        An object of this class.
    Raises:
        TypeError: function is neither callable nor an address.
    """

    def __new__(cls, function=None):
        if not callable(function) or is_a(function, ctypes._CFuncPtr):
            return super().__new__(cls)
        mark = mark_type(lambda: None)      # its address represents the callable; the result keeps it alive
        mark.function = function
        made = ctypes.cast(mark, cls)
        getters[made.value] = mark
        return made

    def __init__(self, function=None):
        if is_a(function, ctypes._CFuncPtr):
            self.value = ctypes.cast(function, ctypes.c_void_p).value
        elif not callable(function):
            super().__init__(function)

cdef object getter_of(object o):
    """The function to call for the parameters of a step, from an address or a callable."""
    if is_a(o, ctypes._CFuncPtr):
        if o._restype_ is _structs.ggml_opt_optimizer_params:
            return o
        return getter_type(ctypes.cast(o, ctypes.c_void_p).value)
    if callable(o):
        return o
    address = o.value if is_a(o, ctypes.c_void_p) else o
    if address is None or (type(address) is int and not address):
        fail(TypeError, "get_opt_pars is NULL: need a function that gives the optimiser's parameters")
    if type(address) is not int:
        fail(TypeError, f"get_opt_pars is {repr_short(o)}: need a function or its address")
    known = getters.get(address)
    if known is not None:
        return known.function
    if not 0 < address < 1 << 63 or not engine.readable(<void *><size_t>address, 1):
        fail(ValueError, f"get_opt_pars is {address:#x}: that is not an address of a function")
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

# The values of these functions when they are cast to pointers, for fields of structs and callback arguments.
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
        loss_type=arg_choice(loss_type, b"loss_type", LOSSES),
        build_type=OPT, opt_period=1, get_opt_pars=<size_t>&default_rates, optimizer=ADAMW)
