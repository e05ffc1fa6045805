"""The functions of GPU, accelerator and network backends, which this build does not have.

They exist with their parameters and docstrings, so that programs that refer to them can be imported. A call raises
RuntimeError, whatever its arguments: programs call them to find out which backends there are.
"""

from __future__ import annotations

import functools
from typing import Any

# One row for each function: its prototype, and what it does in a build with its backend.
_BACKENDS = {
    "BLAS": """
    ggml_backend_blas_init(): create a backend that multiplies matrices
    ggml_backend_is_blas(backend): tell whether a backend is of this kind
    ggml_backend_blas_set_n_threads(backend_blas, n_threads): set the number of threads of the BLAS library
    ggml_backend_blas_reg(): return the registry of the devices
    """,
    "CANN": """
    ggml_backend_cann_reg(): return the registry of the devices
    ggml_backend_cann_init(device): create a backend on a device
    ggml_backend_is_cann(backend): tell whether a backend is of this kind
    ggml_backend_cann_buffer_type(device): return the buffer type of a device
    ggml_backend_cann_get_device_count(): return the number of devices
    ggml_backend_cann_host_buffer_type(): return the type of host memory that devices copy from fastest
    ggml_backend_cann_get_device_description(device, description, description_size): write the name of a device
    ggml_backend_cann_get_device_memory(device, free, total): write the free and the total memory of a device
    """,
    "CLBlast": """
    ggml_cl_init(): open the OpenCL device and compile the kernels for it
    ggml_cl_mul(src0, src1, dst): multiply two tensors element by element
    ggml_cl_add(src0, src1, dst): add two tensors element by element
    ggml_cl_can_mul_mat(src0, src1, dst): tell whether the device should compute a matrix product
    ggml_cl_mul_mat_get_wsize(src0, src1, dst): return the bytes of work memory that a matrix product needs
    ggml_cl_mul_mat(src0, src1, dst, wdata, wsize): multiply matrices
    ggml_cl_free_data(tensor): free the device memory of a tensor
    ggml_cl_transform_tensor(data, tensor): copy the data of a tensor to the device
    """,
    "CUDA": """
    ggml_backend_cuda_init(device): create a backend on a device
    ggml_backend_is_cuda(backend): tell whether a backend is of this kind
    ggml_backend_cuda_buffer_type(device): return the buffer type of a device
    ggml_backend_cuda_allreduce_tensor(backends, tensors, n_backends): replace each tensor by the sum of all of them
    ggml_backend_cuda_split_buffer_type(main_device, tensor_split): return the type whose buffers split matrices by rows
    ggml_backend_cuda_host_buffer_type(): return the type of host memory that devices copy from fastest
    ggml_backend_cuda_get_device_count(): return the number of devices
    ggml_backend_cuda_get_device_description(device, description, description_size): write the name of a device
    ggml_backend_cuda_get_device_memory(device, free, total): write the free and the total memory of a device
    ggml_backend_cuda_register_host_buffer(buffer, size): pin host memory, so that devices copy it faster
    ggml_backend_cuda_unregister_host_buffer(buffer): unpin host memory
    ggml_backend_cuda_reg(): return the registry of the devices
    ggml_backend_cuda_log_set_callback(log_callback, user_data): set the function that receives log messages
    """,
    "Hexagon": """
    ggml_backend_hexagon_init(): create a backend on the first device
    ggml_backend_is_hexagon(backend): tell whether a backend is of this kind
    ggml_backend_hexagon_reg(): return the registry of the devices
    """,
    "Metal": """
    ggml_backend_metal_init(): create a backend on the default device
    ggml_backend_is_metal(backend): tell whether a backend is of this kind
    ggml_backend_metal_set_abort_callback(backend, abort_callback, user_data): set the function that can stop a compute
    ggml_backend_metal_supports_family(backend, family): tell whether the device belongs to a family of GPUs
    ggml_backend_metal_capture_next_compute(backend): capture the GPU commands of the next compute for debugging
    ggml_backend_metal_reg(): return the registry of the devices
    """,
    "OpenCL": """
    ggml_backend_opencl_init(): create a backend on the first device
    ggml_backend_is_opencl(backend): tell whether a backend is of this kind
    ggml_backend_opencl_buffer_type(): return the buffer type of the first device
    ggml_backend_opencl_host_buffer_type(): return the type of host memory that devices copy from fastest
    ggml_backend_opencl_reg(): return the registry of the devices
    """,
    "OpenVINO": """
    ggml_backend_openvino_init(device): create a backend on a device
    ggml_backend_is_openvino(backend): tell whether a backend is of this kind
    ggml_backend_buffer_is_openvino(buffer): tell whether a buffer is of this kind
    ggml_backend_buft_is_openvino(buft): tell whether a buffer type is that of a device
    ggml_backend_buft_is_openvino_host(buft): tell whether a buffer type is that of the host memory
    ggml_backend_openvino_buffer_get_ctx_id(buffer): return the number that identifies a buffer
    ggml_backend_openvino_buffer_type(device): return the buffer type of a device
    ggml_backend_openvino_host_buffer_type(device): return the type of the host memory for a device
    ggml_backend_openvino_get_device_count(): return the number of devices
    ggml_backend_openvino_reg(): return the registry of the devices
    """,
    "RPC": """
    ggml_backend_rpc_init(endpoint, device): create a backend on a device of a server
    ggml_backend_is_rpc(backend): tell whether a backend is of this kind
    ggml_backend_rpc_buffer_type(endpoint, device): return the buffer type of a device of a server
    ggml_backend_rpc_get_device_memory(endpoint, device, free, total): write the memory sizes of a server's device
    ggml_backend_rpc_start_server(endpoint, cache_dir, n_threads, n_devices, devices): serve devices to clients
    ggml_backend_rpc_reg(): return the registry that finds the functions of this kind
    ggml_backend_rpc_add_server(endpoint): return a registry with the devices of a server
    start_rpc_server(backend, endpoint, free_mem, total_mem): serve one backend to clients, as releases of 2024 did
    """,
    "SYCL": """
    ggml_backend_sycl_init(device): create a backend on a device
    ggml_backend_is_sycl(backend): tell whether a backend is of this kind
    ggml_backend_sycl_buffer_type(device): return the buffer type of a device
    ggml_backend_sycl_split_buffer_type(tensor_split): return the type whose buffers split matrices by rows
    ggml_backend_sycl_comm_init(backends, n_backends): create a communicator for sums over several backends
    ggml_backend_sycl_comm_free(comm_ctx): free a communicator
    ggml_backend_sycl_comm_allreduce_tensor(comm_ctx, tensors): replace each tensor by the sum of all of them
    ggml_backend_sycl_host_buffer_type(): return the type of host memory that devices copy from fastest
    ggml_backend_sycl_print_sycl_devices(): print a list of the devices
    ggml_backend_sycl_get_gpu_list(id_list, max_len): write the numbers of the GPUs to an array
    ggml_backend_sycl_get_device_description(device, description, description_size): write the name of a device
    ggml_backend_sycl_get_device_count(): return the number of devices
    ggml_backend_sycl_get_device_memory(device, free, total): write the free and the total memory of a device
    ggml_backend_sycl_reg(): return the registry of the devices
    """,
    "VirtGPU": """
    ggml_backend_virtgpu_reg(): return the registry of the devices
    """,
    "Vulkan": """
    ggml_vk_instance_init(): create the Vulkan instance
    ggml_vk_init_cpu_assist(): prepare the device for computing nodes on behalf of the CPU
    ggml_vk_preallocate_buffers_graph_cpu_assist(node): add up the device memory that the nodes of a graph need
    ggml_vk_preallocate_buffers_cpu_assist(): allocate the device memory that was added up for a graph
    ggml_vk_build_graph_cpu_assist(node, last_node): record the device commands of a node
    ggml_vk_compute_forward_cpu_assist(params, tensor): compute a node with its recorded commands
    ggml_vk_graph_cleanup_cpu_assist(): drop the recorded commands of a graph
    ggml_vk_free_cpu_assist(): free what ggml_vk_init_cpu_assist prepared
    ggml_backend_vk_init(dev_num): create a backend on a device
    ggml_backend_is_vk(backend): tell whether a backend is of this kind
    ggml_backend_vk_get_device_count(): return the number of devices
    ggml_backend_vk_get_device_description(device, description, description_size): write the name of a device
    ggml_backend_vk_get_device_memory(device, free, total): write the free and the total memory of a device
    ggml_backend_vk_buffer_type(dev_num): return the buffer type of a device
    ggml_backend_vk_host_buffer_type(): return the type of host memory that devices copy from fastest
    ggml_backend_vk_reg(): return the registry of the devices
    """,
    "WebGPU": """
    ggml_backend_webgpu_init(): create a backend on the first device
    ggml_backend_webgpu_reg(): return the registry of the devices
    """,
    "zDNN": """
    ggml_backend_zdnn_buffer_type(): return the buffer type of the device
    ggml_backend_zdnn_reg(): return the registry of the devices
    """,
    "ZenDNN": """
    ggml_backend_zendnn_init(): create a backend that multiplies matrices
    ggml_backend_is_zendnn(backend): tell whether a backend is of this kind
    ggml_backend_zendnn_set_n_threads(backend_zendnn, n_threads): set the number of threads of the ZenDNN library
    ggml_backend_zendnn_reg(): return the registry of the devices
    """,
}

