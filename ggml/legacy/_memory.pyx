"""What a caller gave as memory: its address, held against the bytes that will be used."""
from ggml._core cimport arg_buffer, engine, fail

def address(value, str name, size_t need):
    """The address of `value` (anything c_void_p takes, byref, arrays, buffers), at which `need` bytes can be used."""
    cdef void *p = NULL
    arg_buffer(value, name.encode(), need, &p)
    if p == NULL:
        fail(ValueError, f"{name} is NULL: need memory of {need} bytes")
    if not engine.readable(p, need):
        fail(ValueError, f"{name} ({<size_t>p:#x}) is no memory of {need} bytes")
    return <size_t>p
