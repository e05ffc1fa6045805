"""The meta device: several devices as one. A function of the caller says how each tensor is split over them.

A tensor has a part on each device: a tensor in the device's memory. A part consists of pieces, which are ranges of the
split axis. Products whose first operand is split by rows (axis 1) are computed on all devices, each with its own rows.
For all other nodes, the operands are gathered in host memory, the CPU computes the node, and the result is split again.
"""
import ctypes

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from .._core cimport (
    GGML_MAX_SRC, GGML_STATUS_SUCCESS, GGML_TENSOR_FLAG_COMPUTE, allocate, arg_address, arg_callback, arg_int32,
    arg_size, context_free, context_new, engine, enter, fail, gg_nbytes, gg_types, ggml_cgraph, ggml_context,
    ggml_tensor, graph_new, is_a, new_tensor, node_append, node_init, wrap_tensor,
)
from .._enums cimport GGML_OP_MUL_MAT
from .._graph.alloc cimport alloc_context
from .._handle cimport HANDLE, handles, opened
from .device cimport Backend, Buffer, BufferType, Device, buffer_of_tensor, cpu_device, read, write
from .. import _constants, _structs
from .._core import run_callback

cdef enum:
    ALIGNMENT = 32, MAX_SEGMENTS = 16

cdef dict AXES = {value: name.removeprefix("GGML_BACKEND_SPLIT_AXIS_").encode()
                  for name, value in vars(_constants).items() if name.startswith("GGML_BACKEND_SPLIT_AXIS_")}
cdef size_t MAX_SIZE = <size_t>1 << 46
cdef size_t next_base = MAX_SIZE             # tensors in meta buffers have addresses from here on: no memory lies there

class _GetSplitState(ctypes._CFuncPtr):
    """A C function (tensor, user_data) -> ggml_backend_meta_split_state."""
    _flags_ = ctypes.CFUNCTYPE(None)._flags_
    _argtypes_ = (_structs.ggml_tensor_p, ctypes.c_void_p)
    _restype_ = _structs.ggml_backend_meta_split_state

_GetSplitState.__name__ = "ggml_backend_meta_get_split_state_t"      # for messages

cdef class Shards:
    """The parts of a tensor on the devices."""
    cdef int axis              # that is split; -1: the tensor is whole, on the first device or (`mirrored`) on each
    cdef bint mirrored
    cdef list parts            # for each device: the address of a tensor in its memory, or None
    cdef list pieces           # (device, first element along the axis, number of elements, first element in the part)
    cdef list owned            # (context, buffer) of each part

    cdef int release(self) except -1:
        for ctx, buffer in self.owned:
            if buffer is not None:
                (<Buffer>buffer).release()
            context_free(<ggml_context *><size_t>ctx)
        self.owned = []
        return 0

    cdef int move(self, ggml_tensor *t, uint8_t *block, bint gather) except -1:
        """Copies between the parts and the whole tensor, which is contiguous in `block`."""
        cdef ggml_tensor *part
        cdef size_t n
        cdef int i
        cdef uint8_t *data
        for i in range(len(self.parts)):
            if self.parts[i] is None:
                continue
            part = <ggml_tensor *><size_t>self.parts[i]
            n = gg_nbytes(part)
            if self.axis < 0:
                if gather:
                    read(part, block, 0, n)
                    return 0
                write(part, block, 0, n)
                continue
            data = <uint8_t *>allocate(1, n + 1)
            try:
                if gather:
                    read(part, data, 0, n)
                for device, start, count, at in self.pieces:
                    if device == i:
                        copy_piece(t, self.axis, block, start, part, data, at, count, gather)
                if not gather:
                    write(part, data, 0, n)
            finally:
                free(data)
        return 0