# The meaning of each parameter. "CUDA.buffer" is a parameter with another meaning in the functions of that backend.
_PARAMETERS = {
    "abort_callback": "callback(user_data) -> bool (ggml_abort_callback); True would stop the compute.",
    "backend": "handle of a backend.",
    "backend_blas": "handle of a backend of ggml_backend_blas_init.",
    "backend_zendnn": "handle of a backend of ggml_backend_zendnn_init.",
    "backends": "array of n_backends backend handles, one for each device.",
    "buffer": "handle of a buffer.",
    "CUDA.buffer": "address of the host memory.",
    "buft": "handle of a buffer type.",
    "cache_dir": "folder for copies of large tensors, bytes or str; None for no copies.",
    "comm_ctx": "the communicator, from ggml_backend_sycl_comm_init.",
    "data": "address of the data in host memory.",
    "description": "text buffer that would receive the name.",
    "description_size": "bytes of that buffer.",
    "dev_num": "index of the device, 0 or more.",
    "device": "index of the device, 0 or more.",
    "devices": "array of n_devices device handles.",
    "dst": "tensor for the result: any tensor, any shape.",
    "endpoint": 'network address of the server, "host:port" as bytes or str.',
    "family": "number of the family, as Metal counts them.",
    "free": "pointer to a size_t that would receive the free bytes.",
    "free_mem": "bytes of free memory to report to clients.",
    "id_list": "array of max_len int that would receive the numbers.",
    "last_node": "True for the last node of the graph.",
    "log_callback": "callback(level, text, user_data) (ggml_log_callback).",
    "main_device": "index of the device that holds what is not split.",
    "max_len": "number of entries in id_list.",
    "n_backends": "number of backends.",
    "n_devices": "number of devices.",
    "n_threads": "number of threads, 1 or more.",
    "node": "a node of the graph: any tensor, any shape.",
    "params": "pointer to the ggml_compute_params of the calling thread.",
    "size": "bytes of that memory.",
    "src0": "first operand: any tensor, any shape.",
    "src1": "second operand: any tensor, any shape.",
    "tensor": "the tensor: any tensor, any shape.",
    "tensor_split": "array of float, the share of each device; None for shares by memory.",
    "tensors": "array of tensor pointers, one for each backend.",
    "total": "pointer to a size_t that would receive the bytes in total.",
    "total_mem": "bytes of memory in total to report to clients.",
    "user_data": "value that the callback would receive.",
    "wdata": "address of work memory.",
    "wsize": "bytes of work memory, from ggml_cl_mul_mat_get_wsize.",
}


