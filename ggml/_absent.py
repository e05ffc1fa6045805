"""What this build does not have: the functions of GPU, accelerator and network backends.

They exist, with their parameters, so that code that mentions them loads; calling one raises RuntimeError.
"""

_BACKENDS = {
    "BLAS": """
        ggml_backend_blas_init()
        ggml_backend_is_blas(backend)
        ggml_backend_blas_set_n_threads(backend_blas, n_threads)
        ggml_backend_blas_reg()
    """,
    "CANN": """
        ggml_backend_cann_reg()
        ggml_backend_cann_init(device)
        ggml_backend_is_cann(backend)
        ggml_backend_cann_buffer_type(device)
        ggml_backend_cann_get_device_count()
        ggml_backend_cann_host_buffer_type()
        ggml_backend_cann_get_device_description(device, description, description_size)
        ggml_backend_cann_get_device_memory(device, free, total)
    """,
    "CLBlast": """
        ggml_cl_init()
        ggml_cl_mul(src0, src1, dst)
        ggml_cl_add(src0, src1, dst)
        ggml_cl_can_mul_mat(src0, src1, dst)
        ggml_cl_mul_mat_get_wsize(src0, src1, dst)
        ggml_cl_mul_mat(src0, src1, dst, wdata, wsize)
        ggml_cl_free_data(tensor)
        ggml_cl_transform_tensor(data, tensor)
    """,
    "CUDA": """
        ggml_backend_cuda_init(device)
        ggml_backend_is_cuda(backend)
        ggml_backend_cuda_buffer_type(device)
        ggml_backend_cuda_allreduce_tensor(backends, tensors, n_backends)
        ggml_backend_cuda_split_buffer_type(main_device, tensor_split)
        ggml_backend_cuda_host_buffer_type()
        ggml_backend_cuda_get_device_count()
        ggml_backend_cuda_get_device_description(device, description, description_size)
        ggml_backend_cuda_get_device_memory(device, free, total)
        ggml_backend_cuda_register_host_buffer(buffer, size)
        ggml_backend_cuda_unregister_host_buffer(buffer)
        ggml_backend_cuda_reg()
        ggml_backend_cuda_log_set_callback(log_callback, user_data)
    """,
    "Hexagon": """
        ggml_backend_hexagon_init()
        ggml_backend_is_hexagon(backend)
        ggml_backend_hexagon_reg()
    """,
    "Metal": """
        ggml_backend_metal_init()
        ggml_backend_is_metal(backend)
        ggml_backend_metal_set_abort_callback(backend, abort_callback, user_data)
        ggml_backend_metal_supports_family(backend, family)
        ggml_backend_metal_capture_next_compute(backend)
        ggml_backend_metal_reg()
    """,
    "OpenCL": """
        ggml_backend_opencl_init()
        ggml_backend_is_opencl(backend)
        ggml_backend_opencl_buffer_type()
        ggml_backend_opencl_host_buffer_type()
        ggml_backend_opencl_reg()
    """,
    "OpenVINO": """
        ggml_backend_openvino_init(device)
        ggml_backend_is_openvino(backend)
        ggml_backend_buffer_is_openvino(buffer)
        ggml_backend_buft_is_openvino(buft)
        ggml_backend_buft_is_openvino_host(buft)
        ggml_backend_openvino_buffer_get_ctx_id(buffer)
        ggml_backend_openvino_buffer_type(device)
        ggml_backend_openvino_host_buffer_type(device)
        ggml_backend_openvino_get_device_count()
        ggml_backend_openvino_reg()
    """,
    "RPC": """
        ggml_backend_rpc_init(endpoint, device)
        ggml_backend_is_rpc(backend)
        ggml_backend_rpc_buffer_type(endpoint, device)
        ggml_backend_rpc_get_device_memory(endpoint, device, free, total)
        ggml_backend_rpc_start_server(endpoint, cache_dir, n_threads, n_devices, devices)
        ggml_backend_rpc_reg()
        ggml_backend_rpc_add_server(endpoint)
        start_rpc_server(backend, endpoint, free_mem, total_mem)
    """,
    "SYCL": """
        ggml_backend_sycl_init(device)
        ggml_backend_is_sycl(backend)
        ggml_backend_sycl_buffer_type(device)
        ggml_backend_sycl_split_buffer_type(tensor_split)
        ggml_backend_sycl_comm_init(backends, n_backends)
        ggml_backend_sycl_comm_free(comm_ctx)
        ggml_backend_sycl_comm_allreduce_tensor(comm_ctx, tensors)
        ggml_backend_sycl_host_buffer_type()
        ggml_backend_sycl_print_sycl_devices()
        ggml_backend_sycl_get_gpu_list(id_list, max_len)
        ggml_backend_sycl_get_device_description(device, description, description_size)
        ggml_backend_sycl_get_device_count()
        ggml_backend_sycl_get_device_memory(device, free, total)
        ggml_backend_sycl_reg()
    """,
    "VirtGPU": """
        ggml_backend_virtgpu_reg()
    """,
    "Vulkan": """
        ggml_vk_instance_init()
        ggml_vk_init_cpu_assist()
        ggml_vk_preallocate_buffers_graph_cpu_assist(node)
        ggml_vk_preallocate_buffers_cpu_assist()
        ggml_vk_build_graph_cpu_assist(node, last_node)
        ggml_vk_compute_forward_cpu_assist(params, tensor)
        ggml_vk_graph_cleanup_cpu_assist()
        ggml_vk_free_cpu_assist()
        ggml_backend_vk_init(dev_num)
        ggml_backend_is_vk(backend)
        ggml_backend_vk_get_device_count()
        ggml_backend_vk_get_device_description(device, description, description_size)
        ggml_backend_vk_get_device_memory(device, free, total)
        ggml_backend_vk_buffer_type(dev_num)
        ggml_backend_vk_host_buffer_type()
        ggml_backend_vk_reg()
    """,
    "WebGPU": """
        ggml_backend_webgpu_init()
        ggml_backend_webgpu_reg()
    """,
    "zDNN": """
        ggml_backend_zdnn_buffer_type()
        ggml_backend_zdnn_reg()
    """,
    "ZenDNN": """
        ggml_backend_zendnn_init()
        ggml_backend_is_zendnn(backend)
        ggml_backend_zendnn_set_n_threads(backend_zendnn, n_threads)
        ggml_backend_zendnn_reg()
    """,
}


