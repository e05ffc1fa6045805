"""Devices and the registries that list them, by index, name and kind."""
import ctypes

from .._core cimport arg_buffer, arg_int32, arg_path, arg_size, arg_tensor, arg_text, engine, enter, fail, repr_short
from .buffer cimport from_ptr, struct_of
from .._handle cimport HANDLE, adopted, find
from .device cimport Device, Registry, all_devices, all_registries, buft_arg, cpu_device, device_arg, live
from .. import _constants, _structs
from .._system import cpu, threadpool
from .backend import (
    ggml_backend_cpu_set_abort_callback, ggml_backend_cpu_set_n_threads, ggml_backend_cpu_set_threadpool,
)
from .device import _set_procs

# ---- registries and devices ------------------------------------------------------------------------------------------
cdef object found(list all, object name):
    """The first entry with a name, upper and lower case being the same; None if there is none."""
    wanted = arg_text(name, b"name").lower()
    for h in all:
        if ((<Device>h).name() if isinstance(h, Device) else (<Registry>h).name()).lower() == wanted:
            return h
    return None

cdef object at_index(list all, object index, const char *name, str what):
    """The entry with an index that the parameter `name` gives; `what` are the entries."""
    cdef size_t i = arg_size(index, name)
    if i >= <size_t>len(all):
        fail(IndexError, f"{name.decode()} is {i}: there are {len(all)} {what}")
    return all[i]

cdef Registry reg_arg(object reg):
    return <Registry>find(reg, Registry, "reg")

def ggml_backend_cpu_reg():
    """Returns the registry that holds the CPU device.

    Returns:
        Handle of the registry named b"CPU", the same at every call.
    """
    return HANDLE(cpu_device.registry)

def ggml_backend_reg_count():
    """Returns the number of backend registries.

    Returns:
        1 for the CPU's, plus those of ggml_backend_register.
    """
    return len(all_registries)

def ggml_backend_reg_get(index):
    """Returns a backend registry by its index.

    Args:
        index: 0 to ggml_backend_reg_count() - 1; 0 is the CPU's.
    Returns:
        Handle of the registry.
    Raises:
        TypeError: index is not an integer.
        ValueError: index is negative.
        IndexError: index is too large.
    """
    enter(b"ggml_backend_reg_get")
    return HANDLE(at_index(all_registries, index, b"index", "registries"))

def ggml_backend_reg_by_name(name):
    """Finds a backend registry by its name.

    Args:
        name: bytes or str; upper and lower case are the same.
    Returns:
        Handle of the first registry with that name, or None if there is none.
    Raises:
        TypeError: name is None or not text.
    """
    enter(b"ggml_backend_reg_by_name")
    return HANDLE(found(all_registries, name))

def ggml_backend_reg_name(reg):
    """Returns the name of a backend registry.

    Args:
        reg: handle of a registry.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: reg is None or not a registry.
        RuntimeError: reg is a number that is not a live handle.
    """
    enter(b"ggml_backend_reg_name")
    return reg_arg(reg).name()

def ggml_backend_reg_dev_count(reg):
    """Returns the number of devices in a backend registry.

    Args:
        reg: handle of a registry.
    Returns:
        Number of devices; 1 for the CPU's registry.
    Raises:
        TypeError: reg is None or not a registry.
        RuntimeError: reg is a number that is not a live handle.
    """
    enter(b"ggml_backend_reg_dev_count")
    return len(reg_arg(reg).devices())

def ggml_backend_reg_dev_get(reg, index):
    """Returns a device of a backend registry.

    Args:
        reg: handle of a registry.
        index: 0 to ggml_backend_reg_dev_count(reg) - 1.
    Returns:
        Handle of the device.
    Raises:
        TypeError: reg is not a registry, or index is not an integer.
        ValueError: index is negative.
        IndexError: index is too large.
        RuntimeError: reg is a number that is not a live handle.
    """
    enter(b"ggml_backend_reg_dev_get")
    return HANDLE(at_index(reg_arg(reg).devices(), index, b"index", "devices"))