def _document(backend, parameters, what):
    """Docstring of a function that would do `what`."""
    meanings = [_PARAMETERS.get(f"{backend}.{name}") or _PARAMETERS[name] for name in parameters]
    lines = [f"Would {what} ({backend} backend, not part of this build).", ""]
    if parameters:
        lines += ["Arguments are not examined: any number of any kind leads to the same error.", "", "Args:"]
        lines += [f"    {name}: {meaning}" for name, meaning in zip(parameters, meanings)]
    lines += ["Returns:", "    Nothing: the function always raises.", "Raises:"]
    return "\n".join([*lines, f"    RuntimeError: always, because this build lacks the {backend} backend."])


def _make(backend, row):
    """Python text of the function that a row describes."""
    prototype, _, what = row.strip().partition(": ")
    name, _, parameters = prototype.removesuffix(")").partition("(")
    doc = _document(backend, parameters.split(", ") if parameters else [], what)
    return f"@_absent({backend!r})\ndef {prototype}:\n    {doc!r}\n"


def _absent(backend):
    """Returns a decorator: the function accepts any arguments and raises; its signature remains the prototype's."""

    def replace(prototype):
        @functools.wraps(prototype)
        def function(*args, **kwargs):
            raise RuntimeError(f"{prototype.__name__}: the {backend} backend is not part of this build")

        return function

    return replace