def _make(backend, prototype):
    """Python text of a function with that prototype."""
    name = prototype.partition("(")[0]
    message = f"{name}: the {backend} backend is not part of this build"
    doc = f"Belongs to the {backend} backend, which is not part of this build: raises RuntimeError."
    return f"def {prototype}:\n    {doc!r}\n    raise RuntimeError({message!r})\n"


functions = {"__name__": "ggml"}
exec("".join(_make(b, line) for b, table in _BACKENDS.items() for line in table.strip().split("\n        ")), functions)
functions = {name: f for name, f in functions.items() if not name.startswith("__")}


class Library:
    """Answers, like the shared library that the ctypes bindings load, which functions this build has.

    `hasattr(lib, "ggml_backend_cuda_init")` is False here; `lib.ggml_add` and `lib["ggml_add"]` are the function.
    """

    def __init__(self, namespace):
        for name, f in namespace.items():
            is_type = isinstance(f, type) or hasattr(f, "__supertype__")  # the second: typing.NewType
            if callable(f) and not is_type and not name.startswith("_") and name not in functions:
                setattr(self, name, f)

    def __getitem__(self, name):
        return getattr(self, name)

    def function(self, name, argtypes, restype, enabled=True):
        """The bindings' decorator `ggml_function`: puts the function `name` of this build in place of a declaration.

        Types are fixed here, so `argtypes` and `restype` are accepted and not needed. With `enabled` False, the
        declaration becomes a function that raises RuntimeError.
        """

        def unavailable(*args, **kwargs):
            raise RuntimeError(f"{name}: not part of this build")

        return lambda declaration: getattr(self, name) if enabled else unavailable
