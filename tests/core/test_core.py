"""Contexts, pointers and tensors: memory that is counted to the byte, pointers of ctypes, and use after free."""

import ctypes
import gc
import os
import sys

import numpy as np
import pytest
from cases.harness import DTYPES, ISAS, compute, context, elements, graph_of, load, memory, shape, store, type_id

import ggml
from ggml import _core

pytestmark = pytest.mark.core
F32 = ggml.GGML_TYPE_F32
TENSOR = ctypes.POINTER(ggml.ggml_tensor)


def init(mem_size=1 << 20, mem_buffer=None, no_alloc=False):
    return ggml.ggml_init(ggml.ggml_init_params(mem_size=mem_size, mem_buffer=mem_buffer, no_alloc=no_alloc))


# ---- contexts --------------------------------------------------------------------------------------------------------
def test_sum_of_overheads_fills_the_context_exactly():
    over, data = ggml.ggml_tensor_overhead(), 1040
    assert over == 368
    with context(5 * (over + data)) as ctx:
        for _ in range(5):
            ggml.ggml_new_tensor_1d(ctx, F32, 257)  # 1028 bytes, padded to 16
        assert ggml.ggml_used_mem(ctx) == ggml.ggml_get_mem_size(ctx) == 5 * (over + data)
        with pytest.raises(MemoryError, match=rf"^ggml_new_tensor_1d: .*{5 * (over + data) + over + 16}"):
            ggml.ggml_new_tensor_1d(ctx, F32, 1)
        with pytest.raises(MemoryError, match="^ggml_add: "):
            ggml.ggml_add(ctx, *2 * [ggml.ggml_get_first_tensor(ctx)])
        assert ggml.ggml_used_mem(ctx) == 5 * (over + data)


@pytest.mark.parametrize("n", (1, 15, 16, 17))
def test_sums_with_odd_sizes_are_rounded_up(n):
    with context(ggml.ggml_tensor_overhead() + n) as ctx:
        ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I8, n)
        assert ggml.ggml_used_mem(ctx) == ggml.ggml_get_mem_size(ctx)
        with pytest.raises(MemoryError):
            ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I8, 1)


@pytest.mark.parametrize("size, grads", [(1, False), (64, False), (64, True), (1000, True), (2048, False), (0, False)])
def test_graph_overhead_is_exact(size, grads):
    known = {(1, False): 176, (64, False): 2752, (64, True): 4848, (1000, True): 73888, (2048, False): 82608}
    overhead = ggml.ggml_graph_overhead_custom(size, grads)
    assert overhead == known.get((size, grads), overhead) and overhead % 16 == 0
    assert ggml.ggml_graph_overhead() == known[2048, False]
    with context(overhead) as ctx:
        graph = ggml.ggml_new_graph_custom(ctx, size, grads)
        assert ggml.ggml_used_mem(ctx) == overhead and graph.contents.size == ggml.ggml_graph_size(graph) == size
        with pytest.raises(MemoryError, match=rf"^ggml_new_graph_custom: .*{2 * overhead}"):
            ggml.ggml_new_graph_custom(ctx, size, grads)


def test_no_alloc_takes_no_data():
    with context(2 * ggml.ggml_tensor_overhead(), no_alloc=True) as ctx:
        t = ggml.ggml_new_tensor_2d(ctx, F32, 1 << 20, 1 << 20)
        assert ggml.ggml_get_data(t) is None and t.contents.data is None and ggml.ggml_get_no_alloc(ctx) is True
        assert ggml.ggml_used_mem(ctx) == ggml.ggml_tensor_overhead()
        with pytest.raises(ValueError, match="^ggml_get_f32_1d: .*no data"):
            ggml.ggml_get_f32_1d(t, 0)
        with pytest.raises(ValueError, match="no data"):
            ggml.ggml_set_zero(t)
        ggml.ggml_set_no_alloc(ctx, False)
        assert ggml.ggml_get_no_alloc(ctx) is False
        with pytest.raises(MemoryError):
            ggml.ggml_new_tensor_1d(ctx, F32, 1)
    with context(no_alloc=True) as ctx:
        a = ggml.ggml_new_tensor_1d(ctx, F32, 4)
        graph = graph_of(ctx, ggml.ggml_sqr(ctx, a))
        with pytest.raises(ValueError, match="^ggml_graph_compute_with_ctx: .*no data"):
            ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)