def ggml_backend_reg_get_proc_address(reg, name):
    """Finds a C function that a registry offers beyond the common functions.

    The CPU's registry has ggml_backend_get_features, ggml_backend_set_n_threads, ggml_backend_set_abort_callback,
    ggml_backend_cpu_set_threadpool, ggml_backend_cpu_numa_init, ggml_backend_cpu_is_numa, ggml_threadpool_new and
    ggml_threadpool_free.

    Args:
        reg: handle of a registry.
        name: name of the function, bytes or str.
    Returns:
        Address as int, to be called via a ctypes.CFUNCTYPE of the right signature; None if there is none.
    Raises:
        TypeError: reg is not a registry, or name is not text.
        RuntimeError: reg is a number that is not a live handle.
    """
    enter(b"ggml_backend_reg_get_proc_address")
    return reg_arg(reg).proc(arg_text(name, b"name")) or None

def ggml_backend_register(reg):
    """Adds a backend registry and its devices to the lists that programs search.

    A registry or device that is listed already is not added twice.

    Args:
        reg: the registry: a ggml_backend_reg struct that the caller fills in and keeps alive (the struct, a pointer
            to it or its address), or a handle.
    Returns:
        None.
    Raises:
        TypeError: reg is None, NULL or not a registry.
        ValueError: there is no struct at the address, or a required callback (get_name, get_device_count,
            get_device) is NULL or not a function.
    """
    enter(b"ggml_backend_register")
    cdef Registry r
    if type(reg) is int and reg not in live:
        r = <Registry>adopted(reg, Registry)
    else:
        r = reg_arg(reg)
    if r is None:
        fail(TypeError, "reg is NULL: need a backend registry")
    if r not in all_registries:
        all_registries.append(r)
        all_devices.extend([d for d in r.devices() if d not in all_devices])

def ggml_backend_device_register(device):
    """Adds one device to the list that programs search, without a registry.

    Args:
        device: the device: a ggml_backend_device struct that the caller fills in and keeps alive (the struct, a
            pointer to it or its address), or a handle.
    Returns:
        None.
    Raises:
        TypeError: device is None, NULL or not a device.
        ValueError: there is no struct at the address, or a required callback is NULL or not a function.
    """
    enter(b"ggml_backend_device_register")
    cdef Device d
    if type(device) is int and device not in live:
        d = <Device>adopted(device, Device)
    else:
        d = device_arg(device, "device")
    if d is None:
        fail(TypeError, "device is NULL: need a device")
    if d not in all_devices:
        all_devices.append(d)

def ggml_backend_unload(reg):
    """Removes a backend registry and its devices from the lists that programs search.

    Handles of the registry, its devices and their backends stay usable.

    Args:
        reg: handle of a registry.
    Returns:
        None.
    Raises:
        TypeError: reg is None or not a registry.
        ValueError: reg is the CPU's registry, which cannot be removed.
        RuntimeError: reg is a number that is not a live handle.
    """
    enter(b"ggml_backend_unload")
    cdef Registry r = reg_arg(reg)
    if r is cpu_device.registry:
        fail(ValueError, "reg is the CPU's registry, which is part of this library: need another")
    if r in all_registries:
        all_registries.remove(r)
    for d in r.devices():
        if d in all_devices:
            all_devices.remove(d)

def ggml_backend_load(path):
    """Would load a backend from a shared library; this build loads none.

    Args:
        path: name of the library, bytes or str. The file is not opened.
    Returns:
        None, which means that nothing was loaded.
    Raises:
        TypeError: path is None or not text.
        ValueError: path contains a NUL.
    """
    enter(b"ggml_backend_load")
    arg_path(path, b"path")
    return None

def ggml_backend_load_all():
    """Does nothing: the CPU backend is built in, and this build loads no others.

    Returns:
        None.
    """

def ggml_backend_load_all_from_path(dir_path):
    """Would load every backend library in a folder; this build loads none.

    Args:
        dir_path: name of the folder, bytes, str or None. It is not read.
    Returns:
        None.
    Raises:
        TypeError: dir_path is not text.
        ValueError: dir_path contains a NUL.
    """
    enter(b"ggml_backend_load_all_from_path")
    if dir_path is not None:
        arg_path(dir_path, b"dir_path")

