"""Messages and failures of the library; files and identifiers."""
import ctypes
import sys
import traceback

from libc.stdio cimport FILE
from libc.string cimport memcmp

from .._core cimport (
    arg_address, arg_callback, arg_context, arg_format, arg_int32, arg_path, arg_text, enter, fail, ggml_context,
    ggml_object, is_a, let_go, paused, unwatch, watch, wrap_handle,
)
from .numbers cimport arg_array
from .. import _constants, _structs
from .._core import as_callback, run_callback, raise_deferred

cdef extern from "stdio.h" nogil:
    FILE *fopen(const char *name, const char *mode)

# ---- messages --------------------------------------------------------------------------------------------------------
cdef object log_callback_kept = None, log_data_kept = None       # keeps the arguments of ggml_log_set alive
ctypedef void (*log_fn)(int, const char *, void *) noexcept
cdef log_fn log_function = NULL
cdef void *log_data = NULL

def to_stderr(text):
    sys.stderr.write(text)
    sys.stderr.flush()

def log(int level, str text):
    """Sends a message to the callback of ggml_log_set, or writes it to stderr if there is none."""
    cdef bytes raw = text.encode()
    let_go((log_callback_kept, log_data_kept))   # while they run, the callback or another thread may set others
    _kept = log_callback_kept, log_data_kept
    if log_function == NULL:
        paused(to_stderr, (text,))
    else:
        watch()
        try:
            log_function(level, raw, log_data)
        finally:
            unwatch()
        raise_deferred()

def ggml_log_set(log_callback, user_data):
    """Sets the function that receives the messages of this library.

    Without one, messages go to stderr. The callback and user_data are kept alive until the next call. An exception
    in the callback is raised by the function that sent the message.

    Args:
        log_callback: ggml_log_callback, Python callable or address of a C function, called as (level, text,
            user_data) for each message, with level GGML_LOG_LEVEL_* and text as bytes that end in a newline. None
            restores stderr.
        user_data: address or ctypes object that is handed to the callback; None for NULL.
    Returns:
        None.
    Raises:
        TypeError: log_callback is not a callback of this type, or user_data is not an address.
        ValueError: log_callback is the address of no function.
    """
    global log_callback_kept, log_data_kept, log_function, log_data
    enter(b"ggml_log_set")
    callback = as_callback(log_callback, _structs.ggml_log_callback)
    cdef void *function = arg_callback(callback, _structs.ggml_log_callback, b"log_callback")
    cdef void *data = arg_address(user_data, b"user_data")
    let_go((log_callback_kept, log_data_kept))
    log_callback_kept, log_data_kept = callback, user_data
    log_function, log_data = <log_fn>function, data

def ggml_log_get(log_callback, user_data):
    """Reads the message callback and user data that ggml_log_set installed.

    Args:
        log_callback: pointer to a ggml_log_callback that receives the function; NULL is written if messages go to
            stderr.
        user_data: pointer to a c_void_p that receives the user data.
    Returns:
        None; the results are written to the two pointers.
    Raises:
        TypeError: log_callback or user_data is not a pointer.
        ValueError: log_callback or user_data is NULL or points to no memory of 8 bytes.
    Example:
        callback, data = ggml.ggml_log_callback(), ctypes.c_void_p()
        ggml.ggml_log_get(ctypes.byref(callback), ctypes.byref(data))
    """
    enter(b"ggml_log_get")
    (<void **>arg_array(log_callback, b"log_callback", 1, sizeof(void *)))[0] = <void *>log_function
    (<void **>arg_array(user_data, b"user_data", 1, sizeof(void *)))[0] = log_data

cdef str object_line(const ggml_object *o):
    return f" - ggml_object: type = {o.type}, offset = {o.offs}, size = {o.size}, next = {<size_t>o.next:#x}\n"

def ggml_print_object(obj):
    """Logs the header of one object of a context: its type, offset, size and successor.

    Args:
        obj: pointer to a ggml_object, or its address.
    Returns:
        None; one message of level GGML_LOG_LEVEL_INFO is sent (see ggml_log_set).
    Raises:
        TypeError: obj is not a pointer or an address.
        ValueError: obj is NULL or points to no readable memory.
    """
    enter(b"ggml_print_object")
    cdef void *p = arg_array(obj, b"obj", 1, sizeof(ggml_object))
    log(_constants.GGML_LOG_LEVEL_INFO, object_line(<ggml_object *>p))