def test_growing_context():
    with context() as ctx:
        tensors = []
        for i in range(300):
            t = ggml.ggml_new_tensor_1d(ctx, F32, 100 + i % 7)
            ggml.ggml_set_f32(t, i)
            tensors.append(t)
        big = ggml.ggml_new_tensor_1d(ctx, F32, 8 << 20)
        store(big, 2.5)
        assert all(ggml.ggml_get_f32_1d(t, 99) == i for i, t in enumerate(tensors))
        assert ggml.ggml_used_mem(ctx) >= sum(400 + ggml.ggml_tensor_overhead() for t in tensors) + (32 << 20)
        assert ggml.ggml_get_mem_size(ctx) >= ggml.ggml_used_mem(ctx)
        walked, t = [], ggml.ggml_get_first_tensor(ctx)
        while t:
            walked.append(t)
            t = ggml.ggml_get_next_tensor(ctx, t)
        assert walked == [*tensors, big]
        total = ggml.ggml_add(ctx, tensors[0], tensors[7])
        compute(ctx, graph_of(ctx, total))
        assert ggml.ggml_get_f32_1d(total, 50) == 7
        ggml.ggml_reset(ctx)
        with pytest.raises(RuntimeError):
            ggml.ggml_nelements(tensors[299])
        assert ggml.ggml_used_mem(ctx) == 0 and not ggml.ggml_get_first_tensor(ctx)


@pytest.mark.parametrize("kind", ["ctypes", "numpy", "address", "pointer"])
def test_memory_of_the_caller(kind):
    size = 1 << 16
    owner = np.zeros(size, np.uint8) if kind == "numpy" else (ctypes.c_uint8 * size)()
    address = owner.ctypes.data if kind == "numpy" else ctypes.addressof(owner)
    buffer = {
        "ctypes": lambda: ctypes.cast(owner, ctypes.c_void_p),
        "numpy": lambda: owner.ctypes.data_as(ctypes.c_void_p),
        "address": lambda: address,
        "pointer": lambda: ctypes.c_void_p(address),
    }[kind]()
    ctx = init(size, buffer)
    assert ggml.ggml_get_mem_buffer(ctx) == address and ggml.ggml_get_mem_size(ctx) == size
    t = ggml.ggml_new_tensor_1d(ctx, F32, 8)
    assert address <= t.contents.data < address + size
    ggml.ggml_set_f32(t, 3.0)
    assert np.frombuffer(owner, np.float32, 8, t.contents.data - address).tolist() == [3.0] * 8
    with pytest.raises(MemoryError):
        ggml.ggml_new_tensor_1d(ctx, F32, size)
    ggml.ggml_free(ctx)


def test_context_keeps_its_memory_alive():
    ctx = init(1 << 16, ctypes.cast((ctypes.c_uint8 * (1 << 16))(), ctypes.c_void_p))
    gc.collect()
    t = ggml.ggml_new_tensor_1d(ctx, F32, 4000)
    ggml.ggml_set_f32(t, 1.5)
    _churn = [bytearray(1 << 16) for _ in range(50)]
    assert (load(t) == 1.5).all()
    ggml.ggml_free(ctx)


def test_graph_outlives_its_context_in_memory_of_the_caller():
    """The build_graph() pattern of the bindings' examples."""
    size = ggml.ggml_tensor_overhead() * 4 + ggml.ggml_graph_overhead() + 256
    buffer = (ctypes.c_uint8 * size)()

    def build_graph(buffer):
        ctx = init(size, ctypes.cast(buffer, ctypes.c_void_p))
        a = ggml.ggml_set_name(ggml.ggml_new_tensor_1d(ctx, F32, 4), b"a")
        out = ggml.ggml_set_name(ggml.ggml_sqr(ctx, a), b"out")
        graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(graph, out)
        ggml.ggml_free(ctx)
        return graph

    for value in (2.0, 3.0):  # the second context uses the memory of the first
        graph = build_graph(buffer)
        gc.collect()
        ggml.ggml_set_f32(ggml.ggml_graph_get_tensor(graph, b"a"), value)
        plan = ggml.ggml_graph_plan(graph, 1, None)
        assert ggml.ggml_graph_compute(graph, ctypes.pointer(plan)) == ggml.GGML_STATUS_SUCCESS
        assert ggml.ggml_get_f32_1d(ggml.ggml_graph_get_tensor(graph, b"out"), 3) == value * value
    stale = ctypes.cast(graph, ctypes.c_void_p).value
    del buffer
    gc.collect()
    with pytest.raises(RuntimeError, match="^ggml_graph_n_nodes: .* is not a graph of a live context"):
        ggml.ggml_graph_n_nodes(ctypes.cast(stale, ctypes.POINTER(ggml.ggml_cgraph)))


def test_memory_of_a_context_that_was_freed_may_hold_something_else():
    """An address does not say how long its memory lives: another array may begin there, and may be longer."""
    array = np.ones(4096, np.float32)
    ggml.ggml_free(init(4096, array.ctypes.data))
    with context() as ctx:
        q = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_Q8_0, 4096)
        where = array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), ggml.ggml_get_data(q)
        assert ggml.ggml_quantize_chunk(ggml.GGML_TYPE_Q8_0, *where, 0, 1, 4096, None) == ggml.ggml_nbytes(q)
    with context(no_alloc=True) as ctx:
        x = ggml.ggml_new_tensor_1d(ctx, F32, 4096)
        x.contents.data = array.ctypes.data
        with context() as results:
            out = ggml.ggml_sum(results, x)
            compute(results, graph_of(results, out))
            assert load(out) == 4096