def ggml_backend_dev_count():
    """Returns the number of devices that programs can search.

    Returns:
        1 for the CPU, plus those of ggml_backend_register and ggml_backend_device_register.
    """
    return len(all_devices)

def ggml_backend_dev_get(index):
    """Returns a device by its index in the list of all devices.

    Args:
        index: 0 to ggml_backend_dev_count() - 1; 0 is the CPU.
    Returns:
        Handle of the device.
    Raises:
        TypeError: index is not an integer.
        ValueError: index is negative.
        IndexError: index is too large.
    """
    enter(b"ggml_backend_dev_get")
    return HANDLE(at_index(all_devices, index, b"index", "devices"))

def ggml_backend_dev_by_name(name):
    """Finds a device by its name.

    Args:
        name: bytes or str; upper and lower case are the same.
    Returns:
        Handle of the first device with that name, or None if there is none.
    Raises:
        TypeError: name is None or not text.
    """
    enter(b"ggml_backend_dev_by_name")
    return HANDLE(found(all_devices, name))

cdef Device of_kind(object kind):
    cdef int k = arg_int32(kind, b"type")
    cdef Device d
    for d in all_devices:
        if d.kind() == k:
            return d
    return None

def ggml_backend_dev_by_type(type):
    """Finds a device by its kind.

    Args:
        type: GGML_BACKEND_DEVICE_TYPE_CPU (0), _GPU (1), _IGPU (2), _ACCEL (3) or _META (4).
    Returns:
        Handle of the first device of that kind, or None if there is none or the number is unknown.
    Raises:
        TypeError: type is not an integer.
        ValueError: type needs more than 32 bits.
    """
    enter(b"ggml_backend_dev_by_type")
    return HANDLE(of_kind(type))

def ggml_backend_dev_name(device):
    """Returns the name of a device.

    Args:
        device: handle of a device, or the ggml_backend_device of one that is written in Python.
    Returns:
        Name as bytes: b"CPU", or b"Meta(" with the names of the members for a meta device.
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
    enter(b"ggml_backend_dev_name")
    return device_arg(device, "device").name()

def ggml_backend_dev_description(device):
    """Returns the description of a device, for people to read.

    Args:
        device: handle of a device.
    Returns:
        Text as bytes; for the CPU, the processor's model as the operating system names it.
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
    enter(b"ggml_backend_dev_description")
    return device_arg(device, "device").description()

def ggml_backend_dev_memory(device, free, total):
    """Writes the free and the total memory of a device to two variables.

    Args:
        device: handle of a device.
        free: byref(c_size_t()), a pointer to size_t or an address; receives the bytes that are free.
        total: the same; receives the bytes in total. For the CPU, this is the machine's physical memory.
    Returns:
        None.
    Raises:
        TypeError: device is not a device, or free or total is None or not a pointer.
        ValueError: free or total is smaller than a size_t, or an address that cannot be read.
        RuntimeError: device is a number that is not a live handle.
    """
    enter(b"ggml_backend_dev_memory")
    cdef tuple sizes = device_arg(device, "device").memory()
    put_size(free, b"free", sizes[0])
    put_size(total, b"total", sizes[1])

cdef int put_size(object o, const char *name, size_t value) except -1:
    cdef void *p
    arg_buffer(o, name, sizeof(size_t), &p)
    if p == NULL or not engine.readable(p, sizeof(size_t)):
        fail(TypeError, f"{name.decode()} is {repr_short(o)}: need a pointer to size_t")
    (<size_t *>p)[0] = value
    return 0

