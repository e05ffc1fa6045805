# Buffers that other modules make, and a reader of arguments that are structs.
from .device cimport Buffer, Device

cdef Buffer multi_buffer(list parts)                                        # several buffers as one
cdef Buffer from_ptr(Device d, object ptr, object size, size_t max_tensor_size)     # over the caller's memory
cdef object struct_of(object value, object struct, str name)                # the ctypes struct that an argument means
