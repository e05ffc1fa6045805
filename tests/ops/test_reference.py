"""use_ref: on every ISA, a computation with it gives bit for bit what the instruction set `scalar` gives."""

import ctypes

import numpy as np
import pytest
from cases import rows
from cases.harness import ISAS, QUANTISED, Call, context, graph_of, isa, memory, quantized, type_id

import ggml

ROWS = rows()
OTHERS = [name for name in ISAS if name != "scalar"]


def plan(graph, threads, use_ref):
    p = ggml.ggml_graph_plan(graph, threads, None)
    p.use_ref = use_ref
    work = np.empty(max(p.work_size, 1), np.uint8)
    p.work_data = ctypes.cast(work.ctypes.data, ctypes.POINTER(ctypes.c_uint8))
    return p, work


def run(graph, threads, use_ref):
    p, work = plan(graph, threads, use_ref)
    assert ggml.ggml_graph_compute(graph, ctypes.byref(p)) == ggml.GGML_STATUS_SUCCESS
    del work


def compare(graph, out, reset, note):
    """Computes with the kernels of `scalar`, and by use_ref under every other instruction set."""
    with isa("scalar"):
        reset()
        run(graph, 1, False)
        want = memory(out).copy()
    for name in OTHERS:
        with isa(name):
            for threads in (1, 2):
                reset()
                run(graph, threads, True)
                np.testing.assert_array_equal(memory(out), want, f"{note}, {name}, {threads} threads")


@pytest.mark.skipif(not OTHERS, reason="this CPU has the instruction set scalar only")
@pytest.mark.parametrize("name", sorted(ROWS))
def test_operations(name):
    op = ROWS[name]
    for i in range(len(op.samples)):
        for types in op.types or ("F32",):
            with context() as ctx:
                call = Call(ctx, op, op.args(i), types=types, param=op.params)
                compare(graph_of(ctx, call.out), call.out, call.reset, f"{name}, sample {i}, {types}")


def floats(ctx, *ne):
    t = ggml.ggml_new_tensor(ctx, ggml.GGML_TYPE_F32, len(ne), (ctypes.c_int64 * len(ne))(*ne))
    memory(t).view(np.float32)[:] = np.random.default_rng(3).standard_normal(ggml.ggml_nelements(t))
    return t


def indices(ctx, values):
    t = ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_I32, len(values))
    memory(t).view(np.int32)[:] = values
    return t


@pytest.mark.skipif(not OTHERS, reason="this CPU has the instruction set scalar only")
@pytest.mark.parametrize("type", QUANTISED)
def test_quantised_types(type):
    """All operations that take quantised operands: products, rows, conversions, sums, attention."""
    with context() as ctx:
        k = 512
        w = quantized(ctx, np.random.default_rng(1).standard_normal((1, 1, 70, k)), type)
        experts = quantized(ctx, np.random.default_rng(2).standard_normal((1, 3, 20, k)), type)
        ids = ggml.ggml_reshape_2d(ctx, indices(ctx, [0, 2, 1, 1]), 2, 2)
        outs = [ggml.ggml_mul_mat(ctx, w, floats(ctx, k, n)) for n in (1, 2, 40)]
        outs += [
            ggml.ggml_out_prod(ctx, w, floats(ctx, 30, 70)),
            ggml.ggml_mul_mat_id(ctx, experts, floats(ctx, k, 2, 2), ids),
            ggml.ggml_get_rows(ctx, w, indices(ctx, [3, 69, 3])),
            ggml.ggml_cast(ctx, w, ggml.GGML_TYPE_F32),
            ggml.ggml_cast(ctx, w, ggml.GGML_TYPE_F16),
            ggml.ggml_flash_attn_ext(ctx, floats(ctx, k, 5, 1), w, w, None, 0.1, 0, 0),
        ]
        if not ggml.ggml_quantize_requires_imatrix(type_id(type)):
            outs += [ggml.ggml_cast(ctx, floats(ctx, k, 33), type_id(type)), ggml.ggml_add(ctx, w, floats(ctx, k, 70))]
        for out in outs:
            op = ggml.ggml_op_name(out.contents.op).decode()
            compare(graph_of(ctx, out), out, lambda out=out: memory(out).fill(0xFF), f"{type}, {op}")


@pytest.mark.skipif(not OTHERS, reason="this CPU has the instruction set scalar only")
def test_the_cpu_backend_takes_the_reference_kernels():
    with context(mem_size=1 << 20, no_alloc=True) as ctx, isa(OTHERS[-1]):
        cpu = ggml.ggml_backend_cpu_init()
        a = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 1000, 50)
        b = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, 1000, 50)
        out = ggml.ggml_mul_mat(ctx, a, b)
        graph = graph_of(ctx, out)
        buffer = ggml.ggml_backend_alloc_ctx_tensors(ctx, cpu)
        for seed, t in enumerate((a, b)):
            memory(t).view(np.float32)[:] = np.random.default_rng(seed).standard_normal(50000)
        results = {}
        for name, use_ref in (("scalar", False), (OTHERS[-1], True), (OTHERS[-1], False)):
            with isa(name):
                ggml.ggml_backend_cpu_set_use_ref(cpu, use_ref)
                assert ggml.ggml_backend_graph_compute(cpu, graph) == ggml.GGML_STATUS_SUCCESS
                results[name, use_ref] = memory(out).copy()
        np.testing.assert_array_equal(results[OTHERS[-1], True], results["scalar", False])
        assert not np.array_equal(results[OTHERS[-1], False], results["scalar", False])
        ggml.ggml_backend_buffer_free(buffer)
        ggml.ggml_backend_free(cpu)
