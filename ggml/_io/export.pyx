"""Graphs in files: ggml_graph_export and ggml_graph_import.

The format belongs to this library and is little-endian. A file consists of:

- HEADER
- the numbers of the nodes, then those of the leafs (int32)
- in a graph with gradients, a pair of numbers (gradient, accumulator) for each tensor
- a RECORD for each tensor; a tensor follows its sources
- from offset `data` on, the values of the tensors that no operation computes

The number of a tensor is the index of its record, -1 for none. Operations are stored by name, not by number.
"""
import os
import struct
from array import array

from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from .._core cimport (
    GGML_MAX_NAME, GGML_MAX_SRC, GG_OP_MAX, arg_buffer, arg_graph, arg_path, arg_type, check_data, engine, enter, fail,
    function_name, gg_add, gg_extent, gg_mul, gg_nbytes, gg_types, ggml_cgraph, ggml_context, ggml_tensor, graph_new,
    name_text, node_append, node_init, paused, repr_short, wrap_graph, wrap_tensor,
)
from .._enums cimport GGML_OP_NONE
from .._backend.transfer import ggml_backend_tensor_get
from .._core import ggml_free, ggml_init
from .._structs import ggml_init_params
from .files import read_regular, save

cdef enum:
    VERSION = 1
    ALIGN = 32
    WITH_GRADS = 1
    HAS_DATA = 1

cdef bytes MAGIC = b"ggmlgrph"
# magic, version, flags, size, n_nodes, n_leafs, n_tensors, data
cdef object HEADER = struct.Struct("<8s2I3i4xQQ")
# op, type, flags, view_src, HAS_DATA, view_offs, data, ne, nb, op_params, src, name
cdef object RECORD = struct.Struct("<32s4iQQ4q4Q16i10i64s")
cdef frozenset CALLBACKS = frozenset((b"MAP_CUSTOM1", b"MAP_CUSTOM2", b"MAP_CUSTOM3", b"CUSTOM", b"COMPILED"))

# ---- writing ---------------------------------------------------------------------------------------------------------
cdef list needs(ggml_tensor *t):
    """The tensors that must precede a tensor in the file: its sources and the tensor that it is a view of."""
    cdef list found = [<size_t>t.src[k] for k in range(GGML_MAX_SRC) if t.src[k] != NULL]
    if t.view_src != NULL:
        found.append(<size_t>t.view_src)
    return found

cdef dict numbered(list wanted):
    """Numbers the tensors at these addresses and all tensors that they depend on, in topological order."""
    cdef dict number = {}
    cdef size_t address
    begun = set()
    stack = wanted[::-1]
    while stack:
        address = stack[-1]
        if address in number:
            stack.pop()
            continue
        if not engine.tensor_live(<ggml_tensor *>address):
            fail(RuntimeError, "a node, leaf or source of the graph is not a tensor of a live context")
        missing = [a for a in needs(<ggml_tensor *>address) if a not in number]
        if not missing:
            number[address] = len(number)
            stack.pop()
        elif address in begun:
            fail(ValueError, "the graph has a cycle: a tensor depends on itself")
        else:
            begun.add(address)
            stack += missing
    return number

cdef bytes values(ggml_tensor *t):
    """The bytes of a tensor that no operation computes; None if it has no data."""
    cdef size_t n = gg_nbytes(t)
    if t.data == NULL and t.buffer == NULL:
        return None
    if t.buffer != NULL:
        out = bytearray(n)
        if n:
            ggml_backend_tensor_get(wrap_tensor(t), out, 0, n)
            enter(b"ggml_graph_export")
        return bytes(out)
    check_data(t, "leaf")
    return (<const uint8_t *>t.data)[:n]

cdef bint stored(ggml_tensor *t) noexcept:
    """Whether the values of a tensor are stored: no operation computes them."""
    return t.op == GGML_OP_NONE and t.view_src == NULL