def ggml_backend_dev_type(device):
    """Returns the kind of a device.

    Args:
        device: handle of a device.
    Returns:
        GGML_BACKEND_DEVICE_TYPE_CPU (0), _GPU (1), _IGPU (2), _ACCEL (3) or _META (4).
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
    enter(b"ggml_backend_dev_type")
    return device_arg(device, "device").kind()

cdef dict texts = {}      # keeps the texts of ggml_backend_dev_get_props alive

def ggml_backend_dev_get_props(device, props):
    """Fills in a struct with the properties of a device.

    The fields are name, description, device_id (None for the CPU), memory_free and memory_total in bytes, type, and
    caps, which tells whether the device works asynchronously, has a buffer type for the host, can use the caller's
    memory, and has events.

    Args:
        device: handle of a device.
        props: ggml_backend_dev_props, byref of one, a pointer or its address. Its texts stay valid.
    Returns:
        None.
    Raises:
        TypeError: device is not a device, or props is not such a struct.
        RuntimeError: device is a number that is not a live handle.
    """
    enter(b"ggml_backend_dev_get_props")
    cdef Device d = device_arg(device, "device")
    p = struct_of(props, _structs.ggml_backend_dev_props, "props")
    p.name, p.description, p.device_id = [texts.setdefault(s, s) for s in (d.name(), d.description(), d.id())]
    p.memory_free, p.memory_total = d.memory()
    p.type = d.kind()
    p.caps = _structs.ggml_backend_dev_caps(*d.caps())

def ggml_backend_dev_backend_reg(device):
    """Returns the registry that a device belongs to.

    Args:
        device: handle of a device.
    Returns:
        Handle of the registry, or None for a device without one, such as a meta device.
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
    enter(b"ggml_backend_dev_backend_reg")
    return HANDLE(device_arg(device, "device").registry)

cdef bytes params_of(object params):
    return None if params is None else arg_text(params, b"params")

def ggml_backend_dev_init(device, params):
    """Creates a backend that computes on a device.

    Args:
        device: handle of a device.
        params: text for the device, bytes, str or None. The CPU ignores it; a meta device passes it to its members.
    Returns:
        Handle of the backend (int), or None if the device could not make one. Free it with ggml_backend_free.
    Raises:
        TypeError: device is not a device, or params is not text.
        RuntimeError: device is a number that is not a live handle.
    """
    enter(b"ggml_backend_dev_init")
    return HANDLE(device_arg(device, "device").init(params_of(params)))

