"""A backend written in Python: a device whose memory is NumPy arrays and which computes with NumPy.

It consists of four tables of callbacks: of a buffer type, of its buffers, of a backend, and of a device. The scheduler
assigns the nodes that the device supports to it, copies their sources to its memory, and assigns the other nodes to the
CPU.

The addresses of tensors in the device's memory are arbitrary numbers. Only the device itself interprets them.
"""

import ctypes

import numpy as np

import ggml


class NumpyDevice:
    """The device. Keep it alive while it is in use: it holds the tables of callbacks and the memory."""

    ALIGNMENT = 32
    OPERATIONS = {
        ggml.GGML_OP_ADD: lambda a, b: a + np.tile(b, np.array(a.shape) // b.shape),
        ggml.GGML_OP_MUL: lambda a, b: a * np.tile(b, np.array(a.shape) // b.shape),
        ggml.GGML_OP_MUL_MAT: lambda a, b: b @ a.swapaxes(-1, -2),
        ggml.GGML_OP_SQR: lambda a: a * a,
    }
    VIEWS = {ggml.GGML_OP_NONE, ggml.GGML_OP_VIEW, ggml.GGML_OP_RESHAPE, ggml.GGML_OP_PERMUTE, ggml.GGML_OP_TRANSPOSE}

    def __init__(self, name=b"NumPy"):
        self.name = name
        self.memory = {}  # base address: array of bytes
        self.next_base = 1 << 46  # address of the next buffer
        self.computed = []  # names of operations, in the order in which they were computed
        self.make_buffer_type()
        self.make_backend()
        self.make_device()

    # ---- memory ---------------------------------------------------------------------------------------------------
    def make_buffer_type(self):
        self.buffer_i = ggml.ggml_backend_buffer_i(
            free_buffer=ggml.ggml_backend_buffer_i_free_buffer(self.free_buffer),
            get_base=ggml.ggml_backend_buffer_i_get_base(self.base_of),
            set_tensor=ggml.ggml_backend_buffer_i_set_tensor(self.set_tensor),
            get_tensor=ggml.ggml_backend_buffer_i_get_tensor(self.get_tensor),
            clear=ggml.ggml_backend_buffer_i_clear(self.clear),
        )
        self.buffer_type = ggml.ggml_backend_buffer_type(
            iface=ggml.ggml_backend_buffer_type_i(
                get_name=ggml.ggml_backend_buffer_type_i_get_name(lambda buft: self.name),
                alloc_buffer=ggml.ggml_backend_buffer_i_alloc_buffer(self.alloc_buffer),
                get_alignment=ggml.ggml_backend_buffer_i_get_alignment(lambda buft: self.ALIGNMENT),
                supports_backend=ggml.ggml_backend_buffer_i_supports_backend(
                    lambda buft, backend: backend == ctypes.addressof(self.backend)
                ),
            )
        )

    def alloc_buffer(self, buft, size):
        base = self.next_base
        self.next_base += size + (1 << 20)
        self.memory[base] = np.zeros(size, np.uint8)
        return ggml.ggml_backend_buffer_init(buft, self.buffer_i, base, size)  # base is the buffer's context

    def base_of(self, buffer):
        return ggml.ggml_backend_buffer.from_address(buffer).context

    def free_buffer(self, buffer):
        del self.memory[self.base_of(buffer)]

    def clear(self, buffer, value):
        self.memory[self.base_of(buffer)][:] = value

    def bytes_at(self, address, size):
        """`size` bytes of the device's memory as an array of uint8."""
        for base, block in self.memory.items():
            if base <= address and address + size <= base + len(block):
                return block[address - base : address - base + size]
        raise ValueError(f"{address:#x} is not in the device's memory")

    def set_tensor(self, buffer, tensor, data, offset, size):
        source = (ctypes.c_uint8 * size).from_address(data)
        self.bytes_at(tensor.contents.data + offset, size)[:] = np.frombuffer(source, np.uint8)

    def get_tensor(self, buffer, tensor, data, offset, size):
        ctypes.memmove(data, self.bytes_at(tensor.contents.data + offset, size).ctypes.data, size)

    # ---- computing ------------------------------------------------------------------------------------------------
    def make_backend(self):
        self.backend = ggml.ggml_backend(
            iface=ggml.ggml_backend_i(
                get_name=ggml.ggml_backend_i_get_name(lambda backend: self.name),
                get_default_buffer_type=ggml.ggml_backend_i_get_default_buffer_type(
                    lambda backend: ctypes.addressof(self.buffer_type)
                ),
                graph_compute=ggml.ggml_backend_i_graph_compute(self.compute),
                supports_op=ggml.ggml_backend_i_supports_op(lambda backend, op: self.supports(op)),
            )
        )

    def supports(self, op):
        t = op.contents
        operands = [s.contents for s in t.src if s]
        return t.op in self.VIEWS or (
            t.op in self.OPERATIONS and all(s.type == ggml.GGML_TYPE_F32 for s in [t, *operands])
        )

    def array(self, tensor):
        """An f32 tensor as an array over the device's memory, with its axes in NumPy's order."""
        t = tensor.contents
        data = self.bytes_at(t.data, ggml.ggml_nbytes(tensor))
        return np.ndarray(t.ne[::-1], np.float32, buffer=data, strides=t.nb[::-1])

    def compute(self, backend, graph):
        for i in range(ggml.ggml_graph_n_nodes(graph)):
            node = ggml.ggml_graph_node(graph, i)
            t = node.contents
            if t.op not in self.VIEWS:
                self.array(node)[:] = self.OPERATIONS[t.op](*[self.array(s) for s in t.src if s])
                self.computed.append(ggml.ggml_op_name(t.op).decode())
        return True

    # ---- the device -----------------------------------------------------------------------------------------------
    def make_device(self):
        def memory(device, free, total):
            free[0] = total[0] = 1 << 30

        def props(device, out):
            out.contents.name = out.contents.description = self.name
            out.contents.type = ggml.GGML_BACKEND_DEVICE_TYPE_ACCEL

        self.device = ggml.ggml_backend_device(
            iface=ggml.ggml_backend_device_i(
                get_name=ggml.ggml_backend_device_i_get_name(lambda device: self.name),
                get_description=ggml.ggml_backend_device_i_get_description(lambda device: b"NumPy arrays"),
                get_memory=ggml.ggml_backend_device_i_get_memory(memory),
                get_type=ggml.ggml_backend_device_i_get_type(lambda device: ggml.GGML_BACKEND_DEVICE_TYPE_ACCEL),
                get_props=ggml.ggml_backend_device_i_get_props(props),
                init_backend=ggml.ggml_backend_device_i_init_backend(
                    lambda device, params: ctypes.addressof(self.backend)
                ),
                get_buffer_type=ggml.ggml_backend_device_i_get_buffer_type(
                    lambda device: ctypes.addressof(self.buffer_type)
                ),
                supports_op=ggml.ggml_backend_device_i_supports_op(lambda device, op: self.supports(op)),
                supports_buft=ggml.ggml_backend_device_i_supports_buft(
                    lambda device, buft: buft == ctypes.addressof(self.buffer_type)
                ),
            )
        )
        self.handle = ctypes.addressof(self.device)


def main():
    device = NumpyDevice()
    ggml.ggml_backend_device_register(device.handle)
    numpy_backend = ggml.ggml_backend_init_by_name(b"NumPy", None)
    cpu = ggml.ggml_backend_cpu_init()

    # W [3, 2] (ggml order) in the memory of the device: the scheduler computes there what reads it.
    weights = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))
    w = ggml.ggml_new_tensor_2d(weights, ggml.GGML_TYPE_F32, 3, 2)
    weight_buffer = ggml.ggml_backend_alloc_ctx_tensors(weights, numpy_backend)
    ggml.ggml_backend_buffer_set_usage(weight_buffer, ggml.GGML_BACKEND_BUFFER_USAGE_WEIGHTS)
    values = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    ggml.ggml_backend_tensor_set(w, values.ctypes.data, 0, values.nbytes)

    # y = tanh(W x): [2]. The device computes the product; it does not support tanh, which the CPU computes.
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=True))
    x = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 3)
    ggml.ggml_set_input(x)
    y = ggml.ggml_tanh(ctx, ggml.ggml_mul_mat(ctx, w, x))
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, y)

    backends = (ctypes.c_void_p * 2)(numpy_backend, cpu)
    sched = ggml.ggml_backend_sched_new(backends, None, 2, ggml.GGML_DEFAULT_GRAPH_SIZE, False, True)
    ggml.ggml_backend_sched_alloc_graph(sched, graph)
    given = np.array([0.3, -0.2, 0.1], np.float32)
    ggml.ggml_backend_tensor_set(x, given.ctypes.data, 0, given.nbytes)
    ggml.ggml_backend_sched_graph_compute(sched, graph)
    result = np.empty(2, np.float32)
    ggml.ggml_backend_tensor_get(y, result.ctypes.data, 0, result.nbytes)

    print("computed by NumPy:", device.computed)
    print("splits:", ggml.ggml_backend_sched_get_n_splits(sched))
    print("tanh(W x) =", result)
    assert np.allclose(result, np.tanh(values @ given), atol=1e-6)

    ggml.ggml_backend_sched_free(sched)
    ggml.ggml_free(ctx)
    ggml.ggml_backend_buffer_free(weight_buffer)
    ggml.ggml_free(weights)
    ggml.ggml_backend_free(cpu)


if __name__ == "__main__":
    main()