cdef bint fits(const ggml_tensor *t) except -1:
    """Whether the shape is possible; a tensor that is not a view must also lie within its contiguous size."""
    cdef size_t plain = <size_t>gg_types[t.type].bytes, extent
    cdef int d
    for d in range(4):
        if not gg_mul(plain, <size_t>(t.ne[d] // gg_types[t.type].blck if d == 0 else t.ne[d]), &plain):
            return False
    return gg_extent(t, &extent) and plain < <size_t>1 << 62 and (t.view_src != NULL or extent <= plain)

cdef bytes record(ggml_tensor *t, dict number, bint has_data, size_t at):
    """The RECORD of a tensor, whose data are at offset `at`."""
    cdef int k
    name = engine.op_name(t.op)
    if name in CALLBACKS:
        fail(ValueError, f"'{name_text(t)}' is computed by a callback, which a file cannot hold")
    if not fits(t):
        fail(ValueError, f"'{name_text(t)}' has gaps between its elements")
    sources = [number[<size_t>t.src[k]] if t.src[k] != NULL else -1 for k in range(GGML_MAX_SRC)]
    root = number[<size_t>t.view_src] if t.view_src != NULL else -1
    return RECORD.pack(
        name, t.type, t.flags, root, HAS_DATA if has_data else 0, t.view_offs, at, t.ne[0], t.ne[1], t.ne[2], t.ne[3],
        t.nb[0], t.nb[1], t.nb[2], t.nb[3], *[t.op_params[k] for k in range(16)], *sources,
        bytes(t.name[:GGML_MAX_NAME]))

cdef size_t padding(size_t n) noexcept:
    """Bytes from n up to the next multiple of ALIGN."""
    return (ALIGN - n % ALIGN) % ALIGN

cdef size_t grad_of(ggml_cgraph *g, ggml_tensor **grads, size_t t) noexcept:
    """The tensor of a node in `grads`, which is indexed as the graph's hash set; 0: none."""
    if not engine.hash_contains(&g.visited_hash_set, <ggml_tensor *>t):
        return 0
    return <size_t>grads[engine.hash_find(&g.visited_hash_set, <ggml_tensor *>t)]

def ggml_graph_export(cgraph, fname):
    """Writes a graph with its weights to a file.

    The file holds the structure, names and operations of the graph, gradients included, and the values of all
    tensors that no operation computes, if they have data. Its little-endian format belongs to this library, not to
    the C library.

    Args:
        cgraph: graph to write.
        fname: file to write, bytes, str or os.PathLike; an existing file is replaced once the new one is complete.
    Returns:
        None.
    Raises:
        TypeError: cgraph is not a graph pointer, or fname is not a path.
        ValueError: cgraph is a NULL pointer, fname contains a NUL, or the graph has a custom operation (a
            callback), a cycle or a tensor with gaps between its elements.
        RuntimeError: the graph or a tensor it uses was freed.
        OSError: the file cannot be written.
    See also:
        ggml_graph_import reads the file.
    """
    enter(b"ggml_graph_export")
    cdef ggml_cgraph *g = arg_graph(cgraph, b"cgraph")
    cdef int i
    cdef size_t a
    name = os.fsdecode(arg_path(fname, b"fname"))
    nodes = [<size_t>g.nodes[i] for i in range(g.n_nodes)]
    leafs = [<size_t>g.leafs[i] for i in range(g.n_leafs)]
    pairs = [] if g.grads == NULL else [(a, grad_of(g, g.grads, a), grad_of(g, g.grad_accs, a)) for a in nodes + leafs]
    number = numbered(leafs + nodes + [a for pair in pairs for a in pair if a])
    if g.grads != NULL:
        found = {a: (number.get(grad, -1), number.get(acc, -1)) for a, grad, acc in pairs}
        grads = array("i", [n for a in number for n in found.get(a, (-1, -1))])
    else:
        grads = array("i")
    lists = array("i", [number[a] for a in nodes + leafs]) + grads
    cdef size_t start = HEADER.size + 4 * len(lists) + RECORD.size * len(number), at
    start += padding(start)
    at = start
    records, data = [], []
    for a in number:
        blob = values(<ggml_tensor *>a) if stored(<ggml_tensor *>a) else None
        records.append(record(<ggml_tensor *>a, number, blob is not None, at if blob is not None else 0))
        if blob is not None:
            data += [blob, bytes(padding(len(blob)))]
            at += len(blob) + padding(len(blob))
    flags = WITH_GRADS if g.grads != NULL else 0
    head = HEADER.pack(MAGIC, VERSION, flags, g.size, g.n_nodes, g.n_leafs, len(number), start)
    body = b"".join([head, lists.tobytes(), *records])
    paused(save, (name, b"".join([body, bytes(start - len(body)), *data]), function_name()))

# ---- reading ---------------------------------------------------------------------------------------------------------
cdef dict numbers_of_ops():
    """The operations that a file may hold: number by name."""
    cdef int i
    cdef dict numbers = {engine.op_name(i): i for i in range(GG_OP_MAX) if engine.op_name(i) != NULL}
    return {name: number for name, number in numbers.items() if name not in CALLBACKS}

cdef class Reader:
    """A file, the contexts that receive its tensors, and the tensors so far."""
    cdef bytes file
    cdef ggml_context *data
    cdef ggml_context *eval
    cdef list tensors
    cdef dict ops

    cdef ggml_tensor *earlier(self, int n, str what) except? NULL:
        """Tensor n of those so far; NULL for -1."""
        if n == -1:
            return NULL
        if not 0 <= n < len(self.tensors):
            fail(ValueError, f"record {len(self.tensors)}: {what} is {n}: need the number of an earlier record")
        return <ggml_tensor *><size_t>self.tensors[n]

    cdef int add(self, tuple fields) except -1:
        """Creates the tensor of a record."""
        cdef ggml_tensor d
        cdef ggml_tensor *t
        cdef ggml_tensor *root
        cdef int k
        cdef size_t most, n, at, total = len(self.file)
        op = fields[0].split(b"\0")[0]
        where_ = f"record {len(self.tensors)}"
        if op not in self.ops:
            fail(ValueError, f"{where_}: {op!r} is not an operation that a file may hold")
        node_init(&d, self.ops[op], arg_type(fields[1], b"type"), 0, 0, 0, 0)
        for k in range(4):
            d.ne[k], d.nb[k] = fields[7 + k], fields[11 + k]
            if d.ne[k] < 0:
                fail(ValueError, f"{where_}: ne[{k}] is {d.ne[k]}: must not be negative")
        for k in range(16):
            d.op_params[k] = fields[15 + k]
        for k in range(GGML_MAX_SRC):
            d.src[k] = self.earlier(fields[31 + k], f"src[{k}]")
        if d.ne[0] % gg_types[d.type].blck:
            fail(ValueError, f"{where_}: ne[0] is {d.ne[0]}: need a multiple of the block of {gg_types[d.type].blck}")
        root = self.earlier(fields[3], "view_src")
        d.view_src, d.view_offs = root, fields[5]
        if not fits(&d):
            fail(ValueError, f"{where_}: the shape is larger than any memory, or the strides lead beyond the tensor")
        gg_extent(&d, &n)
        if root != NULL:
            if root.view_src != NULL or not gg_add(n, d.view_offs, &most) or most > gg_nbytes(root):
                fail(ValueError, f"{where_}: the view ends beyond the tensor that it is a view of")
        strides = [d.nb[k] for k in range(4)]
        t = node_append(self.data if stored(&d) else self.eval, &d)
        for k in range(4):
            t.nb[k] = strides[k]
        t.flags = fields[2] & 31
        name = fields[41].split(b"\0")[0][:GGML_MAX_NAME - 1]
        memcpy(t.name, <const char *>name, len(name))
        if fields[4] == HAS_DATA and n:
            at = fields[6]
            if not stored(t) or at > total or n > total - at:
                fail(ValueError, f"{where_}: its {n} bytes at {at} are not in the file")
            memcpy(t.data, <const char *>self.file + at, n)
        self.tensors.append(<size_t>t)
        return 0

    cdef ggml_tensor *required(self, object n) except NULL:
        """Tensor n, which must not be -1."""
        cdef ggml_tensor *t = self.earlier(n, "a node or leaf")
        if t == NULL:
            fail(ValueError, "a node or leaf is -1: need a tensor")
        return t

cdef int enter_tensor(ggml_cgraph *g, ggml_tensor *t, ggml_tensor *grad, ggml_tensor *acc) noexcept:
    """Enters a node or leaf in the hash set, with its gradient and accumulator; counts the uses of its sources."""
    cdef size_t slot = engine.hash_find(&g.visited_hash_set, t)
    cdef int k
    g.visited_hash_set.used[slot >> 5] |= 1u << (slot & 31)
    g.visited_hash_set.keys[slot] = t
    if g.grads != NULL:
        g.grads[slot], g.grad_accs[slot] = grad, acc
    for k in range(GGML_MAX_SRC):
        if t.src[k] != NULL and engine.hash_contains(&g.visited_hash_set, t.src[k]):
            g.use_counts[engine.hash_find(&g.visited_hash_set, t.src[k])] += 1
    return 0

cdef tuple checked_header(bytes whole):
    """Checks the header; returns size, n_nodes, n_leafs, n_tensors, with_grads and the length of the lists."""
    if len(whole) < HEADER.size:
        fail(ValueError, f"the file has {len(whole)} bytes: no graph")
    magic, version, flags, size, n_nodes, n_leafs, n, _ = HEADER.unpack_from(whole)
    if magic != MAGIC or version != VERSION:
        fail(ValueError, f"the file is not a graph in this library's format, version {VERSION}")
    with_grads = bool(flags & WITH_GRADS)
    n_lists = n_nodes + n_leafs + (2 * n if with_grads else 0)
    first = HEADER.size + 4 * n_lists
    if min(n_nodes, n_leafs) < 0 or max(n_nodes, n_leafs, 1) > size or first + RECORD.size * n > len(whole):
        fail(ValueError, f"the file is truncated or damaged: size {size}, {n_nodes} nodes, {n_leafs} leafs, "
                         f"{n} tensors in {len(whole)} bytes")
    if size > 2 * max(n, 1 << 20):
        fail(ValueError, f"the graph has room for {size} nodes: too many for its {n} tensors")
    return size, n_nodes, n_leafs, n, with_grads, n_lists

cdef ggml_cgraph *read_graph(Reader r) except NULL:
    """Reads the whole file."""
    cdef ggml_cgraph *g
    cdef ggml_tensor *t
    cdef ggml_tensor *grad = NULL
    cdef ggml_tensor *acc = NULL
    cdef int i, n_nodes, n_leafs
    whole = r.file
    size, n_nodes, n_leafs, n, with_grads, n_lists = checked_header(whole)
    first = HEADER.size + 4 * n_lists
    for fields in RECORD.iter_unpack(memoryview(whole)[first:first + RECORD.size * n]):
        r.add(fields)
    lists = struct.unpack_from(f"<{n_lists}i", whole, HEADER.size)
    g = graph_new(r.eval, <size_t>size, with_grads)
    used = set()
    for i in range(n_nodes + n_leafs):
        t = r.required(lists[i])
        if <size_t>t in used:
            fail(ValueError, f"tensor {lists[i]} is in the graph twice")
        used.add(<size_t>t)
        if i < n_nodes:
            g.nodes[i] = t
        else:
            g.leafs[i - n_nodes] = t
        if with_grads:
            first = n_nodes + n_leafs + 2 * lists[i]
            pair = lists[first:first + 2]
            grad, acc = r.earlier(pair[0], "a gradient"), r.earlier(pair[1], "an accumulator")
        enter_tensor(g, t, grad, acc)
    g.n_nodes, g.n_leafs = n_nodes, n_leafs
    return g

cdef void **arg_result(object o, const char *name) except NULL:
    cdef void *p
    arg_buffer(o, name, sizeof(void *), &p)
    if p == NULL or not engine.readable(p, sizeof(void *)):
        fail(TypeError, f"{name.decode()} is {repr_short(o)}: "
                        "need a pointer to a handle, such as ctypes.byref(ctypes.c_void_p())")
    return <void **>p

def ggml_graph_import(fname, ctx_data, ctx_eval):
    """Reads a graph from a file that ggml_graph_export wrote.

    It creates two contexts, which the caller frees. ggml_graph_get_tensor finds inputs and results by name. Every
    record is checked as if its tensor were created by calls.

    Args:
        fname: file to read, bytes, str or os.PathLike.
        ctx_data: pointer to a c_void_p that receives the context of the weights and inputs.
        ctx_eval: pointer to a c_void_p that receives the context of all other tensors and the graph.
    Returns:
        Pointer to the ggml_cgraph, in the second context.
    Raises:
        TypeError: fname is not a path, or ctx_data or ctx_eval is not a pointer.
        ValueError: fname contains a NUL, or the file is damaged or has another format or version.
        MemoryError: the memory for the tensors cannot be allocated.
        OSError: the file cannot be read or is not a regular file.
    Example:
        data, evaluated = ctypes.c_void_p(), ctypes.c_void_p()
        graph = ggml.ggml_graph_import("model.graph", ctypes.byref(data), ctypes.byref(evaluated))
    """
    enter(b"ggml_graph_import")
    cdef void **to_data = arg_result(ctx_data, b"ctx_data")
    cdef void **to_eval = arg_result(ctx_eval, b"ctx_eval")
    cdef Reader r = Reader.__new__(Reader)
    cdef ggml_cgraph *g
    r.file = paused(read_regular, (os.fsdecode(arg_path(fname, b"fname")), function_name()))
    r.tensors, r.ops = [], numbers_of_ops()
    data, evaluated = (ggml_init(ggml_init_params(mem_size=0, mem_buffer=None, no_alloc=False)) for _ in range(2))
    enter(b"ggml_graph_import")
    r.data, r.eval = <ggml_context *><size_t>data, <ggml_context *><size_t>evaluated
    try:
        g = read_graph(r)
    except BaseException:
        ggml_free(data)
        ggml_free(evaluated)
        raise
    to_data[0], to_eval[0] = <void *>r.data, <void *>r.eval
    return wrap_graph(g)
