"""The address of memory that a caller passes, with a check of its size."""
from ggml._core cimport arg_buffer, engine, fail

def address(value, str name, size_t need):
    """The address of `value` (c_void_p, byref, pointer, array or buffer), where `need` bytes must be accessible."""
    cdef void *p = NULL
    arg_buffer(value, name.encode(), need, &p)
    if p == NULL:
        fail(ValueError, f"{name} is NULL: need memory of {need} bytes")
    if not engine.readable(p, need):
        fail(ValueError, f"{name} ({<size_t>p:#x}) is not memory of {need} bytes")
    return <size_t>p