functions = {"__name__": "ggml", "_absent": _absent}
exec("".join(_make(b, row) for b, table in _BACKENDS.items() for row in table.strip().splitlines()), functions)
functions = {name: f for name, f in functions.items() if not name.startswith("_")}


class Library:
    """The functions of this build as attributes, like the shared library that the ctypes bindings load.

    `hasattr(lib, "ggml_backend_cuda_init")` is False; `lib.ggml_add` and `lib["ggml_add"]` are the function.
    `lib._name` is the file of the extension module. It exports no C functions: `lib._handle` and `ctypes.CDLL` are of
    no use.
    """

    def __init__(self, namespace):
        self._name = namespace["_core"].__file__
        for name, f in namespace.items():
            is_type = isinstance(f, type) or hasattr(f, "__supertype__")  # the second: typing.NewType
            if callable(f) and not is_type and not name.startswith("_") and name not in functions:
                setattr(self, name, f)

    def __getitem__(self, name):
        return getattr(self, name)

    def __getattr__(self, name):
        if name == "_handle":
            raise AttributeError(
                "ggml.lib._handle: there is no shared library, the functions belong to Python extension modules: "
                "call them from Python, or from C through a ctypes.CFUNCTYPE callback"
            )
        raise AttributeError(f"ggml.lib: this build has no function {name!r}")

    def __repr__(self):
        return f"<functions of {self._name}>"

    def function(self, name: str, argtypes: Any, restype: Any, enabled: bool = True) -> Any:
        """Returns a decorator that replaces the declaration of a C function by the function of this build.

        The ctypes bindings declare their functions with it. The functions of this build convert their arguments
        themselves, so the types have no effect.

        Args:
            name: name of the function, str.
            argtypes: ctypes types of the parameters.
            restype: ctypes type of the result.
            enabled: False for a function that the build does not have.
        Returns:
            Decorator (declaration) -> function. If enabled is False, the function raises RuntimeError when it is
            called.
        Raises:
            AttributeError: this build has no function of that name (raised by the decorator).
        """

        def unavailable(*args, **kwargs):
            raise RuntimeError(f"{name}: not part of this build")

        return lambda declaration: getattr(self, name) if enabled else unavailable


class _NoAddress:
    """What functions have as `_as_parameter_`, which ctypes asks for an address: it explains that there is none."""

    @property
    def _as_parameter_(self):
        raise TypeError(
            "functions of the ggml package have no C address: pass ctypes.CFUNCTYPE(restype, *argtypes)(function), or "
            "for operators and callbacks the type that ggml has for them, as ggml.ggml_custom1_op_t(function)"
        )


no_address = _NoAddress()


def load_shared_library(module_name: str, lib_base_name: str) -> Any:
    """Returns the functions of this build; the ctypes bindings load their shared library with it.

    There is nothing to load here: the functions belong to extension modules that `import ggml` has loaded.

    Args:
        module_name: name of the package, "ggml".
        lib_base_name: name of the library, "ggml".
    Returns:
        ggml.lib.
    Raises:
        FileNotFoundError: another package or library is asked for.
    """
    if (module_name, lib_base_name) != ("ggml", "ggml"):
        raise FileNotFoundError(
            f"load_shared_library: {lib_base_name!r} of {module_name!r}: this package holds the library 'ggml' alone, "
            "use ctypes.CDLL for other ones"
        )
    import ggml

    return ggml.lib


def ctypes_function_for_shared_library(lib: Any) -> Any:
    """Returns the decorator with which the ctypes bindings declare the functions of a library.

    Args:
        lib: ggml.lib.
    Returns:
        ggml.ggml_function, a function (name, argtypes, restype, enabled) that returns a decorator.
    Raises:
        TypeError: lib is not ggml.lib.
    """
    if not isinstance(lib, Library):
        raise TypeError(f"ctypes_function_for_shared_library: lib is {lib!r}: need ggml.lib")
    return lib.function