cdef int copy_piece(ggml_tensor *t, int axis, uint8_t *block, int64_t start, ggml_tensor *part, uint8_t *data,
                    int64_t at, int64_t count, bint gather) except -1:
    """Copies `count` elements along an axis, for all indices of the outer axes, between a tensor and a part.

    The elements begin with number `start` of the tensor, which lies in `block`, and number `at` of the part, which
    lies in `data`. Both are contiguous. With `gather`, they are copied to the tensor, otherwise to the part.
    """
    cdef int64_t k, outer = 1
    cdef int d
    cdef size_t unit = t.nb[axis], blck = gg_types[t.type].blck if axis == 0 else 1
    cdef size_t whole = unit * <size_t>(t.ne[axis] // blck), width = unit * <size_t>(part.ne[axis] // blck)
    cdef size_t size = unit * <size_t>(count // blck)
    cdef uint8_t *a
    cdef uint8_t *b
    for d in range(axis + 1, 4):
        outer *= t.ne[d]
    for k in range(outer):
        a, b = block + k * whole + unit * <size_t>(start // blck), data + k * width + unit * <size_t>(at // blck)
        if gather:
            memcpy(a, b, size)
        else:
            memcpy(b, a, size)
    return 0

cdef class MetaBufferType(BufferType):
    cdef bytes name(self): return self.device.name()
    cdef size_t alignment(self) except 0: return ALIGNMENT

    cdef Buffer alloc(self, size_t size):
        global next_base
        cdef MetaBuffer b = MetaBuffer()
        if size > MAX_SIZE:
            return None
        b.buft, b.size, b.base, b.shards = self, size, <uint8_t *>next_base, {}
        next_base += (size + 4096) & ~<size_t>4095
        opened(b)
        return b

cdef class MetaBuffer(Buffer):
    cdef dict shards           # address of a tensor: its Shards

    cdef int init_tensor(self, ggml_tensor *t) except? -9:
        cdef Shards old
        if t.view_src != NULL:
            return GGML_STATUS_SUCCESS
        old = self.shards.pop(<size_t>t, None)
        if old is not None:
            old.release()
        self.shards[<size_t>t] = (<MetaDevice>self.buft.device).split_tensor(t)
        return GGML_STATUS_SUCCESS

    cdef Shards shards_of(self, ggml_tensor *root):
        if <size_t>root not in self.shards:
            self.init_tensor(root)
        return self.shards[<size_t>root]

    cdef int transfer(self, ggml_tensor *t, void *data, size_t offset, size_t size, bint gather) except -1:
        """Copies bytes of a tensor or a view to `data` (with `gather`) or from there."""
        cdef ggml_tensor *root = t.view_src if t.view_src != NULL else t
        cdef Shards s = self.shards_of(root)
        cdef size_t n = gg_nbytes(root), at = offset + (t.view_offs if t.view_src != NULL else 0)
        cdef uint8_t *block
        if at > n or size > n - at:
            fail(ValueError, "the view reaches beyond its tensor")
        block = <uint8_t *>allocate(1, n + 1)
        try:
            if gather or size < n:
                s.move(root, block, True)
            if gather:
                memcpy(data, block + at, size)
            else:
                memcpy(block + at, data, size)
                s.move(root, block, False)
        finally:
            free(block)
        return 0

    cdef int set(self, ggml_tensor *t, const void *data, size_t offset, size_t size) except -1:
        return self.transfer(t, <void *>data, offset, size, False)

    cdef int get(self, ggml_tensor *t, void *data, size_t offset, size_t size) except -1:
        return self.transfer(t, data, offset, size, True)

    cdef int clear(self, int value) except -1:
        cdef Shards s
        cdef ggml_tensor *part
        for s in self.shards.values():
            for address in s.parts:
                if address is not None:
                    part = <ggml_tensor *><size_t>address
                    buffer_of_tensor(part).fill(part, value, 0, gg_nbytes(part))
        return 0

    cdef int reset(self) except -1:
        cdef Shards s
        for s in self.shards.values():
            s.release()
        self.shards = {}
        return 0

    cdef int release(self) except -1:
        self.reset()
        return self.close()

cdef class MetaDevice(Device):
    cdef list members          # the Devices
    cdef object split, user_data
    cdef MetaBufferType memory_kind

    cdef bytes name(self): return b"Meta(" + b"+".join([(<Device>d).name() for d in self.members]) + b")"
    cdef int kind(self) except -1: return _constants.GGML_BACKEND_DEVICE_TYPE_META
    cdef BufferType buft(self): return self.memory_kind
    cdef bint supports_op(self, ggml_tensor *t) except -1: return cpu_device.supports_op(t)

    cdef tuple memory(self):
        cdef list sizes = [(<Device>d).memory() for d in self.members]
        return (sum([a for a, _ in sizes]), sum([b for _, b in sizes]))

    cdef Backend init(self, bytes params):
        cdef MetaBackend b = MetaBackend()
        cdef Backend member
        b.device, b.members = self, [(<Device>d).init(params) for d in self.members]
        if None in b.members:
            for member in b.members:
                if member is not None:
                    member.release()
            return None
        b.cpu = cpu_device.init(None)
        return opened(b)

    cdef Shards split_tensor(self, ggml_tensor *t):
        """New parts for a tensor, as the caller's function says."""
        cdef Shards s = Shards()
        cdef int i, n = len(self.members)
        state = run_callback(self.split, (wrap_tensor(t), self.user_data))
        if not is_a(state, _structs.ggml_backend_meta_split_state) or state.axis not in AXES:
            fail(ValueError, "get_split_state returned no ggml_backend_meta_split_state with a known axis")
        s.axis = state.axis if 0 <= state.axis < 4 else -1
        s.mirrored = state.axis == _constants.GGML_BACKEND_SPLIT_AXIS_MIRRORED
        s.owned = []
        cdef list sizes = self.split_axis(s, t, state) if s.axis >= 0 else [0] * n
        try:
            s.parts = [self.part(s, t, i, sizes[i]) for i in range(n)]
        except BaseException:
            s.release()
            raise
        return s

    cdef list split_axis(self, Shards s, ggml_tensor *t, object state):
        """Lists the pieces along the axis in `s` and returns the number of elements of each device."""
        cdef int i, segment, n = len(self.members), n_segments = min(max(1, state.n_segments), MAX_SEGMENTS + 1)
        cdef int64_t at = 0, whole = t.ne[s.axis], unit = gg_types[t.type].blck if s.axis == 0 else 1
        cdef list counts, sizes = [0] * n
        s.pieces = []
        if n_segments > MAX_SEGMENTS:
            fail(ValueError, f"get_split_state returned {state.n_segments} segments: need at most {MAX_SEGMENTS}")
        for segment in range(n_segments):
            counts = [state.ne[segment * n + i] for i in range(n)]
            repeats = max(1, state.nr[segment])
            for i in range(n):
                if counts[i] < 0 or counts[i] % unit:
                    fail(ValueError, f"get_split_state gives device {i} {counts[i]} elements of axis {s.axis}: need a "
                         f"multiple of {unit}, 0 or more")
            if sum(counts) * repeats > whole - at:
                fail(ValueError, f"get_split_state gives the devices more than the {whole} elements of axis {s.axis}")
            for _ in range(repeats if sum(counts) else 0):
                for i in range(n):
                    s.pieces.append((i, at, counts[i], sizes[i]))
                    sizes[i] += counts[i]
                    at += counts[i]
        if at != whole:
            fail(ValueError, f"get_split_state gives the devices {at} of the {whole} elements of axis {s.axis}")
        return sizes

    cdef object part(self, Shards s, ggml_tensor *t, int i, int64_t count):
        """The address of a new tensor on device i for its part of a tensor; None if it has no part."""
        cdef int64_t[4] ne = t.ne
        cdef ggml_tensor *made
        if s.axis >= 0:
            ne[s.axis] = count
        elif i and not s.mirrored:
            return None
        if not (ne[0] and ne[1] and ne[2] and ne[3]):
            return None
        cdef ggml_context *ctx = context_new()
        s.owned.append((<size_t>ctx, None))
        made = new_tensor(ctx, t.type, 4, ne)
        buffer = alloc_context(ctx, (<Device>self.members[i]).buft())
        s.owned[-1] = (<size_t>ctx, buffer)
        if buffer is None:
            fail(MemoryError, f"no memory on {(<Device>self.members[i]).name().decode()} for its part of the tensor")
        return <size_t>made

cdef class MetaBackend(Backend):
    cdef list members
    cdef Backend cpu
    cdef dict gathered         # while a graph is computed: address of a tensor: address of its elements in host memory

    cdef object guid(self): return (ctypes.c_uint8 * 16)(*b"ggml-python-meta")

    cdef uint8_t *host_data(self, ggml_tensor *root, bint gather) except NULL:
        """The elements of a tensor in host memory; `gather` copies them from the devices when the memory is new."""
        cdef uint8_t *p
        address = self.gathered.get(<size_t>root)
        if address is not None:
            return <uint8_t *><size_t>address
        p = <uint8_t *>allocate(1, gg_nbytes(root) + 1)
        self.gathered[<size_t>root] = <size_t>p
        if gather:
            read(root, p, 0, gg_nbytes(root))
        return p

    cdef uint8_t *host_view(self, ggml_tensor *t) except NULL:
        """Where the elements of a tensor or a view are in the gathered data."""
        if t.view_src == NULL:
            return self.host_data(t, True)
        return self.host_data(t.view_src, True) + t.view_offs

    cdef int compute(self, ggml_cgraph *g) except? -99:
        cdef int i, status = GGML_STATUS_SUCCESS
        cdef ggml_tensor *t
        cdef ggml_tensor *root
        cdef set written = set()
        self.gathered = {}
        try:
            for i in range(g.n_nodes):
                t = g.nodes[i]
                if not engine.op_computes(t.op) or not t.flags & GGML_TENSOR_FLAG_COMPUTE:
                    continue
                root = t.view_src if t.view_src != NULL else t
                self.host_data(root, root != t)
                if not multiply_by_rows(self, t):
                    status = self.on_cpu(g, i)
                    if status:
                        return status
                written.add(<size_t>root)
            for address in written:
                root = <ggml_tensor *><size_t>address
                write(root, <void *><size_t>self.gathered[address], 0, gg_nbytes(root))
        finally:
            for p in self.gathered.values():
                free(<void *><size_t>p)
            self.gathered = {}
        return status

    cdef int on_cpu(self, ggml_cgraph *g, int i) except? -99:
        """Computes a node on the CPU: meanwhile its data and its operands' data are the gathered ones."""
        cdef ggml_tensor *t = g.nodes[i]
        cdef ggml_tensor *s
        cdef ggml_cgraph one = g[0]
        cdef int k
        cdef dict before = {}
        for k in range(GGML_MAX_SRC + 1):
            s = t if k == GGML_MAX_SRC else t.src[k]
            if s != NULL:
                before[<size_t>s] = <size_t>s.data
        for k in range(GGML_MAX_SRC):
            if t.src[k] != NULL:
                self.host_data(t.src[k].view_src if t.src[k].view_src != NULL else t.src[k], True)
        try:
            for address in before:
                s = <ggml_tensor *><size_t>address
                s.data = self.host_view(s)
            one.nodes, one.n_nodes = g.nodes + i, 1
            return self.cpu.compute(&one)
        finally:
            for address, data in before.items():
                (<ggml_tensor *><size_t>address).data = <void *><size_t>data

    cdef int release(self) except -1:
        cdef Backend b
        for b in self.members:
            b.release()
        self.cpu.release()
        return self.close()

# ---- products whose first operand is split by rows -------------------------------------------------------------------
cdef bint multiply_by_rows(MetaBackend meta, ggml_tensor *t) except -1:
    """Computes a product whose first operand is split by rows, each device with its rows; False for other nodes."""
    cdef Buffer b
    cdef Shards s
    cdef int i
    if t.op != GGML_OP_MUL_MAT or t.view_src != NULL or t.src[0].view_src != NULL:
        return False
    b = buffer_of_tensor(t.src[0])
    if not isinstance(b, MetaBuffer):
        return False
    s = (<MetaBuffer>b).shards_of(t.src[0])
    if s.axis != 1 or <size_t>t.src[0] in meta.gathered:
        return False
    for i in range(len(meta.members)):
        if s.parts[i] is not None and not multiply_rows(meta, t, s, i):
            return False
    return True

cdef bint multiply_rows(MetaBackend meta, ggml_tensor *t, Shards s, int i) except -1:
    """Computes the rows of device i of a product; False if the device does not support it."""
    cdef ggml_tensor *src = t.src[1]
    cdef ggml_tensor *w = <ggml_tensor *><size_t>s.parts[i]
    cdef ggml_tensor *x
    cdef ggml_tensor *y
    cdef ggml_tensor d
    cdef ggml_cgraph *g
    cdef uint8_t *rows
    cdef Backend backend = meta.members[i]
    cdef ggml_context *ctx = context_new()
    cdef Buffer buffer = None
    try:
        x = new_tensor(ctx, src.type, 4, src.ne)
        memcpy(x.nb, src.nb, sizeof(src.nb))
        node_init(&d, GGML_OP_MUL_MAT, t.type, w.ne[1], t.ne[1], t.ne[2], t.ne[3])
        memcpy(d.op_params, t.op_params, sizeof(t.op_params))
        d.src[0], d.src[1] = w, x
        y = node_append(ctx, &d)
        y.flags = GGML_TENSOR_FLAG_COMPUTE
        if not backend.supports_op(y):
            return False
        buffer = alloc_context(ctx, backend.buft())
        write(x, meta.host_view(src), 0, gg_nbytes(src))
        g = graph_new(ctx, 1, False)
        g.nodes[0], g.n_nodes = y, 1
        if backend.compute(g):
            fail(RuntimeError, f"{backend.name().decode()} failed")
        backend.synchronize()
        rows = <uint8_t *>allocate(1, gg_nbytes(y) + 1)
        try:
            read(y, rows, 0, gg_nbytes(y))
            for device, start, count, at in s.pieces:
                if device == i:
                    copy_piece(t, 0, meta.host_data(t, False), start, y, rows, at, count, True)
        finally:
            free(rows)
    finally:
        if buffer is not None:
            buffer.release()
        context_free(ctx)
    return True

def ggml_backend_meta_split_axis_name(split_axis):
    """Returns the name of a split axis, the way in which a meta device divides a tensor.

    Args:
        split_axis: GGML_BACKEND_SPLIT_AXIS_0 to _3 (0 to 3), _MIRRORED (10), _PARTIAL (11), _NONE (98) or
            _UNKNOWN (99).
    Returns:
        Name as bytes: b"0" to b"3", b"MIRRORED", b"PARTIAL", b"NONE" or b"UNKNOWN".
    Raises:
        TypeError: split_axis is not an integer.
        ValueError: split_axis is another number.
    """
    enter(b"ggml_backend_meta_split_axis_name")
    cdef int axis = arg_int32(split_axis, b"split_axis")
    if axis not in AXES:
        fail(ValueError, f"split_axis is {axis}: need one of {sorted(AXES)}")
    return AXES[axis]

def ggml_backend_meta_device(devs, n_devs, get_split_state, get_split_state_ud):
    """Combines several devices into one that splits its tensors over them.

    Every tensor that is placed in the meta device's buffers is stored as get_split_state says: in parts along an
    axis, whole on every device (MIRRORED), or whole on the first (PARTIAL, NONE, UNKNOWN). The devices compute
    matrix products whose first operand is split along axis 1, each with its own rows; the CPU computes all other
    nodes on gathered data.

    Args:
        devs: array of n_devs device handles: a list, a ctypes array, a pointer or an address.
        n_devs: number of devices, 1 to 16.
        get_split_state: callable (tensor, user_data) -> ggml_backend_meta_split_state, or the address of such a C
            function. Called when a tensor is placed. In its result, ne[segment * n_devs + device] is the number of
            elements along the axis, and nr[segment] repeats a segment. The numbers must add up to the tensor's size
            along the axis; along axis 0 they must be multiples of the type's block.
        get_split_state_ud: value for user_data: None, an int or an address; of other objects, the address is taken.
    Returns:
        Handle of the device (int), of kind GGML_BACKEND_DEVICE_TYPE_META. It is not listed among the devices.
        ggml_backend_dev_init makes a backend of it.
    Raises:
        TypeError: devs is None or not an array, an entry is not a device, or get_split_state is None or not a function.
        ValueError: n_devs is not 1 to 16, devs has fewer entries or cannot be read, or there is no function at the
            address. A split that does not fit its tensor raises this too, in the call that places the tensor.
        RuntimeError: an entry is not a live handle.
    """
    enter(b"ggml_backend_meta_device")
    cdef size_t n = arg_size(n_devs, b"n_devs")
    if not 1 <= n <= <size_t>_constants.GGML_BACKEND_META_MAX_DEVICES:
        fail(ValueError, f"n_devs is {n}: need 1 to {_constants.GGML_BACKEND_META_MAX_DEVICES}")
    cdef MetaDevice d = MetaDevice()
    cdef MetaBufferType buft = MetaBufferType()
    d.members = handles(devs, n, Device, "devs")
    d.user_data = get_split_state_ud if get_split_state_ud is None or isinstance(get_split_state_ud, int) \
        else <size_t>arg_address(get_split_state_ud, b"get_split_state_ud")
    if callable(get_split_state) and not is_a(get_split_state, ctypes._CFuncPtr):
        d.split = get_split_state
    else:
        address = <size_t>arg_callback(get_split_state, _GetSplitState, b"get_split_state")
        if not address:
            fail(TypeError, "get_split_state is NULL: need a function")
        d.split, d.keep = _GetSplitState(address), get_split_state
    d.memory_kind, buft.device = buft, d
    opened(buft)
    return HANDLE(opened(d))