def map_pages(size, protection):
    """Anonymous private pages, and a libc that can unmap them."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_size_t
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc, libc.mmap(None, size, protection, 0x22, -1, 0)  # MAP_PRIVATE | MAP_ANONYMOUS


@pytest.mark.skipif(sys.platform != "linux", reason="the other systems' probes see only what is not mapped")
def test_memory_that_may_not_be_read():
    """Guard pages are mapped, but reading them ends the process."""
    libc, page = map_pages(1 << 20, 0)  # PROT_NONE
    with pytest.raises(ValueError, match="^ggml_init: mem_buffer .*not readable memory"):
        init(1 << 20, page)
    with pytest.raises(ValueError, match="^ggml_guid_matches: "):
        ggml.ggml_guid_matches(page, page)
    libc.munmap(page, 1 << 20)
    for guard in (0, None):  # the pages in the middle: protected (PROT_NONE), or not mapped
        libc, begin = map_pages(12 << 20, 3)
        if guard is None:
            libc.munmap(begin + (6 << 20), 4096)
        else:
            libc.mprotect(begin + (4 << 20), 4 << 20, guard)
        with pytest.raises(ValueError, match="^ggml_init: mem_buffer .*not readable memory"):
            init(12 << 20, begin)
        libc.munmap(begin, 12 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="the system gives the next mapping the addresses of the last one")
@pytest.mark.parametrize("freed", [True, False])
def test_an_arena_where_memory_of_a_caller_was(freed):
    """The caller unmaps memory without telling, after freeing its context or before. Its addresses are used again."""
    size = 24 << 20
    libc, begin = map_pages(size, 3)
    inside = range(begin + (1 << 20), begin + size, 1 << 20)
    old = [init(1 << 16, address) for address in inside]
    for ctx in old if freed else ():
        ggml.ggml_free(ctx)
    libc.munmap(begin, size)
    made = [init(4 << 20)]
    while not begin < ggml.ggml_get_mem_buffer(made[-1]) + (4 << 20) <= begin + size:
        made.append(init(4 << 20))
        if len(made) == 200:  # qemu
            pytest.skip("the system places no arena there")
    made += [init(4 << 20) for _ in range(7)]
    tensors = [ggml.ggml_new_tensor_1d(ctx, F32, 1 << 14) for _ in range(60) for ctx in made[-8:]]  # alternately
    for t in tensors:
        assert ggml.ggml_nelements(t) == 1 << 14
    for ctx in made + ([] if freed else old):
        ggml.ggml_free(ctx)


def test_bad_contexts():
    small = (ctypes.c_uint8 * 100)()
    with pytest.raises(ValueError, match="^ggml_init: mem_buffer has 100 bytes, mem_size is 200"):
        init(200, ctypes.cast(small, ctypes.c_void_p))
    with pytest.raises(ValueError, match="^ggml_init: mem_buffer .*not readable memory"):
        init(1 << 20, 5)
    with pytest.raises(MemoryError, match="^ggml_init: "):
        init(1 << 63)
    with pytest.raises(MemoryError, match="^ggml_init: "):
        init(1 << 55)
    for params in (None, 5, ggml.ggml_init_params):
        with pytest.raises(TypeError, match="^ggml_init: params"):
            ggml.ggml_init(params)
    with context() as ctx, pytest.raises(ValueError, match="^ggml_init: .*live context"):
        init(64, ggml.ggml_get_mem_buffer(ctx))
    ggml.ggml_free(None)


def test_use_after_free():
    ctx = init()
    t = ggml.ggml_new_tensor_1d(ctx, F32, 4)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_free(ctx)
    calls = [
        lambda: ggml.ggml_nelements(t),
        lambda: ggml.ggml_get_f32_1d(t, 0),
        lambda: ggml.ggml_used_mem(ctx),
        lambda: ggml.ggml_free(ctx),
        lambda: ggml.ggml_new_tensor_1d(ctx, F32, 1),
        lambda: ggml.ggml_graph_n_nodes(graph),
        lambda: ggml.ggml_build_forward_expand(graph, t),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="^ggml_"):
            call()
    later = [init() for _ in range(20)]  # old pointers stay invalid when new contexts are made
    assert ctx not in later
    for call in calls:
        with pytest.raises(RuntimeError, match="^ggml_"):
            call()
    assert "0x" in repr(t)
    for c in later:
        ggml.ggml_free(c)


def test_reset():
    with context(1 << 16) as ctx:
        t = ggml.ggml_new_tensor_1d(ctx, F32, 4)
        ggml.ggml_reset(ctx)
        assert ggml.ggml_used_mem(ctx) == 0 and not ggml.ggml_get_first_tensor(ctx)
        with pytest.raises(RuntimeError, match="^ggml_nelements"):
            ggml.ggml_nelements(t)
        again = ggml.ggml_new_tensor_1d(ctx, F32, 9)
        assert again.contents.data and ggml.ggml_nelements(again) == 9


def test_full_context_stays_usable():
    with context(1024) as ctx:
        for _ in range(3):
            with pytest.raises(MemoryError):
                ggml.ggml_new_tensor_1d(ctx, F32, 1 << 20)
        assert ggml.ggml_used_mem(ctx) == 0
        assert ggml.ggml_nbytes(ggml.ggml_new_tensor_1d(ctx, F32, 10)) == 40
        assert ggml.ggml_get_max_tensor_size(ctx) == 40


# ---- shapes that overflow --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ne", [(1 << 62,), (1 << 40, 1 << 40), (1 << 32, 1 << 32), ((1 << 62) - 1,), (1 << 21,) * 4])
def test_sizes_beyond_any_memory(ne):
    with (
        context(no_alloc=True) as ctx,
        pytest.raises((ValueError, MemoryError), match=f"^ggml_new_tensor_{len(ne)}d: "),
    ):
        getattr(ggml, f"ggml_new_tensor_{len(ne)}d")(ctx, F32, *ne)


def test_bad_shapes_and_types(ctx):
    new = ggml.ggml_new_tensor_2d
    for args, error in [
        ((F32, -1, 2), ValueError),
        ((F32, 2, -(1 << 63)), ValueError),
        ((F32, 1 << 63, 1), ValueError),
        ((F32, 2.0, 2), TypeError),
        ((F32, "2", 2), TypeError),
        ((F32, None, 2), TypeError),
        ((999, 2, 2), ValueError),
        ((-1, 2, 2), ValueError),
        ((4, 2, 2), ValueError),  # the number of a removed type
        ((ggml.GGML_TYPE_Q4_0, 33, 2), ValueError),
        ((ggml.GGML_TYPE_Q4_K, 32, 2), ValueError),
    ]:
        with pytest.raises(error, match="^ggml_new_tensor_2d: "):
            new(ctx, *args)
    for bad in (0, 5, -1):
        with pytest.raises(ValueError, match="^ggml_new_tensor: n_dims"):
            ggml.ggml_new_tensor(ctx, F32, bad, (ctypes.c_int64 * 4)(1, 1, 1, 1))
    with pytest.raises(ValueError, match="^ggml_new_tensor: ne has 16 bytes: need 24"):
        ggml.ggml_new_tensor(ctx, F32, 3, (ctypes.c_int64 * 2)(1, 1))
    assert ggml.ggml_used_mem(ctx) == 0
    t = ggml.ggml_new_tensor(ctx, F32, 3, (ctypes.c_int64 * 4)(5, 4, 3, 2))
    assert shape(t) == (5, 4, 3, 1) and ggml.ggml_n_dims(t) == 3


# ---- pointers of ctypes ----------------------------------------------------------------------------------------------
def test_pointers_are_ctypes_pointers(ctx):
    a, b = ggml.ggml_new_tensor_2d(ctx, F32, 3, 2), ggml.ggml_new_tensor_2d(ctx, F32, 3, 2)
    assert isinstance(a, TENSOR) and a.contents.ne[:2] == [3, 2] and a.contents.nb[:4] == [4, 12, 24, 24]
    assert a.contents.type == F32 and a.contents.op == ggml.GGML_OP_NONE and a.contents.data == ggml.ggml_get_data(a)
    c = ggml.ggml_add(ctx, a, b)
    assert c.contents.src[0] == a and c.contents.src[1] == b and c.contents.src[0] != b and not c.contents.src[2]
    assert len({a, b, c.contents.src[0]}) == 2 and hash(a) == hash(c.contents.src[0])
    assert c.contents.op == ggml.GGML_OP_ADD and c[0].op == c.contents.op
    address = ctypes.cast(a, ctypes.c_void_p).value
    assert ctypes.cast(address, TENSOR) == a and ggml.ggml_nelements(ctypes.cast(ctypes.c_void_p(address), TENSOR)) == 6
    both = (TENSOR * 2)(a, b)
    assert [t == u for t, u in zip(both, (a, b))] == [True, True] and ggml.ggml_nrows(both[1]) == 2
    assert ggml.ggml_nelements(ctypes.pointer(a.contents)) == ggml.ggml_nelements(ctypes.byref(a.contents)) == 6
    assert ggml.ggml_nelements(a.contents) == 6 and ctypes.pointer(a.contents) == a
    with pytest.raises(RuntimeError, match="^ggml_nelements: "):
        ggml.ggml_nelements(ctypes.cast(0x1000, TENSOR))
    with pytest.raises(ValueError, match="^ggml_nelements: tensor is a NULL pointer"):
        ggml.ggml_nelements(TENSOR())


def test_copy_of_a_struct_is_a_tensor(ctx):
    t = ggml.ggml_new_tensor_2d(ctx, F32, 3, 2)
    copy = ggml.ggml_tensor.from_buffer_copy(t.contents)
    copy.ne[1] = 1
    assert ggml.ggml_nelements(ctypes.byref(copy)) == 3 and ggml.ggml_nelements(t) == 6
    copy.type = 999
    with pytest.raises(ValueError, match="^ggml_nbytes: "):
        ggml.ggml_nbytes(ctypes.byref(copy))


def test_assignment_to_data(ctx):
    """Weights in a NumPy array become the data of a tensor that has none."""
    values = np.arange(6, dtype=np.float32)
    with context(no_alloc=True) as weights:
        a = ggml.ggml_new_tensor_1d(weights, F32, 6)
        a.contents.data = values.ctypes.data
        out = ggml.ggml_sqr(ctx, a)
        graph = graph_of(ctx, out)
        compute(ctx, graph)
        assert load(out).ravel().tolist() == [0, 1, 4, 9, 16, 25]
        assert ggml.ggml_get_data(a) == values.ctypes.data and ggml.ggml_get_f32_1d(a, 5) == 5
        a.contents.data = ctypes.cast(values.ctypes.data_as(ctypes.c_void_p), ctypes.c_void_p)
        compute(ctx, graph)


def test_arguments_of_many_kinds(ctx):
    a = ggml.ggml_new_tensor_2d(ctx=ctx, type=ctypes.c_int(F32), ne0=np.int64(3), ne1=ctypes.c_int64(2))
    assert shape(a) == (3, 2, 1, 1)
    ggml.ggml_set_f32(tensor=a, value=np.float32(2))
    ggml.ggml_set_f32_1d(a, np.int32(1), ctypes.c_float(4))
    ggml.ggml_set_f32_1d(a, True, 5)
    assert load(a).ravel().tolist() == [2, 5, 2, 2, 2, 2]
    for s in (2, 2.0, np.float64(2), np.float32(2), ctypes.c_float(2), ctypes.c_double(2), True + 1):
        out = ggml.ggml_scale(ctx, a, s)
        compute(ctx, graph_of(ctx, out))
        assert ggml.ggml_get_f32_1d(out, 0) == 4
    handle = ctypes.c_void_p(ctx)
    assert ggml.ggml_used_mem(handle) == ggml.ggml_used_mem(ctx=ctx)
    with pytest.raises(TypeError):
        ggml.ggml_nelements(a, a)
    with pytest.raises(TypeError):
        ggml.ggml_nelements()
    with pytest.raises(TypeError):
        ggml.ggml_nelements(nothing=a)


# ---- names, flags, properties ----------------------------------------------------------------------------------------
def test_names(ctx):
    t = ggml.ggml_new_tensor_1d(ctx, F32, 4)
    assert ggml.ggml_get_name(t) == t.contents.name == b""
    assert ggml.ggml_set_name(t, b"weights") == t and ggml.ggml_get_name(t) == b"weights"
    ggml.ggml_set_name(t, "müh")
    assert ggml.ggml_get_name(t).decode() == "müh"
    ggml.ggml_set_name(t, b"x" * 100)
    assert ggml.ggml_get_name(t) == b"x" * 63
    assert ggml.ggml_format_name(t, b"blk.%d.%s", 3, b"w") == t and ggml.ggml_get_name(t) == b"blk.3.w"
    with pytest.raises(ValueError, match="^ggml_format_name: "):
        ggml.ggml_format_name(t, b"%d %d", 3)
    with pytest.raises(TypeError, match="^ggml_set_name: name is 5"):
        ggml.ggml_set_name(t, 5)
    assert ggml.ggml_get_tensor(ctx, b"blk.3.w") == t and not ggml.ggml_get_tensor(ctx, b"none")
    assert isinstance(ggml.ggml_get_tensor(ctx, b"none"), TENSOR)
    ggml.ggml_set_name(t, b"a")
    suffixes = {
        b"a (view)": [
            ggml.ggml_view_tensor(ctx, t),
            ggml.ggml_view_1d(ctx, t, 2, 0),
            ggml.ggml_relu_inplace(ctx, t),
            ggml.ggml_add_inplace(ctx, t, t),
            ggml.ggml_scale_inplace(ctx, t, 2),
            ggml.ggml_soft_max_inplace(ctx, t),
            ggml.ggml_rms_norm_inplace(ctx, t, 1e-5),
            ggml.ggml_group_norm_inplace(ctx, t, 1, 1e-5),
            ggml.ggml_l2_norm_inplace(ctx, t, 1e-5),
            ggml.ggml_diag_mask_inf_inplace(ctx, t, 0),
        ],
        b"a (reshaped)": [ggml.ggml_reshape_2d(ctx, t, 2, 2)],
        b"a (permuted)": [ggml.ggml_permute(ctx, t, 1, 0, 2, 3)],
        b"a (transposed)": [ggml.ggml_transpose(ctx, t)],
        b"a (cont)": [ggml.ggml_cont(ctx, t)],
        b"a (copy)": [ggml.ggml_cast(ctx, t, ggml.GGML_TYPE_F16)],
        b"": [ggml.ggml_sqr(ctx, t), ggml.ggml_dup_tensor(ctx, t)],
    }
    assert {ggml.ggml_get_name(u): name for name, made in suffixes.items() for u in made} == {
        name: name for name in suffixes
    }


@pytest.mark.parametrize(
    "field, value, message",
    [
        ("type", 5, "type is 5: no tensor type"),
        ("type", 1 << 30, "no tensor type"),
        ("view_src", 0x1000, "view_src is not a tensor"),
        ("op", 999, "op is 999: no operation"),
    ],
)
def test_fields_with_invalid_values(ctx, field, value, message):
    """No node is built from a tensor whose fields hold invalid values. A struct that the caller owns is checked at
    each call.
    """
    t = ggml.ggml_new_tensor_1d(ctx, F32, 4)
    own = type(t.contents).from_buffer_copy(t.contents)
    ggml.ggml_sqr(ctx, own)
    for given in (t, own):
        struct = t.contents if given is t else own
        setattr(struct, field, ctypes.cast(value, TENSOR) if field == "view_src" else value)
        for _ in range(2):
            with pytest.raises(ValueError, match="^ggml_sqr: a: .*" + message):
                ggml.ggml_sqr(ctx, given)


def test_flags(ctx):
    t = ggml.ggml_new_tensor_1d(ctx, F32, 1)
    ggml.ggml_set_input(t)
    ggml.ggml_set_output(t)
    ggml.ggml_set_param(t)
    ggml.ggml_set_loss(t)
    flags = "INPUT OUTPUT PARAM LOSS".split()
    assert t.contents.flags == sum(getattr(ggml, "GGML_TENSOR_FLAG_" + f) for f in flags) == 1 + 2 + 4 + 8
    with pytest.raises(ValueError, match="^ggml_set_param: "):
        ggml.ggml_set_param(ggml.ggml_sqr(ctx, t))
    with pytest.raises(ValueError, match="^ggml_set_loss: .*2 elements"):
        ggml.ggml_set_loss(ggml.ggml_new_tensor_1d(ctx, F32, 2))


def test_properties(ctx):
    a = ggml.ggml_new_tensor_3d(ctx, ggml.GGML_TYPE_F16, 7, 3, 2)
    b = ggml.ggml_transpose(ctx, a)
    v = ggml.ggml_view_2d(ctx, a, 4, 3, 14, 2)
    yes = {
        "is_contiguous": (a,), "is_contiguous_0": (a,), "is_transposed": (b,), "is_permuted": (b,), "is_view": (b, v),
        "is_3d": (a, b, v), "is_matrix": (v,), "is_vector": (), "is_scalar": (), "is_empty": (),
        "is_contiguously_allocated": (a, b), "is_contiguous_rows": (a, v),
    }  # fmt: skip
    for name, which in yes.items():
        answers = [getattr(ggml, "ggml_" + name)(t) for t in (a, b, v)]
        assert answers == [t in which for t in (a, b, v)] and {type(x) for x in answers} == {bool}, name
    assert [
        f(a) for f in (ggml.ggml_nelements, ggml.ggml_nrows, ggml.ggml_nbytes, ggml.ggml_element_size, ggml.ggml_n_dims)
    ] == [42, 6, 84, 2, 3]
    assert ggml.ggml_nbytes(v) == 2 * 14 + 4 * 2 and ggml.ggml_nbytes_pad(a) == 96
    assert ggml.ggml_are_same_shape(a, a) and not ggml.ggml_are_same_shape(a, b) and not ggml.ggml_are_same_stride(a, b)
    assert ggml.ggml_can_repeat(ggml.ggml_new_tensor_1d(ctx, F32, 7), a) and not ggml.ggml_can_repeat(a, b)
    assert (
        ggml.ggml_type_name(ggml.GGML_TYPE_Q4_0),
        ggml.ggml_type_size(ggml.GGML_TYPE_Q4_0),
        ggml.ggml_blck_size(2),
    ) == (b"q4_0", 18, 32)
    assert (
        ggml.ggml_row_size(ggml.GGML_TYPE_Q4_0, 64) == 36
        and ggml.ggml_is_quantized(2)
        and not ggml.ggml_is_quantized(F32)
    )
    with pytest.raises(ValueError, match="^ggml_row_size: "):
        ggml.ggml_row_size(ggml.GGML_TYPE_Q4_0, 33)
    with pytest.raises(ValueError, match="^ggml_row_size: "):
        ggml.ggml_row_size(F32, (1 << 63) - 1)
    assert ggml.ggml_op_name(ggml.GGML_OP_MUL_MAT) == b"MUL_MAT" and ggml.ggml_op_symbol(ggml.GGML_OP_ADD) == b"x+y"
    tanh = ggml.ggml_tanh(ctx, a)
    assert ggml.ggml_op_desc(tanh) == b"TANH" and ggml.ggml_get_unary_op(tanh) == ggml.GGML_UNARY_OP_TANH
    for bad in (-1, 1 << 20):
        with pytest.raises(ValueError, match="^ggml_op_name: "):
            ggml.ggml_op_name(bad)
    with pytest.raises(ValueError, match="^ggml_get_unary_op: "):
        ggml.ggml_get_unary_op(a)


def test_zero_sized(ctx):
    t = ggml.ggml_new_tensor_3d(ctx, F32, 0, 3, 2)
    assert ggml.ggml_is_empty(t) is True and ggml.ggml_nelements(t) == ggml.ggml_nbytes(t) == 0
    ggml.ggml_set_f32(t, 1.0)
    ggml.ggml_set_zero(t)
    with pytest.raises(IndexError, match="^ggml_get_f32_1d: "):
        ggml.ggml_get_f32_1d(t, 0)


# ---- elements --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("type", DTYPES)
def test_elements_of_each_type(type, ctx):
    plain = ggml.ggml_new_tensor_4d(ctx, type_id(type), 5, 4, 3, 2)
    store(plain, 0)
    t = ggml.ggml_permute(ctx, plain, 2, 0, 1, 3)
    expected = np.zeros(shape(t)[::-1])
    for n, index in enumerate([(0, 0, 0, 0), (3, 2, 4, 1), (1, 0, 2, 1)]):
        value = [3, -100, 17][n]
        ggml.ggml_set_f32_nd(t, *index, value)
        expected[index[::-1]] = value
        assert ggml.ggml_get_f32_nd(t, *index) == value and ggml.ggml_get_i32_nd(t, *index) == value
        flat = int(np.ravel_multi_index(index[::-1], expected.shape))
        assert ggml.ggml_get_f32_1d(t, flat) == value and ggml.ggml_get_i32_1d(t, flat) == value
        assert (load(t) == expected).all()
        ggml.ggml_set_i32_1d(t, flat, value + 1)
        ggml.ggml_set_i32_nd(t, *index, value + 1)
        ggml.ggml_set_f32_1d(t, flat, ggml.ggml_get_f32_1d(t, flat) - 1)
        assert (load(t) == expected).all()
    ggml.ggml_set_i32(t, 7)
    assert (load(plain) == 7).all()
    assert ggml.ggml_set_f32(plain, -3) == plain and (load(t) == -3).all()
    ggml.ggml_set_zero(t)
    assert (load(plain) == 0).all()
    if type.startswith("I"):
        largest = np.iinfo(DTYPES[type]).max
        if largest < 1 << 31:
            ggml.ggml_set_i32_1d(t, 0, largest)
            assert ggml.ggml_get_i32_1d(t, 0) == largest
        for bad in (float("nan"), float("inf"), 1e30):
            with pytest.raises(ValueError, match="^ggml_set_f32_1d: value"):
                ggml.ggml_set_f32_1d(t, 0, bad)
    elif type in ("F16", "BF16"):
        ggml.ggml_set_f32_1d(t, 0, 1 + 2.0**-12)
        assert ggml.ggml_get_f32_1d(t, 0) == 1
        ggml.ggml_set_f32_1d(t, 0, float("nan"))
        assert np.isnan(ggml.ggml_get_f32_1d(t, 0))


def test_set_f32_of_a_view_leaves_the_rest(ctx):
    t = ggml.ggml_new_tensor_2d(ctx, F32, 6, 4)
    ggml.ggml_set_f32(t, 1.0)
    v = ggml.ggml_view_2d(ctx, t, 2, 3, 24, 8)
    ggml.ggml_set_f32(v, 5.0)
    expected = np.ones((4, 6))
    expected[:3, 2:4] = 5
    assert (load(t)[0, 0] == expected).all()
    ggml.ggml_set_zero(v)
    expected[:3, 2:4] = 0
    assert (load(t)[0, 0] == expected).all()


def test_index_out_of_range(ctx):
    t = ggml.ggml_new_tensor_2d(ctx, F32, 3, 2)
    for i in (-1, 6, 1 << 40, -(1 << 63)):
        with pytest.raises(IndexError, match="^ggml_get_f32_1d: "):
            ggml.ggml_get_f32_1d(t, i)
        with pytest.raises(IndexError, match="^ggml_set_f32_1d: "):
            ggml.ggml_set_f32_1d(t, i, 0)
    for index in ((3, 0, 0, 0), (0, 2, 0, 0), (0, 0, 1, 0), (0, 0, 0, -1)):
        with pytest.raises(IndexError, match="^ggml_get_i32_nd: "):
            ggml.ggml_get_i32_nd(t, *index)
        with pytest.raises(IndexError, match="^ggml_set_f32_nd: "):
            ggml.ggml_set_f32_nd(t, *index, 1.0)


def test_unravel_index(ctx):
    t = ggml.ggml_new_tensor_4d(ctx, F32, 5, 4, 3, 2)
    out = [ctypes.c_int64() for _ in range(4)]
    ggml.ggml_unravel_index(t, 97, *map(ctypes.byref, out))
    assert [x.value for x in out] == list(np.unravel_index(97, (2, 3, 4, 5)))[::-1]
    ggml.ggml_unravel_index(t, 3, None, None, None, ctypes.byref(out[3]))
    assert out[3].value == 0
    with pytest.raises(IndexError, match="^ggml_unravel_index: "):
        ggml.ggml_unravel_index(t, 120, *map(ctypes.byref, out))


def test_new_scalars(ctx):
    assert ggml.ggml_get_i32_1d(ggml.ggml_new_i32(ctx, -7), 0) == -7
    assert ggml.ggml_get_f32_1d(ggml.ggml_new_f32(ctx, 1.5), 0) == 1.5
    with context(no_alloc=True) as bare, pytest.raises(ValueError, match="^ggml_new_f32: .*no_alloc"):
        ggml.ggml_new_f32(bare, 1.0)


@pytest.mark.parametrize("kind, bits", [("I8", 8), ("I16", 16), ("I32", 32), ("I64", 64)])
def test_numbers_beyond_an_integer_type(ctx, kind, bits):
    """2**(bits - 1) is exact in float32 and one too large for the type. The limit of the check cannot be the type's
    largest integer, which float32 rounds up to that value if the type has more bits than the significand.
    """
    t = ggml.ggml_new_tensor_1d(ctx, getattr(ggml, f"GGML_TYPE_{kind}"), 1)
    ggml.ggml_set_f32(t, -(2.0 ** (bits - 1)))
    assert ggml.ggml_get_f32_1d(t, 0) == -(2.0 ** (bits - 1))
    for value in (2.0 ** (bits - 1), -1.5 * 2.0 ** (bits - 1), float("inf"), float("nan"), 1e30):
        with pytest.raises(ValueError, match="^ggml_set_f32: value is "):
            ggml.ggml_set_f32(t, value)
    assert ggml.ggml_get_f32_1d(t, 0) == -(2.0 ** (bits - 1))


def test_get_data_f32(ctx):
    t = ggml.ggml_new_tensor_1d(ctx, F32, 3)
    data = ggml.ggml_get_data_f32(t)
    data[1] = 4.5
    assert ggml.ggml_get_f32_1d(t, 1) == 4.5 and isinstance(data, ctypes.POINTER(ctypes.c_float))
    with pytest.raises(ValueError, match="^ggml_get_data_f32: "):
        ggml.ggml_get_data_f32(ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, 3))


def test_views_share_memory(ctx):
    t = ggml.ggml_new_tensor_2d(ctx, F32, 6, 4)
    store(t, np.arange(24).reshape(4, 6))
    whole = ggml.ggml_view_tensor(ctx, t)
    assert whole.contents.data == t.contents.data and whole.contents.view_src == t and whole.contents.view_offs == 0
    inner = ggml.ggml_view_1d(ctx, ggml.ggml_view_2d(ctx, t, 3, 2, 24, 24), 2, 4)
    assert inner.contents.view_src == t and inner.contents.view_offs == 28 and load(inner).ravel().tolist() == [7, 8]
    ggml.ggml_set_f32(inner, 0.0)
    assert load(t)[0, 0, 1].tolist() == [6, 0, 0, 9, 10, 11]
    assert memory(inner).size == 8 and elements(whole).base is not None
    with pytest.raises(ValueError, match="^ggml_view_2d: "):
        ggml.ggml_view_2d(ctx, t, 6, 5, 24, 0)
    assert shape(ggml.ggml_view_1d(ctx, inner, 17, 0)) == (17, 1, 1, 1)  # the bounds are those of the root tensor
    with pytest.raises(ValueError, match="^ggml_view_1d: "):
        ggml.ggml_view_1d(ctx, inner, 18, 0)


# ---- instruction sets ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ISAS)
def test_isa_by_environment(name, child):
    out = child("""if 1:
        import ggml
        from ggml import _core
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 16, mem_buffer=None, no_alloc=False))
        t = ggml.ggml_set_f32(ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_F32, 37), 3.0)
        y = ggml.ggml_sqr(ctx, t)
        graph = ggml.ggml_new_graph_custom(ctx, 8, False)
        ggml.ggml_build_forward_expand(graph, y)
        assert ggml.ggml_graph_compute_with_ctx(ctx, graph, 1) == 0 and ggml.ggml_get_f32_1d(y, 36) == 9
        print(*[row["name"] for row in _core.isa_info() if row["chosen"]])
    """, env={**os.environ, "GGML_ISA": name})  # fmt: skip
    assert out.split() == [name]


def test_unknown_isa(child):
    with pytest.raises(AssertionError, match="GGML_ISA: 'mmx' is not in this build"):
        child("import ggml", env={**os.environ, "GGML_ISA": "mmx"})
    with pytest.raises(ValueError, match="GGML_ISA: 'mmx' is not in this build"):
        _core.isa_select("mmx")
    assert _core.isa_select(ISAS[0]) == ISAS[0] and _core.isa_select(None) == ISAS[-1]