def ggml_print_objects(ctx):
    """Logs the headers of all objects of a context: tensors, graphs and buffers.

    Args:
        ctx: context.
    Returns:
        None; one message for each object, between a first and a last line, is sent (see ggml_log_set).
    Raises:
        TypeError: ctx is not a context handle.
        RuntimeError: ctx is not a live context.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_print_objects")
    cdef ggml_object *o = c.first
    lines = [f"ggml_print_objects: objects in context {<size_t>c:#x}:\n"]
    while o != NULL:
        lines.append(object_line(o))
        o = o.next
    lines.append("ggml_print_objects: --- end ---\n")
    for line in lines:
        log(_constants.GGML_LOG_LEVEL_INFO, line)

def ggml_print_backtrace():
    """Writes the Python call stack to stderr.

    Returns:
        None.
    """
    paused(traceback.print_stack, ())

cdef object abort_callback = _structs.ggml_abort_callback_t()

def ggml_set_abort_callback(callback):
    """Sets the function that ggml_abort calls before it raises.

    Args:
        callback: ggml_abort_callback_t, Python callable or address of a C function, called with the message
            (bytes). None removes it.
    Returns:
        The previous callback (ggml_abort_callback_t); a NULL function if there was none.
    Raises:
        TypeError: callback is not a callback of this type.
        ValueError: callback is the address of no function.
    """
    global abort_callback
    enter(b"ggml_set_abort_callback")
    new = as_callback(callback, _structs.ggml_abort_callback_t)
    if not is_a(new, ctypes._CFuncPtr):
        new = _structs.ggml_abort_callback_t(<size_t>arg_callback(new, _structs.ggml_abort_callback_t, b"callback"))
    before, abort_callback = abort_callback, new
    return before

def ggml_abort(file, line, fmt, *args):
    """Raises RuntimeError with a formatted message and a place in the source.

    The C library ends the process here. The callback of ggml_set_abort_callback is called with the message first.

    Args:
        file: name of the source file, bytes or str.
        line: number of the line.
        fmt: printf format, bytes or str, as Python's % operator for bytes takes it. Without arguments it is used as
            it is.
        *args: values for the format: numbers, ctypes scalars, and bytes for %s.
    Returns:
        Never.
    Raises:
        RuntimeError: always, with the message "<file>:<line>: <text>".
        TypeError: file or fmt is neither bytes nor str, or line is not an integer.
        ValueError: the arguments do not fit the format.
    """
    enter(b"ggml_abort")
    place, text = (x.decode(errors="replace") for x in (arg_text(file, b"file"), arg_format(fmt, args)))
    message = f"{place}:{arg_int32(line, b'line')}: {text}"
    if abort_callback:
        run_callback(abort_callback, (message.encode(),))
    raise RuntimeError(message)

# ---- files and identifiers -------------------------------------------------------------------------------------------
def ggml_fopen(fname, mode):
    """Opens a file with the fopen of the C library.

    Close it with fclose of the same C library, for example via ctypes.

    Args:
        fname: name of the file, bytes, str or os.PathLike.
        mode: mode of fopen, bytes or str, as "rb".
    Returns:
        Address of the FILE (int); None if the file cannot be opened.
    Raises:
        TypeError: fname or mode is neither bytes nor str.
        ValueError: fname contains a NUL or cannot be encoded, or mode contains a NUL.
    """
    enter(b"ggml_fopen")
    cdef bytes name = arg_path(fname, b"fname"), how = arg_text(mode, b"mode")
    if b"\0" in how:
        fail(ValueError, f"mode is {how!r}: need a mode of fopen, as \"rb\"")
    return wrap_handle(fopen(name, how))

def ggml_guid_matches(guid_a, guid_b):
    """Tells whether two 16-byte identifiers are equal.

    Args:
        guid_a: 16 bytes: bytes, a buffer such as a ctypes array, a pointer or an address.
        guid_b: 16 bytes, given in the same ways.
    Returns:
        True if all 16 bytes are equal.
    Raises:
        TypeError: guid_a or guid_b is not memory.
        ValueError: guid_a or guid_b is NULL, not readable or shorter than 16 bytes.
    """
    enter(b"ggml_guid_matches")
    return memcmp(arg_array(guid_a, b"guid_a", 16, 1), arg_array(guid_b, b"guid_b", 16, 1), 16) == 0