def ggml_backend_dev_buffer_type(device):
    """Returns the buffer type that a device uses by default.

    Args:
        device: handle of a device.
    Returns:
        Handle of the buffer type.
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
    enter(b"ggml_backend_dev_buffer_type")
    return HANDLE(device_arg(device, "device").buft())

def ggml_backend_dev_host_buffer_type(device):
    """Returns the type of host memory from which a device copies fastest.

    Args:
        device: handle of a device.
    Returns:
        Handle of the buffer type, or None if the device has none, which is the case for the CPU.
    Raises:
        TypeError: device is None or not a device.
        RuntimeError: device is a number that is not a live handle.
    """
    enter(b"ggml_backend_dev_host_buffer_type")
    return HANDLE(device_arg(device, "device").host_buft())

def ggml_backend_dev_buffer_from_host_ptr(device, ptr, size, max_tensor_size):
    """Wraps memory of the caller in a buffer that a device can use, without copying it.

    For the CPU device this is ggml_backend_cpu_buffer_from_ptr: the buffer keeps the object ptr alive.

    Args:
        device: handle of a device.
        ptr: the memory: an address, bytes, ctypes or NumPy memory, or any contiguous object with a buffer.
        size: bytes of it to use, 0 or more.
        max_tensor_size: bytes of the largest tensor that will be placed there; only devices that are written in
            Python receive it.
    Returns:
        Handle of the buffer (int), or None if the device cannot use the caller's memory, such as a meta device.
    Raises:
        TypeError: device is not a device, or ptr is None or not memory.
        ValueError: a size is negative, or ptr is smaller than size or not readable for size bytes.
        RuntimeError: device is a number that is not a live handle.
    """
    enter(b"ggml_backend_dev_buffer_from_host_ptr")
    return HANDLE(from_ptr(device_arg(device, "device"), ptr, size, arg_size(max_tensor_size, b"max_tensor_size")))

def ggml_backend_dev_supports_op(device, op):
    """Tells whether a device can compute a node.

    The CPU checks the operation, types, shapes and parameters; data need not be allocated. A meta device supports
    what the CPU supports.

    Args:
        device: handle of a device.
        op: the node: any tensor, any shape.
    Returns:
        True or False.
    Raises:
        TypeError: device is not a device, or op is not a tensor.
        RuntimeError: device is not a live handle, or the node was freed.
    """
    enter(b"ggml_backend_dev_supports_op")
    return bool(device_arg(device, "device").supports_op(arg_tensor(op, b"op")))

def ggml_backend_dev_supports_buft(device, buft):
    """Tells whether a device can compute with tensors in buffers of a type.

    The CPU supports its own types and every type that is host memory, and a meta device only its own type.

    Args:
        device: handle of a device.
        buft: handle of a buffer type.
    Returns:
        True or False.
    Raises:
        TypeError: device is not a device, or buft is not a buffer type.
        RuntimeError: one of the handles is not live.
    """
    enter(b"ggml_backend_dev_supports_buft")
    return bool(device_arg(device, "device").supports_buft(buft_arg(buft, "buft")))

def ggml_backend_dev_offload_op(device, op):
    """Tells whether a device should compute a node although the node's weights lie in host memory.

    Args:
        device: handle of a device.
        op: the node: any tensor, any shape.
    Returns:
        True or False; False for the CPU and for meta devices.
    Raises:
        TypeError: device is not a device, or op is not a tensor.
        RuntimeError: device is not a live handle, or the node was freed.
    """
    enter(b"ggml_backend_dev_offload_op")
    return bool(device_arg(device, "device").offload_op(arg_tensor(op, b"op")))

def ggml_backend_init_by_name(name, params):
    """Creates a backend on the device with a given name.

    Args:
        name: bytes or str, as for ggml_backend_dev_by_name.
        params: text for the device, bytes, str or None; the CPU ignores it.
    Returns:
        Handle of the backend (int), or None if there is no such device or it could not make one.
    Raises:
        TypeError: name is not text, or params is neither text nor None.
    """
    enter(b"ggml_backend_init_by_name")
    cdef Device d = <Device>found(all_devices, name)
    return HANDLE(d.init(params_of(params))) if d is not None else None

def ggml_backend_init_by_type(type, params):
    """Creates a backend on the first device of a kind.

    Args:
        type: GGML_BACKEND_DEVICE_TYPE_CPU (0), _GPU (1), _IGPU (2), _ACCEL (3) or _META (4).
        params: text for the device, bytes, str or None; the CPU ignores it.
    Returns:
        Handle of the backend (int), or None if there is no such device or it could not make one.
    Raises:
        TypeError: type is not an integer, or params is neither text nor None.
        ValueError: type needs more than 32 bits.
    """
    enter(b"ggml_backend_init_by_type")
    cdef Device d = of_kind(type)
    return HANDLE(d.init(params_of(params))) if d is not None else None

def ggml_backend_init_best():
    """Creates a backend on the first GPU, else on the first integrated GPU, else on the CPU.

    Without devices that the program registered, this is the CPU.

    Returns:
        Handle of the backend (int), or None if the device could not make one. Free it with ggml_backend_free.
    """
    enter(b"ggml_backend_init_best")
    cdef Device d = (of_kind(_constants.GGML_BACKEND_DEVICE_TYPE_GPU)
                     or of_kind(_constants.GGML_BACKEND_DEVICE_TYPE_IGPU) or cpu_device)
    return HANDLE(d.init(None))

# ---- the registry of releases of 2024: one entry for each device -----------------------------------------------------
def ggml_backend_reg_get_count():
    """Returns the number of backends in the list that releases of 2024 had.

    That list has one entry for each device, in the order of ggml_backend_dev_get.

    Returns:
        Number of entries, equal to ggml_backend_dev_count().
    """
    return len(all_devices)

def ggml_backend_reg_find_by_name(name):
    """Finds the index of a backend by its name, as in releases of 2024.

    Args:
        name: bytes or str; upper and lower case are the same.
    Returns:
        Index for ggml_backend_reg_init_backend and its siblings; 2**64 - 1 (SIZE_MAX) if there is no such backend.
    Raises:
        TypeError: name is None or not text.
    """
    enter(b"ggml_backend_reg_find_by_name")
    d = found(all_devices, name)
    return all_devices.index(d) if d is not None else <size_t>-1

def ggml_backend_reg_init_backend_from_str(backend_str):
    """Creates a backend from a text with its name and parameters, as in releases of 2024.

    Args:
        backend_str: b"name" or b"name:params", bytes or str; in the name, upper and lower case are the same.
    Returns:
        Handle of the backend (int), or None if there is not a backend of that name.
    Raises:
        TypeError: backend_str is None or not text.
    """
    enter(b"ggml_backend_reg_init_backend_from_str")
    name, _, params = arg_text(backend_str, b"backend_str").partition(b":")
    cdef Device d = <Device>found(all_devices, name)
    return HANDLE(d.init(params)) if d is not None else None

def ggml_backend_reg_get_name(i):
    """Returns the name of a backend by its index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: i is not an integer.
        ValueError: i is negative.
        IndexError: i is too large.
    """
    enter(b"ggml_backend_reg_get_name")
    return (<Device>at_index(all_devices, i, b"i", "backends")).name()

def ggml_backend_reg_init_backend(i, params):
    """Creates a backend by its index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
        params: text for the device, bytes, str or None; the CPU ignores it.
    Returns:
        Handle of the backend (int), or None if the device could not make one.
    Raises:
        TypeError: i is not an integer, or params is neither text nor None.
        ValueError: i is negative.
        IndexError: i is too large.
    """
    enter(b"ggml_backend_reg_init_backend")
    return HANDLE((<Device>at_index(all_devices, i, b"i", "backends")).init(params_of(params)))

def ggml_backend_reg_get_default_buffer_type(i):
    """Returns the default buffer type of a backend by its index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
    Returns:
        Handle of the buffer type.
    Raises:
        TypeError: i is not an integer.
        ValueError: i is negative.
        IndexError: i is too large.
    """
    enter(b"ggml_backend_reg_get_default_buffer_type")
    return HANDLE((<Device>at_index(all_devices, i, b"i", "backends")).buft())

def ggml_backend_reg_alloc_buffer(i, size):
    """Allocates a buffer of a backend's default type by the backend's index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
        size: bytes, 0 or more.
    Returns:
        Handle of the new buffer (int), or None if the memory is not available.
    Raises:
        TypeError: i or size is not an integer.
        ValueError: i or size is negative.
        IndexError: i is too large.
    """
    enter(b"ggml_backend_reg_alloc_buffer")
    return HANDLE((<Device>at_index(all_devices, i, b"i", "backends")).buft().alloc(arg_size(size, b"size")))

# ---- C functions for ggml_backend_reg_get_proc_address ---------------------------------------------------------------
class _Feature(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]

_names = [k.removeprefix("ggml_cpu_has_").upper() for k, has in vars(cpu).items()
          if k.startswith("ggml_cpu_has_") and has()]
_names.append("OPENMP")
_features = (_Feature * (len(_names) + 1))(*[(name.encode(), b"1") for name in _names])     # the last entry is empty

_PROTOTYPES = {               # name: its function, result and parameters
    b"ggml_backend_get_features": (lambda reg: ctypes.addressof(_features), ctypes.c_void_p, ctypes.c_void_p),
    b"ggml_backend_cpu_numa_init": (cpu.ggml_numa_init, None, ctypes.c_int),
    b"ggml_backend_cpu_is_numa": (cpu.ggml_is_numa, ctypes.c_bool),
    b"ggml_threadpool_new": (
        threadpool.ggml_threadpool_new, ctypes.c_void_p, ctypes.POINTER(_structs.ggml_threadpool_params)),
    b"ggml_threadpool_free": (threadpool.ggml_threadpool_free, None, ctypes.c_void_p),
    b"ggml_backend_set_n_threads": (ggml_backend_cpu_set_n_threads, None, ctypes.c_void_p, ctypes.c_int),
    b"ggml_backend_set_abort_callback": (ggml_backend_cpu_set_abort_callback, None, *[ctypes.c_void_p] * 3),
    b"ggml_backend_cpu_set_threadpool": (ggml_backend_cpu_set_threadpool, None, *[ctypes.c_void_p] * 2),
}
_procs = {name: ctypes.CFUNCTYPE(*types)(function) for name, (function, *types) in _PROTOTYPES.items()}
_set_procs({name: ctypes.cast(f, ctypes.c_void_p).value for name, f in _procs.items()})
