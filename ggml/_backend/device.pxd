# The parts of a backend: buffer types, buffers, devices, registries, events. The base classes declare the interface;
# device.pyx implements it for the CPU, foreign.pyx for backends written in Python, meta.pyx for several devices as one.
from libc.stdint cimport uint8_t

from .._core cimport gg_region, ggml_cgraph, ggml_tensor
# Other modules cimport these from here as well.
from .._handle cimport HANDLE, Handle, adopted, adopters, find, handles, known, live, memory_at

cdef class BufferType(Handle):
    cdef Device device
    cdef bytes name(self)
    cdef Buffer alloc(self, size_t size)                            # None: out of memory
    cdef size_t alignment(self) except 0
    cdef size_t max_size(self) except 0
    cdef size_t alloc_size(self, ggml_tensor *t) except? 0
    cdef bint is_host(self) except -1                               # memory that the CPU reads and writes

cdef class Buffer(Handle):
    cdef BufferType buft
    cdef size_t size
    cdef uint8_t *base
    cdef gg_region *region                                          # of host memory, for the checks of computes
    cdef int usage
    cdef bytes name(self)
    cdef int init_tensor(self, ggml_tensor *t) except? -9
    cdef int set(self, ggml_tensor *t, const void *data, size_t offset, size_t size) except -1
    cdef int get(self, ggml_tensor *t, void *data, size_t offset, size_t size) except -1
    cdef int fill(self, ggml_tensor *t, int value, size_t offset, size_t size) except -1
    cdef bint copy_in(self, ggml_tensor *src, ggml_tensor *dst) except -1      # dst lies here; False: not supported
    cdef int clear(self, int value) except -1
    cdef int reset(self) except -1
    cdef int release(self) except -1

cdef class HostBuffer(Buffer):
    cdef bint own
    cdef int free_memory(self) except -1
    cdef uint8_t *within(self, ggml_tensor *t, size_t offset, size_t size) except? NULL

cdef class Device(Handle):
    cdef Registry registry
    cdef bytes name(self)
    cdef bytes description(self)
    cdef tuple memory(self)                                         # free, total
    cdef int kind(self) except -1
    cdef tuple caps(self)                                           # async, host_buffer, buffer_from_host_ptr, events
    cdef bytes id(self)
    cdef Backend init(self, bytes params)                           # None: failed
    cdef BufferType buft(self)
    cdef BufferType host_buft(self)
    cdef Buffer from_ptr(self, void *p, size_t size, size_t max_tensor_size, object owner)
    cdef bint supports_op(self, ggml_tensor *t) except -1
    cdef bint supports_buft(self, BufferType buft) except -1
    cdef bint offload_op(self, ggml_tensor *t) except -1
    cdef Event event_new(self)                                      # None: has none

cdef class Registry(Handle):
    cdef list members
    cdef bytes name(self)
    cdef list devices(self)
    cdef size_t proc(self, bytes name) except? 0

cdef class Event(Handle):
    cdef int record(self, Backend backend) except -1
    cdef int wait(self, Backend backend) except -1
    cdef int synchronize(self) except -1
    cdef int release(self) except -1

cdef class Backend(Handle):
    cdef Device device
    cdef bytes name(self)
    cdef object guid(self)
    cdef BufferType buft(self)
    cdef int set_async(self, Buffer b, ggml_tensor *t, const void *data, size_t offset, size_t size) except -1
    cdef int get_async(self, Buffer b, ggml_tensor *t, void *data, size_t offset, size_t size) except -1
    cdef bint copy_async(self, Backend other, ggml_tensor *src, ggml_tensor *dst) except -1   # False: not supported
    cdef int synchronize(self) except -1
    cdef Handle plan_new(self, ggml_cgraph *g, object graph)
    cdef int plan_compute(self, Handle plan) except? -99
    cdef int plan_free(self, Handle plan) except -1
    cdef int compute(self, ggml_cgraph *g) except? -99
    cdef bint supports_op(self, ggml_tensor *t) except -1
    cdef bint supports_buft(self, BufferType buft) except -1
    cdef bint offload_op(self, ggml_tensor *t) except -1
    cdef Event event_new(self)
    cdef int release(self) except -1

cdef class CpuDevice(Device):
    cdef bytes label
    cdef CpuBufferType memory_kind
    cdef CpuBufferType mapped_kind          # of buffers over a caller's memory
    cdef bint apart                         # its memory is treated as that of an accelerator

cdef class CpuBufferType(BufferType):
    cdef bytes label
    cdef bint host

cdef class CpuBackend(Backend):
    cdef int n_threads
    cdef bint use_ref
    cdef void *abort
    cdef void *abort_data
    cdef object callback
    cdef object threadpool

cdef class Plan(Handle):
    cdef object graph
    cdef void *token                        # the plan's address in a foreign backend

# ---- arguments -------------------------------------------------------------------------------------------------------
cdef inline Buffer buffer_arg(object o, str name): return <Buffer>find(o, Buffer, name)
cdef inline BufferType buft_arg(object o, str name): return <BufferType>find(o, BufferType, name)
cdef inline Backend backend_arg(object o, str name): return <Backend>find(o, Backend, name)
cdef inline Device device_arg(object o, str name): return <Device>find(o, Device, name)

# ---- tensors in buffers ----------------------------------------------------------------------------------------------
cdef Buffer buffer_of_tensor(const ggml_tensor *t)      # None: its data lie in a context; raises if it was freed
cdef bint buffer_dead(const ggml_tensor *t) except -1               # the buffer it lay in was freed
cdef int place(Buffer b, ggml_tensor *t, size_t offset) except? -9
cdef int place_view(ggml_tensor *t) except? -9
cdef int write(ggml_tensor *t, const void *data, size_t offset, size_t size) except -1
cdef int read(ggml_tensor *t, void *data, size_t offset, size_t size) except -1
cdef int copy(ggml_tensor *src, ggml_tensor *dst) except -1
cdef bint same_layout(const ggml_tensor *a, const ggml_tensor *b) noexcept

cdef BufferType cpu_buft
cdef Device cpu_device
cdef list all_devices, all_registries
